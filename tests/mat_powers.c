static char help[] = "Matrix powers: every step against long double, componentwise, with a bound that does not grow with the "
                     "number of steps; sums; bases; bad input.\n\n";

#include "systems.h"
#include "streamdevice.h"
#include "wide.h"
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrspowers.h>

#define MOST 40

/* Coefficients of a sequence */
typedef struct {
  PetscScalar gamma[MOST], theta[MOST], mu[MOST], c[MOST + 1];
} Sequence;

/* Fills a sequence with coefficients without a pattern */
static void SequenceFill(PetscInt k, Sequence *sequence)
{
  for (PetscInt j = 0; j <= k; j++) {
    sequence->c[j] = j % 5 == 3 ? 0.0 : PetscSinReal(1.0 + 3.0 * (PetscReal)j);
    if (j == k) break;
    sequence->gamma[j] = 0.3 + 0.1 * PetscCosReal((PetscReal)j);
    sequence->theta[j] = PetscSinReal(0.7 * (PetscReal)j);
    sequence->mu[j]    = j % 3 ? 0.2 * PetscSinReal(2.0 + (PetscReal)j) : 0.0;
#if PetscDefined(USE_COMPLEX)
    sequence->theta[j] += PETSC_i * 0.3 * (PetscReal)(j % 4);
    sequence->c[j] *= PetscCMPLX(0.6, 0.8);
#endif
  }
}

