/* py_proof: Proof, which bounds of each access are proved, as text and as rows. */
#include "ext.h"

static PyStructSequence_Field row_fields[] = {
    {"access", "its number: the rows of one access are consecutive"},
    {"op", "'read', 'write', ..."},
    {"memory", "the name of the argument"},
    {"line", "in the user's source; 0 if unknown"},
    {"dim", "the dimension, an expression"},
    {"of_memory", "whether it is a coordinate of the memory; else one of the tile"},
    {"condition", "what must hold; $e0, $e1, ... are positions inside the tile"},
    {"verdict", "'proved', 'tested' at run time, 'implied' by tests, or 'promised' by bounds={}"},
    {"test", "what is tested, or None"},
    {"offset_bits", "32 or 64: the width of its byte offsets"},
    {"run", "elements that one instruction may move"},
    {"run_dim", "the dimension along which they are contiguous, or None"},
    {NULL, NULL}};

static PyStructSequence_Desc row_desc = {"wave_lang.ProofRow", "One bound of one access.",
                                         row_fields, 12};

static PyStructSequence_Field proof_fields[] = {
    {"text", "the whole proof as text"}, {"rows", "a ProofRow for each bound"}, {NULL, NULL}};

static PyStructSequence_Desc proof_desc = {
    "wave_lang.Proof", "Which bounds of a kernel's accesses are proved.", proof_fields, 2};

static PyObject *expr_or_none(PyState *st, wv_expr e) {
  return e ? py_expr_new(st, e) : Py_NewRef(Py_None);
}

static PyObject *row_to(PyState *st, const wv_proof_row *r) {
  PyObject *items[] = {PyLong_FromLong(r->access),      PyUnicode_FromString(r->op),
                       PyUnicode_FromString(r->memory), PyLong_FromLong((long)r->at.line),
                       py_expr_new(st, r->dim),         PyBool_FromLong(r->of_memory),
                       expr_or_none(st, r->condition),  PyUnicode_FromString(r->verdict),
                       expr_or_none(st, r->test),       PyLong_FromLong(r->offset_bits),
                       PyLong_FromLong(r->run),         expr_or_none(st, r->run_dim)};
  return py_record(st->proof_row_type, items, 12);
}

static PyObject *rows_to(PyState *st, const wv_proof *proof) {
  PyObject *list = PyList_New(0);
  wv_proof_row row;
  for (int i = 0; list && wv_proof_get(proof, i, &row); i++) {
    PyObject *item = row_to(st, &row);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject *py_proof_of(PyState *st, wv_kernel *k) {
  wv_proof *proof = wv_prove(k);
  if (!proof) return py_error_raise(st);
  PyObject *items[] = {PyUnicode_FromString(wv_proof_text(proof)), rows_to(st, proof)};
  wv_proof_free(proof);
  return py_record(st->proof_type, items, 2);
}

int py_proof_init(PyObject *module, PyState *st) {
  st->proof_type = PyStructSequence_NewType(&proof_desc);
  st->proof_row_type = PyStructSequence_NewType(&row_desc);
  if (!st->proof_type || !st->proof_row_type) return -1;
  if (PyModule_AddType(module, st->proof_row_type) < 0) return -1;
  return PyModule_AddType(module, st->proof_type);
}
