/* py_dlpack: tensors through DLPack: a type's table of C functions, or the capsule of `__dlpack__`.
 */
#include "dlpack_abi.h"
#include "ext.h"

static const struct {
  uint8_t code, bits, lanes;
  const char *name;
} dl_types[] = {{DL_INT, 8, 1, "i8"},
                {DL_INT, 16, 1, "i16"},
                {DL_INT, 32, 1, "i32"},
                {DL_INT, 64, 1, "i64"},
                {DL_UINT, 8, 1, "i8"},
                {DL_UINT, 16, 1, "i16"},
                {DL_UINT, 32, 1, "i32"},
                {DL_UINT, 64, 1, "i64"},
                {DL_FLOAT, 16, 1, "f16"},
                {DL_FLOAT, 32, 1, "f32"},
                {DL_FLOAT, 64, 1, "f64"},
                {DL_BFLOAT, 16, 1, "bf16"},
                {DL_BOOL, 8, 1, "i1"},
                {10, 8, 1, "f8e4m3fn"},
                {11, 8, 1, "f8e4m3fnuz"},
                {12, 8, 1, "f8e5m2"},
                {13, 8, 1, "f8e5m2fnuz"},
                {14, 8, 1, "f8e8m0fnu"},
                {17, 4, 2, "i8" /* two 4-bit floats in a byte */}};

static const char *dl_name(const DLTensor *t) {
  for (size_t i = 0; i < sizeof dl_types / sizeof *dl_types; i++)
    if (dl_types[i].code == t->dtype.code && dl_types[i].bits == t->dtype.bits &&
        dl_types[i].lanes == t->dtype.lanes)
      return dl_types[i].name;
  return NULL;
}

static bool fill(const char *name, const DLTensor *t, Tensor *out) {
  const char *dtype = dl_name(t);
  if (!dtype) {
    PyErr_Format(PyExc_TypeError,
                 "argument `%s`: its element type (DLPack code %d, %d bits, %d lanes) has no "
                 "counterpart here",
                 name, t->dtype.code, t->dtype.bits, t->dtype.lanes);
    return false;
  }
  if (!py_tensor_ranked(name, t->ndim, out)) return false;
  out->device_type = t->device.type;
  out->device_id = t->device.id;
  out->buffer.data = t->data ? (char *)t->data + t->byte_offset : NULL;
  out->buffer.dtype = dtype;
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
 * exception when there is none we understand. */
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

bool py_dlpack_view(const struct DLExchange *api, PyObject *o, const char *name, Tensor *out) {
  DLTensor t;
  return api->view(o, &t) == 0 && fill(name, &t, out);
}

bool py_dlpack_stream(const struct DLExchange *api, const Tensor *t, void **stream) {
  return api->current_stream(t->device_type, t->device_id, stream) == 0;
}

/* ---- the capsule --------------------------------------------------------------------------- */

/* Whether the object says that it lies in the host's memory; true when it does not say. */
static bool says_host(PyObject *o) {
  PyObject *device = PyObject_CallMethod(o, "__dlpack_device__", NULL);
  PyObject *type = device ? PySequence_GetItem(device, 0) : NULL;
  long kind = type ? PyLong_AsLong(type) : DL_CPU;
  Py_XDECREF(type);
  Py_XDECREF(device);
  PyErr_Clear();
  return kind == DL_CPU;
}

/* -1: the producer shall not wait for anything, order comes from the stream of the launch. */
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

bool py_dlpack_take(PyObject *o, const char *name, Tensor *out) {
  out->held = capsule_of(o);
  if (!out->held) return false;
  DLManagedTensor *m = PyCapsule_GetPointer(out->held, "dltensor");
  if (m && fill(name, &m->tensor, out)) return true;
  Py_CLEAR(out->held); /* its own destructor frees an unused tensor */
  return false;
}
