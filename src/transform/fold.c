/* fold: folds constants, register renamings and constant offsets, using what is known statically.
 *
 *     %1 = join %a, %b                            %2 = pick [0] %b
 *     %2 = pick [4] %1                     =>     store %2, %c, %p
 *     store %2, %c, %p                            %x = load %m, %p {imm = 8}
 *     %o = expr $APPLY_EXPR_ARG_0 + 8 %p
 *     %x = load %m, %o
 *
 * A rule looks at one op and at the definitions of its operands; the rules are in a table by kind.
 * A float identity is used only if it holds for every value: x*1, x - 0, x + -0, but not x + 0 (-0
 * would change) nor x*0 (NaN would). An expression is merged into another only in the same region,
 * so that no work moves into a loop, and only if both differ between lanes or both are uniform:
 * machines keep uniform values in scalar registers. */
#include <math.h>
#include <string.h>

#include "ir/attr.h"
#include "ir/dtype.h"
#include "transform/lane_expr.h"
#include "transform/pass.h"

typedef struct Fold {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  int *uses;      /* by value id */
  bool *shared;   /* by value id: known to be uniform over the lanes */
  Value **rename; /* by value id; NULL: itself */
} Fold;

/* NULL: nothing applies; op's own result: it was changed in place; otherwise its replacement. */
typedef Value *FoldRule(Fold *f, Op *op);

static Value *same(Op *op) { return &op->results[0]; }

static const Op *def_of(const Value *v, OpKind kind) {
  return v->def && v->def->kind == kind ? v->def : NULL;
}

/* ---- constants ---- */

typedef struct Constant {
  bool is_float;
  double f;
  int64_t i;
} Constant;

/* The constant that a scalar, or every register of a vec, is. */
static bool constant_of(const Value *v, Constant *out) {
  const Op *splat = def_of(v, OP_splat), *op = def_of(splat ? splat->args[0] : v, OP_scalar);
  if (!op) return false;
  const Attr *a = op_attr(op, ATTR_value);
  *out = (Constant){.is_float = dtype_is_float(v->type->dtype)};
  if (out->is_float) out->f = dtype_round(v->type->dtype, a->number);
  bool known = out->is_float ? !a->sym : a->sym && sym_is_int(a->sym, &out->i);
  out->i = dtype_wrap(v->type->dtype, out->i);
  return known;
}

static void change(Fold *f, Op *op, OpKind kind, Value *const *args, int n) {
  for (int i = 0; i < n; i++) f->uses[args[i]->id]++;
  for (int i = 0; i < op->nargs; i++) f->uses[op->args[i]->id]--;
  op->args = arena_copy(f->k->arena, args, sizeof(Value *) * (size_t)n);
  op->nargs = n;
  if (op->kind != kind) op->nattrs = 0;
  op->kind = kind;
}

/* Turns the op into a constant; only for a single element. */
static Value *become(Fold *f, Op *op, Constant c) {
  DType dtype = op->results[0].type->dtype;
  Attr value = {.key = ATTR_value};
  if (op->results[0].type->kind != TYPE_scalar) return NULL;
  int64_t i = dtype_wrap(dtype, c.i);
  if (i == INT64_MIN || (dtype == DTYPE_u64 && i < 0)) return NULL; /* no expression */
  if (dtype_is_float(dtype)) value.number = dtype_round(dtype, c.f);
  else value.sym = sym_int(f->sym, i);
  if (dtype_is_float(dtype) && !isfinite(value.number)) return NULL; /* text has no NaN */
  change(f, op, OP_scalar, NULL, 0);
  op_set_attr(f->k, op, value);
  return same(op);
}

static bool is_number(const Value *v, double number) {
  Constant c;
  if (!constant_of(v, &c)) return false;
  if (!c.is_float) return c.i == (int64_t)number;
  return c.f == number && !signbit(c.f) == !signbit(number);
}

/* ---- arithmetic ---- */

/* x replaces the result, if it has all its registers. */
static Value *only(const Op *op, Value *x) { return x->type == op->results[0].type ? x : NULL; }

