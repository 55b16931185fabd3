/* schedule_names.c: which loops and ops a name in a schedule row stands for. */
#include <string.h>

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "ir/schedule/op_parts.h"
#include "ir/schedule/schedule.h"

const char *const op_class_name[OP_CLASS_COUNT] = {
    "",
#define OP_CLASS(name, doc) #name,
#include "ir/schedule/schedule.def"
};

/* ---- rows ---- */

const char *schedule_target(const Constraint *row) {
  EACH_CLAUSE(cl, row->kind)
    if (strcmp(cl->word, "on") == 0) return *(const char **)clause_field(row, cl);
  return NULL;
}

const OpNames *schedule_ops(const Constraint *row) {
  EACH_CLAUSE(cl, row->kind)
    if (cl->kind == CLAUSE_OPS) return clause_field(row, cl);
  return NULL;
}

bool schedule_is_for(const Constraint *row, const TargetInfo *t) {
  const char *prefix = schedule_target(row);
  return !prefix || strncmp(t->name, prefix, strlen(prefix)) == 0;
}

int schedule_kind_depth(const char *kind) {
  static const struct {
    const char *name;
    int depth;
  } kinds[] = {
#define SCHEDULE_KIND(name, depth, doc) {#name, depth},
#include "ir/schedule/schedule.def"
  };
  for (size_t i = 0; kind && i < WV_LEN(kinds); i++)
    if (strcmp(kinds[i].name, kind) == 0) return kinds[i].depth;
  return 0;
}

int schedule_depth(const Constraint *row) {
  return row->schedule.depth ? row->schedule.depth : schedule_kind_depth(row->schedule.how);
}

bool schedule_peels(const Constraint *row) {
  return row->schedule.drain && strcmp(row->schedule.drain, "peeled") == 0;
}

bool kernel_has_schedule(const Kernel *k) {
  for (int i = 0; i < k->constraints.n; i++)
    if (schedule_is_row(&k->constraints.at[i])) return true;
  return false;
}

/* ---- loops ---- */

static bool has_tag(const Op *op, const char *name) {
  const Attr *tag = op_attr(op, ATTR_tag);
  for (int i = 0; tag && i < tag->n; i++)
    if (strcmp(tag->texts[i], name) == 0) return true;
  return false;
}

const char *schedule_loop_name(Arena *a, const Op *loop) {
  const Attr *tag = op_attr(loop, ATTR_tag);
  return tag && tag->n ? tag->texts[0] : sym_text(a, op_attr(loop, ATTR_axis)->sym);
}

bool schedule_is_called(const Op *loop, const char *name) {
  if (op_has(loop, ATTR_tag)) return has_tag(loop, name);
  const char *axis = sym_name(op_attr(loop, ATTR_axis)->sym);
  if (axis) return strcmp(axis, name) == 0;
  Arena *a = arena_new();
  bool same = strcmp(schedule_loop_name(a, loop), name) == 0;
  arena_free(a);
  return same;
}

Op *schedule_next_loop(const Kernel *k, const Op *from, const char *name) {
  for (Op *op = from ? ir_next(from) : ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_for && (!name || schedule_is_called(op, name))) return op;
  return NULL;
}

const Constraint *schedule_roles(const Kernel *k, const Op *loop, const TargetInfo *t) {
  EACH_ROW(k, roles, row)
    if (schedule_is_for(row, t) && schedule_is_called(loop, row->roles.loop)) return row;
  return NULL;
}

Constraint schedule_service_row(Arena *a, const Kernel *k, const char *loop, int waves) {
  Constraint row = constraint_empty(CONSTRAINT_roles, k->at);
  Role *roles = ARENA_ARRAY(a, Role, 2);
  roles[0] = (Role){"load", SERVICE_WAVES, 0};
  roles[1] = (Role){"math", waves, 0};
  row.roles.loop = loop;
  row.roles.groups = (Roles){roles, 2};
  return row;
}

/* ---- ops ---- */

OpClass schedule_class(const Op *op) {
  if (op_is_product(op)) return OP_CLASS_mma;
  if (op_is_reduction(op) || op_is_scan(op)) return OP_CLASS_reduce;
  if (op->kind == OP_copy) return OP_CLASS_copy;
  if (op->kind == OP_read) return memory_is_scratch(op->args[0]) ? OP_CLASS_fetch : OP_CLASS_load;
  const Value *written = memory_written(op);
  if (!written) return OP_CLASS_none;
  return memory_is_scratch(written) ? OP_CLASS_store : OP_CLASS_write;
}

