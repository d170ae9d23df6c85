/*
   project: P^H x, x^H x and, with a y, P^H y, x^H y, y^H y. The first block adds the sums of all blocks, and the r^H r of the last
   update or advance. It writes the sums to the memory of the host, or does the algebra of the step.

   One thread owns a pack of rows and up to S columns of the shadow space: see dots.cuh. Reads x and y.
   If x = A u is not computed yet, a product of src/mat computes it and the same sums in one kernel.
*/
#include "idrscudaimpl.cuh"
#include "../../sys/kernels/project.cuh"
#include <petscidrs/private/idrsproduct.h>

/* A column of a projection */
typedef struct {
  const PetscScalar *x, *y;
  IDRSSums           out;
  IDRSAlgebra        algebra;
} IDRSProjected;

/* For at most S shadow vectors, with a y or without */
template <int S, int W, int N, bool Y>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSProjectKernel(IDRSOverlap<true, true> overlap, size_t n, IDRSShadow<S> P,
                    const __grid_constant__ IDRSMembers<N, IDRSProjected> columns)
{
  const IDRSProjected &mine = columns.Mine();
  IDRSDots<S, Y>       dots;

  overlap.Begin();
  if (IDRSProjectBegin<S>(P, mine.algebra)) return;
  IDRSDotsClear(dots);
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    const IDRSPack<W> xi = IDRSLoad<W>(mine.x, i, n);
    IDRSPack<W>       yi = IDRSZero<W>();

    if (Y) yi = IDRSLoad<W>(mine.y, i, n);
    /* P^H x, x^H x, and with y P^H y, x^H y, y^H y */
    IDRSDotsAdd<S, W, Y>(dots, P, i, xi, yi);
  }
  /* sums over all blocks, then the algebra of the step if the device has it */
  IDRSProjectEnd<S, Y>(dots, P, mine.out, mine.algebra);
}

