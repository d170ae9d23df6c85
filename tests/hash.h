/* Numbers without a pattern, the same on any number of processes */
#pragma once

#include "harness.h"

static inline uint64_t Bits(uint64_t j, uint64_t i)
{
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + j * 0xd1342543de82ef95u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/*
   Returns number i of sequence j, within [-1,1]. Its digits are so many that products of two are rounded: with fewer digits a fused
   multiply-add would have the same result as separate operations
*/
static inline PetscScalar Number(uint64_t j, uint64_t i)
{
  const PetscReal unit = (PetscReal)(UINT64_C(1) << 52), re = (PetscReal)(Bits(2 * j, i) >> 11) / unit - (PetscReal)1.0;
#if PetscDefined(USE_COMPLEX)
  const PetscReal im = (PetscReal)(Bits(2 * j + 1, i) >> 11) / unit - (PetscReal)1.0;

  return PetscCMPLX(re, im);
#else
  return re;
#endif
}

/* Sets entries to the numbers of this sequence, by the global row or the local one */
static inline PetscErrorCode VecSetNumbers(Vec x, PetscInt sequence, PetscBool global)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = 0; i < end - begin; i++) array[i] = Number((uint64_t)sequence, (uint64_t)(i + (global ? begin : 0)));
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   65536 P_ij of the hashed shadow space, implemented a second time, from its publication and not like the library. The table in
   ops_shadow.c, from a program in another language, checks both.
*/
static inline uint32_t Mix(uint32_t x)
{
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ x >> 16;
}

static inline int32_t Shadow(uint64_t seed, uint64_t row, PetscInt j)
{
  uint64_t key = seed + 0x9e3779b97f4a7c15u;
  uint32_t low = (uint32_t)row, high = (uint32_t)(row >> 32), x, z0, z1, w, a;

  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
  key = (key ^ key >> 27) * 0x94d049bb133111ebu;
  key ^= key >> 31;
  x = low ^ (high * 0x9e3779b1 + (uint32_t)key);
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  z0 = x * 0x846ca68b;
  z1 = x * 0x9e3779b1 + high * 0x85ebca6b + (uint32_t)(key >> 32);
  z0 ^= z0 >> 16;
  w = z0 * (Mix(0x9e3779b9 * (uint32_t)(j / 2 + 1)) | 0x80000001) + z1;
  a = w >> 16;
  return 2 * (int32_t)(j % 2 ? a ^ (w & 0xffff) : a) - 65535;
}
