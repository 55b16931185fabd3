/* fake_hip.c: see fake_hip.h. The functions are those of runtime/hip/hip_driver.def, by its types. */
#include "fake_hip/fake_hip.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_keep.h"
#include "runtime/amd/amd_note.h"
#include "runtime/hip/hip_driver.h"

#define HIP_FN(need, result, name, symbol, arguments) result symbol arguments;
#include "runtime/hip/hip_driver.def"

FakeHip *fake_hip(void);
FakeHip *fake_hip_now(void);

enum { GROUP_MOST = 1024, MODULES = 64 };

static int current_is(int device);

#define FRESH                                                                                      \
  {                                                                                                \
    .chip = "gfx942:sramecc+:xnack-", .name = "Fake Instinct", .devices = FAKE_HIP_DEVICES,        \
    .current = current_is                                                                          \
  }
static FakeHip state = FRESH;
static int started;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what launches write */
static _Thread_local int current;
enum { RELAXED = 2 }; /* allocations are not captured */
static _Thread_local int capture_mode;

static int current_is(int device) {
  if (device >= 0) current = device;
  return current;
}

FakeHip *fake_hip(void) { return state = (FakeHip)FRESH, &state; }

FakeHip *fake_hip_now(void) { return &state; }

static int broke(const char *rule) {
  if (!state.broken) state.broken = rule;
  return GPU_INVALID;
}

/* Errors are kept for hipGetLastError. */
static int done(int error) {
  if (error) state.pending = error;
  return error;
}

/* Whether the function must fail now. */
static int fails(const char *name) {
  if (!state.fail || strcmp(state.fail, name) != 0) return 0;
  if (state.fail_after-- > 0) return 0;
  return done(state.fail_error);
}

#define BEGIN                                                                                      \
  int failed = fails(__func__);                                                                    \
  if (failed) return failed;                                                                       \
  if (!started) return broke("hipInit comes first"), done(GPU_NOT_STARTED);                        \
  if (!state.devices) return done(GPU_NO_DEVICE)

/* ---- the library ---- */

int hipInit(unsigned flags) {
  started = flags == 0;
  int failed = fails(__func__);
#ifdef FAKE_OLD
  int none = GPU_BAD_DEVICE;
#else
  int none = GPU_NO_DEVICE;
#endif
  return failed ? failed : done(state.devices ? GPU_OK : none);
}

int hipDriverGetVersion(int *version) {
  BEGIN;
#ifdef FAKE_OLD
  return *version = 50221153, GPU_OK;
#else
  return *version = 60241133, GPU_OK;
#endif
}

const char *hipGetErrorName(int error) {
  static char text[64];
  snprintf(text, sizeof text, "hipError%d", error);
  return text;
}

const char *hipGetErrorString(int error) {
  return error == GPU_OUT_OF_MEMORY     ? "out of memory"
         : error == GPU_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
         : error == GPU_NO_BINARY       ? "no kernel image is available for execution on the device"
                                        : "the fake library was told to fail";
}

int hipGetLastError(void) {
  int error = state.pending;
  return state.pending = GPU_OK, error;
}

/* ---- devices ---- */

static int is_device(int device) { return device >= 0 && device < state.devices; }

int hipGetDeviceCount(int *count) {
  BEGIN;
  return *count = state.devices, GPU_OK;
}

int hipDeviceGetName(char *name, int room, int device) {
  BEGIN;
  if (!is_device(device)) return done(GPU_BAD_DEVICE);
  snprintf(name, (size_t)room, "%s", state.name);
  return GPU_OK;
}

int hipDeviceTotalMem(size_t *bytes, int device) {
  BEGIN;
  return *bytes = (size_t)3 << 30, done(is_device(device) ? GPU_OK : GPU_BAD_DEVICE);
}

int hipDeviceGetAttribute(int *value, int attribute, int device) {
  BEGIN;
  if (!is_device(device)) return done(GPU_BAD_DEVICE);
  *value = attribute == HIP_DEVICE_UNITS ? 4 : attribute == HIP_DEVICE_UNIT_THREADS ? 2048 : 0;
  return GPU_OK;
}

/* Everything except the chip's name is not zero. */
static int fill_properties(void *out, size_t bytes, size_t chip, int device) {
  if (!is_device(device)) return done(GPU_BAD_DEVICE);
  memset(out, 0xa5, bytes);
  memset((char *)out + chip, 0, HIP_CHIP_BYTES);
  snprintf((char *)out + chip, HIP_CHIP_BYTES, "%s", state.chip);
  return GPU_OK;
}

/* The library still has the old layout under the old name. */
int hipGetDeviceProperties(void *properties, int device) {
  BEGIN;
  return fill_properties(properties, HIP_PROPERTIES_5, HIP_PROPERTIES_5_CHIP, device);
}

#ifndef FAKE_OLD
int hipGetDevicePropertiesR0600(void *properties, int device) {
  BEGIN;
  return fill_properties(properties, HIP_PROPERTIES_6, HIP_PROPERTIES_6_CHIP, device);
}
#endif

