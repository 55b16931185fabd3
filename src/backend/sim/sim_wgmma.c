/* sim_wgmma.c: matrix instructions of four waves, whose operands may be in shared memory.
 *
 * A wave computes its own quarter of the rows. The shared operands are read by the wave's wgmma
 * unit, so that overwriting them, or reading the result, before the wait is detected. */
#include <string.h>

#include "backend/sim/sim_mma.h"
#include "target/descriptor.h"

/* ---- wgmma: shared operands ---- */

typedef struct Operand {
  const Buffer *b;
  int64_t first; /* byte address */
  Descriptor d;
} Operand;

/* Only 16-bit elements may be contiguous along m or n. */
bool wgmma_check(Sim *s, const SimOp *x) {
  static const AttrKey keys[] = {ATTR_desc_a, ATTR_desc_b};
  for (int i = x->mma->a_shared ? 0 : 1; i < 2; i++) {
    const Descriptor *d = op_attr(x->op, keys[i])->descriptor;
    const Value *memory = x->op->args[i == 0 ? 1 : x->mma->a_shared ? 3 : 2];
    bool known = d->span == 0 || d->span == 32 || d->span == 64 || d->span == 128;
    bool fits = !d->transposed || dtype_info[memory->type->dtype].bits == 16;
    if (known && fits && d->transposed <= 1 && d->leading % 16 == 0 && d->stride % 16 == 0)
      continue;
    return sim_fail_setup(
        s, DIAG_E0813, x->op->at,
        "`%s` of %s is not a descriptor: offsets must be multiples of 16 bytes, the "
        "swizzle 0, 32, 64 or 128 bytes, and only 16-bit elements may be transposed",
        attr_info[keys[i]].name, type_text(s->cx->diags.arena, s->cx, memory->type));
  }
  return true;
}

static int64_t same_in_all_lanes(Wave *w, const SimOp *s, const Value *v, const char *what) {
  const Reg *r = wave_regs(w, v);
  int first = lowest_bit(w->mask);
  EACH_LANE(l, w->mask) {
    if (r[l].i != r[first].i)
      sim_report(w, s, DIAG_E0805, NULL, "%s of a wgmma differs between lanes: %lld in %s", what,
                 (long long)r[l].i, sim_who(w, l));
  }
  return r[first].i;
}

static Operand open_operand(Wave *w, SimOp *s, int arg, AttrKey key) {
  Operand o = {.b = w->sim->buffer[s->op->args[arg]->id], .d = *op_attr(s->op, key)->descriptor};
  wave_check_use(w, s, s->op->args[arg + 1], w->mask, "an address");
  o.first = buffer_address(
      o.b, same_in_all_lanes(w, s, s->op->args[arg + 1], "the offset of an operand"));
  if (o.first % 16)
    sim_report(w, s, DIAG_E0806, NULL,
               "a wgmma operand in `%s` is at address %lld, which is not a multiple of 16",
               o.b->name, (long long)o.first);
  return o;
}

/* Reads rows [from, to) into a dense matrix with these strides between rows and elements of k. */
static void read_operand(Wave *w, SimOp *s, const Operand *o, int from, int to, double *out,
                         int by_row, int by_k, bool *undef) {
  int k = s->mma->row->k;
  Actor a = sim_actor_async(w, s, 0, w->sim->units.wgmma + w->index, w->wgmma_group);
  for (int i = from; i < to; i++)
    for (int e = 0; e < k; e++) {
      int64_t address =
          descriptor_swizzle(o->first + descriptor_offset(&o->d, o->b->bytes, i, e), o->d.span);
      int64_t element = (address - o->b->base) / o->b->bytes;
      if (address < o->b->base || !buffer_inside(o->b, element)) {
        sim_report(w, s, DIAG_E0801, NULL,
                   "element (%d, %d) of a wgmma operand is at address %lld, outside `%s`", i, e,
                   (long long)address, o->b->name);
        return;
      }
      shadow_read(&a, o->b, element);
      undef[i] |= !sim_is_written(w->group, o->b, element);
      Reg r = reg_from_bits(o->b->dtype,
                            dtype_load(o->b->dtype, buffer_bytes(w->group, o->b), element));
      out[(i - from) * by_row + e * by_k] = mma_number(s->mma, o->b->dtype, r);
    }
}

