/* isa_memory.c: global, buffer, scratch and scalar memory.
 *
 * Addresses are those of the host, checked against the ranges of the launch. A load takes effect at
 * once; its registers are marked as pending until a wait covers it (isa_wait.c). */
#include <string.h>

#include "isa/isa_state.h"

enum { PART_WORDS, PART_LOW, PART_HIGH }; /* what of the register is loaded or stored */

/* param of a row: bytes, is signed, part */
static int bytes_of(const IsaInstr *i) { return i->row->param[0]; }

/* ---- checking ---- */

static bool contains(const IsaRange *r, uint64_t at, uint32_t bytes) {
  return at >= r->at && at - r->at <= r->bytes && bytes <= r->bytes - (at - r->at);
}

static uint64_t distance(const IsaRange *r, uint64_t at) {
  if (at < r->at) return r->at - at;
  return at - r->at < r->bytes ? 0 : at - r->at - r->bytes;
}

static const IsaRange *nearest(const IsaLaunch *l, uint64_t at) {
  const IsaRange *best = NULL;
  for (int n = 0; n < l->nranges; n++)
    if (!best || distance(&l->ranges[n], at) < distance(best, at)) best = &l->ranges[n];
  return best;
}

/* The memory to which an instruction's scalar base points, which the address may be far from. */
static const IsaRange *based_on(const IsaWave *w, const IsaInstr *i) {
  enum { ADDRESS_BITS = 48 };
  for (int s = 0; s < i->ns; s++) {
    if (i->s[s].kind != ISA_S || i->s[s].count < 2 || i->s[s].index + 1 >= ISA_SGPRS) continue;
    const uint32_t *pair = &w->s[i->s[s].index];
    uint64_t base = (pair[0] | (uint64_t)pair[1] << 32) & ((UINT64_C(1) << ADDRESS_BITS) - 1);
    for (int n = 0; n < w->group->launch->nranges; n++)
      if (contains(&w->group->launch->ranges[n], base, 0)) return &w->group->launch->ranges[n];
  }
  return NULL;
}

static void report_outside(IsaWave *w, int lane, uint64_t at, uint32_t bytes, bool write) {
  const IsaRange *r = w->pc > 0 ? based_on(w, &w->k->code[w->pc - 1]) : NULL;
  if (!r) r = nearest(w->group->launch, at);
  const char *what = write ? "written" : "read";
  if (!r) {
    isa_fault(w, ISA_OUTSIDE, lane, "%u bytes at 0x%llx are %s, and the launch has no memory",
              bytes, (unsigned long long)at, what);
    return;
  }
  isa_fault(w, ISA_OUTSIDE, lane, "%u bytes are %s at byte %lld of `%s`, which has %llu%s", bytes,
            what, (long long)(at - r->at), r->name, (unsigned long long)r->bytes,
            contains(r, at, bytes) ? " and is not written" : "");
}

uint8_t *isa_memory(IsaWave *w, int lane, uint64_t at, uint32_t bytes, bool write) {
  IsaGroup *g = w->group;
  if (WV_LIKELY(g->last && contains(g->last, at, bytes) && (g->last->writable || !write)))
    return (uint8_t *)(uintptr_t)at;
  for (int n = 0; n < g->launch->nranges; n++) {
    const IsaRange *r = &g->launch->ranges[n];
    if (!contains(r, at, bytes) || (write && !r->writable)) continue;
    g->last = r;
    return (uint8_t *)(uintptr_t)at;
  }
  report_outside(w, lane, at, bytes, write);
  return NULL;
}

/* ---- one lane ---- */

static uint32_t narrow(const IsaInstr *i, const uint8_t *from) {
  uint16_t half;
  if (bytes_of(i) == 1) return i->row->param[1] ? (uint32_t)(int8_t)*from : *from;
  memcpy(&half, from, 2);
  return i->row->param[1] ? (uint32_t)(int16_t)half : half;
}

