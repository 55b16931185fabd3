/* parse_value.c: expressions, types and the values of attributes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse.h"

/* ---- expressions ---- */

/* How much of the text an expression may cover: it ends before a brace, a value or a comment, and
 * outside parentheses at the end of the line, or with what separates the items of a list: a list
 * is not read to its end for each of them. sym/ decides where it really ends. (`%` is never an
 * operator here: it begins a value. Names in backquotes may contain anything.) */
static size_t expr_room(const char *text, const char *end) {
  int depth = 0;
  bool quoted = false;
  const char *c = text;
  for (; c < end && (quoted || !strchr("{};%#", *c)); c++) {
    quoted ^= *c == '`';
    if (quoted) continue;
    depth += *c == '(';
    depth -= *c == ')';
    if (depth < 0 || (*c == '\n' && depth == 0)) break;
    if (depth == 0 && strchr(",:]", *c)) return (size_t)(c + 1 - text);
  }
  return (size_t)(c - text);
}

static bool begins_expr(const Token *t) {
  if (t->kind == TOK_punct) return strchr("-+(~`", t->punct) != NULL;
  return t->kind == TOK_word || t->kind == TOK_int || t->kind == TOK_float;
}

static void move_behind(Parser *p, const char *to) {
  p->last = p->tok;
  p->last.len = (size_t)(to - p->tok.at);
  p->last.span.len = (uint32_t)p->last.len;
  p->lx.at = p->tok.at;
  p->lx.line = p->tok.span.line;
  p->lx.line_start = p->tok.at - (p->tok.span.col - 1);
  p->lx.fresh = false;
  lex_seek(&p->lx, to);
  p->tok = lex_next(&p->lx);
}

static const Sym *parse_expr_until(Parser *p, bool comparisons) {
  if (!begins_expr(&p->tok)) return parse_fail_expected(p, "an expression"), NULL;
  const char *text = p->tok.at;
  size_t used = 0;
  size_t room = expr_room(text, p->lx.end);
  const Sym *s = sym_parse_prefix(p->cx->sym, text, room, comparisons, &used);
  if (s) {
    move_behind(p, text + used);
    return s;
  }
  Span at = p->tok.span;
  at.col += (uint32_t)used;
  at.len = 1;
  diag_add(&p->cx->diags, DIAG_E0105, at, "%s", sym_take_error(p->cx->sym));
  return NULL;
}

const Sym *parse_expr(Parser *p) { return parse_expr_until(p, true); }

/* Inside <...> a comparison must be in parentheses. */
static const Sym *parse_dim(Parser *p) { return parse_expr_until(p, false); }

/* A bare name is taken as it is: `K.2 (%k)` is not a call. */
const Sym *parse_symbol(Parser *p) {
  bool is_call = parse_at_word(p, "signed") && parse_peek_token(p).punct == '(';
  Token t = p->tok;
  if (t.kind == TOK_word && !is_call) {
    parse_advance(p);
    return sym_symbol(p->cx->sym, t.text, true);
  }
  const Sym *s = parse_expr(p);
  if (!s || sym_name(s)) return s;
  diag_add(&p->cx->diags, DIAG_E0501, t.span, "expected a symbol, found an expression");
  return NULL;
}

/* ---- lists: `open item, item, ... close` ---- */

typedef bool ParseItem(Parser *p, void *list);

static bool parse_list(Parser *p, char open, char close, ParseItem *item, void *list) {
  if (!parse_expect(p, open, NULL)) return false;
  if (parse_accept(p, close)) return true;
  do {
    if (!item(p, list)) return false;
  } while (parse_accept(p, ','));
  return parse_expect(p, close, "or `,`");
}

typedef Vec(SymPair) PairList;
typedef Vec(const Sym *) SymList;

static bool parse_pair(Parser *p, void *list) {
  SymPair pair;
  if (!(pair.key = parse_expr(p)) || !parse_expect(p, ':', NULL)) return false;
  if (!(pair.value = parse_expr(p))) return false;
  vec_push(p->scratch, (PairList *)list, pair);
  return true;
}

