/*
   The data and the internal functions of KSPIDRS. A file calls only later files of this list

     idrs.c and idrscolumns.c, idrsview.c, idrsset.c;  idrsblock.c;  idrspersistent.c;  idrsrecycle.c;  idrstrust.c and idrscycle.c,
     which do not call each other;  idrsreport.c;  idrssmooth.c;  idrsoperator.c;  idrspc.c;  idrssetup.c;  { idrsops.h,
     idrsproduct.h }
*/
#pragma once

#include <petsc/private/kspimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrssettings.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>

/* Largest number of shadow vectors: s x s scalars are kept */
#define IDRS_MAX_S 1024

/*
   If ||b - A x|| has not halved at replacements of r whose weights add up to the maximum, it is at the attainable accuracy. A
   verification has more weight, because the recurrence has reached the tolerance
*/
#define IDRS_MAX_STAGNATIONS   15
#define IDRS_STAGNATION_UPDATE 1
#define IDRS_STAGNATION_CHECK  5

/* The reason why something is not done, or NULL */
typedef const char *KSPIDRSReason;

/* Ways to apply the preconditioner of this solve */
typedef enum {
  KSPIDRS_PC_PASSES,   /* on the right, by the passes: diagonal or identity; or on the left, with each matvec */
  KSPIDRS_PC_SEPARATE, /* on the right, between v and U */
  KSPIDRS_PC_FUSED     /* on the right, together with the matvec after it */
} KSPIDRSPCMode;

/* Ways to apply the preconditioner to several columns */
typedef enum {
  KSPIDRS_PC_EACH,         /* one after another */
  KSPIDRS_PC_DENSE,        /* by PCMatApply() */
  KSPIDRS_PC_DENSE_CHECKED /* by PCMatApply(); after a failure one after another */
} KSPIDRSPCMatApply;

/* Kernels that read the matrix, besides MatMult() */
typedef enum {
  KSPIDRS_READ_BY_NONE,
  KSPIDRS_READ_BY_RUN, /* of the persistent kernel */
  KSPIDRS_READ_BY_PASS /* projections, which compute the matvec, and the persistent kernel */
} KSPIDRSReader;

/* Between solves, in a solve, or after a solve that ended with an error */
typedef enum {
  KSPIDRS_IDLE,
  KSPIDRS_SOLVING,
  KSPIDRS_FAILED
} KSPIDRSState;

/* Progress of step k */
typedef enum {
  KSPIDRS_NOTHING,
  KSPIDRS_HAVE_R,   /* omega step: it ends a start and r = r - G c has been computed, or it is repeated, as t is overwritten */
  KSPIDRS_HAVE_V,   /* the last pass has computed v */
  KSPIDRS_HAVE_U,   /* U_k has been computed, or p in the omega step */
  KSPIDRS_PROJECTED /* the projection has been launched */
} KSPIDRSStage;

/* The next task for a right-hand side: a step, unless a decision is due. f = P^H r holds except for a replaced r */
typedef enum {
  KSPIDRS_RECURS,
  KSPIDRS_REPLACED,        /* r = b - A x, after a verification: f must be computed, or the start begins again */
  KSPIDRS_RELIABLE_UPDATE, /* r = anchor - A z: f must be computed */
  KSPIDRS_UNCHECKED,       /* the last norm meets the tolerance: b - A x must be computed */
  KSPIDRS_BREAKDOWN,       /* M_kk is rounding error, or there is no omega */
  KSPIDRS_GROWTH,          /* ||r|| has grown beyond the limit */
  KSPIDRS_RUNAWAY,         /* ||x|| has grown beyond the limit: A may be singular */
  KSPIDRS_DROPPED,         /* the safeguard has dropped recycled bases */
  KSPIDRS_COMPLETE         /* the solve has ended, and vec_sol is complete */
} KSPIDRSStatus;

/* Ways to obtain the norm of the new r */
typedef enum {
  KSPIDRS_NORM_LATER,     /* with the next reduction */
  KSPIDRS_NORM_FROM_SUMS, /* from the sums of the step */
  KSPIDRS_NORM_NOW        /* computed at once */
} KSPIDRSNorm;

