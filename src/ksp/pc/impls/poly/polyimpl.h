/*
   The data of PCPOLY, and the functions that its files share. A file calls only files to its right

     { poly.c, polyset.c }   polyspace.c   polypowers.c   { polyoperator.c, polyroots.c }
     polycuda.cu
*/
#pragma once

#include <petsc/private/pcimpl.h>
#include <petsc/private/kspimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrssettings.h>
#include <petscidrs/private/idrsmatching.h>
#include "polycopy.h"
#include "polysmooth.h"

#define PCPOLY_MAX_DEGREE 128

/*
   The scaling and permutation of the matrix; auto: by the diagonal, or, if it is weak and the polynomial is not for a smoother, the
   better of diagonal and matching. Coarse grids correct A, and not a permuted matrix
*/
typedef enum {
  PC_POLY_SCALING_AUTO,
  PC_POLY_SCALING_NONE,
  PC_POLY_SCALING_DIAGONAL,
  PC_POLY_SCALING_MATCHING
} PCPolyScaling;

/* Remarks of the set-up about the polynomial */
typedef enum {
  PCPOLY_AS_ASKED,
  PCPOLY_INDEFINITE, /* Ritz values lie on both sides of the imaginary axis: the degree is kept */
  PCPOLY_SPACE_ENDS, /* the Krylov space has no larger dimension: smaller degree */
  PCPOLY_HALF_PLANE, /* with a larger degree some of 1 - pi(Ritz value) are not in the right half plane: smaller degree */
  PCPOLY_INACCURATE, /* with a larger degree p(A)v loses accuracy: smaller degree */
  PCPOLY_JACOBI,     /* no polynomial found reduces v: p = 1 */
  PCPOLY_NOT_FINITE, /* failure: D^{-1}A v has an Inf or NaN */
  PCPOLY_SINGULAR    /* failure: no polynomial reduces v */
} PCPolyRemark;

/*
   pi(z) = 1 - z p(z) = prod (1 - z / roots_i), and p(z) = p(0) prod (1 - z / factors_i), in Leja order. The degree is the degree of
   pi, 0 for no polynomial. Roots at infinity are omitted
*/
typedef struct {
  PetscInt    degree, nroots, nfactors;
  IDRSRoot    roots[PCPOLY_MAX_DEGREE], factors[PCPOLY_MAX_DEGREE];
  PetscScalar p0; /* p(0) */
  /* ||pi(D^{-1}A) v|| / ||v|| for the start vector v, predicted by its Krylov space; negative if it is not known */
  PetscReal    residual;
  PetscInt     dimension; /* of the Krylov space; 0 for none */
  PetscBool    range;     /* v has been multiplied by D^{-1}A, whose null space is in the Krylov space of v */
  PCPolyRemark remark;
} PCPolynomial;

/*
   A Krylov space of D^{-1}A with an orthonormal basis of m columns, q_0 the start vector over its norm:

     D^{-1}A Q_m = Q_{m+1} H,   or Q_m H if the space is invariant

   H has leading dimension m + 1, and a last row of zeros if the space is invariant
*/
typedef struct {
  PetscInt     m;
  PetscBool    invariant;
  PetscBool    range; /* the start vector has been multiplied by D^{-1}A */
  PetscScalar *H;
  PetscInt     nritz, zeros;
  IDRSRoot    *ritz; /* nritz Ritz values: the eigenvalues of the first m rows of H, except zeros. None if LAPACK fails */
} PCPolySpace;

/* D^{-1}A; A is the permuted and scaled matrix A~ = P Dr A Dc if there is a matching */
typedef struct {
  Mat          A;
  IDRSMatching matching; /* or NULL */
  Vec          input;    /* with a matching, diagonal of D^{-1} P Dr P^T: an application begins with D^{-1} P Dr x; else NULL */
  Vec          inverse;  /* diagonal of D^{-1}, see idrsrows.h; NULL if A is not scaled by its diagonal */
  Vec          w, t;     /* work vectors: of the factors, of the product */
  PCPolyCopy   copy;     /* NULL if products are by MatMult() */
} PCPolyOperator;

/* Coefficients of steps of matrix powers; one more than p has factors */
typedef struct {
  PetscInt    k;
  PetscScalar gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE];
} PCPolySteps;

/* Vectors of the set-up. The first is the start vector of this seed; -1 if a set-up has overwritten it */
typedef struct {
  PetscInt count, seed;
  Vec     *K;
  void    *memory;
} PCPolyVecs;

