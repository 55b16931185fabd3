/* live.c: see live.h. */
#include "ir/ops/live.h"

#include <string.h>

#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/region_facts.h"

/* Ops whose results are registers of their operands. */
static bool only_renames(const Op *op) {
  return op->kind == OP_pick || op->kind == OP_join || op->kind == OP_bitcast ||
         op->kind == OP_permute || op->kind == OP_broadcast;
}

static bool is_constant(const Value *v) {
  return v->def && (v->def->kind == OP_splat || v->def->kind == OP_fill);
}

/* Indices of a thread's elements differ by constants. */
static bool is_index(const Value *v) { return v->def && v->def->kind == OP_self_index; }

/* One of two constants: compilers select each element where it is used. */
static bool is_selected(const Op *op) {
  return op->kind == OP_select && is_constant(op->args[1]) && is_constant(op->args[2]);
}

/* How many elements of a value a thread holds. */
static int elements_of(const Value *v) {
  const Type *t = v->type;
  if (t->kind != TYPE_vec && t->kind != TYPE_scalar && t->kind != TYPE_tile) return 0;
  if (is_constant(v) || is_index(v)) return 1;
  if (v->def && is_selected(v->def)) return 0;
  if (t->kind == TYPE_tile) return v->layout ? layout_size(v->layout, LAYOUT_REG) : 0;
  return t->kind == TYPE_vec ? t->n : 1;
}

int live_registers(const Value *v) {
  int n = v->def && only_renames(v->def) ? 0 : elements_of(v);
  int bits = n ? dtype_info[v->type->dtype].bits : 0;
  return bits == 1 ? 0 : (n * bits + 31) / 32;
}

static int registers_by_layout(void *user, const Value *v) {
  (void)user;
  return live_registers(v);
}

/* The last op that needs a value of region `home` because of this use: in the loops between them it
 * is needed again in the next iteration. */
static const Op *end_of_use(const Op *use, const Region *home) {
  const Op *end = use;
  for (const Region *r = use->parent; r != home && r->owner; r = r->owner->parent)
    if (op_is_loop(r->owner)) end = r->last;
  return end;
}

/* A product that reads an operand from shared memory is in flight until its result is needed, and reads
 * the registers of the other one meanwhile. Returns the op that ends that. */
static const Op *end_of_flight(const Op *op) {
  const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
  if (!mma || !(mma->mma->shared_lhs || mma->mma->shared_rhs)) return op;
  for (const Op *user = op->next; user; user = user->next)
    if (op_takes(user, &op->results[0])) return user;
  return op->parent->last;
}

/* ---- what follows products ---- */

/* Whether products are summed up by a loop of the region. */
static bool has_summing_loop(const Region *r) {
  for (const Op *op = r->first; op; op = op->next) {
    if (op_is_product(op)) return false;
    for (const Op *inner = op_is_loop(op) ? op->body->first : NULL; inner; inner = inner->next)
      if (op_is_product(inner)) return true;
  }
  return false;
}

static bool is_element_by_element(const Op *op, const Region *home) {
  bool each = op_is_elementwise(op) || op->kind == OP_write || op->kind == OP_broadcast;
  return op->parent == home && each;
}

/* The one tile that the op is computed from, constants aside; NULL: there are several, or none. */
static const Value *root_of(const Op *op, const bool *passing, const Value *const *root) {
  const Value *found = NULL;
  for (int i = 0; i < op->nargs; i++) {
    const Value *v = op->args[i], *from = passing[v->id] ? root[v->id] : v;
    if (is_constant(v) || v->type->kind == TYPE_scalar) continue;
    if (!from || (found && from != found)) return NULL;
    found = from;
  }
  return found;
}

/* By value id: tiles that are computed from the results of such a loop, and only for others of them and for
 * writes. Assemblers compute them element by element: they have no registers of their own for all elements at
 * once, but what they are computed from is needed until then. One that several ops take, and that is
 * computed from several, takes the place of these instead. */
static const bool *find_passing(Arena *a, const Kernel *k) {
  bool *passing = ARENA_ARRAY(a, bool, k->nvalues + 1);
  bool *others = ARENA_ARRAY(a, bool, k->nvalues + 1), follows = false;
  int *takers = ARENA_ARRAY(a, int, k->nvalues + 1);
  const Value **root = ARENA_ARRAY(a, const Value *, k->nvalues + 1);
  const Region *known = NULL;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i];
      takers[v->id]++;
      others[v->id] |= !v->def || !is_element_by_element(op, v->def->parent);
    }
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Value *v = op->nresults == 1 && op_is_elementwise(op) ? &op->results[0] : NULL;
    if (op->parent != known) known = op->parent, follows = has_summing_loop(known);
    if (!v || !follows || v->type->kind != TYPE_tile || others[v->id]) continue;
    root[v->id] = root_of(op, passing, root);
    passing[v->id] = takers[v->id] == 1 || root[v->id];
  }
  return passing;
}

/* By value id: the number of the last op that needs it. Uses come after definitions, so going
 * backwards the last use of a new name is known when its op is reached. */
static int *last_uses(Arena *a, const Kernel *k, const bool *passing) {
  const Op **ops = ARENA_ARRAY(a, const Op *, k->nops);
  int *last = ARENA_ARRAY(a, int, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) ops[op->id] = op;
  for (int at = k->nops - 1; at >= 0; at--) {
    const Op *op = ops[at];
    for (int i = 0; op && i < op->nargs; i++) {
      const Value *v = op->args[i];
      int end = end_of_use(op, region_of_value(v))->id;
      if (i < 2 && region_of_value(v) == op->parent) end = end_of_flight(op)->id;
      bool late = only_renames(op) || (op->nresults && passing[op->results[0].id]);
      if (late && last[op->results[0].id] > end) end = last[op->results[0].id];
      if (end > last[v->id]) last[v->id] = end;
    }
  }
  return last;
}

const int *live_at_ops_by(Arena *a, const Kernel *k, LiveFn *registers, void *user) {
  const bool *passing = find_passing(a, k);
  int *last = last_uses(a, k, passing), *live = ARENA_ARRAY(a, int, k->nops + 2);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    int results = op->nresults, carried = op->body ? op->body->nargs : 0;
    for (int i = 0; i < results + carried; i++) {
      const Value *v = i < results ? &op->results[i] : op->body->args[i - results];
      int from = op->body && i < results ? op->body->last->id : op->id;
      bool named = v->def && (only_renames(v->def) || passing[v->id]);
      if (last[v->id] <= from || named) continue;
      live[from + 1] += registers(user, v);
      live[last[v->id] + 1] -= registers(user, v);
    }
  }
  for (int i = 1; i < k->nops; i++) live[i] += live[i - 1];
  return live;
}

const int *live_at_ops(Arena *a, const Kernel *k) {
  return live_at_ops_by(a, k, registers_by_layout, NULL);
}

int live_taken(const Kernel *k) {
  int64_t n;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_wave_registers && strcmp(op_attr(op, ATTR_mode)->text, "take") == 0)
      return sym_is_int(op_attr(op, ATTR_count)->sym, &n) ? (int)n : 0;
  return 0;
}
