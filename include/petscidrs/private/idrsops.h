/*
   The contract between the solver and its back ends: four operations on the panels G and U (n x s), a few vectors and
   the numbers of IDRSSmall. n is the local length; the solver calls the functions IDRSXxx() below, which check, log, and
   make the one reduction over processes; they call the back end of the space through IDRSOps.

   operation    computes                                                     reads                 writes
   combine V    v   = r - G(:,k:e) c(k:e)                                    r, G(:,k:e)           v
   combine U    U_k = omega v + U(:,k:e) c(k:e),  v = B^{-1}v by now         v, U(:,k:e)           U_k
   combine VU   U_k = omega (r - G(:,k:e) c(k:e)) + U(:,k:e) c(k:e)          r, G(:,k:e), U(:,k:e) U_k
   project      P^H x, x^H x, and r^H r of the last update or advance        x                     -
   project      P^H x, x^H x, r^H r, P^H y, x^H y,  y = r                    x, y                  -
   update       G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,
                r -= beta_k G_k,  partial r^H r                              G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
     k = 0      r -= beta_0 G_0,  partial r^H r                              G_0, r                r
   advance      z += omega p + U beta(0:s),  r -= omega t,  partial r^H r,
                p = B^{-1}r before, or r itself                              z, p, U, t, r         z, r

   v is scratch for combine VU. Update and advance may go straight on to combine V or combine VU of the next step (k+1, or 0 after advance): what they
   hold already is not read again. Old columns are k:e; e = k in the first cycle, when G = U = 0 is not stored, else s.

   Without a preconditioner a cycle of s+1 products then moves 2s^2 + 8s + 4 vectors, besides the 2s+2 of the products.
*/
#pragma once

#include <petscvec.h>
#include <petscidrs.h>
#include <petscidrs/private/idrssmall.h>

typedef struct _n_IDRSSpace *IDRSSpace;

/* Which part of a combine: none, v alone, u from a preconditioned v, or both in one pass */
typedef enum {
  IDRS_COMBINE_NONE,
  IDRS_COMBINE_V,
  IDRS_COMBINE_U,
  IDRS_COMBINE_VU
} IDRSCombinePart;

typedef struct {
  const char *name;
  PetscBool   composed;                                    /* made of Vec calls: its sums are over all processes already, and the calls log themselves */
  PetscBool   device;                                      /* runs on a device: r^H r of an update stays there until the next projection */
  PetscErrorCode (*runs)(Vec, PetscInt s, const char *[]); /* NULL, or why it cannot run on such vectors */
  PetscErrorCode (*create)(IDRSSpace, Vec);                /* the panels, with a Vec for each column */
  PetscErrorCode (*destroy)(IDRSSpace);
  PetscErrorCode (*combine)(IDRSSpace, IDRSCombinePart, PetscInt k, PetscInt e, Vec r, Vec v);
  PetscErrorCode (*project)(IDRSSpace, Vec x, Vec y, Vec r, PetscScalar sums[]); /* y may be NULL; r for back ends that keep no partial sum */
  PetscErrorCode (*update)(IDRSSpace, PetscInt k, Vec r, IDRSCombinePart, PetscInt e, Vec v);
  PetscErrorCode (*advance)(IDRSSpace, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart, PetscInt e, Vec v); /* p may be NULL: r itself */
  PetscErrorCode (*order)(IDRSSpace);                                                                   /* work on other streams of the device before and after this call, or NULL */
} IDRSOps;

PETSC_INTERN const IDRSOps IDRSOps_Vec;
PETSC_INTERN const IDRSOps IDRSOps_Host;
#if PetscDefined(HAVE_CUDA)
PETSC_INTERN const IDRSOps IDRSOps_CUDA;
#endif

struct _n_IDRSSpace {
  const IDRSOps *backend;
  const char    *slower; /* why no faster back end runs; NULL when none is faster */
  MPI_Comm       comm;
  PetscMPIInt    size;
  PetscInt       s, n, rstart; /* columns, local rows, global index of the first */
  Vec           *G, *U;        /* columns of the panels */
  Vec           *P;            /* shadow vectors where they are stored: explicit ones, or the hashed ones of a back end that needs them so */
  PetscBool      hashed;       /* P, if stored at all, holds the hash */
  uint64_t       seed;
  void          *data; /* the back end's own */
  IDRSSmall      small;
  PetscScalar   *sums;                /* of the last projection, IDRS_SUMS(s) */
  PetscReal      rr;                  /* this process's part of r^H r after the last update or advance */
  PetscLogDouble reductions, vectors; /* reductions over processes, length-n vectors read and written by fused passes */
};

PETSC_EXTERN PetscErrorCode IDRSSpaceCreate(Vec, PetscInt, Vec[], KSPIDRSImplementation, IDRSSpace *);
PETSC_EXTERN PetscErrorCode IDRSSpaceDestroy(IDRSSpace *);
PETSC_EXTERN PetscErrorCode IDRSSpaceSetSeed(IDRSSpace, uint64_t);

PETSC_EXTERN PetscErrorCode IDRSCombine(IDRSSpace, IDRSCombinePart, PetscInt, PetscInt, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSProject(IDRSSpace, Vec, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSUpdate(IDRSSpace, PetscInt, Vec, IDRSCombinePart, PetscInt, Vec);
PETSC_EXTERN PetscErrorCode IDRSAdvance(IDRSSpace, Vec, Vec, Vec, Vec, IDRSCombinePart, PetscInt, Vec);
PETSC_EXTERN PetscErrorCode IDRSNorm(IDRSSpace, Vec, PetscReal *);
PETSC_EXTERN PetscErrorCode IDRSOrder(IDRSSpace);

PETSC_INTERN PetscErrorCode IDRSColumnsDestroy(PetscInt, Vec *[]);
PETSC_INTERN PetscErrorCode IDRSRegisterEvents(void);
PETSC_INTERN PetscErrorCode IDRSShadowFill(IDRSSpace, Vec[]);
