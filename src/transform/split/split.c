/* split: divides the iterations of a loop over several workgroups, if they are sums.
 *
 *     workgroup M by 128 on 0            workgroup split_part by 1 on 2
 *     tile K by 64                       tile K by 64 from 64*56*$WG2 iters 56
 *     %r = for K { ... }                 %r = for K { ... }
 *     write %r, %c                       write %r, %sum0 at part $WG2
 *                                   =>   barrier workgroup
 *                                        %old = atomic_add 1, %arrived at this tile {volatile}
 *                                        if %old == 3 {
 *                                          write 0, %arrived at this tile
 *                                          %s = 0 + %sum0 at part 0 + ... + %sum0 at part 3
 *                                          write %s, %c
 *                                        }
 *
 * A grid with few tiles leaves most compute units idle. With this, several of them compute a tile:
 * each writes its partial sums to a workspace, and the one that arrives last adds all of them up, in
 * the order of the parts, whichever arrived when. So results are the same in each run; they differ
 * from those of the undivided loop by the order of additions only. The atomic releases what the
 * workgroup has written before the barrier, and acquires what others have released: no workgroup
 * waits for another, so they need not run at the same time.
 *
 * A row `split` asks for it: the user's, or that of `choose`, which compares it with whole tiles where it
 * chooses them. Where tiles are given, the compiler does not do it unasked: a dumped schedule of a loop that
 * was divided unasked would not fit again.
 *
 * Runs before anything is chosen for a variant, since it adds parameters. Needs distribute and
 * uniform. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/schedule/schedule.h"
#include "target/units/units.h"
#include "transform/pass.h"
#include "transform/split/split_sums.h"

enum {
  MOST_COUNTERS = 4096, /* of tiles, if their number is not known */
  MOST_REGISTERS = 200  /* of a thread, for sums and what is added to them */
};

typedef struct Split {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  const Constraint *row; /* that asks for it; NULL: there is none */
  SplitLoop at;
  const Sym *tiles; /* of the grid */
  int64_t parts;
  double before, after; /* predicted cycles of a workgroup; 0: not predicted */

  const Sym *part, *one, *tile; /* dimensions of the workspaces */
  const Sym *chunk;             /* trips of a part */
  Value *arrived;               /* how many workgroups, for each tile */
  Value **memory;               /* of the partial sums of each carried value */
} Split;

#define DIAGS(s) (&(s)->k->cx->diags)

/* ---- the decision ---- */

/* Bytes of the tile that a workgroup has of a value; 0: not a number. */
static double bytes_of(const Split *s, const Op *op, const Type *t) {
  double elements = 1;
  Diag *before = DIAGS(s)->last;
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    int64_t n = 0;
    if (!distribute_dim(s->d, op, t->dims[i], &range)) diags_cut(DIAGS(s), before);
    else if (!sym_is_int(range.extent, &n)) n = 0;
    elements *= (double)n;
  }
  return elements * dtype_memory_bits(t->dtype) / 8;
}

static double bytes_read(const Split *s) {
  double sum = 0;
  for (const Op *op = s->at.loop->body->first; op; op = op->next) {
    double bytes = op->kind == OP_read ? bytes_of(s, op, op->results[0].type) : 0;
    if (op->kind == OP_read && !bytes) return 0;
    sum += bytes;
  }
  return sum;
}

static double bytes_carried(const Split *s) {
  double sum = 0;
  for (int i = 0; i < s->at.loop->body->nargs; i++)
    sum += bytes_of(s, s->at.loop->body->first, s->at.loop->body->args[i]->type);
  return sum;
}

/* 32-bit registers that a thread has of all sums, as the kernel declares its threads; 0: unknown. */
static double registers_of_sums(const Split *s) {
  int64_t threads = 1, n;
  for (int i = 0; i < 3; i++) {
    if (!s->d->threads[i] || !sym_is_int(s->d->threads[i], &n)) return 0;
    threads *= n;
  }
  return bytes_carried(s) / 4 / (double)threads;
}

/* How many parts are read together: as many as registers hold beside the sums, which is a divisor of
 * all parts. The loop over them keeps assemblers from reading more before the first are added. */
