/* split_workspace.c: sums over workgroups that need not run at the same time.
 *
 *     %s = sum %x {dim = PART, grid}        write %x, %sum0 at part $WG2
 *     write %s, %c                          barrier workgroup
 *                                     =>    %old = atomic_add 1, %arrived at this tile {volatile}
 *                                           if %old == 3 {
 *                                             write 0, %arrived at this tile
 *                                             %s = 0 + %sum0 at part 0 + ... + %sum0 at part 3
 *                                             write %s, %c
 *                                           }
 *
 * The workgroup that arrives last adds the parts in their order, whichever arrived when. So results are the
 * same in each run. The atomic releases what the workgroup has written before the barrier, and acquires what
 * others have released: no workgroup waits for another. */
#include "ir/dtype.h"
#include "transform/split/split_build.h"
#include "transform/split/split_join.h"

enum {
  MOST_COUNTERS = 4096, /* of tiles, if their number is not known */
  MOST_REGISTERS = 200  /* of a thread, for sums and what is added to them */
};

typedef struct Workspace {
  Join *j;
  Kernel *k;
  Span at;
  const Sym *one, *tile; /* dimensions */
  Value *arrived;        /* how many workgroups, for each tile */
  Value **memory;        /* of the parts of each sum */
  const Sym **first;     /* of the parts of this tile, in that memory */
} Workspace;

const char *split_workspace_obstacle(const Join *j) {
  const Kernel *k = j->k;
  /* Code without assumptions is compiled for the same parameters. */
  if (kernel_has_fallback(k)) return "launches need not satisfy its assumptions";
  for (int i = kernel_given(k); i < k->params.n; i++)
    if (k->params.at[i].workspace) return "it has a workspace of its own";
  return NULL;
}

/* ---- how many parts are read together ---- */

/* 32-bit registers that a thread has of all sums, as the kernel declares its threads; 0: unknown. */
static double registers_of_sums(const Join *j) {
  int64_t threads = 1, n;
  double bytes = 0;
  for (int i = 0; i < 3; i++) {
    if (!j->d->threads[i] || !sym_is_int(j->d->threads[i], &n)) return 0;
    threads *= n;
  }
  for (int i = 0; i < j->n; i++) bytes += split_bytes(j->d, j->sums[i], j->parts[i]->type);
  return bytes / 4 / (double)threads;
}

/* As many as registers hold beside the sums, which is a divisor of all parts. The loop over them keeps assemblers
 * from reading more before the first are added. */
static int64_t parts_together(const Join *j) {
  double each = registers_of_sums(j);
  int64_t parts = j->workgroups, n = each > 0 ? (int64_t)(MOST_REGISTERS / each) - 1 : 1;
  if (n > parts) n = parts;
  while (n > 1 && parts % n) n--;
  return n < 1 ? 1 : n;
}

/* ---- the workspace ---- */

/* Whether workgroups along a dimension of the grid may have the same elements of such a tile; NULL: of none. */
static bool shares_elements(const Join *j, int axis, const Type *t) {
  if (axis == j->axis) return false;
  bool apart = false;
  EACH_ROW(j->k, workgroup, c)
    if (t && c->workgroup.axis == axis && !c->workgroup.secondary && !c->workgroup.start)
      apart |= type_has_dim(t, c->workgroup.dim);
  return !apart;
}

/* Of workgroups that may have the same elements of such a tile: how many, and the number of this one. */
static const Sym *count_sharing(const Join *j, const Type *t) {
  SymCtx *sym = j->k->cx->sym;
  const Sym *all = sym_int(sym, 1);
  for (int i = 0; i < 3; i++)
    if (shares_elements(j, i, t)) all = sym_mul(sym, all, j->d->tiles[i]);
  return all;
}

