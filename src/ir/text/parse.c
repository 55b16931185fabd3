/* parse.c: *.wave text to kernels; docs/ir.md is the grammar.
 *
 * The parser knows only the shape of the text and the names of values: what an op means, which
 * attributes it takes and which types fit is checked by build.h, once for all front ends. After a
 * mistake it continues with the next statement; a value whose definition failed is known as NULL,
 * which build.h passes on silently. */
#include "ir/text/parse.h"

#include <ctype.h>
#include <string.h>

typedef Vec(Value *) ValueList;
typedef Vec(Attr) AttrList;

/* ---- names of values ---- */

static Definition *find_definition(Parser *p, const char *name) {
  return map_get(&p->by_name, map_key(intern(&p->spellings, name)));
}

static void fail_twice(Parser *p, const Token *t, const Definition *first) {
  Diag *d = diag_add(&p->cx->diags, DIAG_E0508, t->span, "`%%%s` is defined twice", t->text);
  diag_note(&p->cx->diags, d, first->at, "it is first defined here");
}

/* Binds the name of a token to `value`, which keeps it as a hint for the printer unless it is a
 * number. */
static void define(Parser *p, const Token *t, Value *value) {
  const Definition *first = find_definition(p, t->text);
  if (first) {
    fail_twice(p, t, first);
    return;
  }
  Definition *d = ARENA_NEW(p->scratch, Definition);
  *d = (Definition){.name = intern(&p->spellings, t->text), .value = value, .at = t->span};
  map_set(p->scratch, &p->by_name, map_key(d->name), d);
  vec_push(p->scratch, &p->visible, d);
  if (value && !isdigit((unsigned char)*t->text)) value->name = intern(&p->cx->names, t->text);
}

static const char *nearest_visible(Parser *p, const char *name) {
  const char **names = ARENA_ARRAY(p->scratch, const char *, p->visible.n + 1);
  for (int i = 0; i < p->visible.n; i++) names[i] = p->visible.at[i]->name;
  return diag_nearest(name, names, p->visible.n);
}

static bool fail_undefined(Parser *p, const Token *t, const Definition *ended) {
  Diag *d = diag_add(&p->cx->diags, DIAG_E0507, t->span, "`%%%s` is not defined here", t->text);
  if (ended) {
    diag_note(&p->cx->diags, d, ended->at, "it is defined in a region that has ended");
    return diag_hint(&p->cx->diags, d, "return it from the region with `yield`");
  }
  const char *near = nearest_visible(p, t->text);
  if (near) diag_hint(&p->cx->diags, d, "did you mean `%%%s`?", near);
  return false;
}

/* A use of a value. *out is NULL for one whose definition failed. */
static bool parse_use(Parser *p, Value **out) {
  if (p->tok.kind != TOK_value) return parse_fail_expected(p, "a value");
  Token t = p->tok;
  parse_advance(p);
  const Definition *d = find_definition(p, t.text);
  if (!d || d->ended) return fail_undefined(p, &t, d);
  *out = d->value;
  return true;
}

static bool parse_uses(Parser *p, ValueList *out) {
  do {
    Value *v;
    if (!parse_use(p, &v)) return false;
    vec_push(p->scratch, out, v);
  } while (parse_accept(p, ','));
  return true;
}

static void end_scope(Parser *p, int visible) {
  while (p->visible.n > visible) p->visible.at[--p->visible.n]->ended = true;
}

/* ---- statements ---- */

typedef struct Statement {
  OpKind kind;
  Span at;
  Vec(Token) names; /* of the results */
  ValueList args;
  AttrList attrs;
  Vec(const Type *) types; /* written for the results */
  Vec(bool) varying;
  Vec(const Layout *) layouts;
  Vec(Token) carried; /* names of the region's arguments */
  Vec(bool) carried_varying;
} Statement;

static bool add_attr(Parser *p, Statement *st, AttrKey key, Span at) {
  for (int i = 0; i < st->attrs.n; i++) {
    if (st->attrs.at[i].key != key) continue;
    return diag_fail(&p->cx->diags, DIAG_E0508, at, "`%s` is given twice", attr_info[key].name);
  }
  Attr a;
  if (!parse_attr_value(p, key, &a)) return false;
  vec_push(p->scratch, &st->attrs, a);
  return true;
}

