/* hip_kit.h: programs on the fake HIP library. Their code objects are fake ones: the signature, the
 * variants and the launch code are those of the kernel compiled for sm_80. */
#ifndef WV_HIP_KIT_H
#define WV_HIP_KIT_H

#include "unit/runtime_kit.h"
/* after it: it defines what POSIX needs */
#include "fake_hip/fake_hip.h"
#include "fake_hip/fake_object.h"
#include "runtime/device.h"

#ifndef FAKE_HIP
#define FAKE_HIP "" /* the build names the libraries */
#define FAKE_HIP_OLD ""
#endif

/* Resets the fake; NULL: there is no such library. */
static inline FakeHip *fake_hip_open(const char *path) {
  setenv("WAVE_HIP_LIB", path, 1);
  setenv("WAVE_CUDA_LIB", "/nowhere/libcuda.so", 1);
  setenv("WAVE_CACHE_ON", "0", 1);
  FakeHipFn *get = NULL;
  fake_function(path, "fake_hip", &get);
  FakeHip *fake = get ? get() : NULL;
  if (fake) fake->current(0);
  return fake;
}

typedef struct HipBench {
  FakeHip *fake;
  wv_ctx *cx;
  wv_program *p;
} HipBench;

/* Gives a variant the code object of a kernel with such arguments. */
static inline void hip_encode_variant(Arena *a, ArtVariant *v, const char *chip) {
  int bytes[ARTEFACT_ARGS];
  size_t size;
  for (int i = 0; i < v->nargs; i++) bytes[i] = v->args[i].bytes;
  char *object = fake_object(v->entry, chip, bytes, v->nargs, &size);
  char *kept = arena_alloc(a, size);
  v->code = memcpy(kept, object, size);
  v->code_bytes = (int)size;
  v->listing = "fake"; /* the code is not text */
  free(object);
}

/* The program as bytes, in `a`; `edit` may change it before. */
static inline StrBuf hip_bytes(Arena *a, wv_ctx *cx, const char *text, const char *chip,
                               void (*edit)(Artefact *art)) {
  StrBuf out = {.arena = a};
  wv_kernel *k = kit_parse(cx, text);
  wv_compile_options o = {.target = "sm_80", .device = -1, .cache = -1};
  wv_program *p = k ? wv_compile(k, &o) : NULL;
  size_t n = 0;
  const char *damage;
  char *bytes = p ? wv_program_save(p, cx, &n) : NULL;
  Artefact *art = bytes ? artefact_read_whole(a, bytes, n, &damage) : NULL;
  if (art) {
    art->target = "gfx942";
    art->device_kind = DEVICE_HIP;
    for (int i = 0; i < art->nvariants; i++) hip_encode_variant(a, &art->variant[i], chip);
    if (edit) edit(art);
    artefact_write_whole(&out, art);
  }
  wv_free(bytes);
  wv_program_free(p);
  wv_kernel_free(k);
  return out;
}

/* A program that is loaded on device 0, by the library `path`. */
static inline HipBench hip_open(const char *path, const char *text, void (*edit)(Artefact *art)) {
  HipBench b = {.fake = fake_hip_open(path), .cx = wv_ctx_new()};
  Arena *a = arena_new();
  StrBuf bytes = hip_bytes(a, b.cx, text, "gfx942", edit);
  wv_diag_clear(b.cx);
  b.p = wv_program_load(b.cx, bytes.at, bytes.n, 0);
  arena_free(a);
  return b;
}

static inline void hip_close(HipBench *b) {
  wv_program_free(b->p);
  wv_ctx_free(b->cx);
}

static inline int64_t hip_arg(const FakeHip *f, int i) {
  int64_t v = 0;
  memcpy(&v, f->last.arg[i], (size_t)f->last.arg_bytes[i]);
  return v;
}

#endif