/* State of the recurrence: x = vec_sol + z + U(:,0:columns) beta */
typedef struct {
  IDRSStep      step; /* the present step; it has no directions of passes */
  KSPIDRSStage  stage;
  KSPIDRSStatus status;
  PetscInt      columns;  /* columns of U whose beta has not been added to z */
  PetscInt      its;      /* completed iterations; rep.its of them have been reported */
  PetscBool     recycled; /* the start takes U from the last solve */
} KSPIDRSRecurrence;

/* Norms for reliable updates, verification and restarts, and how often they have not fallen */
typedef struct {
  PetscBool    logged;       /* the last norm is the last entry of the history */
  PetscReal    rnorm;        /* of r, at the last report */
  PetscReal    anchornorm;   /* of the residual of vec_sol, or PETSC_MAX_REAL */
  PetscReal    peak;         /* largest norm of r since the last reliable update */
  PetscReal    least;        /* smallest ||x|| at a check of the iterate, or PETSC_MAX_REAL */
  PetscInt     check;        /* iteration of the next check */
  IDRSProgress progress;     /* of ||r||; a failure: it has not halved since the last check */
  IDRSProgress replacements; /* of r by the host, after verifications and updates: IDRS_MAX_STAGNATIONS failures end the solve */
  IDRSProgress breakdowns;   /* restarts: maxrestarts failures end the solve */
  PetscInt     restarts;     /* all restarts: each has its own shadow space */
} KSPIDRSTrust;

/* Right-hand side, solution and report of a column, with the meaning of members of a KSP: see idrsreport.c */
typedef struct {
  Vec                rhs, sol;
  PetscInt           its;
  PetscReal          rnorm, rnorm0, ttol;
  KSPConvergedReason reason;
  PetscReal         *history;
  PetscInt64         historymax, historylen;
} KSPIDRSReported;

/* Data that a solve reuses from the previous solve */
typedef enum {
  KSPIDRS_TAKES_NOTHING, /* the start computes U and G; the least of these values */
  KSPIDRS_TAKES_U,       /* the U of the last solve: A may have changed, so the start computes G = A U */
  KSPIDRS_TAKES_BASES,   /* the G and U of the last solve: there is no start */
  KSPIDRS_DROPPED_THEM   /* one of the last two, and the recurrence has begun again without */
} KSPIDRSTakes;

/* The operator and the shadow space for which G = A U and M = P^H G hold */
typedef struct {
  uint64_t         seed;      /* of the hashed shadow space, without restarts */
  PetscObjectState shadow;    /* sum of the states of explicit shadow vectors, or -1 */
  PetscObjectId    A;         /* 0 for an operator whose state does not show a change */
  PetscObjectState state;     /* of A */
  PetscObjectId    nullspace; /* that is removed from each column of G, or 0 */
} KSPIDRSKeptKey;

/*
   Data that a solve keeps for the next one with the bases G and U of its slot, and the record of the safeguard: one for each
   direction of solves, with A or its transpose
*/
typedef struct {
  KSPIDRSReason  why; /* the bases cannot be taken, or NULL */
  KSPIDRSKeptKey key;
  PetscInt       restarts; /* the seed of P is the seed of the key plus this number */
  PetscInt       k;        /* the step in which the solve has ended */
  KSPIDRSStage   stage;    /* of this step: with KSPIDRS_HAVE_U or KSPIDRS_PROJECTED it must be finished */
  PetscScalar   *storage;  /* IDRS_STORAGE(s) scalars: M, and the sums of this step; NULL before a solve has kept bases */
  PetscInt       its;      /* iterations of the last solve that converged without recycling, or 0 */
  PetscReal      digits;   /* log10 of the reduction of ||r|| in this solve */
  PetscReal      half;     /* the fraction of its iterations after which half of these digits were reached */
  PetscInt       row;      /* recycled solves since then */
  PetscBool      worse;    /* the last recycled solve needed more iterations than expected */
  PetscInt       off;      /* solves that must not recycle now */
  PetscInt       pause;    /* solves that must not recycle after the next failure; 0 stands for KSPIDRS_RECYCLE_PAUSE */
} KSPIDRSKept;

