static char help[] = "Decisions of the algebra of single recurrences, and of block recurrences with one column: sums that end one\n\
recurrence end the other. Places and numbers beyond 32 bits.\n\n";

#include "works.h"
#include <petscidrs/private/idrsblockscalars.h>
#include <petscidrs/private/idrslimits.h>

#define SHADOWS 5

/* Both algebras, which get the same sums */
typedef struct {
  PetscReal        cosine;
  PetscScalar      sums[IDRS_SUMS(SHADOWS, 1)]; /* of single recurrences */
  IDRSScalars      single;
  IDRSBlockScalars block;
  PetscScalar      storage[IDRS_STORAGE(SHADOWS)], blockstorage[IDRS_BLOCK_STORAGE(SHADOWS, 1)];
  PetscBool        goes[2]; /* single, block: the recurrence continues */
} Both;

/* Begins with M = I, omega = 1, f = P^H r, and c of the first direction */
static void Begin(PetscReal cosine, Both *both)
{
  *both = (Both){.cosine = cosine};
  IDRSScalarsSetPointers(&both->single, SHADOWS, both->storage);
  IDRSBlockScalarsSetPointers(&both->block, SHADOWS, 1, both->blockstorage);
  both->single.pivotscale = IDRS_HASHED_PIVOTSCALE;
  *both->single.omega     = 1.0;
  IDRSScalarsResetColumns(&both->single, 0);
  IDRSBlockScalarsReset(&both->block);
  both->block.S[0] = 1.0;
  for (PetscInt i = 0; i < SHADOWS; i++) both->block.f[i] = both->single.sums[IDRS_SUM_PX(SHADOWS) + i] = Number(0, i);
  IDRSScalarsSetResidual(&both->single);
  IDRSScalarsCombine(&both->single, 0);
  IDRSBlockScalarsDirection(&both->block, 0);
}

/* Sets sums of step k without a pattern. G_0 to G_s-1 are far from parallel, and |t^H r| <= |t| |r| */
static void SetSums(Both *both, PetscInt k)
{
  const PetscReal xx = 2 + PetscRealPart(Number(900, (uint64_t)k)), yy = 2 + PetscRealPart(Number(901, (uint64_t)k));

  for (PetscInt i = 0; i < IDRS_SUMS(SHADOWS, 1); i++) both->sums[i] = Number(1 + k, i);
  if (k < SHADOWS) both->sums[IDRS_SUM_PX(SHADOWS) + k] += 3.0;
  both->sums[IDRS_SUM_XX(SHADOWS)] = xx;
  both->sums[IDRS_SUM_RR(SHADOWS)] = both->sums[IDRS_SUM_YY(SHADOWS)] = yy;
  both->sums[IDRS_SUM_XY(SHADOWS)] *= PetscSqrtReal(xx * yy / 2);
}

/* Makes step k of both, or the omega step k = s. x of the block recurrence is scaled by its T */
static PetscErrorCode Continue(Both *both, PetscInt k)
{
  const PetscScalar *sums  = both->sums;
  const PetscReal    scale = k < SHADOWS ? PetscRealPart(both->block.T[0]) : 1.0;
  IDRSBlockNorms     norms;
  PetscScalar        block[IDRS_SUMS(SHADOWS, 1)];
  PetscReal          square, rnorm = 0.0;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < SHADOWS; i++) {
    block[i]           = scale * sums[IDRS_SUM_PX(SHADOWS) + i];
    block[SHADOWS + i] = sums[IDRS_SUM_PY(SHADOWS) + i];
  }
  if (k < SHADOWS) block[SHADOWS] = sums[IDRS_SUM_RR(SHADOWS)];
  else {
    /* the Gram matrix of t and r */
    block[2 * SHADOWS]     = sums[IDRS_SUM_XX(SHADOWS)];
    block[2 * SHADOWS + 1] = PetscConj(sums[IDRS_SUM_XY(SHADOWS)]);
    block[2 * SHADOWS + 2] = sums[IDRS_SUM_XY(SHADOWS)];
    block[2 * SHADOWS + 3] = sums[IDRS_SUM_YY(SHADOWS)];
  }
  PetscCall(PetscArraycpy(both->single.sums, sums, IDRS_SUMS(SHADOWS, 1)));
  both->goes[0] = (PetscBool)(IDRSScalarsAreFinite(&both->single, (PetscBool)(k == SHADOWS), PETSC_TRUE) &&
                              IDRSScalarsContinue(&both->single, k, PETSC_FALSE, both->cosine, &square) == IDRS_CONTINUES);
  IDRSBlockScalarsNorms(&both->block, (int)k, 1, block, &norms);
  both->goes[1] = (PetscBool)(norms.finite &&
                              IDRSBlockScalarsContinue(&both->block, (int)k, both->cosine, block, &rnorm) == IDRS_CONTINUES);
  if (both->goes[1]) IDRSBlockScalarsDirect(&both->block, k);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces some sums of a step, and checks whether both recurrences continue */
