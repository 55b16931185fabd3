/* emu_device.c: AMD GPUs that are not here: their machine code, run by isa/ on the host's tensors.
 *
 * A launch returns when the kernel has run; workgroups run on the CPU's pool. The executor is told
 * which memory the launch may access: the tensors that the caller passed, the code object, the
 * arguments, and what was allocated from this device (workspace, logs). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "isa/isa.h"
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_image.h"
#include "runtime/cpu/cpu_pool.h"
#include "runtime/cpu/cpu_together.h"
#include "runtime/device.h"
#include "wave.h"

typedef struct Block {
  struct Block *next;
  void *memory;
  size_t bytes;
} Block;

typedef struct EmuState {
  CpuPool *pool;
  pthread_mutex_t lock;
  Block *blocks;  /* allocated from this device */
  IsaFault fault; /* of the last launch that failed, until it is explained */
} EmuState;

/* A code object, loaded and decoded. */
typedef struct EmuModule {
  Arena *arena;
  AmdImage image;
  IsaKernel *kernel;
  const AmdKernelNote *note;
} EmuModule;

static EmuState *state_of(Device *d) { return d->state; }

/* ---- opening ---- */

static bool emu_open(Device *d, const DeviceReport *r) {
  EmuState *s = ARENA_NEW(d->arena, EmuState);
  d->state = s;
  pthread_mutex_init(&s->lock, NULL);
  s->pool = cpu_pool_take();
  if (!s->pool) diag_add(r->diags, DIAG_E0902, r->at, "out of memory for threads");
  return s->pool != NULL;
}

static void emu_close(Device *d) {
  pthread_mutex_destroy(&state_of(d)->lock);
  cpu_pool_give_back();
}

static int emu_count(Device *d) {
  (void)d;
  return 1;
}

static bool check_index(int index, const DeviceReport *r) {
  if (index == 0) return true;
  diag_add(r->diags, DIAG_E0902, r->at, "there is no emulated device %d: the only one is 0", index);
  return false;
}

/* It is whichever chip the code is for. */
static bool emu_facts(Device *d, int index, DeviceFacts *out, const DeviceReport *r) {
  if (!check_index(index, r)) return false;
  *out = (DeviceFacts){.memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                       .units = cpu_pool_threads(state_of(d)->pool)};
  snprintf(out->name, sizeof out->name, "the executor of AMD machine code, %d threads", out->units);
  return true;
}

/* ---- code ---- */

static bool decode(EmuModule *m, const char *entry, const char **error) {
  IsaImage code;
  LlvmDisassembler d;
  if (!amd_image_kernel(m->arena, &m->image, entry, &code, error)) return false;
  const AmdChip *chip = chip_named(m->image.chip);
  const LlvmLibrary *l = amd_library_open(m->arena, chip, error);
  if (!l) return false;
  LlvmTarget t = amd_target(chip);
  if (!llvm_disassemble_open(l, &t, &d))
    return *error = "libLLVM has no disassembler for AMD GPUs", false;
  m->kernel = isa_decode(m->arena, &code, llvm_disassemble, &d, error);
  llvm_disassemble_close(&d);
  m->note = amd_note_find(&m->image.note, entry);
  return m->kernel != NULL;
}

static bool emu_load(Device *d, int index, const ArtVariant *v, DeviceCode *out,
                     const DeviceReport *r) {
  (void)d;
  const char *error = NULL;
  double start = os_seconds();
  if (!check_index(index, r)) return false;
  Arena *a = arena_new();
  EmuModule *m = ARENA_NEW(a, EmuModule);
  m->arena = a;
  bool ok = amd_image_load(a, v->code, (size_t)v->code_bytes, &m->image, &error) &&
            decode(m, v->entry, &error);
  *out = (DeviceCode){.variant = v, .device = index, .module = m};
  out->load_ms = 1e3 * (os_seconds() - start);
  if (ok) return arena_owned(a), true;
  diag_add(r->diags, DIAG_E0903, r->at, "`%s`: %s", r->kernel, error);
  arena_free(a);
  return false;
}

static void emu_unload(Device *d, DeviceCode *code) {
  (void)d;
  arena_free(((EmuModule *)code->module)->arena);
}

static bool emu_resources(Device *d, const DeviceCode *code, DeviceResources *out,
                          const DeviceReport *r) {
  (void)r;
  const AmdKernelNote *n = ((const EmuModule *)code->module)->note;
  *out = (DeviceResources){.registers = (int)n->vgprs,
                           .shared = (int)n->group_bytes,
                           .spilled = (int)(n->vgpr_spills + n->sgpr_spills),
                           .threads = code->variant->block[0],
                           .workgroups = cpu_pool_threads(state_of(d)->pool),
                           .occupancy = 1};
  return true;
}

/* ---- what a launch may access ---- */

enum { RANGES = ARTEFACT_PARAMS + 64, MOST_INSTRUCTIONS = 1 << 30 };

