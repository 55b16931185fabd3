/* Layouts: text, coordinates, cover, normal form, dims, tiles, blocks, memory layouts. */
#include "base/os.h"
#include "harness.h"
#include "layout/layout.h"
#include "layout/mem_layout.h"

static Layout parsed(Harness *harness, const char *text) {
  Layout l;
  const char *at = text, *wrong = layout_parse(&at, &l);
  if (wrong) printf("%s: %s at `%s`\n", text, wrong, at);
  CHECK(!wrong && !*at);
  return l;
}

static const char *printed(Arena *a, const Layout *l) {
  StrBuf out = {.arena = a};
  layout_print(&out, l);
  return sb_text(&out);
}

static bool covers(const Layout *l) {
  Arena *a = arena_new();
  LayoutCover c = layout_cover(a, l);
  arena_free(a);
  return c.exact;
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(text_round_trip) {
  const char *texts[] = {
      "[16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4",
      "[64, 256] reg d1/2:1 d0/2:8 d1/32:8 | lane d1/4:2 d0/8:1 | wave d0/4:16",
      "[12] reg d0/12:1 | lane ~/32",
      "[7, 3, 5] lane d2/5:1 d1/3:1 | wave d0/7:1",
      "[] lane ~/64 | wave ~/4",
      "[1]",
  };
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(texts); i++) {
    Layout l = parsed(harness, texts[i]);
    CHECK_STR(printed(a, &l), texts[i]);
  }
  Layout zero = parsed(harness, "[4] reg d0/4:1 | lane d0/2:0");
  CHECK_STR(printed(a, &zero), "[4] reg d0/4:1 | lane ~/2");
  arena_free(a);
}

TEST(text_mistakes) {
  const struct {
    const char *text, *why, *at;
  } bad[] = {
      {"16", "expected `[` and the extents of the tile", "16"},
      {"[16", "expected `,` or `]`", ""},
      {"[0]", "an extent must be at least 1", "]"},
      {"[1,1,1,1,1,1,1,1,1]", "a layout has at most 8 dims", "1]"},
      {"[16] reg d1/4:1", "the tile has no such dim", "/4:1"},
      {"[16] reg d0:4", "expected `/` and the radix", ":4"},
      {"[16] reg d0/4", "expected `:` and the stride", ""},
      {"[16] reg d0/0:1", "a radix must be at least 1", ":1"},
      {"[16] reg d0/4:1 | reg d0/4:4", "expected `lane` or `wave`", "reg d0/4:4"},
      {"[16] reg d0/99999999999:1", "the number is too large", "99:1"},
      {"[16] reg d0/65536:1 | lane d0/65536:1", "the layout is too large", ""},
  };
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    Layout l;
    const char *at = bad[i].text, *why = layout_parse(&at, &l);
    CHECK_STR(why, bad[i].why);
    CHECK_STR(at, bad[i].at);
  }
}

static unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Damaged text is rejected, or is a layout that prints and parses to itself. */
TEST(damaged_text) {
  const char *texts[] = {"[64, 256] reg d1/2:1 d0/2:8 | lane d1/4:2 ~/8 | wave d0/4:16",
                         "[64, 32] d1/32:1 d0/64:40 xor 0x18>>3 : 16 bits"};
  unsigned seed = 11;
  int accepted = 0;
  Arena *a = arena_new();
  for (int i = 0; i < 20000; i++, arena_reset(a)) {
    char text[128];
    strcpy(text, texts[i % 2]);
    for (unsigned k = next_random(&seed) % 3 + 1; k; k--) {
      size_t at = next_random(&seed) % strlen(text);
      text[at] = "0123456789abdx[]|/:~, >rglnwv"[next_random(&seed) % 29];
    }
    StrBuf once = {.arena = a}, twice = {.arena = a};
    Layout l;
    MemLayout m;
    const char *at = text;
    if (i % 2 ? mem_parse(&at, &m) : layout_parse(&at, &l)) continue;
    i % 2 ? mem_print(&once, &m) : layout_print(&once, &l);
    at = sb_text(&once);
    CHECK(!(i % 2 ? mem_parse(&at, &m) : layout_parse(&at, &l)) && !*at);
    i % 2 ? mem_print(&twice, &m) : layout_print(&twice, &l);
    CHECK_STR(sb_text(&twice), sb_text(&once));
    accepted++;
  }
  CHECK(accepted > 1000);
  arena_free(a);
}

