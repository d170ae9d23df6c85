static char help[] = "The algebra of single recurrences, and of block recurrences with one column: both use the same sums, and\n\
are compared with Gaussian elimination in long double. Sums that end one recurrence end the other.\n\
Places and numbers beyond 32 bits.\n\n";

#include "works.h"
#include <petscidrs/private/idrsblockscalars.h>
#include <petscidrs/private/idrslimits.h>

#define MAX_S  8
#define CYCLES 4

#if PetscDefined(USE_COMPLEX)
typedef long double _Complex Long;
  #define Size(x) cabsl(x)
#else
typedef long double Long;
  #define Size(x) fabsl(x)
#endif

/*
   The reference; M[i][j] is in row i. G_k and U_k of the block recurrence equal the reference times scale[k], the factor T of their
   directions
*/
typedef struct {
  PetscInt    s;
  PetscReal   cosine, scale[MAX_S];
  PetscScalar sums[IDRS_SUMS(MAX_S, 1)]; /* of single recurrences */
  Long        M[MAX_S][MAX_S], f[MAX_S], c[MAX_S], alpha[MAX_S], beta, omega, square;
} Reference;

/* The algebras that are compared with it */
typedef struct {
  IDRSScalars      single;
  IDRSBlockScalars block;
  PetscScalar      storage[IDRS_STORAGE(MAX_S)], blockstorage[IDRS_BLOCK_STORAGE(MAX_S, 1)];
  PetscBool        goes[2];   /* single, block: the recurrence continues */
  PetscReal        square[2]; /* of the norm of the next r after an omega step */
} Both;

/* Solves M(begin:end,begin:end) x(begin:end) = b(begin:end) by Gaussian elimination with row pivoting, as if M had no zeros */
static void SolveDense(const Reference *reference, PetscInt begin, PetscInt end, const Long b[], Long x[])
{
  Long W[MAX_S][MAX_S + 1];

  for (PetscInt i = begin; i < end; i++) {
    for (PetscInt j = begin; j < end; j++) W[i][j] = reference->M[i][j];
    W[i][end] = b[i];
  }
  for (PetscInt p = begin; p < end; p++) {
    PetscInt row = p;

    for (PetscInt i = p + 1; i < end; i++) row = Size(W[i][p]) > Size(W[row][p]) ? i : row;
    for (PetscInt j = p; j <= end; j++) {
      const Long entry = W[p][j];

      W[p][j]   = W[row][j];
      W[row][j] = entry;
    }
    for (PetscInt i = p + 1; i < end; i++) {
      const Long factor = W[i][p] / W[p][p];

      for (PetscInt j = p; j <= end; j++) W[i][j] -= factor * W[p][j];
    }
  }
  for (PetscInt i = end - 1; i >= begin; i--) {
    x[i] = W[i][end];
    for (PetscInt j = i + 1; j < end; j++) x[i] -= W[i][j] * x[j];
    x[i] /= W[i][i];
  }
}

/* Computes the coefficients of step k, or of the omega step k = s, and c of the next direction */
static void ReferenceContinue(Reference *reference, PetscInt k)
{
  const PetscInt     s    = reference->s;
  const PetscScalar *sums = reference->sums, *Pr = sums + IDRS_SUM_PY(s);
  Long               d[MAX_S] = {0.0};

  for (PetscInt i = 0; i < s; i++) d[i] = sums[IDRS_SUM_PX(s) + i];
  if (k < s) {
    SolveDense(reference, 0, k, d, reference->alpha);
    for (PetscInt i = k; i < s; i++) {
      reference->M[i][k] = d[i];
      for (PetscInt j = 0; j < k; j++) reference->M[i][k] -= reference->M[i][j] * reference->alpha[j];
    }
    reference->beta = reference->f[k] / reference->M[k][k];
    for (PetscInt i = k; i < s; i++) reference->f[i] -= reference->beta * reference->M[i][k];
  } else {
    const Long        tr = sums[IDRS_SUM_XY(s)];
    const long double tt = PetscRealPart(sums[IDRS_SUM_XX(s)]), rr = PetscRealPart(sums[IDRS_SUM_YY(s)]), size = Size(tr);
    const long double angle = size / sqrtl(tt * rr), factor = angle < reference->cosine ? reference->cosine / angle : 1.0;

    reference->omega  = factor * tr / tt;
    reference->square = rr + factor * (factor - 2) * size * size / tt; /* |r - omega t|^2 */
    for (PetscInt i = 0; i < s; i++) reference->f[i] = Pr[i] - reference->omega * d[i];
  }
  if (k + 1 != s) SolveDense(reference, k < s ? k + 1 : 0, s, reference->f, reference->c);
}

