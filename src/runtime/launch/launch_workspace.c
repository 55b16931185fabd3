/* launch_workspace.c: memory that a kernel needs besides its arguments: one zeroed block for each
 * stream it is launched on. It is allocated at the first launch there, also if that is captured; the
 * kernel leaves it as it found it, so later launches reuse it. Graphs captured on one stream
 * therefore share a block: like a stream's launches, they must run one after the other. Memory for
 * copies of arguments is another such block, which contains anything. */
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/launch.h"

/* Launches by different threads may run concurrently if there is no stream, or if the handle stands
 * for a per-thread stream. */
const void *launch_owner(const Launcher *l, void *stream) {
  static _Thread_local char here;
  static const char everybody;
  const uintptr_t of_thread = 2; /* CU_STREAM_PER_THREAD */
  if (l->art->device_kind == DEVICE_HOST || (uintptr_t)stream == of_thread) return &here;
  return stream ? stream : &everybody;
}

static char *find_block(Launcher *l, const LaunchBlock *wanted) {
  LaunchBlock *b = atomic_load_explicit(&l->blocks, memory_order_acquire);
  for (; b; b = b->next)
    if (b->device == wanted->device && b->owner == wanted->owner &&
        b->for_copies == wanted->for_copies && b->bytes >= wanted->bytes)
      return b->memory;
  return NULL;
}

static void push_block(Launcher *l, LaunchBlock *b) {
  b->next = atomic_load(&l->blocks);
  while (!atomic_compare_exchange_weak(&l->blocks, &b->next, b)) continue;
}

/* A block that is not in the list yet. */
typedef struct NewBlock {
  Launcher *l;
  LaunchBlock *b;
  const DeviceReport *r;
} NewBlock;

static void drop_block(void *new_block) {
  NewBlock *n = new_block;
  if (n->b->memory) n->l->device->kind->release(n->l->device, n->b->device, n->b->memory, n->r);
  free(n->b);
}

/* More than the caller needs, so that growing sizes do not leave a block for each of them: twice as
 * much of a workspace, a quarter more for copies, which are large. */
static char *make_block(Launcher *l, Diags *diags, const LaunchBlock *wanted) {
  DeviceReport r = launch_report(l, diags, l->at);
  LaunchBlock *b = malloc(sizeof *b);
  if (!b) landing_no_memory(sizeof *b);
  NewBlock made = {l, b, &r};
  Held held;
  *b = *wanted;
  b->bytes += b->for_copies ? b->bytes / 4 : b->bytes + 1;
  landing_hold(&held, drop_block, &made);
  b->memory = l->device->kind->alloc_zeros(l->device, b->device, (size_t)b->bytes, &r);
  landing_let_go(&held);
  if (b->memory) return push_block(l, b), b->memory;
  drop_block(&made);
  return NULL;
}

static char *get_block(Launcher *l, Diags *diags, void *stream, LaunchBlock wanted) {
  wanted.owner = launch_owner(l, stream);
  char *found = find_block(l, &wanted);
  return found ? found : make_block(l, diags, &wanted);
}

char *launch_workspace(Launcher *l, Diags *diags, int device, void *stream, int64_t bytes) {
  return get_block(l, diags, stream, (LaunchBlock){.device = device, .bytes = bytes});
}

char *launch_copies(Launcher *l, Diags *diags, int device, void *stream, int64_t bytes) {
  LaunchBlock wanted = {.device = device, .for_copies = true, .bytes = bytes};
  return get_block(l, diags, stream, wanted);
}

/* Where launches do not wait for the kernel, one that is refused has not begun. */
void launch_clear_workspace(Launcher *l, const char *memory) {
  LaunchBlock *b = atomic_load_explicit(&l->blocks, memory_order_acquire);
  if (l->art->device_kind != DEVICE_HOST) return;
  while (b && b->memory != memory) b = b->next;
  if (b) memset(b->memory, 0, (size_t)b->bytes);
}

/* A graph goes on using what it captured. */
void launch_release_workspace(Launcher *l, Diags *diags) {
  DeviceReport r = {.diags = diags};
  bool captured = atomic_load(&l->captured);
  for (LaunchBlock *b = atomic_load(&l->blocks), *next; b; b = next) {
    next = b->next;
    if (!captured) l->device->kind->release(l->device, b->device, b->memory, &r);
    free(b);
  }
}
