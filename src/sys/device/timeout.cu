#include "timeout.h"

static PetscReal IDRSTimeout = 600.0;

/*
   IDRSSetTimeout - Sets the time in seconds after which the host stops waiting for sums and messages of other processes, for all
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

/* IDRSGetPolls - Returns the number of polls of a thread within the timeout, from 1.6 million loads per second on an H100 */
unsigned int IDRSGetPolls(void)
{
  return (unsigned int)PetscMin(PetscMax(1.6e6 * (PetscLogDouble)IDRSTimeout, 1.0), 4294967295.0);
}
