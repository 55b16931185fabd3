/* py_error: CompileError and the Diagnostic records it carries. */
#include <stdio.h>

#include "ext.h"

static PyStructSequence_Field diagnostic_fields[] = {
    {"severity", "'error', 'warning' or 'remark'"},
    {"code", "such as 'E0203'; see `wavec --explain`"},
    {"message", "what is wrong, in one line"},
    {"file", "the user's file, or None"},
    {"line", "counted from 1; 0 if unknown"},
    {"col", "counted from 1; 0 if unknown"},
    {"hint", "what to write instead, or None"},
    {"notes", "a list of Note: other places involved"},
    {"rendered", "the whole diagnostic as text, with the source line and a caret"},
    {NULL, NULL}};

static PyStructSequence_Desc diagnostic_desc = {
    "wave_lang.Diagnostic", "A diagnostic of the compiler about a kernel.", diagnostic_fields, 9};

static PyStructSequence_Field note_fields[] = {{"file", "the user's file, or None"},
                                               {"line", "counted from 1; 0 if unknown"},
                                               {"col", "counted from 1; 0 if unknown"},
                                               {"message", "how this place is involved"},
                                               {NULL, NULL}};

static PyStructSequence_Desc note_desc = {
    "wave_lang.Note", "Another place that a diagnostic refers to.", note_fields, 4};

/* None for NULL. Names of files and the environment may hold bytes that are not UTF-8. */
PyObject *py_text_or_none(const char *s) {
  if (!s) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "backslashreplace");
}

PyObject *py_record(PyTypeObject *type, PyObject **items, int n) {
  PyObject *o = PyStructSequence_New(type);
  bool ok = o != NULL;
  for (int i = 0; i < n; i++) {
    if (!items[i]) ok = false;
    if (o) PyStructSequence_SetItem(o, i, items[i]);
    else Py_XDECREF(items[i]);
  }
  if (ok) return o;
  Py_XDECREF(o);
  return NULL;
}

static PyObject *note_record(PyState *st, const wv_note *note) {
  PyObject *items[] = {py_text_or_none(note->at.file), PyLong_FromUnsignedLong(note->at.line),
                       PyLong_FromUnsignedLong(note->at.col), py_text_or_none(note->text)};
  return py_record(st->note_type, items, 4);
}

static PyObject *notes_of(PyState *st, wv_ctx *cx, int i) {
  int n = wv_diag_notes(cx, i, NULL, 0);
  PyObject *list = PyList_New(n);
  wv_note *notes = PyMem_Calloc((size_t)n + 1, sizeof *notes);
  if (list && notes) wv_diag_notes(cx, i, notes, n);
  for (int j = 0; list && notes && j < n; j++) {
    PyObject *o = note_record(st, &notes[j]);
    if (!o) Py_CLEAR(list);
    else PyList_SetItem(list, j, o);
  }
  PyMem_Free(notes);
  return list;
}

static PyObject *diagnostic(PyState *st, wv_ctx *cx, int i, const wv_diag *d) {
  PyObject *items[] = {py_text_or_none(d->severity),
                       py_text_or_none(d->code),
                       py_text_or_none(d->text),
                       py_text_or_none(d->at.file),
                       PyLong_FromUnsignedLong(d->at.line),
                       PyLong_FromUnsignedLong(d->at.col),
                       py_text_or_none(d->hint),
                       notes_of(st, cx, i),
                       py_text_or_none(d->rendered)};
  return py_record(st->diagnostic_type, items, 9);
}

/* The lines of a source that is not on disk (a notebook cell, exec) are in Python's line cache. */
void py_error_give_source(wv_ctx *cx, const char *file) {
  FILE *on_disk = file ? fopen(file, "r") : NULL;
  if (on_disk) fclose(on_disk);
  if (!file || on_disk) return;
  PyObject *linecache = PyImport_ImportModule("linecache"), *empty = PyUnicode_FromString("");
  PyObject *lines = linecache ? PyObject_CallMethod(linecache, "getlines", "s", file) : NULL;
  PyObject *text = lines && empty ? PyUnicode_Join(empty, lines) : NULL;
  const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  if (utf8 && *utf8) wv_source(cx, file, utf8);
  Py_XDECREF(text);
  Py_XDECREF(lines);
  Py_XDECREF(empty);
  Py_XDECREF(linecache);
  PyErr_Clear(); /* the message is right even without the line */
}

