/* cpu_debug.h: debuggers are told where code that was compiled in this process lies, so that they
 * know its functions and lines (the interface that gdb and lldb have for compilers like this one).
 */
#ifndef WV_CPU_DEBUG_H
#define WV_CPU_DEBUG_H

#include <stddef.h>
#include <stdint.h>

typedef struct CpuDebug CpuDebug;

/* An ELF object whose section i lies at placed[i]; 0: nowhere. The object is copied. NULL: there is
 * no memory, which only debuggers miss. */
CpuDebug *cpu_debug_show(const void *object, size_t size, const uint64_t *placed);
void cpu_debug_hide(CpuDebug *d); /* NULL: nothing */

/* With WAVE_PERF set, a line of /tmp/perf-PID.map, where `perf report` looks for the names of
 * functions that are in no file. What was noted stays there: perf reads it when all is over. */
void cpu_perf_note(const void *at, uint64_t size, const char *name);

#endif
