static char help[] = "The hashed shadow space of KSPIDRS: its values, and its use in the back ends.\n\
  -implementation <vec> - the back end\n\n";

#include <petscidrs/private/idrsops.h>
#include "harness.h"
#include "hash.h"

#define COLUMNS 18
#define ROWS    3001 /* of the vectors, on any number of processes */

/* 65536 P_ij, computed by a Python program from the definition of the hash, independently of this library */
static const struct {
  uint64_t seed, row;
  int32_t  q[COLUMNS];
} table[] = {
  /* clang-format off */
  {0x0u, 0x0u, {-29885, 38881, 12533, -63889, 27653, -37309, -38617, 49901, 57629,
   -57213, 43877, -34737, 12815, 27725, -32875, -53561, -21179, 53627}},
  {0x0u, 0x1u, {-48463, -47427, -8021, -41945, -10097, -47805, 42463, 64595, 16907,
   -23993, 29395, 45407, -52125, -49553, -12451, 58961, -39037, 12751}},
  {0x0u, 0xffffffffu, {29073, -55623, -33945, -51345, 23313, -51159, -29423, 49113, -22613,
   38451, 36689, 23321, -47211, -451, -2515, -571, 27331, -19749}},
  {0x0u, 0x100000000u, {38965, 13865, 56281, 19845, -43401, -28021, 54081, -45155, 32593,
   -25235, 57999, 9043, -39699, 9713, 39955, -23409, 64263, -43461}},
  {0x0u, 0xa00000007u, {28945, -13371, -29827, -44671, 49599, 33823, 37527, 6043, 60537,
   -16751, 23497, 13285, -11213, -41337, -51677, 61767, 50505, -49023}},
  {0x1u, 0x0u, {30693, -62811, -50801, 22351, -44809, -27017, 27591, 65031, -55043,
   57085, 10759, -42553, -15625, -53833, -10235, 25669, 39471, 8751}},
  {0x2u, 0x75bcd15u, {57133, 35485, -19333, 10131, -49047, -48035, 50113, 58457, -60883,
   -8479, -57899, -49619, -24557, 23107, -25559, -36663, -27037, -52209}},
  {0x3039u, 0x100000001u, {58955, 38407, 6343, 36907, -44145, -17165, -51091, -26303, 45833,
   12181, -42227, -43359, -38517, -22969, -21141, 16359, -661, 30071}},
  {0x7fffffffu, 0x3e8u, {-56515, 31707, -54853, -6187, 40561, 35827, 44351, 41217, -38717,
   37737, 9273, -49433, -38559, 6183, -61523, -16229, -55547, 3087}},
  {0x100000000u, 0x80000000u, {33705, 29073, 53587, 30467, 46757, 12009, 3751, 62567, 30099,
   -36393, -49179, -27835, -15451, -63747, 3929, -55439, 8203, -62353}},
  {0x800000000000000bu, 0xffffffffffu, {-35421, -17185, 31003, -9505, 19675, -14237, -6449, -29733, -62139,
   -11291, 27707, 13967, -34475, 54153, -26515, 36641, 6179, 59171}},
  {0xffffffffffffffffu, 0x8000000000000003u, {-1733, 22987, -58177, 13311, 5391, 25223, 1453, 60109, 16471,
   -51121, -24733, -44349, 55963, -19925, 27383, -37657, 32939, 50547}}
  /* clang-format on */
};

/*
   Values of the library and of the test itself: of the table, and of many rows, which cross 2^32, with another seed on each process
*/
static PetscErrorCode TestValues(uint64_t seed)
{
  Check check = {"values"};

  PetscFunctionBegin;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(table); l++) {
    for (PetscInt j = 0; j < COLUMNS; j++) {
      const int32_t q = table[l].q[j], own = Shadow(table[l].seed, table[l].row, j),
                    entry = IDRSShadowEntry(table[l].seed, table[l].row, (uint32_t)j);

      PetscCall(Expect(&check, (PetscBool)(own == q), "the test itself: line %d column %" INT " is %d, the table has %d", (int)l, j,
                       (int)own, (int)q));
      PetscCall(Expect(&check, (PetscBool)(entry == q), "IDRSShadowEntry(): line %d column %" INT " is %d, the table has %d",
                       (int)l, j, (int)entry, (int)q));
    }
  }
  for (uint64_t row = UINT64_C(0x100000000) - 50000; row < UINT64_C(0x100000000) + 50000; row++) {
    for (PetscInt j = 0; j < COLUMNS; j++) {
      const int32_t entry = IDRSShadowEntry(seed, row, (uint32_t)j), own = Shadow(seed, row, j);

      PetscCall(Expect(&check, (PetscBool)(entry == own), "row %" PRIu64 " column %" INT " is %d, by definition %d", row, j,
                       (int)entry, (int)own));
    }
  }
  PetscCall(CheckVerdict(&check));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Integers, so that a sum over rows is exact in any order */
static PetscScalar Integer(PetscInt which, PetscInt row)
{
  const PetscInt re = (7 * row + 3 + which) % 17 - 8;
#if PetscDefined(USE_COMPLEX)
  const PetscInt im = (5 * row + 1 + which) % 13 - 6;

  return PetscCMPLX((PetscReal)re, (PetscReal)im);
#else
  return (PetscReal)re;
#endif
}

