/*
   Solves all systems in one launch, each with one thread block. Bases and vectors are in shared memory, or, if they do not fit, in
   global memory
*/
#include "bjidrsimpl.h"
#include "../../../../sys/kernels/csr.h"
#include "../../../../sys/device/device.h"
#include "../../../../sys/device/target.cuh"
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrsloops.h>

/* Largest number of threads of a thread block */
#define BJIDRS_THREADS 512
#define BJIDRS_WARPS   (BJIDRS_THREADS / IDRS_WARP)

/* Largest number of rows of a system */
#define BJIDRS_ROWS 16000

/*
   The team of a system: the first threads of a thread block, in whole warps. Their number depends only on the rows of the system,
   so sums have the same order, and the solution has the same bits, in all batches
*/
#define IDRS_TEAM_FUNCTION static __device__ __forceinline__
#define IDRS_TEAM_ROWS     1
#define IDRS_TEAM_ENTRIES  8
typedef IDRSMatIndex IDRSTeamIndex;
typedef int          IDRSTeam; /* number of threads */

/*
   Returns the number of threads: one row per thread in small systems, two rows in larger ones, so that more systems are resident
   and hide latency
*/
static __host__ __device__ __forceinline__ IDRSTeam BJIDRSTeam(PetscInt n)
{
  const PetscInt threads = n <= 128 ? n : PetscMax(n / 2, 128);

  return threads < BJIDRS_THREADS ? (IDRSTeam)(threads + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP : BJIDRS_THREADS;
}

IDRS_TEAM_FUNCTION int IDRSTeamMember(IDRSTeam)
{
  return (int)threadIdx.x;
}

IDRS_TEAM_FUNCTION int IDRSTeamMembers(IDRSTeam team)
{
  return team;
}

/* A barrier of the first `team` threads; the others wait at barrier 0 for the next system */
IDRS_TEAM_FUNCTION void IDRSTeamSync(IDRSTeam team)
{
  asm volatile("bar.sync 1, %0;" ::"r"(team) : "memory");
}

/* Stores the sums of a warp in `partials`, in the order of the warps; one instance for each number of sums */
template <int first, int... others>
IDRS_TEAM_FUNCTION void BJIDRSWarpSums(PetscScalar part[], PetscInt count, PetscScalar partials[])
{
  if (count == first)
    IDRSWarpSums<first>(part, [&](int i, const PetscScalar &sum) { partials[threadIdx.x / IDRS_WARP * first + i] = sum; });
  else if constexpr (sizeof...(others) > 0) BJIDRSWarpSums<others...>(part, count, partials);
  else {
    for (PetscInt i = 0; i < count; i++) {
      const PetscScalar sum = IDRSWarpSum<IDRS_WARP>(part[i]);

      if (threadIdx.x % IDRS_WARP == 0) partials[threadIdx.x / IDRS_WARP * count + i] = sum;
    }
  }
}

/* Adds up in the order of lanes and warps. The first warp computes the sums, and uses them without a barrier of the team */
IDRS_TEAM_FUNCTION void IDRSTeamSum(IDRSTeam team, PetscScalar part[], PetscInt count, PetscScalar sums[])
{
  __shared__ PetscScalar partials[BJIDRS_WARPS * IDRS_SUMS(IDRS_SYSTEM_MAX_S, 1)];

  BJIDRSWarpSums<1, IDRS_SUMS(1, 0), IDRS_SUMS(1, 1), IDRS_SUMS(2, 0), IDRS_SUMS(2, 1), IDRS_SUMS(4, 0), IDRS_SUMS(4, 1),
                 IDRS_SUMS(8, 0), IDRS_SUMS(8, 1)>(part, count, partials);
  IDRSTeamSync(team);
  for (PetscInt i = threadIdx.x; threadIdx.x < IDRS_WARP && i < count; i += IDRS_WARP) {
    PetscScalar sum = 0.0;

    for (int j = 0; j < team / IDRS_WARP; j++) sum += partials[j * count + i];
    sums[i] = sum;
  }
}

#include <petscidrs/private/idrssystem.h>

/* The arguments of the kernel; entries: size of the bases and vectors of the largest system */
typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse, *B;
  PetscScalar       *X, *Y, *memory;
  size_t             entries;
  const PetscInt    *starts;
  PetscInt           nblocks, nsystems, rows, ldb, ldx;
  IDRSSystemLimits   limits;
  IDRSSystemResult  *results; /* in host memory */
} BJIDRSSystems;

typedef void (*BJIDRSKernelPointer)(BJIDRSSystems);

struct _n_BJIDRSDevice {
  PetscInt *starts;

  /* the plan of launches with s shadow vectors; s = 0 before the first one */
  PetscInt            s;
  BJIDRSKernelPointer kernel;
  size_t              bytes;  /* of shared memory per system, or 0: bases are in global memory */
  PetscInt            blocks; /* thread blocks of a launch */

