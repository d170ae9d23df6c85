static char help[] = "KSPIDRS on singular systems with the null spaces that PETSc attaches to a matrix, of the matrix and of its\n\
transpose.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* Returns scales of the rows, so that the null space of the transpose differs from the null space of the matrix */
static PetscReal Scale(PetscInt i)
{
  return 1.0 + 0.1 * (i % 5);
}

/* Diffusion with free ends, with scaled rows */
static PetscScalar Neumann(PetscInt i, PetscInt j, PetscInt n)
{
  PetscInt neighbours = 0;

  if (i != j) return (PetscAbsInt(i - j) == LINE || (PetscAbsInt(i - j) == 1 && i / LINE == j / LINE)) ? -Scale(i) : 0.0;
  if (i >= LINE) neighbours++;
  if (i < n - LINE) neighbours++;
  if (i % LINE) neighbours++;
  if ((i + 1) % LINE) neighbours++;
  return Scale(i) * (PetscReal)neighbours;
}

/* Convection and diffusion around two circles, with scaled rows */
static PetscScalar Torus(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt right = (i + 1) % LINE + i / LINE * LINE, left = (i + LINE - 1) % LINE + i / LINE * LINE;

  if (i == j) return Scale(i) * 4.0;
  if (j == right) return Scale(i) * -1.7;
  if (j == left) return Scale(i) * -0.3;
  if (j == (i + LINE) % n) return Scale(i) * -0.8;
  return j == (i + n - LINE) % n ? Scale(i) * -1.2 : 0.0;
}

static const struct {
  const char *name;
  Entry      *entry;
} singular[] = {
  {"diffusion, scaled rows", Neumann},
  {"torus, scaled rows",     Torus  }
};

/* Creates the null spaces of the matrix, which are the constants, and of its transpose */
static PetscErrorCode SpacesCreate(Mat A, MatNullSpace *space, MatNullSpace *transposed)
{
  PetscInt     begin, end;
  PetscScalar *array;
  Vec          w;

  PetscFunctionBeginUser;
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, space));
  PetscCall(MatCreateVecs(A, NULL, &w));
  PetscCall(VecGetOwnershipRange(w, &begin, &end));
  PetscCall(VecGetArrayWrite(w, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = 1.0 / Scale(i);
  PetscCall(VecRestoreArrayWrite(w, &array));
  PetscCall(VecNormalize(w, NULL));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_FALSE, 1, &w, transposed));
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ways to make the system consistent */
typedef enum {
  WAY_PRODUCT,   /* b = A times a vector */
  WAY_REMOVED,   /* MatNullSpaceRemove() from b */
  WAY_ATTACHED,  /* MatSetTransposeNullSpace(), b as it is */
  WAY_TRANSPOSE, /* KSPSolveTranspose(), b as it is, with the null space of A attached */
  WAYS
} Way;
static const char *const ways[] = {"b in the range", "b projected", "null space of the transpose attached", "transpose"};

/* The reason is true for the part of b in the range; on the left PETSc removes the null space from x */
static PetscErrorCode TestSingular(void)
{
  PetscFunctionBeginUser;
  for (size_t im = 0; im < PETSC_STATIC_ARRAY_LENGTH(singular); im++) {
    Mat          A, T;
    MatNullSpace space, transposed;
    Vec          b, x;

    PetscCall(MatCreateEntries(singular[im].entry, ROWS, PETSC_FALSE, &A));
    PetscCall(MatCreateEntries(singular[im].entry, ROWS, PETSC_TRUE, &T));
    PetscCall(SpacesCreate(A, &space, &transposed));
    PetscCall(MatCreateVecs(A, &x, &b));
    for (Way way = WAY_PRODUCT; way < WAYS; way++) {
      PetscCall(MatSetNullSpace(A, space));
      PetscCall(MatSetTransposeNullSpace(A, way == WAY_ATTACHED ? transposed : NULL));
      for (PetscInt i = 0; i < VARIANTS; i++) {
        KSPConvergedReason reason;
        PetscReal          norm, reference, part = 0.0, xnorm;
        Mat                B = way == WAY_TRANSPOSE ? T : A;
        Variant            variant;
        KSP                ksp;

        PetscCall(VecSetGeneral(b, 1.0));
        if (way == WAY_PRODUCT) {
          PetscCall(VecSetGeneral(x, 0.4));
          PetscCall(MatMult(A, x, b));
        } else if (way == WAY_REMOVED) PetscCall(MatNullSpaceRemove(transposed, b));
        PetscCall(VariantCreate(A, i, &variant, &ksp));
        if (way == WAY_TRANSPOSE) PetscCall(KSPSolveTranspose(ksp, b, x));
        else PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));

        if (way == WAY_ATTACHED) PetscCall(MatNullSpaceRemove(transposed, b));
        if (way == WAY_TRANSPOSE) PetscCall(MatNullSpaceRemove(space, b));
        PetscCall(OperatorNorm(ksp, B, b, NULL, &reference));
        PetscCall(OperatorNorm(ksp, B, b, x, &norm));
        if (variant.side == PC_LEFT && way != WAY_TRANSPOSE) {
          PetscScalar sum;

          PetscCall(VecSum(x, &sum));
          part = PetscAbsScalar(sum) / PetscSqrtReal(ROWS);
        }
        PetscCall(VecNorm(x, NORM_2, &xnorm));
        PetscCall(KSPDestroy(&ksp));
        PetscCall(ComplainIf(!(reason > 0) || !(norm <= 1.01 * rtol * reference), "%s, %s, %s: %s, norm %g of %g",
                             singular[im].name, ways[way], variant.what, KSPConvergedReasons[reason], (double)norm,
                             (double)reference));
        PetscCall(ComplainIf(!(part <= 1e5 * PETSC_MACHINE_EPSILON * xnorm), "%s, %s, %s: of x, %g, %g is in the null space",
                             singular[im].name, ways[way], variant.what, (double)xnorm, (double)part));
      }
    }
    PetscCall(DestroyAll(&space, &transposed, &b, &x, &A, &T));
    PetscCall(Verdict(singular[im].name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSingular, NULL})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