/* Checks that the sums are P^H x over the rows of all processes, exactly except in single precision */
static PetscErrorCode ExpectSums(Check *check, IDRSWorkspace work, PetscInt which, const PetscScalar sums[])
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < work->s; j++) {
    const PetscReal tolerance = PETSC_MACHINE_EPSILON > 1e-10 ? (PetscReal)ROWS * 8 * PETSC_MACHINE_EPSILON : (PetscReal)0.0;
    PetscScalar     sum       = 0.0;
    PetscReal       error;

    for (PetscInt i = 0; i < ROWS; i++) sum += (PetscReal)Shadow(work->seed, (uint64_t)i, j) * Integer(which, i);
    sum /= (PetscReal)65536.0;
    error = PetscAbsScalar(sums[j] - sum);
    PetscCall(Expect(check, (PetscBool)(error <= tolerance),
                     "%s, s %" INT ", seed %" PRIu64 ": sum %" INT " of vector %" INT " is off by %g of %g", work->passes->name,
                     work->s, work->seed, j, which, (double)error, (double)PetscAbsScalar(sum)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that stored shadow vectors have the bits of the hash */
static PetscErrorCode ExpectVectors(Check *check, IDRSWorkspace work, Vec v)
{
  PetscInt begin, end;

  PetscFunctionBegin;
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  for (PetscInt j = 0; j < work->s; j++) {
    const PetscScalar *p;
    PetscInt           row = -1;

    PetscCall(IDRSVecSetHashed(v, work->seed, j));
    PetscCall(VecGetArrayRead(v, &p));
    for (PetscInt i = begin; i < end; i++) {
      if (!(PetscRealPart(p[i - begin]) == (PetscReal)Shadow(work->seed, (uint64_t)i, j) / 65536 &&
            PetscImaginaryPart(p[i - begin]) == 0.0))
        row = i;
    }
    PetscCall(VecRestoreArrayRead(v, &p));
    PetscCall(Expect(check, (PetscBool)(row < 0), "s %" INT ", seed %" PRIu64 ": row %" INT " of vector %" INT, work->s, work->seed,
                     row, j));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a vector of ROWS rows. The layouts share them evenly, assign them to the last process, or skip a process in the middle */
static PetscErrorCode CreateVector(PetscInt layout, PetscInt which, Vec *x)
{
  PetscMPIInt  rank, size;
  PetscInt     n = PETSC_DECIDE, begin;
  PetscScalar *array;

  PetscFunctionBegin;
  PetscCall(RankAndSize(&rank, &size));
  if (layout == 1) n = rank == size - 1 ? ROWS : 0;
  if (layout == 2) n = rank == size - 1 ? (size == 1 ? ROWS : ROWS - 1025) : (rank ? 0 : 1025);
  PetscCall(VecCreate(PETSC_COMM_WORLD, x));
  PetscCall(VecSetSizes(*x, n, ROWS));
  PetscCall(VecSetFromOptions(*x));
  PetscCall(VecGetOwnershipRange(*x, &begin, NULL));
  PetscCall(VecGetLocalSize(*x, &n));
  PetscCall(VecGetArrayWrite(*x, &array));
  for (PetscInt i = 0; i < n; i++) array[i] = Integer(which, begin + i);
  PetscCall(VecRestoreArrayWrite(*x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of x, and of y if there is one */
static PetscErrorCode Project(IDRSWorkspace work, Vec x, Vec y)
{
  const IDRSStep step = {.k = y ? work->s : IDRS_RESIDUAL};
  IDRSOutcome    outcome;

  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceSetVecs(work, y ? y : x, NULL, NULL, x));
  PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(work), &step, NULL));
  PetscCall(IDRSQueueCollect(work, &outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests one number of columns on one layout: the hash in the vectors and in the sums, after any other seed */
static PetscErrorCode TestSpace(PetscInt layout, PetscInt s, KSPIDRSImplementation implementation, Check *vectors, Check *sums)
{
  const uint64_t seeds[] = {0, 7, UINT64_C(0xfedcba9876543210), 7, 0};
  Vec            x, y, z;
  IDRSWorkspace  work;

  PetscFunctionBegin;
  PetscCall(CreateVector(layout, 0, &x));
  PetscCall(CreateVector(layout, 1, &y));
  PetscCall(CreateVector(layout, 1, &z));
  PetscCall(IDRSWorkspaceCreate(x, s, NULL, implementation, 1, &work));
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(seeds); l++) {
    PetscCall(IDRSWorkspaceSetSeed(work, seeds[l]));
    PetscCall(Expect(sums, (PetscBool)(work->seed == seeds[l]), "%s: the seed is not the one that was set", work->passes->name));
    PetscCall(ExpectVectors(vectors, work, y));
    PetscCall(VecCopy(z, y));
    PetscCall(Project(work, x, NULL));
    PetscCall(ExpectSums(sums, work, 0, work->scalars.sums));
    PetscCall(Project(work, x, y));
    PetscCall(ExpectSums(sums, work, 0, work->scalars.sums));
    PetscCall(ExpectSums(sums, work, 1, work->scalars.sums + IDRS_SUM_PY(s)));
  }
  PetscCall(IDRSWorkspaceDestroy(1, &work));
  PetscCall(DestroyAll(&z, &y, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt        columns[] = {1, 2, 5, 16, COLUMNS};
  Check                 vectors = {"vectors"}, sums = {"sums"};
  KSPIDRSImplementation implementations[2] = {KSP_IDRS_VEC, KSP_IDRS_AUTO};
  PetscMPIInt           rank;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-implementation", KSPIDRSImplementations, (PetscEnum *)&implementations[1], NULL));

  PetscCall(TestValues((uint64_t)rank));
  for (PetscInt i = 0; i < (implementations[1] ? 2 : 1); i++) {
    for (PetscInt layout = 0; layout < 3; layout++) {
      for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(columns); l++)
        PetscCall(TestSpace(layout, columns[l], implementations[i], &vectors, &sums));
    }
  }
  PetscCall(CheckVerdict(&vectors));
  PetscCall(CheckVerdict(&sums));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

TEST*/
