/* sim_async.c: copies that run concurrently with the thread that issued them.
 *
 * A copy takes effect at its issue, under a unit of its own: until a wait, an access that reads its
 * destination or writes its source is not ordered with it, and that is a race. So the result is
 * right when nothing is reported, and nothing depends on when a copy would really have ended. */
#include <string.h>

#include "backend/sim/sim_state.h"
#include "target/descriptor.h"
#include "target/maps/im2col.h"

static int64_t element_at(const Buffer *b, int64_t address) {
  return (address - b->base) / b->bytes;
}

/* ---- element by element ---- */

static void copy_element(const Actor *from, const Buffer *src, int64_t source, const Actor *to,
                         const Buffer *dst, int64_t target) {
  Wave *w = to->w;
  if (source >= 0) shadow_read(from, src, source);
  uint64_t bits = source >= 0 ? dtype_load(src->dtype, buffer_bytes(w->group, src), source) : 0;
  access_not_barrier(to, dst, target, true);
  shadow_write(to, dst, target, false);
  dtype_store(dst->dtype, buffer_bytes(to->home, dst), target, bits);
  sim_mark_written(to->home, dst, target);
}

/* ---- copies of 4, 8, 16 bytes ---- */

static int local_lane(const Wave *w, int l) {
  return (w->index * w->sim->wave + l) / w->sim->per_unit;
}

static void copy_lane(Wave *w, SimOp *s, int l, int64_t bytes, bool on) {
  const Op *op = s->op;
  const Buffer *dst = w->sim->buffer[op->args[0]->id], *src = w->sim->buffer[op->args[2]->id];
  int64_t to = sim_element_after(wave_regs(w, op->args[1])[l].i, op_imm(op, ATTR_imm));
  int64_t from = sim_element_after(wave_regs(w, op->args[3])[l].i, op_imm(op, ATTR_imm_from));
  uint32_t clock = op_has(op, ATTR_counted) ? w->counted : w->lane[l].copying;
  Actor a = sim_actor_async(w, s, l, w->sim->units.copies + local_lane(w, l), clock);
  a.proxy = false; /* the same as ordinary accesses */
  int64_t n = bytes * 8 / dtype_memory_bits(dst->dtype);
  if (!access_inside(w, s, dst, to, l) ||
      !access_inside(w, s, dst, sim_element_after(to, n - 1), l))
    return;
  if (on && (!access_inside(w, s, src, from, l) ||
             !access_inside(w, s, src, sim_element_after(from, n - 1), l)))
    return;
  if (!access_aligned(w, s, dst, to, bytes, l) ||
      (on && !access_aligned(w, s, src, from, bytes, l)))
    return;
  for (int64_t e = 0; e < n; e++) copy_element(&a, src, on ? from + e : -1, &a, dst, to + e);
}

static uint64_t sources_inside(Wave *w, SimOp *s, int64_t bytes, uint64_t lanes) {
  const Op *op = s->op;
  const Buffer *src = w->sim->buffer[op->args[2]->id];
  int64_t first[64];
  EACH_LANE(l, lanes)
  first[l] = sim_element_after(wave_regs(w, op->args[3])[l].i, op_imm(op, ATTR_imm_from));
  int n = (int)(bytes * 8 / dtype_memory_bits(src->dtype));
  return access_at_coords(w, s, src, first, n, lanes);
}

Step step_copy_async(Wave *w, SimOp *s) {
  const Op *op = s->op;
  const Value *mask = op->nargs > 4 ? op->args[4] : NULL;
  int64_t bytes = 0;
  sym_is_int(s->expr->sym, &bytes);
  wave_check_use(w, s, op->args[1], w->mask, "an address");
  if (mask) wave_check_use(w, s, mask, w->mask, "the mask of a copy");
  w->sim->stamp++;
  if (op_has(op, ATTR_counted)) w->counted++;
  uint64_t on = 0, right = w->mask;
  EACH_LANE(l, w->mask) if (!mask || wave_regs(w, mask)[l].i) on |= UINT64_C(1) << l;
  wave_check_use(w, s, op->args[3], on, "an address");
  if (s->coords) right = (w->mask & ~on) | sources_inside(w, s, bytes, on);
  EACH_LANE(l, right) copy_lane(w, s, l, bytes, on >> l & 1);
  s->cost.shared++;
  return STEP_NEXT;
}

