/* target.h: machines as data: targets and matrix instructions. */
#ifndef WV_TARGET_H
#define WV_TARGET_H

#include "base/base.h"

typedef enum MmaForm { MMA_NATIVE, MMA_VIRTUAL, MMA_SCALED } MmaForm;

enum MmaTypes { MMA_F16 = 1, MMA_BF16 = 2, MMA_F8 = 4, MMA_F6 = 8, MMA_F4 = 16, MMA_I8 = 32 };

typedef struct MmaInfo {
  const char *name;
  int code;
  MmaForm form;
  int m, n, k, lanes;
  int operand_elems, acc_elems; /* per lane, as the public package reports them */
  unsigned operand_types;       /* MmaTypes */
  const char *acc_type;
} MmaInfo;

typedef struct TargetInfo {
  const char *name, *doc;
} TargetInfo;

int mma_count(void);
const MmaInfo *mma_at(int i);             /* NULL past the end */
const MmaInfo *mma_find(const char *name); /* NULL: no such instruction */
const TargetInfo *target_at(int i);       /* NULL past the end */
const TargetInfo *target_find(const char *name);

#endif