typedef struct {
  /* Settings */
  PetscInt        degree;
  PetscInt        seed;      /* of the start vector */
  PetscBool       reuse;     /* keep the polynomial when A changes */
  PetscBool       smoother;  /* the start vector is multiplied by D^{-1}A */
  PCPolyPrecision precision; /* of the values of the copy */
  PCPolyScaling   scaling;   /* of the matrix, as requested */
  PetscInt        nuser;     /* roots set by the user */
  IDRSRoot       *user;
  PCPolyOperator  op;         /* its A is pc->pmat at the set-up, or matched */
  PetscObjectId   pmatid;     /* of pc->pmat at the set-up */
  Mat             matched;    /* the permuted and scaled matrix of a matching, or NULL */
  PetscInt        small;      /* rows of all processes that are scaled by their largest entry */
  PetscBool       weak;       /* auto: the diagonal is weak, so that a matching may be better */
  Vec             staged;     /* replaces vectors of another type or memory than op.w, or NULL */
  Vec             diagonal;   /* D, for residuals of a smoother with a copy; or NULL */
  Vec             scaled;     /* D^{-1}b of a smoother, or without a copy its residual; or NULL */
  PCPolyVecs      vecs;       /* kept for new values if they are small, see PCPolySetUpRest_Private() */
  PCPolySteps     steps;      /* of the polynomial below */
  IDRSPolynomial  polynomial; /* for kernels of a solver */
  const char     *nocopy;     /* the reason why there is no copy, or NULL */
  const char     *nomatching; /* the reason why there is no matching, or NULL */
  /* The polynomial */
  PCPolynomial p;
  PetscReal    seen;                                         /* the residual of p as computed */
  PetscReal    re[PCPOLY_MAX_DEGREE], im[PCPOLY_MAX_DEGREE]; /* the roots, for PCPolyGetRoots() */
} PC_Poly;

PETSC_INTERN PetscErrorCode PCCreate_Poly(PC);

/* polyset.c */
PETSC_INTERN void           PCPolyChanged_Private(PC);
PETSC_INTERN PetscErrorCode PCPolyComposeSetters_Private(PC, PetscBool);

/* polyspace.c */
PETSC_INTERN PetscErrorCode PCPolySpaceCreate_Private(const PCPolyOperator *, PetscBool, PetscInt, Vec[], PCPolySpace *);
PETSC_INTERN PetscErrorCode PCPolySpaceDestroy_Private(PCPolySpace *);

/* polyoperator.c */
PETSC_INTERN PetscErrorCode PCPolySetUpOperator_Private(PC, PetscBool);
PETSC_INTERN PetscErrorCode PCPolyCreateMatching_Private(PC, PetscBool);
PETSC_INTERN PetscErrorCode PCPolyDestroyMatching_Private(PC);
PETSC_INTERN PetscErrorCode PCPolyScale_Private(const PCPolyOperator *, PetscBool, Vec, Vec);
PETSC_INTERN PetscErrorCode PCPolyMultiplyAdd_Private(const PCPolyOperator *, PCPolyCopy, PetscBool, const PCPolyProduct *);

/* polypowers.c */
PETSC_INTERN PetscErrorCode PCPolySetUpCopy_Private(PC, PCPolyPrecision);
PETSC_INTERN PetscErrorCode PCPolyGetPowers_Private(const PCPolyOperator *, Vec, Vec, const IDRSPowersOps **);
PETSC_INTERN PetscErrorCode PCPolyGetPolynomial_Private(PC, Vec, const IDRSPolynomial **);
PETSC_INTERN PetscErrorCode PCPolyEvaluatePowers_Private(const IDRSPowersOps *, const PCPolyOperator *, const PCPolynomial *,
                                                         PetscBool, Vec, Vec, Vec);
PETSC_INTERN PetscErrorCode PCPolyHasVec_Private(PC, Vec, PetscBool *);
PETSC_INTERN PetscErrorCode PCPolyFusedRuns_Private(PC, Vec, PetscBool *);
PETSC_INTERN PetscErrorCode PCPolyFusedApply_Private(PC, PetscScalar, Vec, PetscBool, Vec, Vec);
PETSC_INTERN PetscErrorCode PCApplyBA_Poly(PC, PCSide, Vec, Vec, Vec);
PETSC_INTERN PetscErrorCode PCPolyCopySetUp_Private(const PCPolyOperator *, PetscBool, PCPolyPrecision, PCPolyCopy *,
                                                    const char *[]);
PETSC_INTERN PetscErrorCode PCPolyCopyDestroy_Private(PCPolyCopy *);

/* polyroots.c */
PETSC_INTERN void           PCPolyNewtonBasis_Private(PetscInt, const IDRSRoot[], PetscReal, PetscInt, PetscScalar[]);
PETSC_INTERN PetscErrorCode PCPolyFromRoots_Private(PetscInt, const IDRSRoot[], PCPolynomial *);
PETSC_INTERN PetscErrorCode PCPolyFromSpace_Private(const PCPolySpace *, PetscInt, PCPolynomial *);
PETSC_INTERN PetscErrorCode PCPolyRitzValues_Private(PCPolySpace *);
PETSC_INTERN void           PCPolyDropZeros_Private(PCPolySpace *);
PETSC_INTERN PetscReal      PCPolyLeastRealPart_Private(const PCPolynomial *, PetscInt, const IDRSRoot[]);
