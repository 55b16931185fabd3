/* split_cluster.c: sums over the workgroups of a cluster, each of which finishes a part of the tile.
 *
 *     workgroup M by 128 on 0                   workgroup M_part by 32 on 2 start 128*$WG0 + 32*$WG2 secondary
 *     %s = sum %x {dim = PART, grid}            %parts = alloc : mem<PART_from, M_part, N, f32, shared>
 *     write %s, %c                              barrier cluster
 *                                         =>    write %x, %parts at $WG2 {peer = $index0/32}
 *                                               barrier cluster
 *                                               %s = %parts at 0 + ... + %parts at 3      # of 32 rows
 *                                               write %s, %c
 *
 * A workgroup sends each part of what it has to the workgroup that finishes it, which adds the parts in the order
 * of the workgroups that sent them, so that results are the same in each run. It needs neither a workspace nor an
 * atomic. What follows is done once, in parts: each workgroup receives and stores 1/n of the bytes that one which
 * finishes the whole tile would.
 *
 * The first barrier says that the others have started. What follows must be elementwise along the divided
 * dimension, so that it can be about a part of it: its dimension is then another one, with a row of its own. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"
#include "transform/split/split_build.h"
#include "transform/split/split_join.h"

/* All machines with clusters run 8 workgroups in one. More than this share of the shared memory is better used for
 * rings: the bytes of the parts are not shared with these. */
enum { MOST_PEERS = 8, SHARE = 3, LEFT_OVER = 8 /* one of this many compute units may be */ };

typedef struct Cluster {
  Join *j;
  Kernel *k;
  const Sym *from;  /* the dimension of the workgroups that send */
  const Sym *whole; /* the dimension that is divided, and a part of it */
  const Sym *part;
  int64_t extent; /* of the part */
  Value **map; /* by id of values from before: what replaces them in what follows; NULL: itself */
  int nmap;
} Cluster;

/* ---- which ops can be about a part ---- */

static bool follows(const Join *j, const Op *op) {
  const Op *rest = join_rest(j);
  return op && rest && op->parent == j->k->body && op_comes_before(rest, op);
}

static bool is_sum(const Join *j, const Op *op) {
  for (int i = 0; i < j->n; i++)
    if (j->sums[i] == op) return true;
  return false;
}

/* A dimension like M/32 would have to be divided as well. */
static bool is_plain(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != dim && dim_base(t->dims[i]) == dim) return false;
  return true;
}

static bool has_plain_dims(const Op *op, const Sym *dim) {
  for (int i = 0; i < op->nargs; i++)
    if (!is_plain(op->args[i]->type, dim)) return false;
  for (int i = 0; i < op->nresults; i++)
    if (!is_plain(op->results[i].type, dim)) return false;
  return true;
}

static bool has_known_extents(const Op *alloc) {
  const Attr *physical = op_attr(alloc, ATTR_physical);
  for (int i = 0; physical && i < physical->n; i++)
    if (!sym_is_int(physical->exprs[i], &(int64_t){0})) return false;
  return !op_has(alloc, ATTR_memory) && !op_has(alloc, ATTR_ring);
}

/* The iterator of a mapping along a dimension of the tile; -1: none. */
static int iterator_of(SymPairs tile, const Sym *dim) {
  for (int i = 0; i < tile.n; i++)
    if (dim_base(tile.at[i].key) == dim) return i;
  return -1;
}

/* In memory of the workgroup, coordinates count from where its tile begins: each must be that of the tile. */
static bool follows_tile(const Cluster *c, SymPairs tile, SymPairs memory, const Type *m) {
  int at = iterator_of(tile, c->whole);
  const Sym *along = at < 0 ? NULL : ir_numbered_symbol(c->k->cx, "$index", at, true);
  for (int i = 0; i < m->rank; i++) {
    const Sym *e = access_pair(memory, m->dims[i]);
    bool mentions = e && along && sym_contains(e, along);
    if (m->dims[i] == c->whole ? !e || e != along : mentions) return false;
  }
  return true;
}

