/* edit.c: making, linking and removing ops. No rule of the language is checked here; that
 * is the job of the builder and the verifier. */
#include <stdio.h>
#include <string.h>

#include "ir/attr.h"

static void free_kernel(void *k) { kernel_free(k); }

Kernel *kernel_new(Context *cx, const char *name, Span at) {
  Arena *arena = arena_new();
  Kernel *k = ARENA_NEW(arena, Kernel);
  *k = (Kernel){.cx = cx, .arena = arena, .name = intern(&cx->names, name), .at = at};
  arena_owner(arena, free_kernel, k);
  k->level = LEVEL_TILE;
  k->body = ir_region_new(k, NULL);
  return k;
}

void kernel_free(Kernel *k) {
  if (!k) return;
  arena_free(k->proofs);
  arena_free(k->arena);
}

const SymFacts *kernel_facts(Kernel *k) {
  if (k->facts) return k->facts;
  k->proofs = arena_owned(arena_new());
  return k->facts = sym_facts_lasting(k->proofs, k->cx->sym);
}

Value *kernel_add_param(Kernel *k, const char *name, const Type *type, const Sym *binds, Span at) {
  name = intern(&k->cx->names, name);
  vec_push(k->arena, &k->params, ((Param){.name = name, .binds = binds, .at = at}));
  return ir_add_arg(k, k->body, type, name);
}

void kernel_set_log(Kernel *k, const Value *param, const char *label) {
  k->params.at[param->index].log = intern(&k->cx->names, label);
}

Value *kernel_logged(const Kernel *k, const char *label) {
  for (int i = 0; i < k->params.n; i++)
    if (k->params.at[i].log && strcmp(k->params.at[i].log, label) == 0) return k->body->args[i];
  return NULL;
}

void kernel_set_report(Kernel *k, const Value *param, const char *text) {
  k->params.at[param->index].report = intern(&k->cx->names, text);
}

const Value *kernel_report(const Kernel *k) {
  for (int i = kernel_given(k); i < k->params.n; i++)
    if (k->params.at[i].report) return k->body->args[i];
  return NULL;
}

static bool is_given(const Param *p) { return !p->log && !p->workspace && !p->report; }

int kernel_given(const Kernel *k) {
  int n = k->params.n;
  while (n && !is_given(&k->params.at[n - 1])) n--;
  return n;
}

bool kernel_has_param(const Kernel *k, const char *name) {
  for (int i = 0; i < k->params.n; i++)
    if (strcmp(k->params.at[i].name, name) == 0) return true;
  return false;
}

Op *ir_op_new(Kernel *k, OpKind kind, Span at, Value *const *args, int nargs) {
  Op *op = ARENA_NEW(k->arena, Op);
  *op = (Op){.kind = kind, .id = k->nops++, .at = at, .nargs = nargs};
  op->args = arena_copy(k->arena, args, sizeof(Value *) * (size_t)nargs);
  return op;
}

void ir_set_results(Kernel *k, Op *op, const Type *const *types, int n) {
  op->results = ARENA_ARRAY(k->arena, Value, n);
  op->nresults = n;
  for (int i = 0; i < n; i++)
    op->results[i] = (Value){.type = types[i], .def = op, .index = i, .id = k->nvalues++};
}

Value *ir_add_arg(Kernel *k, Region *r, const Type *type, const char *name) {
  Value *v = ARENA_NEW(k->arena, Value);
  *v = (Value){.type = type, .owner = r, .index = r->nargs, .id = k->nvalues++, .name = name};
  Value **args = ARENA_ARRAY(k->arena, Value *, r->nargs + 1);
  if (r->nargs) memcpy(args, r->args, sizeof(Value *) * (size_t)r->nargs);
  args[r->nargs++] = v;
  r->args = args;
  return v;
}

void ir_add_operand(Kernel *k, Op *op, Value *v) {
  Value **args = ARENA_ARRAY(k->arena, Value *, op->nargs + 1);
  for (int i = 0; i < op->nargs; i++) args[i] = op->args[i];
  args[op->nargs++] = v;
  op->args = args;
}

Region *ir_region_new(Kernel *k, Op *owner) {
  Region *r = ARENA_NEW(k->arena, Region);
  r->owner = owner;
  if (owner) owner->body = r;
  return r;
}

