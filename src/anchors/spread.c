/* spread.c: the join of spread.h, as a breadth-first walk over links. */
#include "anchors/spread.h"

#include <stdlib.h>

#include "ir/layout_links.h"

typedef struct Edge {
  const LayoutLink *link;
  Value *to;
} Edge;

typedef Vec(Edge) Edges;

typedef struct Spread {
  const Distribution *d;
  const Machine *m;
  Arena *arena;
  LayoutLinks links;
  Edges *edges;          /* by value id */
  const Layout **layout; /* by value id */
  int (*extent)[IR_MAX_RANK];
  Value **values; /* by value id; NULL: not a tile, or one that stays in memory */
  bool has_products;
} Spread;

/* ---- setting up ------------------------------------------------------------------------------ */

/* A value that only matrix instructions use, from shared memory, needs no registers. */
static bool stays_in_memory(const Spread *s, const Value *v) {
  bool used = false;
  if (!v->def || v->def->kind != OP_read) return false;
  for (const Op *op = ir_first(s->d->k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) {
      if (op->args[i] != v) continue;
      const Attr *a = op_is_product(op) ? op_attr(op, ATTR_mma) : NULL;
      bool shared =
          a && ((i == 0 && a->mma->shared_lhs) || (i == product_rhs(op) && a->mma->shared_rhs));
      if (!shared) return false;
      used = true;
    }
  return used;
}

static bool add_value(Spread *s, Value *v) {
  if (v->type->kind != TYPE_tile || stays_in_memory(s, v)) return true;
  s->values[v->id] = v;
  return distribute_value(s->d, v, s->extent[v->id]);
}

static bool add_values(Spread *s) {
  for (Op *op = ir_first(s->d->k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++)
      if (!add_value(s, &op->results[i])) return false;
    for (int i = 0; op->body && i < op->body->nargs; i++)
      if (!add_value(s, op->body->args[i])) return false;
    layout_links(s->arena, op, &s->links);
  }
  return true;
}

static void add_edges(Spread *s) {
  for (int i = 0; i < s->links.n; i++) {
    const LayoutLink *l = &s->links.at[i];
    vec_push(s->arena, &s->edges[l->whole->id], ((Edge){l, l->part}));
    vec_push(s->arena, &s->edges[l->part->id], ((Edge){l, l->whole}));
  }
}

/* ---- spreading ------------------------------------------------------------------------------- */

/* A part that lacks dims of more than one element does not determine the layout of its whole; it is
 * used only as a last resort. */
static bool says_all(const Spread *s, const Edge *e) {
  const Type *whole = e->link->whole->type, *part = e->link->part->type;
  if (e->to == e->link->part || whole->rank == part->rank) return true;
  for (int i = 0; i < whole->rank; i++)
    if (s->extent[e->link->whole->id][i] != 1 && !type_has_dim(part, whole->dims[i])) return false;
  return true;
}

/* Sums of short rows, beside products: a thread has whole rows. */
static bool has_sums_of_rows(const Spread *s, const LayoutLink *l, const int *extent) {
  const Type *rows = l->whole->type, *sums = l->part->type;
  return s->has_products && sums->rank + 1 == rows->rank &&
         !type_has_dim(sums, rows->dims[rows->rank - 1]) && anchor_has_short_rows(rows, extent);
}

static bool cross(const Spread *s, const Edge *e, const Layout *from, Layout *out) {
  const int *extent = s->extent[e->to->id];
  if (e->to == e->link->part) return layout_of_part(e->link, from, extent, out);
  if (has_sums_of_rows(s, e->link, extent)) return layout_of_rows(e->link, from, extent, out);
  return layout_of_whole(e->link, from, extent, out);
}

static void set_layout(Spread *s, const Value *v, const Layout *l) {
  Layout *own = arena_copy(s->arena, l, sizeof *l);
  layout_normalise(own);
  s->layout[v->id] = own;
}

static bool is_free(const Spread *s, const Value *v) {
  return s->values[v->id] && !s->layout[v->id];
}

static void spread_from(Spread *s, Value *start, const Layout *l) {
  Vec(Value *) queue = {0};
  if (!is_free(s, start)) return;
  set_layout(s, start, l);
  vec_push(s->arena, &queue, start);
  for (int at = 0; at < queue.n; at++) {
    const Value *v = queue.at[at];
    const Edges *edges = &s->edges[v->id];
    for (int i = 0; i < edges->n; i++) {
      Layout next;
      Value *to = edges->at[i].to;
      if (!is_free(s, to) || !says_all(s, &edges->at[i])) continue;
      if (!cross(s, &edges->at[i], s->layout[v->id], &next)) continue;
      set_layout(s, to, &next);
      vec_push(s->arena, &queue, to);
    }
  }
}

/* Extends the layout of the first part that has one to the whole. */
static bool extend_part(Spread *s, Value *v) {
  const Edges *edges = &s->edges[v->id];
  for (int i = 0; i < edges->n; i++) {
    const Edge back = {edges->at[i].link, v};
    const Value *from = edges->at[i].to;
    Layout l;
    if (!s->layout[from->id] || !cross(s, &back, s->layout[from->id], &l)) continue;
    spread_from(s, v, &l);
    return true;
  }
  return false;
}

/* Extends a part to the first tile that no anchor reached. */
static bool extend_any(Spread *s, int n) {
  for (int i = 0; i < n; i++)
    if (s->values[i] && !s->layout[i] && extend_part(s, s->values[i])) return true;
  return false;
}

static Layout default_layout(const Spread *s, const Value *v) {
  const int *extent = s->extent[v->id];
  if (!s->m->observable) return anchor_default(s->m, v->type, extent);
  return anchor_undivided(s->d, s->m, v->def ? v->def : v->owner->first, v->type, extent);
}

static bool start_any(Spread *s, int n) {
  for (int i = 0; i < n; i++) {
    if (!s->values[i] || s->layout[i]) continue;
    Layout l = default_layout(s, s->values[i]);
    spread_from(s, s->values[i], &l);
    return true;
  }
  return false;
}

static int compare_anchors(const void *x, const void *y) {
  return anchor_before(x, y) ? -1 : anchor_before(y, x) ? 1 : 0;
}

const Layout **spread_layouts(const Distribution *d, const Machine *m, Anchors *anchors, Arena *a) {
  Spread s = {.d = d, .m = m, .arena = a};
  int n = d->k->nvalues;
  s.edges = ARENA_ARRAY(a, Edges, n);
  s.layout = ARENA_ARRAY(a, const Layout *, n);
  s.values = ARENA_ARRAY(a, Value *, n);
  s.extent = arena_alloc(a, sizeof *s.extent * (size_t)n);
  if (!add_values(&s)) return NULL;
  add_edges(&s);
  if (anchors->n) qsort(anchors->at, (size_t)anchors->n, sizeof *anchors->at, compare_anchors);
  for (int i = 0; i < anchors->n; i++) s.has_products |= anchors->at[i].kind == ANCHOR_RESULT;
  for (int i = 0; i < anchors->n; i++)
    spread_from(&s, anchors->at[i].value, &anchors->at[i].layout);
  while (extend_any(&s, n) || start_any(&s, n)) continue;
  return s.layout;
}
