static char help[] = "Recycling: solves that begin with the bases of the previous solve. Their bases satisfy G = A U and M =\n\
P^H G for any end of the previous solve; solves converge after any change; the safeguard bounds their costs.\n\
  -f <file> - a matrix on which recycling pays\n\n";

#include "columns.h"
#include "workspaces.h"
#include "../tutorials/matrixmarket.h"

/* A back end that checks the bases before r = r - G c */
static const IDRSPassOps *original;
static IDRSPassOps        probe;
static struct {
  Mat       A; /* checks if not NULL */
  PetscInt  looked;
  PetscReal consistent,
    triangular;     /* largest |G_j - A U_j| / |G_j|, and |p_i^H G_j - M_ij| / (|p_i| |G_j|); M is lower triangular */
  PetscReal digits; /* to which G = A U, summed over the bases */
} seen;

static PetscErrorCode LookAtBases(IDRSWorkspace work)
{
  const PetscInt s = work->s;
  PetscReal      norms[32], pnorm, difference, largest = PETSC_MACHINE_EPSILON;
  PetscInt       begin, end;
  PetscScalar   *array, dot;
  Vec            p, g;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(work->r, &p, &g));
  PetscCall(VecGetOwnershipRange(p, &begin, &end));
  for (PetscInt i = 0; i < s; i++) {
    PetscCall(MatMult(seen.A, work->U[i], g));
    PetscCall(VecAXPY(g, -1.0, work->G[i]));
    PetscCall(VecNorm(g, NORM_2, &difference));
    PetscCall(VecNorm(work->G[i], NORM_2, &norms[i]));
    largest = PetscMax(largest, difference / norms[i]);
  }
  seen.consistent = PetscMax(seen.consistent, largest);
  seen.digits -= PetscLog10Real(largest);
  for (PetscInt i = 0; i < s; i++) {
    if (work->hashed) {
      PetscCall(VecGetArrayWrite(p, &array));
      for (PetscInt row = begin; row < end; row++) array[row - begin] = Shadow(work->seed, (uint64_t)row, i) / (PetscReal)65536;
      PetscCall(VecRestoreArrayWrite(p, &array));
    } else PetscCall(VecCopy(work->P[i], p));
    PetscCall(VecNorm(p, NORM_2, &pnorm));
    for (PetscInt j = 0; j < s; j++) {
      const PetscScalar M = i >= j ? work->scalars.M[i + j * s] : 0.0;

      PetscCall(VecDot(work->G[j], p, &dot)); /* p_i^H g_j */
      seen.triangular = PetscMax(seen.triangular, PetscAbsScalar(dot - M) / (pnorm * norms[j]));
    }
  }
  seen.looked++;
  PetscCall(DestroyAll(&p, &g));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode LookAndCombine(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count && seen.A; i++) {
    /* once M is on a device, the one of the host is outdated */
    if (step->k == group->work[i]->s && step->start && !group->work[i]->ondevice) PetscCall(LookAtBases(group->work[i]));
  }
  PetscCall((*original->combine)(group, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets whether the bases of works that are created from now on are checked */
static PetscErrorCode Look(Mat A)
{
  KSPIDRSImplementation back = implementation;

  PetscFunctionBeginUser;
  if (!original) {
    if (back == KSP_IDRS_AUTO) PetscCall(BackEndFromOptions(&back));
    probe.name = KSPIDRSImplementations[back];
    PetscCall(IDRSWorkspaceRegisterPasses(&probe, &original));
    probe         = *original;
    probe.combine = LookAndCombine;
  }
  PetscCall(IDRSWorkspaceRegisterPasses(A ? &probe : original, NULL));
  seen.A          = A;
  seen.looked     = 0;
  seen.consistent = seen.triangular = seen.digits = 0.0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckSeen(const char what[], PetscInt least, PetscReal bound)
{
  PetscFunctionBeginUser;
  PetscCall(ComplainIf(seen.looked < least, "%s: %" INT " bases instead of %" INT, what, seen.looked, least));
  PetscCall(ComplainIf(!(seen.consistent <= bound), "%s: |G - A U| is %g |G|", what, (double)seen.consistent));
  PetscCall(ComplainIf(!(seen.triangular <= bound), "%s: P^H G - M is %g |P| |G|", what, (double)seen.triangular));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the lines of the view on right-hand sides that began with bases, and without */
static PetscErrorCode CheckRecycled(const char what[], KSP ksp, PetscInt with, PetscInt without)
{
  const char *const keys[] = {"recycling of bases: ", "began with bases", "began without bases"};
  PetscReal         number;
  PetscInt          lines[3];

  PetscFunctionBeginUser;
  for (int i = 0; i < 3; i++) PetscCall(ViewNumbers((PetscObject)ksp, keys[i], 1, &number, &lines[i]));
  PetscCall(ComplainIf(lines[0] != 1 || lines[1] != with || lines[2] != without,
                       "%s: %" INT " lines on recycling, %" INT " on bases that were used, %" INT " on bases that were not used",
                       what, lines[0], lines[1], lines[2]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode RecyclerCreate(Mat A, PetscInt s, const char pctype[], KSPIDRSRecycle recycle, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPIDRSSetRecycle(*ksp, recycle));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SolveAndCount(const char what[], KSP ksp, Mat A, Vec b, Vec x, PetscInt *matvecs)
{
  PetscFunctionBeginUser;
  PetscCall(SolveSystem(what, ksp, A, b, x));
  PetscCall(KSPIDRSGetCounts(ksp, matvecs, NULL, NULL, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Loads the matrix of -f */
static PetscErrorCode Load(Mat *A, Vec *b, Vec *x)
{
  char file[PETSC_MAX_PATH_LEN];

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, A));
  PetscCall(MatCreateVecs(*A, x, b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If recycling pays, a second solve needs at most 0.7 of the matvecs; after KSPIDRSResetRecycle() it repeats the first one */
static PetscErrorCode TestPays(void)
{
  const PCSide sides[] = {PC_RIGHT, PC_LEFT};
  Mat          A;
  Vec          b, x;

  PetscFunctionBeginUser;
  PetscCall(Load(&A, &b, &x));
  for (PetscInt i = 0; i < 2 * 2 * 3; i++) {
    const PetscInt       s       = i % 2 ? 8 : 4;
    const KSPIDRSRecycle recycle = i / 2 % 2 ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS;
    const char          *what    = KSPIDRSRecycles[recycle];
    PetscInt             matvecs[4];
    KSPIDRSRecycle       got;
    KSP                  ksp;

    PetscCall(RecyclerCreate(A, s, PCJACOBI, recycle, &ksp));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 5000));
    if (i >= 4) PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
    if (i >= 8) {
      PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_FALSE));
      PetscCall(KSPSetPCSide(ksp, sides[1]));
      PetscCall(KSPSetTolerances(ksp, 1e-3 * rtol, 0.0, PETSC_DEFAULT, 5000)); /* of the preconditioned residual */
    }
    GetSetting(ksp, recycle, &got);
    PetscCall(ComplainIf(got != recycle, "recycle is %d, not %d", (int)got, (int)recycle));
    for (PetscInt j = 0; j < 4; j++) {
      PetscCall(VecSetGeneral(b, 1.0 + 0.3 * (j % 3)));
      if (j == 3) PetscCall(KSPIDRSResetRecycle(ksp));
      PetscCall(SolveAndCount(what, ksp, A, b, x, &matvecs[j]));
      PetscCall(CheckRecycled(what, ksp, j % 3 ? 1 : 0, j % 3 ? 0 : 1));
    }
    PetscCall(ComplainIf(!(matvecs[1] <= 0.7 * matvecs[0]) || !(matvecs[2] <= 0.7 * matvecs[0]),
                         "%s, s = %" INT ", case %" INT ": %" INT " and %" INT " matvecs after %" INT, what, s, i, matvecs[1],
                         matvecs[2], matvecs[0]));
    PetscCall(
      ComplainIf(matvecs[3] != matvecs[0], "%s: %" INT " matvecs instead of %" INT " after a reset", what, matvecs[3], matvecs[0]));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The bases are consistent for any end of a solve */
static PetscErrorCode TestInvariants(void)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  Mat               A;
  Vec               b, x;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  PetscCall(Look(A));
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      for (PetscInt limit = 1; limit <= 4 * sizes[is] + 5; limit++) {
        char      what[64];
        PetscReal number;
        PetscInt  inflight;
        KSP       ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "s = %d, %s, max_it %d", (int)sizes[is], pctypes[ipc], (int)limit));
        PetscCall(RecyclerCreate(A, sizes[is], pctypes[ipc], KSP_IDRS_RECYCLE_ALWAYS, &ksp));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, limit));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
        PetscCall(Look(A));
        PetscCall(SolveSystem(what, ksp, A, b, x)); /* from the end at max_it; without bases if it was in the start */
        PetscCall(ViewNumbers((PetscObject)ksp, "the last solve ended while steps were in flight", 1, &number, &inflight));
        PetscCall(ComplainIf(inflight && !original->device, "%s: steps in flight without a device", what));
        PetscCall(CheckRecycled(what, ksp, limit > sizes[is] && !inflight, limit <= sizes[is] || inflight));
        PetscCall(VecSetGeneral(b, 1.0 + 0.01 * (PetscReal)limit));
        PetscCall(KSPSetTolerances(ksp, rtol * PetscPowReal(1.3, (PetscReal)limit), 0.0, PETSC_DEFAULT, 1000));
        PetscCall(KSPSolve(ksp, b, x)); /* from the end at the tolerance */
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckRecycled(what, ksp, 1, 0));
        PetscCall(CheckSeen(what, limit > sizes[is] && !inflight ? 3 : 2, 1e-9));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(Look(NULL));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A user's MatMult(), whose matrix is exchanged without notice */
static Mat *multiplied;

static PetscErrorCode UserMult(Mat A, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(MatMult(*multiplied, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetRow(Mat A, PetscInt row, PetscScalar value)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  if (begin <= row && row < end) PetscCall(MatSetValue(A, row, row, value, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Changes between two solves, all of which begin with data of the previous one; the number of solves that compute G = A U again */
typedef enum {
  CHANGE_NOTHING,
  CHANGE_VALUES,
  CHANGE_SCALE,
  CHANGE_MATRIX,
  CHANGE_SHELL,
  CHANGE_HIDDEN,
  CHANGE_MULT,
  CHANGE_PC,
  CHANGE_SIDE,
  CHANGE_LEFT_PC,
  CHANGE_HUGE, /* a row so large that all G_k are parallel */
  CHANGES
} Change;
static const struct {
  const char *name;
  PetscInt    again;
} changes[] = {
  {"nothing",                        0},
  {"MatSetValues()",                 1},
  {"MatScale()",                     1},
  {"KSPSetOperators()",              1},
  {"a shell",                        3},
  {"a hidden change",                3},
  {"a MatMult() of the user",        3},
  {"the preconditioner",             0},
  {"its side",                       3},
  {"the preconditioner on the left", 3},
  {"a huge row",                     1}
};

static PetscErrorCode TestChanges(void)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < CHANGES * 2 * 2; i++) {
    const Change         change  = (Change)(i % CHANGES);
    const PetscInt       s       = i / CHANGES % 2 ? 8 : 3;
    const KSPIDRSRecycle recycle = i / CHANGES / 2 ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS;
    const char          *name    = changes[change].name;
    Failing              hidden  = {NULL, 0, 0};
    Mat                  A, other, shell, user, now;
    Vec                  b, x;
    KSP                  ksp;
    PC                   pc;
    PetscReal            again;
    PetscInt             lines;

    PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
    PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 16, 0.6, 0.5, &other));
    hidden.A = A;
    PetscCall(Look(A));
    PetscCall(ShellCreate(A, FailingMult, &hidden, &shell));
    PetscCall(RecyclerCreate(A, s, PCJACOBI, recycle, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    multiplied = &hidden.A;
    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &user));
    PetscCall(MatSetOperation(user, MATOP_MULT, (void (*)(void))UserMult));
    if (change == CHANGE_HIDDEN) PetscCall(KSPSetOperators(ksp, shell, A));
    if (change == CHANGE_MULT) PetscCall(KSPSetOperators(ksp, user, A));
    if (change == CHANGE_LEFT_PC) {
      PetscCall(KSPSetPCSide(ksp, PC_LEFT));
      PetscCall(KSPSetTolerances(ksp, 1e-2 * rtol, 0.0, PETSC_DEFAULT, 1000));
    }
    PetscCall(SolveSystem(name, ksp, A, b, x));
    if (change == CHANGE_VALUES) PetscCall(SetRow(A, 5, 5.0));
    if (change == CHANGE_HUGE) PetscCall(SetRow(A, 7, 1e13));
    if (change == CHANGE_SCALE) PetscCall(MatScale(A, 1.5));
    if (change == CHANGE_MATRIX) PetscCall(KSPSetOperators(ksp, other, other));
    if (change == CHANGE_SHELL) PetscCall(KSPSetOperators(ksp, shell, A));
    if (change == CHANGE_HIDDEN || change == CHANGE_MULT) hidden.A = other;
    if (change == CHANGE_PC) PetscCall(PCSetType(pc, PCNONE));
    if (change == CHANGE_LEFT_PC) PetscCall(PCSetType(pc, PCBJACOBI));
    if (change == CHANGE_SIDE) {
      PetscCall(KSPSetPCSide(ksp, PC_LEFT));
      PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
      PetscCall(KSPSetTolerances(ksp, 1e-2 * rtol, 0.0, PETSC_DEFAULT, 1000));
    }
    now = change == CHANGE_MATRIX ? other : hidden.A;
    PetscCall(VecSetGeneral(b, 1.3));
    /* on the left G = B^{-1} A U */
    seen.A = change == CHANGE_SIDE || change == CHANGE_LEFT_PC ? NULL : now;
    for (PetscInt j = 0; j < 3; j++) {
      PetscCall(SolveSystem(name, ksp, now, b, x));
      if (recycle == KSP_IDRS_RECYCLE_AUTO) continue;
      PetscCall(CheckRecycled(name, ksp, 1, 0));
      /* G = A U is computed again in the first solve after a detected change, and in all solves if changes cannot be detected */
      PetscCall(ViewNumbers((PetscObject)ksp, "right-hand sides began with bases, ", 1, &again, &lines));
      PetscCall(ComplainIf(again != (changes[change].again > j), "%s, solve %" INT ": G = A U %g times", name, j, (double)again));
    }
    if (seen.A) PetscCall(CheckSeen(name, recycle == KSP_IDRS_RECYCLE_AUTO ? 0 : change == CHANGE_HUGE ? 2 : 3, 1e-10));
    PetscCall(Look(NULL));
    PetscCall(DestroyAll(&ksp, &user, &shell, &other, &A, &b, &x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Bases of another operator, without notice to the safeguard: the solve drops them, and recycling pauses */
static PetscErrorCode TestDrop(void)
{
  PetscInt matvecs[3], plain;
  Mat      A, T[2], shell;
  Failing  hidden = {NULL, 0, 0};
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(Load(&A, &b, &x));
  for (int i = 0; i < 2; i++) {
    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &T[i]));
    PetscCall(VecSetGeneral(x, 0.6 + 2.3 * i));
    PetscCall(VecRealPart(x));
    PetscCall(VecScale(x, 1.5 + 0.6 * i));
    PetscCall(VecExp(x));
    PetscCall(MatDiagonalScale(T[i], NULL, x)); /* slower convergence with the diagonal of A as preconditioner */
  }
  PetscCall(ShellCreate(A, FailingMult, &hidden, &shell));
  for (size_t is = 1; is < SIZES; is++) {
    hidden.A = A;
    PetscCall(RecyclerCreate(A, sizes[is], PCJACOBI, KSP_IDRS_RECYCLE_AUTO, &ksp));
    PetscCall(KSPSetOperators(ksp, shell, A));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 20000));
    for (PetscInt j = 0; j < 3; j++) {
      PetscCall(VecSetGeneral(b, 1.0 + 0.3 * j));
      if (j == 2) hidden.A = T[0];
      PetscCall(SolveAndCount("to be dropped", ksp, hidden.A, b, x, &matvecs[j]));
      PetscCall(CheckView(ksp, "began again without bases", j / 2));
    }
    PetscCall(SolveAndCount("in the pause", ksp, hidden.A, b, x, &plain));
    PetscCall(ComplainIf(!(matvecs[2] <= 1.8 * plain), "%" INT " matvecs with bases of another operator, %" INT " without",
                         matvecs[2], plain));
    PetscCall(CheckView(ksp, "began without bases: it was of no use lately", 1));
    for (PetscInt j = 1; j < 10; j++) PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckView(ksp, "began without bases: it was of no use lately", 1));
    hidden.A = T[1];
    PetscCall(SolveSystem("another failure", ksp, hidden.A, b, x)); /* it drops its bases, or needs too many iterations */
    PetscCall(CheckRecycled("another failure", ksp, 1, 0));
    hidden.A = T[0]; /* the pause does not depend on changes */
    for (PetscInt j = 0; j < 20; j++) PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckView(ksp, "began without bases: it was of no use lately", 1));
    PetscCall(SolveSystem("after the longer pause", ksp, hidden.A, b, x));
    PetscCall(CheckView(ksp, "it was of no use lately", 0));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&shell, &T[0], &T[1], &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the norm of each iteration is the norm of b - A x */
static PetscErrorCode CheckNorm(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscReal norm, first = *(PetscReal *)ctx;
  Vec       r;

  PetscFunctionBeginUser;
  PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
  PetscCall(VecNorm(r, NORM_2, &norm));
  PetscCall(VecDestroy(&r));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - rnorm) <= 1e-9 * first), "iteration %" INT ": ||b - A x|| = %g, reported %g", its,
                       (double)norm, (double)rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If bases let ||r|| grow, it stays below the divergence tolerance, also with an operator that changes in each solve: then the
   start with U has ended when they are dropped. Solves without recycling discard bases
*/
static PetscErrorCode TestLimits(void)
{
  PetscInt  refused[2] = {0, 0};
  PetscReal bnorm;
  Mat       A;
  Vec       b, x;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  for (size_t is = 1; is < SIZES; is++) {
    for (int i = 0; i < 2 * 5; i++) {
      const PetscReal divtol = PetscPowReal(10.0, 4 + i / 2);
      PetscReal       growth, number;
      PetscInt        lines, limited;

      PetscCall(RecyclerCreate(A, sizes[is], PCJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, divtol, 1000));
      PetscCall(KSPMonitorSet(ksp, CheckNorm, &bnorm, NULL));
      for (int j = 0; j < 4; j++) {
        if (i % 2) PetscCall(MatScale(A, 1.0 + 0.01 * j));
        PetscCall(VecSetGeneral(b, 1.0 + 0.2 * j));
        PetscCall(VecNorm(b, NORM_2, &bnorm));
        PetscCall(SolveSystem("near divergence", ksp, A, b, x));
        PetscCall(ViewNumbers((PetscObject)ksp, i % 2 ? "began again without bases" : "would come near the tolerance", 1, &number,
                              &limited));
        refused[i % 2] += limited;
        PetscCall(ViewNumbers((PetscObject)ksp, "they changed ||r|| by a factor of at most ", 1, &growth, &lines));
        PetscCall(ComplainIf(lines && !(growth <= 1.01e-3 * divtol), "||r|| has grown by %g, with a limit of %g", (double)growth,
                             (double)divtol));
      }
      if (lines) {
        PetscCall(KSPIDRSSetRecycle(ksp, KSP_IDRS_RECYCLE_NEVER));
        PetscCall(SolveSystem("never", ksp, A, b, x));
        PetscCall(KSPIDRSSetRecycle(ksp, KSP_IDRS_RECYCLE_ALWAYS));
        PetscCall(SolveSystem("always again", ksp, A, b, x));
        PetscCall(CheckView(ksp, "began without bases: no solve has left bases", 1));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  for (int i = 0; i < 2; i++) PetscCall(ComplainIf(!refused[i], "no bases came near the tolerance of divergence, case %d", i));
  PetscCall(DestroyAll(&A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Convection and diffusion in three dimensions, where recycling costs matvecs */
static PetscScalar Space(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt  m = 12, d = j - i;
  const PetscReal wind = 0.8;

  if (!d) return 6.05;
  if (d == 1 && j % m) return -1.0 + wind;
  if (d == -1 && i % m) return -1.0 - wind;
  if (d == m && j / m % m) return -1.0 + 0.5 * wind;
  if (d == -m && i / m % m) return -1.0 - 0.5 * wind;
  return d == m * m || d == -m * m ? -1.0 : 0.0;
}

/* A monitor that changes the setting */
static PetscErrorCode SetInside(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscFunctionBeginUser;
  if (its == 3) CheckRefused(KSPIDRSSetRecycle(ksp, KSP_IDRS_RECYCLE_NEVER), "KSPIDRSSetRecycle()", "inside KSPSolve()");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Decisions of the safeguard before a solve, and states of vectors and matrices that differ between processes */
static PetscErrorCode TestDecisions(void)
{
  PetscMPIInt  rank;
  PetscScalar *array;
  Mat          A, C;
  Vec          b, x, c, y, P[4];
  KSP          ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(Load(&A, &b, &x));
  /* a small max_it; an operator that changes in each of 18 solves */
  PetscCall(RecyclerCreate(A, 8, PCJACOBI, KSP_IDRS_RECYCLE_AUTO, &ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 5000));
  for (PetscInt j = 0; j < 18; j++) {
    PetscCall(VecSetGeneral(b, 1.0 + 0.1 * j));
    PetscCall(SolveSystem("a row", ksp, A, b, x));
    PetscCall(CheckRecycled("a row", ksp, j % 17 ? 1 : 0, j % 17 ? 0 : 1));
    PetscCall(MatScale(A, 1.001));
  }
  PetscCall(CheckView(ksp, "began without bases: the operator changes, and the record is old", 1));
  PetscCall(KSPMonitorSet(ksp, SetInside, NULL, NULL));
  PetscCall(SolveSystem("a setter inside", ksp, A, b, x));
  PetscCall(KSPMonitorCancel(ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 30));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckView(ksp, "began without bases: the maximum number of iterations is small", 1));
  PetscCall(KSPDestroy(&ksp));
  /* few iterations for this s, and no plateau */
  PetscCall(SystemCreateEntries(Space, 12 * 12 * 12, RHS_GENERAL, &C, &c, &y));
  for (int i = 0; i < 2; i++) {
    if (i) PetscCall(MatShift(C, 3.0));
    PetscCall(RecyclerCreate(C, i ? 2 : 16, PCJACOBI, KSP_IDRS_RECYCLE_AUTO, &ksp));
    for (int j = 0; j < 2; j++) PetscCall(SolveSystem("for another record", ksp, C, c, y));
    PetscCall(CheckView(ksp,
                        i ? "began without bases: the last solve without recycling had no plateau"
                          : "began without bases: the last solve without recycling was short",
                        1));
    if (!i) PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&ksp, &C, &c, &y));
  /* without norms */
  PetscCall(GridSystemCreate(16, 0.8, &C, &c, &y));
  for (int i = 0; i < 2; i++) {
    PetscCall(SolverCreateLimited(C, 4, PC_RIGHT, KSP_NORM_NONE, 120, PCJACOBI, &ksp));
    PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
    PetscCall(KSPIDRSSetRecycle(ksp, i ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS));
    for (PetscInt j = 0; j < 3; j++) PetscCall(SolveSystem("without norms", ksp, C, c, y));
    PetscCall(CheckRecycled("without norms", ksp, 1 - i, i));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&C, &c, &y));
  /* only the first process gets the array of a shadow vector, so the state grows only there */
  PetscCall(DuplicateAll(b, &P[0], &P[1], &P[2], &P[3]));
  for (PetscInt i = 0; i < 4; i++) PetscCall(VecSetGeneral(P[i], 0.7 + 0.2 * i));
  PetscCall(RecyclerCreate(A, 4, PCJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 5000));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 4, P));
  for (int j = 0; j < 2; j++) {
    PetscCall(SolveSystem("states that differ", ksp, A, b, x));
    PetscCall(CheckRecycled("states that differ", ksp, 0, 1));
    if (!rank) PetscCall(VecGetArray(P[1], &array));
    if (!rank) PetscCall(VecRestoreArray(P[1], &array));
  }
  PetscCall(DestroyAll(&ksp, &P[0], &P[1], &P[2], &P[3], &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Another shadow space, s or size is a reason to begin without bases. So is KSPReset() */
static PetscErrorCode TestKeys(void)
{
  Mat A, C;
  Vec b, x, c, y, P[3];
  KSP ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  PetscCall(GridSystemCreate(9, 0.8, &C, &c, &y));
  PetscCall(DuplicateAll(b, &P[0], &P[1], &P[2]));
  for (PetscInt i = 0; i < 3; i++) PetscCall(VecSetGeneral(P[i], 0.7 + 0.2 * i));
  PetscCall(RecyclerCreate(A, 4, PCJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
  for (PetscInt i = 0; i < 8; i++) {
    if (i == 1) PetscCall(KSPIDRSSetShadowSeed(ksp, 5));
    if (i == 2) PetscCall(KSPIDRSSetShadowSize(ksp, 3));
    if (i == 3) PetscCall(KSPIDRSSetShadowVecs(ksp, 3, P));
    if (i == 4) PetscCall(VecSetGeneral(P[1], 2.2));
    if (i == 5) PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
    if (i >= 6) PetscCall(ResetWith(ksp, i == 7 ? C : A));
    for (PetscInt j = 0; j < 2; j++) {
      PetscCall(SolveSystem("another key", ksp, i == 7 ? C : A, i == 7 ? c : b, i == 7 ? y : x));
      PetscCall(CheckRecycled("another key", ksp, j, 1 - j));
    }
  }
  PetscCall(DestroyAll(&ksp, &P[0], &P[1], &P[2], &A, &b, &x, &C, &c, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The bases are kept by solves that end at once, with a NaN in b or in their start. A solve that fails because of its operator,
   0, NaN or tiny, keeps none
*/
static PetscErrorCode TestEnds(void)
{
  const char *const ends[]   = {"b = 0",           "an exact guess",     "a NaN in b",     "an end in the start",
                                "a zero operator", "an operator of NaN", "a tiny operator"};
  const PetscScalar values[] = {0.0, (PetscReal)NAN, 1e-290};
  Failing           operator= { NULL, 0, 0 };
  Mat               A, Z, S;
  Vec               b, x, bad;
  KSP               ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  PetscCall(VecDuplicate(b, &bad));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &Z));
  PetscCall(ShellCreate(A, FailingMult, &operator, & S));
  for (PetscInt i = 0; i < 2 * (PetscInt)PETSC_STATIC_ARRAY_LENGTH(ends); i++) {
    const PetscInt       end     = i / 2;
    const PetscBool      fails   = (PetscBool)(end >= 4);
    const KSPIDRSRecycle recycle = i % 2 ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS;
    KSPConvergedReason   reason;

    PetscCall(RecyclerCreate(A, 4, PCJACOBI, recycle, &ksp));
    if (fails) PetscCall(KSPSetOperators(ksp, S, A));
    operator.A = A;
    PetscCall(VecSetGeneral(b, 1.0));
    for (int j = 0; j < 2; j++) PetscCall(SolveSystem("before the end", ksp, A, b, x));
    if (fails) {
      PetscCall(MatScale(Z, 0.0));
      PetscCall(MatShift(Z, values[end - 4]));
      operator.A = Z;
    }
    PetscCall(VecSet(bad, end == 2 ? (PetscScalar)(PetscReal)NAN : 0.0));
    PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)(end == 1)));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, end == 3 ? 1 : 1000));
    PetscCall(KSPSolve(ksp, end == 0 || end == 2 ? bad : b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ComplainIf(end == 2 ? reason != KSP_DIVERGED_NANORINF : fails && reason > 0, "%s: %s", ends[end],
                         KSPConvergedReasons[reason]));
    operator.A = A;
    PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_FALSE));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
    PetscCall(VecSetGeneral(b, 1.7));
    for (int j = 0; j < 2; j++) {
      PetscCall(SolveSystem(ends[end], ksp, A, b, x));
      if (fails && !j) PetscCall(CheckView(ksp, "began without bases: the last solve", 1));
      else if (recycle == KSP_IDRS_RECYCLE_ALWAYS) PetscCall(CheckRecycled(ends[end], ksp, 1, 0));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&bad, &b, &x, &S, &Z, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* After an error in the start, in a cycle, or in verification the next solve begins without bases */
static PetscErrorCode TestErrors(void)
{
  Mat     A, shell;
  Vec     b, x;
  KSP     ksp;
  Failing failing = {NULL, 0, 0};

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  failing.A = A;
  PetscCall(ShellCreate(A, FailingMult, &failing, &shell));
  for (PetscInt at = 1; at < 24; at += 2) {
    PetscCall(RecyclerCreate(A, 4, PCJACOBI, at % 4 == 1 ? KSP_IDRS_RECYCLE_ALWAYS : KSP_IDRS_RECYCLE_AUTO, &ksp));
    PetscCall(KSPSetOperators(ksp, shell, A));
    PetscCall(SolveSystem("before an error", ksp, A, b, x));
    failing.failat = failing.made + at;
    CheckRefused(KSPSolve(ksp, b, x), "This product", "fails");
    PetscCall(Unlock(b));
    PetscCall(KSPReset(ksp));
    PetscCall(KSPSetOperators(ksp, shell, A));
    PetscCall(SolveSystem("after an error", ksp, A, b, x));
    PetscCall(CheckRecycled("after an error", ksp, 0, 1));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&shell, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A and its transpose in turn have separate bases */
static PetscErrorCode TestTransposes(void)
{
  Mat A, T;
  Vec b, x;
  KSP ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(20, 0.8, &A, &b, &x));
  PetscCall(MatTranspose(A, MAT_INITIAL_MATRIX, &T));
  PetscCall(Look(A));
  for (size_t is = 0; is < SIZES; is++) {
    PetscCall(RecyclerCreate(A, sizes[is], PCJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
    for (PetscInt i = 0; i < 12; i++) {
      const PetscBool transposed = (PetscBool)(i % 3 == 1);

      PetscCall(VecSetGeneral(b, 1.0 + 0.1 * i));
      PetscCall(Look(transposed ? T : A));
      if (i == 9) PetscCall(KSPIDRSResetRecycle(ksp));
      if (transposed) PetscCall(KSPSolveTranspose(ksp, b, x));
      else PetscCall(KSPSolve(ksp, b, x));
      PetscCall(CheckSolved("in turn", ksp, transposed ? T : A, b, x));
      PetscCall(CheckRecycled("in turn", ksp, i % 9 > 1, i % 9 <= 1));
      PetscCall(CheckSeen("in turn", i % 9 > 1, 1e-10));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(Look(NULL));
  PetscCall(DestroyAll(&T, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPMatSolve(): each right-hand side begins with the bases of its slot. Block recurrences do not recycle */
static PetscErrorCode TestColumns(void)
{
  const PetscInt columns = 9;
  Mat            A, B, X;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  PetscCall(BlocksCreate(A, columns, BLOCK_RANDOM, &B, &X));
  for (PetscInt kind = 0; kind < BLOCKS; kind++) {
    PetscCall(BlockSet(A, (BlockKind)kind, B));
    PetscCall(Look(A));
    PetscCall(RecyclerCreate(A, 4, kind % 2 ? PCJACOBI : PCBJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
    PetscCall(KSPIDRSSetWidth_Private(ksp, 3));
    for (PetscInt j = 0; j < 3; j++) {
      if (j == 2) PetscCall(MatShift(A, 0.1));
      PetscCall(SolveAllColumns(BlockKinds[kind], ksp, A, B, X, PETSC_TRUE));
      PetscCall(CheckRecycled(BlockKinds[kind], ksp, 1, j ? 0 : 1));
    }
    PetscCall(CheckSeen(BlockKinds[kind], 12, 1e-10));
    PetscCall(SolveSystem("one after many", ksp, A, b, x));
    PetscCall(CheckRecycled("one after many", ksp, 1, 0));
    PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
    PetscCall(SolveAllColumns("block recurrence", ksp, A, B, X, PETSC_TRUE));
    PetscCall(CheckView(ksp, "began without bases: block recurrences", 1));
    PetscCall(SolveSystem("one after a block", ksp, A, b, x));
    PetscCall(CheckRecycled("one after a block", ksp, 0, 1));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(Look(NULL));
  PetscCall(DestroyAll(&B, &X, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Bases stay accurate in long sequences: the last ones have as many digits as the first ones. A single G of the 900 can differ much
   more from A U: other right-hand sides gave 1e-11 to 2e-8
*/
static PetscErrorCode TestRow(void)
{
  const PetscInt solves = 300;
  PetscInt       matvecs, early = 0, late = 0;
  PetscReal      before, first, last;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(16, 0.8, &A, &b, &x));
  PetscCall(Look(A));
  for (PetscInt way = 0; way < 3; way++) {
    PetscCall(RecyclerCreate(A, way == 1 ? 8 : 4, way == 2 ? PCBJACOBI : PCJACOBI, KSP_IDRS_RECYCLE_ALWAYS, &ksp));
    early = late = 0;
    first = last = 0.0;
    for (PetscInt i = 0; i < solves; i++) {
      before = seen.digits;
      PetscCall(VecSetGeneral(b, 1.0 + 0.013 * i));
      PetscCall(SolveAndCount("in a row", ksp, A, b, x, &matvecs));
      if (i >= 1 && i < 21) {
        early += matvecs;
        first += (seen.digits - before) / 20;
      }
      if (i >= solves - 20) {
        late += matvecs;
        last += (seen.digits - before) / 20;
      }
    }
    PetscCall(ComplainIf(!(late <= 1.2 * early), "%" INT " matvecs in the first 20 solves, %" INT " in the last", early, late));
    PetscCall(
      ComplainIf(!(last >= first - 1.0), "G = A U to %g digits in the mean of the first 20 solves, %g of the last", first, last));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(CheckSeen("in a row", 3 * (solves - 1), 1e-6));
  PetscCall(ComplainIf(!(seen.triangular <= 1e-9), "in a row: P^H G - M is %g |P| |G|", (double)seen.triangular));
  PetscCall(Look(NULL));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On this system twelve solves with the safeguard cost at most 1.1 times the matvecs without recycling */
static PetscErrorCode TestGuard(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Space, 12 * 12 * 12, RHS_GENERAL, &A, &b, &x));
  for (PetscInt i = 0; i < 2 * 2; i++) {
    PetscInt total[2] = {0, 0}, matvecs;

    for (int way = 0; way < 2; way++) {
      KSP ksp;

      PetscCall(RecyclerCreate(A, i % 2 ? 8 : 4, PCJACOBI, way ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_NEVER, &ksp));
      for (PetscInt j = 0; j < 12; j++) {
        PetscCall(VecSetGeneral(b, 1.0 + 0.1 * j));
        if (i / 2) PetscCall(MatScale(A, j % 2 ? 1.01 : 1.0 / 1.01));
        PetscCall(SolveAndCount("guarded", ksp, A, b, x, &matvecs));
        total[way] += matvecs;
      }
      PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(ComplainIf(!(total[1] <= 1.1 * total[0]),
                         "case %" INT ": %" INT " matvecs with the safeguard, %" INT " without recycling", i, total[1], total[0]));
  }
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestPays, "matvecs saved"}, {TestInvariants, "bases"}, {TestChanges, "changes between solves"},
          {TestDrop, "bases that are dropped"}, {TestLimits, "limits of growth"}, {TestDecisions, "decisions before a solve"},
          {TestKeys, "shadow spaces and sizes"}, {TestEnds, "ends of solves"}, {TestErrors, "errors in a solve"},
          {TestTransposes, "transposes in turn"}, {TestColumns, "several right-hand sides"}, {TestRow, "300 solves in a row"},
          {TestGuard, "the safeguard"})

/*TEST

  # the iterations and savings presume double precision
  test:
    suffix: 1
    requires: double
    nsize: {{1 3}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/stommel4.mtx.gz

TEST*/
