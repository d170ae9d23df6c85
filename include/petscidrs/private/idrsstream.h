/*
   A matrix in the memory of the host that is streamed to a device. Parts, in src/mat/impls/stream:

     pattern    chunks of rows with packed columns, and the chunks in which a chunk has columns: streampattern.c
     schedule   the sequence of copies and computed levels of a pass, and its memory: streamschedule.c
     stream     memory of the device, and the passes: streampass.c
     device     copies, computations, and events between them: streamcuda.cu on GPUs, an emulation in tests
     MATAIJSTREAM: the other files, in the order of matstream.h

   A pass sends each chunk once and computes the levels v_1 ... v_levels of idrspowers.h from v_0. Level j of a chunk can be
   computed when level j - 1 is available for all chunks in which it has columns. Chunks are sent in order, and each level is
   computed in this order, so at any time the chunks in use are consecutive, and so are the live rows of a level:

     chunk    0 1 2 3 4 5 6 7 ...
     level 1  x x x x x x           chunks 3, 4, 5 are on the device
     level 2  x x x x x
     level 3  x x x x               chunk 3 may be overwritten by chunk 6

   On several processes each product is a pass over the diagonal block of each process, followed by the entries outside.

   Only streamcuda.cu uses CUDA.
*/
#pragma once

#include <petscidrs.h>
#include <stdint.h>

/* Largest number of levels of a pass. With more than 32 a pass is limited by the GPU instead of the copies */
#define IDRS_STREAM_LEVELS 64

/* Alignment of parts of the device memory, in bytes */
#define IDRS_STREAM_ALIGNMENT 256

/*
   A chunk has rows row ... row + rows - 1. In packed form:

     uint32_t offsets[rows + 1]      of the entries of each row, from 0
     int32_t  table[differences]     of (column - row), empty with 4-byte columns
     codes[entries]                  width bytes each: an index into the table, or, with 4 bytes, the column

   followed by the values on the device
*/
typedef struct {
  PetscInt row, rows;
  size_t   entry, entries; /* index of the first one, and their number */
  PetscInt width;          /* 1, 2 or 4 */
  PetscInt differences;
  size_t   packed; /* offset of the packed part in the memory of the pattern */
  size_t   packedbytes;
  PetscInt least; /* this chunk and all later ones have no columns in chunks before chunk `least` */
  PetscInt most;  /* this chunk and all earlier ones have no columns in chunks after chunk `most` */
} IDRSStreamChunk;

typedef struct _n_IDRSStreamPattern *IDRSStreamPattern;
struct _n_IDRSStreamPattern {
  PetscInt         n, nchunks;
  size_t           entries;
  IDRSStreamChunk *chunks;
  PetscInt        *starts; /* first rows of the chunks, and n */
  char            *packed;
  size_t           packedbytes;
  size_t           slotbytes; /* size of the largest chunk on the device */
  size_t           bytes;     /* size of all chunks on the device */
};

PETSC_EXTERN PetscErrorCode IDRSStreamPatternCreate(PetscInt, PetscInt, const PetscInt[], const PetscInt[], size_t,
                                                    IDRSStreamPattern *);
PETSC_EXTERN PetscErrorCode IDRSStreamPatternDestroy(IDRSStreamPattern *);

/* Return the bytes of a chunk on the device, and the offset of its values */
static inline size_t IDRSStreamAlign(size_t bytes)
{
  return (bytes + IDRS_STREAM_ALIGNMENT - 1) / IDRS_STREAM_ALIGNMENT * IDRS_STREAM_ALIGNMENT;
}

static inline size_t IDRSStreamValuesPlace(const IDRSStreamChunk *chunk)
{
  return IDRSStreamAlign(chunk->packedbytes);
}

static inline size_t IDRSStreamChunkBytes(const IDRSStreamChunk *chunk)
{
  return IDRSStreamAlign(IDRSStreamValuesPlace(chunk) + chunk->entries * sizeof(PetscScalar));
}

/* Returns the number of resident chunks before this one, if `residents` chunks stay on the device, spread evenly */
static inline PetscInt IDRSStreamResidentsBefore(IDRSStreamPattern pattern, PetscInt residents, PetscInt chunk)
{
  return (PetscInt)((int64_t)chunk * residents / pattern->nchunks);
}

