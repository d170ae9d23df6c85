/*
   Back end "stream" of the matrix powers: passes of a MATAIJSTREAM, each with as many levels as fit in the memory of the device

   A pass begins with the last two vectors of the pass before, in three work vectors. v_b of a pass may overwrite v_{a-1}, because
   only level a + 1 of a row reads v_{a-1}, in the same row and before v_b; it must not overwrite v_a. A single pass needs no work
   vectors.
*/
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsstream.h>

/* Returns NULL, or the reason why passes with many levels are not possible with these vectors */
static PetscErrorCode IDRSPowersRuns_Stream(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscBool streams, parallel, supports, device = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJSTREAM, &streams));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (streams) PetscCall(MatStreamUsesDevice_Private(A, n, vecs, &supports, &device));
  if (parallel) *why = "on several processes each product is a pass over the streamed matrix";
  else *why = !streams ? "the matrix is not streamed" : !device ? "products are computed on the host" : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The vectors of a pass, as in IDRSStreamSequence, or NULL. One of v may be before */
typedef struct {
  Vec inverse, before, x, y, v[IDRS_STREAM_LEVELS];
} IDRSPowersVecs;

/* Runs a pass with at most the levels that IDRSStreamReserve() returned, and sets its arrays */
static PetscErrorCode IDRSPowersPass(IDRSStream stream, const IDRSPowersVecs *vecs, IDRSStreamSequence *sequence)
{
  const PetscBool           reads    = (PetscBool)(sequence->adds || sequence->begin); /* b or earlier terms are in y */
  const Vec                 input[]  = {vecs->inverse, vecs->x, vecs->before};
  const PetscScalar **const arrays[] = {&sequence->inverse, &sequence->x, &sequence->before};
  PetscBool                 read[3];

  PetscFunctionBegin;
  if (vecs->y && reads) PetscCall(VecGetArrayAndMemType(vecs->y, &sequence->y, NULL));
  else if (vecs->y) PetscCall(VecGetArrayWriteAndMemType(vecs->y, &sequence->y, NULL));
  for (PetscInt i = 0; i < 3; i++) {
    *arrays[i] = NULL;
    read[i]    = (PetscBool)(input[i] != NULL);
  }
  for (PetscInt l = 0; l < sequence->levels; l++) {
    sequence->v[l] = NULL;
    if (!vecs->v[l]) continue;
    PetscCall(VecGetArrayWriteAndMemType(vecs->v[l], &sequence->v[l], NULL));
    /* v_b may replace v_{a-1}, whose array is read and written then */
    if (vecs->v[l] != vecs->before) continue;
    sequence->before = sequence->v[l];
    read[2]          = PETSC_FALSE;
  }
  for (PetscInt i = 0; i < 3; i++) {
    if (read[i]) PetscCall(VecGetArrayReadAndMemType(input[i], arrays[i], NULL));
  }
  PetscCall(IDRSStreamPass(stream, sequence));
  for (PetscInt i = 2; i >= 0; i--) {
    if (read[i]) PetscCall(VecRestoreArrayReadAndMemType(input[i], arrays[i]));
  }
  for (PetscInt l = sequence->levels - 1; l >= 0; l--) {
    if (vecs->v[l]) PetscCall(VecRestoreArrayWriteAndMemType(vecs->v[l], &sequence->v[l]));
  }
  if (vecs->y && reads) PetscCall(VecRestoreArrayAndMemType(vecs->y, &sequence->y));
  else if (vecs->y) PetscCall(VecRestoreArrayWriteAndMemType(vecs->y, &sequence->y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersPowers_Stream(const IDRSPowers *powers, Vec x, Vec v[])
{
  IDRSStreamSequence sequence = {.gamma = powers->gamma, .theta = powers->theta, .mu = powers->mu};
  IDRSPowersVecs     vecs     = {.inverse = powers->inverse};
  PetscInt           most;
  IDRSStream         stream;

  PetscFunctionBegin;
  if (!powers->k) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatStreamGet_Private(powers->A, &stream));
  PetscCall(IDRSStreamReserve(stream, powers->k, &most));
  for (PetscInt begin = 0; begin < powers->k; begin += sequence.levels) {
    sequence.begin  = begin;
    sequence.levels = PetscMin(most, powers->k - begin);
    vecs.x          = begin ? v[begin - 1] : x;
    vecs.before     = begin > 1 ? v[begin - 2] : begin ? x : NULL;
    /* all levels are vectors of the caller */
    PetscCall(PetscArraycpy(vecs.v, v + begin, sequence.levels));
    PetscCall(IDRSPowersPass(stream, &vecs, &sequence));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses vectors for the levels of a pass: in the last pass v_k and A y, if requested, else work vectors for v_b and v_{b-1}, with
   which the next pass begins. v_b overwrites v_{a-1} if v_{a-1} is a work vector, and v_{b-1} is not the work vector of v_a. Other
   levels are only in the window
*/
static void IDRSPowersChooseLevels(PetscInt k, const Vec work[3], const IDRSPowersSum *sum, IDRSStreamSequence *sequence,
                                   IDRSPowersVecs *vecs)
{
  const PetscInt levels = sequence->levels, end = sequence->begin + levels;

  for (PetscInt l = 0; l < levels; l++) vecs->v[l] = NULL;
  sequence->product = (PetscBool)(end > k);
  if (end >= k) {
    if (k > sequence->begin) vecs->v[k - sequence->begin - 1] = sum->vk;
    if (end > k) vecs->v[levels - 1] = sum->z;
    return;
  }
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i] == vecs->before) vecs->v[levels - 1] = work[i];
  }
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i] == vecs->x || work[i] == vecs->v[levels - 1]) continue;
    if (!vecs->v[levels - 1]) vecs->v[levels - 1] = work[i];
    else if (levels > 1 && !vecs->v[levels - 2]) vecs->v[levels - 2] = work[i];
  }
}

static PetscErrorCode IDRSPowersSum_Stream(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  const PetscInt     k = powers->k, levels = k + (sum->z ? 1 : 0);
  IDRSStreamSequence sequence = {.gamma = powers->gamma, .theta = powers->theta, .mu = powers->mu};
  IDRSPowersVecs     vecs     = {.inverse = powers->inverse, .x = x, .y = sum->y};
  Vec                work[3]  = {NULL, NULL, NULL};
  PetscInt           most;
  IDRSStream         stream;

  PetscFunctionBegin;
  if (!k) {
    PetscCall(IDRSPowersSumByStep(powers, x, sum));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamGet_Private(powers->A, &stream));
  PetscCall(IDRSStreamReserve(stream, levels, &most));
  /* a single pass needs no work vectors */
  if (levels > most) {
    PetscCall(PetscInfo(powers->A, "A pass computes %" PetscInt_FMT " of %" PetscInt_FMT " matrix powers\n", most, levels));
    PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  }
  sequence.c    = sum->c;
  sequence.adds = sum->adds;
  for (PetscInt begin = 0; begin < levels; begin += sequence.levels) {
    sequence.begin  = begin;
    sequence.levels = PetscMin(most, levels - begin);
    IDRSPowersChooseLevels(k, work, sum, &sequence, &vecs);
    PetscCall(IDRSPowersPass(stream, &vecs, &sequence));
    vecs.before = sequence.levels > 1 ? vecs.v[sequence.levels - 2] : vecs.x;
    vecs.x      = vecs.v[sequence.levels - 1];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Stream = {.name   = "stream",
                                         .runs   = IDRSPowersRuns_Stream,
                                         .powers = IDRSPowersPowers_Stream,
                                         .sum    = IDRSPowersSum_Stream};