/* Levels of ||r||, a factor of 2^(1/4) apart, for which the safeguard keeps the last iteration above them */
#define KSPIDRS_SAFEGUARD_LEVELS 128

/* The safeguard of recycling in one solve */
typedef struct {
  KSPIDRSKeptKey key;   /* of the bases that the solve makes */
  KSPIDRSTakes   takes; /* data with which it began */
  PetscBool      begun; /* its first residual has not ended it */
  PetscInt       whole; /* the iteration from which no column of G is zero, as after a start that has broken down */
  PetscReal      first; /* first norm */
  PetscInt       above[KSPIDRS_SAFEGUARD_LEVELS]; /* last iteration with log2(first / ||r||) in [i/4, (i+1)/4) */
  PetscReal      expected;                        /* iterations without recycling, or 0 if unknown */
  PetscInt       window, test; /* the test: in iteration `test` the least norm since `window` decides; 0: no test */
  PetscReal      least, most;  /* this norm, and the largest one with which the solve goes on */
} KSPIDRSSafeguard;

/* A right-hand side and the vectors of its recurrence. KSPSolve() has one slot, KSPMatSolve() one for each simultaneous column */
typedef struct {
  IDRSWorkspace     work;    /* the bases G and U with their back end */
  IDRSScalars      *scalars; /* of work, on the host */
  Vec               r;       /* residual b - A x, or B^{-1}(b - A x) for preconditioning from the left */
  Vec               z;       /* iterate since the last reliable update */
  Vec               v, t;    /* direction, or preconditioned residual; matvec, or preconditioned direction */
  Vec               p;       /* B^{-1}r in the omega step: v with a preconditioner, else r itself */
  Vec               anchor;  /* residual of vec_sol, for the next reliable update; NULL without reliable updating */
  Vec              *G, *U;   /* columns of the bases */
  KSPIDRSRecurrence rec;
  KSPIDRSTrust      trust;
  PetscReal         scale; /* a power of 2: r, z and anchor are multiplied by it, norms are not; see KSPIDRSSetScale_Private() */
  KSPIDRSReported   rep;
  KSPIDRSKept       kept; /* of the last solve in this slot */
  KSPIDRSSafeguard  safeguard;
  IDRSWorkspace     otherwork; /* the bases of the other direction, with A instead of its transpose, or NULL */
  KSPIDRSKept       otherkept; /* of the last solve in that direction */
  PetscInt          index;     /* of the column of B in KSPMatSolve(); -1 for an empty slot */
  PetscBool         copied;    /* the solution is a copy of the column of X */
} KSPIDRSColumn;

/* Columns that make step k together */
typedef struct {
  PetscInt       count;
  KSPIDRSColumn *column[IDRS_MAX_WIDTH];
} KSPIDRSColumns;

/* Columns of a pass, with the step of each, ||r||^2 if the sums of the step contain it, and the way to the norm of the new r */
typedef struct {
  IDRSGroup      group;
  KSPIDRSColumn *column[IDRS_MAX_WIDTH];
  IDRSStep       step[IDRS_MAX_WIDTH];
  PetscReal      rr[IDRS_MAX_WIDTH];
  KSPIDRSNorm    norm[IDRS_MAX_WIDTH];
} KSPIDRSPass;

/* The dense matrices of a KSPMatSolve(), and its results */
typedef struct {
  Mat             B, X;
  KSPIDRSReported outer;     /* the members of the KSP before this solve */
  PCFailedReason  failed;    /* of the set-up of the preconditioner on this process */
  PetscReal     **histories; /* of right-hand sides that are done, or NULL */
  PetscInt64     *lengths;
  PetscInt        next;  /* the right-hand side that gets the next free slot */
  PetscInt        total; /* iterations of all */
} KSPIDRSDense;

