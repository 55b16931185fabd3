/* timeline_text.c: a timeline as text and as JSON. */
#include "report/schedule/timeline_text.h"

#include "report/json.h"
#include "report/schedule/schedule_picture.h"

static const char *ratio_text(Arena *a, const Timeline *t, double measured, int64_t predicted) {
  double ratio = timeline_is_comparable(t) ? timeline_ratio(measured, predicted) : 0;
  return ratio > 0 ? arena_printf(a, "%.2f", ratio) : "-";
}

static const char *interval_ratio(Arena *a, const Timeline *t, const LoopTimeline *l) {
  if (!timeline_is_comparable(t)) return "";
  return arena_printf(a, " (%s)", ratio_text(a, t, l->plain, l->cycles));
}

static void put_loop(StrBuf *out, const Timeline *t, const LoopTimeline *l) {
  Arena *a = arena_new();
  sb_printf(out, "loop %s of %s on %s: %d iterations of %d waves\n", l->name, t->kernel, t->target,
            l->iterations, l->waves);
  if (l->measured > 0)
    sb_printf(
        out,
        "interval: predicted %lld cycles, measured %.0f %s%s, with %.1f stamps of %.0f: %.0f\n",
        (long long)l->cycles, l->plain, t->unit, interval_ratio(a, t, l), l->stamps, l->stamp,
        l->measured);
  else sb_puts(out, "interval: unknown, since fewer than two iterations were recorded\n");
  sb_printf(out, "%-24s %-5s %18s %18s\n", "", "", "predicted", "measured");
  sb_printf(out, "%-24s %-5s %9s %8s %9s %8s %6s\n", "op", "for", "reached", "takes", "reached",
            "takes", "ratio");
  for (int i = 0; i < l->ops.n; i++) {
    const TimedOp *o = &l->ops.at[i];
    sb_printf(out, "%-24s %-5s %9lld %8lld %9.0f %8.0f %6s\n", o->name,
              schedule_iteration_text(a, o->ahead), (long long)o->reached, (long long)o->takes,
              o->measured_at, o->measured, ratio_text(a, t, o->measured, o->takes));
  }
  arena_free(a);
}

void timeline_text(StrBuf *out, const Timeline *t) {
  for (int i = 0; i < t->loops.n; i++) {
    if (i) sb_putc(out, '\n');
    put_loop(out, t, &t->loops.at[i]);
  }
  if (!t->loops.n) sb_printf(out, "%s on %s: no loop was measured\n", t->kernel, t->target);
}

/* ---- data ---- */

static void put_op(Json *j, const TimedOp *o) {
  json_open(j, NULL, '{');
  json_text(j, "name", o->name);
  json_int(j, "ahead", o->ahead);
  json_int(j, "predicted_start", o->reached);
  json_int(j, "predicted", o->takes);
  json_tenths(j, "start", o->measured_at);
  json_tenths(j, "measured", o->measured);
  json_text(j, "place", o->place);
  json_close(j, '}');
}

void timeline_json(StrBuf *out, const Timeline *t) {
  Json j = {.out = out};
  json_open(&j, NULL, '{');
  json_text(&j, "kernel", t->kernel);
  json_text(&j, "target", t->target);
  json_text(&j, "unit", t->unit);
  json_open(&j, "loops", '[');
  for (int i = 0; i < t->loops.n; i++) {
    const LoopTimeline *l = &t->loops.at[i];
    json_open(&j, NULL, '{');
    json_text(&j, "name", l->name);
    json_text(&j, "place", l->place);
    json_int(&j, "iterations", l->iterations);
    json_int(&j, "waves", l->waves);
    json_int(&j, "predicted", l->cycles);
    json_tenths(&j, "measured", l->plain);
    json_tenths(&j, "with_stamps", l->measured);
    json_tenths(&j, "stamp", l->stamp);
    json_open(&j, "ops", '[');
    for (int o = 0; o < l->ops.n; o++) put_op(&j, &l->ops.at[o]);
    json_close(&j, ']');
    json_close(&j, '}');
  }
  json_close(&j, ']');
  json_close(&j, '}');
  sb_putc(out, '\n');
}
