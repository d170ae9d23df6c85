/*
   The scatter of several columns of X. Its roots are not the rows of X but those that travel, so that no more than these is copied from columns to rows
*/
#include "idrshalo.h"
#include <petscidrs/private/idrscompat.h>

/* The rows that are roots of a scatter from all rows of X */
static PetscErrorCode IDRSHaloRows(PetscSF all, PetscInt n, IDRSHalo halo)
{
  const PetscInt *degrees;

  PetscFunctionBegin;
  PetscCall(PetscSFComputeDegreeBegin(all, &degrees));
  PetscCall(PetscSFComputeDegreeEnd(all, &degrees));
  for (PetscInt i = 0; i < n; i++) halo->count += degrees[i] > 0;
  PetscCall(PetscMalloc1(halo->count, &halo->rows));
  halo->count = 0;
  for (PetscInt i = 0; i < n; i++) {
    if (degrees[i] > 0) halo->rows[halo->count++] = i;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same leaves, whose roots are places among the rows that travel */
static PetscErrorCode IDRSHaloGraph(PetscSF all, PetscInt n, IDRSHalo halo)
{
  const PetscSFNode *from;
  PetscSFNode       *to;
  PetscInt          *places, *found;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(n, &places));
  PetscCall(PetscMalloc1(halo->nghosts, &found));
  for (PetscInt i = 0; i < halo->count; i++) places[halo->rows[i]] = i;
  PetscCall(PetscSFBcastBegin(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFBcastEnd(all, MPIU_INT, places, found, MPI_REPLACE));
  PetscCall(PetscSFGetGraph(all, NULL, NULL, NULL, &from));
  PetscCall(PetscMalloc1(halo->nghosts, &to));
  for (PetscInt i = 0; i < halo->nghosts; i++) {
    to[i].rank  = from[i].rank;
    to[i].index = found[i];
  }
  PetscCall(PetscSFSetGraph(halo->sf, halo->count, halo->nghosts, NULL, PETSC_OWN_POINTER, to, PETSC_OWN_POINTER));
  PetscCall(PetscFree(places));
  PetscCall(PetscFree(found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSHaloCreate - For a MATMPIAIJ or MATMPIAIJCUSPARSE; collective */
PetscErrorCode IDRSHaloCreate(Mat A, IDRSHalo *newhalo)
{
  const MPI_Comm  comm = PetscObjectComm((PetscObject)A);
  const PetscInt *garray;
  PetscLayout     layout;
  PetscSF         all;
  PetscInt        n;
  Mat             outside;
  IDRSHalo        halo;

  PetscFunctionBegin;
  PetscCall(PetscNew(&halo));
  *newhalo = halo;
  PetscCall(MatMPIAIJGetSeqAIJ(A, NULL, &outside, &garray));
  PetscCall(MatGetLocalSize(outside, NULL, &halo->nghosts));
  PetscCall(MatGetLayouts(A, NULL, &layout));
  PetscCall(PetscLayoutGetLocalSize(layout, &n));
  PetscCall(PetscSFCreate(comm, &all));
  PetscCall(PetscSFSetGraphLayout(all, layout, halo->nghosts, NULL, PETSC_COPY_VALUES, garray));
  PetscCall(IDRSHaloRows(all, n, halo));
  PetscCall(PetscSFCreate(comm, &halo->sf));
  PetscCall(PetscSFSetFromOptions(halo->sf));
  PetscCall(IDRSHaloGraph(all, n, halo));
  PetscCall(PetscSFDestroy(&all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The datatype of k scalars, which PetscSF keeps buffers for */
static PetscErrorCode IDRSHaloUnit(IDRSHalo halo, PetscInt k, MPI_Datatype *unit)
{
  PetscFunctionBegin;
  if (!halo->units[k]) {
    PetscCallMPI(MPI_Type_contiguous((PetscMPIInt)k, MPIU_SCALAR, &halo->units[k]));
    PetscCallMPI(MPI_Type_commit(&halo->units[k]));
  }
  *unit = halo->units[k];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSHaloBegin - k numbers of each row that travels set out, rows[] and ghosts[] being arrays by rows in this kind of memory */
PetscErrorCode IDRSHaloBegin(IDRSHalo halo, PetscInt k, PetscMemType memory, const PetscScalar rows[], PetscScalar ghosts[])
{
  MPI_Datatype unit;

  PetscFunctionBegin;
  PetscCall(IDRSHaloUnit(halo, k, &unit));
  PetscCall(PetscSFBcastWithMemTypeBegin(halo->sf, unit, memory, rows, memory, ghosts, MPI_REPLACE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSHaloEnd(IDRSHalo halo, PetscInt k, const PetscScalar rows[], PetscScalar ghosts[])
{
  PetscFunctionBegin;
  PetscCall(PetscSFBcastEnd(halo->sf, halo->units[k], rows, ghosts, MPI_REPLACE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSHaloDestroy(IDRSHalo *halo)
{
  PetscFunctionBegin;
  if (!*halo) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt k = 0; k <= IDRS_MAX_WIDTH; k++) {
    if ((*halo)->units[k]) PetscCallMPI(MPI_Type_free(&(*halo)->units[k]));
  }
  PetscCall(PetscSFDestroy(&(*halo)->sf));
  PetscCall(PetscFree((*halo)->rows));
  PetscCall(PetscFree(*halo));
  PetscFunctionReturn(PETSC_SUCCESS);
}
