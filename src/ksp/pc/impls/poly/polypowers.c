/*
   p(D^{-1}A) by a back end of the matrix powers that computes many steps at once: in one kernel, or in one pass over a streamed
   matrix if the GPU has memory for all steps. Each factor of p is one or two steps

     v_j = gamma (D^{-1}A - theta) v_{j-1} - mu v_{j-2},   the first one times p(0)

   A product with a streamed matrix after p(D^{-1}A), or before it, is another step of the same pass:

     single root nu        w = w - D^{-1}A w / nu                                  gamma = -1 / nu, theta = nu
     pair of conjugates    t = (2 Re(nu) w - D^{-1}A w) / |nu|                     gamma = -1 / |nu|, theta = 2 Re(nu)
                           w = w - D^{-1}A t / |nu|                                gamma = -1 / |nu|, theta = 0, mu = -1
*/
#include "polyimpl.h"
#include <petscidrs/private/idrspowers.h>

static const IDRSPowersOps *const PCPolyPowersList[] = {
#if defined(PETSCIDRS_HAVE_CUDA)
  &IDRSPowers_Whole,
#endif
  &IDRSPowers_Stream};

/* PCPolyGetPowers_Private - Returns the back end that computes many steps at once with vectors like these, or NULL */
PetscErrorCode PCPolyGetPowers_Private(const PCPolyOperator *op, Vec x, Vec y, const IDRSPowersOps **powers)
{
  const Vec vecs[] = {x, y, op->inverse};

  PetscFunctionBegin;
  *powers = NULL;
  for (size_t i = 0; !op->copy && !*powers && i < PETSC_STATIC_ARRAY_LENGTH(PCPolyPowersList); i++) {
    const char *why = NULL;

    PetscCall((*PCPolyPowersList[i]->runs)(op->A, op->inverse ? 3 : 2, vecs, &why));
    if (!why) *powers = PCPolyPowersList[i];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyIsStreamed_Private - Sets streamed to PETSC_TRUE if the matrix is streamed with vectors like x: steps share one pass then
*/
PetscErrorCode PCPolyIsStreamed_Private(const PCPolyOperator *op, Vec x, PetscBool *streamed)
{
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  PetscCall(PCPolyGetPowers_Private(op, op->w, x, &powers));
  *streamed = (PetscBool)(powers == &IDRSPowers_Stream);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolySetUpCopy_Private - Creates the copy of the operator in this precision, or in a wider one, unless all products of an
   application are in one kernel, which fewer bytes of the matrix would not make faster
*/
PetscErrorCode PCPolySetUpCopy_Private(PC pc, PCPolyPrecision precision)
{
  PC_Poly             *poly = (PC_Poly *)pc->data;
  PCPolyOperator      *op   = &poly->op;
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  PetscCall(PCPolyCopyDestroy_Private(&op->copy));
  PetscCall(PCPolyGetPowers_Private(op, op->w, op->w, &powers));
  if (powers && powers->scales) poly->nocopy = "it is so small that fewer bytes do not make products faster";
  else PetscCall(PCPolyCopyCreate_Private(op, (PetscBool)(op->inverse && !poly->small), precision, &op->copy, &poly->nocopy));
  if (poly->nocopy) PetscCall(PetscInfo(pc, "The operator has no copy: %s\n", poly->nocopy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

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

static IDRSPowers PCPolyStepsPowers(const IDRSPowersOps *ops, const PCPolyOperator *op, const PCPolySteps *steps)
{
  return (IDRSPowers){
    .ops = ops, .A = op->A, .inverse = op->inverse, .k = steps->k, .gamma = steps->gamma, .theta = steps->theta, .mu = steps->mu};
}

/* Returns a sum that begins with PCPolyScale_Private() */
static IDRSPowersSum PCPolyScaledSum(const PCPolyOperator *op)
{
  return (IDRSPowersSum){.input    = op->input ? op->input : op->inverse,
                         .matching = op->input && op->matching->moved ? op->matching : NULL};
}

static PetscErrorCode PCPolyStepsSum(const IDRSPowersOps *ops, const PCPolyOperator *op, const PCPolySteps *steps, Vec x,
                                     const IDRSPowersSum *sum)
{
  const IDRSPowers powers = PCPolyStepsPowers(ops, op, steps);

  PetscFunctionBegin;
  PetscCall((*powers.ops->sum)(&powers, x, sum));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyEvaluatePowers_Private - Computes y = d p(D^{-1}A) x, entry by entry, where p has factors; d is NULL for ones. If "scaled",
   PCPolyScale_Private() is applied to x first. x may be y
*/
PetscErrorCode PCPolyEvaluatePowers_Private(const IDRSPowersOps *powers, const PCPolyOperator *op, const PCPolynomial *p,
                                            PetscBool scaled, Vec x, Vec d, Vec y)
{
  IDRSPowersSum sum   = {.c = NULL};
  PCPolySteps   steps = {.k = 0};

  PetscFunctionBegin;
  PCPolyStepsAddFactors(p, &steps);
  if (powers->scales && x != y) { /* d p(D^{-1}A) D^{-1}x, or d p(D^{-1}A~) D^{-1} P Dr x, in the same kernel */
    if (scaled) sum = PCPolyScaledSum(op);
    sum.vk     = y;
    sum.output = d;
    PetscCall(PCPolyStepsSum(powers, op, &steps, x, &sum));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (scaled) PetscCall(PCPolyScale_Private(op, PETSC_FALSE, x, op->w));
  else PetscCall(VecCopy(x, op->w));
  sum.vk = y;
  PetscCall(PCPolyStepsSum(powers, op, &steps, op->w, &sum));
  if (d) PetscCall(IDRSVecPointwiseMult(y, d, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyStreamRight_Private - Computes y = c p(D^{-1}A) x, or y += c p(D^{-1}A) x if "adds", and z = A y in one pass. x, y and z
   must be different vectors
*/
PetscErrorCode PCPolyStreamRight_Private(const PCPolyOperator *op, const PCPolynomial *p, PetscScalar c, Vec x, PetscBool adds,
                                         Vec y, Vec z)
{
  PetscScalar terms[PCPOLY_MAX_DEGREE] = {0.0};
  PCPolySteps steps                    = {.k = 0};

  PetscFunctionBegin;
  /* v_k = p(D^{-1}A) x, y = c v_k (+ y), z = A y */
  PCPolyStepsAddFactors(p, &steps);
  terms[steps.k] = steps.k ? c : c * p->p0;
  PetscCall(PCPolyStepsSum(&IDRSPowers_Stream, op, &steps, x, &(IDRSPowersSum){.c = terms, .adds = adds, .y = y, .z = z}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyStreamLeft_Private - Computes y = p(D^{-1}A) D^{-1}A x in one pass. y must not be x */
PetscErrorCode PCPolyStreamLeft_Private(const PCPolyOperator *op, const PCPolynomial *p, Vec x, Vec y)
{
  PCPolySteps steps = {.k = 0};

  PetscFunctionBegin;
  /* v_1 = D^{-1}A x, v_{k+1} = p(D^{-1}A) v_1 */
  PCPolyStepsAdd(p->nfactors ? (PetscScalar)1.0 : p->p0, 0.0, 0.0, &steps);
  PCPolyStepsAddFactors(p, &steps);
  PetscCall(PCPolyStepsSum(&IDRSPowers_Stream, op, &steps, x, &(IDRSPowersSum){.vk = y}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyPowersBasis_Private - Computes the vectors of the basis of T from k_0 on */
PetscErrorCode PCPolyPowersBasis_Private(const PCPolyOperator *op, PetscInt m, const PetscScalar T[], Vec K[])
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

/* PCPolyGetPolynomial_Private - Returns the steps of an application in one kernel, or NULL if there is none for vectors like x */
PetscErrorCode PCPolyGetPolynomial_Private(PC pc, Vec x, const IDRSPolynomial **polynomial)
{
  PC_Poly              *poly = (PC_Poly *)pc->data;
  const PCPolyOperator *op   = &poly->op;
  const IDRSPowersOps  *powers;

  PetscFunctionBegin;
  *polynomial = NULL;
  if (!poly->p.degree || !poly->p.nfactors) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCPolyGetPowers_Private(op, op->w, x, &powers));
  if (!powers || !powers->scales) PetscFunctionReturn(PETSC_SUCCESS);
  poly->steps.k = 0;
  PCPolyStepsAddFactors(&poly->p, &poly->steps);
  poly->polynomial.powers = PCPolyStepsPowers(powers, op, &poly->steps);
  poly->polynomial.sum    = PCPolyScaledSum(op);
  if (op->input) poly->polynomial.sum.output = op->matching->right;
  *polynomial = &poly->polynomial;
  PetscFunctionReturn(PETSC_SUCCESS);
}
