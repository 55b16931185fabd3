/* compiled.c: creates programs: from a kernel, target and options; from the cache. */
#include "driver/compiled.h"

#include <string.h>

#include "backend/eval/eval_tile.h"
#include "base/os.h"
#include "runtime/cache/build_id.h"

/* ---- diagnostics ---- */

static Span span_in(Sources *to, Sources *from, Span at) {
  if (!at.file) return (Span){0};
  const SourceFile *f = &from->files.at[at.file - 1];
  at.file = sources_file(to, f->name, f->given ? f->text : NULL);
  return at;
}

/* Variants of a kernel mostly have the same diagnostics. */
static bool is_said(const Diags *list, const wv_program *p, const Diag *d) {
  if (diag_info[d->code].severity != SEVERITY_remark) return false;
  for (const Diag *old = list->first; old; old = old->next)
    if (old->code == d->code && old->at.line == d->at.line && old->at.col == d->at.col &&
        strcmp(old->text, d->text) == 0 &&
        strcmp(sources_name(list->sources, old->at.file),
               sources_name(p->own->cx->diags.sources, d->at.file)) == 0)
      return true;
  return false;
}

void program_forward(wv_program *p, Diags *to) {
  Diags *from = &p->own->cx->diags;
  for (const Diag *d = from->first; d && to != from; d = d->next) {
    if (is_said(to, p, d)) continue;
    Diag *copy = diag_add(to, d->code, span_in(to->sources, from->sources, d->at), "%s", d->text);
    for (const DiagNote *n = d->notes; n; n = n->next)
      diag_note(to, copy, span_in(to->sources, from->sources, n->at), "%s", n->text);
    if (d->hint) diag_hint(to, copy, "%s", d->hint);
  }
  diags_clear(from);
}

/* ---- one thread at a time ---- */

wv_program *program_of(Launcher *l) {
  return (wv_program *)(void *)((char *)l - offsetof(wv_program, launcher));
}

static void give_up(void *program) {
  wv_program *p = program;
  api_landed(p->own);
  pthread_mutex_unlock(&p->mutex);
}

void program_lock(wv_program *p, ProgramLock *out) {
  pthread_mutex_lock(&p->mutex);
  out->p = p;
  landing_hold(&out->held, give_up, p);
}

void program_unlock(ProgramLock *l) {
  landing_let_go(&l->held);
  pthread_mutex_unlock(&l->p->mutex);
}

/* ---- variants ---- */

static const char *key_of(const wv_program *p, Arena *a, int variant) {
  const Variant *v = &p->variants.at[variant];
  StrBuf out = {.arena = a};
  sb_printf(&out, "variant %d %s\n", variant, v->facts);
  for (int i = 0; i < v->nassume; i++) sb_printf(&out, "%s\n", sym_text(a, v->assume[i]));
  sb_puts(&out, p->key);
  return sb_text(&out);
}

/* The variant from the cache, if it has the same signature. */
static bool take_cached(wv_program *p, const char *key, int variant) {
  Artefact *found = cache_load(p->arena, &p->cache, key, &p->own->cx->diags);
  if (!found || found->nvariants != p->art.nvariants || found->nslots != p->art.nslots ||
      !found->variant[variant].compiled)
    return false;
  ArtVariant *to = &p->art.variant[variant];
  const char *facts = to->facts;
  int guard = to->guard, aliased = to->aliased;
  int64_t repacked = to->repacked;
  *to = found->variant[variant];
  to->facts = facts;
  to->guard = guard;
  to->repacked = repacked;
  to->aliased = aliased;
  remarks_say(to, &p->own->cx->diags);
  return true;
}

/* wavec compiles every variant, including this one. */
static void attempt_program(wv_program *p) {
  Arena *a = arena_new();
  const CompileOptions *o = &p->options;
  const char *after = o->start_after ? o->start_after : "";
  const char *words =
      arena_printf(a, "--emit=program --target=%s%s%s%s", o->machine->name,
                   *after ? " --start-after=" : "", after, o->fast_math ? " --fast-math" : "");
  api_attempt(p->own, p->kernel->k, words);
  arena_free(a);
}

bool program_compile(wv_program *p, int variant) {
  ArtVariant *v = &p->art.variant[variant];
  if (v->compiled) return true;
  if (!api_usable(p->own)) return false;
  attempt_program(p);
  double start = os_seconds();
  const char *key = p->cache.read || p->cache.write ? key_of(p, p->arena, variant) : NULL;
  bool ok = key && take_cached(p, key, variant);
  p->state[variant].from_cache = ok;
  if (!ok) {
    Diag *before = p->own->cx->diags.last;
    ok = compile_variant(&p->symbols, &p->variants.at[variant], &p->options, v);
    if (!ok && variant >= p->art.fallback) kernel_blame_assumptions(p->kernel->k, before);
    if (ok && key) cache_store(&p->cache, key, &p->art, variant, &p->own->cx->diags);
  }
  p->state[variant].compile_ms = (os_seconds() - start) * 1e3;
  p->failed |= !ok;
  return ok;
}

