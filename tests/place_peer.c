static char help[] = "Reductions inside the kernels of the projections, on GPUs of one node that map each other's memory, or on\n\
one shared GPU. If processes have no GPU, the setting is an error.\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for RTLD_NEXT */
#include <petscidrs.h>
#include "systems.h"

#define TIMEOUT 3.0  /* seconds, as in the options below */
#define SLACK   30.0 /* to return in addition, on a shared GPU */

static size_t refused = 0; /* size of an allocation that fails */

#if PetscDefined(HAVE_CUDA)
  #include <cuda_runtime_api.h>
  #include <dlfcn.h>

/* A program's own functions take precedence over the runtime */
PETSC_EXTERN cudaError_t cudaMalloc(void **, size_t);
cudaError_t              cudaMalloc(void **memory, size_t bytes)
{
  cudaError_t (*runtime)(void **, size_t);

  if (refused && bytes == refused) return cudaErrorMemoryAllocation;
  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaMalloc");
  return (*runtime)(memory, bytes);
}
#endif

static PetscErrorCode SolverCreateVia(Mat A, PetscInt s, const char pctype[], KSPIDRSCommunication communication, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPIDRSSetCommunication_Private(*ksp, communication));
  PetscCall(KSPIDRSSetProduct_Private(*ksp, KSP_IDRS_PRODUCT_AUTO));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the error that names the setting, on processes without a GPU */
