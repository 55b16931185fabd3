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

#include "emit/emit.h"

/* One file of lower_<family>.c each; false after reporting. */
typedef bool LowerFn(Lower *l, const Op *op);
LowerFn lower_elementwise, lower_select, lower_bitcast, lower_fill, lower_runs, lower_self_index,
    lower_exists, lower_inside, lower_apply, lower_reshaped, lower_repeat;
LowerFn lower_read, lower_write, lower_atomic, lower_report, lower_copy, lower_async_commit,
    lower_async_wait, lower_mbars;
LowerFn lower_mbar_wait, lower_mbar_arrive, lower_stamp;
bool lower_copy_boxes(Lower *l, const Op *op);  /* by TMA */
bool lower_store_boxes(Lower *l, const Op *op); /* the same, from shared memory */
LowerFn lower_bulk_wait;
LowerFn lower_prefetch;                           /* by TMA, into L2 */
bool lower_copy_direct(Lower *l, const Op *op);   /* by loads that end in shared memory */
void lower_wait_direct(Lower *l, const Op *wait); /* an async_wait; NULL: for all such loads */
LowerFn lower_mma;
LowerFn lower_reduce, lower_scan, lower_topk, lower_convert;
LowerFn lower_alloc;
LowerFn lower_extract, lower_extract_slice, lower_reshape;

/* ---- the walk (lower_threads.c), and that of service waves (lower_roles.c) ------------------- */

/* Before the walk: which ops are not lowered where they are, but under the guard of a select. */
void lower_find_guards(Lower *l);
bool lower_is_deferred(const Lower *l, const Op *op);

bool lower_meets(const Region *r); /* whether waves meet at a barrier in it */
/* How many of the iterations of a loop the waves of this thread's group need; NULL: all, or unknown. */
const Sym *lower_wanted(Lower *l, const Op *loop);

bool lower_one(Lower *l, const Op *op); /* by its family; false after reporting */
bool lower_ops(Lower *l, const Op *op, const Op *end);
void lower_region_attrs(Lower *l, const Op *op, Op *to); /* of a loop or conditional */
/* The first of `n` unused named barriers; 0: there are not enough. */
int lower_free_barriers(const Lower *l, int64_t n);

bool lower_roles(Lower *l, const Region *from); /* a kernel with service waves */
const Sym *lower_computing(const Lower *l);     /* the threads of the other waves */
int lower_cluster(const Lower *l); /* workgroups whose service waves copy for each other; 1: none */
LowerFn lower_turn;
LowerFn lower_meet; /* a barrier of the other waves */

/* Waits for the asynchronous copies issued so far: before ops that order threads, and where regions
 * meet. */
void lower_wait(Lower *l);

/* Waits until at most `most` of the products that read shared memory are in flight. */
void lower_wait_products(Lower *l, int most);

/* ---- coordinates of elements (lower_coords.c) ------------------------------------------------ */

/* What lane and wave contribute to the coordinate along `dim`, relative to the tile. */
const Sym *lane_coord(Lower *l, const Layout *layout, int dim);

/* Matrix instructions are executed by groups of waves with consecutive numbers: how many form one, in this
 * kernel; where the elements of this thread's group begin along `dim`, relative to the tile, and how far
 * they reach. */
int lane_group_waves(const Lower *l);
const Sym *lane_group_start(Lower *l, const Layout *layout, int dim, int *reach);

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
const int *lane_first_twins(Lower *l, const Layout *layout);

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

DimHolders holders_of_dim(Lower *l, const Layout *layout, int dim);

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

/* known + more + by; two values with the same `known` and `more` differ by a number. */
typedef struct FormParts {
  const Sym *known; /* NULL: overflow */
  const Sym *more;  /* a symbolic sum */
  int64_t by;
} FormParts;

TileForm *form_of(Lower *l, const Sym *e, const Layout *layout);

/* The value at a register; x: the position of register 0. */
FormParts form_parts(Lower *l, TileForm *f, const Sym *const *x, int reg);

/* An earlier register from which the symbolic step `adds` leads to reg; -1: none. Few different
 * steps are used: 1, 2, 4, ... leaps. */
int form_before(Lower *l, const TileForm *f, int reg, const Sym **adds);
const Sym *form_sum(Lower *l, FormParts p);                              /* NULL: overflow */
const Sym *form_at(Lower *l, TileForm *f, const Sym *const *x, int reg); /* both */

/* ---- memory of the workgroup (lower_alloc.c, lower_wgmma.c) ----------------------------------- */

/* Makes what this thread has written visible to matrix instructions and the copy engine after the
 * next barrier, if any of them read or overwrite it. */
void lower_publish(Lower *l, const Value *memory);

/* The number of registers of the layout that are contiguous in memory, if the whole tile is
 * accessed by name. */
int memory_width(Lower *l, const MemLayout *m, const Layout *layout);

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

Value *lane_load(Lower *l, const LaneAccess *a);
void lane_fill_up(Value **parts, int n); /* those that are NULL: undefined */

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

void lane_store(Lower *l, const LaneAccess *a, Value *v);
void lane_copy_async(Lower *l, const LaneAccess *to, const LaneAccess *from); /* equal widths */

#endif
