/* choose_times.c: which candidates are refused, and how long a launch takes with the others
 * (choose_model.h). */
#include <math.h>

#include "ir/dtype.h"
#include "transform/choose/choose_items.h"

enum {
  SLOTS = 4,        /* of rings, as far as they fit */
  BESIDES = 32,     /* registers for addresses and the like */
  RESERVED = 10,    /* registers that ptxas needs besides those that are counted */
  START = 600,      /* cycles from the start of a workgroup to its first access */
  NARROW_SIDE = 16, /* of an instruction of one wave */
  WIDE_COLUMNS = 8, /* of an instruction of several waves, in steps, */
  WIDE_MOST = 256   /* and at most */
};

/* Rows of a copy that are shorter than a line of the cache, by which it is half as fast again. */
enum { LINE_BYTES = 128 };

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
    if (m->value[m->sizes.at[i].whole] < 1) return refuse(why, "is empty", m->sizes.at[i].row);
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
  double bytes; /* that are read or written */
  bool waits;   /* for loads into registers */
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

/* Waves that do not divide the tile read all of it. */
static double read_times(const ChooseModel *m, const Item *item) {
  double shared = 1, waves = machine_waves(m);
  for (int i = 0; i < item->waves.n; i++) shared *= (double)m->value[item->waves.at[i]];
  return item->staged || shared >= waves ? 1 : waves / shared;
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
  } else {
    double bytes = all * item->bits / 8 * read_times(m, item);
    double row = item->row < 0 ? LINE_BYTES : (double)m->value[item->row] * item->bits / 8;
    double slower = row < LINE_BYTES ? 0.5 + 0.5 * LINE_BYTES / row : 1;
    out->unit[UNIT_copy] += slower * bytes / m->rates->l2;
    out->bytes += bytes;
    out->waits |= item->kind == ITEM_READ && !item->staged;
  }
}

/* The time of two things that happen at once: the fourth root of a^4 + b^4, by operations whose results are
 * the same everywhere. */
static double together(double a, double b) {
  double most = a > b ? a : b, least = a > b ? b : a, x = most > 0 ? least / most : 0;
  return most * sqrt(sqrt(1 + x * x * x * x));
}

/* Units that are nearly as busy as the busiest one delay it. The root of the sum of squares was within 16 % of what
 * GEMMs of six tiles took on an H200 (docs/gpu.md), the busiest unit alone between 36 and 64 % less. */
static double most_of(const Cycles *c) {
  double sum = 0;
  for (int u = 0; u < UNIT_COUNT; u++) sum += c->unit[u] * c->unit[u];
  return sqrt(sum);
}

/* Of one workgroup: products and what depends on them follow each other. */
static double interval_of(const ChooseModel *m, const Cycles *c, bool served) {
  double vector =
      c->unit[UNIT_vector] > c->unit[UNIT_special] ? c->unit[UNIT_vector] : c->unit[UNIT_special];
  double moved = together(c->unit[UNIT_copy], c->unit[UNIT_shared]);
  double all = together(c->unit[UNIT_matrix] + vector, moved), least = most_of(c);
  if (all < least) all = least;
  if (c->waits) all = together(all, m->latencies->global);
  return all + (served ? 0 : m->latencies->barrier);
}

static double times_of(const ChooseModel *m, int loop) {
  double times = 1;
  for (; loop >= 0; loop = m->loops.at[loop].around)
    times *=
        (double)(m->value[m->loops.at[loop].trips] > 0 ? m->value[m->loops.at[loop].trips] : 0);
  return times;
}

typedef struct Work {
  double body, busy;    /* of a tile: its loops, and how long its busiest unit works */
  double before, after; /* until the first iteration, after the last */
  double bytes;
} Work;

static Work work_of(const ChooseModel *m, const ChooseFound *found, bool served) {
  Work w = {.before = START + m->latencies->global};
  Cycles all = {0};
  for (int l = -1; l < m->loops.n; l++) {
    Cycles own = {0};
    double times = times_of(m, l);
    for (int i = 0; i < m->items.n; i++)
      if (m->items.at[i].loop == l) add_cycles(m, &m->items.at[i], &own);
    for (int u = 0; u < UNIT_COUNT; u++) all.unit[u] += times * own.unit[u];
    w.bytes += times * own.bytes;
    if (l < 0) {
      w.after = interval_of(m, &own, true);
      continue;
    }
    double least = most_of(&own), cycles = least > 0 ? interval_of(m, &own, served) : 0;
    if (found && found->interval[l] > 0)
      cycles = found->interval[l] > least ? found->interval[l] : least;
    w.body += times * cycles;
    if (times > 0) w.before += own.unit[UNIT_copy]; /* until its first tiles are there */
  }
  w.busy = most_of(&all);
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

static int64_t held_registers(const ChooseModel *m) {
  double most = 0;
  for (int i = 0; i < m->held.n; i++) {
    const HeldTile *v = &m->held.at[i];
    m->registers[i] = elements(m, &v->tile) * v->bits / 32 / (double)m->all_threads;
  }
  for (int i = 0; i < m->moments.n; i++) {
    const Moment *at = &m->moments.at[i];
    double sum = 0;
    for (int j = 0; j < at->n; j++) sum += m->registers[at->held[j]];
    if (sum > most) most = sum;
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

static void predict(ChooseModel *m, const ChooseFound *found, Candidate *out) {
  int64_t slots = out->bytes ? m->t->shared_most / out->bytes : 0;
  int64_t bytes = out->bytes * (slots < 1 ? 1 : slots < SLOTS ? slots : SLOTS);
  int64_t registers = out->held + BESIDES, waves = machine_waves(m);
  if (found) registers = found->registers, bytes = found->bytes, waves = found->waves;
  out->groups = found && found->alone ? 1 : unit_groups(m->t, waves, registers, bytes);
  int64_t each = ceil_div64(out->tiles, m->t->units);
  out->persistent = found ? found->persistent : out->groups == 1 && each > 1 && has_served_loop(m);
  Work w = work_of(m, found, out->persistent);
  out->moved = w.bytes * (double)out->tiles;
  if (out->persistent) out->cycles = w.before + (double)each * w.body + w.after;
  else out->cycles = rounds_of(&w, each, out->groups);
  out->cycles = together(out->cycles, memory_cycles(m, tensor_bytes(m)));
}

bool choose_estimate(ChooseModel *m, const int64_t *value, const ChooseFound *found, Candidate *out,
                     Refusal *why) {
  *out = (Candidate){.tiles = 1};
  for (int i = 0; i < m->open->n; i++) out->value[i] = value[i];
  if (!is_legal(m, value, why)) return false;
  for (int i = 0; i < 3; i++) {
    int64_t n = m->value[m->tiles[i]];
    out->tiles *= n > 0 && out->tiles < INT64_MAX / n ? n : 1;
  }
  out->bytes = staged_bytes(m);
  if (out->bytes > m->t->shared_most && !target_has(m->t, FEATURE_REGISTER_TILES))
    return refuse(why, "needs more shared memory than the machine has", NULL);
  if (!choose_predicts(m)) return out->cycles = distance_of(m, value), true;
  out->held = held_registers(m);
  /* Conversions and addresses take a quarter at most. */
  if (out->held > (target_most_registers(m->t, machine_waves(m)) - RESERVED) * 3 / 4)
    return refuse(why, "needs more registers than a thread has", NULL);
  predict(m, found, out);
  return true;
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
