/* api_translate.c: converts the plain structs of wave.h to the compiler's own. */
#include <string.h>

#include "driver/api/api.h"

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
  return (MmaChoice){.name = m->name,
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
  case ATTR_KIND_DIMS: out.dims = exprs_of(a, from->exprs, out.n = from->n); break;
  case ATTR_KIND_INT: out.integer = from->integer; break;
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
  case ATTR_KIND_STEPS: break; /* none: wv_begin and wv_end make them */
  }
  return out;
}

bool api_attrs(Context *cx, Arena *a, const wv_attr *from, int n, Span at, Attr *out) {
  for (int i = 0; i < n; i++) {
    AttrKey key = attr_find(from[i].key);
    if (key == ATTR_NONE) {
      diag_add(&cx->diags, DIAG_E0318, at, "there is no attribute `%s`", from[i].key);
      return false;
    }
    out[i] = attr_of(a, key, &from[i]);
  }
  return true;
}

static bool find_kind(const char *name, ConstraintKind *out) {
  for (int i = 0; i < CONSTRAINT_COUNT; i++)
    if (strcmp(constraint_name[i], name) == 0) return *out = (ConstraintKind)i, true;
  return false;
}

bool api_constraint(Context *cx, Arena *a, const wv_constraint *from, Constraint *out) {
  Span at = api_span(cx, from->at);
  *out = (Constraint){.at = at,
                      .dim = api_sym(from->dim),
                      .size = api_sym(from->size),
                      .start = api_sym(from->start),
                      .count = api_sym(from->count),
                      .expr = api_sym(from->expr),
                      .axis = from->axis,
                      .secondary = from->secondary,
                      .threads = from->threads,
                      .mma = mma_of(&from->mma),
                      .pairs = pairs_of(a, from->pairs, from->npairs),
                      .load_bits = from->load_bits,
                      .service_waves = from->service_waves};
  for (int i = 0; i < 3; i++) {
    out->waves[i] = api_sym(from->waves[i]);
    out->cluster[i] = api_sym(from->cluster[i]);
  }
  if (from->kind && find_kind(from->kind, &out->kind)) return true;
  diag_add(&cx->diags, DIAG_E0212, at, "there is no constraint `%s`", from->kind ? from->kind : "");
  return false;
}