/* `from` NULL: zeros. */
static void load_lane(IsaWave *w, const IsaInstr *i, int lane, const uint8_t *from) {
  const IsaArg *d = &i->d[0];
  int bytes = bytes_of(i), part = i->row->param[2];
  if (bytes >= 4) {
    for (int n = 0; n < bytes / 4; n++) {
      uint32_t v = 0;
      if (from) memcpy(&v, from + 4 * n, 4);
      w->v[d->index + n][lane] = v;
    }
    return;
  }
  uint32_t v = from ? narrow(i, from) : 0, *to = &w->v[d->index][lane];
  if (part == PART_LOW) *to = (*to & 0xffff0000u) | (v & 0xffff);
  else if (part == PART_HIGH) *to = (*to & 0xffff) | v << 16;
  else *to = v;
}

static bool takes_high(const IsaInstr *i, const IsaArg *data) {
  return i->row->param[2] == PART_HIGH || data->half == 'h';
}

static void store_lane(IsaWave *w, const IsaInstr *i, const IsaArg *from, int lane, uint8_t *to) {
  int bytes = bytes_of(i);
  bool high = takes_high(i, from);
  for (int n = 0; n < bytes; n += 4) {
    uint32_t v = w->v[from->index + n / 4][lane] >> (high ? 16 : 0);
    memcpy(to + n, &v, bytes - n < 4 ? (size_t)bytes : 4);
  }
}

/* ---- global ---- */

/* The offset of a lane that is added to a scalar base. */
static uint64_t lane_offset(const IsaWave *w, const IsaInstr *i, uint32_t v) {
  uint64_t offset = w->k->is_1250 ? (uint64_t)(int64_t)(int32_t)v : v;
  return i->scales ? offset * (uint64_t)bytes_of(i) : offset;
}

static void addresses(const IsaWave *w, const IsaInstr *i, const IsaArg *v, const IsaArg *s,
                      uint64_t at[ISA_LANES]) {
  uint64_t base = (uint64_t)(int64_t)i->offset;
  bool wide = v->kind == ISA_V && v->count == 2;
  if (s->kind == ISA_S) base += isa_read_scalar(w, s);
  for (int l = 0; l < w->k->lanes; l++) {
    at[l] = base;
    if (wide) at[l] += w->v[v->index][l] | (uint64_t)w->v[v->index + 1][l] << 32;
    else if (v->kind == ISA_V) at[l] += lane_offset(w, i, w->v[v->index][l]);
  }
}

static void fill_loaded(IsaWave *w, const IsaInstr *i, uint32_t number) {
  isa_fill(w, &i->d[0], bytes_of(i) < 4 ? 1 : bytes_of(i) / 4, ISA_LOADS, number);
}

static void step_global_load(IsaWave *w, const IsaInstr *i) {
  uint64_t at[ISA_LANES], exec = isa_exec(w);
  addresses(w, i, &i->s[0], &i->s[1], at);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    const uint8_t *from = isa_memory(w, l, at[l], (uint32_t)bytes_of(i), false);
    if (!from) return;
    load_lane(w, i, l, from);
  }
  fill_loaded(w, i, isa_issue(w, ISA_LOADS));
}

static void step_global_store(IsaWave *w, const IsaInstr *i) {
  uint64_t at[ISA_LANES], exec = isa_exec(w);
  addresses(w, i, &i->s[0], &i->s[2], at);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint8_t *to = isa_memory(w, l, at[l], (uint32_t)bytes_of(i), true);
    if (!to) return;
    store_lane(w, i, &i->s[1], l, to);
  }
  isa_issue(w, isa_store_counter(w));
}

/* ---- directly to LDS: M0 says where, each lane has its own place ---- */

