/*
   Back end "mat" of the matrix powers: MatMult() and operations of Vec
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

/* v_j from the two before it; next is another vector, and before is not read for j = 1 */
static PetscErrorCode IDRSPowersStep_Mat(const IDRSPowers *powers, PetscInt j, Vec before, Vec last, Vec next)
{
  const PetscScalar gamma = powers->gamma[j - 1], theta = powers->theta[j - 1], mu = powers->mu[j - 1];

  PetscFunctionBegin;
  PetscCall(MatMult(powers->A, last, next));
  if (powers->inverse) PetscCall(VecPointwiseMult(next, powers->inverse, next));
  if (j > 1 && mu != 0.0) PetscCall(VecAXPBYPCZ(next, -gamma * theta, -mu, gamma, last, before));
  else PetscCall(VecAXPBY(next, -gamma * theta, gamma, last));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowers_Mat_Powers(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt j = 1; j <= powers->k; j++) PetscCall(IDRSPowersStep_Mat(powers, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Three vectors like x, which the matrix keeps */
static PetscErrorCode IDRSPowersWorkGet(Mat A, Vec x, Vec work[])
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

/* Three vectors take turns */
static PetscErrorCode IDRSPowers_Mat_Sum(const IDRSPowers *powers, Vec x, const PetscScalar c[], Vec y, Vec vk)
{
  Vec work[3], before = x, last = x;

  PetscFunctionBegin;
  PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  PetscCall(VecCopy(x, y));
  PetscCall(VecScale(y, c[0]));
  for (PetscInt j = 1; j <= powers->k; j++) {
    Vec next = work[j % 3];

    PetscCall(IDRSPowersStep_Mat(powers, j, before, last, next));
    PetscCall(VecAXPY(y, c[j], next));
    before = last;
    last   = next;
  }
  if (vk) PetscCall(VecCopy(last, vk));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Mat = {.name = "mat", .powers = IDRSPowers_Mat_Powers, .sum = IDRSPowers_Mat_Sum};
