/* infer_memory.c: the rules of ops that access memory: reads, writes, atomics and copies, and the
 * requirements on their mappings. */
#include <string.h>

#include "base/failures.h"
#include "ir/attr.h"
#include "ir/infer/infer.h"
#include "ir/ops/access.h"

static bool pairs_have(SymPairs pairs, const Sym *dim) {
  for (int i = 0; i < pairs.n; i++)
    if (dim_base(pairs.at[i].key) == dim_base(dim)) return true;
  return false;
}

/* The first dimension of the memory that gets no coordinate; NULL: all have one. */
static const Sym *without_coordinate(SymPairs coords, const Type *mem) {
  for (int i = 0; i < mem->rank; i++)
    if (!pairs_have(coords, mem->dims[i])) return mem->dims[i];
  return NULL;
}

/* Whether the register side lists its dimensions in iterator order: {A: $index0, B: $index1,
 * ...}. */
static bool is_identity(const Infer *in, const Mapping *m, SymPairs side) {
  bool same = side.n == m->niterators;
  for (int i = 0; same && i < side.n; i++)
    same = side.at[i].value == ir_numbered_symbol(in->k->cx, "$index", i, true);
  return same;
}

static bool is_iterator(const Infer *in, const Mapping *m, const Sym *s) {
  for (int i = 0; i < m->niterators; i++)
    if (s == ir_numbered_symbol(in->k->cx, "$index", i, true)) return true;
  return false;
}

/* Whether there are only iterators, in any order: a register side that only has to be
 * renumbered. */
static bool is_iterators(const Infer *in, const Mapping *m, SymPairs side) {
  bool plain = side.n == m->niterators;
  for (int i = 0; plain && i < side.n; i++) plain = is_iterator(in, m, side.at[i].value);
  return plain;
}

/* Puts the call in Python that returns a numbered symbol, if the text begins with that. Returns how much
 * of the text it is; 0: nothing. */
static size_t put_call(StrBuf *out, const char *text, const char *symbol, const char *call) {
  size_t n = strlen(symbol),
         digits = strspn(text + (strncmp(text, symbol, n) ? 0 : n), "0123456789");
  if (strncmp(text, symbol, n) != 0 || !digits) return 0;
  sb_printf(out, "%s(%.*s)", call, (int)digits, text + n);
  return n + digits;
}

/* Iterators and values from memory as an author writes them. */
static const char *written_text(const Infer *in, const Sym *e) {
  StrBuf out = {.arena = in->k->cx->diags.arena};
  for (const char *text = infer_expr(in, e); *text;) {
    size_t n = put_call(&out, text, "$index", "iterator");
    if (!n) n = put_call(&out, text, "$dynamic_val", "dynamic_val");
    if (!n) sb_putc(&out, *text);
    text += n ? n : 1;
  }
  return sb_text(&out);
}

static const char *pairs_text(const Infer *in, SymPairs pairs) {
  StrBuf out = {.arena = in->k->cx->diags.arena};
  for (int i = 0; i < pairs.n; i++)
    sb_printf(&out, "%s%s: %s", i ? ", " : "", infer_expr(in, pairs.at[i].key),
              written_text(in, pairs.at[i].value));
  return sb_text(&out);
}

/* The sides of a mapping are exchanged. Both forms are shown, since the names `inputs` and
 * `outputs` alone do not say which of them belongs to the memory. */
static bool fail_exchanged(const Infer *in, const Mapping *m, bool memory_is_input) {
  const char *right = memory_is_input ? "inputs" : "outputs",
             *wrong = memory_is_input ? "outputs" : "inputs";
  bool is_read = in->op->kind == OP_read || !memory_is_input;
  const char *hint = arena_printf(in->k->cx->diags.arena, "swap them: `inputs={%s}, outputs={%s}`",
                                  pairs_text(in, m->outputs), pairs_text(in, m->inputs));
  return INFER_FAIL_HINT(
      in, E0314, hint,
      "`%s` takes the memory coordinates from `%s` of its mapping%s, but they are in `%s`",
      infer_name(in), right, is_read ? "" : ", as `read` does", wrong);
}

static bool fail_missing(const Infer *in, const Sym *dim, const Type *mem) {
  return INFER_FAIL(in, E0314, "the mapping has no coordinate for dimension `%s` of %s",
                    infer_expr(in, dim), infer_shown(in, mem));
}

static bool check_identity(const Infer *in, const Mapping *m, SymPairs side, const char *which) {
  if (is_identity(in, m, side)) return true;
  return INFER_FAIL_HINT(
      in, E0314, "number the iterators in the order of the register's dimensions",
      "`%s` of `%s` must map the dimensions to the iterators in order", which, infer_name(in));
}

