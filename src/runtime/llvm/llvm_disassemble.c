/* llvm_disassemble.c: machine code of AMD GPUs as text, by libLLVM's own disassembler. LLVM does not
 * survive all bytes: those that it fails on are kept from it. */
#include <string.h>

#include "runtime/llvm/llvm_library.h"

bool llvm_disassemble_open(const LlvmLibrary *l, const LlvmTarget *t, LlvmDisassembler *out) {
  *out = (LlvmDisassembler){l, l->CreateDisasmCPUFeatures(t->words.triple, t->cpu,
                                                          t->words.features, NULL, 0, NULL, NULL)};
  return out->state != NULL;
}

/* Of AMD's chips: a second word of selectors (SDWA), one of which means nothing. Such words are
 * decoded, but the printer has no text for them and jumps anywhere (LLVM 19 on x86-64). */
static bool has_bad_selector(const uint8_t *bytes, size_t n) {
  enum { SDWA = 0xf9, COMPARISONS = 0x3e };
  uint32_t word[2];
  if (n < sizeof word) return false;
  memcpy(word, bytes, sizeof word);
  if (word[0] >> 31 || (word[0] & 0x1ff) != SDWA) return false;
  bool has_result = word[0] >> 25 != COMPARISONS;
  bool is_bad_result = (word[1] >> 8 & 7) == 7 || (word[1] >> 11 & 3) == 3;
  return (word[1] >> 16 & 7) == 7 || (word[1] >> 24 & 7) == 7 || (has_result && is_bad_result);
}

/* LLVM 22 crashes on an instruction for gfx1250 that is cut off before its literal, so the last bytes
 * are padded. */
size_t llvm_disassemble(void *disassembler, const uint8_t *bytes, size_t n, uint64_t pc, char *text,
                        size_t size) {
  enum { LONGEST = 32 }; /* no instruction has as many bytes */
  const LlvmDisassembler *d = disassembler;
  uint8_t padded[LONGEST] = {0};
  if (has_bad_selector(bytes, n)) return 0;
  if (n >= LONGEST) return d->l->DisasmInstruction(d->state, bytes, n, pc, text, size);
  memcpy(padded, bytes, n);
  size_t found = d->l->DisasmInstruction(d->state, padded, LONGEST, pc, text, size);
  return found <= n ? found : 0;
}

void llvm_disassemble_close(LlvmDisassembler *d) {
  if (d->state) d->l->DisasmDispose(d->state);
  d->state = NULL;
}
