/* loop_sizes.c: see loop_sizes.h. */
#include "schedule/proof/loop_sizes.h"

#include "base/vec.h"
#include "ir/region_facts.h"

enum {
  COMBINATIONS = 128, /* of values, about */
  FAR = 1 << 20,      /* symbols without a value, while that of another one is searched for */
  TRIED = 64,         /* values with the same number of iterations */
  FEW = 2             /* iterations of a loop with others inside */
};

/* The loop that is proved, or one inside it. */
typedef struct SizedLoop {
  const Op *op;
  const Sym *trips;   /* that symbols say; NULL: they do not */
  const Sym *counter; /* of its tiles; NULL: it does not begin with the first one */
} SizedLoop;

/* What is varied: a symbol, or the iterations of a loop that no symbol says. */
typedef struct Varied {
  const Sym *symbol; /* or NULL */
  const Op *loop;
  Vec(int64_t) values;
  int at;
} Varied;

struct LoopSizes {
  Arena *arena;
  const Distribution *d;
  SymCtx *cx;
  Vec(SizedLoop) loops;
  Vec(Varied) varied;
  Vec(SymBinding) env;
  bool begun;
  bool apart;             /* one is varied at a time: */
  int which, value, rest; /* this one has that value, others the least (0) or the most (1) */
};

/* ---- values ---- */

static void bind(LoopSizes *s, const Sym *symbol, int64_t value) {
  const Sym *v = sym_int(s->cx, value);
  for (int i = 0; i < s->env.n; i++)
    if (s->env.at[i].from == symbol) {
      s->env.at[i].to = v;
      return;
    }
  vec_push(s->arena, &s->env, ((SymBinding){symbol, v}));
}

const Sym *loop_sizes_value(const LoopSizes *s, const Sym *symbol) {
  for (int i = 0; i < s->env.n; i++)
    if (s->env.at[i].from == symbol) return s->env.at[i].to;
  return NULL;
}

bool loop_sizes_eval(const LoopSizes *s, const Sym *e, int64_t *value) {
  return e && sym_eval(e, s->env.at, s->env.n, value);
}

/* Of K/16 that is known to be an integer, a value may be searched for with any K. */
static SizedLoop size_loop(const LoopSizes *s, const Op *loop) {
  const Attr *axis = op_attr(loop, ATTR_axis);
  bool known = loop->kind == OP_for && !op_has(loop, ATTR_from);
  const Sym *trips = known ? distribute_trips(s->d, loop) : NULL;
  const Sym *counter = known && axis ? ir_loop_counter(s->d->k, axis->sym) : NULL;
  return (SizedLoop){loop, trips ? sym_ceil(s->cx, trips) : NULL, counter};
}

static const SizedLoop *sized(const LoopSizes *s, const Op *loop) {
  const SizedLoop *at = s->loops.at;
  while (at->op != loop) at++;
  return at;
}

static bool count_trips(const LoopSizes *s, const SizedLoop *loop, int64_t *n) {
  if (!loop_sizes_eval(s, loop->trips, n)) return false;
  *n = *n > 0 ? ceil_div64(*n, op_step(loop->op)) : 0;
  return true;
}

int64_t loop_sizes_iterations(const LoopSizes *s, const Op *loop) {
  int64_t n;
  for (int i = 0; i < s->varied.n; i++)
    if (s->varied.at[i].loop == loop) return s->varied.at[i].values.at[s->varied.at[i].at];
  return count_trips(s, sized(s, loop), &n) ? n : 0;
}

void loop_sizes_count(LoopSizes *s, const Op *loop, int64_t iteration) {
  const Sym *counter = sized(s, loop)->counter;
  if (counter) bind(s, counter, iteration * op_step(loop));
}

/* ---- values of one symbol ---- */

/* The number of those that are varied and that an expression mentions. */
static int count_varied(const LoopSizes *s, const Sym *e) {
  int n = 0;
  for (int i = 0; e && i < s->varied.n; i++)
    n += s->varied.at[i].symbol && sym_contains(e, s->varied.at[i].symbol);
  return n;
}

