/*
   Back end "host": the passes of IDR(s) on arrays in host memory, for VECSEQ and VECMPI, and for VECCUDA bound to the CPU. A
   pass reads each operand from memory once: chunks of rows stay in the first-level cache while the columns of the panels are
   added. The hashed shadow space is computed where it is used
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrsloops.h>
#include <petscidrs/private/idrscompat.h>
#include "blockhost.h"

/* Rows of a chunk: 8 kB of doubles */
#define IDRS_CHUNK 1024

/* The panels: column j of G begins at G + j * ld */
typedef struct {
  PetscScalar        *G, *U;
  size_t              ld;
  const PetscScalar **P; /* arrays of explicit shadow vectors, while a projection has them */
} IDRSPanels_Host;

/* The arguments of the loop of a pass. Arrays that the pass does not use are NULL */
typedef struct {
  const IDRSPanels_Host *panels;
  const IDRSScalars     *scalars;
  const IDRSStep        *step;
  PetscInt               n;
  PetscScalar           *r, *z, *v;
  const PetscScalar     *p, *t;
  const PetscScalar     *diagonal; /* of B^{-1}, if the passes apply it */
} IDRSLoop_Host;

/* Computes v = r - G(:,from:to) c on m rows from b on; v points to these rows */
IDRS_INLINE void IDRSCombineVChunk(const IDRSLoop_Host *loop, PetscInt from, PetscInt to, size_t b, PetscInt m, PetscScalar *v)
{
  const IDRSPanels_Host *panels = loop->panels;
  const PetscScalar     *r      = loop->r + b;

  if (v != r) {
    for (PetscInt i = 0; i < m; i++) v[i] = r[i];
  }
  IDRSLoopAdd(m, v, -1.0, to - from, loop->scalars->c + from, panels->G + from * panels->ld + b, panels->ld);
}

/* Computes y = D x on these rows, where D = B^{-1} is diagonal; x and y point to these rows */
IDRS_INLINE void IDRSScaleChunk(const IDRSLoop_Host *loop, size_t b, PetscInt m, const PetscScalar *x, PetscScalar *y)
{
  for (PetscInt i = 0; i < m; i++) y[i] = loop->diagonal[b + i] * x[i];
}

/* Computes U_k = omega v + U(:,k:s) c on these rows */
IDRS_INLINE void IDRSCombineUChunk(const IDRSLoop_Host *loop, PetscInt k, size_t b, PetscInt m, const PetscScalar *v)
{
  const IDRSScalars          *scalars = loop->scalars;
  const size_t                ld      = loop->panels->ld;
  PetscScalar *PETSC_RESTRICT u       = loop->panels->U + k * ld + b;
  const PetscScalar           omega = scalars->omega[0], ck = scalars->c[k];

  for (PetscInt i = 0; i < m; i++) u[i] = omega * v[i] + ck * u[i];
  IDRSLoopAdd(m, u, 1.0, scalars->s - k - 1, scalars->c + k + 1, loop->panels->U + (k + 1) * ld + b, ld);
}

/* Computes V or VU of step k on these rows */
IDRS_INLINE void IDRSCombineChunk(const IDRSLoop_Host *loop, PetscInt k, size_t b, PetscInt m)
{
  PetscScalar  scratch[IDRS_CHUNK];
  PetscScalar *v = loop->v ? loop->v + b : scratch;

  IDRSCombineVChunk(loop, k, loop->scalars->s, b, m, v);
  if (loop->diagonal) IDRSScaleChunk(loop, b, m, v, v);
  if (loop->step->wantu) IDRSCombineUChunk(loop, k, b, m, v);
}

IDRS_VECTORISED static void IDRSCombinePass(const IDRSLoop_Host *loop)
{
  const IDRSStep *step = loop->step;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);

    if (step->k == loop->scalars->s) IDRSCombineVChunk(loop, 0, step->k, b, m, loop->r + b); /* r -= G c */
    else if (step->wantv) IDRSCombineChunk(loop, step->k, b, m);
    else IDRSCombineUChunk(loop, step->k, b, m, loop->t + b);
  }
}

