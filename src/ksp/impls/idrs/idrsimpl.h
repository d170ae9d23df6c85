/*
   The data of KSPIDRS, and what its files offer each other
*/
#pragma once

#include <petsc/private/kspimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

/* Largest number of shadow vectors: s x s numbers are kept */
#define IDRS_MAX_S 1024

/*
   When r has been replaced so often in a row without b - A x being half of what it was, that is the attainable accuracy. A verification counts for
   five reliable updates, as the recurrence has gone all the way to the tolerance
*/
#define IDRS_MAX_STAGNATIONS   15
#define IDRS_STAGNATION_UPDATE 1
#define IDRS_STAGNATION_VERIFY 5

/* Projections that the host is ahead of a device, at most: enough to hide the time it takes to launch the next */
#define IDRS_AHEAD 2

/* The squares of smaller norms lose digits, or vanish */
#define IDRS_SMALLEST_NORM PetscSqrtReal(1 / (PETSC_MAX_REAL * PETSC_MACHINE_EPSILON))

/* Where the recurrence was when a projection was launched whose result is outstanding */
typedef struct {
  PetscInt  k;
  PetscBool start, pending;
} KSPIDRSPlace;

typedef struct {
  /* What the user has set */
  PetscInt              s;              /* columns of the shadow space and of the panels */
  PetscInt              seed;           /* of the hashed shadow space */
  PetscReal             cosine;         /* omega is enlarged where the angle of A r and r is wider than this */
  PetscReal             updatetol;      /* reliable updating once the residual norm has fallen by this factor; 0 for none */
  PetscInt              maxrestarts;    /* restarts after breakdowns a solve may take */
  KSPIDRSImplementation implementation; /* of the vector operations */
  KSPIDRSCommunication  communication;  /* of the reductions */
  PetscReal             timeout;        /* seconds to wait for sums of other processes that come by NCCL */
  PetscBool             smoothing;      /* of the residual */
  Vec                  *P;              /* s explicit shadow vectors, or NULL */

  /* Work space, from KSPSetUp_IDRS() until reset */
  IDRSWork  work;     /* the panels G and U with their back end */
  Vec       r;        /* residual b - A x, or B^{-1}(b - A x) for preconditioning from the left */
  Vec       z;        /* iterate since the last reliable update: x = vec_sol + z + U(:,0:columns) beta */
  Vec       anchor;   /* residual of vec_sol, for the next reliable update; NULL without reliable updating */
  Vec       v, t;     /* combined residual; product or preconditioned residual */
  Vec       d, e, q;  /* the smoothed iterate is x + sigma d, its residual r + sigma e, q that of the one before; NULL without smoothing */
  Vec       solution; /* for KSPBuildSolution() without a vector, created then */
  PetscBool placed;   /* the next is known */
  PetscBool device;   /* the solution of the last solve was in the memory of a device */

  /* Of this solve */
  PetscBool       solving;        /* between the beginning and the end of KSPSolve_IDRS() */
  PetscInt        depth;          /* solves of this type that this one is inside of */
  PetscBool       preconditioned; /* a preconditioner stands between v and u: on the right, and not PCNONE */
  PetscBool       exact;          /* the operator is not known to be inexact, so b - A x can be trusted */
  PetscBool       lagged;         /* the norm of an inner step comes with the next reduction */
  const char     *lockstep;       /* why the host does not run ahead of the device; NULL where it does, or where there is none */
  PetscBool       ahead;          /* the host runs ahead of the device */
  PetscInt        its;            /* iterations that have been made; ksp->its of them have been reported */
  PetscInt        k;              /* step of the cycle, s for the omega step */
  PetscBool       projected;      /* the sums of that step are there, the rest of it is still to be done */
  PetscBool       pending;        /* the norm of iteration its is to be reported */
  PetscBool       start;          /* the recurrence starts: steps of the first cycle, up to its omega step */
  PetscBool       projectedr;     /* r is r - G c already, in the omega step that ends the start */
  PetscBool       replaced;       /* r has been replaced by b - A x, f is to be computed afresh */
  PetscBool       updated;        /* by a reliable update */
  PetscBool       brokendown;     /* the recurrence cannot go on, */
  PetscBool       astray;         /* because r has grown so much */
  IDRSCombinePart prepared;       /* what the last pass has computed of the next step already */
  PetscInt        columns;        /* columns of U whose beta is not in z yet */
  PetscScalar     sigma, folded;  /* of the smoothed iterate; what it was when that was folded into vec_sol */
  PetscReal       rnorm;          /* of r, at the last report */
  PetscBool       logged;         /* that is the last entry of the history */
  PetscReal       anchornorm;     /* of the residual of vec_sol; PETSC_MAX_REAL while it is not known */
  PetscReal       restartnorm;    /* smallest norm of b - A x at a restart, or at the beginning */
  PetscInt        fruitless;      /* restarts in a row that did not lower it much */
  PetscReal       peak;           /* largest norm of r since the last reliable update */
  PetscReal       floor;          /* norm of b - A x that replaced r, after a failed verification or by a reliable update, when it was last half of that before */
  PetscInt        stagnations;    /* replacements since then */
  KSPIDRSPlace    places[IDRS_AHEAD + 1];
  PetscInt        oldest; /* of these */

  /* Counts of this solve, for -ksp_view and KSPIDRSGetCounts() */
  PetscInt       matvecs, preconditions, updates, verifications, restarts;
  PetscLogDouble reductions;                /* of the space when the solve began */
  PetscLogDouble productseconds, pcseconds; /* on a GPU, where PETSc measures them */
} KSP_IDRS;

