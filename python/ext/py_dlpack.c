/* py_dlpack: tensors through DLPack: a type's table of C functions, or the capsule of `__dlpack__`.
 */
#include "dlpack_abi.h"
#include "ext.h"

static const struct {
  uint8_t code, bits;
  const char *name;
} dl_types[] = {{DL_INT, 8, "i8"},
                {DL_INT, 16, "i16"},
                {DL_INT, 32, "i32"},
                {DL_INT, 64, "i64"},
                {DL_UINT, 8, "u8"},
                {DL_UINT, 16, "u16"},
                {DL_UINT, 32, "u32"},
                {DL_UINT, 64, "u64"},
                {DL_FLOAT, 16, "f16"},
                {DL_FLOAT, 32, "f32"},
                {DL_FLOAT, 64, "f64"},
                {DL_BFLOAT, 16, "bf16"},
                {DL_BOOL, 8, "i1"},
                {10, 8, "f8e4m3fn"},
                {11, 8, "f8e4m3fnuz"},
                {12, 8, "f8e5m2"},
                {13, 8, "f8e5m2fnuz"},
                {14, 8, "f8e8m0fnu"},
                {17, 8, "i8" /* two 4-bit floats per byte */}};

/* 8, 16, 32, 64 bits -> 0, 1, 2, 3; others -> -1. */
static int width_of(int bits) {
  return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
}

void py_dlpack_init(PyState *st) {
  memset(st->dl_dtypes, -1, sizeof st->dl_dtypes);
  for (size_t i = 0; i < sizeof dl_types / sizeof *dl_types; i++)
    st->dl_dtypes[dl_types[i].code][width_of(dl_types[i].bits)] =
        (signed char)wv_dtype_find(dl_types[i].name);
}

static int dtype_of(PyState *st, const DLTensor *t) {
  bool pair = t->dtype.bits == 4 && t->dtype.lanes == 2;
  int width = width_of(pair ? 8 : t->dtype.bits);
  if (width < 0 || t->dtype.code >= 32 || (!pair && t->dtype.lanes != 1)) return -1;
  return st->dl_dtypes[t->dtype.code][width];
}

static bool fill(PyState *st, const char *name, const DLTensor *t, Tensor *out) {
  out->tensor.dtype = dtype_of(st, t);
  if (out->tensor.dtype < 0) {
    py_argument_error(
        st, "argument `%s`: element type (DLPack code %d, %d bits, %d lanes) is not supported",
        name, t->dtype.code, t->dtype.bits, t->dtype.lanes);
    return false;
  }
  if (!py_tensor_ranked(st, name, t->ndim, out)) return false;
  out->tensor.device = (wv_device){.kind = t->device.type, .index = t->device.id};
  out->tensor.data = t->data ? (char *)t->data + t->byte_offset : NULL;
  int64_t stride = 1;
  for (int i = t->ndim; i-- > 0;) {
    out->shape[i] = t->shape[i];
    out->strides[i] = t->strides ? t->strides[i] : stride;
    stride *= t->shape[i];
  }
  return true;
}

/* ---- the table of a type ------------------------------------------------------------------- */

/* The table under one of its two names, as PyTorch and as DLPack's text spell it; NULL without an
 * exception if there is none that we understand. */
const struct DLExchange *py_dlpack_exchange(PyTypeObject *type) {
  static const char *const names[] = {"__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"};
  const DLExchange *found = NULL;
  for (int i = 0; !found && i < 2; i++) {
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, names[i]);
    if (capsule && PyCapsule_IsValid(capsule, DL_EXCHANGE_NAME))
      found = PyCapsule_GetPointer(capsule, DL_EXCHANGE_NAME);
    Py_XDECREF(capsule);
    PyErr_Clear();
  }
  while (found && found->major != DL_EXCHANGE_MAJOR) found = found->older;
  return found && found->view && found->current_stream ? found : NULL;
}

bool py_dlpack_view(PyState *st, const struct DLExchange *api, PyObject *o, const char *name,
                    Tensor *out) {
  DLTensor t;
  return api->view(o, &t) == 0 && fill(st, name, &t, out);
}

bool py_dlpack_stream(const struct DLExchange *api, const Tensor *t, void **stream) {
  return api->current_stream(t->tensor.device.kind, t->tensor.device.index, stream) == 0;
}

/* ---- the capsule --------------------------------------------------------------------------- */

/* Whether the object says that it is in host memory; true if it does not say. */
static bool says_host(PyObject *o) {
  PyObject *device = PyObject_CallMethod(o, "__dlpack_device__", NULL);
  PyObject *type = device ? PySequence_GetItem(device, 0) : NULL;
  long kind = type ? PyLong_AsLong(type) : DL_CPU;
  Py_XDECREF(type);
  Py_XDECREF(device);
  PyErr_Clear();
  return kind == DL_CPU;
}

/* -1: the producer must not wait for anything; the stream of the launch provides the order. */
static PyObject *capsule_of(PyObject *o) {
  if (says_host(o)) return PyObject_CallMethod(o, "__dlpack__", NULL);
  PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
  PyObject *none = PyTuple_New(0), *named = Py_BuildValue("{si}", "stream", -1);
  PyObject *capsule = method && none && named ? PyObject_Call(method, none, named) : NULL;
  Py_XDECREF(named);
  Py_XDECREF(none);
  Py_XDECREF(method);
  return capsule;
}

bool py_dlpack_take(PyState *st, PyObject *o, const char *name, Tensor *out) {
  out->held = capsule_of(o);
  if (!out->held) return false;
  DLManagedTensor *m = PyCapsule_GetPointer(out->held, "dltensor");
  if (m && fill(st, name, &m->tensor, out)) return true;
  Py_CLEAR(out->held); /* its own destructor frees an unused tensor */
  return false;
}
