/* build_id.c: see build_id.h. */
#define _GNU_SOURCE
#include "runtime/cache/build_id.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/os.h"
#include "base/strbuf.h"

typedef struct Search {
  uintptr_t address; /* of this code */
  const unsigned char *id;
  size_t n;
} Search;

static size_t padded(size_t n) { return (n + 3) & ~(size_t)3; }

/* Notes follow each other: three words, a name and a content, each padded to four bytes. */
static void search_notes(Search *s, const unsigned char *at, size_t bytes) {
  enum { GNU_BUILD_ID = 3 };
  uint32_t head[3];
  while (bytes >= sizeof head) {
    memcpy(head, at, sizeof head);
    size_t whole = sizeof head + padded(head[0]) + padded(head[1]);
    if (whole > bytes) return;
    if (head[2] == GNU_BUILD_ID && head[0] == 4 && memcmp(at + sizeof head, "GNU", 4) == 0)
      s->id = at + sizeof head + 4, s->n = head[1];
    at += whole, bytes -= whole;
  }
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    uintptr_t from = info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && address >= from && address - from < p->p_memsz) return true;
  }
  return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *user) {
  Search *s = user;
  (void)size;
  if (!holds(info, s->address)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_NOTE)
      search_notes(s, (const unsigned char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
  }
  return 1;
}

const char *build_id(Arena *a) {
  Search s = {.address = (uintptr_t)&build_id};
  StrBuf out = {.arena = a};
  Dl_info file;
  dl_iterate_phdr(visit, &s);
  for (size_t i = 0; i < s.n; i++) sb_printf(&out, "%02x", s.id[i]);
  if (!s.n && dladdr((void *)s.address, &file) && file.dli_fname)
    sb_printf(&out, "file %lld", (long long)os_file_stamp(file.dli_fname));
  return sb_text(&out);
}
