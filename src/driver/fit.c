/* fit.c: see fit.h. */
#include "driver/fit.h"

#include <string.h>

#include "backend/eval/arg_check.h"
#include "driver/launch_code.h"
#include "transform/pass_manager.h"

/* ---- what is open ---- */

/* In most kernels every tile size is a number, which is quickly checked. In the others, passes may
 * still find the number, or remove tiles that are not used. */
OpenSymbols fit_open(Kernel *k) {
  OpenSymbols none = {0};
  if (k->level != LEVEL_TILE) return none;
  ir_renumber(k);
  if (open_symbols(k).n == 0) return none;
  Diag *before = k->cx->diags.last;
  Kernel *copy = kernel_clone(k);
  if (kernel_has_fallback(copy)) kernel_drop_assumptions(copy);
  bool ok = passes_run(copy, &(PassOptions){.stop_after = "narrow"});
  ir_renumber(copy);
  OpenSymbols open = ok ? open_symbols(copy) : none;
  kernel_free(copy);
  diags_cut(&k->cx->diags, before);
  return open;
}

/* ---- which tiles ---- */

/* At least 2: a secondary row with a tile of one element means something else (distribute.h). */
static int64_t tile_for(int64_t value) {
  int64_t tile = 2;
  while (tile < value && tile <= INT64_MAX / 2) tile *= 2;
  return tile;
}

Fit fit_of(const OpenSymbols *open, const int64_t *values, bool exact) {
  Fit f = {.exact = true};
  for (int i = 0; i < open->n; i++) {
    bool value = exact || open->at[i].by_value;
    f.size[i] = value ? values[i] : tile_for(values[i]);
    f.exact &= value;
  }
  return f;
}

bool fit_equal(const OpenSymbols *open, const Fit *a, const Fit *b) {
  return a->exact == b->exact && memcmp(a->size, b->size, sizeof *a->size * (size_t)open->n) == 0;
}

static bool is_value(const OpenSymbols *open, const Fit *f, int i) {
  return f->exact || open->at[i].by_value;
}

const char *fit_text(Arena *a, const OpenSymbols *open, const Fit *f) {
  StrBuf out = {.arena = a};
  for (int i = 0; i < open->n; i++)
    sb_printf(&out, "%s%s %s %lld", i ? ", " : "", sym_name(open->at[i].symbol),
              is_value(open, f, i) ? "=" : "at most", (long long)f->size[i]);
  return sb_text(&out);
}

/* ---- rows ---- */

static void insert_row(Kernel *k, int at, Constraint row) {
  vec_push(k->arena, &k->constraints, row);
  Constraint *rows = k->constraints.at;
  memmove(&rows[at + 1], &rows[at], sizeof *rows * (size_t)(k->constraints.n - 1 - at));
  rows[at] = row;
}

/* Replaces the `dynamic` row, if there is one. */
static void bind_symbol(Kernel *k, const Sym *symbol, int64_t value) {
  Constraint row = {
      .kind = CONSTRAINT_bind, .at = k->at, .bind = {symbol, sym_int(k->cx->sym, value)}};
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_dynamic || !sym_same_name(symbol, c->dynamic.symbol)) continue;
    row.at = c->at;
    *c = row;
    return;
  }
  vec_push(k->arena, &k->constraints, row);
}

typedef struct Tile {
  Kernel *k;
  const Sym *symbol, *size;
  const SymBinding *bound;
  int nbound;
} Tile;

static const Sym *with_tile(const Tile *t, const Sym *e) {
  SymCtx *sym = t->k->cx->sym;
  const char *name = sym_name(t->symbol);
  SymBinding to[] = {{sym_symbol(sym, name, true), t->size},
                     {sym_symbol(sym, name, false), t->size}};
  const Sym *value = e ? sym_subst(sym, e, t->bound, t->nbound) : NULL;
  value = value ? sym_subst(sym, value, to, 2) : NULL;
  if (e && !value) sym_take_error(sym);
  return value ? value : e;
}

static void set_vector(const Tile *t, SymPairs *shapes) {
  for (int i = 0; i < shapes->n; i++)
    if (sym_same_name(t->symbol, shapes->at[i].key))
      shapes->at[i].value = with_tile(t, shapes->at[i].value);
}

/* Changes the rows of the symbol's own dimension, or adds a workgroup row that starts at 0. It is
 * added in front: within a loop over the dimension, the tile row must win. */
