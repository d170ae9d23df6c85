/*
   Many steps in one kernel, whose blocks have their rows in shared memory: see wholecluster.cu
*/
#pragma once

#include "whole.cuh"

/* How a system lies in the shared memory of blocks, or clusters = 0 where it does not fit */
typedef struct {
  unsigned int clusters, size;      /* and blocks of a cluster */
  unsigned int threads;             /* of a block */
  bool         matrix;              /* is in shared memory, too */
  bool         halo;                /* and rows of others, which a block needs the u of */
  size_t       rows, slots, others; /* of a block at most: slots of the matrix, and entries of u of other blocks that it needs */
  size_t       messages;            /* where messages begin in shared memory, counted in messages, if there is one cluster */
  size_t       bytes;               /* of shared memory, beside what the kernel declares */
  PetscInt    *firstother;          /* on the device, as all below: of each block, and the end */
  PetscInt    *rowsofothers;
  /* of each nonzero: its slot, and in the lower half the place of its entry of u: own rows, then those of others */
  uint32_t    *places;
  uint32_t    *slice, *rest; /* of each block; rest = NULL: no row is so long */
  PetscScalar *a;            /* slots of all blocks, unless the matrix is in shared memory */
  uint16_t    *j;
} IDRSClustered;

PETSC_INTERN PetscErrorCode IDRSClusteredSetUp_CUDA(IDRSWork, const PetscInt *, const PetscInt *, PetscInt, IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredDestroy_CUDA(IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWork, const IDRSClustered *, const IDRSWholeSteps *, cudaStream_t);
