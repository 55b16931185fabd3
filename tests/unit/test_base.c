/* test_base.c: arenas, vectors, maps, text, source locations and diagnostics. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/os.h"
#include "unit/harness.h"

TEST(arena_gives_zeroed_aligned_memory) {
  Arena *a = arena_new();
  for (size_t size = 1; size < 100000; size = size * 3 + 1) {
    char *p = arena_alloc(a, size);
    CHECK(((uintptr_t)p & 15) == 0);
    for (size_t i = 0; i < size; i++)
      if (p[i]) CHECK(!"zeroed");
    memset(p, 0xff, size);
  }
  arena_free(a);
}

TEST(arena_rewind_frees_what_came_later) {
  Arena *a = arena_new();
  char *kept = arena_strdup(a, "kept");
  ArenaMark mark = arena_mark(a);
  size_t before = arena_bytes(a);
  for (int i = 0; i < 100; i++) arena_alloc(a, 5000);
  CHECK(arena_bytes(a) > before);
  arena_rewind(a, mark);
  CHECK_INT((long long)arena_bytes(a), (long long)before);
  CHECK_STR(kept, "kept");
  char *again = arena_alloc(a, 64);
  for (int i = 0; i < 64; i++) CHECK(again[i] == 0);
  arena_reset(a);
  CHECK_INT((long long)arena_bytes(a), 0);
  arena_free(a);
  arena_free(NULL);
}

/* A large chunk is zero when it is new, and cleared when it is used again. */
TEST(arena_clears_large_memory_that_was_used) {
  Arena *a = arena_new();
  size_t n = 9 << 20;
  for (int round = 0; round < 3; round++) {
    char *part = arena_alloc(a, n / 2 - (size_t)round * 100), *whole = arena_alloc(a, n);
    int set = 0;
    for (size_t i = 0; i < n; i++) set += whole[i] != 0;
    for (size_t i = 0; i < n / 2 - 200; i++) set += part[i] != 0;
    CHECK_INT(set, 0);
    memset(part, 1, n / 2 - 200);
    memset(whole, 1, n);
    arena_reset(a);
  }
  arena_free(a);
}

TEST(vec_grows) {
  Arena *a = arena_new();
  Vec(int) v = {0};
  for (int i = 0; i < 1000; i++) vec_push(a, &v, i * i);
  CHECK_INT(v.n, 1000);
  for (int i = 0; i < 1000; i++) CHECK_INT(v.at[i], i * i);
  arena_free(a);
}

TEST(map_keeps_the_last_value) {
  Arena *a = arena_new();
  static int cells[5000];
  Map m = {0};
  CHECK(map_get(&m, 1) == NULL);
  for (uint64_t i = 1; i < 5000; i++) map_set(a, &m, i * 64, &cells[i]);
  map_set(a, &m, 64, &cells[0]);
  CHECK(map_get(&m, 64) == &cells[0]);
  for (uint64_t i = 2; i < 5000; i++) CHECK(map_get(&m, i * 64) == &cells[i]);
  CHECK(map_get(&m, 7) == NULL);
  CHECK_INT(m.n, 4999);
  arena_free(a);
}

TEST(intern_makes_equal_strings_one) {
  Arena *a = arena_new();
  Intern in = {.arena = a};
  char text[32];
  const char *first[500];
  for (int i = 0; i < 500; i++) {
    snprintf(text, sizeof text, "name%d", i);
    first[i] = intern(&in, text);
  }
  for (int i = 0; i < 500; i++) {
    snprintf(text, sizeof text, "name%d", i);
    CHECK(intern(&in, text) == first[i]);
    CHECK_STR(first[i], text);
  }
  CHECK(intern_n(&in, "name12345", 6) == first[12]);
  arena_free(a);
}

TEST(strbuf_writes_numbers_and_quotes) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  CHECK_STR(sb_text(&out), "");
  sb_int(&out, INT64_MIN);
  sb_putc(&out, ' ');
  sb_int(&out, 0);
  sb_printf(&out, " %s %d ", "x", 7);
  sb_quote(&out, "a\"b\\c\n");
  CHECK_STR(sb_text(&out), "-9223372036854775808 0 x 7 \"a\\\"b\\\\c\\n\"");
  arena_free(a);
}

typedef struct Fixture {
  Arena *arena;
  Intern names;
  Sources sources;
  Diags diags;
} Fixture;

static void fixture_init(Fixture *f) {
  *f = (Fixture){.arena = arena_new()};
  f->names.arena = f->arena;
  f->sources = (Sources){.arena = f->arena, .names = &f->names};
  f->diags = (Diags){.arena = arena_new(), .sources = &f->sources};
}

