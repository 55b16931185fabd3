/* py_construct: Construct, what a schedule function selects and asks for. Nodes are ints. */
#include "ext.h"

typedef struct ConstructObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  PyObject *kernel; /* which it is about */
  wv_construct *c;
} ConstructObject;

static PyState *state_of(PyObject *o) { return ((ConstructObject *)o)->st; }

static wv_construct *self_of(PyObject *o) { return ((ConstructObject *)o)->c; }

PyObject *py_construct_open(PyState *st, PyObject *kernel, PyObject *args) {
  const char *name, *target;
  int direct;
  PyObject *place;
  wv_place at;
  if (!PyArg_ParseTuple(args, "szpO:construct", &name, &target, &direct, &place)) return NULL;
  if (!py_place_from_python(st, place, &at)) return NULL;
  wv_construct *c = wv_construct_open(py_kernel_get(kernel), name, target, direct, at);
  if (!c) return py_error_raise(st);
  ConstructObject *o = PyObject_New(ConstructObject, st->construct_type);
  if (!o) {
    wv_construct_free(c);
    return NULL;
  }
  o->st = st, o->c = c, o->kernel = Py_NewRef(kernel);
  return (PyObject *)o;
}

static void construct_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  wv_construct_free(self_of(self));
  Py_DECREF(((ConstructObject *)self)->kernel);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- lists ---- */

static bool nodes_from(Scratch *s, PyObject *o, wv_nodes *out) {
  PyObject *items = PySequence_Tuple(o);
  if (!items) return false;
  int n = (int)PyTuple_Size(items);
  int *list = py_scratch_alloc(s, (size_t)n + 1, sizeof *list);
  for (int i = 0; list && i < n; i++)
    if (!py_int_from(PyTuple_GetItem(items, i), &list[i])) break;
  *out = (wv_nodes){list, n};
  Py_DECREF(items);
  return list && !PyErr_Occurred();
}

static PyObject *nodes_to(wv_nodes list) {
  PyObject *o = PyList_New(list.n);
  for (int i = 0; o && i < list.n; i++) PyList_SetItem(o, i, PyLong_FromLong(list.at[i]));
  return o;
}

/* The result of a call that may have reported, or set an exception before it was made. */
static PyObject *finish(PyObject *self, Scratch *s, bool ok, const wv_nodes *lists, int n) {
  PyObject *o = NULL;
  if (!ok && !PyErr_Occurred()) py_error_raise(state_of(self));
  if (ok && n == 1) o = nodes_to(lists[0]);
  if (ok && n != 1) o = PyTuple_New(n);
  for (int i = 0; o && n != 1 && i < n; i++) PyTuple_SetItem(o, i, nodes_to(lists[i]));
  py_scratch_free(s);
  return o;
}

static PyObject *finish_none(PyObject *self, Scratch *s, bool ok) {
  py_scratch_free(s);
  if (!ok && !PyErr_Occurred()) py_error_raise(state_of(self));
  return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- selecting ---- */

static PyObject *find(PyObject *self, PyObject *args) {
  PyObject *tags, *items;
  int exact;
  wv_place at;
  wv_nodes found = {0};
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "Op:find", &tags, &exact)) return NULL;
  if (!py_place_here(state_of(self), &at) || !(items = PySequence_Tuple(tags))) return NULL;
  int n = (int)PyTuple_Size(items);
  const char **texts = py_scratch_alloc(&s, (size_t)n + 1, sizeof *texts);
  bool ok = texts != NULL;
  for (int i = 0; ok && i < n; i++)
    ok = (texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(items, i), NULL)) != NULL;
  ok = ok && wv_construct_find(self_of(self), texts, n, exact, at, &found);
  PyObject *o = finish(self, &s, ok, &found, 1);
  Py_DECREF(items);
  return o;
}

static PyObject *filter(PyObject *self, PyObject *args) {
  PyObject *nodes;
  const char *segment, *type;
  int unrolled;
  wv_place at;
  wv_nodes from, found = {0};
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "Oszi:filter", &nodes, &segment, &type, &unrolled)) return NULL;
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok = nodes_from(&s, nodes, &from) &&
            wv_construct_filter(self_of(self), from, segment, type, unrolled, at, &found);
  return finish(self, &s, ok, &found, 1);
}

static PyObject *by_space(PyObject *self, PyObject *args) {
  PyObject *nodes;
  const char *space;
  wv_place at;
  wv_nodes from, found[2] = {{0}};
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "Os:by_space", &nodes, &space)) return NULL;
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok =
      nodes_from(&s, nodes, &from) && wv_construct_by_space(self_of(self), from, space, at, found);
  return finish(self, &s, ok, found, 2);
}

