/* fake_object.h: the smallest code object that the runtime accepts: an ELF file whose only contents
 * are the metadata note. There is no code in it. */
#ifndef WV_FAKE_OBJECT_H
#define WV_FAKE_OBJECT_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/target.h"

enum { FAKE_OBJECT_BYTES = 1 << 15, FAKE_OBJECT_MACHINE = 224, FAKE_OBJECT_NOTE = 32 };

/* ---- MessagePack, as far as a note needs it ---- */

typedef struct FakePack {
  unsigned char at[FAKE_OBJECT_BYTES];
  size_t n;
} FakePack;

static inline void fake_put(FakePack *p, unsigned long v, int bytes) {
  if (p->n + 8 > sizeof p->at) abort();
  for (int i = bytes; i-- > 0;) p->at[p->n++] = (unsigned char)(v >> 8 * i);
}

static inline void fake_list(FakePack *p, int first, int n) {
  fake_put(p, (unsigned long)first, 1);
  fake_put(p, (unsigned long)n, 2);
}

static inline void fake_map(FakePack *p, int pairs) { fake_list(p, 0xde, pairs); }

static inline void fake_text(FakePack *p, const char *text) {
  fake_put(p, 0xd9, 1);
  fake_put(p, strlen(text), 1);
  if (p->n + strlen(text) > sizeof p->at) abort();
  memcpy(p->at + p->n, text, strlen(text));
  p->n += strlen(text);
}

static inline void fake_number(FakePack *p, const char *key, int v) {
  fake_text(p, key);
  fake_put(p, 0xce, 1);
  fake_put(p, (unsigned long)v, 4);
}

/* ---- the note ---- */

/* Arguments with these numbers of bytes, laid out as a C struct would be. */
static inline void fake_args(FakePack *p, const int *bytes, int n) {
  int at = 0;
  fake_text(p, ".args");
  fake_list(p, 0xdc, n);
  for (int i = 0; i < n; i++, at += bytes[i - 1]) {
    at = (at + bytes[i] - 1) / bytes[i] * bytes[i];
    fake_map(p, 2);
    fake_number(p, ".offset", at);
    fake_number(p, ".size", bytes[i]);
  }
  fake_number(p, ".kernarg_segment_size", (at + 7) / 8 * 8);
}

static inline void fake_note(FakePack *p, const char *kernel, const int *bytes, int n) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "%.200s.kd", kernel);
  fake_map(p, 1);
  fake_text(p, "amdhsa.kernels");
  fake_list(p, 0xdc, 1);
  fake_map(p, 5);
  fake_text(p, ".name"), fake_text(p, kernel);
  fake_text(p, ".symbol"), fake_text(p, symbol);
  fake_number(p, ".max_flat_workgroup_size", 1024);
  fake_args(p, bytes, n);
}

/* ---- the file ---- */

/* Freed with free(). */
static inline char *fake_object(const char *kernel, const char *chip, const int *bytes, int n,
                                size_t *size) {
  static const char owner[8] = "AMDGPU";
  FakePack *p = calloc(1, sizeof *p);
  if (!p) abort();
  fake_note(p, kernel, bytes, n);
  Elf64_Nhdr note = {7, (Elf64_Word)p->n, FAKE_OBJECT_NOTE};
  Elf64_Shdr sections[2] = {{0}};
  Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 64},
                  .e_type = ET_DYN,
                  .e_machine = FAKE_OBJECT_MACHINE,
                  .e_version = EV_CURRENT,
                  .e_flags = chip_named(chip)->elf,
                  .e_ehsize = sizeof e,
                  .e_shentsize = sizeof *sections,
                  .e_shstrndx = 2, /* there is none */
                  .e_shnum = 2};
  size_t used = sizeof note + sizeof owner + p->n;
  e.e_shoff = (sizeof e + used + 7) / 8 * 8;
  sections[1] = (Elf64_Shdr){.sh_type = SHT_NOTE, .sh_offset = sizeof e, .sh_size = used};
  *size = e.e_shoff + sizeof sections;
  char *out = calloc(1, *size);
  if (!out) abort();
  memcpy(out, &e, sizeof e);
  memcpy(out + sizeof e, &note, sizeof note);
  memcpy(out + sizeof e + sizeof note, owner, sizeof owner);
  memcpy(out + sizeof e + sizeof note + sizeof owner, p->at, p->n);
  memcpy(out + e.e_shoff, sections, sizeof sections);
  free(p);
  return out;
}

#endif
