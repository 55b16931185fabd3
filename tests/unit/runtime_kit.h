/* runtime_kit.h: programs on the fake CUDA driver, without AMD devices. */
#ifndef WV_RUNTIME_KIT_H
#define WV_RUNTIME_KIT_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef FAKE_CUDA
#define FAKE_CUDA "" /* the build names the libraries */
#define FAKE_CUDA_OLD ""
#endif

#include <dlfcn.h>
#include <stdlib.h>

#include "fake_cuda/fake_cuda.h"
#include "unit/harness.h"
#include "wave.h"

/* A function of a library, in *function. */
static inline void fake_function(const char *path, const char *name, void *function) {
  void *library = dlopen(path, RTLD_NOW), *symbol = library ? dlsym(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
}

/* Resets the fake. */
static inline FakeCuda *fake_open(const char *path) {
  setenv("WAVE_CUDA_LIB", path, 1);
  setenv("WAVE_HIP_LIB", "/nowhere/libamdhip64.so", 1);
  setenv("WAVE_CACHE_ON", "0", 1);
  FakeCudaFn *get = NULL;
  fake_function(path, "fake_cuda", &get);
  return get();
}

typedef struct Bench {
  FakeCuda *fake;
  wv_ctx *cx;
  wv_kernel *k;
  wv_program *p;
} Bench;

static inline wv_kernel *kit_parse(wv_ctx *cx, const char *text) {
  wv_kernel *k = NULL;
  return wv_parse(cx, "test.wave", text, &k, 1) == 1 ? k : NULL;
}

static inline Bench bench_open(const char *text, const wv_compile_options *o) {
  Bench b = {.fake = fake_open(FAKE_CUDA), .cx = wv_ctx_new()};
  b.k = kit_parse(b.cx, text);
  if (b.k) b.p = wv_compile(b.k, o);
  return b;
}

static inline void bench_close(Bench *b) {
  wv_program_free(b->p);
  wv_kernel_free(b->k);
  wv_ctx_free(b->cx);
}

/* The first diagnostic with this code, with notes and hint; "" if there is none. */
static inline const char *said(wv_ctx *cx, const char *code) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && strcmp(d.code, code) == 0) return d.rendered;
  return "";
}

static inline bool has(const char *text, const char *part) { return text && strstr(text, part); }

/* Tensors whose data is not read. */
typedef struct Tensor {
  wv_tensor t;
  int64_t shape[8], strides[8];
} Tensor;

static inline Tensor *tensor(Tensor *t, uintptr_t address, const char *dtype, int rank,
                             const int64_t *shape) {
  int64_t stride = 1;
  *t = (Tensor){.t = {.data = (void *)address,
                      .shape = t->shape,
                      .strides = t->strides,
                      .rank = rank,
                      .dtype = wv_dtype_find(dtype),
                      .device = {WV_CUDA, 0}}};
  for (int d = rank - 1; d >= 0; d--) {
    t->shape[d] = shape[d];
    t->strides[d] = stride;
    stride *= shape[d];
  }
  return t;
}

static inline int64_t arg_i64(const FakeCuda *f, int i) {
  int64_t v = 0;
  memcpy(&v, f->last.arg[i], (size_t)(f->last.arg_bytes[i] < 8 ? f->last.arg_bytes[i] : 8));
  return v;
}

#endif
