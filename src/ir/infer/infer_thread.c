/* infer_thread.c: result types of one lane's program (the THREAD ops of ops.def).
 *
 * A lane holds scalars and vecs. An offset counts elements of the memory it belongs to; a mask is
 * an i1 for the whole access or one per element. */
#include <string.h>

#include "ir/dtype.h"
#include "ir/infer/infer.h"
#include "ir/schedule/turn_ops.h"
#include "target/maps/clip.h"
#include "target/maps/im2col.h"
#include "target/matrices.h"

static bool is_integer(const Type *t) {
  DTypeClass class = dtype_info[t->dtype].class;
  return type_is_value(t) && (class == DTYPE_INT || class == DTYPE_UINT || class == DTYPE_INDEX);
}

static bool need_type(const Infer *in, int i, bool fits, const char *wanted) {
  if (fits) return true;
  return INFER_FAIL(in, E0311, "operand %d of `%s` is %s, expected %s", i + 1, infer_name(in),
                    infer_shown(in, infer_arg(in, i)), wanted);
}

static bool need_index(const Infer *in, int i) {
  const Type *t = infer_arg(in, i);
  return need_type(in, i, t->kind == TYPE_scalar && is_integer(t), "an integer scalar");
}

static bool need_mask(const Infer *in, int i, int n) {
  if (in->op->nargs <= i) return true;
  const Type *t = infer_arg(in, i);
  bool fits =
      t->dtype == DTYPE_i1 && (t->kind == TYPE_scalar || (t->kind == TYPE_vec && t->n == n));
  return need_type(in, i, fits, "a mask of dtype i1, one in total or one per element");
}

static bool need_shared(const Infer *in, int i) {
  if (!infer_need_memory(in, i)) return false;
  return need_type(in, i, infer_arg(in, i)->space == in->k->cx->shared_space, "shared memory");
}

static bool need_global(const Infer *in, int i) {
  if (!infer_need_memory(in, i)) return false;
  return need_type(in, i, infer_arg(in, i)->space != in->k->cx->shared_space, "global memory");
}

static bool need_dtype(const Infer *in, int i, const Type *mem) {
  if (infer_arg(in, i)->dtype == mem->dtype) return true;
  return INFER_FAIL(in, E0301, "`%s` of %s and %s: the dtypes differ", infer_name(in),
                    infer_shown(in, infer_arg(in, i)), infer_shown(in, mem));
}

static bool need_operands(const Infer *in, int n) {
  if (in->op->nargs == n) return true;
  return INFER_FAIL(in, E0309, "`%s` takes %d operands here, not %d", infer_name(in), n,
                    in->op->nargs);
}

static bool need_attr(const Infer *in, AttrKey key) {
  if (op_has(in->op, key)) return true;
  return INFER_FAIL(in, E0318, "`%s` needs `%s`", infer_name(in), attr_info[key].name);
}

/* `mode` is one of the words, separated by spaces. */
static bool need_word(const Infer *in, const char *words) {
  const char *word = op_attr(in->op, ATTR_mode)->text;
  size_t n = strlen(word);
  for (const char *at = words; (at = strstr(at, word)); at += n)
    if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return INFER_FAIL(in, E0318, "`%s %s`: expected one of %s", infer_name(in), word, words);
}

static bool need_ints(const Infer *in, AttrKey key, int n, int64_t least) {
  const Attr *a = op_attr(in->op, key);
  bool fits = a && (n < 0 || a->n == n);
  for (int i = 0; fits && i < a->n; i++) fits = a->ints[i] >= least;
  if (fits) return true;
  const char *many = n < 0 ? "" : arena_printf(in->k->cx->diags.arena, "%d ", n);
  return INFER_FAIL(in, E0318, "`%s` of `%s` must be a list of %snumbers, each at least %lld",
                    attr_info[key].name, infer_name(in), many, (long long)least);
}

static bool given_vec(const Infer *in) {
  if (in->given && (in->given->kind == TYPE_scalar || in->given->kind == TYPE_vec)) return true;
  return INFER_FAIL(in, E0316, "`%s` needs the type of its result: a scalar or a vec",
                    infer_name(in));
}

/* ---- values ---- */

