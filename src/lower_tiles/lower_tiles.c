/* lower_tiles: lowers a whole workgroup to one thread's program, as loops over its tiles.
 *
 *     kernel @k(...)                         thread kernel @k(...)
 *       workgroup M by 64 on 0; ...            launch grid (64, 1, 1) block (1, 1, 1) wave 1
 *     {                                =>    {
 *       %x = read %a : tile<M, f32>            %0 = expr 64*$WG0 : index
 *       write %x, %c                           for $i0 step 16 with {trips = 64} {
 *                                                %1 = expr $ARG$i0 : index
 *                                                %2 = expr $APPLY_EXPR_ARG_0 + ... %0, %1 : index
 *                                                %3 = load %a, %2 : vec<16, f32>
 *                                                store %3, %c, %2
 *
 * For machines with register tiles and no lanes (the host CPU). The waves and lanes that the author
 * declared do not matter; retarget gave lanes to kernels that depend on them (contract.h). Masks
 * must have been recorded. Needs DISTRIBUTE, BOUNDS and UNIFORM; breaks all. tiles.h explains the
 * ideas. */
#include "anchors/contract.h"
#include "ir/schedule/schedule.h"
#include "lower_tiles/tiles.h"
#include "lower_tiles/tiles_region.h"

bool tiles_refuse(Tiles *t, const Op *op, const char *what) { return emit_refuse(&t->l, op, what); }

/* ---- ops without an effect ---- */
static bool hold_scalar(Tiles *t, const Value *v) {
  Tile *tile = &t->tile[v->id];
  tile->held = TILE_INLINE;
  Point p = tile_origin(t, v);
  Value *made = tiles_at(t, v, &p);
  if (!made) return false;
  if (!made->name) made->name = v->name;
  tile->held = TILE_SCALAR;
  tile->scalar = made;
  return true;
}

/* Outside the loop that divides a dimension, a tile may have no size yet: its elements are computed
 * where they are used, inside the loop. */
static bool leave_unsized(Tiles *t, const Op *op, Tile *tile) {
  const Type *type = op->results[0].type;
  for (int i = 0; i < type->rank; i++) tile->start[i] = sym_int(t->l.k->cx->sym, 0);
  tile->held = TILE_INLINE;
  tile->scope = tile_home(t, op);
  return true;
}

/* A single element is computed now; a larger tile where it is used, or now into a buffer. */
bool tiles_hold(Tiles *t, const Op *op) {
  const Value *v = &op->results[0];
  Tile *tile = &t->tile[v->id];
  if (tile->held != TILE_ABSENT) return true; /* before its place (tiles_straight.c) */
  if (t->plan.is_inline[v->id] && !tile_has_size(t, op, v->type)) return leave_unsized(t, op, tile);
  if (!tile_set_ranges(t, op, v->type, tile)) return false;
  if (tile_elements(v->type, tile) == 1) return hold_scalar(t, v);
  tile->held = TILE_INLINE;
  if (kept_is_worthwhile(t, v)) return kept_compute(t, v);
  if (t->plan.is_inline[v->id]) {
    tile->scope = tile_home(t, op);
    return true;
  }
  const TileBuffer *b = buffer_new(t, v->type, tile, tile_contiguous(t, v));
  if (reduce_can_store(t, v)) {
    tile->later = b;
    return true;
  }
  for (int i = 0; i < v->type->rank; i++)
    tile->end[i] = tiles_used_below(t, v, v->type->dims[i], NULL);
  if (!buffer_fill(t, v, v->type, tile, b)) return false;
  tile->held = TILE_BUFFER;
  tile->buffer = b;
  return true;
}

static bool skip(Tiles *t, const Op *op) {
  (void)t, (void)op;
  return true;
}

static bool lower_set_symbol(Tiles *t, const Op *op) {
  Value *v = tiles_scalar(t, op->args[0]);
  if (!v) return false;
  emit_op(&t->l, OP_set_symbol, &v, 1, op->attrs, op->nattrs, NULL);
  tiles_define(t, op_attr(op, ATTR_version)->sym);
  return true;
}

