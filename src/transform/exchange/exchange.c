/* exchange: sends what waves pass to each other through shared memory.
 *
 *     %y = convert %x : tile<M, N, f16> @ ...      write %x, %s
 *                                            =>    %y = read %s : tile<M, N, f16> @ ...
 *
 *     %r = sum %x, %i {dim = N, block}             %p = sum %x {dim = N, into = 2, block}
 *                                                  write %p, %s
 *                                            =>    %q = read %s : tile<M, 2, f32> @ ...
 *                                                  %r = sum %q, %i {dim = 2}
 *
 * A conversion is rewritten where convert_plan requires it; the others stay. If waves share the
 * reduced dim, a reduction is computed in parts, one per wave along the dim: in a lane-observable
 * kernel over the waves of the declared wave, or over all with `block`. Sums of narrow floats are
 * exchanged in f32. Scans and topk get their operand without waves along their dim. The result of
 * an atomic is known only to the thread that acted: other waves that hold the element receive it.
 * Allocations go to the beginning of the kernel, for `allocs` and `sync` to process; rows are padded
 * where that saves bank conflicts. Reductions that do not depend on each other are exchanged together
 * (exchange_batch.h).
 *
 * Needs DISTRIBUTE and UNIFORM: there will be a barrier where values are exchanged, so all waves
 * must reach it; lanes exchange values as a wave. Does nothing without layouts. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/combine.h"
#include "ir/ops/reductions.h"
#include "layout/convert.h"
#include "target/banks.h"
#include "transform/exchange/exchange_batch.h"
#include "transform/pass.h"

typedef struct Exchange {
  Kernel *k;
  PassCtx *cx;
  const Machine *machine;
  int within; /* waves of the machine that make up a declared one */
  Op *first;  /* of the kernel: allocations go before it */
  Exchanges parts;
  bool failed; /* a mistake was reported */
} Exchange;

/* ---- making ops ---- */

static Value *insert(Exchange *x, Op *before, OpKind kind, Value *const *args, int nargs,
                     const Type *type, const Layout *layout) {
  Op *op = ir_insert(x->k, before, kind, before->at, args, nargs, type);
  if (layout) ir_set_layout(x->k, &op->results[0], layout);
  return type ? &op->results[0] : NULL;
}

static Value *cast_to(Exchange *x, Op *before, Value *v, DType dtype) {
  if (v->type->dtype == dtype) return v;
  const Type *type = type_with_dtype(x->k->cx, v->type, dtype);
  Value *out = insert(x, before, OP_cast, &v, 1, type, v->layout);
  out->varying = v->varying;
  return out;
}

static void replace(Exchange *x, Op *op, Value *by) {
  if (by->def && !by->name) by->name = op->results[0].name;
  by->varying = op->results[0].varying;
  ir_replace_uses(x->k, &op->results[0], by);
  ir_remove(op);
}

/* ---- memory ---- */

static BankPattern pattern_of(const BankLayout *b, int bits, bool is_read) {
  int lanes = layout_size(b->layout, LAYOUT_LANE), regs = layout_size(b->layout, LAYOUT_REG);
  int bytes = b->vector * bits / 8;
  return (BankPattern){bank_layout_element, b, regs / b->vector, lanes, bytes, is_read, 1};
}

/* Where a tile is kept on its way: rows with this many elements of padding or, if accesses take half as
 * long then, swizzled. */
typedef struct Kept {
  int pad;
  MemLayout swizzled; /* dims 0: it is not */
} Kept;

