/* build_state.h: what the files of the builder share. */
#ifndef WV_BUILD_STATE_H
#define WV_BUILD_STATE_H

#include "ir/attr.h"
#include "ir/build/build.h"

/* An open region: the kernel's body (op NULL), a loop's or a conditional's. */
typedef struct Frame {
  Op *op;
  Region *region;
  int versions; /* number of versions in force outside */
  bool ok;      /* the op itself was valid */
} Frame;

/* A new meaning of `base`, by set_symbol or a while loop. */
typedef struct Version {
  const Sym *base, *version;
  Value *value; /* of a set_symbol; NULL for a loop's axis */
} Version;

struct Builder {
  Kernel *k;
  int errors_before;
  Vec(Frame) frames;
  Vec(Version) versions; /* innermost last */
  Vec(Version) counters; /* every version ever opened, to number the next */
};

static inline Frame *build_frame(Builder *b) { return &b->frames.at[b->frames.n - 1]; }

#define BUILD_DIAG(b, at, code, ...) diag_add(&(b)->k->cx->diags, DIAG_##code, at, __VA_ARGS__)
#define BUILD_FAIL(b, at, code, ...) (BUILD_DIAG(b, at, code, __VA_ARGS__) == NULL)

bool build_check_mma_name(Context *cx, const char *name, Span at);

/* build_symbols.c: makes the expressions of an op mention the versions in force. */
bool build_instantiate(Builder *b, Op *op);
bool build_set_symbol(Builder *b, Op *op);
bool build_while_version(Builder *b, Op *op);
Value *build_next_axis(Builder *b); /* of the innermost while loop; NULL after reporting */

/* build_flags.c: makes writes to memory that a loop polls volatile. */
void build_flags(Kernel *k);

/* build_warn.c: warns about constructs that mean something else than they seem to. */
void build_warn_counter(Builder *b, const Op *scalar, const Sym *axis);
void build_warn_header(Kernel *k);

#endif
