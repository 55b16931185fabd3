/* py_attributes: tensors through attributes: PyTorch's before it had a table of C functions, and
 * `__cuda_array_interface__` (CuPy, Numba). */
#include "dlpack_abi.h"
#include "ext.h"

/* ---- reading attributes -------------------------------------------------------------------- */

/* The number that `o`, a new reference or NULL, holds; -1 with an exception if it is not one. */
static int64_t number_of(PyObject *o) {
  int64_t n = o ? PyLong_AsLongLong(o) : -1;
  Py_XDECREF(o);
  return n;
}

/* Stores a tuple of extents or strides in out[0 .. rank); consumes it. */
static bool numbers_of(PyObject *tuple, int rank, int64_t *out) {
  bool ok = tuple && PyTuple_Check(tuple) && PyTuple_Size(tuple) == rank;
  for (int i = 0; ok && i < rank; i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    ok = !(out[i] == -1 && PyErr_Occurred());
  }
  Py_XDECREF(tuple);
  return ok;
}

/* ---- PyTorch ------------------------------------------------------------------------------- */

/* The index of a torch.dtype, looked up once by its name; -1 possibly with an exception. */
static int find_torch_type(PyState *st, PyObject *dtype) {
  static const char prefix[] = "torch.";
  PyObject *text = PyObject_Str(dtype);
  const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  bool theirs = name && strncmp(name, prefix, strlen(prefix)) == 0;
  int found = theirs ? py_dtype_counterpart(name + strlen(prefix)) : -1;
  Py_XDECREF(text);
  PyObject *number = found >= 0 ? PyLong_FromLong(found) : NULL;
  bool kept = number && PyDict_SetItem(st->torch_types, dtype, number) == 0;
  Py_XDECREF(number);
  return kept ? found : -1;
}

static int torch_dtype(PyState *st, PyObject *o, const char *name) {
  PyObject *dtype = PyObject_GetAttr(o, st->names.dtype);
  if (!dtype) return -1;
  PyObject *known = PyDict_GetItemWithError(st->torch_types, dtype);
  int number = known ? (int)PyLong_AsLong(known) : find_torch_type(st, dtype);
  if (number < 0 && !PyErr_Occurred())
    py_argument_error(st, "argument `%s`: element type %S is not supported", name, dtype);
  Py_DECREF(dtype);
  return number;
}

/* A method without arguments. */
static PyObject *call_method(PyObject *o, PyObject *name) {
  return PyObject_CallMethodObjArgs(o, name, NULL);
}

/* A tensor that is not on a GPU: in host memory, or without memory. */
static bool on_host(PyState *st, PyObject *o, const char *name) {
  PyObject *device = PyObject_GetAttrString(o, "device");
  PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL;
  const char *kind = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  bool cpu = kind && strcmp(kind, "cpu") == 0;
  if (kind && !cpu) py_argument_error(st, "argument `%s` is on device '%s'", name, kind);
  Py_XDECREF(type);
  Py_XDECREF(device);
  return cpu;
}

/* PyTorch calls all GPUs `cuda`; its build says whose they are. */
static int torch_gpu(PyState *st) {
  if (st->torch_gpu) return st->torch_gpu;
  PyObject *modules = PyImport_GetModuleDict(); /* borrowed, like the next */
  PyObject *version = PyDict_GetItemString(modules, "torch.version");
  PyObject *hip = version ? PyObject_GetAttrString(version, "hip") : NULL;
  st->torch_gpu = hip && hip != Py_None ? DL_ROCM : DL_CUDA;
  Py_XDECREF(hip);
  PyErr_Clear();
  return st->torch_gpu;
}

/* PyTorch's number of a GPU; -1 for the host, and for tensors without memory. */
static bool torch_device(PyState *st, PyObject *o, const char *name, Tensor *out) {
  int64_t device = number_of(call_method(o, st->names.get_device));
  if (PyErr_Occurred()) return false;
  out->tensor.device.kind = device < 0 ? DL_CPU : torch_gpu(st);
  out->tensor.device.index = device < 0 ? 0 : (int)device;
  return device >= 0 || on_host(st, o, name);
}

bool py_attributes_take_torch(PyState *st, PyObject *o, const char *name, Tensor *out) {
  if (!torch_device(st, o, name, out)) return false;
  out->tensor.dtype = torch_dtype(st, o, name);
  if (out->tensor.dtype < 0) return false;
  PyObject *shape = PyObject_GetAttr(o, st->names.shape);
  Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
  if (rank < 0 || !py_tensor_ranked(st, name, (int)rank, out)) {
    Py_XDECREF(shape);
    return false;
  }
  int64_t address = number_of(call_method(o, st->names.data_ptr));
  out->tensor.data = (void *)(uintptr_t)address;
  return numbers_of(shape, (int)rank, out->shape) && !PyErr_Occurred() &&
         numbers_of(call_method(o, st->names.stride), (int)rank, out->strides);
}