static PyObject *take(PyState *st, wv_ctx *cx) {
  int n = wv_diag_count(cx);
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    wv_diag d = {0};
    if (wv_diag_get(cx, i, &d)) py_error_give_source(cx, d.at.file);
    wv_diag_get(cx, i, &d);
    PyObject *o = diagnostic(st, cx, i, &d);
    if (!o) Py_CLEAR(list);
    else PyList_SetItem(list, i, o);
  }
  wv_diag_clear(cx);
  return list;
}

PyObject *py_error_take(PyState *st) { return take(st, st->cx); }
PyObject *py_error_take_from(PyState *st, wv_ctx *cx) { return take(st, cx); }

static bool is_remark(PyObject *diagnostic) {
  PyObject *severity = PyStructSequence_GetItem(diagnostic, 0);
  return PyUnicode_Check(severity) && PyUnicode_CompareWithASCIIString(severity, "remark") == 0;
}

/* Errors come before warnings and remarks. */
static PyObject *errors_first(PyObject *list) {
  Py_ssize_t n = PyList_Size(list), at = 0;
  PyObject *sorted = PyList_New(n);
  for (int remarks = 0; sorted && remarks < 2; remarks++)
    for (Py_ssize_t i = 0; i < n; i++)
      if (is_remark(PyList_GetItem(list, i)) == (remarks != 0))
        PyList_SetItem(sorted, at++, Py_NewRef(PyList_GetItem(list, i)));
  return sorted;
}

/* The rendered texts of errors and warnings, one after another. */
static PyObject *joined(PyObject *list) {
  PyObject *all = PyUnicode_FromString("");
  for (Py_ssize_t i = 0; all && i < PyList_Size(list); i++) {
    if (is_remark(PyList_GetItem(list, i))) continue;
    PyObject *text = PyStructSequence_GetItem(PyList_GetItem(list, i), 8);
    PyObject *more = PyUnicode_Concat(all, text);
    Py_DECREF(all);
    all = more;
  }
  return all;
}

/* ---- internal errors ----------------------------------------------------------------------- */

static bool has_code(wv_ctx *cx, const char *code) {
  wv_diag d;
  for (int i = 0; wv_diag_get(cx, i, &d); i++)
    if (strcmp(d.code, code) == 0) return true;
  return false;
}

static bool is_internal(wv_ctx *cx) {
  return has_code(cx, "E0002") || has_code(cx, "I0002") || has_code(cx, "I0003");
}

/* Objects of the old context stay valid; expressions and kernels are moved when next used. */
static void replace_context(PyState *st) {
  wv_ctx **all = PyMem_Realloc(st->retired, sizeof *all * (size_t)(st->nretired + 1));
  wv_ctx *fresh = all ? wv_ctx_new() : NULL;
  if (all) st->retired = all;
  if (!fresh) return; /* the next call tries again */
  st->retired[st->nretired++] = st->cx;
  st->cx = fresh;
}

void py_error_clear(PyState *st, wv_ctx *cx) {
  wv_diag_clear(cx);
  if (cx == st->cx && !wv_ctx_usable(cx)) replace_context(st);
}

PyObject *py_error_make(PyState *st, wv_ctx *cx, PyObject *type) {
  bool internal = is_internal(cx);
  PyObject *saved = internal ? py_text_or_none(wv_ctx_saved(cx)) : NULL;
  if (internal) type = st->internal_error;
  else if (has_code(cx, "E0714")) type = st->assert_error;
  PyObject *found = take(st, cx), *list = found ? errors_first(found) : NULL;
  PyObject *text = list ? joined(list) : NULL;
  Py_XDECREF(found);
  PyObject *error = text ? PyObject_CallFunction(type, "O", text) : NULL;
  if (error && PyObject_SetAttrString(error, "diagnostics", list) < 0) Py_CLEAR(error);
  if (error && saved && PyObject_SetAttrString(error, "reproducer", saved) < 0) Py_CLEAR(error);
  py_error_clear(st, cx);
  Py_XDECREF(saved);
  Py_XDECREF(text);
  Py_XDECREF(list);
  return error;
}

