/* amd_loops.c: see amd_loops.h. */
#include "runtime/amd/amd_loops.h"

#include "isa/loops/loops.h"
#include "runtime/amd/amd_compile.h"

static size_t disassemble(void *user, const uint8_t *at, size_t bytes, uint64_t pc, char *text,
                          size_t room) {
  return llvm_disassemble(user, at, bytes, pc, text, room);
}

static bool print_kernel(StrBuf *out, const AmdImage *image, const AmdKernelNote *n,
                         LlvmDisassembler *d, const char **error) {
  IsaImage code;
  LoopCode loops;
  uint64_t pc;
  const char *why;
  Arena *a = out->arena;
  if (!amd_image_kernel(a, image, n->name, &code, error)) return false;
  if (!loops_read(a, &code, disassemble, d, &loops, &pc, &why)) {
    *error = arena_printf(a, "offset 0x%llx: kernel `%s`, pc 0x%llx: %s",
                          (unsigned long long)amd_image_offset(image, code.code + pc), n->name,
                          (unsigned long long)pc, why);
    return false;
  }
  LoopKernel k = {.image = &code,
                  .vector = n->vgprs,
                  .accumulation = n->agprs,
                  .scalar = n->sgprs,
                  .vector_spills = n->vgpr_spills,
                  .scalar_spills = n->sgpr_spills,
                  .threads = n->threads};
  loops_print(out, &k, &loops);
  return true;
}

const char *amd_loops(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error) {
  StrBuf out = {.arena = a};
  LlvmTarget t = amd_target(chip_named(image->chip));
  LlvmDisassembler d;
  if (!llvm_disassemble_open(l, &t, &d))
    return *error = "libLLVM has no disassembler for AMD GPUs", NULL;
  bool ok = true;
  for (int i = 0; ok && i < image->note.nkernels; i++) {
    if (i) sb_putc(&out, '\n');
    ok = print_kernel(&out, image, &image->note.kernels[i], &d, error);
  }
  llvm_disassemble_close(&d);
  return ok ? sb_text(&out) : NULL;
}