int schedule_ahead(Kernel *k, const Op *loop, const Op *op) {
  const Attr *at = op_attr(op, ATTR_iteration);
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  int n = 0;
  return at && op_iterations_apart(k, loop, counter, at->pairs[0].value, &n) ? n : 0;
}

static const Op *write_of(const Region *r, const Value *v) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->kind == OP_write && op->args[0] == v) return op;
  return NULL;
}

/* The write of what was read; a loop may carry it to the next iteration. */
static const Op *stored_by(const Op *read) {
  const Region *r = read->parent;
  const Op *yield = r->last, *write = write_of(r, &read->results[0]);
  if (!r->owner || r->owner->kind != OP_for || !yield || yield->kind != OP_yield) return write;
  for (int i = 0; !write && i < yield->nargs && i < r->nargs; i++)
    if (yield->args[i] == &read->results[0]) write = write_of(r, r->args[i]);
  return write;
}

const Value *schedule_fills(const Op *op) {
  const Op *store = schedule_class(op) == OP_CLASS_load ? stored_by(op) : op;
  const Value *memory = store ? memory_written(store) : NULL;
  return memory && memory_is_scratch(memory) ? memory : NULL;
}

/* What an op may be called by, the first that fits. BY_NUMBERED: in a printed kernel, `%x.1` is a value
 * that was called `x`, as another one; a file that was written before names it so. */
typedef enum NameLevel { BY_TAG, BY_VALUE, BY_NUMBERED, BY_MEMORY, BY_KIND, LEVELS } NameLevel;

/* `given` and a number. */
static bool is_numbered(const char *name, const char *given) {
  size_t n = strlen(given);
  if (!name || strncmp(name, given, n) != 0 || name[n] != '.' || !name[n + 1]) return false;
  return strspn(name + n + 1, "0123456789") == strlen(name + n + 1);
}

/* A tile in shared memory is called as that of which it is a copy. */
static const char *accessed_name(const Kernel *k, const Op *op) {
  MemAccess a;
  if (!access_of(op, &a)) return NULL;
  const Value *root = memory_root(a.memory);
  for (const Op *copy = root->def ? ir_first(k) : NULL; copy; copy = ir_next(copy))
    if (copy->kind == OP_copy && memory_root(copy->args[1]) == root)
      return memory_name(k, copy->args[0]);
  return memory_name(k, a.memory);
}

/* The read of global memory whose tile a write stores, possibly in the next iteration; NULL: another
 * value. */
static const Op *stored_read(const Op *write) {
  const Value *v = write->args[0];
  const Region *r = write->parent;
  if (!v->def && v->owner == r && r->last && r->last->kind == OP_yield) v = r->last->args[v->index];
  return v->def && schedule_class(v->def) == OP_CLASS_load ? v->def : NULL;
}

bool schedule_is_half(const Op *op) {
  const Op *read = op->kind == OP_read ? op : op->kind == OP_write ? stored_read(op) : NULL;
  return read && op_has(read, ATTR_iteration) && op_has(op, ATTR_iteration) &&
         schedule_class(read) == OP_CLASS_load && schedule_fills(read);
}

/* What `stages` made of copies, and what nothing fetches, have no kind that a row may name. */
static bool has_kind(const Op *op) {
  bool left = schedule_class(op) == OP_CLASS_fetch && !op->results[0].layout;
  return !left && !schedule_is_half(op);
}

static bool has_own_name(const Kernel *k, const Op *op, const char *name, NameLevel level) {
  const char *memory = level == BY_MEMORY ? accessed_name(k, op) : NULL;
  switch (level) {
  case BY_TAG: return has_tag(op, name);
  case BY_VALUE:
    for (int i = 0; i < op->nresults; i++)
      if (op->results[i].name && strcmp(op->results[i].name, name) == 0) return true;
    return false;
  case BY_NUMBERED: return op->nresults == 1 && is_numbered(op->results[0].name, name);
  case BY_MEMORY: return memory && strcmp(memory, name) == 0;
  case BY_KIND:
  case LEVELS: break;
  }
  return strcmp(op_info[op->kind].name, name) == 0 && has_kind(op);
}

/* What fills shared memory also has the names of the reads there. */
static bool has_name(const Kernel *k, const Op *op, const char *name, NameLevel level) {
  if (has_own_name(k, op, name, level)) return true;
  const Value *memory = level <= BY_NUMBERED ? schedule_fills(op) : NULL;
  for (const Op *read = memory ? ir_first(k) : NULL; read; read = ir_next(read))
    if (read->kind == OP_read && memory_root(read->args[0]) == memory &&
        has_own_name(k, read, name, level))
      return true;
  return false;
}

/* Before a machine is chosen, a kernel is as it was written. */
static bool is_written(const Kernel *k) { return !kernel_constraint(k, CONSTRAINT_machine, NULL); }

