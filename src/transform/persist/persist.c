/* persist: lets each workgroup compute tiles of the grid one after another.
 *
 *     workgroup M by 128 on 0               persist 132 loop $TILES
 *     workgroup N by 256 on 1               tile $TILES by 1 iters ceiling((tiles - $WG0)/132)
 *     %r = for K { ... }               =>   roles K load 4, math 8
 *     write %r, %c                          for $TILES { %r = for K { ... }; write %r, %c }
 *
 * Service waves (`roles`) fill the rings of the loop for the next tile while the others write the
 * results of this one. Without them, a workgroup begins with empty rings, and if only one fits on a
 * compute unit, nothing else runs meanwhile. So such a kernel is changed by default, if a copy engine
 * fills all of its shared memory, and there are more tiles than compute units. A row `persist`
 * requests the change, or forbids it (`persist 0`).
 *
 * If the loop is not as long for each tile, and short or a row asks, its iterations are counted
 * (persist_body.h). It is probably longer towards one end of the first dimension, as under a causal
 * mask: a workgroup then takes pairs of tiles, one from each end (`pairs`), so that all have about
 * as much to do.
 *
 * Tiles that are computed at the same time form a rectangle (`raster`) for which few operands are read.
 * Two neighbours in it are computed by a cluster of two workgroups if they need the same tile of an
 * operand: each copies one half of it into the shared memory of both.
 *
 * Positions follow from the rows and the counter (distribute.c). Needs header, distribute and bounds;
 * keeps results. */
#include "analysis/access/in_bounds.h"
#include "analysis/tensor_rows.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "transform/copy/copy_box.h"
#include "transform/pass.h"
#include "transform/persist/persist_body.h"
#include "transform/stages/roles/stages_roles.h"
#include "transform/stages/stages_room.h"

enum {
  CLUSTER = 2, /* workgroups that copy for each other: more gained nothing in published kernels */
  FEW_WAVES = 8,
  FEW_ITERATIONS = 8 /* of these; more waves take less time for one */
};

/* Of the bytes that tiles which are computed at the same time read. */
#define WORTH_DIVIDING 1.1

typedef struct Persist {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  const Constraint *row; /* that requests it; NULL: none */
  PersistBody body;
  const Sym *trips;   /* iterations of the loop */
  Op *loop;           /* whose rings the service waves fill */
  const Sym *tiles;   /* of the grid */
  int64_t workgroups; /* that share them */
  int along, rows;    /* their order (`raster`); 0: that of their numbers */
  int cluster;        /* workgroups that copy for each other; 1: none */
} Persist;

/* ---- what prevents it ---- */

static bool has_engine(const TargetInfo *t) {
  return t->units && target_has(t, SERVICE_FEATURES | FEATURE_SETMAXNREG);
}

/* Whether each tile in shared memory is filled by the copy engine: some in the loop, others before it. */
static bool engine_copies_all(const Persist *p) {
  int copies = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind == OP_write && memory_is_scratch(op->args[1])) return false;
    if (op->kind != OP_copy) continue;
    bool first = op->parent == p->k->body && op_comes_before(op, p->loop);
    if ((op->parent != p->loop->body && !first) || !copy_goes_by(op, "tma")) return false;
    copies += !first;
  }
  return copies > 0;
}

/* What keeps the kernel from being changed; NULL: nothing. */
static const char *obstacle(Persist *p) {
  const HardwareSpec *hardware = kernel_hardware(p->k);
  const Sym *given = p->row ? distribute_expr(p->d, NULL, p->row->persist.workgroups) : NULL;
  if (given && !sym_is_int(given, &p->workgroups)) return "the number of workgroups is not known";
  if (!has_engine(p->cx->target)) return "the machine has no waves that only copy";
  if (!p->cx->machine || p->cx->machine->observable)
    return "its threads hold what the kernel declares";
  if (p->d->explicit_grid) return "it computes positions itself";
  int peers;
  if ((hardware && hardware->cluster[0]) || kernel_split_axis(p->k, &peers) >= 0)
    return "its workgroups form clusters";
  p->loop = kernel_only_loop(p->k);
  if (!p->loop) return "it does not have exactly one loop";
  if (!engine_copies_all(p)) return "the copy engine does not fill all of its shared memory";
  p->trips = distribute_trips(p->d, p->loop);
  if (!p->trips) return "the length of its loop is not known";
  return NULL;
}

