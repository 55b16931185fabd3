/* build_access.c: index mappings: their rules, and source= / target= converted to them. */
#include "ir/build/build_state.h"

/* ---- checking a mapping ---- */

/* The first two keys whose value is the bare iterator; returns how many there are. */
static int find_bare(SymPairs pairs, const Sym *iterator, const Sym *dims[2]) {
  int n = 0;
  for (int i = 0; i < pairs.n; i++) {
    if (pairs.at[i].value != iterator) continue;
    if (n < 2) dims[n] = pairs.at[i].key;
    n++;
  }
  return n;
}

/* One of the sides will be the register's, and there an iterator stands for one dimension. The
 * dimensions of the memory are only given its value: any number of them, with any names. */
static bool check_iterator(Context *cx, const Mapping *m, int i, Span at) {
  Arena *a = cx->diags.arena;
  const Sym *iterator = ir_numbered_symbol(cx, "$index", i, true), *dims[2];
  int inputs = find_bare(m->inputs, iterator, dims),
      outputs = find_bare(m->outputs, iterator, dims);
  if (inputs == 0 && outputs == 0) {
    Diag *d = diag_add(&cx->diags, DIAG_E0313, at,
                       "iterator %d is not mapped directly to any dimension", i);
    return diag_hint(&cx->diags, d,
                     "its extent is unknown: map a dimension to the iterator itself");
  }
  if (inputs <= 1 || outputs <= 1) return true;
  Diag *d = diag_add(&cx->diags, DIAG_E0313, at, "iterator `%s` is mapped to both `%s` and `%s`",
                     sym_name(iterator), sym_text(a, dims[0]), sym_text(a, dims[1]));
  return diag_hint(&cx->diags, d, "use a separate iterator for each dimension of the register");
}

static bool has_null(SymPairs pairs) {
  for (int i = 0; i < pairs.n; i++)
    if (!pairs.at[i].key || !pairs.at[i].value) return true;
  return false;
}

bool build_check_mapping_entries(Context *cx, const Mapping *m, Span at) {
  bool incomplete = has_null(m->inputs) || has_null(m->outputs);
  for (int i = 0; i < m->ndynamic; i++) incomplete |= has_null(m->dynamic[i]);
  if (incomplete)
    return diag_fail(&cx->diags, DIAG_E0314, at, "the mapping has an entry without an expression");
  return true;
}

bool build_check_mapping(Context *cx, const Mapping *m, Span at) {
  if (!build_check_mapping_entries(cx, m, at)) return false;
  for (int i = 0; i < m->niterators; i++)
    if (!check_iterator(cx, m, i, at)) return false;
  return true;
}

/* ---- source= and target= ---- */

typedef struct Access {
  Builder *b;
  Span at;
  SymPairs bindings;     /* iterator symbol -> dimension, from the kernel */
  SymBinding *iterators; /* iterator symbol -> $index i */
  SymPair *dims;         /* dimension -> $index i: the register side */
  int n;
  Vec(Value *) dynamic;
  Vec(SymPairs) lookups;
} Access;

static bool bind_iterators(Access *x, const Coord *coords, int n) {
  Context *cx = x->b->k->cx;
  x->iterators = ARENA_ARRAY(x->b->k->arena, SymBinding, n);
  x->dims = ARENA_ARRAY(x->b->k->arena, SymPair, n);
  for (x->n = 0; x->n < n; x->n++) {
    const Sym *iterator = coords[x->n].expr;
    const Sym *dim = iterator ? pairs_get(x->bindings, iterator) : NULL;
    if (!dim)
      return BUILD_FAIL(x->b, x->at, E0314, "`%s` is not an iterator of this kernel",
                        iterator ? sym_text(cx->diags.arena, iterator) : "a value");
    const Sym *index = ir_numbered_symbol(cx, "$index", x->n, true);
    x->iterators[x->n] = (SymBinding){iterator, index};
    x->dims[x->n] = (SymPair){dim, index};
  }
  return true;
}

/* A register as a coordinate: it is looked up at the iterators of its own dimensions. */
static const Sym *dynamic_coord(Access *x, Value *v) {
  Arena *a = x->b->k->arena;
  SymPair *at = ARENA_ARRAY(a, SymPair, v->type->rank);
  int n = 0;
  for (int i = 0; i < v->type->rank; i++)
    for (int j = 0; j < x->n; j++)
      if (x->dims[j].key == v->type->dims[i]) at[n++] = x->dims[j];
  vec_push(a, &x->dynamic, v);
  vec_push(a, &x->lookups, ((SymPairs){at, n}));
  return ir_numbered_symbol(x->b->k->cx, "$dynamic_val", x->dynamic.n - 1, false);
}

static bool memory_side(Access *x, const Type *mem, const Coord *coords, int n, SymPairs *out) {
  if (n != mem->rank)
    return BUILD_FAIL(x->b, x->at, E0304, "got %d coordinates for %s", n,
                      type_text(x->b->k->cx->diags.arena, x->b->k->cx, mem));
  *out = (SymPairs){ARENA_ARRAY(x->b->k->arena, SymPair, n), n};
  for (int i = 0; i < n; i++) {
    const Coord *c = &coords[i];
    if (!c->expr && !c->value) return false;
    const Sym *e = c->expr ? sym_subst(x->b->k->cx->sym, c->expr, x->iterators, x->n)
                           : dynamic_coord(x, c->value);
    out->at[i] = (SymPair){dim_base(mem->dims[i]), e};
  }
  return true;
}

Op *build_access(Builder *b, Value *value, Value *memory, const Coord *source, int nsource,
                 const Coord *target, int ntarget, const Attr *attrs, int nattrs, Span at) {
  if (!memory) return NULL;
  const Constraint *row = kernel_constraint(b->k, CONSTRAINT_iterators, NULL);
  if (!row || memory->type->kind != TYPE_mem) {
    BUILD_DIAG(b, at, E0314,
               row ? "source= and target= require memory"
                   : "source= and target= require iterator bindings in the kernel");
    return NULL;
  }
  Access x = {.b = b, .at = at, .bindings = row->iterators.dims};
  Mapping m = {0};
  SymPairs *memory_pairs = value ? &m.outputs : &m.inputs;
  SymPairs *register_pairs = value ? &m.inputs : &m.outputs;
  if (!bind_iterators(&x, value ? source : target, value ? nsource : ntarget)) return NULL;
  if (!memory_side(&x, memory->type, value ? target : source, value ? ntarget : nsource,
                   memory_pairs))
    return NULL;
  *register_pairs = (SymPairs){x.dims, x.n};
  m.niterators = x.n;
  m.dynamic = x.lookups.at;
  m.ndynamic = x.lookups.n;

  Value **args = ARENA_ARRAY(b->k->arena, Value *, x.dynamic.n + 2);
  int n = 0;
  if (value) args[n++] = value;
  args[n++] = memory;
  for (int i = 0; i < x.dynamic.n; i++) args[n++] = x.dynamic.at[i];
  Attr *all = ARENA_ARRAY(b->k->arena, Attr, nattrs + 1);
  for (int i = 0; i < nattrs; i++) all[i] = attrs[i];
  all[nattrs] = (Attr){.key = ATTR_mapping, .mapping = &m};
  return build_op(b, value ? OP_write : OP_read, at, args, n, all, nattrs + 1, NULL);
}
