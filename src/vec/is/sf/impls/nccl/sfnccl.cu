/*
   Scatters of vectors from GPU to GPU, by NCCL. What is not of that kind is left to the type basic, which this one is made of.

     begin   array --pack--> buffer     on the stream of the array, x or, in reverse, the vector with the ghosts
             buffer --NCCL--> buffer    on a stream beside it, behind what has just been packed
     end     buffer --unpack--> array   on the stream of the array, behind the messages

   Between begin and end the stream of the array is free, for the product with the diagonal block for instance, and the host waits
   for nothing. Where what goes to or comes from each process lies one after another in the array, it travels without pack and
   unpack.
*/
#include <petsc/private/sfimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include "../../../../../sys/nccl/idrsnccl.h"
#include "../../../../../sys/device/stream.h"
#include "sfnccl.h"
#include "sfpack.cuh"

#define SF_BLOCKS 1024 /* at most, in one pack */

/* The roots of this process that others have leaves of, or its leaves. The first four belong to the graph */
typedef struct {
  IDRSRankCount      nranks;
  const PetscMPIInt *ranks;
  const PetscInt    *offset; /* [nranks+1] of the items of a process */
  const PetscInt    *index;  /* where the items are in the array */
  PetscInt          *known;  /* index[] as the following was made of it */
  PetscInt           items;
  PetscBool          direct; /* the items of each process lie one after another */
  PetscInt           places; /* how many different ones are among index[], and for SFUnpack(): */
  PetscInt          *place, *first, *item;
  PetscInt          *index_d, *place_d, *first_d, *item_d; /* the same on the device */
} SFSide;

/* A scatter between its begin and its end, or what is left for the next one */
typedef struct _n_SFExchange *SFExchange;
struct _n_SFExchange {
  PetscBool    inuse;
  const void  *rootdata, *leafdata; /* which scatter it is */
  PetscInt     bs;                  /* scalars an item */
  PetscScalar *rootbuffer, *leafbuffer;
  PetscScalar *roothost, *leafhost; /* buffers in pinned memory, once an array has been on the host */
  IDRSMessage *rootmessages, *leafmessages;
  PetscBool    received; /* everything is where it belongs as soon as it has arrived */
  PetscMemType to;
  cudaEvent_t  packed, arrived;
  SFExchange   next;
};

typedef struct {
  struct _PetscSFOps basic;
  PetscBool          agreed; /* the processes have agreed on the following */
  PetscBool          active; /* scatters go from GPU to GPU; else all are left to the type basic */
  SFSide             roots, leaves;
  SFExchange         exchanges;
} SF_NCCL;

/* Under which this type's own data is kept with a PetscSF, whose field for it is taken by the type basic */
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

/* IDRSScatterIsNCCL - Whether a scatter is of this type, which has the name of the type basic */
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
  side->items  = n;
  side->direct = PETSC_TRUE;
  for (IDRSRankCount p = 0; p < side->nranks; p++) {
    for (PetscInt i = side->offset[p] + 1; i < side->offset[p + 1]; i++) {
      if (side->index[i] != side->index[i - 1] + 1) side->direct = PETSC_FALSE;
    }
  }
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