  PetscScalar      *y, *memory;
  size_t            ny, nmemory; /* their lengths */
  IDRSSystemResult *results;
  PetscInt          nresults;
};

/* MEMORY: bases and vectors are in global memory, a part of it for each thread block */
template <int S, bool MEMORY>
static __global__ void __launch_bounds__(BJIDRS_THREADS) BJIDRSKernel(const __grid_constant__ BJIDRSSystems systems)
{
  extern __shared__ __align__(16) unsigned char room[];
  __shared__ IDRSSystemWorkspace                work;
  const PetscInt                                s = S ? S : systems.limits.s;

  for (PetscInt number = blockIdx.x; number < systems.nsystems; number += gridDim.x) {
    const PetscInt block = number % systems.nblocks, column = number / systems.nblocks, first = systems.starts[block],
                   n = systems.starts[block + 1] - first;
    IDRSSystem       system;
    IDRSSystemResult result;

    __syncthreads(); /* the system before has been solved */
    system.team = BJIDRSTeam(n);
    if (threadIdx.x >= system.team) continue;
    system.A      = {first, n, systems.A.i, systems.A.j, systems.A.a, systems.inverse};
    system.limits = &systems.limits;
    system.b      = systems.B + (size_t)column * systems.ldb + first;
    system.x      = systems.X + (size_t)column * systems.ldx + first;
    system.y      = systems.Y + (size_t)column * systems.rows + first;
    system.work   = &work;
    IDRSSystemSetBases(&system, s, MEMORY ? systems.memory + blockIdx.x * systems.entries : (PetscScalar *)room);
    IDRSSystemSolve(&system, s, &result);
    if (threadIdx.x == 0) systems.results[number] = result;
  }
}

template <bool MEMORY>
static BJIDRSKernelPointer BJIDRSGetKernel(PetscInt s)
{
  if (s == 1) return BJIDRSKernel<1, MEMORY>;
  if (s == 2) return BJIDRSKernel<2, MEMORY>;
  if (s == 4) return BJIDRSKernel<4, MEMORY>;
  if (s == 8) return BJIDRSKernel<8, MEMORY>;
  return BJIDRSKernel<0, MEMORY>;
}

static PetscErrorCode BJIDRSReset_CUDA(PC_BJIDRS *bjidrs)
{
  BJIDRSDevice       device = bjidrs->device;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!device) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, device->starts));
  PetscCall(PetscDeviceFree(dctx, device->y));
  PetscCall(PetscDeviceFree(dctx, device->memory));
  if (device->results) PetscCallCUDA(cudaFreeHost(device->results));
  PetscCall(PetscFree(bjidrs->device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates the memory of an application to this number of columns, except bases */
static PetscErrorCode BJIDRSDeviceSetUp(PC_BJIDRS *bjidrs, PetscInt columns, cudaStream_t stream)
{
  const PetscInt     count = bjidrs->nblocks + 1;
  BJIDRSDevice       device;
  PetscDeviceContext dctx;
  PetscInt          *starts;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < bjidrs->nblocks; i++) {
    const PetscInt n = bjidrs->starts[i + 1] - bjidrs->starts[i];

    PetscCheck(
      n <= BJIDRS_ROWS, PETSC_COMM_SELF, PETSC_ERR_SUP,
      "Block %" PetscInt_FMT " of PCBJIDRS has %" PetscInt_FMT
      " rows; on a GPU it may have %d. MatSetVariableBlockSizes() sets smaller ones, and a matrix of type aij is solved in "
      "the memory of the host",
      i, n, BJIDRS_ROWS);
  }
  if (!bjidrs->device) PetscCall(PetscNew(&bjidrs->device));
  device = bjidrs->device;
  if (!device->starts) {
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count, &starts));
    PetscCallCUDA(cudaMemcpyAsync(starts, bjidrs->starts, count * sizeof(PetscInt), cudaMemcpyHostToDevice, stream));
    device->starts = starts; /* only once it is complete */
  }
  /* the kernel writes results to pinned host memory */
  if (bjidrs->nsystems > device->nresults) {
    if (device->results) PetscCallCUDA(cudaFreeHost(device->results));
    device->results  = NULL;
    device->nresults = 0;
    PetscCallCUDA(cudaMallocHost(&device->results, (size_t)bjidrs->nsystems * sizeof(IDRSSystemResult)));
    device->nresults = bjidrs->nsystems;
  }
  PetscCall(IDRSGrow_CUDA((size_t)bjidrs->starts[bjidrs->nblocks] * columns, &device->ny, &device->y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Plans launches with s shadow vectors. If bases do not fit in shared memory, there are only as many thread blocks as are
   resident, and each solves several systems
*/
static PetscErrorCode BJIDRSPlan(const PC_BJIDRS *bjidrs, PetscInt s)
{
  BJIDRSDevice       device = bjidrs->device;
  int                gpu, bytes, multiprocessors, resident;
  size_t             shared;
  cudaFuncAttributes attributes;

  PetscFunctionBegin;
  /* the plan depends on s and on the blocks of this device data */
  if (device->s == s) PetscFunctionReturn(PETSC_SUCCESS);
  device->kernel = BJIDRSGetKernel<false>(s);
  device->bytes  = (size_t)IDRS_SYSTEM_ENTRIES(s) * bjidrs->largest * sizeof(PetscScalar);
  device->blocks = INT_MAX;
  PetscCallCUDA(cudaGetDevice(&gpu));
  PetscCallCUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu));
  PetscCallCUDA(cudaFuncGetAttributes(&attributes, (const void *)device->kernel));
  shared = (size_t)bytes - attributes.sharedSizeBytes;
  if (device->bytes <= shared)
    PetscCallCUDA(cudaFuncSetAttribute((const void *)device->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  else {
    device->kernel = BJIDRSGetKernel<true>(s);
    device->bytes  = 0;
    PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu));
    PetscCallCUDA(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, (const void *)device->kernel, BJIDRSTeam(bjidrs->largest), 0));
    device->blocks = (PetscInt)resident * multiprocessors;
  }
  device->s = s;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves all systems, with arrays in GPU memory. The host waits, because it must report failed systems */
