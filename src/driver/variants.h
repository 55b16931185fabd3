/* variants.h: which variants of a kernel there are, and what each may assume. */
#ifndef WV_VARIANTS_H
#define WV_VARIANTS_H

#include "driver/alias/alias.h"
#include "driver/launch_code.h"
#include "target/target.h"

typedef struct Variant {
  const char *facts; /* for display */
  bool views;        /* tensors may have arbitrary strides: `view` rows */
  bool without;      /* the kernel's own assumptions are left out */
  int64_t
      repacked; /* parameters, as bits: views of tensors, or copies, with aligned rows (repack.h) */
  int64_t
      single; /* parameters, as bits: tensors of arbitrary strides, of which a workgroup has one element */
  Alias alias; /* a tensor that is the first columns of another one */
  const Sym *assume[2 * ARTEFACT_SLOTS];
  int nassume;      /* facts for the compiler, over the kernel's symbols */
  const Sym *guard; /* what a launch must satisfy, over slots; NULL: nothing */
} Variant;

/* Whether a parameter may have strides other than those of row-major tensors. */
static inline bool variant_has_view(const Variant *v, int param) {
  return v->views || (v->repacked | v->single) >> param & 1;
}

typedef struct Variants {
  Variant *at;
  int n;
  int fallback; /* variants from here on are without assumptions; n: there are none */
} Variants;

/* Best first; the last accepts every launch. `is_decided`: passes that assumed row-major, aligned
 * tensors have run on the kernel; there is one variant, for such launches. */
Variants variants_plan(const LaunchSymbols *s, const TargetInfo *machine, bool is_decided);

/* A copy of the kernel with the variant's facts in its header. */
Kernel *variant_kernel(Kernel *k, const Variant *v);
/* Of the variant that is compiled first for a device; what the simulator runs is the kernel
 * itself. */
Kernel *variant_first(Kernel *k, const TargetChoice *t, Arena *a);

#endif