/* ---- the decision ---- */

/* Whether a row leaves open which waves copy, and leaves enough slots for service waves. */
static bool is_open_row(const Constraint *c) {
  if (c->kind == CONSTRAINT_ring) return c->ring.slots >= SERVICE_SLOTS;
  return c->kind == CONSTRAINT_schedule && !c->schedule.depth && !c->schedule.unroll &&
         !c->schedule.drain && !schedule_kind_depth(c->schedule.how);
}

/* Whether service waves fill the rings, or may: a workgroup has room for them. */
static bool may_have_roles(const Persist *p) {
  if (schedule_roles(p->k, p->loop, p->cx->target)) return true;
  if (!roles_have_room(p->cx, p->loop)) return false;
  for (int i = 0; i < p->k->constraints.n; i++) {
    const Constraint *c = &p->k->constraints.at[i];
    if (schedule_is_row(c) && schedule_is_for(c, p->cx->target) && !is_open_row(c)) return false;
  }
  return true;
}

/* Bytes of the largest tile of results that the copy engine may write (stores.c). */
static int64_t result_bytes(const Persist *p) {
  int64_t most = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    int extent[IR_MAX_RANK];
    const Type *t = op->kind == OP_write ? op->args[0]->type : NULL;
    if (!t || t->kind != TYPE_tile || !distribute_extents(p->d, op, t, extent)) continue;
    int64_t bytes = dtype_info[t->dtype].bits / 8;
    for (int i = 0; i < t->rank; i++) bytes *= extent[i];
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool shares_crossing(Persist *p);

/* Iterations for the first tile of each dimension, or the last one, with the sizes that are expected; -1: not known. */
static int64_t expected_trips(const Persist *p, bool last) {
  SymCtx *sym = p->k->cx->sym;
  const Sym *trips = persist_set_values(&p->body, p->trips);
  int64_t n;
  for (int axis = 0; axis < (int)WV_LEN(p->d->tiles); axis++)
    for (int nonneg = 0; nonneg < 2; nonneg++) {
      const Sym *end = sym_sub(sym, p->d->tiles[axis], sym_int(sym, 1));
      SymBinding to = {ir_numbered_symbol(p->k->cx, "$WG", axis, nonneg),
                       last ? end : sym_int(sym, 0)};
      trips = trips ? sym_subst(sym, trips, &to, 1) : NULL;
    }
  trips = trips ? kernel_expected(p->k, trips) : NULL;
  if (!trips) sym_take_error(sym);
  return trips && sym_is_int(trips, &n) ? n : -1;
}

/* Whether the loop is short for each tile, which is shortest or longest at an end. How a tile begins and ends then counts
 * for more: attention of heads of 128 under a causal mask takes 173 instead of 194 us
 * with 1024 tokens (8 iterations), but 321 instead of 301 with 2048 (H200). */
static bool is_short(const Persist *p) {
  int64_t first = expected_trips(p, false), last = expected_trips(p, true), few = FEW_ITERATIONS;
  if (p->cx->machine->waves > FEW_WAVES) few = few * p->cx->machine->waves / FEW_WAVES;
  return first >= 0 && first <= few && last >= 0 && last <= few;
}

/* Whether the end of a tile, where some are copied before the loop, overlaps with the next one: results have bytes of
 * their own. With more than two groups of waves, the others compute while one is there, unless the loop is short
 * (attention of heads of 64 by 256 rows on an H200: with 16 iterations 354 us become 347, with 32 641 become 657). */
static bool tiles_overlap(const Persist *p) {
  for (const Op *op = p->k->body->first; op; op = op->next)
    if (op->kind == OP_copy)
      return (p->cx->machine->waves <= FEW_WAVES || is_short(p)) &&
             stages_have_room(p->cx, p->k, NULL, result_bytes(p));
  return true;
}

/* With at most one tile for each workgroup there is nothing to overlap; but clusters halve the requests for an
 * operand, which are what limits a launch if its rows cross lines of the cache, and most compute units make them. */
static bool is_worthwhile(Persist *p) {
  int64_t tiles;
  const Sym *expected = kernel_expected(p->k, p->tiles);
  if (!may_have_roles(p)) return false;
  if (persist_differs(&p->body, p->trips) && !is_short(p)) return false;
  if (expected && sym_is_int(expected, &tiles) && tiles <= p->workgroups)
    return 2 * tiles > p->workgroups && shares_crossing(p);
  return stages_residents(p->cx, p->loop) < 2 && tiles_overlap(p);
}

static bool is_chosen(Persist *p) {
  p->row = kernel_constraint(p->k, CONSTRAINT_persist, NULL);
  if (p->row && (p->row->persist.loop || distribute_is_off(p->d, CONSTRAINT_persist))) return false;
  if (!p->cx->target) return false;
  p->workgroups = p->cx->target->units;
  const char *why = obstacle(p);
  if (why && p->row)
    return diag_fail(&p->k->cx->diags, DIAG_R0615, p->row->at,
                     "`%s` has a workgroup for each tile: %s", p->k->name, why);
  if (why) return false;
  return p->row || is_worthwhile(p);
}

/* ---- the order of tiles ---- */

/* Whether an expression may have another value for a tile that is a neighbour along a dimension of the grid. */
static bool differs_along(const Persist *p, const Sym *s, int axis) {
  for (int nonneg = 0; s && nonneg < 2; nonneg++)
    if (sym_contains(s, ir_numbered_symbol(p->k->cx, "$WG", axis, nonneg))) return true;
  return persist_is_set(&p->body, s);
}

typedef struct Neighbours {
  const Persist *p;
  int axis;
} Neighbours;

static bool is_along(const void *user, const Sym *s) {
  const Neighbours *n = user;
  return differs_along(n->p, s, n->axis);
}

/* Whether expressions of the op, such as a mapping, name the id along a dimension of the grid. */
static bool names_id(const Persist *p, const Op *op, int axis) {
  return op_has_sym(p->k, op, (SymSearch){is_along, &(Neighbours){p, axis}, false});
}

/* Whether tiles that are neighbours along a dimension of the grid need different elements. */
static bool depends_on(const Persist *p, const Op *copy, int axis) {
  const Type *tile = p->cx->facts.in_bounds[copy->id]->access.tile;
  for (int i = 0; i < tile->rank; i++) {
    TileRange range;
    if (!distribute_dim(p->d, copy, tile->dims[i], &range)) return true;
    if (differs_along(p, range.start, axis)) return true;
  }
  return names_id(p, copy, axis);
}

static double bytes_along(const Persist *p, int axis) {
  double sum = 0;
  for (const Op *op = p->loop->body->first; op; op = op->next)
    if (op->kind == OP_copy && depends_on(p, op, axis))
      sum += (double)alloc_bytes(op->args[1]->def);
  return sum;
}

/* `rows` times the bytes of one dimension and workgroups/rows times those of the other are read from
 * memory at a time. */
static double bytes_read(const Persist *p, int rows, const double bytes[2]) {
  return rows * bytes[p->along] + (double)p->workgroups / rows * bytes[1 - p->along];
}

/* The bytes are least if both products are equal. An even number of rows keeps clusters whole. A number that
 * divides the grid is worth somewhat more bytes: if the last group has fewer rows, divisions compute the
 * positions of tiles. */
static int best_rows(const Persist *p, const double bytes[2]) {
  int rows = 2;
  int64_t most;
  while ((rows + 1) * (rows + 1) * bytes[p->along] < (double)p->workgroups * bytes[1 - p->along])
    rows += 2;
  if (!sym_is_int(p->d->tiles[p->along], &most)) return rows;
  if (most < rows) return (int)(most + most % 2);
  double least = WORTH_DIVIDING * bytes_read(p, rows, bytes);
  int best = rows;
  for (int n = 2; n <= 2 * rows && n <= most; n += 2)
    if (most % n == 0 && bytes_read(p, n, bytes) <= least)
      best = n, least = bytes_read(p, n, bytes);
  return best;
}

static bool has_one(const Persist *p, int axis) {
  return p->d->tiles[axis] == sym_int(p->k->cx->sym, 1);
}

/* Rows are along the dimension whose neighbours share more. */
static void choose_order(Persist *p) {
  double bytes[2] = {bytes_along(p, 0), bytes_along(p, 1)};
  if (kernel_constraint(p->k, CONSTRAINT_reorder, NULL) || has_one(p, 0) || has_one(p, 1)) return;
  if (!bytes[0] || !bytes[1]) return;
  p->along = bytes[1] < bytes[0];
  p->rows = best_rows(p, bytes);
}

/* ---- clusters ---- */

/* Whether an access leaves out what is beyond the end along a dimension of the grid. *depends: it is not at the same
 * place everywhere along that. */
static bool ends_along(const Persist *p, const Op *op, int axis, bool *depends) {
  const AccessBounds *b = p->cx->facts.in_bounds[op->id];
  const Attr *mask = op_attr(op, ATTR_mask);
  bool ends = false;
  *depends = !b || !mask;
  for (int i = 0; b && mask && i < b->access.tile->rank; i++) {
    TileRange range;
    const Sym *x = access_x(p->k->cx->sym, i);
    if (!distribute_dim(p->d, op, b->access.tile->dims[i], &range)) return *depends = true, false;
    if (!differs_along(p, range.start, axis)) continue;
    *depends = true;
    for (int m = 0; m < mask->n; m++) ends |= sym_contains(mask->exprs[m], x);
  }
  return ends;
}

/* Whether a tile beyond the end along a dimension of the grid writes nothing, and reads nothing there. The copy engine
 * reads zeros. */
static bool may_go_beyond(const Persist *p, int axis) {
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    bool depends, writes = op_info[op->kind].flags & OPF_WRITES;
    bool reads = op->kind == OP_read && !op->args[0]->def;
    if (op->kind == OP_copy) continue;
    if (names_id(p, op, axis) || (writes && op->kind != OP_write)) return false;
    if ((writes || reads) && !ends_along(p, op, axis, &depends) && (writes || depends))
      return false;
  }
  return true;
}

