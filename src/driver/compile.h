/* compile.h: from a kernel to the code of one variant. */
#ifndef WV_COMPILE_H
#define WV_COMPILE_H

#include "driver/variants.h"
#include "target/target.h"
#include "transform/pass_manager.h"

typedef struct CompileOptions {
  const TargetInfo *machine;
  bool native; /* for this very machine: all that it has, not only what its target says */
  const char *start_after; /* the kernel is a dump after this pass; NULL: from the beginning */
  bool fast_math;
  PassOptions passes; /* dumps and checks */
} CompileOptions;

/* Who writes code for a machine, and which kind of device runs it. A new backend is a row. */
typedef struct Backend {
  Vendor vendor;
  unsigned needs;  /* features of the machines it writes for */
  int device_kind; /* device.h */
  /* Fills in entry, code, block, shared, args and maps; values and grid through `values`. False
   * after reporting to the kernel's context. */
  bool (*emit)(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out);
  /* What else decides on the code, for the cache: the library that writes it, this processor. NULL:
   * nothing does. */
  const char *(*key)(Arena *a, const CompileOptions *o);
  /* Why code for the machine cannot run here; NULL: it can, or the device will say. */
  const char *(*misfit)(Arena *a, const TargetInfo *machine);
} Backend;

/* ---- compile_cpu.c ---- */
bool emit_object(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out);
/* One lane's program for a row of targets.def, or `cpu`; false after reporting. */
struct CpuCode;
bool compile_object(Kernel *k, const char *target, bool assembly, bool fast_math, Arena *a,
                    struct CpuCode *out);
const char *processor_key(Arena *a, const CompileOptions *o);
const char *processor_misfit(Arena *a, const TargetInfo *machine);
extern const char
    processor_words[]; /* behind it the key names the processor, before it the library */

/* ---- remarks.c: what compiling said, kept with the code ---- */

/* What is in the list behind `before`, but for errors; NULL: all of it. */
void remarks_keep(Arena *a, const Diags *from, const Diag *before, ArtVariant *out);
void remarks_say(const ArtVariant *v, Diags *to); /* once more */
const char *remarks_text(Arena *a, const ArtVariant *v, Sources *sources);

const Backend *backend_for(const TargetInfo *t); /* NULL: nothing runs programs for it */

/* Fills in variant number `i` of the artefact, in the arena of the symbols. */
bool compile_variant(const LaunchSymbols *s, const Variant *v, const CompileOptions *o,
                     ArtVariant *out);

#endif
