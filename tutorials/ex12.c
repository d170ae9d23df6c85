static char help[] = "Catalyst particles of many sizes in a reactor, each with a system of its own.\n\
  -particles n   number of particles (default 200)\n\
  -steps n       time steps (default 6)\n\n";

/*
   A substance A diffuses into spherical particles and reacts there, A <-> B -> C. With the concentrations c of A, B and C in a
   particle

       dc/dt = 1/r^2 d/dr (D r^2 dc/dr) + K(T) c,   c = c0 at its surface

   in shells of the same thickness, and by implicit Euler steps: (I - dt (L + K)) c_new = c_old, plus the inflow at the surface.
   Large particles have more shells. Those in a hot place of the reactor react faster, and their systems are harder to solve.

   All systems are diagonal blocks of one matrix, which the program does not declare. The plugin finds the blocks and solves each to
   its own tolerance:

       ./ex12 -dll_append path/libpetscidrs.so -ksp_type preonly -pc_type bjidrs -pc_bjidrs_ksp_rtol 1e-8 -ksp_view

   A solver for the whole matrix makes as many iterations for all particles as the worst of them needs: compare with -ksp_type idrs
   -pc_type jacobi, gmres or bcgs. On a CPU -pc_type lu is faster for systems with as few diagonals as these.

   Options that matter:
     -pc_type bjidrs                   IDR(s) for each block that it finds in the pattern of the matrix
     -pc_bjidrs_ksp_rtol 1e-8          tolerance of each system
     -particles 200                    number of systems
*/
#include <petscksp.h>

#define SPECIES 3

typedef struct {
  PetscInt  shells;
  PetscReal radius, temperature; /* in millimetres, and relative to the coldest place */
} Particle;

/* Returns small and large particles, in cold and hot places */
static Particle GetParticle(PetscInt number)
{
  Particle particle;

  particle.shells      = 4 + (7 * number) % 60;
  particle.radius      = 0.05 * (PetscReal)particle.shells;
  particle.temperature = 1.0 + 0.5 * (PetscReal)((3 * number) % 101) / 101.0;
  return particle;
}

/* Adds the rows of one particle, which begin at row first */
static PetscErrorCode AddParticle(Mat A, PetscInt first, const Particle *particle, PetscReal dt)
{
  const PetscReal diffusion[SPECIES] = {1.0, 0.5, 0.7}, h = particle->radius / (PetscReal)particle->shells;
  const PetscReal forward = 50.0 * PetscExpReal(20.0 * (1.0 - 1.0 / particle->temperature)), back = 0.2 * forward,
                  onward              = 0.05 * forward;
  const PetscReal K[SPECIES][SPECIES] = {
    {-forward, back,             0.0},
    {forward,  -(back + onward), 0.0},
    {0.0,      onward,           0.0}
  };

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < particle->shells; i++) {
    const PetscReal inner = (PetscReal)i * h, outer = (PetscReal)(i + 1) * h,
                    volume = (outer * outer * outer - inner * inner * inner) / 3.0;

    for (PetscInt k = 0; k < SPECIES; k++) {
      const PetscInt  row     = first + SPECIES * i + k;
      const PetscReal inward  = diffusion[k] * inner * inner / (h * volume),
                      outward = diffusion[k] * outer * outer / (h * volume) * (i + 1 < particle->shells ? 1.0 : 2.0);
      PetscInt    columns[SPECIES + 2], count = SPECIES;
      PetscScalar values[SPECIES + 2];

      for (PetscInt l = 0; l < SPECIES; l++) {
        columns[l] = first + SPECIES * i + l;
        values[l]  = -dt * K[k][l] + (k == l ? 1.0 + dt * (inward + outward) : 0.0);
      }
      if (i > 0) {
        columns[count]  = row - SPECIES;
        values[count++] = -dt * inward;
      }
      if (i + 1 < particle->shells) {
        columns[count]  = row + SPECIES;
        values[count++] = -dt * outward;
      }
      PetscCall(MatSetValues(A, 1, &row, count, columns, values, INSERT_VALUES));
    }
  }
  PetscFunctionReturn(0);
}