static bool fail_attr(Parser *p, const Statement *st, const Token *name) {
  const char *names[ATTR_COUNT];
  int n = 0;
  for (int i = 0; i < ATTR_COUNT; i++)
    if (op_admits(st->kind, (AttrKey)i)) names[n++] = attr_info[i].name;
  return parse_fail_unknown(p, DIAG_E0504, name, "attribute", names, n);
}

static bool parse_attr(Parser *p, Statement *st) {
  Token name = p->tok;
  if (name.kind != TOK_word) return parse_fail_expected(p, "the name of an attribute");
  AttrKey key = attr_find(name.text);
  if (key == ATTR_NONE) return fail_attr(p, st, &name);
  parse_advance(p);
  bool has_value = attr_info[key].kind != ATTR_KIND_FLAG;
  if (has_value && !parse_expect(p, '=', "and a value")) return false;
  return add_attr(p, st, key, name.span);
}

static bool parse_attrs(Parser *p, Statement *st) {
  if (!parse_expect(p, '{', "to begin the attributes")) return false;
  if (parse_accept(p, '}')) return true;
  do {
    if (!parse_attr(p, st)) return false;
  } while (parse_accept(p, ','));
  return parse_expect(p, '}', "or `,`");
}

static bool parse_types(Parser *p, Statement *st) {
  if (!parse_accept(p, ':')) return true;
  do {
    bool varying = parse_accept_word(p, "varying");
    const Type *t = parse_type(p);
    if (!t) return false;
    const Layout *layout = NULL;
    if (parse_at_punct(p, '@') && !(layout = parse_layout_of(p, t))) return false;
    vec_push(p->scratch, &st->types, t);
    vec_push(p->scratch, &st->varying, varying);
    vec_push(p->scratch, &st->layouts, layout);
  } while (parse_accept(p, ','));
  return true;
}

/* ---- results ---- */

static bool check_counts(Parser *p, const Statement *st, const Op *op) {
  const char *what = st->names.n && st->names.n != op->nresults ? "named" : "typed";
  int given = *what == 'n' ? st->names.n : st->types.n;
  if (given == 0 || given == op->nresults) return true;
  return diag_fail(&p->cx->diags, DIAG_E0510, st->at, "`%s` has %d result%s, but %d %s %s",
                   op_info[op->kind].name, op->nresults, op->nresults == 1 ? "" : "s", given,
                   given == 1 ? "is" : "are", what);
}

static void check_types(Parser *p, const Statement *st, const Op *op) {
  for (int i = 0; i < st->types.n; i++) {
    const Type *written = st->types.at[i], *type = op->results[i].type;
    if (written != type)
      diag_add(&p->cx->diags, DIAG_E0510, st->at, "the result is %s, but %s is written",
               type_text(p->scratch, p->cx, type), type_text(p->scratch, p->cx, written));
  }
}

/* Names the results of an op; if the op failed, the names are bound to NULL. */
static void finish(Parser *p, const Statement *st, Op *op) {
  bool fits = op && check_counts(p, st, op);
  if (fits) check_types(p, st, op);
  for (int i = 0; fits && i < st->types.n; i++) {
    op->results[i].varying = st->varying.at[i];
    ir_set_layout(builder_kernel(p->b), &op->results[i], st->layouts.at[i]);
  }
  for (int i = 0; i < st->names.n; i++) define(p, &st->names.at[i], fits ? &op->results[i] : NULL);
}

/* ---- plain ops ---- */

static bool at_lead(const Parser *p, AttrKind kind) {
  if (p->tok.first || p->tok.kind == TOK_end || p->tok.kind == TOK_value) return false;
  if (kind == ATTR_KIND_TEXT) return p->tok.kind == TOK_string;
  return p->tok.kind != TOK_punct || !strchr("{}:;", p->tok.punct);
}

static bool parse_plain(Parser *p, Statement *st) {
  AttrKey lead = op_info[st->kind].lead;
  if (lead != ATTR_NONE && at_lead(p, attr_info[lead].kind) && !add_attr(p, st, lead, p->tok.span))
    return false;
  if (p->tok.kind == TOK_value && !p->tok.first && !parse_uses(p, &st->args)) return false;
  if (parse_at_punct(p, '{') && !parse_attrs(p, st)) return false;
  if (!parse_types(p, st)) return false;
  st->at = parse_span_from(p, st->at);
  const Type *given = st->types.n ? st->types.at[0] : NULL;
  finish(
      p, st,
      build_op(p->b, st->kind, st->at, st->args.at, st->args.n, st->attrs.at, st->attrs.n, given));
  return true;
}