/* Results of the last KSPMatSolve() */
typedef struct {
  PetscInt            count;
  KSPConvergedReason *reasons;
  PetscInt           *its;
  PetscReal          *norms;
  PetscBool           latest; /* the last solve was this one */
} KSPIDRSResults;

/* Counts of the block recurrences of the last solve */
typedef struct {
  PetscInt      columns, rank; /* right-hand sides, and columns of their bases */
  PetscInt      single;        /* right-hand sides that continued with single recurrences */
  KSPIDRSReason why;           /* the reason of the last of them */
} KSPIDRSBlockCounts;

/* Counts of the last solve, for -ksp_view and KSPIDRSGetCounts() */
typedef struct {
  PetscInt       matvecs, preconditions, updates, verifications, restarts;
  PetscInt       kernels, persistentmatvecs; /* kernels that made many steps, and their matvecs */
  PetscLogDouble norms, before;              /* norms of b - A x; reductions of the work before this solve */
  PetscLogDouble matvecseconds, pcseconds;   /* on a GPU, if PETSc measures them */
  PetscInt       recycled, given, dropped;   /* right-hand sides that began with bases; with U only; that dropped them */
  PetscInt       refused;                    /* right-hand sides that began without */
  KSPIDRSReason  refusal;                    /* the reason of the last of them */
  PetscReal      growth;                     /* largest ||r - G c|| / ||r|| of recycled bases */
  PetscReal      expected;                   /* iterations of these right-hand sides without recycling, or 0 */
  PetscInt       spent;                      /* iterations of these right-hand sides with recycling */
} KSPIDRSCounts;

typedef struct {
  KSPIDRSSettings set;

  /* Work space, from KSPSetUp_IDRS() until reset. The first slot is for KSPSolve(); KSPMatSolve() creates the others */
  KSPIDRSColumn  slot[IDRS_MAX_WIDTH];
  KSPIDRSColumn *current;  /* the slot of the last report */
  PetscInt       slots;    /* that have vectors */
  PetscInt       nvecs;    /* length of vecs */
  Vec           *vecs;     /* work vectors of the first slot, and of the smoothed iterate */
  Vec           *slotvecs; /* of the other slots, slotlength for all */
  void          *slotmemory;
  PetscInt       slotlength;
  PetscBool      transposed; /* the direction of the bases in the slots, if solves recycle */
  IDRSProduct    product;    /* y = A x */
  PetscBool      exact;      /* b - A x can be trusted */
  KSPIDRSReader  reader;
  Vec            inverse;  /* the diagonal of B^{-1}, or NULL */
  Vec            diagonal; /* this vector if the passes apply the preconditioner of this solve, or NULL */
  /* the smoothed iterate is x + sigma d, its residual r + sigma e, q the one before; NULL without smoothing */
  Vec        d, e, q;
  Mat        pcin, pcout; /* dense matrices for PCMatApply(), or NULL */
  Vec        solution;    /* for KSPBuildSolution() without a vector, or NULL */
  IDRSMemory place;       /* of the solution in the last solve, */
  PetscBool  placed;      /* if there was one on this GPU */

  /* Of this solve */
  KSPIDRSState          state;
  PetscInt              nesting; /* outer solves of this type */
  PetscInt              depth;   /* projections in flight while the host waits for one; 0 in lockstep */
  KSPIDRSPCMode         pcmode;
  KSPIDRSPCMatApply     pcmatapply;
  KSPIDRSReason         separatepc; /* why neither the passes nor the persistent kernel apply the preconditioner */
  const IDRSPolynomial *polynomial; /* the preconditioner for the persistent kernel, or NULL */
  PetscBool             lagged;     /* the norm of an inner step comes with the next reduction */
  PetscBool             scatters;   /* the scatter of the operator goes from GPU to GPU */
  KSPIDRSReason         lockstep;   /* why the host waits in every step */
  PetscBool             persistent; /* one kernel makes many steps */
  KSPIDRSReason         slowerrun;  /* why not */
  PetscScalar           sigma;      /* of the smoothed iterate */
  PetscScalar           addedsigma; /* the sigma with which d was last added to vec_sol */
  PetscInt              active;     /* slots of this solve */
  KSPIDRSCounts         counts;
  KSPIDRSResults        results;
  KSPIDRSBlockCounts    blocks;
  KSPIDRSReason         sequential; /* why the last KSPMatSolve() solved one after another */
} KSP_IDRS;

