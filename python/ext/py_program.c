/* py_program: Program, a kernel compiled for a target, and the devices it may run on. */
#include <time.h>

#include "ext.h"

static ProgramObject *self_of(PyObject *o) { return (ProgramObject *)o; }

/* ---- compiling ----------------------------------------------------------------------------- */

typedef struct Compile {
  PyThreadState *saved; /* while other threads run */
  PyObject *write;      /* NULL: no dumps requested */
  bool write_failed;
  wv_compile_options o;
  const wv_options *options; /* by name; NULL: only `o` counts */
  wv_machine machine;
} Compile;

/* Calls the function with the texts that are not NULL. */
static void send(Compile *c, const char *first, const char *second) {
  if (!c->write || c->write_failed) return;
  PyEval_RestoreThread(c->saved);
  PyObject *r = PyObject_CallFunction(c->write, second ? "ss" : "s", first, second);
  c->write_failed = r == NULL;
  Py_XDECREF(r);
  c->saved = PyEval_SaveThread();
}

static void send_dump(void *user, const char *pass, const char *text) {
  send(user, pass ? pass : "", text);
}

static void send_text(void *user, const char *text) { send(user, text, NULL); }

static PyObject *program_new(PyState *st, wv_program *p, PyObject *remarks) {
  ProgramObject *o = remarks ? PyObject_New(ProgramObject, st->program_type) : NULL;
  if (!o) {
    wv_program_free(p);
    Py_XDECREF(remarks);
    return NULL;
  }
  o->st = st;
  o->p = p;
  o->cx = NULL;
  o->spare = NULL;
  o->remarks = remarks;
  return (PyObject *)o;
}

/* With why the evaluator runs the kernel instead, as an attribute. */
static void raise_refused(PyState *st, wv_kernel *k, wv_ctx *cx, const Compile *c) {
  const char *why = k && c->options ? wv_options_fallback(k, c->options, &c->machine) : NULL;
  PyObject *text = why ? PyUnicode_FromString(why) : NULL;
  if (!text) {
    py_error_raise_in(st, cx);
    return;
  }
  PyObject *error = py_error_make(st, cx, st->compile_error);
  if (error && PyObject_SetAttrString(error, "evaluated", text) == 0)
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_DECREF(text);
}

static wv_program *compile(wv_kernel *k, Compile *c) {
  wv_output out = {send_text, c};
  if (!c->options) return wv_compile(k, &c->o);
  return wv_options_compile(k, c->options, &c->machine, c->o.cache, c->o.cache_dir, &out);
}

/* The kernel is copied to a context of its own, so that other threads can continue meanwhile. */
static PyObject *compile_copy(PyState *st, wv_kernel *k, Compile *c) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *copy = wv_kernel_copy(k, cx);
  wv_program *p = NULL;
  if (copy) {
    c->saved = PyEval_SaveThread();
    p = compile(copy, c);
    PyEval_RestoreThread(c->saved);
  }
  PyObject *made = NULL;
  if (c->write_failed) wv_program_free(p);
  else if (p) made = program_new(st, p, py_error_take_from(st, cx));
  else raise_refused(st, copy, cx, c);
  wv_kernel_free(copy);
  wv_ctx_free(cx);
  return made;
}

PyObject *py_program_compile(PyState *st, wv_kernel *k, PyObject *args, PyObject *named) {
  static char *words[] = {"target", "device", "cache",     "cache_dir",
                          "dump",   "write",  "fast_math", NULL};
  Compile c = {.o = {.device = -1}};
  int fast_math = 0;
  wv_pass_options dumps = {.write = send_dump, .user = &c};
  PyObject *write = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|ziizzOp:compile", words, &c.o.target, &c.o.device,
                                   &c.o.cache, &c.o.cache_dir, &dumps.dump, &write, &fast_math))
    return NULL;
  c.o.fast_math = fast_math;
  c.write = write == Py_None ? NULL : write;
  if (dumps.dump) c.o.dump = &dumps;
  return compile_copy(st, k, &c);
}

/* compile_as(options, place, target, device, cache, cache_dir, print) */
PyObject *py_program_compile_as(PyState *st, wv_kernel *k, PyObject *args) {
  PyObject *given, *place;
  Options o = {0};
  Compile c = {0};
  if (!PyArg_ParseTuple(args, "OOziizO:compile_as", &given, &place, &c.machine.target,
                        &c.machine.device, &c.o.cache, &c.o.cache_dir, &c.write))
    return NULL;
  bool ok = py_options_open(st, given, place, &o);
  c.options = &o.list;
  PyObject *made = ok ? compile_copy(st, k, &c) : NULL;
  py_options_close(&o);
  return made;
}

