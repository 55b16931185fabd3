/* py_options: the meaning of options: which machine they name, and what the others change. */
#include "ext.h"

/* ---- machines ------------------------------------------------------------------------------ */

static PyObject *machine_to(const wv_machine *m) {
  return Py_BuildValue("(zziOzzz)", m->kind, m->target, m->device, m->anywhere ? Py_True : Py_False,
                       m->remark, m->evaluated, m->shown);
}

/* machine_on(kind, target, device, anywhere, where): the same for a call with tensors on that kind
 * of device; None if it does not run such calls. */
static PyObject *machine_on(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  wv_machine m = {0}, found;
  const char *where;
  int anywhere = 0;
  if (!PyArg_ParseTuple(args, "szips:machine_on", &m.kind, &m.target, &m.device, &anywhere, &where))
    return NULL;
  m.anywhere = anywhere != 0;
  if (wv_machine_on(st->cx, &m, where, &found)) return machine_to(&found);
  if (wv_diag_errors(st->cx)) return py_error_raise(st);
  Py_RETURN_NONE;
}

static PyObject *target_device(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  return PyArg_ParseTuple(args, "s:target_device", &name) ? py_text_or_none(wv_target_device(name))
                                                          : NULL;
}

static PyObject *target_family(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  return PyArg_ParseTuple(args, "s:target_family", &name) ? py_text_or_none(wv_target_family(name))
                                                          : NULL;
}

static PyObject *target_default(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  const char *gpu = NULL;
  if (!PyArg_ParseTuple(args, "|z:target_default", &gpu)) return NULL;
  const char *name = wv_target_default(st->cx, gpu);
  return name ? PyUnicode_DecodeFSDefault(name) : py_error_raise(st);
}

/* ---- environment variables ----------------------------------------------------------------- */

static PyObject *variable_text(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s:variable_text", &name)) return NULL;
  const char *text = wv_variable_text(name);
  return text ? PyUnicode_DecodeFSDefault(text) : py_text_or_none(NULL);
}

static PyObject *variable_number(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  long long otherwise;
  if (!PyArg_ParseTuple(args, "sL:variable_number", &name, &otherwise)) return NULL;
  return PyLong_FromLongLong(wv_variable_number(name, otherwise));
}

static PyObject *check_variables(PyObject *module, PyObject *Py_UNUSED(none)) {
  PyState *st = py_state(module);
  wv_variables_check(st->cx);
  return py_error_take_from(st, st->cx);
}

static PyObject *cache_dir(PyObject *module, PyObject *Py_UNUSED(none)) {
  const char *dir = wv_cache_dir(py_state(module)->cx);
  return dir ? PyUnicode_DecodeFSDefault(dir) : py_text_or_none(NULL);
}

/* ---- options by name ----------------------------------------------------------------------- */

void py_options_close(Options *o) { py_scratch_free(&o->scratch); }

bool py_options_open(PyState *st, PyObject *given, PyObject *place, Options *out) {
  Py_ssize_t n = PyList_Check(given) ? PyList_Size(given) : -1;
  *out = (Options){0};
  wv_option *at = n < 0 ? NULL : py_scratch_alloc(&out->scratch, (size_t)n + 1, sizeof *at);
  bool tuples = n >= 0;
  for (Py_ssize_t i = 0; i < n; i++) tuples = tuples && PyTuple_Check(PyList_GetItem(given, i));
  if (!tuples) PyErr_SetString(PyExc_TypeError, "options must be a list of tuples");
  if (!tuples || !at || !py_place_from_python(st, place, &out->list.place)) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!PyArg_ParseTuple(PyList_GetItem(given, i), "szs", &at[i].name, &at[i].value, &at[i].shown))
      return false;
  out->list.at = at;
  out->list.n = (int)n;
  return true;
}

