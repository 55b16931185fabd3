/* lower_direct.c: copies by loads that end in shared memory (copy_direct).
 *
 *     copy %a, %s {mode = direct}      %s: [128, 32] d1/32:1 d0/128:32 xor 0x1c>>4, 4 waves of 64
 *
 *     p = 2*lane + 128*wave + 512*i    where lane's 4 bytes go, in elements: block after block
 *     [y0, y1] = the element there     its swizzle undone
 *     copy_async %s, p, %a, offset of [y0, y1] {bytes = 4, counted}
 *
 * Such copies are counted by wave: a wait for a group is one for all but the copies after it. */
#include "ir/dtype.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "lower_threads/lower.h"
#include "transform/copy/copy_plan.h"

typedef struct Direct {
  Lower *l;
  LaneAccess global;
  Value *to;
  MemLayout slot;
  DirectPlan plan;
  const Sym *ring; /* where the slot begins, in elements */
  const Sym *from; /* the offset in `global` of the last base ... */
  Value *base;     /* ... and its value */
} Direct;

static const Sym *number(Direct *x, int64_t n) { return sym_int(x->l->sym, n); }

static const Sym *times(Direct *x, const Sym *e, int64_t n) {
  return sym_mul(x->l->sym, e, number(x, n));
}

/* Where block i of this wave has this lane's bytes, relative to the slot. */
static const Sym *place_of(Direct *x, int i) {
  const Machine *m = &x->l->machine;
  int units = x->plan.bytes * 8 / x->slot.bits;
  const Sym *block = sym_add(x->l->sym, x->l->wave, number(x, (int64_t)i * m->waves));
  const Sym *lane = sym_add(x->l->sym, x->l->lane, times(x, block, m->lanes));
  return sym_add(x->l->sym, times(x, lane, units), number(x, x->plan.first));
}

/* A swizzle changes only bits below this power of two. */
static int64_t swizzle_end(const MemLayout *m) {
  int64_t end = 1;
  while (m->swizzle.mask >= end) end *= 2;
  return end;
}

/* The coordinates of the element at a place, relative to the tile. */
static void coords_at(Direct *x, const Sym *place, const Sym **coords) {
  SymCtx *sym = x->l->sym;
  int weight[LAYOUT_DIMS], last = x->slot.digits.n - 1;
  const Sym *plain = memory_swizzled(x->l, &x->slot, place);
  for (int d = 0; d < x->slot.dims; d++) coords[d] = number(x, 0), weight[d] = 1;
  for (int i = 0; i <= last; i++) {
    Digit g = x->slot.digits.at[i];
    const Sym *from = g.stride % swizzle_end(&x->slot) ? plain : place;
    const Sym *e = sym_floordiv(sym, from, number(x, g.stride));
    if (i < last) e = sym_mod(sym, e, number(x, g.radix));
    coords[g.dim] = sym_add(sym, coords[g.dim], times(x, e, weight[g.dim]));
    weight[g.dim] *= g.radix;
  }
}

/* An expression over the $x at the coordinates. */
static const Sym *at_coords(Direct *x, const Sym *e, const Sym *const *coords) {
  SymCtx *sym = x->l->sym;
  SymBinding to[LAYOUT_DIMS];
  for (int d = 0; d < x->slot.dims; d++)
    to[d] = (SymBinding){access_x(sym, d), sym_add(sym, x->global.start[d], coords[d])};
  e = sym_subst(sym, e, to, x->slot.dims);
  return emit_sound(x->l, e ? sym_simplify(sym, emit_facts(x->l), e) : NULL);
}

/* The address, as the last base and a number if it differs by one. */
static Value *source_of(Direct *x, const Sym *e, int64_t *imm) {
  *imm = 0;
  if (x->from && sym_differ_by(e, x->from, imm) && *imm >= 0 && *imm < INT32_MAX / 16)
    return x->base;
  *imm = 0;
  x->from = e;
  return x->base = emit_address(x->l, e, x->global.offset_dtype);
}

static Value *mask_of(Direct *x, const Sym *const *coords) {
  const Sym *all = sym_bool(x->l->sym, true);
  for (int i = 0; i < x->global.tests.n; i++)
    all = sym_and(x->l->sym, all, at_coords(x, x->global.tests.at[i], coords));
  return emit_test(x->l, emit_sound(x->l, all));
}

static Attr coords_attr(Direct *x, const Sym *const *coords) {
  int rank = x->global.memory->type->rank;
  const Sym **at = ARENA_ARRAY(x->l->arena, const Sym *, rank);
  for (int m = 0; m < rank; m++)
    at[m] = emit_at_entry(x->l, at_coords(x, x->global.coords[m], coords));
  return (Attr){.key = ATTR_coords, .n = rank, .exprs = at};
}

