/*
   MATAIJSTREAM: a MATAIJ in the memory of the host that multiplies vectors on the GPU
*/
#pragma once

#include <petsc/private/matimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsstream.h>

/* Functions of MATAIJ, by name, that give an assembled matrix other arrays */
#define MATSTREAM_FUNCTIONS 5

/* What -mat_stream_... set */
typedef struct {
  PetscReal chunk;    /* bytes */
  PetscReal memory;   /* bytes, or 0: half of what is free at the first product, shared by the processes on a device */
  PetscInt  columns;  /* the fewest bits of them */
  PetscBool pageable; /* the memory of the host is not registered */
  PetscBool ordered;  /* the order of chunks is their own */
} MatStreamSettings;

/* On several processes: what a pass needs of other processes than its own, see idrsstream.h */
typedef struct _n_MatStreamGhosts MatStreamGhosts;

/* The vectors of a pass, as in IDRSStreamSequence, and NULL where there are none. One of v may be before */
typedef struct {
  Vec inverse, before, x, y, v[IDRS_STREAM_LEVELS];
} MatStreamVecs;

/* In the matrix's spptr. The parent is MATSEQAIJ or MATMPIAIJ */
typedef struct {
  struct _MatOps parent;
  void (*functions[MATSTREAM_FUNCTIONS])(void); /* of the parent; NULL: PETSc has none of this name */
  PetscErrorCode (*retrievevalues)(Mat);
  MatStreamSettings settings;
  /* Where products are computed; no ops: on the host, as MATAIJ has them */
  const IDRSStreamDeviceOps *ops;
  void                      *device; /* of a test, or NULL */
  /* bytes of the device for this process, which all processes find together at the first product; 0: none is known */
  size_t share;
  /* One process */
  IDRSStream       stream; /* NULL: no product yet */
  PetscObjectState state, nonzerostate;
  size_t           taken; /* bytes of the memory that copies of the matrix have */
  /* Several: the block outside the diagonal, where the vectors are, and the entries that it takes from other processes */
  Mat              off;
  PetscObjectId    offid; /* the block on the host, and its state */
  PetscObjectState offstate;
  VecScatter       scatter;
  Vec              ghosts;
  MatStreamGhosts *deep; /* for passes with several levels; NULL: none so far */
} Mat_AIJStream;

PETSC_INTERN PetscErrorCode MatCreate_SeqAIJStream(Mat);
PETSC_INTERN PetscErrorCode MatCreate_MPIAIJStream(Mat);

/* For both types */
PETSC_INTERN PetscErrorCode MatStreamBegin_Private(Mat);
PETSC_INTERN PetscErrorCode MatStreamTakesType_Private(Mat, Vec, PetscBool *);
PETSC_INTERN PetscErrorCode MatStreamTakes_Private(Mat, Vec, PetscBool *);
PETSC_INTERN PetscErrorCode MatStreamCopySettings_Private(Mat, Mat);
PETSC_INTERN PetscErrorCode MatStreamViewCounts_Private(Mat, Mat, PetscViewer);
PETSC_INTERN PetscErrorCode MatStreamReset_Private(Mat);

/* For the sequential one */
PETSC_INTERN PetscErrorCode MatStreamGet_Private(Mat, IDRSStream *);
PETSC_INTERN PetscErrorCode MatStreamProduct_Private(Mat, const PetscScalar *, PetscScalar *);

/* For both: how many levels a pass can have, and a pass */
PETSC_INTERN PetscErrorCode MatStreamReserve_Private(Mat, Vec, PetscInt, PetscInt *);
PETSC_INTERN PetscErrorCode MatStreamPass_Private(Mat, const MatStreamVecs *, IDRSStreamSequence *);
PETSC_INTERN PetscErrorCode MatStreamGhostsDestroy_Private(MatStreamGhosts **);
PETSC_INTERN PetscErrorCode MatStreamGhostsView_Private(Mat, PetscViewer);

/* Memory of the GPU for a copy of the matrix, out of that of the stream */
PETSC_INTERN PetscErrorCode MatStreamTake_Private(Mat, size_t, PetscBool *);
PETSC_INTERN PetscErrorCode MatStreamGive_Private(Mat, size_t);
PETSC_INTERN size_t         MatStreamLimit_Private(Mat);

/* For the parallel one: what it has of its own, and its diagonal block as a sequential one, with the same settings */
PETSC_INTERN PetscErrorCode MatStreamBegin_MPIAIJ(Mat);
PETSC_INTERN PetscErrorCode MatStreamEnd_MPIAIJ(Mat);
PETSC_INTERN PetscErrorCode MatStreamGetBlock_Private(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_INTERN PetscErrorCode MatStreamGetOutside_Private(Mat, Vec, Mat *, VecScatter *, Vec *);

/* For tests: products on another device */
PETSC_EXTERN PetscErrorCode IDRSStreamMatSetDevice(Mat, const IDRSStreamDeviceOps *, void *);
