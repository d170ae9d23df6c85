static char help[] = "PCPOLY as its users see it: with every solver and side, operators of several types, matrices that change,\n\
systems for which there is no\n\
polynomial of the degree asked for, or none at all, and bad values.\n\n";

#include "systems.h"

static const PetscInt degrees[] = {1, 2, 5, 8, 16};

static PetscErrorCode SetPoly(KSP ksp, PetscInt degree, PC *pc)
{
  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, pc));
  PetscCall(PCSetType(*pc, PCPOLY));
  PetscCall(PCPolySetDegree(*pc, degree));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRS with both sides, and other solvers */
static PetscErrorCode TestSolvers(void)
{
  const char *const others[]  = {KSPGMRES, KSPFGMRES, KSPBCGS, KSPTFQMR, KSPRICHARDSON};
  const PetscReal   peclets[] = {0.3, 1.5};

  PetscFunctionBeginUser;
  for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(peclets); ip++) {
    Mat A;
    Vec b, x;

    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 30, peclets[ip], LAYOUT_UNEVEN, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
      PC   pc;
      KSP  ksp;
      char what[128];

      for (size_t is = 0; is < SIZES; is++) {
        for (PetscInt left = 0; left < 2; left++) {
          PetscCall(SolverCreateSide(A, sizes[is], left ? PC_LEFT : PC_RIGHT, PCNONE, &ksp));
          PetscCall(SetPoly(ksp, degrees[id], &pc));
          PetscCall(PetscSNPrintf(what, sizeof(what), "Peclet number %g, degree %" PetscInt_FMT ", s = %" PetscInt_FMT "%s",
                                  (double)peclets[ip], degrees[id], sizes[is], left ? ", left" : ""));
          if (left) PetscCall(SolveConverged(what, ksp, b));
          else {
            PetscCall(KSPSolve(ksp, b, x));
            PetscCall(CheckSolved(what, ksp, A, b, x));
          }
          PetscCall(KSPDestroy(&ksp));
        }
      }
      for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(others); i++) {
        PetscReal          rnorm, bnorm;
        KSPConvergedReason reason;

        PetscCall(SolverCreate(A, 1, PCNONE, &ksp));
        PetscCall(KSPSetType(ksp, others[i]));
        PetscCall(SetPoly(ksp, degrees[id], &pc));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 4000));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
        /* without the verification of KSPIDRS, and most of them in the preconditioned norm */
        PetscCall(ComplainIf(reason <= 0 || !(rnorm <= 100 * rtol * bnorm),
                             "%s, degree %" PetscInt_FMT ": %s, the norm of b - A x is %g of %g", others[i], degrees[id],
                             KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(Verdict("solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Central differences at a mesh Peclet number of 10, where IDR(s) alone hardly converges: with every degree from 2 on, in fewer
   matvecs
*/
static PetscErrorCode TestConvection(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 32, 20.0, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (size_t is = 0; is < SIZES; is++) {
    for (PetscInt degree = 2; degree <= 20; degree++) {
      PetscInt  used, its;
      PetscReal residual;
      KSP       ksp;
      PC        pc;
      char      what[64];

      if (PETSC_MACHINE_EPSILON > 1e-10 && degree > 6) continue;
      PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
      PetscCall(SetPoly(ksp, degree, &pc));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" PetscInt_FMT ", degree %" PetscInt_FMT, sizes[is], degree));
      PetscCall(CheckSolved(what, ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(PCPolyGetDegree(pc, NULL, &used));
      PetscCall(PCPolyGetResidual(pc, NULL, &residual));
      PetscCall(ComplainIf(used < 1 || used > degree || !(residual < 1.0), "%s: degree %" PetscInt_FMT " used, residual %g", what,
                           used, (double)residual));
      PetscCall(ComplainIf(its * used > 1500, "%s: %" PetscInt_FMT " iterations", what, its));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("convection"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PassDiagonal(Mat S, Vec d)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatGetDiagonal((Mat)ctx, d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PassTranspose(Mat S, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatMultTranspose((Mat)ctx, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Shells with and without a diagonal, a matrix of blocks, a preconditioner from another matrix, transposed solves */
static PetscErrorCode TestOperators(void)
{
  Mat      A, C, S, T, N, block[4];
  Vec      b, x, nb, nx, part[2];
  KSP      ksp;
  PC       pc;
  PetscInt used[2];

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 24, 0.6, LAYOUT_UNEVEN, &A, &b));
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_UNEVEN, 24, 0.5, 0.3, &C));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  PetscCall(ShellCreate(A, PassMult, A, &T));
  PetscCall(MatShellSetOperation(T, MATOP_GET_DIAGONAL, (void (*)(void))PassDiagonal));
  PetscCall(MatShellSetOperation(T, MATOP_MULT_TRANSPOSE, (void (*)(void))PassTranspose));
  for (PetscInt i = 0; i < 4; i++) {
    const Mat   operators[] = {S, T, A, C}, from[] = {S, T, C, T};
    const char *names[] = {"shell", "shell with a diagonal", "another matrix", "another matrix, a shell"};

    PetscCall(SolverCreate(operators[i], 4, PCNONE, &ksp));
    PetscCall(KSPSetOperators(ksp, operators[i], from[i]));
    PetscCall(SetPoly(ksp, 6, &pc));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckSolved(names[i], ksp, operators[i], b, x));
    if (i < 2) PetscCall(PCPolyGetDegree(pc, NULL, &used[i]));
    if (i == 1) {
      PetscCall(KSPSolveTranspose(ksp, b, x));
      PetscCall(MatCreateTranspose(T, &N));
      PetscCall(CheckSolved("transposed", ksp, N, b, x));
      PetscCall(MatDestroy(&N));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(ComplainIf(used[0] < 1 || used[1] < 1, "shells: degrees %" PetscInt_FMT " and %" PetscInt_FMT, used[0], used[1]));
  block[0] = A;
  block[1] = block[2] = NULL;
  block[3]            = C;
  PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, NULL, 2, NULL, block, &N));
  PetscCall(MatNestSetVecType(N, VECNEST));
  part[0] = b;
  PetscCall(VecDuplicate(b, &part[1]));
  PetscCall(VecSetGeneral(part[1], 0.3));
  PetscCall(VecCreateNest(PETSC_COMM_WORLD, 2, NULL, part, &nb));
  PetscCall(VecDuplicate(nb, &nx));
  PetscCall(SolverCreate(N, 4, PCNONE, &ksp));
  PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_AUTO));
  PetscCall(SetPoly(ksp, 6, &pc));
  PetscCall(KSPSolve(ksp, nb, nx));
  PetscCall(CheckSolved("nest", ksp, N, nb, nx));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&nb));
  PetscCall(VecDestroy(&nx));
  PetscCall(VecDestroy(&part[1]));
  PetscCall(MatDestroy(&N));
  PetscCall(MatDestroy(&S));
  PetscCall(MatDestroy(&T));
  PetscCall(MatDestroy(&C));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(Verdict("operators"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The largest difference of the roots now to those kept; keeps these */
static PetscErrorCode RootsMoved(PC pc, PetscInt *kept, PetscReal keptre[], PetscReal *moved)
{
  const PetscReal *re;
  PetscInt         n;

  PetscFunctionBeginUser;
  PetscCall(PCPolyGetRoots(pc, &n, &re, NULL));
  *moved = n == *kept ? 0.0 : 1.0;
  for (PetscInt i = 0; i < n; i++) {
    if (n == *kept) *moved = PetscMax(*moved, PetscAbsReal(re[i] - keptre[i]));
    keptre[i] = re[i];
  }
  *kept = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matrices and settings that change between solves of one solver */
static PetscErrorCode TestChanges(void)
{
  PetscInt  n = 0;
  PetscReal re[128], moved;
  Mat       A, C;
  Vec       b, x, d;
  KSP       ksp;
  PC        pc;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 24, 0.6, LAYOUT_EVEN, &A, &b));
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 24, 3.0, 0.1, &C));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &d));
  PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
  PetscCall(SetPoly(ksp, 4, &pc));
  for (PetscInt change = 0; change < 9; change++) {
    const char *names[] = {"at first",
                           "nothing",
                           "diagonal",
                           "rows scaled",
                           "another matrix",
                           "reuse, another matrix",
                           "reuse, another degree",
                           "no reuse, the same matrix",
                           "another seed"};
    Mat         now     = change < 4 ? A : (change == 4 ? C : A);
    PetscInt    asked, used;

    if (change == 2) PetscCall(MatShift(A, 2.0));
    if (change == 3) {
      PetscCall(VecSetGeneral(d, 0.1));
      PetscCall(VecShift(d, 3.0));
      PetscCall(MatDiagonalScale(A, d, NULL));
    }
    if (change == 5) PetscCall(PCPolySetReuse(pc, PETSC_TRUE));
    if (change == 6) PetscCall(PCPolySetDegree(pc, 3));
    if (change == 7) {
      PetscCall(PCPolySetReuse(pc, PETSC_FALSE));
      PetscCall(PCPolySetDegree(pc, 3));
    }
    if (change == 8) PetscCall(PCPolySetSeed(pc, 17));
    PetscCall(KSPSetOperators(ksp, now, now));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckSolved(names[change], ksp, now, b, x));
    PetscCall(RootsMoved(pc, &n, re, &moved));
    /* D^{-1}A does not depend on the scale of rows, so its roots do not either */
    if (change == 1 || change == 3 || change == 5 || change == 7)
      PetscCall(ComplainIf(!(moved <= 1e4 * PETSC_SQRT_MACHINE_EPSILON * PETSC_SQRT_MACHINE_EPSILON * 1e4),
                           "%s: roots have moved by %g", names[change], (double)moved));
    else PetscCall(ComplainIf(!(moved > 1e-5), "%s: roots have moved by %g only", names[change], (double)moved));
    PetscCall(PCPolyGetDegree(pc, &asked, &used));
    PetscCall(ComplainIf(asked != (change < 6 ? 4 : 3) || used != asked, "%s: degree %" PetscInt_FMT ", %" PetscInt_FMT " used",
                         names[change], asked, used));
  }
  /* another type and back */
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckSolved("another type", ksp, A, b, x));
  PetscCall(SetPoly(ksp, 5, &pc));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckSolved("another type, and back", ksp, A, b, x));
  /* another size, after a reset */
  PetscCall(KSPReset(ksp));
  PetscCall(MatDestroy(&C));
  PetscCall(VecDestroy(&d));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 13, 0.6, LAYOUT_EVEN, &C, &d));
  PetscCall(KSPSetOperators(ksp, C, C));
  PetscCall(SolveConverged("another size", ksp, d));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&d));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&C));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("changes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar Large(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1e20 : 0.0;
}

