/*
   Memory that runs out, for tests: replaces PETSc's allocators by functions that fail in one call, and that list the memory in use
*/
#pragma once

#include "harness.h"

#define MAX_BLOCKS 8192

/* Memory in use that was allocated since this list began, and the functions that allocated it */
static struct {
  void       *address;
  const char *function, *file;
} blocks[MAX_BLOCKS];
static PetscInt    inuse    = 0;
static PetscBool   watching = PETSC_FALSE;
static PetscInt    left     = 0; /* number of allocations until one fails, which is included; 0 for none */
static const char *failed;       /* function of the failed allocation, and its file */
static const char *failedfile;

/* PETSc's own allocators */
static PetscErrorCode (*allocate)(size_t, PetscBool, int, const char[], const char[], void **);
static PetscErrorCode (*release)(void *, int, const char[], const char[]);
static PetscErrorCode (*resize)(size_t, int, const char[], const char[], void **);

static void Remember(void *address, const char function[], const char file[])
{
  if (!watching || !address) return;
  if (inuse < MAX_BLOCKS) {
    blocks[inuse].address  = address;
    blocks[inuse].function = function;
    blocks[inuse].file     = file;
  }
  inuse++;
}

static void Forget(const void *address)
{
  for (PetscInt i = PetscMin(inuse, MAX_BLOCKS) - 1; address && i >= 0; i--) {
    if (blocks[i].address != address) continue;
    blocks[i] = blocks[--inuse];
    return;
  }
}

/* PETSc with debugging keeps a stack of active functions: PetscError() pops this one, like PetscFunctionReturn() */
static PetscErrorCode Fail(int line, const char function[], const char file[])
{
  PetscFunctionBeginUser;
  if (!left || --left) PetscFunctionReturn(PETSC_SUCCESS);
  failed     = function;
  failedfile = file;
  return PetscError(PETSC_COMM_SELF, line, function, file, PETSC_ERR_MEM, PETSC_ERROR_INITIAL, "No memory, for this test");
}

/* Fills memory with invalid pointers unless it must be zero */
static PetscErrorCode Malloc(size_t size, PetscBool clear, int line, const char function[], const char file[], void **result)
{
  PetscErrorCode ierr = size ? Fail(line, function, file) : PETSC_SUCCESS;

  if (!ierr) ierr = (*allocate)(size, clear, line, function, file, result);
  if (!ierr) {
    if (watching && !clear && *result) memset(*result, 0xff, size);
    Remember(*result, function, file);
  }
  return ierr;
}

static PetscErrorCode Free(void *address, int line, const char function[], const char file[])
{
  Forget(address);
  return (*release)(address, line, function, file);
}

static PetscErrorCode Realloc(size_t size, int line, const char function[], const char file[], void **result)
{
  const void    *old  = *result;
  PetscErrorCode ierr = size ? Fail(line, function, file) : PETSC_SUCCESS;

  if (!ierr) ierr = (*resize)(size, line, function, file, result);
  if (!ierr) {
    Forget(old);
    Remember(*result, function, file);
  }
  return ierr;
}

static PetscErrorCode ReplaceAllocators(PetscBool replace)
{
  PetscFunctionBeginUser;
  if (replace) {
    allocate = PetscTrMalloc;
    release  = PetscTrFree;
    resize   = PetscTrRealloc;
  }
  PetscTrMalloc  = replace ? Malloc : allocate;
  PetscTrFree    = replace ? Free : release;
  PetscTrRealloc = replace ? Realloc : resize;
  PetscFunctionReturn(PETSC_SUCCESS);
}
