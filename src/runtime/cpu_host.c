/* cpu_host.c: what this processor can do, as LLVM spells it.
 *
 * On x86 LLVM's own list is complete: it asks the processor and the operating system. On AArch64,
 * before 22, it derives features from the processor's name, and code that uses one that a
 * hypervisor hides (SVE, usually) dies of SIGILL: there the kernel's HWCAP bits are the list. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "base/strbuf.h"
#include "runtime/cpu_llvm.h"
#include "target/target.h"

#ifdef __aarch64__
typedef struct HwcapBit {
  int word, bit; /* 0: AT_HWCAP, 1: AT_HWCAP2 */
  const char *feature;
} HwcapBit;

static const HwcapBit hwcap_bits[] = {
    {0, 0, "fp-armv8"}, {0, 1, "neon"},       {0, 3, "aes"},       {0, 6, "sha2"},
    {0, 7, "crc"},      {0, 8, "lse"},        {0, 10, "fullfp16"}, {0, 12, "rdm"},
    {0, 13, "jsconv"},  {0, 14, "complxnum"}, {0, 15, "rcpc"},     {0, 17, "sha3"},
    {0, 19, "sm4"},     {0, 20, "dotprod"},   {0, 22, "sve"},      {0, 23, "fp16fml"},
    {1, 1, "sve2"},     {1, 13, "i8mm"},      {1, 14, "bf16"},     {1, 23, "sme"},
};

static const char *features_of(const CpuLlvm *l, Arena *a) {
  unsigned long words[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  StrBuf out = {.arena = a};
  (void)l;
  for (size_t i = 0; i < WV_LEN(hwcap_bits); i++) {
    const HwcapBit *b = &hwcap_bits[i];
    sb_printf(&out, "%s%c%s", i ? "," : "", words[b->word] >> b->bit & 1 ? '+' : '-', b->feature);
  }
  return sb_text(&out);
}
#else
static const char *features_of(const CpuLlvm *l, Arena *a) {
  char *text = l->GetHostCPUFeatures();
  const char *kept = arena_strdup(a, text);
  l->DisposeMessage(text);
  return kept;
}
#endif

CpuTarget cpu_llvm_host(const CpuLlvm *l, Arena *a) {
  char *triple = l->GetDefaultTargetTriple(), *cpu = l->GetHostCPUName();
  CpuTarget host = {arena_strdup(a, triple), arena_strdup(a, cpu), features_of(l, a)};
  l->DisposeMessage(triple);
  l->DisposeMessage(cpu);
  return host;
}

const char *cpu_target_row(const CpuTarget *t) {
  const Processor *p = processor_of_host(t->triple, t->features);
  return p ? p->target : "cpu";
}
