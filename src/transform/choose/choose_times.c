/* choose_times.c: which candidates are refused, and how long a launch takes with the others
 * (choose_model.h). */
#include <math.h>

#include "ir/dtype.h"
#include "transform/choose/choose_items.h"
#include "transform/split/split_sums.h"
#include "transform/stages/roles/stages_roles.h"

enum {
  SLOTS = 4,        /* of rings, as far as they fit, */
  SLOTS_ALONE = 8,  /* where a compute unit holds one workgroup, */
  SLOTS_SHARED = 3, /* and that each of two should have */
  BESIDES = 32,     /* registers for addresses and the like */
  RESERVED = 10,    /* registers that ptxas needs besides those that are counted */
  BETWEEN = 12,     /* the same between loops whose waves take registers from others */
  START = 600,      /* cycles from the start of a workgroup to its first access, */
  LAUNCH = 2400,    /* and of a launch to that of its first workgroup: H200, launches of a graph */
  CLUSTERS = 300,   /* more, if workgroups form clusters: 0.16 us, an estimate (bench/NOTES.md) */
  NARROW_SIDE = 16, /* of an instruction of one wave */
  WIDE_COLUMNS = 8, /* of an instruction of several waves, in steps, */
  WIDE_MOST = 256   /* and at most */
};

/* Of what the data sheet says, copies reach this much: H200, 3.98 to 4.27 of 4.8 TB/s. */
enum { MEMORY_PERCENT = 88 };

/* Slots of a ring that are in use, on average, while the others are filled: H200, GEMMs with rings of 2 to 8. */
#define SLOTS_USED 1.25

/* Of a line of the cache. Rows of a copy that are shorter need more requests: 256x128x32 takes 1 to 4 % longer than
 * 256x128x64 on an H200 (six sizes). Those that are shorter than half of it are half as fast again. Rows that begin
 * anywhere in a line end in one more: a compute unit then gets half of the bytes (1000^3 by four tiles: 31 to 38 in a
 * cycle). */
enum { CROSSING_TIMES = 2 };
#define LINE_BYTES ((double)TENSOR_LINE)
#define SHORT_ROWS 1.18

/* Half of a line that begins anywhere is in one and a half lines, on average; a whole one in two. */
#define SHORT_CROSSING 1.5

/* Bytes that lanes write in a cycle if they hold pairs of 16 bits: the copy engine writes such results only if their
 * rows are whole lines. 192x160 and 256x96 take 4 us longer for each tile than others do (H200). */
#define LANES_WRITE 9.0

/* Where the last tiles of a tensor are partial: clusters may compute one more, whose results are not written. */
#define RAGGED_TIMES 1.02

/* Where a SIMD has this many waves or more, products take longer: 256x128x64 by four groups of waves of 64 rows takes
 * 4 to 8 % longer than by two of 128 (H200, six sizes); three groups are as fast as two. */
enum { CROWDED = 4 };
#define CROWDED_TIMES 1.06

static double elements(const ChooseModel *m, const Extents *e) {
  double all = 1;
  for (int i = 0; i < e->n; i++) all *= (double)m->value[e->expr[i]] * e->scale[i];
  return all;
}

/* ---- what is refused ---- */

static bool refuse(Refusal *out, const char *why, const Constraint *row) {
  *out = (Refusal){why, row};
  return false;
}

static bool is_legal(ChooseModel *m, const int64_t *value, Refusal *why) {
  if (!sym_run(m->program, value, m->scratch, m->value))
    return refuse(why, "a size is not a whole number", NULL);
  for (int i = 0; i < m->sizes.n; i++)
    if (m->value[m->sizes.at[i].part] < 1) return refuse(why, "is empty", m->sizes.at[i].row);
  for (int i = 0; i < m->waves.n; i++) {
    const Division *w = &m->waves.at[i];
    if (m->value[w->part] < 1 || m->value[w->whole] % m->value[w->part])
      return refuse(why, "does not divide the tile", w->row);
    if (w->alone && m->value[w->part] != m->value[w->whole])
      return refuse(why, "divides what is combined without `block`", w->row);
  }
  int64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    int64_t n = m->value[m->threads[i]];
    if (n < 1 || n > m->t->threads || (threads *= n) > m->t->threads)
      return refuse(why, "gives a workgroup more threads than the machine has", NULL);
  }
  m->all_threads = threads;
  return true;
}

