/*
   advance:  z += omega p + U beta(0:s),  r -= omega t,  partial sums of r^H r,  p = B^{-1}r for the r before,
   and then combine of step 0

   Reads z, p, t, r, U and, for the combine, G, each once; writes z, r, and v or U_0.
*/
#include "launch.cuh"

template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSAdvanceKernel(IDRSOverlap<true, true> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, IDRSDirection direction, int end, const PetscScalar *p, const PetscScalar *t, PetscScalar *z, PetscScalar *r, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];

  overlap.Begin();
  if (IDRSTakeCoefficients<S>(&c, fromhost, device, -1, panels.s)) IDRSBlockSum(IDRSAdvanceRows<S, W>(panels, c, direction, end, p, t, z, r, IDRSTellNobody()), shared, partials);
}

static PetscErrorCode IDRSAdvanceWork_CUDA(IDRSWork work, const IDRSStep *step)
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
    cuda->partials.rrblocks = IDRSLaunchRows<IDRSAdvanceKernel<S, W>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetDeviceScalars(work, true), IDRSDirection{wantv, wantu, diagonal, v}, (int)(wantv ? work->s : 0), p, t, z, r,
                                                                      cuda->partials.rr);
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

PetscErrorCode IDRSAdvance_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCall(IDRSEachWork(group, step, IDRSAdvanceWork_CUDA));
  PetscFunctionReturn(PETSC_SUCCESS);
}
