/* py_kernel: Kernel, a finished and verified kernel: printed, compared, constrained, lowered. */
#include "ext.h"

typedef struct KernelObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  wv_ctx *cx; /* the context of the kernel: no longer the module's after an internal error */
  wv_kernel *k;
  wv_kernel *before; /* the one it was copied from in that case; NULL: none */
} KernelObject;

/* A kernel that was being changed when the error happened cannot be copied: it stays in the old
 * context, and all further calls on it fail. */
static wv_kernel *self_of(PyObject *o) {
  KernelObject *self = (KernelObject *)o;
  if (self->cx == self->st->cx) return self->k;
  wv_kernel *copy = wv_kernel_copy(self->k, self->st->cx);
  if (!copy) return self->k;
  wv_kernel_free(self->before);
  self->before = self->k;
  self->k = copy;
  self->cx = self->st->cx;
  return copy;
}

static PyState *state_of(PyObject *o) { return ((KernelObject *)o)->st; }

PyObject *py_kernel_new(PyState *st, wv_kernel *k) {
  KernelObject *o = PyObject_New(KernelObject, st->kernel_type);
  if (!o) {
    wv_kernel_free(k);
    return NULL;
  }
  o->st = st;
  o->cx = st->cx;
  o->k = k;
  o->before = NULL;
  return (PyObject *)o;
}

wv_kernel *py_kernel_get(PyObject *o) { return self_of(o); }

static void kernel_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  wv_kernel_free(((KernelObject *)self)->k);
  wv_kernel_free(((KernelObject *)self)->before);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- looking ------------------------------------------------------------------------------- */

static PyObject *kernel_str(PyObject *self) {
  char *text = wv_print(self_of(self));
  PyObject *o = text ? PyUnicode_FromString(text) : py_error_raise(state_of(self));
  wv_free(text);
  return o;
}

static PyObject *kernel_repr(PyObject *self) {
  return PyUnicode_FromFormat("<kernel %s>", wv_kernel_name(self_of(self)));
}

static PyObject *kernel_compare(PyObject *a, PyObject *b, int op) {
  if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(wv_equal(self_of(a), self_of(b)) == (op == Py_EQ));
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(unused)) {
  return PyUnicode_FromString(wv_kernel_name(self_of(self)));
}

static PyStructSequence_Field param_fields[] = {
    {"name", "its name in the function"},
    {"kind", "'mem' for a tensor, 'scalar' for a number"},
    {"shape", "its dimensions, as expressions"},
    {"dtype", "its element type"},
    {"space", "the declared address space, or None"},
    {"is_output", "whether the kernel writes it"},
    {"is_read", "whether results depend on its previous contents: it is read, or added to"},
    {NULL, NULL}};

static PyStructSequence_Desc param_desc = {"wave_lang.Parameter", "A parameter of a kernel.",
                                           param_fields, 7};

static PyObject *param_to(PyState *st, wv_kernel *k, int i) {
  const char *name;
  wv_type t;
  bool output;
  if (!wv_kernel_param(k, i, &name, &t, &output)) return py_error_raise(st);
  wv_expr where = wv_type_space(t);
  PyObject *items[] = {PyUnicode_FromString(name),
                       PyUnicode_FromString(wv_type_kind(t)),
                       py_type_dims(st, t),
                       py_dtype_find(st, wv_type_dtype(t)),
                       where ? py_expr_new(st, where) : Py_NewRef(Py_None),
                       PyBool_FromLong(output),
                       PyBool_FromLong(wv_kernel_param_is_read(k, i))};
  return py_record(st->param_type, items, 7);
}

static PyObject *get_level(PyObject *self, void *Py_UNUSED(unused)) {
  return PyUnicode_FromString(wv_kernel_level(self_of(self)));
}

static PyObject *get_params(PyObject *self, void *Py_UNUSED(unused)) {
  int n = wv_kernel_nparams(self_of(self));
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *item = param_to(state_of(self), self_of(self), i);
    if (!item) Py_CLEAR(list);
    else PyList_SetItem(list, i, item);
  }
  return list;
}

static PyObject *three(PyState *st, const wv_expr *e) {
  PyObject *items[3];
  for (int i = 0; i < 3; i++) items[i] = py_expr_new(st, e[i]);
  return Py_BuildValue("(NNN)", items[0], items[1], items[2]);
}

static PyObject *get_launch_shape(PyObject *self, void *Py_UNUSED(unused)) {
  PyState *st = state_of(self);
  wv_launch_shape shape = wv_kernel_launch_shape(self_of(self));
  return Py_BuildValue("(NNi)", three(st, shape.grid), three(st, shape.threads), shape.shared);
}

