/*
   The halo of a scatter: which entries of a vector are sent, and to which places. Created once per nonzero pattern
*/
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "halo.cuh"

struct _n_IDRSHalo {
  MPI_Comm       comm;
  IDRSPeersShare share;         /* used by exchanges with odd and even numbers in turn */
  PetscInt       ghosts, width; /* ghosts of an exchange, and numbers of each */
  PetscInt       room;          /* messages that an exchange receives */
  uint32_t       items, number;
  PetscInt      *index; /* on the device, as in IDRSSends */
  ulonglong2   **to;    /* for odd exchanges, followed by even exchanges */
};

/* Returns PETSC_TRUE if this process can send messages through the halo */
PetscBool IDRSHaloIsValid(IDRSHalo halo)
{
  return halo && halo->share && !*halo->share->givenup ? PETSC_TRUE : PETSC_FALSE;
}

/* Sets counts and displacements for MPI_Alltoallv(): for each rank one number more than it has items */
static PetscErrorCode IDRSHaloCount_Private(IDRSRankCount nranks, const PetscMPIInt ranks[], const PetscInt offset[],
                                            PetscMPIInt counts[], PetscMPIInt first[])
{
  PetscFunctionBegin;
  for (IDRSRankCount p = 0; p < nranks; p++) {
    counts[ranks[p]] = (PetscMPIInt)(offset[p + 1] - offset[p] + 1);
    first[ranks[p]]  = (PetscMPIInt)(offset[p] + p);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sends the room and the places of the ghosts to the processes that own them, and receives the same from the processes that need
   entries of this one. heard has, for each of these processes, the room and then the places
*/
static PetscErrorCode IDRSHaloExchangePlaces_Private(IDRSHalo halo, PetscSF scatter, PetscInt heard[])
{
  IDRSRankCount      nsends, nreceives;
  const PetscMPIInt *sends, *receives;
  const PetscInt    *sendoffset, *receiveoffset, *place;
  PetscInt          *told;
  PetscMPIInt        size, *counts;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(halo->comm, &size));
  PetscCall(PetscSFGetLeafRanks(scatter, &nsends, &sends, &sendoffset, NULL));
  PetscCall(PetscSFGetRootRanks(scatter, &nreceives, &receives, &receiveoffset, &place, NULL));
  PetscCall(PetscMalloc1((nreceives ? receiveoffset[nreceives] : 0) + nreceives, &told));
  PetscCall(PetscCalloc1((size_t)4 * size, &counts));
  PetscCall(IDRSHaloCount_Private(nreceives, receives, receiveoffset, counts, counts + size));
  PetscCall(IDRSHaloCount_Private(nsends, sends, sendoffset, counts + 2 * size, counts + 3 * size));
  for (IDRSRankCount p = 0; p < nreceives; p++) {
    told[receiveoffset[p] + p] = halo->room;
    PetscCall(PetscArraycpy(told + receiveoffset[p] + p + 1, place + receiveoffset[p], receiveoffset[p + 1] - receiveoffset[p]));
  }
  /* each process receives the places of its entries from the processes that need them */
  PetscCallMPI(
    MPI_Alltoallv(told, counts, counts + size, MPIU_INT, heard, counts + 2 * size, counts + 3 * size, MPIU_INT, halo->comm));
  PetscCall(PetscFree(told));
  PetscCall(PetscFree(counts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the place of the message of each item, for odd and for even exchanges */
static PetscErrorCode IDRSHaloSetSends_Private(IDRSHalo halo, PetscSF scatter)
{
  IDRSRankCount      nsends;
  const PetscMPIInt *sends;
  const PetscInt    *offset, *index;
  PetscInt          *heard;
  ulonglong2       **to;

  PetscFunctionBegin;
  PetscCall(PetscSFGetLeafRanks(scatter, &nsends, &sends, &offset, &index));
  PetscCall(PetscMalloc2(halo->items + nsends, &heard, 2 * halo->items, &to));
  PetscCall(IDRSHaloExchangePlaces_Private(halo, scatter, heard));
  for (IDRSRankCount p = 0; p < nsends; p++) {
    ulonglong2     *memory = (ulonglong2 *)halo->share->memory[sends[p]];
    const PetscInt *place  = heard + offset[p] + p + 1;

    for (PetscInt i = offset[p]; i < offset[p + 1]; i++) {
      to[i] = memory + place[i - offset[p]] * halo->width * IDRS_PARTS;
      /* the places of even exchanges are behind the places of odd exchanges */
      to[halo->items + i] = to[i] + place[-1];
    }
  }
  PetscCallCUDA(cudaMemcpy(halo->index, index, halo->items * sizeof(PetscInt), cudaMemcpyHostToDevice));
  PetscCallCUDA(cudaMemcpy(halo->to, to, 2 * halo->items * sizeof(*to), cudaMemcpyHostToDevice));
  PetscCall(PetscFree2(heard, to));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSHaloCreate - Creates the halo of a scatter from up to `width` owned vectors to vectors of `ghosts` entries. comm is a PETSc
   communicator with connected processes. If one process has no memory for it, or too many entries, the halo is NULL on all
   processes. Collective
*/
PetscErrorCode IDRSHaloCreate(MPI_Comm comm, PetscSF scatter, PetscInt ghosts, PetscInt width, IDRSHalo *newhalo)
{
  IDRSHalo        halo;
  IDRSRankCount   nsends, nreceives;
  const PetscInt *items, *places;
  PetscMPIInt     lacks;

  PetscFunctionBegin;
  PetscCall(PetscNew(&halo));
  *newhalo = halo;
  PetscCall(PetscCommDuplicate(comm, &halo->comm, NULL));
  PetscCall(PetscSFGetLeafRanks(scatter, &nsends, NULL, &items, NULL));
  PetscCall(PetscSFGetRootRanks(scatter, &nreceives, NULL, &places, NULL, NULL));
  lacks = !IDRSHaloFits((PetscInt64)ghosts * width * IDRS_PARTS, nreceives ? (PetscInt64)places[nreceives] + nreceives : 0,
                        nsends ? (PetscInt64)items[nsends] + nsends : 0);
  if (!lacks) {
    halo->ghosts = ghosts;
    halo->width  = width;
    halo->room   = ghosts * width * IDRS_PARTS;
    halo->items  = nsends ? (uint32_t)items[nsends] : 0;
    lacks        = cudaMalloc((void **)&halo->index, PetscMax(halo->items, 1) * sizeof(PetscInt)) != cudaSuccess ||
            cudaMalloc((void **)&halo->to, PetscMax(2 * halo->items, 1) * sizeof(*halo->to)) != cudaSuccess;
    (void)cudaGetLastError(); /* so that no later call reports it */
  }
  IDRSCallAllreduce(MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX, halo->comm);
  if (!lacks) PetscCall(IDRSPeersCreateShare(halo->comm, ((size_t)2 * halo->room + 1) * sizeof(ulonglong2), &halo->share));
  if (halo->share) PetscCall(IDRSHaloSetSends_Private(halo, scatter));
  else PetscCall(IDRSHaloDestroy(newhalo));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSHaloIsMutual - Returns, on all processes, PETSC_TRUE if each process waits for a message of every process to which it sends.
   block is the matrix that multiplies the ghosts. After MatZeroRows() some of its columns may be empty: their ghosts are sent, but
   no kernel waits for them. Collective
*/
PetscErrorCode IDRSHaloIsMutual(IDRSHalo halo, PetscSF scatter, Mat block, PetscBool *mutual)
{
  IDRSRankCount      nsends, nreceives;
  const PetscMPIInt *sends, *receives;
  const PetscInt    *offset, *place, *i, *j;
  PetscMPIInt        size, different = 0;
  PetscInt           n;
  PetscBool         *read, *waits, done;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(halo->comm, &size));
  PetscCall(PetscSFGetLeafRanks(scatter, &nsends, &sends, NULL, NULL));
  PetscCall(PetscSFGetRootRanks(scatter, &nreceives, &receives, &offset, &place, NULL));
  PetscCall(PetscCalloc2(halo->ghosts, &read, size, &waits));
  PetscCall(MatGetRowIJ(block, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  for (PetscInt p = 0; done && p < i[n]; p++) read[j[p]] = PETSC_TRUE;
  PetscCall(MatRestoreRowIJ(block, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  for (IDRSRankCount p = 0; p < nreceives; p++) {
    for (PetscInt q = offset[p]; q < offset[p + 1]; q++) waits[receives[p]] = (PetscBool)(waits[receives[p]] || read[place[q]]);
  }
  for (IDRSRankCount p = 0; p < nsends; p++) {
    if (!waits[sends[p]]) different = 1;
  }
  PetscCall(PetscFree2(read, waits));
  IDRSCallAllreduce(MPI_IN_PLACE, &different, 1, MPI_INT, MPI_MAX, halo->comm);
  *mutual = different ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSHaloNext - Begins the next exchange, and returns what the first kernel of a matvec sends */
PetscErrorCode IDRSHaloNext(IDRSHalo halo, IDRSSends *sends)
{
  PetscFunctionBegin;
  PetscCall(IDRSPeersNextOfShare(halo->comm, halo->share, &halo->number));
  sends->index  = halo->index;
  sends->to     = halo->to + (halo->number % 2 ? 0 : halo->items);
  sends->items  = halo->items;
  sends->number = halo->number;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSHaloGetGhosts - Returns the ghosts of the present exchange for the second kernel */
IDRSGhosts IDRSHaloGetGhosts(IDRSHalo halo)
{
  PetscMPIInt rank = 0;

  (void)MPI_Comm_rank(halo->comm, &rank);
  return {(const ulonglong2 *)halo->share->memory[rank] + (halo->number % 2 ? 0 : halo->room), halo->share->givenup, halo->number,
          (uint32_t)halo->width};
}

PetscErrorCode IDRSHaloDestroy(IDRSHalo *halo)
{
  PetscFunctionBegin;
  if (*halo) {
    PetscCallCUDA(cudaFree((*halo)->index));
    PetscCallCUDA(cudaFree((*halo)->to));
    if ((*halo)->share) (*halo)->share->taken = PETSC_FALSE;
    PetscCall(PetscCommDestroy(&(*halo)->comm));
  }
  PetscCall(PetscFree(*halo));
  PetscFunctionReturn(PETSC_SUCCESS);
}
