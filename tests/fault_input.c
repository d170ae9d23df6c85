static char help[] = "KSPIDRS on systems and settings that go wrong: every solve ends with a reason that tells the truth, every wrong value is an error.\n\n";

#include <petscidrs.h>
#include "complain.h"
#include "listen.h"
#include "operators.h"

#if PetscDefined(HAVE_UNISTD_H)
  #include <unistd.h>
#endif

/* A hang is to end as a failure of its own, before the harness gives up after 300 seconds; in valgrind all is many times slower */
static void Deadline(unsigned int seconds)
{
#if PetscDefined(HAVE_UNISTD_H)
  alarm(seconds);
#endif
}

/*
   Operators and preconditioners that go wrong at one of their applications, the first being 0, and in the part of the
   last process: all must come to know of it
*/
typedef enum {
  FAULT_NONE,
  FAULT_NAN,    /* one entry of the result is not a number */
  FAULT_INF,    /* all entries of a process are infinite */
  FAULT_FAILED, /* the preconditioner says that it has failed, with an infinite result */
  FAULT_ERROR   /* a PETSc error */
} Fault;
static const char *const faults[] = {"no fault", "NaN", "Inf", "failed reason", "error"};

typedef struct {
  Mat       A; /* applied before the fault; NULL for the identity */
  Fault     fault;
  PetscInt  when, count;
  PetscBool happened;
} Faulty;

