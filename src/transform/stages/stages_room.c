/* stages_room.c: see stages_room.h. */
#include "transform/stages/stages_room.h"

#include "ir/dtype.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "ir/schedule/op_parts.h"
#include "transform/copy/copy_plan.h"
#include "transform/stages/roles/stages_roles.h"

/* Registers of a thread besides ... */
enum {
  BESIDES_CARRIED = 64, /* what a loop carries */
  BESIDES_PRODUCT = 48, /* that, and the result of a product that is processed */
  BESIDES_RESULTS = 28, /* all results of products: addresses and the like */
  BESIDES_LIVE = 48     /* all tiles that are live at once */
};

enum { SPARE = 4096 }; /* bytes of shared memory for barriers and alignment */

StagesRoom stages_room(const Kernel *k, const PassCtx *cx) {
  return (StagesRoom){cx, live_at_ops(cx->scratch, k)};
}

/* Registers per thread for a tile. */
static int64_t registers_for(const Layout *l, DType dtype) {
  return l ? (int64_t)layout_size(l, LAYOUT_REG) * dtype_info[dtype].bits / 32 : 0;
}

static int64_t registers_of(const Value *v) { return registers_for(v->layout, v->type->dtype); }

static int64_t registers_carried(const Op *loop) {
  int64_t sum = 0;
  for (int r = 0; r < loop->nresults; r++) sum += registers_of(&loop->results[r]);
  return sum;
}

static int threads(const StagesRoom *r) { return r->cx->machine->lanes * r->cx->machine->waves; }

/* Of an SM or compute unit, for all threads that run there. */
static int64_t all_registers(const StagesRoom *r) {
  const TargetInfo *t = r->cx->target;
  return (int64_t)t->simds * t->file * t->lanes;
}

/* The largest result of a product that the loop does not carry. */
static int64_t registers_processed(const Op *loop) {
  int64_t most = 0;
  for (const Op *op = loop->body->first; op; op = op->next) {
    if (!op_is_product(op) || op_takes(loop->body->last, &op->results[0])) continue;
    int64_t own = registers_of(&op->results[0]);
    if (own > most) most = own;
  }
  return most;
}

int stages_residents(const PassCtx *cx, const Op *loop) {
  StagesRoom r = {.cx = cx};
  int64_t carried = registers_carried(loop), need = carried + BESIDES_CARRIED;
  int64_t beside = carried + registers_processed(loop) + BESIDES_PRODUCT, all = all_registers(&r);
  if (beside > need) need = beside;
  return !all || need * threads(&r) * 2 <= all ? 2 : 1;
}

/* While a product is computed, its sum takes the place of its accumulator. */
static int64_t registers_added(const Op *op) {
  if (!op_is_product(op)) return 0;
  return live_registers(&op->results[0]) - live_registers(op->args[product_acc(op)]);
}

/* The most registers of tiles while another product is computed whose result the loop does not carry. */
static int64_t registers_beside(const StagesRoom *r, const StagedLoop *l) {
  int64_t most = 0;
  for (const Op *op = l->loop->body->first; op; op = op->next) {
    if (!op_is_product(op) || op == l->early || op_takes(l->loop->body->last, &op->results[0]))
      continue;
    int64_t need = r->live[op->id] + registers_added(op);
    if (need > most) most = need;
  }
  return most;
}

bool staged_has_room_early(const StagesRoom *r, const StagedLoop *l) {
  int64_t most = all_registers(r) / threads(r);
  int64_t own = registers_of(&l->early->results[0]), beside = registers_beside(r, l) + own;
  int64_t held = registers_carried(l->loop) + 2 * own;
  if (beside > held) held = beside;
  return held + BESIDES_RESULTS <=
         (most < r->cx->target->registers ? most : r->cx->target->registers);
}

/* The operand that a product takes from registers. */
static int64_t registers_taken(const Op *product) {
  int64_t most = 0;
  for (int i = 0; i < product->nargs; i++)
    if (i != product_acc(product) && registers_of(product->args[i]) > most)
      most = registers_of(product->args[i]);
  return most;
}

bool staged_has_room_late(const StagesRoom *r, const StagedLoop *l, const Op *late) {
  int64_t own = registers_of(&l->early->results[0]);
  int64_t held = registers_carried(l->loop) + own + registers_taken(late);
  int most = roles_registers(r->cx->target, r->cx->machine->waves, SERVICE_WAVES);
  return held + BESIDES_RESULTS <= most;
}

