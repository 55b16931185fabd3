/* persist_body.c: see persist_body.h. */
#include "transform/persist/persist_body.h"

#include <string.h>

#include "ir/attr.h"
#include "ir/region_facts.h"

/* ---- what differs between tiles ---- */

bool persist_is_set(const PersistBody *b, const Sym *s) {
  for (int i = 0; s && i < b->differ.n; i++)
    if (sym_contains(s, b->differ.at[i])) return true;
  return false;
}

bool persist_differs(const PersistBody *b, const Sym *s) {
  return persist_is_set(b, s) || (s && ir_expr_mentions(s, "$WG"));
}

static bool does_differ(const void *body, const Sym *s) { return persist_differs(body, s); }

static bool is_number(const Op *op) {
  return op->nresults == 1 && op->results[0].type->kind == TYPE_scalar && op_is_pure(op) &&
         !op->body;
}

/* ---- symbols that are set ---- */

/* Of a symbol, or of what begins with its name, as its versions do. */
static bool is_mention(const void *symbol, const Sym *s) { return ir_expr_mentions(s, symbol); }

static bool type_mentions(const Type *t, const char *symbol) {
  for (int i = 0; i < t->rank; i++)
    if (ir_expr_mentions(t->dims[i], symbol)) return true;
  return false;
}

/* Positions and sizes of tiles follow from rows, with what their symbols are set to at the op. */
static bool header_mentions(Kernel *k, const char *symbol) {
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_assume || c->kind == CONSTRAINT_bind) continue; /* of the launch */
    if (constraint_has_sym(k, c, (SymSearch){is_mention, symbol, false})) return true;
  }
  return false;
}

static bool op_mentions(const PersistBody *b, const Op *outer, const char *symbol) {
  for (const Op *op = outer; op && op_is_inside(op, outer); op = ir_next(op)) {
    bool has_tiles = op->body, found = op_has_sym(b->k, op, (SymSearch){is_mention, symbol, false});
    for (int i = 0; i < op->nresults; i++) {
      has_tiles |= op->results[i].type->kind != TYPE_scalar;
      found |= type_mentions(op->results[i].type, symbol);
    }
    for (int i = 0; i < op->nargs; i++) {
      has_tiles |= op->args[i]->type->kind != TYPE_scalar;
      found |= type_mentions(op->args[i]->type, symbol);
    }
    if (found || (has_tiles && header_mentions(b->k, symbol))) return true;
  }
  return false;
}

/* Whether an earlier op sets the symbol in the loop over tiles, or names what it was, and would come after this one. */
static bool is_needed_inside(const PersistBody *b, const Op *op) {
  const char *symbol = sym_name(op_attr(op, ATTR_symbol)->sym);
  for (const Op *before = op->prev; before; before = before->prev) {
    if (b->stays[before->id]) continue;
    const Attr *set = op_attr(before, ATTR_symbol);
    if ((set && strcmp(sym_name(set->sym), symbol) == 0) || op_mentions(b, before, symbol))
      return true;
  }
  return false;
}

static bool may_stay(const PersistBody *b, const Op *op) {
  bool sets = op->kind == OP_set_symbol;
  if (op->kind == OP_alloc) return true;
  if ((!sets && !is_number(op)) || (sets && is_needed_inside(b, op))) return false;
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->def && !b->stays[op->args[i]->def->id]) return false;
  return !op_has_sym(b->k, op, (SymSearch){does_differ, b, false});
}

PersistBody persist_body(Kernel *k, Arena *scratch) {
  PersistBody b = {.k = k, .stays = ARENA_ARRAY(scratch, bool, k->nops)};
  for (const Op *op = k->body->first; op; op = op->next) {
    b.stays[op->id] = may_stay(&b, op);
    if (op->kind == OP_set_symbol && !b.stays[op->id])
      vec_push(scratch, &b.differ, op_attr(op, ATTR_version)->sym);
  }
  return b;
}

const Sym *persist_set_values(const PersistBody *b, const Sym *e) {
  for (const Op *op = b->k->body->last; op && e; op = op->prev) {
    const Op *number = op->kind == OP_set_symbol ? op->args[0]->def : NULL;
    const Attr *value = number && number->kind == OP_scalar ? op_attr(number, ATTR_value) : NULL;
    if (!value || !value->sym) continue;
    SymBinding to = {op_attr(op, ATTR_version)->sym, value->sym};
    e = sym_subst(b->k->cx->sym, e, &to, 1);
  }
  return e;
}

/* ---- rewriting ---- */

typedef struct Ids {
  SymCtx *sym;
  SymBinding to[2 * WORKGROUP_DIMS];
} Ids;

static const Sym *rename(void *user, const Sym *s) {
  Ids *ids = user;
  return s ? sym_subst(ids->sym, s, ids->to, WV_LEN(ids->to)) : s;
}

