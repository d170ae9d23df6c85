/*
   Bad input is no error of the program: an error between AttemptBegin() and AttemptEnd() is kept as one line of text, and PETSc
   prints nothing. Do not use PetscCall() for the calls in between:

       PetscCall(AttemptBegin());
       ierr = MatLoad(A, viewer);
       PetscCall(AttemptEnd(comm, ierr, &failed));
       if (failed) ... attempt.text has the reason
*/
#pragma once

#include <string.h>
#include <petscsys.h>

static struct {
  PetscErrorCode code;
  char           text[1024];
} attempt;

/*
   An error passes through the functions that return it; the first one to report it has the reason. PetscMallocAlign() has another
   code and text in PETSc 3.18
*/
static PetscErrorCode AttemptRecord(MPI_Comm comm, int line, const char *function, const char *file, PetscErrorCode code,
                                    PetscErrorType type, const char *text, void *ctx)
{
  const PetscBool memory = (PetscBool)(code == PETSC_ERR_MEM || (function && !strcmp(function, "PetscMallocAlign")));

  if (type == PETSC_ERROR_INITIAL || !attempt.code) {
    attempt.code = code;
    if (memory) text = "there is not enough memory: take more processes on more machines";
    (void)PetscStrncpy(attempt.text, text && text[0] ? text : "unknown reason", sizeof(attempt.text));
    for (char *c = attempt.text; *c; c++) {
      if (*c == '\n' || *c == '\r') *c = c[1] ? ' ' : '\0';
    }
  }
  return code;
}

/* PETSc's message on a value that is not a number does not name the option: searches the command line for the option */
static PetscErrorCode AttemptNameOption(void)
{
  const char *const messages[] = {"Input string %s has no ", "Unknown logical value: %s"};
  char            **args, message[sizeof(attempt.text)];
  int               count;

  PetscFunctionBeginUser;
  PetscCall(PetscGetArgs(&count, &args));
  for (int i = 1; i + 1 < count; i++) {
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(messages); k++) {
      PetscCall(PetscSNPrintf(message, sizeof(message), messages[k], args[i + 1]));
      if (args[i][0] != '-' || strncmp(attempt.text, message, strlen(message))) continue;
      PetscCall(PetscSNPrintf(message, sizeof(message), "%s: %s", args[i], attempt.text));
      PetscCall(PetscStrncpy(attempt.text, message, sizeof(attempt.text)));
      PetscFunctionReturn(0);
    }
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode AttemptBegin(void)
{
  PetscFunctionBeginUser;
  PetscCall(PetscMemzero(&attempt, sizeof(attempt)));
  PetscCall(PetscPushErrorHandler(AttemptRecord, NULL));
  PetscFunctionReturn(0);
}

/* Sets failed if the attempt has failed on any process; all processes then have the text of the first failed process */
static PetscErrorCode AttemptEnd(MPI_Comm comm, PetscErrorCode ierr, PetscBool *failed)
{
  PetscMPIInt rank, size;
  PetscInt    range[2];

  PetscFunctionBeginUser;
  PetscCall(PetscPopErrorHandler());
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  range[0] = range[1] = ierr ? rank : size;
  PetscCall(PetscGlobalMinMaxInt(comm, range, range));
  *failed = (PetscBool)(range[0] < size);
  if (*failed) {
    PetscCallMPI(MPI_Bcast(attempt.text, (PetscMPIInt)sizeof(attempt.text), MPI_CHAR, (PetscMPIInt)range[0], comm));
    PetscCall(AttemptNameOption());
  }
  PetscFunctionReturn(0);
}

/* Prints one line "program: text"; PETSc then does not report unused options */
static PetscErrorCode AttemptPrint(MPI_Comm comm)
{
  char  path[PETSC_MAX_PATH_LEN];
  char *name;

  PetscFunctionBeginUser;
  PetscCall(PetscGetProgramName(path, sizeof(path)));
  PetscCall(PetscStrrchr(path, '/', &name));
  PetscCall(PetscFPrintf(comm, PETSC_STDERR, "%s: %s\n", name, attempt.text));
  PetscCall(PetscOptionsSetValue(NULL, "-options_left", "no"));
  PetscFunctionReturn(0);
}
