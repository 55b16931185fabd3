/* construct_select.c: lists of nodes from tags, classes, address spaces and positions. */
#include <string.h>

#include "construct/construct.h"
#include "ir/ops/access.h"

/* ---- by tag ---- */

static bool has_tag(const char *const *tags, int n, const char *tag) {
  for (int i = 0; i < n; i++)
    if (strcmp(tags[i], tag) == 0) return true;
  return false;
}

static bool has_tags(const Construct *c, const Node *node, const char *const *tags, int n,
                     bool exact) {
  const char *const *own = NULL;
  int owned = construct_tags(c, node->op, &own);
  for (int i = 0; i < n; i++)
    if (!has_tag(own, owned, tags[i])) return false;
  for (int i = 0; exact && i < owned; i++)
    if (!has_tag(tags, n, own[i])) return false;
  return n > 0;
}

/* A tag that the author gave to nothing: probably misspelled if another is similar. */
static void warn_unknown(Construct *c, const char *tag, Span at) {
  Diags *diags = &c->k->cx->diags;
  Vec(const char *) known = {0};
  for (const Op *op = ir_first(c->written); op; op = ir_next(op)) {
    const Attr *tags = op_attr(op, ATTR_tag);
    for (int i = 0; tags && i < tags->n; i++) {
      if (strcmp(tags->texts[i], tag) == 0) return;
      vec_push(c->arena, &known, tags->texts[i]);
    }
  }
  const char *near = diag_nearest(tag, known.at, known.n);
  if (!near) {
    construct_drop(c, arena_printf(c->arena, "the tag `%s`", tag), "no op has it", at);
    return;
  }
  Diag *d = diag_add(diags, DIAG_W0202, at, "no op of `%s` has the tag `%s`", c->k->name, tag);
  diag_hint(diags, d, "did you mean `%s`?", near);
}

Nodes construct_find(Construct *c, const char *const *tags, int n, bool exact, Span at) {
  static const Segment order[] = {SEGMENT_prologue, SEGMENT_kernel, SEGMENT_epilogue};
  NodeVec out = {0};
  for (int i = 0; i < n; i++) warn_unknown(c, tags[i], at);
  for (size_t s = 0; s < WV_LEN(order); s++)
    for (int i = 0; i < c->nodes.n; i++) {
      const Node *node = &c->nodes.at[i];
      Segment in = node->segment == SEGMENT_any ? SEGMENT_kernel : node->segment;
      if (in == order[s] && has_tags(c, node, tags, n, exact)) vec_push(c->arena, &out, i);
    }
  return (Nodes){out.at, out.n};
}

/* ---- by class ---- */

typedef struct TypeRow {
  const char *name;
  OpClass class;
  OpKind kind; /* OP_COUNT: by class, or arity */
  int arity;
} TypeRow;

static const TypeRow types[] = {
#define NODE_CLASS(name, class) {#name, OP_CLASS_##class, OP_COUNT, 0},
#define NODE_KIND(name, kind) {#name, OP_CLASS_none, OP_##kind, 0},
#define NODE_ARITY(name, n) {#name, OP_CLASS_none, OP_COUNT, n},
#include "construct/construct.def"
};

static bool is_of(const Node *node, const TypeRow *row) {
  if (row->class != OP_CLASS_none) return node->class == row->class;
  if (row->kind != OP_COUNT) return node->op->kind == row->kind;
  return op_is_elementwise(node->op) && node->op->nargs == row->arity;
}

static bool has_type(const Node *node, const char *type) {
  for (size_t i = 0; i < WV_LEN(types); i++)
    if (strcmp(types[i].name, type) == 0 && is_of(node, &types[i])) return true;
  return false;
}

static bool check_type(Construct *c, const char *type, Span at) {
  const char *names[WV_LEN(types)];
  for (size_t i = 0; i < WV_LEN(types); i++) {
    names[i] = types[i].name;
    if (!type || strcmp(types[i].name, type) == 0) return true;
  }
  Diags *diags = &c->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0218, at, "nodes have no class `%s`", type);
  const char *near = diag_nearest(type, names, WV_LEN(types));
  return near ? diag_hint(diags, d, "did you mean `%s`?", near)
              : diag_hint(diags, d, "classes are `Read`, `Write`, `MMA`, `GatherToLDS`, ...");
}

