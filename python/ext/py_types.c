/* py_types: types, mappings, attributes and constraint rows from the objects that describe them. */
#include "ext.h"

/* The UTF-8 text of a str, copied into scratch; TypeError otherwise. */
static const char *text_from(Scratch *s, PyObject *o) {
  Py_ssize_t n;
  const char *text = PyUnicode_AsUTF8AndSize(o, &n);
  char *copy = text ? py_scratch_alloc(s, (size_t)n + 1, 1) : NULL;
  if (copy) memcpy(copy, text, (size_t)n);
  return copy;
}

static bool int_from(PyObject *o, int64_t *out) {
  PyObject *index = PyNumber_Index(o);
  *out = index ? PyLong_AsLongLong(index) : 0;
  Py_XDECREF(index);
  return !PyErr_Occurred();
}

bool py_int_from(PyObject *o, int *out) {
  int64_t n;
  if (!int_from(o, &n)) return false;
  *out = (int)n;
  if (*out == n) return true;
  PyErr_Format(PyExc_OverflowError, "%R does not fit in 32 bits", o);
  return false;
}

/* ---- types --------------------------------------------------------------------------------- */

/* Physical extents; None entries take the tensor's own. */
static bool layout_from(PyState *st, Scratch *s, PyObject *o, int rank, const wv_expr **out) {
  *out = NULL;
  if (!o || o == Py_None) return true;
  PyObject *items = PySequence_Tuple(o);
  if (!items) return false;
  bool ok = PyTuple_Size(items) == rank;
  if (!ok)
    PyErr_Format(PyExc_TypeError, "MemoryLayout has %zd entries for %d dimensions",
                 PyTuple_Size(items), rank);
  wv_expr *list = ok ? py_scratch_alloc(s, (size_t)rank, sizeof *list) : NULL;
  for (int i = 0; list && i < rank; i++) {
    PyObject *item = PyTuple_GetItem(items, i);
    if (item != Py_None && !(list[i] = py_expr_from(st, item))) list = NULL;
  }
  Py_DECREF(items);
  *out = list;
  return list != NULL;
}

static bool mem_from(PyState *st, Scratch *s, PyObject *tuple, const wv_expr *dims, int rank,
                     const char *dtype, wv_type *out) {
  PyObject *space = PyTuple_GetItem(tuple, 2);
  PyObject *physical = PyTuple_Size(tuple) > 3 ? PyTuple_GetItem(tuple, 3) : NULL;
  const wv_expr *layout;
  wv_expr where = space == Py_None ? NULL : py_expr_from(st, space);
  if (PyErr_Occurred() || !layout_from(st, s, physical, rank, &layout)) return false;
  *out = wv_mem_type(st->cx, dims, rank, dtype, where, layout);
  return true;
}

bool py_type_from(PyState *st, Scratch *s, PyObject *o, wv_type *out) {
  *out = NULL;
  if (!o || o == Py_None) return true;
  if (!PyTuple_Check(o)) {
    const char *name = py_dtype_name(st, o);
    *out = name ? wv_scalar_type(st->cx, name) : NULL;
  } else {
    int rank = 0;
    const wv_expr *dims = py_expr_list(st, s, PyTuple_GetItem(o, 0), &rank);
    const char *dtype = dims ? py_dtype_name(st, PyTuple_GetItem(o, 1)) : NULL;
    if (!dtype) return false;
    if (PyTuple_Size(o) > 2) {
      if (!mem_from(st, s, o, dims, rank, dtype, out)) return false;
    } else if (rank == 0) *out = wv_scalar_type(st->cx, dtype);
    else *out = wv_tile_type(st->cx, dims, rank, dtype);
  }
  if (!*out) py_error_raise_here(st);
  return *out != NULL;
}

PyObject *py_type_dims(PyState *st, wv_type t) {
  int n = wv_type_rank(t);
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *item = py_expr_new(st, wv_type_dim(t, i));
    if (!item) Py_CLEAR(tuple);
    else PyTuple_SetItem(tuple, i, item);
  }
  return tuple;
}

