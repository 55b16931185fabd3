/* solve_search.c: see solve_search.h. */
#include "transform/solve/solve_search.h"

#include "ir/schedule/schedule.h"
#include "schedule/interval/loop_line.h"
#include "target/units/units.h"
#include "transform/solve/solve_groups.h"
#include "transform/solve/solve_rows.h"

enum {
  WORTH = 50,      /* a fiftieth is worth another trial */
  NEAR = 4,        /* a fourth is too much */
  MOST_COPIES = 2, /* iterations whose values are in registers at the same time */
  MOST_SLOTS = 4,  /* of a tile in schedules that are tried */
  MOST_DEPTH = 5,  /* stages, of schedules in which only copies are early */
  FEW_LINES = 2    /* programs that are tried because they are estimated to be shorter */
};

#define NEARLY 1.05 /* estimates are not exact */

typedef struct Search {
  const SolveLoop *s;
  Arena *arena;
  Solution *out;
  Trial *first;
  LoopTimes apart; /* of the first trial, for bounds */
  int most, budget;
  int registers;     /* that the tiles of a schedule may need */
  Vec(RowList) rows; /* of all trials */
  bool crowded;      /* a schedule was dropped, because it needs too many registers ... */
  int unknown;       /* ... by so many more than the search expected */
} Search;

/* ---- what is kept ---- */

/* What is predicted the same in all respects is listed once. */
static bool is_same(const Trial *a, const Trial *b) {
  return a->times.cycles == b->times.cycles && a->bytes == b->bytes &&
         a->registers == b->registers && a->depth == b->depth && a->turns == b->turns &&
         a->machine.service == b->machine.service;
}

/* After those that are equally good: of these, the first trial is what the compiler does anyway. */
static void keep(Search *x, Trial *t) {
  int at = x->out->trials.n;
  vec_push(x->out->arena, &x->out->trials, t);
  for (; at > 0 && trial_compare(t, x->out->trials.at[at - 1]) < 0; at--)
    x->out->trials.at[at] = x->out->trials.at[at - 1];
  x->out->trials.at[at] = t;
}

static bool is_known(const Search *x, const Trial *t) {
  for (int i = 0; i < x->out->trials.n; i++)
    if (is_same(x->out->trials.at[i], t)) return true;
  return false;
}

/* Whether the loop copies tiles to shared memory. */
static bool copies_tiles(const Trial *t) {
  for (const Op *op = t->loop->body->first; op; op = op->next)
    if (schedule_fills(op) && schedule_class(op) != OP_CLASS_store) return true;
  return false;
}

/* ---- trials ---- */

static bool is_best(const Solution *out) {
  const Trial *best = out->trials.at[0];
  return best->times.cycles <= out->bound || trial_is_full(best);
}

static bool is_done(Search *x) {
  bool done = x->most == 1 && is_best(x->out);
  bool spent = x->out->tried >= x->budget || x->rows.n >= 2 * x->budget; /* some are refused */
  if (!done && spent) return x->out->spent = true;
  return done;
}

static bool is_tried(const Search *x, const RowList *rows) {
  for (int i = 0; i < x->rows.n; i++)
    if (rows_equal(&x->rows.at[i], rows)) return true;
  return false;
}

/* Whether a schedule has the registers that it needs. If what the compiler does by itself needs more than
 * that, another schedule may need as many. */
static bool has_registers(const Search *x, const Trial *t) {
  int most = t->room < x->registers ? t->room : x->registers;
  return t->registers <= most || (!t->alone && t->registers <= x->first->registers);
}

/* The cycles that an iteration would take; INT64_MAX: the rows are refused, or of no use. What is
 * expected of them: so many registers for the values of the loop, and cycles; 0: nothing. */
