/* launch_logs.c: launches of kernels with debug logs or assertions. Their memory is allocated here,
 * zeroed, and passed to the caller or examined when the kernel has run: such a launch allocates and
 * waits. */
#include <stdlib.h>
#include <string.h>

#include "base/failures.h"
#include "runtime/launch/launch.h"

/* The memory of one log: on the device, and as passed to the caller. */
typedef struct LogMemory {
  wv_tensor tensor;
  int64_t shape[ARTEFACT_RANK];
  size_t bytes;
  void *host;
} LogMemory;

typedef struct Logged {
  Launcher *l;
  const LaunchCall *call;
  DeviceReport report;
  int device, n;
  LogMemory log[ARTEFACT_PARAMS];
} Logged;

static const DeviceKind *kind_of(const Logged *x) { return x->l->device->kind; }

static const ArtParam *param_of(const Logged *x, int i) {
  return &x->l->art->params[x->l->art->ngiven + i];
}

/* ---- sizes ---- */

/* Every size of a log is a value of the signature's program. */
static bool take_shapes(Logged *x, LaunchRun *signature, int64_t *slots) {
  const Artefact *art = x->l->art;
  for (int i = 0; i < art->nsizes; i++) {
    const ArtSize *s = &art->sizes[i];
    if (s->param < art->ngiven) continue;
    LaunchValue v = launch_expr_result(signature, s->value);
    if (v.undefined || v.value < 0)
      return diag_fail(x->report.diags, DIAG_E0710, x->report.at,
                       "the %s `%s` has no size along `%s` for these arguments",
                       *art->params[s->param].log ? "debug log" : "workspace",
                       *art->params[s->param].log ? art->params[s->param].log
                                                  : art->params[s->param].name,
                       s->text);
    x->log[s->param - art->ngiven].shape[s->dim] = v.value;
    slots[art->params[s->param].slot + 1 + s->dim] = v.value;
  }
  return true;
}

static bool measure(Logged *x, int i) {
  LogMemory *m = &x->log[i];
  const ArtParam *p = param_of(x, i);
  int64_t n = 1;
  for (int d = 0; d < p->rank; d++) {
    if (m->shape[d] && n > LAUNCH_LOG_MOST / m->shape[d])
      return diag_fail(x->report.diags, DIAG_E0706, x->report.at,
                       "the %s `%s` would have more than %lld elements",
                       *p->log ? "debug log" : "workspace", *p->log ? p->log : p->name,
                       (long long)LAUNCH_LOG_MOST);
    n *= m->shape[d];
  }
  m->bytes = wv_data_bytes(wv_dtype_name(p->dtype, NULL, NULL), n);
  return true;
}

static bool take_sizes(Logged *x) {
  const Artefact *art = x->l->art;
  int64_t slots[ARTEFACT_SLOTS] = {0};
  LaunchRun signature;
  const LaunchCall *c = x->call;
  if (c->nargs != art->ngiven || !launch_fill(x->l, c->args, c->nargs, slots, &x->device))
    return launch_explain_args(x->l, x->report.diags, c->args, c->nargs);
  launch_expr_open(&signature, &art->signature, slots);
  if (!take_shapes(x, &signature, slots) || !launch_check(x->l, x->report.diags, &signature))
    return false;
  for (int i = 0; i < x->n; i++)
    if (!measure(x, i)) return false;
  return true;
}

/* ---- memory ---- */

static bool has_report(const Logged *x) {
  for (int i = 0; i < x->n; i++)
    if (*param_of(x, i)->report) return true;
  return false;
}

static bool refuse_capture(const Logged *x) {
  if (!kind_of(x)->is_captured(x->l->device, x->call->stream)) return true;
  Diag *d = diag_add(x->report.diags, DIAG_E0905, x->report.at,
                     "`%s` has %s, and the stream is being captured", x->report.kernel,
                     has_report(x) ? "assertions" : "debug logs");
  return diag_hint(
      x->report.diags, d,
      "a launch with logs or assertions allocates memory and waits: launch it outside the "
      "capture%s",
      has_report(x) ? ", or disable them with `device_asserts=False` (assumptions about "
                      "symbols that the kernel sets: `assume=\"ignore\"`)"
                    : "");
}

