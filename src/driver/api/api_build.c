/* api_build.c: building kernels through wave.h. */
#include <string.h>

#include "driver/api/api.h"
#include "ir/ops/combine.h"

static Context *context_of(const wv_builder *b) { return b->cx->cx; }

wv_builder *wv_build(wv_ctx *cx, const char *name, wv_place at) {
  API_CHANGES(cx, NULL);
  if (!api_text(cx, name, "the name of a kernel")) return NULL;
  Arena *scratch = arena_new();
  Builder *builder = builder_new(cx->cx, name, api_span(cx->cx, at));
  wv_builder *b = ARENA_NEW(builder_kernel(builder)->arena, wv_builder);
  *b = (wv_builder){HANDLE_BUILDER, cx, builder, scratch};
  return b;
}

void wv_abandon(wv_builder *b) {
  API_ASKS();
  if (!api_is(b, HANDLE_BUILDER)) return;
  arena_free(b->scratch);
  builder_free(b->b);
}

bool wv_add_constraint(wv_builder *b, const wv_constraint *c) {
  API_BUILDS(b, false);
  if (!api_expected(b->cx, c != NULL, "a constraint")) return false;
  Constraint row;
  bool ok = api_constraint(context_of(b), b->scratch, c, &row) && build_constraint(b->b, row);
  arena_reset(b->scratch);
  return ok;
}

wv_value *wv_param(wv_builder *b, const char *name, wv_type t, wv_expr binds, wv_place at) {
  API_BUILDS(b, NULL);
  if (!api_text(b->cx, name, "the name of a parameter") ||
      !api_expected(b->cx, t != NULL, "a type"))
    return NULL;
  return (wv_value *)build_param(b->b, name, api_type(t), api_sym(binds),
                                 api_span(context_of(b), at));
}

bool wv_check_mapping(wv_ctx *cx, const wv_mapping *m, wv_place at) {
  API_CHANGES(cx, false);
  if (!api_expected(cx, m != NULL, "a mapping")) return false;
  Arena *a = arena_new();
  Mapping mapping = api_mapping(a, m);
  bool ok = build_check_mapping(cx->cx, &mapping, api_span(cx->cx, at));
  arena_free(a);
  return ok;
}

static OpKind find_op(wv_builder *b, const char *name, Span at) {
  OpKind kind = op_find(name);
  if (kind == OP_COUNT) diag_add(&context_of(b)->diags, DIAG_E0309, at, "unknown op `%s`", name);
  return kind;
}

/* Everything that makes up an op is present, and no operand is missing. */
static bool has_parts(wv_builder *b, const char *name, wv_value *const *args, int nargs,
                      const wv_attr *attrs, int nattrs) {
  bool ok = api_text(b->cx, name, "the name of an op") &&
            api_list(b->cx, args, nargs, "operands") &&
            api_list(b->cx, attrs, nattrs, "attributes");
  for (int i = 0; ok && i < nargs; i++) ok = api_expected(b->cx, args[i] != NULL, "a value");
  for (int i = 0; ok && i < nattrs; i++)
    ok = api_text(b->cx, attrs[i].key, "the name of an attribute");
  return ok;
}

static Value **values_of(wv_builder *b, wv_value *const *from, int n) {
  Value **out = ARENA_ARRAY(b->scratch, Value *, n);
  for (int i = 0; i < n; i++) out[i] = api_value(from[i]);
  return out;
}

static bool hand_out(const Op *op, wv_value **results) {
  for (int i = 0; op && results && i < op->nresults; i++) results[i] = (wv_value *)&op->results[i];
  return op != NULL;
}

/* Constructs composed of several ops. */
typedef bool ComposeFn(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                       int nattrs, Value **out);

static bool compose_argmax(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                           int nattrs, Value **out) {
  return build_arg(b, OP_max, at, args, nargs, attrs, nattrs, out);
}

