/*
   Scatters of vectors between GPUs by NCCL. All other scatters use type basic, which this type is derived from.

     begin   array --pack--> buffer     on the stream of the array, x or, in reverse, the vector with the ghosts
             buffer --NCCL--> buffer    on a separate stream, after the pack
     end     buffer --unpack--> array   on the stream of the array, after the messages

   Between begin and end the stream of the array is free, for example for the product with the diagonal block, and the host does not
   wait.
*/
#include <petsc/private/sfimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
#include "../../../../../sys/nccl/idrsnccl.h"
#include "../../../../../sys/device/device.h"
#include "sfnccl.h"

#define SF_THREADS 256
#define SF_BLOCKS  1024 /* per pack, at most */

/*
   Pack and unpack, on the device and, if the array is there, on the host. b: items of a message, contiguous, bs scalars each; x:
   the array; item i of the message is item index[i] of x. Scalar i of b_j = x_index(j)
*/
static __host__ __device__ __forceinline__ void SFPack(size_t i, size_t bs, const PetscInt *index, const PetscScalar *x,
                                                       PetscScalar *b)
{
  b[i] = x[index[i / bs] * bs + i % bs];
}

/*
   Scalar i of x_place(t) = the last, or += the sum, of the b_j with index(j) = place(t). These are in item[first[t]], ...,
   item[first[t+1]-1], in the order of the message, and are added in this order, so results have the same bits each time.
*/
static __host__ __device__ __forceinline__ void SFUnpack(size_t i, size_t bs, const PetscInt *place, const PetscInt *first,
                                                         const PetscInt *item, bool add, const PetscScalar *b, PetscScalar *x)
{
  const size_t t = i / bs, l = i % bs;
  PetscScalar *to = x + place[t] * bs + l, sum = *to;

  if (!add) *to = b[item[first[t + 1] - 1] * bs + l];
  else {
    for (PetscInt j = first[t]; j < first[t + 1]; j++) sum += b[item[j] * bs + l];
    *to = sum;
  }
}

static __global__ void __launch_bounds__(SF_THREADS)
  SFPackKernel(size_t n, size_t bs, const PetscInt *index, const PetscScalar *x, PetscScalar *b)
{
  for (size_t i = blockIdx.x * (size_t)SF_THREADS + threadIdx.x; i < n * bs; i += (size_t)gridDim.x * SF_THREADS)
    SFPack(i, bs, index, x, b);
}

static __global__ void __launch_bounds__(SF_THREADS)
  SFUnpackKernel(size_t places, size_t bs, const PetscInt *place, const PetscInt *first, const PetscInt *item, bool add,
                 const PetscScalar *b, PetscScalar *x)
{
  for (size_t i = blockIdx.x * (size_t)SF_THREADS + threadIdx.x; i < places * bs; i += (size_t)gridDim.x * SF_THREADS)
    SFUnpack(i, bs, place, first, item, add, b, x);
}

/* The roots of this process that have leaves on others, or its leaves. The first four members belong to the graph */
typedef struct {
  IDRSRankCount      nranks;
  const PetscMPIInt *ranks;
  const PetscInt    *offset; /* [nranks+1] first item of each process */
  const PetscInt    *index;  /* places of the items in the array */
  PetscInt          *known;  /* index[] from which the following was computed */
  PetscInt           items;
  PetscInt           places; /* number of different places in index[], and for SFUnpack(): */
  PetscInt          *place, *first, *item;
  PetscInt          *index_d, *place_d, *first_d, *item_d; /* the same on the device */
} SFSide;

/* A scatter between begin and end, or its memory for the next one */
typedef struct _n_SFExchange *SFExchange;
struct _n_SFExchange {
  PetscBool    inuse;
  const void  *rootdata, *leafdata; /* identify the scatter */
  PetscInt     bs;                  /* scalars per item */
  PetscScalar *rootbuffer, *leafbuffer;
  PetscScalar *roothost, *leafhost;         /* pinned buffers, allocated for arrays on the host */
  IDRSMessage *rootmessages, *leafmessages; /* the items of each process in these buffers */
  PetscMemType to;
  cudaEvent_t  packed, arrived;
  SFExchange   next;
};

