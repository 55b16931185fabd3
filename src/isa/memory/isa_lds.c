/* isa_lds.c: LDS, and what waves may assume about each other's data in it.
 *
 * Time is divided into epochs by the workgroup's barriers. Another wave's data may be read in a
 * later epoch than that in which it was written, and only if the writer had waited for its store
 * when it arrived at the barrier; and data may be overwritten only in a later epoch than that in
 * which another wave read it. A shadow for each word of LDS knows its last write and its last read;
 * once a part of a word is accessed, each of its bytes has a shadow.
 *
 * Within an epoch, named barriers order accesses too (isa_named.c). They need not order all readers
 * of a word before a wave that overwrites it, so the time of each wave's last read is kept. */
#include <stdio.h>
#include <string.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

/* ---- the shadow ---- */

/* A direct copy is not ordered with the LDS operations of the wave that issued it. */
static bool is_early(IsaWave *w, const IsaShadow *s) {
  const IsaWave *writer = &w->group->waves[s->writer];
  if (s->writer == w->index)
    return s->counter != ISA_DS && !isa_is_done(w, &w->done[s->counter], s->number);
  return !isa_is_done(w, &writer->settled[(w->epoch - 1) & 1][s->counter], s->number);
}

/* Is a single barrier instruction all that is between an earlier epoch and this one? */
static bool is_ordered_once(const IsaWave *w, uint32_t epoch) {
  return epoch < w->epoch && epoch >= w->group->run;
}

/* Of atomic operations by several waves in one epoch, only the last one of each wave is known, on
 * whatever word. */
static const IsaWave *unsettled(IsaWave *w, const IsaShadow *s) {
  for (int n = 0; n < w->group->nwaves; n++) {
    const IsaWave *other = &w->group->waves[n];
    const IsaUpdate *u = &other->updates[(s->wrote - 1) & 1];
    bool is_due = n != w->index && s->wrote == w->epoch && u->epoch == s->wrote;
    if (is_due && !isa_is_done(w, &other->settled[(w->epoch - 1) & 1][ISA_DS], u->number))
      return other;
  }
  return NULL;
}

static bool report_early(IsaWave *w, int lane, uint32_t at, int writer, const char *what) {
  isa_fault(w, ISA_EARLY, lane,
            "LDS byte %u is read, but wave %d did not wait for its %s before the barrier", at,
            writer, what);
  return false;
}

/* The last write was made by a wave that this one has met since at a named barrier. */
static bool check_met(IsaWave *w, int lane, uint32_t at, const IsaShadow *s) {
  const IsaWave *writer = &w->group->waves[s->writer];
  if (isa_is_done(w, &isa_named_done(w, writer)[s->counter], s->number)) return true;
  return report_early(w, lane, at, s->writer, s->counter == ISA_DS ? "store" : "copy");
}

static bool report_race(IsaWave *w, int lane, uint32_t at, int writer) {
  char several[] = "other waves", one[16];
  snprintf(one, sizeof one, "wave %d", writer);
  isa_fault(w, ISA_RACE, lane, "LDS byte %u is read, which %s wrote without a barrier in between",
            at, writer == ISA_MANY ? several : one);
  return false;
}

static IsaAdded *added_to(const IsaGroup *g, uint32_t at) {
  return g->added + (size_t)(at / 4) * (size_t)g->nwaves;
}

/* The last writes were atomic operations of several waves in this epoch. Has this one met each of
 * the others since? */
static bool check_all_met(IsaWave *w, int lane, uint32_t at) {
  const IsaGroup *g = w->group;
  for (int n = 0; n < g->nwaves; n++) {
    const IsaAdded *last = added_to(g, at) + n;
    if (n == w->index || !last->any) continue;
    if (!isa_has_met(w, n, last->time)) return report_race(w, lane, at, ISA_MANY);
    if (!isa_is_done(w, &isa_named_done(w, &g->waves[n])[ISA_DS], last->number))
      return report_early(w, lane, at, n, "atomic operation");
  }
  return true;
}