/* Returns PETSC_TRUE if a preconditioner must be applied to v before U is computed */
static inline PetscBool KSPIDRSIsPreconditioned(const KSP_IDRS *idrs)
{
  return (PetscBool)(idrs->pcmode != KSPIDRS_PC_PASSES);
}

static inline KSPIDRSColumns KSPIDRSOneColumn(KSPIDRSColumn *col)
{
  return (KSPIDRSColumns){.count = 1, .column = {col}};
}

static inline void KSPIDRSColumnsAdd(KSPIDRSColumns *cols, KSPIDRSColumn *col)
{
  cols->column[cols->count++] = col;
}

/* Returns PETSC_TRUE if the recurrence can make another step */
static inline PetscBool KSPIDRSIsIterating(const KSPIDRSColumn *col)
{
  return (PetscBool)(!col->rep.reason && col->rec.status < KSPIDRS_UNCHECKED);
}

/* Returns PETSC_TRUE at the beginning of a cycle, or of a start */
static inline PetscBool KSPIDRSAtCycle(const KSPIDRSRecurrence *rec)
{
  return (PetscBool)(rec->step.k == 0 && rec->stage != KSPIDRS_PROJECTED && rec->status == KSPIDRS_RECURS);
}

/* Lists a vector of each column */
#define KSPIDRSGetVecs(cols, member, vecs) \
  for (PetscInt l = 0; l < (cols)->count; l++) (vecs)[l] = (cols)->column[l]->member

/* Returns the works of columns */
static inline IDRSGroup KSPIDRSGetGroup(const KSPIDRSColumns *cols)
{
  IDRSGroup group = {.count = cols->count};

  for (PetscInt i = 0; i < cols->count; i++) group.work[i] = cols->column[i]->work;
  return group;
}

/*
   Growth of ||x|| between two checks at which a solve ends: if ||r|| has not fallen, and in any case. In 334 solves of real systems
   that converged ||x|| grew by a factor of at most 1.1e4
*/
#define IDRS_MAX_DRIFT(progress) ((progress) ? IDRS_MAX_GROWTH : 1.0 / PETSC_SQRT_MACHINE_EPSILON)

/* Iterations before the first check of the iterate: a check ends the persistent kernel, and the host waits for a device */
#define IDRS_FIRST_CHECK(whole) ((whole) ? 512 : 128)

/* Sets the state at the beginning of a solve, without norms */
static inline void KSPIDRSResetColumn(KSPIDRSColumn *col)
{
  col->scale = 1.0;
  col->rec   = (KSPIDRSRecurrence){.its = 0};
  col->trust = (KSPIDRSTrust){.replacements.least = PETSC_MAX_REAL,
                              .breakdowns.least   = PETSC_MAX_REAL,
                              .progress.least     = PETSC_MAX_REAL,
                              .least              = PETSC_MAX_REAL};
}

/* Returns PETSC_TRUE if r, with this norm, has fallen so far that it must be computed from z */
static inline PetscBool KSPIDRSUpdateDue(const KSP_IDRS *idrs, const KSPIDRSColumn *col, PetscReal rnorm)
{
  return (PetscBool)(col->anchor && IDRSUpdateIsDue(rnorm, idrs->set.updatetol, col->trust.peak, col->trust.anchornorm));
}

/*
   Returns the limit of the growth of r, at which some digits of the first x are still accurate. With explicit shadow vectors there
   is no limit, because a restart would repeat the growth
*/
static inline PetscReal KSPIDRSGrowth(const KSP_IDRS *idrs)
{
  return idrs->set.maxrestarts && !idrs->set.P ? IDRS_MAX_GROWTH : PETSC_MAX_REAL;
}