/* A branch around the loops runs, as far as this symbol alone decides that. */
static bool is_reached(const LoopSizes *s, const Sym *symbol) {
  int64_t holds;
  for (const Op *op = s->loops.at[0].op->parent->owner; op; op = op->parent->owner) {
    const Attr *test = op->kind == OP_if ? op_attr(op, ATTR_expr) : NULL;
    if (!test || !sym_contains(test->sym, symbol) || count_varied(s, test->sym) > 1) continue;
    if (loop_sizes_eval(s, test->sym, &holds) && !holds) return false;
  }
  return true;
}

/* The kernel's assumptions allow the value that a symbol has. */
static bool is_allowed(const LoopSizes *s, const Sym *symbol) {
  int64_t holds;
  for (int i = 0; i < s->d->k->constraints.n; i++) {
    const Constraint *row = &s->d->k->constraints.at[i];
    if (row->kind != CONSTRAINT_assume || !sym_contains(row->assume.condition, symbol)) continue;
    if (loop_sizes_eval(s, row->assume.condition, &holds) && !holds) return false;
  }
  return is_reached(s, symbol);
}

/* The least value with at least n iterations of the loop; FAR: none. */
static int64_t least_with(LoopSizes *s, const Sym *symbol, const SizedLoop *loop, int64_t n) {
  int64_t low = 0, high = FAR, trips;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    bind(s, symbol, middle);
    if (!count_trips(s, loop, &trips)) return FAR;
    if (trips >= n) high = middle;
    else low = middle + 1;
  }
  return low;
}

static void add_value(LoopSizes *s, Varied *v, int64_t value) {
  for (int i = 0; i < v->values.n; i++)
    if (v->values.at[i] == value) return;
  vec_push(s->arena, &v->values, value);
}

/* The largest value with n iterations is a multiple of the tile. */
static void add_value_with(LoopSizes *s, Varied *v, const SizedLoop *loop, int64_t n) {
  int64_t least = least_with(s, v->symbol, loop, n);
  int64_t most = least_with(s, v->symbol, loop, n + 1) - 1;
  for (int64_t i = most; least < FAR && i >= least && i > most - TRIED; i--) {
    bind(s, v->symbol, i);
    if (!is_allowed(s, v->symbol)) continue;
    add_value(s, v, i);
    return;
  }
}

static int64_t least_trips(const LoopSizes *s, const SizedLoop *loop) {
  int64_t least = sym_range(s->cx, s->d->facts, loop->trips).lo;
  return least <= 0 ? 0 : ceil_div64(least, op_step(loop->op));
}

static bool has_loop(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op_is_loop(op)) return true;
  return false;
}

static void find_values(LoopSizes *s, Varied *v, int most) {
  for (int i = 0; i < s->loops.n; i++) {
    const SizedLoop *loop = &s->loops.at[i];
    if (!loop->trips || !sym_contains(loop->trips, v->symbol)) continue;
    int64_t least = least_trips(s, loop);
    if (has_loop(loop->op) && most > FEW) most = FEW;
    for (int n = 0; n <= most; n++) add_value_with(s, v, loop, least + n);
  }
  if (!v->values.n) add_value(s, v, FAR);
}

/* ---- all symbols ---- */

static bool is_counter(const LoopSizes *s, const Sym *symbol) {
  for (int i = 0; i < s->loops.n; i++) {
    const Attr *axis = op_attr(s->loops.at[i].op, ATTR_axis);
    if (axis && ir_loop_counter(s->d->k, axis->sym) == symbol) return true;
  }
  return false;
}

static void add_symbol(LoopSizes *s, const Sym *symbol) {
  if (is_counter(s, symbol)) {
    bind(s, symbol, 0);
    return;
  }
  for (int i = 0; i < s->varied.n; i++)
    if (s->varied.at[i].symbol == symbol) return;
  vec_push(s->arena, &s->varied, ((Varied){.symbol = symbol}));
  bind(s, symbol, FAR);
}