bool parse_pairs(Parser *p, SymPairs *out) {
  PairList list = {0};
  if (!parse_list(p, '{', '}', parse_pair, &list)) return false;
  *out = (SymPairs){list.at, list.n};
  return true;
}

static bool parse_sym_item(Parser *p, void *list) {
  const Sym *s = parse_expr(p);
  if (s) vec_push(p->scratch, (SymList *)list, s);
  return s != NULL;
}

/* ---- types ---- */

/* A dtype ends the dimensions; a dimension with the name of a dtype must be in parentheses. */
static bool at_dtype(const Parser *p, DType *out) {
  if (p->tok.kind != TOK_word || !dtype_parse(p->tok.text, out)) return false;
  Token next = parse_peek_token(p);
  return next.kind == TOK_punct && (next.punct == ',' || next.punct == '>');
}

/* `what`: "element type", or "type" if a tensor would do as well. */
static bool fail_type(Parser *p, const Token *t, const char *what) {
  enum { TENSORS = 4 };
  const char *names[TENSORS + DTYPE_COUNT] = {"tile", "vec", "mem", "token"};
  for (int i = 0; i < DTYPE_COUNT; i++) names[TENSORS + i] = dtype_info[i].name;
  bool any = *what == 't';
  return parse_fail_unknown(p, DIAG_E0506, t, what, any ? names : names + TENSORS,
                            any ? TENSORS + DTYPE_COUNT : DTYPE_COUNT);
}

static bool fail_no_dtype(Parser *p, const Token *last) {
  if (!parse_at_punct(p, '>')) return parse_fail_expected(p, "`,` or `>`");
  return fail_type(p, last, "element type");
}

static bool fail_rank(Parser *p, Span at) {
  return diag_fail(&p->cx->diags, DIAG_E0506, at, "a type has at most %d dimensions", IR_MAX_RANK);
}

static bool parse_dims(Parser *p, SymList *dims, DType *dtype) {
  while (!at_dtype(p, dtype)) {
    Token dim = p->tok;
    const Sym *s = parse_dim(p);
    if (!s) return false;
    vec_push(p->scratch, dims, s);
    if (dims->n > IR_MAX_RANK) return fail_rank(p, dim.span);
    if (!parse_accept(p, ',')) return fail_no_dtype(p, &dim);
  }
  parse_advance(p);
  if (dims->n) return true;
  Diag *d = diag_add(&p->cx->diags, DIAG_E0506, p->last.span,
                     "a tensor type needs at least one dimension");
  return diag_hint(&p->cx->diags, d, "write `%s` for a scalar", dtype_info[*dtype].name);
}

static bool parse_layout_item(Parser *p, void *list) {
  if (!parse_at_word(p, "_")) return parse_sym_item(p, list);
  parse_advance(p);
  vec_push(p->scratch, (SymList *)list, NULL);
  return true;
}

typedef struct MemParts {
  const Sym *space;
  const Sym *const *layout;
} MemParts;

static bool parse_layout(Parser *p, int rank, MemParts *out) {
  SymList list = {0};
  Span at = p->last.span;
  if (!parse_list(p, '(', ')', parse_layout_item, &list)) return false;
  out->layout = list.at;
  if (list.n == rank) return true;
  return diag_fail(&p->cx->diags, DIAG_E0506, at,
                   "the layout has %d extents, the memory %d dimensions", list.n, rank);
}

static bool parse_mem_part(Parser *p, int rank, MemParts *out) {
  if (parse_accept_word(p, "shared")) return out->space = p->cx->shared_space, true;
  if (parse_accept_word(p, "layout")) return parse_layout(p, rank, out);
  if (!parse_accept_word(p, "space"))
    return parse_fail_expected(p, "`shared`, `space` or `layout`");
  return parse_expect(p, '(', NULL) && (out->space = parse_expr(p)) && parse_expect(p, ')', NULL);
}

