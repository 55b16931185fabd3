/* report_memory.c: the layout of shared memory, and what each memory access cost. */
#include <stdlib.h>

#include "report/page.h"
#include "report/report.h"
#include "target/banks.h"

enum { MOST_DRAWN = 24, MOST_STACK = 32, MOST_LISTED = 400 };

/* ---- shared memory ---- */

static void put_shared(StrBuf *out, const Report *r) {
  const SimReport *s = r->sim;
  enum { WIDTH = 1000, ROW = 26, MOST = 40 };
  int rows = s->nshared < MOST ? s->nshared : MOST;
  double scale = s->shared_bytes ? (double)WIDTH / (double)s->shared_bytes : 0;
  sb_puts(out, "<h3>Shared memory of a workgroup</h3>\n");
  sb_printf(out, "<svg class=\"bars\" role=\"img\" viewBox=\"0 0 %d %d\" width=\"100%%\">\n<title>",
            WIDTH, rows * ROW + 20);
  sb_printf(out, "%d allocations in %lld bytes</title>\n", s->nshared, (long long)s->shared_bytes);
  for (int i = 0; i < rows; i++) {
    const SimBuffer *b = &s->shared[i];
    double x = (double)b->base * scale, w = (double)b->bytes * scale;
    sb_printf(out,
              "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" rx=\"2\" "
              "fill=\"hsl(%d 55%% 68%%)\"/>\n",
              x, i * ROW + 2, w > 1 ? w : 1, ROW - 6, page_hue(i, s->nshared));
    bool left = x + 8 > WIDTH * 0.6;
    sb_printf(out, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"%s\">", left ? x + w - 6 : x + 6,
              i * ROW + 17, left ? "end" : "start");
    page_text(out, b->name);
    sb_printf(out, ": bytes %lld to %lld</text>\n", (long long)b->base,
              (long long)(b->base + b->bytes - 1));
  }
  sb_printf(out, "<text x=\"0\" y=\"%d\" class=\"axis\">0</text>", rows * ROW + 16);
  sb_printf(out, "<text x=\"%d\" y=\"%d\" class=\"axis\" text-anchor=\"end\">%lld bytes</text>\n",
            WIDTH, rows * ROW + 16, (long long)s->shared_bytes);
  sb_puts(out, "</svg>\n");
  if (s->nshared > MOST)
    sb_printf(out, "<p class=\"cap\">%d of %d are drawn.</p>\n", MOST, s->nshared);
}

/* ---- banks ---- */

typedef struct Word {
  int phase, bank, word, lane; /* lane: the first that accesses it */
} Word;

typedef struct Words {
  Word at[64 * 4];
  int n, banks;
} Words;

static int part_bytes(const SimAccess *a) { return a->bytes >= 16 ? 16 : a->bytes & -a->bytes; }

static void add_word(Words *w, Word word) {
  for (int i = 0; i < w->n; i++)
    if (w->at[i].phase == word.phase && w->at[i].word == word.word) return;
  w->at[w->n++] = word;
}

/* The words that an access needs (of its first 16 bytes), once per phase. */
static Words words_of(const SimReport *s, const SimAccess *a) {
  int phase[BANK_LANES] = {0}, bytes = part_bytes(a);
  Words found = {.banks = bank_number(s->machine, bytes, a->is_read)};
  bank_phases(s->machine, s->wave, bytes, a->is_read, phase);
  for (int lane = 0; lane < s->wave; lane++)
    for (int b = 0; a->address[lane] >= 0 && b < bytes; b += BANK_BYTES) {
      int word = (int)(a->address[lane] + b) / BANK_BYTES;
      add_word(&found, (Word){phase[lane], word % found.banks, word, lane});
    }
  return found;
}

static int stack_of(const Words *w, int phase, int bank) {
  int n = 0;
  for (int i = 0; i < w->n; i++) n += w->at[i].phase == phase && w->at[i].bank == bank;
  return n;
}

static int tallest(const Words *w, int phase) {
  int most = 0;
  for (int bank = 0; bank < w->banks; bank++) {
    int n = stack_of(w, phase, bank);
    if (n > most) most = n;
  }
  return most;
}

