/* attr.c: see attr.h. Each operation has one switch over the attribute kinds, so that the compiler
 * warns about the missing case of a new kind. */
#include "ir/attr.h"

#include <string.h>

#include "ir/dtype.h"

Attr attr_ints(Kernel *k, AttrKey key, const int *from, int n) {
  int64_t *ints = ARENA_ARRAY(k->arena, int64_t, n);
  for (int i = 0; i < n; i++) ints[i] = from[i];
  return (Attr){.key = key, .n = n, .ints = ints};
}

/* ---- copying ---- */

static void *copy_list(Kernel *k, const void *at, int n, size_t elem) {
  return arena_copy(k->arena, at, (size_t)n * elem);
}

static SymPairs copy_pairs(Kernel *k, SymPairs p) {
  return (SymPairs){copy_list(k, p.at, p.n, sizeof *p.at), p.n};
}

static const Mapping *copy_mapping(Kernel *k, const Mapping *m) {
  Mapping *c = arena_copy(k->arena, m, sizeof *m);
  c->inputs = copy_pairs(k, m->inputs);
  c->outputs = copy_pairs(k, m->outputs);
  c->dynamic = copy_list(k, m->dynamic, m->ndynamic, sizeof *m->dynamic);
  for (int i = 0; i < m->ndynamic; i++) c->dynamic[i] = copy_pairs(k, m->dynamic[i]);
  return c;
}

static const char *copy_text(Kernel *k, const char *s) {
  return s ? intern(&k->cx->names, s) : NULL;
}

static MmaChoice copy_mma(Kernel *k, const MmaChoice *m) {
  MmaChoice c = *m;
  c.name = copy_text(k, m->name);
  return c;
}

static const char *const *copy_texts(Kernel *k, const char *const *texts, int n) {
  const char **c = ARENA_ARRAY(k->arena, const char *, n);
  for (int i = 0; i < n; i++) { /* sorted: a set of tags has one spelling */
    int at = i;
    for (; at > 0 && strcmp(c[at - 1], texts[i]) > 0; at--) c[at] = c[at - 1];
    c[at] = copy_text(k, texts[i]);
  }
  return c;
}

static NamedCount *copy_counts(Kernel *k, const NamedCount *counts, int n) {
  NamedCount *c = copy_list(k, counts, n, sizeof *counts);
  for (int i = 0; i < n; i++) c[i].name = copy_text(k, c[i].name);
  return c;
}

Attr attr_copy(Kernel *k, const Attr *a) {
  Attr c = *a;
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_NUMBER:
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM:
  case ATTR_KIND_INT:
  case ATTR_KIND_FLAG: break;
  case ATTR_KIND_EXPRS: c.exprs = copy_list(k, a->exprs, a->n, sizeof *a->exprs); break;
  case ATTR_KIND_INTS: c.ints = copy_list(k, a->ints, a->n, sizeof *a->ints); break;
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD: c.text = copy_text(k, a->text); break;
  case ATTR_KIND_TEXTS: c.texts = copy_texts(k, a->texts, a->n); break;
  case ATTR_KIND_BOUNDS: c.pairs = copy_list(k, a->pairs, a->n, sizeof *a->pairs); break;
  case ATTR_KIND_MAPPING: c.mapping = copy_mapping(k, a->mapping); break;
  case ATTR_KIND_MMA: {
    MmaChoice m = copy_mma(k, a->mma);
    c.mma = arena_copy(k->arena, &m, sizeof m);
    break;
  }
  case ATTR_KIND_COUNTS: c.counts = copy_counts(k, a->counts, a->n); break;
  case ATTR_KIND_ITERS: c.iters = copy_list(k, a->iters, a->n, sizeof *a->iters); break;
  case ATTR_KIND_MEMORY: c.memory = arena_copy(k->arena, a->memory, sizeof *a->memory); break;
  case ATTR_KIND_DESCRIPTOR:
    c.descriptor = arena_copy(k->arena, a->descriptor, sizeof *a->descriptor);
    break;
  case ATTR_KIND_STEPS: c.steps = copy_list(k, a->steps, a->n, sizeof *a->steps); break;
  }
  return c;
}