/* Copies issued from now on do not belong to the committed group, or to what an mbarrier waits
 * for. */
Step step_async_commit(Wave *w, SimOp *s) {
  (void)s;
  EACH_LANE(l, w->mask) {
    vec_push(w->sim->gang_home, &w->lane[l].groups, w->lane[l].copying);
    w->lane[l].copying++;
  }
  return STEP_NEXT;
}

static void learn(uint32_t *known, uint32_t v) {
  if (*known < v) *known = v;
}

Step step_async_wait(Wave *w, SimOp *s) {
  int64_t pending = op_attr(s->op, ATTR_pending)->integer;
  EACH_LANE(l, w->mask) {
    Lane *lane = &w->lane[l];
    if (lane->groups.n > pending) learn(&lane->done, lane->groups.at[lane->groups.n - 1 - pending]);
  }
  return STEP_NEXT;
}

void sim_wait_for_copies(Wave *w) {
  EACH_LANE(l, w->lanes) {
    learn(&w->lane[l].done, w->lane[l].copying++);
    learn(&w->lane[l].done, w->counted);
  }
}

/* ---- tensor copies ---- */

typedef struct Box {
  const Buffer *shared, *global;
  int64_t first;           /* byte address in shared memory */
  int64_t at[IR_MAX_RANK]; /* first coordinates */
  int64_t extent[IR_MAX_RANK];
  int64_t elements, span;
  int clip; /* the dim that ends at `end`; -1: none */
  int64_t end;
  int joined;    /* the dim with which all before it are one; 0: none are */
  Im2col pixels; /* dims > 0: it traverses pixels, and reads `tap` further on */
  int64_t tap[IM2COL_DIMS];
} Box;

static void read_im2col(const Op *op, Im2col *m) {
  const Attr *corners = op_attr(op, ATTR_im2col), *steps = op_attr(op, ATTR_steps);
  if (!corners) return;
  m->dims = corners->n / 2;
  for (int d = 0; d < m->dims; d++) {
    m->lowest[d] = corners->ints[d];
    m->highest[d] = corners->ints[m->dims + d];
    m->step[d] = steps ? steps->ints[d] : 1;
  }
}

/* The first pixel must be on the traversal, and the taps must be encodable. */
static bool check_pixels(Wave *w, SimOp *s, const Box *b, int l) {
  const Im2col *m = &b->pixels;
  for (int d = 0; d < m->dims; d++) {
    int64_t most = 2 * im2col_reach(m->dims);
    if (b->tap[d] >= 0 && b->tap[d] < most) continue;
    sim_report(w, s, DIAG_E0806, NULL, "a tap of %lld pixels by %s: expected 0 to %lld",
               (long long)b->tap[d], sim_who(w, l), (long long)most - 1);
    return false;
  }
  if (!m->dims || im2col_is_inside(m, b->global->size, b->at)) return true;
  sim_report(w, s, DIAG_E0806, NULL, "a copy by %s starts at a pixel outside the im2col corners",
             sim_who(w, l));
  return false;
}

/* The map of a clipped tensor has a last row but no first one. */
static bool check_clip(Wave *w, SimOp *s, const Box *b, int l) {
  if (b->clip < 0 || (b->at[b->clip] >= 0 && b->end <= b->global->size[b->clip])) return true;
  sim_report(w, s, DIAG_E0806, NULL,
             "a clipped copy by %s covers rows %lld to %lld of `%s`, which has %lld", sim_who(w, l),
             (long long)b->at[b->clip], (long long)b->end - 1, b->global->name,
             (long long)b->global->size[b->clip]);
  return false;
}