static bool is_shared(const Persist *p, const Op *op) {
  CopyBox box;
  MemLayout slot;
  return op->kind == OP_copy && !depends_on(p, op, p->along) &&
         alloc_slot_layout(op->args[1]->def, &slot) &&
         !copy_box(p->d, p->cx->facts.in_bounds[op->id], &slot, &box) &&
         copy_box_share(&box, &slot, CLUSTER) >= 0;
}

/* Whether a copy walks over pixels (im2col). Clusters gain nothing then: a convolution of 64 images of 28x28x512 by
 * 128x256x32 takes 357 us with them and 342 without (H200). */
static bool walks_pixels(const Persist *p) {
  for (Op *op = p->loop->body->first; op; op = op->next) {
    CopyBox box;
    MemLayout slot;
    if (op->kind == OP_copy && alloc_slot_layout(op->args[1]->def, &slot) &&
        !copy_box(p->d, p->cx->facts.in_bounds[op->id], &slot, &box) && box.pixels.walk.dims)
      return true;
  }
  return false;
}

/* Neighbours of a row form a cluster if they share a tile that can be divided, and need it in as many iterations. A row
 * may be one tile longer than the grid; that tile then writes nothing. */
static bool may_cluster(const Persist *p) {
  if (!p->rows || !target_has(p->cx->target, FEATURE_CLUSTER) || p->workgroups < CLUSTER)
    return false;
  if (!may_have_roles(p) || walks_pixels(p) || differs_along(p, p->trips, p->along)) return false;
  return sym_divides(p->k->cx->sym, p->cx->facts.header, CLUSTER, p->d->tiles[p->along]) ||
         may_go_beyond(p, p->along);
}

