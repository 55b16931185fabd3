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
#include <string.h>

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

#define OPTION "fetch_reads" /* which adds the row */

typedef struct Fetch {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  Op *tiles, *loop; /* over tiles of the grid, and the one whose rings service waves fill */
} Fetch;

/* The following return NULL, or why a tile is not copied. */

/* The copy is made earlier than the read. */
static const char *why_not_early(const Fetch *f, const Op *read) {
  if (memory_is_written(f->k, memory_root(read->args[0]))) return "the kernel writes the tensor";
  if (op_has(read, ATTR_mapping)) return "the read has a mapping";
  bool plain = read->nargs == 1 && !op_has(read, ATTR_ept) && !op_has(read, ATTR_volatile) &&
               !op_has(read, ATTR_other) && read->results[0].layout;
  return plain ? NULL : "it is not a plain read of a tile";
}

/* Finds the layout of the tile in shared memory. */
static const char *why_not_laid_out(const Fetch *f, const Op *read, MemLayout *m) {
  const AccessBounds *b = f->cx->facts.in_bounds[read->id];
  const Type *t = read->results[0].type;
  int extent[IR_MAX_RANK];
  CopyBox box;
  if (!b || t->rank < 2 || t->rank != read->args[0]->type->rank)
    return "the tile does not have two or more dimensions, all those of the tensor";
  if (dtype_info[t->dtype].bits != BITS) return "its elements do not have 16 bits";
  if (!distribute_extents(f->d, read, t, extent) || !copy_stage_layout(b, t, extent, m))
    return "rows of the tile are not a multiple of 128 bytes long";
  const char *why = copy_box(f->d, b, m, &box);
  if (why) return why;
  if (box.pixels.walk.dims) return "the tile is not a box of the tensor";
  if ((why = copy_box_tensor(f->d, b, &box))) return why;
  return stages_have_room(f->cx, f->k, f->tiles, mem_bytes(m)) ? NULL : "shared memory has no room";
}

static const char *why_not(const Fetch *f, const Op *read, MemLayout *m) {
  const char *why = why_not_early(f, read);
  if (!why) why = why_not_laid_out(f, read, m);
  if (why || copy_stage_is_there(f->d, f->cx->facts.in_bounds[read->id], f->loop->next)) return why;
  return "the position of the tile is not known when the loop ends";
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

static const char *find_loops(Fetch *f) {
  f->tiles = copy_stage_loop(f->k);
  for (Op *op = f->tiles ? f->tiles->body->first : NULL; op; op = op->next)
    if (op->kind == OP_for && schedule_roles(f->k, op, f->cx->target)) f->loop = op;
  if (f->loop) return NULL;
  return f->tiles ? "no loop has service waves" : "a workgroup computes only one tile";
}

/* Once for a row, however many variants are compiled. */
static bool is_said(const Fetch *f, const Constraint *row) {
  for (const Diag *d = f->k->cx->diags.first; d; d = d->next)
    if (d->code == DIAG_R0609 && memcmp(&d->at, &row->at, sizeof d->at) == 0 &&
        strstr(d->text, OPTION))
      return true;
  return false;
}

/* read: the one that is not copied; NULL: it does not depend on a read. */
static void remark(const Fetch *f, const Op *read, const char *why) {
  const Constraint *row = kernel_constraint(f->k, CONSTRAINT_fetch, NULL);
  Diags *diags = &f->k->cx->diags;
  if (is_said(f, row)) return;
  Diag *d = diag_add(diags, DIAG_R0609, row->at, "`" OPTION "` has no effect on `%s`: %s",
                     f->k->name, why);
  if (read) diag_note(diags, d, read->at, "this read of `%s`", memory_name(f->k, read->args[0]));
}

/* Whether a read is staged: there is room for one, and facts are those of the kernel before. */
static bool stage_one(const Fetch *f) {
  const Op *first = NULL;
  const char *said = "nothing is read after the loop";
  for (Op *op = f->loop->next; op; op = op->next) {
    MemLayout m;
    if (op->kind != OP_read || memory_is_scratch(op->args[0])) continue;
    const char *why = why_not(f, op, &m);
    if (!why) return stage(f, op, &m), true;
    if (!first) first = op, said = why;
  }
  return remark(f, first, said), false;
}

bool pass_fetch(Kernel *k, PassCtx *cx) {
  Fetch f = {.k = k, .cx = cx, .d = cx->facts.distribute};
  cx->idle = true;
  if (!cx->target || !cx->machine || !distribute_is_on(f.d, CONSTRAINT_fetch)) return true;
  const char *why =
      target_has(cx->target, FEATURE_TMA) ? find_loops(&f) : "the machine has no copy engine";
  if (why) remark(&f, NULL, why);
  else cx->idle = !stage_one(&f);
  return true;
}
