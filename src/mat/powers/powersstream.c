/*
   Back end "stream" of the matrix powers: passes of a MATSEQAIJSTREAM, each of as many levels as the memory of the device has room for

   A pass hands its last two vectors to the next one. Three work vectors take turns: v_b of the next pass may take the place of v_{a-1}, of which level a + 1 of a row
   alone reads the same row, and that is before v_b; not the place of v_a. Where there is one pass, there are no work vectors.
*/
#include <petscidrs/private/idrspowers.h>
#include "../impls/stream/aijstream.h"

/* IDRSPowersRuns_Stream - Why a MATAIJSTREAM does not make passes of many steps with these vectors, or NULL */
PetscErrorCode IDRSPowersRuns_Stream(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  PetscBool sequential, takes = PETSC_TRUE;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJSTREAM, &sequential));
  for (PetscInt i = 0; sequential && takes && i < n; i++) PetscCall(MatStreamTakes_Private(A, vecs[i], &takes));
  *why = !sequential ? "the matrix is not streamed by one process" : !takes ? "products are computed on the host" : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Coefficients, and D^{-1}, which SequenceEnd() takes back */
static PetscErrorCode SequenceBegin(const IDRSPowers *powers, IDRSStreamSequence *sequence)
{
  PetscFunctionBegin;
  PetscCall(PetscMemzero(sequence, sizeof(*sequence)));
  sequence->gamma = powers->gamma;
  sequence->theta = powers->theta;
  sequence->mu    = powers->mu;
  if (powers->inverse) PetscCall(VecGetArrayReadAndMemType(powers->inverse, &sequence->inverse, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SequenceEnd(const IDRSPowers *powers, IDRSStreamSequence *sequence)
{
  PetscFunctionBegin;
  if (powers->inverse) PetscCall(VecRestoreArrayReadAndMemType(powers->inverse, &sequence->inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* v_1 ... v_k, which all are whole vectors */
static PetscErrorCode IDRSPowersPowers_Stream(const IDRSPowers *powers, Vec x, Vec v[])
{
  const PetscScalar *array;
  PetscScalar      **arrays;
  IDRSStreamSequence sequence;
  IDRSStream         stream;
  PetscInt           most;

  PetscFunctionBegin;
  if (!powers->k) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatStreamGet_Private(powers->A, &stream));
  PetscCall(IDRSStreamReserve(stream, powers->k, &most));
  PetscCall(PetscMalloc1(powers->k, &arrays));
  PetscCall(SequenceBegin(powers, &sequence));
  PetscCall(VecGetArrayReadAndMemType(x, &array, NULL));
  for (PetscInt j = 0; j < powers->k; j++) PetscCall(VecGetArrayWriteAndMemType(v[j], &arrays[j], NULL));
  for (PetscInt begin = 0; begin < powers->k; begin += sequence.levels) {
    sequence.begin  = begin;
    sequence.levels = PetscMin(most, powers->k - begin);
    sequence.x      = begin ? arrays[begin - 1] : array;
    sequence.before = begin > 1 ? arrays[begin - 2] : array;
    PetscCall(PetscArraycpy(sequence.v, arrays + begin, sequence.levels));
    PetscCall(IDRSStreamPass(stream, &sequence));
  }
  for (PetscInt j = 0; j < powers->k; j++) PetscCall(VecRestoreArrayWriteAndMemType(v[j], &arrays[j]));
  PetscCall(VecRestoreArrayReadAndMemType(x, &array));
  PetscCall(SequenceEnd(powers, &sequence));
  PetscCall(PetscFree(arrays));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Work vectors for the last two vectors of a pass: the place of v_{a-1} for v_b, if it is one of them, and another one than that of v_a for v_{b-1} */
static void ChoosePlaces(PetscScalar *const work[3], const PetscScalar *last, const PetscScalar *before, PetscScalar **next, PetscScalar **nextbefore)
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
   Where the levels of a pass go: those that the next pass begins with to work vectors, v_k where it is asked for, and A y behind it. Others live in the window, or, v_k beside y, nowhere
*/
static void ChooseLevels(PetscInt k, PetscScalar *const work[3], PetscScalar *vk, PetscScalar *z, IDRSStreamSequence *sequence)
{
  const PetscInt end = sequence->begin + sequence->levels;

  for (PetscInt l = 0; l < sequence->levels; l++) sequence->v[l] = NULL;
  if (end < k) {
    PetscScalar *next, *before;

    ChoosePlaces(work, sequence->x, sequence->before, &next, &before);
    sequence->v[sequence->levels - 1] = next;
    if (sequence->levels > 1) sequence->v[sequence->levels - 2] = before;
  } else {
    if (k > sequence->begin) sequence->v[k - sequence->begin - 1] = vk;
    if (end > k) sequence->v[sequence->levels - 1] = z;
  }
  sequence->product = (PetscBool)(end > k);
}

/* Without a y, v_k alone */
static PetscErrorCode IDRSPowersSum_Stream(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  const PetscInt     k = powers->k, levels = k + (sum->z ? 1 : 0);
  Vec                work[3]   = {NULL, NULL, NULL};
  PetscScalar       *places[3] = {NULL, NULL, NULL}, *vk = NULL, *z = NULL;
  const PetscScalar *array;
  IDRSStreamSequence sequence;
  IDRSStream         stream;
  PetscInt           most;

  PetscFunctionBegin;
  if (!k) {
    PetscCall(IDRSPowersSumByStep(powers, x, sum));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamGet_Private(powers->A, &stream));
  PetscCall(IDRSStreamReserve(stream, levels, &most));
  if (levels > most) {
    PetscCall(PetscInfo(powers->A, "Matrix powers in %" PetscInt_FMT " passes: %" PetscInt_FMT " steps, and the memory of the GPU has room for %" PetscInt_FMT "\n", (levels + most - 1) / most, levels, most));
    PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  }
  PetscCall(SequenceBegin(powers, &sequence));
  sequence.c    = sum->c;
  sequence.adds = sum->adds;
  PetscCall(VecGetArrayReadAndMemType(x, &array, NULL));
  if (sum->y && sum->adds) PetscCall(VecGetArrayAndMemType(sum->y, &sequence.y, NULL));
  else if (sum->y) PetscCall(VecGetArrayWriteAndMemType(sum->y, &sequence.y, NULL));
  if (sum->vk) PetscCall(VecGetArrayWriteAndMemType(sum->vk, &vk, NULL));
  if (sum->z) PetscCall(VecGetArrayWriteAndMemType(sum->z, &z, NULL));
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i]) PetscCall(VecGetArrayWriteAndMemType(work[i], &places[i], NULL));
  }
  sequence.x = array;
  for (PetscInt begin = 0; begin < levels; begin += sequence.levels) {
    sequence.begin  = begin;
    sequence.levels = PetscMin(most, levels - begin);
    ChooseLevels(k, places, vk, z, &sequence);
    PetscCall(IDRSStreamPass(stream, &sequence));
    sequence.before = sequence.levels > 1 ? sequence.v[sequence.levels - 2] : sequence.x;
    sequence.x      = sequence.v[sequence.levels - 1];
  }
  for (PetscInt i = 0; i < 3; i++) {
    if (work[i]) PetscCall(VecRestoreArrayWriteAndMemType(work[i], &places[i]));
  }
  if (sum->z) PetscCall(VecRestoreArrayWriteAndMemType(sum->z, &z));
  if (sum->vk) PetscCall(VecRestoreArrayWriteAndMemType(sum->vk, &vk));
  if (sum->y && sum->adds) PetscCall(VecRestoreArrayAndMemType(sum->y, &sequence.y));
  else if (sum->y) PetscCall(VecRestoreArrayWriteAndMemType(sum->y, &sequence.y));
  PetscCall(VecRestoreArrayReadAndMemType(x, &array));
  PetscCall(SequenceEnd(powers, &sequence));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPowersOps IDRSPowers_Stream = {.name = "stream", .powers = IDRSPowersPowers_Stream, .sum = IDRSPowersSum_Stream};
