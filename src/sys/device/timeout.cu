#include "timeout.h"

static PetscReal IDRSTimeout = 600.0;

/*
   IDRSSetTimeout - Sets how many seconds the host waits for the sums and messages of other processes before it gives up, for all
   communicators
*/
PetscErrorCode IDRSSetTimeout(PetscReal seconds)
{
  PetscFunctionBegin;
  IDRSTimeout = seconds;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscReal IDRSGetTimeout(void)
{
  return IDRSTimeout;
}
