/* ext.h: the Python extension `wave_lang._wave`.
 *
 * One file per Python type; everything else goes through wave.h. All state is in PyState, reached
 * from the type of an object, so the module works in several interpreters. Functions that can fail
 * return NULL, -1 or false with a Python exception set. */
#ifndef WV_EXT_H
#define WV_EXT_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <string.h>

#include "wave.h"

/* Names used for every traced op, and for PyTorch tensors; interned once. */
#define PY_NAMES(X)                                                                                \
  X(f_back)                                                                                        \
  X(f_lasti)                                                                                       \
  X(co_filename) X(co_positions) X(dtype) X(get_device) X(shape) X(data_ptr) X(stride) X(is_neg)
typedef struct PyNames {
#define X(name) PyObject *name;
  PY_NAMES(X)
#undef X
} PyNames;

/* How tensors of a type are accessed: py_tensor.c. */
typedef enum TensorWay {
  WAY_NONE,
  WAY_EXCHANGE,
  WAY_TORCH,
  WAY_CUDA_ARRAY,
  WAY_BUFFER,
  WAY_DLPACK
} TensorWay;

typedef struct TensorType {
  PyTypeObject *type; /* NULL: free */
  TensorWay way;
  const struct DLExchange *api; /* for WAY_EXCHANGE */
} TensorType;
enum { TENSOR_TYPES = 8, TENSOR_RANK = 8 };

typedef struct PyState {
  wv_ctx *cx;       /* replaced after an internal error has made it unusable */
  wv_ctx **retired; /* earlier ones, to which objects still belong */
  int nretired;
  PyTypeObject *expr_type, *dtype_type, *value_type, *tracer_type, *kernel_type;
  PyTypeObject *diagnostic_type, *note_type, *param_type, *proof_type, *proof_row_type;
  PyTypeObject *program_type, *launchable_type, *variant_type, *resources_type, *device_type;
  PyTypeObject *report_type, *finding_type, *other_type, *cost_type, *construct_type;
  PyObject *compile_error, *simulation_error, *launch_error, *argument_error, *assert_error,
      *internal_error;
  unsigned long main_thread; /* the thread whose signals Python handles; 0: unknown */
  PyObject *dtypes;          /* name -> DataType, one each */
  PyObject *places;          /* id of a code object -> (code, positions, targets): py_place.c */
  PyObject *internal;        /* directory of the package, whose frames are not the user's */
  PyObject *namer;           /* code -> {instruction offset: name}, for readable IR; NULL: none */
  PyObject *kernels;         /* the kernel library below it: its frames count as the user's */
  PyNames names;
  TensorType tensor_types[TENSOR_TYPES]; /* the most recent types, in a ring */
  int next_tensor_type;
  signed char dl_dtypes[32][4]; /* DLPack's code, and 8 << i bits -> index of a dtype, or -1 */
  bool no_exchange;             /* for comparisons: as if no type had a table of C functions */
  PyObject *torch_types;        /* torch.dtype -> row of py_attributes.c's table */
  int torch_gpu;                /* DLPack's number of PyTorch's GPUs; 0: not needed yet */
  PyObject *torch_stream;       /* PyTorch's function for it, once it has been needed */
} PyState;

static inline PyState *py_state(PyObject *module) { return PyModule_GetState(module); }

/* ---- py_scratch.c: memory for one call ---- */

typedef struct Scratch {
  struct ScratchBlock *first;
} Scratch;

void *py_scratch_alloc(Scratch *s, size_t count, size_t size); /* zeroed; MemoryError when NULL */
void py_scratch_free(Scratch *s);

/* ---- py_error.c: CompileError, Diagnostic ---- */

int py_error_init(PyObject *module, PyState *st);
/* A struct sequence from new references, which are consumed; NULL if any of them is. */
PyObject *py_record(PyTypeObject *type, PyObject **items, int n);
/* Raises CompileError with all diagnostics of the context and clears them; InternalError if one of
 * them is a compiler bug, after which the module gets a new context. Returns NULL. */
