/* lower_threads: lowers tiles to one lane's program.
 *
 *     kernel @k(...)                         thread kernel @k(...)
 *       workgroup M by 64 on 0; ...            launch grid (64, 1, 1) block (64, 1, 1) wave 64
 *     {                                =>    {
 *       %x = read %a : ... @ ...               %0 = expr 64*$WG0 : i32
 *       write %x, %c                           %1 = expr $T0 : i32
 *                                              %2 = expr $APPLY_EXPR_ARG_0 + ... %0, %1 : i32
 *                                              %x = load %a, %2 : f32
 *                                              store %x, %c, %2
 *
 * By now every tile has a layout and every access its mask, allocations have an address in shared
 * memory, and barriers are in place (layouts, mask, allocs, sync). This pass makes no further
 * decisions: it writes down what each thread does. What it cannot express yet is E0601.
 *
 * Needs DISTRIBUTE, BOUNDS and UNIFORM; breaks all. Does nothing without a target, or to a kernel
 * that the passes above have not processed. */
#include <string.h>

#include "analysis/memory_uses.h"
#include "ir/attr.h"
#include "ir/region_facts.h"
#include "ir/schedule/turn_ops.h"
#include "lower_threads/lower.h"

/* ---- regions ---- */

static bool lower_region(Lower *l, const Region *from);

static Value *carried(Lower *l, const Value *v) { return l->value[v->id]; }

/* The new body, with an argument for each of the old one's. */
static void open_body(Lower *l, const Op *op, Op *made) {
  const Region *from = op->body;
  Region *body = ir_region_new(l->k, made);
  int axis = op->kind == OP_while ? 1 : 0, first = op_carried(op);
  for (int i = 0; i < from->nargs; i++) {
    bool is_axis = i < axis;
    const Type *t = is_axis ? from->args[i]->type : carried(l, op->args[first + i - axis])->type;
    l->value[from->args[i]->id] = ir_add_arg(l->k, body, t, from->args[i]->name);
  }
  emit_open_scope(l, body, l->standing.facts);
  const Attr *loop = op_attr(op, ATTR_axis), *version = op_attr(op, ATTR_version);
  if (loop) emit_define(l, ir_loop_counter(l->k, loop->sym));
  if (version) emit_define(l, version->sym);
}

/* Whether this lane's first element of a carried tile exists; true if that is proved. */
static const Sym *first_exists(Lower *l, const Op *op, const Value *v) {
  const Sym *all = sym_bool(l->sym, true);
  int coord[LAYOUT_DIMS];
  DimRange here;
  if (!v->layout || v->varying) return all;
  layout_at(v->layout, 0, 0, 0, coord);
  for (int d = 0; d < v->type->rank; d++) {
    if (!standing_range(&l->standing, op, v->type->dims[d], &here)) return all;
    const Sym *first = sym_add(l->sym, lane_coord(l, v->layout, d), sym_int(l->sym, coord[d]));
    const Sym *end = standing_extent(&l->standing, op, v->type->dims[d]);
    all = sym_and(l->sym, all, sym_lt(l->sym, sym_add(l->sym, here.start, first), end));
  }
  const Sym *simple = all ? sym_simplify(l->sym, emit_facts(l), all) : NULL;
  return simple ? simple : (sym_take_error(l->sym), sym_bool(l->sym, true));
}

/* The condition of a while loop, which tests what exists: a lane without an element is done. */
static const Sym *tested_condition(Lower *l, const Op *op, const Sym *e) {
  for (int i = 0; op->kind == OP_while && i < op->nresults; i++) {
    const Sym *tested = ir_iter_arg(l->k->cx, i);
    if (sym_contains(e, tested))
      e = sym_and(l->sym, first_exists(l, op, op->args[op_carried(op) + i]), e);
  }
  return e;
}

