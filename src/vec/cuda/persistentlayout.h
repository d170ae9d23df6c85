/*
   Persistent kernel: the distribution of a system among its blocks, which persistentlayout.cu chooses
*/
#pragma once

#include "persistent.cuh"
#include "../../mat/powers/rowlanes.cuh"

/* Most threads of a block, which may have several rows each. With more threads there are too few registers per thread */
#define IDRS_CLUSTERED_THREADS 384

/* Entries of a row that a lane loads at the same time */
#define IDRS_PERSISTENT_ATONCE 8

/*
   A system in the shared memory of blocks, which form clusters; clusters = 0 if it does not fit. `plan` on the device has the other
   pointers. The entries of 32 neighbouring rows are a slice: entries with the same number are adjacent, so that lanes have no bank
   conflicts in shared memory, and coalesced loads from global memory; shorter rows are padded with zeros
*/
typedef struct {
  unsigned int clusters, size, threads; /* number of clusters, blocks per cluster, threads per block */
  bool         matrix;                  /* the matrix and t are also in shared memory */
  size_t    rows, slots, others; /* per block at most: rows, slots of the matrix, and entries of u of other blocks that it needs */
  size_t    bytes;               /* of dynamic shared memory */
  uint32_t *plan;
  uint32_t *firstother; /* of each block, and the end */
  uint32_t *slice;      /* of each block: begins of slices, and the end of the last one */
  /* for each nonzero: its slot, and in the lower half the place of its entry of u: own rows, then rows of other blocks */
  uint32_t *places;
  uint32_t *rowsofothers; /* in ascending order */
} IDRSClustered;

/* The slots of the matrix of one solve in global memory, for all blocks */
typedef struct {
  PetscScalar *a;
  uint16_t    *j;
} IDRSClusteredMemory;

/* The lanes of rows with a polynomial preconditioner, on the device, see rowlanes.cuh */
typedef struct {
  unsigned int count;  /* 0: too few lanes, or a row is too long */
  size_t       places; /* per product: entries, and sums of further warps */
  IDRSRowLane *lane;
} IDRSPersistentLanes;

/* Most products of an application of a polynomial */
#define IDRS_PERSISTENT_PRODUCTS 32

/* A polynomial preconditioner: see persistentpoly.cu. The vectors may be NULL */
typedef struct {
  IDRSCSR            A;
  const IDRSRowLane *lanes;
  unsigned int       count; /* lanes of all blocks */
  int                steps; /* products */
  const PetscScalar *inverse, *input, *output;
  const PetscInt    *row; /* entry i of P x is x_row(i) */
  PetscScalar        gamma[IDRS_PERSISTENT_PRODUCTS], theta[IDRS_PERSISTENT_PRODUCTS], mu[IDRS_PERSISTENT_PRODUCTS];
  size_t             stride;    /* places per product: for rows, and for sums of further warps */
  IDRSMarked        *places[2]; /* of all products, and of x before them */
} IDRSPersistentPolynomial;

/* The distribution of a system among the blocks of kernels: its vectors and its matrices, the operator and that of a polynomial */
typedef struct {
  PetscObjectId       id[2]; /* of the matrices of this layout; 0: no polynomial */
  PetscObjectState    pattern[2];
  PetscInt            asked, solves; /* concurrent solves: requested, and possible */
  PetscInt            longest;       /* entries of the longest row of the operator */
  bool                diagonal;
  IDRSClustered       clustered; /* without a polynomial */
  IDRSPersistentLanes lanes;     /* with a polynomial: the vectors are in global memory */
} IDRSPersistentLayout;

PETSC_INTERN PetscErrorCode IDRSPersistentLayOut_CUDA(IDRSWorkspace, PetscInt, IDRSPersistentLayout *);
PETSC_INTERN PetscErrorCode IDRSPersistentLayoutDestroy_CUDA(IDRSPersistentLayout *);

PETSC_INTERN PetscErrorCode IDRSClusteredGetClusters_CUDA(IDRSWorkspace, unsigned int, PetscInt *, size_t *);
PETSC_INTERN PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWorkspace, const IDRSClustered *, const IDRSClusteredMemory *,
                                                     const IDRSPersistentSteps *, cudaStream_t);

PETSC_INTERN PetscErrorCode IDRSPersistentGetPolynomial_CUDA(IDRSWorkspace, const IDRSPersistentLanes *,
                                                             IDRSPersistentPolynomial *);
PETSC_INTERN PetscErrorCode IDRSPersistentPolyLaunch_CUDA(IDRSWorkspace, const IDRSPersistentPolynomial *, IDRSMarked *,
                                                          const IDRSPersistentSteps *, cudaStream_t);