bool rule_lane_expr(Infer *in) {
  for (int i = 0; i < in->op->nargs; i++)
    if (!need_index(in, i)) return false;
  if (!given_vec(in)) return false;
  bool truth = sym_is_bool(op_attr(in->op, ATTR_expr)->sym);
  bool fits = in->given->kind == TYPE_scalar &&
              (truth ? in->given->dtype == DTYPE_i1 : is_integer(in->given));
  if (fits) return infer_result(in, in->given);
  return INFER_FAIL(in, E0316, "`expr` returns %s, not %s",
                    truth ? "a boolean (i1)" : "an integer scalar", infer_shown(in, in->given));
}

bool rule_clock(Infer *in) {
  if (!given_vec(in)) return false;
  if (in->given->kind == TYPE_scalar && in->given->dtype == DTYPE_i64)
    return infer_result(in, in->given);
  return INFER_FAIL(in, E0316, "`clock` returns i64, not %s", infer_shown(in, in->given));
}

bool rule_splat(Infer *in) {
  if (!infer_need_value(in, 0) || !given_vec(in)) return false;
  const Type *t = infer_arg(in, 0);
  if (t->kind == TYPE_scalar && t->dtype == in->given->dtype) return infer_result(in, in->given);
  return INFER_FAIL(in, E0316, "cannot `splat` %s to %s", infer_shown(in, t),
                    infer_shown(in, in->given));
}

bool rule_join(Infer *in) {
  int n = 0;
  for (int i = 0; i < in->op->nargs; i++) {
    if (!infer_need_value(in, i) || !need_dtype(in, i, infer_arg(in, 0))) return false;
    n += infer_arg(in, i)->n;
  }
  return infer_result(in, type_vec(in->k->cx, n, infer_arg(in, 0)->dtype)) ||
         INFER_FAIL(in, E0319, "`join` has %d registers, too many for one value", n);
}

bool rule_pick(Infer *in) {
  if (!infer_need_value(in, 0) || !need_ints(in, ATTR_regs, -1, 0)) return false;
  const Attr *regs = op_attr(in->op, ATTR_regs);
  const Type *t = infer_arg(in, 0);
  for (int i = 0; i < regs->n; i++)
    if (regs->ints[i] >= t->n)
      return INFER_FAIL(in, E0318, "`pick` of register %lld is out of range for %s",
                        (long long)regs->ints[i], infer_shown(in, t));
  return infer_result(in, type_vec(in->k->cx, regs->n, t->dtype)) ||
         INFER_FAIL(in, E0318, "`pick` of %d registers: unsupported number", regs->n);
}

bool rule_shuffle(Infer *in) {
  return infer_need_value(in, 0) && need_word(in, "xor up down") && need_attr(in, ATTR_by) &&
         infer_result(in, infer_arg(in, 0));
}

bool rule_shuffle_idx(Infer *in) {
  return infer_need_value(in, 0) && need_index(in, 1) && infer_result(in, infer_arg(in, 0));
}

/* ---- memory ---- */

/* `coords` of an access to operand `at`: one for each dim. */
static bool check_coords(const Infer *in, int at) {
  const Attr *coords = op_attr(in->op, ATTR_coords);
  if (!coords || coords->n == infer_arg(in, at)->rank) return true;
  return INFER_FAIL(in, E0304, "got %d coordinates for %s", coords->n,
                    infer_shown(in, infer_arg(in, at)));
}

/* An access of n elements: memory, offset, mask from operand `at` on. */
static bool check_access(const Infer *in, int at, int n) {
  if (!infer_need_memory(in, at) || !need_index(in, at + 1) || !need_mask(in, at + 2, n))
    return false;
  if (op_has(in->op, ATTR_peer) && !need_shared(in, at)) return false;
  return check_coords(in, at);
}

bool rule_load(Infer *in) {
  if (!given_vec(in) || !check_access(in, 0, in->given->n)) return false;
  if (in->given->dtype == infer_arg(in, 0)->dtype) return infer_result(in, in->given);
  return INFER_FAIL(in, E0301, "the dtype of `%s` from %s must match, not %s", infer_name(in),
                    infer_shown(in, infer_arg(in, 0)), infer_shown(in, in->given));
}

