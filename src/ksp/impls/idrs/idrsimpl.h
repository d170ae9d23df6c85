/*
   The data of KSPIDRS, and what its files offer each other. Calls point one way: a file calls only files to its right

     idrs.c   idrscolumns.c   idrsblock.c   idrsrun.c   { idrstrust.c, idrscycle.c }   idrssmooth.c   idrsoperator.c   idrspc.c
     idrsreport.c   idrsslots.c   { idrsops.h, idrsproduct.h }

   idrs.c also calls idrsplacement.c, idrsview.c and idrsset.c; idrsview.c calls idrsset.c
*/
#pragma once

#include <petsc/private/kspimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrstrust.h>
#include <petscidrs/private/idrscompat.h>

/* Largest number of shadow vectors: s x s scalars are kept */
#define IDRS_MAX_S 1024

/*
   Weights of an r that was replaced without b - A x being half of what it was: at this sum in a row, that is the attainable
   accuracy. A verification counts for five reliable updates, as the recurrence has gone all the way to the tolerance
*/
#define IDRS_MAX_STAGNATIONS   15
#define IDRS_STAGNATION_UPDATE 1
#define IDRS_STAGNATION_VERIFY 5

/* What the user has set */
typedef struct {
  PetscInt              s;              /* columns of the shadow space and of the panels */
  PetscInt              seed;           /* of the hashed shadow space */
  PetscReal             cosine;         /* omega is enlarged where the angle of A r and r is wider than this */
  PetscReal             updatetol;      /* reliable updating once the residual norm has fallen by this factor; 0 for none */
  PetscInt              maxrestarts;    /* restarts after breakdowns that a solve may take, in a row without progress */
  KSPIDRSImplementation implementation; /* of the passes */
  KSPIDRSCommunication  communication;  /* of the reductions */
  KSPIDRSProduct        product;        /* what computes the matvecs */
  KSPIDRSRun            run;            /* what runs the recurrence */
  PetscInt              width;          /* right-hand sides that KSPMatSolve() solves at the same time */
  PetscBool             block;          /* they have one block recurrence */
  PetscBool             smoothing;      /* of the residual */
  Vec                  *P;              /* s explicit shadow vectors, or NULL */
} KSPIDRSSettings;

/* Where the memory of the solution of the last solve was */
typedef enum {
  KSPIDRS_UNKNOWN,
  KSPIDRS_HOST,
  KSPIDRS_DEVICE
} KSPIDRSMemory;

/* Why something is not done; NULL if it is, or if there is nothing to do */
typedef const char *KSPIDRSReason;

/* Where the preconditioner of this solve is applied */
typedef enum {
  KSPIDRS_PC_PASSES,   /* on the right, by the passes: a diagonal, or the identity; or on the left, with each matvec */
  KSPIDRS_PC_SEPARATE, /* on the right, between v and U */
  KSPIDRS_PC_JOINT     /* there, together with the matvec after it */
} KSPIDRSPCMode;

/* How it is applied to several columns */
typedef enum {
  KSPIDRS_PC_EACH,         /* one after another */
  KSPIDRS_PC_DENSE,        /* by PCMatApply() */
  KSPIDRS_PC_DENSE_CHECKED /* by PCMatApply(), unless that fails, which may be for one of them */
} KSPIDRSPCMatApply;

/* What reads the matrix of the iterations, besides MatMult() */
typedef enum {
  KSPIDRS_READ_BY_NONE,
  KSPIDRS_READ_BY_RUN, /* a kernel with many steps may */
  KSPIDRS_READ_BY_PASS /* the projection of a step, which computes its matvec, and such a kernel */
} KSPIDRSReader;

/* Between solves, inside one, or after one that has ended with an error */
typedef enum {
  KSPIDRS_IDLE,
  KSPIDRS_SOLVING,
  KSPIDRS_FAILED
} KSPIDRSState;

/* How much of step k is done */
typedef enum {
  KSPIDRS_NOTHING,  /* none of it */
  KSPIDRS_HAVE_V,   /* the last pass has computed v */
  KSPIDRS_HAVE_U,   /* the direction is there: U_k, or p in the omega step */
  KSPIDRS_PROJECTED /* the projection has been launched */
} KSPIDRSStage;

/* Where r comes from. The recurrence knows f = P^H r of its own r, and only of it */
typedef enum {
  KSPIDRS_RECURRED,
  KSPIDRS_REPLACED,       /* by b - A x, after a verification */
  KSPIDRS_RELIABLE_UPDATE /* r = anchor - A z */
} KSPIDRSResidual;

