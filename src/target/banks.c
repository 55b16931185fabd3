/* banks.c: the bank model of banks.h, and a search over memory layouts that simply counts. */
#include "target/banks.h"

/* ---- one access ------------------------------------------------------------------------------ */

/* What serves an access: banks, and the lanes of a phase: neighbours, and those xor a pair. */
typedef struct Port {
  int banks, width, pair[2], npairs;
} Port;

static Port port_of(const TargetInfo *t, int bytes, bool is_read) {
  Port p = {.banks = t->banks};
  p.width = bytes >= 16 ? t->phase16 : bytes == 8 ? t->phase8 : t->phase4;
  bool is_wide = t->wide && is_read && bytes >= 8, is_paired = is_read && bytes >= 16;
  if (is_wide) p.banks *= 2, p.width *= 2;
  if (is_paired && t->pair16) p.pair[p.npairs++] = t->pair16;
  if (is_paired && is_wide) p.pair[p.npairs++] = t->wide;
  return p;
}

int bank_number(const TargetInfo *t, int bytes, bool is_read) {
  return port_of(t, bytes, is_read).banks;
}

/* The most banks that any access uses, in bytes. */
static int bank_row(const TargetInfo *t) { return bank_number(t, 16, true) * BANK_BYTES; }

/* The lane xor the pairs that the bits of `which` select. */
static int partner(const Port *p, int lane, int which) {
  for (int n = 0; n < p->npairs; n++)
    if (which >> n & 1) lane ^= p->pair[n];
  return lane;
}

/* A phase begins at a group of neighbours whose partners all come after it. */
static bool begins_phase(const Port *p, int lane) {
  for (int which = 1; which < 1 << p->npairs; which++)
    if (partner(p, lane, which) < lane) return false;
  return true;
}

/* The i-th lane of a phase. */
static int phase_lane(const Port *p, int phase, int i) {
  int neighbours = p->width >> p->npairs, first = 0;
  if (!p->npairs) return phase * p->width + i;
  for (int found = -1;; first += neighbours)
    if (begins_phase(p, first) && ++found == phase) break;
  return partner(p, first + i % neighbours, i / neighbours);
}

enum { MOST_WORDS = 512, MOST_BANKS = 64 }; /* words of a phase */

