/* py_dtype: DataType, an element type. There is one object per type, so equality is identity. */
#include "ext.h"

#include <ctype.h>

typedef struct DTypeObject {
  PyObject ob_base;       /* what PyObject_HEAD expands to */
  const char *name, *cls; /* from the core's table */
  int bits;
} DTypeObject;

static const DTypeObject *self_of(PyObject *o) { return (const DTypeObject *)o; }

static void dtype_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject *py_dtype_find(PyState *st, const char *name) {
  PyObject *o = PyDict_GetItemString(st->dtypes, strcmp(name, "bool") == 0 ? "i1" : name);
  if (!o) PyErr_Format(PyExc_TypeError, "unknown element type `%s`", name);
  return Py_XNewRef(o);
}

const char *py_dtype_name(PyState *st, PyObject *o) {
  if (Py_TYPE(o) == st->dtype_type) return self_of(o)->name;
  PyErr_Format(PyExc_TypeError, "expected an element type such as f32, got %R", o);
  return NULL;
}

static PyObject *dtype_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "ir_type_asm", NULL};
  const char *name, *ir = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|z:DataType", names, &name, &ir)) return NULL;
  return py_dtype_find(PyType_GetModuleState(type), name);
}

static PyObject *dtype_repr(PyObject *self) { return PyUnicode_FromString(self_of(self)->name); }

/* The public package calls the type of truth values "bool". */
static PyObject *get_name(PyObject *self, void *Py_UNUSED(unused)) {
  const char *name = self_of(self)->name;
  return PyUnicode_FromString(strcmp(name, "i1") == 0 ? "bool" : name);
}

static PyObject *get_shape(PyObject *Py_UNUSED(self), void *Py_UNUSED(unused)) {
  return PyTuple_New(0);
}

static PyObject *get_self(PyObject *self, void *Py_UNUSED(unused)) { return Py_NewRef(self); }

static PyGetSetDef dtype_getset[] = {
    {"name", get_name, NULL, "Its name in Python.", NULL},
    {"symbolic_shape", get_shape, NULL, "(): an element type is also the type of a scalar.", NULL},
    {"dtype", get_self, NULL, "Itself.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyObject *bitwidth(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyLong_FromLong(self_of(self)->bits);
}

static PyObject *is_float(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(strcmp(self_of(self)->cls, "float") == 0);
}

static PyObject *is_int(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(strcmp(self_of(self)->cls, "int") == 0 ||
                         strcmp(self_of(self)->cls, "uint") == 0);
}

static PyObject *is_bool(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(strcmp(self_of(self)->cls, "bool") == 0);
}

static PyObject *is_index(PyObject *self, PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(strcmp(self_of(self)->cls, "index") == 0);
}

/* f8e4m3fn is spelled f8E4M3FN there. */
static PyObject *ir_type(PyObject *self, PyObject *Py_UNUSED(none)) {
  char text[32];
  const char *name = self_of(self)->name;
  bool upper = name[0] == 'f' && strchr(name, 'e');
  size_t n = strlen(name);
  for (size_t i = 0; i <= n && i < sizeof text; i++)
    text[i] = (char)(upper && i > 0 ? toupper((unsigned char)name[i]) : name[i]);
  return PyUnicode_FromString(text);
}

static PyObject *reduce(PyObject *self, PyObject *Py_UNUSED(none)) {
  return Py_BuildValue("(O(s))", (PyObject *)Py_TYPE(self), self_of(self)->name);
}

static PyMethodDef dtype_methods[] = {
    {"bitwidth", bitwidth, METH_NOARGS, "Bits of one element."},
    {"is_float_asm", is_float, METH_NOARGS, "Whether it is a floating-point type."},
    {"is_int_asm", is_int, METH_NOARGS, "Whether it is an integer type (booleans are not)."},
    {"is_bool_asm", is_bool, METH_NOARGS, "Whether it is the boolean type."},
    {"is_index_asm", is_index, METH_NOARGS, "Whether it is the type of sizes and indices."},
    {"ir_type_asm", ir_type, METH_NOARGS, "Its spelling in MLIR."},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot dtype_slots[] = {
    {Py_tp_doc, "An element type: f32, bf16, i8, ... Also the annotation of a scalar argument."},
    {Py_tp_new, dtype_construct},
    {Py_tp_dealloc, dtype_dealloc},
    {Py_tp_repr, dtype_repr},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_getset},
    {0, NULL}};

static PyType_Spec dtype_spec = {"wave_lang.DataType", sizeof(DTypeObject), 0, Py_TPFLAGS_DEFAULT,
                                 dtype_slots};

/* ---- names that other packages use ---- */

/* PyTorch's names, which are also NumPy's and those of ml_dtypes. The first name of a type is the one
 * that tensors made by us have. */
static const struct {
  const char *theirs, *ours;
  bool in_numpy; /* without ml_dtypes */
} counterparts[] = {
    {"float32", "f32", true},
    {"float16", "f16", true},
    {"bfloat16", "bf16", false},
    {"float64", "f64", true},
    {"int8", "i8", true},
    {"uint8", "u8", true},
    {"int16", "i16", true},
    {"uint16", "u16", true},
    {"int32", "i32", true},
    {"uint32", "u32", true},
    {"int64", "i64", true},
    {"uint64", "u64", true},
    {"bool", "i1", true},
    {"float8_e4m3fn", "f8e4m3fn", false},
    {"float8_e4m3fnuz", "f8e4m3fnuz", false},
    {"float8_e5m2", "f8e5m2", false},
    {"float8_e5m2fnuz", "f8e5m2fnuz", false},
    {"float8_e8m0fnu", "f8e8m0fnu", false},
    {"float4_e2m1fn_x2", "i8", false},
};
enum { COUNTERPARTS = sizeof counterparts / sizeof *counterparts };

int py_dtype_counterpart(const char *name) {
  for (int i = 0; i < COUNTERPARTS; i++)
    if (strcmp(counterparts[i].theirs, name) == 0) return wv_dtype_find(counterparts[i].ours);
  return -1;
}

/* tensor_dtypes: (their name, DataType, whether NumPy has it). */
static int add_names(PyObject *module, PyState *st) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < COUNTERPARTS; i++) {
    PyObject *row =
        Py_BuildValue("(sNO)", counterparts[i].theirs, py_dtype_find(st, counterparts[i].ours),
                      counterparts[i].in_numpy ? Py_True : Py_False);
    if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  int r = list ? PyModule_AddObjectRef(module, "tensor_dtypes", list) : -1;
  Py_XDECREF(list);
  return r;
}

/* ---- the module's part ---- */

static int add_row(PyState *st, int i) {
  DTypeObject *o = PyObject_New(DTypeObject, st->dtype_type);
  if (!o) return -1;
  o->name = wv_dtype_name(i, &o->bits, &o->cls);
  int r = PyDict_SetItemString(st->dtypes, o->name, (PyObject *)o);
  Py_DECREF(o);
  return r;
}

int py_dtype_init(PyObject *module, PyState *st) {
  st->dtype_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &dtype_spec, NULL);
  st->dtypes = PyDict_New();
  if (!st->dtype_type || !st->dtypes) return -1;
  for (int i = 0; i < wv_dtype_count(); i++)
    if (add_row(st, i) < 0) return -1;
  if (PyModule_AddObjectRef(module, "dtypes", st->dtypes) < 0) return -1;
  if (add_names(module, st) < 0) return -1;
  return PyModule_AddType(module, st->dtype_type);
}