static bool copy_to_lds(IsaWave *w, const IsaInstr *i, int lane, const uint8_t *from,
                        uint32_t number) {
  uint32_t bytes = (uint32_t)bytes_of(i), step = bytes < 4 ? 4 : bytes;
  uint32_t at = (w->s[ISA_M0] & 0xffff) + (uint32_t)i->offset + (uint32_t)lane * step;
  uint8_t *to = isa_lds(w, lane, at, step, ISA_WRITES, ISA_LOADS, number);
  if (!to) return false;
  uint32_t word = bytes < 4 && from ? narrow(i, from) : 0;
  if (bytes < 4) memcpy(to, &word, 4);
  else if (from) memcpy(to, from, bytes);
  else memset(to, 0, bytes);
  return true;
}

static void step_global_to_lds(IsaWave *w, const IsaInstr *i) {
  uint64_t at[ISA_LANES], exec = isa_exec(w);
  uint32_t number = isa_issue(w, ISA_LOADS);
  addresses(w, i, &i->s[0], &i->s[1], at);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    const uint8_t *from = isa_memory(w, l, at[l], (uint32_t)bytes_of(i), false);
    if (!from || !copy_to_lds(w, i, l, from, number)) return;
  }
}

/* gfx1250: each lane says where, and the immediate is added on both sides. */
static void step_async_to_lds(IsaWave *w, const IsaInstr *i) {
  uint64_t at[ISA_LANES], exec = isa_exec(w);
  uint32_t number = isa_issue(w, ISA_ASYNC), bytes = (uint32_t)bytes_of(i);
  addresses(w, i, &i->s[1], &i->s[2], at);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint32_t place = w->v[i->s[0].index][l] + (uint32_t)i->offset;
    const uint8_t *from = isa_memory(w, l, at[l], bytes, false);
    uint8_t *to = from ? isa_lds(w, l, place, bytes, ISA_WRITES, ISA_ASYNC, number) : NULL;
    if (!to) return;
    memcpy(to, from, bytes);
  }
}

/* ---- buffers ---- */

/* The resource that gfx9 gives a wave for its scratch memory: not an address of the host. */
#define SCRATCH_BASE UINT64_C(0x00005c2a7c400000)

uint64_t isa_scratch_base(void) { return SCRATCH_BASE; }

typedef struct Buffer {
  uint64_t base, records, stride, scalar;
  bool is_scratch;
} Buffer;

/* The 128 bits of a resource: an address of 48 bits, the stride, the number of records; on gfx1250
 * an address of 57 bits, 45 bits of records, six that are not used, the stride. */
static void read_resource(const IsaKernel *k, const uint32_t *words, Buffer *b) {
  uint64_t low = words[0] | (uint64_t)words[1] << 32, high = words[2] | (uint64_t)words[3] << 32;
  if (k->is_1250) {
    b->base = low & ((UINT64_C(1) << 57) - 1);
    b->records = (low >> 57 | high << 7) & ((UINT64_C(1) << 45) - 1);
    b->stride = words[3] >> 12 & 0x3fff;
  } else {
    b->base = low & ((UINT64_C(1) << 48) - 1);
    b->records = words[2];
    b->stride = words[1] >> 16 & 0x3fff;
  }
  b->is_scratch = b->base == SCRATCH_BASE;
}

static bool open_buffer(IsaWave *w, const IsaInstr *i, const IsaArg *rsrc, const IsaArg *soffset,
                        Buffer *b) {
  read_resource(w->k, &w->s[rsrc->index], b);
  b->scalar = soffset->kind == ISA_OFF ? 0 : (uint32_t)isa_read_scalar(w, soffset);
  if (b->is_scratch || (!i->idxen && !b->stride)) return true;
  isa_fault(w, ISA_UNKNOWN, -1, "buffers with a stride are not implemented");
  return false;
}

static uint8_t *scratch_at(IsaWave *w, int lane, uint64_t at, uint32_t bytes);

/* A negative offset in a register, made positive by the one in the instruction: the documents do
 * not say that the sum wraps around, and LLVM considers it illegal. */