static int64_t parts_together(const Split *s, int64_t parts) {
  double each = registers_of_sums(s);
  int64_t n = each > 0 ? (int64_t)(MOST_REGISTERS / each) - 1 : 1;
  if (n > parts) n = parts;
  while (n > 1 && parts % n) n--;
  return n < 1 ? 1 : n;
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

static Constraint *add_row(Split *s, ConstraintKind kind) {
  vec_push(s->k->arena, &s->k->constraints, constraint_empty(kind, s->k->at));
  return &s->k->constraints.at[s->k->constraints.n - 1];
}

/* A dimension whose name does not occur in the kernel. */
static const Sym *new_dim(Split *s, const char *name, const Sym *size) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *dim = sym_symbol(sym, name, true);
  for (int i = 1; kernel_constraint(s->k, CONSTRAINT_bind, dim); i++)
    dim = ir_numbered_symbol(s->k->cx, arena_printf(s->k->arena, "%s_", name), i, true);
  Constraint *row = add_row(s, CONSTRAINT_bind);
  row->bind.symbol = dim, row->bind.value = size;
  return dim;
}

static const Sym *part_number(const Split *s) {
  return ir_numbered_symbol(s->k->cx, "$WG", s->at.axis, true);
}

/* The last parts have fewer iterations, or none. */
static const Sym *trips_of_part(const Split *s) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *left = sym_sub(sym, s->at.trips, sym_mul(sym, s->chunk, part_number(s)));
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
    const Sym *first = sym_mul(sym, size, sym_mul(sym, s->chunk, part_number(s)));
    c->tile.count = trips_of_part(s);
    c->tile.start = c->tile.start ? sym_add(sym, c->tile.start, first) : first;
  }
}

/* Without a known number of tiles, there are counters for as many as a launch may have. */
static const Sym *count_tiles(Split *s) {
  SymCtx *sym = s->k->cx->sym;
  if (sym_is_int(s->tiles, &(int64_t){0})) return s->tiles;
  Constraint *row = add_row(s, CONSTRAINT_assume);
  row->assume.condition = sym_le(sym, s->tiles, sym_int(sym, MOST_COUNTERS));
  row->assume.required = true;
  return sym_int(sym, MOST_COUNTERS);
}

static void add_rows(Split *s) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *axis = op_attr(s->at.loop, ATTR_axis)->sym, *parts = sym_int(sym, s->parts);
  divide_tile_row(s);
  s->part = new_dim(s, "split_part", parts);
  s->one = new_dim(s, "split_one", sym_int(sym, 1));
  s->tile = new_dim(s, "split_tile", count_tiles(s));
  Constraint *workgroup = add_row(s, CONSTRAINT_workgroup);
  workgroup->workgroup.dim = s->part, workgroup->workgroup.size = sym_int(sym, 1);
  workgroup->workgroup.axis = s->at.axis;
  if (!s->row) add_row(s, CONSTRAINT_split);
  for (int i = 0; i < s->k->constraints.n; i++) {
    Constraint *c = &s->k->constraints.at[i];
    if (c->kind == CONSTRAINT_split) c->split.parts = parts, c->split.loop = axis;
  }
}

/* ---- the workspace ---- */

static const char *free_name(const Kernel *k, const char *name) {
  const char *found = name;
  for (int i = 1; kernel_has_param(k, found); i++) found = arena_printf(k->arena, "%s_%d", name, i);
  return found;
}

static Value *add_workspace(Split *s, const char *name, const Sym *const *dims, int rank, DType t) {
  const Type *type = type_mem(s->k->cx, dims, rank, t, s->k->cx->global_space, NULL);
  Value *v = kernel_add_param(s->k, free_name(s->k, name), type, NULL, s->k->at);
  s->k->params.at[v->index].workspace = true;
  return v;
}

/* Of the partial sums of a carried value: in front of its own dimensions, the parts. */
static Value *add_sums(Split *s, int i) {
  const Type *t = s->at.loop->body->args[i]->type;
  const Sym *dims[IR_MAX_RANK] = {s->part};
  for (int j = 0; j < t->rank; j++) dims[j + 1] = dim_base(t->dims[j]);
  const char *name = arena_printf(s->k->arena, "sum%d", i);
  Value *v = add_workspace(s, name, dims, t->rank + 1, t->dtype);
  s->k->params.at[v->index].undefined = true;
  return v;
}

/* ---- ops ---- */

