/* convert.c: plans layout conversions by enumeration.
 *
 * Both layouts are tabulated: the element at each (wave, lane, register). A plan must be the same
 * program for every thread, so a source register, or a (register, lane function) pair, counts only
 * if it is right in all waves. Positions without an element accept any value. */
#include "layout/convert.h"

#include "base/vec.h"

enum { SHUFFLE_COST = 2, SELECT_COST = 1, SHARED_WORD_COST = 1, SHARED_SYNC_COST = 32 };
enum { REGISTERS_MOST = 1 << 13 }; /* no thread holds more: lower_threads refuses such tiles */

typedef Vec(ConvertRound) Rounds;

typedef struct Side {
  const int *table; /* layout_table */
  int regs, lanes, waves, groups;
} Side;

typedef struct Planner {
  Arena *a;
  Side x, y; /* source, destination */
  int unit;
  const int *first, *next; /* the holders of an element in wave 0 of the source: first[element] is a
                            * position, next[position] the next one; -1 ends the list */
} Planner;

static Side side_of(Arena *a, const Layout *l) {
  return (Side){.table = layout_table(a, l),
                .regs = layout_size(l, LAYOUT_REG),
                .lanes = layout_size(l, LAYOUT_LANE),
                .waves = layout_size(l, LAYOUT_WAVE)};
}

static void index_holders(Planner *p, int elements) {
  int n = p->x.lanes * p->x.regs, *first = ARENA_ARRAY(p->a, int, elements);
  int *next = ARENA_ARRAY(p->a, int, n);
  for (int e = 0; e < elements; e++) first[e] = -1;
  for (int at = n - 1; at >= 0; at--) {
    int e = p->x.table[at];
    if (e < 0) continue;
    next[at] = first[e];
    first[e] = at;
  }
  p->first = first;
  p->next = next;
}

static const int *group_at(const Side *s, int unit, int wave, int lane, int group) {
  return s->table + ((size_t)wave * (size_t)s->lanes + (size_t)lane) * (size_t)s->regs +
         group * unit;
}

/* Whether, in a wave, source group `from` of lane `there` serves destination group `to` of
 * `lane`. */
static bool serves(const Planner *p, int wave, int lane, int to, int there, int from) {
  const int *want = group_at(&p->y, p->unit, wave, lane, to);
  const int *have = group_at(&p->x, p->unit, wave, there, from);
  for (int i = 0; i < p->unit; i++)
    if (want[i] >= 0 && want[i] != have[i]) return false;
  return true;
}

static bool serves_all_waves(const Planner *p, int lane, int to, int there, int from) {
  for (int w = 0; w < p->y.waves; w++)
    if (!serves(p, w, lane, to, there, from)) return false;
  return true;
}

/* ---- within a thread ------------------------------------------------------------------------- */

static bool serves_all_threads(const Planner *p, int to, int from) {
  for (int lane = 0; lane < p->y.lanes; lane++)
    if (!serves_all_waves(p, lane, to, lane, from)) return false;
  return true;
}

/* For each thread, the source group of a destination group, preferably the same one in all; -1:
 * none. */
static int own_source(const Planner *p, int to) {
  if (to < p->x.groups && serves_all_threads(p, to, to)) return to;
  for (int from = 0; from < p->x.groups; from++)
    if (serves_all_threads(p, to, from)) return from;
  return -1;
}

static bool plan_registers(const Planner *p, ConvertPlan *out) {
  int *source = ARENA_ARRAY(p->a, int, p->y.groups);
  bool same = p->x.groups == p->y.groups;
  for (int g = 0; g < p->y.groups; g++) {
    source[g] = own_source(p, g);
    if (source[g] < 0) return false;
    same = same && source[g] == g;
  }
  *out = (ConvertPlan){.kind = same ? CONVERT_NOTHING : CONVERT_REGISTERS,
                       .unit = p->unit,
                       .groups = p->y.groups,
                       .source = source};
  return true;
}