/* PyTorch's stream of the device, if PyTorch is in use; else the default one. */
bool py_attributes_torch_stream(PyState *st, int device, void **stream) {
  *stream = NULL;
  if (!st->torch_stream) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *torch = PyDict_GetItemString(modules, "torch._C");
    if (!torch) return true;
    st->torch_stream = PyObject_GetAttrString(torch, "_cuda_getCurrentRawStream");
    if (!st->torch_stream) return PyErr_Clear(), true; /* PyTorch without CUDA */
  }
  PyObject *index = PyLong_FromLong(device);
  int64_t handle = number_of(PyObject_CallFunctionObjArgs(st->torch_stream, index, NULL));
  Py_XDECREF(index);
  *stream = (void *)(uintptr_t)handle;
  return !PyErr_Occurred();
}

/* ---- __cuda_array_interface__ -------------------------------------------------------------- */

/* Little-endian "<f4", "|b1", …; NULL if it is not one of ours. */
static const char *typestr_dtype(const char *s) {
  static const struct {
    const char *theirs, *ours;
  } rows[] = {{"<f2", "f16"}, {"<f4", "f32"}, {"<f8", "f64"}, {"|i1", "i8"},
              {"<i2", "i16"}, {"<i4", "i32"}, {"<i8", "i64"}, {"|u1", "u8"},
              {"<u2", "u16"}, {"<u4", "u32"}, {"<u8", "u64"}, {"|b1", "i1"}};
  for (size_t i = 0; s && i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].theirs, s) == 0) return rows[i].ours;
  return NULL;
}

/* (address, read-only) */
static bool array_data(PyState *st, PyObject *dict, const char *name, bool writable, Tensor *out) {
  PyObject *data = PyDict_GetItemString(dict, "data"); /* borrowed, like all below */
  if (!data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
    py_argument_error(st, "argument `%s`: __cuda_array_interface__ has no data", name);
    return false;
  }
  if (writable && PyObject_IsTrue(PyTuple_GetItem(data, 1))) {
    py_argument_error(st, "argument `%s` is written by the kernel but is read-only", name);
    return false;
  }
  out->tensor.data = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(data, 0));
  return !PyErr_Occurred();
}

/* Strides are in bytes there; None: row-major. */
static bool array_strides(PyState *st, PyObject *dict, int rank, int64_t size, const char *name,
                          Tensor *out) {
  PyObject *strides = PyDict_GetItemString(dict, "strides");
  if (!strides || strides == Py_None) {
    int64_t next = 1;
    for (int i = rank; i-- > 0; next *= out->shape[i]) out->strides[i] = next;
    return true;
  }
  if (!numbers_of(Py_NewRef(strides), rank, out->strides)) return false;
  for (int i = 0; i < rank; i++) {
    if (out->strides[i] % size != 0) {
      py_argument_error(st, "argument `%s`: a stride is not a multiple of the element size", name);
      return false;
    }
    out->strides[i] /= size;
  }
  return true;
}

static bool array_fields(PyState *st, PyObject *dict, const char *name, bool writable,
                         Tensor *out) {
  PyObject *type = PyDict_GetItemString(dict, "typestr"),
           *shape = PyDict_GetItemString(dict, "shape");
  const char *typestr = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  out->tensor.dtype = wv_dtype_find(typestr_dtype(typestr));
  out->tensor.device = (wv_device){.kind = DL_CUDA};
  if (out->tensor.dtype < 0 || !shape || !PyTuple_Check(shape)) {
    py_argument_error(st, "argument `%s`: element type '%s' is not supported", name,
                      typestr ? typestr : "?");
    return false;
  }
  int rank = (int)PyTuple_Size(shape);
  PyObject *stream = PyDict_GetItemString(dict, "stream");
  if (stream && stream != Py_None) {
    out->stream = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(stream);
    out->has_stream = true;
  }
  return py_tensor_ranked(st, name, rank, out) && numbers_of(Py_NewRef(shape), rank, out->shape) &&
         array_strides(st, dict, rank, typestr[2] - '0', name, out) &&
         array_data(st, dict, name, writable, out);
}

bool py_attributes_take_cuda_array(PyState *st, PyObject *o, const char *name, bool writable,
                                   Tensor *out) {
  PyObject *dict = PyObject_GetAttrString(o, "__cuda_array_interface__");
  if (!dict) return false;
  bool ok = PyDict_Check(dict) && array_fields(st, dict, name, writable, out);
  if (!ok && !PyErr_Occurred())
    py_argument_error(st, "argument `%s`: __cuda_array_interface__ is malformed", name);
  Py_DECREF(dict);
  return ok;
}
