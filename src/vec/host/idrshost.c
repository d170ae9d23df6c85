/*
   Back end "host": the passes of IDR(s) on arrays in host memory, for VECSEQ and VECMPI, and for VECCUDA bound to the CPU. A
   pass reads each operand from memory once: chunks of rows stay in the first-level cache while the columns of the panels are
   added. The hashed shadow space is computed where it is used
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrspassloops.h>
#include <petscidrs/private/idrscompat.h>
#include "../vec/blockvec.h"

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

/* Computes the direction of step k on m rows from b on: U_k if the step wants it, else v. In the start U_k is v */
IDRS_INLINE void IDRSDirectionChunk(const IDRSLoop_Host *loop, PetscInt k, PetscBool start, size_t b, PetscInt m)
{
  const IDRSPanels_Host *panels = loop->panels;
  PetscScalar            scratch[IDRS_CHUNK];
  PetscScalar           *v = loop->v ? loop->v + b : (start ? panels->U + k * panels->ld + b : scratch);

  IDRSLoopCombineV(m, loop->scalars, k, start, panels->G + b, panels->ld, loop->r + b, v);
  if (loop->diagonal) IDRSLoopScale(m, loop->diagonal + b, v, v);
  if (loop->step->wantu && !start) IDRSLoopCombineU(m, loop->scalars, k, panels->U + b, panels->ld, v);
}

IDRS_VECTORISED static void IDRSCombinePass(const IDRSLoop_Host *loop)
{
  const IDRSPanels_Host *panels = loop->panels;
  const IDRSStep        *step   = loop->step;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);

    if (step->k == loop->scalars->s) /* the omega step that ends the start: r -= G c */
      IDRSLoopCombineV(m, loop->scalars, step->k, PETSC_TRUE, panels->G + b, panels->ld, loop->r + b, loop->r + b);
    else if (step->wantv) IDRSDirectionChunk(loop, step->k, PETSC_FALSE, b, m);
    else IDRSLoopCombineU(m, loop->scalars, step->k, panels->U + b, panels->ld, loop->t + b);
  }
}

IDRS_VECTORISED static PetscReal IDRSUpdatePass(const IDRSLoop_Host *loop)
{
  const IDRSPanels_Host *panels = loop->panels;
  const IDRSStep        *step   = loop->step;
  PetscReal              rr     = 0.0;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);

    rr += IDRSLoopUpdate(m, loop->scalars, step->k, step->start, panels->G + b, panels->U + b, panels->ld, loop->r + b);
    if (step->wantv) IDRSDirectionChunk(loop, step->k + 1, step->start, b, m);
  }
  return rr;
}

IDRS_VECTORISED static PetscReal IDRSAdvancePass(const IDRSLoop_Host *loop)
{
  const IDRSPanels_Host *panels = loop->panels;
  PetscReal              rr     = 0.0;

  for (size_t b = 0; b < (size_t)loop->n; b += IDRS_CHUNK) {
    const PetscInt     m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)loop->n - b);
    PetscScalar       *r = loop->r + b, scratch[IDRS_CHUNK];
    const PetscScalar *p = loop->diagonal ? scratch : loop->p + b;

    if (loop->diagonal) IDRSLoopScale(m, loop->diagonal + b, r, scratch); /* p = D r */
    rr += IDRSLoopAdvance(m, loop->scalars, panels->U + b, panels->ld, p, loop->t + b, loop->z + b, r);
    if (loop->step->wantv) IDRSDirectionChunk(loop, 0, PETSC_FALSE, b, m);
  }
  return rr;
}

/*
   Computes the sums of a projection over the rows of this process, except r^H r. P has explicit shadow vectors, or is NULL for the
   hashed space. `both`: there is a y, although y may be NULL without local rows
*/
IDRS_VECTORISED static void IDRSProjectPass(IDRSWork work, const PetscScalar *P[], const PetscScalar *x, const PetscScalar *y,
                                            PetscBool both, PetscScalar sums[])
{
  const PetscInt n = work->n, s = work->s;
  const uint64_t key = IDRSShadowKey(work->seed), rstart = (uint64_t)work->rstart;
  uint32_t       z0[IDRS_CHUNK], z1[IDRS_CHUNK];

  for (PetscInt j = 0; j < IDRS_SUMS(s, both); j++) {
    if (j != IDRS_SUM_RR(s)) sums[j] = 0.0;
  }
  for (size_t b = 0; b < (size_t)n; b += IDRS_CHUNK) {
    const PetscInt     m  = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)n - b);
    const PetscScalar *yb = y + (both ? b : 0);

    if (P) {
      for (PetscInt j = 0; j < s; j++) {
        sums[IDRS_SUM_PX(s) + j] += IDRSLoopDot(m, P[j] + b, x + b);
        if (both) sums[IDRS_SUM_PY(s) + j] += IDRSLoopDot(m, P[j] + b, yb);
      }
    } else {
      IDRSLoopShadowRows(m, key, rstart + (uint64_t)b, z0, z1);
      IDRSLoopAddShadowSums(m, s, z0, z1, x + b, yb, both, sums);
    }
    IDRSLoopAddSquares(m, s, x + b, yb, both, sums);
  }
  if (!P) IDRSLoopScaleSums(s, both, sums);
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
  if (ghosted) *why = "back end host does not support ghosted vectors";
  if (!standard && place != IDRS_PLACE_HOST)
    *why = "back end host supports only vectors of type seq or mpi, or of type cuda if they are bound to the CPU";
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

/* Increases the state of a column that was written through the panel */
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
  .blockarray   = IDRSBlockArray_Vec,
  .blockcombine = IDRSBlockCombine_Vec,
  .blockproject = IDRSBlockProject_Vec,
};
