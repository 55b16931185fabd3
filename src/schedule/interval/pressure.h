/* pressure.h: registers that the values of a loop occupy when its events start every `interval` cycles.
 *
 * Event `from` computes a value in iteration i; event `to` uses it in iteration i + distance. In
 * between it occupies registers, of which all iterations that are in flight have their own. What an
 * event computes replaces what it uses: it does not need both.
 *
 * Two answers, of what is known: if only the longest paths are (paths.h), the registers that every
 * schedule with these paths needs, which is a bound; if the starts are, the registers that it needs. */
#ifndef WV_SCHEDULE_PRESSURE_H
#define WV_SCHEDULE_PRESSURE_H

#include "schedule/interval/paths.h"

/* One use. Those of one value follow each other. */
typedef struct HeldValue {
  int value; /* a number of its own */
  int from, to, distance;
  int registers;
} HeldValue;

typedef struct HeldValues {
  const HeldValue *at;
  int n;
  int most;  /* registers for all; 0: any number */
  int spare; /* of these, that a schedule should leave for what is not listed */
} HeldValues;

/* Whether any schedule with these paths needs more than there are. */
bool pressure_exceeds(const HeldValues *h, const Paths *p, int64_t interval);

/* Whether some schedule with these paths may need more than there are: if not, none with more edges does. */
bool pressure_may_exceed(const HeldValues *h, const Paths *p, int64_t interval);

/* Registers that are needed with these starts. */
int64_t pressure_of(Arena *scratch, const HeldValues *h, const int64_t *start, int64_t interval);

#endif
