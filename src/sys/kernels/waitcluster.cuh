/*
   Marked scalars in the shared memory of a cluster. Each block has a copy of all of them. A thread stores a computed scalar in all
   blocks, and a waiting thread polls only the copy in its own block. No PETSc call.
*/
#pragma once

#include "wait.cuh"
#include "../device/cluster.cuh"

/* Loads a marked scalar from the shared memory of this block if `ask` is set, see IDRSMarkedLoadIf() */
static __device__ __forceinline__ void IDRSMarkedLoadClusterIf(bool ask, const IDRSMarked *from, IDRSMarked *marked)
{
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(from);

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
    IDRS_CLUSTER_CODE("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.cluster.shared::cta.u32 %0, [%1];\n\t}" : "+r"(
                        marked->part[k]) : "r"(place + k * (unsigned int)sizeof(IDRSBits)),
                      "r"((unsigned int)ask) : "memory");
#else
    IDRS_CLUSTER_CODE("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.cluster.shared::cta.u64 %0, [%1];\n\t}" : "+l"(
                        marked->part[k]) : "r"(place + k * (unsigned int)sizeof(IDRSBits)),
                      "r"((unsigned int)ask) : "memory");
#endif
  }
}

/* Stores a scalar at the same offset in all `blocks` blocks of a cluster */
static __device__ __forceinline__ void IDRSMarkedStoreCluster(IDRSMarked *marked, unsigned int blocks, PetscScalar x)
{
  const PetscReal    real[2] = {PetscRealPart(x), PetscImaginaryPart(x)};
  const unsigned int here    = (unsigned int)__cvta_generic_to_shared(marked);

  for (unsigned int rank = 0; rank < blocks; rank++) {
    unsigned int place = here;

    IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(place) : "r"(rank));
#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
      IDRS_CLUSTER_CODE("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(place + k * (unsigned int)sizeof(IDRSBits)),
                        "r"(IDRSRealBits(real[k])) : "memory");
#else
      IDRS_CLUSTER_CODE("st.relaxed.cluster.shared::cluster.u64 [%0], %1;" ::"r"(place + k * (unsigned int)sizeof(IDRSBits)),
                        "l"(IDRSRealBits(real[k])) : "memory");
#endif
    }
  }
}
