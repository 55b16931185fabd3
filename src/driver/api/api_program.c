/* api_program.c: compiled programs through wave.h: queries and launches. */
#include <string.h>

#include "driver/compiled.h"
#include "ir/dtype.h"
#include "runtime/cpu/cpu_gate.h"

int wv_dtype_find(const char *name) {
  API_PLAIN;
  DType d;
  return name && dtype_parse(name, &d) ? (int)d : -1;
}

bool wv_dtype_holds(int dtype, int64_t v) {
  API_PLAIN;
  return dtype >= 0 && dtype < DTYPE_COUNT && !dtype_is_float((DType)dtype) &&
         dtype_holds_int((DType)dtype, v);
}

static bool is_program(const wv_program *p) { return api_is(p, HANDLE_PROGRAM); }

const char *wv_program_name(const wv_program *p) {
  API_PLAIN;
  return is_program(p) ? p->art.name : NULL;
}

const char *wv_program_target(const wv_program *p) {
  API_PLAIN;
  return is_program(p) ? p->art.target : NULL;
}

int wv_program_kind(const wv_program *p) {
  API_PLAIN;
  return is_program(p) ? p->art.device_kind : 0;
}

bool wv_program_variant(wv_program *p, int i, wv_variant *out) {
  API_ENTER(is_program(p), NULL, (void)0, false);
  wv_program *shown = p->open.n ? atomic_load(&p->last) : p;
  if (!shown || i < 0 || i >= shown->art.nvariants) return false;
  pthread_mutex_lock(&shown->mutex);
  const VariantState *s = &shown->state[i];
  const ArtVariant *v = &shown->art.variant[i];
  *out = (wv_variant){v->facts,   v->compiled, s->from_cache, s->compile_ms,
                      s->load_ms, v->llvm_ms,  v->shared};
  pthread_mutex_unlock(&shown->mutex);
  return true;
}

static bool is_amd(const wv_program *p) {
  const TargetInfo *machine = target_find(p->art.target).machine;
  return machine && machine->vendor == VENDOR_AMD;
}

static const char *text_of(wv_program *p, const ArtVariant *v, const char *what, Diags *diags) {
  bool object = v->listing && *v->listing;
  if (strcmp(what, "ir") == 0) return v->ir;
  if (strcmp(what, "llvm") == 0) return object ? v->listing : NULL;
  if (strcmp(what, "ptx") == 0) return object ? NULL : v->code;
  if (is_amd(p) && (strcmp(what, "asm") == 0 || strcmp(what, "loops") == 0))
    return api_code_text(p->arena, diags, what, p->art.name, v->code, (size_t)v->code_bytes);
  if (strcmp(what, "asm") == 0) return object ? v->listing : v->code;
  if (strcmp(what, "remarks") == 0) return remarks_text(p->arena, v, &p->own->cx->sources);
  return NULL;
}

/* A variant, compiled if necessary, with the program locked; NULL, with nothing locked: there is no
 * such variant, or the reason why it cannot be compiled was reported. */
static const ArtVariant *lock_variant(wv_program *p, wv_ctx *cx, int i, ProgramLock *lock) {
  if (i < 0 || i >= p->art.nvariants) return NULL;
  program_lock(p, lock);
  bool ok = program_compile(p, i);
  program_forward(p, &cx->cx->diags);
  if (!ok) program_unlock(lock);
  return ok ? &p->art.variant[i] : NULL;
}

const char *wv_program_text(wv_program *p, wv_ctx *cx, int variant, const char *what) {
  API_PROGRAM(p, cx, NULL);
  ProgramLock lock;
  wv_program *shown = program_shown(p, &cx->cx->diags);
  const ArtVariant *v = shown && what ? lock_variant(shown, cx, variant, &lock) : NULL;
  const char *text = v ? text_of(shown, v, what, &cx->cx->diags) : NULL;
  if (v) program_unlock(&lock);
  return text;
}

const void *wv_program_code(wv_program *p, wv_ctx *cx, int variant, size_t *n) {
  API_PROGRAM(p, cx, NULL);
  ProgramLock lock;
  wv_program *shown = program_shown(p, &cx->cx->diags);
  const ArtVariant *v = shown ? lock_variant(shown, cx, variant, &lock) : NULL;
  if (!v) return NULL;
  const void *code = v->code;
  *n = (size_t)v->code_bytes;
  program_unlock(&lock);
  return code;
}

/* Asks the device about loaded code, with the program locked. */
typedef bool Ask(wv_program *p, const DeviceCode *code, void *out);

static bool ask_device(wv_program *p, wv_ctx *cx, int variant, int device, Ask *ask, void *out) {
  wv_program *shown = program_shown(p, &cx->cx->diags);
  if (!shown || variant < 0 || variant >= shown->art.nvariants || device < 0) return false;
  ProgramLock lock;
  program_lock(shown, &lock);
  bool ok = program_load(shown, variant, device) &&
            ask(shown, atomic_load(&shown->launcher.code[variant][device]), out);
  program_forward(shown, &cx->cx->diags);
  program_unlock(&lock);
  return ok;
}

static bool get_resources(wv_program *p, const DeviceCode *code, void *out) {
  DeviceReport report = program_report(p);
  Device *d = p->launcher.device;
  return d->kind->resources(d, code, out, &report);
}