bool construct_filter(Construct *c, Nodes from, Segment segment, const char *type, int unrolled,
                      Span at, Nodes *out) {
  NodeVec list = {0};
  if (!check_type(c, type, at)) return false;
  for (int i = 0; i < from.n; i++) {
    const Node *node = &c->nodes.at[from.at[i]];
    bool here = segment == SEGMENT_any || node->segment == segment;
    if (here && (!type || has_type(node, type)) && (unrolled < 0 || node->unrolled == unrolled))
      vec_push(c->arena, &list, from.at[i]);
  }
  *out = (Nodes){list.at, list.n};
  return true;
}

/* ---- by address space ---- */

static bool is_shared(const Node *node) {
  return node->class == OP_CLASS_fetch || node->class == OP_CLASS_store ||
         node->class == OP_CLASS_copy;
}

static bool accesses(const Node *node) {
  return is_shared(node) || node->class == OP_CLASS_load || node->class == OP_CLASS_write;
}

bool construct_by_space(Construct *c, Nodes from, const char *space, Span at, Nodes out[2]) {
  Diags *diags = &c->k->cx->diags;
  NodeVec lists[2] = {{0}};
  bool shared = strcmp(space, "shared") == 0;
  if (!shared && strcmp(space, "global") != 0)
    return diag_fail(diags, DIAG_E0218, at, "nodes are in global or shared memory, not in `%s`",
                     space);
  for (int i = 0; i < from.n; i++) {
    const Node *node = &c->nodes.at[from.at[i]];
    if (!accesses(node)) {
      Diag *d =
          diag_add(diags, DIAG_E0218, at, "`%s` accesses no memory", construct_name(c, from.at[i]));
      diag_note(diags, d, node->op->at, "the op");
      return diag_hint(diags, d,
                       "select reads and writes first: "
                       "`filter_nodes(nodes, node_type=tkw.Read)`");
    }
    vec_push(c->arena, &lists[is_shared(node) == shared ? 0 : 1], from.at[i]);
  }
  for (int i = 0; i < 2; i++) out[i] = (Nodes){lists[i].at, lists[i].n};
  return true;
}

/* ---- by position ---- */

static int position(const Node *node, const Sym *dim) {
  for (int i = 0; i < node->nparts; i++)
    if (node->parts[i].dim == dim) return node->parts[i].at;
  return 0;
}

/* Positions that occur, in order; *which: for each node, the number of its position. */
static int count_positions(const Construct *c, Nodes from, const Sym *dim, int *which) {
  int n = 0, most = 0;
  for (int i = 0; i < from.n; i++)
    if (position(&c->nodes.at[from.at[i]], dim) > most)
      most = position(&c->nodes.at[from.at[i]], dim);
  int *number = ARENA_ARRAY(c->arena, int, most + 1);
  for (int i = 0; i < from.n; i++) number[position(&c->nodes.at[from.at[i]], dim)] = 1;
  for (int i = 0; i <= most; i++) number[i] = number[i] ? n++ : 0;
  for (int i = 0; i < from.n; i++) which[i] = number[position(&c->nodes.at[from.at[i]], dim)];
  return n;
}

bool construct_by_dim(Construct *c, Nodes from, const Sym *dim, int parts, Span at, Nodes *out) {
  if (parts < 1 || parts > NODE_MOST)
    return diag_fail(&c->k->cx->diags, DIAG_E0218, at, "nodes cannot be divided into %d parts",
                     parts);
  int *which = ARENA_ARRAY(c->arena, int, from.n + 1);
  int n = count_positions(c, from, dim, which), from_position = 0;
  if (from.n && n < parts)
    construct_drop(c,
                   arena_printf(c->arena, "%d parts of `%s` along `%s`", parts,
                                construct_plain_name(c, &c->nodes.at[from.at[0]]),
                                sym_text(c->arena, dim)),
                   arena_printf(c->arena, "the machine has %d", n), at);
  for (int p = 0; p < parts; p++) {
    int size = n / parts + (p < n % parts);
    NodeVec list = {0};
    for (int i = 0; i < from.n; i++)
      if (which[i] >= from_position && which[i] < from_position + size)
        vec_push(c->arena, &list, from.at[i]);
    from_position += size;
    out[p] = (Nodes){list.at, list.n};
  }
  return true;
}
