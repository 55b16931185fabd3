/* access.c: see access.h. */
#include "ir/ops/access.h"

#include <stdlib.h>
#include <string.h>

#include "ir/attr.h"
#include "ir/infer/infer.h"
#include "ir/schedule/turn_ops.h"

const Sym *access_x(SymCtx *cx, int i) { return sym_numbered(cx, "$x", i, true); }
const Sym *access_y(SymCtx *cx, int i) { return sym_numbered(cx, "$y", i, false); }
const Sym *access_n(SymCtx *cx, int i) { return sym_numbered(cx, "$n", i, true); }
const Sym *access_iterator(SymCtx *cx, int i) { return sym_numbered(cx, "$index", i, true); }

/* The text does not give its sign, but values from memory may be negative. */
const Sym *access_dynamic(SymCtx *cx, int i, bool given) {
  return sym_numbered(cx, "$dynamic_val", i, given);
}

/* ---- shape ---- */

const Value *memory_root(const Value *memory) {
  for (;;) {
    const Op *op = memory->def ? memory->def : memory->owner->owner;
    if (!op || op->kind == OP_alloc) return memory;
    int axis = memory->owner && op->kind == OP_while ? 1 : 0;
    memory = op->args[op_carried(op) + memory->index - axis];
  }
}

const Value *memory_written(const Op *op) {
  switch (op->kind) {
  case OP_write:
  case OP_report:
#define ATOMIC(op, word, combine) case OP_##op:
#include "ir/ops/atomics.def"
  case OP_copy:
  case OP_store:
  case OP_store_rows:
  case OP_atomic: return op->args[1];
  case OP_scatter_add:
  case OP_tma_store: return op->args[2];
  case OP_copy_async:
  case OP_tma_load: return op->args[0];
  default: return NULL;
  }
}

const char *memory_name(const Kernel *k, const Value *memory) {
  const Value *root = memory_root(memory);
  if (root->def) return root->name ? root->name : "scratch";
  return k->params.at[root->index].name;
}

bool memory_is_written(const Kernel *k, const Value *memory) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Value *written = memory_written(op);
    if (written && memory_root(written) == memory) return true;
  }
  return false;
}

static bool is_written_from(const Op *op, const Value *memory) {
  for (; op; op = ir_next(op)) {
    const Value *written = memory_written(op);
    if (written && memory_root(written) == memory) return true;
  }
  return false;
}

const Op *access_reread(const Kernel *k) {
  const Op *rest = NULL;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_has(op, ATTR_grid)) rest = op->next;
  for (const Op *op = rest; op; op = ir_next(op))
    if (op->kind == OP_read && !memory_is_scratch(op->args[0]) &&
        is_written_from(rest, memory_root(op->args[0])))
      return op;
  return NULL;
}

bool memory_is_view(const Kernel *k, const Value *memory) {
  if (memory_is_scratch(memory)) return false;
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_view &&
        strcmp(sym_name(k->constraints.at[i].view.argument), memory_name(k, memory)) == 0)
      return true;
  return false;
}

const Sym *memory_symbol(const Kernel *k, const Value *memory, const char *what, int dim) {
  return ir_param_symbol(k, memory_root(memory)->index, what, dim);
}

bool copy_goes_by(const Op *op, const char *mode) {
  const Attr *how = op->kind == OP_copy ? op_attr(op, ATTR_mode) : NULL;
  return how && strcmp(how->text, mode) == 0;
}

bool copy_is_awaited(const Op *op) {
  return copy_goes_by(op, "async") || copy_goes_by(op, "direct");
}

int op_peers(const Op *op) {
  const Attr *peers = op_attr(op, ATTR_peers);
  return peers ? (int)peers->integer : 1;
}

bool op_is_private(const Op *op) {
  if (op->kind == OP_turn) return !turn_is_lagged(op);
  return !op->body && (op_is_pure(op) || op->kind == OP_read);
}

