/* compile.h: from a kernel to the code of one variant. */
#ifndef WV_COMPILE_H
#define WV_COMPILE_H

#include "driver/variants.h"
#include "target/target.h"
#include "transform/pass_manager.h"

typedef struct CompileOptions {
  const TargetInfo *machine;
  bool native; /* for this very machine: with all its features, not only those of its target */
  const char *start_after; /* the kernel is a dump taken after this pass; NULL: from the
                            * beginning */
  bool emulated;           /* run by the executor of machine code (isa/) */
  bool fast_math;
  PassOptions passes; /* dumps and checks */
} CompileOptions;

/* Which backend generates code for a machine, and which kind of device runs it. A new backend is a
 * row. */
typedef struct Backend {
  Vendor vendor;
  unsigned needs;  /* features of the machines it supports */
  int device_kind; /* device.h */
  /* Fills in entry, code, block, shared, args and maps; values and grid through `values`. False
   * after reporting to the kernel's context. */
  bool (*emit)(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out);
  /* What else determines the code, for the cache: the library that generates it, this CPU. NULL:
   * nothing. */
  const char *(*key)(Arena *a, const CompileOptions *o);
  /* Why code for the machine cannot run here; NULL: it can, or the device will report it. */
  const char *(*misfit)(Arena *a, const TargetInfo *machine);
} Backend;

/* ---- compile_slots.c ---- */
struct LlvmSlot;
/* False: more than a launch supports. */
bool compile_slots(const struct LlvmSlot *slots, int n, LaunchValues *values, ArtVariant *out);

/* ---- compile_cpu.c ---- */
bool compile_cpu_object(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out);
/* One lane's program for a row of targets.def, or `cpu`; false after reporting. */
struct LlvmCode;
bool compile_object(Kernel *k, const char *target, bool assembly, bool fast_math, Arena *a,
                    struct LlvmCode *out);
const char *cpu_key(Arena *a, const CompileOptions *o);
const char *cpu_misfit(Arena *a, const TargetInfo *machine);
/* In the key, the CPU follows it and the library precedes it. */
extern const char cpu_key_word[];

/* ---- compile_amd.c ---- */

/* A code object that drivers load. */
bool compile_amd(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out);
const char *compile_amd_key(Arena *a, const CompileOptions *o);
/* For a row of targets.def that chips.def has. */
bool compile_amd_text(Kernel *k, const TargetInfo *t, bool fast_math, Arena *a, const char **text);
struct AmdCode;
bool compile_amd_file(Kernel *k, const TargetInfo *t, bool fast_math, Arena *a,
                      struct AmdCode *out);
bool compile_amd_object(Kernel *k, const TargetInfo *t, bool assembly, bool fast_math, Arena *a,
                        struct LlvmCode *out);

/* ---- remarks.c: diagnostics of compilation, kept with the code ---- */

/* The diagnostics after `before` (NULL: all), except errors. */
void remarks_keep(Arena *a, const Diags *from, const Diag *before, ArtVariant *out);
void remarks_say(const ArtVariant *v, Diags *to); /* reports them again */
const char *remarks_text(Arena *a, const ArtVariant *v, Sources *sources);

const Backend *backend_for(const TargetInfo *t);    /* NULL: nothing runs programs for it */
const Backend *backend_of(const CompileOptions *o); /* the same, or that of the executor */
/* Whether there is code for devices of this target; NULL: a device without one. */
bool backend_serves(const char *target);

/* Runs the passes that add parameters, which all variants have; compile_variant runs the others. */
bool compile_signature(Kernel *k, const CompileOptions *o);
/* Fills in variant number `i` of the artefact, in the arena of the symbols. */
bool compile_variant(const LaunchSymbols *s, const Variant *v, const CompileOptions *o,
                     ArtVariant *out);

#endif
