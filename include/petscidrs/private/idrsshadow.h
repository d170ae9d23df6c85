/*
   The shadow space P as a function of seed, row and column. It needs no memory and no set-up, and is the same in every back end
   on any number of processes.

     P_ij = q / 2^16,   q odd, -2^16 < q < 2^16,   real in complex builds too

   A 16-bit field of a stateless hash selects q. The 64-bit global row and the seed give one pair of 32-bit numbers (z0,z1) for
   all columns. Columns 2m and 2m+1 share one multiply-add, w = z0 * multiplier(m) + z1. The even column uses the upper half of w,
   the odd column the upper half xor the lower half. Random signs would not suffice: their columns coincide on a sparse right-hand
   side.

   No PETSc call: compiled for host and device.
*/
#pragma once

#include <petscsystypes.h>

#if defined(__CUDACC__)
  #define IDRS_HOST_DEVICE __host__ __device__
#else
  #define IDRS_HOST_DEVICE
#endif

/* 2^-16, the unit of the entries of P: sums over integers q are scaled once, at the end, and exactly */
#define IDRS_SHADOW_UNIT (1.0 / 65536.0)

typedef struct {
  uint32_t z0, z1;
} IDRSShadowRow;

/* Finaliser of a 64-bit generator (splitmix64), which spreads the seed over all bits of the key */
static inline IDRS_HOST_DEVICE uint64_t IDRSShadowKey(uint64_t seed)
{
  seed += 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

static inline IDRS_HOST_DEVICE IDRSShadowRow IDRSShadowRowState(uint64_t key, uint64_t row)
{
  const uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32);
  uint32_t       x = low ^ (high * 0x9e3779b1u + (uint32_t)key);
  IDRSShadowRow  state;

  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  state.z0 = x * 0x846ca68bu;
  state.z0 ^= state.z0 >> 16;
  state.z1 = x * 0x9e3779b1u + high * 0x85ebca6bu + (uint32_t)(key >> 32);
  return state;
}

/* Returns the odd multiplier of columns 2 pair and 2 pair + 1. Its top bit is set, so that no pair has a small multiplier */
static inline IDRS_HOST_DEVICE uint32_t IDRSShadowMultiplier(uint32_t pair)
{
  uint32_t x = 0x9e3779b9u * (pair + 1);

  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x | 0x80000001u;
}

/* Return the 16-bit fields of the two columns of a pair */
static inline IDRS_HOST_DEVICE uint32_t IDRSShadowFieldEven(IDRSShadowRow state, uint32_t multiplier)
{
  return (state.z0 * multiplier + state.z1) >> 16;
}

static inline IDRS_HOST_DEVICE uint32_t IDRSShadowFieldOdd(IDRSShadowRow state, uint32_t multiplier)
{
  const uint32_t w = state.z0 * multiplier + state.z1;

  return (w >> 16) ^ (w & 0xffffu);
}

/* Returns q = 2 field - 65535, the entry of P in units of 2^-16 */
static inline IDRS_HOST_DEVICE int32_t IDRSShadowInteger(uint32_t field)
{
  return 2 * (int32_t)field - 65535;
}

/* Returns 2^16 P_ij of the even or odd column of a pair */
static inline IDRS_HOST_DEVICE int32_t IDRSShadowColumnInteger(IDRSShadowRow state, uint32_t multiplier, int odd)
{
  return IDRSShadowInteger(odd ? IDRSShadowFieldOdd(state, multiplier) : IDRSShadowFieldEven(state, multiplier));
}

/* Returns 2^16 P_ij */
static inline IDRS_HOST_DEVICE int32_t IDRSShadowEntry(uint64_t seed, uint64_t row, uint32_t column)
{
  return IDRSShadowColumnInteger(IDRSShadowRowState(IDRSShadowKey(seed), row), IDRSShadowMultiplier(column / 2), column % 2);
}