static const Type *parse_tensor(Parser *p, bool is_mem) {
  SymList dims = {0};
  DType dtype;
  MemParts parts = {0};
  if (!parse_expect(p, '<', NULL) || !parse_dims(p, &dims, &dtype)) return NULL;
  while (is_mem && parse_accept(p, ','))
    if (!parse_mem_part(p, dims.n, &parts)) return NULL;
  if (!parse_expect(p, '>', is_mem ? "or `,`" : NULL)) return NULL;
  const Type *t = is_mem ? type_mem(p->cx, dims.at, dims.n, dtype, parts.space, parts.layout)
                         : type_tile(p->cx, dims.at, dims.n, dtype);
  if (!t)
    diag_add(&p->cx->diags, DIAG_E0506, p->last.span, "this type has the same dimension twice");
  return t;
}

static const Type *parse_vec(Parser *p) {
  DType dtype;
  int64_t n;
  if (!parse_expect(p, '<', NULL) ||
      !parse_expect_int(p, 1, IR_MAX_VEC, "the number of registers", &n) ||
      !parse_expect(p, ',', NULL))
    return NULL;
  if (!at_dtype(p, &dtype)) return fail_type(p, &p->tok, "element type"), NULL;
  parse_advance(p);
  return parse_expect(p, '>', NULL) ? type_vec(p->cx, (int)n, dtype) : NULL;
}

const Type *parse_type(Parser *p) {
  DType dtype;
  if (p->tok.kind != TOK_word) return parse_fail_expected(p, "a type"), NULL;
  if (parse_accept_word(p, "tile")) return parse_tensor(p, false);
  if (parse_accept_word(p, "mem")) return parse_tensor(p, true);
  if (parse_accept_word(p, "vec")) return parse_vec(p);
  if (parse_accept_word(p, "token")) return type_token(p->cx);
  if (!dtype_parse(p->tok.text, &dtype)) return fail_type(p, &p->tok, "type"), NULL;
  parse_advance(p);
  return type_scalar(p->cx, dtype);
}

/* The syntax of a layout belongs to target/; dims are numbered as in the type. */
const Layout *parse_layout_of(Parser *p, const Type *t) {
  Span start = p->tok.span;
  Layout *l = ARENA_NEW(p->scratch, Layout);
  const char *text = p->tok.at + 1;
  const char *wrong = layout_parse(&text, l);
  if (wrong) {
    start.col += (uint32_t)(text - p->tok.at);
    diag_add(&p->cx->diags, DIAG_E0513, start, "%s", wrong);
    return NULL;
  }
  move_behind(p, text);
  if (t->kind == TYPE_tile && l->dims == t->rank) return l;
  diag_add(&p->cx->diags, DIAG_E0513, parse_span_from(p, start), "a layout with %d dims for %s",
           l->dims, type_text(p->scratch, p->cx, t));
  return NULL;
}

/* ---- numbers ---- */

static bool is_float_word(const Token *t) {
  return t->kind == TOK_float ||
         (t->kind == TOK_word && (strcmp(t->text, "inf") == 0 || strcmp(t->text, "nan") == 0));
}

static bool at_float(const Parser *p) {
  if (!parse_at_punct(p, '-')) return is_float_word(&p->tok);
  Token next = parse_peek_token(p);
  return is_float_word(&next);
}

static bool parse_nan(Parser *p, bool negative, double *out) {
  int64_t payload = 0, most = (INT64_C(1) << 52) - 1;
  if (parse_accept(p, '(') && (!parse_expect_int(p, 1, most, "the payload of a NaN", &payload) ||
                               !parse_expect(p, ')', NULL)))
    return false;
  *out = text_float_nan(negative, (uint64_t)payload);
  return true;
}

static bool parse_float(Parser *p, double *out) {
  bool negative = parse_accept(p, '-');
  Token t = p->tok;
  parse_advance(p);
  if (t.kind == TOK_word && strcmp(t.text, "nan") == 0) return parse_nan(p, negative, out);
  double v =
      t.kind == TOK_word ? (double)INFINITY : strtod(arena_strndup(p->scratch, t.at, t.len), NULL);
  *out = negative ? -v : v;
  if (t.kind == TOK_word || !isinf(v)) return true;
  return diag_fail(&p->cx->diags, DIAG_E0511, t.span, "the number is too large for a double");
}

