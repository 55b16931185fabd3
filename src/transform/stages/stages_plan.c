/* stages_plan.c: see stages_plan.h. */
#include "transform/stages/stages_plan.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_plan.h"
#include "transform/stages/roles/stages_roles.h"
#include "transform/stages/stages_depth.h"
#include "transform/stages/stages_lead.h"
#include "transform/stages/stages_rows.h"

/* Reports once for each source location: `version` has made copies of loops. */
static bool is_said(const StagesPlanner *p, const Op *op) {
  for (const Diag *d = p->k->cx->diags.first; d; d = d->next)
    if (d->code == DIAG_R0608 && memcmp(&d->at, &op->at, sizeof op->at) == 0) return true;
  return false;
}

/* ---- loops ---- */
static bool has_copies(const Region *r) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->kind == OP_copy && memory_is_scratch(op->args[1])) return true;
  return false;
}

static bool has_copies_deeper(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op->kind == OP_for && has_copies(op->body)) return true;
  return false;
}

static bool runs_once(const StagesPlanner *p, const StagedLoop *l) {
  return sym_range(p->k->cx->sym, p->d->facts, l->trips).hi <= l->step;
}

/* Expressions of ops are about the symbol as it is set where they stand. */
static bool has_set_symbol(const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op->kind == OP_set_symbol) return true;
  return false;
}

/* Why nothing in the loop may be prefetched; NULL: something may. */
static const char *why_not_loop(const StagesPlanner *p, const StagedLoop *l) {
  if (op_has(l->loop, ATTR_from)) return "its start is computed by the kernel";
  if (!l->trips || runs_once(p, l)) return "it has at most one iteration";
  if (has_set_symbol(l->loop)) return "it sets a symbol";
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (op_has(op, ATTR_volatile)) return "what it reads may change";
  return NULL;
}

/* ---- copies ---- */

/* What is read there was copied to the allocation earlier in the same iteration, or outside any
 * loop that is pipelined. */
static bool is_fed(const StagesPlanner *p, const MemoryUse *read) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->memory != read->memory || use->op->kind != OP_copy || use->how != TOUCH_WRITE)
      continue;
    const Op *around = op_ancestor_in(read->op, use->op->parent);
    if (around && around != use->op && op_comes_before(use->op, around)) return true;
  }
  return false;
}

/* For the allocation that `use` writes: this is the only write in the loop, and all reads are
 * fed. */
static const char *why_not_ring(const StagesPlanner *p, const Op *loop, const Op *copy,
                                int memory) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->memory != memory || use->op == copy) continue;
    bool reads = use->how == TOUCH_READ;
    if (staged_are_parts(use->op, copy)) continue;
    if (!reads && op_is_inside(use->op, loop)) return "its tile is written";
    if (reads && !is_fed(p, use)) return "its tile is read in another iteration";
  }
  return NULL;
}

static const char *why_not_source(const StagesPlanner *p, const Op *loop, int memory) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->memory == memory && use->how != TOUCH_READ && op_is_inside(use->op, loop))
      return "the loop writes to it";
  }
  return NULL;
}

static const char *why_not_copy(const StagesPlanner *p, const StagedLoop *l, const Op *copy) {
  const Op *alloc = copy->args[1]->def;
  MemLayout slot;
  if (!alloc || alloc->kind != OP_alloc) return "its tile is loop-carried";
  if (op_has(alloc, ATTR_ring) || op_has(copy, ATTR_iteration))
    return "the kernel already stages it explicitly";
  if (!alloc_slot_layout(alloc, &slot) || slot.dims == LAYOUT_DIMS)
    return "its tile size is unknown";
  const char *why = lead_why_not_tables(p->k, p->arena, p->m, l->loop, copy);
  for (int i = 0; !why && i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->op != copy) continue;
    why = use->how == TOUCH_READ ? why_not_source(p, l->loop, use->memory)
                                 : why_not_ring(p, l->loop, copy, use->memory);
  }
  return why;
}

