/* report_layout.c: tile-to-lane maps: which thread holds which element, one drawing per layout.
 *
 * The drawing is plain SVG, coloured by lane. The page's script can colour it by register or wave,
 * and names the holder of the element under the pointer, from the layout's digits given next to
 * it. */
#include "report/page.h"
#include "report/report.h"

enum { MOST_MAPS = 24, MOST_SIDE = 64, LABELS_BELOW = 16 };

LayoutGroup *layout_groups(Arena *a, const Kernel *tiles, int *n) {
  LayoutGroup *groups = ARENA_ARRAY(a, LayoutGroup, tiles ? tiles->nvalues + 1 : 1);
  *n = 0;
  for (const Op *op = tiles ? ir_first(tiles) : NULL; op; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      int g = 0;
      if (!v->layout) continue;
      while (g < *n && !(groups[g].values[0]->type == v->type &&
                         layout_equal(groups[g].values[0]->layout, v->layout)))
        g++;
      if (g == *n) groups[(*n)++].values = ARENA_ARRAY(a, const Value *, tiles->nvalues + 1);
      groups[g].values[groups[g].n++] = v;
    }
  return groups;
}

/* ---- the drawing ---- */

typedef struct Drawing {
  const Layout *l;
  int rows, cols; /* drawn */
  int stride;     /* elements from one row to the next */
  int lanes, waves, regs;
  const int *owner; /* by element: its first position, -1: none */
} Drawing;

/* The last two dims; a single dim is cut into rows. */
static Drawing drawing_of(Arena *a, const Layout *l) {
  Drawing m = {.l = l, .owner = layout_owners(a, l)};
  m.lanes = layout_size(l, LAYOUT_LANE);
  m.waves = layout_size(l, LAYOUT_WAVE);
  m.regs = layout_size(l, LAYOUT_REG);
  int last = l->dims ? l->extent[l->dims - 1] : 1;
  if (l->dims < 2) {
    m.cols = last < MOST_SIDE ? last : MOST_SIDE;
    m.stride = m.cols;
    m.rows = (last + m.cols - 1) / (m.cols ? m.cols : 1);
  } else {
    m.cols = last;
    m.stride = last;
    m.rows = l->extent[l->dims - 2];
  }
  if (m.cols > MOST_SIDE) m.cols = MOST_SIDE;
  if (m.rows > MOST_SIDE) m.rows = MOST_SIDE;
  return m;
}

/* The first position that holds the element of a cell; -1: none, or there is no such element. */
static int position_at(const Drawing *m, int row, int col) {
  int element = row * m->stride + col;
  return element < layout_elements(m->l) ? m->owner[element] : -1;
}

static int thread_of(const Drawing *m, int position) {
  return position < 0 ? -1 : position / m->regs;
}

/* Runs of cells along rows, each a box in the path of its thread. */
static void put_cells(StrBuf *out, const Drawing *m, Arena *a) {
  int threads = m->lanes * m->waves;
  StrBuf *path = ARENA_ARRAY(a, StrBuf, threads + 1);
  for (int i = 0; i < threads; i++) path[i].arena = a;
  for (int y = 0; y < m->rows; y++)
    for (int x = 0, end; x < m->cols; x = end) {
      int thread = thread_of(m, position_at(m, y, x));
      for (end = x + 1; end < m->cols && thread_of(m, position_at(m, y, end)) == thread;) end++;
      if (thread >= 0) sb_printf(&path[thread], "M%d %dh%dv1h-%dz", x, y, end - x, end - x);
    }
  for (int i = 0; i < threads; i++) {
    int wave = i / m->lanes, light = 74 - 26 * wave / (m->waves > 1 ? m->waves - 1 : 1);
    if (path[i].n)
      sb_printf(out, "<path fill=\"hsl(%d 62%% %d%%)\" d=\"%s\"/>\n",
                page_hue(i % m->lanes, m->lanes), light, sb_text(&path[i]));
  }
}

/* `lane.register` in every cell of a small map. */
static void put_labels(StrBuf *out, const Drawing *m) {
  sb_puts(out, "<g class=\"labels\" font-size=\".3\" text-anchor=\"middle\" fill=\"#111\" "
               "font-family=\"monospace\">\n");
  for (int y = 0; y < m->rows; y++)
    for (int x = 0; x < m->cols; x++) {
      int p = position_at(m, y, x);
      if (p < 0) continue;
      LayoutHolder at = layout_holder_at(m->l, p);
      sb_printf(out, "<text x=\"%d.5\" y=\"%d.6\">", x, y);
      if (m->waves > 1) sb_printf(out, "%d:", at.wave);
      sb_printf(out, "%d.%d</text>", at.lane, at.reg);
    }
  sb_puts(out, "</g>\n");
}

static void put_drawing(StrBuf *out, const Drawing *m, const char *title, Arena *a) {
  int most = m->rows > m->cols ? m->rows : m->cols;
  int cell = most <= 8 ? 44 : most <= LABELS_BELOW ? 34 : most <= 32 ? 16 : 8;
  sb_printf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"map\" role=\"img\" tabindex=\"0\" "
            "viewBox=\"-.05 -.05 %d.1 %d.1\" width=\"%d\" height=\"%d\" stroke=\"#8886\" "
            "stroke-width=\".04\">\n<title>",
            m->cols, m->rows, m->cols * cell + 1, m->rows * cell + 1);
  page_put(out, "%s</title>\n<g class=\"cells\">\n", title);
  put_cells(out, m, a);
  sb_puts(out, "</g>\n");
  if (most <= LABELS_BELOW) {
    sb_puts(out, "<g stroke=\"none\">\n");
    put_labels(out, m);
    sb_puts(out, "</g>\n");
  }
  sb_puts(out, "</svg>\n");
}