static const char *copy_word(Kernel *k, const char *word) {
  return word ? arena_strdup(k->arena, word) : NULL;
}

static OpNames copy_names(Kernel *k, OpNames names) {
  const char **at = ARENA_ARRAY(k->arena, const char *, names.n);
  for (int i = 0; i < names.n; i++) at[i] = copy_word(k, names.at[i]);
  return (OpNames){at, names.n};
}

static Roles copy_roles(Kernel *k, Roles roles) {
  Role *at = ARENA_ARRAY(k->arena, Role, roles.n);
  for (int i = 0; i < roles.n; i++) {
    at[i] = roles.at[i];
    at[i].name = copy_word(k, roles.at[i].name);
  }
  return (Roles){at, roles.n};
}

/* A `{0}` sets the first member of a union only. */
Constraint constraint_empty(ConstraintKind kind, Span at) {
  Constraint c;
  memset(&c, 0, sizeof c);
  c.kind = kind;
  c.at = at;
  return c;
}

Constraint constraint_copy(Kernel *k, const Constraint *c) {
  Constraint copy = *c;
  EACH_CLAUSE(cl, c->kind) {
    void *field = clause_field(&copy, cl);
    switch (cl->kind) {
    case CLAUSE_DIM:
    case CLAUSE_EXPR:
    case CLAUSE_INT:
    case CLAUSE_COUNT:
    case CLAUSE_FLAG:
    case CLAUSE_PLACE:
    case CLAUSE_THREE: break;
    case CLAUSE_MMA: *(MmaChoice *)field = copy_mma(k, field); break;
    case CLAUSE_PAIRS:
    case CLAUSE_DIMS: *(SymPairs *)field = copy_pairs(k, *(SymPairs *)field); break;
    case CLAUSE_WORD: *(const char **)field = copy_word(k, *(const char **)field); break;
    case CLAUSE_OPS: *(OpNames *)field = copy_names(k, *(OpNames *)field); break;
    case CLAUSE_ROLES: *(Roles *)field = copy_roles(k, *(Roles *)field); break;
    }
  }
  return copy;
}

/* ---- comparing ---- */

static bool pairs_equal(SymPairs a, SymPairs b) {
  if (a.n != b.n) return false;
  for (int i = 0; i < a.n; i++)
    if (a.at[i].key != b.at[i].key || a.at[i].value != b.at[i].value) return false;
  return true;
}

static bool mapping_equal(const Mapping *a, const Mapping *b) {
  if (a->niterators != b->niterators || a->ndynamic != b->ndynamic) return false;
  if (!pairs_equal(a->inputs, b->inputs) || !pairs_equal(a->outputs, b->outputs)) return false;
  for (int i = 0; i < a->ndynamic; i++)
    if (!pairs_equal(a->dynamic[i], b->dynamic[i])) return false;
  return true;
}

static bool mma_equal(const MmaChoice *a, const MmaChoice *b) {
  if (a->swap != b->swap || a->shared_lhs != b->shared_lhs || a->shared_rhs != b->shared_rhs)
    return false;
  if (a->order.n != b->order.n) return false;
  for (int i = 0; i < a->order.n; i++)
    if (a->order.at[i].radix != b->order.at[i].radix ||
        a->order.at[i].stride != b->order.at[i].stride)
      return false;
  if (a->name || b->name) return a->name && b->name && strcmp(a->name, b->name) == 0;
  return a->out_vec == b->out_vec && a->k_vec == b->k_vec && a->k_mult == b->k_mult &&
         a->along == b->along;
}

/* Numbers are compared by bits: 0.0 and -0.0 differ, NaN equals itself. */
static bool bits_equal(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool number_equal(const Attr *a, const Attr *b) {
  return a->sym == b->sym && (a->sym || bits_equal(a->number, b->number));
}

static bool step_equal(const CombineStep *a, const CombineStep *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->nargs != b->nargs) return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return a->sym == b->sym && bits_equal(a->number, b->number);
}

static bool steps_equal(const Attr *a, const Attr *b) {
  for (int i = 0; i < a->n; i++)
    if (!step_equal(&a->steps[i], &b->steps[i])) return false;
  return true;
}

