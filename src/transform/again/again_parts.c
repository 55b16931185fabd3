/* again_parts.c: see again_parts.h.
 *
 * The order of what is written is depth first: ptxas keeps it roughly, and the leaves of a sum of 32
 * elements, computed before any two are added, take 32 registers. */
#include "transform/again/again_parts.h"

#include <string.h>

#include "analysis/motion.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/region_facts.h"

/* Arrays are indexed by the ids of values, and of ops where that is said. */
typedef struct Writer {
  Phases *p;
  Kernel *k;
  Op *here;       /* new ops are inserted before it */
  int now;        /* the phase */
  const Op *all;  /* the last load of a packed value in the first phase; NULL: none */
  Value *latest;  /* of this phase, from memory or another lane; in the first one, from `all` on */
  Value ***parts; /* each part that was written last; NULL: not divided */
  int **phase;    /* in which phase that was */
  Value **whole;  /* all elements; of a packed value that was loaded, in this phase */
  int *whole_in;
  Op **next_late; /* by op id: the next late load from the same memory; NULL: there is none */
} Writer;

enum { MOST_ARGS = 4, MOST_PART = 32 };

/* ---- phases ---- */

bool again_is_packed(const Value *v) {
  int bits = dtype_info[v->type->dtype].bits;
  return v->type->kind == TYPE_vec && bits > 1 && bits < 32;
}

bool again_ends_phase(const Op *op) {
  return op->kind == OP_barrier && strcmp(op_attr(op, ATTR_mode)->text, "wave");
}

static bool is_part_wise(const Op *op) {
  bool same = op->nresults == 1 && op->nargs <= MOST_ARGS;
  for (int i = 0; same && i < op->nargs; i++) same = op->args[i]->type->n == op->results[0].type->n;
  return same && op_is_elementwise(op) && op->kind != OP_inline_ptx;
}

static bool is_renaming(const Op *op) {
  return op->kind == OP_splat || op->kind == OP_join || op->kind == OP_pick;
}

bool again_moves(const Phases *p, const Op *op) {
  return p->late[op->id] || (op_is_pure(op) && (is_part_wise(op) || is_renaming(op)));
}

static bool has_whole_parts(const Phases *p, const Op *op) {
  bool whole = op->results[0].type->n % p->part == 0;
  for (int i = 0; op->kind == OP_join && i < op->nargs; i++)
    whole &= op->args[i]->type->n % p->part == 0;
  return whole;
}

static void use(Phases *p, const Value *v, int phase) {
  if (phase > p->needed[v->id]) p->needed[v->id] = phase;
}

static void alloc_phases(Phases *p) {
  int n = p->k->nvalues + 1;
  p->made = ARENA_ARRAY(p->scratch, int, n);
  p->needed = ARENA_ARRAY(p->scratch, int, n);
  p->divided = ARENA_ARRAY(p->scratch, bool, n);
  p->again = ARENA_ARRAY(p->scratch, bool, n);
  p->late = ARENA_ARRAY(p->scratch, bool, p->k->nops + 1);
}

void again_find_phases(Phases *p) {
  int phase = 0;
  const bool *written = find_written(p->k, p->scratch);
  alloc_phases(p);
  for (const Op *op = p->k->body->first; op; op = op->next) {
    phase += again_ends_phase(op);
    p->late[op->id] = phase && motion_is_invariant_load(op, written);
    for (int i = 0; i < op->nargs; i++) use(p, op->args[i], phase);
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      p->made[v->id] = phase;
      p->divided[v->id] = v->type->kind == TYPE_vec && v->type->n > p->part && again_moves(p, op) &&
                          !p->late[op->id] && has_whole_parts(p, op);
    }
  }
  p->count = phase + 1;
}

/* ---- values ---- */

static Value *whole_of(Writer *w, Value *v);

static Value *write_op(Writer *w, const Op *like, Value *const *args, int n) {
  const Type *t = type_vec(w->k->cx, n, like->results[0].type->dtype);
  Op *op = ir_insert(w->k, w->here, like->kind, like->at, args, like->nargs, t);
  for (int i = 0; i < like->nattrs; i++) op_set_attr(w->k, op, attr_copy(w->k, &like->attrs[i]));
  op->results[0].varying = like->results[0].varying;
  return &op->results[0];
}

static Value *pick(Writer *w, Span at, Value *v, const int64_t *regs, int n) {
  if (v->type->kind == TYPE_scalar) return v;
  const Type *t = type_vec(w->k->cx, n, v->type->dtype);
  Op *op = ir_insert(w->k, w->here, OP_pick, at, &v, 1, t);
  int64_t *copy = ARENA_ARRAY(w->k->arena, int64_t, n);
  for (int i = 0; i < n; i++) copy[i] = regs[i];
  op_set_attr(w->k, op, (Attr){.key = ATTR_regs, .ints = copy, .n = n});
  return &op->results[0];
}

