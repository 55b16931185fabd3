/* cpu_memory.c: loads, stores and atomics.
 *
 * Vectors are read and written as they are in memory, aligned or not, which CPUs support. An access
 * whose mask is one truth value is a branch. A mask per element is tested as a whole first if the
 * machine has no masked accesses: nearly always all elements are present. */
#include <inttypes.h>
#include <string.h>

#include "backend/cpu/cpu_state.h"
#include "ir/dtype.h"
#include "ir/ops/alloc_layout.h"

/* ---- allocations ---- */

void cpu_alloc(Llvm *p, const Op *op) {
  const Attr *base = op_attr(op, ATTR_base);
  int64_t bytes = alloc_bytes(op), align = alloc_align(op);
  if (align < 64) align = 64;
  if (bytes < 0) {
    llvm_fail(p, op, "an allocation of unknown size");
    return;
  }
  int64_t at = base ? base->integer : (p->cpu->scratch + align - 1) / align * align;
  if (at + bytes > p->cpu->scratch) p->cpu->scratch = at + bytes;
  llvm_held_new(p, &op->results[0])->base =
      llvm_let(p, "getelementptr i8, ptr %%scratch, i64 %" PRId64, at);
  if (!op_has(op, ATTR_kept)) return;
  const char *first = llvm_new(p);
  sb_printf(&p->cpu->opening, "  %s = getelementptr i8, ptr %%scratch, i64 %" PRId64 "\n", first,
            at);
  sb_printf(&p->cpu->opening, "  store <%" PRId64 " x i8> zeroinitializer, ptr %s, align 8\n",
            bytes, first);
}

/* ---- accesses ---- */

/* An access as described by its op, with operands evaluated before any branch. */
typedef struct Access {
  Llvm *p;
  const Op *op;
  DType dtype;
  int n, width;
  const char *elem;         /* in memory: i8 for truth values */
  const char *base, *index; /* pointer; first element in i64, imm included */
  const char *test;         /* one mask for the whole access; NULL: none */
  const char *const *mask;  /* a mask per element, in vectors of `width`; NULL: none */
} Access;

static const char *memory_elem(DType t) { return t == DTYPE_i1 ? "i8" : llvm_elem_type(t); }

static const char *plus(Llvm *p, const char *index, int64_t more) {
  return more ? llvm_let(p, "add i64 %s, %" PRId64, index, more) : index;
}

static bool is_nibble(DType t) { return dtype_info[t].bits == 4; }

/* Memory, offset and mask are operands `at` and those after it. */
static Access access_of(Llvm *p, const Op *op, int at, int n) {
  Held *memory = llvm_held_get(p, op->args[at]);
  const Attr *imm = op_attr(op, ATTR_imm);
  Access a = {.p = p, .op = op, .dtype = memory->dtype, .n = n, .base = memory->base};
  a.elem = memory_elem(a.dtype);
  a.width = is_nibble(a.dtype) ? 1 : llvm_memory_width(p, a.dtype);
  a.index = plus(p, llvm_index_of(p, op->args[at + 1]), imm ? imm->integer : 0);
  Held *mask = op->nargs > at + 2 ? llvm_held_get(p, op->args[at + 2]) : NULL;
  if (mask && mask->n == 1) a.test = llvm_scalar_of(p, mask);
  else if (mask) a.mask = llvm_parts_of(p, mask, a.width);
  return a;
}

static int access_parts(const Access *a) {
  return part_count(a->n, a->width < a->n ? a->width : a->n);
}
static int access_size(const Access *a, int i) { return part_size(a->n, a->width, i); }

static const char *address_of(const Access *a, int i) {
  const char *at = llvm_let(a->p, "getelementptr %s, ptr %s, i64 %s", a->elem, a->base, a->index);
  if (!i) return at;
  return llvm_let(a->p, "getelementptr %s, ptr %s, i64 %d", a->elem, at, i * a->width);
}