/* check_options(options, place) */
static PyObject *check_options(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *given, *place;
  Options o = {0};
  const char *mistake = NULL;
  if (!PyArg_ParseTuple(args, "OO:check_options", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  if (ok && !wv_options_check(st->cx, &o.list, &mistake)) {
    ok = false;
    if (mistake) PyErr_SetString(PyExc_ValueError, mistake);
    else py_error_raise(st);
  }
  py_options_close(&o);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* report_unused(options, place, kind, target, has_schedule) */
static PyObject *report_unused(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *given, *place;
  Options o = {0};
  wv_machine m = {0};
  int has_schedule = 0;
  if (!PyArg_ParseTuple(args, "OOszp:report_unused", &given, &place, &m.kind, &m.target,
                        &has_schedule))
    return NULL;
  bool ok = py_options_open(st, given, place, &o);
  o.list.has_schedule = has_schedule != 0;
  if (ok && !wv_options_unused(st->cx, &o.list, &m)) ok = false, py_error_raise(st);
  py_options_close(&o);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* find_machine(options, place): a tuple, the fields of wv_machine. */
static PyObject *find_machine(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *given, *place;
  Options o = {0};
  wv_machine m;
  if (!PyArg_ParseTuple(args, "OO:find_machine", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  if (ok && !wv_options_machine(st->cx, &o.list, &m)) ok = false, py_error_raise(st);
  py_options_close(&o);
  return ok ? machine_to(&m) : NULL;
}

static PyObject *text_only(PyObject *module, PyObject *args) {
  PyObject *given, *place;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OO:text_only", &given, &place)) return NULL;
  bool ok = py_options_open(py_state(module), given, place, &o);
  const char *name = ok ? wv_options_text_only(&o.list) : NULL;
  py_options_close(&o);
  return ok ? py_text_or_none(name) : NULL;
}

static PyObject *dumps(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  PyObject *given, *place;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OO:dumps", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  bool wanted = ok && wv_options_dump(st->cx, &o.list);
  py_options_close(&o);
  return ok ? PyBool_FromLong(wanted) : NULL;
}

/* A method of kernels: call(kernel, options) with (options, place). */
static PyObject *with_options(PyState *st, wv_kernel *k, PyObject *args,
                              bool (*call)(wv_kernel *k, const wv_options *o)) {
  PyObject *given, *place;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OO", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  if (ok && !call(k, &o.list)) ok = false, py_error_raise(st);
  py_options_close(&o);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

PyObject *py_options_apply(PyState *st, wv_kernel *k, PyObject *args) {
  return with_options(st, k, args, wv_options_apply);
}

PyObject *py_options_undumped(PyState *st, wv_kernel *k, PyObject *args) {
  return with_options(st, k, args, wv_options_undumped);
}

/* ---- kernels with options ------------------------------------------------------------------- */

/* override(options, place) */
PyObject *py_options_override(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *given, *place;
  Options o = {0};
  wv_kernel *made = NULL;
  const char *mistake = NULL;
  if (!PyArg_ParseTuple(args, "OO:override", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  if (ok && !wv_options_override(k, &o.list, &made, &mistake)) {
    ok = false;
    if (mistake) PyErr_SetString(PyExc_ValueError, mistake);
    else py_error_raise(st);
  }
  py_options_close(&o);
  if (!ok) return NULL;
  return made ? py_kernel_new(st, made) : py_text_or_none(NULL);
}

/* Receives what options print: calls a function of Python, until one fails. */
static void print_text(void *print, const char *text) {
  if (!PyErr_Occurred()) Py_XDECREF(PyObject_CallFunction(print, "s", text));
}

/* What a call that may have called back gives. */
static PyObject *called_back(PyState *st, bool ok) {
  if (PyErr_Occurred()) return py_error_clear(st, st->cx), NULL;
  if (!ok) return py_error_raise(st);
  Py_RETURN_NONE;
}

/* show(options, place, print) */
PyObject *py_options_show(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *given, *place, *print;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OOO:show", &given, &place, &print)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  wv_output out = {print_text, print};
  ok = ok && wv_options_show(k, &o.list, &out);
  py_options_close(&o);
  return called_back(st, ok);
}

/* lower_as(options, place, target, print) */
PyObject *py_options_lower(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *given, *place, *print;
  Options o = {0};
  wv_machine m = {0};
  if (!PyArg_ParseTuple(args, "OOzO:lower_as", &given, &place, &m.target, &print)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  wv_output out = {print_text, print};
  ok = ok && wv_options_lower(k, &o.list, &m, &out);
  py_options_close(&o);
  return called_back(st, ok);
}

/* key(options, place) */
PyObject *py_options_key(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *given, *place;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OO:key", &given, &place)) return NULL;
  bool ok = py_options_open(st, given, place, &o);
  char *text = ok ? wv_options_key(k, &o.list) : NULL;
  py_options_close(&o);
  PyObject *key = text ? PyUnicode_FromString(text) : ok ? py_error_raise(st) : NULL;
  wv_free(text);
  return key;
}

static PyMethodDef methods[] = {
    {"check_options", check_options, METH_VARARGS,
     "check_options(options, place): ValueError if options exclude each other, CompileError for a "
     "file that does not exist."},
    {"report_unused", report_unused, METH_VARARGS,
     "report_unused(options, place, kind, target, has_schedule): a remark for each option without "
     "effect; CompileError if they are strict."},
    {"find_machine", find_machine, METH_VARARGS,
     "find_machine(options, place): (kind, target, device, anywhere, remark, evaluated, shown); "
     "CompileError if there is none."},
    {"machine_on", machine_on, METH_VARARGS,
     "machine_on(kind, target, device, anywhere, where): the machine of a call with tensors on "
     "that "
     "kind of device, or None."},
    {"text_only", text_only, METH_VARARGS,
     "text_only(options, place): the option that compiles kernels to text only, or None."},
    {"dumps", dumps, METH_VARARGS,
     "dumps(options, place): whether compiling prints or writes something."},
    {"target_default", target_default, METH_VARARGS,
     "target_default(gpu=None): the target of this machine; `gpu` is one that the caller knows "
     "of."},
    {"variable_text", variable_text, METH_VARARGS,
     "variable_text(name): the value of an environment variable, or None."},
    {"variable_number", variable_number, METH_VARARGS,
     "variable_number(name, otherwise): the number that an environment variable holds."},
    {"check_variables", check_variables, METH_NOARGS,
     "check_variables(): a Diagnostic for each environment variable that is ignored."},
    {"cache_dir", cache_dir, METH_NOARGS,
     "cache_dir(): the folder of compiled kernels, or None if there is none."},
    {"target_device", target_device, METH_VARARGS,
     "target_device(name): 'eval', 'sim', 'cpu', 'cuda' or 'hip'; None if there is no such "
     "target."},
    {"target_family", target_family, METH_VARARGS,
     "target_family(name): 'CDNA', 'RDNA' or 'GFX1250'."},
    {NULL, NULL, 0, NULL}};

int py_options_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
