/* py_run: calling a kernel: arguments are taken, and other threads go on while it runs.
 *
 * The module's context may be used by another thread as soon as the interpreter lock is released,
 * so a kernel runs as a copy in a context of its own. Tensors are held until it ends. */
#include <time.h>

#include "ext.h"

typedef struct Call {
  PyState *st;
  wv_ctx *cx; /* of this call alone */
  wv_kernel *k;
  Scratch scratch;
  Tensor *tensors;
  wv_arg *args;
  int n, taken;
  PyThreadState *saved; /* while others run */
  double asked;         /* when signals were last looked at, in seconds */
  PyObject *log;        /* NULL: logs are dropped */
  bool log_failed;
} Call;

/* ---- logs ---------------------------------------------------------------------------------- */

static int64_t element_count(const wv_buffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  return n;
}

static int dtype_bytes(const char *dtype) {
  for (int i = 0; i < wv_dtype_count(); i++) {
    int bits;
    const char *cls;
    if (strcmp(wv_dtype_name(i, &bits, &cls), dtype) == 0) return bits < 8 ? 1 : bits / 8;
  }
  return 0;
}

/* call(label, dtype name, shape, bytes) */
static PyObject *call_log(PyObject *call, const char *label, const wv_buffer *b) {
  PyObject *shape = PyTuple_New(b->rank);
  for (int i = 0; shape && i < b->rank; i++)
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(b->shape[i]));
  Py_ssize_t size = (Py_ssize_t)element_count(b) * dtype_bytes(b->dtype);
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
  PyObject *r = call_log(c->log, label, b);
  c->log_failed = r == NULL;
  Py_XDECREF(r);
  c->saved = PyEval_SaveThread();
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* The parameters in words: "a, b, c". */
static PyObject *param_names(wv_kernel *k) {
  PyObject *text = PyUnicode_FromString("");
  for (int i = 0; text && i < wv_kernel_nparams(k); i++) {
    const char *name;
    wv_type t;
    bool output;
    wv_kernel_param(k, i, &name, &t, &output);
    PyObject *more = PyUnicode_FromFormat("%U%s%s", text, i ? ", " : "", name);
    Py_DECREF(text);
    text = more;
  }
  return text;
}

static void wrong_count(wv_kernel *k, Py_ssize_t given) {
  PyObject *names = param_names(k);
  if (names)
    PyErr_Format(PyExc_TypeError, "%s() takes %d arguments (%U), %zd given", wv_kernel_name(k),
                 wv_kernel_nparams(k), names, given);
  Py_XDECREF(names);
}

static bool scalar_arg(PyObject *o, const char *name, wv_type t, wv_arg *out) {
  char first = wv_type_dtype(t)[0];
  bool is_float = first == 'f' || first == 'b';
  PyObject *number = is_float ? PyNumber_Float(o) : PyNumber_Index(o);
  if (number && is_float) out->number = PyFloat_AsDouble(number);
  else if (number) out->integer = PyLong_AsLongLong(number);
  Py_XDECREF(number);
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "argument `%s` must be a number of type %s, got %R", name,
               wv_type_dtype(t), (PyObject *)Py_TYPE(o));
  return false;
}

static bool on_host(const Tensor *t, const char *name) {
  if (py_tensor_is_host(t)) return true;
  PyErr_Format(PyExc_ValueError,
               "argument `%s` lies on a device; this kernel runs on the host: "
               "move it there with `.cpu()`",
               name);
  return false;
}

/* Once tensors[i] is taken it counts as such, also when it lies in the wrong place. */
static bool take_arg(Call *c, wv_kernel *k, int i, PyObject *o) {
  const char *name;
  wv_type t;
  bool output;
  wv_kernel_param(k, i, &name, &t, &output);
  c->taken = i;
  if (strcmp(wv_type_kind(t), "mem") != 0) return scalar_arg(o, name, t, &c->args[i]);
  c->args[i].buffer = &c->tensors[i].buffer;
  if (!py_tensor_take(c->st, o, name, output, &c->tensors[i])) return false;
  c->taken = i + 1;
  return on_host(&c->tensors[i], name);
}

static void close_call(Call *c) {
  for (int i = 0; i < c->taken; i++) py_tensor_release(&c->tensors[i]);
  py_scratch_free(&c->scratch);
  wv_kernel_free(c->k);
  if (c->cx) wv_ctx_free(c->cx);
}

static bool open_call(Call *c, wv_kernel *k, PyObject *args) {
  c->n = wv_kernel_nparams(k);
  if (PyTuple_Size(args) != c->n) return wrong_count(k, PyTuple_Size(args)), false;
  c->tensors = py_scratch_alloc(&c->scratch, (size_t)c->n, sizeof *c->tensors);
  c->args = py_scratch_alloc(&c->scratch, (size_t)c->n, sizeof *c->args);
  bool ok = c->tensors && c->args;
  for (int i = 0; ok && i < c->n; i++) ok = take_arg(c, k, i, PyTuple_GetItem(args, i));
  if (!ok) return false;
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

/* eval(args, log) */
PyObject *py_run_eval(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *list, *log = Py_None;
  if (!PyArg_ParseTuple(args, "O!|O:eval", &PyTuple_Type, &list, &log)) return NULL;
  Call c = {.st = st, .log = log == Py_None ? NULL : log};
  bool ok = open_call(&c, k, list);
  if (ok) {
    wv_eval_options o = {
        .log = send_log, .interrupted = was_interrupted, .user = &c, .check_masks = true};
    c.saved = PyEval_SaveThread();
    ok = wv_eval(c.k, c.args, c.n, &o);
    PyEval_RestoreThread(c.saved);
    if (!ok) py_error_raise_in(st, c.cx);
  }
  close_call(&c);
  if (!ok || PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* sim(args, target, schedule, nonfinite). A report takes the call's context and kernel along. */
PyObject *py_run_sim(PyState *st, wv_kernel *k, PyObject *args, PyObject *named) {
  static char *words[] = {"args", "target", "schedule", "nonfinite", NULL};
  PyObject *list;
  wv_sim_options o = {.interrupted = was_interrupted};
  int nonfinite = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O!|zzp:sim", words, &PyTuple_Type, &list,
                                   &o.target, &o.schedule, &nonfinite))
    return NULL;
  o.nonfinite = nonfinite != 0;
  Call c = {.st = st};
  o.user = &c;
  PyObject *report = NULL;
  if (open_call(&c, k, list)) {
    wv_report *made = NULL;
    c.saved = PyEval_SaveThread();
    bool fine = wv_sim(c.k, c.args, c.n, &o, &made);
    PyEval_RestoreThread(c.saved);
    if (made) {
      report = py_report_new(st, c.cx, c.k, made);
      c.cx = NULL;
      c.k = NULL;
    }
    if (!fine && report) py_report_raise(report);
    else if (!fine && !made) py_error_raise_in(st, c.cx);
    if (!fine) Py_CLEAR(report);
  }
  close_call(&c);
  return report;
}
