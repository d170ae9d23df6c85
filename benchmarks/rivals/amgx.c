/*
   Solves a system by a Krylov method of AmgX, and prints the line of the programs of this directory.

     amgx -f matrix -b right-hand-side -setting name -solver PBICGSTAB|FGMRES|IDR -pc NAME [-reuse -1]

   NAME is one of the preconditioners below. -reuse -1 keeps the structure of all levels for new values (structure_reuse_levels).
*/
#include <amgx_c.h>
#include "system.h"

typedef struct {
  AMGX_matrix_handle A;
  AMGX_vector_handle b, x;
  AMGX_solver_handle solver;
  const System      *system;
} Solver;

#define COLORS "'matrix_coloring_scheme': 'PARALLEL_GREEDY', 'max_uncolored_percentage': 0.05, "
#define SMOOTHER(type, factor) \
  "'smoother': {'scope': 'smoother', 'solver': '" type "', " COLORS "'relaxation_factor': " factor "}, "
#define SWEEPS(pre, post) "'presweeps': " pre ", 'postsweeps': " post ", "
#define CLASSICAL(sweeps, aggressive) \
  "'solver': 'AMG', 'algorithm': 'CLASSICAL', 'selector': 'PMIS', 'interpolator': 'D2', 'interp_max_elements': 4, " \
  "'max_row_sum': 0.9, 'strength_threshold': 0.25, 'coarse_solver': 'NOSOLVER', 'min_coarse_rows': 2, 'max_levels': 50, " \
  "'cycle': 'V', 'aggressive_levels': " aggressive ", 'coarsest_sweeps': " sweeps ", " SMOOTHER("JACOBI_L1", "1") \
    SWEEPS(sweeps, sweeps)
#define AGGREGATION(selector) \
  "'solver': 'AMG', 'algorithm': 'AGGREGATION', 'selector': '" selector "', 'max_levels': 50, 'cycle': 'V', "
#define DENSE "'coarse_solver': 'DENSE_LU_SOLVER', 'min_coarse_rows': 32, "

/*
   Parameters of AmgX's own files in src/configs: AMG_CLASSICAL_L1_TRUNC, AMG_CLASSICAL_AGGRESSIVE_L1_TRUNC,
   FGMRES_CLASSICAL_AGGRESSIVE_PMIS, FGMRES_AGGREGATION, AGGREGATION_JACOBI with the selector of agg_cheb4, IDR_DILU, and JACOBI.
   The W cycle of PBICGSTAB_AGGREGATION_W_JACOBI visits each level twice as often as the finer one, and does not end in 20 s. JSON
   wants double quotes; Load() puts them in
*/
static const struct {
  const char *name, *parameters;
} preconditioners[] = {
  {"classical", CLASSICAL("1", "0")},
  {"aggressive", CLASSICAL("1", "1")},
  {"aggressive2", CLASSICAL("2", "1")},
  {"aggregation", AGGREGATION("SIZE_2") DENSE SMOOTHER("MULTICOLOR_DILU", "0.75") SWEEPS("0", "3")},
  {"size8", AGGREGATION("SIZE_8") "'min_coarse_rows': 2, 'coarsest_sweeps': 2, " SMOOTHER("BLOCK_JACOBI", "0.75") SWEEPS("2", "2")},
  {"dilu", COLORS "'solver': 'MULTICOLOR_DILU', "},
  {"jacobi", "'solver': 'BLOCK_JACOBI', "}
};

static int SetUp(void *data)
{
  SystemCheck(AMGX_solver_setup(((Solver *)data)->solver, ((Solver *)data)->A));
  return 0;
}

/* The values are copied from the host */
static int NewValues(void *data)
{
  Solver       *solver = (Solver *)data;
  const System *system = solver->system;

  SystemCheck(AMGX_matrix_replace_coefficients(solver->A, system->rows, system->nonzeros, system->values, NULL));
  return 0;
}

static int Update(void *data)
{
  SystemCheck(AMGX_solver_resetup(((Solver *)data)->solver, ((Solver *)data)->A));
  return 0;
}

