/* sym_kit.h: expressions and facts for one test. */
#ifndef WV_SYM_KIT_H
#define WV_SYM_KIT_H

#include "harness.h"
#include "sym/sym.h"

typedef struct Env {
  SymCtx *cx;
  Arena *arena;
  SymFacts *f;
} Env;

static inline Env env_new(void) {
  Env e = {.cx = sym_ctx_new(), .arena = arena_new()};
  e.f = sym_facts_new(e.arena, e.cx, NULL);
  return e;
}

static inline void env_free(Env *e) {
  sym_ctx_free(e->cx);
  arena_free(e->arena);
}

static inline const Sym *parse(Env *e, const char *text) {
  return sym_parse(e->cx, text, strlen(text), NULL);
}

#endif