static PetscScalar Negative(PetscInt i, PetscInt j, PetscInt n)
{
  return -1e-20 * Convection(i, j, n);
}

static PetscScalar Nilpotent(PetscInt i, PetscInt j, PetscInt n)
{
  return j == i + 1 ? 1.0 : 0.0;
}

static PetscScalar Zero(PetscInt i, PetscInt j, PetscInt n)
{
  return 0.0;
}

/* [ C 1; -1 0 ], where every other diagonal entry is zero */
static PetscScalar Saddle(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 2 ? 0.0 : 4.0;
  if (i / 2 == j / 2) return i % 2 ? -1.0 : 1.0;
  return i % 2 || j % 2 ? 0.0 : (j == i + 2 ? -0.5 : (j == i - 2 ? -1.0 : 0.0));
}

/* Convection and diffusion on a line, with this entry in every fourth row of the diagonal */
static PetscReal small;

static PetscScalar Small(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 4 ? 2.6 : small;
  return j == i - 1 ? -1.3 : (j == i + 1 ? -1.0 : 0.0);
}

static PetscScalar DenseRow(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 3.0 : (i == n / 2 ? 0.1 : (j == i + 1 ? -1.0 : 0.0));
}

static PetscScalar TwoValues(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 : (j == i + 1 && i % 2 == 0 ? 0.5 : (j == i - 1 && j % 2 == 0 ? 0.5 : 0.0));
}

