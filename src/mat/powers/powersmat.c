/*
   Back end "mat" of the matrix powers: MatMult() and operations of Vec
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

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

/* MatMult() works for every matrix and every vector */
static PetscErrorCode IDRSPowersRuns_Mat(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Mat = {
  .name = "mat", .runs = IDRSPowersRuns_Mat, .powers = IDRSPowersByStep, .sum = IDRSPowersSumByStep, .step = IDRSPowersStep_Mat};
