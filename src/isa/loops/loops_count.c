/* loops_count.c: what a loop's instructions are, and how long each unit of the machine is occupied
 * by them. */
#include <stdlib.h>
#include <string.h>

#include "isa/loops/loops.h"
#include "target/banks.h"
#include "target/units/units.h"

/* A chip without a row is taken for gfx942. */
static const UnitRates *rates_of(const IsaImage *image) {
  const UnitRates *own = unit_rates(image->chip);
  return own ? own : unit_rates("gfx942");
}

static const TargetInfo *machine_of(const IsaImage *image) {
  return target_find(rates_of(image)->target).machine;
}

static int wave_lanes(const IsaImage *image) {
  enum { WAVE32 = 1 << 10 };
  return image->properties & WAVE32 ? 32 : 64;
}

/* ---- occupancy ---- */

static void limit_waves(LoopRoom *r, int waves, const char *why) {
  if (waves < r->waves) r->waves = waves, r->limit = why;
}

LoopRoom loops_room(const LoopKernel *k) {
  enum { SCALAR_GRANULE = 16 };
  const UnitRates *u = rates_of(k->image);
  const TargetInfo *t = machine_of(k->image);
  int lanes = wave_lanes(k->image), vector = ceil_div((int)k->vector, u->granule) * u->granule;
  int scalar = ceil_div((int)k->scalar, SCALAR_GRANULE) * SCALAR_GRANULE;
  LoopRoom r = {.waves = u->waves, .limit = "the hardware"};
  r.waves_per_group = k->threads ? ceil_div((int)k->threads, lanes) : 1;
  if (vector) limit_waves(&r, t->file / vector, "vector registers");
  if (u->scalars && scalar) limit_waves(&r, u->scalars / scalar, "scalar registers");
  int groups = r.waves * t->simds / r.waves_per_group; /* of a compute unit */
  if (k->image->group_bytes) {
    int fit = (int)(t->shared_most / (int64_t)k->image->group_bytes);
    if (fit < groups) groups = fit, r.limit = "LDS";
  }
  int all = groups * r.waves_per_group;
  r.busy = all < t->simds ? all : t->simds;
  limit_waves(&r, ceil_div(all, t->simds), r.limit);
  return r;
}

/* ---- instructions ---- */

/* The format of an operand; without the modifier it is fp8. */
static bool has_narrow(const char *text, const char *number, const char *word) {
  const char *at = strstr(text, number), *format = strstr(text, word);
  if (at) return atoi(at + strlen(number)) >= 2;
  const char *type = format ? format + strlen(word) : "FP8";
  return strncmp(type, "FP8", 3) != 0 && strncmp(type, "BF8", 3) != 0;
}

static int matrix_cycles(const MatrixTime *row, const char *text) {
  bool narrow = has_narrow(text, "cbsz:", "matrix_a_fmt:MATRIX_FMT_") &&
                has_narrow(text, "blgp:", "matrix_b_fmt:MATRIX_FMT_");
  return narrow ? row->narrow : row->cycles;
}

static const struct {
  const char *pattern;
  int cdna, rdna;
} slow[] = {
#define SLOW(pattern, cdna, rdna) {pattern, cdna, rdna},
#include "isa/loops/loops.def"
};

static int vector_times(const LoopInstr *i, const UnitRates *u) {
  for (size_t n = 0; n < WV_LEN(slow); n++)
    if (unit_pattern_fits(slow[n].pattern, i->text, i->name))
      return u->lanes == 16 ? slow[n].cdna : slow[n].rdna;
  return 1;
}

static const struct {
  const char *part;
  int bytes;
} widths[] = {
#define WIDTH(part, bytes) {part, bytes},
#include "isa/loops/loops.def"
};

static bool contains(const LoopInstr *i, const char *part) {
  const char *at = strstr(i->text, part);
  return at && at + strlen(part) <= i->text + i->name;
}

static int lane_bytes(const LoopInstr *i) {
  for (size_t n = 0; n < WV_LEN(widths); n++)
    if (contains(i, widths[n].part)) return widths[n].bytes;
  return 4;
}