PyObject *py_error_raise(PyState *st);
PyObject *py_error_raise_in(PyState *st, wv_ctx *cx); /* the same for another context */
PyObject *py_error_raise_as(PyState *st, wv_ctx *cx, PyObject *type); /* as a subclass */
/* Drops the diagnostics of the context, and replaces it if it is the module's and unusable. */
void py_error_clear(PyState *st, wv_ctx *cx);
/* The exception, not raised: `type` is CompileError or a subclass. */
PyObject *py_error_make(PyState *st, wv_ctx *cx, PyObject *type);
/* Supplies the lines of a source that only Python knows (a notebook cell). */
void py_error_give_source(wv_ctx *cx, const char *file);
PyObject *py_text_or_none(const char *s); /* None for NULL */
/* The same; a diagnostic without a place gets the user's: expressions are made without one. */
PyObject *py_error_raise_here(PyState *st);
/* Reports one mistake found by the front end at `at` and raises. Returns NULL. */
PyObject *py_error_report(PyState *st, const char *code, wv_place at, const char *text,
                          const char *hint);
/* Warnings and remarks so far, as a list; clears them. */
PyObject *py_error_take(PyState *st);
PyObject *py_error_take_from(PyState *st, wv_ctx *cx);

/* ---- py_place.c: source locations ---- */

/* The nearest user frame. The name lives as long as the frame. */
bool py_place_here(PyState *st, wv_place *out);
/* The same, and the variable (or tuple of variables) to which the current expression is assigned:
 * borrowed, NULL if there is none. A variable of the caller of `traced`, the frame in which a kernel
 * is traced, is not meant: kernels of the package have no user frame of their own. */
bool py_place_and_target(PyState *st, const void *traced, wv_place *out, PyObject **target);
/* The end of a function, for mistakes in what it returns. `code` keeps the file name alive. */
bool py_place_of_return(PyState *st, PyObject *code, wv_place *out);
PyObject *py_place_to_python(const wv_place *at);
/* None: the user's frame. The tuple must outlive the place. */
bool py_place_from_python(PyState *st, PyObject *o, wv_place *out);

/* ---- py_expr.c: Expr ---- */

int py_expr_init(PyObject *module, PyState *st);
PyObject *py_expr_new(PyState *st, wv_expr e); /* raises the context's diagnostics if e is NULL */
bool py_expr_check(PyObject *o);
wv_expr py_expr_get(PyObject *o); /* of an Expr */
/* Ints, whole floats, Expr, SymPy expressions; NULL with TypeError for anything else. */
wv_expr py_expr_from(PyState *st, PyObject *o);
/* Like py_expr_from, but returns NULL without an exception if the object is not an expression. */
wv_expr py_expr_try(PyState *st, PyObject *o);
/* A sequence of them; anything else counts as a sequence of one. */
const wv_expr *py_expr_list(PyState *st, Scratch *s, PyObject *o, int *n);
/* A dict, or a sequence of pairs. */
const wv_pair *py_expr_pairs(PyState *st, Scratch *s, PyObject *o, int *n);
wv_binding *py_expr_bindings(PyState *st, Scratch *s, PyObject *o, int *n);

/* Adds a type with operators of its own to the module. */
int py_add_operand_type(PyObject *module, PyTypeObject *type);

/* ---- py_sympy.c: conversions, only when an object comes from SymPy ---- */

bool py_sympy_check(PyObject *o);
wv_expr py_sympy_from(PyState *st, PyObject *o);
PyObject *py_sympy_to(PyState *st, wv_expr e);

/* ---- py_dtype.c: DataType ---- */

int py_dtype_init(PyObject *module, PyState *st);
PyObject *py_dtype_find(PyState *st,
                        const char *name); /* new reference; TypeError if there is none */
const char *py_dtype_name(PyState *st,
                          PyObject *o);     /* as types.def spells it; TypeError otherwise */
int py_dtype_counterpart(const char *name); /* for a name as PyTorch and NumPy spell it, or -1 */

/* ---- py_types.c: types and attributes from Python objects ---- */

/* None, a DataType, (dims, dtype) or (dims, dtype, space, layout). */
bool py_type_from(PyState *st, Scratch *s, PyObject *o, wv_type *out);
bool py_mapping_from(PyState *st, Scratch *s, PyObject *o, wv_mapping *out);
bool py_mma_from(PyState *st, PyObject *o, wv_mma *out);
/* A dict from names of attrs.def to values; None values are left out. */
bool py_attrs_from(PyState *st, Scratch *s, PyObject *dict, const wv_attr **out, int *n);
bool py_int_from(PyObject *o, int *out); /* OverflowError beyond 32 bits */
bool py_constraint_from(PyState *st, Scratch *s, PyObject *row, wv_constraint *out);

/* ---- py_tracer.c: Tracer ---- */

