/* build.c: appends ops, opens and closes regions. See build.h for what a builder guarantees;
 * versions of symbols are in build_symbols.c, index mappings in build_access.c. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/build/build_state.h"
#include "ir/dtype.h"
#include "ir/infer/infer.h"
#include "ir/ops/access.h"
#include "ir/ops/combine.h"
#include "ir/region_facts.h"

Builder *builder_new(Context *cx, const char *name, Span at) {
  Kernel *k = kernel_new(cx, name, at);
  Builder *b = ARENA_NEW(k->arena, Builder);
  b->k = k;
  b->errors_before = cx->diags.errors;
  vec_push(k->arena, &b->frames, ((Frame){.region = k->body}));
  return b;
}

void builder_free(Builder *b) {
  if (b) kernel_free(b->k); /* the builder lives in the kernel's arena */
}

Kernel *builder_kernel(Builder *b) { return b->k; }

Region *build_region(Builder *b) { return build_frame(b)->region; }

bool build_constraint(Builder *b, Constraint c) {
  Kernel *k = b->k;
  if (k->constraints.n >= IR_MAX_ROWS)
    return BUILD_FAIL(b, c.at, E0216, "a kernel has at most %d constraints", IR_MAX_ROWS);
  vec_push(k->arena, &k->constraints, constraint_copy(k, &c));
  return true;
}

Value *build_param(Builder *b, const char *name, const Type *type, const Sym *binds, Span at) {
  if (!type) return NULL;
  if (b->k->params.n >= IR_MAX_PARAMS) {
    BUILD_DIAG(b, at, E0216, "a kernel has at most %d parameters", IR_MAX_PARAMS);
    return NULL;
  }
  if (kernel_has_param(b->k, name)) {
    BUILD_DIAG(b, at, E0208, "two parameters are named `%s`", name);
    return NULL;
  }
  return kernel_add_param(b->k, name, type, binds, at);
}

/* ---- operands ---- */
/* A value may be used in its own region and nested ones: its home is one of the open regions. */
static bool check_visible(Builder *b, Span at, const Value *v) {
  for (int i = 0; i < b->frames.n; i++)
    if (b->frames.at[i].region == region_of_value(v)) return true;
  Diag *d = BUILD_DIAG(b, at, E0402, "a value is used outside the region that defines it");
  if (v->def) diag_note(&b->k->cx->diags, d, v->def->at, "it is defined here");
  return diag_hint(&b->k->cx->diags, d, "return it from the loop or conditional");
}

static bool check_operands(Builder *b, OpKind kind, Span at, Value *const *args, int n) {
  const OpInfo *info = &op_info[kind];
  for (int i = 0; i < n; i++)
    if (!args[i]) return false; /* reported where it failed */
  if (n < info->least || (info->most != OP_ANY && n > info->most))
    return BUILD_FAIL(b, at, E0309, "`%s` got %d operand%s", info->name, n, n == 1 ? "" : "s");
  for (int i = 0; i < n; i++)
    if (!check_visible(b, at, args[i])) return false;
  return true;
}

/* ---- attributes ---- */

static bool has_value(const Attr *a) {
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM: return a->sym != NULL;
  case ATTR_KIND_MAPPING: return a->mapping != NULL;
  case ATTR_KIND_MMA: return a->mma != NULL;
  case ATTR_KIND_MEMORY: return a->memory != NULL;
  case ATTR_KIND_DESCRIPTOR: return a->descriptor != NULL;
  case ATTR_KIND_INTS: return a->n == 0 || a->ints;
  case ATTR_KIND_STEPS: return a->steps != NULL;
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD: return a->text != NULL;
  case ATTR_KIND_EXPRS:
    for (int i = 0; i < a->n; i++)
      if (!a->exprs[i]) return false;
    return true;
  default: return true;
  }
}

bool build_check_mma_name(Context *cx, const char *name, Span at) {
  if (!name || mma_named(cx->diags.arena, name)) return true;
  int n = mma_count();
  const char **names = ARENA_ARRAY(cx->diags.arena, const char *, n);
  for (int i = 0; i < n; i++) names[i] = mma_at(i)->name;
  Diag *d = diag_add(&cx->diags, DIAG_E0210, at, "unknown matrix instruction `%s`", name);
  const char *near = diag_nearest(name, names, n);
  if (near) diag_hint(&cx->diags, d, "did you mean `%s`?", near);
  return false;
}