/* Joined dims have nothing between them, and one coordinate. */
static bool check_joined(Wave *w, SimOp *s, const Box *b, int l) {
  const Buffer *g = b->global;
  for (int d = 0; d < b->joined; d++) {
    bool dense = g->size[d] == 1 || g->stride[d] == g->stride[d + 1] * g->size[d + 1];
    if (dense && b->at[d] == 0) continue;
    sim_report(w, s, DIAG_E0806, NULL,
               dense ? "a copy by %s has a coordinate along dimension %d of `%s`, which is joined"
                     : "a copy by %s joins dimension %d of `%s` and the next, which are not dense",
               sim_who(w, l), d, g->name);
    return false;
  }
  return true;
}

/* In a row of the tensor, the box begins at a multiple of 16 bytes. */
static bool check_start(Wave *w, SimOp *s, const Box *b, int l) {
  const Buffer *g = b->global;
  int64_t in_row = b->at[g->rank - 1] * g->bytes;
  if (b->pixels.dims || in_row % 16 == 0) return true;
  sim_report(w, s, DIAG_E0806, NULL,
             "a copy by %s begins %lld bytes into a row of `%s`: expected a multiple of 16",
             sim_who(w, l), (long long)in_row, g->name);
  return false;
}

/* The limits of a tensor map: rows of whole 16 bytes, boxes of up to 256 elements in each dimension
 * (four times as many for pixels). */
static bool check_map(Wave *w, SimOp *s, const Box *b, int dims) {
  const Buffer *g = b->global;
  for (int d = 0; d < g->rank; d++) {
    int64_t apart = g->stride[d] * g->bytes;
    if (d == g->rank - 1 ? g->stride[d] == 1 : apart % 16 == 0) continue;
    sim_report(w, s, DIAG_E0806, NULL,
               d == g->rank - 1
                   ? "the elements of a row of `%s` are %lld bytes apart: a tensor map "
                     "needs dense rows"
                   : "rows of `%s` are %lld bytes apart: a tensor map needs multiples of 16",
               g->name, (long long)apart);
    return false;
  }
  for (int d = 0; d < dims; d++) {
    int64_t most = b->pixels.dims && d == 0 ? 1024 : 256;
    if (b->extent[d] <= most) continue;
    sim_report(w, s, DIAG_E0806, NULL,
               "a box has %lld elements along dimension %d, expected at most %lld",
               (long long)b->extent[d], d, (long long)most);
    return false;
  }
  return true;
}

/* Shared memory and offset are operands 0 and 1, the tensor is operand `at`, then coordinates. */
static bool box_of(Wave *w, SimOp *s, int at, int l, Box *out) {
  const Op *op = s->op;
  const Attr *box = op_attr(op, ATTR_box), *swizzle = op_attr(op, ATTR_swizzle);
  Box b = {.shared = w->sim->buffer[op->args[0]->id], .global = w->sim->buffer[op->args[at]->id]};
  int64_t offset = wave_regs(w, op->args[1])[l].i;
  b.span = swizzle ? swizzle->integer : 0;
  b.elements = 1;
  read_im2col(op, &b.pixels);
  for (int d = 0; d < b.global->rank; d++) b.at[d] = wave_regs(w, op->args[at + 1 + d])[l].i;
  const Attr *clip = op_attr(op, ATTR_clip);
  b.clip = clip ? (int)clip->integer : -1;
  b.joined = op_has(op, ATTR_joined) ? (int)op_attr(op, ATTR_joined)->integer : 0;
  if (clip) b.end = wave_regs(w, op->args[at + 1 + b.global->rank])[l].i;
  for (int d = 0; d < b.pixels.dims; d++)
    b.tap[d] = wave_regs(w, op->args[at + 1 + b.global->rank + d])[l].i;
  for (int d = 0; d < box->n; d++) {
    b.extent[d] = box->ints[d];
    b.elements *= b.extent[d];
  }
  b.first = buffer_address(b.shared, offset);
  int64_t row = b.extent[box->n - 1] * b.shared->bytes;
  int64_t align = b.span ? 8 * b.span : 128;
  *out = b;
  if (!check_pixels(w, s, &b, l) || !check_clip(w, s, &b, l) || !check_map(w, s, &b, box->n) ||
      !check_joined(w, s, &b, l) || !check_start(w, s, &b, l))
    return false;
  if (!access_inside(w, s, b.shared, offset, l) ||
      !access_inside(w, s, b.shared, sim_element_after(offset, b.elements - 1), l))
    return false;
  if (!access_aligned(w, s, b.shared, offset, align, l)) return false;
  if (row % 16 == 0 && (!b.span || row <= b.span)) return true;
  sim_report(
      w, s, DIAG_E0806, NULL,
      "the rows of a box are %lld bytes long: expected a multiple of 16, at most the swizzle span",
      (long long)row);
  return false;
}

