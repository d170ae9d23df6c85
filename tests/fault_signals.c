static char help[] = "Signals that repeatedly interrupt solves of KSPIDRS, PCBJIDRS and MATSOLVERPETSCIDRS, also during kernels:\n\
the solutions have the same bits.\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for sigaction() */
#include <petscidrs.h>
#include "systems.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t interrupts = 0;

static void Interrupt(int number)
{
  (void)number;
  interrupts++;
}

/* Sends a signal after each interval of this length, or ends the signals if it is 0; interrupted system calls are not restarted */
static PetscErrorCode SetTimer(int microseconds)
{
  const struct itimerval timer = {
    .it_interval = {0, microseconds},
      .it_value = {0, microseconds}
  };
  struct sigaction action = {.sa_handler = Interrupt};

  PetscFunctionBeginUser;
  PetscCheck(!sigaction(SIGALRM, &action, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "sigaction()");
  PetscCheck(!setitimer(ITIMER_REAL, &timer, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "setitimer()");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves during some hundred signals, and compares with a solve without signals */
static PetscErrorCode TestSolver(const char pctype[], KSP ksp, Mat A, Vec b)
{
  const PetscInt enough = 300;
  PetscErrorCode ierr   = PETSC_SUCCESS;
  PetscBool      equal  = PETSC_TRUE;
  PetscInt       solves = 0;
  Vec            x, first;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(b, &x, &first));
  PetscCall(SolveSystem(pctype, ksp, A, b, first));
  interrupts = 0;
  PetscCall(SetTimer(500));
  for (; !ierr && equal && interrupts < enough && solves < 100000; solves++) {
    ierr = KSPSolve(ksp, b, x);
    if (!ierr) ierr = VecEqual(x, first, &equal);
  }
  PetscCall(SetTimer(0));
  PetscCall(ierr);
  PetscCall(ComplainIf(!equal, "%s: another solution in solve %" INT ", with %d interrupts", pctype, solves, (int)interrupts));
  PetscCall(ComplainIf(equal && interrupts < enough, "%s: %d interrupts in %" INT " solves", pctype, (int)interrupts, solves));
  PetscCall(DestroyAll(&first, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCILU, PCBJIDRS};
  Mat               A;
  Vec               b;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 40, 0.4, LAYOUT_EVEN, &A, &b));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(pctypes); i++) {
    PetscBool factors, blocks;
    KSP       ksp;
    PC        pc;

    PetscCall(SolverCreate(A, 4, pctypes[i], &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PetscStrcmp(pctypes[i], PCILU, &factors));
    PetscCall(PetscStrcmp(pctypes[i], PCBJIDRS, &blocks));
    if (factors) PetscCall(PCFactorSetMatSolverType(pc, MATSOLVERPETSCIDRS));
    if (blocks) PetscCall(PCBJIDRSSetLocalBlocks(pc, 20, NULL));
    PetscCall(TestSolver(pctypes[i], ksp, A, b));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(Verdict("solves that are interrupted"));
  PetscCall(DestroyAll(&b, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1

TEST*/