static void add_loop(LoopSizes *s, const SizedLoop *loop, int most) {
  FreeSymbols free = sym_symbols(s->arena, loop->trips);
  int64_t n;
  for (int i = 0; i < free.n; i++) add_symbol(s, free.at[i]);
  if (count_trips(s, loop, &n)) return;
  Varied v = {.loop = loop->op};
  for (int i = 0; i <= most; i++) add_value(s, &v, i);
  vec_push(s->arena, &s->varied, v);
}

/* How often loops run does not depend on each other. Then two accesses that are out of order are so in
 * runs of which one has any number of iterations and all others, which only order more if they have
 * more, few or, so that all their accesses exist, many. */
static bool are_apart(const LoopSizes *s) {
  for (int i = 0; i < s->loops.n; i++)
    if (count_varied(s, s->loops.at[i].trips) > 1) return false;
  for (int i = 0; i < s->d->k->constraints.n; i++) {
    const Constraint *row = &s->d->k->constraints.at[i];
    if (row->kind == CONSTRAINT_assume && count_varied(s, row->assume.condition) > 1) return false;
  }
  return s->varied.n > 1;
}

/* If there are too many combinations, only the extremes of most symbols. */
static void limit(LoopSizes *s) {
  int64_t n = 1;
  for (int i = 0; i < s->varied.n; i++) {
    Varied *v = &s->varied.at[i];
    if (n * v->values.n > COMBINATIONS && v->values.n > 2)
      v->values.at[1] = v->values.at[v->values.n - 1], v->values.n = 2;
    n *= v->values.n;
  }
}

LoopSizes *loop_sizes(Arena *a, const Distribution *d, const Op *outer, int most) {
  LoopSizes *s = ARENA_NEW(a, LoopSizes);
  *s = (LoopSizes){.arena = a, .d = d, .cx = d->k->cx->sym};
  for (int i = 0; i < d->nbound; i++) vec_push(a, &s->env, d->bound[i]);
  vec_push(a, &s->loops, size_loop(s, outer));
  for (const Op *op = outer->body->first; op && op_is_inside(op, outer); op = ir_next(op))
    if (op_is_loop(op)) vec_push(a, &s->loops, size_loop(s, op));
  for (int i = 1; i < s->loops.n; i++) add_loop(s, &s->loops.at[i], most);
  for (int i = 0; i < s->varied.n; i++)
    if (s->varied.at[i].symbol) {
      find_values(s, &s->varied.at[i], most);
      bind(s, s->varied.at[i].symbol, FAR);
    }
  s->apart = are_apart(s);
  if (!s->apart) limit(s);
  return s;
}

static void bind_varied(LoopSizes *s) {
  for (int i = 0; i < s->varied.n; i++) {
    const Varied *v = &s->varied.at[i];
    if (v->symbol) bind(s, v->symbol, v->values.at[v->at]);
  }
}

static bool next_apart(LoopSizes *s) {
  if (!s->begun) s->value = -1, s->begun = true;
  for (;;) {
    if (++s->value == s->varied.at[s->which].values.n) s->value = 0, s->which++;
    if (s->which == s->varied.n) s->which = 0, s->rest++;
    if (s->rest > 1) return false;
    const Varied *own = &s->varied.at[s->which];
    if (!s->which || s->value != (s->rest ? own->values.n - 1 : 0))
      break; /* otherwise it was before */
  }
  for (int i = 0; i < s->varied.n; i++) {
    Varied *v = &s->varied.at[i];
    v->at = i == s->which ? s->value : s->rest ? v->values.n - 1 : 0;
  }
  bind_varied(s);
  return true;
}

bool loop_sizes_next(LoopSizes *s) {
  int i = 0;
  if (s->apart) return next_apart(s);
  if (s->begun) {
    while (i < s->varied.n && ++s->varied.at[i].at == s->varied.at[i].values.n)
      s->varied.at[i++].at = 0;
    if (i == s->varied.n) return false;
  }
  s->begun = true;
  bind_varied(s);
  return true;
}
