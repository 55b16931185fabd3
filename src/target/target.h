/* target.h: machines as data. One row of targets.def per machine; nothing else in the compiler
 * compares machine names. */
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
  int units;               /* compute units that run workgroups concurrently; 0: unknown */
  int lanes, threads;      /* of a wave; most of a workgroup */
  int shared, shared_most; /* bytes */
  int banks;               /* of 4 bytes; 0: none */
  int phase4, phase8, phase16, pair16, wide;
  int registers;   /* of 32 bits, of a thread */
  int simds, file; /* of a compute unit; registers of one for each lane; 0: unknown */
  int global_access, shared_access; /* bytes of the widest load or store */
  bool lockstep;
  unsigned features; /* Feature */
} TargetInfo;

enum { BANK_BYTES = 4 };

static inline bool target_has(const TargetInfo *t, unsigned features) {
  return (t->features & features) == features;
}
/* What waves that only copy for the others need. */
enum { SERVICE_FEATURES = FEATURE_TMA | FEATURE_MBARRIER | FEATURE_NAMED_BARRIER };

/* Registers of a thread that all instructions can access: where there is MFMA, only matrix
 * instructions and copies access the upper half. */
static inline int target_near_registers(const TargetInfo *t) {
  return target_has(t, FEATURE_MFMA) ? t->registers / 2 : t->registers;
}
/* Registers that a thread can have if all waves of a workgroup run at once. */
static inline int target_most_registers(const TargetInfo *t, int waves) {
  int each = t->simds ? t->file / ceil_div(waves, t->simds) : t->registers;
  return each < t->registers ? each : t->registers;
}
/* A CPU emulates a machine with lanes where a kernel's threads are observable: with waves of this
 * many lanes, every matrix instruction of one wave, and lanes that must synchronise. */
TargetInfo target_playing(const TargetInfo *t, int lanes);
/* The number of lanes it emulates for waves declared to have `threads`: all, as far as it can. */
int target_played_lanes(int threads);

/* The machine that a kernel was compiled for: its `machine` row. */
typedef struct Machine {
  const TargetInfo *target;
  int lanes, waves; /* of a wave; that share the tiles of a workgroup */
  bool observable;  /* tiles are divided as the kernel declares */
  int service;      /* waves besides these, which compute nothing */
  int cluster;      /* workgroups that the waves are divided among, which form a cluster; 1: none */
} Machine;

/* Of one of the cluster's workgroups. */
static inline int machine_own_waves(const Machine *m) { return m->waves / m->cluster; }

static inline int target_waves(const TargetInfo *t) { return t->threads / t->lanes; }

const TargetInfo *target_at(int i); /* NULL past the end */

/* ---- AMD's chips ---- */

/* A row of chips.def. */
typedef struct AmdChip {
  const char *name; /* of its row of targets.def, too */
  const char *like; /* the chip whose timings it has */
  unsigned llvm;    /* the first version that knows it */
  unsigned elf;     /* its number in a code object */
} AmdChip;

const AmdChip *chip_at(int i);               /* NULL past the end */
const AmdChip *chip_named(const char *name); /* NULL: not in the table */
const AmdChip *chip_numbered(unsigned elf);  /* NULL: not in the table */

/* ---- CPUs ---- */

/* A CPU row of targets.def: what describes a CPU beyond TargetInfo. */
typedef struct CpuInfo {
  const char *target;
  const char *arch;     /* first part of the triple; "": any */
  const char *features; /* as LLVM spells them: "+neon,+dotprod" */
  int vector_bytes;     /* of a register */
  unsigned tiles;       /* bits, by DotForm */
} CpuInfo;

const CpuInfo *cpu_at(int i);                 /* NULL past the end */
const CpuInfo *cpu_named(const char *target); /* NULL: not a CPU */

/* A CPU as libLLVM describes it. */
typedef struct HostWords {
  const char *triple, *features; /* as LLVM spells them */
  int scalable_bytes;            /* length of SVE vectors; 0: no SVE */
} HostWords;

/* The features that a host lacks to run code for a row: "avx512f, avx512bw"; NULL: none. */
const char *cpu_lacks(Arena *a, const HostWords *host, const CpuInfo *p);

/* The last row of which the host lacks nothing; NULL: none. */
const CpuInfo *cpu_of_host(const HostWords *host);

/* Its vectors are SVE's, whose length differs between CPUs. */
bool cpu_is_scalable(const CpuInfo *p);

/* Whether "+x,-y,..." contains +word. */
bool cpu_has_feature(const char *features, const char *word);

/* ---- target_names.c: what targets are called ---- */

/* What runs kernels for a target. */
typedef enum TargetKind {
  TARGET_UNKNOWN, /* there is no such target */
  TARGET_EVAL,    /* the reference evaluator */
  TARGET_SIM,     /* the simulator */
  TARGET_CPU,
  TARGET_CUDA,
  TARGET_HIP,
  TARGET_EMU, /* the executor of machine code */
  TARGET_TOY  /* nothing: the machine exists only in the simulator */
} TargetKind;

typedef struct TargetChoice {
  TargetKind kind;
  const TargetInfo *machine;  /* NULL: no such target, or no row of its own */
  const TargetInfo *stand_in; /* the row for a GPU without one; NULL: none */
  bool simulated;             /* run by the simulator as that machine would */
  bool is_kind;               /* names a kind of device: whichever machine is here */
} TargetChoice;

/* Accepts
 *
 *   sm_90a, gfx942, cpu_neon   rows of targets.def, also gfx942:sramecc+:xnack-
 *   sm_90, sm_120a             other NVIDIA GPUs; target_of_capability stands in
 *   gfx1030                    other AMD GPUs
 *   cuda, nvidia, hip, rocm, cpu, llvm-cpu, local-task, local-sync   kinds of devices
 *   cuda/sm_90a, hip/          either after a kind of device; nothing after it: that kind
 *   emu:X                      machine code for the AMD row X, run by the executor
 *   sim:X                      the simulation of the row X
 *   sim                        that of gfx942, which has the language's own instructions */
TargetChoice target_find(const char *name);

/* The same, for callers that need the machine: a name without one is reported. */
TargetChoice target_resolve(Diags *diags, const char *name);
void target_unknown(Diags *diags, Span at,
                    const char *name); /* reports it, with the nearest name */

TargetKind target_kind_called(const char *word); /* "cuda", "rocm"; TARGET_UNKNOWN: not a kind */

/* The row for NVIDIA GPUs of a compute capability, major * 10 + minor: its own if there is one
 * (`sm_90a` is for 9.0 only), else the newest generic row that is not newer; NULL: too old. */
const TargetInfo *target_of_capability(int capability);
int target_capability(const TargetInfo *t); /* of a row: 86 for sm_86; -1: not an NVIDIA GPU */

/* The family of AMD GPUs for which public code chooses kernels: CDNA, RDNA or GFX1250. Names of other
 * machines are CDNA's. */
const char *target_family(const char *name);

/* Whether the machine can execute the row (as one instruction, or as several for a virtual row). */
bool target_has_mma(const TargetInfo *t, const MmaInfo *row);

/* The operand types of the row on this machine: there are two families of 8-bit floats. */
unsigned target_mma_types(const TargetInfo *t, const MmaInfo *row);

#endif