bool wv_program_resources(wv_program *p, wv_ctx *cx, int variant, int device, wv_resources *out) {
  API_PROGRAM(p, cx, false);
  DeviceResources r;
  if (!ask_device(p, cx, variant, device, get_resources, &r)) return false;
  *out = (wv_resources){r.registers, r.shared, r.spilled, r.threads, r.workgroups, r.occupancy};
  return true;
}

/* ---- tests of the executor ---- */

typedef struct NumberedInstruction {
  int number;
  DeviceInstruction found;
} NumberedInstruction;

static bool get_instruction(wv_program *p, const DeviceCode *code, void *out) {
  NumberedInstruction *i = out;
  const DeviceKind *kind = p->launcher.device->kind;
  return kind->instruction && kind->instruction(code, i->number, &i->found);
}

static bool remove_instruction(wv_program *p, const DeviceCode *code, void *out) {
  const DeviceKind *kind = p->launcher.device->kind;
  return kind->remove && kind->remove(code, *(int *)out);
}

bool wv_test_instruction(wv_program *p, wv_ctx *cx, int variant, int i, wv_instruction *out) {
  API_PROGRAM(p, cx, false);
  NumberedInstruction n = {.number = i};
  if (!ask_device(p, cx, variant, 0, get_instruction, &n)) return false;
  *out = (wv_instruction){n.found.at, n.found.text, n.found.executed, n.found.needed};
  return true;
}

bool wv_test_remove(wv_program *p, wv_ctx *cx, int variant, int i) {
  API_PROGRAM(p, cx, false);
  return ask_device(p, cx, variant, 0, remove_instruction, &i);
}

void wv_ctx_interrupt(wv_ctx *cx, bool (*interrupted)(void *user), void *user) {
  API_PLAIN;
  if (!api_is(cx, HANDLE_CTX)) return;
  cx->interrupted = interrupted;
  cx->user = user;
}

void wv_exiting(bool is_exiting) {
  API_PLAIN;
  cpu_gate_exiting(is_exiting);
}

/* ---- launching ---- */

static ApiRelay relay_of(const wv_ctx *cx) { return (ApiRelay){NULL, cx->interrupted, cx->user}; }

static LaunchCall call_of(const wv_launch_arg *args, int nargs, void *stream, ApiRelay *relay) {
  return (LaunchCall){.args = args,
                      .nargs = nargs,
                      .stream = stream,
                      .interrupted = relay->interrupted ? api_relay_interrupt : NULL,
                      .interrupted_user = relay};
}

/* Calls that are not like the last one. `error`: the driver's error if it was. */
static WV_NOINLINE bool launch_landing(wv_program *p, wv_ctx *cx, const LaunchCall *c, int error) {
  API_PROGRAM(p, cx, false);
  wv_program *fitted = program_for(p, &cx->cx->diags, c);
  if (!fitted) return false;
  if (fitted->launcher.has_logs) return launch_logged(&fitted->launcher, &cx->cx->diags, c);
  return launch_anew(&fitted->launcher, &cx->cx->diags, c, error);
}

/* The launcher that recorded the last call. */
static Launcher *last_launcher(wv_program *p) {
  wv_program *last =
      p->open.n ? atomic_load_explicit(&p->last, memory_order_acquire) : (wv_program *)NULL;
  return last ? &last->launcher : &p->launcher;
}

/* A call like the last one neither allocates nor asserts: only the others need a landing, which
 * takes a tenth of a microsecond. */
bool wv_launch(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
               unsigned flags) {
  API_PLAIN;
  if (!is_program(p) || !wv_ctx_usable(cx)) return launch_landing(p, cx, NULL, 0);
  if (!api_list(cx, args, nargs, "arguments")) return false;
  ApiRelay relay = relay_of(cx);
  LaunchCall c = call_of(args, nargs, stream, &relay);
  int error = 0;
  c.flags = flags;
  Launcher *l = last_launcher(p);
  if (!l->has_logs && launch_again(l, &c, &error) && !error) return true;
  return launch_landing(p, cx, &c, error);
}

typedef struct LogRelay {
  void (*log)(void *user, const char *label, const wv_buffer *value);
  void *user;
} LogRelay;

static void relay_log(void *user, const char *label, const wv_buffer *value) {
  const LogRelay *r = user;
  Landing out;
  landing_call_out(&out);
  r->log(r->user, label, value);
  landing_back(&out);
}

bool wv_launch_logged(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
                      void (*log)(void *user, const char *label, const wv_buffer *value),
                      void *user) {
  API_PROGRAM(p, cx, false);
  if (!api_list(cx, args, nargs, "arguments")) return false;
  ApiRelay relay = relay_of(cx);
  LogRelay logs = {log, user};
  LaunchCall c = call_of(args, nargs, stream, &relay);
  c.log = log ? relay_log : NULL;
  c.user = &logs;
  wv_program *fitted = program_for(p, &cx->cx->diags, &c);
  return fitted && launch_logged(&fitted->launcher, &cx->cx->diags, &c);
}

bool wv_program_warm(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs) {
  API_PROGRAM(p, cx, false);
  if (!api_list(cx, args, nargs, "arguments")) return false;
  LaunchCall c = {.args = args, .nargs = nargs, .only_plan = true};
  wv_program *fitted = program_for(p, &cx->cx->diags, &c);
  return fitted && launch_logged(&fitted->launcher, &cx->cx->diags, &c);
}
