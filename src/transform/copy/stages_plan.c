/* stages_plan.c: see stages_plan.h. */
#include "transform/copy/stages_plan.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_plan.h"
#include "transform/copy/stages_early.h"
#include "transform/copy/stages_rows.h"

enum {
  MOST_SLOTS = 4,
  SLOTS_IN_FLIGHT = 4,    /* minimum for a product to stay in flight: copies run two ahead */
  SLOTS_EARLY = 3,        /* minimum for a product to be computed early: the same */
  WORTH_SHARING = 3,      /* slots that each of two workgroups on one SM should have */
  REGISTERS = 65536,      /* of an SM */
  MOST_REGISTERS = 255,   /* per thread */
  WORKING_REGISTERS = 64, /* per thread, besides what a loop carries */
  SPARE_REGISTERS = 28,   /* per thread, besides all results of products: addresses and the like */
  RESERVED = 1024         /* bytes of shared memory that the system takes per workgroup */
};

typedef struct Planner {
  Kernel *k;
  Arena *arena;
  const Distribution *d;
  const MemoryUses *m;
  const TargetInfo *target;
  int threads;  /* of a workgroup */
  bool wanted;  /* the header requests stages ... */
  int asked;    /* ... with this many slots; 0: left to the compiler */
  int slots;    /* of rings that no row pins; below 2: their tiles are not prefetched */
  bool *obeyed; /* rows of a schedule, by number; NULL: there are none */
  bool failed;  /* a row cannot be obeyed */
  StagesPlan plan;
} Planner;

/* Reports once for each source location: `version` has made copies of loops. */
static bool is_said(const Planner *p, const Op *op) {
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

static bool runs_once(const Planner *p, const Sym *trips) {
  return sym_range(p->k->cx->sym, p->d->facts, trips).hi <= 1;
}

/* Why nothing in the loop may be prefetched; NULL: something may. */
static const char *why_not_loop(const Planner *p, const StagedLoop *l) {
  if (op_has(l->loop, ATTR_from)) return "its start is computed by the kernel";
  if (op_has(l->loop, ATTR_step)) return "it skips iterations";
  if (!l->trips || runs_once(p, l->trips)) return "it has at most one iteration";
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op)) {
    if (op->kind == OP_set_symbol) return "it sets a symbol";
    if (op_has(op, ATTR_volatile)) return "what it reads may change";
  }
  return NULL;
}

/* ---- copies ---- */

/* What is read there was copied to the allocation earlier in the same iteration, or outside any
 * loop that is pipelined. */
static bool is_fed(const Planner *p, const MemoryUse *read) {
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
static const char *why_not_ring(const Planner *p, const Op *loop, const Op *copy, int memory) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->memory != memory || use->op == copy) continue;
    bool reads = use->how == TOUCH_READ;
    if (!reads && op_is_inside(use->op, loop)) return "its tile is written";
    if (reads && !is_fed(p, use)) return "its tile is read in another iteration";
  }
  return NULL;
}

static const char *why_not_source(const Planner *p, const Op *loop, int memory) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (use->memory == memory && use->how != TOUCH_READ && op_is_inside(use->op, loop))
      return "the loop writes to it";
  }
  return NULL;
}

static const char *why_not_copy(const Planner *p, const StagedLoop *l, const Op *copy) {
  const Op *alloc = copy->args[1]->def;
  MemLayout slot;
  if (copy->nargs > 2) return "its coordinates come from memory";
  if (!alloc || alloc->kind != OP_alloc) return "its tile is loop-carried";
  if (op_has(alloc, ATTR_ring) || op_has(copy, ATTR_iteration))
    return "the kernel already stages it explicitly";
  if (!alloc_slot_layout(alloc, &slot) || slot.dims == LAYOUT_DIMS)
    return "its tile size is unknown";
  const char *why = NULL;
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

static bool is_copied_ahead(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].copy == op) return true;
  return false;
}

/* The loop stores to a tile that the product reads, other than to another slot of a ring: the next
 * iteration would overwrite what a product still in flight reads. */