static PyObject *by_dim(PyObject *self, PyObject *args) {
  PyObject *nodes, *dim;
  int parts;
  wv_place at;
  wv_nodes from;
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "OOi:by_dim", &nodes, &dim, &parts)) return NULL;
  if (!py_place_here(state_of(self), &at)) return NULL;
  wv_expr along = py_expr_from(state_of(self), dim);
  bool valid = parts > 0 && parts <= 1 << 16;
  wv_nodes *found = py_scratch_alloc(&s, valid ? (size_t)parts : 1, sizeof *found);
  bool ok = along && found && nodes_from(&s, nodes, &from) &&
            wv_construct_by_dim(self_of(self), from, along, parts, at, found);
  PyObject *list = ok ? PyList_New(parts) : NULL;
  for (int i = 0; list && i < parts; i++) PyList_SetItem(list, i, nodes_to(found[i]));
  if (!ok && !PyErr_Occurred()) py_error_raise(state_of(self));
  py_scratch_free(&s);
  return list;
}

/* ---- stages ---- */

static PyObject *pipeline(PyObject *self, PyObject *loop) {
  wv_place at;
  wv_nodes nodes;
  Scratch s = {0};
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok = nodes_from(&s, loop, &nodes);
  int number = ok ? wv_construct_pipeline(self_of(self), nodes, at) : -1;
  py_scratch_free(&s);
  if (!ok) return NULL;
  return number < 0 ? py_error_raise(state_of(self)) : PyLong_FromLong(number);
}

static PyObject *stage(PyObject *self, PyObject *args) {
  int number;
  PyObject *cycles, *items;
  wv_place at;
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "iO:stage", &number, &cycles)) return NULL;
  if (!py_place_here(state_of(self), &at) || !(items = PySequence_Tuple(cycles))) return NULL;
  int n = (int)PyTuple_Size(items);
  wv_nodes *lists = py_scratch_alloc(&s, (size_t)n + 1, sizeof *lists);
  bool ok = lists != NULL;
  for (int i = 0; ok && i < n; i++) ok = nodes_from(&s, PyTuple_GetItem(items, i), &lists[i]);
  ok = ok && wv_construct_stage(self_of(self), number, lists, n, at);
  Py_DECREF(items);
  return finish_none(self, &s, ok);
}

static PyObject *close_pipeline(PyObject *self, PyObject *args) {
  int number, slots, masked;
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "iip:close", &number, &slots, &masked)) return NULL;
  return finish_none(self, &s, wv_construct_close(self_of(self), number, slots, masked));
}

static PyObject *copies(PyObject *self, PyObject *nodes) {
  wv_nodes from, found = {0};
  Scratch s = {0};
  bool ok = nodes_from(&s, nodes, &from) && wv_construct_copies(self_of(self), from, &found);
  return finish(self, &s, ok, &found, 1);
}

static PyObject *unroll(PyObject *self, PyObject *args) {
  PyObject *loop;
  int factor;
  wv_place at;
  wv_nodes nodes;
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "Oi:unroll", &loop, &factor)) return NULL;
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok = nodes_from(&s, loop, &nodes) && wv_construct_unroll(self_of(self), nodes, factor, at);
  return finish_none(self, &s, ok);
}

/* ---- order ---- */

static bool group_from(Scratch *s, PyObject *o, wv_interleaved *out) {
  PyObject *ops, *after;
  return PyArg_ParseTuple(o, "OiiO:interleave", &ops, &out->interval, &out->offset, &after) &&
         nodes_from(s, ops, &out->ops) && nodes_from(s, after, &out->after);
}

/* interleave(base, [(ops, interval, offset, after)]) */
static PyObject *interleave(PyObject *self, PyObject *args) {
  PyObject *base, *groups, *items;
  wv_place at;
  wv_nodes from, found = {0};
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "OO:interleave", &base, &groups)) return NULL;
  if (!py_place_here(state_of(self), &at) || !(items = PySequence_Tuple(groups))) return NULL;
  int n = (int)PyTuple_Size(items);
  wv_interleaved *list = py_scratch_alloc(&s, (size_t)n + 1, sizeof *list);
  bool ok = list && nodes_from(&s, base, &from);
  for (int i = 0; ok && i < n; i++) ok = group_from(&s, PyTuple_GetItem(items, i), &list[i]);
  ok = ok && wv_construct_interleave(self_of(self), from, list, n, at, &found);
  PyObject *o = finish(self, &s, ok, &found, 1);
  Py_DECREF(items);
  return o;
}

/* A call of wave.h with a list of nodes and the user's place. */
static PyObject *with_nodes(PyObject *self, PyObject *nodes,
                            bool call(wv_construct *, wv_nodes, wv_place)) {
  wv_place at;
  wv_nodes list;
  Scratch s = {0};
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok = nodes_from(&s, nodes, &list) && call(self_of(self), list, at);
  return finish_none(self, &s, ok);
}

static PyObject *reorder(PyObject *self, PyObject *nodes) {
  return with_nodes(self, nodes, wv_construct_reorder);
}

static PyObject *stagger(PyObject *self, PyObject *nodes) {
  return with_nodes(self, nodes, wv_construct_stagger);
}

/* cluster([node or (type, value, arguments)]) */
static bool item_from(PyObject *o, wv_cluster_item *out) {
  *out = (wv_cluster_item){.node = -1};
  if (PyTuple_Check(o))
    return PyArg_ParseTuple(o, "sis:cluster", &out->type, &out->value, &out->given);
  long node = PyLong_AsLong(o);
  out->node = node < 0 || node > INT32_MAX ? INT32_MAX : (int)node;
  return !PyErr_Occurred();
}