/* Returns the growth limit of a recurrence that began with a residual of this norm */
static inline PetscReal KSPIDRSGrowthLimit(const KSP_IDRS *idrs, PetscReal begin)
{
  return IDRSGrowthLimit(begin, KSPIDRSGrowth(idrs));
}

/* Sets the norm of a recomputed r */
static inline void KSPIDRSSetReplacedNorm(KSPIDRSTrust *trust, PetscReal rnorm)
{
  trust->rnorm = trust->anchornorm = trust->peak = rnorm;
}

/* Sets the norm of the first r, unless it was computed before, as it is without KSP_NORM_NONE */
static inline void KSPIDRSSetStartNorm(KSPIDRSTrust *trust, PetscReal rnorm)
{
  if (trust->anchornorm == PETSC_MAX_REAL) KSPIDRSSetReplacedNorm(trust, rnorm);
}

/* Returns PETSC_TRUE if the safeguard of recycling decides at the end of the cycle of this iteration */
static inline PetscBool KSPIDRSSafeguardDue(const KSPIDRSColumn *col, PetscInt its)
{
  return (PetscBool)(col->safeguard.test && its >= col->safeguard.test);
}

/* Returns the seed of the hashed shadow space without restarts: a solver inside another one of this type has its own */
static inline uint64_t KSPIDRSGetSeed(const KSP_IDRS *idrs)
{
  return (uint64_t)idrs->set.seed + ((uint64_t)idrs->nesting << 32);
}

/* idrs.c, the method */
PETSC_INTERN PetscErrorCode KSPCreate_IDRS(KSP);
/* Solves of this type that are in progress in this thread, one inside the other: see KSPIDRSBeginRecurrence_Private() */
extern PETSC_VISIBILITY_INTERNAL _Thread_local PetscInt KSPIDRSNesting;

/* idrsview.c */
PETSC_INTERN PetscErrorCode KSPView_IDRS(KSP, PetscViewer);

/* idrsset.c */
PETSC_INTERN PetscErrorCode KSPSetFromOptions_IDRS(KSP, IDRSOptionItems);
PETSC_INTERN PetscErrorCode KSPIDRSComposeSetters_Private(KSP, PetscBool);
PETSC_INTERN PetscErrorCode KSPIDRSCountReductions_Private(KSP, PetscInt *);