static bool wraps(IsaWave *w, int lane, uint64_t offset, uint32_t bytes) {
  if (offset + bytes <= UINT64_C(1) << 32) return false;
  isa_fault(w, ISA_OUTSIDE, lane,
            "the offsets of the register and of the instruction add up to "
            "0x%llx, which has more than 32 bits",
            (unsigned long long)offset);
  return true;
}

/* The address of `bytes` for a lane: NULL with *outside if they are beyond the records. */
static uint8_t *buffer_at(IsaWave *w, const Buffer *b, int lane, uint64_t offset, uint32_t bytes,
                          bool write, bool *outside) {
  *outside = false;
  if (b->is_scratch) return scratch_at(w, lane, (uint32_t)(offset + b->scalar), bytes);
  if (wraps(w, lane, offset, bytes)) return NULL;
  *outside = offset + b->scalar + bytes > b->records;
  if (*outside) return NULL;
  return isa_memory(w, lane, b->base + b->scalar + offset, bytes, write);
}

static uint64_t buffer_offset(const IsaWave *w, const IsaInstr *i, const IsaArg *v, int lane) {
  return (uint32_t)i->offset + (i->offen ? (uint64_t)w->v[v->index][lane] : 0);
}

/* Beyond the records each word reads as zero. */
static bool load_words(IsaWave *w, const IsaInstr *i, const Buffer *b, int lane, uint64_t offset,
                       uint8_t *to) {
  uint32_t bytes = (uint32_t)bytes_of(i), step = bytes < 4 ? bytes : 4;
  for (uint32_t n = 0; n < bytes; n += step) {
    bool outside;
    const uint8_t *from = buffer_at(w, b, lane, offset + n, step, false, &outside);
    if (!from && !outside) return false;
    if (from) memcpy(to + n, from, step);
    else memset(to + n, 0, step);
  }
  return true;
}

static void step_buffer_load(IsaWave *w, const IsaInstr *i) {
  Buffer b;
  uint64_t exec = isa_exec(w), at[ISA_LANES];
  if (!open_buffer(w, i, &i->s[1], &i->s[2], &b)) return;
  uint32_t number = isa_issue(w, ISA_LOADS);
  for (int l = 0; l < w->k->lanes; l++) at[l] = buffer_offset(w, i, &i->s[0], l);
  for (int l = 0; l < w->k->lanes; l++) {
    uint8_t bytes[16];
    if (!(exec >> l & 1)) continue;
    if (!load_words(w, i, &b, l, at[l], bytes)) return;
    if (!i->lds) load_lane(w, i, l, bytes);
    else if (!copy_to_lds(w, i, l, bytes, number)) return;
  }
  if (!i->lds) fill_loaded(w, i, number);
}

static void step_buffer_store(IsaWave *w, const IsaInstr *i) {
  Buffer b;
  uint64_t exec = isa_exec(w);
  if (!open_buffer(w, i, &i->s[2], &i->s[3], &b)) return;
  uint32_t bytes = (uint32_t)bytes_of(i), step = bytes < 4 ? bytes : 4;
  for (int l = 0; l < w->k->lanes; l++) {
    uint8_t data[16];
    if (!(exec >> l & 1)) continue;
    store_lane(w, i, &i->s[0], l, data);
    uint64_t at = buffer_offset(w, i, &i->s[1], l);
    for (uint32_t n = 0; n < bytes; n += step) {
      bool outside;
      uint8_t *to = buffer_at(w, &b, l, at + n, step, true, &outside);
      if (!to && !outside) return;
      if (to) memcpy(to, data + n, step);
    }
  }
  isa_issue(w, isa_store_counter(w));
}

/* ---- scratch ---- */

