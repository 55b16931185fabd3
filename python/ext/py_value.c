/* py_value: Value, a value of a kernel being traced. Operators append ops to the
 * kernel. */
#include "ext.h"

typedef struct ValueObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  TracerObject *tracer;
  wv_value *v;
  bool only_result; /* for a loop or conditional: `body[0]` is the value itself */
} ValueObject;

static Py_hash_t value_hash(PyObject *self);

bool py_value_check(PyObject *o) {
  return PyType_GetSlot(Py_TYPE(o), Py_tp_hash) == (void *)value_hash;
}

wv_value *py_value_get(PyObject *o) { return ((ValueObject *)o)->v; }
TracerObject *py_value_tracer(PyObject *o) { return ((ValueObject *)o)->tracer; }

PyObject *py_value_new(TracerObject *t, wv_value *v) {
  ValueObject *o = PyObject_New(ValueObject, t->st->value_type);
  if (!o) return NULL;
  o->tracer = (TracerObject *)Py_NewRef((PyObject *)t);
  o->v = v;
  o->only_result = false;
  return (PyObject *)o;
}

void py_value_set_only_result(PyObject *o) { ((ValueObject *)o)->only_result = true; }

static void value_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_DECREF((PyObject *)py_value_tracer(self));
  PyObject_Free(self);
  Py_DECREF(type);
}

wv_value *py_value_from(TracerObject *t, PyObject *o, const char *what) {
  if (!py_value_check(o)) {
    PyErr_Format(PyExc_TypeError, "%s: expected a traced value, got %R", what,
                 (PyObject *)Py_TYPE(o));
    return NULL;
  }
  if (py_value_tracer(o) == t) return py_value_get(o);
  wv_place at;
  if (py_place_here(t->st, &at))
    py_error_report(t->st, "E0402", at, "a value belongs to another kernel",
                    "use values only while their own kernel is being traced");
  return NULL;
}

/* The type of a value whose kernel is still being traced; NULL with an exception otherwise. */
static wv_type live_type(PyObject *self) {
  if (py_value_tracer(self)->b) return wv_value_type(py_value_get(self));
  PyErr_SetString(PyExc_RuntimeError, "this value's kernel has already been traced");
  return NULL;
}

/* ---- operators ----------------------------------------------------------------------------- */

static PyObject *emit2(const char *op, PyObject *a, PyObject *b) {
  PyObject *operands[] = {a, b};
  TracerObject *t = py_value_tracer(py_value_check(a) ? a : b);
  return py_tracer_emit(t, op, operands, 2, NULL, NULL);
}

static PyObject *emit1(const char *op, PyObject *a) {
  return py_tracer_emit(py_value_tracer(a), op, &a, 1, NULL, NULL);
}

static PyObject *value_add(PyObject *a, PyObject *b) { return emit2("add", a, b); }
static PyObject *value_sub(PyObject *a, PyObject *b) { return emit2("sub", a, b); }
static PyObject *value_mul(PyObject *a, PyObject *b) { return emit2("mul", a, b); }
static PyObject *value_div(PyObject *a, PyObject *b) { return emit2("div", a, b); }
static PyObject *value_floordiv(PyObject *a, PyObject *b) { return emit2("floordiv", a, b); }
static PyObject *value_mod(PyObject *a, PyObject *b) { return emit2("mod", a, b); }
static PyObject *value_and(PyObject *a, PyObject *b) { return emit2("and", a, b); }
static PyObject *value_or(PyObject *a, PyObject *b) { return emit2("or", a, b); }
static PyObject *value_xor(PyObject *a, PyObject *b) { return emit2("xor", a, b); }
static PyObject *value_shl(PyObject *a, PyObject *b) { return emit2("shl", a, b); }
static PyObject *value_shr(PyObject *a, PyObject *b) { return emit2("shr", a, b); }
static PyObject *value_neg(PyObject *a) { return emit1("neg", a); }
static PyObject *value_not(PyObject *a) { return emit1("not", a); }
static PyObject *value_abs(PyObject *a) { return emit1("abs", a); }
static PyObject *value_pos(PyObject *a) { return Py_NewRef(a); }

static PyObject *value_compare(PyObject *a, PyObject *b, int op) {
  static const char *const names[] = {[Py_LT] = "lt", [Py_LE] = "le", [Py_EQ] = "eq",
                                      [Py_NE] = "ne", [Py_GT] = "gt", [Py_GE] = "ge"};
  return emit2(names[op], a, b);
}

