/*
   The scatter of several columns of X. Its roots are only the rows that other processes need, so that no other rows are copied from
   columns to row-major order
*/
#include "idrsrowscatter.h"
#include <petscidrs/private/idrscompat.h>

/* IDRSRowScatterCreate - Creates the scatter of a MATMPIAIJCUSPARSE; collective */
PetscErrorCode IDRSRowScatterCreate(Mat A, IDRSRowScatter *newscatter)
{
  const MPI_Comm     comm = PetscObjectComm((PetscObject)A);
  const PetscInt    *garray, *degrees;
  const PetscSFNode *from;
  PetscSFNode       *to;
  PetscLayout        layout;
  PetscSF            all;
  PetscInt           n, *places, *found;
  Mat                outside;
  IDRSRowScatter     rowscatter;

  PetscFunctionBegin;
  PetscCall(PetscNew(&rowscatter));
  *newscatter = rowscatter;
  PetscCall(MatMPIAIJGetSeqAIJ(A, NULL, &outside, &garray));
  PetscCall(MatGetLocalSize(outside, NULL, &rowscatter->nghosts));
  PetscCall(MatGetLayouts(A, NULL, &layout));
  PetscCall(PetscLayoutGetLocalSize(layout, &n));
  PetscCall(PetscSFCreate(comm, &all));
  PetscCall(PetscSFSetGraphLayout(all, layout, rowscatter->nghosts, NULL, PETSC_COPY_VALUES, garray));

  /* the rows that are roots of a scatter from all rows of X */
  PetscCall(PetscCalloc1(n, &places));
  PetscCall(PetscSFComputeDegreeBegin(all, &degrees));
  PetscCall(PetscSFComputeDegreeEnd(all, &degrees));
  for (PetscInt i = 0; i < n; i++) rowscatter->count += degrees[i] > 0;
  PetscCall(PetscMalloc1(rowscatter->count, &rowscatter->rows));
  rowscatter->count = 0;
  for (PetscInt i = 0; i < n; i++) {
    if (!degrees[i]) continue;
    places[i]                             = rowscatter->count;
    rowscatter->rows[rowscatter->count++] = i;
  }

  /* the same leaves, with indices among these rows as roots: ghost i is row found[i] of the rows that its process sends */
  PetscCall(PetscMalloc1(rowscatter->nghosts, &found));
  PetscCall(PetscSFBcastBegin(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFBcastEnd(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFGetGraph(all, NULL, NULL, NULL, &from));
  PetscCall(PetscMalloc1(rowscatter->nghosts, &to));
  for (PetscInt i = 0; i < rowscatter->nghosts; i++) {
    to[i].rank  = from[i].rank;
    to[i].index = found[i];
  }
  PetscCall(PetscSFCreate(comm, &rowscatter->sf));
  PetscCall(PetscSFSetFromOptions(rowscatter->sf));
  PetscCall(
    PetscSFSetGraph(rowscatter->sf, rowscatter->count, rowscatter->nghosts, NULL, PETSC_OWN_POINTER, to, PETSC_OWN_POINTER));
  PetscCall(PetscFree(found));
  PetscCall(PetscFree(places));
  PetscCall(PetscSFDestroy(&all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSRowScatterBegin - Begins to send k numbers of each row. rows[] and ghosts[] are row-major, in the memory of the GPU */
PetscErrorCode IDRSRowScatterBegin(IDRSRowScatter rowscatter, PetscInt k, const PetscScalar rows[], PetscScalar ghosts[])
{
  PetscFunctionBegin;
  if (!rowscatter->units[k]) { /* kept, because PetscSF keeps buffers for each datatype */
    PetscCallMPI(MPI_Type_contiguous((PetscMPIInt)k, MPIU_SCALAR, &rowscatter->units[k]));
    PetscCallMPI(MPI_Type_commit(&rowscatter->units[k]));
  }
  PetscCall(PetscSFBcastWithMemTypeBegin(rowscatter->sf, rowscatter->units[k], PETSC_MEMTYPE_CUDA, rows, PETSC_MEMTYPE_CUDA, ghosts,
                                         MPI_REPLACE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSRowScatterEnd(IDRSRowScatter rowscatter, PetscInt k, const PetscScalar rows[], PetscScalar ghosts[])
{
  PetscFunctionBegin;
  PetscCall(PetscSFBcastEnd(rowscatter->sf, rowscatter->units[k], rows, ghosts, MPI_REPLACE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSRowScatterDestroy(IDRSRowScatter *rowscatter)
{
  PetscFunctionBegin;
  if (!*rowscatter) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt k = 0; k <= IDRS_MAX_WIDTH; k++) {
    if ((*rowscatter)->units[k]) PetscCallMPI(MPI_Type_free(&(*rowscatter)->units[k]));
  }
  PetscCall(PetscSFDestroy(&(*rowscatter)->sf));
  PetscCall(PetscFree((*rowscatter)->rows));
  PetscCall(PetscFree(*rowscatter));
  PetscFunctionReturn(PETSC_SUCCESS);
}