static int worst_phase(const Words *w) {
  int worst = 0, most = 0;
  for (int i = 0; i < w->n; i++) {
    int n = tallest(w, w->at[i].phase);
    if (n > most) most = n, worst = w->at[i].phase;
  }
  return worst;
}

static void put_boxes(StrBuf *out, const SimReport *s, const Words *w, int phase, int high) {
  enum { W = 24, H = 18 };
  int filled[BANK_LANES] = {0};
  for (int i = 0; i < w->n; i++) {
    const Word *word = &w->at[i];
    if (word->phase != phase || filled[word->bank] >= MOST_STACK) continue;
    int y = (high - ++filled[word->bank]) * H, x = word->bank * W;
    sb_printf(out, "<g><title>bank %d: bytes %d to %d, lane %d</title>", word->bank,
              word->word * BANK_BYTES, word->word * BANK_BYTES + 3, word->lane);
    sb_printf(out,
              "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"hsl(%d 62%% 70%%)\"/>",
              x + 1, y + 1, W - 2, H - 2, page_hue(word->lane, s->wave));
    sb_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#111\">%d</text></g>\n",
              x + W / 2, y + 13, word->lane);
  }
  for (int bank = 0; bank < w->banks; bank += 4)
    sb_printf(out, "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>",
              bank * W + W / 2, high * H + 14, bank);
}

static void put_stacks(StrBuf *out, const SimReport *s, const SimAccess *a) {
  enum { W = 24, H = 18 };
  Words w = words_of(s, a);
  int phase = worst_phase(&w), most = tallest(&w, phase);
  int high = most < MOST_STACK ? most : MOST_STACK, wide = w.banks * W;
  sb_printf(out,
            "<div class=\"scroll\"><svg class=\"stack\" role=\"img\" viewBox=\"0 0 %d %d\" "
            "width=\"%d\" height=\"%d\">\n<title>",
            wide, high * H + 18, wide, high * H + 18);
  sb_printf(out, "the busiest of %d banks gives %d words</title>\n", w.banks, most);
  put_boxes(out, s, &w, phase, high);
  sb_puts(out, "</svg></div>\n");
  if (most > high) sb_printf(out, "<p class=\"cap\">%d of %d words are drawn.</p>\n", high, most);
}

/* ---- accesses ---- */

/* The ops of one source line that access a buffer in the same way: lowering turns one op into
 * many. */
typedef struct Row {
  const Op *op; /* the most expensive */
  const SimAccess *access;
  int n;
  uint64_t sectors, needed;
} Row;

static int by_cost(const void *x, const void *y) {
  const Row *a = x, *b = y;
  if (a->access->cost != b->access->cost) return a->access->cost > b->access->cost ? -1 : 1;
  return a->op->id < b->op->id ? -1 : a->op->id > b->op->id;
}

static bool alike(const Row *row, const Op *op, const SimAccess *a) {
  return row->op->kind == op->kind && row->op->at.file == op->at.file &&
         row->op->at.line == op->at.line && row->access->buffer == a->buffer &&
         row->access->bytes == a->bytes;
}

static int gather(const Report *r, bool shared, Row *rows) {
  int n = 0;
  for (const Op *op = ir_first(r->k); op; op = ir_next(op)) {
    const SimAccess *a = r->sim->access[op->id];
    int at = 0;
    if (!a || a->shared != shared) continue;
    while (at < n && !alike(&rows[at], op, a)) at++;
    if (at == n) rows[n++] = (Row){.op = op, .access = a};
    Row *row = &rows[at];
    if (a->cost > row->access->cost) row->op = op, row->access = a;
    row->n++;
    row->sectors += r->sim->op[op->id].sectors;
    row->needed += r->sim->op[op->id].sectors_needed;
  }
  qsort(rows, (size_t)n, sizeof *rows, by_cost);
  return n;
}

