/* expr.c: contexts, hash-consing and the accessors declared in sym.h. */
#include <stdio.h>
#include <string.h>

#include "sym/node.h"

SymCtx *sym_ctx_new(void) {
  Arena *a = arena_new();
  SymCtx *cx = ARENA_NEW(a, SymCtx);
  cx->arena = a;
  cx->scratch = arena_new();
  cx->cap = 1024;
  cx->table = ARENA_ARRAY(a, NodeSlot, cx->cap);
  cx->symbol_cap = 64;
  cx->symbols = ARENA_ARRAY(a, NodeSlot, cx->symbol_cap);
  cx->cache = ARENA_ARRAY(a, OpCacheEntry, OP_CACHE_SIZE);
  cx->texts = ARENA_ARRAY(a, ParsedText, PARSED_TEXTS);
  cx->no = sym_bool(cx, false);
  cx->yes = sym_bool(cx, true);
  cx->zero = sym_int(cx, 0);
  cx->one = sym_int(cx, 1);
  cx->no_facts = sym_facts_new(a, cx, NULL);
  for (int t = 0; t <= SYM_UNKNOWN; t++) cx->truths[t] = (SymTruth)t;
  return cx;
}

void sym_ctx_free(SymCtx *cx) {
  if (!cx) return;
  arena_free(cx->scratch);
  arena_free(cx->arena);
}

void sym_ctx_owned(SymCtx *cx) {
  arena_owned(cx->scratch);
  arena_owned(cx->arena);
}

const char *sym_error(const SymCtx *cx) { return cx->error; }

const char *sym_take_error(SymCtx *cx) {
  const char *text = arena_strdup(cx->arena, cx->error);
  cx->error[0] = 0;
  return text;
}

const Sym *sym_fail(SymCtx *cx, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(cx->error, sizeof cx->error, fmt, ap);
  va_end(ap);
  cx->error_kind = SYM_INVALID;
  return NULL;
}

SymError sym_error_kind(const SymCtx *cx) { return cx->error[0] ? cx->error_kind : SYM_FINE; }

const Sym *sym_zero_division(SymCtx *cx) {
  sym_fail(cx, "division by zero");
  cx->error_kind = SYM_ZERO_DIVISION;
  return NULL;
}

const Sym *sym_overflow(SymCtx *cx) {
  sym_fail(cx, "a constant in this expression does not fit in 64 bits");
  cx->error_kind = SYM_OVERFLOW;
  return NULL;
}

const Sym *sym_too_deep(SymCtx *cx) { return sym_fail(cx, "nested too deeply"); }

/* ---- hash-consing */

size_t node_operand_bytes(const Sym *s) {
  switch ((SymKind)s->kind) {
  case SYM_add: return (size_t)s->n * sizeof(Term);
  case SYM_mul:
  case SYM_pow: return (size_t)s->n * sizeof(Factor);
  case SYM_symbol:
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return 0;
  default: return (size_t)s->n * sizeof(const Sym *);
  }
}

const Sym *node_operand(const Sym *s, int i) {
  if (s->kind == SYM_add) return s->term[i].base;
  if (s->kind == SYM_mul || s->kind == SYM_pow) return s->factor[i].base;
  return s->arg[i];
}

/* Operands are interned, so their addresses identify them; there is no need to look inside. */
static uint32_t shape_hash(const Sym *s) {
  uint64_t h = hash_mix(s->kind | (uint64_t)s->flags << 8, (uint64_t)s->k.num);
  h += (uint64_t)s->k.den * 0x9e3779b97f4a7c15u;
  for (int i = 0; i < s->n; i++) {
    uint64_t x = map_key(node_operand(s, i)) >> 4;
    if (s->kind == SYM_add)
      x += (uint64_t)s->term[i].coeff.num << 24 ^ (uint64_t)s->term[i].coeff.den << 40;
    if (s->kind == SYM_mul || s->kind == SYM_pow) x += (uint64_t)s->factor[i].exp << 32;
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
  }
  return (uint32_t)(h ^ h >> 32);
}

static bool same_shape(const Sym *a, const Sym *b) {
  if (a->kind != b->kind || a->flags != b->flags || a->n != b->n || !rat_eq(a->k, b->k))
    return false;
  size_t bytes = node_operand_bytes(a);
  return !bytes || memcmp(a->arg, b->arg, bytes) == 0;
}

