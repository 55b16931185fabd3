/* lower_boxes.c: copies of boxes by a copy engine (TMA), and the barriers in shared memory on which
 * they arrive.
 *
 *     copy %a, %s, %full {slot = Mod($ARGK + 2, 4), mask = [$ARGK < 62], mode = tma}
 *
 *     if ($T0 < 1 & $ARGK < 62) {
 *       mbar_arrive %full, %slot {bytes = 16384}
 *       tma_load %s, %offset, %full, %slot, %a, %row, %column {box = [128, 64], swizzle = 128}
 *     }
 *
 * Tiles of a `prefetch` are only brought to the L2 cache, in boxes as large as there are.
 *
 * One thread issues them. Its arrival says how many bytes the phase waits for; elements outside the
 * tensor arrive as zeros and are counted too. */
#include <string.h>

#include "ir/attr.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "lower_threads/lower.h"
#include "transform/copy/copy_box.h"

typedef struct Boxes {
  Lower *l;
  const Op *op;
  const AccessBounds *b;
  CopyBox box;
  MemLayout slot;
  const Sym *before; /* elements before the slot */
  const Sym *start[IR_MAX_RANK];
  Value *full, *index; /* the barrier */
  int peers;           /* workgroups that copy a part of the tile each, for all of them */
  int shared;          /* the dim of the tensor that they divide */
  const Sym *part;     /* of a prefetched tile, along dim `shared`; NULL: all of it */
} Boxes;

/* Whether the iteration exists; the tests that the copy engine makes itself are left out. */
static const Sym *issue_condition(Lower *l, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask);
  const Sym *all = l->elected;
  for (int i = 0; mask && i < mask->n; i++) {
    const Sym *symbols[MAX_BOUNDS];
    int n = sym_free_symbols(mask->exprs[i], symbols, MAX_BOUNDS);
    bool of_element = n > MAX_BOUNDS;
    for (int s = 0; !of_element && s < n; s++) {
      const char *name = sym_name(symbols[s]);
      of_element = name[0] == '$' && (name[1] == 'x' || name[1] == 'y' || name[1] == 'n');
    }
    if (!of_element) all = sym_and(l->sym, all, distribute_expr(l->d, op, mask->exprs[i]));
  }
  return emit_at_entry(l, sym_simplify(l->sym, emit_facts(l), all));
}

/* The barrier of the slot that the op names. */
static Value *slot_index(Lower *l, const Value *full, const Op *op) {
  MemLayout slot;
  const Sym *before;
  if (!memory_slot_layout(l, full, op, &slot, &before)) return NULL;
  return emit_address(l, before, DTYPE_i32);
}

/* The rank of a workgroup in its cluster. */
static const Sym *cluster_rank(Lower *l, int peers) {
  const Sym *id = ir_numbered_symbol(l->k->cx, "$WG", 0, true);
  return sym_mod(l->sym, id, sym_int(l->sym, peers));
}

/* Where, along dim m, the part of the tile begins that this workgroup copies. */
static const Sym *own_part(Boxes *x, int m) {
  SymCtx *sym = x->l->sym;
  if (x->part && m == x->shared)
    return sym_mul(sym, x->part, sym_int(sym, x->box.count[m] * x->box.extent[m]));
  if (x->peers < 2 || m != x->shared) return sym_int(sym, 0);
  int each = x->box.count[m] / x->peers * x->box.extent[m];
  return sym_mul(sym, cluster_rank(x->l, x->peers), sym_int(sym, each));
}

/* The coordinate along dim m of the tensor at which the box with these indices begins. */
static Value *first_coord(Boxes *x, int m, const int *number) {
  SymCtx *sym = x->l->sym;
  SymBinding to[IR_MAX_RANK];
  int rank = x->b->access.tile->rank;
  for (int i = 0; i < rank; i++) to[i] = (SymBinding){access_x(sym, i), x->start[i]};
  int axis = x->box.axis[m];
  const Sym *first = sym_add(sym, own_part(x, m), sym_int(sym, number[m] * x->box.extent[m]));
  if (axis >= 0) to[axis].to = sym_add(sym, x->start[axis], first);
  const Sym *e = sym_subst(sym, copy_box_coord(x->l->d, x->b, &x->box, m), to, rank);
  e = sym_simplify(sym, emit_facts(x->l), e);
  return emit_expr(x->l, emit_sound(x->l, e), DTYPE_i32);
}