/* ---- times ---- */

/* Cycles of the units of a compute unit. */
typedef struct Cycles {
  double unit[UNIT_COUNT];
  double bytes;           /* that are read or written */
  double crossing;        /* bytes that are read from rows that begin anywhere in a line, */
  double largest;         /* of a tile that is copied, */
  double crossing_most;   /* and those of it that are crossing */
  double waits_for_waves; /* that exchange values */
  bool waits;             /* for loads into registers */
  bool staged;            /* something is copied to shared memory */
} Cycles;

static double up_to(int64_t n, int step) { return (double)ceil_div64(n, step) * step; }

static int machine_waves(const ChooseModel *m) { return ceil_div(m->all_threads, m->t->lanes); }

/* Rows and columns of the instructions of several waves. A product may be computed transposed. */
typedef struct Wide {
  double rows, columns;
  bool fits; /* there are enough waves, and the rows are not mostly padding */
} Wide;

/* Where a product takes the result of another from registers, each group of waves has rows of its own. */
static bool has_own_rows(const ChooseModel *m, const Item *p) {
  int64_t groups = m->all_threads / p->wide_lanes;
  for (int i = 0; p->chained && i < m->waves.n; i++) {
    int64_t whole = m->value[m->waves.at[i].whole], part = m->value[m->waves.at[i].part];
    bool is_side = whole == m->value[p->m] || whole == m->value[p->n];
    if (whole != part && whole < groups * p->wide_rows) return false;
    if (is_side && whole % p->wide_rows) return false;
  }
  return true;
}

static Wide wide_of(const ChooseModel *m, const Item *p) {
  int64_t a = m->value[p->m], b = m->value[p->n];
  if (!p->wide_rate || machine_waves(m) % (p->wide_lanes / m->t->lanes)) return (Wide){0};
  if (!has_own_rows(m, p)) return (Wide){0};
  Wide w = {up_to(a, p->wide_rows), up_to(b, WIDE_COLUMNS), true};
  double turned = up_to(b, p->wide_rows) * up_to(a, WIDE_COLUMNS);
  if (turned < w.rows * w.columns)
    w.rows = up_to(b, p->wide_rows), w.columns = up_to(a, WIDE_COLUMNS);
  w.fits = p->wide_rate * (double)a * (double)b > p->rate * w.rows * w.columns;
  return w;
}

/* Bytes that the instructions of several waves read from shared memory: each block of rows needs all
 * columns of its group. */
static double wide_reads(const ChooseModel *m, const Item *p, const Wide *w) {
  double groups = (double)machine_waves(m) * m->t->lanes / p->wide_lanes;
  double blocks = w->rows / p->wide_rows, each = w->columns;
  bool by_rows = blocks / groups == (double)(int64_t)(blocks / groups);
  if (!by_rows) blocks *= groups, each /= groups; /* groups divide the columns */
  double times = each / WIDE_MOST > 1 ? each / WIDE_MOST : 1;
  return blocks * (times * p->wide_rows + each) * (double)m->value[p->k] * p->bits / 8;
}

/* One wave reads them through its registers. */
static double narrow_reads(const ChooseModel *m, const Item *p, double rows, double columns) {
  double along = p->waves.n ? (double)m->value[p->waves.at[0]] : 1;
  double read = rows * (machine_waves(m) / along) + columns * along;
  return read * (double)m->value[p->k] * p->bits / 8;
}