static bool check_attr(Builder *b, OpKind kind, Span at, const Attr *a) {
  const char *op = op_info[kind].name, *name = attr_info[a->key].name;
  if (!op_admits(kind, a->key))
    return BUILD_FAIL(b, at, E0318, "`%s` has no attribute `%s`", op, name);
  if (!has_value(a))
    return BUILD_FAIL(b, at, E0318, "attribute `%s` of `%s` has no value", name, op);
  if (a->key == ATTR_mapping) return build_check_mapping_entries(b->k->cx, a->mapping, at);
  if (a->key == ATTR_mma) return build_check_mma_name(b->k->cx, a->mma->name, at);
  return true;
}

static bool set_attrs(Builder *b, Op *op, const Attr *attrs, int n) {
  for (int i = 0; i < n; i++) {
    if (!check_attr(b, op->kind, op->at, &attrs[i])) return false;
    if (op_has(op, attrs[i].key))
      return BUILD_FAIL(b, op->at, E0318, "`%s` is given twice", attr_info[attrs[i].key].name);
    op_set_attr(b->k, op, attr_copy(b->k, &attrs[i]));
  }
  AttrKey lead = op_info[op->kind].lead;
  if (lead != ATTR_NONE && !op_has(op, lead))
    return BUILD_FAIL(b, op->at, E0318, "`%s` needs `%s`", op_info[op->kind].name,
                      attr_info[lead].name);
  return true;
}

/* ---- numbers ---- */

static bool int_fits(DType dtype, int64_t v) {
  if (dtype == DTYPE_i1) return v == 0 || v == 1;
  if (dtype == DTYPE_u64) return v >= 0;
  return v <= dtype_max_int(dtype) && v >= dtype_min_int(dtype);
}

/* One spelling per constant: floats for float dtypes, integers (truncated, as in the public
 * language) for the others. */
static bool normalise_value(Builder *b, Op *op, DType dtype) {
  Attr value = *op_attr(op, ATTR_value);
  bool is_float = dtype_info[dtype].class == DTYPE_FLOAT;
  int64_t num, den;
  if (value.sym && is_float && sym_is_rational(value.sym, &num, &den)) {
    value.sym = NULL;
    value.number = (double)num / (double)den;
  } else if (!value.sym && !is_float) {
    double whole = trunc(value.number);
    if (!(fabs(whole) < 9.2e18))
      return BUILD_FAIL(b, op->at, E0315, "%g is not an integer, as dtype %s requires",
                        value.number, dtype_info[dtype].name);
    value.sym = sym_int(b->k->cx->sym, (int64_t)whole);
    value.number = 0;
  }
  if (!is_float && value.sym && sym_is_int(value.sym, &num) && !int_fits(dtype, num))
    return BUILD_FAIL(b, op->at, E0315, "%lld does not fit in %s", (long long)num,
                      dtype_info[dtype].name);
  op_set_attr(b->k, op, value);
  return true;
}

static Value *sum_of(Builder *b, Value *x, Value *y, Span at) {
  Op *op = x && y ? build_op(b, OP_add, at, (Value *[]){x, y}, 2, NULL, 0, NULL) : NULL;
  return op ? &op->results[0] : NULL;
}

/* -2**63 and the upper half of u64, which expressions cannot represent: twice the half, plus the
 * last bit. Sums of integers wrap. */
static Value *far_literal(Builder *b, Number n, const Value *like, Span at) {
  DType dtype = like->type->dtype;
  if (dtype != (n.is_unsigned ? DTYPE_u64 : DTYPE_i64)) {
    BUILD_DIAG(b, at, E0315, "%s%llu does not fit in %s", n.is_unsigned ? "" : "-",
               (unsigned long long)n.integer, dtype_info[dtype].name);
    return NULL;
  }
  int64_t low = n.integer & 1, half = (int64_t)((uint64_t)n.integer >> 1);
  if (!n.is_unsigned) half = n.integer / 2;
  Value *part = build_literal(b, (Number){.is_integer = true, .integer = half}, like, at);
  Value *even = sum_of(b, part, part, at);
  if (!low) return even;
  return sum_of(b, even, build_literal(b, (Number){.is_integer = true, .integer = 1}, like, at),
                at);
}

