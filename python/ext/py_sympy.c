/* py_sympy: expressions to and from SymPy, by walking `.func` and `.args`.
 *
 * SymPy is imported only if one of its objects is to be converted. A non-negative symbol of ours
 * is Symbol(name, integer=True, nonnegative=True) there; one that may be negative is a bare
 * Symbol(name). */
#include "ext.h"

/* func.__name__ of SymPy, and our operator. "": handled separately. */
static const struct {
  const char *theirs, *ours;
} functions[] = {{"Add", "add"},
                 {"Mul", "mul"},
                 {"Pow", "pow"},
                 {"floor", "floor"},
                 {"ceiling", "ceil"},
                 {"Mod", "mod"},
                 {"Min", "min"},
                 {"Max", "max"},
                 {"Equality", "eq"},
                 {"Unequality", "ne"},
                 {"StrictLessThan", "lt"},
                 {"LessThan", "le"},
                 {"StrictGreaterThan", "gt"},
                 {"GreaterThan", "ge"},
                 {"And", "and"},
                 {"Or", "or"},
                 {"Not", "not"},
                 {"ITE", "select"},
                 {"xor", "xor"}};

static PyObject *attr_or_null(PyObject *o, const char *name) {
  PyObject *v = PyObject_GetAttrString(o, name);
  if (!v) PyErr_Clear();
  return v;
}

static bool attr_is_true(PyObject *o, const char *name) {
  PyObject *v = attr_or_null(o, name);
  bool yes = v == Py_True;
  Py_XDECREF(v);
  return yes;
}

bool py_sympy_check(PyObject *o) {
  PyObject *module = attr_or_null((PyObject *)Py_TYPE(o), "__module__");
  const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : "";
  bool yes = name && strncmp(name, "sympy.", 6) == 0;
  Py_XDECREF(module);
  if (yes) return true;
  /* A function class of the user's own, such as `xor`. */
  PyObject *func = attr_or_null(o, "func"), *assumptions = attr_or_null(o, "assumptions0");
  yes = func && assumptions;
  Py_XDECREF(func);
  Py_XDECREF(assumptions);
  return yes;
}

/* ---- from SymPy ---------------------------------------------------------------------------- */

static wv_expr from_symbol(PyState *st, PyObject *o) {
  PyObject *name = PyObject_GetAttrString(o, "name");
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  wv_expr e = text ? wv_symbol(st->cx, text, attr_is_true(o, "is_nonnegative")) : NULL;
  Py_XDECREF(name);
  return e;
}

static wv_expr from_rational(PyState *st, PyObject *o) {
  PyObject *p = PyObject_GetAttrString(o, "p"), *q = PyObject_GetAttrString(o, "q");
  long long num = p ? PyLong_AsLongLong(p) : 0, den = q ? PyLong_AsLongLong(q) : 1;
  Py_XDECREF(p);
  Py_XDECREF(q);
  return PyErr_Occurred() ? NULL : wv_rational(st->cx, num, den);
}

/* Piecewise((value, condition), ...) */
static wv_expr from_piecewise(PyState *st, PyObject *branches) {
  int n = (int)PyTuple_Size(branches);
  Scratch s = {0};
  wv_expr *args = py_scratch_alloc(&s, 2 * (size_t)n, sizeof *args), e = NULL;
  bool ok = args != NULL;
  for (int i = 0; ok && i < n; i++) {
    PyObject *pair = PyObject_GetAttrString(PyTuple_GetItem(branches, i), "args");
    for (int j = 0; pair && j < 2; j++)
      args[2 * i + j] = py_sympy_from(st, PyTuple_GetItem(pair, j));
    ok = pair && args[2 * i] && args[2 * i + 1];
    Py_XDECREF(pair);
  }
  if (ok) e = wv_expr_op(st->cx, "piecewise", args, 2 * n);
  py_scratch_free(&s);
  return e;
}

static wv_expr from_function(PyState *st, const char *op, PyObject *operands) {
  int n = (int)PyTuple_Size(operands);
  Scratch s = {0};
  wv_expr *args = py_scratch_alloc(&s, (size_t)n, sizeof *args), e = NULL;
  bool ok = args != NULL;
  for (int i = 0; ok && i < n; i++) {
    args[i] = py_sympy_from(st, PyTuple_GetItem(operands, i));
    ok = args[i] != NULL;
  }
  if (ok) e = wv_expr_op(st->cx, op, args, n);
  py_scratch_free(&s);
  return e;
}

static wv_expr refuse_function(PyState *st, const char *name) {
  char text[160];
  snprintf(text, sizeof text, "SymPy's `%s` is not supported in an index expression", name);
  wv_place at;
  if (py_place_here(st, &at))
    py_error_report(st, "E0105", at, text,
                    "use + - * // %, floor, ceiling, Min, Max, Mod, Piecewise and comparisons");
  return NULL;
}

