static char help[] = "Sequences of linear systems with and without -ksp_idrs_recycle: matvecs of the solves after the first, as a\n\
fraction of those of solves that recycle nothing. For each sequence, preconditioner and s it prints both numbers for the first\n\
seed, the median of the ratio over the seeds, its least and largest value, the least microseconds of a matvec with all other\n\
work of the solves, without and with recycling, and the number of solves that have not converged or whose true\n\
residual is above 1.1 times the tolerance.\n\
  -matrices dir        directory of stommel4, orsreg_1, sherman1, add32, watt_1 and memplus, Matrix Market files NAME.mtx.gz\n\
  -systems dir         directory of stommel2, pitzDaily_p and drift32, PETSc's binary files NAME.mat.gz and NAME.rhs.gz\n\
  -names a,b,c         sequences (default: all whose files are there)\n\
  -pcs a,b             preconditioners, for all sequences (default: those of each sequence)\n\
  -s a,b               numbers of shadow vectors (default 4,8)\n\
  -seeds k             number of seeds (default 5)\n\
  -recycle auto|always when the solves recycle (default auto)\n\
  -verbose             print the matvecs of each solve\n\
Tolerance: -ksp_rtol (default 1e-8).\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "../tutorials/matrixmarket.h"
#include "../tutorials/petscbinary.h"
#include "preconditioner.h"

#define MAX_SOLVES 32
#define MAX_SEEDS  32

typedef enum {
  FROM_COLUMNS,   /* right-hand sides from a file */
  FROM_RANDOM,    /* the one of a binary file, then A times random vectors */
  FROM_TRANSPOSE, /* A and its transpose in turn, with the right-hand sides of a file */
  FROM_GRID       /* implicit time steps on a grid */
} Source;

/* A sequence. Grids: dt of step i is dt (1 + vary sin i) grow^i, and the wind turns by `turn` in each step */
typedef struct {
  const char *name, *file, *pcs;
  Source      source;
  PetscInt    solves, dimension, points;
  PetscReal   wind, dt, vary, grow, turn, reaction;
} Sequence;

static const Sequence sequences[] = {
  {"stommel4",     "stommel4",    "jacobi,ilu", FROM_COLUMNS,   12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"stommel2",     "stommel2",    "jacobi,ilu", FROM_COLUMNS,   12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"steps2",       NULL,          "jacobi,ilu", FROM_GRID,      16, 2, 120, 20,  .2,   0,  1,   0,   0  },
  {"steps2-vary",  NULL,          "jacobi,ilu", FROM_GRID,      16, 2, 120, 20,  .2,   .3, 1,   0,   0  },
  {"steps2-grow",  NULL,          "ilu",        FROM_GRID,      16, 2, 120, 20,  .01,  0,  1.3, 0,   0  },
  {"pitzDaily_p",  "pitzDaily_p", "ilu",        FROM_RANDOM,    6,  0, 0,   0,   0,    0,  0,   0,   0  },
  {"drift32",      "drift32",     "ilu",        FROM_RANDOM,    6,  0, 0,   0,   0,    0,  0,   0,   0  },
  {"transposes",   "stommel4",    "jacobi",     FROM_TRANSPOSE, 12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"sherman1",     "sherman1",    "jacobi,ilu", FROM_RANDOM,    12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"orsreg_1",     "orsreg_1",    "jacobi,ilu", FROM_RANDOM,    12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"add32",        "add32",       "jacobi",     FROM_RANDOM,    12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"steps3",       NULL,          "none",       FROM_GRID,      16, 3, 24,  200, .01,  0,  1,   0,   0  },
  {"steps3-long",  NULL,          "none",       FROM_GRID,      16, 3, 24,  200, 1,    0,  1,   0,   0  },
  {"steps3-weak",  NULL,          "none,ilu",   FROM_GRID,      12, 3, 32,  40,  1,    0,  1,   0,   0  },
  {"steps3-vary",  NULL,          "none",       FROM_GRID,      16, 3, 24,  200, .01,  .3, 1,   0,   0  },
  {"steps3-turn",  NULL,          "none",       FROM_GRID,      16, 3, 24,  200, .1,   0,  1,   .01, 0  },
  {"steps3-grow",  NULL,          "none",       FROM_GRID,      16, 3, 24,  200, .001, 0,  1.5, 0,   0  },
  {"steps3-turn1", NULL,          "none",       FROM_GRID,      16, 3, 24,  200, .1,   0,  1,   .1,  0  },
  {"watt_1",       "watt_1",      "jacobi",     FROM_RANDOM,    12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"memplus",      "memplus",     "jacobi",     FROM_RANDOM,    12, 0, 0,   0,   0,    0,  0,   0,   0  },
  {"poisson3",     NULL,          "none",       FROM_RANDOM,    12, 3, 32,  0,   0,    0,  1,   0,   0  },
  {"reaction3",    NULL,          "none",       FROM_RANDOM,    12, 3, 20,  250, 0,    0,  1,   0,   400},
  {"helmholtz2",   NULL,          "none,ilu",   FROM_RANDOM,    12, 2, 80,  0,   0,    0,  1,   0,   400},
};

