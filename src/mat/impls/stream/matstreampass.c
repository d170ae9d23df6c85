/*
   Passes of both types of MATAIJSTREAM: their ghosts and the arrays of their vectors. All processes agree on the levels of a pass
*/
#include "matstream.h"

/* Returns the stream of this process, and its version if there are several processes */
static PetscErrorCode MatStreamGetVersion(Mat A, Mat block, Mat outside, MatStreamVersion *version)
{
  PetscFunctionBegin;
  PetscCall(MatStreamGet_Private(block, &version->stream));
  PetscCall(IDRSStreamGetLimit(version->stream, &version->limit));
  PetscCall(PetscObjectGetId((PetscObject)block, &version->id));
  PetscCall(PetscObjectStateGet((PetscObject)block, &version->block));
  PetscCall(PetscObjectStateGet((PetscObject)outside, &version->outside));
  version->nonzero = A->nonzerostate;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns if there are no ghosts yet, or if values, nonzeros or memory have changed on any process */
static PetscErrorCode MatStreamGhostsHaveChanged(Mat A, const MatStreamVersion *version, Vec inverse, PetscBool *changed)
{
  MatStreamGhosts *ghosts       = MatStreamData(A)->passghosts;
  PetscObjectId    inverseid    = 0;
  PetscObjectState inversestate = 0;
  PetscBool        same         = PETSC_FALSE;
  int              any[2];

  PetscFunctionBegin;
  if (ghosts) PetscCall(PetscMemcmp(&ghosts->version, version, sizeof(*version), &same));
  any[0] = !same || !version->stream->pattern->ghosts;
  if (inverse) {
    PetscCall(PetscObjectGetId((PetscObject)inverse, &inverseid));
    PetscCall(PetscObjectStateGet((PetscObject)inverse, &inversestate));
  }
  any[1] = inverse && ghosts && (ghosts->inverseid != inverseid || ghosts->inversestate != inversestate);
  IDRSCallAllreduce(MPI_IN_PLACE, any, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  *changed = any[0] ? PETSC_TRUE : PETSC_FALSE;
  /* if D^{-1} has changed on any process, the next pass of all processes exchanges it again */
  if (ghosts && any[1]) ghosts->inverseid = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the fewest levels of any process that fit in a pass */
static PetscErrorCode MatStreamFitAll(Mat A, const MatStreamVersion *version, PetscInt wanted, PetscInt *levels)
{
  IDRSStreamLayout layout;

  PetscFunctionBegin;
  PetscCall(IDRSStreamFit(version->stream->pattern, version->limit, wanted, &layout));
  *levels = layout.levels;
  IDRSCallAllreduce(MPI_IN_PLACE, levels, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates ghosts for passes with this number of levels, halves their distance until at least one level fits in the memory, and
   returns the levels
*/
static PetscErrorCode MatStreamFitGhosts(Mat A, Vec inverse, PetscInt asked, PetscInt *levels)
{
  MatStreamGhosts **ghosts  = &MatStreamData(A)->passghosts;
  MatStreamVersion  version = {.id = 0};
  PetscInt          reach   = asked; /* distance of the ghosts */
  PetscBool         changed = PETSC_FALSE;
  const PetscInt   *columns;
  Mat               block, outside;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamGetVersion(A, block, outside, &version));
  PetscCall(MatStreamGhostsHaveChanged(A, &version, inverse, &changed));
  for (*levels = 0; !*levels; reach = (*ghosts)->depth / 2, changed = PETSC_TRUE) {
    /* other values, nonzeros or memory, or a larger distance that was not tried before */
    if (changed || ((*ghosts)->wanted < asked && !(*ghosts)->limited)) {
      PetscCall(MatStreamGhostsDestroy_Private(ghosts));
      PetscCall(MatStreamGhostsCreate_Private(A, outside, columns, version.stream, reach, ghosts));
      (*ghosts)->version = version;
      (*ghosts)->wanted  = asked;
      if (reach < asked) (*ghosts)->limited = PETSC_TRUE;
    }
    PetscCall(MatStreamFitAll(A, &version, PetscMin(asked, (*ghosts)->depth), levels));
    /* if no level fits in the memory with these ghosts, the next trial has half the distance */
    PetscCheck(*levels || (*ghosts)->depth > 1, PetscObjectComm((PetscObject)A), PETSC_ERR_MEM,
               "-mat_stream_memory is too small for the chunks of this matrix on some process; reduce -mat_stream_chunk or "
               "increase -mat_stream_memory");
  }
  PetscCall(IDRSStreamReserve(version.stream, PetscMin(asked, (*ghosts)->depth), levels));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamReserve_Private - Reserves memory for passes with the levels wanted, 1 or more, or with as many as possible, and returns
   the largest number of levels of a pass, on all processes. All passes until the next call use these values of D^{-1}, or NULL
*/
PetscErrorCode MatStreamReserve_Private(Mat A, Vec inverse, PetscInt wanted, PetscInt *levels)
{
  /* on several processes all passes have the same number of levels */
  const PetscInt         passes = (wanted + MATSTREAM_MAX_LEVELS - 1) / MATSTREAM_MAX_LEVELS;
  const MatStreamGhosts *ghosts;
  IDRSStream             stream;

  PetscFunctionBegin;
  if (!MatStreamData(A)->parallel) {
    PetscCall(MatStreamGet_Private(A, &stream));
    PetscCall(IDRSStreamReserve(stream, wanted, levels));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamFitGhosts(A, inverse, (wanted + passes - 1) / passes, levels));
  ghosts = MatStreamData(A)->passghosts;
  /* the memory of a process may hold more levels than its ghosts, or fewer than a layout for this number */
  *levels = PetscMin(*levels, ghosts->depth);
  IDRSCallAllreduce(MPI_IN_PLACE, levels, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  if (*levels < wanted)
    PetscCall(PetscInfo(A, "Passes of %" PetscInt_FMT " levels instead of %" PetscInt_FMT "%s\n", *levels, wanted,
                        ghosts->limited ? "; more levels would need too many ghosts" : ""));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamPass_Private - Runs a pass with at most the levels that MatStreamReserve_Private() returned, and sets its arrays */
PetscErrorCode MatStreamPass_Private(Mat A, const MatStreamVecs *vecs, IDRSStreamSequence *sequence)
{
  const PetscBool       continues = (PetscBool)(sequence->adds || sequence->begin); /* y is read */
  const MatStreamGhosts none = {.count = 0}, *ghosts = &none;
  Vec                   before = vecs->before;
  IDRSStream            stream;

  PetscFunctionBegin;
  if (MatStreamData(A)->parallel) {
    ghosts = MatStreamData(A)->passghosts;
    stream = ghosts->version.stream;
    PetscCall(MatStreamGhostsExchange_Private(MatStreamData(A)->passghosts, vecs, sequence));
  } else PetscCall(MatStreamGet_Private(A, &stream));
  sequence->ghosts  = MatStreamData(A)->parallel;
  sequence->inverse = sequence->before = sequence->x = NULL;
  /* y = b + c_0 v_0 + ... is read if b or earlier terms are in it */
  if (vecs->y && continues) PetscCall(VecGetArrayAndMemType(vecs->y, &sequence->y, NULL));
  else if (vecs->y) PetscCall(VecGetArrayWriteAndMemType(vecs->y, &sequence->y, NULL));
  for (PetscInt l = 0; l < sequence->levels; l++) {
    sequence->v[l] = NULL;
    if (vecs->v[l]) PetscCall(VecGetArrayWriteAndMemType(vecs->v[l], &sequence->v[l], NULL));
    /* v_b may replace v_{a-1}, whose array is read and written then */
    if (vecs->v[l] && vecs->v[l] == vecs->before) {
      sequence->before = sequence->v[l];
      before           = NULL;
    }
  }
  {
    const struct {
      Vec                 v;
      const PetscScalar **array;
    } reads[] = {
      {vecs->inverse,   &sequence->inverse     },
      {vecs->x,         &sequence->x           },
      {before,          &sequence->before      },
      {ghosts->inverse, &sequence->ghostinverse},
      {ghosts->x,       &sequence->ghostx      },
      {ghosts->before,  &sequence->ghostbefore }
    };
    const int count = (int)PETSC_STATIC_ARRAY_LENGTH(reads);

    for (int r = 0; r < count; r++) {
      if (reads[r].v) PetscCall(VecGetArrayReadAndMemType(reads[r].v, reads[r].array, NULL));
    }
    if (ghosts->y) PetscCall(VecGetArrayAndMemType(ghosts->y, &sequence->ghosty, NULL));
    PetscCall(IDRSStreamPass(stream, sequence));
    if (ghosts->y) PetscCall(VecRestoreArrayAndMemType(ghosts->y, &sequence->ghosty));
    for (int r = count - 1; r >= 0; r--) {
      if (reads[r].v) PetscCall(VecRestoreArrayReadAndMemType(reads[r].v, reads[r].array));
    }
  }
  for (PetscInt l = sequence->levels - 1; l >= 0; l--) {
    if (vecs->v[l]) PetscCall(VecRestoreArrayWriteAndMemType(vecs->v[l], &sequence->v[l]));
  }
  if (vecs->y && continues) PetscCall(VecRestoreArrayAndMemType(vecs->y, &sequence->y));
  else if (vecs->y) PetscCall(VecRestoreArrayWriteAndMemType(vecs->y, &sequence->y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