/* Element e of the box: its position in shared memory, and in the tensor; -1: outside. */
static int64_t box_shared(const Box *b, int64_t e) {
  return element_at(b->shared, descriptor_swizzle(b->first + e * b->shared->bytes, (int)b->span));
}

static int64_t global_at(const Buffer *b, int joined, const int64_t *at) {
  int64_t element = 0, before = 1;
  for (int d = 0; d < joined; d++) before *= b->size[d];
  for (int d = joined; d < b->rank; d++) {
    int64_t size = d == joined ? before * b->size[d] : b->size[d];
    if (at[d] < 0 || at[d] >= size) return -1;
    element += at[d] * b->stride[d];
  }
  return element;
}

static int64_t box_pixel(const Box *b, int64_t e) {
  int64_t at[IR_MAX_RANK];
  int channel = b->pixels.dims + 1;
  memcpy(at, b->at, sizeof at);
  im2col_walk(&b->pixels, b->global->size, e / b->extent[1], at);
  for (int d = 0; d < b->pixels.dims; d++) at[1 + d] = sim_element_after(at[1 + d], b->tap[d]);
  at[channel] = sim_element_after(at[channel], e % b->extent[1]);
  return global_at(b->global, 0, at);
}

static int64_t box_global(const Box *b, int64_t e) {
  int64_t at[IR_MAX_RANK];
  if (b->pixels.dims) return box_pixel(b, e);
  for (int d = b->global->rank - 1; d >= 0; d--) {
    at[d] = sim_element_after(b->at[d], e % b->extent[d]);
    if (d == b->clip && at[d] >= b->end) return -1;
    e /= b->extent[d];
  }
  return global_at(b->global, b->joined, at);
}

static void check_operands(Wave *w, const SimOp *s, int from) {
  for (int i = from; i < s->op->nargs; i++)
    if (s->op->args[i]->type->kind != TYPE_mem)
      wave_check_use(w, s, s->op->args[i], w->mask, "a tensor copy");
}

/* Copies the box into the shared memory of one workgroup, whose mbarrier counts its bytes. */
static void load_box(Wave *w, SimOp *s, int l, const Box *b, Group *home) {
  Actor issuer = actor_lane(w, s, l, true);
  issuer.home = home;
  issuer.issues = true;
  Mbar *m = mbar_at(&issuer, w->sim->buffer[s->op->args[2]->id], wave_regs(w, s->op->args[3])[l].i);
  if (!m) return;
  m->loading = m->phase + 1;
  m->load = s;
  Actor a = sim_actor_async(w, s, l, 0, mbar_clock(m, m->loading));
  a.unit = sim_unit_in(home, mbar_unit(home, m));
  a.home = home;
  w->sim->stamp++;
  for (int64_t e = 0; e < b->elements; e++)
    copy_element(&a, b->global, box_global(b, e), &a, b->shared, box_shared(b, e));
  mbar_complete_bytes(home, m, b->elements * b->shared->bytes); /* zeros outside the tensor count
                                                                 * too */
}

