/*
   The steps of block IDR(s), see idrsblock.c. The sums of the combines of a step are stated once, with the places of their
   coefficients. Host or device fill in the coefficients.

     host      matvec, projection -> sums; norms;  algebra, coefficients -> combine
     device    matvec, projection -> algebra, coefficients -> combine, next matvec and projection;  the norms of the step before

   After the device has stopped, its combines do nothing, but one more preconditioner and matvec run:

     step k       G_k = A U_k with the U_k of the cycle before, which is complete, or k = 0 with U_0 of this cycle: in exact
                  arithmetic the old G_k, or zero. The preconditioner writes to G_k before
     omega step   T, and V with a preconditioner, which are scratch by then
*/
#include "idrsblock.h"

/* Returns a sum without terms. Its operands and coefficients are stored behind those of the sum before it */
static IDRSBlockAxpy KSPIDRSBlockAxpy(const KSPIDRSBlockRun *block, const IDRSBlockAxpy *before, const IDRSBlockVec *y,
                                      PetscBool add)
{
  const PetscInt first = before ? (PetscInt)(before->x - block->x) + before->nx : 0;

  return (IDRSBlockAxpy){.ny   = block->algebra.m,
                         .x    = block->x + first,
                         .y    = y,
                         .C    = block->C + first,
                         .ld   = block->ld,
                         .rows = block->rows + first,
                         .add  = add};
}

/* Adds the term X C to a sum, times a sign and omega */
static void KSPIDRSBlockTerm(KSPIDRSBlockRun *block, IDRSBlockAxpy *sum, PetscInt columns, const IDRSBlockVec *X, PetscInt sign,
                             PetscBool omega, const PetscScalar *C, PetscInt ldc)
{
  const PetscInt first = (PetscInt)(sum->x - block->x) + sum->nx;

  for (PetscInt i = 0; i < columns; i++) {
    block->x[first + i]    = X[i];
    block->rows[first + i] = (IDRSBlockRow){.at    = (int32_t)(C - block->storage + i),
                                            .ld    = (int32_t)ldc,
                                            .sign  = (int32_t)sign,
                                            .omega = omega ? 1 : 0};
  }
  sum->nx += columns;
}

