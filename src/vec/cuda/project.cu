/*
   project:  P^H x, x^H x and, with a y, P^H y, x^H y, y^H y. The block that finishes last adds the sums of all blocks, and those of r^H r that the last
   update or advance has left, and writes them where the host can read them, or does the algebra that follows.

   One thread owns a pack of rows and up to S columns of the shadow space: see dots.cuh. Reads x and y, and explicit shadow vectors.
*/
#include "launch.cuh"

/* Where the sums go */
typedef struct {
  IDRSPartials partials;
  PetscScalar *sums;     /* on the host, or on the device */
  uint64_t    *arrived;  /* on the host, set to sequence once the sums are there */
  uint64_t     sequence; /* 0: more launches follow */
} IDRSSums;

/*
   Blocks that a multiprocessor is to hold, for kernels of so many inner products: the algebra that the last block alone does must
   not take registers from the many
*/
static constexpr int IDRSBlocksAtOnce(int products)
{
  return sizeof(PetscScalar) > 8 || products > 16 ? 1 : (products > 8 ? 3 : 4);
}

/* For at most S of the columns, and with a y or without */
template <int S, int W, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSProjectKernel(IDRSOverlap<true, true> overlap, size_t n, IDRSShadow<S> P, const PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  __shared__ PetscScalar shared[IDRS_STORAGE(S)];
  const bool             yisr    = Y && !(algebra.step.start && algebra.step.k == P.s);
  PetscScalar           *storage = NULL, *sums = out.sums;
  IDRSDots<S, Y>         dots;

  overlap.Begin();
  if (algebra.result && algebra.result->stopped) return;
  IDRSDotsClear(dots);
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const IDRSPack<W> xi = IDRSLoad<W>(x, i, n);
    IDRSPack<W>       yi = IDRSZero<W>();

    if (Y) yi = IDRSLoad<W>(y, i, n);
    IDRSDotsAdd<S, W, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  if (!IDRSDotsFinish<S, Y>(dots, out.partials)) return;

  if (algebra.storage) {
    storage = IDRSAlgebraBegin<S>(algebra, P.s, shared);
    sums    = storage + IDRS_STORAGE_SUMS(P.s);
  }
  IDRSDotsTotal<S, Y, HASHED>(out.partials, P, yisr, sums);
  if (algebra.result) {
    if (algebra.storage && out.sequence) IDRSAlgebraEnd<S, Y>(algebra, P.s, storage);
    return;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && out.sequence) *(volatile uint64_t *)out.arrived = out.sequence;
}

/*
   IDRSProjectLaunch_CUDA - Launches the projection of x and y, or of x alone where y is NULL, and numbers it. The algebra says what follows from the sums,
   and where they go. More than IDRS_COLUMNS_AT_ONCE columns take several launches, the last of which ends the projection.
*/
PetscErrorCode IDRSProjectLaunch_CUDA(IDRSWork work, Vec x, Vec y, const IDRSAlgebra *algebra)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  const PetscScalar *P[IDRS_CUDA_MAX_S], *xarray, *yarray = NULL;
  const PetscInt     s = work->s;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt j = 0; work->P && j < s; j++) PetscCall(IDRSGetArrayRead_CUDA(work->P[j], &P[j]));
  PetscCall(IDRSGetArrayRead_CUDA(x, &xarray));
  if (y) PetscCall(IDRSGetArrayRead_CUDA(y, &yarray));
  cuda->sequence++;
  for (PetscInt first = 0; first < s; first += IDRS_COLUMNS_AT_ONCE) {
    const IDRSSums out = {cuda->partials, algebra->result ? cuda->localsums : cuda->hostsums, cuda->arrived, first + IDRS_COLUMNS_AT_ONCE < s ? 0 : cuda->sequence};

    PetscCallCUDA(IDRSDispatch(PetscMin(s, IDRS_COLUMNS_AT_ONCE), IDRSPacked(cuda, {xarray, yarray}), [&](auto S, auto width) {
      if constexpr (S > 0) {
        constexpr int W      = width > 1 ? 2 * width : 1; /* one vector is little to read: more of it at once */
        IDRSShadow<S> shadow = {(int)s, (int)first, IDRSShadowKey(work->seed), (uint64_t)work->rstart, {}};
        auto          launch = [&](auto Y, auto HASHED) { (void)IDRSLaunchRows<IDRSProjectKernel<S, W, Y, HASHED>>(cuda, W, stream, (size_t)work->n, shadow, xarray, yarray, out, *algebra); };

        for (PetscInt j = 0; work->P && j < S && first + j < s; j++) shadow.a[j] = P[first + j];
        if (work->P) {
          if (y) launch(std::true_type(), std::false_type());
          else launch(std::false_type(), std::false_type());
        } else {
          if (y) launch(std::true_type(), std::true_type());
          else launch(std::false_type(), std::true_type());
        }
      }
    }));
  }
  if (y) PetscCall(VecRestoreArrayReadAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  for (PetscInt j = 0; work->P && j < s; j++) PetscCall(VecRestoreArrayReadAndMemType(work->P[j], &P[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host waits for the sums and does the algebra */
PetscErrorCode IDRSProject_CUDA(IDRSWork work, const IDRSStep *step, Vec x, Vec y)
{
  const IDRS_CUDA *cuda    = (const IDRS_CUDA *)work->data;
  IDRSAlgebra      algebra = {};

  PetscFunctionBegin;
  algebra.step = *step;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSProjectLaunch_CUDA(work, x, y, &algebra));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSWait_CUDA(work, cuda->sequence));
  PetscCall(PetscArraycpy(work->scalars.sums, cuda->hostsums, IDRS_SUMS(work->s, y)));
  PetscFunctionReturn(PETSC_SUCCESS);
}
