/*
   Setters and getters of PCPOLY
*/
#include "polyimpl.h"

/* PCPolyChanged_Private - Makes the next set-up compute the polynomial again, even if it would be kept for another matrix */
void PCPolyChanged_Private(PC pc)
{
  ((PC_Poly *)pc->data)->p.degree = 0;
  pc->setupcalled                 = PETSC_FALSE;
}

/*@
  PCPolySetDegree - Sets the degree of A p(A), the number of products that an iteration with `PCPOLY` makes

  Logically Collective

  Input Parameters:
+ pc     - the preconditioner context
- degree - the degree, 1 to 128 (default 8)

  Options Database Key:
. -pc_poly_degree degree - the degree

  Level: intermediate

  Note:
  An application needs degree - 1 products, and the operator of the Krylov method one more. If the polynomial of this degree fails
  the checks of the set-up, see `PCPOLY`, the set-up chooses a smaller degree, which `PCPolyGetDegree()` and `-ksp_view` show. With
  `PCPolySetRoots()` the degree is the number of roots.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetDegree()`
@*/
PetscErrorCode PCPolySetDegree(PC pc, PetscInt degree)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveInt(pc, degree, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(degree >= 1 && degree <= PCPOLY_MAX_DEGREE, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
             "-%spc_poly_degree %" PetscInt_FMT ": the degree must be in 1 to %d", IDRSPrefix(pc), degree, PCPOLY_MAX_DEGREE);
  if (degree != poly->degree) PCPolyChanged_Private(pc);
  poly->degree = degree;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolyGetDegree - Gets the degree of A p(A) of `PCPOLY`, as requested and as used

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ degree - the requested degree, or `NULL`
- used   - the degree of the polynomial in use, 0 before the first set-up and after a failed one, or `NULL`

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetDegree()`
@*/
PetscErrorCode PCPolyGetDegree(PC pc, PetscInt *degree, PetscInt *used)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  if (degree) *degree = poly->degree;
  if (used) *used = poly->p.degree;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolySetRoots - Sets the roots of the residual polynomial of `PCPOLY`

  Logically Collective

  Input Parameters:
+ pc - the preconditioner context
. n  - number of roots, 1 to 128, which is the degree of A p(A)
. re - real parts
- im - imaginary parts, or `NULL` for real roots

  Level: intermediate

  Notes:
  The residual polynomial is $\pi(z) = 1 - z p(z) = \prod_i (1 - z / \theta_i)$ with the roots $\theta_i$. Its argument is
  $D^{-1}A$, where D is the diagonal of A, unless `-pc_poly_scaling` is `none` or `matching`. Roots may be
  repeated, may have any order, and must be the same on all processes. They must be finite and must not be zero. With real scalars
  each complex root needs its conjugate.

  The arrays are copied. The set-up does not check the polynomial of these roots; `-ksp_view` shows its residual for the start
  vector.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetRoots()`
@*/
PetscErrorCode PCPolySetRoots(PC pc, PetscInt n, const PetscReal re[], const PetscReal im[])
{
  PC_Poly  *poly;
  IDRSRoot *roots;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveInt(pc, n, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(n >= 1 && n <= PCPOLY_MAX_DEGREE, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
             "PCPolySetRoots(): the number of roots %" PetscInt_FMT " must be in 1 to %d", n, PCPOLY_MAX_DEGREE);
  PetscCheck(re, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_NULL, "PCPolySetRoots(): no array for %" PetscInt_FMT " roots", n);
  PetscCall(IDRSRootsCreate("PCPolySetRoots(): root", n, re, im, &roots));
  for (PetscInt i = 0; i < n; i++) {
    if (re[i] != 0.0 || (im && im[i] != 0.0)) continue;
    PetscCall(PetscFree(roots));
    SETERRQ(PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
            "PCPolySetRoots(): root %" PetscInt_FMT " = %g must not be zero", i, (double)re[i]);
  }
  PetscCall(PetscFree(poly->user));
  poly->user  = roots;
  poly->nuser = n;
  PCPolyChanged_Private(pc);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolyGetRoots - Gets the roots of the residual polynomial that `PCPOLY` uses, in Leja order

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ n  - number of roots, 0 before the first set-up
. re - real parts, or `NULL`
- im - imaginary parts, or `NULL`

  Level: intermediate

  Note:
  The arrays belong to the preconditioner, and change with its next set-up.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetRoots()`
@*/
PetscErrorCode PCPolyGetRoots(PC pc, PetscInt *n, const PetscReal *re[], const PetscReal *im[])
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  for (PetscInt i = 0; i < poly->p.nroots; i++) {
    poly->re[i] = poly->p.roots[i].re;
    poly->im[i] = poly->p.roots[i].im;
  }
  *n = poly->p.degree ? poly->p.nroots : 0;
  if (re) *re = poly->re;
  if (im) *im = poly->im;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* For the levels of PCAGGREGATION, see polysmooth.h */
static PetscErrorCode PCPolySetSmoother_Poly(PC pc, PetscBool several)
{
  const PCPolyPrecision precision = several ? PC_POLY_PRECISION_SINGLE : PC_POLY_PRECISION_HALF;
  PC_Poly              *poly      = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  if (!poly->smoother || precision != poly->precision) PCPolyChanged_Private(pc);
  poly->smoother  = PETSC_TRUE;
  poly->precision = precision;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyComposeSetters_Private - Composes the functions above with the preconditioner, or removes them */
PetscErrorCode PCPolyComposeSetters_Private(PC pc, PetscBool compose)
{
  PetscFunctionBegin;
  IDRSCompose(pc, compose, PCPolySetDegree);
  IDRSCompose(pc, compose, PCPolyGetDegree);
  IDRSCompose(pc, compose, PCPolySetRoots);
  IDRSCompose(pc, compose, PCPolyGetRoots);
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, PCPOLY_SMOOTHER, compose ? PCPolySetSmoother_Poly : NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}
