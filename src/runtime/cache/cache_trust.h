/* cache_trust.h: which files of the cache may be executed.
 *
 * A cached kernel is machine code that this process runs, so a file is trusted only if this user
 * wrote it, in a folder that no other user can write to. Every check uses an open descriptor: a
 * path could name something else a moment later. */
#ifndef WV_CACHE_TRUST_H
#define WV_CACHE_TRUST_H

#include "base/arena.h"

/* Each returns -1 if nothing was opened: `why` is then the reason not to trust it, or NULL if there
 * is no such folder or file. */
int trust_folder(const char *dir, const char **why);
int trust_file(int folder, const char *name, const char **why);

/* Creates the folder and its parents, for this user only. */
bool trust_make_folder(Arena *a, const char *dir);

/* Replaces a file atomically: other processes see the old one or the new one, never a part of it.
 * Two writers write the same content, so it does not matter which is last. False: see errno. */
bool trust_replace(Arena *a, int folder, const char *name, const char *bytes, size_t n);

#endif
