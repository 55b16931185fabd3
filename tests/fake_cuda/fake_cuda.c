/* fake_cuda.c: see fake_cuda.h. The functions are those of runtime/cuda/cuda_driver.def, by its types.
 */
#include "fake_cuda/fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_keep.h"
#include "runtime/cuda/cuda_driver.h"

#define CUDA_FN(need, name, symbol, arguments) int symbol arguments;
#include "runtime/cuda/cuda_driver.def"

FakeCuda *fake_cuda(void);
FakeCuda *fake_cuda_now(void);

static FakeCuda state = {.major = 9};
static int context[FAKE_DEVICES], started;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what launches write */
static _Thread_local void *current, *below;               /* contexts: one may be pushed */
enum { RELAXED = 2 };                                     /* allocations are not captured */
static _Thread_local int capture_mode;

static void enter(void *to) { current = to; }

FakeCuda *fake_cuda(void) {
  memset(&state, 0, sizeof state);
  state.major = 9;
  state.enter = enter;
  return &state;
}

FakeCuda *fake_cuda_now(void) { return &state; }

/* Whether the function must fail now. */
static int fails(const char *name) {
  if (!state.fail || strcmp(state.fail, name) != 0) return 0;
  if (state.fail_after-- > 0) return 0;
  return state.fail_error;
}

#define BEGIN                                                                                      \
  int failed = fails(__func__);                                                                    \
  if (failed) return failed;                                                                       \
  if (!started) return GPU_NOT_STARTED

#define IN_CONTEXT                                                                                 \
  BEGIN;                                                                                           \
  if (!current) return GPU_BAD_CONTEXT

/* ---- the driver ---- */

int cuInit(unsigned flags) {
  started = flags == 0;
  return fails(__func__);
}

int cuDriverGetVersion(int *version) {
  BEGIN;
  return *version = 13000, GPU_OK;
}

int cuGetErrorName(int error, const char **name) {
  static char text[64];
  snprintf(text, sizeof text, "CUDA_ERROR_%d", error);
  return *name = text, GPU_OK;
}

int cuGetErrorString(int error, const char **text) {
  *text = error == GPU_OUT_OF_MEMORY     ? "out of memory"
          : error == GPU_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                         : "the fake driver was told to fail";
  return GPU_OK;
}

/* ---- devices and contexts ---- */

int cuDeviceGetCount(int *count) {
  BEGIN;
  return *count = FAKE_DEVICES, GPU_OK;
}

int cuDeviceGet(int *device, int index) {
  BEGIN;
  return *device = index + 10, GPU_OK; /* a device is not its index */
}

int cuDeviceGetName(char *name, int room, int device) {
  BEGIN;
  snprintf(name, (size_t)room, "Fake %d", device - 10);
  return GPU_OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  BEGIN;
  return *bytes = (size_t)1 << 30, device < 10 ? GPU_INVALID : GPU_OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  BEGIN;
  if (device < 10 || device >= 10 + FAKE_DEVICES) return GPU_INVALID;
  *value = attribute == CUDA_DEVICE_MAJOR          ? state.major
           : attribute == CUDA_DEVICE_MINOR        ? state.minor
           : attribute == CUDA_DEVICE_UNITS        ? 4
           : attribute == CUDA_DEVICE_UNIT_THREADS ? 2048
                                                   : 0;
  return GPU_OK;
}

int cuDevicePrimaryCtxRetain(void **out, int device) {
  BEGIN;
  state.retains++;
  return *out = &context[device - 10], GPU_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  BEGIN;
  state.releases++;
  return device < 10 ? GPU_INVALID : GPU_OK;
}

int cuCtxGetCurrent(void **out) {
  BEGIN;
  return *out = current, GPU_OK;
}

static void count_push(int by) {
  pthread_mutex_lock(&mutex);
  state.pushes += by;
  pthread_mutex_unlock(&mutex);
}

int cuCtxPushCurrent_v2(void *to) {
  BEGIN;
  if (below) return GPU_BAD_CONTEXT; /* one deep is enough */
  below = current ? current : &below;
  current = to;
  return count_push(1), GPU_OK;
}

int cuCtxSetCurrent(void *to) {
  BEGIN;
  return current = to, GPU_OK;
}

int cuCtxPopCurrent_v2(void **old) {
  BEGIN;
  if (!below) return GPU_BAD_CONTEXT;
  *old = current;
  current = below == &below ? NULL : below;
  below = NULL;
  return count_push(-1), GPU_OK;
}

/* ---- code ---- */

typedef struct Module {
  int device, loaded, nargs, arg_bytes[FAKE_ARGS], dynamic_shared, static_shared, most_shared,
      least;
  char entry[128];
} Module;

