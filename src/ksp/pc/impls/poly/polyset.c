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

/*@
  PCPolySetRootsType - Sets the source of the roots of the residual polynomial of `PCPOLY`

  Logically Collective

  Input Parameters:
+ pc   - the preconditioner context
- type - the type of the roots (default `PC_POLY_ROOTS_GMRES`)

  Options Database Key:
. -pc_poly_roots (gmres|chebyshev|neumann|user) - the type of the roots

  Level: intermediate

  Note:
  Chebyshev polynomials need real and positive eigenvalues, and the Neumann series a dominant diagonal. Both diverge if convection
  is strong. `PC_POLY_ROOTS_USER` needs an earlier call of `PCPolySetRoots()`.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyRootsType`, `PCPolyGetRootsType()`, `PCPolySetRoots()`
@*/
PetscErrorCode PCPolySetRootsType(PC pc, PCPolyRootsType type)
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
  PCPolyGetRootsType - Gets the source of the roots of `PCPOLY`, as set with `PCPolySetRootsType()`

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. type - the type of the roots

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetRootsType()`
@*/
PetscErrorCode PCPolyGetRootsType(PC pc, PCPolyRootsType *type)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  *type = poly->type;
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

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetRoots()`, `PCPolySetRootsType()`
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

/*@
  PCPolySetSeed - Sets the seed of the random start vector of `PCPOLY`

  Logically Collective

  Input Parameters:
+ pc   - the preconditioner context
- seed - the seed, not negative (default 0)

  Options Database Key:
. -pc_poly_seed seed - the seed

  Level: intermediate

  Note:
  The start vector is the same on any number of processes, if the type of the vectors supports `VecGetArray()`.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetSeed()`
@*/
PetscErrorCode PCPolySetSeed(PC pc, PetscInt seed)
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

/*@
  PCPolyGetSeed - Gets the seed of the random start vector of `PCPOLY`

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. seed - the seed

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetSeed()`
@*/
PetscErrorCode PCPolyGetSeed(PC pc, PetscInt *seed)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  *seed = poly->seed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolySetPrecision - Sets the precision of the values that `PCPOLY` multiplies by

  Logically Collective

  Input Parameters:
+ pc        - the preconditioner context
- precision - the precision (default `PC_POLY_PRECISION_HALF`)

  Options Database Key:
. -pc_poly_precision (half|single|double) - the precision

  Level: intermediate

  Notes:
  The preconditioner multiplies by a copy of the matrix whose values are rounded. Vectors keep the precision of `PetscScalar`, so
  the preconditioner stays a linear operator, and the Krylov method multiplies by the matrix itself: the solution is as accurate as
  with any other precision.

  The set-up chooses a wider precision if values are not finite in a narrower one, or if the polynomial reduces its start vector
  less than predicted. If there is no copy for a matrix or its vectors,
  `MatMult()` is used, and `-ksp_view` shows the reason.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyPrecision`, `PCPolyGetPrecision()`
@*/
PetscErrorCode PCPolySetPrecision(PC pc, PCPolyPrecision precision)
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

/*@
  PCPolyGetPrecision - Gets the precision set with `PCPolySetPrecision()`

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. precision - the precision

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetPrecision()`
@*/
PetscErrorCode PCPolyGetPrecision(PC pc, PCPolyPrecision *precision)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  *precision = poly->precision;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCPolySetScaling - Sets the scaling and permutation of the matrix in `PCPOLY`

  Logically Collective

  Input Parameters:
+ pc      - the preconditioner context
- scaling - the scaling (default `PC_POLY_SCALING_AUTO`)

  Options Database Key:
