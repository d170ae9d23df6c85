/*
   The scatter of several columns of X. Its roots are only the rows that other processes need, so that no other rows are copied from
   columns to row-major order
*/
#include "idrsrowscatter.h"
#include <petscidrs/private/idrscompat.h>

/* Finds the rows that are roots of a scatter from all rows of X */
static PetscErrorCode IDRSRowScatterRows(PetscSF all, PetscInt n, IDRSRowScatter rowscatter)
{
  const PetscInt *degrees;

  PetscFunctionBegin;
  PetscCall(PetscSFComputeDegreeBegin(all, &degrees));
  PetscCall(PetscSFComputeDegreeEnd(all, &degrees));
  for (PetscInt i = 0; i < n; i++) rowscatter->count += degrees[i] > 0;
  PetscCall(PetscMalloc1(rowscatter->count, &rowscatter->rows));
  rowscatter->count = 0;
  for (PetscInt i = 0; i < n; i++) {
    if (degrees[i] > 0) rowscatter->rows[rowscatter->count++] = i;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the graph: the same leaves, with indices among the rows to send as roots */
static PetscErrorCode IDRSRowScatterGraph(PetscSF all, PetscInt n, IDRSRowScatter rowscatter)
{
  const PetscSFNode *from;
  PetscSFNode       *to;
  PetscInt          *places, *found;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(n, &places));
  PetscCall(PetscMalloc1(rowscatter->nghosts, &found));
  for (PetscInt i = 0; i < rowscatter->count; i++) places[rowscatter->rows[i]] = i;
  PetscCall(PetscSFBcastBegin(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFBcastEnd(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFGetGraph(all, NULL, NULL, NULL, &from));
  PetscCall(PetscMalloc1(rowscatter->nghosts, &to));
  for (PetscInt i = 0; i < rowscatter->nghosts; i++) {
    /* ghost i is row found[i] of the rows that its process sends */
    to[i].rank  = from[i].rank;
    to[i].index = found[i];
  }
  PetscCall(
    PetscSFSetGraph(rowscatter->sf, rowscatter->count, rowscatter->nghosts, NULL, PETSC_OWN_POINTER, to, PETSC_OWN_POINTER));
  PetscCall(PetscFree(places));
  PetscCall(PetscFree(found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSRowScatterCreate - Creates the scatter of a MATMPIAIJ or MATMPIAIJCUSPARSE; collective */
PetscErrorCode IDRSRowScatterCreate(Mat A, IDRSRowScatter *newscatter)
{
  const MPI_Comm  comm = PetscObjectComm((PetscObject)A);
  const PetscInt *garray;
  PetscLayout     layout;
  PetscSF         all;
  PetscInt        n;
  Mat             outside;
  IDRSRowScatter  rowscatter;

  PetscFunctionBegin;
  PetscCall(PetscNew(&rowscatter));
  *newscatter = rowscatter;
  PetscCall(MatMPIAIJGetSeqAIJ(A, NULL, &outside, &garray));
  PetscCall(MatGetLocalSize(outside, NULL, &rowscatter->nghosts));
  PetscCall(MatGetLayouts(A, NULL, &layout));
  PetscCall(PetscLayoutGetLocalSize(layout, &n));
  PetscCall(PetscSFCreate(comm, &all));
  PetscCall(PetscSFSetGraphLayout(all, layout, rowscatter->nghosts, NULL, PETSC_COPY_VALUES, garray));
  PetscCall(IDRSRowScatterRows(all, n, rowscatter));
  PetscCall(PetscSFCreate(comm, &rowscatter->sf));
  PetscCall(PetscSFSetFromOptions(rowscatter->sf));
  PetscCall(IDRSRowScatterGraph(all, n, rowscatter));
  PetscCall(PetscSFDestroy(&all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the datatype of k scalars. It is kept, because PetscSF keeps buffers for each datatype */
static PetscErrorCode IDRSRowScatterUnit(IDRSRowScatter rowscatter, PetscInt k, MPI_Datatype *unit)
{
  PetscFunctionBegin;
  if (!rowscatter->units[k]) {
    PetscCallMPI(MPI_Type_contiguous((PetscMPIInt)k, MPIU_SCALAR, &rowscatter->units[k]));
    PetscCallMPI(MPI_Type_commit(&rowscatter->units[k]));
  }
  *unit = rowscatter->units[k];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSRowScatterBegin - Begins to send k numbers of each row. rows[] and ghosts[] are row-major, in this kind of memory */
PetscErrorCode IDRSRowScatterBegin(IDRSRowScatter rowscatter, PetscInt k, PetscMemType memory, const PetscScalar rows[],
                                   PetscScalar ghosts[])
{
  MPI_Datatype unit;

  PetscFunctionBegin;
  PetscCall(IDRSRowScatterUnit(rowscatter, k, &unit));
  PetscCall(PetscSFBcastWithMemTypeBegin(rowscatter->sf, unit, memory, rows, memory, ghosts, MPI_REPLACE));
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
