/*
   project:  P^H x, x^H x and, with a y, P^H y, x^H y, y^H y. The first block adds the sums of all blocks, and those of r^H r that the last
   update or advance has left, and writes them where the host can read them, or does the algebra that follows.

   One thread owns a pack of rows and up to S columns of the shadow space: see dots.cuh. Reads x and y, and explicit shadow vectors. Where x = A u is still to
   be computed, a product of src/mat does so, and adds up the same sums in the same kernel.
*/
#include "project.cuh"
#include <petscidrs/private/idrsproduct.h>

/* For at most S of the columns, and with a y or without */
template <int S, int W, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSProjectKernel(IDRSOverlap<true, true> overlap, size_t n, IDRSShadow<S> P, const PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  IDRSDots<S, Y> dots;

  overlap.Begin();
  if (IDRSProjectBegin<S>(P, algebra)) return;
  IDRSDotsClear(dots);
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const IDRSPack<W> xi = IDRSLoad<W>(x, i, n);
    IDRSPack<W>       yi = IDRSZero<W>();

    if (Y) yi = IDRSLoad<W>(y, i, n);
    IDRSDotsAdd<S, W, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

/* Of vectors that are there */
static PetscErrorCode IDRSProjectRows_CUDA(const IDRSProjection *projection)
{
  const bool packed = IDRSPacked(projection->cuda, {projection->x, projection->y});

  PetscFunctionBegin;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, auto HASHED, const auto &shadow) {
    constexpr int W      = 2 * IDRS_PACK; /* one vector is little to read: more of it at once */
    auto          launch = [&](auto width) {
      (void)IDRSLaunchRows<IDRSProjectKernel<S, width, Y, HASHED>>(projection->cuda, width, projection->stream, (size_t)projection->n, shadow, (const PetscScalar *)projection->x, projection->y, projection->out, projection->algebra);
    };

    if (packed) launch(IDRSInt<W>());
    else launch(IDRSInt<1>());
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSProjectLaunch_CUDA - Launches the projection of x and y, or of x alone where y is NULL, and numbers it. The algebra says which step it belongs to, what
   follows from the sums, and where they go. More than IDRS_COLUMNS_AT_ONCE columns take several launches, the last of which ends the projection.
*/
PetscErrorCode IDRSProjectLaunch_CUDA(IDRSWork work, Vec x, Vec y, const IDRSAlgebra *algebra)
{
  IDRS_CUDA         *cuda       = (IDRS_CUDA *)work->data;
  const PetscInt     s          = work->s;
  const PetscBool    matvec     = algebra->step.matvec;
  IDRSProjection     projection = {};
  const PetscScalar *P[IDRS_CUDA_MAX_S];

  PetscFunctionBegin;
  projection.cuda    = cuda;
  projection.n       = work->n;
  projection.s       = s;
  projection.key     = IDRSShadowKey(work->seed);
  projection.rstart  = (uint64_t)work->rstart;
  projection.halo    = work->halo;
  projection.algebra = *algebra;
  PetscCall(IDRSStream_CUDA(&projection.stream));
  for (PetscInt j = 0; work->P && j < s; j++) PetscCall(IDRSGetArrayRead_CUDA(work->P[j], &P[j]));
  if (work->P) projection.P = P;
  if (matvec) {
    projection.operand = IDRSStepOperand(work, &algebra->step);
    PetscCall(IDRSGetArrayRead_CUDA(projection.operand, &projection.u));
    PetscCall(IDRSGetArray_CUDA(x, VecGetArrayWriteAndMemType, &projection.x));
  } else PetscCall(IDRSGetArrayRead_CUDA(x, (const PetscScalar **)&projection.x));
  projection.both = y;
  if (y) PetscCall(IDRSGetArrayRead_CUDA(y, &projection.y));
  cuda->sequence++;
  for (; projection.first < s; projection.first += IDRS_COLUMNS_AT_ONCE) {
    if (++cuda->partials.launch == 0) cuda->partials.launch = 1; /* 0 is what memory holds before any launch */
    projection.out.partials = cuda->partials;
    projection.out.sums     = algebra->result ? cuda->localsums : cuda->hostsums;
    projection.out.arrived  = cuda->arrived;
    projection.out.sequence = projection.first + IDRS_COLUMNS_AT_ONCE < s ? 0 : cuda->sequence;
    /* the other columns find x in memory */
    projection.out.ends = !(matvec && !projection.first && work->size > 1);
    if (matvec && !projection.first) PetscCall(IDRSProductProject(work->product, &projection));
    else PetscCall(IDRSProjectRows_CUDA(&projection));
  }
  if (y) PetscCall(VecRestoreArrayReadAndMemType(y, &projection.y));
  if (matvec) {
    PetscCall(VecRestoreArrayWriteAndMemType(x, &projection.x));
    PetscCall(VecRestoreArrayReadAndMemType(projection.operand, &projection.u));
  } else PetscCall(VecRestoreArrayReadAndMemType(x, (const PetscScalar **)&projection.x));
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
  PetscCall(IDRSProjectLaunch_CUDA(work, x, y, &algebra));
  PetscCall(IDRSWait_CUDA(work, cuda->sequence));
  PetscCall(PetscArraycpy(work->scalars.sums, cuda->hostsums, IDRS_SUMS(work->s, y)));
  PetscFunctionReturn(PETSC_SUCCESS);
}
