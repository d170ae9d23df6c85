/*
   Exchange of the entries of several columns between processes: one scatter sends k numbers per row
*/
#pragma once

#include <petscsf.h>
#include <petscidrs/private/idrsproduct.h>

typedef struct _n_IDRSRowScatter {
  PetscSF      sf;      /* from the rows of X that other processes need to the ghosts of this process */
  PetscInt     count;   /* rows to send */
  PetscInt    *rows;    /* their numbers, in ascending order */
  PetscInt     nghosts; /* columns of the block outside the diagonal block */
  MPI_Datatype units[IDRS_MAX_WIDTH + 1];
} *IDRSRowScatter;

PETSC_INTERN PetscErrorCode IDRSRowScatterCreate(Mat, IDRSRowScatter *);
PETSC_INTERN PetscErrorCode IDRSRowScatterBegin(IDRSRowScatter, PetscInt, const PetscScalar[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSRowScatterEnd(IDRSRowScatter, PetscInt, const PetscScalar[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSRowScatterDestroy(IDRSRowScatter *);
