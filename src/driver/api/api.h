/* api.h: the handles of wave.h, what they stand for, and the prologue of each of its functions.
 *
 * Expressions, types and values are the compiler's own pointers under another name. The other
 * handles are structs that begin with a tag for their kind. */
#ifndef WV_API_H
#define WV_API_H

#include "backend/eval/eval_tile.h"
#include "base/landing.h"
#include "ir/attr.h"
#include "ir/build/build.h"
#include "schedule/schedule_view.h"
#include "target/target.h"
#include "wave.h"

enum { API_DEVICE_KINDS = 4 };

typedef enum HandleKind {
  HANDLE_CTX = 0x57415631,
  HANDLE_KERNEL,
  HANDLE_BUILDER,
  HANDLE_PROGRAM,
  HANDLE_REPORT,
  HANDLE_PROOF,
  HANDLE_CONSTRUCT
} HandleKind;

/* An internal error in a context: memory for its diagnostic is allocated in advance. */
typedef struct Trouble {
  Diag diag;
  DiagNote note;
  char text[FAILURE_TEXT], saved[FAILURE_TEXT], said[FAILURE_TEXT + 64];
} Trouble;

struct wv_ctx {
  HandleKind handle;
  Context *cx;
  bool is_broken; /* a call was interrupted by an internal error */
  Trouble trouble;
  Arena *attempt;                           /* used by attempt.c; NULL: none yet */
  Map texts;                                /* expression or type -> its text */
  struct Device *devices[API_DEVICE_KINDS]; /* drivers opened on demand */
  bool (*interrupted)(void *user);          /* wv_ctx_interrupt */
  void *user;
};

struct wv_kernel {
  HandleKind handle;
  bool is_broken; /* a call that was modifying it was interrupted */
  wv_ctx *cx;
  Kernel *k;
  Kernel *tiles; /* the kernel before it was lowered to one lane's program, for reports; may be
                  * NULL */
  Kernel *plain; /* what was lowered, without its assumptions: for runs that do not satisfy them */
  const char *plain_target;  /* the machine for which it was lowered */
  struct SizedKernel *sized; /* lowered copies for certain sizes: api_fit.c */
  struct wv_kernel *without; /* `plain` lowered, once it has been needed */
};

struct wv_builder {
  HandleKind handle;
  wv_ctx *cx;
  Builder *b;
  Arena *scratch; /* translated arguments of one call */
};

/* ---- how functions begin: api_enter.c ----
 *
 *     wv_expr wv_int(wv_ctx *cx, int64_t v) {
 *       API_CHANGES(cx, NULL);
 *
 * makes the function a landing (base/landing.h) that returns NULL after an internal error, and
 * immediately if `cx` is not a context, or one that can no longer be used. The last argument is
 * empty in functions without a result. tools/check_entries.py ensures that no function is
 * forgotten. */

/* `usable` is evaluated inside the landing; `context` receives internal errors. */
#define API_ENTER(usable, context, landed, ...)                                                    \
  WV_LANDING(landing_);                                                                            \
  WV_IF_LANDED(landing_) {                                                                         \
    api_landed(context);                                                                           \
    landed;                                                                                        \
    return __VA_ARGS__;                                                                            \
  }                                                                                                \
  if (!(usable)) return __VA_ARGS__

#define API_CHANGES(cx, ...) API_ENTER(api_usable(cx), cx, (void)0, __VA_ARGS__)
/* Also for a context that can no longer be used. */
#define API_READS(cx, ...) API_ENTER(api_is(cx, HANDLE_CTX), cx, (void)0, __VA_ARGS__)
/* Internal errors are reported nowhere. */
#define API_ASKS(...) API_ENTER(true, NULL, (void)0, __VA_ARGS__)
/* Only reads tables and constants: nothing can fail. */
#define API_PLAIN (void)0
/* The kernel itself; only its context; neither, so that the context may be unusable. */
#define API_KERNEL(k, ...)                                                                         \
  API_ENTER(api_kernel_usable(k), api_kernel_cx(k), api_break_kernel(k), __VA_ARGS__)
#define API_KERNEL_USES(k, ...)                                                                    \
  API_ENTER(api_kernel_usable(k), api_kernel_cx(k), (void)0, __VA_ARGS__)
#define API_KERNEL_READS(k, ...)                                                                   \
  API_ENTER(api_kernel_readable(k), api_kernel_cx(k), (void)0, __VA_ARGS__)
#define API_BUILDS(b, ...) API_ENTER(api_builder_usable(b), api_builder_cx(b), (void)0, __VA_ARGS__)

