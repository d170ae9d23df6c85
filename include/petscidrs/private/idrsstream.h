/*
   A matrix in the memory of the host that is streamed to a device. Parts, in src/mat/impls/stream:

     pattern    rows in chunks, the columns of each chunk packed, and the chunks that it has columns in: streampattern.c
     order      of the chunks, other than that of the matrix: streamorder.c
     ghosts     on several processes, rows and entries outside the diagonal block that passes with many levels need: streamghosts.c
     schedule   the order of a pass: which chunk is sent, which level of which chunk is computed, in how much memory:
                streamschedule.c
     stream     memory of the device, and the passes: streampass.c
     device     copies, computations, and events between them: streamcuda.cu on GPUs, an emulation in tests
     MATAIJSTREAM: the other files, in the order of matstream.h

   A pass sends each chunk once and computes some levels, v_1 ... v_levels from v_0, as idrspowers.h defines them: the window. Level
   j of a chunk can be computed when level j - 1 is there for all chunks that it has columns in. The chunks are sent in their order
   and each level is computed in this order, so the chunks in use are neighbours at any time, and so are the live rows of a level:

     chunk    0 1 2 3 4 5 6 7 ...
     level 1  x x x x x x           chunks 3, 4, 5 are on the device
     level 2  x x x x x
     level 3  x x x x               chunk 3 may be overwritten by chunk 6

   On several processes each one has its own rows, and columns of other processes, the ghosts. Before a pass of L levels it gets v_0
   of all ghosts within distance L of its rows. Then it also computes level j of the ghosts within distance L - j, which is all that
   level L of its own rows needs. Rows of ghosts, and entries of its own rows in columns of ghosts, stay on the device. Each ghost
   is computed with a chunk of own rows.

   Chunks may be ordered, so that those with columns in each other follow each other. Then rows are counted in this order, within a
   chunk as in the matrix: in packed columns, schedules and rings. Vectors and values stay as they are: what is read by columns is
   copied to the order of the chunks on the device, chunk by chunk, and the rest is found from the origin of the chunk. The sum of a
   row has the order of the matrix.

   Only streamcuda.cu uses CUDA.
*/
#pragma once

#include <petscidrs.h>
#include <stdint.h>

/* The most levels of a pass. Beyond 32 a pass waits for the GPU instead of the copies */
#define IDRS_STREAM_LEVELS 64

/* Pieces of the memory of the device are aligned to so many bytes */
#define IDRS_STREAM_ALIGNMENT 256

/*
   Rows row ... row + rows - 1. Packed, they are

     uint32_t offsets[rows + 1]      of the entries of each row, from 0
     int32_t  table[differences]     of (column - row), none with columns of 4 bytes
     codes[entries]                  width bytes each: a place in the table, or with 4 bytes the column

   followed by the values on the device
*/
typedef struct {
  PetscInt row, rows;
  PetscInt origin;         /* the first row in the matrix: row, unless chunks are ordered */
  size_t   entry, entries; /* the first one, and how many */
  PetscInt width;          /* 1, 2 or 4 */
  PetscInt differences;
  size_t   packed; /* where the packed part begins in the pattern's memory */
  size_t   packedbytes;
  PetscInt least; /* this chunk and all behind it have no columns in chunks before this one */
  PetscInt most;  /* this chunk and all before it have no columns in chunks behind this one */
} IDRSStreamChunk;

/*
   Entries of rows in columns that are not in the diagonal block of the process that has the rows. In the memory of the ghosts they
   are

     uint32_t offsets[rows + 1]    of the entries of each row, from 0
     uint32_t columns[entries]     ghost g is column n + g

   followed by the values, aligned
*/
typedef struct {
  PetscInt rows; /* 0: no entries */
  size_t   entries, place;
} IDRSStreamOutside;

