/* subst.c: walking and rebuilding expressions: substitution, hashing, free symbols. */
#include <string.h>

#include "sym/node.h"

const Sym *node_map(SymCtx *cx, const Sym *s, NodeFn *fn, void *data) {
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *r = NULL;
  if (s->kind == SYM_add) {
    const Sym **terms = ARENA_ARRAY(cx->scratch, const Sym *, s->n + 1);
    for (int i = 0; i < s->n; i++)
      terms[i] = sym_scale(cx, sym_as_number(cx, fn(data, s->term[i].base)), s->term[i].coeff);
    terms[s->n] = sym_num(cx, s->k);
    r = sym_sum(cx, terms, s->n + 1);
  } else if (s->kind == SYM_mul || s->kind == SYM_pow) {
    Product p = {.coeff = s->kind == SYM_mul ? s->k : RAT_ONE};
    bool ok = true;
    for (int i = 0; i < s->n && ok; i++)
      ok = product_gather(cx, &p, fn(data, s->factor[i].base), s->factor[i].exp);
    r = ok ? product_make(cx, &p) : NULL;
  } else if (is_cmp(s)) {
    r = cmp_with(cx, cmp_kind(s), fn(data, s->base));
  } else if (sym_nargs(s)) {
    const Sym **args = ARENA_ARRAY(cx->scratch, const Sym *, s->n);
    for (int i = 0; i < s->n; i++) args[i] = fn(data, s->arg[i]);
    r = sym_build(cx, (SymKind)s->kind, args, s->n);
  } else {
    r = s;
  }
  arena_rewind(cx->scratch, mark);
  return r;
}

/* ---- other contexts */

/* The same node over copied operands. Nothing is canonicalised again: the order of operands is
 * structural (order.c), so a canonical node is one in every context. */
static const Sym *copy_node(SymCopies *c, const Sym *s) {
  Sym shape = *s;
  shape.symbols = 0; /* each context numbers its symbols */
  shape.base = sym_copy_with(c, s->base);
  ArenaMark mark = arena_mark(c->to->scratch);
  void *operands = arena_copy(c->to->scratch, s->arg, node_operand_bytes(s));
  shape.arg = operands;
  for (int i = 0; i < s->n; i++) {
    bool powers = s->kind == SYM_mul || s->kind == SYM_pow;
    const Sym **operand = s->kind == SYM_add ? &((Term *)operands)[i].base
                          : powers           ? &((Factor *)operands)[i].base
                                             : &((const Sym **)operands)[i];
    *operand = sym_copy_with(c, *operand);
  }
  const Sym *copy = node_intern(c->to, &shape);
  arena_rewind(c->to->scratch, mark);
  return copy;
}

const Sym *sym_copy_with(SymCopies *c, const Sym *s) {
  if (!s) return NULL;
  const Sym *copy = map_get(&c->done, map_key(s));
  if (copy) return copy;
  if (s->kind == SYM_symbol) copy = sym_symbol(c->to, s->name, (s->flags & SYM_NONNEG) != 0);
  else if (is_num(s)) copy = sym_num(c->to, s->k);
  else copy = copy_node(c, s);
  map_set(c->arena, &c->done, map_key(s), (void *)(uintptr_t)copy);
  return copy;
}

const Sym *sym_copy(SymCtx *to, const Sym *s) {
  SymCopies c = {.to = to, .arena = arena_new()};
  const Sym *copy = sym_copy_with(&c, s);
  arena_free(c.arena);
  return copy;
}

/* A large expression contributes only its size: walking it as a tree would visit shared nodes many
 * times. */
uint64_t sym_hash(const Sym *s) {
  enum { LARGE = 256 };
  uint64_t h = hash_mix(hash_mix(s->kind, (uint64_t)s->k.num), (uint64_t)s->k.den);
  if (s->kind == SYM_symbol) return hash_mix(h, hash_bytes(s->name, strlen(s->name)));
  if (s->size > LARGE) return hash_mix(h, s->size);
  if (is_cmp(s)) return hash_mix(h, sym_hash(s->base));
  for (int i = 0; i < s->n; i++) {
    h = hash_mix(h, sym_hash(node_operand(s, i)));
    if (s->kind == SYM_add) h = hash_mix(h, (uint64_t)s->term[i].coeff.num);
    if (s->kind == SYM_mul || s->kind == SYM_pow) h = hash_mix(h, (uint64_t)s->factor[i].exp);
  }
  return h;
}

/* ---- substitution */

typedef struct Subst {
  SymCtx *cx;
  const SymBinding *bindings;
  int n;
  uint64_t symbols;
  Map done;
  Arena *memo; /* arena of `done`: scratch is rewound meanwhile. NULL: s is small, no map */
} Subst;

static const Sym *subst(void *data, const Sym *s) {
  Subst *x = data;
  if (!(s->symbols & x->symbols)) return s;
  if (s->kind == SYM_symbol) {
    for (int i = 0; i < x->n; i++)
      if (x->bindings[i].from == s) return x->bindings[i].to;
    return s;
  }
  const Sym *r = x->memo ? map_get(&x->done, map_key(s)) : NULL;
  if (r) return r;
  r = node_map(x->cx, s, subst, x);
  if (r && x->memo) map_set(x->memo, &x->done, map_key(s), (void *)(uintptr_t)r);
  return r;
}