/* Coordinates along the dimension follow those of the tile. */
static bool can_access(const Cluster *c, const Op *op, const Type *tile, const Value *memory) {
  const Attr *attr = op_attr(op, ATTR_mapping);
  bool reads = op->kind == OP_read, has = type_has_dim(tile, c->whole);
  if (op_has(op, ATTR_bounds) || op_has(op, ATTR_mask) || op_has(op, ATTR_volatile)) return false;
  if (op->nargs != (reads ? 1 : 2)) return false;
  if (!attr) return !memory->def || has == type_has_dim(memory->type, c->whole);
  SymPairs in = reads ? attr->mapping->outputs : attr->mapping->inputs;
  SymPairs out = reads ? attr->mapping->inputs : attr->mapping->outputs;
  if (memory->def) return follows_tile(c, in, out, memory->type);
  return !has || iterator_of(in, c->whole) >= 0;
}

static bool can_be_part(const Cluster *c, const Op *op) {
  const Attr *dim = op_attr(op, ATTR_dim), *mode = op_attr(op, ATTR_mode);
  if (!has_plain_dims(op, c->whole)) return false;
  if (op_is_elementwise(op)) return op->kind != OP_inline_ptx;
  if (op_is_reduction(op)) return dim && dim_base(dim->sym) != c->whole;
  switch ((int)op->kind) {
  case OP_fill:
  case OP_broadcast:
  case OP_permute:
  case OP_squeeze:
  case OP_yield:
  case OP_workgroup_barrier: return true;
  case OP_barrier: return mode && mode->text == intern(&c->k->cx->names, "workgroup");
  case OP_alloc: return has_known_extents(op);
  case OP_read: return can_access(c, op, op->results[0].type, op->args[0]);
  case OP_write:
    /* Without the dimension, all workgroups would write the same elements. */
    return can_access(c, op, op->args[0]->type, op->args[1]) &&
           type_has_dim(op->args[0]->type, c->whole);
  default: return false;
  }
}

/* What was computed before the sums is computed again, for the part; memory must not have changed since. */
static bool can_repeat(const Cluster *c, const Value *v) {
  const Op *op = v->def;
  if (!type_has_dim(v->type, c->whole) || v->type->kind != TYPE_tile) return true;
  if (!op || op->body || op->parent != c->k->body) return false;
  if (follows(c->j, op) || is_sum(c->j, op)) return true;
  bool reads = op->kind == OP_read && !memory_is_scratch(op->args[0]) &&
               !memory_is_written(c->k, op->args[0]);
  if ((!op_is_pure(op) && !reads) || !can_be_part(c, op)) return false;
  for (int i = 0; i < op->nargs; i++)
    if (!can_repeat(c, op->args[i])) return false;
  return true;
}

static bool can_divide(const Cluster *c) {
  for (const Op *op = join_rest(c->j); op; op = op->next) {
    if (op->body || !can_be_part(c, op)) return false;
    for (int i = 0; i < op->nargs; i++)
      if (!can_repeat(c, op->args[i])) return false;
    bool accesses = op->kind == OP_read || op->kind == OP_write;
    const Value *memory = accesses ? op->args[op->nargs - 1] : NULL;
    if (memory && memory->def && !follows(c->j, memory->def)) return false; /* of the whole tile */
  }
  for (int i = 0; i < c->j->n; i++) {
    const Op *sum = c->j->sums[i];
    if (!type_has_dim(sum->results[0].type, c->whole)) return false;
    if (sum->nargs > 1 && !can_repeat(c, sum->args[1])) return false;
  }
  return true;
}

/* ---- the choice of a dimension ---- */

/* Whether the dimension is that of adjacent elements in memory that follows: parts of it would make stores
 * narrower. */
