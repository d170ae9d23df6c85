/*
   Preloaded by tools/record-gpu: appends the name of each kernel that the process launches to the file KERNELS_LAUNCHED, once. The
   stub of a kernel asks for its handle at its first launch; launches with attributes pass its address.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_KERNELS 65536

static struct {
  const void *stub;
  const char *name;
  int         launched;
} kernels[MAX_KERNELS];
static int             count = 0;
static pthread_mutex_t lock  = PTHREAD_MUTEX_INITIALIZER;

static void launched(const void *stub)
{
  pthread_mutex_lock(&lock);
  for (int i = 0; i < count; i++) {
    if (kernels[i].stub == stub && !kernels[i].launched) {
      FILE *file = fopen(getenv("KERNELS_LAUNCHED"), "a");

      kernels[i].launched = 1;
      if (file) {
        fprintf(file, "%s\n", kernels[i].name);
        fclose(file);
      }
    }
  }
  pthread_mutex_unlock(&lock);
}

void __cudaRegisterFunction(void **binary, const char *stub, char *function, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *shared)
{
  void (*next)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);

  *(void **)&next = dlsym(RTLD_NEXT, "__cudaRegisterFunction");
  pthread_mutex_lock(&lock);
  if (count < MAX_KERNELS) {
    kernels[count].stub   = stub;
    kernels[count++].name = name;
  }
  pthread_mutex_unlock(&lock);
  next(binary, stub, function, name, limit, tid, bid, block, grid, shared);
}

int __cudaGetKernel(void **kernel, const void *stub)
{
  int (*next)(void **, const void *);

  *(void **)&next = dlsym(RTLD_NEXT, "__cudaGetKernel");
  launched(stub);
  return next(kernel, stub);
}

int cudaLaunchKernelExC(const void *configuration, const void *stub, void **arguments)
{
  int (*next)(const void *, const void *, void **);

  *(void **)&next = dlsym(RTLD_NEXT, "cudaLaunchKernelExC");
  launched(stub);
  return next(configuration, stub, arguments);
}