static PetscErrorCode FaultyApply(Faulty *faulty, PC pc, Vec x, Vec y)
{
  PetscMPIInt  rank, size;
  PetscReal    zero = 0.0;
  PetscInt     n;
  PetscScalar *array;

  PetscFunctionBeginUser;
  if (faulty->A) PetscCall(MatMult(faulty->A, x, y));
  else PetscCall(VecCopy(x, y));
  if (faulty->fault == FAULT_NONE || faulty->count++ != faulty->when) PetscFunctionReturn(PETSC_SUCCESS);
  faulty->happened = PETSC_TRUE;
  PetscCheck(faulty->fault != FAULT_ERROR, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the operator or preconditioner");
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm((PetscObject)x), &rank));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)x), &size));
  if (rank < size - 1) PetscFunctionReturn(PETSC_SUCCESS);
  if (faulty->fault == FAULT_FAILED) PetscCall(PCSetFailedReason(pc, PC_FACTOR_NUMERIC_ZEROPIVOT));
  PetscCall(VecGetLocalSize(y, &n));
  PetscCall(VecGetArray(y, &array));
  for (PetscInt i = 0; i < n; i++) {
    if (faulty->fault != FAULT_NAN) array[i] = 1.0 / zero;
    else if (i == n / 2) array[i] = zero / zero;
  }
  PetscCall(VecRestoreArray(y, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FaultyMult(Mat A, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(A, &ctx));
  PetscCall(FaultyApply((Faulty *)ctx, NULL, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FaultyPCApply(PC pc, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &ctx));
  PetscCall(FaultyApply((Faulty *)ctx, pc, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The systems: small matrices, each entry by a function of row and column
*/

static PetscScalar Tridiagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 4.0 : (j == i + 1 ? -1.5 : (j == i - 1 ? -0.5 : 0.0));
}

static PetscScalar Rotation(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 0.0 : (i < j ? -1.0 : 1.0);
}

static PetscScalar Skew(PetscInt i, PetscInt j, PetscInt n)
{
  return j == i + 1 ? 1.0 + 0.1 * i : (j == i - 1 ? -1.0 - 0.1 * j : 0.0);
}

static PetscScalar Zero(PetscInt i, PetscInt j, PetscInt n)
{
  return 0.0;
}

static PetscScalar Identity(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 : 0.0;
}

static PetscScalar Diagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 + i : 0.0;
}

/* The Laplacian of a line with free ends: the constants are its null space, and that of its transpose */
static PetscScalar Neumann(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (i == 0 || i == n - 1 ? 1.0 : 2.0) : (PetscAbsInt(i - j) == 1 ? -1.0 : 0.0);
}

/* Convection and diffusion around a circle: singular in the same way, not symmetric */
static PetscScalar Circle(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.0 : (j == (i + 1) % n ? -1.8 : (i == (j + 1) % n ? -0.2 : 0.0));
}

typedef enum {
  RHS_ZERO,
  RHS_UNIT,      /* an eigenvector of a diagonal matrix */
  RHS_GENERAL,   /* nothing special; not orthogonal to the constants */
  RHS_CONSISTENT /* A times something */
} RHS;

typedef enum {
  GUESS_ZERO,
  GUESS_GENERAL,
  GUESS_EXACT /* with RHS_CONSISTENT */
} Guess;

typedef enum {
  SPACE_NONE,
  SPACE_RIGHT, /* the constants attached as null space */
  SPACE_BOTH   /* as that of the transpose, too: KSPSolve() makes the right-hand side consistent */
} Space;

/* What must come of a solve that is not cut short */
typedef enum {
  END_ANY, /* whatever the reason says, if it is true */
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
  {"b = 0",                            Tridiagonal, 12, RHS_ZERO,       GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"b = 0, x0 != 0",                   Tridiagonal, 12, RHS_ZERO,       GUESS_GENERAL, SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"b = 0, x0 != 0, jacobi",           Tridiagonal, 12, RHS_ZERO,       GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"exact x0",                         Tridiagonal, 12, RHS_CONSISTENT, GUESS_EXACT,   SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"exact x0, jacobi",                 Tridiagonal, 12, RHS_CONSISTENT, GUESS_EXACT,   SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"0 by 0",                           Tridiagonal, 0,  RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"0 by 0, jacobi",                   Tridiagonal, 0,  RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"1 by 1",                           Tridiagonal, 1,  RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"1 by 1, jacobi",                   Tridiagonal, 1,  RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"2 by 2",                           Tridiagonal, 2,  RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"3 by 3",                           Tridiagonal, 3,  RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"7 by 7",                           Tridiagonal, 7,  RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"rotation",                         Rotation,    2,  RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"rotation, x0 != 0",                Rotation,    2,  RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"skew-symmetric",                   Skew,        24, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"zero matrix",                      Zero,        12, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_DIVERGED,  END_DIVERGED },
  {"zero matrix, x0 != 0",             Zero,        12, RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCNONE,   END_DIVERGED,  END_DIVERGED },
  {"identity",                         Identity,    12, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"identity, jacobi",                 Identity,    12, RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"exact preconditioner",             Tridiagonal, 12, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCLU,     END_CONVERGED, END_CONVERGED},
  {"b eigenvector",                    Diagonal,    12, RHS_UNIT,       GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"singular LU",                      Neumann,     12, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCLU,     END_DIVERGED,  END_DIVERGED },
  {"singular LU, x0 != 0",             Neumann,     12, RHS_CONSISTENT, GUESS_GENERAL, SPACE_NONE,  PCLU,     END_ANY,       END_ANY      },
  {"consistent",                       Neumann,     12, RHS_CONSISTENT, GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"consistent, null space",           Neumann,     12, RHS_CONSISTENT, GUESS_ZERO,    SPACE_RIGHT, PCNONE,   END_CONVERGED, END_CONVERGED},
  {"consistent, null space, jacobi",   Neumann,     12, RHS_CONSISTENT, GUESS_GENERAL, SPACE_RIGHT, PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"consistent circle",                Circle,      13, RHS_CONSISTENT, GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"consistent circle, null space",    Circle,      13, RHS_CONSISTENT, GUESS_GENERAL, SPACE_RIGHT, PCJACOBI, END_CONVERGED, END_CONVERGED},
  {"inconsistent",                     Neumann,     12, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_DIVERGED,  END_DIVERGED },
  {"inconsistent, x0 != 0, jacobi",    Neumann,     12, RHS_GENERAL,    GUESS_GENERAL, SPACE_NONE,  PCJACOBI, END_DIVERGED,  END_DIVERGED },
  {"inconsistent, null space",         Neumann,     12, RHS_GENERAL,    GUESS_ZERO,    SPACE_RIGHT, PCNONE,   END_DIVERGED,  END_CONVERGED},
  {"inconsistent, both null spaces",   Neumann,     12, RHS_GENERAL,    GUESS_ZERO,    SPACE_BOTH,  PCNONE,   END_CONVERGED, END_CONVERGED},
  {"inconsistent circle",              Circle,      13, RHS_GENERAL,    GUESS_ZERO,    SPACE_NONE,  PCNONE,   END_DIVERGED,  END_DIVERGED },
  {"inconsistent circle, null spaces", Circle,      13, RHS_GENERAL,    GUESS_GENERAL, SPACE_BOTH,  PCNONE,   END_CONVERGED, END_CONVERGED},
};

/* Entries between -1 and 1 that follow no pattern, the same on any number of processes */
static PetscErrorCode VecSetGeneral(Vec x, PetscReal start)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = PetscSinReal(start * (1.0 + 1.7 * i + 0.3 * i * i));
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SystemCreate(const System *system, Mat *A, Vec *b, Vec *x0)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(system->entry, system->n, PETSC_FALSE, A));
  PetscCall(MatCreateVecs(*A, x0, b));
  if (system->space != SPACE_NONE) {
    MatNullSpace constants;

    PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &constants));
    PetscCall(MatSetNullSpace(*A, constants));
    if (system->space == SPACE_BOTH) PetscCall(MatSetTransposeNullSpace(*A, constants));
    PetscCall(MatNullSpaceDestroy(&constants));
  }
  PetscCall(VecSetGeneral(*x0, 0.4));
  switch (system->rhs) {
  case RHS_ZERO:
    PetscCall(VecSet(*b, 0.0));
    break;
  case RHS_UNIT:
    PetscCall(VecSet(*b, 0.0));
    PetscCall(VecSetValue(*b, system->n / 2, 3.0, INSERT_VALUES));
    PetscCall(VecAssemblyBegin(*b));
    PetscCall(VecAssemblyEnd(*b));
    break;
  case RHS_GENERAL:
    PetscCall(VecSetGeneral(*b, 1.0));
    break;
  case RHS_CONSISTENT:
    PetscCall(MatMult(*A, *x0, *b));
    break;
  }
  if (system->guess == GUESS_GENERAL) PetscCall(VecSetGeneral(*x0, 2.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||b - A x|| and the norm that its tolerance is relative to, as the solver with this side of preconditioning measures them */
static PetscErrorCode Measure(KSP ksp, Mat A, Vec b, Vec x, Vec x0, PetscReal *norm, PetscReal *reference)
{
  MatNullSpace space, transposed;
  PCSide       side;
  PC           pc;
  Vec          r[2], w;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(MatGetTransposeNullSpace(A, &transposed));
  PetscCall(VecDuplicate(b, &w));
  for (PetscInt i = 0; i < 2; i++) {
    Vec y = i ? x0 : x;

    PetscCall(VecDuplicate(b, &r[i]));
    PetscCall(VecCopy(b, r[i]));
    if (transposed) PetscCall(MatNullSpaceRemove(transposed, r[i]));
    if (!i || y) {
      PetscCall(MatMult(A, y, w));
      PetscCall(VecAXPY(r[i], -1.0, w));
    }
  }
  if (x0) {
    /* relative to b, unless that is zero */
    PetscCall(VecNorm(b, NORM_2, reference));
    if (*reference > 0.0) {
      PetscCall(VecCopy(b, r[1]));
      if (transposed) PetscCall(MatNullSpaceRemove(transposed, r[1]));
    }
  }
  for (PetscInt i = 0; i < 2; i++) {
    if (side == PC_LEFT) {
      PetscCall(PCApply(pc, r[i], w));
      if (space) PetscCall(MatNullSpaceRemove(space, w));
      PetscCall(VecCopy(w, r[i]));
    }
    PetscCall(VecNorm(r[i], NORM_2, i ? reference : norm));
    PetscCall(VecDestroy(&r[i]));
  }
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SolverCreate(Mat A, PetscInt s, PCSide side, KSPNormType norm, PetscInt max_it, const char *pctype, KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(*ksp, s));
  PetscCall(KSPIDRSSetImplementation(*ksp, implementation));
  PetscCall(KSPSetPCSide(*ksp, side));
  if (norm != KSP_NORM_DEFAULT) PetscCall(KSPSetNormType(*ksp, norm));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, max_it));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One solve, and whether its reason tells the truth */
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

  PetscCall(Listen());
  ierr = KSPSolve(ksp, b, x);
  PetscCall(Heard());
  PetscCall(KSPGetNormType(ksp, &norm));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" PetscInt_FMT ", %s, norm %s, max_it %" PetscInt_FMT ": %s after %" PetscInt_FMT, name, s, PCSides[side], KSPNormTypes[norm], max_it, KSPConvergedReasons[reason], its));
  if (ierr) {
    PetscCall(Complain("%s: error \"%s\"", what, message));
    PetscCall(VecDestroy(&x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (reason == KSP_CONVERGED_ITERATING) PetscCall(Complain("%s: no reason", what));
  if (its < 0 || its > max_it) PetscCall(Complain("%s: too many iterations", what));
  if (reason > 0) {
    PetscCall(Measure(ksp, A, b, x, x0, &true_norm, &reference));
    if (!(true_norm <= 1.01 * rtol * reference)) PetscCall(Complain("%s: converged, but the norm of b - A x is %g of %g", what, (double)true_norm, (double)reference));
  }
  if (end == END_CONVERGED && !(reason > 0)) PetscCall(Complain("%s: should have converged", what));
  if (end == END_DIVERGED && !(reason < 0)) PetscCall(Complain("%s: cannot have converged", what));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every system, with every s, side and norm; a solve that is cut short, or knows no norm, may end as it likes if it tells the truth */
static PetscErrorCode TestSystems(void)
{
  const PetscInt    sizes[] = {1, 2, 4, 8}, limits[] = {0, 1, 2, 3, 6, 400};
  const PCSide      sides[] = {PC_RIGHT, PC_LEFT};
  const KSPNormType norms[] = {KSP_NORM_DEFAULT, KSP_NORM_NONE};
  PetscMPIInt       size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    const System *system = &systems[i];
    PetscBool     lu;
    Mat           A;
    Vec           b, x0;

    PetscCall(PetscStrcmp(system->pc, PCLU, &lu));
    if (lu && size > 1) {
      PetscCall(Verdict(system->name));
      continue; /* PETSc's LU is sequential */
    }
    PetscCall(SystemCreate(system, &A, &b, &x0));
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      for (size_t iside = 0; iside < 2; iside++) {
        for (size_t inorm = 0; inorm < 2; inorm++) {
          for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
            /* with few shadow vectors this system needs more digits than single precision has */
            const PetscBool hard  = (PetscBool)(PetscDefined(USE_REAL_SINGLE) && system->entry == Skew && sizes[is] <= 2);
            const PetscBool whole = (PetscBool)(limits[il] >= 400 && norms[inorm] == KSP_NORM_DEFAULT && !hard);
            const End       end   = sides[iside] == PC_RIGHT ? system->right : system->left;
            KSP             ksp;

            if (norms[inorm] == KSP_NORM_NONE && limits[il] > 50 && sizes[is] > 1) continue; /* enough of this long one */
            PetscCall(SolverCreate(A, sizes[is], sides[iside], norms[inorm], limits[il], system->pc, &ksp));
            PetscCall(SolveAndCheck(ksp, system->name, A, b, system->guess == GUESS_ZERO ? NULL : x0, whole || end == END_DIVERGED ? end : END_ANY));
            PetscCall(KSPDestroy(&ksp));
          }
        }
      }
    }
    PetscCall(MatDestroy(&A));
    PetscCall(VecDestroy(&b));
    PetscCall(VecDestroy(&x0));
    PetscCall(Verdict(system->name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Systems of very large and very small numbers, whose squares are numbers still: as no tolerance is absolute, they are like any other */
static PetscErrorCode TestScales(void)
{
  const PetscReal large = PetscDefined(USE_REAL_SINGLE) ? 1e12 : 1e140, root = PetscSqrtReal(large);
  const PetscReal bscales[] = {1 / large, large, 1 / root, root, 1.0, 1.0}, Ascales[] = {1.0, 1.0, 1 / root, root, 1 / large, large};
  const PetscInt  sizes[] = {1, 4};
  char            name[64];

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(bscales); i++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      Mat A;
      Vec b;
      KSP ksp;

      PetscCall(MatCreateEntries(Tridiagonal, 12, PETSC_FALSE, &A));
      PetscCall(MatCreateVecs(A, NULL, &b));
      PetscCall(VecSetGeneral(b, 1.0));
      PetscCall(VecScale(b, bscales[i]));
      PetscCall(MatScale(A, Ascales[i]));
      PetscCall(PetscSNPrintf(name, sizeof(name), "A of size %g, b of size %g", (double)Ascales[i], (double)bscales[i]));
      PetscCall(SolverCreate(A, sizes[is], PC_RIGHT, KSP_NORM_DEFAULT, 400, PCNONE, &ksp));
      PetscCall(SolveAndCheck(ksp, name, A, b, NULL, END_CONVERGED));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(MatDestroy(&A));
      PetscCall(VecDestroy(&b));
    }
  }
  PetscCall(Verdict("large and small numbers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   NaN, Inf, a failed preconditioner or a PETSc error at one application of the operator or preconditioner. When it has
   happened, the solve ends with the reason that belongs to it; with a PETSc error the solver can be used again, or
   destroyed without a leak.
*/
static PetscErrorCode TestFaults(void)
{
  const PetscInt    sizes[] = {1, 2, 4, 8};
  const PCSide      sides[] = {PC_RIGHT, PC_LEFT};
  const KSPNormType norms[] = {KSP_NORM_DEFAULT, KSP_NORM_NONE};
  const Fault       kinds[] = {FAULT_NAN, FAULT_INF, FAULT_FAILED, FAULT_ERROR};

  PetscFunctionBeginUser;
  for (size_t ik = 0; ik < PETSC_STATIC_ARRAY_LENGTH(kinds); ik++) {
    for (PetscInt where = kinds[ik] == FAULT_FAILED ? 1 : 0; where < 2; where++) {
      char subject[64];

      for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
        for (size_t iside = 0; iside < 2; iside++) {
          for (size_t inorm = 0; inorm < 2; inorm++) {
            for (PetscInt when = 0; when < 14; when++) {
              Faulty             operator, preconditioner, *faulty = where ? &preconditioner : &operator;
              const PetscBool    again = (PetscBool)(when % 2);
              KSPConvergedReason reason;
              PetscErrorCode     ierr;
              PetscInt           n, N;
              char               what[128];
              Mat                A, S;
              Vec                b, x;
              PC                 pc;
              KSP                ksp;

              PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
              PetscCall(MatCreateVecs(A, &x, &b));
              PetscCall(VecSetGeneral(b, 1.0));
              PetscCall(VecSetGeneral(x, 2.0));
              PetscCall(VecGetLocalSize(b, &n));
              PetscCall(VecGetSize(b, &N));
              PetscCall(PetscMemzero(&operator, sizeof(operator)));
              PetscCall(PetscMemzero(&preconditioner, sizeof(preconditioner)));
              operator.A    = A;
              faulty->fault = kinds[ik];
              faulty->when  = when;
              PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &operator, & S));
              PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))FaultyMult));
              PetscCall(SolverCreate(S, sizes[is], sides[iside], norms[inorm], 20, PCSHELL, &ksp));
              /* from the left PETSc's convergence test would precondition b for a nonzero guess, and take the fault */
              PetscCall(KSPSetInitialGuessNonzero(ksp, sides[iside] == PC_RIGHT ? PETSC_TRUE : PETSC_FALSE));
              PetscCall(KSPGetPC(ksp, &pc));
              PetscCall(PCShellSetContext(pc, &preconditioner));
              PetscCall(PCShellSetApply(pc, FaultyPCApply));
              PetscCall(PetscSNPrintf(what, sizeof(what), "%s of the %s at application %" PetscInt_FMT ", s = %" PetscInt_FMT ", %s, norm %s", faults[kinds[ik]], where ? "preconditioner" : "operator", when, sizes[is], PCSides[sides[iside]], KSPNormTypes[norms[inorm]]));

              PetscCall(Listen());
              ierr = KSPSolve(ksp, b, x);
              PetscCall(Heard());
              PetscCall(KSPGetConvergedReason(ksp, &reason));
              if (kinds[ik] == FAULT_ERROR) {
                if ((ierr != PETSC_SUCCESS) != faulty->happened) PetscCall(Complain("%s: error code %d", what, (int)ierr));
              } else if (ierr) {
                PetscCall(Complain("%s: error \"%s\"", what, message));
              } else if (faulty->happened) {
                if (kinds[ik] == FAULT_FAILED && reason != KSP_DIVERGED_PC_FAILED) PetscCall(Complain("%s: %s instead of DIVERGED_PC_FAILED", what, KSPConvergedReasons[reason]));
                if (kinds[ik] != FAULT_FAILED && reason != KSP_DIVERGED_NANORINF) PetscCall(Complain("%s: %s instead of DIVERGED_NANORINF", what, KSPConvergedReasons[reason]));
              } else if (reason == KSP_DIVERGED_NANORINF || reason == KSP_DIVERGED_PC_FAILED || !reason) {
                PetscCall(Complain("%s: did not happen, but %s", what, KSPConvergedReasons[reason]));
              }
              if (again) {
                /* without the fault the same solver works; after an error PETSc leaves the vectors of the failed call locked, until they are replaced */
                faulty->fault = FAULT_NONE;
                if (kinds[ik] == FAULT_ERROR) {
                  PetscCall(KSPReset(ksp));
                  PetscCall(KSPSetOperators(ksp, S, S));
                }
                PetscCall(PCSetFailedReason(pc, PC_NOERROR));
                PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
                PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 400));
                PetscCall(PetscStrlcat(what, ", again", sizeof(what)));
                PetscCall(SolveAndCheck(ksp, what, A, b, NULL, END_CONVERGED));
              }
              PetscCall(KSPDestroy(&ksp));
              PetscCall(MatDestroy(&S));
              PetscCall(MatDestroy(&A));
              PetscCall(VecDestroy(&b));
              PetscCall(VecDestroy(&x));
            }
          }
        }
      }
      PetscCall(PetscSNPrintf(subject, sizeof(subject), "%s of the %s", faults[kinds[ik]], where ? "preconditioner" : "operator"));
      PetscCall(Verdict(subject));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   NaN and Inf in one entry of b and of x0; KSPSetErrorIfNotConverged() makes it an error, after which nothing leaks. PETSc with debugging sees the entry before
   the solver does, and the error is one of that process only, for which the others wait: left out.
