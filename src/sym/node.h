/* node.h: the representation of expressions. Private to src/sym.
 *
 * Canonical form. A sum is a constant plus (coefficient, base) pairs, sorted by base; a base is
 * neither a number nor a sum and has no coefficient of its own. A product is a coefficient times
 * (base, exponent) pairs; its factors are sums only where expansion would not pay. A product with a
 * coefficient other than 1 points to the product without it (`base`), which is the key that sums
 * collect by. A comparison keeps lhs - rhs in `base`, reduced to coprime integer coefficients. */
#ifndef WV_SYM_NODE_H
#define WV_SYM_NODE_H

#include "base/vec.h"
#include "sym/rational.h"
#include "sym/sym.h"

enum {
  SYM_INTEGER = 1, /* for all integer values of its symbols */
  SYM_BOOLEAN = 2,
  SYM_NONNEG = 4, /* a symbol with the assumption */
};

typedef struct Term {
  Rat coeff;
  const Sym *base;
} Term;

typedef struct Factor {
  const Sym *base;
  int64_t exp;
} Factor;

struct Sym {
  uint32_t id;
  uint8_t kind, flags;
  uint16_t depth;   /* of the tree, saturating */
  int n;            /* operands: terms of a sum without its constant, factors without coefficient */
  uint32_t size;    /* nodes of the tree, saturating: what simplify must not increase */
  uint64_t symbols; /* a Bloom filter of the symbols inside */
  Rat k;            /* a constant's value, a sum's constant, a product's coefficient */
  const Sym *base;
  union {
    const Sym *const *arg;
    const Term *term;
    const Factor *factor;
    const char *name;
  };
};

/* Results of recent constructor calls: (operation, operands) -> expression. */
typedef struct OpCacheEntry {
  const Sym *a, *b, *result;
  SymKind op;
} OpCacheEntry;

typedef struct NodeSlot {
  uint32_t hash;
  const Sym *node; /* NULL: empty */
} NodeSlot;

/* The arguments of a call as text, and what they were parsed to. */
typedef struct ParsedText {
  const char *text;
  size_t n;
  const void *what; /* the function called */
  const Sym *result;
} ParsedText;

enum { OP_CACHE_SIZE = 4096, PARSED_TEXTS = 1024, SMALL_INT = 256 };

struct SymCtx {
  Arena *arena;              /* nodes and names */
  Arena *scratch;            /* used as a stack, with marks */
  NodeSlot *table, *symbols; /* open addressing, at most half full */
  uint32_t ntable, cap, nsymbols, symbol_cap, nnodes;
  const Sym *small[SMALL_INT + 1]; /* 0 .. SMALL_INT, once made */
  const Sym *yes, *no, *zero, *one;
  struct SymFacts *no_facts;
  SymTruth truths[SYM_UNKNOWN + 1]; /* each at a fixed address, for memos to point to */
  OpCacheEntry *cache;
  ParsedText *texts;
  char error[256];
  SymError error_kind; /* meaningful while error is not empty */
};

/* ---- expr.c */
const Sym *sym_fail(SymCtx *cx, const char *fmt, ...) WV_PRINTF(2, 3); /* returns NULL */
const Sym *sym_overflow(SymCtx *cx);
const Sym *sym_zero_division(SymCtx *cx);
/* Fills id, size and symbols, and copies the operands. NULL: too many operands, which is an
 * error. */
enum { SYM_MAX_OPERANDS = 4096 };
const Sym *node_intern(SymCtx *cx, const Sym *shape);
const Sym *node_args(SymCtx *cx, SymKind kind, int flags, const Sym *const *args, int n);
const Sym *sym_num(SymCtx *cx, Rat v);
const Sym *sym_symbol_n(SymCtx *cx, const char *name, size_t n, bool nonneg);
const Sym *op_cached(SymCtx *cx, SymKind op, const Sym *a, const Sym *b);
const Sym *op_remember(SymCtx *cx, SymKind op, const Sym *a, const Sym *b, const Sym *result);
const Sym *sym_as_number(SymCtx *cx, const Sym *s); /* True is 1 */
const Sym *sym_as_bool(SymCtx *cx, const Sym *s);   /* a number is true when it is not 0 */