/* Launches projections of vectors that have been computed, for several columns */
static PetscErrorCode IDRSProjectRows_CUDA(const IDRS_CUDA *cuda, PetscInt count, const IDRSProjection projections[])
{
  bool          packed = IDRSPacked(cuda);
  IDRSProjected columns[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    columns[i] = {projections[i].x, projections[i].y, projections[i].out, projections[i].algebra};
    packed     = packed && IDRSAligned(projections[i].x) && IDRSAligned(projections[i].y);
  }
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(projections[0], [&](auto S, auto Y, const auto &shadow) {
    /* larger packs, because few vectors are read */
    IDRSDispatchRows<2 * IDRS_PACK>(packed, count, [&](auto width, auto N) {
      constexpr auto kernel = IDRSProjectKernel<S, width, N, Y>;
      constexpr auto alone  = IDRSProjectKernel<S, width, 1, Y>;

      (void)IDRSLaunchRows<kernel, alone>(cuda, width, count, projections[0].stream, cuda->bases.n, shadow,
                                          IDRSGetMembers<N>(count, columns));
    });
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Gets the arrays of a projection; fused: it also computes x. sums: destination of the sums. Columns of G are read through the
   basis
*/
static PetscErrorCode IDRSProjectionGet_CUDA(IDRSWorkspace work, const IDRSAlgebra *algebra, bool fused, PetscScalar *sums,
                                             cudaStream_t stream, IDRSProjection *projection)
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;
  Vec        x, y;

  PetscFunctionBegin;
  IDRSStepVecs(work, &algebra->step, &x, &y);
  *projection                 = {};
  projection->multiprocessors = cuda->multiprocessors;
  projection->n               = work->n;
  projection->s               = work->s;
  projection->key             = IDRSShadowKey(work->seed);
  projection->rstart          = (uint64_t)work->rstart;
  projection->halo            = work->halo;
  projection->algebra         = *algebra;
  projection->both            = y;
  projection->stream          = stream;
  if (fused) {
    /* x = A u in the same kernel */
    projection->operand = IDRSStepOperand(work, &algebra->step);
    PetscCall(IDRSFindArrayRead_CUDA(projection->operand, &projection->u));
    PetscCall(IDRSFindArray_CUDA(x, IDRS_WRITE, &projection->x));
  } else if (algebra->step.k != IDRS_RESIDUAL && algebra->step.k < work->s) {
    PetscCall(IDRSColumnRead_CUDA(x));
    projection->x = cuda->bases.G + algebra->step.k * cuda->bases.ld;
  } else PetscCall(IDRSFindArray_CUDA(x, IDRS_READ, &projection->x));
  PetscCall(IDRSFindArrayRead_CUDA(y, &projection->y));
  projection->out.sums     = sums;
  projection->out.arrived  = cuda->arrived;
  projection->out.sequence = ++cuda->sequence;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the parts of projections; each part has some of the shadow vectors */
static PetscErrorCode IDRSProjectParts_CUDA(const IDRSGroup *group, bool fused, IDRSProjection projections[])
{
  const PetscInt s = group->work[0]->s;
  uint64_t       sequence[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) sequence[i] = projections[i].out.sequence;
  for (PetscInt first = 0; first < s; first += IDRS_COLUMNS_AT_ONCE) {
    for (PetscInt i = 0; i < group->count; i++) {
      IDRSPartials *partials = &((IDRS_CUDA *)group->work[i]->data)->partials;

      IDRSCountLaunch(partials);
      projections[i].first        = first;
      projections[i].out.partials = *partials;
      projections[i].out.sequence = first + IDRS_COLUMNS_AT_ONCE < s ? 0 : sequence[i];
      /* with several processes a product ends with a second kernel */
      projections[i].out.ends = !(fused && !first && group->work[i]->size > 1);
    }
    /* the first launch computes x = A u, the others read x */
    if (fused && !first) PetscCall(IDRSProductProject(group->work[0]->product, &projections[0]));
    else
      PetscCall(IDRSProjectRows_CUDA((const IDRS_CUDA *)group->work[0]->data, group->count,
                                     projections)); /* the other parts read x from memory */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSProjectLaunch_CUDA - Launches the projections of works that have the same step, and numbers them. The algebra follows in the
   same kernel; without algebra the sums are written to sums[]. More than IDRS_COLUMNS_AT_ONCE shadow vectors need several launches,
   and the last one ends the projection.
*/
PetscErrorCode IDRSProjectLaunch_CUDA(const IDRSGroup *group, const IDRSAlgebra algebra[], PetscScalar *const sums[])
{
  const bool     fused = algebra[0].step.matvec;
  IDRSProjection projections[IDRS_MAX_WIDTH];
  cudaStream_t   stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCheck(!fused || group->count == 1, PETSC_COMM_SELF, PETSC_ERR_PLIB, "A projection computes A u of one column only");
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(IDRSProjectionGet_CUDA(group->work[i], &algebra[i], fused, sums[i], stream, &projections[i]));
  PetscCall(IDRSProjectParts_CUDA(group, fused, projections));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host waits for the sums, and does the algebra */
PetscErrorCode IDRSProject_CUDA(const IDRSGroup *group, const IDRSStep *step)
{
  IDRSAlgebra  algebra[IDRS_MAX_WIDTH] = {};
  PetscScalar *sums[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    algebra[i].step = *step;
    sums[i]         = ((IDRS_CUDA *)group->work[i]->data)->hostsums;
  }
  PetscCall(IDRSProjectLaunch_CUDA(group, algebra, sums));
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWorkspace work = group->work[i];
    const IDRS_CUDA    *cuda = (const IDRS_CUDA *)work->data;

    PetscCall(IDRSWait_CUDA(work, cuda->arrived, cuda->sequence));
    PetscCall(PetscArraycpy(work->scalars.sums, sums[i], IDRS_SUMS(work->s, IDRSStepHasY(step, work->s))));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
