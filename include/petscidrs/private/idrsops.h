/*
   The contract between the solver and its back ends: passes over the rows, and the queue that takes projections from their launch
   to what follows from their sums. Vectors and panels have n local rows:

     G, U         panels of s columns, G = A U
     r, z         residual, and the iterate since the last reliable update
     v, t         scratch: v the direction, or B^{-1}r in the omega step; t = A B^{-1}r in the omega step, B^{-1}v before
     p            B^{-1}r in the omega step: v with a preconditioner, r itself without

   pass         computes                                                     reads                 writes
   combine V    v   = r - G(:,k:s) c(k:s)                                    r, G(:,k:s)           v
     omega step r   = r - G c                                                r, G                  r
   combine U    U_k = omega t + U(:,k:s) c(k:s),  t = B^{-1}v by now         t, U(:,k:s)           U_k
   combine VU   U_k = omega (r - G(:,k:s) c(k:s)) + U(:,k:s) c(k:s)          r, G(:,k:s), U(:,k:s) U_k
   project      P^H x, x^H x, and r^H r of the last update or advance        x                     -
   project      P^H x, x^H x, that r^H r, P^H y, x^H y, y^H y                x, y                  -
   update       G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,
                r -= beta_k G_k,  partial r^H r                              G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
     k = 0      r -= beta_0 G_0,  partial r^H r                              G_0, r                r
     start      the same, with G_k as it was in  r -= beta_k G_k             G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
   advance      z += omega p + U beta(0:s),  r -= omega t,  partial r^H r    z, p, U, t, r         z, r

   If B^{-1} is diagonal, the passes apply it: combine V is v = B^{-1}(r - G(:,k:s) c), and in the same way for VU and the start,
   where d, the diagonal, is read besides. The update of step s-1 then makes V for the omega step: v = p = B^{-1}r; advance reads d
   instead of p.

   Besides, where a solve begins and ends and where r is computed afresh, IDRSAddIterate() and IDRSResidual() compute x += z +
   U(:,0:columns) beta and y = b - t, z = 0, and IDRSNorms() norms.

   A pass is given the step that it belongs to, and takes its coefficients from IDRSScalars. Combine makes V with step.wantv, U with
   step.wantu. Update and advance go straight on to combine V or VU of the next step (k+1, or 0 after advance), with the same two:
   what they hold already is not read again. In the start, when there are no columns from k+1 on, that is v = r - G(:,0:k+1)
   c(0:k+1), or U_{k+1} = that.

   A projection has the x of its step, and a y, which is r, in the start and in the omega step: see IDRSStepVecs(). There y^H y may
   stand for r^H r of the last pass, but for the omega step that ends the start, where r has changed in between.

   With step.matvec the projection also computes x = A u, which a product of idrsproduct.h does in the same pass: x is not read
   then.

   Many columns. Each right-hand side, a column, has an IDRSWork of its own: panels, vectors, scalars, queue of results. Passes and
   projections are given a group of works, with the step of each; one right-hand side is a group of one. Works that make the same
   step, and whose scalars are in the same place, are given to the back end together, which launches once for all of them;
   projections of works with the same seed, as the hash of a row is the same for these. All projections of a group have one
   reduction.

   The queue. IDRSQueueLaunch() launches the projections of a group, IDRSQueueCollect() returns the outcome of the oldest one in
   flight of a work. With bounds, a queue on a device does the algebra of idrsscalars.h there, and the host may launch further steps
   before it collects. The device stops, and all passes after that do nothing, where a norm is outside its bounds, a sum is not
   finite or the algebra fails: the scalars then return to the host, and the outcome is that the host continues. Without bounds, or
   with the queue of the host, it is always the host that continues.

   IDRSQueueWhole() makes many steps at once on a device, from one whose direction is there: U_k, or p in the omega step; or, with
   step.wantu, from the first one of the start, U_0 = B^{-1}r. The device stops where the host is to continue, as above, and before
   the last iteration. G_k, or t, of that step is there then. The device also makes reliable updates, by the rules of idrsstep.h,
   and stops after an update that does not confirm r.

   Without a preconditioner a cycle of s+1 matvecs then moves 2s^2 + 8s + 4 vectors, besides the 2s+2 of the matvecs.

   Blocks. Block IDR(s) has one recurrence for m right-hand sides: the vectors of their works are blocks of m columns, and
   coefficients are m x m matrices, see idrsblockscalars.h. Two operations make all of it; D is diagonal, and may be missing.

   block combine   Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += that

                   Block DAXPY: reads X, D, or Y, too, writes Y; a column of Y may be one of X. One such sum after another, each
                   with its own Y, X and C, which finds what those before it have written. All are made on some rows before the
                   next rows, so that memory is read and written once for a vector of several sums

   block project   P^H X  and  W^H X

                   Block DOT, where P has the first columns of the hashed shadow space, as many as asked for; reads W and X. Many
                   such tasks, each with its own W and X, in one reduction. W may be X

   If a device has the queue of blocks, IDRSBlockQueueLaunch() projects, does the algebra of the step there, and prepares the
   coefficients of its combines, which IDRSBlockQueueCombine() makes. The host collects the norms of a step after it has launched
   the next one. The device stops as above: combines that have been launched then do nothing. What a product, or a preconditioner,
   does in vain is to be harmless to the solver.
*/
#pragma once

