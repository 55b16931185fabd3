/* py_report: Report, what a simulation did, and SimulationError, which carries its findings. */
#include "ext.h"

typedef struct ReportObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  wv_ctx *cx; /* of this run only */
  wv_kernel *k;
  wv_report *r;
  PyObject *findings; /* a list, made once: shared with the exception */
  PyObject *remarks;  /* a list of Diagnostic */
} ReportObject;

static ReportObject *self_of(PyObject *o) { return (ReportObject *)o; }

/* ---- records ------------------------------------------------------------------------------- */

static PyStructSequence_Field finding_fields[] = {
    {"code", "such as 'E0803'; see `wavec --explain`"},
    {"message", "what is wrong, in one line"},
    {"file", "the user's file, or None"},
    {"line", "counted from 1; 0 if unknown"},
    {"col", "counted from 1; 0 if unknown"},
    {"workgroup", "its three ids"},
    {"wave", "number in the workgroup"},
    {"lane", "the lane, or None if no single lane is involved"},
    {"buffer", "the parameter or allocation, or None"},
    {"index", "coordinates of the element, a tuple, or None"},
    {"address", "byte offset in the buffer, or in shared memory; or None"},
    {"other", "the other access of a race, or None"},
    {"hint", "what to write instead, or None"},
    {"rendered", "the whole finding as text, with the source lines"},
    {"count", "how often it was found on these lines; the rest describes the first"},
    {NULL, NULL}};
static PyStructSequence_Desc finding_desc = {
    "wave_lang.Finding", "An error found by the simulator.", finding_fields, 15};

static PyStructSequence_Field other_fields[] = {{"file", "the user's file, or None"},
                                                {"line", "from 1"},
                                                {"col", "from 1"},
                                                {"wave", "or None if unknown"},
                                                {"lane", "or None if unknown"},
                                                {NULL, NULL}};
static PyStructSequence_Desc other_desc = {"wave_lang.OtherAccess", "The other access of a race.",
                                           other_fields, 5};

static PyStructSequence_Field cost_fields[] = {
    {"file", "the user's file, or None"},
    {"line", "counted from 1; 0 for the total"},
    {"instructions", "issued by waves"},
    {"lane_ops", "done by lanes"},
    {"shared", "accesses of shared memory"},
    {"conflicts", "extra cycles due to bank conflicts"},
    {"sectors", "32-byte sectors of global memory moved"},
    {"sectors_needed", "bytes of these that were requested"},
    {NULL, NULL}};
static PyStructSequence_Desc cost_desc = {
    "wave_lang.Cost", "What the ops of one source line did, over the whole grid.", cost_fields, 8};