PyObject *py_error_raise_as(PyState *st, wv_ctx *cx, PyObject *type) {
  if (!cx && !PyErr_Occurred()) return PyErr_NoMemory(); /* a context could not be created */
  if (PyErr_Occurred()) return py_error_clear(st, cx), NULL;
  if (wv_diag_errors(cx) == 0) {
    PyErr_SetString(PyExc_RuntimeError, "wave: an operation failed without a diagnostic");
    return NULL;
  }
  PyObject *error = py_error_make(st, cx, type);
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  return NULL;
}

PyObject *py_error_raise_in(PyState *st, wv_ctx *cx) {
  return py_error_raise_as(st, cx, st->compile_error);
}

PyObject *py_error_raise(PyState *st) { return py_error_raise_in(st, st->cx); }

/* Of an expression there is one error, the last diagnostic. Remarks of calls before may be left. */
PyObject *py_error_raise_here(PyState *st) {
  wv_diag d = {0};
  wv_place at;
  bool last = wv_diag_get(st->cx, wv_diag_count(st->cx) - 1, &d);
  bool lacks = last && wv_diag_errors(st->cx) == 1 && d.at.line == 0;
  if (!lacks || PyErr_Occurred()) return py_error_raise(st);
  if (!py_place_here(st, &at)) return NULL;
  PyObject *copy = Py_BuildValue("(ssz)", d.code, d.text, d.hint);
  wv_diag_clear(st->cx);
  const char *code, *text, *hint;
  if (copy && PyArg_ParseTuple(copy, "ssz", &code, &text, &hint))
    py_error_report(st, code, at, text, hint);
  Py_XDECREF(copy);
  return NULL;
}

PyObject *py_error_report(PyState *st, const char *code, wv_place at, const char *text,
                          const char *hint) {
  wv_diag_report(st->cx, code, at, text, hint);
  return py_error_raise(st);
}

/* diagnostic, note and exception types; the exception has `diagnostics` even if raised manually. */
int py_error_init(PyObject *module, PyState *st) {
  st->diagnostic_type = PyStructSequence_NewType(&diagnostic_desc);
  st->note_type = PyStructSequence_NewType(&note_desc);
  PyObject *empty = PyList_New(0),
           *body =
               empty ? Py_BuildValue("{sOsO}", "diagnostics", empty, "evaluated", Py_None) : NULL;
  if (body)
    st->compile_error =
        PyErr_NewExceptionWithDoc("wave_lang.CompileError",
                                  "A kernel is invalid, or cannot be compiled as requested. The "
                                  "text shows the user's line;\n`diagnostics` lists the same as "
                                  "records (severity, code, message, file, line, hint, notes).\n"
                                  "`evaluated`: why the evaluator can run the kernel instead, or "
                                  "None.",
                                  NULL, body);
  Py_XDECREF(empty);
  if (body && PyDict_SetItemString(body, "reproducer", Py_None) == 0)
    st->internal_error = PyErr_NewExceptionWithDoc(
        "wave_lang.InternalError",
        "A bug in the compiler, or it ran out of memory. `reproducer` is the file in which the "
        "kernel\nwas saved, or None: `wavec again FILE` repeats the call. `diagnostics` is as in "
        "CompileError.\nKernels compiled earlier still run, and others can be compiled.",
        PyExc_RuntimeError, body);
  Py_XDECREF(body);
  if (!st->internal_error) return -1;
  if (!st->diagnostic_type || !st->note_type || !st->compile_error) return -1;
  if (PyModule_AddObjectRef(module, "CompileError", st->compile_error) < 0) return -1;
  if (PyModule_AddObjectRef(module, "InternalError", st->internal_error) < 0) return -1;
  if (PyModule_AddType(module, st->diagnostic_type) < 0) return -1;
  return PyModule_AddType(module, st->note_type);
}