static int64_t try_rows(Search *x, RowList rows, int registers, int64_t expected) {
  if (is_done(x) || is_tried(x, &rows)) return INT64_MAX;
  Trial *t = trial_new(x->s, &rows, x->most > 1);
  if (t) x->out->tried++;
  vec_push(x->arena, &x->rows, rows);
  bool fits = t && has_registers(x, t);
  if (t && !fits) x->crowded = true, x->unknown = t->registers - x->first->outside - registers;
  if (fits) trial_time(t, expected);
  if (!fits || t->times.why_not) return trial_free(t), INT64_MAX;
  int64_t cycles = t->times.cycles;
  if (!is_known(x, t)) keep(x, t);
  else trial_free(t);
  return cycles;
}

static FreeTimes solve_free(const Search *x, RowsRoom room, int waves) {
  FreeLimits limits = rows_limits(x->s, x->first, room);
  return loop_free(x->arena, x->first->k, &x->first->times, &limits, waves);
}

/* Copies that are an iteration further ahead hide what waits and barriers add. */
static void try_places(Search *x, const FreeTimes *free) {
  bool better = free->cycles < x->out->trials.at[0]->times.cycles;
  if (free->cycles == PATHS_NEVER || (!better && x->most == 1)) return;
  int64_t cycles = try_rows(x, rows_placed(x->s, x->arena, x->first, free, 0), free->registers, 0);
  bool waits = cycles != INT64_MAX && cycles > free->cycles + free->cycles / WORTH;
  if (copies_tiles(x->first) && (waits || x->most > 1))
    try_rows(x, rows_placed(x->s, x->arena, x->first, free, 1), free->registers, 0);
}

static bool is_near(const FreeTimes *few, const FreeTimes *many) {
  return few->cycles - many->cycles <= many->cycles / NEAR;
}

/* The fewest slots with which the interval is as short as with many, or nearly; with fewer ones if
 * nothing comes of these. */
static void try_slots(Search *x, const FreeTimes *many, RowsRoom room) {
  FreeTimes few[MOST_SLOTS];
  int n = 0;
  bool enough = !copies_tiles(x->first);
  for (; !enough && n + 1 < MOST_SLOTS && !is_done(x); n++) {
    room.slots = n + 1;
    few[n] = solve_free(x, room, 1);
    if (x->most > 1 || is_near(&few[n], many)) try_places(x, &few[n]);
    enough = x->most == 1 && few[n].cycles <= many->cycles;
  }
  if (!enough || !n) try_places(x, many);
  for (int i = n - 1; i >= 0 && x->out->trials.at[0] == x->first; i--)
    if (!is_near(&few[i], many)) try_places(x, &few[i]);
}

static FreeTimes solve_line(const Search *x, bool early, int spare, const FreeTimes *from) {
  RowsRoom room = {MOST_SLOTS, MOST_COPIES, early, spare};
  FreeLimits limits = rows_limits(x->s, x->first, room);
  limits.registers = x->registers - x->first->outside;
  return loop_line(x->arena, x->first->k, &x->first->times, &limits, x->out->bound, from);
}

/* A program that leaves registers which the search does not know of: near one that was found, or else near
 * the first schedule; if not even that leaves as many, one that computes nothing early. */
static FreeTimes solve_again(const Search *x, const FreeTimes *from) {
  int most = x->registers;
  if (x->first->registers + x->unknown > most) return solve_line(x, false, 0, NULL);
  FreeTimes line = solve_line(x, true, x->unknown, from);
  if (line.registers <= most - x->first->outside - x->unknown) return line;
  return solve_line(x, true, x->unknown, NULL);
}

/* A program that is estimated to be shorter; if it needs more registers than the search knew of, one
 * that leaves as many. False: there is none, or too much is given. */
static bool try_line(Search *x) {
  if (is_done(x)) return true;
  FreeTimes line = solve_line(x, true, 0, NULL);
  if (line.cycles == PATHS_NEVER) return false;
  for (int i = 0; i < FEW_LINES && line.cycles < x->out->trials.at[0]->times.cycles; i++) {
    x->crowded = false;
    try_rows(x, rows_placed(x->s, x->arena, x->first, &line, 0), line.registers, line.cycles);
    if (!x->crowded) return true;
    line = solve_again(x, &line);
  }
  return true;
}

