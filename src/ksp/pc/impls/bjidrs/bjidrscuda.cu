/*
   Solves all systems in one launch, each with one thread block. Panels and vectors are in shared memory, or, if they do not fit, in
   global memory. If a copy of the matrix blocks also fits in shared memory and does not reduce the number of resident systems,
   products read the copy, because a warp reads rows in CSR format with many transactions
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

/* Returns the bytes of a system: panels, vectors, and a copy of its block with `width` entries per row */
static __host__ __device__ __forceinline__ size_t BJIDRSBytes(PetscInt s, PetscInt n, PetscInt width)
{
  return ((size_t)(IDRS_SYSTEM_ENTRIES(s) + width) * sizeof(PetscScalar) + (size_t)width * sizeof(unsigned short)) * (size_t)n;
}

/* The arguments of the kernel; entries: size of the panels and vectors of the largest system */
typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse, *B;
  PetscScalar       *X, *Y, *memory;
  size_t             entries;
  const PetscInt    *starts, *widths;
  size_t             bytes; /* of shared memory per system */
  PetscInt           nblocks, nsystems, rows, ldb, ldx;
  IDRSSystemLimits   limits;
  IDRSSystemResult  *results; /* in host memory */
} BJIDRSSystems;

typedef void (*BJIDRSKernelPointer)(BJIDRSSystems);

struct _n_BJIDRSDevice {
  PetscInt        *starts, *widths;
  PetscInt        *width; /* largest number of entries of a row of each block, on the host */
  PetscObjectId    id;    /* of the matrix of `width`, */
  PetscObjectState state; /* and of its pattern */

  /* the plan of launches with s shadow vectors; s = 0 before the first one */
  PetscInt            s;
  BJIDRSKernelPointer kernel;
  size_t              bytes;  /* of shared memory per system, or 0: panels are in global memory */
  PetscInt            blocks; /* thread blocks of a launch */

  PetscScalar      *y, *memory;
  size_t            ny, nmemory; /* their lengths */
  IDRSSystemResult *results;
  PetscInt          nresults;
};

/* MEMORY: panels and vectors are in global memory, a part of it for each thread block */
template <int S, bool MEMORY>
static __global__ void __launch_bounds__(BJIDRS_THREADS) BJIDRSKernel(const __grid_constant__ BJIDRSSystems systems)
{
  extern __shared__ __align__(16) unsigned char room[];
  __shared__ IDRSSystemWork                     work;
  const PetscInt                                s = S ? S : systems.limits.s;

  for (PetscInt number = blockIdx.x; number < systems.nsystems; number += gridDim.x) {
    const PetscInt block = number % systems.nblocks, column = number / systems.nblocks, first = systems.starts[block],
                   n = systems.starts[block + 1] - first;
    IDRSSystem       system;
    IDRSSystemResult result;

    __syncthreads(); /* the system before has been solved */
    system.team = BJIDRSTeam(n);
    if (threadIdx.x >= system.team) continue;
    system.A      = {first, n, systems.A.i, systems.A.j, systems.A.a, systems.inverse, 0, NULL, NULL};
    system.limits = &systems.limits;
    system.b      = systems.B + (size_t)column * systems.ldb + first;
    system.x      = systems.X + (size_t)column * systems.ldx + first;
    system.y      = systems.Y + (size_t)column * systems.rows + first;
    system.work   = &work;
    IDRSSystemSetPanels(&system, s, MEMORY ? systems.memory + blockIdx.x * systems.entries : (PetscScalar *)room);
    if (!MEMORY) { /* the compiler must know that these pointers are in shared memory */
      const PetscInt width = systems.widths[block];

      system.A.values  = (PetscScalar *)room + (size_t)IDRS_SYSTEM_ENTRIES(s) * n;
      system.A.columns = (unsigned short *)(system.A.values + (size_t)width * n);
      if (BJIDRSBytes(s, n, width) <= systems.bytes) system.A.width = width;
    }
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

/* Returns the largest dynamic shared memory of a thread block */
static PetscErrorCode BJIDRSGetSharedBytes(BJIDRSKernelPointer kernel, size_t *shared)
{
  int                device, bytes;
  cudaFuncAttributes attributes;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  PetscCallCUDA(cudaFuncGetAttributes(&attributes, (const void *)kernel));
  *shared = (size_t)bytes - attributes.sharedSizeBytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates GPU memory for at least `needed` entries, or keeps the present memory if it suffices */
static PetscErrorCode BJIDRSGrow(size_t needed, size_t *count, PetscScalar **memory)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (needed <= *count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, *memory));
  *count = 0;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, needed, memory));
  *count = needed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the largest number of entries of a row of each block */
