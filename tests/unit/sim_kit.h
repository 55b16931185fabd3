/* sim_kit.h: thread kernels for the tests of the simulator: the files tests/run/sim_*.wave, or
 * text, with a fault put in by replacing a piece of it.
 *
 *     Trial t = trial_of("sim_transpose");           or trial_text("thread kernel ...")
 *     trial_replace(&t, "  barrier workgroup\n", "");
 *     t.fill = fill_transpose;                       makes the arguments
 *     CHECK(trial_finds(&t, "E0803", "load %s", "store %x"));   under every schedule
 */
#ifndef WV_SIM_KIT_H
#define WV_SIM_KIT_H

#include "backend/sim/sim.h"
#include "base/os.h"
#include "unit/eval_kit.h"

typedef struct Trial {
  Arena *arena;
  char *text;
  void (*fill)(Lab *l);
  SimOptions options;
  bool whole; /* the text was found and replaced */
} Trial;

static inline Trial trial_text(const char *text) {
  Trial t = {.arena = arena_new(), .whole = true};
  t.text = arena_strdup(t.arena, text);
  return t;
}

static inline Trial trial_of(const char *name) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", __FILE__);
  char *end = strstr(folder, "unit/sim_kit.h");
  if (end) *end = 0;
  Trial t = {.arena = arena_new()};
  size_t len;
  const char *text =
      os_read_file(t.arena, arena_printf(t.arena, "%srun/%s.wave", folder, name), &len);
  t.text = arena_strdup(t.arena, text ? text : "");
  t.whole = text != NULL;
  return t;
}

/* Replaces the first `from` after the header by `to`. */
static inline void trial_replace(Trial *t, const char *from, const char *to) {
  char *at = strstr(t->text, from);
  if (!at) {
    printf("not in the kernel: %s\n", from);
    t->whole = false;
    return;
  }
  t->text = arena_printf(t->arena, "%.*s%s%s", (int)(at - t->text), t->text, to, at + strlen(from));
}

/* With its arguments made by `fill`, and `from` replaced by `to`; NULL: unchanged. */
static inline Trial trial_edited(Trial t, void (*fill)(Lab *l), const char *from, const char *to) {
  t.fill = fill;
  if (from) trial_replace(&t, from, to);
  return t;
}

static inline bool line_has(Context *cx, Span at, const char *words) {
  size_t len = 0;
  const char *line = sources_line(&cx->sources, at.file, at.line, &len);
  return line && strstr(arena_strndup(cx->arena, line, len), words);
}

static inline bool notes_have(Context *cx, const Diag *d, const char *words) {
  for (const DiagNote *n = d->notes; n; n = n->next)
    if (line_has(cx, n->at, words)) return true;
  return false;
}

/* A diagnostic with one of these codes on a line with these words, and a note on a line with those.
 * The schedule decides which of two racing accesses comes second. */
static inline bool has_finding(Context *cx, const char *codes, const char *blamed,
                               const char *noted) {
  for (const Diag *d = cx->diags.first; d; d = d->next) {
    if (!strstr(codes, diag_info[d->code].code)) continue;
    if (line_has(cx, d->at, blamed) && (!noted || notes_have(cx, d, noted))) return true;
    if (noted && d->code == DIAG_E0803 && line_has(cx, d->at, noted) && notes_have(cx, d, blamed))
      return true;
  }
  return false;
}

static inline bool sim_lab(Lab *l, const SimOptions *o, SimReport *out) {
  for (int i = 0; i < l->nargs; i++)
    if (l->args[i].buffer) l->args[i].buffer = &l->tensors[i];
  return l->k && sim_run(l->k, l->args, l->nargs, o, out);
}

/* True if every schedule reports it. */
static inline bool trial_finds(Trial *t, const char *codes, const char *blamed, const char *noted) {
  bool all = t->whole;
  for (int schedule = SIM_ROUND_ROBIN; t->whole && schedule < N_SIM_SCHEDULES; schedule++) {
    Lab l = lab_open(t->text);
    if (t->fill) t->fill(&l);
    SimOptions o = t->options;
    o.schedule = (SimSchedule)schedule;
    o.seed = 7;
    bool ok = sim_lab(&l, &o, NULL);
    bool found = !ok && has_finding(l.cx, codes, blamed, noted);
    if (!found) {
      printf("schedule %d: no %s at `%s`\n", schedule, codes, blamed);
      lab_print_errors(&l);
    }
    all &= found;
    lab_close(&l);
  }
  arena_free(t->arena);
  return all;
}

/* True if no schedule reports anything and `check` accepts the results. */
static inline bool trial_passes(Trial *t, bool (*check)(const Lab *l)) {
  bool all = t->whole;
  for (int schedule = SIM_ROUND_ROBIN; t->whole && schedule < N_SIM_SCHEDULES; schedule++) {
    Lab l = lab_open(t->text);
    if (t->fill) t->fill(&l);
    SimOptions o = t->options;
    o.schedule = (SimSchedule)schedule;
    o.seed = 11;
    bool ok = sim_lab(&l, &o, NULL);
    if (!ok) lab_print_errors(&l);
    else if (check && !check(&l)) printf("schedule %d: wrong results\n", schedule), ok = false;
    all &= ok;
    lab_close(&l);
  }
  arena_free(t->arena);
  return all;
}

#endif
