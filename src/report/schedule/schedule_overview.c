/* schedule_overview.c: some iterations of a loop from the first to the last: which stage each is in,
 * and which slots of rings they occupy. What runs before the loop is drawn at the loop's own pace. */
#include <math.h>
#include <string.h>

#include "report/schedule/schedule_picture.h"

enum { ROW = 16, ROW_GAP = 3, SLOT = 14, SLOT_GAP = 2, MOST_TRIPS = 10 };

typedef struct Overview {
  Drawing *d;
  const LoopView *l;
  int before, trips; /* iterations before the loop, and of it */
} Overview;

static double x_of(const Overview *o, int64_t at) {
  double columns = o->before + o->trips + 0.25, from = (double)at / (double)o->l->cycles;
  return PICTURE_LEFT + PICTURE_PLOT * fmax(0, fmin(from + o->before, columns)) / columns;
}

static int most_slots(const LoopView *l) {
  int most = 1;
  for (int i = 0; i < l->rings.n; i++)
    if (l->rings.at[i].slots > most) most = l->rings.at[i].slots;
  return most;
}

static void draw_columns(const Overview *o, double top, double bottom) {
  Drawing *d = o->d;
  for (int i = -o->before; i <= o->trips; i++) {
    double x = x_of(o, i * o->l->cycles);
    drawing_path(d, "grid", arena_printf(d->arena, "M%.1f %.1fV%.1f", x, top, bottom), NULL);
    if (i >= 0 && i < o->trips)
      drawing_text(d, "tick", (x + x_of(o, (i + 1) * o->l->cycles)) / 2, top - 3,
                   arena_printf(d->arena, "iteration %d", i));
  }
  if (o->before)
    drawing_text(d, "tick", (x_of(o, -o->before * o->l->cycles) + x_of(o, 0)) / 2, top - 3,
                 "before the loop");
}

/* ---- stages ---- */

typedef struct Stage {
  int64_t from, to, ends;
  const char *names;
} Stage;

/* Ops that are further apart are drawn one by one. */
static int64_t gap_of(const Overview *o) { return o->l->cycles / 8; }

static bool joins(const Overview *o, const ViewBox *b, int ahead, const Stage *s) {
  if (b->ahead != ahead || b->kind == VIEW_WAITS || b->kind == VIEW_BARRIER || b->kind == VIEW_TURN)
    return false;
  return b->start >= s->from && b->start <= s->to + gap_of(o);
}

static const char *names_of(const Overview *o, int ahead, const Stage *s) {
  StrBuf names = {.arena = o->d->arena};
  const char *last = "";
  for (int i = 0; i < o->l->boxes.n; i++) {
    const ViewBox *b = &o->l->boxes.at[i];
    bool again = o->l->lanes.at[b->lane].wave == 1 || strcmp(b->name, last) == 0;
    if (b->kind != VIEW_ISSUES || again || !joins(o, b, ahead, s)) continue;
    sb_printf(&names, "%s%s", names.n ? ", " : "", b->name);
    last = b->name;
  }
  return sb_text(&names);
}

/* What a stage does next, from a time on, in the iteration of the loop in which it acts for
 * iteration 0; from > to: nothing. */
static Stage stage_of(const Overview *o, int ahead, int64_t after) {
  Stage s = {INT64_MAX, INT64_MIN, INT64_MIN, ""};
  for (int i = 0; i < o->l->boxes.n; i++) {
    const ViewBox *b = &o->l->boxes.at[i];
    Stage any = {after, INT64_MAX / 2, 0, NULL};
    if (joins(o, b, ahead, &any) && b->start < s.from) s.from = s.to = b->start;
  }
  if (s.from > s.to) return s;
  for (bool grows = true; grows;) {
    int64_t before = s.to;
    for (int i = 0; i < o->l->boxes.n; i++) {
      const ViewBox *b = &o->l->boxes.at[i];
      if (!joins(o, b, ahead, &s)) continue;
      if (b->start + b->cycles > s.to) s.to = b->start + b->cycles;
      if (b->ends > s.ends) s.ends = b->ends;
    }
    grows = s.to > before;
  }
  s.names = names_of(o, ahead, &s);
  return s;
}

/* What is too long for the box, if there is room before the next one. */
static void draw_beside(const Overview *o, const Stage *s, int ahead, double x, double y) {
  double room = x_of(o, INT64_MAX / 2) - x;
  for (int other = ahead; other >= 0; other--) {
    Stage next = stage_of(o, other, other == ahead ? s->to + 1 : INT64_MIN / 2);
    double from = x_of(o, next.from - other * o->l->cycles);
    if (next.from <= next.to && from - x < room) room = from - x;
  }
  if (drawing_fits(s->names, room)) drawing_text(o->d, "left", x, y + ROW - 5, s->names);
}