static void give_tile(const Tile *t) {
  Kernel *k = t->k;
  const Constraint *first = kernel_constraint(k, CONSTRAINT_workgroup, NULL);
  Constraint row = {.kind = CONSTRAINT_workgroup,
                    .at = k->at,
                    .workgroup = {.dim = t->symbol,
                                  .size = t->size,
                                  .axis = first ? first->workgroup.axis : 0,
                                  .start = sym_int(k->cx->sym, 0),
                                  .secondary = true}};
  bool cut = false;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    bool divides = c->kind == CONSTRAINT_workgroup || c->kind == CONSTRAINT_wave;
    if (c->kind == CONSTRAINT_hardware) set_vector(t, &c->hardware.vector);
    if (!divides || !sym_same_name(t->symbol, c->divided.dim)) continue;
    c->divided.size = with_tile(t, c->divided.size);
    cut |= c->kind == CONSTRAINT_workgroup;
  }
  if (!cut) insert_row(k, 0, row);
}

/* ---- threads ---- */

/* The instruction determines how many waves an mma needs. */
static bool has_products(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_is_product(op)) return true;
  return false;
}

static bool says_waves(const Kernel *k, const HardwareSpec *hardware) {
  return hardware->waves[0] || hardware->waves[1] || hardware->waves[2] ||
         kernel_constraint(k, CONSTRAINT_wave, NULL);
}

/* The declared threads of a workgroup; 0 if not a number, or if there are service waves. */
static int64_t declared_threads(Kernel *k, const HardwareSpec *hardware) {
  Arena *a = arena_new();
  const Distribution *d = facts_of(k, a, FACT_distribute).distribute;
  int64_t threads = hardware->service_waves ? 0 : 1, n;
  for (int i = 0; i < 3; i++)
    threads *= sym_is_int(d->threads[i], &n) && n > 0 && n <= 1024 ? n : 0;
  arena_free(a);
  return threads;
}

static void set_waves(Kernel *k, int64_t waves) {
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint c = k->constraints.at[i];
    if (c.kind == CONSTRAINT_wave) continue;
    for (int axis = 0; c.kind == CONSTRAINT_hardware && axis < 3; axis++)
      c.hardware.waves[axis] = sym_int(k->cx->sym, axis ? 1 : waves);
    k->constraints.at[n++] = c;
  }
  k->constraints.n = n;
}

/* If a thread holds too many elements of a tile, the kernel is slow to compile and slow to run, so
 * large tiles get more waves. A tile-pure kernel cannot observe this. The declared waves are used as
 * long as a tile fits their registers. */
static void give_waves(Kernel *k) {
  enum { HELD = 32, HELD_AS_DECLARED = 64, MOST = 1024 };
  const HardwareSpec *hardware = kernel_hardware(k);
  ir_renumber(k);
  int64_t declared = has_products(k) ? 0 : declared_threads(k, hardware), threads = declared;
  int64_t tile = open_largest_tile(k), held = says_waves(k, hardware) ? HELD_AS_DECLARED : HELD;
  if (declared < hardware->threads || tile / declared <= held) return;
  while (2 * threads <= MOST && tile / threads > HELD) threads *= 2;
  if (threads > declared) set_waves(k, threads / hardware->threads);
}

/* In a lane-observable kernel all symbols are open by value. */
static bool is_pure(const OpenSymbols *open) {
  for (int i = 0; i < open->n; i++)
    if (!open->at[i].by_value) return true;
  return false;
}

Kernel *fit_kernel(Kernel *k, const OpenSymbols *open, const Fit *f) {
  Kernel *copy = kernel_clone(k);
  SymBinding *bound = ARENA_ARRAY(copy->arena, SymBinding, k->constraints.n + 1);
  int nbound = kernel_bindings(k, bound);
  if (!sym_resolve_bindings(k->cx->sym, bound, nbound)) nbound = 0, sym_take_error(k->cx->sym);
  for (int i = 0; i < open->n; i++) {
    const Sym *symbol = open->at[i].symbol;
    Tile t = {copy, symbol, sym_int(k->cx->sym, f->size[i]), bound, nbound};
    if (is_value(open, f, i)) bind_symbol(copy, symbol, f->size[i]);
    else give_tile(&t);
  }
  if (is_pure(open)) give_waves(copy);
  if (ir_verify_constraints(copy)) return copy;
  kernel_free(copy);
  return NULL;
}