/* ---- products in flight ---- */

static bool reads_memory(const Op *op) {
  const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
  return mma && (mma->mma->shared_lhs || mma->mma->shared_rhs);
}

/* The only such product of the loop, if its result is used only by the next iteration's product,
 * which adds to it. */
static Op *find_product(const Op *loop) {
  const Op *yield = loop->body->last;
  Op *product = NULL;
  for (Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op)) {
    if (!reads_memory(op)) continue;
    if (product || op->parent != loop->body) return NULL;
    product = op;
  }
  for (int i = 0; product && i < yield->nargs; i++) {
    const Value *acc = loop->body->args[i];
    if (yield->args[i] != &product->results[0] || product->args[2] != acc) continue;
    if (ir_count_uses(loop->body, acc) == 1 && ir_count_uses(loop->body, &product->results[0]) == 1)
      return product;
  }
  return NULL;
}

/* A register operand would have to stay unchanged until the product has read it. */
static bool takes_registers(const Op *product) {
  const MmaChoice *choice = op_attr(product, ATTR_mma)->mma;
  return !choice->shared_lhs || !choice->shared_rhs;
}

bool staged_reads(const StagedCopy *c, const Op *op) {
  const Value *tile = &c->alloc->results[0];
  bool reads = op->kind == OP_read && op->args[0] == tile;
  for (int i = 0; !reads && i < op->nargs; i++) {
    const Op *left = op->args[i]->def;
    reads = left && lead_is_left(left) && left->args[0] == tile;
  }
  return reads && parts_overlap(c->copy, op, tile->type);
}

bool staged_are_parts(const Op *a, const Op *b) {
  return a->kind == OP_copy && b->kind == OP_copy && a->args[1] == b->args[1] &&
         a->parent == b->parent && op_has(a, ATTR_part) && op_has(b, ATTR_part);
}

bool staged_copies(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].copy == op) return true;
  return false;
}

/* The loop stores to a tile that the product reads, other than to another slot of a ring: the next
 * iteration would overwrite what a product still in flight reads. */
static const MemoryUse *find_overwrite(const StagesPlanner *p, const StagedLoop *l,
                                       const Op *product) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *read = &p->m->uses.at[i];
    if (read->op != product) continue;
    for (int j = 0; j < p->m->uses.n; j++) {
      const MemoryUse *use = &p->m->uses.at[j];
      if (use->memory == read->memory && use->how != TOUCH_READ && op_is_inside(use->op, l->loop) &&
          !staged_copies(l, use->op))
        return use;
    }
  }
  return NULL;
}

/* The product that may still be in flight when the next iteration begins; NULL: none. */
static Op *product_in_flight(const StagesPlanner *p, const StagedLoop *l) {
  Op *product = find_product(l->loop);
  if (!product || takes_registers(product)) return NULL;
  const MemoryUse *stored = find_overwrite(p, l, product);
  if (!stored) return product;
  if (!is_said(p, stored->op))
    diag_add(&p->k->cx->diags, DIAG_R0608, stored->op->at,
             "every iteration writes to the same tile of `%s`: the mma that reads it must finish "
             "before the next iteration starts",
             memory_name(p->k, p->m->memories.at[stored->memory]));
  return NULL;
}

/* ---- the plan ---- */

static void remark(const StagesPlanner *p, const Op *op, const char *what, const char *why) {
  Diags *diags = &p->k->cx->diags;
  if (is_said(p, op)) return;
  if (op->kind == OP_copy)
    diag_add(diags, DIAG_R0608, op->at, "the copy of `%s` %s: %s", memory_name(p->k, op->args[0]),
             what, why);
  else
    diag_add(diags, DIAG_R0608, op->at, "the loop over `%s` %s: %s",
             sym_text(diags->arena, op_attr(op, ATTR_axis)->sym), what, why);
}

