/* py_buffer: tensors through the buffer protocol: NumPy arrays, memoryviews, arrays. */
#include "dlpack_abi.h"
#include "ext.h"

/* The element type of a struct-module format; NULL if it is not one of ours. */
static const char *format_dtype(const char *format, Py_ssize_t size) {
  char c = format ? format[strcspn(format, "?bBhHiIlLqQnNefd")] : 'B';
  static const char *const ints[] = {[1] = "i8", [2] = "i16", [4] = "i32", [8] = "i64"};
  static const char *const counts[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"};
  if (format && strlen(format) > 2) return NULL;
  if (format && strlen(format) == 2 && !strchr("@=<", format[0])) return NULL;
  switch (c) {
  case '?': return "i1";
  case 'e': return "f16";
  case 'f': return "f32";
  case 'd': return "f64";
  case 0: return NULL;
  default: return size > 8 ? NULL : strchr("BHILQN", c) ? counts[size] : ints[size];
  }
}

static bool fill_view(PyState *st, const char *name, Tensor *out) {
  const Py_buffer *v = &out->view;
  if (!py_tensor_ranked(st, name, v->ndim, out)) return false;
  int64_t dense = 1; /* ctypes omits strides when the array is contiguous, even on request */
  for (int i = v->ndim; i-- > 0; dense *= v->shape[i]) {
    out->shape[i] = v->shape[i];
    out->strides[i] = v->strides ? v->strides[i] / v->itemsize : dense;
    if (v->strides && v->strides[i] % v->itemsize != 0) {
      py_argument_error(st, "argument `%s`: a stride is not a multiple of the element size", name);
      return false;
    }
  }
  out->tensor.device = (wv_device){.kind = DL_CPU};
  out->tensor.data = v->buf;
  out->tensor.dtype = wv_dtype_find(format_dtype(v->format, v->itemsize));
  if (out->tensor.dtype >= 0) return true;
  py_argument_error(st, "argument `%s`: element format '%s' is not supported", name, v->format);
  return false;
}

static bool take_view(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  int flags = PyBUF_STRIDED_RO | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(o, &out->view, flags) < 0) {
    PyErr_Clear();
    out->view = (Py_buffer){0};
    return false;
  }
  if (fill_view(st, name, out)) return true;
  PyBuffer_Release(&out->view);
  return false;
}

/* The type of an array whose dtype comes from an extension of NumPy (ml_dtypes: bfloat16 and the
 * 8-bit floats), and its size in bytes; -1 if it is not one of ours. */
static int extension_dtype(PyObject *array, long *bytes) {
  PyObject *dtype = PyObject_GetAttrString(array, "dtype");
  PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
  PyObject *size = name ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
  const char *text = size && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  int found = text ? py_dtype_counterpart(text) : -1;
  *bytes = found >= 0 && PyLong_Check(size) ? PyLong_AsLong(size) : 0;
  Py_XDECREF(size);
  Py_XDECREF(name);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return found;
}

/* NumPy provides no buffer for such an array, but one of the same bytes as integers. */
static bool take_extension(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  long bytes;
  int dtype = extension_dtype(o, &bytes);
  if (dtype < 0 || (bytes != 1 && bytes != 2)) return false;
  PyObject *integers = PyObject_CallMethod(o, "view", "s", bytes == 1 ? "u1" : "u2");
  bool ok = integers && take_view(st, integers, name, writable, out);
  Py_XDECREF(integers); /* the view holds what it needs */
  if (!integers) PyErr_Clear();
  if (ok) out->tensor.dtype = dtype;
  return ok;
}

static bool take_either(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  if (take_view(st, o, name, writable, out)) return true;
  return !PyErr_Occurred() && take_extension(st, o, name, writable, out);
}

/* False without an exception: the object cannot be accessed that way. */
bool py_buffer_take(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out) {
  if (take_either(st, o, name, writable, out)) return true;
  if (PyErr_Occurred()) return false;
  if (!writable || !take_either(st, o, name, false, out)) return false;
  PyBuffer_Release(&out->view);
  py_argument_error(st, "argument `%s` is written by the kernel but is read-only", name);
  return false;
}