. -pc_poly_scaling (auto|none|diagonal|matching) - the scaling

  Level: intermediate

  Notes:
  With `PC_POLY_SCALING_DIAGONAL` the polynomial is one of $D^{-1}A$, where D is the diagonal of A. Use it if the diagonal
  dominates.

  With `PC_POLY_SCALING_MATCHING` the polynomial is one of $D^{-1}\tilde A$, $\tilde A = P D_r A D_c$, where the permutation P and
  the scalings $D_r$ and $D_c$ come from `MatGetMatching()`. The preconditioner is $B^{-1} = D_c p(D^{-1}\tilde A) D^{-1} P D_r$.
  Use it if the matrix has zero or small diagonal entries, or rows or unknowns of very different magnitudes. It needs a matrix of
  type `MATAIJ` or a type derived from it; with another type the set-up reports an error. On several processes each process matches
  its diagonal block. The matching is computed on the host.

  If only the values of the matrix change, the set-up keeps the permutation and adapts the scalings, as long as no scaled entry is
  larger than 2. Otherwise it computes a new matching.

  `PC_POLY_SCALING_AUTO` scales by the diagonal if no row has an entry that is more than ten times as large as its diagonal entry,
  if the type of the matrix does not support a matching, or if the roots are given by `PCPolySetRoots()`. Otherwise the set-up
  computes the polynomials for both scalings, which takes up to three times as long. It keeps the polynomial that reduces the random
  start vector more. This choice does not always need fewer matvecs. The choice is kept for new values in the same pattern, until
  the permutation does not suit them. `-ksp_view` shows the choice, and `-info` the two residuals. The computation of the matching
  may be slow, for example with random values. It is stopped after about 5 seconds plus half a microsecond per entry, and the
  diagonal is used. With `PC_POLY_SCALING_MATCHING` the time is not limited.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyScaling`, `PCPolyGetScaling()`, `MatGetMatching()`, `PCMATCHING`
@*/
PetscErrorCode PCPolySetScaling(PC pc, PCPolyScaling scaling)
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
  PCPolyGetScaling - Gets the scaling and permutation of the matrix in `PCPOLY`, as set with `PCPolySetScaling()` and as used

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ scaling - the requested scaling, or `NULL`
- used    - the scaling of the last set-up, `PC_POLY_SCALING_NONE` before the first one, or `NULL`

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyScaling`, `PCPolySetScaling()`
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

/*@
  PCPolySetReuse - Sets whether `PCPOLY` keeps its roots when the matrix changes

  Logically Collective

  Input Parameters:
+ pc    - the preconditioner context
- reuse - whether they are kept (default `PETSC_FALSE`)

  Options Database Key:
. -pc_poly_reuse (true|false) - whether the roots are kept

  Level: intermediate

  Note:
  The set-up always computes the diagonal, the permutation and the scalings from the present matrix. If a new permutation is
  computed, the roots are still kept. If the degree, type, seed or scaling changes, the roots are computed again.

.seealso: [](ch_ksp), `PCPOLY`, `PCPolyGetReuse()`, `KSPSetReusePreconditioner()`
@*/
PetscErrorCode PCPolySetReuse(PC pc, PetscBool reuse)
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
  PCPolyGetReuse - Gets whether `PCPOLY` keeps its roots when the matrix changes

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. reuse - whether they are kept

  Level: intermediate

.seealso: [](ch_ksp), `PCPOLY`, `PCPolySetReuse()`
@*/
PetscErrorCode PCPolyGetReuse(PC pc, PetscBool *reuse)
{
  PC_Poly *poly;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCPOLY, poly);
  *reuse = poly->reuse;
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
  IDRSCompose(pc, compose, PCPolySetRootsType);
  IDRSCompose(pc, compose, PCPolyGetRootsType);
  IDRSCompose(pc, compose, PCPolySetRoots);
  IDRSCompose(pc, compose, PCPolyGetRoots);
  IDRSCompose(pc, compose, PCPolySetSeed);
  IDRSCompose(pc, compose, PCPolyGetSeed);
  IDRSCompose(pc, compose, PCPolySetPrecision);
  IDRSCompose(pc, compose, PCPolyGetPrecision);
  IDRSCompose(pc, compose, PCPolySetScaling);
  IDRSCompose(pc, compose, PCPolyGetScaling);
  IDRSCompose(pc, compose, PCPolySetReuse);
  IDRSCompose(pc, compose, PCPolyGetReuse);
  IDRSCompose(pc, compose, PCPolyGetResidual);
  PetscFunctionReturn(PETSC_SUCCESS);
}