static void add_product_cycles(const ChooseModel *m, const Item *p, Cycles *out) {
  double others = elements(m, &p->tile) / ((double)m->value[p->m] * (double)m->value[p->n]);
  double banks = m->t->banks * BANK_BYTES;
  double rows = up_to(m->value[p->m], NARROW_SIDE), columns = up_to(m->value[p->n], NARROW_SIDE);
  Wide w = wide_of(m, p);
  double rate = w.fits ? p->wide_rate : p->rate;
  double read = w.fits ? wide_reads(m, p, &w) : narrow_reads(m, p, rows, columns);
  double area = w.fits ? w.rows * w.columns : rows * columns;
  out->unit[UNIT_matrix] += others * area * (double)m->value[p->k] / rate;
  if (banks > 0) out->unit[UNIT_shared] += others * read / banks;
}

/* Waves that do not divide the tile read all of it; it is written once. */
static double read_times(const ChooseModel *m, const Item *item) {
  double shared = 1, waves = machine_waves(m);
  for (int i = 0; i < item->waves.n; i++) shared *= (double)m->value[item->waves.at[i]];
  return item->kind == ITEM_WRITE || item->staged || shared >= waves ? 1 : waves / shared;
}

/* Whether lanes write results of products that the copy engine cannot write (stores.c). */
static bool writes_pairs(const ChooseModel *m, const Item *item) {
  return item->kind == ITEM_WRITE && item->bits == 16 && m->products.n && item->row >= 0 &&
         target_has(m->t, FEATURE_STMATRIX) && m->value[item->row] * 2 % TENSOR_LINE;
}

static void add_cycles(const ChooseModel *m, const Item *item, Cycles *out) {
  double all = elements(m, &item->tile), words = item->bits / 32.0;
  double lanes = (double)m->rates->lanes * m->t->simds;
  double special = (double)m->rates->special * m->t->simds;
  /* A workgroup with fewer waves than there are SIMDs uses only some. */
  double share = (double)machine_waves(m) / m->t->simds;
  if (share > 1) share = 1;
  if (item->kind == ITEM_PRODUCT) {
    add_product_cycles(m, item, out);
  } else if (item->kind == ITEM_COMPUTE) {
    words = words < 0.5 ? 0.5 : words;
    out->unit[UNIT_vector] += all * item->weight.vector * words / (lanes * share);
    out->unit[UNIT_special] += all * item->weight.special / (special * share);
    if (item->exchanged && machine_waves(m) > 1)
      out->waits_for_waves += m->latencies->barrier + m->latencies->shared + machine_waves(m);
  } else {
    double bytes = all * item->bits / 8 * read_times(m, item);
    double row = item->row < 0 ? LINE_BYTES : (double)m->value[item->row] * item->bits / 8;
    double half = LINE_BYTES / 2, slower = row < LINE_BYTES ? SHORT_ROWS : 1;
    if (row < half) slower *= 0.5 + 0.5 * half / row;
    if (item->kind == ITEM_READ) {
      double lines = bytes * (!item->crosses ? 0 : row < LINE_BYTES ? SHORT_CROSSING : 1);
      bool most = item->staged && bytes >= out->largest;
      out->crossing += lines;
      if (most) out->largest = bytes, out->crossing_most = lines;
    }
    out->unit[UNIT_copy] += slower * bytes / (writes_pairs(m, item) ? LANES_WRITE : m->rates->l2);
    out->bytes += bytes;
    out->waits |= item->kind == ITEM_READ && !item->staged;
    out->staged |= item->staged;
  }
}

/* The time of two things that happen at once: the fourth root of a^4 + b^4, by operations whose results are
 * the same everywhere. */
static double together(double a, double b) {
  double most = a > b ? a : b, least = a > b ? b : a, x = most > 0 ? least / most : 0;
  return most * sqrt(sqrt(1 + x * x * x * x));
}

static double busiest_of(const Cycles *c) {
  double most = 0;
  for (int u = 0; u < UNIT_COUNT; u++) most = c->unit[u] > most ? c->unit[u] : most;
  return most;
}

/* Waves of a SIMD. */
static double waves_each(const ChooseModel *m) {
  return machine_waves(m) > m->t->simds ? (double)machine_waves(m) / m->t->simds : 1;
}

/* The more units work, the slower is the clock of a machine that is busy for long. How much the squares of the times of
 * units count is fitted to GEMMs of six sizes by eleven tiles on an H200 (bench/NOTES.md). */