/* Doubles the table and reinserts the nodes. */
static NodeSlot *slots_grow(Arena *a, const NodeSlot *old, uint32_t *cap) {
  NodeSlot *slots = ARENA_ARRAY(a, NodeSlot, *cap * 2);
  for (uint32_t i = 0; i < *cap; i++) {
    if (!old[i].node) continue;
    uint32_t at = old[i].hash & (*cap * 2 - 1);
    while (slots[at].node) at = (at + 1) & (*cap * 2 - 1);
    slots[at] = old[i];
  }
  *cap *= 2;
  return slots;
}

/* Every operand, coefficient other than 1, exponent and constant counts as a node. */
static uint32_t tree_size(const Sym *s) {
  uint64_t size = 1;
  if (s->kind == SYM_symbol || is_num(s) || s->kind == SYM_bool) return 1;
  for (int i = 0; i < s->n; i++) {
    size += node_operand(s, i)->size;
    if (s->kind == SYM_add && !rat_is(s->term[i].coeff, 1)) size++;
    if ((s->kind == SYM_mul || s->kind == SYM_pow) && s->factor[i].exp != 1) size++;
  }
  if (s->kind == SYM_add) size += s->k.num != 0;
  if (s->kind == SYM_mul) size += !rat_is(s->k, 1);
  return size > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)size;
}

static uint16_t tree_depth(const Sym *s) {
  int deepest = 0;
  for (int i = 0; i < s->n; i++)
    if (node_operand(s, i)->depth > deepest) deepest = node_operand(s, i)->depth;
  return (uint16_t)(deepest < UINT16_MAX ? deepest + 1 : UINT16_MAX);
}

int sym_depth(const Sym *s) { return s->depth; }

static const Sym *node_new(SymCtx *cx, const Sym *shape) {
  size_t bytes = node_operand_bytes(shape);
  Sym *s = arena_alloc(cx->arena, sizeof *s + bytes);
  *s = *shape;
  if (bytes) s->arg = memcpy(s + 1, shape->arg, bytes);
  s->id = cx->nnodes++;
  s->size = tree_size(s);
  s->depth = tree_depth(s);
  if (s->kind == SYM_symbol) s->symbols = 1ull << (cx->nsymbols & 63);
  for (int i = 0; i < s->n; i++) s->symbols |= node_operand(s, i)->symbols;
  return s;
}

const Sym *node_intern(SymCtx *cx, const Sym *shape) {
  if (shape->n > SYM_MAX_OPERANDS)
    return sym_fail(cx, "an expression has more than %d terms", SYM_MAX_OPERANDS);
  uint32_t hash = shape_hash(shape), at = hash & (cx->cap - 1);
  for (; cx->table[at].node; at = (at + 1) & (cx->cap - 1))
    if (cx->table[at].hash == hash && same_shape(cx->table[at].node, shape))
      return cx->table[at].node;
  const Sym *s = node_new(cx, shape);
  cx->table[at] = (NodeSlot){hash, s};
  if (++cx->ntable * 2 > cx->cap) cx->table = slots_grow(cx->arena, cx->table, &cx->cap);
  return s;
}

const Sym *node_args(SymCtx *cx, SymKind kind, int flags, const Sym *const *args, int n) {
  Sym shape = {.kind = (uint8_t)kind, .flags = (uint8_t)flags, .n = n, .k = RAT_ZERO, .arg = args};
  return node_intern(cx, &shape);
}

/* ---- recent operations */

static OpCacheEntry *cache_entry(SymCtx *cx, SymKind op, const Sym *a, const Sym *b) {
  uint32_t h = a->id * 0x9e3779b1u ^ (b ? b->id * 0x85ebca6bu : 0) ^ (uint32_t)op * 0xc2b2ae35u;
  return &cx->cache[(h ^ h >> 15) & (OP_CACHE_SIZE - 1)];
}

const Sym *op_cached(SymCtx *cx, SymKind op, const Sym *a, const Sym *b) {
  const OpCacheEntry *e = cache_entry(cx, op, a, b);
  return e->a == a && e->b == b && e->op == op ? e->result : NULL;
}

const Sym *op_remember(SymCtx *cx, SymKind op, const Sym *a, const Sym *b, const Sym *result) {
  *cache_entry(cx, op, a, b) = (OpCacheEntry){a, b, result, op};
  return result;
}

