/*
   Solves a system by a Krylov method of Ginkgo, and prints the line of the programs of this directory.

     ginkgo -f matrix -b right-hand-side -setting name -solver BICGSTAB|GMRES|IDR -pc NAME [-executor cuda|reference]

   NAME is one of the preconditioners below. The executor reference runs on the host, to test the program without a GPU.
*/
#include <ginkgo/ginkgo.hpp>
#include "system.h"

using Csr    = gko::matrix::Csr<double, int>;
using Vector = gko::matrix::Dense<double>;

struct Solver {
  const System                                  *system;
  const char                                    *executor, *method, *pc;
  double                                         tolerance;
  std::shared_ptr<gko::Executor>                 exec;
  std::shared_ptr<Csr>                           A;
  std::shared_ptr<Vector>                        b, x;
  std::shared_ptr<const gko::LinOpFactory>       factory; /* of the preconditioner */
  std::shared_ptr<gko::LinOp>                    ksp;
  std::shared_ptr<gko::log::Convergence<double>> log;
};

static gko::deferred_factory_parameter<const gko::stop::CriterionFactory> Steps(unsigned most)
{
  return gko::stop::Iteration::build().with_max_iters(most);
}

/* ILU(0) by fixed-point iterations. PETSc's files have sorted rows, so that Ginkgo need not sort them, as in its benchmarks */
template <typename Lower, typename Upper>
static auto ParILU(void)
{
  return gko::preconditioner::Ilu<Lower, Upper, false, int>::build().with_factorization(
    gko::factorization::ParIlu<double, int>::build().with_skip_sorting(true));
}

/*
   Returns NULL if there is no such preconditioner. Settings of Ginkgo's examples and benchmarks; the rest has Ginkgo's defaults:
     jacobi, blockjacobi, parilu, parilu-isai: benchmark/utils/preconditioners.hpp
     multigrid: examples/multigrid-preconditioned-solver; one sweep of Jacobi, LU on the coarsest of at most 11 levels
     multigrid-jacobi: examples/mixed-multigrid-preconditioned-solver, all in double precision; Jacobi on the coarsest level
*/
static std::shared_ptr<const gko::LinOpFactory> Preconditioner(const char *name, std::shared_ptr<const gko::Executor> exec)
{
  using namespace gko::solver;
  using namespace gko::preconditioner;
  auto jacobi   = Jacobi<double, int>::build().with_max_block_size(strcmp(name, "blockjacobi") ? 1u : 32u);
  auto coarsest = Ir<double>::build().with_solver(jacobi).with_relaxation_factor(0.9).with_criteria(Steps(4));
  auto level    = gko::multigrid::Pgm<double, int>::build().with_deterministic(true);
  auto cycle    = Multigrid::build().with_mg_level(level).with_criteria(Steps(1));

  if (!strcmp(name, "jacobi") || !strcmp(name, "blockjacobi")) return jacobi.on(exec);
  if (!strcmp(name, "parilu")) return ParILU<LowerTrs<double, int>, UpperTrs<double, int>>().on(exec);
  if (!strcmp(name, "parilu-isai")) return ParILU<LowerIsai<double, int>, UpperIsai<double, int>>().on(exec);
  if (!strcmp(name, "multigrid")) return cycle.on(exec);
  if (!strcmp(name, "multigrid-jacobi")) return cycle.with_min_coarse_rows(2u).with_coarsest_solver(coarsest).on(exec);
  return nullptr;
}

/* Sets up all but the preconditioner */
template <typename Parameters>
static void Create(Solver *solver, Parameters parameters)
{
  auto residual = gko::stop::ResidualNorm<double>::build().with_baseline(gko::stop::mode::rhs_norm);

  parameters.with_criteria(Steps(SYSTEM_ITERATIONS), residual.with_reduction_factor(solver->tolerance));
  solver->ksp = parameters.on(solver->exec)->generate(solver->A);
  solver->log = gko::log::Convergence<double>::create();
  solver->ksp->add_logger(solver->log);
}