static int elem_bytes(const Access *a) { return dtype_memory_bits(a->dtype) / 8; }

static bool has_masks(const Access *a) { return a->p->cpu->host->native_masks; }

/* Every element of every mask, as one truth value. */
static const char *all_set(const Access *a) {
  Llvm *p = a->p;
  const char *all = NULL;
  for (int i = 0; i < access_parts(a); i++) {
    int n = access_size(a, i);
    const char *one = a->mask[i], *type = llvm_vec_type(p, "i1", n);
    if (n > 1)
      one = llvm_call(p, "i1", arena_printf(p->arena, "llvm.vector.reduce.and.v%di1", n), type,
                      arena_printf(p->arena, "%s %s", type, one));
    all = all ? llvm_let(p, "and i1 %s, %s", all, one) : one;
  }
  return all;
}

static const char *volatile_word(const Access *a) {
  return op_has(a->op, ATTR_volatile) ? "volatile " : "";
}

/* ---- loads ---- */

static const char *load_plain(const Access *a, int i) {
  return llvm_let(a->p, "load %s%s, ptr %s, align %d", volatile_word(a),
                  llvm_vec_type(a->p, a->elem, access_size(a, i)), address_of(a, i), elem_bytes(a));
}

/* The address of element e of vector i if it is active, otherwise `elsewhere`: avoids a branch. */
static const char *address_or(const Access *a, int i, int e, const char *at,
                              const char *elsewhere) {
  Llvm *p = a->p;
  int n = access_size(a, i);
  const char *test = a->mask[i];
  if (n > 1) test = llvm_let(p, "extractelement %s %s, i32 %d", llvm_vec_type(p, "i1", n), test, e);
  if (e) at = llvm_let(p, "getelementptr %s, ptr %s, i64 %d", a->elem, at, e);
  return llvm_let(p, "select i1 %s, ptr %s, ptr %s", test, at, elsewhere);
}

/* Element by element; inactive ones are read from an address that holds 0. */
static const char *load_elements(const Access *a, int i) {
  Llvm *p = a->p;
  int n = access_size(a, i);
  const char *type = llvm_vec_type(p, a->elem, n), *at = address_of(a, i), *all = "zeroinitializer";
  for (int e = 0; e < n; e++) {
    const char *one = address_or(a, i, e, at, CPU_ZERO);
    one = llvm_let(p, "load %s, ptr %s, align %d", a->elem, one, elem_bytes(a));
    all = n == 1 ? one
                 : llvm_let(p, "insertelement %s %s, %s %s, i32 %d", type, all, a->elem, one, e);
  }
  return all;
}

static const char *load_masked(const Access *a, int i) {
  Llvm *p = a->p;
  int n = access_size(a, i);
  if (n == 1 || !has_masks(a)) return load_elements(a, i);
  const char *type = llvm_vec_type(p, a->elem, n), *at = address_of(a, i);
  const char *truth = llvm_vec_type(p, "i1", n);
  return llvm_call(p, type,
                   arena_printf(p->arena, "llvm.masked.load.%s.p0", llvm_suffix(p, a->elem, n)),
                   arena_printf(p->arena, "ptr, i32, %s, %s", truth, type),
                   arena_printf(p->arena, "ptr %s, i32 %d, %s %s, %s zeroinitializer", at,
                                elem_bytes(a), truth, a->mask[i], type));
}

/* Lanes often read a few bytes at a time: if these fit into the block that holds 0, no branch is
 * needed, so a program of lanes is not split into thousands of basic blocks. */
static bool is_small(const Access *a) {
  bool fits = a->n * elem_bytes(a) <= 8 && access_parts(a) == 1;
  return a->p->cpu->lanes && a->test && fits && !op_has(a->op, ATTR_volatile);
}

