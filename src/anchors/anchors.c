/* anchors.c: the anchors of memory accesses and reductions, and the order of all anchors
 * (anchors.h). */
#include "anchors/anchors.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"

enum { SHORT_ROW = 128 /* bits */ };

typedef struct Finder {
  const Distribution *d;
  const Machine *m;
  Arena *arena;
  Anchors *out;
  bool has_products, has_reductions;
  bool ok;
} Finder;

/* ---- order ----------------------------------------------------------------------------------- */
/* The product of the trip counts of the loops around an op; an unknown trip count counts as a
 * few. */
static int64_t trips_around(const Distribution *d, const Op *op) {
  enum { A_FEW = 16, MOST = 1 << 20 };
  int64_t all = 1;
  for (const Op *at = op->parent->owner; at; at = at->parent->owner) {
    int64_t n = A_FEW;
    const Sym *trips = at->kind == OP_for ? distribute_trips(d, at) : NULL;
    if (at->kind == OP_if || (trips && sym_is_int(trips, &n) && n < 1)) n = 1;
    all = n > MOST / all ? MOST : all * n;
  }
  return all;
}

bool anchor_before(const Anchor *x, const Anchor *y) {
  if (x->kind != y->kind) return x->kind > y->kind;
  if (x->weight != y->weight) return x->weight > y->weight;
  if (x->op->id != y->op->id) return x->op->id < y->op->id;
  return x->operand < y->operand;
}

static void add_anchor(Finder *f, AnchorKind kind, Op *op, int operand, const Layout *l) {
  Value *v = operand < 0 ? &op->results[0] : op->args[operand];
  int64_t bytes = (int64_t)layout_elements(l) * dtype_info[v->type->dtype].bits / 8 + 1;
  Anchor anchor = {kind, v, *l, bytes * trips_around(f->d, op), op, operand};
  layout_normalise(&anchor.layout);
  vec_push(f->arena, f->out, anchor);
}

/* ---- blocked layouts ------------------------------------------------------------------------- */

static Layout blocked(const Machine *m, const Type *t, int bits, const int *extent,
                      const int *order) {
  LayoutBlocking b = {.dims = t->rank,
                      .bits = bits,
                      .lanes = m->lanes,
                      .waves = m->waves,
                      .widest = m->target->global_access};
  for (int i = 0; i < t->rank; i++) {
    b.extent[i] = extent[i];
    b.order[i] = order ? order[i] : t->rank - 1 - i;
  }
  return layout_blocked(&b);
}

Layout anchor_default(const Machine *m, const Type *t, const int *extent) {
  return blocked(m, t, dtype_info[t->dtype].bits, extent, NULL);
}

/* ---- memory accesses ------------------------------------------------------------------------- */

typedef struct Order {
  int at[IR_MAX_RANK], n; /* dims of the register, starting with the one of the smallest memory
                           * stride */
} Order;

static void add_dim(Order *o, const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++) {
    if (dim_base(t->dims[i]) != dim_base(dim)) continue;
    for (int j = 0; j < o->n; j++)
      if (o->at[j] == i) return;
    o->at[o->n++] = i;
  }
}

/* Whether an expression grows by one with this iterator. */
static bool counts(SymCtx *cx, const Sym *expr, const Sym *iterator) {
  const Sym *factor, *rest;
  return sym_linear(cx, expr, &iterator, 1, &factor, &rest) && factor == sym_int(cx, 1);
}

/* Adds the register's dims whose iterators an expression mentions, neighbours in memory first. */
static void add_mentioned(SymCtx *cx, Order *o, const Type *t, SymPairs own, const Sym *expr) {
  for (int near = 1; near >= 0; near--)
    for (int i = 0; i < own.n; i++) {
      const Sym *iterator = own.at[i].value;
      if (!sym_name(iterator) || !sym_contains(expr, iterator)) continue;
      if (!near || counts(cx, expr, iterator)) add_dim(o, t, own.at[i].key);
    }
}

/* The memory dims from the innermost outwards, by name or through the mapping; then the rest. */
static Order memory_order(SymCtx *cx, const Op *op, const Type *t, const Type *memory) {
  Order o = {.n = 0};
  const Attr *attr = op_attr(op, ATTR_mapping);
  const Mapping *m = attr ? attr->mapping : NULL;
  bool is_write = op->kind == OP_write;
  for (int d = memory->rank - 1; d >= 0; d--) {
    const Sym *expr = m ? pairs_get(is_write ? m->outputs : m->inputs, memory->dims[d]) : NULL;
    if (expr) add_mentioned(cx, &o, t, is_write ? m->inputs : m->outputs, expr);
    else if (!m) add_dim(&o, t, memory->dims[d]);
  }
  for (int i = t->rank - 1; i >= 0; i--) add_dim(&o, t, t->dims[i]);
  return o;
}