static void program_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  wv_program_free(self_of(self)->p);
  wv_ctx_free(self_of(self)->cx);
  wv_ctx_free(self_of(self)->spare);
  Py_XDECREF(self_of(self)->remarks);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- looking ------------------------------------------------------------------------------- */

static PyStructSequence_Field variant_fields[] = {
    {"facts", "the condition for a launch to use it; '' (the last one): none"},
    {"compiled", "whether it has been compiled"},
    {"from_cache", "whether its code was found in the cache"},
    {"compile_ms", "compile time"},
    {"load_ms", "load time in the driver"},
    {"llvm_ms", "the part of compile_ms spent in LLVM"},
    {"shared", "bytes of shared memory per workgroup, once compiled"},
    {NULL, NULL}};
static PyStructSequence_Desc variant_desc = {"wave_lang.Variant", "One of a program's variants.",
                                             variant_fields, 7};

static PyStructSequence_Field resources_fields[] = {
    {"registers", "per thread"},
    {"shared", "bytes per workgroup"},
    {"spilled", "bytes per thread spilled to local memory"},
    {"threads", "per workgroup"},
    {"workgroups", "resident at once on a multiprocessor"},
    {"occupancy", "the fraction of its threads in use"},
    {NULL, NULL}};
static PyStructSequence_Desc resources_desc = {
    "wave_lang.Resources", "The device resources a program uses.", resources_fields, 6};

static PyStructSequence_Field device_fields[] = {{"kind", "'cpu', 'cuda' or 'hip'"},
                                                 {"index", "among those of its kind"},
                                                 {"name", "its name in the driver"},
                                                 {"target", "the target of programs for it"},
                                                 {"memory", "in bytes"},
                                                 {"units", "multiprocessors, cores"},
                                                 {"driver", "its version, or 0"},
                                                 {NULL, NULL}};
static PyStructSequence_Desc device_desc = {
    "wave_lang.Device", "A device on which kernels are launched.", device_fields, 7};

static PyObject *get_name(PyObject *self, void *Py_UNUSED(unused)) {
  return py_text_or_none(wv_program_name(self_of(self)->p));
}

static PyObject *get_target(PyObject *self, void *Py_UNUSED(unused)) {
  return py_text_or_none(wv_program_target(self_of(self)->p));
}

static PyObject *get_kind(PyObject *self, void *Py_UNUSED(unused)) {
  return PyUnicode_FromString(wv_device_kind_name(wv_program_kind(self_of(self)->p)));
}

static PyObject *get_remarks(PyObject *self, void *Py_UNUSED(unused)) {
  return Py_NewRef(self_of(self)->remarks);
}

static PyObject *variant_to(PyState *st, const wv_variant *v) {
  PyObject *items[] = {py_text_or_none(v->facts),      PyBool_FromLong(v->compiled),
                       PyBool_FromLong(v->from_cache), PyFloat_FromDouble(v->compile_ms),
                       PyFloat_FromDouble(v->load_ms), PyFloat_FromDouble(v->llvm_ms),
                       PyLong_FromLong(v->shared)};
  return py_record(st->variant_type, items, 7);
}

