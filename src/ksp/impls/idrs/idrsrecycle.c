/*
   Recycling: a solve begins with the bases G and U, the matrix M and the shadow space P of the previous solve. After J cycles G
   lies in the Sonneveld space G_J(A, P), so that the next residual converges as after the plateau of a solve without recycling.

     the same A      f = P^H r,  M c = f;   r - G c,  x + U c;   then the omega step that ends a start
     a changed A     start steps with the U_k that are there, in place of B^{-1}v:  G_k = A U_k;   then the same c

   The previous solve may have ended inside a step: its G_k = A U_k has not been made orthogonal to p_0 ... p_{k-1}, or not even
   computed. The next solve finishes this step first, with beta_k = 0, which does not change r and x.

   The safeguard of -ksp_idrs_recycle auto:

     before a solve   does the last record have a plateau?  half is the fraction of its iterations after which half of the digits
                      were reached, 1/2 for linear convergence
     at the beginning ||r - G c|| / ||r||, because P^H G is small in deep bases
     once during it   at 0.6 of the expected iterations: a quarter of the digits must have been reached. If not, the solve restarts
                      with the next seed: r lies deep in the spaces of this seed, where P^H r is rounding error
     after it         pauses if recycling has taken more iterations, or if the recurrence has begun again for any reason
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>

/* Smallest `half` of a record, if A is the same or has changed, and smallest number of its iterations as a multiple of s */
#define KSPIDRS_RECYCLE_HALF         0.65
#define KSPIDRS_RECYCLE_HALF_CHANGED 0.70
#define KSPIDRS_RECYCLE_ITS          4
#define KSPIDRS_RECYCLE_ITS_CHANGED  5
/* Number of solves after which a record is too old if A changes */
#define KSPIDRS_RECYCLE_ROW 16
/* The test: iteration, fraction of the digits, and window of norms; the first and the last relative to the expected iterations */
#define KSPIDRS_RECYCLE_TEST   0.6
#define KSPIDRS_RECYCLE_DIGITS 0.25
#define KSPIDRS_RECYCLE_WINDOW 0.1
/* Iterations over expected ones: above the first a solve counts as a failure, below the second pauses are short again */
#define KSPIDRS_RECYCLE_WORSE  1.3
#define KSPIDRS_RECYCLE_BETTER 0.7
/* Solves without recycling after the first failure */
#define KSPIDRS_RECYCLE_PAUSE 10
/* Largest ||r - G c|| / ||r|| the first time, and after a solve that recycled: 1e5 and 1e9 in double precision */
#define KSPIDRS_RECYCLE_GROWTH      PetscPowReal(PETSC_MACHINE_EPSILON, -0.32)
#define KSPIDRS_RECYCLE_GROWTH_MOST PetscPowReal(PETSC_MACHINE_EPSILON, -0.575)

/* Largest part of the divergence tolerance that the beginning of a solve may reach */
#define KSPIDRS_RECYCLE_DIVERGES 1e-3

const char *const KSPIDRSRecycles[] = {"never", "auto", "always", "KSPIDRSRecycle", "KSP_IDRS_RECYCLE_", NULL};

