/*
   The steps of block IDR(s), see idrsblock.c, in the order matvec, projection, norms, algebra, combines. The combines of a step are
   listed with their coefficients, and computed together, so that the back end reads common vectors once
*/
#include "idrsblock.h"

/* Adds a sum without terms, and returns it */
static IDRSBlockAxpy *KSPIDRSBlockAddSum(KSPIDRSBlockRun *run, const IDRSBlockVec *y, PetscBool add)
{
  KSPIDRSBlockProgram *program = &run->program;
  const PetscInt       first   = program->operands;

  program->sum[program->count++] = (IDRSBlockAxpy){
    .ny = run->block.algebra.m, .x = program->x + first, .y = y, .C = program->C + first, .ld = program->ld, .add = add};
  return &program->sum[program->count - 1];
}

/* Adds the term X C, times a sign and omega, to the last sum */
static void KSPIDRSBlockAddTerm(KSPIDRSBlockRun *run, PetscInt columns, const IDRSBlockVec *X, PetscInt sign, PetscBool omega,
                                const PetscScalar *C, PetscInt ldc)
{
  KSPIDRSBlockProgram *program = &run->program;

  for (PetscInt i = 0; i < columns; i++) {
    program->x[program->operands] = X[i];
    for (PetscInt j = 0; j < run->block.algebra.m; j++) {
      const PetscScalar entry = C[i + j * ldc] * (PetscReal)sign;

      program->C[program->operands + j * program->ld] = omega ? *run->block.algebra.omega * entry : entry;
    }
    program->operands++;
  }
  program->sum[program->count - 1].nx += columns;
}