/* Whether a cluster would halve the requests for rows that cross lines. */
static bool shares_crossing(Persist *p) {
  bool found = false;
  choose_order(p);
  if (!may_cluster(p)) return false;
  for (const Op *op = p->loop->body->first; op; op = op->next)
    found |= is_shared(p, op) && tensor_rows_cross(p->d, op->args[0]->type);
  return found;
}

static void choose_cluster(Persist *p) {
  p->cluster = 1;
  if (!may_cluster(p)) return;
  for (Op *op = p->loop->body->first; op; op = op->next) {
    if (!is_shared(p, op)) continue;
    op_set_attr(p->k, op, (Attr){.key = ATTR_peers, .integer = CLUSTER});
    p->cluster = CLUSTER;
  }
  p->workgroups -= p->workgroups % p->cluster;
}

/* ---- the loop over tiles ---- */

static Constraint *add_row(Persist *p, ConstraintKind kind) {
  vec_push(p->k->arena, &p->k->constraints, constraint_empty(kind, p->k->at));
  return &p->k->constraints.at[p->k->constraints.n - 1];
}

static void add_rows(Persist *p, const Sym *axis) {
  SymCtx *sym = p->k->cx->sym;
  const Sym *all = sym_int(sym, p->workgroups), *each = sym_int(sym, p->cluster);
  const Sym *first = ir_numbered_symbol(p->k->cx, "$WG", 0, true), *tiles = p->tiles;
  if (p->cluster > 1) {
    const Sym *along = p->d->tiles[p->along], *across = p->d->tiles[1 - p->along];
    tiles = sym_mul(sym, sym_mul(sym, each, sym_ceildiv(sym, along, each)), across);
    tiles = sym_mul(sym, tiles, p->d->tiles[2]);
    first = sym_mul(sym, each, sym_floordiv(sym, first, each));
  }
  Constraint *tile = add_row(p, CONSTRAINT_tile);
  tile->tile.dim = axis, tile->tile.size = sym_int(sym, 1);
  if (p->rows) {
    Constraint *raster = add_row(p, CONSTRAINT_raster);
    raster->raster.rows = p->rows, raster->raster.axis = p->along;
  }
  if (!p->row) add_row(p, CONSTRAINT_persist);
  for (int i = 0; i < p->k->constraints.n; i++) {
    Constraint *c = &p->k->constraints.at[i];
    if (c->kind != CONSTRAINT_persist) continue;
    c->persist.workgroups = all, c->persist.loop = axis;
    c->persist.cluster = p->cluster > 1 ? p->cluster : 0;
    c->persist.pairs = !p->rows && persist_differs(&p->body, p->trips);
  }
  tile = (Constraint *)(uintptr_t)kernel_constraint(p->k, CONSTRAINT_tile, axis);
  tile->tile.count = distribute_tile_count(p->d, kernel_persistent(p->k), tiles, first);
}

