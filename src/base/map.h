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

void *map_get(const Map *m, uint64_t key); /* NULL: absent */
void map_set(Arena *a, Map *m, uint64_t key, void *value);

static inline uint64_t map_key(const void *p) { return (uint64_t)(uintptr_t)p; }

uint64_t hash_bytes(const void *p, size_t n);
uint64_t hash_mix(uint64_t h, uint64_t x);

/* Strings that are equal become the same pointer. */
typedef struct Intern {
  Arena *arena;
  const char **slots;
  uint32_t n, cap;
} Intern;

const char *intern(Intern *in, const char *s);
const char *intern_n(Intern *in, const char *s, size_t n);

#endif
