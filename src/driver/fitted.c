/* fitted.c: the programs of a kernel that is compiled when it is called (fit.h). */
#include "driver/compiled.h"

/* ---- which one ---- */

static bool fail_value(const wv_program *p, Diags *diags, int i) {
  Span at = launch_report(&p->launcher, diags, p->launcher.at).at;
  return diag_fail(diags, DIAG_E0710, at, "`%s` of `%s` has no value for these sizes",
                   sym_name(p->open.at[i].symbol), p->art.name);
}

static bool read_values(const wv_program *p, Diags *diags, const LaunchCall *c, int64_t *values,
                        int *device) {
  const Launcher *l = &p->launcher;
  int64_t slots[ARTEFACT_SLOTS] = {0};
  LaunchRun signature;
  if (c->nargs != p->art.ngiven || !launch_fill(l, c->args, c->nargs, slots, device))
    return launch_explain_args(l, diags, c->args, c->nargs);
  launch_expr_open(&signature, &p->art.signature, slots);
  if (!launch_check(l, diags, &signature)) return false;
  for (int i = 0; i < p->open.n; i++) {
    LaunchValue v = launch_expr_result(&signature, p->open_value[i]);
    if (v.undefined || v.value < 0) return fail_value(p, diags, i);
    values[i] = v.value;
  }
  return true;
}

static const Fitted *find_fitted(const wv_program *p, const Fit *fit) {
  const Fitted *f = atomic_load_explicit(&p->fitted, memory_order_acquire);
  while (f && !fit_equal(&p->open, &f->fit, fit)) f = f->next;
  return f;
}

/* ---- making one ---- */

static const Fitted *keep_fitted(wv_program *p, Fitted made) {
  Fitted *f = ARENA_NEW(p->arena, Fitted);
  *f = made;
  f->next = atomic_load(&p->fitted);
  if (f->program) arena_owned(f->program->arena);
  atomic_store_explicit(&p->fitted, f, memory_order_release);
  return f;
}

static wv_program *new_fitted(wv_program *p, const Fit *fit) {
  Kernel *fitted = fit_kernel(p->kernel->k, &p->open, fit);
  if (!fitted) return NULL;
  wv_kernel *k = api_kernel(p->own, fitted);
  wv_program *made = program_new(k, &p->options);
  made->cache = p->cache;
  bool ok = made->kernel && program_describe(made, false);
  wv_kernel_free(k);
  if (ok) return made;
  program_forward(made, &p->own->cx->diags);
  program_free(made);
  return NULL;
}

static const char *first_error(const Diags *diags, const Diag *before) {
  const Diag *d = before ? before->next : diags->first;
  while (d && diag_info[d->code].severity != SEVERITY_error) d = d->next;
  return d ? d->text : "";
}

/* Compiles what this call needs. If the larger tile does not compile, that is recorded, and the
 * caller tries the exact value. NULL after reporting to the program's own context. */
static const Fitted *make_fitted(wv_program *p, const Fit *fit, const LaunchCall *c) {
  Diags *diags = &p->own->cx->diags;
  Diag *before = diags->last;
  LaunchCall plan = {.args = c->args, .nargs = c->nargs, .stream = c->stream, .only_plan = true};
  wv_program *made = new_fitted(p, fit);
  bool ok = made && launch_logged(&made->launcher, diags, &plan);
  if (made && !made->failed) { /* if not ok, only this call failed */
    const Fitted *f = keep_fitted(p, (Fitted){.fit = *fit, .program = made});
    return ok ? f : NULL;
  }
  if (made) program_free(made);
  if (fit->exact) return NULL;
  const char *why = arena_strdup(p->arena, first_error(diags, before));
  diags_cut(diags, before);
  return keep_fitted(p, (Fitted){.fit = *fit, .why = why});
}

static const Fitted *get_fitted(wv_program *p, Diags *diags, const Fit *fit, const LaunchCall *c) {
  const Fitted *f = find_fitted(p, fit);
  if (f) return f;
  ProgramLock lock;
  program_lock(p, &lock);
  f = find_fitted(p, fit);
  const char *facts = fit_text(diags->arena, &p->open, fit);
  if (!f && api_usable(p->own) && program_open_device(p) &&
      launch_refuse_capture(&p->launcher, diags, facts, c->stream))
    f = make_fitted(p, fit, c);
  program_forward(p, diags);
  program_unlock(&lock);
  return f;
}

static void tell_exact(const wv_program *p, Diags *diags, const Fitted *large, const Fit *exact) {
  Span at = launch_report(&p->launcher, diags, p->launcher.at).at;
  diag_add(diags, DIAG_R0613, at,
           "`%s` is compiled for %s alone, because for %s it does not compile: %s", p->art.name,
           fit_text(diags->arena, &p->open, exact), fit_text(diags->arena, &p->open, &large->fit),
           large->why);
}

wv_program *program_for(wv_program *p, Diags *diags, const LaunchCall *c) {
  int64_t values[OPEN_MOST];
  int device;
  if (!p->open.n) return p;
  if (!read_values(p, diags, c, values, &device)) return NULL;
  Fit fit = fit_of(&p->open, values, false);
  const Fitted *f = get_fitted(p, diags, &fit, c);
  if (f && !f->program) {
    const Fitted *large = f;
    Fit exact = fit_of(&p->open, values, true);
    bool known = find_fitted(p, &exact) != NULL;
    f = get_fitted(p, diags, &exact, c);
    if (f && !known) tell_exact(p, diags, large, &exact);
  }
  if (f) atomic_store_explicit(&p->last, f->program, memory_order_release);
  return f ? f->program : NULL;
}

/* ---- inspection, and freeing ---- */

wv_program *program_shown(wv_program *p, Diags *diags) {
  wv_program *shown = p->open.n ? atomic_load(&p->last) : p;
  if (shown) return shown;
  Span at = launch_report(&p->launcher, diags, p->launcher.at).at;
  fit_refuse(diags, at, p->art.name, &p->open, DIAG_E0904,
             "call it once, or `prepare` it with the arguments of a call; or ");
  return NULL;
}

void program_free_fitted(wv_program *p) {
  for (const Fitted *f = atomic_load(&p->fitted); f; f = f->next)
    if (f->program) program_free(f->program);
}
