/* stores: lets the copy engine write results, or threads whole vectors of them, from shared memory.
 *
 *     %r = for K { ... }                    %s = alloc {memory = ... xor ...} : mem<M, N, f16, shared>
 *     write %r, %c                          %r = for K { ... }
 *                                    =>     write %r, %s
 *                                           copy %s, %c {mode = bulk}
 *                                           bulk_wait 0 {read}
 *
 * A lane that holds 16-bit results of a matrix instruction has two neighbours of each row, so its stores
 * use half of each sector, and a workgroup takes longer to write a tile than to multiply for four
 * iterations. Here it only writes to shared memory (stmatrix): to bytes that the rings of the loop no
 * longer need or, where workgroups compute several tiles (`persist`), to bytes of its own, so that
 * the copy is made while the next tile is multiplied. There, a thread waits for it before the next write.
 *
 * Rows may end inside the tensor, where another sequence begins (clip.h). If a tile is not a box of the tensor, as
 * rows that are tokens and heads at once, threads copy it, each 16 bytes of a row at a time. One tensor is
 * written so: the first one that can be, and that nothing accesses later. Needs distribute, bounds, uniform;
 * keeps results. */
#include "analysis/access/in_bounds.h"
#include "analysis/uniform.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/schedule.h"
#include "transform/copy/copy_box.h"
#include "transform/copy/copy_stage.h"
#include "transform/pass.h"
#include "transform/stages/stages_room.h"

enum {
  BITS = 16,   /* of an element */
  VECTOR = 16, /* bytes of the widest store of a thread */
  ENOUGH = 32, /* elements of a thread, for which a barrier pays: an estimate */
  SPARE = 4096 /* bytes for barriers and alignment */
};

typedef struct Stores {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  Op *loop; /* over tiles; NULL: a workgroup has one */
} Stores;

/* Whether threads hold only parts of vectors, as they do after a matrix instruction. */
static bool is_scattered(const Value *v, int inner) {
  return layout_vector(v->layout, inner, BITS, VECTOR) < VECTOR * 8 / BITS;
}

/* Whether an op that follows, or one after that, accesses this memory. */
static bool is_accessed_later(const Op *write, const Value *memory) {
  for (const Op *op = ir_next(write); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i]->type->kind == TYPE_mem && memory_root(op->args[i]) == memory) return true;
  return false;
}

/* Besides what is needed while the tile is copied: what follows, or the whole loop over tiles. */
static bool has_room(const Stores *s, const Op *write, const MemLayout *m) {
  int64_t sum = mem_bytes(m);
  if (s->loop) return stages_have_room(s->cx, s->k, s->loop, sum);
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    if (op->kind == OP_alloc && is_accessed_later(write, &op->results[0])) sum += alloc_bytes(op);
  }
  return sum + SPARE <= s->cx->target->shared_most;
}

/* The layout of the tile in shared memory: rows of the tensor, in boxes. */
static bool lay_out(const Stores *s, const Op *op, MemLayout *m) {
  const AccessBounds *b = s->cx->facts.in_bounds[op->id];
  const Value *v = op->args[0];
  const Type *t = v->type;
  int extent[IR_MAX_RANK];
  if (!b || op->nargs > 2 || !v->layout || dtype_info[t->dtype].bits != BITS) return false;
  if (op_has(op, ATTR_volatile) || memory_is_scratch(op->args[1])) return false;
  if (t->rank < 2) return false;
  if (!distribute_extents(s->d, op, t, extent)) return false;
  return copy_stage_layout(b, t, extent, m) && has_room(s, op, m);
}

static bool is_by_engine(const Stores *s, const Op *op, const MemLayout *m) {
  const AccessBounds *b = s->cx->facts.in_bounds[op->id];
  CopyBox box;
  if (copy_box(s->d, b, m, &box) || box.pixels.walk.dims) return false;
  if (op->args[0]->type->rank != op->args[1]->type->rank && !box.join.dim) return false;
  return !copy_box_tensor(s->d, b, &box);
}

/* Whether threads write whole vectors if each has neighbours of a row. */
static bool is_by_vectors(const Stores *s, const Op *op, const MemLayout *m) {
  const AccessBounds *b = s->cx->facts.in_bounds[op->id];
  CopyPlan plan;
  if (s->loop || !copy_plan(s->d, s->cx->machine, b, &plan) || !plan.exact) return false;
  int held = layout_size(&plan.layout, LAYOUT_REG);
  return copy_width(&plan, b, m) * BITS / 8 == VECTOR && held >= ENOUGH && held <= IR_MAX_VEC;
}

