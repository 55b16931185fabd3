/* cpu_device.c: this machine's CPU as a device: object code, and launches on the pool.
 *
 * A launch returns when the kernel has run. The pool belongs to the process, as its CPU cores do:
 * all open devices share one pool, which is freed with the last of them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "runtime/cpu/cpu_pool.h"
#include "runtime/cpu/cpu_together.h"
#include "runtime/device.h"
#include "runtime/llvm/cpu_host.h"
#include "runtime/llvm/cpu_object.h"

typedef struct CpuState {
  const LlvmLibrary *llvm;
  CpuPool *pool;
} CpuState;

static CpuState *state_of(Device *d) { return d->state; }

/* ---- the shared pool ---- */

typedef struct SharedPool {
  pthread_mutex_t lock;
  CpuPool *pool;
  int users;
  bool sees_forks;
} SharedPool;

static SharedPool *shared_pool(void) {
  static SharedPool shared = {.lock = PTHREAD_MUTEX_INITIALIZER};
  return &shared;
}

/* Only the thread that calls fork survives in the child: locks that others hold at that moment
 * would stay held there. */
static void before_fork(void) { pthread_mutex_lock(&shared_pool()->lock); }
static void in_parent(void) { pthread_mutex_unlock(&shared_pool()->lock); }
static void in_child(void) {
  SharedPool *s = shared_pool();
  if (s->pool) cpu_pool_after_fork(s->pool);
  pthread_mutex_unlock(&s->lock);
}

CpuPool *cpu_pool_take(void) {
  SharedPool *s = shared_pool();
  pthread_mutex_lock(&s->lock);
  if (!s->sees_forks) s->sees_forks = pthread_atfork(before_fork, in_parent, in_child) == 0;
  if (!s->pool) s->pool = cpu_pool_new(0);
  if (s->pool) s->users++;
  CpuPool *pool = s->pool;
  pthread_mutex_unlock(&s->lock);
  return pool;
}

void cpu_pool_give_back(void) {
  SharedPool *s = shared_pool();
  pthread_mutex_lock(&s->lock);
  if (--s->users == 0) {
    cpu_pool_free(s->pool);
    s->pool = NULL;
  }
  pthread_mutex_unlock(&s->lock);
}

/* ---- opening ---- */

static bool cpu_open(Device *d, const DeviceReport *r) {
  CpuState *s = ARENA_NEW(d->arena, CpuState);
  const char *error = NULL;
  d->state = s;
  s->llvm = llvm_library_open(d->arena, "CPU targets need", 0, &error);
  if (!s->llvm) return diag_add(r->diags, DIAG_E0901, r->at, "%s", error), false;
  s->pool = cpu_pool_take();
  if (!s->pool) diag_add(r->diags, DIAG_E0902, r->at, "out of memory for threads");
  return s->pool != NULL;
}

static void cpu_close(Device *d) {
  (void)d;
  cpu_pool_give_back();
}

static int cpu_count(Device *d) {
  (void)d;
  return 1;
}

/* Only the first exists. */
static bool check_index(int index, const DeviceReport *r) {
  if (index == 0) return true;
  return diag_fail(r->diags, DIAG_E0902, r->at, "there is no CPU device %d: the only one is 0",
                   index);
}

static bool cpu_facts(Device *d, int index, DeviceFacts *out, const DeviceReport *r) {
  CpuState *s = state_of(d);
  if (!check_index(index, r)) return false;
  LlvmTarget host = cpu_host_target(s->llvm, d->arena);
  *out = (DeviceFacts){.target = cpu_target_row(&host),
                       .memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                       .units = cpu_pool_threads(s->pool),
                       .driver = (int)s->llvm->version};
  snprintf(out->name, sizeof out->name, "%s, %d threads, LLVM %u", host.cpu, out->units,
           s->llvm->version);
  return true;
}

/* ---- code ---- */

static bool cpu_load(Device *d, int index, const ArtVariant *v, DeviceCode *out,
                     const DeviceReport *r) {
  const char *error = NULL;
  double start = os_seconds();
  if (!check_index(index, r)) return false;
  CpuImage *image = cpu_object_load(v->code, (size_t)v->code_bytes, d->arena, &error);
  void *entry = image ? cpu_object_symbol(image, v->entry) : NULL;
  if (image && !entry) error = "the object code lacks the kernel's entry point";
  *out = (DeviceCode){.variant = v,
                      .device = index,
                      .module = image,
                      .function = entry,
                      .load_ms = 1e3 * (os_seconds() - start)};
  if (entry) return true;
  cpu_object_unload(image);
  return diag_fail(r->diags, DIAG_E0903, r->at, "`%s`: %s", r->kernel, error);
}

static void cpu_unload(Device *d, DeviceCode *code) {
  (void)d;
  cpu_object_unload(code->module);
}

static bool cpu_resources(Device *d, const DeviceCode *code, DeviceResources *out,
                          const DeviceReport *r) {
  (void)r;
  *out = (DeviceResources){.shared = code->variant->shared,
                           .threads = 1,
                           .workgroups = cpu_pool_threads(state_of(d)->pool),
                           .occupancy = 1};
  return true;
}

/* ---- launching ---- */

/* The reasons why a kernel stopped (cpu_watch.h) come after these. */
enum { NO_MEMORY = 1, NO_MAPS = 2, TOO_MANY = 3, STOPPED = 3 };

/* Workgroups that run concurrently: all that wait for each other, otherwise as many as there are
 * cores for. */