bool api_is(const void *handle, HandleKind kind);
bool api_usable(wv_ctx *cx); /* false after reporting, if there is a context to report to */
bool api_kernel_usable(const wv_kernel *k);
bool api_kernel_readable(const wv_kernel *k);
bool api_builder_usable(wv_builder *b);
bool api_expected(wv_ctx *cx, bool is_there, const char *what); /* reports E0001 if it is not */
/* The same for a list of `n`, which may be NULL if it is empty, and for a text. */
bool api_list(wv_ctx *cx, const void *at, int n, const char *what);
bool api_text(wv_ctx *cx, const char *text, const char *what);
wv_ctx *api_kernel_cx(const wv_kernel *k); /* NULL: not a kernel */
wv_ctx *api_builder_cx(const wv_builder *b);

bool api_options(wv_ctx *cx, const wv_options *o); /* the same for options by name */
/* The value of an option that names a file or is the text itself, and what it is called in diagnostics;
 * NULL after reporting. */
const char *api_option_content(wv_ctx *cx, const wv_options *o, const char *option, Arena *a,
                               const char **name);

/* After a jump: reports in the context, if there is one, what happened, and marks it as
 * unusable. */
void api_landed(wv_ctx *cx);
void api_break_kernel(wv_kernel *k);

/* What a picture of a kernel's schedule shows. The kernel has layouts, waits and barriers. */
ScheduleView api_schedule_view(Arena *a, Kernel *k, const TargetInfo *t);

/* A code object for an AMD GPU as "asm" or "loops"; NULL after reporting. */
const char *api_code_text(Arena *a, Diags *diags, const char *what, const char *name,
                          const void *bytes, size_t n);
char *api_given_away(const char *text); /* a copy from malloc, for the caller; NULL: no memory */
wv_kernel *api_kernel(wv_ctx *cx, Kernel *k);
wv_kernel *api_kernel_owned(wv_kernel *k); /* as arena_owned */
/* For arena_owner, when a copy is lowered: wv_lower adds parts that the handle owns. */
void api_kernel_free(void *k); /* NULL is fine */
void api_kernel_free_sized(wv_kernel *k);
/* The kernel to simulate: `k` itself, or if it is open, a copy lowered for these arguments, which
 * lives as long as `k`. NULL after reporting. */
wv_kernel *api_kernel_for(wv_kernel *k, const char *target, const EvalArg *args, int nargs);

/* If the call fails, saves this kernel and how wavec does the same to it; `words` is its command
 * line without the file. Called before anything changes the kernel. */
void api_attempt(wv_ctx *cx, const Kernel *k, const char *words);
void api_attempt_emit(wv_kernel *k, const char *what, const char *target, bool fast_math);
void api_attempt_text(wv_ctx *cx, const char *name, const char *text, const char *words);
const char *api_attempt_run(Arena *a, const Kernel *k, const char *words, const EvalArg *args,
                            int nargs); /* words for a call with these sizes and numbers */

static inline const Sym *api_sym(wv_expr e) { return (const Sym *)e; }
static inline wv_expr api_expr(const Sym *s) { return (wv_expr)s; }
static inline const Type *api_type(wv_type t) { return (const Type *)t; }
/* Puts the text of an expression or type into `texts`: front ends request it repeatedly. */
const char *api_keep_text(wv_ctx *cx, const void *of, const char *text);
static inline Value *api_value(wv_value *v) { return (Value *)v; }

/* ---- translations ---- */

Span api_span(Context *cx, wv_place at);
wv_place api_place(Context *cx, Span at);

/* Translations into scratch memory; false after reporting a name that does not exist. */
bool api_attrs(Context *cx, Arena *a, const wv_attr *from, int n, Span at, Attr *out);
Mapping api_mapping(Arena *a, const wv_mapping *m);
bool api_constraint(Context *cx, Arena *a, const wv_constraint *from, Constraint *out);
/* The fields `dim` and `size` of the wv_constraint that would give this row. */
void api_row(const Constraint *c, wv_expr *dim, wv_expr *size);

/* The arguments of a call, in scratch memory; NULL after reporting. */
EvalArg *api_args(Context *cx, Arena *a, const wv_arg *args, int nargs);

/* The callbacks of a caller during a run; `user` of the options below wave.h's. */
typedef struct ApiRelay {
  void (*log)(void *user, const char *label, const wv_buffer *value); /* may be NULL */
  bool (*interrupted)(void *user);                                    /* may be NULL */
  void *user;
} ApiRelay;
/* `user` begins with a `const wv_pass_options *`, whose write is called. */
void api_relay_write(void *user, const char *pass, const char *text);
void api_relay_log(void *user, const char *label, const EvalBuffer *v);
bool api_relay_interrupt(void *user);

void api_diag(Context *cx, Arena *a, const Diag *d, wv_diag *out); /* rendered in `a` */

#endif
