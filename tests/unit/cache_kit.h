/* cache_kit.h: a folder of the cache and a small artefact, for tests. */
#ifndef WV_CACHE_KIT_H
#define WV_CACHE_KIT_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif

#include <dirent.h>
#include <unistd.h>

#include "runtime/cache/cache.h"
#include "unit/runtime_kit.h"

typedef struct Kit {
  Arena *a;
  Intern names;
  Sources sources;
  Diags diags;
  CacheSettings settings;
  Artefact art;
  HostStep steps[3];
  int results[2];
  ArtParam params[2];
  ArtSize sizes[1];
  ArtArg args[2];
  ArtRemark remarks[1];
  ArtNote notes[1];
} Kit;

static const char key[] = "a key";

static inline void make_artefact(Kit *k) {
  k->steps[0] = (HostStep){HOST_VAR, 0, 0, 0, 1};
  k->steps[1] = (HostStep){HOST_CONST, 0, 0, 0, 64};
  k->steps[2] = (HostStep){HOST_FLOORDIV, 0, 1, 0, 0};
  k->results[0] = 0, k->results[1] = 2;
  k->params[0] = (ArtParam){.name = "a", .type = "mem<M, f32>", .rank = 1, .accepts = 2};
  k->params[1] = (ArtParam){.name = "n", .type = "i32", .slot = 3, .rank = -1, .accepts = 4};
  k->sizes[0] = (ArtSize){0, 0, 1, 1, "M"};
  k->args[0] = (ArtArg){ART_POINTER, 0, 0, 8, 0};
  k->args[1] = (ArtArg){ART_VALUE, 0, 1, 4, 0};
  k->notes[0] = (ArtNote){"", 0, 0, 0, "a note"};
  k->remarks[0] = (ArtRemark){"R0601", "a hint", {"a.wave", 3, 5, 2, "a remark"}, k->notes, 1};
  LaunchExpr e = {k->steps, 3, k->results, 2};
  k->art = (Artefact){.name = "small", .target = "sm_80", .device_kind = 2, .nslots = 4};
  k->art.params = k->params, k->art.nparams = k->art.ngiven = 2;
  k->art.signature = e;
  k->art.sizes = k->sizes, k->art.nsizes = 1;
  k->art.nvariants = 1;
  k->art.variant[0] = (ArtVariant){.facts = "",
                                   .guard = -1,
                                   .compiled = true,
                                   .entry = "small",
                                   .code = "the code",
                                   .code_bytes = 8,
                                   .ir = "",
                                   .remarks = k->remarks,
                                   .nremarks = 1,
                                   .program = e,
                                   .grid = {1, 1, 0},
                                   .block = {32, 1, 1},
                                   .args = k->args,
                                   .nargs = 2};
}

static inline Kit *kit_open(void) {
  Arena *a = arena_new();
  Kit *k = ARENA_NEW(a, Kit);
  char *dir = arena_strdup(a, "/tmp/wave-cache-test-XXXXXX");
  k->a = a;
  k->names.arena = a;
  k->sources = (Sources){.arena = a, .names = &k->names};
  k->diags = (Diags){.arena = arena_new(), .sources = &k->sources};
  k->settings = (CacheSettings){.read = true, .write = true, .dir = mkdtemp(dir)};
  make_artefact(k);
  return k;
}

static inline void kit_close(Kit *k) {
  cache_clear(k->settings.dir);
  rmdir(k->settings.dir);
  arena_free(k->diags.arena);
  arena_free(k->a);
}

static inline Artefact *load(Kit *k) { return cache_load(k->a, &k->settings, key, &k->diags); }
static inline void store(Kit *k) { cache_store(&k->settings, key, &k->art, 0, &k->diags); }

/* Whether it is exactly what was stored. */
static inline bool is_right(const Artefact *found) {
  const ArtVariant *v = found ? &found->variant[0] : NULL;
  return found && strcmp(found->name, "small") == 0 && found->nparams == 2 && v->code_bytes == 8 &&
         memcmp(v->code, "the code", 9) == 0 && v->block[0] == 32 && v->nargs == 2 &&
         v->args[1].offset == 8 && v->program.nsteps == 3 && v->program.step[1].value == 64 &&
         v->nremarks == 1 && v->remarks[0].said.line == 3 && v->remarks[0].nnotes == 1 &&
         strcmp(v->remarks[0].notes[0].text, "a note") == 0;
}

static inline const char *path_of_file(Kit *k) {
  CacheEntry *e;
  return cache_list(k->a, k->settings.dir, &e) == 1 ? e[0].path : NULL;
}

static inline void write_file(const char *path, const char *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(bytes, 1, n, f);
  fclose(f);
}

/* Files of the cache, and partly written ones. */
static inline int files_in(const char *dir) {
  DIR *d = opendir(dir);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.' || e->d_name[1] == 'w';
  if (d) closedir(d);
  return n;
}

#endif
