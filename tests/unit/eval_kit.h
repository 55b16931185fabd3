/* eval_kit.h: kernels as text, tensors as arrays of numbers, for the tests of the evaluator.
 *
 *     Lab l = lab_open("kernel @k(%a: mem<M, f32>) ... { ... }");
 *     int a = lab_tensor(&l, DTYPE_f32, 1, 100);        row-major, pseudo-random small integers
 *     CHECK(lab_run(&l));  CHECK(get(&l, a, 7) == 3);
 *     lab_close(&l);
 */
#ifndef WV_EVAL_KIT_H
#define WV_EVAL_KIT_H

#include <stdarg.h>
#include <stdlib.h>

#include "backend/eval/eval_tile.h"
#include "ir/dtype.h"
#include "unit/harness.h"

enum { LAB_ARGS = 8 };

typedef struct Lab {
  Context *cx;
  Kernel *k;
  EvalBuffer tensors[LAB_ARGS];
  EvalArg args[LAB_ARGS];
  int nargs;
  EvalOptions options;
  uint64_t seed;
} Lab;

static inline void lab_print_errors(const Lab *l) {
  StrBuf out = {.arena = l->cx->arena};
  diags_render(&l->cx->diags, &out);
  printf("%s", sb_text(&out));
}

static inline Lab lab_open(const char *text) {
  Lab l = {.cx = context_new(), .seed = 7};
  KernelList list = ir_parse(l.cx, "test.wave", text, l.cx->arena);
  l.k = list.n ? list.at[0] : NULL;
  if (!l.k) lab_print_errors(&l);
  return l;
}

static inline void lab_close(Lab *l) {
  for (int i = 0; i < l->nargs; i++) free(l->tensors[i].data);
  kernel_free(l->k);
  context_free(l->cx);
}

static inline int64_t lab_count(const EvalBuffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  return n;
}

static inline double get(const Lab *l, int t, int64_t e) {
  const EvalBuffer *b = &l->tensors[t];
  uint64_t bits = dtype_load(b->dtype, b->data, e);
  return dtype_is_float(b->dtype) ? dtype_decode(b->dtype, bits)
                                  : (double)dtype_wrap(b->dtype, (int64_t)bits);
}

static inline void put(Lab *l, int t, int64_t e, double v) {
  EvalBuffer *b = &l->tensors[t];
  uint64_t bits =
      dtype_is_float(b->dtype) ? dtype_encode(b->dtype, v) : dtype_int_bits(b->dtype, (int64_t)v);
  dtype_store(b->dtype, b->data, e, bits);
}

/* Integers from -8 to 7. */
static inline int lab_random(Lab *l) {
  l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
  return (int)(l->seed >> 60) - 8;
}

static inline int lab_tensor(Lab *l, DType dtype, int rank, ...) {
  int t = l->nargs++;
  EvalBuffer *b = &l->tensors[t];
  *b = (EvalBuffer){.dtype = dtype, .rank = rank};
  va_list ap;
  va_start(ap, rank);
  for (int i = 0; i < rank; i++) b->shape[i] = va_arg(ap, int);
  va_end(ap);
  for (int i = rank - 1, stride = 1; i >= 0; i--) {
    b->strides[i] = stride;
    stride *= (int)b->shape[i];
  }
  b->data = calloc(dtype_bytes(dtype, lab_count(b)) + 1, 1);
  for (int64_t e = 0; e < lab_count(b); e++) put(l, t, e, lab_random(l));
  l->args[t].buffer = b;
  return t;
}

static inline int lab_number(Lab *l, double v) {
  l->args[l->nargs].number = v;
  l->args[l->nargs].integer = (int64_t)v;
  return l->nargs++;
}

static inline void lab_fill(Lab *l, int t, double v) {
  for (int64_t e = 0; e < lab_count(&l->tensors[t]); e++) put(l, t, e, v);
}

/* Tensors move with the Lab: so their addresses are taken at the call. */
static inline bool lab_try(Lab *l) {
  for (int i = 0; i < l->nargs; i++)
    if (l->args[i].buffer) l->args[i].buffer = &l->tensors[i];
  return l->k && eval_tile(l->k, l->args, l->nargs, &l->options);
}

static inline bool lab_run(Lab *l) {
  bool ok = lab_try(l);
  if (!ok) lab_print_errors(l);
  return ok;
}

/* The code of the last diagnostic, after a run that must fail. */
static inline const char *lab_error(Lab *l) {
  if (lab_try(l)) return "none";
  return l->cx->diags.last ? diag_info[l->cx->diags.last->code].code : "silent";
}

#endif
