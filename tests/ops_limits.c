static char help[] = "Places and numbers beyond 32 bits, without their memory.\n\n";

#include "harness.h"
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrslimits.h>

/* Sizes and numbers at the limits of integers, without their memory */
static PetscErrorCode TestLimits(void)
{
  const PetscInt64 most   = INT32_MAX;
  uint32_t         number = UINT32_MAX - 4;

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 8; l++) {
    const uint32_t next = IDRSNextExchange(number);

    PetscCall(ComplainIf(!next || next % 2 == number % 2, "exchange %u follows %u", (unsigned)next, (unsigned)number));
    PetscCall(ComplainIf(IDRSMessageIsOfOrLater(0, number), "memory without a message counts in exchange %u", (unsigned)number));
    PetscCall(ComplainIf(!IDRSMessageIsOfOrLater(number, number) || !IDRSMessageIsOfOrLater(next, number) ||
                           IDRSMessageIsOfOrLater(number, next),
                         "the order of exchanges %u and %u", (unsigned)number, (unsigned)next));
    number = next;
  }
  PetscCall(ComplainIf(!IDRSHaloFits(most, most, most), "a halo of the largest size does not fit"));
  PetscCall(ComplainIf(IDRSHaloFits(most + 1, 0, 0) == (sizeof(PetscInt) == 4), "the limit of messages"));
  PetscCall(ComplainIf(IDRSHaloFits(0, most + 1, 0) || IDRSHaloFits(0, 0, most + 1), "a halo that MPI cannot count fits"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestLimits, "limits of integers"})

/*TEST

   test:
     suffix: 1

TEST*/