const Sym *sym_subst(SymCtx *cx, const Sym *s, const SymBinding *bindings, int n) {
  enum { SMALL = 64 };
  if (!s) return NULL;
  Subst x = {.cx = cx, .bindings = bindings, .n = n};
  for (int i = 0; i < n; i++) x.symbols |= bindings[i].from->symbols;
  if (!(s->symbols & x.symbols)) return s;
  if (s->size > SMALL) x.memo = arena_new();
  s = subst(&x, s);
  if (x.memo) arena_free(x.memo);
  return s;
}

/* ---- chained bindings */

static int binding_of(const SymBinding *b, int n, const Sym *symbol) {
  for (int i = 0; i < n; i++)
    if (b[i].from == symbol) return i;
  return -1;
}

typedef struct Resolver {
  SymCtx *cx;
  SymBinding *b;
  int n;
  unsigned char *state; /* 0: to do, 1: on the path, 2: done */
  int *path, depth;
} Resolver;

static bool fail_cycle(Resolver *r, int first) {
  StrBuf text = {.arena = r->cx->scratch};
  int at = 0;
  while (r->path[at] != first) at++;
  for (; at < r->depth; at++) {
    sb_puts(&text, r->b[r->path[at]].from->name);
    sb_puts(&text, " -> ");
  }
  sym_fail(r->cx, "values depend on each other in a cycle: %s%s", sb_text(&text),
           r->b[first].from->name);
  return false;
}

static bool resolve(Resolver *r, int i) {
  if (r->state[i] == 2) return true;
  if (r->state[i] == 1) return fail_cycle(r, i);
  r->state[i] = 1;
  r->path[r->depth++] = i;
  if (!r->b[i].to) return false;
  FreeSymbols symbols = sym_symbols(r->cx->scratch, r->b[i].to);
  for (int j = 0; j < symbols.n; j++) {
    int other = binding_of(r->b, r->n, symbols.at[j]);
    if (other >= 0 && !resolve(r, other)) return false;
  }
  r->b[i].to = sym_subst(r->cx, r->b[i].to, r->b, r->n);
  r->depth--;
  r->state[i] = 2;
  return r->b[i].to != NULL;
}

bool sym_resolve_bindings(SymCtx *cx, SymBinding *bindings, int n) {
  ArenaMark mark = arena_mark(cx->scratch);
  Resolver r = {.cx = cx, .b = bindings, .n = n};
  r.state = ARENA_ARRAY(cx->scratch, unsigned char, n);
  r.path = ARENA_ARRAY(cx->scratch, int, n);
  bool ok = true;
  for (int i = 0; i < n && ok; i++) ok = resolve(&r, i);
  arena_rewind(cx->scratch, mark);
  return ok;
}

/* ---- free symbols */

typedef struct Walk {
  Arena *arena;
  Map seen;
  const Sym **out;
  int n, cap;
} Walk;

static void walk(Walk *w, const Sym *s) {
  if (!s->symbols || map_get(&w->seen, map_key(s))) return;
  map_set(w->arena, &w->seen, map_key(s), w);
  if (s->kind == SYM_symbol) {
    if (w->n < w->cap) w->out[w->n] = s;
    w->n++;
    return;
  }
  for (int i = 0; i < s->n; i++) walk(w, node_operand(s, i));
}

enum { FEW_NODES = 256, FEW_SYMBOLS = 16 };

/* The symbols of a small expression, collected without a map: most have one to five. */
typedef struct Few {
  const Sym *at[FEW_SYMBOLS];
  int n; /* FEW_SYMBOLS + 1: too many */
} Few;

static void walk_few(Few *f, const Sym *s) {
  if (!s->symbols || f->n > FEW_SYMBOLS) return;
  if (s->kind != SYM_symbol) {
    for (int i = 0; i < s->n; i++) walk_few(f, node_operand(s, i));
    return;
  }
  for (int i = 0; i < f->n; i++)
    if (f->at[i] == s) return;
  if (f->n < FEW_SYMBOLS) f->at[f->n] = s;
  f->n++;
}

int sym_free_symbols(const Sym *s, const Sym **out, int cap) {
  Few few = {.n = 0};
  if (!s) return 0;
  if (s->size <= FEW_NODES) walk_few(&few, s);
  if (s->size <= FEW_NODES && few.n <= FEW_SYMBOLS) {
    for (int i = 0; i < few.n && i < cap; i++) out[i] = few.at[i];
    return few.n;
  }
  Walk w = {.arena = arena_new(), .out = out, .cap = cap};
  walk(&w, s);
  arena_free(w.arena);
  return w.n;
}

FreeSymbols sym_symbols(Arena *a, const Sym *s) {
  FreeSymbols list = {.n = sym_free_symbols(s, NULL, 0)};
  list.at = ARENA_ARRAY(a, const Sym *, list.n);
  sym_free_symbols(s, list.at, list.n);
  return list;
}

bool sym_contains(const Sym *s, const Sym *symbol) {
  if (s == symbol) return true;
  if (!(s->symbols & symbol->symbols) || s->kind == SYM_symbol) return false;
  if (s->size > FEW_NODES) { /* shared nodes would be visited many times */
    Walk w = {.arena = arena_new()};
    walk(&w, s);
    bool found = map_get(&w.seen, map_key(symbol)) != NULL;
    arena_free(w.arena);
    return found;
  }
  for (int i = 0; i < s->n; i++)
    if (sym_contains(node_operand(s, i), symbol)) return true;
  return false;
}
