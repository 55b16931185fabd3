/* target.c: the rows of targets.def, and the spellings under which they are found. */
#include "target/target.h"

#include <string.h>

enum { FREE = false, LOCKSTEP = true };

/* The short words of targets.def. */
enum {
  NONE = FEATURE_NONE,
#define FEATURE(name, doc) name = FEATURE_##name,
#include "target/features.def"
};

static const TargetInfo target_rows[] = {
#define TARGET(name, vendor, lanes, threads, shared, most, banks, p4, p8, p16, pair, regs, global, \
               access, order, features, doc)                                                       \
  {#name, doc,  VENDOR_##vendor, lanes,  threads, shared,  most, banks, p4, p8, p16,               \
   pair,  regs, global,          access, order,   features},
#include "target/targets.def"
};

const TargetInfo *target_at(int i) {
  return i >= 0 && (size_t)i < WV_LEN(target_rows) ? &target_rows[i] : NULL;
}

/* The text behind a prefix; the text itself when it does not begin so. */
static const char *without(const char *text, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(text, prefix, n) == 0 ? text + n : text;
}

TargetChoice target_find(const char *name) {
  TargetChoice found = {0};
  const char *rest = without(name, "sim:");
  found.simulated = rest != name || strcmp(name, "sim") == 0;
  if (strcmp(name, "sim") == 0) rest = "gfx942";
  rest = without(without(rest, "hip/"), "cuda/");
  size_t n = strcspn(rest, ":"); /* gfx942:sramecc+ */
  for (size_t i = 0; i < WV_LEN(target_rows); i++) {
    const TargetInfo *t = &target_rows[i];
    if (strlen(t->name) != n || strncmp(t->name, rest, n) != 0) continue;
    if (rest[n] && t->vendor != VENDOR_AMD) continue; /* only AMD names have suffixes */
    found.machine = t;
  }
  return found;
}

TargetChoice target_resolve(Diags *diags, const char *name) {
  TargetChoice found = target_find(name);
  if (found.machine) return found;
  const char *names[WV_LEN(target_rows) + 1];
  for (size_t i = 0; i < WV_LEN(target_rows); i++) names[i] = target_rows[i].name;
  names[WV_LEN(target_rows)] = "sim";
  const char *rest = without(name, "sim:"), *near = diag_nearest(rest, names, WV_LEN(names));
  Diag *d = diag_add(diags, DIAG_E0603, (Span){0}, "unknown target `%s`", name);
  if (near) diag_hint(diags, d, "did you mean `%.*s%s`?", (int)(rest - name), name, near);
  else diag_hint(diags, d, "`wavec --list=targets` shows them; `sim:NAME` simulates one");
  return found;
}

unsigned target_mma_types(const TargetInfo *t, const MmaInfo *row) {
  unsigned types = row->operand_types;
  if (!target_has(t, FEATURE_FP8_OCP)) types &= ~(unsigned)(MMA_f8e4m3fn | MMA_f8e5m2);
  if (!target_has(t, FEATURE_FP8_FNUZ)) types &= ~(unsigned)(MMA_f8e4m3fnuz | MMA_f8e5m2fnuz);
  return types;
}
