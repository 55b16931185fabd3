/* units.h: what the units of a machine do in a cycle, and how long results take (units.def). */
#ifndef WV_UNITS_H
#define WV_UNITS_H

#include "target/target.h"

typedef enum Unit {
#define UNIT(name, each, doc) UNIT_##name,
#include "target/units/units.def"
  UNIT_COUNT
} Unit;

typedef struct UnitInfo {
  const char *name, *doc;
  bool each_simd; /* every SIMD has one; otherwise they share it */
} UnitInfo;

extern const UnitInfo unit_info[UNIT_COUNT];

/* A row of RATES. */
typedef struct UnitRates {
  const char *target;
  int granule, waves, scalars, issue, lanes, special, cache, l2;
  const char *source;
} UnitRates;

/* A row of LATENCIES. */
typedef struct UnitLatencies {
  const char *target; /* what names of machines begin with */
  int shared, global, matrix, vector, special, barrier, exchange, start, test;
  const char *source;
} UnitLatencies;

/* Of the machine, or of the chip that it is like; NULL: unknown. */
const UnitRates *unit_rates(const char *target);
const UnitLatencies *unit_latencies(const char *target);

/* A row of MEMORY. */
typedef struct UnitMemory {
  const char *target;
  int mhz, gigabytes;
} UnitMemory;
const UnitMemory *unit_memory(const char *target); /* NULL: unknown */

/* Workgroups that a compute unit holds at a time, if each has that many waves, registers of a thread and
 * bytes of shared memory; at least 1. */
int64_t unit_groups(const TargetInfo *t, int64_t waves, int64_t registers, int64_t bytes);

int unit_margin(const char *target); /* percent; 0: unknown */

/* How long a matrix instruction of AMD's occupies its SIMD. */
typedef struct MatrixTime {
  const char *target, *pattern;
  int cycles, narrow; /* narrow: if neither operand has elements of 8 bits */
  bool shared;        /* it also occupies the vector ALU */
} MatrixTime;

/* By the first n characters of its name; NULL: unknown. */
const MatrixTime *matrix_time(const char *target, const char *name, int n);

/* For how many cycles one instruction of the row, with operands of that many bits, occupies the matrix
 * units of the SIMDs that execute it; 0: unknown. */
double unit_matrix_cycles(const TargetInfo *t, const MmaInfo *row, int bits);

/* Whether the pattern (*: any characters, ?: one) describes the whole name. */
bool unit_pattern_fits(const char *pattern, const char *name, int n);

#endif