static PetscErrorCode TestRefused(Mat A, Vec b, Vec x)
{
  PetscErrorCode ierr;
  PetscMPIInt    size;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(SolverCreateVia(A, 4, PCNONE, KSP_IDRS_COMMUNICATION_PEER, &ksp));
  Try(ierr, KSPSolve(ksp, b, x));
  if (size > 1) PetscCall(CheckError(ierr, "without GPUs", "-ksp_idrs_communication", "peer"));
  else PetscCall(ComplainIf(ierr, "one process: error %d", (int)ierr));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares histories by peer and by MPI, up to rounding errors in the first cycles. A second solve and all processes have the same
   bits; all solutions are right
*/
static PetscErrorCode TestHistories(Mat A, Vec b, Vec x)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI};
  const PetscInt    sizes[]   = {1, 2, 4, 8, 16, 17, 40};
  Outcome          *history;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(3, &history));
  for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      const PetscInt s = sizes[is];
      PetscBool      equal;

      for (PetscInt turn = 0; turn < 3; turn++) {
        KSP ksp;

        PetscCall(SolverCreateVia(A, s, pctypes[ipc], turn ? KSP_IDRS_COMMUNICATION_PEER : KSP_IDRS_COMMUNICATION_MPI, &ksp));
        PetscCall(SolveHistory(ksp, b, x, &history[turn]));
        PetscCall(CheckSolved(turn ? "peer" : "mpi", ksp, A, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
      for (PetscInt i = 0; i < PetscMin(12, PetscMin(history[0].length, history[1].length)); i++) {
        const PetscReal difference = PetscAbsReal(history[0].norms[i] - history[1].norms[i]);

        PetscCall(ComplainIf(!(difference <= PETSC_SQRT_MACHINE_EPSILON * history[0].norms[0]),
                             "%s, s = %" INT ", iteration %" INT ": norm %g with MPI, %g without", pctypes[ipc], s, i,
                             (double)history[0].norms[i], (double)history[1].norms[i]));
      }
      /* the second solve of the first process */
      PetscCallMPI(MPI_Bcast(history[2].norms, (PetscMPIInt)history[1].length, MPIU_REAL, 0, PETSC_COMM_WORLD));
      PetscCall(PetscArraycmp(history[1].norms, history[2].norms, history[1].length, &equal));
      PetscCall(ComplainIf(history[1].length != history[2].length || !equal,
                           "%s, s = %" INT ": other norms in a second solve, or on the first process", pctypes[ipc], s));
    }
  }
  PetscCall(PetscFree(history));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If a product of the library computes the matvecs, the kernels also exchange the entries of vectors. Processes have many rows,
   few, or none, the operator changes in values and in pattern, and MatMult() is used in between. The automatic choice is the same
   for all layouts: reductions by peer, unless processes share a GPU
*/
static PetscErrorCode TestHalo(void)
{
  const KSPIDRSProduct products[] = {KSP_IDRS_PRODUCT_CSR, KSP_IDRS_PRODUCT_MAT, KSP_IDRS_PRODUCT_SELL};
  PetscInt             first      = -1, lines;
  PetscMPIInt          size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (Layout layout = LAYOUT_EVEN; layout < LAYOUTS; layout = (Layout)(layout + 1)) {
    Mat A;
    Vec b, x;
    KSP ksp, automatic;

    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 50, 0.4, layout, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(SolverCreateVia(A, 4, PCNONE, KSP_IDRS_COMMUNICATION_PEER, &ksp));
    for (size_t i = 0; i < 3 * PETSC_STATIC_ARRAY_LENGTH(products); i++) {
      const KSPIDRSProduct product = products[i % 3];

      if (i == 3) PetscCall(MatScale(A, 1.5));
      if (i == 6) {
        PetscInt begin, end, N;

        PetscCall(MatGetSize(A, &N, NULL));
        PetscCall(MatGetOwnershipRange(A, &begin, &end));
        PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
        if (end > begin) PetscCall(MatSetValue(A, begin, N - 1 - begin, 0.01, INSERT_VALUES));
        PetscCall(MatAssemble(A));
      }
      PetscCall(KSPIDRSSetProduct_Private(ksp, product));
      PetscCall(SolveSystem(KSPIDRSProducts[product], ksp, A, b, x));
      PetscCall(CheckView(ksp, "entries ... GPU to GPU", size > 1 && product != KSP_IDRS_PRODUCT_MAT ? 1 : 0));
    }
    PetscCall(SolverCreateVia(A, 4, PCJACOBI, KSP_IDRS_COMMUNICATION_AUTO, &automatic));
    PetscCall(KSPIDRSSetProduct_Private(automatic, KSP_IDRS_PRODUCT_CSR));
    PetscCall(SolveSystem("automatically", automatic, A, b, x));
    PetscCall(ViewNumbers((PetscObject)automatic, "reductions by peer", 0, NULL, &lines));
    if (first < 0) first = lines;
    PetscCall(ComplainIf(lines != first, "layout %d: another automatic choice than before", (int)layout));
    PetscCall(DestroyAll(&automatic, &ksp, &A, &b, &x));
  }
  PetscCall(PetscInfo(NULL, "The automatic choice is %sreductions by peer\n", first > 0 ? "" : "not "));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#define CHANNELS 64

/*
   If one process has no memory for its mailbox, the solve is an error on all processes, and the next solve tries again. Must be the
   first test, because processes connect once
*/
static PetscErrorCode TestMemory(Mat A, Vec b, Vec x)
{
  PetscMPIInt rank, size;
  KSP         ksp;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(SolverCreateVia(A, 4, PCNONE, KSP_IDRS_COMMUNICATION_PEER, &ksp));
  if (rank == size - 1) refused = (size_t)2 * CHANNELS * 320 * 16 * size;
  CheckRefused(KSPSolve(ksp, b, x), "-ksp_idrs_communication", "memory");
  refused = 0;
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(SolveSystem("after a lack of memory", ksp, A, b, x));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solvers that exist at the same time have separate channels, until there are no more; a channel of a destroyed solver serves
   another one
*/
static PetscErrorCode TestChannels(Mat A, Vec b, Vec x)
{
  KSP ksp[CHANNELS + 1];

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i <= CHANNELS; i++) PetscCall(SolverCreateVia(A, 1 + i % 8, PCJACOBI, KSP_IDRS_COMMUNICATION_PEER, &ksp[i]));
  for (PetscInt i = 0; i < 2 * CHANNELS; i++) PetscCall(SolveSystem("one of many solvers", ksp[i % CHANNELS], A, b, x));
  CheckRefused(KSPSolve(ksp[CHANNELS], b, x), "-ksp_idrs_communication", PetscStringize(CHANNELS));
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(DestroyAll(&ksp[CHANNELS], &ksp[3]));
  PetscCall(SolverCreateVia(A, 4, PCNONE, KSP_IDRS_COMMUNICATION_PEER, &ksp[3]));
  PetscCall(SolveSystem("the solver that follows another", ksp[3], A, b, x));
  for (PetscInt i = 0; i < CHANNELS; i++) PetscCall(KSPDestroy(&ksp[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscInt left = 0; /* matvecs until one fails on this process; 0 for never */

/* Multiplies with the block of this process, without messages, or fails */
static PetscErrorCode LeaveMult(Mat S, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCheck(!left || --left, PETSC_COMM_SELF, PETSC_ERR_USER, "This process leaves");
  PetscCall(PassMult(S, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The last process returns an error from a solve: the others return an error after the timeout. Afterwards peer is an error on all
   processes, and the automatic choice solves. Must be the last test, because these processes have no more exchanges
*/
static PetscErrorCode TestLeave(Vec like)
{
  const PetscInt product = 9;
  PetscBool      right, leaving;
  PetscErrorCode ierr;
  PetscLogDouble began;
  PetscMPIInt    rank, size;
  PetscInt       begin, end, n;
  char          *found;
  Mat            A, S;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(DuplicateAll(like, &b, &x));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, n, PETSC_DETERMINE, 5, &A));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    PetscCall(MatSetValue(A, i, i, 3.0 + (PetscReal)(i % 5), INSERT_VALUES));
    if (i > begin) PetscCall(MatSetValue(A, i, i - 1, -1.5, INSERT_VALUES));
    if (i < end - 1) PetscCall(MatSetValue(A, i, i + 1, -0.5, INSERT_VALUES));
  }
  PetscCall(MatAssemble(A));
  PetscCall(ShellCreate(A, LeaveMult, A, &S));
  PetscCall(SolverCreateVia(S, 4, PCNONE, KSP_IDRS_COMMUNICATION_PEER, &ksp));
  leaving = rank == size - 1 ? PETSC_TRUE : PETSC_FALSE;
  left    = leaving ? product : 0;
  began   = MPI_Wtime();
  Try(ierr, KSPSolve(ksp, b, x));
  began = MPI_Wtime() - began;
  left  = 0;
  PetscCall(PetscStrstr(message, leaving ? "leaves" : "-petscidrs_nccl_timeout", &found));
  right = ierr == (leaving ? PETSC_ERR_USER : PETSC_ERR_LIB) && found && began < TIMEOUT + SLACK && (leaving || began > TIMEOUT)
          ? PETSC_TRUE
          : PETSC_FALSE;
  PetscCall(ComplainIf(!right, "process %d after %g seconds: error %d, \"%s\"", rank, (double)began, (int)ierr, message));
  for (PetscInt automatic = 0; automatic < 2; automatic++) {
    PetscCall(Unlock(b));
    PetscCall(Unlock(x));
    PetscCall(ResetWith(ksp, S));
    if (!automatic) CheckRefused(KSPSolve(ksp, b, x), "-ksp_idrs_communication", "failed");
    else {
      PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_AUTO));
      PetscCall(SolveSystem("after a process has left", ksp, A, b, x));
    }
  }
  PetscCall(DestroyAll(&ksp, &S, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Without vectors of type VECMPICUDA there are no peers */
static PetscErrorCode SkipPeers(PetscMPIInt size)
{
  PetscFunctionBeginUser;
  if (size > 1) PetscCall(SkipWithoutGPU());
  else PetscCall(Skip("there is one process"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscBool   cuda;
  PetscMPIInt size;
  Mat         A;
  Vec         b, x;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump"));                     /* PETSc leaks memory after an error */
  PetscCall(PetscOptionsHasName(NULL, NULL, "-petscidrs_nccl_timeout", NULL)); /* a library without CUDA does not read it */
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(GridSystemCreate(40, 0.4, &A, &b, &x));
  PetscCall(PetscObjectTypeCompare((PetscObject)b, VECMPICUDA, &cuda));
  if (cuda) PetscCall(TestMemory(A, b, x));
  else PetscCall(SkipPeers(size));
  PetscCall(Verdict("a lack of memory"));
  if (cuda) PetscCall(TestHistories(A, b, x));
  else PetscCall(SkipPeers(size));
  PetscCall(Verdict("histories"));
  if (!cuda) PetscCall(SkipPeers(size));
  else if (PETSC_VERSION_GE(3, 26, 0)) PetscCall(TestHalo());
  else PetscCall(Skip("PETSc before 3.26 does not tell the scatter of a matrix"));
  PetscCall(Verdict("halo"));
  if (cuda) PetscCall(TestChannels(A, b, x));
  else PetscCall(SkipPeers(size));
  PetscCall(Verdict("many solvers"));
  if (cuda) PetscCall(TestLeave(b));
  else PetscCall(TestRefused(A, b, x));
  PetscCall(Verdict("errors"));
  PetscCall(DestroyAll(&A, &b, &x));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    args: -log_sync 0 -petscidrs_nccl_timeout 3
    output_file: output/place_peer.out

    test:
      suffix: 1
      nsize: {{1 3}}

TEST*/
