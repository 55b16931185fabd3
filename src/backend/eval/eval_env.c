/* eval_env.c: the values of symbols and of expressions.
 *
 * Slots are found by name: the same spelling with and without the non-negative assumption is one
 * symbol here. Compiled expressions are kept for the whole run. */
#include <stdarg.h>
#include <string.h>

#include "backend/eval/eval.h"

/* ---- reporting ---- */

bool eval_fail(Eval *ev, DiagCode code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(ev->cx->diags.arena, fmt, ap);
  va_end(ap);
  return diag_fail(&ev->cx->diags, code, ev->at, "%s", text);
}

void eval_hint(Eval *ev, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(ev->cx->diags.arena, fmt, ap);
  va_end(ap);
  diag_hint(&ev->cx->diags, ev->cx->diags.last, "%s", text);
}

bool eval_goes_on(Eval *ev, int64_t work) {
  const EvalOptions *o = ev->options;
  ev->work += work;
  if (ev->work < WORK_MOST) return !ev->stopped;
  ev->work = 0;
  if (ev->stopped) return false;
  if (!o || !o->interrupted || !o->interrupted(o->user)) return true;
  ev->stopped = true;
  return eval_fail(ev, DIAG_E0712, "the run was interrupted");
}

int64_t eval_part(Eval *ev, int64_t e, int64_t from, int64_t n) {
  if (e >= n || ev->stopped || (e > from && !eval_goes_on(ev, WORK_MOST))) return e;
  return n - e < WORK_MOST ? n : e + WORK_MOST;
}

const char *eval_text(Eval *ev, const Sym *s) { return sym_text(ev->cx->diags.arena, s); }

/* ---- slots ---- */

int env_slot(Eval *ev, const char *name) {
  name = intern(&ev->cx->names, name);
  uintptr_t found = (uintptr_t)map_get(&ev->slot_of, map_key(name));
  if (found) return (int)found - 1;
  vec_push(ev->home, &ev->slots, ((Slot){.name = name}));
  map_set(ev->home, &ev->slot_of, map_key(name), (void *)(uintptr_t)ev->slots.n);
  return ev->slots.n - 1;
}

int env_numbered_slot(Eval *ev, const char *prefix, int number) {
  return env_slot(ev, arena_printf(ev->arena, "%s%d", prefix, number));
}

static Slot *changing(Eval *ev, int slot) {
  WV_ASSERT(!ev->back);
  vec_push(ev->home, &ev->undo, ((Undo){slot, ev->slots.at[slot]}));
  return &ev->slots.at[slot];
}

void env_set_position(Eval *ev, int slot, int64_t v) {
  Slot *s = changing(ev, slot);
  s->value = v;
  s->has_value = true;
}

void env_set(Eval *ev, int slot, int64_t v) {
  Slot *s = changing(ev, slot);
  s->value = s->extent = v;
  s->has_value = s->has_extent = true;
}

void env_define(Eval *ev, const Sym *symbol, const Sym *definition) {
  int slot = env_slot(ev, sym_name(symbol));
  const Expr *e = expr_of(ev, definition);
  ev->slots.at[slot].definition = e;
}

int env_mark(const Eval *ev) { return ev->undo.n; }

static void swap_slot(Eval *ev, int i) {
  Undo *u = &ev->undo.at[i];
  Slot now = ev->slots.at[u->slot];
  ev->slots.at[u->slot] = u->old;
  u->old = now;
}

int env_back(Eval *ev, int mark) {
  int before = ev->back;
  for (int i = ev->undo.n - before; i > mark; i--) swap_slot(ev, i - 1), ev->back++;
  return ev->back - before;
}

void env_forth(Eval *ev, int undone) {
  for (; undone > 0; undone--) swap_slot(ev, ev->undo.n - ev->back--);
}

void env_rewind(Eval *ev, int mark) {
  while (ev->undo.n > mark) {
    const Undo *u = &ev->undo.at[--ev->undo.n];
    ev->slots.at[u->slot] = u->old;
  }
}

/* ---- expressions ---- */

const Expr *expr_of(Eval *ev, const Sym *s) {
  Expr *e = map_get(&ev->expr_of, map_key(s));
  if (e) return e;
  e = ARENA_NEW(ev->home, Expr);
  FreeSymbols vars = sym_symbols(ev->home, s);
  e->sym = s;
  e->nslots = vars.n;
  e->slots = ARENA_ARRAY(ev->home, int, e->nslots);
  for (int i = 0; i < e->nslots; i++) e->slots[i] = env_slot(ev, sym_name(vars.at[i]));
  const Sym *whole = sym_is_bool(s) ? s : sym_floor(ev->cx->sym, s);
  if (whole) e->program = sym_compile(ev->home, ev->cx->sym, &whole, 1, vars.at, vars.n);
  if (e->program) e->scratch = sym_program_slots(e->program);
  map_set(ev->home, &ev->expr_of, map_key(s), e);
  return e;
}

