/*
   The entries of several columns that products need of other processes: k numbers a row travel together, in one scatter
*/
#pragma once

#include <petscsf.h>
#include <petscidrs/private/idrsproduct.h>

typedef struct _n_IDRSRowScatter {
  PetscSF      sf;      /* from those rows of X that other processes need to the ghosts of this one */
  PetscInt     count;   /* of those rows, */
  PetscInt    *rows;    /* and which ones they are, in ascending order */
  PetscInt     nghosts; /* columns of the block outside the diagonal one */
  MPI_Datatype units[IDRS_MAX_WIDTH + 1];
} *IDRSRowScatter;

PETSC_INTERN PetscErrorCode IDRSRowScatterCreate(Mat, IDRSRowScatter *);
PETSC_INTERN PetscErrorCode IDRSRowScatterBegin(IDRSRowScatter, PetscInt, PetscMemType, const PetscScalar[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSRowScatterEnd(IDRSRowScatter, PetscInt, const PetscScalar[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSRowScatterDestroy(IDRSRowScatter *);
