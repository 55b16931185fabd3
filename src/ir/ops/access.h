/* access.h: decomposes an op that touches memory: which operand is the memory, over which
 * dimensions the access runs, and how coordinates of its tile become coordinates of the memory.
 *
 *     %x = read %a, %page {mapping = map 2 {P: $dynamic_val0, D: $index1}
 *                                       -> {T: $index0, D: $index1}}
 *
 * The tile has coordinates $x0, $x1, ... (one per dimension of the register), the memory $y0, $y1,
 * ... and sizes $n0, $n1, ...: the `mask` attribute refers to them. */
#ifndef WV_ACCESS_H
#define WV_ACCESS_H

#include "ir/ir.h"

typedef struct MemAccess {
  const Op *op;
  Value *memory;
  int memory_arg;    /* its operand number */
  const Type *tile;  /* its dims are those of the register; for a copy, of its shared side */
  SymPairs coords;   /* memory dim -> expression of the iterators; n 0: by name */
  SymPairs iterated; /* the dimensions that $index0 .. run over */
  const Mapping *mapping;
  Value *const *dynamic;
  int ndynamic;
  bool local;        /* scratch: coordinates relative to the workgroup's tile */
  bool test_extents; /* elements beyond the size of their dimension are inactive */
  int replaced;      /* memory dim whose coordinate is an operand of its own, or -1 */
} MemAccess;

/* The expression of the pair with the same base dimension; NULL: none. */
const Sym *access_pair(SymPairs pairs, const Sym *dim);

/* False: the op touches no memory. For a copy this is the global side. */
bool access_of(const Op *op, MemAccess *out);

/* Whether dynamic value i is looked up at the coordinates of the element being accessed: it must
 * then have the layout of the tile. A copy has no tile in registers: what it looks up has the layout in
 * which threads copy, once it has been decided how they do. */
bool access_looks_up_in_place(const MemAccess *a, int i);

/* The dims over which a write or an atomic without mapping runs: those of its register, then those
 * of the memory that the register lacks, along which it is broadcast over the tile. Returns the
 * register's own type if it lacks none, or if a mapping or each thread determines the coordinates.
 * NULL: more than IR_MAX_RANK dims. */
const Type *access_spread(Context *cx, const Op *op);

/* The first read that follows the sums over workgroups, of an argument that is written there, too: a workgroup may
 * find what another one has written. NULL: none. */
const Op *access_reread(const Kernel *k);

/* A barrier of those that the word names: "workgroup", "cluster". */
bool op_is_barrier_of(const Op *op, const char *who);

/* An atomic on a tile, including scatters and reports. */
bool op_is_atomic(const Op *op);

/* Operands of an atomic that follows RULE_atomic: a value, a memory, possibly the expected value.
 * Dynamic values come after them. */
int atomic_operands(OpKind kind);

/* Which of the threads that hold the same element do an atomic: one of them; one of each declared
 * wave, if waves disagree about the value, the address or whether to do it; or all of them. */
typedef enum AtomicBy { ATOMIC_BY_OWNER, ATOMIC_BY_WAVE, ATOMIC_BY_THREAD } AtomicBy;
AtomicBy atomic_by(const Op *op);

/* How a copy is done, if that has been decided: "load", "direct", "async" or "tma". */
bool copy_goes_by(const Op *op, const char *mode);
/* It is complete only after a wait: "direct" or "async". */
bool copy_is_awaited(const Op *op);
/* The workgroups of a cluster that make a copy together (`peers`); 1: each makes its own. */
int op_peers(const Op *op);
/* The barriers on which a TMA copy arrives: its last operand, a ring with as many slots as the
 * copy's. NULL: it is not a TMA copy, or they have not been created yet. */
Value *copy_barriers(const Op *op);

/* Executed by service waves, and by no others: a copy, its wait, a prefetch or registers given away, with a role,
 * in a kernel whose `machine` row has service waves. */
bool op_is_served(const Kernel *k, const Op *op);

/* `barrier roles`, after which service waves execute only what is served; NULL: there is none. */
Op *op_parting(const Region *r);

/* It affects no other thread, except that these may have to wait for their turn. */
bool op_is_private(const Op *op);
/* Whether `product` (NULL: of another iteration), which may be in flight, must be complete before
 * `op`: it takes the result, unless it only adds to it, or makes what replaces an operand in the next
 * iteration. That operand is in registers, which the product still reads. */
bool op_awaits_product(const Op *op, const Value *product);
/* Copies that the kernel does not wait for itself must be complete before it: other threads may read
 * shared memory after it, or what follows it is unknown. */
bool copy_ends_before(const Op *op);
/* The slot of a ring that an op names; NULL: none. */
const Sym *op_slot(const Op *op);

/* The parameter or allocation that a memory stands for: for a carried one, its initial value. */
const Value *memory_root(const Value *memory);
static inline bool memory_is_scratch(const Value *memory) {
  return memory_root(memory)->def != NULL;
}
/* The memory that an op of either level stores to; NULL: none. */
const Value *memory_written(const Op *op);
const char *memory_name(const Kernel *k, const Value *memory); /* of its root */

/* An argument that may have arbitrary strides, because of a `view` row; otherwise it is row-major
 * and aligned to 16 bytes. */
bool memory_is_view(const Kernel *k, const Value *memory);
bool memory_is_written(const Kernel *k, const Value *memory); /* by any op of the kernel */
/* Properties of an argument known at launch: $SIZE_a_0, $STRIDE_a_0; $BASE_a (dim -1) is its
 * address, of which some low bits are known. */
const Sym *memory_symbol(const Kernel *k, const Value *memory, const char *what, int dim);

const Sym *access_x(SymCtx *cx, int i);        /* $xi */
const Sym *access_y(SymCtx *cx, int i);        /* $yi, which may be negative */
const Sym *access_n(SymCtx *cx, int i);        /* $ni: the size of the memory along its dim i */
const Sym *access_iterator(SymCtx *cx, int i); /* $indexi */
const Sym *access_dynamic(SymCtx *cx, int i, bool given); /* $dynamic_vali; given: as written */
/* A value from memory can be anything, and arithmetic on it may overflow 64 bits: 2*i + 1. Beyond a
 * magnitude of *limit it is outside every memory; up to it, no coordinate overflows and neither
 * does the offset computed from them (which may be NULL). *limit mentions no value from memory;
 * NULL: every value is harmless, as in Mod(i, N). False: no limit can be given. */
bool access_reach(SymCtx *cx, const Sym *const *coords, int n, const Sym *offset, const Sym *value,
                  const Sym **limit);

/* `e` with the value clamped to the limit; and with all of several values clamped where arithmetic
 * in `e` could overflow 64 bits, if a limit can be given. */
const Sym *access_clamp(SymCtx *cx, const Sym *e, const Sym *value, const Sym *limit);
const Sym *access_kept(SymCtx *cx, const Sym *e, const Sym *const *values, int n);

/* A symbol like $x7 in `test` that has no meaning for this access; NULL: none. */
const char *access_stray(const MemAccess *a, const Sym *test);

#endif
