static char help[] = "Block IDR(s) against the block recurrence written out for dense matrices, with LAPACK and a stored shadow "
                     "space: norms of all columns over the first cycles.\n\n";

#include "systems.h"
#include "hash.h"

#define N    (LINE * LINE)
#define MAXM 8
#define MAXS 4
#define SEED (UINT64_C(1) << 62) /* seed of the first block recurrence of a solver with seed 0 */

/* C = A B, A rows x inner, or A^H B */
static void Multiply(PetscBool adjoint, PetscInt rows, PetscInt inner, PetscInt columns, const PetscScalar *A, PetscInt lda,
                     const PetscScalar *B, PetscInt ldb, PetscScalar *C, PetscInt ldc)
{
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt i = 0; i < rows; i++) {
      PetscScalar sum = 0.0;

      for (PetscInt l = 0; l < inner; l++) sum += (adjoint ? PetscConj(A[l + i * lda]) : A[i + l * lda]) * B[l + j * ldb];
      C[i + j * ldc] = sum;
    }
  }
}

/* Y += factor X C, n x columns */
static void Add(PetscInt inner, PetscInt columns, PetscScalar factor, const PetscScalar *X, const PetscScalar *C, PetscInt ldc,
                PetscScalar *Y)
{
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt l = 0; l < inner; l++) {
      for (PetscInt i = 0; i < N; i++) Y[i + j * N] += factor * X[i + l * N] * C[l + j * ldc];
    }
  }
}

/* x = A^{-1}x for m columns, by MATSEQDENSE, which calls LAPACK; A has leading dimension lda and is kept */
static PetscErrorCode Solve(PetscInt n, const PetscScalar *A, PetscInt lda, PetscInt m, PetscScalar *x, PetscInt ldx)
{
  PetscScalar *copy;
  Mat          F;
  Vec          b, y;

  PetscFunctionBeginUser;
  PetscCall(MatCreateSeqDense(PETSC_COMM_SELF, n, n, NULL, &F));
  PetscCall(MatDenseGetArrayWrite(F, &copy));
  for (PetscInt j = 0; j < n; j++) PetscCall(PetscArraycpy(copy + j * n, A + j * lda, n));
  PetscCall(MatDenseRestoreArrayWrite(F, &copy));
  PetscCall(MatLUFactor(F, NULL, NULL, NULL));
  PetscCall(VecCreateSeq(PETSC_COMM_SELF, n, &y));
  for (PetscInt j = 0; j < m; j++) {
    const PetscScalar *solution;

    PetscCall(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, x + j * ldx, &b));
    PetscCall(MatSolve(F, b, y));
    PetscCall(VecGetArrayRead(y, &solution));
    PetscCall(PetscArraycpy(x + j * ldx, solution, n));
    PetscCall(VecRestoreArrayRead(y, &solution));
    PetscCall(VecDestroy(&b));
  }
  PetscCall(DestroyAll(&y, &F));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes Q, n x m and orthonormal, and S with B = Q S, by Gram-Schmidt, twice for each column */
static void Factor(PetscInt m, PetscScalar *B, PetscScalar *S)
{
  for (PetscInt j = 0; j < m; j++) {
    PetscReal norm = 0.0;

    for (PetscInt twice = 0; twice < 2; twice++) {
      for (PetscInt i = 0; i < j; i++) {
        PetscScalar h;

        Multiply(PETSC_TRUE, 1, N, 1, B + i * N, N, B + j * N, N, &h, 1);
        S[i + j * m] += h;
        for (PetscInt l = 0; l < N; l++) B[l + j * N] -= h * B[l + i * N];
      }
    }
    for (PetscInt l = 0; l < N; l++) norm += PetscRealPart(B[l + j * N] * PetscConj(B[l + j * N]));
    S[j + j * m] = norm = PetscSqrtReal(norm);
    for (PetscInt l = 0; l < N; l++) B[l + j * N] /= norm;
  }
}

