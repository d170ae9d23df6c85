/*
   The passes combine, update and advance, for the columns of a group that have the same step; passes.cuh has their rows

   combine: v = r - G(:,k:s) c, U_k = omega v + U(:,k:s) c, and for the omega step r = r - G c

   Reads r, or t if only U_k is computed, G(:,k:s) and U(:,k:s); writes v, U_k or r.

   update: G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta G_k, partial sums of r^H r, and then combine of step k+1; in the
   start first r -= beta G_k, and last v = r - G(:,0:k+1) c

   Reads G(:,0:k+1), U(:,0:k+1), r, and the columns k+1:s for the combine, each once; writes G_k, U_k, r, and v or U_{k+1}.

   advance: z += omega p + U beta(0:s), r -= omega t, partial sums of r^H r, p = B^{-1}r with the r before, and then combine of step
   0

   Reads z, p, t, r, U and, for the combine, G, each once; writes z, r, and v or U_0.
*/
#include "groups.cuh"

/*
   IDRSColumnsGet_CUDA - Gets the operands of a pass, with an access for each vector; copies: this pass copies the result of the
   last projection to the host
*/
PetscErrorCode IDRSColumnsGet_CUDA(const IDRSGroup *group, const IDRSAccess access[], bool copies, IDRSColumn columns[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWorkspace work             = group->work[i];
    const IDRS_CUDA    *cuda             = (const IDRS_CUDA *)work->data;
    const Vec           x[IDRS_OPERANDS] = {work->r, work->z, work->v, work->t, work->diagonal};

    PetscCall(IDRSColumnsRead_CUDA(work));
    columns[i].bases  = cuda->bases;
    columns[i].device = IDRSGetDeviceScalars(work, copies);
    columns[i].rr     = cuda->partials.rr;
    for (int which = 0; which < IDRS_OPERANDS; which++)
      PetscCall(IDRSFindArray_CUDA(x[which], access[which], &columns[i].x[which]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSCombineKernel(IDRSOverlap<false, false> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                    const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, int k, int end)
{
  __shared__ IDRSCoefficients<S> c;
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, -1, mine.bases.s))
    IDRSCombineRows<S, W>(mine.bases, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, k, end,
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
  for (PetscInt i = 0; wantu && i < group->count; i++) PetscCall(IDRSColumnWritten(group->work[i]->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSUpdateKernel(IDRSOverlap<true, true> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                   const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, bool start, int k, int end)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, k, mine.bases.s))
    IDRSBlockSum(IDRSUpdateRows<S, W>(mine.bases, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, start, k, end, mine.x[IDRS_R],
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
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWorkspace work = group->work[i];

    ((IDRS_CUDA *)work->data)->partials.rrblocks = blocks;
    if (k) {
      PetscCall(IDRSColumnWritten(work->G[k]));
      PetscCall(IDRSColumnWritten(work->U[k]));
    }
    if (wantu) PetscCall(IDRSColumnWritten(work->U[k + 1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int S, int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSAdvanceKernel(IDRSOverlap<true, true> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                    const __grid_constant__ IDRSHostCoefficients<S, N> fromhost, bool wantv, bool wantu, bool inv, int end)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const IDRSColumn              &mine = columns.Mine();

  overlap.Begin();
  if (IDRSLoadCoefficients<S>(&c, fromhost.Mine(), mine.device, -1, mine.bases.s))
    IDRSBlockSum(IDRSAdvanceRows<S, W>(mine.bases, c, {wantv, wantu, mine.x[IDRS_D], mine.x[IDRS_V]}, end,
                                       {inv ? mine.x[IDRS_V] : NULL, mine.x[IDRS_T], mine.x[IDRS_Z], mine.x[IDRS_R]},
                                       IDRSNotPublished()),
                 shared, mine.rr);
}

PetscErrorCode IDRSAdvance_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  const IDRSWorkspace first = group->work[0];
  const bool          wantv = step->wantv, wantu = step->wantu, inv = first->preconditioned && !first->diagonal; /* p is in v */
  const IDRSAccess    v                     = wantv && !wantu ? (inv ? IDRS_CHANGE : IDRS_WRITE) : (inv ? IDRS_READ : IDRS_NOTHING);
  const IDRSAccess    access[IDRS_OPERANDS] = {IDRS_CHANGE, IDRS_CHANGE, v, IDRS_READ, IDRS_READ};
  IDRSColumn          columns[IDRS_MAX_WIDTH];
  unsigned int        blocks = 0;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsGet_CUDA(group, access, true, columns));
  PetscCall(IDRSLaunchColumns(group, group->work[0]->s, -1, columns,
                              [&](auto S, auto W, auto N, const auto &members, const auto &fromhost, cudaStream_t stream) {
                                blocks = IDRSLaunchRows<IDRSAdvanceKernel<S, W, N>, IDRSAdvanceKernel<S, W, 1>>(
                                  (const IDRS_CUDA *)first->data, W, group->count, stream, members, fromhost, wantv, wantu, inv,
                                  (int)(wantv ? first->s : 0));
                              }));
  for (PetscInt i = 0; i < group->count; i++) {
    ((IDRS_CUDA *)group->work[i]->data)->partials.rrblocks = blocks;
    if (wantu) PetscCall(IDRSColumnWritten(group->work[i]->U[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
