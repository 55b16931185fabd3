/* construct_nodes.c: the nodes of a kernel. */
#include <string.h>

#include "construct/construct.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "target/mma.h"

/* ---- tags ---- */

static int own_tags(const Op *op, const char *const **out) {
  const Attr *tag = op_attr(op, ATTR_tag);
  if (tag) *out = (const char *const *)tag->texts;
  return tag ? tag->n : 0;
}

/* What fills shared memory has the tags of the first read there. */
int construct_tags(const Construct *c, const Op *op, const char *const **out) {
  const Value *memory = schedule_fills(op);
  int n = own_tags(op, out);
  for (const Op *read = memory ? ir_first(c->k) : NULL; read && !n; read = ir_next(read))
    if (read->kind == OP_read && memory_root(read->args[0]) == memory) n = own_tags(read, out);
  return n;
}

/* ---- instructions of an op ---- */

/* K for K/2. */
static const Sym *base_dim(const Sym *dim) {
  const Sym *symbol[2];
  return sym_free_symbols(dim, symbol, 2) == 1 ? symbol[0] : NULL;
}

static bool has_dim(const Type *t, const Sym *base) {
  for (int i = 0; i < t->rank; i++)
    if (base_dim(t->dims[i]) == base) return true;
  return false;
}

static const MmaInfo *instruction(const Op *mma) {
  const Attr *choice = op_is_product(mma) ? op_attr(mma, ATTR_mma) : NULL;
  return choice && choice->mma->name ? mma_find(choice->mma->name) : NULL;
}

static int waves_of(const Construct *c, const MmaInfo *info) {
  int lanes = kernel_constraint(c->k, CONSTRAINT_machine, NULL)->machine.lanes;
  return info->lanes > lanes ? info->lanes / lanes : 1;
}

/* Elements of a dimension that one instruction of a matmul takes in a wave; 0: it does not divide
 * it. */
static int grain_in(const Construct *c, const Op *mma, const Sym *base) {
  const MmaInfo *info = instruction(mma);
  if (!info) return 0;
  bool left = has_dim(mma->args[0]->type, base), right = has_dim(mma->args[1]->type, base);
  bool result = has_dim(mma->results[0].type, base), swap = op_attr(mma, ATTR_mma)->mma->swap;
  if (left && right) return result ? 0 : info->k;
  if (left == right) return 0;
  return left != swap ? info->m / waves_of(c, info) : info->n;
}

/* Of the first matmul that divides it. */
static int grain_of(const Construct *c, const Sym *base) {
  for (const Op *op = c->target ? ir_first(c->k) : NULL; op; op = ir_next(op)) {
    int grain = grain_in(c, op, base);
    if (grain) return grain;
  }
  return 0;
}

static int wave_extent(const Value *v, int dim) {
  int extent = v->layout->extent[dim];
  for (int i = 0; i < v->layout->part[LAYOUT_WAVE].n; i++) {
    const Digit *digit = &v->layout->part[LAYOUT_WAVE].at[i];
    if (digit->dim == dim && digit->stride) extent /= digit->radix;
  }
  return extent > 0 ? extent : 1;
}

static void add_part(Node *node, const Sym *base, int n) {
  for (int i = 0; i < node->nparts; i++)
    if (node->parts[i].dim == base) return;
  if (base && node->nparts < NODE_DIMS) node->parts[node->nparts++] = (NodePart){base, 0, n};
}

/* A scaled or packed dimension has fewer elements than the one that instructions divide. */
static int reach_along(const Construct *c, const Op *op, const Value *v, int dim) {
  int64_t whole;
  const Sym *reach = distribute_reach(c->d, op, v->type->dims[dim]);
  int extent = v->layout->extent[dim], mine = wave_extent(v, dim);
  if (!reach || !sym_is_int(reach, &whole) || whole > INT32_MAX) return mine;
  return (int)whole / (extent / mine ? extent / mine : 1);
}

static void divide_tile(const Construct *c, const Op *op, const Value *v, Node *node) {
  for (int i = 0; v->layout && i < v->type->rank; i++) {
    const Sym *base = base_dim(v->type->dims[i]);
    int grain = base ? grain_of(c, base) : 0;
    if (grain) add_part(node, base, (reach_along(c, op, v, i) + grain - 1) / grain);
  }
}

/* The dimension along which a matmul sums, which its result does not have. */
static void divide_sum(const Construct *c, const Op *mma, Node *node) {
  for (int i = 0; i < mma->args[0]->type->rank; i++) {
    const Sym *base = base_dim(mma->args[0]->type->dims[i]);
    int grain = base ? grain_in(c, mma, base) : 0;
    const Sym *reach = grain ? distribute_reach(c->d, mma, mma->args[0]->type->dims[i]) : NULL;
    int64_t whole;
    if (reach && !has_dim(mma->results[0].type, base) && sym_is_int(reach, &whole) &&
        whole < NODE_MOST)
      add_part(node, base, ((int)whole + grain - 1) / grain);
  }
}

