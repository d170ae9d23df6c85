/*
   combine: v = r - G(:,k:s) c, U_k = omega v + U(:,k:s) c, and for the omega step r = r - G c

   Reads r, or t if only U_k is computed, G(:,k:s) and U(:,k:s); writes v, U_k or r.
*/
#include "groups.cuh"

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSCombineKernel(IDRSOverlap<false, false> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                    const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, int k, int end)
{
  __shared__ IDRSCoefficients<S> c;
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, -1, mine.panels.s))
    IDRSCombineRows<S, W>(mine.panels, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, k, end,
                          wantv ? mine.x[IDRS_R] : mine.x[IDRS_T], IDRSNotPublished());
}

PetscErrorCode IDRSCombine_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  const PetscInt   s     = group->work[0]->s;
  const bool       omega = step->k == s, wantv = omega || step->wantv, wantu = !omega && step->wantu;
  const int        k                     = omega ? 0 : (int)step->k;
  const IDRSAccess access[IDRS_OPERANDS] = {omega ? IDRS_CHANGE : (wantv ? IDRS_READ : IDRS_NOTHING), IDRS_NOTHING,
                                            omega || wantu ? IDRS_NOTHING : IDRS_WRITE, wantv ? IDRS_NOTHING : IDRS_READ,
                                            wantv && !omega ? IDRS_READ : IDRS_NOTHING};
  IDRSColumn       columns[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(IDRSColumnsGet_CUDA(group, access, false, columns));
  for (PetscInt i = 0; omega && i < group->count; i++) columns[i].x[IDRS_V] = columns[i].x[IDRS_R];
  PetscCall(IDRSLaunchColumns(group, group->work[0]->s, -1, columns,
                              [&](auto S, auto W, auto N, const auto &members, const auto &fromhost, cudaStream_t stream) {
                                (void)IDRSLaunchRows<IDRSCombineKernel<S, W, N>, IDRSCombineKernel<S, W, 1>>(
                                  (const IDRS_CUDA *)group->work[0]->data, W, group->count, stream, members, fromhost, wantv, wantu,
                                  k, (int)s);
                              }));
  PetscCall(IDRSColumnsRestore_CUDA(group, access, columns));
  for (PetscInt i = 0; wantu && i < group->count; i++) PetscCall(IDRSColumnWritten(group->work[i]->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