static Kept choose_memory(const Exchange *x, const Layout *from, const Layout *to, DType dtype) {
  const TargetInfo *target = x->cx->target;
  int last = to->dims - 1, bits = dtype_memory_bits(dtype);
  Kept best = {0};
  if (to->dims < 2 || bits % 8 || !target->banks) return best;
  BankLayout sides[2] = {{from, layout_vector(from, last, bits, target->shared_access)},
                         {to, layout_vector(to, last, bits, target->shared_access)}};
  BankPattern patterns[2] = {pattern_of(&sides[0], bits, false), pattern_of(&sides[1], bits, true)};
  BankTile tile = {.dims = to->dims, .bits = bits, .patterns = patterns, .npatterns = 2};
  for (int d = 0; d < to->dims; d++) tile.extent[d] = to->extent[d];
  tile.is_plain = distribute_is_off(x->cx->facts.distribute, CONSTRAINT_swizzle);
  int64_t least = INT64_MAX, conflicts = 0,
          room = target->shared_most - alloc_bytes_beside(x->k, NULL);
  MemLayout plain = mem_rows(to->dims, to->extent, bits, 0);
  if (mem_bytes(&plain) > target->shared_most) return best; /* no layout makes it fit */
  int widest = sides[0].vector > sides[1].vector ? sides[0].vector : sides[1].vector;
  for (int pad = 0; pad <= 8 * widest; pad += widest) {
    MemLayout rows = mem_rows(to->dims, to->extent, bits, pad);
    tile.budget = mem_bytes(&rows);
    if (pad && tile.budget > room) break;
    BankChoice cost = bank_judge(target, &tile, &rows);
    if (!cost.found || cost.cycles >= least) continue;
    least = cost.cycles, conflicts = cost.conflicts, best.pad = pad;
  }
  if (2 * conflicts < least) return best; /* there is little to gain */
  BankChoice any = bank_choose(target, &tile);
  if (any.found && 2 * any.cycles <= least) best.swizzled = any.layout;
  return best;
}

static Value *new_alloc(Exchange *x, const Op *op, const Value *v, const Layout *to) {
  const Type *t = v->type;
  const Type *mem = type_mem(x->k->cx, t->dims, t->rank, t->dtype, x->k->cx->shared_space, NULL);
  const Sym **dims = ARENA_ARRAY(x->k->arena, const Sym *, t->rank);
  Kept kept = choose_memory(x, v->layout, to, t->dtype);
  Op *alloc = ir_insert(x->k, x->first, OP_alloc, op->at, NULL, 0, mem);
  if (kept.swizzled.dims) {
    MemLayout *layout = arena_copy(x->k->arena, &kept.swizzled, sizeof kept.swizzled);
    op_set_attr(x->k, alloc, (Attr){.key = ATTR_memory, .memory = layout});
    return &alloc->results[0];
  }
  for (int i = 0; i < t->rank; i++)
    dims[i] = sym_int(x->k->cx->sym, to->extent[i] + (i == t->rank - 1 ? kept.pad : 0));
  op_set_attr(x->k, alloc, (Attr){.key = ATTR_physical, .n = t->rank, .exprs = dims});
  return &alloc->results[0];
}

/* The same tile in another layout: written in the old one, read in the new one. Each workgroup of a
 * cluster gets a copy of the whole tile. */
static Value *through_memory(Exchange *x, Op *op, Value *v, const Layout *to) {
  Value *memory = new_alloc(x, op, v, to), *args[] = {v, memory};
  Op *write = ir_insert(x->k, op, OP_write, op->at, args, 2, NULL);
  int peers = x->machine->cluster;
  if (peers > 1) op_set_attr(x->k, write, (Attr){.key = ATTR_peers, .integer = peers});
  return insert(x, op, OP_read, &memory, 1, v->type, to);
}

/* ---- what may be exchanged, and where ---- */

static bool moves_along(const Layout *l, LayoutPart part, int dim) {
  for (int i = 0; i < l->part[part].n; i++)
    if (l->part[part].at[i].stride && l->part[part].at[i].dim == dim) return true;
  return false;
}

static bool holds_copies(const Layout *l) {
  for (int p = LAYOUT_LANE; p <= LAYOUT_WAVE; p++)
    for (int i = 0; i < l->part[p].n; i++)
      if (!l->part[p].at[i].stride) return true;
  return false;
}

/* All waves of the workgroup reach this op, and all copies of an element agree. */
static bool may_exchange(Exchange *x, const Op *op) {
  const Value *v = op->args[0];
  if (v->varying && holds_copies(v->layout))
    return diag_fail(&x->k->cx->diags, DIAG_E0612, op->at,
                     "`%s` would need values of other waves that differ between threads",
                     op_info[op->kind].name);
  return uniform_require(x->cx->facts.uniform, op, UNIFORM_WORKGROUP);
}

/* ---- waves along a dim ---- */

/* The innermost `waves` waves are whole digits, or a part of one that divides it. */
static bool can_cut_waves(const Layout *l, int waves) {
  int weight = 1;
  for (int i = 0; i < l->part[LAYOUT_WAVE].n; i++) {
    int radix = l->part[LAYOUT_WAVE].at[i].radix;
    if (weight < waves && weight * radix > waves)
      return waves % weight == 0 && radix % (waves / weight) == 0;
    weight *= radix;
  }
  return true;
}

