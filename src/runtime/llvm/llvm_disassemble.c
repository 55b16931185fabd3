/* llvm_disassemble.c: machine code as text, by libLLVM's own disassembler. */
#include "runtime/llvm/llvm_library.h"

bool llvm_disassemble_open(const LlvmLibrary *l, const LlvmTarget *t, LlvmDisassembler *out) {
  *out = (LlvmDisassembler){l, l->CreateDisasmCPUFeatures(t->words.triple, t->cpu,
                                                          t->words.features, NULL, 0, NULL, NULL)};
  return out->state != NULL;
}

size_t llvm_disassemble(void *disassembler, const uint8_t *bytes, size_t n, uint64_t pc, char *text,
                        size_t size) {
  const LlvmDisassembler *d = disassembler;
  return d->l->DisasmInstruction(d->state, bytes, n, pc, text, size);
}

void llvm_disassemble_close(LlvmDisassembler *d) {
  if (d->state) d->l->DisasmDispose(d->state);
  d->state = NULL;
}
