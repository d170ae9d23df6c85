static char help[] = "Memory that runs out: each allocation of the set-up, the solve, the options, the view and the setters of\n\
KSPIDRS fails once. Each failure is an error, all memory is freed, and the solver can be used again. The\n\
same holds for PCBJIDRS and MATSOLVERPETSCIDRS.\n\n";

#include "allocators.h"
#include "columns.h"

/* Returns PETSC_TRUE if the file belongs to the library. PETSc has files named factor*, too */
static PetscBool Ours(const char file[])
{
  const char *const begins[] = {"idrs", "bjidrs", "blockvec.", "blockhost.", "hostcolumns."}, *slash = strrchr(file, '/');

  if (strstr(file, "mat/factor/")) return PETSC_TRUE;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(begins); i++) {
    if (!strncmp(slash ? slash + 1 : file, begins[i], strlen(begins[i]))) return PETSC_TRUE;
  }
  return PETSC_FALSE;
}

/* Settings of the solver; a scene has the objects that it uses */
typedef struct {
  PetscInt    s;
  PCSide      side;
  const char *pctype;
  PetscBool   shadow; /* explicit shadow vectors */
} Use;

typedef struct {
  const Use  *use;
  Mat         A, B, X;
  Vec         b, x, *P;
  KSP         ksp;
  PetscViewer viewer;
} Scene;