static PyObject *get_is_open(PyObject *self, void *Py_UNUSED(unused)) {
  return PyBool_FromLong(wv_kernel_is_open(self_of(self)));
}

static PyGetSetDef kernel_getset[] = {
    {"name", get_name, NULL, "The name of the traced function.", NULL},
    {"level", get_level, NULL, "'tile', or 'thread': one lane's program.", NULL},
    {"params", get_params, NULL, "A Parameter for each of them.", NULL},
    {"launch_shape", get_launch_shape, NULL,
     "(workgroups, threads per workgroup, bytes of shared memory), the first two per dimension.",
     NULL},
    {"is_open", get_is_open, NULL,
     "Whether it is compiled when it is called: its tile sizes are not known earlier.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- changing ------------------------------------------------------------------------------ */

static PyObject *kernel_clone(PyObject *self, PyObject *Py_UNUSED(none)) {
  wv_kernel *k = wv_kernel_clone(self_of(self));
  return k ? py_kernel_new(state_of(self), k) : py_error_raise(state_of(self));
}

static PyObject *kernel_constrain(PyObject *self, PyObject *rows) {
  PyState *st = state_of(self);
  PyObject *items = PySequence_Tuple(rows);
  if (!items) return NULL;
  Scratch s = {0};
  int n = (int)PyTuple_Size(items);
  wv_constraint *list = py_scratch_alloc(&s, (size_t)n, sizeof *list);
  bool ok = list != NULL;
  for (int i = 0; ok && i < n; i++)
    ok = py_constraint_from(st, &s, PyTuple_GetItem(items, i), &list[i]);
  bool added = ok && wv_kernel_constrain(self_of(self), list, n);
  py_scratch_free(&s);
  Py_DECREF(items);
  if (!ok) return NULL;
  if (!added) return py_error_raise(st);
  Py_RETURN_NONE;
}

/* fit(values) */
static PyObject *kernel_fit(PyObject *self, PyObject *values) {
  PyState *st = state_of(self);
  Scratch s = {0};
  int n = 0;
  wv_binding *list = py_expr_bindings(st, &s, values, &n);
  wv_kernel *made = list ? wv_kernel_fit(self_of(self), list, n) : NULL;
  py_scratch_free(&s);
  if (!list) return NULL;
  return made ? py_kernel_new(st, made) : py_error_raise(st);
}

static PyObject *kernel_verify(PyObject *self, PyObject *Py_UNUSED(none)) {
  if (!wv_verify(self_of(self))) return py_error_raise(state_of(self));
  Py_RETURN_NONE;
}

static PyObject *kernel_proof(PyObject *self, PyObject *Py_UNUSED(none)) {
  return py_proof_of(state_of(self), self_of(self));
}

/* schedule_as(target, form) */
static PyObject *kernel_schedule_as(PyObject *self, PyObject *args) {
  const char *target, *form;
  if (!PyArg_ParseTuple(args, "ss:schedule_as", &target, &form)) return NULL;
  char *text = wv_schedule_as(self_of(self), target, form);
  if (!text) return py_error_raise(state_of(self));
  PyObject *o = PyUnicode_FromString(text);
  wv_free(text);
  return o;
}

/* schedules(target, n) */
static PyObject *kernel_schedules(PyObject *self, PyObject *args) {
  const char *target;
  int most;
  if (!PyArg_ParseTuple(args, "si", &target, &most)) return NULL;
  if (most < 0)
    return PyErr_SetString(PyExc_ValueError, "a number of schedules is not negative"), NULL;
  char **texts = PyMem_Calloc((size_t)most + 1, sizeof *texts);
  if (!texts) return PyErr_NoMemory();
  int n = wv_schedules(self_of(self), target, most, texts);
  PyObject *list = n < 0 ? py_error_raise(state_of(self)) : PyList_New(n);
  for (int i = 0; i < n; i++) {
    PyObject *text = list ? PyUnicode_FromString(texts[i]) : NULL;
    if (list && (!text || PyList_SetItem(list, i, text) < 0)) Py_CLEAR(list);
    wv_free(texts[i]);
  }
  PyMem_Free(texts);
  return list;
}

/* explain(target, form) */
static PyObject *kernel_explain(PyObject *self, PyObject *args) {
  const char *target, *form;
  if (!PyArg_ParseTuple(args, "ss:explain", &target, &form)) return NULL;
  char *text = wv_decisions(self_of(self), target, form);
  if (!text) return py_error_raise(state_of(self));
  PyObject *o = PyUnicode_FromString(text);
  wv_free(text);
  return o;
}

/* choices(target, n) */
static PyObject *kernel_choices(PyObject *self, PyObject *args) {
  const char *target;
  int most;
  if (!PyArg_ParseTuple(args, "si:choices", &target, &most)) return NULL;
  char *text = wv_choices(self_of(self), target, most);
  if (!text) return py_error_raise(state_of(self));
  PyObject *o = PyUnicode_FromString(text);
  wv_free(text);
  return o;
}

/* timeline_as(target, form, stamps) */
static PyObject *kernel_timeline_as(PyObject *self, PyObject *args) {
  const char *target, *form;
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "ssy*:timeline_as", &target, &form, &data)) return NULL;
  wv_stamps stamps = {data.buf, (int64_t)(data.len / (Py_ssize_t)sizeof(int64_t))};
  char *text = wv_timeline_as(self_of(self), target, form, stamps);
  PyBuffer_Release(&data);
  if (!text) return py_error_raise(state_of(self));
  PyObject *o = PyUnicode_FromString(text);
  wv_free(text);
  return o;
}