/* The system of this moment */
typedef struct {
  const Sequence *seq;
  Mat             L, A; /* the operator of a grid without the term of time, and the operator */
  Vec             b, x, file;
  PetscReal       dt, time;
  PetscRandom     random;
  char            path[PETSC_MAX_PATH_LEN];
} System;

/* Matvecs of the last solve */
static PetscErrorCode Matvecs(KSP ksp, PetscInt *matvecs)
{
  PetscErrorCode (*counts)(KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *);

  PetscFunctionBeginUser;
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp, "KSPIDRSGetCounts_C", &counts));
  PetscCall((*counts)(ksp, matvecs, NULL, NULL, NULL));
  PetscFunctionReturn(0);
}

/*
   -Laplace u + wind . grad u - reaction u with central differences, times h^2. In two dimensions the wind recirculates. In three
   dimensions it blows in one direction
*/
static PetscErrorCode GridOperator(const Sequence *seq, PetscReal angle, Mat A)
{
  const PetscInt  m = seq->points, d = seq->dimension, step[3] = {1, m, m * m};
  const PetscReal h = 1.0 / (PetscReal)(m + 1), peclet = 0.5 * seq->wind * h;
  PetscInt        begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt  place[3] = {row % m, (row / m) % m, row / (m * m)};
    const PetscReal x = 2.0 * h * (PetscReal)(place[0] + 1) - 1.0, y = 2.0 * h * (PetscReal)(place[1] + 1) - 1.0;
    const PetscReal wind[3] = {d == 2 ? 2.0 * y * (1.0 - x * x) : PetscCosReal(angle),
                               d == 2 ? -2.0 * x * (1.0 - y * y) : PetscSinReal(angle), 0.0};

    PetscCall(MatSetValue(A, row, row, 2.0 * (PetscReal)d - seq->reaction * h * h, INSERT_VALUES));
    for (PetscInt i = 0; i < d; i++) {
      if (place[i] > 0) PetscCall(MatSetValue(A, row, row - step[i], -1.0 - peclet * wind[i], INSERT_VALUES));
      if (place[i] < m - 1) PetscCall(MatSetValue(A, row, row + step[i], -1.0 + peclet * wind[i], INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

static PetscErrorCode GridCreate(const Sequence *seq, Mat *A)
{
  const PetscInt N = seq->dimension == 2 ? seq->points * seq->points : seq->points * seq->points * seq->points;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 7, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 7, NULL, 3, NULL));
  PetscCall(MatSetUp(*A));
  PetscCall(GridOperator(seq, 0.3, *A));
  PetscFunctionReturn(0);
}

/* b = h^2 f + (h^2 / dt) x, where the source f is a bell that moves */
static PetscErrorCode GridRHS(System *sys)
{
  const Sequence *seq = sys->seq;
  const PetscInt  m = seq->points, d = seq->dimension;
  const PetscReal h = 1.0 / (PetscReal)(m + 1), turn = (d == 2 ? 3.0 : 30.0) * sys->time;
  const PetscReal middle[3] = {0.5 + 0.3 * PetscCosReal(turn), 0.5 + 0.3 * PetscSinReal(turn), 0.5};
  PetscInt        begin, end;
  PetscScalar    *b;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(sys->b, &begin, &end));
  PetscCall(VecGetArrayWrite(sys->b, &b));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt place[3] = {row % m, (row / m) % m, row / (m * m)};
    PetscReal      square   = 0.0;

    for (PetscInt i = 0; i < d; i++) square += PetscSqr((PetscReal)(place[i] + 1) * h - middle[i]);
    b[row - begin] = h * h * PetscExpReal(-40.0 * square);
  }
  PetscCall(VecRestoreArrayWrite(sys->b, &b));
  PetscCall(VecAXPY(sys->b, h * h / sys->dt, sys->x));
  PetscFunctionReturn(0);
}

