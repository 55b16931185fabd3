/* hip_driver.c: where libamdhip64 is, and what is used from it. */
#include "runtime/hip/hip_driver.h"

enum { MUST = 1, MAY = 0 };

static const GpuFunction functions[] = {
#define HIP_FN(need, result, name, symbol, arguments) {#symbol, offsetof(HipDriver, name), need},
#include "runtime/hip/hip_driver.def"
};

static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                    "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"};

const GpuLibrary hip_library = {
    .driver = "HIP runtime",
    .variable = VARIABLE_HIP_LIB,
    .names = names,
    .nnames = WV_LEN(names),
    .install = "install ROCm's HIP runtime (`hip-runtime-amd`, or your distribution's "
               "`libamdhip64`), execute the machine code on the host (target `emu:gfx942`), or "
               "run the kernel on a simulated GPU: target `sim:gfx942`",
    .newer = "install ROCm 5.0 or newer",
    .functions = functions,
    .nfunctions = WV_LEN(functions)};
