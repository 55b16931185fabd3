/* map.h: hash map from pointers (or any 64-bit key but 0) to pointers, and interned strings. */
#ifndef WV_MAP_H
#define WV_MAP_H

#include "base/arena.h"

typedef struct MapSlot {
  uint64_t key; /* 0: empty */
  void *value;
} MapSlot;

/* Zero is the empty map. Grows in the arena given to map_set; nothing is ever removed. */
typedef struct Map {
  MapSlot *slots;
  uint32_t n, cap;
} Map;

static inline uint64_t hash_mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

/* Where the key is, or would be. */
static inline MapSlot *map_slot(MapSlot *slots, uint32_t cap, uint64_t key) {
  uint32_t i = (uint32_t)hash_mix(0, key) & (cap - 1);
  while (slots[i].key && slots[i].key != key) i = (i + 1) & (cap - 1);
  return &slots[i];
}

/* NULL: absent. */
static inline void *map_get(const Map *m, uint64_t key) {
  return m->cap ? map_slot(m->slots, m->cap, key)->value : NULL;
}

void map_set(Arena *a, Map *m, uint64_t key, void *value);

static inline uint64_t map_key(const void *p) { return (uint64_t)(uintptr_t)p; }

uint64_t hash_bytes(const void *p, size_t n);

/* Maps equal strings to the same pointer. */
typedef struct Intern {
  Arena *arena;
  const char **slots;
  uint32_t n, cap;
} Intern;

const char *intern(Intern *in, const char *s);
const char *intern_n(Intern *in, const char *s, size_t n);

#endif
