/* access.h: an op that touches memory, taken apart: which operand is the memory, over which
 * dimensions the access runs, and how coordinates of its tile become coordinates of the memory.
 *
 *     %x = read %a, %page {mapping = map 2 {P: $dynamic_val0, D: $index1} -> {T: $index0, D:
 * $index1}}
 *
 * The tile has coordinates $x0, $x1, ... (one per dimension of the register), the memory $y0, $y1,
 * ... and sizes $n0, $n1, ...: the `mask` attribute speaks of them. */
#ifndef WV_ACCESS_H
#define WV_ACCESS_H

#include "ir/ir.h"

typedef struct MemAccess {
  const Op *op;
  Value *memory;
  int memory_arg;    /* its operand number */
  const Type *tile;  /* its dims are those of the register; of a copy, of its shared side */
  SymPairs coords;   /* memory dim -> expression of the iterators; n 0: by name */
  SymPairs iterated; /* the dimensions $index0 .. run over */
  const Mapping *mapping;
  Value *const *dynamic;
  int ndynamic;
  bool local;        /* scratch: coordinates relative to the workgroup's tile */
  bool test_extents; /* elements beyond the size of their dimension are inactive */
  int replaced;      /* memory dim whose coordinate is an operand of its own, or -1 */
} MemAccess;

/* False: the op touches no memory. Of a copy this is the global side. */
bool access_of(const Op *op, MemAccess *out);

/* Whether dynamic value i is looked up at the coordinates of the element that is accessed: it must
 * then lie as the tile does. A copy has no tile in registers. */
bool access_looks_up_in_place(const MemAccess *a, int i);

/* The dims over which a write or an atomic without mapping runs: those of its register, then those
 * of the memory that the register lacks. It is broadcast along them, over the tile of each. The
 * register's own type: it lacks none, or a mapping or each thread says where elements go. NULL:
 * they are more than IR_MAX_RANK. */
const Type *access_spread(Context *cx, const Op *op);

/* An atomic of a tile, scatters and reports included. */
bool op_is_atomic(const Op *op);

/* Operands of an atomic that follows RULE_atomic: a value, a memory, perhaps what is expected
 * there. Dynamic values stand behind them. */
int atomic_operands(OpKind kind);

/* Who does an atomic, of the threads that hold the same element: one of them; one of each declared
 * wave, where waves disagree about the value, the place or whether to do it; or all of them. */
typedef enum AtomicBy { ATOMIC_BY_OWNER, ATOMIC_BY_WAVE, ATOMIC_BY_THREAD } AtomicBy;
AtomicBy atomic_by(const Op *op);

/* How a copy is done, where that was decided: "load", "async" or "tma". */
bool copy_goes_by(const Op *op, const char *mode);
/* What a copy by TMA arrives at: its last operand, a ring with as many slots as the copy's. NULL:
 * it has none, because it is none, or nobody has arranged for it yet. */
Value *copy_barriers(const Op *op);

/* The parameter or the allocation a memory stands for: carried ones are those they begin as. */
const Value *memory_root(const Value *memory);
static inline bool memory_is_scratch(const Value *memory) {
  return memory_root(memory)->def != NULL;
}
/* The memory that an op of either level stores to; NULL: none. */
const Value *memory_written(const Op *op);
const char *memory_name(const Kernel *k, const Value *memory); /* of its root */

/* An argument that a `view` row lets lie anyhow; else it is row-major and aligned to 16 bytes. */
bool memory_is_view(const Kernel *k, const Value *memory);
bool memory_is_written(const Kernel *k, const Value *memory); /* by any op of the kernel */
/* What a launch says of an argument: $SIZE_a_0, $STRIDE_a_0; $BASE_a (dim -1) is its address, of
 * which some low bits are known. */
const Sym *memory_symbol(const Kernel *k, const Value *memory, const char *what, int dim);

const Sym *access_x(SymCtx *cx, int i);        /* $xi */
const Sym *access_y(SymCtx *cx, int i);        /* $yi, which may be negative */
const Sym *access_n(SymCtx *cx, int i);        /* $ni: the size of the memory along its dim i */
const Sym *access_iterator(SymCtx *cx, int i); /* $indexi */
const Sym *access_dynamic(SymCtx *cx, int i,
                          bool given); /* $dynamic_vali; given: as it is written */
/* A value from memory can be anything, and arithmetic on it may leave 64 bits: 2*i + 1. Beyond a
 * magnitude of *limit it is outside of every memory; up to it, no coordinate overflows and neither
 * does the offset that is computed from them (which may be NULL). *limit mentions no value from
 * memory; NULL: every value is harmless, as in Mod(i, N). False: it cannot be said. */
bool access_reach(SymCtx *cx, const Sym *const *coords, int n, const Sym *offset, const Sym *value,
                  const Sym **limit);

/* `e` with the value kept within the limit; and with all of some values kept where arithmetic in
 * `e` could leave 64 bits, if it can be said where. */
const Sym *access_clamp(SymCtx *cx, const Sym *e, const Sym *value, const Sym *limit);
const Sym *access_kept(SymCtx *cx, const Sym *e, const Sym *const *values, int n);

/* A symbol like $x7 in `test` that means nothing for this access; NULL: none. */
const char *access_stray(const MemAccess *a, const Sym *test);

#endif
