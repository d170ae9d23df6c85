/*
   The interface between the solver and its back ends: passes over the rows, and the queue of projections, from their launch to the
   outcome that follows from their sums. Vectors and bases have n local rows:

     G, U         bases of s columns, G = A U
     r, z         residual, and the iterate since the last reliable update
     v, t         scratch: v the direction, or B^{-1}r in the omega step; t = A B^{-1}r in the omega step, B^{-1}v before
     p            B^{-1}r in the omega step: v with a preconditioner, r itself without

   pass         computes                                                     reads                 writes
   combine V    v   = r - G(:,k:s) c(k:s)                                    r, G(:,k:s)           v
     omega step r   = r - G c                                                r, G                  r
   combine U    U_k = omega t + U(:,k:s) c(k:s),  with t = B^{-1}v           t, U(:,k:s)           U_k
   combine VU   U_k = omega (r - G(:,k:s) c(k:s)) + U(:,k:s) c(k:s)          r, G(:,k:s), U(:,k:s) U_k
   project      P^H x, x^H x, and r^H r of the last update or advance        x                     -
   project      P^H x, x^H x, r^H r, P^H y, x^H y, y^H y                     x, y                  -
   update       G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,
                r -= beta_k G_k,  partial r^H r                              G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
     k = 0      r -= beta_0 G_0,  partial r^H r                              G_0, r                r
     start      the same, but  r -= beta_k G_k  with the old G_k             G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
   advance      z += omega p + U beta(0:s),  r -= omega t,  partial r^H r    z, p, U, t, r         z, r

   If B^{-1} is diagonal, the passes apply it and also read its diagonal d: combine V computes v = B^{-1}(r - G(:,k:s) c), and VU
   and the start do likewise. The update of step s-1 then computes v = p = B^{-1}r for the omega step, and advance reads d instead
   of p.

   At the beginning and end of a solve, and when r is recomputed, IDRSAddIterate() computes x += z + U(:,0:columns) beta,
   IDRSResidual() y = b - t and z = 0, and IDRSNorms() norms.

   The argument of a pass is its step; the coefficients are in IDRSScalars. Combine computes V if step.wantv is set, and U if
   step.wantu is set. With these flags update and advance also compute combine V or VU of the next step (k+1, or 0 after advance),
   and do not read again what is in registers. In the start there are no columns from k+1 on: combine V is v = r - G(:,0:k+1)
   c(0:k+1), and combine VU stores this v in U_{k+1}.

   A projection has the x of its step. In the start and in the omega step it also has y = r, see IDRSStepVecs(). Then y^H y replaces
   r^H r of the last pass, except in the omega step that ends the start, because r has changed in between.

   With step.matvec a product of idrsproduct.h also computes x = A u in the same pass, so x is not read.

   Several columns. Each right-hand side, a column, has its own IDRSWorkspace: bases, vectors, scalars, queue of results. The
   arguments of passes and projections are a group of works and the step of each. The back end launches one kernel for all works
   with the same step whose scalars are in the same memory. In projections they must also have the same seed, because they share the
   hash of a row. All projections of a group have one reduction.

   The queue. IDRSQueueLaunch() launches the projections of a group. IDRSQueueCollect() returns the outcome of the oldest projection
   of a work in flight. With bounds, a queue on a device does the algebra of idrsscalars.h there, and the host may launch further
   steps before it collects. If a norm is outside its bounds, a sum is not finite or the algebra fails, the device stops: later
   passes do nothing, the scalars return to the host, and the outcome is that the host continues. Without bounds, or with the queue
   of the host, the host always continues.

   IDRSQueuePersistent() makes many steps at once on a device. The direction of the first step, U_k or p, has been computed before.
   With step.wantu the device begins with the start and U_0 = B^{-1}r. It stops for the reasons above and before the last iteration;
   G_k, or t, of this step has been computed then. The device also makes reliable updates by the rules of idrsstep.h, and stops
   after an update that does not confirm r.

   Without a preconditioner a cycle of s+1 matvecs moves 2s^2 + 8s + 4 vectors, and the matvecs another 2s+2.

   Blocks. Block IDR(s) has one recurrence for m right-hand sides: the vectors of their works are blocks of m columns, and
   coefficients are m x m matrices, computed on the host, see idrsblockscalars.h. Two operations compute everything. D is diagonal,
   or the identity.

   block combine   Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += that

                   Block DAXPY: reads X, D, and Y if it adds; writes Y. A column of Y may be a column of X. Several sums, each with
                   its own Y, X and C, are computed in order, and a sum reads the results of earlier ones. All sums are computed on
                   a chunk of rows before the next chunk, so a vector of several sums is read and written once

   block project   P^H X  and  W^H X

                   Block DOT, where P has the first columns of the hashed shadow space; reads W and X. Several tasks, each with its
                   own W and X, have one reduction. W may be X
*/
#pragma once