static const Sym *number_sharing(const Join *j, const Type *t) {
  SymCtx *sym = j->k->cx->sym;
  const Sym *number = sym_int(sym, 0), *times = sym_int(sym, 1);
  for (int i = 0; i < 3; i++) {
    if (!shares_elements(j, i, t) || j->d->tiles[i] == sym_int(sym, 1)) continue;
    number = sym_add(sym, number, sym_mul(sym, times, split_rank(j->k, i)));
    times = sym_mul(sym, times, j->d->tiles[i]);
  }
  return number;
}

/* Without a known number of tiles, there are counters for as many as a launch may have. */
static const Sym *count_tiles(Join *j) {
  SymCtx *sym = j->k->cx->sym;
  const Sym *tiles = count_sharing(j, NULL);
  if (sym_is_int(tiles, &(int64_t){0})) return tiles;
  Constraint *row = split_row(j->k, CONSTRAINT_assume);
  row->assume.condition = sym_le(sym, tiles, sym_int(sym, MOST_COUNTERS));
  row->assume.required = true;
  return sym_int(sym, MOST_COUNTERS);
}

static const char *free_name(const Kernel *k, const char *name) {
  const char *found = name;
  for (int i = 1; kernel_has_param(k, found); i++) found = arena_printf(k->arena, "%s_%d", name, i);
  return found;
}

static Value *add_workspace(Workspace *w, const char *name, const Sym *const *dims, int rank,
                            DType t) {
  Kernel *k = w->k;
  const Type *type = type_mem(k->cx, dims, rank, t, k->cx->global_space, NULL);
  Value *v = kernel_add_param(k, free_name(k, name), type, NULL, k->at);
  k->params.at[v->index].workspace = true;
  return v;
}

/* Of the parts of a sum: in front of its own dimensions, their number, for each workgroup with these elements. */
static Value *add_sums(Workspace *w, int i) {
  const Type *t = w->j->parts[i]->type;
  SymCtx *sym = w->k->cx->sym;
  const Sym *parts = sym_int(sym, w->j->workgroups), *sharing = count_sharing(w->j, t);
  const Sym *dims[IR_MAX_RANK] = {w->j->dim};
  if (sharing != sym_int(sym, 1))
    dims[0] = split_dim(w->k, "split_apart", sym_mul(sym, sharing, parts));
  w->first[i] = sym_mul(sym, parts, number_sharing(w->j, t));
  for (int n = 0; n < t->rank; n++) dims[n + 1] = dim_base(t->dims[n]);
  const char *name = arena_printf(w->k->arena, "sum%d", i);
  Value *v = add_workspace(w, name, dims, t->rank + 1, t->dtype);
  w->k->params.at[v->index].undefined = true;
  return v;
}

static const Type *one_count(const Workspace *w) {
  return type_tile(w->k->cx, &w->one, 1, DTYPE_i32);
}

/* ---- ops ---- */

static Value *is_last(Workspace *w, Region *r) {
  const Type *count = one_count(w);
  split_barrier(w->k, r, w->at, "workgroup");
  Value *args[] = {split_fill(w->k, r, w->at, count, 1), w->arrived};
  Op *add = split_op(w->k, r, OP_atomic_add, w->at, args, 2, count);
  op_set_attr(w->k, add, split_mapping(w->k, w->arrived, count, number_sharing(w->j, NULL), true));
  op_set_attr(w->k, add, (Attr){.key = ATTR_volatile});
  Value *pair[] = {&add->results[0], split_fill(w->k, r, w->at, count, w->j->workgroups - 1)};
  const Type *flag = type_with_dtype(w->k->cx, count, DTYPE_i1);
  return &split_op(w->k, r, OP_eq, w->at, pair, 2, flag)->results[0];
}

static void add_parts(Workspace *w, Region *r, Value **sums, const Sym *first, int64_t n) {
  SymCtx *sym = w->k->cx->sym;
  for (int64_t part = 0; part < n; part++)
    for (int i = 0; i < w->j->n; i++) {
      const Type *t = w->j->parts[i]->type;
      const Sym *at = sym_add(sym, w->first[i], sym_add(sym, first, sym_int(sym, part)));
      Value *next = split_read(w->k, r, w->at, w->memory[i], t, at);
      sums[i] = split_add(w->k, r, w->at, sums[i], next);
    }
}

