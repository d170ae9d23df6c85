#include "commdata.h"
#include <petscidrs/private/idrscompat.h>

typedef struct _n_IDRSCommData *IDRSCommData;
struct _n_IDRSCommData {
  IDRSCommDestroy destroy;
  void           *data;
  IDRSCommData    earlier;
};

/* The attribute is a list that begins with an empty entry */
static PetscMPIInt IDRSCommKeyval = MPI_KEYVAL_INVALID;

/* Called by MPI on all processes when the communicator is freed */
static int MPIAPI IDRSCommDataFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  for (IDRSCommData entry = (IDRSCommData)attribute, earlier; entry; entry = earlier) {
    earlier = entry->earlier;
    if (entry->destroy) (*entry->destroy)(comm, entry->data);
    delete entry;
  }
  return MPI_SUCCESS;
}

static PetscErrorCode IDRSCommDataFinalize(void)
{
  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_free_keyval(&IDRSCommKeyval));
  IDRSCommKeyval = MPI_KEYVAL_INVALID;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCommDataGetList(MPI_Comm comm, IDRSCommData *list)
{
  PetscMPIInt found = 0;

  PetscFunctionBegin;
  if (IDRSCommKeyval != MPI_KEYVAL_INVALID) PetscCallMPI(MPI_Comm_get_attr(comm, IDRSCommKeyval, list, &found));
  if (!found) *list = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCommDataFind - Sets the pointer `data` to the data of this kind, or to NULL */
PetscErrorCode IDRSCommDataFind(MPI_Comm comm, IDRSCommDestroy destroy, void *data)
{
  IDRSCommData entry;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataGetList(comm, &entry));
  while (entry && entry->destroy != destroy) entry = entry->earlier;
  *(void **)data = entry ? entry->data : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCommDataAdd - Adds data of another kind, in the same order on all processes */
PetscErrorCode IDRSCommDataAdd(MPI_Comm comm, IDRSCommDestroy destroy, void *data)
{
  IDRSCommData list;

  PetscFunctionBegin;
  if (IDRSCommKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSCommDataFree, &IDRSCommKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSCommDataFinalize));
  }
  PetscCall(IDRSCommDataGetList(comm, &list));
  if (!list) {
    list = new _n_IDRSCommData();
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSCommKeyval, list));
  }
  list->earlier = new _n_IDRSCommData{destroy, data, list->earlier};
  PetscFunctionReturn(PETSC_SUCCESS);
}