/* Why the recurrence cannot go on until something has been decided */
typedef enum {
  KSPIDRS_NOT_SUSPENDED,
  KSPIDRS_UNVERIFIED, /* the norm reported last meets the tolerance: b - A x is to be computed */
  KSPIDRS_BREAKDOWN,  /* M_kk is rounding error, or there is no omega */
  KSPIDRS_GROWTH      /* ||r|| has grown so much that no accuracy would be left */
} KSPIDRSSuspension;

/* How the norm of the r that a step leaves comes */
typedef enum {
  KSPIDRS_NORM_LATER,     /* with the next reduction */
  KSPIDRS_NORM_FROM_SUMS, /* it follows from the sums of the step */
  KSPIDRS_NORM_NOW        /* it is computed at once */
} KSPIDRSNorm;

/* What has been done in an omega step before its matvec */
typedef enum {
  KSPIDRS_OMEGA_NEW,
  KSPIDRS_OMEGA_PROJECTED, /* r = r - G c, at the end of the start */
  KSPIDRS_OMEGA_REPEAT     /* that, and the device has stopped in this step: the host does it again, as t is lost */
} KSPIDRSOmega;

/* State of the recurrence: x = vec_sol + z + U(:,0:columns) beta */
typedef struct {
  PetscInt          k; /* step of the cycle, s for the omega step */
  KSPIDRSStage      stage;
  KSPIDRSResidual   residual;
  KSPIDRSSuspension suspended;
  PetscBool         start; /* in the start: steps of the first cycle, up to its omega step */
  KSPIDRSOmega      omega;
  PetscInt          columns;    /* columns of U whose beta is not in z yet */
  PetscInt          its;        /* iterations that have been made; rep.its of them have been reported */
  PetscBool         unreported; /* the norm of iteration its is to be reported */
  PetscBool         added;      /* the solve has ended with all of x in vec_sol: z = 0, and no columns */
} KSPIDRSRecurrence;

/* What keeps the answers right: norms, and how often they have not become smaller */
typedef struct {
  PetscBool logged;      /* the norm reported last is the last entry of the history */
  PetscReal rnorm;       /* of r, at the last report */
  PetscReal anchornorm;  /* of the residual of vec_sol; PETSC_MAX_REAL while it is not known */
  PetscReal peak;        /* largest norm of r since the last reliable update */
  PetscReal floor;       /* norm of b - A x that replaced r, when it was last half of the one before */
  PetscInt  stagnations; /* replacements since then */
  PetscReal restartnorm; /* smallest norm of b - A x at a restart, or at the beginning */
  PetscInt  noprogress;  /* restarts in a row that did not halve it */
  PetscInt  restarts;    /* of this right-hand side: each has a shadow space of its own */
} KSPIDRSTrust;

/*
   A right-hand side with its solution, and what has been reported of it, with the meaning that the members of a KSP have. The KSP
   is given them for the convergence test, the history and the monitors, see idrsreport.c
*/
typedef struct {
  Vec                rhs, sol;
  PetscInt           its;
  PetscReal          rnorm, rnorm0, ttol;
  KSPConvergedReason reason;
  PetscReal         *history;
  PetscInt64         historymax, historylen;
} KSPIDRSReported;

/*
   A right-hand side with the vectors of its recurrence. KSPSolve() has one; those of KSPMatSolve() that are solved at the same time
   are in slots, which the next ones take over
*/
typedef struct {
  IDRSWork          work;    /* the panels G and U with their back end */
  IDRSScalars      *scalars; /* of work, on the host */
  Vec               r;       /* residual b - A x, or B^{-1}(b - A x) for preconditioning from the left */
  Vec               z;       /* iterate since the last reliable update */
  Vec               v, t;    /* direction, or preconditioned residual; matvec, or preconditioned direction */
  Vec               p;       /* B^{-1}r in the omega step: v with a preconditioner, else r itself */
  Vec               anchor;  /* residual of vec_sol, for the next reliable update; NULL without reliable updating */
  Vec              *G, *U;   /* columns of the panels */
  KSPIDRSRecurrence rec;
  KSPIDRSTrust      trust;
  /*
     a power of 2; r, z and the anchor belong to the system times scale, see KSPIDRSSetScale_Private(). Norms in trust and in rep
     are not scaled
  */
  PetscReal       scale;
  KSPIDRSReported rep;
  PetscInt        index;  /* in the right-hand sides of KSPMatSolve(); -1 for an empty slot */
  PetscBool       copied; /* the solution is a copy of the column of X */
} KSPIDRSColumn;

