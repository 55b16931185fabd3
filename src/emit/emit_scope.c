/* emit_scope.c: regions of the program that is emitted, its arguments and its header. */
#include "emit/emit.h"

bool emit_refuse(Lower *l, const Op *op, const char *what) {
  return diag_fail(&l->k->cx->diags, DIAG_E0601, op->at, "`%s`: %s is not supported yet",
                   op_info[op->kind].name, what);
}

/* ---- scopes ---- */
LowerScope *emit_open_scope(Lower *l, Region *region, const SymFacts *facts) {
  LowerScope *s = ARENA_NEW(l->arena, LowerScope);
  *s = (LowerScope){.region = region, .facts = facts, .outer = l->scope};
  if (l->scope) l->scope->open = region->owner;
  return l->scope = s;
}

void emit_close_scope(Lower *l) {
  while (l->symbols.n && l->symbols.at[l->symbols.n - 1].scope == l->scope) l->symbols.n--;
  l->scope = l->scope->outer;
  if (l->scope) l->scope->open = NULL;
}

/* The region that was closed last, if nothing has been emitted since. */
static Op *reopened(const Lower *l, const Sym *condition) {
  Op *last = l->scope->region->last;
  if (!last || last->kind != OP_if || last->nargs || op_attr(last, ATTR_expr)->sym != condition)
    return NULL;
  ir_remove(last->body->last);
  return last;
}

void emit_open_if(Lower *l, const Sym *condition) {
  Op *op = reopened(l, condition);
  if (!op) {
    op = ir_op_new(l->k, OP_if, l->at, NULL, 0);
    op_set_attr(l->k, op, (Attr){.key = ATTR_expr, .sym = condition});
    ir_append(l->scope->region, op);
    ir_region_new(l->k, op);
  }
  emit_open_scope(l, op->body, l->scope->facts);
}

void emit_open_if_true(Lower *l, Value *condition) {
  Op *op = ir_op_new(l->k, OP_if, l->at, &condition, 1);
  ir_append(l->scope->region, op);
  emit_open_scope(l, ir_region_new(l->k, op), l->scope->facts);
}

void emit_close_if(Lower *l) {
  emit_op(l, OP_yield, NULL, 0, NULL, 0, NULL);
  emit_close_scope(l);
}

void emit_define(Lower *l, const Sym *symbol) {
  vec_push(l->arena, &l->symbols, ((LowerSymbol){symbol, l->scope}));
}

/* ---- the kernel ---- */

/* A value that is the same for all threads of a launch. */
static bool is_of_launch(Lower *l, const Sym *s) {
  FreeSymbols symbols = sym_symbols(l->arena, s);
  for (int i = 0; i < symbols.n; i++)
    if (sym_name(symbols.at[i])[0] == '$') return false;
  return true;
}

/* Rows that say something about arguments, or how code is to be generated. */
static bool stays(ConstraintKind kind) {
  return kind == CONSTRAINT_assume || kind == CONSTRAINT_dynamic || kind == CONSTRAINT_view ||
         kind == CONSTRAINT_occupancy || kind == CONSTRAINT_subnormals ||
         kind == CONSTRAINT_buffers || kind == CONSTRAINT_again;
}

/* The others, and bindings to what differs between threads, have been substituted into the
 * expressions. */
void emit_replace_header(Lower *l, Constraint launch) {
  int n = 0;
  for (int i = 0; i < l->k->constraints.n; i++) {
    const Constraint *c = &l->k->constraints.at[i];
    ConstraintKind kind = c->kind;
    bool binds = kind == CONSTRAINT_bind && is_of_launch(l, distribute_fixed(l->d, c->bind.value));
    if (binds || stays(kind)) l->k->constraints.at[n++] = l->k->constraints.at[i];
  }
  l->k->constraints.n = n;
  vec_push(l->k->arena, &l->k->constraints, launch);
}

/* Arguments are in global memory, whatever was requested for their tiles. */
static const Type *param_type(const Lower *l, const Type *t) {
  if (t->kind != TYPE_mem) return t;
  return type_mem(l->k->cx, t->dims, t->rank, t->dtype, l->k->cx->global_space, t->layout);
}

void emit_open_kernel(Lower *l) {
  Region *from = l->k->body, *body = ir_region_new(l->k, NULL);
  for (int i = 0; i < from->nargs; i++) {
    const Value *v = from->args[i];
    l->value[v->id] = ir_add_arg(l->k, body, param_type(l, v->type), v->name);
  }
  emit_open_scope(l, body, l->standing.facts);
}