static Op *add_op(Split *s, Region *r, OpKind kind, Value *const *args, int n, const Type *type) {
  Op *op = ir_op_new(s->k, kind, s->at.loop->at, args, n);
  if (type) ir_set_results(s->k, op, &type, 1);
  ir_append(r, op);
  return op;
}

/* The coordinates of `memory` for those of a tile: `first` along the first dimension, then the same. */
static Attr mapping_of(Split *s, const Value *memory, const Type *t, const Sym *first, bool reads) {
  Arena *a = s->k->arena;
  const Type *m = memory->type;
  Mapping *map = ARENA_NEW(a, Mapping);
  SymPair *tile = ARENA_ARRAY(a, SymPair, t->rank + 1), *to = ARENA_ARRAY(a, SymPair, m->rank);
  for (int i = 0; i < t->rank; i++)
    tile[i] = (SymPair){dim_base(t->dims[i]), ir_numbered_symbol(s->k->cx, "$index", i, true)};
  to[0] = (SymPair){m->dims[0], first};
  for (int i = 1; i < m->rank; i++) to[i] = (SymPair){m->dims[i], tile[i - 1].value};
  SymPairs inside = {tile, t->rank}, outside = {to, m->rank};
  map->niterators = t->rank;
  map->inputs = reads ? outside : inside, map->outputs = reads ? inside : outside;
  return (Attr){.key = ATTR_mapping, .mapping = map};
}

static void write_at(Split *s, Region *r, Value *v, Value *memory, const Sym *first) {
  Op *op = add_op(s, r, OP_write, (Value *[]){v, memory}, 2, NULL);
  op_set_attr(s->k, op, mapping_of(s, memory, v->type, first, false));
}

static Value *read_at(Split *s, Region *r, Value *memory, const Type *t, const Sym *first) {
  Op *op = add_op(s, r, OP_read, &memory, 1, t);
  op_set_attr(s->k, op, mapping_of(s, memory, t, first, true));
  return &op->results[0];
}

static Value *fill(Split *s, Region *r, const Type *t, int64_t value) {
  Op *op = add_op(s, r, OP_fill, NULL, 0, t);
  Attr number = {.key = ATTR_value, .number = (double)value};
  if (!dtype_is_float(t->dtype)) number.sym = sym_int(s->k->cx->sym, value);
  op_set_attr(s->k, op, number);
  return &op->results[0];
}

static const Type *one_count(const Split *s) { return type_tile(s->k->cx, &s->one, 1, DTYPE_i32); }

/* The number of the tile of this workgroup. */
static const Sym *tile_number(const Split *s) {
  SymCtx *sym = s->k->cx->sym;
  const Sym *number = sym_int(sym, 0), *times = sym_int(sym, 1);
  for (int i = 0; i < s->at.axis; i++) {
    const Sym *id = ir_numbered_symbol(s->k->cx, "$WG", i, true);
    number = sym_add(sym, number, sym_mul(sym, times, id));
    times = sym_mul(sym, times, s->d->tiles[i]);
  }
  return number;
}

static Value *is_last(Split *s, Region *r) {
  const Type *count = one_count(s);
  Attr barrier = {.key = ATTR_mode, .text = intern(&s->k->cx->names, "workgroup")};
  op_set_attr(s->k, add_op(s, r, OP_barrier, NULL, 0, NULL), barrier);
  Value *args[] = {fill(s, r, count, 1), s->arrived};
  Op *add = add_op(s, r, OP_atomic_add, args, 2, count);
  op_set_attr(s->k, add, mapping_of(s, s->arrived, count, tile_number(s), true));
  op_set_attr(s->k, add, (Attr){.key = ATTR_volatile});
  Value *pair[] = {&add->results[0], fill(s, r, count, s->parts - 1)};
  const Type *flag = type_with_dtype(s->k->cx, count, DTYPE_i1);
  return &add_op(s, r, OP_eq, pair, 2, flag)->results[0];
}

/* ---- adding up ---- */

static void add_parts(Split *s, Region *r, Value **sums, const Sym *first, int64_t n) {
  SymCtx *sym = s->k->cx->sym;
  for (int64_t part = 0; part < n; part++)
    for (int i = 0; i < s->at.loop->nresults; i++) {
      const Type *t = sums[i]->type;
      Value *next = read_at(s, r, s->memory[i], t, sym_add(sym, first, sym_int(sym, part)));
      sums[i] = &add_op(s, r, OP_add, (Value *[]){sums[i], next}, 2, t)->results[0];
    }
}