static const char *load_small(const Access *a) {
  Llvm *p = a->p;
  const char *at = llvm_let(p, "select i1 %s, ptr %s, ptr " CPU_ZERO, a->test, address_of(a, 0));
  return llvm_let(p, "load %s, ptr %s, align %d", llvm_vec_type(p, a->elem, a->n), at,
                  elem_bytes(a));
}

/* The vectors as they are in memory, zero where masked. */
static const char **load_parts(const Access *a) {
  Llvm *p = a->p;
  int count = access_parts(a);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  const char **some = ARENA_ARRAY(p->arena, const char *, count), *block, *other;
  bool tested = a->mask && !has_masks(a);
  LlvmGuard g = {0};
  if (a->mask && !tested) {
    for (int i = 0; i < count; i++) part[i] = load_masked(a, i);
    return part;
  }
  if (is_small(a)) return part[0] = load_small(a), part;
  if (!a->test && !tested) {
    for (int i = 0; i < count; i++) part[i] = load_plain(a, i);
    return part;
  }
  const char *slow = tested ? llvm_label(p, "masked") : NULL;
  if (tested) {
    const char *fast = llvm_label(p, "whole");
    g.end = llvm_label(p, "all");
    llvm_line(p, "br i1 %s, label %%%s, label %%%s", all_set(a), fast, slow);
    llvm_block(p, fast);
  } else {
    g = llvm_guard_open(p, a->test);
  }
  for (int i = 0; i < count; i++) part[i] = load_plain(a, i), some[i] = "zeroinitializer";
  block = p->block, other = g.before;
  llvm_line(p, "br label %%%s", g.end);
  if (tested) {
    llvm_block(p, slow);
    for (int i = 0; i < count; i++) some[i] = load_masked(a, i);
    other = p->block;
    llvm_line(p, "br label %%%s", g.end);
  }
  llvm_block(p, g.end);
  for (int i = 0; i < count; i++)
    part[i] =
        llvm_let(p, "phi %s [ %s, %%%s ], [ %s, %%%s ]",
                 llvm_vec_type(p, a->elem, access_size(a, i)), part[i], block, some[i], other);
  return part;
}

/* Converts from the type in memory to the type held. */
static const char *from_memory(Llvm *p, DType t, int n, const char *v) {
  const char *type = llvm_vec_type(p, memory_elem(t), n);
  if (t == DTYPE_i1) return llvm_let(p, "icmp ne %s %s, zeroinitializer", type, v);
  if (dtype_info[t].bits != 6) return v;
  return llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i8", "63", n));
}

/* ---- four bits ---- */

/* The byte of element `index`, and the shift of the element in it. */
typedef struct Nibble {
  const char *byte, *shift;
} Nibble;

static Nibble nibble_at(const Access *a, int e) {
  Llvm *p = a->p;
  const char *index = plus(p, a->index, e), *half = llvm_let(p, "ashr i64 %s, 1", index);
  const char *low = llvm_let(p, "trunc i64 %s to i8", index);
  low = llvm_let(p, "and i8 %s, 1", low);
  return (Nibble){llvm_let(p, "getelementptr i8, ptr %s, i64 %s", a->base, half),
                  llvm_let(p, "shl i8 %s, 2", low)};
}

static const char *element_mask(const Access *a, int e) { return a->mask ? a->mask[e] : a->test; }

static const char *load_nibble(const Access *a, int e) {
  Llvm *p = a->p;
  const char *test = element_mask(a, e);
  Nibble at = nibble_at(a, e);
  LlvmGuard g = {0};
  if (test) g = llvm_guard_open(p, test);
  const char *byte = llvm_let(p, "load i8, ptr %s, align 1", at.byte);
  if (test) {
    const char *block = llvm_guard_close(p, g);
    byte = llvm_guard_phi(p, g, "i8", byte, block, "0");
  }
  return llvm_nibble_extended(p, a->dtype, 1, llvm_let(p, "lshr i8 %s, %s", byte, at.shift));
}