static bool is_adjacent(const Cluster *c) {
  for (const Op *op = join_rest(c->j); op; op = op->next) {
    const Type *t = op->kind == OP_write ? op->args[1]->type : NULL;
    if (t && t->rank && t->dims[t->rank - 1] == c->whole && !op->args[1]->def) return true;
  }
  return false;
}

static bool take_dim(Cluster *c, const Sym *dim) {
  TileRange range;
  Diag *before = c->k->cx->diags.last;
  c->whole = dim;
  if (!distribute_dim(c->j->d, c->j->sums[0], dim, &range)) {
    diags_cut(&c->k->cx->diags, before);
    return false;
  }
  if (range.batch || !sym_is_int(range.extent, &c->extent)) return false;
  if (c->extent % c->j->workgroups) return false;
  c->extent /= c->j->workgroups;
  return can_divide(c);
}

static bool choose_dim(Cluster *c) {
  const Type *t = c->j->parts[0]->type;
  for (int adjacent = 0; adjacent < 2; adjacent++)
    for (int i = 0; i < t->rank; i++) {
      c->whole = t->dims[i];
      if (is_adjacent(c) == adjacent && take_dim(c, t->dims[i])) return true;
    }
  return false;
}

static bool fits(const Join *j) {
  double bytes = 0;
  for (int i = 0; i < j->n; i++) {
    double own = split_bytes(j->d, j->sums[i], j->parts[i]->type);
    if (!own) return false;
    bytes += own;
  }
  return SHARE * bytes <= j->cx->target->shared_most;
}

/* Of a dimension of the grid: workgroups, as far as they are known; at least one. */
static int64_t least_count(const Join *j, int axis) {
  const Sym *expected = kernel_expected(j->k, j->d->tiles[axis]);
  int64_t n;
  return expected && sym_is_int(expected, &n) && n > 0 ? n : 1;
}

/* Whether as many workgroups run at a time as without clusters. Those of a cluster are on neighbouring compute units,
 * and groups of these need not be multiples of four: on an H200, 32 clusters of four do not run at once. */
static bool run_at_once(const Join *j) {
  int64_t all = j->workgroups, units = j->cx->target->units;
  for (int i = 0; i < 3; i++)
    if (i != j->axis) all *= least_count(j, i);
  return j->workgroups <= 2 || all > units || all <= units - units / LEFT_OVER;
}

/* The kernel says that these workgroups form clusters; *agrees: or it says nothing. */
static bool is_requested(const Join *j, bool *agrees) {
  const HardwareSpec *hardware = kernel_hardware(j->k);
  *agrees = true;
  if (!hardware || !hardware->cluster[0]) return false;
  for (int i = 0; i < 3; i++) {
    int64_t n = 1, wanted = i == j->axis ? j->workgroups : 1;
    if (hardware->cluster[i] && !sym_is_int(hardware->cluster[i], &n)) n = 0;
    *agrees &= n == wanted;
  }
  return *agrees;
}

static bool forms_clusters(const Join *j) {
  const TargetInfo *t = j->cx->target;
  bool agrees, requested = is_requested(j, &agrees);
  if (!t || !target_has(t, FEATURE_CLUSTER) || j->workgroups > MOST_PEERS || !agrees) return false;
  if (kernel_constraint(j->k, CONSTRAINT_reorder, NULL)) return false;
  if (kernel_constraint(j->k, CONSTRAINT_roles, NULL)) return false; /* waves that end early */
  return fits(j) && (requested || run_at_once(j));
}

/* ---- rows ---- */

