/* launch_code.c: see launch_code.h.
 *
 *     kernel @gemm(%a: mem<M, K, f16>, %s: mem<N, K/32, i8>, ...)  dynamic M, K; bind N = 512
 *
 * M is $SIZE_a_0, K is $SIZE_a_1, N is 512; the sizes of %s must be 512 and $SIZE_a_1/32. */
#include "driver/launch_code.h"

#include <string.h>

#include "ir/dtype.h"
#include "wave.h"

/* ---- parameters and slots ---- */
_Static_assert(DTYPE_COUNT < 63, "ArtParam.accepts has a bit for every dtype");

static int64_t accepted(DType d) {
  int64_t set = 0;
  for (int i = 0; i < DTYPE_COUNT; i++)
    if (dtype_accepts(d, (DType)i)) set |= INT64_C(1) << i;
  return set;
}

static ArtScalar scalar_of(DType d) {
  bool wide = dtype_info[d].bits == 64;
  if (!dtype_is_float(d)) return wide ? ART_I64 : ART_I32;
  return wide ? ART_F64 : d == DTYPE_f32 ? ART_F32 : ART_SMALL_FLOAT;
}

static void add_slot(LaunchSymbols *s, const char *format, const char *name, int dim, bool nonneg) {
  const char *text = arena_printf(s->arena, "$%s_%s", format, name);
  if (dim >= 0) text = arena_printf(s->arena, "%s_%d", text, dim);
  s->slot[s->nslots++] = sym_symbol(s->k->cx->sym, text, nonneg);
}

static void add_param(LaunchSymbols *s, int i, ArtParam *p) {
  const Type *t = s->k->body->args[i]->type;
  const char *name = s->k->params.at[i].name, *log = s->k->params.at[i].log;
  const char *report = s->k->params.at[i].report;
  const Sym *binds = s->k->params.at[i].binds;
  bool is_tensor = t->kind == TYPE_mem, nonneg = binds && sym_is_nonneg_symbol(binds);
  *p = (ArtParam){.name = arena_strdup(s->arena, name),
                  .type = type_text(s->arena, s->k->cx, t),
                  .log = log ? arena_strdup(s->arena, log) : "",
                  .report = report ? arena_strdup(s->arena, report) : "",
                  .slot = s->nslots,
                  .rank = is_tensor ? t->rank : -1,
                  .dtype = (int)t->dtype,
                  .accepts = accepted(t->dtype),
                  .scalar = scalar_of(t->dtype),
                  .not_negative = nonneg};
  add_slot(s, is_tensor ? "BASE" : "SCALAR", name, -1, is_tensor || nonneg);
  for (int d = 0; d < p->rank; d++) add_slot(s, "SIZE", name, d, true);
  for (int d = 0; d < p->rank; d++) add_slot(s, "STRIDE", name, d, true);
}

bool launch_symbols(Kernel *k, Arena *a, Artefact *art, LaunchSymbols *out) {
  *out = (LaunchSymbols){.k = k, .arena = a};
  art->nparams = k->params.n;
  art->ngiven = kernel_given(k);
  art->params = ARENA_ARRAY(a, ArtParam, k->params.n + 1);
  for (int i = 0; i < k->params.n; i++) {
    const Type *t = k->body->args[i]->type;
    if (k->params.n > ARTEFACT_PARAMS || out->nslots + 1 + 2 * t->rank > ARTEFACT_SLOTS)
      return diag_fail(&k->cx->diags, DIAG_E0601, k->at,
                       "`%s` has more arguments than a launch supports", k->name);
    add_param(out, i, &art->params[i]);
  }
  art->nslots = out->nslots;
  SymBinding *bound = ARENA_ARRAY(a, SymBinding, k->constraints.n + 1);
  out->nbound = kernel_bindings(k, bound);
  out->bound = bound;
  return true;
}

/* ---- symbols ---- */

