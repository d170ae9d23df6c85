/* Copies of matrices and null spaces for KSPOFFLOAD */
#include <petsc/private/matimpl.h>
#include <petscdevice.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include "offload.h"

/* Copies a null space: its vectors become vectors of the copy, and a function that removes it stays the program's function */
static PetscErrorCode KSPOffloadCopyNullSpace(MatNullSpace from, Mat A, MatNullSpace *to)
{
  PetscBool  constant;
  PetscInt   n;
  const Vec *vecs;
  Vec       *copies, first;

  PetscFunctionBegin;
  *to = NULL;
  if (!from) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatNullSpaceGetVecs(from, &constant, &n, &vecs));
  PetscCall(MatCreateVecs(A, &first, NULL));
  PetscCall(VecDuplicateVecs(first, PetscMax(n, 1), &copies));
  for (PetscInt i = 0; i < n; i++) PetscCall(IDRSVecCopy(vecs[i], copies[i]));
  PetscCall(MatNullSpaceCreate(PetscObjectComm((PetscObject)A), constant, n, copies, to));
  if (from->remove) PetscCall(MatNullSpaceSetFunction(*to, from->remove, from->rmctx));
  PetscCall(VecDestroyVecs(PetscMax(n, 1), &copies));
  PetscCall(VecDestroy(&first));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The program may set a null space at any time, so each update compares them */
