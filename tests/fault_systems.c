static char help[] = "KSPIDRS on singular, indefinite and badly scaled systems: every solve ends with a true reason.\n\n";

#include "systems.h"

static PetscScalar Rotation(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 0.0 : (i < j ? -1.0 : 1.0);
}

static PetscScalar Zero(PetscInt i, PetscInt j, PetscInt n)
{
  return 0.0;
}

/* The Laplacian of a line with free ends: the constants are its null space, and the null space of its transpose */
static PetscScalar Neumann(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (i == 0 || i == n - 1 ? 1.0 : 2.0) : (PetscAbsInt(i - j) == 1 ? -1.0 : 0.0);
}

/* Convection and diffusion around a circle: the same null spaces, not symmetric */
static PetscScalar Circle(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.0 : (j == (i + 1) % n ? -1.8 : (i == (j + 1) % n ? -0.2 : 0.0));
}

typedef enum {
  GUESS_ZERO,
  GUESS_GENERAL,
  GUESS_EXACT /* with RHS_CONSISTENT */
} Guess;

typedef enum {
  SPACE_NONE,
  SPACE_RIGHT, /* the constants are attached as null space */
  SPACE_BOTH   /* also as null space of the transpose: KSPSolve() makes the right-hand side consistent */
} Space;

/* Required end of a solve without a limit */
typedef enum {
  END_ANY, /* any true reason */
  END_CONVERGED,
  END_DIVERGED
} End;

typedef struct {
  const char *name;
  Entry      *entry;
  PetscInt    n;
  RHS         rhs;
  Guess       guess;
  Space       space;
  const char *pc;
  End         right, left;
} System;

static const System systems[] = {
  /* clang-format off */
  {"b = 0", Tridiagonal, 12, RHS_ZERO, GUESS_ZERO, SPACE_NONE, PCNONE, END_CONVERGED, END_CONVERGED},
  {"b = 0, x0 != 0", Tridiagonal, 12, RHS_ZERO, GUESS_GENERAL, SPACE_NONE, PCNONE, END_CONVERGED, END_CONVERGED},
  {"exact x0", Tridiagonal, 12, RHS_CONSISTENT, GUESS_EXACT, SPACE_NONE, PCNONE, END_CONVERGED, END_CONVERGED},
  {"0 by 0", Tridiagonal, 0, RHS_GENERAL, GUESS_ZERO, SPACE_NONE, PCNONE, END_CONVERGED, END_CONVERGED},
  {"exact preconditioner", Tridiagonal, 12, RHS_GENERAL, GUESS_ZERO, SPACE_NONE, PCLU, END_CONVERGED, END_CONVERGED},
  {"singular LU", Neumann, 12, RHS_GENERAL, GUESS_ZERO, SPACE_NONE, PCLU, END_DIVERGED, END_DIVERGED},
  {"consistent, null space, jacobi",
   Neumann, 12, RHS_CONSISTENT, GUESS_GENERAL, SPACE_RIGHT, PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"consistent circle, null space", Circle, 13, RHS_CONSISTENT, GUESS_GENERAL, SPACE_RIGHT, PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"inconsistent", Neumann, 12, RHS_GENERAL, GUESS_ZERO, SPACE_NONE, PCNONE, END_DIVERGED, END_DIVERGED},
  {"inconsistent, x0 != 0, jacobi", Neumann, 12, RHS_GENERAL, GUESS_GENERAL, SPACE_NONE, PCJACOBI, END_DIVERGED, END_DIVERGED},
  {"inconsistent, null space", Neumann, 12, RHS_GENERAL, GUESS_ZERO, SPACE_RIGHT, PCNONE, END_DIVERGED, END_CONVERGED},
  {"inconsistent circle, null spaces", Circle, 13, RHS_GENERAL, GUESS_GENERAL, SPACE_BOTH, PCNONE, END_CONVERGED, END_CONVERGED},
  /* clang-format on */
};

