/* build_philox.c: Philox4x32-10, a counter-based generator: four words of random bits are a
 * function of four words of a counter and two of a key (Salmon, Moraes, Dror, Shaw: "Parallel
 * random numbers: as easy as 1, 2, 3", 2011). It uses integers only, so every target gives the same
 * bits. A round multiplies two words of the counter; the upper halves of the products are mixed
 * with the others and the key:
 *
 *     c0, c1, c2, c3   =>   hi(c2 B) ^ c1 ^ k0, lo(c2 B), hi(c0 A) ^ c3 ^ k1, lo(c0 A) */
#include "ir/build/build_state.h"

enum { ROUNDS = 10, WORDS = 4, KEYS = 2 };

static const int64_t factor[KEYS] = {0xD2511F53, 0xCD9E8D57}; /* A, B */
static const int64_t step[KEYS] = {0x9E3779B9, 0xBB67AE85};   /* of the key, from round to round */

typedef struct Philox {
  Builder *b;
  Span at;
  Value *counter[WORDS], *key[KEYS];
  bool failed;
} Philox;

static Value *put(Philox *p, OpKind kind, Value *a, Value *b, const Type *given) {
  Value *args[] = {a, b};
  Op *op = p->failed ? NULL : build_op(p->b, kind, p->at, args, b ? 2 : 1, NULL, 0, given);
  p->failed |= !op;
  return op ? &op->results[0] : a;
}

static Value *number(Philox *p, int64_t v, DType t) {
  Attr value = {.key = ATTR_value, .sym = sym_int(p->b->k->cx->sym, v)};
  Op *op = build_op(p->b, OP_scalar, p->at, NULL, 0, &value, 1, type_scalar(p->b->k->cx, t));
  p->failed |= !op;
  return op ? &op->results[0] : NULL;
}

static Value *upper_half(Philox *p, Value *a, int64_t by) {
  const Type *narrow = type_scalar(p->b->k->cx, DTYPE_u32),
             *wide = type_scalar(p->b->k->cx, DTYPE_u64);
  Value *product = put(p, OP_mul, put(p, OP_cast, a, NULL, wide), number(p, by, DTYPE_u64), NULL);
  return put(p, OP_cast, put(p, OP_shr, product, number(p, 32, DTYPE_u64), NULL), NULL, narrow);
}

static void turn(Philox *p) {
  Value **c = p->counter, *low[KEYS], *high[KEYS];
  for (int i = 0; i < KEYS; i++) {
    low[i] = put(p, OP_mul, c[2 * i], number(p, factor[i], DTYPE_u32), NULL);
    high[i] = upper_half(p, c[2 * i], factor[i]);
  }
  c[0] = put(p, OP_xor, put(p, OP_xor, high[1], c[1], NULL), p->key[0], NULL);
  c[2] = put(p, OP_xor, put(p, OP_xor, high[0], c[3], NULL), p->key[1], NULL);
  c[1] = low[1];
  c[3] = low[0];
}

static bool check_words(Builder *b, Value *const *args, int nargs, Span at) {
  if (nargs != WORDS + KEYS)
    return BUILD_FAIL(b, at, E0309,
                      "`philox` takes %d counter words and %d key words, not %d values", WORDS,
                      KEYS, nargs);
  for (int i = 0; i < nargs; i++) {
    if (!args[i]) return false;
    if (type_is_value(args[i]->type) && args[i]->type->dtype == DTYPE_u32) continue;
    Diag *d = BUILD_DIAG(b, at, E0311, "word %d of `philox` is %s, expected u32", i + 1,
                         type_text(b->k->cx->diags.arena, b->k->cx, args[i]->type));
    return diag_hint(&b->k->cx->diags, d, "use `cast` to u32");
  }
  return true;
}

bool build_philox(Builder *b, Span at, Value *const *args, int nargs, Value **out) {
  Philox p = {.b = b, .at = at};
  if (!check_words(b, args, nargs, at)) return false;
  for (int i = 0; i < WORDS; i++) p.counter[i] = args[i];
  for (int i = 0; i < KEYS; i++) p.key[i] = args[WORDS + i];
  for (int round = 0; round < ROUNDS && !p.failed; round++) {
    for (int i = 0; round && i < KEYS; i++)
      p.key[i] = put(&p, OP_add, p.key[i], number(&p, step[i], DTYPE_u32), NULL);
    turn(&p);
  }
  for (int i = 0; i < WORDS; i++) out[i] = p.counter[i];
  return !p.failed;
}
