/* cpu_gdb.h: the symbols that gdb and lldb look for. A debugger sets a breakpoint in the function
 * and reads the list. They are in a separate file so that the call is not optimised away. */
#ifndef WV_CPU_GDB_H
#define WV_CPU_GDB_H

#include <stdint.h>

typedef enum GdbAction { GDB_NOTHING, GDB_SHOWN, GDB_HIDDEN } GdbAction;

typedef struct GdbEntry {
  struct GdbEntry *next, *before;
  const void *object;
  uint64_t size;
} GdbEntry;

typedef struct GdbList {
  uint32_t version, action; /* GdbAction */
  GdbEntry *changed, *first;
} GdbList;

extern GdbList __jit_debug_descriptor;
void __jit_debug_register_code(void);

#endif
