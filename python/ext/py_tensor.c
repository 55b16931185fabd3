/* py_tensor: foreign tensors, used in place, by the fastest method that their type offers.
 *
 * The method is determined once per type and remembered: a table of C functions (54 ns per tensor),
 * PyTorch's attributes, `__cuda_array_interface__`, the buffer protocol, `__dlpack__`. */
#include "dlpack_abi.h"
#include "ext.h"

static TensorWay way_of(PyState *st, PyObject *o, const struct DLExchange **api) {
  PyTypeObject *type = Py_TYPE(o);
  *api = st->no_exchange ? NULL : py_dlpack_exchange(type);
  if (*api) return WAY_EXCHANGE;
  if (PyObject_HasAttrString((PyObject *)type, "data_ptr") &&
      PyObject_HasAttrString((PyObject *)type, "stride"))
    return WAY_TORCH;
  if (PyObject_HasAttrString((PyObject *)type, "__cuda_array_interface__")) return WAY_CUDA_ARRAY;
  if (PyObject_CheckBuffer(o)) return WAY_BUFFER;
  return PyObject_HasAttrString((PyObject *)type, "__dlpack__") ? WAY_DLPACK : WAY_NONE;
}

static const TensorType *type_of(PyState *st, PyObject *o) {
  for (int i = 0; i < TENSOR_TYPES; i++)
    if (st->tensor_types[i].type == Py_TYPE(o)) return &st->tensor_types[i];
  TensorType *slot = &st->tensor_types[st->next_tensor_type];
  st->next_tensor_type = (st->next_tensor_type + 1) % TENSOR_TYPES;
  Py_XDECREF((PyObject *)slot->type);
  slot->type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(o));
  slot->way = way_of(st, o, &slot->api);
  return slot;
}

void py_tensor_forget_types(PyState *st) {
  for (int i = 0; i < TENSOR_TYPES; i++) Py_CLEAR(st->tensor_types[i].type);
}

bool py_tensor_ranked(PyState *st, const char *name, int rank, Tensor *out) {
  out->tensor.rank = rank;
  out->tensor.shape = out->shape;
  out->tensor.strides = out->strides;
  if (rank >= 0 && rank <= TENSOR_RANK) return true;
  py_argument_error(st, "argument `%s` has %d dimensions, expected at most %d", name, rank,
                    TENSOR_RANK);
  return false;
}

static bool take(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  const TensorType *type = type_of(st, o);
  out->api = type->api;
  switch (type->way) {
  case WAY_EXCHANGE: return py_dlpack_view(st, type->api, o, name, out);
  case WAY_TORCH: return py_attributes_take_torch(st, o, name, out);
  case WAY_CUDA_ARRAY: return py_attributes_take_cuda_array(st, o, name, writable, out);
  case WAY_BUFFER:
    if (py_buffer_take(st, o, name, writable, out)) return true;
    if (PyErr_Occurred() || !PyObject_HasAttrString(o, "__dlpack__")) break;
    return py_dlpack_take(st, o, name, out);
  case WAY_DLPACK: return py_dlpack_take(st, o, name, out);
  case WAY_NONE: break;
  }
  if (!PyErr_Occurred())
    py_argument_error(st,
                      "argument `%s` must be a tensor (a NumPy array, or anything with "
                      "`__dlpack__`), got %R",
                      name, (PyObject *)Py_TYPE(o));
  return false;
}

static bool has_elements(const Tensor *t) {
  for (int i = 0; i < t->tensor.rank; i++)
    if (t->shape[i] == 0) return false;
  return true;
}

/* Errors of other libraries remain what they are, but do not say which argument it was. */
static void note_argument(PyState *st, const char *name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && !PyErr_GivenExceptionMatches(value, st->argument_error)) {
    PyObject *note = PyUnicode_FromFormat("this is about argument `%s`", name);
    Py_XDECREF(note ? PyObject_CallMethod(value, "add_note", "O", note) : NULL);
    Py_XDECREF(note);
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

/* PyTorch may keep in a bit of a tensor that its elements have the other sign, as in the imaginary part of a
 * conjugate. Only tensors with gaps between neighbours are asked. */
static bool check_signs(PyState *st, PyObject *o, const char *name, const Tensor *t) {
  const TensorType *type = type_of(st, o);
  int last = t->tensor.rank - 1;
  bool asked = type->way == WAY_EXCHANGE || type->way == WAY_TORCH;
  if (!asked || last < 0 || !t->tensor.strides || t->tensor.strides[last] == 1) return true;
  if (!PyObject_HasAttr((PyObject *)Py_TYPE(o), st->names.is_neg)) return true;
  PyObject *answer = PyObject_CallMethodObjArgs(o, st->names.is_neg, NULL);
  int negated = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  if (negated > 0)
    py_argument_error(st,
                      "argument `%s` has the elements of another tensor with the other sign: give "
                      "`resolve_neg()` of it",
                      name);
  return negated == 0;
}

bool py_tensor_take(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  out->held = NULL;
  out->view.obj = NULL;
  out->has_stream = false;
  if (!take(st, o, name, writable, out)) return note_argument(st, name), false;
  if (out->tensor.data || !has_elements(out)) {
    if (check_signs(st, o, name, out)) return true;
  } else {
    py_argument_error(st, "argument `%s` has no data: it is a tensor with only a shape", name);
  }
  py_tensor_release(out);
  return false;
}

void py_tensor_release(Tensor *t) {
  if (t->view.obj) PyBuffer_Release(&t->view);
  Py_CLEAR(t->held);
}

bool py_tensor_is_host(const Tensor *t) {
  return t->tensor.device.kind == DL_CPU || t->tensor.device.kind == DL_CUDA_HOST ||
         t->tensor.device.kind == DL_ROCM_HOST || t->tensor.device.kind == DL_CUDA_MANAGED;
}

bool py_tensor_stream(PyState *st, const Tensor *t, void **stream) {
  if (t->has_stream) return *stream = t->stream, true;
  if (t->api) return py_dlpack_stream(t->api, t, stream);
  return py_attributes_torch_stream(st, t->tensor.device.index, stream);
}