typedef struct {
  PetscScalar A[N * N], P[N * MAXS * MAXM], G[N * MAXS * MAXM], U[N * MAXS * MAXM], M[MAXS * MAXM * MAXS * MAXM],
    f[MAXS * MAXM * MAXM], c[MAXS * MAXM * MAXM], d[MAXS * MAXM * MAXM], R[N * MAXM], V[N * MAXM], T[N * MAXM], S[MAXM * MAXM];
} Dense;

/* Computes the norms of the columns of R S */
static void Norms(PetscInt m, const Dense *dense, PetscReal norms[])
{
  for (PetscInt j = 0; j < m; j++) {
    PetscReal sum = 0.0;

    for (PetscInt i = 0; i < N; i++) {
      PetscScalar r = 0.0;

      for (PetscInt l = 0; l < m; l++) r += dense->R[i + l * N] * dense->S[l + j * m];
      sum += PetscRealPart(r * PetscConj(r));
    }
    norms[j] = PetscSqrtReal(sum);
  }
}

/*
   Makes a step of the textbook: U_k = omega V + U c, biorthogonalized column block by column block. T is omitted, since it changes
   nothing in exact arithmetic
*/
static PetscErrorCode DenseStep(PetscInt s, PetscInt m, PetscInt k, PetscScalar omega, Dense *dense)
{
  const PetscInt q = s * m, rest = q - k * m;
  PetscScalar   *g = dense->G + k * m * N, *u = dense->U + k * m * N, *c = dense->c, alpha[MAXM * MAXM], *Mkk;

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < m; j++) PetscCall(PetscArraycpy(c + j * q, dense->f + k * m + j * q, rest));
  PetscCall(Solve(rest, dense->M + k * m + k * m * q, q, m, c, q));
  PetscCall(PetscArraycpy(dense->V, dense->R, N * m));
  Add(rest, m, -1.0, g, c, q, dense->V);
  PetscCall(PetscArrayzero(dense->T, N * m));
  Add(rest, m, 1.0, u, c, q, dense->T);
  for (PetscInt i = 0; i < N * m; i++) u[i] = dense->T[i] + omega * dense->V[i];
  Multiply(PETSC_FALSE, N, N, m, dense->A, N, u, N, g, N);
  for (PetscInt i = 0; i < k; i++) {
    Multiply(PETSC_TRUE, m, N, m, dense->P + i * m * N, N, g, N, alpha, m);
    PetscCall(Solve(m, dense->M + i * m + i * m * q, q, m, alpha, m));
    Add(m, m, -1.0, dense->G + i * m * N, alpha, m, g);
    Add(m, m, -1.0, dense->U + i * m * N, alpha, m, u);
  }
  Mkk = dense->M + k * m + k * m * q;
  Multiply(PETSC_TRUE, rest, N, m, dense->P + k * m * N, N, g, N, Mkk, q);
  for (PetscInt j = 0; j < m; j++) PetscCall(PetscArraycpy(alpha + j * m, dense->f + k * m + j * q, m)); /* beta */
  PetscCall(Solve(m, Mkk, q, m, alpha, m));
  Add(m, m, -1.0, g, alpha, m, dense->R);
  Multiply(PETSC_TRUE, q, N, m, dense->P, N, dense->R, N, dense->f, q);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void DenseOmega(PetscInt s, PetscInt m, PetscScalar *omega, Dense *dense)
{
  PetscScalar tr = 0.0;
  PetscReal   tt = 0.0, rr = 0.0;

  Multiply(PETSC_FALSE, N, N, m, dense->A, N, dense->R, N, dense->T, N);
  for (PetscInt i = 0; i < N * m; i++) {
    tr += PetscConj(dense->T[i]) * dense->R[i];
    tt += PetscRealPart(PetscConj(dense->T[i]) * dense->T[i]);
    rr += PetscRealPart(PetscConj(dense->R[i]) * dense->R[i]);
  }
  *omega = tr / tt;
  if (PetscAbsScalar(tr) < 0.5 * PetscSqrtReal(tt * rr)) *omega = 0.5 * PetscSqrtReal(rr / tt) * tr / PetscAbsScalar(tr);
  for (PetscInt i = 0; i < N * m; i++) dense->R[i] -= *omega * dense->T[i];
  Multiply(PETSC_TRUE, s * m, N, m, dense->P, N, dense->R, N, dense->f, s * m);
}

