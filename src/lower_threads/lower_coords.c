/* lower_coords.c: coordinates of the elements that a lane holds, as expressions of its ids. */
#include "lower_threads/lower.h"

/* ---- digits ---- */
/* The value of one digit of `number`, which is below `count`. */
static const Sym *digit_of(Lower *l, const Sym *number, int count, int weight, int radix) {
  const Sym *e = sym_floordiv(l->sym, number, sym_int(l->sym, weight));
  if (weight * radix < count) e = sym_mod(l->sym, e, sym_int(l->sym, radix));
  return e;
}

static const Sym *number_of(const Lower *l, LayoutPart part) {
  return part == LAYOUT_LANE ? l->lane : l->wave;
}

static const Sym *simpler(Lower *l, const Sym *e) {
  const Sym *s = sym_simplify(l->sym, emit_facts(l), e);
  return s ? s : e;
}

const Sym *lane_digit(Lower *l, const Layout *layout, LayoutPart part, int i) {
  int weight = 1;
  for (int j = 0; j < i; j++) weight *= layout->part[part].at[j].radix;
  return digit_of(l, number_of(l, part), layout_size(layout, part), weight,
                  layout->part[part].at[i].radix);
}

const Sym *lane_coord(Lower *l, const Layout *layout, int dim) {
  const Sym *sum = sym_int(l->sym, 0);
  for (int p = LAYOUT_LANE; p <= LAYOUT_WAVE; p++)
    for (int i = 0; i < layout->part[p].n; i++) {
      const Digit *g = &layout->part[p].at[i];
      if (!g->stride || g->dim != dim) continue;
      const Sym *digit = lane_digit(l, layout, (LayoutPart)p, i);
      sum = sym_add(l->sym, sum, sym_mul(l->sym, digit, sym_int(l->sym, g->stride)));
    }
  return emit_cheaper(l, sum);
}

const Sym *lane_is_first(Lower *l, const Layout *layout, int waves) {
  const Sym *first = sym_bool(l->sym, true), *zero = sym_int(l->sym, 0);
  for (int p = LAYOUT_LANE; p <= LAYOUT_WAVE; p++)
    for (int i = 0, weight = 1; i < layout->part[p].n; weight *= layout->part[p].at[i++].radix) {
      if (layout->part[p].at[i].stride || (p == LAYOUT_WAVE && weight >= waves)) continue;
      const Sym *digit = lane_digit(l, layout, (LayoutPart)p, i);
      if (p == LAYOUT_WAVE && layout->part[p].at[i].radix > waves / weight)
        digit = sym_mod(l->sym, digit, sym_int(l->sym, waves / weight));
      first = sym_and(l->sym, first, sym_eq(l->sym, digit, zero));
    }
  first = simpler(l, first);
  return first == sym_bool(l->sym, true) ? NULL : first;
}

/* ---- of groups of waves ---- */

int lane_group_waves(const Lower *l) {
  int most = 1;
  for (const Op *op = ir_first(l->k); op; op = ir_next(op)) {
    const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
    const MmaInfo *row = mma && mma->mma->name ? mma_find(mma->mma->name) : NULL;
    int waves = row ? row->lanes / l->machine.lanes : 0;
    if (waves > most) most = waves;
  }
  return most;
}

/* A digit of the wave's number that is divided within groups is one of `inner` waves of a group, and one of
 * groups. */
const Sym *lane_group_start(Lower *l, const Layout *layout, int dim, int *reach) {
  const Sym *start = sym_int(l->sym, 0);
  int weight = 1;
  *reach = 0;
  EACH_DIGIT(layout, part, d) {
    int inner = d->radix;
    if (part == LAYOUT_WAVE) {
      inner = weight >= l->group ? 1 : l->group / weight;
      if (inner > d->radix) inner = d->radix;
      const Sym *number =
          digit_of(l, l->wave, layout_size(layout, LAYOUT_WAVE), weight * inner, d->radix / inner);
      int64_t step = d->dim == dim ? (int64_t)inner * d->stride : 0;
      start = sym_add(l->sym, start, sym_mul(l->sym, number, sym_int(l->sym, step)));
      weight *= d->radix;
    }
    if (d->dim == dim) *reach += (inner - 1) * d->stride;
  }
  return start;
}

/* ---- past the tile ---- */

static int most_of(const Layout *layout, int dim, LayoutPart from, LayoutPart to) {
  int most = 0;
  for (int p = (int)from; p <= (int)to; p++)
    for (int i = 0; i < layout->part[p].n; i++) {
      const Digit *g = &layout->part[p].at[i];
      if (g->dim == dim) most += (g->radix - 1) * g->stride;
    }
  return most;
}

const Sym *lane_is_inside(Lower *l, const Layout *layout, int reg, unsigned dims) {
  const Sym *inside = sym_bool(l->sym, true);
  int coord[LAYOUT_DIMS];
  layout_at(layout, reg, 0, 0, coord);
  for (int d = 0; d < layout->dims; d++) {
    if (!(dims >> d & 1) ||
        coord[d] + most_of(layout, d, LAYOUT_LANE, LAYOUT_WAVE) < layout->extent[d])
      continue;
    const Sym *at = sym_add(l->sym, lane_coord(l, layout, d), sym_int(l->sym, coord[d]));
    inside = sym_and(l->sym, inside, sym_lt(l->sym, at, sym_int(l->sym, layout->extent[d])));
  }
  inside = simpler(l, inside);
  return inside == sym_bool(l->sym, true) ? NULL : inside;
}

