/* py_tracer: Tracer, a kernel under construction.
 *
 * `with tracer:` makes it the current one of this thread; ops find it there or through their
 * operands. Every call records the user's source location and raises as soon as the core reports an
 * error. */
#include "ext.h"

enum { RESULTS_MOST = 8 }; /* of an op without a region */

#define CURRENT_KEY "wave_lang.tracer"

static bool is_live(TracerObject *t) {
  if (t->b && t->cx == t->st->cx) return true;
  if (t->b)
    PyErr_SetString(t->st->internal_error, "an internal error ended the trace of this kernel");
  else PyErr_SetString(PyExc_RuntimeError, "this kernel has already been traced");
  return false;
}

TracerObject *py_tracer_current(PyState *st, const char *what) {
  PyObject *dict = PyThreadState_GetDict();
  PyObject *t = dict ? PyDict_GetItemString(dict, CURRENT_KEY) : NULL;
  if (t && t != Py_None && Py_TYPE(t) == st->tracer_type) return (TracerObject *)t;
  wv_place at;
  char text[96];
  snprintf(text, sizeof text, "`%s` is used outside a kernel", what);
  if (py_place_here(st, &at))
    py_error_report(st, "E0408", at, text, "use ops inside a function decorated with `@wave(...)`");
  return NULL;
}

/* ---- operands ------------------------------------------------------------------------------ */

/* An expression next to a value is a scalar of the value's dtype. */
static wv_value *scalar_of(TracerObject *t, wv_expr e, const wv_value *like, wv_place at) {
  wv_attr attr = {.key = "value", .expr = e};
  wv_value *result[RESULTS_MOST] = {0};
  wv_type type = wv_scalar_type(t->st->cx, wv_type_dtype(wv_value_type(like)));
  if (!wv_op(t->b, "scalar", NULL, 0, &attr, 1, type, at, result)) py_error_raise(t->st);
  return result[0];
}

static bool is_float(const wv_value *v) {
  int bits;
  const char *kind = "";
  wv_dtype_name(wv_dtype_find(wv_type_dtype(wv_value_type(v))), &bits, &kind);
  return strcmp(kind, "float") == 0;
}

/* A 64-bit integer, signed or, from 2**63 up, unsigned. */
static int64_t bits_of(PyObject *integer, double rounded) {
  if (rounded < 0x1p63) return PyLong_AsLongLong(integer);
  return (int64_t)PyLong_AsUnsignedLongLong(integer);
}

static void refuse_number(TracerObject *t, const wv_value *like, wv_place at) {
  char text[80];
  PyErr_Clear();
  snprintf(text, sizeof text, "a number does not fit in %s", wv_type_dtype(wv_value_type(like)));
  py_error_report(t->st, "E0315", at, text, NULL);
}

static wv_value *literal_of(TracerObject *t, PyObject *o, const wv_value *like, wv_place at) {
  bool integer = PyIndex_Check(o) && !is_float(like);
  PyObject *number = integer ? PyNumber_Index(o) : PyNumber_Float(o);
  double d = number ? PyFloat_AsDouble(number) : 0;
  int64_t i = number && integer && !PyErr_Occurred() ? bits_of(number, d) : 0;
  Py_XDECREF(number);
  if (PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) refuse_number(t, like, at);
    return NULL;
  }
  wv_value *v = wv_literal(t->b, d, i, integer, like, at);
  if (!v) py_error_raise(t->st);
  return v;
}

static wv_value *operand(TracerObject *t, const char *op, PyObject *o, const wv_value *like,
                         wv_place at) {
  if (py_value_check(o)) return py_value_from(t, o, op);
  bool number = PyLong_Check(o) || PyFloat_Check(o);
  if (like && !number) {
    wv_expr e = py_expr_try(t->st, o);
    if (e) return scalar_of(t, e, like, at);
    number = !PyErr_Occurred() && PyNumber_Check(o);
  }
  wv_value *literal = like && number ? literal_of(t, o, like, at) : NULL;
  bool no_number =
      !literal && (!PyErr_Occurred() || (number && PyErr_ExceptionMatches(PyExc_TypeError)));
  if (no_number)
    PyErr_Format(PyExc_TypeError, "%s: expected a traced value%s, got %R%s", op,
                 like ? " or a number" : "", (PyObject *)Py_TYPE(o),
                 PyObject_HasAttrString(o, "shape") ? ": pass tensors as arguments of the kernel"
                                                    : "");
  return literal;
}

