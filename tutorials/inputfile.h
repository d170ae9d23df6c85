/*
   A file of input that is read from begin to end, plain or compressed with gzip (name ends in .gz)
*/
#pragma once

#include <stdio.h>
#include <petscsys.h>

typedef struct {
  const char *name;
  FILE       *stream;
  PetscBool   piped; /* through gzip */
} InputFile;

static PetscErrorCode InputFileOpen(InputFile *file, const char name[])
{
  char      command[PETSC_MAX_PATH_LEN + 32], *quote;
  PetscBool exists;

  PetscFunctionBegin;
  file->name = name;
  PetscCall(PetscTestFile(name, 'r', &exists));
  PetscCheck(exists, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: there is no such file that can be read; check the path", name);
  PetscCall(PetscStrendswith(name, ".gz", &file->piped));
  if (file->piped) {
    PetscCall(PetscStrchr(name, '\'', &quote));
    PetscCheck(!quote, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: rename the file, the name of a compressed one must not contain a quote", name);
    PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc '%s' 2>/dev/null", name));
    file->stream = popen(command, "r");
  } else file->stream = fopen(name, "r");
  PetscCheck(file->stream, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: cannot be opened", name);
  PetscFunctionReturn(0);
}

/* After an error, which has been told: what is left does not matter */
static PetscErrorCode InputFileDrop(InputFile *file)
{
  PetscFunctionBegin;
  (void)(file->piped ? pclose(file->stream) : fclose(file->stream));
  PetscFunctionReturn(0);
}

/* Reads to the end, where gzip finds out whether the file is whole; rest is the number of bytes that were left, or NULL */
static PetscErrorCode InputFileClose(InputFile *file, PetscInt64 *rest)
{
  char       buffer[4096];
  size_t     count;
  PetscInt64 bytes = 0;
  int        status;

  PetscFunctionBegin;
  while ((count = fread(buffer, 1, sizeof(buffer), file->stream)) > 0) bytes += (PetscInt64)count;
  status = file->piped ? pclose(file->stream) : fclose(file->stream);
  PetscCheck(!status, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: gzip cannot read it to its end; it is cut off or damaged: fetch it again", file->name);
  if (rest) *rest = bytes;
  PetscFunctionReturn(0);
}
