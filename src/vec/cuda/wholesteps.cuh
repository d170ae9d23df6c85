/* Many steps in one kernel: its arguments, results and limits. See whole.cuh */
#pragma once

#include "lanes.cuh"
#include "idrscudaimpl.cuh"
#include "../../sys/kernels/project.cuh"
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/rowsum.cuh"

/* Most steps of one kernel, so that it ends within some ten milliseconds */
#define IDRS_WHOLE_STEPS 2048

/* Entries of u that a lane loads at the same time */
#define IDRS_WHOLE_ATONCE 8

/* The outcome of the steps, on the host */
typedef struct {
  /* of IDRSScalars, with the sums of the last step; also the copy for the device */
  PetscScalar      storage[IDRS_STORAGE(IDRS_COLUMNS_AT_ONCE)];
  PetscReal        squares[IDRS_WHOLE_STEPS]; /* r^H r; the host computes the norms of IDRSWholeReport */
  IDRSWholeUpdated updated[IDRS_WHOLE_STEPS]; /* also with r^H r */
  PetscInt         completed, count, updates;
  int              k, start, unreported; /* the step in which the host continues, or k = IDRS_RESIDUAL */
  int              timedout;             /* a wait has timed out */
} IDRSWholeResult;

typedef struct {
  IDRSPanels         panels;
  IDRSCSR            A;
  int                own; /* entries of a row that its own lane adds */
  IDRSBlockMessage  *entries;
  IDRSPartials       partials; /* launch: number of the first step */
  const PetscScalar *diagonal;
  PetscScalar       *r, *z, *v, *t;
  PetscScalar       *x, *anchor; /* for updates; x = NULL: the host makes updates */
  const PetscScalar *storage;
  PetscReal          pivotscale;
  IDRSStep           step;
  IDRSLimits         limits;
  IDRSWholeResult   *result;
  uint64_t          *arrived, sequence;
  unsigned int       polls; /* most polls of a thread that waits */
} IDRSWholeSteps;

/* The continuation after the sums of a step */
typedef enum {
  IDRS_WHOLE_ENDS, /* the host continues with these sums */
  IDRS_WHOLE_STEP,
  IDRS_WHOLE_UPDATE /* an omega step, and a reliable update after it */
} IDRSWholeNext;

/* Data that the threads of a block share */
template <int S>
struct IDRSWholeShared {
  PetscScalar              storage[IDRS_STORAGE(S)];
  IDRSLanesCoefficients<S> c;
  IDRSInverses<S>          inverses;
  IDRSLimits               limits;   /* for r^H r */
  PetscReal                promised; /* r^H r after the omega step before an update */
  IDRSWholeNext            next;
  bool                     goeson; /* after an update */
};

/*
   Keeps x in a register from here on. If the compiler knows that a value is an argument of the kernel, or follows from one, it
   loads and computes it again at each use, which is slow if one warp works while all others wait
*/
static __device__ __forceinline__ unsigned int IDRSKeep(unsigned int x)
{
  asm volatile("" : "+r"(x));
  return x;
}

/* Posts a scalar, with one message for each of its parts */
static __device__ __forceinline__ void IDRSPostScalar(IDRSBlockMessage *messages, PetscScalar x, uint32_t number)
{
  const PetscReal part[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) IDRSPostMessage(messages + k, part[k], number);
}

/* Returns (A u)_i for the row i of each thread. One warp. Without a polynomial the lanes of a warp have neighbouring rows */
template <typename Blocks>
static __device__ __forceinline__ PetscScalar IDRSWholeProduct(const IDRSWholeSteps &steps, const Blocks &blocks, size_t i)
{
  if constexpr (Blocks::poly) return blocks.Product(blocks.A, blocks.u);
  else return IDRSRowSumShared<IDRS_WHOLE_ATONCE>(blocks.A, blocks.u, (IDRSIndex)(i - threadIdx.x % IDRS_WARP), steps.own);
}
