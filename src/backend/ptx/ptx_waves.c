/* ptx_waves.c: conditionals that depend on $T0, decided by whole waves.
 *
 *     if ($T0 >= 256) {                     setp.ge %p0: of the wave's number
 *       ...                            =>   @!%p0 bra.uni $end
 *     }
 *
 *     if (($T0 <= 0) & ($ARGK < 62)) {      setp.le, setp.lt, and: of the wave's number
 *       mbar_arrive ...                     @!%p0 bra.uni $end
 *       tma_load ...                   =>   elect.sync _|%p1, 0xffffffff
 *     }                                     @!%p1 bra $end
 *
 * Bulk copies and wgmma take operands from uniform registers. After a comparison of $T0 ptxas
 * does not know that whole waves take the branch: it computes these operands for each lane and moves
 * them one at a time, and writes a loop over the lanes around each bulk copy.
 *
 * PTX does not say which lane is elected, only that it is always the same one of a wave. So nothing
 * in such a region may depend on the lane; and since all these ops of a wave rely on being those of one
 * thread (bulk groups are counted for each), all such regions are changed, or none. */
#include "backend/ptx/ptx_state.h"
#include "ir/region_facts.h"

enum { LANES = 32 };

typedef struct Search {
  Ptx *p;
  const Sym *thread; /* $T0 */
  WaveTest *tests;   /* by op id */
  bool failed;       /* a bulk copy is elsewhere: nothing is elected */
} Search;

/* It starts or awaits bulk copies, or prepares their barriers: what one thread does in this order. */
static bool is_bulk(const Op *op) {
  switch (op->kind) {
  case OP_tma_load:
  case OP_tma_store:
  case OP_tma_prefetch:
  case OP_bulk_commit:
  case OP_bulk_wait:
  case OP_mbar_init:
  case OP_mbar_inval:
  case OP_mbar_expect: return true;
  case OP_mbar_arrive: return op_has(op, ATTR_bytes);
  default: return false;
  }
}

/* `e` for lane `lane` of the wave. */
static const Sym *in_lane(const Search *s, const Sym *e, int64_t lane) {
  SymCtx *cx = s->p->sym;
  const Sym *thread = s->thread, *lanes = sym_int(cx, LANES);
  const Sym *first = sym_mul(cx, lanes, sym_floordiv(cx, thread, lanes));
  SymBinding to = {thread, sym_add(cx, first, sym_int(cx, lane))};
  return sym_subst(cx, e, &to, 1);
}

static bool is_same_in_wave(const Search *s, const SymFacts *f, const Sym *e) {
  return sym_equal(s->p->sym, f, e, in_lane(s, e, 0)) == SYM_ALWAYS;
}

/* ---- what one thread executes ---- */

/* The number that it computes is the same in every lane, if its operands are; or it is a loop or
 * conditional that all lanes execute equally often. */
static bool is_without_lane(const Search *s, const Op *op) {
  const Attr *e = op_attr(op, op->kind == OP_for ? ATTR_trips : ATTR_expr);
  if (op->kind == OP_scalar) return true;
  bool decides = op->kind == OP_expr || op->kind == OP_for || op->kind == OP_if;
  return decides && e && !sym_contains(e->sym, s->thread);
}

/* A value from outside the region. */
static bool is_uniform_outside(const Search *s, const Op *def) {
  bool uniform = !def->body && is_without_lane(s, def);
  for (int i = 0; uniform && i < def->nargs; i++)
    uniform = def->args[i]->def && is_uniform_outside(s, def->args[i]->def);
  return uniform;
}

static bool operand_is_uniform(const Search *s, const Op *region, const Value *v) {
  if (!type_is_value(v->type)) return true;
  if (!v->def) return v->owner->owner && op_is_inside(v->owner->owner, region);
  return op_is_inside(v->def, region) || is_uniform_outside(s, v->def);
}