/* ---- within a wave --------------------------------------------------------------------------- */

/* For one destination group: the lane from which `lane` may take each source group, itself where
 * possible; -1: none. Candidates hold the group's first element in wave 0. */
static void find_sources(const Planner *p, int to, int lane, int *from_lane) {
  const int *want = group_at(&p->y, p->unit, 0, lane, to);
  int lanes = p->y.lanes, u = 0;
  while (u < p->unit && want[u] < 0) u++;
  for (int g = 0; g < p->x.groups; g++) {
    bool own = serves_all_waves(p, lane, to, lane, g);
    from_lane[g * lanes + lane] = own ? lane : -1;
  }
  if (u == p->unit) return; /* it needs nothing */
  for (int at = p->first[want[u]]; at >= 0; at = p->next[at]) {
    int there = at / p->x.regs, reg = at % p->x.regs, g = reg / p->unit;
    int *slot = &from_lane[g * lanes + lane];
    if (reg % p->unit == u && *slot < 0 && serves_all_waves(p, lane, to, there, g)) *slot = there;
  }
}

/* The smallest butterfly that gives every lane of the round what `lanes` does; -1: none. */
static int butterfly(const Planner *p, int to, int from, const int *lanes) {
  int n = p->x.lanes;
  if (n & (n - 1)) return -1;
  for (int flip = 0; flip < n; flip++) {
    int lane = 0;
    while (lane < n && (lanes[lane] < 0 || serves_all_waves(p, lane, to, lane ^ flip, from)))
      lane++;
    if (lane == n) return flip;
  }
  return -1;
}

static bool wants_nothing(const Planner *p, int lane, int to) {
  for (int w = 0; w < p->y.waves; w++)
    for (int u = 0; u < p->unit; u++)
      if (group_at(&p->y, p->unit, w, lane, to)[u] >= 0) return false;
  return true;
}

/* Expresses the lane that is read as a sum over the bits of the reading lane; -1 agrees with
 * anything. False: it is not such a sum. */
static bool find_steps(ConvertRound *r, const int *read, int lanes) {
  int start = 0;
  while (start < lanes - 1 && read[start] < 0) start++;
  r->first = read[start];
  for (int i = 0; 1 << i < lanes; i++) {
    int l = 0, bit = 1 << i;
    while (l < lanes && (l & bit || l + bit >= lanes || read[l] < 0 || read[l + bit] < 0)) l++;
    r->step[i] = l < lanes ? read[l + bit] - read[l] : 0;
    if (start & bit) r->first -= r->step[i];
  }
  for (int l = 0; l < lanes; l++) {
    int sum = r->first;
    for (int i = 0; 1 << i < lanes; i++) sum += l >> i & 1 ? r->step[i] : 0;
    if (sum < 0 || sum >= lanes || (read[l] >= 0 && read[l] != sum)) return false;
  }
  return true;
}

/* Expresses the lane that each lane reads as something a thread can compute: as planned, or else
 * the first lane that would do. */
static bool find_form(const Planner *p, ConvertRound *r) {
  int lanes = p->y.lanes, *read = ARENA_ARRAY(p->a, int, lanes);
  for (int first = 0; first < 2; first++) {
    for (int l = 0; l < lanes; l++) {
      read[l] = r->lanes[l] < 0 || wants_nothing(p, l, r->to) ? -1 : first ? 0 : r->lanes[l];
      while (first && read[l] >= 0 && !serves_all_waves(p, l, r->to, read[l], r->from)) read[l]++;
    }
    if (find_steps(r, read, lanes)) return true;
  }
  return false;
}

/* Plans one destination group: rounds until every lane is served, those that serve most lanes
 * first. */