/*
   Returns the key of the bases of this solve. The operator has none if it may change without its state: types that consist of
   other matrices, and AIJ matrices with a MatMult() of the user. A null space is removed from products only with preconditioning
   from the left
*/
static PetscErrorCode KSPIDRSGetKey_Private(KSP ksp, KSPIDRSKeptKey *key)
{
  KSP_IDRS    *idrs  = (KSP_IDRS *)ksp->data;
  MatNullSpace space = NULL;
  PetscBool    tells, none, aij;
  Mat          A;

  PetscFunctionBegin;
  *key = (KSPIDRSKeptKey){.seed = KSPIDRSGetSeed(idrs), .shadow = idrs->set.P ? 0 : -1};
  for (PetscInt i = 0; idrs->set.P && i < idrs->set.s; i++) {
    PetscObjectState state;

    PetscCall(PetscObjectStateGet((PetscObject)idrs->set.P[i], &state));
    key->shadow += state;
  }
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &tells, MATSEQAIJ, MATMPIAIJ, MATSEQBAIJ, MATMPIBAIJ, MATSEQSBAIJ,
                                          MATMPISBAIJ, MATSEQSELL, MATMPISELL, MATSEQDENSE, MATMPIDENSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (aij) PetscCall(IDRSMatHasUsualMult(A, &tells));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCNONE, &none));
  /* from the left G = B^{-1} A U, and B has no state */
  if (tells && (ksp->pc_side == PC_RIGHT || none)) PetscCall(PetscObjectGetId((PetscObject)A, &key->A));
  PetscCall(PetscObjectStateGet((PetscObject)A, &key->state));
  if (ksp->pc_side == PC_LEFT && ksp->transpose_solve) PetscCall(MatGetTransposeNullSpace(A, &space));
  else if (ksp->pc_side == PC_LEFT) PetscCall(MatGetNullSpace(A, &space));
  if (space) PetscCall(PetscObjectGetId((PetscObject)space, &key->nullspace));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if G = A U holds for the operator of the key */
static PetscBool KSPIDRSKeyHasOperator(const KSPIDRSKeptKey *kept, const KSPIDRSKeptKey *key)
{
  return (PetscBool)(kept->A && kept->A == key->A && kept->state == key->state);
}

/* Returns the reason why a solve cannot begin with the bases of a slot, or NULL. The safeguard shortens a pause by one solve */
static KSPIDRSReason KSPIDRSRefuses(KSP ksp, KSPIDRSKept *kept, const KSPIDRSKeptKey *key)
{
  const KSP_IDRS *idrs = (const KSP_IDRS *)ksp->data;
  const PetscBool same = KSPIDRSKeyHasOperator(&kept->key, key);

  if (idrs->active > 1 && idrs->set.block) return "block recurrences do not recycle";
  if (kept->why) return kept->why;
  if (!kept->storage) return "no solve has left bases";
  if (kept->key.seed != key->seed || kept->key.shadow != key->shadow) return "the shadow space has changed";
  if (kept->key.nullspace != key->nullspace) return "another null space is removed from products";
  if (idrs->set.recycle == KSP_IDRS_RECYCLE_ALWAYS) return NULL;

  if (ksp->normtype == KSP_NORM_NONE) return "there are no norms, from which -ksp_idrs_recycle auto decides";
  if (idrs->set.s < 2) return "with s = 1 it hardly pays";
  if (!kept->its) return "no solve without recycling has converged";
  /* r grows at first, and there would be no test */
  if (KSPIDRS_RECYCLE_TEST * (PetscReal)kept->its >= (PetscReal)ksp->max_it) return "the maximum number of iterations is small";
  if (kept->off > 0) {
    kept->off--;
    return "it was of no use lately";
  }
  if (kept->half < (same ? KSPIDRS_RECYCLE_HALF : KSPIDRS_RECYCLE_HALF_CHANGED))
    return "the last solve without recycling had no plateau";
  if (kept->its < (same ? KSPIDRS_RECYCLE_ITS : KSPIDRS_RECYCLE_ITS_CHANGED) * idrs->set.s)
    return "the last solve without recycling was short";
  if (!same && kept->row >= KSPIDRS_RECYCLE_ROW) return "the operator changes, and the record is old";
  return NULL;
}

