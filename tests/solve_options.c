static char help[] = "PETSc's options for any KSP have the same effect with KSPIDRS as with KSPGMRES: limits, norms, guesses and\n\
tests; monitors and views.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* Options of every KSP; its: there are as many iterations as with gmres */
static const struct {
  const char *option, *value;
  PetscInt    max_it;
  PetscBool   its;
} options[] = {
  {NULL,                                                    NULL,   200, PETSC_FALSE},
  {"-contract_ksp_max_it",                                  "0",    200, PETSC_TRUE },
  {"-contract_ksp_max_it",                                  "1",    200, PETSC_TRUE },
  {"-contract_ksp_max_it",                                  "7",    200, PETSC_TRUE },
#if PETSC_VERSION_GE(3, 20, 0)
  {"-contract_ksp_min_it",                                  "60",   200, PETSC_TRUE },
#endif
  {"-contract_ksp_check_norm_iteration",                    "50",   200, PETSC_TRUE },
  {"-contract_ksp_rtol",                                    "0.5",  200, PETSC_FALSE},
  {"-contract_ksp_atol",                                    "1e30", 200, PETSC_TRUE },
  {"-contract_ksp_divtol",                                  "1e-3", 200, PETSC_TRUE },
  {"-contract_ksp_convergence_test",                        "skip", 20,  PETSC_TRUE },
  {"-contract_ksp_norm_type",                               "none", 20,  PETSC_TRUE },
  {"-contract_ksp_knoll",                                   "true", 200, PETSC_FALSE},
  {"-contract_ksp_converged_use_initial_residual_norm",     "true", 200, PETSC_FALSE},
  {"-contract_ksp_converged_use_min_initial_residual_norm", "true", 200, PETSC_FALSE},
  {"-contract_ksp_lag_norm",                                "true", 200, PETSC_FALSE},
  {"-contract_ksp_converged_maxits",                        "true", 7,   PETSC_TRUE },
};

static PetscErrorCode SolveWithOption(KSPType type, Mat A, Vec b, Vec x, size_t which, PetscBool guess, Outcome *outcome)
{
  const char *option = options[which].option;
  KSP         ksp;
  PC          pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOptionsPrefix(ksp, "contract_"));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, type));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, implementation));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, options[which].max_it));
  if (option) PetscCall(PetscOptionsSetValue(NULL, option, options[which].value));
  PetscCall(KSPSetFromOptions(ksp));
  if (option) PetscCall(PetscOptionsClearValue(NULL, option));
  if (guess) PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
  PetscCall(SolveHistory(ksp, b, x, outcome));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Guesses: zero, another one, and the solution. The reported norm is the norm of b - A x */
