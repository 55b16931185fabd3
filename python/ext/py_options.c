/* py_options: what options mean: the machine that they name. */
#include "ext.h"

/* ---- machines ------------------------------------------------------------------------------ */

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
  return Py_BuildValue("(zziOzzz)", m.kind, m.target, m.device, m.anywhere ? Py_True : Py_False,
                       m.remark, m.evaluated, m.shown);
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

static PyMethodDef methods[] = {
    {"find_machine", find_machine, METH_VARARGS,
     "find_machine(target=None, device=None, strict=False, place=None): (kind, target, device, "
     "anywhere, remark, evaluated, shown); CompileError if there is none."},
    {"check_target", check_target, METH_VARARGS,
     "check_target(name, place=None): CompileError if the name means nothing."},
    {"target_device", target_device, METH_VARARGS,
     "target_device(name): 'eval', 'sim', 'cpu', 'cuda' or 'hip'; None if there is no such "
     "target."},
    {"target_family", target_family, METH_VARARGS,
     "target_family(name): 'CDNA', 'RDNA' or 'GFX1250'."},
    {NULL, NULL, 0, NULL}};

int py_options_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