/* Begins with M = I, omega = 1, f = P^H r, and c of the first direction */
static PetscErrorCode Begin(PetscInt s, PetscReal cosine, Reference *reference, Both *both)
{
  PetscFunctionBeginUser;
  *reference = (Reference){.s = s, .cosine = cosine, .omega = 1.0};
  *both      = (Both){
         .goes = {PETSC_TRUE, PETSC_TRUE}
  };
  IDRSScalarsSetPointers(&both->single, s, both->storage);
  IDRSBlockScalarsSetPointers(&both->block, s, 1, both->blockstorage);
  both->single.pivotscale = IDRS_HASHED_PIVOTSCALE;
  *both->single.omega     = 1.0;
  IDRSScalarsResetColumns(&both->single, 0);
  IDRSBlockScalarsReset(&both->block);
  both->block.S[0] = 1.0;
  for (PetscInt i = 0; i < s; i++) {
    const PetscScalar f = Number(0, i);

    reference->M[i][i] = reference->scale[i] = 1.0;
    reference->f[i] = reference->c[i] = both->block.f[i] = both->single.sums[IDRS_SUM_PX(s) + i] = f;
  }
  IDRSScalarsSetResidual(&both->single);
  IDRSScalarsCombine(&both->single, 0);
  IDRSBlockScalarsDirection(&both->block, 0);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets sums of a step without a pattern. G_0 to G_s-1 are far from parallel, and |t^H r| <= |t| |r| */
static void SetSums(Reference *reference, PetscInt step, PetscInt k)
{
  const PetscInt  s    = reference->s;
  PetscScalar    *sums = reference->sums;
  const PetscReal xx = 2 + HashedReal(900, (uint64_t)step), yy = 2 + HashedReal(901, (uint64_t)step);

  for (PetscInt i = 0; i < IDRS_SUMS(s, 1); i++) sums[i] = Number(1 + step, i);
  if (k < s) sums[IDRS_SUM_PX(s) + k] += 3.0;
  sums[IDRS_SUM_XX(s)] = xx;
  sums[IDRS_SUM_RR(s)] = sums[IDRS_SUM_YY(s)] = yy;
  sums[IDRS_SUM_XY(s)] *= PetscSqrtReal(xx * yy / 2);
}

/* Makes step k of all three. x of the block recurrence is scaled by its T */
static PetscErrorCode Continue(Reference *reference, Both *both, PetscInt k)
{
  const PetscInt     s    = reference->s;
  const PetscScalar *sums = reference->sums;
  IDRSBlockNorms     norms;
  PetscScalar        block[IDRS_SUMS(MAX_S, 1)];
  PetscReal          rnorm = 0.0, scale = k < s ? PetscRealPart(both->block.T[0]) : 1.0;

  PetscFunctionBeginUser;
  if (k < s) reference->scale[k] = scale;
  for (PetscInt i = 0; i < s; i++) {
    block[i]     = scale * sums[IDRS_SUM_PX(s) + i];
    block[s + i] = sums[IDRS_SUM_PY(s) + i];
  }
  if (k < s) block[s] = sums[IDRS_SUM_RR(s)];
  else { /* the Gram matrix of t and r */ block[2 * s] = sums[IDRS_SUM_XX(s)];
    block[2 * s + 1]                                   = PetscConj(sums[IDRS_SUM_XY(s)]);
    block[2 * s + 2]                                   = sums[IDRS_SUM_XY(s)];
    block[2 * s + 3]                                   = sums[IDRS_SUM_YY(s)];
  }
  PetscCall(PetscArraycpy(both->single.sums, sums, IDRS_SUMS(s, 1)));
  both->goes[0] = (PetscBool)(IDRSScalarsAreFinite(&both->single, (PetscBool)(k == s), PETSC_TRUE) &&
                              IDRSScalarsContinue(&both->single, k, PETSC_FALSE, reference->cosine, &both->square[0]) ==
                                IDRS_CONTINUES);
  IDRSBlockScalarsNorms(&both->block, (int)k, 1, block, &norms);
  both->goes[1] = (PetscBool)(norms.finite &&
                              IDRSBlockScalarsContinue(&both->block, (int)k, reference->cosine, block, &rnorm) == IDRS_CONTINUES);
  if (both->goes[1]) IDRSBlockScalarsDirect(&both->block, k);
  if (k == s) both->square[1] = rnorm * rnorm;
  ReferenceContinue(reference, k);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares numbers of the reference with both algebras; numbers of the block are multiplied by top / bottom first */
static PetscErrorCode Compare(const char what[], PetscInt s, PetscInt k, PetscInt count, const Long expected[],
                              const PetscScalar single[], const PetscScalar block[], const PetscReal top[], PetscReal bottom)
{
  long double size = 0.0, error[2] = {0.0};

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < count; i++) {
    const long double errors[] = {Size(single[i] - expected[i]), Size(block[i] * (top ? top[i] : 1) / bottom - expected[i])};

    size = PetscMax(size, Size(expected[i]));
    for (PetscInt l = 0; l < 2; l++) error[l] = errors[l] <= error[l] ? error[l] : errors[l]; /* keeps a NaN */
  }
  for (PetscInt l = 0; l < 2; l++)
    PetscCall(ComplainIf(!(error[l] <= 1e3 * PETSC_MACHINE_EPSILON * size),
                         "s = %" INT ", step %" INT ": %s of a %s recurrence is off by %g of %g", s, k, what,
                         l ? "block" : "single", (double)error[l], (double)size));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CompareStep(const Reference *reference, const Both *both, PetscInt k)
{
  const PetscInt          s = reference->s, next = k < s ? k + 1 : 0;
  const IDRSScalars      *single = &both->single;
  const IDRSBlockScalars *block  = &both->block;
  const PetscReal        *scale = reference->scale, T = PetscRealPart(block->T[0]);
  const PetscScalar       squares[2] = {both->square[0], both->square[1]};
  PetscReal               ff         = 0.0;

  PetscFunctionBeginUser;
  for (PetscInt i = k; k < s && i < s; i++)
    PetscCall(Compare("M", s, k, 1, &reference->M[i][k], single->M + i + k * s, block->M + i + k * s, NULL, scale[k]));
  if (k < s) {
    PetscCall(Compare("alpha", s, k, k, reference->alpha, single->alpha, block->alpha + k * s, scale, scale[k]));
    PetscCall(Compare("beta", s, k, 1, &reference->beta, single->beta + k, block->beta + k, scale + k, 1.0));
  } else {
    PetscCall(Compare("omega", s, k, 1, &reference->omega, single->omega, block->omega, NULL, 1.0));
    PetscCall(Compare("the square of the norm", s, k, 1, &reference->square, squares, squares + 1, NULL, 1.0));
  }
  PetscCall(Compare("f", s, k, s - next, reference->f + next, single->f + next, block->f + next, NULL, 1.0));
  if (k + 1 == s) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(Compare("c", s, k, s - next, reference->c + next, single->c + next, block->c + next, scale + next, T));
  for (PetscInt i = next; i < s; i++) ff += PetscSqr(PetscAbsScalar(block->f[i]));
  PetscCall(
    ComplainIf(!(T > 0.0 && PetscImaginaryPart(block->T[0]) == 0.0 && PetscAbsReal(ff * T * T - 1) < 100 * PETSC_MACHINE_EPSILON),
               "s = %" INT ", step %" INT ": T is %g, and |f| is %g", s, k, (double)T, (double)PetscSqrtReal(ff)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCycles(void)
{
  const PetscReal cosines[] = {0.5, 0.0, 0.9};
  Reference       reference;
  Both            both;

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 3 * MAX_S; l++) {
    const PetscInt s = 1 + l / 3;

    PetscCall(Begin(s, cosines[l % 3], &reference, &both));
    for (PetscInt step = 0; step < CYCLES * (s + 1); step++) {
      SetSums(&reference, step, step % (s + 1));
      PetscCall(Continue(&reference, &both, step % (s + 1)));
      PetscCall(ComplainIf(!both.goes[0] || !both.goes[1], "s = %" INT ", step %" INT ": single recurrence %s, block recurrence %s",
                           s, step, both.goes[0] ? "goes on" : "ends", both.goes[1] ? "goes on" : "ends"));
      PetscCall(CompareStep(&reference, &both, step % (s + 1)));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces some sums of a step, and checks whether both recurrences continue */
#define ALL_PX (-1)

static PetscErrorCode TestDecisions(void)
{
#define S 5
  static const struct {
    const char *name;
    PetscInt    k, sum;
    PetscReal   value, cosine;
    PetscBool   goes;
  } cases[] = {
    {"t = 0",                                S, IDRS_SUM_XX(S), 0.0,                   0.5, PETSC_FALSE},
    {"t = 0, cosine 0",                      S, IDRS_SUM_XX(S), 0.0,                   0.0, PETSC_FALSE},
    {"t^H t = NaN",                          S, IDRS_SUM_XX(S), NAN,                   0.5, PETSC_FALSE},
    {"t^H t = Inf",                          S, IDRS_SUM_XX(S), INFINITY,              0.5, PETSC_FALSE},
    {"t^H t so small that omega overflows",  S, IDRS_SUM_XX(S), 1e-3 / PETSC_MAX_REAL, 0.5, PETSC_FALSE},
    {"r^H r = NaN",                          S, IDRS_SUM_YY(S), NAN,                   0.5, PETSC_FALSE},
    {"t^H r = NaN",                          S, IDRS_SUM_XY(S), NAN,                   0.5, PETSC_FALSE},
    {"t^H r = 0",                            S, IDRS_SUM_XY(S), 0.0,                   0.5, PETSC_TRUE },
    {"t^H r = 0, cosine 0, hence omega = 0", S, IDRS_SUM_XY(S), 0.0,                   0.0, PETSC_FALSE},
    {"P^H t = NaN",                          S, ALL_PX,         NAN,                   0.5, PETSC_FALSE},
    {"P^H g = 0 in step 0",                  0, ALL_PX,         0.0,                   0.5, PETSC_FALSE},
    {"P^H g = 0",                            3, ALL_PX,         0.0,                   0.5, PETSC_FALSE},
    {"P^H g = NaN",                          3, ALL_PX,         NAN,                   0.5, PETSC_FALSE},
    {"r^H r = Inf",                          3, IDRS_SUM_RR(S), INFINITY,              0.5, PETSC_FALSE},
  };
  Reference reference;
  Both      both;

  PetscFunctionBeginUser;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(cases); l++) {
    PetscCall(Begin(S, cases[l].cosine, &reference, &both));
    for (PetscInt k = 0; k <= cases[l].k; k++) {
      SetSums(&reference, k, k);
      if (k == cases[l].k) {
        for (PetscInt i = 0; i < S; i++) {
          if (cases[l].sum == ALL_PX) reference.sums[IDRS_SUM_PX(S) + i] = cases[l].value;
        }
        if (cases[l].sum != ALL_PX) reference.sums[cases[l].sum] = cases[l].value;
        if (cases[l].value == 0.0) reference.sums[IDRS_SUM_XY(S)] = 0.0;
      }
      PetscCall(Continue(&reference, &both, k));
    }
    for (PetscInt j = 0; j < 2; j++)
      PetscCall(ComplainIf(both.goes[j] != cases[l].goes, "%s: a %s recurrence %s", cases[l].name, j ? "block" : "single",
                           both.goes[j] ? "goes on" : "ends"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sizes and numbers at the limits of integers, without their memory */
static PetscErrorCode TestLimits(void)
{
  const PetscInt64 most   = INT32_MAX;
  uint32_t         number = UINT32_MAX - 4;

  PetscFunctionBeginUser;
  PetscCall(ComplainIf(IDRSSlotPlace(300000000, 8, 7) != (size_t)2400000007u, "slot 300000000 of 8 lanes begins in place %zu",
                       IDRSSlotPlace(300000000, 8, 0)));
  for (PetscInt l = 0; l < 8; l++) {
    const uint32_t next = IDRSNextExchange(number);

    PetscCall(ComplainIf(!next || next % 2 == number % 2, "exchange %u follows %u", (unsigned)next, (unsigned)number));
    PetscCall(ComplainIf(IDRSMessageIsOfOrLater(0, number), "memory without a message counts in exchange %u", (unsigned)number));
    PetscCall(ComplainIf(!IDRSMessageIsOfOrLater(number, number) || !IDRSMessageIsOfOrLater(next, number) ||
                           IDRSMessageIsOfOrLater(number, next),
                         "the order of exchanges %u and %u", (unsigned)number, (unsigned)next));
    number = next;
  }
  PetscCall(ComplainIf(!IDRSHaloFits(most, most, most), "a halo of the largest size does not fit"));
  PetscCall(ComplainIf(IDRSHaloFits(most + 1, 0, 0) == (sizeof(PetscInt) == 4), "the limit of messages"));
  PetscCall(ComplainIf(IDRSHaloFits(0, most + 1, 0) || IDRSHaloFits(0, 0, most + 1), "a halo that MPI cannot count fits"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestCycles, "coefficients of single and block recurrences"},
          {TestDecisions, "decisions of single and block recurrences"}, {TestLimits, "limits of integers"})

/*TEST

   test:
     suffix: 1

TEST*/
