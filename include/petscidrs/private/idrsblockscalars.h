/*
   The algebra of block IDR(s) on small matrices instead of blocks of vectors, see idrsblock.c: everything that follows from the sums of one reduction. Blocks have m columns, and q = s m is
   the number of shadow vectors. Matrices are stored by columns; rows k m ... (k + 1) m - 1 of those with q rows belong to step k.

     M    q x q, P^H G, block lower triangular;  inverse_k = M_kk^{-1}
     f    q x m, P^H R
     T    m x m, with which the columns of R T are as good as orthogonal
     c    q x m, M(k:s,k:s) c(k:s) = f(k:s) T
     alpha, beta, omega   coefficients of a step, see idrsblock.c. Those of all steps of a cycle are kept: alpha of step k in columns k m ... (k + 1) m - 1

   No PETSc call: compiled for host and device. On a device the threads of one block share the work: all of them call the functions, which begin and end with a meeting. On all processes the
   same sums give the same bits.
*/
#pragma once

#include <petscidrs.h>
#include <petscidrs/private/idrstrust.h>

#if defined(__CUDA_ARCH__)
  #define IDRS_MEMBER         ((PetscInt)threadIdx.x)
  #define IDRS_MEMBERS        ((PetscInt)blockDim.x)
  #define IDRS_SYNC_MEMBERS() __syncthreads()
  #define IDRS_ANY_MEMBER(x)  __syncthreads_or(x)
#else
  #define IDRS_MEMBER  0
  #define IDRS_MEMBERS 1
  #define IDRS_SYNC_MEMBERS() \
    do { \
    } while (0)
  #define IDRS_ANY_MEMBER(x) (x)
#endif

/* All numbers are in one array, so that one copy takes them to a device or back; scratch is the last part of it */
#define IDRS_BLOCK_SCRATCH(m)    (4 * (m) * (m) + (IDRS_MAX_WIDTH + 1) * (m) + IDRS_MAX_WIDTH)
#define IDRS_BLOCK_STORAGE(s, m) ((2 * (s) * (s) + 5 * (s) + 2) * (m) * (m) + IDRS_MAX_WIDTH * (m) + 1 + IDRS_BLOCK_SCRATCH(m))

/* What is left of a column of R, seen through P, in units of the square of its norm: less is noise */
#define IDRS_BLOCK_NOISE (450 * PETSC_MACHINE_EPSILON)