/* ---- coordinates ----------------------------------------------------------------------------- */

TEST(coordinates_are_digits_times_strides) {
  Layout l = parsed(harness, "[32, 32] reg d0/4:1 d0/4:8 | lane d1/32:1 d0/2:4");
  CHECK_INT(layout_size(&l, LAYOUT_REG), 16);
  CHECK_INT(layout_size(&l, LAYOUT_LANE), 64);
  CHECK_INT(layout_size(&l, LAYOUT_WAVE), 1);
  for (int lane = 0; lane < 64; lane++)
    for (int j = 0; j < 16; j++) {
      int c[LAYOUT_DIMS];
      layout_at(&l, j, lane, 0, c);
      CHECK_INT(c[0], 8 * (j / 4) % 32 + 4 * (lane / 32) + j % 4);
      CHECK_INT(c[1], lane % 32);
    }
  CHECK(covers(&l));
}

TEST(table_owner_and_holder_agree) {
  Arena *a = arena_new();
  Layout l = parsed(harness, "[6, 10] reg d1/5:1 | lane d0/4:1 ~/2 | wave d1/2:5 d0/2:4");
  const int *table = layout_table(a, &l), *owner = layout_owners(a, &l);
  for (int p = 0; p < layout_positions(&l); p++) {
    LayoutHolder at = layout_holder_at(&l, p);
    int c[LAYOUT_DIMS];
    layout_at(&l, at.reg, at.lane, at.wave, c);
    CHECK_INT(table[p], layout_number(&l, c));
    if (table[p] >= 0) CHECK(owner[table[p]] <= p);
  }
  for (int e = 0; e < 60; e++) {
    int c[LAYOUT_DIMS] = {e / 10, e % 10};
    int holders = 0;
    for (int p = 0; p < layout_positions(&l); p++) holders += table[p] == layout_number(&l, c);
    CHECK_INT(holders, 2);
    CHECK_INT(table[owner[e] + 4 * 5], e); /* the copy is four lanes further */
  }
  arena_free(a);
}

TEST(cover_counts) {
  Arena *a = arena_new();
  Layout l = parsed(harness, "[6, 10] reg d1/5:1 | lane d0/4:1 ~/2 | wave d1/2:5 d0/2:4");
  LayoutCover c = layout_cover(a, &l); /* rows 6 and 7 are beyond the tile */
  CHECK(c.exact);
  CHECK_INT(c.over, 2 * 10 * 2);
  CHECK_INT(c.most, 2);
  l = parsed(harness, "[8] reg d0/2:1 | lane d0/3:2");
  c = layout_cover(a, &l);
  CHECK_INT(c.missing, 2);
  CHECK(!c.exact);
  l = parsed(harness, "[8] reg d0/4:1 | lane d0/4:2"); /* overlapping windows */
  c = layout_cover(a, &l);
  CHECK(!c.exact && c.missing == 0 && c.least == 1 && c.most == 2 && c.over == 2);
  arena_free(a);
}

/* Dim by dim, or by counting the holders of every element. */
TEST(coverage_is_a_question_of_each_dim) {
  Arena *a = arena_new();
  unsigned seed = 5;
  int covered = 0;
  for (int n = 0; n < 3000; n++) {
    int extent[2] = {(int)(next_random(&seed) % 9), (int)(next_random(&seed) % 5)};
    Layout l = layout_of(2, extent);
    for (unsigned i = next_random(&seed) % 8; i; i--) {
      LayoutPart part = (LayoutPart)(next_random(&seed) % LAYOUT_PARTS);
      int dim = (int)(next_random(&seed) % 2), radix = (int)(next_random(&seed) % 4) + 1;
      layout_push(&l, part, dim, radix, (int)(next_random(&seed) % 4));
    }
    bool all = layout_cover(a, &l).missing == 0;
    CHECK(layout_covers(a, &l) == all);
    covered += all && extent[0] && extent[1];
  }
  CHECK(covered > 100);
  arena_free(a);
}

