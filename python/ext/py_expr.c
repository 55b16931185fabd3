/* py_expr: Expr, an exact symbolic integer or truth value.
 *
 * Expressions are interned by the core, so equality is pointer comparison and `==` is structural;
 * `<` and the like build relations. Constants behave like the Python numbers they are. */
#include "ext.h"

#include <math.h>

typedef struct ExprObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  wv_ctx *cx; /* the context of `e`: no longer the module's after an internal error */
  wv_expr e;
} ExprObject;

static Py_hash_t expr_hash(PyObject *self);

/* The type is recognised by its hash function: a slot is accessible without the module's state. */
bool py_expr_check(PyObject *o) {
  return PyType_GetSlot(Py_TYPE(o), Py_tp_hash) == (void *)expr_hash;
}

wv_expr py_expr_get(PyObject *o) {
  ExprObject *x = (ExprObject *)o;
  if (x->cx == x->st->cx) return x->e;
  wv_expr moved = wv_expr_copy(x->st->cx, x->e);
  if (moved) x->e = moved, x->cx = x->st->cx;
  return x->e; /* it can still be read, and the call that uses it reports the error */
}

PyObject *py_expr_new(PyState *st, wv_expr e) {
  if (!e) return py_error_raise_here(st);
  ExprObject *o = PyObject_New(ExprObject, st->expr_type);
  if (!o) return NULL;
  o->st = st;
  o->cx = st->cx;
  o->e = e;
  return (PyObject *)o;
}

static void expr_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- from Python --------------------------------------------------------------------------- */

static wv_expr refuse(PyState *st, const char *code, const char *text, const char *hint) {
  wv_place at;
  if (py_place_here(st, &at)) py_error_report(st, code, at, text, hint);
  return NULL;
}

static wv_expr from_int(PyState *st, PyObject *o) {
  PyObject *index = PyNumber_Index(o);
  if (!index) { /* an array, which might have been one integer */
    if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
    return NULL;
  }
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (overflow || v == LLONG_MIN)
    return refuse(st, "E0101",
                  "an integer in an expression must fit in 64 bits: between -2**63 and 2**63",
                  "use a `Register`, or combine the number with a value: both accept every integer "
                  "of their dtype");
  return wv_int(st->cx, v);
}

static wv_expr from_float(PyState *st, PyObject *o) {
  double v = PyFloat_AsDouble(o);
  if (v == floor(v) && fabs(v) < 9.0e15) return wv_int(st->cx, (int64_t)v);
  char text[96];
  snprintf(text, sizeof text, "%g is not an integer: index expressions are exact", v);
  return refuse(st, "E0105", text, "write a fraction as a division, such as `BLOCK_M / 2`");
}

/* fractions.Fraction and anything else with a numerator and a denominator. */
static wv_expr from_fraction(PyState *st, PyObject *num, PyObject *den) {
  long long n = PyLong_AsLongLong(num), d = PyLong_AsLongLong(den);
  if (PyErr_Occurred()) return NULL;
  return wv_rational(st->cx, n, d);
}

/* The attribute, or NULL without an exception. */
static PyObject *optional_attr(PyObject *o, const char *name) {
  PyObject *v = PyObject_GetAttrString(o, name);
  if (!v) PyErr_Clear();
  return v;
}

static wv_expr from_other(PyState *st, PyObject *o) {
  PyObject *hook = optional_attr(o, "__wave_expr__");
  if (hook) {
    wv_expr e = py_expr_try(st, hook);
    Py_DECREF(hook);
    return e;
  }
  if (py_sympy_check(o)) return py_sympy_from(st, o);
  PyObject *num = optional_attr(o, "numerator"), *den = optional_attr(o, "denominator");
  bool fraction = num && den && PyLong_Check(num) && PyLong_Check(den);
  wv_expr e = fraction ? from_fraction(st, num, den) : NULL;
  Py_XDECREF(num);
  Py_XDECREF(den);
  return e;
}

wv_expr py_expr_try(PyState *st, PyObject *o) {
  wv_expr e;
  if (py_expr_check(o)) return py_expr_get(o);
  if (py_value_check(o)) return NULL;
  if (PyBool_Check(o)) return wv_bool(st->cx, o == Py_True);
  if (PyFloat_Check(o)) e = from_float(st, o);
  else if (PyIndex_Check(o) && !py_sympy_check(o)) e = from_int(st, o);
  else e = from_other(st, o);
  if (!e && !PyErr_Occurred() && wv_diag_errors(st->cx)) py_error_raise_here(st);
  return e;
}