/* Whether the first element is known to be the low half of a byte. */
static bool begins_byte(const Access *a, int at) {
  const Op *def = a->op->args[at + 1]->def;
  const Attr *imm = op_attr(a->op, ATTR_imm);
  const Attr *e = def && def->kind == OP_expr ? op_attr(def, ATTR_expr) : NULL;
  if (imm && imm->integer % 2) return false;
  return e && sym_divides(a->p->sym, a->p->facts, 2, e->sym);
}

/* Whole bytes: n is even and the first element is a low half. */
static const char *load_bytes(const Access *a) {
  Llvm *p = a->p;
  int half = a->n / 2;
  const char *type = llvm_vec_type(p, "i8", half), *byte = llvm_let(p, "ashr i64 %s, 1", a->index);
  const char *at = llvm_let(p, "getelementptr i8, ptr %s, i64 %s", a->base, byte);
  LlvmGuard g = {0};
  if (a->test) g = llvm_guard_open(p, a->test);
  const char *v = llvm_let(p, "load %s, ptr %s, align 1", type, at);
  if (a->test) {
    const char *block = llvm_guard_close(p, g);
    v = llvm_guard_phi(p, g, type, v, block, "zeroinitializer");
  }
  return llvm_nibbles_of_bytes(p, a->dtype, a->n, v);
}

static void load_nibbles(Llvm *p, const Access *a, Held *h) {
  const char **part = ARENA_ARRAY(p->arena, const char *, a->n);
  bool whole = a->n % 2 == 0 && !a->mask && begins_byte(a, 0);
  if (whole) part[0] = load_bytes(a);
  else
    for (int e = 0; e < a->n; e++) part[e] = load_nibble(a, e);
  llvm_held_set(p, h, whole ? a->n : 1, part);
}

/* A flag: what was written before it was set is visible after it has been read. */
static void order(Llvm *p, const Op *op, const char *how) {
  if (op_has(op, ATTR_volatile)) llvm_line(p, "fence %s", how);
}

void cpu_load(Llvm *p, const Op *op) {
  int n = op->results[0].type->n;
  Access a = access_of(p, op, 0, n);
  Held *h = llvm_held_new(p, &op->results[0]);
  if (op_has(op, ATTR_peer)) {
    llvm_fail(p, op, "another workgroup's shared memory");
    return;
  }
  if (p->cpu->repeated[op->results[0].id] && !a.mask) a.width = p->cpu->repeated[op->results[0].id];
  bool plain = !a.mask && !a.test && !op_has(op, ATTR_volatile);
  if (h->matrix.rows && plain) {
    cpu_matrix_load(p, h, &h->matrix, address_of(&a, 0), NULL);
  } else if (is_nibble(a.dtype)) {
    load_nibbles(p, &a, h);
  } else {
    const char **part = load_parts(&a);
    for (int i = 0; i < access_parts(&a); i++)
      part[i] = from_memory(p, a.dtype, access_size(&a, i), part[i]);
    llvm_held_set(p, h, a.width, part);
  }
  order(p, op, "acquire");
}

/* ---- stores ---- */

static void store_plain(const Access *a, int i, const char *v) {
  llvm_line(a->p, "store %s%s %s, ptr %s, align %d", volatile_word(a),
            llvm_vec_type(a->p, a->elem, access_size(a, i)), v, address_of(a, i), elem_bytes(a));
}

/* Element by element; inactive ones are stored to an unused address. */
static void store_elements(const Access *a, int i, const char *v) {
  Llvm *p = a->p;
  int n = access_size(a, i);
  const char *type = llvm_vec_type(p, a->elem, n), *at = address_of(a, i), *one = v;
  for (int e = 0; e < n; e++) {
    if (n > 1) one = llvm_let(p, "extractelement %s %s, i32 %d", type, v, e);
    const char *to = address_or(a, i, e, at, CPU_NOWHERE);
    llvm_line(p, "store %s %s, ptr %s, align %d", a->elem, one, to, elem_bytes(a));
  }
}