void persist_rename_ids(const PersistBody *b, const Sym *const ids[WORKGROUP_DIMS], int rows) {
  Kernel *k = b->k;
  Ids of = {.sym = k->cx->sym};
  for (int i = 0; i < WORKGROUP_DIMS; i++)
    for (int nonneg = 0; nonneg < 2; nonneg++)
      of.to[2 * i + nonneg] = (SymBinding){ir_numbered_symbol(k->cx, "$WG", i, nonneg), ids[i]};
  for (Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nattrs; i++) attr_rewrite(k, &op->attrs[i], rename, &of);
  for (int i = 0; i < rows; i++) {
    Constraint *c = &k->constraints.at[i], old = *c;
    if (c->kind == CONSTRAINT_reorder) continue;
    constraint_rewrite(k, c, rename, &of);
    /* Ids in these become those of the tile anyway (distribute.c). */
    if (c->kind == CONSTRAINT_workgroup) c->workgroup.start = old.workgroup.start;
    if (c->kind == CONSTRAINT_tile) c->tile.start = old.tile.start;
  }
}

Op *persist_enclose(const PersistBody *b, const Sym *axis) {
  Kernel *k = b->k;
  Op *outer = ir_op_new(k, OP_for, k->at, NULL, 0);
  op_set_attr(k, outer, (Attr){.key = ATTR_axis, .sym = axis});
  Region *body = ir_region_new(k, outer);
  for (Op *op = k->body->first, *next; op; op = next) {
    next = op->next;
    if (b->stays[op->id]) continue;
    ir_remove(op);
    ir_append(body, op);
  }
  ir_append(body, ir_op_new(k, OP_yield, k->at, NULL, 0));
  ir_append(k->body, outer);
  return outer;
}

/* ---- loops of different length ---- */

static Op *new_number(Kernel *k, Op *before, OpKind kind) {
  return ir_insert(k, before, kind, k->at, NULL, 0, type_scalar(k->cx, DTYPE_i64));
}

/* The loop over tiles again, with a number that it carries from `first` on; returns it inside. */
static Value *carry_number(Kernel *k, Op **tiles, Value *first) {
  Op *old = *tiles, *made = ir_op_new(k, OP_for, old->at, &first, 1);
  made->attrs = old->attrs, made->nattrs = old->nattrs;
  ir_set_results(k, made, &first->type, 1);
  made->body = old->body;
  made->body->owner = made;
  ir_insert_before(old, made);
  ir_remove(old);
  *tiles = made;
  return ir_add_arg(k, made->body, first->type, NULL);
}

static void set_types(Kernel *k, const Op *loop, Op *around) {
  const Type **types = ARENA_ARRAY(k->arena, const Type *, loop->nresults + 1);
  for (int i = 0; i < loop->nresults; i++) types[i] = loop->results[i].type;
  ir_set_results(k, around, types, loop->nresults);
}

static void look_like(Kernel *k, const Value *v, Value *like) {
  like->name = v->name, like->varying = v->varying;
  ir_set_layout(k, like, v->layout);
}

/* The loop inside a conditional that has its results, or what it would begin with. */
static void put_under(Kernel *k, Op *loop, const Sym *condition) {
  Op *test = ir_op_new(k, OP_if, loop->at, loop->args, loop->nargs);
  Value **results = ARENA_ARRAY(k->arena, Value *, loop->nresults + 1);
  op_set_attr(k, test, (Attr){.key = ATTR_expr, .sym = condition});
  set_types(k, loop, test);
  Region *body = ir_region_new(k, test);
  for (int i = 0; i < loop->nresults; i++) {
    const Value *v = results[i] = &loop->results[i];
    look_like(k, v, &test->results[i]);
    look_like(k, v, ir_add_arg(k, body, v->type, NULL));
    ir_replace_uses(k, v, &test->results[i]);
  }
  ir_insert_before(loop, test);
  ir_remove(loop);
  ir_append(body, loop);
  ir_append(body, ir_op_new(k, OP_yield, loop->at, results, loop->nresults));
}

void persist_count_runs(const PersistBody *b, Op *tiles, Op *loop, const Sym *trips) {
  Kernel *k = b->k;
  SymCtx *sym = k->cx->sym;
  const Sym *symbol = sym_symbol(sym, "$RUN", true), *version = sym_symbol(sym, "$RUN.2", true);
  Op *none = new_number(k, tiles, OP_scalar);
  op_set_attr(k, none, (Attr){.key = ATTR_value, .sym = sym_int(sym, 0)});
  Value *before = carry_number(k, &tiles, &none->results[0]);
  Op *set = ir_insert(k, tiles->body->first, OP_set_symbol, k->at, &before, 1, NULL);
  op_set_attr(k, set, (Attr){.key = ATTR_symbol, .sym = symbol});
  op_set_attr(k, set, (Attr){.key = ATTR_version, .sym = version});
  op_set_attr(k, loop, (Attr){.key = ATTR_earlier, .sym = version});
  Op *runs = new_number(k, loop->next, OP_runs); /* symbols are set as they are at the loop */
  op_set_attr(k, runs, *op_attr(loop, ATTR_axis));
  if (op_has(loop, ATTR_step)) op_set_attr(k, runs, *op_attr(loop, ATTR_step));
  op_set_attr(k, runs, (Attr){.key = ATTR_earlier, .sym = version});
  ir_add_operand(k, tiles->body->last, &runs->results[0]);
  put_under(k, loop, sym_le(sym, sym_int(sym, 1), trips));
}