static bool parse_number(Parser *p, Attr *out) {
  if (at_float(p)) return parse_float(p, &out->number);
  return (out->sym = parse_expr(p)) != NULL;
}

/* ---- matrix instructions ---- */

static bool parse_dot_int(Parser *p, int *out) {
  int64_t v;
  if (!parse_expect_int(p, 0, INT32_MAX, "a vector size", &v)) return false;
  *out = (int)v;
  return true;
}

static bool parse_dot(Parser *p, MmaChoice *out) {
  if (!parse_dot_int(p, &out->out_vec) || !parse_expect(p, ',', NULL)) return false;
  if (!parse_dot_int(p, &out->k_vec) || !parse_expect(p, ',', NULL)) return false;
  if (!parse_dot_int(p, &out->k_mult) || !parse_expect(p, ',', NULL)) return false;
  if (!parse_at_word(p, "M") && !parse_at_word(p, "N")) return parse_fail_expected(p, "`M` or `N`");
  out->along = *p->tok.text;
  parse_advance(p);
  return parse_expect(p, ')', NULL);
}

static bool expect_word_or_string(Parser *p, const char *what, const char **out) {
  TokenKind kind = p->tok.kind == TOK_string ? TOK_string : TOK_word;
  return parse_expect_text(p, kind, what, out);
}

/* order(4, 1, 2, 16): pairs of radix and stride. */
static bool parse_order(Parser *p, const char *word, Digits *out) {
  if (!parse_at_word(p, word) || parse_peek_token(p).punct != '(') return true;
  parse_advance(p), parse_advance(p);
  do {
    int64_t radix, stride;
    if (out->n == LAYOUT_DIGITS) return parse_fail_expected(p, "`)`: there are too many digits");
    if (!parse_expect_int(p, 2, 1 << 16, "a radix", &radix) || !parse_expect(p, ',', NULL))
      return false;
    if (!parse_expect_int(p, 1, 1 << 16, "a stride", &stride)) return false;
    out->at[out->n++] = (Digit){0, (int)radix, (int)stride};
  } while (parse_accept(p, ','));
  return parse_expect(p, ')', NULL);
}

static bool parse_mma_words(Parser *p, MmaChoice *out) {
  out->swap = parse_accept_word(p, "swap");
  out->shared_lhs = parse_accept_word(p, "shared_lhs");
  out->shared_rhs = parse_accept_word(p, "shared_rhs");
  return parse_order(p, "order", &out->order) && parse_order(p, "rows", &out->across[0]) &&
         parse_order(p, "columns", &out->across[1]);
}

bool parse_mma(Parser *p, MmaChoice *out) {
  *out = (MmaChoice){0};
  bool is_dot = parse_at_word(p, "dot") && parse_peek_token(p).punct == '(';
  if (is_dot) parse_advance(p), parse_advance(p);
  if (!(is_dot ? parse_dot(p, out) : expect_word_or_string(p, "a matrix instruction", &out->name)))
    return false;
  return parse_mma_words(p, out);
}

/* ---- the other kinds of attribute ---- */

static bool parse_exprs(Parser *p, Attr *out) {
  SymList list = {0};
  if (!parse_list(p, '[', ']', parse_sym_item, &list)) return false;
  out->exprs = list.at;
  out->n = list.n;
  return true;
}

static bool parse_ints(Parser *p, Attr *out) {
  Span start = p->tok.span;
  SymList list = {0};
  if (!parse_list(p, '[', ']', parse_sym_item, &list)) return false;
  int64_t *ints = ARENA_ARRAY(p->scratch, int64_t, list.n);
  out->ints = ints;
  out->n = list.n;
  for (int i = 0; i < list.n; i++) {
    if (sym_is_int(list.at[i], &ints[i])) continue;
    return diag_fail(&p->cx->diags, DIAG_E0318, parse_span_from(p, start),
                     "`%s` must be a list of numbers", attr_info[out->key].name);
  }
  return true;
}

