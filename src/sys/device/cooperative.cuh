/*
   Cooperative launches: all blocks are resident at once, so they may wait for each other. No PETSc call.
*/
#pragma once

#include "target.cuh"

template <typename... Parameters>
static inline cudaError_t IDRSLaunchCooperative(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                                                cudaStream_t stream, const Parameters &...arguments)
{
  cudaLaunchConfig_t  config    = {};
  cudaLaunchAttribute attribute = {};

  attribute.id              = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.gridDim            = blocks;
  config.blockDim           = threads;
  config.stream             = stream;
  config.attrs              = &attribute;
  config.numAttrs           = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}
