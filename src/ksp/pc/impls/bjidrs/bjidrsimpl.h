/*
   The data of PCBJIDRS, and its back ends
*/
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrssettings.h>
#include <petscidrs/private/idrssystemlimits.h>

typedef struct _n_PC_BJIDRS PC_BJIDRS;

/* Back ends. `solve` sets the results of all systems. `reset` frees copies of the first rows of the blocks and dependent data */
typedef struct {
  const char *name; /* memory in which it solves */
  PetscErrorCode (*solve)(PC, const IDRSSystemLimits *, const IDRSArrays *);
  PetscErrorCode (*reset)(PC_BJIDRS *);
} BJIDRSOps;

/* Memory of the back end for GPUs */
typedef struct _n_BJIDRSDevice *BJIDRSDevice;

struct _n_PC_BJIDRS {
  KSP inner; /* has the options; never solves */

  PetscInt nasked; /* requested number of blocks of the same size on this process, or 0 */

  Mat          A;      /* the diagonal block of the matrix on this process */
  const char  *source; /* of the blocks, for the view */
  PetscInt     nblocks, largest;
  PetscInt    *starts;  /* nblocks + 1: first rows */
  Vec          inverse; /* diagonal of B^{-1}, or NULL */
  PetscInt     small;   /* rows that are scaled by their largest entry, see idrsrows.h */
  BJIDRSDevice device;  /* NULL before the first application on a GPU with these blocks */

  /* of the last application: one system for each block and each column */
  const BJIDRSOps    *ops;
  PetscInt            nsystems, room;
  KSPConvergedReason *reasons;
  PetscInt           *its;
  PetscReal          *norms;
};

/* bjidrshost.c */
PETSC_INTERN const BJIDRSOps BJIDRSBackEnds_Host;

/* bjidrscuda.cu, if CUDA is compiled in */
PETSC_INTERN const BJIDRSOps BJIDRSBackEnds_CUDA;
