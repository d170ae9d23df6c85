/*
   A substance in a circular current, with finite elements and streamline diffusion, in deal.II: the solver idrs as a class of PETScWrappers, beside those that
   deal.II has. Works with deal.II 9.4, the release in Debian 12

     mpicxx -std=c++17 -O1 -I/usr/include/trilinos $(pkg-config --cflags SLEPc PETSc) tutorials/ex11.cc -o ex11 -Wl,--copy-dt-needed-entries -ldeal.ii $(pkg-config --libs PETSc)
     mpiexec -n 2 ./ex11 -dll_append path/libpetscidrs.so

   Programs that have a solver of deal.II need no change: KSPSetFromOptions() is called by it, so PETSC_OPTIONS="-dll_append path/libpetscidrs.so -ksp_type idrs"
   replaces the method
*/
#include <deal.II/base/function.h>
#include <deal.II/base/quadrature_lib.h>
#include <deal.II/base/timer.h>
#include <deal.II/dofs/dof_handler.h>
#include <deal.II/dofs/dof_renumbering.h>
#include <deal.II/dofs/dof_tools.h>
#include <deal.II/fe/fe_q.h>
#include <deal.II/fe/fe_values.h>
#include <deal.II/grid/grid_generator.h>
#include <deal.II/grid/grid_tools.h>
#include <deal.II/lac/affine_constraints.h>
#include <deal.II/lac/dynamic_sparsity_pattern.h>
#include <deal.II/lac/full_matrix.h>
#include <deal.II/lac/petsc_precondition.h>
#include <deal.II/lac/petsc_solver.h>
#include <deal.II/lac/petsc_sparse_matrix.h>
#include <deal.II/lac/petsc_vector.h>
#include <deal.II/lac/sparsity_tools.h>
#include <deal.II/numerics/vector_tools.h>
#include <cstdio>

using namespace dealii;

/* What a solver of PETSc needs that deal.II has no class for */
class SolverIDRS : public PETScWrappers::SolverBase {
public:
  SolverIDRS(SolverControl &control, const MPI_Comm &comm) : PETScWrappers::SolverBase(control, comm) {}

protected:
  void set_solver_type(KSP &ksp) const override
  {
    const PetscErrorCode ierr = KSPSetType(ksp, "idrs");

    AssertThrow(!ierr, ExcMessage("there is no solver idrs: give -dll_append path/libpetscidrs.so"));
  }
};

static const double peclet = 5000.0;

static Tensor<1, 2> Current(const Point<2> &x)
{
  Tensor<1, 2> c;

  c[0] = peclet * (0.5 - x[1]);
  c[1] = peclet * (x[0] - 0.5);
  return c;
}

/* Adds the cells of this process: (grad u, grad v) + (c.grad u, v + tau c.grad v) = (1, v + tau c.grad v) */
static void Assemble(const DoFHandler<2> &dofs, const AffineConstraints<double> &walls, types::subdomain_id process, PETScWrappers::MPI::SparseMatrix &A, PETScWrappers::MPI::Vector &b)
{
  const QGauss<2>                      quadrature(2);
  const unsigned int                   n = dofs.get_fe().n_dofs_per_cell();
  FEValues<2>                          values(dofs.get_fe(), quadrature, update_values | update_gradients | update_quadrature_points | update_JxW_values);
  FullMatrix<double>                   matrix(n, n);
  Vector<double>                       rhs(n);
  std::vector<types::global_dof_index> numbers(n);

  for (const auto &cell : dofs.active_cell_iterators()) {
    if (cell->subdomain_id() != process) continue;
    matrix = 0;
    rhs    = 0;
    values.reinit(cell);
    for (const unsigned int q : values.quadrature_point_indices()) {
      const Tensor<1, 2> c   = Current(values.quadrature_point(q));
      const double       tau = cell->diameter() / (2.0 * (c.norm() + 1.0));

      for (unsigned int i = 0; i < n; i++) {
        const double test = values.shape_value(i, q) + tau * (c * values.shape_grad(i, q));

        for (unsigned int j = 0; j < n; j++) matrix(i, j) += (values.shape_grad(i, q) * values.shape_grad(j, q) + (c * values.shape_grad(j, q)) * test) * values.JxW(q);
        rhs(i) += test * values.JxW(q);
      }
    }
    cell->get_dof_indices(numbers);
    walls.distribute_local_to_global(matrix, rhs, numbers, A, b);
  }
  A.compress(VectorOperation::add);
  b.compress(VectorOperation::add);
}

/* Solves from zero and prints a line; whether the true residual is as small as asked for */
template <typename Solver>
static bool Solve(const char name[], MPI_Comm comm, const PETScWrappers::MPI::SparseMatrix &A, const PETScWrappers::MPI::Vector &b, PETScWrappers::MPI::Vector &x)
{
  const double                      tolerance = 1e-8 * b.l2_norm();
  PETScWrappers::PreconditionJacobi jacobi(A);
  PETScWrappers::MPI::Vector        r(b);
  SolverControl                     control(20000, tolerance);
  Timer                             timer;
  const char                       *how = "";
  Solver                            solver(control, comm);

  x = 0;
  try {
    solver.solve(A, x, b, jacobi);
  } catch (const SolverControl::NoConvergence &) {
    how = ", not converged";
  }
  timer.stop();
  const double residual = A.residual(r, x, b) / b.l2_norm();
  const bool   good     = residual <= 1.1e-8;

  if (Utilities::MPI::this_mpi_process(comm) == 0) std::printf("%-6s %6u iterations %8.3f s   |b-Ax|/|b| %.1e%s\n", name, control.last_step(), timer.wall_time(), residual, how);
  return good;
}

int main(int argc, char **argv)
{
  Utilities::MPI::MPI_InitFinalize mpi(argc, argv, 1);
  const MPI_Comm                   comm    = MPI_COMM_WORLD;
  const unsigned int               process = Utilities::MPI::this_mpi_process(comm), processes = Utilities::MPI::n_mpi_processes(comm);
  Triangulation<2>                 grid;
  const FE_Q<2>                    element(1);
  DoFHandler<2>                    dofs(grid);
  AffineConstraints<double>        walls;

  GridGenerator::hyper_cube(grid);
  grid.refine_global(7);
  GridTools::partition_triangulation(processes, grid);
  dofs.distribute_dofs(element);
  DoFRenumbering::subdomain_wise(dofs);
  VectorTools::interpolate_boundary_values(dofs, 0, Functions::ZeroFunction<2>(), walls);
  walls.close();

  const std::vector<IndexSet> owned = DoFTools::locally_owned_dofs_per_subdomain(dofs);
  DynamicSparsityPattern      pattern(dofs.n_dofs(), dofs.n_dofs());

  DoFTools::make_sparsity_pattern(dofs, pattern, walls, false);

  PETScWrappers::MPI::SparseMatrix A;
  PETScWrappers::MPI::Vector       b(owned[process], comm), x(owned[process], comm);

  A.reinit(owned[process], owned[process], pattern, comm);
  Assemble(dofs, walls, process, A, b);
  if (process == 0) std::printf("%u rows, Peclet number %g, Jacobi\n", (unsigned int)A.m(), peclet);

  const bool good = Solve<SolverIDRS>("idrs", comm, A, b, x);

  Solve<PETScWrappers::SolverBicgstab>("bcgs", comm, A, b, x);
  Solve<PETScWrappers::SolverGMRES>("gmres", comm, A, b, x);
  return good ? 0 : 1;
}
