/* amd_text.c: see amd_text.h. */
#include "runtime/amd/amd_text.h"

#include "isa/loops/loops.h"
#include "runtime/amd/amd_compile.h"

/* Prints a kernel. */
typedef void Print(StrBuf *out, const AmdKernelNote *n, const IsaImage *image, LoopCode *code,
                   LlvmDisassembler *d);

static bool print_kernel(StrBuf *out, const AmdImage *image, const AmdKernelNote *n,
                         LlvmDisassembler *d, Print *print, const char **error) {
  IsaImage code;
  LoopCode loops;
  uint64_t pc;
  const char *why;
  Arena *a = out->arena;
  if (!amd_image_kernel(a, image, n->name, &code, error)) return false;
  if (!loops_read(a, &code, llvm_disassemble, d, &loops, &pc, &why)) {
    *error = arena_printf(a, "offset 0x%llx: kernel `%s`, pc 0x%llx: %s",
                          (unsigned long long)amd_image_offset(image, code.code + pc), n->name,
                          (unsigned long long)pc, why);
    return false;
  }
  print(out, n, &code, &loops, d);
  return true;
}

static const char *print_all(Arena *a, const AmdImage *image, const LlvmLibrary *l, Print *print,
                             const char **error) {
  StrBuf out = {.arena = a};
  const AmdChip *chip = chip_named(image->chip);
  LlvmTarget t = amd_target(chip);
  LlvmDisassembler d;
  if (l->version < chip->llvm) /* its disassembler would end the process */
    return *error = arena_printf(a, "offset 0x%zx: code for %s, which libLLVM %u does not know",
                                 offsetof(Elf64_Ehdr, e_flags), chip->name, l->version),
           NULL;
  if (!llvm_disassemble_open(l, &t, &d))
    return *error = "libLLVM has no disassembler for AMD GPUs", NULL;
  bool ok = true;
  for (int i = 0; ok && i < image->note.nkernels; i++) {
    if (i) sb_putc(&out, '\n');
    ok = print_kernel(&out, image, &image->note.kernels[i], &d, print, error);
  }
  llvm_disassemble_close(&d);
  return ok ? sb_text(&out) : NULL;
}

/* ---- loops ---- */

static void print_loops(StrBuf *out, const AmdKernelNote *n, const IsaImage *image, LoopCode *code,
                        LlvmDisassembler *d) {
  const char *unknown; /* an instruction that the executor lacks */
  const IsaKernel *decoded = isa_decode(out->arena, image, llvm_disassemble, d, &unknown);
  if (decoded) loops_walk(out->arena, decoded, code);
  LoopKernel k = {.image = image,
                  .vector = n->vgprs,
                  .accumulation = n->agprs,
                  .scalar = n->sgprs,
                  .vector_spills = n->vgpr_spills,
                  .scalar_spills = n->sgpr_spills,
                  .threads = n->threads};
  loops_print(out, &k, code);
}

const char *amd_loops(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error) {
  return print_all(a, image, l, print_loops, error);
}

/* ---- instructions ---- */

/* Where the instruction comes from, if the one before comes from elsewhere. */
static void print_place(StrBuf *out, const IsaImage *image, uint64_t pc, const IsaLine **last) {
  const IsaLine *line = isa_line(image, pc);
  bool same = line && *last && line->file == (*last)->file && line->line == (*last)->line;
  if (line && !same) sb_printf(out, "  ; %s:%u\n", line->file, line->line);
  if (line) *last = line;
}

static void print_listing(StrBuf *out, const AmdKernelNote *n, const IsaImage *image,
                          LoopCode *code, LlvmDisassembler *d) {
  (void)d;
  const IsaLine *last = NULL;
  bool *is_target = ARENA_ARRAY(out->arena, bool, code->n);
  for (int i = 0; i < code->n; i++)
    if (code->at[i].target >= 0) is_target[code->at[i].target] = true;
  sb_printf(out, "%s:\n", n->name);
  for (int i = 0; i < code->n; i++) {
    const LoopInstr *at = &code->at[i];
    if (is_target[i]) sb_printf(out, "L%x:\n", at->pc);
    print_place(out, image, at->pc, &last);
    sb_printf(out, "  %4x  %s", at->pc, at->text ? at->text : "; not an instruction");
    if (at->target >= 0) sb_printf(out, "  ; L%x", code->at[at->target].pc);
    sb_putc(out, '\n');
  }
}

const char *amd_listing(Arena *a, const AmdImage *image, const LlvmLibrary *l, const char **error) {
  return print_all(a, image, l, print_listing, error);
}
