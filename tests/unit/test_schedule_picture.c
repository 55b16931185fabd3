/* test_schedule_picture.c: pictures of schedules: everything is inside, nothing overlaps, and what is
 * drawn is what was predicted. */
#include <math.h>

#include "ir/ops/debug_logs.h"
#include "ir/schedule/schedule.h"
#include "report/schedule/schedule_picture.h"
#include "report/schedule/timeline_text.h"
#include "schedule/schedule_file.h"
#include "schedule/stamps/stamp_plan.h"
#include "unit/lane_kit.h"

#define GEMM(name, rows)                                                                           \
  "kernel @gemm(%a: mem<M, K, bf16, shared>, %b: mem<N, K, bf16, shared>, %c: mem<M, N, f32>)\n"   \
  "  bind M = 512; bind N = 512; bind K = 320\n" rows "{\n"                                        \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %" name " = read %a\n    %y = read %b\n    %n = mma %" name ", %y, %acc\n    yield %n\n"    \
  "  }\n"                                                                                          \
  "  write %r, %c\n}"
#define LARGE                                                                                      \
  "  workgroup M by 128 on 0; workgroup N by 256 on 1; tile K by 64\n"                             \
  "  wave M by 64; wave N by 256; hardware threads 128\n"
#define SMALL                                                                                      \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 32\n"                               \
  "  wave M by 16; wave N by 16; hardware threads 64\n"
#define ALONE                                                                                      \
  "  workgroup M by 16 on 0; workgroup N by 16 on 1; tile K by 32\n"                               \
  "  wave M by 16; wave N by 16; hardware threads 64\n"
#define TURNS "  roles K load 4, math 8; turns K 2 n\n"
/* A maximum and a sum are carried; the exponentials use a unit of their own. */
#define SOFTMAX                                                                                    \
  "kernel @softmax(%a: mem<M, K, f32, shared>, %c: mem<M, f32>)\n"                                 \
  "  bind M = 4096; bind K = 4096\n"                                                               \
  "  workgroup M by 64 on 0; tile K by 64; wave M by 16; hardware threads 64\n{\n"                 \
  "  %low = fill -10000.0 : tile<M, f32>\n  %z = fill 0.0 : tile<M, f32>\n"                        \
  "  %p, %r = for K carry %m = %low, %s = %z {\n"                                                  \
  "    %x = read %a\n    %top = max %x, %m {dim = K}\n    %d = broadcast %top : tile<M, K, f32>\n" \
  "    %y = sub %x, %d\n    %e = exp2 %y\n    %t = sum %e, %s {dim = K}\n"                         \
  "    yield %top, %t\n  }\n  write %r, %c\n}"
#define LONG_NAME "a_name_that_is_far_too_long_for_any_box_of_a_picture_of_a_schedule"

static const char *const machines[] = {"sm_90a", "sm_80", "gfx942", "gfx950", "gfx1201", "gfx1250"};
static const char *const kernels[] = {GEMM("x", LARGE),
                                      GEMM("x", LARGE "stages 2\n"),
                                      GEMM("x", SMALL),
                                      GEMM("x", SMALL "stages 1\n"),
                                      GEMM("x", ALONE),
                                      GEMM(LONG_NAME, SMALL "stages 3\n"),
                                      GEMM("x", SMALL "stages 9\n"),
                                      GEMM("x", LARGE TURNS),
                                      SOFTMAX};

typedef struct Shown {
  Lab lab;
  Machine machine;
  ScheduleView view;
} Shown;