/* One side gives every dimension of the memory a coordinate, the other lists the register's. */
static bool check_sides(const Infer *in, const Mapping *m, const Type *mem, bool memory_is_input) {
  SymPairs coords = memory_is_input ? m->inputs : m->outputs;
  SymPairs iterated = memory_is_input ? m->outputs : m->inputs;
  const Sym *missing = without_coordinate(coords, mem);
  if (!missing && is_identity(in, m, iterated)) return true;
  bool renumbered = !missing && is_iterators(in, m, iterated);
  if (!renumbered && is_identity(in, m, coords) && !without_coordinate(iterated, mem))
    return fail_exchanged(in, m, memory_is_input);
  if (!missing) return check_identity(in, m, iterated, memory_is_input ? "outputs" : "inputs");
  return fail_missing(in, missing, mem);
}

static bool mentions(SymPairs pairs, const Sym *symbol) {
  for (int i = 0; i < pairs.n; i++)
    if (sym_contains(pairs.at[i].value, symbol)) return true;
  return false;
}

/* A dynamic value comes from memory and may be negative; a mapping may also promise that it is
 * not. */
static bool uses_dynamic(const Infer *in, const Mapping *m, int i) {
  const Sym *any = ir_numbered_symbol(in->k->cx, "$dynamic_val", i, false);
  const Sym *promised = ir_numbered_symbol(in->k->cx, "$dynamic_val", i, true);
  return mentions(m->inputs, any) || mentions(m->outputs, any) || mentions(m->inputs, promised) ||
         mentions(m->outputs, promised);
}

enum { MAX_DYNAMIC = 16 };

/* As many dynamic values as the mapping mentions, all integers. */
static bool check_dynamic(const Infer *in, const Mapping *m, int first) {
  int found = in->op->nargs - first, wanted = m ? m->ndynamic : 0;
  if (m)
    for (int i = wanted; i < MAX_DYNAMIC; i++)
      if (uses_dynamic(in, m, i)) wanted = i + 1;
  if (found != wanted)
    return INFER_FAIL(in, E0320, "`%s` got %d dynamic value%s, but its mapping has %d",
                      infer_name(in), found, found == 1 ? "" : "s", wanted);
  for (int i = first; i < in->op->nargs; i++)
    if (!infer_need_value(in, i) ||
        !infer_need_class(in, i, infer_is_integral(infer_arg(in, i)), "integers as dynamic values"))
      return false;
  return true;
}

static const Mapping *mapping_of(const Op *op) {
  const Attr *a = op_attr(op, ATTR_mapping);
  return a ? a->mapping : NULL;
}

/* A register dimension that belongs to a scaled dimension of the memory takes the memory's entry,
 * so that `K/2` stays `K/2`. */
static const Sym *entry_for(const Type *mem, const Sym *dim) {
  for (int i = 0; i < mem->rank; i++)
    if (dim_base(mem->dims[i]) == dim) return mem->dims[i];
  return dim;
}

bool rule_read(Infer *in) {
  if (!infer_need_memory(in, 0)) return false;
  const Type *mem = infer_arg(in, 0);
  const Mapping *m = mapping_of(in->op);
  if (!check_dynamic(in, m, 1)) return false;
  if (!m) return infer_result(in, type_tile(in->k->cx, mem->dims, mem->rank, mem->dtype));
  if (!check_sides(in, m, mem, true)) return false;
  const Sym *dims[IR_MAX_RANK];
  int n = m->outputs.n;
  if (n > IR_MAX_RANK)
    return INFER_FAIL(in, E0319, "a mapping has at most %d iterators", IR_MAX_RANK);
  for (int i = 0; i < n; i++) dims[i] = entry_for(mem, m->outputs.at[i].key);
  return infer_result(in, type_tile(in->k->cx, dims, n, mem->dtype));
}

bool rule_inside(Infer *in) {
  return rule_read(in) && infer_result(in, type_with_dtype(in->k->cx, in->out[0], DTYPE_i1));
}

bool infer_stores_as(DType from, DType to) {
  DTypeClass f = dtype_info[from].class, t = dtype_info[to].class;
  if (from == to) return true;
  if (f != DTYPE_FLOAT && f != DTYPE_BOOL)
    return t == DTYPE_INDEX || (f == DTYPE_INDEX && (t == DTYPE_INT || t == DTYPE_UINT)) ||
           t == DTYPE_FLOAT;
  return f == DTYPE_FLOAT && t == DTYPE_FLOAT && dtype_info[from].bits >= 16 &&
         dtype_info[to].bits >= 16;
}

