/* target.c: the tables of target.h, filled from mma.def and targets.def. */
#include "target/target.h"

#include <string.h>

enum { F16 = MMA_F16, BF16 = MMA_BF16, F8 = MMA_F8, F6 = MMA_F6, F4 = MMA_F4, I8 = MMA_I8 };

static const MmaInfo mma_rows[] = {
#define MMA(name, code, form, m, n, k, lanes, operand, acc, types, acc_type)                       \
  {#name, code, MMA_##form, m, n, k, lanes, operand, acc, types, #acc_type},
#include "target/mma.def"
};

static const TargetInfo target_rows[] = {
#define TARGET(name, doc) {#name, doc},
#include "target/targets.def"
};

int mma_count(void) { return (int)WV_LEN(mma_rows); }

const MmaInfo *mma_at(int i) { return i >= 0 && i < mma_count() ? &mma_rows[i] : NULL; }

const MmaInfo *mma_find(const char *name) {
  for (size_t i = 0; i < WV_LEN(mma_rows); i++)
    if (strcmp(mma_rows[i].name, name) == 0) return &mma_rows[i];
  return NULL;
}

const TargetInfo *target_at(int i) {
  return i >= 0 && (size_t)i < WV_LEN(target_rows) ? &target_rows[i] : NULL;
}

const TargetInfo *target_find(const char *name) {
  for (size_t i = 0; i < WV_LEN(target_rows); i++)
    if (strcmp(target_rows[i].name, name) == 0) return &target_rows[i];
  return NULL;
}
