/* lower.h: from tiles with layouts to one lane's program.
 *
 *     %x = read %a : tile<M, K, f16> @ [64, 32] reg d1/8:1 | lane d1/4:8 d0/16:1 | wave d0/4:16
 *
 *     %o = expr 200*($T0/4 + 64*$WG0) + 8*Mod($T0, 4) + 32*$ARGK : i32
 *     %x = load %a, %o {coords = [...]} : vec<8, f16>
 *
 * A tile becomes one vec with a register for each of its layout's; an elementwise op stays the op
 * it is. Where an element lies follows from the layout: the digits of lane and wave are expressions
 * of the thread's number, the digits of a register are constants. Expressions are emitted in front
 * of the loops they do not depend on, once.
 *
 * lower_threads.c walks the kernel; each other file lowers one family of ops. */
#ifndef WV_LOWER_H
#define WV_LOWER_H

#include "analysis/anchors.h"
#include "analysis/in_bounds.h"
#include "analysis/uniform.h"
#include "transform/pass.h"

/* An open region of the lane's program. */
typedef struct LowerScope {
  Region *region;
  Op *open;              /* its last op, whose body is being filled; NULL: it is the innermost */
  const SymFacts *facts; /* what holds there, thread ids included */
  Map exprs, wide;       /* expression -> its value there; wide: as `index` */
  struct LowerScope *outer;
} LowerScope;

/* A symbol that has a value only inside of a scope: a counter, a version. */
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
  struct Divisors *divisors; /* by what holds at entry; NULL: not asked yet */
  const Sym *lane, *wave;    /* of this thread, over $T0, $T1, $T2 */
  const Sym *elected;        /* true in one thread of the workgroup */
  Value **value;             /* by value id of the tile kernel: what a lane holds; NULL: nothing */
  LowerScope *scope;         /* innermost: ops are appended to its region */
  Vec(LowerSymbol) symbols;
  const Region *tiles;        /* the body that is being lowered */
  Standing standing;          /* of the op that is being lowered */
  Span at;                    /* its place in the source */
  SetSymbols hidden;          /* some region hides what they mean at entry */
  const char *refused;        /* why the op that is being lowered cannot be; NULL: it can */
  Vec(const Value *) copying; /* allocations that asynchronous copies are on their way to */
  Vec(const Value *) flying;  /* results of products that are under way, the oldest first */
  int pending;                /* so many of them may stay so where threads meet */
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

/* Until asynchronous copies that were issued are done: in front of what orders threads, and where
 * regions meet. */
void lower_wait(Lower *l);

/* Until no more than `most` of the products that read shared memory are under way. */
void lower_wait_products(Lower *l, int most);

/* E0601 at the op: what cannot be lowered yet. Always false. */
bool lower_refuse(Lower *l, const Op *op, const char *what);

/* What is emitted in between happens where the condition holds; behind one another under the same
 * condition it is one region. */
void lower_open_if(Lower *l, const Sym *condition);
void lower_close_if(Lower *l);
void lower_open_if_true(Lower *l, Value *condition); /* the same with a truth value */

/* Shared with lower_tiles: the outermost scope, with the kernel's arguments; the header of one
 * lane's program. */
void lower_open_kernel(Lower *l);
void lower_replace_header(Lower *l, Constraint launch);

/* a and b, vecs of one length, brought together by the function of the author (lower_combine.c). */
Value *emit_combine(Lower *l, const Op *op, Value *a, Value *b);

/* What changes no sum, maximum or minimum. */
Value *lower_neutral(Lower *l, OpKind kind, DType t);

/* ---- emission (lower_emit.c) -------------------------------------------------------------------
 */

/* Appends an op; its result, or NULL for an op without one. */
Value *emit(Lower *l, OpKind kind, Value *const *args, int nargs, const Attr *attrs, int nattrs,
            const Type *type);

/* An integer expression of symbols, as `dtype` (i32 or index). Emitted in front of the loops whose
 * symbols it does not mention, unless it may have no value there. */
