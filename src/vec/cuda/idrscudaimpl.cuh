/*
   Declarations that the files of back end "cuda" share
*/
#pragma once

#include <petsc/private/deviceimpl.h>
#include <petsc/private/vecimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsops.h>
#include "../../sys/device/device.h"
#include "../../sys/kernels/project.cuh"
#include "passes.cuh"

typedef struct _n_IDRSPersistent *IDRSPersistent;

/* Memory for the operations of block IDR(s), allocated on demand */
typedef struct {
  /*
     on the device: pointers to columns, and coefficients. The type has the alignment of complex numbers, because
     PetscDeviceMalloc() aligns for the type
  */
  ulonglong2  *operands;
  ulonglong2  *hostoperands; /* pinned: copy of the operands */
  double      *partials;     /* on the device: sums of thread blocks */
  PetscScalar *sums;         /* pinned */
  /* on the device: thread blocks that have stored their sums, zero between projections */
  unsigned int *done;
  uint64_t     *arrived;                                            /* pinned: the last projection whose sums have arrived */
  uint64_t      sequence;                                           /* of the last projection launched */
  size_t        operandbytes, operandsused, partialcount, sumcount; /* operandsused: since the host last synchronized the stream */
} IDRSBlockMemory;

typedef struct {
  IDRSBases    bases;
  int          multiprocessors;
  IDRSPartials partials;
  PetscScalar *storage; /* of IDRSScalars */
  IDRSResult  *result;  /* of the last projection before which the device had not stopped */
  /*
     of all columns of a group whose first work this is: coefficients from the host; sums of this process before the reduction, one
     column after another, and then the sums of all processes
  */
  IDRSCoefficients<0> *coefficients;
  PetscScalar         *localsums;

  PetscScalar    *hostsums;    /* pinned */
  PetscScalar    *hoststorage; /* pinned: copy of storage */
  IDRSResult     *hostresults; /* pinned: the result of projection i at i % IDRS_MAX_IN_FLIGHT */
  uint64_t       *arrived;     /* pinned: the last projection whose sums or result have arrived */
  uint64_t        sequence;    /* of the last projection launched */
  PetscInt        channel;     /* of the mailboxes between the devices of processes, or -1 */
  IDRSPersistent  persistent;  /* for many steps in one kernel; NULL until it is used */
  IDRSBlockMemory block;
} IDRS_CUDA;

/*
   Launches a kernel for all rows in packs of width, with separate blocks for each column, and returns the number of blocks per
   column. The number is limited to the resident blocks of the kernel for one column, so that the sums of a column do not depend on
   other columns. With many columns the blocks are not all resident; columns then run one after another
*/
template <auto kernel, auto alone, typename... Arguments>
static unsigned int IDRSLaunchRows(const IDRS_CUDA *cuda, int width, PetscInt columns, cudaStream_t stream,
                                   const Arguments &...arguments)
{
  const unsigned int blocks = IDRSResidentBlocks<alone>(
    cuda->multiprocessors, (cuda->bases.n + (size_t)IDRS_THREADS * width - 1) / ((size_t)IDRS_THREADS * width), 0);

  if (blocks) IDRSLaunchShared<kernel>(dim3(blocks, (unsigned int)columns), 0, true, stream, arguments...);
  return blocks;
}

/*
   Returns true if passes should access rows in packs, provided that arrays are aligned. With few rows some multiprocessors would be
   idle, so passes do not use packs; projections, with packs twice as large, are faster with packs even then
*/
static inline bool IDRSPacked(const IDRS_CUDA *cuda)
{
  return cuda->bases.n >= (size_t)(IDRS_PACK * IDRS_THREADS * cuda->multiprocessors);
}

/* Calls launch with the width of packs, PACK entries or one, and the number of columns of a kernel as types */
template <int PACK, typename L>
static void IDRSDispatchRows(bool packed, PetscInt count, L &&launch)
{
  auto members = [&](auto N) {
    if (packed) launch(IDRSInt<PACK>(), N);
    else launch(IDRSInt<1>(), N);
  };

  if (count == 1) members(IDRSInt<1>());
  else members(IDRSInt<IDRS_MAX_WIDTH>());
}

/* Increases the number of the launch whose blocks post messages. It is never 0, which is the initial value of the memory */
static inline void IDRSCountLaunch(IDRSPartials *partials)
{
  if (++partials->launch == 0) partials->launch = 1;
}

/* Returns the scalars for a pass; copies: this pass copies the result of the last projection to the host */
static inline IDRSDeviceScalars IDRSGetDeviceScalars(IDRSWorkspace work, bool copies)
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
PETSC_INTERN PetscErrorCode IDRSNorms_CUDA(const IDRSGroup *, Vec[], PetscReal[]);
PETSC_INTERN PetscErrorCode IDRSVecGram_CUDA(PetscInt, Vec[], PetscScalar[]);

PETSC_INTERN PetscErrorCode IDRSBlockCombine_CUDA(IDRSWorkspace, PetscInt, const IDRSBlockAxpy[]);
PETSC_INTERN PetscErrorCode IDRSBlockGetOperands_CUDA(IDRS_CUDA *, size_t, cudaStream_t, char **, char **);
PETSC_INTERN PetscErrorCode IDRSBlockProject_CUDA(IDRSWorkspace, PetscInt, const IDRSBlockDots[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSBlockDestroy_CUDA(IDRSBlockMemory *);

PETSC_INTERN PetscErrorCode          IDRSProjectLaunch_CUDA(const IDRSGroup *, const IDRSAlgebra[], PetscScalar *const[]);
PETSC_INTERN const IDRSPersistentOps IDRSPersistent_CUDA;
PETSC_INTERN PetscErrorCode          IDRSPersistentDestroy_CUDA(IDRSPersistent *);
PETSC_INTERN PetscErrorCode          IDRSWait_CUDA(IDRSWorkspace, const uint64_t *, uint64_t);
PETSC_INTERN PetscErrorCode          IDRSCheckOthers_CUDA(IDRSWorkspace, PetscLogDouble);
PETSC_INTERN PetscErrorCode          IDRSColumnsRead_CUDA(IDRSWorkspace);
PETSC_INTERN PetscErrorCode          IDRSColumnRead_CUDA(Vec);
