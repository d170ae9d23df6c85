/*
   Operands and launches of passes for the columns of a group that have the same step: one launch for all of them
*/
#pragma once

#include "idrscudaimpl.cuh"

/* The vectors of a work, and the diagonal of B^{-1} */
enum {
  IDRS_R,
  IDRS_Z,
  IDRS_V,
  IDRS_T,
  IDRS_D,
  IDRS_OPERANDS
};

/* The operands of a pass: the bases of a column, its vectors, NULL if the pass does not use them, and the partial sums of r^H r */
typedef struct {
  IDRSBases         bases;
  IDRSDeviceScalars device;
  PetscScalar      *x[IDRS_OPERANDS];
  PetscReal        *rr;
} IDRSColumn;

/* Coefficients from the host: an argument of the kernel for one column, in the memory of the device for several */
template <int S, int N>
struct IDRSHostCoefficients {
  const IDRSCoefficients<S> *c;

  __device__ __forceinline__ const IDRSCoefficients<S> *Mine() const { return c + blockIdx.y; }
};

template <int S>
struct IDRSHostCoefficients<S, 1> {
  IDRSCoefficients<S> c;

  __device__ __forceinline__ const IDRSCoefficients<S> *Mine() const { return &c; }
};

PETSC_INTERN PetscErrorCode IDRSColumnsGet_CUDA(const IDRSGroup *, const IDRSAccess[], bool, IDRSColumn[]);

/* Gets the coefficients for update of step k, or with k = -1 for the other passes, unless they are on the device */
template <int S, int N>
static PetscErrorCode IDRSGetHostCoefficients(const IDRSGroup *group, PetscInt k, cudaStream_t stream,
                                              IDRSHostCoefficients<S, N> *fromhost)
{
  IDRSCoefficients<S> c[N] = {};

  PetscFunctionBegin;
  if (group->work[0]->ondevice) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < group->count; i++) {
    for (PetscInt j = 0; j < group->work[i]->s; j++) IDRSGetCoefficient<S>(&group->work[i]->scalars, k, j, &c[i]);
  }
  if constexpr (N == 1) fromhost->c = c[0];
  else {
    void *coefficients = ((IDRS_CUDA *)group->work[0]->data)->coefficients;

    PetscCallCUDA(cudaMemcpyAsync(coefficients, c, (size_t)group->count * sizeof(*c), cudaMemcpyHostToDevice, stream));
    fromhost->c = (const IDRSCoefficients<S> *)coefficients;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Calls launch(S, W, N, columns, coefficients, stream), which launches the kernel of a pass with these S, W and N: see
   IDRSDispatch() and IDRSMembers. W is the same as for one column, so that sums are added in the same order
*/
template <typename L>
static PetscErrorCode IDRSLaunchColumns(const IDRSGroup *group, PetscInt s, PetscInt k, const IDRSColumn columns[], L &&launch)
{
  const PetscInt count  = group->count;
  bool           packed = IDRSPacked((const IDRS_CUDA *)group->work[0]->data);
  PetscErrorCode ierr   = PETSC_SUCCESS;
  cudaStream_t   stream;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    for (const PetscScalar *x : columns[i].x) packed = packed && IDRSAligned(x);
  }
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(s, packed, [&](auto S, auto W) {
    auto members = [&](auto N) {
      IDRSHostCoefficients<S, N> fromhost = {};

      ierr = IDRSGetHostCoefficients<S, N>(group, k, stream, &fromhost);
      if (!ierr) launch(S, W, N, IDRSGetMembers<N>(count, columns), fromhost, stream);
    };

    if (count == 1) members(IDRSInt<1>());
    else members(IDRSInt<IDRS_MAX_WIDTH>());
  }));
  PetscCall(ierr);
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}