DeviceReport program_report(const wv_program *p) {
  return (DeviceReport){&p->own->cx->diags, p->kernel ? p->kernel->k->at : (Span){0}, p->art.name};
}

/* The executor takes the host's tensors, as the CPU does. */
static const DeviceKind *kind_of(const Artefact *art) {
  bool emulated = target_find(art->target).kind == TARGET_EMU;
  return emulated ? &device_emu : device_kind(art->device_kind);
}

bool program_open_device(wv_program *p) {
  DeviceReport r = program_report(p);
  if (!p->launcher.device) p->launcher.device = device_owned(device_open(kind_of(&p->art), &r));
  return p->launcher.device != NULL;
}

bool program_load(wv_program *p, int variant, int device) {
  Launcher *l = &p->launcher;
  DeviceReport r = program_report(p);
  if (device >= DEVICE_MOST)
    return diag_fail(r.diags, DIAG_E0902, r.at,
                     "device %d is out of range: the last usable device is %d", device,
                     DEVICE_MOST - 1);
  if (!program_compile(p, variant) || !program_open_device(p)) return false;
  if (atomic_load(&l->code[variant][device])) return true;
  DeviceCode *code = ARENA_NEW(p->arena, DeviceCode);
  if (!l->device->kind->load(l->device, device, &p->art.variant[variant], code, &r)) return false;
  p->state[variant].load_ms = code->load_ms;
  atomic_store_explicit(&l->code[variant][device], code, memory_order_release);
  return true;
}

static bool prepare(Launcher *l, int variant, int device, void *stream, Diags *diags) {
  wv_program *p = program_of(l);
  ProgramLock lock;
  program_lock(p, &lock);
  bool ok = program_open_device(p) &&
            launch_refuse_capture(l, diags, p->art.variant[variant].facts, stream) &&
            program_load(p, variant, device);
  program_forward(p, diags);
  program_unlock(&lock);
  return ok;
}

static bool open_locked(Launcher *l, Diags *diags) {
  wv_program *p = program_of(l);
  ProgramLock lock;
  program_lock(p, &lock);
  bool ok = program_open_device(p);
  program_forward(p, diags);
  program_unlock(&lock);
  return ok;
}

/* ---- making one ---- */

_Static_assert((int)LAUNCH_LOG_MOST == (int)LOG_MOST, "logs are as large everywhere");

static void put_lines(StrBuf *out, const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    sb_printf(out, "%s:%u:%u\n", sources_name(&k->cx->sources, op->at.file), op->at.line,
              op->at.col);
}

/* Everything that determines what is compiled, except the variant. */
static const char *make_key(const wv_program *p) {
  StrBuf out = {.arena = p->arena};
  const CompileOptions *o = &p->options;
  sb_printf(&out, "wave %s %s\n", wv_version(), build_id(p->arena));
  sb_printf(&out, "target %s%s\n", o->emulated ? "emu:" : "", o->machine->name);
  const Backend *backend = backend_of(o);
  if (backend->key) sb_printf(&out, "%s\n", backend->key(p->arena, o));
  if (o->start_after) sb_printf(&out, "start_after %s\n", o->start_after);
  if (o->fast_math) sb_puts(&out, "fast_math\n");
  ir_print(&out, p->kernel->k);
  put_lines(&out, p->kernel->k); /* the code contains its source locations */
  return sb_text(&out);
}

static void set_places(wv_program *p, const Span *assumptions) {
  const Kernel *k = p->kernel->k;
  Launcher *l = &p->launcher;
  l->at = api_place(k->cx, k->at);
  l->param_at = ARENA_ARRAY(p->arena, wv_place, k->params.n + 1);
  l->assumption_at = ARENA_ARRAY(p->arena, wv_place, p->art.nassumptions + 1);
  for (int i = 0; i < k->params.n; i++)
    l->param_at[i] = api_place(k->cx, k->params.at[i].at.line ? k->params.at[i].at : k->at);
  for (int i = 0; i < p->art.nassumptions; i++)
    l->assumption_at[i] = api_place(k->cx, assumptions[i]);
}

static void describe_variants(wv_program *p, LaunchValues *values) {
  Artefact *art = &p->art;
  bool is_decided = p->kernel->k->level == LEVEL_THREAD || p->options.start_after;
  p->variants = variants_plan(&p->symbols, p->options.machine, is_decided);
  art->nvariants = p->variants.n;
  art->fallback = p->variants.fallback;
  p->launcher.has_logs = artefact_has_logs(art);
  for (int i = 0; i < art->nvariants; i++) {
    const Variant *v = &p->variants.at[i];
    art->variant[i].facts = v->facts;
    art->variant[i].repacked = v->repacked;
    art->variant[i].aliased = v->alias.found;
    if (v->alias.found) art->whole = v->alias.whole, art->part = v->alias.part;
    art->variant[i].guard = v->guard ? launch_value(values, v->guard) : -1;
  }
}

