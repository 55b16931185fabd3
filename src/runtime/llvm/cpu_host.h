/* cpu_host.h: CPUs as LLVM knows them. */
#ifndef WV_CPU_HOST_H
#define WV_CPU_HOST_H

#include "runtime/llvm/llvm_library.h"

/* The row of targets.def that describes this CPU's registers. */
const char *cpu_target_row(const LlvmTarget *t);

/* This machine, with exactly the features that this process may use. */
LlvmTarget cpu_host_target(const LlvmLibrary *l, Arena *a);

/* Any CPU of a row, with only the features that all of them have. */
LlvmTarget cpu_target_of(Arena *a, const CpuInfo *row);

#endif
