/*
   combine:  v = r - G(:,k:s) c,   U_k = omega v + U(:,k:s) c,   and for the omega step  r = r - G c

   One thread owns a pack of rows; reads r, or t for U_k alone, G(:,k:s) and U(:,k:s); writes v, U_k or r. The columns come in a loop unrolled for S >= s
   columns (S = 0: not unrolled), whose loads are all under way at once.
*/
#include "launch.cuh"

/* Columns k ... end - 1. x is r, or B^{-1}v where wantv is false */
template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSCombineKernel(IDRSOverlap<false, false> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, bool wantv, bool wantu, int k, int end, const PetscScalar *x, const PetscScalar *diagonal, PetscScalar *v)
{
  __shared__ IDRSCoefficients<S> c;
  const size_t                   n = panels.n, ld = panels.ld;

  overlap.Begin();
  if (!IDRSTakeCoefficients<S>(&c, fromhost, device, -1, panels.s)) return;
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> d = IDRSLoad<W>(x, i, n), Uc = IDRSZero<W>();

#pragma unroll
    for (int j = 0; j < (S ? S : end); j++) {
      if (j >= k && j < end) {
        if (wantv) IDRSAdd<W>(d, -c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
        if (wantu) IDRSAdd<W>(Uc, c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
      }
    }
    IDRSTail<W>(panels, true, wantu, k, c.omega, i, d, Uc, diagonal, v);
  }
}

PetscErrorCode IDRSCombine_CUDA(IDRSWork work, const IDRSStep *step)
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
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {x, diagonal, v}),
                             [&](auto S, auto W) { (void)IDRSLaunchRows<IDRSCombineKernel<S, W>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetDeviceScalars(work, false), wantv, wantu, k, (int)work->s, x, diagonal, v); }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  if (!wantu) PetscCall(VecRestoreArrayWriteAndMemType(out, &v));
  PetscCall(VecRestoreArrayReadAndMemType(in, &x));
  if (wantu) PetscCall(IDRSColumnWritten_CUDA(work->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