static bool compute(OpKind kind, const Constant *a, const Constant *b, Constant *out) {
  uint64_t x = (uint64_t)a->i, y = (uint64_t)b->i;
  *out = *a;
  switch (kind) {
  case OP_add: out->f = a->f + b->f, out->i = (int64_t)(x + y); return true;
  case OP_sub: out->f = a->f - b->f, out->i = (int64_t)(x - y); return true;
  case OP_mul: out->f = a->f * b->f, out->i = (int64_t)(x * y); return true;
  case OP_and: out->i = (int64_t)(x & y); return true;
  case OP_or: out->i = (int64_t)(x | y); return true;
  default: return false;
  }
}

static Value *fold_constants(Fold *f, Op *op) {
  Constant a, b, r;
  if (!constant_of(op->args[0], &a) || !constant_of(op->args[1], &b)) return NULL;
  return compute(op->kind, &a, &b, &r) ? become(f, op, r) : NULL;
}

/* Which constant on which side leaves the other operand unchanged, or wins. */
typedef struct Identity {
  OpKind kind;
  enum { OF_INTS = 1, OF_FLOATS = 2, OF_ALL = 3 } of;
  double number;
  bool left_too; /* the constant may be the left operand as well */
  bool wins;     /* the result is the constant, else the other operand */
} Identity;

static const Identity identities[] = {
    {OP_add, OF_INTS, 0, true, false},       {OP_add, OF_FLOATS, -0.0, true, false},
    {OP_sub, OF_ALL, 0, false, false},       {OP_mul, OF_ALL, 1, true, false},
    {OP_mul, OF_INTS, 0, true, true},        {OP_div, OF_ALL, 1, false, false},
    {OP_floordiv, OF_INTS, 1, false, false}, {OP_and, OF_INTS, 0, true, true},
    {OP_or, OF_INTS, 0, true, false},
};

static Value *fold_identity(Op *op) {
  bool is_float = dtype_is_float(op->results[0].type->dtype);
  for (size_t i = 0; i < WV_LEN(identities); i++) {
    const Identity *id = &identities[i];
    if (id->kind != op->kind || !(id->of & (is_float ? OF_FLOATS : OF_INTS))) continue;
    for (int side = 1; side >= (id->left_too ? 0 : 1); side--) {
      if (!is_number(op->args[side], id->number)) continue;
      Value *v = only(op, op->args[id->wins ? side : 1 - side]);
      if (v) return v;
    }
  }
  return NULL;
}

/* Truth values: and with true, or with true, equal operands. */
static Value *fold_truth(Op *op) {
  if (op->kind != OP_and && op->kind != OP_or) return NULL;
  if (op->args[0] == op->args[1]) return only(op, op->args[0]);
  for (int side = 0; op->results[0].type->dtype == DTYPE_i1 && side < 2; side++)
    if (is_number(op->args[side], 1))
      return only(op, op->args[op->kind == OP_and ? 1 - side : side]);
  return NULL;
}

static Value *fold_binary(Fold *f, Op *op) {
  Value *v = fold_constants(f, op);
  if (!v) v = fold_identity(op);
  return v ? v : fold_truth(op);
}

static Value *fold_select(Fold *f, Op *op) {
  Constant c;
  (void)f;
  if (op->args[1] == op->args[2]) return only(op, op->args[1]);
  return constant_of(op->args[0], &c) ? only(op, op->args[c.i ? 1 : 2]) : NULL;
}

static Value *fold_cast(Fold *f, Op *op) {
  Constant c;
  DType to = op->results[0].type->dtype;
  if (op->args[0]->type == op->results[0].type) return op->args[0];
  if (!constant_of(op->args[0], &c) || c.is_float != dtype_is_float(to)) return NULL;
  if (to == DTYPE_i1) c.i = c.i != 0;
  return become(f, op, c);
}

static Value *fold_bitcast(Fold *f, Op *op) {
  const Op *inner = def_of(op->args[0], OP_bitcast);
  if (op->args[0]->type == op->results[0].type) return op->args[0];
  if (!inner) return NULL;
  change(f, op, OP_bitcast, inner->args, 1);
  return op->args[0]->type == op->results[0].type ? op->args[0] : same(op);
}

/* ---- registers ---- */

static int reg_at(const Op *pick, int i) { return (int)op_attr(pick, ATTR_regs)->ints[i]; }