static const Sym *slot_called(const LaunchSymbols *s, const char *name) {
  for (int i = 0; i < s->nslots; i++)
    if (strcmp(sym_name(s->slot[i]), name) == 0) return s->slot[i];
  return NULL;
}

const Sym *launch_slot(const LaunchSymbols *s, int param, const char *what, int dim) {
  const char *name = arena_printf(s->arena, "$%s_%s", what, s->k->params.at[param].name);
  return slot_called(s, dim < 0 ? name : arena_printf(s->arena, "%s_%d", name, dim));
}

static const Sym *meaning(const LaunchSymbols *s, const Sym *symbol) {
  const char *name = sym_name(symbol);
  for (int i = 0; i < s->nbound; i++)
    if (strcmp(sym_name(s->bound[i].from), name) == 0) return s->bound[i].to;
  for (int i = 0; i < s->k->params.n; i++) {
    const Sym *binds = s->k->params.at[i].binds;
    if (binds && strcmp(sym_name(binds), name) == 0) return launch_slot(s, i, "SCALAR", -1);
  }
  const Sym *slot = slot_called(s, name);
  return slot ? slot : ir_symbol_size(s->k, symbol);
}

/* *unknown: the symbol that has no value. */
static const Sym *resolve(const LaunchSymbols *s, const Sym *e, const Sym **unknown) {
  enum { DEEPEST = 32 }; /* values that refer to each other in a cycle were refused before */
  for (int round = 0; e && round < DEEPEST; round++) {
    FreeSymbols free_symbols = sym_symbols(s->arena, e);
    int changed = 0;
    SymBinding *to = ARENA_ARRAY(s->arena, SymBinding, free_symbols.n + 1);
    for (int i = 0; i < free_symbols.n; i++) {
      to[i] = (SymBinding){free_symbols.at[i], meaning(s, free_symbols.at[i])};
      if (!to[i].to) return *unknown = free_symbols.at[i], NULL;
      changed += to[i].to != to[i].from;
    }
    if (!changed) return e;
    e = sym_subst(s->k->cx->sym, e, to, free_symbols.n);
  }
  return NULL;
}

const Sym *launch_resolve(const LaunchSymbols *s, const Sym *e) {
  const Sym *unknown;
  return resolve(s, e, &unknown);
}

/* ---- values ---- */

static bool report_unknown(const LaunchSymbols *s, const Sym *e) {
  Context *cx = s->k->cx;
  const Sym *unknown = NULL;
  (void)resolve(s, e, &unknown);
  if (unknown && sym_name(unknown)[0] != '$')
    return sym_take_error(cx->sym), ir_fail_unknown(s->k, sym_name(unknown));
  const char *why = sym_take_error(cx->sym);
  return diag_fail(&cx->diags, DIAG_E0103, s->k->at, "`%s` of `%s` has no value at launch%s%s",
                   sym_text(cx->diags.arena, e), s->k->name, *why ? ": " : "", why);
}

int launch_value(LaunchValues *v, const Sym *e) {
  const Sym *resolved = launch_resolve(v->symbols, e);
  if (!resolved) return report_unknown(v->symbols, e) - 1;
  for (int i = 0; i < v->exprs.n; i++)
    if (v->exprs.at[i] == resolved) return i;
  vec_push(v->symbols->arena, &v->exprs, resolved);
  return v->exprs.n - 1;
}

bool launch_values_program(const LaunchValues *v, LaunchExpr *out) {
  const LaunchSymbols *s = v->symbols;
  Context *cx = s->k->cx;
  SymProgram *p = sym_compile(s->arena, cx->sym, v->exprs.at, v->exprs.n, s->slot, s->nslots);
  if (p) {
    out->step = sym_program_steps(p, &out->nsteps, &out->result);
    out->nresults = v->exprs.n;
  }
  if (p && launch_expr_is_sound(out, s->nslots)) return true;
  diag_add(&cx->diags, DIAG_E0601, s->k->at, "a launch of `%s` needs too many host-side values: %d",
           s->k->name, v->exprs.n);
  sym_take_error(cx->sym);
  return false;
}

