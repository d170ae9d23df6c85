static char help[] = "PCMATCHING: the preconditioner compared with one that is made with functions of PETSc, exact and\n\
transposed applications, several columns, new values, patterns and blocks, solvers on both sides,\n\
prefixes, failures and bad input.\n\n";

#include "systems.h"
#include "matched.h"

/*
   Matrices with a known matching. T has a strictly dominant diagonal on each process. Row i of T is row (i + shift) modulo n of A,
   with n rows on this process, or the same with blocks of rows. Then rows and columns are scaled. With two shifts A is the sum of
   two such matrices with these weights: the pattern does not depend on the weights, and the matching belongs to the larger weight.
*/
typedef struct {
  PetscInt  bs; /* blocks, whose rows are also rotated by one; 1: single rows */
  PetscInt  shift[2];
  PetscReal weight[2];
  PetscReal range;  /* scalings have exponents of ten in [-range, range] */
  PetscReal change; /* relative change of values */
} Hidden;

/* PETSc's default type, and a direct solver */
#define PLAIN  (Processes() == 1 ? PCILU : PCBJACOBI)
#define DIRECT (Processes() == 1 ? PCLU : PCREDUNDANT)

static const Hidden usual = {
  1, {1,   4   },
   {1.0, 1e-6},
   3.0, 0.0
};

/*
   The same for solvers. With range r the rounding errors of b - A x are 10^(2 r) times as large as the rounding errors of b. In
   single precision a solve meets its tolerance only if r is small
*/
static const Hidden solved = {
  1, {1,   4   },
   {1.0, 1e-6},
   PetscDefined(USE_REAL_SINGLE) ? 0.5 : 3.0, 0.0
};

/* Types of the inner preconditioner */
static const char *const types[] = {PCJACOBI, PCILU, PCSOR, PCBJACOBI, PCPOLY, PCBJIDRS};
#define TYPES PETSC_STATIC_ARRAY_LENGTH(types)

static PetscMPIInt Processes(void)
{
  PetscMPIInt size;

  (void)MPI_Comm_size(PETSC_COMM_WORLD, &size);
  return size;
}

static PetscMPIInt Rank(void)
{
  PetscMPIInt rank;

  (void)MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  return rank;
}

static PetscBool Is(const char a[], const char b[])
{
  return (PetscBool)!strcmp(a, b);
}

/* Returns PETSC_TRUE if PETSc has an inner preconditioner of this type on so many processes */
static PetscBool Runs(const char type[])
{
  return (PetscBool)(Processes() == 1 || !Is(type, PCILU));
}

/* Returns the row of A, on this process, for row i of T */
static PetscInt HiddenPlace(const Hidden *hidden, PetscInt which, PetscInt n, PetscInt i)
{
  const PetscInt bs = hidden->bs;

  if (bs == 1) return (i + hidden->shift[which]) % n;
  return (i / bs + hidden->shift[which]) % (n / bs) * bs + (i + 1) % bs;
}

static PetscReal Exponent(PetscReal range, PetscInt i)
{
  return PetscPowReal(10.0, range * PetscSinReal(1.0 + 2.3 * i));
}

/* Returns the entry of T, which is the same on all processes */
static PetscScalar HiddenEntry(const Hidden *hidden, PetscInt i, PetscInt j)
{
  const PetscReal noise = PetscSinReal(12.9898 * i + 78.233 * j), changed = 1.0 + hidden->change * PetscCosReal(3.7 * i + 1.9 * j);
  PetscScalar     value = (i == j ? 4.0 : (j < i ? -0.9 : -0.6)) + 0.1 * noise;

#if PetscDefined(USE_COMPLEX)
  value *= PetscCMPLX(PetscCosReal(noise), PetscSinReal(noise));
#endif
  return value * changed;
}