static int add_rounds(const Planner *p, int to, Rounds *rounds) {
  int lanes = p->y.lanes, left = lanes, n = 0;
  int *from_lane = ARENA_ARRAY(p->a, int, p->x.groups *lanes); /* [source group][lane] */
  bool *served = ARENA_ARRAY(p->a, bool, lanes);
  for (int l = 0; l < lanes; l++) find_sources(p, to, l, from_lane);
  while (left) {
    int best = -1, most = 0;
    for (int g = 0; g < p->x.groups; g++) {
      int count = 0;
      for (int l = 0; l < lanes; l++) count += !served[l] && from_lane[g * lanes + l] >= 0;
      if (count > most) most = count, best = g;
    }
    if (best < 0) return -1;
    int *table = ARENA_ARRAY(p->a, int, lanes);
    for (int l = 0; l < lanes; l++) {
      table[l] = served[l] ? -1 : from_lane[best * lanes + l];
      served[l] = served[l] || table[l] >= 0;
    }
    left -= most;
    ConvertRound round = {to, best, butterfly(p, to, best, table), table, .whole = most == lanes};
    if (round.flip < 0 && !find_form(p, &round)) return -1;
    vec_push(p->a, rounds, round);
    n++;
  }
  return n;
}

/* Also false as soon as the plan costs more than `limit`. */
static bool plan_shuffle(const Planner *p, int limit, ConvertPlan *out) {
  Rounds rounds = {0};
  *out = (ConvertPlan){.kind = CONVERT_SHUFFLE, .unit = p->unit, .groups = p->y.groups};
  for (int g = 0; g < p->y.groups; g++) {
    int n = add_rounds(p, g, &rounds);
    if (n < 0 || out->cost > limit) return false;
    for (int i = rounds.n - n; i < rounds.n; i++) out->cost += rounds.at[i].flip ? SHUFFLE_COST : 0;
    out->cost += (n - 1) * SELECT_COST;
  }
  out->rounds = rounds.at;
  out->nrounds = rounds.n;
  return true;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static int words(int registers, int bits) { return (registers * bits + 31) / 32; }

static ConvertPlan cheapest(Arena *a, const Layout *from, const Layout *to, int bits,
                            bool in_waves) {
  WV_ASSERT(from->dims == to->dims);
  for (int d = 0; d < from->dims; d++) WV_ASSERT(from->extent[d] == to->extent[d]);
  int registers[] = {layout_size(from, LAYOUT_REG), layout_size(to, LAYOUT_REG)};
  ConvertPlan shared = {.kind = CONVERT_SHARED, .unit = 1, .groups = registers[1]};
  if (registers[0] > REGISTERS_MOST || registers[1] > REGISTERS_MOST) return shared;
  shared.cost =
      SHARED_SYNC_COST + SHARED_WORD_COST * (words(registers[0], bits) + words(registers[1], bits));
  if (in_waves) shared.cost = INT32_MAX;
  Planner p = {.a = a, .x = side_of(a, from), .y = side_of(a, to)};
  if (p.x.lanes != p.y.lanes || p.x.waves != p.y.waves) return shared;
  index_holders(&p, layout_elements(from));
  ConvertPlan plan;
  for (int shuffle = 0; shuffle < 2; shuffle++)
    for (p.unit = 32 % bits ? 1 : 32 / bits; p.unit >= 1; p.unit /= 2) {
      if (p.x.regs % p.unit || p.y.regs % p.unit) continue;
      p.x.groups = p.x.regs / p.unit;
      p.y.groups = p.y.regs / p.unit;
      if (!(shuffle ? plan_shuffle(&p, shared.cost, &plan) : plan_registers(&p, &plan))) continue;
      return plan.cost <= shared.cost ? plan : shared;
    }
  return shared;
}

ConvertPlan convert_plan(Arena *a, const Layout *from, const Layout *to, int bits) {
  return cheapest(a, from, to, bits, false);
}

ConvertPlan convert_plan_in_waves(Arena *a, const Layout *from, const Layout *to, int bits) {
  return cheapest(a, from, to, bits, true);
}