/* Names and sizes of the entry's parameters. */
static int read_ptx(const char *text, Module *m) {
  const char *entry = strstr(text, ".entry "), *end = entry ? strchr(entry, ')') : NULL;
  if (!end || sscanf(entry, ".entry %127[A-Za-z0-9_]", m->entry) != 1) return 0;
  const char *least = strstr(end, ".minnctapersm ");
  if (least) sscanf(least, ".minnctapersm %d", &m->least);
  const char *declared = strstr(text, "\n.shared .align 8 .b64 wave_arrived[");
  if (declared) m->static_shared = 8 * atoi(strchr(declared, '[') + 1);
  for (const char *at = entry; (at = strstr(at, ".param ")) && at < end; at++) {
    int bits, bytes = 0;
    const char *map = strchr(at, '[');
    if (strncmp(at, ".param .align", 13) == 0 && map) bytes = atoi(map + 1);
    else if (sscanf(at, ".param .b%d", &bits) == 1) bytes = bits / 8;
    if (m->nargs == FAKE_ARGS) return 0;
    m->arg_bytes[m->nargs++] = bytes;
  }
  return 1;
}

static void put_log(int n, const int *options, void **values, const char *info, const char *error) {
  for (int i = 0; i < n; i++) {
    if (options[i] == CUDA_JIT_INFO && info) strcpy(values[i], info);
    if (options[i] == CUDA_JIT_ERRORS && error) strcpy(values[i], error);
  }
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
  put_log((int)n, options, values, state.info_log, NULL);
  if (state.fail && strcmp(state.fail, __func__) == 0)
    put_log((int)n, options, values, NULL,
            "ptxas fatal: told to fail\nline two\n"
            "ptxas application ptx input, line 10000; error: at the end");
  IN_CONTEXT;
  if (state.captured) return GPU_CAPTURE_UNSUPPORTED;
  Module *m = calloc(1, sizeof *m);
  m->device = (int)((int *)current - context);
  if (!read_ptx(image, m)) return free(m), GPU_BAD_IMAGE;
  state.loads++;
  return *module = fake_keep(m), GPU_OK;
}

int cuModuleUnload(void *module) {
  IN_CONTEXT;
  state.unloads++;
  free(module);
  return GPU_OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  IN_CONTEXT;
  if (strcmp(((Module *)module)->entry, name) != 0) return GPU_NOT_FOUND;
  return *function = module, GPU_OK;
}

#ifndef FAKE_OLD
int cuFuncLoad(void *function) {
  IN_CONTEXT;
  return ((Module *)function)->loaded = 1, GPU_OK;
}
#endif

int cuFuncSetAttribute(void *function, int attribute, int value) {
  IN_CONTEXT;
  if (attribute == CUDA_FUNCTION_DYNAMIC_SHARED) ((Module *)function)->dynamic_shared = value;
  return GPU_OK;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
  IN_CONTEXT;
  if (!function) return GPU_INVALID;
  *value = attribute == GPU_FUNCTION_REGISTERS ? 42
           : attribute == GPU_FUNCTION_LOCAL   ? state.spilled
                                               : 0;
  return GPU_OK;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                size_t shared) {
  IN_CONTEXT;
  (void)shared;
  *blocks = 1024 / threads;
  if (*blocks < ((Module *)function)->least) *blocks = ((Module *)function)->least;
  return GPU_OK;
}

/* ---- launches ---- */

static int record_here(const CudaLaunchConfig *c, void *function, void **args) {
  Module *m = function;
  FakeLaunch *l = &state.last;
  memset(l, 0, offsetof(FakeLaunch, arg));
  if (!current || (int)((int *)current - context) != m->device) return GPU_BAD_CONTEXT;
  if ((int)c->shared > 49152 - m->static_shared && m->dynamic_shared < (int)c->shared)
    return GPU_INVALID;
  l->function = function, l->stream = c->stream, l->shared = c->shared;
  l->device = m->device, l->nargs = m->nargs;
  for (int i = 0; i < 3; i++) {
    if (!c->grid[i] || !c->block[i]) return GPU_INVALID;
    l->grid[i] = c->grid[i], l->block[i] = c->block[i];
  }
  for (int i = 0; i < m->nargs && args; i++) {
    l->arg_bytes[i] = m->arg_bytes[i];
    memcpy(l->arg[i], args[i], (size_t)m->arg_bytes[i]);
  }
  state.launches++;
  return GPU_OK;
}

static int record(const CudaLaunchConfig *c, void *function, void **args) {
  pthread_mutex_lock(&mutex);
  int error = record_here(c, function, args);
  pthread_mutex_unlock(&mutex);
  return error;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **args, void **extra) {
  BEGIN;
  CudaLaunchConfig c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
  return extra ? GPU_INVALID : record(&c, function, args);
}

#ifndef FAKE_OLD
int cuLaunchKernelEx(const CudaLaunchConfig *config, void *function, void **args, void **extra) {
  BEGIN;
  int error = extra ? GPU_INVALID : record(config, function, args);
  for (unsigned i = 0; !error && i < config->nattrs; i++) {
    const CudaLaunchAttribute *a = &config->attrs[i];
    if (a->id == CUDA_LAUNCH_OVERLAP) state.last.overlap = a->value.on;
    if (a->id == CUDA_LAUNCH_TOGETHER) state.last.together = a->value.on;
  }
  return error;
}