/* The right-hand side of a file: column i, or NAME.rhs, NAME.rhs2, ... */
static PetscErrorCode FileRHS(System *sys, PetscInt i)
{
  char      name[PETSC_MAX_PATH_LEN], number[16] = "";
  PetscBool binary;

  PetscFunctionBeginUser;
  PetscCall(PetscStrendswith(sys->path, ".mat.gz", &binary));
  PetscCall(PetscStrncpy(name, sys->path, sizeof(name)));
  name[strlen(name) - 7] = '\0'; /* .mat.gz or .mtx.gz */
  if (!binary) {
    PetscCall(PetscStrlcat(name, "_b.mtx.gz", sizeof(name)));
    PetscCall(VecLoadFile(sys->b, name, MatrixMarketRead, i));
    PetscFunctionReturn(0);
  }
  if (i) PetscCall(PetscSNPrintf(number, sizeof(number), "%" PetscInt_FMT, i + 1));
  PetscCall(PetscStrlcat(name, ".rhs", sizeof(name)));
  PetscCall(PetscStrlcat(name, number, sizeof(name)));
  PetscCall(PetscStrlcat(name, ".gz", sizeof(name)));
  PetscCall(VecLoadPetscBinary(sys->b, name, 0, &binary));
  PetscFunctionReturn(0);
}

/* Operator and right-hand side number i, after x has been solved for */
static PetscErrorCode SystemNext(System *sys, PetscInt i)
{
  const Sequence *seq   = sys->seq;
  const PetscReal h     = 1.0 / (PetscReal)(seq->points + 1);
  const PetscBool first = (PetscBool)(i == 0);
  PetscBool       own;

  PetscFunctionBeginUser;
  if (seq->source == FROM_GRID) {
    sys->dt = seq->dt * (1.0 + seq->vary * PetscSinReal((PetscReal)i)) * PetscPowReal(seq->grow, (PetscReal)i);
    sys->time += sys->dt;
    if (seq->turn != 0.0) PetscCall(GridOperator(seq, 0.3 + seq->turn * (PetscReal)i, sys->L));
    if (first || seq->turn != 0.0 || seq->vary != 0.0 || seq->grow != 1.0) {
      PetscCall(MatCopy(sys->L, sys->A, SAME_NONZERO_PATTERN));
      PetscCall(MatShift(sys->A, h * h / sys->dt));
    }
    PetscCall(GridRHS(sys));
  } else if (seq->source == FROM_RANDOM) {
    PetscCall(PetscStrendswith(sys->path, ".mat.gz", &own));
    if (first && own) PetscCall(FileRHS(sys, 0));
    else {
      PetscCall(VecSetRandom(sys->file, sys->random));
      PetscCall(MatMult(sys->A, sys->file, sys->b));
    }
  } else PetscCall(FileRHS(sys, i));
  PetscFunctionReturn(0);
}

/* The sequence from its begin */
static PetscErrorCode SystemCreate(const Sequence *seq, const char path[], System *sys)
{
  PetscBool binary;

  PetscFunctionBeginUser;
  PetscCall(PetscMemzero(sys, sizeof(*sys)));
  sys->seq = seq;
  if (!seq->file) {
    PetscCall(GridCreate(seq, &sys->L));
    PetscCall(MatDuplicate(sys->L, MAT_COPY_VALUES, &sys->A));
  } else {
    PetscCall(PetscStrncpy(sys->path, path, sizeof(sys->path)));
    PetscCall(PetscStrendswith(path, ".mat.gz", &binary));
    if (binary) PetscCall(MatLoadPetscBinary(PETSC_COMM_WORLD, path, &sys->A, &binary));
    else PetscCall(MatLoadFile(PETSC_COMM_WORLD, path, MatrixMarketRead, &sys->A));
  }
  PetscCall(MatCreateVecs(sys->A, &sys->x, &sys->b));
  PetscCall(VecDuplicate(sys->x, &sys->file));
  PetscCall(PetscRandomCreate(PETSC_COMM_WORLD, &sys->random));
  PetscFunctionReturn(0);
}

