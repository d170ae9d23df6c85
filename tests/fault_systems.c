static char help[] = "KSPIDRS on singular, indefinite and badly scaled systems: every solve ends with a true reason.\n\
Null spaces that PETSc attaches to a matrix, of the matrix and of its transpose.\n\n";

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
static PetscScalar FreeLine(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (i == 0 || i == n - 1 ? 1.0 : 2.0) : (PetscAbsInt(i - j) == 1 ? -1.0 : 0.0);
}

typedef enum {
  GUESS_ZERO,
  GUESS_GENERAL,
  GUESS_EXACT /* with RHS_CONSISTENT */
} Guess;

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
  const char *pc;
  End         end;
} System;

static const System systems[] = {
  /* clang-format off */
  {"b = 0", Tridiagonal, 12, RHS_ZERO, GUESS_ZERO, PCNONE, END_CONVERGED},
  {"b = 0, x0 != 0", Tridiagonal, 12, RHS_ZERO, GUESS_GENERAL, PCNONE, END_CONVERGED},
  {"exact x0", Tridiagonal, 12, RHS_CONSISTENT, GUESS_EXACT, PCNONE, END_CONVERGED},
  {"0 by 0", Tridiagonal, 0, RHS_GENERAL, GUESS_ZERO, PCNONE, END_CONVERGED},
  {"exact preconditioner", Tridiagonal, 12, RHS_GENERAL, GUESS_ZERO, PCLU, END_CONVERGED},
  {"singular LU", FreeLine, 12, RHS_GENERAL, GUESS_ZERO, PCLU, END_DIVERGED},
  {"inconsistent", FreeLine, 12, RHS_GENERAL, GUESS_ZERO, PCNONE, END_DIVERGED},
  {"inconsistent, x0 != 0, jacobi", FreeLine, 12, RHS_GENERAL, GUESS_GENERAL, PCJACOBI, END_DIVERGED},
  /* clang-format on */
};

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
    PetscCall(OperatorNorm(ksp, A, b, x, &true_norm));
    PetscCall(OperatorNorm(ksp, A, b, NULL, &reference));
    if (x0 && reference == 0.0) PetscCall(OperatorNorm(ksp, A, b, x0, &reference));
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
    PetscCall(SystemCreateEntries(system->entry, system->n, system->rhs, &A, &b, &x0));
    if (system->guess == GUESS_GENERAL) PetscCall(VecSetGeneral(x0, 2.0));
    for (PetscInt l = 0; l < 4 * 2 * 2; l++) {
      const PetscInt    s    = 1 << l % 4;
      const PCSide      side = l / 4 % 2 ? PC_LEFT : PC_RIGHT;
      const KSPNormType norm = l / 8 ? KSP_NORM_NONE : KSP_NORM_DEFAULT;
      const End         end  = system->end;

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

#define ROWS (LINE * LINE)

/* Returns scales of the rows, so that the null space of the transpose differs from the null space of the matrix */
static PetscReal Scale(PetscInt i)
{
  return 1.0 + 0.1 * (i % 5);
}

/* Diffusion with free ends, with scaled rows */
static PetscScalar Neumann(PetscInt i, PetscInt j, PetscInt n)
{
  PetscInt neighbours = 0;

  if (i != j) return (PetscAbsInt(i - j) == LINE || (PetscAbsInt(i - j) == 1 && i / LINE == j / LINE)) ? -Scale(i) : 0.0;
  if (i >= LINE) neighbours++;
  if (i < n - LINE) neighbours++;
  if (i % LINE) neighbours++;
  if ((i + 1) % LINE) neighbours++;
  return Scale(i) * (PetscReal)neighbours;
}

/* Convection and diffusion around two circles, with scaled rows */
static PetscScalar Torus(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt right = (i + 1) % LINE + i / LINE * LINE, left = (i + LINE - 1) % LINE + i / LINE * LINE;

  if (i == j) return Scale(i) * 4.0;
  if (j == right) return Scale(i) * -1.7;
  if (j == left) return Scale(i) * -0.3;
  if (j == (i + LINE) % n) return Scale(i) * -0.8;
  return j == (i + n - LINE) % n ? Scale(i) * -1.2 : 0.0;
}

static const struct {
  const char *name;
  Entry      *entry;
} singular[] = {
  {"diffusion, scaled rows", Neumann},
  {"torus, scaled rows",     Torus  }
};

/* Creates the null spaces of the matrix, which are the constants, and of its transpose */
static PetscErrorCode SpacesCreate(Mat A, MatNullSpace *space, MatNullSpace *transposed)
{
  PetscInt     begin, end;
  PetscScalar *array;
  Vec          w;

  PetscFunctionBeginUser;
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, space));
  PetscCall(MatCreateVecs(A, NULL, &w));
  PetscCall(VecGetOwnershipRange(w, &begin, &end));
  PetscCall(VecGetArrayWrite(w, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = 1.0 / Scale(i);
  PetscCall(VecRestoreArrayWrite(w, &array));
  PetscCall(VecNormalize(w, NULL));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_FALSE, 1, &w, transposed));
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ways to make the system consistent */
typedef enum {
  WAY_PRODUCT,   /* b = A times a vector */
  WAY_REMOVED,   /* MatNullSpaceRemove() from b */
  WAY_ATTACHED,  /* MatSetTransposeNullSpace(), b as it is */
  WAY_TRANSPOSE, /* KSPSolveTranspose(), b as it is, with the null space of A attached */
  WAY_NONE,      /* b as it is: there is no solution */
  WAYS
} Way;
static const char *const ways[] = {"b in the range", "b projected", "null space of the transpose attached", "transpose",
                                   "inconsistent"};