static PyObject *number_or_none(int64_t v) {
  if (v < 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(v);
}

static PyObject *tuple_of(const int64_t *at, int n) {
  PyObject *t = PyTuple_New(n);
  for (int i = 0; t && i < n; i++) PyTuple_SetItem(t, i, PyLong_FromLongLong(at[i]));
  return t;
}

static PyObject *other_of(PyState *st, const wv_finding *f) {
  if (!f->other.line) Py_RETURN_NONE;
  PyObject *items[] = {py_text_or_none(f->other.file), PyLong_FromUnsignedLong(f->other.line),
                       PyLong_FromUnsignedLong(f->other.col), number_or_none(f->other_wave),
                       number_or_none(f->other_lane)};
  return py_record(st->other_type, items, 5);
}

static PyObject *finding_of(PyState *st, const wv_finding *f) {
  PyObject *items[] = {PyUnicode_FromString(f->diag.code),
                       PyUnicode_FromString(f->diag.text),
                       py_text_or_none(f->diag.at.file),
                       PyLong_FromUnsignedLong(f->diag.at.line),
                       PyLong_FromUnsignedLong(f->diag.at.col),
                       tuple_of(f->workgroup, 3),
                       number_or_none(f->wave),
                       number_or_none(f->lane),
                       py_text_or_none(f->buffer),
                       f->rank ? tuple_of(f->index, f->rank) : Py_NewRef(Py_None),
                       number_or_none(f->address),
                       other_of(st, f),
                       py_text_or_none(f->diag.hint),
                       PyUnicode_FromString(f->diag.rendered),
                       PyLong_FromUnsignedLongLong(f->count)};
  return py_record(st->finding_type, items, 15);
}

static PyObject *cost_of(PyState *st, const wv_cost *c) {
  PyObject *items[] = {py_text_or_none(c->at.file),
                       PyLong_FromUnsignedLong(c->at.line),
                       PyLong_FromUnsignedLongLong(c->instructions),
                       PyLong_FromUnsignedLongLong(c->lane_ops),
                       PyLong_FromUnsignedLongLong(c->shared),
                       PyLong_FromUnsignedLongLong(c->conflicts),
                       PyLong_FromUnsignedLongLong(c->sectors),
                       PyLong_FromUnsignedLongLong(c->sectors_needed)};
  return py_record(st->cost_type, items, 8);
}

static bool append(PyObject *list, PyObject *item) {
  bool ok = item && PyList_Append(list, item) == 0;
  Py_XDECREF(item);
  return ok;
}

static PyObject *make_findings(ReportObject *self) {
  PyObject *list = PyList_New(0);
  wv_finding f;
  for (int i = 0; list && wv_report_finding(self->r, i, &f); i++) {
    py_error_give_source(self->cx, f.diag.at.file);
    wv_report_finding(self->r, i, &f);
    if (!append(list, finding_of(self->st, &f))) Py_CLEAR(list);
  }
  return list;
}

/* ---- the report ---------------------------------------------------------------------------- */

PyObject *py_report_new(PyState *st, wv_ctx *cx, wv_kernel *k, wv_report *r) {
  PyObject *remarks = wv_diag_errors(cx) ? PyList_New(0) : py_error_take_from(st, cx);
  ReportObject *o = remarks ? PyObject_New(ReportObject, st->report_type) : NULL;
  if (!o) {
    Py_XDECREF(remarks);
    wv_report_free(r);
    wv_kernel_free(k);
    wv_ctx_free(cx);
    return NULL;
  }
  o->st = st;
  o->cx = cx;
  o->k = k;
  o->r = r;
  o->findings = NULL;
  o->remarks = remarks;
  return (PyObject *)o;
}

static void report_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  ReportObject *o = self_of(self);
  Py_XDECREF(o->findings);
  Py_XDECREF(o->remarks);
  wv_report_free(o->r);
  wv_kernel_free(o->k);
  wv_ctx_free(o->cx);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *get_remarks(PyObject *self, void *Py_UNUSED(unused)) {
  return Py_NewRef(self_of(self)->remarks);
}

static PyObject *get_findings(PyObject *self, void *Py_UNUSED(unused)) {
  ReportObject *o = self_of(self);
  if (!o->findings) o->findings = make_findings(o);
  return Py_XNewRef(o->findings);
}

static PyObject *get_lines(PyObject *self, void *Py_UNUSED(unused)) {
  PyObject *list = PyList_New(0);
  wv_cost c;
  for (int i = 0; list && wv_report_line(self_of(self)->r, i, &c); i++)
    if (!append(list, cost_of(self_of(self)->st, &c))) Py_CLEAR(list);
  return list;
}

static PyObject *get_total(PyObject *self, void *Py_UNUSED(unused)) {
  wv_cost c = wv_report_total(self_of(self)->r);
  return cost_of(self_of(self)->st, &c);
}

static PyObject *get_ir(PyObject *self, void *Py_UNUSED(unused)) {
  char *text = wv_print(self_of(self)->k);
  PyObject *o = text ? PyUnicode_FromString(text) : PyErr_NoMemory();
  wv_free(text);
  return o;
}

/* Lines of a notebook cell must be known before they can be shown. */
static wv_report *with_sources(PyObject *self) {
  ReportObject *o = self_of(self);
  const char *last = NULL;
  wv_cost c;
  for (int i = 0; wv_report_line(o->r, i, &c); i++) {
    if (c.at.file && c.at.file != last) py_error_give_source(o->cx, c.at.file);
    last = c.at.file;
  }
  return o->r;
}

static PyObject *report_text(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyUnicode_FromString(wv_report_text(with_sources(self)));
}

static PyObject *report_json(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyUnicode_FromString(wv_report_json(with_sources(self)));
}

static PyObject *report_html(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyUnicode_FromString(wv_report_html(with_sources(self)));
}

static PyObject *report_repr(PyObject *self) {
  ReportObject *o = self_of(self);
  wv_finding f;
  int n = 0;
  while (wv_report_finding(o->r, n, &f)) n++;
  return PyUnicode_FromFormat("<report of %s: %d findings>", wv_kernel_name(o->k), n);
}

static PyGetSetDef report_getset[] = {
    {"remarks", get_remarks, NULL, "Observations that are not errors: a list of Diagnostic.", NULL},
    {"findings", get_findings, NULL, "Errors: a list of Finding.", NULL},
    {"lines", get_lines, NULL, "The cost of each source line: a list of Cost.", NULL},
    {"total", get_total, NULL, "The total Cost of all lines.", NULL},
    {"ir", get_ir, NULL, "The program that ran, as text.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef report_methods[] = {
    {"text", report_text, METH_NOARGS, "The costs as a table, one row per source line."},
    {"json", report_json, METH_NOARGS, "The report as JSON; docs/simulator.md has the schema."},
    {"html", report_html, METH_NOARGS, "The report as a self-contained HTML page."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot report_slots[] = {
    {Py_tp_doc, "The report of a simulation: findings, costs per source line, and diagrams."},
    {Py_tp_dealloc, report_dealloc},
    {Py_tp_repr, report_repr},
    {Py_tp_methods, report_methods},
    {Py_tp_getset, report_getset},
    {0, NULL}};

static PyType_Spec report_spec = {"wave_lang.Report", sizeof(ReportObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  report_slots};

/* ---- the exception ------------------------------------------------------------------------- */

void py_report_raise(PyObject *report) {
  if (PyErr_Occurred()) return; /* interrupted */
  ReportObject *o = self_of(report);
  PyObject *findings = get_findings(report, NULL);
  PyObject *error = findings ? py_error_make(o->st, o->cx, o->st->simulation_error) : NULL;
  if (error && PyObject_SetAttrString(error, "findings", findings) == 0 &&
      PyObject_SetAttrString(error, "report", report) == 0)
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(findings);
}

static PyObject *make_error_type(PyState *st) {
  PyObject *empty = PyList_New(0);
  PyObject *body = empty ? Py_BuildValue("{sOsO}", "findings", empty, "report", Py_None) : NULL;
  PyObject *type = NULL;
  if (body)
    type = PyErr_NewExceptionWithDoc(
        "wave_lang.SimulationError",
        "A check of the simulator failed. `findings` lists the errors as records (code, "
        "message,\nfile, line, workgroup, wave, lane, buffer, index, address, other); `report` is "
        "the Report\nof the run.",
        st->compile_error, body);
  Py_XDECREF(empty);
  Py_XDECREF(body);
  return type;
}

int py_report_init(PyObject *module, PyState *st) {
  st->finding_type = PyStructSequence_NewType(&finding_desc);
  st->other_type = PyStructSequence_NewType(&other_desc);
  st->cost_type = PyStructSequence_NewType(&cost_desc);
  st->report_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &report_spec, NULL);
  st->simulation_error = make_error_type(st);
  if (!st->finding_type || !st->other_type || !st->cost_type || !st->report_type ||
      !st->simulation_error)
    return -1;
  if (PyModule_AddObjectRef(module, "SimulationError", st->simulation_error) < 0) return -1;
  if (PyModule_AddType(module, st->finding_type) < 0 ||
      PyModule_AddType(module, st->other_type) < 0 || PyModule_AddType(module, st->cost_type) < 0)
    return -1;
  return PyModule_AddType(module, st->report_type);
}