/* Checks only the arguments that determine which program handles the call; that program checks the
 * rest. */
static bool describe_open(wv_program *p, LaunchValues *values) {
  Artefact *art = &p->art;
  int n = 0;
  for (int i = 0; i < art->nsizes; i++)
    if (art->sizes[i].param < art->ngiven) art->sizes[n++] = art->sizes[i];
  art->nsizes = n;
  if (kernel_has_fallback(p->kernel->k)) art->nassumptions = 0; /* none is required */
  for (int i = 0; i < p->open.n; i++)
    if ((p->open_value[i] = launch_value(values, p->open.at[i].symbol)) < 0) return false;
  return true;
}

/* The artefact without code. */
static bool describe(wv_program *p) {
  Kernel *k = p->kernel->k;
  Artefact *art = &p->art;
  LaunchValues values = {.symbols = &p->symbols};
  Span *assumptions;
  art->name = k->name;
  const char *machine = p->options.machine->name;
  art->target = p->options.emulated ? arena_printf(p->arena, "emu:%s", machine) : machine;
  const Backend *backend = backend_of(&p->options);
  art->device_kind = backend->device_kind;
  art->needs = backend->key ? backend->key(p->arena, &p->options) : "";
  if (!launch_symbols(k, p->arena, art, &p->symbols) ||
      !launch_signature(&p->symbols, art, &values, &assumptions))
    return false;
  if (!p->open.n) describe_variants(p, &values);
  else if (!describe_open(p, &values)) return false;
  set_places(p, assumptions);
  return launch_values_program(&values, &art->signature);
}

bool program_describe(wv_program *p, bool may_open) {
  if (!kernel_settle_assumptions(p->kernel->k)) return false;
  if (may_open && !p->options.start_after) p->open = fit_open(p->kernel->k);
  if (!p->open.n && !compile_signature(p->kernel->k, &p->options)) return false;
  if (!describe(p)) return false;
  p->key = make_key(p);
  return true;
}

static void free_program(void *p) { program_free(p); }

wv_program *program_blank(void) {
  Arena *a = arena_new();
  char *room = arena_alloc(a, sizeof(wv_program) + _Alignof(wv_program));
  uintptr_t past = (uintptr_t)room % _Alignof(wv_program);
  wv_program *p = (wv_program *)(room + (past ? _Alignof(wv_program) - past : 0));
  p->handle = HANDLE_PROGRAM;
  p->arena = a;
  arena_owner(a, free_program, p);
  p->own = wv_ctx_new();
  if (p->own) context_owned(p->own->cx);
  p->launcher.art = &p->art;
  p->launcher.prepare = prepare;
  p->launcher.open = open_locked;
  atomic_flag_clear(&p->launcher.busy);
  pthread_mutex_init(&p->mutex, NULL);
  return p;
}

wv_program *program_new(wv_kernel *k, const CompileOptions *o) {
  wv_program *p = program_blank();
  p->kernel = wv_kernel_copy(k, p->own);
  if (p->kernel) api_kernel_owned(p->kernel);
  p->options = *o;
  p->launcher.repack = repack_run;
  if (o->start_after) p->options.start_after = arena_strdup(p->arena, o->start_after);
  return p;
}

/* Code that a graph captured stays loaded: graphs do not say when they are destroyed. */
static void unload_all(wv_program *p) {
  Launcher *l = &p->launcher;
  if (atomic_load(&l->captured)) return;
  for (int v = 0; v < p->art.nvariants; v++)
    for (int d = 0; d < DEVICE_MOST; d++)
      if (atomic_load(&l->code[v][d]))
        l->device->kind->unload(l->device, atomic_load(&l->code[v][d]));
}

void program_free(wv_program *p) {
  Launcher *l = &p->launcher;
  program_free_fitted(p);
  repack_free(p);
  unload_all(p);
  if (p->own) launch_release_workspace(l, &p->own->cx->diags);
  device_close(l->device);
  pthread_mutex_destroy(&p->mutex);
  if (p->kernel) wv_kernel_free(p->kernel);
  wv_ctx_free(p->own);
  arena_free(p->arena);
}

void wv_program_free(wv_program *p) {
  API_ASKS();
  if (api_is(p, HANDLE_PROGRAM)) program_free(p);
}

/* ---- which machine ---- */

