/* py_module: assembles wave_lang._wave. Each type adds itself; the module's own functions are
 * here. */
#include "ext.h"

/* ---- expressions --------------------------------------------------------------------------- */

static PyObject *make_symbol(PyObject *module, PyObject *args) {
  const char *name;
  int nonneg = 1;
  if (!PyArg_ParseTuple(args, "s|p:symbol", &name, &nonneg)) return NULL;
  return py_expr_new(py_state(module), wv_symbol(py_state(module)->cx, name, nonneg != 0));
}

/* op(name, *operands) */
static PyObject *make_op(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
  const char *op =
      PyTuple_Size(args) ? PyUnicode_AsUTF8AndSize(PyTuple_GetItem(args, 0), NULL) : NULL;
  Scratch s = {0};
  int n = 0;
  const wv_expr *list = op && rest ? py_expr_list(st, &s, rest, &n) : NULL;
  PyObject *r = list ? py_expr_new(st, wv_expr_op(st->cx, op, list, n)) : NULL;
  py_scratch_free(&s);
  Py_XDECREF(rest);
  if (!r && !PyErr_Occurred())
    PyErr_SetString(PyExc_TypeError, "op() needs the name of an operator");
  return r;
}

/* resolve({symbol: value}): resolves values that mention other symbols of the dict. */
static PyObject *resolve(PyObject *module, PyObject *dict) {
  PyState *st = py_state(module);
  Scratch s = {0};
  int n = 0;
  wv_binding *b = py_expr_bindings(st, &s, dict, &n);
  PyObject *out = NULL;
  if (b && !wv_resolve(st->cx, b, n)) py_error_raise_here(st);
  else if (b) out = PyDict_New();
  for (int i = 0; out && i < n; i++) {
    PyObject *key = py_expr_new(st, b[i].from), *value = py_expr_new(st, b[i].to);
    if (!key || !value || PyDict_SetItem(out, key, value) < 0) Py_CLEAR(out);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  py_scratch_free(&s);
  return out;
}

/* ---- tracing ------------------------------------------------------------------------------- */

/* emit(op, operands, attrs=None, given=None) */
static PyObject *emit(PyObject *module, PyObject *args) {
  const char *op;
  PyObject *operands, *attrs = NULL, *given = NULL;
  if (!PyArg_ParseTuple(args, "sO!|OO:emit", &op, &PyTuple_Type, &operands, &attrs, &given))
    return NULL;
  TracerObject *t = py_tracer_current(py_state(module), op);
  if (!t) return NULL;
  Scratch s = {0};
  Py_ssize_t n = PyTuple_Size(operands);
  PyObject **list = py_scratch_alloc(&s, (size_t)n, sizeof *list);
  for (Py_ssize_t i = 0; list && i < n; i++) list[i] = PyTuple_GetItem(operands, i);
  PyObject *r = list ? py_tracer_emit(t, op, list, n, attrs, given) : NULL;
  py_scratch_free(&s);
  return r;
}

static PyObject *current(PyObject *module, PyObject *args) {
  const char *what;
  if (!PyArg_ParseTuple(args, "s:current", &what)) return NULL;
  return Py_XNewRef((PyObject *)py_tracer_current(py_state(module), what));
}

static PyObject *here(PyObject *module, PyObject *Py_UNUSED(none)) {
  wv_place at;
  return py_place_here(py_state(module), &at) ? py_place_to_python(&at) : NULL;
}

/* Frames below `package` are not the user's, except those below `kernels`. `namer(code)` says to
 * which variable the result of an instruction is assigned. */
static PyObject *set_package(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *package, *kernels, *namer;
  if (!PyArg_ParseTuple(args, "UUO:set_package", &package, &kernels, &namer)) return NULL;
  if (!PyCallable_Check(namer))
    return PyErr_SetString(PyExc_TypeError, "set_package: `namer` must be callable"), NULL;
  Py_XDECREF(st->internal);
  Py_XDECREF(st->kernels);
  Py_XDECREF(st->namer);
  st->internal = Py_NewRef(package);
  st->kernels = Py_NewRef(kernels);
  st->namer = Py_NewRef(namer);
  PyDict_Clear(st->places);
  Py_RETURN_NONE;
}

static PyObject *check_mapping(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *mapping, *place = Py_None;
  if (!PyArg_ParseTuple(args, "O|O:check_mapping", &mapping, &place)) return NULL;
  Scratch s = {0};
  wv_mapping m;
  wv_place at;
  bool read = py_mapping_from(st, &s, mapping, &m) && py_place_from_python(st, place, &at);
  bool good = read && wv_check_mapping(st->cx, &m, at);
  py_scratch_free(&s);
  if (!read) return NULL;
  if (!good) return py_error_raise(st);
  Py_RETURN_NONE;
}

/* ---- kernels ------------------------------------------------------------------------------- */

static PyObject *parse(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  const char *text, *name = "<text>";
  if (!PyArg_ParseTuple(args, "s|s:parse", &text, &name)) return NULL;
  enum { CAP = 64 };
  wv_kernel *found[CAP] = {0};
  py_error_clear(st, st->cx);
  int n = wv_parse(st->cx, name, text, found, CAP);
  if (n < 0) return py_error_raise(st);
  PyObject *list = PyList_New(0);
  for (int i = 0; i < n && i < CAP; i++) {
    PyObject *k = py_kernel_new(st, found[i]);
    if (!k || !list || PyList_Append(list, k) < 0) Py_CLEAR(list);
    Py_XDECREF(k);
  }
  return list;
}

/* target_kind(name): 'eval', 'sim', 'cpu' or 'device'; CompileError if there is none. */
static PyObject *target_kind(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  const char *name;
  if (!PyArg_ParseTuple(args, "s:target_kind", &name)) return NULL;
  const char *kind = wv_target_kind(st->cx, name);
  return kind ? PyUnicode_FromString(kind) : py_error_raise_here(st);
}

/* ---- diagnostics --------------------------------------------------------------------------- */

/* Adds (code, text, hint=None, place=None) to the context; `format` names the function. */
static bool add_diagnostic(PyState *st, PyObject *args, const char *format) {
  const char *code, *text, *hint = NULL;
  PyObject *place = Py_None;
  wv_place at;
  if (!PyArg_ParseTuple(args, format, &code, &text, &hint, &place)) return false;
  if (!wv_explain(code))
    return PyErr_Format(PyExc_ValueError, "unknown diagnostic `%s`", code), false;
  if (!py_place_from_python(st, place, &at)) return false;
  wv_diag_report(st->cx, code, at, text, hint);
  return true;
}

static PyObject *report(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  return add_diagnostic(st, args, "ss|zO:report") ? py_error_raise(st) : NULL;
}

static PyObject *remark(PyObject *module, PyObject *args) {
  if (!add_diagnostic(py_state(module), args, "ss|zO:remark")) return NULL;
  Py_RETURN_NONE;
}

static PyObject *take_diagnostics(PyObject *module, PyObject *Py_UNUSED(none)) {
  return py_error_take(py_state(module));
}

static PyObject *explain(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *code;
  if (!PyArg_ParseTuple(args, "s:explain", &code)) return NULL;
  const char *text = wv_explain(code);
  if (text) return PyUnicode_FromString(text);
  Py_RETURN_NONE;
}

/* nearest(word, words): for "did you mean". */
static PyObject *nearest(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *word;
  PyObject *words;
  if (!PyArg_ParseTuple(args, "sO:nearest", &word, &words)) return NULL;
  PyObject *items = PySequence_Tuple(words);
  if (!items) return NULL;
  Scratch s = {0};
  int n = (int)PyTuple_Size(items);
  const char **list = py_scratch_alloc(&s, (size_t)n, sizeof *list);
  for (int i = 0; list && i < n; i++)
    if (!(list[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(items, i), NULL))) list = NULL;
  const char *found = list ? wv_nearest(word, list, n) : NULL;
  PyObject *r = found ? PyUnicode_FromString(found) : list ? Py_NewRef(Py_None) : NULL;
  py_scratch_free(&s);
  Py_DECREF(items);
  return r;
}

/* use_exchange(on): whether the C function tables of types are used; tests try both. */
static PyObject *use_exchange(PyObject *module, PyObject *on) {
  int yes = PyObject_IsTrue(on);
  if (yes < 0) return NULL;
  py_state(module)->no_exchange = !yes;
  py_tensor_forget_types(py_state(module));
  Py_RETURN_NONE;
}

/* test_fault(what, n): makes the n-th of these fail, in this thread; returns how many there were
 * before. */
static PyObject *test_fault(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *what;
  long n = 0;
  if (!PyArg_ParseTuple(args, "s|l:test_fault", &what, &n)) return NULL;
  return PyLong_FromLong(wv_test_fault(what, n));
}

static PyObject *devices(PyObject *module, PyObject *Py_UNUSED(none)) {
  return py_program_devices(py_state(module));
}

static PyMethodDef functions[] = {
    {"symbol", make_symbol, METH_VARARGS, "symbol(name, nonnegative=True) -> Expr"},
    {"op", make_op, METH_VARARGS, "op(name, *operands) -> Expr, such as op('ceil', K / 2)"},
    {"resolve", resolve, METH_O,
     "resolve({symbol: value}): values that mention other symbols of it."},
    {"emit", emit, METH_VARARGS,
     "emit(op, operands, attrs=None, given=None): into the current kernel."},
    {"current", current, METH_VARARGS, "current(what): the Tracer of the kernel being traced."},
    {"here", here, METH_NOARGS, "The user's (file, line, column, length)."},
    {"set_package", set_package, METH_VARARGS,
     "set_package(directory, kernels, namer): whose frames to skip, and how values are named."},
    {"check_mapping", check_mapping, METH_VARARGS, "check_mapping(mapping, place=None)"},
    {"parse", parse, METH_VARARGS, "parse(text, name='<text>'): the kernels of a text."},
    {"target_kind", target_kind, METH_VARARGS,
     "target_kind(name): how kernels for it run: 'eval', 'sim', 'cpu' or 'device'."},
    {"devices", devices, METH_NOARGS, "What kernels can be launched on: a list of Device."},
    {"use_exchange", use_exchange, METH_O,
     "use_exchange(on): False ignores DLPack's table of C functions."},
    {"test_fault", test_fault, METH_VARARGS,
     "test_fault(what, n=0): makes the compiler fail on purpose, see wv_test_fault in wave.h."},
    {"measurements_html", py_measured_html, METH_VARARGS,
     "measurements_html(title, machine, rows): a page; rows are dictionaries, machine lines."},
    {"report", report, METH_VARARGS,
     "report(code, text, hint=None, place=None): raises CompileError."},
    {"remark", remark, METH_VARARGS,
     "remark(code, text, hint=None, place=None): kept for take_diagnostics."},
    {"take_diagnostics", take_diagnostics, METH_NOARGS,
     "Warnings and remarks since the last call."},
    {"explain", explain, METH_VARARGS,
     "explain(code): the long explanation of a diagnostic, or None."},
    {"nearest", nearest, METH_VARARGS, "nearest(word, words): the most similar word, or None."},
    {NULL, NULL, 0, NULL}};

/* ---- state --------------------------------------------------------------------------------- */

static int intern_names(PyState *st) {
  bool ok = true;
#define X(name) ok = (st->names.name = PyUnicode_InternFromString(#name)) && ok;
  PY_NAMES(X)
#undef X
  st->places = PyDict_New();
  st->torch_types = PyDict_New();
  return ok && st->places && st->torch_types ? 0 : -1;
}

/* Python ends the process while daemon threads may be loading or using libLLVM. */
static void at_exit(void) { wv_exiting(true); }

static int module_exec(PyObject *module) {
  PyState *st = py_state(module);
  wv_exiting(false); /* Python may have been finalised and initialised again */
  (void)Py_AtExit(at_exit);
  if (!(st->cx = wv_ctx_new())) return PyErr_NoMemory(), -1;
  py_dlpack_init(st);
  if (intern_names(st) < 0 || py_error_init(module, st) < 0 || py_expr_init(module, st) < 0 ||
      py_dtype_init(module, st) < 0 || py_value_init(module, st) < 0 ||
      py_tracer_init(module, st) < 0 || py_kernel_init(module, st) < 0 ||
      py_proof_init(module, st) < 0 || py_construct_init(module, st) < 0 ||
      py_report_init(module, st) < 0 || py_program_init(module, st) < 0 ||
      py_launch_init(module, st) < 0 || py_tables_init(module) < 0 || py_options_init(module) < 0)
    return -1;
  return PyModule_AddStringConstant(module, "__version__", wv_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  PyState *st = py_state(module);
  Py_VISIT(st->expr_type);
  Py_VISIT(st->dtype_type);
  Py_VISIT(st->value_type);
  Py_VISIT(st->tracer_type);
  Py_VISIT(st->kernel_type);
  Py_VISIT(st->diagnostic_type);
  Py_VISIT(st->note_type);
  Py_VISIT(st->param_type);
  Py_VISIT(st->proof_type);
  Py_VISIT(st->construct_type);
  Py_VISIT(st->proof_row_type);
  Py_VISIT(st->program_type);
  Py_VISIT(st->launchable_type);
  Py_VISIT(st->variant_type);
  Py_VISIT(st->resources_type);
  Py_VISIT(st->device_type);
  Py_VISIT(st->launch_error);
  Py_VISIT(st->assert_error);
  Py_VISIT(st->argument_error);
  Py_VISIT(st->report_type);
  Py_VISIT(st->finding_type);
  Py_VISIT(st->other_type);
  Py_VISIT(st->cost_type);
  Py_VISIT(st->simulation_error);
  Py_VISIT(st->compile_error);
  Py_VISIT(st->internal_error);
  Py_VISIT(st->dtypes);
  Py_VISIT(st->places);
  Py_VISIT(st->namer);
  Py_VISIT(st->torch_types);
  Py_VISIT(st->torch_stream);
  for (int i = 0; i < TENSOR_TYPES; i++) Py_VISIT(st->tensor_types[i].type);
  return 0;
}

static int module_clear(PyObject *module) {
  PyState *st = py_state(module);
  Py_CLEAR(st->dtypes);
  Py_CLEAR(st->places);
  Py_CLEAR(st->compile_error);
  Py_CLEAR(st->internal_error);
  Py_CLEAR(st->expr_type);
  Py_CLEAR(st->dtype_type);
  Py_CLEAR(st->value_type);
  Py_CLEAR(st->tracer_type);
  Py_CLEAR(st->kernel_type);
  Py_CLEAR(st->diagnostic_type);
  Py_CLEAR(st->note_type);
  Py_CLEAR(st->param_type);
  Py_CLEAR(st->proof_type);
  Py_CLEAR(st->construct_type);
  Py_CLEAR(st->proof_row_type);
  Py_CLEAR(st->program_type);
  Py_CLEAR(st->launchable_type);
  Py_CLEAR(st->variant_type);
  Py_CLEAR(st->resources_type);
  Py_CLEAR(st->device_type);
  Py_CLEAR(st->launch_error);
  Py_CLEAR(st->assert_error);
  Py_CLEAR(st->argument_error);
  Py_CLEAR(st->report_type);
  Py_CLEAR(st->finding_type);
  Py_CLEAR(st->other_type);
  Py_CLEAR(st->cost_type);
  Py_CLEAR(st->simulation_error);
  Py_CLEAR(st->torch_types);
  Py_CLEAR(st->torch_stream);
  py_tensor_forget_types(st);
  Py_CLEAR(st->namer);
  Py_CLEAR(st->internal);
  Py_CLEAR(st->kernels);
#define X(name) Py_CLEAR(st->names.name);
  PY_NAMES(X)
#undef X
  return 0;
}

static void module_free(void *module) {
  PyState *st = py_state(module);
  module_clear(module);
  wv_ctx_free(st->cx);
  for (int i = 0; i < st->nretired; i++) wv_ctx_free(st->retired[i]);
  PyMem_Free(st->retired);
  st->cx = NULL;
  st->retired = NULL;
  st->nretired = 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wave_lang._wave",
    .m_doc = "The compiler of wave_lang. Use the package; this module may change.",
    .m_size = sizeof(PyState),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__wave(void);
PyMODINIT_FUNC PyInit__wave(void) { return PyModuleDef_Init(&definition); }