static bool show(const char *text, const char *target, Shown *out) {
  *out = (Shown){.lab = lab_open(text), .machine = {.target = target_find(target).machine}};
  Lab *l = &out->lab;
  PassOptions o = {.target = target, .stop_after = "turns"};
  if (!l->k || !passes_run(l->k, &o)) return lab_print_errors(l), false;
  const MachineSpec *row = kernel_machine(l->k);
  out->machine.lanes = row->lanes, out->machine.waves = row->waves;
  ir_renumber(l->k);
  Facts facts = facts_of(l->k, l->cx->arena, FACT_memory_uses | FACT_distribute);
  ScheduledKernel s = {.written = l->k, .k = l->k, .target = out->machine.target};
  s.d = facts.distribute, s.machine = &out->machine, s.uses = facts.memory_uses;
  out->view = schedule_view(l->cx->arena, &s);
  return true;
}

/* ---- what is shown ---- */

static int64_t wrapped(int64_t at, int64_t interval) {
  return at - floor_div64(at, interval) * interval;
}

/* Also around the end of the iteration. */
static bool apart(const ViewBox *a, const ViewBox *b, int64_t interval) {
  int64_t from = wrapped(b->start - a->start, interval);
  return from >= a->cycles && from + b->cycles <= interval;
}

static bool lanes_are_right(const LoopView *l) {
  for (int i = 0; i < l->boxes.n; i++) {
    const ViewBox *a = &l->boxes.at[i];
    if (a->cycles <= 0 || a->cycles > l->cycles || a->lane >= l->lanes.n || !*a->name) return false;
    if ((a->kind == VIEW_WAITS) != (a->why != NULL)) return false;
    for (int j = i + 1; j < l->boxes.n; j++)
      if (l->boxes.at[j].lane == a->lane && !apart(a, &l->boxes.at[j], l->cycles)) {
        printf("%s at %lld and %s at %lld overlap\n", a->name, (long long)a->start,
               l->boxes.at[j].name, (long long)l->boxes.at[j].start);
        return false;
      }
  }
  return true;
}

/* A wave waits whenever it does not issue. */
static bool waves_are_filled(const LoopView *l) {
  for (int lane = 0; lane < l->lanes.n; lane++) {
    int64_t sum = 0;
    bool waits = false;
    for (int i = 0; i < l->boxes.n; i++)
      if (l->boxes.at[i].lane == lane) {
        sum += l->boxes.at[i].cycles;
        waits |= l->boxes.at[i].kind == VIEW_WAITS;
      }
    if (sum > l->cycles || (waits && sum != l->cycles)) return false;
  }
  return true;
}

/* A slot is filled again only when it is free. */
static bool rings_are_right(const LoopView *l) {
  for (int i = 0; i < l->rings.n; i++) {
    const ViewRing *r = &l->rings.at[i];
    if (r->slots < 1 || r->bytes <= 0 || r->fill > r->ready || r->ready > r->free) return false;
    if (r->free > r->fill + r->slots * l->cycles) {
      printf("%s is filled at %lld, free at %lld, in %d slots of %lld\n", r->name,
             (long long)r->fill, (long long)r->free, r->slots, (long long)l->cycles);
      return false;
    }
  }
  return true;
}

static bool curve_is_right(const ViewCurve *c, int64_t cycles) {
  int64_t peak = 0;
  for (int i = 0; i < c->steps.n; i++) {
    if (c->steps.at[i].amount > peak) peak = c->steps.at[i].amount;
    if (c->steps.at[i].amount < 0 || c->steps.at[i].at >= cycles) return false;
    if (i && c->steps.at[i].at <= c->steps.at[i - 1].at) return false;
  }
  return c->steps.n && c->steps.at[0].at == 0 && peak == c->peak;
}

TEST(views_say_what_happens) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (size_t m = 0; m < WV_LEN(machines); m++) {
      Shown s;
      bool ok = show(kernels[i], machines[m], &s) && s.view.loops.n == 1;
      const LoopView *l = ok ? &s.view.loops.at[0] : NULL;
      ok = ok && !l->why_not && lanes_are_right(l) && waves_are_filled(l) && rings_are_right(l) &&
           curve_is_right(&l->shared, l->cycles) && curve_is_right(&l->registers, l->cycles) &&
           l->registers.peak > 0 && *l->limit && l->rings.n > 0;
      if (!ok) printf("kernel %d on %s\n", (int)i, machines[m]);
      CHECK(ok);
      lab_close(&s.lab);
    }
}

