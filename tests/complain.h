/*
   What a test program found wrong, printed as it goes, up to a limit; all processes come to the same findings
*/
#pragma once

#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>

/* Lists of things that went wrong are cut off here */
#define MAX_COMPLAINTS 20

static KSPIDRSImplementation implementation = KSP_IDRS_AUTO;
static PetscInt              complaints     = 0;

/* Of the solves; in single precision 1e-5 */
static PetscReal rtol = PETSC_MACHINE_EPSILON > 1e-10 ? 100 * PETSC_MACHINE_EPSILON : 1e-8;

/* Prints what went wrong; the verdict of the subject says nothing more then */
static PetscErrorCode Complain(const char format[], ...)
{
  char    text[2048];
  size_t  length;
  va_list arguments;

  PetscFunctionBeginUser;
  va_start(arguments, format);
  PetscCall(PetscVSNPrintf(text, sizeof(text), format, &length, arguments));
  va_end(arguments);
  if (complaints++ < MAX_COMPLAINTS) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "  %s\n", text));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Verdict(const char subject[])
{
  PetscFunctionBeginUser;
  if (complaints) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" PetscInt_FMT " wrong\n", subject, complaints));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: as expected\n", subject));
  complaints = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}
