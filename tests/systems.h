/* Systems of the test programs: matrices, right-hand sides, operators, solvers, and checks of solutions */
#pragma once

#include <petscdmda.h>
#include "harness.h"
#include <petscidrs/private/idrspowers.h>

/* Numbers of shadow vectors in the tests */
static const PetscInt sizes[] = {1, 4, 8};
#define SIZES PETSC_STATIC_ARRAY_LENGTH(sizes)

/* Sets entries without a pattern, the same on any number of processes; complex if scalars are complex */
static inline PetscErrorCode VecSetGeneral(Vec x, PetscReal start)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) {
    array[i - begin] = PetscSinReal(start * (1.0 + 1.7 * i + 0.3 * i * i));
#if PetscDefined(USE_COMPLEX)
    array[i - begin] += PETSC_i * PetscCosReal(start * (2.0 + 0.9 * i + 0.2 * i * i));
#endif
  }
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets whether one kernel may make all steps of matrix powers, if there is a GPU for that */
static inline PetscErrorCode PowersMayBePersistent(PetscBool may)
{
  PetscFunctionBeginUser;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(IDRSPowersSetMostRows(may ? PETSC_MAX_INT : 0));
#else
  (void)may;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies columns of a dense matrix to and from vectors */
static inline PetscErrorCode ColumnGet(Mat B, PetscInt j, Vec b)
{
  Vec column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVecRead(B, j, &column));
  PetscCall(VecCopy(column, b));
  PetscCall(MatDenseRestoreColumnVecRead(B, j, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode ColumnSet(Mat B, PetscInt j, Vec b)
{
  PetscReal norm;
  Vec       column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVecWrite(B, j, &column));
  PetscCall(VecCopy(b, column));
  /* waits: VecCopy() of PETSc 3.26 returns while a GPU still reads the array of b on the host, which callers write to again */
  PetscCall(VecNorm(column, NORM_2, &norm));
  PetscCall(MatDenseRestoreColumnVecWrite(B, j, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A matrix given entry by entry, without the zeros off the diagonal; or its transpose, from the same entries */
typedef PetscScalar Entry(PetscInt i, PetscInt j, PetscInt n);

static inline PetscErrorCode MatCreateEntries(Entry *entry, PetscInt n, PetscBool transposed, Mat *A)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  /*
     without it, MatSetValues() of PETSc 3.26 for complex MATMPIAIJCUSPARSE assumes that the value is aligned to 16 bytes, and may
     crash
  */
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, PETSC_DECIDE, n, n, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    for (PetscInt j = 0; j < n; j++) {
      const PetscScalar value = transposed ? (*entry)(j, i, n) : (*entry)(i, j, n);

      if (value != 0.0 || i == j) PetscCall(MatSetValue(*A, i, j, value, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscScalar Identity(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 : 0.0;
}

static inline PetscScalar Tridiagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 4.0 : (j == i + 1 ? -1.5 : (j == i - 1 ? -0.5 : 0.0));
}

/* A r is orthogonal to any real r */
static inline PetscScalar Skew(PetscInt i, PetscInt j, PetscInt n)
{
  return j == i + 1 ? 1.0 + 0.1 * i : (j == i - 1 ? -1.0 - 0.1 * j : 0.0);
}

/*
   Convection and diffusion on a grid whose lines have LINE points, row after row; the transpose and the Hermitian transpose are
   different matrices
*/
#define LINE 12

static inline PetscScalar Convection(PetscInt i, PetscInt j, PetscInt n)
{
  PetscScalar value = 0.0;

  if (i == j) value = 4.0 + 0.02 * (i % 7);
  else if (j == i - LINE) value = -1.2;
  else if (j == i + LINE) value = -0.8;
  else if (j == i - 1 && i % LINE) value = -1.4;
  else if (j == i + 1 && j % LINE) value = -0.6;
#if PetscDefined(USE_COMPLEX)
  if (i == j) value += 0.3 * PETSC_i;
  else value *= 1.0 + 0.1 * PETSC_i;
#endif
  return value;
}

/* Right-hand sides of a matrix given by entries */
typedef enum {
  RHS_ZERO,
  RHS_FIRST, /* multiples of unit vectors */
  RHS_MIDDLE,
  RHS_LAST,
  RHS_ONES,
  RHS_GENERAL,   /* without a structure */
  RHS_CONSISTENT /* A times the x that is returned */
} RHS;

static inline PetscErrorCode SystemCreateEntries(Entry *entry, PetscInt n, RHS rhs, Mat *A, Vec *b, Vec *x)
{
  const PetscInt row = rhs == RHS_FIRST ? 0 : rhs == RHS_MIDDLE ? n / 2 : rhs == RHS_LAST ? n - 1 : -1;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(entry, n, PETSC_FALSE, A));
  PetscCall(MatCreateVecs(*A, x, b));
  if (x) PetscCall(VecSetGeneral(*x, 0.4));
  PetscCall(VecSet(*b, rhs == RHS_ONES ? 1.0 : 0.0));
  if (row >= 0) PetscCall(VecSetValue(*b, row, 3.0, INSERT_VALUES));
  PetscCall(VecAssemble(*b));
  if (rhs == RHS_GENERAL) PetscCall(VecSetGeneral(*b, 1.0));
  if (rhs == RHS_CONSISTENT) PetscCall(MatMult(*A, *x, *b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Layouts of the rows of a grid on the processes */
typedef enum {
  LAYOUT_EVEN,
  LAYOUT_UNEVEN, /* more on higher ranks */
  LAYOUT_EMPTY,  /* nothing on the first process */
  LAYOUT_ONE,    /* everything on the last */
  LAYOUTS
} Layout;

static inline PetscErrorCode LayoutSize(MPI_Comm comm, Layout layout, PetscInt N, PetscInt *n)
{
  PetscMPIInt rank, size;
  PetscInt    before, after;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  *n = PETSC_DECIDE;
  if (size > 1) {
    if (layout == LAYOUT_ONE) *n = rank == size - 1 ? N : 0;
    if (layout == LAYOUT_EMPTY) *n = rank ? N / (size - 1) + (rank - 1 < N % (size - 1) ? 1 : 0) : 0;
    if (layout == LAYOUT_UNEVEN) {
      before = N * (rank * (rank + 1)) / (size * (size + 1));
      after  = N * ((rank + 1) * (rank + 2)) / (size * (size + 1));
      *n     = after - before;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates convection and diffusion on m x m points by central differences, with these mesh Peclet numbers |w| h / epsilon in the
   two directions; with an imaginary shift if scalars are complex
*/
static inline PetscErrorCode GridCreate(MPI_Comm comm, Layout layout, PetscInt m, PetscReal peclet0, PetscReal peclet1, Mat *A)
{
  PetscScalar diagonal = 4.0;
  PetscInt    n, begin, end;

  PetscFunctionBeginUser;
#if PetscDefined(USE_COMPLEX)
  diagonal += 0.3 * PETSC_i;
#endif
  PetscCall(LayoutSize(comm, layout, m * m, &n));
  PetscCall(MatCreateRows(comm, n, m * m, 5, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt i = row % m, j = row / m;

    PetscCall(MatSetValue(*A, row, row, diagonal + 0.02 * (row % 7), INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(*A, row, row - 1, -1.0 - 0.5 * peclet0, INSERT_VALUES));
    if (i < m - 1) PetscCall(MatSetValue(*A, row, row + 1, -1.0 + 0.5 * peclet0, INSERT_VALUES));
    if (j > 0) PetscCall(MatSetValue(*A, row, row - m, -1.0 - 0.5 * peclet1, INSERT_VALUES));
    if (j < m - 1) PetscCall(MatSetValue(*A, row, row + m, -1.0 + 0.5 * peclet1, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the same with half the convection in the second direction, and a right-hand side */
static inline PetscErrorCode SystemCreateGrid(MPI_Comm comm, PetscInt m, PetscReal peclet, Layout layout, Mat *A, Vec *b)
{
  PetscFunctionBeginUser;
  PetscCall(GridCreate(comm, layout, m, peclet, 0.5 * peclet, A));
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(VecSetGeneral(*b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the same on all processes, with room for a solution */
static inline PetscErrorCode GridSystemCreate(PetscInt m, PetscReal peclet, Mat *A, Vec *b, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, m, peclet, LAYOUT_EVEN, A, b));
  PetscCall(VecDuplicate(*b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the same operator on any grid of a two-dimensional DMDA, with the convection *(PetscReal *)ctx of the unit square in
   both directions; and a right-hand side
*/
static inline PetscErrorCode GridOperators(KSP ksp, Mat A, Mat P, void *ctx)
{
  DM            da;
  DMDALocalInfo info;

  PetscFunctionBeginUser;
  PetscCall(KSPGetDM(ksp, &da));
  PetscCall(DMDAGetLocalInfo(da, &info));
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const PetscReal   wind     = *(const PetscReal *)ctx / (info.mx + 1);
      const PetscScalar values[] = {4.0, -1.0 - wind, -1.0 + wind, -1.0 - wind, -1.0 + wind};
      const PetscInt    di[] = {0, -1, 1, 0, 0}, dj[] = {0, 0, 0, -1, 1};

      for (PetscInt k = 0; k < 5; k++) {
        MatStencil row = {0}, column = {0};

        row.i    = i;
        row.j    = j;
        column.i = i + di[k];
        column.j = j + dj[k];
        if (column.i < 0 || column.j < 0 || column.i >= info.mx || column.j >= info.my) continue;
        PetscCall(MatSetValuesStencil(P, 1, &row, 1, &column, &values[k], INSERT_VALUES));
      }
    }
  }
  PetscCall(MatAssemble(P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode GridRHS(KSP ksp, Vec b, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCall(VecSetGeneral(b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a solver on such a grid of m x m points */
static inline PetscErrorCode GridSolverCreate(PetscInt m, PetscReal *convection, KSP *ksp)
{
  DM da;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, m, m, PETSC_DECIDE, PETSC_DECIDE,
                         1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetDM(*ksp, da));
  PetscCall(KSPSetComputeOperators(*ksp, GridOperators, convection));
  PetscCall(KSPSetComputeRHS(*ksp, GridRHS, NULL));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 300));
  PetscCall(DMDestroy(&da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a shell with the rows and vectors of A */
static inline PetscErrorCode ShellCreate(Mat A, PetscErrorCode (*mult)(Mat, Vec, Vec), void *ctx, Mat *S)
{
  PetscInt n, N;
  VecType  type;

  PetscFunctionBeginUser;
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetSize(A, &N, NULL));
  PetscCall(MatGetVecType(A, &type));
  PetscCall(MatCreateShell(PetscObjectComm((PetscObject)A), n, n, N, N, ctx, S));
  PetscCall(MatShellSetVecType(*S, type));
  PetscCall(MatShellSetOperation(*S, MATOP_MULT, (void (*)(void))mult));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matvec of a shell whose context is A */
static inline PetscErrorCode PassMult(Mat S, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatMult((Mat)ctx, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the option -pc_poly_NAME of a preconditioner */
static inline PetscErrorCode PolyOption(PC pc, const char name[], const char value[])
{
  const char    *prefix;
  char           text[128];
  PetscOptions   options;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  PetscCall(PCGetOptionsPrefix(pc, &prefix));
  PetscCall(PetscSNPrintf(text, sizeof(text), "-%spc_poly_%s %s", prefix ? prefix : "", name, value));
  PetscCall(OptionsPush(text, &options));
  ierr = PCSetFromOptions(pc);
  PetscCall(OptionsPop(&options));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets PCPOLY without rounded values, since references do not round the matrix */
static inline PetscErrorCode PolySet(PC pc, PetscInt degree, PetscInt seed, const char scaling[])
{
  char number[16];

  PetscFunctionBeginUser;
  PetscCall(PCSetType(pc, PCPOLY));
  PetscCall(PCPolySetDegree(pc, degree));
  PetscCall(PetscSNPrintf(number, sizeof(number), "%" INT, seed));
  PetscCall(PolyOption(pc, "seed", number));
  PetscCall(PolyOption(pc, "scaling", scaling));
  PetscCall(PolyOption(pc, "precision", "double"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode PolyCreate(Mat A, PetscInt degree, PetscInt seed, const char scaling[], PC *pc)
{
  PetscFunctionBeginUser;
  PetscCall(PCCreate(PetscObjectComm((PetscObject)A), pc));
  PetscCall(PolySet(*pc, degree, seed, scaling));
  PetscCall(PCSetOperators(*pc, A, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matvec of a shell that counts its products, and fails once, after so many of them */
typedef struct {
  Mat      A;
  PetscInt made, failat;
} Failing;

static inline PetscErrorCode FailingMult(Mat S, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCheck(++((Failing *)ctx)->made != ((Failing *)ctx)->failat, PetscObjectComm((PetscObject)S), PETSC_ERR_USER,
             "This product fails");
  PetscCall(MatMult(((Failing *)ctx)->A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a solver with the settings of the tests; only tests of options read options */
static inline PetscErrorCode SolverCreate(Mat A, PetscInt s, const char pctype[], KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(*ksp, s));
  PetscCall(KSPIDRSSetImplementation_Private(*ksp, implementation));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolverCreateSide(Mat A, PetscInt s, PCSide side, const char pctype[], KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPSetPCSide(*ksp, side));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolverCreateLimited(Mat A, PetscInt s, PCSide side, KSPNormType norm, PetscInt max_it,
                                                 const char pctype[], KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreateSide(A, s, side, pctype, ksp));
  if (norm != KSP_NORM_DEFAULT) PetscCall(KSPSetNormType(*ksp, norm));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, max_it));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* With a monitor the host of a GPU works in lockstep */
static inline PetscErrorCode QuietMonitor(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  return PETSC_SUCCESS;
}

/* A case of a test that varies the shadow size, the side and the preconditioner */
typedef struct {
  PetscInt    s;
  PCSide      side;
  const char *pctype;
  char        what[64];
} Variant;
#define VARIANTS (4 * 2 * 2)

static inline PetscErrorCode VariantCreate(Mat A, PetscInt i, Variant *variant, KSP *ksp)
{
  PetscFunctionBeginUser;
  variant->s      = 1 << i % 4;
  variant->side   = i / 4 % 2 ? PC_LEFT : PC_RIGHT;
  variant->pctype = i / 8 % 2 ? PCJACOBI : PCNONE;
  PetscCall(PetscSNPrintf(variant->what, sizeof(variant->what), "s = %" INT ", %s, %s", variant->s, PCSides[variant->side],
                          variant->pctype));
  PetscCall(SolverCreateSide(A, variant->s, variant->side, variant->pctype, ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||b - A x|| and ||b||, independently of the solver */
static inline PetscErrorCode ResidualNorm(Mat A, Vec b, Vec x, PetscReal *rnorm, PetscReal *bnorm)
{
  Vec r;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, rnorm));
  PetscCall(VecNorm(b, NORM_2, bnorm));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the norm of b - A x, or of b without an x, in which this solver works: preconditioned on the left */
static inline PetscErrorCode OperatorNorm(KSP ksp, Mat A, Vec b, Vec x, PetscReal *norm)
{
  PCSide side;
  Vec    r, w;
  PC     pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(DuplicateAll(b, &r, &w));
  if (x) PetscCall(MatMult(A, x, r));
  else PetscCall(VecSet(r, 0.0));
  PetscCall(VecAYPX(r, -1.0, b));
  if (side == PC_LEFT) PetscCall(PCApply(pc, r, w));
  PetscCall(VecNorm(side == PC_LEFT ? w : r, NORM_2, norm));
  PetscCall(DestroyAll(&r, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolverNorm(KSP ksp, Vec b, Vec x, PetscReal *norm)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(OperatorNorm(ksp, A, b, x, norm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that the solver reports convergence, and that x solves the system with this matrix to the tolerance relative to ||b||. Other
   solvers do not verify: in single precision the norm of their recurrence may be several times too small
*/
static inline PetscErrorCode CheckSolved(const char what[], KSP ksp, Mat A, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscReal          norm, bnorm;
  PetscBool          verifies;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp, &verifies, KSPIDRS, KSPOFFLOAD, ""));
  PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
  PetscCall(ComplainIf(!(reason > 0), "%s: %s", what, KSPConvergedReasons[reason]));
  PetscCall(ComplainIf(!(norm <= (PetscDefined(USE_REAL_SINGLE) && !verifies ? 5.0 : 1.01) * rtol * bnorm),
                       "%s: the norm of b - A x is %g of %g", what, (double)norm, (double)bnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves, and checks the solution */
static inline PetscErrorCode SolveSystem(const char what[], KSP ksp, Mat A, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckSolved(what, ksp, A, b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the same in the norm that the solver reports, for the solved matrix A */
static inline PetscErrorCode CheckConvergedFor(const char what[], KSP ksp, Mat A, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscReal          norm, reported, reference;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetResidualNorm(ksp, &reported));
  PetscCall(OperatorNorm(ksp, A, b, x, &norm));
  PetscCall(OperatorNorm(ksp, A, b, NULL, &reference));
  PetscCall(ComplainIf(!(reason > 0), "%s: %s", what, KSPConvergedReasons[reason]));
  PetscCall(
    ComplainIf(!(norm <= 1.01 * rtol * reference), "%s: the norm of b - A x is %g of %g", what, (double)norm, (double)reference));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - reported) <= PetscMax(1e-12, 10 * PETSC_MACHINE_EPSILON) * reference),
                       "%s: the norm of b - A x is %g, reported %g", what, (double)norm, (double)reported));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode CheckConverged(const char what[], KSP ksp, Vec b, Vec x)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(CheckConvergedFor(what, ksp, A, b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolveToNorm(const char what[], KSP ksp, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckConverged(what, ksp, b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves from zero and checks that the solve converges within the limit of the solver on iterations */
static inline PetscErrorCode SolveConverged(const char what[], KSP ksp, Vec b)
{
  PetscErrorCode ierr;
  Vec            x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_FALSE));
  Try(ierr, KSPSolve(ksp, b, x));
  if (ierr) PetscCall(Complain("%s: error \"%s\"", what, message));
  else PetscCall(CheckConverged(what, ksp, b, x));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Results of a solve except x, and the norms of all its iterations if the solver has a history */
#define MAX_HISTORY 1000
typedef struct {
  KSPConvergedReason reason;
  PetscInt           its, products, reductions, updates, restarts, length;
  PetscReal          rnorm, norms[MAX_HISTORY];
} Outcome;

static inline PetscErrorCode GetOutcome(KSP ksp, Outcome *outcome)
{
  const PetscReal *norms;
  PetscBool        idrs;

  PetscFunctionBeginUser;
  PetscCall(PetscMemzero(outcome, sizeof(*outcome)));
  PetscCall(KSPGetConvergedReason(ksp, &outcome->reason));
  PetscCall(KSPGetIterationNumber(ksp, &outcome->its));
  PetscCall(KSPGetResidualNorm(ksp, &outcome->rnorm));
  PetscCall(KSPGetResidualHistory(ksp, &norms, &outcome->length));
  PetscCall(PetscArraycpy(outcome->norms, norms, outcome->length));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp, KSPIDRS, &idrs));
  if (idrs) PetscCall(KSPIDRSGetCounts(ksp, &outcome->products, &outcome->reductions, &outcome->updates, &outcome->restarts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolveHistory(KSP ksp, Vec b, Vec x, Outcome *outcome)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_HISTORY, PETSC_TRUE));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(GetOutcome(ksp, outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}