/* Each value is its own dictionary key, although `==` makes an op. */
static Py_hash_t value_hash(PyObject *self) {
  Py_hash_t h = (Py_hash_t)((uintptr_t)self >> 4);
  return h == -1 ? -2 : h;
}

/* Reports uses that Python allows for a number but that are mistakes here. */
static PyObject *refuse(PyObject *self, const char *code, const char *text, const char *hint) {
  PyState *st = py_value_tracer(self)->st;
  wv_place at;
  return py_place_here(st, &at) ? py_error_report(st, code, at, text, hint) : NULL;
}

static int value_bool(PyObject *self) {
  refuse(self, "E0403", "a traced value cannot be used as a Python bool",
         "branch with `@conditional(...)`, or choose between values with `select`; combine "
         "conditions with `&` and `|`; for `max` of two values use `maximum`");
  return -1;
}

static PyObject *value_float(PyObject *self) {
  return refuse(self, "E0403", "a traced value cannot be converted to a Python number",
                "use the functions of `tkw`, such as `tkw.exp`, not those of `math`");
}

static PyObject *value_matmul(PyObject *a, PyObject *b) {
  return refuse(py_value_check(a) ? a : b, "E0310", "values do not support `@`",
                "use `mma(lhs, rhs, acc)` to multiply matrices: lhs[m, k], rhs[n, k], acc[m, n]");
}

static PyObject *value_power(PyObject *a, PyObject *b, PyObject *Py_UNUSED(modulus)) {
  return refuse(py_value_check(a) ? a : b, "E0310", "values do not support `**`",
                "multiply, or use `powf(a, b)`");
}

static PyObject *value_divmod(PyObject *a, PyObject *b) {
  return refuse(py_value_check(a) ? a : b, "E0310", "values do not support `divmod`",
                "use `//` and `%`");
}

static PyObject *value_round(PyObject *self, PyObject *Py_UNUSED(args)) {
  return refuse(self, "E0310", "values do not support Python's `round`",
                "use `tkw.roundeven(x)` to round as Python does, or `tkw.round(x)` to round halves "
                "away from zero");
}

static PyObject *value_trunc(PyObject *self, PyObject *Py_UNUSED(args)) {
  return refuse(self, "E0310", "values do not support `math.trunc`",
                "`tkw.cast` to an integer drops the fraction");
}

static Py_ssize_t value_length(PyObject *self) {
  refuse(self, "E0403", "a traced value has no length",
         "its dimensions are symbols, `x.shape`, which can be used in expressions");
  return -1;
}

static PyObject *value_call(PyObject *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(named)) {
  return refuse(self, "E0310", "a value cannot be called",
                "the body of a loop or conditional runs where it is defined; afterwards its name "
                "refers to the result");
}

/* ---- looking ------------------------------------------------------------------------------- */

static PyObject *value_repr(PyObject *self) {
  TracerObject *t = py_value_tracer(self);
  if (!t->b) return PyUnicode_FromString("<value of a finished kernel>");
  return PyUnicode_FromFormat("<value: %s>",
                              wv_type_text(t->st->cx, wv_value_type(py_value_get(self))));
}

static PyObject *get_shape(PyObject *self, void *Py_UNUSED(unused)) {
  wv_type t = live_type(self);
  return t ? py_type_dims(py_value_tracer(self)->st, t) : NULL;
}

static PyObject *get_dtype(PyObject *self, void *Py_UNUSED(unused)) {
  wv_type t = live_type(self);
  return t ? py_dtype_find(py_value_tracer(self)->st, wv_type_dtype(t)) : NULL;
}

static PyObject *get_kind(PyObject *self, void *Py_UNUSED(unused)) {
  wv_type t = live_type(self);
  return t ? PyUnicode_FromString(wv_type_kind(t)) : NULL;
}

