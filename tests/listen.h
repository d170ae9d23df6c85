/*
   Errors that a test expects: kept instead of printed
*/
#pragma once

#include <petscvec.h>
#include <petscidrs/private/idrscompat.h>

/* The first message of an error; calls that may fail are made between Listen() and Heard(), and not with PetscCall() */
static char message[2048];

static PetscErrorCode Record(MPI_Comm comm, int line, const char *function, const char *file, PetscErrorCode code, PetscErrorType type, const char *text, void *ctx)
{
  if (type == PETSC_ERROR_INITIAL) (void)PetscStrncpy(message, text ? text : "", sizeof(message));
  return code;
}

static PetscErrorCode Listen(void)
{
  PetscFunctionBeginUser;
  message[0] = '\0';
  PetscCall(PetscPushErrorHandler(Record, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Heard(void)
{
  PetscFunctionBeginUser;
  PetscCall(PetscPopErrorHandler());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An error leaves the vectors of the call of PETSc's that has failed locked */
static inline PetscErrorCode Unlock(Vec x)
{
  PetscBool nest;
  PetscInt  locks, parts = 0;
  Vec      *part = NULL;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, VECNEST, &nest));
  if (nest) PetscCall(VecNestGetSubVecs(x, &parts, &part));
  for (PetscInt i = 0; i < parts; i++) PetscCall(Unlock(part[i]));
  PetscCall(VecLockGet(x, &locks));
  for (; locks > 0; locks--) PetscCall(VecLockReadPop(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}