static PyObject *get_variants(PyObject *self, void *Py_UNUSED(unused)) {
  PyObject *list = PyList_New(0);
  wv_variant v;
  for (int i = 0; list && wv_program_variant(self_of(self)->p, i, &v); i++) {
    PyObject *item = variant_to(self_of(self)->st, &v);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

static PyGetSetDef program_getset[] = {
    {"name", get_name, NULL, "The kernel's name.", NULL},
    {"target", get_target, NULL, "The machine it was compiled for.", NULL},
    {"kind", get_kind, NULL, "The kind of device it runs on: 'cuda' or 'cpu'.", NULL},
    {"remarks", get_remarks, NULL, "Diagnostics of the compiler: a list of Diagnostic.", NULL},
    {"variants", get_variants, NULL, "A Variant for each of them.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* Diagnostics of variants compiled after the program itself was made. */
static bool keep_remarks_of(ProgramObject *p, wv_ctx *cx) {
  if (wv_diag_count(cx) == 0) return true;
  PyObject *list = py_error_take_from(p->st, cx);
  PyObject *all = list ? PySequence_InPlaceConcat(p->remarks, list) : NULL;
  Py_XDECREF(list);
  Py_XDECREF(all);
  return all != NULL;
}

static bool keep_remarks(ProgramObject *p) { return keep_remarks_of(p, p->cx); }

/* Created on demand; replaced after an internal error. */
static wv_ctx *context_of(ProgramObject *p) {
  if (p->cx && wv_ctx_usable(p->cx)) return p->cx;
  wv_ctx_free(p->cx);
  return p->cx = wv_ctx_new();
}

/* text(what, variant=0) */
static PyObject *program_text(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  const char *what;
  int variant = 0;
  if (!PyArg_ParseTuple(args, "s|i:text", &what, &variant)) return NULL;
  const char *text = wv_program_text(p->p, context_of(p), variant, what);
  if (!text && wv_diag_errors(p->cx)) return py_error_raise_in(p->st, p->cx);
  return keep_remarks(p) ? py_text_or_none(text) : NULL;
}

/* code(variant=0) */
static PyObject *program_code(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  int variant = 0;
  size_t n = 0;
  if (!PyArg_ParseTuple(args, "|i:code", &variant)) return NULL;
  const void *code = wv_program_code(p->p, context_of(p), variant, &n);
  if (!code && wv_diag_errors(p->cx)) return py_error_raise_in(p->st, p->cx);
  if (!code) return PyErr_Format(PyExc_IndexError, "there is no variant %d", variant);
  return keep_remarks(p) ? PyBytes_FromStringAndSize(code, (Py_ssize_t)n) : NULL;
}

/* resources(variant=0, device=0) */
static PyObject *program_resources(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  int variant = 0, device = 0;
  if (!PyArg_ParseTuple(args, "|ii:resources", &variant, &device)) return NULL;
  wv_resources r;
  if (!wv_program_resources(p->p, context_of(p), variant, device, &r))
    return py_error_raise_in(p->st, p->cx);
  if (!keep_remarks(p)) return NULL;
  PyObject *items[] = {PyLong_FromLong(r.registers),  PyLong_FromLong(r.shared),
                       PyLong_FromLong(r.spilled),    PyLong_FromLong(r.threads),
                       PyLong_FromLong(r.workgroups), PyFloat_FromDouble(r.occupancy)};
  return py_record(p->st->resources_type, items, 6);
}

/* prepare(device=-1) */
static PyObject *program_prepare(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  int device = -1;
  if (!PyArg_ParseTuple(args, "|i:prepare", &device)) return NULL;
  if (!wv_program_prepare(p->p, context_of(p), device)) return py_error_raise_in(p->st, p->cx);
  if (!keep_remarks(p)) return NULL;
  Py_RETURN_NONE;
}

/* test_instructions(variant=0): of a program for `emu:`, as (offset, text, executed, needed) */
static PyObject *program_test_instructions(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  int variant = 0;
  wv_instruction found;
  if (!PyArg_ParseTuple(args, "|i:test_instructions", &variant)) return NULL;
  PyObject *list = PyList_New(0);
  for (int i = 0; list && wv_test_instruction(p->p, context_of(p), variant, i, &found); i++) {
    PyObject *row = Py_BuildValue("(Ksii)", (unsigned long long)found.at, found.text,
                                  found.executed, found.needed);
    if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  if (wv_diag_errors(p->cx)) Py_CLEAR(list);
  return list || PyErr_Occurred() ? list : py_error_raise_in(p->st, p->cx);
}

/* test_remove(instruction, variant=0): launches do without it; -1: with all of them */
static PyObject *program_test_remove(PyObject *self, PyObject *args) {
  ProgramObject *p = self_of(self);
  int instruction, variant = 0;
  if (!PyArg_ParseTuple(args, "i|i:test_remove", &instruction, &variant)) return NULL;
  if (wv_test_remove(p->p, context_of(p), variant, instruction)) Py_RETURN_NONE;
  if (wv_diag_errors(p->cx)) return py_error_raise_in(p->st, p->cx);
  return PyErr_Format(PyExc_IndexError, "the program has no instruction %d", instruction);
}

static PyMethodDef program_methods[] = {
    {"prepare", program_prepare, METH_VARARGS,
     "prepare(device=-1): compiles every variant, and loads it there."},
    {"text", program_text, METH_VARARGS,
     "text(what, variant=0): 'ir', 'ptx', 'llvm', 'asm', 'loops' or 'remarks'; None if there is "
     "none."},
    {"code", program_code, METH_VARARGS,
     "code(variant=0): the code the device loads, as bytes: PTX, or an ELF object."},
    {"resources", program_resources, METH_VARARGS, "resources(variant=0, device=0) -> Resources"},
    {"test_instructions", program_test_instructions, METH_VARARGS,
     "test_instructions(variant=0): machine code for `emu:`, see wv_test_instruction in wave.h."},
    {"test_remove", program_test_remove, METH_VARARGS,
     "test_remove(instruction, variant=0): a seeded fault, see wv_test_remove in wave.h."},
    {NULL, NULL, 0, NULL}};

/* ---- launching ----------------------------------------------------------------------------- */

/* Creating a context takes longer than launching a small kernel: one is kept with the program. */
static wv_ctx *take_context(ProgramObject *p) {
  wv_ctx *cx = p->spare;
  p->spare = NULL;
  return cx ? cx : wv_ctx_new();
}

static void give_back(ProgramObject *p, wv_ctx *cx) {
  wv_diag_clear(cx);
  if (p->spare || !wv_ctx_usable(cx)) wv_ctx_free(cx);
  else p->spare = cx;
}

/* A launch that this thread waits for, while others run. */
typedef struct Waited {
  PyThreadState *saved;
  double asked; /* for signals */
  PyObject *log;
  bool failed;
} Waited;

static double seconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ctrl-C: the exception is set, and raised when the launch has ended. Checking takes the
 * interpreter lock, which a busy thread releases after 5 ms: so this is done rarely. */
static bool was_interrupted(void *user) {
  static const double OFTEN = 0.1;
  Waited *w = user;
  double now = seconds();
  if (w->asked == 0) w->asked = now;
  if (now - w->asked < OFTEN && now >= w->asked) return false;
  w->asked = now;
  PyEval_RestoreThread(w->saved);
  bool stop = PyErr_CheckSignals() != 0;
  w->saved = PyEval_SaveThread();
  return stop;
}

/* Other threads continue meanwhile, so it has a context of its own. */
static wv_ctx *open_waited(ProgramObject *p, Waited *w) {
  wv_ctx *cx = take_context(p);
  bool hears = PyThread_get_thread_ident() == p->st->main_thread;
  wv_ctx_interrupt(cx, hears ? was_interrupted : NULL, w);
  w->saved = PyEval_SaveThread();
  return cx;
}

static bool close_waited(ProgramObject *p, Waited *w, wv_ctx *cx, bool ok) {
  PyEval_RestoreThread(w->saved);
  if (!ok && !w->failed) py_error_raise_as(p->st, cx, p->st->launch_error);
  else if (ok && !keep_remarks_of(p, cx)) w->failed = true;
  give_back(p, cx);
  return ok && !w->failed;
}

static bool launch_on_host(ProgramObject *p, const Args *a) {
  Waited w = {0};
  wv_ctx *cx = open_waited(p, &w);
  return close_waited(p, &w, cx, wv_launch(p->p, cx, a->args, a->n, NULL, 0));
}

bool py_program_launch(ProgramObject *p, const Args *a, void *stream) {
  if (wv_program_kind(p->p) == WV_HOST) return launch_on_host(p, a);
  if (wv_launch(p->p, context_of(p), a->args, a->n, stream, 0)) return keep_remarks(p);
  py_error_raise_as(p->st, p->cx, p->st->launch_error);
  return false;
}

static void send_log(void *user, const char *label, const wv_buffer *b) {
  Waited *w = user;
  if (w->failed) return;
  PyEval_RestoreThread(w->saved);
  PyObject *r = py_run_call_log(w->log, label, b);
  w->failed = r == NULL;
  Py_XDECREF(r);
  w->saved = PyEval_SaveThread();
}

bool py_program_launch_logged(ProgramObject *p, const Args *a, void *stream, PyObject *log) {
  Waited w = {.log = log};
  wv_ctx *cx = open_waited(p, &w);
  bool ok = wv_launch_logged(p->p, cx, a->args, a->n, stream, log ? send_log : NULL, &w);
  return close_waited(p, &w, cx, ok);
}

bool py_program_warm(ProgramObject *p, const Args *a) {
  Waited w = {0};
  wv_ctx *cx = open_waited(p, &w);
  return close_waited(p, &w, cx, wv_program_warm(p->p, cx, a->args, a->n));
}

/* ---- devices ------------------------------------------------------------------------------- */

static PyObject *device_to(PyState *st, wv_device d) {
  wv_device_info info = {0};
  if (!wv_device_get(st->cx, d, &info)) return py_error_raise(st);
  PyObject *items[] = {PyUnicode_FromString(wv_device_kind_name(d.kind)),
                       PyLong_FromLong(d.index),
                       PyUnicode_FromString(info.name),
                       py_text_or_none(info.target),
                       PyLong_FromLongLong(info.memory),
                       PyLong_FromLong(info.units),
                       PyLong_FromLong(info.driver)};
  return py_record(st->device_type, items, 7);
}

PyObject *py_program_devices(PyState *st) {
  PyObject *list = PyList_New(0);
  for (int k = 0, kind; (kind = wv_device_kind(k)); k++) {
    int n = wv_device_count(st->cx, kind);
    if (!wv_ctx_usable(st->cx)) return Py_XDECREF(list), py_error_raise(st);
    for (int i = 0; list && i < n; i++) {
      PyObject *item = device_to(st, (wv_device){.kind = kind, .index = i});
      if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
      Py_XDECREF(item);
    }
  }
  return list;
}

/* ---- the type ------------------------------------------------------------------------------ */

static PyType_Slot program_slots[] = {
    {Py_tp_doc, "A kernel compiled for a target, in one or several variants."},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_getset},
    {0, NULL}};

static PyType_Spec program_spec = {"wave_lang.Program", sizeof(ProgramObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   program_slots};

static int add_records(PyObject *module, PyState *st) {
  st->variant_type = PyStructSequence_NewType(&variant_desc);
  st->resources_type = PyStructSequence_NewType(&resources_desc);
  st->device_type = PyStructSequence_NewType(&device_desc);
  if (!st->variant_type || !st->resources_type || !st->device_type) return -1;
  if (PyModule_AddType(module, st->variant_type) < 0) return -1;
  if (PyModule_AddType(module, st->resources_type) < 0) return -1;
  return PyModule_AddType(module, st->device_type);
}

/* If the thread is unknown, Ctrl-C does not interrupt a launch. */
static unsigned long find_main_thread(void) {
  PyObject *threading = PyImport_ImportModule("threading"), *ident = NULL;
  PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  if (thread) ident = PyObject_GetAttrString(thread, "ident");
  unsigned long number = ident && PyLong_Check(ident) ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(ident);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  PyErr_Clear();
  return number;
}

int py_program_init(PyObject *module, PyState *st) {
  st->main_thread = find_main_thread();
  st->program_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &program_spec, NULL);
  st->launch_error = PyErr_NewExceptionWithDoc(
      "wave_lang.LaunchError",
      "Arguments do not match a kernel's signature, or a device failed. In the first case "
      "nothing\nwas launched. `diagnostics` lists the errors, as in CompileError.",
      st->compile_error, NULL);
  st->assert_error =
      st->launch_error ? PyErr_NewExceptionWithDoc(
                             "wave_lang.DeviceAssertError",
                             "A `device_assert` in a kernel failed. The kernel ran to completion; "
                             "`diagnostics` says\nwhich assertion, where and for which values.",
                             st->launch_error, NULL)
                       : NULL;
  PyObject *bases =
      st->launch_error ? Py_BuildValue("(OOO)", st->launch_error, PyExc_TypeError, PyExc_ValueError)
                       : NULL;
  if (bases)
    st->argument_error =
        PyErr_NewExceptionWithDoc("wave_lang.ArgumentError",
                                  "A kernel was called with unsuitable arguments: too few, not "
                                  "tensors, or tensors that are\nread-only or on another device.",
                                  bases, NULL);
  Py_XDECREF(bases);
  bool made = st->program_type && st->assert_error && st->argument_error;
  if (!made || add_records(module, st) < 0) return -1;
  if (PyModule_AddObjectRef(module, "LaunchError", st->launch_error) < 0) return -1;
  if (PyModule_AddObjectRef(module, "ArgumentError", st->argument_error) < 0) return -1;
  if (PyModule_AddObjectRef(module, "DeviceAssertError", st->assert_error) < 0) return -1;
  return PyModule_AddType(module, st->program_type);
}
