/* order_counts.h: what fuzz_orders judged, as JSON. */
#ifndef WV_TESTS_ORDER_COUNTS_H
#define WV_TESTS_ORDER_COUNTS_H

#include "fuzz/order_kernels.h"
#include "report/json.h"

/* JUDGED(name): columns. legal and illegal: what the proof says; excused: illegal, without a finding
 * in any run, for one of the reasons that are listed */
#define ORDER_COLUMNS(X)                                                                           \
  X(judged) X(legal) X(illegal) X(simulated_legal) X(simulated_illegal) X(excused) X(runs)

#define ORDER_COLUMN_ENUM(name) N_##name,
#define ORDER_COLUMN_NAME(name) #name,
typedef enum OrderColumn { ORDER_COLUMNS(ORDER_COLUMN_ENUM) N_ORDER_COLUMNS } OrderColumn;
static const char *const order_columns[] = {ORDER_COLUMNS(ORDER_COLUMN_NAME)};

/* EDIT(name): what was done to a wait, barrier or turn. `weaker`: more may be in flight. */
#define ORDER_EDITS(X)                                                                             \
  X(unchanged)                                                                                     \
  X(barrier_dropped)                                                                               \
  X(barrier_moved)                                                                                 \
  X(group_wait_dropped)                                                                            \
  X(group_wait_moved)                                                                              \
  X(group_wait_weaker)                                                                             \
  X(phase_wait_dropped)                                                                            \
  X(phase_wait_moved)                                                                              \
  X(arrival_dropped) X(arrival_moved) X(product_weaker) X(turn_dropped) X(turn_moved) X(turn_weaker)

#define ORDER_EDIT_ENUM(name) EDIT_##name,
#define ORDER_EDIT_NAME(name) #name,
typedef enum OrderEdit { ORDER_EDITS(ORDER_EDIT_ENUM) N_ORDER_EDITS } OrderEdit;
static const char *const order_edits[] = {ORDER_EDITS(ORDER_EDIT_NAME)};

/* REASON(name): why the simulator may find nothing in a program that is not proved. */
#define ORDER_REASONS(X)                                                                           \
  X(elements_of_waves) X(loads_in_order) X(known_trips) X(out_of_turn) X(lagged_runs)

#define ORDER_REASON_ENUM(name) REASON_##name,
#define ORDER_REASON_NAME(name) #name,
typedef enum OrderReason {
  ORDER_REASONS(ORDER_REASON_ENUM) N_ORDER_REASONS, /* there is none */
} OrderReason;
static const char *const order_reasons[] = {ORDER_REASONS(ORDER_REASON_NAME)};

typedef struct Tally {
  int64_t of[N_ORDER_COLUMNS];
} Tally;

typedef struct Counts {
  int64_t passed, failed, kernels, refused, served, repeated;
  Tally all, small, kind[N_LOOP_KINDS], machine[WV_LEN(machines)], row[N_LOOP_ROWS],
      edit[N_ORDER_EDITS];
  int64_t reason[N_ORDER_REASONS];
} Counts;

/* ---- whether everything was drawn ---- */

enum { ENOUGH = 500 }; /* kernels after which there is a program of every kind */

static inline int count_missing(const char *what, const char *const *names, const Tally *t, int n) {
  int missing = 0;
  for (int i = 0; i < n; i++) {
    if (t[i].of[N_judged]) continue;
    printf("no program was judged: %s %s\n", what, names[i]);
    missing++;
  }
  return missing;
}

static inline int find_missing(const Counts *n) {
  if (n->kernels < ENOUGH) return 0;
  return count_missing("kind", loop_kinds, n->kind, N_LOOP_KINDS) +
         count_missing("machine", machines, n->machine, WV_LEN(machines)) +
         count_missing("row", loop_rows, n->row, N_LOOP_ROWS) +
         count_missing("edit", order_edits, n->edit, N_ORDER_EDITS);
}

/* ---- as text ---- */

static inline void write_tally(Json *j, const char *name, const Tally *t) {
  json_open(j, name, '{');
  for (int i = 0; i < N_ORDER_COLUMNS; i++) json_int(j, order_columns[i], t->of[i]);
  json_close(j, '}');
}

static inline void write_tallies(Json *j, const char *name, const char *const *names,
                                 const Tally *t, int n) {
  json_open(j, name, '{');
  for (int i = 0; i < n; i++) write_tally(j, names[i], &t[i]);
  json_close(j, '}');
}

/* One line: "counts {...}". */
static inline void print_counts(const Counts *n) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Json j = {.out = &out};
  json_open(&j, NULL, '{');
  json_int(&j, "kernels", n->kernels);
  json_int(&j, "kernels_refused", n->refused);
  json_int(&j, "kernels_with_roles", n->served);
  json_int(&j, "programs_repeated", n->repeated);
  write_tally(&j, "all", &n->all);
  write_tally(&j, "small", &n->small);
  write_tallies(&j, "kind", loop_kinds, n->kind, N_LOOP_KINDS);
  write_tallies(&j, "machine", machines, n->machine, WV_LEN(machines));
  write_tallies(&j, "row", loop_rows, n->row, N_LOOP_ROWS);
  write_tallies(&j, "edit", order_edits, n->edit, N_ORDER_EDITS);
  json_open(&j, "excused", '{');
  for (int i = 0; i < N_ORDER_REASONS; i++) json_int(&j, order_reasons[i], n->reason[i]);
  json_close(&j, '}');
  json_close(&j, '}');
  printf("counts ");
  for (const char *s = sb_text(&out); *s; s++)
    if (*s != '\n') putchar(*s);
  putchar('\n');
  arena_free(a);
}

#endif
