/*
   The algebra of block IDR(s) on small matrices, see idrsblock.c: everything that follows from the sums of one reduction. Blocks
   have m columns, and q = s m is the number of shadow vectors. Matrices are stored by columns. In a matrix with q rows, rows k m
   ... (k + 1) m - 1 belong to step k.

     M    q x q, P^H G, block lower triangular;  inverse_k = M_kk^{-1}
     f    q x m, P^H R
     T    m x m, which makes the columns of R T nearly orthogonal
     c    q x m, M(k:s,k:s) c(k:s) = f(k:s) T
     alpha, beta, omega   coefficients of a step; alpha of all steps of a cycle is kept, step k in columns k m ... (k + 1) m - 1

   It runs on the host, also if the blocks are on a GPU. The same sums give the same bits on all processes.
*/
#pragma once

#include <petscidrs.h>
#include <petscidrs/private/idrsstep.h>

/* Loops over the entries of a matrix */
#define IDRS_FOR_ENTRIES(i, j, rows, columns) \
  for (int j = 0; j < (columns); j++) \
    for (int i = 0; i < (rows); i++)

/* The length of the array that has all numbers: those of the recurrence, then scratch */
#define IDRS_BLOCK_SCRATCH(m)    (4 * (m) * (m) + (IDRS_MAX_WIDTH + 1) * (m) + IDRS_MAX_WIDTH)
#define IDRS_BLOCK_STORAGE(s, m) ((2 * (s) * (s) + 5 * (s) + 2) * (m) * (m) + IDRS_MAX_WIDTH * (m) + 1 + IDRS_BLOCK_SCRATCH(m))

/* A smaller remainder of a column of P^H R, relative to the square of its norm, is rounding error */
#define IDRS_BLOCK_NOISE (450 * PETSC_MACHINE_EPSILON)

typedef struct {
  int          s, m, q;
  PetscScalar *M, *alpha, *inverse, *f, *beta, *identity;
  PetscScalar *S;     /* m x IDRS_MAX_WIDTH: r_j = R S_j */
  PetscScalar *omega; /* one number; a pointer, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  PetscScalar *c, *T;
  PetscScalar *d; /* q x m: P^H G_k, or f T, overwritten by the computation */
  PetscScalar *scratch;
} IDRSBlockScalars;

/* The bounds within which a recurrence continues */
typedef struct {
  PetscInt   count;            /* right-hand sides */
  IDRSBounds norm;             /* of the Frobenius norm of R */
  PetscReal  fall, anchornorm; /* a reliable update may be due if ||R|| < fall peak and ||R|| < anchornorm; fall = 0: never */
} IDRSBlockBounds;

/* Norms of R at the beginning of a step */
typedef struct {
  PetscReal norms[IDRS_MAX_WIDTH]; /* ||r_j|| */
  PetscReal rnorm;                 /* Frobenius norm */
  PetscBool finite;                /* all sums are finite */
} IDRSBlockNorms;

/* Returns the number of sums of step k: P^H G_k and R^H R; if k = s, P^H T, P^H R and the Gram matrix of T and R */
static inline PetscInt IDRSBlockSumCount(PetscInt s, PetscInt m, PetscInt k)
{
  return (k < s ? s + 1 : 2 * s + 4) * m * m;
}

/* Sets the pointers into an array of IDRS_BLOCK_STORAGE(s, m) entries */
static inline void IDRSBlockScalarsSetPointers(IDRSBlockScalars *block, PetscInt s, PetscInt m, PetscScalar *storage)
{
  const int q = (int)(s * m);

  block->s        = (int)s;
  block->m        = (int)m;
  block->q        = q;
  block->M        = storage;
  block->alpha    = block->M + q * q;
  block->inverse  = block->alpha + q * q;
  block->f        = block->inverse + q * m;
  block->beta     = block->f + q * m;
  block->identity = block->beta + q * m;
  block->S        = block->identity + m * m;
  block->omega    = block->S + IDRS_MAX_WIDTH * m;
  block->c        = block->omega + 1;
  block->d        = block->c + q * m;
  block->T        = block->d + q * m;
  block->scratch  = block->T + m * m;
}

/* Begins a recurrence, on the host: G = U = 0, M = I, omega = 1 */
static inline void IDRSBlockScalarsReset(IDRSBlockScalars *block)
{
  const PetscInt s = block->s, m = block->m, q = block->q;

  for (PetscInt i = 0; i < IDRS_BLOCK_STORAGE(s, m); i++) block->M[i] = 0.0;
  for (PetscInt i = 0; i < q; i++) block->M[i + i * q] = 1.0;
  for (PetscInt i = 0; i < q; i++) block->inverse[i % m + i * m] = 1.0;
  for (PetscInt i = 0; i < m; i++) block->identity[i + i * m] = 1.0;
  *block->omega = 1.0;
}