/* Is the last write complete, and ordered before this access? */
static bool check_writer(IsaWave *w, int lane, uint32_t at, const IsaShadow *s) {
  bool is_other = s->writer != w->index;
  if (is_other && s->wrote == w->epoch + 1) {
    if (s->writer == ISA_MANY && w->group->added) return check_all_met(w, lane, at);
    if (isa_has_met(w, s->writer, s->write_time)) return check_met(w, lane, at, s);
    return report_race(w, lane, at, s->writer);
  }
  const IsaWave *early = s->writer == ISA_MANY ? unsettled(w, s) : NULL;
  if (early) return report_early(w, lane, at, early->index, "atomic operation");
  if (s->writer != ISA_MANY && is_early(w, s))
    return report_early(w, lane, at, s->writer, s->counter == ISA_DS ? "store" : "copy");
  if (is_other && is_ordered_once(w, s->wrote - 1)) isa_note(w->k, w->group->barrier, ISA_NEEDED);
  return true;
}

/* The times at which the waves read a word or a byte. */
static uint32_t *reads_of(const IsaGroup *g, const IsaShadow *s) {
  size_t words = g->lds_bytes / 4 + 2;
  bool is_byte = s >= g->bytes && s < g->bytes + g->lds_bytes + 8;
  size_t which = is_byte ? words + (size_t)(s - g->bytes) : (size_t)(s - g->shadow);
  return g->reads + which * (size_t)g->nwaves;
}

static void note_read(IsaWave *w, const IsaShadow *s) {
  IsaGroup *g = w->group;
  uint32_t *reads = reads_of(g, s);
  if (s->read != w->epoch + 1) memset(reads, 0, sizeof *reads * (size_t)g->nwaves);
  reads[w->index] = g->time + 1;
}

static bool check_read(IsaWave *w, int lane, uint32_t at, IsaShadow *s) {
  if (s->wrote && !check_writer(w, lane, at, s)) return false;
  bool is_recent = s->read && s->read - 1 >= w->group->run;
  s->readers = is_recent && s->readers != w->index ? ISA_MANY : (uint8_t)w->index;
  bool shared = s->read == w->epoch + 1 && s->reader != w->index;
  if (w->group->reads) note_read(w, s);
  s->reader = shared ? ISA_MANY : (uint8_t)w->index;
  s->read = w->epoch + 1;
  return true;
}

/* Has another wave read it in this epoch, and not met this one since? */
static bool is_being_read(const IsaWave *w, const IsaShadow *s) {
  const IsaGroup *g = w->group;
  if (s->read != w->epoch + 1 || s->reader == w->index) return false;
  if (!g->reads) return true;
  const uint32_t *reads = reads_of(g, s);
  for (int n = 0; n < g->nwaves; n++)
    if (n != w->index && reads[n] && !isa_has_met(w, n, reads[n] - 1)) return true;
  return false;
}

static bool check_write(IsaWave *w, int lane, uint32_t at, IsaShadow *s) {
  if (is_being_read(w, s))
    return isa_fault(w, ISA_RACE, lane,
                     "LDS byte %u is written, which %s read without a barrier "
                     "in between",
                     at, s->reader == ISA_MANY ? "another wave" : "a wave before it"),
           false;
  if (s->read && s->readers != w->index && is_ordered_once(w, s->read - 1))
    isa_note(w->k, w->group->barrier, ISA_NEEDED);
  s->writer = (uint8_t)w->index;
  s->wrote = w->epoch + 1;
  s->write_time = w->group->time;
  s->is_atomic = false;
  return true;
}

/* Atomic operations of several waves may meet in an epoch, but not with other accesses. */
static bool check_update(IsaWave *w, int lane, uint32_t at, IsaShadow *s) {
  bool meets = s->is_atomic && s->wrote == w->epoch + 1;
  int before = s->writer;
  if (s->wrote && !meets && !check_writer(w, lane, at, s)) return false;
  if (!check_write(w, lane, at, s)) return false;
  IsaGroup *g = w->group;
  if (!meets && g->added) memset(added_to(g, at), 0, sizeof *g->added * (size_t)g->nwaves);
  if (meets && before != w->index) s->writer = ISA_MANY;
  s->is_atomic = true;
  return true;
}

