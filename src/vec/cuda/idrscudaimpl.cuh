/*
   Back end "cuda" as its files share it
*/
#pragma once

#include <petsc/private/deviceimpl.h>
#include <petsc/private/vecimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsworkimpl.h>
#include "../../sys/device/memory.h"
#include "../../sys/device/stream.h"
#include "../../sys/kernels/algebra.cuh"
#include "../../sys/kernels/finish.cuh"
#include "../../sys/kernels/launch.cuh"
#include "passes.cuh"

typedef struct _n_IDRSWhole      *IDRSWhole;
typedef struct _n_IDRSBlockQueue *IDRSBlockQueue;

/* Memory of the device for the columns of a group, which its first work owns */
typedef struct {
  IDRSCoefficients<0> *coefficients; /* that the host has computed, of all columns */
  PetscScalar         *localsums;    /* of this process, those of one column after those of another */
  PetscScalar         *sums;         /* of all processes */
} IDRSShared;

/* Memory for the operations of block IDR(s), which grows with them */
typedef struct {
  /*
     on the device: pointers to columns, and coefficients; of a type that is aligned as complex numbers are, as PetscDeviceMalloc()
     goes by the type
  */
  ulonglong2  *operands;
  ulonglong2  *hostoperands;    /* pinned: these on their way */
  double      *partials;        /* on the device: sums of thread blocks */
  PetscScalar *sums, *hostsums; /* on the device; pinned */
  /* on the device: thread blocks that have left their sums there, zero between projections */
  unsigned int *done;
  uint64_t     *arrived;                                            /* pinned: the last projection whose sums have come */
  uint64_t      sequence;                                           /* of the last projection launched */
  size_t        operandbytes, operandsused, partialcount, sumcount; /* operandsused: since the host has waited for the stream */
} IDRSBlockMemory;

typedef struct {
  IDRSPanels      panels;
  int             multiprocessors;
  IDRSPartials    partials;
  PetscScalar    *storage;     /* of IDRSScalars */
  IDRSResult     *result;      /* of the last projection that the device has not stopped before */
  PetscScalar    *localsums;   /* of this process, before those of others are added */
  PetscScalar    *hostsums;    /* pinned */
  PetscScalar    *hoststorage; /* pinned: storage on its way */
  IDRSResult     *hostresults; /* pinned: the result of projection i at i % IDRS_MAX_IN_FLIGHT */
  uint64_t       *arrived;     /* pinned: the last projection whose sums or result have come */
  uint64_t        sequence;    /* of the last projection launched */
  PetscInt        channel;     /* of the mailboxes that connect the devices of several processes, or -1 */
  IDRSWhole       whole;       /* for steps in one kernel; NULL until there were some */
  IDRSShared     *shared;      /* NULL until this was the first of several works that needed it */
  IDRSBlockMemory block;
  IDRSBlockQueue  blockqueue; /* for block recurrences whose algebra is done here; NULL until there were some */
} IDRS_CUDA;

/*
   For all rows in packs of width, and so many columns, each of which has blocks of its own; returns how many. They are as many as
   the device holds of the kernel for one column, so that the sums of a column do not depend on which others there are. The device
   does not hold those of many columns at once: it takes those of one column after those of another
*/
template <auto kernel, auto alone, typename... Arguments>
static unsigned int IDRSLaunchRows(const IDRS_CUDA *cuda, int width, PetscInt columns, cudaStream_t stream,
                                   const Arguments &...arguments)
{
  const unsigned int blocks = IDRSResidentBlocks<alone>(
    cuda->multiprocessors, (cuda->panels.n + (size_t)IDRS_THREADS * width - 1) / ((size_t)IDRS_THREADS * width), 0);

  if (blocks) IDRSLaunchShared<kernel>(dim3(blocks, (unsigned int)columns), 0, true, stream, arguments...);
  return blocks;
}

/*
   Returns PETSC_TRUE if rows can be taken in packs, provided that the arrays can, of one column or of several. Not if there are so
   few of them that some multiprocessors would be idle then; projections, whose packs are twice as large, gain by them all the same
*/
static inline bool IDRSPacked(const IDRS_CUDA *cuda)
{
  return cuda->panels.n >= (size_t)(IDRS_PACK * IDRS_THREADS * cuda->multiprocessors);
}