/*
   The ghosts of a chunk, in the order of their distances: row is n plus the number of the first one. All ghosts have rows, except
   those of the largest distance
*/
typedef struct {
  IDRSStreamChunk   inner; /* entries of their rows in the diagonal blocks of their processes, with columns of 4 bytes */
  IDRSStreamOutside outer;
  IDRSStreamOutside own; /* of the rows of the chunk */
} IDRSStreamGhostChunk;

typedef struct _n_IDRSStreamGhosts *IDRSStreamGhosts;
struct _n_IDRSStreamGhosts {
  PetscInt  depth, count; /* the largest distance, ghosts */
  PetscInt *source;       /* the number that ghost g was given */
  PetscInt *distance;     /* of ghost g */
  /* first[c * depth + d]: the number of ghosts of chunks before c, and of those of chunk c within distance d */
  PetscInt             *first;
  IDRSStreamGhostChunk *chunks;       /* as many as the pattern has */
  PetscInt             *least, *most; /* of the chunks of the pattern without ghosts */
  char                 *memory;
  size_t                bytes; /* of it */
};

/*
   Rows to make ghosts from: columns 0 to n - 1 are those of the own rows, and column n + g is that of ghost g. Entries of a row are
   i[row] to i[row + 1]; of ghosts those before split[row] are in the diagonal block
*/
typedef struct {
  PetscInt           count;           /* ghosts */
  const PetscInt    *outeri, *outerj; /* the own rows outside of the diagonal block */
  const PetscScalar *outera;
  const PetscInt    *i, *split, *j; /* rows of ghosts; those at the largest distance have none */
  const PetscScalar *a;
} IDRSStreamGhostRows;

typedef struct _n_IDRSStreamPattern *IDRSStreamPattern;
struct _n_IDRSStreamPattern {
  PetscInt         n, columns, nchunks;
  PetscBool        ordered; /* n columns, and no ghosts */
  size_t           entries;
  IDRSStreamChunk *chunks;
  PetscInt        *starts; /* their first rows, and n */
  char            *packed;
  size_t           packedbytes;
  size_t           slotbytes; /* the largest chunk takes on the device */
  size_t           bytes;     /* all chunks take on the device */
  IDRSStreamGhosts ghosts;    /* or NULL */
};

PETSC_EXTERN PetscErrorCode IDRSStreamPatternCreate(PetscInt, PetscInt, const PetscInt[], const PetscInt[], size_t, PetscBool,
                                                    IDRSStreamPattern *);
PETSC_INTERN PetscErrorCode IDRSStreamOrder(PetscInt, const PetscInt[], const PetscInt[], const PetscInt[], PetscInt[]);
PETSC_EXTERN PetscErrorCode IDRSStreamPatternDestroy(IDRSStreamPattern *);

PETSC_EXTERN PetscErrorCode IDRSStreamGhostsCreate(IDRSStreamPattern, PetscInt, const IDRSStreamGhostRows *);
PETSC_EXTERN PetscErrorCode IDRSStreamGhostsDestroy(IDRSStreamPattern);

