/* py_buffer: tensors of NumPy, PyTorch and others as wv_buffer, without copying.
 *
 * First the buffer protocol (NumPy arrays, memoryviews), then DLPack (PyTorch, with bf16 and fp8).
 * The core checks ranks and widths; here only what it cannot see: device, writability, strides. */
#include "ext.h"

/* The part of dlpack.h that is needed: the unversioned exchange, stable since DLPack 0.2. */
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; /* strides count elements; NULL: row-major */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor tensor;
  void *manager;
  void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

static const struct {
  uint8_t code, bits;
  const char *name;
} dl_types[] = {{DL_INT, 8, "i8"},     {DL_INT, 16, "i16"},   {DL_INT, 32, "i32"},
                {DL_INT, 64, "i64"},   {DL_UINT, 8, "i8"},    {DL_UINT, 16, "i16"},
                {DL_UINT, 32, "i32"},  {DL_UINT, 64, "i64"},  {DL_FLOAT, 16, "f16"},
                {DL_FLOAT, 32, "f32"}, {DL_FLOAT, 64, "f64"}, {DL_BFLOAT, 16, "bf16"},
                {DL_BOOL, 8, "i1"},    {10, 8, "f8e4m3fn"},   {11, 8, "f8e4m3fnuz"},
                {12, 8, "f8e5m2"},     {13, 8, "f8e5m2fnuz"}, {14, 8, "f8e8m0fnu"}};

/* ---- buffer protocol ----------------------------------------------------------------------- */

/* The element type of a struct-module format; NULL when it has none of ours. */
static const char *format_dtype(const char *format, Py_ssize_t size) {
  char c = format ? format[strcspn(format, "?bBhHiIlLqQnNefd")] : 'B';
  static const char *const ints[] = {[1] = "i8", [2] = "i16", [4] = "i32", [8] = "i64"};
  if (format && strlen(format) > 2) return NULL;
  if (format && strlen(format) == 2 && !strchr("@=<", format[0])) return NULL;
  switch (c) {
  case '?': return "i1";
  case 'e': return "f16";
  case 'f': return "f32";
  case 'd': return "f64";
  case 0: return NULL;
  default: return size <= 8 ? ints[size] : NULL;
  }
}

static bool fill_view(Scratch *s, const char *name, Tensor *out) {
  Py_buffer *v = &out->view;
  int64_t *shape = py_scratch_alloc(s, (size_t)v->ndim, sizeof *shape);
  int64_t *strides = py_scratch_alloc(s, (size_t)v->ndim, sizeof *strides);
  if (!shape || !strides) return false;
  for (int i = 0; i < v->ndim; i++) {
    shape[i] = v->shape[i];
    strides[i] = v->strides[i] / v->itemsize;
    if (v->strides[i] % v->itemsize != 0) {
      PyErr_Format(PyExc_ValueError, "argument `%s`: a stride is not a whole number of elements",
                   name);
      return false;
    }
  }
  out->buffer = (wv_buffer){.data = v->buf,
                            .dtype = format_dtype(v->format, v->itemsize),
                            .rank = v->ndim,
                            .shape = shape,
                            .strides = strides};
  if (out->buffer.dtype) return true;
  PyErr_Format(PyExc_TypeError, "argument `%s`: elements of format '%s' have no type here", name,
               v->format);
  return false;
}

static bool take_view(Scratch *s, PyObject *o, const char *name, bool writable, Tensor *out) {
  int flags = PyBUF_STRIDED_RO | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(o, &out->view, flags) < 0) {
    PyErr_Clear();
    return false;
  }
  if (fill_view(s, name, out)) return true;
  PyBuffer_Release(&out->view);
  return false;
}

/* ---- DLPack -------------------------------------------------------------------------------- */

static const char *dl_name(const DLTensor *t) {
  for (size_t i = 0; i < sizeof dl_types / sizeof *dl_types; i++)
    if (dl_types[i].code == t->dtype.code && dl_types[i].bits == t->dtype.bits &&
        t->dtype.lanes == 1)
      return dl_types[i].name;
  return NULL;
}

static bool fill_dlpack(const char *name, const DLTensor *t, Tensor *out) {
  if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST &&
      t->device.type != DL_ROCM_HOST) {
    PyErr_Format(PyExc_ValueError,
                 "argument `%s` lies on a device; this kernel runs on the host: "
                 "move it there with `.cpu()`",
                 name);
    return false;
  }
  out->buffer = (wv_buffer){.data = (char *)t->data + t->byte_offset,
                            .dtype = dl_name(t),
                            .rank = t->ndim,
                            .shape = t->shape,
                            .strides = t->strides};
  if (out->buffer.dtype) return true;
  PyErr_Format(PyExc_TypeError,
               "argument `%s`: its element type (DLPack code %d, %d bits) has no "
               "counterpart here",
               name, t->dtype.code, t->dtype.bits);
  return false;
}

static bool take_dlpack(PyObject *o, const char *name, Tensor *out) {
  out->capsule = PyObject_CallMethod(o, "__dlpack__", NULL);
  if (!out->capsule) return false;
  DLManagedTensor *m = PyCapsule_GetPointer(out->capsule, "dltensor");
  if (m && fill_dlpack(name, &m->tensor, out)) return true;
  Py_CLEAR(out->capsule); /* its own destructor frees an unused tensor */
  return false;
}

bool py_tensor_take(Scratch *s, PyObject *o, const char *name, bool writable, Tensor *out) {
  *out = (Tensor){0};
  if (PyObject_CheckBuffer(o)) {
    if (take_view(s, o, name, writable, out)) return true;
    if (PyErr_Occurred()) return false;
    out->view = (Py_buffer){0};
    Py_buffer probe;
    if (writable && PyObject_GetBuffer(o, &probe, PyBUF_STRIDED_RO | PyBUF_FORMAT) == 0) {
      PyBuffer_Release(&probe);
      PyErr_Format(PyExc_ValueError, "argument `%s` is written by the kernel but is read-only",
                   name);
      return false;
    }
    PyErr_Clear();
  }
  if (PyObject_HasAttrString(o, "__dlpack__")) return take_dlpack(o, name, out);
  PyErr_Format(PyExc_TypeError,
               "argument `%s` must be a tensor (a NumPy array, or anything with "
               "`__dlpack__`), got %R",
               name, (PyObject *)Py_TYPE(o));
  return false;
}

void py_tensor_release(Tensor *t) {
  if (t->view.obj) PyBuffer_Release(&t->view);
  Py_CLEAR(t->capsule);
}
