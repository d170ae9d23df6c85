static char help[] = "Reads a matrix into host memory and solves with it on a GPU, with less GPU memory than the matrix.\n\
  -f file        the matrix, in a format of linearsystem.h\n\
  -part 0.25     memory of the GPU for the matrix, as a part of its 12 bytes a nonzero\n\n";

/*
   A matrix of type aijstream stays in host memory. Each product with vectors on the GPU copies it there in chunks of rows, except
   those chunks that stay in the memory of -mat_stream_memory. So a solver should need few products:

       ./ex13 -dll_append path/libpetscidrs.so -f matrix.mtx.gz -ksp_type idrs -pc_type poly -pc_poly_degree 16 -ksp_view

   If a copy of the matrix in low precision fits on the GPU, PCPOLY uses it for most products of an iteration; otherwise it makes
   many products in one pass over the matrix.

   Without a GPU the same program runs on the host, as with -mat_type aij.

   Options that matter:
     -part 0.25                    at most a quarter of the matrix on the GPU; -mat_stream_memory bytes sets it directly
     -mat_stream_chunk 64e6        bytes of a chunk of rows: here it is a 50th of the matrix
     -ksp_idrs_s 1                 fewer vectors, if these fill the memory of the GPU
*/
#include <petscksp.h>
#include "linearsystem.h"

/* Sets an option, unless the command line sets it */
static PetscErrorCode SetDefault(const char name[], PetscReal bytes)
{
  PetscBool set;
  char      value[32];

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsHasName(NULL, NULL, name, &set));
  PetscCall(PetscSNPrintf(value, sizeof(value), "%.0f", (double)bytes));
  if (!set) PetscCall(PetscOptionsSetValue(NULL, name, value));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Mat                A;
  Vec                b, x, r;
  KSP                ksp;
  KSPConvergedReason reason;
  MatInfo            info;
  PetscReal          part   = 0.25, norm, bnorm;
  PetscBool          loaded = PETSC_FALSE;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-part", &part, NULL));
  PetscCall(LinearSystemLoad(PETSC_COMM_WORLD, &A, NULL, NULL, 0, &loaded));
  if (!loaded) {
    PetscCall(PetscFinalize());
    return 1;
  }

  /* The matrix is converted in place; from then on its vectors are on the GPU */
  PetscCall(MatGetInfo(A, MAT_GLOBAL_MAX, &info));
  PetscCall(SetDefault("-mat_stream_memory", PetscMax(12.0 * part * info.nz_used, 1.0)));
  PetscCall(SetDefault("-mat_stream_chunk", PetscMax(12.0 * info.nz_used / 50.0, 1.0)));
  PetscCall(MatConvert(A, "aijstream", MAT_INPLACE_MATRIX, &A));
  PetscCall(PetscOptionsSetValue(NULL, "-mat_type", "aijstream"));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecSet(x, 1.0));
  PetscCall(MatMult(A, x, b));
  PetscCall(VecSet(x, 0.0));

  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAXPY(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &norm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s, the residual is %s\n", reason > 0 ? "Converged" : "Not converged",
                        norm <= 1.1e-8 * bnorm ? "small" : "large"));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # a residual of 1e-8 is below the attainable accuracy of single precision
  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz -ksp_type idrs -pc_type poly -pc_poly_degree {{8 16}} -part 0.9

TEST*/
