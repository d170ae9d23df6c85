/*
   Errors of the GPU: functions of CUDA's runtime that fail on request. They are defined here, since a program's own functions take
   precedence over its libraries. A program defines PETSC_DESIRE_FEATURE_TEST_MACROS before it includes anything, for RTLD_NEXT and
   dladdr()
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

/* The functions that fail; launches have different names in different releases of CUDA */
typedef enum {
  CALL_MALLOC,
  CALL_MALLOCHOST,
  CALL_ALLOCATE,
  CALL_LAUNCH,
  CALL_COPY,
  CALL_SET,
  CALL_SYNCHRONIZE,
  CALL_REGISTER,
  CALL_RECORD,
  CALL_WAIT
} Call;
static const char *const calls[] = {"cudaMalloc()",      "cudaMallocHost()",     "PetscDeviceMalloc()",     "launch",
                                    "cudaMemcpyAsync()", "cudaMemsetAsync()",    "cudaStreamSynchronize()", "cudaHostRegister()",
                                    "cudaEventRecord()", "cudaStreamWaitEvent()"};

static Call        failing;
static PetscInt    left = 0;           /* number of calls of that function until one fails, which is included; 0 for none */
static PetscBool   sticky, lost;       /* all calls after it are to fail; they fail now */
static cudaError_t last = cudaSuccess; /* of a failed launch, or of a busy stream, until cudaGetLastError() returns it */

/* Returns PETSC_TRUE if this call fails. Only calls of this library fail */
static PetscBool Fails(Call call, void *from)
{
  Dl_info info;

  if ((!lost && (call != failing || !left)) || !dladdr(from, &info) || !strstr(info.dli_fname, "libpetscidrs")) return PETSC_FALSE;
  if (lost) return PETSC_TRUE;
  if (--left) return PETSC_FALSE;
  lost = sticky;
  return PETSC_TRUE;
}

/* Defines a function of the runtime, which fails with this error or calls the original one */
#define RUNTIME(name, call, error, parameters, arguments) \
  PETSC_EXTERN cudaError_t name parameters; \
  cudaError_t name              parameters \
  { \
    cudaError_t(*runtime) parameters; \
\
    if (Fails(call, __builtin_return_address(0))) return error; \
    *(void **)&runtime = dlsym(RTLD_NEXT, #name); \
    return (*runtime)arguments; \
  }

RUNTIME(cudaMalloc, CALL_MALLOC, cudaErrorMemoryAllocation, (void **address, size_t size), (address, size))
RUNTIME(cudaMallocHost, CALL_MALLOCHOST, cudaErrorMemoryAllocation, (void **address, size_t size), (address, size))
RUNTIME(cudaMemcpyAsync, CALL_COPY, cudaErrorUnknown,
        (void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream), (to, from, size, kind, stream))
RUNTIME(cudaMemsetAsync, CALL_SET, cudaErrorUnknown, (void *to, int value, size_t size, cudaStream_t stream),
        (to, value, size, stream))
RUNTIME(cudaStreamSynchronize, CALL_SYNCHRONIZE, cudaErrorUnknown, (cudaStream_t stream), (stream))
RUNTIME(cudaEventRecord, CALL_RECORD, cudaErrorUnknown, (cudaEvent_t event, cudaStream_t stream), (event, stream))
RUNTIME(cudaStreamWaitEvent, CALL_WAIT, cudaErrorUnknown, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
        (stream, event, flags))
RUNTIME(cudaLaunchKernel, CALL_LAUNCH, last = cudaErrorLaunchFailure,
        (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
        (kernel, grid, block, arguments, shared, stream))
RUNTIME(__cudaLaunchKernel, CALL_LAUNCH, last = cudaErrorLaunchFailure,
        (void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
        (kernel, grid, block, arguments, shared, stream))

/* The next launch of blocks in clusters omits its last cluster, for which the others wait in vain */
static PetscBool withhold = PETSC_FALSE;

PETSC_EXTERN cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **);
cudaError_t              cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *kernel, void **arguments)
{
  cudaLaunchConfig_t config = *configuration;
  cudaError_t (*runtime)(const cudaLaunchConfig_t *, const void *, void **);

  if (Fails(CALL_LAUNCH, __builtin_return_address(0))) return last = cudaErrorLaunchFailure;
  for (unsigned int i = 0; withhold && i < config.numAttrs; i++) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension || config.gridDim.x <= config.attrs[i].val.clusterDim.x) continue;
    config.gridDim.x -= config.attrs[i].val.clusterDim.x;
    withhold = PETSC_FALSE;
  }
  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaLaunchKernelExC");
  return (*runtime)(&config, kernel, arguments);
}

/* Returns the error of a launch that is written with <<<>>> */
PETSC_EXTERN cudaError_t cudaGetLastError(void);
cudaError_t              cudaGetLastError(void)
{
  const cudaError_t error = last;
  cudaError_t (*runtime)(void);

  last = cudaSuccess;
  if (error) return error;
  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaGetLastError");
  return (*runtime)();
}

/* Returns PETSC_TRUE if there is a GPU. The library, but not the program, is linked to the runtime */
static PetscBool GPUThere(void)
{
  cudaError_t (*runtime)(int *);
  int count = 0;

  *(void **)&runtime = dlsym(RTLD_DEFAULT, "cudaGetDeviceCount");
  return runtime && !(*runtime)(&count) && count ? PETSC_TRUE : PETSC_FALSE;
}