static uint8_t *scratch_at(IsaWave *w, int lane, uint64_t at, uint32_t bytes) {
  uint32_t size = w->k->image.private_bytes;
  if (at <= size && bytes <= size - at) return w->scratch + (size_t)lane * size + at;
  isa_fault(w, ISA_OUTSIDE, lane, "%u bytes at %lld of scratch memory, which has %u", bytes,
            (long long)at, size);
  return NULL;
}

static uint64_t scratch_offset(const IsaWave *w, const IsaInstr *i, const IsaArg *v,
                               const IsaArg *s, int lane) {
  uint32_t at = (uint32_t)i->offset;
  if (v->kind == ISA_V) at += w->v[v->index][lane] * (i->scales ? (uint32_t)bytes_of(i) : 1);
  if (s->kind == ISA_S) at += (uint32_t)isa_read_scalar(w, s);
  return at;
}

/* The bits of word `word` of an access that were never written, in a lane. */
static uint32_t *unset_at(IsaWave *w, int lane, uint64_t at, int word) {
  uint64_t size = w->k->image.private_bytes / 4 * 4;
  return &w->unset[((uint64_t)lane * size + at) / 4 + (uint64_t)word];
}

/* A register has a bit if a lane has loaded it. */
static void load_unset(IsaWave *w, const IsaInstr *i, const uint64_t at[ISA_LANES]) {
  for (int word = 0; isa_exec(w) && word < bytes_of(i) / 4; word++) {
    uint32_t unset = UINT32_MAX;
    for (int l = 0; l < w->k->lanes; l++)
      if (isa_exec(w) >> l & 1) unset &= *unset_at(w, l, at[l], word);
    w->pending[i->d[0].index + word].unset = unset;
  }
}

static void store_unset(IsaWave *w, const IsaInstr *i, int lane, uint64_t at) {
  const IsaArg *from = &i->s[1];
  for (int word = 0; word < bytes_of(i) / 4; word++)
    *unset_at(w, lane, at, word) = isa_unset_word(w, from->index + word);
  if (bytes_of(i) >= 4) return;
  uint32_t mask = (1u << 8 * bytes_of(i)) - 1, *to = unset_at(w, lane, at, 0);
  uint32_t bits = isa_unset_word(w, from->index) >> (takes_high(i, from) ? 16 : 0);
  int shift = 8 * (int)(at % 4);
  *to = (*to & ~(mask << shift)) | (bits & mask) << shift;
}

static void step_scratch_load(IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w), at[ISA_LANES];
  for (int l = 0; l < w->k->lanes; l++) at[l] = scratch_offset(w, i, &i->s[0], &i->s[1], l);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    const uint8_t *from = scratch_at(w, l, at[l], (uint32_t)bytes_of(i));
    if (!from) return;
    load_lane(w, i, l, from);
  }
  fill_loaded(w, i, isa_issue(w, ISA_LOADS));
  load_unset(w, i, at);
}

static bool has_address(IsaWave *w, const IsaArg *v) {
  bool there = v->kind != ISA_V || w->reg[v->index] != ISA_NEVER;
  if (!there) isa_fault(w, ISA_UNSET, -1, "v%d is used, but was never written", v->index);
  return there;
}

static void step_scratch_store(IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w);
  if (!has_address(w, &i->s[0])) return;
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint64_t at = scratch_offset(w, i, &i->s[0], &i->s[2], l);
    uint8_t *to = scratch_at(w, l, at, (uint32_t)bytes_of(i));
    if (!to) return;
    store_lane(w, i, &i->s[1], l, to);
    store_unset(w, i, l, at);
  }
  isa_issue(w, isa_store_counter(w));
}

/* ---- scalar ---- */