void lower_region_attrs(Lower *l, const Op *op, Op *to) {
  for (int i = 0; i < op->nattrs; i++) {
    Attr a = attr_copy(l->k, &op->attrs[i]);
    if (a.key == ATTR_expr)
      a.sym = emit_at_entry(l, tested_condition(l, op, distribute_expr(l->d, op, a.sym)));
    op_set_attr(l->k, to, a);
  }
  if (op->kind != OP_for) return;
  op_drop_attr(to, ATTR_earlier);
  op_drop_attr(to, ATTR_until);
  op_set_attr(l->k, to,
              (Attr){.key = ATTR_trips, .sym = emit_at_entry(l, distribute_trips(l->d, op))});
}

static Op *make_region_op(Lower *l, const Op *op) {
  int first = op_carried(op);
  Value **args = ARENA_ARRAY(l->arena, Value *, op->nargs + 1);
  const Type **types = ARENA_ARRAY(l->arena, const Type *, op->nargs + 1);
  for (int i = 0; i < op->nargs; i++)
    args[i] = i < first ? lower_scalar(l, op->args[i]) : carried(l, op->args[i]);
  for (int i = first; i < op->nargs; i++) types[i - first] = args[i]->type;
  Op *made = ir_op_new(l->k, op->kind, op->at, args, op->nargs);
  lower_region_attrs(l, op, made);
  const Sym *wanted = lower_wanted(l, op);
  if (wanted) op_set_attr(l->k, made, (Attr){.key = ATTR_wanted, .sym = emit_at_entry(l, wanted)});
  ir_append(l->scope->region, made);
  ir_set_results(l->k, made, types, op->nargs - first);
  return made;
}

/* A product of the last iteration is still in flight. */
static bool leaves_products(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op->kind == OP_mma && op_has(op, ATTR_pending)) return true;
  return false;
}

static bool lower_region_op(Lower *l, const Op *op) {
  Standing outside = l->standing;
  for (int i = op_carried(op); i < op->nargs; i++)
    if (op->args[i]->type->kind == TYPE_mem) return emit_refuse(l, op, "loop-carried memory");
  Op *made = make_region_op(l, op);
  l->standing = standing_inside(&outside, op);
  open_body(l, op, made);
  bool ok = lower_region(l, op->body);
  emit_close_scope(l);
  if (leaves_products(op)) vec_push(l->arena, &l->flying, &op->results[0]);
  lower_wait_products(l, l->pending = 0);
  l->standing = outside;
  for (int i = 0; i < op->nresults; i++) {
    made->results[i].name = op->results[i].name;
    l->value[op->results[i].id] = &made->results[i];
  }
  return ok;
}

static bool lower_yield(Lower *l, const Op *op) {
  Value **args = ARENA_ARRAY(l->arena, Value *, op->nargs + 1);
  int axis = op->parent->owner->kind == OP_while ? 1 : 0;
  for (int i = 0; i < op->nargs; i++)
    args[i] = i < axis ? lower_scalar(l, op->args[i]) : carried(l, op->args[i]);
  emit_op(l, OP_yield, args, op->nargs, NULL, 0, NULL);
  return true;
}

/* ---- the rest ---- */

/* Service waves run loops of tiles by one thread, so branches there do not tell the assembler that all lanes of the
 * other waves agree. It keeps numbers that one lane passes to all in scalar registers, which addresses of products
 * and barriers need. */
static Value *agreed(Lower *l, const Op *op, Value *v) {
  bool alone = l->elected == sym_bool(l->sym, true);
  if (!l->machine.service || alone || !op_outermost_loop(op)) return v;
  return emit_shuffle_idx(l, v, sym_int(l->sym, 0));
}

static bool lower_set_symbol(Lower *l, const Op *op) {
  Value *v = agreed(l, op, lower_scalar(l, op->args[0]));
  emit_op(l, OP_set_symbol, &v, 1, op->attrs, op->nattrs, NULL);
  emit_define(l, op_attr(op, ATTR_version)->sym);
  return true;
}

static bool lower_plain(Lower *l, const Op *op) {
  emit_op(l, op->kind, NULL, 0, op->attrs, op->nattrs, NULL);
  return true;
}

/* The first of `n` unused named barriers; 0: there are not enough. */
int lower_free_barriers(const Lower *l, int64_t n) {
  return target_has(l->machine.target, FEATURE_NAMED_BARRIER)
             ? turn_barriers_free(l->k, l->tiles, NULL, n)
             : 0;
}