static bool is_all_of(const int *regs, int n, const Value *v) {
  if (n != v->type->n) return false;
  for (int i = 0; i < n; i++)
    if (regs[i] != i) return false;
  return true;
}

/* Turns op into a pick of these registers; v itself if that is all of them in order. */
static Value *make_pick(Fold *f, Op *op, Value *v, const int *regs, int n) {
  if (is_all_of(regs, n, v)) return v;
  if (v->type->n == 1) {
    change(f, op, OP_splat, &v, 1);
    return same(op);
  }
  change(f, op, OP_pick, &v, 1);
  op_set_attr(f->k, op, attr_ints(f->k, ATTR_regs, regs, n));
  return same(op);
}

/* The part of a join that register r belongs to; *r becomes its index there. */
static int part_of(const Op *join, int *r) {
  int i = 0;
  while (*r >= join->args[i]->type->n) *r -= join->args[i++]->type->n;
  return i;
}

/* All registers come from one part, or they are whole parts. */
static Value *fold_pick_join(Fold *f, Op *op, const Op *join, int *regs, int n) {
  Value **parts = ARENA_ARRAY(f->scratch, Value *, n);
  int *in = ARENA_ARRAY(f->scratch, int, n), *part = ARENA_ARRAY(f->scratch, int, n), nparts = 0;
  bool one = true;
  for (int i = 0; i < n; i++) {
    in[i] = regs[i];
    part[i] = part_of(join, &in[i]);
    one = one && part[i] == part[0];
  }
  if (one) return make_pick(f, op, join->args[part[0]], in, n);
  for (int i = 0; i < n; i += parts[nparts++]->type->n) {
    Value *whole = parts[nparts] = join->args[part[i]];
    if (i + whole->type->n > n) return NULL;
    for (int j = 0; j < whole->type->n; j++)
      if (part[i + j] != part[i] || in[i + j] != j) return NULL;
  }
  change(f, op, OP_join, parts, nparts);
  return same(op);
}

static Value *fold_pick(Fold *f, Op *op) {
  const Op *def = op->args[0]->def;
  int n = op_attr(op, ATTR_regs)->n, *regs = ARENA_ARRAY(f->scratch, int, n);
  for (int i = 0; i < n; i++) regs[i] = reg_at(op, i);
  if (is_all_of(regs, n, op->args[0])) return op->args[0];
  if (!def) return NULL;
  if (def->kind == OP_join) return fold_pick_join(f, op, def, regs, n);
  for (int i = 0; i < n; i++) regs[i] = def->kind == OP_pick ? reg_at(def, regs[i]) : 0;
  if (def->kind == OP_splat || def->kind == OP_pick) return make_pick(f, op, def->args[0], regs, n);
  return NULL;
}

static Value *source_of(const Value *v) {
  const Op *pick = def_of(v, OP_pick);
  return pick ? pick->args[0] : (Value *)v;
}

/* If all parts are registers of one value: a pick of them. */
static Value *fold_join(Fold *f, Op *op) {
  Value *from = source_of(op->args[0]);
  int total = op->results[0].type->n, n = 0, *regs = ARENA_ARRAY(f->scratch, int, total);
  if (op->nargs == 1) return only(op, op->args[0]);
  for (int i = 0; i < op->nargs; i++) {
    const Op *pick = def_of(op->args[i], OP_pick);
    if (source_of(op->args[i]) != from) return NULL;
    for (int r = 0; r < op->args[i]->type->n; r++) regs[n++] = pick ? reg_at(pick, r) : r;
  }
  return make_pick(f, op, from, regs, n);
}

/* ---- expressions ---- */

static bool is_shared(const Fold *f, const Op *op) {
  const Sym *symbols[16];
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  int n = sym_free_symbols(e, symbols, (int)WV_LEN(symbols));
  if (n > (int)WV_LEN(symbols)) return false;
  for (int i = 0; i < n; i++) {
    const char *name = sym_name(symbols[i]);
    bool operand = strncmp(name, "$APPLY_EXPR_ARG_", 16) == 0;
    if (!operand && (strncmp(name, "$T", 2) == 0 || strchr(name, '.'))) return false;
  }
  for (int i = 0; i < op->nargs; i++)
    if (!f->shared[op->args[i]->id]) return false;
  return true;
}