static PyObject *cluster(PyObject *self, PyObject *items) {
  wv_place at;
  Scratch s = {0};
  if (!py_place_here(state_of(self), &at) || !(items = PySequence_Tuple(items))) return NULL;
  int n = (int)PyTuple_Size(items);
  wv_cluster_item *list = py_scratch_alloc(&s, (size_t)n + 1, sizeof *list);
  bool ok = list != NULL;
  for (int i = 0; ok && i < n; i++) ok = item_from(PyTuple_GetItem(items, i), &list[i]);
  ok = ok && wv_construct_cluster(self_of(self), list, n, at);
  Py_DECREF(items);
  return finish_none(self, &s, ok);
}

static PyObject *insert(PyObject *self, PyObject *args) {
  wv_cluster_item op = {.node = -1};
  const char *where;
  PyObject *nodes;
  wv_nodes list;
  wv_place at;
  Scratch s = {0};
  if (!PyArg_ParseTuple(args, "(sis)zO:insert", &op.type, &op.value, &op.given, &where, &nodes))
    return NULL;
  if (!py_place_here(state_of(self), &at)) return NULL;
  bool ok =
      nodes_from(&s, nodes, &list) && wv_construct_insert(self_of(self), &op, where, list, at);
  return finish_none(self, &s, ok);
}

/* ---- the rest ---- */

static PyObject *parts_of(PyState *st, const wv_node *node) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict && i < node->nparts; i++) {
    PyObject *dim = py_expr_new(st, node->dims[i]), *at = PyLong_FromLong(node->parts[i]);
    if (!dim || !at || PyDict_SetItem(dict, dim, at) < 0) Py_CLEAR(dict);
    Py_XDECREF(dim);
    Py_XDECREF(at);
  }
  return dict;
}

static PyObject *describe(PyObject *self, PyObject *number) {
  wv_node node;
  long i = PyLong_AsLong(number);
  if (i == -1 && PyErr_Occurred()) return NULL;
  if (!wv_construct_node(self_of(self), (int)i, &node)) return py_error_raise(state_of(self));
  PyObject *parts = parts_of(state_of(self), &node);
  if (!parts) return NULL;
  return Py_BuildValue("(sssiiN)", node.name, node.op, node.segment, node.stage, node.unrolled,
                       parts);
}

static PyObject *apply(PyObject *self, PyObject *Py_UNUSED(none)) {
  Scratch s = {0};
  return finish_none(self, &s, wv_construct_apply(self_of(self)));
}

static PyMethodDef construct_methods[] = {
    {"find", find, METH_VARARGS, "find(tags, exact): nodes with these tags."},
    {"filter", filter, METH_VARARGS,
     "filter(nodes, segment, type or None, unrolled or -1): those of them."},
    {"by_space", by_space, METH_VARARGS, "by_space(nodes, space) -> (those in it, the others)"},
    {"by_dim", by_dim, METH_VARARGS, "by_dim(nodes, dim, parts) -> a list of lists"},
    {"pipeline", pipeline, METH_O, "pipeline(loop) -> its number"},
    {"stage", stage, METH_VARARGS, "stage(pipeline, cycles): adds a stage, a list per cycle."},
    {"close", close_pipeline, METH_VARARGS,
     "close(pipeline, slots, masked): checks its stages; slots 0: left to the compiler."},
    {"copies", copies, METH_O, "copies(nodes): with those in prologue and epilogue."},
    {"unroll", unroll, METH_VARARGS, "unroll(loop, factor)"},
    {"interleave", interleave, METH_VARARGS,
     "interleave(base, [(nodes, interval, offset, groups before it)])"},
    {"reorder", reorder, METH_O, "reorder(nodes): their order in an iteration."},
    {"cluster", cluster, METH_O,
     "cluster([node or (type, value, arguments)]): nodes and ops that are inserted, in order."},
    {"insert", insert, METH_VARARGS,
     "insert((type, value, arguments), where or None, nodes): an op that is inserted there."},
    {"stagger", stagger, METH_O, "stagger(loop)"},
    {"describe", describe, METH_O,
     "describe(node) -> (name, op, segment, stage, unrolled, {dim: position})"},
    {"apply", apply, METH_NOARGS, "Adds rows to the kernel that say the same, and a remark."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot construct_slots[] = {
    {Py_tp_doc, "What a schedule function selects and asks for. Nodes are numbers."},
    {Py_tp_dealloc, construct_dealloc},
    {Py_tp_methods, construct_methods},
    {0, NULL}};

static PyType_Spec construct_spec = {"wave_lang.Construct", sizeof(ConstructObject), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     construct_slots};

int py_construct_init(PyObject *module, PyState *st) {
  st->construct_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &construct_spec, NULL);
  if (!st->construct_type) return -1;
  return PyModule_AddType(module, st->construct_type);
}