/* The coordinate of the tensor at which clipped rows end. */
static Value *end_of_rows(Boxes *x) {
  const Sym *e = sym_simplify(x->l->sym, emit_facts(x->l), x->box.end);
  return emit_expr(x->l, emit_sound(x->l, e), DTYPE_i32);
}

/* ---- walks over pixels ---- */

static Attr numbers_attr(Boxes *x, AttrKey key, const int64_t *a, const int64_t *b) {
  int dims = x->box.pixels.walk.dims, n = b ? 2 * dims : dims;
  int64_t *list = ARENA_ARRAY(x->l->arena, int64_t, n);
  for (int i = 0; i < n; i++) list[i] = i < dims ? a[i] : b[i - dims];
  return (Attr){.key = key, .n = n, .ints = list};
}

/* An expression over the tile, at the beginning of the box with these indices. */
static Value *at_box(Boxes *x, const Sym *e, const int *number) {
  SymCtx *sym = x->l->sym;
  SymBinding to[2];
  for (int m = 0; m < 2; m++) {
    int axis = x->box.axis[m];
    const Sym *first = sym_int(sym, number[m] * x->box.extent[m]);
    to[m] = (SymBinding){access_x(sym, axis), sym_add(sym, x->start[axis], first)};
  }
  e = sym_simplify(sym, emit_facts(x->l), sym_subst(sym, e, to, 2));
  return emit_expr(x->l, emit_sound(x->l, e), DTYPE_i32);
}

/* Image, pixel, channel, taps. */
static int walk_args(Boxes *x, const int *number, Value **args) {
  const CopyPixels *p = &x->box.pixels;
  int n = 0;
  for (int i = 0; i <= p->walk.dims; i++) args[n++] = at_box(x, p->at[i], number);
  args[n++] = at_box(x, p->first, number);
  for (int i = 0; i < p->walk.dims; i++) args[n++] = at_box(x, p->tap[i], number);
  return n;
}

/* Elements of the slot before the box with these indices. */
static const Sym *box_offset(Boxes *x, const int *number) {
  SymCtx *sym = x->l->sym;
  int64_t first = copy_box_offset(&x->box, &x->slot, number);
  if (x->peers < 2) return sym_int(sym, first);
  int next[IR_MAX_RANK];
  memcpy(next, number, sizeof next);
  next[x->shared] += x->box.count[x->shared] / x->peers;
  const Sym *each = sym_int(sym, copy_box_offset(&x->box, &x->slot, next) - first);
  return sym_add(sym, sym_int(sym, first), sym_mul(sym, cluster_rank(x->l, x->peers), each));
}

static void load_box(Boxes *x, const int *number) {
  Lower *l = x->l;
  Value *args[6 + IR_MAX_RANK];
  int nargs = 0, nattrs = 2;
  const Sym *offset = box_offset(x, number);
  args[nargs++] = l->value[x->op->args[1]->id];
  args[nargs++] = emit_address(l, sym_add(l->sym, offset, x->before), DTYPE_i32);
  args[nargs++] = x->full;
  args[nargs++] = x->index;
  args[nargs++] = l->value[x->b->access.memory->id];
  const Im2col *walk = &x->box.pixels.walk;
  if (walk->dims) nargs += walk_args(x, number, args + nargs);
  for (int m = 0; !walk->dims && m < x->box.rank; m++) args[nargs++] = first_coord(x, m, number);
  Attr attrs[5] = {attr_ints(l->k, ATTR_box, x->box.extent, x->box.rank),
                   {.key = ATTR_swizzle, .integer = x->box.span}};
  if (x->box.clip >= 0) {
    args[nargs++] = end_of_rows(x);
    attrs[nattrs++] = (Attr){.key = ATTR_clip, .integer = x->box.clip};
  }
  if (x->box.join.dim) attrs[nattrs++] = (Attr){.key = ATTR_joined, .integer = x->box.join.dim};
  if (walk->dims) {
    attrs[nattrs++] = numbers_attr(x, ATTR_im2col, walk->lowest, walk->highest);
    attrs[nattrs++] = numbers_attr(x, ATTR_steps, walk->step, NULL);
  }
  const Sym *all = sym_int(l->sym, (INT64_C(1) << x->peers) - 1);
  if (x->peers > 1) attrs[nattrs++] = (Attr){.key = ATTR_multicast, .sym = all};
  emit_op(l, OP_tma_load, args, nargs, attrs, nattrs, NULL);
}

