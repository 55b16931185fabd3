/* lower.h: from tiles with layouts to one lane's program.
 *
 *     %x = read %a : tile<M, K, f16> @ [64, 32] reg d1/8:1 | lane d1/4:8 d0/16:1 | wave d0/4:16
 *
 *     %o = expr 200*($T0/4 + 64*$WG0) + 8*Mod($T0, 4) + 32*$ARGK : i32
 *     %x = load %a, %o {coords = [...]} : vec<8, f16>
 *
 * A tile becomes one vec with an element per register of its layout; an elementwise op stays the
 * same op. The position of an element follows from the layout: the digits of lane and wave are
 * expressions of the thread's number, the digits of a register are constants. Expressions are
 * emitted once, before the loops that they do not depend on.
 *
 * lower_threads.c walks the kernel; each other file lowers one family of ops. */
#ifndef WV_LOWER_H
#define WV_LOWER_H

#include "analysis/access/in_bounds.h"
#include "analysis/uniform.h"
#include "anchors/anchors.h"
#include "transform/pass.h"

/* An open region of the lane's program. */
typedef struct LowerScope {
  Region *region;
  Op *open;              /* its last op, whose body is being filled; NULL: it is the innermost */
  const SymFacts *facts; /* facts that hold there, including those about thread ids */
  Map exprs, wide;       /* expression -> its value there; wide: as `index` */
  struct LowerScope *outer;
} LowerScope;

/* A symbol that has a value only inside a scope: a counter, a version. */
typedef struct LowerSymbol {
  const Sym *symbol;
  LowerScope *scope;
} LowerSymbol;

typedef struct Lower {
  Kernel *k;
  PassCtx *cx;
  Arena *arena; /* scratch */
  SymCtx *sym;
  const Distribution *d;
  const AccessBounds *const *bounds; /* by op id of the tile kernel */
  const Uniformity *uniform;
  Machine machine;
  struct Divisors *divisors; /* from the facts at entry; NULL: not created yet */
  const Sym *lane, *wave;    /* of this thread, over $T0, $T1, $T2 */
  const Sym *elected;        /* true in one thread of the workgroup */
  Value **value;             /* by value id of the tile kernel: what a lane holds; NULL: nothing */
  LowerScope *scope;         /* innermost: ops are appended to its region */
  Vec(LowerSymbol) symbols;
  const Region *tiles;        /* the body being lowered */
  Standing standing;          /* of the op being lowered */
  Span at;                    /* its source location */
  SetSymbols hidden;          /* symbols whose meaning at entry is hidden by some region */
  const char *refused;        /* why the op being lowered cannot be; NULL: it can */
  Vec(const Value *) copying; /* allocations that asynchronous copies in flight write to */
  Vec(const Value *) flying;  /* results of products in flight, oldest first */
  int pending;                /* how many of them may stay in flight at a synchronisation */
} Lower;

/* One file of lower_<family>.c each; false after reporting. */
typedef bool LowerFn(Lower *l, const Op *op);
LowerFn lower_elementwise, lower_bitcast, lower_fill, lower_self_index, lower_exists, lower_inside,
    lower_apply, lower_reshaped, lower_repeat;
LowerFn lower_read, lower_write, lower_atomic, lower_report, lower_copy, lower_async_wait,
    lower_mbars;
LowerFn lower_mbar_wait;
bool lower_copy_boxes(Lower *l, const Op *op); /* by TMA */
LowerFn lower_mma;
LowerFn lower_reduce, lower_scan, lower_topk, lower_convert;
LowerFn lower_alloc;
LowerFn lower_extract, lower_extract_slice, lower_reshape;

/* Waits for the asynchronous copies issued so far: before ops that order threads, and where regions
 * meet. */
void lower_wait(Lower *l);

/* Waits until at most `most` of the products that read shared memory are in flight. */
void lower_wait_products(Lower *l, int most);

/* Reports E0601 at the op: something that cannot be lowered yet. Always false. */
bool lower_refuse(Lower *l, const Op *op, const char *what);

/* Code emitted in between runs if the condition holds; consecutive code under the same condition
 * shares one region. */
void lower_open_if(Lower *l, const Sym *condition);
void lower_close_if(Lower *l);
void lower_open_if_true(Lower *l, Value *condition); /* the same with a truth value */

/* Shared with lower_tiles: the outermost scope, with the kernel's arguments; the header of the
 * lane's program. */
void lower_open_kernel(Lower *l);
void lower_replace_header(Lower *l, Constraint launch);

/* a and b, vecs of the same length, combined by the user-defined function (lower_combine.c). */
Value *emit_combine(Lower *l, const Op *op, Value *a, Value *b);

