/* tile_kit.h: tile passes, checked with the evaluator: a kernel means the same before and after.
 *
 * A sample is a kernel over dynamic dimensions with the tile of each. It is run with every
 * dimension in turn over {1, tile - 1, tile, tile + 1, 2 tile + 3}, the others at tile + 1, and
 * with all of them at 1, tile - 1 and tile + 1. */
#ifndef WV_TILE_KIT_H
#define WV_TILE_KIT_H

#include "transform/pass_manager.h"
#include "unit/eval_kit.h"

enum { SAMPLE_DIMS = 4 };

typedef struct Sample {
  const char *name, *text;
  struct {
    const char *name; /* NULL: no more */
    int tile;         /* negative: the size is fixed, at the absolute value */
  } dims[SAMPLE_DIMS];
} Sample;

typedef struct SampleSizes {
  int at[SAMPLE_DIMS];
} SampleSizes;

static inline int sample_ndims(const Sample *s) {
  int n = 0;
  while (n < SAMPLE_DIMS && s->dims[n].name) n++;
  return n;
}

static inline int sample_size(int tile, int choice) {
  if (tile < 0) return -tile;
  const int sizes[] = {1, tile - 1 > 0 ? tile - 1 : 1, tile, tile + 1, 2 * tile + 3};
  return sizes[choice];
}

/* The i-th choice of sizes; false past the last. */
static inline bool sample_sizes(const Sample *s, int i, SampleSizes *out) {
  int n = sample_ndims(s), corner = i - 5 * n;
  for (int d = 0; d < n; d++) {
    int tile = s->dims[d].tile;
    out->at[d] = corner >= 0 ? sample_size(tile, corner == 2 ? 3 : corner)
                             : sample_size(tile, d == i / 5 ? i % 5 : 3);
  }
  return corner < 3;
}

/* Elements of a memory's dimension: its expression at these sizes. If the layout leaves it open,
 * the tensor's own extent is a little larger. */
static inline int64_t sample_extent(Lab *l, const Sample *s, const SampleSizes *sizes,
                                    const Type *t, int d) {
  SymBinding env[SAMPLE_DIMS];
  int n = sample_ndims(s);
  int64_t v = 0;
  for (int i = 0; i < n; i++)
    env[i] = (SymBinding){sym_symbol(l->cx->sym, s->dims[i].name, true),
                          sym_int(l->cx->sym, sizes->at[i])};
  const Sym *extent = sym_ceil(l->cx->sym, t->dims[d]);
  if (!sym_eval(extent, env, n, &v)) printf("%s: a size is not known\n", s->name);
  return t->layout && !t->layout[d] ? v + 2 : v;
}

static inline void sample_tensor(Lab *l, const Sample *s, const SampleSizes *sizes, const Type *t) {
  int64_t shape[IR_MAX_RANK] = {0};
  for (int d = 0; d < t->rank; d++) shape[d] = sample_extent(l, s, sizes, t, d);
  lab_tensor(l, t->dtype, t->rank, (int)shape[0], (int)shape[1], (int)shape[2], (int)shape[3]);
}

/* The sample with arguments of these sizes, the same for every call. */
static inline Lab sample_open(const Sample *s, const SampleSizes *sizes) {
  Lab l = lab_open(s->text);
  for (int i = 0; l.k && i < l.k->params.n; i++) {
    const Type *t = l.k->body->args[i]->type;
    if (t->kind == TYPE_mem) sample_tensor(&l, s, sizes, t);
    else lab_number(&l, 3);
  }
  l.options.check_masks = true;
  return l;
}

static inline bool sample_transform(Lab *l, const char *passes) {
  PassOptions o = {.passes = passes, .verify_each = true};
  bool ok = l->k && passes_run(l->k, &o);
  if (!ok) lab_print_errors(l);
  return ok;
}

/* The text of a kernel parses again to an equal one. */
static inline bool sample_reparses(Lab *l) {
  StrBuf text = {.arena = l->cx->arena};
  ir_print(&text, l->k);
  KernelList again = ir_parse(l->cx, "again.wave", sb_text(&text), l->cx->arena);
  bool same = again.n == 1 && ir_equal(again.at[0], l->k);
  if (!same) lab_print_errors(l), printf("%s", sb_text(&text));
  for (int i = 0; i < again.n; i++) kernel_free(again.at[i]);
  return same;
}

/* Bits of every tensor. */
static inline bool lab_equal(const Lab *a, const Lab *b) {
  for (int i = 0; i < a->nargs; i++) {
    const EvalBuffer *x = &a->tensors[i], *y = &b->tensors[i];
    if (x->data && memcmp(x->data, y->data, dtype_bytes(x->dtype, lab_count(x))) != 0) return false;
  }
  return true;
}

/* One choice of sizes before and after the passes; false if the results differ. */
static inline bool sample_agrees(const Sample *s, const SampleSizes *sizes, const char *passes) {
  Lab before = sample_open(s, sizes), after = sample_open(s, sizes);
  bool same = sample_transform(&after, passes) && sample_reparses(&after) && lab_run(&before) &&
              lab_run(&after) && lab_equal(&before, &after);
  if (!same) {
    StrBuf text = {.arena = after.cx->arena};
    if (after.k) ir_print(&text, after.k);
    printf("%s differs at sizes %d %d %d %d after %s:\n%s", s->name, sizes->at[0], sizes->at[1],
           sizes->at[2], sizes->at[3], passes, sb_text(&text));
  }
  lab_close(&before);
  lab_close(&after);
  return same;
}

/* The number of choices of sizes with another result after the passes. */
static inline int sample_differs(const Sample *s, const char *passes) {
  SampleSizes sizes = {0};
  int wrong = 0;
  for (int i = 0; sample_sizes(s, i, &sizes) && !wrong; i++)
    wrong += !sample_agrees(s, &sizes, passes);
  return wrong;
}

#endif
