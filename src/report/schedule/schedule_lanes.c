/* schedule_lanes.c: one iteration of a loop in its steady state: what each wave issues and each unit
 * executes, what waits for what, and how much memory is in use. Whatever crosses the end of the
 * iteration continues at its beginning. */
#include <math.h>
#include <string.h>

#include "report/schedule/schedule_picture.h"

enum { LANE = 22, LANE_GAP = 7, CURVE = 30, CURVE_GAP = 12, TITLE = 20 };

const char *schedule_iteration_text(Arena *a, int ahead) {
  return ahead ? arena_printf(a, "i%+d", ahead) : "i";
}

const char *schedule_bytes_text(Arena *a, int64_t bytes) {
  if (bytes >= 512) return arena_printf(a, "%.4g KiB", (double)bytes / 1024);
  return arena_printf(a, "%lld bytes", (long long)bytes);
}

/* ---- time ---- */

static double x_of(const LoopView *l, double at) {
  return PICTURE_LEFT + PICTURE_PLOT * at / (double)l->cycles;
}

static int64_t wrapped(const LoopView *l, int64_t at) {
  return at - floor_div64(at, l->cycles) * l->cycles;
}

/* 1, 2 or 5 times a power of ten, so that there are about eight ticks. */
static int64_t tick_step(int64_t cycles) {
  int64_t step = 1;
  for (int i = 0; cycles / step > 10; i++) step = step * (i % 3 == 1 ? 5 : 4) / 2;
  return step;
}

static void draw_axis(Drawing *d, const LoopView *l, double top, double y) {
  int64_t step = tick_step(l->cycles);
  for (int64_t at = 0; at <= l->cycles; at += step) {
    double x = x_of(l, (double)at);
    drawing_path(d, "grid", arena_printf(d->arena, "M%.1f %.1fV%.1f", x, top, y), NULL);
    if (l->cycles - at >= step / 2 || at == l->cycles)
      drawing_text(d, "tick", x, y + 12, arena_printf(d->arena, "%lld", (long long)at));
  }
  double end = x_of(l, (double)l->cycles);
  drawing_path(d, "grid", arena_printf(d->arena, "M%.1f %.1fV%.1f", end, top, y), NULL);
  drawing_text(d, "soft", end + 8, y + 12,
               arena_printf(d->arena, "%lld cycles", (long long)l->cycles));
}

/* ---- lanes ---- */

static double lane_top(double top, int lane) { return top + lane * (LANE + LANE_GAP); }

static void draw_lane(Drawing *d, const ViewLane *lane, double y) {
  const char *owner =
      lane->wave >= 0 && strncmp(lane->name, "wave", 4) != 0 && strcmp(lane->name, "service") != 0
          ? arena_printf(d->arena, "%s %d", lane->name, lane->wave)
          : lane->name;
  drawing_text(d, lane->limits ? "name redtext" : "name", PICTURE_LEFT - 10, y + LANE - 7, owner);
  drawing_box(d, lane->limits ? "limit" : "lane", PICTURE_LEFT, y, PICTURE_PLOT, LANE, NULL,
              lane->doc);
  double x = PICTURE_LEFT + PICTURE_PLOT + 8, busy = fmin(lane->busy, 1);
  drawing_box(d, "lane", x, y + LANE - 5, 44, 4, NULL, NULL);
  drawing_box(d, lane->limits ? "measured" : "full", x, y + LANE - 5, 44 * busy, 4, NULL, NULL);
  drawing_text(d, lane->limits ? "redtext" : "soft", x, y + 12,
               arena_printf(d->arena, "%.0f %%", 100 * lane->busy));
}

static const char *tip_of(Drawing *d, const ViewBox *b) {
  StrBuf tip = {.arena = d->arena};
  const char *of = schedule_iteration_text(d->arena, b->ahead);
  if (b->kind == VIEW_WAITS) {
    sb_printf(&tip, "waits %lld cycles for %s", (long long)b->cycles, b->why);
  } else if (b->kind == VIEW_TURN) {
    sb_printf(&tip, "it is the turn of %s, from cycle %lld for %lld", b->name, (long long)b->start,
              (long long)b->cycles);
  } else {
    sb_printf(&tip, "%s of iteration %s: starts at cycle %lld, %s for %lld", b->name, of,
              (long long)b->start, b->kind == VIEW_RUNS ? "runs" : "issues", (long long)b->cycles);
    if (b->ends > b->start + b->cycles) sb_printf(&tip, ", result at %lld", (long long)b->ends);
  }
  if (*b->place) sb_printf(&tip, "\n%s", b->place);
  return sb_text(&tip);
}

static const char *class_of(Drawing *d, const ViewBox *b) {
  if (b->kind == VIEW_WAITS) return "wait";
  if (b->kind == VIEW_BARRIER) return "barrier";
  if (b->kind == VIEW_TURN) return "full";
  return drawing_hue(d->arena, b->ahead);
}

