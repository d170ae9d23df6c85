/*
   The order of the chunks: reverse Cuthill-McKee for the graph of the chunks, in which two chunks are neighbours if one has columns
   in the other. Values are not moved. If the order of the rows has a large bandwidth, fewer chunks are in use at a time
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* Finds the chunks that chunk c has columns in, each once; mark is c for those that have been found */
static PetscInt IDRSStreamNeighbours(PetscInt nchunks, const PetscInt starts[], const PetscInt i[], const PetscInt j[], PetscInt c,
                                     PetscInt mark[], PetscInt found[])
{
  PetscInt count = 0;

  mark[c]        = c;
  found[count++] = c;
  for (PetscInt p = i[starts[c]]; p < i[starts[c + 1]]; p++) {
    const PetscInt other = IDRSStreamSearch(nchunks, starts, j[p]);

    if (mark[other] == c) continue;
    mark[other]    = c;
    found[count++] = other;
  }
  return count;
}

/*
   IDRSStreamOrder - Returns the chunk at each place of an order, for chunks that begin with rows starts[0], starts[1], ... of a
   matrix with as many columns as rows
*/
PetscErrorCode IDRSStreamOrder(PetscInt nchunks, const PetscInt starts[], const PetscInt i[], const PetscInt j[], PetscInt order[])
{
  const PetscInt *places;
  PetscInt       *mark, *found, *lengths;
  Mat             graph;
  IS              rows, columns;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(nchunks, &mark, nchunks, &found, nchunks, &lengths));
  for (PetscInt c = 0; c < nchunks; c++) mark[c] = -1;
  for (PetscInt c = 0; c < nchunks; c++) lengths[c] = IDRSStreamNeighbours(nchunks, starts, i, j, c, mark, found);
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, nchunks, nchunks, 0, lengths, &graph));
  for (PetscInt c = 0; c < nchunks; c++) mark[c] = -1;
  for (PetscInt c = 0; c < nchunks; c++) {
    const PetscInt count = IDRSStreamNeighbours(nchunks, starts, i, j, c, mark, found);

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