static const MemoryUse *find_overwrite(const Planner *p, const StagedLoop *l, const Op *product) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *read = &p->m->uses.at[i];
    if (read->op != product) continue;
    for (int j = 0; j < p->m->uses.n; j++) {
      const MemoryUse *use = &p->m->uses.at[j];
      if (use->memory == read->memory && use->how != TOUCH_READ && op_is_inside(use->op, l->loop) &&
          !is_copied_ahead(l, use->op))
        return use;
    }
  }
  return NULL;
}

/* The product that may still be in flight when the next iteration begins; NULL: none. */
static Op *product_in_flight(const Planner *p, const StagedLoop *l) {
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

/* ---- depth ---- */

static int64_t ring_bytes(const Op *alloc, int slots) {
  MemLayout m;
  if (!alloc_slot_layout(alloc, &m)) return 0;
  m = mem_ring(&m, slots, alloc_align(alloc));
  return mem_bytes(&m) + alloc_align(alloc);
}

static bool is_staged(const Planner *p, const Op *alloc, int64_t *bytes) {
  *bytes = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    for (int j = 0; j < l->copies.n; j++) {
      if (l->copies.at[j].alloc != alloc) continue;
      int64_t need = ring_bytes(alloc, l->copies.at[j].slots);
      if (need > *bytes) *bytes = need;
    }
  }
  return *bytes > 0;
}

/* Used only after all pipelined loops: it may overlap a ring. */
static bool is_used_later(const Planner *p, const Op *alloc) {
  const Op *last = p->plan.loops.at[p->plan.loops.n - 1].loop;
  int first = INT32_MAX;
  for (int i = 0; i < p->m->uses.n; i++)
    if (p->m->memories.at[p->m->uses.at[i].memory]->def == alloc && p->m->uses.at[i].op->id < first)
      first = p->m->uses.at[i].op->id;
  return first > last->body->last->id && !last->parent->owner;
}

/* Whether a product may be in flight as far as the ring of this copy is concerned. */
static bool allows_flight(const StagedCopy *c, int slots) {
  bool is_free = c->pinned_ahead == STAGED_FREE && c->pinned_slots == STAGED_FREE;
  int least = c->async ? SLOTS_IN_FLIGHT - 2 : 1;
  int ahead = c->pinned_ahead == STAGED_FREE ? c->pinned_slots - 2 : c->pinned_ahead;
  if (is_free) return slots >= SLOTS_IN_FLIGHT;
  return ahead >= least && (c->pinned_slots == STAGED_FREE || c->pinned_slots >= ahead + 2);
}

static bool allows_early(const StagedCopy *c, int slots) {
  if (c->pinned_ahead != STAGED_FREE) return !c->async || c->pinned_ahead >= SLOTS_EARLY - 1;
  return (c->pinned_slots == STAGED_FREE ? slots : c->pinned_slots) >= SLOTS_EARLY;
}

static void set_ring(StagedCopy *c, int flights, int slots) {
  int own = c->pinned_slots == STAGED_FREE ? slots : c->pinned_slots;
  bool is_free = c->pinned_ahead == STAGED_FREE && c->pinned_slots == STAGED_FREE;
  c->ahead = c->pinned_ahead != STAGED_FREE ? c->pinned_ahead
             : is_free && slots < 2         ? 0
             : is_free && !c->async         ? 1
                                            : own - 1 - flights;
  c->slots = c->pinned_slots == STAGED_FREE ? c->ahead + 1 + flights : c->pinned_slots;
}

/* Gives every copy its ring if those that no row pins have this many slots. */
static void set_rings(Planner *p, int slots) {
  p->slots = slots;
  for (int i = 0; i < p->plan.loops.n; i++) {
    StagedLoop *l = &p->plan.loops.at[i];
    l->product = l->may_fly, l->early = l->may_be_early;
    for (int j = 0; j < l->copies.n; j++) {
      if (!allows_flight(&l->copies.at[j], slots)) l->product = NULL;
      if (!allows_early(&l->copies.at[j], slots)) l->early = NULL;
    }
    for (int j = 0; j < l->copies.n; j++) set_ring(&l->copies.at[j], staged_flights(l), slots);
  }
}

/* The shared memory of a workgroup with rings of this many slots. */
static int64_t bytes_with(Planner *p, int slots) {
  int64_t sum = 0, later = 0, own;
  set_rings(p, slots);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_alloc) continue;
    int64_t plain = alloc_bytes(op) > 0 ? alloc_bytes(op) + alloc_align(op) : 0;
    if (is_staged(p, op, &own)) sum += own;
    else if (is_used_later(p, op)) later += plain;
    else sum += plain;
  }
  return later > sum ? later : sum;
}