/* All products of the loop are added up, and nothing else is done with them. */
static bool only_accumulates(const StagedLoop *l) {
  const Op *yield = l->loop->body->last;
  for (Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op)) {
    const Value *sum = op_is_product(op) ? &op->results[0] : NULL;
    if (sum && (!op_takes(yield, sum) || ir_count_uses(l->loop->body, sum) != 1)) return false;
  }
  return true;
}

/* A tile that is only read to be multiplied can be read in as many parts as the product has steps
 * along K: the others need no registers from its read to the product. */
static void omit_unread(const StagesRoom *r, Op *product, const Value *operand, int steps,
                        int64_t *need) {
  const Distribution *d = r->cx->facts.distribute;
  const Op *read = operand->def;
  MmaDivision by;
  if (!read || read->kind != OP_read || read->parent != product->parent) return;
  if (!op_comes_before(read, product)) return; /* it is for the next iteration */
  if (!anchor_mma_division(d, r->cx->machine, r->cx->scratch, product, &by)) return;
  int64_t all = live_registers(operand), parts = by.copies[2];
  for (const Op *op = read->next; parts > steps && op != product->next; op = op->next)
    need[op->id] -= all - all * steps / parts;
}

int64_t staged_registers(const StagesRoom *r, const StagedLoop *l, int steps) {
  Op *first = l->loop->body->first;
  int64_t *need = ARENA_ARRAY(r->cx->scratch, int64_t, l->loop->body->last->id + 1), most = 0;
  bool accumulates = only_accumulates(l);
  for (const Op *op = first; op && op_is_inside(op, l->loop); op = ir_next(op))
    need[op->id] += r->live[op->id] + registers_added(op);
  for (Op *op = first; accumulates && op; op = op->next) {
    if (!op_is_product(op)) continue;
    omit_unread(r, op, op->args[0], steps, need);
    omit_unread(r, op, op->args[product_rhs(op)], steps, need);
  }
  for (const Op *op = first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (need[op->id] > most) most = need[op->id];
  return most + BESIDES_LIVE;
}

static int64_t registers_waiting(const StagesRoom *r, const StagedCopy *c) {
  const Facts *facts = &r->cx->facts;
  CopyPlan plan;
  if (c->async ||
      !copy_plan(facts->distribute, r->cx->machine, facts->in_bounds[c->copy->id], &plan))
    return 0;
  return registers_for(&plan.layout, c->copy->args[1]->type->dtype) / parts_all(c->copy);
}

int64_t staged_waiting(const StagesRoom *r, StagedLoop *l) {
  int64_t sum = 0;
  for (int i = 0; i < l->copies.n; i++) {
    StagedCopy *c = &l->copies.at[i];
    if (!c->registers) c->registers = registers_waiting(r, c);
    sum += c->registers;
  }
  return sum;
}

int staged_most_registers(const StagesRoom *r) {
  const TargetInfo *t = r->cx->target;
  int waves = (r->cx->machine->waves + t->simds - 1) / t->simds; /* of a SIMD */
  return t->file / waves < t->registers ? t->file / waves : t->registers;
}

int staged_waves(const StagesRoom *r, int64_t registers, int64_t bytes) {
  const TargetInfo *t = r->cx->target;
  int64_t waves = r->cx->machine->waves;
  if (registers > staged_most_registers(r) || bytes > t->shared_most) return 0;
  int64_t groups = t->file / registers * t->simds / waves;
  if (bytes && t->shared_most / bytes < groups) groups = t->shared_most / bytes;
  return (int)((groups * waves + t->simds - 1) / t->simds);
}

/* Slots that the ring of an allocation needs; 1 if no loop over iterations of a tile fills it. With several
 * products in an iteration, one begins early. */
static int slots_needed(const Kernel *k, const Op *tiles, const Op *alloc) {
  const Op *loop = NULL;
  int products = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Op *owner = op->parent->owner;
    if (op->kind == OP_copy && op->args[1] == &alloc->results[0] && owner != tiles) loop = owner;
  }
  for (const Op *op = loop ? loop->body->first : NULL; op; op = op->next)
    products += op_is_product(op);
  return !loop ? 1 : products > 1 ? SERVICE_SLOTS_EARLY : SERVICE_SLOTS;
}

bool stages_have_room(const PassCtx *cx, const Kernel *k, const Op *tiles, int64_t more) {
  int64_t sum = more + SPARE;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_alloc) sum += slots_needed(k, tiles, op) * alloc_bytes(op);
  return sum <= cx->target->shared_most;
}
