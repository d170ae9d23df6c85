#include "rowlanes.cuh"
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscdevice_cuda.h>
#include "../../sys/device/device.h"
#include "../../sys/device/target.cuh"

/* IDRSPowersAreOnGPU - Returns NULL, or the reason why kernels cannot replace MatMult() */
PetscErrorCode IDRSPowersAreOnGPU(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscBool  sequential, gpu = PETSC_TRUE;
  IDRSMemory place;

  PetscFunctionBegin;
  *why = NULL;
  for (PetscInt i = 0; i < n && !*why; i++) {
    PetscCall(PetscObjectTypeCompare((PetscObject)vecs[i], VECSEQCUDA, &gpu));
    PetscCall(IDRSVecWhere(vecs[i], &place));
    if (!gpu || place != IDRS_MEMORY_CUDA) *why = "the vectors are not on one GPU";
  }
  if (!*why) PetscCall(IDRSMatRuns(A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  if (!sequential) *why = "there are several processes";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of entries of a row; of two matrices the longer row counts */
static PetscInt IDRSRowLength(const PetscInt i[], const PetscInt other[], PetscInt row)
{
  const PetscInt length = i[row + 1] - i[row];

  return other ? PetscMax(length, other[row + 1] - other[row]) : length;
}

/*
   Assigns a part of a row to each lane. Rows are in order, and a row is in two warps only if it is too long for one. lane may be
   NULL. Returns the number of lanes, with those that fill up warps. *extra is the number of sums of further warps
*/
static size_t IDRSPlanRowLanes(PetscInt n, const PetscInt i[], const PetscInt other[], IDRSRowLane lane[], size_t *extra)
{
  size_t count = 0;

  *extra = 0;
  for (PetscInt row = 0; row <= n; row++) {
    const PetscInt length = row < n ? IDRSRowLength(i, other, row) : 0;
    const size_t   lanes  = row < n ? (size_t)PetscMax((length + IDRS_ROW_ATONCE - 1) / IDRS_ROW_ATONCE, 1) : IDRS_WARP,
                 warps    = (lanes + IDRS_WARP - 1) / IDRS_WARP;

    /* fill up the warp */
    for (; count % IDRS_WARP + lanes > IDRS_WARP && count % IDRS_WARP; count++) {
      if (lane) lane[count] = {-1, 0, 0, 0};
    }
    if (row == n) break;
    for (size_t part = 0; part < (warps > 1 ? warps * IDRS_WARP : lanes); part++, count++) {
      if (lane) lane[count] = {part < lanes ? (int)row : -1, (int)part, (int)lanes, (int)*extra};
    }
    *extra += warps - 1;
  }
  return count;
}

/*
   IDRSCountRowLanes - Returns the number of lanes for all rows

   Input Parameters:
+  n     - number of rows
.  i     - first entry of each row
-  other - the same for another matrix of this size whose rows are in the same lanes, or `NULL`

   Output Parameters:
+  extra   - sums of further warps of a row, which are added to the sum of the first warp
-  longest - entries of the longest row; at most `IDRS_ROW_LONGEST`, else the row is too long for the lanes
*/
size_t IDRSCountRowLanes(PetscInt n, const PetscInt i[], const PetscInt other[], size_t *extra, PetscInt *longest)
{
  *longest = 0;
  for (PetscInt row = 0; row < n; row++) *longest = PetscMax(*longest, IDRSRowLength(i, other, row));
  return IDRSPlanRowLanes(n, i, other, NULL, extra);
}

/* IDRSUploadRowLanes - Copies the plan of this many lanes to the GPU, and allocates memory if *lane is NULL */
PetscErrorCode IDRSUploadRowLanes(PetscInt n, const PetscInt i[], const PetscInt other[], size_t count, IDRSRowLane **lane)
{
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  IDRSRowLane       *plan;
  size_t             extra;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSStream_CUDA(&stream));
  if (!*lane) PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count, lane));
  PetscCall(PetscMalloc1(count, &plan));
  (void)IDRSPlanRowLanes(n, i, other, plan, &extra);
  PetscCallCUDA(cudaMemcpyAsync(*lane, plan, count * sizeof(*plan), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscFree(plan));
  PetscFunctionReturn(PETSC_SUCCESS);
}