static bool op_is_uniform(const Search *s, const Op *region, const Op *op) {
  bool waits = op->kind == OP_mbar_wait || op->kind == OP_mbar_arrive || op->kind == OP_yield;
  bool uniform = waits || is_bulk(op) || is_without_lane(s, op);
  for (int i = 0; uniform && i < op->nargs; i++)
    uniform = operand_is_uniform(s, region, op->args[i]);
  return uniform;
}

/* It has bulk copies, no results, and the same effect in every lane. */
static bool any_lane_may(const Search *s, const Op *region) {
  bool bulk = false;
  if (region->nresults) return false;
  for (const Op *op = ir_next(region); op && op_is_inside(op, region); op = ir_next(op)) {
    if (!op_is_uniform(s, region, op)) return false;
    bulk |= is_bulk(op);
  }
  return bulk;
}

/* ---- search ---- */

static void search(Search *s, const Region *r, const SymFacts *f, bool whole);

/* What decides whether `op` is executed, or how often; NULL: not an expression. */
static const Sym *decides(const Op *op) {
  if (op->kind == OP_while || op_condition(op) || op_has(op, ATTR_from)) return NULL;
  const Attr *a = op_attr(op, op->kind == OP_for ? ATTR_trips : ATTR_expr);
  return a ? a->sym : NULL;
}

/* A conditional that one lane of a wave executes, and might be any: as a condition of that wave. */
static const Sym *single_lane(const Search *s, const Op *op, const Sym *e, const SymFacts *inside) {
  SymRange thread = sym_range(s->p->sym, inside, s->thread);
  if (op->kind != OP_if || thread.lo != thread.hi || !any_lane_may(s, op)) return NULL;
  return in_lane(s, e, thread.lo % LANES);
}

/* whole: all lanes of a wave get here, or none. */
static void search_region(Search *s, const Op *op, const SymFacts *f, bool whole) {
  Ptx *p = s->p;
  const Sym *e = whole ? decides(op) : NULL;
  const SymFacts *inside = region_facts(p->k, p->arena, op, p->entry, f);
  const Sym *single = e ? single_lane(s, op, e, inside) : NULL;
  if (single) {
    s->tests[op->id] = (WaveTest){single, true};
    return;
  }
  bool same = e && is_same_in_wave(s, f, e);
  if (same && op->kind == OP_if && sym_contains(e, s->thread))
    s->tests[op->id] = (WaveTest){in_lane(s, e, 0), false};
  search(s, op->body, inside, same);
}

static void search(Search *s, const Region *r, const SymFacts *f, bool whole) {
  for (const Op *op = r->first; op; op = op->next) {
    s->failed |= is_bulk(op);
    if (op->body) search_region(s, op, f, whole);
  }
}

void ptx_find_wave_tests(Ptx *p) {
  if (!p->wave.name) return;
  Search s = {.p = p, .tests = ARENA_ARRAY(p->arena, WaveTest, p->k->nops)};
  s.thread = ir_numbered_symbol(p->k->cx, "$T", 0, true);
  search(&s, p->k->body, p->entry, true);
  for (int i = 0; s.failed && i < p->k->nops; i++)
    if (s.tests[i].one) s.tests[i] = (WaveTest){0};
  p->tests = s.tests;
}

bool ptx_branch_by_wave(Ptx *p, const Op *op, int end) {
  WaveTest test = p->tests ? p->tests[op->id] : (WaveTest){0};
  if (!test.sym) return false;
  Reg wave = ptx_expr(p, op, test.sym, DTYPE_i1, NULL);
  ptx_line(p, "@!%s bra.uni $end%d", wave.name, end);
  if (!test.one) return true;
  Reg one = ptx_new(p, REG_P);
  ptx_needs(p, 80);
  ptx_line(p, "elect.sync _|%s, 0xffffffff", one.name);
  ptx_line(p, "@!%s bra $end%d", one.name, end);
  return true;
}