typedef struct LdsAccess {
  int lane;
  IsaAccess access;
  uint8_t counter;
  uint32_t number;
} LdsAccess;

static bool check_shadow(IsaWave *w, const LdsAccess *x, uint32_t at, IsaShadow *s) {
  if (x->access == ISA_READS) return check_read(w, x->lane, at, s);
  bool ok =
      x->access == ISA_WRITES ? check_write(w, x->lane, at, s) : check_update(w, x->lane, at, s);
  if (x->access == ISA_UPDATES && w->group->added)
    added_to(w->group, at)[w->index] = (IsaAdded){true, w->group->time, x->number};
  s->counter = x->counter, s->number = x->number;
  return ok;
}

static void split_word(IsaGroup *g, uint32_t word) {
  IsaShadow *s = &g->shadow[word];
  if (s->is_split) return;
  for (uint32_t b = 4 * word; b < 4 * word + 4; b++) {
    g->bytes[b] = *s;
    if (g->reads)
      memcpy(reads_of(g, &g->bytes[b]), reads_of(g, s), sizeof *g->reads * (size_t)g->nwaves);
  }
  s->is_split = true;
}

/* Bytes `from` to `to` - 1 of LDS, all of one word. */
static bool check_part(IsaWave *w, const LdsAccess *x, uint32_t from, uint32_t to) {
  IsaGroup *g = w->group;
  IsaShadow *s = &g->shadow[from / 4];
  if (to - from == 4 && !s->is_split) return check_shadow(w, x, from, s);
  split_word(g, from / 4);
  for (uint32_t at = from; at < to; at++)
    if (!check_shadow(w, x, at, &g->bytes[at])) return false;
  return true;
}

uint8_t *isa_lds(IsaWave *w, int lane, uint32_t at, uint32_t bytes, IsaAccess access, IsaCounter c,
                 uint32_t number) {
  IsaGroup *g = w->group;
  LdsAccess x = {lane, access, (uint8_t)c, number};
  if (at > g->lds_bytes || bytes > g->lds_bytes - at) {
    isa_fault(w, ISA_OUTSIDE, lane, "%u bytes at %u of LDS, of which the workgroup has %u", bytes,
              at, g->lds_bytes);
    return NULL;
  }
  for (uint32_t from = at, to; from < at + bytes; from = to) {
    to = (from / 4 + 1) * 4 < at + bytes ? (from / 4 + 1) * 4 : at + bytes;
    if (!check_part(w, &x, from, to)) return NULL;
  }
  return g->lds + at;
}

/* ---- loads and stores ---- */

enum { PART_WORDS, PART_LOW, PART_HIGH };

/* param: bytes of an element, is signed, part, elements; two elements have an offset each, in
 * multiples of their size (times `64`). */
static uint32_t element_at(const IsaInstr *i, uint32_t base, int element) {
  if (i->row->param[3] == 1) return base + (uint32_t)i->offset;
  uint32_t unit = (uint32_t)i->row->param[0] * (i->row->param[3] == 64 ? 64 : 1);
  return base + (uint32_t)(element ? i->offset1 : i->offset) * unit;
}

static int elements(const IsaInstr *i) { return i->row->param[3] == 1 ? 1 : 2; }

static void put_small(IsaWave *w, const IsaInstr *i, int lane, const uint8_t *from) {
  uint16_t half;
  uint32_t v = *from, *to = &w->v[i->d[0].index][lane];
  memcpy(&half, from, i->row->param[0] == 2 ? 2 : 1);
  if (i->row->param[0] == 2) v = i->row->param[1] ? (uint32_t)(int16_t)half : half;
  else if (i->row->param[1]) v = (uint32_t)(int8_t)*from;
  if (i->row->param[2] == PART_LOW) v = (*to & 0xffff0000u) | (v & 0xffff);
  if (i->row->param[2] == PART_HIGH) v = (*to & 0xffff) | v << 16;
  *to = v;
}