typedef struct {
  struct _PetscSFOps basic;
  PetscBool          active;  /* scatters are between GPUs; else they use type basic */
  PetscBool          settled; /* `active` does not change any more */
  SFSide             roots, leaves;
  SFExchange         exchanges;
} SF_NCCL;

/* The data of this type are composed with a PetscSF, because type basic uses the field for them */
static const char SFKey[] = "PetscSF_NCCL";

static PetscErrorCode SFGet_NCCL(PetscSF sf, SF_NCCL **nccl)
{
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)sf, SFKey, (PetscObject *)&container));
  PetscCheck(container, PETSC_COMM_SELF, PETSC_ERR_PLIB, "A PetscSF of type nccl without its data");
  PetscCall(PetscContainerGetPointer(container, (void **)nccl));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSScatterIsNCCL - Returns PETSC_TRUE if a scatter is of this type, although its type name is basic */
PetscErrorCode IDRSScatterIsNCCL(PetscSF sf, PetscBool *is)
{
  PetscObject container;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)sf, SFKey, &container));
  *is = container ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFCopyToDevice_NCCL(PetscInt n, const PetscInt *from, PetscInt **to)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaMalloc((void **)to, ((size_t)n + 1) * sizeof(PetscInt)));
  PetscCallCUDA(cudaMemcpy(*to, from, n * sizeof(PetscInt), cudaMemcpyHostToDevice));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFSideCreate_NCCL(SFSide *side)
{
  const PetscInt n = side->nranks ? side->offset[side->nranks] : 0;
  PetscInt      *sorted;

  PetscFunctionBegin;
  side->items = n;
  PetscCall(PetscMalloc1(n, &sorted));
  PetscCall(PetscMalloc4(n, &side->known, n, &side->place, n + 1, &side->first, n, &side->item));
  for (PetscInt i = 0; i < n; i++) {
    side->known[i] = sorted[i] = side->index[i];
    side->item[i]              = i;
  }
  PetscCall(PetscSortIntWithArray(n, sorted, side->item));
  side->places   = 0;
  side->first[0] = 0;
  for (PetscInt i = 0; i < n; i++) {
    if (i + 1 < n && sorted[i + 1] == sorted[i]) continue;
    PetscCall(PetscSortInt(i + 1 - side->first[side->places], side->item + side->first[side->places]));
    side->place[side->places]   = sorted[i];
    side->first[++side->places] = i + 1;
  }
  PetscCall(PetscFree(sorted));
  PetscCall(SFCopyToDevice_NCCL(n, side->index, &side->index_d));
  PetscCall(SFCopyToDevice_NCCL(side->places, side->place, &side->place_d));
  PetscCall(SFCopyToDevice_NCCL(side->places + 1, side->first, &side->first_d));
  PetscCall(SFCopyToDevice_NCCL(n, side->item, &side->item_d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFSideDestroy_NCCL(SFSide *side)
{
  PetscFunctionBegin;
  PetscCall(PetscFree4(side->known, side->place, side->first, side->item));
  PetscCallCUDA(cudaFree(side->index_d));
  PetscCallCUDA(cudaFree(side->place_d));
  PetscCallCUDA(cudaFree(side->first_d));
  PetscCallCUDA(cudaFree(side->item_d));
  PetscCall(PetscMemzero(side, sizeof(*side)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets up the roots, and again if VecScatterRemap(), which DMDA and DMSTAG call, has changed index[] in place. It also removes the
   graph of the scatter
*/
static PetscErrorCode SFRootsUpdate_NCCL(PetscSF sf, SF_NCCL *nccl)
{
  SFSide   *roots = &nccl->roots;
  PetscBool same  = (PetscBool)(roots->first != NULL);

  PetscFunctionBegin;
  if (same && !sf->remote) PetscCall(PetscArraycmp(roots->index, roots->known, roots->items, &same));
  if (!same) {
    PetscCall(SFSideDestroy_NCCL(roots));
    PetscCall(PetscSFGetLeafRanks(sf, &roots->nranks, &roots->ranks, &roots->offset, &roots->index));
    PetscCall(SFSideCreate_NCCL(roots));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates a buffer for the items of one side, bs scalars each, and the messages to or from each process */
static PetscErrorCode SFBufferCreate_NCCL(const SFSide *side, PetscInt bs, PetscScalar **buffer, IDRSMessage **messages)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaMalloc((void **)buffer, ((size_t)side->items * bs + 1) * sizeof(PetscScalar)));
  PetscCall(PetscMalloc1(side->nranks, messages));
  for (IDRSRankCount p = 0; p < side->nranks; p++) {
    (*messages)[p].rank  = side->ranks[p];
    (*messages)[p].bytes = (size_t)(side->offset[p + 1] - side->offset[p]) * bs * sizeof(PetscScalar);
    (*messages)[p].data  = *buffer + (size_t)side->offset[p] * bs;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns buffers for items of bs scalars; buffers of a finished scatter are reused */
static PetscErrorCode SFExchangeGet_NCCL(SF_NCCL *nccl, PetscInt bs, SFExchange *found)
{
  SFExchange exchange = nccl->exchanges;

  PetscFunctionBegin;
  *found = NULL;
  while (exchange && (exchange->inuse || exchange->bs != bs)) exchange = exchange->next;
  if (!exchange) {
    PetscCall(PetscNew(&exchange));
    exchange->next  = nccl->exchanges;
    nccl->exchanges = exchange;
    PetscCall(SFBufferCreate_NCCL(&nccl->roots, bs, &exchange->rootbuffer, &exchange->rootmessages));
    PetscCall(SFBufferCreate_NCCL(&nccl->leaves, bs, &exchange->leafbuffer, &exchange->leafmessages));
    PetscCallCUDA(cudaEventCreateWithFlags(&exchange->packed, cudaEventDisableTiming));
    PetscCallCUDA(cudaEventCreateWithFlags(&exchange->arrived, cudaEventDisableTiming));
    exchange->bs = bs; /* the exchange is complete */
  }
  *found = exchange;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the scatter that has begun with these arrays; NULL if it does not use this type */
static PetscErrorCode SFExchangeFind_NCCL(SF_NCCL *nccl, const void *rootdata, const void *leafdata, SFExchange *found)
{
  SFExchange exchange = nccl->exchanges;

  PetscFunctionBegin;
  while (exchange && !(exchange->inuse && exchange->rootdata == rootdata && exchange->leafdata == leafdata))
    exchange = exchange->next;
  *found = exchange;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the scalars per unit if a scatter of such units is between GPUs, else 0. The result is the same on all processes. In each
   such scatter the processes agree whether any array is on a device, until one is; if an array is on the host later, it is copied
   through the device. A process cannot decide this alone, because it does not see the arrays of the others
*/
static PetscErrorCode SFEligible_NCCL(PetscSF sf, SF_NCCL *nccl, MPI_Datatype unit, MPI_Op op, PetscMemType rootmtype,
                                      PetscMemType leafmtype, PetscInt *bs)
{
  MPI_Comm    comm = PetscObjectComm((PetscObject)sf);
  PetscMPIInt integers, addresses, types, combiner, size;

  PetscFunctionBegin;
  *bs = 0;
  if (op != MPI_REPLACE && op != MPIU_SUM) PetscFunctionReturn(PETSC_SUCCESS);
  if (unit == MPIU_SCALAR) *bs = 1;
  else {
    PetscCallMPI(MPI_Type_get_envelope(unit, &integers, &addresses, &types, &combiner));
    if (combiner == MPI_COMBINER_CONTIGUOUS) {
      MPI_Datatype of;
      PetscMPIInt  count;

      PetscCallMPI(MPI_Type_get_contents(unit, 1, 0, 1, &count, NULL, &of));
      if (of == MPIU_SCALAR) *bs = count;
    }
  }
  if (!*bs) PetscFunctionReturn(PETSC_SUCCESS);
  if (!nccl->settled) {
    const char *why;
    PetscMPIInt states[2]; /* on some process: an array on a device; no device */
    PetscBool   exists;

    PetscCallMPI(MPI_Comm_size(comm, &size));
    states[0] = size > 1 && (PetscMemTypeDevice(rootmtype) || PetscMemTypeDevice(leafmtype)) ? 1 : 0;
    PetscCall(IDRSDeviceExists(PETSC_COMM_SELF, &exists));
    states[1] = exists ? 0 : 1;
    IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
    if (states[0]) {
      PetscCheck(!states[1], comm, PETSC_ERR_SUP, "-sf_type nccl cannot be used: a process has no GPU");
      PetscCall(PetscDeviceInitialize(PETSC_DEVICE_CUDA));
      PetscCall(IDRSNCCLConnect(comm, &why));
      PetscCheck(!why, comm, PETSC_ERR_SUP, "-sf_type nccl cannot be used: %s", why);
      nccl->active = PETSC_TRUE;
      PetscCall(
        PetscSFGetRootRanks(sf, &nccl->leaves.nranks, &nccl->leaves.ranks, &nccl->leaves.offset, &nccl->leaves.index, NULL));
      PetscCall(SFSideCreate_NCCL(&nccl->leaves));
      PetscCall(PetscInfo(sf, "scatters are between GPUs\n"));
    }
    nccl->settled = nccl->active || size == 1 ? PETSC_TRUE : PETSC_FALSE;
  }
  if (nccl->active) PetscCall(SFRootsUpdate_NCCL(sf, nccl));
  else *bs = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFBegin_NCCL(PetscSF sf, MPI_Datatype unit, PetscMemType frommtype, const void *fromdata,
                                   PetscMemType tomtype, void *todata, MPI_Op op, PetscBool reverse)
{
  const MPI_Comm     comm     = PetscObjectComm((PetscObject)sf);
  const PetscScalar *x        = (const PetscScalar *)fromdata;
  const void        *rootdata = reverse ? todata : fromdata, *leafdata = reverse ? fromdata : todata;
  SF_NCCL           *nccl;
  SFSide            *from, *to;
  size_t             n;
  PetscInt           bs;
  PetscScalar       *send, **host;
  SFExchange         exchange = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFEligible_NCCL(sf, nccl, unit, op, frommtype, tomtype, &bs));
  /*
     A scatter that has begun with these arrays and not ended, for example after an error, is discarded, so that the end of this
     scatter does not find it. Its buffers are reused after its messages have arrived. If both arrays are empty, there may be
     several such scatters, and this process sends and receives nothing in them
  */
  if (rootdata || leafdata) PetscCall(SFExchangeFind_NCCL(nccl, rootdata, leafdata, &exchange));
  if (exchange) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaStreamWaitEvent(stream, exchange->arrived, 0));
    exchange->inuse = PETSC_FALSE;
  }
  if (!bs) {
    PetscCall((*(reverse ? nccl->basic.ReduceBegin : nccl->basic.BcastBegin))(sf, unit, frommtype, fromdata, tomtype, todata, op));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  from = reverse ? &nccl->leaves : &nccl->roots;
  to   = reverse ? &nccl->roots : &nccl->leaves;
  n    = (size_t)from->items * bs;
  PetscCall(SFExchangeGet_NCCL(nccl, bs, &exchange));
  PetscCall(IDRSStream_CUDA(&stream));
  send = reverse ? exchange->leafbuffer : exchange->rootbuffer;
  host = reverse ? &exchange->leafhost : &exchange->roothost;
  PetscCall(PetscLogEventBegin(PETSCSF_Pack, sf, 0, 0, 0));
  if (!PetscMemTypeDevice(frommtype)) {
    if (!*host) PetscCallCUDA(cudaMallocHost((void **)host, (n + 1) * sizeof(PetscScalar)));
    PetscCall(IDRSNCCLWait(comm, stream)); /* the last messages from this buffer have been sent */
    for (size_t i = 0; i < n; i++) SFPack(i, bs, from->index, x, *host);
    PetscCallCUDA(cudaMemcpyAsync(send, *host, n * sizeof(PetscScalar), cudaMemcpyHostToDevice, stream));
  } else if (n) {
    PetscCall(PetscLogGpuTimeBegin());
    SFPackKernel<<<(unsigned int)PetscMin((n + SF_THREADS - 1) / SF_THREADS, SF_BLOCKS), SF_THREADS, 0, stream>>>(from->items, bs,
                                                                                                                  from->index_d, x,
                                                                                                                  send);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
  }
  PetscCallCUDA(cudaEventRecord(exchange->packed, stream));
  PetscCall(PetscLogEventEnd(PETSCSF_Pack, sf, 0, 0, 0));
  PetscCall(IDRSNCCLExchange(comm, exchange->packed, from->nranks, reverse ? exchange->leafmessages : exchange->rootmessages,
                             to->nranks, reverse ? exchange->rootmessages : exchange->leafmessages, exchange->arrived));
  exchange->inuse    = PETSC_TRUE;
  exchange->rootdata = rootdata;
  exchange->leafdata = leafdata;
  exchange->to       = tomtype;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFEnd_NCCL(PetscSF sf, MPI_Datatype unit, const void *fromdata, void *todata, MPI_Op op, PetscBool reverse)
{
  const PetscBool add = op == MPI_REPLACE ? PETSC_FALSE : PETSC_TRUE;
  SF_NCCL        *nccl;
  SFExchange      exchange;
  SFSide         *to;
  size_t          n;
  PetscScalar    *received, **host, *x = (PetscScalar *)todata;
  cudaStream_t    stream;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFExchangeFind_NCCL(nccl, reverse ? todata : fromdata, reverse ? fromdata : todata, &exchange));
  if (!exchange) {
    PetscCall((*(reverse ? nccl->basic.ReduceEnd : nccl->basic.BcastEnd))(sf, unit, fromdata, todata, op));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  to       = reverse ? &nccl->roots : &nccl->leaves;
  n        = (size_t)to->places * exchange->bs;
  received = reverse ? exchange->rootbuffer : exchange->leafbuffer;
  host     = reverse ? &exchange->roothost : &exchange->leafhost;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaStreamWaitEvent(stream, exchange->arrived, 0));
  PetscCall(PetscLogEventBegin(PETSCSF_Unpack, sf, 0, 0, 0));
  if (!PetscMemTypeDevice(exchange->to)) {
    if (!*host) PetscCallCUDA(cudaMallocHost((void **)host, ((size_t)to->items * exchange->bs + 1) * sizeof(PetscScalar)));
    PetscCallCUDA(
      cudaMemcpyAsync(*host, received, (size_t)to->items * exchange->bs * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
    PetscCall(IDRSNCCLWait(PetscObjectComm((PetscObject)sf), stream));
    for (size_t i = 0; i < n; i++) SFUnpack(i, exchange->bs, to->place, to->first, to->item, add, *host, x);
  } else if (n) {
    PetscCall(PetscLogGpuTimeBegin());
    SFUnpackKernel<<<(unsigned int)PetscMin((n + SF_THREADS - 1) / SF_THREADS, SF_BLOCKS), SF_THREADS, 0, stream>>>(
      to->places, exchange->bs, to->place_d, to->first_d, to->item_d, add, received, x);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
  }
  PetscCall(PetscLogEventEnd(PETSCSF_Unpack, sf, 0, 0, 0));
  exchange->inuse = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFBcastBegin_NCCL(PetscSF sf, MPI_Datatype unit, PetscMemType rootmtype, const void *rootdata,
                                             PetscMemType leafmtype, void *leafdata, MPI_Op op)
{
  return SFBegin_NCCL(sf, unit, rootmtype, rootdata, leafmtype, leafdata, op, PETSC_FALSE);
}

static PetscErrorCode PetscSFBcastEnd_NCCL(PetscSF sf, MPI_Datatype unit, const void *rootdata, void *leafdata, MPI_Op op)
{
  return SFEnd_NCCL(sf, unit, rootdata, leafdata, op, PETSC_FALSE);
}

static PetscErrorCode PetscSFReduceBegin_NCCL(PetscSF sf, MPI_Datatype unit, PetscMemType leafmtype, const void *leafdata,
                                              PetscMemType rootmtype, void *rootdata, MPI_Op op)
{
  return SFBegin_NCCL(sf, unit, leafmtype, leafdata, rootmtype, rootdata, op, PETSC_TRUE);
}

static PetscErrorCode PetscSFReduceEnd_NCCL(PetscSF sf, MPI_Datatype unit, const void *leafdata, void *rootdata, MPI_Op op)
{
  return SFEnd_NCCL(sf, unit, leafdata, rootdata, op, PETSC_TRUE);
}

/* PETSc duplicates with the type name of type basic, see PetscSFCreate_NCCL() */
static PetscErrorCode PetscSFDuplicate_NCCL(PetscSF sf, PetscSFDuplicateOption option, PetscSF copy)
{
  PetscFunctionBegin;
  PetscCall(PetscSFSetType(copy, PETSCSFNCCL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFReset_NCCL(PetscSF sf)
{
  SF_NCCL     *nccl;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  if (nccl->exchanges) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCall(IDRSNCCLFinish(PetscObjectComm((PetscObject)sf), stream, PETSC_FALSE));
  }
  while (nccl->exchanges) {
    SFExchange exchange = nccl->exchanges;

    PetscCheck(!exchange->inuse, PetscObjectComm((PetscObject)sf), PETSC_ERR_ARG_WRONGSTATE,
               "A scatter has not been ended; call PetscSFBcastEnd() or PetscSFReduceEnd()");
    PetscCall(PetscFree(exchange->rootmessages));
    PetscCall(PetscFree(exchange->leafmessages));
    PetscCallCUDA(cudaFree(exchange->rootbuffer));
    PetscCallCUDA(cudaFree(exchange->leafbuffer));
    PetscCallCUDA(cudaFreeHost(exchange->roothost));
    PetscCallCUDA(cudaFreeHost(exchange->leafhost));
    if (exchange->packed) PetscCallCUDA(cudaEventDestroy(exchange->packed)); /* an exchange may be incomplete after an error */
    if (exchange->arrived) PetscCallCUDA(cudaEventDestroy(exchange->arrived));
    nccl->exchanges = exchange->next;
    PetscCall(PetscFree(exchange));
  }
  if (nccl->active) {
    PetscCall(SFSideDestroy_NCCL(&nccl->roots));
    PetscCall(SFSideDestroy_NCCL(&nccl->leaves));
  }
  nccl->active = nccl->settled = PETSC_FALSE;
  PetscCall((*nccl->basic.Reset)(sf));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFDestroy_NCCL(PetscSF sf)
{
  SF_NCCL *nccl;
  PetscErrorCode (*destroy)(PetscSF);

  PetscFunctionBegin;
  PetscCall(PetscSFReset_NCCL(sf));
  PetscCall(SFGet_NCCL(sf, &nccl));
  destroy = nccl->basic.Destroy;
  PetscCall(PetscObjectCompose((PetscObject)sf, SFKey, NULL));
  PetscCall(PetscFree(nccl));
  PetscCall((*destroy)(sf));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFView_NCCL(PetscSF sf, PetscViewer viewer)
{
  SF_NCCL  *nccl;
  PetscBool isascii;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &isascii));
  if (isascii)
    PetscCall(PetscViewerASCIIPrintf(viewer, "  scatters of scalars: %s\n",
                                     nccl->active ? "from GPU to GPU" : "as in type basic: no array was on a GPU, or one process"));
  PetscCall((*nccl->basic.View)(sf, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
   PETSCSFNCCL - A `PetscSF` that sends entries of vectors between GPUs by NCCL, in the order of the stream: the host does not
   wait, MPI need not be GPU-aware, and work on the stream overlaps with the messages

   Options Database Keys:
+  -sf_type nccl                     - for all scatters of vectors, also in `MatMult()`
- -petscidrs_nccl_timeout <seconds> - timeout of the host for messages or sums of other processes, by default 600

   Level: intermediate

   Notes:
   libpetscidrs registers this type if PETSc has CUDA. If the library was built without NCCL, the first scatter of arrays on a
   device reports it as an error. The type works with every `KSP` and `MatMult()` whose scatters read the option, for example with
   `MATMPIAIJCUSPARSE` and `DMDA`.

   `PetscSFBcastBegin()` and `PetscSFReduceBegin()` send between GPUs if they insert or add, with units of `MPIU_SCALAR` or a
   contiguous type of `MPIU_SCALAR`. All other operations work as in the type basic. A scatter of this kind begins with a reduction
   in which the processes agree whether an array is on a device, and works as in the type basic if none is. From the first scatter
   of an array on a device on there are no such reductions, and arrays on the host are copied through the device. Sums are in a
   fixed order, so the results have the same bits each time.

   Each process needs its own GPU. If two processes share one, the first scatter of an array on a device reports an error.

   `PetscSFGetType()` returns `PETSCSFBASIC`, because `VecScatterRemap()` requires it. `PetscSFView()` shows how scatters are sent.

   If a process is killed or aborts, MPI ends the others. If a process returns from a solve with an error and continues, the others
   wait for its messages, as with the type basic. `KSPIDRS`, scatters of arrays on the host and `PetscSFDestroy()` report an error
   after `-petscidrs_nccl_timeout` seconds. If PETSc itself waits for the device, for example in a norm of another solver, there is
   no timeout.

.seealso: `KSPIDRS`, `PetscSF`, `PetscSFSetType()`, `VecScatterCreate()`
M*/
PetscErrorCode PetscSFCreate_NCCL(PetscSF sf)
{
  SF_NCCL       *nccl;
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PetscSFSetType(sf, PETSCSFBASIC)); /* the type name stays basic, because VecScatterRemap() rejects others */
  PetscCall(PetscNew(&nccl));
  nccl->basic = *sf->ops;
  PetscCall(PetscContainerCreate(PETSC_COMM_SELF, &container));
  PetscCall(PetscContainerSetPointer(container, nccl));
  PetscCall(PetscObjectCompose((PetscObject)sf, SFKey, (PetscObject)container));
  PetscCall(PetscContainerDestroy(&container));
  sf->ops->Reset       = PetscSFReset_NCCL;
  sf->ops->Destroy     = PetscSFDestroy_NCCL;
  sf->ops->View        = PetscSFView_NCCL;
  sf->ops->Duplicate   = PetscSFDuplicate_NCCL;
  sf->ops->BcastBegin  = PetscSFBcastBegin_NCCL;
  sf->ops->BcastEnd    = PetscSFBcastEnd_NCCL;
  sf->ops->ReduceBegin = PetscSFReduceBegin_NCCL;
  sf->ops->ReduceEnd   = PetscSFReduceEnd_NCCL;
  if (sf->setupcalled) { /* as another type, or as this type, which PETSc does not know by name */
    PetscCall(PetscFree4(sf->ranks, sf->roffset, sf->rmine, sf->rremote));
    sf->setupcalled = PETSC_FALSE;
    PetscCall(PetscSFSetUp(sf));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