#include <petscvec.h>
#include <petscidrs/private/idrssettings.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrsscalars.h>
#include <petscidrs/private/idrsblockscalars.h>

typedef struct _n_IDRSWorkspace *IDRSWorkspace;

/* Works of one communicator that share passes. Their vectors have the same layout and type */
typedef struct {
  PetscInt      count;
  IDRSWorkspace work[IDRS_MAX_WIDTH];
} IDRSGroup;

/* A group of one work */
#define IDRSGroupOfOne(work) (&(const IDRSGroup){1, {work}})

/* A reliable update of a device: the norm of the new r, and the number of norms reported before it */
typedef struct {
  PetscInt  after;
  PetscReal rnorm;
} IDRSPersistentUpdated;

/* The report of a device that makes many steps at once */
typedef struct {
  PetscInt completed, matvecs; /* steps; matvecs, including updates and the next step */
  PetscInt count, updates;
  /* ||r|| at the beginning of each step. The first step has a norm only if it belongs to the start or its norm is unreported */
  const PetscReal             *norms;
  const IDRSPersistentUpdated *update; /* in the order of the updates */
} IDRSPersistentReport;

/* The outcome of a step */
typedef struct {
  IDRSStep    step;
  IDRSVerdict verdict;
  /*
     ||r|| at the beginning of the step, if it is unreported or the step belongs to the start; or after IDRS_RESIDUAL. Of a block
     recurrence the Frobenius norm of R
  */
  PetscReal rnorm;
  /* a device has stopped in this step: later passes did nothing, but later matvecs may have overwritten G, U and t */
  PetscBool stopped;
} IDRSOutcome;

/*
   Steps of one solve that a device makes at once. Before the call outcome.step is the first step. After the call it is the step in
   which the host continues, or IDRS_RESIDUAL if a reliable update did not confirm r, which has then been projected
*/
typedef struct {
  IDRSWorkspace        work;      /* its scalars are on the host */
  IDRSLimits           limits;    /* the device stops at these limits */
  Vec                  x, anchor; /* updates compute x += z; anchor: residual of x. NULL: the host makes the updates */
  IDRSPersistentReport report;    /* its arrays are valid until the next call */
  IDRSOutcome          outcome;
} IDRSPersistentTask;

/* Inner products that are reduced with the sums of the next projection: x^H x, x^H y, y^H y */
enum {
  IDRS_DOT_XX,
  IDRS_DOT_XY,
  IDRS_DOT_YY,
  IDRS_DOTS
};

/* The passes that PETSc logs, and their traffic and time */
typedef enum {
  IDRS_COMBINE,
  IDRS_PROJECT,
  IDRS_UPDATE,
  IDRS_ADVANCE,
  IDRS_PERSISTENT, /* steps in one kernel, with all their passes and matvecs */
  IDRS_PASSES
} IDRSPass;

typedef struct {
  PetscLogDouble calls, vectors; /* vectors of length n, read and written */
  PetscLogDouble seconds;        /* on a device, if PETSc measures them */
} IDRSTraffic;

