/* target_names.c: what targets are called: by their rows, by kinds of devices, by compute capability.
 * Nothing else compares the names of machines. */
#include <stdio.h>
#include <string.h>

#include "target/target.h"

/* What people and other tools call a kind of device. */
static const struct {
  const char *word;
  TargetKind kind;
} kind_words[] = {{"cuda", TARGET_CUDA},      {"nvidia", TARGET_CUDA},   {"hip", TARGET_HIP},
                  {"rocm", TARGET_HIP},       {"cpu", TARGET_CPU},       {"llvm-cpu", TARGET_CPU},
                  {"local-task", TARGET_CPU}, {"local-sync", TARGET_CPU}};

static TargetKind kind_called(const char *text, size_t n) {
  for (size_t i = 0; i < WV_LEN(kind_words); i++)
    if (strlen(kind_words[i].word) == n && strncmp(kind_words[i].word, text, n) == 0)
      return kind_words[i].kind;
  return TARGET_UNKNOWN;
}

TargetKind target_kind_called(const char *word) { return kind_called(word, strlen(word)); }

static bool begins(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static TargetKind kind_of(const TargetInfo *t) {
  switch (t->vendor) {
  case VENDOR_HOST: return target_has(t, FEATURE_REGISTER_TILES) ? TARGET_CPU : TARGET_EVAL;
  case VENDOR_AMD: return TARGET_HIP;
  case VENDOR_NVIDIA: return TARGET_CUDA;
  case VENDOR_SYNTHETIC: return TARGET_TOY;
  }
  return TARGET_UNKNOWN;
}

static const TargetInfo *row_called(const char *name) {
  size_t n = strcspn(name, ":"); /* gfx942:sramecc+ */
  const TargetInfo *t;
  for (int i = 0; (t = target_at(i)); i++)
    if (strlen(t->name) == n && strncmp(t->name, name, n) == 0 &&
        (!name[n] || t->vendor == VENDOR_AMD)) /* only AMD names have suffixes */
      return t;
  return NULL;
}

/* *only: it is for that capability alone. */
static int capability_of(const TargetInfo *t, bool *only) {
  int number;
  char tail = 0;
  if (t->vendor != VENDOR_NVIDIA || sscanf(t->name, "sm_%d%c", &number, &tail) < 1) return -1;
  *only = tail;
  return number;
}

int target_capability(const TargetInfo *t) {
  bool only;
  return capability_of(t, &only);
}

const TargetInfo *target_of_capability(int capability) {
  const TargetInfo *best = NULL, *t;
  int best_number = -1;
  for (int i = 0; (t = target_at(i)); i++) {
    bool only;
    int number = capability_of(t, &only);
    if (number < 0 || (only ? number != capability : number > capability)) continue;
    if (number > best_number) best = t, best_number = number;
  }
  return best;
}

/* A GPU that has no row of its own: "sm_87", "sm_120a". */
static const TargetInfo *row_of_capability(const char *name) {
  enum { MOST = 1000 };
  if (!begins(name, "sm_")) return NULL;
  const char *at = name + strlen("sm_");
  int number = 0;
  for (; *at >= '0' && *at <= '9' && number < MOST; at++) number = 10 * number + (*at - '0');
  if (*at >= 'a' && *at <= 'z') at++;
  return *at ? NULL : target_of_capability(number);
}

/* An AMD GPU, with a row or without: "gfx906", "gfx90c", "gfx1201:xnack-", "gfx9-4-generic". A version has one digit,
 * or two that begin with 1, and two hexadecimal digits. */
static bool names_amd(const char *name) {
  if (!begins(name, "gfx")) return false;
  const char *at = name + strlen("gfx");
  size_t n = strcspn(at, ":"), digits = strspn(at, "0123456789abcdef");
  const char *generic = "-generic";
  if (n > strlen(generic) && strncmp(at + n - strlen(generic), generic, strlen(generic)) == 0)
    return digits > 0;
  return digits == n && n == (*at == '1' ? 4 : 3);
}

/* The rest of "cuda/sm_90a", whose first part is any kind of device; *kind is that one. */
static const char *without_kind(const char *name, TargetKind *kind) {
  size_t n = strcspn(name, "/");
  *kind = name[n] ? kind_called(name, n) : TARGET_UNKNOWN;
  return *kind ? name + n + 1 : name;
}

static TargetChoice find_machine(const char *name) {
  TargetKind kind;
  const char *rest = without_kind(name, &kind);
  TargetChoice found = {.kind = *rest ? target_kind_called(rest) : kind,
                        .machine = row_called(rest)};
  found.is_kind = found.kind != TARGET_UNKNOWN;
  if (found.kind == TARGET_CPU && !found.machine) found.machine = row_called("cpu");
  if (found.is_kind) return found;
  if (!found.machine) found.stand_in = row_of_capability(rest);
  if (found.machine) found.kind = kind_of(found.machine);
  else if (found.stand_in) found.kind = TARGET_CUDA;
  else if (names_amd(rest)) found.kind = TARGET_HIP; /* a GPU that has no row */
  return found;
}

/* Machine code is executed on the host: only AMD's. */
static TargetChoice find_emulated(const char *name) {
  const TargetInfo *machine = row_called(name);
  bool runs = machine && machine->vendor == VENDOR_AMD;
  return (TargetChoice){runs ? TARGET_EMU : TARGET_UNKNOWN, .machine = runs ? machine : NULL};
}

TargetChoice target_find(const char *name) {
  const char *const prefix = "sim:";
  if (begins(name, "emu:")) return find_emulated(name + strlen("emu:"));
  if (strcmp(name, "sim") == 0)
    return (TargetChoice){TARGET_SIM, .machine = row_called("gfx942"), .simulated = true,
                          .is_kind = true};
  if (!begins(name, prefix)) return find_machine(name);
  TargetKind kind;
  const TargetInfo *machine = row_called(without_kind(name + strlen(prefix), &kind));
  return (TargetChoice){machine ? TARGET_SIM : TARGET_UNKNOWN, .machine = machine,
                        .simulated = true};
}

void target_unknown(Diags *diags, Span at, const char *name) {
  enum { MOST = 64 };
  const char *names[MOST];
  size_t n = 0;
  for (const TargetInfo *t; n < MOST - WV_LEN(kind_words) - 1 && (t = target_at((int)n)); n++)
    names[n] = t->name;
  names[n++] = "sim";
  for (size_t i = 0; i < WV_LEN(kind_words); i++) names[n++] = kind_words[i].word;
  const char *rest = begins(name, "sim:") || begins(name, "emu:") ? name + 4 : name;
  const char *near = diag_nearest(rest, names, (int)n);
  Diag *d = diag_add(diags, DIAG_E0603, at, "unknown target `%s`", name);
  if (near) diag_hint(diags, d, "did you mean `%.*s%s`?", (int)(rest - name), name, near);
  else diag_hint(diags, d, "`wavec --list=targets` lists the targets; `sim:NAME` simulates one");
}

TargetChoice target_resolve(Diags *diags, const char *name) {
  TargetChoice found = target_find(name);
  if (!found.machine) target_unknown(diags, (Span){0}, name);
  return found;
}

const char *target_family(const char *name) {
  TargetKind kind;
  const char *rest = without_kind(name, &kind);
  if (begins(rest, "gfx1250")) return "GFX1250";
  return begins(rest, "gfx10") || begins(rest, "gfx11") || begins(rest, "gfx12") ? "RDNA" : "CDNA";
}

/* ---- AMD's chips ---- */

static const AmdChip chips[] = {
#define CHIP(name, like, llvm, elf) {#name, #like, llvm, elf},
#include "target/chips.def"
};

const AmdChip *chip_at(int i) { return (size_t)i < WV_LEN(chips) ? &chips[i] : NULL; }

const AmdChip *chip_named(const char *name) {
  for (size_t i = 0; i < WV_LEN(chips); i++)
    if (strcmp(chips[i].name, name) == 0) return &chips[i];
  return NULL;
}

const AmdChip *chip_numbered(unsigned elf) {
  for (size_t i = 0; i < WV_LEN(chips); i++)
    if (chips[i].elf == elf) return &chips[i];
  return NULL;
}