/* With less overlap, if there are not enough registers for more. */
static void try_room(Search *x, RowsRoom room) {
  if (!x->crowded || is_done(x)) return;
  room.spare = x->unknown, x->crowded = false;
  FreeTimes many = solve_free(x, room, 1);
  try_places(x, &many);
}

/* The rules' choice with other numbers of stages, if it is still the best. If so many are refused, more
 * are, too. */
static void try_depths(Search *x) {
  RowList rows;
  int tried = -1;
  if (x->most == 1 && x->out->trials.at[0] != x->first) return;
  for (int depth = 2; copies_tiles(x->first) && depth <= MOST_DEPTH && tried != x->out->tried;
       depth++) {
    tried = x->out->tried;
    if (rows_with_depth(x->s, x->arena, depth, &rows)) try_rows(x, rows, 0, 0);
  }
}

/* ---- groups of waves ---- */

enum { VARIED = 4 }; /* schedules of which others are made */

/* For lists, with roles, turns or both: what the compiler does by itself, other numbers of stages, and the
 * best schedules that were found without them. */
static void try_groups(Search *x, int wanted) {
  RowList rows[VARIED], given = rows_given(x->s, x->arena);
  int n = 0;
  for (int i = 0; i < x->out->trials.n && n < VARIED; i++) {
    const Trial *t = x->out->trials.at[i];
    rows[n] = (RowList){0};
    if (t->turns || t->machine.service) continue;
    for (int j = 0; j < t->rows.n; j++) vec_push(x->arena, &rows[n], t->rows.at[j]);
    n++;
  }
  if (!groups_add_rows(x->s, x->arena, x->first, wanted, &given)) return;
  try_rows(x, given, 0, 0);
  for (int i = 0; i < n; i++)
    if (groups_add_rows(x->s, x->arena, x->first, wanted, &rows[i])) try_rows(x, rows[i], 0, 0);
  for (int depth = 2; depth <= MOST_DEPTH; depth++)
    if (rows_with_depth(x->s, x->arena, depth, &given) &&
        groups_add_rows(x->s, x->arena, x->first, wanted, &given))
      try_rows(x, given, 0, 0);
}

static const RowsRoom most_room = {MOST_SLOTS, MOST_COPIES, true, 0};
/* Tiles may have more slots than are tried at first: bounds are for as many as fit. */
static const RowsRoom every_room = {INT32_MAX, MOST_COPIES, true, 0};

/* ---- roles for a single schedule ---- */

/* Whether rows leave everything open. */
static bool is_open(const RowList *rows) {
  for (int i = 0; i < rows->n; i++)
    if (rows->at[i].kind != CONSTRAINT_schedule || schedule_depth(&rows->at[i]) ||
        rows->at[i].schedule.unroll)
      return false;
  return true;
}

/* Service waves are there for all loops of a kernel, and the times of others are not looked at. */
static bool is_only_loop(const Search *x) {
  const Op *own = schedule_next_loop(x->s->k, NULL, x->s->name);
  for (const Op *loop = NULL; (loop = schedule_next_loop(x->s->k, loop, NULL));)
    if (loop != own && !op_is_inside(own, loop)) return false;
  return true;
}

/* Whether other waves may make the copies. */
static bool can_serve(const Search *x) {
  RowList rows = rows_given(x->s, x->arena);
  return is_open(&rows) && is_only_loop(x) &&
         groups_add_rows(x->s, x->arena, x->first, GROUPS_ROLES, &rows);
}

static void find_served(Search *x) {
  FreeLimits limits = rows_limits(x->s, x->first, every_room);
  limits.served = true;
  if ((x->most == 1 && is_best(x->out)) || !can_serve(x)) return;
  x->out->served = loop_free_bound(x->arena, x->first->k, &x->apart, &limits, 2);
}

