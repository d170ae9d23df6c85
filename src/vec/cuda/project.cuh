/*
   project:  P^H x, x^H x and, with a y, P^H y, x^H y, y^H y; the block that finishes last adds the sums of all blocks, and
   those of r^H r that the last update or advance left behind, and writes them where the host can read them, or goes on
   with the algebra that follows

   One thread owns a pack of rows and S columns of the hashed shadow space, whose entries are computed where they are used:
   the 16 bits of an entry go into the mantissa of a number between 1 and 2, from which a constant is subtracted, so that no
   integer is converted. The sums are scaled once, at the end, and exactly. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsshadow.h>
#include "next.cuh"
#include "rows.cuh"
#include "reduce.cuh"

/* Columns that one launch takes; the first column is then known to the compiler unless there are more */
#define IDRS_COLUMNS_AT_ONCE 16

/*
   The entries of P in a row and the two columns of a pair, from the fields f in the two halves of w and of w folded:
   (2 f - 65535) 2^-21, or 2^-17 in single precision; P_ij is that times IDRS_FIELD_SCALE
*/
#if PetscDefined(USE_REAL_SINGLE)
  #define IDRS_FIELD_SCALE 2.0f
static __device__ __forceinline__ void IDRSPair(const IDRSShadowRow &row, uint32_t multiplier, PetscReal *even, PetscReal *odd)
{
  *even = __uint_as_float(0x3f800040u | (IDRSShadowFieldEven(row, multiplier) << 7)) - 1.5f;
  *odd  = __uint_as_float(0x3f800040u | (IDRSShadowFieldOdd(row, multiplier) << 7)) - 1.5f;
}
#else
  #define IDRS_FIELD_SCALE 32.0
static __device__ __forceinline__ void IDRSPair(const IDRSShadowRow &row, uint32_t multiplier, PetscReal *even, PetscReal *odd)
{
  constexpr PetscReal middle = 1.0 + 1.0 / 32.0 - 1.0 / 2097152.0;
  const uint32_t      w      = row.z0 * multiplier + row.z1;
  const uint32_t      high   = __byte_perm(w, 0x3ff00000u, 0x7632); /* 0x3ff0, then the upper half of w */

  *even = __hiloint2double((int)high, 0) - middle;
  *odd  = __hiloint2double((int)(high ^ (w & 0xffffu)), 0) - middle;
}
#endif

/* Where the sums go; lengths as in idrsscalars.h, columns first ... first + S - 1 of s */
typedef struct {
  PetscScalar  *partials; /* of this kernel: (2 S + 1) x blocks */
  PetscReal    *squares;  /* of this kernel: 2 x blocks */
  PetscReal    *rr;       /* of the last update or advance: rrblocks */
  unsigned int  rrblocks;
  unsigned int *ticket;
  PetscScalar  *sums;     /* on the host, or on the device */
  uint64_t     *arrived;  /* on the host, set to sequence once the sums are there */
  uint64_t      sequence; /* 0: more launches follow */
} IDRSSums;

template <int S>
struct IDRSColumns {
  const PetscScalar *a[S];
};

/*
   Blocks that a multiprocessor is to hold, for kernels of so many inner products: the algebra that the last block alone does must
   not take registers from the many
*/
static constexpr int IDRSBlocksAtOnce(int products)
{
  return sizeof(PetscScalar) > 8 || products > 16 ? 1 : (products > 8 ? 3 : 4);
}