/* What was written as a read may be any of its classes, on one machine or the other. By their kinds, ops
 * of a machine are told apart that the compiler made: these have one class. */
static bool has_class(const Kernel *k, const Op *op, OpClass class, NameLevel level) {
  if (class == OP_CLASS_none) return true;
  OpClass own = schedule_class(op);
  bool moves = class == OP_CLASS_copy || class == OP_CLASS_load || class == OP_CLASS_store;
  if (own == class) return true;
  if (level == BY_KIND && !is_written(k)) return false;
  if (own == OP_CLASS_copy) return moves && schedule_fills(op);
  return own == OP_CLASS_load && (moves || class == OP_CLASS_fetch) && !op_has(op, ATTR_iteration);
}

/* Of an op that is not divided yet, a part is all of it. */
static bool has_parts(const Op *op, const OpName *name) {
  const Sym *dims[PART_DIMS];
  int n = op_has(op, ATTR_part) && name->nparts ? parts_dims(op, dims) : 0, found = 0, of;
  for (int i = 0; i < n; i++) {
    OpPart part = parts_along(op, i);
    int at = schedule_named_part(name, sym_name(dim_base(dims[i])), &of);
    if (of == 1) continue;
    if (at != part.at || of != part.of) return false;
    found++;
  }
  return !n || found == name->nparts;
}

/* Ops of a loop inside belong to that one. */
static bool belongs_to(const Op *op, const Op *loop) {
  const Op *outer = op->parent->owner;
  while (outer && outer != loop && outer->kind != OP_for && outer->kind != OP_while)
    outer = outer->parent->owner;
  return outer == loop;
}

enum {
  MOST_CARRIED = 8, /* iterations for which a value is carried */
  MOST_DEPTH = 4    /* ops from one that is compared to what it was made of */
};

/* The op that computes a value, in the same iteration or, if the loop carries it, in an earlier one; NULL:
 * none does. */
static const Op *maker_of(const Value *v) {
  const Region *body = v->owner;
  for (int i = 0; !v->def && body && body->last && v->index < body->last->nargs && i < MOST_CARRIED;
       i++)
    v = body->last->args[v->index];
  return v->def;
}

static int compare_spans(Span a, Span b) {
  if (a.file != b.file) return a.file < b.file ? -1 : 1;
  if (a.line != b.line) return a.line < b.line ? -1 : 1;
  return a.col != b.col ? (a.col < b.col ? -1 : 1) : 0;
}

/* -1, 0 or 1, by where they are in the source. Ops that the compiler made of one are told apart by what
 * they use, as far as that is so: their order in the program depends on the schedule. */
static int compare_sources(const Op *a, const Op *b, int depth) {
  if (a == b || !a || !b) return (a != NULL) - (b != NULL);
  int by = compare_spans(a->at, b->at);
  for (int i = 0; !by && depth && i < a->nargs && i < b->nargs; i++)
    by = compare_sources(maker_of(a->args[i]), maker_of(b->args[i]), depth - 1);
  return by;
}

/* The first in the source of the ops beside it that use it; NULL: none does. */
static const Op *user_of(const Op *op) {
  const Op *first = NULL;
  for (const Op *user = op->parent->first; user; user = user->next)
    for (int i = 0; user->kind != OP_yield && i < user->nargs; i++)
      if (maker_of(user->args[i]) == op && (!first || compare_spans(user->at, first->at) < 0))
        first = user;
  return first;
}

/* Copies of an op with the same operands are distinguished by what uses them. */
static bool is_earlier(const Op *a, const Op *b) {
  int by = compare_sources(a, b, MOST_DEPTH);
  for (int i = 0; !by && a && b && i < MOST_DEPTH; i++) {
    a = user_of(a), b = user_of(b);
    by = compare_sources(a, b, 0);
  }
  return by < 0;
}

/* The `at`-th of them in the source. A kernel as it was written may still get more of them. */
static OpList pick(Arena *a, const Kernel *k, OpList found, const OpName *name) {
  OpList one = {0};
  if (!name->of || (is_written(k) && name->of != found.n)) return found;
  for (int i = 1; i < found.n; i++)
    for (int j = i; j > 0 && is_earlier(found.at[j], found.at[j - 1]); j--) {
      Op *later = found.at[j - 1];
      found.at[j - 1] = found.at[j], found.at[j] = later;
    }
  if (name->of == found.n) vec_push(a, &one, found.at[name->at]);
  return one;
}