static void step_read(IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w);
  uint32_t base[ISA_LANES], bytes = (uint32_t)i->row->param[0];
  memcpy(base, w->v[i->s[0].index], sizeof base);
  for (int l = 0; l < w->k->lanes; l++)
    for (int e = 0; exec >> l & 1 && e < elements(i); e++) {
      const uint8_t *from = isa_lds(w, l, element_at(i, base[l], e), bytes, ISA_READS, ISA_DS, 0);
      if (!from) return;
      if (bytes < 4) put_small(w, i, l, from);
      for (uint32_t n = 0; n < bytes / 4; n++)
        memcpy(&w->v[(uint32_t)i->d[0].index + (uint32_t)e * bytes / 4 + n][l], from + 4 * n, 4);
    }
  isa_fill(w, &i->d[0], i->d[0].count, ISA_DS, isa_issue(w, ISA_DS));
}

/* ---- transposing loads ---- */

/* Where element `e` of lane l's result is: the lane that addresses it, and its number there. */
typedef struct Origin {
  int lane, element;
} Origin;

/* gfx950: 16 lanes address the rows of a tile with 16 columns, each lane as many adjacent elements as
 * the tile has rows; the i-th lane gets column i. */
static Origin origin_in_16(int lane, int e, int n) {
  int column = lane % 16, pieces = 16 / n; /* of a row */
  return (Origin){lane - column + e * pieces + column / n, column % n};
}

/* gfx1250: lanes are in groups of as many as a lane has elements; in 8 and 4 bits, each of the halves
 * of a wave gets every other group of four or eight rows. */
static Origin origin_in_32(int lane, int e, int n, int bits) {
  int column = lane % n, half = bits == 8 ? 4 : 8;
  if (bits == 16) return (Origin){lane - column + e, column};
  int group = bits == 8 ? lane / 8 % 2 : lane / 16, upper = bits == 8 ? lane / 16 * 16 : 0;
  return (Origin){upper + e / half * 2 * half + group * half + e % half, column};
}

static uint32_t element_bits(const uint8_t *row, int bits, int element) {
  uint32_t v = 0;
  for (int b = 0; b < bits; b++) {
    int at = element * bits + b;
    v |= (uint32_t)(row[at / 8] >> at % 8 & 1) << b;
  }
  return v;
}

/* All lanes take part, and addresses are multiples of the size, of 16 for 12 bytes. */
static bool read_rows(IsaWave *w, const IsaInstr *i, uint32_t bytes,
                      const uint8_t *row[ISA_LANES]) {
  uint32_t align = bytes == 12 ? 16 : bytes;
  uint64_t every = w->k->lanes == 64 ? UINT64_MAX : (UINT64_C(1) << w->k->lanes) - 1;
  if ((isa_exec(w) & every) != every)
    return isa_fault(w, ISA_UNKNOWN, -1, "a transposing read while some lanes are inactive"), false;
  for (int l = 0; l < w->k->lanes; l++) {
    uint32_t at = element_at(i, w->v[i->s[0].index][l], 0);
    if (at % align)
      return isa_fault(w, ISA_UNALIGNED, l, "LDS byte %u is not a multiple of %u", at, align),
             false;
    row[l] = isa_lds(w, l, at, bytes, ISA_READS, ISA_DS, 0);
    if (!row[l]) return false;
  }
  return true;
}

/* param: bytes of a lane, bits of an element */
static void step_read_transposed(IsaWave *w, const IsaInstr *i) {
  int bytes = i->row->param[0], bits = i->row->param[1], n = bytes * 8 / bits;
  const uint8_t *row[ISA_LANES];
  if (!read_rows(w, i, (uint32_t)bytes, row)) return;
  for (int l = 0; l < w->k->lanes; l++) {
    uint64_t words[2] = {0};
    uint8_t *to = (uint8_t *)words;
    for (int e = 0; e < n; e++) {
      Origin from = w->k->lanes == 64 ? origin_in_16(l, e, n) : origin_in_32(l, e, n, bits);
      uint32_t v = element_bits(row[from.lane], bits, from.element);
      for (int b = 0; b < bits; b++)
        to[(e * bits + b) / 8] |= (uint8_t)((v >> b & 1) << (e * bits + b) % 8);
    }
    for (int word = 0; word < bytes / 4; word++)
      memcpy(&w->v[i->d[0].index + word][l], to + 4 * word, 4);
  }
  isa_fill(w, &i->d[0], i->d[0].count, ISA_DS, isa_issue(w, ISA_DS));
}

