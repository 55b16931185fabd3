/* amd_known.c: which intrinsics a version of LLVM knows, and a chip has (amd_known.def). */
#include <string.h>

#include "backend/amd/amd_state.h"
#include "target/mma.h"

#define NAME_START "llvm.amdgcn."

typedef struct Known {
  const char *name;
  unsigned first, feature;
} Known;

static const Known intrinsics[] = {
#define INTRINSIC(name, first, feature) {name, first, FEATURE_##feature},
#define MATRIX(feature, first)
#define HABIT(name, first)
#include "backend/amd/amd_known.def"
};

static const Known matrices[] = {
#define INTRINSIC(name, first, feature)
#define MATRIX(feature, first) {#feature, first, FEATURE_##feature},
#define HABIT(name, first)
#include "backend/amd/amd_known.def"
};

static bool fits(const Known *k, const char *name) {
  size_t n = strlen(k->name);
  return strncmp(name, k->name, n) == 0 && (!name[n] || name[n] == '.');
}

static const Known *find(const char *name) {
  const Known *best = NULL;
  for (size_t i = 0; i < WV_LEN(intrinsics); i++)
    if (fits(&intrinsics[i], name) && (!best || strlen(intrinsics[i].name) > strlen(best->name)))
      best = &intrinsics[i];
  return best;
}

bool amd_knows(const Amd *amd, const char *name) {
  const Known *k = find(name);
  return k && amd->llvm >= k->first && target_has(amd->target, k->feature);
}

bool amd_knows_matrix(const Amd *amd, const MmaInfo *row) {
  for (size_t i = 0; i < WV_LEN(matrices); i++)
    if (row->needs & matrices[i].feature)
      return amd->llvm >= matrices[i].first && target_has(amd->target, row->needs);
  return false;
}

bool amd_has_habit(unsigned llvm, AmdHabit habit) {
  static const unsigned first[] = {
#define INTRINSIC(name, first, feature)
#define MATRIX(feature, first)
#define HABIT(name, first) [AMD_##name] = first,
#include "backend/amd/amd_known.def"
  };
  return llvm >= first[habit];
}

/* "declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)": its name without the start; NULL: another's. */
static const char *declared_name(Arena *a, const char *declaration) {
  const char *at = strstr(declaration, "@" NAME_START);
  if (!at) return NULL;
  at += strlen("@" NAME_START);
  return arena_strndup(a, at, strcspn(at, "("));
}

static bool is_matrix(const char *name) {
  return strncmp(name, "mfma.", 5) == 0 || strncmp(name, "wmma.", 5) == 0;
}

bool amd_check_known(Llvm *p) {
  for (int i = 0; i < p->declared.n; i++) {
    const char *name = declared_name(p->arena, p->declared.at[i]);
    if (name && !is_matrix(name) && !amd_knows(p->amd, name))
      return llvm_fail(p, NULL,
                       arena_printf(p->arena, "`" NAME_START "%s` of LLVM %u", name, p->amd->llvm));
  }
  return true;
}
