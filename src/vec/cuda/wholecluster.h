/*
   Many steps in one kernel, with the rows of each block in shared memory: see wholecluster.cu
*/
#pragma once

#include "whole.cuh"

/* Vectors in shared memory. G, r and the diagonal of own rows, and the entries of u that the product needs, are always there */
typedef enum {
  IDRS_PANEL_GLOBAL,  /* nothing else: U, the matrix and t are in global memory */
  IDRS_MATRIX_GLOBAL, /* also U */
  IDRS_MATRIX_SHARED, /* also U, the matrix and t */
  IDRS_ROWS_SHARED    /* also z and v, and the vectors of the halo rows */
} IDRSClusteredLayout;

/* The layout of a system in the shared memory of blocks, or clusters = 0 if it does not fit */
typedef struct {
  unsigned int        clusters, size; /* number of clusters, and blocks per cluster */
  unsigned int        threads;        /* per block */
  IDRSClusteredLayout layout;
  size_t    rows, slots, others; /* per block at most: rows, slots of the matrix, and entries of u of other blocks that it needs */
  size_t    messages;            /* with one cluster: begin of messages in shared memory, as a number of messages */
  size_t    bytes;               /* of dynamic shared memory */
  PetscInt *firstother;          /* on the device, as all below: of each block, and the end */
  PetscInt *rowsofothers;
  /* for each nonzero: its slot, and in the lower half the place of its entry of u: own rows, then rows of other blocks */
  uint32_t *places;
  uint32_t *slice, *rest; /* of each block; rest = NULL: no row is so long */
} IDRSClustered;

/* The data of one solve in global memory, for all blocks: slots of the matrix, and U */
typedef struct {
  PetscScalar *a, *U;
  uint16_t    *j;
} IDRSClusteredMemory;

PETSC_INTERN PetscErrorCode IDRSClusteredSetUp_CUDA(IDRSWork, const PetscInt *, const PetscInt *, PetscInt, PetscInt,
                                                    IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredDestroy_CUDA(IDRSClustered *);
PETSC_INTERN PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWork, const IDRSClustered *, const IDRSClusteredMemory *,
                                                     const IDRSWholeSteps *, cudaStream_t);