wv_expr py_expr_from(PyState *st, PyObject *o) {
  wv_expr e = py_expr_try(st, o);
  if (e || PyErr_Occurred()) return e;
  if (PyUnicode_Check(o))
    PyErr_Format(PyExc_TypeError,
                 "expected a symbolic expression or an integer, got the string %R: a symbol is "
                 "written as `tkl.sym.NAME`",
                 o);
  else
    PyErr_Format(PyExc_TypeError, "expected a symbolic expression or an integer, got %R",
                 (PyObject *)Py_TYPE(o));
  return NULL;
}

const wv_expr *py_expr_list(PyState *st, Scratch *s, PyObject *o, int *n) {
  bool single = PyUnicode_Check(o) || !PySequence_Check(o);
  PyObject *items = single ? PyTuple_Pack(1, o) : PySequence_Tuple(o);
  if (!items) return NULL;
  *n = (int)PyTuple_Size(items);
  wv_expr *out = py_scratch_alloc(s, (size_t)*n, sizeof *out);
  for (int i = 0; out && i < *n; i++)
    if (!(out[i] = py_expr_from(st, PyTuple_GetItem(items, i)))) out = NULL;
  Py_DECREF(items);
  return out;
}

static bool fill_pair(PyState *st, PyObject *item, wv_pair *out) {
  static const char expected[] = "expected pairs of a symbol and its value";
  if (!PyTuple_Check(item) || PyTuple_Size(item) != 2)
    return PyErr_SetString(PyExc_TypeError, expected), false;
  PyObject *key = PyTuple_GetItem(item, 0), *value = PyTuple_GetItem(item, 1);
  out->key = py_expr_from(st, key);
  out->value = out->key ? py_expr_from(st, value) : NULL;
  return out->value != NULL;
}

const wv_pair *py_expr_pairs(PyState *st, Scratch *s, PyObject *o, int *n) {
  PyObject *items = PyMapping_Check(o) && !PyTuple_Check(o) && !PyList_Check(o)
                        ? PyMapping_Items(o)
                        : PySequence_List(o);
  if (!items) return NULL;
  *n = (int)PyList_Size(items);
  wv_pair *out = py_scratch_alloc(s, (size_t)*n, sizeof *out);
  for (int i = 0; out && i < *n; i++)
    if (!fill_pair(st, PyList_GetItem(items, i), &out[i])) out = NULL;
  Py_DECREF(items);
  return out;
}

wv_binding *py_expr_bindings(PyState *st, Scratch *s, PyObject *o, int *n) {
  const wv_pair *pairs = py_expr_pairs(st, s, o, n);
  wv_binding *out = pairs ? py_scratch_alloc(s, (size_t)*n, sizeof *out) : NULL;
  for (int i = 0; out && i < *n; i++) out[i] = (wv_binding){pairs[i].key, pairs[i].value};
  return out;
}

/* ---- operators ----------------------------------------------------------------------------- */

/* An operator with two operands, one of which is an Expr; NotImplemented for foreign types. */
static PyObject *binary(const char *op, PyObject *a, PyObject *b) {
  PyState *st = ((ExprObject *)(py_expr_check(a) ? a : b))->st;
  wv_expr args[2] = {py_expr_try(st, a), NULL};
  if (args[0]) args[1] = py_expr_try(st, b);
  if (PyErr_Occurred()) return NULL;
  if (!args[0] || !args[1]) Py_RETURN_NOTIMPLEMENTED;
  return py_expr_new(st, wv_expr_op(st->cx, op, args, 2));
}

static PyObject *unary(const char *op, PyObject *a) {
  PyState *st = ((ExprObject *)a)->st;
  wv_expr arg = py_expr_get(a);
  return py_expr_new(st, wv_expr_op(st->cx, op, &arg, 1));
}

