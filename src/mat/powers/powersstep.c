/*
   Matrix powers step by step, for back ends that provide one step
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSPowersByStep - Computes v_1 ... v_k */
PetscErrorCode IDRSPowersByStep(const IDRSPowers *powers, Vec x, Vec v[])
{
  const IDRSPowersOps *ops = powers->ops;

  PetscFunctionBegin;
  for (PetscInt j = 1; j <= powers->k; j++)
    PetscCall((*ops->step)(powers, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1], NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersWorkGet - Returns three vectors like x, which the matrix owns */
PetscErrorCode IDRSPowersWorkGet(Mat A, Vec x, Vec work[])
{
  const char *const names[] = {"IDRSPowersWork0", "IDRSPowersWork1", "IDRSPowersWork2"};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < 3; i++) {
    PetscBool   same = PETSC_FALSE;
    PetscLayout rows[2];

    PetscCall(PetscObjectQuery((PetscObject)A, names[i], (PetscObject *)&work[i]));
    if (work[i]) PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)work[i])->type_name, &same));
    if (same) { /* the matrix may have another layout now */
      PetscCall(VecGetLayout(x, &rows[0]));
      PetscCall(VecGetLayout(work[i], &rows[1]));
      PetscCall(PetscLayoutCompare(rows[0], rows[1], &same));
    }
    if (same) continue;
    PetscCall(VecDuplicate(x, &work[i]));
    PetscCall(PetscObjectCompose((PetscObject)A, names[i], (PetscObject)work[i]));
    PetscCall(PetscObjectDereference((PetscObject)work[i])); /* the matrix owns it now */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersSumBegin - Computes y = c_0 x, or b + c_0 x */
PetscErrorCode IDRSPowersSumBegin(const IDRSPowersSum *sum, Vec x)
{
  PetscFunctionBegin;
  if (sum->adds) PetscCall(VecAXPY(sum->y, sum->c[0], x));
  else {
    PetscCall(VecCopy(x, sum->y));
    PetscCall(VecScale(sum->y, sum->c[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersSumByStep - Computes y, v_k and z */
PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  const IDRSPowersOps *ops = powers->ops;
  Vec                  work[3], before = x, last = x;

  PetscFunctionBegin;
  if (powers->k) PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  else PetscCall(IDRSPowersSumBegin(sum, x));
  for (PetscInt j = 1; j <= powers->k; j++) {
    Vec next = work[j % 3];

    /* v_j overwrites v_{j-3}; y += c_j v_j */
    PetscCall((*ops->step)(powers, j, before, last, next, sum));
    before = last;
    last   = next;
  }
  if (sum->vk) PetscCall(VecCopy(last, sum->vk));
  if (sum->z) PetscCall(MatMult(powers->A, sum->y, sum->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}