/* ---- normal form ----------------------------------------------------------------------------- */

/* Layouts are equal exactly when their tables are. */
TEST(normal_form_is_equality_of_functions) {
  Arena *a = arena_new();
  unsigned seed = 1;
  int equal = 0;
  for (int round = 0; round < 4000; round++, arena_reset(a)) {
    Layout l[2];
    for (int i = 0; i < 2; i++) {
      l[i] = layout_of(2, (int[]){64, 64});
      for (int left = 12; left > 1;) {
        int radix = left % 2 == 0 && next_random(&seed) % 2 ? 2 : left % 3 == 0 ? 3 : left;
        int dim = (int)(next_random(&seed) % 2),
            stride = (int[]){0, 1, 2, 4}[next_random(&seed) % 4];
        layout_push(&l[i], LAYOUT_LANE, dim, radix, stride);
        left /= radix;
      }
    }
    const int *x = layout_table(a, &l[0]), *y = layout_table(a, &l[1]);
    bool same = memcmp(x, y, 12 * sizeof *x) == 0;
    CHECK(layout_equal(&l[0], &l[1]) == same);
    equal += same;
    Layout n = l[0];
    layout_normalise(&n);
    CHECK(memcmp(layout_table(a, &n), x, 12 * sizeof *x) == 0);
  }
  CHECK(equal > 20 && equal < 3000); /* the test has seen both answers */
  arena_free(a);
}

/* ---- dims ------------------------------------------------------------------------------------ */

TEST(reductions_and_broadcasts) {
  Arena *a = arena_new();
  Layout c =
      parsed(harness, "[64, 32] reg d1/2:1 d0/2:8 d1/4:8 | lane d1/4:2 d0/8:1 | wave d0/4:16");
  Layout row = layout_drop(&c, 1);
  CHECK_STR(printed(a, &row), "[64] reg d0/2:8 | lane ~/4 d0/8:1 | wave d0/4:16");
  CHECK(covers(&row) && layout_replication(&row) == 4);
  Layout t = layout_select(&c, (int[]){1, 0}, 2);
  CHECK_STR(printed(a, &t),
            "[32, 64] reg d0/2:1 d1/2:8 d0/4:8 | lane d0/4:2 d1/8:1 | wave d1/4:16");
  Layout none = layout_select(&c, NULL, 0);
  CHECK_STR(printed(a, &none), "[] lane ~/4 ~/8 | wave ~/4");
  CHECK(covers(&none));
  Layout back = layout_add(&row, 0, 5);
  CHECK_STR(printed(a, &back), "[5, 64] reg d1/2:8 d0/5:1 | lane ~/4 d1/8:1 | wave d1/4:16");
  CHECK(covers(&back));
  arena_free(a);
}

/* ---- vectors --------------------------------------------------------------------------------- */

