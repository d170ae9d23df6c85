/*
   Back end "vec": the passes of IDR(s) by Vec calls, for vectors of every type. It is the reference that the kernels are tested
   against. If the entries are arrays in host memory, one loop computes all sums of a projection, with the shadow space from its
   hash. For other types, and with explicit shadow vectors, P is stored
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsloops.h>

/* Rows of a chunk that stays in the first-level cache: 8 kB of doubles */
#define IDRS_CHUNK 1024

/* Work space: coefficients of a sum, and the vectors and values of inner products */
typedef struct {
  PetscScalar *scaled, *dots; /* s, s + 2 */
  Vec         *vecs;          /* s + 2 */
} IDRS_Vec;

static PetscErrorCode IDRSRuns_Vec(Vec like, PetscInt s, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns PETSC_TRUE if the entries of vectors like this one are in an array in host memory on all processes. If only some of them
   created P, message tags of later objects would differ between processes, and MatMult() of PETSc would wait for ever
*/
static PetscErrorCode IDRSIsHostArray(Vec like, PetscBool *array)
{
  PetscMPIInt all;
  IDRSMemory  place;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, array, VECSEQ, VECMPI, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSVecWhere(like, &place));
  all = *array && place == IDRS_MEMORY_HOST ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)like));
  *array = all ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_Vec(IDRSWorkspace work, Vec like)
{
  PetscBool array   = PETSC_FALSE;
  Vec     **bases[] = {&work->G, &work->U, &work->P};
  IDRS_Vec *data;

  PetscFunctionBegin;
  PetscCall(IDRSIsHostArray(like, &array));
  PetscCall(PetscNew(&data));
  work->data = data;
  PetscCall(PetscMalloc3(work->s, &data->scaled, work->s + 2, &data->dots, work->s + 2, &data->vecs));
  for (PetscInt j = 0; j < (array || !work->hashed ? 2 : 3); j++) {
    Vec *columns;

    PetscCall(VecDuplicateVecs(like, work->s, &columns));
    *bases[j] = columns; /* only once it is complete */
  }
  if (work->hashed && work->P) PetscCall(IDRSShadowFill(work, work->P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_Vec(IDRSWorkspace work)
{
  IDRS_Vec *data = (IDRS_Vec *)work->data;

  PetscFunctionBegin;
  if (work->G) PetscCall(VecDestroyVecs(work->s, &work->G));
  if (work->U) PetscCall(VecDestroyVecs(work->s, &work->U));
  if (work->hashed && work->P) PetscCall(VecDestroyVecs(work->s, &work->P));
  if (data) PetscCall(PetscFree3(data->scaled, data->dots, data->vecs));
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y += scale X a */
static PetscErrorCode IDRSAdd_Vec(IDRSWorkspace work, Vec y, PetscScalar scale, PetscInt columns, const PetscScalar a[], Vec X[])
{
  PetscScalar *scaled = ((IDRS_Vec *)work->data)->scaled;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < columns; j++) scaled[j] = scale * a[j];
  if (columns) PetscCall(VecMAXPY(y, columns, scaled, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v = r - G(:,k:s) c, also in place of r in the omega step */
static PetscErrorCode IDRSCombineV_Vec(IDRSWorkspace work, PetscInt k, Vec v)
{
  PetscFunctionBegin;
  if (v != work->r) PetscCall(VecCopy(work->r, v));
  PetscCall(IDRSAdd_Vec(work, v, -1.0, work->s - k, work->scalars.c + k, work->G + k));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes U_k = omega v + U(:,k:s) c */
static PetscErrorCode IDRSCombineU_Vec(IDRSWorkspace work, PetscInt k, Vec v)
{
  const IDRSScalars *scalars = &work->scalars;

  PetscFunctionBegin;
  PetscCall(VecAXPBY(work->U[k], scalars->omega[0], scalars->c[k], v));
  PetscCall(IDRSAdd_Vec(work, work->U[k], 1.0, work->s - k - 1, scalars->c + k + 1, work->U + k + 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the direction of step k: v, multiplied by a diagonal B^{-1}, and U_k */
static PetscErrorCode IDRSDirection_Vec(IDRSWorkspace work, PetscInt k, const IDRSStep *step)
{
  PetscFunctionBegin;
  if (step->wantv) {
    PetscCall(IDRSCombineV_Vec(work, k, work->v));
    if (work->diagonal) PetscCall(VecPointwiseMult(work->v, work->v, work->diagonal));
  }
  if (step->wantu) PetscCall(IDRSCombineU_Vec(work, k, step->wantv ? work->v : work->t));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCombineWork_Vec(IDRSWorkspace work, const IDRSStep *step)
{
  PetscFunctionBegin;
  /* r -= G c, at the end of the start */
  if (step->k == work->s) PetscCall(IDRSCombineV_Vec(work, 0, work->r));
  else PetscCall(IDRSDirection_Vec(work, step->k, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the sums of a projection over the rows of this process, with the shadow space from its hash. `both`: there is y = r,
   although r may be NULL without local rows
*/
IDRS_VECTORISED static void IDRSProjectLoop(IDRSWorkspace work, const PetscScalar *x, const PetscScalar *r, PetscBool both,
                                            PetscScalar sums[])
{
  const PetscInt n = work->n, s = work->s;
  const uint64_t key = IDRSShadowKey(work->seed), rstart = (uint64_t)work->rstart;
  uint32_t       z0[IDRS_CHUNK], z1[IDRS_CHUNK];

  for (PetscInt j = 0; j < IDRS_SUMS(s, both); j++) sums[j] = 0.0;
  for (size_t b = 0; b < (size_t)n; b += IDRS_CHUNK) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_CHUNK, (size_t)n - b);

    IDRSLoopShadowRows(m, key, rstart + (uint64_t)b, z0, z1);
    IDRSLoopAddShadowSums(m, s, z0, z1, x + b, r + b, both, sums);
    IDRSLoopAddSquares(m, s, x + b, r + b, both, sums);
    if (!both) sums[IDRS_SUM_RR(s)] += IDRSLoopSquare(m, r + b);
  }
  if (both) sums[IDRS_SUM_RR(s)] = sums[IDRS_SUM_YY(s)];
  IDRSLoopScaleSums(s, both, sums);
}

/* Computes the sums of a projection with stored shadow vectors: (P, x)^H x, then r^H r or (P, x, r)^H r */
static PetscErrorCode IDRSProjectStored_Vec(IDRSWorkspace work, Vec x, PetscBool both, PetscScalar sums[])
{
  const PetscInt s    = work->s;
  IDRS_Vec      *data = (IDRS_Vec *)work->data;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < s; j++) data->vecs[j] = work->P[j];
  data->vecs[s]     = x;
  data->vecs[s + 1] = work->r;
  PetscCall(IDRSVecMDotLocal(x, s + 1, data->vecs, data->dots)); /* P^H x, x^H x */
  PetscCall(PetscArraycpy(sums + IDRS_SUM_PX(s), data->dots, s));
  sums[IDRS_SUM_XX(s)] = data->dots[s];
  if (both) {
    PetscCall(IDRSVecMDotLocal(work->r, s + 2, data->vecs, data->dots)); /* P^H r, x^H r, r^H r */
    PetscCall(PetscArraycpy(sums + IDRS_SUM_PY(s), data->dots, s + 2));
    sums[IDRS_SUM_RR(s)] = data->dots[s + 1];
  } else PetscCall(IDRSVecMDotLocal(work->r, 1, &work->r, &sums[IDRS_SUM_RR(s)]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProjectWork_Vec(IDRSWorkspace work, const IDRSStep *step)
{
  PetscScalar       *sums = work->scalars.sums;
  const PetscBool    both = IDRSStepHasY(step, work->s);
  const PetscScalar *xarray, *rarray;
  Vec                x, y;

  PetscFunctionBegin;
  IDRSStepVecs(work, step, &x, &y);
  if (work->P) PetscCall(IDRSProjectStored_Vec(work, x, both, sums));
  else {
    PetscCall(VecGetArrayRead(x, &xarray));
    PetscCall(VecGetArrayRead(work->r, &rarray));
    IDRSProjectLoop(work, xarray, rarray, both, sums);
    PetscCall(VecRestoreArrayRead(work->r, &rarray));
    PetscCall(VecRestoreArrayRead(x, &xarray));
    PetscCall(PetscLogFlops((PetscLogDouble)(both ? 4 * work->s + 6 : 2 * work->s + 4) * (PetscLogDouble)work->n));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdateWork_Vec(IDRSWorkspace work, const IDRSStep *step)
{
  const IDRSScalars *scalars = &work->scalars;
  const PetscInt     k       = step->k;

  PetscFunctionBegin;
  if (step->start) PetscCall(VecAXPY(work->r, -scalars->beta[k], work->G[k]));  /* G_k is not orthogonal yet */
  PetscCall(IDRSAdd_Vec(work, work->G[k], -1.0, k, scalars->alpha, work->G));   /* G_k -= G(:,0:k) alpha */
  PetscCall(IDRSAdd_Vec(work, work->U[k], -1.0, k, scalars->alpha, work->U));   /* U_k -= U(:,0:k) alpha */
  if (!step->start) PetscCall(VecAXPY(work->r, -scalars->beta[k], work->G[k])); /* r -= beta_k G_k */
  if (step->start && step->wantv) {
    Vec v = step->wantu ? work->U[k + 1] : work->v;

    PetscCall(VecCopy(work->r, v));
    PetscCall(IDRSAdd_Vec(work, v, -1.0, k + 1, scalars->c, work->G)); /* v = r - G(:,0:k+1) c */
    if (work->diagonal) PetscCall(VecPointwiseMult(v, v, work->diagonal));
  } else PetscCall(IDRSDirection_Vec(work, k + 1, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSAdvanceWork_Vec(IDRSWorkspace work, const IDRSStep *step)
{
  const IDRSScalars *scalars = &work->scalars;

  PetscFunctionBegin;
  if (work->diagonal) PetscCall(VecPointwiseMult(work->v, work->r, work->diagonal));        /* p = D r */
  PetscCall(VecAXPY(work->z, scalars->omega[0], work->preconditioned ? work->v : work->r)); /* z += omega p */
  PetscCall(IDRSAdd_Vec(work, work->z, 1.0, work->s, scalars->beta, work->U));              /* z += U beta */
  PetscCall(VecAXPY(work->r, -scalars->omega[0], work->t));                                 /* r -= omega t */
  PetscCall(IDRSDirection_Vec(work, 0, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Defines a pass of a group by the function for one work */
#define IDRS_GROUP_PASS(pass) \
  static PetscErrorCode pass##_Vec(const IDRSGroup *group, const IDRSStep *step) \
  { \
    PetscFunctionBegin; \
    for (PetscInt i = 0; i < group->count; i++) PetscCall(pass##Work_Vec(group->work[i], step)); \
    PetscFunctionReturn(PETSC_SUCCESS); \
  }
IDRS_GROUP_PASS(IDRSCombine)
IDRS_GROUP_PASS(IDRSProject)
IDRS_GROUP_PASS(IDRSUpdate)
IDRS_GROUP_PASS(IDRSAdvance)

/* Block IDR(s). Columns of the shadow space are computed where they are used */

/* Copies columns to an array of Vec */
static void IDRSBlockList(PetscInt count, const IDRSBlockVec columns[], Vec list[])
{
  for (PetscInt i = 0; i < count; i++) list[i] = columns[i].vec;
}

/* Computes the columns of Y in other vectors first, because they may be among the columns of X */
static PetscErrorCode IDRSBlockAxpy_Vec(IDRSWorkspace work, const IDRSBlockAxpy *sum, Vec x[], Vec y[])
{
  const PetscInt scaled = sum->scaled;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < sum->ny; j++) {
    const PetscScalar *c = sum->C + j * sum->ld;

    PetscCall(IDRSVecZero(y[j]));
    PetscCall(VecMAXPY(y[j], scaled, (PetscScalar *)c, x));
    if (scaled && work->diagonal) PetscCall(VecPointwiseMult(y[j], y[j], work->diagonal));
    if (sum->add) PetscCall(VecAXPY(y[j], 1.0, sum->y[j].vec));
    PetscCall(VecMAXPY(y[j], sum->nx - scaled, (PetscScalar *)c + scaled, x + scaled));
  }
  for (PetscInt j = 0; j < sum->ny; j++) PetscCall(VecCopy(y[j], sum->y[j].vec));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockCombineOne_Vec(IDRSWorkspace work, const IDRSBlockAxpy *sum)
{
  PetscErrorCode made, ierr;
  Vec           *x, *y;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(sum->nx, &x));
  IDRSBlockList(sum->nx, sum->x, x);
  made = VecDuplicateVecs(work->r, sum->ny, &y);
  ierr = made ? made : IDRSBlockAxpy_Vec(work, sum, x, y);
  PetscCall(PetscFree(x));
  if (!made) PetscCall(VecDestroyVecs(sum->ny, &y));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockCombine_Vec(IDRSWorkspace work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSBlockCombineOne_Vec(work, &sums[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of a task. p and row are overwritten */
static PetscErrorCode IDRSBlockDots_Vec(IDRSWorkspace work, const IDRSBlockDots *dots, const Vec w[], const Vec x[], Vec p,
                                        PetscScalar row[], PetscScalar sums[])
{
  PetscScalar *products = sums + dots->rows * dots->nx;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < dots->rows; i++) {
    PetscCall(IDRSVecSetHashed(p, work->seed, i));
    PetscCall(IDRSVecMDotLocal(p, dots->nx, x, row)); /* x^H p, and p is real */
    for (PetscInt j = 0; j < dots->nx; j++) sums[i + j * dots->rows] = PetscConj(row[j]);
  }
  for (PetscInt j = 0; j < dots->nx; j++) PetscCall(IDRSVecMDotLocal(x[j], dots->nw, w, products + j * dots->nw));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockProjectOne_Vec(IDRSWorkspace work, const IDRSBlockDots *dots, PetscScalar sums[])
{
  PetscErrorCode made, ierr;
  PetscScalar   *row;
  Vec           *w, *x, p;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(dots->nw, &w, dots->nx, &x, dots->nx, &row));
  IDRSBlockList(dots->nw, dots->w, w);
  IDRSBlockList(dots->nx, dots->x, x);
  made = VecDuplicate(work->r, &p);
  ierr = made ? made : IDRSBlockDots_Vec(work, dots, w, x, p, row, sums);
  PetscCall(PetscFree3(w, x, row));
  if (!made) PetscCall(VecDestroy(&p));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockProject_Vec(IDRSWorkspace work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSBlockProjectOne_Vec(work, &tasks[i], sums));
    sums += IDRSBlockDotsCount(&tasks[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPassOps IDRSPasses_Vec = {
  .name         = "vec",
  .runs         = IDRSRuns_Vec,
  .create       = IDRSCreate_Vec,
  .destroy      = IDRSDestroy_Vec,
  .combine      = IDRSCombine_Vec,
  .project      = IDRSProject_Vec,
  .update       = IDRSUpdate_Vec,
  .advance      = IDRSAdvance_Vec,
  .additerate   = IDRSAddIterate_Vec,
  .residual     = IDRSResidual_Vec,
  .norms        = IDRSNorms_Vec,
  .blockcombine = IDRSBlockCombine_Vec,
  .blockproject = IDRSBlockProject_Vec,
};
