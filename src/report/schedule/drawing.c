/* drawing.c: see drawing.h. */
#include "report/schedule/drawing.h"

#include <string.h>

#include "report/json.h"
#include "report/page.h"

/* What a class looks like: its own style, and the colours that depend on the theme. */
typedef struct DrawnClass {
  const char *name, *style, *light, *dark;
} DrawnClass;

#define HUE(n, fill, stroke, dark_fill, dark_stroke)                                               \
  { "hue" #n, "", "fill:" fill ";stroke:" stroke, "fill:" dark_fill ";stroke:" dark_stroke }

static const DrawnClass classes[] = {
    {"back", "", "fill:#ffffff;stroke:#d8dee4", "fill:#161a20;stroke:#323a45"},
    {"lane", "stroke:none", "fill:#f3f5f8", "fill:#1e242c"},
    {"limit", "stroke-width:1", "fill:#fdeaec;stroke:#c8283c", "fill:#35181e;stroke:#ff7b72"},
    {"grid", "fill:none", "stroke:#d8dee4", "stroke:#323a45"},
    {"edge", "fill:none;stroke-dasharray:2 3", "stroke:#8a94a3", "stroke:#7d8796"},
    {"tip-edge", "stroke:none", "fill:#8a94a3", "fill:#7d8796"},
    {"cycle", "fill:none;stroke-width:1.8", "stroke:#c8283c", "stroke:#ff7b72"},
    {"tip-cycle", "stroke:none", "fill:#c8283c", "fill:#ff7b72"},
    {"wait", "stroke-dasharray:3 3", "fill:#ffffff;stroke:#a8b1bd", "fill:#161a20;stroke:#5b6675"},
    {"barrier", "", "fill:#57606a;stroke:#3d444d", "fill:#9aa4b2;stroke:#c2cad6"},
    {"flight", "stroke-dasharray:3 2", "fill:#eef2f8;stroke:#7c8da6",
     "fill:#222b38;stroke:#7187a8"},
    {"full", "", "fill:#b9cbe6;stroke:#50709e", "fill:#34517c;stroke:#86a9dc"},
    {"area", "", "fill:#d9e4f5;stroke:#50709e", "fill:#26374f;stroke:#86a9dc"},
    {"area2", "", "fill:#e3ecd9;stroke:#5c7f3a", "fill:#2b3a20;stroke:#9cc373"},
    {"measured", "", "fill:#fff3c4;stroke:#a87900", "fill:#4a3a08;stroke:#e3b341"},
    {"red", "fill:none;stroke-width:1.8", "stroke:#c8283c", "stroke:#ff7b72"},
    HUE(0, "#cfe0fd", "#2f6fde", "#1d3d73", "#6ea8ff"),
    HUE(1, "#fde3c8", "#c96f1a", "#5c3a14", "#f0a35c"),
    HUE(2, "#c5ece6", "#12806f", "#124d46", "#45c4b5"),
    HUE(3, "#e6d8fa", "#8347c9", "#43286b", "#b990ee"),
    HUE(4, "#fbd3df", "#b8335c", "#632138", "#ec7b9c"),
    HUE(5, "#e4ebc6", "#6d7c1e", "#3e4714", "#b9cc5a"),
    {"text", "stroke:none", "fill:#1b1f24", "fill:#e6e9ee"},
    {"small", "stroke:none;font-size:10px;text-anchor:middle", "fill:#1b1f24", "fill:#e6e9ee"},
    {"name", "stroke:none;text-anchor:end", "fill:#1b1f24", "fill:#e6e9ee"},
    {"soft", "stroke:none", "fill:#57606a", "fill:#9aa4b2"},
    {"left", "stroke:none;font-size:10px", "fill:#57606a", "fill:#9aa4b2"},
    {"softend", "stroke:none;text-anchor:end", "fill:#57606a", "fill:#9aa4b2"},
    {"tick", "stroke:none;text-anchor:middle;font-size:10px", "fill:#57606a", "fill:#9aa4b2"},
    {"head", "stroke:none;font-weight:600;font-size:13px", "fill:#1b1f24", "fill:#e6e9ee"},
    {"redtext", "stroke:none", "fill:#b01e32", "fill:#ff8f87"},
};

/* ---- marks ---- */

bool drawing_fits(const char *text, double width) {
  double letters = 0;
  for (const char *c = text; *c; c++) letters += ((unsigned char)*c & 0xc0) != 0x80;
  return letters * DRAWING_CHAR + 4 <= width;
}

const char *drawing_hue(Arena *a, int i) {
  return arena_printf(a, "hue%d", ((i % DRAWING_HUES) + DRAWING_HUES) % DRAWING_HUES);
}

void drawing_box(Drawing *d, const char *class, double x, double y, double w, double h,
                 const char *label, const char *tip) {
  if (!(w > 0)) return;
  if (label && !drawing_fits(label, w)) label = NULL;
  vec_push(d->arena, &d->marks, ((Mark){MARK_BOX, class, x, y, w, h, label, tip}));
}

void drawing_text(Drawing *d, const char *class, double x, double y, const char *text) {
  vec_push(d->arena, &d->marks, ((Mark){MARK_TEXT, class, x, y, 0, 0, text, NULL}));
}

void drawing_path(Drawing *d, const char *class, const char *data, const char *tip) {
  vec_push(d->arena, &d->marks, ((Mark){MARK_PATH, class, 0, 0, 0, 0, data, tip}));
}

void drawing_arrow(Drawing *d, const char *class, double x, double y, double to_x, double to_y,
                   const char *tip) {
  double half = (to_y - y) / 2, up = to_y > y ? -5 : 5;
  const char *tip_class = arena_printf(d->arena, "tip-%s", class);
  if (to_y == y) { /* along a lane */
    drawing_path(d, class, arena_printf(d->arena, "M%.1f %.1fH%.1f", x, y, to_x), tip);
    return;
  }
  drawing_path(d, class,
               arena_printf(d->arena, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x, y, x, y + half,
                            to_x, to_y - half, to_x, to_y + up),
               tip);
  drawing_path(d, tip_class, arena_printf(d->arena, "M%.1f %.1fl-3 %.1fh6z", to_x, to_y, up), NULL);
}

/* ---- SVG ---- */

static void put_rules(StrBuf *out, const char *before, bool dark) {
  for (size_t i = 0; i < WV_LEN(classes); i++)
    sb_printf(out, "%s.schedule .%s{%s}", before, classes[i].name,
              dark ? classes[i].dark : classes[i].light);
}

/* A page's button overrules the reader's system. */
static void put_style(StrBuf *out, bool alone) {
  sb_puts(out, "<style>.schedule text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"
               "monospace}.schedule .head{font-family:system-ui,sans-serif}");
  for (size_t i = 0; i < WV_LEN(classes); i++)
    if (*classes[i].style) sb_printf(out, ".schedule .%s{%s}", classes[i].name, classes[i].style);
  sb_puts(out, "\n");
  put_rules(out, "", false);
  sb_puts(out, "\n@media (prefers-color-scheme:dark){");
  put_rules(out, "", true);
  sb_puts(out, "}\n");
  if (!alone) {
    put_rules(out, "[data-theme=light] ", false);
    put_rules(out, "[data-theme=dark] ", true);
  }
  sb_puts(out, "</style>\n");
}

static void put_tip(StrBuf *out, const char *tip) {
  if (tip) page_put(out, "<title>%s</title>", tip);
}

static void put_mark(StrBuf *out, const Mark *m) {
  switch (m->kind) {
  case MARK_BOX:
    sb_printf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"%s>",
              m->class, m->x, m->y, m->w, m->h, m->w > 8 ? " rx=\"3\"" : "");
    put_tip(out, m->tip);
    sb_puts(out, "</rect>");
    if (m->text)
      sb_printf(out, "<text class=\"small\" x=\"%.1f\" y=\"%.1f\" pointer-events=\"none\">",
                m->x + m->w / 2, m->y + m->h / 2 + 3.5);
    if (m->text) page_put(out, "%s</text>", m->text);
    break;
  case MARK_PATH:
    sb_printf(out, "<path class=\"%s\" d=\"%s\">", m->class, m->text);
    put_tip(out, m->tip);
    sb_puts(out, "</path>");
    break;
  case MARK_TEXT:
    sb_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", m->class, m->x, m->y);
    page_put(out, "%s</text>", m->text);
    break;
  }
  sb_putc(out, '\n');
}

void drawing_svg(StrBuf *out, const Drawing *d, bool alone) {
  sb_printf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"schedule\" role=\"img\" "
            "viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "style=\"max-width:100%%;height:auto\">\n",
            d->width, d->height, d->width, d->height);
  page_put(out, "<title>%s</title>\n", d->title);
  put_style(out, alone);
  for (int i = 0; i < d->marks.n; i++) put_mark(out, &d->marks.at[i]);
  sb_puts(out, "</svg>\n");
}