/* A tile waits in registers if that was requested, or where depth_allows_waiting. */
static bool is_wanted(const StagesPlanner *p, const StagedCopy *c) {
  return c->async || p->wanted || p->target->file;
}

static void plan_copy(StagesPlanner *p, StagedLoop *l, Op *copy) {
  const char *why = why_not_copy(p, l, copy);
  StagedCopy c = {.copy = copy, .alloc = copy->args[1]->def, .boxes = copy_goes_by(copy, "tma")};
  c.async = c.boxes || copy_is_awaited(copy);
  c.pinned_ahead = c.pinned_slots = c.cycle = c.store_cycle = STAGED_FREE;
  c.load_stage = c.store_stage = STAGED_FREE;
  if (why && !staged_refuse(p->k, l, copy, why)) p->failed = true;
  else if (why) remark(p, copy, "is not prefetched", why);
  else if (staged_is_pinned(l) || (p->asked != 1 && is_wanted(p, &c)))
    vec_push(p->arena, &l->copies, c);
}

static void mark_obeyed(StagesPlanner *p, const StagedLoop *l) {
  const Constraint *rows = p->k->constraints.at;
  if (l->row) p->obeyed[l->row - rows] = true;
  for (int i = 0; i < l->rings.n; i++) p->obeyed[l->rings.at[i].row - rows] = true;
}

static StagedLoop new_loop(StagesPlanner *p, Op *loop) {
  StagedLoop l = {.loop = loop, .axis = op_attr(loop, ATTR_axis)->sym};
  l.counter = ir_loop_counter(p->k, l.axis);
  l.trips = distribute_trips(p->d, loop);
  l.step = op_step(loop);
  l.count = l.trips ? op_iterations(p->k, loop, l.trips) : NULL;
  if (p->obeyed) staged_read_rows(p->k, p->arena, p->target, &l);
  return l;
}

static bool fail_keeps(const StagesPlanner *p, const StagedLoop *l, const char *why) {
  Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, l->order->at,
                     "the ops of the loop `%s` keep their order: %s", l->order->order.loop, why);
  diag_note(&p->k->cx->diags, d, l->loop->at, "the loop");
  return false;
}

/* What rows ask for. In a loop in which nothing is early they may only say what is so anyway. */
static void obey(StagesPlanner *p, StagedLoop *l) {
  bool own = l->depth == staged_own_depth(p->k, l->loop);
  if (l->order) l->early = NULL; /* it would move behind what uses it */
  if (!staged_is_pinned(l)) p->failed |= !staged_order(p->k, p->arena, p->m, l);
  if (!staged_is_pinned(l)) return;
  if (l->copies.n || own) mark_obeyed(p, l);
  p->failed |= !staged_pin(p->k, p->arena, p->m, l);
  if (l->lead) mark_obeyed(p, l);
  if (l->early && !lead_find_product(l)) l->early = NULL; /* a tile of it is not prefetched */
}

static void plan_fixed(StagesPlanner *p, StagedLoop *l, const char *why) {
  mark_obeyed(p, l);
  if (l->trips && runs_once(p, l)) return; /* nothing can be early, and copies come first */
  if (l->order && has_set_symbol(l->loop)) p->failed |= !fail_keeps(p, l, why);
  else if (!staged_is_pinned(l)) p->failed |= !staged_order(p->k, p->arena, p->m, l);
  if (p->failed) return;
  p->failed |= !staged_refuse(p->k, l, NULL, why) || !staged_pin(p->k, p->arena, p->m, l);
}

/* Registers do not hold two results of the early product. With service waves, all but the second product can be early,
 * so that one result is held, and what becomes of it. */
static void leave_to_served(const StagesPlanner *p, StagedLoop *l) {
  l->only_served = true;
  const Op *late = lead_find_second(p->k, p->arena, l, true);
  if (!late || !staged_has_room_late(&p->room, l, late)) l->early = NULL;
}