/* The operands of an op. Numbers take the dtype of the last value among them: the branches of a
 * select, not its condition. */
static wv_value **operands_from(TracerObject *t, Scratch *s, const char *op, PyObject *const *list,
                                Py_ssize_t n, wv_place at) {
  wv_value **out = py_scratch_alloc(s, (size_t)n, sizeof *out);
  const wv_value *like = NULL;
  for (Py_ssize_t i = 0; i < n; i++)
    if (py_value_check(list[i])) like = py_value_get(list[i]);
  for (Py_ssize_t i = 0; out && i < n; i++)
    if (!(out[i] = operand(t, op, list[i], like, at))) return NULL;
  return out;
}

static wv_value **operands_of(TracerObject *t, Scratch *s, const char *op, PyObject *tuple, int *n,
                              wv_place at) {
  *n = (int)PyTuple_Size(tuple);
  PyObject **list = py_scratch_alloc(s, (size_t)*n, sizeof *list);
  for (int i = 0; list && i < *n; i++) list[i] = PyTuple_GetItem(tuple, i);
  return list ? operands_from(t, s, op, list, *n, at) : NULL;
}

/* None, the one value, or a tuple of them. */
static PyObject *results_to(TracerObject *t, wv_value **results, int n) {
  if (n == 0) Py_RETURN_NONE;
  if (n == 1) return py_value_new(t, results[0]);
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *v = py_value_new(t, results[i]);
    if (!v) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, i, v);
  }
  return tuple;
}

/* Names results after the variables they are assigned to; the printer numbers equal names. */
static void name_results(TracerObject *t, PyObject *target, wv_value **results, int n) {
  for (int i = 0; target && i < n; i++) {
    bool several = PyTuple_Check(target);
    if (several && i >= PyTuple_Size(target)) return;
    PyObject *name = several ? PyTuple_GetItem(target, i) : target;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text) wv_value_name(t->b, results[i], text);
    else PyErr_Clear();
  }
}

static int count_results(wv_value **results, int cap) {
  int n = 0;
  while (n < cap && results[n]) n++;
  return n;
}

/* ---- ops ----------------------------------------------------------------------------------- */

static PyObject *emit(TracerObject *t, Scratch *s, const char *op, PyObject *const *list,
                      Py_ssize_t n, PyObject *attrs, PyObject *given) {
  wv_place at;
  const wv_attr *a;
  wv_type type;
  wv_value *results[RESULTS_MOST] = {0};
  int nattrs;
  PyObject *target;
  if (!py_place_and_target(t->st, t->frame, &at, &target)) return NULL;
  wv_value **args = operands_from(t, s, op, list, n, at);
  if (!args || !py_attrs_from(t->st, s, attrs, &a, &nattrs) ||
      !py_type_from(t->st, s, given, &type))
    return NULL;
  if (!wv_op(t->b, op, args, (int)n, a, nattrs, type, at, results)) return py_error_raise(t->st);
  int count = count_results(results, RESULTS_MOST);
  name_results(t, target, results, count);
  return results_to(t, results, count);
}

PyObject *py_tracer_emit(TracerObject *t, const char *op, PyObject *const *operands, Py_ssize_t n,
                         PyObject *attrs, PyObject *given) {
  if (!is_live(t)) return NULL;
  Scratch s = {0};
  PyObject *r = emit(t, &s, op, operands, n, attrs, given);
  py_scratch_free(&s);
  return r;
}

/* Coordinates of read and write: values or expressions. */
static wv_coord *coords_from(TracerObject *t, Scratch *s, PyObject *o, int *n) {
  bool single = py_value_check(o) || py_expr_check(o) || !PySequence_Check(o);
  PyObject *items = single ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
  if (!items) return NULL;
  *n = (int)PyTuple_Size(items);
  wv_coord *out = py_scratch_alloc(s, (size_t)*n, sizeof *out);
  for (int i = 0; out && i < *n; i++) {
    PyObject *item = PyTuple_GetItem(items, i);
    if (py_value_check(item)) out[i].value = py_value_from(t, item, "source/target");
    else out[i].expr = py_expr_from(t->st, item);
    if (!out[i].value && !out[i].expr) out = NULL;
  }
  Py_DECREF(items);
  return out;
}