bool rule_store(Infer *in) {
  return infer_need_value(in, 0) && check_access(in, 1, infer_arg(in, 0)->n) &&
         need_dtype(in, 0, infer_arg(in, 1));
}

/* n elements in rows of equal length: memory, offset and stride from operand `at` on. */
static bool check_rows(const Infer *in, int at, int n) {
  const Attr *rows = op_attr(in->op, ATTR_rows);
  if (!infer_need_memory(in, at) || !need_index(in, at + 1) || !need_index(in, at + 2) ||
      !need_attr(in, ATTR_rows))
    return false;
  if (rows->integer > 0 && n % rows->integer == 0) return true;
  return INFER_FAIL(in, E0318, "`%s` of %d elements cannot have %lld rows", infer_name(in), n,
                    (long long)rows->integer);
}

bool rule_load_rows(Infer *in) {
  if (!given_vec(in) || !check_rows(in, 0, in->given->n)) return false;
  if (in->given->dtype == infer_arg(in, 0)->dtype) return infer_result(in, in->given);
  return INFER_FAIL(in, E0301, "the dtype of `%s` from %s must match, not %s", infer_name(in),
                    infer_shown(in, infer_arg(in, 0)), infer_shown(in, in->given));
}

bool rule_store_rows(Infer *in) {
  return infer_need_value(in, 0) && check_rows(in, 1, infer_arg(in, 0)->n) &&
         need_dtype(in, 0, infer_arg(in, 1));
}

/* Of a tile: one of its parts, of an argument. */
static bool check_prefetched_tile(const Infer *in) {
  const Attr *parts = op_attr(in->op, ATTR_parts);
  if (!need_operands(in, 1) || !need_global(in, 0)) return false;
  if (!parts && op_has(in->op, ATTR_expr)) return need_attr(in, ATTR_parts);
  if (!parts) return true;
  if (parts->integer < 1)
    return INFER_FAIL(in, E0318, "`parts` is %lld, expected at least 1", (long long)parts->integer);
  return need_attr(in, ATTR_expr);
}

bool rule_prefetch(Infer *in) {
  if (in->k->level == LEVEL_TILE) return check_prefetched_tile(in);
  return need_operands(in, 2) && check_access(in, 0, 1);
}

bool rule_lane_atomic(Infer *in) {
  if (!rule_store(in) || !need_word(in, "add min max and or xor xchg cas")) return false;
  const Type *t = infer_arg(in, 0);
  if (strcmp(op_attr(in->op, ATTR_mode)->text, "cas") != 0) return infer_result(in, t);
  if (t->n == 2) return infer_result(in, type_scalar(in->k->cx, t->dtype));
  return INFER_FAIL(in, E0318, "`atomic cas` takes a new value and an expected value, not %s",
                    infer_shown(in, t));
}

/* 1, 2 or 4 matrices, 32 bits of each per lane; transposing moves whole elements. */
static bool check_matrices(const Infer *in, const Type *t) {
  int bits = dtype_info[t->dtype].bits, all = bits * t->n;
  bool fits =
      bits == 4 || bits == 8 || bits == 16 || (bits == 32 && !op_has(in->op, ATTR_transposed));
  if (fits && (all == 32 || all == 64 || all == 128)) return true;
  return INFER_FAIL(in, E0318,
                    "`%s%s` of %s: a lane must hold 32, 64 or 128 bits, in elements of 4, 8, 16 or "
                    "(not transposed) 32 bits",
                    infer_name(in), op_has(in->op, ATTR_transposed) ? " {transposed}" : "",
                    infer_shown(in, t));
}

/* A lane gets as many elements as it addresses. */
static bool check_columns(const Infer *in, const Type *t) {
  const LaunchSpec *launch = kernel_launch(in->k);
  int lanes = launch ? launch->lanes : 0, bits = dtype_memory_bits(t->dtype);
  const MatrixForm *form = matrix_form(lanes, bits);
  if (op_has(in->op, ATTR_transposed))
    return INFER_FAIL(in, E0318, "`ldmatrix` is either `transposed` or reads `columns`");
  if (!form || bits != dtype_info[t->dtype].bits)
    return INFER_FAIL(in, E0318,
                      "`ldmatrix {columns}` of %s in a wave of %d lanes: elements have 4, 8 or 16 "
                      "bits, waves 32 or 64 lanes",
                      infer_shown(in, t), lanes);
  if (t->n * bits == form->row) return true;
  return INFER_FAIL(in, E0318, "`ldmatrix {columns}` of %s in a wave of %d lanes gets %d elements",
                    infer_shown(in, t), lanes, form->row / bits);
}

