/* py_run: calls a kernel: acquires the arguments, and releases the interpreter lock while it runs.
 *
 * The module's context may be used by another thread as soon as the interpreter lock is released,
 * so a kernel runs as a copy in a context of its own. Tensors are held until it ends. */
#include <time.h>

#include "ext.h"

typedef struct Call {
  PyState *st;
  wv_ctx *cx; /* of this call only */
  wv_kernel *k;
  Scratch scratch;
  Params params;
  Args taken;
  wv_arg *args;         /* the same as host buffers */
  PyThreadState *saved; /* while other threads run */
  double asked;         /* when signals were last checked, in seconds */
  PyObject *log;        /* NULL: logs are dropped */
  bool log_failed;
} Call;

/* ---- logs ---------------------------------------------------------------------------------- */

static int64_t element_count(const wv_buffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  return n;
}

/* call(label, dtype name, shape, bytes) */
PyObject *py_run_call_log(PyObject *call, const char *label, const wv_buffer *b) {
  PyObject *shape = PyTuple_New(b->rank);
  for (int i = 0; shape && i < b->rank; i++)
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(b->shape[i]));
  Py_ssize_t size = (Py_ssize_t)wv_data_bytes(b->dtype, element_count(b));
  PyObject *r = shape ? PyObject_CallFunction(call, "ssOy#", label, b->dtype, shape,
                                              (const char *)b->data, size)
                      : NULL;
  Py_XDECREF(shape);
  return r;
}

static void send_log(void *user, const char *label, const wv_buffer *b) {
  Call *c = user;
  if (!c->log || c->log_failed) return;
  PyEval_RestoreThread(c->saved);
  PyObject *r = py_run_call_log(c->log, label, b);
  c->log_failed = r == NULL;
  Py_XDECREF(r);
  c->saved = PyEval_SaveThread();
}

/* ---- arguments ----------------------------------------------------------------------------- */

static bool on_host(PyState *st, const Args *a, const Params *p) {
  for (int i = 0; i < a->n; i++) {
    if (!a->args[i].tensor || py_tensor_is_host(&a->tensors[i])) continue;
    py_argument_error(
        st, "argument `%s` is on a device, but this kernel runs on the host: move it with `.cpu()`",
        p->list[i].text);
    return false;
  }
  return true;
}

/* In the form that the evaluator and the simulator take. */
static bool host_args(Call *c) {
  wv_buffer *buffers = py_scratch_alloc(&c->scratch, (size_t)c->taken.n, sizeof *buffers);
  c->args = py_scratch_alloc(&c->scratch, (size_t)c->taken.n, sizeof *c->args);
  for (int i = 0; buffers && c->args && i < c->taken.n; i++) {
    const wv_tensor *t = c->taken.args[i].tensor;
    int bits;
    const char *cls;
    if (t)
      buffers[i] = (wv_buffer){.data = t->data,
                               .dtype = wv_dtype_name(t->dtype, &bits, &cls),
                               .rank = t->rank,
                               .shape = t->shape,
                               .strides = t->strides};
    c->args[i] = (wv_arg){.buffer = t ? &buffers[i] : NULL,
                          .number = c->taken.args[i].number,
                          .integer = c->taken.args[i].integer};
  }
  return buffers && c->args;
}

static void close_call(Call *c) {
  py_args_release(&c->taken);
  py_params_free(&c->params);
  py_scratch_free(&c->scratch);
  wv_kernel_free(c->k);
  if (c->cx) wv_ctx_free(c->cx);
}

static bool take_args(Call *c, PyObject *tuple) {
  PyObject **given = py_scratch_alloc(&c->scratch, (size_t)c->params.n, sizeof *given);
  for (int i = 0; given && i < c->params.n; i++) given[i] = PyTuple_GetItem(tuple, i);
  return given && py_args_take(c->st, &c->params, given, &c->taken);
}

static bool open_call(Call *c, wv_kernel *k, PyObject *args) {
  if (!py_params_of(k, &c->params)) return false;
  if (PyTuple_Size(args) != c->params.n)
    return py_params_wrong_count(c->st, &c->params, PyTuple_Size(args)), false;
  if (!take_args(c, args) || !on_host(c->st, &c->taken, &c->params) || !host_args(c)) return false;
  c->cx = wv_ctx_new();
  c->k = wv_kernel_copy(k, c->cx);
  return c->k || (py_error_raise_in(c->st, c->cx), false);
}

/* ---- running ------------------------------------------------------------------------------- */

static double seconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ctrl-C: the exception is set, and raised when the run has stopped. */
static bool was_interrupted(void *user) {
  Call *c = user;
  double now = seconds();
  if (now - c->asked < 0.05 && now >= c->asked) return false;
  c->asked = now;
  PyEval_RestoreThread(c->saved);
  bool stop = PyErr_CheckSignals() != 0;
  c->saved = PyEval_SaveThread();
  return stop;
}

/* eval(args, log): a list of remarks */
PyObject *py_run_eval(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *list, *log = Py_None;
  if (!PyArg_ParseTuple(args, "O!|O:eval", &PyTuple_Type, &list, &log)) return NULL;
  Call c = {.st = st, .log = log == Py_None ? NULL : log};
  PyObject *remarks = NULL;
  bool ok = open_call(&c, k, list);
  if (ok) {
    wv_eval_options o = {
        .log = send_log, .interrupted = was_interrupted, .user = &c, .check_masks = true};
    c.saved = PyEval_SaveThread();
    ok = wv_eval(c.k, c.args, c.params.n, &o);
    PyEval_RestoreThread(c.saved);
    if (!ok) py_error_raise_as(st, c.cx, st->launch_error);
    else remarks = py_error_take_from(st, c.cx);
  }
  close_call(&c);
  if (!ok || PyErr_Occurred()) Py_CLEAR(remarks);
  return remarks;
}

/* sim(args, target, schedule, nonfinite, log). A report takes over the call's context and
 * kernel. */
PyObject *py_run_sim(PyState *st, wv_kernel *k, PyObject *args, PyObject *named) {
  static char *words[] = {"args", "target", "schedule", "nonfinite", "log", NULL};
  PyObject *list, *log = Py_None;
  wv_sim_options o = {.interrupted = was_interrupted, .log = send_log};
  int nonfinite = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O!|zzpO:sim", words, &PyTuple_Type, &list,
                                   &o.target, &o.schedule, &nonfinite, &log))
    return NULL;
  o.nonfinite = nonfinite != 0;
  Call c = {.st = st, .log = log == Py_None ? NULL : log};
  o.user = &c;
  PyObject *report = NULL;
  if (open_call(&c, k, list)) {
    wv_report *made = NULL;
    c.saved = PyEval_SaveThread();
    bool fine = wv_sim(c.k, c.args, c.params.n, &o, &made);
    PyEval_RestoreThread(c.saved);
    if (made) {
      report = py_report_new(st, c.cx, c.k, made);
      c.cx = NULL;
      c.k = NULL;
    }
    if (!fine && report) py_report_raise(report);
    else if (!fine && !made) py_error_raise_as(st, c.cx, st->launch_error);
    if (!fine || PyErr_Occurred()) Py_CLEAR(report);
  }
  close_call(&c);
  return report;
}