/* Stores the values, also in a matrix that has values */
static PetscErrorCode HiddenFill(const Hidden *hidden, Mat A)
{
  const PetscInt offset[] = {0, -1, 1, -7, 7};
  PetscInt       begin, end, N;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(A, &N, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(MatZeroEntries(A));
  for (PetscInt which = 0; which < 2; which++) {
    for (PetscInt i = begin; i < end; i++) {
      const PetscInt row = begin + HiddenPlace(hidden, which, end - begin, i - begin);

      for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(offset); k++) {
        const PetscInt j = i + offset[k];

        if (j < 0 || j >= N) continue;
        PetscCall(MatSetValue(A, row, j,
                              hidden->weight[which] * Exponent(hidden->range, row) * Exponent(hidden->range, 5 * j + 2) *
                                HiddenEntry(hidden, i, j),
                              ADD_VALUES));
      }
    }
  }
  PetscCall(MatAssemble(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a matrix with n rows on this process, and a right-hand side */
static PetscErrorCode HiddenCreate(const Hidden *hidden, const char type[], PetscInt n, PetscInt N, Mat *A, Vec *b)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, n, n, N, N));
  PetscCall(MatSetBlockSize(*A, hidden->bs));
  PetscCall(MatSetType(*A, type));
  PetscCall(MatSeqAIJSetPreallocation(*A, 10, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 10, NULL, 10, NULL));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(HiddenFill(hidden, *A));
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(VecSetGeneral(*b, 0.3));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a matrix of type aij, a right-hand side and room for a solution */
static PetscErrorCode SystemCreate(const Hidden *hidden, PetscInt N, Mat *A, Vec *b, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(hidden, MATAIJ, PETSC_DECIDE, N, A, b));
  PetscCall(VecDuplicate(*b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets an inner preconditioner so that its results do not depend on rounding errors in the matrix */
static PetscErrorCode InnerSet(PC inner, const char type[])
{
  PetscFunctionBeginUser;
  PetscCall(PCSetType(inner, type));
  if (Is(type, PCPOLY)) PetscCall(PolyOption(inner, "precision", "double"));
  if (Is(type, PCBJIDRS)) {
    KSP ksp;

    PetscCall(PCBJIDRSGetKSP(inner, &ksp));
    PetscCall(KSPSetTolerances(ksp, PETSC_MACHINE_EPSILON > 1e-10 ? 1e-5 : 1e-12, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatchingCreate(Mat A, const char type[], PC *pc)
{
  PC inner;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(PetscObjectComm((PetscObject)A), pc));
  PetscCall(PCSetType(*pc, PCMATCHING));
  PetscCall(PCMatchingGetPC(*pc, &inner));
  PetscCall(InnerSet(inner, type));
  PetscCall(PCSetOperators(*pc, A, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks ||x - y|| <= tolerance ||y|| */
static PetscErrorCode CheckEqual(const char what[], Vec x, Vec y, PetscReal tolerance)
{
  PetscReal norm, error;
  Vec       d;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(y, &d));
  PetscCall(VecCopy(x, d));
  PetscCall(VecAXPY(d, -1.0, y));
  PetscCall(VecNorm(d, NORM_2, &error));
  PetscCall(VecNorm(y, NORM_2, &norm));
  PetscCall(ComplainIf(!(error <= tolerance * norm), "%s: a difference of %g, the norm is %g", what, (double)error, (double)norm));
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the tolerance for results that are equal up to rounding */
static PetscReal Rounding(const char type[])
{
  return (Is(type, PCBJIDRS) || Is(type, PCPOLY) ? 1e6 : 1e4) * PETSC_MACHINE_EPSILON;
}

/* The application agrees with the reference, for all layouts and types of matrices */
static PetscErrorCode TestReference(void)
{
  const char *const mattypes[] = {MATAIJ, MATAIJSTREAM};

  PetscFunctionBeginUser;
  for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
    for (size_t m = 0; m < PETSC_STATIC_ARRAY_LENGTH(mattypes); m++) {
      PetscInt n = PETSC_DECIDE;
      Mat      A;
      Vec      x, y, z;

      PetscCall(LayoutSize(PETSC_COMM_WORLD, (Layout)layout, 90, &n));
      PetscCall(HiddenCreate(&usual, mattypes[m], n, 90, &A, &x));
      PetscCall(VecDuplicate(x, &y));
      PetscCall(VecDuplicate(x, &z));
      for (size_t t = 0; t < TYPES; t++) {
        Reference reference;
        PC        pc;
        char      what[128];

        if (!Runs(types[t])) continue;
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, layout %" INT, types[t], mattypes[m], layout));
        PetscCall(ReferenceCreate(A, &reference));
        PetscCall(InnerSet(reference.inner, types[t]));
        PetscCall(PCSetUp(reference.inner));
        PetscCall(MatchingCreate(A, types[t], &pc));
        PetscCall(ReferenceApply(&reference, PETSC_FALSE, x, z));
        PetscCall(PCApply(pc, x, y));
        PetscCall(CheckEqual(what, y, z, Rounding(types[t])));
        if (!Is(types[t], PCBJIDRS) && !Is(types[t], PCSOR)) {
          PetscScalar dots[2];

          PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, layout %" INT ", transposed", types[t], mattypes[m], layout));
          PetscCall(ReferenceApply(&reference, PETSC_TRUE, x, z));
          PetscCall(PCApplyTranspose(pc, x, y));
          PetscCall(CheckEqual(what, y, z, Rounding(types[t])));
          /* y' (B^{-1} x) = (B^{-T} y)' x */
          PetscCall(VecSetGeneral(y, 0.7));
          PetscCall(PCApply(pc, x, z));
          PetscCall(VecTDot(z, y, &dots[0]));
          PetscCall(PCApplyTranspose(pc, y, z));
          PetscCall(VecTDot(x, z, &dots[1]));
          PetscCall(ComplainIf(!(PetscAbsScalar(dots[0] - dots[1]) <= 1e5 * PETSC_MACHINE_EPSILON * PetscAbsScalar(dots[0])),
                               "%s: products %g and %g", what, (double)PetscAbsScalar(dots[0]), (double)PetscAbsScalar(dots[1])));
        }
        PetscCall(PCDestroy(&pc));
        PetscCall(ReferenceDestroy(&reference));
      }
      PetscCall(DestroyAll(&z, &y, &x, &A));
    }
  }
  PetscCall(Verdict("by hand"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks ||D (b - A x)|| <= tolerance ||D b||, or with the transpose of A; D makes the rows comparable */
static PetscErrorCode CheckInverse(const char what[], Mat A, PetscBool transpose, Vec D, Vec b, Vec x)
{
  PetscReal norm, bnorm;
  Vec       r;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecPointwiseMult(r, D, b));
  PetscCall(VecNorm(r, NORM_2, &bnorm));
  if (transpose) PetscCall(MatMultTranspose(A, x, r));
  else PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecPointwiseMult(r, D, r));
  PetscCall(VecNorm(r, NORM_2, &norm));
  PetscCall(ComplainIf(!(norm <= 1e4 * PETSC_MACHINE_EPSILON * bnorm), "%s: the norm of b - A x is %g of %g", what, (double)norm,
                       (double)bnorm));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* With an inner direct solver the application is A^{-1} */
static PetscErrorCode TestExact(void)
{
  PetscFunctionBeginUser;
  for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
    PetscInt n = PETSC_DECIDE;
    Mat      A;
    Vec      b, x, left, right;
    PC       pc;

    PetscCall(LayoutSize(PETSC_COMM_WORLD, (Layout)layout, 90, &n));
    PetscCall(HiddenCreate(&usual, MATAIJ, n, 90, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(MatGetMatching(A, NULL, &left, &right, NULL));
    PetscCall(MatchingCreate(A, DIRECT, &pc));
    PetscCall(PCApply(pc, b, x));
    PetscCall(CheckInverse("inverse", A, PETSC_FALSE, left, b, x));
    PetscCall(PCApplyTranspose(pc, b, x));
    PetscCall(CheckInverse("inverse of the transpose", A, PETSC_TRUE, right, b, x));
    PetscCall(DestroyAll(&pc, &left, &right, &x, &b, &A));
  }
  PetscCall(Verdict("exact inside"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a dense matrix with the rows of b and so many columns, which are all b */
static PetscErrorCode DenseCreate(Vec b, PetscInt columns, Mat *B)
{
  PetscInt n, N;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, n, PETSC_DECIDE, N, columns, NULL, B));
  for (PetscInt j = 0; j < columns; j++) PetscCall(ColumnSet(*B, j, b));
  PetscCall(MatAssemble(*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCMatApply() of several numbers of columns, one after another, agrees with PCApply() of each column */
static PetscErrorCode TestColumns(void)
{
  const PetscInt numbers[] = {3, 3, 1, 0, 5};
  Mat            A;
  Vec            b, x, y;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(&usual, 90, &A, &b, &x));
  PetscCall(VecDuplicate(b, &y));
  for (size_t t = 0; t < TYPES; t++) {
    PC pc;

    if (!Runs(types[t])) continue;
    PetscCall(MatchingCreate(A, types[t], &pc));
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(numbers); k++) {
      Mat  B, X;
      char what[128];

      PetscCall(DenseCreate(b, numbers[k], &B));
      PetscCall(DenseCreate(b, numbers[k], &X));
      for (PetscInt j = 0; j < numbers[k]; j++) {
        PetscCall(VecSetGeneral(b, 0.2 + 0.1 * j + k));
        PetscCall(ColumnSet(B, j, b));
      }
      PetscCall(PCMatApply(pc, B, X));
      for (PetscInt j = 0; j < numbers[k]; j++) {
        PetscCall(ColumnGet(B, j, b));
        PetscCall(PCApply(pc, b, x));
        PetscCall(ColumnGet(X, j, y));
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s: column %" INT " of %" INT, types[t], j, numbers[k]));
        PetscCall(CheckEqual(what, y, x, Rounding(types[t])));
      }
      PetscCall(DestroyAll(&X, &B));
    }
    PetscCall(PCDestroy(&pc));
  }
  PetscCall(DestroyAll(&y, &x, &b, &A));
  PetscCall(Verdict("several columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On one process a MATSEQAIJ has vectors of type VECSEQ. Vectors of type VECMPI represent vectors in another memory */
static PetscErrorCode TestOtherVectors(void)
{
  Mat       A, X, Y, parallel;
  Vec       b, x, bother, xother, column;
  PC        pc;
  PetscBool mpi;

  PetscFunctionBeginUser;
  if (Processes() > 1) PetscCall(Skip("matrices on several processes have vectors of type VECMPI"));
  else {
    PetscCall(SystemCreate(&usual, 90, &A, &b, &x));
    PetscCall(VecCreateMPI(PETSC_COMM_WORLD, 90, 90, &bother));
    PetscCall(VecDuplicate(bother, &xother));
    PetscCall(VecCopy(b, bother));
    PetscCall(MatchingCreate(A, PCILU, &pc));
    for (PetscInt transpose = 0; transpose < 2; transpose++) {
      PetscErrorCode (*apply)(PC, Vec, Vec) = transpose ? PCApplyTranspose : PCApply;

      PetscCall((*apply)(pc, b, x));
      PetscCall((*apply)(pc, bother, xother));
      PetscCall(CheckEqual("both vectors", xother, x, 0.0));
      PetscCall(VecSet(xother, 0.0));
      PetscCall((*apply)(pc, b, xother));
      PetscCall(CheckEqual("x", xother, x, 0.0));
      PetscCall(VecSet(xother, 0.0));
      PetscCall(VecCopy(x, xother));
      PetscCall((*apply)(pc, bother, x));
      PetscCall(CheckEqual("b", x, xother, 0.0));
    }
    PetscCall(MatCreate(PETSC_COMM_WORLD, &X));
    PetscCall(MatSetSizes(X, 90, 3, 90, 3));
    PetscCall(MatSetType(X, MATMPIDENSE));
    PetscCall(MatSetUp(X));
    for (PetscInt j = 0; j < 3; j++) PetscCall(ColumnSet(X, j, bother));
    PetscCall(MatAssemble(X));
    PetscCall(MatDuplicate(X, MAT_COPY_VALUES, &Y));
    PetscCall(MatDenseGetColumnVecRead(X, 0, &column));
    PetscCall(PetscObjectTypeCompare((PetscObject)column, VECMPI, &mpi)); /* the columns of PETSc 3.26 are of type VECSEQ */
    PetscCall(MatDenseRestoreColumnVecRead(X, 0, &column));
    if (mpi) {
      PetscCall(PCMatApply(pc, X, Y));
      PetscCall(PCApply(pc, b, x));
      PetscCall(ColumnGet(Y, 2, xother));
      PetscCall(CheckEqual("columns", xother, x, 0.0));
    }
    PetscCall(DestroyAll(&Y, &X, &pc));

    /* a matrix of a parallel type on one process */
    PetscCall(HiddenCreate(&usual, MATMPIAIJ, PETSC_DECIDE, 90, &parallel, &column));
    for (size_t t = 0; t < TYPES; t++) {
      if (Is(types[t], PCILU)) continue;
      PetscCall(MatchingCreate(A, types[t], &pc));
      PetscCall(PCApply(pc, b, x));
      PetscCall(PCDestroy(&pc));
      PetscCall(MatchingCreate(parallel, types[t], &pc));
      PetscCall(PCApply(pc, column, xother));
      PetscCall(CheckEqual(types[t], xother, x, Rounding(types[t])));
      PetscCall(PCDestroy(&pc));
    }
    PetscCall(DestroyAll(&column, &parallel, &xother, &bother, &x, &b, &A));
  }
  PetscCall(Verdict("vectors of another type"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the permuted and scaled matrix, and its object id */
static PetscErrorCode InnerMat(PC pc, Mat *A, PetscObjectId *id)
{
  PC inner;

  PetscFunctionBeginUser;
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCGetOperators(inner, NULL, A));
  PetscCall(PetscObjectGetId((PetscObject)*A, id));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the preconditioner agrees with a new one */
static PetscErrorCode CheckFresh(const char what[], PC pc, const char type[], Mat A, Vec b)
{
  PetscReal tolerance = Rounding(type);
  PC        fresh;
  Vec       x, y;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(MatchingCreate(A, type, &fresh));
  PetscCall(PCApply(fresh, b, x));
  PetscCall(PCApply(pc, b, y));
  PetscCall(CheckEqual(what, y, x, tolerance));
  PetscCall(DestroyAll(&fresh, &y, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the scaled entries in the diagonal blocks of an inner matrix are at most this */
static PetscErrorCode CheckLargest(const char what[], Mat inner, PetscReal most)
{
  PetscReal *norms, largest = 0.0;
  PetscInt   N;
  Mat        A;

  PetscFunctionBeginUser;
  PetscCall(MatGetDiagonalBlock(inner, &A));
  PetscCall(MatGetSize(A, NULL, &N));
  PetscCall(PetscMalloc1(N, &norms));
  PetscCall(MatGetColumnNorms(A, NORM_INFINITY, norms));
  for (PetscInt j = 0; j < N; j++) largest = PetscMax(largest, norms[j]);
  PetscCall(PetscFree(norms));
  PetscCall(ComplainIf(!(largest <= most), "%s: an entry of %g, which should be at most %g", what, (double)largest, (double)most));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The same pattern: if values change a little, the permutation and the inner matrix are kept. If values belong to another
   permutation, a new matching is computed. A new preconditioner has the same results
*/
static PetscErrorCode TestNewValues(void)
{
  /*
     with a common factor a new matching has the same scalings as the adapted one, up to rounding; then other values; then the other
     permutation
  */
  const char *const steps[] = {"first values", "values with a factor", "changed values", "permuted values",
                               "permuted values with a factor"};

  PetscFunctionBeginUser;
  for (size_t t = 0; t < TYPES + 1; t++) {
    const char *const type   = t == TYPES ? DIRECT : types[t];
    Hidden            hidden = usual;
    PetscObjectId     id, last   = 0;
    PetscObjectState  state, old = 0;
    Mat               A, inner;
    Vec               b;
    PC                pc;

    if (!Runs(type)) continue;
    PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &A, &b));
    PetscCall(MatchingCreate(A, type, &pc));
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(steps); k++) {
      char what[128];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", type, steps[k]));
      if (k == 1 || k == 4) PetscCall(MatScale(A, k == 1 ? 1.5 : 0.5));
      if (k == 2) hidden.change = 0.1;
      if (k == 3) {
        hidden.weight[0] = 1e-6;
        hidden.weight[1] = 1.0;
      }
      if (k == 2 || k == 3) PetscCall(HiddenFill(&hidden, A));
      /* a direct solver and types that divide by the diagonal do not depend on the scalings */
      if (k == 2 && (Is(type, PCPOLY) || Is(type, PCBJIDRS))) PetscCall(PCSetUp(pc));
      else PetscCall(CheckFresh(what, pc, type, A, b));
      PetscCall(InnerMat(pc, &inner, &id));
      PetscCall(PetscObjectStateGet((PetscObject)inner, &state));
      if (k) PetscCall(ComplainIf((id == last) != (k != 3), "%s: %s inner matrix", what, id == last ? "the same" : "another"));
      PetscCall(ComplainIf(id == last && state <= old,
                           "%s: the inner matrix has state %" PetscInt64_FMT " after state %" PetscInt64_FMT, what,
                           (PetscInt64)state, (PetscInt64)old));
      if (k == 2) PetscCall(CheckLargest(what, inner, 2.0));
      last = id;
      old  = state;
    }
    PetscCall(DestroyAll(&pc, &b, &A));
  }
  PetscCall(Verdict("new values"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Another pattern in the same matrix, another matrix, and a matrix without zero rows after one with zero rows */
static PetscErrorCode TestPattern(void)
{
  const char *const type   = PLAIN;
  Hidden            hidden = usual;
  Mat               A, other, shell, inner;
  Vec               b, bother;
  PC                pc;
  PetscInt          begin, end;
  PetscObjectId     ids[2];

  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &A, &b));
  PetscCall(MatchingCreate(A, type, &pc));
  PetscCall(CheckFresh("first pattern", pc, type, A, b));
  PetscCall(InnerMat(pc, &inner, &ids[0]));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  /* a small entry in a new place on the last process: the permutation is the same, and the pattern of A~ is another one */
  if (Rank() == Processes() - 1) PetscCall(MatSetValue(A, begin + 2, begin + 5, 1e-9, ADD_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(CheckFresh("one entry more", pc, type, A, b));
  PetscCall(InnerMat(pc, &inner, &ids[1]));
  PetscCall(ComplainIf(ids[1] == ids[0], "one entry more: the same inner matrix"));

  hidden.shift[0] = 6;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &other, &bother));
  PetscCall(PCSetOperators(pc, other, other));
  PetscCall(CheckFresh("another matrix", pc, type, other, bother));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("the first matrix again", pc, type, A, b));
  PetscCall(ShellCreate(A, PassMult, A, &shell));
  PetscCall(PCSetOperators(pc, shell, other));
  PetscCall(CheckFresh("a shell for the system", pc, type, other, bother));
  PetscCall(MatDestroy(&shell));
  PetscCall(PCReset(pc));
  PetscCall(PCSetOperators(pc, other, other));
  PetscCall(CheckFresh("after PCReset()", pc, type, other, bother));
  PetscCall(DestroyAll(&pc, &bother, &other, &b, &A));
  PetscCall(Verdict("another pattern"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A reused preconditioner has the same bits for other values of the matrix */
static PetscErrorCode TestReuse(void)
{
  Mat A;
  Vec b, x, y;

  PetscFunctionBeginUser;
  for (PetscInt which = 0; which < 3; which++) {
    Hidden hidden = usual;
    KSP    ksp;
    PC     pc, inner;

    PetscCall(SystemCreate(&hidden, 60, &A, &b, &x));
    PetscCall(VecDuplicate(b, &y));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetType(ksp, KSPPREONLY));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCMATCHING));
    PetscCall(PCMatchingGetPC(pc, &inner));
    PetscCall(KSPSolve(ksp, b, x));
    if (which == 0) PetscCall(KSPSetReusePreconditioner(ksp, PETSC_TRUE));
    if (which == 1) PetscCall(PCSetReusePreconditioner(pc, PETSC_TRUE));
    if (which == 2) PetscCall(PCSetReusePreconditioner(inner, PETSC_TRUE));
    hidden.weight[0] = 1e-6;
    hidden.weight[1] = 1.0;
    PetscCall(HiddenFill(&hidden, A));
    if (which == 2) { /* also another pattern */
      PetscInt begin, end;

      PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
      PetscCall(MatGetOwnershipRange(A, &begin, &end));
      PetscCall(MatSetValue(A, begin, end - 1, 0.25, INSERT_VALUES));
      PetscCall(MatAssemble(A));
    }
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSolve(ksp, b, y));
    PetscCall(CheckEqual("reused", y, x, 0.0));
    if (which == 0) PetscCall(KSPSetReusePreconditioner(ksp, PETSC_FALSE));
    if (which == 1) PetscCall(PCSetReusePreconditioner(pc, PETSC_FALSE));
    if (which == 2) PetscCall(PCSetReusePreconditioner(inner, PETSC_FALSE));
    PetscCall(MatScale(A, 2.0));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSolve(ksp, b, y));
    PetscCall(CheckFresh("no longer reused", pc, PLAIN, A, b));
    PetscCall(DestroyAll(&ksp, &y, &x, &b, &A));
  }
  PetscCall(Verdict("reuse"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks that are kept on all processes, and blocks that one process splits */
static PetscErrorCode TestBlocks(void)
{
  PetscFunctionBeginUser;
  for (PetscInt apart = 0; apart < 2; apart++) {
    const PetscInt bs     = 3;
    Hidden         hidden = usual;
    PetscInt       found;
    PetscObjectId  id;
    Mat            A, inner;
    Vec            b, x;
    PC             pc;

    hidden.bs = bs;
    PetscCall(HiddenCreate(&hidden, MATAIJ, bs * (4 + Rank()), PETSC_DETERMINE, &A, &b));
    if (apart) {
      PetscCall(MatSetOption(A, MAT_NO_OFF_PROC_ENTRIES, PETSC_TRUE));
      if (Rank() == Processes() - 1) hidden.bs = 1;
      PetscCall(HiddenFill(&hidden, A));
    }
    PetscCall(MatchingCreate(A, PCPBJACOBI, &pc));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(PCApply(pc, b, x));
    PetscCall(InnerMat(pc, &inner, &id));
    PetscCall(MatGetBlockSize(inner, &found));
    PetscCall(ComplainIf(found != (apart ? 1 : bs), "%s: block size %" INT, apart ? "apart" : "together", found));
    PetscCall(CheckFresh(apart ? "apart" : "together", pc, PCPBJACOBI, A, b));
    PetscCall(DestroyAll(&pc, &x, &b, &A));
  }
  PetscCall(Verdict("block sizes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solvers of PETSc and of this library on both sides; the preconditioner may have another matrix than the system */
static PetscErrorCode TestSolvers(void)
{
  const char *const solvers[] = {KSPIDRS, KSPGMRES, KSPBCGS};
  const PCSide      sides[]   = {PC_LEFT, PC_RIGHT};
  Hidden            hidden    = usual;
  Mat               A, near;
  Vec               b, x, bnear;

  PetscFunctionBeginUser;
  hidden.range = PetscMin(1.0, solved.range);
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 200, &A, &b));
  hidden.change = 0.05;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 200, &near, &bnear));
  PetscCall(VecDuplicate(b, &x));
  for (size_t t = 0; t < TYPES; t++) {
    if (!Runs(types[t])) continue;
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(solvers); k++) {
      for (size_t s = 0; s < PETSC_STATIC_ARRAY_LENGTH(sides); s++) {
        for (PetscInt other = 0; other < 2; other++) {
          KSPConvergedReason reason;
          PetscReal          norm, start;
          KSP                ksp;
          PC                 pc, inner;
          char               what[128];

          PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s%s", solvers[k], types[t], PCSides[sides[s]],
                                  other ? ", another matrix for the preconditioner" : ""));
          PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
          PetscCall(KSPSetType(ksp, solvers[k]));
          PetscCall(KSPSetOperators(ksp, A, other ? near : A));
          PetscCall(KSPSetPCSide(ksp, sides[s]));
          PetscCall(KSPGetPC(ksp, &pc));
          PetscCall(PCMatchingGetPC(pc, &inner));
          PetscCall(InnerSet(inner, types[t]));
          PetscCall(KSPSolve(ksp, b, x));
          PetscCall(KSPGetConvergedReason(ksp, &reason));
          PetscCall(SolverNorm(ksp, b, x, &norm));
          PetscCall(SolverNorm(ksp, b, NULL, &start));
          PetscCall(ComplainIf(!(reason > 0), "%s: %s", what, KSPConvergedReasons[reason]));
          PetscCall(ComplainIf(!(norm <= 10 * rtol * start), "%s: the norm is %g of %g", what, (double)norm, (double)start));
          PetscCall(KSPDestroy(&ksp));
        }
      }
    }
  }
  PetscCall(DestroyAll(&x, &bnear, &b, &near, &A));
  PetscCall(Verdict("solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Several right-hand sides of one solver */
static PetscErrorCode TestMatSolve(void)
{
  PetscReal norm, bnorm;
  Mat       A, B, X;
  Vec       b, x;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(&solved, 100, &A, &b, &x));
  PetscCall(DenseCreate(b, 4, &B));
  PetscCall(DenseCreate(b, 4, &X));
  for (PetscInt j = 0; j < 4; j++) {
    PetscCall(VecSetGeneral(b, 0.2 + 0.1 * j));
    PetscCall(ColumnSet(B, j, b));
  }
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  PetscCall(KSPMatSolve(ksp, B, X));
  for (PetscInt j = 0; j < 4; j++) {
    PetscCall(ColumnGet(B, j, b));
    PetscCall(ColumnGet(X, j, x));
    PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
    PetscCall(ComplainIf(!(norm <= 1.01 * rtol * bnorm), "column %" INT ": the norm of b - A x is %g of %g", j, (double)norm,
                         (double)bnorm));
  }
  PetscCall(DestroyAll(&ksp, &X, &B, &x, &b, &A));
  PetscCall(Verdict("several right-hand sides"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Zero diagonal entries, with which a plain incomplete factorization fails */
static PetscErrorCode TestZeroDiagonal(void)
{
  Hidden             hidden = usual;
  PetscInt           begin, end;
  KSPConvergedReason reason;
  PetscErrorCode     ierr;
  Mat                A;
  Vec                b, x;

  PetscFunctionBeginUser;
  hidden.range    = 1.0;
  hidden.shift[0] = hidden.shift[1] = 3;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 100, &A, &b));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(A, i, i, 0.0, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(VecDuplicate(b, &x));
  for (PetscInt with = 0; with < 2; with++) {
    KSP ksp;

    PetscCall(SolverCreate(A, 4, with ? PCMATCHING : PLAIN, &ksp));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(ierr, "error \"%s\"", message));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    if (with) PetscCall(CheckSolved("with a matching", ksp, A, b, x));
    else PetscCall(ComplainIf(reason > 0, "without a matching: %s", KSPConvergedReasons[reason]));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict("zero diagonal"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* No rows, one row, and fewer rows than processes */
static PetscErrorCode TestSmall(void)
{
  const PetscInt numbers[] = {0, 1, 2, 3};

  PetscFunctionBeginUser;
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(numbers); k++) {
    for (size_t t = 0; t < 2; t++) {
      const char *const type = t ? PCJACOBI : PLAIN;
      Mat               A, X, Y;
      Vec               b, x;
      PC                pc;
      char              what[128];

      PetscCall(SystemCreate(&usual, numbers[k], &A, &b, &x));
      PetscCall(MatchingCreate(A, type, &pc));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%" INT " rows, %s", numbers[k], type));
      PetscCall(CheckFresh(what, pc, type, A, b));
      PetscCall(MatScale(A, 3.0));
      PetscCall(CheckFresh(what, pc, type, A, b));
      if (numbers[k] == 1) {
        PetscReal norm, bnorm;

        PetscCall(PCApply(pc, b, x));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        PetscCall(ComplainIf(!(norm <= 100 * PETSC_MACHINE_EPSILON * bnorm), "%s: the norm of b - A x is %g of %g", what,
                             (double)norm, (double)bnorm));
      }
      PetscCall(DenseCreate(b, 2, &X));
      PetscCall(DenseCreate(b, 2, &Y));
      PetscCall(PCMatApply(pc, X, Y));
      PetscCall(DestroyAll(&Y, &X));
      PetscCall(PCApplyTranspose(pc, b, x));
      PetscCall(CheckViewLines(what, (PetscObject)pc));
      PetscCall(DestroyAll(&pc, &x, &b, &A));
    }
  }
  PetscCall(Verdict("few rows"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A zero matrix, a row of zeros and a row without entries on the first process: finite results, and the rank in the view */
static PetscErrorCode TestSingular(void)
{
  const char *const kinds[] = {"zero", "a row of zeros", "a row without entries"};

  PetscFunctionBeginUser;
  for (PetscInt kind = 0; kind < 3; kind++) {
    const PetscReal expected = kind ? 59 : 0;
    PetscReal       number   = -1.0, norm;
    PetscInt        begin, lines;
    Mat             A;
    Vec             b, x;
    PC              pc;
    PCFailedReason  failed;

    PetscCall(SystemCreate(&usual, 60, &A, &b, &x));
    if (!kind) PetscCall(MatZeroEntries(A));
    else {
      PetscCall(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, (PetscBool)(kind == 1)));
      PetscCall(MatGetOwnershipRange(A, &begin, NULL));
      begin += 2;
      PetscCall(MatZeroRows(A, Rank() == 0 ? 1 : 0, &begin, 0.0, NULL, NULL));
    }
    PetscCall(MatchingCreate(A, PCJACOBI, &pc));
    for (PetscInt time = 0; time < 2; time++) { /* the second time with new values, which equal the old ones */
      PetscCall(PCApply(pc, b, x));
      PetscCall(PCGetFailedReason(pc, &failed));
      PetscCall(ComplainIf(failed, "%s", PCFailedReasons[failed]));
      PetscCall(VecNorm(x, NORM_2, &norm));
      PetscCall(
        ComplainIf(PetscIsInfOrNanReal(norm) || norm > 1e20, "%s, time %" INT ": the norm is %g", kinds[kind], time, (double)norm));
      PetscCall(ViewNumbers((PetscObject)pc, "structurally singular: rank ", 1, &number, &lines));
      PetscCall(ComplainIf(lines != 1 || number != expected, "%s: rank %g in %" INT " lines", kinds[kind], (double)number, lines));
      PetscCall(MatScale(A, 1.0 + time));
      PetscCall(PetscObjectStateIncrease((PetscObject)A));
    }
    PetscCall(DestroyAll(&pc, &x, &b, &A));
  }
  PetscCall(Verdict("singular matrices"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the type of the preconditioner inside so many others */
static PetscErrorCode CheckType(const char what[], PC pc, PetscInt depth, const char prefix[], const char type[])
{
  const char *has;
  PetscBool   same;

  PetscFunctionBeginUser;
  for (; depth > 0; depth--) PetscCall(PCMatchingGetPC(pc, &pc));
  PetscCall(PCGetOptionsPrefix(pc, &has));
  PetscCall(PetscStrcmp(has, prefix, &same));
  PetscCall(ComplainIf(!same, "%s: prefix %s", what, has));
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, type, &same));
  PetscCall(ComplainIf(!same, "%s: type %s", what, ((PetscObject)pc)->type_name ? ((PetscObject)pc)->type_name : "none"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with these options, and returns the solver */
static PetscErrorCode SolveWith(const char text[], const char prefix[], const char type[], Mat A, Vec b, KSP *ksp)
{
  PetscOptions options;
  Vec          x;

  PetscFunctionBeginUser;
  PetscCall(OptionsPush(text, &options));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SolverCreate(A, 4, type, ksp));
  PetscCall(KSPSetOptionsPrefix(*ksp, prefix));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscCall(KSPSolve(*ksp, b, x));
  PetscCall(CheckSolved(text, *ksp, A, b, x));
  PetscCall(VecDestroy(&x));
  PetscCall(OptionsPop(&options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Options of inner preconditioners, and the order of calls */
static PetscErrorCode TestOptions(void)
{
  PetscOptions options;
  PetscReal    number;
  PetscInt     lines, degree;
  Mat          A;
  Vec          b, x;
  KSP          ksp, *sub;
  PC           pc, inner;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(&solved, 60, &A, &b, &x));
  /* the prefix is set after the type */
  PetscCall(
    SolveWith("-a_matching_pc_type poly -a_matching_pc_poly_degree 3 -a_matching_pc_poly_scaling diagonal -matching_pc_type sor",
              "a_", PCMATCHING, A, b, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(CheckType("a prefix", pc, 1, "a_matching_", PCPOLY));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCPolyGetDegree(inner, &degree, NULL));
  PetscCall(ComplainIf(degree != 3, "degree %" INT, degree));
  PetscCall(ViewNumbers((PetscObject)ksp, "PC Object: (a_matching_) ", 1, &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != Processes(), "the inner preconditioner is in the view %" INT " times", lines));
  PetscCall(ViewNumbers((PetscObject)ksp, "maximum product matching: ", 1, &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != 60, "%g rows are moved", (double)number));
  PetscCall(CheckViewLines("view", (PetscObject)pc));
  PetscCall(KSPDestroy(&ksp));
  /* a matching inside a matching, and one inside blocks */
  PetscCall(SolveWith("-pc_type matching -matching_pc_type matching -matching_matching_pc_type jacobi", NULL, PCNONE, A, b, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(CheckType("a matching in a matching", pc, 2, "matching_matching_", PCJACOBI));
  PetscCall(CheckViewLines("view of a matching in a matching", (PetscObject)pc));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(SolveWith("-pc_type bjacobi -sub_pc_type matching -sub_matching_pc_type sor", NULL, PCNONE, A, b, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCBJacobiGetSubKSP(pc, NULL, NULL, &sub));
  PetscCall(KSPGetPC(sub[0], &pc));
  PetscCall(CheckType("a matching in blocks", pc, 1, "sub_matching_", PCSOR));
  PetscCall(KSPDestroy(&ksp));
  /* the type is set after the options have been read, with operators or without; PCNONE reads no options */
  PetscCall(OptionsPush("-matching_pc_type sor", &options));
  for (PetscInt operators = 0; operators < 2; operators++) {
    if (operators) PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    else PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCMATCHING));
    if (operators) PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckType("the type after the options", pc, 1, "matching_", PCSOR));
    PetscCall(KSPDestroy(&ksp));
  }
  /* no options are read unless requested; the default type; another type after a solve */
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckSolved("default", ksp, A, b, x));
  PetscCall(CheckType("default", pc, 1, "matching_", PLAIN));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCSetType(inner, PCJACOBI));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckSolved("another type", ksp, A, b, x));
  PetscCall(CheckFresh("another type", pc, PCJACOBI, A, b));
  PetscCall(OptionsPop(&options));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that this solve ends with a failed preconditioner on all processes */
static PetscErrorCode CheckFailed(const char what[], KSP ksp, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscErrorCode     ierr;

  PetscFunctionBeginUser;
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(ComplainIf(ierr, "%s: error \"%s\"", what, message));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED, "%s: %s", what, KSPConvergedReasons[reason]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The block of the last process has an empty row, or all blocks are empty: A~ has zeros on its diagonal, and factors and SOR fail
   on all processes, unless a shift or another type replaces the zeros
*/
static PetscErrorCode TestEmptyPlaces(void)
{
  const struct {
    const char *options;
    PetscBool   fails;
  } inner[] = {
    {"-matching_pc_type bjacobi",                                                                             PETSC_TRUE },
    {"-matching_pc_type bjacobi -matching_sub_pc_type lu",                                                    PETSC_TRUE },
    {"-matching_pc_type bjacobi -matching_sub_pc_type ilu -matching_sub_pc_factor_mat_solver_type petscidrs", PETSC_TRUE },
    {"-matching_pc_type sor",                                                                                 PETSC_TRUE },
    {"-matching_pc_type sor -matching_pc_sor_diagonal_shift 1",                                               PETSC_FALSE},
    {"-matching_pc_type bjacobi -matching_sub_pc_factor_shift_type nonzero",                                  PETSC_FALSE},
    {"-matching_pc_type bjacobi -matching_sub_pc_factor_diagonal_fill -matching_sub_pc_type ilu",             PETSC_TRUE },
    {"-matching_pc_type jacobi",                                                                              PETSC_FALSE},
    {"-matching_pc_type none",                                                                                PETSC_FALSE}
  };
  const char *const solvers[] = {KSPIDRS, KSPFGMRES, KSPBCGS, KSPRICHARDSON, KSPPREONLY};

  PetscFunctionBeginUser;
  for (PetscInt empty = 0; empty < 2; empty++) {
    const PetscInt n = empty ? 1 : 2, N = n * Processes();
    PetscInt       begin, lines;
    PetscReal      number = -1.0;
    Mat            A;
    Vec            b, x;

    PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, n, n, N, N, 2, NULL, 1, NULL, &A));
    PetscCall(MatGetOwnershipRange(A, &begin, NULL));
    if (empty) PetscCall(MatSetValue(A, begin, (begin + 1) % N, N > 1 ? 2.0 : 0.0, INSERT_VALUES));
    else {
      PetscCall(MatSetValue(A, begin, begin, 4.0, INSERT_VALUES));
      if (begin + n < N) PetscCall(MatSetValue(A, begin + 1, begin + 1, 2.0, INSERT_VALUES));
    }
    PetscCall(MatAssemble(A));
    PetscCall(MatCreateVecs(A, &x, &b));
    PetscCall(VecSet(b, 4.0));
    for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(inner); in++) {
      for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(solvers); is++) {
        KSPConvergedReason reason;
        PetscOptions       options;
        PetscErrorCode     ierr;
        char               what[256];
        KSP                ksp;
        PC                 pc;

        PetscCall(OptionsPush(inner[in].options, &options));
        PetscCall(
          PetscSNPrintf(what, sizeof(what), "%s, %s, %s", empty ? "empty blocks" : "an empty row", solvers[is], inner[in].options));
        PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
        PetscCall(KSPSetOperators(ksp, A, A));
        PetscCall(KSPSetType(ksp, solvers[is]));
        PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 5));
        PetscCall(KSPGetPC(ksp, &pc));
        PetscCall(PCSetType(pc, PCMATCHING));
        PetscCall(KSPSetFromOptions(ksp));
        if (inner[in].fails) PetscCall(CheckFailed(what, ksp, b, x));
        else {
          PetscCall(KSPSolve(ksp, b, x));
          PetscCall(KSPGetConvergedReason(ksp, &reason));
          PetscCall(ComplainIf(reason == KSP_DIVERGED_PC_FAILED, "%s: %s", what, KSPConvergedReasons[reason]));
        }
        PetscCall(ViewNumbers((PetscObject)pc, "structurally singular: rank ", 1, &number, &lines));
        PetscCall(
          ComplainIf(lines != 1 || number != (empty ? 0 : N - 1), "%s: rank %g in %" INT " lines", what, (double)number, lines));
        if (!strcmp(inner[in].options, "-matching_pc_type sor")) {
          PetscCall(KSPReset(ksp));
          PetscCall(KSPSetOperators(ksp, A, A));
          PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
          Try(ierr, KSPSetUp(ksp));
          PetscCall(CheckError(ierr, what, "-matching_pc_type sor", "structurally singular, rank"));
        }
        PetscCall(KSPDestroy(&ksp));
        PetscCall(OptionsPop(&options));
      }
    }
    PetscCall(DestroyAll(&x, &b, &A));
  }
  PetscCall(Verdict("places of the diagonal without an entry"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the preconditioner has failed with this reason on all processes */
static PetscErrorCode CheckReason(const char what[], KSP ksp, PCFailedReason expected)
{
  PCFailedReason reason;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCGetFailedReason(pc, &reason));
  PetscCall(ComplainIf(reason != expected, "%s: %s in place of %s", what, PCFailedReasons[reason], PCFailedReasons[expected]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values on the last process with which a set-up fails */
typedef enum {
  INSIDE,    /* NaN or Inf in the diagonal block */
  OUTSIDE,   /* the same outside of it */
  NO_FACTORS /* a row of zeros */
} Failure;
static const char *const failures[] = {"inside", "outside", "no factors"};

/* Checks that the results of all kinds of applications are not finite, and that the view names the row */
static PetscErrorCode CheckNotFinite(const char what[], PC pc, PetscInt row, Vec b, Vec x)
{
  PetscInt  lines;
  PetscReal number = -1.0;
  Mat       X, Y;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)pc, "no matching: row ", 1, &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != row, "%s: row %g in %" INT " lines of the view", what, (double)number, lines));
  PetscCall(DenseCreate(b, 2, &X));
  PetscCall(DenseCreate(b, 2, &Y));
  for (PetscInt k = 0; k < 3; k++) {
    if (k == 0) PetscCall(PCApply(pc, b, x));
    else if (k == 1) PetscCall(PCApplyTranspose(pc, b, x));
    else {
      PetscCall(PCMatApply(pc, X, Y));
      PetscCall(ColumnGet(Y, 1, x));
    }
    PetscCall(VecNorm(x, NORM_2, &number));
    PetscCall(ComplainIf(!PetscIsInfOrNanReal(number), "%s: application %" INT " has norm %g", what, k, (double)number));
  }
  PetscCall(DestroyAll(&Y, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* All processes agree on a failure of the last one, in the first set-up or later; then good values */
static PetscErrorCode CheckFailure(const char solver[], Failure failure, PetscBool late)
{
  const PetscBool last = (PetscBool)(Rank() == Processes() - 1);
  PetscInt        begin, end, row;
  Mat             A;
  Vec             b, x;
  KSP             ksp;
  PC              pc;
  char            what[128];

  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s", solver, failures[failure], late ? "late" : "at first"));
  PetscCall(SystemCreate(&solved, 60, &A, &b, &x));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  if (failure == NO_FACTORS) {
    /* explicit zeros in the whole row, so that A~ stores its diagonal entry for any permutation */
    PetscCall(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, PETSC_TRUE));
    for (PetscInt j = begin; last && j < end; j++) PetscCall(MatSetValue(A, begin, j, 0.0, ADD_VALUES));
    PetscCall(MatAssemble(A));
  }
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  PetscCall(KSPSetType(ksp, solver));
  PetscCall(KSPGetPC(ksp, &pc));
  if (late) PetscCall(KSPSolve(ksp, b, x));
  row = begin + (failure == OUTSIDE); /* of A: the last row of T, or the first one */
  if (failure == NO_FACTORS) PetscCall(MatZeroRows(A, last ? 1 : 0, &row, 0.0, NULL, NULL));
  else {
    const PetscReal values[] = {NAN, INFINITY};

    if (last) PetscCall(MatSetValue(A, row, failure == OUTSIDE ? begin - 1 : end - 1, values[late], INSERT_VALUES));
    PetscCall(MatAssemble(A));
  }
  PetscCallMPI(MPI_Bcast(&row, 1, MPIU_INT, Processes() - 1, PETSC_COMM_WORLD));
  PetscCall(KSPSetOperators(ksp, A, A)); /* before 3.26 the solver does not detect new values */
  for (PetscInt time = 0; time < 2; time++) {
    PetscCall(CheckFailed(what, ksp, b, x));
    PetscCall(
      CheckReason(what, ksp,
                  failure != NO_FACTORS ? PC_FACTOR_OTHER : (Processes() == 1 ? PC_FACTOR_NUMERIC_ZEROPIVOT : PC_SUBPC_ERROR)));
  }
  if (failure != NO_FACTORS) PetscCall(CheckNotFinite(what, pc, row, b, x));

  PetscCall(HiddenFill(&solved, A));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(VecSet(x, 0.0));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckReason(what, ksp, PC_NOERROR));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(!(reason > 0), "%s: %s with good values", what, KSPConvergedReasons[reason]));
  PetscCall(CheckFresh(what, pc, PLAIN, A, b));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestFailures(void)
{
  const char *const solvers[] = {KSPIDRS, KSPGMRES, KSPBCGS, KSPPREONLY};

  PetscFunctionBeginUser;
  for (PetscInt failure = INSIDE; failure <= NO_FACTORS; failure++) {
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(solvers); k++) {
      for (PetscInt late = 0; late < 2; late++) {
        if (failure != OUTSIDE || Processes() > 1) PetscCall(CheckFailure(solvers[k], (Failure)failure, (PetscBool)late));
      }
    }
    if (failure == OUTSIDE) PetscCall(Verdict("entries that are not finite"));
  }
  PetscCall(Verdict("failures inside"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Two rows become equal, for which the permutation is kept and the factors fail; then good values, which it suits too */
static PetscErrorCode TestEqualRows(void)
{
  const PetscScalar values[2][4] = {
    {4.0, -1.5, -0.5, 4.0},
    {1.0, 1.0,  1.0,  1.0}
  };
  const PetscBool last = (PetscBool)(Rank() == Processes() - 1);
  Mat             A;
  Vec             b, x;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  for (PetscInt bad = 0; bad < 5; bad++) {
    const PetscInt rows[] = {28, 29};

    if (last) PetscCall(MatSetValues(A, 2, rows, 2, rows, values[bad % 2], INSERT_VALUES));
    if (last) PetscCall(MatSetValue(A, 28, 27, bad % 2 ? 0.0 : -0.5, INSERT_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(KSPSetOperators(ksp, A, A)); /* before 3.26 the solver does not detect new values */
    PetscCall(VecSet(x, 0.0));
    PetscCall(KSPSolve(ksp, b, x));
    if (bad % 2) {
      KSPConvergedReason reason;

      /* the factors of cuSPARSE do not report a zero pivot */
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED && reason != KSP_DIVERGED_NANORINF, "bad values: %s",
                           KSPConvergedReasons[reason]));
    } else PetscCall(CheckSolved("good values", ksp, A, b, x));
  }
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("equal rows"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An application fails if the inner application fails; the next solve starts without a failure */
static PetscErrorCode TestFailedApplication(void)
{
  KSPConvergedReason reason;
  Mat                A;
  Vec                b, x;
  KSP                ksp, sub;
  PC                 pc, inner;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(&solved, 90, &A, &b, &x));
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCSetType(inner, PCBJIDRS));
  PetscCall(PCBJIDRSGetKSP(inner, &sub));
  for (PetscInt time = 0; time < 4; time++) {
    PetscCall(KSPSetType(ksp, time < 2 ? KSPPREONLY : KSPFGMRES));
    PetscCall(KSPSetTolerances(sub, 1e-30, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT)); /* nothing meets it */
    PetscCall(CheckFailed("a tolerance of 1e-30", ksp, b, x));
    PetscCall(CheckReason("after this tolerance", ksp, PC_NOERROR));
    PetscCall(KSPSetTolerances(sub, 1e-5, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ComplainIf(!(reason > 0), "a tolerance of 1e-5: %s", KSPConvergedReasons[reason]));
  }
  PetscCall(KSPSetTolerances(sub, 1e-30, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(PCApply(pc, b, x));
  {
    PCFailedReason failed;

    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(ComplainIf(failed != PC_SUBPC_ERROR, "PCApply(): %s", PCFailedReasons[failed]));
  }
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("failed applications"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner that tells a failure of the last process by its reason only, with a finite result */
static PetscErrorCode ShellTells(PC pc, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  if (Rank() == Processes() - 1) PetscCall(PCSetFailedReason(pc, PC_SUBPC_ERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ShellTellsColumns(PC pc, Mat X, Mat Y)
{
  PetscFunctionBeginUser;
  PetscCall(MatCopy(X, Y, SAME_NONZERO_PATTERN));
  if (Rank() == Processes() - 1) PetscCall(PCSetFailedReason(pc, PC_SUBPC_ERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Such a failure ends all solvers on all processes, in a solve, in a transposed solve and for several columns */
static PetscErrorCode TestToldFailure(void)
{
  const char *const solvers[] = {KSPIDRS, KSPFGMRES, KSPGMRES, KSPBCGS, KSPRICHARDSON, KSPPREONLY};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(solvers); is++) {
    for (PetscInt mode = 0; mode < 3; mode++) {
      static const char *const modes[] = {"KSPSolve()", "KSPSolveTranspose()", "KSPMatSolve()"};
      KSPConvergedReason       reason;
      PetscErrorCode           ierr;
      Mat                      A, B, X;
      Vec                      b, x;
      KSP                      ksp;
      PC                       pc, inner;

      PetscCall(SystemCreate(&solved, 60, &A, &b, &x));
      PetscCall(DenseCreate(b, 3, &B));
      PetscCall(DenseCreate(b, 3, &X));
      PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
      PetscCall(KSPSetType(ksp, solvers[is]));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(PCMatchingGetPC(pc, &inner));
      PetscCall(PCSetType(inner, PCSHELL));
      PetscCall(PCShellSetApply(inner, ShellTells));
      PetscCall(PCShellSetApplyTranspose(inner, ShellTells));
      PetscCall(PCShellSetMatApply(inner, ShellTellsColumns));
      if (mode == 0) PetscCall(KSPSolve(ksp, b, x));
      else if (mode == 1) PetscCall(KSPSolveTranspose(ksp, b, x));
      else Try(ierr, KSPMatSolve(ksp, B, X)); /* before 3.22 KSPPREONLY cannot make all dense matrices infinite: an error */
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED && !(mode == 2 && ierr && PETSC_VERSION_LT(3, 22, 0)), "%s, %s: %s",
                           solvers[is], modes[mode], KSPConvergedReasons[reason]));
      PetscCall(DestroyAll(&ksp, &X, &B, &x, &b, &A));
    }
  }
  PetscCall(Verdict("failures told by a reason"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts these lines of -info on the first process during this set-up */
static PetscErrorCode InfoLines(PC pc, const char text[], PetscReal *number, PetscInt *lines)
{
  char file[PETSC_MAX_PATH_LEN];

  PetscFunctionBeginUser;
  PetscCall(PetscInfoSetFile("pc_matching.info", "w"));
  PetscCall(PetscInfoAllow(PETSC_TRUE));
  PetscCall(PCSetUp(pc));
  PetscCall(PetscInfoAllow(PETSC_FALSE));
  PetscCall(PetscInfoSetFile(NULL, NULL));
  PetscCall(PetscSNPrintf(file, sizeof(file), "pc_matching.info.%d", (int)Rank()));
  PetscCallMPI(MPI_Barrier(PETSC_COMM_WORLD));
  *number = -1.0;
  PetscCall(FileNumbers(file, text, 1, number, lines));
  if (Rank()) (void)remove(file);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestInfo(void)
{
  Hidden    hidden = usual;
  PetscReal number;
  PetscInt  lines, begin;
  Mat       A;
  Vec       b;
  PC        pc;

  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &A, &b));
  PetscCall(MatchingCreate(A, PCJACOBI, &pc));
  PetscCall(InfoLines(pc, "A new matching moves ", &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != 60, "first values: %" INT " lines, %g", lines, (double)number));
  PetscCall(MatScale(A, 2.0));
  PetscCall(InfoLines(pc, "The permutation is kept", &number, &lines));
  PetscCall(ComplainIf(lines != 1, "new values: %" INT " lines", lines));
  hidden.weight[0] = 1e-6;
  hidden.weight[1] = 1.0;
  PetscCall(HiddenFill(&hidden, A));
  PetscCall(InfoLines(pc, "The permutation does not fit the new values", &number, &lines));
  PetscCall(ComplainIf(lines != 1, "permuted values: %" INT " lines", lines));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  if (Rank() == 0) PetscCall(MatSetValue(A, begin + 5, begin + 5, NAN, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(InfoLines(pc, "No matching: row ", &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != 5, "NaN: %" INT " lines, %g", lines, (double)number));
  PetscCall(DestroyAll(&pc, &b, &A));
  PetscCall(Verdict("info"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the set-up for this matrix, which is destroyed, is an error on all processes, with these words */
static PetscErrorCode CheckSetUpRefused(Mat *A, const char name[], const char value[])
{
  PetscErrorCode ierr;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetOptionsPrefix(pc, "b_"));
  PetscCall(PCSetType(pc, PCMATCHING));
  PetscCall(PCSetOperators(pc, *A, *A));
  Try(ierr, PCSetUp(pc));
  PetscCall(CheckError(ierr, ((PetscObject)*A)->type_name, name, value));
  PetscCall(CheckError(ierr, ((PetscObject)*A)->type_name, "-b_pc_type matching", "use a matrix of type aij"));
  PetscCall(ComplainIf(ierr != PETSC_ERR_SUP, "%s: error code %d", ((PetscObject)*A)->type_name, (int)ierr));
  PetscCall(DestroyAll(&pc, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ShellFails(PC pc, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  SETERRQ(PetscObjectComm((PetscObject)pc), PETSC_ERR_USER, "an error of a shell");
}

static PetscErrorCode TestBadInput(void)
{
  Mat            A, bad;
  Vec            b, x;
  PC             pc, inner;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(&usual, MATAIJ, 6, PETSC_DETERMINE, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(MatConvert(A, MATBAIJ, MAT_INITIAL_MATRIX, &bad));
  PetscCall(CheckSetUpRefused(&bad, "baij", "type"));
  PetscCall(MatConvert(A, MATDENSE, MAT_INITIAL_MATRIX, &bad));
  PetscCall(CheckSetUpRefused(&bad, "dense", "type"));
  PetscCall(ShellCreate(A, PassMult, A, &bad));
  PetscCall(CheckSetUpRefused(&bad, "shell", "type"));
  for (PetscInt l = 0; l < (Processes() > 1 ? 3 : 2); l++) {
    /* not assembled, rectangular, and square with other columns than rows on the first two processes */
    const PetscInt columns[] = {6, 5, 6 + (Rank() == 0) - (Rank() == 1)};

    PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, 6, columns[l], PETSC_DETERMINE, PETSC_DETERMINE, 1, NULL, 1, NULL, &bad));
    if (l) PetscCall(MatAssemble(bad));
    PetscCall(CheckSetUpRefused(&bad, l ? "layout" : "not assembled", "aij"));
  }

  /* another type has no inner preconditioner */
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  CheckRefused(PCMatchingGetPC(pc, &inner), "PCMatchingGetPC", "");
  PetscCall(PCDestroy(&pc));

  /* a type that does not exist, and one without transposed application */
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetType(pc, PCMATCHING));
  PetscCall(PCMatchingGetPC(pc, &inner));
  CheckRefused(PCSetType(inner, "nonsense"), "nonsense", "");
  PetscCall(PCDestroy(&pc));
  PetscCall(MatchingCreate(A, PCBJIDRS, &pc));
  PetscCall(PCSetUp(pc));
  Try(ierr, PCApplyTranspose(pc, b, x));
  PetscCall(CheckError(ierr, "transposed", "-matching_pc_type bjidrs", "transposed"));
  PetscCall(Unlock(b));
  PetscCall(CheckFresh("after an error", pc, PCBJIDRS, A, b));
  PetscCall(PCDestroy(&pc));

  /* an error inside an application */
  PetscCall(MatchingCreate(A, PCSHELL, &pc));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCShellSetApply(inner, ShellFails));
  CheckRefused(PCApply(pc, b, x), "an error of a shell", "");
  PetscCall(Unlock(b));
  PetscCall(PCSetType(inner, PCJACOBI));
  PetscCall(CheckFresh("after an error inside", pc, PCJACOBI, A, b));
  PetscCall(PCDestroy(&pc));

  /* errors of the set-up, then a good matrix */
  PetscCall(MatConvert(A, MATBAIJ, MAT_INITIAL_MATRIX, &bad));
  PetscCall(MatchingCreate(bad, PCJACOBI, &pc));
  Try(ierr, PCSetUp(pc));
  PetscCall(CheckError(ierr, "baij", "baij", ""));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("aij after baij", pc, PCJACOBI, A, b));
  PetscCall(DestroyAll(&pc, &bad, &x, &b, &A));
  PetscCall(Verdict("bad input"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(TestReference());
  PetscCall(TestExact());
  PetscCall(TestColumns());
  PetscCall(TestOtherVectors());
  PetscCall(TestNewValues());
  PetscCall(TestPattern());
  PetscCall(TestReuse());
  PetscCall(TestBlocks());
  PetscCall(TestSolvers());
  PetscCall(TestMatSolve());
  PetscCall(TestZeroDiagonal());
  PetscCall(TestSmall());
  PetscCall(TestSingular());
  PetscCall(TestEmptyPlaces());
  PetscCall(TestOptions());
  PetscCall(TestFailures());
  PetscCall(TestEqualRows());
  PetscCall(TestFailedApplication());
  PetscCall(TestToldFailure());
  PetscCall(TestInfo());
  PetscCall(TestBadInput());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
