/* access_apart.c: two accesses to one argument that need no barrier between them.
 *
 *     %a = read %x {$y2 = $x2}          of [.., 64]: elements 0 .. 63 of a row
 *     %b = read %x {$y2 = $x2 + 64}                  elements 64 .. 127
 *     write %p, %x {$y2 = $x2}          as %a: each thread replaces what it has read itself
 *
 * Kernels that work in place often divide what they read and what they write in the same way. */
#include "analysis/access/in_bounds.h"

typedef struct Spot {
  MemAccess a;
  const Layout *layout;           /* of the tile in registers */
  const Sym *coords[IR_MAX_RANK]; /* of the memory, over the $x */
  int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK];
} Spot;

static const Layout *tile_layout(const Op *op) {
  return op->kind == OP_read ? op->results[0].layout : op->args[0]->layout;
}

/* $xi is below the size of its dimension: other elements are inactive. */
static const SymFacts *sized_facts(const Standing *s, const MemAccess *a) {
  SymCtx *sym = s->d->k->cx->sym;
  SymFacts *f = sym_facts_new(s->d->arena, sym, s->facts);
  for (int i = 0; i < a->tile->rank; i++) {
    const Sym *size = standing_entry_extent(s, a->tile->dims[i]);
    int64_t most = size ? sym_range(sym, s->facts, size).hi : INT64_MAX;
    if (most > 0 && most < INT32_MAX) sym_assume_range(f, access_x(sym, i), 0, most - 1);
  }
  return f;
}

static bool open_spot(const Standing *s, const Op *op, Spot *p) {
  bool plain = op->kind == OP_read || op->kind == OP_write;
  *p = (Spot){.layout = plain ? tile_layout(op) : NULL};
  if (!p->layout || op_has(op, ATTR_bounds) || !access_of(op, &p->a)) return false;
  if (!p->a.test_extents || p->a.ndynamic || p->a.replaced >= 0) return false;
  const SymFacts *f = sized_facts(s, &p->a);
  for (int m = 0; m < p->a.memory->type->rank; m++) {
    p->coords[m] = access_coord(&p->a, s, m);
    if (!p->coords[m]) return false;
    SymRange r = sym_range(s->d->k->cx->sym, f, p->coords[m]);
    p->lo[m] = r.lo, p->hi[m] = r.hi;
  }
  return true;
}

/* Each element of the tile has one holder. */
static bool is_held_once(const Layout *l) {
  int64_t n[LAYOUT_DIMS];
  for (int d = 0; d < l->dims; d++) n[d] = 1;
  EACH_DIGIT(l, p, g) {
    if (!g->stride) return false;
    n[g->dim] *= g->radix;
  }
  for (int d = 0; d < l->dims; d++)
    if (n[d] != l->extent[d]) return false;
  return true;
}

/* The multiple of $xi that the coordinate is, plus what is the same for the whole tile; 0: it is not of
 * that form. */
static int64_t step_along(SymCtx *sym, const Spot *p, const Sym *coord, int i) {
  const Sym *x = access_x(sym, i);
  SymBinding next = {x, sym_add(sym, x, sym_int(sym, 1))};
  int64_t by = 0;
  for (int j = 0; j < p->a.tile->rank; j++)
    if (j != i && sym_contains(coord, access_x(sym, j))) return 0;
  return sym_differ_by(sym_subst(sym, coord, &next, 1), coord, &by) ? by : 0;
}

/* The remainders of their coordinates differ: 2*$x2, and 2*$x2 + 1. */
static bool differ_by_remainder(SymCtx *sym, const Spot *x, const Spot *y, int m) {
  int64_t by;
  if (!sym_differ_by(x->coords[m], y->coords[m], &by)) return false;
  for (int i = 0; i < x->a.tile->rank; i++) {
    int64_t step = step_along(sym, x, x->coords[m], i);
    if (step && step == step_along(sym, y, y->coords[m], i) && by % step) return true;
  }
  return false;
}

/* Along some dimension, all coordinates of one differ from those of the other. */
static bool are_disjoint(SymCtx *sym, const Spot *x, const Spot *y) {
  for (int m = 0; m < x->a.memory->type->rank; m++)
    if (x->hi[m] < y->lo[m] || y->hi[m] < x->lo[m] || differ_by_remainder(sym, x, y, m))
      return true;
  return false;
}

/* Different elements of the tile are different elements of the memory. */
static bool is_injective(SymCtx *sym, const Spot *p) {
  for (int i = 0; i < p->a.tile->rank; i++) {
    bool found = p->layout->extent[i] == 1;
    for (int m = 0; m < p->a.memory->type->rank && !found; m++)
      found = step_along(sym, p, p->coords[m], i) != 0;
    if (!found) return false;
  }
  return true;
}

static bool are_alike(SymCtx *sym, const Spot *x, const Spot *y) {
  const Type *s = x->a.tile, *t = y->a.tile;
  if (s->rank != t->rank || !layout_equal(x->layout, y->layout)) return false;
  for (int i = 0; i < s->rank; i++)
    if (s->dims[i] != t->dims[i]) return false;
  for (int m = 0; m < x->a.memory->type->rank; m++)
    if (x->coords[m] != y->coords[m]) return false;
  return is_held_once(x->layout) && is_injective(sym, x);
}

bool access_is_apart(const Standing *s, const Op *a, const Op *b) {
  Spot x, y;
  if (!open_spot(s, a, &x) || !open_spot(s, b, &y) || x.a.memory != y.a.memory) return false;
  SymCtx *sym = s->d->k->cx->sym;
  return are_disjoint(sym, &x, &y) || are_alike(sym, &x, &y);
}