/* Copies move 16 bytes at a time, as a rule; rows follow each other. */
static void divide_copy(const Construct *c, const Op *copy, Node *node) {
  const Constraint *machine = kernel_constraint(c->k, CONSTRAINT_machine, NULL);
  const Value *memory = schedule_fills(copy);
  if (!machine || !memory || !memory->def || memory->def->kind != OP_alloc) return;
  int threads = machine->machine.lanes * machine->machine.waves;
  int64_t bytes = alloc_bytes(memory->def), n = bytes / alloc_slots(memory->def) / (16 * threads);
  add_part(node, base_dim(memory->type->dims[0]), n < 1 ? 1 : n > NODE_MOST ? NODE_MOST : (int)n);
}

static void divide(const Construct *c, const Op *op, Node *node) {
  if (!c->target) return;
  if (op->kind == OP_copy) divide_copy(c, op, node);
  else if (op->nresults && op->kind != OP_for) divide_tile(c, op, &op->results[0], node);
  else if (op->kind == OP_write) divide_tile(c, op, op->args[0], node);
  if (op_is_product(op)) divide_sum(c, op, node);
}

/* ---- nodes ---- */

/* One node for each combination of parts, the last dimension fastest. */
static void add_nodes(Construct *c, const Op *op, OpClass class) {
  Node node = {.op = op, .class = class, .stage = NODE_NONE, .cycle = NODE_NONE};
  node.rank = NODE_NONE;
  divide(c, op, &node);
  int64_t n = 1;
  for (int i = 0; i < node.nparts; i++) n *= node.parts[i].of;
  if (n + c->nodes.n > NODE_MOST) node.nparts = 0, n = 1;
  for (int j = 0; j < n; j++) {
    int rest = j;
    for (int i = node.nparts - 1; i >= 0; i--) {
      node.parts[i].at = rest % node.parts[i].of;
      rest /= node.parts[i].of;
    }
    node.base = c->nodes.n;
    vec_push(c->arena, &c->nodes, node);
  }
}

/* A read as it was written, of an argument that a machine with waves would copy. */
static bool is_staged(const Construct *c, const Op *op) {
  const Value *memory = op->kind == OP_read ? op->args[0] : NULL;
  if (c->target || !memory || memory->def || !memory->type->space) return false;
  return distribute_expr(c->d, NULL, memory->type->space) == c->k->cx->shared_space;
}

static void add_move(Construct *c, const Op *op) {
  if (c->direct) add_nodes(c, op, OP_CLASS_copy);
  else add_nodes(c, op, OP_CLASS_load), add_nodes(c, op, OP_CLASS_store);
}

/* What a matrix instruction reads from shared memory itself is not fetched. */
static bool stays(const Construct *c, const Op *op) {
  return c->target && schedule_class(op) == OP_CLASS_fetch && !op->results[0].layout;
}

void construct_fill(Construct *c) {
  const char *const *tags;
  for (const Op *op = ir_first(c->k); op; op = ir_next(op)) {
    bool loop = op->kind == OP_for, moves = op->kind == OP_copy && schedule_fills(op);
    if ((!loop && !construct_tags(c, op, &tags)) || stays(c, op)) continue;
    if (moves || is_staged(c, op)) add_move(c, op);
    if (is_staged(c, op)) add_nodes(c, op, OP_CLASS_fetch);
    else if (!moves) add_nodes(c, op, schedule_class(op));
  }
}

/* ---- asking ---- */

const Op *construct_loop(const Node *node) {
  const Op *outer = node->op->kind == OP_for ? node->op : node->op->parent->owner;
  while (outer && outer->kind != OP_for) outer = outer->parent->owner;
  return outer;
}

bool construct_is_loop(const Construct *c, Nodes list) {
  return list.n == 1 && c->nodes.at[list.at[0]].op->kind == OP_for;
}

static bool accept_any(const void *user, const Op *op) { return user == NULL && op != NULL; }

const char *construct_plain_name(const Construct *c, const Node *node) {
  const Op *loop = construct_loop(node);
  if (node->op->kind == OP_for) return schedule_loop_name(c->arena, node->op);
  const char *const *tags = NULL, *name = NULL;
  if (loop) name = schedule_name_of(c->arena, c->k, loop, node->op, accept_any, NULL);
  if (!name && construct_tags(c, node->op, &tags)) name = tags[0];
  if (!name) name = op_info[node->op->kind].name;
  name = schedule_plain_name(c->arena, name);
  const char *class = op_class_name[node->class];
  return !*class || strcmp(class, name) == 0 ? name : arena_printf(c->arena, "%s.%s", name, class);
}

const char *construct_name(const Construct *c, int i) {
  const Node *node = &c->nodes.at[i];
  StrBuf out = {.arena = c->arena};
  int shown = 0;
  sb_printf(&out, "%s", construct_plain_name(c, node));
  for (int p = 0; p < node->nparts; p++) {
    if (node->parts[p].of < 2) continue;
    sb_printf(&out, "%s%s %d/%d", shown++ ? ", " : "[", sym_text(c->arena, node->parts[p].dim),
              node->parts[p].at, node->parts[p].of);
  }
  if (shown) sb_printf(&out, "]");
  if (node->unrolled) sb_printf(&out, "#%d", node->unrolled);
  const PipelineCall *p = construct_pipeline_of(c, construct_loop(node));
  if (p && node->base != i) sb_printf(&out, "_%d_%d", node->flight + 1, p->depth - 1);
  return sb_text(&out);
}