/* The neutral element of a sum, maximum or minimum. */
Value *lower_neutral(Lower *l, OpKind kind, DType t);

/* ---- emission (lower_emit.c) ----------------------------------------------------------------- */

/* Appends an op; returns its result, or NULL if it has none. */
Value *lower_emit(Lower *l, OpKind kind, Value *const *args, int nargs, const Attr *attrs,
                  int nattrs, const Type *type);

/* An integer expression of symbols, as `dtype` (i32 or index). Hoisted out of loops whose symbols
 * it does not mention, unless it may be undefined there. */
Value *emit_expr(Lower *l, const Sym *e, DType dtype);

/* The same with operands in registers: $APPLY_EXPR_ARG_i is args[i]. Not hoisted. */
Value *emit_expr_of(Lower *l, const Sym *e, DType dtype, Value *const *args, int nargs);
const Sym *emit_arg(Lower *l, int i); /* $APPLY_EXPR_ARG_i */

/* An address: terms that are invariant in inner loops are summed before them, and terms that all
 * lanes share are summed separately from those of the lane. */
Value *emit_address(Lower *l, const Sym *e, DType dtype);

/* The address e, which is the address `from` plus `step`. */
Value *emit_step(Lower *l, Value *from, const Sym *step, const Sym *e, DType dtype);

/* e, or 0 if e is NULL after an overflow: the op is then refused once it has been lowered. */
const Sym *lower_sound(Lower *l, const Sym *e);

/* An expression with the meaning its symbols have at entry, for use where a region may hide them:
 * in text, `N` is the version in force. */
const Sym *at_entry(Lower *l, const Sym *e);
const Sym *lower_param_symbol(Lower *l, int param, const char *what, int dim); /* $SIZE_a_0 */

/* A condition; NULL if it always holds. */
Value *emit_test(Lower *l, const Sym *condition);

/* The same for many conditions that differ by a constant, and e <= most. */
Value *emit_bound(Lower *l, const Sym *condition);
Value *emit_below(Lower *l, const Sym *e, int64_t most);
const Sym *below_zero(Lower *l, const Sym *condition); /* e of `e <= 0`; NULL: it is not such a
                                                        * test */

Value *emit_number(Lower *l, DType dtype, double v);
Value *emit_splat(Lower *l, Value *scalar, int n);
Value *emit_pick(Lower *l, Value *v, const int *regs, int n); /* v itself if all of it is picked */
Value *emit_range(Lower *l, Value *v, int first, int n);      /* registers from `first` on */
Value *emit_join(Lower *l, Value *const *parts, int n);
Value *emit_binary(Lower *l, OpKind kind, Value *a, Value *b);
/* Both of two truth values, or of vectors of them; NULL: always true. */
Value *emit_both(Lower *l, Value *a, Value *b);
Value *emit_select(Lower *l, Value *condition, Value *yes, Value *no);
Value *emit_cast(Lower *l, Value *v, DType dtype); /* v itself if it already has that dtype */
Value *emit_shuffle(Lower *l, Value *v, int flip); /* from the lane whose number is ours xor flip */
Value *emit_shuffle_idx(Lower *l, Value *v, const Sym *lane);

const SymFacts *lower_facts(const Lower *l); /* at the point where ops are being appended */

/* ---- positions of elements (lower_place.c) --------------------------------------------------- */

/* What lane and wave contribute to the coordinate along `dim`, relative to the tile. */
const Sym *lane_coord(Lower *l, const Layout *layout, int dim);

/* Digit i of this thread's lane or wave number, in the radices of the layout. */
const Sym *lane_digit(Lower *l, const Layout *layout, LayoutPart part, int i);

/* True in one of the threads that are declared to hold the same element; NULL: in all. Among waves
 * that do so, only the innermost `waves` are considered. */
const Sym *lane_is_first(Lower *l, const Layout *layout, int waves);

/* The coordinate of register `reg` is inside the tile along all dims of the bit set; NULL:
 * always. */
const Sym *lane_is_inside(Lower *l, const Layout *layout, int reg, unsigned dims);
enum { ALL_DIMS = ~0u };

/* `v`, a tile with this layout, with `neutral` where it holds no element along the dims. */
Value *lane_cover(Lower *l, Value *v, const Layout *layout, unsigned dims, Value *neutral);

/* Registers by the coordinates they hold along the dims of the bit set, as seen from lane 0 of wave
 * 0. */
typedef struct RegisterIndex {
  Map first; /* coordinates -> the first such register, + 1 */
  int64_t weight[LAYOUT_DIMS];
  int count[LAYOUT_DIMS];
} RegisterIndex;
RegisterIndex *register_index(Lower *l, const Layout *layout, unsigned dims);
int register_at(const RegisterIndex *x, const int *coord); /* -1: none */