/* Computes all sums, and removes them */
static PetscErrorCode KSPIDRSBlockCombine_Private(KSPIDRSBlockRun *run)
{
  KSPIDRSBlockProgram *program = &run->program;

  PetscFunctionBegin;
  PetscCall(IDRSBlockCombine(run->work, program->count, program->sum));
  program->count = program->operands = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the vectors of a block to an array of Vec */
static void KSPIDRSBlockList(PetscInt count, const IDRSBlockVec X[], Vec list[])
{
  for (PetscInt i = 0; i < count; i++) list[i] = X[i].vec;
}

/* Adds the sum X_k -= X(:,0:k) alpha of step k, where X is G or U */
static void KSPIDRSBlockAddAlpha(KSPIDRSBlockRun *run, const IDRSBlockVec *X, PetscInt k)
{
  const PetscInt m = run->block.algebra.m, q = run->block.algebra.q;

  KSPIDRSBlockAddSum(run, X + k * m, PETSC_TRUE);
  KSPIDRSBlockAddTerm(run, k * m, X, -1, PETSC_FALSE, run->block.algebra.alpha + k * m * q, q);
}

/*
   Adds the sums U_k -= U(:,0:k) alpha, 0 < k < columns, and Z += U(:,0:columns) beta, in the omega step also omega P. U is read
   once for all of them
*/
static void KSPIDRSBlockAddIterate(KSPIDRSBlockRun *run, PetscInt columns, PetscBool omega)
{
  const IDRSBlockScalars *algebra = &run->block.algebra;
  const PetscInt          m       = algebra->m;

  for (PetscInt k = 1; k < columns; k++) KSPIDRSBlockAddAlpha(run, run->vecs.U, k);
  KSPIDRSBlockAddSum(run, run->vecs.Z, PETSC_TRUE);
  if (omega) KSPIDRSBlockAddTerm(run, m, run->vecs.P, 1, PETSC_TRUE, algebra->identity, m);
  KSPIDRSBlockAddTerm(run, columns * m, run->vecs.U, 1, PETSC_FALSE, algebra->beta, algebra->q);
}

/* Adds the term X(:,k:s) c, where X is G or U and has columns that are not zero, times a sign and omega */
static void KSPIDRSBlockAddPanel(KSPIDRSBlockRun *run, const KSPIDRSBlockPosition *at, const IDRSBlockVec *X, PetscInt sign,
                                 PetscBool omega)
{
  const PetscInt k = at->k, m = run->block.algebra.m;

  KSPIDRSBlockAddTerm(run, PetscMax(at->filled - k, 0) * m, X + k * m, sign, omega, run->block.algebra.c + k * m,
                      run->block.algebra.q);
}

/* Adds the sum U_k = omega D (R T - G c) + U(:,k:s) c, or, with a preconditioner, V = R T - G c */
static void KSPIDRSBlockAddDirection(KSPIDRSBlockRun *run, const KSPIDRSBlockPosition *at)
{
  const KSPIDRSBlockVecs *vecs   = &run->vecs;
  const PetscInt          m      = run->block.algebra.m;
  const PetscBool         direct = (PetscBool)(run->pc != KSPIDRS_BLOCK_PC_SEPARATE);
  IDRSBlockAxpy          *sum    = KSPIDRSBlockAddSum(run, direct ? vecs->U + at->k * m : vecs->V, PETSC_FALSE);

  /* first, as it is in the cache at the end of a cycle */
  if (run->pc == KSPIDRS_BLOCK_PC_NONE) KSPIDRSBlockAddPanel(run, at, vecs->U, 1, PETSC_FALSE);
  KSPIDRSBlockAddTerm(run, m, vecs->R, 1, direct, run->block.algebra.T, m); /* omega (R T - G c) */
  KSPIDRSBlockAddPanel(run, at, vecs->G, -1, direct);
  if (run->pc != KSPIDRS_BLOCK_PC_DIAGONAL) return;
  sum->scaled = sum->nx; /* times D */
  KSPIDRSBlockAddPanel(run, at, vecs->U, 1, PETSC_FALSE);
}

/* Adds the sum U_k = omega B^{-1}V + U(:,k:s) c, where G_k is B^{-1}V */
static void KSPIDRSBlockAddPreconditioned(KSPIDRSBlockRun *run, const KSPIDRSBlockPosition *at)
{
  const PetscInt m = run->block.algebra.m, first = at->k * m;

  KSPIDRSBlockAddSum(run, run->vecs.U + first, PETSC_FALSE);
  KSPIDRSBlockAddTerm(run, m, run->vecs.G + first, 1, PETSC_TRUE, run->block.algebra.identity, m);
  KSPIDRSBlockAddPanel(run, at, run->vecs.U, 1, PETSC_FALSE);
}

/* Returns the position after this step */
static KSPIDRSBlockPosition KSPIDRSBlockNext(const KSPIDRSBlockRun *run, PetscBool directed)
{
  const PetscInt       s    = run->block.algebra.s;
  KSPIDRSBlockPosition next = run->at;

  next.its++;
  next.k        = IDRSNextK(run->at.k, s);
  next.columns  = next.k;
  next.filled   = PetscMax(next.filled, next.k);
  next.directed = (PetscBool)(directed && next.k < s);
  return next;
}

/* Adds the sums that end step k < s */
static void KSPIDRSBlockAddStep(KSPIDRSBlockRun *run)
{
  const IDRSBlockScalars *algebra = &run->block.algebra;
  const PetscInt          k = run->at.k, m = algebra->m;
  IDRSBlockAxpy          *sum;

  if (k) KSPIDRSBlockAddAlpha(run, run->vecs.G, k); /* G_k -= G(:,0:k) alpha */
  /* R -= G_k beta_k */
  KSPIDRSBlockAddSum(run, run->vecs.R, PETSC_TRUE);
  KSPIDRSBlockAddTerm(run, m, run->vecs.G + k * m, -1, PETSC_FALSE, algebra->beta + k * m, algebra->q);
  if (k < algebra->s - 1 || run->pc != KSPIDRS_BLOCK_PC_DIAGONAL) return;
  /* P = D R, for the omega step */
  sum = KSPIDRSBlockAddSum(run, run->vecs.P, PETSC_FALSE);
  KSPIDRSBlockAddTerm(run, m, run->vecs.R, 1, PETSC_FALSE, algebra->identity, m);
  sum->scaled = sum->nx;
}

/* Adds all sums that end this step, and the direction of the next one if it is `directed` */
static void KSPIDRSBlockAddFinish(KSPIDRSBlockRun *run, const KSPIDRSBlockPosition *next)
{
  const PetscInt m = run->block.algebra.m;

  if (run->at.k < run->block.algebra.s) KSPIDRSBlockAddStep(run);
  else {
    KSPIDRSBlockAddIterate(run, run->block.algebra.s, PETSC_TRUE); /* Z += omega P + U beta */
    KSPIDRSBlockAddSum(run, run->vecs.R, PETSC_TRUE);              /* R -= omega T */
    KSPIDRSBlockAddTerm(run, m, run->vecs.T, -1, PETSC_TRUE, run->block.algebra.identity, m);
  }
  if (next->directed) KSPIDRSBlockAddDirection(run, next);
}

/* KSPIDRSBlockAddUpdate_Private - Adds the update of the present cycle to Z */
PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSPIDRSBlockRun *run)
{
  PetscFunctionBegin;
  if (!run->at.columns) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSBlockAddIterate(run, run->at.columns, PETSC_FALSE); /* Z += U(:,0:columns) beta */
  PetscCall(KSPIDRSBlockCombine_Private(run));
  run->at.columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes U_k, unless the step before has done so */
static PetscErrorCode KSPIDRSBlockDirection_Private(KSP ksp, KSPIDRSBlockRun *run)
{
  const PetscInt k = run->at.k, m = run->block.algebra.m;
  Vec            x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (!run->at.directed) {
    IDRSBlockScalarsDirection(&run->block.algebra, (int)k); /* T, c */
    KSPIDRSBlockAddDirection(run, &run->at);
    PetscCall(KSPIDRSBlockCombine_Private(run));
  }
  if (run->pc != KSPIDRS_BLOCK_PC_SEPARATE) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSBlockList(m, run->vecs.V, x);
  KSPIDRSBlockList(m, run->vecs.G + k * m, y);
  PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, y)); /* G_k = B^{-1}V */
  KSPIDRSBlockAddPreconditioned(run, &run->at);
  PetscCall(KSPIDRSBlockCombine_Private(run));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockMatvec_Private - Computes the direction and the matvecs of the step */
