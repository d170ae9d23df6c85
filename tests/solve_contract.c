static char help[] = "The contract of a KSP: limits, norms, guesses and tests have the same effect with idrs as with gmres.\n\n";

#include <petscidrs.h>
#include "harness.h"
#include "systems.h"

/* Results of a solve */
typedef struct {
  KSPConvergedReason reason;
  PetscInt           its, entries;
  PetscReal          rnorm, first;
} Outcome;

/* Options of every KSP; its: there are as many iterations as with gmres */
static const struct {
  const char *option, *value;
  PetscInt    max_it;
  PetscBool   its;
} options[] = {
  {NULL,                                                NULL,   200, PETSC_FALSE},
  {"-contract_ksp_max_it",                              "0",    200, PETSC_TRUE },
  {"-contract_ksp_max_it",                              "1",    200, PETSC_TRUE },
  {"-contract_ksp_max_it",                              "7",    200, PETSC_TRUE },
#if PETSC_VERSION_GE(3, 20, 0)
  {"-contract_ksp_min_it",                              "60",   200, PETSC_TRUE },
#endif
  {"-contract_ksp_check_norm_iteration",                "50",   200, PETSC_TRUE },
  {"-contract_ksp_rtol",                                "0.5",  200, PETSC_FALSE},
  {"-contract_ksp_atol",                                "1e30", 200, PETSC_TRUE },
  {"-contract_ksp_divtol",                              "1e-3", 200, PETSC_TRUE },
  {"-contract_ksp_convergence_test",                    "skip", 20,  PETSC_TRUE },
  {"-contract_ksp_norm_type",                           "none", 20,  PETSC_TRUE },
  {"-contract_ksp_initial_guess_knoll",                 "true", 200, PETSC_FALSE},
  {"-contract_ksp_converged_use_initial_residual_norm", "true", 200, PETSC_FALSE},
  {"-contract_ksp_converged_maxits",                    "true", 200, PETSC_FALSE},
};

static PetscErrorCode Solve(KSPType type, Mat A, Vec b, Vec x, size_t which, PetscBool guess, Outcome *outcome)
{
  const char      *option = options[which].option;
  const PetscReal *history;
  KSP              ksp;
  PC               pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOptionsPrefix(ksp, "contract_"));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, type));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, options[which].max_it));
  if (option) PetscCall(PetscOptionsSetValue(NULL, option, options[which].value));
  PetscCall(KSPSetFromOptions(ksp));
  if (option) PetscCall(PetscOptionsClearValue(NULL, option));
  PetscCall(KSPSetResidualHistory(ksp, NULL, 1000, PETSC_TRUE));
  if (guess) PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &outcome->reason));
  PetscCall(KSPGetIterationNumber(ksp, &outcome->its));
  PetscCall(KSPGetResidualNorm(ksp, &outcome->rnorm));
  PetscCall(KSPGetResidualHistory(ksp, &history, &outcome->entries));
  outcome->first = outcome->entries ? history[0] : 0.0;
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Guesses: zero, another one, and the solution */
static PetscErrorCode TestOptions(Mat A, Vec b, Vec x)
{
  Outcome gmres, idrs;
  Vec     solution;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(x, &solution));
  PetscCall(Solve(KSPGMRES, A, b, solution, 0, PETSC_FALSE, &gmres));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(options); i++) {
    const char *option = options[i].option ? options[i].option : "no option";

    for (PetscInt guess = 0; guess < 3; guess++) {
      char what[128];

      if (guess && strstr(option, "knoll")) continue;
      if (guess == 2 && strstr(option, "initial_residual")) continue; /* 1e-8 of its residual is below the attainable accuracy */
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s %s, guess %" INT, option, options[i].value ? options[i].value : "", guess));
      PetscCall(VecSet(x, 0.7));
      if (guess == 2) PetscCall(VecCopy(solution, x));
      PetscCall(Solve(KSPGMRES, A, b, x, i, (PetscBool)(guess > 0), &gmres));
      PetscCall(VecSet(x, 0.7));
      if (guess == 2) PetscCall(VecCopy(solution, x));
      PetscCall(Solve(KSPIDRS, A, b, x, i, (PetscBool)(guess > 0), &idrs));
      PetscCall(ComplainIf(idrs.reason != gmres.reason, "%s: %s, gmres %s", what, KSPConvergedReasons[idrs.reason],
                           KSPConvergedReasons[gmres.reason]));
      PetscCall(
        ComplainIf(options[i].its && idrs.its != gmres.its, "%s: %" INT " iterations, gmres %" INT, what, idrs.its, gmres.its));
      PetscCall(
        ComplainIf(idrs.entries != idrs.its + 1, "%s: %" INT " norms for %" INT " iterations", what, idrs.entries, idrs.its));
      PetscCall(
        ComplainIf(strcmp(option, "-contract_ksp_norm_type") && !(PetscAbsReal(idrs.first - gmres.first) <= 1e-6 * gmres.first),
                   "%s: the first norm is %g, of gmres %g", what, (double)idrs.first, (double)gmres.first));
    }
  }
  PetscCall(VecDestroy(&solution));
  PetscCall(Verdict("options of every KSP"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A solver that must not set the options of its preconditioner does not set them */
static PetscErrorCode TestSkipPC(Mat A)
{
  const KSPType types[] = {KSPGMRES, KSPIDRS};
  PetscBool     jacobi;
  KSP           ksp;
  PC            pc;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsSetValue(NULL, "-contract_pc_type", PCNONE));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(types); i++) {
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOptionsPrefix(ksp, "contract_"));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetType(ksp, types[i]));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCJACOBI));
    PetscCall(KSPSetSkipPCSetFromOptions(ksp, PETSC_TRUE));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPSetUp(ksp));
    PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCJACOBI, &jacobi));
    PetscCall(ComplainIf(!jacobi, "%s: the preconditioner has taken its options", types[i]));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(PetscOptionsClearValue(NULL, "-contract_pc_type"));
  PetscCall(Verdict("options of the preconditioner"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(GridSystemCreate(12, 0.8, &A, &b, &x));
  PetscCall(TestOptions(A, b, x));
  PetscCall(TestSkipPC(A));
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # 1e-8 is below the attainable accuracy of single precision
  test:
    suffix: 1
    nsize: {{1 2}}
    requires: double

TEST*/
