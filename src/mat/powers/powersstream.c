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
  PetscBool streams, parallel, device = PETSC_TRUE;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJSTREAM, &streams));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  for (PetscInt i = 0; streams && device && i < n; i++) PetscCall(MatStreamUsesDevice_Private(A, vecs[i], &device));
  if (parallel) *why = "on several processes each product is a pass over the streamed matrix";
  else *why = !streams ? "the matrix is not streamed" : !device ? "products are computed on the host" : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static IDRSStreamSequence IDRSPowersSequence(const IDRSPowers *powers)
{
  return (IDRSStreamSequence){.gamma = powers->gamma, .theta = powers->theta, .mu = powers->mu};
}

static PetscErrorCode IDRSPowersPowers_Stream(const IDRSPowers *powers, Vec x, Vec v[])
{
  IDRSStreamSequence sequence = IDRSPowersSequence(powers);
  MatStreamVecs      vecs     = {.inverse = powers->inverse};
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
    PetscCall(MatStreamPass_Private(stream, &vecs, &sequence));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses work vectors for the last two vectors of a pass: v_b overwrites v_{a-1} if v_{a-1} is a work vector, and v_{b-1} is not
   the work vector of v_a
*/
static void IDRSPowersChooseWork(const Vec work[3], Vec last, Vec before, Vec *next, Vec *nextbefore)
{
  *next = *nextbefore = NULL;
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i] == before) *next = work[i];
  }
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i] == last || work[i] == *next) continue;
    if (!*next) *next = work[i];
    else if (!*nextbefore) *nextbefore = work[i];
  }
}

/*
   Chooses vectors for the levels of a pass: work vectors for the two levels that the next pass begins with, and in the last pass
   v_k and A y, if requested. Other levels are only in the window
*/
static void IDRSPowersChooseLevels(PetscInt k, const Vec work[3], const IDRSPowersSum *sum, IDRSStreamSequence *sequence,
                                   MatStreamVecs *vecs)
{
  const PetscInt end = sequence->begin + sequence->levels;

  for (PetscInt l = 0; l < sequence->levels; l++) vecs->v[l] = NULL;
  if (end < k) {
    Vec next, before;

    IDRSPowersChooseWork(work, vecs->x, vecs->before, &next, &before);
    vecs->v[sequence->levels - 1] = next;
    if (sequence->levels > 1) vecs->v[sequence->levels - 2] = before;
  } else {
    if (k > sequence->begin) vecs->v[k - sequence->begin - 1] = sum->vk;
    if (end > k) vecs->v[sequence->levels - 1] = sum->z;
  }
  sequence->product = (PetscBool)(end > k);
}

static PetscErrorCode IDRSPowersSum_Stream(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  const PetscInt     k = powers->k, levels = k + (sum->z ? 1 : 0);
  IDRSStreamSequence sequence = IDRSPowersSequence(powers);
  MatStreamVecs      vecs     = {.inverse = powers->inverse, .x = x, .y = sum->y};
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
    PetscCall(MatStreamPass_Private(stream, &vecs, &sequence));
    vecs.before = sequence.levels > 1 ? vecs.v[sequence.levels - 2] : vecs.x;
    vecs.x      = vecs.v[sequence.levels - 1];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Stream = {.name   = "stream",
                                         .runs   = IDRSPowersRuns_Stream,
                                         .powers = IDRSPowersPowers_Stream,
                                         .sum    = IDRSPowersSum_Stream};