static PyGetSetDef value_getset[] = {
    {"shape", get_shape, NULL, "Its dimensions, as expressions; () for a scalar.", NULL},
    {"symbolic_shape", get_shape, NULL, "Its dimensions (the public package's name).", NULL},
    {"dtype", get_dtype, NULL, "Its element type.", NULL},
    {"kind", get_kind, NULL, "'scalar', 'tile' or 'mem'.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* A function of `tkw` that is called like a method. */
static bool is_function(PyObject *name) {
  PyObject *key = PyUnicode_FromString("wave_lang.kernel.wave");
  PyObject *tkw = key ? PyImport_GetModule(key) : NULL;
  PyObject *found = tkw ? PyDict_GetItemWithError(PyModule_GetDict(tkw), name) : NULL;
  bool callable = found && PyCallable_Check(found);
  Py_XDECREF(tkw);
  Py_XDECREF(key);
  PyErr_Clear();
  return callable;
}

/* Names that Python and NumPy look up on their own begin with `_`. */
static PyObject *value_attribute(PyObject *self, PyObject *name) {
  PyObject *found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject *first = PyUnicode_Substring(name, 0, 1);
  bool own = first && PyUnicode_CompareWithASCIIString(first, "_") == 0;
  Py_XDECREF(first);
  if (own || !py_value_tracer(self)->b) return NULL;
  PyErr_Clear();
  PyObject *text = PyUnicode_FromFormat("a value has no attribute `%U`", name);
  PyObject *hint =
      is_function(name)
          ? PyUnicode_FromFormat("use the function `tkw.%U(x, ...)`", name)
          : PyUnicode_FromString(
                "a value has `shape`, `dtype` and `kind`; operations are functions in `tkw`");
  const char *said = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  const char *advice = hint ? PyUnicode_AsUTF8AndSize(hint, NULL) : NULL;
  if (said && advice) refuse(self, "E0309", said, advice);
  Py_XDECREF(text);
  Py_XDECREF(hint);
  return NULL;
}

static PyObject *value_item(PyObject *self, PyObject *key) {
  bool first = PyLong_Check(key) && PyLong_AsLong(key) == 0;
  if (((ValueObject *)self)->only_result && first) return Py_NewRef(self);
  PyObject *items = py_value_tracer(self)->items;
  if (items) return PyObject_CallFunctionObjArgs(items, self, key, NULL);
  return refuse(self, "E0310", "a value cannot be indexed",
                "read a part of a tensor with an IndexMapping: `read(x, mapping=...)`");
}

static int value_set_item(PyObject *self, PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(v)) {
  refuse(self, "E0310", "a value cannot be assigned to", "use `write(register, memory)` to store");
  return -1;
}

static PyObject *value_iter(PyObject *self) {
  return refuse(self, "E0404", "a value cannot be unpacked or iterated over",
                "a loop or conditional has one result per carried value; to add up elements, use "
                "`tkw.sum(x, dim=N)`");
}

static PyMethodDef value_methods[] = {
    {"__round__", value_round, METH_VARARGS, "Raises an error with a hint."},
    {"__trunc__", value_trunc, METH_NOARGS, "Raises an error with a hint."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot value_slots[] = {
    {Py_tp_doc, "A tile, scalar or memory of the kernel being traced."},
    {Py_tp_dealloc, value_dealloc},
    {Py_tp_repr, value_repr},
    {Py_tp_hash, value_hash},
    {Py_tp_richcompare, value_compare},
    {Py_tp_getset, value_getset},
    {Py_tp_methods, value_methods},
    {Py_tp_getattro, value_attribute},
    {Py_tp_iter, value_iter},
    {Py_mp_length, value_length},
    {Py_mp_subscript, value_item},
    {Py_mp_ass_subscript, value_set_item},
    {Py_tp_call, value_call},
    {Py_nb_matrix_multiply, value_matmul},
    {Py_nb_power, value_power},
    {Py_nb_divmod, value_divmod},
    {Py_nb_float, value_float},
    {Py_nb_int, value_float},
    {Py_nb_add, value_add},
    {Py_nb_subtract, value_sub},
    {Py_nb_multiply, value_mul},
    {Py_nb_true_divide, value_div},
    {Py_nb_floor_divide, value_floordiv},
    {Py_nb_remainder, value_mod},
    {Py_nb_and, value_and},
    {Py_nb_or, value_or},
    {Py_nb_xor, value_xor},
    {Py_nb_lshift, value_shl},
    {Py_nb_rshift, value_shr},
    {Py_nb_negative, value_neg},
    {Py_nb_positive, value_pos},
    {Py_nb_invert, value_not},
    {Py_nb_absolute, value_abs},
    {Py_nb_bool, value_bool},
    {0, NULL}};

static PyType_Spec value_spec = {"wave_lang.Value", sizeof(ValueObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 value_slots};

int py_value_init(PyObject *module, PyState *st) {
  st->value_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &value_spec, NULL);
  return st->value_type ? py_add_operand_type(module, st->value_type) : -1;
}
