/* cpu_compile.c: IR text -> module -> passes -> object code, through libLLVM.
 *
 * What LLVM cannot compile it may report as a *fatal* error: it calls a handler that must not
 * return, and ends the process if there is none. That handler gets no pointer of ours and has
 * C++ frames below it, so leaving it is the one place of this project with a longjmp, and its
 * target the one thread-local variable. The context and module of such a compile are left alone:
 * their state is unknown (about a megabyte each time). */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "base/os.h"
#include "base/strbuf.h"
#include "runtime/cpu_llvm.h"

typedef struct FatalExit {
  jmp_buf jump;
  char reason[1024];
} FatalExit;

static _Thread_local FatalExit *fatal_exit;

static void on_fatal(const char *reason) {
  if (!fatal_exit) WV_BUG("LLVM reports a fatal error outside of a compile");
  strncpy(fatal_exit->reason, reason, sizeof fatal_exit->reason - 1);
  longjmp(fatal_exit->jump, 1);
}

/* Each library has one handler; it is set by the first compile with that library. */
static void set_handler(const CpuLlvm *l) {
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

/* What a compile holds until it ends. */
typedef struct Compile {
  const CpuLlvm *l;
  Arena *arena;
  const CpuCompile *o;
  LlvmRef context, module, machine;
  StrBuf errors; /* what the code generator reported */
  const char *error;
} Compile;

static bool fail(Compile *c, const char *what, const char *text) {
  c->error = arena_printf(c->arena, "LLVM %u: %s: %s", c->l->version, what, text);
  return false;
}

/* Takes a message of LLVM's. */
static bool fail_with(Compile *c, const char *what, char *message) {
  fail(c, what, message ? message : "no reason given");
  c->l->DisposeMessage(message);
  return false;
}

/* Remarks and warnings come this way as well. */
static void on_diagnostic(LlvmRef info, void *user) {
  Compile *c = user;
  enum { SEVERITY_ERROR = 0 };
  if (c->l->GetDiagInfoSeverity(info) != SEVERITY_ERROR) return;
  char *text = c->l->GetDiagInfoDescription(info);
  sb_printf(&c->errors, "%s%s", c->errors.n ? "; " : "", text);
  c->l->DisposeMessage(text);
}

static bool parse(Compile *c, const char *ir) {
  char *message = NULL;
  LlvmRef text = c->l->CreateMemoryBufferWithMemoryRangeCopy(ir, strlen(ir), "kernel.ll");
  if (c->l->ParseIRInContext(c->context, text, &c->module, &message)) /* takes the text */
    return fail_with(c, "the IR does not parse", message);
  return true;
}

static bool open_machine(Compile *c) {
  const CpuTarget *t = &c->o->target;
  enum { AGGRESSIVE = 3, PIC = 2, DEFAULT_MODEL = 0 };
  char *message = NULL;
  LlvmRef target;
  if (c->l->GetTargetFromTriple(t->words.triple, &target, &message))
    return fail_with(c, "unknown target", message);
  c->machine = c->l->CreateTargetMachine(target, t->words.triple, t->cpu, t->words.features,
                                         AGGRESSIVE, PIC, DEFAULT_MODEL);
  if (!c->machine) return fail(c, "there is no such machine", t->cpu);
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

/* Loops, vectors and registers are decided before; what is left to do is little: repeated address
 * arithmetic, and what does not change in loops. Combining instructions takes 4 ms of a GEMM;
 * without it a convolution is slower by a twelfth. */
static const char *own_passes(const CpuLlvm *l) {
  /* From 18 on it goes once over a function, and ends the process where that was not enough. */
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

static bool emit(Compile *c, CpuCode *out) {
  enum { ASSEMBLY = 0, OBJECT = 1 };
  char *message = NULL;
  LlvmRef code;
  if (c->l->TargetMachineEmitToMemoryBuffer(c->machine, c->module,
                                            c->o->assembly ? ASSEMBLY : OBJECT, &message, &code))
    return fail_with(c, "no code", message);
  out->size = c->l->GetBufferSize(code);
  char *bytes = arena_alloc(c->arena, out->size + 1);
  memcpy(bytes, c->l->GetBufferStart(code), out->size);
  out->bytes = bytes;
  c->l->DisposeMemoryBuffer(code);
  return !c->errors.n || fail(c, "no code", sb_text(&c->errors));
}

static bool run(Compile *c, const char *ir, CpuCode *out) {
  double start = os_seconds();
  if (!parse(c, ir) || !open_machine(c) || !verify(c)) return false;
  double parsed = os_seconds();
  if (!optimise(c)) return false;
  double optimised = os_seconds();
  if (!emit(c, out)) return false;
  out->parse = parsed - start;
  out->optimise = optimised - parsed;
  out->emit = os_seconds() - optimised;
  return true;
}

static void close_compile(Compile *c) {
  if (c->module) c->l->DisposeModule(c->module);
  if (c->machine) c->l->DisposeTargetMachine(c->machine);
  c->l->ContextDispose(c->context);
}

bool cpu_llvm_compile(const CpuLlvm *l, Arena *a, const char *ir, const CpuCompile *o, CpuCode *out,
                      const char **error) {
  Compile *c = ARENA_NEW(a, Compile); /* not on the stack: a jump would leave it indeterminate */
  *c = (Compile){.l = l, .arena = a, .o = o, .errors = {.arena = a}};
  FatalExit *way_out = ARENA_NEW(a, FatalExit);
  set_handler(l);
  fatal_exit = way_out;
  if (setjmp(way_out->jump)) {
    fatal_exit = NULL;
    fail(c, "fatal error", way_out->reason);
    *error = c->error;
    return false;
  }
  c->context = l->ContextCreate();
  l->ContextSetDiagnosticHandler(c->context, on_diagnostic, c);
  bool ok = run(c, ir, out);
  fatal_exit = NULL;
  close_compile(c);
  *error = c->error;
  return ok;
}