static bool no_memory(const Logged *x, const LogMemory *m) {
  return diag_fail(x->report.diags, DIAG_E0902, x->report.at,
                   "cannot allocate %lld bytes for a log", (long long)m->bytes);
}

static bool open_log(Logged *x, int i) {
  LogMemory *m = &x->log[i];
  const ArtParam *p = param_of(x, i);
  Device *d = x->l->device;
  m->host = calloc(1, m->bytes + 1);
  if (!m->host) return no_memory(x, m);
  m->tensor = (wv_tensor){.data = kind_of(x)->alloc(d, x->device, m->bytes, &x->report),
                          .shape = m->shape,
                          .rank = p->rank,
                          .dtype = p->dtype,
                          .device = {x->l->art->device_kind, x->device}};
  return m->tensor.data &&
         kind_of(x)->copy(d, x->device, m->tensor.data, m->host, m->bytes, &x->report);
}

/* The zeros are in place before a kernel on another stream begins. */
static bool open_logs(Logged *x) {
  for (int i = 0; i < x->n; i++)
    if (!open_log(x, i)) return false;
  return kind_of(x)->wait(x->l->device, x->device, NULL, &x->report);
}

static void close_logs(Logged *x) {
  for (int i = 0; i < x->n; i++) {
    LogMemory *m = &x->log[i];
    if (m->tensor.data) kind_of(x)->release(x->l->device, x->device, m->tensor.data, &x->report);
    free(m->host);
  }
}

/* ---- launching ---- */

static bool launch_all(Logged *x) {
  LaunchCall c = *x->call;
  wv_launch_arg args[ARTEFACT_PARAMS];
  if (c.nargs) memcpy(args, c.args, sizeof *args * (size_t)c.nargs);
  for (int i = 0; i < x->n; i++) args[c.nargs + i] = (wv_launch_arg){.tensor = &x->log[i].tensor};
  c.args = args;
  c.nargs += x->n;
  return launch_run(x->l, x->report.diags, &c) &&
         kind_of(x)->wait(x->l->device, x->device, c.stream, &x->report);
}

/* Logs are delivered even if assertions failed: they may explain why. */
static bool deliver(Logged *x) {
  const LaunchCall *c = x->call;
  bool ok = true;
  for (int i = 0; i < x->n; i++) {
    LogMemory *m = &x->log[i];
    const ArtParam *p = param_of(x, i);
    wv_buffer b = {m->host, wv_dtype_name(p->dtype, NULL, NULL), p->rank, m->shape, NULL};
    if (!*p->report && (!*p->log || !c->log)) continue; /* workspace, or not requested */
    if (!kind_of(x)->copy(x->l->device, x->device, m->host, m->tensor.data, m->bytes, &x->report))
      return false;
    if (*p->report) {
      int64_t words = (int64_t)(m->bytes / sizeof(int64_t));
      ok &= failures_report(x->report.diags, p->report, m->host, words);
    } else c->log(c->user, p->log, &b);
  }
  return ok;
}

static void release(void *logged) { close_logs(logged); }

static bool run_logged(Launcher *l, Diags *diags, const LaunchCall *c) {
  Logged x = {.l = l, .call = c, .report = launch_report(l, diags, l->at)};
  x.n = l->art->nparams - l->art->ngiven;
  if (!take_sizes(&x) || !l->open(l, diags) || !refuse_capture(&x)) return false;
  Held held;
  landing_hold(&held, release, &x);
  bool ok = open_logs(&x) && launch_all(&x) && (c->only_plan || deliver(&x));
  landing_let_go(&held);
  close_logs(&x);
  return ok;
}

bool launch_logged(Launcher *l, Diags *diags, const LaunchCall *c) {
  return l->has_logs ? run_logged(l, diags, c) : launch_run(l, diags, c);
}
