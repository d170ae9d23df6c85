/*
   Operations at the begin and end of a solve, and at updates: the iterate, residuals computed from x, and norms, for all right-hand
   sides of a group. On devices each operation is one kernel for all of them. With Vec calls each right-hand side has its own
   calls, and norms have one reduction over processes
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

/*
   Gets the back end of operations on vectors x. The memory of x may differ from the memory of the works
*/
static PetscErrorCode IDRSBackEndFor_Private(const IDRSGroup *group, Vec x[], const IDRSPassOps **passes)
{
  PetscFunctionBegin;
  *passes = group->work[0]->passes;
  for (PetscInt i = 0; (*passes)->device && i < group->count; i++) {
    IDRSMemory place;

    PetscCall(IDRSVecWhere(x[i], &place));
    if (!IDRSGetDevice(place)) *passes = &IDRSPasses_Vec;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSAddIterate - Computes x += z + U(:,0:columns) beta, the part of the iterate that is not in x yet

   Input Parameters:
+  group   - the works, whose scalars are on the host
-  columns - for each work the number of columns whose beta is not in z yet

   Output Parameter:
.  x - for each work the vector that the iterate is added to
*/
PetscErrorCode IDRSAddIterate(const IDRSGroup *group, const PetscInt columns[], Vec x[])
{
  const IDRSPassOps *passes;

  PetscFunctionBegin;
  PetscCall(IDRSBackEndFor_Private(group, x, &passes));
  PetscCall((*passes->additerate)(group, columns, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSAddIterate_Vec(const IDRSGroup *group, const PetscInt columns[], Vec x[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work = group->work[i];

    /* x += z + U beta */
    PetscCall(VecAXPY(x[i], 1.0, work->z));
    if (columns[i]) PetscCall(VecMAXPY(x[i], columns[i], work->scalars.beta, work->U));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSResidual - Computes y = b - t,  z = 0: the residual of an iterate x with z = 0

   Input Parameters:
+  group - the works
.  b     - for each work a vector, which may be y or the copy
-  t     - A x for each, which may be y, or NULL if x = 0

   Output Parameters:
+  y    - the residuals
-  copy - copies of them, or NULL
*/
PetscErrorCode IDRSResidual(const IDRSGroup *group, Vec b[], Vec t[], Vec y[], Vec copy[])
{
  const IDRSPassOps *passes;

  PetscFunctionBegin;
  PetscCall(IDRSBackEndFor_Private(group, b, &passes));
  PetscCall((*passes->residual)(group, b, t, y, copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSResidual_Vec(const IDRSGroup *group, Vec b[], Vec t[], Vec y[], Vec copy[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    /* y = b - t, with as few passes as its aliases allow */
    if (!t && b[i] != y[i]) PetscCall(VecCopy(b[i], y[i]));
    else if (t && b[i] == y[i]) PetscCall(VecAXPY(y[i], -1.0, t[i]));
    else if (t && t[i] == y[i]) PetscCall(VecAYPX(y[i], -1.0, b[i]));
    else if (t) PetscCall(VecWAXPY(y[i], -1.0, t[i], b[i]));
    if (copy && copy[i]) PetscCall(VecCopy(y[i], copy[i]));
    PetscCall(IDRSVecZero(group->work[i]->z));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNorms - Computes ||v_i|| for vectors like those of the works, in one reduction if the vectors support it; collective. A norm
   that PETSc has stored with a vector is not used: it may belong to a vector that was copied to this one before a failed
   preconditioner flagged it
*/
PetscErrorCode IDRSNorms(const IDRSGroup *group, Vec v[], PetscReal norms[])
{
  const IDRSPassOps *passes;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall(PetscObjectStateIncrease((PetscObject)v[i]));
  /* the same on all processes, because the vectors belong to the solver */
  PetscCall(IDRSBackEndFor_Private(group, v, &passes));
  PetscCall((*passes->norms)(group, v, norms));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSNorms_Vec(const IDRSGroup *group, Vec v[], PetscReal norms[])
{
  PetscBool nest, split;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)v[0], VECNEST, &nest)); /* its norm_local is the norm of all processes */
  split = (PetscBool)(group->count > 1 && group->work[0]->size > 1 && v[0]->ops->norm_local && !nest);
  for (PetscInt i = 0; i < group->count; i++) {
    if (split) PetscCall(VecNormBegin(v[i], NORM_2, &norms[i]));
    else PetscCall(VecNorm(v[i], NORM_2, &norms[i]));
  }
  for (PetscInt i = 0; split && i < group->count; i++) PetscCall(VecNormEnd(v[i], NORM_2, &norms[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
