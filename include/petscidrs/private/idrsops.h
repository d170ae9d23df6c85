/*
   The contract between the solver and its back ends: four operations on the panels G and U (n x s), a few vectors and
   the numbers of IDRSScalars. n is the local length; the solver calls the functions IDRSXxx() below, which check, log, and
   make the one reduction over processes; they call the back end of the space through IDRSOps.

   operation    computes                                                     reads                 writes
   combine V    v   = r - G(:,k:s) c(k:s),  v = r too                        r, G(:,k:s)           v
   combine U    U_k = omega v + U(:,k:s) c(k:s),  v = B^{-1}v by now         v, U(:,k:s)           U_k
   combine VU   U_k = omega (r - G(:,k:s) c(k:s)) + U(:,k:s) c(k:s)          r, G(:,k:s), U(:,k:s) U_k
   project      P^H x, x^H x, and r^H r of the last update or advance        x                     -
   project      P^H x, x^H x, that r^H r, P^H y, x^H y, y^H y                x, y                  -
   update       G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,
                r -= beta_k G_k,  partial r^H r                              G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
     k = 0      r -= beta_0 G_0,  partial r^H r                              G_0, r                r
     start      the same, with G_k as it was in  r -= beta_k G_k             G(:,0:k+1), U(:,0:k+1), r    G_k, U_k, r
   advance      z += omega p + U beta(0:s),  r -= omega t,  partial r^H r,
                p = B^{-1}r before, or r itself                              z, p, U, t, r         z, r

   In the second kind of projection y is r, and y^H y may stand for that r^H r, but for the omega step that ends the start, where r has changed in between.

   v is scratch for combine VU. Update and advance may go straight on to combine V or combine VU of the next step (k+1, or 0 after advance): what they
   hold already is not read again. In the start, when there are no columns from k+1 on, that is v = r - G(:,0:k+1) c(0:k+1), or U_{k+1} = that.

   A back end on a device may go on with the algebra of idrsscalars.h by itself, so that the host runs ahead of the device: the
   numbers are then there (IDRSSend()), and projections are given an IDRSNext. Their results are collected in order, one by one
   and later. A projection whose sums the host must see stops the device: all operations after it do nothing until the
   storage, and these sums, have been fetched back.

   Without a preconditioner a cycle of s+1 products then moves 2s^2 + 8s + 4 vectors, besides the 2s+2 of the products.
*/
#pragma once

#include <petscvec.h>
#include <petscidrs.h>
#include <petscidrs/private/idrsscalars.h>

typedef struct _n_IDRSWork *IDRSWork;

/* Which part of a combine: none, v alone, u from a preconditioned v, or both in one pass */
typedef enum {
  IDRS_COMBINE_NONE,
  IDRS_COMBINE_V,
  IDRS_COMBINE_U,
  IDRS_COMBINE_VU
} IDRSCombinePart;

/* The operations that PETSc logs, and what they have moved and taken */
typedef enum {
  IDRS_COMBINE,
  IDRS_PROJECT,
  IDRS_UPDATE,
  IDRS_ADVANCE,
  IDRS_OPERATIONS
} IDRSOperation;

typedef struct {
  PetscLogDouble calls, vectors; /* vectors of length n, read and written */
  PetscLogDouble seconds;        /* on a device, where PETSc measures them */
} IDRSTraffic;

/* What a projection on a device goes on with, and which results are for the host */
typedef struct {
  PetscInt  k;         /* step, or s for the omega step */
  PetscBool start;     /* in the start of the recurrence, or the omega step that ends it */
  PetscBool pending;   /* r^H r is that of an iteration */
  PetscReal low, high; /* if its root is not between these, the host is to see it */
  PetscReal cosine;    /* for omega */
} IDRSNext;

/* Inner products that travel with the sums of the next projection, if any: x^H x, x^H y, y^H y */
enum {
  IDRS_RIDER_XX,
  IDRS_RIDER_XY,
  IDRS_RIDER_YY,
  IDRS_RIDERS
};