static PyObject *kernel_run_passes(PyObject *self, PyObject *args, PyObject *named) {
  static char *words[] = {"target", "passes", "stop_after", "start_after", NULL};
  wv_pass_options o = {0};
  if (!PyArg_ParseTupleAndKeywords(args, named, "|zzzz:run_passes", words, &o.target, &o.passes,
                                   &o.stop_after, &o.start_after))
    return NULL;
  if (!wv_run_passes(self_of(self), &o)) return py_error_raise(state_of(self));
  Py_RETURN_NONE;
}

static PyObject *kernel_lower(PyObject *self, PyObject *args) {
  wv_pass_options o = {0};
  if (!PyArg_ParseTuple(args, "s:lower", &o.target)) return NULL;
  if (!wv_lower(self_of(self), &o)) return py_error_raise(state_of(self));
  Py_RETURN_NONE;
}

static PyObject *kernel_eval(PyObject *self, PyObject *args) {
  return py_run_eval(state_of(self), self_of(self), args);
}

static PyObject *kernel_sim(PyObject *self, PyObject *args, PyObject *named) {
  return py_run_sim(state_of(self), self_of(self), args, named);
}

static PyObject *kernel_compile(PyObject *self, PyObject *args, PyObject *named) {
  return py_program_compile(state_of(self), self_of(self), args, named);
}

static PyObject *kernel_free_sizes_of(PyObject *self, PyObject *Py_UNUSED(unused)) {
  wv_kernel_free_sizes(self_of(self));
  Py_RETURN_NONE;
}

/* assume(how) */
static PyObject *kernel_assume(PyObject *self, PyObject *how) {
  bool ignored = PyUnicode_CompareWithASCIIString(how, "ignore") == 0;
  if (!ignored && PyUnicode_CompareWithASCIIString(how, "require") != 0)
    return PyErr_Format(PyExc_ValueError, "assume() takes 'ignore' or 'require', not %R", how);
  wv_kernel_assume(self_of(self), ignored ? WV_ASSUME_IGNORED : WV_ASSUME_REQUIRED);
  Py_RETURN_NONE;
}

static PyObject *kernel_apply_options(PyObject *self, PyObject *args) {
  return py_options_apply(state_of(self), self_of(self), args);
}

static PyObject *kernel_report_undumped(PyObject *self, PyObject *args) {
  return py_options_undumped(state_of(self), self_of(self), args);
}

static PyObject *kernel_override(PyObject *self, PyObject *args) {
  return py_options_override(state_of(self), self_of(self), args);
}

static PyObject *kernel_show(PyObject *self, PyObject *args) {
  return py_options_show(state_of(self), self_of(self), args);
}

static PyObject *kernel_key(PyObject *self, PyObject *args) {
  return py_options_key(state_of(self), self_of(self), args);
}

static PyObject *kernel_lower_as(PyObject *self, PyObject *args) {
  return py_options_lower(state_of(self), self_of(self), args);
}

static PyObject *kernel_construct(PyObject *self, PyObject *args) {
  return py_construct_open(state_of(self), self, args);
}

static PyObject *kernel_compile_as(PyObject *self, PyObject *args) {
  return py_program_compile_as(state_of(self), self_of(self), args);
}