TEST(runs_and_vectors) {
  Layout l = parsed(harness, "[4, 768] reg d1/12:1 d0/2:2 | lane d1/64:12 | wave d0/2:1");
  CHECK_INT(layout_run(&l, 1), 12);
  CHECK_INT(layout_run(&l, 0), 1);
  CHECK_INT(layout_vector(&l, 1, 16, 16), 4); /* 12 is three times four */
  CHECK_INT(layout_vector(&l, 1, 32, 8), 2);
  CHECK_INT(layout_vector(&l, 0, 32, 16), 1);
  l = parsed(harness, "[1, 64] reg d1/8:1 | lane d1/8:8");
  CHECK_INT(layout_vector(&l, 1, 16, 16), 8);
  CHECK_INT(layout_vector(&l, 1, 4, 16), 8);
  l = parsed(harness, "[1, 60] reg d1/8:1 | lane d1/8:8"); /* the last vector is half outside */
  CHECK_INT(layout_vector(&l, 1, 16, 16), 4);
  l = parsed(harness, "[32] reg d0/4:1 | lane d0/4:6"); /* lanes start at 0, 6, 12 */
  CHECK_INT(layout_vector(&l, 0, 32, 16), 2);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

TEST(fragments_tile_a_workgroup) {
  Arena *a = arena_new();
  Layout c = parsed(harness, "[16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4");
  LayoutTiling t = layout_tiling(2, (int[]){64, 64}, (int[]){32, 32});
  Layout l = layout_tile(&c, &t);
  CHECK_STR(printed(a, &l), "[64, 64] reg d0/4:1 d1/2:16 d0/2:16 | lane d1/16:1 d0/4:4 | "
                            "wave d1/2:32 d0/2:32");
  CHECK(covers(&l));
  t.waves[0] = 0, t.waves[1] = 1; /* waves count along d0 first */
  l = layout_tile(&c, &t);
  CHECK_STR(printed(a, &l), "[64, 64] reg d0/4:1 d1/2:16 d0/2:16 | lane d1/16:1 d0/4:4 | "
                            "wave d0/2:32 d1/2:32");
  t = layout_tiling(2, (int[]){48, 40}, NULL); /* one wave, not a multiple of 16 */
  l = layout_tile(&c, &t);
  LayoutCover cover = layout_cover(a, &l);
  CHECK(cover.exact);
  CHECK_INT(cover.over, 48 * 8);
  t = layout_tiling(2, (int[]){48, 16}, (int[]){24, 16}); /* the waves overlap */
  l = layout_tile(&c, &t);
  cover = layout_cover(a, &l);
  CHECK(!cover.exact && !cover.missing && cover.least == 1 && cover.most == 2);
  arena_free(a);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static Layout blocked(int rows, int columns, int bits, int lanes, int waves) {
  LayoutBlocking b = {2, {rows, columns}, {1, 0}, bits, lanes, waves, 16, 0};
  return layout_blocked(&b);
}

TEST(blocked_layouts_cover_any_extents) {
  const int extents[] = {1, 2, 3, 7, 16, 31, 48, 64, 80, 100, 128, 192, 768, 1536};
  const int lanes[] = {1, 8, 32, 64}, waves[] = {1, 3, 4, 8}, widths[] = {4, 8, 16, 32};
  for (size_t i = 0; i < WV_LEN(extents); i++)
    for (size_t j = 0; j < WV_LEN(extents); j++)
      for (size_t k = 0; k < 16; k++) {
        if (extents[i] * extents[j] > 40000) continue;
        Layout l = blocked(extents[i], extents[j], widths[k % 4], lanes[k / 4], waves[(i + j) % 4]);
        CHECK(covers(&l));
        CHECK_INT(layout_size(&l, LAYOUT_LANE), lanes[k / 4]);
        CHECK_INT(layout_size(&l, LAYOUT_WAVE), waves[(i + j) % 4]);
      }
}

TEST(blocked_layouts_are_what_one_would_write) {
  Arena *a = arena_new();
  Layout l = blocked(64, 64, 16, 32, 4);
  CHECK_STR(printed(a, &l), "[64, 64] reg d1/8:1 d0/4:4 | lane d1/8:8 d0/4:1 | wave d0/4:16");
  l = blocked(1, 1536, 16, 32, 4);
  CHECK_STR(printed(a, &l), "[1, 1536] reg d1/4:1 d1/3:128 | lane d1/32:4 | wave d1/4:384");
  l = blocked(16, 192, 16, 32, 4);
  CHECK_STR(printed(a, &l), "[16, 192] reg d1/8:1 d1/3:64 | lane d1/8:8 d0/4:1 | wave d0/4:4");
  l = blocked(8, 80, 16, 32, 1);
  CHECK_INT(layout_vector(&l, 1, 16, 16), 4);
  l = blocked(1, 1, 32, 32, 4);
  CHECK_STR(printed(a, &l), "[1, 1] lane ~/32 | wave ~/4");
  LayoutBlocking scalar = {.bits = 32, .lanes = 64, .waves = 2, .widest = 16};
  l = layout_blocked(&scalar);
  CHECK_STR(printed(a, &l), "[] lane ~/64 | wave ~/2");
  LayoutBlocking three = {3, {4, 32, 16}, {1, 2, 0}, 32, 64, 4, 16, 0}; /* d1 lies fastest */
  l = layout_blocked(&three);
  CHECK_INT(layout_vector(&l, 1, 32, 16), 4);
  CHECK(covers(&l));
  arena_free(a);
}

/* ---- memory layouts -------------------------------------------------------------------------- */

static const char *mem_printed(Arena *a, const MemLayout *m) {
  StrBuf out = {.arena = a};
  mem_print(&out, m);
  return sb_text(&out);
}

TEST(memory_layouts) {
  Arena *a = arena_new();
  MemLayout rows = mem_rows(2, (int[]){64, 64}, 16, 0),
            padded = mem_rows(2, (int[]){64, 60}, 16, 4);
  MemLayout boxes = mem_boxes(2, (int[]){8, 96}, 16, 64), ring = mem_ring(&padded, 3, 128);
  CHECK_STR(mem_printed(a, &rows), "[64, 64] d1/64:1 d0/64:64 : 16 bits");
  CHECK_STR(mem_printed(a, &padded), "[64, 60] d1/60:1 d0/64:64 : 16 bits");
  CHECK_STR(mem_printed(a, &boxes), "[8, 96] d1/64:1 d0/8:64 d1/2:512 : 16 bits");
  CHECK_STR(mem_printed(a, &ring), "[3, 64, 60] d2/60:1 d1/64:64 d0/3:4096 : 16 bits");
  const MemLayout *all[] = {&rows, &padded, &boxes, &ring};
  for (size_t i = 0; i < WV_LEN(all); i++) {
    MemLayout back;
    const char *text = mem_printed(a, all[i]), *at = text;
    CHECK(mem_is_valid(all[i]) && mem_is_injective(a, all[i]));
    CHECK(!mem_parse(&at, &back) && !*at);
    CHECK_STR(mem_printed(a, &back), text);
  }
  CHECK_INT(mem_offset(&boxes, (int[LAYOUT_DIMS]){3, 70}), 512 + 3 * 64 + 6);
  CHECK_INT(mem_offset_of(&boxes, 3 * 96 + 70), 512 + 3 * 64 + 6);
  CHECK_INT(mem_vector(&rows, 1), 64);
  CHECK_INT(mem_vector(&padded, 1), 4); /* 60 is fifteen times four */
  CHECK_INT(mem_vector(&rows, 0), 1);
  MemLayout meet;
  const char *text = "[4, 4] d1/4:1 d0/4:2 : 8 bits";
  CHECK(!mem_parse(&text, &meet) && !mem_is_injective(a, &meet));
  text = "[4, 4] d1/4:1 d0/2:4 : 8 bits";
  CHECK_STR(mem_parse(&text, &meet),
            "the digits do not cover all elements, or the xor is not invertible");
  text = "[4, 4] d1/4:1 d0/4:4 xor 0x3>>1 : 8 bits";
  CHECK(mem_parse(&text, &meet) != NULL);
  arena_free(a);
}

TEST(nvidia_swizzles) {
  Arena *a = arena_new();
  MemLayout m = mem_nvidia(2, (int[]){64, 64}, 16, 128);
  CHECK_STR(mem_printed(a, &m), "[64, 64] d1/64:1 d0/64:64 xor 0x38>>3 : 16 bits");
  const int spans[] = {32, 64, 128}, widths[] = {4, 8, 16, 32};
  for (size_t s = 0; s < WV_LEN(spans); s++)
    for (size_t w = 0; w < WV_LEN(widths); w++) {
      int bits = widths[w], span = spans[s], columns = span * 8 / bits;
      m = mem_nvidia(2, (int[]){32, 2 * columns}, bits, span);
      CHECK(mem_is_valid(&m) && mem_is_injective(a, &m));
      CHECK_INT(mem_vector(&m, 1), 128 / bits);
      for (int row = 0; row < 32; row++)
        for (int col = 0; col < columns; col++) {
          /* by bytes: 128: bits 4-6 ^= 7-9, 64: 4-5 ^= 7-8, 32: 4 ^= 7 */
          unsigned bit = (unsigned)(row * columns + col) * (unsigned)bits, byte = bit / 8;
          byte ^= byte >> 3 & (span == 128 ? 0x70u : span == 64 ? 0x30u : 0x10u);
          int c[LAYOUT_DIMS] = {row, col};
          CHECK_INT(mem_offset(&m, c) * bits, (int)(byte * 8 + bit % 8));
        }
    }
  arena_free(a);
}

/* ---- docs/layouts.md
 * ----------------------------------------------------------------------------- */

static void draw_cell(StrBuf *out, int column, const char *text) {
  sb_printf(out, "%s%6s", column ? " " : "", text);
}

/* Draws a two-dimensional tile as a grid: `lane.register` of the first holder of each element,
 * prefixed with `wave:` when there are several waves. */
static void layout_draw(StrBuf *out, const Layout *l) {
  WV_ASSERT(l->dims == 2);
  Arena *a = out->arena;
  const int *owner = layout_owners(a, l);
  for (int e = 0; e < l->extent[0] * l->extent[1]; e++) {
    LayoutHolder at = layout_holder_at(l, owner[e] < 0 ? 0 : owner[e]);
    const char *wave = l->part[LAYOUT_WAVE].n ? arena_printf(a, "%d:", at.wave) : "";
    const char *cell = owner[e] < 0 ? "-" : arena_printf(a, "%s%d.%d", wave, at.lane, at.reg);
    draw_cell(out, e % l->extent[1], cell);
    if ((e + 1) % l->extent[1] == 0) sb_putc(out, '\n');
  }
}

/* A two-dimensional tile as a grid of offsets. */
static void mem_draw(StrBuf *out, const MemLayout *m) {
  WV_ASSERT(m->dims == 2);
  for (int e = 0; e < m->extent[0] * m->extent[1]; e++) {
    draw_cell(out, e % m->extent[1], arena_printf(out->arena, "%d", mem_offset_of(m, e)));
    if ((e + 1) % m->extent[1] == 0) sb_putc(out, '\n');
  }
}

/* The text of a block drawn from its first line; NULL: that line is not a layout. */
static const char *drawn(Arena *a, const char *line, bool memory) {
  StrBuf out = {.arena = a};
  Layout l;
  MemLayout m;
  const char *at = line;
  if (memory ? mem_parse(&at, &m) : layout_parse(&at, &l)) return NULL;
  sb_printf(&out, "%s\n", line);
  if (memory) mem_draw(&out, &m);
  else layout_draw(&out, &l);
  return sb_text(&out);
}

static int check_pictures(Harness *harness, Arena *a, const char *text, const char *fence) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, fence)); n++) {
    p += strlen(fence);
    const char *end = strstr(p, "```");
    if (!end) break;
    const char *line = arena_strndup(a, p, strcspn(p, "\n"));
    CHECK_STR(drawn(a, line, strstr(fence, "memory")), arena_strndup(a, p, (size_t)(end - p)));
    p = end + 3;
  }
  return n;
}