/* ---- mappings and matrix instructions ------------------------------------------------------ */

static const wv_pair *pairs_attr(PyState *st, Scratch *s, PyObject *o, const char *name, int *n) {
  PyObject *dict = PyObject_GetAttrString(o, name);
  const wv_pair *pairs = dict ? py_expr_pairs(st, s, dict, n) : NULL;
  Py_XDECREF(dict);
  return pairs;
}

static bool dynamic_from(PyState *st, Scratch *s, PyObject *list, wv_mapping *out) {
  out->ndynamic = (int)PyTuple_Size(list);
  const wv_pair **pairs = py_scratch_alloc(s, (size_t)out->ndynamic, sizeof *pairs);
  int *counts = py_scratch_alloc(s, (size_t)out->ndynamic, sizeof *counts);
  for (int i = 0; pairs && counts && i < out->ndynamic; i++) {
    pairs[i] = py_expr_pairs(st, s, PyTuple_GetItem(list, i), &counts[i]);
    if (!pairs[i]) return false;
  }
  out->dynamic = pairs;
  out->ndynamic_pairs = counts;
  return pairs && counts;
}

/* An IndexMapping. */
bool py_mapping_from(PyState *st, Scratch *s, PyObject *o, wv_mapping *out) {
  *out = (wv_mapping){0};
  PyObject *count = PyObject_GetAttrString(o, "num_iterators");
  PyObject *dynamic = PyObject_GetAttrString(o, "dynamic_val_mappings");
  if (!count || !dynamic) PyErr_Clear();
  bool ok = count && dynamic && py_int_from(count, &out->niterators) && PyTuple_Check(dynamic);
  ok = ok && (out->inputs = pairs_attr(st, s, o, "input_mapping", &out->ninputs));
  ok = ok && (out->outputs = pairs_attr(st, s, o, "output_mapping", &out->noutputs));
  ok = ok && dynamic_from(st, s, dynamic, out);
  Py_XDECREF(count);
  Py_XDECREF(dynamic);
  if (!ok && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "mapping: expected an IndexMapping, got %R",
                 (PyObject *)Py_TYPE(o));
  return ok;
}

static bool int_attr(PyObject *o, const char *name, int *out) {
  PyObject *v = PyObject_GetAttrString(o, name);
  bool ok = v && py_int_from(v, out);
  Py_XDECREF(v);
  return ok;
}

/* A name, or an object with the fields of GenericDot. The name must outlive the result. */
bool py_mma_from(PyState *st, PyObject *o, wv_mma *out) {
  (void)st;
  *out = (wv_mma){0};
  if (o == Py_None) return true;
  if (PyUnicode_Check(o)) return (out->name = PyUnicode_AsUTF8AndSize(o, NULL)) != NULL;
  PyObject *along = PyObject_GetAttrString(o, "along");
  const char *letter = along ? PyUnicode_AsUTF8AndSize(along, NULL) : NULL;
  if (letter) out->along = letter[0];
  bool ok = letter && int_attr(o, "out_vec_size", &out->out_vec) &&
            int_attr(o, "k_vec_size", &out->k_vec) && int_attr(o, "k_mult", &out->k_mult);
  Py_XDECREF(along);
  return ok;
}

/* ---- attributes ---------------------------------------------------------------------------- */

typedef enum Kind {
  NUMBER,
  EXPR,
  DIMS,
  INT,
  FLAG,
  TEXT,
  TEXTS,
  BOUNDS,
  MAPPING,
  MMA,
  COUNTS,
  ITERS
} Kind;

