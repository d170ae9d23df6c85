static char help[] = "Operators that rely on what VecDuplicate() copies to the vectors of KSPIDRS: the DM, the local-to-global\n\
mapping, room for ghosts.\n\n";

#include "systems.h"

/* An operator that gets its grid from its input: every input must have the DM */
static PetscErrorCode GridMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *const *u;
  PetscScalar             **v;
  PetscInt                  xs, ys, xm, ym, M, N;
  PetscInt                 *without;
  Vec                       local;
  DM                        da;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &without));
  PetscCall(VecGetDM(x, &da));
  if (!da) {
    (*without)++;
    PetscCall(VecCopy(x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(DMDAGetInfo(da, NULL, &M, &N, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  PetscCall(DMDAGetCorners(da, &xs, &ys, NULL, &xm, &ym, NULL));
  PetscCall(DMGetLocalVector(da, &local));
  PetscCall(DMGlobalToLocalBegin(da, x, INSERT_VALUES, local));
  PetscCall(DMGlobalToLocalEnd(da, x, INSERT_VALUES, local));
  PetscCall(DMDAVecGetArrayRead(da, local, (void *)&u));
  PetscCall(DMDAVecGetArrayWrite(da, y, &v));
  for (PetscInt j = ys; j < ys + ym; j++) {
    for (PetscInt i = xs; i < xs + xm; i++) {
      v[j][i] = 4.1 * u[j][i];
      if (i > 0) v[j][i] -= 1.4 * u[j][i - 1];
      if (i < M - 1) v[j][i] -= 0.6 * u[j][i + 1];
      if (j > 0) v[j][i] -= 1.2 * u[j - 1][i];
      if (j < N - 1) v[j][i] -= 0.8 * u[j + 1][i];
    }
  }
  PetscCall(DMDAVecRestoreArrayWrite(da, y, &v));
  PetscCall(DMDAVecRestoreArrayRead(da, local, (void *)&u));
  PetscCall(DMRestoreLocalVector(da, &local));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner that gets its grid from its input */
static PetscErrorCode GridPCApply(PC pc, Vec x, Vec y)
{
  void *ctx;
  DM    da;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &ctx));
  PetscCall(VecGetDM(x, &da));
  if (!da) (*(PetscInt *)ctx)++;
  PetscCall(VecCopy(x, y));
  PetscCall(VecScale(y, 0.25));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestGrid(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscInt       n, N, without = 0;
  DM             da;
  Mat            S;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 11, 9, PETSC_DECIDE, PETSC_DECIDE,
                         1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &b));
  PetscCall(DMCreateGlobalVector(da, &x));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &without, &S));
  PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))GridMult));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (PetscInt preconditioned = 0; preconditioned < 2; preconditioned++) {
        char what[64];
        PC   pc;
        KSP  ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "grid, s = %" INT ", %s%s", sizes[is], PCSides[sides[iside]],
                                preconditioned ? ", preconditioned" : ""));
        PetscCall(SolverCreateSide(S, sizes[is], sides[iside], preconditioned ? PCSHELL : PCNONE, &ksp));
        PetscCall(KSPGetPC(ksp, &pc));
        if (preconditioned) {
          PetscCall(PCShellSetContext(pc, &without));
          PetscCall(PCShellSetApply(pc, GridPCApply));
        }
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(ksp, preconditioned ? PETSC_TRUE : PETSC_FALSE));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(ComplainIf(without, "%s: %" INT " vectors without the DM", what, without));
        without = 0;
        PetscCall(CheckConverged(what, ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(DestroyAll(&S, &x, &b, &da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A line of points, column by column: every process adds the contributions of its points to their neighbours, by local numbers */
static PetscErrorCode LocalMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *array, weights[] = {-0.6, 2.5, -1.4};
  PetscInt           begin, end, first, N;
  DM                 da;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &da));
  PetscCall(DMDAGetGhostCorners(da, &first, NULL, NULL, NULL, NULL, NULL));
  PetscCall(VecGetSize(x, &N));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecSet(y, 0.0));
  PetscCall(VecGetArrayRead(x, &array));
  for (PetscInt i = begin; i < end; i++) {
    PetscInt    rows[3], count = 0;
    PetscScalar values[3];

    for (PetscInt j = 0; j < 3; j++) {
      const PetscInt row = i + j - 1;

      if (row < 0 || row >= N) continue;
      rows[count]     = row - first;
      values[count++] = weights[j] * array[i - begin];
    }
    PetscCall(VecSetValuesLocal(y, count, rows, values, ADD_VALUES));
  }
  PetscCall(VecRestoreArrayRead(x, &array));
  PetscCall(VecAssemble(y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same rows, from values of the neighbours in the ghosts of the vector */
static PetscErrorCode GhostMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *from;
  PetscScalar       *to;
  PetscInt           begin, end, N;
  Vec                local;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(x, &N));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGhostUpdateBegin(x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGhostUpdateEnd(x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGhostGetLocalForm(x, &local));
  PetscCall(VecGetArrayRead(local, &from));
  PetscCall(VecGetArrayWrite(y, &to));
  for (PetscInt i = begin, n = end - begin; i < end; i++) {
    const PetscInt before = i == begin ? n : i - begin - 1, after = i < end - 1 ? i - begin + 1 : n + (begin > 0);

    to[i - begin] = 2.5 * from[i - begin];
    if (i > 0) to[i - begin] -= 1.4 * from[before];
    if (i < N - 1) to[i - begin] -= 0.6 * from[after];
  }
  PetscCall(VecRestoreArrayWrite(y, &to));
  PetscCall(VecRestoreArrayRead(local, &from));
  PetscCall(VecGhostRestoreLocalForm(x, &local));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators that rely on what VecDuplicate() copies: the local-to-global mapping, room for ghosts */
static PetscErrorCode TestDuplicates(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscInt       begin, n, N = 60, ghosts[2], count = 0;
  DM             da;
  Mat            S;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate1d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, N, 1, 1, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMDAGetCorners(da, &begin, NULL, NULL, &n, NULL, NULL));
  if (begin > 0) ghosts[count++] = begin - 1;
  if (begin + n < N) ghosts[count++] = begin + n;
  for (PetscInt ghosted = 0; ghosted < 2; ghosted++) {
    if (ghosted) PetscCall(VecCreateGhost(PETSC_COMM_WORLD, n, N, count, ghosts, &b));
    else PetscCall(DMCreateGlobalVector(da, &b));
    PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, da, &S));
    PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))(ghosted ? GhostMult : LocalMult)));
    PetscCall(VecSetGeneral(b, 1.0));
    PetscCall(VecDuplicate(b, &x));
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      for (size_t iside = 0; iside < 2; iside++) {
        char what[64];
        KSP  ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT ", %s", ghosted ? "ghosts" : "local numbers", sizes[is],
                                PCSides[sides[iside]]));
        PetscCall(SolverCreateSide(S, sizes[is], sides[iside], PCNONE, &ksp));
        if (ghosted) PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_AUTO));
        PetscCall(SolveToNorm(what, ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(DestroyAll(&S, &x, &b));
  }
  PetscCall(DMDestroy(&da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestGrid, "vectors of a grid"}, {TestDuplicates, "what duplicates have"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