Value *build_literal(Builder *b, Number n, const Value *like, Span at) {
  if (!like) return NULL;
  DType dtype = like->type->dtype;
  bool is_float = dtype_info[dtype].class == DTYPE_FLOAT;
  if (!is_float && !n.is_integer) {
    Diag *d = BUILD_DIAG(b, at, E0315, "float %g combined with a value of dtype %s", n.real,
                         dtype_info[dtype].name);
    diag_hint(&b->k->cx->diags, d, "write an integer, or `cast` the value to a float dtype first");
    return NULL;
  }
  if (!is_float && (n.is_unsigned || n.integer == INT64_MIN)) return far_literal(b, n, like, at);
  Attr value = {.key = ATTR_value};
  if (is_float) value.number = n.is_integer && !n.is_unsigned ? (double)n.integer : n.real;
  else value.sym = sym_int(b->k->cx->sym, n.integer);
  Op *op = build_op(b, OP_scalar, at, NULL, 0, &value, 1, type_scalar(b->k->cx, dtype));
  return op ? &op->results[0] : NULL;
}

/* ---- ops ---- */

static bool append_checked(Builder *b, Op *op, const Type *given) {
  const OpInfo *info = &op_info[op->kind];
  const Type **types = ARENA_ARRAY(b->k->arena, const Type *, op->nargs + 2);
  if (!ir_infer(b->k, op, given, types)) return false;
  int n = info->results == OP_MANY ? op->nargs - op_carried(op) : info->results;
  bool partial = (op->kind == OP_cast || op->kind == OP_bitcast) && given &&
                 given->kind == TYPE_scalar; /* a bare dtype will do */
  if (given && n > 0 && types[0] != given && !partial)
    return BUILD_FAIL(b, op->at, E0316, "`%s` returns %s, but the declared type is %s", info->name,
                      type_text(b->k->cx->diags.arena, b->k->cx, types[0]),
                      type_text(b->k->cx->diags.arena, b->k->cx, given));
  ir_set_results(b->k, op, types, n);
  if (op_has(op, ATTR_value) && n == 1 && !normalise_value(b, op, types[0]->dtype)) return false;
  Region *r = build_region(b);
  ir_append(r, op);
  return true;
}

/* A write converts what it stores between some types. The conversion is a separate op, so that
 * later stages need not know about it. */
static Value *const *convert_written(Builder *b, Span at, Value *const *args, int nargs) {
  const Type *value = args[0]->type, *memory = args[1]->type;
  bool converts = type_is_value(value) && memory->kind == TYPE_mem &&
                  value->dtype != memory->dtype && infer_stores_as(value->dtype, memory->dtype);
  if (!converts) return args;
  const Type *wanted = type_scalar(b->k->cx, memory->dtype);
  Op *cast = build_op(b, OP_cast, at, args, 1, NULL, 0, wanted);
  Value **all = arena_copy(b->k->arena, args, sizeof *all * (size_t)nargs);
  all[0] = cast ? &cast->results[0] : args[0];
  return all;
}

/* ---- unsigned integers in expressions ---- */

/* Expressions are signed 64-bit integers. An unsigned operand that enters one is converted by a
 * separate op, so that later stages need not know about it. Returns the index of the first such
 * operand. */
static int first_in_expression(OpKind kind) {
  switch (kind) {
  case OP_apply_expr:
  case OP_set_symbol: return 0;
  case OP_read:
  case OP_scatter_add:
  case OP_debug_log: return 1;
  case OP_write: return 2;
  default: return op_info[kind].rule == RULE_atomic ? atomic_operands(kind) : INT_MAX;
  }
}

static Value *converted(Builder *b, Span at, Value *v, DType to) {
  Op *cast = build_op(b, OP_cast, at, &v, 1, NULL, 0, type_scalar(b->k->cx, to));
  return cast ? &cast->results[0] : v;
}

static Value *const *signed_operands(Builder *b, Span at, Value *const *args, int nargs, int first,
                                     int end) {
  Value **all = NULL;
  for (int i = first; i < end; i++) {
    if (!type_is_value(args[i]->type) || !dtype_is_unsigned(args[i]->type->dtype)) continue;
    if (!all) all = arena_copy(b->k->arena, args, sizeof *all * (size_t)nargs);
    all[i] = converted(b, at, args[i], DTYPE_i64);
  }
  return all ? all : args;
}

/* The result of such an op is converted back; so is the value of an expression. */
static Op *build_unsigned(Builder *b, OpKind kind, Span at, Value *const *args, int nargs,
                          const Attr *attrs, int nattrs, const Type *given, DType dtype) {
  if (given) given = type_with_dtype(b->k->cx, given, DTYPE_i64);
  Op *op = build_op(b, kind, at, args, nargs, attrs, nattrs, given);
  if (!op || op->results[0].type->dtype == DTYPE_i1) return op;
  Value *v = converted(b, at, &op->results[0], dtype);
  return v->def;
}