typedef struct Ranges {
  IsaRange at[RANGES];
  int n;
} Ranges;

static void add_range(Ranges *r, const char *name, const void *at, uint64_t bytes, bool writable) {
  if (r->n < RANGES && bytes)
    r->at[r->n++] = (IsaRange){name, (uint64_t)(uintptr_t)at, bytes, writable};
}

/* From the lowest element to the highest; strides may be negative. */
static void add_tensor(Ranges *r, const char *name, const wv_tensor *t) {
  int64_t first = 0, last = 0, stride = 1;
  int bits = 0;
  wv_dtype_name(t->dtype, &bits, NULL);
  for (int d = t->rank - 1; d >= 0; d--) {
    int64_t step = t->strides ? t->strides[d] : stride, reach = (t->shape[d] - 1) * step;
    if (t->shape[d] <= 0) return;
    if (reach < 0) first += reach;
    else last += reach;
    stride *= t->shape[d];
  }
  bits = bits == 1 || bits == 6 ? 8 : bits; /* in memory these are bytes */
  int64_t low = first * bits / 8, high = ((last + 1) * bits + 7) / 8;
  uintptr_t from = (uintptr_t)t->data + (uintptr_t)low, to = (uintptr_t)t->data + (uintptr_t)high;
  add_range(r, name, (const void *)from, to - from, true);
}

static void find_ranges(EmuState *s, const DeviceLaunch *l, Ranges *r) {
  const EmuModule *m = l->code->module;
  r->n = 0;
  for (int i = 0; i < l->ngiven; i++)
    if (l->given[i].tensor) add_tensor(r, l->params[i].name, l->given[i].tensor);
  uint64_t args = ((uint64_t)l->code->variant->arg_bytes + 15) & ~UINT64_C(15); /* loads are wide */
  add_range(r, "the arguments", l->packed, args, false);
  add_range(r, "the code object", m->image.memory, m->image.size, false);
  pthread_mutex_lock(&s->lock);
  for (const Block *b = s->blocks; b; b = b->next)
    add_range(r, "workspace", b->memory, b->bytes, true);
  pthread_mutex_unlock(&s->lock);
}

/* ---- launching ---- */

enum { NO_MEMORY = 1, NO_MAPS = 2, TOO_MANY = 3, FAULT = 4, GIVEN_UP = 5 };

typedef struct EmuLaunch {
  EmuState *state;
  IsaLaunch launch;
} EmuLaunch;

/* Workgroups `first` to `last` - 1, on one thread of the pool. */
static int run_range(const void *args, int64_t first, int64_t last, void *scratch,
                     CpuWatch *watch) {
  (void)watch;
  const EmuLaunch *e = args;
  const unsigned *grid = e->launch.grid;
  IsaMachine *m = isa_machine(scratch, &e->launch);
  for (int64_t g = first; g < last; g++) {
    unsigned id[3] = {(unsigned)(g % grid[0]), (unsigned)(g / grid[0] % grid[1]),
                      (unsigned)(g / grid[0] / grid[1])};
    IsaFault fault;
    if (isa_run(m, &e->launch, id, &fault)) continue;
    pthread_mutex_lock(&e->state->lock);
    e->state->fault = fault;
    pthread_mutex_unlock(&e->state->lock);
    return CPU_STUCK;
  }
  return CPU_DONE;
}

static int run_task(EmuState *s, bool together, const CpuTask *t) {
  if (!together || t->count == 1) return cpu_pool_run(s->pool, t);
  if (t->count > CPU_TOGETHER_MOST) return -TOO_MANY;
  return cpu_run_together(t, (int)t->count);
}

static int emu_launch(Device *d, const DeviceLaunch *l) {
  const ArtVariant *v = l->code->variant;
  EmuState *s = state_of(d);
  Ranges ranges;
  find_ranges(s, l, &ranges);
  EmuLaunch e = {.state = s,
                 .launch = {.kernel = ((const EmuModule *)l->code->module)->kernel,
                            .args = l->packed,
                            .args_bytes = (size_t)v->arg_bytes,
                            .ranges = ranges.at,
                            .nranges = ranges.n,
                            .most = MOST_INSTRUCTIONS}};
  for (int i = 0; i < 3; i++)
    e.launch.grid[i] = l->grid[i], e.launch.block[i] = (unsigned)v->block[i];
  CpuTask task = {.run = run_range,
                  .args = &e,
                  .count = (int64_t)l->grid[0] * l->grid[1] * l->grid[2],
                  .scratch = isa_machine_bytes(&e.launch),
                  .waves = 1,
                  .interrupted = l->interrupted,
                  .user = l->user};
  int why = run_task(s, v->together, &task);
  return why == CPU_GIVEN_UP ? GIVEN_UP
         : why > 0           ? FAULT
         : why == -TOO_MANY  ? TOO_MANY
         : why               ? NO_MEMORY
                             : 0;
}

