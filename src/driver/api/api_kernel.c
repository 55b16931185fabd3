/* api_kernel.c: finished kernels through wave.h: printing, parsing, passes, evaluation, tables. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ptx/ptx.h"
#include "driver/api/api.h"
#include "driver/compile.h"
#include "ir/ops/access.h"
#include "ir/ops/reports.h"
#include "ir/schedule/schedule.h"
#include "runtime/amd/amd_object.h"
#include "runtime/device.h"
#include "runtime/llvm/llvm_library.h"
#include "target/target.h"
#include "transform/choose/choose_symbols.h"
#include "transform/pass_manager.h"

wv_kernel *api_kernel(wv_ctx *cx, Kernel *k) {
  wv_kernel *handle = ARENA_NEW(k->arena, wv_kernel);
  *handle = (wv_kernel){.handle = HANDLE_KERNEL, .cx = cx, .k = k};
  return handle;
}

wv_kernel *api_kernel_owned(wv_kernel *k) {
  Kernel *const parts[] = {k->k, k->tiles, k->plain};
  for (size_t i = 0; i < WV_LEN(parts); i++)
    if (parts[i]) arena_owned(parts[i]->arena);
  return k;
}

void api_kernel_free(void *handle) {
  wv_kernel *k = handle;
  if (!k) return;
  if (k->tiles) kernel_free(k->tiles);
  if (k->plain) kernel_free(k->plain);
  api_kernel_free(k->without);
  api_kernel_free_sized(k);
  kernel_free(k->k);
}

void wv_kernel_free(wv_kernel *k) {
  API_ASKS();
  if (api_is(k, HANDLE_KERNEL)) api_kernel_free(k);
}

static void free_kernel(void *k) { kernel_free(k); }

wv_kernel *wv_finish(wv_builder *b) {
  wv_ctx *const cx = api_builder_cx(b); /* an internal error frees the builder too */
  API_ENTER(cx, cx, (void)0, NULL);
  Held builder;
  arena_free(b->scratch);
  landing_hold(&builder, free_kernel, builder_kernel(b->b)); /* the builder lives in it */
  if (!api_usable(cx)) return builder_free(b->b), NULL;
  Kernel *k = build_finish(b->b);
  wv_kernel *handle = k ? api_kernel(cx, k) : NULL;
  landing_let_go(&builder);
  return handle;
}

/* Latencies and units of an instruction scheduler, which public kernels bind: nothing uses them. */
static bool is_of_scheduler(const Sym *symbol) {
  const char *name = symbol ? sym_name(symbol) : NULL, *last = name ? strrchr(name, '_') : NULL;
  return last && *name == '$' && (strcmp(last, "_DELAY") == 0 || strcmp(last, "_UNITS") == 0);
}

/* A value given again replaces the previous one; other rows are added. */
static void put_row(Kernel *k, Constraint row) {
  if (row.kind == CONSTRAINT_bind && is_of_scheduler(row.bind.symbol)) return;
  for (int i = 0; i < k->constraints.n && row.kind == CONSTRAINT_bind; i++) {
    Constraint *old = &k->constraints.at[i];
    if (old->kind != CONSTRAINT_bind || old->bind.symbol != row.bind.symbol) continue;
    *old = row;
    return;
  }
  vec_push(k->arena, &k->constraints, row);
}

bool wv_kernel_constrain(wv_kernel *handle, const wv_constraint *rows, int n) {
  API_KERNEL(handle, false);
  if (!api_list(handle->cx, rows, n, "constraints")) return false;
  Kernel *k = handle->k;
  api_attempt(handle->cx, k, "--emit=none");
  int before = k->constraints.n;
  Constraint *old = ARENA_ARRAY(k->arena, Constraint, before + 1);
  bool ok = true;
  if (before) memcpy(old, k->constraints.at, sizeof *old * (size_t)before);
  for (int i = 0; ok && i < n; i++) {
    Constraint c;
    ok = api_constraint(k->cx, k->arena, &rows[i], &c);
    if (ok) put_row(k, constraint_copy(k, &c));
  }
  ok = ok && ir_verify_constraints(k) && schedule_check(k);
  if (!ok) {
    k->constraints.n = before;
    if (before) memcpy(k->constraints.at, old, sizeof *old * (size_t)before);
  }
  return ok;
}

void wv_kernel_free_sizes(wv_kernel *k) {
  API_KERNEL(k, );
  kernel_free_sizes(k->k);
}

void wv_kernel_assume(wv_kernel *k, wv_assume how) {
  API_KERNEL(k, );
  if (how == WV_ASSUME_IGNORED) kernel_drop_assumptions(k->k);
  else kernel_require_assumptions(k->k);
}

