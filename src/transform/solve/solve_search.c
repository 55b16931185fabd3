/* solve_search.c: see solve_search.h. */
#include "transform/solve/solve_search.h"

#include "ir/schedule/schedule.h"
#include "transform/solve/solve_rows.h"

enum {
  MOST_COPIES = 2, /* iterations whose values are in registers at the same time */
  MOST_SLOTS = 4,  /* of a tile in schedules that are tried */
  MOST_DEPTH = 5,  /* stages, of schedules in which only copies are early */
  MOST_EVENTS = 12 /* of a wave; with more, two waves take too long */
};

typedef struct Search {
  const SolveLoop *s;
  Arena *arena;
  Solution *out;
  Trial *first;
  int most, budget;
  Vec(RowList) rows; /* of all trials */
  bool crowded;      /* a schedule was dropped, because it needs too many registers */
} Search;

/* ---- what is kept ---- */

/* What is predicted the same in all respects is listed once. */
static bool is_same(const Trial *a, const Trial *b) {
  return trial_compare(a, b) == 0 && a->bytes == b->bytes && a->registers == b->registers &&
         a->depth == b->depth;
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

static bool is_best(const Solution *out) { return out->trials.at[0]->times.cycles <= out->bound; }

static bool is_done(Search *x) {
  bool done = is_best(x->out) && x->out->trials.n >= x->most;
  if (!done && x->out->tried >= x->budget) return x->out->spent = true;
  return done;
}

static bool is_tried(const Search *x, const RowList *rows) {
  for (int i = 0; i < x->rows.n; i++)
    if (rows_equal(&x->rows.at[i], rows)) return true;
  return false;
}

static void try_rows(Search *x, RowList rows) {
  if (is_done(x) || is_tried(x, &rows)) return;
  Trial *t = trial_new(x->s, &rows, false);
  x->out->tried++;
  vec_push(x->arena, &x->rows, rows);
  bool fits = t && t->registers <= trial_most_registers(x->first);
  if (t && !fits) x->crowded = true;
  if (fits && !t->times.why_not && !is_known(x, t)) keep(x, t);
  else trial_free(t);
}

static FreeTimes solve_free(const Search *x, int slots, int copies, int waves) {
  FreeLimits limits = rows_limits(x->s, x->first, slots, copies);
  return loop_free(x->arena, x->first->k, &x->first->times, &limits, waves);
}

/* Copies that are an iteration further ahead hide what waits and barriers add. */
static void try_places(Search *x, const FreeTimes *free) {
  bool better = free->cycles < x->out->trials.at[0]->times.cycles;
  if (free->cycles == PATHS_NEVER || (!better && x->most == 1)) return;
  try_rows(x, rows_placed(x->s, x->arena, x->first, free, 0));
  if (copies_tiles(x->first)) try_rows(x, rows_placed(x->s, x->arena, x->first, free, 1));
}

/* The fewest slots with which the interval is as short as with many. */
static void try_slots(Search *x, const FreeTimes *many, int copies) {
  for (int slots = 1; copies_tiles(x->first) && slots < MOST_SLOTS && !is_done(x); slots++) {
    FreeTimes free = solve_free(x, slots, copies, 1);
    try_places(x, &free);
    if (free.cycles <= many->cycles && x->most == 1) return;
  }
  try_places(x, many);
}

/* If there are not enough registers for values of two iterations, each has those of one. */
static void try_copies(Search *x) {
  if (!x->crowded || is_done(x)) return;
  FreeTimes many = solve_free(x, MOST_SLOTS, 1, 1);
  try_slots(x, &many, 1);
}

static void try_depths(Search *x) {
  RowList rows;
  for (int depth = 2; copies_tiles(x->first) && depth <= MOST_DEPTH; depth++)
    if (rows_with_depth(x->s, x->arena, depth, &rows)) try_rows(x, rows);
}

static void find_bound(Search *x, const FreeTimes *many) {
  x->out->bound = many->bound < x->out->first ? many->bound : x->out->first;
  if (is_best(x->out) || many->events > MOST_EVENTS) return;
  FreeTimes exact = solve_free(x, MOST_SLOTS, MOST_COPIES, 2);
  if (exact.bound > x->out->bound && exact.bound < x->out->first) x->out->bound = exact.bound;
  try_places(x, &exact);
}

bool solve_loop(const SolveLoop *s, int most, int budget, Solution *out) {
  *out = (Solution){.arena = arena_new()};
  Search x = {.s = s, .arena = out->arena, .out = out, .most = most, .budget = budget};
  RowList given = rows_given(s, out->arena);
  x.first = trial_new(s, &given, true);
  if (!x.first) return arena_free(out->arena), false;
  keep(&x, x.first);
  out->tried = 1, out->first = x.first->times.cycles;
  if (x.first->times.why_not) return true;
  FreeTimes many = solve_free(&x, MOST_SLOTS, MOST_COPIES, 1);
  find_bound(&x, &many);
  try_slots(&x, &many, MOST_COPIES);
  try_copies(&x);
  try_depths(&x);
  return true;
}

void solve_forget(Solution *s) {
  for (int i = 0; i < s->trials.n; i++) trial_free(s->trials.at[i]);
  arena_free(s->arena);
}
