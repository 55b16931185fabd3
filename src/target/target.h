/* target.h: machines as data. One row of targets.def per machine; nothing else in the compiler
 * compares names of machines. */
#ifndef WV_TARGET_H
#define WV_TARGET_H

#include "base/base.h"
#include "target/mma.h"

typedef enum Vendor { VENDOR_HOST, VENDOR_AMD, VENDOR_NVIDIA, VENDOR_SYNTHETIC } Vendor;

/* Bits of TargetInfo.features and of MmaInfo.needs. */
typedef enum Feature {
  FEATURE_NONE = 0,
  /* moving data */
  FEATURE_CP_ASYNC = 1 << 0,      /* copies of 4, 8, 16 bytes to shared memory, in groups */
  FEATURE_TMA = 1 << 1,           /* bulk copies of boxes, counted by mbarriers */
  FEATURE_DIRECT_LDS = 1 << 2,    /* loads of 4 bytes a lane that end in shared memory */
  FEATURE_DIRECT_LDS_16 = 1 << 3, /* also 12 and 16 bytes */
  FEATURE_LDMATRIX = 1 << 4,      /* 8x8 matrices of 16 bits from shared memory, also transposed */
  FEATURE_STMATRIX = 1 << 5,
  FEATURE_DS_TRANSPOSE = 1 << 6,  /* transposing reads of shared memory */
  FEATURE_BUFFER_BOUNDS = 1 << 7, /* loads that return 0 past the end of their buffer */
  /* order */
  FEATURE_MBARRIER = 1 << 8,
  FEATURE_NAMED_BARRIER = 1 << 9,
  FEATURE_SPLIT_BARRIER = 1 << 10, /* signal and wait apart */
  FEATURE_CLUSTER = 1 << 11,
  FEATURE_SETMAXNREG = 1 << 12,
  FEATURE_SETPRIO = 1 << 13,
  /* arithmetic */
  FEATURE_BF16 = 1 << 14,
  FEATURE_FP8_OCP = 1 << 15, /* f8e4m3fn, f8e5m2 */
  FEATURE_FP8_FNUZ = 1 << 16,
  FEATURE_REDUX = 1 << 17, /* integer reductions over a wave in one instruction */
  /* matrix instructions */
  FEATURE_MFMA = 1 << 18,
  FEATURE_MFMA_I8_K16 = 1 << 19, /* the older 8-bit integer forms */
  FEATURE_MFMA_F8 = 1 << 20,     /* 8-bit floats, and integers with K 32 and 16 */
  FEATURE_MFMA_K32 = 1 << 21,    /* 16-bit floats with K 32 and 16 */
  FEATURE_MFMA_SCALE = 1 << 22,
  FEATURE_WMMA_11 = 1 << 23,
  FEATURE_WMMA_12 = 1 << 24,
  FEATURE_WMMA_1250 = 1 << 25,
  FEATURE_MMA_SYNC = 1 << 26,
  FEATURE_MMA_SYNC_F8 = 1 << 27,
  FEATURE_WGMMA = 1 << 28,
  FEATURE_REGISTER_TILES = 1 << 29, /* outer products of vector registers */
} Feature;

typedef struct TargetInfo {
  const char *name, *doc;
  Vendor vendor;
  int lanes, threads;      /* of a wave; most of a workgroup */
  int shared, shared_most; /* bytes */
  int banks;               /* of 4 bytes; 0: none */
  int phase4, phase8, phase16, pair16;
  int registers;                    /* of 32 bits, of a thread */
  int global_access, shared_access; /* bytes of the widest load or store */
  bool lockstep;
  unsigned features; /* Feature */
} TargetInfo;

enum { BANK_BYTES = 4 };

static inline bool target_has(const TargetInfo *t, unsigned features) {
  return (t->features & features) == features;
}
static inline int target_waves(const TargetInfo *t) { return t->threads / t->lanes; }

const TargetInfo *target_at(int i); /* NULL past the end */

typedef struct TargetChoice {
  const TargetInfo *machine; /* NULL: no such target */
  bool simulated;            /* run by the simulator as that machine would */
} TargetChoice;

/* Names of rows, and the spellings `cuda/sm_90a`, `hip/gfx942`, `gfx942:sramecc+:xnack-`. `sim:X`
 * is the simulation of X; `sim` alone that of gfx942, where the language's own instructions live.
 */
TargetChoice target_find(const char *name);

/* Whether the machine executes the row (as one instruction, or as the several of a virtual one). */
static inline bool target_has_mma(const TargetInfo *t, const MmaInfo *row) {
  return target_has(t, row->needs);
}

/* The operand types of the row on this machine: eight-bit floats come in two families. */
unsigned target_mma_types(const TargetInfo *t, const MmaInfo *row);

#endif
