/* Many steps in one kernel: what it takes and leaves, and how long it waits. See whole.cuh */
#pragma once

#include "lanes.cuh"
#include "idrscudaimpl.cuh"
#include "../../sys/kernels/project.cuh"
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/rowsum.cuh"

/* Steps of one kernel, so that it ends within some ten milliseconds */
#define IDRS_WHOLE_STEPS 2048

/* Entries of u that a lane asks for at once */
#define IDRS_WHOLE_ATONCE 8

/* The outcome of the steps, on the host */
typedef struct {
  /* of IDRSScalars, with the sums of the last step; also on its way to the device */
  PetscScalar      storage[IDRS_STORAGE(IDRS_COLUMNS_AT_ONCE)];
  PetscReal        squares[IDRS_WHOLE_STEPS]; /* r^H r, see IDRSWholeReport, which the host makes of it */
  IDRSWholeUpdated updated[IDRS_WHOLE_STEPS]; /* with r^H r, too */
  PetscInt         completed, count, updates;
  int              k, start, unreported; /* the step in which the host continues, or k = IDRS_RESIDUAL */
  int              timedout;             /* a message has not come */
} IDRSWholeResult;

typedef struct {
  IDRSPanels         panels;
  IDRSCSR            A;
  int                own; /* entries of a row that its lane takes */
  IDRSBlockMessage  *entries;
  IDRSPartials       partials; /* launch: number of the first step */
  const PetscScalar *diagonal;
  PetscScalar       *r, *z, *v, *t;
  PetscScalar       *x, *anchor; /* for updates; x = NULL: the host makes them */
  const PetscScalar *storage;
  PetscReal          pivotscale;
  IDRSStep           step;
  IDRSLimits         limits;
  IDRSWholeResult   *result;
  uint64_t          *arrived, sequence;
  unsigned int       polls; /* of a thread that waits, at most */
} IDRSWholeSteps;

/* The algebra that follows the sums of a step */
typedef enum {
  IDRS_WHOLE_ENDS, /* the host continues with them */
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
   x in a register from here on: what the compiler knows to be an argument of the kernel, or to follow from some, it fetches and
   computes again where it is used, while one warp works and all others wait
*/
static __device__ __forceinline__ unsigned int IDRSKeep(unsigned int x)
{
  asm volatile("" : "+r"(x));
  return x;
}

/* A scalar to whoever needs it, a message for each of its parts */
static __device__ __forceinline__ void IDRSPostScalar(IDRSBlockMessage *messages, PetscScalar x, uint32_t number)
{
  const PetscReal part[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) IDRSPostMessage(messages + k, part[k], number);
}

/* By a warp: (A u)_i for the row i of each thread. Unless there is a polynomial, the lanes of a warp have neighbouring rows */
template <typename Blocks>
static __device__ __forceinline__ PetscScalar IDRSWholeProduct(const IDRSWholeSteps &steps, const Blocks &blocks, size_t i)
{
  if constexpr (Blocks::poly) return blocks.Product(blocks.A, blocks.u);
  else return IDRSRowSumShared<IDRS_WHOLE_ATONCE>(blocks.A, blocks.u, (IDRSIndex)(i - threadIdx.x % IDRS_WARP), steps.own);
}