/* Splits wave digits that cross a multiple of `waves`. */
static Layout cut_waves(const Layout *l, int waves) {
  Layout out = *l;
  out.part[LAYOUT_WAVE].n = 0;
  for (int i = 0, weight = 1; i < l->part[LAYOUT_WAVE].n; i++) {
    Digit g = l->part[LAYOUT_WAVE].at[i];
    int inside = weight < waves && weight * g.radix > waves ? waves / weight : g.radix;
    WV_ASSERT(g.radix % inside == 0);
    layout_push(&out, LAYOUT_WAVE, g.dim, inside, g.stride);
    layout_push(&out, LAYOUT_WAVE, g.dim, g.radix / inside, g.stride * inside);
    weight *= g.radix;
  }
  return out;
}

/* The number of innermost waves whose parts along the dim are combined. */
static int waves_together(const Exchange *x, const Op *op) {
  bool all = !x->machine->observable || op_has(op, ATTR_block);
  return all ? x->machine->waves : x->within;
}

/* The digits of those waves along `dim` become registers, and the waves hold copies. */
static Layout without_waves(const Layout *l, int dim, int waves, bool innermost) {
  Layout cut = cut_waves(l, waves), out = cut;
  Digits regs = cut.part[LAYOUT_REG];
  out.part[LAYOUT_WAVE].n = 0;
  if (innermost) out.part[LAYOUT_REG].n = 0;
  for (int i = 0, weight = 1; i < cut.part[LAYOUT_WAVE].n; i++) {
    Digit g = cut.part[LAYOUT_WAVE].at[i];
    bool moved = g.stride && g.dim == dim && weight < waves;
    if (moved) layout_push(&out, LAYOUT_REG, dim, g.radix, g.stride);
    if (moved) layout_repeat(&out, LAYOUT_WAVE, g.radix);
    else layout_push(&out, LAYOUT_WAVE, g.dim, g.radix, g.stride);
    weight *= g.radix;
  }
  for (int i = 0; innermost && i < regs.n; i++)
    layout_push(&out, LAYOUT_REG, regs.at[i].dim, regs.at[i].radix, regs.at[i].stride);
  layout_normalise(&out);
  return out;
}

static bool lies_on_waves(const Exchange *x, const Op *op, int dim) {
  const Layout *l = op->args[0]->layout;
  Layout inside = without_waves(l, dim, waves_together(x, op), false);
  return !layout_equal(l, &inside);
}

/* ---- reductions ---- */

static Layout layout_of_result(Exchange *x, Op *op, const int *extent) {
  LayoutLinks links = {0};
  Layout out = {0};
  layout_links(x->cx->scratch, op, &links);
  bool found = links.n && layout_of_part(&links.at[0], op->args[0]->layout, extent, &out);
  WV_ASSERT(found);
  return out;
}

/* The number of waves along the dim, including those that are not combined. */
static int count_waves(const Layout *l, int dim) {
  int n = 1;
  for (int i = 0; i < l->part[LAYOUT_WAVE].n; i++) {
    Digit g = l->part[LAYOUT_WAVE].at[i];
    if (g.stride && g.dim == dim) n *= g.radix;
  }
  return n;
}

/* One part of the reduction of a value per wave along its dim, as a tile with an additional dim for
 * the parts. `exists`: which elements count, for a `reduce`; may be NULL. */
static Value *make_parts(Exchange *x, Op *op, OpKind kind, Value *v, Value *exists, int dim) {
  const Type *t = v->type;
  const Sym *dims[IR_MAX_RANK];
  int extent[IR_MAX_RANK], rank = 0, waves = count_waves(v->layout, dim);
  const Sym *into = sym_int(x->k->cx->sym, waves);
  for (int i = 0; i < t->rank; i++)
    if (i != dim) extent[rank] = v->layout->extent[i], dims[rank++] = t->dims[i];
  if (type_dim(t, into) >= 0) {
    diag_add(&x->k->cx->diags, DIAG_E0601, op->at,
             "`%s` by %d waves of a tile with a dimension `%d` is not supported yet",
             op_info[op->kind].name, waves, waves);
    return NULL;
  }
  extent[rank] = waves, dims[rank++] = into;
  Value *args[] = {v, exists};
  const Type *type = type_tile(x->k->cx, dims, rank, t->dtype);
  Value *parts = insert(x, op, kind, args, exists ? 2 : 1, type, NULL);
  op_set_attr(x->k, parts->def, *op_attr(op, ATTR_dim));
  if (op_combines(kind)) op_set_attr(x->k, parts->def, *op_attr(op, ATTR_combine));
  op_set_attr(x->k, parts->def, (Attr){.key = ATTR_into, .sym = into});
  if (op_has(op, ATTR_block)) op_set_attr(x->k, parts->def, (Attr){.key = ATTR_block});
  Layout layout = layout_of_result(x, parts->def, extent);
  ir_set_layout(x->k, parts, &layout);
  return parts;
}