static PetscErrorCode BJIDRSFindWidths(const PC_BJIDRS *bjidrs, PetscInt width[])
{
  const PetscInt *offsets, *columns;
  PetscInt        n;
  PetscBool       done;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)bjidrs->A)->type_name);
  for (PetscInt k = 0; k < bjidrs->nblocks; k++) {
    const PetscInt begin = bjidrs->starts[k], end = bjidrs->starts[k + 1];

    width[k] = 0;
    for (PetscInt i = begin; i < end; i++) {
      PetscInt count = 0;

      for (PetscInt l = offsets[i]; l < offsets[i + 1]; l++) count += columns[l] >= begin && columns[l] < end ? 1 : 0;
      width[k] = PetscMax(width[k], count);
    }
  }
  PetscCall(MatRestoreRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the data of the device, without GPU memory */
static PetscErrorCode BJIDRSDeviceCreate(const PC_BJIDRS *bjidrs, BJIDRSDevice *device)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < bjidrs->nblocks; i++) {
    const PetscInt n = bjidrs->starts[i + 1] - bjidrs->starts[i];

    PetscCheck(n <= BJIDRS_ROWS, PETSC_COMM_SELF, PETSC_ERR_SUP,
               "Block %" PetscInt_FMT " of PCBJIDRS has %" PetscInt_FMT
               " rows; on a GPU it may have %d. PCBJIDRSSetLocalBlocks() makes smaller ones, and a matrix of type aij is solved in "
               "the memory of the host",
               i, n, BJIDRS_ROWS);
  }
  PetscCall(PetscNew(device));
  PetscCall(PetscMalloc1(bjidrs->nblocks, &(*device)->width));
  PetscCall(BJIDRSFindWidths(bjidrs, (*device)->width));
  PetscCall(PetscObjectGetId((PetscObject)bjidrs->A, &(*device)->id));
  PetscCall(MatGetNonzeroState(bjidrs->A, &(*device)->state));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies data of all blocks to the device */
