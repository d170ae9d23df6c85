static char help[] = "Solves of KSPIDRS in two threads: a solve in another thread during a solve of this thread has the same\n\
results as a separate solve.\n\n";

#include "systems.h"
#include <petscdevice.h>
#include <pthread.h>

#define ROWS  (LINE * LINE)
#define FIRST 12 /* norms, with some of another cycle than the first */

/* A solver with its system, and the results of its last solve */
typedef struct {
  KSP     ksp;
  Vec     b, x;
  Outcome outcome;
} Solver;

/* A solve inside another solve */
typedef struct {
  Solver        *inner;
  PetscInt       at;     /* iteration of the outer solve */
  PetscBool      thread; /* in a thread of its own */
  PetscErrorCode ierr;   /* of the inner solve */
} Start;

static PetscErrorCode SystemCreate(Mat A, PetscReal start, PetscInt s, Solver *solver)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, PCJACOBI, &solver->ksp));
  PetscCall(MatCreateVecs(A, &solver->x, &solver->b));
  PetscCall(VecSetGeneral(solver->b, start));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the GPU of the process, since a new thread uses the first GPU */
static PetscErrorCode SetDevice(Vec x)
{
  PetscDeviceContext dctx;
  PetscDevice        device;
  PetscBool          host;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &host, VECSEQ, VECMPI, ""));
  if (host) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceContextGetDevice(dctx, &device));
  PetscCall(PetscDeviceConfigure(device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void *Run(void *ctx)
{
  Start *start = (Start *)ctx;

  start->ierr = start->thread ? SetDevice(start->inner->x) : PETSC_SUCCESS;
  if (!start->ierr) start->ierr = SolveHistory(start->inner->ksp, start->inner->b, start->inner->x, &start->inner->outcome);
  return NULL;
}

/* Monitor of the outer solve: makes the inner solve */
static PetscErrorCode StartInner(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  Start    *start = (Start *)ctx;
  pthread_t thread;

  PetscFunctionBeginUser;
  if (its != start->at) PetscFunctionReturn(PETSC_SUCCESS);
  if (start->thread) {
    PetscCheck(!pthread_create(&thread, NULL, Run, start), PETSC_COMM_SELF, PETSC_ERR_SYS, "No thread");
    PetscCheck(!pthread_join(thread, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "The thread was not joined");
  } else Run(start);
  PetscCall(start->ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares iterations and norms, on the host to the bit. On a device, whose products may add in another order, only the first norms
   are compared, with a tolerance
*/
static PetscErrorCode Same(const Solver *solver, const Solver *alone, PetscBool *same)
{
  PetscBool host;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)solver->x, &host, VECSEQ, VECMPI, ""));
  if (host) {
    *same = (PetscBool)(solver->outcome.its == alone->outcome.its && solver->outcome.length == alone->outcome.length);
    if (*same) PetscCall(PetscArraycmp(solver->outcome.norms, alone->outcome.norms, solver->outcome.length, same));
  } else {
    *same = (PetscBool)(solver->outcome.length > FIRST && alone->outcome.length > FIRST);
    for (PetscInt i = 0; *same && i < FIRST; i++)
      *same = (PetscBool)(PetscAbsReal(solver->outcome.norms[i] - alone->outcome.norms[i]) <=
                          0.01 * rtol * alone->outcome.norms[0]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes an outer solve with an inner solve at one iteration, and compares both with separate solves. They agree, but an inner solve
   in the same thread must differ
*/
static PetscErrorCode CheckPair(const char what[], Mat A, Solver *outer, Solver *inner, const Solver alone[], PetscInt at,
                                PetscBool thread)
{
  Start     start = {inner, at, thread, PETSC_SUCCESS};
  PetscBool same;

  PetscFunctionBeginUser;
  inner->outcome.length = 0;
  PetscCall(KSPMonitorSet(outer->ksp, StartInner, &start, NULL));
  PetscCall(SolveHistory(outer->ksp, outer->b, outer->x, &outer->outcome));
  PetscCall(KSPMonitorCancel(outer->ksp));
  PetscCall(CheckSolved(what, outer->ksp, A, outer->b, outer->x));
  PetscCall(CheckSolved(what, inner->ksp, A, inner->b, inner->x));
  PetscCall(Same(outer, &alone[0], &same));
  PetscCall(
    ComplainIf(!same, "%s, at iteration %" INT ": the outer solve is another than alone, with %" INT " iterations instead of %" INT,
               what, at, outer->outcome.its, alone[0].outcome.its));
  PetscCall(Same(inner, &alone[1], &same));
  PetscCall(ComplainIf(same != thread, "%s, at iteration %" INT ": the inner solve is %s alone, with %" INT " iterations", what, at,
                       same ? "the same as" : "another than", inner->outcome.its));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Solver outer, inner, alone[2];
  Start  never = {NULL, -1, PETSC_FALSE, PETSC_SUCCESS};
  Mat    A;

  PetscFunctionBeginUser;
  PETSC_MPI_THREAD_REQUIRED = MPI_THREAD_SERIALIZED; /* one thread at a time calls MPI */
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(MatCreateEntries(Convection, ROWS, PETSC_FALSE, &A));
  for (size_t is = 0; is < SIZES; is++) {
    PetscCall(SystemCreate(A, 1.0, sizes[is], &outer));
    PetscCall(SystemCreate(A, 2.0, sizes[is], &inner));
    PetscCall(KSPMonitorSet(outer.ksp, StartInner, &never, NULL)); /* with a monitor a device waits for the host */
    PetscCall(SolveHistory(outer.ksp, outer.b, outer.x, &outer.outcome));
    PetscCall(KSPMonitorCancel(outer.ksp));
    PetscCall(SolveHistory(inner.ksp, inner.b, inner.x, &inner.outcome));
    alone[0] = outer;
    alone[1] = inner;
    for (PetscInt at = 0; at <= alone[0].outcome.its; at += 1 + at) {
      PetscCall(CheckPair("in a thread", A, &outer, &inner, alone, at, PETSC_TRUE));
      PetscCall(CheckPair("in the same thread", A, &outer, &inner, alone, at, PETSC_FALSE));
    }
    PetscCall(SolveHistory(inner.ksp, inner.b, inner.x, &inner.outcome)); /* the inner solve has ended */
    PetscCall(CheckPair("afterwards", A, &outer, &inner, alone, 1, PETSC_TRUE));
    PetscCall(DestroyAll(&outer.ksp, &outer.b, &outer.x, &inner.ksp, &inner.b, &inner.x));
  }
  PetscCall(Verdict("solves in two threads"));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
