/* chain.c: finds chained matrix multiplications by enumeration.
 *
 * For each operand register, search for a result register that holds the right row in every thread;
 * the K it holds then fixes pi at the K positions of that operand register. pi must remain a
 * bijection. Registers are tried in order, those that need no permutation first, so that the
 * identity is found where it works. */
#include "target/chain.h"

typedef struct Matcher {
  const Layout *have, *want; /* both over (row, k) */
  int have_registers, want_registers;
  const int *has, *wants; /* their tables: elements by wave, lane, register; -1: beyond the tile */
  int *pi, *inverse;      /* -1: not fixed yet */
  int *log, logged;       /* positions of pi set since the last success */
  int block;              /* mma_k_block of the second */
} Matcher;

static bool bind(Matcher *m, int position, int element) {
  if (m->pi[position] == element) return true;
  if (m->pi[position] >= 0 || m->inverse[element] >= 0) return false;
  m->pi[position] = element;
  m->inverse[element] = position;
  m->log[m->logged++] = position;
  return true;
}

static void undo(Matcher *m) {
  while (m->logged) {
    int position = m->log[--m->logged];
    m->inverse[m->pi[position]] = -1;
    m->pi[position] = -1;
  }
}

/* Tries register `from` of the result as register `to` of the operand, in one thread. Both tiles have the same
 * size, so that elements have the same numbers. */
static bool fits_thread(Matcher *m, int to, int from, int thread, bool plain) {
  int k = m->want->extent[1];
  int want = m->wants[thread * m->want_registers + to];
  int have = m->has[thread * m->have_registers + from];
  if (want < 0) return true; /* over-covered: any value will do */
  if (have < 0 || want / k != have / k || (plain && want != have)) return false;
  return bind(m, want % k, have % k);
}

static bool fits(Matcher *m, int to, int from, bool plain) {
  int threads = layout_size(m->want, LAYOUT_LANE) * layout_size(m->want, LAYOUT_WAVE);
  m->logged = 0;
  for (int t = 0; t < threads; t++)
    if (!fits_thread(m, to, from, t, plain)) {
      undo(m);
      return false;
    }
  return true;
}

static int find_register(Matcher *m, int to) {
  for (int plain = 1; plain >= 0; plain--)
    for (int from = 0; from < m->have_registers; from++)
      if (fits(m, to, from, plain)) return from;
  return -1;
}

/* Scaled instructions: the elements of a scale block stay together. */
static bool keeps_blocks(const Matcher *m, int k) {
  for (int i = 0; i < k; i++)
    if (m->pi[i] / m->block != m->pi[i / m->block * m->block] / m->block) return false;
  return true;
}

/* The K positions that no thread uses take the remaining elements in order. */
static void complete(Matcher *m, int k) {
  for (int i = 0, next = 0; i < k; i++) {
    if (m->pi[i] >= 0) continue;
    while (m->inverse[next] >= 0) next++;
    bind(m, i, next);
  }
}

static bool match(Arena *a, Matcher *m, int k, Chain *out) {
  out->registers = layout_size(m->want, LAYOUT_REG);
  int *source = ARENA_ARRAY(a, int, out->registers);
  m->pi = ARENA_ARRAY(a, int, k);
  m->inverse = ARENA_ARRAY(a, int, k);
  m->log = ARENA_ARRAY(a, int, k);
  m->wants = layout_table(a, m->want), m->has = layout_table(a, m->have);
  m->want_registers = out->registers, m->have_registers = layout_size(m->have, LAYOUT_REG);
  for (int i = 0; i < k; i++) m->pi[i] = m->inverse[i] = -1;
  for (int r = 0; r < out->registers; r++)
    if ((source[r] = find_register(m, r)) < 0) return false;
  m->logged = 0;
  complete(m, k);
  if (m->block < k && !keeps_blocks(m, k)) return false;
  out->found = out->identity = true;
  out->pi = m->pi;
  out->source = source;
  for (int i = 0; i < k; i++) out->identity = out->identity && m->pi[i] == i;
  return true;
}

static Layout over_tile(const Layout *fragment, const ChainUse *use) {
  LayoutTiling t = layout_tiling(2, (int[]){use->rows, use->k}, NULL);
  return layout_tile(fragment, &t);
}

static Chain try_swaps(Arena *a, const ChainUse *use, bool swap_first, bool swap_second) {
  Chain out = {.swap_first = swap_first, .swap_second = swap_second};
  Layout c, operand;
  bool k_is_m = use->contracts_m != swap_first, is_b = use->as_rhs != swap_second;
  mma_fragment(use->first, MMA_C, &c);
  if (!mma_fragment(use->second, is_b ? MMA_B : MMA_A, &operand)) return out;
  c = layout_select(&c, k_is_m ? (int[]){1, 0} : (int[]){0, 1}, 2);
  c = over_tile(&c, use);
  operand = over_tile(&operand, use);
  if (layout_size(&c, LAYOUT_LANE) != layout_size(&operand, LAYOUT_LANE)) return out;
  if (layout_size(&c, LAYOUT_WAVE) != layout_size(&operand, LAYOUT_WAVE)) return out;
  Matcher m = {.have = &c, .want = &operand, .block = mma_k_block(use->second)};
  if (use->second->form != MMA_SCALED) m.block = use->k; /* copies along K may be interleaved too */
  match(a, &m, use->k, &out);
  return out;
}

Chain chain_find(Arena *a, const ChainUse *use) {
  Chain best = {0};
  for (int swaps = 0; swaps < 4; swaps++) {
    Chain c = try_swaps(a, use, swaps & 2, swaps & 1);
    if (c.found && c.identity) return c;
    if (c.found && !best.found) best = c;
  }
  return best;
}
