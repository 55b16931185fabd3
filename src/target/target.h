/* target.h: machines as data. One row of targets.def per machine; nothing else in the compiler
 * compares names of machines. */
#ifndef WV_TARGET_H
#define WV_TARGET_H

#include "base/diag.h"
#include "target/mma.h"

typedef enum Vendor { VENDOR_HOST, VENDOR_AMD, VENDOR_NVIDIA, VENDOR_SYNTHETIC } Vendor;

typedef enum FeatureNumber {
#define FEATURE(name, doc) FEATURE_NUMBER_##name,
#include "target/features.def"
  FEATURE_COUNT
} FeatureNumber;
_Static_assert(FEATURE_COUNT < 32, "a set of features is an unsigned");

/* Bits of TargetInfo.features and of MmaInfo.needs. */
typedef enum Feature {
  FEATURE_NONE = 0,
#define FEATURE(name, doc) FEATURE_##name = 1 << FEATURE_NUMBER_##name,
#include "target/features.def"
} Feature;

typedef struct TargetInfo {
  const char *name, *doc;
  Vendor vendor;
  int units;               /* processors that run workgroups beside each other; 0: not known */
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
/* A processor plays a machine with lanes where a kernel's threads are observable: with waves of
 * this many, every matrix instruction of one wave, and lanes that must synchronise. */
TargetInfo target_playing(const TargetInfo *t, int lanes);
/* The lanes it plays for waves that are declared to have `threads`: all, as far as it can. */
int target_played_lanes(int threads);

static inline int target_waves(const TargetInfo *t) { return t->threads / t->lanes; }

const TargetInfo *target_at(int i); /* NULL past the end */

/* What a processor is beside that: the columns of CPU rows. */
typedef struct Processor {
  const char *target;
  const char *arch;     /* as triples begin; "": any */
  const char *features; /* as LLVM spells them: "+neon,+dotprod" */
  int vector_bytes;     /* of a register */
  unsigned tiles;       /* bits, by DotForm */
} Processor;

const Processor *processor_at(int i);                 /* NULL past the end */
const Processor *processor_named(const char *target); /* NULL: it is none */

/* A processor as its library describes it. */
typedef struct HostWords {
  const char *triple, *features; /* as LLVM spells them */
  int scalable_bytes;            /* how long SVE's vectors are; 0: it has none */
} HostWords;

/* What a host needs in order to run code for a row, and does not have: "avx512f, avx512bw"; NULL:
 * nothing. */
const char *processor_lacks(Arena *a, const HostWords *host, const Processor *p);

/* The last row that it lacks nothing of; NULL: none. */
const Processor *processor_of_host(const HostWords *host);

/* Its vectors are SVE's, which have another length on other processors. */
bool processor_is_scalable(const Processor *p);

/* Whether "+x,-y,..." has +word. */
bool has_feature_word(const char *features, const char *word);

typedef struct TargetChoice {
  const TargetInfo *machine; /* NULL: no such target */
  bool simulated;            /* run by the simulator as that machine would */
} TargetChoice;

/* Names of rows, and the spellings `cuda/sm_90a`, `hip/gfx942`, `gfx942:sramecc+:xnack-`. `sim:X`
 * is the simulation of X; `sim` alone that of gfx942, where the language's own instructions live.
 */
TargetChoice target_find(const char *name);

/* The same; an unknown name is reported, with the nearest one as a hint. */
TargetChoice target_resolve(Diags *diags, const char *name);

/* Whether the machine executes the row (as one instruction, or as the several of a virtual one). */
bool target_has_mma(const TargetInfo *t, const MmaInfo *row);

/* The operand types of the row on this machine: eight-bit floats come in two families. */
unsigned target_mma_types(const TargetInfo *t, const MmaInfo *row);

#endif