static PetscErrorCode TestOptions(void)
{
  Outcome gmres, idrs;
  Mat     A;
  Vec     b, x, solution;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(LINE, 0.8, &A, &b, &x));
  PetscCall(VecDuplicate(x, &solution));
  PetscCall(SolveWithOption(KSPGMRES, A, b, solution, 0, PETSC_FALSE, &gmres));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(options); i++) {
    const char *option = options[i].option ? options[i].option : "no option";

    for (PetscInt guess = 0; guess < 3; guess++) {
      const PetscBool none = (PetscBool)(options[i].option && strstr(option, "norm_type"));
      PetscReal       norm, bnorm;
      char            what[128];

      if (guess && strstr(option, "knoll")) continue;
      if (guess == 2 && strstr(option, "initial_residual")) continue; /* 1e-8 of its residual is below the attainable accuracy */
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s %s, guess %" INT, option, options[i].value ? options[i].value : "", guess));
      PetscCall(VecSet(x, 0.7));
      if (guess == 2) PetscCall(VecCopy(solution, x));
      PetscCall(SolveWithOption(KSPGMRES, A, b, x, i, (PetscBool)(guess > 0), &gmres));
      PetscCall(VecSet(x, 0.7));
      if (guess == 2) PetscCall(VecCopy(solution, x));
      PetscCall(SolveWithOption(KSPIDRS, A, b, x, i, (PetscBool)(guess > 0), &idrs));
      PetscCall(ComplainIf(idrs.reason != gmres.reason, "%s: %s, gmres %s", what, KSPConvergedReasons[idrs.reason],
                           KSPConvergedReasons[gmres.reason]));
      PetscCall(
        ComplainIf(options[i].its && idrs.its != gmres.its, "%s: %" INT " iterations, gmres %" INT, what, idrs.its, gmres.its));
      PetscCall(ComplainIf(idrs.length != idrs.its + 1, "%s: %" INT " norms for %" INT " iterations", what, idrs.length, idrs.its));
      PetscCall(ComplainIf(!none && !(PetscAbsReal(idrs.norms[0] - gmres.norms[0]) <= 1e-6 * gmres.norms[0]),
                           "%s: the first norm is %g, of gmres %g", what, (double)idrs.norms[0], (double)gmres.norms[0]));
      PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
      PetscCall(
        ComplainIf(!none && !(PetscAbsReal(norm - idrs.rnorm) <= 1e4 * PETSC_MACHINE_EPSILON * PetscMax(bnorm, idrs.norms[0])),
                   "%s: the norm of b - A x is %g, reported %g", what, (double)norm, (double)idrs.rnorm));
    }
  }
  PetscCall(DestroyAll(&solution, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define MAX_LINES 500

/* Monitors print the history, and the true norms; the monitor of singular values has none to print, which is no error */
static PetscErrorCode TestMonitors(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t is = 0; is < SIZES; is++) {
    const struct {
      const char *option, *text;
      PetscReal   expected; /* 0 for the norms of the history */
    } monitors[] = {
      {"-ksp_monitor",                "KSP Residual norm ", 0.0 },
      {"-ksp_monitor_true_residual",  "true resid norm ",   0.0 },
      {"-ksp_monitor_singular_value", " max ",              -1.0}
    };

    for (size_t im = 0; im < PETSC_STATIC_ARRAY_LENGTH(monitors); im++) {
      static PetscReal printed[MAX_LINES];
      const PetscReal *norms;
      PetscInt         lines, length;
      char             text[128];
      PetscOptions     options;
      KSP              ksp;

      PetscCall(PetscSNPrintf(text, sizeof(text), "%s ascii:options_monitor", monitors[im].option));
      PetscCall(OptionsPush(text, &options));
      PetscCall(SolverCreate(A, sizes[is], PCJACOBI, &ksp));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_LINES, PETSC_TRUE));
      PetscCall(SolveSystem(monitors[im].option, ksp, A, b, x));
      PetscCall(KSPMonitorCancel(ksp)); /* closes the file */
      PetscCall(KSPGetResidualHistory(ksp, &norms, &length));
      PetscCall(FileNumbers("options_monitor", monitors[im].text, MAX_LINES, printed, &lines));
      PetscCall(ComplainIf(lines != length || lines < 3, "%s, s = %" INT ": %" INT " lines, %" INT " norms", monitors[im].option,
                           sizes[is], lines, length));
      for (PetscInt i = 0; i < PetscMin(lines, length); i++) {
        const PetscReal expected = monitors[im].expected == 0.0 ? norms[i] : monitors[im].expected;

        PetscCall(ComplainIf(!(PetscAbsReal(printed[i] - expected) <= PetscMax(1e-8, 1e4 * PETSC_MACHINE_EPSILON) * norms[0]),
                             "%s, s = %" INT ", iteration %" INT ": %g printed instead of %g", monitors[im].option, sizes[is], i,
                             (double)printed[i], (double)expected));
      }
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
    }
  }
  PetscCall(DestroyAll(&A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Each view after a solve writes something; views of eigenvalues, which the method does not compute, are no error */
static PetscErrorCode TestViews(void)
{
  const struct {
    const char *option, *text;
  } views[] = {
    {"-ksp_view",                                  "type: idrs"          },
    {"-ksp_view_pre",                              "type: idrs"          },
    {"-ksp_converged_reason",                      "CONVERGED_RTOL"      },
    {"-ksp_converged_rate",                        "CONVERGED_RTOL"      },
    {"-ksp_view_final_residual",                   "norm of residual "   },
    {"-ksp_view_mat",                              "row 0:"              },
    {"-ksp_view_rhs",                              "Vec Object"          },
    {"-ksp_view_solution",                         "Vec Object"          },
    {"-ksp_view_mat_explicit",                     "Mat Object"          },
    {"-ksp_view_preconditioned_operator_explicit", "Mat Object"          },
    {"-ksp_view_eigenvalues",                      "computed eigenvalues"},
    {"-ksp_view_eigenvalues_explicit",             "computed eigenvalues"},
    /* PETSc releases differ in the output */
    {"-ksp_view_singularvalues",                   ""                    },
  };
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t iv = 0; iv < PETSC_STATIC_ARRAY_LENGTH(views); iv++) {
    char         text[128];
    PetscReal    number = 0.0, norm, bnorm;
    PetscInt     lines;
    PetscBool    final;
    PetscOptions options;
    KSP          ksp;

    PetscCall(PetscSNPrintf(text, sizeof(text), "%s ascii:options_view", views[iv].option));
    PetscCall(OptionsPush(text, &options));
    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(SolveSystem(views[iv].option, ksp, A, b, x));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options)); /* closes the file */
    PetscCall(FileNumbers("options_view", views[iv].text, 1, &number, &lines));
    PetscCall(ComplainIf(!lines && views[iv].text[0], "%s: no line with \"%s\"", views[iv].option, views[iv].text));
    PetscCall(PetscStrcmp(views[iv].option, "-ksp_view_final_residual", &final));
    PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
    PetscCall(ComplainIf(final && !(PetscAbsReal(number - norm) <= 0.01 * rtol * bnorm), "%s: %g, not %g", views[iv].option,
                         (double)number, (double)norm));
  }
  PetscCall(DestroyAll(&A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestOptions, "options of every KSP"}, {TestMonitors, "monitors of the options"}, {TestViews, "views of the options"})

/*TEST

  # 1e-8 is below the attainable accuracy of single precision
  test:
    suffix: 1
    nsize: {{1 2}}
    requires: double

TEST*/