/* Copies of a loop around others with copies are prefetched only if rows ask for it. */
static void plan_loop(StagesPlanner *p, Op *loop) {
  StagedLoop l = new_loop(p, loop);
  bool copies = has_copies(loop->body);
  if (!staged_is_pinned(&l) && !l.order && (!copies || has_copies_deeper(loop))) return;
  const char *why = why_not_loop(p, &l);
  if (why && copies) remark(p, loop, "is not pipelined", why);
  if (why) {
    plan_fixed(p, &l, why);
    return;
  }
  for (Op *op = loop->body->first; copies && op && !p->failed; op = op->next)
    if (op->kind == OP_copy && copy_is_in(op)) plan_copy(p, &l, op);
  if (p->failed) return;
  l.early = lead_find_product(&l);
  if (l.early && !staged_has_room_early(&p->room, &l)) leave_to_served(p, &l);
  obey(p, &l);
  if ((!l.copies.n && !l.lead) || p->failed) return;
  l.product = l.may_fly = l.lead ? NULL : product_in_flight(p, &l);
  l.may_be_early = l.early;
  vec_push(p->arena, &p->plan.loops, l);
}

/* Some tile waits in registers until its only slot has been read. */
static bool has_kept(const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].kept || l->copies.at[i].slots == 1) return true;
  return false;
}

static bool is_first_part(const StagedLoop *l, int copy) {
  for (int i = 0; i < copy; i++)
    if (l->copies.at[i].alloc == l->copies.at[copy].alloc) return false;
  return true;
}

/* Of the ring that a copy fills, possibly with other parts. */
static int slots_of(const StagedLoop *l, int copy) {
  int most = 0;
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].alloc == l->copies.at[copy].alloc && l->copies.at[i].slots > most)
      most = l->copies.at[i].slots;
  return most;
}

/* "4 tiles of each operand", or how many of which. */
static const char *tiles_text(const StagesPlanner *p, const StagedLoop *l) {
  StrBuf out = {.arena = p->k->cx->diags.arena};
  bool equal = true;
  for (int i = 1; i < l->copies.n; i++) equal &= slots_of(l, i) == slots_of(l, 0);
  int n = l->copies.n ? slots_of(l, 0) : 0;
  if (!l->copies.n) return NULL;
  if (equal) sb_printf(&out, "%d tile%s of each operand", n, n == 1 ? "" : "s");
  for (int i = 0; !equal && i < l->copies.n; i++)
    if (is_first_part(l, i))
      sb_printf(&out, "%s%d%s of `%s`", i ? ", " : "", slots_of(l, i), i ? "" : " tiles",
                memory_name(p->k, l->copies.at[i].copy->args[0]));
  return sb_text(&out);
}

static const char *why_single(const StagesPlanner *p) {
  return p->room.cx->machine->waves == 1 ? "a wave alone needs no second tile"
                                         : "a second tile would leave room for fewer waves";
}

/* What is early besides copies; "": nothing. */
static const char *early_text(const StagesPlanner *p, const StagedLoop *l) {
  if (l->late) return "does all but its second mma one iteration early";
  if (l->early) return "starts its first mma one iteration early";
  if (!l->lead) return "";
  return arena_printf(p->k->cx->diags.arena, "computes ops up to %d iteration%s early", l->lead,
                      l->lead == 1 ? "" : "s");
}

static void remark_depth(const StagesPlanner *p, const StagedLoop *l, const char *why) {
  const char *because = staged_is_pinned(l)        ? "its schedule says so"
                        : staged_has_async(l)      ? why
                        : p->single && has_kept(l) ? why_single(p)
                                                   : "copies go through registers";
  const char *tiles = tiles_text(p, l), *early = early_text(p, l);
  remark(p, l->loop,
         arena_printf(p->k->cx->diags.arena, "%s%s%s%s%s", tiles ? "keeps " : "",
                      tiles ? tiles : "", has_kept(l) ? " and the next in registers" : "",
                      tiles && *early ? " and " : "", early),
         because);
}