static inline bool is_num(const Sym *s) { return s->kind == SYM_int || s->kind == SYM_rational; }
static inline bool is_integer(const Sym *s) { return s->flags & SYM_INTEGER; }
static inline bool is_bool(const Sym *s) { return s->flags & SYM_BOOLEAN; }
static inline bool is_cmp(const Sym *s) { return s->kind >= SYM_le && s->kind <= SYM_ne; }

const Sym *node_operand(const Sym *s, int i); /* without coefficient or exponent */
size_t node_operand_bytes(const Sym *s);      /* of the array of operands */

/* ---- subst.c: the same expression over mapped operands */
typedef const Sym *NodeFn(void *data, const Sym *operand);
const Sym *node_map(SymCtx *cx, const Sym *s, NodeFn *fn, void *data);

/* ---- order.c: a total order that does not depend on the order of creation */
int sym_order(const Sym *a, const Sym *b);

/* ---- sum.c: any number seen as constant + terms */
typedef struct Sum {
  Rat k;
  const Term *term;
  int n;
  Term single; /* `term` points here when the expression is a single term, so a Sum must not be
                * copied */
} Sum;

/* For anything that is neither a sum nor a number. */
static inline Term term_of(const Sym *s) {
  bool scaled = s->kind == SYM_mul && s->base;
  return scaled ? (Term){s->k, s->base} : (Term){RAT_ONE, s};
}

static inline void sum_of(const Sym *s, Sum *out) {
  if (s->kind == SYM_add) {
    out->k = s->k, out->term = s->term, out->n = s->n;
  } else if (is_num(s)) {
    out->k = s->k, out->term = NULL, out->n = 0;
  } else {
    out->k = RAT_ZERO, out->single = term_of(s), out->term = &out->single, out->n = 1;
  }
}

const Sym *sum_make(SymCtx *cx, Rat k, const Term *terms, int n); /* sorted, no zeros */
const Sym *sum_collect(SymCtx *cx, Rat k, Term *terms, int n);    /* any order; clobbers */
bool sum_gather(SymCtx *cx, const Sym *s, Rat c, Term **terms, int *n, int *cap,
                Rat *k); /* += c*s */
const Sym *sym_scale(SymCtx *cx, const Sym *s, Rat c);
const Sym *sym_add_const(SymCtx *cx, const Sym *s, Rat c);
const Sym *term_sym(SymCtx *cx, Term t);
bool sum_denominator(const Sum *s, int64_t *den); /* lcm over terms; constant not included */
bool sum_content(const Sum *s, Rat *content);     /* gcd of the terms' coefficients, > 0 */

/* ---- product.c */
enum { FEW_FACTORS = 6 };

typedef struct Product {
  Rat coeff;
  int n, cap;
  Factor *many; /* in scratch; NULL: the factors are in `few` */
  Factor few[FEW_FACTORS];
} Product;

bool product_gather(SymCtx *cx, Product *p, const Sym *s, int64_t exp); /* *= s**exp */
void product_push(SymCtx *cx, Product *p, Factor f);
const Sym *product_make(SymCtx *cx, Product *p);
const Sym *product_split(SymCtx *cx, Product *p, Rat *coeff); /* the same as coeff * result */
const Sym *power_of(SymCtx *cx, Factor f);                    /* of a canonical factor */
int64_t factor_exponent(const Sym *base, const Sym *factor);  /* 0: it is not a factor */

/* Any base seen as factors. */
static inline int factor_count(const Sym *base) {
  return base->kind == SYM_mul || base->kind == SYM_pow ? base->n : 1;
}
static inline Factor factor_at(const Sym *base, int i) {
  return base->kind == SYM_mul || base->kind == SYM_pow ? base->factor[i] : (Factor){base, 1};
}

/* ---- divmod.c */
const Sym *sym_round_down(SymCtx *cx, const Sym *a); /* floor, leaving its scratch to the caller */

/* ---- logic.c */
const Sym *cmp_with(SymCtx *cx, SymKind kind, const Sym *e); /* e <= 0, e < 0, e == 0, e != 0 */
SymKind cmp_kind(const Sym *s); /* how s->base compares with 0: le for all integer orders */
int sym_args_union(const Sym **set, int n, SymKind kind,
                   const Sym *s); /* sorted; flattens `kind` */

#endif