bool rule_ldmatrix(Infer *in) {
  if (!need_shared(in, 0) || !rule_load(in)) return false;
  return op_has(in->op, ATTR_columns) ? check_columns(in, in->given)
                                      : check_matrices(in, in->given);
}

bool rule_stmatrix(Infer *in) {
  return infer_need_value(in, 0) && need_shared(in, 1) && rule_store(in) &&
         check_matrices(in, infer_arg(in, 0));
}

/* ---- matrix instructions ---- */

bool rule_wave_mma(Infer *in) {
  for (int i = 0; i < in->op->nargs; i++)
    if (!infer_need_value(in, i)) return false;
  if (in->op->nargs == 4)
    return INFER_FAIL(in, E0309, "`wave_mma` needs scales for both operands or for neither");
  if (op_has(in->op, ATTR_copies) && !need_ints(in, ATTR_copies, 3, 1)) return false;
  return infer_result(in, infer_arg(in, 2));
}

/* acc, a | (memory, offset), memory, offset [, keep] */
bool rule_wgmma(Infer *in) {
  if (!infer_need_value(in, 0)) return false;
  int b = infer_arg(in, 1)->kind == TYPE_mem ? 3 : 2;
  if (in->op->nargs < b + 2 || in->op->nargs > b + 3)
    return INFER_FAIL(in, E0309, "`wgmma` cannot have %d operands", in->op->nargs);
  if (b == 3 && (!need_shared(in, 1) || !need_index(in, 2) || !need_attr(in, ATTR_desc_a)))
    return false;
  if (!need_shared(in, b) || !need_index(in, b + 1) || !need_mask(in, b + 2, 1)) return false;
  if (!need_attr(in, ATTR_desc_b)) return false;
  return infer_result(in, infer_arg(in, 0));
}

/* ---- synchronisation ---- */

bool rule_barrier(Infer *in) {
  const char *words = in->k->level == LEVEL_TILE ? "workgroup wave cluster named roles"
                                                 : "workgroup wave cluster named";
  if (!need_word(in, words)) return false;
  bool named = strcmp(op_attr(in->op, ATTR_mode)->text, "named") == 0;
  if (named) return need_attr(in, ATTR_bar) && need_attr(in, ATTR_count);
  static const AttrKey its[] = {ATTR_bar, ATTR_member, ATTR_count, ATTR_arrive};
  for (size_t i = 0; i < WV_LEN(its); i++)
    if (op_has(in->op, its[i]))
      return INFER_FAIL(in, E0318, "`%s` is allowed on named barriers only",
                        attr_info[its[i]].name);
  return true;
}

/* Number 0 is the workgroup's barrier: two groups use it to take turns, one of them a barrier late. */
static bool rule_lagged_turn(const Infer *in, int64_t groups) {
  if (groups != TURN_LEAST)
    return INFER_FAIL(in, E0318, "two groups take turns by the workgroup's barrier, number 0");
  bool ends = op_is_turn(in->op, "open") || op_is_turn(in->op, "close");
  return !ends || !op_has(in->op, ATTR_no_ds_wait) ||
         INFER_FAIL(in, E0318, "`turn open` and `turn close` wait for shared memory");
}