/* The machine of a device of this kind; NULL after reporting. */
static const TargetInfo *machine_of(const DeviceKind *kind, int index, const DeviceReport *r) {
  DeviceFacts facts;
  Device *d = device_open(kind, r);
  const TargetInfo *machine = NULL;
  if (d && kind->facts(d, index < 0 ? 0 : index, &facts, r)) {
    if (backend_serves(facts.target)) machine = target_find(facts.target).machine;
    else if (facts.target)
      diag_add(r->diags, DIAG_E0906, r->at, "no code is generated for `%s` (`%s`) yet", facts.name,
               facts.target);
    else diag_add(r->diags, DIAG_E0906, r->at, "no target supports `%s`", facts.name);
  }
  device_close(d);
  return machine;
}

/* Whether its first device runs code that is generated here; *exists: there is one. */
static bool kind_serves(const DeviceKind *kind, const DeviceReport *r, bool *exists) {
  DeviceFacts facts;
  Device *d = device_open(kind, r);
  *exists = d && kind->count(d) > 0;
  bool serves = *exists && kind->facts(d, 0, &facts, r) && backend_serves(facts.target);
  device_close(d);
  return serves;
}

/* The first kind with a device that code is generated for. Otherwise the first with a device, or the
 * first, so that the report says what is missing. */
static const DeviceKind *best_kind(Sources *sources) {
  Diags unheard = {.arena = arena_new(), .sources = sources};
  const DeviceReport r = {.diags = &unheard};
  const DeviceKind *kind, *best = NULL, *second = NULL;
  for (int i = 0; !best && (kind = device_kind_at(i)); i++) {
    bool exists;
    if (kind_serves(kind, &r, &exists)) best = kind;
    if (exists && !second) second = kind;
  }
  arena_free(unheard.arena);
  return best ? best : second ? second : device_kind_at(0);
}

static const TargetInfo *find_machine(Context *cx, const Kernel *k, const wv_compile_options *o,
                                      bool *native) {
  DeviceReport r = {&cx->diags, k->at, k->name};
  TargetChoice t = o->target ? target_find(o->target) : (TargetChoice){0};
  const DeviceKind *kind = !o->target  ? best_kind(&cx->sources)
                           : t.is_kind ? device_kind_for(t.kind)
                                       : NULL;
  *native = kind != NULL;
  if (kind) return machine_of(kind, o->device, &r);
  if (!t.machine) return target_unknown(&cx->diags, (Span){0}, o->target), NULL;
  CompileOptions as_named = {.machine = t.machine, .emulated = t.kind == TARGET_EMU};
  const Backend *backend = t.simulated ? NULL : backend_of(&as_named);
  const char *misfit = backend && backend->misfit && o->device >= 0
                           ? backend->misfit(cx->diags.arena, t.machine)
                           : NULL;
  if (backend && !misfit) return t.machine;
  if (misfit)
    diag_add(&cx->diags, DIAG_E0906, k->at, "`%s` cannot run on target `%s`: %s", k->name,
             o->target, misfit);
  else diag_add(&cx->diags, DIAG_E0906, k->at, "target `%s` is not available here", o->target);
  return NULL;
}

/* What can be compiled before the first call. */
static bool compile_first(wv_program *p, int device) {
  if (!p->open.n) return device < 0 ? program_compile(p, 0) : program_load(p, 0, device);
  fit_remark(p->kernel->k, &p->open);
  return true;
}

wv_program *wv_compile(wv_kernel *k, const wv_compile_options *given) {
  API_KERNEL_USES(k, NULL);
  static const wv_compile_options plain;
  const wv_compile_options *o = given ? given : &plain;
  Context *cx = k->k->cx;
  CompileOptions options = {.start_after = o->start_after, .fast_math = o->fast_math};
  options.machine = find_machine(cx, k->k, o, &options.native);
  if (!options.machine) return NULL;
  options.emulated = o->target && target_find(o->target).kind == TARGET_EMU;
  if (o->dump)
    options.passes = (PassOptions){.dump = o->dump->dump,
                                   .dump_before = o->dump->dump_before,
                                   .verify_each = o->dump->verify_each,
                                   .time = o->dump->time,
                                   .write = o->dump->write ? api_relay_write : NULL,
                                   .user = (void *)(uintptr_t)&o->dump};
  ir_warn(k->k);
  wv_program *p = program_new(k, &options);
  if (p->kernel) attempt_program(p);
  p->cache = cache_settings(p->arena, o->cache,
                            o->cache_dir ? arena_strdup(p->arena, o->cache_dir) : NULL);
  if (o->dump) p->cache.read = false;
  bool ok = p->kernel && program_describe(p, true) && compile_first(p, o->device);
  p->options.passes = (PassOptions){0}; /* the caller's callbacks end with this call */
  program_forward(p, &cx->diags);
  if (!ok) wv_program_free(p), p = NULL;
  return p;
}