static bool counts_equal(const Attr *a, const Attr *b) {
  for (int i = 0; i < a->n; i++)
    if (strcmp(a->counts[i].name, b->counts[i].name) != 0 ||
        a->counts[i].count != b->counts[i].count)
      return false;
  return true;
}

static bool iters_equal(const Attr *a, const Attr *b) {
  for (int i = 0; i < a->n; i++)
    if (a->iters[i].symbol != b->iters[i].symbol || a->iters[i].axis != b->iters[i].axis ||
        a->iters[i].count != b->iters[i].count)
      return false;
  return true;
}

static bool texts_equal(const Attr *a, const Attr *b) {
  for (int i = 0; i < a->n; i++)
    if (strcmp(a->texts[i], b->texts[i]) != 0) return false;
  return true;
}

bool attr_equal(const Attr *a, const Attr *b) {
  if (a->key != b->key || a->n != b->n) return false;
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_NUMBER: return number_equal(a, b);
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM: return a->sym == b->sym;
  case ATTR_KIND_EXPRS: return memcmp(a->exprs, b->exprs, sizeof *a->exprs * (size_t)a->n) == 0;
  case ATTR_KIND_INTS: return memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->n) == 0;
  case ATTR_KIND_INT: return a->integer == b->integer;
  case ATTR_KIND_FLAG: return true;
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD: return strcmp(a->text, b->text) == 0;
  case ATTR_KIND_TEXTS: return texts_equal(a, b);
  case ATTR_KIND_BOUNDS: return pairs_equal((SymPairs){a->pairs, a->n}, (SymPairs){b->pairs, b->n});
  case ATTR_KIND_MAPPING: return mapping_equal(a->mapping, b->mapping);
  case ATTR_KIND_MMA: return mma_equal(a->mma, b->mma);
  case ATTR_KIND_COUNTS: return counts_equal(a, b);
  case ATTR_KIND_ITERS: return iters_equal(a, b);
  case ATTR_KIND_MEMORY: return mem_equal(a->memory, b->memory);
  case ATTR_KIND_DESCRIPTOR: return descriptor_equal(a->descriptor, b->descriptor);
  case ATTR_KIND_STEPS: return steps_equal(a, b);
  }
  return false;
}

static bool same_symbols(const Sym *const *a, const Sym *const *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i] != b[i]) return false;
  return true;
}