*/
static PetscErrorCode TestNotANumber(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscReal      zero    = 0.0;
  PetscMPIInt    size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt where = 0; where < 2; where++) {
    for (PetscInt infinite = 0; infinite < 2; infinite++) {
      for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
        for (size_t iside = 0; iside < 2; iside++) {
          for (PetscInt mode = 0; mode < (PetscDefined(USE_DEBUG) && size > 1 ? 2 : 3); mode++) {
            KSPConvergedReason reason;
            PetscErrorCode     ierr;
            Mat                A;
            Vec                b, x;
            KSP                ksp;

            PetscCall(MatCreateEntries(Tridiagonal, 12, PETSC_FALSE, &A));
            PetscCall(MatCreateVecs(A, &x, &b));
            PetscCall(VecSetGeneral(b, 1.0));
            PetscCall(VecSetGeneral(x, 2.0));
            PetscCall(VecSetValue(where ? x : b, 5, infinite ? 1.0 / zero : zero / zero, INSERT_VALUES));
            PetscCall(VecAssemblyBegin(where ? x : b));
            PetscCall(VecAssemblyEnd(where ? x : b));
            PetscCall(SolverCreate(A, sizes[is], sides[iside], mode == 1 ? KSP_NORM_NONE : KSP_NORM_DEFAULT, 20, PCJACOBI, &ksp));
            PetscCall(KSPSetInitialGuessNonzero(ksp, where ? PETSC_TRUE : PETSC_FALSE));
            if (mode == 2) PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
            PetscCall(Listen());
            ierr = KSPSolve(ksp, b, x);
            PetscCall(Heard());
            PetscCall(KSPGetConvergedReason(ksp, &reason));
            if (mode == 2 && !ierr) PetscCall(Complain("%s in %s, s = %" PetscInt_FMT ", %s: no error", infinite ? "Inf" : "NaN", where ? "x0" : "b", sizes[is], PCSides[sides[iside]]));
            if (mode < 2 && (ierr || reason != KSP_DIVERGED_NANORINF))
              PetscCall(Complain("%s in %s, s = %" PetscInt_FMT ", %s: %s, error code %d", infinite ? "Inf" : "NaN", where ? "x0" : "b", sizes[is], PCSides[sides[iside]], KSPConvergedReasons[reason], (int)ierr));
            PetscCall(KSPDestroy(&ksp));
            PetscCall(MatDestroy(&A));
            PetscCall(VecDestroy(&b));
            PetscCall(VecDestroy(&x));
          }
        }
      }
    }
    PetscCall(Verdict(where ? "NaN and Inf in x0" : "NaN and Inf in b"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Errors of monitors and convergence tests, at any iteration */
static PetscErrorCode FailingMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCheck(its != *(PetscInt *)ctx, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the monitor");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FailingTest(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  PetscCheck(its != *(PetscInt *)ctx, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the convergence test");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCallbacks(void)
{
  PetscFunctionBeginUser;
  for (PetscInt test = 0; test < 2; test++) {
    for (PetscInt when = 0; when < 9; when++) {
      PetscErrorCode ierr;
      PetscInt       its;
      Mat            A;
      Vec            b, x;
      KSP            ksp;

      PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(VecSetGeneral(b, 1.0));
      PetscCall(SolverCreate(A, 3, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));
      if (test) PetscCall(KSPSetConvergenceTest(ksp, FailingTest, &when, NULL));
      else PetscCall(KSPMonitorSet(ksp, FailingMonitor, &when, NULL));
      PetscCall(Listen());
      ierr = KSPSolve(ksp, b, x);
      PetscCall(Heard());
      PetscCall(KSPGetIterationNumber(ksp, &its));
      if (!ierr || its != when) PetscCall(Complain("error of a %s at iteration %" PetscInt_FMT ": error code %d at %" PetscInt_FMT, test ? "convergence test" : "monitor", when, (int)ierr, its));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(MatDestroy(&A));
      PetscCall(VecDestroy(&b));
      PetscCall(VecDestroy(&x));
    }
  }
  PetscCall(Verdict("errors of monitors and convergence tests"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A preconditioner that fails on one process only, in its set-up or in an application: all must agree on the reason.
   Blocks of this matrix are regular but for the last, which has a zero row inside the block.
*/
static PetscScalar BlockSingular(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == n - 2) return j == 0 ? 1.0 : 0.0;
  return Tridiagonal(i, j, n);
}

static PetscErrorCode FailingSetUp(PC pc)
{
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm((PetscObject)pc), &rank));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  if (rank == size - 1) PetscCall(PCSetFailedReason(pc, PC_FACTOR_OTHER));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestBlocks(void)
{
  const PCSide      sides[] = {PC_RIGHT, PC_LEFT};
  const PetscInt    sizes[] = {1, 4};
  const KSPNormType norms[] = {KSP_NORM_DEFAULT, KSP_NORM_NONE};

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsSetValue(NULL, "-sub_pc_type", "lu"));
  for (size_t is = 0; is < 2; is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (size_t inorm = 0; inorm < 2; inorm++) {
        for (PetscInt shell = 0; shell < 2; shell++) {
          KSPConvergedReason reason;
          PetscMPIInt        worst, best, mine;
          Faulty             preconditioner = {NULL, FAULT_INF, 0, 0, PETSC_FALSE};
          Mat                A;
          Vec                b, x;
          PC                 pc;
          KSP                ksp;

          PetscCall(MatCreateEntries(BlockSingular, 12, PETSC_FALSE, &A));
          PetscCall(MatCreateVecs(A, &x, &b));
          PetscCall(VecSetGeneral(b, 1.0));
          PetscCall(SolverCreate(A, sizes[is], sides[iside], norms[inorm], 50, shell ? PCSHELL : PCBJACOBI, &ksp));
          PetscCall(KSPGetPC(ksp, &pc));
          PetscCall(PCSetFromOptions(pc));
          if (shell) {
            PetscCall(PCShellSetContext(pc, &preconditioner));
            PetscCall(PCShellSetSetUp(pc, FailingSetUp));
            PetscCall(PCShellSetApply(pc, FaultyPCApply));
          }
          PetscCall(KSPSolve(ksp, b, x));
          PetscCall(KSPGetConvergedReason(ksp, &reason));
          mine = (PetscMPIInt)reason;
          IDRSCallAllreduce(&mine, &worst, 1, MPI_INT, MPI_MIN, PETSC_COMM_WORLD);
          IDRSCallAllreduce(&mine, &best, 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
          if (worst != best || reason != KSP_DIVERGED_PC_FAILED) PetscCall(Complain("%s, s = %" PetscInt_FMT ", %s, norm %s: reasons %d to %d", shell ? "shell" : "blocks", sizes[is], PCSides[sides[iside]], KSPNormTypes[norms[inorm]], worst, best));
          PetscCall(KSPDestroy(&ksp));
          PetscCall(MatDestroy(&A));
          PetscCall(VecDestroy(&b));
          PetscCall(VecDestroy(&x));
        }
      }
    }
  }
  PetscCall(Verdict("a preconditioner that fails on one process"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A wrong value must have raised an error that names the setting and the value */
static PetscErrorCode CheckError(PetscErrorCode ierr, const char what[], const char setting[], const char value[])
{
  PetscBool named, valued;

  PetscFunctionBeginUser;
  if (!ierr) {
    PetscCall(Complain("%s: no error", what));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  {
    char *found;

    PetscCall(PetscStrstr(message, setting, &found));
    named = found ? PETSC_TRUE : PETSC_FALSE;
    PetscCall(PetscStrstr(message, value, &found));
    valued = found ? PETSC_TRUE : PETSC_FALSE;
  }
  if (!named || !valued) PetscCall(Complain("%s: the message names not %s and %s: \"%s\"", what, setting, value, message));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every setter with wrong values, before and after a solve; then the values are the old ones, and the solver works */
static PetscErrorCode TestSetters(void)
{
  const PetscReal zero = 0.0;
  PetscInt        s, seed, restarts;
  PetscReal       cosine, tolerance;
  Mat             A;
  Vec             b;
  KSP             ksp;
  PetscErrorCode  ierr;
  PetscBool       device;
  PetscMPIInt     size;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(SolverCreate(A, 3, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));

  for (PetscInt round = 0; round < 2; round++) {
    const struct {
      PetscErrorCode (*set)(KSP, PetscInt);
      PetscInt    value;
      const char *name, *text;
    } integers[] = {
      {KSPIDRSSetShadowSize,  0,   "-ksp_idrs_s",            "0"  },
      {KSPIDRSSetShadowSize,  -3,  "-ksp_idrs_s",            "-3" },
      {KSPIDRSSetShadowSeed,  -1,  "-ksp_idrs_seed",         "-1" },
      {KSPIDRSSetMaxRestarts, -1,  "-ksp_idrs_max_restarts", "-1" },
      {KSPIDRSSetMaxRestarts, -17, "-ksp_idrs_max_restarts", "-17"},
    };
    const struct {
      PetscErrorCode (*set)(KSP, PetscReal);
      PetscReal   value;
      const char *name, *text;
    } reals[] = {
      {KSPIDRSSetMinimumCosine,   -0.1,        "-ksp_idrs_cosine",     "-0.1"},
      {KSPIDRSSetMinimumCosine,   1.0,         "-ksp_idrs_cosine",     "1"   },
      {KSPIDRSSetMinimumCosine,   zero / zero, "-ksp_idrs_cosine",     "nan" },
      {KSPIDRSSetUpdateTolerance, -1.0,        "-ksp_idrs_update_tol", "-1"  },
      {KSPIDRSSetUpdateTolerance, 1.0,         "-ksp_idrs_update_tol", "1"   },
      {KSPIDRSSetUpdateTolerance, zero / zero, "-ksp_idrs_update_tol", "nan" },
    };
    const struct {
      int         value;
      const char *text;
    } implementations[] = {
      {-1, "-1"},
      {99, "99"}
    };

    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(integers); i++) {
      PetscCall(Listen());
      ierr = (*integers[i].set)(ksp, integers[i].value);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, integers[i].name, integers[i].name, integers[i].text));
    }
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(reals); i++) {
      PetscCall(Listen());
      ierr = (*reals[i].set)(ksp, reals[i].value);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, reals[i].name, reals[i].name, reals[i].text));
    }
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(implementations); i++) {
      PetscCall(Listen());
      ierr = KSPIDRSSetImplementation(ksp, (KSPIDRSImplementation)implementations[i].value);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, "implementation", "KSPIDRSSetImplementation", implementations[i].text));
      PetscCall(Listen());
      ierr = KSPIDRSSetCommunication(ksp, (KSPIDRSCommunication)implementations[i].value);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, "communication", "KSPIDRSSetCommunication", implementations[i].text));
    }
    PetscCall(Listen());
    ierr = KSPIDRSSetShadowVecs(ksp, -2, NULL);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, "number of shadow vectors", "KSPIDRSSetShadowVecs", "-2"));

    PetscCall(KSPIDRSGetShadowSize(ksp, &s));
    PetscCall(KSPIDRSGetShadowSeed(ksp, &seed));
    PetscCall(KSPIDRSGetMinimumCosine(ksp, &cosine));
    PetscCall(KSPIDRSGetUpdateTolerance(ksp, &tolerance));
    PetscCall(KSPIDRSGetMaxRestarts(ksp, &restarts));
    if (s != 3 || seed != 0 || !(cosine == 0.5) || !(tolerance == (PetscReal)1e-3) || restarts != 10)
      PetscCall(Complain("after errors: s %" PetscInt_FMT ", seed %" PetscInt_FMT ", cosine %g, tolerance %g, restarts %" PetscInt_FMT, s, seed, (double)cosine, (double)tolerance, restarts));
    PetscCall(SolveAndCheck(ksp, "after errors", A, b, NULL, END_CONVERGED));
  }
  PetscCall(Verdict("wrong values"));

  /* The back end for vectors in the other memory, or one that the library was built without, is refused when the solver is set up */
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(KSPIDRSSetImplementation(ksp, device ? KSP_IDRS_HOST : KSP_IDRS_CUDA));
  PetscCall(Listen());
  ierr = KSPSetUp(ksp);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "a back end that cannot run", "-ksp_idrs_implementation", device ? "host" : "cuda"));
  PetscCall(KSPIDRSSetImplementation(ksp, implementation));
  PetscCall(SolveAndCheck(ksp, "after a back end that cannot run", A, b, NULL, END_CONVERGED));
  PetscCall(Verdict("a back end that cannot run"));

  /* NCCL asked for: nothing to communicate on one process, and an error where the processes have no GPU each */
  {
    KSPIDRSCommunication communication;

    PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_NCCL));
    PetscCall(KSPIDRSGetCommunication(ksp, &communication));
    if (communication != KSP_IDRS_COMMUNICATION_NCCL) PetscCall(Complain("communication: %d", (int)communication));
    PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
    if (size > 1) {
      PetscCall(Listen());
      ierr = KSPSetUp(ksp);
      PetscCall(Heard());
      /* processes on devices may have one each, or share it */
      if (!device || ierr) {
        PetscCall(CheckError(ierr, "communication that cannot be", "-ksp_idrs_communication", "nccl"));
        PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_AUTO));
      }
    }
    PetscCall(SolveAndCheck(ksp, "after NCCL was asked for", A, b, NULL, END_CONVERGED));
    PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_MPI));
    PetscCall(SolveAndCheck(ksp, "MPI asked for", A, b, NULL, END_CONVERGED));
  }
  PetscCall(Verdict("communication"));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors of this local size, as shadow vectors */