/* Spaces that end early, scales at the end of the range, zero diagonals, more processes or degrees than rows */
static PetscErrorCode TestSpecial(void)
{
  const struct {
    const char *name;
    Entry      *entry;
    PetscInt    n, most; /* most: largest degree that there is, with exact arithmetic */
  } systems[] = {
    {"identity",         Identity,    40, 1 },
    {"a large multiple", Large,       40, 1 },
    {"two eigenvalues",  TwoValues,   40, 2 },
    {"tridiagonal",      Tridiagonal, 60, 16},
    {"negative",         Negative,    96, 16},
    {"zeros",            Saddle,      60, 16},
    {"dense row",        DenseRow,    60, 16},
    {"1 x 1",            Tridiagonal, 1,  1 },
    {"2 x 2",            Tridiagonal, 2,  2 },
    {"5 x 5",            Tridiagonal, 5,  5 }
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
      const PetscReal *re, *im;
      PetscInt         n, used;
      Mat              A;
      Vec              b, x;
      KSP              ksp;
      PC               pc;
      char             what[64];

      PetscCall(SystemCreateEntries(systems[i].entry, systems[i].n, RHS_GENERAL, &A, &b, &x));
      PetscCall(SolverCreate(A, 2, PCNONE, &ksp));
      PetscCall(SetPoly(ksp, degrees[id], &pc));
      PetscCall(VecSet(x, 0.0));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, degree %" PetscInt_FMT, systems[i].name, degrees[id]));
      PetscCall(CheckSolved(what, ksp, A, b, x));
      PetscCall(PCPolyGetDegree(pc, NULL, &used));
      PetscCall(
        ComplainIf(used < 1 || used > PetscMin(degrees[id], systems[i].most), "%s: degree %" PetscInt_FMT " used", what, used));
      PetscCall(PCPolyGetRoots(pc, &n, &re, &im));
      for (PetscInt k = 0; k < n; k++)
        PetscCall(ComplainIf(PetscIsInfOrNanReal(re[k]) || PetscIsInfOrNanReal(im[k]) || (re[k] == 0.0 && im[k] == 0.0),
                             "%s: root %g + %gi", what, (double)re[k], (double)im[k]));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(VecDestroy(&b));
      PetscCall(VecDestroy(&x));
      PetscCall(MatDestroy(&A));
    }
  }
  PetscCall(Verdict("special systems"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The number of rows that are scaled by their largest entry, in the view */
static PetscErrorCode SmallRows(PC pc, PetscInt *rows)
{
  PetscReal number[1] = {0.0};
  PetscInt  lines;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)pc, " of it: ", 1, number, &lines));
  *rows = (PetscInt)number[0];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Diagonal entries far below the rest of their rows are like zeros, whatever the scale of the rows is */