int hipGetDevice(int *device) {
  BEGIN;
  return *device = current, GPU_OK;
}

int hipSetDevice(int device) {
  BEGIN;
  if (!is_device(device)) return done(GPU_BAD_DEVICE);
  pthread_mutex_lock(&mutex);
  state.sets++;
  pthread_mutex_unlock(&mutex);
  return current = device, GPU_OK;
}

/* ---- code ---- */

typedef struct Module {
  int device;
  Arena *arena;
  AmdFile file;
  AmdKernelNote kernel;
  const char *image;
  uint64_t sum; /* of the image */
} Module;

static Module *live[MODULES];

static Module **slot_of(const void *module) {
  for (int i = 0; i < MODULES; i++)
    if (live[i] == module) return &live[i];
  return NULL;
}

static uint64_t sum_of(const char *bytes, size_t n) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211u;
  return sum;
}

/* A module that exists, whose image is still there. */
static Module *module_of(void *module) {
  Module **slot = module ? slot_of(module) : NULL;
  if (!slot) return broke("a module is used after it was unloaded"), NULL;
  if (sum_of((*slot)->image, (*slot)->file.size) != (*slot)->sum)
    return broke("an image changed before its module was unloaded"), NULL;
  return *slot;
}

/* HIP is not told the size of an image: it ends with its last section, or with their headers. */
static size_t size_of(const char *image) {
  Elf64_Ehdr e;
  memcpy(&e, image, sizeof e);
  size_t end = e.e_shoff + (size_t)e.e_shnum * sizeof(Elf64_Shdr);
  for (size_t i = 0; i < e.e_shnum; i++) {
    Elf64_Shdr s;
    memcpy(&s, image + e.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end) end = s.sh_offset + s.sh_size;
  }
  return end;
}

static Module *read_object(const char *image) {
  Arena *a = arena_new();
  Module *m = ARENA_NEW(a, Module);
  AmdNote note;
  *m = (Module){.arena = a, .image = image, .device = current};
  if (!amd_file_open(&m->file, a, image, size_of(image), ET_DYN) ||
      !amd_note_read(&m->file, &note) || note.nkernels != 1 ||
      note.kernels[0].nargs > FAKE_HIP_ARGS)
    return arena_free(a), NULL;
  m->kernel = note.kernels[0];
  m->sum = sum_of(image, m->file.size);
  return m;
}

static int is_for(const Module *m, const char *device) {
  const char *chip = amd_file_chip(&m->file);
  size_t n = strcspn(device, ":");
  return chip && strlen(chip) == n && strncmp(chip, device, n) == 0;
}

int hipModuleLoadData(void **module, const void *image) {
  BEGIN;
  Module **slot = slot_of(NULL);
  if (state.captured) return done(GPU_CAPTURE_UNSUPPORTED);
  Module *m = slot ? read_object(image) : NULL;
  if (!m) return done(GPU_BAD_IMAGE);
  if (!is_for(m, state.chip)) return arena_free(m->arena), done(GPU_NO_BINARY);
  state.loads++;
  return *module = *slot = m, GPU_OK;
}

int hipModuleUnload(void *module) {
  BEGIN;
  Module *m = module_of(module);
  if (!m) return done(GPU_BAD_HANDLE);
  *slot_of(m) = NULL;
  arena_free(m->arena);
  return state.unloads++, GPU_OK;
}

int hipModuleGetFunction(void **function, void *module, const char *name) {
  BEGIN;
  Module *m = module_of(module);
  if (!m) return done(GPU_BAD_HANDLE);
  return strcmp(m->kernel.name, name) == 0 ? (*function = m, GPU_OK) : done(GPU_NOT_FOUND);
}

int hipFuncGetAttribute(int *value, int attribute, void *function) {
  BEGIN;
  if (!module_of(function)) return done(GPU_BAD_HANDLE);
  *value = attribute == GPU_FUNCTION_REGISTERS ? 96
           : attribute == GPU_FUNCTION_LOCAL   ? state.spilled
                                               : 0;
  return GPU_OK;
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                       size_t shared) {
  BEGIN;
  if (!module_of(function) || shared) return done(GPU_INVALID);
  return *blocks = GROUP_MOST / threads, GPU_OK;
}

/* ---- launches ---- */

static int device_of(const void *stream) {
  uintptr_t number = (uintptr_t)stream;
  return number <= HIP_STREAM_LAST_SPECIAL ? current : (int)(number % 10);
}

/* The block of a launch, from what HIP_LAUNCH_… mark; NULL: it is not one. */
static const char *block_in(void **extra, size_t *bytes) {
  if (extra[0] != (void *)HIP_LAUNCH_BLOCK || extra[2] != (void *)HIP_LAUNCH_BLOCK_BYTES ||
      extra[4] != (void *)HIP_LAUNCH_END)
    return NULL;
  *bytes = *(size_t *)extra[3];
  return extra[1];
}

