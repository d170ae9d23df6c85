/*
   A GPU as the device of streamed matrices: copies on a separate stream, computations on PETSc's stream, and events between them
*/
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
#include "../../../sys/device/device.h"
#include "streamlevel.cuh"
#include <unistd.h>

/* The whole pages inside a range of host memory, because pages at its ends may contain other data */
typedef struct {
  const char *memory, *begin, *end;
} IDRSStreamPinned;

#define MAX_PINNED 2 /* values, packed columns */

typedef struct {
  PetscBool        pageable; /* nothing is pinned */
  cudaStream_t     copies;
  cudaEvent_t      arrived; /* of the last chunk */
  PetscInt         nslots;
  cudaEvent_t     *released; /* of each slot */
  IDRSStreamPinned pinned[MAX_PINNED];
} IDRSStreamGPU;

/* IDRSStreamGPUCreate - Creates a device; with pageable no memory of the host is registered */
PetscErrorCode IDRSStreamGPUCreate(PetscBool pageable, void **newdevice)
{
  IDRSStreamGPU *device;

  PetscFunctionBegin;
  PetscCall(PetscNew(&device));
  device->pageable = pageable;
  *newdevice       = device;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceDestroy_CUDA(void *ctx)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;

  PetscFunctionBegin;
  for (PetscInt slot = 0; slot < device->nslots; slot++) PetscCallCUDA(cudaEventDestroy(device->released[slot]));
  PetscCall(PetscFree(device->released));
  if (device->arrived) PetscCallCUDA(cudaEventDestroy(device->arrived));
  if (device->copies) PetscCallCUDA(cudaStreamDestroy(device->copies));
  PetscCall(PetscFree(device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceAvailable_CUDA(void *ctx, MPI_Comm comm, size_t *bytes)
{
  PetscLogDouble available;

  PetscFunctionBegin;
  (void)ctx;
  PetscCall(IDRSDeviceAvailable(comm, &available));
  *bytes = (size_t)available;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceMalloc_CUDA(void *ctx, size_t bytes, void **memory)
{
  const cudaError_t error = cudaMalloc(memory, PetscMax(bytes, 1));

  PetscFunctionBegin;
  (void)ctx;
  if (error == cudaErrorMemoryAllocation) (void)cudaGetLastError();
  PetscCheck(error != cudaErrorMemoryAllocation, PETSC_COMM_SELF, PETSC_ERR_MEM,
             "A streamed matrix needs %g bytes, which are not free on the GPU; reduce -mat_stream_memory", (double)bytes);
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* cudaFree() waits for all of the device */
static PetscErrorCode IDRSStreamDeviceFree_CUDA(void *ctx, void *memory)
{
  PetscFunctionBegin;
  (void)ctx;
  PetscCallCUDA(cudaFree(memory));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory that was registered elsewhere stays as it is */
static PetscErrorCode IDRSStreamDevicePin_CUDA(void *ctx, const void *memory, size_t bytes)
{
  IDRSStreamGPU   *device = (IDRSStreamGPU *)ctx;
  const size_t     page   = (size_t)sysconf(_SC_PAGESIZE);
  IDRSStreamPinned pinned = {(const char *)memory, (const char *)(((size_t)memory + page - 1) / page * page),
                             (const char *)(((size_t)memory + bytes) / page * page)};
  cudaError_t      error;

  PetscFunctionBegin;
  if (device->pageable || pinned.end <= pinned.begin) PetscFunctionReturn(PETSC_SUCCESS);
  error = cudaHostRegister((void *)pinned.begin, (size_t)(pinned.end - pinned.begin), cudaHostRegisterDefault);
  if (error == cudaErrorHostMemoryAlreadyRegistered) {
    (void)cudaGetLastError();
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (error != cudaSuccess) (void)cudaGetLastError();
  PetscCheck(error == cudaSuccess, PETSC_COMM_SELF, PETSC_ERR_SYS,
             "%g bytes of the host's memory cannot be registered (%s): raise the limit of locked memory (ulimit -l), or use "
             "-mat_stream_pageable, which is several times slower",
             (double)(pinned.end - pinned.begin), cudaGetErrorString(error));
  for (int i = 0; i < MAX_PINNED; i++) {
    if (device->pinned[i].memory) continue;
    device->pinned[i] = pinned;
    break;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceUnpin_CUDA(void *ctx, const void *memory)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;

  PetscFunctionBegin;
  for (int i = 0; i < MAX_PINNED; i++) {
    IDRSStreamPinned pinned = device->pinned[i];

    if (!pinned.memory || pinned.memory != (const char *)memory) continue;
    device->pinned[i].memory = NULL;
    PetscCallCUDA(cudaHostUnregister((void *)pinned.begin));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceReuse_CUDA(void *ctx, PetscInt slot)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;

  PetscFunctionBegin;
  if (!device->copies) PetscCallCUDA(cudaStreamCreateWithFlags(&device->copies, cudaStreamNonBlocking));
  if (!device->arrived) PetscCallCUDA(cudaEventCreateWithFlags(&device->arrived, cudaEventDisableTiming));
  /* returns at once if the event was never recorded */
  if (slot < device->nslots) PetscCallCUDA(cudaStreamWaitEvent(device->copies, device->released[slot], 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A copy must not cross the border between registered memory and other */
static PetscErrorCode IDRSStreamDeviceCopy_CUDA(void *ctx, void *to, const void *from, size_t bytes)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;
  const char    *begin = (const char *)from, *end = begin + bytes;
  char          *place = (char *)to;

  PetscFunctionBegin;
  while (begin < end) {
    const char *stop = end;

    for (int i = 0; i < MAX_PINNED; i++) {
      const IDRSStreamPinned *pinned = &device->pinned[i];

      if (!pinned->memory) continue;
      if (begin < pinned->begin && stop > pinned->begin) stop = pinned->begin;
      else if (begin >= pinned->begin && begin < pinned->end && stop > pinned->end) stop = pinned->end;
    }
    PetscCallCUDA(cudaMemcpyAsync(place, begin, (size_t)(stop - begin), cudaMemcpyHostToDevice, device->copies));
    place += stop - begin;
    begin = stop;
  }
  PetscCall(PetscLogCpuToGpu((PetscLogDouble)bytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceArrived_CUDA(void *ctx, PetscInt slot)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;
  cudaStream_t   stream;

  PetscFunctionBegin;
  (void)slot;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaEventRecord(device->arrived, device->copies));
  PetscCallCUDA(cudaStreamWaitEvent(stream, device->arrived, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <typename Code>
static PetscErrorCode IDRSStreamLaunchLevel(const IDRSStreamTask *task, cudaStream_t stream)
{
  const IDRSStreamChunk     *chunk = task->chunk;
  const IDRSStreamRows<Code> A(*chunk, task->memory);
  const uint32_t             tile   = IDRSStreamTile<Code>(*chunk);
  const size_t               bytes  = tile * (sizeof(PetscScalar) + sizeof(Code));
  const unsigned int         blocks = (unsigned int)((chunk->rows + IDRS_STREAM_THREADS - 1) / IDRS_STREAM_THREADS);

  PetscFunctionBegin;
  /* more shared memory than 48 KiB needs a permission, on each device */
  if (bytes > 49152)
    PetscCallCUDA(cudaFuncSetAttribute(IDRSStreamKernel<Code>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
  IDRSStreamKernel<Code><<<blocks, IDRS_STREAM_THREADS, bytes, stream>>>(A, *task, tile);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceCompute_CUDA(void *ctx, const IDRSStreamTask *task)
{
  const IDRSStreamChunk *chunk = task->chunk;
  cudaStream_t           stream;

  PetscFunctionBegin;
  (void)ctx;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscLogGpuTimeBegin());
  if (chunk->width == 1) PetscCall(IDRSStreamLaunchLevel<uint8_t>(task, stream));
  else if (chunk->width == 2) PetscCall(IDRSStreamLaunchLevel<uint16_t>(task, stream));
  else PetscCall(IDRSStreamLaunchLevel<uint32_t>(task, stream));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(
    2.0 * (PetscLogDouble)chunk->entries +
    (PetscLogDouble)chunk->rows *
      (task->product ? 0.0 : 2.0 + (task->inverse ? 1.0 : 0.0) + (task->before.array ? 2.0 : 0.0) + (task->y ? 2.0 : 0.0))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceRelease_CUDA(void *ctx, PetscInt slot)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;
  cudaStream_t   stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (slot >= device->nslots) {
    PetscCall(PetscRealloc((size_t)(slot + 1) * sizeof(*device->released), &device->released));
    for (; device->nslots <= slot; device->nslots++)
      PetscCallCUDA(cudaEventCreateWithFlags(&device->released[device->nslots], cudaEventDisableTiming));
  }
  PetscCallCUDA(cudaEventRecord(device->released[slot], stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamDeviceFinish_CUDA(void *ctx)
{
  IDRSStreamGPU *device = (IDRSStreamGPU *)ctx;

  PetscFunctionBegin;
  if (device->copies) PetscCallCUDA(cudaStreamSynchronize(device->copies));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSStreamDeviceOps IDRSStreamDevice_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(memtype, PETSC_MEMTYPE_CUDA),
  PetscDesignatedInitializer(available, IDRSStreamDeviceAvailable_CUDA),
  PetscDesignatedInitializer(malloc, IDRSStreamDeviceMalloc_CUDA),
  PetscDesignatedInitializer(free, IDRSStreamDeviceFree_CUDA),
  PetscDesignatedInitializer(pin, IDRSStreamDevicePin_CUDA),
  PetscDesignatedInitializer(unpin, IDRSStreamDeviceUnpin_CUDA),
  PetscDesignatedInitializer(reuse, IDRSStreamDeviceReuse_CUDA),
  PetscDesignatedInitializer(copy, IDRSStreamDeviceCopy_CUDA),
  PetscDesignatedInitializer(arrived, IDRSStreamDeviceArrived_CUDA),
  PetscDesignatedInitializer(compute, IDRSStreamDeviceCompute_CUDA),
  PetscDesignatedInitializer(release, IDRSStreamDeviceRelease_CUDA),
  PetscDesignatedInitializer(finish, IDRSStreamDeviceFinish_CUDA),
  PetscDesignatedInitializer(destroy, IDRSStreamDeviceDestroy_CUDA),
};
// clang-format on
