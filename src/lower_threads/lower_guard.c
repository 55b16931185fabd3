/* lower_guard.c: selects whose mask holds for all elements of nearly every tile.
 *
 *     %m = exists N {mask = [$x0 < N]}
 *     %y = select %m, %x, %z
 *   =>
 *     %y = if (64*$ARGN + 64 > N) carry %v = %x { %m = ...; %w = select %m, %v, %z; yield %w }
 *
 * The last tile of a dim, or one on the diagonal of a causal mask, needs a test for each element;
 * the others need one for the tile. A mask is made of comparisons of positions, so the condition
 * that it holds everywhere is one of the least and the greatest position. The ops that only such a
 * mask needs are lowered where it is. This is done for NVIDIA GPUs, where it was measured: a branch may
 * also keep the compiler of the machine from mixing what is before with what is after it.
 *
 * Positions are those of the waves that execute a product together, not of the whole tile: a causal mask cuts
 * four tiles of 64 keys for 256 rows, but each 64 of these rows only one. `guards` then lets these waves leave its
 * loops at different times, which they may unless they meet at a barrier in each iteration. */
#include "ir/dtype.h"
#include "lower_threads/lower.h"

enum { LEAST_REGISTERS = 8 /* below this a branch hardly pays: an estimate */ };

typedef enum Sort { OTHER, POSITION, MASK } Sort;

/* The least and the greatest of the numbers in a tile. */
typedef struct Extremes {
  const Sym *least, *greatest;
  int asked; /* for which select they were computed */
  bool known;
} Extremes;

typedef struct Guards {
  Sort *sort; /* by value id: positions, and sums of them and of numbers; comparisons of these */
  bool *deferred;     /* by op id */
  Extremes *extremes; /* by value id */
  int asked;          /* selects so far */
  bool apart;         /* the positions asked for are those of such waves, not of all */
} Guards;

/* ---- which ops ---- */

static bool is_reshaped(const Op *op) {
  return op->kind == OP_broadcast || op->kind == OP_permute || op->kind == OP_squeeze;
}

static bool is_comparison(const Op *op) {
  return op->kind == OP_le || op->kind == OP_lt || op->kind == OP_ge || op->kind == OP_gt;
}

static bool is_sum(const Op *op) {
  return op->kind == OP_add || op->kind == OP_sub || op->kind == OP_floordiv;
}

static bool is_number(const Op *op) {
  const Attr *value = op_attr(op, ATTR_value);
  return (op->kind == OP_scalar || op->kind == OP_fill) && value && value->sym;
}

static bool is_signed_int(const Value *v) {
  DType t = v->type->dtype;
  return dtype_info[t].class == DTYPE_INT && !dtype_is_unsigned(t) && dtype_info[t].bits >= 32;
}

static Sort sort_of(const Guards *g, const Op *op) {
  const Value *v = op->nresults == 1 ? &op->results[0] : NULL;
  if (!v || v->varying || op_has(op, ATTR_part)) return OTHER;
  Sort one = op->nargs > 0 ? g->sort[op->args[0]->id] : OTHER;
  Sort other = op->nargs > 1 ? g->sort[op->args[1]->id] : OTHER;
  bool both = op->nargs == 2 && one == other, integer = is_signed_int(v);
  if (op->kind == OP_exists) return MASK;
  if (is_reshaped(op)) return one;
  if (op->kind == OP_and) return both && one == MASK ? MASK : OTHER;
  if (is_comparison(op)) return both && one == POSITION ? MASK : OTHER;
  if (op->kind == OP_self_index || is_number(op)) return integer ? POSITION : OTHER;
  if (op->kind == OP_cast) return integer && one == POSITION ? POSITION : OTHER;
  return is_sum(op) && integer && both && one == POSITION ? POSITION : OTHER;
}

/* Whether it acts for an iteration of a loop: in it, or before it (`stages`). */
static bool is_of_loop(const Op *op) {
  const Op *owner = op->parent->owner;
  return (owner && owner->kind == OP_for) || op_has(op, ATTR_iteration);
}

static bool is_guarded(const Guards *g, const Op *op) {
  return op->kind == OP_select && is_of_loop(op) && !op_has(op, ATTR_part) &&
         op->results[0].layout && regs_of(&op->results[0]) >= LEAST_REGISTERS &&
         op->args[0]->type->kind == TYPE_tile && g->sort[op->args[0]->id] == MASK;
}

/* Ops that only guarded selects and other such ops of their region use. Backwards, so that the uses of an
 * op are known before it is. */