/* The arguments, as the note lays them out: the block ends with the last of them. */
static int record_args(const AmdKernelNote *k, void **args, void **extra, FakeHipLaunch *l) {
  const AmdArg *last = k->nargs ? &k->args[k->nargs - 1] : NULL;
  size_t end = last ? (size_t)last->offset + last->size : 0;
  const char *block = extra ? block_in(extra, &l->block_bytes) : NULL;
  if (!extra == !args) return broke("arguments come as a block, or one by one");
  if (extra && !block) return broke("the block of arguments is not marked as one");
  if (extra && l->block_bytes != end) return broke("the block of arguments has another size");
  l->nargs = k->nargs;
  for (int i = 0; i < k->nargs; i++) {
    const AmdArg *a = &k->args[i];
    if (a->size > sizeof *l->arg) return broke("an argument is too large");
    l->arg_bytes[i] = (int)a->size;
    memcpy(l->arg[i], extra ? block + a->offset : args[i], a->size);
  }
  return GPU_OK;
}

static int record(FakeHipLaunch *l, void **args, void **extra) {
  const Module *m = module_of(l->function);
  if (!m) return GPU_BAD_HANDLE;
  l->device = device_of(l->stream);
  if (l->device != m->device) return GPU_BAD_DEVICE;
  uint64_t group = 1;
  for (int i = 0; i < 3; i++) {
    if (!l->grid[i] || !l->block[i]) return GPU_INVALID;
    if ((uint64_t)l->grid[i] * l->block[i] > UINT32_MAX) return broke("the grid is too large");
    group *= l->block[i];
  }
  if (group > m->kernel.threads) return GPU_LAUNCH_FAILED;
  if (group > GROUP_MOST || l->grid[1] > 65536 || l->grid[2] > 65536)
    return broke("the grid is too large");
  return record_args(&m->kernel, args, extra, l);
}

static int launch(FakeHipLaunch *l, void **args, void **extra) {
  pthread_mutex_lock(&mutex);
  int error = record(l, args, extra);
  if (!error) state.last = *l, state.launches++;
  pthread_mutex_unlock(&mutex);
  return done(error);
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **args,
                          void **extra) {
  BEGIN;
  FakeHipLaunch l = {.function = function, .stream = stream, .grid = {gx, gy, gz}};
  l.block[0] = bx, l.block[1] = by, l.block[2] = bz, l.shared = shared;
  return launch(&l, args, extra);
}

#ifndef FAKE_OLD
int hipModuleLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     void *stream, void **args) {
  BEGIN;
  FakeHipLaunch l = {.function = function, .stream = stream, .grid = {gx, gy, gz}, .together = 1};
  l.block[0] = bx, l.block[1] = by, l.block[2] = bz, l.shared = shared;
  if (stream && stream == state.captured) return broke("a cooperative launch is not captured");
  if ((uint64_t)gx * gy * gz > 16) return done(GPU_NOT_TOGETHER);
  return launch(&l, args, NULL);
}
#endif

int hipStreamIsCapturing(void *stream, int *status) {
  BEGIN;
  return *status = stream == state.captured, GPU_OK;
}

int hipStreamSynchronize(void *stream) {
  BEGIN;
  return done(stream && stream == state.captured ? GPU_CAPTURE_UNSUPPORTED : GPU_OK);
}

/* Streams that are made here; the only one that can be dropped is the last. */
int hipStreamCreateWithFlags(void **stream, unsigned flags) {
  static char made;
  BEGIN;
  if (state.captured && capture_mode != RELAXED) return done(GPU_CAPTURE_UNSUPPORTED);
  if (flags != 1) return done(GPU_INVALID); /* it would wait for the default stream */
  return *stream = &made, state.streams++, GPU_OK;
}

int hipStreamDestroy(void *stream) {
  BEGIN;
  (void)stream;
  return state.streams--, GPU_OK;
}

int hipThreadExchangeStreamCaptureMode(int *mode) {
  BEGIN;
  int old = capture_mode;
  capture_mode = *mode;
  return *mode = old, GPU_OK;
}

/* ---- memory ---- */

int hipMalloc(void **address, size_t bytes) {
  BEGIN;
  if (state.captured && capture_mode != RELAXED) return done(GPU_CAPTURE_UNSUPPORTED);
  *address = fake_keep(aligned_alloc(256, (bytes + 255) / 256 * 256));
  if (!*address) return done(GPU_OUT_OF_MEMORY);
  memset(*address, 0xa5, bytes); /* memory is not zeroed */
  return state.allocated++, GPU_OK;
}

int hipFree(void *address) {
  BEGIN;
  free(address);
  return state.allocated--, GPU_OK;
}

int hipMemsetD32Async(void *address, int word, size_t words, void *stream) {
  BEGIN;
  if (!stream) return done(GPU_INVALID); /* others may be captured */
  for (size_t i = 0; i < words; i++) ((int *)address)[i] = word;
  return GPU_OK;
}

int hipMemcpy(void *to, const void *from, size_t bytes, int direction) {
  BEGIN;
  if (direction != HIP_COPY_ANY) return broke("the direction of a copy is not known here");
  memcpy(to, from, bytes);
  return GPU_OK;
}
