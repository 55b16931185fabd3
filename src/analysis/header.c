/* header.c: what holds for a kernel's symbols wherever they are mentioned.
 *
 *     bind M = 128                      M is 128
 *     assume K > 0                      K > 0
 *     dimensions of parameters          are not negative
 *     workgroup M by 64 on 0            $WG0 < ceiling(M/64), when that is a number
 *     hardware threads 64, waves 2 1 1  $T0 < 128, $T1 < 1, $T2 < 1
 *     launch grid (8) block (64)        $WG0 < 8, $T0 < 64
 *     set_symbol S %i, an i32           S.1 < 2**31
 *
 * Assumptions that a launch can check may be used as facts: a launch for which they do not hold
 * uses other code. A row that contradicts the others adds nothing here; the verifier reports it. */
#include "analysis/analysis.h"
#include "ir/launch_facts.h"

typedef struct Header {
  Kernel *k;
  Arena *arena;
  SymFacts *facts;
  SymBinding *bound;
  int nbound;
  SetSymbols set;
} Header;

static void gather_bindings(Header *h) {
  SymCtx *sym = h->k->cx->sym;
  h->bound = ARENA_ARRAY(h->arena, SymBinding, h->k->constraints.n);
  EACH_ROW(h->k, bind, c) h->bound[h->nbound++] = (SymBinding){c->bind.symbol, c->bind.value};
  if (!sym_resolve_bindings(sym, h->bound, h->nbound)) h->nbound = 0, sym_take_error(sym);
}

/* Whether the expression is a number once bound symbols are replaced. */
static bool is_known(const Header *h, const Sym *s, int64_t *v) {
  const Sym *value = s ? sym_subst(h->k->cx->sym, s, h->bound, h->nbound) : NULL;
  return value && sym_is_int(value, v);
}

static void assume_bindings(const Header *h) {
  SymCtx *sym = h->k->cx->sym;
  for (int i = 0; i < h->nbound; i++)
    if (!symbol_is_set(&h->set, h->bound[i].from))
      sym_assume(h->facts, sym_eq(sym, h->bound[i].from, h->bound[i].to));
}

/* An assumption about a symbol that is set later holds only for its first value. */
static bool keeps_holding(const Header *h, const Sym *s) {
  if (!h->set.n) return true;
  FreeSymbols symbols = sym_symbols(h->arena, s);
  for (int i = 0; i < symbols.n; i++)
    if (symbol_is_set(&h->set, symbols.at[i])) return false;
  return true;
}

static void assume_rows(const Header *h) {
  EACH_ROW(h->k, assume, c)
    if (keeps_holding(h, c->assume.condition) && ir_is_of_launch(h->k, c->assume.condition))
      sym_assume(h->facts, c->assume.condition);
}

static void assume_sizes(const Header *h) {
  SymCtx *sym = h->k->cx->sym;
  const Region *body = h->k->body;
  for (int i = 0; i < body->nargs; i++) {
    const Type *t = body->args[i]->type;
    for (int d = 0; d < t->rank; d++)
      if (keeps_holding(h, t->dims[d]))
        sym_assume(h->facts, sym_ge(sym, t->dims[d], sym_int(sym, 0)));
  }
}

/* 0 <= $NAMEi < count. */
static void assume_id(const Header *h, const char *name, int i, int64_t count) {
  if (count <= 0) return;
  const Sym *id = sym_symbol(h->k->cx->sym, arena_printf(h->arena, "$%s%d", name, i), true);
  sym_assume_range(h->facts, id, 0, count - 1);
}

/* Ids beyond $WG2 are parts of $WG2, so in a kernel that has them nothing is known of $WG2
 * alone. */
static void assume_workgroups(const Header *h) {
  SymCtx *sym = h->k->cx->sym;
  int highest = 0;
  if (kernel_constraint(h->k, CONSTRAINT_grid, NULL)) return;
  if (kernel_persistent(h->k)) return; /* the rows count tiles, not workgroups */
  EACH_ROW(h->k, workgroup, c)
    if (c->workgroup.axis > highest) highest = c->workgroup.axis;
  EACH_ROW(h->k, workgroup, c) {
    int64_t count;
    const struct workgroup_row *r = &c->workgroup;
    const Sym *tiles = r->count ? r->count : sym_ceildiv(sym, r->dim, r->size);
    bool whole = r->axis < 2 || highest == 2;
    if (!r->secondary && whole && is_known(h, tiles, &count)) assume_id(h, "WG", r->axis, count);
  }
}

/* Waves along workgroup dimension `axis`: from the hardware row, or else from the wave rows. */
static bool waves_along(const Header *h, const HardwareSpec *hardware, int axis, int64_t *waves) {
  SymCtx *sym = h->k->cx->sym;
  if (hardware->waves[axis]) return is_known(h, hardware->waves[axis], waves);
  *waves = 1;
  EACH_ROW(h->k, wave, wave) {
    const Constraint *tile = kernel_wave_tile(h->k, wave->wave.dim);
    if (!tile || !tile->divided.size || kernel_wave_axis(h->k, wave->wave.dim) != axis) continue;
    if (!is_known(h, sym_ceildiv(sym, tile->divided.size, wave->wave.size), waves)) return false;
  }
  return true;
}

/* A wave is along dimension 0; service waves extend dimension 1. A kernel whose tiles were
 * redistributed numbers the machine's threads along dimension 0. */
static void assume_threads(const Header *h) {
  const MachineSpec *machine = kernel_machine(h->k);
  if (machine && !machine->observable) {
    int waves = machine->waves / (machine->cluster > 1 ? machine->cluster : 1);
    assume_id(h, "T", 0, (int64_t)machine->lanes * waves);
    assume_id(h, "T", 1, 1);
    assume_id(h, "T", 2, 1);
    return;
  }
  const HardwareSpec *hardware = kernel_hardware(h->k);
  for (int axis = 0; hardware && axis < 3; axis++) {
    int64_t waves;
    if (!waves_along(h, hardware, axis, &waves) || waves > INT32_MAX) continue; /* is refused */
    if (axis == 0) waves *= hardware->threads;
    if (axis == 1) waves += hardware->service_waves;
    assume_id(h, "T", axis, waves);
  }
}

static void assume_launch(const Header *h) {
  EACH_ROW(h->k, launch, c) {
    for (int axis = 0; axis < 3; axis++) {
      int64_t count;
      if (is_known(h, c->launch.grid[axis], &count)) assume_id(h, "WG", axis, count);
      if (is_known(h, c->launch.block[axis], &count)) assume_id(h, "T", axis, count);
    }
  }
}

const SymFacts *find_header(Kernel *k, const Facts *known) {
  Arena *a = known->arena;
  Header h = {.k = k, .arena = a, .facts = sym_facts_new(a, k->cx->sym, kernel_facts(k))};
  h.set = set_symbols(k, a);
  gather_bindings(&h);
  assume_bindings(&h);
  assume_rows(&h);
  assume_sizes(&h);
  assume_workgroups(&h);
  assume_threads(&h);
  assume_launch(&h);
  launch_assume_versions(h.facts, k);
  sym_take_error(k->cx->sym); /* an overflow above only means that a fact is unknown */
  return h.facts;
}
