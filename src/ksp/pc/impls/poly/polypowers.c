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
  &IDRSPowers_Persistent,
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
   PCPolySetUpCopy_Private - Sets up the copy of the operator in this precision, or in a wider one, unless all products of an
   application are in one kernel, which fewer bytes of the matrix would not make faster
*/
PetscErrorCode PCPolySetUpCopy_Private(PC pc, PCPolyPrecision precision)
{
  PC_Poly             *poly = (PC_Poly *)pc->data;
  PCPolyOperator      *op   = &poly->op;
  PCPolyCopy           copy = op->copy; /* of the last set-up, or NULL */
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  op->copy = NULL;
  PetscCall(PCPolyGetPowers_Private(op, op->w, op->w, &powers));
  op->copy = copy;
  if (powers && powers->scales) {
    poly->nocopy = "it is so small that fewer bytes do not make products faster";
    PetscCall(PCPolyCopyDestroy_Private(&op->copy));
  } else PetscCall(PCPolyCopySetUp_Private(op, (PetscBool)(op->inverse && !poly->small), precision, &op->copy, &poly->nocopy));
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

/* PCPolyHasVec_Private - Sets has to PETSC_TRUE if x has the type and the memory of the work vectors */
PetscErrorCode PCPolyHasVec_Private(PC pc, Vec x, PetscBool *has)
{
  PC_Poly   *poly = (PC_Poly *)pc->data;
  IDRSMemory here, work;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)poly->op.w)->type_name, has));
  PetscCall(IDRSVecWhere(x, &here));
  PetscCall(IDRSVecWhere(poly->op.w, &work));
  if (here != work) *has = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyFusedRuns_Private - Sets runs to PETSC_TRUE if the products of A and the polynomial need one pass over a streamed matrix,
   with vectors like x
*/
PetscErrorCode PCPolyFusedRuns_Private(PC pc, Vec x, PetscBool *runs)
{
  PC_Poly             *poly = (PC_Poly *)pc->data;
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  *runs = PETSC_FALSE;
  if (!poly->p.degree || poly->op.matching || pc->mat != pc->pmat) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCPolyGetPowers_Private(&poly->op, poly->op.w, x, &powers));
  /* not if x is bound to the CPU on some process */
  if (powers == &IDRSPowers_Stream) PetscCall(PCPolyHasVec_Private(pc, x, runs));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyFusedApply_Private - Computes u = c B^{-1}v, or u + c B^{-1}v if "adds", and g = A u in one pass. v, u and g must be
   different vectors
*/
PetscErrorCode PCPolyFusedApply_Private(PC pc, PetscScalar c, Vec v, PetscBool adds, Vec u, Vec g)
{
  const PCPolyOperator *op                       = &((PC_Poly *)pc->data)->op;
  const PCPolynomial   *p                        = &((PC_Poly *)pc->data)->p;
  PetscScalar           terms[PCPOLY_MAX_DEGREE] = {0.0};
  PCPolySteps           steps                    = {.k = 0};

  PetscFunctionBegin;
  /* v_0 = D^{-1}v, v_k = p(D^{-1}A) v_0, u = c v_k (+ u), g = A u */
  PetscCall(PCPolyScale_Private(op, PETSC_FALSE, v, op->w));
  PCPolyStepsAddFactors(p, &steps);
  terms[steps.k] = steps.k ? c : c * p->p0;
  PetscCall(PCPolyStepsSum(&IDRSPowers_Stream, op, &steps, op->w, &(IDRSPowersSum){.c = terms, .adds = adds, .y = u, .z = g}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCApplyBA_Poly - Computes y = A B^{-1}x with work = B^{-1}x, or y = B^{-1}A x: in one pass if possible, otherwise like
   PCApplyBAorAB() for other types
*/
PetscErrorCode PCApplyBA_Poly(PC pc, PCSide side, Vec x, Vec y, Vec work)
{
  const PCPolynomial *p        = &((PC_Poly *)pc->data)->p;
  const Vec           vecs[]   = {x, y, work};
  PetscBool           fused[3] = {PETSC_FALSE, PETSC_FALSE, PETSC_TRUE};
  PCPolySteps         steps    = {.k = 0};

  PetscFunctionBegin;
  PetscCheck(side != PC_SYMMETRIC, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "PCPOLY preconditions from the left or the right, not from both sides");
  for (PetscInt i = 0; i < (side == PC_RIGHT ? 3 : 2); i++) PetscCall(PCPolyFusedRuns_Private(pc, vecs[i], &fused[i]));
  if (fused[0] && fused[1] && fused[2]) {
    if (side == PC_RIGHT) PetscCall(PCPolyFusedApply_Private(pc, 1.0, x, PETSC_FALSE, work, y));
    else {
      /* v_1 = D^{-1}A x, y = v_{k+1} = p(D^{-1}A) v_1 */
      PCPolyStepsAdd(p->nfactors ? (PetscScalar)1.0 : p->p0, 0.0, 0.0, &steps);
      PCPolyStepsAddFactors(p, &steps);
      PetscCall(PCPolyStepsSum(&IDRSPowers_Stream, &((PC_Poly *)pc->data)->op, &steps, x, &(IDRSPowersSum){.vk = y}));
    }
  } else if (side == PC_RIGHT) {
    PetscCall(PCApply(pc, x, work));
    PetscCall(MatMult(pc->mat, work, y));
  } else {
    PetscCall(MatMult(pc->mat, x, work));
    PetscCall(PCApply(pc, work, y));
  }
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