/* ---- workspace ---- */

bool launch_is_workspace(const LaunchValues *v, int param) {
  return v->symbols->k->params.at[param].workspace;
}

/* In bytes. */
static const Sym *workspace_size(const LaunchSymbols *s, int param) {
  SymCtx *cx = s->k->cx->sym;
  const Type *t = s->k->body->args[param]->type;
  const Sym *pieces = sym_rational(cx, dtype_memory_bits(t->dtype), 8 * ARTEFACT_ALIGN);
  for (int d = 0; d < t->rank; d++)
    pieces = sym_mul(cx, pieces, t->layout && t->layout[d] ? t->layout[d] : t->dims[d]);
  return sym_mul(cx, sym_ceil(cx, pieces), sym_int(cx, ARTEFACT_ALIGN));
}

/* The offset of a parameter's memory in the workspace. Memories that contain zeros come first: their
 * sizes are the same in all launches if there are others (verify.c), so that they find zeros where a
 * launch with other sizes had them. */
static const Sym *workspace_before(const LaunchSymbols *s, int param) {
  const Param *p = s->k->params.at;
  const Sym *sum = sym_int(s->k->cx->sym, 0);
  for (int i = 0; i < s->k->params.n; i++) {
    bool is_before = param == s->k->params.n || p[i].undefined < p[param].undefined ||
                     (p[i].undefined == p[param].undefined && i < param);
    if (p[i].workspace && is_before) sum = sym_add(s->k->cx->sym, sum, workspace_size(s, i));
  }
  return sum;
}

bool launch_add_workspace(LaunchValues *v, int param, ArtVariant *to, ArtArg *a) {
  a->kind = ART_WORKSPACE;
  a->value = launch_value(v, workspace_before(v->symbols, param));
  to->workspace = launch_value(v, workspace_before(v->symbols, v->symbols->k->params.n));
  return a->value >= 0 && to->workspace >= 0;
}

/* ---- the signature ---- */

static bool add_sizes(const LaunchSymbols *s, int param, Artefact *art, LaunchValues *values) {
  const Type *t = s->k->body->args[param]->type;
  if (t->kind != TYPE_mem) return true;
  for (int d = 0; d < t->rank; d++) {
    const Sym *expected = t->layout ? t->layout[d] : t->dims[d];
    if (!expected) continue; /* the tensor's own */
    const Sym *resolved = launch_resolve(s, expected);
    if (resolved == launch_slot(s, param, "SIZE", d)) continue; /* it determines the value itself */
    int value = launch_value(values, expected);
    if (value < 0) return false;
    int64_t number;
    bool is_given = !sym_is_int(resolved, &number);
    art->sizes[art->nsizes++] =
        (ArtSize){param, d, value, is_given, sym_text(s->arena, t->dims[d])};
  }
  return true;
}

/* Assumptions about symbols that only the kernel itself sets cannot be checked at launch. */
static void add_assumptions(const LaunchSymbols *s, Artefact *art, LaunchValues *values, Span *at) {
  EACH_ROW(s->k, assume, c) {
    if (!launch_resolve(s, c->assume.condition)) continue;
    at[art->nassumptions] = c->at;
    art->assumptions[art->nassumptions++] = (ArtAssumption){
        launch_value(values, c->assume.condition), sym_text(s->arena, c->assume.condition)};
  }
}

bool launch_signature(const LaunchSymbols *s, Artefact *art, LaunchValues *values, Span **at) {
  art->sizes = ARENA_ARRAY(s->arena, ArtSize, s->nslots + 1);
  art->assumptions = ARENA_ARRAY(s->arena, ArtAssumption, s->k->constraints.n + 1);
  *at = ARENA_ARRAY(s->arena, Span, s->k->constraints.n + 1);
  for (int i = 0; i < s->k->params.n; i++)
    if (!add_sizes(s, i, art, values)) return false;
  add_assumptions(s, art, values, *at);
  return true;
}
