/* py_place: file, line, column and length of the user's expression behind the current call, and the
 * variable it is assigned to.
 *
 * The user's frame is the nearest one whose code lies outside the package (the kernel library below
 * it counts as user code). Columns come from code.co_positions() and names from a function of the
 * package; both are slow, so they are kept per code object. */
#include "ext.h"

enum { PLACES_KEPT = 4096 };

/* Whether `name` begins with the path `dir` followed by a separator. */
static bool lies_under(PyObject *name, PyObject *dir) {
  if (!dir || !PyUnicode_Check(name)) return false;
  Py_ssize_t n = PyUnicode_GetLength(dir);
  if (PyUnicode_GetLength(name) <= n) return false;
  if (PyUnicode_Tailmatch(name, dir, 0, n, -1) != 1) return false;
  Py_UCS4 next = PyUnicode_ReadChar(name, n);
  return next == '/' || next == '\\';
}

/* Whether a frame runs in a module of the package: the constructors that dataclasses generate have
 * no file. */
static bool runs_inside(PyObject *frame) {
  PyObject *globals = frame ? PyObject_GetAttrString(frame, "f_globals") : NULL;
  PyObject *name =
      globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : NULL;
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : "";
  bool inside = text && strncmp(text, "wave_lang.", 10) == 0;
  Py_XDECREF(globals);
  PyErr_Clear();
  return inside;
}

static PyObject *positions_of(PyObject *code, PyObject *frame, PyState *st) {
  PyObject *name = PyObject_GetAttr(code, st->names.co_filename);
  if (!name) return NULL;
  bool ours = lies_under(name, st->internal) && !lies_under(name, st->kernels);
  if (!ours && PyUnicode_CompareWithASCIIString(name, "<string>") == 0) ours = runs_inside(frame);
  Py_DECREF(name);
  if (ours) Py_RETURN_NONE;
  PyObject *it = PyObject_CallMethodObjArgs(code, st->names.co_positions, NULL);
  PyObject *list = it ? PySequence_List(it) : NULL;
  Py_XDECREF(it);
  return list;
}

/* {instruction: name of the variable its result goes to}; None for code of ours. */
static PyObject *targets_of(PyObject *code, PyObject *positions, PyState *st) {
  if (positions == Py_None || !st->namer) Py_RETURN_NONE;
  return PyObject_CallFunctionObjArgs(st->namer, code, NULL);
}

static PyObject *make_entry(PyObject *code, PyObject *frame, PyState *st) {
  PyObject *positions = positions_of(code, frame, st);
  PyObject *targets = positions ? targets_of(code, positions, st) : NULL;
  PyObject *made = targets ? PyTuple_Pack(3, code, positions, targets) : NULL;
  Py_XDECREF(positions);
  Py_XDECREF(targets);
  return made;
}

/* (code, positions, targets) of a code object (borrowed); positions None: one of ours. */
static PyObject *known_code(PyObject *code, PyObject *frame, PyState *st) {
  PyObject *key = PyLong_FromVoidPtr(code);
  if (!key) return NULL;
  PyObject *entry = PyDict_GetItemWithError(st->places, key);
  if (!entry && !PyErr_Occurred()) {
    if (PyDict_Size(st->places) >= PLACES_KEPT) PyDict_Clear(st->places);
    PyObject *made = make_entry(code, frame, st);
    if (made && PyDict_SetItem(st->places, key, made) == 0) entry = made;
    Py_XDECREF(made); /* the dict holds it */
  }
  Py_DECREF(key);
  return entry;
}

/* Entry i of a (line, end line, column, end column) tuple; 0 when unknown. */
static long position_field(PyObject *position, Py_ssize_t i) {
  PyObject *o = PyTuple_GetItem(position, i);
  if (!o || o == Py_None) return 0;
  return PyLong_AsLong(o);
}

static void fill_place(PyObject *position, wv_place *out) {
  long line = position_field(position, 0), end_line = position_field(position, 1);
  long col = position_field(position, 2), end_col = position_field(position, 3);
  out->line = (uint32_t)line;
  if (PyTuple_GetItem(position, 2) == Py_None) return;
  out->col = (uint32_t)col + 1;
  out->len = line == end_line && end_col > col ? (uint32_t)(end_col - col) : 1;
}

static bool fill_file(PyState *st, PyObject *code, wv_place *out) {
  PyObject *name = PyObject_GetAttr(code, st->names.co_filename);
  if (!name) return false;
  out->file = PyUnicode_AsUTF8AndSize(name, NULL);
  Py_DECREF(name); /* the code object holds it */
  return out->file != NULL;
}

/* The place of a frame of the user's, whose code has this entry, and its target (borrowed). */
static bool place_of_frame(PyState *st, PyObject *frame, PyObject *entry, wv_place *out,
                           PyObject **target) {
  PyObject *positions = PyTuple_GetItem(entry, 1), *targets = PyTuple_GetItem(entry, 2);
  PyObject *lasti = PyObject_GetAttr(frame, st->names.f_lasti);
  if (!lasti) return false;
  long at = PyLong_AsLong(lasti) / 2;
  if (at >= 0 && at < PyList_Size(positions)) fill_place(PyList_GetItem(positions, at), out);
  if (out->line == 0) out->line = (uint32_t)PyFrame_GetLineNumber((PyFrameObject *)frame);
  if (target && PyDict_Check(targets)) *target = PyDict_GetItemWithError(targets, lasti);
  Py_DECREF(lasti);
  return fill_file(st, PyTuple_GetItem(entry, 0), out);
}

bool py_place_and_target(PyState *st, wv_place *out, PyObject **target) {
  *out = (wv_place){0};
  if (target) *target = NULL;
  PyObject *frame = (PyObject *)PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && frame != Py_None) {
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    PyObject *entry = known_code(code, frame, st);
    bool found = entry && PyTuple_GetItem(entry, 1) != Py_None;
    bool ok = entry && (!found || place_of_frame(st, frame, entry, out, target));
    Py_DECREF(code); /* the frame, or the cache of positions, holds it */
    PyObject *back = ok && !found ? PyObject_GetAttr(frame, st->names.f_back) : NULL;
    Py_DECREF(frame);
    if (!ok) return false;
    frame = back;
  }
  Py_XDECREF(frame);
  return !PyErr_Occurred();
}

bool py_place_here(PyState *st, wv_place *out) { return py_place_and_target(st, out, NULL); }

bool py_place_of_return(PyState *st, PyObject *code, wv_place *out) {
  *out = (wv_place){0};
  PyObject *entry = known_code(code, NULL, st);
  if (!entry) return false;
  PyObject *positions = PyTuple_GetItem(entry, 1);
  if (positions != Py_None && PyList_Size(positions) > 0)
    fill_place(PyList_GetItem(positions, PyList_Size(positions) - 1), out);
  return fill_file(st, code, out);
}

PyObject *py_place_to_python(const wv_place *at) {
  return Py_BuildValue("(zIII)", at->file, at->line, at->col, at->len);
}

bool py_place_from_python(PyState *st, PyObject *o, wv_place *out) {
  if (!o || o == Py_None) return py_place_here(st, out);
  unsigned line, col, len;
  const char *file;
  if (!PyArg_ParseTuple(o, "zIII;a place is (file, line, column, length)", &file, &line, &col,
                        &len))
    return false;
  *out = (wv_place){.file = file, .line = line, .col = col, .len = len};
  return true;
}