/* Overflow of the inner expression is invisible: the outer one only adds multiples of it, and is as
 * wide. Wider ones do not overflow. */
static bool wraps_alike(Fold *f, const Op *outer, const Op *inner, int i) {
  const Sym *arg = lane_operand(f->k, i), *coeff, *rest;
  DType in = inner->results[0].type->dtype, out = outer->results[0].type->dtype;
  const Sym *e = op_attr(outer, ATTR_expr)->sym;
  if (in == DTYPE_index && out == DTYPE_index) return true;
  return in == out && in != DTYPE_i1 && sym_linear(f->sym, e, &arg, 1, &coeff, &rest) &&
         sym_is_integer(coeff) && sym_is_integer(rest);
}

static bool may_take(Fold *f, const Op *op, int i) {
  const Op *inner = def_of(op->args[i], OP_expr);
  return inner && inner->parent == op->parent && f->uses[op->args[i]->id] == 1 &&
         f->shared[op->args[i]->id] == is_shared(f, op) &&
         op->nargs - 1 + inner->nargs <= LANE_OPERANDS && wraps_alike(f, op, inner, i);
}

/* Replaces operand i by `e` over new operands, which are appended to the old ones. */
static bool take_operand(Fold *f, Op *op, int i, const Sym *e, Value *const *more, int nmore) {
  SymBinding to[2 * LANE_OPERANDS], inner[LANE_OPERANDS];
  Value *args[2 * LANE_OPERANDS];
  int n = 0;
  for (int j = 0; j < nmore; j++)
    inner[j] = (SymBinding){lane_operand(f->k, j), lane_operand(f->k, op->nargs - 1 + j)};
  const Sym *value = sym_subst(f->sym, e, inner, nmore);
  for (int j = 0; j < op->nargs; j++) {
    to[j] = (SymBinding){lane_operand(f->k, j), j == i ? value : lane_operand(f->k, n)};
    if (j != i) args[n++] = op->args[j];
  }
  const Sym *whole = value ? sym_subst(f->sym, op_attr(op, ATTR_expr)->sym, to, op->nargs) : NULL;
  if (!whole) return sym_take_error(f->sym), false;
  for (int j = 0; j < nmore; j++) args[n++] = more[j];
  change(f, op, OP_expr, args, n);
  op_set_attr(f->k, op, (Attr){.key = ATTR_expr, .sym = whole});
  return true;
}

static void remove_unused(Fold *f, Op *op) {
  if (f->uses[op->results[0].id]) return;
  for (int i = 0; i < op->nargs; i++) f->uses[op->args[i]->id]--;
  ir_remove(op);
}

/* Plain text spells operands as if they were never negative. */
static void spell_operands(Fold *f, Op *op) {
  SymBinding to[LANE_OPERANDS];
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  int n = 0;
  for (int i = 0; i < op->nargs; i++) {
    const Sym *plain = ir_numbered_symbol(f->k->cx, "$APPLY_EXPR_ARG_", i, true);
    if (sym_contains(e, plain)) to[n++] = (SymBinding){plain, lane_operand(f->k, i)};
  }
  const Sym *spelt = n ? sym_subst(f->sym, e, to, n) : NULL;
  if (spelt) op_set_attr(f->k, op, (Attr){.key = ATTR_expr, .sym = spelt});
}

static bool take_one(Fold *f, Op *op) {
  Constant c;
  for (int i = 0; i < op->nargs; i++) {
    if (constant_of(op->args[i], &c)) return take_operand(f, op, i, sym_int(f->sym, c.i), NULL, 0);
    if (!may_take(f, op, i)) continue;
    Op *inner = op->args[i]->def;
    if (!take_operand(f, op, i, op_attr(inner, ATTR_expr)->sym, inner->args, inner->nargs))
      return false;
    return remove_unused(f, inner), true;
  }
  return false;
}

