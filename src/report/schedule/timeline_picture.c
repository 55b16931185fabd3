/* timeline_picture.c: one iteration of a loop, as predicted and as measured: what a wave spends on each
 * op, on one scale, with lines from one to the other. */
#include <math.h>

#include "report/page.h"
#include "report/schedule/schedule_picture.h"
#include "report/schedule/timeline_text.h"

enum { LANE = 26, BETWEEN = 34, TOP = 48 };

typedef struct Lanes {
  Drawing *d;
  const LoopTimeline *l;
  double scale[2], top[2]; /* of the lanes: predicted, measured */
  bool comparable;         /* they have one scale */
} Lanes;

static double measured_end(const LoopTimeline *l) {
  const TimedOp *last = l->ops.n ? &l->ops.at[l->ops.n - 1] : NULL;
  return fmax(l->plain, last ? last->measured_at + last->measured : 0);
}

static double x_of(const Lanes *p, int lane, double at) {
  return PICTURE_LEFT + at * p->scale[lane];
}

static void draw_op(const Lanes *p, const TimedOp *o, int lane) {
  Arena *a = p->d->arena;
  double from = lane ? o->measured_at : (double)o->reached;
  double cycles = lane ? o->measured : (double)o->takes;
  const char *tip = arena_printf(a, "%s of iteration %s: predicted %lld cycles, measured %.0f%s%s",
                                 o->name, schedule_iteration_text(a, o->ahead), (long long)o->takes,
                                 o->measured, *o->place ? "\n" : "", o->place);
  drawing_box(p->d, drawing_hue(a, o->ahead), x_of(p, lane, from), p->top[lane],
              cycles * p->scale[lane], LANE, o->name, tip);
}

/* From the predicted end of an op to the measured one; red where they differ by more than a tenth of
 * the iteration. */
static void draw_line(const Lanes *p, const TimedOp *o) {
  double from = (double)(o->reached + o->takes), to = o->measured_at + o->measured;
  bool far = p->comparable && fabs(o->measured - (double)o->takes) > 0.1 * (double)p->l->cycles;
  drawing_path(p->d, far ? "cycle" : "edge",
               arena_printf(p->d->arena, "M%.1f %.1fL%.1f %.1f", x_of(p, 0, from), p->top[0] + LANE,
                            x_of(p, 1, to), p->top[1]),
               NULL);
}

static void draw_lane(const Lanes *p, int lane, const char *name, const char *cycles) {
  drawing_text(p->d, "name", PICTURE_LEFT - 10, p->top[lane] + LANE - 9, name);
  drawing_box(p->d, "lane", PICTURE_LEFT, p->top[lane], PICTURE_PLOT, LANE, NULL, NULL);
  drawing_text(p->d, "soft", PICTURE_LEFT + PICTURE_PLOT + 8, p->top[lane] + LANE - 9, cycles);
}

Drawing timeline_drawing(Arena *a, const Timeline *t, const LoopTimeline *l) {
  Drawing d = {.arena = a, .width = PICTURE_LEFT + PICTURE_PLOT + PICTURE_RIGHT};
  double predicted = fmax((double)l->cycles, 1), measured = fmax(measured_end(l), 1);
  Lanes p = {.d = &d, .l = l, .top = {TOP, TOP + LANE + BETWEEN}};
  p.comparable = timeline_is_comparable(t);
  if (p.comparable) predicted = measured = fmax(predicted, measured);
  p.scale[0] = PICTURE_PLOT / predicted, p.scale[1] = PICTURE_PLOT / measured;
  d.height = TOP + 2 * LANE + BETWEEN + 14;
  d.title = arena_printf(a, "timeline of the loop %s of %s on %s", l->name, t->kernel, t->target);
  drawing_box(&d, "back", 0.5, 0.5, d.width - 1, d.height - 1, NULL, NULL);
  drawing_text(&d, "head", 14, 26,
               arena_printf(a,
                            "%s on %s, loop %s: predicted %lld cycles per iteration, measured "
                            "%.0f %s%s",
                            t->kernel, t->target, l->name, (long long)l->cycles, l->plain, t->unit,
                            p.comparable
                                ? arena_printf(a, " (%.2f)", timeline_ratio(l->plain, l->cycles))
                                : ""));
  draw_lane(&p, 0, "predicted", arena_printf(a, "%lld cycles", (long long)l->cycles));
  draw_lane(&p, 1, "measured", arena_printf(a, "%.0f", l->plain));
  for (int lane = 0; lane < 2; lane++)
    for (int i = 0; i < l->ops.n; i++) draw_op(&p, &l->ops.at[i], lane);
  for (int i = 0; i < l->ops.n; i++) draw_line(&p, &l->ops.at[i]);
  return d;
}

void timeline_svg(StrBuf *out, const Timeline *t) {
  Arena *a = arena_new();
  Drawing none = {.arena = a, .width = 640, .height = 40, .title = "no loop was measured"};
  drawing_box(&none, "back", 0.5, 0.5, none.width - 1, none.height - 1, NULL, NULL);
  drawing_text(&none, "text", 14, 24, none.title);
  Drawing d = t->loops.n ? timeline_drawing(a, t, &t->loops.at[0]) : none;
  drawing_svg(out, &d, true);
  arena_free(a);
}

void timeline_fragment(StrBuf *out, const Timeline *t) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  for (int i = 0; i < t->loops.n; i++) {
    Drawing d = timeline_drawing(a, t, &t->loops.at[i]);
    sb_puts(out, "<figure class=\"scroll\">\n");
    drawing_svg(out, &d, false);
    sb_puts(out, "</figure>\n");
  }
  timeline_text(&text, t);
  page_put(out, "<pre>%s</pre>\n", sb_text(&text));
  arena_free(a);
}
