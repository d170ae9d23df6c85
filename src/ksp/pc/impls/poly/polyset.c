/*
   Setters and getters of PCPOLY
*/
#include "polyimpl.h"

/* Makes the next set-up compute the polynomial again, even if it would be kept for another matrix */
static void PCPolyChanged_Private(PC pc)
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

/* PCPolySetRootsType_Private - Sets the source of the roots */
PetscErrorCode PCPolySetRootsType_Private(PC pc, PCPolyRootsType type)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveEnum(pc, type, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(type >= PC_POLY_ROOTS_GMRES && type <= PC_POLY_ROOTS_USER, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
             "-%spc_poly_roots %d: no such type", IDRSPrefix(pc), (int)type);
  PetscCheck(type != PC_POLY_ROOTS_USER || poly->nuser, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_WRONGSTATE,
             "-%spc_poly_roots user: there are no roots; call PCPolySetRoots() first", IDRSPrefix(pc));
  if (type != poly->type) PCPolyChanged_Private(pc);
  poly->type = type;
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
  $D^{-1}A$, where D is the diagonal of A, unless the scaling is `PC_POLY_SCALING_NONE` or `PC_POLY_SCALING_MATCHING`. Roots may be
  repeated, may have any order, and must be the same on all processes. They must be finite and must not be zero. With real scalars
  each complex root needs its conjugate.

  The arrays are copied. The function also sets the type `PC_POLY_ROOTS_USER`. The set-up does not check the polynomial then;
  `-ksp_view` shows its residual for the start vector.

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
  poly->type  = PC_POLY_ROOTS_USER;
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

/* PCPolySetSeed_Private - Sets the seed of the random start vector */
PetscErrorCode PCPolySetSeed_Private(PC pc, PetscInt seed)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveInt(pc, seed, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(seed >= 0, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_OUTOFRANGE,
             "-%spc_poly_seed %" PetscInt_FMT ": the seed must not be negative", IDRSPrefix(pc), seed);
  if (seed != poly->seed) PCPolyChanged_Private(pc);
  poly->seed = seed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolySetPrecision_Private - Sets the precision of the values of the copy */
PetscErrorCode PCPolySetPrecision_Private(PC pc, PCPolyPrecision precision)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveEnum(pc, precision, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(precision >= PC_POLY_PRECISION_HALF && precision <= PC_POLY_PRECISION_DOUBLE, PetscObjectComm((PetscObject)pc),
             PETSC_ERR_ARG_OUTOFRANGE, "-%spc_poly_precision %d: no such precision", IDRSPrefix(pc), (int)precision);
  if (precision != poly->precision) PCPolyChanged_Private(pc);
  poly->precision = precision;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolySetScaling_Private - Sets the scaling and permutation of the matrix */
PetscErrorCode PCPolySetScaling_Private(PC pc, PCPolyScaling scaling)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveEnum(pc, scaling, 2);
  IDRSTryData(pc, PCPOLY, poly);
  PetscCheck(scaling >= PC_POLY_SCALING_AUTO && scaling <= PC_POLY_SCALING_MATCHING, PetscObjectComm((PetscObject)pc),
             PETSC_ERR_ARG_OUTOFRANGE, "-%spc_poly_scaling %d: no such scaling", IDRSPrefix(pc), (int)scaling);
  if (scaling != poly->scaling) PCPolyChanged_Private(pc);
  poly->scaling = scaling;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolyGetScaling - Gets the scaling and permutation of the matrix in `PCPOLY`, as set with `-pc_poly_scaling` and as used

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ scaling - the requested scaling, or `NULL`
- used    - the scaling of the last set-up, `PC_POLY_SCALING_NONE` before the first one, or `NULL`

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyScaling`
@*/
PetscErrorCode PCPolyGetScaling(PC pc, PCPolyScaling *scaling, PCPolyScaling *used)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  if (scaling) *scaling = poly->scaling;
  if (used)
    *used = poly->op.matching ? PC_POLY_SCALING_MATCHING : (poly->op.inverse ? PC_POLY_SCALING_DIAGONAL : PC_POLY_SCALING_NONE);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolySetReuse_Private - Keeps the polynomial when the matrix changes */
PetscErrorCode PCPolySetReuse_Private(PC pc, PetscBool reuse)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  PetscValidLogicalCollectiveBool(pc, reuse, 2);
  IDRSTryData(pc, PCPOLY, poly);
  poly->reuse = reuse;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolyGetResidual - Gets the factor by which the polynomial of `PCPOLY` reduces its random start vector

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ predicted - $\|\pi(D^{-1}A) v\| / \|v\|$ predicted by the Krylov space, negative if it is not known, or `NULL`
- computed  - the same, computed by an application, negative before the first set-up, or `NULL`

  Level: intermediate

  Note:
  `-ksp_view` shows both.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetRoots()`
@*/
PetscErrorCode PCPolyGetResidual(PC pc, PetscReal *predicted, PetscReal *computed)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  if (predicted) *predicted = poly->p.residual;
  if (computed) *computed = poly->p.degree ? poly->seen : -1.0;
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
  IDRSCompose(pc, compose, PCPolyGetScaling);
  IDRSCompose(pc, compose, PCPolyGetResidual);
  PetscFunctionReturn(PETSC_SUCCESS);
}