static void emit_block(Direct *x, int i) {
  Lower *l = x->l;
  const Machine *m = &l->machine;
  const Sym *coords[LAYOUT_DIMS];
  int64_t out_of, into = (int64_t)i * m->waves * m->lanes * x->plan.bytes * 8 / x->slot.bits;
  Attr attrs[6];
  int n = 0;
  coords_at(x, place_of(x, i), coords);
  const Sym *to = sym_simplify(l->sym, emit_facts(l), sym_add(l->sym, x->ring, place_of(x, 0)));
  Value *args[5] = {x->to, emit_address(l, emit_sound(l, to), DTYPE_i32), x->global.memory,
                    source_of(x, at_coords(x, x->global.offset, coords), &out_of)};
  args[4] = mask_of(x, coords);
  attrs[n++] = (Attr){.key = ATTR_bytes, .sym = number(x, x->plan.bytes)};
  attrs[n++] = (Attr){.key = ATTR_counted};
  if (into) attrs[n++] = (Attr){.key = ATTR_imm, .integer = into};
  if (out_of) attrs[n++] = (Attr){.key = ATTR_imm_from, .integer = out_of};
  if (op_has(x->global.op, ATTR_nontemporal)) attrs[n++] = (Attr){.key = ATTR_nontemporal};
  attrs[n++] = coords_attr(x, coords);
  emit_op(l, OP_copy_async, args, args[4] ? 5 : 4, attrs, n, NULL);
}

/* ---- groups ---- */

static int blocks_of(Lower *l, const Op *copy) {
  MemLayout slot;
  const Op *alloc = copy->args[1]->def;
  if (!alloc || !alloc_slot_layout(alloc, &slot)) return 0;
  return copy_direct(&l->machine, l->bounds[copy->id], &slot).times;
}

/* What may be in flight at a wait: the fewest copies that the wave issues, on any path, after the group
 * that the wait is for. `later` groups follow that one. */
typedef struct Flight {
  Lower *l;
  int64_t later;
  int copies;
  bool found; /* the end of that group */
} Flight;

static bool closes_group(const Op *op) {
  for (const Op *x = op; x && op_is_inside(x, op); x = ir_next(x))
    if (x->kind == OP_async_commit) return true;
  return false;
}

/* Up to the begin of the region. A group that is closed in a region on the way may be that one. */
static void walk_back(Flight *f, const Op *from) {
  for (const Op *op = from; op && !f->found; op = op->prev) {
    if (op->kind == OP_copy && copy_goes_by(op, "direct")) f->copies += blocks_of(f->l, op);
    if (op->kind == OP_async_commit ? f->later-- == 0 : closes_group(op)) f->found = true;
  }
}

/* From before an op, of this iteration or an earlier one, and then from before the loop. If there is no
 * such group, all copies may be in flight. */
static int fewest_before(Flight f, const Op *op) {
  const Op *outer = op->parent->owner;
  walk_back(&f, op->prev);
  if (f.found || !outer) return f.found ? f.copies : INT32_MAX;
  int fewest = fewest_before(f, outer);
  while (!f.found && op_is_loop(outer) && closes_group(outer)) {
    walk_back(&f, outer->body->last);
    int n = f.found ? f.copies : fewest_before(f, outer);
    if (n < fewest) fewest = n;
  }
  return fewest;
}

static void emit_counter_wait(Lower *l, int copies) {
  NamedCount *count = ARENA_NEW(l->k->arena, NamedCount);
  *count = (NamedCount){intern(&l->k->cx->names, "load"), copies};
  Attr counters = {.key = ATTR_counters, .n = 1, .counts = count};
  emit_op(l, OP_counter_wait, NULL, 0, &counters, 1, NULL);
}

void lower_wait_direct(Lower *l, const Op *wait) {
  Flight f = {.l = l, .later = wait ? op_attr(wait, ATTR_pending)->integer : 0};
  int n = wait ? fewest_before(f, wait) : 0;
  emit_counter_wait(l, n == INT32_MAX ? 0 : n);
}

/* ---- the op ---- */

bool lower_copy_direct(Lower *l, const Op *op) {
  const AccessBounds *b = l->bounds[op->id];
  const Value *scratch = op->args[1];
  Direct x = {.l = l, .to = l->value[scratch->id]};
  CopyPlan plan;
  if (!memory_slot_layout(l, scratch, op, &x.slot, &x.ring))
    return emit_refuse(l, op, "a copy of a loop-carried allocation");
  x.plan = copy_direct(&l->machine, b, &x.slot);
  if (!x.plan.bytes) return emit_refuse(l, op, "a direct copy of part of a tile");
  if (!copy_plan(l->d, &l->machine, b, &plan)) return false;
  if (!open_access(l, op, b, &plan.layout, &x.global)) return false;
  for (int i = 0; i < x.plan.times; i++) emit_block(&x, i);
  if (!op_has(op, ATTR_iteration)) vec_push(l->arena, &l->copying, scratch);
  return true;
}