static bool compose_argmin(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                           int nattrs, Value **out) {
  return build_arg(b, OP_min, at, args, nargs, attrs, nattrs, out);
}

static bool compose_philox(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                           int nattrs, Value **out) {
  (void)attrs, (void)nattrs;
  return build_philox(b, at, args, nargs, out);
}

static bool compose_assert(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                           int nattrs, Value **out) {
  (void)out;
  return build_assert(b, at, args, nargs, attrs, nattrs);
}

static const struct Composed {
  const char *name;
  int results;
  ComposeFn *build;
} composed[] = {{"argmax", 2, compose_argmax},
                {"argmin", 2, compose_argmin},
                {"philox", 4, compose_philox},
                {"device_assert", 0, compose_assert}};

static const struct Composed *find_composed(const char *name) {
  for (size_t i = 0; i < WV_LEN(composed); i++)
    if (strcmp(composed[i].name, name) == 0) return &composed[i];
  return NULL;
}

static bool compose(wv_builder *b, const struct Composed *c, wv_value *const *args, int nargs,
                    const wv_attr *attrs, int nattrs, Span at, wv_value **results) {
  Attr *translated = ARENA_ARRAY(b->scratch, Attr, nattrs);
  Value *out[4] = {0}, **values = values_of(b, args, nargs);
  bool ok = api_attrs(context_of(b), b->scratch, attrs, nattrs, at, translated);
  if (ok) ok = c->build(b->b, at, values, nargs, translated, nattrs, out);
  arena_reset(b->scratch);
  for (int i = 0; ok && results && i < c->results; i++) results[i] = (wv_value *)out[i];
  return ok;
}

bool wv_op(wv_builder *b, const char *name, wv_value *const *args, int nargs, const wv_attr *attrs,
           int nattrs, wv_type given, wv_place at, wv_value **results) {
  API_BUILDS(b, false);
  if (!has_parts(b, name, args, nargs, attrs, nattrs)) return false;
  Span span = api_span(context_of(b), at);
  const struct Composed *several = find_composed(name);
  if (several) return compose(b, several, args, nargs, attrs, nattrs, span, results);
  OpKind kind = find_op(b, name, span);
  Attr *translated = ARENA_ARRAY(b->scratch, Attr, nattrs);
  const Op *op = NULL;
  if (kind != OP_COUNT && api_attrs(context_of(b), b->scratch, attrs, nattrs, span, translated))
    op = build_op(b->b, kind, span, values_of(b, args, nargs), nargs, translated, nattrs,
                  api_type(given));
  arena_reset(b->scratch);
  return hand_out(op, results);
}

static Coord *coords_of(wv_builder *b, const wv_coord *from, int n) {
  Coord *out = ARENA_ARRAY(b->scratch, Coord, n);
  for (int i = 0; i < n; i++) out[i] = (Coord){api_sym(from[i].expr), api_value(from[i].value)};
  return out;
}

bool wv_access(wv_builder *b, wv_value *value, wv_value *memory, const wv_coord *source,
               int nsource, const wv_coord *target, int ntarget, const wv_attr *attrs, int nattrs,
               wv_place at, wv_value **result) {
  API_BUILDS(b, false);
  if (!api_list(b->cx, source, nsource, "indices") ||
      !api_list(b->cx, target, ntarget, "indices") ||
      !api_expected(b->cx, memory != NULL, "a memory") ||
      !has_parts(b, "read", NULL, 0, attrs, nattrs))
    return false;
  Span span = api_span(context_of(b), at);
  Attr *translated = ARENA_ARRAY(b->scratch, Attr, nattrs);
  const Op *op = NULL;
  if (api_attrs(context_of(b), b->scratch, attrs, nattrs, span, translated))
    op = build_access(b->b, api_value(value), api_value(memory), coords_of(b, source, nsource),
                      nsource, coords_of(b, target, ntarget), ntarget, translated, nattrs, span);
  arena_reset(b->scratch);
  return hand_out(op, result);
}