/* ---- leaves */

const Sym *sym_num(SymCtx *cx, Rat v) {
  if (v.den == 1 && v.num >= 0 && v.num <= SMALL_INT && cx->small[v.num]) return cx->small[v.num];
  SymKind kind = rat_is_int(v) ? SYM_int : SYM_rational;
  Sym shape = {.kind = (uint8_t)kind, .flags = kind == SYM_int ? SYM_INTEGER : 0, .k = v};
  const Sym *s = node_intern(cx, &shape);
  if (v.den == 1 && v.num >= 0 && v.num <= SMALL_INT) cx->small[v.num] = s;
  return s;
}

const Sym *sym_int(SymCtx *cx, int64_t v) {
  return v == INT64_MIN ? sym_overflow(cx) : sym_num(cx, rat_int(v));
}

const Sym *sym_rational(SymCtx *cx, int64_t n, int64_t d) {
  Rat v;
  if (!d) return sym_zero_division(cx);
  return rat_make(n, d, &v) ? sym_num(cx, v) : sym_overflow(cx);
}

const Sym *sym_bool(SymCtx *cx, bool v) {
  Sym shape = {.kind = SYM_bool, .flags = SYM_BOOLEAN, .k = rat_int(v)};
  return node_intern(cx, &shape);
}

/* Symbols have their own table, so that the name is hashed only once. */
const Sym *sym_symbol_n(SymCtx *cx, const char *name, size_t n, bool nonneg) {
  uint32_t hash = nonneg;
  for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)name[i]) * 0x01000193u;
  hash ^= hash >> 15;
  uint32_t at = hash & (cx->symbol_cap - 1);
  int flags = SYM_INTEGER | (nonneg ? SYM_NONNEG : 0);
  for (; cx->symbols[at].node; at = (at + 1) & (cx->symbol_cap - 1)) {
    const Sym *s = cx->symbols[at].node;
    if (cx->symbols[at].hash == hash && s->flags == flags && !strncmp(s->name, name, n) &&
        !s->name[n])
      return s;
  }
  Sym shape = {.kind = SYM_symbol,
               .flags = (uint8_t)flags,
               .k = RAT_ZERO,
               .name = arena_strndup(cx->arena, name, n)};
  const Sym *s = node_new(cx, &shape);
  cx->symbols[at] = (NodeSlot){hash, s};
  if (++cx->nsymbols * 2 > cx->symbol_cap)
    cx->symbols = slots_grow(cx->arena, cx->symbols, &cx->symbol_cap);
  return s;
}

const Sym *sym_symbol(SymCtx *cx, const char *name, bool nonneg) {
  return name ? sym_symbol_n(cx, name, strlen(name), nonneg) : NULL;
}

/* Called often, so the number is formatted without the C library. */
const Sym *sym_numbered(SymCtx *cx, const char *prefix, int i, bool nonneg) {
  enum { PREFIX = 32, DIGITS = 10 };
  char name[PREFIX + DIGITS];
  size_t n = strlen(prefix), ndigits = 1;
  WV_ASSERT(i >= 0 && n <= PREFIX);
  memcpy(name, prefix, n);
  for (int more = i / 10; more; more /= 10) ndigits++;
  for (size_t at = n + ndigits; at > n; i /= 10) name[--at] = (char)('0' + i % 10);
  return sym_symbol_n(cx, name, n + ndigits, nonneg);
}

const Sym *sym_as_number(SymCtx *cx, const Sym *s) {
  return s && is_bool(s) ? sym_select(cx, s, cx->one, cx->zero) : s;
}

const Sym *sym_as_bool(SymCtx *cx, const Sym *s) {
  return s && !is_bool(s) ? sym_ne(cx, s, cx->zero) : s;
}

/* ---- accessors */

SymKind sym_kind(const Sym *s) { return (SymKind)s->kind; }
uint32_t sym_size(const Sym *s) { return s->size; }
bool sym_is_bool(const Sym *s) { return is_bool(s); }
bool sym_is_integer(const Sym *s) { return is_integer(s); }
const char *sym_name(const Sym *s) { return s->kind == SYM_symbol ? s->name : NULL; }

bool sym_same_name(const Sym *a, const Sym *b) {
  const char *one = sym_name(a), *other = sym_name(b);
  return one && other && strcmp(one, other) == 0;
}

