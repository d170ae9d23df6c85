/*
   The order of the chunks: that of reverse Cuthill and McKee for the graph of the chunks, where two of them are neighbours if one
   has columns in the other. So values stay where they are, and the chunks in use at a time are fewer where the rows of the matrix
   are in an order of large bandwidth
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* The chunks that chunk c has columns in, each once; mark is c for those that have been seen */
static PetscInt Neighbours(IDRSStreamPattern pattern, const PetscInt i[], const PetscInt j[], PetscInt c, PetscInt mark[],
                           PetscInt found[])
{
  const IDRSStreamChunk *chunk = &pattern->chunks[c];
  PetscInt               count = 0;

  mark[c]        = c;
  found[count++] = c;
  for (PetscInt p = i[chunk->row]; p < i[chunk->row + chunk->rows]; p++) {
    const PetscInt other = IDRSStreamChunkOf(pattern, j[p]);

    if (mark[other] == c) continue;
    mark[other]    = c;
    found[count++] = other;
  }
  return count;
}

/*
   IDRSStreamOrder - An order of chunks that are in the order of their rows, which has no ghosts and as many columns as rows

   Input Parameters:
+  pattern - the chunks
.  i       - where rows begin
-  j       - columns

   Output Parameter:
.  order - which chunk is at each place
*/
PetscErrorCode IDRSStreamOrder(IDRSStreamPattern pattern, const PetscInt i[], const PetscInt j[], PetscInt order[])
{
  const PetscInt  nchunks = pattern->nchunks;
  const PetscInt *places;
  PetscInt       *mark, *found, *lengths;
  Mat             graph;
  IS              rows, columns;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(nchunks, &mark, nchunks, &found, nchunks, &lengths));
  for (PetscInt c = 0; c < nchunks; c++) mark[c] = -1;
  for (PetscInt c = 0; c < nchunks; c++) lengths[c] = Neighbours(pattern, i, j, c, mark, found);
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, nchunks, nchunks, 0, lengths, &graph));
  for (PetscInt c = 0; c < nchunks; c++) mark[c] = -1;
  for (PetscInt c = 0; c < nchunks; c++) {
    const PetscInt count = Neighbours(pattern, i, j, c, mark, found);

    for (PetscInt k = 0; k < count; k++) PetscCall(MatSetValue(graph, c, found[k], 1.0, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(graph, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(graph, MAT_FINAL_ASSEMBLY));
  PetscCall(MatGetOrdering(graph, MATORDERINGRCM, &rows, &columns)); /* of the symmetric graph */
  PetscCall(ISGetIndices(rows, &places));
  PetscCall(PetscArraycpy(order, places, nchunks));
  PetscCall(ISRestoreIndices(rows, &places));
  PetscCall(ISDestroy(&columns));
  PetscCall(ISDestroy(&rows));
  PetscCall(MatDestroy(&graph));
  PetscCall(PetscFree3(mark, found, lengths));
  PetscFunctionReturn(PETSC_SUCCESS);
}