/* One thread waits until the copy engine has read what it copies. */
static Op *new_wait(const Stores *s, Span at) {
  Op *wait = ir_op_new(s->k, OP_bulk_wait, at, NULL, 0);
  op_set_attr(s->k, wait, (Attr){.key = ATTR_pending, .integer = 0});
  op_set_attr(s->k, wait, (Attr){.key = ATTR_read});
  return wait;
}

/* Whether a workgroup may write another tile while this one is copied. */
static bool writes_again(const Stores *s) {
  const Sym *trips = s->loop ? distribute_trips(s->d, s->loop) : NULL;
  return s->loop && !(trips && sym_range(s->k->cx->sym, s->d->facts, trips).hi <= 1);
}

static void write_staged(const Stores *s, Op *op, const MemLayout *m, bool by_engine) {
  Value *stage = copy_stage(s->k, op->at, op->args[0]->type, m, op->args[1]->name),
        *to_stage[] = {op->args[0], stage};
  Value *to_tensor[] = {stage, op->args[1]};
  if (writes_again(s)) ir_insert_before(op, new_wait(s, op->at));
  Op *write = ir_insert(s->k, op, OP_write, op->at, to_stage, 2, NULL);
  op_set_attr(s->k, write, (Attr){.key = ATTR_mask});
  Op *copy = ir_insert(s->k, op, OP_copy, op->at, to_tensor, 2, NULL);
  op_set_attr(s->k, copy, attr_copy(s->k, op_attr(op, ATTR_mask)));
  if (op_has(op, ATTR_mapping)) op_set_attr(s->k, copy, attr_copy(s->k, op_attr(op, ATTR_mapping)));
  const char *mode = intern(&s->k->cx->names, by_engine ? "bulk" : "load");
  op_set_attr(s->k, copy, (Attr){.key = ATTR_mode, .text = mode});
  ir_remove(op);
  if (by_engine) ir_append(s->k->body, new_wait(s, op->at));
}

/* Whether it follows a loop of products, whose rings are free by then. */
static bool is_after_products(const Op *op) {
  for (const Op *loop = op->prev; loop; loop = loop->prev)
    if (loop->kind == OP_for)
      for (const Op *in = loop->body->first; in; in = in->next)
        if (op_is_product(in)) return true;
  return false;
}

static bool is_worthwhile(const Stores *s, const Op *write) {
  int inner = copy_stage_inner(s->cx->facts.in_bounds[write->id]);
  return s->loop || (is_after_products(write) && is_scattered(write->args[0], inner));
}

static bool can_write(const Stores *s, const Op *op, MemLayout *m) {
  return op->kind == OP_write && op_has(op, ATTR_mask) && lay_out(s, op, m) &&
         is_worthwhile(s, op) && !is_accessed_later(op, memory_root(op->args[1])) &&
         (is_by_engine(s, op, m) || is_by_vectors(s, op, m)) &&
         uniform_around(s->cx->facts.uniform, op).level <= UNIFORM_WORKGROUP;
}

/* The first write of a region that the engine can make; NULL: none. All threads of the workgroup must make it: they wait
 * for each other before it is copied. */
static Op *find_write(const Stores *s, const Region *region, MemLayout *m) {
  for (Op *op = region->first; op; op = op->next) {
    Op *inner = op->kind == OP_if ? find_write(s, op->body, m) : NULL;
    if (inner || can_write(s, op, m)) return inner ? inner : op;
  }
  return NULL;
}

bool pass_stores(Kernel *k, PassCtx *cx) {
  Stores s = {k, cx, cx->facts.distribute, copy_stage_loop(k)};
  MemLayout m;
  cx->idle = true;
  if (!cx->target || !target_has(cx->target, FEATURE_STMATRIX)) return true;
  Op *op = find_write(&s, s.loop ? s.loop->body : k->body, &m);
  if (!op) return true;
  cx->idle = false;
  bool by_engine = is_by_engine(&s, op, &m);
  write_staged(&s, op, &m, by_engine);
  diag_add(&k->cx->diags, DIAG_R0607, op->at,
           "`%s` is written by %s from shared memory, swizzled over %d bytes",
           op->args[1]->name ? op->args[1]->name : "a tensor", by_engine ? "TMA" : "16-byte stores",
           COPY_STAGE_SPAN);
  return true;
}