typedef struct TracerObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  wv_ctx *cx;         /* the module's context when it was made */
  wv_builder *b;      /* NULL once finished or abandoned */
  PyObject *previous; /* the tracer that was current before this one */
  PyObject *items;    /* called for `value[key]`; NULL: values cannot be indexed */
  const void *frame;  /* in which it was made: the kernel's function runs inside it */
} TracerObject;

int py_tracer_init(PyObject *module, PyState *st);
/* The tracer of the kernel being traced in this thread (borrowed), or NULL with an exception that
 * says `what` only works inside a kernel. */
TracerObject *py_tracer_current(PyState *st, const char *what);
/* Emits an op at the user's source location. Operands are values, numbers or expressions. */
PyObject *py_tracer_emit(TracerObject *t, const char *op, PyObject *const *operands, Py_ssize_t n,
                         PyObject *attrs, PyObject *given);

/* ---- py_value.c: Value ---- */

int py_value_init(PyObject *module, PyState *st);
PyObject *py_value_new(TracerObject *t, wv_value *v);
void py_value_set_only_result(PyObject *o); /* of a region: indexing it with 0 gives the value
                                             * itself */
bool py_value_check(PyObject *o);
wv_value *py_value_get(PyObject *o);
TracerObject *py_value_tracer(PyObject *o); /* borrowed */
/* The value of an object that must have been made by `t`; otherwise TypeError mentions `what`. */
wv_value *py_value_from(TracerObject *t, PyObject *o, const char *what);
PyObject *py_type_dims(PyState *st, wv_type t); /* a tuple of Expr */

/* ---- py_kernel.c: Kernel ---- */

int py_kernel_init(PyObject *module, PyState *st);
PyObject *py_kernel_new(PyState *st, wv_kernel *k); /* takes ownership */
wv_kernel *py_kernel_get(PyObject *o);

/* ---- py_run.c: calls of kernels ---- */

/* Calls call(label, dtype name, shape, bytes) with a debug log. */
PyObject *py_run_call_log(PyObject *call, const char *label, const wv_buffer *b);
PyObject *py_run_eval(PyState *st, wv_kernel *k, PyObject *args);
PyObject *py_run_sim(PyState *st, wv_kernel *k, PyObject *args, PyObject *named);

/* ---- py_tensor.c: foreign tensors, without copying ---- */

typedef struct Tensor {
  wv_tensor tensor; /* its shape and strides are those below; devices as numbered by DLPack */
  const struct DLExchange *api;
  void *stream; /* if the tensor names the stream on which it is ready */
  bool has_stream;
  Py_buffer view; /* view.obj set: accessed through the buffer protocol */
  PyObject *held; /* set: a capsule of `__dlpack__` */
  int64_t shape[TENSOR_RANK], strides[TENSOR_RANK];
} Tensor;

/* `name` is the parameter's, for messages. The tensor stays valid until py_tensor_release, and the
 * struct must not be moved. */
bool py_tensor_take(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out);
void py_tensor_release(Tensor *t);
bool py_tensor_is_host(const Tensor *t);
/* The current stream of the tensor's library. */
bool py_tensor_stream(PyState *st, const Tensor *t, void **stream);
void py_tensor_forget_types(PyState *st);
/* For the functions below. */
bool py_tensor_ranked(PyState *st, const char *name, int rank, Tensor *out);

/* ---- the interfaces: false with an exception; py_buffer_take also without one: not supported
 * ---- */

void py_dlpack_init(PyState *st);
const struct DLExchange *py_dlpack_exchange(PyTypeObject *type);
bool py_dlpack_view(PyState *st, const struct DLExchange *api, PyObject *o, const char *name,
                    Tensor *out);
bool py_dlpack_stream(const struct DLExchange *api, const Tensor *t, void **stream);
bool py_dlpack_take(PyState *st, PyObject *o, const char *name, Tensor *out);
bool py_attributes_take_torch(PyState *st, PyObject *o, const char *name, Tensor *out);
bool py_attributes_torch_stream(PyState *st, int device, void **stream);
bool py_attributes_take_cuda_array(PyState *st, PyObject *o, const char *name, bool writable,
                                   Tensor *out);
bool py_buffer_take(PyState *st, PyObject *o, const char *name, bool writable, Tensor *out);

/* ---- py_args.c: the arguments of a call ---- */