/* ---- values ---- */

static int64_t slot_value(const ArtParam *p, const EvalArg *arg, int at) {
  if (p->rank < 0) return arg->integer;
  const EvalBuffer *b = arg->buffer;
  if (at == 0) return (int64_t)((uintptr_t)b->data % ARTEFACT_ALIGN);
  return at <= p->rank ? b->shape[at - 1] : b->strides[at - 1 - p->rank];
}

static bool check_args(Kernel *k, const EvalArg *args, int nargs) {
  if (nargs != kernel_given(k))
    return diag_fail(&k->cx->diags, DIAG_E0702, k->at, "`%s` got %d arguments, expected %d",
                     k->name, nargs, kernel_given(k));
  for (int i = 0; i < nargs; i++)
    if (k->body->args[i]->type->kind == TYPE_mem && !arg_is_tensor(k, i, args[i].buffer))
      return false;
  return true;
}

bool fit_values(Kernel *k, const OpenSymbols *open, const EvalArg *args, int nargs,
                int64_t *values) {
  Arena *a = arena_new();
  LaunchSymbols s;
  Artefact art = {0};
  bool ok = check_args(k, args, nargs) && launch_symbols(k, a, &art, &s);
  SymBinding *env = ARENA_ARRAY(a, SymBinding, ok ? s.nslots + 1 : 1);
  for (int i = 0; ok && i < nargs; i++) {
    const ArtParam *p = &art.params[i];
    for (int at = 0; at < (p->rank < 0 ? 1 : 1 + 2 * p->rank); at++)
      env[p->slot + at] =
          (SymBinding){s.slot[p->slot + at], sym_int(k->cx->sym, slot_value(p, &args[i], at))};
  }
  for (int i = 0; ok && i < open->n; i++) {
    const Sym *e = launch_resolve(&s, open->at[i].symbol);
    ok = e && sym_eval(e, env, s.nslots, &values[i]);
    if (!ok)
      diag_add(&k->cx->diags, DIAG_E0103, k->at, "`%s` of `%s` has no value for these arguments",
               sym_name(open->at[i].symbol), k->name);
  }
  arena_free(a);
  return ok;
}

/* ---- diagnostics ---- */

/* "`M`, `N`": the open symbols of one kind. */
static const char *names_of(Arena *a, const OpenSymbols *open, bool by_value) {
  StrBuf out = {.arena = a};
  for (int i = 0; i < open->n; i++)
    if (open->at[i].by_value == by_value)
      sb_printf(&out, "%s`%s`", *sb_text(&out) ? ", " : "", sym_name(open->at[i].symbol));
  return sb_text(&out);
}

static const char *all_names(Arena *a, const OpenSymbols *open) {
  const char *tiles = names_of(a, open, false), *values = names_of(a, open, true);
  return arena_printf(a, "%s%s%s", tiles, *tiles && *values ? ", " : "", values);
}

/* How to compile it once. */
static const char *way_out(Arena *a, const OpenSymbols *open) {
  return arena_printf(a, "bind %s, or divide %s with a workgroup or tiling constraint",
                      all_names(a, open), open->n > 1 ? "these dimensions" : "that dimension");
}

void fit_remark(Kernel *k, const OpenSymbols *open) {
  Diags *diags = &k->cx->diags;
  Arena *a = diags->arena;
  const char *tiles = names_of(a, open, false), *values = names_of(a, open, true);
  Diag *d = diag_add(diags, DIAG_R0613, k->at,
                     "`%s` is compiled when it is called: the size of its tiles depends on %s",
                     k->name, all_names(a, open));
  if (*tiles)
    diag_note(diags, d, (Span){0}, "one program serves every %s up to the same power of two",
              tiles);
  if (*values) diag_note(diags, d, (Span){0}, "there is a program for each value of %s", values);
  diag_hint(diags, d, "to compile it once, %s", way_out(a, open));
}

void fit_refuse(Diags *diags, Span at, const char *name, const OpenSymbols *open, DiagCode code,
                const char *hint) {
  Diag *d = diag_add(diags, code, at,
                     "`%s` is compiled when it is called: the size of its tiles depends on %s",
                     name, all_names(diags->arena, open));
  diag_hint(diags, d, "%s%s", hint, way_out(diags->arena, open));
}
