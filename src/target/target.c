/* target.c: the rows of targets.def: machines and their matrix instructions, CPUs and their hosts. */
#include "target/target.h"

#include <string.h>

#include "base/strbuf.h"

enum { FREE = false, LOCKSTEP = true };

/* The short words of targets.def. */
enum {
  NONE = FEATURE_NONE,
#define FEATURE(name, doc) name = FEATURE_##name,
#include "target/features.def"
};

static const TargetInfo target_rows[] = {
#define TARGET(name, vendor, units, lanes, threads, shared, most, banks, p4, p8, p16, pair, wide,  \
               regs, simds, file, global, access, order, features, doc)                            \
  {                                                                                                \
      #name,  doc,   VENDOR_##vendor,                                                              \
      units,  lanes, threads,                                                                      \
      shared, most,  banks,                                                                        \
      p4,     p8,    p16,                                                                          \
      pair,   wide,  regs,                                                                         \
      simds,  file,  global,                                                                       \
      access, order, features},
#include "target/targets.def"
};

#define TILE(word) (1u << DOT_##word)
#define AARCH64 "aarch64"
#define X86_64 "x86_64"
#define ANY ""

static const CpuInfo cpu_rows[] = {
#define TARGET(...)
#define CPU(name, registers, bytes, arch, words, tiles, doc) {#name, arch, words, bytes, tiles},
#include "target/targets.def"
};

TargetInfo target_playing(const TargetInfo *t, int lanes) {
  TargetInfo played = *t;
  played.lanes = lanes;
  played.global_access = played.shared_access = 16; /* as GPUs have them; so are the banks */
  played.banks = played.phase4 = 32, played.phase8 = 16, played.phase16 = 8;
  played.lockstep = false;
  played.features = UNALIGNED | NAMED_BARRIER | BF16 | FP8_OCP | FP8_FNUZ | MFMA | MFMA_I8_K16 |
                    MFMA_F8 | MFMA_K32 | MFMA_SCALE | WMMA_11 | WMMA_12 | WMMA_1250 | MMA_SYNC |
                    MMA_SYNC_F8;
  return played;
}

int target_played_lanes(int threads) {
  enum { MOST = 64 }; /* of any machine */
  int lanes = threads < MOST ? threads : MOST;
  while (threads % lanes) lanes--;
  return lanes;
}

const TargetInfo *target_at(int i) {
  return i >= 0 && (size_t)i < WV_LEN(target_rows) ? &target_rows[i] : NULL;
}

/* The text after a prefix, or the text itself if it does not have the prefix. */
static const char *without(const char *text, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(text, prefix, n) == 0 ? text + n : text;
}

unsigned target_mma_types(const TargetInfo *t, const MmaInfo *row) {
  unsigned types = row->operand_types;
  if (!target_has(t, FEATURE_FP8_OCP)) types &= ~(unsigned)(MMA_f8e4m3fn | MMA_f8e5m2);
  if (!target_has(t, FEATURE_FP8_FNUZ)) types &= ~(unsigned)(MMA_f8e4m3fnuz | MMA_f8e5m2fnuz);
  return types;
}

/* ---- CPUs ---- */

const CpuInfo *cpu_at(int i) {
  return i >= 0 && (size_t)i < WV_LEN(cpu_rows) ? &cpu_rows[i] : NULL;
}

const CpuInfo *cpu_named(const char *target) {
  for (size_t i = 0; i < WV_LEN(cpu_rows); i++)
    if (strcmp(cpu_rows[i].target, target) == 0) return &cpu_rows[i];
  return NULL;
}

/* Compares whole words: "+avx512f" is not "+avx512fp16". */
static bool has_word(const char *features, const char *word, size_t n) {
  for (const char *at = features; *at; at += strcspn(at, ","), at += *at == ',')
    if (*at == '+' && strncmp(at + 1, word, n) == 0 && (at[n + 1] == ',' || !at[n + 1]))
      return true;
  return false;
}

bool cpu_has_feature(const char *features, const char *word) {
  return has_word(features, word, strlen(word));
}

bool cpu_is_scalable(const CpuInfo *p) { return cpu_has_feature(p->features, "sve"); }

/* The first missing feature from `at` on, and the length of its name; NULL: none is missing. */
static const char *next_missing(const HostWords *host, const char *at, size_t *n) {
  for (; *at; at += *n + 1, at += *at == ',') {
    *n = strcspn(at, ",") - 1;
    if (!has_word(host->features, at + 1, *n)) return at + 1;
  }
  return NULL;
}

static bool has_arch(const HostWords *host, const CpuInfo *p) {
  return *p->arch && without(host->triple, p->arch) != host->triple;
}

static bool has_length(const HostWords *host, const CpuInfo *p) {
  return !cpu_is_scalable(p) || host->scalable_bytes == p->vector_bytes;
}

const char *cpu_lacks(Arena *a, const HostWords *host, const CpuInfo *p) {
  StrBuf out = {.arena = a};
  size_t n = 0;
  if (!has_arch(host, p)) return arena_printf(a, "the architecture %s", *p->arch ? p->arch : "any");
  for (const char *at = p->features; (at = next_missing(host, at, &n)); at += n, at += *at == ',')
    sb_printf(&out, "%s%.*s", out.n ? ", " : "", (int)n, at);
  if (!out.n && !has_length(host, p))
    sb_printf(&out, "vectors of %d bytes (it has %d)", p->vector_bytes, host->scalable_bytes);
  return out.n ? sb_text(&out) : NULL;
}

const CpuInfo *cpu_of_host(const HostWords *host) {
  const CpuInfo *best = NULL;
  for (size_t i = 0; i < WV_LEN(cpu_rows); i++) {
    const CpuInfo *p = &cpu_rows[i];
    if (has_arch(host, p) && has_length(host, p) && !next_missing(host, p->features, &(size_t){0}))
      best = p;
  }
  return best;
}

bool target_has_mma(const TargetInfo *t, const MmaInfo *row) {
  const CpuInfo *p = row->form == MMA_TILE ? cpu_named(t->name) : NULL;
  return target_has(t, row->needs) && (!p || p->tiles >> row->tile & 1);
}