static PetscErrorCode SystemCreate(const System *system, Mat *A, Vec *b, Vec *x0)
{
  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(system->entry, system->n, system->rhs, A, b, x0));
  if (system->space != SPACE_NONE) {
    MatNullSpace constants;

    PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &constants));
    PetscCall(MatSetNullSpace(*A, constants));
    if (system->space == SPACE_BOTH) PetscCall(MatSetTransposeNullSpace(*A, constants));
    PetscCall(MatNullSpaceDestroy(&constants));
  }
  if (system->guess == GUESS_GENERAL) PetscCall(VecSetGeneral(*x0, 2.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the norm of b - A x, or of b without an x, that the solver tests: without the null spaces, preconditioned on the left */
static PetscErrorCode Measure(KSP ksp, Mat A, Vec b, Vec x, PetscReal *norm)
{
  MatNullSpace space, transposed;
  PCSide       side;
  PC           pc;
  Vec          r, w;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(MatGetTransposeNullSpace(A, &transposed));
  PetscCall(DuplicateAll(b, &r, &w));
  PetscCall(VecCopy(b, r));
  if (transposed) PetscCall(MatNullSpaceRemove(transposed, r));
  if (x) {
    PetscCall(MatMult(A, x, w));
    PetscCall(VecAXPY(r, -1.0, w));
  }
  if (side == PC_LEFT) {
    PetscCall(PCApply(pc, r, w));
    if (space) PetscCall(MatNullSpaceRemove(space, w));
  }
  PetscCall(VecNorm(side == PC_LEFT ? w : r, NORM_2, norm));
  PetscCall(DestroyAll(&r, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves, and checks that the reason is true */
static PetscErrorCode SolveAndCheck(KSP ksp, const char name[], Mat A, Vec b, Vec x0, End end)
{
  KSPConvergedReason reason;
  KSPNormType        norm;
  PCSide             side;
  PetscInt           its, max_it, s;
  PetscReal          true_norm, reference;
  PetscErrorCode     ierr;
  char               what[256];
  Vec                x;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  PetscCall(KSPGetTolerances(ksp, NULL, NULL, NULL, &max_it));
  PetscCall(VecDuplicate(b, &x));
  if (x0) PetscCall(VecCopy(x0, x));
  else PetscCall(VecSet(x, 0.0));
  PetscCall(KSPSetInitialGuessNonzero(ksp, x0 ? PETSC_TRUE : PETSC_FALSE));

  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(KSPGetNormType(ksp, &norm));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT ", %s, norm %s, max_it %" INT ": %s after %" INT, name, s,
                          PCSides[side], KSPNormTypes[norm], max_it, KSPConvergedReasons[reason], its));
  if (ierr) {
    PetscCall(Complain("%s: error \"%s\"", what, message));
    PetscCall(VecDestroy(&x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(ComplainIf(reason == KSP_CONVERGED_ITERATING, "%s: no reason", what));
  PetscCall(ComplainIf(its < 0 || its > max_it, "%s: too many iterations", what));
  if (reason > 0) {
    PetscCall(Measure(ksp, A, b, x, &true_norm));
    PetscCall(Measure(ksp, A, b, NULL, &reference));
    if (x0 && reference == 0.0) PetscCall(Measure(ksp, A, b, x0, &reference));
    PetscCall(ComplainIf(!(true_norm <= 1.01 * rtol * reference), "%s: converged, but the norm of b - A x is %g of %g", what,
                         (double)true_norm, (double)reference));
  }
  PetscCall(ComplainIf(end == END_CONVERGED && !(reason > 0), "%s: should have converged", what));
  PetscCall(ComplainIf(end == END_DIVERGED && !(reason < 0), "%s: cannot have converged", what));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves every system with every s, side and norm. If the solve has a limit, or no norm, any true reason is allowed */
static PetscErrorCode TestSystems(void)
{
  const PetscInt limits[] = {0, 1, 2, 3, 6, 400};
  PetscMPIInt    size;

  PetscFunctionBeginUser;
  EndAfter(250);
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    const System *system = &systems[i];
    PetscBool     lu; /* the preconditioner is LU, on several processes redundant, since PETSc's LU is sequential */
    Mat           A;
    Vec           b, x0;

    PetscCall(PetscStrcmp(system->pc, PCLU, &lu));
    PetscCall(SystemCreate(system, &A, &b, &x0));
    for (PetscInt l = 0; l < 4 * 2 * 2; l++) {
      const PetscInt    s    = 1 << l % 4;
      const PCSide      side = l / 4 % 2 ? PC_LEFT : PC_RIGHT;
      const KSPNormType norm = l / 8 ? KSP_NORM_NONE : KSP_NORM_DEFAULT;
      const End         end  = side == PC_RIGHT ? system->right : system->left;

      for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
        KSP ksp;

        if (norm == KSP_NORM_NONE && limits[il] > 50 && s > 1) continue;
        PetscCall(SolverCreateLimited(A, s, side, norm, limits[il], lu && size > 1 ? PCREDUNDANT : system->pc, &ksp));
        PetscCall(SolveAndCheck(ksp, system->name, A, b, system->guess == GUESS_ZERO ? NULL : x0,
                                (limits[il] >= 400 && norm == KSP_NORM_DEFAULT) || end == END_DIVERGED ? end : END_ANY));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(DestroyAll(&A, &b, &x0));
    PetscCall(Verdict(system->name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar CyclicShift(PetscInt i, PetscInt j, PetscInt n)
{
  return j == (i + 1) % n ? 1.0 : 0.0;
}

/* A saddle point whose two parts have zero diagonals, and 2 x 2 blocks of a rotation and a scaling */
static PetscScalar Exchange(PetscInt i, PetscInt j, PetscInt n)
{
  return j == (i ^ 1) ? 2.0 + 0.1 * (i % 5) : (PetscAbsInt(i - j) == 3 ? 0.4 : 0.0);
}

/*
   Zeros on the diagonal, with each preconditioner of this library: every solve ends with a reason and, if it is positive, with a
   solution
*/
static PetscErrorCode TestZeroDiagonal(void)
{
  Entry *const      entries[] = {Skew, CyclicShift, Exchange, Rotation, Zero};
  const char *const names[]   = {"skew-symmetric", "cyclic shift", "exchange", "rotation", "zero matrix"};
  const char *const pcs[]     = {"-pc_type poly", "-pc_type bjidrs",
                                 "-pc_type bjacobi -sub_pc_type ilu -sub_pc_factor_mat_solver_type petscidrs",
                                 "-pc_type bjacobi -sub_pc_type lu -sub_pc_factor_mat_solver_type petscidrs"};

  PetscFunctionBeginUser;
  for (size_t ie = 0; ie < PETSC_STATIC_ARRAY_LENGTH(entries); ie++) {
    for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(pcs); ip++) {
      PetscOptions options;
      char         name[128];
      Mat          A;
      Vec          b;
      KSP          ksp;

      PetscCall(SystemCreateEntries(entries[ie], 24, RHS_GENERAL, &A, &b, NULL));
      PetscCall(OptionsPush(pcs[ip], &options));
      PetscCall(SolverCreateSide(A, 4, PC_RIGHT, PCNONE, &ksp));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(PetscSNPrintf(name, sizeof(name), "%s, %s", names[ie], pcs[ip]));
      PetscCall(SolveAndCheck(ksp, name, A, b, NULL, END_ANY));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
      PetscCall(DestroyAll(&b, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSystems, NULL}, {TestZeroDiagonal, "zero diagonals"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
