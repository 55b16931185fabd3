/* py_launch: Launchable, a compiled kernel in Python: called with tensors, it launches.
 *
 * The fast path is entirely here: arguments are acquired, and the program for their device is
 * launched on the stream of their library. Everything else is in methods of the Python subclass:
 * compiling for a device that was not needed before, the evaluator, the simulator, keyword
 * arguments. */
#include "dlpack_abi.h"
#include "ext.h"

/* Where the tensors of a call are. */
enum { ON_HOST, ON_CUDA, ON_HIP, PLACES };

typedef struct LaunchObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;      /* NULL before bind() */
  PyObject *kernel; /* keeps alive what `params` points to */
  Params params;
  PyObject *programs[PLACES]; /* for tensors there; NULL: none yet */
} LaunchObject;

static LaunchObject *self_of(PyObject *o) { return (LaunchObject *)o; }

static void launch_dealloc(PyObject *self) {
  LaunchObject *l = self_of(self);
  PyTypeObject *type = Py_TYPE(self);
  py_params_free(&l->params);
  for (int i = 0; i < PLACES; i++) Py_CLEAR(l->programs[i]);
  Py_CLEAR(l->kernel);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* ---- contents ------------------------------------------------------------------------------ */

/* bind(kernel): the kernel whose parameters a call has. The module's state is only accessible from
 * the class that defines the method. */
static PyObject *launch_bind(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                             Py_ssize_t n, PyObject *Py_UNUSED(names)) {
  LaunchObject *l = self_of(self);
  PyState *st = PyType_GetModuleState(defining);
  if (n != 1 || Py_TYPE(args[0]) != st->kernel_type || l->st)
    return PyErr_Format(PyExc_TypeError, "bind() takes a Kernel, once");
  l->kernel = Py_NewRef(args[0]);
  if (!py_params_of(py_kernel_get(args[0]), &l->params)) return NULL;
  l->st = st;
  Py_RETURN_NONE;
}

static int place_of(int kind) {
  return kind == WV_CUDA ? ON_CUDA : kind == WV_HIP ? ON_HIP : kind == WV_HOST ? ON_HOST : -1;
}

/* use(program): calls with tensors on its kind of device launch it. */
static PyObject *launch_use(PyObject *self, PyObject *program) {
  LaunchObject *l = self_of(self);
  if (!l->st || Py_TYPE(program) != l->st->program_type)
    return PyErr_Format(PyExc_TypeError, "use() takes a Program, got %R", program);
  int place = place_of(wv_program_kind(((ProgramObject *)program)->p));
  if (place < 0) return PyErr_Format(PyExc_TypeError, "use() takes a Program of a known kind");
  PyObject **slot = &l->programs[place];
  Py_XDECREF(*slot);
  *slot = Py_NewRef(program);
  Py_RETURN_NONE;
}

/* ---- launching ----------------------------------------------------------------------------- */

/* A driver's handle as a number, an object with `cuda_stream` (PyTorch), or one with
 * `__cuda_stream__()`, which returns a version and the handle. */
static bool stream_from(PyState *st, PyObject *o, void **out) {
  PyObject *handle = NULL;
  if (PyLong_Check(o)) handle = Py_NewRef(o);
  else if (PyObject_HasAttrString(o, "cuda_stream"))
    handle = PyObject_GetAttrString(o, "cuda_stream");
  else if (PyObject_HasAttrString(o, "__cuda_stream__")) {
    PyObject *pair = PyObject_CallMethod(o, "__cuda_stream__", NULL);
    handle = pair ? PySequence_GetItem(pair, 1) : NULL;
    Py_XDECREF(pair);
  } else py_argument_error(st, "a stream is a number or has `cuda_stream`, got %R", o);
  *out = handle ? (void *)(uintptr_t)PyLong_AsUnsignedLongLong(handle) : NULL;
  Py_XDECREF(handle);
  return !PyErr_Occurred();
}

/* The kind of device that the tensors of a call are on; `there`: the first that is not in host
 * memory, or NULL. */
static int kind_of(const Tensor *there) { return there ? there->tensor.device.kind : WV_HOST; }

static const char *name_of(int kind) {
  const char *name = wv_device_kind_name(kind);
  return name ? name : "?";
}

/* The program for tensors on this kind of device; NULL: not compiled yet. */
static PyObject *program_on(const LaunchObject *l, int kind) {
  int place = place_of(kind);
  return place < 0 ? NULL : l->programs[place];
}

/* _launch_first(kind, args, stream, logs): there is no program for this kind of device yet, or it
 * writes debug logs. */
static PyObject *launch_first(PyObject *self, const char *kind, PyObject *const *given,
                              PyObject *stream, PyObject *logs) {
  int n = self_of(self)->params.n;
  PyObject *args = PyTuple_New(n), *r = NULL;
  for (int i = 0; args && i < n; i++) PyTuple_SetItem(args, i, Py_NewRef(given[i]));
  if (args)
    r = PyObject_CallMethod(self, "_launch_first", "sOOO", kind, args, stream ? stream : Py_None,
                            logs ? logs : Py_None);
  Py_XDECREF(args);
  return r;
}

static bool find_stream(const LaunchObject *l, PyObject *given, const Tensor *there, void **out) {
  if (given) return stream_from(l->st, given, out);
  return !there || py_tensor_stream(l->st, there, out);
}

/* `given` holds as many arguments as there are parameters; `stream` NULL: the tensors' own; `logs`
 * NULL: not requested. */
static PyObject *launch(PyObject *self, PyObject *const *given, PyObject *stream, PyObject *logs) {
  LaunchObject *l = self_of(self);
  Args a;
  bool ok = py_args_take(l->st, &l->params, given, &a);
  const Tensor *there = ok ? py_args_on_device(&a) : NULL;
  int kind = kind_of(there);
  PyObject *program = program_on(l, kind);
  if (ok && program) {
    void *handle = NULL;
    ok = find_stream(l, stream, there, &handle) &&
         py_program_launch((ProgramObject *)program, &a, handle);
  }
  py_args_release(&a);
  if (!ok) return NULL;
  if (!program) return launch_first(self, name_of(kind), given, stream, logs);
  Py_RETURN_NONE;
}

static bool count_fits(const LaunchObject *l, Py_ssize_t n) {
  if (l->st && n == l->params.n) return true;
  if (l->st) py_params_wrong_count(l->st, &l->params, n);
  else PyErr_SetString(PyExc_TypeError, "the kernel was not compiled by wave_compile");
  return false;
}

/* The arguments of a call in a tuple, one for each parameter; freed with PyMem_Free. */
static PyObject **given_in(const LaunchObject *l, PyObject *tuple) {
  Py_ssize_t n = PyTuple_Size(tuple);
  if (!count_fits(l, n)) return NULL;
  PyObject **given = PyMem_Calloc((size_t)n + 1, sizeof *given);
  if (!given) PyErr_NoMemory();
  for (Py_ssize_t i = 0; given && i < n; i++) given[i] = PyTuple_GetItem(tuple, i);
  return given;
}

/* _launch_logged(program, args, stream, log): waits for it, and calls log(label, dtype name, shape,
 * bytes) with every debug log. */
static PyObject *launch_logged(PyObject *self, PyObject *args) {
  LaunchObject *l = self_of(self);
  PyObject *program, *tuple, *stream, *log;
  if (!PyArg_ParseTuple(args, "OO!OO:_launch_logged", &program, &PyTuple_Type, &tuple, &stream,
                        &log))
    return NULL;
  if (!l->st || Py_TYPE(program) != l->st->program_type)
    return PyErr_Format(PyExc_TypeError, "_launch_logged() takes a Program, got %R", program);
  PyObject **given = given_in(l, tuple);
  if (!given) return NULL;
  Args a;
  void *handle = NULL;
  bool ok =
      py_args_take(l->st, &l->params, given, &a) &&
      find_stream(l, stream == Py_None ? NULL : stream, py_args_on_device(&a), &handle) &&
      py_program_launch_logged((ProgramObject *)program, &a, handle, log == Py_None ? NULL : log);
  py_args_release(&a);
  PyMem_Free(given);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* _warm(args): compiles and loads what a call with these arguments needs. Returns the kind of
 * device they are on if it has no program yet, else None. */
static PyObject *launch_warm(PyObject *self, PyObject *tuple) {
  LaunchObject *l = self_of(self);
  if (!PyTuple_Check(tuple)) return PyErr_Format(PyExc_TypeError, "_warm() takes a tuple");
  PyObject **given = given_in(l, tuple);
  if (!given) return NULL;
  Args a;
  bool ok = py_args_take(l->st, &l->params, given, &a);
  const Tensor *there = ok ? py_args_on_device(&a) : NULL;
  PyObject *program = program_on(l, kind_of(there));
  const char *kind = program ? NULL : name_of(kind_of(there));
  if (ok && program) ok = py_program_warm((ProgramObject *)program, &a);
  py_args_release(&a);
  PyMem_Free(given);
  return ok ? py_text_or_none(kind) : NULL;
}

/* launch(*args, stream=None, debug_logs=None) */
static PyObject *launch_method(PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *names) {
  Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  PyObject *stream = NULL, *logs = NULL;
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    bool is_stream = PyUnicode_CompareWithASCIIString(name, "stream") == 0;
    if (!is_stream && PyUnicode_CompareWithASCIIString(name, "debug_logs") != 0)
      return PyErr_Format(PyExc_TypeError, "launch() has no argument `%U`", name);
    *(is_stream ? &stream : &logs) = args[n + i] == Py_None ? NULL : args[n + i];
  }
  return count_fits(self_of(self), n) ? launch(self, args, stream, logs) : NULL;
}

static PyObject *launch_call(PyObject *self, PyObject *args, PyObject *named) {
  if (named && PyDict_Size(named) > 0)
    return PyObject_CallMethod(self, "_call_named", "OO", args, named);
  Py_ssize_t n = PyTuple_Size(args);
  if (!count_fits(self_of(self), n)) return NULL;
  PyObject *few[FEW_ARGS], **list = few;
  if (n > FEW_ARGS && !(list = PyMem_Calloc((size_t)n, sizeof *list))) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) list[i] = PyTuple_GetItem(args, i);
  PyObject *r = launch(self, list, NULL, NULL);
  if (list != few) PyMem_Free(list);
  return r;
}