/* Instructions of a lane that combines n parts, `wide` per load, divided among `lanes` lanes:
 * loads, operations, and a shuffle and an operation for every doubling. */
static int cost_of_parts(int n, int lanes, int wide) {
  int own = n / lanes, doublings = 0;
  while (1 << doublings < lanes) doublings++;
  return (own + wide - 1) / wide + own - 1 + 2 * doublings;
}

/* Lanes that hold copies share the parts, which are consecutive in registers, where that is
 * cheaper: a lane then reads as many as one load brings. */
static void share_parts(const Exchange *x, Layout *l, int dim, DType dtype) {
  Digits *regs = &l->part[LAYOUT_REG], lanes = l->part[LAYOUT_LANE];
  int wide = x->cx->target->shared_access * 8 / dtype_memory_bits(dtype);
  if (!regs->n || regs->at[0].dim != dim || regs->at[0].stride != 1) return;
  int n = regs->at[0].radix, best = 1, at = 0, weight = 1;
  while (at < lanes.n && lanes.at[at].stride) weight *= lanes.at[at++].radix;
  if (at == lanes.n || lanes.n == LAYOUT_DIGITS || n != l->extent[dim]) return;
  if (!is_power_of_two(weight)) return;
  for (int by = 2; n % by == 0 && lanes.at[at].radix % by == 0; by *= 2)
    if (cost_of_parts(n, by, wide) < cost_of_parts(n, best, wide)) best = by;
  regs->at[0].radix /= best;
  l->part[LAYOUT_LANE].n = 0;
  for (int i = 0; i < lanes.n; i++) {
    if (i == at) layout_push(l, LAYOUT_LANE, dim, best, n / best), lanes.at[i].radix /= best;
    layout_push(l, LAYOUT_LANE, lanes.at[i].dim, lanes.at[i].radix, lanes.at[i].stride);
  }
  layout_normalise(l);
}

/* ---- which parts there are ---- */

/* The layout covers all elements along the dim, and nothing else. */
static bool is_exact(const Layout *l, int dim) {
  int64_t n = 1;
  EACH_DIGIT(l, p, d)
    if (d->stride && d->dim == dim) n *= d->radix;
  return n == l->extent[dim];
}

/* A 1 for each element along the dim; their sum counts those that exist. */
static Value *make_ones(Exchange *x, Op *op, int dim) {
  const Value *v = op->args[0];
  Value *exists = reduction_exists(op);
  if (exists) return cast_to(x, op, exists, DTYPE_i32);
  Layout along = layout_select(v->layout, &dim, 1);
  layout_normalise(&along);
  const Type *type = type_tile(x->k->cx, &v->type->dims[dim], 1, DTYPE_i32);
  Value *ones = insert(x, op, OP_fill, NULL, 0, type, &along);
  op_set_attr(x->k, ones->def, (Attr){.key = ATTR_value, .sym = sym_int(x->k->cx->sym, 1)});
  return ones;
}

/* Which waves had elements to combine, along the last dim of their parts, whose layout is
 * `together`; NULL: all had. A wave may hold only padding, or copies of what others hold. */
static Value *parts_exist(Exchange *x, Op *op, int dim, const Layout *together) {
  if (!reduction_exists(op) && is_exact(op->args[0]->layout, dim)) return NULL;
  Value *ones = make_ones(x, op, dim);
  int along = type_dim(ones->type, op_attr(op, ATTR_dim)->sym), last = together->dims - 1;
  Value *counts = make_parts(x, op, OP_sum, ones, NULL, along);
  if (!counts) return NULL;
  Layout to = layout_select(together, &last, 1);
  layout_normalise(&to);
  Value *zero = insert(x, op, OP_scalar, NULL, 0, type_scalar(x->k->cx, DTYPE_i32), NULL);
  op_set_attr(x->k, zero->def, (Attr){.key = ATTR_value, .sym = sym_int(x->k->cx->sym, 0)});
  Value *args[] = {through_memory(x, op, counts, &to), zero};
  return insert(x, op, OP_gt, args, 2, type_with_dtype(x->k->cx, counts->type, DTYPE_i1), &to);
}