void ir_append(Region *r, Op *op) {
  op->parent = r;
  op->prev = r->last;
  op->next = NULL;
  if (r->last) r->last->next = op;
  else r->first = op;
  r->last = op;
}

void ir_insert_before(Op *where, Op *op) {
  op->parent = where->parent;
  op->prev = where->prev;
  op->next = where;
  if (where->prev) where->prev->next = op;
  else where->parent->first = op;
  where->prev = op;
}

void ir_insert_after(Op *where, Op *op) {
  if (where->next) ir_insert_before(where->next, op);
  else ir_append(where->parent, op);
}

Op *ir_insert(Kernel *k, Op *before, OpKind kind, Span at, Value *const *args, int nargs,
              const Type *type) {
  Op *op = ir_op_new(k, kind, at, args, nargs);
  if (type) ir_set_results(k, op, &type, 1);
  ir_insert_before(before, op);
  return op;
}

void ir_remove(Op *op) {
  if (op->prev) op->prev->next = op->next;
  else op->parent->first = op->next;
  if (op->next) op->next->prev = op->prev;
  else op->parent->last = op->prev;
  op->prev = op->next = NULL;
  op->parent = NULL;
}

Op *ir_first(const Kernel *k) { return k->body->first; }

Op *ir_next(const Op *op) {
  if (op->body && op->body->first) return op->body->first;
  while (op && !op->next) op = op->parent->owner;
  return op ? op->next : NULL;
}

void op_rename_args(Op *op, Value *const *to) {
  for (int i = 0; i < op->nargs; i++)
    if (to[op->args[i]->id]) op->args[i] = to[op->args[i]->id];
}

bool op_takes(const Op *op, const Value *v) {
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i] == v) return true;
  return false;
}

bool op_is_inside(const Op *op, const Op *outer) {
  while (op && op != outer) op = op->parent->owner;
  return op != NULL;
}

bool value_is_used(const Kernel *k, const Value *v) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_takes(op, v)) return true;
  return false;
}

int ir_count_uses(const Region *r, const Value *v) {
  int n = 0;
  for (const Op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->nargs; i++) n += op->args[i] == v;
    if (op->body) n += ir_count_uses(op->body, v);
  }
  return n;
}

bool value_is_zero(const Value *v) {
  const Attr *value = v->def && v->def->kind == OP_fill ? op_attr(v->def, ATTR_value) : NULL;
  int64_t n;
  if (!value) return false;
  return value->sym ? sym_is_int(value->sym, &n) && n == 0 : value->number == 0;
}

void ir_replace_uses(Kernel *k, const Value *from, Value *to) {
  for (Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i] == from) op->args[i] = to;
}

static void renumber_args(Kernel *k, Region *r) {
  for (int i = 0; i < r->nargs; i++) r->args[i]->id = k->nvalues++;
}

void ir_renumber(Kernel *k) {
  k->nops = k->nvalues = 0;
  renumber_args(k, k->body);
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    op->id = k->nops++;
    for (int i = 0; i < op->nresults; i++) op->results[i].id = k->nvalues++;
    if (op->body) renumber_args(k, op->body);
  }
}

void ir_set_layout(Kernel *k, Value *v, const Layout *l) {
  v->layout = NULL;
  if (!l) return;
  Layout *own = arena_copy(k->arena, l, sizeof *l);
  layout_normalise(own);
  v->layout = own;
}

const Attr *op_attr(const Op *op, AttrKey key) {
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key == key) return &op->attrs[i];
  return NULL;
}

void op_drop_attr(Op *op, AttrKey key) {
  int kept = 0;
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key != key) op->attrs[kept++] = op->attrs[i];
  op->nattrs = kept;
}

void op_set_attr(Kernel *k, Op *op, Attr attr) {
  op_drop_attr(op, attr.key);
  Attr *attrs = ARENA_ARRAY(k->arena, Attr, op->nattrs + 1);
  int n = 0;
  for (; n < op->nattrs && op->attrs[n].key < attr.key; n++) attrs[n] = op->attrs[n];
  attrs[n] = attr;
  for (; n < op->nattrs; n++) attrs[n + 1] = op->attrs[n];
  op->attrs = attrs;
  op->nattrs++;
}

int64_t op_step(const Op *op) {
  const Attr *step = op_attr(op, ATTR_step);
  return step ? step->integer : 1;
}

