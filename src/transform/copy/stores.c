/* stores: lets the copy engine write results, from shared memory.
 *
 *     for $TILES {                          %s = alloc {memory = ... xor ...} : mem<M, N, f16, shared>
 *       ...                                 for $TILES {
 *       write %r, %c                 =>       ...
 *     }                                       bulk_wait 0 {read}
 *                                             write %r, %s
 *                                             copy %s, %c {mode = bulk}
 *                                           }
 *                                           bulk_wait 0 {read}
 *
 * A lane that holds 16-bit results of a matrix instruction has two neighbours of each row, so its stores
 * use half of each sector, and a workgroup takes longer to write a tile than to multiply for four
 * iterations. Here it only writes to shared memory (stmatrix), and the copy is made while the next tile
 * is multiplied. So this is done where workgroups compute several tiles (`persist`), and shared memory
 * has room beside the rings. One tensor is written so: the first one that can be. Needs distribute,
 * bounds; keeps results. */
#include "analysis/access/in_bounds.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/schedule.h"
#include "transform/copy/copy_box.h"
#include "transform/pass.h"

enum {
  SPAN = 128,  /* bytes of a swizzle: eight rows are stored without conflicts */
  SPARE = 4096 /* bytes for barriers and alignment */
};

typedef struct Stores {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
} Stores;

static Op *loop_over_tiles(const Kernel *k) {
  const Constraint *row = kernel_persistent(k);
  for (Op *op = k->body->first; op; op = op->next)
    if (row && op->kind == OP_for && op_attr(op, ATTR_axis)->sym == row->persist.loop) return op;
  return NULL;
}

static bool has_room(const Stores *s, const MemLayout *m) {
  int64_t sum = mem_bytes(m);
  for (const Op *op = ir_first(s->k); op; op = ir_next(op))
    if (op->kind == OP_alloc) sum += SERVICE_SLOTS * alloc_bytes(op);
  return sum + SPARE <= s->cx->target->shared_most;
}

/* The layout of the tile in shared memory, if it can be written as boxes of the tensor. */
static bool lay_out(const Stores *s, const Op *op, MemLayout *m) {
  const AccessBounds *b = s->cx->facts.in_bounds[op->id];
  const Value *v = op->args[0];
  const Type *t = v->type;
  int extent[IR_MAX_RANK], bits = dtype_info[t->dtype].bits;
  CopyBox box;
  if (!b || op->nargs > 2 || !v->layout || bits != 16 || op_has(op, ATTR_mapping)) return false;
  if (op_has(op, ATTR_volatile) || memory_is_scratch(op->args[1])) return false;
  if (t->rank < 2 || t->rank != op->args[1]->type->rank) return false;
  if (!distribute_extents(s->d, op, t, extent)) return false;
  if (extent[t->rank - 1] * bits / 8 % SPAN) return false;
  *m = mem_nvidia(t->rank, extent, bits, SPAN);
  return !copy_box(s->d, b, m, &box) && box.clip < 0 && !copy_box_tensor(s->d, b, &box) &&
         has_room(s, m);
}

static Value *new_alloc(const Stores *s, const Op *op, const MemLayout *m) {
  const Type *t = op->args[0]->type;
  const Type *mem = type_mem(s->k->cx, t->dims, t->rank, t->dtype, s->k->cx->shared_space, NULL);
  Op *alloc = ir_insert(s->k, s->k->body->first, OP_alloc, op->at, NULL, 0, mem);
  const Sym **physical = ARENA_ARRAY(s->k->arena, const Sym *, t->rank);
  for (int i = 0; i < t->rank; i++) physical[i] = sym_int(s->k->cx->sym, m->extent[i]);
  op_set_attr(s->k, alloc, (Attr){.key = ATTR_physical, .n = t->rank, .exprs = physical});
  const MemLayout *copy = arena_copy(s->k->arena, m, sizeof *m);
  op_set_attr(s->k, alloc, (Attr){.key = ATTR_memory, .memory = copy});
  alloc->results[0].name = op->args[1]->name;
  return &alloc->results[0];
}

/* One thread waits until the copy engine has read what it copies. */
static Op *new_wait(const Stores *s, Span at) {
  Op *wait = ir_op_new(s->k, OP_bulk_wait, at, NULL, 0);
  op_set_attr(s->k, wait, (Attr){.key = ATTR_pending, .integer = 0});
  op_set_attr(s->k, wait, (Attr){.key = ATTR_read});
  return wait;
}

static void write_by_engine(const Stores *s, Op *op, Op *loop, const MemLayout *m) {
  Value *stage = new_alloc(s, op, m), *to_stage[] = {op->args[0], stage};
  Value *to_tensor[] = {stage, op->args[1]};
  ir_insert_before(op, new_wait(s, op->at));
  Op *write = ir_insert(s->k, op, OP_write, op->at, to_stage, 2, NULL);
  op_set_attr(s->k, write, (Attr){.key = ATTR_mask});
  Op *copy = ir_insert(s->k, op, OP_copy, op->at, to_tensor, 2, NULL);
  op_set_attr(s->k, copy, attr_copy(s->k, op_attr(op, ATTR_mask)));
  op_set_attr(s->k, copy, (Attr){.key = ATTR_mode, .text = intern(&s->k->cx->names, "bulk")});
  ir_remove(op);
  ir_append(loop->parent, new_wait(s, op->at));
}

bool pass_stores(Kernel *k, PassCtx *cx) {
  Stores s = {k, cx, cx->facts.distribute};
  Op *loop = loop_over_tiles(k);
  cx->idle = true;
  if (!loop || !cx->target || !target_has(cx->target, FEATURE_STMATRIX)) return true;
  for (Op *op = loop->body->first; op; op = op->next) {
    MemLayout m;
    if (op->kind != OP_write || !op_has(op, ATTR_mask) || !lay_out(&s, op, &m)) continue;
    cx->idle = false;
    write_by_engine(&s, op, loop, &m);
    diag_add(&k->cx->diags, DIAG_R0607, op->at,
             "`%s` is written by TMA from shared memory, swizzled over %d bytes",
             op->args[1]->name ? op->args[1]->name : "a tensor", SPAN);
    return true;
  }
  return true;
}