/* The properties of a parameter, known before any call. */
typedef struct ParamInfo {
  PyObject *name; /* a str, which keeps `text` */
  const char *text;
  bool is_tensor, is_output, is_float;
  const char *dtype;
  int dtype_number; /* of wv_dtype_name */
} ParamInfo;

typedef struct Params {
  const char *kernel;
  ParamInfo *list;
  int n;
} Params;

bool py_params_of(wv_kernel *k, Params *out);
void py_params_free(Params *p);
/* Raises ArgumentError; false. */
bool py_argument_error(PyState *st, const char *fmt, ...);
PyObject *py_params_wrong_count(PyState *st, const Params *p, Py_ssize_t given); /* NULL */

enum { FEW_ARGS = 12 };
typedef struct Args {
  int n, taken;
  Tensor *tensors;
  wv_launch_arg *args;
  Tensor some_tensors[FEW_ARGS]; /* avoids an allocation for the usual number of arguments */
  wv_launch_arg some_args[FEW_ARGS];
} Args;

/* Acquires them; in any case py_args_release is called once afterwards. */
bool py_args_take(PyState *st, const Params *p, PyObject *const *given, Args *out);
void py_args_release(Args *a);
/* A tensor on a device, or NULL: all are in host memory. */
const Tensor *py_args_on_device(const Args *a);

/* ---- py_program.c: Program, compiled for a target ---- */

typedef struct ProgramObject {
  PyObject ob_base; /* what PyObject_HEAD expands to */
  PyState *st;
  wv_program *p;
  wv_ctx *cx;    /* for calls made with the interpreter lock held */
  wv_ctx *spare; /* for the next call made without it; NULL: in use, or none yet */
  PyObject *remarks;
} ProgramObject;

int py_program_init(PyObject *module, PyState *st);
PyObject *py_program_compile(PyState *st, wv_kernel *k, PyObject *args, PyObject *named);
PyObject *py_program_compile_as(PyState *st, wv_kernel *k, PyObject *args); /* with options */
/* Launches on a stream; false with LaunchError. */
bool py_program_launch(ProgramObject *p, const Args *a, void *stream);
/* The same; log(label, dtype name, shape, bytes) is called with every debug log, unless it is NULL.
 */
bool py_program_launch_logged(ProgramObject *p, const Args *a, void *stream, PyObject *log);
bool py_program_warm(ProgramObject *p, const Args *a); /* everything except the launch */
PyObject *py_program_devices(PyState *st);             /* a list of Device */

/* ---- py_launch.c: Launchable, a compiled kernel in Python ---- */

int py_launch_init(PyObject *module, PyState *st);

/* ---- py_report.c: Report, Finding, SimulationError ---- */

int py_report_init(PyObject *module, PyState *st);
/* Takes ownership of all three, even if it fails. */
PyObject *py_report_new(PyState *st, wv_ctx *cx, wv_kernel *k, wv_report *r);
void py_report_raise(PyObject *report); /* SimulationError, unless an exception is already set */

/* ---- py_proof.c: Proof ---- */

int py_proof_init(PyObject *module, PyState *st);
PyObject *py_proof_of(PyState *st, wv_kernel *k);

/* ---- py_construct.c: Construct ---- */

int py_construct_init(PyObject *module, PyState *st);
/* construct(name, target, direct, place) of a Kernel */
PyObject *py_construct_open(PyState *st, PyObject *kernel, PyObject *args);

/* ---- py_measured.c: pages of measurements ---- */

PyObject *py_measured_html(PyObject *module, PyObject *args);

/* ---- py_tables.c: the compiler's tables as Python lists ---- */

int py_tables_init(PyObject *module);
int py_options_init(PyObject *module);
/* Options of Python. */
typedef struct Options {
  wv_options list;
  Scratch scratch;
} Options;
/* From [(name, value or None, shown)] and a place; to be closed in either case. */
bool py_options_open(PyState *st, PyObject *given, PyObject *place, Options *out);
void py_options_close(Options *o);
PyObject *py_options_apply(PyState *st, wv_kernel *k, PyObject *args);
PyObject *py_options_undumped(PyState *st, wv_kernel *k, PyObject *args);
PyObject *py_options_override(PyState *st, wv_kernel *k, PyObject *args); /* a Kernel, or None */
PyObject *py_options_show(PyState *st, wv_kernel *k, PyObject *args);
PyObject *py_options_key(PyState *st, wv_kernel *k, PyObject *args);
PyObject *py_options_lower(PyState *st, wv_kernel *k, PyObject *args);

#endif