static wv_expr from_call(PyState *st, const char *name, PyObject *operands) {
  if (strcmp(name, "Piecewise") == 0) return from_piecewise(st, operands);
  if (strcmp(name, "UnevaluatedExpr") == 0) return py_sympy_from(st, PyTuple_GetItem(operands, 0));
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strcmp(name, functions[i].theirs) == 0)
      return from_function(st, functions[i].ours, operands);
  return refuse_function(st, name);
}

wv_expr py_sympy_from(PyState *st, PyObject *o) {
  if (!py_sympy_check(o)) return py_expr_from(st, o);
  if (attr_is_true(o, "is_Symbol")) return from_symbol(st, o);
  if (attr_is_true(o, "is_Rational")) return from_rational(st, o);
  PyObject *func = PyObject_GetAttrString(o, "func"), *operands = PyObject_GetAttrString(o, "args");
  PyObject *name = func ? PyObject_GetAttrString(func, "__name__") : NULL;
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  wv_expr e = NULL;
  if (text && operands) {
    if (strcmp(text, "BooleanTrue") == 0) e = wv_bool(st->cx, true);
    else if (strcmp(text, "BooleanFalse") == 0) e = wv_bool(st->cx, false);
    else if (attr_is_true(o, "is_Float")) {
      PyObject *value = PyNumber_Float(o);
      e = value ? py_expr_from(st, value) : NULL;
      Py_XDECREF(value);
    } else e = from_call(st, text, operands);
  }
  Py_XDECREF(func);
  Py_XDECREF(operands);
  Py_XDECREF(name);
  return e;
}

/* ---- to SymPy ------------------------------------------------------------------------------ */

static PyObject *to_symbol(PyObject *sympy, wv_expr e) {
  PyObject *make = PyObject_GetAttrString(sympy, "Symbol");
  PyObject *args = make ? Py_BuildValue("(s)", wv_expr_name(e)) : NULL;
  PyObject *kwargs = !args ? NULL
                     : wv_expr_nonneg(e)
                         ? Py_BuildValue("{sOsO}", "integer", Py_True, "nonnegative", Py_True)
                         : PyDict_New();
  PyObject *r = kwargs ? PyObject_Call(make, args, kwargs) : NULL;
  Py_XDECREF(make);
  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  return r;
}

static PyObject *to_constant(PyObject *sympy, wv_expr e) {
  int64_t num = 0, den = 1;
  wv_expr_constant(e, &num, &den);
  if (wv_expr_is_bool(e)) return PyObject_GetAttrString(sympy, num ? "true" : "false");
  return PyObject_CallMethod(sympy, "Rational", "LL", (long long)num, (long long)den);
}

static PyObject *to_operands(PyState *st, wv_expr e) {
  int n = wv_expr_nargs(e);
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *item = py_sympy_to(st, wv_expr_arg(st->cx, e, i));
    if (!item) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, i, item);
  }
  return tuple;
}

static PyObject *to_piecewise(PyObject *sympy, PyObject *args) {
  PyObject *cond = PyTuple_GetItem(args, 0), *yes = PyTuple_GetItem(args, 1);
  return PyObject_CallMethod(sympy, "Piecewise", "(OO)(OO)", yes, cond, PyTuple_GetItem(args, 2),
                             Py_True);
}

/* SymPy has no bitwise xor of integers: an undefined function of that name is used. */
static PyObject *to_xor(PyObject *sympy, PyObject *args) {
  PyObject *make = PyObject_CallMethod(sympy, "Function", "s", "xor");
  PyObject *r = make ? PyObject_Call(make, args, NULL) : NULL;
  Py_XDECREF(make);
  return r;
}

static PyObject *to_call(PyObject *sympy, const char *kind, PyObject *args) {
  if (strcmp(kind, "select") == 0) return to_piecewise(sympy, args);
  if (strcmp(kind, "xor") == 0) return to_xor(sympy, args);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (strcmp(kind, functions[i].ours) != 0) continue;
    PyObject *make = PyObject_GetAttrString(sympy, functions[i].theirs);
    PyObject *r = make ? PyObject_Call(make, args, NULL) : NULL;
    Py_XDECREF(make);
    return r;
  }
  PyErr_Format(PyExc_TypeError, "`%s` has no counterpart in SymPy", kind);
  return NULL;
}

PyObject *py_sympy_to(PyState *st, wv_expr e) {
  PyObject *sympy = PyImport_ImportModule("sympy"), *r = NULL;
  if (!sympy) return NULL;
  int64_t num, den;
  if (wv_expr_name(e)) r = to_symbol(sympy, e);
  else if (wv_expr_constant(e, &num, &den)) r = to_constant(sympy, e);
  else {
    PyObject *args = to_operands(st, e);
    r = args ? to_call(sympy, wv_expr_kind(e), args) : NULL;
    Py_XDECREF(args);
  }
  Py_DECREF(sympy);
  return r;
}