/* Computes sums whose coefficients are on the host */
static PetscErrorCode KSPIDRSBlockCombine_Private(KSP ksp, KSPIDRSBlockRun *block, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscFunctionBegin;
  for (PetscInt l = 0; l < count; l++) {
    PetscScalar *C = block->C + (sums[l].C - block->C);

    for (PetscInt j = 0; j < sums[l].ny; j++) {
      for (PetscInt i = 0; i < sums[l].nx; i++) C[i + j * sums[l].ld] = IDRSBlockScalarsGet(&block->algebra, &sums[l].rows[i], j);
    }
  }
  PetscCall(IDRSBlockCombine(((KSP_IDRS *)ksp->data)->slot[0].work, count, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockList - Copies the vectors of a block to an array of Vec */
void KSPIDRSBlockList(PetscInt count, const IDRSBlockVec X[], Vec list[])
{
  for (PetscInt i = 0; i < count; i++) list[i] = X[i].vec;
}

/* Returns P of the omega step, which is R without a preconditioner */
static const IDRSBlockVec *KSPIDRSBlockP(const KSP_IDRS *idrs, const KSPIDRSBlockRun *block)
{
  return KSPIDRSIsPreconditioned(idrs) || idrs->diagonal ? block->V : block->R;
}

/* Returns the sum X_k -= X(:,0:k) alpha of step k, where X is G or U */
static IDRSBlockAxpy KSPIDRSBlockAlphaSum(KSPIDRSBlockRun *block, const IDRSBlockAxpy *before, const IDRSBlockVec *X, PetscInt k)
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          m = algebra->m, q = algebra->q;
  IDRSBlockAxpy           sum = KSPIDRSBlockAxpy(block, before, X + k * m, PETSC_TRUE);

  KSPIDRSBlockTerm(block, &sum, k * m, X, -1, PETSC_FALSE, algebra->alpha + k * m * q, q);
  return sum;
}

/*
   Sets the sums U_k -= U(:,0:k) alpha, 0 < k < columns, and returns their number. At the end of a cycle U is read once for all
   of them
*/
static PetscInt KSPIDRSBlockTermsU(KSPIDRSBlockRun *block, PetscInt columns, IDRSBlockAxpy sums[])
{
  for (PetscInt k = 1; k < columns; k++) sums[k - 1] = KSPIDRSBlockAlphaSum(block, k > 1 ? &sums[k - 2] : NULL, block->U, k);
  return PetscMax(columns - 1, 0);
}

/* KSPIDRSBlockAddUpdate_Private - Adds the update of the present cycle to Z */
PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  IDRSBlockAxpy *chain = block->chain[IDRS_BLOCK_FINISH];
  const PetscInt count = KSPIDRSBlockTermsU(block, block->at.columns, chain);

  PetscFunctionBegin;
  if (!block->at.columns) PetscFunctionReturn(PETSC_SUCCESS);
  chain[count] = KSPIDRSBlockAxpy(block, count ? &chain[count - 1] : NULL, block->Z, PETSC_TRUE);
  /* Z += U(:,0:columns) beta */
  KSPIDRSBlockTerm(block, &chain[count], block->at.columns * block->algebra.m, block->U, 1, PETSC_FALSE, block->algebra.beta,
                   block->algebra.q);
  PetscCall(KSPIDRSBlockCombine_Private(ksp, block, count + 1, chain));
  block->at.columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of columns of U(:,k:s) and G(:,k:s) that are not zero */
static PetscInt KSPIDRSBlockColumns(const KSPIDRSBlockRun *block, const KSPIDRSBlockPosition *at)
{
  return PetscMax(at->filled - at->k, 0) * block->algebra.m;
}

/* Returns the sum U_k = omega D (R T - G c T) + U(:,k:s) c T, or, with a preconditioner, V = R T - G c T */
static IDRSBlockAxpy KSPIDRSBlockDirectionSum(const KSP_IDRS *idrs, KSPIDRSBlockRun *block, const KSPIDRSBlockPosition *at,
                                              const IDRSBlockAxpy *before)
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          k = at->k, m = algebra->m, q = algebra->q, columns = KSPIDRSBlockColumns(block, at);
  const PetscBool         plain = (PetscBool)!KSPIDRSIsPreconditioned(idrs), scaled = (PetscBool)(plain && idrs->diagonal);
  IDRSBlockAxpy           sum = KSPIDRSBlockAxpy(block, before, plain ? block->U + k * m : block->V, PETSC_FALSE);

  /* first, as it is in the cache at the end of a cycle */
  if (plain && !scaled) KSPIDRSBlockTerm(block, &sum, columns, block->U + k * m, 1, PETSC_FALSE, algebra->c + k * m, q);
  /* omega (R T - G c T) */
  KSPIDRSBlockTerm(block, &sum, m, block->R, 1, plain, algebra->T, m);
  KSPIDRSBlockTerm(block, &sum, columns, block->G + k * m, -1, plain, algebra->c + k * m, q);
  if (scaled) {
    sum.scaled = sum.nx;
    KSPIDRSBlockTerm(block, &sum, columns, block->U + k * m, 1, PETSC_FALSE, algebra->c + k * m, q);
  }
  return sum;
}

/* Returns the sum U_k = omega B^{-1}V + U(:,k:s) c T, where G_k is B^{-1}V */
static IDRSBlockAxpy KSPIDRSBlockPreconditionedSum(KSPIDRSBlockRun *block, const KSPIDRSBlockPosition *at,
                                                   const IDRSBlockAxpy *before)
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          k = at->k, m = algebra->m;
  IDRSBlockAxpy           sum = KSPIDRSBlockAxpy(block, before, block->U + k * m, PETSC_FALSE);

  KSPIDRSBlockTerm(block, &sum, m, block->G + k * m, 1, PETSC_TRUE, algebra->identity, m);
  KSPIDRSBlockTerm(block, &sum, KSPIDRSBlockColumns(block, at), block->U + k * m, 1, PETSC_FALSE, algebra->c + k * m, algebra->q);
  return sum;
}