static PetscErrorCode TestSmallDiagonal(void)
{
  const PetscInt    n          = 60;
  const PetscReal   entries[]  = {0.0, 1e-20, 1e-8, 1e-4, 1e-2, 1.0};
  const char *const types[]    = {KSPIDRS, KSPGMRES};
  PetscInt          zero[2][2] = {{0}}; /* iterations with zeros; rows may be scaled by complex numbers */

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    for (PetscInt scaled = 0; scaled < 2; scaled++) {
      for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
        const PetscInt expected = entries[i] < 1e-3 ? n / 4 : 0;
        PetscInt       its, rows;
        Mat            A;
        Vec            b, x;
        KSP            ksp;
        PC             pc;
        char           what[64];

        small = entries[i];
        PetscCall(SystemCreateEntries(Small, n, RHS_GENERAL, &A, &b, &x));
        if (scaled) {
          PetscCall(VecSetGeneral(x, 0.3));
          PetscCall(VecShift(x, 3.0));
          PetscCall(VecScale(x, 1e6));
          PetscCall(MatDiagonalScale(A, x, NULL));
          PetscCall(VecPointwiseMult(b, b, x));
        }
        PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
        PetscCall(KSPSetType(ksp, types[it]));
        PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
        PetscCall(SetPoly(ksp, 8, &pc));
        PetscCall(PCPolySetScaling(pc, PC_POLY_SCALING_DIAGONAL));
        PetscCall(VecSet(x, 0.0));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, diagonal entries of %g%s", types[it], (double)entries[i],
                                scaled ? ", rows scaled" : ""));
        PetscCall(CheckSolved(what, ksp, A, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        if (i == 0) zero[scaled][it] = its;
        PetscCall(ComplainIf(expected && its > zero[scaled][it] + 2,
                             "%s: %" PetscInt_FMT " iterations, and %" PetscInt_FMT " with zeros", what, its, zero[scaled][it]));
        PetscCall(SmallRows(pc, &rows));
        PetscCall(ComplainIf(rows != expected, "%s: %" PetscInt_FMT " rows scaled by their largest entry instead of %" PetscInt_FMT,
                             what, rows, expected));
        PetscCall(KSPDestroy(&ksp));
        PetscCall(VecDestroy(&x));
        PetscCall(VecDestroy(&b));
        PetscCall(MatDestroy(&A));
      }
    }
  }
  PetscCall(Verdict("small diagonal entries"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same with a saddle point as a MATNEST */
static PetscErrorCode TestSmallNest(void)
{
  const PetscInt n = 40;
  PetscInt       its[2];

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 2; l++) {
    const PetscScalar entry = l ? -1e-8 : 0.0;
    PetscInt          rows;
    Mat               block[4], N;
    Vec               b, x;
    KSP               ksp;
    PC                pc;

    PetscCall(MatCreateEntries(Convection, n, PETSC_FALSE, &block[0]));
    PetscCall(MatCreateEntries(Tridiagonal, n, PETSC_FALSE, &block[1]));
    PetscCall(MatCreateEntries(Tridiagonal, n, PETSC_TRUE, &block[2]));
    PetscCall(MatCreateEntries(Identity, n, PETSC_FALSE, &block[3]));
    PetscCall(MatScale(block[3], entry));
    PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, NULL, 2, NULL, block, &N));
    PetscCall(MatNestSetVecType(N, VECNEST));
    PetscCall(MatCreateVecs(N, &x, &b));
    PetscCall(VecSet(x, 1.0));
    PetscCall(MatMult(N, x, b));
    PetscCall(SolverCreate(N, 4, PCNONE, &ksp));
    PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_AUTO));
    PetscCall(SetPoly(ksp, 6, &pc));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckSolved(l ? "nest, small entries" : "nest, zeros", ksp, N, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &its[l]));
    PetscCall(SmallRows(pc, &rows));
    PetscCall(
      ComplainIf(rows != n, "nest: %" PetscInt_FMT " rows scaled by their largest entry instead of %" PetscInt_FMT, rows, n));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&N));
    for (PetscInt i = 0; i < 4; i++) PetscCall(MatDestroy(&block[i]));
  }
  PetscCall(
    ComplainIf(its[1] > its[0] + 2, "nest: %" PetscInt_FMT " iterations, and %" PetscInt_FMT " with zeros", its[1], its[0]));
  PetscCall(Verdict("small diagonal entries of a nest"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Matrices without a polynomial: the preconditioner has failed, and a good matrix after it is solved. A nilpotent matrix has
   polynomials, but no solution
*/
static PetscErrorCode TestFailures(void)
{
  Entry *const      entries[] = {Zero, Nilpotent, Tridiagonal, Tridiagonal, Skew};
  const char *const names[]   = {"zero", "nilpotent", "NaN", "Inf", "chebyshev of an imaginary spectrum"};
  Mat               good;
  Vec               b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &good, &b, &x));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    KSPConvergedReason reason;
    PCFailedReason     failed;
    PetscInt           used;
    Mat                A;
    KSP                ksp;
    PC                 pc;

    PetscCall(MatCreateEntries(entries[i], 30, PETSC_FALSE, &A));
    if (i == 2 || i == 3) {
      const PetscReal zero = 0.0 * (PetscReal)i;

      PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
      PetscCall(MatSetValue(A, 12, 13, (i == 2 ? zero : (PetscReal)1.0) / zero, INSERT_VALUES));
      PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
      PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    }
    PetscCall(SolverCreate(A, 2, PCNONE, &ksp));
    if (i % 2) PetscCall(KSPSetUp(ksp)); /* before 3.26 PETSc sets up a type that is changed after it in PCApply() only */
    PetscCall(SetPoly(ksp, 4, &pc));
    if (i == 4) {
      PetscCall(PCPolySetRootsType(pc, PC_POLY_ROOTS_CHEBYSHEV));
      PetscCall(PCPolySetScaling(pc, PC_POLY_SCALING_DIAGONAL));
    }
    PetscCall(VecSet(x, 0.0));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(PCPolyGetDegree(pc, NULL, &used));
    if (i == 1)
      PetscCall(
        ComplainIf(reason >= 0 || failed || !used, "%s: %s, degree %" PetscInt_FMT, names[i], KSPConvergedReasons[reason], used));
    else
      PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED || !failed || used, "%s: %s, degree %" PetscInt_FMT, names[i],
                           KSPConvergedReasons[reason], used));
    PetscCall(KSPSetOperators(ksp, good, good));
    PetscCall(PCPolySetRootsType(pc, PC_POLY_ROOTS_GMRES));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckSolved("after a failure", ksp, good, b, x));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&good));
  PetscCall(Verdict("failures"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A matrix with a null space, with and without telling the solver */
static PetscErrorCode TestNullSpace(void)
{
  const PetscInt m = 15;
  PetscInt       begin, end;
  Mat            A;
  Vec            b, x;
  MatNullSpace   space;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, m, 0.0, 0.0, &A));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin; row < end; row++)
    PetscCall(MatSetValue(A, row, row, (row % m > 0) + (row % m < m - 1) + (row / m > 0) + (row / m < m - 1), INSERT_VALUES));
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(x, 0.3));
  PetscCall(MatMult(A, x, b));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
  for (PetscInt told = 0; told < 2; told++) {
    if (told) PetscCall(MatSetNullSpace(A, space));
    for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
      KSP  ksp;
      PC   pc;
      char what[64];

      PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
      PetscCall(SetPoly(ksp, degrees[id], &pc));
      PetscCall(VecSet(x, 0.0));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(PetscSNPrintf(what, sizeof(what), "null space%s, degree %" PetscInt_FMT, told ? " told" : "", degrees[id]));
      PetscCall(CheckSolved(what, ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(MatNullSpaceDestroy(&space));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("null space"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values that are refused, with the value and the setting in the error; what was set before stays */
static PetscErrorCode TestValues(void)
{
  const PetscReal zero = 0.0, re[] = {1.0, 0.5, 0.5}, im[] = {0.0, 0.25, 0.25}, bad[] = {1.0, 0.0, 2.0};
  PetscReal       nan[2] = {1.0, 0.0};
  PetscErrorCode  ierr;
  PetscInt        degree, seed;
  PCPolyRootsType type;
  PetscBool       reuse;
  PC              pc;

  PetscFunctionBeginUser;
  nan[1] = zero / zero;
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetOptionsPrefix(pc, "my_"));
  PetscCall(PCSetType(pc, PCPOLY));
  PetscCall(PCPolyGetDegree(pc, &degree, NULL));
  PetscCall(PCPolyGetRootsType(pc, &type));
  PetscCall(PCPolyGetSeed(pc, &seed));
  PetscCall(PCPolyGetReuse(pc, &reuse));
  PetscCall(ComplainIf(degree != 8 || type != PC_POLY_ROOTS_GMRES || seed != 0 || reuse,
                       "the defaults are degree %" PetscInt_FMT ", roots %s, seed %" PetscInt_FMT ", reuse %d", degree,
                       PCPolyRootsTypes[type], seed, (int)reuse));
  for (PetscInt i = 0; i < 4; i++) {
    const PetscInt    values[] = {0, -3, 129, 1000000};
    const char *const texts[]  = {" 0:", "-3", "129", "1000000"};

    PetscCall(Listen());
    ierr = PCPolySetDegree(pc, values[i]);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, "degree", "-my_pc_poly_degree", texts[i]));
    if (values[i] > 0 && values[i] < 1000000) {
      PetscCall(Listen());
      ierr = PCPolySetRoots(pc, values[i], re, im);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, "number of roots", "PCPolySetRoots", texts[i]));
    }
  }
  PetscCall(Listen());
  ierr = PCPolySetSeed(pc, -7);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "seed", "-my_pc_poly_seed", "-7"));
  PetscCall(Listen());
  ierr = PCPolySetRootsType(pc, PC_POLY_ROOTS_USER);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "roots that were not given", "-my_pc_poly_roots", "user"));
  PetscCall(Listen());
  ierr = PCPolySetRootsType(pc, (PCPolyRootsType)17);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "type", "-my_pc_poly_roots", "17"));
  PetscCall(Listen());
  ierr = PCPolySetRoots(pc, 3, bad, NULL);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "a root that is zero", "PCPolySetRoots", "root 1"));
  PetscCall(Listen());
  ierr = PCPolySetRoots(pc, 2, nan, NULL);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "a root that is a NaN", "PCPolySetRoots", "root 1"));
  PetscCall(Listen());
  ierr = PCPolySetRoots(pc, 3, NULL, NULL);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "no array", "PCPolySetRoots", "3"));
  if (!PetscDefined(USE_COMPLEX)) {
    PetscCall(Listen());
    ierr = PCPolySetRoots(pc, 3, re, im);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, "a root without its conjugate", "PCPolySetRoots", "root 1"));
  }
  PetscCall(PCPolyGetDegree(pc, &degree, NULL));
  PetscCall(PCPolyGetRootsType(pc, &type));
  PetscCall(PCPolyGetSeed(pc, &seed));
  PetscCall(ComplainIf(degree != 8 || type != PC_POLY_ROOTS_GMRES || seed != 0,
                       "after errors: degree %" PetscInt_FMT ", roots %s, seed %" PetscInt_FMT, degree, PCPolyRootsTypes[type],
                       seed));
  PetscCall(PetscOptionsSetValue(NULL, "-my_pc_poly_degree", "12"));
  PetscCall(PetscOptionsSetValue(NULL, "-my_pc_poly_roots", "neumann"));
  PetscCall(PetscOptionsSetValue(NULL, "-my_pc_poly_seed", "5"));
  PetscCall(PetscOptionsSetValue(NULL, "-my_pc_poly_reuse", "true"));
  PetscCall(PCSetFromOptions(pc));
  PetscCall(PCPolyGetDegree(pc, &degree, NULL));
  PetscCall(PCPolyGetRootsType(pc, &type));
  PetscCall(PCPolyGetSeed(pc, &seed));
  PetscCall(PCPolyGetReuse(pc, &reuse));
  PetscCall(ComplainIf(degree != 12 || type != PC_POLY_ROOTS_NEUMANN || seed != 5 || !reuse,
                       "the options have set degree %" PetscInt_FMT ", roots %s, seed %" PetscInt_FMT ", reuse %d", degree,
                       PCPolyRootsTypes[type], seed, (int)reuse));
  PetscCall(PCDestroy(&pc));
  PetscCall(Verdict("values"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* -ksp_view tells the degree, what became of the start vector, and why there is no polynomial */
static PetscErrorCode TestView(void)
{
  for (PetscInt zero = 0; zero < 2; zero++) {
    const char *const texts[] = {"degree used: ", "residual of the random start vector: ", "no polynomial: "};
    PetscReal         numbers[4];
    PetscInt          lines;
    Mat               A;
    PC                pc;

    PetscFunctionBeginUser;
    PetscCall(MatCreateEntries(zero ? Zero : Convection, 120, PETSC_FALSE, &A));
    PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
    PetscCall(PCSetType(pc, PCPOLY));
    PetscCall(PCPolySetDegree(pc, 3));
    PetscCall(PCSetOperators(pc, A, A));
    PetscCall(PCSetUp(pc));
    PetscCall(CheckViewLines(zero ? "zero" : "convection", (PetscObject)pc));
    for (PetscInt i = 0; i < 3; i++) {
      PetscCall(ViewNumbers((PetscObject)pc, texts[i], 4, numbers, &lines));
      PetscCall(ComplainIf(lines != (zero == (i == 2) ? 1 : 0), "%s: %" PetscInt_FMT " lines with \"%s\"",
                           zero ? "zero" : "convection", lines, texts[i]));
      if (lines == 1 && i == 0) PetscCall(ComplainIf(numbers[0] != 3.0, "degree %g in the view", (double)numbers[0]));
      if (lines == 1 && i == 1) {
        PetscReal residual;

        PetscCall(PCPolyGetResidual(pc, NULL, &residual));
        PetscCall(ComplainIf(!(PetscAbsReal(numbers[0] - residual) <= 1e-4 * residual), "residual %g in the view, %g asked for",
                             (double)numbers[0], (double)residual));
      }
    }
    PetscCall(PCDestroy(&pc));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(Verdict("view"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc loses memory with an error */
  PetscCall(ImplementationFromOptions());
  PetscCall(TestSolvers());
  PetscCall(TestConvection());
  PetscCall(TestOperators());
  PetscCall(TestChanges());
  PetscCall(TestSpecial());
  PetscCall(TestSmallDiagonal());
  PetscCall(TestSmallNest());
  PetscCall(TestFailures());
  PetscCall(TestNullSpace());
  PetscCall(TestValues());
  PetscCall(TestView());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
