/* py_options: the meaning of options: which machine they name, and what the others change. */
#include "ext.h"

/* ---- machines ------------------------------------------------------------------------------ */

static PyObject *machine_to(const wv_machine *m) {
  return Py_BuildValue("(zziOzzz)", m->kind, m->target, m->device, m->anywhere ? Py_True : Py_False,
                       m->remark, m->evaluated, m->shown);
}

/* find_machine(target=None, device=None, strict=False, place=None): a tuple, the fields of
 * wv_machine. */
static PyObject *find_machine(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  wv_machine_options o = {0};
  wv_machine m;
  int strict = 0;
  PyObject *place = Py_None;
  if (!PyArg_ParseTuple(args, "|zzpO:find_machine", &o.target, &o.device, &strict, &place))
    return NULL;
  o.strict = strict != 0;
  if (!py_place_from_python(st, place, &o.at)) return NULL;
  if (!wv_machine_find(st->cx, &o, &m)) return py_error_raise(st);
  return machine_to(&m);
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

/* check_target(name, place=None) */
static PyObject *check_target(PyObject *module, PyObject *args) {
  PyState *st = py_state(module);
  wv_machine_options o = {0};
  PyObject *place = Py_None;
  if (!PyArg_ParseTuple(args, "s|O:check_target", &o.target, &place)) return NULL;
  if (!py_place_from_python(st, place, &o.at)) return NULL;
  if (!wv_machine_find(st->cx, &o, NULL)) return py_error_raise(st);
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

/* Options of Python; freed with close_options. */
typedef struct Options {
  wv_options list;
  Scratch scratch;
} Options;

static void close_options(Options *o) { py_scratch_free(&o->scratch); }

/* From [(name, value or None, shown)], a place, and whether there is a schedule. */
static bool open_options(PyState *st, PyObject *given, PyObject *place, Options *out) {
  Py_ssize_t n = PyList_Check(given) ? PyList_Size(given) : -1;
  *out = (Options){0};
  wv_option *at = n < 0 ? NULL : py_scratch_alloc(&out->scratch, (size_t)n + 1, sizeof *at);
  if (n < 0) PyErr_SetString(PyExc_TypeError, "options must be a list of tuples");
  if (!at || !py_place_from_python(st, place, &out->list.place)) return false;
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
  bool ok = open_options(st, given, place, &o);
  if (ok && !wv_options_check(st->cx, &o.list, &mistake)) {
    ok = false;
    if (mistake) PyErr_SetString(PyExc_ValueError, mistake);
    else py_error_raise(st);
  }
  close_options(&o);
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
  bool ok = open_options(st, given, place, &o);
  o.list.has_schedule = has_schedule != 0;
  if (ok && !wv_options_unused(st->cx, &o.list, &m)) ok = false, py_error_raise(st);
  close_options(&o);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* A method of kernels: call(kernel, options) with (options, place). */
static PyObject *with_options(PyState *st, wv_kernel *k, PyObject *args,
                              bool (*call)(wv_kernel *k, const wv_options *o)) {
  PyObject *given, *place;
  Options o = {0};
  if (!PyArg_ParseTuple(args, "OO", &given, &place)) return NULL;
  bool ok = open_options(st, given, place, &o);
  if (ok && !call(k, &o.list)) ok = false, py_error_raise(st);
  close_options(&o);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

PyObject *py_options_apply(PyState *st, wv_kernel *k, PyObject *args) {
  return with_options(st, k, args, wv_options_apply);
}

PyObject *py_options_undumped(PyState *st, wv_kernel *k, PyObject *args) {
  return with_options(st, k, args, wv_options_undumped);
}

static PyMethodDef methods[] = {
    {"check_options", check_options, METH_VARARGS,
     "check_options(options, place): ValueError if options exclude each other, CompileError for a "
     "file that does not exist."},
    {"report_unused", report_unused, METH_VARARGS,
     "report_unused(options, place, kind, target, has_schedule): a remark for each option without "
     "effect; CompileError if they are strict."},
    {"find_machine", find_machine, METH_VARARGS,
     "find_machine(target=None, device=None, strict=False, place=None): (kind, target, device, "
     "anywhere, remark, evaluated, shown); CompileError if there is none."},
    {"machine_on", machine_on, METH_VARARGS,
     "machine_on(kind, target, device, anywhere, where): the machine of a call with tensors on "
     "that "
     "kind of device, or None."},
    {"check_target", check_target, METH_VARARGS,
     "check_target(name, place=None): CompileError if there is no such target."},
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
