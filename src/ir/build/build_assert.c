/* build_assert.c: device_assert, as a report of what is false.
 *
 *     device_assert %c, %x "positive"
 *   =>
 *     %m = self_index M : tile<M, i64>             the coordinate of an element
 *     %w = cast (bitcast %x : i32) : i64           its value, as a word
 *     report %c, %failures, %m, %w
 *
 * For values that are not tiles, the workgroup is reported as the position. Without values, those
 * that the condition compares are reported. */
#include "ir/build/build_state.h"
#include "ir/ops/reports.h"

typedef struct Assert {
  Builder *b;
  Span at;
  const Type *words; /* of every operand after the memory */
  Value *args[2 + FAILURE_COLUMNS];
  int n;
  StrBuf columns;
  bool failed;
} Assert;

static Value *put(Assert *s, OpKind kind, Value *v, const Attr *attr, const Type *given) {
  Op *op = s->failed ? NULL : build_op(s->b, kind, s->at, &v, v != NULL, attr, attr != NULL, given);
  s->failed |= !op;
  return op ? &op->results[0] : NULL;
}

static void add_word(Assert *s, Value *v, FailureType type, const char *name) {
  if (v && v->type != s->words) v = put(s, OP_broadcast, v, NULL, s->words);
  s->args[s->n++] = v;
  sb_printf(&s->columns, "%s%c%s", s->columns.n ? " " : "", (char)type, name);
}

/* ---- where ---- */
static void add_position(Assert *s) {
  Context *cx = s->b->k->cx;
  for (int i = 0; i < s->words->rank; i++) {
    const Sym *dim = s->words->dims[i];
    Attr along = {.key = ATTR_dim, .sym = dim};
    Value *v = put(s, OP_self_index, NULL, &along, type_tile(cx, &dim, 1, DTYPE_i64));
    add_word(s, v, FAILURE_COORD, sym_text(s->b->k->arena, dim));
  }
  for (int i = 0; !s->words->rank && i < 3; i++) {
    Attr id = {.key = ATTR_value, .sym = ir_numbered_symbol(cx, "$WG", i, true)};
    add_word(s, put(s, OP_scalar, NULL, &id, s->words), FAILURE_GROUP, "");
  }
}

/* ---- values ---- */

static void add_value(Assert *s, Value *v) {
  Context *cx = s->b->k->cx;
  FailureType type = report_type(v->type->dtype);
  const char *name = v->name ? v->name : "";
  if (type == FAILURE_F32 && v->type->dtype != DTYPE_f32)
    v = put(s, OP_cast, v, NULL, type_scalar(cx, DTYPE_f32));
  if (type == FAILURE_F32 || type == FAILURE_F64) {
    const Type *bits =
        v ? type_with_dtype(cx, v->type, type == FAILURE_F32 ? DTYPE_i32 : DTYPE_i64) : NULL;
    v = put(s, OP_bitcast, v, NULL, bits);
  }
  if (v && v->type->dtype != DTYPE_i64) v = put(s, OP_cast, v, NULL, type_scalar(cx, DTYPE_i64));
  add_word(s, v, type, name);
}

static bool is_constant(const Value *v) {
  const Attr *value = v->def ? op_attr(v->def, ATTR_value) : NULL;
  return value && (!value->sym || sym_is_int(value->sym, NULL));
}

static bool is_listed(Value *const *values, int n, const Value *v) {
  for (int i = 0; i < n; i++)
    if (values[i] == v) return true;
  return false;
}

/* The operands of a condition made of comparisons; constants from the source are left out. */
static int compared(const Value *cond, Value **out, int n, int most) {
  const Op *op = cond->def;
  if (!op || !(op_info[op->kind].flags & OPF_PURE) || op_info[op->kind].level != LEVEL_BOTH)
    return n; /* not elementwise */
  for (int i = 0; i < op->nargs; i++) {
    Value *v = op->args[i];
    if (v->type->dtype == DTYPE_i1) n = compared(v, out, n, most);
    else if (n < most && !is_constant(v) && !is_listed(out, n, v)) out[n++] = v;
  }
  return n;
}

static bool check(Builder *b, Span at, Value *const *args, int nargs) {
  for (int i = 0; i < nargs; i++)
    if (!args[i]) return false;
  if (!nargs || !type_is_value(args[0]->type) || args[0]->type->dtype != DTYPE_i1)
    return BUILD_FAIL(b, at, E0311, "`device_assert` takes a condition of dtype i1, not %s",
                      nargs ? type_text(b->k->arena, b->k->cx, args[0]->type) : "nothing");
  const Type *cond = args[0]->type;
  if (cond->rank + nargs - 1 > FAILURE_COLUMNS - (cond->rank ? 0 : 3))
    return BUILD_FAIL(b, at, E0309, "`device_assert` can report at most %d values here",
                      FAILURE_COLUMNS - (cond->rank ? cond->rank : 3));
  for (int i = 1; i < nargs; i++) {
    const Type *t = args[i]->type;
    bool fits = type_is_value(t);
    for (int d = 0; fits && d < t->rank; d++) fits = type_has_dim(cond, t->dims[d]);
    if (!fits)
      return BUILD_FAIL(b, at, E0305,
                        "value %d of `device_assert`, %s, has a dimension that its "
                        "condition, %s, lacks",
                        i, type_text(b->k->arena, b->k->cx, t),
                        type_text(b->k->arena, b->k->cx, cond));
  }
  return true;
}

bool build_assert(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                  int nattrs) {
  if (!check(b, at, args, nargs)) return false;
  Kernel *k = b->k;
  Value *values[FAILURE_COLUMNS];
  int most = FAILURE_COLUMNS - (args[0]->type->rank ? args[0]->type->rank : 3), n = nargs - 1;
  for (int i = 0; i < n; i++) values[i] = args[i + 1];
  if (!n) n = compared(args[0], values, 0, most);
  Assert s = {.b = b, .at = at, .n = 2, .columns = {.arena = k->arena}};
  s.words = type_with_dtype(k->cx, args[0]->type, DTYPE_i64);
  s.args[0] = args[0];
  add_position(&s);
  for (int i = 0; i < n; i++) add_value(&s, values[i]);
  if (s.failed) return false;
  ReportSite site = {FAILURE_ASSERT, sb_text(&s.columns), "", at};
  for (int i = 0; i < nattrs; i++)
    if (attrs[i].key == ATTR_label) site.message = attrs[i].text;
  Attr where = {.key = ATTR_mapping};
  s.args[1] = report_add(k, &site, args[0]->type, &where.mapping);
  return build_op(b, OP_report, at, s.args, s.n, &where, 1, NULL) != NULL;
}