/* Adds the inflow through the surface, where there is A but no B and no C */
static PetscErrorCode AddSurface(Vec b, PetscInt first, const Particle *particle, PetscReal dt)
{
  const PetscReal h = particle->radius / (PetscReal)particle->shells, R = particle->radius,
                  volume = (R * R * R - (R - h) * (R - h) * (R - h)) / 3.0;

  PetscFunctionBeginUser;
  PetscCall(VecSetValue(b, first + SPECIES * (particle->shells - 1), dt * 2.0 * R * R / (h * volume), ADD_VALUES));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt    particles = 200, steps = 6, n = 0, first, solved = 0;
  PetscReal   dt = 1e-3, worst = 0.0;
  PetscMPIInt rank, size;
  Mat         A;
  Vec         b, c, r;
  KSP         ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-particles", &particles, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-steps", &steps, NULL));
  PetscCheck(particles >= 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE, "-particles %" PetscInt_FMT ": must not be negative",
             particles);
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));

  /* each particle is on one process */
  for (PetscInt p = rank * particles / size; p < (rank + 1) * particles / size; p++) n += SPECIES * GetParticle(p).shells;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, n, n, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSeqAIJSetPreallocation(A, SPECIES + 2, NULL));
  PetscCall(MatMPIAIJSetPreallocation(A, SPECIES + 2, NULL, 0, NULL));
  PetscCall(MatSetUp(A));
  PetscCall(MatGetOwnershipRange(A, &first, NULL));
  PetscCall(MatCreateVecs(A, &c, &b));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetTolerances(ksp, 1e-7, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetFromOptions(ksp));

  for (PetscInt step = 0; step < steps; step++, dt *= 2.0) {
    KSPConvergedReason reason;
    PetscReal          bnorm, rnorm;
    PetscInt           row = first;

    PetscCall(VecCopy(c, b));
    for (PetscInt p = rank * particles / size; p < (rank + 1) * particles / size; p++) {
      const Particle particle = GetParticle(p);

      PetscCall(AddParticle(A, row, &particle, dt));
      PetscCall(AddSurface(b, row, &particle, dt));
      row += SPECIES * particle.shells;
    }
    PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    PetscCall(VecAssemblyBegin(b));
    PetscCall(VecAssemblyEnd(b));
    PetscCall(KSPSolve(ksp, b, c));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(MatMult(A, c, r));
    PetscCall(VecAYPX(r, -1.0, b));
    PetscCall(VecNorm(b, NORM_2, &bnorm));
    PetscCall(VecNorm(r, NORM_2, &rnorm));
    if (reason > 0) solved++;
    if (bnorm > 0.0) worst = PetscMax(worst, rnorm / bnorm);
  }
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " of %" PetscInt_FMT " steps solved, residuals %s\n", solved, steps,
                        worst <= PetscMax(1e-6, 1e4 * PETSC_MACHINE_EPSILON) ? "small" : "too large"));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&c));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # single precision attains 1e-4
  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}
    args: -ksp_type preonly -pc_type bjidrs -pc_bjidrs_ksp_rtol 1e-7 -pc_bjidrs_ksp_idrs_s {{2 4}}

  test:
    suffix: whole
    requires: double
    args: -ksp_type {{idrs gmres}} -ksp_pc_side right -pc_type {{jacobi bjidrs}} -ksp_max_it 20000 -particles 50
    output_file: output/ex12_1.out

  test:
    suffix: single
    requires: single
    args: -ksp_type {{idrs gmres}} -ksp_pc_side right -pc_type {{jacobi bjidrs}} -ksp_max_it 20000 -particles 50 -ksp_rtol 1e-4
    output_file: output/ex12_1.out

TEST*/