/* ---- the four waves of a warpgroup ---- */

/* One instruction of a warpgroup: the first of its waves to execute it defines it, and the others
 * must match. */
typedef struct Issue {
  const SimOp *s;
  int64_t a, b, keep; /* offsets of its operands; whether it accumulates */
} Issue;

typedef struct Warpgroup {
  Vec(Issue) issued;
  uint64_t first; /* the number of the first that is kept */
} Warpgroup;

enum { WARPGROUP_WAVES = 4, ISSUES_KEPT = 1024 };

/* There may be waits without a product: that of a loop without iterations. */
void wgmma_open(Sim *s, Group *g) {
  int n = (s->nwaves + WARPGROUP_WAVES - 1) / WARPGROUP_WAVES;
  g->warpgroups = ARENA_ARRAY(s->gang_home, Warpgroup, n);
}

/* The waves of a warpgroup are [first, end). */
static int first_wave(const Wave *w) { return w->index / WARPGROUP_WAVES * WARPGROUP_WAVES; }
static int end_wave(const Wave *w) {
  int end = first_wave(w) + WARPGROUP_WAVES;
  return end < w->sim->nwaves ? end : w->sim->nwaves;
}

/* What every wave has executed need not be compared any more. */
static void forget_issues(Wave *w, Warpgroup *g) {
  uint64_t all = UINT64_MAX;
  for (int i = first_wave(w); i < end_wave(w); i++)
    if (w->group->waves[i].wgmma_steps < all) all = w->group->waves[i].wgmma_steps;
  int gone = all > g->first ? (int)(all - g->first) : 0;
  if (gone > g->issued.n) gone = g->issued.n;
  memmove(g->issued.at, g->issued.at + gone, sizeof(Issue) * (size_t)(g->issued.n - gone));
  g->issued.n -= gone;
  g->first += (uint64_t)gone;
}

static void report_apart(Wave *w, const SimOp *s, const SimOp *other, const char *what) {
  Diag *d = sim_report(w, s, DIAG_E0805, other->op,
                       "wave %d executes `%s` with %s than another wave of its warpgroup", w->index,
                       op_info[s->op->kind].name, what);
  if (d && other != s) diag_note(&w->sim->cx->diags, d, other->op->at, "the other wave is here");
  w->wgmma_lost = true;
}

/* All lanes of all four waves execute the same instruction with the same operands. */
static void execute_together(Wave *w, Issue mine) {
  Warpgroup *g = &w->group->warpgroups[w->index / WARPGROUP_WAVES];
  uint64_t number = w->wgmma_steps++;
  if (!wave_full(w, mine.s) || w->wgmma_lost) return;
  if (end_wave(w) - first_wave(w) < WARPGROUP_WAVES) {
    sim_report(w, mine.s, DIAG_E0805, NULL,
               "`%s` is executed by wave %d, whose warpgroup has only %d waves",
               op_info[mine.s->op->kind].name, w->index, end_wave(w) - first_wave(w));
    return;
  }
  if (number - g->first >= (uint64_t)g->issued.n) {
    if (g->issued.n == ISSUES_KEPT) forget_issues(w, g);
    vec_push(w->sim->gang_home, &g->issued, mine);
    return;
  }
  const Issue *other = &g->issued.at[number - g->first];
  if (other->s != mine.s) report_apart(w, mine.s, other->s, "a different instruction");
  else if (other->a != mine.a || other->b != mine.b)
    report_apart(w, mine.s, other->s, "a different operand offset");
  else if (other->keep != mine.keep) report_apart(w, mine.s, other->s, "a different `keep`");
}

