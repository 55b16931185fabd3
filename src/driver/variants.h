/* variants.h: which variants of a kernel there are, and what each may take for granted. */
#ifndef WV_VARIANTS_H
#define WV_VARIANTS_H

#include "driver/launch_code.h"

typedef struct Variant {
  const char *facts; /* for people */
  bool views;        /* tensors may lie anyhow: `view` rows */
  bool without;      /* the kernel's own assumptions are left out */
  const Sym *assume[2 * ARTEFACT_SLOTS];
  int nassume;      /* facts for the compiler, over the kernel's symbols */
  const Sym *guard; /* what must hold of a launch, over slots; NULL: nothing */
} Variant;

typedef struct Variants {
  Variant *at;
  int n;
  int fallback; /* from here on they are without assumptions; n: there are none such */
} Variants;

/* Best first; the last takes every launch. `is_decided`: passes have run on the kernel, which took
 * tensors to be row-major and aligned; there is one variant, for such launches. `narrow`: the
 * machine computes quicker in 32 bits, which processors do not. */
Variants plan_variants(const LaunchSymbols *s, bool is_decided, bool narrow);

/* A copy of the kernel with the variant's facts in its header. */
Kernel *variant_kernel(Kernel *k, const Variant *v);

#endif