const Sym *op_iterations(const Kernel *k, const Op *loop, const Sym *trips) {
  SymCtx *cx = k->cx->sym;
  return sym_ceil(cx, sym_mul(cx, trips, sym_rational(cx, 1, op_step(loop))));
}

bool op_iterations_apart(const Kernel *k, const Op *loop, const Sym *from, const Sym *to, int *n) {
  int64_t by, step = op_step(loop);
  const Sym *apart = sym_sub(k->cx->sym, to, from);
  if (!apart || !sym_is_int(apart, &by) || by % step || by / step != (int)(by / step)) return false;
  *n = (int)(by / step);
  return true;
}

int op_carried(const Op *op) {
  switch (op->kind) {
  case OP_for: return op_has(op, ATTR_from) ? 1 : 0;
  case OP_while: return 1;
  case OP_if: return op_has(op, ATTR_expr) ? 0 : 1;
  default: return 0;
  }
}

Value *op_condition(const Op *op) {
  return op->kind == OP_if && !op_has(op, ATTR_expr) ? op->args[0] : NULL;
}

/* ---- the header ---- */

const Constraint *kernel_next_row(const Kernel *k, ConstraintKind kind, const Constraint *c) {
  for (int i = c ? (int)(c - k->constraints.at) + 1 : 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == kind) return &k->constraints.at[i];
  return NULL;
}

const Constraint *kernel_constraint(const Kernel *k, ConstraintKind kind, const Sym *subject) {
  const Constraint *c = NULL;
  while ((c = kernel_next_row(k, kind, c)) && subject && c->subject != subject) {
  }
  return c;
}

const HardwareSpec *kernel_hardware(const Kernel *k) {
  const Constraint *c = kernel_constraint(k, CONSTRAINT_hardware, NULL);
  return c ? &c->hardware : NULL;
}

const Constraint *kernel_persistent(const Kernel *k) {
  const Constraint *c = kernel_constraint(k, CONSTRAINT_persist, NULL);
  return c && c->persist.loop ? c : NULL;
}

int kernel_split_axis(const Kernel *k, int *workgroups) {
  int64_t parts = 1;
  const Constraint *c = kernel_constraint(k, CONSTRAINT_split, NULL), *row = NULL;
  if (c && c->split.ranks) row = kernel_constraint(k, CONSTRAINT_workgroup, c->split.ranks);
  if (!row || !sym_is_int(c->split.parts, &parts)) return -1;
  *workgroups = (int)parts;
  return row->workgroup.axis;
}

const MachineSpec *kernel_machine(const Kernel *k) {
  const Constraint *c = kernel_constraint(k, CONSTRAINT_machine, NULL);
  return c ? &c->machine : NULL;
}

const LaunchSpec *kernel_launch(const Kernel *k) {
  const Constraint *c = kernel_constraint(k, CONSTRAINT_launch, NULL);
  return c ? &c->launch : NULL;
}

const Sym *kernel_expected(const Kernel *k, const Sym *e) {
  SymCtx *sym = k->cx->sym;
  EACH_ROW(k, expect, c) {
    const char *name = sym_name(c->expect.symbol);
    for (int nonneg = 0; nonneg < 2 && e; nonneg++) {
      SymBinding to = {sym_symbol(sym, name, nonneg), c->expect.value};
      if (sym_contains(e, to.from)) e = sym_subst(sym, e, &to, 1);
    }
  }
  if (!e) sym_take_error(sym);
  return e;
}

const Constraint *kernel_wave_tile(const Kernel *k, const Sym *dim) {
  const Constraint *group = kernel_constraint(k, CONSTRAINT_workgroup, dim);
  return group ? group : kernel_constraint(k, CONSTRAINT_tile, dim);
}

int kernel_wave_axis(const Kernel *k, const Sym *dim) {
  unsigned taken = 0;
  for (int loops = 0; loops < 2; loops++) /* workgroup rows come first */
    EACH_ROW(k, wave, wave) {
      const Constraint *tile = kernel_wave_tile(k, wave->wave.dim);
      if (!tile || (tile->kind == CONSTRAINT_tile) != loops) continue;
      int axis = loops ? 0 : tile->workgroup.axis;
      while (loops && axis < 3 && taken >> axis & 1) axis++;
      if (wave->wave.dim == dim) return axis;
      taken |= 1u << axis;
    }
  return -1;
}

