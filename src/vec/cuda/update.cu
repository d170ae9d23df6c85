/*
   update:  G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,  r -= beta G_k,  partial sums of r^H r,
   and then combine of step k+1; in the start r -= beta G_k comes first, and then v = r - G(:,0:k+1) c

   Reads G(:,0:k+1), U(:,0:k+1), r, and the columns k+1:s for the combine, each once; writes G_k, U_k, r, and v or U_{k+1}.
*/
#include "launch.cuh"

template <int S, int W, bool START>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSUpdateKernel(IDRSOverlap<true, true> overlap, IDRSPanels panels, IDRSCoefficients<S> fromhost, IDRSDeviceScalars device, IDRSDirection direction, int k, int end, PetscScalar *r, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];

  overlap.Begin();
  if (IDRSTakeCoefficients<S>(&c, fromhost, device, k, panels.s)) IDRSBlockSum(IDRSUpdateRows<S, W, START>(panels, c, direction, k, end, r, IDRSTellNobody()), shared, partials);
}

static PetscErrorCode IDRSUpdateWork_CUDA(IDRSWork work, const IDRSStep *step)
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
      cuda->partials.rrblocks = IDRSLaunchRows<IDRSUpdateKernel<S, W, START>>(cuda, W, stream, cuda->panels, IDRSGetCoefficients<S>(work, k), IDRSGetDeviceScalars(work, true), IDRSDirection{wantv, wantu, diagonal, v}, k, end, r, cuda->partials.rr);
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

PetscErrorCode IDRSUpdate_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCall(IDRSEachWork(group, step, IDRSUpdateWork_CUDA));
  PetscFunctionReturn(PETSC_SUCCESS);
}