/* What a schedule must take less than, to be much better than what the compiler does by itself. */
static double much_better(const Search *x) {
  return trial_load(x->first) * (100 - unit_margin(x->s->target->name)) / 100;
}

/* About how many cycles the schedule of a trial takes if other waves make its copies. */
static int64_t estimate_served(const Search *x, const Trial *t) {
  FreeLimits limits = rows_limits(x->s, t, most_room);
  limits.served = true;
  return loop_line(x->arena, t->k, &t->times, &limits, PATHS_NEVER, NULL).cycles;
}

/* Whether it is worth compiling a trial's schedule with waves that make the copies. */
static bool may_pay(const Search *x, const Trial *t) {
  double first = much_better(x), best = trial_load(x->out->trials.at[0]);
  double load = (double)estimate_served(x, t);
  return trial_may_be_served(t, SERVICE_WAVES) && load < NEARLY * (first < best ? first : best);
}

/* With waves that make the copies: the best schedule so far, if it is much better than what the compiler
 * does by itself, and otherwise that. A compute unit then holds one workgroup. Turns are left to lists,
 * since the model cannot say what they gain. */
static void try_roles(Search *x) {
  RowList rows = {0};
  const Trial *best = x->out->trials.at[0];
  if (trial_load(best) >= much_better(x)) best = x->first;
  if (!x->out->served || !may_pay(x, best)) return;
  for (int i = 0; i < best->rows.n; i++) vec_push(x->arena, &rows, best->rows.at[i]);
  if (groups_add_rows(x->s, x->arena, x->first, GROUPS_ROLES, &rows)) try_rows(x, rows, 0, 0);
}

static void find_bound(Search *x) {
  FreeLimits limits = rows_limits(x->s, x->first, every_room);
  int64_t bound = loop_free_bound(x->arena, x->first->k, &x->apart, &limits, 2);
  x->out->bound = bound < x->out->first ? bound : x->out->first;
}

/* If no schedule of which a compute unit holds fewer workgroups can be better, none may need so many
 * registers. */
static void limit_registers(Search *x) {
  int groups = trial_groups(x->first), most = trial_registers_for(x->first, groups);
  double load = trial_load(x->first);
  x->registers = trial_most_registers(x->first);
  for (int i = 1; i < groups; i++)
    if (trial_load_with(x->first, x->out->bound, i) < load) return;
  if (x->most == 1 && groups > 1 && most >= x->first->registers && most < x->registers)
    x->registers = most;
}

/* Places that are found by themselves, with as many slots as they need; used if rows give places, or
 * many schedules are wanted. */
static void try_all(Search *x) {
  FreeTimes many = solve_free(x, most_room, 1);
  try_slots(x, &many, most_room);
  try_room(x, most_room);
  try_room(x, (RowsRoom){MOST_SLOTS, 1, true, 0});
  try_room(x, (RowsRoom){MOST_SLOTS, MOST_COPIES, false, 0});
  try_depths(x);
}

/* ---- the gap ---- */

static int64_t least_cycles(const Solution *out) {
  int64_t least = out->first;
  for (int i = 0; i < out->trials.n; i++) {
    const Trial *t = out->trials.at[i];
    if (!t->times.why_not && t->times.cycles < least) least = t->times.cycles;
  }
  return least;
}

/* Where the best schedule may not be, intervals between the bound and it are refuted. */
static void raise_bound(Search *x) {
  if (is_best(x->out)) return;
  FreeLimits limits = rows_limits(x->s, x->first, every_room);
  x->out->bound = loop_free_raise(x->arena, x->first->k, &x->apart, &limits, x->out->bound,
                                  least_cycles(x->out));
}