static PyObject *access_op(TracerObject *t, Scratch *s, PyObject *args) {
  PyObject *value, *memory, *source, *target, *attrs = NULL;
  if (!PyArg_ParseTuple(args, "OOOO|O:access", &value, &memory, &source, &target, &attrs))
    return NULL;
  wv_place at;
  const wv_attr *a;
  int nattrs, nsource = 0, ntarget = 0;
  PyObject *name;
  if (!py_place_and_target(t->st, t->frame, &at, &name)) return NULL;
  wv_value *v = value == Py_None ? NULL : py_value_from(t, value, "write");
  wv_value *m = PyErr_Occurred() ? NULL : py_value_from(t, memory, v ? "write" : "read");
  wv_coord *from = m ? coords_from(t, s, source, &nsource) : NULL;
  wv_coord *to = from ? coords_from(t, s, target, &ntarget) : NULL;
  if (!to || !py_attrs_from(t->st, s, attrs, &a, &nattrs)) return NULL;
  wv_value *result[RESULTS_MOST] = {0};
  if (!wv_access(t->b, v, m, from, nsource, to, ntarget, a, nattrs, at, result))
    return py_error_raise(t->st);
  name_results(t, name, result, v ? 0 : 1);
  return results_to(t, result, v ? 0 : 1);
}

static PyObject *tracer_access(PyObject *self, PyObject *args) {
  if (!is_live((TracerObject *)self)) return NULL;
  Scratch s = {0};
  PyObject *r = access_op((TracerObject *)self, &s, args);
  py_scratch_free(&s);
  return r;
}

/* ---- regions ------------------------------------------------------------------------------- */

static PyObject *region_args(TracerObject *t, Scratch *s) {
  int n = wv_region_args(t->b, NULL, 0);
  wv_value **list = py_scratch_alloc(s, (size_t)n, sizeof *list);
  PyObject *tuple = list ? PyTuple_New(n) : NULL;
  if (tuple) wv_region_args(t->b, list, n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *v = py_value_new(t, list[i]);
    if (!v) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, i, v);
  }
  return tuple;
}

static PyObject *begin_region(TracerObject *t, Scratch *s, PyObject *args) {
  const char *op;
  PyObject *operands, *attrs = NULL;
  const wv_attr *a;
  int n, nattrs;
  wv_place at;
  if (!PyArg_ParseTuple(args, "sO!|O:begin", &op, &PyTuple_Type, &operands, &attrs)) return NULL;
  if (!py_place_here(t->st, &at)) return NULL;
  wv_value **list = operands_of(t, s, op, operands, &n, at);
  if (!list || !py_attrs_from(t->st, s, attrs, &a, &nattrs)) return NULL;
  if (!wv_begin(t->b, op, list, n, a, nattrs, at)) return py_error_raise(t->st);
  return region_args(t, s);
}

static PyObject *tracer_begin(PyObject *self, PyObject *args) {
  if (!is_live((TracerObject *)self)) return NULL;
  Scratch s = {0};
  PyObject *r = begin_region((TracerObject *)self, &s, args);
  py_scratch_free(&s);
  return r;
}

static PyObject *else_region(TracerObject *t, Scratch *s, PyObject *args) {
  PyObject *yields, *code;
  int n;
  wv_place at;
  if (!PyArg_ParseTuple(args, "O!O:otherwise", &PyTuple_Type, &yields, &code)) return NULL;
  if (!py_place_here(t->st, &at) || !py_place_of_return(t->st, code, &at)) return NULL;
  wv_value **list = operands_of(t, s, "return", yields, &n, at);
  if (!list) return NULL;
  if (!wv_else(t->b, list, n, at)) return py_error_raise(t->st);
  Py_RETURN_NONE;
}

static PyObject *tracer_otherwise(PyObject *self, PyObject *args) {
  if (!is_live((TracerObject *)self)) return NULL;
  Scratch s = {0};
  PyObject *r = else_region((TracerObject *)self, &s, args);
  py_scratch_free(&s);
  return r;
}