/* A barrier for the machine's waves of each declared wave, one per declared wave. */
static void meet_declared_wave(Lower *l, int first, int threads) {
  const Sym *within = sym_int(l->sym, threads / l->machine.lanes);
  const Sym *which = emit_cheaper(l, sym_floordiv(l->sym, l->wave, within));
  int64_t known = 0;
  bool one = sym_is_int(which, &known);
  Attr attrs[] = {
      {.key = ATTR_mode, .text = intern(&l->k->cx->names, "named")},
      {.key = ATTR_bar, .integer = first + known},
      {.key = ATTR_count, .sym = sym_int(l->sym, threads)},
      {.key = ATTR_member, .sym = which},
  };
  emit_op(l, OP_barrier, NULL, 0, attrs, one ? 3 : 4, NULL);
}

/* `barrier wave` means the declared wave: several of the machine's waves need a named barrier or,
 * if there is none, that of the workgroup. */
static bool lower_barrier(Lower *l, const Op *op) {
  const char *mode = op_attr(op, ATTR_mode)->text;
  if (l->machine.service && strcmp(mode, "workgroup") == 0) return lower_meet(l, op);
  if (strcmp(mode, "roles") == 0) /* lower_roles replaces the one in its place */
    return emit_refuse(l, op, "a barrier of roles at which no service waves part from the others");
  if (strcmp(mode, "wave") || l->machine.waves == 1) return lower_plain(l, op);
  const HardwareSpec *hardware = kernel_hardware(l->k);
  int threads = l->machine.observable && hardware ? hardware->threads : 0;
  if (threads == l->machine.lanes) return lower_plain(l, op);
  int first = threads ? lower_free_barriers(l, l->machine.waves * l->machine.lanes / threads) : 0;
  if (first && threads < l->machine.waves * l->machine.lanes &&
      uniform_around(l->uniform, op).level <= UNIFORM_WAVE)
    return meet_declared_wave(l, first, threads), true;
  int64_t waves = 1, n;
  for (int i = 0; i < 3; i++) waves *= sym_is_int(l->d->waves[i], &n) ? n : 2;
  UniformLevel around = uniform_around(l->uniform, op).level;
  if (around > (waves == 1 ? UNIFORM_WAVE : UNIFORM_WORKGROUP))
    return emit_refuse(
        l, op, "a barrier, inside a branch, of a declared wave that spans several machine waves");
  Attr attr = {.key = ATTR_mode, .text = intern(&l->k->cx->names, "workgroup")};
  emit_op(l, OP_barrier, NULL, 0, &attr, 1, NULL);
  return true;
}

/* The author's barriers are met by the waves that compute. */
static bool lower_own_barrier(Lower *l, const Op *op) {
  return l->machine.service ? lower_meet(l, op) : lower_plain(l, op);
}

static LowerFn *const family[OP_COUNT] = {
    [OP_fill] = lower_fill,
    [OP_scalar] = lower_fill,
    [OP_alloc] = lower_alloc,
    [OP_runs] = lower_runs,
    [OP_self_index] = lower_self_index,
    [OP_exists] = lower_exists,
    [OP_select] = lower_select,
    [OP_apply_expr] = lower_apply,
    [OP_set_symbol] = lower_set_symbol,
    [OP_read] = lower_read,
    [OP_inside] = lower_inside,
    [OP_write] = lower_write,
#define ATOMIC(op, word, combine) [OP_##op] = lower_atomic,
#include "ir/ops/atomics.def"
    [OP_scatter_add] = lower_atomic,
    [OP_report] = lower_report,
    [OP_copy] = lower_copy,
    [OP_prefetch] = lower_prefetch,
    [OP_async_commit] = lower_async_commit,
    [OP_async_wait] = lower_async_wait,
    [OP_bulk_wait] = lower_bulk_wait,
    [OP_mbar_init] = lower_mbars,
    [OP_mbar_inval] = lower_mbars,
    [OP_mbar_wait] = lower_mbar_wait,
    [OP_mma] = lower_mma,
    [OP_scaled_mma] = lower_mma,
    [OP_sum] = lower_reduce,
    [OP_prod] = lower_reduce,
    [OP_max] = lower_reduce,
    [OP_min] = lower_reduce,
    [OP_cumsum] = lower_scan,
    [OP_topk] = lower_topk,
    [OP_reduce] = lower_reduce,
    [OP_scan] = lower_scan,
    [OP_convert] = lower_convert,
    [OP_barrier] = lower_barrier,
    [OP_turn] = lower_turn,
    [OP_stamp] = lower_stamp,
    [OP_shared_barrier] = lower_own_barrier,
    [OP_workgroup_barrier] = lower_own_barrier,
    [OP_mbar_arrive] = lower_mbar_arrive,
    [OP_extract] = lower_extract,
    [OP_extract_slice] = lower_extract_slice,
    [OP_reshape] = lower_reshape,
    [OP_bitcast] = lower_bitcast,
    [OP_broadcast] = lower_reshaped,
    [OP_repeat] = lower_repeat,
    [OP_permute] = lower_reshaped,
    [OP_squeeze] = lower_reshaped,
    [OP_for] = lower_region_op,
    [OP_while] = lower_region_op,
    [OP_if] = lower_region_op,
    [OP_yield] = lower_yield,
};

