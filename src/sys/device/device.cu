#include "device.h"
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>

/* IDRSDeviceExists - Returns if all processes have a GPU. Collective */
PetscErrorCode IDRSDeviceExists(MPI_Comm comm, PetscBool *exists)
{
  int      count = 0;
  PetscInt missing;

  PetscFunctionBegin;
  missing = cudaGetDeviceCount(&count) != cudaSuccess || !count ? 1 : 0;
  if (missing) (void)cudaGetLastError();
  IDRSCallAllreduce(MPI_IN_PLACE, &missing, 1, MPIU_INT, MPI_MAX, comm);
  *exists = missing ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSGetFreeMemory_CUDA - Returns the number of free bytes in the memory of the device */
PetscErrorCode IDRSGetFreeMemory_CUDA(PetscLogDouble *bytes)
{
  size_t available, total;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMemGetInfo(&available, &total));
  *bytes = (PetscLogDouble)available;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The device of a process, and its free bytes */
typedef struct {
  cudaUUID_t     uuid;
  PetscLogDouble available;
} Place;

/*
   IDRSDeviceGetSharers - Returns the number of processes on the device of this process, including this one, and the least number of
   free bytes that they see, unless `available` is NULL. Collective
*/
PetscErrorCode IDRSDeviceGetSharers(MPI_Comm comm, PetscMPIInt *sharers, PetscLogDouble *available)
{
  cudaDeviceProp properties;
  Place          mine, *all;
  PetscMPIInt    size;
  int            device;

  PetscFunctionBegin;
  *sharers = 0;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaGetDeviceProperties(&properties, device));
  mine.uuid = properties.uuid;
  PetscCall(IDRSGetFreeMemory_CUDA(&mine.available));
  PetscCall(PetscMalloc1(size, &all));
  PetscCallMPI(MPI_Allgather(&mine, (PetscMPIInt)sizeof(mine), MPI_BYTE, all, (PetscMPIInt)sizeof(mine), MPI_BYTE, comm));
  for (PetscMPIInt i = 0; i < size; i++) {
    PetscBool same;

    PetscCall(PetscMemcmp(&all[i].uuid, &mine.uuid, sizeof(mine.uuid), &same));
    if (!same) continue;
    (*sharers)++;
    mine.available = PetscMin(mine.available, all[i].available);
  }
  PetscCall(PetscFree(all));
  if (available) *available = mine.available;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSDeviceAvailable - Returns the free bytes of the device of this process over the processes that share it. Collective */
PetscErrorCode IDRSDeviceAvailable(MPI_Comm comm, PetscLogDouble *bytes)
{
  PetscMPIInt sharers;

  PetscFunctionBegin;
  PetscCall(IDRSDeviceGetSharers(comm, &sharers, bytes));
  *bytes /= sharers;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSDeviceShared - Returns PETSC_TRUE on all processes if any two of them use the same device. Collective */
PetscErrorCode IDRSDeviceShared(MPI_Comm comm, PetscBool *shared)
{
  PetscMPIInt sharers;

  PetscFunctionBegin;
  PetscCall(IDRSDeviceGetSharers(comm, &sharers, NULL));
  IDRSCallAllreduce(MPI_IN_PLACE, &sharers, 1, MPI_INT, MPI_MAX, comm);
  *shared = sharers > 1 ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Return the array of a vector on the device. The vectors of this back end are on the device */
PetscErrorCode IDRSGetArray_CUDA(Vec x, PetscErrorCode (*get)(Vec, PetscScalar **, PetscMemType *), PetscScalar **array)
{
  PetscMemType type;

  PetscFunctionBegin;
  PetscCall((*get)(x, array, &type));
  PetscCheck(PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "A work vector of KSPIDRS is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSGetArrayRead_CUDA(Vec x, const PetscScalar **array)
{
  PetscMemType type;

  PetscFunctionBegin;
  PetscCall(VecGetArrayReadAndMemType(x, array, &type));
  PetscCheck(PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "A work vector of KSPIDRS is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSFindArray_CUDA - Returns the address of the device array of a vector for a kernel with this access, or NULL if there is no
   vector or no access. The array is restored before the launch, because its address does not change
*/
PetscErrorCode IDRSFindArray_CUDA(Vec x, IDRSAccess access, PetscScalar **array)
{
  PetscScalar *got;

  PetscFunctionBegin;
  *array = NULL;
  if (!x || access == IDRS_NOTHING) PetscFunctionReturn(PETSC_SUCCESS);
  if (access == IDRS_READ) PetscCall(IDRSGetArrayRead_CUDA(x, (const PetscScalar **)&got));
  else PetscCall(IDRSGetArray_CUDA(x, access == IDRS_WRITE ? VecGetArrayWriteAndMemType : VecGetArrayAndMemType, &got));
  *array = got;
  if (access == IDRS_READ) PetscCall(VecRestoreArrayReadAndMemType(x, (const PetscScalar **)&got));
  else if (access == IDRS_WRITE) PetscCall(VecRestoreArrayWriteAndMemType(x, &got));
  else PetscCall(VecRestoreArrayAndMemType(x, &got));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates device memory. If the device has too little, the memory is NULL and `why` is the reason */
PetscErrorCode IDRSMalloc_CUDA(size_t bytes, void *memory, const char *why[])
{
  const cudaError_t error = cudaMalloc((void **)memory, PetscMax(bytes, 1));

  PetscFunctionBegin;
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    *(void **)memory = NULL;
    *why             = "the memory of the GPU does not hold a copy of the operator";
  } else PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates device memory for at least `needed` numbers, or keeps the present memory, which has *count numbers, if it suffices */
PetscErrorCode IDRSGrow_CUDA(size_t needed, size_t *count, PetscScalar **memory)
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

/* Makes later work on `stream` wait for earlier work on `other` */
static PetscErrorCode IDRSStreamWait_CUDA(cudaStream_t stream, cudaStream_t other)
{
  cudaEvent_t event;

  PetscFunctionBegin;
  PetscCallCUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  PetscCallCUDA(cudaEventRecord(event, other));
  PetscCallCUDA(cudaStreamWaitEvent(stream, event, 0));
  PetscCallCUDA(cudaEventDestroy(event));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamJoin_CUDA - Puts the work on PETSc's stream and on the legacy stream of CUDA in the order of the host's calls

   MATAIJCUSPARSE uses PETSc's default stream of the time when the matrix was created, which is the legacy stream if no
   PetscDeviceContext was set up by then. Only a stream that does not synchronize with the legacy stream
   (-root_device_context_stream_type nonblocking) needs this call.
*/
PetscErrorCode IDRSStreamJoin_CUDA(void)
{
  cudaStream_t stream;
  unsigned int flags;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (!stream) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaStreamGetFlags(stream, &flags));
  if (!(flags & cudaStreamNonBlocking)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamWait_CUDA(stream, cudaStreamLegacy));
  PetscCall(IDRSStreamWait_CUDA(cudaStreamLegacy, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscReal IDRSTimeout = 600.0;

/*
   IDRSSetTimeout - Sets the time in seconds after which the host stops waiting for sums and messages of other processes, for all
   communicators
*/
PetscErrorCode IDRSSetTimeout(PetscReal seconds)
{
  PetscFunctionBegin;
  IDRSTimeout = seconds;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscReal IDRSGetTimeout(void)
{
  return IDRSTimeout;
}

/* IDRSGetPolls - Returns the number of polls of a thread within the timeout, from 1.6 million loads per second on an H100 */
unsigned int IDRSGetPolls(void)
{
  return (unsigned int)PetscMin(PetscMax(1.6e6 * (PetscLogDouble)IDRSTimeout, 1.0), 4294967295.0);
}

/* IDRSCheckTimeout - Reports an error once if the waits of a kernel have timed out, which has set *timedout in host memory */
PetscErrorCode IDRSCheckTimeout(int *timedout, const char kernel[])
{
  const int is = *timedout;

  PetscFunctionBegin;
  *timedout = 0;
  PetscCheck(!is, PETSC_COMM_SELF, PETSC_ERR_GPU,
             "A %s kernel timed out after %g seconds (-petscidrs_nccl_timeout): perhaps not all of its blocks are resident", kernel,
             (double)IDRSTimeout);
  PetscFunctionReturn(PETSC_SUCCESS);
}
