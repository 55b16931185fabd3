/* cpu_debug.c: see cpu_debug.h.
 *
 * A debugger relocates what it reads by the addresses of sections, so a copy of the object with
 * those addresses filled in is all it needs. */
#define _GNU_SOURCE
#include "runtime/llvm/cpu_debug.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment/environment.h"
#include "runtime/llvm/cpu_gdb.h"

struct CpuDebug {
  GdbEntry entry;
  uint8_t *object;
};

static void change(CpuDebug *d, bool shown) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  GdbList *list = &__jit_debug_descriptor;
  GdbEntry *e = &d->entry;
  pthread_mutex_lock(&lock);
  if (shown) {
    e->next = list->first;
    if (e->next) e->next->before = e;
    list->first = e;
  } else {
    if (e->next) e->next->before = e->before;
    *(e->before ? &e->before->next : &list->first) = e->next;
  }
  list->changed = e;
  list->action = shown ? GDB_SHOWN : GDB_HIDDEN;
  __jit_debug_register_code();
  list->action = GDB_NOTHING;
  list->changed = NULL;
  pthread_mutex_unlock(&lock);
}

CpuDebug *cpu_debug_show(const void *object, size_t size, const uint64_t *section_at) {
  CpuDebug *d = calloc(1, sizeof *d);
  uint8_t *copy = d ? malloc(size) : NULL;
  if (!copy) return free(d), NULL;
  memcpy(copy, object, size);
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)copy;
  Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(copy + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++)
    if (section_at[i]) sections[i].sh_addr = section_at[i];
  *d = (CpuDebug){.entry = {.object = copy, .size = size}, .object = copy};
  change(d, true);
  return d;
}

void cpu_debug_hide(CpuDebug *d) {
  if (!d) return;
  change(d, false);
  free(d->object);
  free(d);
}

/* ---- perf ---- */

/* The folder is shared and the name is predictable: a link or file that another user has planted
 * there must not be written to. */
static FILE *open_own(const char *path) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  struct stat info;
  bool own = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
             info.st_uid == geteuid() && info.st_nlink == 1;
  FILE *f = own ? fdopen(fd, "a") : NULL;
  if (!f && fd >= 0) close(fd);
  return f;
}

void cpu_perf_note(const void *at, uint64_t size, const char *name) {
  char path[64];
  if (!environment_number(VARIABLE_PERF, 0)) return;
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  FILE *f = open_own(path);
  if (!f) return;
  fprintf(f, "%" PRIxPTR " %" PRIx64 " %s\n", (uintptr_t)at, size, name);
  fclose(f);
}
