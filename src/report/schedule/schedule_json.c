/* schedule_json.c: what the picture of a schedule shows, as JSON; docs/schedules.md has the schema. */
#include "report/json.h"
#include "report/schedule/schedule_picture.h"

static void put_lanes(Json *j, const LoopView *l) {
  json_open(j, "lanes", '[');
  for (int i = 0; i < l->lanes.n; i++) {
    const ViewLane *lane = &l->lanes.at[i];
    json_open(j, NULL, '{');
    json_text(j, "name", lane->name);
    json_int(j, "wave", lane->wave);
    json_int(j, "busy_percent", (int64_t)(100 * lane->busy + 0.5));
    json_bool(j, "limits", lane->limits);
    json_close(j, '}');
  }
  json_close(j, ']');
}

static void put_boxes(Json *j, const LoopView *l) {
  static const char *const kinds[] = {"issues", "runs", "barrier", "waits", "turn"};
  json_open(j, "ops", '[');
  for (int i = 0; i < l->boxes.n; i++) {
    const ViewBox *b = &l->boxes.at[i];
    json_open(j, NULL, '{');
    json_text(j, "name", b->name);
    json_text(j, "kind", kinds[b->kind]);
    json_int(j, "lane", b->lane);
    json_int(j, "ahead", b->ahead);
    json_int(j, "start", b->start);
    json_int(j, "cycles", b->cycles);
    json_int(j, "result", b->ends);
    json_bool(j, "critical", b->critical);
    if (b->why) json_text(j, "for", b->why);
    json_text(j, "place", b->place);
    json_close(j, '}');
  }
  json_close(j, ']');
}

static void put_rings(Json *j, const LoopView *l) {
  json_open(j, "rings", '[');
  for (int i = 0; i < l->rings.n; i++) {
    const ViewRing *r = &l->rings.at[i];
    json_open(j, NULL, '{');
    json_text(j, "name", r->name);
    json_int(j, "slots", r->slots);
    json_int(j, "bytes", r->bytes);
    json_int(j, "fill", r->fill);
    json_int(j, "ready", r->ready);
    json_int(j, "free", r->free);
    json_close(j, '}');
  }
  json_close(j, ']');
}

/* Pairs of a time and an amount. */
static void put_curve(Json *j, const char *key, const ViewCurve *c) {
  json_open(j, key, '[');
  for (int i = 0; i < c->steps.n; i++)
    json_ints(j, NULL, (const int64_t[]){c->steps.at[i].at, c->steps.at[i].amount}, 2);
  json_close(j, ']');
}

static void put_loop(Json *j, const LoopView *l) {
  json_open(j, NULL, '{');
  json_text(j, "name", l->name);
  json_text(j, "place", l->place);
  if (l->why_not) {
    json_text(j, "no_prediction", l->why_not);
  } else {
    json_int(j, "stages", l->stages);
    json_int(j, "cycles", l->cycles);
    json_int(j, "bound", l->bound);
    json_text(j, "limit", l->limit);
    put_lanes(j, l);
    put_boxes(j, l);
    put_rings(j, l);
    put_curve(j, "shared", &l->shared);
    put_curve(j, "registers", &l->registers);
  }
  json_close(j, '}');
}

void schedule_json(StrBuf *out, const ScheduleView *s) {
  Json j = {.out = out};
  json_open(&j, NULL, '{');
  json_text(&j, "kernel", s->kernel);
  json_text(&j, "target", s->target);
  json_text(&j, "rows", s->rows);
  json_open(&j, "loops", '[');
  for (int i = 0; i < s->loops.n; i++) put_loop(&j, &s->loops.at[i]);
  json_close(&j, ']');
  json_close(&j, '}');
  sb_putc(out, '\n');
}