static double effort_of(const ChooseModel *m, const Cycles *c) {
  static const double weight[UNIT_COUNT] = {[UNIT_matrix] = 1.56,
                                            [UNIT_vector] = 1,
                                            [UNIT_special] = 1,
                                            [UNIT_shared] = 0.05,
                                            [UNIT_copy] = 0.55};
  double sum = 0;
  for (int u = 0; u < UNIT_COUNT; u++) sum += weight[u] * c->unit[u] * c->unit[u];
  return sqrt(sum) * (waves_each(m) >= CROWDED ? CROWDED_TIMES : 1);
}

/* Of two times, nearly the longer one. */
static double longer(double a, double b) { return sqrt(together(a * a, b * b)); }

/* How a candidate runs. */
typedef struct Form {
  const ChooseFound *found; /* NULL: it was not lowered */
  bool served;              /* waves that only copy fill the rings */
  bool alone;               /* a compute unit holds one workgroup */
  int64_t slots;            /* of the rings; 0: there are none */
  int64_t parts;            /* of the iterations, each by a workgroup of its own */
} Form;

/* Tiles that are copied while one is used. */
static double ahead_of(const Form *f) {
  double ahead = (double)f->slots - SLOTS_USED;
  return ahead > 1 ? ahead : 1;
}

/* While a wave waits for a tile and starts its products, the others of its SIMD multiply. */
static double least_of(const ChooseModel *m, const Cycles *c, const Form *f) {
  double arrival = c->staged ? (m->latencies->global + c->unit[UNIT_copy]) / ahead_of(f) : 0;
  double matrix = c->unit[UNIT_matrix], most = busiest_of(c);
  if (matrix > 0) matrix += m->latencies->barrier / (2 * waves_each(m));
  if (matrix > most) most = matrix;
  if (!f->slots) return most;
  return f->slots == 1 ? most + arrival : together(most, arrival);
}

/* Of one workgroup: products and what depends on them follow each other, unless a SIMD has two waves: then one
 * multiplies while the other computes. Workgroups that share a compute unit fill each other's gaps (rounds_of). */
static double interval_of(const ChooseModel *m, const Cycles *c, const Form *f) {
  double matrix = c->unit[UNIT_matrix], vector = c->unit[UNIT_vector];
  double special = c->unit[UNIT_special];
  bool overlaps = f->alone && machine_waves(m) >= 2 * m->t->simds;
  double all =
      overlaps ? longer(matrix, vector + special) : matrix + (vector > special ? vector : special);
  if (c->waits) all = together(all, m->latencies->global);
  return all + c->waits_for_waves + (f->served ? 0 : m->latencies->barrier / ahead_of(f));
}

/* Outside of loops nothing happens at the same time. */
static double sum_of(const Cycles *c) {
  double sum = c->waits_for_waves;
  for (int u = 0; u < UNIT_COUNT; u++) sum += c->unit[u];
  return sum;
}

/* Only a kernel with one loop is divided into parts. */
static double times_of(const ChooseModel *m, int loop, int64_t parts) {
  double times = 1;
  for (; loop >= 0; loop = m->loops.at[loop].around) {
    int64_t trips = m->value[m->loops.at[loop].trips];
    times *= trips > 0 ? (double)ceil_div64(trips, parts) : 0;
  }
  return times;
}

typedef struct Work {
  double body, busy;    /* of a tile: its loops, and how long its busiest unit works */
  double before, after; /* until the first iteration, after the last */
  double effort;
  double bytes, crossing; /* as in Cycles */
} Work;