/* Many steps at once on a device: IDRSQueuePersistent() */
typedef struct {
  /* sets the string to NULL, or to the reason why the work cannot run, or, if the choice is automatic, would be slower */
  PetscErrorCode (*runs)(IDRSWorkspace, PetscBool, const char *[]);
  /* returns how many of `asked` solves fit on the device at the same time */
  PetscErrorCode (*fits)(IDRSWorkspace, PetscInt, PetscInt *);
  /* runs the tasks of simultaneous solves; `fits` has been called with this work and their number */
  PetscErrorCode (*run)(IDRSWorkspace, PetscInt, PetscInt, IDRSPersistentTask[]);
} IDRSPersistentOps;

/*
   Queues on a device, which reduce the sums of projections and do the algebra. The steps of a group have the same k and matvec.
   Without such a queue the host does both
*/
typedef struct {
  const char *name;
  PetscInt    depth; /* projections in flight that the host does not wait for */
  /*
     sets the string to NULL, or to the reason why it cannot run between these processes, or is not an automatic choice; and
     PETSC_TRUE if the halo of the product also goes from device to device. Collective, at the beginning of every solve
  */
  PetscErrorCode (*connect)(const IDRSGroup *, PetscBool automatic, PetscBool *halo, const char *[]);
  PetscErrorCode (*begin)(const IDRSGroup *); /* copies the scalars to the memory of the algebra */
  /* launches the projections, the reduction of their sums over all processes, and the algebra */
  PetscErrorCode (*launch)(const IDRSGroup *, const IDRSStep[], const IDRSBounds[]);
  /*
     returns ||r|| of the oldest projection in flight, and PETSC_TRUE if the host must continue. The update or advance after a
     projection may bring its result, so that the host collects a projection after it has launched this pass
  */
  PetscErrorCode (*collect)(IDRSWorkspace, const IDRSStep *, PetscReal *rnorm, PetscBool *);
  /* copies the scalars to the host, after all earlier launches */
  PetscErrorCode (*end)(const IDRSGroup *);
  const IDRSPersistentOps *persistent; /* NULL: each step is launched */
} IDRSQueueOps;

/* Queues by their communication, for back ends on a device */
enum {
  IDRS_QUEUE_ONE,
  IDRS_QUEUE_NCCL,
  IDRS_QUEUE_PEER,
  IDRS_QUEUES
};

/* A column of a block. Its device array is stored, because a pass may have hundreds of columns */
typedef struct {
  Vec          vec;
  PetscScalar *array; /* NULL on the host */
} IDRSBlockVec;

/*
   Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += ... if `add` is set. D is the diagonal of the work, or
   the identity
*/
typedef struct {
  PetscInt            nx, ny, scaled;
  const IDRSBlockVec *x, *y;
  const PetscScalar  *C; /* nx x ny, by columns, with leading dimension ld */
  PetscInt            ld;
  PetscBool           add;
} IDRSBlockAxpy;

/*
   P^H X, rows x nx, then W^H X, nw x nx, both by columns; rows: number of columns of the hashed shadow space. If w and x are the
   same list, the product is computed as a Hermitian matrix
*/
typedef struct {
  PetscInt            rows, nw, nx;
  const IDRSBlockVec *w, *x;
} IDRSBlockDots;

static inline PetscBool IDRSBlockDotsHermitian(const IDRSBlockDots *dots)
{
  return (PetscBool)(dots->w == dots->x && dots->nw == dots->nx);
}

/* Returns the number of sums of a task */
static inline PetscInt IDRSBlockDotsCount(const IDRSBlockDots *dots)
{
  return (dots->rows + dots->nw) * dots->nx;
}

