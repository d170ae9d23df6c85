static char help[] = "Memory that runs out in MATSOLVERPETSCIDRS and PCBJIDRS: each allocation of their set-up and solves fails\n\
once. Each failure is an error, all memory is freed, and the same object can be used again. After a failed\n\
phase no solve uses old or incomplete factors.\n\n";

#include "allocators.h"
#include "systems.h"

/* Returns PETSC_TRUE if the file belongs to MATSOLVERPETSCIDRS or PCBJIDRS */
static PetscBool Ours(const char file[])
{
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

  return !strncmp(name, "factor", 6) || !strncmp(name, "bjidrs", 6) ? PETSC_TRUE : PETSC_FALSE;
}

/*
   The tested object: a factor or, with MAT_FACTOR_NONE, PCBJIDRS with `number` shadow vectors. If points have several unknowns,
   each point is a block
*/
typedef struct {
  MatFactorType   type;
  MatOrderingType ordering;
  PetscInt        bs, number; /* unknowns per point; levels of fill, or shadow vectors */
} Kind;

/* A matrix, right-hand sides, and the solutions without a failure */
#define POINTS 20
#define SOLVES 3
typedef struct {
  const Kind   *kind;
  MatFactorInfo info;
  Mat           A, B, X;
  Vec           b, x[SOLVES], right[SOLVES];
  IS            row, col;
} Scene;

