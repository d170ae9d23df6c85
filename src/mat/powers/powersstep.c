/*
   Matrix powers step by step, for back ends that know how to make one
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSPowersByStep - v_1 ... v_k */
PetscErrorCode IDRSPowersByStep(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt j = 1; j <= powers->k; j++) PetscCall((*powers->ops->step)(powers, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1], NULL, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersWorkGet - Three vectors like x, which the matrix keeps */
PetscErrorCode IDRSPowersWorkGet(Mat A, Vec x, Vec work[])
{
  const char *const names[] = {"IDRSPowersWork0", "IDRSPowersWork1", "IDRSPowersWork2"};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < 3; i++) {
    PetscBool same = PETSC_FALSE;

    PetscCall(PetscObjectQuery((PetscObject)A, names[i], (PetscObject *)&work[i]));
    if (work[i]) PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)work[i])->type_name, &same)); /* the rows are those of the matrix */
    if (same) continue;
    PetscCall(VecDuplicate(x, &work[i]));
    PetscCall(PetscObjectCompose((PetscObject)A, names[i], (PetscObject)work[i]));
    PetscCall(PetscObjectDereference((PetscObject)work[i])); /* it is the matrix's now */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersSumByStep - y = c_0 v_0 + ... + c_k v_k, and v_k. Three vectors take turns */
PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *powers, Vec x, const PetscScalar c[], Vec y, Vec vk)
{
  const IDRSPowersOps *ops = powers->ops;
  Vec                  work[3], before = x, last = x;

  PetscFunctionBegin;
  if (powers->k) PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  else {
    PetscCall(VecCopy(x, y));
    PetscCall(VecScale(y, c[0]));
  }
  for (PetscInt j = 1; j <= powers->k; j++) {
    Vec next = work[j % 3];

    PetscCall((*ops->step)(powers, j, before, last, next, c, y));
    before = last;
    last   = next;
  }
  if (vk) PetscCall(VecCopy(last, vk));
  PetscFunctionReturn(PETSC_SUCCESS);
}
