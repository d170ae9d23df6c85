static char help[] = "PCMATCHING: the preconditioner compared with one that is made with functions of PETSc, transposed\n\
applications, several columns, new values, patterns and blocks, solvers on both sides,\n\
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

/* PETSc's default type */
#define PLAIN (Processes() == 1 ? PCILU : PCBJACOBI)

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
static const char *const types[] = {PCJACOBI, PCILU, PCSOR, PCBJACOBI, PCPOLY};
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
  return (Is(type, PCPOLY) ? 1e6 : 1e4) * PETSC_MACHINE_EPSILON;
}

/* The application agrees with the reference, for all layouts and types of matrices, also transposed if PETSc can do that */
static PetscErrorCode TestReference(void)
{
  PetscFunctionBeginUser;
  for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
    for (size_t t = 0; t < TYPES; t++) {
      PetscInt  n = PETSC_DECIDE;
      Mat       A;
      Vec       x, y, z;
      Reference reference;
      PC        pc;

      if (!Runs(types[t])) continue;
      PetscCall(LayoutSize(PETSC_COMM_WORLD, (Layout)layout, 90, &n));
      PetscCall(HiddenCreate(&usual, t % 2 ? MATAIJ : MATAIJSTREAM, n, 90, &A, &x));
      PetscCall(VecDuplicate(x, &y));
      PetscCall(VecDuplicate(x, &z));
      PetscCall(ReferenceCreate(A, &reference));
      PetscCall(InnerSet(reference.inner, types[t]));
      PetscCall(PCSetUp(reference.inner));
      PetscCall(MatchingCreate(A, types[t], &pc));
      for (PetscInt transpose = 0; transpose < (Is(types[t], PCSOR) ? 1 : 2); transpose++) {
        char what[128];

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, layout %" INT "%s", types[t], layout, transpose ? ", transposed" : ""));
        PetscCall(ReferenceApply(&reference, (PetscBool)transpose, x, z));
        if (transpose) PetscCall(PCApplyTranspose(pc, x, y));
        else PetscCall(PCApply(pc, x, y));
        PetscCall(CheckEqual(what, y, z, Rounding(types[t])));
      }
      PetscCall(ReferenceDestroy(&reference));
      PetscCall(DestroyAll(&pc, &z, &y, &x, &A));
    }
  }
  PetscCall(Verdict("by hand"));
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
  for (PetscInt t = 0; t < 2; t++) {
    const char *const type = t ? PCPOLY : PLAIN;
    PC                pc;

    PetscCall(MatchingCreate(A, type, &pc));
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
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s: column %" INT " of %" INT, type, j, numbers[k]));
        PetscCall(CheckEqual(what, y, x, Rounding(type)));
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
  Mat A, X, Y;
  Vec b, x, bother, xother;
  PC  pc;

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
    }
    PetscCall(PCApply(pc, b, x));
    PetscCall(MatCreate(PETSC_COMM_WORLD, &X));
    PetscCall(MatSetSizes(X, 90, 3, 90, 3));
    PetscCall(MatSetType(X, MATMPIDENSE)); /* its columns are of type VECMPI before PETSc 3.26 */
    PetscCall(MatSetUp(X));
    for (PetscInt j = 0; j < 3; j++) PetscCall(ColumnSet(X, j, bother));
    PetscCall(MatAssemble(X));
    PetscCall(MatDuplicate(X, MAT_COPY_VALUES, &Y));
    if (PETSC_VERSION_LT(3, 19, 0)) { /* PCILU of newer ones refuses this type */
      PetscCall(PCMatApply(pc, X, Y));
      PetscCall(ColumnGet(Y, 2, xother));
      PetscCall(CheckEqual("columns", xother, x, 0.0));
    }
    PetscCall(DestroyAll(&Y, &X, &pc, &xother, &bother, &x, &b, &A));
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