static bool is_over_covered(const Layout *layout, unsigned dims) {
  for (int d = 0; d < layout->dims; d++)
    if ((dims >> d & 1) && most_of(layout, d, LAYOUT_REG, LAYOUT_WAVE) >= layout->extent[d])
      return true;
  return false;
}

Value *lane_cover(Lower *l, Value *v, const Layout *layout, unsigned dims, Value *neutral) {
  int regs = v->type->n;
  if (!is_over_covered(layout, dims)) return v;
  Value **parts = ARENA_ARRAY(l->arena, Value *, regs);
  for (int r = 0; r < regs; r++) {
    const Sym *inside = lane_is_inside(l, layout, r, dims);
    Value *test = inside ? emit_test(l, inside) : NULL;
    parts[r] = emit_pick(l, v, &r, 1);
    if (test) parts[r] = emit_select(l, test, parts[r], neutral);
  }
  return emit_join(l, parts, regs);
}

/* ---- registers of two layouts ---- */

RegisterIndex *register_index(Lower *l, const Layout *layout, unsigned dims) {
  RegisterIndex *x = ARENA_NEW(l->arena, RegisterIndex);
  int64_t weight = 1;
  int coord[LAYOUT_DIMS];
  for (int d = 0; d < layout->dims; d++) {
    if (!(dims >> d & 1)) continue;
    x->weight[d] = weight;
    x->count[d] = most_of(layout, d, LAYOUT_REG, LAYOUT_REG) + 1;
    weight *= x->count[d];
  }
  for (int r = layout_size(layout, LAYOUT_REG) - 1; r >= 0; r--) {
    uint64_t key = 1;
    layout_at(layout, r, 0, 0, coord);
    for (int d = 0; d < layout->dims; d++) key += (uint64_t)(coord[d] * x->weight[d]);
    map_set(l->arena, &x->first, key, (void *)(uintptr_t)(r + 1));
  }
  return x;
}

int register_at(const RegisterIndex *x, const int *coord) {
  uint64_t key = 1;
  for (int d = 0; d < LAYOUT_DIMS; d++) {
    if (x->count[d] && coord[d] >= x->count[d]) return -1;
    if (x->count[d]) key += (uint64_t)(coord[d] * x->weight[d]);
  }
  return (int)(uintptr_t)map_get(&x->first, key) - 1;
}

const int *lane_first_twins(Lower *l, const Layout *layout) {
  int n = layout_size(layout, LAYOUT_REG), coord[LAYOUT_DIMS];
  int *first = ARENA_ARRAY(l->arena, int, n);
  const RegisterIndex *x = register_index(l, layout, ALL_DIMS);
  for (int r = 0; r < n; r++) {
    layout_at(layout, r, 0, 0, coord);
    first[r] = register_at(x, coord);
  }
  return first;
}

/* For every register of `whole`, a register of `part` that holds the element with the same
 * coordinates along the dims of `part`; dim i of part is dim[i] of whole, or -1: any, it is in
 * registers only. */
static const int *lane_match_registers(Lower *l, const Layout *whole, const Layout *part,
                                       const int *dim) {
  int n = layout_size(whole, LAYOUT_REG), *found = ARENA_ARRAY(l->arena, int, n);
  int here[LAYOUT_DIMS], there[LAYOUT_DIMS] = {0};
  unsigned dims = 0;
  for (int i = 0; i < part->dims; i++) dims |= dim[i] >= 0 ? 1u << i : 0;
  const RegisterIndex *x = register_index(l, part, dims);
  for (int r = 0; r < n; r++) {
    layout_at(whole, r, 0, 0, here);
    for (int i = 0; i < part->dims; i++) there[i] = dim[i] >= 0 ? here[dim[i]] : 0;
    found[r] = register_at(x, there);
    WV_ASSERT(found[r] >= 0); /* the verifier requires linked layouts to agree */
  }
  return found;
}

static void match_dims(const Type *whole, const Type *part, int *dim) {
  for (int i = 0; i < part->rank; i++) dim[i] = type_base_dim(whole, part->dims[i]);
}

Value *lower_operand(Lower *l, const Value *v, const Type *type, const Layout *layout) {
  Value *lane = l->value[v->id];
  int regs = layout ? layout_size(layout, LAYOUT_REG) : 1, dim[IR_MAX_RANK];
  if (!v->layout || !layout) return emit_splat(l, lane, regs);
  match_dims(type, v->type, dim);
  return emit_pick(l, lane, lane_match_registers(l, layout, v->layout, dim), regs);
}

Value *lower_scalar(Lower *l, const Value *v) {
  return emit_pick(l, l->value[v->id], (int[]){0}, 1);
}

Layout lane_undivided(const Lower *l) {
  Layout out = layout_of(0, NULL);
  layout_repeat(&out, LAYOUT_LANE, l->machine.lanes);
  layout_repeat(&out, LAYOUT_WAVE, l->machine.waves);
  return out;
}
