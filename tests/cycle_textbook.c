static char help[] = "KSPIDRS against IDR(s) as published: M. B. van Gijzen and P. Sonneveld, Algorithm 913, ACM TOMS 38 (2011),\n\
on arrays and with the shadow space stored.\n\n";

#include "workspaces.h"
#include "systems.h"

#define MAX_ITS 2000

/*
   The system that all methods solve: dense arrays by columns on every process, and PETSc objects with distributed rows. The second
   right-hand side differs from the first one by rounding errors; the resulting differences show how far a history is reproducible.
*/
typedef struct {
  PetscInt     n, local, begin;
  PetscScalar *A, *B, *b[2], *x0; /* B is the diagonal preconditioner */
  Mat          Amat, Bmat;
  Vec          rhs, solution;
} System;

/* One solve */
typedef struct {
  PetscInt  s, seed; /* seed of the hashed space; negative for explicit vectors */
  PetscReal cosine;
  PetscBool jacobi, guess;
  PCSide    side;
} Method;

typedef struct {
  PetscInt  its, enlarged, minimised; /* steps with an enlarged omega, and without */
  PetscReal norms[MAX_ITS + 1];
} Norms;

static PetscScalar Dot(PetscInt n, const PetscScalar *x, const PetscScalar *y)
{
  PetscScalar sum = 0.0;

  for (PetscInt i = 0; i < n; i++) sum += PetscConj(x[i]) * y[i];
  return sum;
}

static void Axpy(PetscInt n, PetscScalar *y, PetscScalar a, const PetscScalar *x)
{
  for (PetscInt i = 0; i < n; i++) y[i] += a * x[i];
}

static void Multiply(PetscInt n, const PetscScalar *A, const PetscScalar *x, PetscScalar *y)
{
  for (PetscInt i = 0; i < n; i++) y[i] = 0.0;
  for (PetscInt j = 0; j < n; j++) Axpy(n, y, x[j], A + j * n);
}

static PetscBool Report(Norms *history, PetscInt n, const PetscScalar *r, PetscReal tolerance)
{
  const PetscReal norm = PetscSqrtReal(PetscRealPart(Dot(n, r, r)));

  history->norms[history->its] = norm;
  return history->its < MAX_ITS && norm > tolerance * history->norms[0] ? PETSC_TRUE : PETSC_FALSE;
}

/* r -= G c, x += U c with P^H r = 0, for this number of columns */
static void TextbookProject(PetscInt n, PetscInt s, PetscInt columns, const PetscScalar *P, const PetscScalar *M,
                            const PetscScalar *G, const PetscScalar *U, PetscScalar *r, PetscScalar *x)
{
  for (PetscInt k = 0; k < columns; k++) {
    const PetscScalar beta = Dot(n, P + k * n, r) / M[k + k * s];

    Axpy(n, r, -beta, G + k * n);
    if (x) Axpy(n, x, beta, U + k * n);
  }
}

/* Makes column k orthogonal to p_0 ... p_{k-1}; returns |M_kk| relative to the sum of the moduli of its terms */
static PetscReal TextbookOrthogonalize(PetscInt n, PetscInt s, PetscInt k, const PetscScalar *P, PetscScalar *M, PetscScalar *G,
                                       PetscScalar *U)
{
  PetscScalar *g = G + k * n, *u = U + k * n;
  PetscReal    terms = PetscAbsScalar(Dot(n, P + k * n, g));

  for (PetscInt i = 0; i < k; i++) {
    const PetscScalar alpha = Dot(n, P + i * n, g) / M[i + i * s];

    Axpy(n, g, -alpha, G + i * n);
    Axpy(n, u, -alpha, U + i * n);
    terms += PetscAbsScalar(alpha * M[k + i * s]);
  }
  for (PetscInt i = k; i < s; i++) M[i + k * s] = Dot(n, P + i * n, g);
  return PetscAbsScalar(M[k + k * s]) / terms;
}

