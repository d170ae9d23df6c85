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

/* The length of the array that has all numbers */
#define IDRS_BLOCK_STORAGE(s, m) ((2 * (s) * (s) + 5 * (s) + 2) * (m) * (m) + IDRS_MAX_WIDTH * (m) + 1)

/* A smaller remainder of a column of P^H R, relative to the square of its norm, is rounding error */
#define IDRS_BLOCK_NOISE (450 * PETSC_MACHINE_EPSILON)

typedef struct {
  int          s, m, q;
  PetscScalar *M, *alpha, *inverse, *f, *beta, *identity;
  PetscScalar *S;     /* m x IDRS_MAX_WIDTH: r_j = R S_j */
  PetscScalar *omega; /* one number */
  PetscScalar *c, *T;
  PetscScalar *d; /* q x m: P^H G_k, or f T, overwritten by the computation */
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
}

/* Begins a recurrence: G = U = 0, M = I, omega = 1 */
static inline void IDRSBlockScalarsReset(IDRSBlockScalars *block)
{
  const PetscInt s = block->s, m = block->m, q = block->q;

  for (PetscInt i = 0; i < IDRS_BLOCK_STORAGE(s, m); i++) block->M[i] = 0.0;
  for (PetscInt i = 0; i < q; i++) block->M[i + i * q] = 1.0;
  for (PetscInt i = 0; i < q; i++) block->inverse[i % m + i * m] = 1.0;
  for (PetscInt i = 0; i < m; i++) block->identity[i + i * m] = 1.0;
  *block->omega = 1.0;
}

/* Computes C = A B, or C -= A B */
static inline void IDRSBlockScalarsMultiply(PetscBool subtract, int rows, int columns, int inner, const PetscScalar *A, int lda,
                                            const PetscScalar *B, int ldb, PetscScalar *C, int ldc)
{
  IDRS_FOR_ENTRIES(i, j, rows, columns)
  {
    PetscScalar sum[2] = {0.0, 0.0}; /* over even and odd l */

    for (int l = 0; l < inner; l++) sum[l % 2] += A[i + l * lda] * B[l + j * ldb];
    sum[0] += sum[1];
    C[i + j * ldc] = subtract ? C[i + j * ldc] - sum[0] : sum[0];
  }
}

/*
   Computes inverse_k = M_kk^{-1} by Gauss-Jordan elimination with row pivoting. Returns PETSC_FALSE if a pivot is rounding error of
   numbers of this size, or NaN
*/
static inline PetscBool IDRSBlockScalarsInvert(const IDRSBlockScalars *block, int k, PetscReal size)
{
  const int   m = block->m;
  PetscScalar M[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH], *inverse = block->inverse + k * m * m;
  PetscBool   regular = PETSC_TRUE;

  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    M[i + j * m]       = block->M[k * m + i + (k * m + j) * block->q];
    inverse[i + j * m] = i == j ? 1.0 : 0.0;
  }
  for (int p = 0; p < m; p++) {
    PetscScalar column[IDRS_MAX_WIDTH];
    int         r = p;

    for (int i = p + 1; i < m; i++) {
      if (PetscAbsScalar(M[i + p * m]) > PetscAbsScalar(M[r + p * m])) r = i;
    }
    if (!IDRSIsPivot(PetscAbsScalar(M[r + p * m]), size)) regular = PETSC_FALSE;
    for (int i = 0; i < m; i++) column[i] = M[(i == p ? r : i == r ? p : i) + p * m];
    /* exchanges rows p and r of M and of the inverse, and eliminates column p */
    for (int j = 0; j < 2 * m; j++) {
      PetscScalar      *x     = j < m ? M + j * m : inverse + (j - m) * m;
      const PetscScalar pivot = x[r] * ((PetscScalar)1.0 / column[p]);

      x[r] = x[p];
      for (int i = 0; i < m; i++) x[i] = i == p ? pivot : x[i] - column[i] * pivot;
    }
  }
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
  PetscScalar       *T = block->T, W[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  PetscReal          d[IDRS_MAX_WIDTH], all = 0.0;

  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    W[i + j * m] = 0.0;
    for (int l = 0; l < rows; l++) W[i + j * m] += PetscConj(F[l + i * q]) * F[l + j * q];
  }
  for (int j = 0; j < m; j++) {
    const PetscReal square = PetscRealPart(W[j + j * m]);

    all += square;
    d[j] = square > 0.0 ? 1 / PetscSqrtReal(square) : (PetscReal)1.0;
  }
  if (!(all > 0.0 && all < PETSC_MAX_REAL)) { /* nothing to orthogonalize; the sums of the step show the reason */
    IDRS_FOR_ENTRIES(i, j, m, m) T[i + j * m] = i == j ? 1.0 : 0.0;
    return;
  }
  IDRS_FOR_ENTRIES(i, j, m, m)
  {
    W[i + j * m] *= d[i] * d[j];
    T[i + j * m] = i == j ? d[i] : (PetscReal)0.0;
  }
  for (int p = 0; p < m; p++) {
    PetscScalar row[IDRS_MAX_WIDTH];
    PetscReal   most  = -1.0, root;
    int         pivot = 0;

    for (int j = 0; j < m; j++) {
      if (PetscRealPart(W[j + j * m]) > most) {
        most  = PetscRealPart(W[j + j * m]);
        pivot = j;
      }
    }
    root = 1 / PetscSqrtReal(most > IDRS_BLOCK_NOISE ? most : IDRS_BLOCK_NOISE);
    for (int j = 0; j < m; j++) row[j] = W[pivot + j * m];
    for (int j = 0; j < m; j++) {
      const PetscScalar part = row[j] * (root * root);

      if (j == pivot || PetscRealPart(W[j + j * m]) < 0.0) continue;
      for (int i = 0; i < m; i++) {
        W[i + j * m] -= PetscConj(row[i]) * part;
        T[i + j * m] -= T[i + pivot * m] * part;
      }
      if (PetscRealPart(W[j + j * m]) < 0.0) W[j + j * m] = 0.0;
    }
    for (int i = 0; i < m; i++) {
      W[i + pivot * m] = i == pivot ? -1.0 : 0.0;
      T[i + pivot * m] *= root;
    }
  }
}