/* Returns PETSC_TRUE if this chunk stays on the device */
static inline PetscBool IDRSStreamResident(IDRSStreamPattern pattern, PetscInt residents, PetscInt chunk)
{
  return (PetscBool)(IDRSStreamResidentsBefore(pattern, residents, chunk + 1) >
                     IDRSStreamResidentsBefore(pattern, residents, chunk));
}

/*
   Level 0 sends the chunk, to the slot if it is not resident. For other levels `live` is the first row of level - 1 that is still
   in memory
*/
typedef struct {
  PetscInt  chunk, level;
  PetscInt  slot; /* -1 for a resident chunk */
  PetscInt  live;
  PetscBool last; /* last step of this chunk, after which its slot is free */
} IDRSStreamStep;

/*
   A pass. While a chunk is sent, the steps that became possible with the chunk before are computed. Levels 1 ... levels - 1 are in
   rings of `rows` rows: row i is at index i mod rows
*/
typedef struct _n_IDRSStreamSchedule *IDRSStreamSchedule;
struct _n_IDRSStreamSchedule {
  PetscInt        levels, residents, slots, rows, nsteps;
  IDRSStreamStep *steps;
};

/* Use of the memory of the device */
typedef struct {
  PetscInt levels, residents; /* levels of a pass; resident chunks */
  PetscInt slots, rows;       /* maxima over the schedules */
  size_t   slotbytes, ringbytes, residentbytes;
} IDRSStreamLayout;

static inline size_t IDRSStreamLayoutBytes(const IDRSStreamLayout *layout)
{
  return layout->slotbytes + layout->ringbytes + layout->residentbytes;
}

PETSC_EXTERN PetscErrorCode IDRSStreamScheduleCreate(IDRSStreamPattern, PetscInt, PetscInt, IDRSStreamSchedule *);
PETSC_EXTERN PetscErrorCode IDRSStreamScheduleDestroy(IDRSStreamSchedule *);
PETSC_EXTERN PetscErrorCode IDRSStreamFit(IDRSStreamPattern, size_t, PetscInt, IDRSStreamLayout *);

/*
   A level on the device: row i is at index i - begin, or i - begin - rows if that is not negative, as in a ring
*/
typedef struct {
  PetscScalar *array; /* NULL: the level is not stored */
  PetscInt     begin, rows;
} IDRSStreamLevel;

/*
   One level of one chunk, for its rows i:

     product   next_i = (A last)_i, and nothing else
     else      next_i = gamma (inverse_i (A last)_i - theta last_i) - mu before_i,
               y_i += first last_i + c next_i, or y_i = ... if `begins`

   Terms of y with coefficients 0 are not added. next, before, inverse and y may be NULL. The sum of a row has the order of its
   columns, or, in long rows, the order of the lanes that share the row, and does not depend on the chunk
*/
typedef struct {
  const IDRSStreamChunk *chunk;
  const char            *memory; /* of the chunk, on the device */
  PetscBool              product, begins;
  PetscScalar            gamma, theta, mu, first, c;
  IDRSStreamLevel        last, before, next;
  const PetscScalar     *inverse;
  PetscScalar           *y;
} IDRSStreamTask;

/*
   A device has two queues, for copies and for computations, each executed in order. A slot is a number

     available   free bytes of its memory, divided by the number of processes of the communicator that share the device
     malloc      allocates device memory, or reports an error; free frees it once both queues are empty
     pin         pins host memory for copies, which must be neither freed nor moved until it is unpinned
     reuse       later copies wait until the slot is free
     copy        copies from the host, in the queue of copies
     arrived     later computations wait for all earlier copies, the last of which are to this slot
     compute     computes a task, in the queue of computations
     release     the slot is free once all earlier computations are done
     finish      the host waits for the copies
*/
typedef struct {
  const char  *name;
  PetscMemType memtype; /* of the vectors that it computes with */
  PetscErrorCode (*available)(void *, MPI_Comm, size_t *);
  PetscErrorCode (*malloc)(void *, size_t, void **);
  PetscErrorCode (*free)(void *, void *);
  PetscErrorCode (*pin)(void *, const void *, size_t);
  PetscErrorCode (*unpin)(void *, const void *);
  PetscErrorCode (*reuse)(void *, PetscInt);
  PetscErrorCode (*copy)(void *, void *, const void *, size_t);
  PetscErrorCode (*arrived)(void *, PetscInt);
  PetscErrorCode (*compute)(void *, const IDRSStreamTask *);
  PetscErrorCode (*release)(void *, PetscInt);
  PetscErrorCode (*finish)(void *);
  PetscErrorCode (*destroy)(void *);
} IDRSStreamDeviceOps;