static Work work_of(const ChooseModel *m, const Form *f) {
  Work w = {.before = START + m->latencies->global};
  Cycles all = {0};
  for (int l = -1; l < m->loops.n; l++) {
    Cycles own = {0};
    double times = times_of(m, l, f->parts);
    for (int i = 0; i < m->items.n; i++)
      if (m->items.at[i].loop == l) add_cycles(m, &m->items.at[i], &own);
    for (int u = 0; u < UNIT_COUNT; u++) all.unit[u] += times * own.unit[u];
    w.bytes += times * own.bytes, w.crossing += times * own.crossing;
    /* Two workgroups that stay copy a tile for each other (persist.c). */
    if (f->served && target_has(m->t, FEATURE_CLUSTER)) w.crossing -= times * own.crossing_most / 2;
    if (l < 0) {
      w.after = sum_of(&own);
      continue;
    }
    double least = least_of(m, &own, f), cycles = least > 0 ? interval_of(m, &own, f) : 0;
    if (f->found && f->found->interval[l] > 0) cycles = f->found->interval[l];
    w.body += times * (cycles > least ? cycles : least);
    if (times > 0) w.before += own.unit[UNIT_copy]; /* until its first tiles are there */
  }
  w.busy = busiest_of(&all);
  w.effort = effort_of(m, &all);
  return w;
}

static double rounds_of(const Work *w, int64_t each, int64_t groups) {
  double sum = 0;
  for (int64_t left = each; left > 0;) {
    int64_t now = left < groups ? left : groups, times = left / now;
    double alone = w->before + w->body + w->after, busy = w->before + (double)now * w->busy;
    sum += (double)times * (now > 1 ? together(alone, busy) : alone > busy ? alone : busy);
    left -= times * now;
  }
  return sum;
}

static bool has_served_loop(const ChooseModel *m) {
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].kind == ITEM_READ && m->items.at[i].loop >= 0 && !m->items.at[i].staged)
      return false;
  return m->loops.n == 1 && target_has(m->t, SERVICE_FEATURES | FEATURE_SETMAXNREG);
}

static int64_t staged_bytes(const ChooseModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].staged) bytes += elements(m, &m->items.at[i].tile) * m->items.at[i].bits / 8;
  return (int64_t)bytes;
}

/* The most that are held at a time, in loops or outside of them. */
static int64_t held_registers(const ChooseModel *m, bool in_loop) {
  double most = 0;
  for (int i = 0; i < m->held.n; i++) {
    const HeldTile *v = &m->held.at[i];
    m->registers[i] = elements(m, &v->tile) * v->bits / 32 / (double)m->all_threads;
  }
  for (int i = 0; i < m->moments.n; i++) {
    const Moment *at = &m->moments.at[i];
    double sum = 0;
    for (int j = 0; j < at->n; j++) sum += m->registers[at->held[j]];
    if (at->in_loop == in_loop && sum > most) most = sum;
  }
  return (int64_t)most;
}

static double memory_cycles(const ChooseModel *m, double bytes) {
  if (!m->memory) return 0;
  return bytes * m->memory->mhz / (m->memory->gigabytes * 1e3);
}

static double tensor_bytes(const ChooseModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->k->params.n; i++) {
    const Type *t = m->k->body->args[i]->type;
    if (t->kind == TYPE_mem) bytes += elements(m, &m->tensor[i]) * dtype_memory_bits(t->dtype) / 8;
  }
  return bytes;
}

/* Where nothing is predicted: how many times larger or smaller than usual the values are. */
static double distance_of(const ChooseModel *m, const int64_t *value) {
  double sum = 0;
  for (int i = 0; i < m->open->n; i++) {
    double a = (double)value[i], b = (double)m->open->at[i].usual;
    sum += a > b ? a / b : b > 0 ? b / a : a;
  }
  return sum + (double)m->all_threads / m->t->lanes * 0.01;
}

static bool is_ragged(const ChooseModel *m) {
  for (int i = 0; i < m->sizes.n; i++) {
    const Division *s = &m->sizes.at[i];
    if (s->row->kind == CONSTRAINT_workgroup && m->value[s->whole] % m->value[s->part]) return true;
  }
  return false;
}

/* What each tile of a workgroup that computes several adds to its loops: products wait while lanes write. */
static double between_tiles(const ChooseModel *m, const Work *w) {
  for (int i = 0; i < m->items.n; i++)
    if (writes_pairs(m, &m->items.at[i])) return w->after;
  return 0;
}