static bool parse_descriptor(Parser *p, Attr *out) {
  Span start = p->tok.span;
  if (!parse_ints(p, out)) return false;
  const int64_t *v = out->ints;
  bool fits = out->n == 4;
  for (int i = 0; fits && i < 4; i++) fits = v[i] >= 0 && v[i] <= INT32_MAX;
  if (!fits)
    return diag_fail(&p->cx->diags, DIAG_E0318, parse_span_from(p, start),
                     "`%s` must be a list of 4 numbers, each at least 0", attr_info[out->key].name);
  Descriptor d = {v[0], v[1], .span = (int)v[2], .transposed = (int)v[3]};
  out->descriptor = arena_copy(p->scratch, &d, sizeof d);
  out->n = 0;
  return true;
}

typedef Vec(const char *) TextList;

static bool parse_text_item(Parser *p, void *list) {
  const char *text;
  if (!parse_expect_text(p, TOK_string, "a string", &text)) return false;
  vec_push(p->scratch, (TextList *)list, text);
  return true;
}

static bool parse_texts(Parser *p, Attr *out) {
  TextList list = {0};
  if (!parse_list(p, '[', ']', parse_text_item, &list)) return false;
  out->texts = list.at;
  out->n = list.n;
  return true;
}

static bool parse_bounds(Parser *p, Attr *out) {
  SymPairs pairs;
  if (!parse_pairs(p, &pairs)) return false;
  out->pairs = pairs.at;
  out->n = pairs.n;
  return true;
}

typedef Vec(NamedCount) CountList;

static bool parse_count(Parser *p, void *list) {
  NamedCount c;
  if (!expect_word_or_string(p, "a name", &c.name) || !parse_expect(p, ':', NULL)) return false;
  if (!parse_expect_int(p, INT32_MIN, INT32_MAX, "a count", &c.count)) return false;
  vec_push(p->scratch, (CountList *)list, c);
  return true;
}

static bool parse_counts(Parser *p, Attr *out) {
  CountList list = {0};
  if (!parse_list(p, '{', '}', parse_count, &list)) return false;
  out->counts = list.at;
  out->n = list.n;
  return true;
}

typedef Vec(LogIter) IterList;

static bool parse_iter(Parser *p, void *list) {
  SymList three = {0};
  Span at = p->tok.span;
  if (!parse_list(p, '(', ')', parse_sym_item, &three)) return false;
  if (three.n != 3)
    return diag_fail(&p->cx->diags, DIAG_E0501, at,
                     "expected (symbol, axis, count), found %d entries", three.n);
  vec_push(p->scratch, (IterList *)list, ((LogIter){three.at[0], three.at[1], three.at[2]}));
  return true;
}

static bool parse_iters(Parser *p, Attr *out) {
  IterList list = {0};
  if (!parse_list(p, '[', ']', parse_iter, &list)) return false;
  out->iters = list.at;
  out->n = list.n;
  return true;
}

/* The lists after `with`: a comma followed by anything other than a brace belongs to the
 * attributes. */
static bool parse_dynamic(Parser *p, Mapping *m) {
  Vec(SymPairs) list = {0};
  do {
    SymPairs pairs;
    if (!parse_pairs(p, &pairs)) return false;
    vec_push(p->scratch, &list, pairs);
  } while (parse_at_punct(p, ',') && parse_peek_token(p).punct == '{' && parse_accept(p, ','));
  m->dynamic = list.at;
  m->ndynamic = list.n;
  return true;
}

static bool parse_mapping(Parser *p, Attr *out) {
  Mapping *m = ARENA_NEW(p->scratch, Mapping);
  int64_t iterators;
  if (!parse_expect_word(p, "map")) return false;
  if (!parse_expect_int(p, 0, 64, "the number of iterators", &iterators)) return false;
  m->niterators = (int)iterators;
  if (!parse_pairs(p, &m->inputs)) return false;
  if (p->tok.kind != TOK_arrow) return parse_fail_expected(p, "`->`");
  parse_advance(p);
  if (!parse_pairs(p, &m->outputs)) return false;
  if (parse_accept_word(p, "with") && !parse_dynamic(p, m)) return false;
  out->mapping = m;
  return true;
}