/* Returns an entry of A B, the product of a row of A and a column of B, both of length `inner` */
static inline PetscScalar IDRSBlockScalarsDot(int inner, const PetscScalar *a, int lda, const PetscScalar *b)
{
  PetscScalar even = 0.0, odd = 0.0;
  int         l = 0;

  for (; l + 1 < inner; l += 2) {
    even += a[l * lda] * b[l];
    odd += a[(l + 1) * lda] * b[l + 1];
  }
  if (l < inner) even += a[l * lda] * b[l];
  return even + odd;
}

/* Computes C = A B, or C -= A B */
static inline void IDRSBlockScalarsMultiply(PetscBool subtract, int rows, int columns, int inner, const PetscScalar *A, int lda,
                                            const PetscScalar *B, int ldb, PetscScalar *C, int ldc)
{
  IDRS_FOR_ENTRIES(i, j, rows, columns)
  {
    const PetscScalar sum = IDRSBlockScalarsDot(inner, A + i, lda, B + j * ldb);

    C[i + j * ldc] = subtract ? C[i + j * ldc] - sum : sum;
  }
}

/*
   Computes inverse_k = M_kk^{-1} by Gauss-Jordan elimination with row pivoting. Each step reads one half of the scratch array and
   writes the other. Returns PETSC_FALSE if a pivot is rounding error of numbers of this size, or NaN
*/
static inline PetscBool IDRSBlockScalarsInvert(const IDRSBlockScalars *block, int k, PetscReal size)
{
  const int          m    = block->m;
  const PetscScalar *M    = block->M + k * m + k * m * block->q;
  PetscScalar       *from = block->scratch, *to = from + 2 * m * m;
  PetscBool          regular = PETSC_TRUE;

  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    from[i + j * m]         = M[i + j * block->q];
    from[i + j * m + m * m] = i == j ? 1.0 : 0.0;
  }
  for (int p = 0; p < m; p++) {
    const PetscScalar *column = from + p * m;
    int                r      = p;
    PetscReal          most   = PetscAbsScalar(column[p]);
    PetscScalar       *swap   = from, inverse;

    for (int i = p + 1; i < m; i++) {
      const PetscReal other = PetscAbsScalar(column[i]);

      if (other > most) {
        most = other;
        r    = i;
      }
    }
    if (!IDRSIsPivot(most, size)) regular = PETSC_FALSE;
    inverse = (PetscScalar)1.0 / column[r];
    IDRS_FOR_ENTRIES(i, j, m, 2 * m)
    {
      const PetscScalar pivot = from[r + j * m] * inverse;
      const int         row   = i == r ? p : i;

      to[i + j * m] = i == p ? pivot : from[row + j * m] - column[row] * pivot;
    }
    from = to;
    to   = swap;
  }
  IDRS_FOR_ENTRIES(i, j, m, m) block->inverse[i + j * m + k * m * m] = from[i + j * m + m * m];
  return regular;
}