/* A launch, without what memory allows. */
static double launch_cycles(const ChooseModel *m, const Candidate *c, const Work *w) {
  int64_t all = c->tiles * c->parts, each = ceil_div64(all, m->t->units);
  double effort = (double)all * w->effort / m->t->units, rounds = rounds_of(w, each, c->groups);
  if (c->persistent) {
    double between = between_tiles(m, w);
    rounds = w->before + (double)each * (w->body + between) + w->after;
    if (target_has(m->t, FEATURE_CLUSTER)) rounds += CLUSTERS;
    effort += (double)all * between / m->t->units;
  }
  if (is_ragged(m)) effort *= RAGGED_TIMES;
  double crossing = (double)each * w->crossing * CROSSING_TIMES / m->rates->l2;
  return longer(longer(rounds, effort), crossing);
}

/* Slots of rings for tiles of that many bytes, in the shared memory that is left. */
static int64_t slots_within(int64_t left, int64_t bytes, int64_t most) {
  int64_t fit = bytes ? left / bytes : 0;
  return fit < 1 ? 1 : fit < most ? fit : most;
}

/* Whether workgroups stay though each has one tile: they copy the larger tile for each other, of rows that begin
 * anywhere in a line (persist.c). */
static bool is_shared(const ChooseModel *m, const Candidate *c) {
  double largest = 0;
  bool crosses = false;
  for (int i = 0; i < m->items.n; i++) {
    const Item *item = &m->items.at[i];
    double bits = (double)elements(m, &item->tile) * item->bits;
    if (item->kind != ITEM_READ || item->loop < 0 || bits < largest) continue;
    crosses = item->crosses || (crosses && bits == largest);
    largest = bits;
  }
  return crosses && c->parts == 1 && 2 * c->tiles > m->t->units &&
         target_has(m->t, FEATURE_CLUSTER);
}

/* What is written while the rings are filled again has bytes of its own. */
static int64_t written_bytes(const ChooseModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].kind == ITEM_WRITE && m->items.at[i].loop < 0)
      bytes += elements(m, &m->items.at[i].tile) * m->items.at[i].bits / 8;
  return (int64_t)bytes;
}

/* How a candidate that was not lowered is expected to run: stages_depth.c decides so. */
static Form expect(const ChooseModel *m, Candidate *out) {
  int64_t each = ceil_div64(out->tiles * out->parts, m->t->units), room = m->t->shared_most;
  int64_t registers = out->held + BESIDES, waves = machine_waves(m);
  bool engine = target_has(m->t, SERVICE_FEATURES);
  bool alone = unit_groups(m->t, waves, registers, 0) < 2 || (engine && each == 1);
  int64_t most = engine && alone ? SLOTS_ALONE : SLOTS;
  Form f = {.parts = out->parts};
  f.slots = slots_within(alone ? room : room / 2, out->bytes, most);
  if (!alone && f.slots < SLOTS_SHARED) f.slots = slots_within(room, out->bytes, most);
  out->groups = unit_groups(m->t, waves, registers, out->bytes * f.slots);
  bool stays = each > 1 || is_shared(m, out);
  out->persistent = f.served = out->groups == 1 && stays && has_served_loop(m);
  f.alone = out->groups == 1;
  if (f.served) f.slots = slots_within(room - written_bytes(m), out->bytes, most);
  return f;
}

static Form form_of(const ChooseModel *m, const ChooseFound *found, Candidate *out) {
  if (!found) return expect(m, out);
  out->groups = found->alone ? 1 : unit_groups(m->t, found->waves, found->registers, found->bytes);
  out->persistent = found->persistent;
  return (Form){found, found->persistent, out->groups == 1, found->slots, out->parts};
}

/* The sums that workgroups write, and the last one of a tile reads. */
static void add_parts(const ChooseModel *m, int64_t parts, Work *w) {
  double bytes = 0;
  for (int i = 0; i < m->carried.n; i++)
    bytes += elements(m, &m->carried.at[i].tile) * m->carried.at[i].bits / 8;
  w->after += split_cycles(m->t, parts, bytes);
  w->bytes += 2 * bytes;
}