/* The fewest cycles of a schedule that leaves room for so many workgroups; PATHS_NEVER: there is none. */
static int64_t bound_with(const Search *x, int groups) {
  FreeLimits limits = rows_limits(x->s, x->first, every_room);
  int most = trial_registers_for(x->first, groups) - x->first->outside;
  if (most < limits.registers) limits.registers = most;
  if (most < 1) return PATHS_NEVER;
  int64_t bound = loop_free_bound(x->arena, x->first->k, &x->apart, &limits, 1);
  return bound > x->out->bound ? bound : x->out->bound;
}

/* A compute unit holds more workgroups of a schedule with fewer registers, which may take longer. */
static double least_load(const Search *x) {
  double least = trial_load(x->out->trials.at[0]);
  for (int groups = 1;; groups++) {
    if (trial_registers_for(x->first, groups) <= x->first->outside) return least;
    if (trial_load_with(x->first, x->out->bound, groups) >= least) continue;
    int64_t bound = bound_with(x, groups);
    if (bound == PATHS_NEVER) return least;
    double load = trial_load_with(x->first, bound, groups);
    if (load < least) least = load;
  }
}

static void find_gap(Search *x) {
  const Trial *best = x->out->trials.at[0];
  double least = trial_load(best), served = (double)x->out->served;
  if (best->times.cycles <= solve_bound(x->out) || trial_is_full(best)) return;
  if (best->times.cycles > x->out->bound) least = least_load(x);
  if (served > 0 && served < least) least = served;
  x->out->gap = 1 - least / trial_load(best);
}

/* Predictions are not exact: what the compiler does by itself is kept unless another schedule is much
 * better, so that none is slower because of an error. Lists have them all in order. */
static void prefer_first(Search *x) {
  Solution *out = x->out;
  int at = 0;
  if (x->most > 1 || trial_load(out->trials.at[0]) < much_better(x)) return;
  while (out->trials.at[at] != x->first) at++;
  for (; at > 0; at--) out->trials.at[at] = out->trials.at[at - 1];
  out->trials.at[0] = x->first;
}

/* The schedule that is chosen is proved; those of lists are already, and what the compiler does by itself
 * will be. */
static void prove_best(Search *x) {
  Solution *out = x->out;
  while (x->most == 1 && out->trials.at[0] != x->first && !trial_prove(out->trials.at[0])) {
    trial_free(out->trials.at[0]);
    out->trials.n--;
    for (int i = 0; i < out->trials.n; i++) out->trials.at[i] = out->trials.at[i + 1];
  }
}

bool solve_loop(const SolveLoop *s, int most, int budget, Solution *out) {
  *out = (Solution){.arena = arena_new()};
  Search x = {.s = s, .arena = out->arena, .out = out, .most = most, .budget = budget};
  RowList given = rows_given(s, out->arena);
  x.first = trial_first(s, &given);
  if (!x.first) return arena_free(out->arena), false;
  trial_time(x.first, 0);
  keep(&x, x.first);
  out->tried = 1, out->first = x.first->times.cycles;
  out->first_load = x.first->times.why_not ? 0 : trial_load(x.first);
  if (x.first->times.why_not) return true;
  x.apart = trial_apart(x.first, x.arena);
  find_bound(&x);
  limit_registers(&x);
  if (trial_spills(x.first) && most == 1) return true;
  bool tried = try_line(&x);
  if (!tried || most > 1) try_all(&x);
  raise_bound(&x);
  find_served(&x);
  if (most == 1) try_roles(&x);
  for (int wanted = 1; most > 1 && wanted <= (GROUPS_ROLES | GROUPS_TURNS); wanted++)
    try_groups(&x, wanted);
  prefer_first(&x);
  prove_best(&x);
  find_gap(&x);
  return true;
}

int64_t solve_bound(const Solution *s) {
  return s->served && s->served < s->bound ? s->served : s->bound;
}

void solve_forget(Solution *s) {
  for (int i = 0; i < s->trials.n; i++) trial_free(s->trials.at[i]);
  arena_free(s->arena);
}