static bool has_two_addresses(const LoopInstr *i) {
  return contains(i, "read2") || contains(i, "write2") || contains(i, "2addr");
}

/* Without conflicts: as many cycles as the access has phases. Reads of two addresses or of 12 bytes
 * are served like stores. */
static int lds_cycles(const IsaImage *image, const LoopInstr *i) {
  int phase[BANK_LANES] = {0}, lanes = wave_lanes(image), most = 0;
  int bytes = lane_bytes(i);
  bool is_read = (contains(i, "read") || contains(i, "load")) && !has_two_addresses(i);
  is_read = is_read && bytes != 12;
  bank_phases(machine_of(image), lanes, bytes == 12 ? 16 : bytes, is_read, phase);
  for (int lane = 0; lane < lanes; lane++)
    if (phase[lane] > most) most = phase[lane];
  return (most + 1) * (has_two_addresses(i) ? 2 : 1);
}

/* Does it copy from memory to LDS? */
static bool fills_lds(const LoopInstr *i) {
  return i->kind == LOOP_MEMORY && (contains(i, "_lds") || strstr(i->text, " lds"));
}

static int memory_cycles(const IsaImage *image, const LoopInstr *i) {
  enum { LEAST = 4 }; /* for the addresses */
  int cycles = ceil_div(lane_bytes(i) * wave_lanes(image), rates_of(image)->cache);
  return cycles > LEAST ? cycles : LEAST;
}

/* ---- sums ---- */

static void add_matrix(LoopMix *m, const IsaImage *image, const LoopInstr *i) {
  const MatrixTime *row = matrix_time(image->chip, i->text, i->name);
  if (!row) {
    m->unknown = i->text;
    return;
  }
  int cycles = matrix_cycles(row, i->text);
  m->cycles[LOOP_UNIT_MATRIX] += cycles;
  if (row->shared) m->cycles[LOOP_UNIT_VALU] += cycles;
}

/* Of all SIMDs that share it. */
static void add_lds(LoopMix *m, const IsaImage *image, int busy, const LoopInstr *i, int known) {
  int least = lds_cycles(image, i);
  bool is_access = i->kind == LOOP_LDS && !contains(i, "permute") && !contains(i, "swizzle");
  m->unknown_lds += !known && is_access;
  if (known > least) m->conflicts += busy * (known - least);
  m->cycles[LOOP_UNIT_LDS] += busy * (known ? known : least);
}

static void add_instruction(LoopMix *m, const LoopKernel *k, int busy, const LoopInstr *i,
                            int known) {
  const IsaImage *image = k->image;
  const UnitRates *u = rates_of(image);
  int times = i->kind == LOOP_VALU ? vector_times(i, u) : 1;
  m->n++, m->count[i->kind]++;
  m->transcendental += times > 1;
  m->scratch += strncmp(i->text, "scratch_", 8) == 0;
  if (i->kind == LOOP_MATRIX) add_matrix(m, image, i);
  if (i->kind == LOOP_VALU) m->cycles[LOOP_UNIT_VALU] += times * wave_lanes(image) / u->lanes;
  if (i->kind == LOOP_SALU) m->cycles[LOOP_UNIT_SALU] += u->issue;
  if (i->kind == LOOP_LDS || fills_lds(i)) add_lds(m, image, busy, i, known);
  if (i->kind == LOOP_MEMORY) m->cycles[LOOP_UNIT_MEMORY] += busy * memory_cycles(image, i);
}

LoopMix loops_count(const LoopKernel *k, const LoopRoom *room, const LoopCode *code, int loop) {
  LoopMix m = {0};
  int busy = room->busy ? room->busy : 1, waves = room->waves ? room->waves : 1;
  for (int i = 0; i < code->n; i++)
    if (code->at[i].loop == loop)
      add_instruction(&m, k, busy, &code->at[i], code->lds ? code->lds[i] : 0);
  m.copies = loops_copies(code, loop);
  m.cycles[LOOP_UNIT_ISSUE] = (double)m.n * rates_of(k->image)->issue / waves;
  for (int u = 0; u < LOOP_UNITS; u++)
    if (m.cycles[u] > m.cycles[m.bound]) m.bound = (LoopUnit)u;
  return m;
}
