/* drawing.h: a picture as a list of boxes, lines and texts in pixels, and its SVG.
 *
 * Positions are decided before anything is written, so that tests can check them. The SVG contains
 * its colours, for light and dark, and needs nothing around it: it may be a file, part of a page, or
 * the output of a notebook's cell. */
#ifndef WV_DRAWING_H
#define WV_DRAWING_H

#include "base/strbuf.h"
#include "base/vec.h"

/* DRAWING_CLASS in drawing.c lists the classes; those of iterations repeat after this many. */
enum { DRAWING_HUES = 6, DRAWING_CHAR = 6 /* the width of a small letter */ };

typedef enum MarkKind { MARK_BOX, MARK_PATH, MARK_TEXT } MarkKind;

typedef struct Mark {
  MarkKind kind;
  const char *class;
  double x, y, w, h; /* of a text: where its baseline begins, ends or has its middle, and w, h 0 */
  const char *text;  /* of a text; of a path: its data; of a box: NULL or a label inside */
  const char *tip;   /* NULL: none */
} Mark;

typedef struct Drawing {
  Arena *arena;
  double width, height;
  const char *title;
  Vec(Mark) marks;
} Drawing;

/* `label` is dropped if the box is too narrow for it. Boxes of width 0 are not drawn. */
void drawing_box(Drawing *d, const char *class, double x, double y, double w, double h,
                 const char *label, const char *tip);
void drawing_text(Drawing *d, const char *class, double x, double y, const char *text);
void drawing_path(Drawing *d, const char *class, const char *data, const char *tip);
/* A curve from one point to another with an arrow at its end. */
void drawing_arrow(Drawing *d, const char *class, double x, double y, double to_x, double to_y,
                   const char *tip);

/* Whether a text of small letters fits into a box. */
bool drawing_fits(const char *text, double width);

/* "hue0", "hue1", ... */
const char *drawing_hue(Arena *a, int i);

/* `alone`: as a file. */
void drawing_svg(StrBuf *out, const Drawing *d, bool alone);

#endif
