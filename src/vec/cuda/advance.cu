/*
   advance: z += omega p + U beta(0:s), r -= omega t, partial sums of r^H r, p = B^{-1}r with the r before, and then combine of step
   0

   Reads z, p, t, r, U and, for the combine, G, each once; writes z, r, and v or U_0.
*/
#include "groups.cuh"

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSAdvanceKernel(IDRSOverlap<true, true> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                    const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, bool inv, int end)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, -1, mine.panels.s))
    IDRSBlockSum(IDRSAdvanceRows<S, W>(mine.panels, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, end,
                                       {inv ? mine.x[IDRS_V] : NULL, mine.x[IDRS_T], mine.x[IDRS_Z], mine.x[IDRS_R]},
                                       IDRSNotPublished()),
                 shared, mine.rr);
}

PetscErrorCode IDRSAdvance_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  const IDRSWork   first = group->work[0];
  const bool       wantv = step->wantv, wantu = step->wantu, inv = first->preconditioned && !first->diagonal; /* p is in v */
  const IDRSAccess v                     = wantv && !wantu ? (inv ? IDRS_CHANGE : IDRS_WRITE) : (inv ? IDRS_READ : IDRS_NOTHING);
  const IDRSAccess access[IDRS_OPERANDS] = {IDRS_CHANGE, IDRS_CHANGE, v, IDRS_READ, IDRS_READ};
  IDRSColumn       columns[IDRS_MAX_WIDTH];
  unsigned int     blocks = 0;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsGet_CUDA(group, access, true, columns));
  PetscCall(IDRSLaunchColumns(group, group->work[0]->s, -1, columns,
                              [&](auto S, auto W, auto N, const auto &members, const auto &fromhost, cudaStream_t stream) {
                                blocks = IDRSLaunchRows<IDRSAdvanceKernel<S, W, N>, IDRSAdvanceKernel<S, W, 1>>(
                                  (const IDRS_CUDA *)first->data, W, group->count, stream, members, fromhost, wantv, wantu, inv,
                                  (int)(wantv ? first->s : 0));
                              }));
  PetscCall(IDRSColumnsRestore_CUDA(group, access, columns));
  for (PetscInt i = 0; i < group->count; i++) {
    ((IDRS_CUDA *)group->work[i]->data)->partials.rrblocks = blocks;
    if (wantu) PetscCall(IDRSColumnWritten(group->work[i]->U[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
