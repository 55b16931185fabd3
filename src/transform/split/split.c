/* split: divides the iterations of a loop over several workgroups, if they are sums.
 *
 *     workgroup M by 128 on 0            workgroup split_part by 1 on 2
 *     tile K by 64                       tile K by 64 from 64*56*$WG2 iters 56
 *     %r = for K carry %x = %i {...}     %x = for K carry %x = 0 { ... }
 *     write %r, %c                 =>    %y = broadcast %x : tile<split_part, M, N, f32>
 *                                        %r = sum %y, %i {dim = split_part, grid}
 *                                        write %r, %c
 *
 * A grid with few tiles leaves most compute units idle. With this, several of them compute a tile, and their
 * sums are added (split_join.h): in an order that is always the same, so that results are the same in each run;
 * they differ from those of the undivided loop by the order of additions only. Sums over workgroups that the
 * kernel asks for itself are replaced here, too.
 *
 * A row `split` asks for it: the user's, or that of `choose`, which compares it with whole tiles where it
 * chooses them. Where tiles are given, the compiler does not do it unasked: a dumped schedule of a loop that
 * was divided unasked would not fit again.
 *
 * Runs before anything is chosen for a variant, since it adds parameters. Needs distribute and
 * uniform. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "target/units/units.h"
#include "transform/split/split_build.h"
#include "transform/split/split_join.h"
#include "transform/split/split_sums.h"

typedef struct Split {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  const Constraint *row; /* that asks for it; NULL: there is none */
  SplitLoop at;
  int64_t parts;
  double before, after; /* predicted cycles of a workgroup; 0: not predicted */

  const Sym *part;  /* the dimension of the parts */
  const Sym *chunk; /* trips of a part */
} Split;

#define DIAGS(s) (&(s)->k->cx->diags)

/* ---- the decision ---- */

static double bytes_read(const Split *s) {
  double sum = 0;
  for (const Op *op = s->at.loop->body->first; op; op = op->next) {
    double bytes = op->kind == OP_read ? split_bytes(s->d, op, op->results[0].type) : 0;
    if (op->kind == OP_read && !bytes) return 0;
    sum += bytes;
  }
  return sum;
}

static double bytes_carried(const Split *s) {
  double sum = 0;
  for (int i = 0; i < s->at.loop->body->nargs; i++)
    sum += split_bytes(s->d, s->at.loop->body->first, s->at.loop->body->args[i]->type);
  return sum;
}

/* Cycles of a workgroup, as far as the way from the L2 cache limits it. */
static double cycles_of(const Split *s, int64_t trips, int64_t parts) {
  const UnitRates *rates = unit_rates(s->cx->target->name);
  double loop = (double)ceil_div64(trips, parts) * bytes_read(s) / rates->l2;
  return parts == 1 ? loop : loop + split_cycles(s->cx->target, parts, bytes_carried(s));
}

static void predict(Split *s) {
  const TargetInfo *t = s->cx->target;
  int64_t trips;
  if (!unit_rates(t->name) || !unit_latencies(t->name) || !sym_is_int(s->at.trips, &trips)) return;
  s->before = cycles_of(s, trips, 1);
  s->after = cycles_of(s, trips, s->parts);
}

static bool refuse(const Split *s, const char *why) {
  return diag_fail(DIAGS(s), DIAG_R0621, s->row->at, "the loop of `%s` is not divided: %s",
                   s->k->name, why);
}

static bool is_chosen(Split *s) {
  const TargetInfo *t = s->cx->target;
  if (!t || !s->row || s->row->split.loop || distribute_is_off(s->d, CONSTRAINT_split))
    return false;
  if (pass_machines(t) != PASS_LANES || t->lanes < 2) return refuse(s, "the machine has no waves");
  const char *why = split_obstacle(s->d, s->cx->facts.uniform, s->cx->scratch, &s->at);
  if (why) return refuse(s, why);
  const Sym *given = distribute_expr(s->d, NULL, s->row->split.parts);
  if (!sym_is_int(given, &s->parts)) return refuse(s, "the number of parts is not known");
  if (s->parts > 1) predict(s);
  return s->parts > 1;
}

/* ---- rows ---- */

/* The last parts have fewer iterations, or none. */
static const Sym *trips_of_part(const Split *s) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *left = sym_sub(sym, s->at.trips, sym_mul(sym, s->chunk, split_rank(s->k, s->at.axis)));
  if (sym_mul(sym, s->chunk, sym_int(sym, s->parts)) == s->at.trips) return s->chunk;
  return sym_max(sym, sym_min(sym, s->chunk, left), sym_int(sym, 0));
}

