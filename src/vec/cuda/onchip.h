/*
   Many steps in one kernel, whose blocks have their rows on chip: see onchip.cu
*/
#pragma once

#include "whole.cuh"

/* How a system lies in the shared memory of blocks, or clusters = 0 where it does not fit */
typedef struct {
  unsigned int clusters, size;         /* and blocks of a cluster */
  unsigned int threads;                /* of a block */
  bool         matrix;                 /* is in shared memory, too */
  size_t       rows, nonzeros, others; /* of a block at most; others: entries of u of other blocks that it needs. Without the matrix rows only */
  size_t       bytes;                  /* of shared memory, beside what the kernel declares */
  PetscInt    *firstother;             /* on the device, as all below: of each block, and the end */
  PetscInt    *rowsofothers;
  uint16_t    *columns; /* of the matrix: places in shared memory, of own rows and then of others */
} IDRSOnChip;

PETSC_INTERN PetscErrorCode IDRSOnChipSetUp_CUDA(IDRSWork, const PetscInt *, const PetscInt *, IDRSOnChip *);
PETSC_INTERN PetscErrorCode IDRSOnChipDestroy_CUDA(IDRSOnChip *);
PETSC_INTERN PetscErrorCode IDRSOnChipLaunch_CUDA(IDRSWork, const IDRSOnChip *, const IDRSWholeSteps *, cudaStream_t);
