static char
  help[] = "The preconditioner PCPOLY on several processes: a single exchange in an application, beside one in each product.\n\n";

#include <petscidrs.h>
#include "systems.h"

static PetscErrorCode PolyCreate(Mat A, PetscInt degree, PCPolyPrecision precision, PCPolyHalo halo, PC *pc)
{
  PetscFunctionBeginUser;
  PetscCall(PCCreate(PetscObjectComm((PetscObject)A), pc));
  PetscCall(PCSetType(*pc, PCPOLY));
  PetscCall(PCPolySetDegree(*pc, degree));
  PetscCall(PCPolySetPrecision(*pc, precision));
  PetscCall(PCPolySetHalo(*pc, halo));
  PetscCall(PCSetOperators(*pc, A, A));
  PetscCall(PCSetUp(*pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||x - y|| / ||y|| */
static PetscErrorCode Difference(Vec x, Vec y, PetscReal *difference)
{
  PetscReal norm;
  Vec       d;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(x, &d));
  PetscCall(VecWAXPY(d, -1.0, y, x));
  PetscCall(VecNorm(d, NORM_2, difference));
  PetscCall(VecNorm(y, NORM_2, &norm));
  *difference /= norm;
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Entries far from the diagonal, a dense row, a row without off-diagonal entries, and rows that nothing scales */
static PetscScalar Scattered(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 37 == 5 ? 0.0 : 6.0 + i % 3;
  if (i == n / 2) return 0.2 / n * (1 + j % 3);
  if (i % 11 == 3) return 0.0;
  return (7 * i + 3) % n == j || (5 * i + 1) % n == j || j == i + 1 || (i % 37 == 5 && j == i - 1) ? -1.0 + 0.25 * (i % 2) : 0.0;
}

/*
   On these systems both give the same but for rounding errors, also after the values have changed; the transposed application does
   not depend on it
*/
static PetscErrorCode TestSame(Mat A, const char what[])
{
  const PetscInt degrees[] = {2, 3, 8, 17};
  /* half, single, double: values outside the diagonal block are rounded in one of them only */
  const PetscReal bounds[] = {2e-2, 1e-4, 2e3 * PETSC_MACHINE_EPSILON};
  PetscMPIInt     size;
  Vec             x, y[2];

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(MatCreateVecs(A, &x, NULL));
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecDuplicate(x, &y[i]));
  PetscCall(VecSetGeneral(x, 1.0));
  for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(degrees); id++) {
    for (PCPolyPrecision precision = PC_POLY_PRECISION_HALF; precision <= PC_POLY_PRECISION_DOUBLE;
         precision                 = (PCPolyPrecision)(precision + 1)) {
      const char *const kinds[] = {"one exchange between processes in an application",
                                   "an exchange between processes in each product"};
      PC                pc[2];
      PetscInt          lines, used[2];
      PetscReal         difference, number;

      for (PetscInt i = 0; i < 2; i++)
        PetscCall(PolyCreate(A, degrees[id], precision, i ? PC_POLY_HALO_EACH : PC_POLY_HALO_DEEP, &pc[i]));
      for (PetscInt change = 0; change < 2; change++) {
        for (PetscInt i = 0; i < 2; i++) {
          if (change) PetscCall(PCSetUp(pc[i]));
          PetscCall(PCPolyGetDegree(pc[i], NULL, &used[i]));
          PetscCall(PCApply(pc[i], x, y[i]));
          PetscCall(ViewNumbers((PetscObject)pc[i], kinds[i], 1, &number, &lines));
          PetscCall(ComplainIf(lines != (size > 1 && (i || used[i] > 2) ? 1 : 0),
                               "%s, degree %" PetscInt_FMT ": %" PetscInt_FMT " lines with \"%s\"", what, degrees[id], lines,
                               kinds[i]));
        }
        PetscCall(Difference(y[0], y[1], &difference));
        PetscCall(ComplainIf(used[0] != used[1] || !(difference <= bounds[precision]),
                             "%s, degree %" PetscInt_FMT ", precision %s, change %" PetscInt_FMT ": %g apart", what, degrees[id],
                             PCPolyPrecisions[precision], change, (double)difference));
        if (!change) PetscCall(MatScale(A, 1.75));
      }
      for (PetscInt i = 0; i < 2; i++) PetscCall(PCApplyTranspose(pc[i], x, y[i]));
      PetscCall(Difference(y[0], y[1], &difference));
      PetscCall(ComplainIf(!(difference <= 2e3 * PETSC_MACHINE_EPSILON), "%s, degree %" PetscInt_FMT ": %g apart, transposed", what,
                           degrees[id], (double)difference));
      for (PetscInt i = 0; i < 2; i++) PetscCall(PCDestroy(&pc[i]));
      PetscCall(MatScale(A, 1.0 / 1.75));
    }
  }
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecDestroy(&y[i]));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solvers with it solve; the choice is told */
static PetscErrorCode TestSolve(void)
{
  const char *const types[] = {KSPIDRS, KSPGMRES, KSPBCGS};
  Mat               A;
  Vec               b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 30, 0.4, LAYOUT_UNEVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (PCPolyHalo halo = PC_POLY_HALO_AUTO; halo <= PC_POLY_HALO_EACH; halo = (PCPolyHalo)(halo + 1)) {
      for (PCSide side = PC_LEFT; side <= PC_RIGHT; side = (PCSide)(side + 1)) {
        KSP ksp;
        PC  pc;

        PetscCall(SolverCreate(A, 4, PCPOLY, &ksp));
        PetscCall(KSPGetPC(ksp, &pc));
        PetscCall(PCPolySetHalo(pc, halo));
        PetscCall(KSPSetType(ksp, types[it]));
        PetscCall(KSPSetPCSide(ksp, side));
        if (side == PC_LEFT) PetscCall(KSPSetTolerances(ksp, rtol / 100, 0.0, PETSC_DEFAULT, 1000));
        PetscCall(VecSet(x, 0.0));
        PetscCall(KSPSolve(ksp, b, x));
        if (side == PC_RIGHT) PetscCall(CheckSolved(types[it], ksp, A, b, x));
        else PetscCall(CheckConverged(types[it], ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("solves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Matrices without rows to copy: an error where a single exchange is asked for on several processes, else an exchange in each
   product; values that do not exist
*/
static PetscErrorCode TestErrors(void)
{
  PetscErrorCode ierr;
  PetscMPIInt    size;
  PetscInt       lines;
  PetscReal      number;
  PCPolyHalo     halo;
  Mat            A, S;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(MatCreateEntries(Convection, 20 * LINE, PETSC_FALSE, &A));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  for (PetscInt deep = 0; deep < 2; deep++) {
    PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
    PetscCall(PCSetType(pc, PCPOLY));
    PetscCall(PCSetOperators(pc, S, S));
    PetscCall(PCPolySetHalo(pc, deep ? PC_POLY_HALO_DEEP : PC_POLY_HALO_AUTO));
    PetscCall(PCPolyGetHalo(pc, &halo));
    PetscCall(ComplainIf(halo != (deep ? PC_POLY_HALO_DEEP : PC_POLY_HALO_AUTO), "halo %d", (int)halo));
    PetscCall(Listen());
    ierr = PCSetUp(pc);
    PetscCall(Heard());
    if (deep && size > 1) PetscCall(CheckError(ierr, "a shell", "-pc_poly_halo", "deep"));
    else {
      PetscCall(ComplainIf(ierr, "a shell: error %d", (int)ierr));
      PetscCall(ViewNumbers((PetscObject)pc, "an exchange between processes in each product", 1, &number, &lines));
      PetscCall(ComplainIf(lines != (size > 1 ? 1 : 0), "a shell: %" PetscInt_FMT " lines in the view", lines));
    }
    PetscCall(PCDestroy(&pc));
  }
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetType(pc, PCPOLY));
  PetscCall(Listen());
  ierr = PCPolySetHalo(pc, (PCPolyHalo)7);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "a value that does not exist", "-pc_poly_halo", "7"));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&S));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("errors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc loses memory with an error */
  PetscCall(ImplementationFromOptions());
  for (Layout layout = LAYOUT_EVEN; layout < LAYOUTS; layout = (Layout)(layout + 1)) {
    PetscCall(GridCreate(PETSC_COMM_WORLD, layout, 24, 0.5, 0.2, &A));
    PetscCall(TestSame(A, "grid"));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(Verdict("grids"));
  PetscCall(MatCreateEntries(Scattered, 400, PETSC_FALSE, &A));
  PetscCall(TestSame(A, "scattered"));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("scattered entries"));
  PetscCall(TestSolve());
  PetscCall(TestErrors());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
