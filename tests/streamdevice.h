/* A device for streamed matrices, emulated on the host. It executes its two queues in an order of its own, and checks its calls */
#pragma once

#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsstream.h>
#include "harness.h"
#include "hash.h"

/* Returns column p of a chunk, which is in this row, from the packed data */
static PetscInt PackedColumn(const IDRSStreamChunk *chunk, const char *packed, PetscInt row, uint32_t p)
{
  const uint32_t *offsets = (const uint32_t *)packed;
  const int32_t  *table   = (const int32_t *)(offsets + chunk->rows + 1);
  const char     *codes   = (const char *)(table + chunk->differences);

  if (chunk->width == 1) return row + table[((const uint8_t *)codes)[p]];
  if (chunk->width == 2) return row + table[((const uint16_t *)codes)[p]];
  return (PetscInt)((const uint32_t *)codes)[p];
}

typedef enum {
  DEVICE_COPY,
  DEVICE_COMPUTE,
  DEVICE_RECORD,
  DEVICE_WAIT
} DeviceOperation;

typedef struct {
  DeviceOperation operation;
  void           *to;
  const void     *from;
  size_t          bytes;
  IDRSStreamTask  task;
  PetscInt        event;
} DeviceEntry;

#define MOST_ENTRIES 100000
#define MOST_SLOTS   5000
#define MOST_PINNED  4

typedef enum {
  COPIES_FIRST,
  COMPUTATIONS_FIRST,
  RANDOM,
  MANNERS
} Manner;

typedef struct {
  Manner       manner;
  uint64_t     draws;
  DeviceEntry *queues[2]; /* of copies, of computations */
  PetscInt     begin[2], end[2];
  PetscInt     events, released[MOST_SLOTS];
  PetscBool   *recorded;
  size_t       available, allocated, most;
  void        *memory;
  const char  *pinned[MOST_PINNED];
  size_t       pinnedbytes[MOST_PINNED];
  PetscBool    waits;          /* at the end of a pass the host also waits for computations */
  PetscInt     wrong, failure; /* failure: operations until one fails, or -1 */
} Device;

