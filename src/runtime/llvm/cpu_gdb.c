/* cpu_gdb.c: see cpu_gdb.h. The list is global to the process, where debuggers look for it. */
#include "runtime/llvm/cpu_gdb.h"

GdbList __jit_debug_descriptor = {.version = 1};

void __jit_debug_register_code(void) {}
