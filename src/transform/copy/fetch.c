/* fetch: the copy engine brings what is read after a loop with service waves to shared memory.
 *
 *     for $TILES {                              %s = alloc {memory = ... xor ...} : mem<M, N, f16, shared>
 *       %r = for K { ... }                      for $TILES {
 *       %x = read %c                              %r = for K { ... }
 *       ...                              =>       copy %c, %s {mode = tma}
 *     }                                           %x = read %s
 *                                                 ...
 *                                               }
 *
 * Lanes that hold results of a matrix instruction read two neighbours of each row: such reads take as many cycles of L1 as
 * rows of a tile have pieces of 16 bytes, and no other wave computes meanwhile. The service waves make the copy
 * as soon as they have made those of the loop (stages_single.h): the tile arrives while the last iterations are computed.
 * Its bytes are not those of the rings, which therefore have fewer slots; so a row `fetch 1` requests it.
 *
 * Comes before `stages`. Needs distribute, bounds; keeps results. */
#include "analysis/access/in_bounds.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/schedule.h"
#include "transform/copy/copy_box.h"
#include "transform/copy/copy_stage.h"
#include "transform/pass.h"
#include "transform/stages/stages_room.h"

/* Of an element: others need no exchange between lanes, or more bytes than there are. */
enum { BITS = 16 };

typedef struct Fetch {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  Op *tiles, *loop; /* over tiles of the grid, and the one whose rings service waves fill */
} Fetch;

/* A tile of an argument that no op writes: the copy is made earlier than the read. */
static bool is_plain(const Fetch *f, const Op *read) {
  return read->kind == OP_read && read->nargs == 1 && !memory_is_scratch(read->args[0]) &&
         !op_has(read, ATTR_mapping) && !op_has(read, ATTR_ept) && !op_has(read, ATTR_volatile) &&
         !op_has(read, ATTR_other) && read->results[0].layout &&
         !memory_is_written(f->k, memory_root(read->args[0]));
}

/* The layout of the tile in shared memory, if the copy engine can fill it, and there is room. */
static bool lay_out(const Fetch *f, const Op *read, MemLayout *m) {
  const AccessBounds *b = f->cx->facts.in_bounds[read->id];
  const Type *t = read->results[0].type;
  int extent[IR_MAX_RANK];
  CopyBox box;
  if (!b || t->rank < 2 || t->rank != read->args[0]->type->rank) return false;
  if (dtype_info[t->dtype].bits != BITS || !distribute_extents(f->d, read, t, extent)) return false;
  if (!copy_stage_layout(b, t, extent, m) || copy_box(f->d, b, m, &box)) return false;
  if (box.pixels.walk.dims || copy_box_tensor(f->d, b, &box)) return false;
  return stages_have_room(f->cx, f->k, f->tiles, mem_bytes(m));
}

static void stage(const Fetch *f, Op *read, const MemLayout *m) {
  Kernel *k = f->k;
  Value *tensor = read->args[0];
  Value *bytes = copy_stage(k, read->at, read->results[0].type, m, memory_name(k, tensor));
  Value *args[] = {tensor, bytes};
  Op *copy = ir_insert(k, f->loop->next, OP_copy, read->at, args, 2, NULL);
  op_set_attr(k, copy, attr_copy(k, op_attr(read, ATTR_mask)));
  op_set_attr(k, copy, (Attr){.key = ATTR_mode, .text = intern(&k->cx->names, "tma")});
  op_drop_attr(read, ATTR_bounds);
  op_set_attr(k, read, (Attr){.key = ATTR_mask});
  read->args[0] = bytes;
  diag_add(&k->cx->diags, DIAG_R0607, read->at,
           "`%s` is copied by TMA while the loop before it ends, swizzled over %d bytes",
           memory_name(k, tensor), COPY_STAGE_SPAN);
}

static bool find_loops(Fetch *f) {
  f->tiles = copy_stage_loop(f->k);
  for (Op *op = f->tiles ? f->tiles->body->first : NULL; op; op = op->next)
    if (op->kind == OP_for && schedule_roles(f->k, op, f->cx->target)) f->loop = op;
  return f->loop;
}

bool pass_fetch(Kernel *k, PassCtx *cx) {
  Fetch f = {.k = k, .cx = cx, .d = cx->facts.distribute};
  MemLayout m;
  cx->idle = true;
  if (!cx->target || !cx->machine || !target_has(cx->target, FEATURE_TMA)) return true;
  if (!distribute_is_on(f.d, CONSTRAINT_fetch) || !find_loops(&f)) return true;
  for (Op *op = f.loop->next; op; op = op->next) {
    if (!is_plain(&f, op) || !lay_out(&f, op, &m)) continue;
    if (!copy_stage_is_there(f.d, cx->facts.in_bounds[op->id], f.loop->next)) continue;
    stage(&f, op, &m);
    cx->idle = false;
    break; /* there is room for one, and facts are those of the kernel before */
  }
  return true;
}