static PetscErrorCode SystemDestroy(System *sys)
{
  PetscFunctionBeginUser;
  PetscCall(PetscRandomDestroy(&sys->random));
  PetscCall(VecDestroy(&sys->x));
  PetscCall(VecDestroy(&sys->b));
  PetscCall(VecDestroy(&sys->file));
  PetscCall(MatDestroy(&sys->A));
  PetscCall(MatDestroy(&sys->L));
  PetscFunctionReturn(0);
}

/* A solver with these settings and the options of the command line */
static PetscErrorCode SolverCreate(Mat A, const char pcname[], PetscInt s, PetscInt seed, const char recycle[], KSP *ksp)
{
  char text[32];
  PC   pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, "idrs"));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%" PetscInt_FMT, s));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_s", text));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%" PetscInt_FMT, seed));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_seed", text));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_recycle", recycle));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(SetPC(pc, pcname));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 20000));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscFunctionReturn(0);
}

/*
   Solves the sequence from x = 0 each time. Returns the matvecs of each solve, the seconds of all solves but the first and the
   number of solves that are wrong
*/
static PetscErrorCode SolveSequence(System *sys, KSP ksp, PetscInt matvecs[], PetscReal *seconds, PetscInt *wrong)
{
  PetscReal          rtol, bnorm, rnorm;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  *wrong    = 0;
  *seconds  = 0.0;
  sys->time = 0.0;
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(PetscRandomSetSeed(sys->random, 7));
  PetscCall(PetscRandomSeed(sys->random));
  PetscCall(VecSet(sys->x, 0.0));
  for (PetscInt i = 0; i < sys->seq->solves; i++) {
    const PetscBool transpose = (PetscBool)(sys->seq->source == FROM_TRANSPOSE && i % 2);
    PetscLogDouble  begin = 0, end = 0;

    PetscCall(SystemNext(sys, i));
    PetscCall(KSPSetUp(ksp));
    PetscCall(PetscTime(&begin));
    if (transpose) PetscCall(KSPSolveTranspose(ksp, sys->b, sys->x));
    else PetscCall(KSPSolve(ksp, sys->b, sys->x));
    PetscCall(PetscTime(&end));
    if (i) *seconds += (PetscReal)(end - begin);
    PetscCall(Matvecs(ksp, &matvecs[i]));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    if (transpose) PetscCall(MatMultTranspose(sys->A, sys->x, sys->file));
    else PetscCall(MatMult(sys->A, sys->x, sys->file));
    PetscCall(VecAYPX(sys->file, -1.0, sys->b));
    PetscCall(VecNorm(sys->file, NORM_2, &rnorm));
    PetscCall(VecNorm(sys->b, NORM_2, &bnorm));
    if (reason < 0 || !(rnorm <= 1.1 * rtol * bnorm)) (*wrong)++;
  }
  PetscFunctionReturn(0);
}

/* One row of the table. Solves with A and with its transpose both have a first solve */
static PetscErrorCode Row(System *sys, const char pcname[], PetscInt s, PetscInt seeds, const char recycle[], PetscBool verbose)
{
  const PetscInt first = sys->seq->source == FROM_TRANSPOSE ? 2 : 1;
  PetscReal      ratios[MAX_SEEDS], times[2] = {PETSC_MAX_REAL, PETSC_MAX_REAL};
  PetscInt       wrong = 0, sums[2] = {0, 0};

  PetscFunctionBeginUser;
  for (PetscInt seed = 0; seed < seeds; seed++) {
    PetscInt  matvecs[2][MAX_SOLVES], total[2] = {0, 0};
    PetscReal seconds;

    for (int way = 0; way < 2; way++) {
      PetscInt found;
      KSP      ksp;

      PetscCall(SolverCreate(sys->A, pcname, s, seed, way ? recycle : "never", &ksp));
      PetscCall(SolveSequence(sys, ksp, matvecs[way], &seconds, &found));
      PetscCall(KSPDestroy(&ksp));
      wrong += found;
      for (PetscInt i = first; i < sys->seq->solves; i++) total[way] += matvecs[way][i];
      times[way] = PetscMin(times[way], 1e6 * seconds / (PetscReal)(total[way] + (first == 2 ? matvecs[way][1] : 0)));
      if (verbose) {
        for (PetscInt i = 0; i < sys->seq->solves; i++)
          PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %" PetscInt_FMT, matvecs[way][i]));
        PetscCall(PetscPrintf(PETSC_COMM_WORLD, "\n"));
      }
    }
    ratios[seed] = (PetscReal)total[1] / (PetscReal)total[0];
    if (!seed) sums[0] = total[0], sums[1] = total[1];
  }
  PetscCall(PetscSortReal(seeds, ratios));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "%-12s %-7s %3" PetscInt_FMT " %6" PetscInt_FMT " %6" PetscInt_FMT
                        " %6.2f %6.2f %7.2f %7.1f %7.1f %6" PetscInt_FMT "\n",
                        sys->seq->name, pcname, s, sums[0], sums[1], (double)ratios[seeds / 2], (double)ratios[0],
                        (double)ratios[seeds - 1], (double)times[0], (double)times[1], wrong));
  PetscFunctionReturn(0);
}