IDRS_VECTORISED static PetscReal IDRSUpdatePass(const IDRSLoop_Host *loop)
{
  const IDRSPanels_Host *panels  = loop->panels;
  const IDRSScalars     *scalars = loop->scalars;
  const IDRSStep        *step    = loop->step;
  const PetscInt         k       = step->k;
  const size_t           ld      = panels->ld;
  PetscReal              rr      = 0.0;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);
    PetscScalar   *g = panels->G + k * ld + b, *u = panels->U + k * ld + b, *r = loop->r + b;

    /* r -= beta_k G_k, with the new G_k except in the start */
    if (step->start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, g, ld);
    IDRSLoopAdd(m, g, -1.0, k, scalars->alpha, panels->G + b, ld); /* G_k -= G(:,0:k) alpha */
    IDRSLoopAdd(m, u, -1.0, k, scalars->alpha, panels->U + b, ld); /* U_k -= U(:,0:k) alpha */
    if (!step->start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, g, ld);
    if (step->wantv && step->start) {
      PetscScalar *v = step->wantu ? u + ld : loop->v + b;

      IDRSCombineVChunk(loop, 0, k + 1, b, m, v); /* v = r - G(:,0:k+1) c */
      if (loop->diagonal) IDRSScaleChunk(loop, b, m, v, v);
    } else if (step->wantv) IDRSCombineChunk(loop, k + 1, b, m);
    rr += IDRSLoopSquare(m, r);
  }
  return rr;
}

IDRS_VECTORISED static PetscReal IDRSAdvancePass(const IDRSLoop_Host *loop)
{
  const IDRSPanels_Host *panels  = loop->panels;
  const IDRSScalars     *scalars = loop->scalars;
  PetscReal              rr      = 0.0;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);
    PetscScalar   *z = loop->z + b, *r = loop->r + b, scratch[IDRS_CHUNK];

    if (loop->diagonal) IDRSScaleChunk(loop, b, m, r, scratch); /* p = D r */
    /* z += omega p + U beta */
    IDRSLoopAdd(m, z, 1.0, 1, scalars->omega, loop->diagonal ? scratch : loop->p + b, panels->ld);
    IDRSLoopAdd(m, z, 1.0, scalars->s, scalars->beta, panels->U + b, panels->ld);
    IDRSLoopAdd(m, r, -1.0, 1, scalars->omega, loop->t + b, panels->ld); /* r -= omega t */
    rr += IDRSLoopSquare(m, r);
    if (loop->step->wantv) IDRSCombineChunk(loop, 0, b, m);
  }
  return rr;
}

