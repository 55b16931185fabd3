/* cuda_driver.c: where libcuda is, and what is used from it. */
#include "runtime/cuda/cuda_driver.h"

enum { MUST = 1, MAY = 0 };

static const GpuFunction functions[] = {
#define CUDA_FN(need, name, symbol, arguments) {#symbol, offsetof(CudaDriver, name), need},
#include "runtime/cuda/cuda_driver.def"
};

static const char *const names[] = {"libcuda.so.1", "libcuda.so"};

const GpuLibrary cuda_library = {.driver = "CUDA driver",
                                 .variable = VARIABLE_CUDA_LIB,
                                 .names = names,
                                 .nnames = WV_LEN(names),
                                 .install = "install NVIDIA's GPU driver",
                                 .newer = "install a driver for CUDA 11.0 or newer",
                                 .functions = functions,
                                 .nfunctions = WV_LEN(functions)};