/* Back ends of the passes */
typedef struct {
  const char *name;
  /*
     NULL for Vec calls, which log themselves, and which compute r^H r in the next projection. On a device r^H r of an update stays
     there until then
  */
  const IDRSDeviceOps *device;
  /* on a device: for one process, and for each kind of reductions between devices */
  const IDRSQueueOps *queue[IDRS_QUEUES];
  /* sets the string to NULL, or to the reason why it cannot run on such vectors */
  PetscErrorCode (*runs)(Vec, PetscInt s, const char *[]);
  /* creates the bases, with a Vec for each column */
  PetscErrorCode (*create)(IDRSWorkspace, Vec);
  PetscErrorCode (*destroy)(IDRSWorkspace); /* projections may still be in flight after an error */
  /*
     All works of the group make this step, which may differ in `unreported`. Their scalars are in the same memory, and in
     projections they have the same shadow space
  */
  PetscErrorCode (*combine)(const IDRSGroup *, const IDRSStep *);
  PetscErrorCode (*project)(const IDRSGroup *, const IDRSStep *); /* sums of this process */
  PetscErrorCode (*update)(const IDRSGroup *, const IDRSStep *);
  PetscErrorCode (*advance)(const IDRSGroup *, const IDRSStep *);
  /* outside of steps, with vectors in the memory of the works: IDRSAddIterate(), IDRSResidual(), IDRSNorms() */
  PetscErrorCode (*additerate)(const IDRSGroup *, const PetscInt[], Vec[]);
  PetscErrorCode (*residual)(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
  PetscErrorCode (*norms)(const IDRSGroup *, Vec[], PetscReal[]);
  /*
     operations on blocks, whose columns may belong to several works; the diagonal and the seed belong to `work`. Coefficients are
     on the host
  */
  PetscErrorCode (*blockcombine)(IDRSWorkspace, PetscInt, const IDRSBlockAxpy[]);
  /* sums of this process, task by task */
  PetscErrorCode (*blockproject)(IDRSWorkspace, PetscInt, const IDRSBlockDots[], PetscScalar sums[]);
} IDRSPassOps;

/* The chosen back ends, and the reasons why no faster ones were chosen; for -ksp_view */
typedef struct {
  const char *passes; /* back end of the passes */
  const char *slower; /* why no faster one runs, or NULL */
  /* why the host has the queue although the passes run on a device, or NULL */
  const char    *throughhost;
  PetscBool      device;
  const char    *queue;
  PetscInt       depth; /* of the queue */
  PetscBool      halo;  /* the halo exchange of the product uses the same communication as the sums */
  PetscInt       n;     /* local rows */
  PetscInt       bases; /* vectors of a work: G, U and hashed shadow vectors, if these are stored */
  PetscMPIInt    size;  /* processes */
  PetscLogDouble reductions;
  IDRSTraffic    traffic[IDRS_PASSES]; /* of fused passes */
  const char    *persistent;           /* the memory of vectors and matrix in a kernel with many steps, or NULL */
} IDRSWorkspaceInfo;

/* Room for projections in flight: more than the depth of any queue */
#define IDRS_MAX_IN_FLIGHT 8

PETSC_INTERN const IDRSPassOps IDRSPasses_Vec;
/* if PETSCIDRS_HAVE_CUDA is true */
PETSC_INTERN const IDRSPassOps   IDRSPasses_CUDA;
PETSC_INTERN const IDRSQueueOps  IDRSQueue_CUDA, IDRSQueue_NCCL, IDRSQueue_Peer;
PETSC_INTERN const IDRSDeviceOps IDRSDevice_CUDA;

struct _n_IDRSWorkspace {
  PetscScalar         dots[IDRS_DOTS]; /* first, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  const IDRSPassOps  *passes;
  const IDRSQueueOps *queue;                /* NULL: the host has the queue */
  const char         *slower, *throughhost; /* as in IDRSWorkspaceInfo */
  PetscBool           halo;                 /* as in IDRSWorkspaceInfo */
  void               *data;                 /* data of the back end */

  MPI_Comm              comm;
  PetscMPIInt           size;
  PetscInt              s, n, rstart;   /* columns, local rows, global index of the first */
  Vec                  *G, *U;          /* columns of the bases */
  Vec                   r, z, v, t;     /* of the solver */
  IDRSProduct           product;        /* of the solver, if projections compute x = A u, else NULL */
  PetscBool             preconditioned; /* p is v, else r itself */
  Vec                   diagonal;       /* of B^{-1}, if the passes apply it, else NULL */
  const IDRSPolynomial *polynomial;     /* B^{-1}, if kernels with many steps apply it, else NULL */
  /* stored shadow vectors: explicit ones, or hashed ones if the back end needs them in memory */
  Vec      *P;
  PetscBool hashed; /* the shadow space is hashed; P is NULL or has its entries */
  uint64_t  seed;

  IDRSScalars  scalars;
  PetscScalar *storage;                   /* of scalars */
  PetscBool    ondevice;                  /* the scalars, of the block if there is one, are on the device only */
  IDRSStep     steps[IDRS_MAX_IN_FLIGHT]; /* of the projections in flight */
  PetscInt     oldest, inflight;          /* of these */
  PetscBool    failed;                    /* a solve has ended with an error: do not wait for sums in flight */
  /* dots[] are the parts of this process, to be reduced with the next sums; else they are over all processes */
  PetscBool deferred;

  PetscLogDouble reductions; /* over processes */
  IDRSTraffic    traffic[IDRS_PASSES];
  const char    *persistent; /* as in IDRSWorkspaceInfo */
};

/* Returns x and y of the projection of a step */
static inline void IDRSStepVecs(IDRSWorkspace work, const IDRSStep *step, Vec *x, Vec *y)
{
  const PetscBool omega = (PetscBool)(step->k == work->s);

  *x = step->k == IDRS_RESIDUAL ? work->r : (omega ? work->t : work->G[step->k]);
  *y = IDRSStepHasY(step, work->s) ? work->r : NULL;
}

/* Returns u of the matvec of a step */
static inline Vec IDRSStepOperand(IDRSWorkspace work, const IDRSStep *step)
{
  return step->k < work->s ? work->U[step->k] : (work->preconditioned ? work->v : work->r);
}

/* Returns the index of ||r||^2 in the sums, also for a projection of r without a step */
static inline PetscInt IDRSStepNormSum(const IDRSScalars *scalars, const IDRSStep *step)
{
  if (step->k == IDRS_RESIDUAL) return IDRS_SUM_XX(scalars->s);
  return IDRSNormSum(scalars->s, IDRSStepHasY(step, scalars->s), step->unreported);
}

PETSC_EXTERN PetscErrorCode IDRSWorkspaceCreate(Vec, PetscInt, Vec[], KSPIDRSImplementation, PetscInt, IDRSWorkspace[]);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceDestroy(PetscInt, IDRSWorkspace[]);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceSetVecs(IDRSWorkspace, Vec r, Vec z, Vec v, Vec t);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceGetInfo(IDRSWorkspace, IDRSWorkspaceInfo *);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceSetSeed(IDRSWorkspace, uint64_t);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceConnect(const IDRSGroup *, KSPIDRSCommunication, PetscBool);
PETSC_EXTERN PetscErrorCode IDRSWorkspaceStart(IDRSWorkspace, PetscBool, Vec);

PETSC_EXTERN PetscErrorCode IDRSCombine(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSUpdate(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSAdvance(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSAddIterate(const IDRSGroup *, const PetscInt[], Vec[]);
PETSC_EXTERN PetscErrorCode IDRSResidual(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
PETSC_EXTERN PetscErrorCode IDRSNorms(const IDRSGroup *, Vec[], PetscReal[]);
PETSC_EXTERN PetscErrorCode IDRSDeferDots(IDRSWorkspace, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSGetDots(IDRSWorkspace, const PetscScalar *[]);
PETSC_EXTERN PetscErrorCode IDRSNorm(const IDRSGroup *, PetscReal[]);
PETSC_EXTERN PetscErrorCode IDRSStreamJoin(IDRSWorkspace);

PETSC_EXTERN PetscErrorCode IDRSBlockVecSet(IDRSWorkspace, Vec, IDRSBlockVec *);
PETSC_EXTERN PetscErrorCode IDRSBlockCombine(IDRSWorkspace, PetscInt, const IDRSBlockAxpy[]);
PETSC_EXTERN PetscErrorCode IDRSBlockProject(IDRSWorkspace, PetscInt, const IDRSBlockDots[], PetscScalar[]);

PETSC_EXTERN PetscErrorCode IDRSQueueLaunch(const IDRSGroup *, const IDRSStep[], const IDRSBounds[]);
PETSC_EXTERN PetscErrorCode IDRSQueueCollect(IDRSWorkspace, IDRSOutcome *);
PETSC_EXTERN PetscErrorCode IDRSQueueContinue(IDRSWorkspace, const IDRSStep *, PetscReal cosine, PetscReal *rr, IDRSVerdict *);
PETSC_EXTERN PetscErrorCode IDRSQueueEnd(const IDRSGroup *);
PETSC_EXTERN PetscErrorCode IDRSQueuePersistentRuns(IDRSWorkspace, PetscBool, const char *[]);
PETSC_EXTERN PetscErrorCode IDRSQueuePersistentFits(IDRSWorkspace, PetscInt, PetscInt *);
PETSC_EXTERN PetscErrorCode IDRSQueuePersistent(IDRSWorkspace, PetscInt, PetscInt, IDRSPersistentTask[]);

PETSC_EXTERN PetscLogDouble    IDRSGpuSeconds(void);
PETSC_EXTERN const char *const IDRSPassNames[];
PETSC_INTERN PetscErrorCode    IDRSRegisterEvents(void);
PETSC_INTERN PetscErrorCode    IDRSVecOnArray(Vec, Vec, Vec *);
PETSC_INTERN PetscErrorCode    IDRSCheckRoom(Vec, PetscInt, PetscInt, PetscBool);
PETSC_INTERN PetscErrorCode    IDRSColumnsDestroy(PetscInt, Vec *[]);
PETSC_EXTERN PetscErrorCode    IDRSVecSetHashed(Vec, uint64_t, PetscInt);
PETSC_INTERN PetscErrorCode    IDRSVecsCreate(Vec, PetscInt, Vec *[], void **);
PETSC_INTERN PetscErrorCode    IDRSVecsDestroy(PetscInt, Vec *[], void **);
PETSC_INTERN PetscErrorCode    IDRSVecGram(PetscInt, Vec[], PetscScalar[]);

/* Between the files of src/vec */
PETSC_EXTERN PetscErrorCode IDRSWorkspaceRegisterPasses(const IDRSPassOps *, const IDRSPassOps **);

PETSC_INTERN PetscLogEvent IDRS_Reduce;
PETSC_INTERN PetscBool IDRSGroupNext(const IDRSGroup *, const IDRSStep[], PetscBool, uint32_t *, IDRSGroup *, const IDRSStep **);
PETSC_INTERN PetscErrorCode IDRSSum(MPI_Comm, PetscInt, PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSPassBegin(IDRSWorkspace, IDRSPass);
PETSC_INTERN PetscErrorCode IDRSPassCount(IDRSWorkspace, IDRSPass, PetscInt vectors, PetscInt flops);
PETSC_INTERN PetscErrorCode IDRSPassEnd(IDRSWorkspace, IDRSPass);
PETSC_INTERN PetscErrorCode IDRSWorkspaceCheckMemory(IDRSWorkspace, const PetscLogDouble[]);
PETSC_INTERN PetscErrorCode IDRSGhosted(Vec, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSShadowFill(IDRSWorkspace, Vec[]);
PETSC_INTERN PetscErrorCode IDRSVecMDotLocal(Vec, PetscInt, const Vec[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSColumnInherit(Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSColumnWritten(Vec);
PETSC_INTERN PetscErrorCode IDRSAddIterate_Vec(const IDRSGroup *, const PetscInt[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSResidual_Vec(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSNorms_Vec(const IDRSGroup *, Vec[], PetscReal[]);
