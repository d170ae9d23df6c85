static char
  help[] = "A sequence of nonlinear systems by Newton's method, to compare new factors in each step with the factors of an\n\
older Jacobian. Prints Newton steps, set-ups of the preconditioner, iterations and matvecs of the linear solves, and seconds.\n\
  -f file, -b file   A and f, see linearsystem.h\n\
  -loads 24          number of nonlinear systems\n\
  -size 0.2          factor of f\n\
  -change 0.1        relative change of b from one system to the next, at most\n\
  -refactor k        new factors after a linear solve of more than k iterations, else old factors (default 0: see SNES)\n\
Options select the linear solver and the preconditioner, for example -snes_lag_preconditioner k.\n\n";

/*
   The equations have the structure of power flow in rectangular coordinates, (1 + x_i) (A x)_i = b_i. The right-hand side of load t
   is b_i = size f_i (1 + c cos(2 pi t / loads + 2 pi i / n)), with c = change loads / (2 pi). The Jacobian diag(1 + x) A +
   diag(A x) has the pattern of A. The first load begins at x = 0, the others at the last solution.
*/
#include <petscsnes.h>
#include <petsctime.h>
#include "../tutorials/linearsystem.h"

typedef struct {
  Mat      A;
  Vec      f, b, work;
  SNES     snes;
  PetscInt refactor, before, matvecs, its;
} Newton;

static PetscErrorCode Function(SNES snes, Vec x, Vec F, void *ctx)
{
  Newton *newton = (Newton *)ctx;

  PetscFunctionBeginUser;
  PetscCall(MatMult(newton->A, x, newton->work));
  PetscCall(VecPointwiseMult(F, x, newton->work));
  PetscCall(VecAXPY(F, 1.0, newton->work));
  PetscCall(VecAXPY(F, -1.0, newton->b));
  PetscFunctionReturn(0);
}

static PetscErrorCode Jacobian(SNES snes, Vec x, Mat J, Mat P, void *ctx)
{
  Newton *newton = (Newton *)ctx;

  PetscFunctionBeginUser;
  PetscCall(MatCopy(newton->A, P, SAME_NONZERO_PATTERN));
  PetscCall(VecCopy(x, newton->work));
  PetscCall(VecShift(newton->work, 1.0));
  PetscCall(MatDiagonalScale(P, newton->work, NULL));
  PetscCall(MatMult(newton->A, x, newton->work));
  PetscCall(MatDiagonalSet(P, newton->work, ADD_VALUES));
  PetscFunctionReturn(0);
}

/* Returns how often PETSc has logged an event */
static PetscErrorCode EventCount(const char name[], PetscInt *count)
{
  PetscLogEvent      event;
  PetscEventPerfInfo info;

  PetscFunctionBeginUser;
  PetscCall(PetscLogEventGetId(name, &event));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &info));
  *count = info.count;
  PetscFunctionReturn(0);
}

static PetscErrorCode SolveBegin(KSP ksp, Vec b, Vec x, void *ctx)
{
  return EventCount("MatMult", &((Newton *)ctx)->before);
}

/* Counts matvecs, and asks for new factors of the next Jacobian if the iterations were too many */
static PetscErrorCode SolveEnd(KSP ksp, Vec b, Vec x, void *ctx)
{
  Newton  *newton = (Newton *)ctx;
  PetscInt now, its;

  PetscFunctionBeginUser;
  PetscCall(EventCount("MatMult", &now));
  newton->matvecs += now - newton->before;
  PetscCall(KSPGetIterationNumber(ksp, &its));
  newton->its += its;
  if (newton->refactor) PetscCall(SNESSetLagPreconditioner(newton->snes, its > newton->refactor ? -2 : -1));
  PetscFunctionReturn(0);
}

