/* cpu_host.c: the features of this CPU, as LLVM spells them.
 *
 * On x86 LLVM's own list is complete: it queries the CPU and the operating system. Only matrix
 * registers (AMX) must be requested: Linux saves them only for processes that did. On AArch64,
 * before version 22, LLVM derives features from the CPU's name, and code that uses a feature hidden
 * by a hypervisor (usually SVE) dies of SIGILL: there the kernel's HWCAP bits are used. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/landing.h"
#include "base/strbuf.h"
#include "runtime/llvm/cpu_host.h"

typedef struct Message {
  const LlvmLibrary *l;
  char *text;
} Message;

static void dispose(void *message) {
  const Message *m = message;
  m->l->DisposeMessage(m->text);
}

/* A copy of LLVM's text, which is freed. */
static char *keep_message(const LlvmLibrary *l, Arena *a, char *text) {
  Message m = {l, text};
  Held held;
  landing_hold(&held, dispose, &m);
  char *kept = arena_strdup(a, text);
  landing_let_go(&held);
  dispose(&m);
  return kept;
}

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

static const char *features_of(const LlvmLibrary *l, Arena *a) {
  unsigned long words[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  StrBuf out = {.arena = a};
  (void)l;
  for (size_t i = 0; i < WV_LEN(hwcap_bits); i++) {
    const HwcapBit *b = &hwcap_bits[i];
    sb_printf(&out, "%s%c%s", i ? "," : "", words[b->word] >> b->bit & 1 ? '+' : '-', b->feature);
  }
  return sb_text(&out);
}

/* For this thread and those it starts. The system default does not count: programs may change
 * it. */
static int scalable_bytes(void) {
  enum { GET_LENGTH = 51, LENGTH_MASK = 0xffff };
  int length = prctl(GET_LENGTH);
  return length < 0 ? 0 : length & LENGTH_MASK;
}
#else
static int scalable_bytes(void) { return 0; }

/* For this process and its threads; repeated requests are harmless. */
static bool may_use_amx(void) {
#if defined(__x86_64__) && defined(__linux__)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

static const char *features_of(const LlvmLibrary *l, Arena *a) {
  char *kept = keep_message(l, a, l->GetHostCPUFeatures());
  bool asks = strstr(kept, "+amx") != NULL;
  if (asks && !may_use_amx())
    for (char *at = kept; (at = strstr(at, "+amx")); at++) *at = '-';
  return kept;
}
#endif

LlvmTarget cpu_host_target(const LlvmLibrary *l, Arena *a) {
  const char *triple = keep_message(l, a, l->GetDefaultTargetTriple());
  const char *cpu = keep_message(l, a, l->GetHostCPUName());
  return (LlvmTarget){{triple, features_of(l, a), scalable_bytes()}, cpu};
}

const char *cpu_target_row(const LlvmTarget *t) {
  const CpuInfo *p = cpu_of_host(&t->words);
  return p ? p->target : "cpu";
}

LlvmTarget cpu_target_of(Arena *a, const CpuInfo *p) {
  const char *triple = arena_printf(a, "%s-unknown-linux-gnu", p->arch);
  return (LlvmTarget){{triple, p->features, cpu_is_scalable(p) ? p->vector_bytes : 0}, "generic"};
}
