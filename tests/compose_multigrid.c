static char help[] = "PCPOLY as the smoother of PCGAMG and PCMG for convection and diffusion in 3-D: the number of iterations\n\
does not grow with the grid, for all outer methods. Systems with difficult coarse grids converge or fail\n\
as expected.\n\n";

#include "systems.h"
#include <petscdmda.h>

/*
   Convection by a recirculating wind; peclet is the largest mesh Peclet number |w| h / epsilon on the finest grid, which has
   `finest` cells
*/
typedef struct {
  const char *name;
  PetscReal   peclet;
  PetscBool   upwind;
  PetscInt    finest;
} Convected;

/*
   Computes the differences times h at the points inside the cube, which suits grids of all sizes, and rows of the identity at its
   sides
*/
static PetscErrorCode ComputeOperator(KSP ksp, Mat A, Mat B, void *ctx)
{
  const Convected *convected = (const Convected *)ctx;
  DMDALocalInfo    info;
  DM               da;

  PetscFunctionBeginUser;
  PetscCall(KSPGetDM(ksp, &da));
  PetscCall(DMDAGetLocalInfo(da, &info));
  for (PetscInt p = 0; p < info.xm * info.ym * info.zm; p++) {
    const PetscInt   m   = info.mx - 1;
    const PetscReal  h   = 1.0 / m;
    const MatStencil row = {.i = info.xs + p % info.xm, .j = info.ys + p / info.xm % info.ym, .k = info.zs + p / info.xm / info.ym};
    const PetscReal  x = 2.0 * h * row.i - 1.0, y = 2.0 * h * row.j - 1.0, wind[] = {y * (1.0 - x * x), -x * (1.0 - y * y), 0.3};
    MatStencil       column[7] = {row, row, row, row, row, row, row};
    PetscScalar      value[7]  = {1.0};
    PetscInt         count     = 1;

    if (row.i % m && row.j % m && row.k % m) {
      value[0] = 6.0 * h;
      for (PetscInt d = 0; d < 3; d++) {
        const PetscReal c = convected->peclet * convected->finest * h * wind[d], up = convected->upwind ? PetscAbsReal(c) : 0.0;

        for (PetscInt side = -1; side < 2; side += 2) {
          PetscInt *const place[] = {&column[count].i, &column[count].j, &column[count].k};

          *place[d] += side;
          value[count++] = h * (-1.0 + 0.5 * (side * c - up));
        }
        value[0] += h * up;
      }
    }
    PetscCall(MatSetValuesStencil(B, 1, &row, count, column, value, INSERT_VALUES));
  }
  PetscCall(MatAssemble(B));
  if (A != B) PetscCall(MatAssemble(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a solver for m x m x m points, with options */
static PetscErrorCode SolverCreateCube(Convected *convected, PetscInt m, const char options[], const char type[], KSP *ksp)
{
  PetscOptions database;
  DM           da;

  PetscFunctionBeginUser;
  convected->finest = m - 1;
  PetscCall(OptionsPush(options, &database));
  PetscCall(DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, m, m, m,
                         PETSC_DECIDE, PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetDM(*ksp, da));
  PetscCall(KSPSetComputeOperators(*ksp, ComputeOperator, convected));
  PetscCall(KSPSetType(*ksp, type));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 100));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscCall(KSPSetUp(*ksp));
  PetscCall(OptionsPop(&database));
  PetscCall(DMDestroy(&da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The smoother of docs/multigrid.md */
#define SMOOTHER " -mg_levels_ksp_type richardson -mg_levels_ksp_max_it 1 -mg_levels_pc_type poly -mg_levels_pc_poly_degree 4"

/*
   Multigrid methods. %d stands for the number of levels with which the coarsest grid has five points in each direction. growth is
   the bound on the number of iterations, in percent of that with 17 points. Upwind differences on coarse grids have more diffusion
   than on the fine grid
*/
static const struct {
  const char *name, *options;
  PetscInt    growth;
} grids[] = {
  {"algebraic", "-pc_type gamg" SMOOTHER,                                     150},
  {"geometric", "-pc_type mg -pc_mg_levels %d -pc_mg_galerkin both" SMOOTHER, 150}
};

/* Properties that are difficult on coarse grids */
typedef enum {
  HARD_PROCESS,  /* all coarse levels on one process */
  HARD_BLOCKS,   /* two unknowns at a point */
  HARD_NEARLY,   /* three unknowns at a point, and a near null space */
  HARD_GROUND,   /* diffusion with coefficients of different magnitude, as of ground with water */
  HARD_DIAGONAL, /* zero diagonal entries on all levels: the solve may fail */
  HARD_NAN,      /* a NaN in one entry: the solve must fail. PETSc itself does not smooth the prolongation then */
  HARDS
} Hard;
static const struct {
  const char *name, *options;
  PetscInt    unknowns; /* per point */
} hards[] = {
  {"levels on one process",   " -pc_gamg_process_eq_limit 9999", 1},
  {"two unknowns at a point", "",                                2},
  {"a near null space",       "",                                3},
  {"ground with water",       "",                                1},
  {"zero diagonal entries",   "",                                1},
  {"NaN",                     " -pc_gamg_agg_nsmooths 0",        1}
};

/* The conductivity between two points: the harmonic mean of values without a pattern, whose logarithms are between -2 and 2 */
static PetscReal Conductivity(PetscInt p, PetscInt q)
{
  return 2.0 / (PetscExpReal(2.0 * PetscSinReal(1.0 + 1.7 * p + 0.3 * p * p)) +
                PetscExpReal(2.0 * PetscSinReal(1.0 + 1.7 * q + 0.3 * q * q)));
}

/* Creates convection and diffusion on m x m points, where several unknowns at a point react with each other */
static PetscErrorCode HardCreate(Hard hard, PetscInt m, Mat *A)
{
  const PetscInt bs = hards[hard].unknowns, neighbors[] = {0, 1, -1, m, -m};
  PetscInt       begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, bs * m * m, bs * m * m));
  PetscCall(MatSetBlockSize(*A, bs));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetUp(*A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt p = row / bs, i = p % m, j = p / m;
    PetscReal      sum = 0.0;

    for (int d = 1; d < 5; d++) sum += Conductivity(p, p + neighbors[d]);
    for (int d = 0; d < 5; d++) {
      const PetscBool   inside = (PetscBool)((d != 1 || i < m - 1) && (d != 2 || i > 0) && (d != 3 || j < m - 1) &&
                                           (d != 4 || j > 0));
      const PetscScalar value  = hard == HARD_DIAGONAL ? (d % 2 ? 1.0 : -1.0) * (d ? 1.0 : 0.0)
                               : hard == HARD_GROUND   ? (d ? -Conductivity(p, p + neighbors[d]) : sum)
                               : d                     ? -1.0 + (d % 2 ? 0.4 : -0.4)
                                                       : 4.0;

      if (inside) PetscCall(MatSetValue(*A, row, row + bs * neighbors[d], value, INSERT_VALUES));
    }
    for (PetscInt other = p * bs; other < (p + 1) * bs; other++) {
      if (other != row) PetscCall(MatSetValue(*A, row, other, other < row ? 0.3 : -0.2, INSERT_VALUES));
    }
    if (hard == HARD_NAN && row == 37) PetscCall(MatSetValue(*A, row, row, (PetscReal)NAN, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Attaches a near null space: vectors that are constant in one of the unknowns and zero in the others */
static PetscErrorCode SetNearNullSpace(Mat A, PetscInt bs)
{
  MatNullSpace space;
  Vec          vecs[3];

  PetscFunctionBeginUser;
  for (PetscInt k = 0; k < bs; k++) {
    PetscCall(MatCreateVecs(A, &vecs[k], NULL));
    PetscCall(VecStrideSet(vecs[k], k, 1.0));
    PetscCall(VecNormalize(vecs[k], NULL));
  }
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_FALSE, bs, vecs, &space));
  PetscCall(MatSetNearNullSpace(A, space));
  PetscCall(MatNullSpaceDestroy(&space));
  for (PetscInt k = 0; k < bs; k++) PetscCall(VecDestroy(&vecs[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCGAMG as the preconditioner, or with richardson as the method itself: rounding of the smoothers must not limit its accuracy */
static PetscErrorCode SolveHard(Hard hard, const char type[])
{
  const char        *name = hards[hard].name;
  KSPConvergedReason reason;
  PetscOptions       database;
  PetscReal          norm, bnorm;
  PetscInt           its;
  Mat                A;
  Vec                b, x;
  KSP                ksp;

  PetscFunctionBeginUser;
  PetscCall(HardCreate(hard, 40, &A));
  if (hard == HARD_NEARLY) PetscCall(SetNearNullSpace(A, hards[hard].unknowns));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(OptionsPush("-pc_type gamg" SMOOTHER, &database));
  PetscCall(PetscOptionsInsertString(database, hards[hard].options));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, type));
  if (strcmp(type, KSPRICHARDSON)) PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 100));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  if (hard == HARD_NAN) PetscCall(ComplainIf(reason > 0, "%s, %s: %s", type, name, KSPConvergedReasons[reason]));
  else if (hard == HARD_DIAGONAL) {
    PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
    PetscCall(ComplainIf(reason > 0 && !(norm <= 1.01 * rtol * bnorm), "%s, %s: the norm of b - A x is %g of %g", type, name,
                         (double)norm, (double)bnorm));
  } else {
    const PetscReal tolerance = rtol;

    /* other solvers do not verify: in single precision the norm of b - A x may be above the tolerance */
    if (PetscDefined(USE_REAL_SINGLE) && !strcmp(type, KSPGMRES)) rtol *= 10;
    PetscCall(CheckSolved(name, ksp, A, b, x));
    rtol = tolerance;
    PetscCall(ComplainIf(its > 30 && strcmp(type, KSPRICHARDSON), "%s, %s: %" INT " iterations", type, name, its));
  }
  PetscCall(OptionsPop(&database));
  PetscCall(DestroyAll(&ksp, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves on the first `most` of 17, 33 and 65 points in each direction, and compares the numbers of iterations */
static PetscErrorCode TestGrids(Convected *convected, const char type[], PetscInt most)
{
  PetscFunctionBeginUser;
  for (size_t ig = 0; ig < PETSC_STATIC_ARRAY_LENGTH(grids); ig++) {
    PetscInt its[3] = {0, 0, 0};

    for (PetscInt level = 0; level < most; level++) {
      char options[PETSC_MAX_PATH_LEN];
      Mat  A;
      Vec  b, x;
      KSP  ksp;

      PetscCall(PetscSNPrintf(options, sizeof(options), grids[ig].options, (int)level + 3));
      PetscCall(SolverCreateCube(convected, 1 + (16 << level), options, type, &ksp));
      PetscCall(KSPGetOperators(ksp, &A, NULL));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(VecSetGeneral(b, 1.0));
      PetscCall(SolveSystem(grids[ig].name, ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its[level]));
      PetscCall(ComplainIf(100 * its[level] > grids[ig].growth * its[0] + 100,
                           "%s, %s, %s: %" INT " iterations with 17 points, %" INT " with %d", type, convected->name,
                           grids[ig].name, its[0], its[level], 1 + (16 << level)));
      PetscCall(DestroyAll(&ksp, &b, &x));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const char *const types[]     = {KSPIDRS, KSPGMRES};
  Convected         convected[] = {
    {"mesh Peclet number 0.5",       0.5, PETSC_FALSE, 0},
    {"mesh Peclet number 2, upwind", 2.0, PETSC_TRUE,  0}
  };

  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(types); i++) {
    for (size_t j = 0; j < PETSC_STATIC_ARRAY_LENGTH(convected); j++)
      PetscCall(TestGrids(&convected[j], types[i], i || size > 1 ? 2 : 3));
    for (Hard hard = HARD_PROCESS; hard < HARDS; hard++) PetscCall(SolveHard(hard, types[i]));
    PetscCall(Verdict(types[i]));
  }
  PetscCall(SolveHard(HARD_PROCESS, KSPRICHARDSON));
  PetscCall(Verdict(KSPRICHARDSON));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