wv_value *wv_literal(wv_builder *b, double number, int64_t integer, bool is_integer,
                     const wv_value *like, wv_place at) {
  API_BUILDS(b, NULL);
  bool is_unsigned = is_integer && integer < 0 && number > 0;
  Number n = {is_integer, is_unsigned, integer, number};
  return (wv_value *)build_literal(b->b, n, (const Value *)like, api_span(context_of(b), at));
}

/* ---- regions ---- */
bool wv_begin(wv_builder *b, const char *name, wv_value *const *args, int nargs,
              const wv_attr *attrs, int nattrs, wv_place at) {
  API_BUILDS(b, false);
  if (!has_parts(b, name, args, nargs, attrs, nattrs)) return false;
  Span span = api_span(context_of(b), at);
  OpKind kind = find_op(b, name, span);
  Attr *translated = ARENA_ARRAY(b->scratch, Attr, nattrs);
  bool known = kind != OP_COUNT && ((op_info[kind].flags & OPF_REGION) || op_combines(kind));
  if (kind != OP_COUNT && !known)
    diag_add(&context_of(b)->diags, DIAG_E0408, span, "`%s` has no body", name);
  bool ok = known && api_attrs(context_of(b), b->scratch, attrs, nattrs, span, translated);
  if (ok) ok = build_begin(b->b, kind, span, values_of(b, args, nargs), nargs, translated, nattrs);
  arena_reset(b->scratch);
  return ok;
}

/* The carried arguments: the axis value of a while loop is accessed through its symbol. */
int wv_region_args(wv_builder *b, wv_value **out, int cap) {
  API_BUILDS(b, 0);
  const Region *r = build_region(b->b);
  int first = r->owner && r->owner->kind == OP_while ? 1 : 0, n = r->nargs - first;
  for (int i = 0; i < n && i < cap; i++) out[i] = (wv_value *)r->args[first + i];
  return n;
}

bool wv_else(wv_builder *b, wv_value *const *yields, int n, wv_place at) {
  API_BUILDS(b, false);
  if (!has_parts(b, "yield", yields, n, NULL, 0)) return false;
  bool ok = build_else(b->b, values_of(b, yields, n), n, api_span(context_of(b), at));
  arena_reset(b->scratch);
  return ok;
}

bool wv_end(wv_builder *b, wv_value *const *yields, int n, wv_place at, wv_value **results) {
  API_BUILDS(b, false);
  if (!has_parts(b, "yield", yields, n, NULL, 0)) return false;
  const Op *op = build_end(b->b, values_of(b, yields, n), n, api_span(context_of(b), at));
  arena_reset(b->scratch);
  return hand_out(op, results);
}

/* ---- values ---- */

wv_type wv_value_type(const wv_value *v) {
  API_PLAIN;
  return v ? (wv_type)((const Value *)v)->type : NULL;
}

void wv_value_name(wv_builder *b, wv_value *v, const char *name) {
  API_BUILDS(b, );
  if (v && name) api_value(v)->name = intern(&context_of(b)->names, name);
}

bool wv_value_add_tag(wv_builder *b, wv_value *v, const char *tag) {
  API_BUILDS(b, false);
  Op *op = v && tag ? api_value(v)->def : NULL;
  if (!op) return false;
  const Attr *old = op_attr(op, ATTR_tag);
  int n = old ? old->n : 0;
  const char **texts = ARENA_ARRAY(b->scratch, const char *, n + 1);
  for (int i = 0; i < n; i++) {
    if (old->texts[i] == intern(&context_of(b)->names, tag)) return true;
    texts[i] = old->texts[i];
  }
  texts[n] = tag;
  Kernel *k = builder_kernel(b->b);
  op_set_attr(k, op, attr_copy(k, &(Attr){.key = ATTR_tag, .n = n + 1, .texts = texts}));
  arena_reset(b->scratch);
  return true;
}