/* For each register, the first one that holds the same element: itself, or an earlier one. */
const int *first_twins(Lower *l, const Layout *layout);

/* For every register of `whole`, a register of `part` that holds the element with the same
 * coordinates along the dims of `part`; dim i of part is dim[i] of whole, or -1: any, it is in
 * registers only. */
const int *match_registers(Lower *l, const Layout *whole, const Layout *part, const int *dim);

/* Operand `v` of the tile kernel as the registers of a tile of this type and layout. */
Value *lower_operand(Lower *l, const Value *v, const Type *type, const Layout *layout);

/* Registers of a value of the tile kernel. */
static inline int regs_of(const Value *v) {
  return v->layout ? layout_size(v->layout, LAYOUT_REG) : 1;
}

/* The layout of a value that is not a tile: every thread holds it. */
Layout lane_undivided(const Lower *l);

/* The only register of a value of one element. */
Value *lower_scalar(Lower *l, const Value *v);

/* ---- elements that digits reach in several ways (lower_holders.c) ---------------------------- */

/* A digit that moves along a dim. */
typedef struct Mover {
  LayoutPart part;
  int number; /* index in its part */
  Digit digit;
} Mover;

typedef struct DimHolders {
  const Layout *layout;
  int dim, n;
  Mover movers[LAYOUT_PARTS * LAYOUT_DIGITS]; /* by stride */
  enum {
    HOLDERS_SINGLE,
    HOLDERS_SEVERAL,
    HOLDERS_TANGLED
  } kind; /* of the elements along the dim */
} DimHolders;

DimHolders dim_holders(Lower *l, const Layout *layout, int dim);

/* Whether, among the registers with the same coordinate along the dim, this thread's is the one
 * that counts; for HOLDERS_SEVERAL. */
const Sym *holder_counts(Lower *l, const DimHolders *h, int reg);

/* ---- expressions over a tile (lower_forms.c) ------------------------------------------------- */

typedef struct FormValue {
  int reg;
  const Sym *value;
} FormValue;

/* Increasing a register digit by `of` adds `adds`; `of` is the radix if no step is an addition. */
typedef struct FormStep {
  int of;
  const Sym *adds;
} FormStep;

/* An expression over $x0, $x1, ..., the coordinates of a tile with this layout. */
typedef struct TileForm {
  const Sym *whole;
  const Layout *layout;
  FormStep step[LAYOUT_DIGITS]; /* by register digit */
  bool plain;                   /* values are cheaper as written than simplified */
  Vec(FormValue) values;        /* at registers that no step leads to */
  const Sym **more;             /* by how often each symbolic step is taken */
} TileForm;

/* known + more + by; two places with the same `known` and `more` differ by a number. */
typedef struct FormPlace {
  const Sym *known; /* NULL: overflow */
  const Sym *more;  /* a symbolic sum */
  int64_t by;
} FormPlace;

TileForm *form_of(Lower *l, const Sym *e, const Layout *layout);

/* The value at a register; x: the position of register 0. */
FormPlace form_place(Lower *l, TileForm *f, const Sym *const *x, int reg);

/* An earlier register from which the symbolic step `adds` leads to reg; -1: none. Few different
 * steps are used: 1, 2, 4, ... leaps. */
int form_before(Lower *l, const TileForm *f, int reg, const Sym **adds);
const Sym *form_sum(Lower *l, FormPlace p);                              /* NULL: overflow */
const Sym *form_at(Lower *l, TileForm *f, const Sym *const *x, int reg); /* both */

/* e simplified, unless e as written takes fewer operations. */
const Sym *cheaper(Lower *l, const Sym *e);

/* ---- memory of the workgroup (lower_memory.c) ------------------------------------------------ */

/* The layout of an allocation; false: it is not an allocation, or its layout is unknown. */
bool memory_layout(const Value *memory, MemLayout *out);

/* The slot of a ring that `op` names: its layout, and the number of elements before it. */
bool memory_slot_layout(Lower *l, const Value *memory, const Op *op, MemLayout *out,
                        const Sym **before);

/* In elements, before the swizzle (mem_place). */
const Sym *memory_place(Lower *l, const MemLayout *m, const Sym *const *coords);

/* In elements, for coordinates relative to the tile, in the slot of a ring that `op` names. */
const Sym *memory_offset(Lower *l, const MemLayout *m, const Value *memory, const Op *op,
                         const Sym *const *coords);

/* Prepends the slot that `op` names to the coordinates if the memory is a ring. */
void memory_add_slot(Lower *l, const Value *memory, const Op *op, const Sym **coords);

