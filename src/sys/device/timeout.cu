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

/* IDRSGetPolls - Returns how often a thread of a kernel polls within the timeout, from 1.6 million loads a second on an H100 */
unsigned int IDRSGetPolls(void)
{
  return (unsigned int)PetscMin(PetscMax(1.6e6 * (PetscLogDouble)IDRSTimeout, 1.0), 4294967295.0);
}
