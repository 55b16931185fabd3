/* py_tables: rows of the compiler's tables, for enumerations and help texts. */
#include "ext.h"

/* Adds a list attribute to the module; consumes the list. */
static int add_list(PyObject *module, const char *name, PyObject *list) {
  int r = list ? PyModule_AddObjectRef(module, name, list) : -1;
  Py_XDECREF(list);
  return r;
}

/* Appends and consumes a new item; clears the list if that fails. */
static void append(PyObject **list, PyObject *item) {
  if (!*list || !item || PyList_Append(*list, item) < 0) Py_CLEAR(*list);
  Py_XDECREF(item);
}

static PyObject *mma_to(const wv_mma_info *m) {
  return Py_BuildValue("(siOiiiiii)", m->name, m->code, m->scaled ? Py_True : Py_False, m->m, m->n,
                       m->k, m->lanes, m->operand_elems, m->acc_elems);
}

static PyObject *mma_table(void) {
  PyObject *list = PyList_New(0);
  wv_mma_info m;
  for (int i = 0; list && wv_mma_row(i, &m); i++) append(&list, mma_to(&m));
  return list;
}

static PyObject *mma_row(PyObject *Py_UNUSED(module), PyObject *args) {
  const char *name;
  wv_mma_info m;
  if (!PyArg_ParseTuple(args, "s:mma_row", &name)) return NULL;
  return wv_mma_find(name, &m) ? mma_to(&m) : py_text_or_none(NULL);
}

static PyMethodDef methods[] = {
    {"mma_row", mma_row, METH_VARARGS,
     "mma_row(name): the row of mma_table for a name in any spelling, or None."},
    {NULL, NULL, 0, NULL}};

static PyObject *target_table(void) {
  PyObject *list = PyList_New(0);
  const char *name, *doc;
  for (int i = 0; list && wv_target_info(i, &name, &doc); i++)
    append(&list, Py_BuildValue("(ss)", name, doc));
  return list;
}

static PyObject *option_table(void) {
  PyObject *list = PyList_New(0);
  wv_option_info o;
  for (int i = 0; list && wv_option_row(i, &o); i++)
    append(&list, Py_BuildValue("(sssssO)", o.name, o.kind, o.text, o.on, o.file,
                                o.is_key ? Py_True : Py_False));
  return list;
}

static PyObject *variable_table(void) {
  PyObject *list = PyList_New(0);
  wv_variable_info v;
  for (int i = 0; list && wv_variable_row(i, &v); i++)
    append(&list, Py_BuildValue("(ssss)", v.name, v.reader, v.kind, v.text));
  return list;
}

static PyObject *op_table(void) {
  PyObject *list = PyList_New(0);
  const char *name, *level, *doc;
  for (int i = 0; list && wv_op_info(i, &name, &level, &doc); i++)
    append(&list, Py_BuildValue("(sss)", name, level, doc));
  return list;
}

static PyObject *diagnostic_table(void) {
  PyObject *list = PyList_New(0);
  const char *code, *title, *explanation;
  for (int i = 0; list && wv_diag_info(i, &code, &title, &explanation); i++)
    append(&list, Py_BuildValue("(sss)", code, title, explanation));
  return list;
}

int py_tables_init(PyObject *module) {
  if (PyModule_AddFunctions(module, methods) < 0) return -1;
  if (add_list(module, "mma_table", mma_table()) < 0) return -1;
  if (add_list(module, "target_table", target_table()) < 0) return -1;
  if (add_list(module, "op_table", op_table()) < 0) return -1;
  if (add_list(module, "option_table", option_table()) < 0) return -1;
  if (add_list(module, "variable_table", variable_table()) < 0) return -1;
  return add_list(module, "diagnostic_table", diagnostic_table());
}