/* The number of the next launch whose blocks post messages: never 0, which is what memory holds before any */
static inline void IDRSCountLaunch(IDRSPartials *partials)
{
  if (++partials->launch == 0) partials->launch = 1;
}

/* The scalars for a pass; copies: it is the one that copies the result of the last projection to the host */
static inline IDRSDeviceScalars IDRSGetDeviceScalars(IDRSWork work, bool copies)
{
  const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;

  if (!work->ondevice) return {};
  return {cuda->storage, cuda->result, copies ? cuda->hostresults + cuda->sequence % IDRS_MAX_IN_FLIGHT : nullptr, cuda->arrived,
          cuda->sequence};
}

PETSC_INTERN PetscErrorCode IDRSCombine_CUDA(const IDRSGroup *, const IDRSStep *);
PETSC_INTERN PetscErrorCode IDRSProject_CUDA(const IDRSGroup *, const IDRSStep *);
PETSC_INTERN PetscErrorCode IDRSUpdate_CUDA(const IDRSGroup *, const IDRSStep *);
PETSC_INTERN PetscErrorCode IDRSAdvance_CUDA(const IDRSGroup *, const IDRSStep *);
PETSC_INTERN PetscErrorCode IDRSAddIterate_CUDA(const IDRSGroup *, const PetscInt[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSResidual_CUDA(const IDRSGroup *, Vec[], Vec[], Vec[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSLocalSquares_CUDA(const IDRSGroup *, Vec[], PetscReal[]);
PETSC_INTERN PetscErrorCode IDRSVecGram_CUDA(PetscInt, Vec[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSVecSetHashed_CUDA(Vec, uint64_t, PetscInt);

PETSC_INTERN PetscErrorCode IDRSBlockArray_CUDA(Vec, PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSBlockCombine_CUDA(IDRSWork, PetscInt, const IDRSBlockAxpy[]);
PETSC_INTERN PetscInt       IDRSBlockWidth_CUDA(PetscInt);
PETSC_INTERN PetscErrorCode IDRSBlockCombinePrepared_CUDA(IDRSWork, PetscInt, PetscInt, const IDRSBlockAxpy[],
                                                          const PetscScalar *const *, const PetscScalar *, const PetscBool *);
PETSC_INTERN PetscErrorCode IDRSBlockGetOperands_CUDA(IDRS_CUDA *, size_t, cudaStream_t, char **, char **);
PETSC_INTERN PetscErrorCode IDRSBlockProject_CUDA(IDRSWork, PetscInt, const IDRSBlockDots[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSBlockProjectLaunch_CUDA(IDRSWork, PetscInt, const IDRSBlockDots[], bool, const PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSBlockProjectWait_CUDA(IDRSWork, PetscInt, PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSBlockDestroy_CUDA(IDRSBlockMemory *);
PETSC_INTERN PetscErrorCode IDRSBlockQueueDestroy_CUDA(IDRSBlockQueue *);

PETSC_INTERN const IDRSBlockQueueOps IDRSBlockQueue_CUDA;

PETSC_INTERN PetscErrorCode     IDRSProjectLaunch_CUDA(const IDRSGroup *, const IDRSAlgebra[], PetscScalar *const[]);
PETSC_INTERN const IDRSWholeOps IDRSWhole_CUDA;
PETSC_INTERN PetscErrorCode     IDRSWholeDestroy_CUDA(IDRSWhole *);
PETSC_INTERN PetscErrorCode     IDRSGetShared_CUDA(IDRSWork, IDRSShared **);
PETSC_INTERN PetscErrorCode     IDRSSharedDestroy_CUDA(IDRSShared **);
PETSC_INTERN PetscErrorCode     IDRSWait_CUDA(IDRSWork, uint64_t);
PETSC_INTERN PetscErrorCode     IDRSWaitNumber_CUDA(IDRSWork, const uint64_t *, uint64_t);
PETSC_INTERN PetscErrorCode     IDRSCheckOthers_CUDA(IDRSWork, PetscLogDouble);
PETSC_INTERN PetscErrorCode     IDRSGetDiagonal_CUDA(IDRSWork, bool, const PetscScalar **);
PETSC_INTERN PetscErrorCode     IDRSRestoreDiagonal_CUDA(IDRSWork, const PetscScalar **);
PETSC_INTERN PetscErrorCode     IDRSColumnsRead_CUDA(IDRSWork);
PETSC_INTERN PetscErrorCode     IDRSColumnRead_CUDA(Vec);