/* Creates a matrix of points on a line with bs unknowns each, in full blocks */
static PetscErrorCode SceneCreate(const Kind *kind, Scene *scene)
{
  const PetscInt n = POINTS, bs = kind->bs;

  PetscFunctionBeginUser;
  scene->kind = kind;
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, n * bs, n * bs, 3 * bs, NULL, &scene->A));
  PetscCall(MatSetBlockSize(scene->A, bs));
  for (PetscInt i = 0; i < n * bs; i++) {
    for (PetscInt j = PetscMax(0, (i / bs - 1) * bs); j < PetscMin(n, i / bs + 2) * bs; j++)
      PetscCall(MatSetValue(scene->A, i, j, i == j ? 6.0 : PetscSinReal((PetscReal)(3 * i + 5 * j)), INSERT_VALUES));
  }
  PetscCall(MatAssemble(scene->A));
  PetscCall(MatCreateVecs(scene->A, NULL, &scene->b));
  PetscCall(VecSetGeneral(scene->b, 0.3));
  for (PetscInt l = 0; l < SOLVES; l++) PetscCall(DuplicateAll(scene->b, &scene->x[l], &scene->right[l]));
  PetscCall(MatCreateSeqDense(PETSC_COMM_SELF, n * bs, 6, NULL, &scene->B));
  PetscCall(MatSetRandom(scene->B, NULL));
  PetscCall(MatDuplicate(scene->B, MAT_DO_NOT_COPY_VALUES, &scene->X));
  PetscCall(MatGetOrdering(scene->A, kind->ordering, &scene->row, &scene->col));
  PetscCall(MatFactorInfoInitialize(&scene->info));
  scene->info.fill   = 1.0;
  scene->info.levels = kind->number;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SceneDestroy(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(DestroyAll(&scene->col, &scene->row, &scene->X, &scene->B));
  for (PetscInt l = 0; l < SOLVES; l++) PetscCall(DestroyAll(&scene->right[l], &scene->x[l]));
  PetscCall(DestroyAll(&scene->b, &scene->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ObjectCreate(Scene *scene, PetscObject *object)
{
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  if (scene->kind->type) PetscCall(MatGetFactor(scene->A, MATSOLVERPETSCIDRS, scene->kind->type, (Mat *)object));
  else {
    PetscCall(PCCreate(PETSC_COMM_SELF, (PC *)object));
    ierr = PCSetType((PC)*object, PCBJIDRS);
    if (ierr) PetscCall(PCDestroy((PC *)object));
    PetscCall(ierr);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Runs all phases of a factorisation, and solves */
static PetscErrorCode UseFactor(Scene *scene, Mat F)
{
  PetscFunctionBeginUser;
  if (scene->kind->type == MAT_FACTOR_LU) PetscCall(MatLUFactorSymbolic(F, scene->A, scene->row, scene->col, &scene->info));
  else PetscCall(MatILUFactorSymbolic(F, scene->A, scene->row, scene->col, &scene->info));
  PetscCall(MatLUFactorNumeric(F, scene->A, &scene->info));
  PetscCall(MatSolve(F, scene->b, scene->x[0]));
  PetscCall(MatSolveTranspose(F, scene->b, scene->x[1]));
  PetscCall(MatMatSolve(F, scene->B, scene->X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the preconditioner and solves */
static PetscErrorCode UsePC(Scene *scene, PC pc)
{
  PetscInt sizes[POINTS];
  PC       none;
  KSP      inner;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < POINTS; i++) sizes[i] = scene->kind->bs;
  PetscCall(PCSetOperators(pc, scene->A, scene->A));
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPIDRSSetShadowSize(inner, scene->kind->number));
  PetscCall(KSPGetPC(inner, &none));
  PetscCall(PCSetType(none, PCNONE)); /* a PCJACOBI whose set-up has failed counts as set up, and from 3.26 on cannot be reset */
  PetscCall(KSPSetTolerances(inner, rtol, 0.0, PETSC_DEFAULT, 500));
  if (scene->kind->bs > 1) PetscCall(PCBJIDRSSetLocalBlocks(pc, POINTS, sizes));
  PetscCall(PCSetUp(pc));
  PetscCall(PCApply(pc, scene->b, scene->x[0]));
  PetscCall(PCApply(pc, scene->x[0], scene->x[1]));
  PetscCall(PCMatApply(pc, scene->B, scene->X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes all calls, and copies a column of the last solve */
static PetscErrorCode Use(Scene *scene, PetscObject object)
{
  Vec column;

  PetscFunctionBeginUser;
  if (scene->kind->type) PetscCall(UseFactor(scene, (Mat)object));
  else PetscCall(UsePC(scene, (PC)object));
  PetscCall(MatDenseGetColumnVecRead(scene->X, 5, &column));
  PetscCall(VecCopy(column, scene->x[2]));
  PetscCall(MatDenseRestoreColumnVecRead(scene->X, 5, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that all memory is freed. If an allocation of PETSc itself fails, PETSc leaks the object that it creates */
static PetscErrorCode CheckMemory(const char what[])
{
  PetscFunctionBeginUser;
  PetscCheck(inuse <= MAX_BLOCKS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "More than %d allocations at a time", MAX_BLOCKS);
  for (PetscInt i = 0; i < inuse; i++)
    PetscCall(
      ComplainIf(!failed || Ours(failedfile) || Ours(blocks[i].file), "%s: memory of %s() is not freed", what, blocks[i].function));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lets the n-th allocation fail, then uses the same object again, or destroys it. happened: there was an n-th allocation */
static PetscErrorCode FailOnce(Scene *scene, PetscInt n, PetscBool again, PetscBool *happened)
{
  PetscErrorCode ierr;
  char           what[256];
  PetscObject    object = NULL;

  PetscFunctionBeginUser;
  failed   = NULL;
  inuse    = 0;
  watching = PETSC_TRUE;
  PetscCall(Listen());
  left = n;
  ierr = ObjectCreate(scene, &object);
  if (ierr) object = NULL;
  else ierr = Use(scene, object);
  left = 0;
  PetscCall(Heard());
  *happened = failed ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %" INT " unknowns, allocation %" INT " in %s()%s",
                          scene->kind->type ? MatFactorTypes[scene->kind->type] : PCBJIDRS, scene->kind->ordering, scene->kind->bs,
                          n, failed ? failed : "nowhere", again ? ", again" : ""));
  PetscCall(ComplainIf(*happened ? !ierr || (Ours(failedfile) && ierr != PETSC_ERR_MEM) : ierr != PETSC_SUCCESS,
                       "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(Unlock(scene->b));
  for (PetscInt l = 0; l < SOLVES; l++) PetscCall(Unlock(scene->x[l]));
  if (object && again) {
    Try(ierr, Use(scene, object));
    PetscCall(ComplainIf(ierr, "%s: error code %d, \"%s\"", what, (int)ierr, message));
    for (PetscInt l = 0; l < SOLVES && !ierr; l++) {
      PetscBool equal;

      PetscCall(VecEqual(scene->x[l], scene->right[l], &equal));
      PetscCall(ComplainIf(!equal, "%s: solve %" INT " has another solution", what, l));
    }
  }
  PetscCall(PetscObjectDestroy(&object));
  watching = PETSC_FALSE;
  PetscCall(CheckMemory(what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestAllocations(void)
{
  const Kind kinds[] = {
    {MAT_FACTOR_ILU,  MATORDERINGNATURAL, 1, 0},
    {MAT_FACTOR_ILU,  MATORDERINGRCM,     1, 2},
    {MAT_FACTOR_ILU,  MATORDERINGNATURAL, 3, 1},
    {MAT_FACTOR_LU,   MATORDERINGND,      1, 0},
    {MAT_FACTOR_LU,   MATORDERINGNATURAL, 2, 0},
    {MAT_FACTOR_NONE, MATORDERINGNATURAL, 1, 4},
    {MAT_FACTOR_NONE, MATORDERINGNATURAL, 3, 2},
  };
  PetscInt total = 0, ours = 0;

  PetscFunctionBeginUser;
  for (size_t ik = 0; ik < PETSC_STATIC_ARRAY_LENGTH(kinds); ik++) {
    Scene       scene;
    PetscObject object;

    PetscCall(SceneCreate(&kinds[ik], &scene));
    PetscCall(ObjectCreate(&scene, &object));
    PetscCall(Use(&scene, object)); /* also makes the allocations that PETSc makes once */
    PetscCall(PetscObjectDestroy(&object));
    for (PetscInt l = 0; l < SOLVES; l++) PetscCall(VecCopy(scene.x[l], scene.right[l]));
    PetscCall(ReplaceAllocators(PETSC_TRUE));
    for (PetscInt again = 0; again < 2; again++) {
      PetscBool happened = PETSC_TRUE;

      for (PetscInt n = 1; happened; n++, total++) {
        PetscCall(FailOnce(&scene, n, (PetscBool)again, &happened));
        if (happened && Ours(failedfile)) ours++;
      }
    }
    PetscCall(ReplaceAllocators(PETSC_FALSE));
    PetscCall(SceneDestroy(&scene));
  }
  PetscCall(ComplainIf(ours < 100, "only %" INT " allocations of the library have failed, of %" INT, ours, total));
  PetscCall(Verdict("allocations"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A matrix without a diagonal entry follows a matrix with it: no later phase uses the old factors, or the incomplete ones */
static PetscErrorCode TestFailedPhases(void)
{
  const Kind  kind = {MAT_FACTOR_ILU, MATORDERINGNATURAL, 1, 0};
  Scene       scene;
  PetscBool   equal;
  PetscReal   nonzeros = -1.0;
  PetscInt    lines;
  PetscViewer viewer;
  Mat         F, H;

  PetscFunctionBeginUser;
  PetscCall(SceneCreate(&kind, &scene));
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, 20, 20, 2, NULL, &H));
  for (PetscInt row = 0; row < 20; row++) PetscCall(MatSetValue(H, row, (row + 1) % 20, 1.0, INSERT_VALUES));
  PetscCall(MatAssemble(H));
  PetscCall(MatGetFactor(scene.A, MATSOLVERPETSCIDRS, kind.type, &F));
  PetscCall(UseFactor(&scene, F));
  for (PetscInt l = 0; l < SOLVES; l++) PetscCall(VecCopy(scene.x[l], scene.right[l]));
  CheckRefused(MatILUFactorSymbolic(F, H, scene.row, scene.col, &scene.info), "Row 0 ", "diagonal");
  CheckRefused(MatLUFactorNumeric(F, H, &scene.info), "pattern", MATSOLVERPETSCIDRS);
  CheckRefused(MatLUFactorNumeric(F, scene.A, &scene.info), "pattern", MATSOLVERPETSCIDRS);
  CheckRefused(MatSolve(F, scene.b, scene.x[0]), "repeated", MATSOLVERPETSCIDRS);
  CheckRefused(MatMatSolve(F, scene.B, scene.X), "repeated", MATSOLVERPETSCIDRS);
  PetscCall(Unlock(scene.b));
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_SELF, "fault_factor.view", &viewer));
  PetscCall(PetscViewerPushFormat(viewer, PETSC_VIEWER_ASCII_INFO));
  PetscCall(MatView(F, viewer));
  PetscCall(PetscViewerPopFormat(viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(FileNumbers("fault_factor.view", "total: nonzeros=", 1, &nonzeros, &lines));
  PetscCall(ComplainIf(lines != 1 || nonzeros != 0.0, "%g entries of a factor after a failed symbolic phase, in %" INT " lines",
                       (double)nonzeros, lines));
  PetscCall(UseFactor(&scene, F));
  for (PetscInt l = 0; l < SOLVES; l++) {
    PetscCall(VecEqual(scene.x[l], scene.right[l], &equal));
    PetscCall(ComplainIf(!equal, "solve %" INT " after failed phases has another solution", l));
  }
  PetscCall(DestroyAll(&F, &H));
  PetscCall(SceneDestroy(&scene));
  PetscCall(Verdict("failed phases"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscMallocSetCoalesce(PETSC_TRUE)); /* with debugging PetscMalloc2() loses its first array if there is no second one */
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(TestAllocations());
  PetscCall(TestFailedPhases());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # PETSc does not remove the functions of a partially created IS, which -checkfunctionlist prints
  test:
    suffix: 1
    filter: grep -v -e "Registered PetscFunctionLists" -e "function name: IS"

TEST*/