/* Counters of a part begin at 0 again, so it has whole steps. */
static void divide_tile_row(Split *s) {
  SymCtx *sym = s->k->cx->sym;
  int64_t step = op_step(s->at.loop);
  const Sym *steps = sym_ceildiv(sym, s->at.trips, sym_int(sym, step));
  s->chunk = sym_mul(sym, sym_ceildiv(sym, steps, sym_int(sym, s->parts)), sym_int(sym, step));
  for (int i = 0; i < s->k->constraints.n; i++) {
    Constraint *c = &s->k->constraints.at[i];
    if (c->kind != CONSTRAINT_tile || c->tile.dim != op_attr(s->at.loop, ATTR_axis)->sym) continue;
    const Sym *size = c->tile.size ? c->tile.size : sym_int(sym, 1);
    const Sym *first = sym_mul(sym, size, sym_mul(sym, s->chunk, split_rank(s->k, s->at.axis)));
    c->tile.count = trips_of_part(s);
    c->tile.start = c->tile.start ? sym_add(sym, c->tile.start, first) : first;
  }
}

static void add_rows(Split *s) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *axis = op_attr(s->at.loop, ATTR_axis)->sym, *parts = sym_int(sym, s->parts);
  divide_tile_row(s);
  s->part = split_dim(s->k, "split_part", parts);
  Constraint *workgroup = split_row(s->k, CONSTRAINT_workgroup);
  workgroup->workgroup.dim = s->part, workgroup->workgroup.size = sym_int(sym, 1);
  workgroup->workgroup.axis = s->at.axis;
  for (int i = 0; i < s->k->constraints.n; i++) {
    Constraint *c = &s->k->constraints.at[i];
    if (c->kind == CONSTRAINT_split) c->split.parts = parts, c->split.loop = axis;
  }
}

/* ---- ops ---- */

/* Each part begins with 0; what the loop began with is added to once. */
static void begin_with_zero(Split *s, int i) {
  Op *loop = s->at.loop;
  if (value_is_zero(loop->args[i])) return;
  Op *zero = split_fill(s->k, s->k->body, loop->at, loop->args[i]->type, 0)->def;
  ir_remove(zero);
  ir_insert_before(loop, zero);
  loop->args[i] = &zero->results[0];
}

/* The sum over the parts of what the loop carries, before `after`; later ops use it. */
static void add_sum(Split *s, int i, Op *after) {
  Op *loop = s->at.loop;
  Value *part = &loop->results[i], *init = loop->args[i];
  const Type *t = part->type;
  const Sym *dims[IR_MAX_RANK] = {s->part};
  for (int n = 0; n < t->rank; n++) dims[n + 1] = t->dims[n];
  const Type *all = type_tile(s->k->cx, dims, t->rank + 1, t->dtype);
  Op *wide = ir_insert(s->k, after, OP_broadcast, loop->at, &part, 1, all);
  Value *args[] = {&wide->results[0], init};
  Op *sum = ir_insert(s->k, after, OP_sum, loop->at, args, 2, t);
  op_set_attr(s->k, sum, (Attr){.key = ATTR_dim, .sym = s->part});
  op_set_attr(s->k, sum, (Attr){.key = ATTR_grid});
  ir_replace_uses(s->k, part, &sum->results[0]);
  wide->args[0] = part;
}

static void add_sums(Split *s) {
  Op *after = s->at.loop->next;
  for (int i = 0; i < s->at.loop->nresults; i++) {
    add_sum(s, i, after);
    begin_with_zero(s, i);
  }
}

static void remark(const Split *s) {
  const Sym *axis = op_attr(s->at.loop, ATTR_axis)->sym;
  Diag *d = diag_add(DIAGS(s), DIAG_R0621, s->at.loop->at,
                     "%lld workgroups share the iterations over `%s` of each tile of `%s`",
                     (long long)s->parts, sym_text(DIAGS(s)->arena, axis), s->k->name);
  if (s->before > 0)
    diag_note(DIAGS(s), d, (Span){0}, "predicted: %.0f cycles of a workgroup instead of %.0f",
              s->after, s->before);
}

bool pass_split(Kernel *k, PassCtx *cx) {
  Split s = {.k = k, .cx = cx, .d = cx->facts.distribute};
  s.row = kernel_constraint(k, CONSTRAINT_split, NULL);
  bool chosen = is_chosen(&s), asked = false;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) asked |= op_has(op, ATTR_grid);
  cx->idle = !chosen && !asked;
  if (cx->idle) return true;
  if (chosen) {
    remark(&s);
    add_rows(&s);
    add_sums(&s);
    ir_renumber(k);
  }
  return split_join(k, cx, chosen ? s.part : NULL, chosen ? s.at.axis : -1, s.parts);
}