static PyObject *expr_add(PyObject *a, PyObject *b) { return binary("add", a, b); }
static PyObject *expr_sub(PyObject *a, PyObject *b) { return binary("sub", a, b); }
static PyObject *expr_mul(PyObject *a, PyObject *b) { return binary("mul", a, b); }
static PyObject *expr_div(PyObject *a, PyObject *b) { return binary("div", a, b); }
static PyObject *expr_floordiv(PyObject *a, PyObject *b) { return binary("floordiv", a, b); }
static PyObject *expr_mod(PyObject *a, PyObject *b) { return binary("mod", a, b); }
static PyObject *expr_and(PyObject *a, PyObject *b) { return binary("and", a, b); }
static PyObject *expr_or(PyObject *a, PyObject *b) { return binary("or", a, b); }
static PyObject *expr_xor(PyObject *a, PyObject *b) { return binary("xor", a, b); }
static PyObject *expr_neg(PyObject *a) { return unary("neg", a); }
static PyObject *expr_pos(PyObject *a) { return Py_NewRef(a); }
static PyObject *expr_not(PyObject *a) { return unary("not", a); }

static PyObject *expr_pow(PyObject *a, PyObject *b, PyObject *modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary("pow", a, b);
}

static PyObject *expr_compare(PyObject *a, PyObject *b, int op) {
  static const char *const relation[] = {
      [Py_LT] = "lt", [Py_LE] = "le", [Py_GT] = "gt", [Py_GE] = "ge"};
  if (op != Py_EQ && op != Py_NE) return binary(relation[op], a, b);
  PyState *st = ((ExprObject *)a)->st;
  /* A float or fraction that is not an integer compares unequal. */
  wv_expr other = PyFloat_Check(b) ? NULL : py_expr_try(st, b);
  if (PyErr_Occurred()) return NULL;
  if (!other && (py_value_check(b) || !PyFloat_Check(b))) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((other == py_expr_get(a)) == (op == Py_EQ));
}

/* Constants hash like the numbers they equal. */
static Py_hash_t expr_hash(PyObject *self) {
  int64_t num, den;
  wv_expr e = py_expr_get(self);
  if (wv_expr_constant(e, &num, &den) && den == 1) {
    PyObject *o = PyLong_FromLongLong(num);
    Py_hash_t h = o ? PyObject_Hash(o) : -1;
    Py_XDECREF(o);
    return h;
  }
  Py_hash_t h = (Py_hash_t)wv_expr_hash(e);
  return h == -1 ? -2 : h;
}

static int expr_bool(PyObject *self) {
  ExprObject *o = (ExprObject *)self;
  int64_t num, den;
  if (wv_expr_constant(py_expr_get(self), &num, &den)) return num != 0;
  if (!wv_expr_is_bool(py_expr_get(self))) return 1;
  int truth = wv_expr_prove(o->st->cx, py_expr_get(self), NULL,
                            0); /* sizes are not negative: M >= 0 holds */
  if (truth >= 0) return truth;
  if (wv_diag_errors(o->st->cx)) return py_error_raise(o->st), -1;
  PyErr_Format(PyExc_TypeError,
               "cannot tell whether `%s` holds: it depends on symbols; substitute them first, or "
               "use it as a condition of the kernel (`conditional`, `Piecewise`)",
               wv_expr_text(o->st->cx, py_expr_get(self)));
  return -1;
}

/* The integer that a constant is; NULL with TypeError otherwise. */
static PyObject *expr_index(PyObject *self) {
  ExprObject *o = (ExprObject *)self;
  int64_t num, den;
  if (wv_expr_constant(py_expr_get(self), &num, &den) && den == 1) return PyLong_FromLongLong(num);
  PyErr_Format(PyExc_TypeError, "`%s` is not an integer constant",
               wv_expr_text(o->st->cx, py_expr_get(self)));
  return NULL;
}

/* int(): like Python, truncates a constant fraction. */
static PyObject *expr_int(PyObject *self) {
  int64_t num, den;
  if (wv_expr_constant(py_expr_get(self), &num, &den)) return PyLong_FromLongLong(num / den);
  return expr_index(self);
}

static PyObject *expr_float(PyObject *self) {
  int64_t num, den;
  if (wv_expr_constant(py_expr_get(self), &num, &den))
    return PyFloat_FromDouble((double)num / (double)den);
  return expr_index(self);
}

/* ---- methods ------------------------------------------------------------------------------- */

static PyObject *expr_repr(PyObject *self) {
  ExprObject *o = (ExprObject *)self;
  return PyUnicode_FromString(wv_expr_text(o->st->cx, py_expr_get(self)));
}

