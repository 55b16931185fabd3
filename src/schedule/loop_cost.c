/* loop_cost.c: see loop_cost.h. */
#include "schedule/loop_cost.h"

#include "analysis/analysis.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/reductions.h"
#include "ir/schedule/op_parts.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"

enum { ACCESS_BYTES = 16 }; /* that a lane moves with one instruction */

bool cost_model(Arena *a, const Distribution *d, const Machine *m, CostModel *out) {
  const TargetInfo *t = m ? m->target : NULL;
  *out = (CostModel){.arena = a, .d = d, .machine = m};
  if (!t || !t->simds) return false;
  out->rates = unit_rates(t->name), out->latencies = unit_latencies(t->name);
  out->one_simd = m->waves > t->simds;
  out->waves = out->one_simd ? m->waves / (2.0 * t->simds) : 1;
  return out->rates && out->latencies;
}

/* ---- tiles ---- */

static double bits_of(const Value *v) { return dtype_info[v->type->dtype].bits; }

static double copied_bytes(const Op *copy) {
  const Value *shared = memory_is_scratch(copy->args[1]) ? copy->args[1] : copy->args[0];
  const Op *alloc = memory_root(shared)->def;
  MemLayout slot;
  return alloc && alloc_slot_layout(alloc, &slot) ? (double)mem_bytes(&slot) : 0;
}

/* What an access moves between memory and registers; NULL: nothing. */
static const Value *moved(const Op *op) {
  const Value *v = op->nresults ? &op->results[0] : op->nargs ? op->args[0] : NULL;
  return v && v->layout ? v : NULL;
}

/* The tile whose elements are computed: of a reduction, its operand. */
static const Value *computed(const Op *op) {
  const Value *v = op_is_reduction(op) || op_is_scan(op) ? op->args[0]
                   : op->nresults                        ? &op->results[0]
                                                         : NULL;
  return v && v->layout ? v : NULL;
}

/* ---- elementwise ops ---- */

typedef enum Cost {
  COST_FREE,
#define WEIGHT(cost, vector, special, source) COST_##cost,
#include "target/units/units.def"
  COST_COUNT
} Cost;

static const OpWeight weights[COST_COUNT] = {
#define WEIGHT(cost, vector, special, source) [COST_##cost] = {vector, special},
#include "target/units/units.def"
};

/* What only names elements, or makes a constant, is free. */
OpWeight cost_weight(const Op *op) {
  static const Cost costs[OP_COUNT] = {
#define ELEMENTWISE(name, kind, flags, rule, cost, doc) [OP_##name] = COST_##cost,
#include "ir/elementwise.def"
  };
  bool computes = costs[op->kind] || op_is_reduction(op) || op_is_scan(op) || op->kind == OP_cast ||
                  op->kind == OP_select || op->kind == OP_convert;
  return weights[costs[op->kind] ? costs[op->kind] : computes ? COST_SIMPLE : COST_FREE];
}

/* Elements of 16 bits are computed in pairs, those of 64 bits at half the rate. */
static double elements_of(const CostModel *c, const Op *op) {
  const Value *v = computed(op);
  if (!v) return 0;
  double words = bits_of(v) / 32;
  double lanes = (double)layout_size(v->layout, LAYOUT_REG) * c->machine->lanes * c->waves;
  return lanes * (words < 0.5 ? 0.5 : words);
}

/* ---- products ---- */

typedef struct Instructions {
  double all, one; /* cycles of all instructions of a wave, and of one */
  int steps;       /* of these that add to the same sum, one after the other */
  bool in_flight;  /* the wave does not wait until it is computed */
} Instructions;

/* Without a matrix instruction: as multiplications and additions of the vector ALU. */
static Instructions multiplied(const CostModel *c, const Op *op) {
  double sums = layout_size(op->results[0].layout, LAYOUT_REG), k = 1;
  const Value *lhs = op->args[0];
  if (lhs->layout) k = (double)layout_elements(lhs->layout) / lhs->layout->extent[0];
  double cycles = (double)c->machine->lanes / c->rates->lanes;
  return (Instructions){sums * k * cycles, cycles, (int)k, false};
}

static Instructions instructions_of(const CostModel *c, const Op *op) {
  MmaDivision by;
  Op *own = (Op *)(uintptr_t)op;
  if (!op->results[0].layout) return (Instructions){0};
  if (!op_has(op, ATTR_mma) || !anchor_mma_division(c->d, c->machine, c->arena, own, &by))
    return multiplied(c, op);
  double one = unit_matrix_cycles(c->machine->target, by.row, (int)bits_of(op->args[0]));
  if (one <= 0) return multiplied(c, op);
  int last = op->results[0].type->rank, steps = by.copies[2] / parts_along(op, last).of;
  double n = (double)by.copies[0] * by.copies[1] * by.copies[2] / parts_all(op);
  return (Instructions){n * one, one, steps, by.row->lanes > c->machine->lanes};
}

/* ---- costs ---- */

typedef struct Occupied {
  Unit unit;
  double cycles;
  int latency;
} Occupied;