static int groups_at_once(Device *d, const ArtVariant *v, const CpuTask *t) {
  int room = cpu_pool_threads(state_of(d)->pool) / t->waves;
  if (v->together) return (int)t->count;
  return room > 1 ? room : 1;
}

static int run_task(Device *d, const ArtVariant *v, const CpuTask *t) {
  bool waits = t->waves > 1 || (v->together && t->count > 1);
  if (!waits) return cpu_pool_run(state_of(d)->pool, t);
  if (t->waves > CPU_TOGETHER_MOST) return -TOO_MANY;
  if (v->together && t->count > CPU_TOGETHER_MOST / t->waves) return -TOO_MANY;
  return cpu_run_together(t, groups_at_once(d, v, t));
}

/* Arguments are 8 bytes each and contiguous: the address of the first one gives all of them. */
static int cpu_launch(Device *d, const DeviceLaunch *l) {
  const ArtVariant *v = l->code->variant;
  CpuTask task = {.args = v->nargs ? l->args[0] : NULL,
                  .count = (int64_t)l->grid[0] * l->grid[1] * l->grid[2],
                  .scratch = (size_t)v->shared,
                  .waves = v->block[0] > 1 ? v->block[0] : 1,
                  .interrupted = l->interrupted,
                  .user = l->user};
  *(void **)&task.run = l->code->function;
  int why = run_task(d, v, &task);
  return why > 0 ? STOPPED + why : why == -TOO_MANY ? TOO_MANY : why ? NO_MEMORY : 0;
}

/* Why the kernel itself ended early. */
static void explain_stop(int why, const ArtVariant *v, const DeviceReport *r) {
  static const ArtNote somewhere = {.file = "", .text = "waits for something that never happens"};
  int wait = why - CPU_STUCK;
  const ArtNote *n = wait < v->nwaits ? &v->waits[wait] : &somewhere;
  if (why == CPU_GIVEN_UP) {
    diag_add(r->diags, DIAG_E0712, r->at, "`%s` was interrupted", r->kernel);
    return;
  }
  Span at = *n->file ? (Span){sources_file(r->diags->sources, n->file, NULL), (uint32_t)n->line,
                              (uint32_t)n->col, (uint32_t)n->len}
                     : r->at;
  diag_add(r->diags, DIAG_E0807, at, "deadlock: `%s` %s", r->kernel, n->text);
}

static void cpu_explain(Device *d, int error, const DeviceLaunch *l, const DeviceReport *r) {
  (void)d;
  if (error > STOPPED) explain_stop(error - STOPPED, l->code->variant, r);
  else if (error == NO_MAPS)
    diag_add(r->diags, DIAG_E0905, r->at, "`%s` needs tensor maps, which CPUs lack", r->kernel);
  else if (error == TOO_MANY)
    diag_add(r->diags, DIAG_E0905, r->at,
             "`%s` has %lld workgroups that wait for each other; at most %d can run at once here",
             r->kernel, (long long)l->grid[0] * l->grid[1] * l->grid[2],
             CPU_TOGETHER_MOST / (l->code->variant->block[0] > 1 ? l->code->variant->block[0] : 1));
  else
    diag_add(r->diags, DIAG_E0902, r->at, "`%s` needs %d bytes of memory for each thread",
             r->kernel, l->code->variant->shared);
}

static int cpu_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                      const int64_t *sizes, const int64_t *strides, bool changed) {
  (void)d, (void)index, (void)m, (void)map, (void)address, (void)sizes, (void)strides;
  (void)changed;
  return NO_MAPS;
}

static bool cpu_is_captured(Device *d, void *stream) {
  (void)d, (void)stream;
  return false;
}

/* ---- memory ---- */

static void *cpu_alloc(Device *d, int index, size_t bytes, const DeviceReport *r) {
  enum { ALIGN = 64 };
  (void)d;
  if (!check_index(index, r)) return NULL;
  void *memory = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
  if (!memory)
    diag_add(r->diags, DIAG_E0902, r->at, "cannot allocate %lld bytes", (long long)bytes);
  return memory;
}

static void *cpu_alloc_zeros(Device *d, int index, size_t bytes, const DeviceReport *r) {
  void *memory = cpu_alloc(d, index, bytes, r);
  return memory ? memset(memory, 0, bytes) : NULL;
}

static void cpu_release(Device *d, int index, void *memory, const DeviceReport *r) {
  (void)d, (void)index, (void)r;
  free(memory);
}

static bool cpu_copy(Device *d, int index, void *to, const void *from, size_t bytes,
                     const DeviceReport *r) {
  (void)d, (void)index, (void)r;
  memmove(to, from, bytes);
  return true;
}

static bool cpu_wait(Device *d, int index, void *stream, const DeviceReport *r) {
  (void)d, (void)index, (void)stream, (void)r;
  return true; /* launches have already waited */
}

const DeviceKind device_cpu = {.name = "cpu",
                               .number = DEVICE_HOST,
                               .grid_most = {INT32_MAX, INT32_MAX, INT32_MAX},
                               .open = cpu_open,
                               .close = cpu_close,
                               .count = cpu_count,
                               .facts = cpu_facts,
                               .load = cpu_load,
                               .unload = cpu_unload,
                               .resources = cpu_resources,
                               .launch = cpu_launch,
                               .explain = cpu_explain,
                               .encode = cpu_encode,
                               .is_captured = cpu_is_captured,
                               .alloc = cpu_alloc,
                               .alloc_zeros = cpu_alloc_zeros,
                               .release = cpu_release,
                               .copy = cpu_copy,
                               .wait = cpu_wait};