/* The value's dimensions are those of the mapping's register side, up to scaling. */
static bool matches_side(const Infer *in, SymPairs side, const Type *value) {
  bool fits = true;
  for (int i = 0; i < value->rank; i++) fits &= pairs_have(side, value->dims[i]);
  if (fits) return true;
  return INFER_FAIL(in, E0304,
                    "%s does not have the dimensions of the register side of the mapping",
                    infer_shown(in, value));
}

/* A dimension that the memory lacks may only have one element at a time. */
static bool check_store_shape(const Infer *in, const Type *value, const Type *mem) {
  for (int i = 0; i < value->rank; i++)
    if (!type_has_dim(mem, value->dims[i]) && !ir_one_at_a_time(in->k, value->dims[i]))
      return INFER_FAIL_HINT(
          in, E0304, "reduce it, or specify where its elements go with a mapping",
          "%s written to %s: the memory has no dimension `%s`", infer_shown(in, value),
          infer_shown(in, mem), infer_expr(in, value->dims[i]));
  if (access_spread(in->k->cx, in->op)) return true;
  return INFER_FAIL(in, E0319, "%s written to %s: together they have more than %d dimensions",
                    infer_shown(in, value), infer_shown(in, mem), IR_MAX_RANK);
}

bool rule_write(Infer *in) {
  if (!infer_need_value(in, 0) || !infer_need_memory(in, 1)) return false;
  const Type *value = infer_arg(in, 0), *mem = infer_arg(in, 1);
  const Mapping *m = mapping_of(in->op);
  if (!check_dynamic(in, m, 2)) return false;
  if (value->dtype != mem->dtype)
    return INFER_FAIL_HINT(in, E0301, "use `cast` before the write", "%s cannot be stored to %s",
                           infer_shown(in, value), infer_shown(in, mem));
  if (!m) return check_store_shape(in, value, mem);
  return check_sides(in, m, mem, false) && matches_side(in, m->inputs, value);
}

bool rule_log(Infer *in) {
  const Mapping *m = mapping_of(in->op);
  if (!infer_need_value(in, 0) || !check_dynamic(in, m, 1)) return false;
  return !m || (check_identity(in, m, m->inputs, "inputs") &&
                matches_side(in, m->inputs, infer_arg(in, 0)));
}

bool rule_stamp(Infer *in) {
  if (!infer_need_memory(in, 0)) return false;
  const Type *t = infer_arg(in, 0);
  if (t->rank == 1 && t->dtype == DTYPE_i64) return true;
  return INFER_FAIL(in, E0301, "`stamp` stores to a list of i64, not to %s", infer_shown(in, t));
}

static bool check_each(const Infer *in) {
  const Attr *each = op_attr(in->op, ATTR_each);
  if (!each || strcmp(each->text, "wave") == 0 || strcmp(each->text, "thread") == 0) return true;
  return INFER_FAIL(in, E0318, "`each` of `%s` must be `wave` or `thread`, not `%s`",
                    infer_name(in), each->text);
}

/* Atomics take their mapping in read orientation: memory coordinates are the inputs. */
bool rule_atomic(Infer *in) {
  if (!infer_need_value(in, 0) || !infer_need_memory(in, 1)) return false;
  const Type *value = infer_arg(in, 0), *mem = infer_arg(in, 1);
  const Mapping *m = mapping_of(in->op);
  OpKind kind = in->op->kind;
  int first = atomic_operands(kind);
  if (!check_dynamic(in, m, first) || !check_each(in)) return false;
  if (value->dtype != mem->dtype)
    return INFER_FAIL_HINT(in, E0301, "use `cast` on the operand",
                           "`%s` of %s to %s: the dtypes differ", infer_name(in),
                           infer_shown(in, value), infer_shown(in, mem));
  if (first > 2 && (!infer_need_value(in, 2) || infer_arg(in, 2) != value))
    return INFER_FAIL(in, E0302, "`%s` stores %s where %s is expected: the types differ",
                      infer_name(in), infer_shown(in, value), infer_shown(in, infer_arg(in, 2)));
  bool bits = kind == OP_atomic_and || kind == OP_atomic_or || kind == OP_atomic_xor;
  if (bits && !infer_need_class(in, 0, infer_is_integral(value), "integers")) return false;
  if (dtype_info[value->dtype].class == DTYPE_BOOL && !infer_need_class(in, 0, false, "numbers"))
    return false;
  if (m ? !check_sides(in, m, mem, true) : !check_store_shape(in, value, mem)) return false;
  return infer_result(in, value);
}