/* Returns the last k with starts[k] <= row, for starts in ascending order */
static inline PetscInt IDRSStreamSearch(PetscInt n, const PetscInt starts[], PetscInt row)
{
  PetscInt low = 0, high = n;

  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    if (starts[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

/* Returns the chunk that has this row */
static inline PetscInt IDRSStreamChunkOf(IDRSStreamPattern pattern, PetscInt row)
{
  return IDRSStreamSearch(pattern->nchunks, pattern->starts, row);
}

/* Bytes of a chunk on the device, and the place of its values in them */
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

/* The place of the values of these entries, and their bytes */
static inline size_t IDRSStreamOutsideHead(const IDRSStreamOutside *outside)
{
  return IDRSStreamAlign(((size_t)outside->rows + 1 + outside->entries) * sizeof(uint32_t));
}

static inline size_t IDRSStreamOutsideBytes(const IDRSStreamOutside *outside)
{
  return outside->rows ? IDRSStreamOutsideHead(outside) + outside->entries * sizeof(PetscScalar) : 0;
}

/* Returns how many ghosts of a chunk are within this distance; they are the first ones */
static inline PetscInt IDRSStreamGhostsWithin(IDRSStreamGhosts ghosts, PetscInt chunk, PetscInt distance)
{
  return ghosts->first[chunk * ghosts->depth + distance] - ghosts->first[chunk * ghosts->depth];
}

/* Returns how many of the chunks before this one stay on the device permanently, if so many of all do, spread evenly */
static inline PetscInt IDRSStreamResidentsBefore(IDRSStreamPattern pattern, PetscInt residents, PetscInt chunk)
{
  return (PetscInt)((int64_t)chunk * residents / pattern->nchunks);
}

/* Returns if this chunk stays on the device */
static inline PetscBool IDRSStreamResident(IDRSStreamPattern pattern, PetscInt residents, PetscInt chunk)
{
  return (PetscBool)(IDRSStreamResidentsBefore(pattern, residents, chunk + 1) >
                     IDRSStreamResidentsBefore(pattern, residents, chunk));
}

/*
   Level 0 sends the chunk, to the slot if it is not resident. For other levels live is the first row of the level below that is
   still in memory
*/
typedef struct {
  PetscInt  chunk, level;
  PetscInt  slot; /* -1 for a resident chunk */
  PetscInt  live;
  PetscBool last; /* of this chunk, after which its slot is free */
} IDRSStreamStep;

/*
   A pass. A chunk is sent while the steps that the chunk before made possible are computed. Levels 1 ... levels - 1 are in rings of
   so many rows: row i is in place i mod rows
*/
typedef struct _n_IDRSStreamSchedule *IDRSStreamSchedule;
struct _n_IDRSStreamSchedule {
  PetscInt        levels, residents, slots, rows, nsteps;
  IDRSStreamStep *steps;
};

/* Use of the memory of the device */
typedef struct {
  PetscInt levels, residents; /* of a pass; resident chunks */
  PetscInt slots, rows;       /* at the most, as in the schedules */
  size_t   slotbytes, ringbytes, residentbytes, ghostbytes;
  size_t   orderbytes; /* two vectors in the order of the chunks */
} IDRSStreamLayout;

static inline size_t IDRSStreamLayoutBytes(const IDRSStreamLayout *layout)
{
  return layout->slotbytes + layout->ringbytes + layout->residentbytes + layout->ghostbytes + layout->orderbytes;
}

PETSC_EXTERN PetscErrorCode IDRSStreamScheduleCreate(IDRSStreamPattern, PetscInt, PetscInt, IDRSStreamSchedule *);
PETSC_EXTERN PetscErrorCode IDRSStreamScheduleDestroy(IDRSStreamSchedule *);
PETSC_EXTERN PetscErrorCode IDRSStreamFit(IDRSStreamPattern, size_t, PetscInt, IDRSStreamLayout *);

/*
   A level on the device: row i is in place i - begin, minus rows if that is not smaller than rows, as in a ring. Rows from n on are
   ghosts
*/
typedef struct {
  PetscScalar *array; /* NULL: the level is not stored */
  PetscInt     begin, rows;
  PetscScalar *ghosts; /* NULL: as array */
  PetscInt     n;
} IDRSStreamLevel;

/* Entries of rows outside the diagonal block, on the device; without offsets there are none */
typedef struct {
  const uint32_t    *offsets, *columns;
  const PetscScalar *values;
} IDRSStreamOutsideRows;

/*
   One level of one chunk, for its rows i:

     product   next_i = (A last)_i, and nothing else
     else      next_i = gamma (inverse_i (A last)_i - theta last_i) - mu before_i,
               y_i += first last_i + c next_i, or y_i = ... if it begins

   Terms of y with coefficients 0 are not added. next, before, inverse and y may be NULL. The sum of a row has the order of its
   columns, or for long rows that of the lanes that share them, and does not depend on the chunk. Entries outside the diagonal block
   are last, so a row of a ghost has the same bits as on its own process
*/
typedef struct {
  const IDRSStreamChunk *chunk;
  PetscInt               rows;   /* the first so many of the chunk's */
  const char            *memory; /* of the chunk, on the device */
  PetscBool              ghosts; /* its rows are those of ghosts; inverse and y are of them alone */
  IDRSStreamOutsideRows  outside;
  PetscBool              product, begins;
  PetscScalar            gamma, theta, mu, first, c;
  IDRSStreamLevel        last, before, next;
  const PetscScalar     *inverse;
  PetscScalar           *y;
} IDRSStreamTask;

/*
   A device has two queues, of copies and of computations, each in its order. Slots are numbers

     available   bytes of its memory that are free, in equal parts for those processes of a communicator that share the device
     malloc      memory of the device, or an error; free frees it once both queues are empty
     pin         memory of the host that copies are made from: until it is unpinned it is neither freed nor moved
     reuse       copies from now on wait until the slot is free
     copy        from the host, in the queue of copies
     arrived     computations from now on wait for all earlier copies, the last of which are to this slot
     compute     in the queue of computations
     move        from one place on the device to another one, in the queue of computations
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
  PetscErrorCode (*move)(void *, void *, const void *, size_t);
  PetscErrorCode (*release)(void *, PetscInt);
  PetscErrorCode (*finish)(void *);
  PetscErrorCode (*destroy)(void *);
} IDRSStreamDeviceOps;

/* Totals of all passes */
typedef struct {
  PetscInt64     passes, sends;
  PetscLogDouble bytes, seconds; /* sent; of the passes, as seen by the host */
} IDRSStreamCounts;

typedef struct _n_IDRSStream *IDRSStream;
struct _n_IDRSStream {
  IDRSStreamPattern          pattern;
  const PetscScalar         *values; /* of the matrix, on the host */
  const IDRSStreamDeviceOps *ops;
  void                      *device; /* the device's own */
  size_t                     limit;  /* bytes of the device's memory, or 0: half of what is free at the first pass */
  PetscBool                  pinned;
  PetscInt                   wanted; /* the most levels that were asked for */
  IDRSStreamLayout           layout;
  IDRSStreamSchedule         schedules[IDRS_STREAM_LEVELS + 1]; /* for so many levels, or NULL */
  char                      *memory;                            /* slots, rings, resident chunks */
  size_t                    *places;                            /* of resident chunks in the memory */
  PetscBool                 *present;       /* a resident chunk is on the device, with the values of the matrix */
  PetscBool                  ghostspresent; /* as are rows and entries of ghosts */
  IDRSStreamCounts           counts;
};

/*
   A pass: levels begin + 1 ... begin + levels of a sequence, from level begin and, if begin > 0, the level before it
*/
typedef struct {
  PetscBool          product; /* the last level is A y, or without y A times the level before it, and nothing else */
  PetscBool          adds;    /* the sum to what is in y */
  PetscInt           begin, levels;
  const PetscScalar *gamma, *theta, *mu; /* of the sequence: step j at j - 1 */
  const PetscScalar *c;                  /* c_j at j, where there is a y */
  const PetscScalar *inverse, *before, *x;
  PetscScalar       *v[IDRS_STREAM_LEVELS]; /* level begin + 1 + j, all of it, or NULL */
  PetscScalar       *y;
  PetscBool          ghosts; /* with those of the pattern, whose vectors are: */
  const PetscScalar *ghostinverse, *ghostbefore, *ghostx;
  PetscScalar       *ghosty;
  /* called for each chunk, of a pass with one level, instead of the computation; or NULL */
  PetscErrorCode (*visit)(void *, const IDRSStreamTask *);
  void *visitor;
} IDRSStreamSequence;

PETSC_EXTERN PetscErrorCode IDRSStreamCreate(IDRSStreamPattern, const PetscScalar[], size_t, const IDRSStreamDeviceOps *, void *,
                                             IDRSStream *);
PETSC_EXTERN PetscErrorCode IDRSStreamDestroy(IDRSStream *);
PETSC_EXTERN PetscErrorCode IDRSStreamReserve(IDRSStream, PetscInt, PetscInt *);
PETSC_EXTERN PetscErrorCode IDRSStreamSetValues(IDRSStream, const PetscScalar[]);
PETSC_EXTERN PetscErrorCode IDRSStreamSetLimit(IDRSStream, size_t);
PETSC_EXTERN PetscErrorCode IDRSStreamGetLimit(IDRSStream, size_t *);
PETSC_EXTERN PetscErrorCode IDRSStreamSetGhosts(IDRSStream, PetscInt, const IDRSStreamGhostRows *);
PETSC_EXTERN PetscErrorCode IDRSStreamReduceLimit(IDRSStream, size_t, PetscBool *);
PETSC_EXTERN PetscErrorCode IDRSStreamUnpin(IDRSStream);
PETSC_INTERN PetscErrorCode IDRSStreamRegisterEvents(void);
PETSC_EXTERN PetscErrorCode IDRSStreamPass(IDRSStream, const IDRSStreamSequence *);

/*
   MATAIJSTREAM for other parts of the library, and for tests: matrices of this type, with the stream of their rows in this process
*/

/* Values of -mat_stream_... */
typedef struct {
  PetscReal chunk;    /* bytes */
  PetscReal memory;   /* bytes, or 0: half of what is free at the first product, shared by the processes on a device */
  PetscBool pageable; /* the memory of the host is not registered */
  PetscBool ordered;  /* the order of chunks is their own */
} MatStreamSettings;

/* The vectors of a pass, as in IDRSStreamSequence, or NULL. One of v may be before */
typedef struct {
  Vec inverse, before, x, y, v[IDRS_STREAM_LEVELS];
} MatStreamVecs;

PETSC_INTERN PetscErrorCode MatCreate_SeqAIJStream(Mat);
PETSC_INTERN PetscErrorCode MatCreate_MPIAIJStream(Mat);

PETSC_EXTERN PetscErrorCode MatStreamGetSettings_Private(Mat, MatStreamSettings *);
PETSC_INTERN PetscErrorCode MatStreamCopySettings_Private(Mat, Mat);
PETSC_INTERN PetscErrorCode MatStreamUsesDevice_Private(Mat, Vec, PetscBool *);

/* Parts of a matrix on several processes */
PETSC_INTERN PetscErrorCode MatStreamGetBlock_Private(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_EXTERN PetscErrorCode MatStreamGetOutside_Private(Mat, Vec, Mat *, VecScatter *, Vec *);

/* Of a sequential matrix: its stream, and memory of the GPU for a copy, out of that of the stream */
PETSC_INTERN PetscErrorCode MatStreamGet_Private(Mat, IDRSStream *);
PETSC_EXTERN PetscErrorCode MatStreamReserveCopy_Private(Mat, size_t, PetscBool *);
PETSC_INTERN PetscErrorCode MatStreamReleaseCopy_Private(Mat, size_t);

/* Passes */
PETSC_INTERN PetscErrorCode MatStreamReserve_Private(Mat, Vec, PetscInt, PetscInt *);
PETSC_INTERN PetscErrorCode MatStreamPass_Private(Mat, const MatStreamVecs *, IDRSStreamSequence *);

/* For tests: products on another device, and the stream of this process */
PETSC_EXTERN PetscErrorCode IDRSStreamMatSetDevice(Mat, const IDRSStreamDeviceOps *, void *);
PETSC_EXTERN PetscErrorCode IDRSStreamMatGetStream(Mat, IDRSStream *);