typedef struct {
  PetscInt     s, m, q;
  PetscScalar *M, *inverse, *f, *c, *alpha, *beta, *T, *identity;
  PetscScalar *d;     /* q x m: P^H G_k, or f T, as it is worked on */
  PetscScalar *S;     /* m x IDRS_MAX_WIDTH: r_j = R S_j */
  PetscScalar *omega; /* one number; a pointer, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  PetscScalar *scratch;
} IDRSBlockScalars;

/* The row of coefficients of a column in a sum of block combine: entries at, at + ld, ... of the array of all numbers, times a sign, and omega */
typedef struct {
  int32_t at, ld, sign, omega;
} IDRSBlockRow;

/* Where a device may go on by itself */
typedef struct {
  PetscInt  count;               /* right-hand sides */
  PetscReal low[IDRS_MAX_WIDTH]; /* ||r_j|| that the host is to look at, if they are not larger; PETSC_MAX_REAL for one that is done */
  PetscReal high;                /* of the Frobenius norm of R */
  PetscReal fall, anchornorm;    /* a reliable update may be due where ||R|| < fall peak and ||R|| < anchornorm; fall = 0: never */
  PetscReal cosine;              /* for omega */
  PetscBool stop;                /* the host continues in any case */
} IDRSBlockBounds;

/* What the sums of a step tell of R as the step began with it, and where the largest norm since the last reliable update is kept */
typedef struct {
  PetscReal norms[IDRS_MAX_WIDTH]; /* ||r_j|| */
  PetscReal rnorm, peak;           /* Frobenius norms */
  PetscBool finite;                /* all sums */
  PetscBool stopped;               /* the host continues */
} IDRSBlockNorms;

/* The number of sums of step k: P^H G_k and R^H R, or, k = s, P^H T, P^H R and the Gram matrix of T and R */
static inline IDRS_HOST_DEVICE PetscInt IDRSBlockSumCount(PetscInt s, PetscInt m, PetscInt k)
{
  return (k < s ? s + 1 : 2 * s + 4) * m * m;
}

/* Matrices of s steps with m columns in an array of IDRS_BLOCK_STORAGE(s, m) entries */
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsSetPointers(IDRSBlockScalars *block, PetscInt s, PetscInt m, PetscScalar *storage)
{
  const PetscInt q = s * m;

  block->s        = s;
  block->m        = m;
  block->q        = q;
  block->M        = storage;
  block->alpha    = block->M + q * q;
  block->inverse  = block->alpha + q * q;
  block->f        = block->inverse + q * m;
  block->c        = block->f + q * m;
  block->beta     = block->c + q * m;
  block->d        = block->beta + q * m;
  block->T        = block->d + q * m;
  block->identity = block->T + m * m;
  block->S        = block->identity + m * m;
  block->omega    = block->S + IDRS_MAX_WIDTH * m;
  block->scratch  = block->omega + 1;
}

/* On the host: the begin of a recurrence, G = U = 0, M = I, omega = 1 */
static inline void IDRSBlockScalarsReset(IDRSBlockScalars *block)
{
  const PetscInt s = block->s, m = block->m, q = block->q;

  for (PetscInt i = 0; i < IDRS_BLOCK_STORAGE(s, m); i++) block->M[i] = 0.0;
  for (PetscInt i = 0; i < q; i++) block->M[i + i * q] = 1.0;
  for (PetscInt i = 0; i < q; i++) block->inverse[i % m + i * m] = 1.0;
  for (PetscInt i = 0; i < m; i++) block->identity[i + i * m] = 1.0;
  *block->omega = 1.0;
}

/* C = A B, or C -= A B; an entry of C is the work of one member */
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsMultiply(PetscBool subtract, PetscInt rows, PetscInt columns, PetscInt inner, const PetscScalar *A, PetscInt lda, const PetscScalar *B, PetscInt ldb, PetscScalar *C, PetscInt ldc)
{
  for (PetscInt e = IDRS_MEMBER; e < rows * columns; e += IDRS_MEMBERS) {
    const PetscInt i = e % rows, j = e / rows;
    PetscScalar    sum = 0.0;

    for (PetscInt l = 0; l < inner; l++) sum += A[i + l * lda] * B[l + j * ldb];
    C[i + j * ldc] = subtract ? C[i + j * ldc] - sum : sum;
  }
  IDRS_SYNC_MEMBERS();
}

/*
   inverse_k = M_kk^{-1}, by Gauss and Jordan with pivoting of rows, from one half of the scratch to the other in each step. Returns false where a pivot is rounding error of numbers of this size, or
   a NaN
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSBlockScalarsInvert(const IDRSBlockScalars *block, PetscInt k, PetscReal size)
{
  const PetscInt     m    = block->m;
  const PetscScalar *M    = block->M + k * m + k * m * block->q;
  PetscScalar       *from = block->scratch, *to = from + 2 * m * m;
  PetscBool          regular = PETSC_TRUE;

  for (PetscInt e = IDRS_MEMBER; e < m * m; e += IDRS_MEMBERS) {
    from[e]         = M[e % m + e / m * block->q];
    from[e + m * m] = e % m == e / m ? 1.0 : 0.0;
  }
  IDRS_SYNC_MEMBERS();
  for (PetscInt p = 0; p < m; p++) {
    PetscInt     r    = p;
    PetscReal    most = PetscAbsScalar(from[p + p * m]);
    PetscScalar *swap = from;

    for (PetscInt i = p + 1; i < m; i++) {
      const PetscReal other = PetscAbsScalar(from[i + p * m]);

      if (!(other > most)) continue;
      most = other;
      r    = i;
    }
    if (!(most > 64 * PETSC_MACHINE_EPSILON * size)) regular = PETSC_FALSE;
    for (PetscInt e = IDRS_MEMBER; e < 2 * m * m; e += IDRS_MEMBERS) {
      const PetscInt    i = e % m, j = e / m, row = i == r ? p : i;
      const PetscScalar pivot = from[r + j * m] / from[r + p * m];

      to[e] = i == p ? pivot : from[row + j * m] - from[row + p * m] * pivot;
    }
    IDRS_SYNC_MEMBERS();
    from = to;
    to   = swap;
  }
  for (PetscInt e = IDRS_MEMBER; e < m * m; e += IDRS_MEMBERS) block->inverse[e + k * m * m] = from[e + m * m];
  IDRS_SYNC_MEMBERS();
  return regular;
}

/*
   The column of which most is left in proportion to its norm: the diagonal of W has the squares of what is left, negative where a column has been taken. Less than noise counts as noise. Columns of
   zeros have a size of 1
*/
static inline IDRS_HOST_DEVICE PetscInt IDRSBlockScalarsPivot(PetscInt m, const PetscScalar *W, const PetscScalar *size, PetscReal *square)
{
  PetscInt  pivot = -1;
  PetscReal most  = 0.0;

  for (PetscInt j = 0; j < m; j++) {
    const PetscReal left = PetscRealPart(W[j + j * m]);

    if (left < 0.0 || !(pivot < 0 || left / PetscRealPart(size[j]) > most)) continue;
    most  = left / PetscRealPart(size[j]);
    pivot = j;
  }
  *square = (most > IDRS_BLOCK_NOISE ? most : IDRS_BLOCK_NOISE) * PetscRealPart(size[pivot]);
  return pivot;
}

/*
   T, with which the columns of R T are as good as orthogonal. F = f(k:s), which is not zero on paper, is R seen through random vectors: the Gram matrix F^H F stands for R^H R,
   which only another reduction would tell. By Cholesky with pivoting: one column of F after another is divided by its norm, and taken out of those that are left.

     F^H F = Pi L L^H Pi^T,   T = Pi L^{-H},   with no pivot below the noise
*/
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsOrthogonalize(const IDRSBlockScalars *block, PetscInt k)
{
  const PetscInt     m = block->m, q = block->q, rows = q - k * m;
  const PetscScalar *F = block->f + k * m;
  PetscScalar       *W = block->scratch, *C = W + m * m, *nextW = C + m * m, *nextC = nextW + m * m, *size = nextC + m * m;
  PetscReal          all = 0.0;

  for (PetscInt e = IDRS_MEMBER; e < m * m; e += IDRS_MEMBERS) {
    const PetscInt i = e % m, j = e / m;
    PetscScalar    sum = 0.0;

    for (PetscInt l = 0; l < rows; l++) sum += PetscConj(F[l + i * q]) * F[l + j * q];
    W[e] = sum;
    C[e] = i == j ? 1.0 : 0.0;
    if (i == j) size[j] = PetscRealPart(sum) > 0.0 ? PetscRealPart(sum) : 1.0;
  }
  IDRS_SYNC_MEMBERS();
  for (PetscInt j = 0; j < m; j++) all += PetscRealPart(W[j + j * m]);
  for (PetscInt p = 0; p < m && all > 0.0 && all < PETSC_MAX_REAL; p++) { /* else there is nothing to be orthogonalized: the sums of the step tell why */
    PetscReal       square;
    const PetscInt  pivot = IDRSBlockScalarsPivot(m, W, size, &square);
    PetscScalar    *swapW = W, *swapC = C;
    const PetscReal root = PetscSqrtReal(square);

    for (PetscInt e = IDRS_MEMBER; e < m * m; e += IDRS_MEMBERS) {
      const PetscInt    i = e % m, j = e / m;
      const PetscBool   taken = PetscRealPart(W[j + j * m]) < 0.0 ? PETSC_TRUE : PETSC_FALSE;
      const PetscScalar part  = W[pivot + j * m] / square;

      if (j == pivot) {
        nextW[e] = i == j ? -1.0 : 0.0;
        nextC[e] = C[e] / root;
      } else {
        nextW[e] = taken ? W[e] : W[e] - PetscConj(W[pivot + i * m]) * part;
        nextC[e] = taken ? C[e] : C[e] - C[i + pivot * m] * part;
        if (i == j && !taken && PetscRealPart(nextW[e]) < 0.0) nextW[e] = 0.0;
      }
    }
    IDRS_SYNC_MEMBERS();
    W     = nextW;
    C     = nextC;
    nextW = swapW;
    nextC = swapC;
  }
  for (PetscInt e = IDRS_MEMBER; e < m * m; e += IDRS_MEMBERS) block->T[e] = C[e];
  IDRS_SYNC_MEMBERS();
}

/* For the direction of step k: T, and c */
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsDirection(const IDRSBlockScalars *block, PetscInt k)
{
  const PetscInt m = block->m, q = block->q;

  IDRSBlockScalarsOrthogonalize(block, k);
  IDRSBlockScalarsMultiply(PETSC_FALSE, q - k * m, m, m, block->f + k * m, q, block->T, m, block->d + k * m, q);
  for (PetscInt i = k; i < block->s; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, block->d + i * m, q, block->c + i * m, q);
    IDRSBlockScalarsMultiply(PETSC_TRUE, q - (i + 1) * m, m, m, block->M + (i + 1) * m + i * m * q, q, block->c + i * m, q, block->d + (i + 1) * m, q);
  }
}