static void Update(Solver *solver)
{
  gko::as<gko::Preconditionable>(solver->ksp)->set_preconditioner(solver->factory->generate(solver->A));
}

/* The number of shadow vectors and the restart are those of the other programs. An iteration of IDR(4) has five matvecs */
static void SetUp(Solver *solver)
{
  using namespace gko::solver;

  if (!strcmp(solver->method, "IDR")) Create(solver, Idr<double>::build().with_subspace_dim(4u));
  else if (!strcmp(solver->method, "GMRES")) Create(solver, Gmres<double>::build().with_krylov_dim(30u));
  else Create(solver, Bicgstab<double>::build());
  Update(solver);
}

/* The values are copied from the host */
static void NewValues(Solver *solver)
{
  gko::as<gko::Preconditionable>(solver->ksp)->set_preconditioner(nullptr);
  solver->exec->copy_from(solver->exec->get_master(), solver->system->nonzeros, solver->system->values, solver->A->get_values());
}

static void Solve(Solver *solver)
{
  solver->x->fill(0);
  solver->ksp->apply(solver->b, solver->x);
}

/* Memory is from CUDA's pool, as in the program of hypre: otherwise each allocation waits for the device */
static std::shared_ptr<gko::Executor> CreateExecutor(const char *name)
{
  if (!strcmp(name, "reference")) return gko::ReferenceExecutor::create();
#if !defined(SYSTEM_HOST)
  cudaMemPool_t pool;
  uint64_t      all = UINT64_MAX;

  if (cudaDeviceGetDefaultMemPool(&pool, 0)) throw std::runtime_error("there is no GPU");
  (void)cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
#endif
  return gko::CudaExecutor::create(0, gko::ReferenceExecutor::create(), std::make_shared<gko::CudaAsyncAllocator>(nullptr));
}

static void Load(Solver *solver)
{
  const System        *system = solver->system;
  const gko::size_type rows = system->rows, nonzeros = system->nonzeros;
  const auto           exec = CreateExecutor(solver->executor);
  gko::array<double>   values(exec, system->values, system->values + nonzeros), b(exec, system->b, system->b + rows);
  gko::array<int>      columns(exec, system->columns, system->columns + nonzeros);

  solver->exec    = exec;
  solver->factory = Preconditioner(solver->pc, exec);
  solver->A = Csr::create(exec, gko::dim<2>(rows), values, columns, gko::array<int>(exec, system->start, system->start + rows + 1));
  solver->b = Vector::create(exec, gko::dim<2>(rows, 1), b, 1);
  solver->x = Vector::create(exec, gko::dim<2>(rows, 1));
}

/* Runs a function as SystemRun() wants it. Ginkgo reports errors by exceptions */
template <void (*function)(Solver *)>
static int Run(void *data)
{
  try {
    function((Solver *)data);
    return 0;
  } catch (const std::exception &e) {
    return SystemError(e.what(), "ginkgo");
  }
}

static int Finish(void *data, double x[], int *iterations, int *converged)
{
  Solver *solver = (Solver *)data;

  *iterations = (int)solver->log->get_num_iterations();
  *converged  = solver->log->has_converged();
  solver->exec->get_master()->copy_from(solver->exec, solver->system->rows, solver->x->get_const_values(), x);
  return 0;
}

int main(int argc, char **argv)
{
  const char *pc = SystemOption(argc, argv, "-pc", "jacobi"), *setting = SystemOption(argc, argv, "-setting", pc);
  System      system;
  Solver      solver = {&system, SystemOption(argc, argv, "-executor", "cuda"), SystemOption(argc, argv, "-solver", "BICGSTAB"), pc,
                        SystemTolerance(argc, argv)};
  const Rival rival  = {"ginkgo", setting, Run<SetUp>, Run<NewValues>, Run<Update>, Run<Solve>, Finish, &solver};

  if (SystemRead(argc, argv, &system)) return 1;
  const double before = SystemMemory();
  if (Run<Load>(&solver)) return 1;
  if (!solver.factory) return SystemError("is no preconditioner of this program", pc);
  return SystemRun(argc, argv, &system, &rival, before) ? 1 : 0;
}