/* The words of a phase, those of one bank in a list. */
typedef struct Phase {
  int words[MOST_WORDS], next[MOST_WORDS], n;
  int first[MOST_BANKS], count[MOST_BANKS]; /* first: 1 + its index in words; 0: none */
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

/* Accesses aligned to their own size either coincide or are disjoint, so each counts as one word of
 * wider banks. */
static int word_bytes(const Port *p, const int *address, int lanes, int bytes) {
  if (bytes <= BANK_BYTES || p->banks * BANK_BYTES % bytes) return BANK_BYTES;
  for (int lane = 0; lane < lanes; lane++)
    if (address[lane] >= 0 && address[lane] % bytes) return BANK_BYTES;
  return bytes;
}

BankCost bank_cost(const TargetInfo *t, const int *address, int lanes, int bytes, bool is_read) {
  BankCost cost = {0};
  Phase p;
  Port port = port_of(t, bytes, is_read);
  if (!t->banks) return cost;
  WV_ASSERT(port.banks <= MOST_BANKS);
  int word = word_bytes(&port, address, lanes, bytes), banks = port.banks * BANK_BYTES / word;
  int words = bytes > word ? bytes / word : 1;
  for (int phase = 0; phase * port.width < lanes; phase++) {
    clear_phase(&p, banks);
    for (int i = 0; i < port.width; i++) {
      int lane = phase_lane(&port, phase, i);
      if (lane >= lanes || address[lane] < 0) continue;
      for (int w = 0; w < words; w++) add_word(&p, address[lane] / word + w, banks);
    }
    cost.cycles += p.busiest;
    cost.conflicts += p.busiest > 1 ? p.busiest - 1 : 0;
  }
  return cost;
}

void bank_phases(const TargetInfo *t, int lanes, int bytes, bool is_read, int phase[BANK_LANES]) {
  Port port = port_of(t, bytes, is_read);
  for (int p = 0; p * port.width < lanes; p++)
    for (int i = 0; i < port.width; i++) {
      int lane = phase_lane(&port, p, i);
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

/* The byte address of an access to elements that must stay adjacent; -2: they do not. Aligned runs
 * of `whole` elements are known to stay together. */
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
  if (n > vector) return false; /* some run of n elements is split, here or beyond the tile */
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

/* A pattern's accesses in a layout without swizzle. */
typedef struct Offsets {
  int *at;           /* for each step and lane, in elements; -1: no access. NULL: see
                      * plain_offsets */
  int *from;         /* by step: the distance of all lanes from their position at step 0, or -1 */
  unsigned varying;  /* bits in which the lanes of a step differ */
  int64_t conflicts; /* without swizzle */
} Offsets;

typedef struct Chooser {
  const TargetInfo *t;
  const BankTile *tile;
  Arena *scratch;
  Offsets *offset; /* by pattern */
  int *order;      /* of the patterns: the one with most conflicts in plain rows is judged first */
  BankChoice best;
} Chooser;

static bool is_free(const Chooser *s) { return s->best.found && s->best.conflicts == 0; }

static int distance_from_first(const int *first, const int *here, int lanes) {
  int by = here[0] - first[0];
  for (int lane = 0; lane < lanes; lane++) {
    if (first[lane] < 0 || here[lane] < 0) {
      if (first[lane] != here[lane]) return -1;
    } else if (here[lane] - first[lane] != by) {
      return -1;
    }
  }
  return by;
}

static unsigned bits_that_vary(const int *offset, int lanes) {
  int first = -1;
  unsigned bits = 0;
  for (int lane = 0; lane < lanes; lane++) {
    if (first < 0) first = offset[lane];
    if (offset[lane] >= 0) bits |= (unsigned)(offset[lane] ^ first);
  }
  return bits;
}

/* Every access begins at a multiple of its element count, so that it stays whole wherever a vector
 * does. No offsets: some accesses do not. */
static Offsets plain_offsets(Chooser *s, const MemLayout *m, const BankPattern *p) {
  int n = p->bytes * 8 / m->bits, last = m->extent[m->dims - 1], lanes = p->lanes;
  Offsets o = {.at = ARENA_ARRAY(s->scratch, int, p->steps *lanes),
               .from = ARENA_ARRAY(s->scratch, int, p->steps)};
  for (int step = 0; step < p->steps; step++) {
    int *here = o.at + step * lanes;
    for (int lane = 0; lane < lanes; lane++) {
      int element = p->element(p->cx, step, lane);
      if (element >= 0 && element % last % n) return (Offsets){0};
      here[lane] = element < 0 ? -1 : mem_offset_of(m, element);
    }
    o.varying |= bits_that_vary(here, lanes);
    o.from[step] = o.at[0] < 0 || here[0] < 0 ? -1 : distance_from_first(o.at, here, lanes);
  }
  return o;
}

/* Offsets that differ by a multiple of this fall in the same banks, if there are any, and are
 * swizzled alike. */
static int period_of(const Chooser *s, const MemLayout *m) {
  int64_t period = s->t->banks ? bank_row(s->t) * 8 / m->bits : 1;
  while (period <= (int64_t)m->swizzle.mask << m->swizzle.shift) period *= 2;
  return (int)period;
}

/* The addresses of the lanes at a step; false: one of them is misaligned. */
static bool addresses_at(const MemLayout *m, const int *offset, int lanes, int bits, int *out) {
  for (int lane = 0; lane < lanes; lane++) {
    int bit = offset[lane] < 0 ? -1 : mem_swizzle(m->swizzle, offset[lane]) * m->bits;
    if (bit >= 0 && bit % bits) return false;
    out[lane] = bit < 0 ? -1 : bit / 8;
  }
  return true;
}

enum { MOST_KNOWN = 32 };

/* Costs of steps by their distance from the first, modulo the period. */
typedef struct KnownCosts {
  int n, from[MOST_KNOWN];
  BankCost cost[MOST_KNOWN];
} KnownCosts;

static const BankCost *known_cost(const KnownCosts *k, int from) {
  for (int i = 0; from >= 0 && i < k->n; i++)
    if (k->from[i] == from) return &k->cost[i];
  return NULL;
}

/* False: it misaligns an access, or is not better than the best so far. `m` keeps accesses
 * whole. */
static bool add_swizzled(Chooser *s, const MemLayout *m, int i, BankChoice *total) {
  const BankPattern *p = &s->tile->patterns[i];
  const Offsets *o = &s->offset[i];
  KnownCosts known = {.n = 0};
  int address[BANK_LANES], period = period_of(s, m);
  if (!o->at) return add_pattern(s->t, m, p, total);
  for (int step = 0; step < p->steps; step++) {
    int from = o->from[step] < 0 ? -1 : o->from[step] % period;
    const BankCost *seen = known_cost(&known, from);
    BankCost c;
    if (!seen) {
      if (!addresses_at(m, o->at + step * p->lanes, p->lanes, p->bytes * 8, address)) return false;
      c = bank_cost(s->t, address, p->lanes, p->bytes, p->is_read);
      if (from >= 0 && known.n < MOST_KNOWN) known.from[known.n] = from, known.cost[known.n++] = c;
    } else {
      c = *seen;
    }
    total->cycles += (int64_t)c.cycles * p->weight;
    total->conflicts += (int64_t)c.conflicts * p->weight;
    if (s->best.found && total->conflicts > s->best.conflicts) return false; /* all else is equal */
  }
  return true;
}

/* No access of any pattern is split. */
static bool keeps_whole(const Chooser *s, const MemLayout *m) {
  int vector = mem_vector(m, m->dims - 1);
  for (int i = 0; i < s->tile->npatterns; i++)
    if (vector < s->tile->patterns[i].bytes * 8 / m->bits) return false;
  return true;
}

/* If the lanes do not differ in the bits that control the swizzle, they conflict as they do
 * without. */
static int64_t least_conflicts(const Chooser *s, const MemLayout *m) {
  unsigned flipping = m->swizzle.mask << m->swizzle.shift;
  int64_t least = 0;
  for (int i = 0; i < s->tile->npatterns; i++)
    if (s->offset[i].at && !(s->offset[i].varying & flipping)) least += s->offset[i].conflicts;
  return least;
}

static void consider(Chooser *s, const MemLayout *m) {
  BankChoice c = {.layout = *m, .bytes = mem_bytes(m), .found = true};
  if (is_free(s) || c.bytes > s->tile->budget || !keeps_whole(s, m)) return;
  for (int i = 0; i < s->tile->npatterns; i++)
    if (!add_swizzled(s, m, s->order[i], &c)) return;
  bool better = !s->best.found || c.cycles < s->best.cycles ||
                (c.cycles == s->best.cycles && c.bytes < s->best.bytes);
  if (better) s->best = c;
}

/* `m` has no swizzle; its offsets are those of all swizzled forms before the swizzle is applied. */
static void find_offsets(Chooser *s, const MemLayout *m) {
  for (int i = 0; i < s->tile->npatterns; i++)
    s->offset[i] = plain_offsets(s, m, &s->tile->patterns[i]);
}

/* Only swizzles within one row of banks matter: units of less than a row, xored with every higher
 * bit. */
static void consider_swizzles(Chooser *s, const MemLayout *rows) {
  int size = mem_size(rows), row = bank_row(s->t) * 8 / rows->bits;
  for (int unit = 1; unit * 2 <= row; unit *= 2)
    for (int n = 1; unit << n <= row; n++)
      for (int shift = n; (int64_t)unit << (shift + n) <= size; shift++) {
        MemLayout m = mem_swizzled(rows, unit, n, shift);
        if (!s->best.found || least_conflicts(s, &m) < s->best.conflicts) consider(s, &m);
      }
}

static void consider_padding(Chooser *s) {
  const BankTile *tile = s->tile;
  for (int bytes = BANK_BYTES; bytes < bank_row(s->t) && !is_free(s); bytes *= 2) {
    MemLayout padded = mem_rows(tile->dims, tile->extent, tile->bits, bytes * 8 / tile->bits);
    find_offsets(s, &padded);
    consider(s, &padded);
  }
}

static void order_patterns(Chooser *s, const MemLayout *rows) {
  int n = s->tile->npatterns;
  bool whole = keeps_whole(s, rows);
  for (int i = 0; i < n; i++) {
    BankChoice alone = {0};
    int at = i;
    int64_t *own = &s->offset[i].conflicts;
    if (s->offset[i].at && whole && add_swizzled(s, rows, i, &alone)) *own = alone.conflicts;
    for (; at > 0 && s->offset[s->order[at - 1]].conflicts < *own; at--)
      s->order[at] = s->order[at - 1];
    s->order[at] = i;
  }
}

BankChoice bank_choose(const TargetInfo *t, const BankTile *tile) {
  Chooser s = {.t = t, .tile = tile, .scratch = arena_new()};
  s.offset = ARENA_ARRAY(s.scratch, Offsets, tile->npatterns + 1);
  s.order = ARENA_ARRAY(s.scratch, int, tile->npatterns + 1);
  MemLayout rows = mem_rows(tile->dims, tile->extent, tile->bits, 0);
  find_offsets(&s, &rows);
  order_patterns(&s, &rows);
  consider(&s, &rows);
  if (!tile->is_plain) consider_swizzles(&s, &rows);
  if (!tile->is_dense) consider_padding(&s);
  arena_free(s.scratch);
  return s.best;
}