static bool slots_known(const Eval *ev, const Expr *e) {
  for (int i = 0; i < e->nslots; i++) {
    const Slot *s = &ev->slots.at[e->slots[i]];
    if (!s->has_value && !(s->definition && slots_known(ev, s->definition))) return false;
  }
  return true;
}

bool expr_is_known(Eval *ev, const Sym *s) { return slots_known(ev, expr_of(ev, s)); }

static bool is_thread_symbol(const char *name) {
  return (strncmp(name, "$T", 2) == 0 && name[2] >= '0' && name[2] <= '2' && !name[3]) ||
         strcmp(name, "$GPR_NUM") == 0;
}

static bool fail_unknown(Eval *ev, const char *name, const Expr *in) {
  if (is_thread_symbol(name))
    return eval_fail(ev, DIAG_E0701, "`%s` uses `%s`, which differs between threads",
                     eval_text(ev, in->sym), name);
  eval_fail(ev, DIAG_E0103, "`%s` has no value", name);
  eval_hint(ev, "%s", ir_unknown_hint(ev->k, name));
  return false;
}

static bool run_expr(Eval *ev, const Expr *e, Meaning meaning, int64_t *out);

static bool slot_value(Eval *ev, int slot, const Expr *in, Meaning meaning, int64_t *out) {
  const Slot *s = &ev->slots.at[slot];
  bool extent = meaning == MEAN_EXTENT;
  if (extent ? s->has_extent : s->has_value) {
    *out = extent ? s->extent : s->value;
    return true;
  }
  if (s->definition) return run_expr(ev, s->definition, meaning, out);
  if (s->has_value) { /* a loop's axis that never had a size of its own */
    *out = s->value;
    return true;
  }
  return fail_unknown(ev, s->name, in);
}

static bool fail_point(Eval *ev, const Expr *e) {
  return eval_fail(ev, DIAG_E0710,
                   "`%s` has no value here: it divides by zero or overflows 64 bits",
                   eval_text(ev, e->sym));
}

static bool run_expr(Eval *ev, const Expr *e, Meaning meaning, int64_t *out) {
  ArenaMark mark = arena_mark(ev->arena);
  int64_t *vars = ARENA_ARRAY(ev->arena, int64_t, e->nslots);
  int64_t *scratch = ARENA_ARRAY(ev->arena, int64_t, e->scratch);
  bool ok = true;
  for (int i = 0; ok && i < e->nslots; i++) ok = slot_value(ev, e->slots[i], e, meaning, &vars[i]);
  if (ok && (!e->program || !sym_run(e->program, vars, scratch, out))) ok = fail_point(ev, e);
  arena_rewind(ev->arena, mark);
  return ok;
}

bool expr_value(Eval *ev, const Sym *s, int64_t *out) {
  return sym_is_int(s, out) || run_expr(ev, expr_of(ev, s), MEAN_VALUE, out);
}

static bool is_said(const Eval *ev, DiagCode code, const char *text) {
  for (const Diag *d = ev->cx->diags.first; d; d = d->next)
    if (d->code == code && d->at.line == ev->at.line && strcmp(d->text, text) == 0) return true;
  return false;
}

bool eval_assumed(Eval *ev, const Sym *cond, bool required, const char *where) {
  int64_t holds;
  DiagCode code = required ? DIAG_E0709 : DIAG_R0701;
  Diag *before = ev->cx->diags.last;
  bool has_value = expr_value(ev, cond, &holds);
  if (!has_value)
    diags_cut(&ev->cx->diags, before); /* an assumption without a value does not
                                                      * hold */
  if (has_value && holds) return true;
  const char *text = arena_printf(ev->cx->diags.arena, "the assumption `%s` does not hold %s",
                                  eval_text(ev, cond), where);
  if (!is_said(ev, code, text)) diag_add(&ev->cx->diags, code, ev->at, "%s", text);
  return !required;
}

bool expr_extent(Eval *ev, const Sym *s, int64_t *out) {
  return sym_is_int(s, out) || run_expr(ev, expr_of(ev, s), MEAN_EXTENT, out);
}

bool expr_open(Eval *ev, const Sym *s, const int *holes, int nholes, ExprRun *run) {
  const Expr *e = expr_of(ev, s);
  if (!e->program) return fail_point(ev, e);
  *run = (ExprRun){.expr = e};
  run->vars = ARENA_ARRAY(ev->arena, int64_t, e->nslots);
  run->scratch = ARENA_ARRAY(ev->arena, int64_t, e->scratch);
  run->hole = ARENA_ARRAY(ev->arena, int, nholes);
  for (int h = 0; h < nholes; h++) run->hole[h] = -1;
  for (int i = 0; i < e->nslots; i++) {
    bool is_hole = false;
    for (int h = 0; h < nholes; h++)
      if (holes[h] == e->slots[i]) is_hole = true, run->hole[h] = i;
    if (!is_hole && !slot_value(ev, e->slots[i], e, MEAN_VALUE, &run->vars[i])) return false;
  }
  return true;
}

bool expr_point(ExprRun *run, int64_t *out) {
  return sym_run(run->expr->program, run->vars, run->scratch, out);
}