static bool words_equal(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool names_equal(const OpNames *a, const OpNames *b) {
  for (int i = 0; a->n == b->n && i < a->n; i++)
    if (!words_equal(a->at[i], b->at[i])) return false;
  return a->n == b->n;
}

static bool roles_equal(const Roles *a, const Roles *b) {
  for (int i = 0; a->n == b->n && i < a->n; i++)
    if (!words_equal(a->at[i].name, b->at[i].name) || a->at[i].waves != b->at[i].waves ||
        a->at[i].registers != b->at[i].registers)
      return false;
  return a->n == b->n;
}

static bool clause_equal(ClauseKind kind, const void *a, const void *b) {
  switch (kind) {
  case CLAUSE_DIM:
  case CLAUSE_EXPR: return same_symbols(a, b, 1);
  case CLAUSE_INT:
  case CLAUSE_COUNT: return *(const int *)a == *(const int *)b;
  case CLAUSE_FLAG: return *(const bool *)a == *(const bool *)b;
  case CLAUSE_THREE: return same_symbols(a, b, 3);
  case CLAUSE_MMA: return mma_equal(a, b);
  case CLAUSE_PAIRS:
  case CLAUSE_DIMS: return pairs_equal(*(const SymPairs *)a, *(const SymPairs *)b);
  case CLAUSE_WORD: return words_equal(*(const char *const *)a, *(const char *const *)b);
  case CLAUSE_PLACE: return memcmp(a, b, sizeof(Place)) == 0;
  case CLAUSE_OPS: return names_equal(a, b);
  case CLAUSE_ROLES: return roles_equal(a, b);
  }
  return false;
}

bool constraint_equal(const Constraint *a, const Constraint *b) {
  if (a->kind != b->kind) return false;
  EACH_CLAUSE(cl, a->kind)
    if (!clause_equal(cl->kind, clause_field(a, cl), clause_field(b, cl))) return false;
  return true;
}

/* ---- rewriting ---- */

typedef struct Rewrite {
  Kernel *k;
  SymFn *fn;
  void *user;
  bool names; /* also of dimensions, axes and symbols that are set */
} Rewrite;

static bool rewrite(const Rewrite *r, const Sym **s) {
  if (*s) *s = r->fn(r->user, *s);
  else return true;
  return *s != NULL;
}

static bool rewrite_name(const Rewrite *r, const Sym **s) { return !r->names || rewrite(r, s); }

static bool rewrite_list(const Rewrite *r, const Sym **s, int n) {
  bool ok = true;
  for (int i = 0; i < n; i++) ok &= rewrite(r, &s[i]);
  return ok;
}

static bool rewrite_pairs(const Rewrite *r, SymPairs p) {
  bool ok = true;
  for (int i = 0; i < p.n; i++) ok &= rewrite_name(r, &p.at[i].key) && rewrite(r, &p.at[i].value);
  return ok;
}

static bool rewrite_mapping(const Rewrite *r, Attr *a) {
  Mapping m = *copy_mapping(r->k, a->mapping);
  bool ok = rewrite_pairs(r, m.inputs) && rewrite_pairs(r, m.outputs);
  for (int i = 0; i < m.ndynamic; i++) ok = ok && rewrite_pairs(r, m.dynamic[i]);
  a->mapping = arena_copy(r->k->arena, &m, sizeof m);
  return ok;
}

static bool rewrite_exprs(const Rewrite *r, Attr *a) {
  const Sym **exprs = copy_list(r->k, a->exprs, a->n, sizeof *a->exprs);
  a->exprs = exprs;
  return rewrite_list(r, exprs, a->n);
}

static bool rewrite_bounds(const Rewrite *r, Attr *a) {
  a->pairs = copy_list(r->k, a->pairs, a->n, sizeof *a->pairs);
  return rewrite_pairs(r, (SymPairs){a->pairs, a->n});
}

/* The iterations of a debug log and the constants of a combining function are names too: no pass
 * gives them other values. */
static bool rewrite_iters(const Rewrite *r, Attr *a) {
  bool ok = true;
  a->iters = copy_list(r->k, a->iters, a->n, sizeof *a->iters);
  for (int i = 0; i < a->n; i++)
    ok = ok && rewrite_name(r, &a->iters[i].symbol) && rewrite_name(r, &a->iters[i].axis) &&
         rewrite_name(r, &a->iters[i].count);
  return ok;
}

static bool rewrite_steps(const Rewrite *r, Attr *a) {
  CombineStep *steps = copy_list(r->k, a->steps, a->n, sizeof *a->steps);
  bool ok = true;
  a->steps = steps;
  for (int i = 0; i < a->n; i++) ok &= rewrite_name(r, &steps[i].sym);
  return ok;
}

static bool rewrite_attr(const Rewrite *r, Attr *a) {
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_NUMBER:
  case ATTR_KIND_EXPR: return rewrite(r, &a->sym);
  case ATTR_KIND_DIM: return rewrite_name(r, &a->sym);
  case ATTR_KIND_EXPRS: return rewrite_exprs(r, a);
  case ATTR_KIND_BOUNDS: return rewrite_bounds(r, a);
  case ATTR_KIND_MAPPING: return rewrite_mapping(r, a);
  case ATTR_KIND_ITERS: return !r->names || rewrite_iters(r, a);
  case ATTR_KIND_STEPS: return !r->names || rewrite_steps(r, a);
  case ATTR_KIND_INT:
  case ATTR_KIND_INTS:
  case ATTR_KIND_FLAG:
  case ATTR_KIND_TEXT:
  case ATTR_KIND_WORD:
  case ATTR_KIND_TEXTS:
  case ATTR_KIND_MMA:
  case ATTR_KIND_COUNTS:
  case ATTR_KIND_MEMORY:
  case ATTR_KIND_DESCRIPTOR: return true;
  }
  return true;
}

