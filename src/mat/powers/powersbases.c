/*
   Coefficients of matrix powers for bases of Krylov spaces

   References:
   Z. Bai, D. Hu and L. Reichel, A Newton basis GMRES implementation, IMA J. Numer. Anal. 14 (1994); T.A. Manteuffel, The Tchebychev
   iteration for nonsymmetric linear systems, Numer. Math. 28 (1977)
*/
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrspowers.h>

/*@
  MatPowersSetMonomial - Fills the coefficients of `MatPowersMult()` for the powers $v_j = (D^{-1}A)^j x$

  Not Collective

  Input Parameter:
. k - how many steps, 0 or larger

  Output Parameters:
+ gamma - array of k scale factors
. theta - array of k shifts
- mu    - array of k coefficients

  Level: intermediate

.seealso: [](ch_matrices), `MatPowersMult()`, `MatPowersSum()`, `MatPowersSetNewton()`, `MatPowersSetChebyshev()`
@*/
PetscErrorCode MatPowersSetMonomial(PetscInt k, PetscScalar gamma[], PetscScalar theta[], PetscScalar mu[])
{
  PetscFunctionBegin;
  PetscCheck(k >= 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "MatPowersSetMonomial(): k = %" PetscInt_FMT " must not be negative", k);
  for (PetscInt j = 0; j < k; j++) {
    gamma[j] = 1.0;
    theta[j] = mu[j] = 0.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the geometric mean of the distances of the shifts from the last one in Leja order, which estimates the capacity of the
   set that they represent; 1 for a single point
*/
static PetscReal IDRSPowersCapacity(PetscInt n, const IDRSRoot shifts[])
{
  PetscReal sum   = 0.0;
  PetscInt  count = 0;

  for (PetscInt i = 0; i + 1 < n; i++) {
    const PetscReal distance = IDRSRootModulus((IDRSRoot){shifts[i].re - shifts[n - 1].re, shifts[i].im - shifts[n - 1].im});

    if (!(distance > 0.0)) continue;
    sum += PetscLogReal(distance);
    count++;
  }
  return count ? PetscExpReal(sum / (PetscReal)count) : 1.0;
}

/*@
  MatPowersSetNewton - Fills the coefficients of `MatPowersMult()` for a Newton basis

  Not Collective

  Input Parameters:
+ k  - how many steps, 0 or larger
. n  - number of shifts, 1 or larger
. re - array of n: their real parts
- im - array of n: their imaginary parts, or `NULL`: all zero

  Output Parameters:
+ gamma - array of k scale factors
. theta - array of k shifts
- mu    - array of k coefficients

  Level: intermediate

  Notes:
  $v_j = \gamma (D^{-1}A - \theta_j) v_{j-1}$, with the shifts in Leja order, repeated from the first one if k is larger than n.
  Good shifts are Ritz values. $1/\gamma$ is the geometric mean of the distances of the shifts from the last one, so that the
  vectors neither grow nor shrink much.

  With real scalars shifts that are not real come in pairs of conjugates, $a \pm bi$. The two steps of a pair are

  $$
  v_j = \gamma (D^{-1}A - a) v_{j-1}, \quad v_{j+1} = \gamma (D^{-1}A - a) v_j + (\gamma b)^2 v_{j-1},
  $$

  after which $v_{j+1} = \gamma^2 (D^{-1}A - a - bi) (D^{-1}A - a + bi) v_{j-1}$.

.seealso: [](ch_matrices), `MatPowersMult()`, `MatPowersSum()`, `MatPowersSetMonomial()`, `MatPowersSetChebyshev()`
@*/
PetscErrorCode MatPowersSetNewton(PetscInt k, PetscInt n, const PetscReal re[], const PetscReal im[], PetscScalar gamma[],
                                  PetscScalar theta[], PetscScalar mu[])
{
  IDRSRoot *given, *shifts;
  PetscReal scale;

  PetscFunctionBegin;
  PetscCheck(k >= 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE, "MatPowersSetNewton(): k = %" PetscInt_FMT " must not be negative",
             k);
  PetscCheck(n >= 1, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "MatPowersSetNewton(): the number of shifts %" PetscInt_FMT " must be positive", n);
  PetscCheck(re, PETSC_COMM_SELF, PETSC_ERR_ARG_NULL, "MatPowersSetNewton(): no array for %" PetscInt_FMT " shifts", n);
  PetscCall(IDRSRootsCreate("MatPowersSetNewton(): shift", n, re, im, &given));
  PetscCall(PetscMalloc1(n, &shifts));
  PetscCall(IDRSRootsLeja(n, given, 0.0, n, shifts));
  scale = 1.0 / IDRSPowersCapacity(n, shifts);
  for (PetscInt j = 0; j < k; j++) {
    const IDRSRoot  shift  = shifts[j % n];
    const PetscReal b      = scale * shift.im;
    const PetscBool second = (PetscBool)(!PetscDefined(USE_COMPLEX) && shift.im < 0.0);

    gamma[j] = scale;
    theta[j] = IDRSRootScalar(shift);
    mu[j]    = second ? -b * b : 0.0;
  }
  PetscCall(PetscFree(shifts));
  PetscCall(PetscFree(given));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  MatPowersSetChebyshev - Fills the coefficients of `MatPowersMult()` for Chebyshev polynomials of an ellipse

  Not Collective

  Input Parameters:
+ k      - how many steps, 0 or larger
. center - of the ellipse, a real number
. a      - semi-axis in the direction of the real axis, not negative
- b      - semi-axis in the direction of the imaginary axis, not negative; a + b is positive

  Output Parameters:
+ gamma - array of k scale factors
. theta - array of k shifts
- mu    - array of k coefficients

  Level: intermediate

  Note:
  $$
  v_j = T_j((D^{-1}A - center) / f) (f / (a + b))^j x, \quad f^2 = a^2 - b^2,
  $$

  with the foci of the ellipse at center + f and center - f. The coefficients are real even if b is larger than a. In the ellipse
  the modulus of these polynomials is at most one, so the vectors do not grow if the ellipse encloses the spectrum.

.seealso: [](ch_matrices), `MatPowersMult()`, `MatPowersSum()`, `MatPowersSetMonomial()`, `MatPowersSetNewton()`
@*/
PetscErrorCode MatPowersSetChebyshev(PetscInt k, PetscReal center, PetscReal a, PetscReal b, PetscScalar gamma[],
                                     PetscScalar theta[], PetscScalar mu[])
{
  PetscFunctionBegin;
  PetscCheck(k >= 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "MatPowersSetChebyshev(): k = %" PetscInt_FMT " must not be negative", k);
  PetscCheck(a >= 0.0 && b >= 0.0 && a + b > 0.0 && a + b <= PETSC_MAX_REAL, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "MatPowersSetChebyshev(): the semi-axes a = %g and b = %g must not be negative, and not both be zero", (double)a,
             (double)b);
  PetscCheck(!PetscIsInfOrNanReal(center), PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "MatPowersSetChebyshev(): the center %g must be finite", (double)center);
  /* P_1 = (z - center) / (a + b),   P_j = 2 (z - center) / (a + b) P_{j-1} - (a - b) / (a + b) P_{j-2} */
  for (PetscInt j = 0; j < k; j++) {
    gamma[j] = (j ? 2.0 : 1.0) / (a + b);
    theta[j] = center;
    mu[j]    = j ? (a - b) / (a + b) : 0.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
