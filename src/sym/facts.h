/* facts.h: what is known about symbols, and what follows from it. Nobody outside src/sym includes
 * this.
 *
 * A fact about one base (`$T0 < 256`, `Mod(K, 32) == 0`, `floor(N/8) >= 1`) sharpens the Dom of
 * that base; a fact about a sum (`i < N`) is kept as a relation `e <= 0` and used by elimination;
 * any other boolean is kept for syntactic matches. Answers are memoised per facts. Facts that
 * extend a parent answer only for expressions that mention a symbol they say something about; all
 * other questions go to the parent and its memo.
 *
 * Lasting facts: what follows from facts depends on nothing but their parent and what was assumed,
 * in order. So below a root made by sym_facts_lasting there is one SymFacts for each such history,
 * with one memo; what callers hold and extend are copies of it, which share everything it points
 * at. */
#ifndef WV_SYM_FACTS_H
#define WV_SYM_FACTS_H

#include "sym/domain.h"
#include "sym/node.h"

typedef struct FactsMemo {
  Map dom;        /* expression -> Dom */
  Map simplified; /* expression -> expression */
  Map proved;     /* condition -> &cx->truths[SymTruth] */
  Map upper;      /* expression -> Rat, upper_bound */
  Map branches;   /* condition -> facts that assume it */
} FactsMemo;

struct SymFacts {
  Arena *arena;
  SymCtx *cx;
  const SymFacts *parent;
  int depth;        /* of parents */
  uint64_t touched; /* Bloom filter of the symbols these facts (not the parent's) mention */
  Map known;        /* base, or sum without constant -> Dom */
  Vec(const Sym *) relations; /* e <= 0, e a sum */
  Vec(const Sym *) kept;      /* conditions taken as true */
  bool contradiction;
  bool bounds_products; /* one of symbols has a largest value: a tensor has so many elements */
  FactsMemo *memo;

  SymFacts *lasting; /* the one of this history, which may be this one; NULL: nobody keeps it */
  Map after;         /* of that one: by condition, the history that goes on with it */
  SymFacts *inner;   /* of that one: extends it and says nothing yet */
};

/* The facts that have something to say about s: f or one of its parents. */
const SymFacts *facts_about(const SymFacts *f, const Sym *s);

/* f plus a condition; memoised, so that equal branches share their answers. */
const SymFacts *facts_branch(const SymFacts *f, const Sym *cond);

Dom dom_of(const SymFacts *f, const Sym *s);

/* An upper bound of s (infinite: none), by intervals and by eliminating terms with relations. */
Rat upper_bound(const SymFacts *f, const Sym *s);

/* By rule only, never by enumeration. */
SymTruth prove_by_rule(const SymFacts *f, const Sym *cond);

enum { BOX_SYMBOLS = 8, BOX_POINTS = 1024 * 64 };

#endif
