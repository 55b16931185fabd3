/* llvm_compile.c: IR text -> module -> passes -> object code, through libLLVM.
 *
 * LLVM may report what it cannot compile as a *fatal* error: it calls a handler that must not
 * return, and ends the process if there is none. No jump may cross LLVM's frames, so each
 * compilation has its own thread: after a fatal error that thread passes the reason to the waiting
 * caller and then sleeps forever, together with what LLVM holds (about a megabyte each time). The
 * handler gets no pointer of ours; the compilation it belongs to is identified by the thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/landing.h"
#include "base/os.h"
#include "runtime/cpu/cpu_gate.h"
#include "runtime/llvm/llvm_library.h"

enum { STACK = 16 << 20 };

/* The state of a compilation; from malloc, since its thread may never end. */
typedef struct Compile {
  const LlvmLibrary *l;
  const LlvmCompile *o;
  const char *ir;
  LlvmRef context, module, machine, code;
  double parse, optimise, emit; /* seconds */
  bool ok;
  char errors[1024]; /* reported by the code generator */
  char error[2048];
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  enum { COMPILING, ENDED, FATAL } state;
} Compile;

static _Thread_local Compile *compiling;

/* ---- what LLVM says ---- */

static bool fail(Compile *c, const char *what, const char *text) {
  snprintf(c->error, sizeof c->error, "LLVM %u: %s: %s", c->l->version, what, text);
  return false;
}

static void hand_over(Compile *c, int state) {
  pthread_mutex_lock(&c->lock);
  c->state = state;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void on_fatal(const char *reason) {
  if (!compiling) WV_BUG("LLVM reports a fatal error outside a compilation");
  fail(compiling, "fatal error", reason);
  hand_over(compiling, FATAL);
  for (;;) pause();
}

/* Each library has one handler; it is installed by the first compilation with that library. */
static void set_handler(const LlvmLibrary *l) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const void *handled;
  pthread_mutex_lock(&lock);
  if (handled != l->library) {
    l->ResetFatalErrorHandler();
    l->InstallFatalErrorHandler(on_fatal);
    handled = l->library;
  }
  pthread_mutex_unlock(&lock);
}

/* Takes ownership of a message of LLVM's. */
static bool fail_with(Compile *c, const char *what, char *message) {
  fail(c, what, message ? message : "no reason given");
  c->l->DisposeMessage(message);
  return false;
}

/* Remarks and warnings arrive here too. */
static void on_diagnostic(LlvmRef info, void *user) {
  Compile *c = user;
  enum { SEVERITY_ERROR = 0 };
  if (c->l->GetDiagInfoSeverity(info) != SEVERITY_ERROR) return;
  char *text = c->l->GetDiagInfoDescription(info);
  size_t n = strlen(c->errors);
  snprintf(c->errors + n, sizeof c->errors - n, "%s%s", n ? "; " : "", text);
  c->l->DisposeMessage(text);
}

/* ---- steps, in the thread of the compile ---- */

static bool parse(Compile *c) {
  char *message = NULL;
  LlvmRef text = c->l->CreateMemoryBufferWithMemoryRangeCopy(c->ir, strlen(c->ir), "kernel.ll");
  if (c->l->ParseIRInContext(c->context, text, &c->module, &message)) /* takes ownership of the
                                                                       * text */
    return fail_with(c, "the IR cannot be parsed", message);
  return true;
}

/* Without any effort, x86-64 code is still selected by DAGs, but scheduled by another algorithm,
 * which takes 40 s for a program of 1500 masked loads and stores instead of 9. */
static int level_of(const Compile *c) {
  enum { NONE = 0, LESS = 1, DEFAULT = 2, AGGRESSIVE = 3 };
  static const int level[] = {
      [LLVM_MOST_EFFORT] = AGGRESSIVE, [LLVM_USUAL_EFFORT] = DEFAULT, [LLVM_LEAST_EFFORT] = NONE};
  bool x86 = strncmp(c->o->target.words.triple, "x86_64", 6) == 0;
  return x86 && c->o->effort == LLVM_LEAST_EFFORT ? LESS : level[c->o->effort];
}

static bool open_machine(Compile *c) {
  const LlvmTarget *t = &c->o->target;
  enum { PIC = 2, DEFAULT_MODEL = 0 };
  char *message = NULL;
  LlvmRef target;
  if (c->l->GetTargetFromTriple(t->words.triple, &target, &message))
    return fail_with(c, "unknown target", message);
  c->machine = c->l->CreateTargetMachine(target, t->words.triple, t->cpu, t->words.features,
                                         level_of(c), PIC, DEFAULT_MODEL);
  if (!c->machine) return fail(c, "unknown target machine", t->cpu);
  LlvmRef layout = c->l->CreateTargetDataLayout(c->machine);
  c->l->SetTarget(c->module, t->words.triple);
  c->l->SetModuleDataLayout(c->module, layout);
  c->l->DisposeTargetData(layout);
  return true;
}