/* idrssetup.c */
PETSC_INTERN PetscErrorCode KSPSetUp_IDRS(KSP);
PETSC_INTERN PetscErrorCode KSPReset_IDRS(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSRecover_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSPrepareColumns_Private(KSP, PetscInt);
PETSC_INTERN PetscErrorCode KSPIDRSGetWorkInfo_Private(KSP, IDRSWorkspaceInfo *);
PETSC_INTERN PetscErrorCode KSPIDRSForgetKept_Private(KSP);
PETSC_INTERN PetscBool      KSPIDRSMonitorsNorms(KSP);

/* idrscolumns.c */
PETSC_INTERN PetscErrorCode KSPIDRSMatSolveBegin_Private(KSP, Mat, Mat);
PETSC_INTERN PetscErrorCode KSPIDRSSolveSequentially_Private(KSP, PetscBool, Mat, Mat);
PETSC_INTERN PetscErrorCode KSPIDRSBegin_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSEnd_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSEmptySlot_Private(KSP, KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSRefillSlots_Private(KSP, KSPIDRSDense *, KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSConclude_Private(KSP);
PETSC_INTERN PetscErrorCode KSPIDRSResetResults_Private(KSP);

/* idrsblock.c */
PETSC_INTERN PetscErrorCode KSPIDRSBlockSolve_Private(KSP, const KSPIDRSColumns *);

/* idrsreport.c */
PETSC_INTERN KSPIDRSReported KSPIDRSGetReported(KSP);
PETSC_INTERN void            KSPIDRSSetReported(KSP, const KSPIDRSReported *);
PETSC_INTERN PetscErrorCode  KSPIDRSTest_Private(KSP, KSPIDRSColumn *, PetscReal);
PETSC_INTERN PetscErrorCode  KSPIDRSTestNorm_Private(KSP, KSPIDRSColumn *, PetscReal);
PETSC_INTERN PetscErrorCode  KSPIDRSMonitor_Private(KSP, KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode  KSPIDRSReport_Private(KSP, KSPIDRSColumn *, PetscInt, PetscReal);
PETSC_INTERN PetscErrorCode  KSPIDRSReportOutcome_Private(KSP, KSPIDRSColumn *, const IDRSOutcome *);
PETSC_INTERN PetscErrorCode  KSPIDRSReportNow_Private(KSP, const KSPIDRSPass *);
PETSC_INTERN PetscErrorCode  KSPIDRSConcludeReport_Private(KSP, KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode  KSPIDRSCollectUpTo_Private(KSP, KSPIDRSColumn *, PetscInt, PetscBool *);
PETSC_INTERN PetscErrorCode  KSPIDRSCollect_Private(KSP, PetscInt *, KSPIDRSColumns *);

/* idrspersistent.c */
PETSC_INTERN PetscErrorCode KSPIDRSRunKernels_Private(KSP, KSPIDRSColumns *);

/* idrscycle.c */
PETSC_INTERN IDRSStep       KSPIDRSGetStep(const KSP_IDRS *, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSCombine_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSPrecondition_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSMatvec_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSProject_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSProjectResidual_Private(const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSScalars_Private(KSP, const KSPIDRSColumns *, KSPIDRSPass *);
PETSC_INTERN PetscErrorCode KSPIDRSNextStep_Private(KSP, KSPIDRSPass *);
PETSC_INTERN PetscBool      KSPIDRSTestsNorm(KSP, PetscInt);
PETSC_INTERN IDRSBounds     KSPIDRSGetTestedBounds(KSP, const KSPIDRSColumn *);
PETSC_INTERN IDRSBounds     KSPIDRSGetBounds(KSP, const KSPIDRSColumn *);

/* idrsoperator.c. Squares of smaller norms lose digits or underflow; squares of larger norms overflow */
#define IDRS_SMALLEST_NORM PetscSqrtReal(1 / (PETSC_MAX_REAL * PETSC_MACHINE_EPSILON))
#define IDRS_LARGEST_NORM  PetscSqrtReal(PETSC_MAX_REAL)
PETSC_INTERN PetscErrorCode KSPIDRSNorms_Private(KSP, const KSPIDRSColumns *, Vec[], PetscReal[]);
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
PETSC_INTERN PetscErrorCode KSPIDRSSmoothAddToSolution_Private(KSP, const KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSSmoothSubtract_Private(KSP, KSPIDRSColumn *, Vec);

/* idrstrust.c */
PETSC_INTERN PetscErrorCode KSPBuildSolution_IDRS(KSP, Vec, Vec *);
PETSC_INTERN PetscErrorCode KSPIDRSAddIterate_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSBeginRecurrence_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSAnchor_Private(KSPIDRSColumn *);
PETSC_INTERN PetscErrorCode KSPIDRSCheckTrueNorm_Private(KSP, KSPIDRSColumn *, PetscReal);
PETSC_INTERN PetscErrorCode KSPIDRSCheckIterates_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSFinishReplacement_Private(KSP, KSPIDRSColumn *, IDRSOutcome *, PetscBool);
PETSC_INTERN PetscErrorCode KSPIDRSTakeReplacedResidual_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSCheckTrueResidual_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSUpdateProduct_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSUpdateResidual_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSReliableUpdate_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSRestart_Private(KSP, const KSPIDRSColumns *);

/* idrsrecycle.c */
PETSC_INTERN PetscErrorCode KSPIDRSRecycleChoose_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSRecycleBegin_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSRecycleEndStart_Private(KSP, const KSPIDRSColumns *);
PETSC_INTERN PetscErrorCode KSPIDRSRecycleEnd_Private(KSP, KSPIDRSColumn *, PetscBool);
