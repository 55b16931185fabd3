/* attempt.c: records what a call is about to do, as a file that `wavec again` replays.
 *
 *     # wavec again: --passes=all --target=sm_90a
 *     # internal error at src/lower_threads/lower_coords.c:97: found[r] >= 0
 *     kernel @gemm(...
 *
 * The text is taken before anything changes the kernel. It is written only after an internal error,
 * when nothing of the context may be touched and there may be no memory. */
#define _XOPEN_SOURCE 700
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "driver/api/api.h"
#include "runtime/cache/cache.h"

enum { PATH_ROOM = 512, NAME_MOST = 64 };

typedef struct SavedCall {
  Attempt attempt;
  const char *folder; /* NULL: there is none to write to */
  const char *name;   /* of the kernel */
  const char *words;  /* for wavec */
  const char *text;
} SavedCall;

/* ---- saving, without allocating ---- */

/* It may be the cache's folder, which is used only if no other user can write to it
 * (cache_trust.h). */
static bool make_folder(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

static bool make_folders(char *path) {
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = '\0';
    bool ok = make_folder(path);
    *at = '/';
    if (!ok) return false;
  }
  return make_folder(path);
}

/* The same kernel and words give the same file. */
static bool path_of(const SavedCall *a, char *path) {
  char name[NAME_MOST + 1] = "kernel";
  for (size_t i = 0; i < NAME_MOST && a->name[i]; i++) {
    name[i] = isalnum((unsigned char)a->name[i]) ? a->name[i] : '_';
    name[i + 1] = '\0';
  }
  uint64_t h =
      hash_mix(hash_bytes(a->text, strlen(a->text)), hash_bytes(a->words, strlen(a->words)));
  int n = snprintf(path, PATH_ROOM, "%s/internal-errors", a->folder);
  if (n < 0 || n >= PATH_ROOM || !make_folders(path)) return false;
  int more = snprintf(path + n, PATH_ROOM - (size_t)n, "/%s-%08x.wave", name, (unsigned)h);
  return more > 0 && n + more < PATH_ROOM;
}

/* Appends a text; a comment has one line. */
static bool put(int file, const char *text, bool is_comment) {
  size_t n = is_comment ? strcspn(text, "\n") : strlen(text);
  while (n) {
    ssize_t done = write(file, text, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    text += done, n -= (size_t)done;
  }
  return true;
}

static bool save(const Attempt *attempt, const char *why, char path[FAILURE_TEXT]) {
  const SavedCall *a = (const SavedCall *)(const void *)attempt;
  if (!a->folder || !path_of(a, path)) return false;
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return false;
  bool ok = put(file, "# wavec again: ", true) && put(file, a->words, true) &&
            put(file, "\n# ", false) && put(file, why, true) && put(file, "\n", false) &&
            put(file, a->text, false);
  return close(file) == 0 && ok;
}

/* ---- taking ---- */

/* In an arena of the context: it is still there when the call has failed, and reused by the
 * next. */
static Arena *attempt_arena(wv_ctx *cx) {
  landing_attempt(NULL); /* which may be there already */
  if (cx->attempt) arena_reset(cx->attempt);
  else cx->attempt = arena_owned(arena_new());
  return cx->attempt;
}

static void take(Arena *a, const char *name, const char *text, const char *words) {
  SavedCall *c = ARENA_NEW(a, SavedCall);
  *c = (SavedCall){{save}, cache_settings(a, 0, NULL).dir, arena_strdup(a, name), words, text};
  landing_attempt(&c->attempt);
}

void api_attempt_text(wv_ctx *cx, const char *name, const char *text, const char *words) {
  Arena *a = attempt_arena(cx);
  take(a, name, arena_strdup(a, text), arena_strdup(a, words));
}

void api_attempt(wv_ctx *cx, const Kernel *k, const char *words) {
  Arena *a = attempt_arena(cx);
  StrBuf text = {.arena = a};
  words = arena_strdup(a, words);
  ir_print(&text, k);
  take(a, k->name, sb_text(&text), words);
}

void api_attempt_emit(wv_kernel *k, const char *what, const char *target, bool fast_math) {
  Arena *a = arena_new();
  api_attempt(k->cx, k->k,
              arena_printf(a, "--emit=%s --target=%s%s", what, target ? target : "",
                           fast_math ? " --fast-math" : ""));
  arena_free(a);
}

/* Sizes that only the arguments determine. */
static void put_sizes(StrBuf *out, const Kernel *k, int param, const EvalBuffer *b) {
  const Type *t = k->body->args[param]->type;
  for (int d = 0; d < t->rank && d < b->rank; d++)
    if (!t->layout && sym_kind(t->dims[d]) == SYM_symbol &&
        kernel_constraint(k, CONSTRAINT_dynamic, t->dims[d]))
      sb_printf(out, " --set=%s=%lld", sym_name(t->dims[d]), (long long)b->shape[d]);
}

const char *api_attempt_run(Arena *a, const Kernel *k, const char *words, const EvalArg *args,
                            int nargs) {
  StrBuf out = {.arena = a};
  sb_puts(&out, words);
  for (int i = 0; args && i < nargs && i < k->params.n; i++) {
    const Type *t = k->body->args[i]->type;
    if (args[i].buffer && t->kind == TYPE_mem) put_sizes(&out, k, i, args[i].buffer);
    else if (!args[i].buffer)
      sb_printf(&out, " --arg=%s=%.17g", k->params.at[i].name,
                dtype_info[t->dtype].class == DTYPE_FLOAT ? args[i].number
                                                          : (double)args[i].integer);
  }
  return sb_text(&out);
}