/* The unsigned type that an op which computes an expression must return; DTYPE_COUNT: none. */
static DType unsigned_result(OpKind kind, Value *const *args, int nargs, const Attr *attrs,
                             int nattrs, const Type *given) {
  DType t = DTYPE_COUNT;
  bool expression = kind == OP_self_index;
  for (int i = 0; i < nattrs; i++)
    expression |= attrs[i].key == ATTR_value && attrs[i].sym && !sym_is_int(attrs[i].sym, NULL);
  if (kind == OP_apply_expr && nargs && args[0]) t = args[0]->type->dtype;
  else if ((kind == OP_scalar || kind == OP_fill || kind == OP_self_index) && given && expression)
    t = given->dtype;
  return t != DTYPE_COUNT && dtype_is_unsigned(t) ? t : DTYPE_COUNT;
}

/* ---- any op ---- */

Op *build_op(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
             int nattrs, const Type *given) {
  if (op_info[kind].flags & (OPF_REGION | OPF_ENDS)) {
    BUILD_DIAG(b, at, E0408, "`%s` is not an op that can be built this way", op_info[kind].name);
    return NULL;
  }
  if (!check_operands(b, kind, at, args, nargs)) return NULL;
  DType back = unsigned_result(kind, args, nargs, attrs, nattrs, given);
  args = signed_operands(b, at, args, nargs, first_in_expression(kind), nargs);
  if (back != DTYPE_COUNT)
    return build_unsigned(b, kind, at, args, nargs, attrs, nattrs, given, back);
  if (kind == OP_write) args = convert_written(b, at, args, nargs);
  Op *op = ir_op_new(b->k, kind, at, args, nargs);
  if (!set_attrs(b, op, attrs, nattrs) || !build_instantiate(b, op)) return NULL;
  if (kind == OP_set_symbol && !build_set_symbol(b, op)) return NULL;
  return append_checked(b, op, given) ? op : NULL;
}

/* ---- regions ---- */

/* The arguments of a body: the axis of a while loop, then the carried values. A value that is
 * missing because of an earlier mistake leaves a NULL in its place. */
static void add_region_args(Builder *b, Region *r, const Op *op) {
  Kernel *k = b->k;
  if (op->kind == OP_while) ir_add_arg(k, r, type_scalar(k->cx, DTYPE_index), NULL);
  int first = r->nargs, carried = op_carried(op);
  for (int i = carried; i < op->nargs; i++)
    ir_add_arg(k, r, op->args[i] ? op->args[i]->type : NULL, NULL);
  for (int i = carried; i < op->nargs; i++)
    if (!op->args[i]) r->args[first + i - carried] = NULL;
}

/* The arguments of a combine function. */
static void add_elements(Builder *b, Region *r, const Op *op) {
  const Type *t = op->nargs && op->args[0] ? op->args[0]->type : NULL;
  DType dtype = t && type_is_value(t) ? t->dtype : DTYPE_f32; /* the op is refused at its end */
  for (int i = 0; i < 2; i++) ir_add_arg(b->k, r, type_scalar(b->k->cx, dtype), NULL);
}

bool build_begin(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
                 int nattrs) {
  WV_ASSERT((op_info[kind].flags & OPF_REGION) || op_combines(kind));
  bool starts = kind == OP_while; /* the initial position of a loop enters its expressions */
  for (int i = 0; i < nattrs; i++) starts |= attrs[i].key == ATTR_from;
  if (starts && nargs && args[0]) args = signed_operands(b, at, args, nargs, 0, 1);
  Op *op = ir_op_new(b->k, kind, at, args, nargs);
  Frame frame = {.op = op, .versions = b->versions.n};
  frame.ok = check_operands(b, kind, at, args, nargs) && set_attrs(b, op, attrs, nattrs) &&
             (kind != OP_while || build_while_version(b, op)) && build_instantiate(b, op) &&
             (op_combines(kind) || append_checked(b, op, NULL));
  frame.region = ir_region_new(b->k, op);
  if (op_combines(kind)) add_elements(b, frame.region, op);
  else add_region_args(b, frame.region, op);
  vec_push(b->k->arena, &b->frames, frame);
  return frame.ok;
}