/* Returns the position after this step */
static KSPIDRSBlockPosition KSPIDRSBlockNext(const KSPIDRSBlockRun *block, PetscBool directed)
{
  const PetscInt       s    = block->algebra.s;
  KSPIDRSBlockPosition next = block->at;

  next.its++;
  next.k        = block->at.k < s ? block->at.k + 1 : 0;
  next.columns  = next.k;
  next.filled   = PetscMax(next.filled, next.k);
  next.directed = (PetscBool)(directed && next.k < s);
  return next;
}

/* Sets the sums that end step k < s, and returns their number */
static PetscInt KSPIDRSBlockUpdateSums(const KSP_IDRS *idrs, KSPIDRSBlockRun *block, IDRSBlockAxpy sums[])
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          k = block->at.k, m = algebra->m, q = algebra->q;
  IDRSBlockAxpy          *sum = sums;

  if (k) {
    *sum = KSPIDRSBlockAlphaSum(block, NULL, block->G, k); /* G_k -= G(:,0:k) alpha */
    sum++;
  }
  *sum = KSPIDRSBlockAxpy(block, k ? sum - 1 : NULL, block->R, PETSC_TRUE);
  KSPIDRSBlockTerm(block, sum, m, block->G + k * m, -1, PETSC_FALSE, algebra->beta + k * m, q); /* R -= G_k beta_k */
  sum++;
  if (k == algebra->s - 1 && idrs->diagonal && !KSPIDRSIsPreconditioned(idrs)) {
    *sum = KSPIDRSBlockAxpy(block, sum - 1, block->V, PETSC_FALSE);
    /* P = D R, for the omega step */
    KSPIDRSBlockTerm(block, sum, m, block->R, 1, PETSC_FALSE, algebra->identity, m);
    sum->scaled = sum->nx;
    sum++;
  }
  return (PetscInt)(sum - sums);
}

/* Sets the sums that end the omega step, and returns their number */
static PetscInt KSPIDRSBlockOmegaSums(const KSP_IDRS *idrs, KSPIDRSBlockRun *block, IDRSBlockAxpy sums[])
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          m = algebra->m, q = algebra->q, count = KSPIDRSBlockTermsU(block, algebra->s, sums);
  IDRSBlockAxpy          *Z = sums + count, *R = Z + 1;

  *Z = KSPIDRSBlockAxpy(block, count ? Z - 1 : NULL, block->Z, PETSC_TRUE);
  KSPIDRSBlockTerm(block, Z, m, KSPIDRSBlockP(idrs, block), 1, PETSC_TRUE, algebra->identity, m); /* Z += omega P */
  KSPIDRSBlockTerm(block, Z, q, block->U, 1, PETSC_FALSE, algebra->beta, q);                      /* Z += U beta */
  *R = KSPIDRSBlockAxpy(block, Z, block->R, PETSC_TRUE);
  KSPIDRSBlockTerm(block, R, m, block->T, -1, PETSC_TRUE, algebra->identity, m); /* R -= omega T */
  return count + 2;
}

/* Sets all sums that end this step, and the direction of the next one if it is `directed`. Returns their number */
static PetscInt KSPIDRSBlockFinishSums(const KSP_IDRS *idrs, KSPIDRSBlockRun *block, const KSPIDRSBlockPosition *next)
{
  IDRSBlockAxpy *chain = block->chain[IDRS_BLOCK_FINISH];
  PetscInt       count = block->at.k < block->algebra.s ? KSPIDRSBlockUpdateSums(idrs, block, chain)
                                                        : KSPIDRSBlockOmegaSums(idrs, block, chain);

  if (next->directed) {
    chain[count] = KSPIDRSBlockDirectionSum(idrs, block, next, &chain[count - 1]);
    count++;
  }
  return count;
}