/* A value that was computed where it stays. Instead of a packed one, another with the same elements: in later phases,
 * and in the first one after all of them are loaded. If that saves registers, ptxas loads some of them only when
 * it has no use for others any more. */
static Value *kept(Writer *w, Value *v) {
  bool hidden = v->def && w->latest && v != w->latest && again_is_packed(v);
  if (!hidden || (w->now && w->now == w->p->made[v->id])) return v;
  if (w->whole[v->id] && w->whole_in[v->id] == w->now) return w->whole[v->id];
  Value *args[] = {w->whole[v->id] ? w->whole[v->id] : v, w->latest};
  w->whole_in[v->id] = w->now;
  return w->whole[v->id] =
             &ir_insert(w->k, w->here, OP_after, v->def->at, args, 2, v->type)->results[0];
}

static Value *all_of(Writer *w, Value *v) {
  return v->def && again_moves(w->p, v->def) ? whole_of(w, v) : kept(w, v);
}

/* Parts of what is not divided itself. */
static Value *part_of_whole(Writer *w, Span at, Value *v, int i) {
  int64_t regs[MOST_PART];
  int n = w->p->part;
  for (int e = 0; e < n; e++) regs[e] = (int64_t)i * n + e;
  return pick(w, at, all_of(w, v), regs, n);
}

static Value *part_of(Writer *w, Span at, Value *v, int i);

static Value *part_of_join(Writer *w, const Op *op, int i) {
  int part = w->p->part, from = 0, first = i * part;
  while (first >= op->args[from]->type->n) first -= op->args[from++]->type->n;
  Value *v = op->args[from];
  return v->type->n == part ? whole_of(w, v) : part_of(w, op->at, v, first / part);
}

static Value *part_of_pick(Writer *w, const Op *op, int i) {
  int part = w->p->part;
  const int64_t *regs = op_attr(op, ATTR_regs)->ints + (int64_t)i * part;
  bool follow = regs[0] % part == 0 && op->args[0]->type->n % part == 0;
  for (int e = 1; e < part; e++) follow &= regs[e] == regs[0] + e;
  if (follow) return part_of(w, op->at, op->args[0], (int)(regs[0] / part));
  return pick(w, op->at, all_of(w, op->args[0]), regs, part);
}

static Value *write_part(Writer *w, const Op *op, int i) {
  Value *args[MOST_ARGS];
  if (op->kind == OP_join) return part_of_join(w, op, i);
  if (op->kind == OP_pick) return part_of_pick(w, op, i);
  if (op->kind == OP_splat) {
    args[0] = whole_of(w, op->args[0]);
    return write_op(w, op, args, w->p->part);
  }
  for (int a = 0; a < op->nargs; a++) args[a] = part_of(w, op->at, op->args[a], i);
  return write_op(w, op, args, w->p->part);
}

static Value *part_of(Writer *w, Span at, Value *v, int i) {
  int id = v->id;
  if (!w->p->divided[id]) return part_of_whole(w, at, v, i);
  if (v->def->kind == OP_splat) i = 0;
  Value *old = w->parts[id][i];
  bool renamed = v->def->kind == OP_join || v->def->kind == OP_pick;
  if (old && (w->phase[id][i] == w->now || !(renamed || w->p->again[id]))) return old;
  w->phase[id][i] = w->now;
  return w->parts[id][i] = write_part(w, v->def, i);
}

/* Elements of one part of a divided value, or of its whole. */
static Value *write_pick(Writer *w, const Op *op) {
  const Attr *regs = op_attr(op, ATTR_regs);
  Value *v = op->args[0];
  int part = w->p->part, n = op->results[0].type->n, i = (int)(regs->ints[0] / part);
  bool one = w->p->divided[v->id] && n <= part;
  int64_t inside[MOST_PART];
  for (int e = 0; one && e < n; e++) {
    one = regs->ints[e] / part == i;
    inside[e] = regs->ints[e] - (int64_t)i * part;
  }
  return one ? pick(w, op->at, part_of(w, op->at, v, i), inside, n)
             : pick(w, op->at, whole_of(w, v), regs->ints, n);
}

