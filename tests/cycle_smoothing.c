static char help[] = "Residual smoothing: comparison with the formula applied to the iterates of a solve without smoothing,\n\
accuracy of the solution, settings.\n\
  -f file  Matrix Market file with the operator\n\n";

#include "systems.h"
#include "../tutorials/matrixmarket.h"

#define MAX_ITS 120

/* Smoothed residual norms, computed from the iterates of a solver without smoothing */
typedef struct {
  Mat       A;
  PC        pc; /* of left preconditioning, or NULL */
  Vec       b, x, r, xs, rs, w;
  PetscReal norms[MAX_ITS + 1];
  PetscBool grown; /* the norm of r has grown, so smoothing has an effect */
  PetscReal last;
} Formula;

/* Computes x and r of this iteration; r is preconditioned on the left */
static PetscErrorCode FormulaResidual(KSP ksp, Formula *f)
{
  PetscFunctionBeginUser;
  PetscCall(KSPBuildSolution(ksp, f->x, NULL));
  PetscCall(MatMult(f->A, f->x, f->w));
  PetscCall(VecAYPX(f->w, -1.0, f->b));
  if (f->pc) PetscCall(PCApply(f->pc, f->w, f->r));
  else PetscCall(VecCopy(f->w, f->r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FormulaMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Formula    *f = (Formula *)ctx;
  PetscScalar gamma;
  PetscReal   norm;

  PetscFunctionBeginUser;
  PetscCall(FormulaResidual(ksp, f));
  if (!its) {
    PetscCall(VecCopy(f->x, f->xs));
    PetscCall(VecCopy(f->r, f->rs));
  } else {
    PetscCall(VecWAXPY(f->w, -1.0, f->r, f->rs)); /* r_s - r */
    PetscCall(VecNorm(f->w, NORM_2, &norm));
    PetscCall(VecDot(f->rs, f->w, &gamma));
    if (norm > 0.0) {
      gamma /= norm * norm;
      PetscCall(VecAXPY(f->rs, -gamma, f->w));
      PetscCall(VecAXPBY(f->xs, gamma, 1.0 - gamma, f->x));
    }
    if (rnorm > f->last) f->grown = PETSC_TRUE;
  }
  f->last = rnorm;
  PetscCall(VecNorm(f->rs, NORM_2, &f->norms[its]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SmootherCreate(Mat A, PetscInt s, PCSide side, PetscBool smoothing, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreateSide(A, s, side, PCJACOBI, ksp));
  PetscCall(KSPIDRSSetSmoothing(*ksp, smoothing));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The solution at each iteration is the smoothed one: its residual norm is the reported norm. In single precision the deviation is
   relative to a part of the first norm, because with s = 8 it is up to 200 times the machine precision of that norm
*/
typedef struct {
  Formula  *formula;
  PetscReal worst; /* largest relative deviation of the formula, and of the residual of the solution, from the reported norm */
  PetscReal first, last;
  PetscInt  count;
  PetscBool grown;
} Watch;

static PetscErrorCode WatchMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Watch    *watch = (Watch *)ctx;
  Formula  *f     = watch->formula;
  PetscReal norm, size;

  PetscFunctionBeginUser;
  if (!its) watch->first = rnorm;
  size = PetscDefined(USE_REAL_SINGLE) ? PetscMax(rnorm, 0.2 * watch->first) : rnorm;
  PetscCall(FormulaResidual(ksp, f));
  PetscCall(VecNorm(f->r, NORM_2, &norm));
  watch->worst = PetscMax(watch->worst, PetscIsInfOrNanReal(norm) ? PETSC_MAX_REAL : PetscAbsReal(norm - rnorm) / size);
  watch->worst = PetscMax(watch->worst, PetscAbsReal(f->norms[its] - rnorm) / size);
  if (its && rnorm > watch->last) watch->grown = PETSC_TRUE;
  watch->last = rnorm;
  watch->count++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* In each cycle the norms of the solver and the residuals of its solution agree with the formula */
static PetscErrorCode TestFormula(Mat A, Vec b)
{
  const PetscReal tolerance = PETSC_SQRT_MACHINE_EPSILON;

  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 8; s *= 2) {
    for (PetscInt left = 0; left < 2; left++) {
      const char *const side    = left ? "left" : "right";
      Formula           formula = {.A = A, .b = b};
      Watch             watch   = {.formula = &formula};
      KSP               ksp;
      Vec               x;

      PetscCall(DuplicateAll(b, &x, &formula.x, &formula.r, &formula.xs, &formula.rs, &formula.w));
      for (PetscInt smoothing = 0; smoothing < 2; smoothing++) {
        PetscCall(SmootherCreate(A, s, left ? PC_LEFT : PC_RIGHT, smoothing ? PETSC_TRUE : PETSC_FALSE, &ksp));
        PetscCall(KSPSetTolerances(ksp, 1e-300, 1e-300, PETSC_DEFAULT, PETSC_MACHINE_EPSILON > 1e-10 ? 20 : 40));
        PetscCall(KSPSetUp(ksp));
        if (left) PetscCall(KSPGetPC(ksp, &formula.pc));
        if (smoothing) PetscCall(KSPMonitorSet(ksp, WatchMonitor, &watch, NULL));
        else PetscCall(KSPMonitorSet(ksp, FormulaMonitor, &formula, NULL));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
      PetscCall(ComplainIf(!formula.grown, "s = %" INT ", %s: there was nothing to smooth", s, side));
      PetscCall(ComplainIf(watch.count < 20, "s = %" INT ", %s: %" INT " iterations were monitored", s, left ? "left" : "right",
                           watch.count));
      PetscCall(ComplainIf(watch.grown, "s = %" INT ", %s: the norm has grown", s, side));
      PetscCall(ComplainIf(!(watch.worst <= tolerance), "s = %" INT ", %s: the norms differ by %g", s, left ? "left" : "right",
                           (double)watch.worst));
      /* the returned solution is the smoothed one */
      PetscCall(CheckClose(side, formula.xs, x, 10 * tolerance));
      PetscCall(DestroyAll(&x, &formula.x, &formula.r, &formula.xs, &formula.rs, &formula.w));
    }
  }
  PetscCall(Verdict("formula"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves to the tolerance and below the attainable accuracy: the reason is true, and smoothing hardly costs products. On a device
   it changes the rounding, so that counts scatter
*/
static PetscErrorCode TestSolves(Mat A, Vec b)
{
  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 8; s *= 2) {
    for (PetscInt c = 0; c < 3; c++) {
      const PetscBool    below = c == 1 && s >= 4 ? PETSC_TRUE : PETSC_FALSE;
      PetscInt           products[2];
      PetscReal          rnorm[2], bnorm;
      KSPConvergedReason reason[2];

      for (PetscInt smoothing = 0; smoothing < 2; smoothing++) {
        KSP ksp;
        Vec x;

        PetscCall(VecDuplicate(b, &x));
        PetscCall(SmootherCreate(A, s, PC_RIGHT, smoothing ? PETSC_TRUE : PETSC_FALSE, &ksp));
        PetscCall(KSPSetTolerances(ksp, below ? PETSC_MACHINE_EPSILON / 100 : rtol, 1e-300, PETSC_DEFAULT, 50000));
        if (c == 2) PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason[smoothing]));
        PetscCall(KSPIDRSGetCounts(ksp, &products[smoothing], NULL, NULL, NULL));
        PetscCall(ResidualNorm(A, b, x, &rnorm[smoothing], &bnorm));
        PetscCall(DestroyAll(&ksp, &x));
      }
      if (below) {
        PetscCall(
          ComplainIf(!(reason[1] < 0) || reason[1] == KSP_DIVERGED_ITS || !(rnorm[1] <= 1e6 * PETSC_MACHINE_EPSILON * bnorm),
                     "s = %" INT ", below the attainable accuracy: %s with |b - A x| = %g of %g", s, KSPConvergedReasons[reason[1]],
                     (double)rnorm[1], (double)bnorm));
      } else if (reason[1] != KSP_CONVERGED_RTOL || !(rnorm[1] <= 1.01 * rtol * bnorm))
        PetscCall(Complain("s = %" INT ", updates %s: %s with |b - A x| = %g of %g", s, c == 2 ? "off" : "on",
                           KSPConvergedReasons[reason[1]], (double)rnorm[1], (double)bnorm));
      else
        PetscCall(ComplainIf(products[1] > products[0] + products[0] / 2 + 5,
                             "s = %" INT ": %" INT " products, %" INT " without smoothing", s, products[1], products[0]));
    }
  }
  PetscCall(Verdict("solves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A diagonal that a preconditioner inverts up to the square root of the precision. One step reduces the residual norm so far that a
   difference of squares has no digits left
*/
static PetscScalar AlmostDiagonal(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscReal small = PETSC_SQRT_MACHINE_EPSILON / 16;

  return i == j ? (2.0 + i % 5) * (1.0 + small * PetscSinReal((PetscReal)i)) : (i == j + 1 ? small : 0.0);
}

static PetscScalar Diagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.0 + i % 5 : 0.0;
}

typedef struct {
  Mat       A;
  Vec       b, x;
  PetscReal worst; /* difference of the reported norm and the norm of b - A x, relative to the bound on rounding errors */
} Drop;

static PetscErrorCode DropMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Drop     *drop = (Drop *)ctx;
  PetscReal norm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(KSPBuildSolution(ksp, drop->x, NULL));
  PetscCall(ResidualNorm(drop->A, drop->b, drop->x, &norm, &bnorm));
  drop->worst = PetscMax(drop->worst, PetscAbsReal(norm - rnorm) / (0.01 * norm + 100 * PETSC_MACHINE_EPSILON * bnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestDrop(void)
{
  Mat  A, P;
  Drop drop;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(AlmostDiagonal, 50, PETSC_FALSE, &A));
  PetscCall(MatCreateEntries(Diagonal, 50, PETSC_FALSE, &P));
  PetscCall(MatCreateVecs(A, &drop.x, &drop.b));
  PetscCall(VecSetGeneral(drop.b, 1.0));
  for (PetscInt s = 1; s <= 4; s *= 2) {
    PetscInt its;
    KSP      ksp;
    Vec      x;

    drop.A     = A;
    drop.worst = 0.0;
    PetscCall(VecDuplicate(drop.b, &x));
    PetscCall(SmootherCreate(A, s, PC_RIGHT, PETSC_TRUE, &ksp));
    PetscCall(KSPSetOperators(ksp, A, P));
    PetscCall(KSPSetTolerances(ksp, 1e-300, 1e-300, PETSC_DEFAULT, 2));
    PetscCall(KSPMonitorSet(ksp, DropMonitor, &drop, NULL));
    PetscCall(KSPSolve(ksp, drop.b, x));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(ComplainIf(its != 2, "almost diagonal, s = %" INT ": %" INT " iterations", s, its));
    PetscCall(ComplainIf(!(drop.worst <= 1.0), "almost diagonal, s = %" INT ": norms are off by %g of what is allowed", s,
                         (double)drop.worst));
    PetscCall(DestroyAll(&ksp, &x));
  }
  PetscCall(DestroyAll(&drop.b, &drop.x, &P, &A));
  PetscCall(Verdict("large steps"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The sums of smoothing need no reductions of their own, except with Vec calls and if a norm is recomputed, which does not happen
   here. Smoothing is switched on and off between solves
*/
static PetscErrorCode TestSettings(Mat A, Vec b)
{
  KSP         ksp;
  Vec         x;
  PetscInt    its, reductions, updates;
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SmootherCreate(A, 4, PC_RIGHT, PETSC_FALSE, &ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 1e-300, PETSC_DEFAULT, 2000));
  for (PetscInt i = 0; i < 4; i++) {
    const PetscBool       smoothing = (PetscBool)(i % 2);
    KSPIDRSImplementation kind;

    PetscCall(KSPIDRSSetSmoothing(ksp, smoothing));
    PetscCall(SolveSystem(smoothing ? "smoothing" : "no smoothing", ksp, A, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, &reductions, &updates, NULL));
    GetSetting(ksp, implementation, &kind);
    /* without smoothing a device also makes reductions of steps after those in which it has stopped. Three checks of
       x make two or three each. With smoothing a norm that is computed at once makes two */
    PetscCall(
      ComplainIf((kind != KSP_IDRS_CUDA || smoothing) && size > 1 && reductions > its + 13 + 2 * updates + (smoothing ? 20 : 0),
                 "solve %" INT ": %" INT " reductions in %" INT " iterations", i, reductions, its));
  }
  PetscCall(DestroyAll(&ksp, &x));
  PetscCall(Verdict("settings"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  char file[PETSC_MAX_PATH_LEN] = "tutorials/matrices/jpwh_991.mtx.gz";
  Mat  A;
  Vec  b;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(ImplementationFromOptions());
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &A));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(TestFormula(A, b));
  PetscCall(TestSolves(A, b));
  PetscCall(TestDrop());
  PetscCall(TestSettings(A, b));
  PetscCall(DestroyAll(&A, &b));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   testset:
     nsize: {{1 2}}
     output_file: output/cycle_smoothing_1.out
     test:
       suffix: 1
       requires: double
       args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz
     # orsreg_1 is too ill conditioned for single precision
     test:
       suffix: single
       requires: single
       args: -f ${PETSCIDRS_DIR}/tutorials/matrices/jpwh_991.mtx.gz

TEST*/