/* Checks step j with the vectors computed before it: |v_j - exact| is within the rounding errors of this step */
static PetscErrorCode CheckStep(const char what[], Mat A, Vec inverse, const Sequence *sequence, PetscInt j, Vec before, Vec last,
                                Vec next)
{
  const PetscReal    parts = PetscDefined(USE_COMPLEX) ? 4.0 : 1.0;
  const PetscScalar *b, *l, *n, *d = NULL;
  const Wide         gamma = sequence->gamma[j - 1], theta = sequence->theta[j - 1], mu = j > 1 ? sequence->mu[j - 1] : 0.0;
  PetscInt           rstart, rend, wrong                                                = 0;
  Vec                all;

  PetscFunctionBeginUser;
  PetscCall(GatherCreate(last, &all));
  PetscCall(VecGetArrayRead(all, &l));
  PetscCall(VecGetArrayRead(before, &b));
  PetscCall(VecGetArrayRead(next, &n));
  if (inverse) PetscCall(VecGetArrayRead(inverse, &d));
  PetscCall(MatGetOwnershipRange(A, &rstart, &rend));
  for (PetscInt i = rstart; i < rend; i++) {
    PetscInt           count;
    const PetscInt    *columns;
    const PetscScalar *values;
    Wide               sum  = 0.0, exact;
    long double        size = 0.0, bound;

    PetscCall(MatGetRow(A, i, &count, &columns, &values));
    for (PetscInt m = 0; m < count; m++) {
      sum += (Wide)values[m] * (Wide)l[columns[m]];
      size += WideAbs((Wide)values[m]) * WideAbs((Wide)l[columns[m]]);
    }
    if (d) {
      sum *= (Wide)d[i - rstart];
      size *= WideAbs((Wide)d[i - rstart]);
    }
    exact = gamma * (sum - theta * (Wide)l[i]) - mu * (Wide)b[i - rstart];
    bound = (long double)((PetscReal)(count + 8) * parts * PETSC_MACHINE_EPSILON) *
            (WideAbs(gamma) * (size + WideAbs(theta) * WideAbs((Wide)l[i])) + WideAbs(mu) * WideAbs((Wide)b[i - rstart]));
    if (!(WideAbs((Wide)n[i - rstart] - exact) <= bound)) wrong++;
    PetscCall(MatRestoreRow(A, i, &count, &columns, &values));
  }
  PetscCall(ComplainIf(wrong, "%s, step %" INT ": %" INT " entries are off by more than their rounding errors", what, j, wrong));
  if (inverse) PetscCall(VecRestoreArrayRead(inverse, &d));
  PetscCall(VecRestoreArrayRead(next, &n));
  PetscCall(VecRestoreArrayRead(before, &b));
  PetscCall(VecRestoreArrayRead(all, &l));
  PetscCall(VecDestroy(&all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks y = b + sum of c_j v_j within rounding errors, without b if it is NULL */
static PetscErrorCode CheckSum(const char what[], PetscInt k, const Sequence *sequence, Vec x, Vec v[], Vec b, Vec y)
{
  const PetscScalar *array[MOST + 1], *sum, *base = NULL;
  PetscInt           n, wrong = 0;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(x, &n));
  for (PetscInt j = 0; j <= k; j++) PetscCall(VecGetArrayRead(j ? v[j - 1] : x, &array[j]));
  PetscCall(VecGetArrayRead(y, &sum));
  if (b) PetscCall(VecGetArrayRead(b, &base));
  for (PetscInt i = 0; i < n; i++) {
    Wide        exact = b ? (Wide)base[i] : 0.0;
    long double size  = WideAbs(exact);

    for (PetscInt j = 0; j <= k; j++) {
      exact += (Wide)sequence->c[j] * (Wide)array[j][i];
      size += WideAbs((Wide)sequence->c[j]) * WideAbs((Wide)array[j][i]);
    }
    if (!(WideAbs((Wide)sum[i] - exact) <= (long double)(4.0 * (PetscReal)(k + 2) * PETSC_MACHINE_EPSILON) * size)) wrong++;
  }
  PetscCall(ComplainIf(wrong, "%s, k = %" INT ": %" INT " entries of the sum are wrong", what, k, wrong));
  if (b) PetscCall(VecRestoreArrayRead(b, &base));
  PetscCall(VecRestoreArrayRead(y, &sum));
  for (PetscInt j = k; j >= 0; j--) PetscCall(VecRestoreArrayRead(j ? v[j - 1] : x, &array[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks the sum of a streamed matrix on one process, also added to b, and the product with it, as PCPOLY computes them. The
   product has the bits of MatMult(), and the sum without b the bits of `given`
*/
static PetscErrorCode CheckSumMult(const char what[], const IDRSPowers *powers, const Sequence *sequence, Vec x, Vec v[], Vec b,
                                   Vec given)
{
  const PetscInt k = powers->k;
  Vec            y, z, product;
  PetscBool      same;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(x, &y, &z, &product));
  for (PetscInt adds = 0; adds < 2; adds++) {
    PetscCall(VecCopy(b, y));
    PetscCall((*IDRSPowers_Stream.sum)(powers, x, &(IDRSPowersSum){.c = sequence->c, .adds = (PetscBool)adds, .y = y, .z = z}));
    PetscCall(CheckSum(what, k, sequence, x, v, adds ? b : NULL, y));
    PetscCall(VecEqual(y, given, &same));
    PetscCall(ComplainIf(!adds && !same, "%s, k = %" INT ": another sum with its product", what, k));
    PetscCall(MatMult(powers->A, y, product));
    PetscCall(CheckClose(what, z, product, 0.0));
  }
  PetscCall(DestroyAll(&product, &z, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a streamed copy with this memory: to a GPU if the vectors are there, otherwise to an emulated device */
static PetscErrorCode StreamedCreate(Mat A, PetscReal memory, Device *device, Mat *S)
{
  char      options[80];
  VecType   type;
  PetscBool cuda;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(options, sizeof(options), "-mat_stream_chunk 2000 -mat_stream_memory %g", (double)memory));
  PetscCall(PetscOptionsInsertString(NULL, options));
  PetscCall(MatConvert(A, MATAIJSTREAM, MAT_INITIAL_MATRIX, S));
  PetscCall(MatSetOptionsPrefix(*S, NULL));
  PetscObjectOptionsBegin((PetscObject)*S);
  PetscCall((*(*S)->ops->setfromoptions)(*S, PetscOptionsObject));
  PetscOptionsEnd();
  PetscCall(DeviceCreate(RANDOM, 0, device));
  device->waits = PETSC_TRUE;
  PetscCall(MatGetVecType(A, &type));
  PetscCall(PetscStrncmp(type, VECCUDA, 4, &cuda));
  if (!cuda) PetscCall(IDRSStreamMatSetDevice(*S, &deviceops, device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Kinds of matrices */
typedef enum {
  KIND_AIJ, /* on a GPU and one process all steps in one kernel */
  KIND_SHELL,
  KIND_LEAST,  /* streamed, with memory for a few steps per pass */
  KIND_STREAM, /* streamed, with memory for all steps and a part of the chunks */
  KINDS
} Kind;
static const char *const kinds[] = {"aij", "shell", "aijstream, little memory", "aijstream"};

static PetscErrorCode TestSteps(void)
{
  const PetscInt ks[] = {0, 1, 2, 3, 8, MOST};
  PetscMPIInt    ranks;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  for (PetscInt layout = 0; layout < 2; layout++) {
    Mat    A, M[KINDS];
    Vec    x, inverse, y, vk, last, *v;
    Device devices[2];

    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 13, 0.8, layout ? LAYOUT_UNEVEN : LAYOUT_EMPTY, &A, &x));
    M[KIND_AIJ] = A;
    PetscCall(ShellCreate(A, PassMult, A, &M[KIND_SHELL]));
    PetscCall(StreamedCreate(A, 14000 * (double)(sizeof(PetscScalar) / sizeof(double) + 1), &devices[0], &M[KIND_LEAST]));
    PetscCall(StreamedCreate(A, 90000, &devices[1], &M[KIND_STREAM]));
    PetscCall(DuplicateAll(x, &last, &y, &vk, &inverse));
    PetscCall(VecDuplicateVecs(x, MOST, &v));
    PetscCall(VecSetGeneral(x, 0.2));
    PetscCall(VecSetGeneral(inverse, 0.4));
    for (size_t ik = 0; ik < PETSC_STATIC_ARRAY_LENGTH(ks); ik++) {
      for (PetscInt scaled = 0; scaled < 2; scaled++) {
        for (Kind kind = KIND_AIJ; kind < KINDS; kind++) {
          const PetscInt k = ks[ik];
          Vec            D = scaled ? inverse : NULL;
          Sequence       sequence;
          PetscBool      same;
          char           what[64];

          PetscCall(PetscSNPrintf(what, sizeof(what), "%s%s", kinds[kind], scaled ? ", scaled" : ""));
          SequenceFill(k, &sequence);
          PetscCall(MatPowersMult(M[kind], D, x, k, sequence.gamma, sequence.theta, sequence.mu, v));
          for (PetscInt j = 1; j <= k; j++)
            PetscCall(CheckStep(what, A, D, &sequence, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1]));
          PetscCall(MatPowersSum(M[kind], D, x, k, sequence.gamma, sequence.theta, sequence.mu, sequence.c, y, vk));
          PetscCall(CheckSum(what, k, &sequence, x, v, NULL, y));
          PetscCall(VecEqual(vk, k ? v[k - 1] : x, &same));
          PetscCall(ComplainIf(!same, "%s, k = %" INT ": another last vector with the sum", what, k));
          if ((kind == KIND_LEAST || kind == KIND_STREAM) && ranks == 1) {
            const IDRSPowers powers = {.ops     = &IDRSPowers_Stream,
                                       .A       = M[kind],
                                       .inverse = D,
                                       .k       = k,
                                       .gamma   = sequence.gamma,
                                       .theta   = sequence.theta,
                                       .mu      = sequence.mu};

            PetscCall(CheckSumMult(what, &powers, &sequence, x, v, inverse, y));
          }
          PetscCall(VecCopy(y, vk));
          PetscCall(MatPowersSum(M[kind], D, x, k, sequence.gamma, sequence.theta, sequence.mu, sequence.c, y, NULL));
          PetscCall(VecEqual(y, vk, &same));
          PetscCall(ComplainIf(!same, "%s, k = %" INT ": another sum without the last vector", what, k));
          if (kind == KIND_STREAM) { /* with any memory */
            PetscCall(VecEqual(y, last, &same));
            PetscCall(ComplainIf(!same, "%s, k = %" INT ": other bits than with less memory", what, k));
          }
          PetscCall(VecCopy(y, last));
        }
      }
    }
    PetscCall(VecDestroyVecs(MOST, &v));
    PetscCall(DestroyAll(&inverse, &vk, &y, &x, &last));
    for (Kind kind = KIND_AIJ; kind < KINDS; kind++) PetscCall(MatDestroy(&M[kind]));
    for (PetscInt d = 0; d < 2; d++) PetscCall(DeviceDestroy("steps and sums", &devices[d]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   One process writes to its part of the diagonal and of x, so that states differ between processes; the other processes still
   receive the new values
*/
static PetscErrorCode TestOneProcess(void)
{
  const PetscInt k = 3;
  Mat            A, S;
  Vec            x, inverse, *v;
  Device         device;
  Sequence       sequence;
  PetscMPIInt    rank, ranks;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &ranks));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 13, 0.8, LAYOUT_UNEVEN, &A, &x));
  PetscCall(StreamedCreate(A, 90000, &device, &S));
  PetscCall(VecDuplicate(x, &inverse));
  PetscCall(VecDuplicateVecs(x, k, &v));
  PetscCall(VecSetGeneral(x, 0.2));
  PetscCall(VecSetGeneral(inverse, 0.4));
  SequenceFill(k, &sequence);
  for (PetscMPIInt writes = -1; writes < ranks; writes++) {
    if (rank == writes) {
      for (PetscInt i = 0; i < 2; i++) {
        PetscScalar *array;
        PetscInt     n;

        PetscCall(VecGetLocalSize(x, &n));
        PetscCall(VecGetArray(i ? inverse : x, &array));
        for (PetscInt l = 0; l < n; l++) array[l] *= -1.5;
        PetscCall(VecRestoreArray(i ? inverse : x, &array));
      }
    }
    PetscCall(MatPowersMult(S, inverse, x, k, sequence.gamma, sequence.theta, sequence.mu, v));
    for (PetscInt j = 1; j <= k; j++)
      PetscCall(
        CheckStep("written by one process", A, inverse, &sequence, j, j > 2 ? v[j - 3] : x, j > 1 ? v[j - 2] : x, v[j - 1]));
  }
  PetscCall(VecDestroyVecs(k, &v));
  PetscCall(DestroyAll(&inverse, &x, &S, &A));
  PetscCall(DeviceDestroy("vectors that one process has written to", &device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A diagonal matrix, whose powers are polynomials of its entries */
static PetscScalar Diagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? -1.0 + 4.0 * (PetscReal)i / (PetscReal)(n - 1) : 0.0;
}

/* Compares powers, products of differences, and cosines with their formulas */
static PetscErrorCode TestBases(void)
{
  const PetscInt  k = 12, n = 41;
  const PetscReal re[] = {2.0, 0.5, 0.5, -1.0, 1.2, 1.2}, im[] = {0.0, 1.0, -1.0, 0.0, 0.3, -0.3};
  PetscScalar     gamma[12], theta[12], mu[12];
  Mat             A;
  Vec             x, values, *v;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Diagonal, n, RHS_ONES, &A, &x, &values));
  PetscCall(MatGetDiagonal(A, values));
  PetscCall(VecDuplicateVecs(x, k, &v));
  for (PetscInt basis = 0; basis < 4; basis++) {
    const char *const  names[] = {"monomial", "Newton", "Chebyshev, an interval", "Chebyshev, an ellipse"};
    const PetscScalar *lambda, *last;
    PetscInt           m;
    PetscReal          error = 0.0, largest = 0.0;

    if (basis == 0) PetscCall(MatPowersSetMonomial(k, gamma, theta, mu));
    else if (basis == 1) PetscCall(MatPowersSetNewton(k, 6, re, im, gamma, theta, mu));
    else PetscCall(MatPowersSetChebyshev(k, 1.0, 2.0, basis == 2 ? 0.0 : 3.0, gamma, theta, mu));
    PetscCall(MatPowersMult(A, NULL, x, k, gamma, theta, mu, v));
    PetscCall(VecGetLocalSize(x, &m));
    PetscCall(VecGetArrayRead(values, &lambda));
    PetscCall(VecGetArrayRead(v[k - 1], &last));
    for (PetscInt i = 0; i < m; i++) {
      const PetscReal z = PetscRealPart(lambda[i]), w = PetscMin(PetscMax((z - 1.0) / 2.0, -1.0), 1.0);
      PetscReal       exact = 1.0, size = 1.0;

      if (basis == 0) {
        for (PetscInt j = 0; j < k; j++) exact *= z;
        size = PetscMax(PetscAbsReal(exact), 1e-6);
      } else if (basis == 1) {
        for (PetscInt j = 0; j < k; j++) exact *= PetscRealPart(gamma[0]);
        for (PetscInt j = 0; j < k; j += 6) exact *= (z - 2.0) * (z + 1.0) * (PetscSqr(z - 0.5) + 1.0) * (PetscSqr(z - 1.2) + 0.09);
        size = 1.0 + PetscAbsReal(exact);
      } else if (basis == 2) exact = PetscCosReal((PetscReal)k * PetscAcosReal(w));
      else {
        const PetscReal root = PetscSqrtReal(PetscSqr(z - 1.0) + 5.0); /* of (z - center)^2 - (a^2 - b^2) */

        exact = 0.5 * (PetscPowRealInt((z - 1.0 + root) / 5.0, k) + PetscPowRealInt((z - 1.0 - root) / 5.0, k));
      }
      error   = PetscMax(error, PetscAbsScalar(last[i] - exact) / size);
      largest = PetscMax(largest, PetscAbsScalar(last[i]));
    }
    PetscCall(VecRestoreArrayRead(v[k - 1], &last));
    PetscCall(VecRestoreArrayRead(values, &lambda));
    PetscCall(ComplainIf(!(error <= 1000 * PETSC_MACHINE_EPSILON), "%s: error %g", names[basis], (double)error));
    PetscCall(ComplainIf(basis >= 2 && !(largest <= 1.0 + 1000 * PETSC_MACHINE_EPSILON), "%s: as large as %g", names[basis],
                         (double)largest));
  }
  /* one shift, and a shift that occurs twice */
  PetscCall(MatPowersSetNewton(3, 1, re, NULL, gamma, theta, mu));
  PetscCall(ComplainIf(gamma[2] != 1.0 || theta[2] != 2.0 || mu[2] != 0.0, "one shift"));
  PetscCall(MatPowersSetNewton(2, 2, (PetscReal[]){0.5, 0.5}, NULL, gamma, theta, mu));
  PetscCall(ComplainIf(gamma[0] != 1.0 || theta[0] != 0.5 || theta[1] != 0.5, "two equal shifts"));
  PetscCall(VecDestroyVecs(k, &v));
  PetscCall(DestroyAll(&values, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestBadInput(void)
{
  const PetscScalar good[3] = {1.0, 1.0, 1.0}, bad[3] = {1.0, NAN, 1.0};
  PetscScalar       out[3];
  Mat               A, R, L; /* in L the first process has all columns */
  Vec               x, y, z, values;
  PetscMPIInt       rank, ranks;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &ranks));
  PetscCall(SystemCreateEntries(Diagonal, 9, RHS_ONES, &A, &x, &values));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, PETSC_DECIDE, rank ? 0 : 9, 9, 9, NULL, &L));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, 9, 8, NULL, &R));
  PetscCall(VecCreate(PETSC_COMM_WORLD, &z));
  PetscCall(VecSetSizes(z, PETSC_DECIDE, 8));
  PetscCall(VecSetFromOptions(z));
  CheckRefused(MatPowersMult(A, NULL, x, -1, good, good, good, &y), "k", "-1");
  CheckRefused(MatPowersMult(A, NULL, x, 2, good, bad, good, &y), "theta[1]", "nan");
  CheckRefused(MatPowersMult(A, NULL, x, 2, good, NULL, good, &y), "theta", "2");
  CheckRefused(MatPowersMult(A, NULL, x, 1, good, good, good, &x), "v[0]", "x");
  CheckRefused(MatPowersMult(R, NULL, z, 1, good, good, good, &y), "rows", "8");
  if (ranks > 1) CheckRefused(MatPowersMult(L, NULL, x, 1, good, good, good, &y), "layout", "columns");
  CheckRefused(MatPowersMult(A, z, x, 1, good, good, good, &y), "diagonal", "8");
  CheckRefused(MatPowersSum(A, NULL, z, 1, good, good, good, good, y, NULL), "x has", "8");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, bad, y, NULL), "c[1]", "nan");
  CheckRefused(MatPowersMult(A, NULL, x, 2, good, good, good, (Vec[]){y, z}), "v[1]", "8");
  CheckRefused(MatPowersMult(A, y, x, 1, good, good, good, &y), "v[0]", "diagonal");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, good, z, NULL), "y has", "8");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, good, y, z), "vk has", "8");
  CheckRefused(MatPowersSum(A, y, x, 1, good, good, good, good, y, NULL), "y", "diagonal");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, good, x, NULL), "y", "different");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, good, y, x), "vk", "different");
  CheckRefused(MatPowersSum(A, NULL, x, 1, good, good, good, good, y, y), "vk", "different");
  CheckRefused(MatPowersSetMonomial(-2, out, out, out), "k", "-2");
  CheckRefused(MatPowersSetNewton(2, 0, (PetscReal[]){1.0}, NULL, out, out, out), "shifts", "0");
  CheckRefused(MatPowersSetNewton(2, 1, (PetscReal[]){NAN}, NULL, out, out, out), "shift 0", "nan");
  if (!PetscDefined(USE_COMPLEX))
    CheckRefused(MatPowersSetNewton(2, 1, (PetscReal[]){1.0}, (PetscReal[]){2.0}, out, out, out), "conjugate", "2");
  CheckRefused(MatPowersSetChebyshev(2, 0.0, -1.0, 2.0, out, out, out), "a =", "-1");
  CheckRefused(MatPowersSetChebyshev(2, 0.0, 0.0, 0.0, out, out, out), "b =", "0");
  CheckRefused(MatPowersSetChebyshev(2, NAN, 1.0, 1.0, out, out, out), "center", "nan");
  PetscCall(DestroyAll(&z, &L, &R, &y, &x, &values, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSteps, "steps and sums"}, {TestOneProcess, "vectors that one process has written to"}, {TestBases, "bases"},
          {TestBadInput, "bad input"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