static void step_scalar_load(IsaWave *w, const IsaInstr *i) {
  bool is_buffer = i->row->param[3];
  const uint32_t *base = &w->s[i->s[0].index];
  uint64_t at = base[0] | (uint64_t)base[1] << 32, offset = isa_read_scalar(w, &i->s[1]);
  Buffer b = {0};
  if (i->s[1].kind == ISA_IMM) offset = (uint64_t)(int64_t)(int32_t)offset;
  if (i->scales) offset *= (uint64_t)bytes_of(i);
  offset += (uint64_t)(int64_t)i->offset;
  int words = bytes_of(i) / 4;
  if (is_buffer) read_resource(w->k, base, &b), at = b.base;
  for (int n = 0; n < (words ? words : 1); n++) {
    uint32_t v = 0, bytes = words ? 4 : (uint32_t)bytes_of(i);
    bool outside = is_buffer && offset + 4 * (uint64_t)n + bytes > b.records;
    const uint8_t *from =
        outside ? NULL : isa_memory(w, -1, at + offset + 4 * (uint64_t)n, bytes, false);
    if (!from && !outside) return;
    if (from && words) memcpy(&v, from, 4);
    else if (from) v = narrow(i, from);
    w->out[0][0][n] = v;
  }
  memcpy(&w->s[i->d[0].index], w->out[0][0], 4 * (size_t)(words ? words : 1));
  isa_fill(w, &i->d[0], words ? words : 1, ISA_SMEM, isa_issue(w, ISA_SMEM));
}

/* A wave's time is the number of instructions that it has executed. */
static void step_time(IsaWave *w, const IsaInstr *i) {
  w->s[i->d[0].index] = (uint32_t)w->executed;
  w->s[i->d[0].index + 1] = (uint32_t)(w->executed >> 32);
  isa_fill(w, &i->d[0], 2, ISA_SMEM, isa_issue(w, ISA_SMEM));
}

/* ---- atomics ---- */

static uint64_t atomic_data(const IsaWave *w, const IsaArg *data, int lane, int first, int bytes) {
  uint64_t v = w->v[data->index + first][lane];
  return bytes == 8 ? v | (uint64_t)w->v[data->index + first + 1][lane] << 32 : v;
}

/* The bytes of the word that are in a range, one bit for each. */
static unsigned bytes_in(const IsaRange *r, uint64_t at) {
  unsigned inside = 0;
  for (unsigned b = 0; r->writable && b < 4; b++)
    if (contains(r, at + b, 1)) inside |= 1u << b;
  return inside;
}

/* Bytes outside the launch's memory may share a word with an element that is updated, if they are
 * not changed. Returns the launch's bytes of the word; 0: there are none, or others are changed. */
static unsigned shared_word(const IsaWave *w, uint64_t at, unsigned changed) {
  const IsaLaunch *l = w->group->launch;
  const IsaRange *last = w->group->last;
  if ((last && contains(last, at, 4)) || at % 4 || !isa_atomic_splits(changed)) return 0;
  for (int n = 0; n < l->nranges; n++) {
    unsigned inside = bytes_in(&l->ranges[n], at);
    if (inside && inside != 15 && !(changed & ~inside)) return inside;
  }
  return 0;
}

/* param: bytes, operation, 0, takes a value to compare with. The data of a comparison follows the
 * new value. False after reporting. */
static bool atomic_lane(IsaWave *w, const IsaInstr *i, const IsaArg *data, int lane, uint64_t at) {
  int bytes = i->row->param[0], words = bytes / 4, op = i->row->param[1];
  uint64_t value = atomic_data(w, data, lane, 0, bytes), before;
  uint64_t compare = i->row->param[3] ? atomic_data(w, data, lane, words, bytes) : 0;
  unsigned changed = isa_atomic_changes(op, bytes, value, compare);
  unsigned inside = bytes == 4 && changed != 15 ? shared_word(w, at, changed) : 0;
  if (inside) {
    before = isa_atomic_part(op, (uint8_t *)(uintptr_t)at, inside, value, compare);
  } else {
    uint8_t *to = isa_memory(w, lane, at, (uint32_t)bytes, true);
    if (!to || !isa_atomic_aligned(w, lane, to, bytes)) return false;
    before = isa_atomic(op, to, bytes, value, compare);
  }
  for (int n = 0; i->nd && n < words; n++)
    w->v[i->d[0].index + n][lane] = (uint32_t)(before >> 32 * n);
  return true;
}