static Occupied occupied(const CostModel *c, OpClass class, double bytes, double held,
                         double elements, double matrices) {
  const double l2 = c->rates->l2, lanes = c->rates->lanes;
  const double banks = c->machine->target->banks * BANK_BYTES;
  const int none = 0, shared = c->latencies->shared, global = c->latencies->global;
  const int matrix = c->latencies->matrix, vector = c->latencies->vector;
  switch (class) {
#define OCCUPANCY(class, unit, cycles, latency)                                                    \
  case OP_CLASS_##class: return (Occupied){UNIT_##unit, cycles, latency};
#include "target/units/units.def"
  case OP_CLASS_COUNT: break;
  }
  return (Occupied){UNIT_vector, 0, none};
}

static int64_t whole(double cycles) { return (int64_t)(cycles + 0.999); }

static void cost_product(const CostModel *c, const Op *op, LoopCost *cost) {
  Instructions p = instructions_of(c, op);
  Occupied at = occupied(c, OP_CLASS_mma, 0, 0, 0, p.all * c->waves);
  int64_t chain = p.in_flight ? 0 : whole(p.steps * (p.one + at.latency));
  cost->unit[at.unit] = whole(at.cycles);
  cost->steps = p.in_flight || p.steps < 1 ? 1 : p.steps;
  cost->again = cost->unit[at.unit] > chain ? cost->unit[at.unit] : chain;
  cost->takes = cost->again + at.latency;
  cost->issue = p.in_flight ? whole(p.all / (p.one > 0 ? p.one : 1)) * c->rates->issue
                            : whole(at.cycles - p.one);
}

/* A reduction exchanges the sums of its lanes, a step for each factor of two. */
static int64_t exchanged(const CostModel *c, const Op *op) {
  const Value *v = op_is_reduction(op) && !reduction_is_by_thread(op) ? computed(op) : NULL;
  int dim = v ? type_dim(v->type, op_attr(op, ATTR_dim)->sym) : -1, lanes = 1, steps = 0;
  for (int i = 0; dim >= 0 && i < v->layout->part[LAYOUT_LANE].n; i++) {
    const Digit *d = &v->layout->part[LAYOUT_LANE].at[i];
    if (d->stride && d->dim == dim) lanes *= d->radix;
  }
  while (1 << steps < lanes) steps++;
  return (int64_t)steps * (c->latencies->exchange + c->latencies->vector);
}

static void cost_computed(const CostModel *c, const Op *op, OpClass class, LoopCost *cost) {
  double elements = elements_of(c, op);
  OpWeight w = cost_weight(op);
  if (elements * (w.vector + w.special) <= 0) return;
  Occupied at = occupied(c, class, 0, 0, elements * w.vector, 0);
  int64_t special = whole(elements * w.special / c->rates->special);
  cost->unit[at.unit] = whole(at.cycles), cost->unit[UNIT_special] = special;
  cost->issue = cost->unit[at.unit] > special ? cost->unit[at.unit] : special;
  cost->takes = cost->issue + (special ? c->latencies->special : at.latency) + exchanged(c, op);
}

/* Instructions of a wave that moves this many bytes together with the others. */
static int64_t issue_of(const CostModel *c, double bytes) {
  double lanes = (double)c->machine->lanes * c->machine->waves;
  return whole(bytes / (lanes * ACCESS_BYTES)) * c->rates->issue;
}

/* The half that each of the two waves moves, or all of it. */
static double share_of(const CostModel *c, bool elected) {
  return elected || c->machine->waves == 1 ? 1 : 0.5;
}

/* What is loaded again in each iteration is in the vector cache, which is as near as shared memory. */
static bool is_cached(const CostModel *c, const Op *op, OpClass class) {
  return class == OP_CLASS_load && op->kind == OP_read && op_same_outside(c->d->k, op, op->parent);
}

static void cost_access(const CostModel *c, const Op *op, OpClass class, LoopCost *cost) {
  const Value *v = moved(op);
  bool is_copy = op->kind == OP_copy;
  double bytes = is_copy ? copied_bytes(op) : v ? layout_elements(v->layout) * bits_of(v) / 8 : 0;
  double held = v && !is_copy ? layout_positions(v->layout) * bits_of(v) / 8 : bytes;
  bytes /= parts_all(op), held /= parts_all(op);
  cost->elected = is_copy && copy_goes_by(op, "tma");
  double share = share_of(c, cost->elected);
  if (is_cached(c, op, class)) class = OP_CLASS_fetch;
  Occupied at = occupied(c, class, bytes * share, held * share, 0, 0);
  cost->unit[at.unit] = whole(at.cycles);
  cost->takes = cost->unit[at.unit] + (v || is_copy ? at.latency : 0);
  cost->issue = cost->elected ? c->latencies->start : issue_of(c, held);
  if (is_copy && copy_goes_by(op, "load")) cost->issue = cost->takes; /* through registers */
}

LoopCost loop_cost(const CostModel *c, const Op *op) {
  LoopCost cost = {.steps = 1};
  OpClass class = schedule_class(op);
  if (op->body) return cost;
  if (class == OP_CLASS_mma) cost_product(c, op, &cost);
  else if (class == OP_CLASS_none || class == OP_CLASS_reduce) cost_computed(c, op, class, &cost);
  else cost_access(c, op, class, &cost);
  if (op->kind == OP_barrier) cost.issue = cost.takes = c->latencies->barrier;
  if (op_is_turn(op, "take")) cost.issue = cost.takes = c->latencies->test;
  return cost;
}