/* True if the dim numbers the waves and each holds one element of it: these are the parts. */
static bool is_in_parts(const Op *op, int dim) {
  const Layout *l = op->args[0]->layout;
  int64_t n;
  return sym_is_int(op->args[0]->type->dims[dim], &n) && !op_combines(op->kind) &&
         is_exact(l, dim) && count_waves(l, dim) == n;
}

static void exchange_reduction(Exchange *x, Op *op, int dim) {
  DType dtype = op->args[0]->type->dtype;
  bool narrow =
      reduction_accumulates(op->kind) && dtype_is_float(dtype) && dtype_info[dtype].bits < 32;
  DType wide = narrow ? DTYPE_f32 : dtype;
  Value *v = cast_to(x, op, op->args[0], wide);
  bool made = is_in_parts(op, dim);
  Value *parts = made ? v : make_parts(x, op, op->kind, v, reduction_exists(op), dim);
  x->failed |= !parts;
  if (!parts) return;
  int along = made ? dim : parts->type->rank - 1;
  Layout together = without_waves(parts->layout, along, waves_together(x, op), true);
  share_parts(x, &together, along, wide);
  Value *args[3] = {through_memory(x, op, parts, &together)};
  vec_push(x->cx->scratch, &x->parts, ((Exchanged){args[0]->def->prev, args[0]->def}));
  if (op->nargs > 1) args[1] = cast_to(x, op, op->args[1], wide);
  if (op_combines(op->kind)) args[2] = parts_exist(x, op, dim, &together);
  const Type *type = type_with_dtype(x->k->cx, op->results[0].type, wide);
  int nargs = args[2] ? 3 : op->nargs > 1 ? 2 : 1;
  Value *r = insert(x, op, op->kind, args, nargs, type, op->results[0].layout);
  op_set_attr(x->k, r->def, (Attr){.key = ATTR_dim, .sym = parts->type->dims[along]});
  if (op_combines(op->kind)) op_set_attr(x->k, r->def, *op_attr(op, ATTR_combine));
  r->varying = op->results[0].varying;
  replace(x, op, cast_to(x, op, r, dtype));
}

/* ---- results ---- */

/* Later uses of the result get it through memory, in another layout. */
static void hand_on(Exchange *x, Op *op, const Layout *outside) {
  Value *result = &op->results[0], *out = through_memory(x, op->next, result, outside);
  Op *write = out->def->prev;
  out->varying = result->varying;
  ir_replace_uses(x->k, result, out);
  write->args[0] = result;
}

/* ---- scans ---- */

/* Existence is computed again in the new layout. */
static void remake_exists(Exchange *x, Op *op, const Layout *inside, int dim) {
  const Op *old = op->args[1]->def;
  WV_ASSERT(old && old->kind == OP_exists);
  Layout layout = layout_select(inside, &dim, 1);
  layout_normalise(&layout);
  Value *exists = insert(x, op, OP_exists, NULL, 0, old->results[0].type, &layout);
  for (int i = 0; i < old->nattrs; i++)
    op_set_attr(x->k, exists->def, attr_copy(x->k, &old->attrs[i]));
  op->args[1] = exists;
}

/* The op works on a layout without waves along its dim; its results are converted back. */
static void exchange_operand(Exchange *x, Op *op, int dim) {
  Value *result = &op->results[0];
  const Layout *outside = result->layout;
  Layout inside = without_waves(op->args[0]->layout, dim, waves_together(x, op), false);
  op->args[0] = through_memory(x, op, op->args[0], &inside);
  if (op->kind == OP_topk && op->nargs > 1) remake_exists(x, op, &inside, dim);
  if (!op_is_scan(op) || !op->next) return; /* the results lack the dim; or there are no uses */
  ir_set_layout(x->k, result, &inside);
  hand_on(x, op, outside);
}

/* ---- atomics ---- */

/* The author said how often each thread acts, or threads disagree: remarks that several of them
 * hold the same element. */