/*
   From sums = P^H G_k to the coefficients of step k

     alpha_i = M_ii^{-1}(d_i - sum over j < i of M_ij alpha_j), i < k;   M_ik = d_i - sum over j < k of M_ij alpha_j, i >= k
     beta = M_kk^{-1} f_k;   f_i -= M_ik beta, i > k

   Returns whether M_kk can be inverted
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSBlockScalarsColumn(const IDRSBlockScalars *block, PetscInt k, const PetscScalar sums[])
{
  const PetscInt m = block->m, q = block->q;
  PetscScalar   *alpha = block->alpha + k * m * q, *Mk = block->M + k * m * q, *d = block->d;
  PetscReal      size = 0.0;
  PetscBool      regular;

  for (PetscInt e = IDRS_MEMBER; e < q * m; e += IDRS_MEMBERS) d[e] = sums[e];
  for (PetscInt j = IDRS_MEMBER; j < m; j += IDRS_MEMBERS) {
    PetscReal largest = 0.0;

    for (PetscInt i = 0; i < q; i++) largest = PetscMax(largest, PetscAbsScalar(sums[i + j * q]));
    block->scratch[j] = largest;
  }
  IDRS_SYNC_MEMBERS();
  for (PetscInt j = 0; j < m; j++) size = PetscMax(size, PetscRealPart(block->scratch[j]));
  for (PetscInt i = 0; i < k; i++) {
    IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + i * m * m, m, d + i * m, q, alpha + i * m, q);
    IDRSBlockScalarsMultiply(PETSC_TRUE, q - (i + 1) * m, m, m, block->M + (i + 1) * m + i * m * q, q, alpha + i * m, q, d + (i + 1) * m, q);
  }
  for (PetscInt e = IDRS_MEMBER; e < q * m; e += IDRS_MEMBERS) {
    if (e % q >= k * m) Mk[e] = d[e];
  }
  IDRS_SYNC_MEMBERS();
  regular = IDRSBlockScalarsInvert(block, k, size);
  if (!regular) return PETSC_FALSE; /* f is as it was */
  IDRSBlockScalarsMultiply(PETSC_FALSE, m, m, m, block->inverse + k * m * m, m, block->f + k * m, q, block->beta + k * m, q);
  IDRSBlockScalarsMultiply(PETSC_TRUE, q - (k + 1) * m, m, m, Mk + (k + 1) * m, q, block->beta + k * m, q, block->f + (k + 1) * m, q);
  return regular;
}

