/*
   Access of kernels to memory in packs, which have the width of the widest access or twice that width. If an array is not aligned
   to this width, scalars are accessed one by one. No PETSc call.
*/
#pragma once

#include "../device/target.cuh"

/* Threads of a block, for the functions that do not read blockDim */
#define IDRS_THREADS 256
#define IDRS_WARPS   (IDRS_THREADS / IDRS_WARP)
#define IDRS_PACK    ((int)(IDRS_ACCESS_BYTES / sizeof(PetscScalar)) > 0 ? (int)(IDRS_ACCESS_BYTES / sizeof(PetscScalar)) : 1)

template <int W>
struct alignas(W * sizeof(PetscScalar) < IDRS_ACCESS_BYTES ? W * sizeof(PetscScalar) : IDRS_ACCESS_BYTES) IDRSPack {
  PetscScalar v[W];
};

/* The first row of this thread, and the distance to its next row */
template <int W>
static __device__ __forceinline__ size_t IDRSFirstRow()
{
  return ((size_t)blockIdx.x * IDRS_THREADS + threadIdx.x) * W;
}

template <int W>
static __device__ __forceinline__ size_t IDRSRowStride()
{
  return (size_t)gridDim.x * IDRS_THREADS * W;
}

/* Rows distributed over the threads of all blocks */
struct IDRSGridRows {
  template <int W>
  static __device__ __forceinline__ size_t First()
  {
    return IDRSFirstRow<W>();
  }

  template <int W>
  static __device__ __forceinline__ size_t Stride()
  {
    return IDRSRowStride<W>();
  }
};

/* Rows of one block, counted from 0. InWarp() returns true if any lane of this warp has a row < n, where this lane has row i */
struct IDRSBlockRows {
  template <int W>
  static __device__ __forceinline__ size_t First()
  {
    return (size_t)threadIdx.x * W;
  }

  template <int W>
  static __device__ __forceinline__ size_t Stride()
  {
    return (size_t)blockDim.x * W;
  }

  static __device__ __forceinline__ bool InWarp(size_t i, size_t n) { return i - threadIdx.x % IDRS_WARP < n; }
};

/* Returns rows [i, i+W) of x, with zeros from row n on */
template <int W>
static __device__ __forceinline__ IDRSPack<W> IDRSLoad(const PetscScalar *x, size_t i, size_t n)
{
  IDRSPack<W> p;

  if (i + W <= n) p = *reinterpret_cast<const IDRSPack<W> *>(x + i);
  else {
#pragma unroll
    for (int l = 0; l < W; l++) p.v[l] = i + l < n ? x[i + l] : (PetscScalar)0.0;
  }
  return p;
}

template <int W>
static __device__ __forceinline__ void IDRSStore(PetscScalar *x, size_t i, size_t n, const IDRSPack<W> &p)
{
  if (i + W <= n) *reinterpret_cast<IDRSPack<W> *>(x + i) = p;
  else {
#pragma unroll
    for (int l = 0; l < W; l++) {
      if (i + l < n) x[i + l] = p.v[l];
    }
  }
}

/* y += a x */
template <int W>
static __device__ __forceinline__ void IDRSAdd(IDRSPack<W> &y, PetscScalar a, const IDRSPack<W> &x)
{
#pragma unroll
  for (int l = 0; l < W; l++) y.v[l] += a * x.v[l];
}

/* x_i *= d_i */
template <int W>
static __device__ __forceinline__ void IDRSScaleEntries(IDRSPack<W> &x, const IDRSPack<W> &d)
{
#pragma unroll
  for (int l = 0; l < W; l++) x.v[l] *= d.v[l];
}

template <int W>
static __device__ __forceinline__ IDRSPack<W> IDRSZero()
{
  IDRSPack<W> p;

#pragma unroll
  for (int l = 0; l < W; l++) p.v[l] = 0.0;
  return p;
}

/* Returns the sum of |x_i|^2 over the pack */
template <int W>
static __device__ __forceinline__ PetscReal IDRSSquare(const IDRSPack<W> &x)
{
  PetscReal sum = 0.0;

#pragma unroll
  for (int l = 0; l < W; l++)
    sum += PetscRealPart(x.v[l]) * PetscRealPart(x.v[l]) + PetscImaginaryPart(x.v[l]) * PetscImaginaryPart(x.v[l]);
  return sum;
}