/* `op` makes what the loop carries as `v` in the next iteration. */
static bool makes_next(const Op *op, const Value *v) {
  const Region *r = op->parent;
  const Op *yield = r->last;
  if (v->def || v->owner != r || !r->owner || r->owner->kind != OP_for) return false;
  for (int i = 0; i < r->nargs && i < yield->nargs; i++)
    if (r->args[i] == v && yield->args[i]->def == op) return true;
  return false;
}

static const MmaChoice *shared_product(const Op *op) {
  const Attr *choice = op && op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
  return choice && (choice->mma->shared_lhs || choice->mma->shared_rhs) ? choice->mma : NULL;
}

/* `op` only adds to the product, in the same registers: the instructions of both are executed in order. */
static bool continues_product(const Op *op, const Value *product) {
  const MmaChoice *next = shared_product(op), *first = shared_product(product->def);
  if (!next || !first || next->name != first->name || next->swap != first->swap) return false;
  return op->args[product_acc(op)] == product && op->parent == product->def->parent &&
         ir_count_uses(product->def->parent, product) == 1;
}

bool op_awaits_product(const Op *op, const Value *product) {
  if (!product || continues_product(op, product)) return false;
  const Op *mma = op_takes(op, product) ? NULL : product->def;
  for (int i = 0; mma && i < mma->nargs; i++)
    if (makes_next(op, mma->args[i])) return true;
  return !mma;
}

bool copy_ends_before(const Op *op) {
  unsigned flags = op_info[op->kind].flags;
  if (op->kind == OP_async_commit) return false;
  if (turn_is_lagged(op)) return true;
  return op->body || (flags & OPF_ENDS) || ((flags & OPF_SYNC) && !(flags & OPF_HINT));
}

const Sym *op_slot(const Op *op) {
  const Attr *slot = op_attr(op, ATTR_slot);
  return slot ? slot->sym : NULL;
}

Value *copy_barriers(const Op *op) {
  return copy_goes_by(op, "tma") && op->nargs == 3 ? op->args[2] : NULL;
}

bool op_is_served(const Kernel *k, const Op *op) {
  if (!op_has(op, ATTR_role)) return false;
  bool may = op->kind == OP_mbar_wait || op->kind == OP_wave_registers || op->kind == OP_prefetch ||
             copy_barriers(op);
  const MachineSpec *machine = may ? kernel_machine(k) : NULL;
  return machine && machine->service;
}

Op *op_parting(const Region *r) {
  Op *op = r->first;
  while (op && (op->kind != OP_barrier || strcmp(op_attr(op, ATTR_mode)->text, "roles") != 0))
    op = op->next;
  return op;
}

static void take_mapping(MemAccess *a, bool memory_is_input) {
  const Attr *mapping = op_attr(a->op, ATTR_mapping);
  if (!mapping) return;
  a->mapping = mapping->mapping;
  a->coords = memory_is_input ? a->mapping->inputs : a->mapping->outputs;
  a->iterated = memory_is_input ? a->mapping->outputs : a->mapping->inputs;
}

/* `memory` is operand number `at`; dynamic values begin at operand `dynamic`. */
static void take_memory(MemAccess *a, int at, int dynamic) {
  a->memory_arg = at;
  a->memory = a->op->args[at];
  a->dynamic = a->op->args + dynamic;
  a->ndynamic = a->op->nargs - dynamic;
  a->local = memory_is_scratch(a->memory);
  a->test_extents = !a->local;
}

const Sym *access_pair(SymPairs pairs, const Sym *dim) {
  for (int i = 0; i < pairs.n; i++)
    if (dim_base(pairs.at[i].key) == dim_base(dim)) return pairs.at[i].value;
  return NULL;
}

