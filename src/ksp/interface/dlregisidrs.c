/* Registration of libpetscidrs, by -dll_append, which calls PetscDLLibraryRegister_petscidrs(), or by KSPIDRSRegister() */
#include "../impls/idrs/idrsimpl.h"
#include "../pc/impls/poly/polyimpl.h"
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrsmemory.h>
#if defined(PETSCIDRS_HAVE_CUDA)
  #include "../../vec/is/sf/impls/nccl/sfnccl.h"
#endif

#if PETSC_VERSION_GE(3, 27, 0)
  #pragma message("libpetscidrs has been tested with the releases of PETSc up to 3.26; this is " PETSC_VERSION_GIT)
#endif

PETSC_INTERN PetscErrorCode KSPCreate_Offload(KSP);
PETSC_INTERN PetscErrorCode KSPOffloadRegisterEvents(void);
PETSC_INTERN PetscErrorCode PCCreate_BJIDRS(PC);
PETSC_INTERN PetscErrorCode PCCreate_Matching(PC);
PETSC_INTERN PetscErrorCode PCCreate_Aggregation(PC);
PETSC_INTERN PetscErrorCode MatSolverTypeRegister_PETScIDRS(void);

static PetscBool KSPIDRSRegistered = PETSC_FALSE;

#if defined(PETSCIDRS_HAVE_CUDA)
/* Registers scatters from GPU to GPU, and reads the timeout of scatters and reductions */
static PetscErrorCode KSPIDRSRegisterNCCL_Private(void)
{
  PetscReal seconds;
  PetscBool set;

  PetscFunctionBegin;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-petscidrs_nccl_timeout", &seconds, &set));
  PetscCheck(!set || seconds > 0.0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE, "-petscidrs_nccl_timeout %g: must be positive",
             (double)seconds);
  if (set) PetscCall(IDRSSetTimeout(seconds));
  PetscCall(PetscSFRegister(PETSCSFNCCL, PetscSFCreate_NCCL));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

static PetscErrorCode KSPIDRSFinalize(void)
{
  PetscFunctionBegin;
  KSPIDRSRegistered = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that the library was compiled for this PETSc, because sizes and structures differ between versions. The types are compared
   first, because a function of PETSc with larger integers would write beyond an integer of this library
*/
static PetscErrorCode KSPIDRSCheckPETSc_Private(void)
{
  PetscDataType scalar, real;
  PetscBool     found;
  size_t        integer;
  PetscInt      major, minor, subminor, release;

  PetscFunctionBegin;
  PetscCall(PetscDataTypeFromString("scalar", &scalar, &found));
  PetscCall(PetscDataTypeFromString("real", &real, &found));
  PetscCall(PetscDataTypeGetSize(PETSC_INT, &integer));
  PetscCheck(scalar == PETSC_SCALAR && real == PETSC_REAL && integer == sizeof(PetscInt), PETSC_COMM_SELF, PETSC_ERR_LIB,
             "libpetscidrs was compiled for scalars of type %s, reals of type %s and integers of %d bytes, and this PETSc has %s, "
             "%s and %d: compile it with this one",
             PetscDataTypes[PETSC_SCALAR], PetscDataTypes[PETSC_REAL], (int)sizeof(PetscInt), PetscDataTypes[scalar],
             PetscDataTypes[real], (int)integer);
  PetscCall(PetscGetVersionNumber(&major, &minor, &subminor, &release));
  PetscCheck(major == PETSC_VERSION_MAJOR && minor == PETSC_VERSION_MINOR, PETSC_COMM_SELF, PETSC_ERR_LIB,
             "libpetscidrs was compiled with PETSc %d.%d, and this is PETSc %d.%d: compile it with this one", PETSC_VERSION_MAJOR,
             PETSC_VERSION_MINOR, (int)major, (int)minor);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  KSPIDRSRegister - Registers `KSPIDRS`, `KSPOFFLOAD`, `PCPOLY`, `PCBJIDRS`, `PCMATCHING`, `PCAGGREGATION`, `MATSOLVERPETSCIDRS` and
  `MATAIJSTREAM` with PETSc and, in a library with back end `cuda`, `PETSCSFNCCL`

  Not Collective

  Options Database Key:
. -petscidrs_nccl_timeout seconds - maximum time that the host waits for reductions and scatters from GPU to GPU (default 600)

  Level: beginner

  Notes:
  Programs that link libpetscidrs call this function after `PetscInitialize()`, at least once. Other programs load the library with
  the option `-dll_append path/libpetscidrs.so`, which calls this function.

  The library requires the minor release of PETSc, the scalars, the precision and the size of integers that it was compiled with.
  Otherwise this function reports an error.

  The timeout is read here, once. After this time a wait ends with an error; then call `KSPReset()` on all processes. Set a larger
  timeout if a process may reach a matvec much later than the others.

.seealso: `KSPIDRS`, `KSPOFFLOAD`, `PCPOLY`, `PCBJIDRS`, `PCMATCHING`, `PCAGGREGATION`, `MATSOLVERPETSCIDRS`, `MATAIJSTREAM`,
          `PETSCSFNCCL`, `KSPRegister()`
@*/
PetscErrorCode KSPIDRSRegister(void)
{
  PetscFunctionBegin;
  if (KSPIDRSRegistered) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSCheckPETSc_Private());
  KSPIDRSRegistered = PETSC_TRUE;
  PetscCall(KSPRegister(KSPIDRS, KSPCreate_IDRS));
  PetscCall(KSPRegister(KSPOFFLOAD, KSPCreate_Offload));
  PetscCall(PCRegister(PCPOLY, PCCreate_Poly));
  PetscCall(PCRegister(PCBJIDRS, PCCreate_BJIDRS));
  PetscCall(PCRegister(PCMATCHING, PCCreate_Matching));
  PetscCall(PCRegister(PCAGGREGATION, PCCreate_Aggregation));
  PetscCall(MatSolverTypeRegister_PETScIDRS());
  PetscCall(MatRegister(MATSEQAIJSTREAM, MatCreate_SeqAIJStream));
  PetscCall(MatRegister(MATMPIAIJSTREAM, MatCreate_MPIAIJStream));
  PetscCall(MatRegisterRootName(MATAIJSTREAM, MATSEQAIJSTREAM, MATMPIAIJSTREAM));
  PetscCall(IDRSRegisterEvents());
  PetscCall(KSPOffloadRegisterEvents());
  PetscCall(IDRSStreamRegisterEvents());
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(KSPIDRSRegisterNCCL_Private());
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