/* ---- the type ------------------------------------------------------------------------------ */

static PyMethodDef launch_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launch_method, METH_FASTCALL | METH_KEYWORDS,
     "launch(*args, stream=None, debug_logs=None): the fastest way to call a compiled kernel. "
     "Arguments are "
     "tensors\n"
     "and numbers in the order of the parameters; without a stream, that of the tensors' library."},
    {"_bind", (PyCFunction)(void (*)(void))launch_bind, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "_bind(kernel): whose parameters a call has."},
    {"_launch_logged", launch_logged, METH_VARARGS,
     "_launch_logged(program, args, stream, log): waits, and passes on the debug logs."},
    {"_warm", launch_warm, METH_O,
     "_warm(args): compiles what such a call needs; the kind of device without a program, or "
     "None."},
    {"_use", launch_use, METH_O, "_use(program): launched with tensors on its kind of device."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot launch_slots[] = {{Py_tp_doc, "A kernel that can be called with tensors."},
                                     {Py_tp_dealloc, launch_dealloc},
                                     {Py_tp_call, launch_call},
                                     {Py_tp_methods, launch_methods},
                                     {0, NULL}};

static PyType_Spec launch_spec = {"wave_lang.Launchable", sizeof(LaunchObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, launch_slots};

int py_launch_init(PyObject *module, PyState *st) {
  st->launchable_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &launch_spec, NULL);
  return st->launchable_type ? PyModule_AddType(module, st->launchable_type) : -1;
}