static void remark_copies(const Exchange *x, const Op *op, const Layout *l) {
  bool given = op_has(op, ATTR_ept), by_wave = atomic_by(op) == ATOMIC_BY_WAVE;
  int waves = layout_wave_copies(l, x->machine->waves) / layout_wave_copies(l, x->within);
  int copies = by_wave ? waves : layout_replication(l);
  Diags *diags = &x->k->cx->diags;
  if (copies < 2) return;
  Diag *d = diag_add(diags, DIAG_R0610, op->at,
                     "`%s` is applied %d times to each element: %d %s hold it%s",
                     op_info[op->kind].name, copies, copies, by_wave ? "waves" : "threads",
                     given ? "" : " and disagree about it");
  if (given) diag_hint(diags, d, "remove `elements_per_thread` to apply it once");
}

/* One thread has acted; the other waves that hold the element receive its result. */
static void visit_atomic(Exchange *x, Op *op) {
  const Layout *l = op->args[0]->layout;
  AtomicBy by = atomic_by(op);
  int waves = by == ATOMIC_BY_WAVE ? x->within : x->machine->waves;
  if (l && by != ATOMIC_BY_OWNER) remark_copies(x, op, l);
  if (!l || !uniform_answer(x->cx->facts.uniform, op)) return;
  if (layout_wave_copies(l, waves) == 1) return;
  x->failed |= !may_exchange(x, op);
  if (!x->failed) hand_on(x, op, l);
}

/* ---- ops ---- */

static void visit_reduction(Exchange *x, Op *op) {
  int dim = type_dim(op->args[0]->type, op_attr(op, ATTR_dim)->sym);
  const Layout *l = op->args[0]->layout;
  if (!l || op_has(op, ATTR_into)) return;
  if (!can_cut_waves(l, waves_together(x, op))) {
    diag_add(&x->k->cx->diags, DIAG_E0601, op->at,
             "`%s`: a layout that spreads declared waves over machine waves is not supported yet",
             op_info[op->kind].name);
    x->failed = true;
    return;
  }
  if (lies_on_waves(x, op, dim)) {
    x->failed |= !may_exchange(x, op);
    if (x->failed) return;
    if (op_is_scan(op) || op->kind == OP_topk) exchange_operand(x, op, dim);
    else exchange_reduction(x, op, dim);
  } else if (moves_along(l, LAYOUT_LANE, dim)) {
    x->failed |= !uniform_require(x->cx->facts.uniform, op, UNIFORM_WAVE);
  }
}

static void visit_convert(Exchange *x, Op *op) {
  const Value *from = op->args[0], *to = &op->results[0];
  if (!from->layout || !to->layout) return;
  int bits = dtype_info[from->type->dtype].bits;
  ConvertPlan plan = (from->varying ? convert_plan_in_waves
                                    : convert_plan)(x->cx->scratch, from->layout, to->layout, bits);
  switch (plan.kind) {
  case CONVERT_NOTHING:
  case CONVERT_REGISTERS: break;
  case CONVERT_SHUFFLE:
    x->failed |= !uniform_require(x->cx->facts.uniform, op, UNIFORM_WAVE);
    break;
  case CONVERT_SHARED:
    x->failed |= !may_exchange(x, op);
    if (!x->failed) replace(x, op, through_memory(x, op, op->args[0], to->layout));
    break;
  }
}

bool pass_exchange(Kernel *k, PassCtx *cx) {
  const HardwareSpec *hardware = kernel_hardware(k);
  if (!cx->machine || !cx->target || !k->body->first) return true;
  Exchange x = {.k = k, .cx = cx, .machine = cx->machine, .first = k->body->first};
  int lanes = cx->machine->lanes;
  x.within = hardware && hardware->threads > lanes ? hardware->threads / lanes : 1;
  for (Op *op = ir_first(k), *next; op && !x.failed; op = next) {
    next = ir_next(op);
    switch (op->kind) {
#define REDUCTION(op, combine, padding) case OP_##op:
#include "ir/ops/reductions.def"
      visit_reduction(&x, op);
      break;
    case OP_convert: visit_convert(&x, op); break;
    default: break;
    }
    if (op_is_atomic(op)) visit_atomic(&x, op);
  }
  if (!x.failed) exchange_batch(k, cx->scratch, &x.parts);
  return !x.failed;
}
