/* py_args: the arguments of a call, checked for their kind and used in place.
 *
 * This is part of every launch: nothing is allocated for the usual number of arguments. */
#include "ext.h"

/* ---- parameters ---------------------------------------------------------------------------- */

bool py_params_of(wv_kernel *k, Params *out) {
  *out = (Params){.kernel = wv_kernel_name(k), .n = wv_kernel_nparams(k)};
  out->list = PyMem_Calloc((size_t)out->n + 1, sizeof *out->list);
  if (!out->list) return PyErr_NoMemory(), false;
  for (int i = 0; i < out->n; i++) {
    ParamInfo *p = &out->list[i];
    const char *name;
    wv_type t;
    wv_kernel_param(k, i, &name, &t, &p->is_output);
    p->name = PyUnicode_FromString(name);
    p->text = p->name ? PyUnicode_AsUTF8AndSize(p->name, NULL) : NULL;
    if (!p->text) return false;
    p->is_tensor = strcmp(wv_type_kind(t), "mem") == 0;
    p->dtype = wv_type_dtype(t);
    p->is_float = p->dtype[0] == 'f' || p->dtype[0] == 'b';
    p->dtype_number = wv_dtype_find(p->dtype);
  }
  return true;
}

void py_params_free(Params *p) {
  for (int i = 0; p->list && i < p->n; i++) Py_CLEAR(p->list[i].name);
  PyMem_Free(p->list);
  *p = (Params){0};
}

bool py_argument_error(PyState *st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  PyErr_FormatV(st->argument_error, fmt, ap);
  va_end(ap);
  return false;
}

PyObject *py_params_wrong_count(PyState *st, const Params *p, Py_ssize_t given) {
  PyObject *names = PyUnicode_FromString("");
  for (int i = 0; names && i < p->n; i++) {
    PyObject *more = PyUnicode_FromFormat("%U%s%s", names, i ? ", " : "", p->list[i].text);
    Py_DECREF(names);
    names = more;
  }
  if (names)
    py_argument_error(st, "%s() takes %d arguments (%U), %zd given", p->kernel, p->n, names, given);
  Py_XDECREF(names);
  return NULL;
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* NULL without an exception for text, which PyNumber_Float would accept. */
static PyObject *number_from(const ParamInfo *p, PyObject *o) {
  if (!p->is_float) return PyNumber_Index(o);
  return PyNumber_Check(o) ? PyNumber_Float(o) : NULL;
}

static bool take_number(PyState *st, const ParamInfo *p, PyObject *o, wv_launch_arg *out) {
  PyObject *number = number_from(p, o);
  bool taken = number != NULL;
  if (number && p->is_float) out->number = PyFloat_AsDouble(number);
  else if (number && strcmp(p->dtype, "u64") == 0)
    out->integer = (int64_t)PyLong_AsUnsignedLongLong(number);
  else if (number) out->integer = PyLong_AsLongLong(number);
  Py_XDECREF(number);
  bool fits = taken && !PyErr_Occurred();
  if (fits && !p->is_float) fits = wv_dtype_holds(p->dtype_number, out->integer);
  if (fits) return true;
  PyErr_Clear();
  if (taken && !p->is_float)
    return py_argument_error(st, "argument `%s` is %R, which is not a valid %s", p->text, o,
                             p->dtype);
  py_argument_error(st, "argument `%s` must be a number of type %s, got %R", p->text, p->dtype,
                    (PyObject *)Py_TYPE(o));
  return false;
}

bool py_args_take(PyState *st, const Params *p, PyObject *const *given, Args *out) {
  out->n = p->n;
  out->taken = 0;
  out->tensors = out->some_tensors;
  out->args = out->some_args;
  if (p->n > FEW_ARGS) {
    out->tensors = PyMem_Calloc((size_t)p->n, sizeof *out->tensors);
    out->args = PyMem_Calloc((size_t)p->n, sizeof *out->args);
    if (!out->tensors || !out->args) return PyErr_NoMemory(), false;
  }
  for (; out->taken < p->n; out->taken++) {
    int i = out->taken;
    const ParamInfo *info = &p->list[i];
    out->tensors[i].held = out->tensors[i].view.obj = NULL;
    out->args[i].tensor = info->is_tensor ? &out->tensors[i].tensor : NULL;
    bool ok = info->is_tensor
                  ? py_tensor_take(st, given[i], info->text, info->is_output, &out->tensors[i])
                  : take_number(st, info, given[i], &out->args[i]);
    if (!ok) return false;
  }
  return true;
}

void py_args_release(Args *a) {
  for (int i = 0; i < a->taken; i++) py_tensor_release(&a->tensors[i]);
  if (a->tensors != a->some_tensors) PyMem_Free(a->tensors);
  if (a->args != a->some_args) PyMem_Free(a->args);
}

const Tensor *py_args_on_device(const Args *a) {
  for (int i = 0; i < a->n; i++)
    if (a->args[i].tensor && !py_tensor_is_host(&a->tensors[i])) return &a->tensors[i];
  return NULL;
}
