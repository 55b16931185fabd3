/* clone.c: copies of ops and kernels, in the same context or in another one.
 *
 * A copy shares nothing with the original except what the context interns. In another context
 * expressions, types, names and source locations are interned again, so that the original's context
 * may be freed. The original is only read: its context may belong to another thread. */
#include "ir/attr.h"

/* What moves to another context, and has moved already. */
typedef struct Move {
  const Context *from;
  Context *to;
  SymCopies syms;
  Map types;       /* original -> copy */
  uint32_t *files; /* by file of `from`: its number in `to` + 1; 0: not there yet */
} Move;

typedef struct Clone {
  Kernel *to;
  Value **map; /* by value id of the original: its copy; NULL: not copied, the value itself */
  Move *move;  /* NULL: within one context */
} Clone;

/* ---- interned things ---- */

static const Sym *move_sym(void *user, const Sym *s) {
  Move *m = user;
  return sym_copy_with(&m->syms, s);
}

static const Sym *const *move_syms(Move *m, const Sym *const *syms, int n, const Sym **out) {
  for (int i = 0; syms && i < n; i++) out[i] = move_sym(m, syms[i]);
  return syms ? out : NULL;
}

static const Type *new_type(Move *m, const Type *t) {
  const Sym *dims[IR_MAX_RANK], *layout[IR_MAX_RANK];
  move_syms(m, t->dims, t->rank, dims);
  switch (t->kind) {
  case TYPE_scalar: return type_scalar(m->to, t->dtype);
  case TYPE_vec: return type_vec(m->to, t->n, t->dtype);
  case TYPE_tile: return type_tile(m->to, dims, t->rank, t->dtype);
  case TYPE_mem:
    return type_mem(m->to, dims, t->rank, t->dtype, move_sym(m, t->space),
                    move_syms(m, t->layout, t->rank, layout));
  case TYPE_token: return type_token(m->to);
  }
  WV_BUG("unknown kind of type");
}

static const Type *clone_type(const Clone *c, const Type *t) {
  if (!c->move) return t;
  const Type *copy = map_get(&c->move->types, map_key(t));
  if (copy) return copy;
  copy = new_type(c->move, t);
  map_set(c->move->syms.arena, &c->move->types, map_key(t), (void *)(uintptr_t)copy);
  return copy;
}

static const char *clone_name(const Clone *c, const char *name) {
  return name ? intern(&c->to->cx->names, name) : NULL;
}

static Span clone_span(const Clone *c, Span at) {
  Move *m = c->move;
  if (!m) return at;
  if (!at.file || at.file > (uint32_t)m->from->sources.files.n) return (Span){0};
  uint32_t *file = &m->files[at.file];
  if (!*file) {
    const SourceFile *f = &m->from->sources.files.at[at.file - 1];
    *file = 1 + sources_file(&m->to->sources, f->name, f->given ? f->text : NULL);
  }
  at.file = *file - 1;
  return at;
}

/* ---- ops ---- */

static Attr clone_attr(const Clone *c, const Attr *a) {
  Attr copy = attr_copy(c->to, a);
  if (c->move) attr_rewrite_all(c->to, &copy, move_sym, c->move);
  return copy;
}

static void clone_value(const Clone *c, Value *to, const Value *from) {
  to->type = clone_type(c, from->type);
  to->name = clone_name(c, from->name);
  to->varying = from->varying;
  ir_set_layout(c->to, to, from->layout);
  c->map[from->id] = to;
}

static void clone_results(const Clone *c, Op *to, const Op *from) {
  to->results = ARENA_ARRAY(c->to->arena, Value, from->nresults);
  to->nresults = from->nresults;
  for (int i = 0; i < from->nresults; i++) {
    to->results[i] = (Value){.def = to, .index = i, .id = c->to->nvalues++};
    clone_value(c, &to->results[i], &from->results[i]);
  }
}

static void clone_region(const Clone *c, Region *dst, const Region *src);

static void clone_op(const Clone *c, Region *dst, const Op *op) {
  Op *copy = ir_op_new(c->to, op->kind, clone_span(c, op->at), op->args, op->nargs);
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i] && c->map[op->args[i]->id]) copy->args[i] = c->map[op->args[i]->id];
  copy->attrs = ARENA_ARRAY(c->to->arena, Attr, op->nattrs);
  copy->nattrs = op->nattrs;
  for (int i = 0; i < op->nattrs; i++) copy->attrs[i] = clone_attr(c, &op->attrs[i]);
  clone_results(c, copy, op);
  ir_append(dst, copy);
  if (op->body) clone_region(c, ir_region_new(c->to, copy), op->body);
}

static void clone_region(const Clone *c, Region *dst, const Region *src) {
  for (int i = 0; i < src->nargs; i++)
    clone_value(c, ir_add_arg(c->to, dst, NULL, NULL), src->args[i]);
  for (const Op *op = src->first; op; op = op->next) clone_op(c, dst, op);
}

void ir_clone_op(Kernel *to, Region *dst, const Op *op, Value **map) {
  clone_op(&(Clone){.to = to, .map = map}, dst, op);
}

/* ---- kernels ---- */

static Param clone_param(const Clone *c, const Param *p) {
  Param copy = *p;
  copy.name = clone_name(c, p->name);
  copy.log = clone_name(c, p->log);
  copy.report = clone_name(c, p->report);
  copy.at = clone_span(c, p->at);
  if (c->move) copy.binds = move_sym(c->move, p->binds);
  return copy;
}

static Constraint clone_constraint(const Clone *c, const Constraint *row) {
  Constraint copy = constraint_copy(c->to, row);
  copy.at = clone_span(c, row->at);
  if (c->move) constraint_rewrite_all(c->to, &copy, move_sym, c->move);
  return copy;
}

/* Into a kernel without parameters, constraints and ops. */
static void clone_into(Kernel *copy, const Kernel *k, Move *move, Arena *scratch) {
  Clone c = {.to = copy, .move = move};
  copy->at = clone_span(&c, k->at);
  copy->level = k->level;
  copy->warned = k->warned;
  for (int i = 0; i < k->params.n; i++)
    vec_push(copy->arena, &copy->params, clone_param(&c, &k->params.at[i]));
  for (int i = 0; i < k->constraints.n; i++)
    vec_push(copy->arena, &copy->constraints, clone_constraint(&c, &k->constraints.at[i]));
  c.map = ARENA_ARRAY(scratch, Value *, k->nvalues);
  clone_region(&c, copy->body, k->body);
}

Kernel *kernel_clone_to(Context *cx, const Kernel *k) {
  Arena *scratch = arena_new();
  Move move = {.from = k->cx, .to = cx, .syms = {.to = cx->sym, .arena = scratch}};
  move.files = ARENA_ARRAY(scratch, uint32_t, k->cx->sources.files.n + 1);
  Kernel *copy = kernel_new(cx, k->name, k->at);
  clone_into(copy, k, cx == k->cx ? NULL : &move, scratch);
  arena_free(scratch);
  return copy;
}

Kernel *kernel_clone(const Kernel *k) { return kernel_clone_to(k->cx, k); }

void kernel_become(Kernel *k, const Kernel *other) {
  Arena *scratch = arena_new(), *arena = k->arena;
  arena_free(k->proofs);
  *k = (Kernel){.cx = k->cx, .arena = arena, .name = k->name, .at = k->at};
  k->body = ir_region_new(k, NULL);
  clone_into(k, other, NULL, scratch);
  ir_renumber(k);
  arena_free(scratch);
}
