static char help[] = "The polynomial of PCPOLY compared with its definition: the residual polynomial of GMRES for its start\n\
vector, as KSPGMRES computes it, and the product of the factors of its roots; its transpose; the same\n\
polynomial on any number of processes.\n\n";

#include <petscidrs/private/idrsshadow.h>
#include "systems.h"
#include "wide.h"

/* Column of the hash for the start vector */
#define START_COLUMN 65536

static PetscErrorCode StartVector(PetscInt seed, Vec v)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  PetscCall(VecGetArrayWrite(v, &array));
  for (PetscInt i = begin; i < end; i++)
    array[i - begin] = (PetscReal)IDRSShadowEntry((uint64_t)seed, (uint64_t)i, START_COLUMN) * (PetscReal)IDRS_SHADOW_UNIT;
  PetscCall(VecRestoreArrayWrite(v, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = D^{-1}A x */
static PetscErrorCode ScaledMult(Mat A, Vec diagonal, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(MatMult(A, x, y));
  PetscCall(VecPointwiseDivide(y, y, diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = pi(D^{-1}A) v from the roots; with real scalars conjugate roots have a common factor */
static PetscErrorCode ProductOfFactors(PC pc, Mat A, Vec diagonal, Vec v, Vec y)
{
  const PetscReal *re, *im;
  PetscInt         n;
  Vec             *w;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicateVecs(v, 2, &w));
  PetscCall(VecCopy(v, y));
  PetscCall(PCPolyGetRoots(pc, &n, &re, &im));
  for (PetscInt i = 0; i < n; i++) {
    PetscCall(ScaledMult(A, diagonal, y, w[0]));
#if PetscDefined(USE_COMPLEX)
    PetscCall(VecAXPY(y, -1.0 / PetscCMPLX(re[i], im[i]), w[0]));
#else
    if (im[i] == 0.0) PetscCall(VecAXPY(y, -1.0 / re[i], w[0]));
    else {
      const PetscReal square = re[i] * re[i] + im[i] * im[i];

      PetscCall(ScaledMult(A, diagonal, w[0], w[1]));
      PetscCall(VecAXPY(y, -2.0 * re[i] / square, w[0]));
      PetscCall(VecAXPY(y, 1.0 / square, w[1]));
      i++;
    }
#endif
  }
  PetscCall(VecDestroyVecs(2, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||x - y|| / ||y|| */
static PetscErrorCode Difference(Vec x, Vec y, PetscReal *difference)
{
  PetscReal norm;
  Vec       d;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(x, &d));
  PetscCall(VecWAXPY(d, -1.0, y, x));
  PetscCall(VecNorm(d, NORM_2, difference));
  PetscCall(VecNorm(y, NORM_2, &norm));
  *difference /= norm;
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Precisions of the values of the copy */
static const char *const precisions[] = {"half", "single", "double"};

/* Creates PCPOLY with the roots 1.25, 1.25 */
static PetscErrorCode PolyCreateRoots(Mat A, PetscInt precision, PC *pc)
{
  const PetscReal roots[] = {1.25, 1.25};

  PetscFunctionBeginUser;
  PetscCall(PolyCreate(A, 2, 0, "auto", pc));
  PetscCall(PCPolySetRoots(*pc, 2, roots, NULL));
  PetscCall(PolyOption(*pc, "precision", precisions[precision]));
  PetscCall(PCSetUp(*pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares B^{-1}D v with the iterate of GMRES on D^{-1}A y = v, and ||pi(D^{-1}A)v|| as predicted, as computed, and from GMRES */
static PetscErrorCode CompareGMRES(const char what[], PC pc, Mat A, Vec diagonal, Vec v, PetscInt degree)
{
  const PetscReal tolerance = PetscMax(PetscSqrtReal(PETSC_MACHINE_EPSILON), 1e-5); /* numbers of the view have six digits */
  PetscReal       vnorm, rnorm, residuals[2] = {-1.0, -1.0}, difference;
  PetscInt        used, lines;
  Vec            *w; /* D v, p(A) v, the iterate of GMRES */
  KSP             ksp;
  PC              jacobi;

  PetscFunctionBeginUser;
  PetscCall(PCSetUp(pc));
  PetscCall(PCPolyGetDegree(pc, NULL, &used));
  PetscCall(ViewNumbers((PetscObject)pc, "residual of the random start vector: ", 1, &residuals[0], &lines));
  PetscCall(ViewNumbers((PetscObject)pc, ", predicted ", 1, &residuals[1], &lines));
  PetscCall(ComplainIf(used != degree, "%s, degree %" INT ": %" INT " is used", what, degree, used));
  PetscCall(VecDuplicateVecs(v, 3, &w));
  PetscCall(VecPointwiseMult(w[0], diagonal, v));
  PetscCall(PCApply(pc, w[0], w[1]));
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), &ksp));
  PetscCall(KSPSetType(ksp, KSPGMRES));
  PetscCall(KSPGMRESSetRestart(ksp, used + 1));
  PetscCall(KSPGMRESSetCGSRefinementType(ksp, KSP_GMRES_CGS_REFINE_ALWAYS));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPGetPC(ksp, &jacobi));
  PetscCall(PCSetType(jacobi, PCJACOBI));
  PetscCall(KSPSetPCSide(ksp, PC_LEFT));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_PRECONDITIONED));
  PetscCall(KSPSetTolerances(ksp, 1e-30, 0.0, PETSC_DEFAULT, used));
  PetscCall(KSPSolve(ksp, w[0], w[2]));
  PetscCall(KSPGetResidualNorm(ksp, &rnorm));
  PetscCall(VecNorm(v, NORM_2, &vnorm));
  rnorm /= vnorm;
  PetscCall(ComplainIf(!(PetscAbsReal(residuals[0] - rnorm) <= tolerance) || !(PetscAbsReal(residuals[1] - rnorm) <= tolerance),
                       "%s, degree %" INT ": residual %g computed, %g predicted, GMRES has %g", what, used, (double)residuals[0],
                       (double)residuals[1], (double)rnorm));
  PetscCall(Difference(w[1], w[2], &difference));
  PetscCall(ComplainIf(!(difference <= (PETSC_MACHINE_EPSILON > 1e-10 ? 1e-3 : 1e-5)),
                       "%s, degree %" INT ": p(A)v and the iterate of GMRES differ by %g", what, used, (double)difference));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroyVecs(3, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares v - D^{-1}A B^{-1}D v with the product of the factors of the roots */
static PetscErrorCode CompareFactors(const char what[], PC pc, Mat A, Vec diagonal, Vec v)
{
  PetscReal difference;
  PetscInt  n;
  Vec      *w;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicateVecs(v, 3, &w));
  PetscCall(VecPointwiseMult(w[0], diagonal, v));
  PetscCall(PCApply(pc, w[0], w[1]));
  PetscCall(ScaledMult(A, diagonal, w[1], w[0]));
  PetscCall(VecAYPX(w[0], -1.0, v));
  PetscCall(ProductOfFactors(pc, A, diagonal, v, w[2]));
  PetscCall(VecAXPY(w[0], 1.0, v)); /* the difference is relative to v */
  PetscCall(VecAXPY(w[2], 1.0, v));
  PetscCall(Difference(w[0], w[2], &difference));
  PetscCall(PCPolyGetRoots(pc, &n, NULL, NULL));
  PetscCall(ComplainIf(!(difference <= 100 * PetscSqrtReal(PETSC_MACHINE_EPSILON)),
                       "%s, %" INT " roots: 1 - z p(z) and the product of the factors differ by %g", what, n, (double)difference));
  PetscCall(VecDestroyVecs(3, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const PetscInt degrees[] = {1, 2, 3, 4, 6, 8, 12, 16};

static PetscErrorCode TestGMRES(void)
{
  const PetscReal peclets[] = {0.0, 0.3, 2.0};

  PetscFunctionBeginUser;
  for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(peclets); ip++) {
    Mat A;
    Vec b, v, diagonal;

    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 24, peclets[ip], LAYOUT_UNEVEN, &A, &b));
    PetscCall(DuplicateAll(b, &v, &diagonal));
    PetscCall(MatGetDiagonal(A, diagonal));
    for (PetscInt seed = 0; seed < 3; seed++) {
      PetscCall(StartVector(seed, v));
      for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
        PC   pc;
        char what[64];

        if (PETSC_MACHINE_EPSILON > 1e-10 && degrees[id] > 4) continue; /* single precision resolves no larger space */
        PetscCall(PetscSNPrintf(what, sizeof(what), "Peclet number %g, seed %" INT, (double)peclets[ip], seed));
        PetscCall(PolyCreate(A, degrees[id], seed, "auto", &pc));
        PetscCall(CompareGMRES(what, pc, A, diagonal, v, degrees[id]));
        PetscCall(CompareFactors(what, pc, A, diagonal, b));
        PetscCall(PCDestroy(&pc));
      }
    }
    PetscCall(DestroyAll(&diagonal, &v, &b, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Roots of the user, single and in pairs, some of them twice */
static PetscErrorCode TestUserRoots(void)
{
  const PetscReal re[] = {1.7, 0.2, 0.9, 0.9, 1.1, 0.9, 0.9, 1.1, 0.5}, im[] = {0.0, 0.0, 0.4, -0.4, 0.0, -0.4, 0.4, 0.0, 0.0};
  Mat             A;
  Vec             v, diagonal;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 20, 0.3, LAYOUT_EVEN, &A, &v));
  PetscCall(VecDuplicate(v, &diagonal));
  PetscCall(MatGetDiagonal(A, diagonal));
  for (PetscInt degree = 1; degree <= 9; degree++) {
    PetscInt n;
    PC       pc;

    if (degree == 3 || degree == 6) continue; /* half a pair is last */
    PetscCall(PolyCreate(A, degree, 0, "auto", &pc));
    PetscCall(PCPolySetRoots(pc, degree, re, im));
    PetscCall(PCSetUp(pc));
    PetscCall(PCPolyGetRoots(pc, &n, NULL, NULL));
    PetscCall(ComplainIf(n != degree, "degree %" INT ": %" INT " roots", degree, n));
    PetscCall(CompareFactors("roots of the user", pc, A, diagonal, v));
    PetscCall(PCDestroy(&pc));
  }
  PetscCall(DestroyAll(&diagonal, &v, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y^T B^{-1} x = x^T B^{-T} y, and both sides of an operator of one */
static PetscErrorCode TestTranspose(void)
{
  Mat A;
  Vec x, *w; /* y, B^{-1}x, B^{-T}y */

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 20, 0.8, LAYOUT_UNEVEN, &A, &x));
  PetscCall(VecDuplicateVecs(x, 3, &w));
  PetscCall(VecSetGeneral(w[0], 0.7));
  for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
    PetscScalar left, right;
    PetscReal   norm;
    PC          pc;

    PetscCall(PolyCreate(A, degrees[id], 1, "auto", &pc));
    PetscCall(PCApply(pc, x, w[1]));
    PetscCall(PCApplyTranspose(pc, w[0], w[2]));
    PetscCall(VecTDot(w[1], w[0], &left));
    PetscCall(VecTDot(x, w[2], &right));
    PetscCall(VecNorm(w[1], NORM_2, &norm));
    PetscCall(ComplainIf(!(PetscAbsScalar(left - right) <= 1e4 * PETSC_MACHINE_EPSILON * norm * 30.0),
                         "degree %" INT ": y^T B^{-1}x and x^T B^{-T}y differ by %g", degrees[id],
                         (double)PetscAbsScalar(left - right)));
    PetscCall(PCDestroy(&pc));
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroyVecs(3, &w));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matrices for the copy: number of rows, entries per row besides the diagonal, and their largest distance from it */
typedef struct {
  const char *name;
  PetscInt    n, shortest, longest, reach, dense; /* dense: consecutive entries of some rows */
  PetscBool   zeros;                              /* some diagonal entries are zero */
  PetscBool   copied;                             /* on one GPU there is a copy */
  PetscBool   alllong;                            /* all rows of the copy are long */
} Pattern;

static const Pattern patterns[] = {
  {"even rows",      3000,   4,  4,  50,     0,    PETSC_FALSE, PETSC_TRUE,  PETSC_FALSE},
  {"uneven rows",    3000,   0,  30, 400,    0,    PETSC_FALSE, PETSC_TRUE,  PETSC_FALSE},
  {"zero diagonals", 3000,   2,  7,  300,    0,    PETSC_TRUE,  PETSC_TRUE,  PETSC_FALSE},
  {"far columns",    300000, 2,  3,  299999, 0,    PETSC_FALSE, PETSC_FALSE, PETSC_FALSE},
  {"uneven, long",   3000,   0,  12, 400,    300,  PETSC_TRUE,  PETSC_TRUE,  PETSC_FALSE},
  {"dense rows",     3000,   4,  4,  50,     2500, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE},
  {"one row",        1,      0,  0,  1,      0,    PETSC_FALSE, PETSC_TRUE,  PETSC_FALSE},
  {"all rows long",  600,    48, 60, 200,    0,    PETSC_FALSE, PETSC_TRUE,  PETSC_TRUE }
};

static PetscErrorCode MatCreatePattern(const Pattern *pattern, Mat *A)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, PETSC_DECIDE, pattern->n, pattern->longest + 1, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscBool dense = (PetscBool)(pattern->dense && row % 500 == 250);
    const PetscInt  count = dense ? pattern->dense : pattern->shortest + (row * 7) % (pattern->longest - pattern->shortest + 1);

    for (PetscInt k = 0; k < count; k++) {
      const PetscInt column = (row + 1 + (dense ? k : (((row % 4096) * 7919 % 1009 + 3) * (k + 1) * 311) % pattern->reach)) %
                              pattern->n;
      PetscScalar value = PetscSinReal(0.3 + row + 5.0 * k);

#if PetscDefined(USE_COMPLEX)
      value += PETSC_i * PetscCosReal(2.0 * row + k);
#endif
      if (column != row) PetscCall(MatSetValue(*A, row, column, value, INSERT_VALUES));
    }
    PetscCall(MatSetValue(*A, row, row, pattern->zeros && row % 5 == 0 ? 0.0 : 6.0 + PetscSinReal(row), INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   With roots r, r of pi, p(z) = 2 / r - z / r^2, so B^{-1} x = 2 w / r - D^{-1}A w / r^2 with w = D^{-1}x. Compares this with one
   product of the copy, in long double, with the bound for the rounding of values and sums
*/
static PetscErrorCode CompareProduct(const char what[], Mat A, PetscInt precision, Vec x, Vec y)
{
  const PetscReal root = 1.25, units[] = {4.9e-4, 6.0e-8, PETSC_MACHINE_EPSILON},
                  rounding = PetscMax(units[precision], PETSC_MACHINE_EPSILON);
  const PetscScalar *all, *mine, *diagonal;
  PetscInt           begin, end;
  Vec                w, d, everything;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(x, &d, &w));
  PetscCall(MatGetDiagonal(A, d));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  {
    PetscScalar *array;

    PetscCall(VecGetArray(d, &array));
    for (PetscInt row = begin; row < end; row++) {
      PetscReal          largest = 0.0;
      PetscInt           count;
      const PetscScalar *values;

      PetscCall(MatGetRow(A, row, &count, NULL, &values));
      for (PetscInt k = 0; k < count; k++) largest = PetscMax(largest, PetscAbsScalar(values[k]));
      PetscCall(MatRestoreRow(A, row, &count, NULL, &values));
      if (PetscAbsScalar(array[row - begin]) <= 2e-4 * largest) array[row - begin] = largest > 0.0 ? largest : 1.0;
    }
    PetscCall(VecRestoreArray(d, &array));
  }
  PetscCall(VecPointwiseDivide(w, x, d));
  PetscCall(GatherCreate(w, &everything));
  PetscCall(VecGetArrayRead(everything, &all));
  PetscCall(VecGetArrayRead(y, &mine));
  PetscCall(VecGetArrayRead(d, &diagonal));
  for (PetscInt row = begin; row < end; row++) {
    Wide               sum  = 0.0L;
    PetscReal          size = 0.0, error, bound;
    PetscInt           count;
    const PetscInt    *columns;
    const PetscScalar *values;

    PetscCall(MatGetRow(A, row, &count, &columns, &values));
    for (PetscInt k = 0; k < count; k++) {
      sum += (Wide)values[k] * (Wide)all[columns[k]];
      size += PetscAbsScalar(values[k] * all[columns[k]] / diagonal[row - begin]);
    }
    PetscCall(MatRestoreRow(A, row, &count, &columns, &values));
    sum   = 2.0L * (Wide)all[row] / (Wide)root - sum / (Wide)diagonal[row - begin] / ((Wide)root * (Wide)root);
    error = PetscAbsScalar((PetscScalar)(sum - (Wide)mine[row - begin]));
    bound = (rounding + (count + 16) * PETSC_MACHINE_EPSILON) * size / (root * root) +
            16 * PETSC_MACHINE_EPSILON * PetscAbsScalar(all[row]) * 2.0 / root;
    PetscCall(ComplainIf(!(error <= 1.5 * bound), "%s, row %" INT " of %" INT " entries: error %g, bound %g", what, row, count,
                         (double)error, (double)bound));
  }
  PetscCall(VecRestoreArrayRead(everything, &all));
  PetscCall(VecRestoreArrayRead(y, &mine));
  PetscCall(VecRestoreArrayRead(d, &diagonal));
  PetscCall(DestroyAll(&everything, &w, &d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Gets the number of copies and the precision of their values, and whether one kernel makes all products of an application instead
*/
static PetscErrorCode GetCopy(PC pc, PetscInt *copies, PetscInt *precision, PetscInt *whole)
{
  PetscInt halves, singles;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)pc, "products in one kernel", 0, NULL, whole));
  PetscCall(ViewNumbers((PetscObject)pc, "products by a copy", 0, NULL, copies));
  PetscCall(ViewNumbers((PetscObject)pc, "values in precision half", 0, NULL, &halves));
  PetscCall(ViewNumbers((PetscObject)pc, "values in precision single", 0, NULL, &singles));
  *precision = halves ? 0 : (singles ? 1 : 2);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCopy(PetscBool maybepersistent)
{
  PetscInt    onekernel = 0;
  PetscBool   gpu       = PETSC_FALSE;
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PowersMayBePersistent(maybepersistent));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(patterns); i++) {
    PetscBool aij, cuda;
    Mat       A;
    Vec       x, y, again;
    PC        pc, fresh;

    PetscCall(MatCreatePattern(&patterns[i], &A));
    PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
    PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &cuda));
    PetscCall(MatCreateVecs(A, &x, &y));
    PetscCall(VecDuplicate(y, &again));
    PetscCall(VecSetGeneral(x, 0.7));
    for (PetscInt precision = 0; precision < 3; precision++) {
      const PetscInt least = cuda && patterns[i].alllong ? 2 : 0;
      PetscInt       copies, whole, seen;
      PetscBool      same;
      char           what[64];

      PetscCall(PolyCreateRoots(A, precision, &pc));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, precision %s", patterns[i].name, precisions[precision]));
      PetscCall(GetCopy(pc, &copies, &seen, &whole));
      PetscCall(ComplainIf(whole && (!maybepersistent || copies || !cuda), "%s: all products in one kernel", what));
      onekernel += whole;
      if (cuda) gpu = PETSC_TRUE;
      if (size == 1 && !whole)
        PetscCall(ComplainIf(copies != (cuda && patterns[i].copied ? 1 : 0), "%s: %s", what, copies ? "a copy" : "no copy"));
      PetscCall(ComplainIf(copies && seen != PetscMax(precision, least) && !(size > 1 && patterns[i].alllong),
                           "%s: the values are %s", what, precisions[seen]));
      for (PetscInt k = 0; k < 2; k++) PetscCall(PCApply(pc, x, k ? again : y));
      PetscCall(VecEqual(y, again, &same));
      if (aij || copies) PetscCall(ComplainIf(!same, "%s: the second application is another", what));
      PetscCall(CompareProduct(what, A, seen, x, y));
      /* a copy contains all data of an application */
      PetscCall(PCSetReusePreconditioner(pc, PETSC_TRUE));
      PetscCall(MatScale(A, 2.0));
      PetscCall(PCApply(pc, x, again));
      PetscCall(VecEqual(y, again, &same));
      if (copies) PetscCall(ComplainIf(!same, "%s: another matrix, and the preconditioner has changed", what));
      PetscCall(MatScale(A, 0.5));
      /* If values change and the pattern does not, the copy equals a new one, also if zeros on the diagonal vanish and come back */
      PetscCall(PCSetReusePreconditioner(pc, PETSC_FALSE));
      for (PetscInt k = 0; k < 2; k++) {
        PetscCall(MatShift(A, k ? -3.0 : 3.0));
        PetscCall(PCApply(pc, x, y));
        PetscCall(PolyCreateRoots(A, precision, &fresh));
        PetscCall(PCApply(fresh, x, again));
        PetscCall(VecEqual(y, again, &same));
        if (aij || copies) PetscCall(ComplainIf(!same, "%s: not the bits of a new preconditioner", what));
        PetscCall(PCDestroy(&fresh));
      }
      PetscCall(PCDestroy(&pc));
    }
    PetscCall(DestroyAll(&x, &y, &again, &A));
  }
  PetscCall(ComplainIf(gpu && maybepersistent && size == 1 && !onekernel, "no pattern has all products in one kernel"));
  PetscCall(Verdict(maybepersistent ? "copies, or products in one kernel" : "copies"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Steps of the smoother of PCAGGREGATION, and its residual, compared with their definitions */
static PetscErrorCode TestSmoother(void)
{
  const PetscReal units[] = {4.9e-4, 6.0e-8, PETSC_MACHINE_EPSILON};

  PetscFunctionBeginUser;
  PetscCall(PowersMayBePersistent(PETSC_FALSE));
  for (PetscInt i = 0; i < 6; i += i ? 3 : 1) {
    for (PetscInt degree = 1; degree < 10; degree++) {
      PetscErrorCode (*smooth)(PC, PetscBool, Vec, Vec), (*residual)(PC, PetscBool, Vec, Vec, Vec);
      PetscReal norm, size, error, tolerance;
      PetscInt  copies, whole, seen;
      char      what[64];
      Mat       A;
      Vec       b, *v; /* x, b - A x, the residual, the next x */
      PC        pc;

      PetscCall(MatCreatePattern(&patterns[i], &A));
      PetscCall(MatShift(A, 20.0));
      PetscCall(MatCreateVecs(A, &b, NULL));
      PetscCall(VecDuplicateVecs(b, 4, &v));
      PetscCall(VecSetGeneral(b, 0.3));
      PetscCall(PolyCreate(A, degree, 0, "auto", &pc));
      PetscCall(PolyOption(pc, "smoother", "true"));
      PetscCall(PolyOption(pc, "precision", precisions[degree % 3]));
      PetscCall(PCSetUp(pc));
      PetscCall(GetCopy(pc, &copies, &seen, &whole));
      tolerance = 50.0 * PetscMax(copies ? units[seen] : 0.0, PETSC_MACHINE_EPSILON);
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, degree %" INT, patterns[i].name, degree));
      PetscCall(PetscObjectQueryFunction((PetscObject)pc, "PCPolySmooth_C", &smooth));
      PetscCall(PetscObjectQueryFunction((PetscObject)pc, "PCPolyResidual_C", &residual));
      PetscCall((*smooth)(pc, PETSC_TRUE, b, v[0]));
      PetscCall(PCApply(pc, b, v[1]));
      PetscCall(Difference(v[0], v[1], &error));
      PetscCall(ComplainIf(!(error <= 50.0 * PETSC_MACHINE_EPSILON), "%s: x = B^{-1}b differs by %g", what, (double)error));
      PetscCall(MatResidual(A, b, v[0], v[1]));
      PetscCall(MatNorm(A, NORM_INFINITY, &norm));
      PetscCall(VecNorm(v[0], NORM_INFINITY, &size));
      for (int first = 1; first >= 0; first--) { /* later residuals are not computed in half precision */
        const PetscReal most = !first && !seen ? 50.0 * PETSC_MACHINE_EPSILON : tolerance;

        PetscCall((*residual)(pc, (PetscBool)first, b, v[0], v[2]));
        PetscCall(VecAXPY(v[2], -1.0, v[1]));
        PetscCall(VecNorm(v[2], NORM_INFINITY, &error));
        PetscCall(ComplainIf(!(error <= 0.1 * most * norm * size), "%s: b - A x differs by %g", what, (double)error));
      }
      PetscCall(PCApply(pc, v[1], v[3]));
      PetscCall(VecAXPY(v[3], 1.0, v[0]));
      PetscCall((*smooth)(pc, PETSC_FALSE, b, v[0]));
      PetscCall(Difference(v[0], v[3], &error));
      PetscCall(ComplainIf(!(error <= tolerance), "%s: x + B^{-1}(b - A x) differs by %g", what, (double)error));
      PetscCall(VecDestroyVecs(4, &v));
      PetscCall(DestroyAll(&pc, &b, &A));
    }
  }
  PetscCall(PowersMayBePersistent(PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A diagonal entry whose inverse is outside the range of half and single precision: D has another entry there */
static PetscScalar Huge(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (i ? 2.0 : 1e-45) : (j == i + 1 ? 1.0 : 0.0);
}

static PetscErrorCode TestOverflow(void)
{
  PetscInt  copies, whole, seen;
  PetscBool cuda;
  Mat       A;
  Vec       x, y;
  PC        pc;

  PetscFunctionBeginUser;
  if (PETSC_MACHINE_EPSILON < 1e-10) {
    PetscCall(PowersMayBePersistent(PETSC_FALSE));
    PetscCall(MatCreateEntries(Huge, 20, PETSC_FALSE, &A));
    PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cuda, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
    PetscCall(MatCreateVecs(A, &x, &y));
    PetscCall(VecSetGeneral(x, 0.2));
    PetscCall(PolyCreateRoots(A, 0, &pc));
    PetscCall(GetCopy(pc, &copies, &seen, &whole));
    PetscCall(ComplainIf(cuda && (!copies || seen == 2), "%" INT " copies, values %s", copies, precisions[seen]));
    PetscCall(PCApply(pc, x, y));
    PetscCall(CompareProduct("overflow", A, seen, x, y));
    PetscCall(PowersMayBePersistent(PETSC_TRUE));
    PetscCall(DestroyAll(&pc, &x, &y, &A));
  } else PetscCall(Skip("single precision has no number as small as that"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Roots on all processes and on one */
static PetscErrorCode TestProcesses(void)
{
  PetscFunctionBeginUser;
  for (Layout layout = LAYOUT_EVEN; layout < LAYOUTS; layout = (Layout)(layout + 1)) {
    const MPI_Comm   comms[] = {PETSC_COMM_WORLD, PETSC_COMM_SELF};
    const PetscReal *re[2], *im[2];
    PetscInt         n[2];
    PC               pc[2];

    for (PetscInt i = 0; i < 2; i++) {
      Mat A;

      PetscCall(GridCreate(comms[i], layout, 18, 0.5, 0.2, &A));
      PetscCall(PolyCreate(A, 6, 3, "auto", &pc[i]));
      PetscCall(PCSetUp(pc[i]));
      PetscCall(PCPolyGetRoots(pc[i], &n[i], &re[i], &im[i]));
      PetscCall(MatDestroy(&A));
    }
    PetscCall(ComplainIf(n[0] != n[1] || (n[0] != 6 && PETSC_MACHINE_EPSILON < 1e-10),
                         "layout %d: %" INT " roots, and %" INT " on one process", (int)layout, n[0], n[1]));
    for (PetscInt i = 0; i < n[0]; i++) {
      const PetscReal difference = PetscAbsReal(re[0][i] - re[1][i]) + PetscAbsReal(im[0][i] - im[1][i]);

      PetscCall(ComplainIf(!(difference <= 100 * PetscSqrtReal(PETSC_MACHINE_EPSILON)),
                           "layout %d: root %" INT " is %g + %gi, and %g + %gi on one process", (int)layout, i, (double)re[0][i],
                           (double)im[0][i], (double)re[1][i], (double)im[1][i]));
    }
    for (PetscInt i = 0; i < 2; i++) PetscCall(PCDestroy(&pc[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCopies(void)
{
  PetscFunctionBeginUser;
  PetscCall(TestCopy(PETSC_FALSE));
  PetscCall(TestCopy(PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestGMRES, "GMRES"}, {TestUserRoots, "roots of the user"}, {TestTranspose, "transpose"}, {TestCopies, NULL},
          {TestSmoother, "steps of a smoother"}, {TestOverflow, "overflow"}, {TestProcesses, "processes"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