/* The op that converts a value to the carried type if only the form differs: another order of dims,
 * or more dims of one element each. Neither moves data. OP_COUNT: none does. */
static OpKind refit(const Kernel *k, const Type *from, const Type *to) {
  if (from->kind != TYPE_tile || !type_is_value(to) || from->dtype != to->dtype) return OP_COUNT;
  int common = 0;
  for (int i = 0; i < from->rank; i++) {
    bool kept = false;
    for (int j = 0; j < to->rank; j++) kept |= from->dims[i] == to->dims[j];
    if (!kept && !ir_one_at_a_time(k, from->dims[i])) return OP_COUNT;
    common += kept;
  }
  if (common < to->rank) return OP_COUNT;
  return from->rank == to->rank ? OP_permute : OP_squeeze;
}

/* What a body yields has the type with which it was carried in. */
static Value *fit_carried(Builder *b, Value *v, const Value *carried, int number, Span at) {
  Kernel *k = b->k;
  if (!v || v->type == carried->type) return v;
  OpKind kind = refit(k, v->type, carried->type);
  if (kind != OP_COUNT) {
    Op *op = build_op(b, kind, at, &v, 1, NULL, 0, carried->type);
    return op ? &op->results[0] : NULL;
  }
  Op *loop = build_frame(b)->op;
  bool branch = loop->kind == OP_if;
  Diag *d = BUILD_DIAG(b, at, E0401,
                       branch ? "result %d is %s in one case but %s in the other"
                              : "carried value %d starts as %s but the body returns %s",
                       number + 1, type_text(k->cx->diags.arena, k->cx, carried->type),
                       type_text(k->cx->diags.arena, k->cx, v->type));
  diag_note(&k->cx->diags, d, loop->at,
            branch ? "this `%s` has the result" : "this `%s` carries it", op_info[loop->kind].name);
  if (v->type->dtype != carried->type->dtype)
    diag_hint(&k->cx->diags, d, "use `cast` to %s", dtype_info[carried->type->dtype].name);
  return NULL;
}

static bool refuse_count(Builder *b, const Op *op, int n, int wanted, Span at) {
  const char *plural = n == 1 ? "" : "s", *are = wanted == 1 ? "is" : "are";
  if (op->kind == OP_if) {
    Diag *d =
        BUILD_DIAG(b, at, E0404, "the body returns %d value%s, but %d %s given for the other case",
                   n, plural, wanted, are);
    return diag_hint(&b->k->cx->diags, d,
                     "give as many with `else_return=`, or return them from `otherwise=`");
  }
  Diag *d = BUILD_DIAG(b, at, E0404, "the body returns %d value%s, but %d %s carried", n, plural,
                       wanted, are);
  return diag_hint(&b->k->cx->diags, d,
                   "return one value for each carried value, in the same order");
}

/* The values of the yield, in `out`; the axis value of a while loop comes first. */
static bool gather_yields(Builder *b, Value *const *yields, int n, Span at, Value **out) {
  Frame *f = build_frame(b);
  Region *r = f->region;
  int wanted = r->nargs, first = f->op->kind == OP_while ? 1 : 0;
  if (first && n == wanted - 1) {
    out[0] = build_next_axis(b);
    if (!out[0]) return false;
  } else if (n != wanted) {
    return refuse_count(b, f->op, n, wanted - first, at);
  } else if (first) {
    out[0] = yields[0];
  }
  const Value *const *carried = (const Value *const *)r->args;
  int offset = wanted - n;
  for (int i = first; i < wanted; i++) {
    Value *v = yields[i - offset];
    if (!v || !carried[i] || !check_visible(b, at, v)) return false;
    out[i] = fit_carried(b, v, carried[i], i - first, at);
    if (!out[i]) return false;
  }
  return true;
}

/* The ops of the region become an attribute of the op, which is inserted only now. */
static Op *end_combine(Builder *b, Value *const *yields, int n, Span at) {
  Frame f = *build_frame(b);
  Attr combine;
  b->frames.n--;
  b->versions.n = f.versions;
  f.op->body = NULL;
  if (!f.ok) return NULL;
  if (n != 1) {
    BUILD_DIAG(b, at, E0404, "the combine function of `%s` returns %d values, expected 1",
               op_info[f.op->kind].name, n);
    return NULL;
  }
  if (!yields[0] || !combine_of_region(b->k, f.op, f.region, yields[0], at, &combine)) return NULL;
  op_set_attr(b->k, f.op, combine);
  return append_checked(b, f.op, NULL) ? f.op : NULL;
}