/* ---- regions ---- */

typedef struct Yield {
  ValueList values;
  Span at;
} Yield;

static bool parse_body(Parser *p, Yield *yield);

static bool parse_carry(Parser *p, Statement *st) {
  if (!parse_accept_word(p, "carry")) return true;
  do {
    bool varying = parse_accept_word(p, "varying");
    Token name = p->tok;
    Value *init;
    if (name.kind != TOK_value) return parse_fail_expected(p, "the name of a carried value");
    parse_advance(p);
    if (!parse_expect(p, '=', "and its initial value") || !parse_use(p, &init)) return false;
    vec_push(p->scratch, &st->carried, name);
    vec_push(p->scratch, &st->carried_varying, varying);
    vec_push(p->scratch, &st->args, init);
  } while (parse_accept(p, ','));
  return true;
}

static bool parse_use_arg(Parser *p, Statement *st) {
  Value *v;
  if (!parse_use(p, &v)) return false;
  vec_push(p->scratch, &st->args, v);
  return true;
}

static bool parse_for(Parser *p, Statement *st) {
  if (!add_attr(p, st, ATTR_axis, p->tok.span)) return false;
  if (parse_accept_word(p, "from")) {
    vec_push(p->scratch, &st->attrs, ((Attr){.key = ATTR_from}));
    if (!parse_use_arg(p, st)) return false;
  }
  return !parse_accept_word(p, "step") || add_attr(p, st, ATTR_step, p->tok.span);
}

static bool parse_version(Parser *p, Statement *st) {
  Attr version = {.key = ATTR_version, .sym = parse_symbol(p)};
  vec_push(p->scratch, &st->attrs, version);
  return version.sym != NULL;
}

/* while K as K.2 (%k) from %start cond EXPR: the axis value is the region's first argument. */
static bool parse_while(Parser *p, Statement *st) {
  if (!add_attr(p, st, ATTR_axis, p->tok.span)) return false;
  if (parse_accept_word(p, "as") && !parse_version(p, st)) return false;
  if (!parse_expect(p, '(', "and the name of the axis value")) return false;
  vec_push(p->scratch, &st->carried_varying, parse_accept_word(p, "varying"));
  if (p->tok.kind != TOK_value) return parse_fail_expected(p, "the name of the axis value");
  vec_push(p->scratch, &st->carried, p->tok);
  parse_advance(p);
  if (!parse_expect(p, ')', NULL) || !parse_expect_word(p, "from") || !parse_use_arg(p, st))
    return false;
  return parse_expect_word(p, "cond") && add_attr(p, st, ATTR_expr, p->tok.span);
}

static bool parse_if(Parser *p, Statement *st) {
  if (p->tok.kind == TOK_value) return parse_use_arg(p, st);
  return add_attr(p, st, ATTR_expr, p->tok.span);
}

static bool parse_region_head(Parser *p, Statement *st) {
  bool ok = st->kind == OP_for     ? parse_for(p, st)
            : st->kind == OP_while ? parse_while(p, st)
                                   : parse_if(p, st);
  if (!ok) return false;
  if (parse_accept_word(p, "with") && !parse_attrs(p, st)) return false;
  if (!parse_carry(p, st) || !parse_types(p, st)) return false;
  st->at = parse_span_from(p, st->at);
  if (parse_at_punct(p, '{')) return true;
  return parse_fail_expected(p, "`{` to begin the body");
}

/* A carried value has the layout of the result that it becomes. */
static void define_carried(Parser *p, const Statement *st, const Region *r) {
  int axis = st->kind == OP_while ? 1 : 0;
  for (int i = 0; i < st->carried.n; i++) {
    Value *arg = i < r->nargs ? r->args[i] : NULL;
    if (arg) arg->varying = st->carried_varying.at[i];
    if (arg && i >= axis && i - axis < st->layouts.n)
      ir_set_layout(builder_kernel(p->b), arg, st->layouts.at[i - axis]);
    define(p, &st->carried.at[i], arg);
  }
}

static bool parse_region(Parser *p, Statement *st) {
  if (!parse_region_head(p, st)) return false;
  if (p->depth == PARSE_DEPTH)
    return diag_fail(&p->cx->diags, DIAG_E0512, st->at, "more than %d nested regions", PARSE_DEPTH);
  int visible = p->visible.n;
  build_begin(p->b, st->kind, st->at, st->args.at, st->args.n, st->attrs.at, st->attrs.n);
  define_carried(p, st, build_region(p->b));
  Yield yield = {0};
  p->depth++;
  bool ok = parse_body(p, &yield);
  p->depth--;
  end_scope(p, visible);
  finish(p, st, build_end(p->b, yield.values.at, yield.values.n, yield.at));
  return ok;
}