static bool verify(Compile *c) {
  enum { RETURN_STATUS = 2 };
  char *message = NULL;
  if (c->l->VerifyModule(c->module, RETURN_STATUS, &message))
    return fail_with(c, "the IR is not valid", message);
  c->l->DisposeMessage(message);
  return true;
}

/* Loops, vectors and registers have been decided before, so little is left to do: repeated address
 * arithmetic, and loop invariants. Combining instructions takes 4 ms for a GEMM; without it a
 * convolution is slower by a twelfth. */
static const char *own_passes(const LlvmLibrary *l) {
  /* From LLVM 18 on, it makes one pass over a function, and aborts if that was not enough. */
  return l->version >= 18 ? "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),"
                            "early-cse,simplifycfg)"
                          : "function(early-cse,instcombine,loop-mssa(licm),early-cse,simplifycfg)";
}

static bool optimise(Compile *c) {
  const char *passes = c->o->passes ? c->o->passes : own_passes(c->l);
  if (!*passes) return true;
  LlvmRef options = c->l->CreatePassBuilderOptions();
  LlvmRef wrong = c->l->RunPasses(c->module, passes, c->machine, options);
  c->l->DisposePassBuilderOptions(options);
  if (!wrong) return true;
  char *text = c->l->GetErrorMessage(wrong);
  fail(c, "passes", text);
  c->l->DisposeErrorMessage(text);
  return false;
}

static bool emit(Compile *c) {
  enum { ASSEMBLY = 0, OBJECT = 1 };
  char *message = NULL;
  if (c->l->TargetMachineEmitToMemoryBuffer(c->machine, c->module,
                                            c->o->assembly ? ASSEMBLY : OBJECT, &message, &c->code))
    return fail_with(c, "no code", message);
  return !*c->errors || fail(c, "no code", c->errors);
}

static bool run(Compile *c) {
  double start = os_seconds();
  c->context = c->l->ContextCreate();
  c->l->ContextSetDiagnosticHandler(c->context, on_diagnostic, c);
  if (!parse(c) || !open_machine(c) || !verify(c)) return false;
  double parsed = os_seconds();
  if (!optimise(c)) return false;
  double optimised = os_seconds();
  if (!emit(c)) return false;
  c->parse = parsed - start;
  c->optimise = optimised - parsed;
  c->emit = os_seconds() - optimised;
  return true;
}

static void *run_thread(void *compile) {
  Compile *c = compile;
  compiling = c;
  c->ok = run(c);
  hand_over(c, ENDED);
  return NULL;
}

/* ---- the caller ---- */

/* Signals are left to the threads of the host program. */
static bool start(Compile *c) {
  sigset_t all, before;
  pthread_attr_t attr;
  sigfillset(&all);
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&c->thread, &attr, run_thread, c) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return started || fail(c, "no code", "cannot create a thread");
}

/* False after a fatal error: the thread and everything it holds are lost. */
static bool await(Compile *c) {
  pthread_mutex_lock(&c->lock);
  while (c->state == COMPILING) pthread_cond_wait(&c->changed, &c->lock);
  bool ended = c->state == ENDED;
  pthread_mutex_unlock(&c->lock);
  if (ended) pthread_join(c->thread, NULL);
  else pthread_detach(c->thread);
  return ended;
}

static void close_compile(void *compile) {
  Compile *c = compile;
  if (c->code) c->l->DisposeMemoryBuffer(c->code);
  if (c->module) c->l->DisposeModule(c->module);
  if (c->machine) c->l->DisposeTargetMachine(c->machine);
  if (c->context) c->l->ContextDispose(c->context);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  free(c);
  cpu_gate_out();
}

static void take_code(const Compile *c, Arena *a, LlvmCode *out) {
  size_t n = c->l->GetBufferSize(c->code);
  char *bytes = arena_alloc(a, n + 1);
  memcpy(bytes, c->l->GetBufferStart(c->code), n);
  *out = (LlvmCode){.bytes = bytes, .size = n};
  out->parse = c->parse, out->optimise = c->optimise, out->emit = c->emit;
}

bool llvm_compile(const LlvmLibrary *l, Arena *a, const char *ir, const LlvmCompile *o,
                  LlvmCode *out, const char **error) {
  Compile *c = calloc(1, sizeof *c);
  if (!c) landing_no_memory(sizeof *c);
  c->l = l, c->o = o, c->ir = ir;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  cpu_gate_in(true);
  set_handler(l);
  bool started = start(c), fatal = started && !await(c);
  Held held = {0};
  if (!fatal) landing_hold(&held, close_compile, c);
  bool ok = started && !fatal && c->ok;
  if (ok) take_code(c, a, out);
  else *error = arena_strdup(a, c->error);
  landing_let_go(&held);
  if (fatal) cpu_gate_out();
  else close_compile(c);
  return ok;
}