static void add_rows(Cluster *c) {
  SymCtx *sym = c->k->cx->sym;
  const Join *j = c->j;
  TileRange range;
  distribute_dim(j->d, j->sums[0], c->whole, &range);
  const Sym *workgroups = sym_int(sym, j->workgroups), *size = sym_int(sym, c->extent);
  if (!kernel_constraint(c->k, CONSTRAINT_split, NULL)) split_row(c->k, CONSTRAINT_split);
  c->from = split_dim(c->k, "split_from", workgroups);
  c->part = split_dim(c->k, arena_printf(c->k->arena, "%s_part", sym_name(c->whole)), c->whole);
  Constraint *row = split_row(c->k, CONSTRAINT_workgroup);
  row->workgroup.dim = c->part, row->workgroup.size = size;
  row->workgroup.axis = j->axis, row->workgroup.secondary = true;
  row->workgroup.start = sym_add(sym, range.start, sym_mul(sym, size, split_rank(c->k, j->axis)));
  for (int i = 0; i < c->k->constraints.n; i++) {
    Constraint *split = &c->k->constraints.at[i];
    if (split->kind != CONSTRAINT_split) continue;
    split->split.parts = workgroups, split->split.ranks = j->dim;
    if (!split->split.loop) split->split.loop = j->dim;
  }
}

/* ---- ops about a part ---- */

static const Sym *renamed(const Cluster *c, const Sym *dim) {
  return dim == c->whole ? c->part : dim;
}