void wv_kernel_drop_asserts(wv_kernel *k) {
  API_KERNEL(k, );
  kernel_drop_reports(k->k);
}

const char *wv_kernel_name(const wv_kernel *k) {
  API_PLAIN;
  return api_is(k, HANDLE_KERNEL) ? k->k->name : NULL;
}

int wv_kernel_nparams(const wv_kernel *k) {
  API_PLAIN;
  return api_is(k, HANDLE_KERNEL) ? kernel_given(k->k) : 0;
}

bool wv_kernel_param(const wv_kernel *handle, int i, const char **name, wv_type *t,
                     bool *is_output) {
  API_KERNEL_READS(handle, false);
  if (i < 0 || i >= wv_kernel_nparams(handle)) return false;
  const Kernel *k = handle->k;
  *name = k->params.at[i].name;
  *t = (wv_type)k->body->args[i]->type;
  *is_output = memory_is_written(k, k->body->args[i]);
  return true;
}

/* Whether an op depends on the previous content of the memory: all do that do not simply overwrite
 * it. */
static bool depends_on(const Op *op, const Value *memory) {
  bool overwrites = op->kind == OP_write || op->kind == OP_store || op->kind == OP_store_rows;
  for (int i = 0; i < op->nargs; i++) {
    const Value *arg = op->args[i];
    if (arg->type->kind != TYPE_mem || memory_root(arg) != memory) continue;
    if (!overwrites || arg != memory_written(op)) return true;
  }
  return false;
}

bool wv_kernel_param_is_read(const wv_kernel *handle, int i) {
  API_KERNEL_READS(handle, false);
  if (i < 0 || i >= handle->k->params.n) return false;
  const Kernel *k = handle->k;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (depends_on(op, k->body->args[i])) return true;
  return false;
}

/* ---- text ---- */

int wv_parse(wv_ctx *cx, const char *name, const char *text, wv_kernel **out, int cap) {
  API_CHANGES(cx, -1);
  api_attempt_text(cx, name ? name : "text", text ? text : "", "--emit=none");
  int before = cx->cx->diags.errors;
  Arena *a = arena_new();
  KernelList list = ir_parse(cx->cx, name ? name : "<text>", text ? text : "", a);
  for (int i = 0; i < list.n; i++) schedule_check(list.at[i]);
  bool failed = cx->cx->diags.errors > before;
  for (int i = 0; i < list.n; i++) {
    if (!failed && out && i < cap) out[i] = api_kernel(cx, list.at[i]);
    else kernel_free(list.at[i]);
  }
  arena_free(a);
  return failed ? -1 : list.n;
}

char *api_given_away(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = malloc(n);
  return copy ? memcpy(copy, text, n) : NULL;
}

char *wv_print(wv_kernel *k) {
  API_KERNEL_READS(k, NULL);
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  ir_print(&out, k->k);
  char *text = api_given_away(sb_text(&out));
  arena_free(a);
  return text;
}

char *wv_emit_ptx(wv_kernel *k, const char *target, bool fast_math) {
  API_KERNEL(k, NULL);
  api_attempt_emit(k, "ptx", target, fast_math);
  PtxOptions options = {.fast_math = fast_math};
  const TargetInfo *machine = target ? target_find(target).machine : NULL;
  Arena *a = arena_new();
  PtxKernel out;
  char *text = NULL;
  if (!machine)
    diag_add(&k->k->cx->diags, DIAG_E0603, (Span){0},
             "PTX needs a target, such as `--target sm_90a`");
  else if (ptx_emit(k->k, machine, &options, a, &out)) text = api_given_away(out.text);
  arena_free(a);
  return text;
}

char *wv_emit_llvm(wv_kernel *k, const char *target, bool fast_math) {
  API_KERNEL(k, NULL);
  api_attempt_emit(k, "llvm", target, fast_math);
  Arena *a = arena_new();
  CpuHost host;
  CpuKernel out;
  const TargetInfo *machine = target ? target_find(target).machine : NULL;
  char *text = NULL;
  const char *gpu;
  if (machine && machine->vendor == VENDOR_AMD) {
    if (compile_amd_text(k->k, machine, fast_math, a, &gpu)) text = api_given_away(gpu);
  } else if (!target || !cpu_host_named(target, &host))
    diag_add(&k->k->cx->diags, DIAG_E0603, (Span){0},
             "LLVM IR needs a target, such as `--target cpu` or `--target gfx942`");
  else {
    host.fast_math = fast_math;
    if (cpu_emit(k->k, &host, a, &out)) text = api_given_away(out.text);
  }
  arena_free(a);
  return text;
}