/* Computes T and c for the direction of step k */
static inline void IDRSBlockScalarsDirection(const IDRSBlockScalars *block, int k)
{
  const int m = block->m, q = block->q;

  IDRSBlockScalarsOrthogonalize(block, k);
  IDRSBlockScalarsMultiply(PETSC_FALSE, q - k * m, m, m, block->f + k * m, q, block->T, m, block->d + k * m, q);
  for (int i = k; i < block->s; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, block->d + i * m, q, block->c + i * m, q);
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

  for (int i = 0; i < q * m; i++) {
    d[i] = sums[i];
    size = PetscMax(size, PetscAbsScalar(sums[i]));
  }
  for (int i = 0; i < k; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, d + i * m, q, alpha + i * m, q);
    IDRSBlockScalarsMultiply(PETSC_TRUE, q - (i + 1) * m, m, m, block->M + (i + 1) * m + i * m * q, q, alpha + i * m, q,
                             d + (i + 1) * m, q);
  }
  IDRS_FOR_ENTRIES(i, j, q - k * m, m) Mk[i + k * m + j * q] = d[i + k * m + j * q];
  if (!IDRSBlockScalarsInvert(block, k, size)) return PETSC_FALSE; /* f is unchanged */
  IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + k * m * m, m, block->f + k * m, q, block->beta + k * m, q);
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
  const int          m = block->m, omega = k == block->s ? 1 : 0, ld = (1 + omega) * m;
  const PetscScalar *gram   = sums + block->q * ld + omega * (m * ld + m);
  PetscReal          square = 0.0;

  norms->finite = PETSC_TRUE;
  for (PetscInt e = 0; e < IDRSBlockSumCount(block->s, m, k); e++) {
    if (!IDRSIsFinite(sums[e])) norms->finite = PETSC_FALSE;
  }
  for (int j = 0; j < count; j++) {
    const PetscScalar *S   = block->S + j * m;
    PetscReal          sum = 0.0;

    for (int l = 0; l < m; l++) {
      PetscScalar row = 0.0;

      for (int i = 0; i < m; i++) row += PetscConj(S[i]) * gram[i + l * ld];
      sum += PetscRealPart(row * S[l]);
    }
    norms->norms[j] = PetscSqrtReal(sum < 0.0 ? (PetscReal)0.0 : sum);
  }
  for (int i = 0; i < m; i++) square += PetscRealPart(gram[i + i * ld]);
  norms->rnorm = PetscSqrtReal(square);
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