static bool parse_mma_attr(Parser *p, Attr *out) {
  MmaChoice *m = ARENA_NEW(p->scratch, MmaChoice);
  out->mma = m;
  return parse_mma(p, m);
}

/* As for layouts, the syntax belongs to target/. */
static bool parse_memory_attr(Parser *p, Attr *out) {
  Span at = p->tok.span;
  MemLayout *m = ARENA_NEW(p->scratch, MemLayout);
  const char *text = p->tok.at, *wrong = mem_parse(&text, m);
  out->memory = m;
  if (!wrong) return move_behind(p, text), true;
  at.col += (uint32_t)(text - p->tok.at);
  at.len = 1;
  return diag_fail(&p->cx->diags, DIAG_E0513, at, "%s", wrong);
}

typedef Vec(CombineStep) StepList;

/* The rule of the op checks whether the numbers are those of earlier steps. */
static bool parse_step_args(Parser *p, CombineStep *out) {
  while (p->tok.kind == TOK_word && *p->tok.text == '$' && out->nargs < STEP_ARGS) {
    char *end;
    long n = strtol(p->tok.text + 1, &end, 10);
    if (end == p->tok.text + 1 || *end || n < 0 || n > INT32_MAX) break;
    out->args[out->nargs++] = (int)n;
    parse_advance(p);
  }
  return true;
}

static bool parse_step(Parser *p, void *list) {
  CombineStep step = {0};
  Token name = p->tok;
  const char *op, *dtype;
  Attr value = {.key = ATTR_value};
  if (!parse_expect_text(p, TOK_word, "an op", &op)) return false;
  step.kind = op_find(op);
  if (step.kind == OP_COUNT)
    return diag_fail(&p->cx->diags, DIAG_E0309, name.span, "unknown op `%s`", op);
  if (step.kind == OP_scalar && !parse_number(p, &value)) return false;
  step.sym = value.sym;
  if (!value.sym) step.number = value.number;
  if (!parse_step_args(p, &step) || !parse_expect(p, ':', "and the dtype of the step"))
    return false;
  name = p->tok;
  if (!parse_expect_text(p, TOK_word, "a dtype", &dtype)) return false;
  if (!dtype_parse(dtype, &step.dtype)) return fail_type(p, &name, "element type");
  vec_push(p->scratch, (StepList *)list, step);
  return true;
}

static bool parse_steps(Parser *p, Attr *out) {
  StepList list = {0};
  if (!parse_list(p, '[', ']', parse_step, &list)) return false;
  out->steps = list.at ? list.at : ARENA_NEW(p->scratch, CombineStep);
  out->n = list.n;
  return true;
}

bool parse_attr_value(Parser *p, AttrKey key, Attr *out) {
  *out = (Attr){.key = key};
  switch (attr_info[key].kind) {
  case ATTR_KIND_NUMBER: return parse_number(p, out);
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM: return (out->sym = parse_expr(p)) != NULL;
  case ATTR_KIND_EXPRS: return parse_exprs(p, out);
  case ATTR_KIND_INT: return parse_expect_int(p, INT64_MIN, INT64_MAX, "an integer", &out->integer);
  case ATTR_KIND_INTS: return parse_ints(p, out);
  case ATTR_KIND_FLAG: return true;
  case ATTR_KIND_TEXT: return parse_expect_text(p, TOK_string, "a string", &out->text);
  case ATTR_KIND_WORD: return parse_expect_text(p, TOK_word, "a word", &out->text);
  case ATTR_KIND_TEXTS: return parse_texts(p, out);
  case ATTR_KIND_BOUNDS: return parse_bounds(p, out);
  case ATTR_KIND_MAPPING: return parse_mapping(p, out);
  case ATTR_KIND_MMA: return parse_mma_attr(p, out);
  case ATTR_KIND_COUNTS: return parse_counts(p, out);
  case ATTR_KIND_ITERS: return parse_iters(p, out);
  case ATTR_KIND_MEMORY: return parse_memory_attr(p, out);
  case ATTR_KIND_DESCRIPTOR: return parse_descriptor(p, out);
  case ATTR_KIND_STEPS: return parse_steps(p, out);
  }
  return false;
}
