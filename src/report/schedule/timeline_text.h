/* timeline_text.h: a timeline as text, as a picture and as data. */
#ifndef WV_TIMELINE_TEXT_H
#define WV_TIMELINE_TEXT_H

#include "report/schedule/drawing.h"
#include "schedule/stamps/timeline.h"

void timeline_text(StrBuf *out, const Timeline *t);
void timeline_fragment(StrBuf *out, const Timeline *t); /* part of a page */
void timeline_svg(StrBuf *out, const Timeline *t);      /* the first loop */
void timeline_json(StrBuf *out, const Timeline *t);

Drawing timeline_drawing(Arena *a, const Timeline *t, const LoopTimeline *l);

#endif
