#include <petscidrs/private/idrspowers.h>
#include <petscidrs/private/idrscompat.h>

/* Returns the square of the distance over the largest modulus. It cannot overflow; if it underflows, the floor replaces it */
static PetscReal IDRSRootDistanceSquared(IDRSRoot a, IDRSRoot b, PetscReal largest)
{
  const PetscReal re = (a.re - b.re) / largest, im = (a.im - b.im) / largest;

  return re * re + im * im;
}

/*
   IDRSRootsLeja - Computes the Leja order: the first root has the largest modulus, and each next root has the largest product of
   distances to the roots before it. In this order no partial product of the factors 1 - z / root becomes much larger than the
   others.

   With a floor for the distances, relative to the largest modulus, roots may be repeated: there are m of them, more or fewer than
   n. The product of distances estimates the component of a vector that belongs to the root, after the factors before it. Without a
   floor there are no repetitions, and m is n
*/
PetscErrorCode IDRSRootsLeja(PetscInt n, const IDRSRoot from[], PetscReal floor, PetscInt m, IDRSRoot to[])
{
  const PetscReal least = PetscMax(floor, PETSC_MACHINE_EPSILON);
  PetscReal      *measure, largest = 0.0;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(n, &measure));
  for (PetscInt i = 0; i < n; i++) {
    measure[i] = IDRSRootModulus(from[i]); /* the first root is the largest */
    largest    = PetscMax(largest, measure[i]);
  }
  for (PetscInt done = 0; done < m;) {
    PetscInt best = -1, group;

    for (PetscInt i = 0; i < n; i += IDRSRootGroup(from[i])) {
      if (best < 0 || measure[i] > measure[best]) best = i;
    }
    group = IDRSRootGroup(from[best]);
    if (!done) PetscCall(PetscArrayzero(measure, n));
    if (floor == 0.0) measure[best] = -PETSC_MAX_REAL;
    for (PetscInt k = 0; k < group; k++) {
      if (done + k < m) to[done + k] = from[best + k];
      for (PetscInt i = 0; i < n; i += IDRSRootGroup(from[i])) {
        /* multiple roots come last, but are not left out */
        if (measure[i] > -PETSC_MAX_REAL)
          measure[i] += PetscLogReal(PetscMax(IDRSRootDistanceSquared(from[i], from[best + k], largest), least * least));
      }
    }
    done += group;
  }
  PetscCall(PetscFree(measure));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSRootsCreate - Creates roots from real and imaginary parts (NULL: zero). In real builds conjugate pairs are adjacent. what:
   name of the roots in error messages
*/
PetscErrorCode IDRSRootsCreate(const char what[], PetscInt n, const PetscReal re[], const PetscReal im[], IDRSRoot **made)
{
  PetscInt   done = 0;
  IDRSRoot  *roots;
  PetscBool *taken;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < n; i++)
    PetscCheck(!PetscIsInfOrNanReal(re[i]) && !(im && PetscIsInfOrNanReal(im[i])), PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
               "%s %" PetscInt_FMT " = %g + %gi is not finite", what, i, (double)re[i], (double)(im ? im[i] : 0.0));
  PetscCall(PetscMalloc1(n, &roots));
  PetscCall(PetscCalloc1(n, &taken));
  for (PetscInt i = 0; i < n; i++) {
    const PetscReal b    = im ? im[i] : 0.0;
    PetscInt        pair = -1;

    if (taken[i]) continue;
    roots[done++] = (IDRSRoot){re[i], b};
    if (PetscDefined(USE_COMPLEX) || b == 0.0) continue;
    for (PetscInt k = i + 1; k < n && pair < 0; k++) {
      if (!taken[k] &&
          IDRSRootModulus((IDRSRoot){re[k] - re[i], im[k] + b}) <= 10 * PETSC_MACHINE_EPSILON * IDRSRootModulus(roots[done - 1]))
        pair = k;
    }
    if (pair < 0) {
      PetscCall(PetscFree(roots));
      PetscCall(PetscFree(taken));
    }
    PetscCheck(pair >= 0, PETSC_COMM_SELF, PETSC_ERR_ARG_INCOMP,
               "%s %" PetscInt_FMT " = %g + %gi has no conjugate, which real scalars require", what, i, (double)re[i], (double)b);
    taken[pair]        = PETSC_TRUE;
    roots[done - 1].im = PetscAbsReal(b);
    roots[done++]      = (IDRSRoot){re[i], -PetscAbsReal(b)};
  }
  PetscCall(PetscFree(taken));
  *made = roots;
  PetscFunctionReturn(PETSC_SUCCESS);
}