#define ALL_PX (-1)

static PetscErrorCode TestDecisions(void)
{
  static const struct {
    const char *name;
    PetscInt    k, sum;
    PetscReal   value, cosine;
    PetscBool   goes;
  } cases[] = {
    {"t = 0",                                SHADOWS, IDRS_SUM_XX(SHADOWS), 0.0,                   0.5, PETSC_FALSE},
    {"t = 0, cosine 0",                      SHADOWS, IDRS_SUM_XX(SHADOWS), 0.0,                   0.0, PETSC_FALSE},
    {"t^H t = NaN",                          SHADOWS, IDRS_SUM_XX(SHADOWS), NAN,                   0.5, PETSC_FALSE},
    {"t^H t = Inf",                          SHADOWS, IDRS_SUM_XX(SHADOWS), INFINITY,              0.5, PETSC_FALSE},
    {"t^H t so small that omega overflows",  SHADOWS, IDRS_SUM_XX(SHADOWS), 1e-3 / PETSC_MAX_REAL, 0.5, PETSC_FALSE},
    {"r^H r = NaN",                          SHADOWS, IDRS_SUM_YY(SHADOWS), NAN,                   0.5, PETSC_FALSE},
    {"t^H r = NaN",                          SHADOWS, IDRS_SUM_XY(SHADOWS), NAN,                   0.5, PETSC_FALSE},
    {"t^H r = 0",                            SHADOWS, IDRS_SUM_XY(SHADOWS), 0.0,                   0.5, PETSC_TRUE },
    {"t^H r = 0, cosine 0, hence omega = 0", SHADOWS, IDRS_SUM_XY(SHADOWS), 0.0,                   0.0, PETSC_FALSE},
    {"P^H t = NaN",                          SHADOWS, ALL_PX,               NAN,                   0.5, PETSC_FALSE},
    {"P^H g = 0 in step 0",                  0,       ALL_PX,               0.0,                   0.5, PETSC_FALSE},
    {"P^H g = 0",                            3,       ALL_PX,               0.0,                   0.5, PETSC_FALSE},
    {"P^H g = NaN",                          3,       ALL_PX,               NAN,                   0.5, PETSC_FALSE},
    {"r^H r = Inf",                          3,       IDRS_SUM_RR(SHADOWS), INFINITY,              0.5, PETSC_FALSE},
  };
  Both both;

  PetscFunctionBeginUser;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(cases); l++) {
    Begin(cases[l].cosine, &both);
    for (PetscInt k = 0; k <= cases[l].k; k++) {
      SetSums(&both, k);
      if (k == cases[l].k) {
        for (PetscInt i = 0; i < SHADOWS; i++) {
          if (cases[l].sum == ALL_PX) both.sums[IDRS_SUM_PX(SHADOWS) + i] = cases[l].value;
        }
        if (cases[l].sum != ALL_PX) both.sums[cases[l].sum] = cases[l].value;
        if (cases[l].value == 0.0) both.sums[IDRS_SUM_XY(SHADOWS)] = 0.0;
      }
      PetscCall(Continue(&both, k));
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

RUN_TESTS({TestDecisions, "decisions of single and block recurrences"}, {TestLimits, "limits of integers"})

/*TEST

   test:
     suffix: 1

TEST*/