static PetscErrorCode KSPOffloadUpdateNullSpaces(Mat A, OffloadMat *copy)
{
  PetscErrorCode (*const get[])(Mat, MatNullSpace *) = {MatGetNullSpace, MatGetTransposeNullSpace, MatGetNearNullSpace};
  PetscErrorCode (*const set[])(Mat, MatNullSpace)   = {MatSetNullSpace, MatSetTransposeNullSpace, MatSetNearNullSpace};
  MatNullSpace  space, same;
  PetscObjectId id;

  PetscFunctionBegin;
  for (int i = 0; i < OFFLOAD_NULL_SPACES; i++) {
    id = 0;
    PetscCall((*get[i])(A, &space));
    if (space) PetscCall(PetscObjectGetId((PetscObject)space, &id));
    if (id == copy->spaces[i]) continue;
    PetscCall(KSPOffloadCopyNullSpace(space, copy->mat, &same));
    PetscCall((*set[i])(copy->mat, same));
    PetscCall(MatNullSpaceDestroy(&same));
    copy->spaces[i] = id;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the values of a matrix of type MATSEQAIJ to another one with the same pattern */
static PetscErrorCode KSPOffloadCopySeqValues(Mat from, Mat to)
{
  MatInfo            info;
  IDRSMemory         memory;
  const PetscScalar *source;
  PetscScalar       *target;

  PetscFunctionBegin;
  PetscCall(MatGetInfo(from, MAT_LOCAL, &info));
  PetscCall(IDRSMatWhere(to, &memory));
  PetscCall(MatSeqAIJGetArrayRead(from, &source));
  if (memory == IDRS_MEMORY_CUDA) PetscCall((*IDRSGetDevice(memory)->sendvalues)(source, to));
  else {
    PetscCall(MatSeqAIJGetArrayWrite(to, &target));
    PetscCall(PetscArraycpy(target, source, (size_t)info.nz_used));
    PetscCall(MatSeqAIJRestoreArrayWrite(to, &target));
  }
  PetscCall(MatSeqAIJRestoreArrayRead(from, &source));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies new values, for the pattern that the copy has: both blocks of the rows of this process */
static PetscErrorCode KSPOffloadCopyValues(Mat from, MatType type, Mat *to)
{
  PetscBool aij;
  Mat       diagonal[2], outer[2];

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)*to, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  if (aij) { /* on one process the types may be sequential and parallel */
    PetscCall(IDRSRowsGetBlocks(from, &diagonal[0], &outer[0], NULL));
    PetscCall(IDRSRowsGetBlocks(*to, &diagonal[1], &outer[1], NULL));
    PetscCall(KSPOffloadCopySeqValues(diagonal[0], diagonal[1]));
    if (outer[0]) PetscCall(KSPOffloadCopySeqValues(outer[0], outer[1]));
  } else PetscCall(MatConvert(from, type, MAT_REUSE_MATRIX, to));
  PetscCall(PetscObjectStateIncrease((PetscObject)*to));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports an error if a matrix has no entries that can be copied */
static PetscErrorCode KSPOffloadCheckType(Mat A, const char prefix[], MatType type)
{
  PetscBool supported;

  PetscFunctionBegin;
  PetscCheck(type, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP,
             "-%sksp_type offload: this library has no back end for GPUs, which needs a PETSc with CUDA, 3.20 or newer; use "
             "-%soffload_mat_type aij for copies in the memory of the host",
             prefix, prefix);
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &supported, MATSEQAIJ, MATMPIAIJ, MATSEQBAIJ, MATMPIBAIJ, MATSEQSBAIJ,
                                          MATMPISBAIJ, MATSEQSELL, MATMPISELL, MATIS, MATSEQDENSE, MATMPIDENSE, MATNEST, ""));
  PetscCheck(
    supported, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP,
    "-%sksp_type offload: a matrix of type %s cannot be copied; the types are aij, baij, sbaij, sell, is, dense and nest of these",
    prefix, ((PetscObject)A)->type_name);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports an error if there is no GPU, or if it has no room for the copy of this matrix of type MATAIJ. Collective */
static PetscErrorCode KSPOffloadCheckDevice(Mat A, const char prefix[])
{
#if defined(PETSCIDRS_HAVE_CUDA)
  MPI_Comm       comm = PetscObjectComm((PetscObject)A);
  MatInfo        info;
  PetscBool      exists;
  PetscLogDouble available;
  PetscReal      needed;

  PetscFunctionBegin;
  PetscCall(IDRSDeviceExists(comm, &exists));
  PetscCheck(exists, comm, PETSC_ERR_SUP_SYS,
             "-%sksp_type offload: a process has no GPU; use -%soffload_mat_type aij for copies in the memory of the host", prefix,
             prefix);
  PetscCall(PetscDeviceInitialize(PETSC_DEVICE_CUDA)); /* which chooses the GPU of this process */
  PetscCall(IDRSDeviceAvailable(comm, &available));
  PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
  needed = (PetscReal)(info.nz_used * (sizeof(PetscScalar) + sizeof(IDRSMatIndex)) +
                       (PetscLogDouble)A->rmap->n * sizeof(IDRSMatIndex));
  if (needed <= available) needed = 0.0;
  IDRSCallAllreduce(MPI_IN_PLACE, &needed, 1, MPIU_REAL, MPIU_MAX, comm);
  PetscCheck(needed == 0.0, comm, PETSC_ERR_MEM,
             "-%sksp_type offload: the copy of a matrix needs %g MB on the GPU of a process, which are not free", prefix,
             (double)needed / 1e6);
#else
  PetscFunctionBegin;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPOffloadCreate(Mat A, const char prefix[], MatType type, OffloadMat *copy)
{
  PetscBool aij, cuda;

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  if (!aij) PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &copy->host));
  PetscCall(PetscStrcmp(type, MATAIJCUSPARSE, &cuda));
  if (cuda) PetscCall(KSPOffloadCheckDevice(aij ? A : copy->host, prefix));
  PetscCall(MatConvert(aij ? A : copy->host, type, MAT_INITIAL_MATRIX, &copy->mat));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies symmetry, block sizes and null spaces, which the program may set at any time without a change of the states */
static PetscErrorCode KSPOffloadUpdateAttributes(Mat A, OffloadMat *copy)
{
  PetscInt        blocks, had;
  const PetscInt *sizes, *old;
  PetscBool       same = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(MatPropagateSymmetryOptions(A, copy->mat));
  PetscCall(MatGetVariableBlockSizes(A, &blocks, &sizes));
  PetscCall(MatGetVariableBlockSizes(copy->mat, &had, &old));
  if (blocks == had) PetscCall(PetscArraycmp(sizes, old, blocks, &same));
  if (!same) PetscCall(MatSetVariableBlockSizes(copy->mat, blocks, (PetscInt *)sizes));
  PetscCall(KSPOffloadUpdateNullSpaces(A, copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Adds the states of a matrix, and of the blocks of a nest, which the program may change without a call for the nest */
static PetscErrorCode KSPOffloadAddStates(Mat A, PetscObjectState *state, PetscObjectState *nonzerostate)
{
  PetscBool        nest;
  PetscObjectState own, pattern;
  PetscInt         m, n;
  Mat            **blocks;

  PetscFunctionBegin;
  PetscCall(PetscObjectStateGet((PetscObject)A, &own));
  PetscCall(MatGetNonzeroState(A, &pattern));
  *state += own;
  *nonzerostate += pattern;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATNEST, &nest));
  if (!nest) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatNestGetSubMats(A, &m, &n, &blocks));
  for (PetscInt i = 0; i < m; i++) {
    for (PetscInt j = 0; j < n; j++) {
      if (blocks[i][j]) PetscCall(KSPOffloadAddStates(blocks[i][j], state, nonzerostate));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the memory of the matrix, or an error if it is on a GPU on some processes only. Collective */
static PetscErrorCode KSPOffloadGetPlace(Mat A, const char prefix[], IDRSMemory *place)
{
  PetscMPIInt places[2];

  PetscFunctionBegin;
  PetscCall(IDRSMatWhere(A, place));
  places[0] = *place == IDRS_MEMORY_HOST ? 1 : 0;
  places[1] = 1 - places[0];
  IDRSCallAllreduce(MPI_IN_PLACE, places, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  PetscCheck(!places[0] || !places[1], PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_WRONGSTATE,
             "-%sksp_type offload: the matrix is bound to the CPU on some processes only: bind it on all, with MatBindToCPU(), or "
             "on none",
             prefix);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPOffloadMatUpdate_Private - Makes the copy equal to the program's matrix A, and returns what had to be copied. Collective

   The copy is created again if the program has another matrix, if the nonzero state of the matrix has changed, or if a dense matrix
   has changed, whose zeros are not copied. A matrix that is on a GPU is its own copy.
*/
PetscErrorCode KSPOffloadMatUpdate_Private(Mat A, const char prefix[], MatType type, OffloadMat *copy, OffloadCopied *copied)
{
  PetscObjectId    id;
  PetscObjectState state = 0, nonzerostate = 0;
  PetscBool        dense;
  IDRSMemory       memory;

  PetscFunctionBegin;
  *copied = OFFLOAD_NOTHING;
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &dense, MATSEQDENSE, MATMPIDENSE, ""));
  PetscCall(KSPOffloadAddStates(A, &state, &nonzerostate));
  if (!copy->mat || id != copy->id || nonzerostate != copy->nonzerostate || (dense && state != copy->state)) {
    PetscCall(KSPOffloadMatReset_Private(copy));
    PetscCall(KSPOffloadGetPlace(A, prefix, &memory));
    if (memory == IDRS_MEMORY_HOST) {
      PetscCall(KSPOffloadCheckType(A, prefix, type));
      PetscCall(KSPOffloadCreate(A, prefix, type, copy));
    } else {
      PetscCall(PetscObjectReference((PetscObject)A));
      copy->mat = A;
    }
    *copied = OFFLOAD_PATTERN;
  } else if (state != copy->state && copy->mat != A) {
    if (copy->host) PetscCall(MatConvert(A, MATAIJ, MAT_REUSE_MATRIX, &copy->host));
    PetscCall(KSPOffloadCopyValues(copy->host ? copy->host : A, type, &copy->mat));
    *copied = OFFLOAD_VALUES;
  }
  if (copy->mat != A) PetscCall(KSPOffloadUpdateAttributes(A, copy));
  /* MatConvert() may change the states */
  copy->id    = id;
  copy->state = copy->nonzerostate = 0;
  PetscCall(KSPOffloadAddStates(A, &copy->state, &copy->nonzerostate));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPOffloadMatReset_Private(OffloadMat *copy)
{
  PetscFunctionBegin;
  PetscCall(MatDestroy(&copy->mat));
  PetscCall(MatDestroy(&copy->host));
  PetscCall(PetscArrayzero(copy->spaces, OFFLOAD_NULL_SPACES));
  PetscFunctionReturn(PETSC_SUCCESS);
}
