static char help[] = "PETSc's options for any KSP, with KSPIDRS: guesses, scaling, limits and norms, monitors and views. Each\n\
has its documented effect.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* A solver with these options only, which exist as long as the solver */
typedef struct {
  KSP          ksp;
  PetscOptions options;
} Solver;

static PetscErrorCode SolverCreateOptions(Mat A, PetscInt s, const char text[], Solver *solver)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, PCJACOBI, &solver->ksp));
  PetscCall(PetscOptionsCreate(&solver->options));
  PetscCall(PetscOptionsInsertString(solver->options, text));
  PetscCall(PetscObjectSetOptions((PetscObject)solver->ksp, solver->options));
  PetscCall(KSPSetFromOptions(solver->ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SolverDestroy(Solver *solver)
{
  PetscFunctionBeginUser;
  PetscCall(KSPDestroy(&solver->ksp));
  PetscCall(PetscOptionsDestroy(&solver->options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Guesses from earlier solves: the last right-hand side is a sum of the others, and needs few iterations */
static PetscErrorCode TestGuesses(void)
{
  const struct {
    const char  *name;
    KSPGuessType type;
    PetscInt     model;
    PetscBool    general; /* the others are for symmetric matrices, and gain little here with any solver */
  } guesses[] = {
    {"fischer, model 1", KSPGUESSFISCHER, 1, PETSC_TRUE },
    {"fischer, model 2", KSPGUESSFISCHER, 2, PETSC_FALSE},
    {"fischer, model 3", KSPGUESSFISCHER, 3, PETSC_FALSE},
    {"pod",              KSPGUESSPOD,     0, PETSC_TRUE }
  };
  const PetscInt solves = 4;
  Mat            A;
  Vec            b, x;
  Vec            sum;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecDuplicate(b, &sum));
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t ig = 0; ig < PETSC_STATIC_ARRAY_LENGTH(guesses); ig++) {
      PetscInt first = 0, its;
      KSPGuess guess;
      KSP      ksp;
      char     what[64];

      PetscCall(SolverCreate(A, sizes[is], PCJACOBI, &ksp));
      PetscCall(KSPGetGuess(ksp, &guess));
      PetscCall(KSPGuessSetType(guess, guesses[ig].type));
      if (guesses[ig].model) PetscCall(KSPGuessFischerSetModel(guess, guesses[ig].model, 10));
      PetscCall(VecSet(sum, 0.0));
      for (PetscInt i = 0; i <= solves; i++) {
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT ", solve %" INT, guesses[ig].name, sizes[is], i));
        if (i < solves) {
          PetscCall(VecSetGeneral(b, 1.0 + i));
          PetscCall(VecAXPY(sum, 1.0 + 0.3 * i, b));
        } else PetscCall(VecCopy(sum, b));
        PetscCall(SolveSystem(what, ksp, A, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        if (!i) first = its;
      }
      PetscCall(ComplainIf(its > (guesses[ig].general ? first / 2 : first), "%s: %" INT " iterations, %" INT " for the first", what,
                           its, first));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&sum, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Diagonal scaling, if this PETSc has it: the solve tests the scaled norm, and the system is unchanged afterwards */
static PetscErrorCode TestScaling(void)
{
  Mat A, original;
  Vec b, x, d, kept;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCall(DuplicateAll(b, &d, &kept));
  PetscCall(VecSetGeneral(d, 0.3));
  PetscCall(VecAbs(d));
  PetscCall(VecShift(d, 0.01));
  PetscCall(MatDiagonalScale(A, d, d));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &original));
  PetscCall(VecCopy(b, kept));
  PetscCall(MatGetDiagonal(A, d));
  PetscCall(VecAbs(d));
  PetscCall(VecSqrtAbs(d));
  PetscCall(VecReciprocal(d));
  for (size_t is = 0; is < SIZES; is++) {
    KSPConvergedReason reason;
    PetscBool          used;
    Solver             solver;

    PetscCall(SolverCreateOptions(A, sizes[is], "-ksp_diagonal_scale -ksp_diagonal_scale_fix", &solver));
    PetscCall(PetscOptionsUsed(solver.options, "ksp_diagonal_scale", &used));
    for (PetscInt solve = 0; solve < 2; solve++) {
      PetscReal norm, reference, change, Anorm;
      Vec       r;

      PetscCall(KSPSolve(solver.ksp, b, x));
      PetscCall(KSPGetConvergedReason(solver.ksp, &reason));
      PetscCall(VecDuplicate(kept, &r));
      PetscCall(MatMult(original, x, r));
      PetscCall(VecAYPX(r, -1.0, kept));
      if (used) PetscCall(VecPointwiseMult(r, r, d));
      PetscCall(VecNorm(r, NORM_2, &norm));
      PetscCall(VecCopy(kept, r));
      if (used) PetscCall(VecPointwiseMult(r, r, d));
      PetscCall(VecNorm(r, NORM_2, &reference));
      PetscCall(ComplainIf(!(reason > 0) || !(norm <= 1.01 * rtol * reference),
                           "diagonal scaling, s = %" INT ": %s, the norm of b - A x is %g of %g", sizes[is],
                           KSPConvergedReasons[reason], (double)norm, (double)reference));
      PetscCall(VecWAXPY(r, -1.0, kept, b));
      PetscCall(VecNorm(r, NORM_INFINITY, &change));
      PetscCall(ComplainIf(!(change <= 100 * PETSC_MACHINE_EPSILON), "diagonal scaling, s = %" INT ": b has changed by %g",
                           sizes[is], (double)change));
      PetscCall(VecDestroy(&r));
      PetscCall(MatNorm(original, NORM_FROBENIUS, &Anorm));
      PetscCall(MatAXPY(A, -1.0, original, SAME_NONZERO_PATTERN));
      PetscCall(MatNorm(A, NORM_FROBENIUS, &change));
      PetscCall(ComplainIf(!(change <= 100 * PETSC_MACHINE_EPSILON * Anorm),
                           "diagonal scaling, s = %" INT ": A has changed by %g of %g", sizes[is], (double)change, (double)Anorm));
      PetscCall(MatCopy(original, A, SAME_NONZERO_PATTERN));
    }
    PetscCall(SolverDestroy(&solver));
  }
  PetscCall(DestroyAll(&original, &d, &kept, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Limits set by options: at least so many iterations, at most so many, and the reference of the tolerance */
static PetscErrorCode TestEnds(void)
{
  Mat       A;
  Vec       b, x;
  PetscReal bnorm;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  for (size_t is = 0; is < SIZES; is++) {
    KSPConvergedReason reason;
    PetscInt           plain, its;
    PetscReal          norm, reported;
    PetscBool          used;
    Solver             solver;
    char               text[64], what[128];

    PetscCall(SolverCreateOptions(A, sizes[is], "", &solver));
    PetscCall(KSPSolve(solver.ksp, b, x));
    PetscCall(KSPGetIterationNumber(solver.ksp, &plain));
    PetscCall(SolverDestroy(&solver));

    /* shortly after the iteration that would have been the last, and long after it */
    for (PetscInt factor = 0; factor < 2; factor++) {
      const PetscInt least = factor ? 4 * plain : plain + 1;

      PetscCall(PetscSNPrintf(text, sizeof(text), "-ksp_min_it %" INT, least));
      PetscCall(SolverCreateOptions(A, sizes[is], text, &solver));
      PetscCall(PetscOptionsUsed(solver.options, "ksp_min_it", &used));
      PetscCall(KSPSolve(solver.ksp, b, x));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT, text, sizes[is]));
      PetscCall(CheckSolved(what, solver.ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(solver.ksp, &its));
      PetscCall(ComplainIf(used && its < least, "%s: %" INT " iterations", what, its));
      PetscCall(SolverDestroy(&solver));
    }

    PetscCall(SolverCreateOptions(A, sizes[is], "-ksp_lag_norm", &solver));
    PetscCall(PetscOptionsUsed(solver.options, "ksp_lag_norm", &used));
    PetscCall(KSPSolve(solver.ksp, b, x));
    PetscCall(PetscSNPrintf(what, sizeof(what), "-ksp_lag_norm, s = %" INT, sizes[is]));
    PetscCall(CheckSolved(what, solver.ksp, A, b, x));
    PetscCall(KSPGetIterationNumber(solver.ksp, &its));
    PetscCall(ComplainIf(!used || its != plain, "%s: %" INT " iterations, %" INT " without", what, its, plain));
    PetscCall(SolverDestroy(&solver));

    PetscCall(SolverCreateOptions(A, sizes[is], "-ksp_max_it 7 -ksp_converged_maxits", &solver));
    PetscCall(KSPSolve(solver.ksp, b, x));
    PetscCall(KSPGetConvergedReason(solver.ksp, &reason));
    PetscCall(KSPGetIterationNumber(solver.ksp, &its));
    PetscCall(KSPGetResidualNorm(solver.ksp, &reported));
    PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
    PetscCall(
      ComplainIf(reason != KSP_CONVERGED_ITS || its != 7 || !(PetscAbsReal(norm - reported) <= 1e4 * PETSC_MACHINE_EPSILON * bnorm),
                 "-ksp_converged_maxits, s = %" INT ": %s after %" INT ", norm %g, reported %g", sizes[is],
                 KSPConvergedReasons[reason], its, (double)norm, (double)reported));
    PetscCall(SolverDestroy(&solver));

    /* a guess far from the solution, and a near one */
    for (PetscInt near = 0; near < 2; near++) {
      const char *const options[] = {"-ksp_converged_use_initial_residual_norm", "-ksp_converged_use_min_initial_residual_norm"};

      for (PetscInt min = 0; min < 2; min++) {
        PetscReal initial, reference;

        PetscCall(SolverCreateOptions(A, sizes[is], "", &solver));
        PetscCall(KSPSetTolerances(solver.ksp, 1e-3, 0.0, PETSC_DEFAULT, 1000));
        PetscCall(VecSet(x, 0.0));
        if (near) PetscCall(KSPSolve(solver.ksp, b, x));
        else PetscCall(VecSet(x, 1e3));
        PetscCall(SolverDestroy(&solver));
        PetscCall(ResidualNorm(A, b, x, &initial, &bnorm));
        reference = min ? PetscMin(initial, bnorm) : initial;
        PetscCall(SolverCreateOptions(A, sizes[is], options[min], &solver));
        PetscCall(KSPSetInitialGuessNonzero(solver.ksp, PETSC_TRUE));
        PetscCall(KSPSetTolerances(solver.ksp, 1000 * rtol, 0.0, PETSC_DEFAULT, 1000));
        PetscCall(KSPSolve(solver.ksp, b, x));
        PetscCall(KSPGetConvergedReason(solver.ksp, &reason));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        /* and not much smaller, since the solve stops as soon as it may */
        PetscCall(
          ComplainIf(reason != KSP_CONVERGED_RTOL || !(norm <= 1010 * rtol * reference) || !(norm >= 1e-3 * rtol * reference),
                     "%s, %s guess, s = %" INT ": %s, the norm of b - A x is %g of %g, that of b %g", options[min],
                     near ? "near" : "far", sizes[is], KSPConvergedReasons[reason], (double)norm, (double)initial, (double)bnorm));
        PetscCall(SolverDestroy(&solver));
      }
    }
  }
  PetscCall(DestroyAll(&A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   With -ksp_error_if_not_converged a failed solve is an error, by max_it or by an unreachable tolerance; the same solver works
   afterwards
*/
static PetscErrorCode TestErrors(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t is = 0; is < SIZES; is++) {
    PetscErrorCode ierr;
    char          *place;
    Solver         solver;

    PetscCall(SolverCreateOptions(A, sizes[is], "-ksp_error_if_not_converged", &solver));
    for (PetscInt turn = 0; turn < 2; turn++) {
      /* after the first such error PETSc treats a solve as an inner solve, for which max_it is no error */
      const PetscBool first = (PetscBool)(!is && !turn);

      PetscCall(KSPSetTolerances(solver.ksp, first ? rtol : PETSC_MACHINE_EPSILON / 1000, 0.0, PETSC_DEFAULT, first ? 3 : 5000));
      Try(ierr, KSPSolve(solver.ksp, b, x));
      PetscCall(PetscStrstr(message, first ? "DIVERGED_ITS" : "DIVERGED_BREAKDOWN", &place));
      PetscCall(
        ComplainIf(!ierr || !place, "-ksp_error_if_not_converged, s = %" INT ": error %d, \"%s\"", sizes[is], (int)ierr, message));
      PetscCall(KSPSetTolerances(solver.ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      PetscCall(SolveSystem("after an error", solver.ksp, A, b, x));
    }
    PetscCall(SolverDestroy(&solver));
  }
  PetscCall(DestroyAll(&A, &b, &x));
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
      Solver           solver;

      PetscCall(PetscSNPrintf(text, sizeof(text), "%s ascii:options_monitor", monitors[im].option));
      PetscCall(SolverCreateOptions(A, sizes[is], text, &solver));
      PetscCall(KSPSetResidualHistory(solver.ksp, NULL, MAX_LINES, PETSC_TRUE));
      PetscCall(SolveSystem(monitors[im].option, solver.ksp, A, b, x));
      PetscCall(KSPMonitorCancel(solver.ksp)); /* closes the file */
      PetscCall(KSPGetResidualHistory(solver.ksp, &norms, &length));
      PetscCall(FileNumbers("options_monitor", monitors[im].text, MAX_LINES, printed, &lines));
      PetscCall(ComplainIf(lines != length || lines < 3, "%s, s = %" INT ": %" INT " lines, %" INT " norms", monitors[im].option,
                           sizes[is], lines, length));
      for (PetscInt i = 0; i < PetscMin(lines, length); i++) {
        const PetscReal expected = monitors[im].expected == 0.0 ? norms[i] : monitors[im].expected;

        PetscCall(ComplainIf(!(PetscAbsReal(printed[i] - expected) <= PetscMax(1e-8, 1e4 * PETSC_MACHINE_EPSILON) * norms[0]),
                             "%s, s = %" INT ", iteration %" INT ": %g printed instead of %g", monitors[im].option, sizes[is], i,
                             (double)printed[i], (double)expected));
      }
      PetscCall(SolverDestroy(&solver));
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
    char      text[128];
    PetscReal number = 0.0, norm, bnorm;
    PetscInt  lines;
    PetscBool final;
    Solver    solver;

    PetscCall(PetscSNPrintf(text, sizeof(text), "%s ascii:options_view", views[iv].option));
    PetscCall(SolverCreateOptions(A, 4, text, &solver));
    PetscCall(SolveSystem(views[iv].option, solver.ksp, A, b, x));
    PetscCall(SolverDestroy(&solver)); /* closes the file */
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

RUN_TESTS({TestGuesses, "guesses from solves before"}, {TestScaling, "diagonal scaling"},
          {TestEnds, "ends and norms of the options"}, {TestErrors, "errors where a solve fails"},
          {TestMonitors, "monitors of the options"}, {TestViews, "views of the options"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