/* Reductions of this solve so far: those of the projections, and the norms of b - A x */
static inline PetscInt KSPIDRSReductions(const KSP_IDRS *idrs)
{
  return idrs->work ? (PetscInt)(idrs->work->reductions - idrs->reductions) : 0;
}

/* Has the residual norm fallen so far that r is to be tied to z again? */
static inline PetscBool KSPIDRSUpdateDue(const KSP_IDRS *idrs, PetscReal rnorm)
{
  return (PetscBool)(idrs->anchor && rnorm < idrs->updatetol * idrs->peak && rnorm < idrs->anchornorm);
}

/* The norm of the r that the recurrence starts from, where none was computed before, with KSP_NORM_NONE */
static inline void KSPIDRSSetStartNorm(KSP_IDRS *idrs, PetscReal rnorm)
{
  if (idrs->anchornorm < PETSC_MAX_REAL) return;
  idrs->rnorm = idrs->anchornorm = idrs->peak = rnorm;
}

/*
   The norm beyond which r is too large for a recurrence that began with a residual of this one: few digits of the x it began with would be left in any other.
   None where a restart would go the same way again, with explicit shadow vectors
*/
static inline PetscReal KSPIDRSFarthest(const KSP_IDRS *idrs, PetscReal begin)
{
  return idrs->maxrestarts && !idrs->P && begin < PETSC_MAX_REAL ? begin * PetscPowReal(PETSC_MACHINE_EPSILON, -0.75) : PETSC_MAX_REAL;
}

/* In lockstep the sums of several processes pass through the hosts, also where there is a way from device to device */
static inline const char *KSPIDRSLockstepSums(const KSP_IDRS *idrs)
{
  return idrs->work->size > 1 && !idrs->work->throughhost ? ", and sums pass through the hosts" : "";
}

/* idrs.c */
PETSC_INTERN PetscErrorCode KSPCreate_IDRS(KSP);

/* idrsview.c */
PETSC_INTERN PetscErrorCode KSPView_IDRS(KSP, PetscViewer);

/* idrsset.c */
PETSC_INTERN PetscErrorCode KSPIDRSComposeSetters_Private(KSP, PetscBool);

/* idrscycle.c */
PETSC_INTERN PetscErrorCode KSPIDRSProduct_Private(KSP, Vec, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSPrecondition_Private(KSP, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSReport_Private(KSP, PetscInt, PetscReal);
PETSC_INTERN PetscErrorCode KSPIDRSReportSums_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSProject_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSStep_Private(KSP);

/* idrsahead.c */
PETSC_INTERN PetscErrorCode KSPIDRSSetAhead_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSProjectAhead_Private(KSP, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSCatchUp_Private(KSP, PetscBool *);

/* idrssmooth.c */
PETSC_INTERN PetscErrorCode KSPIDRSSmoothBegin_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothMove_Private(KSP, PetscInt, const PetscScalar[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothSums_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothNorm_Private(KSP, PetscReal *);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothAdd_Private(KSP, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothFold_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothUnfold_Private(KSP, Vec);

/* idrstrust.c */
PETSC_INTERN PetscErrorCode KSPBuildSolution_IDRS(KSP, Vec, Vec *);
PETSC_INTERN PetscErrorCode KSPIDRSResidual_Private(KSP, PetscBool, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSFold_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSBegin_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSProgress_Private(KSP, PetscReal, PetscInt);
PETSC_INTERN PetscErrorCode KSPIDRSVerify_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSReliableUpdate_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSRestart_Private(KSP);