/* A map records its arguments: address, sizes, strides, box, what a miss brings. */
int cuTensorMapEncodeTiled(void *map, int element, uint32_t rank, void *address,
                           const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill) {
  IN_CONTEXT;
  (void)steps;
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || interleave || fill || rank < 1 || rank > 5)
    return GPU_INVALID;
  uint64_t words[16] = {(uint64_t)(uintptr_t)address, (uint64_t)element, (uint64_t)swizzle, rank};
  for (uint32_t i = 0; i < rank; i++) words[4 + i] = sizes[i] << 16 | box[i];
  for (uint32_t i = 0; i + 1 < rank; i++) {
    if (strides[i] % 16) return GPU_INVALID;
    words[10 + i] = strides[i];
  }
  words[15] = (uint64_t)promotion;
  memcpy(map, words, sizeof words);
  state.encodes++;
  return GPU_OK;
}

/* The same, with corners and steps of pixels, from the innermost dim. */
int cuTensorMapEncodeIm2col(void *map, int element, uint32_t rank, void *address,
                            const uint64_t *sizes, const uint64_t *strides, const int *lowest,
                            const int *highest, uint32_t channels, uint32_t pixels,
                            const uint32_t *steps, int interleave, int swizzle, int promotion,
                            int fill) {
  IN_CONTEXT;
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || interleave || fill || rank < 3 || rank > 5)
    return GPU_INVALID;
  if (steps[0] != 1 || steps[rank - 1] != 1) return GPU_INVALID;
  uint64_t words[16] = {(uint64_t)(uintptr_t)address, (uint64_t)element, (uint64_t)swizzle, rank};
  for (uint32_t i = 0; i < rank; i++) words[4 + i] = sizes[i] << 16;
  words[9] = (uint64_t)pixels << 16 | channels;
  for (uint32_t i = 0; i + 2 < rank; i++)
    words[10 + i] =
        (uint64_t)(uint8_t)lowest[i] << 16 | (uint64_t)(uint8_t)highest[i] << 8 | steps[1 + i];
  words[13] = strides[0];
  words[15] = (uint64_t)promotion;
  memcpy(map, words, sizeof words);
  state.encodes++;
  return GPU_OK;
}

int cuTensorMapReplaceAddress(void *map, void *address) {
  IN_CONTEXT;
  if ((uintptr_t)map % 64) return GPU_INVALID;
  memcpy(map, &address, sizeof address);
  state.moves++;
  return GPU_OK;
}
#endif

int cuStreamIsCapturing(void *stream, int *status) {
  BEGIN;
  return *status = stream == state.captured, GPU_OK;
}

int cuStreamSynchronize(void *stream) {
  IN_CONTEXT;
  return stream && stream == state.captured ? GPU_CAPTURE_UNSUPPORTED : GPU_OK;
}

/* Streams that are made here; the only one that can be dropped is the last. */
int cuStreamCreate(void **stream, unsigned flags) {
  static char made;
  IN_CONTEXT;
  if (state.captured && capture_mode != RELAXED) return GPU_CAPTURE_UNSUPPORTED;
  if (flags != 1) return GPU_INVALID; /* it would wait for the default stream */
  return *stream = &made, state.streams++, GPU_OK;
}

int cuStreamDestroy_v2(void *stream) {
  IN_CONTEXT;
  (void)stream;
  return state.streams--, GPU_OK;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  BEGIN;
  int old = capture_mode;
  capture_mode = *mode;
  return *mode = old, GPU_OK;
}

/* ---- memory ---- */

int cuMemAlloc_v2(void **address, size_t bytes) {
  IN_CONTEXT;
  if (state.captured && capture_mode != RELAXED) return GPU_CAPTURE_UNSUPPORTED;
  void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (p) memset(p, 0xa5, bytes), state.allocated++; /* memory is not zeroed */
  return *address = fake_keep(p), p ? GPU_OK : GPU_OUT_OF_MEMORY;
}

int cuMemFree_v2(void *address) {
  IN_CONTEXT;
  free(address);
  return state.allocated--, GPU_OK;
}

int cuMemsetD32Async(void *address, int word, size_t words, void *stream) {
  IN_CONTEXT;
  if (!stream) return GPU_INVALID; /* others may be captured */
  for (size_t i = 0; i < words; i++) ((int *)address)[i] = word;
  return GPU_OK;
}

int cuMemcpy(void *to, const void *from, size_t bytes) {
  IN_CONTEXT;
  if (state.captured) return GPU_CAPTURE_UNSUPPORTED;
  memcpy(to, from, bytes);
  return GPU_OK;
}