static void store_masked(const Access *a, int i, const char *v) {
  Llvm *p = a->p;
  int n = access_size(a, i);
  if (n == 1 || !has_masks(a)) {
    store_elements(a, i, v);
    return;
  }
  const char *type = llvm_vec_type(p, a->elem, n), *truth = llvm_vec_type(p, "i1", n);
  llvm_call_void(p, arena_printf(p->arena, "llvm.masked.store.%s.p0", llvm_suffix(p, a->elem, n)),
                 arena_printf(p->arena, "%s, ptr, i32, %s", type, truth),
                 arena_printf(p->arena, "%s %s, ptr %s, i32 %d, %s %s", type, v, address_of(a, i),
                              elem_bytes(a), truth, a->mask[i]));
}

static void store_parts(const Access *a, const char *const *part) {
  Llvm *p = a->p;
  int count = access_parts(a);
  LlvmGuard g = {0};
  if (a->mask && has_masks(a)) {
    for (int i = 0; i < count; i++) store_masked(a, i, part[i]);
    return;
  }
  const char *slow = a->mask ? llvm_label(p, "masked") : NULL;
  if (a->mask) {
    const char *fast = llvm_label(p, "whole");
    g.end = llvm_label(p, "all");
    llvm_line(p, "br i1 %s, label %%%s, label %%%s", all_set(a), fast, slow);
    llvm_block(p, fast);
  } else if (a->test) {
    g = llvm_guard_open(p, a->test);
  }
  for (int i = 0; i < count; i++) store_plain(a, i, part[i]);
  if (!g.end) return;
  llvm_line(p, "br label %%%s", g.end);
  if (a->mask) {
    llvm_block(p, slow);
    for (int i = 0; i < count; i++) store_masked(a, i, part[i]);
    llvm_line(p, "br label %%%s", g.end);
  }
  llvm_block(p, g.end);
}

/* Other CPU threads may write there at the same time. */
static bool is_for_all(const Access *a) { return a->p->cpu->lanes || !a->op->args[1]->def; }

/* The other half of the byte may belong to another thread, so it must not be written back as it was
 * read. Only this thread writes this half, so the intermediate state is never observed. */
static void store_nibble(const Access *a, int e, const char *v) {
  Llvm *p = a->p;
  const char *test = element_mask(a, e);
  Nibble at = nibble_at(a, e);
  LlvmGuard g = {0};
  if (test) g = llvm_guard_open(p, test);
  const char *hole = llvm_let(p, "shl i8 15, %s", at.shift),
             *bits = llvm_let(p, "and i8 %s, 15", v);
  hole = llvm_let(p, "xor i8 %s, -1", hole);
  bits = llvm_let(p, "shl i8 %s, %s", bits, at.shift);
  if (is_for_all(a)) {
    llvm_let(p, "atomicrmw and ptr %s, i8 %s monotonic", at.byte, hole);
    llvm_let(p, "atomicrmw or ptr %s, i8 %s monotonic", at.byte, bits);
  } else {
    const char *old = llvm_let(p, "load i8, ptr %s, align 1", at.byte);
    old = llvm_let(p, "and i8 %s, %s", old, hole);
    llvm_line(p, "store i8 %s, ptr %s, align 1", llvm_let(p, "or i8 %s, %s", old, bits), at.byte);
  }
  if (test) llvm_guard_close(p, g);
}

static void store_bytes(const Access *a, const char *v) {
  Llvm *p = a->p;
  const char *type = llvm_vec_type(p, "i8", a->n / 2);
  v = llvm_bytes_of_nibbles(p, a->n, v);
  const char *byte = llvm_let(p, "ashr i64 %s, 1", a->index);
  const char *at = llvm_let(p, "getelementptr i8, ptr %s, i64 %s", a->base, byte);
  LlvmGuard g = {0};
  if (a->test) g = llvm_guard_open(p, a->test);
  llvm_line(p, "store %s %s, ptr %s, align 1", type, v, at);
  if (a->test) llvm_guard_close(p, g);
}

