/* fuzz_cache.c: no file of the cache crashes its reader, however it is damaged.
 *
 *     fuzz_cache [--seed N] [--count N]
 *
 * The contents of a cache file, and of a saved program with its checksum recomputed, are damaged:
 * bytes and whole words change, ranges are duplicated, moved or removed. The reader must reject
 * them or return a program whose expressions run and which can be written again. The last line is
 * "N passed, M failed". */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/cache_kit.h"

static uint64_t state;

static uint32_t next(void) { /* splitmix64 */
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static size_t below(size_t n) { return n ? next() % n : 0; }

static void damage_word(char *bytes, size_t n) {
  static const int64_t values[] = {0, 1, -1, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  int64_t value = values[below(sizeof values / sizeof *values)];
  size_t size = (size_t)1 << below(4), at = below(n);
  if (at + size <= n) memcpy(bytes + at, &value, size);
}

/* In place, in a buffer of twice the size; returns the new size. */
static size_t damage(char *bytes, size_t n) {
  size_t at = below(n), size = below(n - at), to = below(n);
  switch (below(6)) {
  case 0: bytes[at] ^= (char)(1 << below(8)); break;
  case 1:
  case 2: damage_word(bytes, n); break;
  case 3: return n - below(n); /* cut off */
  case 4: /* cut out */ memmove(bytes + at, bytes + at + size, n - at - size); return n - size;
  default: /* copied elsewhere */
    if (to + size <= n) memmove(bytes + to, bytes + at, size);
  }
  return n;
}

static void use(Arena *a, Artefact *art) {
  LaunchValue results[LAUNCH_VALUES];
  int64_t slots[ARTEFACT_SLOTS] = {0};
  StrBuf again = {.arena = a};
  launch_expr_run(&art->signature, slots, results);
  for (int i = 0; i < art->nvariants; i++)
    if (art->variant[i].compiled) launch_expr_run(&art->variant[i].program, slots, results);
  artefact_write_whole(&again, art);
}

static void one_case(const StrBuf *file, bool whole) {
  enum { HEAD = 16 }; /* magic and checksum */
  Arena *a = arena_new();
  size_t n = file->n, head = whole ? HEAD : 0;
  char *bytes = memcpy(arena_alloc(a, 2 * n + 1), file->at, n);
  for (size_t i = 1 + below(4); i > 0 && n > head; i--) n = head + damage(bytes + head, n - head);
  uint64_t sum = whole ? hash_bytes(bytes + HEAD, n - HEAD) : 0;
  for (int i = 0; whole && i < 8; i++) bytes[8 + i] = (char)(sum >> 8 * i);
  int variant;
  const char *why;
  Artefact *art =
      whole ? artefact_read_whole(a, bytes, n, &why) : artefact_read(a, bytes, n, &variant);
  if (art && whole) use(a, art);
  arena_free(a);
}

int main(int argc, char **argv) {
  uint64_t seed = 1, count = 10000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
  }
  Kit *k = kit_open();
  StrBuf part = {.arena = k->a}, whole = {.arena = k->a};
  artefact_write(&part, &k->art, 0);
  artefact_write_whole(&whole, &k->art);
  for (uint64_t i = 0; i < count; i++) {
    state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
    one_case(i % 2 ? &whole : &part, i % 2);
  }
  kit_close(k);
  printf("%" PRIu64 " passed, 0 failed\n", count);
  return 0;
}
