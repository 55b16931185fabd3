/* motion.c: see motion.h. */
#include "analysis/motion.h"

#include "ir/dtype.h"
#include "ir/ops/access.h"

/* ---- failing ---- */
bool expr_may_fail(SymCtx *cx, const SymFacts *f, const Sym *e) {
  int64_t number, exponent;
  const Sym *by = NULL;
  if (sym_kind(e) == SYM_mod) by = sym_arg(cx, e, 1);
  if (sym_kind(e) == SYM_pow && sym_is_int(sym_arg(cx, e, 1), &exponent) && exponent < 0)
    by = sym_arg(cx, e, 0);
  if (by && !sym_is_int(by, &number) && !sym_proves(cx, f, sym_ge(cx, by, sym_int(cx, 1))))
    return true;
  for (int i = 0; i < sym_nargs(e); i++)
    if (expr_may_fail(cx, f, sym_arg(cx, e, i))) return true;
  return false;
}

/* Whether v is a constant other than 0, the same in all registers. */
static bool is_constant_but_zero(const Value *v) {
  const Op *def = v->def;
  if (def && def->kind == OP_splat) def = def->args[0]->def;
  const Attr *a = def && def->kind == OP_scalar ? op_attr(def, ATTR_value) : NULL;
  int64_t number;
  return a && a->sym && sym_is_int(a->sym, &number) && number != 0;
}

bool op_may_fail(Kernel *k, const SymFacts *f, const Op *op) {
  const Attr *e = op_attr(op, ATTR_expr);
  if (e && e->sym) return expr_may_fail(k->cx->sym, f, e->sym);
  if (op->kind != OP_div && op->kind != OP_mod && op->kind != OP_floordiv) return false;
  return !dtype_is_float(op->args[1]->type->dtype) && !is_constant_but_zero(op->args[1]);
}

/* ---- symbols that get a value in a region ---- */

RegionSymbols *region_symbols(Kernel *k, Arena *a, const Region *r) {
  RegionSymbols *s = ARENA_NEW(a, RegionSymbols);
  const Attr *axis = r->owner ? op_attr(r->owner, ATTR_axis) : NULL;
  const Attr *version = r->owner ? op_attr(r->owner, ATTR_version) : NULL;
  if (axis) vec_push(a, &s->at, ir_loop_counter(k, axis->sym));
  if (axis && r->owner->kind == OP_while) vec_push(a, &s->at, axis->sym);
  if (version) vec_push(a, &s->at, version->sym);
  for (const Op *op = r->first; op; op = op->next) {
    if (op->kind != OP_set_symbol) continue;
    vec_push(a, &s->at, op_attr(op, ATTR_version)->sym);
    vec_push(a, &s->at, op_attr(op, ATTR_symbol)->sym);
  }
  return s;
}

static bool is_among(const RegionSymbols *s, const Sym *symbol) {
  for (int i = 0; i < s->at.n; i++)
    if (sym_same_name(s->at.at[i], symbol)) return true;
  return false;
}

bool expr_is_tied(const Sym *e, const RegionSymbols *s) {
  const Sym *symbols[32];
  int n = e ? sym_free_symbols(e, symbols, (int)WV_LEN(symbols)) : 0;
  if (n > (int)WV_LEN(symbols)) return true;
  for (int i = 0; i < n; i++)
    if (is_among(s, symbols[i])) return true;
  return false;
}

bool motion_is_plain(AttrKind kind) {
  switch (kind) {
  case ATTR_KIND_INT:
  case ATTR_KIND_INTS:
  case ATTR_KIND_FLAG:
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD:
  case ATTR_KIND_TEXTS:
  case ATTR_KIND_MMA:
  case ATTR_KIND_COUNTS:
  case ATTR_KIND_STEPS:
  case ATTR_KIND_MEMORY:
  case ATTR_KIND_DESCRIPTOR: return true;
  case ATTR_KIND_NUMBER:
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM:
  case ATTR_KIND_EXPRS:
  case ATTR_KIND_BOUNDS:
  case ATTR_KIND_MAPPING:
  case ATTR_KIND_ITERS: return false;
  }
  return false;
}

static bool attr_is_tied(const Attr *a, const RegionSymbols *s) {
  AttrKind kind = attr_info[a->key].kind;
  bool tied = false;
  if (kind == ATTR_KIND_NUMBER || kind == ATTR_KIND_EXPR || kind == ATTR_KIND_DIM)
    return expr_is_tied(a->sym, s);
  if (kind != ATTR_KIND_EXPRS) return !motion_is_plain(kind); /* the others: tiles only */
  for (int i = 0; !tied && i < a->n; i++) tied = expr_is_tied(a->exprs[i], s);
  return tied;
}

bool op_is_tied(const Op *op, const RegionSymbols *symbols) {
  if (op->body) return true;
  for (int i = 0; symbols->at.n && i < op->nattrs; i++)
    if (attr_is_tied(&op->attrs[i], symbols)) return true;
  return false;
}

/* ---- memory ---- */

/* Copies only read one of the memories they name. */
static bool only_reads(const Op *op, int arg) {
  if (op->kind == OP_copy_async) return arg == 2;
  if (op->kind == OP_tma_load) return arg == 4;
  return op->kind == OP_tma_store && arg == 0;
}

const bool *find_written(Kernel *k, Arena *a) {
  bool *written = ARENA_ARRAY(a, bool, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; (op_info[op->kind].flags & OPF_WRITES) && i < op->nargs; i++)
      if (op->args[i]->type->kind == TYPE_mem && !only_reads(op, i))
        written[memory_root(op->args[i])->id] = true;
  return written;
}

bool motion_is_invariant_load(const Op *op, const bool *written) {
  return op->kind == OP_load && !op_has(op, ATTR_volatile) && !memory_is_scratch(op->args[0]) &&
         !written[memory_root(op->args[0])->id];
}

static bool mask_names(const Op *op, const Sym *counter) {
  const Attr *mask = op_attr(op, ATTR_mask);
  for (int i = 0; mask && i < mask->n; i++)
    if (sym_contains(mask->exprs[i], counter)) return true;
  return false;
}

bool motion_is_fixed_read(Kernel *k, const Op *loop, const bool *written, const Op *op) {
  if (op->kind != OP_read || op->nargs > 1 || op_has(op, ATTR_volatile)) return false;
  const Value *from = op->args[0];
  if (from->owner != k->body || memory_is_scratch(from) || written[memory_root(from)->id])
    return false;
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  return op_same_outside(k, op, loop->body) && !mask_names(op, counter);
}
