/*
   p(D^{-1}A) of a matrix that is streamed, in one pass over it if its memory on the GPU has room for so many steps. The factors of p are steps of matrix powers,
   v_j = gamma (D^{-1}A - theta) v_{j-1} - mu v_{j-2}, the first one times p(0):

     single root nu        w = w - D^{-1}A w / nu                                  gamma = -1 / nu, theta = nu
     pair of conjugates    t = (2 Re(nu) w - D^{-1}A w) / |nu|                     gamma = -1 / |nu|, theta = 2 Re(nu)
                           w = w - D^{-1}A t / |nu|                                gamma = -1 / |nu|, theta = 0, mu = -1
*/
#include "polyimpl.h"
#include <petscidrs/private/idrspowers.h>

/* PCPolyWindowRuns_Private - Whether the operator is streamed, with vectors like these */
PetscErrorCode PCPolyWindowRuns_Private(const PCPolyOperator *op, Vec x, Vec y, PetscBool *runs)
{
  const Vec   vecs[] = {x, y, op->inverse};
  const char *why    = NULL;

  PetscFunctionBegin;
  *runs = PETSC_FALSE;
  if (op->copy || !op->A) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPowersRuns_Stream(op->A, op->inverse ? 3 : 2, vecs, &why));
  *runs = (PetscBool)!why;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyEvaluateWindow_Private - y = p(D^{-1}A) x, where y is another vector than x, and p has factors */
PetscErrorCode PCPolyEvaluateWindow_Private(const PCPolyOperator *op, const PCPolynomial *p, Vec x, Vec y)
{
  PetscScalar gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE], p0 = p->p0;
  IDRSPowers  powers = {.ops = &IDRSPowers_Stream, .A = op->A, .inverse = op->inverse, .k = p->nfactors, .gamma = gamma, .theta = theta, .mu = mu};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < p->nfactors; i += IDRSRootGroup(p->factors[i])) {
    const IDRSRoot  nu      = p->factors[i];
    const PetscReal modulus = IDRSRootModulus(nu);

    mu[i] = 0.0;
    if (IDRSRootGroup(nu) == 2) {
      gamma[i]     = -p0 / modulus;
      theta[i]     = 2.0 * nu.re;
      gamma[i + 1] = -1.0 / modulus;
      theta[i + 1] = 0.0;
      mu[i + 1]    = -p0;
    } else {
      gamma[i] = -p0 / IDRSRootScalar(nu);
      theta[i] = IDRSRootScalar(nu);
    }
    p0 = 1.0;
  }
  PetscCall((*powers.ops->sum)(&powers, x, NULL, NULL, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyWindowBasis_Private - The vectors of a basis from k_0 on: T_{j+1,j} k_{j+1} = D^{-1}A k_j - T_jj k_j - T_{j-1,j} k_{j-1} */
PetscErrorCode PCPolyWindowBasis_Private(const PCPolyOperator *op, PetscInt m, const PetscScalar T[], Vec K[])
{
  PetscScalar gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE];

  PetscFunctionBegin;
  PetscAssert(m <= PCPOLY_MAX_DEGREE, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " vectors", m);
  for (PetscInt j = 0; j < m; j++) {
    const PetscScalar *t = T + j * (m + 1);

    gamma[j] = 1.0 / t[j + 1];
    theta[j] = t[j];
    mu[j]    = 0.0;
    if (j) mu[j] = t[j - 1] / t[j + 1];
  }
  PetscCall(MatPowersMult(op->A, op->inverse, K[0], m, gamma, theta, mu, K + 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}