static void step_write(IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w);
  uint32_t bytes = (uint32_t)i->row->param[0], number = isa_issue(w, ISA_DS);
  for (int l = 0; l < w->k->lanes; l++)
    for (int e = 0; exec >> l & 1 && e < elements(i); e++) {
      const IsaArg *data = &i->s[1 + e];
      bool high = i->row->param[2] == PART_HIGH || data->half == 'h';
      uint32_t at = element_at(i, w->v[i->s[0].index][l], e);
      uint8_t *to = isa_lds(w, l, at, bytes, ISA_WRITES, ISA_DS, number);
      if (!to) return;
      for (uint32_t n = 0; n < bytes; n += 4) {
        uint32_t v = w->v[data->index + n / 4][l] >> (high ? 16 : 0);
        memcpy(to + n, &v, bytes < 4 ? bytes : 4);
      }
    }
}

bool isa_lds_addresses(const IsaWave *w, const IsaInstr *i, int element, uint32_t *at) {
  bool known = i->step == step_read || i->step == step_write || i->step == step_read_transposed;
  if (!known || element >= elements(i)) return false;
  for (int l = 0; l < w->k->lanes; l++) at[l] = element_at(i, w->v[i->s[0].index][l], element);
  return true;
}

/* ---- atomics ---- */

/* param: bytes, operation, the value to compare with comes last. */
static void step_atomic(IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w);
  int bytes = i->row->param[0], words = bytes / 4;
  bool compares = i->row->param[1] == ATOMIC_CAS;
  bool is_last = i->row->param[2];
  const IsaArg *value = &i->s[compares && !is_last ? 2 : 1], *other = &i->s[is_last ? 2 : 1];
  uint32_t number = isa_issue(w, ISA_DS);
  w->updates[w->epoch & 1] = (IsaUpdate){w->epoch + 1, number};
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint64_t v = w->v[value->index][l], c = 0;
    if (words == 2) v |= (uint64_t)w->v[value->index + 1][l] << 32;
    if (compares) c = w->v[other->index][l];
    if (compares && words == 2) c |= (uint64_t)w->v[other->index + 1][l] << 32;
    uint32_t at = w->v[i->s[0].index][l] + (uint32_t)i->offset;
    uint8_t *to = isa_lds(w, l, at, (uint32_t)bytes, ISA_UPDATES, ISA_DS, number);
    if (!to || !isa_atomic_aligned(w, l, to, bytes)) return;
    uint64_t before = isa_atomic(i->row->param[1], to, bytes, v, c);
    for (int n = 0; i->nd && n < words; n++)
      w->v[i->d[0].index + n][l] = (uint32_t)(before >> 32 * n);
  }
  if (i->nd) isa_fill(w, &i->d[0], words, ISA_DS, number);
}

/* ---- the table ---- */

#define READ(old, new, bytes, is_signed, part)                                                     \
  {                                                                                                \
    "ds_read_" old, "ds_load_" new, "v=a", step_read, NULL, NULL, { bytes, is_signed, part, 1 }    \
  }
#define WRITE(old, new, bytes, part)                                                               \
  {                                                                                                \
    "ds_write_" old, "ds_store_" new, "=av", step_write, NULL, NULL, { bytes, 0, part, 1 }         \
  }
#define TRANSPOSED(name, bytes, bits)                                                              \
  {                                                                                                \
    name, "", "v=a", step_read_transposed, NULL, NULL, { bytes, bits, 0, 1 }                       \
  }
#define LDS_ATOMIC(op, name, type, bytes)                                                          \
  {"ds_" name "_" type, "", "=av", step_atomic, NULL, NULL, {bytes, op, 0, 0}},                    \
      {"ds_" name "_rtn_" type, "", "v=av", step_atomic, NULL, NULL, {bytes, op, 0, 0}},

