/*
   How PETSc gets to know of libpetscidrs: by -dll_append, which calls PetscDLLibraryRegister_petscidrs(), or by a program
   that calls KSPIDRSRegister()
*/
#include "../impls/idrs/idrsimpl.h"
#if PetscDefined(HAVE_CUDA)
  #include "../../vec/sf/sfnccl.h"
#endif

static PetscBool KSPIDRSRegistered = PETSC_FALSE;

static PetscErrorCode KSPIDRSFinalize(void)
{
  PetscFunctionBegin;
  KSPIDRSRegistered = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  KSPIDRSRegister - Registers `KSPIDRS` with PETSc, and `PETSCSFNCCL` where it has CUDA

  Not Collective

  Level: beginner

  Notes:
  Call it after `PetscInitialize()` in programs that link libpetscidrs; it may be called more than once. Other programs load the library with
  the option `-dll_append path/libpetscidrs.so`, which calls this function.

  The library works with the minor release of PETSc that it was compiled with, and says so if it meets another.

.seealso: `KSPIDRS`, `PETSCSFNCCL`, `KSPRegister()`
@*/
PetscErrorCode KSPIDRSRegister(void)
{
  PetscInt major, minor, subminor, release;

  PetscFunctionBegin;
  if (KSPIDRSRegistered) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscGetVersionNumber(&major, &minor, &subminor, &release));
  PetscCheck(major == PETSC_VERSION_MAJOR && minor == PETSC_VERSION_MINOR, PETSC_COMM_SELF, PETSC_ERR_LIB, "libpetscidrs was compiled with PETSc %d.%d, and this is PETSc %d.%d: compile it with this one", PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, (int)major, (int)minor);
  KSPIDRSRegistered = PETSC_TRUE;
  PetscCall(KSPRegister(KSPIDRS, KSPCreate_IDRS));
  PetscCall(IDRSRegisterEvents());
#if PetscDefined(HAVE_CUDA)
  PetscCall(PetscSFRegister(PETSCSFNCCL, PetscSFCreate_NCCL));
#endif
  PetscCall(PetscRegisterFinalize(KSPIDRSFinalize));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PETSC_EXTERN PetscErrorCode PetscDLLibraryRegister_petscidrs(void);

/* The name that PETSc looks up in a library called libpetscidrs */
PetscErrorCode PetscDLLibraryRegister_petscidrs(void)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSRegister());
  PetscFunctionReturn(PETSC_SUCCESS);
}