bool sym_is_nonneg_symbol(const Sym *s) { return s->kind == SYM_symbol && (s->flags & SYM_NONNEG); }

bool sym_is_int(const Sym *s, int64_t *v) {
  if (!s || s->kind != SYM_int) return false;
  if (v) *v = s->k.num;
  return true;
}

bool sym_is_rational(const Sym *s, int64_t *n, int64_t *d) {
  if (!s || !is_num(s)) return false;
  if (n) *n = s->k.num;
  if (d) *d = s->k.den;
  return true;
}

bool sym_scaled_symbol(const Sym *s, const Sym **symbol, int64_t *n, int64_t *d) {
  Rat k = s->kind == SYM_mul ? s->k : RAT_ONE;
  if (s->kind == SYM_mul && s->base) s = s->base;
  if (s->kind != SYM_symbol) return false;
  *symbol = s, *n = k.num, *d = k.den;
  return true;
}

int sym_nargs(const Sym *s) {
  switch ((SymKind)s->kind) {
  case SYM_symbol:
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return 0;
  case SYM_pow: return 2;
  case SYM_add: return s->n + (s->k.num != 0);
  case SYM_mul: return s->n + !rat_is(s->k, 1);
  default: return s->n;
  }
}

const Sym *sym_arg(SymCtx *cx, const Sym *s, int i) {
  WV_ASSERT(i >= 0 && i < sym_nargs(s));
  switch ((SymKind)s->kind) {
  case SYM_pow: return i ? sym_int(cx, s->factor->exp) : s->factor->base;
  case SYM_add: return i < s->n ? term_sym(cx, s->term[i]) : sym_num(cx, s->k);
  case SYM_mul:
    if (!rat_is(s->k, 1) && i-- == 0) return sym_num(cx, s->k);
    return power_of(cx, s->factor[i]);
  default: return s->arg[i];
  }
}

typedef const Sym *Binary(SymCtx *, const Sym *, const Sym *);

static const Sym *fold(SymCtx *cx, Binary *op, const Sym *const *args, int n) {
  const Sym *r = n ? args[0] : NULL;
  for (int i = 1; i < n; i++) r = op(cx, r, args[i]);
  return r;
}

static const Sym *build_pow(SymCtx *cx, const Sym *const *args) {
  if (!args[0] || !args[1]) return NULL;
  if (args[1]->kind != SYM_int) return sym_fail(cx, "the exponent of a power must be an integer");
  return sym_pow(cx, args[0], args[1]->k.num);
}

const Sym *sym_build(SymCtx *cx, SymKind kind, const Sym *const *args, int n) {
  for (int i = 0; i < n; i++)
    if (!args[i]) return NULL;
  switch (kind) {
  case SYM_pow: return build_pow(cx, args);
  case SYM_add: return sym_sum(cx, args, n);
  case SYM_mul: return sym_product(cx, args, n);
  case SYM_floor: return sym_floor(cx, args[0]);
  case SYM_ceil: return sym_ceil(cx, args[0]);
  case SYM_mod: return sym_mod(cx, args[0], args[1]);
  case SYM_xor: return fold(cx, sym_xor, args, n);
  case SYM_min: return fold(cx, sym_min, args, n);
  case SYM_max: return fold(cx, sym_max, args, n);
  case SYM_select: return sym_select(cx, args[0], args[1], args[2]);
  case SYM_le: return sym_le(cx, args[0], args[1]);
  case SYM_lt: return sym_lt(cx, args[0], args[1]);
  case SYM_eq: return sym_eq(cx, args[0], args[1]);
  case SYM_ne: return sym_ne(cx, args[0], args[1]);
  case SYM_and: return fold(cx, sym_and, args, n);
  case SYM_or: return fold(cx, sym_or, args, n);
  case SYM_symbol:
  case SYM_int:
  case SYM_rational:
  case SYM_bool:
  case SYM_COUNT: break;
  }
  return sym_fail(cx, "an expression of this kind has no operands");
}

const Sym *sym_with_args(SymCtx *cx, const Sym *s, const Sym *const *args) {
  int n = sym_nargs(s);
  for (int i = 0; i < n; i++)
    if (args[i] != sym_arg(cx, s, i)) return sym_build(cx, sym_kind(s), args, n);
  return s;
}