static LowerFn *family_of(const Op *op) {
  const OpInfo *info = &op_info[op->kind];
  if (family[op->kind]) return family[op->kind];
  if (info->level != LEVEL_BOTH) return NULL;
  return info->flags & OPF_SYNC ? lower_plain : lower_elementwise;
}

/* Products are waited for where their results are needed, or where other threads may overwrite what
 * they read. Prefetched copies know which slots products read. */
static void end_products(Lower *l, const Op *op) {
  int n = l->flying.n, last = n - 1;
  if (op->kind == OP_async_commit || op->kind == OP_stamp) return;
  if (op->kind == OP_copy && op_has(op, ATTR_iteration)) return;
  if (op->kind == OP_mbar_wait && l->machine.service) return; /* only this thread waits */
  while (op_is_private(op) && last >= 0 && !op_awaits_product(op, l->flying.at[last])) last--;
  lower_wait_products(l, op_is_private(op) ? n - 1 - last : l->pending);
}

bool lower_one(Lower *l, const Op *op) {
  LowerFn *fn = family_of(op);
  l->at = op->at;
  if (!fn) return emit_refuse(l, op, "this op");
  if (!fn(l, op)) return false;
  return !l->refused || emit_refuse(l, op, l->refused);
}

/* From `op` to the end of its region, or to `end`. Ops with a role are for other waves. */
bool lower_ops(Lower *l, const Op *op, const Op *end) {
  for (; op != end; op = op->next) {
    if (op_is_served(l->k, op) || lower_is_deferred(l, op)) continue;
    end_products(l, op);
    if (copy_ends_before(op)) lower_wait(l);
    if (!lower_one(l, op)) return false;
    l->standing = standing_after(&l->standing, op);
  }
  lower_wait_products(l, l->pending);
  lower_wait(l);
  return true;
}

static bool lower_region(Lower *l, const Region *from) { return lower_ops(l, from->first, NULL); }

/* ---- the header ---- */

/* The waves of a cluster are numbered across its workgroups, which follow each other along the last
 * dimension of the grid (retarget_cluster.h). */
static const Sym *waves_before(Lower *l) {
  const Sym *rank = ir_numbered_symbol(l->k->cx, "$WG", CLUSTER_AXIS, true);
  return sym_mul(l->sym, rank, sym_int(l->sym, machine_own_waves(&l->machine)));
}

/* Threads are numbered with $T0 fastest; a wave is `lanes` consecutive threads. Service waves come
 * last: they hold nothing of tiles. */