#include <petscvec.h>
#include <petscidrs.h>
#include <petscidrs/private/idrsplace.h>
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrsscalars.h>
#include <petscidrs/private/idrsblockscalars.h>

typedef struct _n_IDRSWork *IDRSWork;

/* Works, of one communicator and with vectors of one layout and type, for which passes are made together */
typedef struct {
  PetscInt count;
  IDRSWork work[IDRS_MAX_WIDTH];
} IDRSGroup;

/* The group of one work */
#define IDRSGroupOfOne(work) (&(const IDRSGroup){1, {work}})

/* A reliable update of a device: the norm of the new r, and how many of the reported norms come before it */
typedef struct {
  PetscInt  after;
  PetscReal rnorm;
} IDRSWholeUpdated;

/* The report of a device that makes many steps at once */
typedef struct {
  PetscInt completed, matvecs; /* steps; their matvecs, with those of updates and of the step after them */
  PetscInt count, updates;
  /* of the residuals that steps began with. The first step has one if it is a step of the start or its norm is unreported */
  const PetscReal        *norms;
  const IDRSWholeUpdated *update; /* in their order */
} IDRSWholeReport;

/* The outcome of a step */
typedef struct {
  IDRSStep    step;
  IDRSVerdict verdict;
  /* of the r that the step began with, where it is unreported, or where the recurrence starts; of IDRS_RESIDUAL */
  PetscReal rnorm;
  /* a device has stopped here: what has been launched since did nothing, but G, U and t of matvecs in vain may have been written */
  PetscBool stopped;
} IDRSOutcome;

/*
   Steps of one solve, which a device makes at once. Before the call outcome.step is the first step. After the call it is the step
   in which the host continues, or IDRS_RESIDUAL if a reliable update has not confirmed r: then r has been projected
*/
typedef struct {
  IDRSWork        work;      /* whose scalars are on the host */
  IDRSLimits      limits;    /* until when the device may go on */
  Vec             x, anchor; /* what updates add z to, and its residual; NULL: the host makes the updates */
  IDRSWholeReport report;    /* what the device has done; its arrays are there until the next call */
  IDRSOutcome     outcome;
} IDRSWholeTask;

/* Inner products that travel with the sums of the next projection: x^H x, x^H y, y^H y */
enum {
  IDRS_DOT_XX,
  IDRS_DOT_XY,
  IDRS_DOT_YY,
  IDRS_DOTS
};

/* The passes that PETSc logs, and what they have moved and taken */
typedef enum {
  IDRS_COMBINE,
  IDRS_PROJECT,
  IDRS_UPDATE,
  IDRS_ADVANCE,
  IDRS_WHOLE, /* steps in one kernel, with all their passes and matvecs */
  IDRS_PASSES
} IDRSPass;

typedef struct {
  PetscLogDouble calls, vectors; /* vectors of length n, read and written */
  PetscLogDouble seconds;        /* on a device, where PETSc measures them */
} IDRSTraffic;

/* Many steps at once on a device, from one whose direction is there, to the one in which the host continues */
typedef struct {
  /* sets the string to NULL, or to the reason why the work cannot, or had better not if the choice is automatic */
  PetscErrorCode (*runs)(IDRSWork, PetscBool, const char *[]);
  /* returns how many of `asked` solves fit on the device at the same time, for a work that runs; 0: one runs, but does not fit */
  PetscErrorCode (*fits)(IDRSWork, PetscInt, PetscInt *);
  /* makes the tasks of simultaneous solves; `fits` was called with this work for as many solves */
  PetscErrorCode (*run)(IDRSWork, PetscInt, PetscInt, IDRSWholeTask[]);
} IDRSWholeOps;