/* Computes the operand of the matvec, U_k or P, and returns where it is */
static PetscErrorCode KSPIDRSBlockOperand_Private(KSP ksp, KSPIDRSBlockRun *block, const IDRSBlockVec **operand)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt k = block->at.k, m = block->algebra.m;
  IDRSBlockAxpy  sum;
  Vec            x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (k == block->algebra.s) {
    *operand = KSPIDRSBlockP(idrs, block);
    if (KSPIDRSIsPreconditioned(idrs)) {
      KSPIDRSBlockList(m, block->R, x);
      KSPIDRSBlockList(m, block->V, y);
      PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, y)); /* P = B^{-1}R */
    }
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *operand = block->U + k * m;
  if (!block->at.directed) {
    IDRSBlockScalarsDirection(&block->algebra, k); /* T, c */
    sum = KSPIDRSBlockDirectionSum(idrs, block, &block->at, NULL);
    PetscCall(KSPIDRSBlockCombine_Private(ksp, block, 1, &sum));
  }
  if (KSPIDRSIsPreconditioned(idrs)) {
    KSPIDRSBlockList(m, block->V, x);
    KSPIDRSBlockList(m, block->G + k * m, y);
    PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, y)); /* G_k = B^{-1}V */
    if (block->ondevice) PetscCall(IDRSBlockQueueCombine(idrs->slot[0].work, &block->step, IDRS_BLOCK_PRECONDITIONED));
    else {
      sum = KSPIDRSBlockPreconditionedSum(block, &block->at, NULL);
      PetscCall(KSPIDRSBlockCombine_Private(ksp, block, 1, &sum));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockMatvec_Private - Computes the matvecs of the step */
PetscErrorCode KSPIDRSBlockMatvec_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  const PetscInt      k = block->at.k, m = block->algebra.m;
  const IDRSBlockVec *operand;
  Vec                 x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH], w[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockOperand_Private(ksp, block, &operand));
  KSPIDRSBlockList(m, operand, x);
  KSPIDRSBlockList(m, k == block->algebra.s ? block->T : block->G + k * m, y);
  KSPIDRSBlockList(m, block->V, w);
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, &block->owners, x, y, w)); /* G_k = A U_k, or T = A P */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the tasks of the projection of this step, and returns their number */
static PetscInt KSPIDRSBlockTasks(const KSPIDRSBlockRun *block, IDRSBlockDots tasks[])
{
  const PetscInt k = block->at.k, m = block->algebra.m, q = block->algebra.q;

  if (k == block->algebra.s) {
    /* P^H (T,R), (T,R)^H (T,R) */
    tasks[0] = (IDRSBlockDots){.rows = q, .nw = 2 * m, .nx = 2 * m, .w = block->T, .x = block->T};
    return 1;
  }
  tasks[0] = (IDRSBlockDots){.rows = q, .nx = m, .x = block->G + k * m};      /* P^H G_k */
  tasks[1] = (IDRSBlockDots){.nw = m, .nx = m, .w = block->R, .x = block->R}; /* R^H R */
  return 2;
}