static PetscErrorCode BJIDRSSolve_CUDA(PC pc, const IDRSSystemLimits *limits, const IDRSArrays *arrays)
{
  PC_BJIDRS         *bjidrs = (PC_BJIDRS *)pc->data;
  const PetscInt     rows   = bjidrs->starts[bjidrs->nblocks];
  BJIDRSDevice       device;
  BJIDRSSystems      systems  = {};
  const PetscScalar *inverse  = NULL;
  PetscLogDouble     nonzeros = 0, flops = 0.0;
  PetscInt           blocks;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(BJIDRSDeviceSetUp(bjidrs, arrays->columns, stream));
  if (!bjidrs->nsystems) PetscFunctionReturn(PETSC_SUCCESS);
  device = bjidrs->device;
  PetscCall(BJIDRSPlan(bjidrs, limits->s));
  blocks          = PetscMin(bjidrs->nsystems, device->blocks);
  systems.entries = (size_t)IDRS_SYSTEM_ENTRIES(limits->s) * bjidrs->largest;
  if (!device->bytes) PetscCall(IDRSGrow_CUDA((size_t)blocks * systems.entries, &device->nmemory, &device->memory));
  PetscCall(IDRSGetCSR(bjidrs->A, &systems.A));
  if (bjidrs->inverse) PetscCall(VecCUDAGetArrayRead(bjidrs->inverse, &inverse));
  systems.inverse  = inverse;
  systems.B        = arrays->b;
  systems.X        = arrays->x;
  systems.Y        = device->y;
  systems.memory   = device->memory;
  systems.starts   = device->starts;
  systems.nblocks  = bjidrs->nblocks;
  systems.nsystems = bjidrs->nsystems;
  systems.rows     = rows;
  systems.ldb      = arrays->ldb;
  systems.ldx      = arrays->ldx;
  systems.limits   = *limits;
  systems.results  = device->results;
  PetscCall(PetscLogGpuTimeBegin());
  device->kernel<<<(unsigned int)blocks, (unsigned int)BJIDRSTeam(bjidrs->largest), device->bytes, stream>>>(systems);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCallCUDA(cudaStreamSynchronize(stream));
  if (bjidrs->inverse) PetscCall(VecCUDARestoreArrayRead(bjidrs->inverse, &inverse));
  PetscCall(IDRSGetNonzeros(bjidrs->A, &nonzeros));
  for (PetscInt i = 0; i < bjidrs->nsystems; i++) {
    const IDRSSystemResult *result = device->results + i;
    const PetscInt          block = i % bjidrs->nblocks, n = bjidrs->starts[block + 1] - bjidrs->starts[block];

    bjidrs->reasons[i] = result->reason;
    bjidrs->its[i]     = result->its;
    bjidrs->norms[i]   = result->norm;
    /* as on the host, with the mean number of entries of a row */
    flops += (PetscLogDouble)result->products * (PetscLogDouble)n *
             (2.0 * nonzeros / (PetscLogDouble)rows + 6.0 * (PetscLogDouble)(limits->s + 1));
  }
  PetscCall(PetscLogGpuFlops(flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const BJIDRSOps BJIDRSBackEnds_CUDA = {
  PetscDesignatedInitializer(name, "on the GPU"),
  PetscDesignatedInitializer(solve, BJIDRSSolve_CUDA),
  PetscDesignatedInitializer(reset, BJIDRSReset_CUDA),
};
// clang-format on
