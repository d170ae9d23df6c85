#include "commdata.h"
#include <petscidrs/private/idrscompat.h>

/* The attribute: one entry for each kind of data */
typedef struct {
  int count;
  struct {
    IDRSCommDestroy destroy;
    void           *data;
  } kind[2];
} IDRSCommData;

static PetscMPIInt IDRSCommKeyval = MPI_KEYVAL_INVALID;

/* Called by MPI on all processes when the communicator is freed */
static int MPIAPI IDRSCommDataFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  IDRSCommData *list = (IDRSCommData *)attribute;

  for (int i = list->count - 1; i >= 0; i--) (*list->kind[i].destroy)(comm, list->kind[i].data);
  delete list;
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
  IDRSCommData *list;
  PetscMPIInt   found = 0;

  PetscFunctionBegin;
  *(void **)data = NULL;
  if (IDRSCommKeyval != MPI_KEYVAL_INVALID) PetscCallMPI(MPI_Comm_get_attr(comm, IDRSCommKeyval, &list, &found));
  for (int i = 0; found && i < list->count; i++) {
    if (list->kind[i].destroy == destroy) *(void **)data = list->kind[i].data;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCommDataAdd - Adds data of another kind, in the same order on all processes */
PetscErrorCode IDRSCommDataAdd(MPI_Comm comm, IDRSCommDestroy destroy, void *data)
{
  IDRSCommData *list;
  PetscMPIInt   found;

  PetscFunctionBegin;
  if (IDRSCommKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSCommDataFree, &IDRSCommKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSCommDataFinalize));
  }
  PetscCallMPI(MPI_Comm_get_attr(comm, IDRSCommKeyval, &list, &found));
  if (!found) {
    list = new IDRSCommData();
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSCommKeyval, list));
  }
  list->kind[list->count++] = {destroy, data};
  PetscFunctionReturn(PETSC_SUCCESS);
}