TEST(pictures_of_the_documentation) {
  Arena *a = arena_new();
  const char *here = __FILE__, *unit = strstr(here, "tests/unit/");
  size_t len, root = unit ? (size_t)(unit - here) : 0;
  char *text = os_read_file(a, arena_printf(a, "%.*sdocs/layouts.md", (int)root, here), &len);
  if (text) {
    CHECK_INT(check_pictures(harness, a, text, "```layout\n"), 3);
    CHECK_INT(check_pictures(harness, a, text, "```memory\n"), 2);
  } else printf("docs/layouts.md was not found: its pictures are not checked\n");
  arena_free(a);
}

TESTS_MAIN(RUN(text_round_trip) RUN(text_mistakes) RUN(damaged_text)
               RUN(coordinates_are_digits_times_strides) RUN(table_owner_and_holder_agree)
                   RUN(cover_counts) RUN(coverage_is_a_question_of_each_dim)
                       RUN(normal_form_is_equality_of_functions) RUN(reductions_and_broadcasts)
                           RUN(runs_and_vectors) RUN(fragments_tile_a_workgroup)
                               RUN(blocked_layouts_cover_any_extents)
                                   RUN(blocked_layouts_are_what_one_would_write) RUN(memory_layouts)
                                       RUN(nvidia_swizzles) RUN(pictures_of_the_documentation))
