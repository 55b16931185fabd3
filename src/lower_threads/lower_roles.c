/* lower_roles.c: kernels in which service waves copy for the others (transform/stages/roles/stages_roles.h).
 *
 *     mbar_init %full {count = 2}                 if ($T0 < 1) { mbar_init ... }
 *     barrier roles                               barrier workgroup
 *     for K carry ... {                           if ($T0 >= 256) {
 *       mbar_wait %empty {role = "load"}            if ($T0 <= 256) {
 *       copy %a, %s, %full {role = "load"}   =>       for K { mbar_wait %empty ... tma_load ... }
 *       mbar_wait %full                             }
 *       ...                                       }
 *     }                                           if ($T0 < 256) {
 *                                                   for K carry ... { mbar_wait %full ... }
 *                                                 }
 *
 * What comes before the parting barrier is executed by all waves. Then there are two programs: one
 * thread of the service waves runs the loops and conditionals around ops with a role; the waves that
 * compute run everything else, and meet at a named barrier of their own. */
#include <string.h>

#include "ir/region_facts.h"
#include "lower_threads/lower.h"

const Sym *lower_computing(const Lower *l) {
  return sym_int(l->sym, l->machine.lanes * l->machine.waves);
}

int lower_cluster(const Lower *l) {
  const Constraint *row = kernel_persistent(l->k);
  return l->machine.service && row && row->persist.cluster > 1 ? row->persist.cluster : 1;
}

bool lower_meet(Lower *l, const Op *op) {
  int bar = lower_free_barriers(l, 1);
  if (!bar) return emit_refuse(l, op, "one more named barrier");
  Attr attrs[] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "named")},
                  {.key = ATTR_bar, .integer = bar},
                  {.key = ATTR_count, .sym = lower_computing(l)}};
  emit_op(l, OP_barrier, NULL, 0, attrs, WV_LEN(attrs), NULL);
  return true;
}

/* ---- service waves ---- */

static bool has_service(const Lower *l, const Op *outer) {
  for (const Op *op = outer; op && op_is_inside(op, outer); op = ir_next(op))
    if (op_is_served(l->k, op) && op->kind != OP_wave_registers) return true;
  return false;
}

/* What service waves compute themselves: symbols that the kernel sets, and what they are set to. */
typedef struct Needs {
  bool *values; /* by id */
  bool *ops;    /* by id */
  bool changed;
} Needs;

static void need(Needs *n, const Value *v) {
  n->changed |= !n->values[v->id];
  n->values[v->id] = true;
}

/* What a region carries is needed if its argument or its result is. */
static void need_carried(Needs *n, const Op *op) {
  int first = op_carried(op);
  for (int i = 0; i < op->nresults && op->kind != OP_while; i++) {
    const Value *inside = op->body->args[i];
    if (!n->values[inside->id] && !n->values[op->results[i].id]) continue;
    need(n, inside);
    need(n, op->args[first + i]);
    need(n, op->body->last->args[i]);
    n->ops[op->id] = true;
  }
}

static void find_needs(const Region *r, Needs *n) {
  for (const Op *op = r->last; op; op = op->prev) {
    if (op->body) {
      need_carried(n, op);
      find_needs(op->body, n);
      continue;
    }
    bool own = op->kind == OP_set_symbol || (op->nresults == 1 && n->values[op->results[0].id]);
    n->ops[op->id] = own;
    for (int i = 0; own && i < op->nargs; i++) need(n, op->args[i]);
  }
}

static Needs needs_of(const Lower *l) {
  Needs n = {.values = ARENA_ARRAY(l->arena, bool, l->k->nvalues),
             .ops = ARENA_ARRAY(l->arena, bool, l->k->nops),
             .changed = true};
  while (n.changed) {
    n.changed = false;
    find_needs(l->tiles, &n);
  }
  return n;
}

static bool serve(Lower *l, const Op *op, const Needs *n);

/* The carried values that service waves need, of those that a list has for all. */
static int pick(Lower *l, const Op *op, const Needs *n, Value *const *all, Value **out) {
  int found = 0;
  for (int i = 0; i < op->nresults; i++)
    if (n->values[op->body->args[i]->id]) out[found++] = lower_scalar(l, all[i]);
  return found;
}

static Op *make_served(Lower *l, const Op *op, const Needs *n) {
  Value **args = ARENA_ARRAY(l->arena, Value *, op->nresults + 1);
  const Type **types = ARENA_ARRAY(l->arena, const Type *, op->nresults + 1);
  int carried = pick(l, op, n, op->args + op_carried(op), args), next = 0;
  for (int i = 0; i < carried; i++) types[i] = args[i]->type;
  Op *made = ir_op_new(l->k, op->kind, op->at, args, carried);
  lower_region_attrs(l, op, made);
  op_drop_attr(made, ATTR_tag);
  ir_append(l->scope->region, made);
  ir_set_results(l->k, made, types, carried);
  Region *body = ir_region_new(l->k, made);
  for (int i = 0; i < op->nresults; i++) {
    const Value *inside = op->body->args[i];
    if (!n->values[inside->id]) continue;
    l->value[inside->id] = ir_add_arg(l->k, body, types[next], inside->name);
    l->value[op->results[i].id] = &made->results[next++];
  }
  return made;
}