/*
   Computes the sums of a projection over the rows of this process, except r^H r. P has explicit shadow vectors, or is NULL for
   the hashed space. `both` says that there is a y, because y is NULL without local rows
*/
IDRS_VECTORISED static void IDRSProjectPass(IDRSWork work, const PetscScalar *P[], const PetscScalar *x, const PetscScalar *y,
                                            PetscBool both, PetscScalar sums[])
{
  const PetscInt n = work->n, s = work->s;
  const uint64_t key = IDRSShadowKey(work->seed), rstart = (uint64_t)work->rstart;
  PetscScalar   *Px = sums + IDRS_SUM_PX(s), *Py = sums + IDRS_SUM_PY(s), xx = 0.0, yy = 0.0, xy = 0.0, unused = 0.0;
  uint32_t       z0[IDRS_CHUNK], z1[IDRS_CHUNK];

  for (PetscInt j = 0; j < s; j++) {
    Px[j] = 0.0;
    if (both) Py[j] = 0.0;
  }
  for (size_t b = 0; b < (size_t)n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)n - b);

    if (P) {
      for (PetscInt j = 0; j < s; j++) {
        Px[j] += IDRSLoopDot(m, P[j] + b, x + b);
        if (both) Py[j] += IDRSLoopDot(m, P[j] + b, y + b);
      }
    } else {
      IDRSLoopShadowRows(m, key, rstart + (uint64_t)b, z0, z1);
      for (PetscInt j = 0; j < s; j += 2) {
        const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(j / 2));

        IDRSLoopShadowDots(m, z0, z1, multiplier, x + b, Px + j, j + 1 < s ? Px + j + 1 : &unused);
        if (both) IDRSLoopShadowDots(m, z0, z1, multiplier, y + b, Py + j, j + 1 < s ? Py + j + 1 : &unused);
      }
    }
    xx += IDRSLoopSquare(m, x + b);
    if (both) {
      yy += IDRSLoopSquare(m, y + b);
      xy += IDRSLoopDot(m, x + b, y + b);
    }
  }
  if (!P) {
    for (PetscInt j = 0; j < s; j++) {
      Px[j] *= (PetscReal)IDRS_SHADOW_UNIT;
      if (both) Py[j] *= (PetscReal)IDRS_SHADOW_UNIT;
    }
  }
  sums[IDRS_SUM_XX(s)] = xx;
  if (both) {
    sums[IDRS_SUM_YY(s)] = yy;
    sums[IDRS_SUM_XY(s)] = xy;
  }
}

/*
   The arrays of VECSEQ and VECMPI have all their entries, unless they have ghost points, which columns of the panels would not
   have
*/
static PetscErrorCode IDRSRuns_Host(Vec like, PetscInt s, const char *why[])
{
  PetscBool standard, cuda, ghosted;
  IDRSPlace place = IDRS_PLACE_CUDA;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &standard, VECSEQ, VECMPI, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (cuda) PetscCall(IDRSVecWhere(like, &place));
  PetscCall(IDRSGhosted(like, &ghosted));
  if (ghosted) *why = "back end host takes no ghosted vectors";
  if (!standard && place != IDRS_PLACE_HOST)
    *why = "back end host takes vectors of type seq and mpi, and cuda when bound to the CPU";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a Vec like the vectors of the system on one column of a panel */
static PetscErrorCode IDRSColumnCreate_Host(IDRSWork work, Vec like, PetscScalar *array, Vec *column)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)like);
  PetscInt       bs, N;
  PetscBool      seq, mpi;

  PetscFunctionBegin;
  PetscCall(VecGetBlockSize(like, &bs));
  PetscCall(VecGetSize(like, &N));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQ, &seq));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECMPI, &mpi));
  if (seq) PetscCall(VecCreateSeqWithArray(comm, bs, work->n, array, column));
  else if (mpi) PetscCall(VecCreateMPIWithArray(comm, bs, work->n, N, array, column));
#if PetscDefined(HAVE_CUDA)
  else {
    PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQCUDA, &seq));
    if (seq) PetscCall(VecCreateSeqCUDAWithArrays(comm, bs, work->n, array, NULL, column));
    else PetscCall(VecCreateMPICUDAWithArrays(comm, bs, work->n, N, array, NULL, column));
    PetscCall(VecBindToCPU(*column, PETSC_TRUE));
  }