/* Computes the solution and the residual of every iteration, like a monitor */
static PetscErrorCode Look(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Vec x, r;

  PetscFunctionBeginUser;
  PetscCall(KSPBuildSolution(ksp, NULL, &x));
  PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SceneCreate(const Use *use, Scene *scene)
{
  const PetscInt n = 20;
  Vec            column;
  PC             pc;

  PetscFunctionBeginUser;
  scene->use = use;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &scene->A));
  PetscCall(MatSetSizes(scene->A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(scene->A, MATAIJ));
  PetscCall(MatSetUp(scene->A));
  for (PetscInt i = 0; i < n; i++) {
    PetscCall(MatSetValue(scene->A, i, i, 4.0, INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(scene->A, i, i - 1, -0.5, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(scene->A, i, i + 1, -1.5, INSERT_VALUES));
  }
  PetscCall(MatAssemble(scene->A));
  PetscCall(MatCreateVecs(scene->A, &scene->x, &scene->b));
  for (PetscInt i = 0; i < n; i++) PetscCall(VecSetValue(scene->b, i, PetscSinReal((PetscReal)(1 + i * i)), INSERT_VALUES));
  PetscCall(VecAssemble(scene->b));
  PetscCall(VecDuplicateVecs(scene->b, use->s, &scene->P));
  for (PetscInt j = 0; j < use->s; j++) {
    for (PetscInt i = 0; i < n; i++)
      PetscCall(VecSetValue(scene->P[j], i, PetscCosReal((PetscReal)(i * i + 3 * j + i * j)), INSERT_VALUES));
    PetscCall(VecAssemble(scene->P[j]));
  }
  PetscCall(BlockCreate(scene->A, 3, &scene->B));
  PetscCall(BlockSet(scene->A, BLOCK_RANDOM, scene->B));
  PetscCall(MatDuplicate(scene->B, MAT_DO_NOT_COPY_VALUES, &scene->X));
  /* PETSc creates the vector here; a partially created one would be used as if it were complete */
  PetscCall(MatDenseGetColumnVec(scene->B, 0, &column));
  PetscCall(MatDenseRestoreColumnVec(scene->B, 0, &column));
  PetscCall(MatDenseGetColumnVec(scene->X, 0, &column));
  PetscCall(MatDenseRestoreColumnVec(scene->X, 0, &column));
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, "/dev/null", &scene->viewer));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &scene->ksp));
  PetscCall(KSPSetOperators(scene->ksp, scene->A, scene->A));
  PetscCall(KSPSetPCSide(scene->ksp, use->side));
  PetscCall(KSPSetTolerances(scene->ksp, rtol, 0.0, PETSC_DEFAULT, 400));
  PetscCall(KSPMonitorSet(scene->ksp, Look, NULL, NULL));
  PetscCall(KSPGetPC(scene->ksp, &pc));
  PetscCall(PCSetType(pc, use->pctype));
  PetscCall(PCSetUp(pc));
  PetscCall(PCApply(pc, scene->b, scene->x)); /* PCJACOBI would apply a diagonal that is only partially created */
  PetscCall(VecSet(scene->x, 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SceneDestroy(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(DestroyAll(&scene->ksp, &scene->viewer));
  PetscCall(VecDestroyVecs(scene->use->s, &scene->P));
  PetscCall(DestroyAll(&scene->b, &scene->x, &scene->B, &scene->X, &scene->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls with a KSP, in this order; each can be repeated */
static PetscErrorCode SetType(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSetType(scene->ksp, KSPIDRS));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetAll(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowVecs(scene->ksp, 0, NULL));
  PetscCall(KSPIDRSSetShadowSize(scene->ksp, scene->use->s));
  PetscCall(KSPIDRSSetImplementation(scene->ksp, implementation));
  PetscCall(KSPIDRSSetCommunication(scene->ksp, KSP_IDRS_COMMUNICATION_MPI));
  PetscCall(KSPIDRSSetShadowSeed(scene->ksp, 3));
  PetscCall(KSPIDRSSetMinimumCosine(scene->ksp, 0.6));
  PetscCall(KSPIDRSSetUpdateTolerance(scene->ksp, 1e-2));
  PetscCall(KSPIDRSSetMaxRestarts(scene->ksp, 5));
  if (scene->use->shadow) {
    PetscCall(KSPIDRSSetShadowVecs(scene->ksp, 1, scene->P));
    PetscCall(KSPIDRSSetShadowVecs(scene->ksp, scene->use->s, scene->P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetFromOptions(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSetFromOptions(scene->ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetUp(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSetUp(scene->ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPSolve(scene->ksp, scene->b, scene->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for several right-hand sides at the same time, one of which waits for a slot */
static PetscErrorCode SolveColumns(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPMonitorCancel(scene->ksp)); /* the monitor asks for the solution of each */
  PetscCall(KSPSetResidualHistory(scene->ksp, NULL, 100, PETSC_TRUE));
  PetscCall(KSPIDRSSetWidth(scene->ksp, 2));
  PetscCall(KSPIDRSSetBlock(scene->ksp, PETSC_FALSE));
  PetscCall(KSPMatSolve(scene->ksp, scene->B, scene->X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with block recurrences, which have a shadow space of their own; 16 shadow vectors would make it larger than the system */
static PetscErrorCode SolveBlock(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPMonitorCancel(scene->ksp));
  PetscCall(KSPIDRSSetWidth(scene->ksp, 2));
  PetscCall(KSPIDRSSetBlock(scene->ksp, (PetscBool)!scene->use->shadow));
  PetscCall(KSPMatSolve(scene->ksp, scene->B, scene->X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with A, its transpose and A: each direction has panels of its own */
static PetscErrorCode SolveSequence(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetRecycle(scene->ksp, KSP_IDRS_RECYCLE_ALWAYS));
  for (int i = 0; i < 2; i++) {
    PetscCall(KSPSolve(scene->ksp, scene->b, scene->x));
    PetscCall(KSPSolveTranspose(scene->ksp, scene->b, scene->x));
  }
  PetscCall(KSPSolve(scene->ksp, scene->b, scene->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode View(Scene *scene)
{
  PetscFunctionBeginUser;
  PetscCall(PetscViewerPushFormat(scene->viewer, PETSC_VIEWER_ASCII_INFO_DETAIL));
  PetscCall(KSPView(scene->ksp, scene->viewer));
  PetscCall(PetscViewerPopFormat(scene->viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const struct {
  const char *name;
  PetscErrorCode (*act)(Scene *);
  PetscBool skip; /* skipped before later calls: KSPSolve() sets up itself */
  /* allocations of the objects that PETSc creates at a time: a vector, or two if the residual is asked for */
  PetscInt lost;
  PetscInt allocations; /* least number of allocations that fail here; a view makes none */
} acts[] = {
  {"KSPSetType()",              SetType,        PETSC_FALSE, 8,  100 },
  {"setters",                   SetAll,         PETSC_FALSE, 8,  12  },
  {"KSPSetFromOptions()",       SetFromOptions, PETSC_FALSE, 8,  12  },
  {"KSPSetUp()",                SetUp,          PETSC_TRUE,  8,  1000},
  {"KSPSolve()",                Solve,          PETSC_FALSE, 20, 2000},
  {"KSPMatSolve()",             SolveColumns,   PETSC_FALSE, 20, 2000},
  {"KSPMatSolve() with blocks", SolveBlock,     PETSC_FALSE, 20, 500 },
  {"KSPSolve() in a sequence",  SolveSequence,  PETSC_FALSE, 20, 300 },
  {"KSPView()",                 View,           PETSC_FALSE, 8,  0   },
};

/* Calls after a failure, before everything is destroyed */
typedef enum {
  AFTER_NOTHING,
  AFTER_AGAIN, /* the same call and all later ones */
  AFTER_RESET, /* KSPReset(), the same call and all later ones */
  AFTERS
} After;
static const char *const afters[] = {"destroyed", "again", "again after KSPReset()"};

/*
   Checks that all memory is freed. If an allocation of PETSc itself fails, PETSc leaks the object that it creates, with a few more
   allocations with debugging, or an array of VecDuplicateVecs() with its vectors. Memory of the library, and objects that it has
   created, must always be freed.
*/
static PetscErrorCode CheckMemory(const char what[], PetscInt lost)
{
  const PetscBool inside = failed && !Ours(failedfile) ? PETSC_TRUE : PETSC_FALSE;
  PetscBool       array  = PETSC_FALSE;

  PetscFunctionBeginUser;
  PetscCheck(inuse <= MAX_BLOCKS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "More than %d allocations at a time", MAX_BLOCKS);
  for (PetscInt i = 0; i < inuse; i++) {
    PetscCall(ComplainIf(!inside || Ours(blocks[i].file), "%s: memory of %s() is not freed", what, blocks[i].function));
    if (!strncmp(blocks[i].function, "VecDuplicateVecs", 16)) array = PETSC_TRUE;
  }
  PetscCall(
    ComplainIf(!array && inuse > lost + (PetscDefined(USE_DEBUG) ? 4 : 0), "%s: %" INT " allocations are not freed", what, inuse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes all calls up to this one, in which the n-th allocation fails, and the calls after it. happened: there was an n-th
   allocation
*/
static PetscErrorCode FailOnce(const Use *use, size_t which, PetscInt n, After after, PetscBool *happened)
{
  PetscErrorCode ierr;
  PetscReal      rnorm, bnorm;
  PetscInt       locks;
  char           what[256];
  Scene          scene;

  PetscFunctionBeginUser;
  failed   = NULL;
  inuse    = 0;
  watching = PETSC_TRUE;
  PetscCall(SceneCreate(use, &scene));
  for (size_t i = 0; i < which; i++) {
    if (!acts[i].skip) PetscCall((*acts[i].act)(&scene));
  }
  PetscCall(Listen());
  left = n;
  ierr = (*acts[which].act)(&scene);
  left = 0;
  PetscCall(Heard());
  *happened = failed ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT ", %s, %s, allocation %" INT " in %s(), %s", acts[which].name, use->s,
                          use->pctype, PCSides[use->side], n, failed ? failed : "nowhere", afters[after]));
  PetscCall(ComplainIf(*happened ? !ierr || (Ours(failedfile) && ierr != PETSC_ERR_MEM) : ierr != PETSC_SUCCESS,
                       "%s: error code %d, \"%s\"", what, (int)ierr, message));
  /*
     MatMultTranspose() of PETSc sets y to 0 and keeps x locked if memory lacks for the cached norm of y. In single precision a
     solution is verified with a y that has none
  */
  if (PetscDefined(USE_REAL_SINGLE) && acts[which].act == SolveSequence && *happened &&
      !strcmp(failed, "PetscObjectComposedDataIncrease_"))
    PetscCall(Unlock(scene.x));
  PetscCall(VecLockGet(scene.x, &locks));
  PetscCall(ComplainIf(locks, "%s: solution locked", what));
  PetscCall(VecLockGet(scene.b, &locks));
  PetscCall(ComplainIf(locks > 1, "%s: right-hand side locked, by more than KSPSolve()", what));

  if (after != AFTER_NOTHING) {
    PetscCall(Listen());
    ierr = after == AFTER_RESET ? KSPReset(scene.ksp) : PETSC_SUCCESS;
    if (!ierr && after == AFTER_RESET) ierr = KSPSetOperators(scene.ksp, scene.A, scene.A);
    for (size_t i = which; i < PETSC_STATIC_ARRAY_LENGTH(acts) && !ierr; i++) {
      if (i == which || !acts[i].skip) ierr = (*acts[i].act)(&scene);
    }
    PetscCall(Heard());
    if (ierr) PetscCall(Complain("%s: error code %d, \"%s\"", what, (int)ierr, message));
    else {
      PetscCall(ResidualNorm(scene.A, scene.b, scene.x, &rnorm, &bnorm));
      PetscCall(ComplainIf(!(rnorm <= 1.01 * rtol * bnorm), "%s: ||b - A x|| = %g ||b||", what, (double)(rnorm / bnorm)));
    }
  }
  PetscCall(SceneDestroy(&scene));
  watching = PETSC_FALSE;
  if (n) PetscCall(CheckMemory(what, acts[which].lost));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestAct(size_t which)
{
  const PetscInt    sizes[]   = {1, 8, 16};
  const PCSide      sides[]   = {PC_RIGHT, PC_LEFT};
  const char *const pctypes[] = {PCNONE, PCJACOBI};
  PetscInt          total     = 0;

  PetscFunctionBeginUser;
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (size_t ipc = 0; ipc < 2; ipc++) {
        const Use use      = {sizes[is], sides[iside], pctypes[ipc], (PetscBool)(iside == ipc)};
        PetscBool happened = PETSC_TRUE;

        for (PetscInt n = 1; happened; n++, total++)
          PetscCall(FailOnce(&use, which, n, (After)((n + iside + ipc) % AFTERS), &happened));
      }
    }
  }
  PetscCall(ComplainIf(total < 12 + acts[which].allocations, "%s: only %" INT " allocations", acts[which].name, total - 12));
  PetscCall(Verdict(acts[which].name));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Preconditioners of the library */
static const struct {
  const char *name, *type;
  PetscInt    allocations; /* least number of allocations of the library */
} preconditioners[] = {
  {"PCBJIDRS", PCBJIDRS, 8},
  {"ILU(1)",   PCILU,    8},
  {"LU",       PCLU,     8},
};

/* Creates a preconditioner */
static PetscErrorCode PreconditionerCreate(size_t which, Mat A, PC *pc)
{
  const PetscInt sizes[] = {4, 1, 15};
  KSP            inner;
  PC             innerpc;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(PETSC_COMM_WORLD, pc));
  PetscCall(PCSetOperators(*pc, A, A));
  PetscCall(PCSetType(*pc, preconditioners[which].type));
  if (which == 0) {
    PetscCall(PCBJIDRSSetLocalBlocks(*pc, 3, sizes));
    PetscCall(PCBJIDRSGetKSP(*pc, &inner));
    PetscCall(KSPSetTolerances(inner, rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPGetPC(inner, &innerpc));
    PetscCall(PCSetType(innerpc, PCNONE)); /* PETSc 3.26 cannot destroy a partially created PCJACOBI */
  } else {
    PetscCall(PCFactorSetMatSolverType(*pc, MATSOLVERPETSCIDRS));
    if (which == 1) PetscCall(PCFactorSetLevels(*pc, 1));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the preconditioner, also with new values */
static PetscErrorCode PreconditionerUse(size_t which, PC pc, Scene *scene)
{
  PetscFunctionBeginUser;
  for (PetscInt turn = 0; turn < 2; turn++) {
    if (turn) PetscCall(MatScale(scene->A, 2.0));
    PetscCall(PCSetUp(pc));
    PetscCall(PCMatApply(pc, scene->B, scene->X));
    if (which) PetscCall(PCApplyTranspose(pc, scene->b, scene->x));
    PetscCall(PCApply(pc, scene->b, scene->x));
    PetscCall(PCView(pc, scene->viewer));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates and applies a preconditioner while the n-th allocation fails. If it is an allocation of the library, the preconditioner
   is applied again after PCReset(). happened: there was an n-th allocation; ours counts allocations of the library
*/
static PetscErrorCode FailPreconditioner(size_t which, PetscInt n, PetscBool *happened, PetscInt *ours)
{
  const Use      use = {1, PC_RIGHT, PCNONE, PETSC_FALSE};
  PetscErrorCode ierr;
  PetscBool      made;
  PetscReal      rnorm, bnorm;
  char           what[256];
  Scene          scene;
  PC             pc = NULL;

  PetscFunctionBeginUser;
  failed   = NULL;
  inuse    = 0;
  watching = PETSC_TRUE;
  PetscCall(SceneCreate(&use, &scene));
  PetscCall(Listen());
  left = n;
  ierr = PreconditionerCreate(which, scene.A, &pc);
  made = ierr ? PETSC_FALSE : PETSC_TRUE;
  if (made) ierr = PreconditionerUse(which, pc, &scene);
  left = 0;
  PetscCall(Heard());
  *happened = failed ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, allocation %" INT " in %s()", preconditioners[which].name, n,
                          failed ? failed : "nowhere"));
  PetscCall(ComplainIf(*happened ? !ierr || (Ours(failedfile) && ierr != PETSC_ERR_MEM) : ierr != PETSC_SUCCESS,
                       "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(Unlock(scene.b));
  PetscCall(Unlock(scene.x));
  if (*happened && Ours(failedfile)) {
    (*ours)++;
    PetscCall(Listen());
    if (made) {
      ierr = PCReset(pc);
      if (!ierr) ierr = PCSetOperators(pc, scene.A, scene.A);
    } else {
      ierr = PCDestroy(&pc); /* PETSc would use a partially created type */
      if (!ierr) ierr = PreconditionerCreate(which, scene.A, &pc);
    }
    if (!ierr && which == 0) ierr = PCBJIDRSSetLocalBlocks(pc, 1, NULL);
    if (!ierr) ierr = PreconditionerUse(which, pc, &scene);
    PetscCall(Heard());
    PetscCall(ResidualNorm(scene.A, scene.b, scene.x, &rnorm, &bnorm));
    PetscCall(ComplainIf(ierr || (which != 1 && !(rnorm <= 1.01e3 * rtol * bnorm)),
                         "%s: again, error code %d, ||b - A x|| = %g of %g, \"%s\"", what, (int)ierr, (double)rnorm, (double)bnorm,
                         message));
  }
  PetscCall(PCDestroy(&pc));
  PetscCall(SceneDestroy(&scene));
  watching = PETSC_FALSE;
  if (n) PetscCall(CheckMemory(what, 20));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestPreconditioners(void)
{
  PetscFunctionBeginUser;
  for (size_t which = 0; which < PETSC_STATIC_ARRAY_LENGTH(preconditioners); which++) {
    PetscBool happened = PETSC_TRUE;
    PetscInt  ours     = 0;

    PetscCall(FailPreconditioner(which, 0, &happened, &ours)); /* what PETSc allocates once */
    happened = PETSC_TRUE;
    for (PetscInt n = 1; happened; n++) PetscCall(FailPreconditioner(which, n, &happened, &ours));
    PetscCall(
      ComplainIf(ours < preconditioners[which].allocations, "%s: only %" INT " allocations", preconditioners[which].name, ours));
  }
  PetscCall(Verdict("preconditioners"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscBool happened;
  const Use use = {16, PC_RIGHT, PCJACOBI, PETSC_TRUE};

  PetscFunctionBeginUser;
  PetscCall(PetscMallocSetCoalesce(PETSC_TRUE)); /* with debugging PetscMalloc2() loses its first array if there is no second one */
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump"));
  PetscCall(ReplaceAllocators(PETSC_TRUE));
  PetscCall(FailOnce(&use, PETSC_STATIC_ARRAY_LENGTH(acts) - 1, 0, AFTER_NOTHING, &happened)); /* what PETSc allocates once */
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(acts); i++) PetscCall(TestAct(i));
  PetscCall(TestPreconditioners());
  PetscCall(ReplaceAllocators(PETSC_FALSE));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # PETSc does not remove the functions of a partially created IS, PCILU or PCLU, which -checkfunctionlist prints
  test:
    suffix: 1
    filter: grep -v -e "Registered PetscFunctionLists" -e "function name: IS" -e "function name: PCFactor"
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