static void emu_explain(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r) {
  EmuState *s = state_of(d);
  const EmuModule *m = l->code->module;
  Diags *diags = r->diags;
  if (error == FAULT) {
    pthread_mutex_lock(&s->lock);
    IsaFault fault = s->fault;
    pthread_mutex_unlock(&s->lock);
    diag_add(diags, DIAG_E0902, r->at, "%s: %s", m->image.chip,
             isa_fault_text(diags->arena, m->kernel, &fault));
  } else if (error == GIVEN_UP)
    diag_add(diags, DIAG_E0712, r->at, "`%s` was interrupted", r->kernel);
  else if (error == TOO_MANY)
    diag_add(diags, DIAG_E0905, r->at,
             "`%s` has %lld workgroups that wait for each other; at most %d can run at once here",
             r->kernel, (long long)l->grid[0] * l->grid[1] * l->grid[2], CPU_TOGETHER_MOST);
  else if (error == NO_MAPS)
    diag_add(diags, DIAG_E0905, r->at, "`%s` needs tensor maps, which AMD GPUs lack", r->kernel);
  else diag_add(diags, DIAG_E0902, r->at, "out of memory for the registers of `%s`", r->kernel);
}

static int emu_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                      const int64_t *sizes, const int64_t *strides, bool changed) {
  (void)d, (void)index, (void)m, (void)map, (void)address, (void)sizes, (void)strides;
  (void)changed;
  return NO_MAPS;
}

static bool emu_is_captured(Device *d, void *stream) {
  (void)d, (void)stream;
  return false;
}

/* ---- memory ---- */

static void *emu_alloc(Device *d, int index, size_t bytes, const DeviceReport *r) {
  enum { ALIGN = 256 };
  EmuState *s = state_of(d);
  if (!check_index(index, r)) return NULL;
  Block *b = malloc(sizeof *b);
  void *memory = b ? aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN) : NULL;
  if (!memory) {
    free(b);
    diag_add(r->diags, DIAG_E0902, r->at, "cannot allocate %lld bytes", (long long)bytes);
    return NULL;
  }
  *b = (Block){.memory = memory, .bytes = bytes};
  pthread_mutex_lock(&s->lock);
  b->next = s->blocks, s->blocks = b;
  pthread_mutex_unlock(&s->lock);
  return memory;
}

static void *emu_alloc_zeros(Device *d, int index, size_t bytes, const DeviceReport *r) {
  void *memory = emu_alloc(d, index, bytes, r);
  return memory ? memset(memory, 0, bytes) : NULL;
}

static void emu_release(Device *d, int index, void *memory, const DeviceReport *r) {
  (void)index, (void)r;
  EmuState *s = state_of(d);
  pthread_mutex_lock(&s->lock);
  Block **at = &s->blocks;
  while (*at && (*at)->memory != memory) at = &(*at)->next;
  Block *b = *at;
  if (b) *at = b->next;
  pthread_mutex_unlock(&s->lock);
  free(b);
  free(memory);
}

static bool emu_copy(Device *d, int index, void *to, const void *from, size_t bytes,
                     const DeviceReport *r) {
  (void)d, (void)index, (void)r;
  memmove(to, from, bytes);
  return true;
}

static bool emu_wait(Device *d, int index, void *stream, const DeviceReport *r) {
  (void)d, (void)index, (void)stream, (void)r;
  return true; /* launches have already waited */
}

/* ---- tests ---- */

static bool emu_instruction(const DeviceCode *code, int i, DeviceInstruction *out) {
  const IsaKernel *k = ((const EmuModule *)code->module)->kernel;
  if (i < 0 || i >= isa_instructions(k)) return false;
  unsigned use = isa_use(k, i);
  *out = (DeviceInstruction){.executed = use & ISA_EXECUTED, .needed = use & ISA_NEEDED};
  out->text = isa_text(k, i, &out->at);
  return true;
}

static bool emu_remove(const DeviceCode *code, int i) {
  IsaKernel *k = ((const EmuModule *)code->module)->kernel;
  if (i < -1 || i >= isa_instructions(k)) return false;
  isa_remove(k, i);
  return true;
}

const DeviceKind device_emu = {.name = "emu",
                               .number = DEVICE_HOST,
                               .grid_most = {INT32_MAX, INT32_MAX, INT32_MAX},
                               .open = emu_open,
                               .close = emu_close,
                               .count = emu_count,
                               .facts = emu_facts,
                               .load = emu_load,
                               .unload = emu_unload,
                               .resources = emu_resources,
                               .launch = emu_launch,
                               .explain = emu_explain,
                               .encode = emu_encode,
                               .is_captured = emu_is_captured,
                               .alloc = emu_alloc,
                               .alloc_zeros = emu_alloc_zeros,
                               .release = emu_release,
                               .copy = emu_copy,
                               .wait = emu_wait,
                               .instruction = emu_instruction,
                               .remove = emu_remove};