/* The attributes that the front end writes; wave.h says which field each kind fills. */
static const struct {
  const char *key;
  Kind kind;
} attr_kinds[] = {
    {"value", NUMBER},     {"cap", NUMBER},       {"expr", EXPR},    {"dim", EXPR},
    {"k_dim", EXPR},       {"axis", EXPR},        {"symbol", EXPR},  {"ept", EXPR},
    {"physical", DIMS},    {"offset", DIMS},      {"size", DIMS},    {"stride", DIMS},
    {"target", DIMS},      {"step", INT},         {"pos", INT},      {"head", INT},
    {"bar", INT},          {"prio", INT},         {"sync", INT},     {"from", FLAG},
    {"volatile", FLAG},    {"nontemporal", FLAG}, {"block", FLAG},   {"grid", FLAG},
    {"wait_async", FLAG},
    {"wait_tensor", FLAG}, {"no_ds_wait", FLAG},  {"label", TEXT},   {"ptx", TEXT},
    {"meaning", FLAG},     {"types", TEXT},       {"which", INT},    {"tag", TEXTS},
    {"until", BOUNDS},
    {"bounds", BOUNDS},    {"mapping", MAPPING},  {"mma", MMA},      {"counters", COUNTS},
    {"classes", COUNTS},   {"iters", ITERS},      {"other", NUMBER},
};

/* A float is a number; anything else is an expression, so that integers stay exact. */
static bool number_attr(PyState *st, PyObject *v, wv_attr *out) {
  if (PyFloat_Check(v)) {
    out->number = PyFloat_AsDouble(v);
    return true;
  }
  return (out->expr = py_expr_from(st, v)) != NULL;
}

static bool texts_attr(Scratch *s, PyObject *v, wv_attr *out) {
  PyObject *items = PyUnicode_Check(v) ? PyTuple_Pack(1, v) : PySequence_Tuple(v);
  if (!items) return false;
  out->n = (int)PyTuple_Size(items);
  const char **list = py_scratch_alloc(s, (size_t)out->n, sizeof *list);
  for (int i = 0; list && i < out->n; i++)
    if (!(list[i] = text_from(s, PyTuple_GetItem(items, i)))) list = NULL;
  Py_DECREF(items);
  out->texts = list;
  return list != NULL;
}

static bool counts_attr(Scratch *s, PyObject *v, wv_attr *out) {
  PyObject *items = PyMapping_Items(v);
  if (!items) return false;
  out->n = (int)PyList_Size(items);
  wv_count *list = py_scratch_alloc(s, (size_t)out->n, sizeof *list);
  for (int i = 0; list && i < out->n; i++) {
    PyObject *item = PyList_GetItem(items, i);
    list[i].name = text_from(s, PyTuple_GetItem(item, 0));
    if (!list[i].name || !int_from(PyTuple_GetItem(item, 1), &list[i].count)) list = NULL;
  }
  Py_DECREF(items);
  out->counts = list;
  return list != NULL;
}

static bool mapping_attr(PyState *st, Scratch *s, PyObject *v, wv_attr *out) {
  wv_mapping *m = py_scratch_alloc(s, 1, sizeof *m);
  out->mapping = m;
  return m && py_mapping_from(st, s, v, m);
}

static bool mma_attr(PyState *st, Scratch *s, PyObject *v, wv_attr *out) {
  wv_mma *m = py_scratch_alloc(s, 1, sizeof *m);
  out->mma = m;
  return m && py_mma_from(st, v, m);
}

static bool fill_attr(PyState *st, Scratch *s, Kind kind, PyObject *v, wv_attr *out) {
  switch (kind) {
  case NUMBER: return number_attr(st, v, out);
  case EXPR: return (out->expr = py_expr_from(st, v)) != NULL;
  case DIMS: return (out->exprs = py_expr_list(st, s, v, &out->n)) != NULL;
  case INT: return int_from(v, &out->integer);
  case FLAG: return true;
  case TEXT: return (out->text = text_from(s, v)) != NULL;
  case TEXTS: return texts_attr(s, v, out);
  case BOUNDS: return (out->pairs = py_expr_pairs(st, s, v, &out->n)) != NULL;
  case MAPPING: return mapping_attr(st, s, v, out);
  case MMA: return mma_attr(st, s, v, out);
  case COUNTS: return counts_attr(s, v, out);
  case ITERS: /* a flat list, three per entry */
    if (!(out->exprs = py_expr_list(st, s, v, &out->n))) return false;
    out->n /= 3;
    return true;
  }
  return false;
}

