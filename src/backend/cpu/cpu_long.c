/* cpu_long.c: which for loops may run so long that they must check whether the launch was stopped,
 * and after how many iterations.
 *
 * Work is counted in elements that ops consume and produce. Loops over a tile have few iterations
 * and are left unchanged; in practice the loop over a dynamic K, and the loops around it, do the
 * checking. */
#include <math.h>

#include "backend/cpu/cpu_state.h"
#include "backend/cpu/lanes/cpu_lanes.h"
#include "ir/region_facts.h"

/* Elements between two checks: a few milliseconds of plain arithmetic, and less than a second of
 * the slowest ops. */
static const double MOST = 1 << 24;

/* An upper bound on the work of a part of a kernel, in elements; infinite if a loop in it
 * checks. */
static double work_of_region(Llvm *p, const Region *r, const SymFacts *facts, int64_t *rounds);

static double elements(const Op *op) {
  double n = 1;
  for (int i = 0; i < op->nargs; i++) n += op->args[i]->type->n;
  for (int i = 0; i < op->nresults; i++) n += op->results[i].type->n;
  return n;
}

static double most_rounds(Llvm *p, const Op *op, const SymFacts *facts) {
  SymRange trips = sym_range(p->sym, facts, op_attr(op, ATTR_trips)->sym);
  sym_take_error(p->sym);
  if (trips.hi == SYM_MAX_INF) return INFINITY;
  return trips.hi < 0 ? 0 : (double)trips.hi / (double)op_step(op);
}

static double work_of_loop(Llvm *p, const Op *op, const SymFacts *around, int64_t *rounds) {
  const SymFacts *inside = loop_facts(p->k, p->arena, op, p->entry, around);
  double most =
      MOST / (p->cpu->lanes ? p->cpu->lanes->copies : 1); /* threads run one after the other */
  double body = work_of_region(p, op->body, inside, rounds);
  double all = body * most_rounds(p, op, around), fit = floor(most / body);
  if (all <= most) return all;
  rounds[op->id] = body == INFINITY ? LLVM_ROUNDS_DIFFER : fit < 1 ? 1 : (int64_t)fit;
  return INFINITY;
}

static double work_of_op(Llvm *p, const Op *op, const SymFacts *facts, int64_t *rounds) {
  if (op->kind == OP_for) return work_of_loop(p, op, facts, rounds);
  double own = op->body ? work_of_region(p, op->body, facts, rounds) : 0;
  return op->kind == OP_while ? INFINITY : own + elements(op);
}

static double work_of_region(Llvm *p, const Region *r, const SymFacts *facts, int64_t *rounds) {
  double all = 1;
  for (const Op *op = r->first; op; op = op->next) all += work_of_op(p, op, facts, rounds);
  return all;
}

int64_t *cpu_find_long(Llvm *p) {
  int64_t *rounds = ARENA_ARRAY(p->arena, int64_t, p->k->nops);
  work_of_region(p, p->k->body, p->entry, rounds);
  return rounds;
}
