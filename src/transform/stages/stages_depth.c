/* stages_depth.c: see stages_depth.h. */
#include "transform/stages/stages_depth.h"

#include "ir/ops/alloc_layout.h"
#include "transform/stages/stages_rows.h"

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

/* ---- shared memory ---- */

static int64_t ring_bytes(const Op *alloc, int slots) {
  MemLayout m;
  if (!alloc_slot_layout(alloc, &m)) return 0;
  m = mem_ring(&m, slots, alloc_align(alloc));
  return mem_bytes(&m) + alloc_align(alloc);
}

static bool is_staged(const StagesPlanner *p, const Op *alloc, int64_t *bytes) {
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
static bool is_used_later(const StagesPlanner *p, const Op *alloc) {
  const Op *last = p->plan.loops.at[p->plan.loops.n - 1].loop;
  int first = INT32_MAX;
  for (int i = 0; i < p->m->uses.n; i++)
    if (p->m->memories.at[p->m->uses.at[i].memory]->def == alloc && p->m->uses.at[i].op->id < first)
      first = p->m->uses.at[i].op->id;
  return first > last->body->last->id && !last->parent->owner;
}

/* ---- rings ---- */

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
static void set_rings(StagesPlanner *p, int slots) {
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
static int64_t bytes_with(StagesPlanner *p, int slots) {
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
static int slots_within(StagesPlanner *p, int most, int64_t budget) {
  int slots = most;
  while (slots > 1 && bytes_with(p, slots) > budget) slots--;
  return slots;
}

/* ---- registers ---- */

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
static int residents(const StagesPlanner *p) {
  int64_t most = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    int64_t carried = registers_carried(p->plan.loops.at[i].loop);
    if (carried > most) most = carried;
  }
  return (most + WORKING_REGISTERS) * p->threads * 2 <= REGISTERS ? 2 : 1;
}

/* Two results of the product are held at once: the one being processed, and the next. */
bool depth_allows_early(const StagesPlanner *p, const StagedLoop *l) {
  int64_t most = REGISTERS / p->threads;
  int64_t held = registers_carried(l->loop) + 2 * registers_for(&l->early->results[0]);
  return held + SPARE_REGISTERS <= (most < MOST_REGISTERS ? most : MOST_REGISTERS);
}

/* ---- rings that no row pins ---- */

/* Loops with fewer than `most` iterations need no more slots than that. */
static int most_slots(const StagesPlanner *p) {
  int64_t most = 2, n;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    int64_t of = sym_is_int(l->trips, &n) ? n + staged_flights(l) : MOST_SLOTS;
    if (of > most) most = of;
  }
  return most < MOST_SLOTS ? (int)most : MOST_SLOTS;
}

static const char *choose_slots(StagesPlanner *p) {
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

/* ---- what rows ask for ---- */

static const Constraint *pinning_row(const StagedLoop *l) {
  return l->rings.n ? l->rings.at[0].row : l->row ? l->row : l->pins.at[0].row;
}

/* A product in flight is worth a slot, but no row asks for it. */
static void forget_flights(StagesPlanner *p) {
  for (int i = 0; i < p->plan.loops.n; i++)
    if (staged_is_pinned(&p->plan.loops.at[i])) p->plan.loops.at[i].may_fly = NULL;
}

static bool check_room(StagesPlanner *p) {
  int64_t all = p->target->shared_most, bytes;
  if ((bytes = bytes_with(p, p->slots)) <= all) return true;
  for (int i = 0; i < p->plan.loops.n; i++) {
    if (!staged_is_pinned(&p->plan.loops.at[i])) continue;
    const Constraint *row = pinning_row(&p->plan.loops.at[i]);
    Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, row->at,
                       "the rings of the kernel need %lld bytes of shared memory; `%s` has %lld",
                       (long long)bytes, p->target->name, (long long)all);
    return diag_hint(&p->k->cx->diags, d, "give the rings fewer slots, or choose smaller tiles");
  }
  return true;
}

void depth_fail_early(const StagesPlanner *p, const StagedLoop *l, const Op *product) {
  Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, pinning_row(l)->at,
                     "the mma cannot run one stage early: its tiles are not copied two iterations "
                     "ahead");
  diag_note(&p->k->cx->diags, d, product->at, "the mma");
}

static bool check_early(const StagesPlanner *p) {
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    if (l->early || !l->may_be_early || !staged_is_placed(l, l->may_be_early)) continue;
    return depth_fail_early(p, l, l->may_be_early), false;
  }
  return true;
}

bool depth_choose(StagesPlanner *p, const char **why) {
  *why = choose_slots(p);
  if (!p->obeyed) return true;
  if (bytes_with(p, p->slots) > p->target->shared_most) forget_flights(p);
  return check_room(p) && check_early(p);
}
