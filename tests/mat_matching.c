static char help[] = "Maximum product matchings: certificates, structural ranks, entries of any size, new values, bad input.\n\n";

#include "systems.h"
#include <float.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmatching.h>

/* The smallest normal number */
#define LEAST ((PetscReal)(PetscDefined(USE_REAL_SINGLE) ? FLT_MIN : DBL_MIN))

static uint64_t seed;

static uint64_t RandomBits(void)
{
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* In [0, most) */
static PetscInt RandomInt(PetscInt most)
{
  return (PetscInt)(RandomBits() % (uint64_t)most);
}

/* In [least, most) */
static PetscReal RandomReal(PetscReal least, PetscReal most)
{
  return least + (most - least) * (PetscReal)((double)(RandomBits() >> 11) / (double)(UINT64_C(1) << 53));
}

static void RandomPermutation(PetscInt n, PetscInt permutation[])
{
  for (PetscInt i = 0; i < n; i++) {
    const PetscInt other = RandomInt(i + 1);

    permutation[i]     = permutation[other];
    permutation[other] = i;
  }
}

typedef enum {
  UNIFORM,  /* moduli from 0.01 to 1 */
  TIES,     /* powers of 2 */
  ONES,     /* all moduli equal */
  ZEROS,    /* integers, with explicit zeros */
  RANGE,    /* from 1e-300 to 1e300 in double precision */
  EXTREMES, /* the smallest denormal number, the largest number, and between */
  SCALED,   /* rows and columns scaled by 1e-150 to 1e150 */
  KINDS
} Kind;
static const char *const kinds[] = {"uniform", "ties", "ones", "zeros", "range", "extremes", "scaled"};

/* The largest decimal exponent of entries */
static PetscReal MaxExponent(void)
{
  return PetscFloorReal(PetscLog10Real(PETSC_MAX_REAL) - 8);
}

static PetscReal RandomModulus(Kind kind)
{
  const PetscReal extremes[] = {LEAST * PETSC_MACHINE_EPSILON, LEAST, PETSC_MAX_REAL, 1.0, 3.0, LEAST * 1000,
                                PETSC_MAX_REAL / 1000,         0.0};

  switch (kind) {
  case TIES:
    return (PetscReal)(1 << RandomInt(3));
  case ONES:
    return 1.0;
  case ZEROS:
    return (PetscReal)RandomInt(4);
  case RANGE:
    return PetscPowReal(10.0, RandomReal(-MaxExponent(), MaxExponent()));
  case EXTREMES:
    return extremes[RandomInt(PETSC_STATIC_ARRAY_LENGTH(extremes))];
  default:
    return RandomReal(0.01, 1.0);
  }
}

/* A number of this modulus: no other modulus is larger by rounding */
static PetscScalar RandomSign(PetscReal modulus)
{
#if PetscDefined(USE_COMPLEX)
  const PetscScalar signs[] = {1.0, -1.0, PETSC_i, -PETSC_i};

  /* not by a multiplication, which turns the smallest number into 0 or the largest into a NaN */
  return RandomInt(2) ? PetscCMPLX(PetscRealPart(signs[RandomInt(2)]) * modulus, 0.0)
                      : PetscCMPLX(0.0, PetscImaginaryPart(signs[2 + RandomInt(2)]) * modulus);
#else
  return RandomInt(2) ? modulus : -modulus;
#endif
}

/* Returns the logarithm of a modulus in long double, whose range suffices; -infinity for zero */
static long double LogModulus(PetscScalar a)
{
#if PetscDefined(USE_COMPLEX)
  return logl(hypotl((long double)PetscRealPart(a), (long double)PetscImaginaryPart(a)));
#else
  return logl(fabsl((long double)a));
#endif
}

/* Problems have at most so many rows and entries */
#define MOST_ROWS    3000
#define MOST_ENTRIES 24000

/* A sparse matrix of one process, and its matching */
typedef struct {
  PetscInt    n, i[MOST_ROWS + 2], j[MOST_ENTRIES], column[MOST_ROWS], rank;
  PetscScalar a[MOST_ENTRIES];
  double      left[MOST_ROWS], right[MOST_ROWS];
} Problem;

static Problem problem;

static void ProblemClear(Problem *p)
{
  p->n    = 0;
  p->i[0] = p->i[1] = 0;
}

/* Adds an entry to the row after the first n rows */
static void ProblemEntry(Problem *p, PetscInt j, PetscScalar a)
{
  p->j[p->i[p->n + 1]]   = j;
  p->a[p->i[p->n + 1]++] = a;
}

/* Ends this row */
static void ProblemRow(Problem *p)
{
  p->n++;
  p->i[p->n + 1] = p->i[p->n];
}

/* Sets random entries, and the entries of the permutation unless it is NULL. Some rows, and some columns, have no entries */
static void ProblemRandom(Problem *p, PetscInt n, PetscReal density, Kind kind, const PetscInt permutation[], PetscReal missing)
{
  PetscReal scale[200] = {0.0}, rowscale;
  PetscBool gone[200];

  ProblemClear(p);
  for (PetscInt j = 0; j < n; j++) {
    gone[j] = (PetscBool)(RandomReal(0.0, 1.0) < missing);
    if (kind == SCALED) scale[j] = PetscPowReal(10.0, RandomReal(-0.5, 0.5) * MaxExponent());
  }
  for (PetscInt i = 0; i < n; i++) {
    const PetscBool empty = (PetscBool)(RandomReal(0.0, 1.0) < missing);

    rowscale = PetscPowReal(10.0, RandomReal(-0.5, 0.5) * MaxExponent());
    for (PetscInt j = 0; j < n; j++) {
      PetscReal modulus;

      if (empty || gone[j] || !(RandomReal(0.0, 1.0) < density || (permutation && permutation[i] == j))) continue;
      modulus = RandomModulus(kind);
      if (kind == SCALED) modulus *= rowscale * scale[j];
      ProblemEntry(p, j, RandomSign(modulus));
    }
    ProblemRow(p);
  }
}

/*
   Checks a matching of local rows by its certificate: a permutation, finite scalings, moduli of 1 in the matching and at most 1
   elsewhere. So no other permutation has a larger product. Returns the number of matched entries. The rounding errors of the
   logarithms grow with the largest logarithm and the number of paths
*/
static PetscErrorCode CheckCertificate(const char what[], const IDRSRows *rows, const PetscInt column[], const double left[],
                                       const double right[], PetscInt *matched)
{
  PetscInt   *count, wrong = 0, infinite = 0;
  long double most = 0.0, farthest = 0.0, size = 1.0;

  PetscFunctionBeginUser;
  PetscCall(PetscCalloc1(rows->n, &count));
  *matched = 0;
  for (PetscInt i = 0; i < rows->n; i++) {
    if (column[i] < 0 || column[i] >= rows->n || count[column[i]]++) wrong++;
    if (!isfinite(left[i]) || !isfinite(right[i])) infinite++;
    size = PetscMax(size, PetscMax(fabsl(left[i]), fabsl(right[i])));
  }
  for (PetscInt i = 0; i < rows->n; i++) {
    for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
      const long double a = LogModulus(rows->a[k]), scaled = a + left[i] + right[rows->j[k]];

      if (rows->a[k] == (PetscScalar)0.0) continue;
      size = PetscMax(size, fabsl(a));
      most = PetscMax(most, scaled);
      if (column[i] != rows->j[k]) continue;
      farthest = PetscMax(farthest, fabsl(scaled));
      (*matched)++;
    }
  }
  size *= 1e-15L * (long double)(rows->n + 8);
  PetscCall(ComplainIf(wrong, "%s: %" INT " columns are out of range or have two rows", what, wrong));
  PetscCall(ComplainIf(infinite, "%s: %" INT " scalings are not finite", what, infinite));
  PetscCall(ComplainIf(!(most <= size), "%s: a scaled entry has modulus exp(%g), rounding errors are up to %g", what, (double)most,
                       (double)size));
  PetscCall(ComplainIf(!(farthest <= size), "%s: a matched entry has modulus exp(%g), rounding errors are up to %g", what,
                       (double)farthest, (double)size));
  PetscCall(PetscFree(count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A path from row i to a free column through rows that have not been visited in this round */
static PetscBool KuhnAugment(const IDRSRows *rows, PetscInt i, PetscInt round, PetscInt visited[], PetscInt row[])
{
  for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
    const PetscInt j = rows->j[k];

    if (rows->a[k] == (PetscScalar)0.0 || visited[j] == round) continue;
    visited[j] = round;
    if (row[j] < 0 || KuhnAugment(rows, row[j], round, visited, row)) {
      row[j] = i;
      return PETSC_TRUE;
    }
  }
  return PETSC_FALSE;
}

/* The structural rank by a maximum cardinality matching */
static PetscErrorCode KuhnRank(const IDRSRows *rows, PetscInt *rank)
{
  PetscInt *visited, *row;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(rows->n, &visited, rows->n, &row));
  for (PetscInt j = 0; j < rows->n; j++) visited[j] = row[j] = -1;
  *rank = 0;
  for (PetscInt i = 0; i < rows->n; i++) *rank += KuhnAugment(rows, i, i, visited, row);
  PetscCall(PetscFree2(visited, row));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The matching of a problem, with its certificate and rank */
static PetscErrorCode CheckProblem(const char what[], Problem *p)
{
  const IDRSRows rows = {.n = p->n, .i = p->i, .j = p->j, .a = p->a};
  PetscInt       matched, rank;

  PetscFunctionBeginUser;
  PetscCall(IDRSMatchRows(&rows, PETSC_INFINITY, p->column, p->left, p->right, &p->rank));
  PetscCall(CheckCertificate(what, &rows, p->column, p->left, p->right, &matched));
  PetscCall(KuhnRank(&rows, &rank));
  PetscCall(ComplainIf(p->rank != rank || matched != rank,
                       "%s: rank %" INT ", not %" INT "; %" INT " rows have an entry in their column", what, p->rank, rank,
                       matched));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Random matrices of up to 60 rows, and singular patterns */
static PetscErrorCode TestReferences(void)
{
  Problem *p = &problem;
  PetscInt permutation[60], deficient = 0;

  PetscFunctionBeginUser;
  for (PetscInt singular = 0; singular < 2; singular++) {
    seed = 1 + (uint64_t)singular;
    for (PetscInt l = 0; l < 7000; l++) {
      const Kind      kind    = (Kind)(l % KINDS);
      const PetscInt  n       = 1 + RandomInt(l % 10 ? 12 : 60);
      const PetscReal density = singular ? RandomReal(0.0, 3.0 / n) : RandomReal(0.02, l % 10 ? 1.0 : 0.3);
      char            what[128];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %" INT " rows, case %" INT, kinds[kind], n, l));
      RandomPermutation(n, permutation);
      ProblemRandom(p, n, density, kind, !singular && l % 3 ? permutation : NULL, singular && l % 2 ? 0.2 : 0.0);
      PetscCall(CheckProblem(what, p));
      deficient += singular && p->rank < n;
    }
    if (singular) PetscCall(ComplainIf(deficient < 3500, "only %" INT " patterns are singular", deficient));
    PetscCall(Verdict(singular ? "singular patterns" : "up to 60 rows by certificates"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Matrices whose structure is difficult for the search. StructureRow() adds row i of n rows, and returns the column of the only
   optimum, or -1. Their ranks are n, except for the last three
*/
typedef enum {
  DOMINANT,   /* diagonally dominant rows, with equal entries off the diagonal */
  PATH,       /* the start matches the diagonal; the last row has the first column only, and shifts all others */
  HESSENBERG, /* large entries above the diagonal; the last row has none */
  CHAIN,      /* scalings outside the range of numbers: ratios of 1e20 */
  SHARING,    /* a third of the rows share a few columns */
  NO_ENTRIES,
  ALL_ZERO, /* explicit zeros alone */
  STRUCTURES
} Structure;
static const char *const structures[] = {"diagonally dominant",     "a path",     "Hessenberg",    "growing scalings",
                                         "rows that share columns", "no entries", "explicit zeros"};

static PetscInt StructureRow(Structure structure, PetscInt i, PetscInt n, Problem *p)
{
  PetscInt expected = -1;

  switch (structure) {
  case DOMINANT:
    for (PetscInt j = PetscMax(i - 2, 0); j < PetscMin(i + 3, n); j++)
      ProblemEntry(p, j, i == j ? 4.0 + (PetscReal)(i % 11) : -1.0);
    expected = i;
    break;
  case PATH:
    if (i < n - 1) ProblemEntry(p, i, 1.0 + (PetscReal)(i % 7));
    ProblemEntry(p, (i + 1) % n, i < n - 1 ? 0.5 : 1.0);
    expected = (i + 1) % n;
    break;
  case HESSENBERG:
    for (PetscInt j = PetscMax(i - 4, 0); j < PetscMin(i + 2, n); j++) ProblemEntry(p, j, j == i + 1 ? 8.0 : j == i ? 0.0 : 1.0);
    break;
  case CHAIN:
    ProblemEntry(p, i, 1e-10);
    if (i < n - 1) ProblemEntry(p, i + 1, 1e10);
    expected = i;
    break;
  case SHARING:
    for (PetscInt k = 0; k < 4; k++) ProblemEntry(p, i % 3 ? (i + k * k) % n : 10 * k, 1.0 + (PetscReal)((i * k) % 5));
    break;
  default:
    if (structure == ALL_ZERO) ProblemEntry(p, (i + 1) % n, 0.0);
    expected = i;
  }
  ProblemRow(p);
  return expected;
}

static PetscErrorCode TestStructures(void)
{
  const PetscInt n = MOST_ROWS;
  PetscInt       expected[MOST_ROWS];
  Problem       *p = &problem;

  PetscFunctionBeginUser;
  for (PetscInt structure = 0; structure < STRUCTURES; structure++) {
    PetscInt wrong = 0;

    ProblemClear(p);
    for (PetscInt i = 0; i < n; i++) expected[i] = StructureRow((Structure)structure, i, n, p);
    PetscCall(CheckProblem(structures[structure], p));
    for (PetscInt i = 0; i < n; i++) wrong += expected[i] >= 0 && p->column[i] != expected[i];
    PetscCall(ComplainIf(wrong || (structure < SHARING && p->rank != n), "%s: rank %" INT ", %" INT " rows are in another column",
                         structures[structure], p->rank, wrong));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The parameters of a matrix on all processes */
typedef struct {
  Layout    layout;
  PetscInt  N;
  PetscReal density; /* of the diagonal blocks */
  Kind      kind;
  PetscBool regular;  /* every diagonal block has a permutation without zeros */
  PetscReal outside;  /* factor of the entries outside of the diagonal blocks; 0: there are none */
  PetscInt  sequence; /* seed of the diagonal blocks */
} Choice;

static PetscErrorCode MatCreateRandom(MPI_Comm comm, const Choice *choice, Mat *A)
{
  Problem    *p = &problem;
  PetscInt    n, N = choice->N, begin, end, permutation[200];
  PetscMPIInt rank;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCall(LayoutSize(comm, choice->layout, N, &n));
  PetscCall(PetscSplitOwnership(comm, &n, &N));
  PetscCall(MatCreateRows(comm, n, N, n, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  seed = (uint64_t)choice->sequence * 1000003 + (uint64_t)rank * 104729;
  RandomPermutation(n, permutation);
  ProblemRandom(p, n, choice->density, choice->kind, choice->regular ? permutation : NULL, 0.0);
  for (PetscInt i = 0; i < n; i++) {
    for (PetscInt k = p->i[i]; k < p->i[i + 1]; k++) PetscCall(MatSetValue(*A, begin + i, begin + p->j[k], p->a[k], INSERT_VALUES));
    for (PetscInt k = 0; k < 3 && choice->outside != 0.0; k++) {
      const PetscInt j = RandomInt(N);

      if (j < begin || j >= end)
        PetscCall(MatSetValue(*A, begin + i, j, RandomSign(choice->outside * RandomReal(0.1, 1.0)), INSERT_VALUES));
    }
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates an empty matrix with n rows on each process, whose diagonal blocks have `width` entries per row */
static PetscErrorCode MatCreateLocal(PetscInt n, PetscInt width, Mat *A)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, n, PETSC_DETERMINE, width, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Results of MatGetMatching() */
typedef struct {
  IS       rows;
  Vec      left, right;
  PetscInt rank;
} Matched;

/* Computes the largest modulus in the diagonal block, and the largest distance of a nonzero diagonal entry from modulus 1 */
static PetscErrorCode MeasureMat(Mat T, PetscReal *most, PetscReal *off, PetscInt *ones)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(T, &begin, &end));
  *most = *off = 0.0;
  *ones        = 0;
  for (PetscInt i = begin; i < end; i++) {
    PetscInt           n;
    const PetscInt    *j;
    const PetscScalar *t;

    PetscCall(MatGetRow(T, i, &n, &j, &t));
    for (PetscInt k = 0; k < n; k++) {
      const PetscReal a = PetscAbsScalar(t[k]);

      if (j[k] < begin || j[k] >= end) continue;
      *most = PetscMax(*most, PetscIsInfOrNanReal(a) ? PETSC_MAX_REAL : a);
      if (j[k] != i || a == 0.0) continue;
      *off = PetscMax(*off, PetscAbsReal(a - 1.0));
      (*ones)++;
    }
    PetscCall(MatRestoreRow(T, i, &n, &j, &t));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rounding errors of entries that are scaled with exponentials of logarithms up to 700 */
#define ROUNDING (PetscMax(1e-11, 100 * PETSC_MACHINE_EPSILON))

/*
   Checks the matching of A, and A~, by their certificate: if diagonal blocks have no entry above 1 and matched entries of modulus
   1, no matching has a larger product
*/
static PetscErrorCode CheckMat(const char what[], Mat A, PetscBool regular)
{
  Matched         m;
  PetscInt        kuhn, sum, begin, n, ones, wrong = 0;
  const PetscInt *row;
  PetscReal       most, off;
  Mat             block, B;
  IDRSRows        r;
  IDRSMatching    matching;
  PetscBool       permutation, same[3];

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetMatching(A, &m.rows, &m.left, &m.right, &m.rank));
  PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
  PetscCall(ISGetIndices(m.rows, &row));
  for (PetscInt i = 0; i < n; i++) wrong += matching->column[row[i] - begin] != i;
  PetscCall(ISRestoreIndices(m.rows, &row));
  PetscCall(ISPermutation(m.rows, &permutation));
  PetscCall(ComplainIf(wrong || !permutation, "%s: %" INT " rows are wrong, or it is not marked as a permutation", what, wrong));
  PetscCall(VecEqual(m.left, matching->left, &same[0]));
  PetscCall(VecEqual(m.right, matching->right, &same[1]));
  PetscCall(ComplainIf(!same[0] || !same[1] || (n && !(matching->range[0] > 0.0 && matching->range[1] <= PETSC_MAX_REAL)),
                       "%s: other scalings, or from %g to %g", what, (double)matching->range[0], (double)matching->range[1]));
  PetscCall(MatGetDiagonalBlock(A, &block));
  PetscCall(IDRSRowsGet(block, &r));
  PetscCall(KuhnRank(&r, &kuhn));
  PetscCall(IDRSRowsRestore(&r));
  IDRSCallAllreduce(&kuhn, &sum, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)A));
  PetscCall(ComplainIf(sum != m.rank || (regular && kuhn != n), "%s: rank %" INT ", not %" INT, what, m.rank, sum));
  PetscCall(IDRSMatchingGetMat(matching, A, MAT_INITIAL_MATRIX, &B));
  PetscCall(PetscObjectTypeCompare((PetscObject)B, ((PetscObject)A)->type_name, &same[2]));
  PetscCall(ComplainIf(!same[2], "%s: type %s becomes %s", what, ((PetscObject)A)->type_name, ((PetscObject)B)->type_name));
  PetscCall(MeasureMat(B, &most, &off, &ones));
  PetscCall(ComplainIf(!(most <= 1.0 + ROUNDING) || !(off <= ROUNDING) || ones != kuhn,
                       "%s: entries up to 1%+g, %" INT " diagonal entries of modulus 1%+g", what, (double)(most - 1.0), ones,
                       (double)off));
  PetscCall(DestroyAll(&B, &m.rows, &m.left, &m.right));
  PetscCall(IDRSMatchingDestroy(&matching));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestMats(void)
{
  static const Kind chosen[] = {UNIFORM, TIES, ZEROS, SCALED}; /* others may have scalings that exceed the range of numbers */
  const PetscInt    sizes[]  = {0, 1, 5, 60};
  PetscInt          sequence = 100;

  PetscFunctionBeginUser;
  for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      for (PetscInt l = 0; l < 8; l++) {
        const Kind   kind   = chosen[l / 2];
        const Choice choice = {(Layout)layout, sizes[is], l % 2 ? 0.15 : 0.02, kind, (PetscBool)(l % 2), 10.0, ++sequence};
        char         what[128];
        Mat          A;

        PetscCall(
          PetscSNPrintf(what, sizeof(what), "%s, %" INT " rows, layout %" INT ", case %" INT, kinds[kind], sizes[is], layout, l));
        PetscCall(MatCreateRandom(PETSC_COMM_WORLD, &choice, &A));
        PetscCall(CheckMat(what, A, (PetscBool)(choice.regular && choice.kind != ZEROS)));
        PetscCall(MatDestroy(&A));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates on each process a chain whose scalings grow or shrink by this factor from row to row */
static PetscErrorCode MatCreateChain(PetscReal factor, PetscInt n, Mat *A)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreateLocal(n, 2, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    PetscCall(MatSetValue(*A, i, i, factor > 1.0 ? 1.0 / factor : factor, INSERT_VALUES));
    if (factor > 1.0 && i < end - 1) PetscCall(MatSetValue(*A, i, i + 1, factor, INSERT_VALUES));
    if (factor < 1.0 && i > begin) PetscCall(MatSetValue(*A, i, i - 1, 1.0 / factor, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Entries of any size: if a number cannot hold a scaling, all scalings are still finite and positive, and no entry is above 1.
   Otherwise, the whole certificate holds
*/
static PetscErrorCode TestClipped(void)
{
  const PetscReal limit   = PETSC_MAX_REAL / 8;
  PetscInt        clipped = 0;

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 72; l++) {
    const Choice choice = {LAYOUT_EVEN, 4 + 20 * (l % 3), 0.3, l % 2 ? RANGE : EXTREMES, (PetscBool)(l % 4 < 2), 0.0, 1000 + l};
    IDRSMatching matching;
    PetscReal    most, off;
    PetscInt     ones;
    Mat          A, B;

    if (l < 60) PetscCall(MatCreateRandom(PETSC_COMM_WORLD, &choice, &A));
    else
      PetscCall(MatCreateChain(PetscPowReal(10.0, (l % 2 ? 1.0 : -1.0) * MaxExponent() * (PetscReal)(1 + l % 3) / 4.0),
                               3 + 7 * (l % 4), &A));
    PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
    PetscCall(ComplainIf(!(matching->range[0] > 0.0 && matching->range[1] <= PETSC_MAX_REAL),
                         "case %" INT ": scalings from %g to %g", l, (double)matching->range[0], (double)matching->range[1]));
    PetscCall(IDRSMatchingGetMat(matching, A, MAT_INITIAL_MATRIX, &B));
    PetscCall(MeasureMat(B, &most, &off, &ones));
    if (matching->range[1] >= limit || matching->range[0] <= 1.0 / limit) {
      clipped++;
      off = 0.0;
    }
    PetscCall(ComplainIf(!(most <= 1.0 + ROUNDING) || !(off <= ROUNDING),
                         "case %" INT ": entries up to %g, diagonal entries of modulus 1%+g", l, (double)most, (double)off));
    PetscCall(DestroyAll(&B, &A));
    PetscCall(IDRSMatchingDestroy(&matching));
  }
  PetscCall(ComplainIf(!clipped || clipped == 72, "%" INT " of 72 matrices have scalings that a number cannot hold", clipped));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Infinite entries and NaN are errors on all processes, and the first such row is named. Good values work afterwards */
static PetscErrorCode TestNotFinite(void)
{
  const Choice choice = {LAYOUT_UNEVEN, 40, 0.1, UNIFORM, PETSC_TRUE, 1.0, 4000};
  PetscMPIInt  size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt infinite = 0; infinite < 2; infinite++) {
    /* on the first process, on the last one, on both, in the last row outside of the block */
    for (PetscInt where = 0; where < (size > 1 ? 4 : 3); where++) {
      const PetscInt last = choice.N - 1, column = where == 3 ? 0 : last - 1, first = where % 2 ? last : 3;
      PetscScalar    bad = infinite ? -INFINITY : NAN;
      char           row[32];
      Mat            A;
      IDRSMatching   matching;
      PetscInt       begin, end;
      PetscBool      kept;
      Matched        m = {NULL, NULL, NULL, 0};

#if PetscDefined(USE_COMPLEX)
      if (where) bad = PetscCMPLX(1.0, infinite ? INFINITY : NAN);
#endif
      PetscCall(MatCreateRandom(PETSC_COMM_WORLD, &choice, &A));
      PetscCall(MatGetOwnershipRange(A, &begin, &end));
      PetscCall(PetscSNPrintf(row, sizeof(row), "row %" INT " ", first));
      for (PetscInt values = 0; values < 3; values++) { /* good ones, bad ones, and good ones again */
        const PetscBool is = (PetscBool)(values == 1);

        if (end == choice.N) PetscCall(MatSetValue(A, last, column, is && where ? bad : 1e-3, INSERT_VALUES));
        if (begin <= 3 && 3 < end) PetscCall(MatSetValue(A, 3, 3, is && where % 2 == 0 ? bad : 1e-3, INSERT_VALUES));
        PetscCall(MatAssemble(A));
        if (!values) PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
        if (is) {
          CheckRefused(MatGetMatching(A, &m.rows, &m.left, &m.right, &m.rank), row, "NaN");
          PetscCall(ComplainIf(m.rows || m.left || m.right, "a matrix with a bad row has a matching"));
        }
        PetscCall(IDRSMatchingUpdate(matching, A, &kept));
        PetscCall(
          ComplainIf(kept == is, "the matching is %skept for values %" INT ", row %" INT, kept ? "" : "not ", values, first));
      }
      PetscCall(IDRSMatchingDestroy(&matching));
      PetscCall(CheckMat("good values after bad ones", A, PETSC_TRUE));
      PetscCall(MatDestroy(&A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Other types, rectangular, and not assembled; then a good matrix */
static PetscErrorCode TestBadInput(void)
{
  const char *const errors[] = {"type aij", "layouts", "assembled"};
  Mat               S;
  Matched           m;

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 3; l++) {
    PetscCall(MatCreate(PETSC_COMM_WORLD, &S));
    PetscCall(MatSetSizes(S, 3, l == 1 ? 4 : 3, PETSC_DETERMINE, PETSC_DETERMINE));
    PetscCall(MatSetType(S, l ? MATAIJ : MATBAIJ));
    PetscCall(MatSetUp(S));
    if (l < 2) PetscCall(MatAssemble(S));
    CheckRefused(MatGetMatching(S, &m.rows, &m.left, &m.right, &m.rank), "MatGetMatching", errors[l]);
    if (l == 2) {
      PetscCall(MatAssemble(S));
      PetscCall(CheckMat("assembled after an error", S, PETSC_FALSE));
    }
    PetscCall(MatDestroy(&S));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Multiplies the matched entry of this row of the process by a factor, unless row is -1 */
static PetscErrorCode MatScaleMatched(Mat A, IDRSMatching matching, PetscInt row, PetscReal factor)
{
  PetscInt    begin, global, column;
  PetscScalar a;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  if (row >= 0 && row < matching->n) {
    global = begin + row;
    column = begin + matching->column[row];
    PetscCall(MatGetValues(A, 1, &global, 1, &column, &a));
    PetscCall(MatSetValue(A, global, column, a * factor, INSERT_VALUES));
  }
  PetscCall(MatAssemble(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Multiplies all entries by random factors from 1 - change to 1 + change */
static PetscErrorCode MatPerturb(Mat A, PetscReal change)
{
  Mat          blocks[2] = {A, NULL};
  PetscScalar *a;
  MatInfo      info;
  PetscMPIInt  size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
  if (size > 1) PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], NULL));
  for (PetscInt l = 0; l < 2 && blocks[l]; l++) {
    PetscCall(MatGetInfo(blocks[l], MAT_LOCAL, &info));
    PetscCall(MatSeqAIJGetArray(blocks[l], &a));
    for (PetscInt k = 0; k < (PetscInt)info.nz_used; k++) a[k] *= 1.0 + RandomReal(-change, change);
    PetscCall(MatSeqAIJRestoreArray(blocks[l], &a));
  }
  PetscCall(PetscObjectStateIncrease((PetscObject)A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Adapts a matching to new values, and checks that the permutation is kept, or not, as expected, and that no scaled entry is above
   the bound
*/
static PetscErrorCode CheckKept(const char what[], IDRSMatching matching, Mat A, PetscBool expected, PetscReal bound)
{
  PetscInt  ones;
  PetscReal most, off;
  PetscBool kept, same[2];
  Vec       left, right;
  Mat       B;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(matching->left, &left));
  PetscCall(VecDuplicate(matching->right, &right));
  PetscCall(VecCopy(matching->left, left));
  PetscCall(VecCopy(matching->right, right));
  PetscCall(IDRSMatchingUpdate(matching, A, &kept));
  PetscCall(ComplainIf(kept != expected, "%s: the permutation is %skept", what, kept ? "" : "not "));
  PetscCall(VecEqual(left, matching->left, &same[0]));
  PetscCall(VecEqual(right, matching->right, &same[1]));
  PetscCall(ComplainIf(!kept && (!same[0] || !same[1]), "%s: other scalings", what));
  PetscCall(DestroyAll(&left, &right));
  if (kept) {
    PetscCall(IDRSMatchingGetMat(matching, A, MAT_INITIAL_MATRIX, &B));
    PetscCall(MeasureMat(B, &most, &off, &ones));
    PetscCall(ComplainIf(!(most <= bound + ROUNDING) || !(off <= ROUNDING) || ones != matching->n,
                         "%s: entries up to %g, diagonal entries of modulus 1%+g, %" INT " of %" INT " of them", what, (double)most,
                         (double)off, ones, matching->n));
    PetscCall(MatDestroy(&B));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestUpdate(void)
{
  static const Kind chosen[] = {UNIFORM, TIES, SCALED};
  PetscMPIInt       rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(chosen); k++) {
      const Choice   choice = {(Layout)layout, 50, 0.15, chosen[k], PETSC_TRUE, 1.0, 6000 + layout};
      const PetscInt row    = rank == size - 1 ? 0 : -1; /* the last process has rows in all layouts */
      Mat            A, B;
      IDRSMatching   matching;
      char           what[128];

      PetscCall(MatCreateRandom(PETSC_COMM_WORLD, &choice, &A));
      PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
#define CheckKeptFor(values, expected, bound) \
  do { \
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, layout %" INT ", %s", kinds[chosen[k]], layout, values)); \
    PetscCall(CheckKept(what, matching, A, expected, bound)); \
  } while (0)
      CheckKeptFor("unchanged values", PETSC_TRUE, 1.0 + 1e-9);
      seed = 60000 + (uint64_t)rank;
      PetscCall(MatPerturb(A, 0.05));
      CheckKeptFor("changes of 5 %", PETSC_TRUE, MATCHING_KEEP);
      PetscCall(MatScale(A, PetscPowReal(10.0, -MaxExponent() / 15)));
      CheckKeptFor("all entries scaled", PETSC_TRUE, MATCHING_KEEP);
      PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
      PetscCall(MatScaleMatched(A, matching, row, 1.5));
      CheckKeptFor("a larger matched entry", PETSC_TRUE, MATCHING_KEEP);
      PetscCall(MatScaleMatched(A, matching, row, 0.0));
      CheckKeptFor("a matched entry of zero", PETSC_FALSE, 0.0);
      PetscCall(MatCopy(B, A, SAME_NONZERO_PATTERN));
      CheckKeptFor("good values again", PETSC_TRUE, MATCHING_KEEP);
      PetscCall(MatDestroy(&B));
      PetscCall(IDRSMatchingDestroy(&matching));
      PetscCall(MatDestroy(&A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks (1, r; 1, 1) on each process: the product of the other permutation is larger by r */
static PetscErrorCode TestUpdateLimits(void)
{
  const PetscReal ratios[] = {0.25, 0.5, 1.5, 4.1, 1e30};

  PetscFunctionBeginUser;
  for (size_t l = 1; l < PETSC_STATIC_ARRAY_LENGTH(ratios); l++) {
    Mat          A;
    IDRSMatching matching;
    PetscInt     begin, end;
    char         what[64];

    PetscCall(MatCreateLocal(4, 2, &A));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    for (PetscInt changed = 0; changed < 2; changed++) {
      for (PetscInt i = begin; i < end; i++) {
        for (PetscInt j = i - i % 2; j < i - i % 2 + 2; j++)
          PetscCall(MatSetValue(A, i, j, j > i ? ratios[changed ? l : 0] : 1.0, INSERT_VALUES));
      }
      PetscCall(MatAssemble(A));
      if (!changed) PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
    }
    PetscCall(ComplainIf(matching->moved, "%" INT " rows are moved", matching->moved));
    PetscCall(PetscSNPrintf(what, sizeof(what), "a permutation that is better by %g", (double)ratios[l]));
    PetscCall(CheckKept(what, matching, A, (PetscBool)(ratios[l] <= 1.5), ratios[l] <= 1.0 ? 1.0 + 1e-9 : MATCHING_KEEP));
    PetscCall(IDRSMatchingDestroy(&matching));
    PetscCall(MatDestroy(&A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A limited computation stops on all processes if one of them reaches its limit, and otherwise computes the same matching */
static PetscErrorCode TestLimited(void)
{
  const Choice choice = {LAYOUT_EVEN, 200, 0.03, UNIFORM, PETSC_TRUE, 0.0, 9000};
  PetscMPIInt  rank;
  PetscBool    same;
  Mat          A;
  IDRSMatching matching, limited;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(MatCreateRandom(PETSC_COMM_WORLD, &choice, &A));
  PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
  PetscCall(IDRSMatchingCreate(A, rank ? 1e9 : 0.0, &limited));
  PetscCall(ComplainIf(limited, "a matching after the first process has reached the limit"));
  PetscCall(IDRSMatchingCreate(A, 1e9, &limited));
  PetscCall(ComplainIf(!limited, "no matching with a limit that is not reached"));
  if (limited) {
    PetscCall(VecEqual(limited->left, matching->left, &same));
    PetscCall(ComplainIf(!same, "another matching with a limit that is not reached"));
  }
  PetscCall(IDRSMatchingDestroy(&limited));
  PetscCall(IDRSMatchingDestroy(&matching));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestReferences, NULL}, {TestStructures, "structures"}, {TestMats, "permuted and scaled matrices"},
          {TestClipped, "entries of any size"}, {TestNotFinite, "infinite entries and NaN"}, {TestBadInput, "bad input"},
          {TestUpdate, "new values"}, {TestUpdateLimits, "the limit for new values"}, {TestLimited, "limited computations"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