/*
   The start of Sonneveld and van Gijzen (2008): s minimal residual steps, whose directions and their products become the first
   columns of U and G, and r with P^H r = 0. A direction is r. If the angle between r and A r is wide, the direction is the r that
   the enlarged omega would yield. If the columns are nearly dependent, r is projected as in the steps after the start. goeson is
   PETSC_TRUE if the tolerance has not been met.
*/
static PetscErrorCode TextbookStart(PetscInt n, const PetscScalar *A, PetscInt s, const PetscScalar *P, PetscReal kappa,
                                    PetscReal tolerance, PetscScalar *M, PetscScalar *G, PetscScalar *U, PetscScalar *r,
                                    PetscScalar *x, Norms *history, PetscBool *goeson)
{
  PetscScalar *v;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(n, &v));
  PetscCall(PetscArraycpy(v, r, n));
  *goeson = Report(history, n, r, tolerance);
  for (PetscInt k = 0; *goeson && k < s; k++) {
    PetscScalar *g = G + k * n, *u = U + k * n, gr, omega;
    PetscReal    gnorm, rnorm, rho;

    PetscCall(PetscArraycpy(u, v, n));
    Multiply(n, A, u, g);
    gr    = Dot(n, g, r);
    gnorm = PetscSqrtReal(PetscRealPart(Dot(n, g, g)));
    rnorm = PetscSqrtReal(PetscRealPart(Dot(n, r, r)));
    rho   = PetscAbsScalar(gr) / (gnorm * rnorm);
    omega = gr / PetscSqr(gnorm);
    Axpy(n, x, omega, u);
    Axpy(n, r, -omega, g);
    PetscCall(PetscArraycpy(v, r, n));
    if (rho < kappa) Axpy(n, v, omega * ((PetscReal)1.0 - kappa / rho), g);
    if (TextbookOrthogonalize(n, s, k, P, M, G, U) < 0.01) TextbookProject(n, s, k + 1, P, M, G, U, v, NULL);
    history->its++;
    *goeson = Report(history, n, r, tolerance);
  }
  PetscCall(PetscFree(v));
  if (*goeson) TextbookProject(n, s, s, P, M, G, U, r, x);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Algorithm 913 for A x = r with x = 0 at first, without a preconditioner, after that start. Every inner product is computed from
   the stored P when it is needed; f = P^H r is recomputed in every cycle.