static bool check_lowered(const Kernel *k) {
  if (k->level == LEVEL_THREAD) return true;
  diag_add(&k->cx->diags, DIAG_E0601, k->at,
           "`%s` is not lowered to a thread kernel: add `--passes=all`", k->name);
  return false;
}

/* A copy of code for the caller, followed by a zero byte. */
static char *given_bytes(const void *bytes, size_t size, size_t *n) {
  char *out = malloc(size + 1);
  if (out) memcpy(out, bytes, *n = size), out[size] = '\0';
  return out;
}

char *wv_emit_object(wv_kernel *k, const char *target, bool assembly, bool fast_math, size_t *n) {
  API_KERNEL(k, NULL);
  api_attempt_emit(k, "asm", target, fast_math);
  Arena *a = arena_new();
  LlvmCode code;
  char *bytes = NULL;
  if (check_lowered(k->k) &&
      compile_object(k->k, target ? target : "cpu", assembly, fast_math, a, &code))
    bytes = given_bytes(code.bytes, code.size, n);
  arena_free(a);
  return bytes;
}

char *wv_emit_hsaco(wv_kernel *k, const char *target, bool fast_math, size_t *n) {
  API_KERNEL(k, NULL);
  api_attempt_emit(k, "hsaco", target, fast_math);
  Arena *a = arena_new();
  AmdCode code;
  char *bytes = NULL;
  const TargetInfo *machine = target ? target_find(target).machine : NULL;
  if (!machine || machine->vendor != VENDOR_AMD)
    diag_add(&k->k->cx->diags, DIAG_E0603, (Span){0},
             "a code object needs an AMD target, such as `--target gfx942`");
  else if (check_lowered(k->k) && compile_amd_file(k->k, machine, fast_math, a, &code))
    bytes = given_bytes(code.bytes, code.size, n);
  arena_free(a);
  return bytes;
}

void wv_free(char *text) {
  API_PLAIN;
  free(text);
}

bool wv_verify(wv_kernel *k) {
  API_KERNEL(k, false);
  api_attempt(k->cx, k->k, "--emit=none");
  ir_renumber(k->k);
  if (!ir_verify_constraints(k->k) || !ir_verify(k->k) || !schedule_check(k->k)) return false;
  ir_warn(k->k);
  return true;
}

bool wv_equal(wv_kernel *a, wv_kernel *b) {
  API_KERNEL_READS(a, false);
  return api_kernel_readable(b) && ir_equal(a->k, b->k);
}

/* ---- passes ---- */

typedef struct PassRelay {
  const wv_pass_options *o;
  wv_kernel *kernel; /* whose tiles are kept; NULL: none */
} PassRelay;

void api_relay_write(void *user, const char *pass, const char *text) {
  const wv_pass_options *o = *(const wv_pass_options *const *)user;
  Landing out;
  landing_call_out(&out);
  o->write(o->user, pass, text);
  landing_back(&out);
}

static void put_word(StrBuf *out, const char *option, const char *word) {
  if (word) sb_printf(out, " --%s=%s", option, word);
}

static void attempt_passes(wv_kernel *k, const wv_pass_options *o) {
  Arena *a = arena_new();
  StrBuf words = {.arena = a};
  sb_printf(&words, "--passes=%s", o && o->passes ? o->passes : "all");
  if (o) {
    put_word(&words, "target", o->target);
    put_word(&words, "stop-after", o->stop_after);
    put_word(&words, "start-after", o->start_after);
    if (o->verify_each) put_word(&words, "verify", "each");
  }
  api_attempt(k->cx, k->k, sb_text(&words));
  arena_free(a);
}

static PassOptions pass_options(const wv_pass_options *o, PassRelay *relay) {
  if (!o) return (PassOptions){0};
  return (PassOptions){.passes = o->passes,
                       .stop_after = o->stop_after,
                       .start_after = o->start_after,
                       .dump = o->dump,
                       .dump_before = o->dump_before,
                       .verify_each = o->verify_each,
                       .time = o->time,
                       .write = o->write ? api_relay_write : NULL,
                       .user = relay,
                       .target = o->target};
}

bool wv_run_passes(wv_kernel *k, const wv_pass_options *o) {
  API_KERNEL(k, false);
  PassRelay relay = {.o = o};
  PassOptions p = pass_options(o, &relay);
  attempt_passes(k, o);
  ir_warn(k->k);
  return passes_run(k->k, &p);
}

