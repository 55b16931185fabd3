/* cpu_debug.h: tells debuggers where code compiled in this process is, so that they know its
 * functions and lines (the JIT interface of gdb and lldb). */
#ifndef WV_CPU_DEBUG_H
#define WV_CPU_DEBUG_H

#include <stddef.h>
#include <stdint.h>

typedef struct CpuDebug CpuDebug;

/* An ELF object whose section i is at section_at[i]; 0: not loaded. It is copied. NULL: out of
 * memory, which affects only debuggers. */
CpuDebug *cpu_debug_show(const void *object, size_t size, const uint64_t *section_at);
void cpu_debug_hide(CpuDebug *d); /* NULL: nothing */

/* With WAVE_PERF set, appends a line to /tmp/perf-PID.map, where `perf report` looks for the names
 * of functions without a file. Entries are never removed: perf reads the file afterwards. */
void cpu_perf_note(const void *at, uint64_t size, const char *name);

#endif