/* The largest number of slots, at most `most`, with which a workgroup needs at most `budget`; 1:
 * none. */
static int slots_within(Planner *p, int most, int64_t budget) {
  int slots = most;
  while (slots > 1 && bytes_with(p, slots) > budget) slots--;
  return slots;
}

/* Registers per thread for a tile. */
static int64_t registers_for(const Value *v) {
  if (!v->layout) return 0;
  return (int64_t)layout_size(v->layout, LAYOUT_REG) * dtype_info[v->type->dtype].bits / 32;
}

static int64_t registers_carried(const Op *loop) {
  int64_t sum = 0;
  for (int r = 0; r < loop->nresults; r++) sum += registers_for(&loop->results[r]);
  return sum;
}

/* How many workgroups the registers of an SM can hold at once; 2 suffice to hide each other's
 * latency. */
static int residents(const Planner *p) {
  int64_t most = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    int64_t carried = registers_carried(p->plan.loops.at[i].loop);
    if (carried > most) most = carried;
  }
  return (most + WORKING_REGISTERS) * p->threads * 2 <= REGISTERS ? 2 : 1;
}

/* Two results of the product are held at once: the one being processed, and the next. */
static bool has_room_for_early(const Planner *p, const StagedLoop *l) {
  int64_t most = REGISTERS / p->threads;
  int64_t held = registers_carried(l->loop) + 2 * registers_for(&l->early->results[0]);
  return held + SPARE_REGISTERS <= (most < MOST_REGISTERS ? most : MOST_REGISTERS);
}

/* Loops with fewer than `most` iterations need no more slots than that. */
static int most_slots(const Planner *p) {
  int64_t most = 2, n;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    int64_t of = sym_is_int(l->trips, &n) ? n + staged_flights(l) : MOST_SLOTS;
    if (of > most) most = of;
  }
  return most < MOST_SLOTS ? (int)most : MOST_SLOTS;
}

static const char *choose_slots(Planner *p) {
  int64_t all = p->target->shared_most, half = (all + RESERVED) / 2 - RESERVED;
  int most = p->asked ? p->asked : most_slots(p);
  int slots = slots_within(p, most, p->asked || residents(p) < 2 ? all : half);
  bool shares = slots >= WORTH_SHARING || slots == most;
  if (!shares) slots = slots_within(p, most, all);
  int64_t next = bytes_with(p, slots + 1);
  set_rings(p, slots);
  if (slots < 2) return "shared memory has no room for a second tile";
  if (slots == most) return p->asked ? "as requested" : "more would not help";
  return arena_printf(p->k->cx->diags.arena, "one more would need %lld of %lld bytes%s",
                      (long long)next, (long long)(shares ? half : all),
                      shares ? ", half of shared memory" : "");
}

/* ---- pinned rings ---- */

static bool is_pinned(const StagedLoop *l) { return l->depth || l->rings.n || l->pins.n; }

static const Constraint *pinning_row(const StagedLoop *l) {
  return l->rings.n ? l->rings.at[0].row : l->row ? l->row : l->pins.at[0].row;
}

/* A product in flight is worth a slot, but no row asks for it. */
static void forget_flights(Planner *p) {
  for (int i = 0; i < p->plan.loops.n; i++)
    if (is_pinned(&p->plan.loops.at[i])) p->plan.loops.at[i].may_fly = NULL;
}

static bool check_room(Planner *p) {
  int64_t all = p->target->shared_most, bytes;
  if ((bytes = bytes_with(p, p->slots)) <= all) return true;
  for (int i = 0; i < p->plan.loops.n; i++) {
    if (!is_pinned(&p->plan.loops.at[i])) continue;
    const Constraint *row = pinning_row(&p->plan.loops.at[i]);
    Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, row->at,
                       "the rings of the kernel need %lld bytes of shared memory; `%s` has %lld",
                       (long long)bytes, p->target->name, (long long)all);
    return diag_hint(&p->k->cx->diags, d, "give the rings fewer slots, or choose smaller tiles");
  }
  return true;
}

