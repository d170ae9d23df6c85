/*
   update:  G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,  r -= beta G_k,  partial sums of r^H r,
   and then combine of step k+1; in the start r -= beta G_k comes first, and then v = r - G(:,0:k+1) c

   One thread owns a pack of rows; reads G(:,0:k+1), U(:,0:k+1), r, and the columns k+1:s for the combine, each once; writes G_k, U_k, r, and v or
   U_{k+1}.
*/
#include "launch.cuh"

/* The combine ends before column end, which is k + 1 in the start and where there is none */
template <int S, int W, bool START>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSUpdateKernel(IDRSOverlap<true, true> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, bool wantv, bool wantu, int k, int end, PetscScalar *r, const PetscScalar *diagonal, PetscScalar *v, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const size_t                   n = panels.n, ld = panels.ld;
  PetscReal                      sum = 0.0;

  overlap.Begin();
  if (!IDRSTakeCoefficients<S>(&c, fromhost, device, k, panels.s)) return;
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> g = IDRSLoad<W>(panels.G + k * ld, i, n), u = IDRSZero<W>(), rr = IDRSLoad<W>(r, i, n), Gc = IDRSZero<W>(), Uc = IDRSZero<W>();

    if (k > 0) u = IDRSLoad<W>(panels.U + k * ld, i, n);
    if (START) IDRSAdd<W>(rr, -c.b[k], g);
    /* one sweep over the columns: those before k for this step, those after it for the next */
#pragma unroll
    for (int j = 0; j < (S ? S : panels.s); j++) {
      if (j < k) {
        const IDRSPack<W> gj = IDRSLoad<W>(panels.G + j * ld, i, n);

        IDRSAdd<W>(g, -c.a[zero + j], gj);
        IDRSAdd<W>(u, -c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
        if (START) IDRSAdd<W>(Gc, c.b[zero + j], gj);
      } else if (j > k && j < end) {
        if (wantv) IDRSAdd<W>(Gc, c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
        if (wantu) IDRSAdd<W>(Uc, c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
      }
    }
    if (START) IDRSAdd<W>(Gc, c.a[k], g);
    else IDRSAdd<W>(rr, -c.b[k], g);
    sum += IDRSSquare<W>(rr);
    if (k > 0) {
      IDRSStore<W>(panels.G + k * ld, i, n, g);
      IDRSStore<W>(panels.U + k * ld, i, n, u);
    }
    IDRSStore<W>(r, i, n, rr);
    IDRSAdd<W>(rr, -1.0, Gc);
    IDRSTail<W>(panels, wantv, wantu, k + 1, START ? (PetscScalar)1.0 : c.omega, i, rr, Uc, diagonal, v);
  }
  IDRSBlockSum(sum, shared, partials);
}

PetscErrorCode IDRSUpdate_CUDA(IDRSWork work, const IDRSStep *step)
{
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  const bool         wantv = step->wantv, wantu = step->wantu;
  const int          k = (int)step->k, end = (int)(wantv && !step->start ? work->s : k + 1);
  const PetscScalar *diagonal;
  PetscScalar       *r, *v = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetArray_CUDA(work->r, VecGetArrayAndMemType, &r));
  if (wantv && !wantu) PetscCall(IDRSGetArray_CUDA(work->v, VecGetArrayWriteAndMemType, &v));
  PetscCall(IDRSGetDiagonal_CUDA(work, wantv, &diagonal));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {r, diagonal, v}), [&](auto S, auto W) {
    auto launch = [&](auto START) {
      cuda->partials.rrblocks = IDRSLaunchRows<IDRSUpdateKernel<S, W, START>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, k), IDRSGetDeviceScalars(work, true), wantv, wantu, k, end, r, diagonal, v, cuda->partials.rr);
    };

    if (step->start) launch(std::true_type());
    else launch(std::false_type());
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  if (wantv && !wantu) PetscCall(VecRestoreArrayWriteAndMemType(work->v, &v));
  PetscCall(VecRestoreArrayAndMemType(work->r, &r));
  if (k) {
    PetscCall(IDRSColumnWritten_CUDA(work->G[k]));
    PetscCall(IDRSColumnWritten_CUDA(work->U[k]));
  }
  if (wantu) PetscCall(IDRSColumnWritten_CUDA(work->U[k + 1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