/* Makes the right-hand side begin without bases, for this reason */
static PetscErrorCode KSPIDRSRefuse_Private(KSP ksp, KSPIDRSColumn *col, KSPIDRSReason why)
{
  KSPIDRSCounts *counts = &((KSP_IDRS *)ksp->data)->counts;

  PetscFunctionBegin;
  col->safeguard.takes = KSPIDRS_TAKES_NOTHING;
  counts->refused++;
  counts->refusal = why;
  PetscCall(PetscInfo(ksp, "The solve does not begin with the bases of the last one: %s\n", why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRecycleChoose_Private - Chooses the data that each right-hand side reuses from the previous solve, and sets its shadow
   space. States of vectors and matrices may differ between processes, which must make the same choice
*/
PetscErrorCode KSPIDRSRecycleChoose_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS      *idrs                = (KSP_IDRS *)ksp->data;
  KSPIDRSReason  why[IDRS_MAX_WIDTH] = {NULL};
  PetscMPIInt    takes[IDRS_MAX_WIDTH];
  KSPIDRSKeptKey key;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++)
    PetscCall(PetscMemzero(&cols->column[i]->safeguard, sizeof(cols->column[i]->safeguard)));
  if (idrs->set.recycle == KSP_IDRS_RECYCLE_NEVER) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSGetKey_Private(ksp, &key));
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSKept *kept = &cols->column[i]->kept;

    cols->column[i]->safeguard.key = key;
    why[i]                         = KSPIDRSRefuses(ksp, kept, &key);
    takes[i] = why[i] ? KSPIDRS_TAKES_NOTHING : KSPIDRSKeyHasOperator(&kept->key, &key) ? KSPIDRS_TAKES_BASES : KSPIDRS_TAKES_U;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, takes, (PetscMPIInt)cols->count, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)ksp));
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    col->safeguard.takes = (KSPIDRSTakes)takes[i];
    if (col->safeguard.takes == KSPIDRS_TAKES_NOTHING)
      PetscCall(KSPIDRSRefuse_Private(ksp, col, why[i] ? why[i] : "the shadow space has changed on another process"));
    else col->trust.restarts = col->kept.restarts;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Begins again without bases, from r and x, which have not changed */
static PetscErrorCode KSPIDRSBeginAgain_Private(KSP ksp, KSPIDRSColumn *col, KSPIDRSReason why)
{
  const KSPIDRSColumns one = KSPIDRSOneColumn(col);

  PetscFunctionBegin;
  PetscCall(KSPIDRSRefuse_Private(ksp, col, why));
  col->trust.restarts      = 0;
  col->rec.its             = 0;
  col->rec.step.unreported = PETSC_FALSE;
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &one));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the reason why a solve does not continue with ||r - G c|| / ||r|| = growth, which may be NaN, or NULL. Later steps may
   let r grow further, and must not exceed the divergence tolerance either
*/
static KSPIDRSReason KSPIDRSRefusesGrowth(KSP ksp, const KSPIDRSColumn *col, PetscReal growth)
{
  const KSP_IDRS *idrs  = (const KSP_IDRS *)ksp->data;
  const PetscBool first = (PetscBool)(idrs->set.recycle == KSP_IDRS_RECYCLE_AUTO && !col->kept.row);
  const PetscBool tests = (PetscBool)(ksp->converged == KSPConvergedDefault && ksp->normtype != KSP_NORM_NONE);

  if (!(growth <= (first ? KSPIDRS_RECYCLE_GROWTH : KSPIDRS_RECYCLE_GROWTH_MOST))) return "the residual would grow too far";
  if (tests && !(growth * (col->trust.rnorm / col->rep.rnorm0) <= KSPIDRS_RECYCLE_DIVERGES * ksp->divtol))
    return "the residual would come near the tolerance of divergence";
  return NULL;
}

