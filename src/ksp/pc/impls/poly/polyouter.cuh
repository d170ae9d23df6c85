/*
   The entries of D^{-1}A outside the diagonal block of a process, for copies on the GPU. They are in double precision
*/
#pragma once

#include "../../../../sys/kernels/launch.cuh"
#include "../../../../mat/cuda/sliced.cuh"
#include "../../../../sys/kernels/rowsum.cuh"

/* Adds y += d beta A_out z, one thread per row; d is NULL for ones. ghosts: an array, or messages */
template <typename Ghosts>
static __global__ void __launch_bounds__(IDRS_THREADS)
  PCPolyOuterKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, const PetscInt *rows, PetscScalar beta, Ghosts ghosts,
                    const PetscScalar *d, PetscScalar *y)
{
  overlap.Begin();
  for (size_t k = IDRSFirstRow<1>(); k < A.n; k += IDRSRowStride<1>())
    y[rows[k]] += (d ? d[rows[k]] * beta : beta) * IDRSRowPart<4>(A, ghosts, (IDRSIndex)k, 0, 1);
}

/* Launches the kernel with a limited number of blocks */
template <typename Ghosts>
static PetscErrorCode PCPolyOuterLaunch(const IDRSCompressedRows *some, int multiprocessors, size_t most, cudaStream_t stream,
                                        Ghosts ghosts, const PCPolyArrays *arrays)
{
  const size_t enough = ((size_t)some->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  (void)IDRSLaunchResident<PCPolyOuterKernel<Ghosts>>(multiprocessors, PetscMin(enough, most), 0, true, stream, some->A,
                                                      (const PetscInt *)some->rows, arrays->beta, ghosts, arrays->d, arrays->y);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}