/*
   Back ends of the queue: where the sums of projections are reduced, and the algebra is done. The steps of a group have the same k
   and matvec
*/
typedef struct {
  const char *name;
  PetscInt    depth; /* projections in flight that the host does not wait for */
  /*
     sets the string to NULL, or to the reason why not between these processes, or why not by itself if the choice is automatic.
     Collective, at the begin of every solve
  */
  PetscErrorCode (*runs)(const IDRSGroup *, PetscBool, const char *[]);
  /* the same string: why the entries of u that the product needs of other processes do not go from device to device; collective */
  PetscErrorCode (*halo)(const IDRSGroup *, PetscBool, const char *[]);
  PetscErrorCode (*begin)(const IDRSGroup *); /* the scalars go to where the algebra is done */
  /* the projections, and what follows from them */
  PetscErrorCode (*launch)(const IDRSGroup *, const IDRSStep[], const IDRSBounds[]);
  /* adds up their sums over all processes, unless the launch has done so */
  PetscErrorCode (*reduce)(const IDRSGroup *, const IDRSStep[]);
  /* of the oldest one in flight: ||r||, and whether the host continues */
  PetscErrorCode (*collect)(IDRSWork, const IDRSStep *, PetscReal *rnorm, PetscBool *);
  /* the scalars come to the host, after everything that has been launched */
  PetscErrorCode (*end)(const IDRSGroup *);
  const IDRSWholeOps *whole; /* NULL: each step is launched */
} IDRSQueueOps;

/* Only back ends of a device have the queue */
enum {
  IDRS_QUEUE_ONE,
  IDRS_QUEUE_NCCL,
  IDRS_QUEUE_PEER,
  IDRS_QUEUES
};

/* A column of a block. Its array on a device is looked up once, as a pass may have hundreds of columns */
typedef struct {
  Vec          vec;
  PetscScalar *array; /* NULL on the host */
} IDRSBlockVec;

/*
   Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += that, where D is the diagonal of the work, if it has
   one
*/
typedef struct {
  PetscInt            nx, ny, scaled;
  const IDRSBlockVec *x, *y;
  const PetscScalar  *C; /* nx x ny, by columns, which begin ld entries apart */
  PetscInt            ld;
  const IDRSBlockRow *rows; /* where the algebra of a recurrence has C, which is to be filled, or NULL */
  PetscBool           add;
} IDRSBlockAxpy;

/*
   P^H X, rows x nx, then W^H X, nw x nx, both by columns; rows: columns of the hashed shadow space. The product is taken as
   Hermitian where w is x, the same list
*/
typedef struct {
  PetscInt            rows, nw, nx;
  const IDRSBlockVec *w, *x;
} IDRSBlockDots;

static inline PetscBool IDRSBlockDotsHermitian(const IDRSBlockDots *dots)
{
  return (PetscBool)(dots->w == dots->x && dots->nw == dots->nx);
}

/* The sums of a task */
static inline PetscInt IDRSBlockDotsCount(const IDRSBlockDots *dots)
{
  return (dots->rows + dots->nw) * dots->nx;
}

/* Combines that follow from the sums of a step of a block recurrence */
typedef enum {
  /* what ends the step, and the direction of the next one, or what a preconditioner is applied to for it */
  IDRS_BLOCK_FINISH,
  IDRS_BLOCK_PRECONDITIONED, /* the direction, from what the preconditioner has made of that */
  IDRS_BLOCK_COMBINES
} IDRSBlockCombines;

/*
   A step of a block recurrence that a device finishes: its projection, and the sums of its combines, whose coefficients come from
   rows
*/
typedef struct {
  PetscInt             k, tasks;
  const IDRSBlockDots *dots; /* so many tasks */
  IDRSBlockBounds      bounds;
  PetscInt             count[IDRS_BLOCK_COMBINES];
  const IDRSBlockAxpy *sums[IDRS_BLOCK_COMBINES];
} IDRSBlockStep;

/*
   Back ends of the queue of block recurrences: the device does the algebra behind the projection. The combines of a step come
   before the projection of the next one
*/
typedef struct {
  /* the numbers go to the device, which has not stopped */
  PetscErrorCode (*begin)(IDRSWork, const IDRSBlockScalars *, PetscReal peak);
  PetscErrorCode (*launch)(IDRSWork, const IDRSBlockStep *);
  /* of the last step that has been launched */
  PetscErrorCode (*combine)(IDRSWork, const IDRSBlockStep *, IDRSBlockCombines);
  /* of the oldest one of so many in flight */
  PetscErrorCode (*collect)(IDRSWork, PetscInt inflight, IDRSBlockNorms *);
  /* the numbers come to the host, and so many sums of the step in which the device has stopped */
  PetscErrorCode (*end)(IDRSWork, const IDRSBlockScalars *, PetscInt, PetscScalar sums[]);
} IDRSBlockQueueOps;