/* Totals of all passes */
typedef struct {
  PetscInt64     passes, sends;
  PetscLogDouble bytes, seconds; /* bytes sent; time of the passes, measured by the host */
} IDRSStreamCounts;

typedef struct _n_IDRSStream *IDRSStream;
struct _n_IDRSStream {
  IDRSStreamPattern          pattern;
  const PetscScalar         *values; /* of the matrix, on the host */
  const IDRSStreamDeviceOps *ops;
  void                      *device; /* data of the device */
  size_t                     limit;  /* bytes of device memory */
  PetscBool                  pinned;
  PetscInt                   wanted; /* largest requested number of levels */
  IDRSStreamLayout           layout;
  IDRSStreamSchedule         schedules[IDRS_STREAM_LEVELS + 1]; /* schedules[l] has l levels, or is NULL */
  char                      *memory;                            /* slots, rings, resident chunks */
  size_t                    *places;                            /* of resident chunks in the memory */
  PetscBool                 *present; /* a resident chunk is on the device, with the values of the matrix */
  IDRSStreamCounts           counts;
};

/*
   A pass: levels begin + 1 ... begin + levels of a sequence, from level begin and, if begin > 0, the level before it
*/
typedef struct {
  PetscBool          product; /* the last level is A y, or, without y, A times the level before it */
  PetscBool          adds;    /* the sum is added to y */
  PetscInt           begin, levels;
  const PetscScalar *gamma, *theta, *mu; /* of step j, at index j - 1 */
  const PetscScalar *c;                  /* c_j at index j, if there is a y */
  const PetscScalar *inverse, *before, *x;
  PetscScalar       *v[IDRS_STREAM_LEVELS]; /* level begin + 1 + j, all of it, or NULL */
  PetscScalar       *y;
} IDRSStreamSequence;

PETSC_EXTERN PetscErrorCode IDRSStreamCreate(IDRSStreamPattern, const PetscScalar[], size_t, const IDRSStreamDeviceOps *, void *,
                                             IDRSStream *);
PETSC_EXTERN PetscErrorCode IDRSStreamDestroy(IDRSStream *);
PETSC_EXTERN PetscErrorCode IDRSStreamReserve(IDRSStream, PetscInt, PetscInt *);
PETSC_EXTERN PetscErrorCode IDRSStreamSetValues(IDRSStream, const PetscScalar[]);
PETSC_EXTERN PetscErrorCode IDRSStreamSetLimit(IDRSStream, size_t);
PETSC_EXTERN PetscErrorCode IDRSStreamUnpin(IDRSStream);
PETSC_INTERN PetscErrorCode IDRSStreamRegisterEvents(void);
PETSC_EXTERN PetscErrorCode IDRSStreamPass(IDRSStream, const IDRSStreamSequence *);

/*
   MATAIJSTREAM for other parts of the library, and for tests: matrices of this type, with the stream of their rows in this process
*/

PETSC_INTERN PetscErrorCode MatCreate_SeqAIJStream(Mat);
PETSC_INTERN PetscErrorCode MatCreate_MPIAIJStream(Mat);
PETSC_INTERN PetscErrorCode MatStreamCopySettings_Private(Mat, Mat);
PETSC_INTERN PetscErrorCode MatStreamUsesDevice_Private(Mat, PetscInt, const Vec[], PetscBool *, PetscBool *);
PETSC_INTERN PetscErrorCode MatStreamGet_Private(Mat, IDRSStream *);

/* For tests: products on another device, and the stream of this process */
PETSC_EXTERN PetscErrorCode IDRSStreamMatSetDevice(Mat, const IDRSStreamDeviceOps *, void *);
PETSC_EXTERN PetscErrorCode IDRSStreamMatGetStream(Mat, IDRSStream *);

/* With CUDA only: a GPU as the device */
PETSC_INTERN PetscErrorCode            IDRSStreamGPUCreate(PetscBool, void **);
PETSC_INTERN const IDRSStreamDeviceOps IDRSStreamDevice_CUDA;