/* Compares the norms of the solver and of the textbook, which begins with G = U = 0, M = I and omega = 1 */
static PetscErrorCode Test(Mat A, PetscInt s, PetscInt m)
{
  /* rounding errors grow by 1e5 in a step of the second cycle with 32 shadow vectors */
  const PetscInt  q = s * m, cycles = PetscDefined(USE_REAL_SINGLE) && q > 16 ? 1 : 2;
  const PetscInt *its;
  PetscReal      *history, norms[MAXM];
  PetscScalar     omega = 1.0;
  PetscInt        length, at[MAXM];
  Dense          *dense;
  KSP             ksp;
  Mat             B, X;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, PCNONE, &ksp));
  PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  PetscCall(MatCreateDense(PETSC_COMM_SELF, N, m, N, m, NULL, &B));
  PetscCall(PetscNew(&dense));
  for (PetscInt j = 0; j < m; j++) {
    for (PetscInt i = 0; i < N; i++) {
      dense->R[i + j * N] = PetscSinReal((PetscReal)(1.0 + 1.7 * i * (1 + j) + 0.3 * i * i)) +
                            (PetscDefined(USE_COMPLEX) ? PETSC_i * PetscCosReal((PetscReal)(i * (2 + j))) : 0.0);
      PetscCall(MatSetValue(B, i, j, dense->R[i + j * N], INSERT_VALUES));
    }
  }
  PetscCall(MatAssemble(B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(PetscMalloc1(m * MAX_HISTORY, &history));
  PetscCall(KSPSetResidualHistory(ksp, history, m * MAX_HISTORY, PETSC_FALSE));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
  PetscCall(KSPGetResidualHistory(ksp, NULL, &length));
  for (PetscInt j = 0; j < m; j++) at[j] = j ? at[j - 1] + its[j - 1] + 1 : 0;
  PetscCall(ComplainIf(at[m - 1] + its[m - 1] + 1 != length, "s = %" INT ", m = %" INT ": %" INT " norms instead of %" INT, s, m,
                       length, at[m - 1] + its[m - 1] + 1));
  for (PetscInt i = 0; i < N; i++) {
    for (PetscInt j = 0; j < N; j++) PetscCall(MatGetValues(A, 1, &i, 1, &j, &dense->A[i + j * N]));
    for (PetscInt j = 0; j < q; j++) dense->P[i + j * N] = (PetscReal)Shadow(SEED, (uint64_t)i, j) / 65536;
  }
  for (PetscInt i = 0; i < q; i++) dense->M[i + i * q] = 1.0;
  Factor(m, dense->R, dense->S);
  Multiply(PETSC_TRUE, q, N, m, dense->P, N, dense->R, N, dense->f, q);
  for (PetscInt i = 1; i <= cycles * (s + 1); i++) {
    if (i % (s + 1)) PetscCall(DenseStep(s, m, i % (s + 1) - 1, omega, dense));
    else DenseOmega(s, m, &omega, dense);
    Norms(m, dense, norms);
    for (PetscInt j = 0; j < m && i <= its[j]; j++)
      PetscCall(ComplainIf(!(PetscAbsReal(history[at[j] + i] - norms[j]) <= 1e3 * PETSC_SQRT_MACHINE_EPSILON * history[at[j]]),
                           "s = %" INT ", m = %" INT ", column %" INT ", iteration %" INT ": %g, by the textbook %g", s, m, j, i,
                           (double)history[at[j] + i], (double)norms[j]));
  }
  PetscCall(PetscFree(history));
  PetscCall(PetscFree(dense));
  PetscCall(DestroyAll(&B, &X, &ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt columns[] = {2, 3, MAXM};
  Mat            A;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(MatCreateEntries(Convection, N, PETSC_FALSE, &A));
  for (PetscInt s = 1; s <= MAXS; s *= 2) {
    for (PetscInt i = 0; i < 3; i++) PetscCall(Test(A, s, columns[i]));
  }
  PetscCall(Verdict("the block recurrence of the textbook"));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1

TEST*/