static const char *label_of(Drawing *d, const ViewBox *b, double width) {
  if (b->kind == VIEW_BARRIER) return NULL;
  if (b->kind == VIEW_TURN) return drawing_fits(b->name, width) ? b->name : NULL;
  if (b->kind == VIEW_WAITS) {
    const char *why = arena_printf(d->arena, "waits for %s", b->why);
    return drawing_fits(why, width) ? why : NULL;
  }
  const char *whole =
      arena_printf(d->arena, "%s %s", b->name, schedule_iteration_text(d->arena, b->ahead));
  return drawing_fits(whole, width) ? whole : b->name;
}

/* In pieces, if it continues in the next iteration; the longest has the label. */
static void draw_event(Drawing *d, const LoopView *l, const ViewBox *b, double y) {
  int64_t at = wrapped(l, b->start), left = b->cycles < l->cycles ? b->cycles : l->cycles;
  int64_t first = l->cycles - at < left ? l->cycles - at : left;
  double scale = (double)PICTURE_PLOT / (double)l->cycles;
  bool second = left - first > first;
  double inset = b->kind == VIEW_WAITS ? 4 : 0, height = LANE - 2 * inset;
  const char *class = class_of(d, b), *tip = tip_of(d, b);
  double w = (double)first * scale, rest = (double)(left - first) * scale;
  drawing_box(d, class, x_of(l, (double)at), y + inset, w, height,
              second ? NULL : label_of(d, b, w), tip);
  drawing_box(d, class, PICTURE_LEFT, y + inset, rest, height, second ? label_of(d, b, rest) : NULL,
              tip);
}

/* ---- links ---- */

static double middle_of(const LoopView *l, double top, int box) {
  return lane_top(top, l->boxes.at[box].lane) + LANE / 2.0;
}

/* Where a line to the other lane leaves or reaches this one. */
static double side_of(double y, double other) {
  return other > y ? y + LANE / 2.0 : other < y ? y - LANE / 2.0 : y;
}

static void draw_link(Drawing *d, const LoopView *l, const ViewLink *k, double top) {
  const char *class = k->critical ? "cycle" : "edge";
  double y = middle_of(l, top, k->from), to_y = middle_of(l, top, k->to);
  double x = x_of(l, (double)wrapped(l, k->leaves)), to_x = x_of(l, (double)wrapped(l, k->arrives));
  double end = PICTURE_LEFT + PICTURE_PLOT;
  bool same = y == to_y;
  const char *tip =
      arena_printf(d->arena, "%s, then %s, %lld cycles later", l->boxes.at[k->from].name,
                   l->boxes.at[k->to].name, (long long)(k->arrives - k->leaves));
  double from_y = same ? y + LANE / 2.0 + 2 : side_of(y, to_y);
  to_y = same ? from_y : side_of(to_y, y);
  if (to_x < x - 0.05 || k->arrives - k->leaves >= l->cycles) { /* over the end */
    drawing_path(d, class, arena_printf(d->arena, "M%.1f %.1fH%.1f", x, from_y, end), tip);
    drawing_arrow(d, class, PICTURE_LEFT, from_y, to_x, to_y, tip);
  } else {
    drawing_arrow(d, class, x, from_y, to_x, to_y, tip);
  }
}

/* What limits the loop has a red frame. */
static void draw_frame(Drawing *d, const LoopView *l, const ViewBox *b, double y) {
  int64_t at = wrapped(l, b->start);
  double x = x_of(l, (double)at), end = x_of(l, fmin((double)(at + b->cycles), (double)l->cycles));
  if (b->critical && b->kind != VIEW_WAITS)
    drawing_path(d, "red", arena_printf(d->arena, "M%.1f %.1fH%.1fv%dH%.1fz", x, y, end, LANE, x),
                 tip_of(d, b));
}

void schedule_draw_lanes(Drawing *d, const LoopView *l, double *y) {
  double top = *y, bottom = lane_top(top, l->lanes.n);
  draw_axis(d, l, top - 4, bottom);
  for (int i = 0; i < l->lanes.n; i++) draw_lane(d, &l->lanes.at[i], lane_top(top, i));
  for (int i = 0; i < l->boxes.n; i++)
    draw_event(d, l, &l->boxes.at[i], lane_top(top, l->boxes.at[i].lane));
  for (int i = 0; i < l->links.n; i++)
    if (!l->links.at[i].critical) draw_link(d, l, &l->links.at[i], top);
  for (int i = 0; i < l->boxes.n; i++)
    draw_frame(d, l, &l->boxes.at[i], lane_top(top, l->boxes.at[i].lane));
  for (int i = 0; i < l->links.n; i++)
    if (l->links.at[i].critical) draw_link(d, l, &l->links.at[i], top);
  *y = bottom + 26;
}

/* ---- memory ---- */

typedef struct CurveLook {
  const char *name, *class, *peak, *most;
} CurveLook;

