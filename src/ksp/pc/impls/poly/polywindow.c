/*
   p(D^{-1}A) of a streamed matrix, in one pass over it if the memory on the GPU has room for so many steps. The factors of
   p are steps of matrix powers, v_j = gamma (D^{-1}A - theta) v_{j-1} - mu v_{j-2}, the first one times p(0); a product with A
   after it, or before it, is another step of the same pass:

     single root nu        w = w - D^{-1}A w / nu                                  gamma = -1 / nu, theta = nu
     pair of conjugates    t = (2 Re(nu) w - D^{-1}A w) / |nu|                     gamma = -1 / |nu|, theta = 2 Re(nu)
                           w = w - D^{-1}A t / |nu|                                gamma = -1 / |nu|, theta = 0, mu = -1
*/
#include "polyimpl.h"
#include <petscidrs/private/idrspowers.h>

/* PCPolyWindowRuns_Private - Sets runs to PETSC_TRUE if the matrix is streamed, with vectors like these */
PetscErrorCode PCPolyWindowRuns_Private(const PCPolyOperator *op, Vec x, Vec y, PetscBool *runs)
{
  const Vec   vecs[] = {x, y, op->inverse};
  const char *why    = NULL;

  PetscFunctionBegin;
  *runs = PETSC_FALSE;
  if (op->copy) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*IDRSPowers_Stream.runs)(op->A, op->inverse ? 3 : 2, vecs, &why));
  *runs = (PetscBool)!why;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Coefficients of steps of matrix powers; one more than p has factors */
typedef struct {
  PetscInt    k;
  PetscScalar gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE];
} PCPolySteps;

static void PCPolyStepsAdd(PetscScalar gamma, PetscScalar theta, PetscScalar mu, PCPolySteps *steps)
{
  steps->gamma[steps->k] = gamma;
  steps->theta[steps->k] = theta;
  steps->mu[steps->k++]  = mu;
}

/* Appends the steps of p */
static void PCPolyStepsAddFactors(const PCPolynomial *p, PCPolySteps *steps)
{
  PetscScalar p0 = p->p0;

  for (PetscInt i = 0; i < p->nfactors; i += IDRSRootGroup(p->factors[i])) {
    const IDRSRoot  nu      = p->factors[i];
    const PetscReal modulus = IDRSRootModulus(nu);

    if (IDRSRootGroup(nu) == 2) {
      /* t, then w, which is v_j with the w before as v_{j-2} */
      PCPolyStepsAdd(-p0 / modulus, 2.0 * nu.re, 0.0, steps);
      PCPolyStepsAdd(-1.0 / modulus, 0.0, -p0, steps);
    } else PCPolyStepsAdd(-p0 / IDRSRootScalar(nu), IDRSRootScalar(nu), 0.0, steps);
    p0 = 1.0;
  }
}

static PetscErrorCode PCPolyStepsSum(const PCPolyOperator *op, const PCPolySteps *steps, Vec x, const IDRSPowersSum *sum)
{
  const IDRSPowers powers = {.ops     = &IDRSPowers_Stream,
                             .A       = op->A,
                             .inverse = op->inverse,
                             .k       = steps->k,
                             .gamma   = steps->gamma,
                             .theta   = steps->theta,
                             .mu      = steps->mu};

  PetscFunctionBegin;
  PetscCall((*powers.ops->sum)(&powers, x, sum));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyEvaluateWindow_Private - y = p(D^{-1}A) x, where y is another vector than x, and p has factors */
PetscErrorCode PCPolyEvaluateWindow_Private(const PCPolyOperator *op, const PCPolynomial *p, Vec x, Vec y)
{
  PCPolySteps steps = {.k = 0};

  PetscFunctionBegin;
  PCPolyStepsAddFactors(p, &steps);
  PetscCall(PCPolyStepsSum(op, &steps, x, &(IDRSPowersSum){.vk = y}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyWindowRight_Private - y = c p(D^{-1}A) x, or y + c p(D^{-1}A) x if "adds", and z = A y, all in one pass; three different
   vectors
*/
PetscErrorCode PCPolyWindowRight_Private(const PCPolyOperator *op, const PCPolynomial *p, PetscScalar c, Vec x, PetscBool adds,
                                         Vec y, Vec z)
{
  PetscScalar terms[PCPOLY_MAX_DEGREE] = {0.0};
  PCPolySteps steps                    = {.k = 0};

  PetscFunctionBegin;
  /* v_k = p(D^{-1}A) x, y = c v_k (+ y), z = A y */
  PCPolyStepsAddFactors(p, &steps);
  terms[steps.k] = steps.k ? c : c * p->p0;
  PetscCall(PCPolyStepsSum(op, &steps, x, &(IDRSPowersSum){.c = terms, .adds = adds, .y = y, .z = z}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyWindowLeft_Private - y = p(D^{-1}A) D^{-1}A x in one pass, where y is another vector than x */
PetscErrorCode PCPolyWindowLeft_Private(const PCPolyOperator *op, const PCPolynomial *p, Vec x, Vec y)
{
  PCPolySteps steps = {.k = 0};

  PetscFunctionBegin;
  /* v_1 = D^{-1}A x, v_{k+1} = p(D^{-1}A) v_1 */
  PCPolyStepsAdd(p->nfactors ? (PetscScalar)1.0 : p->p0, 0.0, 0.0, &steps);
  PCPolyStepsAddFactors(p, &steps);
  PetscCall(PCPolyStepsSum(op, &steps, x, &(IDRSPowersSum){.vk = y}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyWindowBasis_Private - Computes the vectors of the basis of T from k_0 on */
PetscErrorCode PCPolyWindowBasis_Private(const PCPolyOperator *op, PetscInt m, const PetscScalar T[], Vec K[])
{
  PetscScalar gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE];

  PetscFunctionBegin;
  PetscAssert(m <= PCPOLY_MAX_DEGREE, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " vectors", m);
  for (PetscInt j = 0; j < m; j++) {
    const PetscScalar *t = T + j * (m + 1);

    /* T_{j+1,j} k_{j+1} = D^{-1}A k_j - T_jj k_j - T_{j-1,j} k_{j-1} */
    gamma[j] = 1.0 / t[j + 1];
    theta[j] = t[j];
    mu[j]    = 0.0;
    if (j) mu[j] = t[j - 1] / t[j + 1];
  }
  PetscCall(MatPowersMult(op->A, op->inverse, K[0], m, gamma, theta, mu, K + 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}
