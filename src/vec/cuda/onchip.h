/*
   Many steps in one kernel, whose blocks have their rows on chip: see onchip.cu
*/
#pragma once

#include "whole.cuh"

/* How a system lies in the shared memory of blocks, or clusters = 0 where it does not fit */
typedef struct {
  unsigned int clusters, size; /* and blocks of a cluster */
  unsigned int threads;        /* of a block */
  size_t       rows, nonzeros; /* of a block at most; nonzeros = 0: the matrix stays in global memory */
  size_t       bytes;          /* of shared memory, beside what the kernel declares */
} IDRSOnChip;

PETSC_INTERN PetscErrorCode IDRSOnChipSetUp_CUDA(IDRSWork, const PetscInt *, IDRSOnChip *);
PETSC_INTERN PetscErrorCode IDRSOnChipLaunch_CUDA(IDRSWork, const IDRSOnChip *, const IDRSWholeSteps *, cudaStream_t);