/*
   The same pattern: if values change a little, the permutation and the inner matrix are kept. If values belong to another
   permutation, a new matching is computed. A new preconditioner has the same results
*/
static PetscErrorCode TestNewValues(void)
{
  /* with a common factor a new matching has the same scalings as the adapted one, up to rounding */
  const char *const steps[] = {"first values", "values with a factor", "changed values", "permuted values",
                               "permuted values with a factor"};

  PetscFunctionBeginUser;
  for (PetscInt t = 0; t < 2; t++) {
    const char *const type   = t ? PCPOLY : PLAIN;
    Hidden            hidden = usual;
    PetscObjectId     id, last   = 0;
    PetscObjectState  state, old = 0;
    Mat               A, inner;
    Vec               b;
    PC                pc;

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
      /* ILU divides by the diagonal and does not depend on the scalings */
      if (k == 2 && t) PetscCall(PCSetUp(pc));
      else PetscCall(CheckFresh(what, pc, type, A, b));
      PetscCall(InnerMat(pc, &inner, &id));
      PetscCall(PetscObjectStateGet((PetscObject)inner, &state));
      if (k) PetscCall(ComplainIf((id == last) != (k != 3), "%s: %s inner matrix", what, id == last ? "the same" : "another"));
      PetscCall(ComplainIf(id == last && state <= old,
                           "%s: the inner matrix has state %" PetscInt64_FMT " after state %" PetscInt64_FMT, what,
                           (PetscInt64)state, (PetscInt64)old));
      last = id;
      old  = state;
    }
    PetscCall(DestroyAll(&pc, &b, &A));
  }
  PetscCall(Verdict("new values"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Another pattern in the same matrix, another matrix, and a shell for the system */
static PetscErrorCode TestPattern(void)
{
  const char *const type   = PLAIN;
  Hidden            hidden = usual;
  Mat               A, other, shell, inner;
  Vec               b, bother;
  PC                pc;
  PetscInt          begin;
  PetscObjectId     ids[2];

  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &A, &b));
  PetscCall(MatchingCreate(A, type, &pc));
  PetscCall(CheckFresh("first pattern", pc, type, A, b));
  PetscCall(InnerMat(pc, &inner, &ids[0]));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  /* a small entry in a new place on the last process: the permutation is the same, and the pattern of A~ is another one */
  if (Rank() == Processes() - 1) PetscCall(MatSetValue(A, begin + 2, begin + 5, 1e-9, ADD_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(CheckFresh("one entry more", pc, type, A, b));
  PetscCall(InnerMat(pc, &inner, &ids[1]));
  PetscCall(ComplainIf(ids[1] == ids[0], "one entry more: the same inner matrix"));
  hidden.shift[0] = 6;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 60, &other, &bother));
  PetscCall(MatAXPY(A, 1e-9, other, DIFFERENT_NONZERO_PATTERN)); /* replaces the matrix in A */
  PetscCall(CheckFresh("MatAXPY()", pc, type, A, b));
  PetscCall(ShellCreate(A, PassMult, A, &shell));
  PetscCall(PCSetOperators(pc, shell, other));
  PetscCall(CheckFresh("another matrix, a shell for the system", pc, type, other, bother));
  PetscCall(PCReset(pc));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("after PCReset()", pc, type, A, b));
  PetscCall(DestroyAll(&pc, &shell, &bother, &other, &b, &A));
  PetscCall(Verdict("another pattern"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A type whose products read a copy of the values */
static PetscErrorCode TestCopies(void)
{
  Mat A, copy;
  Vec b, x, y;
  PC  pc, other;

  PetscFunctionBeginUser;
  PetscCall(HiddenCreate(&usual, MATAIJ, PETSC_DECIDE, 60, &A, &b));
  PetscCall(MatConvert(A, MATAIJCRL, MAT_INITIAL_MATRIX, &copy));
  PetscCall(DuplicateAll(b, &x, &y));
  PetscCall(MatchingCreate(A, PCPOLY, &pc));
  PetscCall(MatchingCreate(copy, PCPOLY, &other));
  PetscCall(PCApply(pc, b, x));
  PetscCall(PCApply(other, b, y));
  PetscCall(CheckEqual(MATAIJCRL, y, x, Rounding(PCPOLY)));
  PetscCall(DestroyAll(&pc, &other, &x, &y, &b, &A, &copy));
  PetscCall(Verdict("values that a type copies"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A reused preconditioner, or inner preconditioner, has the same bits for other values and another pattern of the matrix */
static PetscErrorCode TestReuse(void)
{
  Mat A;
  Vec b, x, y;

  PetscFunctionBeginUser;
  for (PetscInt inside = 0; inside < 2; inside++) {
    Hidden   hidden = usual;
    PetscInt begin, end;
    PC       pc, inner;

    PetscCall(SystemCreate(&hidden, 60, &A, &b, &x));
    PetscCall(VecDuplicate(b, &y));
    PetscCall(MatchingCreate(A, PLAIN, &pc));
    PetscCall(PCMatchingGetPC(pc, &inner));
    PetscCall(PCApply(pc, b, x));
    PetscCall(PCSetReusePreconditioner(inside ? inner : pc, PETSC_TRUE));
    hidden.weight[0] = 1e-6;
    hidden.weight[1] = 1.0;
    PetscCall(HiddenFill(&hidden, A));
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    PetscCall(MatSetValue(A, begin, end - 1, 0.25, INSERT_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(PCSetOperators(pc, A, A));
    PetscCall(PCApply(pc, b, y));
    PetscCall(CheckEqual("reused", y, x, 0.0));
    PetscCall(PCSetReusePreconditioner(inside ? inner : pc, PETSC_FALSE));
    PetscCall(MatScale(A, 2.0));
    PetscCall(PCSetOperators(pc, A, A));
    PetscCall(CheckFresh("no longer reused", pc, PLAIN, A, b));
    PetscCall(DestroyAll(&pc, &y, &x, &b, &A));
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

/* Solvers of PETSc and of this library on both sides, whose system has another matrix than the preconditioner */
static PetscErrorCode TestSolvers(void)
{
  const char *const solvers[] = {KSPIDRS, KSPGMRES};
  const PCSide      sides[]   = {PC_LEFT, PC_RIGHT};
  Hidden            hidden    = solved;
  PetscReal         norm, start;
  Mat               A, near;
  Vec               b, x, bnear;
  KSP               ksp;

  PetscFunctionBeginUser;
  hidden.range = PetscMin(1.0, solved.range);
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 200, &A, &b));
  hidden.change = 0.05;
  PetscCall(HiddenCreate(&hidden, MATAIJ, PETSC_DECIDE, 200, &near, &bnear));
  PetscCall(VecDuplicate(b, &x));
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(solvers); k++) {
    for (size_t s = 0; s < PETSC_STATIC_ARRAY_LENGTH(sides); s++) {
      KSPConvergedReason reason;
      char               what[128];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", solvers[k], PCSides[sides[s]]));
      PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
      PetscCall(KSPSetType(ksp, solvers[k]));
      PetscCall(KSPSetOperators(ksp, A, near));
      PetscCall(KSPSetPCSide(ksp, sides[s]));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(SolverNorm(ksp, b, x, &norm));
      PetscCall(SolverNorm(ksp, b, NULL, &start));
      PetscCall(ComplainIf(!(reason > 0), "%s: %s", what, KSPConvergedReasons[reason]));
      PetscCall(ComplainIf(!(norm <= 10 * rtol * start), "%s: the norm is %g of %g", what, (double)norm, (double)start));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&x, &bnear, &b, &near, &A));
  PetscCall(Verdict("solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* No rows, one row, and fewer rows than processes */
static PetscErrorCode TestSmall(void)
{
  PetscFunctionBeginUser;
  for (PetscInt n = 0; n < 3; n++) {
    Mat  A, X, Y;
    Vec  b, x;
    PC   pc;
    char what[128];

    PetscCall(SystemCreate(&usual, n, &A, &b, &x));
    PetscCall(MatchingCreate(A, PLAIN, &pc));
    PetscCall(PetscSNPrintf(what, sizeof(what), "%" INT " rows", n));
    PetscCall(CheckFresh(what, pc, PLAIN, A, b));
    PetscCall(MatScale(A, 3.0));
    PetscCall(CheckFresh(what, pc, PLAIN, A, b));
    PetscCall(DenseCreate(b, 2, &X));
    PetscCall(DenseCreate(b, 2, &Y));
    PetscCall(PCMatApply(pc, X, Y));
    PetscCall(PCApplyTranspose(pc, b, x));
    PetscCall(CheckViewLines(what, (PetscObject)pc));
    PetscCall(DestroyAll(&Y, &X, &pc, &x, &b, &A));
  }
  PetscCall(Verdict("few rows"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the type of the inner preconditioner */
static PetscErrorCode CheckType(const char what[], PC pc, const char prefix[], const char type[])
{
  const char *has;
  PetscBool   same;

  PetscFunctionBeginUser;
  PetscCall(PCMatchingGetPC(pc, &pc));
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
  PetscCall(CheckType("a prefix", pc, "a_matching_", PCPOLY));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCPolyGetDegree(inner, &degree, NULL));
  PetscCall(ComplainIf(degree != 3, "degree %" INT, degree));
  PetscCall(ViewNumbers((PetscObject)ksp, "PC Object: (a_matching_) ", 1, &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != Processes(), "the inner preconditioner is in the view %" INT " times", lines));
  PetscCall(ViewNumbers((PetscObject)ksp, "maximum product matching: ", 1, &number, &lines));
  PetscCall(ComplainIf(lines != 1 || number != 60, "%g rows are moved", (double)number));
  PetscCall(KSPDestroy(&ksp));
  /* a matching inside blocks */
  PetscCall(SolveWith("-pc_type bjacobi -sub_pc_type matching -sub_matching_pc_type sor", NULL, PCNONE, A, b, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCBJacobiGetSubKSP(pc, NULL, NULL, &sub));
  PetscCall(KSPGetPC(sub[0], &pc));
  PetscCall(CheckType("a matching in blocks", pc, "sub_matching_", PCSOR));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(OptionsPush("-matching_pc_type sor", &options));
  /* no options are read unless requested; then the type is set after the options have been read */
  for (PetscInt read = 0; read < 2; read++) {
    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    if (read) PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCMATCHING));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckType("options", pc, "matching_", read ? PCSOR : PLAIN));
    if (read) continue;
    /* another type after a solve */
    PetscCall(PCMatchingGetPC(pc, &inner));
    PetscCall(PCSetType(inner, PCJACOBI));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckSolved("another type", ksp, A, b, x));
    PetscCall(CheckFresh("another type", pc, PCJACOBI, A, b));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(OptionsPop(&options));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that this solve ends with a failed preconditioner on all processes, or does not */
static PetscErrorCode CheckFailed(const char what[], KSP ksp, Vec b, Vec x, PetscBool expected)
{
  KSPConvergedReason reason;
  PetscErrorCode     ierr;

  PetscFunctionBeginUser;
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(ComplainIf(ierr, "%s: error \"%s\"", what, message));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf((reason == KSP_DIVERGED_PC_FAILED) != expected, "%s: %s", what, KSPConvergedReasons[reason]));
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
    {"-matching_pc_type sor",                                                                                 PETSC_TRUE },
    {"-matching_pc_type bjacobi",                                                                             PETSC_TRUE },
    {"-matching_pc_type bjacobi -matching_sub_pc_type ilu -matching_sub_pc_factor_mat_solver_type petscidrs", PETSC_TRUE },
    {"-matching_pc_type sor -matching_pc_sor_diagonal_shift 1",                                               PETSC_FALSE},
    {"-matching_pc_type bjacobi -matching_sub_pc_factor_shift_type nonzero",                                  PETSC_FALSE},
    {"-matching_pc_type jacobi",                                                                              PETSC_FALSE}
  };
  const char *const solvers[] = {KSPIDRS, KSPRICHARDSON, KSPPREONLY};

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
    for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(inner) * PETSC_STATIC_ARRAY_LENGTH(solvers); l++) {
      const size_t      in     = l / PETSC_STATIC_ARRAY_LENGTH(solvers);
      const char *const solver = solvers[l % PETSC_STATIC_ARRAY_LENGTH(solvers)];
      PetscOptions      options;
      PetscErrorCode    ierr;
      char              what[256];
      KSP               ksp;
      PC                pc;

      PetscCall(OptionsPush(inner[in].options, &options));
      PetscCall(
        PetscSNPrintf(what, sizeof(what), "%s, %s, %s", empty ? "empty blocks" : "an empty row", solver, inner[in].options));
      PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
      PetscCall(KSPSetType(ksp, solver));
      PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 5));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(CheckFailed(what, ksp, b, x, inner[in].fails));
      PetscCall(ViewNumbers((PetscObject)pc, "structurally singular: rank ", 1, &number, &lines));
      PetscCall(
        ComplainIf(lines != 1 || number != (empty ? 0 : N - 1), "%s: rank %g in %" INT " lines", what, (double)number, lines));
      if (!l) {
        PetscCall(KSPReset(ksp));
        PetscCall(KSPSetOperators(ksp, A, A));
        PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
        Try(ierr, KSPSetUp(ksp));
        PetscCall(CheckError(ierr, what, "-matching_pc_type sor", "structurally singular, rank"));
      }
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
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

/* All processes agree on a value of the last one that is not finite, in the first set-up or later; then good values */
static PetscErrorCode CheckFailure(const char solver[], PetscBool outside, PetscBool late)
{
  const PetscBool    last = (PetscBool)(Rank() == Processes() - 1);
  PetscInt           begin, end, row;
  KSPConvergedReason reason;
  Mat                A;
  Vec                b, x;
  KSP                ksp;
  PC                 pc;
  char               what[128];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s", solver, outside ? "outside" : "inside", late ? "late" : "at first"));
  PetscCall(SystemCreate(&solved, 60, &A, &b, &x));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(SolverCreate(A, 4, PCMATCHING, &ksp));
  PetscCall(KSPSetType(ksp, solver));
  PetscCall(KSPGetPC(ksp, &pc));
  if (late) PetscCall(KSPSolve(ksp, b, x));
  row = begin + outside; /* of A: the last row of T, or the first one */
  if (last) PetscCall(MatSetValue(A, row, outside ? begin - 1 : end - 1, late ? INFINITY : NAN, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCallMPI(MPI_Bcast(&row, 1, MPIU_INT, Processes() - 1, PETSC_COMM_WORLD));
  PetscCall(KSPSetOperators(ksp, A, A)); /* before 3.26 the solver does not detect new values */
  for (PetscInt time = 0; time < 2; time++) {
    PetscCall(CheckFailed(what, ksp, b, x, PETSC_TRUE));
    PetscCall(CheckReason(what, ksp, PC_FACTOR_OTHER));
  }
  PetscCall(CheckNotFinite(what, pc, row, b, x));

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
  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < (Processes() > 1 ? 8 : 4); l++)
    PetscCall(CheckFailure(l % 2 ? KSPPREONLY : KSPIDRS, (PetscBool)(l / 4), (PetscBool)(l / 2 % 2)));
  PetscCall(Verdict("entries that are not finite"));
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

/* The inner preconditioner is the identity. If it fails, only the reason on the last process says so, and the result is finite */
static PetscBool shellfails;

static PetscErrorCode ShellTells(PC pc, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  if (shellfails && Rank() == Processes() - 1) PetscCall(PCSetFailedReason(pc, PC_SUBPC_ERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ShellTellsColumns(PC pc, Mat X, Mat Y)
{
  PetscFunctionBeginUser;
  PetscCall(MatCopy(X, Y, SAME_NONZERO_PATTERN));
  if (Rank() == Processes() - 1) PetscCall(PCSetFailedReason(pc, PC_SUBPC_ERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Such a failure ends all solvers on all processes, in a solve, in a transposed solve and for several columns. The next solve
   starts without it
*/
static PetscErrorCode TestToldFailure(void)
{
  const char *const solvers[] = {KSPIDRS, KSPFGMRES, KSPRICHARDSON, KSPPREONLY};

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
      shellfails = PETSC_TRUE;
      if (mode == 0) PetscCall(KSPSolve(ksp, b, x));
      else if (mode == 1) PetscCall(KSPSolveTranspose(ksp, b, x));
      else Try(ierr, KSPMatSolve(ksp, B, X)); /* before 3.22 KSPPREONLY cannot make all dense matrices infinite: an error */
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED && !(mode == 2 && ierr && PETSC_VERSION_LT(3, 22, 0)), "%s, %s: %s",
                           solvers[is], modes[mode], KSPConvergedReasons[reason]));
      shellfails = PETSC_FALSE;
      if (mode < 2) PetscCall(CheckReason(solvers[is], ksp, PC_NOERROR));
      if (mode == 0) PetscCall(CheckFailed(solvers[is], ksp, b, x, PETSC_FALSE));
      PetscCall(DestroyAll(&ksp, &X, &B, &x, &b, &A));
    }
  }
  PetscCall(Verdict("failures told by a reason"));
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
  /* another type, then a good matrix; not assembled, and rectangular */
  PetscCall(MatConvert(A, MATBAIJ, MAT_INITIAL_MATRIX, &bad));
  PetscCall(MatchingCreate(bad, PCJACOBI, &pc));
  Try(ierr, PCSetUp(pc));
  PetscCall(CheckError(ierr, "baij", "baij", "use a matrix of type aij"));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(CheckFresh("aij after baij", pc, PCJACOBI, A, b));
  PetscCall(DestroyAll(&pc, &bad));
  for (PetscInt l = 0; l < 2; l++) {
    PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, 6, l ? 5 : 6, PETSC_DETERMINE, PETSC_DETERMINE, 1, NULL, 1, NULL, &bad));
    if (l) PetscCall(MatAssemble(bad));
    PetscCall(MatchingCreate(bad, PCJACOBI, &pc));
    PetscCall(PCSetOptionsPrefix(pc, "b_"));
    Try(ierr, PCSetUp(pc));
    PetscCall(CheckError(ierr, "bad matrix", "-b_pc_type matching", l ? "layout" : "not assembled"));
    PetscCall(DestroyAll(&pc, &bad));
  }

  /* another type has no inner preconditioner */
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  CheckRefused(PCMatchingGetPC(pc, &inner), "PCMatchingGetPC", "");
  PetscCall(PCDestroy(&pc));

  /* a type without transposed application */
  PetscCall(MatchingCreate(A, PCBJIDRS, &pc));
  PetscCall(PCSetUp(pc));
  Try(ierr, PCApplyTranspose(pc, b, x));
  PetscCall(CheckError(ierr, "transposed", "-matching_pc_type bjidrs", "transposed"));
  PetscCall(Unlock(b));
  PetscCall(PCDestroy(&pc));

  /* an error inside an application */
  PetscCall(MatchingCreate(A, PCSHELL, &pc));
  PetscCall(PCMatchingGetPC(pc, &inner));
  PetscCall(PCShellSetApply(inner, ShellFails));
  CheckRefused(PCApply(pc, b, x), "an error of a shell", "");
  PetscCall(Unlock(b));
  PetscCall(PCSetType(inner, PCJACOBI));
  PetscCall(CheckFresh("after an error inside", pc, PCJACOBI, A, b));
  PetscCall(DestroyAll(&pc, &x, &b, &A));
  PetscCall(Verdict("bad input"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(TestReference());
  PetscCall(TestColumns());
  PetscCall(TestOtherVectors());
  PetscCall(TestNewValues());
  PetscCall(TestPattern());
  PetscCall(TestCopies());
  PetscCall(TestReuse());
  PetscCall(TestBlocks());
  PetscCall(TestSolvers());
  PetscCall(TestSmall());
  PetscCall(TestEmptyPlaces());
  PetscCall(TestOptions());
  PetscCall(TestFailures());
  PetscCall(TestEqualRows());
  PetscCall(TestToldFailure());
  PetscCall(TestBadInput());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