TEST(diagnostics_show_source_caret_notes_and_hint) {
  Fixture f;
  fixture_init(&f);
  uint32_t file = sources_file(&f.sources, "gemm.py", "BLOCK_M = 48\n\tacc = mma(a, b, acc)\n");
  Diag *d = diag_add(&f.diags, DIAG_E0203, (Span){file, 2, 8, 14}, "tile %d of `%s`", 48, "M");
  diag_note(&f.diags, d, (Span){file, 1, 1, 12}, "`%s` is tiled here", "M");
  diag_hint(&f.diags, d, "use a multiple of %d", 32);
  StrBuf out = {.arena = f.arena};
  diags_render(&f.diags, &out);
  CHECK_STR(sb_text(&out), "gemm.py:2:8: error[E0203]: tile 48 of `M`\n"
                           "    2 | \tacc = mma(a, b, acc)\n"
                           "      | \t      ^^^^^^^^^^^^^^\n"
                           "gemm.py:1:1: note: `M` is tiled here\n"
                           "    1 | BLOCK_M = 48\n"
                           "      | ^^^^^^^^^^^^\n"
                           "hint: use a multiple of 32\n");
  CHECK_INT(f.diags.errors, 1);
  Diag *copy = diag_copy(f.arena, d);
  diags_clear(&f.diags);
  CHECK_INT(f.diags.errors, 0);
  CHECK_INT((int)arena_bytes(f.diags.arena), 0);
  CHECK_STR(copy->text, "tile 48 of `M`");
  CHECK_STR(copy->hint, "use a multiple of 32");
  CHECK_STR(copy->notes->text, "`M` is tiled here");
  arena_free(f.diags.arena);
  arena_free(f.arena);
}

TEST(diagnostics_survive_unknown_places) {
  Fixture f;
  fixture_init(&f);
  uint32_t missing = sources_file(&f.sources, "no/such/file.py", NULL);
  CHECK_INT(missing, sources_file(&f.sources, "no/such/file.py", NULL));
  diag_add(&f.diags, DIAG_E0203, (Span){0}, "nowhere");
  diag_add(&f.diags, DIAG_E0203, (Span){missing, 3, 1, 1}, "unreadable");
  uint32_t text = sources_file(&f.sources, "<string>", "one line");
  diag_add(&f.diags, DIAG_E0203, (Span){text, 9, 1, 1}, "past the end");
  diag_add(&f.diags, DIAG_E0203, (Span){text, 1, 99, 5}, "past the line");
  StrBuf out = {.arena = f.arena};
  diags_render(&f.diags, &out);
  CHECK_STR(sb_text(&out), "error[E0203]: nowhere\n"
                           "no/such/file.py:3:1: error[E0203]: unreadable\n"
                           "<string>:9:1: error[E0203]: past the end\n"
                           "<string>:1:99: error[E0203]: past the line\n"
                           "    1 | one line\n");
  arena_free(f.diags.arena);
  arena_free(f.arena);
}

TEST(every_code_has_a_title_and_an_explanation) {
  for (int i = 0; i < DIAG_COUNT; i++) {
    CHECK(diag_info[i].title && *diag_info[i].title);
    CHECK(diag_info[i].explanation && strlen(diag_info[i].explanation) > 10);
    CHECK_INT(diag_find(diag_info[i].code), i);
  }
  CHECK_INT(diag_find("e0203"), DIAG_E0203);
  CHECK_INT(diag_find("E9999"), DIAG_COUNT);
  CHECK_INT(diag_find(""), DIAG_COUNT);
}

TEST(nearest_finds_slips_only) {
  static const char *const words[] = {"read", "write", "broadcast", "mma"};
  CHECK_STR(diag_nearest("reed", words, 4), "read");
  CHECK_STR(diag_nearest("brodcast", words, 4), "broadcast");
  CHECK_STR(diag_nearest("MMA", words, 4), "mma");
  CHECK(diag_nearest("convolution", words, 4) == NULL);
  CHECK(diag_nearest("", words, 0) == NULL);
}

TEST(files_that_cannot_be_read_give_null) {
  Arena *a = arena_new();
  size_t len;
  CHECK(os_read_file(a, "/no/such/file", &len) == NULL);
  CHECK(os_read_file(a, "/", &len) == NULL);
  arena_free(a);
}

TESTS_MAIN(RUN(arena_gives_zeroed_aligned_memory) RUN(arena_rewind_frees_what_came_later)
               RUN(arena_clears_large_memory_that_was_used) RUN(vec_grows)
                   RUN(map_keeps_the_last_value) RUN(intern_makes_equal_strings_one)
                       RUN(strbuf_writes_numbers_and_quotes)
                           RUN(diagnostics_show_source_caret_notes_and_hint)
                               RUN(diagnostics_survive_unknown_places)
                                   RUN(every_code_has_a_title_and_an_explanation)
                                       RUN(nearest_finds_slips_only)
                                           RUN(files_that_cannot_be_read_give_null))
