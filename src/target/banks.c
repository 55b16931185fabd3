/* banks.c: the bank model of banks.h, and a search over memory layouts that simply counts. */
#include "target/banks.h"

/* ---- one access ------------------------------------------------------------------------------ */

static int phase_lanes(const TargetInfo *t, int bytes) {
  return bytes >= 16 ? t->phase16 : bytes == 8 ? t->phase8 : t->phase4;
}

/* The i-th lane of a phase. */
static int phase_lane(const TargetInfo *t, int phase, int i, int width, int bytes, bool is_read) {
  if (!is_read || bytes < 16 || !t->pair16) return phase * width + i;
  /* Half a phase of neighbours, and their partners: count the first halves only. */
  int half = width / 2, group = 0;
  for (int found = -1;; group++) {
    if (((group * half) ^ t->pair16) < group * half) continue;
    if (++found == phase) break;
  }
  int lane = group * half + i % half;
  return i < half ? lane : lane ^ t->pair16;
}

enum { MOST_WORDS = 512, MOST_BANKS = 64 }; /* words of a phase */

typedef struct Phase {
  int words[MOST_WORDS];
  int n;
} Phase;

static void add_word(Phase *p, int word) {
  for (int i = 0; i < p->n; i++)
    if (p->words[i] == word) return;
  WV_ASSERT(p->n < MOST_WORDS);
  p->words[p->n++] = word;
}

static int busiest(const Phase *p, int banks) {
  int words[MOST_BANKS] = {0}, most = 0;
  WV_ASSERT(banks <= MOST_BANKS);
  for (int i = 0; i < p->n; i++)
    if (++words[p->words[i] % banks] > most) most = words[p->words[i] % banks];
  return most;
}

BankCost bank_cost(const TargetInfo *t, const int *address, int lanes, int bytes, bool is_read) {
  BankCost cost = {0};
  if (!t->banks) return cost;
  int width = phase_lanes(t, bytes), words = bytes > BANK_BYTES ? bytes / BANK_BYTES : 1;
  for (int phase = 0; phase * width < lanes; phase++) {
    Phase p = {.n = 0};
    for (int i = 0; i < width; i++) {
      int lane = phase_lane(t, phase, i, width, bytes, is_read);
      if (lane >= lanes || address[lane] < 0) continue;
      for (int w = 0; w < words; w++) add_word(&p, address[lane] / BANK_BYTES + w);
    }
    int cycles = busiest(&p, t->banks);
    cost.cycles += cycles;
    cost.conflicts += cycles > 1 ? cycles - 1 : 0;
  }
  return cost;
}

void bank_phases(const TargetInfo *t, int lanes, int bytes, bool is_read, int phase[BANK_LANES]) {
  int width = phase_lanes(t, bytes);
  for (int p = 0; p * width < lanes; p++)
    for (int i = 0; i < width; i++) {
      int lane = phase_lane(t, p, i, width, bytes, is_read);
      if (lane < lanes) phase[lane] = p;
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

int bank_layout_element(const void *cx, int step, int lane) {
  const BankLayout *b = cx;
  int coord[LAYOUT_DIMS];
  layout_at(b->layout, step * b->vector, lane, 0, coord);
  return layout_number(b->layout, coord);
}

/* The byte address of an access to elements that must stay neighbours; -2: they do not. `whole`
 * elements of aligned runs are known to stay together. */
static int access_address(const MemLayout *m, int element, int bytes, int whole) {
  int offset = mem_offset_of(m, element), n = bytes * 8 / m->bits;
  bool known = n <= whole && element % n == 0;
  for (int i = 1; !known && i < n; i++)
    if (mem_offset_of(m, element + i) != offset + i) return -2;
  int bit = offset * m->bits;
  return bit % (bytes * 8) ? -2 : bit / 8;
}

static bool add_pattern(const TargetInfo *t, const MemLayout *m, const BankPattern *p,
                        BankChoice *total) {
  int address[BANK_LANES], n = p->bytes * 8 / m->bits, last = m->dims - 1;
  WV_ASSERT(p->lanes <= BANK_LANES && n >= 1);
  int whole = m->dims && m->extent[last] % n == 0 ? mem_vector(m, last) : 1;
  for (int step = 0; step < p->steps; step++) {
    for (int lane = 0; lane < p->lanes; lane++) {
      int element = p->element(p->cx, step, lane);
      address[lane] = element < 0 ? -1 : access_address(m, element, p->bytes, whole);
      if (address[lane] == -2) return false;
    }
    BankCost c = bank_cost(t, address, p->lanes, p->bytes, p->is_read);
    total->cycles += (int64_t)c.cycles * p->weight;
    total->conflicts += (int64_t)c.conflicts * p->weight;
  }
  return true;
}

BankChoice bank_judge(const TargetInfo *t, const BankTile *tile, const MemLayout *m) {
  BankChoice c = {.layout = *m, .bytes = mem_bytes(m), .found = true};
  for (int i = 0; c.found && i < tile->npatterns; i++)
    c.found = add_pattern(t, m, &tile->patterns[i], &c);
  return c;
}

/* ---- the search ------------------------------------------------------------------------------ */

typedef struct Chooser {
  const TargetInfo *t;
  const BankTile *tile;
  BankChoice best;
} Chooser;

static bool is_free(const Chooser *s) { return s->best.found && s->best.conflicts == 0; }

static void consider(Chooser *s, const MemLayout *m) {
  if (mem_bytes(m) > s->tile->budget || is_free(s)) return;
  BankChoice c = bank_judge(s->t, s->tile, m);
  if (!c.found) return;
  bool better = !s->best.found || c.cycles < s->best.cycles ||
                (c.cycles == s->best.cycles && c.bytes < s->best.bytes);
  if (better) s->best = c;
}

/* Only flips within one row of banks matter: units of less than a row, from every higher bit. */
static void consider_swizzles(Chooser *s, const MemLayout *rows) {
  int size = mem_size(rows), bank_row = s->t->banks * BANK_BYTES * 8 / rows->bits;
  for (int unit = 1; unit * 2 <= bank_row; unit *= 2)
    for (int n = 1; unit << n <= bank_row; n++)
      for (int shift = n; (int64_t)unit << (shift + n) <= size; shift++) {
        MemLayout m = mem_swizzled(rows, unit, n, shift);
        consider(s, &m);
      }
}

static void consider_padding(Chooser *s) {
  const BankTile *tile = s->tile;
  for (int bytes = BANK_BYTES; bytes < s->t->banks * BANK_BYTES; bytes *= 2) {
    MemLayout padded = mem_rows(tile->dims, tile->extent, tile->bits, bytes * 8 / tile->bits);
    consider(s, &padded);
  }
}

BankChoice bank_choose(const TargetInfo *t, const BankTile *tile) {
  Chooser s = {.t = t, .tile = tile};
  MemLayout rows = mem_rows(tile->dims, tile->extent, tile->bits, 0);
  consider(&s, &rows);
  consider_swizzles(&s, &rows);
  if (!tile->is_dense) consider_padding(&s);
  return s.best;
}