bool ir_is_cluster(const Sym *const cluster[3]) {
  int64_t n;
  for (int i = 0; i < 3; i++)
    if (cluster[i] && !(sym_is_int(cluster[i], &n) && n == 1)) return true;
  return false;
}

int launch_threads(const LaunchSpec *launch) {
  enum { MOST = 1 << 16 };
  int64_t all = 1;
  for (int i = 0; i < 3; i++) {
    int64_t n;
    if (!launch->block[i] || !sym_is_int(launch->block[i], &n) || n < 1 || n > MOST) return 0;
    all *= n;
    if (all > MOST) return 0;
  }
  return (int)all;
}

DivisionRow kernel_division_row(const Kernel *k, const Constraint *c) {
  DivisionRow row = {.kind = c->kind, .at = c->at, .dim = c->divided.dim, .loop = c->divided.dim};
  row.size = c->divided.size ? c->divided.size : sym_int(k->cx->sym, 1);
  if (c->kind == CONSTRAINT_tile) {
    row.start = c->tile.start;
    row.count = c->tile.count;
  } else {
    row.start = c->workgroup.start;
    row.count = c->workgroup.count;
    row.axis = c->workgroup.axis;
    row.secondary = c->workgroup.secondary;
  }
  return row;
}

const Sym *ir_param_symbol(const Kernel *k, int param, const char *what, int dim) {
  char name[256];
  const char *of = k->params.at[param].name;
  if (dim < 0) snprintf(name, sizeof name, "$%s_%s", what, of);
  else snprintf(name, sizeof name, "$%s_%s_%d", what, of, dim);
  return sym_symbol(k->cx->sym, name, true);
}

const Sym *ir_numbered_symbol(Context *cx, const char *prefix, int i, bool nonneg) {
  return sym_numbered(cx->sym, prefix, i, nonneg);
}

const Sym *ir_loop_counter(Kernel *k, const Sym *axis) {
  const Constraint *tile = kernel_constraint(k, CONSTRAINT_tile, axis);
  if (tile && tile->tile.counter) return tile->tile.counter;
  for (int i = 0; i < k->counters.n; i++)
    if (k->counters.at[i].from == axis) return k->counters.at[i].to;
  StrBuf name = {.arena = k->arena};
  sb_puts(&name, "$ARG");
  sym_print(&name, axis);
  const Sym *counter = sym_symbol(k->cx->sym, sb_text(&name), true);
  vec_push(k->arena, &k->counters, ((SymBinding){axis, counter}));
  return counter;
}

const Sym *ir_iter_arg(Context *cx, int i) { return ir_numbered_symbol(cx, WV_ITER_ARG, i, false); }

const Sym *ir_alias_of(Context *cx, const Constraint *alias, const Sym *x) {
  SymBinding to[2] = {{sym_symbol(cx->sym, "$ALIAS", true), x},
                      {sym_symbol(cx->sym, "$ALIAS", false), x}};
  return sym_subst(cx->sym, alias->alias.rule, to, 2);
}

bool ir_alias_row(Context *cx, const Constraint *alias, DivisionRow *row) {
  if (row->dim != alias->alias.of) return false;
  row->dim = alias->alias.dim;
  row->size = ir_alias_of(cx, alias, row->size);
  if (row->kind == CONSTRAINT_workgroup) row->start = NULL;
  else if (row->start) row->start = ir_alias_of(cx, alias, row->start);
  return row->secondary = true;
}

static bool has_own_size(const Kernel *k, const Sym *dim) {
  if (kernel_constraint(k, CONSTRAINT_bind, dim) || kernel_constraint(k, CONSTRAINT_dynamic, dim))
    return true;
  for (int i = 0; i < k->params.n; i++)
    if (k->params.at[i].binds == dim || type_has_dim(k->body->args[i]->type, dim)) return true;
  return false;
}

int kernel_bindings(const Kernel *k, SymBinding *out) {
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_bind) out[n++] = (SymBinding){c->bind.symbol, c->bind.value};
    if (c->kind == CONSTRAINT_alias && sym_kind(c->alias.dim) == SYM_symbol &&
        !has_own_size(k, c->alias.dim))
      out[n++] = (SymBinding){c->alias.dim, ir_alias_of(k->cx, c, c->alias.of)};
  }
  return n;
}