bool rule_scatter(Infer *in) {
  if (!infer_need_value(in, 0) || !infer_need_value(in, 1) || !infer_need_memory(in, 2))
    return false;
  const Mapping *m = mapping_of(in->op);
  const Attr *pos = op_attr(in->op, ATTR_pos);
  const Type *mem = infer_arg(in, 2);
  if (!m) return INFER_FAIL(in, E0318, "`scatter_add` needs a mapping");
  if (!check_each(in)) return false;
  if (!pos || pos->integer < 0 || pos->integer >= mem->rank)
    return INFER_FAIL(in, E0318,
                      "`dim` of `scatter_add` must be a coordinate position of %s, 0 to %d",
                      infer_shown(in, mem), mem->rank - 1);
  if (!infer_need_class(in, 1, infer_is_integral(infer_arg(in, 1)), "an integer index"))
    return false;
  if (infer_arg(in, 0)->dtype != mem->dtype)
    return INFER_FAIL(in, E0301, "`scatter_add` of %s to %s: the dtypes differ",
                      infer_shown(in, infer_arg(in, 0)), infer_shown(in, mem));
  const Sym *missing = without_coordinate(m->outputs, mem);
  if (missing && !without_coordinate(m->inputs, mem)) return fail_exchanged(in, m, false);
  if (!missing) return true;
  return fail_missing(in, missing, mem);
}

/* Rows are filled without a test: the whole table must lie in the memory. */
static bool has_table(const Infer *in, const Mapping *m, const Type *mem) {
  const Constraint *row = kernel_constraint(in->k, CONSTRAINT_bind, mem->dims[0]);
  const Sym *at = pairs_get(m->inputs, mem->dims[0]);
  int64_t words, word;
  if (row && at && sym_is_int(row->bind.value, &words) && sym_is_int(at, &word) && word >= 0 &&
      words >= FAILURE_WORDS && word <= words - FAILURE_WORDS)
    return true;
  return INFER_FAIL(in, E0318, "`report` needs a table of %d words in a memory of known size",
                    FAILURE_WORDS);
}

/* The words of a row have the shape of the condition. */
bool rule_report(Infer *in) {
  if (!infer_need_value(in, 0) || !infer_need_memory(in, 1)) return false;
  const Type *cond = infer_arg(in, 0), *mem = infer_arg(in, 1);
  const Mapping *m = mapping_of(in->op);
  if (!infer_need_class(in, 0, dtype_info[cond->dtype].class == DTYPE_BOOL, "a condition") ||
      !check_each(in))
    return false;
  if (mem->dtype != DTYPE_i64 || mem->rank != 1 || in->op->nargs > 2 + FAILURE_COLUMNS)
    return INFER_FAIL(in, E0318,
                      "`report` writes at most %d words into an i64 memory with one dimension",
                      FAILURE_COLUMNS);
  if (!m) return INFER_FAIL(in, E0318, "`report` needs a mapping that says where its table starts");
  for (int i = 2; i < in->op->nargs; i++)
    if (!infer_need_value(in, i) ||
        !infer_need_class(in, i, infer_arg(in, i) == type_with_dtype(in->k->cx, cond, DTYPE_i64),
                          "i64 with the dimensions of the condition"))
      return false;
  const Sym *missing = without_coordinate(m->inputs, mem);
  return missing ? fail_missing(in, missing, mem) : has_table(in, m, mem);
}

/* A copy runs over the dims of its allocation; its other side is addressed like the memory of a
 * read or write. */
bool rule_copy(Infer *in) {
  if (!infer_need_memory(in, 0) || !infer_need_memory(in, 1)) return false;
  const Mapping *m = mapping_of(in->op);
  bool from = memory_is_scratch(in->op->args[0]), to = memory_is_scratch(in->op->args[1]);
  const Type *local = infer_arg(in, to ? 1 : 0), *mem = infer_arg(in, to ? 0 : 1);
  if (from == to)
    return INFER_FAIL(in, E0304,
                      "`copy` of %s to %s: one must be an allocation, the other an argument",
                      infer_shown(in, infer_arg(in, 0)), infer_shown(in, infer_arg(in, 1)));
  const Attr *mode = op_attr(in->op, ATTR_mode);
  if (mode && !copy_goes_by(in->op, "tma") && !copy_goes_by(in->op, "load") &&
      !copy_goes_by(in->op, "bulk") && !copy_is_awaited(in->op))
    return INFER_FAIL(
        in, E0318,
        "the mode of a copy must be `load`, `direct`, `async`, `tma` or `bulk`, not `%s`",
        mode->text);
  if (copy_barriers(in->op) ? !infer_need_mbars(in, 2) : !check_dynamic(in, m, 2)) return false;
  if (local->dtype != mem->dtype)
    return INFER_FAIL(in, E0301, "`copy` of %s to %s: the dtypes differ",
                      infer_shown(in, infer_arg(in, 0)), infer_shown(in, infer_arg(in, 1)));
  if (!m) return check_store_shape(in, local, mem);
  return check_sides(in, m, mem, to) && matches_side(in, to ? m->outputs : m->inputs, local);
}
