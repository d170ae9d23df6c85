/*
   The polynomial preconditioner PCPOLY: type, set-up, application, options

     B^{-1} = p(D^{-1}A) D^{-1},   B^{-T} = p(D^{-1}A^T) D^{-1},   D the diagonal of A

   or, with a matching, see src/mat/matching,

     B^{-1} = Dc p(D^{-1}A~) D^{-1} P Dr,   A~ = P Dr A Dc, whose diagonal D has entries of modulus 1

   The degree d is the degree of pi(z) = 1 - z p(z), so an application needs d - 1 products. p is applied factor by factor:

     w = p(0) D^{-1}x
     w = w - D^{-1}A w / nu                                             for each root nu of p
     t = (2 Re(nu) w - D^{-1}A w) / |nu|,   w = w - D^{-1}A t / |nu|    for a pair of conjugates, in real arithmetic

   Near an outlying eigenvalue lambda this product has the value 1 / lambda, and rounding errors in its factors change it little.
   The product of the factors of pi nearly vanishes there and would need repeated roots; this form does not.
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrspowers.h>

static const char *const PCPolyPrecisions[] = {"half", "single", "double", "PCPolyPrecision", "PC_POLY_PRECISION_", NULL};
static const char *const PCPolyScalings[]   = {"auto", "none", "diagonal", "matching", "PCPolyScaling", "PC_POLY_SCALING_", NULL};

/*
   The residual of p may exceed the prediction of the Krylov space by this factor, and may be this floor; otherwise the degree is
   too large for the precision
*/
#define PCPOLY_GUARD_FACTOR 1.5
#define PCPOLY_GUARD_FLOOR  0.005

/* A smoother keeps the vectors of its set-up if they take at most this number of bytes, averaged over the processes */
#define PCPOLY_KEPT_BYTES 128e6

/* The column of the hash for the start vector. Shadow spaces do not use this column */
#define PCPOLY_COLUMN 65536

static const char *const PCPolyRemarks[] = {
  [PCPOLY_AS_ASKED]   = "as asked",
  [PCPOLY_INDEFINITE] = "Ritz values lie on both sides of the imaginary axis: the polynomial may not help",
  [PCPOLY_SPACE_ENDS] = "the Krylov space of the start vector has no larger dimension",
  [PCPOLY_HALF_PLANE] = "with a larger degree the preconditioned operator has Ritz values outside the right half plane",
  [PCPOLY_INACCURATE] = "with a larger degree rounding errors are too large",
  [PCPOLY_JACOBI]     = "no polynomial reduces the start vector: the scaling alone",
  [PCPOLY_NOT_FINITE] = "A, or A scaled, has entries that are infinite or NaN",
  [PCPOLY_SINGULAR]   = "no polynomial of A reduces the start vector",
};