/* A loop or conditional, with what of its carried values is needed. */
static bool serve_region(Lower *l, const Op *op, const Needs *n) {
  Standing outside = l->standing;
  if (op->kind == OP_while || op_condition(op) || op_has(op, ATTR_from))
    return emit_refuse(l, op, "a region of service waves that depends on what others compute");
  Op *made = make_served(l, op, n);
  l->standing = standing_inside(&outside, op);
  emit_open_scope(l, made->body, l->standing.facts);
  const Attr *loop = op_attr(op, ATTR_axis);
  if (loop) emit_define(l, ir_loop_counter(l->k, loop->sym));
  bool ok = serve(l, op->body->first, n);
  Value **results = ARENA_ARRAY(l->arena, Value *, op->nresults + 1);
  int carried = ok ? pick(l, op, n, op->body->last->args, results) : 0;
  emit_op(l, OP_yield, results, carried, NULL, 0, NULL);
  emit_close_scope(l);
  l->standing = outside;
  return ok;
}

/* From `op` to the end of its region. */
static bool serve(Lower *l, const Op *op, const Needs *n) {
  for (; op; op = op->next) {
    if (!n->ops[op->id] && !has_service(l, op)) continue;
    if (!(op->body ? serve_region(l, op, n) : lower_one(l, op))) return false;
    l->standing = standing_after(&l->standing, op);
  }
  return true;
}

static void give_registers(Lower *l, const Op *op) {
  Attr attrs[] = {*op_attr(op, ATTR_mode), *op_attr(op, ATTR_count)};
  emit_op(l, OP_wave_registers, NULL, 0, attrs, WV_LEN(attrs), NULL);
}

/* All service waves give registers away; one thread does the rest. */
static bool lower_service(Lower *l, const Op *op) {
  const Sym *t = ir_numbered_symbol(l->k->cx, "$T", 0, true), *elected = l->elected;
  Standing outside = l->standing;
  emit_open_if(l, sym_le(l->sym, lower_computing(l), t));
  for (const Op *own = op; own; own = own->next)
    if (own->kind == OP_wave_registers && op_is_served(l->k, own)) give_registers(l, own);
  emit_open_if(l, sym_le(l->sym, t, lower_computing(l)));
  l->elected = sym_bool(l->sym, true);
  Needs needs = needs_of(l);
  bool ok = serve(l, op, &needs);
  l->elected = elected, l->standing = outside;
  emit_close_if(l);
  emit_close_if(l);
  return ok;
}

/* The first op of service waves with an operand that only the others have; NULL: none. */
static const Op *find_foreign(const Lower *l, const Op *parts) {
  for (const Op *op = parts; op; op = ir_next(op))
    for (int i = 0; op_is_served(l->k, op) && i < op->nargs; i++) {
      const Op *def = op->args[i]->def;
      const Op *outer = def ? op_ancestor_in(def, parts->parent) : NULL;
      if (outer && op_comes_before(parts, outer)) return op;
    }
  return NULL;
}

static bool awaits(const Lower *l, const Op *parts, const Value *ring) {
  for (const Op *op = parts->next; op; op = op->next)
    if (op->kind == OP_mbar_wait && op_is_served(l->k, op) && op->args[0] == ring) return true;
  return false;
}

/* Whether service waves wait, after all loops, for what other workgroups still do to this one. */
static bool awaits_peers(const Lower *l, const Region *from, const Op *parts) {
  for (const Op *op = from->first; op != parts; op = op->next)
    if (op->kind == OP_mbar_init && op_peers(op) > 1 && !awaits(l, parts, op->args[0]))
      return false;
  return true;
}

bool lower_roles(Lower *l, const Region *from) {
  const Op *parts = op_parting(from);
  const Sym *t = ir_numbered_symbol(l->k->cx, "$T", 0, true);
  bool clusters =
      lower_cluster(l) > 1; /* then barriers are used by, and wait for, other workgroups */
  const char *who = clusters ? "cluster" : "workgroup";
  Attr all = {.key = ATTR_mode, .text = intern(&l->k->cx->names, who)};
  if (!parts) return emit_refuse(l, from->first, "service waves without `barrier roles`");
  const Op *foreign = find_foreign(l, parts);
  if (foreign)
    return emit_refuse(l, foreign,
                       "service waves with an operand that is defined after `barrier roles`");
  if (!lower_ops(l, from->first, parts)) return false;
  emit_op(l, OP_barrier, NULL, 0, &all, 1, NULL);
  if (!lower_service(l, parts->next)) return false;
  emit_open_if(l, sym_lt(l->sym, t, lower_computing(l)));
  bool ok = lower_ops(l, parts->next, NULL);
  emit_close_if(l);
  if (clusters && !awaits_peers(l, from, parts)) emit_op(l, OP_barrier, NULL, 0, &all, 1, NULL);
  return ok;
}