/* KSPIDRSBlockProject_Private - Computes the sums of the step on the host */
PetscErrorCode KSPIDRSBlockProject_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  IDRSBlockDots  tasks[2];
  const PetscInt count = KSPIDRSBlockTasks(block, tasks);

  PetscFunctionBegin;
  PetscCall(IDRSBlockProject(((KSP_IDRS *)ksp->data)->slot[0].work, count, tasks, block->sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockLaunch_Private - Launches the projection of the step and its algebra on the device */
PetscErrorCode KSPIDRSBlockLaunch_Private(KSP ksp, KSPIDRSBlockRun *block, const IDRSBlockBounds *bounds)
{
  KSP_IDRS                  *idrs  = (KSP_IDRS *)ksp->data;
  const KSPIDRSBlockPosition next  = KSPIDRSBlockNext(block, PETSC_TRUE);
  IDRSBlockAxpy             *chain = block->chain[IDRS_BLOCK_FINISH], *second = block->chain[IDRS_BLOCK_PRECONDITIONED];
  IDRSBlockStep              step = {
                 .k = block->at.k, .dots = block->dots, .bounds = *bounds, .sums = {chain, second}
  };

  PetscFunctionBegin;
  step.tasks                    = KSPIDRSBlockTasks(block, block->dots);
  step.count[IDRS_BLOCK_FINISH] = KSPIDRSBlockFinishSums(idrs, block, &next);
  if (KSPIDRSIsPreconditioned(idrs) && next.directed) {
    *second                               = KSPIDRSBlockPreconditionedSum(block, &next, &chain[step.count[IDRS_BLOCK_FINISH] - 1]);
    step.count[IDRS_BLOCK_PRECONDITIONED] = 1;
  }
  if (!block->ondevice) PetscCall(IDRSBlockQueueBegin(idrs->slot[0].work, &block->algebra, block->peak));
  block->ondevice = PETSC_TRUE;
  block->step     = step;
  PetscCall(IDRSBlockQueueLaunch(idrs->slot[0].work, &block->step));
  block->launched[block->inflight++] = block->at;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockCollect_Private - Collects the norms of the oldest step in flight, and its iteration. If the device has stopped
   there, the recurrence returns to that step, with its sums on the host
*/
PetscErrorCode KSPIDRSBlockCollect_Private(KSP ksp, KSPIDRSBlockRun *block, IDRSBlockNorms *norms, PetscInt *its)
{
  KSP_IDRS                  *idrs   = (KSP_IDRS *)ksp->data;
  const KSPIDRSBlockPosition oldest = block->launched[0];

  PetscFunctionBegin;
  PetscCall(IDRSBlockQueueCollect(idrs->slot[0].work, block->inflight, norms));
  *its               = oldest.its;
  block->launched[0] = block->launched[1];
  block->inflight--;
  if (!norms->stopped) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSBlockQueueEnd(idrs->slot[0].work, &block->algebra, IDRSBlockSumCount(block->algebra.s, block->algebra.m, oldest.k),
                              block->sums));
  block->at       = oldest;
  block->inflight = 0;
  block->ondevice = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if a reliable update is due at the end of a cycle */
static PetscBool KSPIDRSBlockUpdateDue(const KSP_IDRS *idrs, const KSPIDRSBlockRun *block)
{
  return (PetscBool)(block->owners.column[0]->anchor &&
                     IDRSUpdateIsDue(block->rnorm, idrs->set.updatetol, block->peak, block->anchornorm));
}

/*
   KSPIDRSBlockFinish_Private - Finishes the step. *due is set if a reliable update is due now. After a breakdown, which all
   processes find in the same sums, the iterate before this step remains
*/
PetscErrorCode KSPIDRSBlockFinish_Private(KSP ksp, KSPIDRSBlockRun *block, PetscBool *due)
{
  KSP_IDRS            *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt       k    = block->at.k;
  KSPIDRSBlockPosition next;

  PetscFunctionBegin;
  *due = PETSC_FALSE;
  if (!block->ondevice) {
    if (IDRSBlockScalarsFinish(&block->algebra, k, idrs->set.cosine, block->sums, &block->rnorm) != IDRS_CONTINUES) {
      block->why = "the block recurrence has broken down";
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    *due = (PetscBool)(k == block->algebra.s && KSPIDRSBlockUpdateDue(idrs, block));
  }
  next = KSPIDRSBlockNext(block, (PetscBool) !*due);
  if (!block->ondevice) {
    if (next.directed) IDRSBlockScalarsDirect(&block->algebra, k);
    PetscCall(KSPIDRSBlockCombine_Private(ksp, block, KSPIDRSBlockFinishSums(idrs, block, &next), block->chain[IDRS_BLOCK_FINISH]));
  } else PetscCall(IDRSBlockQueueCombine(idrs->slot[0].work, &block->step, IDRS_BLOCK_FINISH));
  block->at = next;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockFinishColumn_Private - Finishes step k < s with beta = 0, because U_k has been overwritten: G = A U and M = P^H G
   hold again
*/
PetscErrorCode KSPIDRSBlockFinishColumn_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  const IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt          k       = block->at.k;
  IDRSBlockAxpy           sums[2];

  PetscFunctionBegin;
  if (!IDRSBlockScalarsColumn(algebra, k, block->sums)) {
    block->why = "the block recurrence has broken down";
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  block->at.filled = PetscMax(block->at.filled, k + 1);
  if (!k) PetscFunctionReturn(PETSC_SUCCESS);
  sums[0] = KSPIDRSBlockAlphaSum(block, NULL, block->G, k);     /* G_k -= G(:,0:k) alpha */
  sums[1] = KSPIDRSBlockAlphaSum(block, &sums[0], block->U, k); /* U_k -= U(:,0:k) alpha */
  PetscCall(KSPIDRSBlockCombine_Private(ksp, block, 2, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}