/* ---- turns ---- */

static int lane_named(const LoopView *l, const char *name) {
  for (int i = 0; i < l->lanes.n; i++)
    if (strcmp(l->lanes.at[i].name, name) == 0) return i;
  return -1;
}

static const ViewBox *turn_of(const LoopView *l, const char *wave) {
  for (int i = 0; i < l->boxes.n; i++)
    if (l->boxes.at[i].kind == VIEW_TURN && strcmp(l->boxes.at[i].name, wave) == 0)
      return &l->boxes.at[i];
  return NULL;
}

/* From what one wave issues last in its turn to where the other takes its own. */
static bool is_token(const LoopView *l, const char *from, const char *to) {
  for (int i = 0; i < l->links.n; i++) {
    const ViewBox *a = &l->boxes.at[l->links.at[i].from], *b = &l->boxes.at[l->links.at[i].to];
    if (a->lane == lane_named(l, from) && b->lane == lane_named(l, to) &&
        !strcmp(a->name, "n.mma") && !strcmp(b->name, "turn"))
      return true;
  }
  return false;
}

TEST(turns_are_drawn) {
  Shown s;
  bool ok = show(GEMM("x", LARGE TURNS), "sm_90a", &s) && s.view.loops.n == 1;
  CHECK(ok);
  if (!ok) return;
  const LoopView *l = &s.view.loops.at[0];
  const ViewBox *first = turn_of(l, "wave 0"), *second = turn_of(l, "wave 1");
  CHECK(first && second && first->lane == lane_named(l, "turns") && second->lane == first->lane &&
        apart(first, second, l->cycles));
  CHECK(lane_named(l, "service") >= 0);
  CHECK(is_token(l, "wave 0", "wave 1") || is_token(l, "wave 1", "wave 0"));
  lab_close(&s.lab);
  CHECK(show(GEMM("x", LARGE), "sm_90a", &s) && lane_named(&s.view.loops.at[0], "turns") < 0);
  lab_close(&s.lab);
}

/* ---- where it is ---- */

static bool inside(const Drawing *d, const Mark *m) {
  return m->x >= 0 && m->y >= 0 && m->x + m->w <= d->width + 0.01 &&
         m->y + m->h <= d->height + 0.01;
}

/* Texts are anchored at one end: none may reach past the other side. */
static bool text_is_inside(const Drawing *d, const Mark *m) {
  double w = (double)strlen(m->text) * 6.7;
  bool ends = strncmp(m->class, "name", 4) == 0 || strcmp(m->class, "softend") == 0;
  return inside(d, m) &&
         (ends ? m->x - w >= -8 : strcmp(m->class, "tick") == 0 || m->x + w <= d->width + 90);
}

static bool is_event(const Mark *m) {
  return m->kind == MARK_BOX &&
         (strncmp(m->class, "hue", 3) == 0 || strcmp(m->class, "wait") == 0 ||
          strcmp(m->class, "barrier") == 0 || strcmp(m->class, "full") == 0 ||
          strcmp(m->class, "flight") == 0);
}

static double overlap(double a, double a_end, double b, double b_end) {
  return fmin(a_end, b_end) - fmax(a, b);
}

