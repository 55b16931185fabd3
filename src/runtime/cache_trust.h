/* cache_trust.h: which files of the cache may be executed.
 *
 * A cached kernel is machine code that this process runs, so only a file that this user wrote, in a
 * folder that nobody else can write to, is trusted. Every check looks at an open descriptor: a path
 * could name something else a moment later. */
#ifndef WV_CACHE_TRUST_H
#define WV_CACHE_TRUST_H

#include "base/arena.h"

/* Each returns -1 where nothing is open: `why` is then the reason not to trust it, or NULL if there
 * is no such folder or file. */
int trust_folder(const char *dir, const char **why);
int trust_file(int folder, const char *name, const char **why);

/* Creates the folder and its parents, for this user alone. */
bool trust_make_folder(Arena *a, const char *dir);

/* Replaces a file: other processes see the old one or the new one, never a part of it. Two writers
 * write the same, so it does not matter which of them is last. False: errno says why. */
bool trust_replace(Arena *a, int folder, const char *name, const char *bytes, size_t n);

#endif
