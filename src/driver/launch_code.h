/* launch_code.h: what the runtime must know about a kernel, in its own terms: slots and
 * programs. */
#ifndef WV_LAUNCH_CODE_H
#define WV_LAUNCH_CODE_H

#include "ir/ir.h"
#include "runtime/cache/artefact.h"

/* The symbols of a kernel in terms of launch arguments. */
typedef struct LaunchSymbols {
  Kernel *k;
  Arena *arena;
  const Sym *slot[ARTEFACT_SLOTS]; /* $BASE_a, $SIZE_a_0, $STRIDE_a_0, $SCALAR_s, in slot order */
  int nslots;
  const SymBinding *bound; /* rows of the header that give values */
  int nbound;
} LaunchSymbols;

/* Parameters and slots of the artefact. False after reporting: too many arguments. */
bool launch_symbols(Kernel *k, Arena *a, Artefact *art, LaunchSymbols *out);

const Sym *launch_slot(const LaunchSymbols *s, int param, const char *what, int dim);

/* The expression over slots; NULL if it mentions a symbol without a value at launch. */
const Sym *launch_resolve(const LaunchSymbols *s, const Sym *e);

/* Expressions being collected; equal ones are one value. */
typedef struct LaunchValues {
  const LaunchSymbols *symbols;
  Vec(const Sym *) exprs;
} LaunchValues;

/* The index of a value; -1 after reporting that the expression has none at launch. */
int launch_value(LaunchValues *v, const Sym *e);
bool launch_values_program(const LaunchValues *v, LaunchExpr *out); /* false after reporting */

/* Workspace: memories in one block, each at a multiple of ARTEFACT_ALIGN. `a` gives the offset of a
 * parameter's, the variant the size of the block. False after reporting. */
bool launch_is_workspace(const LaunchValues *v, int param);
bool launch_add_workspace(LaunchValues *v, int param, ArtVariant *to, ArtArg *a);

/* What every launch must satisfy: sizes, assumptions. Their source locations go to `at`. */
bool launch_signature(const LaunchSymbols *s, Artefact *art, LaunchValues *values, Span **at);

#endif