/*
   Computes T, which makes the columns of R T nearly orthogonal. F = f(k:s), which is not zero in exact arithmetic, is R
   projected on random vectors, so F^H F replaces R^H R, which would need another reduction. Cholesky with pivoting of the
   columns with norm 1:

     W = D^{-1} F^H F D^{-1} = Pi L L^H Pi^T,   T = D^{-1} Pi L^{-H},   with no pivot below the noise

   The diagonal of W has the squares of the remainders, and -1 for a column that has been eliminated
*/
static inline void IDRSBlockScalarsOrthogonalize(const IDRSBlockScalars *block, int k)
{
  const int          m = block->m, q = block->q, rows = q - k * m;
  const PetscScalar *F = block->f + k * m;
  PetscScalar       *W = block->scratch, *C = W + m * m, *nextW = C + m * m, *nextC = nextW + m * m;
  PetscReal          all = 0.0;

  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    PetscScalar sum = 0.0;

    for (int l = 0; l < rows; l++) sum += PetscConj(F[l + i * q]) * F[l + j * q];
    nextW[i + j * m] = sum;
  }
  for (int j = 0; j < m; j++) all += PetscRealPart(nextW[j + j * m]);
  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    const PetscReal si = PetscRealPart(nextW[i + i * m]), sj = PetscRealPart(nextW[j + j * m]),
                    di = si > 0.0 ? 1 / PetscSqrtReal(si) : (PetscReal)1.0, dj = sj > 0.0 ? 1 / PetscSqrtReal(sj) : (PetscReal)1.0;

    W[i + j * m] = nextW[i + j * m] * (di * dj);
    C[i + j * m] = i == j ? di : (PetscReal)0.0;
  }
  if (!(all > 0.0 && all < PETSC_MAX_REAL)) { /* nothing to orthogonalize; the sums of the step show the reason */
    IDRS_FOR_ENTRIES(i, j, m, m) block->T[i + j * m] = i == j ? 1.0 : 0.0;
    return;
  }
  for (int p = 0; p < m; p++) {
    PetscScalar *swapW = W, *swapC = C;
    PetscReal    most  = -1.0, root;
    int          pivot = 0;

    for (int j = 0; j < m; j++) {
      const PetscReal left = PetscRealPart(W[j + j * m]);

      if (left > most) {
        most  = left;
        pivot = j;
      }
    }
    root = 1 / PetscSqrtReal(most > IDRS_BLOCK_NOISE ? most : IDRS_BLOCK_NOISE);
    IDRS_FOR_ENTRIES(i, j, m, m)
    {
      const PetscBool   taken = PetscRealPart(W[j + j * m]) < 0.0 ? PETSC_TRUE : PETSC_FALSE;
      const PetscScalar part = W[pivot + j * m] * (root * root), w = W[i + j * m], c = C[i + j * m], cp = C[i + pivot * m];
      PetscScalar       left = taken ? w : w - PetscConj(W[pivot + i * m]) * part;

      if (i == j && !taken && PetscRealPart(left) < 0.0) left = 0.0;
      nextW[i + j * m] = j == pivot ? (PetscScalar)(i == j ? -1.0 : 0.0) : left;
      nextC[i + j * m] = j == pivot ? c * root : (taken ? c : c - cp * part);
    }
    W     = nextW;
    C     = nextC;
    nextW = swapW;
    nextC = swapC;
  }
  IDRS_FOR_ENTRIES(i, j, m, m) block->T[i + j * m] = C[i + j * m];
}

/* Computes T and c for the direction of step k */
static inline void IDRSBlockScalarsDirection(const IDRSBlockScalars *block, int k)
{
  const int m = block->m, q = block->q;

  IDRSBlockScalarsOrthogonalize(block, k);
  IDRSBlockScalarsMultiply(PETSC_FALSE, q - k * m, m, m, block->f + k * m, q, block->T, m, block->d + k * m, q);
  for (int i = k; i < block->s; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, block->d + i * m, q, block->c + i * m, q);
    if (i + 1 < block->s)
      IDRSBlockScalarsMultiply(PETSC_TRUE, q - (i + 1) * m, m, m, block->M + (i + 1) * m + i * m * q, q, block->c + i * m, q,
                               block->d + (i + 1) * m, q);
  }
}

/*
   Computes the coefficients of step k from sums = P^H G_k:

     alpha_i = M_ii^{-1}(d_i - sum over j < i of M_ij alpha_j), i < k;   M_ik = d_i - sum over j < k of M_ij alpha_j, i >= k
     beta = M_kk^{-1} f_k;   f_i -= M_ik beta, i > k

   Returns PETSC_TRUE if M_kk can be inverted
*/
static inline PetscBool IDRSBlockScalarsColumn(const IDRSBlockScalars *block, int k, const PetscScalar sums[])
{
  const int    m = block->m, q = block->q;
  PetscScalar *alpha = block->alpha + k * m * q, *Mk = block->M + k * m * q, *d = block->d;
  PetscReal    size = 0.0;

  IDRS_FOR_ENTRIES(i, j, q, m) d[i + j * q] = sums[i + j * q];
  for (int j = 0; j < m; j++) {
    PetscReal largest = 0.0;

    for (int i = 0; i < q; i++) largest = PetscMax(largest, PetscAbsScalar(sums[i + j * q]));
    block->scratch[j] = largest;
  }
  for (int j = 0; j < m; j++) size = PetscMax(size, PetscRealPart(block->scratch[j]));
  for (int i = 0; i < k; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, d + i * m, q, alpha + i * m, q);
    IDRSBlockScalarsMultiply(PETSC_TRUE, q - (i + 1) * m, m, m, block->M + (i + 1) * m + i * m * q, q, alpha + i * m, q,
                             d + (i + 1) * m, q);
  }
  IDRS_FOR_ENTRIES(i, j, q - k * m, m) Mk[i + k * m + j * q] = d[i + k * m + j * q];
  if (!IDRSBlockScalarsInvert(block, k, size)) return PETSC_FALSE; /* f is unchanged */
  IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + k * m * m, m, block->f + k * m, q, block->beta + k * m, q);
  if (k + 1 < block->s)
    IDRSBlockScalarsMultiply(PETSC_TRUE, q - (k + 1) * m, m, m, Mk + (k + 1) * m, q, block->beta + k * m, q, block->f + (k + 1) * m,
                             q);
  return PETSC_TRUE;
}

