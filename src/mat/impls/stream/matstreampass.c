/* A pass of a sequential MATAIJSTREAM: the arrays of its vectors */
#include "matstream.h"

/* MatStreamPass_Private - Runs a pass with at most the levels that IDRSStreamReserve() returned, and sets its arrays */
PetscErrorCode MatStreamPass_Private(IDRSStream stream, const MatStreamVecs *vecs, IDRSStreamSequence *sequence)
{
  const PetscBool continues = (PetscBool)(sequence->adds || sequence->begin); /* y is read */
  Vec             before    = vecs->before;

  PetscFunctionBegin;
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
      {vecs->inverse, &sequence->inverse},
      {vecs->x,       &sequence->x      },
      {before,        &sequence->before }
    };
    const int count = (int)PETSC_STATIC_ARRAY_LENGTH(reads);

    for (int r = 0; r < count; r++) {
      if (reads[r].v) PetscCall(VecGetArrayReadAndMemType(reads[r].v, reads[r].array, NULL));
    }
    PetscCall(IDRSStreamPass(stream, sequence));
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