/* Columns that make a step together: all are in the same k */
typedef struct {
  PetscInt       count;
  KSPIDRSColumn *column[IDRS_MAX_WIDTH];
} KSPIDRSColumns;

/* What became of the right-hand sides of the last KSPMatSolve() */
typedef struct {
  PetscInt            count;
  KSPConvergedReason *reasons;
  PetscInt           *its;
  PetscReal          *norms;
  PetscBool           latest; /* the last solve was this one */
} KSPIDRSResults;

/* What block recurrences of the last solve have done */
typedef struct {
  PetscInt      columns, rank; /* right-hand sides, and columns of their bases */
  PetscInt      single;        /* right-hand sides that have gone on by themselves, or had no block recurrence */
  KSPIDRSReason why;           /* of the last of them */
  PetscBool     async;         /* a device does the algebra, and the host is a step ahead of it */
} KSPIDRSBlockCounts;

/* Counts of the last solve, for -ksp_view and KSPIDRSGetCounts() */
typedef struct {
  PetscInt       matvecs, preconditions, updates, verifications, restarts;
  PetscInt       wholes, wholematvecs;     /* kernels that made many steps, and their matvecs */
  PetscLogDouble norms, before;            /* norms of b - A x; reductions of the work before this solve */
  PetscLogDouble matvecseconds, pcseconds; /* on a GPU, where PETSc measures them */
} KSPIDRSCounts;

typedef struct _KSPIDRSRunOps KSPIDRSRunOps;

typedef struct {
  KSPIDRSSettings set;

  /* Work space, from KSPSetUp_IDRS() until reset. The first slot is that of KSPSolve(); KSPMatSolve() makes the others */
  KSPIDRSColumn  slot[IDRS_MAX_WIDTH];
  KSPIDRSColumn *current;  /* the slot whose right-hand side has been reported last */
  PetscInt       slots;    /* that have vectors */
  PetscInt       nvecs;    /* length of vecs */
  Vec           *vecs;     /* work vectors of the first slot, and of the smoothed iterate */
  Vec           *slotvecs; /* of the other slots, as many for each as `slotlength` says */
  void          *slotmemory;
  PetscInt       slotlength;
  IDRSProduct    product; /* y = A x */
  PetscBool      exact;   /* the operator is not known to be inexact, so b - A x can be trusted */
  KSPIDRSReader  reader;
  Vec           *inverse;  /* a vector, the diagonal of B^{-1}; NULL until a solve had one */
  Vec            diagonal; /* that vector, where the passes apply the preconditioner of this solve, else NULL */
  /* the smoothed iterate is x + sigma d, its residual r + sigma e, q the smoothed residual before it; NULL without smoothing */
  Vec           d, e, q;
  Mat           pcin, pcout; /* blocks of vectors for PCMatApply(); NULL until a solve needed them */
  Vec           solution;    /* for KSPBuildSolution() without a vector, created then */
  KSPIDRSMemory memory;

  /* Of this solve */
  KSPIDRSState         state;
  PetscInt             nesting; /* solves of this type that this one is inside of */
  PetscInt             depth;   /* projections in flight that the host does not wait for: 0 in lockstep */
  KSPIDRSPCMode        pcmode;
  KSPIDRSPCMatApply    pcmatapply;
  KSPIDRSReason        separatepc; /* why the passes do not apply the preconditioner */
  PetscBool            lagged;     /* the norm of an inner step comes with the next reduction */
  PetscBool            scatters;   /* the scatter of the operator goes from GPU to GPU */
  KSPIDRSReason        lockstep;   /* why the host does not go ahead of the device */
  const KSPIDRSRunOps *run;        /* what runs the recurrence */
  KSPIDRSReason        slowerrun;  /* why nothing faster does */
  PetscScalar          sigma;      /* of the smoothed iterate */
  PetscScalar          addedsigma; /* the sigma with which d was last added to vec_sol */
  PetscInt             active;     /* slots that take part in this solve */
  KSPIDRSCounts        counts;
  KSPIDRSResults       results;
  KSPIDRSBlockCounts   blocks;
  KSPIDRSReason        sequential; /* why the last KSPMatSolve() did not solve for several right-hand sides at the same time */
} KSP_IDRS;

/* Whether a preconditioner stands between v and U */
static inline PetscBool KSPIDRSIsPreconditioned(const KSP_IDRS *idrs)
{
  return (PetscBool)(idrs->pcmode != KSPIDRS_PC_PASSES);
}

