/* legalise: expresses what the machine lacks by what it has.
 *
 *     %v = load %a, %o : vec<8, f32>         %0 = load %a, %o : vec<4, f32>
 *     %y = softsign %x : f32                 %1 = load %a, %o {imm = 4} : vec<4, f32>
 *                                            %v = join %0, %1 : vec<8, f32>
 *                                       =>   %6 = abs %x : f32
 *                                            %7 = div %6, %cap : f32
 *                                            %8 = add %one, %7 : f32
 *                                            %y = div %x, %8 : f32
 *
 * legal.def is the table. After this pass an emitter sees only ops that its machine has. Does
 * nothing without a target; results are the same up to the errors stated in legalise_math.c. */
#include "transform/legalise/legalise.h"

#include "ir/dtype.h"
#include "ir/ops/inline_ptx.h"

/* ---- growing ---- */

Value *grow_as(Expansion *x, OpKind kind, Value *a, Value *b, DType dtype) {
  Value *args[] = {a, b};
  const Type *type = type_vec(x->k->cx, x->op->results[0].type->n, dtype);
  return &ir_insert(x->k, x->op, kind, x->op->at, args, b ? 2 : 1, type)->results[0];
}

Value *legalise_grow(Expansion *x, OpKind kind, Value *a, Value *b, Value *c) {
  Value *v = grow_as(x, kind, a, b, x->dtype);
  if (!c) return v;
  Value *args[] = {a, b, c};
  v->def->args = arena_copy(x->k->arena, args, sizeof args);
  v->def->nargs = 3;
  return v;
}

/* A constant, in all registers. */
static Value *grow_value(Expansion *x, Attr value, DType dtype) {
  const Type *type = type_scalar(x->k->cx, dtype);
  Op *made = ir_insert(x->k, x->op, OP_scalar, x->op->at, NULL, 0, type);
  op_set_attr(x->k, made, value);
  Value *one = &made->results[0];
  return x->op->results[0].type->n == 1 ? one : grow_as(x, OP_splat, one, NULL, dtype);
}

Value *grow_number(Expansion *x, double v, DType dtype) {
  Attr value = {.key = ATTR_value};
  if (dtype_is_float(dtype)) value.number = dtype_round(dtype, v);
  else value.sym = sym_int(x->k->cx->sym, (int64_t)v);
  return grow_value(x, value, dtype);
}

Value *grow_expr(Expansion *x, const Sym *e, DType dtype) {
  return grow_value(x, (Attr){.key = ATTR_value, .sym = e}, dtype);
}

/* ---- the table ---- */

enum { NATIVE, EXPAND, EXPAND_F64, MEANING, ILLEGAL };
enum {
  AMD = 1 << VENDOR_AMD,
  NVIDIA = 1 << VENDOR_NVIDIA,
  GPU = AMD | NVIDIA,
  OTHERS = ~NVIDIA,
  ALL = ~0
};

typedef struct LegalRow {
  OpKind op;
  int where;
  unsigned natively;
  int otherwise;
} LegalRow;

/* The words of features.def, as used in the table. */
enum {
  NONE = FEATURE_NONE,
  LDMATRIX = FEATURE_LDMATRIX,
  STMATRIX = FEATURE_STMATRIX,
  CP_ASYNC = FEATURE_CP_ASYNC,
  DIRECT_LDS = FEATURE_DIRECT_LDS,
  TMA = FEATURE_TMA,
  MBARRIER = FEATURE_MBARRIER,
  WGMMA = FEATURE_WGMMA,
  REGISTER_TILES = FEATURE_REGISTER_TILES
};

static const LegalRow rows[] = {
#define LEGAL(op, where, natively, otherwise) {OP_##op, where, natively, otherwise},
#include "transform/legalise/legal.def"
};

static ExpandFn *const expand[OP_COUNT] = {
    [OP_softsign] = expand_softsign, [OP_remf] = expand_remf, [OP_mod] = expand_mod,
    [OP_powf] = expand_powf,         [OP_cbrt] = expand_cbrt, [OP_sinh] = expand_sinh,
    [OP_atan2] = expand_atan2,       [OP_erf] = expand_erf,   [OP_sigmoid] = expand_sigmoid,
    [OP_wave_mma] = expand_wave_mma, [OP_div] = expand_div,
};

static int verdict(const TargetInfo *t, const Op *op) {
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    const LegalRow *row = &rows[i];
    if (row->op != op->kind || !(row->where >> t->vendor & 1)) continue;
    unsigned natively = op_has(op, ATTR_columns) ? FEATURE_DS_TRANSPOSE : row->natively;
    if (!(t->features & natively)) return row->otherwise;
  }
  return NATIVE;
}

typedef struct Legal {
  Kernel *k;
  const TargetInfo *target;
  Arena *scratch;
  Value **rename; /* by value id; NULL: itself */
} Legal;

/* ---- the pass ---- */

static void expand_op(Legal *l, Op *op, ExpandFn *fn) {
  Expansion x = {.k = l->k, .op = op, .target = l->target};
  Value *v = fn(&x);
  if (!v) return;
  if (!v->name) v->name = op->results[0].name;
  l->rename[op->results[0].id] = v;
  ir_remove(op);
}

static bool take_meaning(Legal *l, Op *op) {
  Value *meaning = inline_meaning(op);
  if (!meaning) return inline_unknown(l->k->cx, op, l->target->name);
  l->rename[op->results[0].id] = meaning;
  ir_remove(op);
  return true;
}

static bool legalise_op(Legal *l, Op *op) {
  if (op->kind == OP_load || op->kind == OP_store)
    return legalise_split_access(l->k, l->target, l->scratch, op), true;
  int what = verdict(l->target, op);
  if (what == EXPAND) expand_op(l, op, expand[op->kind]);
  if (what == EXPAND_F64) expand_op(l, op, expand_f64);
  if (what == MEANING) return take_meaning(l, op);
  if (what != ILLEGAL) return true;
  return diag_fail(&l->k->cx->diags, DIAG_E0615, op->at, "%s does not support `%s%s`",
                   l->target->name, op_info[op->kind].name,
                   op_has(op, ATTR_columns) ? " {columns}" : "");
}

bool pass_legalise(Kernel *k, PassCtx *cx) {
  if (!cx->target) return true;
  Legal l = {.k = k, .target = cx->target, .scratch = cx->scratch};
  int nvalues = k->nvalues; /* new values are not renamed */
  l.rename = ARENA_ARRAY(cx->scratch, Value *, nvalues);
  bool ok = true;
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    for (int i = 0; i < op->nargs; i++) {
      Value *to = op->args[i]->id < nvalues ? l.rename[op->args[i]->id] : NULL;
      if (to) op->args[i] = to;
    }
    ok = legalise_op(&l, op) && ok;
  }
  return ok;
}