/*
   Kernel for s - first columns, at most S, and for a y or none. Explicit columns of P come from P.a, the hashed ones from key
   and the global row.
*/
template <int S, int W, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSProjectKernel(size_t n, int s, int first, uint64_t key, uint64_t rstart, IDRSColumns<S> P, const PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSContinuation how)
{
  constexpr int          dots = Y ? 2 * S + 1 : S, squares = Y ? 2 : 1;
  __shared__ PetscScalar shared[dots * IDRS_WARPS];
  __shared__ PetscReal   sharedsquares[squares * IDRS_WARPS];
  __shared__ PetscScalar room[IDRS_STORAGE(S)];
  PetscScalar           *storage = NULL;
  PetscScalar            sum[dots];
  PetscReal              square[squares];
  const int              columns = s - first < S ? s - first : S;
  const bool             known   = Y && !(how.next.start && how.next.k == s); /* y is r as the last pass has left it: r^H r is y^H y */

  IDRSAdmitNext();
  IDRSAwaitPrevious();
  if (how.result && how.result->stopped) return;
#pragma unroll
  for (int j = 0; j < dots; j++) sum[j] = 0.0;
#pragma unroll
  for (int j = 0; j < squares; j++) square[j] = 0.0;

  for (size_t i = ((size_t)blockIdx.x * IDRS_THREADS + threadIdx.x) * W; i < n; i += (size_t)gridDim.x * IDRS_THREADS * W) {
    const IDRSPack<W> xi = IDRSLoad<W>(x, i, n);
    IDRSPack<W>       yi = IDRSZero<W>();

    if (Y) yi = IDRSLoad<W>(y, i, n);
#pragma unroll
    for (int l = 0; l < W; l++) {
      if (HASHED) {
        const IDRSShadowRow row = IDRSShadowRowState(key, rstart + i + l);

#pragma unroll
        for (int j = 0; j < S; j += 2) {
          PetscReal even, odd;

          IDRSPair(row, IDRSShadowMultiplier((uint32_t)(((S < IDRS_COLUMNS_AT_ONCE ? 0 : first) + j) / 2)), &even, &odd);
          sum[j] += even * xi.v[l];
          if (Y) sum[S + j] += even * yi.v[l];
          if (j + 1 < S) {
            sum[j + 1] += odd * xi.v[l];
            if (Y) sum[S + j + 1] += odd * yi.v[l];
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < S; j++) {
          if (j < columns && i + l < n) {
            const PetscScalar p = PetscConj(P.a[j][i + l]);

            sum[j] += p * xi.v[l];
            if (Y) sum[S + j] += p * yi.v[l];
          }
        }
      }
      if (Y) sum[2 * S] += PetscConj(xi.v[l]) * yi.v[l];
    }
    square[0] += IDRSSquare<W>(xi);
    if (Y) square[1] += IDRSSquare<W>(yi);
  }
  IDRSBlockSum<dots>(sum, shared, out.partials);
  IDRSBlockSum<squares>(square, sharedsquares, out.squares);
  if (!IDRSLastBlock(out.ticket)) return;

  if (how.storage) {
    storage  = IDRSGetNumbers<S>(how, s, room);
    out.sums = storage + IDRS_STORAGE_SUMS(s);
  }
  /* some lanes a sum; those of columns that are not there are dropped */
  for (int begin = 0; begin < dots + squares + 1; begin += IDRS_SUMS_AT_ONCE) {
    const int          j       = begin + threadIdx.x / IDRS_LANES_A_SUM;
    const PetscScalar *scalars = NULL;
    const PetscReal   *reals   = NULL;
    unsigned int       blocks  = gridDim.x;
    PetscReal          scale   = 1.0;
    int                place   = -1;
    PetscScalar        total;

    if (j < dots) {
      scalars = out.partials + (size_t)j * blocks;
      if (HASHED && j < 2 * S) scale = (PetscReal)IDRS_FIELD_SCALE;
      if (Y && j == 2 * S) place = IDRS_SUM_XY(s);
      else if (j % S < columns) place = (j < S ? 0 : IDRS_SUM_PY(s)) + first + j % S;
    } else if (j < dots + squares) {
      reals = out.squares + (size_t)(j - dots) * blocks;
      place = j == dots ? IDRS_SUM_XX(s) : IDRS_SUM_YY(s);
    } else if (j == dots + squares && !known) {
      reals  = out.rr;
      blocks = out.rrblocks;
      place  = IDRS_SUM_RR(s);
    }
    total = IDRSPartialSum(scalars, reals, place < 0 ? 0 : blocks);
    if (place >= 0 && threadIdx.x % IDRS_LANES_A_SUM == 0) {
      out.sums[place] = scale * total;
      if (known && place == IDRS_SUM_YY(s)) out.sums[IDRS_SUM_RR(s)] = total;
    }
  }
  if (how.result) {
    if (how.storage && out.sequence) IDRSGoOn<S, Y>(how, s, storage);
    return;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && out.sequence) *(volatile uint64_t *)out.arrived = out.sequence;
}
