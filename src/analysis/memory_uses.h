/* memory_uses.h: which memories each op touches, and how.
 *
 * A memory is an argument or an allocation. Loops may carry memories and exchange them; a value
 * then stands for any of the memories that it can be. */
#ifndef WV_MEMORY_USES_H
#define WV_MEMORY_USES_H

#include "base/vec.h"
#include "ir/ops/alloc_layout.h"

typedef enum Touch { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_ATOMIC = 4 } Touch;

typedef struct MemoryUse {
  Op *op;
  int memory; /* in MemoryUses.memories */
  Touch how;
  bool by_name;    /* each thread touches the same elements every time the op runs */
  const Sym *slot; /* of a ring, if the op names one */
  const Op
      *part; /* the op of which it touches the part (ir/schedule/op_parts.h); NULL: all of it */
} MemoryUse;

typedef struct MemoryUses {
  Vec(const Value *) memories; /* arguments and allocations */
  Vec(MemoryUse) uses;         /* in program order */
} MemoryUses;

/* An asynchronous copy that completes with a group that the kernel itself waits for. */
bool memory_is_ahead(const Op *op);

/* Whether an op of the kernel, or inside `loop` if that is not NULL, stores to a memory. */
bool memory_is_stored_to(const MemoryUses *m, const Value *memory, const Op *loop);

/* A barrier of the threads in `scope` ("workgroup", or "wave" if that is all of them) that orders
 * their accesses to memory. */
bool memory_is_ordered_by(const Op *op, const char *scope);

/* False: the two memories never share bytes. Arguments do not overlap; allocations do when both
 * have a `base` and their bytes intersect. */
bool memories_overlap(const MemoryUses *m, int a, int b);

/* False: two uses never touch the same bytes: their memories do not overlap, or they touch different parts
 * of one. */
bool uses_overlap(const MemoryUses *m, const MemoryUse *a, const MemoryUse *b);
/* For ops with parts, or NULL, that access one memory. */
bool parts_overlap(const Op *a, const Op *b, const Type *memory);

#endif