/*
   From the sums of the omega step, P^H T, P^H R and the Gram matrix of T and R, to omega, f, and the Frobenius norm that R will have

     omega = <T,R> / <T,T> in the inner product of Frobenius, enlarged where the cosine is small;   f = P^H R - omega P^H T
*/
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsOmega(const IDRSBlockScalars *block, PetscReal cosine, const PetscScalar sums[], PetscReal *rnorm)
{
  const PetscInt     m = block->m, q = block->q;
  const PetscScalar *gram = sums + 2 * q * m;
  PetscScalar        tr   = 0.0, omega;
  PetscReal          tt = 0.0, rr = 0.0, square;

  for (PetscInt i = 0; i < m; i++) {
    tt += PetscRealPart(gram[i + i * 2 * m]);
    rr += PetscRealPart(gram[m + i + (m + i) * 2 * m]);
    tr += gram[i + (m + i) * 2 * m];
  }
  omega = tr / tt;
  if (!(PetscAbsScalar(tr) >= cosine * PetscSqrtReal(tt) * PetscSqrtReal(rr))) omega = (PetscAbsScalar(tr) > 0.0 ? tr / PetscAbsScalar(tr) : (PetscScalar)1.0) * (cosine * PetscSqrtReal(rr / tt));
  square = rr - 2 * PetscRealPart(PetscConj(omega) * tr) + PetscRealPart(omega * PetscConj(omega)) * tt;
  *rnorm = PetscSqrtReal(square < 0.0 ? (PetscReal)0.0 : square);
  for (PetscInt e = IDRS_MEMBER; e < q * m; e += IDRS_MEMBERS) block->f[e] = sums[q * m + e] - omega * sums[e];
  if (IDRS_MEMBER == 0) *block->omega = omega;
  IDRS_SYNC_MEMBERS();
}