OpList schedule_find(Arena *a, const Kernel *k, const Op *loop, const char *text) {
  OpName name = schedule_split_name(a, text);
  OpList found = {0};
  for (int level = 0; level < LEVELS && !found.n; level++) {
    for (Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
      if (belongs_to(op, loop) && has_class(k, op, name.class, (NameLevel)level) &&
          has_parts(op, &name) && has_name(k, op, name.plain, (NameLevel)level))
        vec_push(a, &found, op);
    if (level == BY_NUMBERED && found.n > 1) found.n = 0; /* which one is not known */
  }
  return pick(a, k, found, &name);
}

bool schedule_finds(Arena *a, const Kernel *k, const Constraint *row, const char *name) {
  for (const Op *loop = NULL; (loop = schedule_next_loop(k, loop, row->scheduled.loop));)
    if (schedule_find(a, k, loop, name).n) return true;
  return false;
}

/* ---- naming ops ---- */

/* A name of the op itself at this level; NULL: it has none. */
static const char *own_name(const Kernel *k, const Op *op, NameLevel level) {
  const Attr *tag = op_attr(op, ATTR_tag);
  switch (level) {
  case BY_TAG: return tag && tag->n ? tag->texts[0] : NULL;
  case BY_VALUE: return op->nresults ? op->results[0].name : NULL;
  case BY_NUMBERED: return NULL;
  case BY_MEMORY: return accessed_name(k, op);
  case BY_KIND:
  case LEVELS: break;
  }
  return op_info[op->kind].name;
}

static const char *name_at(const Kernel *k, const Op *op, NameLevel level) {
  const Value *memory = level <= BY_VALUE ? schedule_fills(op) : NULL;
  if (!memory) return own_name(k, op, level);
  for (const Op *read = ir_first(k); read; read = ir_next(read))
    if (read->kind == OP_read && memory_root(read->args[0]) == memory)
      return own_name(k, read, level);
  return NULL;
}

/* `K 0/2, M 1/2`; empty: it is whole. */
static const char *parts_text(Arena *a, const Op *op) {
  const Sym *dims[PART_DIMS];
  StrBuf out = {.arena = a};
  int n = op_has(op, ATTR_part) ? parts_dims(op, dims) : 0;
  for (int i = 0; i < n; i++) {
    OpPart part = parts_along(op, i);
    if (part.of > 1)
      sb_printf(&out, "%s%s %d/%d", out.n ? ", " : "", sym_name(dim_base(dims[i])), part.at,
                part.of);
  }
  return sb_text(&out);
}

/* With its class, if its name does not say it, and the part that it is; `which` of how many ops: of 0:
 * any. */
static const char *full_name(Arena *a, const Kernel *k, const Op *op, NameLevel level,
                             OpPart which) {
  OpClass class = schedule_class(op);
  const char *name = name_at(k, op, level), *parts = parts_text(a, op);
  StrBuf out = {.arena = a};
  if (!name || !*name) return NULL;
  sb_puts(&out, name);
  if (class != OP_CLASS_none && strcmp(name, op_class_name[class]) != 0)
    sb_printf(&out, ".%s", op_class_name[class]);
  if (which.of || *parts) sb_putc(&out, '[');
  if (which.of) sb_printf(&out, "%d/%d%s", which.at, which.of, *parts ? ", " : "");
  sb_puts(&out, parts);
  if (which.of || *parts) sb_putc(&out, ']');
  return sb_text(&out);
}

const char *schedule_exact_name(Arena *a, const Kernel *k, const Op *loop, const Op *op,
                                NameFn *accepts, const void *user) {
  for (int level = 0; level < LEVELS; level++) {
    const char *name = full_name(a, k, op, (NameLevel)level, (OpPart){0});
    OpList found = {0};
    if (name && (!accepts || accepts(user, name))) found = schedule_find(a, k, loop, name);
    for (int i = 0; found.n <= SCHEDULE_PARTS && i < found.n; i++) {
      const char *one = full_name(a, k, op, (NameLevel)level, (OpPart){i, found.n});
      if (found.n == 1) one = name;
      OpList same = schedule_find(a, k, loop, one);
      if (same.n == 1 && same.at[0] == op) return one;
    }
  }
  return NULL;
}

const char *schedule_name_of(Arena *a, const Kernel *k, const Op *loop, const Op *op,
                             SameOpFn *same, const void *user) {
  for (int level = 0; level < LEVELS; level++) {
    const char *name = full_name(a, k, op, (NameLevel)level, (OpPart){0});
    if (!name) continue;
    OpList found = schedule_find(a, k, loop, name);
    bool ok = found.n > 0;
    for (int i = 0; ok && i < found.n; i++) ok = same(user, found.at[i]);
    if (ok) return name;
  }
  return NULL;
}
