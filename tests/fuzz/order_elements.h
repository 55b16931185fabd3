/* order_elements.h: which waves access which elements of a tile in shared memory.
 *
 * The proof of a loop does not know it: two accesses by different waves count as a conflict even if
 * each wave accesses its own elements. fuzz_orders excuses such programs only if that is so. */
#ifndef WV_TESTS_ORDER_ELEMENTS_H
#define WV_TESTS_ORDER_ELEMENTS_H

#include "analysis/analysis.h"
#include "ir/ops/access.h"
#include "ir/schedule/op_parts.h"
#include "schedule/proof/loop_proof.h"
#include "transform/copy/copy_plan.h"

enum { ELEMENT_FACTS = FACT_memory_uses | FACT_distribute | FACT_in_bounds };

static inline Machine machine_of_kernel(const Kernel *k, const TargetInfo *t) {
  const MachineSpec *row = kernel_machine(k);
  return (Machine){t, row->lanes, row->waves, row->observable, row->service, 1};
}

/* By the threads of a copy, or those that hold what is read or written; NULL: not by layouts. */
static inline const Layout *layout_of_access(Arena *a, const Facts *f, const Machine *m,
                                             const Op *op) {
  if (op->kind == OP_read) return op->results[0].layout;
  if (op->kind == OP_write) return op->args[0]->layout;
  if (op->kind != OP_copy || copy_barriers(op) || copy_goes_by(op, "direct")) return NULL;
  CopyPlan *plan = ARENA_NEW(a, CopyPlan);
  return copy_plan(f->distribute, m, f->in_bounds[op->id], plan) ? &plan->layout : NULL;
}

/* By element: the waves that access it, as bits. Only one thread writes what several hold, also if
 * it is a copy. */
static inline const uint64_t *waves_of_elements(Arena *a, const Op *op, const Layout *l) {
  bool owners = op->kind == OP_write || (op->kind == OP_copy && copy_is_in(op));
  int regs = layout_size(l, LAYOUT_REG);
  int n = layout_positions(l), each = layout_size(l, LAYOUT_REG) * layout_size(l, LAYOUT_LANE);
  uint64_t *waves = ARENA_ARRAY(a, uint64_t, layout_elements(l));
  const int *element = layout_table(a, l), *owner = layout_owners(a, l);
  for (int at = 0; at < n; at++) {
    int e = element[at];
    if (e >= 0 && (!owners || owner[e] == at) && parts_have(op, l, at % regs, 1))
      waves[e] |= UINT64_C(1) << at / each;
  }
  return waves;
}

/* Some element is accessed by one wave in x and by another in y, as far as layouts tell. If halves of
 * the waves are a barrier apart: some by the first half in x, and some by the second. */
static inline bool waves_share(Arena *a, const Facts *f, const Machine *m, const Op *x, const Op *y,
                               bool lagged) {
  const Layout *p = layout_of_access(a, f, m, x), *q = layout_of_access(a, f, m, y);
  if (!p || !q || layout_elements(p) != layout_elements(q)) return false;
  const uint64_t *first = waves_of_elements(a, x, p), *second = waves_of_elements(a, y, q);
  uint64_t half = (UINT64_C(1) << m->waves / 2) - 1, shared = 0;
  for (int e = 0; e < layout_elements(p); e++) {
    uint64_t both = first[e] | second[e];
    if (!first[e] || !second[e] || !(both & (both - 1))) continue;
    if (!lagged) return true;
    shared |= (first[e] & half && second[e] & ~half) | (first[e] & ~half && second[e] & half) << 1;
  }
  return shared == 3;
}

#endif