static void store_nibbles(Llvm *p, const Access *a, Held *h) {
  if (a->n % 2 == 0 && !a->mask && begins_byte(a, 1)) {
    store_bytes(a, llvm_parts_of(p, h, a->n)[0]);
    return;
  }
  const char *const *part = llvm_parts_of(p, h, 1);
  for (int e = 0; e < a->n; e++) store_nibble(a, e, part[e]);
}

void cpu_store(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]);
  Access a = access_of(p, op, 1, h->n);
  if (op_has(op, ATTR_peer)) {
    llvm_fail(p, op, "another workgroup's shared memory");
    return;
  }
  order(p, op, "release");
  if (is_nibble(a.dtype)) {
    store_nibbles(p, &a, h);
    return;
  }
  const char *const *held = llvm_parts_of(p, h, a.width);
  const char **part = ARENA_ARRAY(p->arena, const char *, access_parts(&a));
  for (int i = 0; i < access_parts(&a); i++) {
    int n = access_size(&a, i);
    part[i] = held[i];
    if (a.dtype == DTYPE_i1)
      part[i] = llvm_let(p, "zext %s %s to %s", llvm_vec_type(p, "i1", n), held[i],
                         llvm_vec_type(p, "i8", n));
  }
  store_parts(&a, part);
}

/* For reading, into every cache; a prefetch never faults, whatever the address. */
/* Panels in scratch memory are used much later, and do not fit into the L1 cache. */
void cpu_prefetch(Llvm *p, const Op *op) {
  Access a = access_of(p, op, 0, 1);
  int near = op->args[0]->def ? 2 : 3;
  if (is_nibble(a.dtype)) return;
  llvm_call_void(p, "llvm.prefetch.p0", "ptr, i32, i32, i32",
                 arena_printf(p->arena, "ptr %s, i32 0, i32 %d, i32 1", address_of(&a, 0), near));
}

/* ---- atomics ---- */

static const char *atomic_element(const Access *a, int e, const char *v, const char *expected) {
  Llvm *p = a->p;
  const char *index = plus(p, a->index, e), *test = element_mask(a, e);
  const char *at = llvm_let(p, "getelementptr %s, ptr %s, i64 %s", a->elem, a->base, index);
  LlvmGuard g = {0};
  if (test) g = llvm_guard_open(p, test);
  const char *old =
      llvm_atomic_element(p, a->op, a->dtype, (LlvmCell){"ptr", at, "", ""}, v, expected);
  if (!test) return old;
  const char *block = llvm_guard_close(p, g);
  return llvm_guard_phi(p, g, a->elem, old, block, "zeroinitializer");
}

void cpu_atomic(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]), *to;
  int n = op->results[0].type->n; /* an expected value is the operand after the one value */
  bool expects = strcmp(op_attr(op, ATTR_mode)->text, "cas") == 0;
  Access a = access_of(p, op, 1, n);
  if (is_nibble(a.dtype) || a.dtype == DTYPE_i1 || a.dtype == DTYPE_i4 || op_has(op, ATTR_peer)) {
    llvm_fail(p, op, "an atomic of this type");
    return;
  }
  a.width = 1;
  if (a.mask) a.mask = llvm_parts_of(p, llvm_held_get(p, op->args[3]), 1);
  const char *const *value = llvm_parts_of(p, h, 1);
  const char **part = ARENA_ARRAY(p->arena, const char *, n);
  for (int e = 0; e < n; e++)
    part[e] = atomic_element(&a, e, value[e], expects ? value[n + e] : NULL);
  to = llvm_held_new(p, &op->results[0]);
  llvm_held_set(p, to, 1, part);
}