/* A loop over parts, `each` of them in an iteration; its results replace `sums`. */
static void add_in_loop(Workspace *w, Region *r, Value **sums, int64_t each) {
  Kernel *k = w->k;
  SymCtx *sym = k->cx->sym;
  int n = w->j->n;
  const Sym *axis = split_dim(k, "split_step", sym_int(sym, w->j->workgroups / each));
  const Type **types = ARENA_ARRAY(w->j->cx->scratch, const Type *, n);
  Constraint *row = split_row(k, CONSTRAINT_tile);
  row->tile.dim = axis, row->tile.size = sym_int(sym, 1);
  for (int i = 0; i < n; i++)
    if (!sums[i]) sums[i] = split_fill(k, r, w->at, w->j->parts[i]->type, 0);
  Op *loop = split_op(k, r, OP_for, w->at, sums, n, NULL);
  op_set_attr(k, loop, (Attr){.key = ATTR_axis, .sym = axis});
  Region *body = ir_region_new(k, loop);
  for (int i = 0; i < n; i++) {
    types[i] = sums[i]->type;
    sums[i] = ir_add_arg(k, body, types[i], NULL);
  }
  ir_set_results(k, loop, types, n);
  add_parts(w, body, sums, sym_mul(sym, sym_int(sym, each), ir_loop_counter(k, axis)), each);
  split_op(k, body, OP_yield, w->at, sums, n, NULL);
  for (int i = 0; i < n; i++) sums[i] = &loop->results[i];
}

static void move_rest(Workspace *w, Region *to) {
  for (Op *op = join_rest(w->j), *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_alloc) continue;
    ir_remove(op);
    ir_append(to, op);
  }
  ir_append(to, ir_op_new(w->k, OP_yield, w->k->at, NULL, 0));
}

void split_by_workspace(Join *j) {
  Kernel *k = j->k;
  SymCtx *sym = k->cx->sym;
  Workspace w = {.j = j, .k = k, .at = j->sums[0]->at};
  w.one = split_dim(k, "split_one", sym_int(sym, 1));
  w.tile = split_dim(k, "split_tile", count_tiles(j));
  w.arrived = add_workspace(&w, "arrived", &w.tile, 1, DTYPE_i32);
  w.memory = ARENA_ARRAY(j->cx->scratch, Value *, j->n);
  w.first = ARENA_ARRAY(j->cx->scratch, const Sym *, j->n);
  Value **sums = ARENA_ARRAY(j->cx->scratch, Value *, j->n);
  Op *last = ir_op_new(k, OP_if, w.at, &j->parts[0], 1);
  Region *body = k->body, *rest = ir_region_new(k, last);
  split_write(k, rest, w.at, split_fill(k, rest, w.at, one_count(&w), 0), w.arrived,
              number_sharing(j, NULL));
  for (int i = 0; i < j->n; i++) {
    w.memory[i] = add_sums(&w, i);
    sums[i] = j->sums[i]->nargs > 1 ? j->sums[i]->args[1] : NULL;
  }
  int64_t each = parts_together(j);
  if (each == j->workgroups) add_parts(&w, rest, sums, sym_int(sym, 0), each);
  else add_in_loop(&w, rest, sums, each);
  for (int i = 0; i < j->n; i++) ir_replace_uses(k, &j->sums[i]->results[0], sums[i]);
  move_rest(&w, rest);
  for (int i = 0; i < j->n; i++) {
    const Sym *at = sym_add(sym, w.first[i], split_rank(k, j->axis));
    split_write(k, body, w.at, j->parts[i], w.memory[i], at);
    ir_remove(j->sums[i]);
  }
  last->args[0] = is_last(&w, body);
  ir_append(body, last);
}