/* A loop over parts, `each` of them in an iteration; its results replace `sums`. */
static void add_in_loop(Split *s, Region *r, Value **sums, int64_t each) {
  SymCtx *sym = s->k->cx->sym;
  int n = s->at.loop->nresults;
  const Sym *axis = new_dim(s, "split_step", sym_int(sym, s->parts / each));
  const Type **types = ARENA_ARRAY(s->cx->scratch, const Type *, n);
  Constraint *row = add_row(s, CONSTRAINT_tile);
  row->tile.dim = axis, row->tile.size = sym_int(sym, 1);
  Op *loop = add_op(s, r, OP_for, sums, n, NULL);
  op_set_attr(s->k, loop, (Attr){.key = ATTR_axis, .sym = axis});
  Region *body = ir_region_new(s->k, loop);
  for (int i = 0; i < n; i++) {
    types[i] = sums[i]->type;
    sums[i] = ir_add_arg(s->k, body, types[i], NULL);
  }
  ir_set_results(s->k, loop, types, n);
  add_parts(s, body, sums, sym_mul(sym, sym_int(sym, each), ir_loop_counter(s->k, axis)), each);
  add_op(s, body, OP_yield, sums, n, NULL);
  for (int i = 0; i < n; i++) sums[i] = &loop->results[i];
}

/* `sums`: what the loop began with, and then what the undivided loop carries at its end. */
static void add_up(Split *s, Region *r, Value **sums) {
  int64_t each = parts_together(s, s->parts);
  if (each == s->parts) add_parts(s, r, sums, sym_int(s->k->cx->sym, 0), each);
  else add_in_loop(s, r, sums, each);
}

/* ---- the whole kernel ---- */

static void move_rest(Split *s, Region *to) {
  for (Op *op = s->at.loop->next, *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_alloc) continue;
    ir_remove(op);
    ir_append(to, op);
  }
  ir_append(to, ir_op_new(s->k, OP_yield, s->k->at, NULL, 0));
}

/* Each part begins with 0; what the loop began with is added to once. */
static void begin_with_zero(Split *s, int i) {
  Op *loop = s->at.loop;
  if (value_is_zero(loop->args[i])) return;
  Op *zero = fill(s, s->k->body, loop->args[i]->type, 0)->def;
  ir_remove(zero);
  ir_insert_before(loop, zero);
  loop->args[i] = &zero->results[0];
}

static void rewrite(Split *s) {
  Op *loop = s->at.loop, *last = ir_op_new(s->k, OP_if, loop->at, &loop->args[0], 1);
  Region *body = s->k->body, *rest = ir_region_new(s->k, last);
  int n = loop->nresults;
  Value **sums = ARENA_ARRAY(s->cx->scratch, Value *, n);
  s->memory = ARENA_ARRAY(s->cx->scratch, Value *, n);
  s->arrived = add_workspace(s, "arrived", &s->tile, 1, DTYPE_i32);
  write_at(s, rest, fill(s, rest, one_count(s), 0), s->arrived, tile_number(s));
  for (int i = 0; i < n; i++) s->memory[i] = add_sums(s, i), sums[i] = loop->args[i];
  add_up(s, rest, sums);
  for (int i = 0; i < n; i++) ir_replace_uses(s->k, &loop->results[i], sums[i]);
  for (int i = 0; i < n; i++) begin_with_zero(s, i);
  move_rest(s, rest);
  for (int i = 0; i < n; i++) write_at(s, body, &loop->results[i], s->memory[i], part_number(s));
  last->args[0] = is_last(s, body);
  ir_append(body, last);
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
  SymCtx *sym = k->cx->sym;
  const Distribution *d = cx->facts.distribute;
  Split s = {.k = k, .cx = cx, .d = d, .row = kernel_constraint(k, CONSTRAINT_split, NULL)};
  s.tiles = sym_mul(sym, d->tiles[0], sym_mul(sym, d->tiles[1], d->tiles[2]));
  cx->idle = true;
  if (!s.tiles || !is_chosen(&s)) return true;
  cx->idle = false;
  remark(&s);
  add_rows(&s);
  rewrite(&s);
  return true;
}
