/*
   Back end "vec": the passes of IDR(s) by Vec calls, for vectors of every type. It is the reference that other back ends are
   tested against, and stores the shadow space, s more vectors
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>
#include "blockvec.h"

static PetscErrorCode IDRSRuns_Vec(Vec like, PetscInt s, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreateWork_Vec(IDRSWork work, Vec like)
{
  PetscScalar *negative;
  Vec        **panels[] = {&work->G, &work->U, &work->P};

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(work->s, &negative));
  work->data = negative;
  for (PetscInt i = 0; i < (work->hashed ? 3 : 2); i++) {
    Vec *columns;

    PetscCall(VecDuplicateVecs(like, work->s, &columns));
    *panels[i] = columns; /* only once it is complete */
  }
  if (work->hashed) PetscCall(IDRSShadowFill(work, work->P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_Vec(const IDRSGroup *group, Vec like)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall(IDRSCreateWork_Vec(group->work[i], like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroyWork_Vec(IDRSWork work)
{
  PetscFunctionBegin;
  if (work->G) PetscCall(VecDestroyVecs(work->s, &work->G));
  if (work->U) PetscCall(VecDestroyVecs(work->s, &work->U));
  if (work->hashed && work->P) PetscCall(VecDestroyVecs(work->s, &work->P));
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_Vec(const IDRSGroup *group)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall(IDRSDestroyWork_Vec(group->work[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y += scale X a */
static PetscErrorCode IDRSAdd_Vec(IDRSWork work, Vec y, PetscScalar scale, PetscInt columns, const PetscScalar a[], Vec X[])
{
  PetscScalar *scaled = (PetscScalar *)work->data;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < columns; j++) scaled[j] = scale * a[j];
  if (columns) PetscCall(VecMAXPY(y, columns, scaled, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v = r - G(:,k:s) c, also in place of r in the omega step */
static PetscErrorCode IDRSCombineV_Vec(IDRSWork work, PetscInt k, Vec v)
{
  PetscFunctionBegin;
  if (v != work->r) PetscCall(VecCopy(work->r, v));
  PetscCall(IDRSAdd_Vec(work, v, -1.0, work->s - k, work->scalars.c + k, work->G + k));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes U_k = omega v + U(:,k:s) c */
static PetscErrorCode IDRSCombineU_Vec(IDRSWork work, PetscInt k, Vec v)
{
  const IDRSScalars *scalars = &work->scalars;

  PetscFunctionBegin;
  PetscCall(VecAXPBY(work->U[k], scalars->omega[0], scalars->c[k], v));
  PetscCall(IDRSAdd_Vec(work, work->U[k], 1.0, work->s - k - 1, scalars->c + k + 1, work->U + k + 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the direction of step k: v, multiplied by a diagonal B^{-1}, and U_k */
static PetscErrorCode IDRSDirection_Vec(IDRSWork work, PetscInt k, const IDRSStep *step)
{
  PetscFunctionBegin;
  if (step->wantv) {
    PetscCall(IDRSCombineV_Vec(work, k, work->v));
    if (work->diagonal) PetscCall(VecPointwiseMult(work->v, work->v, work->diagonal));
  }
  if (step->wantu) PetscCall(IDRSCombineU_Vec(work, k, step->wantv ? work->v : work->t));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCombineWork_Vec(IDRSWork work, const IDRSStep *step)
{
  PetscFunctionBegin;
  /* r -= G c, at the end of the start */
  if (step->k == work->s) PetscCall(IDRSCombineV_Vec(work, 0, work->r));
  else PetscCall(IDRSDirection_Vec(work, step->k, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Begins or ends the split reduction of all sums. VecNormBegin() is not used: if the norm is stored with the vector, VecNormEnd()
   fails and does not end the split reduction
*/
static PetscErrorCode IDRSProjectSplit_Vec(IDRSWork work, const IDRSStep *step,
                                           PetscErrorCode (*mdot)(Vec, PetscInt, const Vec[], PetscScalar[]),
                                           PetscErrorCode (*dot)(Vec, Vec, PetscScalar *))
{
  const PetscInt s    = work->s;
  PetscScalar   *sums = work->scalars.sums;
  Vec            x, y;

  PetscFunctionBegin;
  IDRSStepVecs(work, step, &x, &y);
  PetscCall((*mdot)(x, s, work->P, sums + IDRS_SUM_PX(s)));
  PetscCall((*dot)(x, x, sums + IDRS_SUM_XX(s)));
  PetscCall((*dot)(work->r, work->r, sums + IDRS_SUM_RR(s)));
  if (y) {
    PetscCall((*mdot)(y, s, work->P, sums + IDRS_SUM_PY(s)));
    PetscCall((*dot)(y, x, sums + IDRS_SUM_XY(s)));
    PetscCall((*dot)(y, y, sums + IDRS_SUM_YY(s)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProjectBegin_Vec(IDRSWork work, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCall(IDRSProjectSplit_Vec(work, step, VecMDotBegin, VecDotBegin));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProjectEnd_Vec(IDRSWork work, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCall(IDRSProjectSplit_Vec(work, step, VecMDotEnd, VecDotEnd));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes each sum with its own reduction, for vectors without local inner products */
static PetscErrorCode IDRSProjectSums_Vec(IDRSWork work, const IDRSStep *step)
{
  const PetscInt s    = work->s;
  PetscScalar   *sums = work->scalars.sums;
  PetscReal      xx, rr;
  Vec            x, y;

  PetscFunctionBegin;
  IDRSStepVecs(work, step, &x, &y);
  PetscCall(VecMDot(x, s, work->P, sums + IDRS_SUM_PX(s)));
  PetscCall(VecNorm(x, NORM_2, &xx));
  PetscCall(VecNorm(work->r, NORM_2, &rr));
  if (y) {
    PetscReal yy;

    PetscCall(VecMDot(y, s, work->P, sums + IDRS_SUM_PY(s)));
    PetscCall(VecDot(y, x, sums + IDRS_SUM_XY(s)));
    PetscCall(VecNorm(y, NORM_2, &yy));
    sums[IDRS_SUM_YY(s)] = PetscSqr(yy);
  }
  sums[IDRS_SUM_XX(s)] = PetscSqr(xx);
  sums[IDRS_SUM_RR(s)] = PetscSqr(rr);
  work->reductions += y ? 5 : 2; /* more than the one of a projection */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes all sums in one split reduction if the type of the vectors has local inner products. Those of VECNEST are global, and
   a split reduction would sum them once more
*/
static PetscErrorCode IDRSProject_Vec(const IDRSGroup *group, const IDRSStep *step)
{
  const Vec r = group->work[0]->r;
  PetscBool nest;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)r, VECNEST, &nest));
  if (!nest && r->ops->dot_local && r->ops->mdot_local && r->ops->norm_local) {
    PetscCall(IDRSEachWork(group, step, IDRSProjectBegin_Vec));
    PetscCall(IDRSEachWork(group, step, IDRSProjectEnd_Vec));
  } else PetscCall(IDRSEachWork(group, step, IDRSProjectSums_Vec));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdateWork_Vec(IDRSWork work, const IDRSStep *step)
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

static PetscErrorCode IDRSAdvanceWork_Vec(IDRSWork work, const IDRSStep *step)
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
    PetscCall(IDRSEachWork(group, step, pass##Work_Vec)); \
    PetscFunctionReturn(PETSC_SUCCESS); \
  }
IDRS_GROUP_PASS(IDRSCombine)
IDRS_GROUP_PASS(IDRSUpdate)
IDRS_GROUP_PASS(IDRSAdvance)

const IDRSPassOps IDRSPasses_Vec = {
  .name         = "vec",
  .composed     = PETSC_TRUE,
  .device       = NULL,
  .queue        = {&IDRSQueue_Host, &IDRSQueue_Host, &IDRSQueue_Host},
  .runs         = IDRSRuns_Vec,
  .create       = IDRSCreate_Vec,
  .destroy      = IDRSDestroy_Vec,
  .combine      = IDRSCombine_Vec,
  .project      = IDRSProject_Vec,
  .update       = IDRSUpdate_Vec,
  .advance      = IDRSAdvance_Vec,
  .additerate   = IDRSAddIterate_Vec,
  .residual     = IDRSResidual_Vec,
  .squares      = IDRSLocalSquares_Vec,
  .blockarray   = IDRSBlockArray_Vec,
  .blockcombine = IDRSBlockCombine_Vec,
  .blockproject = IDRSBlockProject_Vec,
};