/* Keeps what is prefetched, and says what that is. */
static void keep_ahead(StagesPlanner *p, const char *why) {
  int loops = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    StagedLoop *l = &p->plan.loops.at[i];
    int copies = 0;
    for (int j = 0; j < l->copies.n; j++)
      if (l->copies.at[j].ahead + l->copies.at[j].kept > 0)
        l->copies.at[copies++] = l->copies.at[j];
    l->copies.n = copies;
    lead_find_most(p->k, p->arena, l);
    if (l->lead) l->product = l->early = NULL;
    bool served = schedule_roles(p->k, l->loop, p->target) != NULL;
    l->late = lead_find_second(p->k, p->arena, l, served);
    if (copies || l->lead) remark_depth(p, l, why);
    else remark(p, l->loop, "is not pipelined", why);
    if (copies || l->lead) p->plan.loops.at[loops++] = *l;
  }
  p->plan.loops.n = loops;
}

/* Only asynchronous copies are prefetched. */
static void drop_waiting(StagesPlanner *p, const char *why) {
  int loops = p->plan.loops.n;
  p->plan.loops.n = 0;
  for (int i = 0; i < loops; i++) {
    StagedLoop l = p->plan.loops.at[i];
    bool others = staged_has_async(&l) || staged_is_pinned(&l);
    int copies = l.copies.n;
    l.copies.n = 0;
    for (int j = 0; j < copies; j++) {
      const StagedCopy c = l.copies.at[j];
      if (c.async || staged_is_pinned(&l)) l.copies.at[l.copies.n++] = c;
      else if (others) remark(p, c.copy, "is not prefetched", why);
    }
    if (others) p->plan.loops.at[p->plan.loops.n++] = l;
    else remark(p, l.loop, "is not pipelined", why);
  }
}

/* A number that is not known yet requests nothing. */
static int asked_slots(const StagesPlanner *p, const Constraint *stages) {
  int64_t n;
  return sym_is_int(distribute_expr(p->d, NULL, stages->stages.count), &n) ? (int)n : 0;
}

static bool choose(StagesPlanner *p) {
  const char *why;
  if (p->plan.loops.n && !depth_allows_waiting(p, &why)) drop_waiting(p, why);
  if (!p->plan.loops.n) return true;
  if (!depth_choose(p, &why)) return false;
  bool chosen = roles_add(p->k, p->room.cx, &p->plan);
  for (int i = 0; i < p->plan.loops.n; i++) p->plan.loops.at[i].chosen = chosen;
  if (chosen && !depth_choose(p, &why)) return false;
  keep_ahead(p, why);
  return true;
}

bool stages_plan(Kernel *k, PassCtx *cx, StagesPlan *out) {
  const Constraint *stages = kernel_constraint(k, CONSTRAINT_stages, NULL);
  StagesPlanner p = {.k = k, .arena = cx->scratch, .d = cx->facts.distribute};
  p.m = cx->facts.memory_uses;
  p.target = cx->target;
  p.asked = stages ? asked_slots(&p, stages) : 0;
  p.wanted = stages && p.asked != 1;
  if (kernel_has_schedule(k)) p.obeyed = ARENA_ARRAY(p.arena, bool, k->constraints.n);
  if (!cx->machine || !p.target || (p.asked == 1 && !p.obeyed)) return true;
  p.room = stages_room(k, cx);
  for (Op *op = ir_first(k); op && !p.failed; op = ir_next(op)) {
    if (op->kind == OP_for) plan_loop(&p, op);
  }
  bool ok =
      !p.failed && (!p.obeyed || staged_check_rows(k, p.arena, p.target, p.obeyed)) && choose(&p);
  *out = p.plan;
  return ok;
}
