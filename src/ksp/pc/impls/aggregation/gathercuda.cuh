/* The exchange of the right-hand side of level 0 between processes, see gathercuda.cu */
#pragma once

#include "../../../../mat/cuda/halo.cuh"
#include "aggregation.h"

struct _n_AggregationGather {
  IDRSHalo halo;
  PetscInt first, n; /* rows of this process */
};

/* One exchange: this process has rows first to first + n - 1 of b and x, and the others send theirs */
typedef struct {
  IDRSSends  sends;
  IDRSGhosts others;
  int        first, n;
} CycleExchange;

PETSC_INTERN PetscErrorCode AggregationGatherCreate_CUDA(Vec, AggregationGather *, const char *[]);
PETSC_INTERN PetscErrorCode AggregationGatherNext_CUDA(AggregationGather, PetscInt, CycleExchange *);
PETSC_INTERN PetscBool      AggregationGatherIsValid_CUDA(AggregationGather);
PETSC_INTERN PetscErrorCode AggregationGatherDestroy_CUDA(AggregationGather *);
