/*
   Back end "mat" of the matrix powers: MatMult() and operations of Vec, step by step
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

/* Computes y = c_0 x, or b + c_0 x */
static PetscErrorCode IDRSPowersSumBegin(const IDRSPowersSum *sum, Vec x)
{
  PetscFunctionBegin;
  if (sum->adds) PetscCall(VecAXPY(sum->y, sum->c[0], x));
  else {
    PetscCall(VecCopy(x, sum->y));
    PetscCall(VecScale(sum->y, sum->c[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v_j from v_{j-2} and v_{j-1}, and adds c_j v_j to a sum, in the first step also c_0 v_0. v_{-1} is not read */
static PetscErrorCode IDRSPowersStep_Mat(const IDRSPowers *powers, PetscInt j, Vec before, Vec last, Vec next,
                                         const IDRSPowersSum *sum)
{
  const PetscScalar gamma = powers->gamma[j - 1], theta = powers->theta[j - 1], mu = powers->mu[j - 1];

  PetscFunctionBegin;
  /* v_j = gamma (D^{-1}A - theta) v_{j-1} - mu v_{j-2} */
  PetscCall(MatMult(powers->A, last, next));
  if (powers->inverse) PetscCall(IDRSVecPointwiseMult(next, powers->inverse, next));
  if (j > 1 && mu != 0.0) PetscCall(VecAXPBYPCZ(next, -gamma * theta, -mu, gamma, last, before));
  else PetscCall(VecAXPBY(next, -gamma * theta, gamma, last));
  if (!sum) PetscFunctionReturn(PETSC_SUCCESS);
  /* y += c_j v_j, or y = c_0 v_0 + c_1 v_1 */
  if (j == 1) PetscCall(IDRSPowersSumBegin(sum, last));
  PetscCall(VecAXPY(sum->y, sum->c[j], next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v_1 ... v_k */
static PetscErrorCode IDRSPowersPowers_Mat(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt j = 1; j <= powers->k; j++)
    PetscCall(IDRSPowersStep_Mat(powers, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1], NULL));
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

/* IDRSPowersSumByStep - Computes y, v_k and z */
PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  Vec work[3], before = x, last = x;

  PetscFunctionBegin;
  if (powers->k) PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  else PetscCall(IDRSPowersSumBegin(sum, x));
  for (PetscInt j = 1; j <= powers->k; j++) {
    Vec next = work[j % 3];

    /* v_j overwrites v_{j-3}; y += c_j v_j */
    PetscCall(IDRSPowersStep_Mat(powers, j, before, last, next, sum));
    before = last;
    last   = next;
  }
  if (sum->vk) PetscCall(VecCopy(last, sum->vk));
  if (sum->z) PetscCall(MatMult(powers->A, sum->y, sum->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatMult() works for every matrix and every vector */
static PetscErrorCode IDRSPowersRuns_Mat(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Mat = {.name   = "mat",
                                      .runs   = IDRSPowersRuns_Mat,
                                      .powers = IDRSPowersPowers_Mat,
                                      .sum    = IDRSPowersSumByStep};