/* Reports a wave that executed fewer of them than another of its warpgroup. */
void wgmma_check_end(Group *g) {
  const Sim *s = g->waves[0].sim;
  for (int i = 0; i < s->nwaves; i++) {
    Wave *w = &g->waves[i];
    const Warpgroup *all = &g->warpgroups[i / WARPGROUP_WAVES];
    if (w->wgmma_lost || w->wgmma_steps - all->first >= (uint64_t)all->issued.n) continue;
    const SimOp *missing = all->issued.at[w->wgmma_steps - all->first].s;
    sim_report(w, missing, DIAG_E0805, NULL,
               "`%s` is not executed by wave %d, but is by another wave of its warpgroup",
               op_info[missing->op->kind].name, i);
  }
}

/* ---- wgmma ---- */

Step step_wgmma_fence(Wave *w, SimOp *s) {
  execute_together(w, (Issue){.s = s});
  w->wgmma_fenced = true;
  w->fence_step = w->steps;
  return STEP_NEXT;
}

/* Registers that it reads or accumulates into must not be written between the fence and it. */
static void check_fence(Wave *w, SimOp *s) {
  const Value *acc = s->op->args[0], *a = s->mma->a_shared ? acc : s->op->args[1];
  bool chained = w->flight[acc->id] > w->wgmma_done;
  bool late = (!chained && w->made[acc->id] > w->fence_step + 1) ||
              (a != acc && w->made[a->id] > w->fence_step + 1);
  if ((w->wgmma_fenced || chained) && !late) return;
  Diag *d = sim_report(w, s, DIAG_E0812, NULL,
                       "`wgmma` uses registers written after the last `wgmma_fence`");
  if (d)
    diag_hint(&w->sim->cx->diags, d, "execute `wgmma_fence` before the first wgmma of a batch");
}

Step step_wgmma(Wave *w, SimOp *s) {
  MmaPlan *p = s->mma;
  const Op *op = s->op;
  const Value *out = &op->results[0];
  int quarter = w->index % 4, from = p->row->m / 4 * quarter, to = from + p->row->m / 4;
  int b = p->a_shared ? 3 : 2, k = p->row->k;
  const Value *keep = op->nargs > b + 2 ? op->args[b + 2] : NULL;
  if (keep) wave_check_use(w, s, keep, w->mask, "whether a wgmma accumulates");
  bool adds = !keep || same_in_all_lanes(w, s, keep, "`keep`") != 0;
  execute_together(w,
                   (Issue){.s = s,
                           .a = p->a_shared ? wave_regs(w, op->args[2])[lowest_bit(w->mask)].i : 0,
                           .b = wave_regs(w, op->args[b + 1])[lowest_bit(w->mask)].i,
                           .keep = adds});
  check_fence(w, s);
  w->sim->stamp++;
  mma_forget_holes(p);
  if (p->a_shared) {
    Operand a = open_operand(w, s, 1, ATTR_desc_a);
    read_operand(w, s, &a, from, to, p->a + from * k, k, 1, p->a_undef);
  } else {
    mma_gather(w, s, MMA_A, 1, 0, quarter, p->a, p->a_undef);
  }
  Operand d = open_operand(w, s, b, ATTR_desc_b);
  read_operand(w, s, &d, 0, p->row->n, p->b, 1, p->row->n, p->b_undef);
  mma_multiply(p, from, to);
  mma_scatter(w, s, adds ? op->args[0] : NULL, 0, quarter);
  w->flight[out->id] = w->wgmma_issued = w->wgmma_group;
  return STEP_NEXT;
}

Step step_wgmma_commit(Wave *w, SimOp *s) {
  execute_together(w, (Issue){.s = s});
  w->wgmma_group++;
  return STEP_NEXT;
}

Step step_wgmma_wait(Wave *w, SimOp *s) {
  int64_t pending = op_attr(s->op, ATTR_pending)->integer;
  uint32_t committed = w->wgmma_group - 1;
  execute_together(w, (Issue){.s = s});
  if (committed > pending && w->wgmma_done < committed - (uint32_t)pending)
    w->wgmma_done = committed - (uint32_t)pending;
  w->wgmma_fenced = false;
  return STEP_NEXT;
}
