/*
   advance:  z += omega p + U beta(0:s),  r -= omega t,  partial sums of r^H r,  p = B^{-1}r for the r before,
   and then combine of step 0

   One thread owns a pack of rows; reads z, p, t, r, U and, for the combine, G, each once; writes z, r, and v or U_0.
*/
#include "launch.cuh"

/* p = NULL: r itself, or B^{-1}r by the diagonal. The combine ends before column end, which is 0 where there is none */
template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSAdvanceKernel(IDRSOverlap<true, true> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, bool wantv, bool wantu, int end, const PetscScalar *p, const PetscScalar *t, PetscScalar *z, PetscScalar *r, const PetscScalar *diagonal, PetscScalar *v, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const size_t                   n = panels.n, ld = panels.ld;
  PetscReal                      sum = 0.0;

  overlap.Begin();
  if (!IDRSTakeCoefficients<S>(&c, fromhost, device, -1, panels.s)) return;
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> rr = IDRSLoad<W>(r, i, n), zz = IDRSLoad<W>(z, i, n), Gc = IDRSZero<W>(), Uc = IDRSZero<W>();

    if (p) IDRSAdd<W>(zz, c.omega, IDRSLoad<W>(p, i, n));
    else {
      IDRSPack<W> pp = rr;

      if (diagonal) IDRSScaleEntries<W>(pp, IDRSLoad<W>(diagonal, i, n));
      IDRSAdd<W>(zz, c.omega, pp);
    }
#pragma unroll
    for (int j = 0; j < (S ? S : panels.s); j++) {
      if (j < panels.s) {
        const IDRSPack<W> uj = IDRSLoad<W>(panels.U + j * ld, i, n);

        IDRSAdd<W>(zz, c.b[zero + j], uj);
        if (j < end) {
          if (wantv) IDRSAdd<W>(Gc, c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
          if (wantu) IDRSAdd<W>(Uc, c.a[zero + j], uj);
        }
      }
    }
    IDRSStore<W>(z, i, n, zz);
    IDRSAdd<W>(rr, -c.omega, IDRSLoad<W>(t, i, n));
    sum += IDRSSquare<W>(rr);
    IDRSStore<W>(r, i, n, rr);
    IDRSAdd<W>(rr, -1.0, Gc);
    IDRSTail<W>(panels, wantv, wantu, 0, c.omega, i, rr, Uc, diagonal, v);
  }
  IDRSBlockSum(sum, shared, partials);
}

PetscErrorCode IDRSAdvance_CUDA(IDRSWork work, const IDRSStep *step)
{
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  const bool         wantv = step->wantv, wantu = step->wantu;
  const PetscScalar *p = NULL, *t, *diagonal;
  PetscScalar       *z, *r, *v = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  if (work->preconditioned && !work->diagonal) PetscCall(IDRSGetArrayRead_CUDA(work->v, &p));
  PetscCall(IDRSGetDiagonal_CUDA(work, true, &diagonal));
  PetscCall(IDRSGetArrayRead_CUDA(work->t, &t));
  PetscCall(IDRSGetArray_CUDA(work->z, VecGetArrayAndMemType, &z));
  PetscCall(IDRSGetArray_CUDA(work->r, VecGetArrayAndMemType, &r));
  if (wantv && !wantu) PetscCall(IDRSGetArray_CUDA(work->v, VecGetArrayWriteAndMemType, &v));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {p, t, z, r, diagonal, v}), [&](auto S, auto W) {
    cuda->partials.rrblocks = IDRSLaunchRows<IDRSAdvanceKernel<S, W>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetDeviceScalars(work, true), wantv, wantu, (int)(wantv ? work->s : 0), p, t, z, r, diagonal, v, cuda->partials.rr);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  if (wantv && !wantu) PetscCall(VecRestoreArrayWriteAndMemType(work->v, &v));
  PetscCall(VecRestoreArrayAndMemType(work->r, &r));
  PetscCall(VecRestoreArrayAndMemType(work->z, &z));
  PetscCall(VecRestoreArrayReadAndMemType(work->t, &t));
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  if (work->preconditioned && !work->diagonal) PetscCall(VecRestoreArrayReadAndMemType(work->v, &p));
  if (wantu) PetscCall(IDRSColumnWritten_CUDA(work->U[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