static PyObject *end_region(TracerObject *t, Scratch *s, PyObject *args) {
  PyObject *yields, *code;
  int n;
  wv_place at;
  PyObject *target;
  if (!PyArg_ParseTuple(args, "O!O:end", &PyTuple_Type, &yields, &code)) return NULL;
  if (!py_place_and_target(t->st, t->frame, &at, &target) || !py_place_of_return(t->st, code, &at))
    return NULL;
  wv_value **list = operands_of(t, s, "return", yields, &n, at);
  int cap = wv_region_args(t->b, NULL, 0) + 1;
  wv_value **results = list ? py_scratch_alloc(s, (size_t)cap, sizeof *results) : NULL;
  if (!results) return NULL;
  if (!wv_end(t->b, list, n, at, results)) return py_error_raise(t->st);
  int count = count_results(results, cap);
  name_results(t, target, results, count);
  PyObject *made = results_to(t, results, count);
  if (made && count == 1) py_value_set_only_result(made);
  return made;
}

static PyObject *tracer_end(PyObject *self, PyObject *args) {
  if (!is_live((TracerObject *)self)) return NULL;
  Scratch s = {0};
  PyObject *r = end_region((TracerObject *)self, &s, args);
  py_scratch_free(&s);
  return r;
}

/* ---- header, parameters, the end ----------------------------------------------------------- */

static PyObject *tracer_constrain(PyObject *self, PyObject *row) {
  TracerObject *t = (TracerObject *)self;
  if (!is_live(t)) return NULL;
  Scratch s = {0};
  wv_constraint c;
  bool ok = py_constraint_from(t->st, &s, row, &c);
  bool added = ok && wv_add_constraint(t->b, &c);
  py_scratch_free(&s);
  if (!ok) return NULL;
  if (!added) return py_error_raise(t->st);
  Py_RETURN_NONE;
}

static PyObject *add_param(TracerObject *t, Scratch *s, PyObject *args) {
  const char *name;
  PyObject *spec, *binds = Py_None, *place = Py_None;
  if (!PyArg_ParseTuple(args, "sO|OO:param", &name, &spec, &binds, &place)) return NULL;
  wv_type type;
  wv_place at;
  if (!py_type_from(t->st, s, spec, &type) || !py_place_from_python(t->st, place, &at)) return NULL;
  wv_expr symbol = binds == Py_None ? NULL : py_expr_from(t->st, binds);
  if (PyErr_Occurred()) return NULL;
  wv_value *v = wv_param(t->b, name, type, symbol, at);
  return v ? py_value_new(t, v) : py_error_raise(t->st);
}

static PyObject *tracer_param(PyObject *self, PyObject *args) {
  if (!is_live((TracerObject *)self)) return NULL;
  Scratch s = {0};
  PyObject *r = add_param((TracerObject *)self, &s, args);
  py_scratch_free(&s);
  return r;
}

static PyObject *tracer_tag(PyObject *self, PyObject *args) {
  TracerObject *t = (TracerObject *)self;
  PyObject *o;
  const char *tag;
  if (!is_live(t) || !PyArg_ParseTuple(args, "Os:tag", &o, &tag)) return NULL;
  wv_value *v = py_value_from(t, o, "tag");
  if (!v) return NULL;
  if (!wv_value_add_tag(t->b, v, tag)) return py_error_raise(t->st);
  return Py_NewRef(o);
}

static PyObject *tracer_name_value(PyObject *self, PyObject *args) {
  TracerObject *t = (TracerObject *)self;
  PyObject *o;
  const char *name;
  if (!is_live(t) || !PyArg_ParseTuple(args, "Os:name", &o, &name)) return NULL;
  wv_value *v = py_value_from(t, o, "name");
  if (!v) return NULL;
  wv_value_name(t->b, v, name);
  Py_RETURN_NONE;
}

static PyObject *tracer_finish(PyObject *self, PyObject *Py_UNUSED(none)) {
  TracerObject *t = (TracerObject *)self;
  if (!is_live(t)) return NULL;
  wv_builder *b = t->b;
  t->b = NULL;
  wv_kernel *k = wv_finish(b);
  return k ? py_kernel_new(t->st, k) : py_error_raise(t->st);
}

