/* analysis.h: facts about a kernel, computed when a pass needs them and kept while they are valid.
 *
 * The pass manager computes and drops them according to the columns of passes.def; a pass gets only
 * the fields of Facts that its row names, and computes none itself (tools/check_analyses.py). Other
 * code calls facts_of. */
#ifndef WV_ANALYSIS_H
#define WV_ANALYSIS_H

#include "analysis/standing.h"
#include "analysis/uniform.h"

enum AnalysisNumber {
#define ANALYSIS(name, type, needs, doc) ANALYSIS_##name,
#include "analysis/analyses.def"
  ANALYSIS_COUNT
};

/* Sets of analyses, as passes.def names them. */
enum AnalysisSet {
#define ANALYSIS(name, type, needs, doc) FACT_##name = 1 << ANALYSIS_##name,
#include "analysis/analyses.def"
  FACT_ALL = (1 << ANALYSIS_COUNT) - 1,
  FACT_NONE = 0
};

typedef struct Facts {
  Arena *arena;
  unsigned valid; /* which fields are valid */
#define ANALYSIS(name, type, needs, doc) type name;
#include "analysis/analyses.def"
} Facts;

/* Computes what is needed and not valid, and what that needs. Ids must be dense (ir_renumber). */
void facts_supply(Facts *f, Kernel *k, unsigned needs);
/* The same for code that is not a pass and needs them once. */
Facts facts_of(Kernel *k, Arena *a, unsigned needs);
/* Drops these, and what was computed from them. The arena is reset when nothing remains. */
void facts_drop(Facts *f, unsigned broken);
Facts facts_only(const Facts *f, unsigned needs); /* the others are NULL */

/* One function per row of analyses.def, called by facts_supply: of `f` only its arena and what the
 * row needs are valid. */
#define ANALYSIS(name, type, needs, doc) type find_##name(Kernel *k, const Facts *f);
#include "analysis/analyses.def"

/* True when an op means the same outside `region`, the body of a loop or conditional, as inside:
 * apart from its operands, nothing about it depends on its position. This is not so when its type
 * or an operand's names the loop's axis (inside, that is one tile of it), or when an expression
 * mentions symbols, which may be counters or versions of the region. */
bool op_same_outside(const Kernel *k, const Op *op, const Region *region);

/* The ops of a loop's body whose result is the same in each iteration: they use values from outside
 * the loop, each other's, and memory that is not written. */
typedef Vec(const Op *) RepeatedOps;
RepeatedOps invariant_repeated(Kernel *k, Arena *a, const Op *loop);
bool op_is_repeated(const RepeatedOps *ops, const Op *op);

/* True when an op would mean the same before `where`, a later op of its region or of a nested one:
 * no symbol in its expressions has another value there. */
bool op_same_before(const Distribution *d, const Op *op, const Op *where);

/* Symbols that some op sets. What the header says about them holds only initially, and its rows
 * refer to the version in force where they are used. */
typedef Vec(const Sym *) SetSymbols;
SetSymbols set_symbols(const Kernel *k, Arena *a);
bool symbol_is_set(const SetSymbols *set, const Sym *symbol);

#endif