/* Advances to the next box of this workgroup; false after the last. */
static bool next_box(const Boxes *x, int *number) {
  for (int m = x->box.rank - 1; m >= 0; m--) {
    int count = x->peers > 1 && m == x->shared ? x->box.count[m] / x->peers : x->box.count[m];
    if (++number[m] < x->box.first[m] + count) return true;
    number[m] = x->box.first[m];
  }
  return false;
}

/* Only service waves copy for other workgroups: the barriers of their slots count the waves of all. */
static void share_boxes(Boxes *x) {
  x->peers = op_is_served(x->l->k, x->op) ? op_peers(x->op) : 1;
  if (x->peers > 1) x->shared = copy_box_share(&x->box, &x->slot, x->peers);
  WV_ASSERT(x->peers == 1 || x->shared >= 0); /* the pass `persist` has asked */
}

/* Where the tile begins. */
static bool find_starts(Boxes *x) {
  const Type *t = x->b->access.tile;
  for (int i = 0; i < t->rank; i++) {
    DimRange here;
    if (!standing_range(&x->l->standing, x->op, t->dims[i], &here)) return false;
    x->start[i] = here.start;
  }
  return true;
}

/* The boxes of a copy between a tensor and an allocation, and where they begin. */
static bool open_boxes(Boxes *x, const Value *scratch) {
  Lower *l = x->l;
  if (!memory_slot_layout(l, scratch, x->op, &x->slot, &x->before))
    return emit_refuse(l, x->op, "a copy of a loop-carried allocation");
  const char *why = copy_box(l->d, x->b, &x->slot, &x->box);
  if (why) return emit_refuse(l, x->op, arena_printf(l->arena, "a TMA copy (%s)", why));
  return find_starts(x);
}

bool lower_copy_boxes(Lower *l, const Op *op) {
  Boxes x = {.l = l, .op = op, .b = l->bounds[op->id]};
  int number[IR_MAX_RANK];
  if (!copy_barriers(op)) return emit_refuse(l, op, "a TMA copy without a wait");
  if (!open_boxes(&x, op->args[1])) return false;
  share_boxes(&x);
  const Sym *issues = issue_condition(l, op);
  bool always = issues == sym_bool(l->sym, true);
  if (!always) emit_open_if(l, issues);
  x.full = l->value[copy_barriers(op)->id];
  x.index = slot_index(l, copy_barriers(op), op);
  Attr bytes = {.key = ATTR_bytes, .sym = sym_int(l->sym, x.box.bytes)};
  Value *bar[] = {x.full, x.index};
  emit_op(l, OP_mbar_arrive, bar, 2, &bytes, 1, NULL);
  memcpy(number, x.box.first, sizeof number);
  do load_box(&x, number);
  while (next_box(&x, number));
  if (!always) emit_close_if(l);
  return true;
}

/* ---- stores ---- */