Layout anchor_access(const Distribution *d, const Machine *m, const Op *op, const Type *t,
                     const Type *memory, const int *extent) {
  Order o = memory_order(d->k->cx->sym, op, t, memory);
  return blocked(m, t, dtype_info[t->dtype].bits, extent, o.at);
}

bool anchor_has_short_rows(const Type *t, const int *extent) {
  int last = t->rank - 1, bits = dtype_info[t->dtype].bits;
  return t->rank > 1 && extent[last] > 1 && extent[last] * bits <= SHORT_ROW;
}

/* Rows that are short are read from shared memory as well in any layout: what is made of them decides. */
static bool reads_short_rows(const Finder *f, const Op *op, const int *extent) {
  return f->has_products && op->kind == OP_read && memory_is_scratch(op->args[0]) &&
         anchor_has_short_rows(op->results[0].type, extent);
}

static void add_access(Finder *f, Op *op, int operand, int memory) {
  const Value *v = operand < 0 ? &op->results[0] : op->args[operand];
  int extent[IR_MAX_RANK];
  if (v->type->kind != TYPE_tile) return;
  if (!(f->ok = distribute_extents(f->d, op, v->type, extent))) return;
  if (reads_short_rows(f, op, extent)) return;
  Layout l = anchor_access(f->d, f->m, op, v->type, op->args[memory]->type, extent);
  if (f->m->observable) {
    bool is_access = op->kind == OP_read || op->kind == OP_write;
    if (f->has_products || f->has_reductions || !is_access) return; /* other anchors decide */
    if (!(f->ok = anchor_declared_access(f->d, f->m, op, v->type, extent, &l))) return;
  }
  add_anchor(f, ANCHOR_MEMORY, op, operand, &l);
}

/* ---- the others ------------------------------------------------------------------------------ */

static bool same_dims(const Type *a, const Type *b) {
  if (a->kind != TYPE_tile || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* The element width by which a reduced tile is divided: among accesses to tiles of the same dims,
 * that of the one that moves the most bytes. Rows of f16 that are summed in f32 are still read 16
 * bytes at a time. */
static int moved_bits(const Finder *f, const Type *t) {
  int64_t most = 0;
  int bits = dtype_info[t->dtype].bits;
  for (const Op *op = ir_first(f->d->k); op; op = ir_next(op)) {
    if (op->kind != OP_read && op->kind != OP_write) continue;
    const Type *moved = op->kind == OP_read ? op->results[0].type : op->args[0]->type;
    if (!same_dims(moved, t)) continue;
    int64_t weight = dtype_info[moved->dtype].bits * trips_around(f->d, op);
    if (weight <= most) continue;
    most = weight;
    bits = dtype_info[moved->dtype].bits;
  }
  return bits;
}

static void add_reduction(Finder *f, Op *op) {
  int extent[IR_MAX_RANK];
  const Type *t = op->args[0]->type;
  if (f->m->observable && f->has_products) return;
  if (t->kind != TYPE_tile || !(f->ok = distribute_extents(f->d, op, t, extent))) return;
  const Attr *along = op_attr(op, ATTR_dim);
  bool of_rows = t->rank > 0 && along && along->sym == t->dims[t->rank - 1];
  if (f->has_products && of_rows && anchor_has_short_rows(t, extent)) return;
  Layout l = blocked(f->m, t, moved_bits(f, t), extent, NULL);
  if (f->m->observable && !(f->ok = anchor_declared_reduction(f->d, f->m, op, extent, &l))) return;
  add_anchor(f, ANCHOR_REDUCTION, op, 0, &l);
}

static bool is_reduction(const Op *op) { return op_is_reduction(op) && !op_is_scan(op); }

static void add_product(Finder *f, Op *op) {
  for (int i = -1; i < product_acc(op); i++) {
    Layout l;
    if (anchor_mma(f->d, f->m, f->arena, op, i, &l))
      add_anchor(f, i < 0 ? ANCHOR_RESULT : ANCHOR_OPERAND, op, i, &l);
  }
}

bool find_anchors(const Distribution *d, const Machine *m, Arena *a, Anchors *out) {
  Finder f = {.d = d, .m = m, .arena = a, .out = out, .ok = true};
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    f.has_products |= op_is_product(op);
    f.has_reductions |= is_reduction(op);
  }
  for (Op *op = ir_first(d->k); f.ok && op; op = ir_next(op)) {
    switch (op->kind) {
    case OP_mma:
    case OP_scaled_mma: add_product(&f, op); break;
#define REDUCTION(op, combine, padding) case OP_##op:
#include "ir/ops/reductions.def"
      add_reduction(&f, op);
      break;
    case OP_read: add_access(&f, op, -1, 0); break;
    case OP_write:
    case OP_report:
#define ATOMIC(op, word, combine) case OP_##op:
#include "ir/ops/atomics.def"
      add_access(&f, op, 0, 1);
      break;
    case OP_scatter_add: add_access(&f, op, 0, 2); break;
    default: break;
    }
  }
  return f.ok;
}