PetscErrorCode KSPIDRSBlockMatvec_Private(KSP ksp, KSPIDRSBlockRun *run)
{
  const PetscInt  k = run->at.k, m = run->block.algebra.m;
  const PetscBool omega = (PetscBool)(k == run->block.algebra.s);
  Vec             x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH], w[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  KSPIDRSBlockList(m, run->vecs.V, w);
  if (!omega) PetscCall(KSPIDRSBlockDirection_Private(ksp, run));
  else if (run->pc == KSPIDRS_BLOCK_PC_SEPARATE) {
    KSPIDRSBlockList(m, run->vecs.R, x);
    PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, w)); /* P = B^{-1}R */
  }
  KSPIDRSBlockList(m, omega ? run->vecs.P : run->vecs.U + k * m, x);
  KSPIDRSBlockList(m, omega ? run->vecs.T : run->vecs.G + k * m, y);
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, &run->vecs.owners, x, y, w)); /* G_k = A U_k, or T = A P */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockProject_Private - Computes the sums of the step, and ||r_j|| */
PetscErrorCode KSPIDRSBlockProject_Private(KSPIDRSBlockRun *run)
{
  const PetscInt          k = run->at.k, m = run->block.algebra.m, q = run->block.algebra.q;
  const KSPIDRSBlockVecs *vecs = &run->vecs;
  /* P^H (T,R), (T,R)^H (T,R) */
  const IDRSBlockDots omega = {.rows = q, .nw = 2 * m, .nx = 2 * m, .w = vecs->T, .x = vecs->T};
  /* P^H G_k; R^H R */
  const IDRSBlockDots tasks[] = {
    {.rows = q, .nx = m, .x = vecs->G + k * m},
    {.nw = m, .nx = m, .w = vecs->R, .x = vecs->R}
  };

  PetscFunctionBegin;
  if (k == run->block.algebra.s) PetscCall(IDRSBlockProject(run->work, 1, &omega, run->block.results));
  else PetscCall(IDRSBlockProject(run->work, 2, tasks, run->block.results));
  IDRSBlockScalarsNorms(&run->block.algebra, (int)k, (int)run->block.bounds.count, run->block.results, &run->block.norms);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockFinish_Private - Finishes the step. *due is set if a reliable update is due now. After a breakdown, which all
   processes find in the same sums, the iterate before this step remains
*/
PetscErrorCode KSPIDRSBlockFinish_Private(KSPIDRSBlockRun *run, PetscBool *due)
{
  const IDRSBlockBounds *bounds = &run->block.bounds;
  KSPIDRSTrust          *trust  = &run->trust;
  const int              k      = (int)run->at.k;
  KSPIDRSBlockPosition   next;

  PetscFunctionBegin;
  *due = PETSC_FALSE;
  if (IDRSBlockScalarsContinue(&run->block.algebra, k, bounds->norm.cosine, run->block.results, &trust->rnorm) != IDRS_CONTINUES) {
    run->why = IDRS_BLOCK_BROKEN;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *due = (PetscBool)(k == run->block.algebra.s && IDRSUpdateIsDue(trust->rnorm, bounds->fall, trust->peak, trust->anchornorm));
  next = KSPIDRSBlockNext(run, (PetscBool) !*due);
  if (next.directed) IDRSBlockScalarsDirect(&run->block.algebra, k);
  KSPIDRSBlockAddFinish(run, &next);
  PetscCall(KSPIDRSBlockCombine_Private(run));
  run->at = next;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockFinishColumn_Private - Finishes step k < s with beta = 0, because U_k has been overwritten: G = A U and M = P^H G
   hold again
*/
PetscErrorCode KSPIDRSBlockFinishColumn_Private(KSPIDRSBlockRun *run)
{
  const PetscInt k = run->at.k;

  PetscFunctionBegin;
  if (!IDRSBlockScalarsColumn(&run->block.algebra, (int)k, run->block.results)) {
    run->why = IDRS_BLOCK_BROKEN;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  run->at.filled = PetscMax(run->at.filled, k + 1);
  if (!k) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSBlockAddAlpha(run, run->vecs.G, k); /* G_k -= G(:,0:k) alpha */
  KSPIDRSBlockAddAlpha(run, run->vecs.U, k); /* U_k -= U(:,0:k) alpha */
  PetscCall(KSPIDRSBlockCombine_Private(run));
  PetscFunctionReturn(PETSC_SUCCESS);
}
