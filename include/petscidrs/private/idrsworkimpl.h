/*
   The members of an IDRSWork, for back ends; to the solver it is opaque
*/
#pragma once

#include <petscidrs/private/idrsops.h>

/* Room for projections in flight: more than the depth of any queue */
#define IDRS_MAX_IN_FLIGHT 8

PETSC_INTERN const IDRSPassOps   IDRSPasses_Vec;
PETSC_INTERN const IDRSQueueOps  IDRSQueue_Host;
PETSC_INTERN const IDRSPassOps   IDRSPasses_CUDA;                                /* if PETSCIDRS_HAVE_CUDA is true */
PETSC_INTERN const IDRSQueueOps  IDRSQueue_CUDA, IDRSQueue_NCCL, IDRSQueue_Peer; /* for those passes */
PETSC_INTERN const IDRSDeviceOps IDRSDevice_CUDA;

struct _n_IDRSWork {
  PetscScalar         dots[IDRS_DOTS]; /* first, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  const IDRSPassOps  *passes;
  const IDRSQueueOps *queue;
  const char         *slower, *throughhost; /* as in IDRSWorkInfo */
  PetscBool           halo;                 /* as in IDRSWorkInfo */
  void               *data;                 /* data of the back end */

  MPI_Comm              comm;
  PetscMPIInt           size;
  PetscInt              s, n, rstart;   /* columns, local rows, global index of the first */
  Vec                  *G, *U;          /* columns of the panels */
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
  const char    *whole; /* as in IDRSWorkInfo */
};

/* Returns x and y of the projection of a step */
static inline void IDRSStepVecs(IDRSWork work, const IDRSStep *step, Vec *x, Vec *y)
{
  const PetscBool omega = (PetscBool)(step->k == work->s);

  *x = step->k == IDRS_RESIDUAL ? work->r : (omega ? work->t : work->G[step->k]);
  *y = IDRSStepHasY(step, work->s) ? work->r : NULL;
}

/* Returns u of the matvec of a step */
static inline Vec IDRSStepOperand(IDRSWork work, const IDRSStep *step)
{
  return step->k < work->s ? work->U[step->k] : (work->preconditioned ? work->v : work->r);
}

/* Returns the index of ||r||^2 in the sums, also for a projection of r without a step */
static inline PetscInt IDRSStepNormSum(const IDRSScalars *scalars, const IDRSStep *step)
{
  if (step->k == IDRS_RESIDUAL) return IDRS_SUM_XX(scalars->s);
  return IDRSNormSum(scalars->s, IDRSStepHasY(step, scalars->s), step->unreported);
}

PETSC_EXTERN PetscErrorCode IDRSWorkRegisterPasses(const IDRSPassOps *, const IDRSPassOps **);

PETSC_INTERN PetscLogEvent IDRS_Reduce;
PETSC_INTERN PetscBool IDRSGroupNext(const IDRSGroup *, const IDRSStep[], PetscBool, uint32_t *, IDRSGroup *, const IDRSStep **);
PETSC_INTERN PetscErrorCode IDRSEachWork(const IDRSGroup *, const IDRSStep *, PetscErrorCode (*)(IDRSWork, const IDRSStep *));
PETSC_INTERN PetscErrorCode IDRSSum(MPI_Comm, PetscInt, PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSPassBegin(IDRSWork, IDRSPass);
PETSC_INTERN PetscErrorCode IDRSPassCount(IDRSWork, IDRSPass, PetscInt vectors, PetscInt flops);
PETSC_INTERN PetscErrorCode IDRSPassEnd(IDRSWork, IDRSPass);
PETSC_INTERN PetscErrorCode IDRSWorkCheckMemory(IDRSWork, const PetscLogDouble[]);
PETSC_INTERN PetscErrorCode IDRSGhosted(Vec, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSShadowFill(IDRSWork, Vec[]);
PETSC_INTERN PetscErrorCode IDRSColumnInherit(Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSColumnWritten(Vec);
PETSC_INTERN PetscErrorCode IDRSAddIterate_Vec(const IDRSGroup *, const PetscInt[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSResidual_Vec(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSQueueReduced(const IDRSGroup *, const IDRSStep[]);
PETSC_INTERN PetscErrorCode IDRSQueueNoHalo(const IDRSGroup *, PetscBool, const char *[]);