/* Other barriers belong to one group each. */
bool rule_turn(Infer *in) {
  int64_t n = 0;
  if (!need_word(in, "open take pass meet close") || !need_attr(in, ATTR_bar) ||
      !need_attr(in, ATTR_count))
    return false;
  int64_t bar = op_attr(in->op, ATTR_bar)->integer;
  bool known = sym_is_int(op_attr(in->op, ATTR_count)->sym, &n);
  if (known && bar == TURN_LAGGED) return rule_lagged_turn(in, n);
  if (op_is_turn(in->op, "meet") || op_has(in->op, ATTR_no_ds_wait))
    return INFER_FAIL(in, E0318, "`%s` is for turns by the workgroup's barrier, number 0",
                      op_is_turn(in->op, "meet") ? "meet" : "no_ds_wait");
  bool fits = known && n >= TURN_LEAST && n <= TURN_MOST && bar >= 1 && bar <= NAMED_BARRIERS - n;
  return fits ||
         INFER_FAIL(in, E0318, "the groups of `turn` are %d to %d, and their barriers 1 to %d",
                    TURN_LEAST, TURN_MOST, NAMED_BARRIERS - 1);
}

/* Registers are reallocated in multiples of eight, up to what a thread can have. */
bool rule_wave_registers(Infer *in) {
  int64_t n;
  if (!need_word(in, "take give") || !need_attr(in, ATTR_count)) return false;
  bool fits = sym_is_int(op_attr(in->op, ATTR_count)->sym, &n) && n >= 24 && n <= 256 && n % 8 == 0;
  return fits || INFER_FAIL(in, E0318,
                            "the count of `wave_registers` must be a multiple of 8 from 24 to 256");
}

bool infer_need_mbars(const Infer *in, int at) {
  return need_shared(in, at) &&
         need_type(in, at, infer_arg(in, at)->dtype == DTYPE_i64, "shared i64 memory for barriers");
}

static bool need_mbar(const Infer *in, int at) {
  return infer_need_mbars(in, at) && need_index(in, at + 1);
}

/* Operands of an op on one barrier, or on a ring of them that an attribute counts through. */
static bool check_ring_of_mbars(const Infer *in) {
  bool waits = in->op->kind == OP_mbar_wait;
  return need_operands(in, 1) && infer_need_mbars(in, 0) &&
         (!waits || (need_attr(in, ATTR_slot) && need_attr(in, ATTR_parity))) &&
         (in->op->kind != OP_mbar_arrive || need_attr(in, ATTR_slot));
}

bool rule_mbar(Infer *in) {
  if (in->op->kind == OP_mbar_init && !need_attr(in, ATTR_count)) return false;
  if (in->k->level == LEVEL_TILE) return check_ring_of_mbars(in);
  if (!need_operands(in, in->op->kind == OP_mbar_wait ? 3 : 2) || !need_mbar(in, 0)) return false;
  if (in->op->kind == OP_mbar_expect) return need_attr(in, ATTR_bytes);
  return in->op->kind != OP_mbar_wait || need_index(in, 2);
}

/* ---- asynchronous copies ---- */

bool rule_copy_async(Infer *in) {
  if (!need_shared(in, 0) || !need_index(in, 1) || !need_global(in, 2) || !need_index(in, 3) ||
      !need_mask(in, 4, 1) || !need_dtype(in, 0, infer_arg(in, 2)) || !need_attr(in, ATTR_bytes) ||
      !check_coords(in, 2))
    return false;
  int64_t bytes;
  bool fits = sym_is_int(op_attr(in->op, ATTR_bytes)->sym, &bytes) &&
              (bytes == 4 || bytes == 8 || bytes == 16);
  return fits || INFER_FAIL(in, E0318, "`copy_async` must move 4, 8 or 16 bytes");
}

static bool need_between(const Infer *in, AttrKey key, int n, int64_t least, int64_t most) {
  const Attr *a = op_attr(in->op, key);
  bool fits = a && a->n == n;
  for (int i = 0; fits && i < a->n; i++) fits = a->ints[i] >= least && a->ints[i] <= most;
  if (fits) return true;
  return INFER_FAIL(in, E0318, "`%s` of `%s` must be a list of %d numbers from %lld to %lld",
                    attr_info[key].name, infer_name(in), n, (long long)least, (long long)most);
}