static Value *write_whole(Writer *w, Value *v) {
  Op *op = v->def;
  int n = v->type->n, parts = n / w->p->part;
  if (!w->p->divided[v->id] && op->kind == OP_pick) return write_pick(w, op);
  if (w->p->divided[v->id] && op->kind == OP_splat) {
    Value *one = whole_of(w, op->args[0]);
    return write_op(w, op, &one, n);
  }
  Value **args = ARENA_ARRAY(w->p->scratch, Value *, op->nargs + parts + 1);
  if (!w->p->divided[v->id]) {
    for (int i = 0; i < op->nargs; i++) args[i] = whole_of(w, op->args[i]);
    return write_op(w, op, args, n);
  }
  for (int i = 0; i < parts; i++) args[i] = part_of(w, op->at, v, i);
  return &ir_insert(w->k, w->here, OP_join, op->at, args, parts, v->type)->results[0];
}

/* The next load from the same memory is on its way while this one is used. Stores in between keep ptxas from
 * moving it there. */
static void load_ahead(Writer *w, const Op *load) {
  Op *next = w->next_late[load->id];
  if (!next || w->whole[next->results[0].id]) return;
  w->whole[next->results[0].id] = write_whole(w, &next->results[0]);
}

static Value *whole_of(Writer *w, Value *v) {
  if (!v->def || !again_moves(w->p, v->def)) return v;
  if (w->p->ahead && w->p->late[v->def->id] && w->whole[v->id]) load_ahead(w, v->def);
  bool anew = w->p->divided[v->id] && w->whole_in[v->id] != w->now;
  if (w->whole[v->id] && !anew) return w->whole[v->id];
  Value *made = write_whole(w, v);
  w->whole_in[v->id] = w->now;
  w->whole[v->id] = made;
  if (w->p->ahead && w->p->late[v->def->id]) load_ahead(w, v->def);
  return made;
}

/* ---- the program ---- */

/* What the phase that ends computes once, and later ones use. */
static void end_phase(Writer *w, Op *const *ops, int n) {
  for (int i = 0; i < n; i++) {
    Value *v = again_moves(w->p, ops[i]) ? &ops[i]->results[0] : NULL;
    if (!v || w->p->made[v->id] != w->now || w->p->needed[v->id] <= w->now) continue;
    bool once = !w->p->again[v->id] && ops[i]->kind != OP_join && ops[i]->kind != OP_pick;
    if (!w->p->divided[v->id]) whole_of(w, v);
    for (int part = 0; w->p->divided[v->id] && once && part < v->type->n / w->p->part; part++)
      part_of(w, ops[i]->at, v, part);
  }
}

static void visit(Writer *w, Op *const *ops, int n, Op *op) {
  w->here = op;
  if (again_ends_phase(op)) {
    end_phase(w, ops, n);
    w->now++, w->latest = NULL;
  }
  for (int i = 0; i < op->nargs; i++) op->args[i] = whole_of(w, op->args[i]);
  bool found =
      op->kind == OP_shuffle ? w->latest != NULL : op->kind == OP_load && (w->now || op == w->all);
  if (found) w->latest = &op->results[0];
}

static const Op *last_load(const Kernel *k) {
  const Op *last = NULL;
  for (const Op *op = k->body->first; op && !again_ends_phase(op); op = op->next)
    if (op->kind == OP_load && again_is_packed(&op->results[0])) last = op;
  return last;
}

static void open_writer(Writer *w, Phases *p) {
  int n = p->k->nvalues + 1;
  *w = (Writer){.p = p, .k = p->k, .all = last_load(p->k)};
  w->parts = ARENA_ARRAY(p->scratch, Value **, n);
  w->phase = ARENA_ARRAY(p->scratch, int *, n);
  w->whole = ARENA_ARRAY(p->scratch, Value *, n);
  w->whole_in = ARENA_ARRAY(p->scratch, int, n);
  for (const Op *op = p->k->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      if (!p->divided[v->id]) continue;
      w->parts[v->id] = ARENA_ARRAY(p->scratch, Value *, v->type->n / p->part);
      w->phase[v->id] = ARENA_ARRAY(p->scratch, int, v->type->n / p->part);
    }
}

static void find_next_late(Writer *w) {
  w->next_late = ARENA_ARRAY(w->p->scratch, Op *, w->k->nops + 1);
  for (Op *op = w->k->body->first; op; op = op->next)
    for (Op *next = op->next; w->p->late[op->id] && next && !w->next_late[op->id];
         next = next->next)
      if (w->p->late[next->id] && next->args[0] == op->args[0]) w->next_late[op->id] = next;
}

void again_write(Phases *p) {
  Writer w;
  int n = 0;
  Op **ops = ARENA_ARRAY(p->scratch, Op *, p->k->nops + 1);
  open_writer(&w, p);
  find_next_late(&w);
  for (Op *op = p->k->body->first; op; op = op->next) ops[n++] = op;
  for (int i = 0; i < n; i++)
    if (again_moves(p, ops[i])) ir_remove(ops[i]);
  for (int i = 0; i < n; i++)
    if (!again_moves(p, ops[i])) visit(&w, ops, n, ops[i]);
}
