/* sim_memory.c: memory accesses of lanes: bounds per buffer and per logical dimension, alignment,
 * bank conflicts, sectors of global memory. Races are handled by sim_clock.c. */
#include <string.h>

#include "backend/eval/scalar.h"
#include "backend/sim/sim_state.h"
#include "ir/ops/atomics.h"
#include "target/banks.h"

/* ---- elements ---- */

static float float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Common types take a fast path; NaN keeps its payload on the slow one. */
Reg reg_from_bits(DType t, uint64_t bits) {
  if (t == DTYPE_f32 && (bits & 0x7fffffff) <= 0x7f800000)
    return (Reg){.f = (double)float_of((uint32_t)bits)};
  if (t == DTYPE_i32) return (Reg){.i = (int32_t)(uint32_t)bits};
  if (dtype_is_float(t)) return (Reg){.f = dtype_decode(t, bits)};
  return (Reg){.i = dtype_wrap(t, (int64_t)bits)};
}

uint64_t reg_bits(DType t, Reg r) {
  if (t == DTYPE_f32 && r.f == r.f) {
    float f = (float)r.f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
  }
  if (t == DTYPE_i32) return (uint32_t)r.i;
  return dtype_is_float(t) ? dtype_encode(t, r.f) : dtype_int_bits(t, r.i);
}

static uint64_t load_bits(const Buffer *b, const unsigned char *data, int64_t element) {
  const unsigned char *at = data + element * b->bytes;
  if (b->bytes == 4) return (uint64_t)(at[0] | at[1] << 8 | at[2] << 16) | (uint64_t)at[3] << 24;
  if (b->bytes == 2) return (uint64_t)(at[0] | at[1] << 8);
  return dtype_load(b->dtype, data, element);
}

static void store_bits(const Buffer *b, unsigned char *data, int64_t element, uint64_t bits) {
  unsigned char *at = data + element * b->bytes;
  if (b->bytes != 4) {
    dtype_store(b->dtype, data, element, bits);
    return;
  }
  for (int i = 0; i < 4; i++) at[i] = (unsigned char)(bits >> 8 * i);
}

static bool is_nibble(DType t) { return dtype_info[t].bits == 4; }

int buffer_halves(const Buffer *b) { return is_nibble(b->dtype) ? 1 : 2 * b->bytes; }

/* For an element far outside its buffer, the nearest representable number. */
int64_t buffer_address(const Buffer *b, int64_t element) {
  int64_t bytes;
  if (is_nibble(b->dtype)) return b->base + element / 2;
  bool over = __builtin_mul_overflow(element, (int64_t)b->bytes, &bytes) ||
              __builtin_add_overflow(bytes, b->base, &bytes);
  return over ? (element < 0 ? INT64_MIN : INT64_MAX) : bytes;
}