Op *build_end(Builder *b, Value *const *yields, int n, Span at) {
  if (b->frames.n == 1) {
    BUILD_DIAG(b, at, E0408, "end of a region, but no region is open");
    return NULL;
  }
  Frame f = *build_frame(b);
  if (op_combines(f.op->kind)) return end_combine(b, yields, n, at);
  Value **values = ARENA_ARRAY(b->k->arena, Value *, f.region->nargs + 1);
  bool ok = f.ok && gather_yields(b, yields, n, at, values);
  if (ok) ir_append(f.region, ir_op_new(b->k, OP_yield, at, values, f.region->nargs));
  b->frames.n--;
  b->versions.n = f.versions;
  return ok ? f.op : NULL;
}

/* ---- else ---- */

/* The value of this type where it is not used: zeros, before `op`. */
static Value *zeros_before(Builder *b, Op *op, const Type *type) {
  Attr value = {.key = ATTR_value};
  if (!dtype_is_float(type->dtype)) value.sym = sym_int(b->k->cx->sym, 0);
  Op *made = ir_op_new(b->k, type->kind == TYPE_tile ? OP_fill : OP_scalar, op->at, NULL, 0);
  op_set_attr(b->k, made, value);
  ir_insert_before(op, made);
  ir_set_results(b->k, made, &type, 1);
  return &made->results[0];
}

/* Makes the open `if` yield these values; where its condition does not hold, zeros. */
static bool carry_late(Builder *b, Frame *f, Value *const *yields, int n, Span at) {
  int first = f->op->nargs;
  Value **args = ARENA_ARRAY(b->k->arena, Value *, first + n);
  const Type **types = ARENA_ARRAY(b->k->arena, const Type *, n);
  for (int i = 0; i < first; i++) args[i] = f->op->args[i];
  for (int i = 0; i < n; i++) {
    if (!yields[i] || !check_visible(b, at, yields[i])) return false;
    if (!type_is_value(yields[i]->type))
      return BUILD_FAIL(b, at, E0310, "a conditional can return registers, not memory");
    types[i] = yields[i]->type;
    args[first + i] = zeros_before(b, f->op, types[i]);
    ir_add_arg(b->k, f->region, types[i], NULL);
  }
  f->op->args = args;
  f->op->nargs = first + n;
  ir_set_results(b->k, f->op, types, n);
  return true;
}

/* The opposite of an `if`'s condition: as an attribute, or else as a value. */
static bool opposite(Builder *b, const Op *op, Attr *expr, Value **value) {
  const Attr *given = op_attr(op, ATTR_expr);
  if (given) {
    *expr = (Attr){.key = ATTR_expr, .sym = sym_not(b->k->cx->sym, given->sym)};
    return true;
  }
  Value *zero = build_literal(b, (Number){.is_integer = true}, op->args[0], op->at);
  Op *made =
      zero ? build_op(b, OP_eq, op->at, (Value *[]){op->args[0], zero}, 2, NULL, 0, NULL) : NULL;
  *value = made ? &made->results[0] : NULL;
  return made;
}

bool build_else(Builder *b, Value *const *yields, int n, Span at) {
  Frame f = *build_frame(b);
  bool fits = f.op && f.op->kind == OP_if && f.op->nargs == op_carried(f.op);
  if (!fits) BUILD_DIAG(b, at, E0408, "only an `if` without carried values can have an else");
  bool ok = f.ok && fits && carry_late(b, &f, yields, n, at);
  ok = ok && build_end(b, yields, n, at);
  if (!ok) return false;
  Attr expr;
  Value **args = ARENA_ARRAY(b->k->arena, Value *, n + 1), *value = NULL;
  if (!opposite(b, f.op, &expr, &value)) return false;
  int first = value != NULL;
  if (first) args[0] = value;
  for (int i = 0; i < n; i++) args[first + i] = &f.op->results[i];
  return build_begin(b, OP_if, f.op->at, args, first + n, &expr, !first);
}

Kernel *build_finish(Builder *b) {
  Kernel *k = b->k;
  bool closed = b->frames.n == 1;
  if (!closed) BUILD_DIAG(b, k->at, E0408, "a region is still open");
  if (closed && k->cx->diags.errors == b->errors_before) {
    build_flags(k);
    ir_renumber(k);
    if (ir_verify_constraints(k) && ir_verify(k)) return build_warn_header(k), k;
  }
  kernel_free(k);
  return NULL;
}