static void fail_early(const Planner *p, const StagedLoop *l, const Op *product) {
  Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, pinning_row(l)->at,
                     "the mma cannot run one stage early: its tiles are not copied two iterations "
                     "ahead");
  diag_note(&p->k->cx->diags, d, product->at, "the mma");
}

static bool check_early(const Planner *p) {
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    if (l->early || !l->may_be_early || !staged_is_placed(l, l->may_be_early)) continue;
    return fail_early(p, l, l->may_be_early), false;
  }
  return true;
}

/* ---- the plan ---- */

static void remark(const Planner *p, const Op *op, const char *what, const char *why) {
  Diags *diags = &p->k->cx->diags;
  if (is_said(p, op)) return;
  if (op->kind == OP_copy)
    diag_add(diags, DIAG_R0608, op->at, "the copy of `%s` %s: %s", memory_name(p->k, op->args[0]),
             what, why);
  else
    diag_add(diags, DIAG_R0608, op->at, "the loop over `%s` %s: %s",
             sym_text(diags->arena, op_attr(op, ATTR_axis)->sym), what, why);
}

/* A tile that would wait in registers is worthwhile if the machine otherwise copies asynchronously,
 * or if it was requested. */
static bool is_wanted(const Planner *p, const StagedCopy *c) {
  return c->async || p->wanted || target_has(p->target, FEATURE_CP_ASYNC);
}

static void plan_copy(Planner *p, StagedLoop *l, Op *copy) {
  const char *why = why_not_copy(p, l, copy);
  StagedCopy c = {.copy = copy, .alloc = copy->args[1]->def, .boxes = copy_goes_by(copy, "tma")};
  c.async = c.boxes || copy_is_awaited(copy);
  c.pinned_ahead = c.pinned_slots = c.cycle = c.store_cycle = STAGED_FREE;
  if (why && !staged_refuse(p->k, l, copy, why)) p->failed = true;
  else if (why) remark(p, copy, "is not prefetched", why);
  else if (is_pinned(l) || (p->asked != 1 && is_wanted(p, &c))) vec_push(p->arena, &l->copies, c);
}

static void mark_obeyed(Planner *p, const StagedLoop *l) {
  const Constraint *rows = p->k->constraints.at;
  if (l->row) p->obeyed[l->row - rows] = true;
  for (int i = 0; i < l->rings.n; i++) p->obeyed[l->rings.at[i].row - rows] = true;
}

static StagedLoop new_loop(Planner *p, Op *loop) {
  StagedLoop l = {.loop = loop, .axis = op_attr(loop, ATTR_axis)->sym};
  l.counter = ir_loop_counter(p->k, l.axis);
  l.trips = distribute_trips(p->d, loop);
  if (p->obeyed) staged_read_rows(p->k, p->arena, p->target, &l);
  return l;
}

/* A tile that it reads is not prefetched. */
static bool drop_early(Planner *p, StagedLoop *l) {
  bool asked = staged_is_placed(l, l->early);
  if (asked) fail_early(p, l, l->early);
  l->early = NULL;
  return !asked;
}

/* Rows about a loop in which nothing is prefetched may only say what is so anyway. */
static void check_pins(Planner *p, StagedLoop *l) {
  if (!is_pinned(l)) return;
  if (l->depth == staged_own_depth(p->k, l->loop)) mark_obeyed(p, l);
  p->failed |= !staged_pin(p->k, l);
}

static void plan_loop(Planner *p, Op *loop) {
  StagedLoop l = new_loop(p, loop);
  const char *why = why_not_loop(p, &l);
  if (why) {
    remark(p, loop, "is not pipelined", why);
    mark_obeyed(p, &l);
    if (l.trips && runs_once(p, l.trips)) return; /* there is nothing to run ahead */
    p->failed |= !staged_refuse(p->k, &l, NULL, why) || !staged_pin(p->k, &l);
    return;
  }
  for (Op *op = loop->body->first; op && !p->failed; op = op->next)
    if (op->kind == OP_copy && copy_is_in(op)) plan_copy(p, &l, op);
  if (p->failed) return;
  if (!l.copies.n) {
    check_pins(p, &l);
    return;
  }
  l.early = early_find(&l);
  if (l.early && !has_room_for_early(p, &l)) l.early = NULL;
  if (is_pinned(&l)) {
    mark_obeyed(p, &l);
    p->failed |= !staged_pin(p->k, &l);
    if (l.early && !early_find(&l)) p->failed |= !drop_early(p, &l);
  }
  if (!l.copies.n || p->failed) return;
  l.product = l.may_fly = product_in_flight(p, &l);
  l.may_be_early = l.early;
  vec_push(p->arena, &p->plan.loops, l);
}