static PetscErrorCode BJIDRSUpload(PetscInt n, const PetscInt data[], PetscInt **copy)
{
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  cudaError_t        error;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceFree(dctx, *copy)); /* after an error */
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, n, copy));
  error = cudaMemcpyAsync(*copy, data, n * sizeof(PetscInt), cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) PetscCall(PetscDeviceFree(dctx, *copy)); /* an incomplete copy must not be used later */
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BJIDRSReset_CUDA(PC_BJIDRS *bjidrs)
{
  BJIDRSDevice       device = bjidrs->device;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!device) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, device->starts));
  PetscCall(PetscDeviceFree(dctx, device->widths));
  PetscCall(PetscDeviceFree(dctx, device->y));
  PetscCall(PetscDeviceFree(dctx, device->memory));
  if (device->results) PetscCallCUDA(cudaFreeHost(device->results));
  PetscCall(PetscFree(device->width));
  PetscCall(PetscFree(bjidrs->device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates the memory of an application to this number of columns, except panels */
static PetscErrorCode BJIDRSDeviceSetUp(PC_BJIDRS *bjidrs, PetscInt columns)
{
  BJIDRSDevice     device;
  PetscObjectId    id;
  PetscObjectState state;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)bjidrs->A, &id));
  PetscCall(MatGetNonzeroState(bjidrs->A, &state));
  /* the pattern, and so the numbers of entries of the rows, has changed */
  if (bjidrs->device && (bjidrs->device->id != id || bjidrs->device->state != state)) PetscCall(BJIDRSReset_CUDA(bjidrs));
  if (!bjidrs->device) PetscCall(BJIDRSDeviceCreate(bjidrs, &bjidrs->device));
  device = bjidrs->device;
  if (!device->widths) {
    PetscCall(BJIDRSUpload(bjidrs->nblocks + 1, bjidrs->starts, &device->starts));
    PetscCall(BJIDRSUpload(bjidrs->nblocks, device->width, &device->widths));
  }
  /* the kernel writes results to pinned host memory */
  if (bjidrs->nsystems > device->nresults) {
    if (device->results) PetscCallCUDA(cudaFreeHost(device->results));
    device->results  = NULL;
    device->nresults = 0;
    PetscCallCUDA(cudaMallocHost(&device->results, (size_t)bjidrs->nsystems * sizeof(IDRSSystemResult)));
    device->nresults = bjidrs->nsystems;
  }
  PetscCall(BJIDRSGrow((size_t)bjidrs->starts[bjidrs->nblocks] * columns, &device->ny, &device->y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of resident thread blocks with this size of shared memory */
static PetscErrorCode BJIDRSGetResident(BJIDRSKernelPointer kernel, int threads, size_t bytes, PetscInt *blocks)
{
  int device, multiprocessors, resident;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCallCUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, (const void *)kernel, threads, bytes));
  *blocks = (PetscInt)resident * multiprocessors;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Chooses the memory of the panels of a system, and whether it has a copy of its block */
static PetscErrorCode BJIDRSPlan(const PC_BJIDRS *bjidrs, PetscInt s)
{
  BJIDRSDevice device  = bjidrs->device;
  const int    threads = BJIDRSTeam(bjidrs->largest);
  const size_t panels  = BJIDRSBytes(s, bjidrs->largest, 0);
  size_t       shared, copies = 0;

  PetscFunctionBegin;
  /* the plan depends on s and on the blocks of this device data */
  if (device->s == s) PetscFunctionReturn(PETSC_SUCCESS);
  device->kernel = BJIDRSGetKernel<false>(s);
  device->bytes  = panels;
  device->blocks = INT_MAX;
  PetscCall(BJIDRSGetSharedBytes(device->kernel, &shared));
  for (PetscInt k = 0; k < bjidrs->nblocks; k++)
    copies = PetscMax(copies, BJIDRSBytes(s, bjidrs->starts[k + 1] - bjidrs->starts[k], device->width[k]));
  /* panels in global memory: only as many thread blocks as are resident */
  if (panels > shared) {
    device->kernel = BJIDRSGetKernel<true>(s);
    device->bytes  = 0;
    PetscCall(BJIDRSGetResident(device->kernel, threads, 0, &device->blocks));
  } else {
    PetscInt without, with = 0;

    PetscCallCUDA(cudaFuncSetAttribute((const void *)device->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    PetscCall(BJIDRSGetResident(device->kernel, threads, panels, &without));
    /* make copies if they do not reduce the number of resident systems */
    if (copies <= shared) PetscCall(BJIDRSGetResident(device->kernel, threads, copies, &with));
    if (with >= without) device->bytes = copies;
  }
  device->s = s;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches the kernel. If panels do not fit in shared memory, there are only as many thread blocks as are resident, and each solves
   several systems
*/
static PetscErrorCode BJIDRSLaunch(PC_BJIDRS *bjidrs, BJIDRSSystems *systems, cudaStream_t stream)
{
  BJIDRSDevice device = bjidrs->device;
  PetscInt     blocks;

  PetscFunctionBegin;
  PetscCall(BJIDRSPlan(bjidrs, systems->limits.s));
  blocks           = PetscMin(systems->nsystems, device->blocks);
  systems->entries = (size_t)IDRS_SYSTEM_ENTRIES(systems->limits.s) * bjidrs->largest;
  systems->bytes   = device->bytes;
  if (!device->bytes) PetscCall(BJIDRSGrow((size_t)blocks * systems->entries, &device->nmemory, &device->memory));
  systems->memory = device->memory;
  device->kernel<<<(unsigned int)blocks, (unsigned int)BJIDRSTeam(bjidrs->largest), device->bytes, stream>>>(*systems);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Fills in the results of all systems */
static PetscErrorCode BJIDRSSetResults(PC pc, const IDRSSystemLimits *limits)
{
  PC_BJIDRS     *bjidrs   = (PC_BJIDRS *)pc->data;
  PetscLogDouble nonzeros = 0, flops = 0.0;
  PetscInt       rows = bjidrs->starts[bjidrs->nblocks];

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(bjidrs->A, &nonzeros));
  for (PetscInt i = 0; i < bjidrs->nsystems; i++) {
    const IDRSSystemResult *result = bjidrs->device->results + i;
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

/* Solves all systems, with arrays in GPU memory. The host waits, because it must report failed systems */
static PetscErrorCode BJIDRSSolve_CUDA(PC pc, const IDRSSystemLimits *limits, const IDRSArrays *arrays)
{
  PC_BJIDRS         *bjidrs  = (PC_BJIDRS *)pc->data;
  BJIDRSSystems      systems = {};
  const PetscScalar *inverse = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(BJIDRSDeviceSetUp(bjidrs, arrays->columns));
  if (!bjidrs->nsystems) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetCSR(bjidrs->A, &systems.A));
  if (bjidrs->inverse) PetscCall(VecCUDAGetArrayRead(bjidrs->inverse, &inverse));
  systems.inverse  = inverse;
  systems.B        = arrays->b;
  systems.X        = arrays->x;
  systems.Y        = bjidrs->device->y;
  systems.starts   = bjidrs->device->starts;
  systems.widths   = bjidrs->device->widths;
  systems.nblocks  = bjidrs->nblocks;
  systems.nsystems = bjidrs->nsystems;
  systems.rows     = bjidrs->starts[bjidrs->nblocks];
  systems.ldb      = arrays->ldb;
  systems.ldx      = arrays->ldx;
  systems.limits   = *limits;
  systems.results  = bjidrs->device->results;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(BJIDRSLaunch(bjidrs, &systems, stream));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCallCUDA(cudaStreamSynchronize(stream));
  if (bjidrs->inverse) PetscCall(VecCUDARestoreArrayRead(bjidrs->inverse, &inverse));
  PetscCall(BJIDRSSetResults(pc, limits));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const BJIDRSOps BJIDRSBackEnds_CUDA = {
  PetscDesignatedInitializer(name, "on the GPU"),
  PetscDesignatedInitializer(solve, BJIDRSSolve_CUDA),
  PetscDesignatedInitializer(reset, BJIDRSReset_CUDA),
};
// clang-format on