/*
   Computes the omega step from P^H T, P^H R and the Gram matrix of T and R; *rnorm is the Frobenius norm of the new R:

     omega of the Frobenius inner products <T,R>, <T,T>, <R,R>, see IDRSDecideOmega();   f = P^H R - omega P^H T
*/
static inline IDRSVerdict IDRSBlockScalarsOmega(const IDRSBlockScalars *block, PetscReal cosine, const PetscScalar sums[],
                                                PetscReal *rnorm)
{
  const int          m = block->m, q = block->q;
  const PetscScalar *gram = sums + 2 * q * m;
  PetscScalar        tr   = 0.0, minimal, omega;
  PetscReal          tt = 0.0, rr = 0.0, square;

  for (int i = 0; i < m; i++) {
    tt += PetscRealPart(gram[i + i * 2 * m]);
    rr += PetscRealPart(gram[m + i + (m + i) * 2 * m]);
    tr += gram[i + (m + i) * 2 * m];
  }
  if (!IDRSDecideOmega(tr, tt, rr, cosine, &minimal, &omega) || !IDRSIsOmega(omega)) return IDRS_NO_OMEGA;
  square = rr - 2 * PetscRealPart(PetscConj(omega) * tr) + PetscRealPart(omega * PetscConj(omega)) * tt;
  *rnorm = PetscSqrtReal(square < 0.0 ? (PetscReal)0.0 : square);
  IDRS_FOR_ENTRIES(i, j, q, m) block->f[i + j * q] = sums[q * m + i + j * q] - omega * sums[i + j * q];
  *block->omega                                    = omega;
  return IDRS_CONTINUES;
}

/* Computes ||r_j||^2 = S_j^H (R^H R) S_j and the Frobenius norm of R from the sums of step k, and sets norms->finite */
static inline void IDRSBlockScalarsNorms(const IDRSBlockScalars *block, int k, int count, const PetscScalar sums[],
                                         IDRSBlockNorms *norms)
{
  const int m = block->m, omega = k == block->s ? 1 : 0, ld = (1 + omega) * m, nsums = (int)IDRSBlockSumCount(block->s, m, k);
  const PetscScalar *gram   = sums + block->q * ld + omega * (m * ld + m);
  PetscScalar       *terms  = block->scratch;
  PetscReal          square = 0.0;
  int                wrong  = 0;

  IDRS_FOR_ENTRIES(l, j, m, count)
  {
    const PetscScalar *S   = block->S + j * m;
    PetscScalar        row = 0.0;

    for (int i = 0; i < m; i++) row += PetscConj(S[i]) * gram[i + l * ld];
    terms[l + j * m] = row * S[l];
  }
  for (int e = 0; e < nsums; e++) wrong |= !IDRSIsFinite(sums[e]);
  for (int i = 0; i < m; i++) square += PetscRealPart(gram[i + i * ld]);
  for (int j = 0; j < count; j++) {
    PetscReal sum = 0.0;

    for (int l = 0; l < m; l++) sum += PetscRealPart(terms[l + j * m]);
    norms->norms[j] = PetscSqrtReal(sum < 0.0 ? (PetscReal)0.0 : sum);
  }
  norms->rnorm  = PetscSqrtReal(square);
  norms->finite = wrong ? PETSC_FALSE : PETSC_TRUE;
}

/* Computes the coefficients of step k from its sums; *rnorm is the Frobenius norm of R after an omega step */
static inline IDRSVerdict IDRSBlockScalarsContinue(const IDRSBlockScalars *block, int k, PetscReal cosine, const PetscScalar sums[],
                                                   PetscReal *rnorm)
{
  if (k < block->s) return IDRSBlockScalarsColumn(block, k, sums) ? IDRS_CONTINUES : IDRS_NO_PIVOT;
  return IDRSBlockScalarsOmega(block, cosine, sums, rnorm);
}

/* Computes the direction of the step after step k, unless that is an omega step */
static inline void IDRSBlockScalarsDirect(const IDRSBlockScalars *block, PetscInt k)
{
  if (k + 1 != block->s) IDRSBlockScalarsDirection(block, (int)IDRSNextK(k, block->s));
}