/* The coefficient of a row in column j */
static inline IDRS_HOST_DEVICE PetscScalar IDRSBlockScalarsGet(const IDRSBlockScalars *block, const IDRSBlockRow *row, PetscInt j)
{
  const PetscScalar entry = block->M[row->at + j * row->ld] * (PetscReal)row->sign;

  return row->omega ? *block->omega * entry : entry;
}

/* ||r_j||^2 = S_j^H (R^H R) S_j and the Frobenius norm of R, from the sums of step k, and whether all of these are finite */
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsNorms(const IDRSBlockScalars *block, PetscInt k, PetscInt count, const PetscScalar sums[], IDRSBlockNorms *norms)
{
  const PetscInt     m = block->m, omega = k == block->s ? 1 : 0, ld = (1 + omega) * m;
  const PetscScalar *gram   = sums + block->q * ld + omega * (m * ld + m);
  PetscScalar       *terms  = block->scratch;
  PetscReal          square = 0.0;
  int                wrong  = 0;

  for (PetscInt e = IDRS_MEMBER; e < count * m; e += IDRS_MEMBERS) {
    const PetscInt     l   = e % m;
    const PetscScalar *S   = block->S + e / m * m;
    PetscScalar        row = 0.0;

    for (PetscInt i = 0; i < m; i++) row += PetscConj(S[i]) * gram[i + l * ld];
    terms[e] = row * S[l];
  }
  for (PetscInt e = IDRS_MEMBER; e < IDRSBlockSumCount(block->s, m, k); e += IDRS_MEMBERS) wrong |= !(PetscAbsScalar(sums[e]) <= PETSC_MAX_REAL);
  wrong = IDRS_ANY_MEMBER(wrong);
  for (PetscInt i = 0; i < m; i++) square += PetscRealPart(gram[i + i * ld]);
  for (PetscInt j = IDRS_MEMBER; j < count; j += IDRS_MEMBERS) {
    PetscReal sum = 0.0;

    for (PetscInt l = 0; l < m; l++) sum += PetscRealPart(terms[l + j * m]);
    norms->norms[j] = PetscSqrtReal(sum < 0.0 ? (PetscReal)0.0 : sum);
  }
  if (IDRS_MEMBER == 0) {
    norms->rnorm  = PetscSqrtReal(square);
    norms->finite = wrong ? PETSC_FALSE : PETSC_TRUE;
    norms->peak   = PetscMax(norms->peak, norms->rnorm);
  }
  IDRS_SYNC_MEMBERS();
}

