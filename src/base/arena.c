/* arena.c: a chain of chunks, filled front to back. */
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/landing.h"

#if defined(__SANITIZE_ADDRESS__)
#define WV_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WV_ASAN 1
#endif
#endif

#ifdef WV_ASAN
#include <sanitizer/asan_interface.h>
enum { REDZONE = 16 };
static void poison(void *p, size_t n) { ASAN_POISON_MEMORY_REGION(p, n); }
static void unpoison(void *p, size_t n) { ASAN_UNPOISON_MEMORY_REGION(p, n); }
#else
enum { REDZONE = 0 };
static void poison(void *p, size_t n) { (void)p, (void)n; }
static void unpoison(void *p, size_t n) { (void)p, (void)n; }
#endif

enum { ALIGN = 16, FIRST_CHUNK = 1 << 14, LARGEST_CHUNK = 1 << 22 };

typedef struct Chunk {
  struct Chunk *prev;
  size_t size, used;
  size_t stale; /* bytes that may not be zero: the rest of the chunk is */
  _Alignas(ALIGN) char data[];
} Chunk;

struct Arena {
  Chunk *last;
  Held held;
};

static size_t align_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static void *get_memory(size_t size, bool zeroed) {
  void *p = landing_fault(FAULT_MALLOC) ? NULL : zeroed ? calloc(1, size) : malloc(size);
  if (!p) landing_no_memory(size);
  return p;
}

static void release(void *arena) { arena_free(arena); }

Arena *arena_new(void) {
  Arena *a = get_memory(sizeof *a, false);
  *a = (Arena){0};
  landing_hold(&a->held, release, a);
  return a;
}

Arena *arena_owned(Arena *a) { return landing_let_go(&a->held), a; }

void arena_owner(Arena *a, void (*free_owner)(void *owner), void *owner) {
  if (a->held.release) a->held.release = free_owner, a->held.what = owner;
}

static void free_last(Arena *a) {
  Chunk *c = a->last;
  a->last = c->prev;
  unpoison(c->data, c->size);
  free(c);
}

void arena_free(Arena *a) {
  if (!a) return;
  landing_let_go(&a->held);
  while (a->last) free_last(a);
  free(a);
}

void arena_reset(Arena *a) { arena_rewind(a, (ArenaMark){0}); }

size_t arena_bytes(const Arena *a) {
  size_t total = 0;
  for (const Chunk *c = a->last; c; c = c->prev) total += c->used;
  return total;
}

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){a->last, a->last ? a->last->used : 0}; }

/* A rewind to the very beginning keeps the newest (largest) chunk for reuse. */
void arena_rewind(Arena *a, ArenaMark mark) {
  while (a->last && a->last != mark.chunk && (mark.chunk || a->last->prev)) {
    if (!mark.chunk) { /* keep the newest, drop the one before it */
      Chunk *older = a->last->prev;
      a->last->prev = older->prev;
      unpoison(older->data, older->size);
      free(older);
    } else {
      free_last(a);
    }
  }
  if (!a->last) return;
  Chunk *c = a->last;
  poison(c->data + mark.used, c->used - mark.used);
  c->used = mark.used;
}

/* A large chunk is not touched: the pages that the system gives are zero. */
static Chunk *add_chunk(Arena *a, size_t need) {
  size_t size = a->last ? a->last->size * 2 : FIRST_CHUNK;
  if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
  if (size < need) size = need;
  bool zeroed = size > LARGEST_CHUNK;
  Chunk *c = get_memory(sizeof *c + size, zeroed);
  *c = (Chunk){.prev = a->last, .size = size, .stale = zeroed ? 0 : size};
  poison(c->data, size);
  return a->last = c;
}

#ifdef WAVE_FAULTS
static bool alloc_fault(void) { return landing_fault(FAULT_ALLOC); }
#else
static bool alloc_fault(void) { return false; }
#endif

void *arena_alloc(Arena *a, size_t size) {
  size_t need = align_up(size) + REDZONE;
  if (need < size || alloc_fault()) landing_no_memory(size);
  Chunk *c = a->last;
  if (!c || c->size - c->used < need) c = add_chunk(a, need);
  void *p = c->data + c->used;
  size_t stale = c->stale > c->used ? c->stale - c->used : 0;
  c->used += need;
  if (c->stale < c->used) c->stale = c->used;
  unpoison(p, size);
  return memset(p, 0, stale < size ? stale : size);
}

void *arena_copy(Arena *a, const void *from, size_t size) {
  void *p = arena_alloc(a, size);
  return size ? memcpy(p, from, size) : p;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
  char *p = arena_alloc(a, n + 1);
  if (n) memcpy(p, s, n);
  return p;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
  char most[128]; /* texts that fit are formatted once */
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(most, sizeof most, fmt, ap);
  WV_ASSERT(n >= 0);
  char *p = arena_alloc(a, (size_t)n + 1);
  if ((size_t)n < sizeof most) memcpy(p, most, (size_t)n + 1);
  else vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *p = arena_vprintf(a, fmt, ap);
  va_end(ap);
  return p;
}