/* ---- bodies ---- */

static const char *const *op_names(Parser *p) {
  const char **names = ARENA_ARRAY(p->scratch, const char *, OP_COUNT);
  for (int i = 0; i < OP_COUNT; i++) names[i] = op_info[i].name;
  return names;
}

static bool parse_result_names(Parser *p, Statement *st) {
  if (p->tok.kind != TOK_value) return true;
  do {
    if (p->tok.kind != TOK_value) return parse_fail_expected(p, "the name of a result");
    vec_push(p->scratch, &st->names, p->tok);
    parse_advance(p);
  } while (parse_accept(p, ','));
  return parse_expect(p, '=', "and an operation");
}

static bool parse_op(Parser *p, Statement *st) {
  if (!parse_result_names(p, st)) return false;
  if (p->tok.kind != TOK_word)
    return st->names.n ? parse_fail_expected(p, "an operation")
                       : parse_fail_here(p, "an operation");
  st->kind = op_find(p->tok.text);
  st->at = p->tok.span;
  if (st->kind == OP_COUNT)
    return parse_fail_unknown(p, DIAG_E0503, &p->tok, "operation", op_names(p), OP_COUNT);
  parse_advance(p);
  return op_info[st->kind].flags & OPF_REGION ? parse_region(p, st) : parse_plain(p, st);
}

static bool at_statement_end(const Parser *p) {
  return p->tok.first || p->tok.kind == TOK_end || parse_at_punct(p, ';') || parse_at_punct(p, '}');
}

static void parse_statement(Parser *p) {
  Statement st = {0};
  int braces = p->braces, visible = p->visible.n;
  const char *start = p->tok.at;
  bool ok = parse_op(p, &st);
  if (ok && at_statement_end(p)) return;
  if (ok) parse_fail_expected(p, "a new line or `;`");
  else if (p->visible.n == visible) finish(p, &st, NULL);
  if (p->tok.at == start) parse_advance(p);
  parse_skip_statement(p, braces);
}

/* `yield` passes values on and ends a region; a kernel's body cannot yield any. */
static void parse_yield(Parser *p, Yield *yield) {
  Span at = p->tok.span;
  int braces = p->braces;
  parse_advance(p);
  bool ok = p->tok.kind != TOK_value || p->tok.first || parse_uses(p, &yield->values);
  yield->at = parse_span_from(p, at);
  if (p->depth == 0)
    diag_add(&p->cx->diags, DIAG_E0509, yield->at, "`yield` outside a loop or conditional");
  if (!ok) parse_skip_statement(p, braces);
  while (parse_accept(p, ';')) continue;
  if (parse_at_punct(p, '}') || p->tok.kind == TOK_end) return;
  diag_add(&p->cx->diags, DIAG_E0509, p->tok.span, "nothing may follow `yield` in its region");
}

static bool give_up(Parser *p) { return p->cx->diags.errors - p->errors > PARSE_ERRORS; }

/* { statements }. Without a yield, missing values are reported at the closing brace. */
static bool parse_body(Parser *p, Yield *yield) {
  Span open = p->tok.span;
  parse_advance(p);
  while (p->tok.kind != TOK_end && !parse_at_punct(p, '}') && !give_up(p)) {
    if (parse_accept(p, ';')) continue;
    if (parse_at_word(p, "yield")) parse_yield(p, yield);
    else parse_statement(p);
  }
  if (!yield->at.line) yield->at = p->tok.span;
  if (parse_accept(p, '}')) return true;
  if (give_up(p)) return false;
  parse_fail_expected(p, "`}` to end the body");
  diag_note(&p->cx->diags, p->cx->diags.last, open, "the body begins here");
  return false;
}

/* ---- kernels ---- */

