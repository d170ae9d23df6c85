static char help[] = "PCPOLY with scaling by a matching: compared with the polynomial of the permuted and scaled matrix,\n\
transposed, with several columns; systems that need it; the automatic choice; new values; singular\n\
matrices; bad input.\n\n";

#include "columns.h"
#include "matched.h"

#define ROWS 120

/* Returns powers of ten without a pattern, from 10^-most to 10^most */
static PetscReal Power(PetscInt i, PetscInt most)
{
  return PetscPowReal(10.0, (PetscReal)((7 * i + i * i) % (2 * most + 1) - most));
}

/* Rows that are exchanged in pairs on one process; rows and columns of very different magnitudes */
static PetscScalar Swapped(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt most = PetscDefined(USE_REAL_SINGLE) ? 2 : 4;

  return Power(i, most) * Power(j + 3, most) * Convection(i ^ 1, j, n);
}

/* The same without scaling, and with other values, which suit the same permutation */
static PetscScalar Paired(PetscInt i, PetscInt j, PetscInt n)
{
  return Convection(i ^ 1, j, n);
}

static PetscScalar PairedOther(PetscInt i, PetscInt j, PetscInt n)
{
  return Convection(i ^ 1, j, n) * (1.0 + 0.2 * PetscSinReal((PetscReal)(3 * i + j)));
}

/*
   Convection with a weak diagonal, along one direction and against a matching along the flow: a polynomial of the unpermuted matrix
   is better
*/
static PetscScalar Windy(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscReal wind = 60.0;

  if (i == j) return 4.0;
  if (j == i - LINE || (j == i - 1 && i % LINE)) return -1.0 - wind;
  if (j == i + LINE || (j == i + 1 && j % LINE)) return -1.0 + wind;
  return 0.0;
}

/* Creates vectors for products with A, the first one with general entries */
static PetscErrorCode GeneralVecs(Mat A, PetscInt n, Vec *v[])
{
  Vec x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, NULL));
  PetscCall(VecDuplicateVecs(x, n, v));
  PetscCall(VecDestroy(&x));
  PetscCall(VecSetGeneral((*v)[0], 0.4));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets up, and checks that the view has this text about the scaling */
