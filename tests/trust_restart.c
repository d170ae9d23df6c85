static char help[] = "KSPIDRS on a badly scaled matrix without preconditioner: the recurrence breaks down, restarts from the\n\
best solution so far, and converges; if it gives up, the solution is no worse than the best one.\n\
  -f <file> - the matrix\n\n";

#include "systems.h"
#include "../tutorials/matrixmarket.h"

int main(int argc, char **argv)
{
  const PetscInt sizes[] = {4, 8}, seeds = 5;
  char           file[PETSC_MAX_PATH_LEN] = "";
  PetscInt       begin, end, total = 0, lost = 0;
  PetscReal      bnorm;
  Mat            A;
  Vec            b, x;
  KSP            ksp;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(b, i, PetscSinReal(1.0 + 1.7 * (PetscReal)i), INSERT_VALUES));
  PetscCall(VecAssemble(b));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCNONE));
  PetscCall(KSPSetFromOptions(ksp));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    PetscCall(KSPIDRSSetShadowSize(ksp, sizes[is]));
    for (PetscInt seed = 0; seed < seeds; seed++) {
      for (PetscInt few = 0; few < 2; few++) { /* enough restarts, and none */
        KSPConvergedReason reason;
        PetscReal          norm;
        PetscInt           restarts;

        PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
        PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, few ? 0 : 10));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 10000));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        total += restarts;
        if (!few && !(reason > 0)) lost++;
        PetscCall(ComplainIf(reason > 0 && !(norm <= 1.01 * rtol * bnorm),
                             "s = %" INT ", seed %" INT ": converged, and the norm of b - A x is %g of %g", sizes[is], seed,
                             (double)norm, (double)bnorm));
        PetscCall(ComplainIf(reason < 0 && !(norm <= bnorm),
                             "s = %" INT ", seed %" INT ": %s with a solution worse than none, %g of %g", sizes[is], seed,
                             KSPConvergedReasons[reason], (double)norm, (double)bnorm));
        PetscCall(ComplainIf(few && restarts, "s = %" INT ", seed %" INT ": %" INT " restarts where none are allowed", sizes[is],
                             seed, restarts));
      }
    }
  }
  /* the iteration of a breakdown depends on the rounding errors of matvecs and sums: one of the ten may give up */
  PetscCall(ComplainIf(lost > 1, "%" INT " solves of 10 have not converged", lost));
  PetscCall(ComplainIf(!total, "there was no restart"));
  PetscCall(Verdict("restarts"));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/watt_1.mtx.gz

TEST*/