static void defer_region(Guards *g, const Region *r, int *uses, int *inner) {
  for (const Op *op = r->last; op; op = op->prev) {
    if (op->body) defer_region(g, op->body, uses, inner);
    const Value *v = op->nresults == 1 ? &op->results[0] : NULL;
    bool defers = v && g->sort[v->id] != OTHER && is_of_loop(op) && uses[v->id] &&
                  uses[v->id] == inner[v->id];
    g->deferred[op->id] = defers;
    for (int i = 0; i < op->nargs; i++) {
      uses[op->args[i]->id]++;
      const Op *def = op->args[i]->def;
      bool here = def && def->parent == op->parent;
      inner[op->args[i]->id] += here && (defers || (i == 0 && is_guarded(g, op)));
    }
  }
}

void lower_find_guards(Lower *l) {
  Guards *g = l->guards = ARENA_NEW(l->arena, Guards);
  int values = l->k->nvalues;
  g->sort = ARENA_ARRAY(l->arena, Sort, values);
  g->deferred = ARENA_ARRAY(l->arena, bool, l->k->nops);
  g->extremes = ARENA_ARRAY(l->arena, Extremes, values);
  if (l->machine.target->vendor != VENDOR_NVIDIA) return;
  for (const Op *op = ir_first(l->k); op; op = ir_next(op))
    if (op->nresults == 1) g->sort[op->results[0].id] = sort_of(g, op);
  defer_region(g, l->k->body, ARENA_ARRAY(l->arena, int, values),
               ARENA_ARRAY(l->arena, int, values));
}

bool lower_is_deferred(const Lower *l, const Op *op) { return l->guards->deferred[op->id]; }

/* ---- when a mask holds everywhere ---- */

static bool are_in_dtype(Lower *l, const Extremes *e, DType t) {
  if (!e->least || !e->greatest) return sym_take_error(l->sym), false;
  if (dtype_info[t].bits == 64) return true;
  return sym_range(l->sym, emit_facts(l), e->least).lo >= dtype_min_int(t) &&
         sym_range(l->sym, emit_facts(l), e->greatest).hi <= dtype_max_int(t);
}

static const Extremes *extremes_of(Lower *l, const Value *v);

static bool extremes_of_dim(Lower *l, const Op *op, Extremes *out) {
  const Value *v = &op->results[0];
  DimRange here;
  if (!standing_range(&l->standing, op, v->type->dims[0], &here)) return false;
  const Sym *last = sym_sub(l->sym, here.size, sym_int(l->sym, 1));
  out->least = here.start;
  out->greatest = sym_add(l->sym, here.start, last);
  if (!l->guards->apart || !v->layout) return out->greatest != NULL;
  int reach;
  const Sym *start = lane_group_start(l, v->layout, 0, &reach);
  out->least = sym_add(l->sym, here.start, start);
  last = sym_min(l->sym, last, sym_add(l->sym, start, sym_int(l->sym, reach)));
  out->greatest = last ? sym_add(l->sym, here.start, last) : NULL;
  return out->least && out->greatest;
}

static bool extremes_of_sum(Lower *l, const Op *op, Extremes *out) {
  const Extremes *a = extremes_of(l, op->args[0]), *b = extremes_of(l, op->args[1]);
  int64_t by;
  if (!a || !b) return false;
  if (op->kind == OP_add) {
    out->least = sym_add(l->sym, a->least, b->least);
    out->greatest = sym_add(l->sym, a->greatest, b->greatest);
  } else if (op->kind == OP_sub) {
    out->least = sym_sub(l->sym, a->least, b->greatest);
    out->greatest = sym_sub(l->sym, a->greatest, b->least);
  } else {
    if (b->least != b->greatest || !sym_is_int(b->least, &by) || by < 1) return false;
    out->least = sym_floordiv(l->sym, a->least, b->least);
    out->greatest = sym_floordiv(l->sym, a->greatest, b->least);
  }
  return true;
}

static bool find_extremes(Lower *l, const Value *v, Extremes *out) {
  const Op *op = v->def;
  if (op->kind == OP_self_index) return extremes_of_dim(l, op, out);
  if (is_sum(op)) return extremes_of_sum(l, op, out);
  if (is_number(op)) {
    out->least = out->greatest = distribute_expr(l->d, op, op_attr(op, ATTR_value)->sym);
    return true;
  }
  const Extremes *of = extremes_of(l, op->args[0]);
  if (of) out->least = of->least, out->greatest = of->greatest;
  return of != NULL;
}