/* AmgX assumes that x is zero, and does not set it */
static int Solve(void *data)
{
  Solver *solver = (Solver *)data;

  SystemCheck(AMGX_vector_set_zero(solver->x, solver->system->rows, 1));
  SystemCheck(AMGX_solver_solve_with_0_initial_guess(solver->solver, solver->b, solver->x));
  return 0;
}

static int Finish(void *data, double x[], int *iterations, int *converged)
{
  Solver           *solver = (Solver *)data;
  AMGX_SOLVE_STATUS status;

  SystemCheck(AMGX_solver_get_status(solver->solver, &status));
  SystemCheck(AMGX_solver_get_iterations_number(solver->solver, iterations));
  SystemCheck(AMGX_vector_download(solver->x, x));
  *converged = status == AMGX_SOLVE_SUCCESS;
  return 0;
}

/* AmgX prints warnings and statistics; the first column of standard output belongs to the result */
static void Print(const char *text, int length)
{
  fprintf(stderr, "%.*s", length, text);
}

static int Load(const System *system, const char *method, const char *parameters, double tolerance, int reuse, Solver *solver)
{
  AMGX_config_handle    config, plain;
  AMGX_resources_handle resources;
  char                  text[4096];

  snprintf(text, sizeof(text),
           "{'config_version': 2, 'solver': {'scope': 'main', 'solver': '%s', 'gmres_n_restart': 30, 'subspace_dim_s': 4, "
           "'use_scalar_norm': 1, 'norm': 'L2', 'convergence': 'RELATIVE_INI', 'tolerance': %g, 'max_iters': %d, "
           "'monitor_residual': 1, 'print_solve_stats': 0, 'obtain_timings': 0, 'preconditioner': {'scope': 'precond', %s"
           "'structure_reuse_levels': %d, 'monitor_residual': 0, 'print_grid_stats': 0, 'max_iters': 1}}}",
           method, tolerance, SYSTEM_ITERATIONS, parameters, reuse);
  for (char *quote = text; (quote = strchr(quote, '\'')); quote++) *quote = '"';
  solver->system = system;
  SystemCheck(AMGX_register_print_callback(Print));
  SystemCheck(AMGX_initialize());
  SystemCheck(AMGX_config_create(&config, text));
  SystemCheck(AMGX_config_create(&plain, "config_version=2"));
  SystemCheck(AMGX_resources_create_simple(&resources, plain));
  SystemCheck(AMGX_matrix_create(&solver->A, resources, AMGX_mode_dDDI));
  SystemCheck(AMGX_vector_create(&solver->b, resources, AMGX_mode_dDDI));
  SystemCheck(AMGX_vector_create(&solver->x, resources, AMGX_mode_dDDI));
  SystemCheck(AMGX_solver_create(&solver->solver, resources, AMGX_mode_dDDI, config));
  SystemCheck(
    AMGX_matrix_upload_all(solver->A, system->rows, system->nonzeros, 1, 1, system->start, system->columns, system->values, NULL));
  SystemCheck(AMGX_vector_upload(solver->b, system->rows, 1, system->b));
  return 0;
}

int main(int argc, char **argv)
{
  const char *pc = SystemOption(argc, argv, "-pc", "classical"), *method = SystemOption(argc, argv, "-solver", "PBICGSTAB");
  const char *parameters = NULL;
  Solver      solver     = {0};
  const Rival rival      = {"amgx", SystemOption(argc, argv, "-setting", pc), SetUp, NewValues, Update, Solve, Finish, &solver};
  System      system;
  double      before;

  for (size_t i = 0; i < sizeof(preconditioners) / sizeof(preconditioners[0]); i++) {
    if (!strcmp(preconditioners[i].name, pc)) parameters = preconditioners[i].parameters;
  }
  if (!parameters) return SystemError("is no preconditioner of this program", pc);
  if (SystemRead(argc, argv, &system)) return 1;
  before = SystemMemory();
  if (Load(&system, method, parameters, SystemTolerance(argc, argv), atoi(SystemOption(argc, argv, "-reuse", "0")), &solver))
    return 1;
  return SystemRun(argc, argv, &system, &rival, before) ? 1 : 0;
}
