/*
   update: G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta G_k, partial sums of r^H r, and then combine of step k+1; in the
   start first r -= beta G_k, and last v = r - G(:,0:k+1) c

   Reads G(:,0:k+1), U(:,0:k+1), r, and the columns k+1:s for the combine, each once; writes G_k, U_k, r, and v or U_{k+1}.
*/
#include "groups.cuh"

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSUpdateKernel(IDRSOverlap<true, true> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                   const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, bool start, int k, int end)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, k, mine.panels.s))
    IDRSBlockSum(IDRSUpdateRows<S, W>(mine.panels, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, start, k, end, mine.x[IDRS_R],
                                      IDRSNotPublished()),
                 shared, mine.rr);
}

PetscErrorCode IDRSUpdate_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  const bool       wantv = step->wantv, wantu = step->wantu;
  const int        k = (int)step->k, end = (int)(wantv && !step->start ? group->work[0]->s : k + 1);
  const IDRSAccess access[IDRS_OPERANDS] = {IDRS_CHANGE, IDRS_NOTHING, wantv && !wantu ? IDRS_WRITE : IDRS_NOTHING, IDRS_NOTHING,
                                            wantv ? IDRS_READ : IDRS_NOTHING};
  IDRSColumn       columns[IDRS_MAX_WIDTH];
  unsigned int     blocks = 0;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsGet_CUDA(group, access, true, columns));
  PetscCall(IDRSLaunchColumns(group, group->work[0]->s, k, columns,
                              [&](auto S, auto W, auto N, const auto &members, const auto &fromhost, cudaStream_t stream) {
                                blocks = IDRSLaunchRows<IDRSUpdateKernel<S, W, N>, IDRSUpdateKernel<S, W, 1>>(
                                  (const IDRS_CUDA *)group->work[0]->data, W, group->count, stream, members, fromhost, wantv, wantu,
                                  (bool)step->start, k, end);
                              }));
  PetscCall(IDRSColumnsRestore_CUDA(group, access, columns));
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWork work = group->work[i];

    ((IDRS_CUDA *)work->data)->partials.rrblocks = blocks;
    if (k) {
      PetscCall(IDRSColumnWritten(work->G[k]));
      PetscCall(IDRSColumnWritten(work->U[k]));
    }
    if (wantu) PetscCall(IDRSColumnWritten(work->U[k + 1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
