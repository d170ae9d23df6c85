static char help[] = "Iterates, residuals and norms that are computed besides the steps, for groups of works: compared with sums\n\
in long double, with the bits of separate works.\n\
  -implementation host  back end of the works: vec, host or cuda\n\
  -rows 0,1,..          local rows; each process takes the next one of the list\n\n";

#include <math.h>
#include "works.h"
#include "wide.h"

#define UNIT ((PetscReal)PETSC_MACHINE_EPSILON)

/* Vectors of a work: the vectors of the solver, an iterate, a right-hand side, and one for results */
enum {
  R,
  Z,
  V,
  T,
  X,
  B,
  COPY,
  SINGLES
};

typedef struct {
  PetscInt  s, n, width;
  IDRSGroup group;
  Vec       single[IDRS_MAX_WIDTH][SINGLES];
} Problem;

/* Returns a number of a work */
static PetscScalar NumberOf(PetscInt work, PetscInt which, PetscInt row)
{
  return Number(which + 1000 * work, row);
}

static PetscErrorCode Load(const Problem *problem)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < problem->width; i++) {
    const IDRSWork work = problem->group.work[i];

    for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecSetNumbers(problem->single[i][j], j + 1000 * i, PETSC_FALSE));
    for (PetscInt j = 0; j < problem->s; j++) {
      PetscCall(VecSetNumbers(work->U[j], SINGLES + j + 1000 * i, PETSC_FALSE));
      work->scalars.beta[j] = NumberOf(i, 500, j);
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreate(PetscInt s, PetscInt n, PetscInt width, KSPIDRSImplementation back, Problem *problem)
{
  Vec like;

  PetscFunctionBeginUser;
  *problem             = (Problem){.s = s, .n = n, .width = width};
  problem->group.count = width;
  PetscCall(VecCreate(PETSC_COMM_WORLD, &like));
  PetscCall(VecSetSizes(like, n, PETSC_DETERMINE));
  PetscCall(VecSetType(like, back == KSP_IDRS_CUDA ? VECCUDA : VECSTANDARD));
  PetscCall(VecSet(like, 0.0));
  PetscCall(IDRSWorkCreate(like, s, NULL, back, width, problem->group.work));
  for (PetscInt i = 0; i < width; i++) {
    for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDuplicate(like, &problem->single[i][j]));
    PetscCall(IDRSWorkSetVecs(problem->group.work[i], problem->single[i][R], problem->single[i][Z], problem->single[i][V],
                              problem->single[i][T]));
  }
  PetscCall(VecDestroy(&like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemDestroy(Problem *problem)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSWorkDestroy(problem->width, problem->group.work));
  for (PetscInt i = 0; i < problem->width; i++) {
    for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDestroy(&problem->single[i][j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the same vector of all works */
static void Take(const Problem *problem, PetscInt which, Vec x[])
{
  for (PetscInt i = 0; i < problem->width; i++) x[i] = problem->single[i][which];
}

/* x += z + U beta, with another number of columns for each work; z does not change */
static PetscErrorCode TestIterate(const Problem *problem)
{
  PetscInt columns[IDRS_MAX_WIDTH];
  Vec      x[IDRS_MAX_WIDTH];

  PetscFunctionBeginUser;
  PetscCall(Load(problem));
  Take(problem, X, x);
  for (PetscInt i = 0; i < problem->width; i++) columns[i] = (i + problem->s) % (problem->s + 1);
  PetscCall(IDRSAddIterate(&problem->group, columns, x));
  for (PetscInt i = 0; i < problem->width; i++) {
    const PetscScalar *array, *z;

    PetscCall(VecGetArrayRead(x[i], &array));
    PetscCall(VecGetArrayRead(problem->single[i][Z], &z));
    for (PetscInt l = 0; l < problem->n; l++) {
      Wide        sum  = (Wide)NumberOf(i, X, l) + (Wide)NumberOf(i, Z, l);
      long double size = WideAbs((Wide)NumberOf(i, X, l)) + WideAbs((Wide)NumberOf(i, Z, l));

      for (PetscInt j = 0; j < columns[i]; j++) {
        sum += (Wide)NumberOf(i, 500, j) * (Wide)NumberOf(i, SINGLES + j, l);
        size += WideAbs((Wide)NumberOf(i, 500, j)) * WideAbs((Wide)NumberOf(i, SINGLES + j, l));
      }
      PetscCall(ComplainIf(!(WideAbs((Wide)array[l] - sum) <= 2 * (problem->s + 2) * UNIT * size),
                           "s = %" INT ", work %" INT " of %" INT ": the iterate is wrong by %g", problem->s, i, problem->width,
                           (double)WideAbs((Wide)array[l] - sum)));
      PetscCall(ComplainIf(z[l] != NumberOf(i, Z, l), "work %" INT ": z has changed", i));
    }
    PetscCall(VecRestoreArrayRead(problem->single[i][Z], &z));
    PetscCall(VecRestoreArrayRead(x[i], &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = b - t, a difference with one rounding error, in this vector, with a copy in that one */
static PetscErrorCode TestResidual(const Problem *problem, PetscInt which, PetscInt copies, PetscBool subtracts)
{
  Vec b[IDRS_MAX_WIDTH], t[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH], copy[IDRS_MAX_WIDTH];

  PetscFunctionBeginUser;
  PetscCall(Load(problem));
  Take(problem, B, b);
  Take(problem, T, t);
  Take(problem, which, y);
  if (copies >= 0) Take(problem, copies, copy);
  PetscCall(IDRSResidual(&problem->group, b, subtracts ? t : NULL, y, copies < 0 ? NULL : copy));
  for (PetscInt i = 0; i < problem->width; i++) {
    const PetscScalar *array[3];
    const Vec          all[3] = {y[i], copies < 0 ? y[i] : copy[i], problem->single[i][Z]};

    for (PetscInt j = 0; j < 3; j++) PetscCall(VecGetArrayRead(all[j], &array[j]));
    for (PetscInt l = 0; l < problem->n; l++) {
      const PetscScalar wanted = subtracts ? NumberOf(i, B, l) - NumberOf(i, T, l) : NumberOf(i, B, l);

      PetscCall(ComplainIf(array[0][l] != wanted || array[1][l] != wanted,
                           "work %" INT " of %" INT ": the residual in vector %" INT ", copied to %" INT ", is wrong by %g and %g",
                           i, problem->width, which, copies, (double)PetscAbsScalar(array[0][l] - wanted),
                           (double)PetscAbsScalar(array[1][l] - wanted)));
      PetscCall(ComplainIf(array[2][l] != (PetscScalar)0.0, "work %" INT ": z is not zero", i));
    }
    for (PetscInt j = 0; j < 3; j++) PetscCall(VecRestoreArrayRead(all[j], &array[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   ||v||, also after a copy that includes another norm, and if squares overflow; a separate work has the same bits, and all norms
   share one reduction
*/
static PetscErrorCode TestNorms(const Problem *problem)
{
  PetscReal      norms[IDRS_MAX_WIDTH], alone, plain;
  PetscLogDouble calls = 0;
  Vec            v[IDRS_MAX_WIDTH];

  PetscFunctionBeginUser;
  PetscCall(Load(problem));
  Take(problem, V, v);
  PetscCall(VecScale(v[problem->width - 1], PetscPowReal(PETSC_MAX_REAL, 0.75)));
  if (problem->width > 2) { /* PETSc caches the norm, and does not detect the following writes */
    PetscScalar     *array;
    PetscObjectState state;

    PetscCall(VecNorm(v[1], NORM_2, &plain));
    PetscCall(PetscObjectStateGet((PetscObject)v[1], &state));
    PetscCall(VecGetArray(v[1], &array));
    for (PetscInt l = 0; l < problem->n; l++) array[l] *= 2.0;
    PetscCall(VecRestoreArray(v[1], &array));
    PetscCall(PetscObjectStateSet((PetscObject)v[1], state));
  }
  calls -= Allreduces();
  PetscCall(IDRSNorms(&problem->group, v, norms));
  calls += Allreduces();
  if (problem->width > 1 && !PetscIsInfReal(norms[problem->width - 1]))
    PetscCall(ComplainIf(calls > 2, "%g reductions for %" INT " norms", calls, problem->width));
  for (PetscInt i = 0; i < problem->width; i++) {
    PetscCall(IDRSNorms(IDRSGroupOfOne(problem->group.work[i]), &v[i], &alone));
    PetscCall(VecNorm(v[i], NORM_2, &plain));
    PetscCall(ComplainIf(!(alone == norms[i] || PetscAbsReal(alone - norms[i]) <= 4 * UNIT * alone),
                         "work %" INT " of %" INT ": norm %g, alone %g", i, problem->width, (double)norms[i], (double)alone));
    PetscCall(ComplainIf(!(plain == norms[i] || PetscAbsReal(plain - norms[i]) <= 100 * UNIT * plain),
                         "work %" INT " of %" INT ": norm %g, that of VecNorm() is %g", i, problem->width, (double)norms[i],
                         (double)plain));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt        sizes[] = {1, 4, 19}, widths[] = {1, 3, 16};
  PetscInt              rows[MAX_LIST] = {0, 1, 31, 33, 1000}, count = 5;
  KSPIDRSImplementation back = KSP_IDRS_VEC;
  PetscMPIInt           rank;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(BackEndFromOptions(&back));
  PetscCall(ListFromOptions("-rows", MAX_LIST, rows, &count));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (PetscInt l = 0; l < count; l++) {
      for (size_t w = 0; w < PETSC_STATIC_ARRAY_LENGTH(widths); w++) {
        Problem problem;

        PetscCall(ProblemCreate(sizes[is], rows[(l + rank) % count], widths[w], back, &problem));
        PetscCall(TestIterate(&problem));
        PetscCall(TestResidual(&problem, R, COPY, PETSC_TRUE));
        PetscCall(TestResidual(&problem, V, -1, PETSC_TRUE));
        PetscCall(TestResidual(&problem, R, B, PETSC_TRUE)); /* of a reliable update */
        PetscCall(TestResidual(&problem, B, -1, PETSC_TRUE));
        PetscCall(TestResidual(&problem, T, -1, PETSC_TRUE));
        PetscCall(TestResidual(&problem, R, COPY, PETSC_FALSE));
        PetscCall(TestResidual(&problem, B, -1, PETSC_FALSE));
        PetscCall(TestNorms(&problem));
        PetscCall(ProblemDestroy(&problem));
      }
    }
  }
  PetscCall(Verdict("iterates, residuals and norms of a group"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

TEST*/