/* Pixels of one to three dims, between the image and the channels. */
static bool check_im2col(const Infer *in, int rank) {
  int pixels = rank - 2;
  if (pixels < 1 || pixels > 3)
    return INFER_FAIL(in, E0309, "im2col of %s, expected 3 to 5 dimensions",
                      infer_shown(in, infer_arg(in, 4)));
  int64_t reach = im2col_reach(pixels);
  if (!need_between(in, ATTR_im2col, 2 * pixels, -reach, reach - 1)) return false;
  if (!need_between(in, ATTR_box, 2, 1, IM2COL_PIXELS)) return false;
  return !op_has(in->op, ATTR_steps) || need_between(in, ATTR_steps, pixels, 1, IM2COL_STEP);
}

/* Rows end early along an outer dim, of 3 at most. */
static bool check_clip(const Infer *in, int rank) {
  int64_t dim = op_attr(in->op, ATTR_clip)->integer;
  if (op_has(in->op, ATTR_im2col))
    return INFER_FAIL(in, E0318, "a copy with `im2col` cannot have `clip`");
  if (rank <= CLIP_RANK && dim >= 0 && dim + 1 < rank) return true;
  return INFER_FAIL(in, E0318, "`clip` is %lld, expected an outer dimension of 2 or 3",
                    (long long)dim);
}

/* Dims before it are one with an outer dim. */
static bool check_joined(const Infer *in, int rank) {
  int64_t dim = op_attr(in->op, ATTR_joined)->integer;
  if (op_has(in->op, ATTR_im2col) || op_has(in->op, ATTR_clip))
    return INFER_FAIL(in, E0318, "a copy with `%s` cannot have `joined`",
                      op_has(in->op, ATTR_clip) ? "clip" : "im2col");
  if (dim > 0 && dim + 1 < rank) return true;
  return INFER_FAIL(in, E0318, "`joined` is %lld, expected a dimension between the first and last",
                    (long long)dim);
}

/* The box of a tensor copy, and one coordinate per dimension from operand `at` + 1 on. */
static bool check_box(const Infer *in, int shared, int at) {
  if (!need_shared(in, shared) || !need_index(in, shared + 1) || !need_global(in, at) ||
      !need_dtype(in, shared, infer_arg(in, at)))
    return false;
  bool walks = op_has(in->op, ATTR_im2col), clips = op_has(in->op, ATTR_clip);
  int rank = infer_arg(in, at)->rank, taps = walks ? rank - 2 : 0;
  if (clips && !check_clip(in, rank)) return false;
  if (op_has(in->op, ATTR_joined) && !check_joined(in, rank)) return false;
  if (walks ? !check_im2col(in, rank) : !need_ints(in, ATTR_box, rank, 1)) return false;
  if (!walks && op_has(in->op, ATTR_steps))
    return INFER_FAIL(in, E0318, "`steps` is allowed only on a copy with `im2col`");
  if (in->op->nargs != at + 1 + rank + taps + clips)
    return INFER_FAIL(in, E0309, "`%s` has %d coordinates%s for %s", infer_name(in),
                      in->op->nargs - at - 1, walks ? " and taps" : "",
                      infer_shown(in, infer_arg(in, at)));
  for (int i = at + 1; i < in->op->nargs; i++)
    if (!need_index(in, i)) return false;
  const Attr *swizzle = op_attr(in->op, ATTR_swizzle);
  int64_t span = swizzle ? swizzle->integer : 0;
  bool known = span == 0 || span == 32 || span == 64 || span == 128;
  return known || INFER_FAIL(in, E0318, "the swizzle is %lld bytes, expected 0, 32, 64 or 128",
                             (long long)span);
}

bool rule_tma_load(Infer *in) { return check_box(in, 0, 4) && need_mbar(in, 2); }

bool rule_tma_store(Infer *in) { return check_box(in, 0, 2); }

bool rule_tma_prefetch(Infer *in) {
  int rank = infer_arg(in, 0)->rank;
  if (!need_global(in, 0) || !need_ints(in, ATTR_box, rank, 1)) return false;
  if (op_has(in->op, ATTR_joined) && !check_joined(in, rank)) return false;
  for (int i = 1; i < in->op->nargs; i++)
    if (!need_index(in, i)) return false;
  return in->op->nargs == 1 + rank ||
         INFER_FAIL(in, E0309, "`%s` has %d coordinates for %s", infer_name(in), in->op->nargs - 1,
                    infer_shown(in, infer_arg(in, 0)));
}