static void end_atomic(IsaWave *w, const IsaInstr *i) {
  uint32_t number = isa_issue(w, i->nd ? ISA_LOADS : isa_store_counter(w));
  if (i->nd) isa_fill(w, &i->d[0], i->row->param[0] / 4, ISA_LOADS, number);
}

static void step_global_atomic(IsaWave *w, const IsaInstr *i) {
  uint64_t at[ISA_LANES], exec = isa_exec(w);
  addresses(w, i, &i->s[0], &i->s[2], at);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    if (!atomic_lane(w, i, &i->s[1], l, at[l])) return;
  }
  end_atomic(w, i);
}

/* Returned values overwrite the data: there is no separate destination. */
static void step_buffer_atomic(IsaWave *w, const IsaInstr *i) {
  Buffer b;
  uint64_t exec = isa_exec(w);
  if (!open_buffer(w, i, &i->s[2], &i->s[3], &b)) return;
  IsaInstr with = *i;
  with.nd = i->returns, with.d[0] = i->s[0];
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint64_t offset = buffer_offset(w, i, &i->s[1], l), bytes = (uint64_t)bytes_of(i);
    if (wraps(w, l, offset, (uint32_t)bytes)) return;
    if (offset + b.scalar + bytes > b.records) continue;
    if (!atomic_lane(w, &with, &i->s[0], l, b.base + b.scalar + offset)) return;
  }
  end_atomic(w, &with);
}

/* ---- the table ---- */

#define LOAD(prefix, old, new, types, step, bytes, is_signed, part)                                \
  {                                                                                                \
    prefix "load_" old, prefix "load_" new, types, step, NULL, NULL, { bytes, is_signed, part, 0 } \
  }
#define LOADS(prefix, types, step)                                                                 \
  LOAD(prefix, "ubyte", "u8", types, step, 1, 0, PART_WORDS),                                      \
      LOAD(prefix, "sbyte", "i8", types, step, 1, 1, PART_WORDS),                                  \
      LOAD(prefix, "ushort", "u16", types, step, 2, 0, PART_WORDS),                                \
      LOAD(prefix, "sshort", "i16", types, step, 2, 1, PART_WORDS),                                \
      LOAD(prefix, "dword", "b32", types, step, 4, 0, PART_WORDS),                                 \
      LOAD(prefix, "dwordx2", "b64", types, step, 8, 0, PART_WORDS),                               \
      LOAD(prefix, "dwordx3", "b96", types, step, 12, 0, PART_WORDS),                              \
      LOAD(prefix, "dwordx4", "b128", types, step, 16, 0, PART_WORDS),                             \
      LOAD(prefix, "ubyte_d16", "d16_u8", types, step, 1, 0, PART_LOW),                            \
      LOAD(prefix, "ubyte_d16_hi", "d16_hi_u8", types, step, 1, 0, PART_HIGH),                     \
      LOAD(prefix, "sbyte_d16", "d16_i8", types, step, 1, 1, PART_LOW),                            \
      LOAD(prefix, "sbyte_d16_hi", "d16_hi_i8", types, step, 1, 1, PART_HIGH),                     \
      LOAD(prefix, "short_d16", "d16_b16", types, step, 2, 0, PART_LOW),                           \
      LOAD(prefix, "short_d16_hi", "d16_hi_b16", types, step, 2, 0, PART_HIGH)
#define STORE(prefix, old, new, types, step, bytes, part)                                          \
  {                                                                                                \
    prefix "store_" old, prefix "store_" new, types, step, NULL, NULL, { bytes, 0, part, 0 }       \
  }
