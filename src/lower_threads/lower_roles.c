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

/* Symbols that the kernel sets, and what they are set to: service waves compute it themselves. */
static void find_symbols(const Region *r, bool *needed, bool *sets) {
  for (const Op *op = r->last; op; op = op->prev) {
    if (op->body) find_symbols(op->body, needed, sets);
    bool own = op->kind == OP_set_symbol || (op->nresults == 1 && needed[op->results[0].id]);
    sets[op->id] = own;
    for (int i = 0; own && i < op->nargs; i++) needed[op->args[i]->id] = true;
  }
}

static bool serve(Lower *l, const Op *op, const bool *sets);

/* A loop or conditional without what it carries. */
static bool serve_region(Lower *l, const Op *op, const bool *sets) {
  Standing outside = l->standing;
  if (op->kind == OP_while || op_condition(op) || op_has(op, ATTR_from))
    return emit_refuse(l, op, "a region of service waves that depends on what others compute");
  Op *made = ir_op_new(l->k, op->kind, op->at, NULL, 0);
  lower_region_attrs(l, op, made);
  op_drop_attr(made, ATTR_tag);
  ir_append(l->scope->region, made);
  l->standing = standing_inside(&outside, op);
  emit_open_scope(l, ir_region_new(l->k, made), l->standing.facts);
  const Attr *loop = op_attr(op, ATTR_axis);
  if (loop) emit_define(l, ir_loop_counter(l->k, loop->sym));
  bool ok = serve(l, op->body->first, sets);
  emit_op(l, OP_yield, NULL, 0, NULL, 0, NULL);
  emit_close_scope(l);
  l->standing = outside;
  return ok;
}

/* From `op` to the end of its region. */
static bool serve(Lower *l, const Op *op, const bool *sets) {
  for (; op; op = op->next) {
    if (!sets[op->id] && !has_service(l, op)) continue;
    if (!(op->body ? serve_region(l, op, sets) : lower_one(l, op))) return false;
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
  bool *sets = ARENA_ARRAY(l->arena, bool, l->k->nops);
  find_symbols(l->tiles, ARENA_ARRAY(l->arena, bool, l->k->nvalues), sets);
  bool ok = serve(l, op, sets);
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
  if (clusters) emit_op(l, OP_barrier, NULL, 0, &all, 1, NULL);
  return ok;
}
