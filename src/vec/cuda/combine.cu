/*
   combine:  v = r - G(:,k:s) c,   U_k = omega v + U(:,k:s) c,   and for the omega step  r = r - G c

   Reads r, or t for U_k alone, G(:,k:s) and U(:,k:s); writes v, U_k or r.
*/
#include "launch.cuh"

template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSCombineKernel(IDRSOverlap<false, false> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, IDRSDirection direction, int k, int end, const PetscScalar *x)
{
  __shared__ IDRSCoefficients<S> c;

  overlap.Begin();
  if (IDRSTakeCoefficients<S>(&c, fromhost, device, -1, panels.s)) IDRSCombineRows<S, W>(panels, c, direction, k, end, x, IDRSTellNobody());
}

static PetscErrorCode IDRSCombineWork_CUDA(IDRSWork work, const IDRSStep *step)
{
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  const bool         omega = step->k == work->s, wantv = omega || step->wantv, wantu = !omega && step->wantu;
  const int          k  = omega ? 0 : (int)step->k;
  Vec                in = wantv ? work->r : work->t, out = omega ? work->r : work->v;
  const PetscScalar *x, *diagonal;
  PetscScalar       *v = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetArrayRead_CUDA(in, &x));
  if (!wantu) PetscCall(IDRSGetArray_CUDA(out, VecGetArrayWriteAndMemType, &v));
  PetscCall(IDRSGetDiagonal_CUDA(work, wantv && !omega, &diagonal));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {x, diagonal, v}), [&](auto S, auto W) {
    (void)IDRSLaunchRows<IDRSCombineKernel<S, W>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetDeviceScalars(work, false), IDRSDirection{wantv, wantu, diagonal, v}, k, (int)work->s, x);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  if (!wantu) PetscCall(VecRestoreArrayWriteAndMemType(out, &v));
  PetscCall(VecRestoreArrayReadAndMemType(in, &x));
  if (wantu) PetscCall(IDRSColumnWritten_CUDA(work->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSCombine_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCall(IDRSEachWork(group, step, IDRSCombineWork_CUDA));
  PetscFunctionReturn(PETSC_SUCCESS);
}
