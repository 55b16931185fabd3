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

/* The words of a phase, those of one bank in a list. */
typedef struct Phase {
  int words[MOST_WORDS], next[MOST_WORDS], n;
  int first[MOST_BANKS], count[MOST_BANKS]; /* first: 1 + its place in words; 0: none */
  int busiest;
} Phase;

static void add_word(Phase *p, int word, int banks) {
  int bank = word % banks;
  for (int i = p->first[bank]; i; i = p->next[i - 1])
    if (p->words[i - 1] == word) return;
  WV_ASSERT(p->n < MOST_WORDS);
  p->words[p->n] = word;
  p->next[p->n] = p->first[bank];
  p->first[bank] = ++p->n;
  if (++p->count[bank] > p->busiest) p->busiest = p->count[bank];
}

static void clear_phase(Phase *p, int banks) {
  p->n = p->busiest = 0;
  for (int i = 0; i < banks; i++) p->first[i] = p->count[i] = 0;
}

BankCost bank_cost(const TargetInfo *t, const int *address, int lanes, int bytes, bool is_read) {
  BankCost cost = {0};
  Phase p;
  if (!t->banks) return cost;
  WV_ASSERT(t->banks <= MOST_BANKS);
  int width = phase_lanes(t, bytes), words = bytes > BANK_BYTES ? bytes / BANK_BYTES : 1;
  for (int phase = 0; phase * width < lanes; phase++) {
    clear_phase(&p, t->banks);
    for (int i = 0; i < width; i++) {
      int lane = phase_lane(t, phase, i, width, bytes, is_read);
      if (lane >= lanes || address[lane] < 0) continue;
      for (int w = 0; w < words; w++) add_word(&p, address[lane] / BANK_BYTES + w, t->banks);
    }
    cost.cycles += p.busiest;
    cost.conflicts += p.busiest > 1 ? p.busiest - 1 : 0;
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
  int vector = m->dims ? mem_vector(m, last) : 1, whole = m->extent[last] % n == 0 ? vector : 1;
  if (n > vector) return false; /* some run of so many is torn apart, here or beside the tile */
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
  Arena *scratch;
  int **offset; /* by pattern: of each step and lane, before any swizzle; -1: nothing */
  BankChoice best;
} Chooser;

static bool is_free(const Chooser *s) { return s->best.found && s->best.conflicts == 0; }

/* Every access begins at a multiple of its elements, so that it is whole wherever a vector is.
 * NULL: some do not, or a row is too short for it. */
static int *plain_offsets(Chooser *s, const MemLayout *m, const BankPattern *p) {
  int n = p->bytes * 8 / m->bits, last = m->extent[m->dims - 1];
  int *offset = ARENA_ARRAY(s->scratch, int, p->steps * p->lanes);
  for (int step = 0; step < p->steps; step++)
    for (int lane = 0; lane < p->lanes; lane++) {
      int element = p->element(p->cx, step, lane);
      if (element >= 0 && element % last % n) return NULL;
      offset[step * p->lanes + lane] = element < 0 ? -1 : mem_offset_of(m, element);
    }
  return offset;
}

/* False: it is no better than the best so far. */
static bool add_swizzled(Chooser *s, const MemLayout *m, int i, BankChoice *total) {
  const BankPattern *p = &s->tile->patterns[i];
  int address[BANK_LANES], n = p->bytes * 8 / m->bits, size = p->bytes * 8;
  if (!s->offset[i]) return add_pattern(s->t, m, p, total);
  if (mem_vector(m, m->dims - 1) < n) return false;
  for (int step = 0; step < p->steps; step++) {
    const int *offset = s->offset[i] + step * p->lanes;
    for (int lane = 0; lane < p->lanes; lane++) {
      int bit = offset[lane] < 0 ? -1 : mem_swizzle(m->swizzle, offset[lane]) * m->bits;
      if (bit >= 0 && bit % size) return false;
      address[lane] = bit < 0 ? -1 : bit / 8;
    }
    BankCost c = bank_cost(s->t, address, p->lanes, p->bytes, p->is_read);
    total->cycles += (int64_t)c.cycles * p->weight;
    total->conflicts += (int64_t)c.conflicts * p->weight;
    if (s->best.found && total->cycles > s->best.cycles) return false;
  }
  return true;
}

static void consider(Chooser *s, const MemLayout *m) {
  BankChoice c = {.layout = *m, .bytes = mem_bytes(m), .found = true};
  if (c.bytes > s->tile->budget || is_free(s)) return;
  for (int i = 0; i < s->tile->npatterns; i++)
    if (!add_swizzled(s, m, i, &c)) return;
  bool better = !s->best.found || c.cycles < s->best.cycles ||
                (c.cycles == s->best.cycles && c.bytes < s->best.bytes);
  if (better) s->best = c;
}

/* `m`, which has no swizzle: its offsets are those of all swizzled forms, but for the flips. */
static void consider_plain(Chooser *s, const MemLayout *m) {
  for (int i = 0; i < s->tile->npatterns; i++)
    s->offset[i] = plain_offsets(s, m, &s->tile->patterns[i]);
  consider(s, m);
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
  for (int bytes = BANK_BYTES; bytes < s->t->banks * BANK_BYTES && !is_free(s); bytes *= 2) {
    MemLayout padded = mem_rows(tile->dims, tile->extent, tile->bits, bytes * 8 / tile->bits);
    consider_plain(s, &padded);
  }
}

BankChoice bank_choose(const TargetInfo *t, const BankTile *tile) {
  Chooser s = {.t = t, .tile = tile, .scratch = arena_new()};
  s.offset = ARENA_ARRAY(s.scratch, int *, tile->npatterns + 1);
  MemLayout rows = mem_rows(tile->dims, tile->extent, tile->bits, 0);
  consider_plain(&s, &rows);
  consider_swizzles(&s, &rows);
  if (!tile->is_dense) consider_padding(&s);
  arena_free(s.scratch);
  return s.best;
}