/* An element n further on; a result that would overflow stays far outside. */
int64_t sim_element_after(int64_t element, int64_t n) {
  int64_t sum;
  bool over = __builtin_add_overflow(element, n, &sum);
  return over ? (n < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t laid_out_element(const Buffer *b, int64_t offset) {
  return offset >= 0 && offset < b->elements ? b->element_at[offset] : -1;
}

static bool laid_out_coordinates(const Buffer *b, int64_t offset, int64_t *at) {
  int64_t element = laid_out_element(b, offset);
  for (int d = b->rank - 1; element >= 0 && d >= 0; d--) {
    at[d] = element % b->size[d];
    element /= b->size[d];
  }
  return element == 0;
}

/* The coordinates of an element: dimensions by decreasing stride. False: it lies between
 * elements. */
static bool coordinates(const Buffer *b, int64_t element, int64_t *at) {
  bool done[IR_MAX_RANK] = {false};
  if (element < 0) return false;
  if (b->memory) return laid_out_coordinates(b, element, at);
  for (int i = 0; i < b->rank; i++) {
    int next = -1;
    for (int d = 0; d < b->rank; d++)
      if (!done[d] && (next < 0 || b->stride[d] > b->stride[next])) next = d;
    done[next] = true;
    at[next] = b->stride[next] ? element / b->stride[next] : 0;
    element -= at[next] * b->stride[next];
    if (at[next] >= b->size[next]) return false;
  }
  return element == 0;
}

bool buffer_inside(const Buffer *b, int64_t element) {
  int64_t at[IR_MAX_RANK];
  if (b->contiguous) return element >= 0 && element < b->elements;
  if (b->memory) return laid_out_element(b, element) >= 0;
  return coordinates(b, element, at);
}

const char *buffer_index(Sim *s, const Buffer *b, int64_t element) {
  int64_t at[IR_MAX_RANK];
  s->subject.buffer = b->name;
  s->subject.address = buffer_address(b, element);
  s->subject.rank = 0;
  if (!coordinates(b, element, at))
    return arena_printf(s->cx->diags.arena, "[element %lld]", (long long)element);
  StrBuf out = {.arena = s->cx->diags.arena};
  s->subject.rank = b->rank;
  memcpy(s->subject.index, at, sizeof at);
  for (int d = 0; d < b->rank; d++) sb_printf(&out, "%s%lld", d ? ", " : "[", (long long)at[d]);
  sb_putc(&out, ']');
  return sb_text(&out);
}

unsigned char *buffer_bytes(const Group *g, const Buffer *b) {
  return b->shared ? g->shared + b->base : b->data;
}

/* The half of its byte that a 4-bit element occupies. */
static unsigned char half_of(int64_t element) { return element % 2 ? SIM_HIGH : SIM_LOW; }

void sim_mark_written(const Group *g, const Buffer *b, int64_t element) {
  if (!b->shared) return;
  unsigned char *at = g->written + buffer_address(b, element);
  if (is_nibble(b->dtype)) *at |= half_of(element);
  else memset(at, SIM_BYTE, (size_t)b->bytes);
}

bool sim_is_written(const Group *g, const Buffer *b, int64_t element) {
  if (!b->shared) return true;
  const unsigned char *at = g->written + buffer_address(b, element);
  if (is_nibble(b->dtype)) return *at & half_of(element);
  if (b->bytes == 4) return (at[0] & at[1] & at[2] & at[3] & SIM_BYTE) == SIM_BYTE;
  for (int i = 0; i < b->bytes; i++)
    if ((at[i] & SIM_BYTE) != SIM_BYTE) return false;
  return true;
}

/* ---- an access of one lane ---- */

bool access_inside(Wave *w, const SimOp *s, const Buffer *b, int64_t element, int l) {
  if (buffer_inside(b, element)) return true;
  sim_report(w, s, DIAG_E0801, NULL, "`%s`%s at address %lld accessed by %s is out of bounds",
             b->name, buffer_index(w->sim, b, element), (long long)buffer_address(b, element),
             sim_who(w, l));
  return false;
}

bool access_aligned(Wave *w, const SimOp *s, const Buffer *b, int64_t element, int64_t align,
                    int l) {
  int64_t address = buffer_address(b, element);
  if (address % align == 0) return true;
  sim_report(w, s, DIAG_E0806, NULL,
             "`%s`%s at address %lld accessed by %s is misaligned: not a multiple of %lld", b->name,
             buffer_index(w->sim, b, element), (long long)address, sim_who(w, l), (long long)align);
  return false;
}

void access_not_barrier(const Actor *a, const Buffer *b, int64_t element, bool writes) {
  if (!b->shared || !a->home->mbars.n) return;
  const unsigned char *at = a->home->written + buffer_address(b, element);
  bool barrier = false;
  for (int i = 0; i < b->bytes; i++) barrier |= at[i] & SIM_BARRIER;
  if (!barrier) return;
  sim_report(a->w, a->s, DIAG_E0809, NULL, "%s %s `%s`%s, which holds an mbarrier",
             sim_who(a->w, a->lane), writes ? "overwrites" : "reads", b->name,
             buffer_index(a->w->sim, b, element));
}

/* ---- an access of all lanes ---- */

typedef struct Request {
  Wave *w;
  SimOp *s;
  const Buffer *b;
  const Value *mask; /* or NULL */
  int n, reg;        /* elements per lane, and the register of the first */
  int64_t first[64]; /* per lane: its first element */
  uint64_t lanes;    /* that access anything */
  Group *home[64];   /* with a peer: per lane, the workgroup whose shared memory it is */
} Request;

static Group *home_of(const Request *q, int l) { return q->s->peer ? q->home[l] : q->w->group; }

static Actor request_actor(const Request *q, int l, bool atomic) {
  Actor a = actor_lane(q->w, q->s, l, atomic);
  a.home = home_of(q, l);
  return a;
}

static bool is_on(const Request *q, int l, int e) {
  if (!q->mask) return true;
  int reg = q->mask->type->n > 1 ? e : 0;
  return wave_regs(q->w, q->mask)[reg * q->w->sim->wave + l].i != 0;
}

static bool by_element(const Request *q) { return q->mask && q->mask->type->n > 1; }

static int64_t request_bytes(const Request *q) {
  return is_nibble(q->b->dtype) ? (q->n + 1) / 2 : (int64_t)q->n * q->b->bytes;
}

static void check_alignment(Request *q, int l) {
  if (target_has(q->w->sim->machine, FEATURE_UNALIGNED)) return;
  int64_t bytes = request_bytes(q), align = bytes & -bytes;
  int64_t address = buffer_address(q->b, q->first[l]);
  if (align > 16) align = 16;
  if ((address & (align - 1)) == 0) return;
  sim_report(
      q->w, q->s, DIAG_E0806, NULL,
      "access of %lld bytes of `%s`%s at address %lld by %s is misaligned: not a multiple of %lld",
      (long long)bytes, q->b->name, buffer_index(q->w->sim, q->b, q->first[l]), (long long)address,
      sim_who(q->w, l), (long long)align);
}

static void fail_bounds(Request *q, int l, int64_t element, const char *index) {
  SimFinding *subject = &q->w->sim->subject;
  subject->buffer = q->b->name;
  subject->address = buffer_address(q->b, element);
  StrBuf shape = {.arena = q->w->sim->cx->diags.arena};
  for (int d = 0; d < q->b->rank; d++)
    sb_printf(&shape, "%s%lld", d ? ", " : "", (long long)q->b->size[d]);
  sim_report(q->w, q->s, DIAG_E0801, NULL,
             "%s%s at address %lld accessed by %s is outside its shape (%s)", q->b->name, index,
             (long long)buffer_address(q->b, element), sim_who(q->w, l), sb_text(&shape));
}

/* -1: the coordinates lie outside. */
static int64_t buffer_offset(const Buffer *b, int64_t value[][64], int l) {
  int64_t offset = 0;
  int at[LAYOUT_DIMS];
  for (int d = 0; d < b->rank; d++) {
    if (b->memory && (value[d][l] < 0 || value[d][l] >= b->size[d])) return -1;
    at[d] = (int)value[d][l];
    int64_t far;
    if (__builtin_mul_overflow(value[d][l], b->stride[d], &far)) return -1;
    offset = sim_element_after(offset, far);
  }
  return b->memory ? mem_offset(b->memory, at) : offset;
}

/* The logical coordinates that the author gives must be inside, dimension by dimension, and agree
 * with the offset; the last one advances with the elements, except in special layouts. */
static bool check_coords(Request *q, int64_t value[][64], int l) {
  const Buffer *b = q->b;
  int64_t offset = buffer_offset(b, value, l);
  for (int e = 0; e < (b->memory ? 1 : q->n); e++) {
    if (!is_on(q, l, e)) continue;
    bool inside = offset == q->first[l];
    for (int d = 0; d < b->rank; d++) {
      int64_t at = sim_element_after(value[d][l], d == b->rank - 1 ? e : 0);
      inside &= at >= 0 && at < b->size[d];
    }
    if (inside) continue;
    StrBuf index = {.arena = q->w->sim->cx->diags.arena};
    SimFinding *subject = &q->w->sim->subject;
    subject->rank = b->rank;
    for (int d = 0; d < b->rank; d++) {
      subject->index[d] = sim_element_after(value[d][l], d == b->rank - 1 ? e : 0);
      sb_printf(&index, "%s%lld", d ? ", " : "[", (long long)subject->index[d]);
    }
    sb_putc(&index, ']');
    fail_bounds(q, l, sim_element_after(q->first[l], e), sb_text(&index));
    return false;
  }
  return true;
}

static bool lane_inside(Request *q, int l) {
  const Buffer *b = q->b;
  if (b->contiguous && !by_element(q) && q->first[l] >= 0 && q->first[l] <= b->elements - q->n)
    return true;
  for (int e = 0; e < q->n; e++) {
    int64_t element = sim_element_after(q->first[l], e);
    if (!is_on(q, l, e) || buffer_inside(b, element)) continue;
    fail_bounds(q, l, element, buffer_index(q->w->sim, b, element));
    return false;
  }
  return true;
}

static bool find_coords(const Request *q, int64_t value[][64]) {
  bool named = q->s->coords != NULL;
  for (int d = 0; named && d < q->b->rank; d++)
    named = wave_expr(q->w, q->s, q->s->coords[d], q->lanes, value[d]);
  return named;
}

uint64_t access_at_coords(Wave *w, SimOp *s, const Buffer *b, const int64_t first[64], int n,
                          uint64_t lanes) {
  int64_t value[IR_MAX_RANK][64];
  Request q = {.w = w, .s = s, .b = b, .n = n, .lanes = lanes};
  memcpy(q.first, first, sizeof q.first);
  if (!find_coords(&q, value)) return lanes;
  EACH_LANE(l, lanes) if (!check_coords(&q, value, l)) q.lanes &= ~(UINT64_C(1) << l);
  return q.lanes;
}

/* Lanes with an element outside are reported and excluded. */
static void check_bounds(Request *q) {
  int64_t value[IR_MAX_RANK][64];
  bool named = find_coords(q, value);
  EACH_LANE(l, q->lanes) {
    bool inside = (!named || check_coords(q, value, l)) && lane_inside(q, l);
    if (!inside) q->lanes &= ~(UINT64_C(1) << l);
    else check_alignment(q, l);
  }
}

/* ---- cost ---- */

static void note_request(Request *q, bool is_read, int cost) {
  SimAccess *a = sim_note_access(q->s, q->w->sim->home, cost);
  if (!a) return;
  a->buffer = q->b->name;
  a->shared = q->b->shared;
  a->is_read = is_read;
  a->cost = cost;
  a->bytes = q->n * q->b->bytes;
  for (int l = 0; l < 64; l++)
    a->address[l] = q->lanes >> l & 1 ? buffer_address(q->b, q->first[l]) : -1;
}

/* If the lanes have the same relative addresses as the last time, the access costs the same: banks
 * rotate with the first lane's address, and blocks with its position in a line. */
typedef struct AccessCost {
  uint64_t lanes;
  int64_t base, apart[64]; /* the first lane's address; elements from it to the others' */
  uint64_t conflicts, sectors, lines;
} AccessCost;

static bool costs_the_same(const Request *q, const AccessCost *c) {
  int first = lowest_bit(q->lanes);
  int64_t turn = buffer_address(q->b, q->first[first]) - c->base;
  if (c->lanes != q->lanes || turn % (q->b->shared ? BANK_BYTES : SIM_LINE)) return false;
  int64_t different = 0;
  EACH_LANE(l, q->lanes) different |= (q->first[l] - q->first[first]) ^ c->apart[l];
  return !different;
}

static void remember(const Request *q, AccessCost *c) {
  int first = lowest_bit(q->lanes);
  *c = (AccessCost){.lanes = q->lanes, .base = buffer_address(q->b, q->first[first])};
  EACH_LANE(l, q->lanes) c->apart[l] = q->first[l] - q->first[first];
}

/* An access wider than 16 bytes counts as several of 16. */
static uint64_t bank_conflicts(const Request *q) {
  int bytes = (int)request_bytes(q), address[BANK_LANES];
  int each = bytes >= 16 ? 16 : bytes & -bytes;
  bool is_read = op_info[q->s->op->kind].flags & OPF_READS;
  uint64_t conflicts = 0;
  for (int part = 0; part < bytes; part += each) {
    for (int l = 0; l < q->w->sim->wave; l++)
      address[l] = q->lanes >> l & 1 ? (int)buffer_address(q->b, q->first[l]) + part : -1;
    BankCost c = bank_cost(q->w->sim->machine, address, q->w->sim->wave, each, is_read);
    conflicts += (uint64_t)c.conflicts;
  }
  return conflicts;
}

/* Distinct blocks of `size` bytes that the lanes touch. */
static int blocks_touched(const Request *q, int64_t bytes, int64_t size) {
  int64_t seen[512], last = -1; /* the greatest so far */
  int count = 0;
  EACH_LANE(l, q->lanes) {
    int64_t from = buffer_address(q->b, q->first[l]) / size;
    int64_t to = (buffer_address(q->b, q->first[l]) + bytes - 1) / size;
    for (int64_t at = from; at <= to && count < 512; at++) {
      bool known = false;
      for (int k = count - 1; at <= last && k >= 0 && !known; k--) known = seen[k] == at;
      if (!known) seen[count++] = at;
      if (at > last) last = at;
    }
  }
  return count;
}

static void count_cost(Request *q) {
  int64_t bytes = request_bytes(q), wanted = bytes * mask_count(q->lanes);
  SimLine *cost = &q->s->cost;
  if (!q->s->last) q->s->last = ARENA_NEW(q->w->sim->home, AccessCost);
  AccessCost *c = q->s->last;
  if (is_nibble(q->b->dtype) || !costs_the_same(q, c)) {
    remember(q, c);
    c->conflicts = q->b->shared ? bank_conflicts(q) : 0;
    c->sectors = q->b->shared ? 0 : (uint64_t)blocks_touched(q, bytes, SIM_SECTOR);
    c->lines = q->b->shared ? 0 : (uint64_t)blocks_touched(q, bytes, SIM_LINE);
  }
  cost->conflicts += c->conflicts;
  cost->sectors += c->sectors;
  cost->lines += c->lines;
  uint64_t needed = q->b->shared ? 0 : (uint64_t)((wanted + SIM_SECTOR - 1) / SIM_SECTOR);
  cost->sectors_needed += needed;
  cost->shared += q->b->shared;
  note_request(q, op_info[q->s->op->kind].flags & OPF_READS,
               (int)(q->b->shared ? c->conflicts : c->sectors - needed));
}

/* The access of operands `at` (memory), `at` + 1 (offset), `at` + 2 (mask). */
/* Memory, offset and mask are operands `at` and those after it; for rows, the stride instead of a
 * mask. */
static Request request_row(Wave *w, SimOp *s, int at, int n, int row) {
  const Op *op = s->op;
  bool rows = op_has(op, ATTR_rows);
  Request q = {.w = w, .s = s, .b = w->sim->buffer[op->args[at]->id], .n = n, .lanes = w->mask};
  q.mask = op->nargs > at + 2 && !rows ? op->args[at + 2] : NULL;
  q.reg = row * n;
  const Attr *imm = op_attr(op, ATTR_imm);
  if (q.mask) wave_check_use(w, s, q.mask, w->mask, "the mask of an access");
  const Reg *offset = wave_regs(w, op->args[at + 1]);
  int64_t more = imm ? imm->integer : 0;
  EACH_LANE(l, w->mask) q.first[l] = sim_element_after(offset[l].i, more);
  if (rows) {
    wave_check_use(w, s, op->args[at + 2], w->mask, "the row stride");
    EACH_LANE(l, w->mask) {
      int64_t apart;
      bool over = __builtin_mul_overflow((int64_t)row, wave_regs(w, op->args[at + 2])[l].i, &apart);
      q.first[l] = over ? INT64_MIN : sim_element_after(q.first[l], apart);
    }
  }
  if (q.mask) q.lanes = 0;
  for (int e = 0; q.mask && e < q.mask->type->n; e++)
    EACH_LANE(l, w->mask) q.lanes |= (uint64_t)is_on(&q, l, e) << l;
  wave_check_use(w, s, op->args[at + 1], q.lanes, "an address");
  q.lanes &= ~wave_undef(w, op->args[at + 1])[0];
  check_bounds(&q);
  if (s->peer) q.lanes = cluster_homes(w, s, q.lanes, q.home);
  if (!q.lanes) return q;
  count_cost(&q);
  w->sim->stamp++;
  return q;
}

/* ---- load, store, atomic ---- */

static Request request(Wave *w, SimOp *s, int at, int n) { return request_row(w, s, at, n, 0); }

static void load_lane(Request *q, const Value *v, int l) {
  Wave *w = q->w;
  const Buffer *b = q->b;
  bool is_volatile = op_has(q->s->op, ATTR_volatile), shadowed = b->shared || b->shadow.cells;
  Actor a = request_actor(q, l, is_volatile);
  const unsigned char *data = buffer_bytes(a.home, b);
  Reg *r = wave_regs(w, v) + (size_t)q->reg * (size_t)w->sim->wave + l;
  uint64_t *undef = wave_undef(w, v) + q->reg;
  for (int e = 0; e < q->n; e++, r += w->sim->wave) {
    if (by_element(q) && !is_on(q, l, e)) continue;
    int64_t element = q->first[l] + e;
    uint64_t bits = load_bits(b, data, element);
    if (is_volatile) bits = flag_load(&a, b, element, bits);
    access_not_barrier(&a, b, element, false);
    if (shadowed) shadow_read(&a, b, element);
    *r = reg_from_bits(b->dtype, bits);
    if (b->shared) undef[e] |= (uint64_t)!sim_is_written(a.home, b, element) << l;
  }
}

static void load(Request *q) {
  Wave *w = q->w;
  const Value *v = &q->s->op->results[0];
  memset(wave_undef(w, v) + q->reg, 0, sizeof(uint64_t) * (size_t)q->n);
  if (q->mask || q->lanes != w->mask) {
    Reg zero = reg_from_bits(q->b->dtype, 0);
    Reg *r = wave_regs(w, v) + (size_t)q->reg * (size_t)w->sim->wave;
    for (int e = 0; e < q->n; e++)
      EACH_LANE(l, w->mask) r[(size_t)e * (size_t)w->sim->wave + (size_t)l] = zero;
  }
  EACH_LANE(l, q->lanes) load_lane(q, v, l);
}

Step step_load(Wave *w, SimOp *s) {
  Request q = request(w, s, 0, s->op->results[0].type->n);
  w->counted += !q.b->shared; /* counted together with direct copies */
  load(&q);
  return STEP_NEXT;
}

Step step_load_rows(Wave *w, SimOp *s) {
  int rows = (int)op_attr(s->op, ATTR_rows)->integer, n = s->op->results[0].type->n / rows;
  for (int i = 0; i < rows; i++) {
    Request q = request_row(w, s, 0, n, i);
    load(&q);
  }
  return STEP_NEXT;
}

static void store_element(Request *q, const Actor *a, int e, uint64_t bits) {
  Wave *w = q->w;
  unsigned char *data = buffer_bytes(a->home, q->b);
  int64_t element = q->first[a->lane] + e;
  access_not_barrier(a, q->b, element, true);
  uint64_t before = load_bits(q->b, data, element);
  bool same = sim_is_written(a->home, q->b, element) && before == bits;
  shadow_write(a, q->b, element, same);
  if (!same) w->sim->events++;
  store_bits(q->b, data, element, bits);
  sim_mark_written(a->home, q->b, element);
  w->lane[a->lane].pending[q->b->shared] = true;
  if (a->atomic) flag_store(a, q->b, element, before, bits);
  else flag_change(a, q->b, element, bits);
}

/* A quotient by zero is only stored: the error is reported when it is loaded and used. */
static void forget_written(const Request *q, const Actor *a, int e) {
  int64_t element = q->first[a->lane] + e;
  unsigned char *at = a->home->written + buffer_address(q->b, element);
  if (is_nibble(q->b->dtype)) *at &= (unsigned char)~half_of(element);
  else memset(at, 0, (size_t)q->b->bytes);
}

static void store(Request *q) {
  Wave *w = q->w;
  const Value *v = q->s->op->args[0];
  bool is_volatile = op_has(q->s->op, ATTR_volatile);
  uint64_t holes = 0;
  EACH_LANE(l, q->lanes) {
    Actor a = request_actor(q, l, is_volatile);
    const Reg *r = wave_regs(w, v) + (size_t)q->reg * (size_t)w->sim->wave + l;
    for (int e = 0; e < q->n; e++, r += w->sim->wave) {
      if (by_element(q) && !is_on(q, l, e)) continue;
      uint64_t hole = wave_undef(w, v)[q->reg + e] & UINT64_C(1) << l;
      store_element(q, &a, e, reg_bits(q->b->dtype, *r));
      if (hole & w->divided_lanes && q->b->shared) forget_written(q, &a, e);
      else holes |= hole;
    }
  }
  if (holes) wave_check_use(w, q->s, v, holes, "a stored value");
}

Step step_store(Wave *w, SimOp *s) {
  Request q = request(w, s, 1, s->op->args[0]->type->n);
  store(&q);
  return STEP_NEXT;
}

Step step_store_rows(Wave *w, SimOp *s) {
  int rows = (int)op_attr(s->op, ATTR_rows)->integer, n = s->op->args[0]->type->n / rows;
  for (int i = 0; i < rows; i++) {
    Request q = request_row(w, s, 1, n, i);
    store(&q);
  }
  return STEP_NEXT;
}

static Reg combine(const char *mode, DType t, Reg old, Reg x) {
  OpKind kind = atomic_combine(mode);
  if (kind == OP_COUNT) return x;
  if (dtype_is_float(t)) return (Reg){.f = dtype_round(t, scalar_fn[kind].f2(old.f, x.f))};
  return (Reg){.i = dtype_wrap(t, scalar_ints(kind, t)(old.i, x.i))};
}

Step step_atomic(Wave *w, SimOp *s) {
  const Value *v = s->op->args[0], *out = &s->op->results[0];
  const char *mode = op_attr(s->op, ATTR_mode)->text;
  bool is_volatile = op_has(s->op, ATTR_volatile), expects = strcmp(mode, "cas") == 0;
  Request q = request(w, s, 1, expects ? 1 : v->type->n);
  int lanes = w->sim->wave;
  DType t = q.b->dtype;
  for (int e = 0; e < q.n; e++) {
    const Reg *x = wave_regs(w, v) + (size_t)e * (size_t)lanes;
    Reg *r = wave_regs(w, out) + (size_t)e * (size_t)lanes;
    wave_check_use(w, s, v, q.lanes, "an operand of an atomic");
    EACH_LANE(l, q.lanes) {
      if (!is_on(&q, l, e)) continue;
      int64_t element = q.first[l] + e;
      Actor a = request_actor(&q, l, true);
      unsigned char *data = buffer_bytes(a.home, q.b);
      access_not_barrier(&a, q.b, element, true);
      shadow_write(&a, q.b, element, false);
      if (!sim_is_written(a.home, q.b, element))
        sim_report(w, s, DIAG_E0804, NULL,
                   "`%s`%s, which is uninitialised, is an operand of `atomic` in %s", q.b->name,
                   buffer_index(w->sim, q.b, element), sim_who(w, l));
      uint64_t before = dtype_load(t, data, element);
      r[l] = reg_from_bits(t, before);
      uint64_t after = reg_bits(t, combine(mode, t, r[l], x[l]));
      if (expects && before != reg_bits(t, x[lanes + l])) after = before;
      dtype_store(t, data, element, after);
      sim_mark_written(a.home, q.b, element);
      w->lane[l].pending[q.b->shared] = true;
      if (is_volatile) flag_atomic(&a, q.b, element, before, after);
      else flag_change(&a, q.b, element, after);
      w->sim->events++;
    }
    wave_undef(w, out)[e] = 0;
  }
  return STEP_NEXT;
}