static void number_threads(Lower *l, const Sym *const launched[3]) {
  const Sym *block[3] = {launched[0], launched[1], launched[2]};
  if (l->machine.service) block[0] = lower_computing(l);
  SymFacts *f = sym_facts_new(l->arena, l->sym, l->standing.facts);
  const Sym *number = sym_int(l->sym, 0), *before = sym_int(l->sym, 1);
  for (int i = 0; i < 3; i++) {
    const Sym *t = ir_numbered_symbol(l->k->cx, "$T", i, true);
    sym_assume(f, sym_lt(l->sym, t, block[i]));
    number = sym_add(l->sym, number, sym_mul(l->sym, t, before));
    before = sym_mul(l->sym, before, block[i]);
  }
  const Sym *lanes = sym_int(l->sym, l->machine.lanes);
  l->standing.facts = l->standing.entry = f;
  l->elected = sym_simplify(l->sym, f, sym_lt(l->sym, number, sym_int(l->sym, 1)));
  l->lane = sym_simplify(l->sym, f, sym_mod(l->sym, number, lanes));
  const Sym *wave = sym_floordiv(l->sym, number, lanes);
  if (l->machine.cluster > 1) wave = sym_add(l->sym, wave, waves_before(l));
  l->wave = sym_simplify(l->sym, f, wave);
}

static Constraint launch_row(Lower *l) {
  LaunchSpec launch = {.lanes = l->machine.lanes, .shared = (int)alloc_end(l->k)};
  const Sym *one = sym_int(l->sym, 1);
  for (int i = 0; i < 3; i++) {
    launch.grid[i] = l->d->grid[i];
    launch.block[i] = l->machine.observable ? l->d->threads[i] : one;
  }
  if (!l->machine.observable)
    launch.block[0] =
        sym_int(l->sym, l->machine.lanes * (machine_own_waves(&l->machine) + l->machine.service));
  for (int i = 0; lower_cluster(l) > 1 && i < 3; i++)
    launch.cluster[i] = i ? one : sym_int(l->sym, lower_cluster(l));
  for (int i = 0; l->machine.cluster > 1 && i < 3; i++)
    launch.cluster[i] = i == CLUSTER_AXIS ? sym_int(l->sym, l->machine.cluster) : one;
  int peers, axis = kernel_split_axis(l->k, &peers);
  for (int i = 0; axis >= 0 && i < 3; i++)
    launch.cluster[i] = i == axis ? sym_int(l->sym, peers) : one;
  return (Constraint){.kind = CONSTRAINT_launch, .at = l->k->at, .launch = launch};
}

/* Every tile has a layout, every access its mask, every allocation its address. A tile that only
 * matrix instructions read may stay in memory: the verifier checks that. */
static bool is_ready(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    MemAccess a;
    if (op->kind == OP_alloc && !op_has(op, ATTR_base)) return false;
    if (access_of(op, &a) && !op_has(op, ATTR_mask)) return false;
    for (int i = 0; op->kind != OP_read && i < op->nresults; i++)
      if (op->results[i].type->kind == TYPE_tile && !op->results[i].layout) return false;
  }
  return true;
}

/* What each thread holds of a tile must fit a vec. */
static bool check_registers(Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++) {
      const Layout *layout = op->results[i].layout;
      int n = layout ? layout_size(layout, LAYOUT_REG) : 1;
      if (n > IR_MAX_VEC) return anchor_report_size(k, op, n);
    }
  return true;
}

bool pass_lower_threads(Kernel *k, PassCtx *cx) {
  if (!cx->machine || !cx->target || !is_ready(k)) return true;
  if (!check_registers(k)) return false;
  Lower l = {.k = k, .cx = cx, .arena = cx->scratch, .sym = k->cx->sym};
  l.d = cx->facts.distribute;
  l.bounds = cx->facts.in_bounds;
  l.uniform = cx->facts.uniform;
  l.machine = *cx->machine;
  l.value = ARENA_ARRAY(l.arena, Value *, k->nvalues);
  l.standing = *cx->facts.standing;
  l.hidden = set_symbols(k, l.arena);
  Constraint launch = launch_row(&l);
  number_threads(&l, launch.launch.block);
  const Region *from = l.tiles = k->body;
  l.group = lane_group_waves(&l);
  lower_find_guards(&l);
  emit_open_kernel(&l);
  Region *body = l.scope->region;
  if (!(l.machine.service ? lower_roles(&l, from) : lower_region(&l, from))) return false;
  emit_replace_header(&l, launch);
  k->body = body;
  k->level = LEVEL_THREAD;
  return true;
}