/* The bars of utilisation lie over their lanes' ends, beside the plot. */
static bool drawing_is_right(const Drawing *d) {
  double end = PICTURE_LEFT + PICTURE_PLOT;
  for (int i = 0; i < d->marks.n; i++) {
    const Mark *a = &d->marks.at[i];
    if (a->kind == MARK_BOX && !inside(d, a)) return printf("%s is outside\n", a->class), false;
    if (a->kind == MARK_TEXT && !text_is_inside(d, a))
      return printf("`%s` is outside\n", a->text), false;
    for (int j = i + 1; is_event(a) && a->x < end && j < d->marks.n; j++) {
      const Mark *b = &d->marks.at[j];
      if (!is_event(b) || b->x >= end) continue;
      if (overlap(a->x, a->x + a->w, b->x, b->x + b->w) > 0.1 &&
          overlap(a->y, a->y + a->h, b->y, b->y + b->h) > 0.1)
        return printf("%s at %.1f, %.1f overlaps %s\n", a->class, a->x, a->y, b->class), false;
    }
  }
  return true;
}

TEST(nothing_overlaps) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (size_t m = 0; m < WV_LEN(machines); m++) {
      Shown s;
      CHECK(show(kernels[i], machines[m], &s));
      Drawing d = schedule_drawing(s.lab.cx->arena, &s.view, &s.view.loops.at[0]);
      bool ok = drawing_is_right(&d);
      if (!ok) printf("kernel %d on %s\n", (int)i, machines[m]);
      CHECK(ok);
      lab_close(&s.lab);
    }
}

TEST(labels_are_dropped_if_they_do_not_fit) {
  Arena *a = arena_new();
  Drawing d = {.arena = a, .width = 100, .height = 100};
  drawing_box(&d, "hue0", 0, 0, 30, 10, "four", NULL);
  drawing_box(&d, "hue0", 0, 20, 27, 10, "four", NULL);
  drawing_box(&d, "hue0", 0, 40, 0, 10, "none", NULL);
  CHECK_INT(d.marks.n, 2);
  CHECK_STR(d.marks.at[0].text, "four");
  CHECK(!d.marks.at[1].text);
  CHECK(drawing_fits("\xe2\x80\xa6", 10)); /* one letter of three bytes */
  arena_free(a);
}

/* ---- text ---- */

TEST(names_are_escaped) {
  Arena *a = arena_new();
  ScheduleView s = {.kernel = "<k>", .target = "sm_80", .doc = "a & b", .rows = "x < y\n"};
  StrBuf page = {.arena = a}, picture = {.arena = a}, json = {.arena = a};
  schedule_html(&page, &s);
  schedule_svg(&picture, &s);
  schedule_json(&json, &s);
  CHECK(strstr(sb_text(&page), "&lt;k&gt;") && !strstr(sb_text(&page), "<k>"));
  CHECK(strstr(sb_text(&page), "It has no loop"));
  CHECK(strstr(sb_text(&picture), "&lt;k&gt; on sm_80 has no loop with a prediction"));
  CHECK(strstr(sb_text(&json), "\"loops\": []"));
  arena_free(a);
}

TEST(a_loop_without_a_prediction_says_why) {
  Shown s;
  CHECK(show(GEMM("x", SMALL), "toy8", &s));
  CHECK_STR(s.view.loops.at[0].why_not, "the units of the machine are unknown");
  StrBuf out = {.arena = s.lab.cx->arena};
  schedule_fragment(&out, &s.view);
  CHECK(strstr(sb_text(&out), "no prediction, since the units of the machine are unknown"));
  lab_close(&s.lab);
}

/* ---- timelines ---- */

/* Ops take 10, 20, 30, ... of a clock that starts at 1000000; a stamp takes 3. The iteration that every
 * wave measures first takes far longer. */
static void record(const StampedLoop *l, int64_t *stamps) {
  int64_t now = 1000000;
  for (int i = 0; i < l->trips; i++)
    for (int s = 0; s < l->stamps; s++) {
      bool taken = s == 0 || stamp_turn(l, s) == i % l->turns;
      for (int w = 0; taken && w < l->waves; w++)
        stamps[l->first + (i * l->stamps + s) * l->waves + w] = now + 7 * w;
      now += 3 * taken + (s < l->stamps - 2 ? 10 * (s + 1) : 0) + (i || s ? 0 : 5000);
    }
}

