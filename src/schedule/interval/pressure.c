/* pressure.c: see pressure.h. */
#include "schedule/interval/pressure.h"

/* What is known about the times between events: the least ones, or all. */
typedef struct Known {
  const Paths *paths;
  const int64_t *start; /* NULL: the paths */
  int64_t interval;
} Known;

static int64_t between(const Known *k, int from, int to) {
  return k->start ? k->start[to] - k->start[from] : paths_between(k->paths, from, to);
}

/* The first use of the next value. */
static int next_value(const HeldValues *h, int i) {
  int value = h->at[i].value;
  while (i < h->n && h->at[i].value == value) i++;
  return i;
}

/* Iterations, from the present one, until the last use of a value from now on, at `event`. */
static int64_t last_use(const HeldValues *h, const Known *k, int i, int event) {
  int64_t last = INT64_MIN;
  for (int end = next_value(h, i); i < end; i++) {
    int64_t later = between(k, event, h->at[i].to);
    if (later == PATHS_NONE) continue;
    int64_t by = h->at[i].distance + floor_div64(later - (h->at[i].to != event), k->interval);
    if (by > last) last = by;
  }
  return last;
}

/* Registers of a value when an event starts, for all iterations that have computed it before. */
static int64_t held_at(const HeldValues *h, const Known *k, int i, int event) {
  int64_t since = between(k, h->at[i].from, event);
  if (since == PATHS_NONE) return 0;
  int64_t last = last_use(h, k, i, event), first = ceil_div64(1 - since, k->interval);
  return last < first ? 0 : (last - first + 1) * h->at[i].registers;
}

static int64_t all_held_at(const HeldValues *h, const Known *k, int event) {
  int64_t sum = 0;
  for (int i = 0; i < h->n; i = next_value(h, i)) sum += held_at(h, k, i, event);
  return sum;
}

/* Whether no use before it is by the same event. */
static bool is_first_at(const HeldValues *h, int i) {
  for (int j = 0; j < i; j++)
    if (h->at[j].to == h->at[i].to) return false;
  return true;
}

/* The least registers, times the cycles for which a value occupies them. */
static int64_t least_area(const HeldValues *h, const Known *k, int i) {
  int64_t most = 0;
  for (int j = i, end = next_value(h, i); j < end; j++) {
    int64_t later = between(k, h->at[j].from, h->at[j].to);
    if (later == PATHS_NONE) continue;
    later += h->at[j].distance * k->interval;
    if (later > most) most = later;
  }
  return most * h->at[i].registers;
}

bool pressure_exceeds(const HeldValues *h, const Paths *p, int64_t interval) {
  Known known = {p, NULL, interval};
  int64_t area = 0;
  if (!h->most) return false;
  for (int i = 0; i < h->n; i = next_value(h, i)) area += least_area(h, &known, i);
  if (area > h->most * interval) return true;
  for (int i = 0; i < h->n; i++)
    if (is_first_at(h, i) && all_held_at(h, &known, h->at[i].to) > h->most) return true;
  return false;
}

/* The most iterations whose results wait for their last use at the same time; INT32_MAX: any number. */
static int64_t most_held(const HeldValues *h, const Known *k, int i) {
  int64_t most = 0;
  for (int end = next_value(h, i); i < end; i++) {
    int64_t back = between(k, h->at[i].to, h->at[i].from);
    if (back == PATHS_NONE) return INT32_MAX;
    int64_t held = h->at[i].distance + floor_div64(-back - 1, k->interval) + 1;
    if (held > most) most = held;
  }
  return most;
}

bool pressure_may_exceed(const HeldValues *h, const Paths *p, int64_t interval) {
  Known known = {p, NULL, interval};
  int64_t sum = 0;
  for (int i = 0; h->most && i < h->n; i = next_value(h, i))
    sum += most_held(h, &known, i) * h->at[i].registers;
  return h->most && sum > h->most;
}

/* ---- where all starts are known ---- */

/* Of an event: the iteration of the loop in which it starts, and the cycle there. */
typedef struct Start {
  int64_t turn, cycle;
} Start;

typedef struct HeldStarts {
  Start from, to;
} HeldStarts;

/* Iterations whose values are held when an event starts: of one that has several uses, from i on. */
static int64_t count_held(const HeldValues *h, const HeldStarts *at, int i, int event, Start now) {
  int64_t first = at[i].from.turn - now.turn + (at[i].from.cycle >= now.cycle), last = INT64_MIN;
  for (int end = next_value(h, i); i < end; i++) {
    int64_t later = at[i].to.cycle - (h->at[i].to != event) < now.cycle ? -1 : 0;
    int64_t by = h->at[i].distance + at[i].to.turn - now.turn + later;
    if (by > last) last = by;
  }
  return last < first ? 0 : last - first + 1;
}

/* Between two uses there are never more than at the second. */
int64_t pressure_of(Arena *scratch, const HeldValues *h, const int64_t *start, int64_t interval) {
  int64_t most = 0;
  ArenaMark mark = arena_mark(scratch);
  HeldStarts *at = ARENA_ARRAY(scratch, HeldStarts, h->n + 1);
  for (int i = 0; i < h->n; i++) {
    int64_t from = start[h->at[i].from], to = start[h->at[i].to];
    at[i].from.turn = floor_div64(from, interval), at[i].to.turn = floor_div64(to, interval);
    at[i].from.cycle = from - at[i].from.turn * interval;
    at[i].to.cycle = to - at[i].to.turn * interval;
  }
  for (int i = 0; i < h->n; i++) {
    int64_t sum = 0;
    if (!is_first_at(h, i)) continue;
    for (int j = 0; j < h->n; j = next_value(h, j))
      sum += count_held(h, at, j, h->at[i].to, at[i].to) * h->at[j].registers;
    if (sum > most) most = sum;
  }
  arena_rewind(scratch, mark);
  return most;
}