static PyObject *tracer_enter(PyObject *self, PyObject *Py_UNUSED(none)) {
  TracerObject *t = (TracerObject *)self;
  PyObject *dict = PyThreadState_GetDict();
  if (!dict) return PyErr_NoMemory();
  t->previous = Py_XNewRef(PyDict_GetItemString(dict, CURRENT_KEY));
  if (PyDict_SetItemString(dict, CURRENT_KEY, self) < 0) return NULL;
  return Py_NewRef(self);
}

/* A trace that ends with an exception is abandoned. */
static PyObject *tracer_exit(PyObject *self, PyObject *args) {
  TracerObject *t = (TracerObject *)self;
  PyObject *dict = PyThreadState_GetDict();
  PyObject *previous = t->previous ? t->previous : Py_NewRef(Py_None);
  t->previous = NULL;
  int r = dict ? PyDict_SetItemString(dict, CURRENT_KEY, previous) : -1;
  Py_DECREF(previous);
  if (PyTuple_Size(args) > 0 && PyTuple_GetItem(args, 0) != Py_None && t->b) {
    wv_abandon(t->b);
    t->b = NULL;
    py_error_clear(t->st, t->st->cx);
  }
  if (r < 0) return NULL;
  Py_RETURN_FALSE;
}

static PyObject *tracer_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyState *st = PyType_GetModuleState(type);
  static char *names[] = {"name", "place", NULL};
  const char *name;
  PyObject *place = Py_None;
  wv_place at;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|O:Tracer", names, &name, &place)) return NULL;
  if (!py_place_from_python(st, place, &at)) return NULL;
  TracerObject *t = PyObject_New(TracerObject, type);
  if (!t) return NULL;
  py_error_clear(st, st->cx);
  t->st = st;
  t->cx = st->cx;
  t->frame = PyEval_GetFrame();
  t->previous = t->items = NULL;
  t->b = wv_build(st->cx, name, at);
  if (t->b) return (PyObject *)t;
  Py_DECREF((PyObject *)t);
  return py_error_raise(st);
}

static void tracer_dealloc(PyObject *self) {
  TracerObject *t = (TracerObject *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (t->b) wv_abandon(t->b);
  Py_XDECREF(t->previous);
  Py_XDECREF(t->items);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *tracer_index_by(PyObject *self, PyObject *function) {
  TracerObject *t = (TracerObject *)self;
  Py_XDECREF(t->items);
  t->items = Py_NewRef(function);
  Py_RETURN_NONE;
}

static PyMethodDef tracer_methods[] = {
    {"index_by", tracer_index_by, METH_O,
     "index_by(function): `value[key]` is function(value, key)."},
    {"constrain", tracer_constrain, METH_O, "constrain(row): adds a row to the kernel's header."},
    {"param", tracer_param, METH_VARARGS, "param(name, type, binds=None, place=None) -> Value"},
    {"access", tracer_access, METH_VARARGS,
     "access(value or None, memory, source, target, attrs): a read or write by coordinates."},
    {"begin", tracer_begin, METH_VARARGS,
     "begin(op, operands, attrs): opens a region; the values carried into it."},
    {"otherwise", tracer_otherwise, METH_VARARGS,
     "otherwise(yields, code): closes the body of a conditional, opens that of its else."},
    {"end", tracer_end, METH_VARARGS,
     "end(yields, code): closes the region that a function with this code traced; its results."},
    {"tag", tracer_tag, METH_VARARGS, "tag(value, name): a name for schedules; the value."},
    {"name", tracer_name_value, METH_VARARGS, "name(value, text): what the printed IR calls it."},
    {"finish", tracer_finish, METH_NOARGS, "Ends and verifies the kernel -> Kernel"},
    {"__enter__", tracer_enter, METH_NOARGS, NULL},
    {"__exit__", tracer_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot tracer_slots[] = {
    {Py_tp_doc, "A kernel under construction: Tracer(name, place=None)."},
    {Py_tp_new, tracer_construct},
    {Py_tp_dealloc, tracer_dealloc},
    {Py_tp_methods, tracer_methods},
    {0, NULL}};

static PyType_Spec tracer_spec = {"wave_lang.Tracer", sizeof(TracerObject), 0, Py_TPFLAGS_DEFAULT,
                                  tracer_slots};

int py_tracer_init(PyObject *module, PyState *st) {
  st->tracer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tracer_spec, NULL);
  return st->tracer_type ? PyModule_AddType(module, st->tracer_type) : -1;
}