static void check_loop(Planner *p, Op *loop) {
  StagedLoop l = new_loop(p, loop);
  check_pins(p, &l);
}

static bool has_async(const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].async) return true;
  return false;
}

/* "4 tiles of each operand", or how many of which. */
static const char *tiles_text(const Planner *p, const StagedLoop *l) {
  StrBuf out = {.arena = p->k->cx->diags.arena};
  bool equal = true;
  for (int i = 1; i < l->copies.n; i++) equal &= l->copies.at[i].slots == l->copies.at[0].slots;
  if (equal) sb_printf(&out, "%d tiles of each operand", l->copies.at[0].slots);
  for (int i = 0; !equal && i < l->copies.n; i++)
    sb_printf(&out, "%s%d%s of `%s`", i ? ", " : "", l->copies.at[i].slots, i ? "" : " tiles",
              memory_name(p->k, l->copies.at[i].copy->args[0]));
  return sb_text(&out);
}

static void remark_depth(const Planner *p, const StagedLoop *l, const char *why) {
  const char *because = is_pinned(l)   ? "its schedule says so"
                        : has_async(l) ? why
                                       : "copies go through registers";
  remark(p, l->loop,
         arena_printf(p->k->cx->diags.arena, "keeps %s%s", tiles_text(p, l),
                      l->early ? " and starts its first mma one iteration early" : ""),
         because);
}

/* Keeps what is prefetched, and says what that is. */
static void keep_ahead(Planner *p, const char *why) {
  int loops = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    StagedLoop *l = &p->plan.loops.at[i];
    int copies = 0;
    for (int j = 0; j < l->copies.n; j++)
      if (l->copies.at[j].ahead > 0) l->copies.at[copies++] = l->copies.at[j];
    l->copies.n = copies;
    if (copies) remark_depth(p, l, why);
    else remark(p, l->loop, "is not pipelined", why);
    if (copies) p->plan.loops.at[loops++] = *l;
  }
  p->plan.loops.n = loops;
}

/* A number that is not known yet requests nothing. */
static int asked_slots(const Planner *p, const Constraint *stages) {
  int64_t n;
  return sym_is_int(distribute_expr(p->d, NULL, stages->stages.count), &n) ? (int)n : 0;
}

static bool choose(Planner *p) {
  if (!p->plan.loops.n) return true;
  const char *why = choose_slots(p);
  if (p->obeyed) {
    if (bytes_with(p, p->slots) > p->target->shared_most) forget_flights(p);
    if (!check_room(p) || !check_early(p)) return false;
  }
  keep_ahead(p, why);
  return true;
}

bool stages_plan(Kernel *k, PassCtx *cx, StagesPlan *out) {
  const Constraint *stages = kernel_constraint(k, CONSTRAINT_stages, NULL);
  Planner p = {.k = k, .arena = cx->scratch, .d = cx->facts.distribute};
  p.m = cx->facts.memory_uses;
  p.target = cx->target;
  p.asked = stages ? asked_slots(&p, stages) : 0;
  p.wanted = stages && p.asked != 1;
  if (kernel_has_schedule(k)) p.obeyed = ARENA_ARRAY(p.arena, bool, k->constraints.n);
  if (!cx->machine || !p.target || (p.asked == 1 && !p.obeyed)) return true;
  p.threads = cx->machine->lanes * cx->machine->waves;
  for (Op *op = ir_first(k); op && !p.failed; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    if (has_copies(op->body) && !has_copies_deeper(op)) plan_loop(&p, op);
    else if (p.obeyed) check_loop(&p, op);
  }
  bool ok =
      !p.failed && (!p.obeyed || staged_check_rows(k, p.arena, p.target, p.obeyed)) && choose(&p);
  *out = p.plan;
  return ok;
}
