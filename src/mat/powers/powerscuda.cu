/*
   Back end "cuda" of the matrix powers: one kernel for each step, with its recurrence and sum, on the arrays of a MATSEQAIJCUSPARSE

   Reads A, D^{-1}, v_{j-1}, v_{j-2} and y once; writes v_j and y. Each of the lanes that share a row adds its entries in the order
   of the columns.
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrsplace.h>
#include <petscidrs/private/idrsproduct.h>
#include <petsc/private/petscimpl.h>
#include "../../sys/device/device.h"
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/rowsum.cuh"
#include "../../sys/kernels/terms.cuh"
#include "../../sys/kernels/launch.cuh"

/*
   The step of a row; before, inverse and y may be NULL. The first step also adds v_{j-1} to y, and does not read y if the sum
   begins
*/
typedef struct {
  PetscScalar        gamma, theta, mu, first, c;
  PetscBool          begins; /* the sum y */
  const PetscScalar *inverse, *before, *last;
  PetscScalar       *next, *y;
} IDRSPowersRow;

static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSPowersKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, int lanes, IDRSPowersRow step)
{
  const size_t n = A.n, lane = threadIdx.x % IDRS_WARP;

  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>() - lane; row < n; row += IDRSRowStride<1>()) {
    const size_t i   = row + lane;
    PetscScalar  sum = IDRSRowSum<8>(A, step.last, (IDRSIndex)row, lanes);

    if (i < n) {
      const PetscScalar last = IDRSLoadConstant(step.last + i);

      if (step.inverse) sum *= IDRSLoadConstant(step.inverse + i);
      sum = step.gamma * (sum - step.theta * last);
      if (step.before) sum -= step.mu * step.before[i];
      step.next[i] = sum;
      if (step.y) step.y[i] = IDRSAddTerms(step.begins ? PetscScalar(0.0) : step.y[i], step.first, last, step.c, sum);
    }
  }
}

/* Returns the length of the longest row, which is stored with the matrix until it changes */
static PetscErrorCode IDRSPowersLongestRow(Mat A, const IDRSCSR *csr, PetscInt *longest)
{
  /* registered once, also if several threads call this function at the same time */
  static const PetscInt id = [] {
    PetscInt registered = -1;

    (void)PetscObjectComposedDataRegister(&registered);
    return registered;
  }();
  IDRSRowLengths lengths;
  PetscBool      known;

  PetscFunctionBegin;
  PetscCall(PetscObjectComposedDataGetInt((PetscObject)A, id, *longest, known));
  if (known) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetRowLengths(csr, UINT_MAX, &lengths));
  *longest = (PetscInt)lengths.longest;
  PetscCall(PetscObjectComposedDataSetInt((PetscObject)A, id, *longest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersAreOnGPU - Returns NULL, or the reason why kernels cannot replace MatMult() */
PetscErrorCode IDRSPowersAreOnGPU(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscBool sequential, gpu = PETSC_TRUE;
  IDRSPlace place;

  PetscFunctionBegin;
  *why = NULL;
  for (PetscInt i = 0; i < n && !*why; i++) {
    PetscCall(PetscObjectTypeCompare((PetscObject)vecs[i], VECSEQCUDA, &gpu));
    PetscCall(IDRSVecWhere(vecs[i], &place));
    if (!gpu || place != IDRS_PLACE_CUDA) *why = "the vectors are not on one GPU";
  }
  if (!*why) PetscCall(IDRSMatRuns(A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  if (!sequential) *why = "there are several processes";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns NULL, or the reason why steps must use MatMult(), or why MatMult() is faster */
static PetscErrorCode IDRSPowersRuns_CUDA(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscInt longest = 0;
  int      lanes;
  IDRSCSR  csr;

  PetscFunctionBegin;
  PetscCall(IDRSPowersAreOnGPU(A, n, vecs, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetCSR(A, &csr));
  PetscCall(IDRSPowersLongestRow(A, &csr, &longest));
  PetscCall(IDRSGetRowLanes(A, &lanes));
  PetscCall(IDRSDeclineRows(A, (unsigned int)longest / lanes, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersStep_CUDA(const IDRSPowers *powers, PetscInt j, Vec before, Vec last, Vec next,
                                          const IDRSPowersSum *sum)
{
  const PetscBool two = (PetscBool)(j > 1 && powers->mu[j - 1] != 0.0); /* two vectors before the next one */
  IDRSPowersRow   step;
  IDRSCSR         csr;
  PetscLogDouble  nonzeros = 0;
  PetscBool       large;
  cudaStream_t    stream;
  int             lanes, device, multiprocessors;

  PetscFunctionBegin;
  PetscCall(IDRSGetCSR(powers->A, &csr));
  PetscCall(IDRSGetRowLanes(powers->A, &lanes));
  PetscCall(IDRSGetNonzeros(powers->A, &nonzeros));
  PetscCall(IDRSExceedsCache(nonzeros * (sizeof(PetscScalar) + sizeof(PetscInt)) + csr.n * 5.0 * sizeof(PetscScalar), &large));
  PetscCall(PetscMemzero(&step, sizeof(step)));
  step.gamma  = powers->gamma[j - 1];
  step.theta  = powers->theta[j - 1];
  step.mu     = powers->mu[j - 1];
  step.begins = (PetscBool)(sum && j == 1 && !sum->adds);
  if (powers->inverse) PetscCall(VecCUDAGetArrayRead(powers->inverse, &step.inverse));
  if (two) PetscCall(VecCUDAGetArrayRead(before, &step.before));
  PetscCall(VecCUDAGetArrayRead(last, &step.last));
  PetscCall(VecCUDAGetArrayWrite(next, &step.next));
  if (sum) {
    if (j == 1) step.first = sum->c[0];
    step.c = sum->c[j];
    if (step.begins) PetscCall(VecCUDAGetArrayWrite(sum->y, &step.y));
    else PetscCall(VecCUDAGetArray(sum->y, &step.y));
  }
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCall(PetscLogGpuTimeBegin());
  (void)IDRSLaunchResident<IDRSPowersKernel>(multiprocessors, ((size_t)csr.n + IDRS_THREADS - 1) / IDRS_THREADS, 0, (bool)!large,
                                             stream, csr, lanes, step);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(
    PetscLogGpuFlops(2.0 * nonzeros + csr.n * (2.0 + (step.inverse ? 1.0 : 0.0) + (step.before ? 2.0 : 0.0) + (sum ? 2.0 : 0.0))));
  if (sum) PetscCall(VecCUDARestoreArray(sum->y, &step.y));
  PetscCall(VecCUDARestoreArrayWrite(next, &step.next));
  PetscCall(VecCUDARestoreArrayRead(last, &step.last));
  if (step.before) PetscCall(VecCUDARestoreArrayRead(before, &step.before));
  if (powers->inverse) PetscCall(VecCUDARestoreArrayRead(powers->inverse, &step.inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSPowersOps IDRSPowers_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(runs, IDRSPowersRuns_CUDA),
  PetscDesignatedInitializer(powers, IDRSPowersByStep),
  PetscDesignatedInitializer(sum, IDRSPowersSumByStep),
  PetscDesignatedInitializer(step, IDRSPowersStep_CUDA),
  PetscDesignatedInitializer(scales, PETSC_FALSE),
};
// clang-format on
