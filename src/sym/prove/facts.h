/* facts.h: what is known about symbols, and what follows from it. Private to src/sym.
 *
 * A fact about one base (`$T0 < 256`, `Mod(K, 32) == 0`, `floor(N/8) >= 1`) refines the Dom of that
 * base; a fact about a sum (`i < N`) is kept as a relation `e <= 0` and used by elimination; any
 * other boolean is kept for syntactic matches. Answers are memoised per SymFacts. Facts that extend
 * a parent answer only for expressions that mention a symbol they say something about; all other
 * queries go to the parent and its memo.
 *
 * Lasting facts: what follows from facts depends only on their parent and on the sequence of
 * assumptions. Below a root made by sym_facts_lasting there is therefore one SymFacts per such
 * history, with one memo; what callers hold and extend are copies that share everything it points
 * to. */
#ifndef WV_SYM_FACTS_H
#define WV_SYM_FACTS_H

#include "sym/node.h"
#include "sym/prove/domain.h"

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
  int depth;        /* number of parents */
  uint64_t touched; /* Bloom filter of the symbols mentioned by these facts, without the parent's */
  Map known;        /* base, or sum without constant -> Dom */
  Vec(const Sym *) relations; /* e <= 0, e a sum */
  Vec(const Sym *) kept;      /* conditions taken as true */
  bool contradiction;
  bool bounds_products; /* some symbol has a maximum, as tensor sizes do */
  FactsMemo *memo;

  SymFacts *lasting; /* the SymFacts of this history, possibly this one; NULL: none */
  Map after;         /* in the lasting facts: condition -> the history that continues with it */
  SymFacts *inner;   /* in the lasting facts: a child that assumes nothing yet */
};

/* The facts that say something about s: f or one of its parents. */
const SymFacts *facts_about(const SymFacts *f, const Sym *s);

/* f plus a condition. Memoised, so that equal branches share their answers. */
const SymFacts *facts_branch(const SymFacts *f, const Sym *cond);

Dom dom_of(const SymFacts *f, const Sym *s);

/* An upper bound of s (infinite: none), from intervals and from eliminating terms by relations. */
Rat sym_upper_bound(const SymFacts *f, const Sym *s);

/* Uses rules only, never enumeration. */
SymTruth prove_by_rule(const SymFacts *f, const Sym *cond);

enum { BOX_SYMBOLS = 8, BOX_POINTS = 1024 * 64 };

#endif
