/*
   The memory of the data: the type of the work vectors, moves of the solution between host and device, and the scatter of the
   operator
*/
#include "idrsimpl.h"
#if defined(PETSCIDRS_HAVE_CUDA)
  #include "../../../vec/is/sf/impls/nccl/sfnccl.h"
#endif

/*
   *mixed is set if the solution is in host memory and the matrix on a device, on some process: then MatMult() needs device
   vectors
*/
static PetscErrorCode KSPIDRSSolutionOnHost_Private(KSP ksp, Mat *A, PetscBool *mixed)
{
  PetscBool   host = PETSC_FALSE, set = PETSC_FALSE, bound = PETSC_FALSE;
  PetscMPIInt all;
  char       *cuda = NULL, *hip = NULL;
  VecType     type;

  PetscFunctionBegin;
  *mixed = PETSC_FALSE;
  if (ksp->vec_sol) PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->vec_sol, &host, VECSEQ, VECMPI, ""));
  if (host) PetscCall(PCGetOperatorsSet(ksp->pc, &set, NULL));
  if (set) {
    PetscCall(PCGetOperators(ksp->pc, A, NULL));
    PetscCall(MatGetVecType(*A, &type));
    PetscCall(PetscStrstr(type, VECCUDA, &cuda));
    PetscCall(PetscStrstr(type, VECHIP, &hip));
    PetscCall(MatBoundToCPU(*A, &bound));
  }
  if (cuda || hip) {
    all = bound ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)ksp));
    *mixed = all ? PETSC_FALSE : PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCreateVecs_Private - Creates work vectors of one type on all processes: like the solution, or on the device with the
   matrix
*/
PetscErrorCode KSPIDRSCreateVecs_Private(KSP ksp, PetscInt count, Vec *vecs[])
{
  Vec       like, *created;
  Mat       A;
  PetscBool mixed;

  PetscFunctionBegin;
  PetscCall(KSPIDRSSolutionOnHost_Private(ksp, &A, &mixed));
  if (mixed) {
    PetscCall(
      PetscInfo(ksp, "Right-hand side and solution are on the host, the matrix is on the device: so are the work vectors\n"));
    PetscCall(MatCreateVecs(A, &like, NULL));
    PetscCall(VecDuplicateVecs(like, count, &created));
    PetscCall(VecDestroy(&like));
  } else PetscCall(KSPCreateVecs(ksp, count, &created, 0, NULL));
  *vecs = created; /* only once it is complete */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   *mixed is set if a CUDA solution is bound to the CPU and the matrix is not: the result of MatMult() would be on the device, where
   such a vector is not read
*/
static PetscErrorCode KSPIDRSBoundOnlySolution_Private(KSP ksp, PetscBool device, PetscBool *mixed)
{
  PetscBool vector;
  IDRSPlace matrix;
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->vec_sol, &vector, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSMatWhere(A, &matrix));
  *mixed = (PetscBool)(vector && !device && matrix == IDRS_PLACE_CUDA);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCheckPlacement_Private - Finds the memory of the solution. *moved is set on all processes if it has changed since the
   last solve: then the work vectors must be created again
*/
PetscErrorCode KSPIDRSCheckPlacement_Private(KSP ksp, PetscBool *moved)
{
  KSP_IDRS     *idrs  = (KSP_IDRS *)ksp->data;
  PetscBool     mixed = PETSC_FALSE, cuda;
  IDRSPlace     place;
  KSPIDRSMemory memory;
  PetscMPIInt   states[2];

  PetscFunctionBegin;
  *moved = PETSC_FALSE;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!cuda) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSVecWhere(ksp->vec_sol, &place));
  PetscCall(KSPIDRSBoundOnlySolution_Private(ksp, (PetscBool)(place != IDRS_PLACE_HOST), &mixed));
  memory    = place == IDRS_PLACE_HOST ? KSPIDRS_HOST : KSPIDRS_DEVICE;
  states[0] = mixed ? 1 : 0;
  states[1] = idrs->memory != KSPIDRS_UNKNOWN && idrs->memory != memory ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  PetscCheck(!states[0], PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE,
             "The solution is bound to the CPU and the matrix is not, on some process at least: bind both, with VecBindToCPU() and "
             "MatBindToCPU(), or none");
  if (states[1]) PetscCall(PetscInfo(ksp, "The solution has moved between host and device: set up again\n"));
  idrs->memory = memory;
  *moved       = states[1] ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSGetScatters_Private - Sets *scatters if the scatter of the operator goes from GPU to GPU by NCCL, which needs PETSc
   3.26
*/
PetscErrorCode KSPIDRSGetScatters_Private(KSP ksp, PetscBool *scatters)
{
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscSF sf;
  Mat     A;
#endif

  PetscFunctionBegin;
  *scatters = PETSC_FALSE;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSMatGetScatter(A, &sf));
  if (sf) PetscCall(IDRSScatterIsNCCL(sf, scatters));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}
