/* arena.h: memory that is freed all at once.
 *
 * Three lifetimes exist: the context (interned symbols, types, names), a kernel, and scratch for
 * one pass. Everything handed out is zeroed and aligned to 16 bytes. Out of memory ends the call of
 * wave.h that is under way (landing.h), and frees the arenas that it made. Under AddressSanitizer
 * what was not handed out is poisoned, with a gap between objects. */
#ifndef WV_ARENA_H
#define WV_ARENA_H

#include <stdarg.h>

#include "base/base.h"

typedef struct Arena Arena;
typedef struct ArenaMark {
  void *chunk;
  size_t used;
} ArenaMark;

Arena *arena_new(void);
void arena_free(Arena *a); /* NULL is fine */
/* The arena is part of something that outlives the call, whose owner frees it. */
Arena *arena_owned(Arena *a);
/* If the call fails, the arena is freed by freeing what lives in it. */
void arena_owner(Arena *a, void (*free_owner)(void *owner), void *owner);
void arena_reset(Arena *a);
size_t arena_bytes(const Arena *a); /* handed out since the last reset */

/* Everything allocated after the mark disappears at the rewind. */
ArenaMark arena_mark(const Arena *a);
void arena_rewind(Arena *a, ArenaMark mark);

void *arena_alloc(Arena *a, size_t size);
void *arena_copy(Arena *a, const void *from, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) WV_PRINTF(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) WV_PRINTF(2, 0);

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

#endif