Value *emit_expr(Lower *l, const Sym *e, DType dtype);

/* The same with what comes from registers: $APPLY_EXPR_ARG_i is args[i]. Not moved. */
Value *emit_expr_of(Lower *l, const Sym *e, DType dtype, Value *const *args, int nargs);
const Sym *emit_arg(Lower *l, int i); /* $APPLY_EXPR_ARG_i */

/* An address: terms that do not change in inner loops are summed in front of them, and those that
 * all lanes share apart from those of the lane. */
Value *emit_address(Lower *l, const Sym *e, DType dtype);

/* The address e, which is `step` behind the address `from`. */
Value *emit_step(Lower *l, Value *from, const Sym *step, const Sym *e, DType dtype);

/* e, or 0 for the NULL that overflow left: the op is then refused when it has been lowered. */
const Sym *lower_sound(Lower *l, const Sym *e);

/* An expression of symbols as they are at entry, for a place where a region may hide them: text
 * means by `N` the version in force. */
const Sym *at_entry(Lower *l, const Sym *e);
const Sym *lower_param_symbol(Lower *l, int param, const char *what, int dim); /* $SIZE_a_0 */

/* A condition; NULL when it always holds. */
Value *emit_test(Lower *l, const Sym *condition);

/* The same for many that differ in a number, and e <= most. */
Value *emit_bound(Lower *l, const Sym *condition);
Value *emit_below(Lower *l, const Sym *e, int64_t most);
const Sym *below_zero(Lower *l, const Sym *condition); /* e of `e <= 0`; NULL: it is no such test */

Value *emit_number(Lower *l, DType dtype, double v);
Value *emit_splat(Lower *l, Value *scalar, int n);
Value *emit_pick(Lower *l, Value *v, const int *regs, int n); /* v itself where that is all of it */
Value *emit_range(Lower *l, Value *v, int first, int n); /* of its registers, from `first` on */
Value *emit_join(Lower *l, Value *const *parts, int n);
Value *emit_binary(Lower *l, OpKind kind, Value *a, Value *b);
Value *emit_select(Lower *l, Value *condition, Value *yes, Value *no);
Value *emit_cast(Lower *l, Value *v, DType dtype); /* v itself where that is its dtype */
Value *emit_shuffle(Lower *l, Value *v, int flip); /* of the lane whose number is ours xor flip */
Value *emit_shuffle_idx(Lower *l, Value *v, const Sym *lane);

const SymFacts *lower_facts(const Lower *l); /* where ops are appended now */

/* ---- where elements lie (lower_place.c) --------------------------------------------------------
 */

/* What lane and wave contribute to the coordinate along `dim`, relative to the tile. */
const Sym *lane_coord(Lower *l, const Layout *layout, int dim);

/* Digit i of this thread's lane or wave number, in the radices of the layout. */
const Sym *lane_digit(Lower *l, const Layout *layout, LayoutPart part, int i);

/* True in one of the threads that are declared to hold the same element; NULL: in all. Of the waves
 * that do so, the innermost `waves` are looked at. */
const Sym *lane_is_first(Lower *l, const Layout *layout, int waves);

/* The coordinate of register `reg` is inside the tile along all dims of the bit set; NULL: always.
 */
const Sym *lane_is_inside(Lower *l, const Layout *layout, int reg, unsigned dims);
enum { ALL_DIMS = ~0u };

/* `v`, a tile with this layout, with `neutral` where it holds no element along the dims. */
Value *lane_cover(Lower *l, Value *v, const Layout *layout, unsigned dims, Value *neutral);

/* Registers by the coordinates they hold along the dims of the bit set, seen from lane 0 of wave 0.
 */
typedef struct RegisterIndex {
  Map first; /* coordinates -> the first such register, + 1 */
  int64_t weight[LAYOUT_DIMS];
  int count[LAYOUT_DIMS];
} RegisterIndex;
RegisterIndex *register_index(Lower *l, const Layout *layout, unsigned dims);
int register_at(const RegisterIndex *x, const int *coord); /* -1: none */

