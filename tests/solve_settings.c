static char help[] = "Setters of KSPIDRS at the wrong time and on the wrong type, alternating types, and operators and\n\
preconditioners that change between solves.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* Defaults of KSPIDRS */
static const PetscReal defaults[13] = {
  4, 0, 10, 0.5, 1e-3, KSP_IDRS_AUTO, KSP_IDRS_COMMUNICATION_AUTO, KSP_IDRS_PRODUCT_AUTO, KSP_IDRS_RUN_AUTO,
  16}; /* then never, false */

/* Gets all values, in this order; returns the first error */
static PetscErrorCode Settings(KSP ksp, PetscReal values[])
{
  const KSPIDRSSettings *set;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetSettings_Private(ksp, &set));
  values[0]  = (PetscReal)set->s;
  values[1]  = (PetscReal)set->seed;
  values[2]  = (PetscReal)set->maxrestarts;
  values[3]  = set->cosine;
  values[4]  = set->updatetol;
  values[5]  = (PetscReal)set->implementation;
  values[6]  = (PetscReal)set->communication;
  values[7]  = (PetscReal)set->product;
  values[8]  = (PetscReal)set->run;
  values[9]  = (PetscReal)set->width;
  values[10] = (PetscReal)set->recycle;
  values[11] = (PetscReal)set->block;
  values[12] = (PetscReal)set->smoothing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckDefaults(const char what[], KSP ksp)
{
  PetscReal values[PETSC_STATIC_ARRAY_LENGTH(defaults)];

  PetscFunctionBeginUser;
  PetscCall(Settings(ksp, values));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(defaults); i++)
    PetscCall(ComplainIf(!(values[i] == defaults[i]), "%s: setting %d is %g, not %g", what, (int)i, (double)values[i],
                         (double)defaults[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls every setter, with values that are not the defaults, or not allowed */
static PetscErrorCode SetAll(KSP ksp, PetscBool right, Vec P[])
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowSize(ksp, right ? 7 : -7));
  PetscCall(KSPIDRSSetShadowSeed(ksp, right ? 5 : -5));
  PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, right ? 3 : -3));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, right ? 0.25 : 2.0));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, right ? 0.1 : 10.0));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
  PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI));
  PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_MAT));
  PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPS));
  PetscCall(KSPIDRSSetRecycle(ksp, KSP_IDRS_RECYCLE_ALWAYS));
  PetscCall(KSPIDRSResetRecycle(ksp));
  PetscCall(KSPIDRSSetWidth_Private(ksp, right ? 5 : 50));
  PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
  PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Before the type is set, and for other types, setters do nothing and getters are errors; then the type has its defaults */