static Value *fold_expr(Fold *f, Op *op) {
  bool changed = false;
  int64_t number;
  if (op->nargs > LANE_OPERANDS) return NULL;
  spell_operands(f, op);
  while (take_one(f, op)) changed = true;
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  f->shared[op->results[0].id] = is_shared(f, op);
  if (sym_is_bool(e) && sym_nargs(e) == 0)
    return become(f, op, (Constant){.i = e == sym_bool(f->sym, true)});
  if (sym_is_int(e, &number)) return become(f, op, (Constant){.i = number});
  if (op->nargs == 1 && e == lane_operand(f->k, 0) && only(op, op->args[0])) return op->args[0];
  return changed ? same(op) : NULL;
}

static Value *fold_scalar(Fold *f, Op *op) {
  Constant c;
  f->shared[op->results[0].id] = constant_of(&op->results[0], &c);
  return NULL;
}

/* ---- memory ---- */

/* A constant added to an offset moves to the immediate if it fits. */
static void fold_offset(Fold *f, Op *op, int at, AttrKey imm) {
  const Op *e = def_of(op->args[at], OP_expr);
  int64_t by;
  if (!e || e->nargs != 1 || e->args[0]->type != e->results[0].type) return;
  const Sym *d = sym_sub(f->sym, op_attr(e, ATTR_expr)->sym, lane_operand(f->k, 0));
  if (!d || !sym_is_int(d, &by)) return;
  by += op_imm(op, imm);
  if (by < INT32_MIN / 16 || by > INT32_MAX / 16) return;
  f->uses[op->args[at]->id]--;
  op->args[at] = e->args[0];
  f->uses[op->args[at]->id]++;
  op_drop_attr(op, imm);
  if (by) op_set_attr(f->k, op, (Attr){.key = imm, .integer = by});
}

/* The mask is the last of `most` operands. */
static void fold_mask(Fold *f, Op *op, int most) {
  if (op->nargs < most || !is_number(op->args[most - 1], 1)) return;
  f->uses[op->args[--op->nargs]->id]--;
}

static Value *fold_load(Fold *f, Op *op) {
  fold_offset(f, op, 1, ATTR_imm);
  fold_mask(f, op, 3);
  return NULL;
}

static Value *fold_store(Fold *f, Op *op) {
  fold_offset(f, op, 2, ATTR_imm);
  fold_mask(f, op, 4);
  return NULL;
}

static Value *fold_copy(Fold *f, Op *op) {
  fold_offset(f, op, 1, ATTR_imm);
  fold_offset(f, op, 3, ATTR_imm_from);
  fold_mask(f, op, 5);
  return NULL;
}

static FoldRule *const rules[OP_COUNT] = {
    [OP_scalar] = fold_scalar, [OP_add] = fold_binary,      [OP_sub] = fold_binary,
    [OP_mul] = fold_binary,    [OP_div] = fold_binary,      [OP_floordiv] = fold_binary,
    [OP_and] = fold_binary,    [OP_or] = fold_binary,       [OP_select] = fold_select,
    [OP_cast] = fold_cast,     [OP_bitcast] = fold_bitcast, [OP_pick] = fold_pick,
    [OP_join] = fold_join,     [OP_expr] = fold_expr,       [OP_load] = fold_load,
    [OP_ldmatrix] = fold_load, [OP_store] = fold_store,     [OP_stmatrix] = fold_store,
    [OP_atomic] = fold_store,  [OP_copy_async] = fold_copy,
};

/* Applies rules until none matches: each one brings an op nearer to its sources. */
static void fold_op(Fold *f, Op *op) {
  Value *v = NULL, *own = op->nresults == 1 ? &op->results[0] : NULL;
  do v = rules[op->kind] ? rules[op->kind](f, op) : NULL;
  while (v && v == own);
  if (!v) return;
  f->rename[own->id] = v;
  f->uses[v->id] += f->uses[own->id];
  for (int i = 0; i < op->nargs; i++) f->uses[op->args[i]->id]--;
  if (v->def && !v->name) v->name = own->name;
  ir_remove(op);
}

bool pass_fold(Kernel *k, PassCtx *cx) {
  Fold f = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym};
  f.uses = arena_copy(cx->scratch, cx->facts.uses, sizeof(int) * (size_t)k->nvalues);
  f.shared = ARENA_ARRAY(cx->scratch, bool, k->nvalues);
  f.rename = ARENA_ARRAY(cx->scratch, Value *, k->nvalues);
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    op_rename_args(op, f.rename);
    fold_op(&f, op);
  }
  return true;
}