/* What runs the recurrence until something has to be decided, or there is a reason to end: step by step, or many steps at once */
struct _KSPIDRSRunOps {
  KSPIDRSRun kind;
  PetscErrorCode (*runs)(KSP, const char *[]); /* sets the string to NULL, or to the reason why it cannot run this solve */
  PetscErrorCode (*run)(KSP, KSPIDRSColumn *);
};

/* A front of one column */
static inline KSPIDRSColumns KSPIDRSOneColumn(KSPIDRSColumn *col)
{
  return (KSPIDRSColumns){.count = 1, .column = {col}};
}

/* The works of a front, for which passes are made together */
static inline IDRSGroup KSPIDRSGetGroup(const KSPIDRSColumns *cols)
{
  IDRSGroup group = {.count = cols->count};

  for (PetscInt i = 0; i < cols->count; i++) group.work[i] = cols->column[i]->work;
  return group;
}

/* At the begin of a solve no norm is known */
static inline KSPIDRSTrust KSPIDRSFreshTrust(void)
{
  return (KSPIDRSTrust){.floor = PETSC_MAX_REAL, .restartnorm = PETSC_MAX_REAL};
}

/* Whether r has fallen so far, to this norm, that it is to be computed from z again */
static inline PetscBool KSPIDRSUpdateDue(const KSP_IDRS *idrs, const KSPIDRSColumn *col, PetscReal rnorm)
{
  return (PetscBool)(col->anchor && IDRSUpdateIsDue(rnorm, idrs->set.updatetol, col->trust.peak, col->trust.anchornorm));
}

/*
   How much larger than the residual it began with r may become, as few digits of the x it began with would be left in any other.
   There is no limit where a restart would go the same way again, with explicit shadow vectors
*/
static inline PetscReal KSPIDRSGrowth(const KSP_IDRS *idrs)
{
  return idrs->set.maxrestarts && !idrs->set.P ? PetscPowReal(PETSC_MACHINE_EPSILON, -0.75) : PETSC_MAX_REAL;
}

/* The growth limit of a recurrence that began with a residual of this norm */
static inline PetscReal KSPIDRSGrowthLimit(const KSP_IDRS *idrs, PetscReal begin)
{
  return IDRSGrowthLimit(begin, KSPIDRSGrowth(idrs));
}

/* r has been computed afresh, and its norm is what it is compared with from now on */
static inline void KSPIDRSSetReplacedNorm(KSPIDRSTrust *trust, PetscReal rnorm)
{
  trust->rnorm = trust->anchornorm = trust->peak = rnorm;
}

/* Whether a kernel with many steps finds the first direction by itself */
static inline PetscBool KSPIDRSBeginsWhole(const KSPIDRSRecurrence *rec)
{
  return (PetscBool)(rec->start && rec->k == 0 && rec->stage == KSPIDRS_NOTHING);
}

/* The norm of the r that the recurrence starts from, where none was computed before, with KSP_NORM_NONE */
static inline void KSPIDRSSetStartNorm(KSPIDRSTrust *trust, PetscReal rnorm)
{
  if (trust->anchornorm == PETSC_MAX_REAL) KSPIDRSSetReplacedNorm(trust, rnorm);
}

/* idrs.c */
PETSC_INTERN PetscErrorCode KSPCreate_IDRS(KSP);

/* idrsview.c */
PETSC_INTERN PetscErrorCode KSPView_IDRS(KSP, PetscViewer);

/* idrsset.c */
PETSC_INTERN PetscErrorCode KSPIDRSComposeSetters_Private(KSP, PetscBool);
PETSC_INTERN PetscErrorCode KSPIDRSCountReductions_Private(KSP, PetscInt *);

/* idrsplacement.c */
PETSC_INTERN PetscErrorCode KSPIDRSCreateVecs_Private(KSP, PetscInt, Vec *[]);
PETSC_INTERN PetscErrorCode KSPIDRSCheckPlacement_Private(KSP, PetscBool *);
PETSC_INTERN PetscErrorCode KSPIDRSGetScatters_Private(KSP, PetscBool *);

