/* map.c: open addressing, linear probing, at most two thirds full. */
#include "base/map.h"

#include <string.h>

uint64_t hash_bytes(const void *p, size_t n) {
  const unsigned char *s = p;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 0x100000001b3u;
  return hash_mix(h, n);
}

static void map_grow(Arena *a, Map *m) {
  uint32_t cap = m->cap ? m->cap * 2 : 16;
  MapSlot *slots = ARENA_ARRAY(a, MapSlot, cap);
  for (uint32_t i = 0; i < m->cap; i++)
    if (m->slots[i].key) *map_slot(slots, cap, m->slots[i].key) = m->slots[i];
  m->slots = slots;
  m->cap = cap;
}

void map_set(Arena *a, Map *m, uint64_t key, void *value) {
  WV_ASSERT(key != 0);
  if (m->n * 3 >= m->cap * 2) map_grow(a, m);
  MapSlot *slot = map_slot(m->slots, m->cap, key);
  if (!slot->key) m->n++;
  *slot = (MapSlot){key, value};
}

static const char **intern_find(const char **slots, uint32_t cap, const char *s, size_t n) {
  uint32_t i = (uint32_t)hash_bytes(s, n) & (cap - 1);
  while (slots[i] && (strncmp(slots[i], s, n) != 0 || slots[i][n])) i = (i + 1) & (cap - 1);
  return &slots[i];
}

static void intern_grow(Intern *in) {
  uint32_t cap = in->cap ? in->cap * 2 : 64;
  const char **slots = ARENA_ARRAY(in->arena, const char *, cap);
  for (uint32_t i = 0; i < in->cap; i++)
    if (in->slots[i]) *intern_find(slots, cap, in->slots[i], strlen(in->slots[i])) = in->slots[i];
  in->slots = slots;
  in->cap = cap;
}

const char *intern_n(Intern *in, const char *s, size_t n) {
  if (in->n * 3 >= in->cap * 2) intern_grow(in);
  const char **slot = intern_find(in->slots, in->cap, s, n);
  if (!*slot) {
    *slot = arena_strndup(in->arena, s, n);
    in->n++;
  }
  return *slot;
}

const char *intern(Intern *in, const char *s) { return intern_n(in, s, strlen(s)); }