/* Sets the right-hand side of a load */
static PetscErrorCode SetLoad(Newton *newton, PetscReal angle, PetscReal size, PetscReal c)
{
  PetscInt     begin, end, n;
  PetscScalar *b;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(newton->b, &n));
  PetscCall(VecGetOwnershipRange(newton->b, &begin, &end));
  PetscCall(VecCopy(newton->f, newton->b));
  PetscCall(VecGetArray(newton->b, &b));
  for (PetscInt i = begin; i < end; i++)
    b[i - begin] *= size * (1.0 + c * PetscCosReal(angle + 2.0 * PETSC_PI * (PetscReal)i / (PetscReal)n));
  PetscCall(VecRestoreArray(newton->b, &b));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Newton              newton = {.refactor = 0};
  PetscInt            loads = 24, steps = 0, setups = 0, failed = 0, its;
  PetscReal           size = 0.2, change = 0.1, largest;
  PetscLogDouble      start, end, seconds = 0.0;
  SNESConvergedReason reason;
  PetscBool           usable = PETSC_FALSE;
  Mat                 J;
  Vec                 x, F;
  KSP                 ksp;
  char                heading[3 * PETSC_MAX_PATH_LEN];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin()); /* counts matvecs */
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-loads", &loads, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-refactor", &newton.refactor, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-size", &size, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-change", &change, NULL));
  PetscCall(LinearSystemLoad(PETSC_COMM_WORLD, &newton.A, &newton.f, heading, sizeof(heading), &usable));
  PetscCheck(usable, PETSC_COMM_WORLD, PETSC_ERR_FILE_OPEN, "-f names no matrix that can be read");
  PetscCall(VecDuplicate(newton.f, &x));
  PetscCall(VecDuplicate(newton.f, &F));
  PetscCall(VecDuplicate(newton.f, &newton.b));
  PetscCall(VecDuplicate(newton.f, &newton.work));
  PetscCall(MatDuplicate(newton.A, MAT_DO_NOT_COPY_VALUES, &J));
  PetscCall(SNESCreate(PETSC_COMM_WORLD, &newton.snes));
  PetscCall(SNESSetFunction(newton.snes, F, Function, &newton));
  PetscCall(SNESSetJacobian(newton.snes, J, J, Jacobian, &newton));
  PetscCall(SNESSetLagPreconditionerPersists(newton.snes, PETSC_TRUE));
  PetscCall(SNESGetKSP(newton.snes, &ksp));
  PetscCall(KSPSetPreSolve(ksp, SolveBegin, &newton));
  PetscCall(KSPSetPostSolve(ksp, SolveEnd, &newton));
  PetscCall(SNESSetFromOptions(newton.snes));
  for (PetscInt load = 0; load < loads; load++) {
    PetscCall(
      SetLoad(&newton, 2.0 * PETSC_PI * (PetscReal)load / (PetscReal)loads, size, change * (PetscReal)loads / (2.0 * PETSC_PI)));
    PetscCall(PetscTime(&start));
    PetscCall(SNESSolve(newton.snes, NULL, x));
    PetscCall(PetscTime(&end));
    seconds += end - start;
    PetscCall(SNESGetConvergedReason(newton.snes, &reason));
    PetscCall(SNESGetIterationNumber(newton.snes, &its));
    steps += its;
    if (reason < 0) failed++;
  }
  PetscCall(EventCount("PCSetUp", &setups));
  PetscCall(VecNorm(x, NORM_INFINITY, &largest));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "steps %" PetscInt_FMT ", set-ups %" PetscInt_FMT ", iterations %" PetscInt_FMT ", matvecs %" PetscInt_FMT
                        ", %.2f s, largest |x_i| %.2f, failed %" PetscInt_FMT "\n",
                        steps, setups, newton.its, newton.matvecs, (double)seconds, (double)largest, failed));
  PetscCall(SNESDestroy(&newton.snes));
  PetscCall(MatDestroy(&newton.A));
  PetscCall(MatDestroy(&J));
  PetscCall(VecDestroy(&newton.b));
  PetscCall(VecDestroy(&newton.work));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&newton.f));
  PetscCall(VecDestroy(&F));
  PetscCall(PetscFinalize());
  return 0;
}