#endif
  PetscCall(IDRSColumnInherit(like, *column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates G and U, whose columns begin on cache lines */
static PetscErrorCode IDRSCreateWork_Host(IDRSWork work, Vec like)
{
  const size_t         line      = 64 / sizeof(PetscScalar);
  const PetscInt       s         = work->s;
  const PetscLogDouble lacking[] = {0, 0};
  IDRSPanels_Host     *panels;

  PetscFunctionBegin;
  PetscCall(PetscNew(&panels));
  work->data = panels;
  panels->ld = ((size_t)work->n / line + 1) * line;
  PetscCall(PetscMalloc1((size_t)s * panels->ld, &panels->G));
  PetscCall(PetscMalloc1((size_t)s * panels->ld, &panels->U));
  PetscCall(IDRSWorkCheckMemory(work, lacking));
  if (work->P) PetscCall(PetscMalloc1(s, &panels->P));
  PetscCall(PetscCalloc1(s, &work->G));
  PetscCall(PetscCalloc1(s, &work->U));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(IDRSColumnCreate_Host(work, like, panels->G + j * panels->ld, &work->G[j]));
    PetscCall(IDRSColumnCreate_Host(work, like, panels->U + j * panels->ld, &work->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_Host(const IDRSGroup *group, Vec like)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall(IDRSCreateWork_Host(group->work[i], like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroyWork_Host(IDRSWork work)
{
  IDRSPanels_Host *panels = (IDRSPanels_Host *)work->data;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsDestroy(work->s, &work->G));
  PetscCall(IDRSColumnsDestroy(work->s, &work->U));
  if (panels) {
    PetscCall(PetscFree(panels->G));
    PetscCall(PetscFree(panels->U));
    PetscCall(PetscFree(panels->P));
  }
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_Host(const IDRSGroup *group)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall(IDRSDestroyWork_Host(group->work[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static IDRSLoop_Host IDRSLoop(IDRSWork work, const IDRSStep *step)
{
  return (IDRSLoop_Host){.panels = (IDRSPanels_Host *)work->data, .scalars = &work->scalars, .step = step, .n = work->n};
}

/* Gets the array of v if the pass writes v, and the diagonal */
static PetscErrorCode IDRSGetV_Host(IDRSWork work, IDRSLoop_Host *loop)
{
  PetscFunctionBegin;
  if (work->diagonal) PetscCall(VecGetArrayRead(work->diagonal, &loop->diagonal));
  if (loop->step->wantv && !loop->step->wantu) PetscCall(VecGetArrayWrite(work->v, &loop->v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSRestoreV_Host(IDRSWork work, IDRSLoop_Host *loop)
{
  PetscFunctionBegin;
  if (loop->step->wantv && !loop->step->wantu) PetscCall(VecRestoreArrayWrite(work->v, &loop->v));
  if (work->diagonal) PetscCall(VecRestoreArrayRead(work->diagonal, &loop->diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Increases the state of a column whose values have been written through the panel */
static PetscErrorCode IDRSChanged_Host(Vec column)
{
  PetscScalar *array;

  PetscFunctionBegin;
  PetscCall(VecGetArray(column, &array));
  PetscCall(VecRestoreArray(column, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCombineWork_Host(IDRSWork work, const IDRSStep *step)
{
  IDRSLoop_Host loop = IDRSLoop(work, step);

  PetscFunctionBegin;
  if (step->k == work->s) {
    PetscCall(VecGetArray(work->r, &loop.r));
    IDRSCombinePass(&loop);
    PetscCall(VecRestoreArray(work->r, &loop.r));
  } else if (step->wantv) {
    PetscCall(VecGetArrayRead(work->r, (const PetscScalar **)&loop.r));
    PetscCall(IDRSGetV_Host(work, &loop));
    IDRSCombinePass(&loop);
    PetscCall(IDRSRestoreV_Host(work, &loop));
    PetscCall(VecRestoreArrayRead(work->r, (const PetscScalar **)&loop.r));
  } else {
    PetscCall(VecGetArrayRead(work->t, &loop.t));
    IDRSCombinePass(&loop);
    PetscCall(VecRestoreArrayRead(work->t, &loop.t));
  }
  if (step->wantu) PetscCall(IDRSChanged_Host(work->U[step->k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProjectWork_Host(IDRSWork work, const IDRSStep *step)
{
  const PetscScalar **P = ((IDRSPanels_Host *)work->data)->P, *xarray, *yarray = NULL;
  Vec                 x, y;

  PetscFunctionBegin;
  IDRSStepVecs(work, step, &x, &y);
  for (PetscInt j = 0; P && j < work->s; j++) PetscCall(VecGetArrayRead(work->P[j], &P[j]));
  PetscCall(VecGetArrayRead(x, &xarray));
  if (y) PetscCall(VecGetArrayRead(y, &yarray));
  IDRSProjectPass(work, P, xarray, yarray, y ? PETSC_TRUE : PETSC_FALSE, work->scalars.sums);
  if (y) PetscCall(VecRestoreArrayRead(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  for (PetscInt j = 0; P && j < work->s; j++) PetscCall(VecRestoreArrayRead(work->P[j], &P[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdateWork_Host(IDRSWork work, const IDRSStep *step)
{
  IDRSLoop_Host  loop = IDRSLoop(work, step);
  const PetscInt k    = step->k;

  PetscFunctionBegin;
  PetscCall(VecGetArray(work->r, &loop.r));
  PetscCall(IDRSGetV_Host(work, &loop));
  work->rr = IDRSUpdatePass(&loop);
  PetscCall(IDRSRestoreV_Host(work, &loop));
  PetscCall(VecRestoreArray(work->r, &loop.r));
  if (k) {
    PetscCall(IDRSChanged_Host(work->G[k]));
    PetscCall(IDRSChanged_Host(work->U[k]));
  }
  if (step->wantu) PetscCall(IDRSChanged_Host(work->U[k + 1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* With a preconditioner that is not diagonal v holds p = B^{-1}r. Each chunk of p is read before v is written */
static PetscErrorCode IDRSAdvanceWork_Host(IDRSWork work, const IDRSStep *step)
{
  const PetscBool given = (PetscBool)(work->preconditioned && !work->diagonal);
  IDRSLoop_Host   loop  = IDRSLoop(work, step);

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(work->t, &loop.t));
  PetscCall(VecGetArray(work->z, &loop.z));
  PetscCall(VecGetArray(work->r, &loop.r));
  if (given) PetscCall(VecGetArray(work->v, &loop.v));
  else PetscCall(IDRSGetV_Host(work, &loop));
  loop.p   = given ? loop.v : loop.r;
  work->rr = IDRSAdvancePass(&loop);
  if (given) PetscCall(VecRestoreArray(work->v, &loop.v));
  else PetscCall(IDRSRestoreV_Host(work, &loop));
  PetscCall(VecRestoreArray(work->r, &loop.r));
  PetscCall(VecRestoreArray(work->z, &loop.z));
  PetscCall(VecRestoreArrayRead(work->t, &loop.t));
  if (step->wantu) PetscCall(IDRSChanged_Host(work->U[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Defines a pass of a group by the function for one work */
#define IDRS_GROUP_PASS(pass) \
  static PetscErrorCode pass##_Host(const IDRSGroup *group, const IDRSStep *step) \
  { \
    PetscFunctionBegin; \
    PetscCall(IDRSEachWork(group, step, pass##Work_Host)); \
    PetscFunctionReturn(PETSC_SUCCESS); \
  }
IDRS_GROUP_PASS(IDRSCombine)
IDRS_GROUP_PASS(IDRSProject)
IDRS_GROUP_PASS(IDRSUpdate)
IDRS_GROUP_PASS(IDRSAdvance)

const IDRSPassOps IDRSPasses_Host = {
  .name         = "host",
  .composed     = PETSC_FALSE,
  .device       = NULL,
  .queue        = {&IDRSQueue_Host, &IDRSQueue_Host, &IDRSQueue_Host},
  .runs         = IDRSRuns_Host,
  .create       = IDRSCreate_Host,
  .destroy      = IDRSDestroy_Host,
  .combine      = IDRSCombine_Host,
  .project      = IDRSProject_Host,
  .update       = IDRSUpdate_Host,
  .advance      = IDRSAdvance_Host,
  .additerate   = IDRSAddIterate_Vec,
  .residual     = IDRSResidual_Vec,
  .squares      = IDRSLocalSquares_Vec,
  .blockarray   = IDRSBlockArray_Host,
  .blockcombine = IDRSBlockCombine_Host,
  .blockproject = IDRSBlockProject_Host,
};