static void store_box(Boxes *x, const int *number) {
  Lower *l = x->l;
  Value *args[4 + IR_MAX_RANK];
  int nargs = 0, nattrs = 2;
  args[nargs++] = l->value[x->op->args[0]->id];
  args[nargs++] = emit_address(l, sym_add(l->sym, box_offset(x, number), x->before), DTYPE_i32);
  args[nargs++] = l->value[x->b->access.memory->id];
  for (int m = 0; m < x->box.rank; m++) args[nargs++] = first_coord(x, m, number);
  Attr attrs[3] = {attr_ints(l->k, ATTR_box, x->box.extent, x->box.rank),
                   {.key = ATTR_swizzle, .integer = x->box.span}};
  if (x->box.clip >= 0) {
    args[nargs++] = end_of_rows(x);
    attrs[nattrs++] = (Attr){.key = ATTR_clip, .integer = x->box.clip};
  }
  if (x->box.join.dim) attrs[nattrs++] = (Attr){.key = ATTR_joined, .integer = x->box.join.dim};
  emit_op(l, OP_tma_store, args, nargs, attrs, nattrs, NULL);
}

/* One thread issues all boxes as a group; elements outside the tensor, or past the end of its rows, are not
 * written. */
bool lower_store_boxes(Lower *l, const Op *op) {
  Boxes x = {.l = l, .op = op, .b = l->bounds[op->id], .peers = 1};
  int number[IR_MAX_RANK] = {0};
  if (!open_boxes(&x, op->args[0])) return false;
  if (x.box.pixels.walk.dims) return emit_refuse(l, op, "a store of pixels");
  emit_open_if(l, l->elected);
  do store_box(&x, number);
  while (next_box(&x, number));
  emit_op(l, OP_bulk_commit, NULL, 0, NULL, 0, NULL);
  emit_close_if(l);
  return true;
}

/* ---- prefetches ---- */

static void prefetch_box(Boxes *x, const int *number) {
  Value *args[1 + IR_MAX_RANK];
  Attr attrs[2] = {attr_ints(x->l->k, ATTR_box, x->box.extent, x->box.rank),
                   {.key = ATTR_joined, .integer = x->box.join.dim}};
  args[0] = x->l->value[x->b->access.memory->id];
  for (int m = 0; m < x->box.rank; m++) args[1 + m] = first_coord(x, m, number);
  emit_op(x->l, OP_tma_prefetch, args, 1 + x->box.rank, attrs, x->box.join.dim ? 2 : 1, NULL);
}

/* Whether the copy engine can do it; otherwise it is left out, as any target may. */
static bool find_prefetched(Boxes *x) {
  const Lower *l = x->l;
  const Attr *parts = op_attr(x->op, ATTR_parts);
  if (!target_has(l->cx->target, FEATURE_TMA) || copy_box_of_tile(l->d, x->b, &x->box) ||
      copy_box_tensor(l->d, x->b, &x->box))
    return false;
  if (!parts || parts->integer < 2) return true;
  x->shared = copy_box_divide(&x->box, (int)parts->integer);
  return x->shared >= 0;
}

bool lower_prefetch(Lower *l, const Op *op) {
  Boxes x = {.l = l, .op = op, .b = l->bounds[op->id], .peers = 1};
  int number[IR_MAX_RANK] = {0};
  const Sym *issues = l->elected;
  if (!find_prefetched(&x)) return true;
  if (!find_starts(&x)) return false;
  if (op_has(op, ATTR_parts)) {
    const Sym *all = sym_int(l->sym, op_attr(op, ATTR_parts)->integer);
    x.part = distribute_expr(l->d, op, op_attr(op, ATTR_expr)->sym);
    issues = sym_and(l->sym, issues, sym_le(l->sym, sym_int(l->sym, 0), x.part));
    issues = sym_and(l->sym, issues, sym_lt(l->sym, x.part, all));
  }
  issues = sym_simplify(l->sym, emit_facts(l), issues);
  bool always = issues == sym_bool(l->sym, true);
  if (!always) emit_open_if(l, emit_at_entry(l, issues));
  do prefetch_box(&x, number);
  while (next_box(&x, number));
  if (!always) emit_close_if(l);
  return true;
}

bool lower_bulk_wait(Lower *l, const Op *op) {
  emit_open_if(l, l->elected);
  emit_op(l, OP_bulk_wait, NULL, 0, op->attrs, op->nattrs, NULL);
  emit_close_if(l);
  return true;
}

