static char
  help[] = "100 solves of a system, by ten solvers, have the same bits in the solution and in the norms: with each product,\n\
stepwise and in the persistent kernel of a GPU, with several preconditioners, and with several right-hand\n\
sides. -ksp_view says for which operations this holds.\n\n";

#include "columns.h"

#define SOLVERS 10
#define SOLVES  10
#define COLUMNS 4

typedef struct {
  const char *name, *options;
  PetscInt    columns; /* 0: KSPSolve() */
} Path;

static const Path paths[] = {
  {"automatic choices",      "",                                                          0      },
  {"stepwise",               "-ksp_idrs_run stepwise",                                    0      },
  {"product mat",            "-ksp_idrs_product mat",                                     0      },
  {"left preconditioner",    "-pc_type jacobi -ksp_pc_side left",                         0      },
  {"smoothing",              "-pc_type jacobi -ksp_idrs_smoothing",                       0      },
  {"polynomial",             "-pc_type poly -pc_poly_degree 6",                           0      },
  {"polynomial of a copy",   "-pc_type poly -pc_poly_degree 6 -pc_poly_precision single", 0      },
  {"solves of parts",        "-pc_type bjidrs",                                           0      },
  {"aggregation",            "-pc_type aggregation",                                      0      },
  {"right-hand sides",       "-pc_type jacobi",                                           COLUMNS},
  {"block of them",          "-pc_type jacobi -ksp_idrs_block",                           COLUMNS},
  {"block with polynomials", "-pc_type poly -pc_poly_degree 6 -ksp_idrs_block",           COLUMNS},
};

static PetscErrorCode TestPath(const Path *path, PetscInt points)
{
  PetscReal *first = NULL;
  PetscInt   kept  = 0;
  Mat        A, B, X, Y;
  Vec        b, x, y;
  KSP        ksp = NULL;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, points, 0.5, LAYOUT_UNEVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  PetscCall(MatDuplicate(X, MAT_DO_NOT_COPY_VALUES, &Y));
  for (PetscInt run = 0; run < SOLVERS * SOLVES; run++) {
    const PetscReal *norms;
    PetscInt         count;
    PetscBool        same;

    if (run % SOLVES == 0) {
      PetscOptions database;

      PetscCall(OptionsPush(path->options, &database));
      PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(OptionsPop(&database));
      PetscCall(KSPSetResidualHistory(ksp, NULL, PETSC_DECIDE, PETSC_TRUE));
    }
    if (path->columns) PetscCall(KSPMatSolve(ksp, B, run ? Y : X));
    else PetscCall(KSPSolve(ksp, b, run ? y : x));
    PetscCall(KSPGetResidualHistory(ksp, &norms, &count));
    if (!run) {
      kept = count;
      PetscCall(PetscMalloc1(kept, &first));
      PetscCall(PetscArraycpy(first, norms, kept));
    } else {
      if (path->columns) PetscCall(MatEqual(X, Y, &same));
      else PetscCall(VecEqual(x, y, &same));
      PetscCall(ComplainIf(!same, "%s: the solution of run %" INT " has other bits", path->name, run));
      PetscCall(PetscArraycmp(first, norms, PetscMin(count, kept), &same));
      PetscCall(ComplainIf(!same || count != kept, "%s: the norms of run %" INT " have other bits", path->name, run));
    }
    if ((run + 1) % SOLVES == 0) PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(PetscFree(first));
  PetscCall(DestroyAll(&X, &Y, &B, &y, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A system of one block of a kernel, and one of many */
static PetscErrorCode TestBits(void)
{
  PetscFunctionBeginUser;
  PetscCall(RepeatSums());
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(paths); i++) {
    PetscCall(TestPath(&paths[i], 13));
    PetscCall(TestPath(&paths[i], 50));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* -ksp_view names the preconditioner if the bits depend on operations of PETSc */
static PetscErrorCode TestView(void)
{
  const char *const pctypes[] = {PCNONE, PCPOLY, PCBJACOBI};
  Mat               A;
  Vec               b, x;
  KSP               ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(13, 0.5, &A, &b, &x));
  for (int i = 0; i < 3; i++) {
    PetscCall(SolverCreate(A, 4, pctypes[i], &ksp));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckView(ksp, "repeated solves have the same bits", 1));
    PetscCall(CheckView(ksp, "the preconditioner bjacobi do", i == 2));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestBits, "bits of repeated solves"}, {TestView, "what the view says"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