static bool attr_from(PyState *st, Scratch *s, PyObject *key, PyObject *v, wv_attr *out) {
  const char *name = text_from(s, key);
  for (size_t i = 0; name && i < sizeof attr_kinds / sizeof *attr_kinds; i++) {
    if (strcmp(name, attr_kinds[i].key) != 0) continue;
    out->key = attr_kinds[i].key;
    return fill_attr(st, s, attr_kinds[i].kind, v, out);
  }
  if (name) PyErr_Format(PyExc_KeyError, "no attribute `%s`", name);
  return false;
}

/* None, and False for a flag, mean that the attribute is absent. */
bool py_attrs_from(PyState *st, Scratch *s, PyObject *dict, const wv_attr **out, int *n) {
  *out = NULL;
  *n = 0;
  if (!dict || dict == Py_None) return true;
  if (!PyDict_Check(dict)) return PyErr_SetString(PyExc_TypeError, "attributes are a dict"), false;
  wv_attr *list = py_scratch_alloc(s, (size_t)PyDict_Size(dict), sizeof *list);
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; list && PyDict_Next(dict, &pos, &key, &value);) {
    if (value == Py_None || value == Py_False) continue;
    if (!attr_from(st, s, key, value, &list[(*n)++])) return false;
  }
  *out = list;
  return list != NULL;
}

/* ---- constraints --------------------------------------------------------------------------- */

/* row[key] as an expression; absent and None leave *out unchanged. */
static bool row_expr(PyState *st, PyObject *row, const char *key, wv_expr *out) {
  PyObject *v = PyDict_GetItemString(row, key);
  if (!v || v == Py_None) return true;
  return (*out = py_expr_from(st, v)) != NULL;
}

static bool row_int(PyObject *row, const char *key, int *out) {
  PyObject *v = PyDict_GetItemString(row, key);
  return !v || v == Py_None || py_int_from(v, out);
}

static bool row_triple(PyState *st, Scratch *s, PyObject *row, const char *key, wv_expr out[3]) {
  PyObject *v = PyDict_GetItemString(row, key);
  int n = 0;
  if (!v || v == Py_None) return true;
  const wv_expr *list = py_expr_list(st, s, v, &n);
  for (int i = 0; list && i < 3; i++) out[i] = i < n ? list[i] : wv_int(st->cx, 1);
  return list != NULL;
}

static bool row_pairs(PyState *st, Scratch *s, PyObject *row, wv_constraint *out) {
  PyObject *v = PyDict_GetItemString(row, "pairs");
  if (!v || v == Py_None) return true;
  return (out->pairs = py_expr_pairs(st, s, v, &out->npairs)) != NULL;
}

bool py_constraint_from(PyState *st, Scratch *s, PyObject *row, wv_constraint *out) {
  *out = (wv_constraint){0};
  if (!PyDict_Check(row) || !PyDict_GetItemString(row, "kind"))
    return PyErr_SetString(PyExc_TypeError, "a row is a dict with a `kind`"), false;
  PyObject *kind = PyDict_GetItemString(row, "kind"), *at = PyDict_GetItemString(row, "at");
  PyObject *mma = PyDict_GetItemString(row, "mma");
  int secondary = 0;
  if (!(out->kind = text_from(s, kind))) return false;
  bool ok = py_place_from_python(st, at, &out->at) && row_expr(st, row, "dim", &out->dim) &&
            row_expr(st, row, "size", &out->size) && row_expr(st, row, "start", &out->start) &&
            row_expr(st, row, "count", &out->count) && row_expr(st, row, "expr", &out->expr) &&
            row_int(row, "axis", &out->axis) && row_int(row, "secondary", &secondary) &&
            row_int(row, "threads", &out->threads) && row_int(row, "load_bits", &out->load_bits) &&
            row_int(row, "service_waves", &out->service_waves) &&
            row_triple(st, s, row, "waves", out->waves) &&
            row_triple(st, s, row, "cluster", out->cluster) && row_pairs(st, s, row, out);
  out->secondary = secondary != 0;
  return ok && (!mma || py_mma_from(st, mma, &out->mma));
}