/* The file of a sequence; found is PETSC_FALSE if it is not there */
static PetscErrorCode FindFile(const Sequence *seq, char path[], size_t length, PetscBool *found)
{
  const char *const options[] = {"-matrices", "-systems"}, *const ends[] = {".mtx.gz", ".mat.gz"};

  PetscFunctionBeginUser;
  *found = seq->file ? PETSC_FALSE : PETSC_TRUE;
  for (int i = 0; i < 2 && !*found; i++) {
    PetscBool set;

    PetscCall(PetscOptionsGetString(NULL, NULL, options[i], path, length, &set));
    if (!set) continue;
    PetscCall(PetscStrlcat(path, "/", length));
    PetscCall(PetscStrlcat(path, seq->file, length));
    PetscCall(PetscStrlcat(path, ends[i], length));
    PetscCall(PetscTestFile(path, 'r', found));
  }
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  char      names[1024] = "", pcs[256] = "", recycle[16] = "auto";
  PetscInt  sizes[16] = {4, 8}, nsizes = 16, seeds = 5;
  PetscBool set, all, given, verbose = PETSC_FALSE;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-names", names, sizeof(names), &all));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-pcs", pcs, sizeof(pcs), &given));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-recycle", recycle, sizeof(recycle), NULL));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-s", sizes, &nsizes, &set));
  if (!set) nsizes = 2;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-seeds", &seeds, NULL));
  PetscCheck(seeds >= 1 && seeds <= MAX_SEEDS, PETSC_COMM_WORLD, PETSC_ERR_USER_INPUT,
             "-seeds %" PetscInt_FMT ": must be in 1 to %d", seeds, MAX_SEEDS);
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-verbose", &verbose, NULL));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-12s %-7s %3s %6s %6s %6s %6s %7s %7s %7s %6s\n", "sequence", "pc", "s", "never",
                        recycle, "ratio", "least", "largest", "us", "us", "wrong"));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(sequences); i++) {
    const Sequence *seq = &sequences[i];
    char            path[PETSC_MAX_PATH_LEN], **words, **kinds;
    int             count, nkinds;
    PetscBool       asked = (PetscBool)!all, found;
    System          sys;

    PetscCall(PetscStrToArray(names, ',', &count, &words));
    for (int j = 0; j < count && !asked; j++) PetscCall(PetscStrcmp(words[j], seq->name, &asked));
    PetscCall(PetscStrToArrayDestroy(count, words));
    PetscCall(FindFile(seq, path, sizeof(path), &found));
    if (!asked || !found) continue;
    PetscCall(SystemCreate(seq, path, &sys));
    PetscCall(PetscStrToArray(given ? pcs : seq->pcs, ',', &nkinds, &kinds));
    for (int j = 0; j < nkinds; j++) {
      for (PetscInt k = 0; k < nsizes; k++) PetscCall(Row(&sys, kinds[j], sizes[k], seeds, recycle, verbose));
    }
    PetscCall(PetscStrToArrayDestroy(nkinds, kinds));
    PetscCall(SystemDestroy(&sys));
  }
  PetscCall(PetscFinalize());
  return 0;
}