/* idrsslots.c */
PETSC_INTERN PetscErrorCode KSPIDRSMakeSlots_Private(KSP, PetscInt);
PETSC_INTERN PetscErrorCode KSPIDRSDestroySlots_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSetSlot_Private(KSPIDRSColumn *, IDRSWork, Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSGetWorkInfo_Private(KSP, IDRSWorkInfo *);

/* idrsreport.c */
PETSC_INTERN KSPIDRSReported KSPIDRSGetReported(KSP);
PETSC_INTERN void            KSPIDRSSetReported(KSP, const KSPIDRSReported *);
PETSC_INTERN PetscErrorCode  KSPIDRSTest_Private(KSP, KSPIDRSColumn *, PetscReal);
PETSC_INTERN PetscErrorCode  KSPIDRSTestNorm_Private(KSP, KSPIDRSColumn *, PetscReal);
PETSC_INTERN PetscErrorCode  KSPIDRSMonitor_Private(KSP, KSPIDRSColumn *);

/* idrscolumns.c */
PETSC_INTERN PetscErrorCode KSPIDRSMatSolveBegin_Private(KSP, Mat, Mat);
PETSC_INTERN PetscErrorCode KSPIDRSSolveSequentially_Private(KSP, PetscBool, Mat, Mat);
PETSC_INTERN PetscErrorCode KSPIDRSIterateColumns_Private(KSP, Mat, Mat);
PETSC_INTERN PetscErrorCode KSPIDRSConclude_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSResetResults_Private(KSP);

/* idrsblock.c */
PETSC_INTERN PetscErrorCode KSPIDRSBlockSolve_Private(KSP, const KSPIDRSColumns *);

/* idrsoperator.c */
PETSC_INTERN PetscErrorCode KSPIDRSSetOperator_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSetProduct_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSMatMult_Private(KSP, Vec, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSMatMultColumns_Private(KSP, const KSPIDRSColumns *, Vec[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSMatMultSolution_Private(KSP, const KSPIDRSColumn *, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSTrueResidual_Private(KSP, const KSPIDRSColumns *, PetscBool, Vec[], Vec[]);

/* idrspc.c */
PETSC_INTERN PetscErrorCode KSPIDRSSetPreconditioner_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSPCApply_Private(KSP, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSPCApplyColumns_Private(KSP, PetscInt, Vec[], Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSPCApplyMult_Private(KSP, PetscScalar, Vec, PetscBool, Vec, Vec);

/* idrssmooth.c */
PETSC_INTERN PetscErrorCode KSPIDRSSmoothBegin_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothMove_Private(KSP, PetscInt, const PetscScalar[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothSums_Private(KSP, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothNorm_Private(KSP, const KSPIDRSColumn *, PetscReal *);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothAdd_Private(KSP, Vec);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothAddToSolution_Private(KSP, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothSubtract_Private(KSP, KSPIDRSColumn *, Vec);

/* idrscycle.c */
PETSC_INTERN PetscErrorCode KSPIDRSDirection_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSMatvec_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSLaunch_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSCollect_Private(KSPIDRSColumn *, IDRSOutcome *);
PETSC_INTERN PetscErrorCode KSPIDRSWhole_Private(KSP, KSPIDRSColumn *, IDRSWholeReport *, IDRSOutcome *);
PETSC_INTERN PetscBool      KSPIDRSTestsNorm(KSP, PetscInt);
PETSC_INTERN PetscBool      KSPIDRSCanBeWhole(KSP, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSFinish_Private(KSP, const KSPIDRSColumns *, KSPIDRSNorm[], PetscReal[]);
PETSC_INTERN PetscErrorCode KSPIDRSProject_Private(KSP, const KSPIDRSColumns *);

/* idrstrust.c */
PETSC_INTERN PetscErrorCode KSPBuildSolution_IDRS(KSP, Vec, Vec *);
PETSC_INTERN PetscErrorCode KSPIDRSAddIterate_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSBeginRecurrence_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSNorms_Private(KSP, const KSPIDRSColumns *, Vec[], PetscReal[]);
PETSC_INTERN PetscErrorCode KSPIDRSCheckStagnation_Private(KSP, KSPIDRSColumn *, PetscReal, PetscInt);
PETSC_INTERN PetscErrorCode KSPIDRSVerify_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSUpdateProduct_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSUpdateResidual_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSReliableUpdate_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSRestart_Private(KSP, KSPIDRSColumn *);

/* idrsrun.c */
PETSC_INTERN PetscErrorCode KSPIDRSSetRun_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSIterate_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSBegin_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSPrepareCycle_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSTestIteration_Private(KSP, KSPIDRSColumn *, PetscInt, PetscReal);
PETSC_INTERN PetscBool      KSPIDRSNeedsVerification(KSP, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSConcludeReport_Private(KSP, KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSCycle_Private(KSP, KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSEnd_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscBool      KSPIDRSMonitorsNorms(KSP);