typedef struct {
  const char *name;
  PetscBool   composed;                                    /* made of Vec calls: its sums are over all processes already, and the calls log themselves */
  PetscBool   device;                                      /* runs on a device: r^H r of an update stays there until the next projection */
  PetscErrorCode (*runs)(Vec, PetscInt s, const char *[]); /* NULL, or why it cannot run on such vectors */
  PetscErrorCode (*create)(IDRSWork, Vec);                 /* the panels, with a Vec for each column */
  PetscErrorCode (*connect)(IDRSWork, const char *[]);     /* the devices of all processes, for reductions between them; or why that cannot be; NULL where there are none */
  PetscErrorCode (*lost)(IDRSWork, PetscBool *);           /* have the devices lost each other since? Or NULL */
  PetscErrorCode (*destroy)(IDRSWork);
  PetscErrorCode (*combine)(IDRSWork, IDRSCombinePart, PetscInt k, Vec r, Vec v);
  PetscErrorCode (*project)(IDRSWork, Vec x, Vec y, Vec r, const IDRSNext *); /* y may be NULL; r for back ends that keep no partial sum */
  PetscErrorCode (*update)(IDRSWork, PetscInt k, PetscBool start, Vec r, IDRSCombinePart, Vec v);
  PetscErrorCode (*advance)(IDRSWork, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart, Vec v); /* p may be NULL: r itself */
  PetscErrorCode (*order)(IDRSWork);                                                       /* work on other streams of the device before and after this call, or NULL */
  PetscErrorCode (*send)(IDRSWork);                                                        /* the numbers to the device; NULL where the host does the algebra */
  PetscErrorCode (*collect)(IDRSWork, PetscReal *rnorm, PetscBool *stopped);               /* result of the first projection that is outstanding, waiting for it */
  PetscErrorCode (*fetch)(IDRSWork);                                                       /* the numbers back from the device, waiting for all that it does */
  PetscErrorCode (*copyspeed)(IDRSWork, PetscReal *);                                      /* bytes a second, read and written, that the device copies; or NULL */
} IDRSOps;

PETSC_INTERN const IDRSOps IDRSOps_Vec;
PETSC_INTERN const IDRSOps IDRSOps_Host;
PETSC_INTERN const IDRSOps IDRSOps_CUDA; /* where PETSCIDRS_HAVE_CUDA says so */

struct _n_IDRSWork {
  const IDRSOps *backend;
  const char    *slower;      /* why no faster back end runs; NULL when none is faster */
  const char    *throughhost; /* why reductions do not go from device to device; NULL where they do, or need not be made */
  MPI_Comm       comm;
  PetscMPIInt    size;
  PetscInt       s, n, rstart; /* columns, local rows, global index of the first */
  Vec           *G, *U;        /* columns of the panels */
  Vec           *P;            /* shadow vectors where they are stored: explicit ones, or the hashed ones of a back end that needs them so */
  PetscBool      hashed;       /* P, if stored at all, holds the hash */
  uint64_t       seed;
  void          *data;    /* the back end's own */
  PetscScalar   *storage; /* of small */
  IDRSScalars    scalars;
  PetscBool      ahead;       /* the numbers of small are on the device, and projections are given an IDRSNext */
  PetscInt       outstanding; /* such projections whose results have not been collected */
  PetscReal      rr;          /* this process's part of r^H r after the last update or advance */
  PetscBool      riding;      /* riders[] are this process's parts, and to be added up with the next sums; else over all processes */
  PetscScalar    riders[IDRS_RIDERS];
  PetscLogDouble reductions;               /* over processes */
  PetscReal      timeout;                  /* seconds that the host waits for the devices of other processes */
  IDRSTraffic    traffic[IDRS_OPERATIONS]; /* of fused passes */
};

PETSC_EXTERN PetscErrorCode IDRSWorkCreate(Vec, PetscInt, Vec[], KSPIDRSImplementation, KSPIDRSCommunication, IDRSWork *);
PETSC_EXTERN PetscErrorCode IDRSWorkDestroy(IDRSWork *);
PETSC_EXTERN PetscErrorCode IDRSWorkSetSeed(IDRSWork, uint64_t);

PETSC_EXTERN PetscErrorCode    IDRSCombine(IDRSWork, IDRSCombinePart, PetscInt, Vec, Vec);
PETSC_EXTERN PetscErrorCode    IDRSProject(IDRSWork, Vec, Vec, Vec, const IDRSNext *);
PETSC_EXTERN PetscErrorCode    IDRSUpdate(IDRSWork, PetscInt, PetscBool, Vec, IDRSCombinePart, Vec);
PETSC_EXTERN PetscErrorCode    IDRSAdvance(IDRSWork, Vec, Vec, Vec, Vec, IDRSCombinePart, Vec);
PETSC_EXTERN PetscErrorCode    IDRSRide(IDRSWork, Vec, Vec);
PETSC_EXTERN PetscErrorCode    IDRSNorm(IDRSWork, Vec, PetscReal *);
PETSC_EXTERN PetscErrorCode    IDRSOrder(IDRSWork);
PETSC_EXTERN PetscErrorCode    IDRSSend(IDRSWork);
PETSC_EXTERN PetscErrorCode    IDRSCollect(IDRSWork, PetscReal *, PetscBool *);
PETSC_EXTERN PetscErrorCode    IDRSFetch(IDRSWork);
PETSC_EXTERN PetscLogDouble    IDRSGpuSeconds(void);
PETSC_EXTERN const char *const IDRSOperations[];

PETSC_INTERN PetscErrorCode IDRSWorkCheckMemory(IDRSWork, const PetscLogDouble[]);
PETSC_INTERN PetscErrorCode IDRSColumnsDestroy(PetscInt, Vec *[]);
PETSC_INTERN PetscErrorCode IDRSRegisterEvents(void);
PETSC_INTERN PetscErrorCode IDRSColumnInherit(Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSOnDevice(Vec, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSGhosted(Vec, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSShadowFill(IDRSWork, Vec[]);
