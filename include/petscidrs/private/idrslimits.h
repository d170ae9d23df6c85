/*
   Arithmetic at the limits of integers, as functions that tests call with numbers of systems that are too large for a test. No
   PETSc call: compiled for host and device.
*/
#pragma once

#include <petscsys.h>
#include <petscidrs/private/idrsshadow.h>

/*
   Returns PETSC_TRUE if PetscInt can count the messages of a halo that arrive on this process, and if MPI can count the numbers
   that this process sends and receives to set up the halo
*/
static inline PetscBool IDRSHaloFits(PetscInt64 messages, PetscInt64 sent, PetscInt64 received)
{
  return messages <= PETSC_MAX_INT && sent <= INT32_MAX && received <= INT32_MAX ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Returns the number of the next exchange between processes. Odd and even numbers alternate, because they have separate memory. 0
   is the number of memory without a message. So 2 follows the largest number
*/
static inline uint32_t IDRSNextExchange(uint32_t number)
{
  return number < UINT32_MAX ? number + 1 : 2;
}

/* More exchanges than are in flight at the same time */
#define IDRS_EXCHANGES_AHEAD 65536u

/* Returns PETSC_TRUE if a message with this number belongs to an exchange or to a later one. Older numbers are further away */
static inline IDRS_HOST_DEVICE PetscBool IDRSMessageIsOfOrLater(uint32_t message, uint32_t exchange)
{
  return message && message - exchange < IDRS_EXCHANGES_AHEAD ? PETSC_TRUE : PETSC_FALSE;
}