static PyObject *expr_subs(PyObject *self, PyObject *args) {
  ExprObject *o = (ExprObject *)self;
  PyObject *what, *value = NULL;
  if (!PyArg_ParseTuple(args, "O|O:subs", &what, &value)) return NULL;
  Scratch s = {0};
  int n = 0;
  PyObject *list = value ? Py_BuildValue("((OO))", what, value) : Py_NewRef(what);
  wv_binding *b = list ? py_expr_bindings(o->st, &s, list, &n) : NULL;
  PyObject *r = b ? py_expr_new(o->st, wv_expr_subst(o->st->cx, py_expr_get(self), b, n)) : NULL;
  py_scratch_free(&s);
  Py_XDECREF(list);
  return r;
}

static PyObject *expr_simplify(PyObject *self, PyObject *facts) {
  ExprObject *o = (ExprObject *)self;
  Scratch s = {0};
  int n = 0;
  const wv_expr *list = py_expr_list(o->st, &s, facts, &n);
  PyObject *r =
      list ? py_expr_new(o->st, wv_expr_simplify(o->st->cx, py_expr_get(self), list, n)) : NULL;
  py_scratch_free(&s);
  return r;
}

static PyObject *expr_sympy(PyObject *self, PyObject *Py_UNUSED(none)) {
  return py_sympy_to(((ExprObject *)self)->st, py_expr_get(self));
}

static PyObject *expr_self(PyObject *self, PyObject *Py_UNUSED(memo)) { return Py_NewRef(self); }

static PyObject *expr_reduce(PyObject *self, PyObject *Py_UNUSED(none)) {
  ExprObject *o = (ExprObject *)self;
  return Py_BuildValue("(O(s))", (PyObject *)Py_TYPE(self),
                       wv_expr_text(o->st->cx, py_expr_get(self)));
}

static PyMethodDef expr_methods[] = {
    {"subs", expr_subs, METH_VARARGS,
     "subs({symbol: value}) or subs(symbol, value): replaces symbols, all at once."},
    {"xreplace", expr_subs, METH_VARARGS, "The same as subs."},
    {"simplify", expr_simplify, METH_VARARGS,
     "simplify(*facts): a simpler equal expression, given that the facts hold."},
    {"_sympy_", expr_sympy, METH_NOARGS, "The same expression as a SymPy object."},
    {"__copy__", expr_self, METH_NOARGS, NULL},
    {"__deepcopy__", expr_self, METH_O, NULL},
    {"__reduce__", expr_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyObject *get_symbols(PyObject *self, void *Py_UNUSED(unused)) {
  ExprObject *o = (ExprObject *)self;
  int n = wv_expr_symbols(py_expr_get(self), NULL, 0);
  if (n < 0) return PyErr_NoMemory();
  Scratch s = {0};
  wv_expr *list = py_scratch_alloc(&s, (size_t)n, sizeof *list);
  PyObject *set = list ? PySet_New(NULL) : NULL;
  if (set && wv_expr_symbols(py_expr_get(self), list, n) < 0) {
    PyErr_NoMemory();
    Py_CLEAR(set);
  }
  for (int i = 0; set && i < n; i++) {
    PyObject *item = py_expr_new(o->st, list[i]);
    if (!item || PySet_Add(set, item) < 0) Py_CLEAR(set);
    Py_XDECREF(item);
  }
  py_scratch_free(&s);
  return set;
}

static PyObject *get_args(PyObject *self, void *Py_UNUSED(unused)) {
  ExprObject *o = (ExprObject *)self;
  int n = wv_expr_nargs(py_expr_get(self));
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *item = py_expr_new(o->st, wv_expr_arg(o->st->cx, py_expr_get(self), i));
    if (!item) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, i, item);
  }
  return tuple;
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(unused)) {
  const char *name = wv_expr_name(py_expr_get(self));
  if (name) return PyUnicode_FromString(name);
  PyErr_Format(PyExc_AttributeError, "only a symbol has a name, not `%s`",
               wv_expr_text(((ExprObject *)self)->st->cx, py_expr_get(self)));
  return NULL;
}

static PyObject *get_kind(PyObject *self, void *Py_UNUSED(unused)) {
  return PyUnicode_FromString(wv_expr_kind(py_expr_get(self)));
}

static PyObject *get_is_number(PyObject *self, void *Py_UNUSED(unused)) {
  int64_t num, den;
  wv_expr e = py_expr_get(self);
  return PyBool_FromLong(!wv_expr_is_bool(e) && wv_expr_constant(e, &num, &den));
}

static PyObject *get_is_integer(PyObject *self, void *Py_UNUSED(unused)) {
  int64_t num, den;
  wv_expr e = py_expr_get(self);
  if (wv_expr_constant(e, &num, &den)) return PyBool_FromLong(den == 1);
  return PyBool_FromLong(wv_expr_name(e) != NULL);
}