static PetscErrorCode SFRootsCreate_NCCL(PetscSF sf, SF_NCCL *nccl)
{
  PetscFunctionBegin;
  PetscCall(PetscSFGetLeafRanks(sf, &nccl->roots.nranks, &nccl->roots.ranks, &nccl->roots.offset, &nccl->roots.index));
  PetscCall(SFSideCreate_NCCL(&nccl->roots));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The roots are made anew where VecScatterRemap() has changed index[] in place, which takes the graph from the scatter */
static PetscErrorCode SFRootsUpdate_NCCL(PetscSF sf, SF_NCCL *nccl)
{
  PetscBool same = PETSC_TRUE;

  PetscFunctionBegin;
  if (!sf->remote) PetscCall(PetscArraycmp(nccl->roots.index, nccl->roots.known, nccl->roots.items, &same));
  if (!same) {
    PetscCall(SFSideDestroy_NCCL(&nccl->roots));
    PetscCall(SFRootsCreate_NCCL(sf, nccl));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Buffers for items of bs scalars; the buffers of a scatter that is over serve again */
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
    PetscCallCUDA(cudaMalloc((void **)&exchange->rootbuffer, ((size_t)nccl->roots.items * bs + 1) * sizeof(PetscScalar)));
    PetscCallCUDA(cudaMalloc((void **)&exchange->leafbuffer, ((size_t)nccl->leaves.items * bs + 1) * sizeof(PetscScalar)));
    PetscCall(PetscMalloc2(nccl->roots.nranks, &exchange->rootmessages, nccl->leaves.nranks, &exchange->leafmessages));
    PetscCallCUDA(cudaEventCreateWithFlags(&exchange->packed, cudaEventDisableTiming));
    PetscCallCUDA(cudaEventCreateWithFlags(&exchange->arrived, cudaEventDisableTiming));
    exchange->bs = bs; /* it is complete */
  }
  *found = exchange;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The scatter that has begun with these arrays, or NULL if it is not one of ours */
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
   A scatter that has begun with these arrays and not ended, as after an error, must not be found by the end of the next one. Its
   buffers are free once its messages have arrived. Of arrays that are both empty there may be several under way, in which this
   process has no part
*/
static PetscErrorCode SFExchangeAbandon_NCCL(SF_NCCL *nccl, const void *rootdata, const void *leafdata)
{
  SFExchange   exchange = NULL;
  cudaStream_t stream;

  PetscFunctionBegin;
  if (rootdata || leafdata) PetscCall(SFExchangeFind_NCCL(nccl, rootdata, leafdata, &exchange));
  if (exchange) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaStreamWaitEvent(stream, exchange->arrived, 0));
    exchange->inuse = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Pinned memory beside a buffer of the device */
static PetscErrorCode SFHostBuffer_NCCL(size_t n, PetscScalar **host)
{
  PetscFunctionBegin;
  if (!*host) PetscCallCUDA(cudaMallocHost((void **)host, (n + 1) * sizeof(PetscScalar)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The scalars of a unit where a scatter of such units goes from GPU to GPU, else 0. That depends on nothing that is different on
   another process. Whether there are arrays on a device at all is agreed on in the first such scatter; where an array is on the
   host all the same, it goes through the device.
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
  if (!nccl->agreed) {
    const char *why;
    PetscMPIInt states[2]; /* an array on a device; no device */
    int         count = 0;

    PetscCallMPI(MPI_Comm_size(comm, &size));
    states[0] = size > 1 && (PetscMemTypeDevice(rootmtype) || PetscMemTypeDevice(leafmtype)) ? 1 : 0;
    states[1] = cudaGetDeviceCount(&count) != cudaSuccess || !count ? 1 : 0;
    if (states[1]) (void)cudaGetLastError();
    IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
    if (states[0]) {
      PetscCheck(!states[1], comm, PETSC_ERR_SUP, "-sf_type nccl cannot be used: a process has no GPU");
      PetscCall(PetscDeviceInitialize(PETSC_DEVICE_CUDA));
      PetscCall(IDRSNCCLConnect(comm, &why));
      PetscCheck(!why, comm, PETSC_ERR_SUP, "-sf_type nccl cannot be used: %s", why);
      nccl->active = PETSC_TRUE;
      PetscCall(SFRootsCreate_NCCL(sf, nccl));
      PetscCall(
        PetscSFGetRootRanks(sf, &nccl->leaves.nranks, &nccl->leaves.ranks, &nccl->leaves.offset, &nccl->leaves.index, NULL));
      PetscCall(SFSideCreate_NCCL(&nccl->leaves));
    }
    nccl->agreed = PETSC_TRUE;
    PetscCall(
      PetscInfo(sf, states[0]
                      ? "scatters go from GPU to GPU\n"
                      : "scatters go by type basic: there is one process, or the arrays of the first scatter are on the host\n"));
  }
  if (nccl->active) PetscCall(SFRootsUpdate_NCCL(sf, nccl));
  else *bs = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One message a process, from or to the array itself or a buffer */
static PetscErrorCode SFMessages_NCCL(const SFSide *side, PetscInt bs, PetscScalar *array, PetscScalar *buffer,
                                      IDRSMessage *messages)
{
  PetscFunctionBegin;
  for (IDRSRankCount p = 0; p < side->nranks; p++) {
    const PetscInt first = side->offset[p], count = side->offset[p + 1] - first;

    messages[p].rank  = side->ranks[p];
    messages[p].bytes = (size_t)count * bs * sizeof(PetscScalar);
    messages[p].data  = array ? array + (size_t)(count ? side->index[first] : 0) * bs : buffer + (size_t)first * bs;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFBegin_NCCL(PetscSF sf, SF_NCCL *nccl, PetscInt bs, MPI_Op op, PetscBool reverse, PetscMemType frommtype,
                                   const void *fromdata, PetscMemType tomtype, void *todata)
{
  const MPI_Comm     comm = PetscObjectComm((PetscObject)sf);
  const SFSide      *from = reverse ? &nccl->leaves : &nccl->roots, *to = reverse ? &nccl->roots : &nccl->leaves;
  const size_t       n = (size_t)from->items * bs;
  const PetscScalar *x = (const PetscScalar *)fromdata;
  PetscScalar       *send, **host;
  PetscBool          direct = from->direct;
  SFExchange         exchange;
  IDRSMessage       *sends, *receives;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(SFExchangeGet_NCCL(nccl, bs, &exchange));
  PetscCall(IDRSStream_CUDA(&stream));
  send = reverse ? exchange->leafbuffer : exchange->rootbuffer;
  host = reverse ? &exchange->leafhost : &exchange->roothost;
  PetscCall(PetscLogEventBegin(PETSCSF_Pack, sf, 0, 0, 0));
  if (!PetscMemTypeDevice(frommtype)) {
    direct = PETSC_FALSE;
    PetscCall(SFHostBuffer_NCCL(n, host));
    PetscCall(IDRSNCCLWait(comm, stream)); /* what was sent from there last time has left */
    for (size_t i = 0; i < n; i++) SFPack(i, bs, from->index, x, *host);
    PetscCallCUDA(cudaMemcpyAsync(send, *host, n * sizeof(PetscScalar), cudaMemcpyHostToDevice, stream));
  } else if (!direct) {
    PetscCall(PetscLogGpuTimeBegin());
    SFPackKernel<<<(unsigned int)PetscMin((n + SF_THREADS - 1) / SF_THREADS, SF_BLOCKS), SF_THREADS, 0, stream>>>(from->items, bs,
                                                                                                                  from->index_d, x,
                                                                                                                  send);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
  }
  PetscCallCUDA(cudaEventRecord(exchange->packed, stream));
  PetscCall(PetscLogEventEnd(PETSCSF_Pack, sf, 0, 0, 0));

  /* where one place gets items from several processes, the unpacking orders them */
  exchange->received = to->direct && to->places == to->items && PetscMemTypeDevice(tomtype) && op == MPI_REPLACE ? PETSC_TRUE
                                                                                                                 : PETSC_FALSE;
  sends              = reverse ? exchange->leafmessages : exchange->rootmessages;
  receives           = reverse ? exchange->rootmessages : exchange->leafmessages;
  PetscCall(SFMessages_NCCL(from, bs, direct ? (PetscScalar *)x : NULL, send, sends));
  PetscCall(SFMessages_NCCL(to, bs, exchange->received ? (PetscScalar *)todata : NULL,
                            reverse ? exchange->rootbuffer : exchange->leafbuffer, receives));
  PetscCall(IDRSNCCLExchange(comm, exchange->packed, from->nranks, sends, to->nranks, receives, exchange->arrived));
  exchange->inuse    = PETSC_TRUE;
  exchange->rootdata = reverse ? todata : fromdata;
  exchange->leafdata = reverse ? fromdata : todata;
  exchange->to       = tomtype;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SFEnd_NCCL(PetscSF sf, SF_NCCL *nccl, SFExchange exchange, MPI_Op op, PetscBool reverse, void *todata)
{
  const SFSide *to = reverse ? &nccl->roots : &nccl->leaves;
  const size_t  n = (size_t)to->places * exchange->bs, items = (size_t)to->items * exchange->bs;
  PetscScalar  *received = reverse ? exchange->rootbuffer : exchange->leafbuffer,
              **host = reverse ? &exchange->roothost : &exchange->leafhost, *x = (PetscScalar *)todata;
  const PetscBool add = op == MPI_REPLACE ? PETSC_FALSE : PETSC_TRUE;
  cudaStream_t    stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaStreamWaitEvent(stream, exchange->arrived, 0));
  PetscCall(PetscLogEventBegin(PETSCSF_Unpack, sf, 0, 0, 0));
  if (!PetscMemTypeDevice(exchange->to)) {
    PetscCall(SFHostBuffer_NCCL(items, host));
    PetscCallCUDA(cudaMemcpyAsync(*host, received, items * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
    PetscCall(IDRSNCCLWait(PetscObjectComm((PetscObject)sf), stream));
    for (size_t i = 0; i < n; i++) SFUnpack(i, exchange->bs, to->place, to->first, to->item, add, *host, x);
  } else if (!exchange->received && n) {
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
  SF_NCCL *nccl;
  PetscInt bs;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFEligible_NCCL(sf, nccl, unit, op, rootmtype, leafmtype, &bs));
  PetscCall(SFExchangeAbandon_NCCL(nccl, rootdata, leafdata));
  if (bs) PetscCall(SFBegin_NCCL(sf, nccl, bs, op, PETSC_FALSE, rootmtype, rootdata, leafmtype, leafdata));
  else PetscCall((*nccl->basic.BcastBegin)(sf, unit, rootmtype, rootdata, leafmtype, leafdata, op));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFBcastEnd_NCCL(PetscSF sf, MPI_Datatype unit, const void *rootdata, void *leafdata, MPI_Op op)
{
  SF_NCCL   *nccl;
  SFExchange exchange;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFExchangeFind_NCCL(nccl, rootdata, leafdata, &exchange));
  if (exchange) PetscCall(SFEnd_NCCL(sf, nccl, exchange, op, PETSC_FALSE, leafdata));
  else PetscCall((*nccl->basic.BcastEnd)(sf, unit, rootdata, leafdata, op));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFReduceBegin_NCCL(PetscSF sf, MPI_Datatype unit, PetscMemType leafmtype, const void *leafdata,
                                              PetscMemType rootmtype, void *rootdata, MPI_Op op)
{
  SF_NCCL *nccl;
  PetscInt bs;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFEligible_NCCL(sf, nccl, unit, op, rootmtype, leafmtype, &bs));
  PetscCall(SFExchangeAbandon_NCCL(nccl, rootdata, leafdata));
  if (bs) PetscCall(SFBegin_NCCL(sf, nccl, bs, op, PETSC_TRUE, leafmtype, leafdata, rootmtype, rootdata));
  else PetscCall((*nccl->basic.ReduceBegin)(sf, unit, leafmtype, leafdata, rootmtype, rootdata, op));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PetscSFReduceEnd_NCCL(PetscSF sf, MPI_Datatype unit, const void *leafdata, void *rootdata, MPI_Op op)
{
  SF_NCCL   *nccl;
  SFExchange exchange;

  PetscFunctionBegin;
  PetscCall(SFGet_NCCL(sf, &nccl));
  PetscCall(SFExchangeFind_NCCL(nccl, rootdata, leafdata, &exchange));
  if (exchange) PetscCall(SFEnd_NCCL(sf, nccl, exchange, op, PETSC_TRUE, rootdata));
  else PetscCall((*nccl->basic.ReduceEnd)(sf, unit, leafdata, rootdata, op));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PETSc makes a copy of the type that is named: see PetscSFCreate_NCCL() */
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

    PetscCheck(!exchange->inuse, PetscObjectComm((PetscObject)sf), PETSC_ERR_ARG_WRONGSTATE, "A scatter has begun and not ended");
    PetscCall(PetscFree2(exchange->rootmessages, exchange->leafmessages));
    PetscCallCUDA(cudaFree(exchange->rootbuffer));
    PetscCallCUDA(cudaFree(exchange->leafbuffer));
    PetscCallCUDA(cudaFreeHost(exchange->roothost));
    PetscCallCUDA(cudaFreeHost(exchange->leafhost));
    if (exchange->packed) PetscCallCUDA(cudaEventDestroy(exchange->packed)); /* one that memory has run out for may be incomplete */
    if (exchange->arrived) PetscCallCUDA(cudaEventDestroy(exchange->arrived));
    nccl->exchanges = exchange->next;
    PetscCall(PetscFree(exchange));
  }
  if (nccl->active) {
    PetscCall(SFSideDestroy_NCCL(&nccl->roots));
    PetscCall(SFSideDestroy_NCCL(&nccl->leaves));
  }
  nccl->active = PETSC_FALSE;
  nccl->agreed = PETSC_FALSE;
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
                                     nccl->active ? "from GPU to GPU"
                                     : nccl->agreed
                                       ? "by type basic: there is one process, or the arrays of the first were on the host"
                                       : "none yet"));
  PetscCall((*nccl->basic.View)(sf, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
   PETSCSFNCCL - A `PetscSF` that sends the entries of vectors from GPU to GPU by NCCL, in the order of the stream: the host waits
   for nothing, MPI need not know of GPUs, and work on the stream goes on beside the messages

   Options Database Keys:
+  -sf_type nccl                     - for all scatters of vectors, also in `MatMult()`
- -petscidrs_nccl_timeout <seconds> - how long the host waits for messages or sums of other processes before it gives up, by default
600

   Level: intermediate

   Notes:
   It is registered by libpetscidrs when PETSc has CUDA; a library that was built without NCCL says so in the first scatter of
   arrays on a device. It serves every `KSP` and `MatMult()` whose scatters read the option, for instance with `MATMPIAIJCUSPARSE`
   and `DMDA`.

   Of the operations, `PetscSFBcastBegin()` and `PetscSFReduceBegin()` with units of `MPIU_SCALAR`, or a contiguous type of them,
   that insert or add go from GPU to GPU; all else is done as by the type basic. So are these if no process has an array on a device
   in the first of them, which is collective; after that, arrays of processes that do have theirs on the host go through the device.
   Sums are in a fixed order: the results are the same bits each time.

   Each process needs a GPU of its own; where two share one, the first scatter is an error that says so.

   `PetscSFGetType()` returns `PETSCSFBASIC`, which `VecScatterRemap()` asks for, and `PetscSFView()` says how the scatters go.

   A process that is killed or aborts ends the others by way of MPI. Where one leaves a solve with an error and goes on, the others
   wait for its messages, as they do with the type basic. `KSPIDRS`, scatters of arrays on the host and `PetscSFDestroy()` give up
   after the seconds of `-petscidrs_nccl_timeout`; where PETSc itself waits for the device, in a norm of another solver for
   instance, it waits on.

.seealso: `KSPIDRS`, `KSPIDRSSetCommunication()`, `PetscSF`, `PetscSFSetType()`, `VecScatterCreate()`
M*/
PetscErrorCode PetscSFCreate_NCCL(PetscSF sf)
{
  SF_NCCL       *nccl;
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PetscSFSetType(sf, PETSCSFBASIC)); /* keeps this name: VecScatterRemap() refuses others */
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
  if (sf->setupcalled) { /* as another type, or as this one, which PETSc does not know by its name */
    PetscCall(PetscFree4(sf->ranks, sf->roffset, sf->rmine, sf->rremote));
    sf->setupcalled = PETSC_FALSE;
    PetscCall(PetscSFSetUp(sf));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
