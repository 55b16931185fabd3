/* asm_kit.h: code for CPUs other than this machine's, as LLVM emits it. */
#ifndef WV_ASM_KIT_H
#define WV_ASM_KIT_H

#include <elf.h>

#include "unit/cpu_kit.h"

typedef struct Chip {
  HostWords words;
  const char *cpu;
  const char *product; /* the instruction of a tile, as assembly spells it */
  const char *spill;   /* how assembly spells a stack slot */
} Chip;

/* The kernel compiled by LLVM: assembly, or an object. NULL after printing why; skipped if the
 * library lacks the target. */
static inline const char *code_of(Lab *l, const Chip *c, bool assembly, LlvmCode *code,
                                  bool *skipped) {
  Arena *a = l->cx->arena;
  const LlvmLibrary *llvm = kit_llvm(a);
  LlvmCompile o = {.target = {c->words, c->cpu}, .assembly = assembly};
  CpuHost host = cpu_host(&c->words);
  CpuKernel k;
  const char *error = NULL;
  *skipped = !llvm;
  if (!llvm) return NULL;
  if (!l->k || !cpu_emit(l->k, &host, a, &k)) return lab_print_errors(l), NULL;
  if (llvm_compile(llvm, a, k.text, &o, code, &error)) return code->bytes;
  *skipped = strstr(error, "unknown target") != NULL;
  if (!*skipped) printf("%s: %s\n", c->cpu, error);
  return NULL;
}

static inline const char *assembly_of(Lab *l, const Chip *c, bool *skipped) {
  LlvmCode code;
  return code_of(l, c, true, &code, skipped);
}

static inline int count_of(const char *text, size_t n, const char *word) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, word)) && at < text + n; at++) count++;
  return count;
}

/* The loop with the multiplications: from the label before the first one to the jump after them. */
static inline size_t loop_at(const char *text, const char *product, const char **begin) {
  const char *first = strstr(text, product), *end = first;
  if (!first) return 0;
  while (first > text && !(first[0] == '\n' && first[1] == '.')) first--;
  for (const char *at = end; (at = strstr(at, product)); at++) end = at;
  *begin = first;
  return (size_t)(end - first);
}

/* External functions that an object needs, into `names`; returns how many. */
static inline int undefined_of(const LlvmCode *code, const char **names, int most) {
  const uint8_t *bytes = code->bytes;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)bytes;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(bytes + head->e_shoff);
  int n = 0;
  for (int i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(bytes + sections[i].sh_offset);
    const char *text = (const char *)bytes + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 1; s < sections[i].sh_size / sizeof *symbols; s++) {
      const char *name = text + symbols[s].st_name;
      bool own = strncmp(name, "cpu_watch_", 10) == 0; /* what every kernel calls now and then */
      if (symbols[s].st_shndx == SHN_UNDEF && !own && n < most) names[n++] = name;
    }
  }
  return n;
}

#endif
