/* units.c: the rows of units.def. */
#include "target/units/units.h"

#include <stdio.h>
#include <string.h>

enum { SIMD = true, ALL = false, APART = false, SHARED = true };

const UnitInfo unit_info[UNIT_COUNT] = {
#define UNIT(name, each, doc) {#name, doc, each},
#include "target/units/units.def"
};

/* ---- machines ---- */

static const UnitRates rates[] = {
#define RATES(target, ...) {#target, __VA_ARGS__},
#include "target/units/units.def"
};

static const UnitLatencies latencies[] = {
#define LATENCIES(target, ...) {#target, __VA_ARGS__},
#include "target/units/units.def"
};

static const char *chip_like(const char *target) {
  const AmdChip *chip = chip_named(target);
  return chip ? chip->like : target;
}

static const UnitRates *rates_called(const char *target) {
  for (size_t i = 0; i < WV_LEN(rates); i++)
    if (strcmp(rates[i].target, target) == 0) return &rates[i];
  return NULL;
}

const UnitRates *unit_rates(const char *target) {
  const UnitRates *own = rates_called(target);
  return own ? own : rates_called(chip_like(target));
}

const UnitLatencies *unit_latencies(const char *target) {
  for (size_t i = 0; i < WV_LEN(latencies); i++)
    if (strncmp(target, latencies[i].target, strlen(latencies[i].target)) == 0)
      return &latencies[i];
  return NULL;
}

const UnitMemory *unit_memory(const char *target) {
  static const UnitMemory memories[] = {
#define MEMORY(target, mhz, gigabytes, source) {#target, mhz, gigabytes},
#include "target/units/units.def"
  };
  for (size_t i = 0; i < WV_LEN(memories); i++)
    if (strcmp(memories[i].target, target) == 0) return &memories[i];
  return NULL;
}

int64_t unit_groups(const TargetInfo *t, int64_t waves, int64_t registers, int64_t bytes) {
  const UnitRates *own = unit_rates(t->name);
  if (registers > t->registers) registers = t->registers; /* the rest is spilled */
  int64_t groups = t->file / (registers > 0 ? registers : 1) * t->simds / (waves > 0 ? waves : 1);
  if (bytes > 0 && t->shared_most / bytes < groups) groups = t->shared_most / bytes;
  if (own && own->waves * t->simds / (waves > 0 ? waves : 1) < groups)
    groups = own->waves * t->simds / (waves > 0 ? waves : 1);
  return groups < 1 ? 1 : groups;
}

int unit_margin(const char *target) {
  static const struct {
    const char *target;
    int percent;
  } margins[] = {
#define MARGIN(target, percent, source) {#target, percent},
#include "target/units/units.def"
  };
  for (size_t i = 0; i < WV_LEN(margins); i++)
    if (strncmp(target, margins[i].target, strlen(margins[i].target)) == 0)
      return margins[i].percent;
  return 0;
}

/* ---- matrix instructions ---- */

bool unit_pattern_fits(const char *pattern, const char *name, int n) {
  for (; *pattern; pattern++, name++, n--) {
    if (*pattern == '*') {
      for (; n >= 0; name++, n--)
        if (unit_pattern_fits(pattern + 1, name, n)) return true;
      return false;
    }
    if (!n || (*pattern != '?' && *pattern != *name)) return false;
  }
  return n == 0;
}

const MatrixTime *matrix_time(const char *target, const char *name, int n) {
  static const MatrixTime times[] = {
#define MATRIX(target, pattern, cycles, narrow, unit) {#target, pattern, cycles, narrow, unit},
#include "target/units/units.def"
  };
  const char *like = chip_like(target);
  for (size_t i = 0; i < WV_LEN(times); i++)
    if (strcmp(times[i].target, like) == 0 && unit_pattern_fits(times[i].pattern, name, n))
      return &times[i];
  return NULL;
}

/* `mfma.f32.16x16x16%t` is v_mfma_f32_16x16x16_f16, `wmma.i32.16x16x16.iu8.v8i32` is
 * v_wmma_i32_16x16x16_iu8: what follows ".v" is about registers. */
static int instruction_name(const MmaInfo *row, int bits, char *out, size_t room) {
  const char *end = strstr(row->emit, ".v"), *type = bits == 8 ? "fp8" : "f16";
  bool in_shape = false; /* only digits since an x */
  size_t n = (size_t)snprintf(out, room, "v_");
  for (const char *c = row->emit; *c && c != end && n + 5 < room; c++) {
    bool is_digit = *c >= '0' && *c <= '9';
    if (in_shape && !is_digit && *c != 'x' && *c != '.') out[n++] = '_';
    in_shape = *c == 'x' || (in_shape && is_digit);
    if (*c == '%') n += (size_t)snprintf(out + n, room - n, "%s", type), c++;
    else out[n++] = *c == '.' ? '_' : *c;
  }
  return (int)n;
}

static double cycles_by_name(const TargetInfo *t, const MmaInfo *row, int bits) {
  char name[128];
  int n = instruction_name(row, bits, name, sizeof name);
  const MatrixTime *time = matrix_time(t->name, name, n);
  return !time ? 0 : bits < 8 ? time->narrow : time->cycles;
}

static double cycles_by_rate(const TargetInfo *t, const MmaInfo *row, int bits) {
  static const struct {
    const char *target;
    unsigned by;
    int bits, number;
  } all[] = {
#define MULTIPLIES(target, by, bits, number, source) {#target, FEATURE_##by, bits, number},
#include "target/units/units.def"
  };
  for (size_t i = 0; i < WV_LEN(all); i++) {
    if (strcmp(all[i].target, t->name) != 0 || all[i].by != row->needs || all[i].bits != bits)
      continue;
    int simds = row->lanes > t->lanes ? row->lanes / t->lanes : 1;
    double multiplies = (double)row->m * row->n * row->k;
    return multiplies * t->simds / ((double)all[i].number * simds);
  }
  return 0;
}

/* A virtual row is the native instruction, as often as its own k is larger. */
static int times_native(const MmaInfo *row) {
  for (int i = 0; row->form == MMA_VIRTUAL && mma_at(i); i++) {
    const MmaInfo *native = mma_at(i);
    if (native->form == MMA_NATIVE && native->m == row->m && strcmp(native->emit, row->emit) == 0)
      return row->k / native->k;
  }
  return 1;
}

double unit_matrix_cycles(const TargetInfo *t, const MmaInfo *row, int bits) {
  if (!row->emit) return 0;
  double one =
      t->vendor == VENDOR_AMD ? cycles_by_name(t, row, bits) : cycles_by_rate(t, row, bits);
  return one * times_native(row);
}
