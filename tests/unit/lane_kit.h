/* lane_kit.h: kernels lowered to one lane's program, compared with the evaluator.
 *
 * A sample (tile_kit.h) is evaluated as it was written; then all passes run for a machine, and the
 * simulator executes the lanes with every check, under one of its schedules. Sums of the samples
 * are exact, so that results agree bit for bit. */
#ifndef WV_LANE_KIT_H
#define WV_LANE_KIT_H

#include "unit/sim_kit.h"
#include "unit/tile_samples.h"

static const char *const lane_targets[] = {"gfx942", "sm_80", "sm_90a", "toy8"};

#define EACH_TARGET(t)                                                                             \
  for (size_t t##_i = 0; t##_i < WV_LEN(lane_targets); t##_i++)                                    \
    for (const char *t = lane_targets[t##_i]; t; t = NULL)

static inline bool lane_transform(Lab *l, const char *target) {
  PassOptions o = {.verify_each = true, .target = target};
  bool ok = l->k && passes_run(l->k, &o);
  if (ok && l->k->level != LEVEL_THREAD) ok = false, printf("not lowered\n");
  return ok;
}

static inline bool lane_run(Lab *l, const char *target, int schedule) {
  SimOptions o = {.machine = target_find(target).machine, .seed = 5};
  o.schedule = (SimSchedule)(schedule % 3);
  return sim_lab(l, &o, NULL);
}

/* Prints what was compared, its errors, and the resulting program. */
static inline void lane_report(const Sample *s, const SampleSizes *sizes, const char *target,
                               Lab *after) {
  StrBuf text = {.arena = after->cx->arena};
  if (after->k) ir_print(&text, after->k);
  lab_print_errors(after);
  printf("%s differs at sizes %d %d %d %d on %s:\n%s", s->name, sizes->at[0], sizes->at[1],
         sizes->at[2], sizes->at[3], target, sb_text(&text));
}

/* One choice of sizes; false if anything is reported or the results differ. */
static inline bool lane_agrees(const Sample *s, const SampleSizes *sizes, const char *target,
                               int schedule) {
  Lab before = sample_open(s, sizes), after = sample_open(s, sizes);
  bool same = lab_run(&before) && lane_transform(&after, target) && sample_reparses(&after) &&
              lane_run(&after, target, schedule) && lab_equal(&before, &after);
  if (!same) lane_report(s, sizes, target, &after);
  lab_close(&before);
  lab_close(&after);
  return same;
}

static inline bool has_code(const Context *cx, const char *code) {
  for (const Diag *d = cx->diags.first; d; d = d->next)
    if (strcmp(diag_info[d->code].code, code) == 0) return true;
  return false;
}

/* The number of wrong choices of sizes: 0, or 1 after the first. */
static inline int lane_differs(const Sample *s, const char *target) {
  SampleSizes sizes = {0};
  int wrong = 0;
  for (int i = 0; sample_sizes(s, i, &sizes) && !wrong; i++)
    wrong += !lane_agrees(s, &sizes, target, i);
  return wrong;
}

#endif