/* Every workgroup of the mask gets the box at the same address. */
static void multicast_box(Wave *w, SimOp *s, int l, const Box *b, int64_t mask) {
  if (mask < 0 || mask >> cluster_size(w->sim)) {
    sim_report(
        w, s, DIAG_E0801, NULL,
        "the multicast mask 0x%llx used by %s is out of range for a cluster of %d workgroups",
        (unsigned long long)mask, sim_who(w, l), cluster_size(w->sim));
    return;
  }
  for (int64_t rank = 0; mask >> rank; rank++) {
    Group *peer = cluster_peer(w->group, rank);
    if ((mask >> rank & 1) && cluster_alive(w, s, peer, l)) load_box(w, s, l, b, peer);
  }
}

Step step_tma_load(Wave *w, SimOp *s) {
  int64_t mask[64];
  check_operands(w, s, 1);
  if (s->peer && !wave_expr(w, s, s->peer, w->mask, mask)) return STEP_NEXT;
  EACH_LANE(l, w->mask) {
    Box b;
    if (!box_of(w, s, 4, l, &b)) continue;
    if (s->peer) multicast_box(w, s, l, &b, mask[l]);
    else load_box(w, s, l, &b, w->group);
    uint64_t sectors = (uint64_t)((b.elements * b.global->bytes + SIM_SECTOR - 1) / SIM_SECTOR);
    s->cost.sectors += sectors;
    s->cost.sectors_needed += sectors;
    w->sim->events++;
  }
  return STEP_NEXT;
}

Step step_tma_store(Wave *w, SimOp *s) {
  check_operands(w, s, 1);
  EACH_LANE(l, w->mask) {
    Box b;
    if (!box_of(w, s, 2, l, &b)) continue;
    const Units *u = &w->sim->units;
    Actor from = sim_actor_async(w, s, l, u->reads + local_lane(w, l), w->lane[l].bulk);
    Actor to = sim_actor_async(w, s, l, u->writes + local_lane(w, l), w->lane[l].bulk);
    w->sim->stamp++;
    w->lane[l].stored = w->lane[l].bulk;
    w->lane[l].store = s;
    for (int64_t e = 0; e < b.elements; e++) {
      int64_t target = box_global(&b, e), source = box_shared(&b, e);
      if (target < 0) continue;
      if (!sim_is_written(w->group, b.shared, source))
        sim_report(w, s, DIAG_E0804, NULL, "`%s`%s, which is uninitialised, is stored by %s",
                   b.shared->name, buffer_index(w->sim, b.shared, source), sim_who(w, l));
      copy_element(&from, b.shared, source, &to, b.global, target);
    }
    w->sim->events++;
  }
  return STEP_NEXT;
}

/* It changes nothing, but the map must be one that the machine takes. */
Step step_tma_prefetch(Wave *w, SimOp *s) {
  const Op *op = s->op;
  const Attr *box = op_attr(op, ATTR_box), *joined = op_attr(op, ATTR_joined);
  Box b = {.global = w->sim->buffer[op->args[0]->id], .clip = -1};
  b.joined = joined ? (int)joined->integer : 0;
  for (int d = 0; d < box->n; d++) b.extent[d] = box->ints[d];
  check_operands(w, s, 1);
  EACH_LANE(l, w->mask) {
    for (int d = 0; d < b.global->rank; d++) b.at[d] = wave_regs(w, op->args[1 + d])[l].i;
    if (check_map(w, s, &b, box->n) && check_joined(w, s, &b, l)) check_start(w, s, &b, l);
  }
  return STEP_NEXT;
}

/* Groups 1 .. group - 1 are committed. */
static uint32_t complete(uint32_t group, int64_t pending) {
  return group - 1 > pending ? group - 1 - (uint32_t)pending : 0;
}

Step step_bulk_commit(Wave *w, SimOp *s) {
  (void)s;
  EACH_LANE(l, w->mask) w->lane[l].bulk++;
  return STEP_NEXT;
}

Step step_bulk_wait(Wave *w, SimOp *s) {
  int64_t pending = op_attr(s->op, ATTR_pending)->integer;
  bool all = !op_has(s->op, ATTR_read);
  EACH_LANE(l, w->mask) {
    uint32_t done = complete(w->lane[l].bulk, pending);
    learn(&w->lane[l].read, done);
    if (all) learn(&w->lane[l].written, done);
  }
  return STEP_NEXT;
}