static void predict(ChooseModel *m, const ChooseFound *found, Candidate *out) {
  Form form = form_of(m, found, out);
  Work w = work_of(m, &form);
  if (out->parts > 1) add_parts(m, out->parts, &w);
  out->moved = w.bytes * (double)(out->tiles * out->parts);
  double memory = memory_cycles(m, tensor_bytes(m)) * 100 / MEMORY_PERCENT;
  out->cycles =
      LAUNCH + longer(launch_cycles(m, out, &w), START + m->latencies->global + memory + w.after);
  /* Whole tiles are preferred unless the prediction says clearly that they take longer. */
  out->rank = out->cycles;
  if (choose_own_parts(m, out) > 1) out->rank *= 100.0 / (100 - unit_margin(m->t->name));
}

/* Conversions and addresses take a quarter at most; outside of loops less, if waves take registers from those that
 * copy. */
static int most_held(const ChooseModel *m, bool in_loop) {
  int waves = machine_waves(m), most = (target_most_registers(m->t, waves) - RESERVED) * 3 / 4;
  if (in_loop || !has_served_loop(m) || waves + SERVICE_WAVES > target_waves(m->t)) return most;
  int taken = roles_registers(m->t, waves, SERVICE_WAVES) - BETWEEN;
  return taken > most ? taken : most;
}

bool choose_estimate(ChooseModel *m, const int64_t *value, int64_t parts, const ChooseFound *found,
                     Candidate *out, Refusal *why) {
  *out = (Candidate){.tiles = 1, .parts = m->parts ? m->parts : parts};
  for (int i = 0; i < m->open->n; i++) out->value[i] = value[i];
  if (!is_legal(m, value, why)) return false;
  for (int i = 0; i < 3; i++) {
    int64_t n = m->value[m->tiles[i]];
    out->tiles *= n > 0 && out->tiles < INT64_MAX / n ? n : 1;
  }
  out->bytes = staged_bytes(m);
  if (out->bytes > m->t->shared_most && !target_has(m->t, FEATURE_REGISTER_TILES))
    return refuse(why, "needs more shared memory than the machine has", NULL);
  if (!choose_predicts(m)) return out->rank = out->cycles = distance_of(m, value), true;
  int64_t held = held_registers(m, true), outside = held_registers(m, false);
  out->held = held > outside ? held : outside;
  if (held > most_held(m, true) || outside > most_held(m, false))
    return refuse(why, "needs more registers than a thread has", NULL);
  predict(m, found, out);
  return true;
}

bool choose_may_split(const ChooseModel *m, const Candidate *c, int64_t parts) {
  int loop = m->sums && !m->parts ? choose_loop(m, op_attr(m->sums, ATTR_axis)->sym) : -1;
  return loop >= 0 && choose_predicts(m) && c->tiles * parts <= m->t->units &&
         m->value[m->loops.at[loop].trips] >= parts;
}

int64_t choose_own_parts(const ChooseModel *m, const Candidate *c) {
  return m->parts ? 1 : c->parts;
}

bool choose_expects_wide(ChooseModel *m, const int64_t *value) {
  Refusal why;
  if (!choose_predicts(m) || !is_legal(m, value, &why)) return false;
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].kind == ITEM_PRODUCT && wide_of(m, &m->items.at[i]).fits) return true;
  return false;
}

ChooseFloor choose_floor(const ChooseModel *m) {
  ChooseFloor f = {.bytes = tensor_bytes(m)};
  double rate = 0;
  for (int i = 0; i < m->products.n; i++) f.flops += 2 * elements(m, &m->products.at[i]);
  for (int i = 0; i < m->items.n; i++) {
    if (m->items.at[i].wide_rate > rate) rate = m->items.at[i].wide_rate;
    if (m->items.at[i].rate > rate) rate = m->items.at[i].rate;
  }
  f.memory = memory_cycles(m, f.bytes);
  if (rate > 0 && m->t->units) f.matrix = f.flops / 2 / (rate * m->t->units);
  return f;
}
