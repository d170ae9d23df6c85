/*
   Back end "vec": the operations of IDR(s) with PETSc's Vec operations, for vectors of every type. The reference that
   the fused back ends are tested against; it stores the shadow space, s more vectors.
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

static PetscErrorCode IDRSRuns_Vec(Vec like, PetscInt s, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* VecDuplicateVecs(), which may fail in the midst of it: an array that was not filled cannot be destroyed */
static PetscErrorCode IDRSDuplicate_Vec(Vec like, PetscInt count, Vec *columns[])
{
  const PetscErrorCode ierr = VecDuplicateVecs(like, count, columns);

  PetscFunctionBegin;
  if (ierr) *columns = NULL;
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_Vec(IDRSWork work, Vec like)
{
  PetscScalar *negative;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(work->s, &negative));
  work->data = negative;
  PetscCall(IDRSDuplicate_Vec(like, work->s, &work->G));
  PetscCall(IDRSDuplicate_Vec(like, work->s, &work->U));
  if (work->hashed) {
    PetscCall(IDRSDuplicate_Vec(like, work->s, &work->P));
    PetscCall(IDRSShadowFill(work, work->P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_Vec(IDRSWork work)
{
  PetscFunctionBegin;
  if (work->G) PetscCall(VecDestroyVecs(work->s, &work->G));
  if (work->U) PetscCall(VecDestroyVecs(work->s, &work->U));
  if (work->hashed && work->P) PetscCall(VecDestroyVecs(work->s, &work->P));
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y += scale X a; VecMAXPY() wants the coefficients as they are to be used */
static PetscErrorCode IDRSAdd_Vec(IDRSWork work, Vec y, PetscScalar scale, PetscInt columns, const PetscScalar a[], Vec X[])
{
  PetscScalar *scaled = (PetscScalar *)work->data;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < columns; j++) scaled[j] = scale * a[j];
  if (columns) PetscCall(VecMAXPY(y, columns, scaled, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCombine_Vec(IDRSWork work, IDRSCombinePart part, PetscInt k, Vec r, Vec v)
{
  const IDRSScalars *scalars = &work->scalars;
  const PetscInt     s       = work->s;

  PetscFunctionBegin;
  if (part == IDRS_COMBINE_V || part == IDRS_COMBINE_VU) {
    PetscCall(VecCopy(r, v));
    PetscCall(IDRSAdd_Vec(work, v, -1.0, s - k, scalars->c + k, work->G + k));
  }
  if (part == IDRS_COMBINE_U || part == IDRS_COMBINE_VU) {
    PetscCall(VecAXPBY(work->U[k], scalars->omega[0], scalars->c[k], v));
    PetscCall(IDRSAdd_Vec(work, work->U[k], 1.0, s - k - 1, scalars->c + k + 1, work->U + k + 1));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   All sums in one split reduction, where the type of the vectors has local inner products. Those of VECNEST are global
   already, which a split reduction would sum once more.
*/
static PetscErrorCode IDRSProject_Vec(IDRSWork work, Vec x, Vec y, Vec r, const IDRSNext *next)
{
  const PetscInt s    = work->s;
  PetscScalar   *sums = work->scalars.sums;
  PetscReal      xx, rr;
  PetscBool      nest;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, VECNEST, &nest));
  if (!nest && x->ops->dot_local && x->ops->mdot_local && x->ops->norm_local) {
    /* not VecNormBegin(), whose end may fail, and leave the split reduction unfinished for good: it keeps the norm with the vector */
    PetscCall(VecMDotBegin(x, s, work->P, sums));
    PetscCall(VecDotBegin(x, x, sums + IDRS_SUM_XX(s)));
    PetscCall(VecDotBegin(r, r, sums + IDRS_SUM_RR(s)));
    if (y) {
      PetscCall(VecMDotBegin(y, s, work->P, sums + IDRS_SUM_PY(s)));
      PetscCall(VecDotBegin(y, x, sums + IDRS_SUM_XY(s)));
      PetscCall(VecDotBegin(y, y, sums + IDRS_SUM_YY(s)));
    }
    PetscCall(VecMDotEnd(x, s, work->P, sums));
    PetscCall(VecDotEnd(x, x, sums + IDRS_SUM_XX(s)));
    PetscCall(VecDotEnd(r, r, sums + IDRS_SUM_RR(s)));
    if (y) {
      PetscCall(VecMDotEnd(y, s, work->P, sums + IDRS_SUM_PY(s)));
      PetscCall(VecDotEnd(y, x, sums + IDRS_SUM_XY(s)));
      PetscCall(VecDotEnd(y, y, sums + IDRS_SUM_YY(s)));
    }
  } else {
    PetscCall(VecMDot(x, s, work->P, sums));
    PetscCall(VecNorm(x, NORM_2, &xx));
    PetscCall(VecNorm(r, NORM_2, &rr));
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
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdate_Vec(IDRSWork work, PetscInt k, PetscBool start, Vec r, IDRSCombinePart part, Vec v)
{
  const IDRSScalars *scalars = &work->scalars;

  PetscFunctionBegin;
  if (start) PetscCall(VecAXPY(r, -scalars->beta[k], work->G[k]));
  PetscCall(IDRSAdd_Vec(work, work->G[k], -1.0, k, scalars->alpha, work->G));
  PetscCall(IDRSAdd_Vec(work, work->U[k], -1.0, k, scalars->alpha, work->U));
  if (!start) PetscCall(VecAXPY(r, -scalars->beta[k], work->G[k]));
  if (start && part != IDRS_COMBINE_NONE) {
    Vec direction = part == IDRS_COMBINE_VU ? work->U[k + 1] : v;

    PetscCall(VecCopy(r, direction));
    PetscCall(IDRSAdd_Vec(work, direction, -1.0, k + 1, scalars->c, work->G));
  } else if (part != IDRS_COMBINE_NONE) PetscCall(IDRSCombine_Vec(work, part, k + 1, r, v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSAdvance_Vec(IDRSWork work, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart part, Vec v)
{
  const IDRSScalars *scalars = &work->scalars;

  PetscFunctionBegin;
  PetscCall(VecAXPY(z, scalars->omega[0], p ? p : r));
  PetscCall(IDRSAdd_Vec(work, z, 1.0, work->s, scalars->beta, work->U));
  PetscCall(VecAXPY(r, -scalars->omega[0], t));
  if (part != IDRS_COMBINE_NONE) PetscCall(IDRSCombine_Vec(work, part, 0, r, v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSOps IDRSOps_Vec = {
  .name      = "vec",
  .composed  = PETSC_TRUE,
  .device    = PETSC_FALSE,
  .runs      = IDRSRuns_Vec,
  .create    = IDRSCreate_Vec,
  .connect   = NULL,
  .destroy   = IDRSDestroy_Vec,
  .combine   = IDRSCombine_Vec,
  .project   = IDRSProject_Vec,
  .update    = IDRSUpdate_Vec,
  .advance   = IDRSAdvance_Vec,
  .order     = NULL,
  .send      = NULL,
  .collect   = NULL,
  .fetch     = NULL,
  .copyspeed = NULL,
};
