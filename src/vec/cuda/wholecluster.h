/*
   Many steps in one kernel, whose blocks have their rows in shared memory: see wholecluster.cu
*/
#pragma once

#include "whole.cuh"

/*
   Shared memory holds always G, r and the diagonal of own rows, and entries of u, own ones and those that the product needs
*/
typedef enum {
  IDRS_PANEL_GLOBAL,  /* no more: U, the matrix and t are in global memory */
  IDRS_MATRIX_GLOBAL, /* U as well */
  IDRS_MATRIX_SHARED, /* U, the matrix and t as well */
  IDRS_ROWS_SHARED    /* these, z and v, and the vectors of the rows of others, which a block needs the u of */
} IDRSClusteredLayout;

/* The layout of a system in the shared memory of blocks, or clusters = 0 if it does not fit */
typedef struct {
  unsigned int        clusters, size; /* and blocks of a cluster */
  unsigned int        threads;        /* of a block */
  IDRSClusteredLayout layout;
  size_t    rows, slots, others; /* of a block at most: slots of the matrix, and entries of u of other blocks that it needs */
  size_t    messages;            /* where messages begin in shared memory, counted in messages, if there is one cluster */
  size_t    bytes;               /* of shared memory, beside what the kernel declares */
  PetscInt *firstother;          /* on the device, as all below: of each block, and the end */
  PetscInt *rowsofothers;
  /* of each nonzero: its slot, and in the lower half the place of its entry of u: own rows, then those of others */
  uint32_t *places;
  uint32_t *slice, *rest; /* of each block; rest = NULL: no row is so long */
} IDRSClustered;

/* The data of one solve in global memory, of all blocks: slots of the matrix, and U */
typedef struct {
  PetscScalar *a, *U;
  uint16_t    *j;
} IDRSClusteredMemory;

PETSC_INTERN PetscErrorCode IDRSClusteredSetUp_CUDA(IDRSWork, const PetscInt *, const PetscInt *, PetscInt, PetscInt,
                                                    IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredDestroy_CUDA(IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWork, const IDRSClustered *, const IDRSClusteredMemory *,
                                                     const IDRSWholeSteps *, cudaStream_t);