/* Makes what this thread has written visible to matrix instructions after the next barrier, if any
 * of them read it. */
void lower_publish(Lower *l, const Value *memory);

/* The number of registers of the layout that are contiguous in memory, if the whole tile is
 * accessed by name. */
int memory_width(Lower *l, const MemLayout *m, const Layout *layout);

/* ---- one element of an access, over the coordinates $x of its tile (lower_element.c) --------- */

typedef struct ElementTests {
  const Sym *at[MAX_BOUNDS]; /* all must hold */
  int n;
} ElementTests;

/* A test over $x, $y and $n, over the $x alone; NULL: a size is unknown. */
const Sym *element_test(Lower *l, const AccessBounds *b, const Sym *test);
/* Those of the mask. `elsewhere`: of single elements that may be outside the tile, so that what was
 * proved for the tile is tested, too. False after refusing. */
bool element_tests(Lower *l, const AccessBounds *b, bool elsewhere, ElementTests *out);

enum { LANE_DYNAMIC = 5 }; /* values that coordinates take from registers */

typedef struct ElementValues {
  Value *value[LANE_DYNAMIC];
  SymBinding name[LANE_DYNAMIC]; /* of the value in coordinates and tests: $APPLY_EXPR_ARG_i */
  int n;
  Value *near; /* truth values, one per element: the values are small enough for coordinates not to
                * overflow; NULL: always */
} ElementValues;

/* Adds a value, which is replaced by 0 where it is not near. False after refusing. */
bool element_take(Lower *l, const AccessBounds *b, const Sym *name, Value *v, ElementValues *to);
/* The element's own coordinate along a dim; NULL: the tile has no such dim. */
const Sym *element_own_coord(Lower *l, const AccessBounds *b, const Sym *dim);
/* The coordinate along a dim of its type at which dynamic value i is looked up; NULL: neither the
 * mapping nor the tile has one. False: it cannot be expressed. */
bool element_lookup(Lower *l, const AccessBounds *b, int i, const Sym *dim, const Sym **out);

/* ---- accesses (lower_open.c, lower_access.c) ------------------------------------------------- */

/* Loads or stores of a tile with layout `layout`, `width` registers at a time. */
typedef struct LaneAccess {
  const Op *op;
  const MemAccess *access;
  const Layout *layout;
  Value *memory;
  const Sym *start[IR_MAX_RANK];  /* where the tile begins */
  const Sym *x[IR_MAX_RANK];      /* tile coordinates of register 0 */
  const Sym *offset;              /* in elements over the $x, which are tile coordinates */
  const Sym *coords[IR_MAX_RANK]; /* of the memory, over the $x */
  ElementTests tests;
  ElementValues dynamic; /* one register for each of ours */
  int width;
  DType offset_dtype;
} LaneAccess;

bool open_access(Lower *l, const Op *op, const AccessBounds *b, const Layout *layout,
                 LaneAccess *out);
/* An access to single elements that may be outside its tile: what was proved for the tile must be
 * tested. */
bool open_elsewhere(Lower *l, LaneAccess *a, const AccessBounds *b);

/* The offset of an element, in elements, over the $x; NULL: there is no expression for it. */
const Sym *access_offset(Lower *l, const AccessBounds *b);
Value *lane_load(Lower *l, const LaneAccess *a);

/* The address of each register's element: a value, and a number of elements to add. */
typedef struct LaneOffset {
  Value *base;
  int64_t imm;
} LaneOffset;
LaneOffset *lane_offsets(Lower *l, const LaneAccess *a);

/* Reads a fragment of a matrix instruction from shared memory with ldmatrix (lower_matrices.c);
 * NULL: it must be loaded lane by lane. */
Value *lower_read_matrices(Lower *l, const Op *op);
bool lower_write_matrices(Lower *l, const Op *op); /* the reverse, with stmatrix; false: lane by
                                                    * lane */

/* Dynamic value i at the coordinates where the mapping looks it up, for every register; NULL after
 * reporting. */
Value *lower_lookup(Lower *l, const LaneAccess *a, const AccessBounds *b, int i);

/* Within this many waves, the innermost, one thread acts for all that hold the same element of an
 * atomic; 0: each thread acts for itself. */
int atomic_waves(const Lower *l, const Op *op);

/* An element that may have failed: its table in memory, `imm` elements after `offset`. */
typedef struct Reported {
  Value *memory, *offset;
  int64_t imm;
  Value *failed; /* NULL: it has failed */
} Reported;
void emit_report(Lower *l, const Reported *r, Value *const *words, int n);

void lane_store(Lower *l, const LaneAccess *a, Value *v);
void lane_copy_async(Lower *l, const LaneAccess *to, const LaneAccess *from); /* equal widths */

#endif