/* ---- barriers ---- */

/* Initialises all barriers of a ring, by one thread. */
bool lower_mbars(Lower *l, const Op *op) {
  const Op *ring = op->args[0]->def;
  MemLayout m;
  if (!ring || ring->kind != OP_alloc || !alloc_layout(ring, &m))
    return emit_refuse(l, op, "loop-carried barriers");
  int stride = alloc_slots(ring) > 1 ? m.digits.at[m.digits.n - 1].stride : 0;
  int n = alloc_slots(ring), peers = op_peers(op);
  Value **index = ARENA_ARRAY(l->arena, Value *, n);
  const Attr *count = op_attr(op, ATTR_count);
  Attr all = {.key = ATTR_count};
  if (count) all.sym = sym_mul(l->sym, count->sym, sym_int(l->sym, peers));
  emit_open_if(l, l->elected);
  for (int i = 0; i < n; i++) index[i] = emit_expr(l, sym_int(l->sym, i * stride), DTYPE_i32);
  for (int i = 0; i < n; i++) { /* consecutive: one fence makes them all visible */
    Value *args[] = {l->value[op->args[0]->id], index[i]};
    emit_op(l, op->kind, args, 2, &all, count ? 1 : 0, NULL);
  }
  emit_close_if(l);
  return true;
}

bool lower_mbar_wait(Lower *l, const Op *op) {
  const Sym *parity = distribute_expr(l->d, op, op_attr(op, ATTR_parity)->sym);
  Value *args[] = {l->value[op->args[0]->id], slot_index(l, op->args[0], op),
                   emit_expr(l, emit_sound(l, parity), DTYPE_i32)};
  if (!args[1]) return emit_refuse(l, op, "loop-carried barriers");
  emit_op(l, OP_mbar_wait, args, 3, NULL, 0, NULL);
  return true;
}

/* Whether the copy is made after `op`, in a loop that is around both. */
static bool is_copied_later(const Op *copy, const Op *op) {
  const Op *around = op_ancestor_in(op, copy->parent);
  return around && around != copy && op_comes_before(around, copy);
}

/* Some tile that service waves copy before the arrival is read by each lane, rather than by matrix instructions of
 * the whole wave. */
static bool is_fetched(const Lower *l, const Op *arrival) {
  for (const Op *copy = l->tiles->first; copy; copy = ir_next(copy)) {
    if (copy->kind != OP_copy || !op_is_served(l->k, copy) || is_copied_later(copy, arrival))
      continue;
    for (const Op *op = l->tiles->first; op; op = ir_next(op))
      if (op->kind == OP_read && op->args[0] == copy->args[1] && op->results[0].layout) return true;
  }
  return false;
}

/* One lane arrives for its wave, when all lanes have read. */
bool lower_mbar_arrive(Lower *l, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask);
  const Sym *all = sym_lt(l->sym, l->lane, sym_int(l->sym, 1));
  for (int i = 0; mask && i < mask->n; i++)
    all = sym_and(l->sym, all, distribute_expr(l->d, op, mask->exprs[i]));
  Attr wave = {.key = ATTR_mode, .text = intern(&l->k->cx->names, "wave")};
  if ((!op->prev || op->prev->kind != OP_mbar_arrive) && is_fetched(l, op))
    emit_op(l, OP_barrier, NULL, 0, &wave, 1, NULL);
  emit_open_if(l, emit_at_entry(l, sym_simplify(l->sym, emit_facts(l), all)));
  Value *args[] = {l->value[op->args[0]->id], slot_index(l, op->args[0], op)};
  for (int i = 0; args[1] && i < op_peers(op); i++) {
    Attr peer = {.key = ATTR_peer, .sym = sym_int(l->sym, i)};
    emit_op(l, OP_mbar_arrive, args, 2, &peer, op_peers(op) > 1 ? 1 : 0, NULL);
  }
  emit_close_if(l);
  return args[1] || emit_refuse(l, op, "loop-carried barriers");
}
