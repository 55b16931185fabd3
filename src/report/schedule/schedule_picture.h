/* schedule_picture.h: pictures of scheduled loops, and the pages with them.
 *
 *   schedule_lanes.c      one iteration: units, waits, the cycle that limits it, memory
 *   schedule_overview.c   several iterations: stages, slots of rings
 *   schedule_page.c       the page, and what a notebook shows
 *   schedule_json.c       the numbers */
#ifndef WV_SCHEDULE_PICTURE_H
#define WV_SCHEDULE_PICTURE_H

#include "report/schedule/drawing.h"
#include "schedule/schedule_view.h"

/* A loop with a prediction. */
Drawing schedule_drawing(Arena *a, const ScheduleView *s, const LoopView *loop);

void schedule_html(StrBuf *out, const ScheduleView *s);     /* a page */
void schedule_fragment(StrBuf *out, const ScheduleView *s); /* part of one */
void schedule_svg(StrBuf *out, const ScheduleView *s);      /* the first loop with a picture */
void schedule_json(StrBuf *out, const ScheduleView *s);

/* ---- parts ---- */

enum { PICTURE_LEFT = 92, PICTURE_RIGHT = 96, PICTURE_PLOT = 800 };

/* Draw at height *y, and advance it. */
void schedule_draw_lanes(Drawing *d, const LoopView *loop, double *y);
void schedule_draw_curves(Drawing *d, const LoopView *loop, double *y);
void schedule_draw_overview(Drawing *d, const LoopView *loop, double *y);

/* "i", "i+3"; "24 KiB" */
const char *schedule_iteration_text(Arena *a, int ahead);
const char *schedule_bytes_text(Arena *a, int64_t bytes);

#endif