/* NULL: they are unknown, or the arithmetic may wrap. */
static const Extremes *extremes_of(Lower *l, const Value *v) {
  Extremes *e = &l->guards->extremes[v->id];
  if (e->asked != l->guards->asked) {
    e->known = find_extremes(l, v, e) && are_in_dtype(l, e, v->type->dtype);
    e->asked = l->guards->asked;
  }
  return e->known ? e : NULL;
}

static const Sym *exists_everywhere(Lower *l, const Op *op) {
  const AccessBounds *b = l->bounds[op->id];
  const Sym *all = sym_bool(l->sym, true);
  Extremes x;
  if (!extremes_of_dim(l, op, &x)) return NULL;
  for (int i = 0; i < b->nbounds && op_attr(op, ATTR_mask)->n; i++)
    all = sym_and(l->sym, all, sym_lt(l->sym, x.greatest, b->bounds[i].limit));
  return all;
}

/* The condition under which a mask holds for every element; NULL: unknown. */
static const Sym *holds_everywhere(Lower *l, const Value *mask) {
  const Op *op = mask->def;
  if (op->kind == OP_exists) return exists_everywhere(l, op);
  if (is_reshaped(op)) return holds_everywhere(l, op->args[0]);
  if (op->kind == OP_and) {
    const Sym *one = holds_everywhere(l, op->args[0]), *other = holds_everywhere(l, op->args[1]);
    return one && other ? sym_and(l->sym, one, other) : NULL;
  }
  const Extremes *a = extremes_of(l, op->args[0]), *b = extremes_of(l, op->args[1]);
  if (!a || !b) return NULL;
  switch (op->kind) {
  case OP_le: return sym_le(l->sym, a->greatest, b->least);
  case OP_lt: return sym_lt(l->sym, a->greatest, b->least);
  case OP_ge: return sym_ge(l->sym, a->least, b->greatest);
  default: return sym_gt(l->sym, a->least, b->greatest);
  }
}

/* ---- lowering ---- */

/* The ops of its mask that were left out so far. */
static bool lower_mask(Lower *l, const Op *select) {
  const Guards *g = l->guards;
  bool *needed = ARENA_ARRAY(l->arena, bool, l->k->nvalues);
  needed[select->args[0]->id] = true;
  for (const Op *op = select->prev; op; op = op->prev)
    for (int i = 0; g->deferred[op->id] && needed[op->results[0].id] && i < op->nargs; i++)
      needed[op->args[i]->id] = true;
  for (const Op *op = select->parent->first; op != select; op = op->next)
    if (g->deferred[op->id] && needed[op->results[0].id] && !lower_one(l, op)) return false;
  l->at = select->at;
  return true;
}

static bool lower_guarded(Lower *l, const Op *op, const Sym *needed) {
  const Value *out = &op->results[0];
  Value *x = lower_operand(l, op->args[1], out->type, out->layout);
  Op *guard = ir_op_new(l->k, OP_if, l->at, &x, 1);
  op_set_attr(l->k, guard, (Attr){.key = ATTR_expr, .sym = needed});
  ir_append(l->scope->region, guard);
  ir_set_results(l->k, guard, &x->type, 1);
  Region *body = ir_region_new(l->k, guard);
  Value *inside = ir_add_arg(l->k, body, x->type, NULL);
  emit_open_scope(l, body, l->scope->facts);
  bool ok = lower_mask(l, op);
  if (ok) {
    Value *args[] = {lower_operand(l, op->args[0], out->type, out->layout), inside,
                     lower_operand(l, op->args[2], out->type, out->layout)};
    Value *v = emit_op(l, OP_select, args, 3, NULL, 0, x->type);
    emit_op(l, OP_yield, &v, 1, NULL, 0, NULL);
  }
  emit_close_scope(l);
  l->value[out->id] = &guard->results[0];
  return ok;
}

bool lower_select(Lower *l, const Op *op) {
  if (!is_guarded(l->guards, op)) return lower_elementwise(l, op);
  l->guards->asked++;
  l->guards->apart = !lower_meets(op->parent);
  const Sym *all = holds_everywhere(l, op->args[0]);
  const Sym *needed = all ? sym_simplify(l->sym, emit_facts(l), sym_not(l->sym, all)) : NULL;
  if (!needed) sym_take_error(l->sym);
  bool sometimes = needed && needed != sym_bool(l->sym, true) && needed != sym_bool(l->sym, false);
  if (sometimes) return lower_guarded(l, op, emit_at_entry(l, needed));
  return lower_mask(l, op) && lower_elementwise(l, op);
}