/* Computes r = r - G c for all columns, and the growth ||r - G c|| / ||r||; v is a copy of the old r */
static PetscErrorCode KSPIDRSApplyBases_Private(KSP ksp, const KSPIDRSColumns *cols, PetscReal growth[])
{
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  IDRSStep        steps[IDRS_MAX_WIDTH];
  Vec             r[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (!cols->count) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < cols->count; i++) {
    const KSPIDRSColumn *col = cols->column[i];

    PetscCall(VecCopy(col->r, col->v));
    r[i]     = col->r;
    steps[i] = (IDRSStep){.k = col->scalars->s, .start = PETSC_TRUE, .wantv = PETSC_TRUE};
  }
  PetscCall(IDRSCombine(&group, steps)); /* r = r - G c */
  PetscCall(KSPIDRSNorms_Private(ksp, cols, r, growth));
  for (PetscInt i = 0; i < cols->count; i++) growth[i] /= cols->column[i]->scale * cols->column[i]->trust.rnorm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Continues the solve with bases, after r has become r - G c. The safeguard schedules its test if the solve could restart with
   another seed, and if the test comes before max_it
*/
static PetscErrorCode KSPIDRSAccept_Private(KSP ksp, KSPIDRSColumn *col, PetscReal growth)
{
  KSP_IDRS         *idrs      = (KSP_IDRS *)ksp->data;
  KSPIDRSSafeguard *safeguard = &col->safeguard;
  KSPIDRSCounts    *counts    = &idrs->counts;
  const PetscInt    cycle     = idrs->set.s + 1;
  /* the omega step after r - G c ends a cycle: these are the iterations before the first full one */
  const PetscInt before = safeguard->takes == KSPIDRS_TAKES_BASES ? 1 : cycle;
  PetscReal      digits = col->kept.digits, later;

  PetscFunctionBegin;
  counts->growth = PetscMax(counts->growth, growth);
  /* the iterations of the record, times the digits of this solve over the digits of the record */
  if (ksp->converged != KSPConvergedDefault || ksp->normtype == KSP_NORM_NONE) safeguard->expected = (PetscReal)col->kept.its;
  else if (col->kept.its && col->rep.ttol > 0.0) { /* else only a zero residual meets the tolerances */
    digits              = PetscLog10Real(safeguard->first / col->rep.ttol);
    safeguard->expected = (PetscReal)col->kept.its * digits / col->kept.digits;
  }
  /* rounding errors are relative to the largest r */
  col->trust.peak = PetscMax(col->trust.peak, growth * col->trust.rnorm);
  PetscCall(PetscInfo(ksp, "The solve begins with the %s of the last one, ||r|| grows by a factor of %g, %g iterations expected\n",
                      safeguard->takes == KSPIDRS_TAKES_U ? "U" : "bases", (double)growth, (double)safeguard->expected));
  if (idrs->set.recycle != KSP_IDRS_RECYCLE_AUTO || idrs->set.P || !idrs->set.maxrestarts) PetscFunctionReturn(PETSC_SUCCESS);
  if (!(safeguard->expected > 0.0) || KSPIDRS_RECYCLE_TEST * safeguard->expected >= (PetscReal)ksp->max_it)
    PetscFunctionReturn(PETSC_SUCCESS);
  later = PetscMax(KSPIDRS_RECYCLE_TEST * safeguard->expected - (PetscReal)before, 0.0);
  /* at the end of a cycle, so that a kernel of many steps runs up to there */
  safeguard->test   = before + cycle * (PetscInt)PetscCeilReal(later / (PetscReal)cycle);
  safeguard->window = safeguard->test - (PetscInt)PetscMax((PetscReal)cycle, KSPIDRS_RECYCLE_WINDOW * safeguard->expected);
  safeguard->least  = PETSC_MAX_REAL;
  safeguard->most   = safeguard->first * PetscPowReal(10.0, -KSPIDRS_RECYCLE_DIGITS * digits);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Brings the bases of the last solve to the state in which r - G c can be computed: finishes the step in which it ended. Either
   the sums d = P^H G_k of this step have been computed, or U_k has been computed and G_k = A U_k has not. If the step fails, the
   recurrence is suspended
*/
static PetscErrorCode KSPIDRSRestoreBases_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPIDRSColumns one  = KSPIDRSOneColumn(col);
  const KSPIDRSKept   *kept = &col->kept;
  KSPIDRSRecurrence   *rec  = &col->rec;
  KSPIDRSPass          pass;
  IDRSOutcome          outcome;

  PetscFunctionBegin;
  PetscCall(PetscArraycpy(col->scalars->M, kept->storage, IDRS_STORAGE(col->scalars->s)));
  rec->step    = (IDRSStep){.k = kept->k};
  rec->stage   = kept->stage;
  rec->status  = KSPIDRS_REPLACED;
  rec->columns = 0;
  if (rec->stage == KSPIDRS_NOTHING) PetscFunctionReturn(PETSC_SUCCESS);
  if (rec->stage == KSPIDRS_HAVE_U) {
    rec->recycled = PETSC_TRUE;                  /* U_k is of the last solve: no preconditioner has multiplied it in this one */
    PetscCall(KSPIDRSMatvec_Private(ksp, &one)); /* G_k = A U_k */
    rec->recycled = PETSC_FALSE;
    PetscCall(KSPIDRSProject_Private(ksp, &one)); /* d = P^H G_k, G_k^H G_k */
    PetscCall(IDRSQueueCollect(col->work, &outcome));
    if (outcome.verdict == IDRS_NOT_FINITE) rec->status = KSPIDRS_BREAKDOWN;
  }
  if (rec->status == KSPIDRS_BREAKDOWN) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSScalars_Private(ksp, &one, &pass)); /* alpha, M_k */
  PetscCall(IDRSUpdate(&pass.group, pass.step));       /* G_k, U_k */
  PetscCall(KSPIDRSNextStep_Private(ksp, &pass));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRecycleBegin_Private - Begins the recurrence of columns with data of the last solve, after their first residuals have been
   reported. With bases, the next step is the omega step that ends a start
*/
PetscErrorCode KSPIDRSRecycleBegin_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSCounts *counts   = &((KSP_IDRS *)ksp->data)->counts;
  KSPIDRSColumns restored = {.count = 0}, bases = {.count = 0};
  PetscReal      growth[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (col->rep.reason) continue; /* the bases wait for the next right-hand side */
    col->safeguard.begun = PETSC_TRUE;
    if (col->safeguard.takes == KSPIDRS_TAKES_U) {
      col->rec.recycled = PETSC_TRUE;
      counts->recycled++;
      counts->given++;
    }
    if (col->safeguard.takes != KSPIDRS_TAKES_BASES) continue;
    PetscCall(KSPIDRSRestoreBases_Private(ksp, col));
    if (col->rec.status == KSPIDRS_BREAKDOWN)
      PetscCall(KSPIDRSBeginAgain_Private(ksp, col, "the step in which the last solve ended breaks down"));
    else KSPIDRSColumnsAdd(&restored, col);
  }
  if (restored.count) PetscCall(KSPIDRSProjectResidual_Private(&restored)); /* P^H r, r^H r */
  for (PetscInt i = 0; i < restored.count; i++) {
    KSPIDRSColumn *col = restored.column[i];
    PetscReal      rr;
    IDRSOutcome    outcome;

    PetscCall(IDRSQueueCollect(col->work, &outcome));
    if (outcome.verdict == IDRS_NOT_FINITE) PetscCall(KSPIDRSTestNorm_Private(ksp, col, (PetscReal)INFINITY));
    if (col->rep.reason) continue;
    PetscCall(IDRSQueueContinue(col->work, &outcome.step, 0.0, &rr, &outcome.verdict)); /* f = P^H r */
    IDRSScalarsCombine(col->scalars, 0);                                                /* M c = f */
    KSPIDRSSetStartNorm(&col->trust, outcome.rnorm / col->scale);
    KSPIDRSColumnsAdd(&bases, col);
  }
  PetscCall(KSPIDRSApplyBases_Private(ksp, &bases, growth)); /* r = r - G c */
  for (PetscInt i = 0; i < bases.count; i++) {
    KSPIDRSColumn      *col = bases.column[i];
    KSPIDRSRecurrence  *rec = &col->rec;
    const KSPIDRSReason why = KSPIDRSRefusesGrowth(ksp, col, growth[i]);

    if (why) {
      PetscCall(VecCopy(col->v, col->r));
      PetscCall(KSPIDRSBeginAgain_Private(ksp, col, why));
      continue;
    }
    counts->recycled++;
    PetscCall(PetscArrayzero(col->scalars->beta, col->scalars->s)); /* x = vec_sol + U beta, and the omega step adds U c */
    rec->step    = (IDRSStep){.k = col->scalars->s, .start = PETSC_TRUE};
    rec->stage   = KSPIDRS_HAVE_R;
    rec->status  = KSPIDRS_RECURS;
    rec->columns = col->scalars->s;
    rec->its     = 0;
    PetscCall(KSPIDRSAccept_Private(ksp, col, growth[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRecycleEndStart_Private - Computes r = r - G c after the last step of a start with recycled U. If it is too large, the
   recurrence begins again, from the present x and r
*/
PetscErrorCode KSPIDRSRecycleEndStart_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn       *col = cols->column[i];
    const KSPIDRSColumns one = KSPIDRSOneColumn(col);
    KSPIDRSReason        why;
    PetscReal            growth;

    if (!col->rec.recycled || col->rec.step.k != col->scalars->s || !KSPIDRSIsIterating(col)) continue;
    PetscCall(KSPIDRSApplyBases_Private(ksp, &one, &growth)); /* r = r - G c */
    col->rec.recycled = PETSC_FALSE;
    why               = KSPIDRSRefusesGrowth(ksp, col, growth);
    if (!why) {
      col->rec.stage = KSPIDRS_HAVE_R;
      PetscCall(KSPIDRSAccept_Private(ksp, col, growth));
      continue;
    }
    PetscCall(VecCopy(col->v, col->r));
    PetscCall(KSPIDRSAddIterate_Private(ksp, &one)); /* vec_sol += z + U beta */
    PetscCall(IDRSVecZero(col->z));
    PetscCall(KSPIDRSAnchor_Private(col));
    PetscCall(PetscInfo(ksp, "The U of the last solve are dropped: %s, by a factor of %g\n", why, (double)growth));
    PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &one));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Writes the record of a solve that converged without recycling */
static void KSPIDRSRecordPlain(KSPIDRSColumn *col)
{
  const KSPIDRSSafeguard *safeguard = &col->safeguard;
  KSPIDRSKept            *kept      = &col->kept;
  const PetscReal         last      = col->trust.rnorm;
  PetscInt                its       = 0;

  kept->its = 0;
  kept->row = 0;
  if (!(last > 0.0 && PetscMax(last, col->rep.ttol) < safeguard->first)) return;
  kept->its    = col->rep.its;
  kept->digits = PetscLog10Real(safeguard->first / PetscMax(last, col->rep.ttol));
  /* the last iteration with a norm above the geometric mean of the first and the last one */
  for (PetscInt i = 0; i < KSPIDRS_SAFEGUARD_LEVELS && (PetscReal)i < 2.0 * PetscLog2Real(safeguard->first / last); i++)
    its = PetscMax(its, safeguard->above[i]);
  kept->half = (PetscReal)its / (PetscReal)kept->its;
}

/* Judges a recycled solve by its iterations, or, if their expected number is unknown, by its convergence */
static void KSPIDRSRecordRecycled(KSPIDRSColumn *col, PetscBool converged)
{
  const KSPIDRSSafeguard *safeguard = &col->safeguard;
  KSPIDRSKept            *kept      = &col->kept;
  const PetscReal         ratio     = safeguard->expected > 0.0 ? (PetscReal)col->rep.its / safeguard->expected : 0.0;

  kept->row++;
  if (safeguard->takes == KSPIDRS_DROPPED_THEM || !converged || ratio > KSPIDRS_RECYCLE_WORSE || (kept->worse && ratio > 1.0)) {
    kept->off   = kept->pause ? kept->pause : KSPIDRS_RECYCLE_PAUSE;
    kept->pause = 2 * kept->off;
    kept->worse = PETSC_FALSE;
  } else if (ratio > 0.0) {
    kept->worse = (PetscBool)(ratio > 1.0);
    if (ratio < KSPIDRS_RECYCLE_BETTER) kept->pause = 0;
  }
}

/* Returns the reason why the bases of this solve cannot be recycled, or NULL */
static KSPIDRSReason KSPIDRSWhyInvalid(KSP ksp, const KSPIDRSColumn *col, PetscBool ondevice)
{
  const KSP_IDRS          *idrs = (const KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec  = &col->rec;

  if (col->rep.reason < 0 && col->rep.reason != KSP_DIVERGED_ITS) return "the last solve has failed";
  if (idrs->active > 1 && idrs->set.block) return "the last solve had a block recurrence";
  if (rec->status != KSPIDRS_RECURS && rec->status != KSPIDRS_COMPLETE) return "the last solve ended in a breakdown";
  /* recycled bases are still complete in the omega step that follows */
  if (rec->step.start && !(col->safeguard.takes == KSPIDRS_TAKES_BASES && rec->step.k == col->scalars->s))
    return "the last solve ended in its start";
  if (rec->its < col->safeguard.whole) return "the last solve ended in its first cycle, after a start that broke down";
  if (ondevice) return "the last solve ended while steps were in flight";
  return NULL;
}

/*
   KSPIDRSRecycleEnd_Private - Keeps the bases of a solve that has ended, and judges it. The scalars are on the host; ondevice is
   true if they were on a device when the solve ended
*/
PetscErrorCode KSPIDRSRecycleEnd_Private(KSP ksp, KSPIDRSColumn *col, PetscBool ondevice)
{
  KSP_IDRS                *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSKept             *kept = &col->kept;
  const KSPIDRSRecurrence *rec  = &col->rec;
  const PetscInt           s    = col->scalars->s;
  /* the omega step changes no basis, and v, from which U_k would follow, is not kept */
  const PetscBool open = (PetscBool)(rec->step.k < s && (rec->stage == KSPIDRS_HAVE_U || rec->stage == KSPIDRS_PROJECTED));

  PetscFunctionBegin;
  if (idrs->set.recycle == KSP_IDRS_RECYCLE_NEVER) PetscFunctionReturn(PETSC_SUCCESS);
  /* the first residual has ended the solve, and the bases have not changed */
  if (!col->safeguard.begun) PetscFunctionReturn(PETSC_SUCCESS);
  if (col->safeguard.takes == KSPIDRS_TAKES_NOTHING) {
    if (col->rep.reason > 0) KSPIDRSRecordPlain(col);
  } else {
    if (col->safeguard.expected > 0.0) {
      idrs->counts.expected += col->safeguard.expected;
      idrs->counts.spent += col->rep.its;
    }
    KSPIDRSRecordRecycled(col, (PetscBool)(col->rep.reason > 0));
  }
  kept->why = KSPIDRSWhyInvalid(ksp, col, ondevice);
  if (kept->why) PetscFunctionReturn(PETSC_SUCCESS);
  kept->key      = col->safeguard.key;
  kept->restarts = col->trust.restarts;
  kept->k        = rec->step.k;
  kept->stage    = open ? rec->stage : KSPIDRS_NOTHING;
  if (!kept->storage) PetscCall(PetscMalloc1(IDRS_STORAGE(s), &kept->storage));
  PetscCall(PetscArraycpy(kept->storage, col->scalars->M, IDRS_STORAGE(s)));
  PetscFunctionReturn(PETSC_SUCCESS);
}