/*
   Computes y = d p(D^{-1}A) x, or with A^T, entry by entry; d is NULL for ones. If "scaled", PCPolyScale_Private() is applied to x
   first, and x may be y. If "adds", computes y = y + p(D^{-1}A) x, without scaling and d, and overwrites x
*/
static PetscErrorCode PCPolyEvaluate_Private(const PCPolyOperator *op, const PCPolynomial *p, PetscBool transpose, PetscBool scaled,
                                             Vec x, Vec d, Vec y, PetscBool adds)
{
  PetscScalar          p0      = p->p0; /* in the first factor; 1 in the others */
  PetscInt             singles = 0;
  Vec                  w = adds ? x : y, other = op->w, from = x;
  const IDRSPowersOps *powers = NULL;

  PetscFunctionBegin;
  if (!transpose && p->nfactors) PetscCall(PCPolyGetPowers_Private(op, op->w, y, &powers));
  if (powers) {
    PetscCall(PCPolyEvaluatePowers_Private(powers, op, p, scaled, x, d, w));
    if (adds) PetscCall(VecAXPY(y, 1.0, w));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt i = 0; i < p->nfactors; i += IDRSRootGroup(p->factors[i])) singles += IDRSRootGroup(p->factors[i]) % 2;
  /* Each factor of a single root exchanges w and other, and the last w must be y. The first factor reads w from x if possible */
  if (!adds && singles % 2) {
    other = w;
    w     = op->w;
  }
  if (scaled) {
    PetscCall(PCPolyScale_Private(op, transpose, x, w));
    from = w;
  }
  if (!p->nfactors) {
    if (adds) PetscCall(VecAXPY(y, p0, x));
    else {
      if (!scaled) PetscCall(VecCopy(x, y));
      PetscCall(VecScale(y, p0));
    }
    if (d) PetscCall(IDRSVecPointwiseMult(y, d, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt i = 0, next; i < p->nfactors; i = next) {
    const IDRSRoot  nu      = p->factors[i];
    const PetscReal modulus = IDRSRootModulus(nu);
    PCPolyProduct   last    = {.alpha = p0, .u = from};

    next = i + IDRSRootGroup(nu);
    if (IDRSRootGroup(nu) == 2) {
      /* t = (2 Re(nu) w - D^{-1}A w) / |nu| */
      PetscCall(PCPolyMultiplyAdd_Private(
        op, op->copy, transpose,
        &(PCPolyProduct){.alpha = p0 * (2.0 * nu.re / modulus), .u = from, .beta = -p0 / modulus, .z = from, .y = other}));
      /* w = w - D^{-1}A t / |nu| */
      last.beta = -1.0 / modulus;
      last.z    = other;
      last.y    = w;
    } else {
      /* w = w - D^{-1}A w / nu */
      last.beta = -p0 / IDRSRootScalar(nu);
      last.z    = from;
      last.y    = other;
      other     = w;
      w         = last.y;
    }
    if (next == p->nfactors) { /* y = d w, or y = y + w */
      last.d    = d;
      last.adds = adds;
      last.y    = y;
    }
    PetscCall(PCPolyMultiplyAdd_Private(op, op->copy, transpose, &last));
    from = w;
    p0   = 1.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||pi(D^{-1}A) v|| / ||v|| for v = K[0], with two more vectors */
static PetscErrorCode PCPolyMeasure_Private(const PCPolyOperator *op, const PCPolynomial *p, const Vec K[], PetscReal *residual)
{
  const Vec   v = K[0], y = K[1], r = K[2];
  PetscScalar W[4];

  PetscFunctionBegin;
  /* y = p(D^{-1}A) v, r = v - D^{-1}A y */
  PetscCall(PCPolyEvaluate_Private(op, p, PETSC_FALSE, PETSC_FALSE, v, NULL, y, PETSC_FALSE));
  PetscCall(PCPolyMultiplyAdd_Private(op, NULL, PETSC_FALSE, &(PCPolyProduct){.alpha = 1.0, .u = v, .beta = -1.0, .z = y, .y = r}));
  PetscCall(IDRSVecGram(2, (Vec[]){v, r}, W));
  *residual = PetscSqrtReal(PetscRealPart(W[3]) / PetscRealPart(W[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The GMRES polynomial of the largest degree up to d with Re(1 - pi) > 0 on the Ritz values of the space, which has more dimensions
   than the degree. GMRES makes ||pi(D^{-1}A) v|| small, which does not keep pi small on all of the spectrum. If Ritz values lie on
   both sides of the imaginary axis, no degree can be expected to do so
*/
static PetscErrorCode PCPolyFromGMRES_Private(const PCPolySpace *space, PetscInt d, PCPolynomial *p)
{
  const PetscInt asked = d;
  PetscBool      left = PETSC_FALSE, right = PETSC_FALSE, ends;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < space->nritz; i++) {
    left  = (PetscBool)(left || space->ritz[i].re < 0.0);
    right = (PetscBool)(right || space->ritz[i].re > 0.0);
  }
  /* The square H of an invariant space with a zero Ritz value is singular */
  d    = PetscMin(d, space->m - (space->invariant && space->zeros ? 1 : 0));
  ends = (PetscBool)(d < asked);
  /* The largest degree with Re(1 - pi(lambda)) > 0 for all Ritz values lambda */
  for (p->degree = 0; d > 0;) {
    PetscCall(PCPolyFromSpace_Private(space, d, p));
    if (p->degree == d && ((left && right) || PCPolyLeastRealPart_Private(p, space->nritz, space->ritz) > 0.0)) break;
    ends      = (PetscBool)(p->degree < d); /* coefficients are negligible */
    d         = p->degree && ends ? p->degree : d - 1;
    p->degree = 0;
  }
  if (!p->degree) p->remark = PCPOLY_SINGULAR;
  else if (left && right) p->remark = PCPOLY_INDEFINITE;
  else if (p->degree == asked) p->remark = PCPOLY_AS_ASKED;
  else p->remark = ends ? PCPOLY_SPACE_ENDS : PCPOLY_HALF_PLANE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Takes the polynomial of the first process on all processes, since their rounding errors may differ, and its measured residual
*/
static PetscErrorCode PCPolyAgree_Private(PC pc)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Bcast(&poly->p, (PetscMPIInt)sizeof(poly->p), MPI_BYTE, 0, PetscObjectComm((PetscObject)pc)));
  if (poly->p.degree) PetscCall(PCPolyMeasure_Private(&poly->op, &poly->p, poly->vecs.K, &poly->seen));
  PetscCallMPI(MPI_Bcast(&poly->seen, 1, MPIU_REAL, 0, PetscObjectComm((PetscObject)pc)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Dimension of the Krylov space; 0 for none, with roots of the user. Twice the degree shows Ritz values where GMRES has not made pi
   small; four times the degree led to the same polynomials and took 1.3 to 3 times as long. With 8 dimensions and
   strong convection the set-up did not see these Ritz values, and a solve with degree 4 took 30 times the matvecs
*/
static PetscInt PCPolyDimension(const PC_Poly *poly)
{
  const PetscInt least = poly->smoother ? 8 : 16;

  return poly->nuser ? 0 : PetscMax(poly->degree, PetscMin(40, PetscMax(least, 2 * poly->degree)));
}

/* Computes the polynomial of the roots of the user, or of GMRES for the start vector */
static PetscErrorCode PCPolySetUpPolynomial_Private(PC pc)
{
  PC_Poly      *poly  = (PC_Poly *)pc->data;
  PCPolynomial *p     = &poly->p;
  PCPolySpace   space = {0};
  PetscInt      N;

  PetscFunctionBegin;
  *p = (PCPolynomial){.residual = -1.0};
  PetscCall(MatGetSize(poly->op.A, &N, NULL));
  if (!N) { /* any polynomial */
    PetscCall(PCPolyFromRoots_Private(1, &(IDRSRoot){1.0, 0.0}, p));
    PetscCall(PCPolyAgree_Private(pc));
    poly->seen = 0.0;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (poly->nuser) PetscCall(PCPolyFromRoots_Private(poly->nuser, poly->user, p));
  else {
    poly->vecs.seed = -1; /* until K[0] is known to be the start vector of the seed still */
    PetscCall(PCPolySpaceCreate_Private(&poly->op, poly->smoother, PCPolyDimension(poly), poly->vecs.K, &space));
    if (!space.range) poly->vecs.seed = poly->seed;
    if (!space.m) p->remark = PCPOLY_NOT_FINITE;
    else PetscCall(PCPolyFromGMRES_Private(&space, poly->degree, p));
    p->dimension = space.m;
    p->range     = space.range;
  }
  PetscCall(PCPolyAgree_Private(pc));
  /* if ||pi(D^{-1}A) v|| is larger than H predicts, a wider precision, and then half the degree */
  while (space.m && p->degree && !(poly->seen <= PCPOLY_GUARD_FACTOR * PetscMax(p->residual, PCPOLY_GUARD_FLOOR))) {
    const PCPolyPrecision precision = poly->op.copy ? poly->op.copy->precision : PC_POLY_PRECISION_DOUBLE;
    const PetscBool       narrow    = (PetscBool)(precision < PC_POLY_PRECISION_DOUBLE);

    if (!narrow && p->degree == 1) break;
    PetscCall(PetscInfo(pc, "Degree %" PetscInt_FMT ", values in precision %s: ||pi(A)v||/||v|| is %g instead of %g\n", p->degree,
                        PCPolyPrecisions[precision], (double)poly->seen, (double)p->residual));
    if (narrow) PetscCall(PCPolySetUpCopy_Private(pc, (PCPolyPrecision)(precision + 1)));
    else {
      PetscCall(PCPolyFromGMRES_Private(&space, p->degree / 2, p));
      if (p->degree) p->remark = PCPOLY_INACCURATE;
    }
    PetscCall(PCPolyAgree_Private(pc));
  }
  PetscCall(PCPolySpaceDestroy_Private(&space));
  if (p->degree && PetscIsInfOrNanReal(poly->seen)) {
    p->degree = 0;
    p->remark = PCPOLY_NOT_FINITE;
  } else if (p->degree && !poly->nuser && !(poly->seen < 1.0)) {
    /* p = 1 */
    PetscCall(PCPolyFromRoots_Private(1, &(IDRSRoot){1.0, 0.0}, p));
    p->remark = PCPOLY_JACOBI;
    PetscCall(PCPolyAgree_Private(pc));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyVecsDestroy_Private(PCPolyVecs *vecs)
{
  PetscFunctionBegin;
  if (vecs->count) PetscCall(IDRSVecsDestroy(vecs->count, &vecs->K, &vecs->memory));
  vecs->count = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets up the copy of the operator and the polynomial; with -pc_poly_reuse an existing polynomial is kept */
static PetscErrorCode PCPolySetUpRest_Private(PC pc)
{
  PC_Poly             *poly  = (PC_Poly *)pc->data;
  PCPolyVecs          *vecs  = &poly->vecs;
  const PetscInt       count = PetscMax(PCPolyDimension(poly) + 1, 3);
  const PetscBool      kept  = (PetscBool)(poly->reuse && poly->p.degree);
  PetscInt             N;
  PetscMPIInt          size;
  PetscLogDouble       most; /* bytes of vectors that are kept */
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  /* a polynomial that is kept needs the precision that it was measured with, which may be wider than the one asked for */
  PetscCall(PCPolySetUpCopy_Private(pc, kept && poly->op.copy ? poly->op.copy->precision : poly->precision));
  if (kept) PetscFunctionReturn(PETSC_SUCCESS);
  /* vectors with the hashed start vector, unless they have been kept */
  if (vecs->count != count) {
    PetscCall(PCPolyVecsDestroy_Private(vecs));
    PetscCall(IDRSVecsCreate(poly->op.w, count, &vecs->K, &vecs->memory));
    vecs->count = count;
    vecs->seed  = -1;
  }
  if (vecs->seed != poly->seed) {
    vecs->seed = -1; /* until the start vector is there */
    PetscCall(IDRSVecSetHashed(vecs->K[0], (uint64_t)poly->seed, PCPOLY_COLUMN));
    vecs->seed = poly->seed;
  }
  PetscCall(PCPolySetUpPolynomial_Private(pc));
  /* all processes make the same choice */
  PetscCall(PCPolyGetPowers_Private(&poly->op, poly->op.w, poly->op.w, &powers));
  PetscCall(VecGetSize(poly->op.w, &N));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  most = powers && powers->scales ? PETSC_INFINITY : (poly->smoother ? PCPOLY_KEPT_BYTES * size : 0.0);
  if ((PetscLogDouble)N * count * sizeof(PetscScalar) > most) PetscCall(PCPolyVecsDestroy_Private(vecs));
  if (poly->p.remark != PCPOLY_AS_ASKED)
    PetscCall(PetscInfo(pc, "Degree %" PetscInt_FMT ": %s\n", poly->p.degree, PCPolyRemarks[poly->p.remark]));
  if (!poly->p.degree && poly->op.matching && poly->op.matching->rank < poly->op.matching->N)
    PetscCall(PetscInfo(pc, "The diagonal blocks are structurally singular: rank %" PetscInt_FMT " of %" PetscInt_FMT "\n",
                        poly->op.matching->rank, poly->op.matching->N));
  PetscCall(PCSetFailedReason(pc, poly->p.degree ? PC_NOERROR : PC_FACTOR_OTHER));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses between D^{-1}A, which is set up, and D^{-1}A~ of a matching: the polynomial that reduces its random start vector more.
   Neither is better in general. In convection with a mesh Peclet number above 20, a matching follows the flow, and the eigenvalues
   of the permuted matrix may surround zero. Matrices of circuits and power grids need a matching
*/
static PetscErrorCode PCPolySetUpBetter_Private(PC pc)
{
  PC_Poly        *poly = (PC_Poly *)pc->data;
  PCPolynomial    p;
  PCPolyPrecision precision;
  PetscReal       seen;

  PetscFunctionBegin;
  /* The polynomial of D^{-1}A is kept aside for the comparison */
  PetscCall(PCPolySetUpRest_Private(pc));
  PetscCall(PCPolyCreateMatching_Private(pc, PETSC_TRUE));
  if (!poly->op.matching) PetscFunctionReturn(PETSC_SUCCESS);
  p              = poly->p;
  seen           = p.degree ? poly->seen : PETSC_INFINITY;
  precision      = poly->op.copy ? poly->op.copy->precision : poly->precision;
  poly->p.degree = 0;
  PetscCall(PCPolySetUpOperator_Private(pc, PETSC_TRUE));
  PetscCall(PCPolySetUpRest_Private(pc));
  PetscCall(PetscInfo(pc, "Residual of the random start vector with scaling by the diagonal: %g, by a matching: %g\n", (double)seen,
                      (double)poly->seen));
  /* The matching is better if its polynomial has a smaller ||pi v|| / ||v||, or is the only one */
  if (!p.degree || (poly->p.degree && poly->seen < seen)) PetscFunctionReturn(PETSC_SUCCESS);
  /* Otherwise restore the operator, its copy and the polynomial of D^{-1}A */
  PetscCall(PCPolySetUpOperator_Private(pc, PETSC_FALSE));
  PetscCall(PCPolySetUpCopy_Private(pc, precision));
  poly->p    = p;
  poly->seen = seen;
  PetscCall(PCSetFailedReason(pc, PC_NOERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = B^{-1}x, or B^{-T}x; x may be y. The matrix may be on the GPU, and the vectors on the host, or of another type */
static PetscErrorCode PCPolyApply_Private(PC pc, PetscBool transpose, Vec x, Vec y)
{
  PC_Poly  *poly = (PC_Poly *)pc->data;
  Vec       from = x, to = y, right = NULL;
  PetscBool has[2];

  PetscFunctionBegin;
  if (!poly->p.degree) { /* the set-up has failed, on all processes */
    IDRSVecFlag(y, PC_FACTOR_OTHER);
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(PCPolyHasVec_Private(pc, x, &has[0]));
  PetscCall(PCPolyHasVec_Private(pc, y, &has[1]));
  if (!has[0] || !has[1]) {
    /* on several processes only if the types differ, on all of them: see PCPolySetUpOperator_Private() */
    if (!poly->staged) PetscCall(VecDuplicate(poly->op.w, &poly->staged));
    PetscCall(IDRSVecCopy(x, poly->staged));
    from = to = poly->staged;
  }
  /* y = p(D^{-1}A) D^{-1}x; with a matching y = Dc p(D^{-1}A~) D^{-1} P Dr x, or y = Dr P^T p(D^{-1}A~^T) D^{-1} Dc x */
  if (!transpose && poly->op.input) right = poly->op.matching->right;
  PetscCall(PCPolyEvaluate_Private(&poly->op, &poly->p, transpose, PETSC_TRUE, from, right, to, PETSC_FALSE));
  if (transpose && poly->op.input)
    PetscCall(IDRSMatchingScale(poly->op.matching, poly->op.matching->column, poly->op.matching->left, to, to));
  if (to != y) PetscCall(IDRSVecCopy(to, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_Poly(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(PCPolyApply_Private(pc, PETSC_FALSE, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApplyTranspose_Poly(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(PCPolyApply_Private(pc, PETSC_TRUE, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Steps of a smoother, see polysmooth.h; the copy multiplies x if there is one, so that a residual has its precision */
static PetscErrorCode PCPolySmooth_Private(PC pc, PetscBool zero, Vec b, Vec x)
{
  PC_Poly              *poly = (PC_Poly *)pc->data;
  const PCPolyOperator *op   = &poly->op;
  const PetscBool       copy = (PetscBool)(op->copy && !op->input);
  Vec                   r;

  PetscFunctionBegin;
  if ((zero && !copy) || !poly->p.degree) {
    PetscCall(PCPolyApply_Private(pc, PETSC_FALSE, b, x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!poly->scaled) PetscCall(VecDuplicate(op->w, &poly->scaled));
  r = copy ? op->t : poly->scaled; /* products of the copy do not need op->t */
  if (zero) {                      /* x = p(D^{-1}A) D^{-1}b */
    PetscCall(PCPolyScale_Private(op, PETSC_FALSE, b, poly->scaled));
    PetscCall(PCPolyEvaluate_Private(op, &poly->p, PETSC_FALSE, PETSC_FALSE, poly->scaled, NULL, x, PETSC_FALSE));
  } else if (op->input) { /* r = B^{-1}(b - A x) */
    PetscCall(MatResidual(pc->pmat, b, x, r));
    PetscCall(PCPolyApply_Private(pc, PETSC_FALSE, r, r));
    PetscCall(VecAXPY(x, 1.0, r));
  } else { /* r = D^{-1}b - D^{-1}A x, x = x + p(D^{-1}A) r */
    if (!copy) PetscCall(PCPolyScale_Private(op, PETSC_FALSE, b, poly->scaled));
    PetscCall(PCPolyMultiplyAdd_Private(op, op->copy, PETSC_FALSE,
                                        &(PCPolyProduct){.alpha = 1.0, .u = poly->scaled, .beta = -1.0, .z = x, .y = r}));
    PetscCall(PCPolyEvaluate_Private(op, &poly->p, PETSC_FALSE, PETSC_FALSE, r, NULL, x, PETSC_TRUE));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* r = b - A x, see polysmooth.h */
static PetscErrorCode PCPolyResidual_Private(PC pc, PetscBool first, Vec b, Vec x, Vec r)
{
  const PC_Poly   *poly     = (const PC_Poly *)pc->data;
  const PCPolyCopy copy     = poly->op.copy;
  const PetscBool  accurate = (PetscBool)(first || (copy && copy->precision > PC_POLY_PRECISION_HALF));

  PetscFunctionBegin;
  if (accurate && poly->diagonal && poly->p.degree) /* r = D (D^{-1}b - D^{-1}A x) */
    PetscCall(PCPolyMultiplyAdd_Private(
      &poly->op, copy, PETSC_FALSE,
      &(PCPolyProduct){.alpha = 1.0, .u = poly->scaled, .beta = -1.0, .z = x, .d = poly->diagonal, .y = r}));
  else PetscCall(MatResidual(pc->pmat, b, x, r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solvers without norms have not read a failure of the set-up */
static PetscErrorCode PCPostSolve_Poly(PC pc, KSP ksp, Vec b, Vec x)
{
  PetscFunctionBegin;
  (void)b;
  (void)x;
  if (!((PC_Poly *)pc->data)->p.degree && ksp->reason) ksp->reason = KSP_DIVERGED_PC_FAILED;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetUp_Poly(PC pc)
{
  PC_Poly             *poly = (PC_Poly *)pc->data;
  const PetscBool      had = (PetscBool) !!poly->op.matching, asked = (PetscBool)(poly->scaling == PC_POLY_SCALING_MATCHING);
  const PetscBool      chose = (PetscBool)(poly->weak || had); /* the last set-up compared both scalings */
  PetscBool            suits = PETSC_FALSE, kept, match, same;
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  same = IDRSPatternIsSame(pc->flag, pc->pmat, &poly->pmatid);
  PetscCall(IDRSMatchingSupports(pc->pmat, &poly->nomatching));
  PetscCheck(
    !asked || !poly->nomatching, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
    "-%spc_poly_scaling matching does not support a matrix of type %s: %s; use -%spc_poly_scaling auto or a matrix of type aij",
    IDRSPrefix(pc), ((PetscObject)pc->pmat)->type_name, poly->nomatching, IDRSPrefix(pc));
  if (had && poly->nomatching) poly->p.degree = 0; /* the roots belong to the permuted and scaled matrix */
  /* the matching of the last set-up is kept if the pattern has not changed and it suits the new values */
  if (had && same) PetscCall(IDRSMatchingUpdate(poly->op.matching, pc->pmat, &suits));
  if (suits) PetscCall(IDRSMatchingGetMat(poly->op.matching, pc->pmat, MAT_REUSE_MATRIX, &poly->matched));
  else PetscCall(PCPolyDestroyMatching_Private(pc));
  /* The choice of the last set-up holds for new values, unless its matching does not suit them, and with -pc_poly_reuse always */
  kept  = (PetscBool)(poly->p.degree && (poly->reuse || (same && chose && (!had || poly->op.matching))));
  match = (PetscBool)(asked || (kept && had));
  PetscCall(PCPolySetUpOperator_Private(pc, match));
  if (poly->weak && !kept && !poly->nomatching && !poly->nuser) PetscCall(PCPolySetUpBetter_Private(pc));
  else PetscCall(PCPolySetUpRest_Private(pc));
  if (poly->smoother && poly->op.copy && poly->op.inverse && !poly->op.input) {
    if (!poly->diagonal) PetscCall(VecDuplicate(poly->op.inverse, &poly->diagonal));
    PetscCall(VecCopy(poly->op.inverse, poly->diagonal));
    PetscCall(VecReciprocal(poly->diagonal));
  } else PetscCall(VecDestroy(&poly->diagonal));
  /* A streamed matrix is multiplied in the pass of its polynomial, unless the polynomial is one of a permuted matrix */
  PetscCall(PCPolyGetPowers_Private(&poly->op, poly->op.w, poly->op.w, &powers));
  pc->ops->applyBA = powers == &IDRSPowers_Stream && !poly->op.matching ? PCApplyBA_Poly : NULL;
  PetscCall(PetscObjectStateIncrease((PetscObject)pc)); /* for those who keep its polynomial */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the method of the products, and the bytes on all processes */
static PetscErrorCode PCPolyViewCopy_Private(PC pc, PetscViewer viewer)
{
  PC_Poly             *poly = (PC_Poly *)pc->data;
  PCPolyPrecision      precision;
  PetscLogDouble       bytes[2];
  const IDRSPowersOps *powers;
  const char          *how = "by MatMult()", *wider = "";

  PetscFunctionBegin;
  if (!poly->op.copy) {
    PetscCall(PCPolyGetPowers_Private(&poly->op, poly->op.w, poly->op.w, &powers));
    if (powers)
      how = powers == &IDRSPowers_Stream ? "in passes over the streamed matrix; the product with the operator is in the same pass"
                                         : "in one kernel for up to 16 of them, by the values of the matrix itself";
    PetscCall(PetscViewerASCIIPrintf(viewer, "  products %s; no copy: %s\n", how, poly->nocopy));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  precision = poly->op.copy->precision;
  bytes[0]  = poly->op.copy->bytes;
  bytes[1]  = poly->op.copy->longbytes;
  IDRSCallAllreduce(MPI_IN_PLACE, bytes, 2, MPI_DOUBLE, MPI_SUM, PetscObjectComm((PetscObject)pc));
  if (bytes[1] > 0.0 && bytes[1] == bytes[0]) {
    precision = PC_POLY_PRECISION_DOUBLE;
    wider     = " (all its rows are long)";
  } else if (poly->precision < precision) wider = " (a narrower precision is not accurate enough)";
  PetscCall(PetscViewerASCIIPrintf(viewer, "  products by a copy of %.0f bytes, values in precision %s%s\n", bytes[0],
                                   PCPolyPrecisions[precision], wider));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyViewScaling_Private(PC pc, PetscViewer viewer)
{
  PC_Poly    *poly   = (PC_Poly *)pc->data;
  const char *chosen = poly->scaling == PC_POLY_SCALING_AUTO ? ", chosen automatically" : "";

  PetscFunctionBegin;
  if (poly->op.matching) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  scaling by a matching%s\n", chosen));
    PetscCall(IDRSMatchingView(poly->op.matching, viewer));
  } else if (poly->op.inverse) PetscCall(PetscViewerASCIIPrintf(viewer, "  scaling by the diagonal%s\n", chosen));
  else
    PetscCall(PetscViewerASCIIPrintf(viewer, "  no scaling: %s\n",
                                     poly->scaling == PC_POLY_SCALING_NONE ? "as asked" : "the matrix has no MatGetDiagonal()"));
  if (poly->scaling == PC_POLY_SCALING_AUTO && poly->nomatching)
    PetscCall(PetscViewerASCIIPrintf(viewer, "  no matching: %s\n", poly->nomatching));
  PetscCall(IDRSViewSmallDiagonal(poly->small, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCView_Poly(PC pc, PetscViewer viewer)
{
  PC_Poly            *poly = (PC_Poly *)pc->data;
  const PCPolynomial *p    = &poly->p;
  PetscBool           ascii;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscViewerASCIIPrintf(viewer, "  degree %" PetscInt_FMT ", roots %s, seed %" PetscInt_FMT "%s%s\n",
                                   poly->nuser ? poly->nuser : poly->degree, poly->nuser ? "user" : "gmres", poly->seed,
                                   poly->smoother ? ", for a smoother" : "", poly->reuse ? ", kept when the matrix changes" : ""));
  if (p->degree) {
    PetscReal low = PETSC_MAX_REAL, high = 0.0;

    for (PetscInt i = 0; i < p->nroots; i++) {
      low  = PetscMin(low, IDRSRootModulus(p->roots[i]));
      high = PetscMax(high, IDRSRootModulus(p->roots[i]));
    }
    PetscCall(PetscViewerASCIIPrintf(viewer, "  degree used: %" PetscInt_FMT "%s%s\n", p->degree, p->remark ? ": " : "",
                                     p->remark ? PCPolyRemarks[p->remark] : ""));
    if (p->dimension)
      PetscCall(
        PetscViewerASCIIPrintf(viewer, "  moduli of the roots: %g to %g, from a Krylov space of dimension %" PetscInt_FMT "%s\n",
                               (double)low, (double)high, p->dimension, p->range ? ", of the start vector times the matrix" : ""));
    else PetscCall(PetscViewerASCIIPrintf(viewer, "  moduli of the roots: %g to %g\n", (double)low, (double)high));
    if (p->residual >= 0.0)
      PetscCall(PetscViewerASCIIPrintf(viewer, "  residual of the random start vector: %g, predicted %g\n", (double)poly->seen,
                                       (double)p->residual));
    else PetscCall(PetscViewerASCIIPrintf(viewer, "  residual of the random start vector: %g\n", (double)poly->seen));
    PetscCall(PCPolyViewCopy_Private(pc, viewer));
    PetscCall(PCPolyViewScaling_Private(pc, viewer));
  } else if (p->remark) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  no polynomial: %s\n", PCPolyRemarks[p->remark]));
    if (poly->op.matching) PetscCall(IDRSMatchingView(poly->op.matching, viewer));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetFromOptions_Poly(PC pc, IDRSOptionItems PetscOptionsObject)
{
  PC_Poly  *poly      = (PC_Poly *)pc->data;
  PetscInt  seed      = poly->seed;
  PetscBool smoother  = poly->smoother;
  PetscEnum precision = (PetscEnum)poly->precision, scaling = (PetscEnum)poly->scaling;
  char      roots[32] = "gmres";
  PetscBool gmres, user;

  PetscFunctionBegin;
  PetscOptionsHeadBegin(PetscOptionsObject, "PC poly options");
  IDRSOption(Int, pc, "-pc_poly_degree", "Products of an application, and of the operator after it", PCPolySetDegree, poly->degree);
  PetscCall(PetscOptionsInt("-pc_poly_seed", "Seed of the random start vector", "None", seed, &seed, NULL));
  PetscCall(PetscOptionsBool("-pc_poly_smoother", "Multiply the start vector by the matrix, for a smoother of multigrid", "None",
                             smoother, &smoother, NULL));
  PetscCall(PetscOptionsEnum("-pc_poly_precision", "Precision of the values of the copy", "None", PCPolyPrecisions, precision,
                             &precision, NULL));
  PetscCall(
    PetscOptionsEnum("-pc_poly_scaling", "Scaling and permutation of the matrix", "None", PCPolyScalings, scaling, &scaling, NULL));
  PetscCall(
    PetscOptionsBool("-pc_poly_reuse", "Keep the polynomial when the matrix changes", "None", poly->reuse, &poly->reuse, NULL));
  PetscCall(
    PetscOptionsString("-pc_poly_roots", "Method of the roots, gmres", "PCPolySetRoots", roots, roots, sizeof(roots), NULL));
  PetscOptionsHeadEnd();
  PetscCheck(seed >= 0, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
             "-%spc_poly_seed %" PetscInt_FMT ": the seed must not be negative", IDRSPrefix(pc), seed);
  PetscCall(PetscStrcmp(roots, "gmres", &gmres));
  PetscCall(PetscStrcmp(roots, "user", &user));
  PetscCheck(gmres || (user && poly->nuser), PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_poly_roots %s: the roots are those of gmres, or those of PCPolySetRoots()", IDRSPrefix(pc), roots);
  if (seed != poly->seed || smoother != poly->smoother || (PCPolyPrecision)precision != poly->precision ||
      (PCPolyScaling)scaling != poly->scaling)
    PCPolyChanged_Private(pc);
  poly->seed      = seed;
  poly->smoother  = smoother;
  poly->precision = (PCPolyPrecision)precision;
  poly->scaling   = (PCPolyScaling)scaling;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCReset_Poly(PC pc)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCall(MatDestroy(&poly->op.A));
  PetscCall(VecDestroy(&poly->op.inverse));
  PetscCall(VecDestroy(&poly->op.w));
  PetscCall(VecDestroy(&poly->op.t));
  PetscCall(PCPolyCopyDestroy_Private(&poly->op.copy));
  PetscCall(PCPolyDestroyMatching_Private(pc));
  PetscCall(VecDestroy(&poly->staged));
  PetscCall(VecDestroy(&poly->diagonal));
  PetscCall(VecDestroy(&poly->scaled));
  PetscCall(PCPolyVecsDestroy_Private(&poly->vecs));
  poly->p = (PCPolynomial){0};
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCDestroy_Poly(PC pc)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCReset_Poly(pc));
  PetscCall(PetscFree(poly->user));
  PetscCall(PCPolyComposeSetters_Private(pc, PETSC_FALSE));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_FUSED_RUNS, NULL));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_FUSED_APPLY, NULL));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_POLYNOMIAL, NULL));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, PCPOLY_SMOOTH, NULL));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, PCPOLY_RESIDUAL, NULL));
  PetscCall(PetscFree(pc->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCPOLY - A polynomial in the matrix, scaled by its diagonal or by a matching, for nonsymmetric systems: an application consists of
  products, without reductions and triangular solves

  Options Database Keys:
+ -pc_poly_degree degree                      - degree of A p(A), products of an iteration (default 8), see `PCPolySetDegree()`
. -pc_poly_roots gmres                        - the roots are harmonic Ritz values, unless `PCPolySetRoots()` gives them
. -pc_poly_seed seed                          - seed of the random start vector (default 0)
. -pc_poly_smoother (true|false)              - multiply the start vector by the matrix (default false, in `PCAGGREGATION` true)
. -pc_poly_precision (half|single|double)     - precision of the values of a copy on a GPU (default half)
. -pc_poly_scaling (auto|none|diagonal|matching) - scaling and permutation of the matrix (default auto)
- -pc_poly_reuse (true|false)                 - keep the roots when the matrix changes (default false)

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. It serves every
  `KSP`.

  With D the diagonal of the matrix A the preconditioner is $B^{-1} = p(D^{-1}A) D^{-1}$. The polynomial p is such that
  $\pi(z) = 1 - z p(z)$ is the residual polynomial of degree steps of GMRES for $D^{-1}A$ and a random start vector. Its roots, the
  harmonic Ritz values, are computed from a Krylov space of larger dimension than the degree, which is built with matrix products
  and two or three reductions. p is applied factor by factor, with its own roots in Leja order.

  If the Krylov space has a smaller dimension than the degree, for example for a diagonal matrix, the degree is smaller. If it
  contains a null vector of a singular matrix, the set-up begins again with $D^{-1}A v$, so that the null space does not distort the
  polynomial.

  For a smoother of multigrid, `-pc_poly_smoother` begins with $D^{-1}A v$, which has less of the components that coarse grids
  remove. With strongly varying coefficients solves then need half as many iterations or fewer, otherwise up to a quarter more.

  The set-up checks the polynomial. If $1 - \pi$ has Ritz values outside the right half plane, it chooses a smaller degree. If the
  polynomial reduces the start vector less than predicted, it chooses a wider precision, then a smaller degree, and if it does not
  reduce it at all, p = 1, the scaling alone. Roots of the user are not replaced. If Ritz values lie on both sides of the imaginary
  axis, it keeps the degree, but the polynomial may not save time. `-ksp_view` shows the degree used,
  the range of the roots, the reduction of the start vector, and the changes by the set-up.

  If the diagonal is weak, a maximum product matching may be needed for convergence: with
  $\tilde A = P D_r A D_c$, see `MatGetMatching()`, the preconditioner is $B^{-1} = D_c p(D^{-1}\tilde A) D^{-1} P D_r$, where D is
  the diagonal of $\tilde A$, whose entries have modulus 1. The Krylov method still works with A, and its residual is b - Ax. By
  default the set-up decides: if an entry of a row is more than ten times as large as its diagonal entry, it compares the
  polynomials of both scalings on a random vector. A smoother is scaled by the diagonal, unless you ask for a matching. For a system
  that you do not know well, begin with `-ksp_type idrs -pc_type poly -pc_poly_degree 16`, and if it does not converge add
  `-ksp_idrs_s 8`.

  In a row with |a_ii| <= 2e-4 max_j |a_ij| the diagonal entry counts as zero: D has max_j |a_ij| there, or 1 in a row of zeros.
  `-ksp_view` shows the number of such rows. A matrix without `MatGetRowMaxAbs()`, for example `MATSELL` or `MATSHELL`, has 1 in
  place of entries that are exactly zero, and is scaled by its diagonal elsewhere. A matrix without `MatGetDiagonal()` is not
  scaled. A set-up without a polynomial, for example for a zero matrix or one with NaN, fails:
  `KSPSolve()` ends with `KSP_DIVERGED_PC_FAILED`. If there is a matching, `-info` and `-ksp_view` show the structural rank.

  If the type of a vector is not the type that `MatCreateVecs()` creates, the vector is copied. Copies from or to `VECNEST` are made
  in host memory.

  On one GPU up to 16 products of an application are in one kernel, which multiplies by the values of the matrix itself, if the
  registers of the GPU hold them: up to some 90 000 rows of at most 8 entries. `-pc_poly_precision` has no effect then, since fewer
  bytes would not make it faster.

  `KSPIDRS` applies such a polynomial inside its own persistent kernel (`-ksp_idrs_run persistent`), if the threads of this kernel
  hold the matrix, on an H200 up to 33 792 rows of at most 8 entries, and an application has at most 32 products.

  Other matrices of type `MATAIJCUSPARSE`, with vectors on the GPU, are multiplied by a copy, and the vector operations are in the
  same kernels. The copy has values in half precision, and no column indices if the entries are on diagonals. The largest value is
  scaled to the end of the range, and rows that are much longer than the others are in double precision, or all rows of a small
  matrix with 32 or more entries a row. `-ksp_view` shows the size of the copy. Matrices without a copy, and transposed
  applications, use `MatMult()` or `MatMultTranspose()`. So `PCApplyTranspose()` is the transpose of `PCApply()` up to the rounding
  of the values; for methods that use both, such as `KSPBICG`, use `-pc_poly_precision double`.

  With a matrix of type `MATAIJSTREAM` the products of an application and the next product with the operator need one pass over the
  matrix, in `KSPIDRS` and in all solvers that call `PCApplyBAorAB()`.

  With a matching, the preconditioner keeps the permuted and scaled matrix: its pattern for new values, and its values for
  transposed applications. On a GPU new values do not go through the memory of the host if the permutation is kept.

  The preconditioner keeps three vectors, with a matching four more, and one more if an application is in place. A smoother of
  `PCAGGREGATION` keeps one more, or two with a copy. If the products of an application are in one kernel, the matrix keeps memory
  of the size of 32 vectors. The set-up needs one more vector for each dimension of the Krylov space, at most 41 for degrees up to
  40. It keeps them for new values if the products are in one kernel, or if it is a smoother and they take at most 128 MB, and frees
  them otherwise.

  References:
  J.A. Loe and R.B. Morgan, Toward efficient polynomial preconditioning for GMRES, Numer. Linear Algebra Appl. 29 (2022); N.M.
  Nachtigal, L. Reichel and L.N. Trefethen, A hybrid GMRES algorithm for nonsymmetric linear systems, SIAM J. Matrix Anal. Appl. 13
  (1992)

.seealso: [](ch_ksp), `PCCreate()`, `PCSetType()`, `PCType`, `PC`, `PCJACOBI`, `KSPIDRS`, `KSPIDRSRegister()`,
          `PCPolySetDegree()`, `PCPolySetRoots()`, `PCMATCHING`, `MatGetMatching()`
M*/
PetscErrorCode PCCreate_Poly(PC pc)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscCall(PetscNew(&poly));
  pc->data     = (void *)poly;
  poly->degree = 8;

  pc->ops->setup          = PCSetUp_Poly;
  pc->ops->postsolve      = PCPostSolve_Poly;
  pc->ops->apply          = PCApply_Poly;
  pc->ops->applytranspose = PCApplyTranspose_Poly;
  pc->ops->reset          = PCReset_Poly;
  pc->ops->destroy        = PCDestroy_Poly;
  pc->ops->setfromoptions = PCSetFromOptions_Poly;
  pc->ops->view           = PCView_Poly;
  PetscCall(PCPolyComposeSetters_Private(pc, PETSC_TRUE));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_FUSED_RUNS, PCPolyFusedRuns_Private));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_FUSED_APPLY, PCPolyFusedApply_Private));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, IDRS_POLYNOMIAL, PCPolyGetPolynomial_Private));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, PCPOLY_SMOOTH, PCPolySmooth_Private));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, PCPOLY_RESIDUAL, PCPolyResidual_Private));
  PetscFunctionReturn(PETSC_SUCCESS);
}