bool attr_rewrite(Kernel *k, Attr *a, SymFn *fn, void *user) {
  return rewrite_attr(&(Rewrite){k, fn, user, false}, a);
}

bool attr_rewrite_all(Kernel *k, Attr *a, SymFn *fn, void *user) {
  return rewrite_attr(&(Rewrite){k, fn, user, true}, a);
}

static bool rewrite_copied_pairs(const Rewrite *r, SymPairs *pairs) {
  *pairs = copy_pairs(r->k, *pairs);
  return rewrite_pairs(r, *pairs);
}

static bool rewrite_clause(const Rewrite *r, ClauseKind kind, void *field) {
  switch (kind) {
  case CLAUSE_DIM: return rewrite_name(r, field);
  case CLAUSE_EXPR: return rewrite(r, field);
  case CLAUSE_THREE: return rewrite_list(r, field, 3);
  case CLAUSE_PAIRS: return rewrite_copied_pairs(r, field);
  case CLAUSE_DIMS: return !r->names || rewrite_copied_pairs(r, field);
  case CLAUSE_INT:
  case CLAUSE_COUNT:
  case CLAUSE_FLAG:
  case CLAUSE_WORD:
  case CLAUSE_PLACE:
  case CLAUSE_OPS:
  case CLAUSE_ROLES:
  case CLAUSE_MMA: return true;
  }
  return true;
}

static bool rewrite_constraint(const Rewrite *r, Constraint *c) {
  bool ok = true;
  EACH_CLAUSE(cl, c->kind) ok = ok && rewrite_clause(r, cl->kind, clause_field(c, cl));
  return ok;
}

bool constraint_rewrite(Kernel *k, Constraint *c, SymFn *fn, void *user) {
  return rewrite_constraint(&(Rewrite){k, fn, user, false}, c);
}

bool constraint_rewrite_all(Kernel *k, Constraint *c, SymFn *fn, void *user) {
  return rewrite_constraint(&(Rewrite){k, fn, user, true}, c);
}

typedef struct Found {
  SymSearch search;
  bool found;
} Found;

static const Sym *look(void *user, const Sym *s) {
  Found *f = user;
  f->found = f->found || (s && f->search.test(f->search.user, s));
  return s;
}

/* Rewriting changes copies only. */
bool op_has_sym(Kernel *k, const Op *op, SymSearch search) {
  Found f = {search, false};
  for (int i = 0; i < op->nattrs && !f.found; i++) {
    Attr copy = op->attrs[i];
    rewrite_attr(&(Rewrite){k, look, &f, search.names}, &copy);
  }
  return f.found;
}

bool constraint_has_sym(Kernel *k, const Constraint *c, SymSearch search) {
  Found f = {search, false};
  Constraint copy = *c;
  rewrite_constraint(&(Rewrite){k, look, &f, search.names}, &copy);
  return f.found;
}

bool kernel_has_sym(Kernel *k, SymSearch search) {
  for (int i = 0; i < k->constraints.n; i++)
    if (constraint_has_sym(k, &k->constraints.at[i], search)) return true;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_has_sym(k, op, search)) return true;
  return false;
}

/* Expressions are integers (fractions round down) and wrap when narrowed. */
void op_fold_value(Kernel *k, Op *op) {
  const Attr *old = op_attr(op, ATTR_value);
  const Sym *whole = old && old->sym ? sym_floor(k->cx->sym, old->sym) : NULL;
  int64_t v;
  if (!whole || !sym_is_int(whole, &v) || op->nresults != 1) return;
  DType dtype = op->results[0].type->dtype;
  Attr value = {.key = ATTR_value};
  if (dtype_is_float(dtype)) value.number = dtype_round_int(dtype, DTYPE_i64, v);
  else value.sym = sym_int(k->cx->sym, dtype_from_int(dtype, v));
  op_set_attr(k, op, value);
}

const Sym *pairs_get(SymPairs pairs, const Sym *key) {
  for (int i = 0; i < pairs.n; i++)
    if (pairs.at[i].key == key) return pairs.at[i].value;
  return NULL;
}