/* ---- next to the drawing ---- */

static void put_digits(StrBuf *out, const Layout *l, const Drawing *m) {
  static const char *const parts[] = {"reg", "lane", "wave"};
  Json j = {.out = out};
  int64_t extent[LAYOUT_DIMS];
  for (int d = 0; d < l->dims; d++) extent[d] = l->extent[d];
  sb_puts(out, "<script type=\"application/json\" class=\"layout\">");
  json_open(&j, NULL, '{');
  json_ints(&j, "extent", extent, l->dims);
  json_ints(&j, "drawn", (int64_t[]){m->rows, m->cols, m->stride}, 3);
  for (int p = 0; p < LAYOUT_PARTS; p++) {
    json_open(&j, parts[p], '[');
    for (int i = 0; i < l->part[p].n; i++) {
      const Digit *d = &l->part[p].at[i];
      json_ints(&j, NULL, (int64_t[]){d->dim, d->radix, d->stride}, 3);
    }
    json_close(&j, ']');
  }
  json_close(&j, '}');
  sb_puts(out, "</script>\n");
}

static void put_values(StrBuf *out, const Report *r, const LayoutGroup *g) {
  enum { MOST_NAMES = 12 };
  sb_puts(out, "<p>");
  for (int i = 0; i < g->n && i < MOST_NAMES; i++) {
    const Value *v = g->values[i];
    if (i) sb_puts(out, ", ");
    page_put(out, "<b>%s</b>", v->name ? v->name : op_info[v->def->kind].name);
    if (!v->def->at.line) continue;
    sb_puts(out, " (");
    sb_printf(out, "<a href=\"#L%u-%u\">line %u</a>)", v->def->at.file, v->def->at.line,
              v->def->at.line);
  }
  if (g->n > MOST_NAMES) sb_printf(out, " and %d more", g->n - MOST_NAMES);
  page_put(out, ": <code>%s</code></p>\n", type_text(r->sim->arena, r->k->cx, g->values[0]->type));
}

static void put_limits(StrBuf *out, const Drawing *m) {
  const Layout *l = m->l;
  int drawn = m->rows * m->cols, elements = layout_elements(l);
  if (drawn < elements)
    sb_printf(out, "<p class=\"cap\">Drawn: %d × %d of %d elements.</p>\n", m->rows, m->cols,
              elements);
  int copies = layout_replication(l);
  if (copies > 1) sb_printf(out, "<p>Every element is held by %d threads.</p>\n", copies);
}

static void put_map(StrBuf *out, const Report *r, const LayoutGroup *g, Arena *a) {
  const Layout *l = g->values[0]->layout;
  Drawing m = drawing_of(a, l);
  StrBuf text = {.arena = a};
  layout_print(&text, l);
  const char *title =
      arena_printf(a, "%d x %d elements by lane: %s", m.rows, m.cols, sb_text(&text));
  sb_puts(out, "<figure class=\"layout-map\">\n<figcaption>");
  put_values(out, r, g);
  sb_printf(out, "<p>%d register%s × %d lanes × %d wave%s <code>", m.regs, m.regs > 1 ? "s" : "",
            m.lanes, m.waves, m.waves > 1 ? "s" : "");
  page_put(out, "%s</code></p>\n</figcaption>\n<div class=\"scroll\">\n", sb_text(&text));
  put_drawing(out, &m, title, a);
  sb_puts(out, "</div>\n");
  put_digits(out, l, &m);
  put_limits(out, &m);
  sb_puts(out, "</figure>\n");
}

void section_layouts(StrBuf *out, const Report *r) {
  Arena *a = arena_new();
  int n;
  LayoutGroup *groups = layout_groups(a, r->tiles, &n);
  page_section(out, "layouts", "Tiles and lanes");
  sb_puts(
      out,
      "<p>Which lane holds which element. Rows and columns are the last two dimensions; colours "
      "are lanes, darker ones are later waves; a box is a run of elements in one lane. "
      "Point at an element to see its holders.</p>\n"
      "<fieldset id=\"colour\"><legend>colour by</legend>"
      "<label><input type=\"radio\" name=\"colour\" value=\"lane\" checked> lane</label> "
      "<label><input type=\"radio\" name=\"colour\" value=\"reg\"> register</label> "
      "<label><input type=\"radio\" name=\"colour\" value=\"wave\"> wave</label>"
      "</fieldset>\n<div class=\"maps\">\n");
  for (int i = 0; i < n && i < MOST_MAPS; i++) put_map(out, r, &groups[i], a);
  sb_puts(out, "</div>\n");
  if (n > MOST_MAPS)
    sb_printf(out, "<p class=\"cap\">%d of %d layouts are drawn; the JSON report has all.</p>\n",
              MOST_MAPS, n);
  page_section_end(out);
  arena_free(a);
}