const char *wv_kernel_level(const wv_kernel *k) {
  API_PLAIN;
  return !api_is(k, HANDLE_KERNEL) ? NULL : k->k->level == LEVEL_THREAD ? "thread" : "tile";
}

/* A report shows the layout of tiles in registers, which one lane's program does not contain. */
static void keep_tiles(void *user, Kernel *k) {
  wv_kernel *of = ((PassRelay *)user)->kernel;
  if (k->level != LEVEL_TILE || !ir_has_layouts(k)) return;
  Kernel *tiles = kernel_clone(k);
  kernel_free(of->tiles);
  of->tiles = tiles;
  arena_owned(tiles->arena);
}

/* A kernel that was edited after some pass has already used its assumptions. */
static bool keep_plain(wv_kernel *k, const wv_pass_options *o) {
  if (!kernel_settle_assumptions(k->k)) return false;
  if (o->start_after || !kernel_has_fallback(k->k)) return true;
  Kernel *plain = kernel_clone(k->k);
  kernel_drop_assumptions(plain);
  k->plain_target = arena_strdup(k->k->arena, o->target ? o->target : "");
  kernel_free(k->plain);
  k->plain = plain;
  arena_owned(plain->arena);
  return true;
}

bool wv_lower(wv_kernel *k, const wv_pass_options *given) {
  API_KERNEL(k, false);
  static const wv_pass_options plain;
  const wv_pass_options *o = given ? given : &plain;
  if (k->k->level == LEVEL_THREAD && !o->start_after) return true;
  attempt_passes(k, o);
  ir_warn(k->k);
  if (!keep_plain(k, o)) return false;
  PassRelay relay = {.o = o, .kernel = k};
  PassOptions p = pass_options(o, &relay);
  p.after = keep_tiles;
  kernel_free(k->tiles);
  k->tiles = NULL;
  bool ok = passes_run(k->k, &p);
  if (!ok || k->k->level == LEVEL_THREAD) return ok;
  Diags *diags = &k->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0601, k->k->at, "`%s` is not yet supported on target `%s`",
                     k->k->name, o->target ? o->target : "");
  return diag_hint(diags, d, "use the reference evaluator: target `eval`");
}

/* ---- evaluation ---- */

static bool refuse_buffer(Context *cx, int number, const char *why) {
  return diag_fail(&cx->diags, DIAG_E0702, (Span){0}, "argument %d %s", number, why);
}

static bool buffer_of(Context *cx, int number, const wv_buffer *from, EvalBuffer *out) {
  if (!dtype_parse(from->dtype, &out->dtype))
    return refuse_buffer(cx, number, "has an unknown element type");
  if (from->rank < 0 || from->rank > EVAL_MAX_RANK || (from->rank && !from->shape))
    return refuse_buffer(cx, number, "has no shape, or too many dimensions");
  out->data = from->data;
  out->rank = from->rank;
  int64_t stride = 1;
  for (int i = from->rank - 1; i >= 0; i--) {
    int64_t size = from->shape[i];
    if (size < 0 || (size && stride > INT64_MAX / size))
      return refuse_buffer(cx, number, "has an invalid size");
    out->shape[i] = size;
    out->strides[i] = from->strides ? from->strides[i] : stride;
    stride *= size;
  }
  return from->data || stride == 0 || refuse_buffer(cx, number, "has a null data pointer");
}

void api_relay_log(void *user, const char *label, const EvalBuffer *v) {
  const ApiRelay *r = user;
  wv_buffer b = {v->data, dtype_info[v->dtype].name, v->rank, v->shape, v->strides};
  if (!r->log) return;
  Landing out;
  landing_call_out(&out);
  r->log(r->user, label, &b);
  landing_back(&out);
}

bool api_relay_interrupt(void *user) {
  const ApiRelay *r = user;
  if (!r->interrupted) return false;
  Landing out;
  landing_call_out(&out);
  bool stop = r->interrupted(r->user);
  landing_back(&out);
  return stop;
}

EvalArg *api_args(Context *cx, Arena *a, const wv_arg *args, int nargs) {
  EvalBuffer *buffers = ARENA_ARRAY(a, EvalBuffer, nargs + 1);
  EvalArg *out = ARENA_ARRAY(a, EvalArg, nargs + 1);
  for (int i = 0; i < nargs; i++) {
    out[i] = (EvalArg){NULL, args[i].number, args[i].integer};
    if (!args[i].buffer) continue;
    if (!buffer_of(cx, i, args[i].buffer, &buffers[i])) return NULL;
    out[i].buffer = &buffers[i];
  }
  return out;
}