static PetscErrorCode CheckUsed(PC pc, const char text[])
{
  PetscFunctionBeginUser;
  PetscCall(PCSetUp(pc));
  PetscCall(CheckView(pc, text, 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define NONE     "no scaling"
#define DIAGONAL "scaling by the diagonal"
#define MATCHING "scaling by a matching"

/* Checks that the application has no Inf or NaN */
static PetscErrorCode CheckFinite(const char what[], PC pc, Mat A)
{
  PetscReal norm;
  Vec      *v;

  PetscFunctionBeginUser;
  PetscCall(GeneralVecs(A, 2, &v));
  PetscCall(PCApply(pc, v[0], v[1]));
  PetscCall(VecNorm(v[1], NORM_2, &norm));
  PetscCall(ComplainIf(PetscIsInfOrNanReal(norm), "%s: norm %g", what, (double)norm));
  PetscCall(VecDestroyVecs(2, &v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares with B^{-1} = Dc M P Dr and B^{-T} = Dr P^T M^T Dc, where M is PCPOLY for the matrix P Dr A Dc, scaled by its diagonal
*/
static PetscErrorCode TestByHand(void)
{
  const PetscReal tolerance = PetscSqrtReal(PETSC_MACHINE_EPSILON);

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  for (PetscInt d = 0; d < 3; d++) {
    const PetscInt degrees[] = {1, 2, 11};

    for (PetscInt streamed = 0; streamed < 2; streamed++) {
      char      what[64];
      Mat       A;
      Vec       x, *v; /* B^{-1}x, by hand, B^{-T}x by hand */
      PC        pc;
      Reference hand;

      PetscCall(MatCreateEntries(Swapped, ROWS, PETSC_FALSE, &A));
      PetscCall(ReferenceCreate(A, &hand));
      PetscCall(PolySet(hand.inner, degrees[d], 0, "diagonal"));
      if (streamed) PetscCall(MatConvert(A, MATAIJSTREAM, MAT_INPLACE_MATRIX, &A));
      PetscCall(PolyCreate(A, degrees[d], 0, "matching", &pc));
      PetscCall(MatCreateVecs(A, &x, NULL));
      PetscCall(VecDuplicateVecs(x, 3, &v));
      PetscCall(VecSetGeneral(x, 0.7));
      PetscCall(PetscSNPrintf(what, sizeof(what), "degree %" INT "%s", degrees[d], streamed ? ", streamed" : ""));
      PetscCall(PCApply(pc, x, v[0]));
      PetscCall(ReferenceApply(&hand, PETSC_FALSE, x, v[1]));
      PetscCall(CheckClose(what, v[0], v[1], tolerance));
      PetscCall(PCApplyTranspose(pc, x, v[0]));
      PetscCall(ReferenceApply(&hand, PETSC_TRUE, x, v[2]));
      PetscCall(CheckClose(what, v[0], v[2], tolerance));
      PetscCall(ReferenceDestroy(&hand));
      PetscCall(VecDestroyVecs(3, &v));
      PetscCall(DestroyAll(&pc, &x, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Systems that scaling by the diagonal does not solve, with each solver and side; several columns */
static PetscErrorCode TestSystems(void)
{
  const char *const types[] = {KSPIDRS, KSPGMRES, KSPBCGS};
  const PCSide      sides[] = {PC_RIGHT, PC_LEFT};
  const PetscInt    columns = 3;
  Mat               A, B, X;
  Vec               b, x, column;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Swapped, ROWS, RHS_CONSISTENT, &A, &b, &x));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, ROWS, columns, NULL, &B));
  PetscCall(VecDuplicate(b, &column));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(VecSetGeneral(x, 0.2 + 0.3 * (PetscReal)j));
    PetscCall(MatMult(A, x, column));
    PetscCall(ColumnSet(B, j, column));
  }
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (size_t t = 0; t < PETSC_STATIC_ARRAY_LENGTH(types); t++) {
    for (PetscInt side = 0; side < 2; side++) {
      char                      what[64];
      const KSPConvergedReason *reasons;
      KSPConvergedReason        reason;
      KSP                       ksp;
      PC                        pc;

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", types[t], PCSides[sides[side]]));
      PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
      PetscCall(KSPSetType(ksp, types[t]));
      PetscCall(KSPSetPCSide(ksp, sides[side]));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(PCSetType(pc, PCPOLY));
      PetscCall(VecSet(x, 0.0));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(CheckUsed(pc, MATCHING));
      if (side == 0) PetscCall(CheckSolved(what, ksp, A, b, x));
      else if (t == 0) PetscCall(CheckConverged(what, ksp, b, x));
      else { /* other recurrences lose the norm of a residual whose entries are of very different magnitudes */
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ComplainIf(reason <= 0, "%s: %s", what, KSPConvergedReasons[reason]));
      }
      if (t == 0 && side == 0) {
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
        for (PetscInt j = 0; j < columns; j++) PetscCall(CheckColumn(what, A, B, X, j, reasons[j]));
      }
      PetscCall(PolyOption(pc, "scaling", "diagonal"));
      PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 60));
      PetscCall(VecSet(x, 0.0));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      if (side == 0)
        PetscCall(ComplainIf(reason > 0, "%s: solved without a matching, too, which leaves nothing to see here", what));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&column, &b, &x, &A, &B, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The choice of auto, which is the diagonal for a smoother; each setting is used as requested */
static PetscErrorCode TestChoice(void)
{
  const char *const settings[] = {"auto", "none", "diagonal", "matching"};
  const struct {
    const char *name;
    Entry      *entry;
    const char *chosen;
  } systems[] = {
    {"convection", Convection, DIAGONAL},
    {"paired",     Paired,     DIAGONAL},
    {"swapped",    Swapped,    MATCHING},
    {"windy",      Windy,      DIAGONAL}
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    const char *const texts[] = {systems[i].chosen, NONE, DIAGONAL, MATCHING};

    for (PetscInt asked = 0; asked < 4; asked++) {
      PetscReal number[1];
      PetscInt  lines;
      Mat       A;
      PC        pc;

      PetscCall(MatCreateEntries(systems[i].entry, ROWS, PETSC_FALSE, &A));
      PetscCall(PolyCreate(A, 8, 0, settings[asked], &pc));
      PetscCall(CheckUsed(pc, texts[asked]));
      PetscCall(CheckViewLines(systems[i].name, (PetscObject)pc));
      PetscCall(ViewNumbers((PetscObject)pc, "matching: ", 1, number, &lines));
      if (i == 2 && lines == 1) PetscCall(ComplainIf(number[0] != (PetscReal)ROWS, "%g rows moved", (double)number[0]));
      PetscCall(PolyOption(pc, "smoother", "true"));
      PetscCall(CheckUsed(pc, asked ? texts[asked] : DIAGONAL));
      PetscCall(DestroyAll(&pc, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a new preconditioner for this matrix has the same application */
static PetscErrorCode CheckFresh(const char what[], PC pc, Mat A, PetscReal tolerance)
{
  Vec *v;
  PC   fresh;

  PetscFunctionBeginUser;
  PetscCall(PolyCreate(A, 6, 0, "matching", &fresh));
  PetscCall(GeneralVecs(A, 3, &v));
  PetscCall(PCApply(pc, v[0], v[1]));
  PetscCall(PCApply(fresh, v[0], v[2]));
  PetscCall(CheckClose(what, v[1], v[2], tolerance));
  PetscCall(VecDestroyVecs(3, &v));
  PetscCall(PCDestroy(&fresh));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* New values: the permutation is kept while it suits them, roots and choices follow the settings; a new pattern */
static PetscErrorCode TestNewValues(void)
{
  const PetscReal  tolerance = PetscSqrtReal(PETSC_MACHINE_EPSILON);
  const PetscReal *re;
  PetscReal        first;
  PetscInt         n;
  Mat              A, other, plain;
  PC               pc;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Paired, ROWS, PETSC_FALSE, &A));
  PetscCall(MatCreateEntries(PairedOther, ROWS, PETSC_FALSE, &other));
  PetscCall(MatCreateEntries(Convection, ROWS, PETSC_FALSE, &plain));
  PetscCall(PolyCreate(A, 6, 0, "matching", &pc));
  PetscCall(CheckFresh("first", pc, A, tolerance));
  PetscCall(MatCopy(other, A, SAME_NONZERO_PATTERN));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("other values", pc, A, 0.5)); /* other scalings and roots, not another polynomial */
  PetscCall(MatScale(A, -3.0));
  PetscCall(CheckFresh("scaled", pc, A, 0.5));
  /* values for which the identity is best, in the same pattern */
  PetscCall(MatDestroy(&other));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &other));
  PetscCall(MatShift(other, 1000.0));
  PetscCall(MatCopy(other, A, DIFFERENT_NONZERO_PATTERN));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("another permutation", pc, A, tolerance));
  /* another pattern */
  PetscCall(PCSetOperators(pc, plain, plain));
  PetscCall(CheckFresh("another pattern", pc, plain, tolerance));
  /* kept roots, and a kept preconditioner */
  PetscCall(PolyOption(pc, "reuse", "true"));
  PetscCall(PCSetUp(pc));
  PetscCall(PCPolyGetRoots(pc, &n, &re, NULL));
  first = n ? re[0] : 0.0;
  PetscCall(MatShift(plain, 0.5));
  PetscCall(PCSetUp(pc));
  PetscCall(PCPolyGetRoots(pc, &n, &re, NULL));
  PetscCall(ComplainIf(!n || re[0] != first, "the roots are not kept"));
  PetscCall(DestroyAll(&pc, &A, &other, &plain));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Validity of the choice of the last set-up: other values, another operator, roots of the user */
static PetscErrorCode TestChoiceKept(void)
{
  const PetscReal re[] = {1.0, 2.0};
  PetscInt        begin, end;
  Mat             A, S;
  PC              pc;

  PetscFunctionBeginUser;
  /* a diagonal that dominates, and then, in the same pattern, zeros on it */
  PetscCall(MatCreateEntries(Swapped, ROWS, PETSC_FALSE, &A));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &S));
  PetscCall(MatGetOwnershipRange(S, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(S, i, i, 1e12, INSERT_VALUES));
  PetscCall(MatAssemble(S));
  PetscCall(PolyCreate(S, 8, 0, "auto", &pc));
  PetscCall(CheckUsed(pc, DIAGONAL));
  PetscCall(MatCopy(A, S, SAME_NONZERO_PATTERN));
  PetscCall(PCSetOperators(pc, S, S));
  PetscCall(CheckUsed(pc, MATCHING));
  PetscCall(MatDestroy(&S));
  /* roots are reused, but not from a permuted matrix for an operator without a matching */
  PetscCall(PolyOption(pc, "reuse", "true"));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  PetscCall(PCSetOperators(pc, S, S));
  PetscCall(CheckFinite("a shell after a matching", pc, A));
  PetscCall(CheckUsed(pc, NONE));
  PetscCall(MatDestroy(&S));
  /* roots of the user belong to the matrix scaled by its diagonal */
  PetscCall(PCPolySetRoots(pc, 2, re, NULL));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckUsed(pc, DIAGONAL));
  PetscCall(DestroyAll(&pc, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows without entries: the view states the rank, and there is no NaN */
static PetscErrorCode TestSingular(void)
{
  const PetscInt deficits[] = {1, 7, ROWS};
  PetscReal      number[1];
  PetscInt       lines, begin, end;
  PCFailedReason failed;
  Mat            A;
  PC             pc;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < 3; i++) {
    PetscInt rows[ROWS], count = 0;

    PetscCall(MatCreateEntries(Swapped, ROWS, PETSC_FALSE, &A));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    PetscCall(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, PETSC_TRUE));
    /* all rows, or every other one of the first process */
    for (PetscInt k = 0; k < deficits[i]; k++) {
      const PetscInt row = deficits[i] < ROWS ? 2 * k : k;

      if (row >= begin && row < end) rows[count++] = row;
    }
    PetscCall(MatZeroRows(A, count, rows, 0.0, NULL, NULL));
    PetscCall(PolyCreate(A, 4, 0, "matching", &pc));
    PetscCall(PCSetUp(pc));
    PetscCall(ViewNumbers((PetscObject)pc, "structurally singular: rank ", 1, number, &lines));
    PetscCall(ComplainIf(lines != 1 || number[0] != (PetscReal)(ROWS - deficits[i]), "%" INT " rows of zeros: rank %g", deficits[i],
                         (double)number[0]));
    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(ComplainIf((i == 2) != (failed != PC_NOERROR), "%" INT " rows of zeros: reason %d", deficits[i], (int)failed));
    if (!failed) PetscCall(CheckFinite("rows of zeros", pc, A));
    PetscCall(DestroyAll(&pc, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators without a matching, values that are not finite, options; 0 and 1 rows */
static PetscErrorCode TestBadInput(void)
{
  const PetscReal zero = 0.0;
  PCFailedReason  failed;
  PetscReal       number[1];
  PetscInt        lines;
  Mat             A, S;
  Vec            *v;
  PC              pc;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Swapped, ROWS, PETSC_FALSE, &A));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  PetscCall(PolyCreate(S, 4, 0, "matching", &pc));
  PetscCall(PCSetOptionsPrefix(pc, "my_"));
  CheckRefused(PCSetUp(pc), "-my_pc_poly_scaling matching", MATSHELL);
  CheckRefused(PolyOption(pc, "scaling", "9"), "-my_pc_poly_scaling", "9");
  PetscCall(PolyOption(pc, "scaling", "auto"));
  PetscCall(CheckUsed(pc, NONE));
  PetscCall(DestroyAll(&pc, &S));
  /* NaN: a set-up that fails, and then one that succeeds */
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &S));
  PetscCall(MatSetOption(S, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
  PetscCall(MatSetValue(S, 17, 16, 1.0 / zero - 1.0 / zero, INSERT_VALUES));
  PetscCall(MatAssemble(S));
  PetscCall(PolyCreate(S, 4, 0, "matching", &pc));
  PetscCall(PCSetUp(pc));
  PetscCall(PCGetFailedReason(pc, &failed));
  PetscCall(ViewNumbers((PetscObject)pc, "no matching: row ", 1, number, &lines));
  PetscCall(ComplainIf(!failed || lines != 1 || number[0] != 17.0, "NaN: reason %d, row %g", (int)failed, (double)number[0]));
  PetscCall(GeneralVecs(S, 2, &v));
  PetscCall(PCApplyTranspose(pc, v[0], v[1])); /* without a permuted matrix only memory is checked */
  PetscCall(VecDestroyVecs(2, &v));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("after NaN", pc, A, 1.0));
  PetscCall(PCGetFailedReason(pc, &failed));
  PetscCall(ComplainIf(failed, "after NaN: reason %d", (int)failed));
  PetscCall(DestroyAll(&pc, &S, &A));
  for (PetscInt n = 0; n < 2; n++) {
    PetscCall(MatCreateEntries(Identity, n, PETSC_FALSE, &A));
    PetscCall(MatScale(A, -2.0));
    PetscCall(PolyCreate(A, 4, 0, "matching", &pc));
    PetscCall(PCSetUp(pc));
    if (n) {
      PetscCall(GeneralVecs(A, 2, &v));
      PetscCall(PCApply(pc, v[0], v[1]));
      PetscCall(VecScale(v[0], -0.5));
      PetscCall(CheckClose("one row", v[1], v[0], 100 * PETSC_MACHINE_EPSILON));
      PetscCall(VecDestroyVecs(2, &v));
    }
    PetscCall(DestroyAll(&pc, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestByHand, "by hand"}, {TestSystems, "systems"}, {TestChoice, "choice"}, {TestNewValues, "new values"},
          {TestChoiceKept, "choice kept"}, {TestSingular, "singular"}, {TestBadInput, "bad input"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