static void add_roles(Persist *p) {
  Kernel *k = p->k;
  if (!may_have_roles(p) || schedule_roles(k, p->loop, p->cx->target)) return;
  const char *loop = schedule_loop_name(k->arena, p->loop);
  vec_push(k->arena, &k->constraints,
           schedule_service_row(k->arena, k, loop, p->cx->machine->waves));
}

bool pass_persist(Kernel *k, PassCtx *cx) {
  SymCtx *sym = k->cx->sym;
  const Distribution *d = cx->facts.distribute;
  Persist p = {.k = k, .cx = cx, .d = d, .body = persist_body(k, cx->scratch)};
  p.tiles = sym_mul(sym, d->tiles[0], sym_mul(sym, d->tiles[1], d->tiles[2]));
  cx->idle = true;
  if (!p.tiles || !is_chosen(&p)) return true;
  cx->idle = false;
  const Sym *axis = sym_symbol(sym, "$TILES", true), *ids[WORKGROUP_DIMS];
  choose_order(&p);
  choose_cluster(&p);
  add_roles(&p);
  int rows = k->constraints.n;
  add_rows(&p, axis);
  distribute_tile_ids(d, ids);
  Op *over = persist_enclose(&p.body, axis);
  if (persist_differs(&p.body, p.trips)) persist_count_runs(&p.body, over, p.loop, p.trips);
  persist_rename_ids(&p.body, ids, rows);
  diag_add(&k->cx->diags, DIAG_R0617, k->at,
           "%lld workgroups compute the tiles of `%s` one after another", (long long)p.workgroups,
           k->name);
  return true;
}