static const IsaRow rows_of_lds[] = {
    READ("u8", "u8", 1, 0, PART_WORDS),
    READ("i8", "i8", 1, 1, PART_WORDS),
    READ("u16", "u16", 2, 0, PART_WORDS),
    READ("i16", "i16", 2, 1, PART_WORDS),
    READ("u8_d16", "u8_d16", 1, 0, PART_LOW),
    READ("u8_d16_hi", "u8_d16_hi", 1, 0, PART_HIGH),
    READ("i8_d16", "i8_d16", 1, 1, PART_LOW),
    READ("i8_d16_hi", "i8_d16_hi", 1, 1, PART_HIGH),
    READ("u16_d16", "u16_d16", 2, 0, PART_LOW),
    READ("u16_d16_hi", "u16_d16_hi", 2, 0, PART_HIGH),
    READ("b32", "b32", 4, 0, PART_WORDS),
    READ("b64", "b64", 8, 0, PART_WORDS),
    READ("b96", "b96", 12, 0, PART_WORDS),
    READ("b128", "b128", 16, 0, PART_WORDS),
    WRITE("b8", "b8", 1, PART_WORDS),
    WRITE("b16", "b16", 2, PART_WORDS),
    WRITE("b8_d16_hi", "b8_d16_hi", 1, PART_HIGH),
    WRITE("b16_d16_hi", "b16_d16_hi", 2, PART_HIGH),
    WRITE("b32", "b32", 4, PART_WORDS),
    WRITE("b64", "b64", 8, PART_WORDS),
    WRITE("b96", "b96", 12, PART_WORDS),
    WRITE("b128", "b128", 16, PART_WORDS),
    TRANSPOSED("ds_read_b64_tr_b16", 8, 16),
    TRANSPOSED("ds_read_b64_tr_b8", 8, 8),
    TRANSPOSED("ds_read_b64_tr_b4", 8, 4),
    TRANSPOSED("ds_read_b96_tr_b6", 12, 6),
    TRANSPOSED("ds_load_tr16_b128", 16, 16),
    TRANSPOSED("ds_load_tr8_b64", 8, 8),
    TRANSPOSED("ds_load_tr4_b64", 8, 4),
    {"ds_read2_b32", "ds_load_2addr_b32", "v=a", step_read, NULL, NULL, {4, 0, 0, 2}},
    {"ds_read2_b64", "ds_load_2addr_b64", "v=a", step_read, NULL, NULL, {8, 0, 0, 2}},
    {"ds_read2st64_b32", "ds_load_2addr_stride64_b32", "v=a", step_read, NULL, NULL, {4, 0, 0, 64}},
    {"ds_read2st64_b64", "ds_load_2addr_stride64_b64", "v=a", step_read, NULL, NULL, {8, 0, 0, 64}},
    {"ds_write2_b32", "ds_store_2addr_b32", "=avv", step_write, NULL, NULL, {4, 0, 0, 2}},
    {"ds_write2_b64", "ds_store_2addr_b64", "=avv", step_write, NULL, NULL, {8, 0, 0, 2}},
    {"ds_write2st64_b32",
     "ds_store_2addr_stride64_b32",
     "=avv",
     step_write,
     NULL,
     NULL,
     {4, 0, 0, 64}},
    {"ds_write2st64_b64",
     "ds_store_2addr_stride64_b64",
     "=avv",
     step_write,
     NULL,
     NULL,
     {8, 0, 0, 64}},
#define COMPARE(type, bytes)                                                                       \
  {"ds_cmpst_rtn_" type, "", "v=avv", step_atomic, NULL, NULL, {bytes, ATOMIC_CAS, 0}},            \
      {"ds_cmpst_" type, "", "=avv", step_atomic, NULL, NULL, {bytes, ATOMIC_CAS, 0}},             \
      {"ds_cmpstore_rtn_" type, "", "v=avv", step_atomic, NULL, NULL, {bytes, ATOMIC_CAS, 1}}, {   \
    "ds_cmpstore_" type, "", "=avv", step_atomic, NULL, NULL, { bytes, ATOMIC_CAS, 1 }             \
  }
    COMPARE("b32", 4),
    COMPARE("b64", 8),
#include "isa/memory/isa_atomic.def"
};

IsaRows isa_lds_rows(void) { return (IsaRows){rows_of_lds, WV_LEN(rows_of_lds)}; }
