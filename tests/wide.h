/* The arithmetic of references. In bounds on rounding errors |re| + |im| serves as the modulus */
#pragma once

#include <petscsys.h>
#include <math.h>

#if PetscDefined(USE_COMPLEX)
  #include <complex.h>
typedef long double _Complex Wide;
  #define WideConj(a) conjl(a)
  #define WideAbs(a)  (fabsl(creall(a)) + fabsl(cimagl(a)))
#else
typedef long double Wide;
  #define WideConj(a) (a)
  #define WideAbs(a)  fabsl(a)
#endif
