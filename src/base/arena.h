/* arena.h: memory that is freed all at once.
 *
 * There are three lifetimes: the context (interned symbols, types, names), a kernel, and scratch
 * for one pass. Memory is zeroed and aligned to 16 bytes. Running out of memory ends the current
 * call of wave.h (landing.h) and frees the arenas that the call made. Under AddressSanitizer memory
 * that has not been handed out is poisoned, with a gap between objects. */
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
/* Marks the arena as part of something that outlives the call; its owner frees it. */
Arena *arena_owned(Arena *a);
/* If the call fails, the arena is freed by freeing the owner, which lives in it. */
void arena_owner(Arena *a, void (*free_owner)(void *owner), void *owner);
void arena_reset(Arena *a);
size_t arena_bytes(const Arena *a); /* handed out since the last reset */

/* Everything allocated after the mark is released by the rewind. */
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