/* ---- the walk ---- */

static TilesFn *const family[OP_COUNT] = {
    [OP_fill] = tiles_hold,
    [OP_scalar] = tiles_hold,
    [OP_runs] = tiles_hold,
    [OP_alloc] = tiles_alloc,
    [OP_self_index] = tiles_hold,
    [OP_exists] = tiles_hold,
    [OP_inside] = tiles_hold,
    [OP_apply_expr] = tiles_hold,
    [OP_set_symbol] = lower_set_symbol,
    [OP_read] = tiles_hold,
    [OP_write] = tiles_write,
#define ATOMIC(op, word, combine) [OP_##op] = tiles_atomic,
#include "ir/ops/atomics.def"
    [OP_scatter_add] = tiles_atomic,
    [OP_report] = tiles_report,
    [OP_copy] = tiles_copy,
    [OP_prefetch] = skip, /* it says which tile, and lines are prefetched by tiles_prefetch */
    [OP_mma] = tiles_mma,
    [OP_sum] = tiles_reduce,
    [OP_prod] = tiles_reduce,
    [OP_max] = tiles_reduce,
    [OP_min] = tiles_reduce,
    [OP_cumsum] = tiles_scan,
    [OP_topk] = tiles_topk,
    [OP_reduce] = tiles_scan,
    [OP_scan] = tiles_scan,
    [OP_broadcast] = tiles_hold,
    [OP_repeat] = tiles_hold,
    [OP_permute] = tiles_hold,
    [OP_squeeze] = tiles_hold,
    [OP_convert] = tiles_hold,
    [OP_for] = tiles_region_op,
    [OP_while] = tiles_region_op,
    [OP_if] = tiles_region_op,
    [OP_yield] = skip, /* handled by tiles_region_op */
};

/* A single thread waits for no other. */
static TilesFn *family_of(const Op *op) {
  const OpInfo *info = &op_info[op->kind];
  if (family[op->kind]) return family[op->kind];
  if (info->level != LEVEL_BOTH) return NULL;
  return info->flags & OPF_SYNC ? skip : tiles_hold;
}

bool tiles_lower_region(Tiles *t, const Region *r) {
  Lower *l = &t->l;
  for (const Op *op = r->first; op; op = op->next) {
    TilesFn *fn = family_of(op);
    l->at = op->at;
    if (!fn) return tiles_refuse(t, op, "this op");
    if (!fn(t, op)) return false;
    if (l->refused) return tiles_refuse(t, op, l->refused);
    l->standing = standing_after(&l->standing, op);
  }
  return true;
}

/* ---- the kernel ---- */

static bool is_tile_pure(Kernel *k, PassCtx *cx) {
  Contract c = contract_of(cx->facts.distribute, cx->facts.uniform, cx->scratch);
  if (!c.op) return true;
  Diag *d =
      diag_add(&k->cx->diags, DIAG_E0601, c.op->at,
               "`%s`: a kernel that depends on threads (it %s) cannot become a loop over tiles",
               op_info[c.op->kind].name, c.why);
  return diag_hint(&k->cx->diags, d,
                   "run the pass `retarget` first: it gives the kernel its declared lanes");
}

static int64_t scratch_bytes(const Tiles *t) { return t->lasting + t->most; }

static Constraint launch_row(Tiles *t) {
  Lower *l = &t->l;
  LaunchSpec launch = {
      .lanes = 1, .shared = (int)scratch_bytes(t), .band = t->band, .bands = t->bands};
  for (int i = 0; i < 3; i++) {
    launch.grid[i] = l->d->grid[i];
    launch.block[i] = sym_int(l->sym, 1);
  }
  return (Constraint){.kind = CONSTRAINT_launch, .at = l->k->at, .launch = launch};
}

static bool is_too_large(const Tiles *t) { return scratch_bytes(t) > t->l.cx->target->shared_most; }

