/* lower_convert.c: converts a tile to another layout by renaming registers or exchanging between
 * lanes.
 *
 *     convert [8] reg d0/2:1 | lane d0/4:2   to   lane d0/8:1
 *     round 1   register 0 of lane l/2, in all lanes
 *     round 2   register 1 of lane l/2, where l is odd
 *
 * layout/convert.h makes the plan; conversions through shared memory were rewritten by
 * `exchange`. */
#include "layout/convert.h"
#include "lower_threads/lower.h"

/* ---- which lane a lane reads ---- */

static const Sym *lane_bits(Lower *l, int from, int count) {
  const Sym *e = sym_floordiv(l->sym, l->lane, sym_int(l->sym, (int64_t)1 << from));
  if ((int64_t)1 << (from + count) >= l->machine.lanes) return e;
  return sym_mod(l->sym, e, sym_int(l->sym, (int64_t)1 << count));
}

/* Neighbouring bits whose steps double are combined into one number. */
static const Sym *source_lane(Lower *l, const ConvertRound *r) {
  const Sym *sum = sym_int(l->sym, r->first);
  for (int i = 0, n; 1 << i < l->machine.lanes; i += n) {
    for (n = 1; 1 << (i + n) < l->machine.lanes && r->step[i + n] == r->step[i] * (1 << n);) n++;
    if (!r->step[i]) continue;
    const Sym *bits = lane_bits(l, i, n);
    sum = sym_add(l->sym, sum, sym_mul(l->sym, bits, sym_int(l->sym, r->step[i])));
  }
  return sum;
}

/* ---- in which lanes ---- */

/* Whether lanes that agree in bits from .. from + count - 1 are either all in the round or all
 * not. */
static bool depends_on(const int *lanes, int n, int from, int count) {
  int mask = ((1 << count) - 1) << from;
  for (int l = 0; l < n; l++)
    if ((lanes[l] >= 0) != (lanes[l & mask] >= 0)) return false;
  return true;
}

/* The fewest bits of a lane's number that determine whether it is in the round. */
static void find_bits(const int *lanes, int n, int *from, int *count) {
  int bits = 0;
  while (1 << bits < n) bits++;
  for (*count = 0; *count < bits; ++*count)
    for (*from = 0; *from + *count <= bits; ++*from)
      if (depends_on(lanes, n, *from, *count)) return;
  *from = 0;
}

/* The lanes of a round, as ranges of those bits. */
static const Sym *lanes_of(Lower *l, const ConvertRound *r) {
  int n = l->machine.lanes, from, count;
  find_bits(r->lanes, n, &from, &count);
  const Sym *number = lane_bits(l, from, count), *any = sym_bool(l->sym, false);
  int values = 1 << count < n ? 1 << count : n;
  for (int v = 0, end; v < values; v = end + 1) {
    for (end = v; end < values && r->lanes[end << from] >= 0;) end++;
    if (end == v) continue;
    const Sym *least = sym_ge(l->sym, number, sym_int(l->sym, v));
    const Sym *most = sym_lt(l->sym, number, sym_int(l->sym, end));
    any = sym_or(l->sym, any, sym_and(l->sym, least, most));
  }
  return any;
}

/* ---- ops ---- */

static Value *rename_registers(Lower *l, Value *v, const ConvertPlan *p) {
  int n = p->groups * p->unit, *regs = ARENA_ARRAY(l->arena, int, n);
  for (int i = 0; i < n; i++) regs[i] = p->source[i / p->unit] * p->unit + i % p->unit;
  return emit_pick(l, v, regs, n);
}

static Value *exchange_lanes(Lower *l, Value *v, const ConvertPlan *p) {
  Value **groups = ARENA_ARRAY(l->arena, Value *, p->groups);
  for (int i = 0; i < p->nrounds; i++) {
    const ConvertRound *r = &p->rounds[i];
    Value *got = emit_range(l, v, r->from * p->unit, p->unit), **to = &groups[r->to];
    if (r->flip >= 0) got = emit_shuffle(l, got, r->flip);
    else got = emit_shuffle_idx(l, got, source_lane(l, r));
    Value *here = *to ? emit_test(l, lanes_of(l, r)) : NULL;
    *to = here ? emit_select(l, here, got, *to) : got;
  }
  return emit_join(l, groups, p->groups);
}

bool lower_convert(Lower *l, const Op *op) {
  const Value *from = op->args[0], *to = &op->results[0];
  if (from->type->kind != TYPE_tile) {
    l->value[to->id] = l->value[from->id];
    return true;
  }
  ConvertPlan p = (from->varying ? convert_plan_in_waves : convert_plan)(
      l->arena, from->layout, to->layout, dtype_info[from->type->dtype].bits);
  Value *v = l->value[from->id];
  switch (p.kind) {
  case CONVERT_NOTHING:
  case CONVERT_REGISTERS: v = rename_registers(l, v, &p); break;
  case CONVERT_SHUFFLE: v = exchange_lanes(l, v, &p); break;
  case CONVERT_SHARED: return emit_refuse(l, op, "a conversion through shared memory");
  }
  l->value[to->id] = v;
  return true;
}