static PyObject *get_is_symbol(PyObject *self, void *Py_UNUSED(unused)) {
  return PyBool_FromLong(wv_expr_name(py_expr_get(self)) != NULL);
}

static PyObject *get_is_boolean(PyObject *self, void *Py_UNUSED(unused)) {
  return PyBool_FromLong(wv_expr_is_bool(py_expr_get(self)));
}

static PyObject *get_is_nonnegative(PyObject *self, void *Py_UNUSED(unused)) {
  wv_expr e = py_expr_get(self);
  int64_t num, den;
  if (wv_expr_constant(e, &num, &den)) return PyBool_FromLong(num >= 0);
  if (wv_expr_name(e) && wv_expr_nonneg(e)) Py_RETURN_TRUE;
  Py_RETURN_NONE;
}

static PyGetSetDef expr_getset[] = {
    {"free_symbols", get_symbols, NULL, "The symbols it mentions, as a set.", NULL},
    {"args", get_args, NULL, "Its operands.", NULL},
    {"name", get_name, NULL, "The name of a symbol.", NULL},
    {"kind", get_kind, NULL, "Its kind: 'symbol', 'add', 'floor', ...", NULL},
    {"is_number", get_is_number, NULL, "Whether it is a constant.", NULL},
    {"is_integer", get_is_integer, NULL, "Whether it is an integer constant or a symbol.", NULL},
    {"is_symbol", get_is_symbol, NULL, "Whether it is a symbol.", NULL},
    {"is_Symbol", get_is_symbol, NULL, "Whether it is a symbol (SymPy's spelling).", NULL},
    {"is_Boolean", get_is_boolean, NULL, "Whether it is a condition.", NULL},
    {"is_nonnegative", get_is_nonnegative, NULL, "True, False, or None if unknown.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyObject *expr_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyState *st = PyType_GetModuleState(type);
  static char *names[] = {"value", NULL};
  PyObject *value;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Expr", names, &value)) return NULL;
  if (!PyUnicode_Check(value)) {
    wv_expr e = py_expr_from(st, value);
    return e ? py_expr_new(st, e) : NULL;
  }
  const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
  return text ? py_expr_new(st, wv_expr_parse(st->cx, text)) : NULL;
}

static PyType_Slot expr_slots[] = {
    {Py_tp_doc, "An exact symbolic integer expression or condition.\n\n"
                "Made from symbols (`sym.M`) with + - * / // % ** < <= > >= & | ~; `==` compares\n"
                "structure and gives a bool. Expr(text) reads one from text."},
    {Py_tp_new, expr_construct},
    {Py_tp_dealloc, expr_dealloc},
    {Py_tp_repr, expr_repr},
    {Py_tp_hash, expr_hash},
    {Py_tp_richcompare, expr_compare},
    {Py_tp_methods, expr_methods},
    {Py_tp_getset, expr_getset},
    {Py_nb_add, expr_add},
    {Py_nb_subtract, expr_sub},
    {Py_nb_multiply, expr_mul},
    {Py_nb_true_divide, expr_div},
    {Py_nb_floor_divide, expr_floordiv},
    {Py_nb_remainder, expr_mod},
    {Py_nb_power, expr_pow},
    {Py_nb_negative, expr_neg},
    {Py_nb_positive, expr_pos},
    {Py_nb_and, expr_and},
    {Py_nb_or, expr_or},
    {Py_nb_xor, expr_xor},
    {Py_nb_invert, expr_not},
    {Py_nb_bool, expr_bool},
    {Py_nb_int, expr_int},
    {Py_nb_float, expr_float},
    {Py_nb_index, expr_index},
    {0, NULL}};

static PyType_Spec expr_spec = {"wave_lang.Expr", sizeof(ExprObject), 0, Py_TPFLAGS_DEFAULT,
                                expr_slots};

/* NumPy must leave operators to the type: `array(3) * x` would otherwise make an array of
 * objects. */
int py_add_operand_type(PyObject *module, PyTypeObject *type) {
  if (PyObject_SetAttrString((PyObject *)type, "__array_ufunc__", Py_None) < 0) return -1;
  return PyModule_AddType(module, type);
}

int py_expr_init(PyObject *module, PyState *st) {
  st->expr_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &expr_spec, NULL);
  return st->expr_type ? py_add_operand_type(module, st->expr_type) : -1;
}