static const Type *type_of_part(const Cluster *c, const Type *t) {
  const Sym *dims[IR_MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = renamed(c, t->dims[i]);
  if (t->kind == TYPE_tile) return type_tile(c->k->cx, dims, t->rank, t->dtype);
  return t->kind == TYPE_mem ? type_mem(c->k->cx, dims, t->rank, t->dtype, t->space, t->layout) : t;
}

static SymPairs rename_keys(const Cluster *c, SymPairs from) {
  SymPairs to = {ARENA_ARRAY(c->k->arena, SymPair, from.n + 1), from.n};
  for (int i = 0; i < from.n; i++)
    to.at[i] = (SymPair){renamed(c, from.at[i].key), from.at[i].value};
  return to;
}

/* The coordinate of an argument along the dimension is that of the tile along the part. */
static void add_coordinate(const Cluster *c, SymPairs *memory, int iterator) {
  for (int i = 0; i < memory->n; i++)
    if (memory->at[i].key == c->whole) return;
  memory->at[memory->n++] =
      (SymPair){c->whole, ir_numbered_symbol(c->k->cx, "$index", iterator, true)};
}

static bool has_pairs_for(SymPairs pairs, const Sym *dim) { return iterator_of(pairs, dim) >= 0; }

/* By name: all dimensions of the tile are iterated over. */
static Mapping *by_name(const Cluster *c, const Type *tile, const Type *memory, bool reads) {
  Arena *a = c->k->arena;
  Mapping *map = ARENA_NEW(a, Mapping);
  SymPairs in = {ARENA_ARRAY(a, SymPair, tile->rank + 1), 0};
  SymPairs out = {ARENA_ARRAY(a, SymPair, memory->rank + 1), 0};
  for (int i = 0; i < tile->rank; i++) {
    const Sym *own = dim_base(tile->dims[i]), *dim = own == c->part ? c->whole : own;
    in.at[in.n++] = (SymPair){own, ir_numbered_symbol(c->k->cx, "$index", i, true)};
    if (type_has_dim(memory, dim))
      out.at[out.n++] = (SymPair){dim, ir_numbered_symbol(c->k->cx, "$index", i, true)};
  }
  map->niterators = tile->rank;
  map->inputs = reads ? out : in, map->outputs = reads ? in : out;
  return map;
}

/* With a tile and a memory that are already those of the part. */
static void remap(const Cluster *c, Op *op, const Type *tile, const Value *memory) {
  const Attr *attr = op_attr(op, ATTR_mapping);
  bool reads = op->kind == OP_read, own = memory->def != NULL;
  Mapping *map;
  if (!type_has_dim(tile, c->part) || (!attr && own)) return;
  if (!attr) map = by_name(c, tile, memory->type, reads);
  else {
    SymPairs in = reads ? attr->mapping->outputs : attr->mapping->inputs;
    SymPairs out = reads ? attr->mapping->inputs : attr->mapping->outputs;
    int iterator = iterator_of(in, c->whole);
    map = arena_copy(c->k->arena, attr->mapping, sizeof *map);
    in = rename_keys(c, in);
    SymPairs to = {ARENA_ARRAY(c->k->arena, SymPair, out.n + 1), out.n};
    for (int i = 0; i < out.n; i++) to.at[i] = out.at[i];
    if (own) to = rename_keys(c, to);
    else if (type_has_dim(memory->type, c->whole) && !has_pairs_for(out, c->whole))
      add_coordinate(c, &to, iterator);
    map->inputs = reads ? to : in, map->outputs = reads ? in : to;
  }
  op_set_attr(c->k, op, (Attr){.key = ATTR_mapping, .mapping = map});
}

static void shrink(const Cluster *c, Op *alloc) {
  const Attr *physical = op_attr(alloc, ATTR_physical);
  const Type *t = alloc->results[0].type;
  if (!physical) return;
  const Sym **dims = ARENA_ARRAY(c->k->arena, const Sym *, t->rank);
  for (int i = 0; i < t->rank; i++) {
    int64_t n = 0;
    sym_is_int(physical->exprs[i], &n);
    bool cut = t->dims[i] == c->whole && n == c->extent * c->j->workgroups;
    dims[i] = cut ? sym_int(c->k->cx->sym, c->extent) : physical->exprs[i];
  }
  op_set_attr(c->k, alloc, (Attr){.key = ATTR_physical, .n = t->rank, .exprs = dims});
}

static Value *part_of(Cluster *c, Value *v, Op *before);

/* The op, with operands that are parts; `before`: where what these need is computed. */
static void make_part(Cluster *c, Op *op, Op *before) {
  for (int i = 0; i < op->nargs; i++) op->args[i] = part_of(c, op->args[i], before);
  if (op->kind == OP_alloc) shrink(c, op);
  for (int i = 0; i < op->nresults; i++) op->results[i].type = type_of_part(c, op->results[i].type);
  if (op->kind == OP_read) remap(c, op, op->results[0].type, op->args[0]);
  if (op->kind == OP_write) remap(c, op, op->args[0]->type, op->args[1]);
}

/* A value from before the sums, for the part. */
static Value *part_of(Cluster *c, Value *v, Op *before) {
  if (v->id < c->nmap && c->map[v->id]) return c->map[v->id];
  if (v->type->kind != TYPE_tile || !type_has_dim(v->type, c->whole)) return v;
  if (follows(c->j, v->def)) return v;
  const Op *op = v->def;
  Op *copy = ir_insert(c->k, before, op->kind, op->at, op->args, op->nargs, v->type);
  for (int i = 0; i < op->nattrs; i++) op_set_attr(c->k, copy, attr_copy(c->k, &op->attrs[i]));
  make_part(c, copy, copy);
  if (v->id < c->nmap) c->map[v->id] = &copy->results[0];
  return &copy->results[0];
}

/* ---- the exchange ---- */

/* The extents are given, so that rings leave room for it. */
static Value *add_memory(Cluster *c, Op *before, const Op *sum, const Type *t) {
  SymCtx *sym = c->k->cx->sym;
  const Sym *dims[IR_MAX_RANK] = {c->from};
  const Sym **extents = ARENA_ARRAY(c->k->arena, const Sym *, t->rank + 1);
  extents[0] = sym_int(sym, c->j->workgroups);
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    bool found = distribute_dim(c->j->d, sum, t->dims[i], &range);
    WV_ASSERT(found);
    dims[i + 1] = renamed(c, t->dims[i]);
    extents[i + 1] = t->dims[i] == c->whole ? sym_int(sym, c->extent) : range.extent;
  }
  const Type *type = type_mem(c->k->cx, dims, t->rank + 1, t->dtype, c->k->cx->shared_space, NULL);
  Op *alloc = ir_insert(c->k, before, OP_alloc, before->at, NULL, 0, type);
  op_set_attr(c->k, alloc, (Attr){.key = ATTR_physical, .n = t->rank + 1, .exprs = extents});
  return &alloc->results[0];
}