/* Of each register the first that holds the same element: itself, or one before. */
const int *first_twins(Lower *l, const Layout *layout);

/* For every register of `whole` one of `part` that holds the element of the same coordinates along
 * the dims of `part`; dim i of part is dim[i] of whole, or -1: any, it lies in registers alone. */
const int *match_registers(Lower *l, const Layout *whole, const Layout *part, const int *dim);

/* Operand `v` of the tile kernel as the registers of a tile of this type and layout. */
Value *lower_operand(Lower *l, const Value *v, const Type *type, const Layout *layout);

/* Registers of a value of the tile kernel. */
static inline int regs_of(const Value *v) {
  return v->layout ? layout_size(v->layout, LAYOUT_REG) : 1;
}

/* Of what is no tile: every thread holds it. */
Layout lane_undivided(const Lower *l);

/* The only register of a value that is one element. */
Value *lower_scalar(Lower *l, const Value *v);

/* ---- elements that digits reach in several ways (lower_holders.c) ------------------------------
 */

/* A digit that moves along a dim. */
typedef struct Mover {
  LayoutPart part;
  int number; /* in its part */
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

/* Whether this thread's register is the one that counts of those with its coordinate along the dim;
 * of HOLDERS_SEVERAL. */
const Sym *holder_counts(Lower *l, const DimHolders *h, int reg);

/* ---- expressions over a tile (lower_forms.c) ---------------------------------------------------
 */

typedef struct FormValue {
  int reg;
  const Sym *value;
} FormValue;

/* `of` more of a register digit add so much; `of` is the radix where nothing is an addition. */
typedef struct FormStep {
  int of;
  const Sym *adds;
} FormStep;

/* An expression over $x0, $x1, ..., the coordinates of a tile that lies like `layout`. */
typedef struct TileForm {
  const Sym *whole;
  const Layout *layout;
  FormStep step[LAYOUT_DIGITS]; /* by register digit */
  bool plain;                   /* values are cheaper as they are written than simplified */
  Vec(FormValue) values;        /* where no step leads to */
  const Sym **more;             /* by how often each step is taken that is no number */
} TileForm;

/* known + more + by; two places with the same `known` and `more` differ by a number. */
typedef struct FormPlace {
  const Sym *known; /* NULL: overflow */
  const Sym *more;  /* a sum that is no number */
  int64_t by;
} FormPlace;

TileForm *form_of(Lower *l, const Sym *e, const Layout *layout);

/* Its value at a register; x: where register 0 lies. */
FormPlace form_place(Lower *l, TileForm *f, const Sym *const *x, int reg);

/* An earlier register from which `adds`, which is no number, leads to reg; -1: none. Few different
 * steps are taken: by 1, 2, 4, ... leaps. */
int form_before(Lower *l, const TileForm *f, int reg, const Sym **adds);
const Sym *form_sum(Lower *l, FormPlace p);                              /* NULL: overflow */
const Sym *form_at(Lower *l, TileForm *f, const Sym *const *x, int reg); /* both */

/* Simplified, unless e as it stands takes fewer operations. */
const Sym *cheaper(Lower *l, const Sym *e);

/* ---- memory of the workgroup (lower_memory.c) --------------------------------------------------
 */

/* Where the elements of an allocation lie; false: it is none, or nobody knows. */
bool memory_layout(const Value *memory, MemLayout *out);

/* The slot of a ring that `op` names: its layout, and how many elements lie in front of it. */
bool memory_slot_layout(Lower *l, const Value *memory, const Op *op, MemLayout *out,
                        const Sym **before);

/* In elements, before the swizzle (mem_place). */
const Sym *memory_place(Lower *l, const MemLayout *m, const Sym *const *coords);

/* In elements, of coordinates that are relative to the tile, in the slot of a ring that `op` names.
 */
const Sym *memory_offset(Lower *l, const MemLayout *m, const Value *memory, const Op *op,
                         const Sym *const *coords);

/* The slot that `op` names in front of the coordinates, where the memory is a ring. */
void memory_add_slot(Lower *l, const Value *memory, const Op *op, const Sym **coords);

/* What this thread has written there may be read by matrix instructions after the next barrier, if
 * some read it. */
void lower_publish(Lower *l, const Value *memory);

/* Registers of the layout that lie side by side in memory, the whole tile being accessed by name.
 */
int memory_width(Lower *l, const MemLayout *m, const Layout *layout);

/* ---- accesses (lower_open.c, lower_access.c) ----------------------------------------------------
 */

enum { LANE_DYNAMIC = 5 }; /* values that coordinates take from registers */

/* Loads or stores of a tile that lies like `layout`, `width` registers at a time. */
typedef struct LaneAccess {
  const Op *op;
  const MemAccess *access;
  const Layout *layout;
  Value *memory;
  const Sym *start[IR_MAX_RANK];  /* where the tile begins */
  const Sym *x[IR_MAX_RANK];      /* tile coordinates of register 0 */
  const Sym *offset;              /* in elements over the $x, which are tile coordinates */
  const Sym *coords[IR_MAX_RANK]; /* of the memory, over the $x */
  const Sym *tests[MAX_BOUNDS];   /* over the $x; all must hold */
  int ntests;
  Value
      *dynamic[LANE_DYNAMIC]; /* $APPLY_EXPR_ARG_i in all of them: one register for each of ours */
  int ndynamic;
  Value *near; /* truth values, a register for each of ours: the dynamic values are not so large
                  that coordinates overflow; NULL: they never are */
  int width;
  DType offset_dtype;
} LaneAccess;

/* Dynamic value `name` of an access, 0 where it is so large that arithmetic on it might overflow;
 * *near says where it is not (NULL: nowhere). NULL: it cannot be said. */
Value *lower_limited(Lower *l, const AccessBounds *b, const Sym *name, Value *v, Value **near);

bool open_access(Lower *l, const Op *op, const AccessBounds *b, const Layout *layout,
                 LaneAccess *out);
/* An open access of single elements that may lie outside of its tile: what was proved of the tile
 * is tested. */
bool open_elsewhere(Lower *l, LaneAccess *a, const AccessBounds *b);

/* Of an element, in elements, over the $x; NULL: it cannot be written down. */
const Sym *access_offset(Lower *l, const AccessBounds *b);
Value *lane_load(Lower *l, const LaneAccess *a);

/* The address of each register's element: a value, and elements to add to it. */
typedef struct LaneOffset {
  Value *base;
  int64_t imm;
} LaneOffset;
LaneOffset *lane_offsets(Lower *l, const LaneAccess *a);

/* A fragment of a matrix instruction that lies in shared memory, by ldmatrix (lower_matrices.c);
 * NULL: it is loaded lane by lane. */
Value *lower_read_matrices(Lower *l, const Op *op);
bool lower_write_matrices(Lower *l, const Op *op); /* the other way; false: lane by lane */

/* Dynamic value i where the mapping looks it up, for every register; NULL after reporting. */
Value *lower_lookup(Lower *l, const LaneAccess *a, int i);

/* Of so many waves, the innermost, one thread acts for those that hold the same element of an
 * atomic; 0: each thread acts for itself. */
int atomic_waves(const Lower *l, const Op *op);

/* An element that may have failed: its table in memory, `imm` elements behind `offset`. */
typedef struct Reported {
  Value *memory, *offset;
  int64_t imm;
  Value *failed; /* NULL: it has */
} Reported;
void emit_report(Lower *l, const Reported *r, Value *const *words, int n);

void lane_store(Lower *l, const LaneAccess *a, Value *v);
void lane_copy_async(Lower *l, const LaneAccess *to, const LaneAccess *from); /* equal widths */

#endif