static void draw_stage(const Overview *o, const Stage *s, int ahead, int iteration, double y) {
  Drawing *d = o->d;
  int64_t by = (int64_t)(iteration - ahead) * o->l->cycles;
  double x = x_of(o, s->from + by), end = x_of(o, s->to + by), result = x_of(o, s->ends + by);
  const char *tip = arena_printf(d->arena, "iteration %d: %s", iteration, s->names);
  if (s->from > s->to) return;
  if (result > end)
    drawing_path(d, "grid",
                 arena_printf(d->arena, "M%.1f %.1fH%.1fm0 -3v6", end, y + ROW / 2.0, result), tip);
  drawing_box(d, drawing_hue(d->arena, ahead), x, y, end - x, ROW, s->names, tip);
  if (!drawing_fits(s->names, end - x) && !iteration) draw_beside(o, s, ahead, end + 4, y);
}

static void draw_iterations(const Overview *o, double *y) {
  for (int i = 0; i < o->trips; i++, *y += ROW + ROW_GAP) {
    drawing_text(o->d, "softend", PICTURE_LEFT - 10, *y + ROW - 4,
                 arena_printf(o->d->arena, i ? "%d" : "work for %d", i));
    for (int ahead = o->l->stages - 1; ahead >= 0; ahead--) {
      Stage s = stage_of(o, ahead, INT64_MIN / 2);
      for (; s.from <= s.to; s = stage_of(o, ahead, s.to + 1)) draw_stage(o, &s, ahead, i, *y);
    }
  }
}

/* ---- rings ---- */

static void draw_tile(const Overview *o, const ViewRing *r, int iteration, double y) {
  Drawing *d = o->d;
  int64_t by = (int64_t)iteration * o->l->cycles;
  int64_t next = r->fill + r->slots * o->l->cycles; /* the slot is filled again */
  int64_t free = r->free < next ? r->free : next, ready = r->ready < free ? r->ready : free;
  double fill = x_of(o, r->fill + by), full = x_of(o, ready + by), end = x_of(o, free + by);
  const char *number = arena_printf(d->arena, "%d", iteration);
  const char *tip =
      arena_printf(d->arena,
                   "tile %s of iteration %d: filled from cycle %lld, complete at %lld, "
                   "free at %lld",
                   r->name, iteration, (long long)(r->fill + by), (long long)(r->ready + by),
                   (long long)(r->free + by));
  drawing_box(d, "flight", fill, y, full - fill, SLOT, full - fill >= end - full ? number : NULL,
              tip);
  drawing_box(d, "full", full, y, end - full, SLOT, full - fill < end - full ? number : NULL, tip);
}

static const char *shortened(Arena *a, const char *name) {
  enum { MOST = 9 };
  return strlen(name) <= MOST ? name : arena_printf(a, "%.*s…", MOST - 1, name);
}

static void draw_ring(const Overview *o, const ViewRing *r, double *y) {
  Drawing *d = o->d;
  double top = *y, right = PICTURE_LEFT + PICTURE_PLOT + 8;
  for (int slot = 0; slot < r->slots; slot++, *y += SLOT + SLOT_GAP) {
    drawing_box(d, "lane", PICTURE_LEFT, *y, PICTURE_PLOT, SLOT, NULL, NULL);
    drawing_text(d, "softend", PICTURE_LEFT - 10, *y + SLOT - 3,
                 slot ? arena_printf(d->arena, "%d", slot)
                      : arena_printf(d->arena, "%s %d", shortened(d->arena, r->name), slot));
    for (int i = slot; i < o->trips; i += r->slots) draw_tile(o, r, i, *y);
  }
  drawing_text(d, "soft", right, top + SLOT - 3, arena_printf(d->arena, "%d \xc3\x97", r->slots));
  drawing_text(d, "soft", right + 26, top + SLOT - 3, schedule_bytes_text(d->arena, r->bytes));
  *y += 8;
}

void schedule_draw_overview(Drawing *d, const LoopView *l, double *y) {
  int slots = most_slots(l), most = slots > l->stages ? slots : l->stages;
  Overview o = {d, l, l->stages - 1, most + 2 < MOST_TRIPS ? most + 2 : MOST_TRIPS};
  drawing_text(d, "head", 14, *y + 14, "Iterations and slots");
  double top = *y += 38;
  double end = top + o.trips * (ROW + ROW_GAP) + 8;
  for (int i = 0; i < l->rings.n; i++) end += l->rings.at[i].slots * (SLOT + SLOT_GAP) + 8;
  draw_columns(&o, top, end - 6);
  draw_iterations(&o, y);
  *y += 8;
  for (int i = 0; i < l->rings.n; i++) draw_ring(&o, &l->rings.at[i], y);
}
