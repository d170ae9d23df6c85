/*
   Powers of a matrix as their users call them: checks, the choice of the back end, and back end "mat": MatMult() and operations of
   Vec, step by step
*/
#include <petsc/private/matimpl.h>
#include <petsc/private/vecimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrspowers.h>

static PetscErrorCode IDRSPowersCheckArray(MPI_Comm comm, const char who[], const char name[], PetscInt n, const PetscScalar a[])
{
  PetscFunctionBegin;
  PetscCheck(a || !n, comm, PETSC_ERR_ARG_NULL, "%s(): no array %s for %" PetscInt_FMT " numbers", who, name, n);
  for (PetscInt i = 0; i < n; i++)
    PetscCheck(!PetscIsInfOrNanScalar(a[i]), comm, PETSC_ERR_ARG_OUTOFRANGE, "%s(): %s[%" PetscInt_FMT "] = %g is not finite", who,
               name, i, (double)PetscAbsScalar(a[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the layout of a vector, because back ends use arrays with as many entries as the matrix has rows on each process */
static PetscErrorCode IDRSPowersCheckVec(const char who[], Mat A, const char name[], Vec v)
{
  PetscInt N, size, n, local;

  PetscFunctionBegin;
  PetscCall(MatGetSize(A, NULL, &N));
  PetscCall(VecGetSize(v, &size));
  PetscCheck(size == N, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_SIZ,
             "%s(): %s has %" PetscInt_FMT " entries, and the matrix %" PetscInt_FMT " rows and columns", who, name, size, N);
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(VecGetLocalSize(v, &local));
  PetscCheck(local == n, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
             "%s(): %s has %" PetscInt_FMT " entries on this process, and the matrix %" PetscInt_FMT " rows", who, name, local, n);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks an output vector, which must differ from the vectors that are read */
static PetscErrorCode IDRSPowersCheckOutput(const char who[], const IDRSPowers *powers, Vec x, const char name[], Vec v)
{
  MPI_Comm comm = PetscObjectComm((PetscObject)powers->A);

  PetscFunctionBegin;
  PetscCheck(v != x, comm, PETSC_ERR_ARG_IDN, "%s(): x and %s must be different vectors", who, name);
  PetscCheck(v != powers->inverse, comm, PETSC_ERR_ARG_IDN, "%s(): the diagonal and %s must be different vectors", who, name);
  PetscCall(IDRSPowersCheckVec(who, powers->A, name, v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the matrix, the coefficients and the input vectors */
static PetscErrorCode IDRSPowersCheck(const char who[], const IDRSPowers *powers, Vec x)
{
  const Mat A    = powers->A;
  MPI_Comm  comm = PetscObjectComm((PetscObject)A);
  PetscInt  M, N, m, n;
  PetscBool congruent;

  PetscFunctionBegin;
  PetscCheck(powers->k >= 0, comm, PETSC_ERR_ARG_OUTOFRANGE, "%s(): k = %" PetscInt_FMT " must not be negative", who, powers->k);
  PetscCall(MatGetSize(A, &M, &N));
  PetscCheck(M == N, comm, PETSC_ERR_ARG_SIZ,
             "%s(): the matrix has %" PetscInt_FMT " rows and %" PetscInt_FMT " columns, but powers require a square matrix", who,
             M, N);
  PetscCall(MatHasCongruentLayouts(A, &congruent));
  PetscCall(MatGetLocalSize(A, &m, &n));
  PetscCheck(congruent, comm, PETSC_ERR_ARG_SIZ,
             "%s(): the matrix has %" PetscInt_FMT " rows and %" PetscInt_FMT
             " columns on this process, but powers require the same layout of rows and columns",
             who, m, n);
  PetscCall(IDRSPowersCheckVec(who, A, "x", x));
  if (powers->inverse) PetscCall(IDRSPowersCheckVec(who, A, "the diagonal", powers->inverse));
  PetscCall(IDRSPowersCheckArray(comm, who, "gamma", powers->k, powers->gamma));
  PetscCall(IDRSPowersCheckArray(comm, who, "theta", powers->k, powers->theta));
  PetscCall(IDRSPowersCheckArray(comm, who, "mu", powers->k, powers->mu));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y = c_0 x, or b + c_0 x */
static PetscErrorCode IDRSPowersSumBegin(const IDRSPowersSum *sum, Vec x)
{
  PetscFunctionBegin;
  if (sum->adds) PetscCall(VecAXPY(sum->y, sum->c[0], x));
  else {
    PetscCall(VecCopy(x, sum->y));
    PetscCall(VecScale(sum->y, sum->c[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v_j from v_{j-2} and v_{j-1}, and adds c_j v_j to a sum, in the first step also c_0 v_0. v_{-1} is not read */
static PetscErrorCode IDRSPowersStep_Mat(const IDRSPowers *powers, PetscInt j, Vec before, Vec last, Vec next,
                                         const IDRSPowersSum *sum)
{
  const PetscScalar gamma = powers->gamma[j - 1], theta = powers->theta[j - 1], mu = powers->mu[j - 1];

  PetscFunctionBegin;
  /* v_j = gamma (D^{-1}A - theta) v_{j-1} - mu v_{j-2} */
  PetscCall(MatMult(powers->A, last, next));
  if (powers->inverse) PetscCall(IDRSVecPointwiseMult(next, powers->inverse, next));
  if (j > 1 && mu != 0.0) PetscCall(VecAXPBYPCZ(next, -gamma * theta, -mu, gamma, last, before));
  else PetscCall(VecAXPBY(next, -gamma * theta, gamma, last));
  if (!sum) PetscFunctionReturn(PETSC_SUCCESS);
  /* y += c_j v_j, or y = c_0 v_0 + c_1 v_1 */
  if (j == 1) PetscCall(IDRSPowersSumBegin(sum, last));
  PetscCall(VecAXPY(sum->y, sum->c[j], next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v_1 ... v_k */
static PetscErrorCode IDRSPowersPowers_Mat(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt j = 1; j <= powers->k; j++)
    PetscCall(IDRSPowersStep_Mat(powers, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1], NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersWorkGet - Returns three vectors like x, which the matrix owns */
PetscErrorCode IDRSPowersWorkGet(Mat A, Vec x, Vec work[])
{
  const char *const names[] = {"IDRSPowersWork0", "IDRSPowersWork1", "IDRSPowersWork2"};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < 3; i++) {
    PetscBool   same = PETSC_FALSE;
    PetscLayout rows[2];

    PetscCall(PetscObjectQuery((PetscObject)A, names[i], (PetscObject *)&work[i]));
    if (work[i]) PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)work[i])->type_name, &same));
    if (same) { /* the matrix may have another layout now */
      PetscCall(VecGetLayout(x, &rows[0]));
      PetscCall(VecGetLayout(work[i], &rows[1]));
      PetscCall(PetscLayoutCompare(rows[0], rows[1], &same));
    }
    if (same) continue;
    PetscCall(VecDuplicate(x, &work[i]));
    PetscCall(PetscObjectCompose((PetscObject)A, names[i], (PetscObject)work[i]));
    PetscCall(PetscObjectDereference((PetscObject)work[i])); /* the matrix owns it now */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPowersSumByStep - Computes y, v_k and z */
PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  Vec work[3], before = x, last = x;

  PetscFunctionBegin;
  if (powers->k) PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  else PetscCall(IDRSPowersSumBegin(sum, x));
  for (PetscInt j = 1; j <= powers->k; j++) {
    Vec next = work[j % 3];

    /* v_j overwrites v_{j-3}; y += c_j v_j */
    PetscCall(IDRSPowersStep_Mat(powers, j, before, last, next, sum));
    before = last;
    last   = next;
  }
  if (sum->vk) PetscCall(VecCopy(last, sum->vk));
  if (sum->z) PetscCall(MatMult(powers->A, sum->y, sum->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatMult() works for every matrix and every vector */
static PetscErrorCode IDRSPowersRuns_Mat(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSPowersOps IDRSPowers_Mat = {.name   = "mat",
                                             .runs   = IDRSPowersRuns_Mat,
                                             .powers = IDRSPowersPowers_Mat,
                                             .sum    = IDRSPowersSumByStep};

/* Back ends, the fastest first */
static const IDRSPowersOps *const IDRSPowersList[] = {&IDRSPowers_Stream,
#if defined(PETSCIDRS_HAVE_CUDA)
                                                      &IDRSPowers_Persistent,
#endif
                                                      &IDRSPowers_Mat};

/* Chooses the back end for these vectors, some of which may be NULL: the same on all processes */
static PetscErrorCode IDRSPowersChoose(IDRSPowers *powers, Vec x, PetscInt n, const Vec others[])
{
  const char *why = NULL;
  Vec        *vecs;
  PetscInt    count = 0;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(n + 2, &vecs));
  vecs[count++] = x;
  if (powers->inverse) vecs[count++] = powers->inverse;
  for (PetscInt i = 0; i < n; i++) {
    if (others[i]) vecs[count++] = others[i];
  }
  powers->ops = NULL;
  for (size_t i = 0; !powers->ops; i++) {
    PetscCall((*IDRSPowersList[i]->runs)(powers->A, count, vecs, &why));
    if (!why) powers->ops = IDRSPowersList[i];
    else PetscCall(PetscInfo(powers->A, "Back end %s of matrix powers does not run: %s\n", IDRSPowersList[i]->name, why));
  }
  PetscCall(PetscFree(vecs));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  MatPowersMult - Computes a sequence of polynomials of a matrix times a vector, $v_1, \ldots, v_k$

  Collective

  Input Parameters:
+ A       - the matrix, as many rows as columns on each process
. inverse - diagonal of $D^{-1}$, which scales the rows of A, or `NULL`
. x       - the vector $v_0$
. k       - how many vectors to compute, 0 or larger
. gamma   - array of k scale factors
. theta   - array of k shifts
- mu      - array of k coefficients; the first is not used

  Output Parameter:
. v - array of k vectors, which must not contain x or the diagonal: v[j - 1] is $v_j$

  Level: intermediate

  Notes:
  The sequence is

  $$
  v_0 = x, \quad v_j = \gamma_j (D^{-1}A - \theta_j) v_{j-1} - \mu_j v_{j-2}, \quad j = 1, \ldots, k,
  $$

  with the coefficients of step j at place j - 1 of the arrays. `MatPowersSetMonomial()`, `MatPowersSetNewton()` and
  `MatPowersSetChebyshev()` fill them for bases of Krylov spaces.

  Each step calls `MatMult()` once, with any type of matrix. On one process with a matrix of type `MATSEQAIJCUSPARSE` and vectors
  of type `VECCUDA`, one kernel computes up to 16 steps if the registers of the GPU can hold the matrix, up to some 90 000 rows of
  at most 8 entries, and the matrix keeps as much memory as 32 vectors. A matrix of type `MATSEQAIJSTREAM` is sent to the GPU once
  for as many steps as its memory there permits, a matrix of type `MATMPIAIJSTREAM` for each step. If one of these methods is not
  possible, `-info` prints the reason.

.seealso: [](ch_matrices), `Mat`, `MatPowersSum()`, `MatPowersSetMonomial()`, `MatPowersSetNewton()`, `MatPowersSetChebyshev()`,
          `MATAIJSTREAM`, `MatMult()`
@*/
PetscErrorCode MatPowersMult(Mat A, Vec inverse, Vec x, PetscInt k, const PetscScalar gamma[], const PetscScalar theta[],
                             const PetscScalar mu[], Vec v[])
{
  IDRSPowers powers = {.A = A, .inverse = inverse, .k = k, .gamma = gamma, .theta = theta, .mu = mu};
  char       name[32];

  PetscFunctionBegin;
  PetscValidHeaderSpecific(A, MAT_CLASSID, 1);
  if (inverse) PetscValidHeaderSpecific(inverse, VEC_CLASSID, 2);
  PetscValidHeaderSpecific(x, VEC_CLASSID, 3);
  PetscValidLogicalCollectiveInt(A, k, 4);
  PetscCall(IDRSPowersCheck("MatPowersMult", &powers, x));
  for (PetscInt j = 0; j < k; j++) {
    PetscValidHeaderSpecific(v[j], VEC_CLASSID, 8);
    PetscCall(PetscSNPrintf(name, sizeof(name), "v[%" PetscInt_FMT "]", j));
    PetscCall(IDRSPowersCheckOutput("MatPowersMult", &powers, x, name, v[j]));
  }
  PetscCall(IDRSPowersChoose(&powers, x, k, v));
  PetscCall((*powers.ops->powers)(&powers, x, v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  MatPowersSum - Computes a polynomial of a matrix times a vector, $y = c_0 v_0 + \ldots + c_k v_k$

  Collective

  Input Parameters:
+ A       - the matrix, as many rows as columns on each process
. inverse - diagonal of $D^{-1}$, which scales the rows of A, or `NULL`
. x       - the vector $v_0$
. k       - degree of the polynomial, 0 or larger
. gamma   - array of k scale factors
. theta   - array of k shifts
. mu      - array of k coefficients; the first is not used
- c       - array of k + 1 coefficients of the sum

  Output Parameters:
+ y  - the sum, a vector other than x and the diagonal
- vk - the last vector of the sequence, other than x, y and the diagonal, or `NULL`

  Level: intermediate

  Note:
  See `MatPowersMult()` for the sequence. Terms with a coefficient of zero are not added. Intermediate vectors are overwritten: the
  matrix keeps three work vectors, or none if it is of type `MATAIJSTREAM` and one pass is enough.

.seealso: [](ch_matrices), `Mat`, `MatPowersMult()`, `MatPowersSetMonomial()`, `MatPowersSetNewton()`, `MatPowersSetChebyshev()`,
          `MATAIJSTREAM`, `MatMult()`
@*/
PetscErrorCode MatPowersSum(Mat A, Vec inverse, Vec x, PetscInt k, const PetscScalar gamma[], const PetscScalar theta[],
                            const PetscScalar mu[], const PetscScalar c[], Vec y, Vec vk)
{
  IDRSPowers powers = {.A = A, .inverse = inverse, .k = k, .gamma = gamma, .theta = theta, .mu = mu};

  PetscFunctionBegin;
  PetscValidHeaderSpecific(A, MAT_CLASSID, 1);
  if (inverse) PetscValidHeaderSpecific(inverse, VEC_CLASSID, 2);
  PetscValidHeaderSpecific(x, VEC_CLASSID, 3);
  PetscValidLogicalCollectiveInt(A, k, 4);
  PetscValidHeaderSpecific(y, VEC_CLASSID, 9);
  if (vk) PetscValidHeaderSpecific(vk, VEC_CLASSID, 10);
  PetscCall(IDRSPowersCheck("MatPowersSum", &powers, x));
  PetscCall(IDRSPowersCheckArray(PetscObjectComm((PetscObject)A), "MatPowersSum", "c", k + 1, c));
  PetscCheck(y != vk, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_IDN, "MatPowersSum(): y and vk must be different vectors");
  PetscCall(IDRSPowersCheckOutput("MatPowersSum", &powers, x, "y", y));
  if (vk) PetscCall(IDRSPowersCheckOutput("MatPowersSum", &powers, x, "vk", vk));
  PetscCall(IDRSPowersChoose(&powers, x, 2, (Vec[]){y, vk}));
  PetscCall((*powers.ops->sum)(&powers, x, &(IDRSPowersSum){.c = c, .y = y, .vk = vk}));
  PetscFunctionReturn(PETSC_SUCCESS);
}
