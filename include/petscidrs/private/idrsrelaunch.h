/*
   The last application of PCBJIDRS on a GPU once more, as nothing but its launch: benchmarks put several of them on streams. The PC
   composes the function by this name:

     IDRS_RELAUNCH    launches on a cudaStream_t, with the values and vectors of then, which must be where they were, and does not
                      wait
*/
#pragma once

#include <petscpc.h>

#define IDRS_RELAUNCH "IDRSRelaunch_C"

typedef PetscErrorCode IDRSRelaunchFn(PC, void *);
