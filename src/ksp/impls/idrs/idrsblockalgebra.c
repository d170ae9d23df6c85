/*
   The small dense algebra of block IDR(s), see idrsblock.c, with LAPACK, on the host. All processes do it with the same sums
*/
#include "idrsblock.h"
#include <petscblaslapack.h>

/* Eigenvalues of the scaled Gram matrix below this part of the largest are noise: 1e-13 in double precision */
#define IDRS_BLOCK_NOISE (450 * PETSC_MACHINE_EPSILON)

/* C = factor A B + C, or with A^H */
static PetscErrorCode KSPIDRSBlockMultiply_Private(PetscBool adjoint, PetscInt rows, PetscInt columns, PetscInt inner, PetscScalar factor, const PetscScalar *A, PetscInt lda, const PetscScalar *B, PetscInt ldb, PetscScalar *C, PetscInt ldc)
{
  const PetscScalar one = 1.0;
  PetscBLASInt      brows, bcolumns, binner, blda, bldb, bldc;

  PetscFunctionBegin;
  if (!rows || !inner) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscBLASIntCast(rows, &brows));
  PetscCall(PetscBLASIntCast(columns, &bcolumns));
  PetscCall(PetscBLASIntCast(inner, &binner));
  PetscCall(PetscBLASIntCast(lda, &blda));
  PetscCall(PetscBLASIntCast(ldb, &bldb));
  PetscCall(PetscBLASIntCast(ldc, &bldc));
  PetscCallBLAS("BLASgemm", BLASgemm_(adjoint ? "C" : "N", "N", &brows, &bcolumns, &binner, &factor, A, &blda, B, &bldb, &one, C, &bldc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Factors M_kk; it fails where a pivot is rounding error of numbers of this size */
static PetscErrorCode KSPIDRSBlockFactor_Private(KSPIDRSBlockAlgebra *block, PetscInt k, PetscReal size)
{
  const PetscInt m        = block->m;
  PetscScalar   *LU       = block->LU + k * m * m;
  PetscReal      smallest = PETSC_MAX_REAL;
  PetscBLASInt   bm, info;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < m; j++) PetscCall(PetscArraycpy(LU + j * m, block->M + k * m + (k * m + j) * block->q, m));
  PetscCall(PetscBLASIntCast(m, &bm));
  PetscCall(PetscFPTrapPush(PETSC_FP_TRAP_OFF));
  PetscCallBLAS("LAPACKgetrf", LAPACKgetrf_(&bm, &bm, LU, &bm, block->pivots + k * m, &info));
  PetscCall(PetscFPTrapPop());
  for (PetscInt j = 0; j < m; j++) smallest = PetscAbsScalar(LU[j + j * m]) < smallest ? PetscAbsScalar(LU[j + j * m]) : smallest;
  if (info || !(smallest > 64 * PETSC_MACHINE_EPSILON * size)) block->failed = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x = M_kk^{-1}x, m columns of an array of q rows */
static PetscErrorCode KSPIDRSBlockSolveDiagonal_Private(KSPIDRSBlockAlgebra *block, PetscInt k, PetscScalar *x)
{
  PetscBLASInt bm, bq, info;

  PetscFunctionBegin;
  PetscCall(PetscBLASIntCast(block->m, &bm));
  PetscCall(PetscBLASIntCast(block->q, &bq));
  PetscCall(PetscFPTrapPush(PETSC_FP_TRAP_OFF));
  PetscCallBLAS("LAPACKgetrs", LAPACKgetrs_("N", &bm, &bm, block->LU + k * block->m * block->m, &bm, block->pivots + k * block->m, x, &bq, &info));
  PetscCall(PetscFPTrapPop());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockAlgebraCreate_Private - The coefficients at the begin of a recurrence: G = U = 0, M = I, omega = 1 */
PetscErrorCode KSPIDRSBlockAlgebraCreate_Private(PetscInt s, PetscInt m, KSPIDRSBlockAlgebra *block)
{
  const PetscInt q = s * m;
  PetscScalar   *at;

  PetscFunctionBegin;
  block->s      = s;
  block->m      = m;
  block->q      = q;
  block->omega  = 1.0;
  block->failed = PETSC_FALSE;
  PetscCall(PetscCalloc3(2 * q * q + s * m * m + 3 * q * m + 6 * m * m, &block->storage, q, &block->pivots, 4 * m, &block->eigenvalues));
  at              = block->storage;
  block->M        = at;
  block->LU       = (at += q * q);
  block->f        = (at += s * m * m);
  block->c        = (at += q * m);
  block->alpha    = (at += q * m);
  block->beta     = (at += q * q);
  block->T        = (at += q * m);
  block->identity = (at += m * m);
  block->W        = (at += m * m);
  block->work     = (at += m * m); /* 3 m^2: LAPACK asks for 3 m */
  for (PetscInt i = 0; i < q; i++) block->M[i + i * q] = 1.0;
  for (PetscInt i = 0; i < m; i++) block->identity[i + i * m] = 1.0;
  for (PetscInt k = 0; k < s; k++) PetscCall(KSPIDRSBlockFactor_Private(block, k, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPIDRSBlockAlgebraDestroy_Private(KSPIDRSBlockAlgebra *block)
{
  PetscFunctionBegin;
  PetscCall(PetscFree3(block->storage, block->pivots, block->eigenvalues));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   T, with which the columns of R T are as good as orthogonal. F = f(k:s), which is not zero on paper, is R seen through random vectors: the Gram matrix F^H F stands for R^H R,
   which only another reduction would tell. With D, the norms of the columns of F:

     D^{-1} F^H F D^{-1} = E L E^H,   T = D^{-1} E max(L, noise)^{-1/2}
*/
static PetscErrorCode KSPIDRSBlockOrthogonalize_Private(KSPIDRSBlockAlgebra *block, PetscInt k)
{
  const PetscInt     m = block->m, q = block->q;
  const PetscScalar *F      = block->f + k * m;
  PetscReal         *lambda = block->eigenvalues, size[IDRS_MAX_WIDTH], all = 0.0;
  PetscBLASInt       bm, length, info;

  PetscFunctionBegin;
  PetscCall(PetscArrayzero(block->W, m * m));
  PetscCall(KSPIDRSBlockMultiply_Private(PETSC_TRUE, m, m, q - k * m, 1.0, F, q, F, q, block->W, m));
  for (PetscInt j = 0; j < m; j++) {
    const PetscReal square = PetscRealPart(block->W[j + j * m]);

    size[j] = square > 0.0 ? PetscSqrtReal(square) : 1.0;
    all += square;
  }
  if (!(all > 0.0 && all < PETSC_MAX_REAL)) { /* there is nothing to be orthogonalized: the sums of the step tell why */
    PetscCall(PetscArraycpy(block->T, block->identity, m * m));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt j = 0; j < m; j++) {
    for (PetscInt i = 0; i < m; i++) block->W[i + j * m] /= size[i] * size[j];
  }
  PetscCall(PetscBLASIntCast(m, &bm));
  PetscCall(PetscBLASIntCast(3 * m, &length));
  PetscCall(PetscFPTrapPush(PETSC_FP_TRAP_OFF));
#if PetscDefined(USE_COMPLEX)
  PetscCallBLAS("LAPACKsyev", LAPACKsyev_("V", "U", &bm, block->W, &bm, lambda, block->work, &length, block->eigenvalues + m, &info));
#else
  PetscCallBLAS("LAPACKsyev", LAPACKsyev_("V", "U", &bm, block->W, &bm, lambda, block->work, &length, &info));
#endif
  PetscCall(PetscFPTrapPop());
  if (info || !(lambda[m - 1] > 0.0)) block->failed = PETSC_TRUE;
  for (PetscInt j = 0; j < m; j++) {
    const PetscReal root = PetscSqrtReal(PetscMax(lambda[j], IDRS_BLOCK_NOISE * lambda[m - 1]));

    for (PetscInt i = 0; i < m; i++) block->T[i + j * m] = block->W[i + j * m] / (size[i] * root);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockDirection_Private - For the direction of step k: T, and c T, where M(k:s,k:s) c = f(k:s) */
PetscErrorCode KSPIDRSBlockDirection_Private(KSPIDRSBlockAlgebra *block, PetscInt k)
{
  const PetscInt m = block->m, q = block->q;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockOrthogonalize_Private(block, k));
  /* c T solves the system with f T */
  for (PetscInt j = 0; j < m; j++) PetscCall(PetscArrayzero(block->c + k * m + j * q, q - k * m));
  PetscCall(KSPIDRSBlockMultiply_Private(PETSC_FALSE, q - k * m, m, m, 1.0, block->f + k * m, q, block->T, m, block->c + k * m, q));
  for (PetscInt i = k; i < block->s; i++) {
    PetscCall(KSPIDRSBlockSolveDiagonal_Private(block, i, block->c + i * m));
    PetscCall(KSPIDRSBlockMultiply_Private(PETSC_FALSE, q - (i + 1) * m, m, m, -1.0, block->M + (i + 1) * m + i * m * q, q, block->c + i * m, q, block->c + (i + 1) * m, q));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockColumn_Private - From d = P^H G_k, which is overwritten, to the coefficients of step k

     alpha_i = M_ii^{-1}(d_i - sum over j < i of M_ij alpha_j), i < k;   M_ik = d_i - sum over j < k of M_ij alpha_j, i >= k
     beta = M_kk^{-1} f_k;   f_i -= M_ik beta, i > k
*/
PetscErrorCode KSPIDRSBlockColumn_Private(KSPIDRSBlockAlgebra *block, PetscInt k, PetscScalar d[])
{
  const PetscInt m = block->m, q = block->q;
  PetscScalar   *alpha = block->alpha + k * m * q;
  PetscReal      size  = 0.0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < q * m; i++) size = PetscMax(size, PetscAbsScalar(d[i]));
  for (PetscInt i = 0; i < k; i++) {
    for (PetscInt j = 0; j < m; j++) PetscCall(PetscArraycpy(alpha + i * m + j * q, d + i * m + j * q, m));
    PetscCall(KSPIDRSBlockSolveDiagonal_Private(block, i, alpha + i * m));
    PetscCall(KSPIDRSBlockMultiply_Private(PETSC_FALSE, q - (i + 1) * m, m, m, -1.0, block->M + (i + 1) * m + i * m * q, q, alpha + i * m, q, d + (i + 1) * m, q));
  }
  for (PetscInt j = 0; j < m; j++) {
    PetscCall(PetscArraycpy(block->M + k * m + (k * m + j) * q, d + k * m + j * q, q - k * m));
    PetscCall(PetscArraycpy(block->beta + k * m + j * q, block->f + k * m + j * q, m));
  }
  PetscCall(KSPIDRSBlockFactor_Private(block, k, size));
  PetscCall(KSPIDRSBlockSolveDiagonal_Private(block, k, block->beta + k * m));
  PetscCall(KSPIDRSBlockMultiply_Private(PETSC_FALSE, q - (k + 1) * m, m, m, -1.0, block->M + (k + 1) * m + k * m * q, q, block->beta + k * m, q, block->f + (k + 1) * m, q));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockOmega_Private - From the sums of the omega step, P^H T, P^H R and the Gram matrix of T and R, to omega, f, and the Frobenius norm that R will have

     omega = <T,R> / <T,T> in the inner product of Frobenius, enlarged where the cosine is small;   f = P^H R - omega P^H T
*/
PetscErrorCode KSPIDRSBlockOmega_Private(KSPIDRSBlockAlgebra *block, PetscReal cosine, const PetscScalar sums[], PetscReal *rnorm)
{
  const PetscInt     m = block->m, q = block->q;
  const PetscScalar *gram = sums + 2 * q * m;
  PetscScalar        tr   = 0.0;
  PetscReal          tt = 0.0, rr = 0.0, bound;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < m; i++) {
    tt += PetscRealPart(gram[i + i * 2 * m]);
    rr += PetscRealPart(gram[m + i + (m + i) * 2 * m]);
    tr += gram[i + (m + i) * 2 * m];
  }
  bound = cosine * PetscSqrtReal(tt) * PetscSqrtReal(rr);
  if (PetscAbsScalar(tr) >= bound) block->omega = tr / tt;
  else block->omega = cosine * PetscSqrtReal(rr / tt) * (PetscAbsScalar(tr) > 0.0 ? tr / PetscAbsScalar(tr) : (PetscScalar)1.0);
  for (PetscInt i = 0; i < q * m; i++) block->f[i] = sums[q * m + i] - block->omega * sums[i];
  *rnorm = PetscSqrtReal(PetscMax(rr - 2 * PetscRealPart(PetscConj(block->omega) * tr) + PetscRealPart(block->omega * PetscConj(block->omega)) * tt, 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}
