/*
   The data of PCBJIDRS, and what its files offer each other. Calls point one way: a file calls only files to its right

     bjidrs.c   { bjidrsset.c, bjidrsblocks.c, bjidrshost.c, bjidrscuda.cu }
*/
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrsblocklimits.h>
#include <petscidrs/private/idrsrelaunch.h>

/* Back ends: an application, which fills in the results of all systems */
typedef struct {
  const char *name; /* where it solves */
  PetscErrorCode (*apply)(PC, const IDRSBlockLimits *, Vec, Vec);
  PetscErrorCode (*matapply)(PC, const IDRSBlockLimits *, Mat, Mat);
} BJIDRSOps;

/* What the back end for GPUs keeps */
typedef struct _n_BJIDRSDevice *BJIDRSDevice;

/* Where the blocks come from */
typedef enum {
  BJIDRS_PATTERN,
  BJIDRS_VARIABLE,
  BJIDRS_NUMBER,
  BJIDRS_SIZES
} BJIDRSSource;

typedef struct {
  KSP inner; /* carries options, and does not solve */

  PetscInt  nasked; /* blocks of this process that the user wants, or none */
  PetscInt *sizes;  /* and their sizes, or NULL: all the same */

  Mat          A; /* the diagonal block of this process, which has the blocks */
  BJIDRSSource source;
  PetscInt     nblocks, largest;
  PetscInt    *starts;  /* nblocks + 1: first rows */
  Vec          inverse; /* diagonal of B^{-1}, or NULL */
  PetscInt     small;   /* rows that are scaled by their largest entry, see idrsdiagonal.h */
  BJIDRSDevice device;  /* NULL before the first application on a GPU to these blocks */

  /* of the last application: a system for each block, and for each column of a matrix all of them */
  const BJIDRSOps    *ops;
  PetscInt            nsystems, room;
  KSPConvergedReason *reasons;
  PetscInt           *its;
  PetscReal          *norms;
} PC_BJIDRS;

/* bjidrsset.c */
PETSC_INTERN PetscErrorCode BJIDRSGetInner_Private(PC, KSP *);
PETSC_INTERN PetscErrorCode BJIDRSGetLimits_Private(PC, IDRSBlockLimits *);
PETSC_INTERN PetscErrorCode BJIDRSComposeSetters_Private(PC, PetscBool);

/* bjidrsblocks.c */
PETSC_INTERN PetscErrorCode BJIDRSDestroyDevice_Private(PC_BJIDRS *);
PETSC_INTERN PetscErrorCode BJIDRSFindBlocks_Private(PC);

/* bjidrshost.c */
PETSC_INTERN const BJIDRSOps BJIDRSBackEnds_Host;

/* bjidrscuda.cu, where CUDA is compiled in */
PETSC_INTERN const BJIDRSOps BJIDRSBackEnds_CUDA;
PETSC_INTERN PetscErrorCode  BJIDRSDeviceDestroy_CUDA(BJIDRSDevice *);
PETSC_INTERN PetscErrorCode  BJIDRSRelaunch_CUDA(PC, void *);
