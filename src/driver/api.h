/* api.h: the handles of wave.h and what they stand for. A handle is the compiler's own pointer
 * under another name, except for kernels and builders, which remember their context. */
#ifndef WV_API_H
#define WV_API_H

#include "backend/sim/eval_tile.h"
#include "ir/attr.h"
#include "ir/build.h"
#include "wave.h"

enum { API_DEVICE_KINDS = 4 };

struct wv_ctx {
  Context *cx;
  Map texts;                                /* expression -> its text */
  struct Device *devices[API_DEVICE_KINDS]; /* drivers that were asked for */
  bool (*interrupted)(void *user);          /* wv_ctx_interrupt */
  void *user;
};

struct wv_kernel {
  Kernel *k;
  Kernel *tiles; /* as it was before it became one lane's program, for reports; may be NULL */
  Kernel *plain; /* what was lowered, without its assumptions: for runs that do not fulfil them */
  const char *plain_target;  /* the machine it was lowered for */
  struct wv_kernel *without; /* `plain` lowered, once it was needed */
};

struct wv_builder {
  Builder *b;
  Arena *scratch; /* translated arguments of one call */
};

static inline const Sym *api_sym(wv_expr e) { return (const Sym *)e; }
static inline wv_expr api_expr(const Sym *s) { return (wv_expr)s; }
static inline const Type *api_type(wv_type t) { return (const Type *)t; }
static inline Value *api_value(wv_value *v) { return (Value *)v; }

Span api_span(Context *cx, wv_place at);
wv_place api_place(Context *cx, Span at);

/* Translations into scratch memory; false after reporting a name that does not exist. */
bool api_attrs(Context *cx, Arena *a, const wv_attr *from, int n, Span at, Attr *out);
Mapping api_mapping(Arena *a, const wv_mapping *m);
bool api_constraint(Context *cx, Arena *a, const wv_constraint *from, Constraint *out);

/* The arguments of a call, in scratch memory; NULL after reporting. */
EvalArg *api_args(Context *cx, Arena *a, const wv_arg *args, int nargs);

/* What a caller wants to hear of during a run; `user` of the options below wave.h's. */
typedef struct ApiRelay {
  void (*log)(void *user, const char *label, const wv_buffer *value); /* may be NULL */
  bool (*interrupted)(void *user);                                    /* may be NULL */
  void *user;
} ApiRelay;
void api_relay_log(void *user, const char *label, const EvalBuffer *v);
bool api_relay_interrupt(void *user);

void api_diag(Context *cx, const Diag *d, wv_diag *out);

/* Turns the error a symbolic operation left behind into a diagnostic. */
wv_expr api_checked(wv_ctx *cx, const Sym *s);

#endif
