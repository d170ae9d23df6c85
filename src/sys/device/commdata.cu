#include "commdata.h"
#include <petscidrs/private/idrscompat.h>

#define IDRS_COMM_KINDS 2 /* of data: mailboxes and NCCL */

/* The attribute, in the order of creation */
typedef struct {
  int             count;
  IDRSCommDestroy destroy[IDRS_COMM_KINDS];
  void           *data[IDRS_COMM_KINDS];
} IDRSCommData;

static PetscMPIInt IDRSCommKeyval = MPI_KEYVAL_INVALID;

/* Called by MPI on all processes when the communicator is freed */
static int MPIAPI IDRSCommDataFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  IDRSCommData *all = (IDRSCommData *)attribute;

  while (all->count-- > 0) (*all->destroy[all->count])(comm, all->data[all->count]);
  delete all;
  return MPI_SUCCESS;
}

static PetscErrorCode IDRSCommDataFinalize(void)
{
  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_free_keyval(&IDRSCommKeyval));
  IDRSCommKeyval = MPI_KEYVAL_INVALID;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCommDataFind - Sets the pointer `data` to the data of this kind, or to NULL */
PetscErrorCode IDRSCommDataFind(MPI_Comm comm, IDRSCommDestroy destroy, void *data)
{
  IDRSCommData *all;
  PetscMPIInt   found = 0;

  PetscFunctionBegin;
  *(void **)data = NULL;
  if (IDRSCommKeyval != MPI_KEYVAL_INVALID) PetscCallMPI(MPI_Comm_get_attr(comm, IDRSCommKeyval, &all, &found));
  for (int i = 0; found && i < all->count; i++) {
    if (all->destroy[i] == destroy) *(void **)data = all->data[i];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCommDataAdd - Adds data of another kind, in the same order on all processes */
PetscErrorCode IDRSCommDataAdd(MPI_Comm comm, IDRSCommDestroy destroy, void *data)
{
  IDRSCommData *all;
  PetscMPIInt   found;

  PetscFunctionBegin;
  if (IDRSCommKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSCommDataFree, &IDRSCommKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSCommDataFinalize));
  }
  PetscCallMPI(MPI_Comm_get_attr(comm, IDRSCommKeyval, &all, &found));
  if (!found) {
    all = new IDRSCommData();
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSCommKeyval, all));
  }
  all->destroy[all->count] = destroy;
  all->data[all->count++]  = data;
  PetscFunctionReturn(PETSC_SUCCESS);
}
