/* api_translate.c: converts the plain structs of wave.h to the compiler's own. */
#include <string.h>

#include "driver/api/api.h"
#include "target/mma.h"

/* A list that is NULL is empty. */
static SymPairs pairs_of(Arena *a, const wv_pair *from, int n) {
  n = from && n > 0 ? n : 0;
  SymPairs out = {ARENA_ARRAY(a, SymPair, n), n};
  for (int i = 0; i < n; i++) out.at[i] = (SymPair){api_sym(from[i].key), api_sym(from[i].value)};
  return out;
}

static const Sym *const *exprs_of(Arena *a, const wv_expr *from, int n) {
  const Sym **out = ARENA_ARRAY(a, const Sym *, n);
  for (int i = 0; i < n; i++) out[i] = api_sym(from[i]);
  return out;
}

/* NULL: one of them is not a number. */
static const int64_t *ints_of(Arena *a, const wv_expr *from, int n) {
  int64_t *out = ARENA_ARRAY(a, int64_t, n);
  for (int i = 0; i < n; i++) {
    const Sym *s = api_sym(from[i]);
    if (!s || !sym_is_int(s, &out[i])) return NULL;
  }
  return out;
}

Mapping api_mapping(Arena *a, const wv_mapping *m) {
  Mapping out = {.niterators = m->niterators, .ndynamic = m->ndynamic};
  out.inputs = pairs_of(a, m->inputs, m->ninputs);
  out.outputs = pairs_of(a, m->outputs, m->noutputs);
  out.dynamic = ARENA_ARRAY(a, SymPairs, m->ndynamic);
  for (int i = 0; i < m->ndynamic; i++)
    out.dynamic[i] = pairs_of(a, m->dynamic[i], m->ndynamic_pairs[i]);
  return out;
}

static MmaChoice mma_of(const wv_mma *m) {
  return (MmaChoice){.name = m->name ? mma_plain_name(m->name) : NULL,
                     .out_vec = m->out_vec,
                     .k_vec = m->k_vec,
                     .k_mult = m->k_mult,
                     .along = m->along};
}

static NamedCount *counts_of(Arena *a, const wv_count *from, int n) {
  NamedCount *out = ARENA_ARRAY(a, NamedCount, n);
  for (int i = 0; i < n; i++) out[i] = (NamedCount){from[i].name, from[i].count};
  return out;
}

static LogIter *iters_of(Arena *a, const wv_expr *from, int n) {
  LogIter *out = ARENA_ARRAY(a, LogIter, n);
  for (int i = 0; i < n; i++)
    out[i] = (LogIter){api_sym(from[3 * i]), api_sym(from[3 * i + 1]), api_sym(from[3 * i + 2])};
  return out;
}

/* The text form; NULL, which the builder refuses, if it is invalid. */
static const MemLayout *memory_of(Arena *a, const char *text) {
  MemLayout *m = ARENA_NEW(a, MemLayout);
  return text && !mem_parse(&text, m) && !*text ? m : NULL;
}

static Attr attr_of(Arena *a, AttrKey key, const wv_attr *from) {
  Attr out = {.key = key};
  switch (attr_info[key].kind) {
  case ATTR_KIND_NUMBER:
    if (!from->expr) out.number = from->number;
    out.sym = api_sym(from->expr);
    break;
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM: out.sym = api_sym(from->expr); break;
  case ATTR_KIND_EXPRS: out.exprs = exprs_of(a, from->exprs, out.n = from->n); break;
  case ATTR_KIND_INT: out.integer = from->integer; break;
  case ATTR_KIND_INTS: out.ints = ints_of(a, from->exprs, out.n = from->n); break;
  case ATTR_KIND_FLAG: break;
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD: out.text = from->text; break;
  case ATTR_KIND_TEXTS:
    out.n = from->n;
    out.texts = from->texts;
    break;
  case ATTR_KIND_BOUNDS: out.pairs = pairs_of(a, from->pairs, out.n = from->n).at; break;
  case ATTR_KIND_MAPPING:
    if (from->mapping) {
      Mapping m = api_mapping(a, from->mapping);
      out.mapping = arena_copy(a, &m, sizeof m);
    }
    break;
  case ATTR_KIND_MMA:
    if (from->mma) {
      MmaChoice m = mma_of(from->mma);
      out.mma = arena_copy(a, &m, sizeof m);
    }
    break;
  case ATTR_KIND_COUNTS: out.counts = counts_of(a, from->counts, out.n = from->n); break;
  case ATTR_KIND_ITERS: out.iters = iters_of(a, from->exprs, out.n = from->n); break;
  case ATTR_KIND_MEMORY: out.memory = memory_of(a, from->text); break;
  case ATTR_KIND_STEPS:             /* wv_begin and wv_end make them */
  case ATTR_KIND_DESCRIPTOR: break; /* passes do */
  }
  return out;
}