static bool has_open_tiles(Kernel *k) {
  Arena *a = arena_new();
  ir_renumber(k);
  bool found =
      k->level == LEVEL_TILE && choose_open(facts_of(k, a, FACT_distribute).distribute, a).n;
  arena_free(a);
  return found;
}

/* The kernel itself, or a copy in which open tiles have values; NULL after reporting. */
static Kernel *with_tiles(Kernel *k) {
  if (!has_open_tiles(k)) return k;
  Kernel *copy = kernel_clone(k);
  if (passes_run(copy, &(PassOptions){.passes = "choose", .target = "eval"})) return copy;
  kernel_free(copy);
  return NULL;
}

bool wv_eval(wv_kernel *k, const wv_arg *args, int nargs, const wv_eval_options *o) {
  API_KERNEL_USES(k, false);
  if (!api_list(k->cx, args, nargs, "arguments")) return false;
  Arena *a = arena_new();
  EvalArg *translated = api_args(k->k->cx, a, args, nargs);
  api_attempt(k->cx, k->k, api_attempt_run(a, k->k, "run", translated, nargs));
  ir_warn(k->k);
  ApiRelay relay = {0};
  if (o) relay = (ApiRelay){o->log, o->interrupted, o->user};
  EvalOptions options = {.log = api_relay_log,
                         .interrupted = api_relay_interrupt,
                         .user = &relay,
                         .check_masks = o && o->check_masks};
  Kernel *run = translated ? with_tiles(k->k) : NULL;
  bool ok = run && eval_tile(run, translated, nargs, &options);
  if (run != k->k) kernel_free(run);
  arena_free(a);
  return ok;
}

/* ---- tables ---- */

bool wv_op_info(int i, const char **name, const char **level, const char **doc) {
  API_PLAIN;
  static const char *const levels[] = {"", "tile", "thread", "both"};
  if (i < 0 || i >= OP_COUNT) return false;
  *name = op_info[i].name;
  *level = levels[op_info[i].level];
  *doc = op_info[i].doc;
  return true;
}

bool wv_pass_info(int i, const char **name, const char **doc) {
  API_PLAIN;
  const PassInfo *p = pass_at(i);
  if (!p) return false;
  *name = p->name;
  *doc = p->summary;
  return true;
}

const char *wv_pass_machines(int i) {
  API_PLAIN;
  static const char *const names[] = {"", "lanes", "loops", "both"};
  const PassInfo *p = pass_at(i);
  return p ? names[p->machines] : NULL;
}

bool wv_target_info(int i, const char **name, const char **doc) {
  API_PLAIN;
  const TargetInfo *t = target_at(i);
  if (!t) return false;
  *name = t->name;
  *doc = t->doc;
  return true;
}

const char *wv_target_uses(int i) {
  API_PLAIN;
  const TargetInfo *t = target_at(i);
  if (!t) return NULL;
  bool is_amd = t->vendor == VENDOR_AMD;
  bool has_code = backend_for(t) && (!is_amd || chip_named(t->name));
  if (has_code) return is_amd ? "code sim emu" : "code sim";
  return t->vendor == VENDOR_HOST ? "" : "sim";
}

const char *wv_target_kind(wv_ctx *cx, const char *target) {
  API_CHANGES(cx, NULL);
  const char *name = target ? target : "";
  TargetChoice t = target_find(name);
  if (t.is_kind && device_kind_for(t.kind)) return "device";
  if (!t.machine) return target_unknown(&cx->cx->diags, (Span){0}, name), NULL;
  return t.kind == TARGET_SIM    ? "sim"
         : t.kind == TARGET_CPU  ? "cpu"
         : t.kind == TARGET_EVAL ? "eval"
                                 : "device";
}

bool wv_diag_info(int i, const char **code, const char **title, const char **explanation) {
  API_PLAIN;
  if (i < 0 || i >= DIAG_COUNT) return false;
  *code = diag_info[i].code;
  *title = diag_info[i].title;
  *explanation = diag_info[i].explanation;
  return true;
}

static bool mma_info(const MmaInfo *m, wv_mma_info *out) {
  if (!m) return false;
  *out = (wv_mma_info){m->name, m->code,  m->form == MMA_SCALED, m->m,        m->n,
                       m->k,    m->lanes, m->operand_elems,      m->acc_elems};
  return true;
}

bool wv_mma_row(int i, wv_mma_info *out) {
  API_PLAIN;
  return mma_info(mma_at(i), out);
}

bool wv_mma_find(const char *name, wv_mma_info *out) {
  API_PLAIN;
  return name && mma_info(mma_find(mma_plain_name(name)), out);
}