/* Back ends of the passes */
typedef struct {
  const char *name;
  /* made of Vec calls: its sums are over all processes already, and the calls log themselves */
  PetscBool composed;
  /* NULL: on the host. On a device r^H r of an update stays there until the next projection */
  const IDRSDeviceOps *device;
  /* for one process; for several, with each way of the reductions between devices */
  const IDRSQueueOps *queue[IDRS_QUEUES];
  /* sets the string to NULL, or to the reason why it cannot run on such vectors */
  PetscErrorCode (*runs)(Vec, PetscInt s, const char *[]);
  /* the panels, with a Vec for each column; those of a group are destroyed together, too */
  PetscErrorCode (*create)(const IDRSGroup *, Vec);
  PetscErrorCode (*destroy)(const IDRSGroup *); /* projections may still be in flight after an error */
  /*
     all works of the group make this step, but for `unreported`, and their scalars are in the same place; in projections they have
     the same shadow space
  */
  PetscErrorCode (*combine)(const IDRSGroup *, const IDRSStep *);
  PetscErrorCode (*project)(const IDRSGroup *, const IDRSStep *); /* sums of this process */
  PetscErrorCode (*update)(const IDRSGroup *, const IDRSStep *);
  PetscErrorCode (*advance)(const IDRSGroup *, const IDRSStep *);
  /* beside the steps, with vectors in the same place as those of the works: IDRSAddIterate(), IDRSResidual(), IDRSLocalSquares() */
  PetscErrorCode (*additerate)(const IDRSGroup *, const PetscInt[], Vec[]);
  PetscErrorCode (*residual)(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
  PetscErrorCode (*squares)(const IDRSGroup *, Vec[], PetscReal[]);
  /* of blocks, whose columns belong to any works; the work gives diagonal and seed */
  PetscErrorCode (*blockarray)(Vec, PetscScalar **); /* the array of a column */
  PetscErrorCode (*blockcombine)(IDRSWork, PetscInt, const IDRSBlockAxpy[]);
  /* sums of this process, those of one task after those of another */
  PetscErrorCode (*blockproject)(IDRSWork, PetscInt, const IDRSBlockDots[], PetscScalar sums[]);
  /* for one process; NULL where the host does the algebra */
  const IDRSBlockQueueOps *blockqueue;
} IDRSPassOps;

/* The choice, and the reason why nothing faster was chosen; for -ksp_view */
typedef struct {
  const char *passes; /* back end of the passes */
  const char *slower; /* why no faster one runs; NULL when none is faster */
  /* why the host has the queue although the passes run on a device; NULL where it does not, or there is no device */
  const char    *throughhost;
  PetscBool      composed, device;
  const char    *queue;
  PetscInt       depth; /* of the queue */
  PetscBool      halo;  /* what the product needs of other processes comes the same way as the sums */
  PetscInt       n;     /* local rows */
  PetscMPIInt    size;  /* processes */
  PetscLogDouble reductions;
  IDRSTraffic    traffic[IDRS_PASSES]; /* of fused passes */
  const char    *whole;                /* where a kernel with many steps has vectors and matrix; NULL where there was none */
} IDRSWorkInfo;

PETSC_EXTERN PetscErrorCode IDRSWorkCreate(Vec, PetscInt, Vec[], KSPIDRSImplementation, PetscInt, IDRSWork[]);
PETSC_EXTERN PetscErrorCode IDRSWorkDestroy(PetscInt, IDRSWork[]);
PETSC_EXTERN PetscErrorCode IDRSWorkSetVecs(IDRSWork, Vec r, Vec z, Vec v, Vec t);
PETSC_EXTERN PetscErrorCode IDRSWorkGetColumns(IDRSWork, Vec *G[], Vec *U[]);
PETSC_EXTERN PetscErrorCode IDRSWorkGetScalars(IDRSWork, IDRSScalars **);
PETSC_EXTERN PetscErrorCode IDRSWorkGetInfo(IDRSWork, IDRSWorkInfo *);
PETSC_EXTERN PetscErrorCode IDRSWorkSetSeed(IDRSWork, uint64_t);
PETSC_EXTERN PetscErrorCode IDRSWorkSetProduct(IDRSWork, IDRSProduct);
PETSC_EXTERN PetscErrorCode IDRSWorkConnect(const IDRSGroup *, KSPIDRSCommunication, PetscBool);
PETSC_EXTERN PetscErrorCode IDRSWorkStart(IDRSWork, PetscBool, Vec);
PETSC_INTERN void           IDRSWorkSetPolynomial(IDRSWork, const IDRSPolynomial *);
PETSC_EXTERN PetscErrorCode IDRSWorkSetFailed(IDRSWork);

PETSC_EXTERN PetscErrorCode IDRSCombine(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSUpdate(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSAdvance(const IDRSGroup *, const IDRSStep[]);
PETSC_EXTERN PetscErrorCode IDRSAddIterate(const IDRSGroup *, const PetscInt[], Vec[]);
PETSC_EXTERN PetscErrorCode IDRSResidual(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
PETSC_EXTERN PetscErrorCode IDRSNorms(const IDRSGroup *, Vec[], PetscReal[]);
PETSC_EXTERN PetscErrorCode IDRSDeferDots(IDRSWork, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSGetDots(IDRSWork, const PetscScalar *[]);
PETSC_EXTERN PetscErrorCode IDRSNorm(const IDRSGroup *, PetscReal[]);
PETSC_EXTERN PetscErrorCode IDRSStreamJoin(IDRSWork);

PETSC_EXTERN PetscErrorCode IDRSBlockVecSet(IDRSWork, Vec, IDRSBlockVec *);
PETSC_EXTERN PetscErrorCode IDRSBlockCombine(IDRSWork, PetscInt, const IDRSBlockAxpy[]);
PETSC_EXTERN PetscErrorCode IDRSBlockProject(IDRSWork, PetscInt, const IDRSBlockDots[], PetscScalar[]);
PETSC_EXTERN PetscBool      IDRSBlockQueueRuns(IDRSWork);
PETSC_EXTERN PetscErrorCode IDRSBlockQueueBegin(IDRSWork, const IDRSBlockScalars *, PetscReal);
PETSC_EXTERN PetscErrorCode IDRSBlockQueueLaunch(IDRSWork, const IDRSBlockStep *);
PETSC_EXTERN PetscErrorCode IDRSBlockQueueCombine(IDRSWork, const IDRSBlockStep *, IDRSBlockCombines);
PETSC_EXTERN PetscErrorCode IDRSBlockQueueCollect(IDRSWork, PetscInt, IDRSBlockNorms *);
PETSC_EXTERN PetscErrorCode IDRSBlockQueueEnd(IDRSWork, const IDRSBlockScalars *, PetscInt, PetscScalar[]);

PETSC_EXTERN PetscErrorCode IDRSQueueLaunch(const IDRSGroup *, const IDRSStep[], const IDRSBounds[]);
PETSC_EXTERN PetscErrorCode IDRSQueueCollect(IDRSWork, IDRSOutcome *);
PETSC_EXTERN PetscErrorCode IDRSQueueContinue(IDRSWork, const IDRSStep *, PetscReal cosine, PetscReal *rr, IDRSVerdict *);
PETSC_EXTERN PetscErrorCode IDRSQueueEnd(const IDRSGroup *);
PETSC_EXTERN PetscErrorCode IDRSQueueWholeRuns(IDRSWork, PetscBool, const char *[]);
PETSC_EXTERN PetscErrorCode IDRSQueueWholeFits(IDRSWork, PetscInt, PetscInt *);
PETSC_EXTERN PetscErrorCode IDRSQueueWhole(IDRSWork, PetscInt, PetscInt, IDRSWholeTask[]);
PETSC_EXTERN PetscInt       IDRSQueueInFlight(IDRSWork);
PETSC_EXTERN PetscBool      IDRSQueueOnDevice(IDRSWork);

PETSC_EXTERN PetscLogDouble    IDRSGpuSeconds(void);
PETSC_EXTERN const char *const IDRSPassNames[];
PETSC_INTERN PetscErrorCode    IDRSRegisterEvents(void);
PETSC_INTERN PetscErrorCode    IDRSVecOnArray(Vec, Vec, Vec *);
PETSC_INTERN PetscErrorCode    IDRSCheckRoom(Vec, PetscInt, PetscInt, PetscBool);
PETSC_INTERN PetscErrorCode    IDRSColumnsDestroy(PetscInt, Vec *[]);
PETSC_INTERN PetscErrorCode    IDRSVecSetHashed(Vec, uint64_t, PetscInt);
PETSC_INTERN PetscErrorCode    IDRSVecsCreate(Vec, PetscInt, Vec *[], void **);
PETSC_INTERN PetscErrorCode    IDRSVecsDestroy(PetscInt, Vec *[], void **);
PETSC_INTERN PetscErrorCode    IDRSVecGram(PetscInt, Vec[], PetscScalar[]);
