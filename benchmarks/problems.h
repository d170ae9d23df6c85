/*
   Generated systems on which Krylov solvers often fail: five-point stencils on a square grid
*/
#pragma once

#include <petscmat.h>

typedef struct {
  const char *name;
  PetscReal   peclet;  /* of the mesh, wind (1,1): central differences */
  PetscReal   shift;   /* h^2 times what is subtracted from the operator: above 2 (pi h)^2 it is indefinite */
  PetscReal   absorb;  /* h times what is added on the boundary, times i where scalars are complex */
  PetscReal   decades; /* rows are scaled by up to this power of ten, up and down */
} Problem;

static const Problem problems[] = {
  {"reaction",   0.5, 0.3, 0.0, 0.0}, /* convection, diffusion and reaction, indefinite */
  {"helmholtz",  0.0, 0.3, 0.5, 0.0}, /* waves, which leave through the boundary */
  {"convection", 20., 0.0, 0.0, 0.0}, /* nearly skew-symmetric */
  {"rows",       0.5, 0.0, 0.0, 6.0}, /* badly scaled */
};

#define PROBLEM_POINTS 40 /* in each direction */

/* *A = NULL if there is none of that name */
static PetscErrorCode MatCreateProblem(MPI_Comm comm, const char name[], Mat *A)
{
  const PetscInt n       = PROBLEM_POINTS;
  const Problem *problem = NULL;
  PetscInt       begin, end;

  PetscFunctionBeginUser;
  *A = NULL;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(problems); i++) {
    PetscBool same;

    PetscCall(PetscStrcmp(problems[i].name, name, &same));
    if (same) problem = &problems[i];
  }
  if (!problem) PetscFunctionReturn(0);
  PetscCall(MatCreate(comm, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetUp(*A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt  step[2] = {1, n}, place[2] = {row % n, row / n};
    const PetscReal scale    = PetscPowReal(10.0, problem->decades * PetscSinReal(1.7 * (PetscReal)row * (PetscReal)row));
    PetscScalar     diagonal = 4.0 - problem->shift;

    for (PetscInt d = 0; d < 2; d++) {
      for (PetscInt side = -1; side <= 1; side += 2) {
        const PetscInt other = place[d] + side;

        if (other >= 0 && other < n)
          PetscCall(MatSetValue(*A, row, row + side * step[d], scale * (-1.0 + side * problem->peclet), INSERT_VALUES));
#if PetscDefined(USE_COMPLEX)
        else diagonal += PETSC_i * problem->absorb;
#else
        else diagonal += problem->absorb;
#endif
      }
    }
    PetscCall(MatSetValue(*A, row, row, scale * diagonal, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}
