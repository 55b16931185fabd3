/* cpu_shares.c: see cpu_shares.h. */
#include "runtime/cpu/cpu_shares.h"

enum { UNITS = 64 }; /* of a thread, at most */

typedef unsigned long long Word;

static CpuShare *share_of(const CpuShares *s, int t) {
  return (CpuShare *)(void *)(s->first + (size_t)t * s->stride);
}

static Word word_of(Word first, Word last) { return first << 32 | last; }
static Word first_of(Word w) { return w >> 32; }
static Word last_of(Word w) { return w & UINT32_MAX; }

void cpu_shares_divide(CpuShares *s, int64_t count) {
  int64_t most = (int64_t)UNITS * s->threads;
  s->count = count;
  s->unit = count > most ? (count - 1) / most + 1 : 1;
  Word units = (Word)((count - 1) / s->unit + 1), threads = (Word)s->threads;
  for (Word t = 0; t < threads; t++)
    atomic_store_explicit(share_of(s, (int)t),
                          word_of(units * t / threads, units * (t + 1) / threads),
                          memory_order_relaxed);
}

/* Half of a share, rounded up: its front, or its end. 0: it is empty. A word never has the same
 * value twice in a launch, because no unit is taken twice. */
static Word take_half(CpuShare *share, bool front) {
  Word w = atomic_load_explicit(share, memory_order_relaxed);
  while (first_of(w) < last_of(w)) {
    Word half = first_of(w) + (last_of(w) - first_of(w) + front) / 2;
    Word head = word_of(first_of(w), half), tail = word_of(half, last_of(w));
    if (atomic_compare_exchange_weak_explicit(share, &w, front ? tail : head, memory_order_relaxed,
                                              memory_order_relaxed))
      return front ? head : tail;
  }
  return 0;
}

/* What is taken from another thread becomes this thread's share, from which others may take. */
static bool take_from_others(const CpuShares *s, int t) {
  for (int i = 1; i < s->threads; i++) {
    Word w = take_half(share_of(s, (t + i) % s->threads), false);
    if (!w) continue;
    atomic_store_explicit(share_of(s, t), w, memory_order_relaxed);
    return true;
  }
  return false;
}

bool cpu_shares_take(const CpuShares *s, int t, int64_t *first, int64_t *last) {
  Word w;
  do w = take_half(share_of(s, t), true);
  while (!w && take_from_others(s, t));
  if (!w) return false;
  *first = (int64_t)first_of(w) * s->unit;
  *last = (int64_t)last_of(w) * s->unit;
  if (*last > s->count) *last = s->count;
  return true;
}