/* From the sums of step k to its coefficients. *rnorm is the Frobenius norm that R will have after an omega step. Returns whether M_kk can be inverted */
static inline IDRS_HOST_DEVICE PetscBool IDRSBlockScalarsFinish(const IDRSBlockScalars *block, PetscInt k, PetscReal cosine, const PetscScalar sums[], PetscReal *rnorm)
{
  if (k < block->s) return IDRSBlockScalarsColumn(block, k, sums);
  IDRSBlockScalarsOmega(block, cosine, sums, rnorm);
  return PETSC_TRUE;
}

/* For the direction of the step after step k, if that is not an omega step */
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsDirect(const IDRSBlockScalars *block, PetscInt k)
{
  if (k + 1 != block->s) IDRSBlockScalarsDirection(block, k < block->s ? k + 1 : 0);
}

/* Whether norms leave it to the device to go on: not where all right-hand sides that are not done, or, at the begin of a cycle, some of them, are to be looked at */
static inline IDRS_HOST_DEVICE PetscBool IDRSBlockNormsWithin(const IDRSBlockNorms *norms, PetscInt k, const IDRSBlockBounds *bounds)
{
  PetscInt met = 0, left = 0;

  for (PetscInt j = 0; j < bounds->count; j++) {
    left += bounds->low[j] < PETSC_MAX_REAL ? 1 : 0;
    met += bounds->low[j] < PETSC_MAX_REAL && norms->norms[j] <= bounds->low[j] ? 1 : 0;
  }
  return norms->finite && !bounds->stop && met < left && !(met && k == 0) && norms->rnorm <= bounds->high ? PETSC_TRUE : PETSC_FALSE;
}

/*
   All that a device does with the sums of step k. It stops, and leaves the step to the host, by these norms, where M_kk cannot be inverted, and where a reliable update is due after an
   omega step: the host finds M, f and what it needs of alpha and beta as they were then, or what it computes from the same sums again
*/
static inline IDRS_HOST_DEVICE void IDRSBlockScalarsContinue(const IDRSBlockScalars *block, PetscInt k, const IDRSBlockBounds *bounds, const PetscScalar sums[], IDRSBlockNorms *norms)
{
  PetscReal rnorm = 0.0;
  PetscBool goes;

  IDRSBlockScalarsNorms(block, k, bounds->count, sums, norms);
  goes = IDRSBlockNormsWithin(norms, k, bounds);
  if (goes) goes = IDRSBlockScalarsFinish(block, k, bounds->cosine, sums, &rnorm);
  if (goes && k == block->s && bounds->fall > 0.0 && IDRSUpdateIsDue(rnorm, bounds->fall, norms->peak, bounds->anchornorm)) goes = PETSC_FALSE;
  if (goes) IDRSBlockScalarsDirect(block, k);
  if (IDRS_MEMBER == 0) norms->stopped = goes ? PETSC_FALSE : PETSC_TRUE;
  IDRS_SYNC_MEMBERS();
}
