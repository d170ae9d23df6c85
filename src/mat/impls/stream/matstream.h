/*
   MATAIJSTREAM: a MATAIJ in the memory of the host that multiplies vectors on the GPU. Other directories use the declarations of
   idrsstream.h. A file calls only files below it:

     aijstream.c         the types: creation, conversion, options, view, operations that differ from MATAIJ
     mpiaijstream.c      several processes: the diagonal block, and the block outside
     seqaijstream.c      the device of products and its memory; one process: the stream and its products
     streampass.c        passes of a stream
     streamcuda.cu       a GPU as its device
     streamschedule.c    order of a pass
     streampattern.c     chunks
*/
#pragma once

#include <petsc/private/matimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsstream.h>

/* Functions of MATSEQAIJ, by name, that free or move the arrays of a matrix */
typedef enum {
  MATSTREAM_SET_PREALLOCATION,
  MATSTREAM_SET_PREALLOCATION_CSR,
  MATSTREAM_SET_PREALLOCATION_COO,
  MATSTREAM_RESET_PREALLOCATION,
  MATSTREAM_RESET_HASH,
  MATSTREAM_FUNCTIONS
} MatStreamFunction;

/* Values of -mat_stream_... */
typedef struct {
  PetscReal chunk;    /* bytes */
  PetscReal memory;   /* bytes, or 0: half of the free memory at the first product, divided by the processes on a device */
  PetscBool pageable; /* the host memory is not pinned */
} MatStreamSettings;

/* In the matrix's spptr. The parent is MATSEQAIJ or MATMPIAIJ */
typedef struct {
  PetscBool      parallel; /* MATMPIAIJ */
  struct _MatOps parent;
  void (*functions[MATSTREAM_FUNCTIONS])(void); /* of the parent; NULL: PETSc has no function of this name */
  PetscErrorCode (*retrievevalues)(Mat);
  MatStreamSettings settings;
  /* The device that computes products; no ops: they are computed on the host, as for MATAIJ */
  const IDRSStreamDeviceOps *ops;
  void                      *device; /* of a test, or NULL */
  size_t                     share;  /* bytes of the device for this process, which all processes determine together; 0: unknown */
  /* One process */
  IDRSStream       stream; /* NULL: no product yet */
  PetscObjectState state, nonzerostate;
  /* Several: the block outside the diagonal, in the memory of the vectors, and the entries of other processes that it multiplies */
  Mat              off;
  PetscObjectId    offid; /* the block on the host, and its state */
  PetscObjectState offstate;
  VecScatter       scatter;
  Vec              ghosts;
} Mat_AIJStream;

static inline Mat_AIJStream *MatStreamData(Mat A)
{
  return (Mat_AIJStream *)A->spptr;
}

/* mpiaijstream.c */
PETSC_INTERN PetscErrorCode MatStreamGetBlock_Private(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_INTERN PetscErrorCode MatMult_MPIAIJStream(Mat, Vec, Vec);

/* seqaijstream.c */
PETSC_INTERN PetscErrorCode MatStreamReset_Private(Mat);
PETSC_INTERN PetscErrorCode MatStreamFindShare_Private(Mat);
PETSC_INTERN PetscErrorCode MatStreamBegin_SeqAIJ(Mat);
PETSC_INTERN PetscErrorCode MatStreamEnd_SeqAIJ(Mat);