/* The reason is true for the part of b in the range; on the left PETSc removes the null space from x */
static PetscErrorCode TestSingular(void)
{
  PetscFunctionBeginUser;
  for (size_t im = 0; im < PETSC_STATIC_ARRAY_LENGTH(singular); im++) {
    Mat          A, T;
    MatNullSpace space, transposed;
    Vec          b, x;

    PetscCall(MatCreateEntries(singular[im].entry, ROWS, PETSC_FALSE, &A));
    PetscCall(MatCreateEntries(singular[im].entry, ROWS, PETSC_TRUE, &T));
    PetscCall(SpacesCreate(A, &space, &transposed));
    PetscCall(MatCreateVecs(A, &x, &b));
    for (Way way = WAY_PRODUCT; way < WAYS; way++) {
      PetscCall(MatSetNullSpace(A, space));
      PetscCall(MatSetTransposeNullSpace(A, way == WAY_ATTACHED ? transposed : NULL));
      for (PetscInt i = 0; i < VARIANTS; i++) {
        KSPConvergedReason reason;
        PetscReal          norm, reference, part = 0.0, xnorm;
        Mat                B = way == WAY_TRANSPOSE ? T : A;
        Variant            variant;
        KSP                ksp;

        if (way == WAY_NONE && i / 4 % 2) continue; /* on the left PETSc removes the null space from B^{-1}r, too */
        PetscCall(VecSetGeneral(b, 1.0));
        if (way == WAY_PRODUCT) {
          PetscCall(VecSetGeneral(x, 0.4));
          PetscCall(MatMult(A, x, b));
        } else if (way == WAY_REMOVED) PetscCall(MatNullSpaceRemove(transposed, b));
        PetscCall(VariantCreate(A, i, &variant, &ksp));
        if (way == WAY_TRANSPOSE) PetscCall(KSPSolveTranspose(ksp, b, x));
        else PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));

        if (way == WAY_ATTACHED) PetscCall(MatNullSpaceRemove(transposed, b));
        if (way == WAY_TRANSPOSE) PetscCall(MatNullSpaceRemove(space, b));
        PetscCall(OperatorNorm(ksp, B, b, NULL, &reference));
        PetscCall(OperatorNorm(ksp, B, b, x, &norm));
        if (variant.side == PC_LEFT && way != WAY_TRANSPOSE) {
          PetscScalar sum;

          PetscCall(VecSum(x, &sum));
          part = PetscAbsScalar(sum) / PetscSqrtReal(ROWS);
        }
        PetscCall(VecNorm(x, NORM_2, &xnorm));
        PetscCall(KSPDestroy(&ksp));
        PetscCall(ComplainIf((reason > 0) != (way != WAY_NONE) || (reason > 0 && !(norm <= 1.01 * rtol * reference)),
                             "%s, %s, %s: %s, norm %g of %g", singular[im].name, ways[way], variant.what,
                             KSPConvergedReasons[reason], (double)norm, (double)reference));
        PetscCall(ComplainIf(!(part <= 1e5 * PETSC_MACHINE_EPSILON * xnorm), "%s, %s, %s: of x, %g, %g is in the null space",
                             singular[im].name, ways[way], variant.what, (double)xnorm, (double)part));
      }
    }
    PetscCall(DestroyAll(&space, &transposed, &b, &x, &A, &T));
    PetscCall(Verdict(singular[im].name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSystems, NULL}, {TestSingular, NULL}, {TestZeroDiagonal, "zero diagonals"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