static bool parse_param(Parser *p) {
  Token name = p->tok;
  const Sym *binds = NULL;
  const char *what = "the name of a parameter, such as `%a`", *log = NULL, *report = NULL;
  if (name.kind != TOK_value) return parse_fail_expected(p, what);
  if (isdigit((unsigned char)*name.text)) return parse_fail_here(p, what);
  parse_advance(p);
  const Type *type = parse_expect(p, ':', "and a type") ? parse_type(p) : NULL;
  bool ok = type && (!parse_accept_word(p, "binds") || (binds = parse_symbol(p)) != NULL);
  bool workspace = ok && parse_accept_word(p, "workspace");
  bool undefined = workspace && parse_accept_word(p, "undefined");
  ok = ok && (!parse_accept_word(p, "log") ||
              parse_expect_text(p, TOK_string, "the label of a log", &log));
  ok = ok && (!parse_accept_word(p, "report") ||
              parse_expect_text(p, TOK_string, "the subject of the report", &report));
  const Definition *first = find_definition(p, name.text);
  if (first) fail_twice(p, &name, first);
  bool full = builder_kernel(p->b)->params.n == IR_MAX_PARAMS;
  ok = ok && !p->params_full;
  p->params_full = full;
  Value *v = ok && !first ? build_param(p->b, name.text, type, binds, name.span) : NULL;
  if (!first) define(p, &name, v);
  if (v && log) kernel_set_log(builder_kernel(p->b), v, log);
  if (v && report) kernel_set_report(builder_kernel(p->b), v, report);
  if (v) builder_kernel(p->b)->params.at[v->index].workspace = workspace;
  if (v) builder_kernel(p->b)->params.at[v->index].undefined = undefined;
  return ok;
}

/* After a mistake, continues after the next comma that is followed by a value. */
static void skip_param(Parser *p) {
  while (p->tok.kind != TOK_end && !parse_at_punct(p, ')') && !parse_at_punct(p, '{')) {
    if (parse_at_punct(p, ',') && parse_peek_token(p).kind == TOK_value) return;
    parse_advance(p);
  }
}

static void parse_params(Parser *p) {
  if (!parse_expect(p, '(', "and the parameters")) return;
  if (parse_accept(p, ')')) return;
  do {
    if (!parse_param(p)) skip_param(p);
  } while (parse_accept(p, ','));
  parse_expect(p, ')', "or `,`");
}

static void parse_kernel_body(Parser *p) {
  Yield none = {0};
  if (parse_at_punct(p, '{')) parse_body(p, &none);
  else parse_fail_expected(p, "`{` to begin the body");
}

static Kernel *parse_kernel(Parser *p) {
  int errors = p->cx->diags.errors;
  Level level = parse_accept_word(p, "thread") ? LEVEL_THREAD : LEVEL_TILE;
  if (!parse_accept_word(p, "kernel")) return parse_fail_here(p, "`kernel`"), NULL;
  Token name = p->tok;
  if (name.kind != TOK_kernel)
    return parse_fail_expected(p, "the kernel's name, such as `@gemm`"), NULL;
  parse_advance(p);
  p->b = builder_new(p->cx, name.text, name.span);
  builder_kernel(p->b)->level = level;
  p->by_name = (Map){0};
  p->visible.n = p->depth = 0;
  p->params_full = p->rows_full = false;
  parse_params(p);
  parse_rows(p);
  parse_kernel_body(p);
  if (p->cx->diags.errors == errors) {
    Kernel *k = build_finish(p->b);
    if (k) ir_warn(k);
    return k;
  }
  builder_free(p->b);
  return NULL;
}

static bool at_kernel(const Parser *p) {
  return parse_at_word(p, "kernel") || parse_at_word(p, "thread");
}

/* Skips to the next `kernel` at the start of a line, unless a kernel has just ended. */
static void skip_kernel(Parser *p, const char *start) {
  bool ended = p->last.kind == TOK_punct && p->last.punct == '}';
  if (p->tok.at == start) parse_advance(p);
  else if (ended) return;
  while (p->tok.kind != TOK_end && !(p->tok.first && at_kernel(p))) parse_advance(p);
}

KernelList ir_parse(Context *cx, const char *name, const char *text, Arena *a) {
  Parser p = {.cx = cx, .scratch = arena_new(), .errors = cx->diags.errors};
  p.spellings.arena = p.scratch;
  p.lx = lex_new(p.scratch, sources_file(&cx->sources, name, text), text);
  p.tok = lex_next(&p.lx);
  Vec(Kernel *) kernels = {0};
  while (p.tok.kind != TOK_end && !give_up(&p)) {
    const char *start = p.tok.at;
    Kernel *k = parse_kernel(&p);
    if (k) vec_push(a, &kernels, k);
    else skip_kernel(&p, start);
  }
  arena_free(p.scratch);
  return (KernelList){kernels.at, kernels.n};
}