static void draw_curve(Drawing *d, const LoopView *l, const ViewCurve *c, CurveLook look,
                       double *y) {
  StrBuf path = {.arena = d->arena};
  double scale = CURVE / (double)(c->peak > 0 ? c->peak : 1), base = *y + CURVE;
  if (!c->peak) return;
  sb_printf(&path, "M%d %.1f", PICTURE_LEFT, base);
  for (int i = 0; i < c->steps.n; i++)
    sb_printf(&path, "H%.1fV%.1f", x_of(l, (double)c->steps.at[i].at),
              base - (double)c->steps.at[i].amount * scale);
  sb_printf(&path, "H%.1fV%.1fz", x_of(l, (double)l->cycles), base);
  drawing_text(d, "name", PICTURE_LEFT - 10, base - CURVE / 2.0 + 4, look.name);
  drawing_path(d, look.class, sb_text(&path), look.peak);
  drawing_text(d, "soft", PICTURE_LEFT + PICTURE_PLOT + 8, *y + 10, look.peak);
  drawing_text(d, "soft", PICTURE_LEFT + PICTURE_PLOT + 8, *y + 24, look.most);
  *y = base + CURVE_GAP;
}

void schedule_draw_curves(Drawing *d, const LoopView *l, double *y) {
  Arena *a = d->arena;
  CurveLook shared = {"shared", "area", schedule_bytes_text(a, l->shared.peak),
                      arena_printf(a, "of %s", schedule_bytes_text(a, l->shared.most))};
  CurveLook registers = {"registers", "area2",
                         arena_printf(a, "%lld per lane", (long long)l->registers.peak),
                         arena_printf(a, "of %lld", (long long)l->registers.most)};
  draw_curve(d, l, &l->shared, shared, y);
  draw_curve(d, l, &l->registers, registers, y);
}

/* ---- the whole ---- */

static void draw_heading(Drawing *d, const ScheduleView *s, const LoopView *l, double *y) {
  Arena *a = d->arena;
  drawing_text(d, "head", 14, *y + 14,
               arena_printf(a, "%s on %s, loop %s: %lld cycles per iteration%s", s->kernel,
                            s->target, l->name, (long long)l->cycles,
                            l->bound < l->cycles
                                ? arena_printf(a, " (at least %lld)", (long long)l->bound)
                                : ""));
  *y += TITLE;
  const char *limit = arena_printf(a, "limited by %s", l->limit);
  while (!drawing_fits(limit, PICTURE_LEFT + PICTURE_PLOT)) /* whole names only */
    limit = arena_printf(a, "%.*s …", (int)(strrchr(limit, ',') ? strrchr(limit, ',') - limit : 20),
                         limit);
  drawing_text(d, "redtext", 14, *y + 14, limit);
  *y += TITLE;
}

/* Boxes of a kind; `ahead` -1: for any iteration. */
static bool has_boxes(const LoopView *l, ViewKind kind, int ahead) {
  for (int i = 0; i < l->boxes.n; i++)
    if (l->boxes.at[i].kind == kind && (ahead < 0 || l->boxes.at[i].ahead == ahead)) return true;
  return false;
}

static void draw_key(Drawing *d, const char *class, const char *name, double *x, double y) {
  drawing_box(d, class, *x, y + 4, 14, 12, NULL, NULL);
  drawing_text(d, "soft", *x + 20, y + 14, name);
  *x += 20 + 7.0 * (double)strlen(name) + 12;
}

/* The colours of iterations. */
static void draw_legend(Drawing *d, const LoopView *l, double *y) {
  double x = 14;
  for (int i = 0; i < l->stages && i < DRAWING_HUES; i++)
    if (has_boxes(l, VIEW_ISSUES, i) || has_boxes(l, VIEW_RUNS, i))
      draw_key(d, drawing_hue(d->arena, i),
               arena_printf(d->arena, "for iteration %s", schedule_iteration_text(d->arena, i)), &x,
               *y);
  if (has_boxes(l, VIEW_BARRIER, -1)) draw_key(d, "barrier", "barrier", &x, *y);
  if (has_boxes(l, VIEW_WAITS, -1)) draw_key(d, "wait", "wave waits", &x, *y);
  if (has_boxes(l, VIEW_TURN, -1)) draw_key(d, "full", "its turn", &x, *y);
  if (l->rings.n) draw_key(d, "flight", "tile in flight", &x, *y);
  if (l->rings.n) draw_key(d, "full", "tile in its slot", &x, *y);
  *y += TITLE + 10;
}

Drawing schedule_drawing(Arena *a, const ScheduleView *s, const LoopView *l) {
  Drawing d = {.arena = a, .width = PICTURE_LEFT + PICTURE_PLOT + PICTURE_RIGHT};
  double y = 12;
  d.title = arena_printf(a, "schedule of the loop %s of %s on %s", l->name, s->kernel, s->target);
  drawing_box(&d, "back", 0.5, 0.5, d.width - 1, 1, NULL, NULL);
  draw_heading(&d, s, l, &y);
  draw_legend(&d, l, &y);
  schedule_draw_lanes(&d, l, &y);
  schedule_draw_curves(&d, l, &y);
  schedule_draw_overview(&d, l, &y);
  d.height = ceil(y + 10);
  d.marks.at[0].h = d.height - 1;
  return d;
}
