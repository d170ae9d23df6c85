/*
   Copies between the device and arrays of a program in pageable memory. For such an array cudaMemcpy() copies through pinned memory
   in one thread of the driver. Here each lane, a thread for large arrays, copies a part of the array through two pinned buffers of
   its own: the host writes one buffer while the bus reads the other
*/
#include <pthread.h>
#include <sched.h>
#include "device.h"

#define TRANSFER_LANES  8
#define TRANSFER_PART   ((size_t)1 << 23) /* least bytes of a lane if there are two or more */
#define TRANSFER_BUFFER ((size_t)1 << 21) /* bytes */

typedef struct {
  char        *buffer[2];
  cudaEvent_t  copied[2]; /* the bus has read or written the buffer */
  cudaStream_t own;
  /* what the present call copies, in which stream */
  cudaStream_t   stream;
  char          *host, *array;
  size_t         bytes;
  cudaMemcpyKind kind;
  int            device;
  cudaError_t    error;
} TransferLane;

static TransferLane TransferLanes[TRANSFER_LANES];
static int          TransferCount = 0; /* of lanes that have buffers */

static PetscErrorCode IDRSTransferFinalize(void)
{
  PetscFunctionBegin;
  for (; TransferCount > 0; TransferCount--) {
    TransferLane *lane = &TransferLanes[TransferCount - 1];

    for (int k = 0; k < 2; k++) {
      PetscCallCUDA(cudaEventDestroy(lane->copied[k]));
      PetscCallCUDA(cudaFreeHost(lane->buffer[k]));
    }
    PetscCallCUDA(cudaStreamDestroy(lane->own));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of lanes for an array: not more than the cores that this process may use */
static PetscErrorCode IDRSTransferSetUp(size_t bytes, int *lanes)
{
  cpu_set_t cores;

  PetscFunctionBegin;
  *lanes = (int)PetscMin(1 + bytes / TRANSFER_PART, (size_t)TRANSFER_LANES);
  if (*lanes > 1) *lanes = sched_getaffinity(0, sizeof(cores), &cores) ? 1 : PetscMin(CPU_COUNT(&cores), *lanes);
  if (!TransferCount) PetscCall(PetscRegisterFinalize(IDRSTransferFinalize));
  for (; TransferCount < *lanes; TransferCount++) {
    TransferLane *lane = &TransferLanes[TransferCount];

    PetscCallCUDA(cudaStreamCreateWithFlags(&lane->own, cudaStreamNonBlocking));
    for (int k = 0; k < 2; k++) {
      PetscCallCUDA(cudaHostAlloc((void **)&lane->buffer[k], TRANSFER_BUFFER, cudaHostAllocDefault));
      PetscCallCUDA(cudaEventCreateWithFlags(&lane->copied[k], cudaEventDisableTiming));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies between buffer k and the device: the bytes from `begin` on. Returns how many bytes these are */
static size_t TransferStart(TransferLane *lane, int k, size_t begin)
{
  const size_t bytes = PetscMin(TRANSFER_BUFFER, lane->bytes - begin);
  const bool   up    = lane->kind == cudaMemcpyHostToDevice;
  cudaError_t  error;

  if (!bytes) return 0;
  error = cudaMemcpyAsync(up ? lane->array + begin : lane->buffer[k], up ? lane->buffer[k] : lane->array + begin, bytes, lane->kind,
                          lane->stream);
  if (error == cudaSuccess) error = cudaEventRecord(lane->copied[k], lane->stream);
  if (error != cudaSuccess) lane->error = error;
  return bytes;
}

/* Copies the part of a lane: to the device a buffer is written before its transfer starts, from the device it is read after it */
static void *TransferRun(void *argument)
{
  TransferLane *lane    = (TransferLane *)argument;
  size_t        started = 0;

  lane->error = cudaSetDevice(lane->device); /* the device of a new thread is the first one */
  if (lane->kind == cudaMemcpyDeviceToHost) {
    for (int k = 0; k < 2; k++) started += TransferStart(lane, k, started);
  }
  for (size_t begin = 0, bytes, k = 0; begin < lane->bytes && lane->error == cudaSuccess; begin += bytes, k = !k) {
    bytes       = PetscMin(TRANSFER_BUFFER, lane->bytes - begin);
    lane->error = cudaEventSynchronize(lane->copied[k]);
    if (lane->kind == cudaMemcpyHostToDevice) {
      memcpy(lane->buffer[k], lane->host + begin, bytes);
      (void)TransferStart(lane, (int)k, begin);
    } else {
      memcpy(lane->host + begin, lane->buffer[k], bytes);
      started += TransferStart(lane, (int)k, started);
    }
  }
  return NULL;
}

static PetscErrorCode IDRSTransferLocked(void *host, void *array, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  pthread_t threads[TRANSFER_LANES];
  int       lanes, device;
  bool      started[TRANSFER_LANES];

  PetscFunctionBegin;
  if (!bytes) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSTransferSetUp(bytes, &lanes));
  PetscCallCUDA(cudaGetDevice(&device));
  if (lanes > 1) PetscCallCUDA(cudaStreamSynchronize(stream)); /* the streams of the lanes do not wait for it */
  for (int i = 0; i < lanes; i++) {
    TransferLane *lane  = &TransferLanes[i];
    const size_t  begin = bytes / lanes * i, end = i + 1 < lanes ? bytes / lanes * (i + 1) : bytes;

    lane->stream = lanes > 1 ? lane->own : stream;
    lane->host   = (char *)host + begin;
    lane->array  = (char *)array + begin;
    lane->bytes  = end - begin;
    lane->kind   = kind;
    lane->device = device;
    started[i]   = i + 1 < lanes && !pthread_create(&threads[i], NULL, TransferRun, lane);
    if (!started[i]) (void)TransferRun(lane);
  }
  for (int i = 0; i < lanes; i++) {
    if (started[i]) (void)pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < lanes; i++) {
    PetscCallCUDA(TransferLanes[i].error);
    if (lanes > 1) PetscCallCUDA(cudaStreamSynchronize(TransferLanes[i].own));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSTransfer_CUDA - Copies an array of the host to the device, or back, in the order of the stream. When it returns, the array of
   the host may be used and changed
*/
PetscErrorCode IDRSTransfer_CUDA(void *host, void *array, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* threads of the program share the lanes */
  PetscErrorCode         ierr;

  PetscFunctionBegin;
  (void)pthread_mutex_lock(&mutex);
  ierr = IDRSTransferLocked(host, array, bytes, kind, stream);
  (void)pthread_mutex_unlock(&mutex);
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}