bool api_attrs(Context *cx, Arena *a, const wv_attr *from, int n, Span at, Attr *out) {
  for (int i = 0; i < n; i++) {
    AttrKey key = attr_find(from[i].key);
    if (key == ATTR_NONE)
      return diag_fail(&cx->diags, DIAG_E0318, at, "unknown attribute `%s`", from[i].key);
    out[i] = attr_of(a, key, &from[i]);
  }
  return true;
}

static bool find_kind(const char *name, ConstraintKind *out) {
  for (int i = 0; i < CONSTRAINT_COUNT; i++)
    if (strcmp(constraint_name[i], name) == 0) return *out = (ConstraintKind)i, true;
  return false;
}

/* Where a clause of a header row is in wv_constraint, which has one field for several kinds. */
typedef struct ApiClause {
  ConstraintKind row;
  ClauseKind kind;
  size_t from, to;
} ApiClause;

static const ApiClause api_clauses[] = {
#define INNER(row, word, kind, field, need)
#define CLAUSE(row, word, kind, field, need, api)                                                  \
  {CONSTRAINT_##row, CLAUSE_##kind, offsetof(wv_constraint, api), offsetof(Constraint, row.field)},
#define CONSTRAINT(name, doc, ...) __VA_ARGS__
#include "ir/constraints.def"
};

static void set_clause(Arena *a, ClauseKind kind, const wv_constraint *c, const void *from,
                       void *to) {
  const wv_expr *expr = from;
  const Sym **sym = to;
  switch (kind) {
  case CLAUSE_DIM:
  case CLAUSE_EXPR: *sym = api_sym(*expr); break;
  case CLAUSE_INT:
  case CLAUSE_COUNT: *(int *)to = *(const int *)from; break;
  case CLAUSE_FLAG: *(bool *)to = *(const bool *)from; break;
  case CLAUSE_THREE:
    for (int i = 0; i < 3; i++) sym[i] = api_sym(expr[i]);
    break;
  case CLAUSE_MMA: *(MmaChoice *)to = mma_of(from); break;
  case CLAUSE_PAIRS:
  case CLAUSE_DIMS: *(SymPairs *)to = pairs_of(a, c->pairs, c->npairs); break;
  case CLAUSE_WORD: /* rows of schedules are given as text */
  case CLAUSE_PLACE:
  case CLAUSE_OPS:
  case CLAUSE_ROLES: break;
  }
}

bool api_constraint(Context *cx, Arena *a, const wv_constraint *from, Constraint *out) {
  Span at = api_span(cx, from->at);
  ConstraintKind kind;
  if (!from->kind || !find_kind(from->kind, &kind))
    return diag_fail(&cx->diags, DIAG_E0212, at, "unknown constraint `%s`",
                     from->kind ? from->kind : "");
  *out = constraint_empty(kind, at);
  for (size_t i = 0; i < WV_LEN(api_clauses); i++) {
    const ApiClause *cl = &api_clauses[i];
    if (cl->row != kind) continue;
    set_clause(a, cl->kind, from, (const char *)from + cl->from, (char *)out + cl->to);
  }
  return true;
}

void api_row(const Constraint *c, wv_expr *dim, wv_expr *size) {
  *dim = *size = NULL;
  for (size_t i = 0; i < WV_LEN(api_clauses); i++) {
    const ApiClause *cl = &api_clauses[i];
    if (cl->row != c->kind) continue;
    const Sym *const *field = (const Sym *const *)(const void *)((const char *)c + cl->to);
    if (cl->from == offsetof(wv_constraint, dim)) *dim = api_expr(*field);
    if (cl->from == offsetof(wv_constraint, size)) *size = api_expr(*field);
  }
}
