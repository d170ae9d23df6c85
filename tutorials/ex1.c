static char help[] = "Solves a linear system from a file with several Krylov methods and prints, for each, the iterations, the\n\
time and the true residual.\n\
  -f file, -b file, -column j, -rhs kind   the system, see linearsystem.h\n\
  -solvers a,b,c                           the methods, idrs,bcgs,gmres by default\n\
A matvec is one multiplication by A; matvecs of the preconditioner are included.\n\
Options of PETSc apply to methods and preconditioner, for example -ksp_rtol 1e-8 -ksp_idrs_s 8 -pc_type jacobi.\n\n";

/*
   KSPIDRS is not in PETSc. With -dll_append path/libpetscidrs.so this program, as any other, can use it as every other type.

   Options that matter:
     -ksp_idrs_s 8           more shadow vectors: fewer matvecs, more vector operations and memory; the default is 4
     -pc_type bjacobi        the preconditioner matters more than the method; jacobi, bjacobi (ILU in each block), asm, gamg, ...
     -ksp_rtol 1e-10         for |b-Ax|/|b|: idrs reports convergence only after b - Ax has been recomputed and meets it
     -mat_type aijcusparse -vec_type cuda   everything on a GPU
*/
#include <petscksp.h>
#include <petsctime.h>
#include "linearsystem.h"
#include "solvers.h"

/* Sets up method and preconditioner, which may not suit the matrix: ILU needs all diagonal entries */
static PetscErrorCode SetUp(KSP ksp, PetscBool *usable)
{
  MPI_Comm       comm = PetscObjectComm((PetscObject)ksp);
  PetscErrorCode ierr;
  PetscBool      failed;
  PC             pc;
  PCType         type;
  char           why[sizeof(attempt.text)];

  PetscFunctionBeginUser;
  PetscCall(AttemptBegin());
  ierr = KSPSetFromOptions(ksp);
  PetscCall(AttemptEnd(comm, ierr, &failed));
  if (failed) {
    PetscCall(AttemptPrint(comm));
    *usable = PETSC_FALSE;
    PetscFunctionReturn(0);
  }
  PetscCall(AttemptBegin());
  ierr = KSPSetUp(ksp);
  if (!ierr) ierr = KSPSetUpOnBlocks(ksp);
  PetscCall(AttemptEnd(comm, ierr, &failed));
  if (failed) {
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCGetType(pc, &type));
    PetscCall(PetscStrncpy(why, attempt.text, sizeof(why)));
    PetscCall(PetscSNPrintf(attempt.text, sizeof(attempt.text),
                            "the preconditioner %s cannot be set up for this matrix: %s; take another one, as with -pc_type jacobi",
                            type, why));
    PetscCall(AttemptPrint(comm));
  }
  *usable = (PetscBool)!failed;
  PetscFunctionReturn(0);
}

/* Solves A x = b with one method from x = 0, and prints a line of the table */
static PetscErrorCode Solve(Mat A, Vec b, const char type[], PetscBool *usable)
{
  KSP                ksp;
  Vec                x, r;
  PetscInt           its, before, matvecs;
  PetscReal          bnorm, rnorm;
  PetscLogDouble     start, end;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), &ksp));
  PetscCall(KSPSetType(ksp, type));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(SetUp(ksp, usable)); /* the preconditioner is not part of the time */
  if (!*usable) {
    PetscCall(KSPDestroy(&ksp));
    PetscFunctionReturn(0);
  }

  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatvecsCount(&before));
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&start));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&end));
  PetscCall(MatvecsCount(&matvecs));

  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(PetscPrintf(PetscObjectComm((PetscObject)A), "%-8s %10" PetscInt_FMT " %9" PetscInt_FMT " %12.4f %16.2e   %s\n", type,
                        its, matvecs - before, (double)(end - start), (double)(bnorm > 0.0 ? rnorm / bnorm : rnorm),
                        KSPConvergedReasons[reason]));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Mat       A;
  Vec       b;
  char      heading[3 * PETSC_MAX_PATH_LEN], **solvers;
  int       count;
  PetscBool usable;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin()); /* counts matvecs */
  PetscCall(SolversFromOptions(PETSC_COMM_WORLD, "idrs,bcgs,gmres", &count, &solvers, &usable));
  if (usable) PetscCall(LinearSystemLoad(PETSC_COMM_WORLD, &A, &b, heading, sizeof(heading), &usable));
  if (usable) {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s\n%-8s %10s %9s %12s %16s\n", heading, "method", "iterations", "matvecs", "seconds",
                          "|b-Ax|/|b|"));
    for (int i = 0; i < count && usable; i++) PetscCall(Solve(A, b, solvers[i], &usable));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(PetscStrToArrayDestroy(count, solvers));
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* the reason has been printed */
}

/*TEST

  testset:
    filter: sed -n -e "/rows/s|[^ ]*[/]||gp" -e "s/^idrs .* CONVERGED/idrs CONVERGED/p"
    requires: double
    args: -solvers idrs,bcgs,gmres

    test:
      suffix: 1
      nsize: {{1 2}}
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz -pc_type jacobi
      output_file: output/ex1_1.out

    test:
      suffix: 2
      nsize: {{1 3}}
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/stommel4.mtx.gz -b ${PETSCIDRS_DIR}/tutorials/matrices/stommel4_b.mtx.gz -column 3 -pc_type jacobi -ksp_idrs_s 8
      output_file: output/ex1_2.out

TEST*/