#define STORES(prefix, types, step)                                                                \
  STORE(prefix, "byte", "b8", types, step, 1, PART_WORDS),                                         \
      STORE(prefix, "short", "b16", types, step, 2, PART_WORDS),                                   \
      STORE(prefix, "dword", "b32", types, step, 4, PART_WORDS),                                   \
      STORE(prefix, "dwordx2", "b64", types, step, 8, PART_WORDS),                                 \
      STORE(prefix, "dwordx3", "b96", types, step, 12, PART_WORDS),                                \
      STORE(prefix, "dwordx4", "b128", types, step, 16, PART_WORDS),                               \
      STORE(prefix, "byte_d16_hi", "d16_hi_b8", types, step, 1, PART_HIGH),                        \
      STORE(prefix, "short_d16_hi", "d16_hi_b16", types, step, 2, PART_HIGH)
#define SMEM(old, new, bytes, is_signed)                                                           \
  {"s_load_" old, "s_load_" new, "S=Bo", step_scalar_load, NULL, NULL, {bytes, is_signed, 0, 0}},  \
  {                                                                                                \
    "s_buffer_load_" old, "s_buffer_load_" new, "S=Ro", step_scalar_load, NULL, NULL, {            \
      bytes, is_signed, 0, 1                                                                       \
    }                                                                                              \
  }
#define ATOMIC(op, old, new, bytes, compares)                                                      \
  {"global_atomic_" old,    "global_atomic_" new, "?v=avA", step_global_atomic, NULL, NULL,        \
   {bytes, op, 0, compares}},                                                                      \
      {"buffer_atomic_" old,    "buffer_atomic_" new, "=vaRs", step_buffer_atomic, NULL, NULL,     \
       {bytes, op, 0, compares}},

IsaRows isa_memory_rows(void) {
  static const IsaRow rows[] = {
      LOADS("global_", "v=aA", step_global_load),
      LOADS("buffer_", "?v=aRs", step_buffer_load),
      LOADS("scratch_", "v=aA", step_scratch_load),
      STORES("global_", "=avA", step_global_store),
      STORES("buffer_", "=vaRs", step_buffer_store),
      STORES("scratch_", "=avA", step_scratch_store),
      {"s_memtime", "s_memrealtime", "S=", step_time, NULL, NULL, {0}},
      {"global_load_lds_dword", "", "=aA", step_global_to_lds, NULL, NULL, {4}},
      {"global_load_lds_ubyte", "", "=aA", step_global_to_lds, NULL, NULL, {1}},
      {"global_load_lds_ushort", "", "=aA", step_global_to_lds, NULL, NULL, {2}},
      {"global_load_lds_dwordx3", "", "=aA", step_global_to_lds, NULL, NULL, {12}},
      {"global_load_lds_dwordx4", "", "=aA", step_global_to_lds, NULL, NULL, {16}},
      {"global_load_async_to_lds_b8", "", "=aaA", step_async_to_lds, NULL, NULL, {1}},
      {"global_load_async_to_lds_b32", "", "=aaA", step_async_to_lds, NULL, NULL, {4}},
      {"global_load_async_to_lds_b64", "", "=aaA", step_async_to_lds, NULL, NULL, {8}},
      {"global_load_async_to_lds_b128", "", "=aaA", step_async_to_lds, NULL, NULL, {16}},
      SMEM("dword", "b32", 4, 0),
      SMEM("dwordx2", "b64", 8, 0),
      SMEM("dwordx3", "b96", 12, 0),
      SMEM("dwordx4", "b128", 16, 0),
      SMEM("dwordx8", "b256", 32, 0),
      SMEM("dwordx16", "b512", 64, 0),
      SMEM("ubyte", "u8", 1, 0),
      SMEM("sbyte", "i8", 1, 1),
      SMEM("ushort", "u16", 2, 0),
      SMEM("sshort", "i16", 2, 1),
#include "isa/memory/isa_atomic.def"
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