static PetscErrorCode TestElsewhere(Mat A, Vec b, Vec x, Vec P[])
{
  const KSPType types[] = {NULL, KSPGMRES, KSPBCGS, KSPPREONLY};

  PetscFunctionBeginUser;
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (PetscInt right = 0; right < 2; right++) {
      const char    *what = types[it] ? types[it] : "no type";
      PetscReal      values[PETSC_STATIC_ARRAY_LENGTH(defaults)];
      PetscInt       references;
      PetscErrorCode ierr;
      KSP            ksp;

      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      if (types[it]) PetscCall(KSPSetType(ksp, types[it]));
      PetscCall(SetAll(ksp, (PetscBool)right, P));
      PetscCall(PetscObjectGetReference((PetscObject)P[0], &references));
      PetscCall(ComplainIf(references != 1, "%s: keeps shadow vectors", what));
      PetscCall(Listen());
      ierr = Settings(ksp, values);
      if (!ierr) ierr = KSPIDRSGetCounts(ksp, NULL, NULL, NULL, NULL);
      PetscCall(Heard());
      PetscCall(ComplainIf(!ierr, "%s: no error of the getters", what));
      PetscCall(KSPSetType(ksp, KSPIDRS));
      PetscCall(CheckDefaults(what, ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      PetscCall(SolveSystem(what, ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(Verdict("setters before the type and on other types"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Changes from type to type and back, with solves in between or without: neither settings nor vectors are kept */
static PetscErrorCode TestTurns(Mat A, Vec b, Vec x, Vec P[])
{
  const KSPType types[] = {KSPGMRES, KSPBCGS, KSPTFQMR, KSPFGMRES};

  PetscFunctionBeginUser;
  for (PetscInt solving = 0; solving < 2; solving++) {
    KSP ksp;

    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
      PetscInt references;

      PetscCall(SetAll(ksp, PETSC_TRUE, P));
      if (solving) PetscCall(SolveSystem("before another type", ksp, A, b, x));
      PetscCall(KSPSetType(ksp, types[it]));
      PetscCall(PetscObjectGetReference((PetscObject)P[0], &references));
      PetscCall(ComplainIf(references != 1, "%s: shadow vectors are kept", types[it]));
      if (solving) {
        PetscCall(KSPSetPCSide(ksp, it % 2 ? PC_RIGHT : PC_LEFT)); /* a side of the type; the last one has only the right side */
        PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
        PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
      }
      PetscCall(KSPSetType(ksp, KSPIDRS));
      PetscCall(CheckDefaults(types[it], ksp));
      PetscCall(SolveSystem(types[it], ksp, A, b, x));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(Verdict("types by turns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The calls that create a solver, in any order: a setting is effective if it comes after the type */
static PetscErrorCode TestOrders(Mat A, Vec b, Vec x)
{
  PetscInt order[4];

  PetscFunctionBeginUser;
  for (PetscInt code = 0; code < 256; code++) {
    PetscBool typed = PETSC_FALSE, set = PETSC_FALSE;
    PetscInt  s, mask                  = 0;
    KSP       ksp;

    for (PetscInt i = 0; i < 4; i++) {
      order[i] = code >> 2 * i & 3;
      mask |= 1 << order[i];
    }
    if (mask != 15) continue; /* not a permutation */
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    for (PetscInt i = 0; i < 4; i++) {
      switch (order[i]) {
      case 0:
        PetscCall(KSPSetOperators(ksp, A, A));
        break;
      case 1:
        PetscCall(KSPSetType(ksp, KSPIDRS));
        typed = PETSC_TRUE;
        break;
      case 2:
        PetscCall(KSPIDRSSetShadowSize(ksp, 6));
        set = typed;
        break;
      default:
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      }
    }
    PetscCall(KSPIDRSGetShadowSize(ksp, &s));
    PetscCall(ComplainIf(s != (set ? 6 : 4), "order %" INT ": s = %" INT, code, s));
    PetscCall(SolveSystem("calls in any order", ksp, A, b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(Verdict("calls in any order"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A setting after the set-up and before a solve is effective, and the panels have the size that it requires */
static PetscErrorCode TestAfterSetUp(Mat A, Vec b, Vec x, Vec P[])
{
  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t other = 0; other < SIZES; other++) {
      PetscInt products, reductions, updates, restarts;
      KSP      ksp;

      PetscCall(SolverCreate(A, sizes[is], PCJACOBI, &ksp));
      PetscCall(KSPSetUp(ksp));
      PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, &updates, &restarts));
      PetscCall(ComplainIf(products || reductions || updates || restarts, "counts before a solve"));
      PetscCall(KSPIDRSSetShadowSize(ksp, sizes[other]));
      PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0)); /* one vector less */
      PetscCall(SolveSystem("set after the set-up", ksp, A, b, x));
      PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.1)); /* and one more */
      PetscCall(SolveSystem("set after a solve", ksp, A, b, x));
      PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
      PetscCall(SolveSystem("another back end", ksp, A, b, x));
      PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
      PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_AUTO));
      PetscCall(SolveSystem("shadow vectors given", ksp, A, b, x));
      PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
      PetscCall(SolveSystem("shadow vectors taken back", ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(Verdict("settings after the set-up"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators that change, with a preconditioner that is kept, computed again, or computed from another matrix */
static PetscErrorCode TestOperators(Mat A, Vec b, Vec x)
{
  PetscInt n;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(b, &n));
  for (size_t is = 0; is < SIZES; is++) {
    PetscErrorCode ierr;
    PetscReal      norm;
    Mat            B, S;
    Vec            kept, now;
    PC             pc;
    KSP            ksp;

    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(DuplicateAll(b, &kept, &now));
    PetscCall(SolverCreate(B, sizes[is], PCJACOBI, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(PCApply(pc, b, kept));

    /* another matrix, with the preconditioner of the first one and its solution as guess */
    PetscCall(MatShift(B, 2.0));
    PetscCall(KSPSetReusePreconditioner(ksp, PETSC_TRUE));
    PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
    PetscCall(SolveSystem("preconditioner kept", ksp, B, b, x));
    PetscCall(PCApply(pc, b, now));
    PetscCall(VecAXPY(now, -1.0, kept));
    PetscCall(VecNorm(now, NORM_2, &norm));
    PetscCall(ComplainIf(!(norm == 0.0), "s = %" INT ": the preconditioner was not kept", sizes[is]));
    PetscCall(KSPSetReusePreconditioner(ksp, PETSC_FALSE));
    PetscCall(SolveSystem("preconditioner made again", ksp, B, b, x));
    PetscCall(PCApply(pc, b, now));
    PetscCall(VecAXPY(now, -1.0, kept));
    PetscCall(VecNorm(now, NORM_2, &norm));
    PetscCall(ComplainIf(!(norm > 0.0), "s = %" INT ": the preconditioner was kept", sizes[is]));

    /* a shell as operator, with a preconditioner from another matrix; then neither */
    PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, ROWS, ROWS, B, &S));
    PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))PassMult));
    PetscCall(KSPSetOperators(ksp, S, A));
    PetscCall(SolveSystem("shell", ksp, B, b, x));
    PetscCall(PCSetType(pc, PCNONE));
    PetscCall(SolveSystem("shell without preconditioner", ksp, B, b, x));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(PCSetType(pc, PCJACOBI));
    PetscCall(SolveSystem("the first matrix again", ksp, A, b, x));

    /* without operators a solve is an error, and with them again it is none */
    PetscCall(ResetWith(ksp, NULL));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(!ierr, "s = %" INT ": no error without operators", sizes[is]));
    PetscCall(ResetWith(ksp, B));
    PetscCall(VecSet(x, 0.0));
    PetscCall(SolveSystem("operators again", ksp, B, b, x));
    PetscCall(DestroyAll(&ksp, &kept, &now, &S, &B));
  }
  PetscCall(Verdict("operators and preconditioners that change"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The view of an automatic choice names the reason why it is not the GPU, also if the program has set the type of the matrix */
static PetscErrorCode TestReason(Mat A)
{
#if defined(PETSCIDRS_HAVE_CUDA)
  const char key[] = "no faster one: ... of type cuda; ... aij: ... MatConvert()";
#else
  const char key[] = "no faster one: ... built without CUDA";
#endif
  PetscInt found, reasons;
  Mat      B;
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(MatCreateVecs(B, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(ViewNumbers((PetscObject)ksp, "implementation vec", 0, NULL, &found));
  PetscCall(ViewNumbers((PetscObject)ksp, key, 0, NULL, &reasons));
  PetscCall(
    ComplainIf(found != 1 || reasons != 1, "%" INT " lines with implementation vec, %" INT " with the reason", found, reasons));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(ViewNumbers((PetscObject)ksp, "no faster one", 0, NULL, &reasons));
  PetscCall(ComplainIf(reasons != 0, "a reason although the back end was asked for"));
  PetscCall(DestroyAll(&ksp, &b, &x, &B));
  PetscCall(Verdict("the reason for the host"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;
  Vec b, x, *P;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecDuplicateVecs(b, 2, &P));
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecSetGeneral(P[i], 3.0 + i));
  PetscCall(TestElsewhere(A, b, x, P));
  PetscCall(TestTurns(A, b, x, P));
  PetscCall(TestOrders(A, b, x));
  PetscCall(TestAfterSetUp(A, b, x, P));
  PetscCall(TestOperators(A, b, x));
  PetscCall(TestReason(A));
  PetscCall(VecDestroyVecs(2, &P));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