static void send(Cluster *c, Op *before, Value *v, Value *memory) {
  SymCtx *sym = c->k->cx->sym;
  const Sym *size = sym_int(sym, c->extent);
  int at = type_dim(v->type, c->whole);
  const Sym *along = ir_numbered_symbol(c->k->cx, "$index", at, true);
  Op *op = ir_insert(c->k, before, OP_write, before->at, (Value *[]){v, memory}, 2, NULL);
  Attr mapping = split_mapping(c->k, memory, v->type, split_rank(c->k, c->j->axis), false);
  SymPairs out = mapping.mapping->outputs;
  out.at[at + 1].value = sym_mod(sym, along, size);
  op_set_attr(c->k, op, mapping);
  op_set_attr(c->k, op, (Attr){.key = ATTR_peer, .sym = sym_floordiv(sym, along, size)});
}

static void insert_barrier(Cluster *c, Op *before) {
  Op *op = ir_insert(c->k, before, OP_barrier, before->at, NULL, 0, NULL);
  Attr mode = {.key = ATTR_mode, .text = intern(&c->k->cx->names, "cluster")};
  op_set_attr(c->k, op, mode);
}

/* In order: what the sum begins with, and the parts of the workgroups. */
static Value *receive(Cluster *c, Op *before, const Op *sum, Value *memory) {
  SymCtx *sym = c->k->cx->sym;
  const Type *t = type_of_part(c, sum->results[0].type);
  Value *init = sum->nargs > 1 && !value_is_zero(sum->args[1]) ? sum->args[1] : NULL;
  Value *total = init ? part_of(c, init, before) : NULL;
  for (int64_t i = 0; i < c->j->workgroups; i++) {
    Op *read = ir_insert(c->k, before, OP_read, before->at, &memory, 1, t);
    op_set_attr(c->k, read, split_mapping(c->k, memory, t, sym_int(sym, i), true));
    Value *args[] = {total, &read->results[0]}, *next = args[1];
    total = total ? &ir_insert(c->k, before, OP_add, before->at, args, 2, t)->results[0] : next;
  }
  return total;
}

/* A mapping names all dimensions of memory: those that a tile lacks are added here, instead of by `widen`. */
static void spread(Cluster *c, Op *write) {
  const Type *all = access_spread(c->k->cx, write);
  if (!all || all == write->args[0]->type) return;
  Op *made = ir_insert(c->k, write, OP_broadcast, write->at, write->args, 1, all);
  write->args[0] = &made->results[0];
}

static void rewrite(Cluster *c) {
  Join *j = c->j;
  Op *first = j->sums[0];
  Value **memory = ARENA_ARRAY(j->cx->scratch, Value *, j->n);
  for (int i = 0; i < j->n; i++)
    memory[i] = add_memory(c, c->k->body->first, j->sums[i], j->parts[i]->type);
  for (Op *op = join_rest(j); op; op = op->next)
    if (op->kind == OP_write) spread(c, op);
  insert_barrier(c, first);
  for (int i = 0; i < j->n; i++) send(c, first, j->parts[i], memory[i]);
  insert_barrier(c, first);
  for (int i = 0; i < j->n; i++)
    c->map[j->sums[i]->results[0].id] = receive(c, first, j->sums[i], memory[i]);
  for (Op *op = join_rest(j); op; op = op->next) make_part(c, op, first);
  for (int i = 0; i < j->n; i++) ir_remove(j->sums[i]);
}

bool split_by_cluster(Join *j) {
  Cluster c = {.j = j, .k = j->k};
  if (!forms_clusters(j) || !choose_dim(&c)) return false;
  ir_renumber(j->k);
  c.nmap = j->k->nvalues;
  c.map = ARENA_ARRAY(j->cx->scratch, Value *, c.nmap);
  add_rows(&c);
  rewrite(&c);
  return true;
}