static PetscErrorCode ShadowCreate(PetscInt s, PetscInt n, Vec *P[])
{
  Vec like;

  PetscFunctionBeginUser;
  PetscCall(VecCreate(PETSC_COMM_WORLD, &like));
  PetscCall(VecSetSizes(like, n, PETSC_DETERMINE));
  PetscCall(VecSetFromOptions(like));
  PetscCall(VecDuplicateVecs(like, s, P));
  for (PetscInt i = 0; i < s; i++) PetscCall(VecSetGeneral((*P)[i], 3.0 + i));
  PetscCall(VecDestroy(&like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Explicit shadow vectors of the wrong size, and a shadow size that contradicts their number */
static PetscErrorCode TestShadowVecs(void)
{
  PetscMPIInt    rank, size;
  PetscInt       n, s;
  PetscErrorCode ierr;
  char           text[32];
  Mat            A;
  Vec            b, *P;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(SolverCreate(A, 2, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));
  PetscCall(SolveAndCheck(ksp, "before shadow vectors", A, b, NULL, END_CONVERGED));

  /* too short everywhere; then, with two processes, of the right length in other parts */
  for (PetscInt moved = 0; moved < (size == 2 ? 2 : 1); moved++) {
    const PetscInt m = moved ? n + (rank ? 1 : -1) : n - 1;

    PetscCall(ShadowCreate(3, m, &P));
    PetscCall(KSPIDRSSetShadowVecs(ksp, 3, P));
    PetscCall(VecDestroyVecs(3, &P));
    PetscCall(PetscSNPrintf(text, sizeof(text), "%" PetscInt_FMT, m));
    PetscCall(Listen());
    ierr = KSPSetUp(ksp);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, "size of shadow vectors", "KSPIDRSSetShadowVecs", text));
  }

  PetscCall(ShadowCreate(5, n, &P));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 5, P));
  PetscCall(VecDestroyVecs(5, &P));
  PetscCall(SolveAndCheck(ksp, "with shadow vectors of the right size", A, b, NULL, END_CONVERGED));
  PetscCall(Listen());
  ierr = KSPIDRSSetShadowSize(ksp, 7);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "number of shadow vectors", "-ksp_idrs_s", "7"));
  PetscCall(CheckError(ierr, "number of shadow vectors", "KSPIDRSSetShadowVecs", "5"));
  PetscCall(Listen());
  ierr = KSPIDRSSetShadowVecs(ksp, -1, NULL);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "number of shadow vectors", "KSPIDRSSetShadowVecs", "-1"));
  PetscCall(KSPIDRSSetShadowSize(ksp, 5));
  PetscCall(SolveAndCheck(ksp, "still with shadow vectors", A, b, NULL, END_CONVERGED));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
  PetscCall(KSPIDRSSetShadowSize(ksp, 7));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  if (s != 7) PetscCall(Complain("s is %" PetscInt_FMT " after shadow vectors", s));
  PetscCall(SolveAndCheck(ksp, "without shadow vectors", A, b, NULL, END_CONVERGED));

  /* none of these may leak when the solver goes away with them */
  PetscCall(ShadowCreate(2, n - 1, &P));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
  PetscCall(VecDestroyVecs(2, &P));
  PetscCall(Listen());
  ierr = KSPSetUp(ksp);
  PetscCall(Heard());
  if (!ierr) PetscCall(Complain("size of shadow vectors: no error"));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("wrong shadow vectors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What PETSc lets be asked for and this type has not */
static PetscErrorCode TestUnsupported(void)
{
  PetscErrorCode ierr;
  Mat            A;
  Vec            b;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(SolverCreate(A, 2, PC_SYMMETRIC, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));
  for (PetscInt i = 0; i < 2; i++) {
    if (i) PetscCall(KSPSetNormType(ksp, KSP_NORM_NATURAL));
    PetscCall(Listen());
    ierr = KSPSetUp(ksp);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, i ? "natural norm" : "symmetric preconditioning", KSPIDRS, i ? "NATURAL" : "SYMMETRIC"));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
    PetscCall(KSPSetPCSide(ksp, i ? PC_RIGHT : PC_LEFT));
    PetscCall(SolveAndCheck(ksp, "after a side or norm that is not supported", A, b, NULL, END_CONVERGED));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("sides and norms that are not supported"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Options with wrong values. PETSc leaks the texts of its option set when any option of any type is refused (try
   -ksp_gmres_restart abc), so there is no report of leaks after this test.
*/
static PetscErrorCode TestOptions(void)
{
  const struct {
    const char *name, *value, *right;
    PetscBool   ours; /* or refused by PETSc already, in its words */
  } options[] = {
    {"-ksp_idrs_s",              "0",      "5",    PETSC_TRUE },
    {"-ksp_idrs_s",              "-2",     "4",    PETSC_TRUE },
    {"-ksp_idrs_s",              "many",   "3",    PETSC_FALSE},
    {"-ksp_idrs_seed",           "-1",     "7",    PETSC_TRUE },
    {"-ksp_idrs_cosine",         "-0.1",   "0",    PETSC_TRUE },
    {"-ksp_idrs_cosine",         "1",      "0.7",  PETSC_TRUE },
    {"-ksp_idrs_cosine",         "nan",    "0.5",  PETSC_FALSE},
    {"-ksp_idrs_update_tol",     "-1",     "0",    PETSC_TRUE },
    {"-ksp_idrs_update_tol",     "1",      "0.01", PETSC_TRUE },
    {"-ksp_idrs_max_restarts",   "-1",     "0",    PETSC_TRUE },
    {"-ksp_idrs_implementation", NULL,     "vec",  PETSC_TRUE }, /* for vectors in the other memory */
    {"-ksp_idrs_implementation", "abacus", "auto", PETSC_TRUE },
    {"-ksp_idrs_implementation", "2.5",    "vec",  PETSC_TRUE },
    {"-ksp_idrs_communication",  "pigeon", "auto", PETSC_TRUE },
  };
  PetscErrorCode ierr;
  Mat            A;
  Vec            b;
  KSP            ksp;
  PetscBool      device;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump"));
  PetscCall(MatCreateEntries(Tridiagonal, 30, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(SolverCreate(A, 3, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  /* an option with the prefix of the solver is named with it */
  PetscCall(KSPSetOptionsPrefix(ksp, "inner_"));
  PetscCall(PetscOptionsSetValue(NULL, "-inner_ksp_idrs_s", "-2"));
  PetscCall(Listen());
  ierr = KSPSetFromOptions(ksp);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "with a prefix", "-inner_ksp_idrs_s", "-2"));
  PetscCall(PetscOptionsClearValue(NULL, "-inner_ksp_idrs_s"));
  PetscCall(KSPSetOptionsPrefix(ksp, NULL));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(options); i++) {
    const char *value = options[i].value ? options[i].value : (device ? "host" : "cuda");

    PetscCall(PetscOptionsSetValue(NULL, options[i].name, value));
    PetscCall(Listen());
    ierr = KSPSetFromOptions(ksp);
    if (!ierr) ierr = KSPSetUp(ksp);
    PetscCall(Heard());
    if (options[i].ours) PetscCall(CheckError(ierr, options[i].name, options[i].name, value));
    else if (!ierr) PetscCall(Complain("%s %s: no error", options[i].name, value));
    PetscCall(PetscOptionsSetValue(NULL, options[i].name, options[i].right));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(SolveAndCheck(ksp, options[i].name, A, b, NULL, END_CONVERGED));
    PetscCall(PetscOptionsClearValue(NULL, options[i].name));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("wrong options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscEnum value = (PetscEnum)KSP_IDRS_AUTO;
  char      test[32];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  Deadline(250);
  PetscCall(PetscStrncpy(test, "systems", sizeof(test)));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-test", test, sizeof(test), NULL));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-ksp_idrs_implementation", KSPIDRSImplementations, &value, NULL));
  implementation = (KSPIDRSImplementation)value;
  switch (test[0]) {
  case 's':
    PetscCall(TestSystems());
    PetscCall(TestScales());
    break;
  case 'f':
    PetscCall(TestNotANumber());
    PetscCall(TestFaults());
    PetscCall(TestCallbacks());
    break;
  case 'b':
    PetscCall(TestBlocks());
    break;
  case 'v':
    PetscCall(TestSetters());
    PetscCall(TestShadowVecs());
    PetscCall(TestUnsupported());
    break;
  case 'o':
    PetscCall(TestOptions());
    break;
  default:
    SETERRQ(PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE, "-test %s: there are systems, faults, blocks, values and options", test);
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    args: -ksp_idrs_implementation {{vec host}}
    test:
      suffix: systems
      nsize: {{1 2 3 4}}
      args: -test systems
      output_file: output/fault_input_systems.out
    test:
      suffix: faults
      nsize: {{1 2 3 4}}
      args: -test faults
      output_file: output/fault_input_faults.out
    test:
      suffix: values
      nsize: {{1 2}}
      args: -test values
      output_file: output/fault_input_values.out

  test:
    suffix: blocks
    nsize: 2
    args: -test blocks -ksp_idrs_implementation {{vec host}}
    output_file: output/fault_input_blocks.out

  test:
    suffix: options
    nsize: {{1 2}}
    args: -test options
    output_file: output/fault_input_options.out

TEST*/