*/
static PetscErrorCode Textbook(PetscInt n, const PetscScalar *A, PetscInt s, const PetscScalar *P, PetscReal kappa,
                               PetscReal tolerance, PetscScalar *r, PetscScalar *x, Norms *history)
{
  PetscScalar *G, *U, *M, *f, *c, *v, *t, omega = 1.0;
  PetscBool    goeson;

  PetscFunctionBegin;
  PetscCall(PetscCalloc7(n * s, &G, n * s, &U, s * s, &M, s, &f, s, &c, n, &v, n, &t));
  PetscCall(PetscArrayzero(x, n));
  history->its = history->enlarged = history->minimised = 0;
  PetscCall(TextbookStart(n, A, s, P, kappa, tolerance, M, G, U, r, x, history, &goeson));
  if (!goeson) goto done;
  for (PetscBool start = PETSC_TRUE;; start = PETSC_FALSE) {
    PetscReal   tnorm, rnorm, rho;
    PetscScalar tr;

    for (PetscInt i = 0; i < s; i++) f[i] = Dot(n, P + i * n, r);
    for (PetscInt k = 0; !start && k < s; k++) {
      PetscScalar *g = G + k * n, *u = U + k * n, beta;

      /* Solve c from M c = f */
      for (PetscInt i = k; i < s; i++) {
        c[i] = f[i];
        for (PetscInt j = k; j < i; j++) c[i] -= M[i + j * s] * c[j];
        c[i] /= M[i + i * s];
      }
      /* v = r - sum c_i g_i,  u_k = sum c_i u_i + omega v,  g_k = A u_k */
      PetscCall(PetscArraycpy(v, r, n));
      for (PetscInt i = k; i < s; i++) Axpy(n, v, -c[i], G + i * n);
      for (PetscInt i = 0; i < n; i++) u[i] *= c[k];
      for (PetscInt i = k + 1; i < s; i++) Axpy(n, u, c[i], U + i * n);
      Axpy(n, u, omega, v);
      Multiply(n, A, u, g);
      (void)TextbookOrthogonalize(n, s, k, P, M, G, U);
      /* Make r orthogonal to p_0 ... p_k */
      beta = f[k] / M[k + k * s];
      Axpy(n, r, -beta, g);
      Axpy(n, x, beta, u);
      history->its++;
      if (!Report(history, n, r, tolerance)) goto done;
      for (PetscInt i = k + 1; i < s; i++) f[i] -= beta * M[i + k * s];
    }
    /* omega, maintaining the convergence */
    Multiply(n, A, r, t);
    tr    = Dot(n, t, r);
    tnorm = PetscSqrtReal(PetscRealPart(Dot(n, t, t)));
    rnorm = PetscSqrtReal(PetscRealPart(Dot(n, r, r)));
    omega = tr / PetscSqr(tnorm);
    rho   = PetscAbsScalar(tr) / (tnorm * rnorm);
    if (rho < kappa) {
      omega *= kappa / rho;
      history->enlarged++;
    } else history->minimised++;
    Axpy(n, x, omega, r);
    Axpy(n, r, -omega, t);
    history->its++;
    if (!Report(history, n, r, tolerance)) goto done;
  }
done:
  PetscCall(PetscFree7(G, U, M, f, c, v, t));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a random matrix whose diagonal keeps its eigenvalues to the right of zero, spread so far that the methods need some
   cycles. With skew they are to the left of zero, and the skew part is so large that omega is enlarged.
*/
static PetscErrorCode SystemCreate(PetscInt n, PetscBool skew, System *system)
{
  PetscMPIInt  rank, size;
  PetscScalar *array;

  PetscFunctionBegin;
  PetscCall(RankAndSize(&rank, &size));
  /* The first process has a third of the rows, the last has the others */
  system->n     = n;
  system->begin = rank ? n / 3 : 0;
  system->local = size == 1 ? n : (rank == 0 ? n / 3 : (rank == size - 1 ? n - n / 3 : 0));
  PetscCall(PetscMalloc5(n * n, &system->A, n, &system->B, n, &system->b[0], n, &system->b[1], n, &system->x0));
  for (PetscInt j = 0; j < n; j++) {
    for (PetscInt i = 0; i < n; i++) {
      PetscScalar a = Number(n, i + j * n) / PetscSqrtReal((PetscReal)n);

      if (skew) a = (PetscReal)0.8 * (a - PetscConj(Number(n, j + i * n)) / PetscSqrtReal((PetscReal)n));
      if (i == j) a += skew ? (PetscReal)-0.6 - (PetscReal)i / (2 * n) : (PetscReal)1.0 + (PetscReal)(20 * i) / n;
      system->A[i + j * n] = a;
    }
    system->B[j]    = (PetscReal)1.5 + (PetscReal)0.5 * Number(n + 3, j);
    system->b[0][j] = Number(n + 1, j);
    system->b[1][j] = system->b[0][j] * ((PetscReal)1.0 + (PetscReal)(2 * PETSC_MACHINE_EPSILON) * Number(n + 4, j));
    system->x0[j]   = Number(n + 2, j);
  }

  PetscCall(MatCreateDense(PETSC_COMM_WORLD, system->local, system->local, n, n, NULL, &system->Amat));
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, system->local, system->local, n, n, 1, NULL, 0, NULL, &system->Bmat));
  for (PetscInt i = system->begin; i < system->begin + system->local; i++) {
    for (PetscInt j = 0; j < n; j++) PetscCall(MatSetValue(system->Amat, i, j, system->A[i + j * n], INSERT_VALUES));
    PetscCall(MatSetValue(system->Bmat, i, i, system->B[i], INSERT_VALUES));
  }
  PetscCall(MatAssemble(system->Amat));
  PetscCall(MatAssemble(system->Bmat));
  PetscCall(MatCreateVecs(system->Amat, &system->solution, &system->rhs));
  PetscCall(VecGetArrayWrite(system->rhs, &array));
  PetscCall(PetscArraycpy(array, system->b[0] + system->begin, system->local));
  PetscCall(VecRestoreArrayWrite(system->rhs, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SystemDestroy(System *system)
{
  PetscFunctionBegin;
  PetscCall(DestroyAll(&system->rhs, &system->solution, &system->Amat, &system->Bmat));
  PetscCall(PetscFree5(system->A, system->B, system->b[0], system->b[1], system->x0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves the preconditioned system with the method without a preconditioner: A B^{-1} y = r on the right, B^{-1}A x = B^{-1}r on
   the left. The solver monitors the same norms.
*/
static PetscErrorCode SolveTextbook(const System *system, Method method, const PetscScalar *P, PetscInt rhs, Norms *history)
{
  const PetscInt n = system->n;
  PetscScalar   *A, *r, *x;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(n * n, &A, n, &r, n, &x));
  Multiply(n, system->A, system->x0, r);
  for (PetscInt i = 0; i < n; i++) r[i] = system->b[rhs][i] - (method.guess ? r[i] : (PetscScalar)0.0);
  for (PetscInt j = 0; j < n; j++) {
    for (PetscInt i = 0; i < n; i++)
      A[i + j * n] = system->A[i + j * n] / (method.jacobi ? system->B[method.side == PC_RIGHT ? j : i] : (PetscScalar)1.0);
  }
  for (PetscInt i = 0; method.jacobi && method.side == PC_LEFT && i < n; i++) r[i] /= system->B[i];
  PetscCall(Textbook(n, A, method.s, P, method.cosine, 1e-11, r, x, history));
  PetscCall(PetscFree3(A, r, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares the norms of the first five cycles, or until rounding errors in the right-hand side cause a difference of 1e-8, a
   hundredth or less of the tolerance, or until the last norm. The compared norms always include some of the second cycle, which
   uses all columns of the bases and an omega of the method itself.
*/
static PetscErrorCode CompareHistories(const char what[], Method method, const Norms *expected, const Norms *nearby,
                                       const PetscReal found[], PetscInt its)
{
  const PetscInt last = PetscMin(5 * (method.s + 1), PetscMin(expected->its, nearby->its));
  PetscInt       i, wrong = -1;

  PetscFunctionBegin;
  for (i = 0; i <= last && wrong < 0 && PetscAbsReal(nearby->norms[i] - expected->norms[i]) <= 1e-8 * expected->norms[i]; i++) {
    if (i > its || !(PetscAbsReal(found[i] - expected->norms[i]) <= 1e-6 * expected->norms[i])) wrong = i;
  }
  PetscCall(
    ComplainIf(wrong >= 0, "%s: norm %" INT " is %g, not %g", what, wrong, (double)found[wrong], (double)expected->norms[wrong]));
  PetscCall(ComplainIf(wrong < 0 && i <= method.s + 3, "%s: only %" INT " norms to compare", what, i));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares KSPIDRS with the textbook, one method on one system, with hashed or explicit shadow vectors */
static PetscErrorCode Test(const System *system, Method method, PetscInt *enlarged, PetscInt *minimised)
{
  const PetscInt     n = system->n;
  const PetscReal   *found;
  PetscScalar       *P, *array;
  Norms             *expected, *nearby;
  KSPConvergedReason reason;
  PetscReal          norm, bnorm;
  PetscInt           count;
  char               what[128];
  Vec               *vectors = NULL;
  KSP                ksp;

  PetscFunctionBegin;
  PetscCall(PetscSNPrintf(what, sizeof(what), "n %" INT " s %" INT " seed %" INT " cosine %g jacobi %d side %d guess %d", n,
                          method.s, method.seed, (double)method.cosine, (int)method.jacobi, (int)method.side, (int)method.guess));
  PetscCall(PetscMalloc3(n * method.s, &P, 1, &expected, 1, &nearby));
  for (PetscInt j = 0; j < method.s; j++) {
    for (PetscInt i = 0; i < n; i++)
      P[i + j * n] = method.seed < 0 ? Number(2000 + j, i)
                                     : (PetscScalar)((PetscReal)Shadow((uint64_t)method.seed, (uint64_t)i, j) / 65536);
  }
  PetscCall(SolveTextbook(system, method, P, 0, expected));
  PetscCall(SolveTextbook(system, method, P, 1, nearby));
  *enlarged += expected->enlarged;
  *minimised += expected->minimised;

  PetscCall(SolverCreateSide(system->Amat, method.s, method.side, method.jacobi ? PCJACOBI : PCNONE, &ksp));
  PetscCall(KSPSetOperators(ksp, system->Amat, system->Bmat));
  PetscCall(KSPSetTolerances(ksp, 1e-11, 0.0, 1e30, MAX_ITS));
  PetscCall(KSPSetInitialGuessNonzero(ksp, method.guess));
  PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_ITS + 1, PETSC_TRUE));
  if (method.seed < 0) {
    PetscCall(VecDuplicateVecs(system->solution, method.s, &vectors));
    for (PetscInt j = 0; j < method.s; j++) {
      PetscCall(VecGetArrayWrite(vectors[j], &array));
      PetscCall(PetscArraycpy(array, P + system->begin + j * n, system->local));
      PetscCall(VecRestoreArrayWrite(vectors[j], &array));
    }
    PetscCall(KSPIDRSSetShadowVecs(ksp, method.s, vectors));
  } else PetscCall(KSPIDRSSetShadowSeed(ksp, method.seed));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, method.cosine));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(VecGetArrayWrite(system->solution, &array));
  PetscCall(PetscArraycpy(array, system->x0 + system->begin, system->local));
  PetscCall(VecRestoreArrayWrite(system->solution, &array));
  PetscCall(KSPSolve(ksp, system->rhs, system->solution));
  PetscCall(KSPGetResidualHistory(ksp, &found, &count));
  PetscCall(CompareHistories(what, method, expected, nearby, found, count - 1));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ResidualNorm(system->Amat, system->rhs, system->solution, &norm, &bnorm));
  PetscCall(ComplainIf(!(reason > 0 && norm <= 1e-10 * bnorm), "%s: %s, the norm of b - A x is %g of %g", what,
                       KSPConvergedReasons[reason], (double)norm, (double)bnorm));
  PetscCall(KSPDestroy(&ksp));
  if (vectors) PetscCall(VecDestroyVecs(method.s, &vectors));
  PetscCall(PetscFree3(P, expected, nearby));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt  sizes[] = {1, 2, 4, 8}, orders[] = {60, 87, 120};
  const PetscReal cosines[] = {0.0, 0.5, 0.7};
  PetscInt        enlarged = 0, minimised = 0;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  for (PetscInt order = 0; order < 3; order++) {
    for (PetscInt skew = 0; skew < 2; skew++) {
      System system;

      PetscCall(SystemCreate(orders[order], (PetscBool)skew, &system));
      for (PetscInt l = 0; l < 4; l++) {
        Method method = {.s = sizes[l], .side = PC_RIGHT};

        for (PetscInt c = 0; c < 3; c++) {
          method.cosine = cosines[c];
          method.seed   = -1;
          PetscCall(Test(&system, method, &enlarged, &minimised));
          method.seed = order;
          PetscCall(Test(&system, method, &enlarged, &minimised));
        }
        /* A guess, and a preconditioner on either side, which separates the parts of a combine */
        method.cosine = 0.5;
        method.guess  = PETSC_TRUE;
        PetscCall(Test(&system, method, &enlarged, &minimised));
        method.jacobi = PETSC_TRUE;
        PetscCall(Test(&system, method, &enlarged, &minimised));
        method.side = PC_LEFT;
        PetscCall(Test(&system, method, &enlarged, &minimised));
      }
      PetscCall(SystemDestroy(&system));
    }
  }
  PetscCall(Verdict("residual norms and solutions"));
  PetscCall(ComplainIf(enlarged <= 100 || minimised <= 100, "omega was enlarged %" INT " times, and %" INT " times not", enlarged,
                       minimised));
  PetscCall(Verdict("omega"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     requires: double
     nsize: {{1 3}}

TEST*/
