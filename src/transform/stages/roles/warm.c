/* warm: service waves prefetch what is read after their loop into the L2 cache.
 *
 *     for $TILES {                              for $TILES {
 *       %r = for K {                              %r = for K {
 *         copy %a, %s {role = "load"}               copy %a, %s {role = "load"}
 *         ...                              =>       prefetch %c {expr = $ARGK - 24, parts = 8, role = "load"}
 *       }                                           ...
 *       %x = read %c                              }
 *     }                                           %x = read %c
 *
 * The waves that compute read a residual after the loop, and have nothing to do until it arrives. Most of that time is the
 * latency of memory: from the L2 cache, it takes a third. A prefetch needs no registers and no wait, so service waves
 * issue it for the tile whose copies they are making. They are a few iterations ahead of the others by then, or a
 * tile. Parts of the tile are prefetched in the last iterations, one in each: earlier, what the loop
 * copies might displace a part from the cache again, and all at once would delay these copies.
 *
 * Comes after `stages`, which decides which loops have service waves. Keeps results. */
#include "analysis/access/in_bounds.h"
#include "ir/ops/access.h"
#include "transform/copy/copy_box.h"
#include "transform/copy/copy_stage.h"
#include "transform/pass.h"

enum {
  PARTS = 8,     /* iterations that prefetch: an estimate */
  LEAST = 8192,  /* bytes of a tile: less is a few lines, which many workgroups often share */
  MOST = 1 << 18 /* of all tiles: 132 times as much is two thirds of the cache of an H200 */
};

typedef struct Warm {
  Kernel *k;
  const Distribution *d;
  const AccessBounds *const *bounds;
  int64_t bytes; /* of what has been added */
  bool changed;
} Warm;

/* The role of the waves that copy for the loop; NULL: it has none. */
static const char *role_of(const Warm *w, const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (copy_barriers(op) && op_is_served(w->k, op)) return op_attr(op, ATTR_role)->text;
  return NULL;
}

/* A read of an argument, or a copy of it that service waves make after the loop (fetch). */
static bool is_plain(const Warm *w, const Op *op) {
  bool read = op->kind == OP_read && op->nargs == 1 && !op_has(op, ATTR_ept);
  if (!read && !(copy_barriers(op) && op_is_served(w->k, op))) return false;
  return w->bounds[op->id] && !memory_is_scratch(op->args[0]) && !op_has(op, ATTR_mapping) &&
         !op_has(op, ATTR_volatile);
}

/* Into how many parts the tile is divided: as many as the loop has iterations, if these are few. 0: it is not
 * prefetched. */
static int parts_of(const Warm *w, const Op *read, const Sym *trips) {
  CopyBox box;
  const AccessBounds *b = w->bounds[read->id];
  const Sym *expected = kernel_expected(w->k, trips);
  int64_t n;
  if (!b || copy_box_of_tile(w->d, b, &box) || copy_box_tensor(w->d, b, &box)) return 0;
  if (box.bytes < LEAST || w->bytes + box.bytes > MOST) return 0;
  if (!expected || !sym_is_int(expected, &n)) n = PARTS;
  int parts = PARTS;
  for (CopyBox part = box; parts > 1; part = box, parts /= 2)
    if (parts <= n && copy_box_divide(&part, parts) >= 0) break;
  return parts;
}

static void add(Warm *w, Op *loop, const Op *read, const Sym *trips, int parts, const char *role) {
  SymCtx *sym = w->k->cx->sym;
  const Sym *counter = ir_loop_counter(w->k, op_attr(loop, ATTR_axis)->sym);
  const Sym *first = sym_sub(sym, trips, sym_int(sym, parts));
  Value *memory = read->args[0];
  Op *op = ir_insert(w->k, loop->body->last, OP_prefetch, read->at, &memory, 1, NULL);
  op_set_attr(w->k, op, (Attr){.key = ATTR_expr, .sym = sym_sub(sym, counter, first)});
  op_set_attr(w->k, op, (Attr){.key = ATTR_parts, .integer = parts});
  op_set_attr(w->k, op, (Attr){.key = ATTR_mask});
  op_set_attr(w->k, op, (Attr){.key = ATTR_role, .text = role});
  CopyBox box;
  copy_box_of_tile(w->d, w->bounds[read->id], &box);
  w->bytes += box.bytes;
  w->changed = true;
  diag_add(&w->k->cx->diags, DIAG_R0628, read->at,
           "`%s` is prefetched in the last iterations of the loop before it",
           memory_name(w->k, memory));
}

static void visit_loop(Warm *w, Op *loop) {
  const char *role = role_of(w, loop);
  const Sym *trips = role ? distribute_trips(w->d, loop) : NULL;
  const Op *around = loop;
  if (!trips || op_has(loop, ATTR_from) || op_step(loop) != 1) return;
  while (around->parent->owner && around->parent->owner->kind == OP_if)
    around = around->parent->owner;
  for (const Op *op = around->next; op; op = op->next) {
    if (!is_plain(w, op) || !copy_stage_is_there(w->d, w->bounds[op->id], loop->body->last))
      continue;
    int parts = parts_of(w, op, trips);
    if (parts) add(w, loop, op, trips, parts, role);
  }
}

bool pass_warm(Kernel *k, PassCtx *cx) {
  Warm w = {.k = k, .d = cx->facts.distribute, .bounds = cx->facts.in_bounds};
  cx->idle = true;
  if (!cx->target || !target_has(cx->target, FEATURE_TMA)) return true;
  if (distribute_is_off(w.d, CONSTRAINT_warm)) return true;
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_for) visit_loop(&w, op);
  cx->idle = !w.changed;
  return true;
}