static PetscErrorCode DeviceFails(Device *device)
{
  PetscFunctionBeginUser;
  PetscCheck(device->failure < 0 || device->failure--, PETSC_COMM_SELF, PETSC_ERR_GPU, "The device has failed");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceAdd(Device *device, PetscInt queue, const DeviceEntry *entry)
{
  PetscFunctionBeginUser;
  PetscCall(DeviceFails(device));
  PetscCheck(device->end[queue] < MOST_ENTRIES && device->events < MOST_ENTRIES, PETSC_COMM_SELF, PETSC_ERR_PLIB,
             "Too many operations");
  device->queues[queue][device->end[queue]++] = *entry;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar *Place(IDRSStreamLevel level, PetscInt row)
{
  const PetscInt place = row - level.begin;

  return level.array + (place >= level.rows ? place - level.rows : place);
}

static void TaskRun(const IDRSStreamTask *task)
{
  const IDRSStreamChunk *chunk   = task->chunk;
  const uint32_t        *offsets = (const uint32_t *)task->memory;
  const PetscScalar     *values  = (const PetscScalar *)(task->memory + IDRSStreamValuesPlace(chunk));

  for (PetscInt r = 0; r < chunk->rows; r++) {
    const PetscInt row = chunk->row + r;
    PetscScalar    sum = 0.0;

    for (uint32_t p = offsets[r]; p < offsets[r + 1]; p++)
      sum += values[p] * *Place(task->last, PackedColumn(chunk, task->memory, row, p));
    if (!task->product) {
      const PetscScalar last = *Place(task->last, row);

      if (task->inverse) sum *= task->inverse[row];
      sum = task->gamma * (sum - task->theta * last);
      if (task->before.array) sum -= task->mu * *Place(task->before, row);
      if (task->y && task->begins) task->y[row] = 0.0;
      if (task->y && task->first != 0.0) task->y[row] += task->first * last;
      if (task->y && task->c != 0.0) task->y[row] += task->c * sum;
    }
    if (task->next.array) *Place(task->next, row) = sum;
  }
}

/* Executes the next entry of a queue, unless the queue is empty or waits */
static PetscBool DeviceStep(Device *device, PetscInt queue)
{
  const DeviceEntry *entry = &device->queues[queue][device->begin[queue]];

  if (device->begin[queue] == device->end[queue]) return PETSC_FALSE;
  if (entry->operation == DEVICE_WAIT && !device->recorded[entry->event]) return PETSC_FALSE;
  if (entry->operation == DEVICE_COPY) (void)PetscMemcpy(entry->to, entry->from, entry->bytes);
  if (entry->operation == DEVICE_COMPUTE) {
    if (((const uint32_t *)entry->task.memory)[entry->task.chunk->rows] == entry->task.chunk->entries) TaskRun(&entry->task);
    else device->wrong++; /* the memory has another chunk */
  }
  if (entry->operation == DEVICE_RECORD) device->recorded[entry->event] = PETSC_TRUE;
  device->begin[queue]++;
  return PETSC_TRUE;
}

/* Executes entries until the queue of copies, or both queues are empty */
static PetscErrorCode DeviceRun(Device *device, PetscBool both)
{
  PetscFunctionBeginUser;
  while (device->begin[0] < device->end[0] || (both && device->begin[1] < device->end[1])) {
    const PetscInt queue = device->manner == RANDOM       ? (PetscInt)(Bits(11, device->draws++) % 2)
                         : device->manner == COPIES_FIRST ? 0
                                                          : 1;

    PetscCheck(DeviceStep(device, queue) || DeviceStep(device, 1 - queue), PETSC_COMM_SELF, PETSC_ERR_PLIB,
               "Copies and computations wait for each other");
  }
  if (both) device->begin[0] = device->end[0] = device->begin[1] = device->end[1] = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the memory for each process; all processes share the device */
static PetscErrorCode DeviceAvailable(void *ctx, MPI_Comm comm, size_t *bytes)
{
  PetscInt64  available = (PetscInt64)((Device *)ctx)->available;
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  IDRSCallAllreduce(MPI_IN_PLACE, &available, 1, MPIU_INT64, MPI_MIN, comm);
  *bytes = (size_t)available / (size_t)size;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceFree(void *ctx, void *memory)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  PetscCall(DeviceRun(device, PETSC_TRUE));
  if (memory != device->memory) device->wrong++;
  device->memory    = NULL;
  device->allocated = 0;
  PetscCall(PetscFree(memory));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory filled with NaN */
static PetscErrorCode DeviceMalloc(void *ctx, size_t bytes, void **memory)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  PetscCall(DeviceFails(device));
  if (device->memory) device->wrong++;
  PetscCall(PetscMalloc1(bytes + 1, (char **)memory));
  memset(*memory, 0xff, bytes);
  device->memory    = *memory;
  device->allocated = bytes;
  device->most      = PetscMax(device->most, bytes);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DevicePin(void *ctx, const void *memory, size_t bytes)
{
  Device  *device = (Device *)ctx;
  PetscInt place  = 0;

  PetscFunctionBeginUser;
  PetscCall(DeviceFails(device));
  while (device->pinned[place]) place++;
  device->pinned[place]      = (const char *)memory;
  device->pinnedbytes[place] = bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceUnpin(void *ctx, const void *memory)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  if (device->begin[0] < device->end[0]) device->wrong++;
  for (PetscInt place = 0; place < MOST_PINNED; place++) {
    if (device->pinned[place] == memory) device->pinned[place] = NULL;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceReuse(void *ctx, PetscInt slot)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  PetscCheck(slot < MOST_SLOTS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "Too many slots");
  if (device->released[slot])
    PetscCall(DeviceAdd(device, 0, &(DeviceEntry){.operation = DEVICE_WAIT, .event = device->released[slot]}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceCopy(void *ctx, void *to, const void *from, size_t bytes)
{
  Device   *device = (Device *)ctx;
  PetscBool pinned = bytes ? PETSC_FALSE : PETSC_TRUE;

  PetscFunctionBeginUser;
  for (PetscInt place = 0; place < MOST_PINNED; place++) {
    if (device->pinned[place] && device->pinned[place] <= (const char *)from &&
        (const char *)from + bytes <= device->pinned[place] + device->pinnedbytes[place])
      pinned = PETSC_TRUE;
  }
  if (!pinned || (char *)to < (char *)device->memory || (char *)to + bytes > (char *)device->memory + device->allocated)
    device->wrong++;
  else PetscCall(DeviceAdd(device, 0, &(DeviceEntry){.operation = DEVICE_COPY, .to = to, .from = from, .bytes = bytes}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceArrived(void *ctx, PetscInt slot)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  device->events++;
  PetscCall(DeviceAdd(device, 0, &(DeviceEntry){.operation = DEVICE_RECORD, .event = device->events}));
  PetscCall(DeviceAdd(device, 1, &(DeviceEntry){.operation = DEVICE_WAIT, .event = device->events}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceCompute(void *ctx, const IDRSStreamTask *task)
{
  PetscFunctionBeginUser;
  PetscCall(DeviceAdd((Device *)ctx, 1, &(DeviceEntry){.operation = DEVICE_COMPUTE, .task = *task}));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceRelease(void *ctx, PetscInt slot)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  device->events++;
  PetscCall(DeviceAdd(device, 1, &(DeviceEntry){.operation = DEVICE_RECORD, .event = device->events}));
  device->released[slot] = device->events;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Empties the queues, and resets the events */
static PetscErrorCode DeviceSettle(Device *device)
{
  PetscFunctionBeginUser;
  PetscCall(DeviceRun(device, PETSC_TRUE));
  device->events = 0;
  PetscCall(PetscMemzero(device->released, sizeof(device->released)));
  PetscCall(PetscMemzero(device->recorded, 3 * MOST_ENTRIES * sizeof(PetscBool)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceFinish(void *ctx)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  if (device->waits && device->events > MOST_ENTRIES / 2) PetscCall(DeviceSettle(device));
  else PetscCall(DeviceRun(device, device->waits));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that nothing is left; the test destroys the device afterwards */
static PetscErrorCode DeviceEnd(void *ctx)
{
  Device *device = (Device *)ctx;

  PetscFunctionBeginUser;
  for (PetscInt place = 0; place < MOST_PINNED; place++) {
    if (device->pinned[place]) device->wrong++;
  }
  if (device->memory) device->wrong++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSStreamDeviceOps deviceops = {"emulated",    PETSC_MEMTYPE_HOST, DeviceAvailable, DeviceMalloc, DeviceFree,
                                              DevicePin,     DeviceUnpin,        DeviceReuse,     DeviceCopy,   DeviceArrived,
                                              DeviceCompute, DeviceRelease,      DeviceFinish,    DeviceEnd};

static PetscErrorCode DeviceCreate(Manner manner, size_t available, Device *device)
{
  PetscFunctionBeginUser;
  PetscCall(PetscMemzero(device, sizeof(*device)));
  device->manner    = manner;
  device->available = available;
  device->failure   = -1;
  PetscCall(PetscCalloc3(MOST_ENTRIES, &device->queues[0], MOST_ENTRIES, &device->queues[1], 3 * MOST_ENTRIES, &device->recorded));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode DeviceDestroy(const char what[], Device *device)
{
  PetscFunctionBeginUser;
  PetscCall(ComplainIf(device->wrong, "%s: %" INT " calls of the device are wrong", what, device->wrong));
  PetscCall(PetscFree3(device->queues[0], device->queues[1], device->recorded));
  PetscFunctionReturn(PETSC_SUCCESS);
}