static PyMethodDef kernel_methods[] = {
    {"override", kernel_override, METH_VARARGS,
     "override(options, place): the kernel that options substitute for it, or None."},
    {"show", kernel_show, METH_VARARGS,
     "show(options, place, print): prints it, or its parameters, if options request it."},
    {"key", kernel_key, METH_VARARGS,
     "key(options, place): all that programs for the same machine depend on, as text."},
    {"lower_as", kernel_lower_as, METH_VARARGS,
     "lower_as(options, place, target, print): lower() as options request."},
    {"compile_as", kernel_compile_as, METH_VARARGS,
     "compile_as(options, place, target, device, cache, cache_dir, print) -> Program\n"
     "compile() as options request."},
    {"apply_options", kernel_apply_options, METH_VARARGS,
     "apply_options(options, place): changes it as options request."},
    {"report_undumped", kernel_report_undumped, METH_VARARGS,
     "report_undumped(options, place): a remark, or CompileError if options are strict, if it is "
     "compiled only when it is called."},
    {"construct", kernel_construct, METH_VARARGS,
     "construct(name, target, direct, place): what a schedule function works on -> Construct"},
    {"free_sizes", kernel_free_sizes_of, METH_NOARGS,
     "Tensors may disagree about dynamic symbols: the smallest size is used."},
    {"assume", kernel_assume, METH_O,
     "assume('ignore'): drops assumptions; assume('require'): launches that violate them are "
     "errors."},
    {"clone", kernel_clone, METH_NOARGS, "A copy that can be constrained on its own -> Kernel"},
    {"constrain", kernel_constrain, METH_O, "constrain(rows): adds header rows and checks them."},
    {"fit", kernel_fit, METH_O,
     "fit({symbol: value}): a copy for calls with such sizes, as such a call compiles it -> "
     "Kernel"},
    {"verify", kernel_verify, METH_NOARGS, "Checks the IR; CompileError when it is invalid."},
    {"proof", kernel_proof, METH_NOARGS,
     "Which bounds of each access are proved, and which are checked -> Proof"},
    {"schedule_as", kernel_schedule_as, METH_VARARGS,
     "schedule_as(target, form): how its loops are pipelined on a machine: as the rows of a "
     "schedule\nfile ('text'), a page ('html') or part of one ('fragment'), a picture ('svg'), "
     "numbers ('json')."},
    {"explain", kernel_explain, METH_VARARGS,
     "explain(target, form): what was decided about its lines, as text or html"},
    {"choices", kernel_choices, METH_VARARGS,
     "choices(target, n): the tiles that are compared where some are open, a line each"},
    {"schedules", kernel_schedules, METH_VARARGS,
     "schedules(target, n): the n best schedules of its loops, as texts of files -> list"},
    {"timeline_as", kernel_timeline_as, METH_VARARGS,
     "timeline_as(target, form, stamps): what a launch of a kernel with the row `timeline` has "
     "measured,\nbeside what is predicted: 'text', 'fragment', 'svg' or 'json'."},
    {"run_passes", (PyCFunction)(void (*)(void))kernel_run_passes, METH_VARARGS | METH_KEYWORDS,
     "run_passes(target=None, passes=None, stop_after=None, start_after=None): in place."},
    {"lower", kernel_lower, METH_VARARGS,
     "lower(target): lowers it to one lane's program in place."},
    {"compile", (PyCFunction)(void (*)(void))kernel_compile, METH_VARARGS | METH_KEYWORDS,
     "compile(target=None, device=-1, cache=0, cache_dir=None, dump=None, write=None) -> Program\n"
     "Releases the GIL; write(pass, text) receives dumps."},
    {"eval", kernel_eval, METH_VARARGS,
     "eval(args, log=None): runs it on the reference evaluator; tensors are written in place.\n"
     "-> list of remarks"},
    {"sim", (PyCFunction)(void (*)(void))kernel_sim, METH_VARARGS | METH_KEYWORDS,
     "sim(args, target=None, schedule=None, nonfinite=False, log=None): runs one lane's program "
     "lane by lane\n"
     "-> Report; SimulationError when a check fails."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "A traced kernel. str() prints its IR, which wave_lang._wave.parse reads."},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_repr, kernel_repr},
    {Py_tp_str, kernel_str},
    {Py_tp_richcompare, kernel_compare},
    {Py_tp_methods, kernel_methods},
    {Py_tp_getset, kernel_getset},
    {0, NULL}};

static PyType_Spec kernel_spec = {"wave_lang.Kernel", sizeof(KernelObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  kernel_slots};

int py_kernel_init(PyObject *module, PyState *st) {
  st->kernel_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &kernel_spec, NULL);
  st->param_type = PyStructSequence_NewType(&param_desc);
  if (!st->kernel_type || !st->param_type) return -1;
  if (PyModule_AddType(module, st->param_type) < 0) return -1;
  return PyModule_AddType(module, st->kernel_type);
}