bool access_of(const Op *op, MemAccess *out) {
  *out = (MemAccess){.op = op, .replaced = -1};
  switch (op->kind) {
  case OP_inside:
  case OP_read:
    out->tile = op->results[0].type;
    take_memory(out, 0, 1);
    take_mapping(out, true);
    return true;
  case OP_write:
    out->tile = op->args[0]->type;
    take_memory(out, 1, 2);
    take_mapping(out, false);
    return true;
#define ATOMIC(op, word, combine) case OP_##op:
#include "ir/ops/atomics.def"
    out->tile = op->args[0]->type;
    take_memory(out, 1, atomic_operands(op->kind));
    take_mapping(out, true);
    out->test_extents = true; /* an element that does not exist adds nothing */
    return true;
  case OP_report:
    out->tile = op->args[0]->type;
    take_memory(out, 1, op->nargs); /* the others are stored */
    take_mapping(out, true);
    return true;
  case OP_scatter_add:
    out->tile = op->args[0]->type;
    take_memory(out, 2, 3);
    take_mapping(out, false);
    out->test_extents = true;
    out->replaced = (int)op_attr(op, ATTR_pos)->integer;
    return true;
  case OP_prefetch: /* of a tile with the dims of the memory */
    if (op->nargs > 1) return false;
    out->tile = op->args[0]->type;
    take_memory(out, 0, 1);
    return true;
  case OP_copy: {
    bool in = memory_is_scratch(op->args[1]);
    out->tile = op->args[in ? 1 : 0]->type;
    take_memory(out, in ? 0 : 1, 2);
    if (copy_barriers(op)) out->ndynamic = 0;
    take_mapping(out, in);
    return true;
  }
  default: return false;
  }
}

const Type *access_spread(Context *cx, const Op *op) {
  const Type *value = op->args[0]->type, *memory = op->args[1]->type;
  const Sym *dims[IR_MAX_RANK];
  int n = value->rank;
  if (op_has(op, ATTR_mapping) || (op->kind != OP_write && op_has(op, ATTR_ept))) return value;
  for (int i = 0; i < n; i++) dims[i] = value->dims[i];
  for (int i = 0; i < memory->rank; i++) {
    if (type_base_dim(value, memory->dims[i]) >= 0) continue;
    if (n == IR_MAX_RANK) return NULL;
    dims[n++] = memory->dims[i];
  }
  return n == value->rank ? value : type_tile(cx, dims, n, value->dtype);
}

int atomic_operands(OpKind kind) { return kind == OP_atomic_compare_exchange ? 3 : 2; }

bool op_is_barrier_of(const Op *op, const char *who) {
  const Attr *mode = op->kind == OP_barrier ? op_attr(op, ATTR_mode) : NULL;
  return mode && strcmp(mode->text, who) == 0;
}

bool op_is_atomic(const Op *op) {
  int rule = op_info[op->kind].rule;
  return rule == RULE_atomic || rule == RULE_scatter || rule == RULE_report;
}

AtomicBy atomic_by(const Op *op) {
  const Attr *each = op_attr(op, ATTR_each);
  if (op_has(op, ATTR_ept)) return ATOMIC_BY_THREAD;
  if (!each) return ATOMIC_BY_OWNER;
  return strcmp(each->text, "wave") == 0 ? ATOMIC_BY_WAVE : ATOMIC_BY_THREAD;
}

bool access_looks_up_in_place(const MemAccess *a, int i) {
  if (a->op->kind == OP_copy && !op_has(a->op, ATTR_mode)) return false;
  if (!a->mapping || i >= a->mapping->ndynamic) return true; /* by name */
  SymPairs where = a->mapping->dynamic[i];
  for (int p = 0; p < where.n; p++)
    if (pairs_get(a->iterated, where.at[p].key) != where.at[p].value) return false;
  return true;
}

/* ---- masks ---- */

const char *access_stray(const MemAccess *a, const Sym *test) {
  const Sym *symbols[4 * IR_MAX_RANK];
  int n = sym_free_symbols(test, symbols, (int)WV_LEN(symbols));
  for (int i = 0; i < n && i < (int)WV_LEN(symbols); i++) {
    const char *name = sym_name(symbols[i]), *kind = name[0] == '$' ? strchr("xyn", name[1]) : NULL;
    size_t digits = kind && *kind ? strspn(name + 2, "0123456789") : 0;
    if (!digits || name[2 + digits]) continue;
    int rank = *kind == 'x' ? a->tile->rank : a->memory->type->rank;
    if (digits > 1 || atoi(name + 2) >= rank) return name;
  }
  return NULL;
}