static void put_banks(StrBuf *out, const Report *r, const Row *row) {
  const Op *op = row->op;
  const SimAccess *a = row->access;
  page_put(out, "<figure class=\"banks\">\n<figcaption><p><b>%s</b> of <b>%s</b>",
           op_info[op->kind].name, a->buffer);
  if (op->at.line)
    sb_printf(out, ", <a href=\"#L%u-%u\">line %u</a>", op->at.file, op->at.line, op->at.line);
  if (row->n > 1) sb_printf(out, ", the most expensive of %d", row->n);
  sb_printf(out, ": %d bytes per lane, %d extra cycle%s at worst%s</p></figcaption>\n", a->bytes,
            a->cost, a->cost == 1 ? "" : "s",
            a->bytes > 16 ? " (its first 16 bytes are drawn)" : "");
  put_stacks(out, r->sim, a);
  sb_puts(out, "</figure>\n");
}

static void put_shared_accesses(StrBuf *out, const Report *r, const Row *rows, int n) {
  if (!n || !r->sim->machine->banks) return;
  sb_puts(out,
          "<h3>Banks</h3>\n<p>The most expensive execution of each access, in its busiest phase. A "
          "column is a bank, a box a four-byte word that it serves, with the first lane that "
          "requests it. A column of <i>n</i> boxes takes <i>n</i> cycles: one row is ideal.</p>\n");
  for (int i = 0; i < n && i < MOST_DRAWN; i++) put_banks(out, r, &rows[i]);
  if (n > MOST_DRAWN)
    sb_printf(out, "<p class=\"cap\">The %d most expensive of %d accesses are drawn.</p>\n",
              MOST_DRAWN, n);
}

static void put_global_row(StrBuf *out, const Row *row) {
  double share = row->needed < row->sectors ? (double)row->needed / (double)row->sectors : 1;
  sb_puts(out, "<tr><th scope=\"row\">");
  if (row->op->at.line)
    sb_printf(out, "<a href=\"#L%u-%u\">%u</a>", row->op->at.file, row->op->at.line,
              row->op->at.line);
  sb_printf(out, "</th><td class=\"word\">%s ", op_info[row->op->kind].name);
  page_text(out, row->access->buffer);
  if (row->n > 1) sb_printf(out, " × %d", row->n);
  sb_printf(out, "</td><td>%d</td><td>", row->access->bytes);
  page_number(out, row->sectors);
  sb_puts(out, "</td><td>");
  page_number(out, row->needed);
  sb_printf(out,
            "</td><td class=\"meter\"><i class=\"bar\"><i style=\"width:%.1f%%\"></i></i> "
            "%.0f%%</td></tr>\n",
            100 * share, 100 * share);
}

static void put_global_accesses(StrBuf *out, const Row *rows, int n) {
  if (!n) return;
  sb_puts(out, "<h3>Coalescing</h3>\n<div class=\"scroll\"><table class=\"lines\">\n"
               "<caption>accesses of global memory, the most wasteful first; lanes that read the "
               "same bytes need them more often than they are moved</caption>\n"
               "<thead><tr><th scope=\"col\">line</th><th scope=\"col\" class=\"code\">access</th>"
               "<th scope=\"col\">bytes per lane</th><th scope=\"col\">sectors moved</th>"
               "<th scope=\"col\">needed</th><th scope=\"col\">used</th></tr></thead>\n<tbody>\n");
  for (int i = 0; i < n && i < MOST_LISTED; i++) put_global_row(out, &rows[i]);
  sb_puts(out, "</tbody></table></div>\n");
  if (n > MOST_LISTED)
    sb_printf(out, "<p class=\"cap\">%d of %d accesses are listed.</p>\n", MOST_LISTED, n);
}

void section_memory(StrBuf *out, const Report *r) {
  Arena *a = arena_new();
  Row *rows = ARENA_ARRAY(a, Row, r->k->nops + 1);
  page_section(out, "memory", "Memory");
  if (r->sim->nshared) put_shared(out, r);
  else sb_puts(out, "<p>The kernel allocates no shared memory.</p>\n");
  int n = gather(r, true, rows);
  put_shared_accesses(out, r, rows, n);
  n = gather(r, false, rows);
  put_global_accesses(out, rows, n);
  page_section_end(out);
  arena_free(a);
}