TEST(timelines_are_medians_without_stamps) {
  Shown s;
  CHECK(show(GEMM("x", SMALL), "sm_90a", &s));
  Arena *a = s.lab.cx->arena;
  Facts facts = facts_of(s.lab.k, a, FACT_memory_uses | FACT_distribute);
  ScheduledKernel k = {.written = s.lab.k, .k = s.lab.k, .target = s.machine.target};
  k.d = facts.distribute, k.machine = &s.machine, k.uses = facts.memory_uses;
  StampPlan plan = stamp_plan(a, k.d, k.machine, k.uses);
  CHECK_INT(plan.n, 1);
  int64_t *stamps = ARENA_ARRAY(a, int64_t, TIMELINE_ROOM), sum = 0;
  Timeline none = timeline_of(a, &k, stamps, TIMELINE_ROOM);
  CHECK_INT(none.loops.n, 0);
  record(&plan.at[0], stamps);
  Timeline t = timeline_of(a, &k, stamps, TIMELINE_ROOM);
  CHECK_INT(t.loops.n, 1);
  const LoopTimeline *l = &t.loops.at[0];
  CHECK_INT(l->ops.n, plan.at[0].events.n);
  CHECK_INT(l->iterations, STAMP_TRIPS);
  CHECK_INT((int)l->stamp, 3);
  CHECK_INT(plan.at[0].turns, 3); /* 10 iterations: three of them for each stamp */
  int64_t predicted = 0;
  for (int i = 0; i < l->ops.n; i++) {
    CHECK_INT((int)l->ops.at[i].measured, 10 * (i + 1));
    CHECK_INT((int)l->ops.at[i].measured_at, (int)sum);
    CHECK_INT((int)l->ops.at[i].reached, (int)predicted);
    sum += 10 * (i + 1), predicted += l->ops.at[i].takes;
  }
  CHECK_INT((int)l->plain, (int)sum);
  CHECK_INT((int)predicted, (int)l->cycles);           /* ops fill the iteration */
  CHECK_INT(timeline_of(a, &k, stamps, 8).loops.n, 0); /* cut off */
  Drawing d = timeline_drawing(a, &t, l);
  CHECK(drawing_is_right(&d));
  lab_close(&s.lab);
}

TEST(a_short_loop_has_no_interval) {
  Shown s;
  CHECK(show(GEMM("x", SMALL), "gfx942", &s));
  Arena *a = s.lab.cx->arena;
  Facts facts = facts_of(s.lab.k, a, FACT_memory_uses | FACT_distribute);
  ScheduledKernel k = {.written = s.lab.k, .k = s.lab.k, .target = s.machine.target};
  k.d = facts.distribute, k.machine = &s.machine, k.uses = facts.memory_uses;
  StampPlan plan = stamp_plan(a, k.d, k.machine, k.uses);
  int64_t *stamps = ARENA_ARRAY(a, int64_t, TIMELINE_ROOM);
  record(&plan.at[0], stamps);
  int one = plan.at[0].stamps * plan.at[0].waves;
  for (int i = one; i < TIMELINE_ROOM; i++) stamps[i] = 0;
  Timeline t = timeline_of(a, &k, stamps, TIMELINE_ROOM);
  CHECK_INT(t.loops.at[0].iterations, 1);
  CHECK(t.loops.at[0].measured == 0 && t.loops.at[0].plain == 0);
  StrBuf text = {.arena = a};
  timeline_text(&text, &t);
  CHECK(strstr(sb_text(&text), "fewer than two iterations were recorded"));
  lab_close(&s.lab);
}

TESTS_MAIN(RUN(views_say_what_happens) RUN(turns_are_drawn) RUN(nothing_overlaps)
               RUN(labels_are_dropped_if_they_do_not_fit) RUN(names_are_escaped)
                   RUN(a_loop_without_a_prediction_says_why)
                       RUN(timelines_are_medians_without_stamps) RUN(a_short_loop_has_no_interval))
