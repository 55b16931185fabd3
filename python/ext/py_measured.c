/* py_measured: pages of measurements from lists of dictionaries, whose keys are the fields of
 * wv_measured. Texts are not copied: they belong to the objects, which the caller keeps alive. */
#include "ext.h"

/* An array with an element of `size` for each item of a list or tuple. NULL with an exception. */
static void *array_for(Scratch *s, PyObject *list, size_t size, int *n) {
  Py_ssize_t count = PySequence_Check(list) ? PySequence_Size(list) : -1;
  if (count < 0 || count > INT32_MAX) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a list");
    return NULL;
  }
  *n = (int)count;
  return py_scratch_alloc(s, (size_t)count, size);
}

/* Borrowed: lists and tuples hold their items. */
static PyObject *item_of(PyObject *list, int i) {
  if (PyList_Check(list)) return PyList_GetItem(list, i);
  if (PyTuple_Check(list)) return PyTuple_GetItem(list, i);
  PyErr_SetString(PyExc_TypeError, "expected a list or tuple");
  return NULL;
}

static bool take_rivals(Scratch *s, PyObject *list, wv_measured *row) {
  wv_rival *at = array_for(s, list, sizeof *at, &row->nrivals);
  row->rivals = at;
  for (int i = 0; at && i < row->nrivals; i++) {
    PyObject *pair = item_of(list, i);
    if (!pair || !PyTuple_Check(pair)) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "rivals are pairs (name, ms)");
      return false;
    }
    if (!PyArg_ParseTuple(pair, "sd:rival", &at[i].name, &at[i].ms)) return false;
  }
  return at != NULL;
}

/* (code, text, line) */
static bool take_remarks(Scratch *s, PyObject *list, wv_measured *row) {
  wv_diag *at = array_for(s, list, sizeof *at, &row->nremarks);
  row->remarks = at;
  for (int i = 0; at && i < row->nremarks; i++) {
    PyObject *remark = item_of(list, i);
    if (!remark || !PyTuple_Check(remark)) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "remarks are (code, text, line)");
      return false;
    }
    if (!PyArg_ParseTuple(remark, "ssI:remark", &at[i].code, &at[i].text, &at[i].at.line))
      return false;
  }
  return at != NULL;
}

static bool take_row(Scratch *s, PyObject *none, PyObject *dict, wv_measured *row) {
  static char *words[] = {"kernel", "target", "about",   "arguments",  "compile_ms", "code_ms",
                          "run_ms", "error",  "allowed", "operations", "bytes",      "rivals",
                          "source", "file",   "line",    "remarks",    "program",    NULL};
  PyObject *rivals = none, *remarks = none;
  if (!dict || !PyDict_Check(dict)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "rows are dictionaries");
    return false;
  }
  return PyArg_ParseTupleAndKeywords(none, dict, "ss|zzdddddddOzzIOz:row", words, &row->kernel,
                                     &row->target, &row->about, &row->arguments, &row->compile_ms,
                                     &row->code_ms, &row->run_ms, &row->error, &row->allowed,
                                     &row->operations, &row->bytes, &rivals, &row->source,
                                     &row->file, &row->line, &remarks, &row->program) &&
         take_rivals(s, rivals, row) && take_remarks(s, remarks, row);
}

static PyObject *page_of(const wv_measurements *m) {
  char *html = wv_measurements_html(m);
  PyObject *text = html ? PyUnicode_FromString(html) : PyErr_NoMemory();
  wv_free(html);
  return text;
}

PyObject *py_measured_html(PyObject *Py_UNUSED(module), PyObject *args) {
  Scratch s = {0};
  wv_measurements m = {0};
  PyObject *machine, *rows, *none = PyTuple_New(0), *page = NULL;
  bool ok = none && PyArg_ParseTuple(args, "sOO:measurements_html", &m.title, &machine, &rows);
  const char **lines = ok ? array_for(&s, machine, sizeof *lines, &m.nmachine) : NULL;
  wv_measured *at = lines ? array_for(&s, rows, sizeof *at, &m.n) : NULL;
  ok = at != NULL;
  for (int i = 0; ok && i < m.nmachine; i++) {
    PyObject *line = item_of(machine, i);
    ok = line && (lines[i] = PyUnicode_AsUTF8AndSize(line, NULL));
  }
  for (int i = 0; ok && i < m.n; i++) ok = take_row(&s, none, item_of(rows, i), &at[i]);
  m.machine = lines;
  m.rows = at;
  if (ok) page = page_of(&m);
  Py_XDECREF(none);
  py_scratch_free(&s);
  return page;
}