/* Lasting allocations come before those that regions release. */
static bool set_bases(Tiles *t) {
  Kernel *k = t->l.k;
  const TargetInfo *target = t->l.cx->target;
  for (int i = 0; i < t->allocs.n; i++) {
    const TileAlloc *a = &t->allocs.at[i];
    int64_t base = a->lasting ? a->base : t->lasting + a->base;
    op_set_attr(k, a->op, (Attr){.key = ATTR_base, .integer = base});
  }
  if (!is_too_large(t)) return true;
  Diag *d = diag_add(&k->cx->diags, DIAG_E0613, k->at,
                     "`%s` needs %lld bytes of scratch memory, %s has %d", k->name,
                     (long long)scratch_bytes(t), target->name, target->shared_most);
  for (int i = 0; i < t->allocs.n; i++)
    diag_note(&k->cx->diags, d, t->allocs.at[i].op->at, "%lld bytes",
              (long long)t->allocs.at[i].bytes);
  return diag_hint(&k->cx->diags, d, "use smaller tiles");
}

static void take_scalars(Tiles *t) {
  const Region *from = t->l.k->body;
  for (int i = 0; i < from->nargs; i++)
    if (from->args[i]->type->kind == TYPE_scalar)
      t->tile[from->args[i]->id] =
          (Tile){.held = TILE_SCALAR, .scalar = t->l.value[from->args[i]->id]};
}

static bool has_masks(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    MemAccess a;
    if (access_of(op, &a) && !op_has(op, ATTR_mask)) return false;
  }
  return true;
}

/* NULL after reporting. */
static Region *lower_kernel(Tiles *t) {
  Lower *l = &t->l;
  PassCtx *cx = l->cx;
  Kernel *k = l->k;
  l->d = cx->facts.distribute;
  l->bounds = cx->facts.in_bounds;
  l->uniform = cx->facts.uniform;
  l->machine = (Machine){cx->target, 1, 1, false, 0, 1};
  l->value = ARENA_ARRAY(l->arena, Value *, k->nvalues);
  l->standing = *cx->facts.standing;
  l->hidden = set_symbols(k, l->arena);
  t->tile = ARENA_ARRAY(l->arena, Tile, k->nvalues);
  t->fetched = ARENA_ARRAY(l->arena, bool, k->nvalues + 1);
  tiles_plan(t);
  l->tiles = k->body;
  emit_open_kernel(l);
  take_scalars(t);
  Region *body = l->scope->region;
  return tiles_lower_region(t, l->tiles) ? body : NULL;
}

/* Says once that there is nothing to pipeline. */
static void remark_schedule(Kernel *k, const TargetInfo *t) {
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    if (!schedule_is_row(row) || !schedule_is_for(row, t)) continue;
    diag_add(
        &k->cx->diags, DIAG_R0615, row->at,
        "the schedule has no effect: on `%s`, one thread runs a workgroup, and nothing is copied "
        "to shared memory",
        t->name);
    return;
  }
}

/* One thread has no units to compare its times with. */
static void remark_timeline(Kernel *k, const TargetInfo *t) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_timeline, NULL);
  if (row)
    diag_add(&k->cx->diags, DIAG_R0615, row->at,
             "no timeline is recorded: on `%s`, one thread runs a workgroup", t->name);
}

bool pass_lower_tiles(Kernel *k, PassCtx *cx) {
  if (!has_masks(k)) return cx->idle = true;
  if (!is_tile_pure(k, cx)) return false;
  remark_schedule(k, cx->target);
  remark_timeline(k, cx->target);
  Tiles t;
  Region *body = NULL;
  for (int keeps = 1; keeps >= 0; keeps--) {
    t = (Tiles){.l = {.k = k, .cx = cx, .arena = cx->scratch, .sym = k->cx->sym}, .keeps = keeps};
    if (!(body = lower_kernel(&t))) return false;
    if (!is_too_large(&t)) break;
  }
  if (!set_bases(&t)) return false;
  emit_replace_header(&t.l, launch_row(&t));
  k->body = body;
  k->level = LEVEL_THREAD;
  return true;
}
