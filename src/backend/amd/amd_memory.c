/* amd_memory.c: loads, stores and atomics.
 *
 * Masked accesses of global memory go through a buffer resource where offsets have 32 bits: an
 * inactive lane gets an offset past the end of the buffer, so no branch is needed; other accesses
 * do if the row `buffers` says so. In masked reads of the LDS, inactive lanes read bytes that no lane
 * writes, after all allocations. All other masked accesses are branches. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/atomics.h"

/* ---- allocations ---- */

static const char *lds_at(Llvm *p, int64_t at) {
  return arena_printf(p->arena,
                      "getelementptr (i8, ptr addrspace(3) " AMD_LDS_NAME ", i32 %" PRId64 ")", at);
}

/* Where an allocation begins if the ones before it end at *end, which moves past it. */
static int64_t place(const Op *op, int64_t *end) {
  int64_t at = alloc_base(op, *end), after = at + alloc_bytes(op);
  if (after > *end) *end = after;
  return at;
}

void amd_alloc(Llvm *p, const Op *op) {
  if (op_has(op, ATTR_kept)) llvm_fail(p, op, "memory that outlives a workgroup");
  else if (alloc_bytes(op) < 0) llvm_fail(p, op, "an allocation of unknown size");
  if (p->failed) return;
  int64_t at = place(op, &p->amd->lds);
  Held *h = llvm_held_new(p, &op->results[0]);
  h->space = AMD_LDS;
  h->base = lds_at(p, at);
}

/* How many workgroups of a compute unit have this much LDS each, of the 128 pieces in which the
 * hardware allocates it. */
static int64_t groups_with(const TargetInfo *t, int64_t bytes) {
  enum { PIECES = 128 };
  int64_t piece = t->shared_most / PIECES, n = (bytes + piece - 1) / piece;
  return n ? PIECES / n : PIECES;
}

/* After all allocations, if the bytes there cost the compute unit no workgroup. */
void amd_find_idle(Llvm *p) {
  Amd *amd = p->amd;
  int64_t end = amd->lds;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (op->kind == OP_alloc) place(op, &end);
  end = (end + AMD_IDLE_BYTES - 1) / AMD_IDLE_BYTES * AMD_IDLE_BYTES;
  bool is_free = groups_with(amd->target, end + AMD_IDLE_BYTES) == groups_with(amd->target, end);
  amd->idle = is_free ? end : -1;
}

/* ---- pieces of accesses ---- */

/* Some elements of an access that one instruction can move. */
typedef struct Piece {
  Llvm *p;
  const Op *op;
  AmdAddress address;
  const char *elem; /* in memory: i8 for truth values */
  int n, bytes;
  const char *test;   /* NULL: no mask */
  const char *buffer; /* NULL: through a pointer */
} Piece;

static const char *type_of(const Piece *x) { return llvm_vec_type(x->p, x->elem, x->n); }

/* The type in which a buffer access moves the bytes; NULL: no instruction does. */
static const char *word_type(int bytes) {
  switch (bytes) {
  case 1: return "i8";
  case 2: return "i16";
  case 4: return "i32";
  case 8: return "<2 x i32>";
  case 12: return "<3 x i32>";
  case 16: return "<4 x i32>";
  default: return NULL;
  }
}

static const char *word_suffix(int bytes) {
  static const char *const suffix[] = {
      [1] = "i8", [2] = "i16", [4] = "i32", [8] = "v2i32", [12] = "v3i32", [16] = "v4i32"};
  return suffix[bytes];
}

/* An immediate in the instruction has 12 bits. */
enum { BUFFER_IMM = 4096 };

/* "i32 offset, i32 scalar offset": outside the buffer where the lane is inactive. The sum of
 * offset and immediate must not wrap around in the instruction; the scalar offset, which is not
 * part of the comparison with the length, takes what is left of the immediate. LLVM makes a constant
 * in an offset the immediate without asking whether the rest is negative, so such offsets are
 * hidden. If there are any, all are: LLVM computes x + 3 as (x - 1) + 4 if it needs x - 1, too. */
static const char *buffer_offset(const Piece *x) {
  Llvm *p = x->p;
  const AmdAddress *a = &x->address;
  const char *near = a->near, *scalar = a->common ? a->common : "0";
  bool apart = a->counts && a->imm > 0;
  int64_t low = apart ? a->imm % BUFFER_IMM : 0, high = apart ? a->imm - low : 0;
  if (a->imm && !apart) near = llvm_let(p, "add i32 %s, %" PRId64, near, a->imm);
  if (!a->splits || p->amd->hides) near = amd_hidden(p, "i32", near);
  p->amd->splits |= a->splits;
  p->amd->negative |= !a->splits;
  if (x->test) near = llvm_let(p, "select i1 %s, i32 %s, i32 " AMD_NOWHERE, x->test, near);
  if (low) near = llvm_let(p, "add nuw i32 %s, %" PRId64, near, low);
  if (high) scalar = llvm_let(p, "add i32 %s, %" PRId64, scalar, high);
  return arena_printf(p->arena, "i32 %s, i32 %s", near, scalar);
}

static bool is_streamed(const Op *op) { return op_has(op, ATTR_nontemporal); }

/* The bits of a buffer instruction for what is used once, as LLVM sets them in other instructions:
 * slc or nt on CDNA, slc and dlc on RDNA3, the temporal hint NT from gfx12 on. */
static int cache_policy(const Piece *x) {
  const TargetInfo *t = x->p->amd->target;
  if (!is_streamed(x->op)) return 0;
  if (t->lanes == 64) return 2;
  return target_has(t, FEATURE_SPLIT_BARRIER) ? 1 : 6;
}

static const char *buffer_load(const Piece *x) {
  Llvm *p = x->p;
  const char *word = word_type(x->bytes);
  const char *name =
      arena_printf(p->arena, "llvm.amdgcn.raw.ptr.buffer.load.%s", word_suffix(x->bytes));
  const char *args = arena_printf(p->arena, "ptr addrspace(8) %s, %s, i32 %d", x->buffer,
                                  buffer_offset(x), cache_policy(x));
  const char *v = llvm_call(p, word, name, "ptr addrspace(8), i32, i32, i32", args);
  return amd_recast(p, word, v, type_of(x));
}

static void buffer_store(const Piece *x, const char *v) {
  Llvm *p = x->p;
  const char *word = word_type(x->bytes);
  const char *name =
      arena_printf(p->arena, "llvm.amdgcn.raw.ptr.buffer.store.%s", word_suffix(x->bytes));
  v = amd_recast(p, type_of(x), v, word);
  llvm_call_void(p, name, arena_printf(p->arena, "%s, ptr addrspace(8), i32, i32, i32", word),
                 arena_printf(p->arena, "%s %s, ptr addrspace(8) %s, %s, i32 %d", word, v,
                              x->buffer, buffer_offset(x), cache_policy(x)));
}

static int alignment(const Piece *x) { return x->address.align; }

static const char *pointer_type(const Piece *x) {
  return llvm_pointer_type(x->address.memory->space);
}

static const char *hint_of(const Piece *x) {
  return is_streamed(x->op) && !x->address.shared ? llvm_nontemporal(x->p) : "";
}

static const char *plain_load(const Piece *x, const char *at) {
  return llvm_let(x->p, "load %s, %s %s, align %d%s", type_of(x), pointer_type(x), at, alignment(x),
                  x->address.shared ? amd_apart(x->p, false) : hint_of(x));
}

/* Inactive lanes get zeros. They read, but no byte that another wave may be writing. */
static const char *idle_load(const Piece *x) {
  Llvm *p = x->p;
  const char *at = amd_pointer(p, &x->address), *type = pointer_type(x);
  const char *idle = lds_at(p, p->amd->idle);
  p->amd->idles = true;
  at = llvm_let(p, "select i1 %s, %s %s, %s %s", x->test, type, at, type, idle);
  const char *v = plain_load(x, at);
  return llvm_let(p, "select i1 %s, %s %s, %s zeroinitializer", x->test, type_of(x), v, type_of(x));
}

static const char *load_piece(const Piece *x) {
  Llvm *p = x->p;
  if (!x->test && !x->buffer) return plain_load(x, amd_pointer(p, &x->address));
  if (x->buffer) return buffer_load(x);
  if (x->address.shared && p->amd->idle >= 0) return idle_load(x);
  LlvmGuard g = llvm_guard_open(p, x->test);
  const char *v = plain_load(x, amd_pointer(p, &x->address));
  const char *block = llvm_guard_close(p, g);
  return llvm_guard_phi(p, g, type_of(x), v, block, "zeroinitializer");
}

static void plain_store(const Piece *x, const char *v) {
  llvm_line(x->p, "store %s %s, %s %s, align %d%s", type_of(x), v, pointer_type(x),
            amd_pointer(x->p, &x->address), alignment(x), hint_of(x));
}

static void store_piece(const Piece *x, const char *v) {
  Llvm *p = x->p;
  if (x->buffer) {
    buffer_store(x, v);
    return;
  }
  LlvmGuard g = {0};
  if (x->test) g = llvm_guard_open(p, x->test);
  plain_store(x, v);
  if (x->test) llvm_guard_close(p, g);
}

/* ---- accesses ---- */

typedef struct Access {
  Llvm *p;
  const Op *op;
  DType dtype;
  int n, width;       /* elements; of a piece */
  int bytes;          /* of an element */
  AmdAddress address; /* of the first element */
  Held *mask;         /* NULL: none */
  const char *buffer;
} Access;

static bool is_nibble(DType t) { return dtype_memory_bits(t) == 4; }

static const char *memory_elem(DType t) { return t == DTYPE_i1 ? "i8" : llvm_elem_type(t); }

/* Memory, offset and mask are operands `at` and those after it. 4-bit elements are accessed as the
 * bytes that contain them (is_bytes). */
static Access open_access(Llvm *p, const Op *op, int at, int n) {
  Access a = {.p = p, .op = op, .dtype = op->args[at]->type->dtype, .n = n};
  if (is_nibble(a.dtype)) a.dtype = DTYPE_u8, a.n = n / 2;
  a.bytes = dtype_memory_bits(a.dtype) / 8;
  a.mask = op->nargs > at + 2 ? llvm_held_get(p, op->args[at + 2]) : NULL;
  a.address = amd_address(p, op, at, op_imm(op, ATTR_imm));
  bool in_buffer = a.mask || (p->amd->all_buffers && !op_has(op, ATTR_volatile));
  if (in_buffer && a.address.near && !a.address.shared) a.buffer = amd_buffer(p, a.address.memory);
  a.width = 16 / a.bytes;
  bool odd = a.buffer && !word_type((a.n < a.width ? a.n : a.width) * a.bytes);
  if ((a.mask && a.mask->n > 1) || odd) a.width = 1;
  if (a.width > a.n) a.width = a.n;
  return a;
}

static Piece piece_of(const Access *a, int i) {
  int n = part_size(a->n, a->width, i);
  Piece x = {.p = a->p, .op = a->op, .elem = memory_elem(a->dtype), .n = n, .bytes = n * a->bytes};
  x.address = amd_address_after(a->address, (int64_t)i * a->width * a->bytes);
  x.buffer = word_type(x.bytes) ? a->buffer : NULL;
  if (a->mask)
    x.test = a->mask->n > 1 ? llvm_element_of(a->p, a->mask, i) : llvm_scalar_of(a->p, a->mask);
  return x;
}

/* Converts from the type in memory to the type held. */
static const char *from_memory(Llvm *p, DType t, int n, const char *v) {
  const char *type = llvm_vec_type(p, memory_elem(t), n);
  if (t == DTYPE_i1) return llvm_let(p, "icmp ne %s %s, zeroinitializer", type, v);
  if (dtype_info[t].bits != 6) return v;
  return llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i8", "63", n));
}

/* ---- flags ---- */

/* What a flag orders: memory of the workgroup, or of all. */
static const char *scope_of(const Piece *x) {
  return x->address.shared ? "syncscope(\"workgroup\") " : "syncscope(\"agent\") ";
}

/* Tensors are in the GPU's own memory. Some chips do most atomics only there, so without this LLVM
 * makes loops of them. */
#define OWN_MEMORY ", !amdgpu.no.remote.memory !{}, !amdgpu.no.fine.grained.memory !{}"

/* A flag is read before the data that it guards, and written after it. */
static const char *load_flag(const Piece *x) {
  Llvm *p = x->p;
  LlvmGuard g = {0};
  const char *word = arena_printf(p->arena, "i%d", x->bytes * 8);
  if (x->test) g = llvm_guard_open(p, x->test);
  const char *v = llvm_let(p, "load atomic %s, %s %s %smonotonic, align %d", word, pointer_type(x),
                           amd_pointer(p, &x->address), scope_of(x), x->bytes);
  if (x->test) {
    const char *block = llvm_guard_close(p, g);
    v = llvm_guard_phi(p, g, word, v, block, "0");
  }
  llvm_line(p, "fence %sacquire", scope_of(x));
  return amd_recast(p, word, v, type_of(x));
}

static void store_flag(const Piece *x, const char *v) {
  Llvm *p = x->p;
  LlvmGuard g = {0};
  const char *word = arena_printf(p->arena, "i%d", x->bytes * 8);
  llvm_line(p, "fence %srelease", scope_of(x));
  v = amd_recast(p, type_of(x), v, word);
  if (x->test) g = llvm_guard_open(p, x->test);
  llvm_line(p, "store atomic %s %s, %s %s %smonotonic, align %d", word, v, pointer_type(x),
            amd_pointer(p, &x->address), scope_of(x), x->bytes);
  if (x->test) llvm_guard_close(p, g);
}

static bool is_flag(const Op *op) { return op_has(op, ATTR_volatile); }

/* ---- four bits ---- */

/* Whether the access consists of whole bytes. Otherwise its elements are accessed one by one. */
static bool is_bytes(Llvm *p, const Op *op, int at, int n) {
  const Sym *e = amd_expression_at(p, op, op->args[at + 1]);
  bool masks_each = op->nargs > at + 2 && op->args[at + 2]->type->n > 1;
  if (n % 2 || op_imm(op, ATTR_imm) % 2 || masks_each) return false;
  return e && sym_divides(p->sym, p->facts, 2, e);
}

/* The byte that contains element `e`, and the shift of the element in it. */
typedef struct Nibble {
  const char *at, *shift;
} Nibble;

static Nibble nibble_at(const Access *a, int operand, int e) {
  Llvm *p = a->p;
  const Held *memory = llvm_held_get(p, a->op->args[operand]);
  const char *index = llvm_index_of(p, a->op->args[operand + 1]);
  const char *type = llvm_pointer_type(memory->space);
  int64_t by = op_imm(a->op, ATTR_imm) + e;
  if (by) index = llvm_let(p, "add i64 %s, %" PRId64, index, by);
  const char *byte = llvm_let(p, "ashr i64 %s, 1", index);
  const char *low = llvm_let(p, "and i8 %s, 1", llvm_let(p, "trunc i64 %s to i8", index));
  if (memory->space == AMD_LDS) byte = llvm_let(p, "trunc i64 %s to i32", byte);
  return (Nibble){llvm_let(p, "getelementptr i8, %s %s, i%d %s", type, memory->base,
                           memory->space == AMD_LDS ? 32 : 64, byte),
                  llvm_let(p, "shl i8 %s, 2", low)};
}

static const char *test_of(const Access *a, int e) {
  if (!a->mask) return NULL;
  return a->mask->n > 1 ? llvm_element_of(a->p, a->mask, e) : llvm_scalar_of(a->p, a->mask);
}

static Access nibbles_of(Llvm *p, const Op *op, int at, int n) {
  Access a = {.p = p, .op = op, .dtype = op->args[at]->type->dtype, .n = n, .bytes = 1};
  a.mask = op->nargs > at + 2 ? llvm_held_get(p, op->args[at + 2]) : NULL;
  return a;
}

static const char *load_nibble(const Access *a, int e) {
  Llvm *p = a->p;
  const char *test = test_of(a, e);
  const char *type = llvm_pointer_type(llvm_held_get(p, a->op->args[0])->space);
  Nibble at = nibble_at(a, 0, e);
  LlvmGuard g = {0};
  if (test) g = llvm_guard_open(p, test);
  const char *byte = llvm_let(p, "load i8, %s %s, align 1", type, at.at);
  if (test) {
    const char *block = llvm_guard_close(p, g);
    byte = llvm_guard_phi(p, g, "i8", byte, block, "0");
  }
  return llvm_nibble_extended(p, a->dtype, 1, llvm_let(p, "lshr i8 %s, %s", byte, at.shift));
}

static void load_nibbles(Llvm *p, const Op *op) {
  Held *h = llvm_held_new(p, &op->results[0]);
  Access a = nibbles_of(p, op, 0, h->n);
  const char **part = ARENA_ARRAY(p->arena, const char *, h->n);
  for (int e = 0; e < h->n; e++) part[e] = load_nibble(&a, e);
  llvm_held_set(p, h, 1, part);
}

/* The other half of the byte may belong to another lane, so it must not be written back as it was
 * read. */
static void store_nibble(const Access *a, int e, const char *v) {
  Llvm *p = a->p;
  const char *test = test_of(a, e);
  const char *type = llvm_pointer_type(llvm_held_get(p, a->op->args[1])->space);
  Nibble at = nibble_at(a, 1, e);
  LlvmGuard g = {0};
  if (test) g = llvm_guard_open(p, test);
  const char *hole = llvm_let(p, "xor i8 %s, -1", llvm_let(p, "shl i8 15, %s", at.shift));
  const char *bits = llvm_let(p, "shl i8 %s, %s", llvm_let(p, "and i8 %s, 15", v), at.shift);
  amd_set_bits(p, (LlvmCell){type, at.at, "syncscope(\"agent\") ", OWN_MEMORY}, hole, bits);
  if (test) llvm_guard_close(p, g);
}

static void store_nibbles(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]);
  Access a = nibbles_of(p, op, 1, h->n);
  const char *const *part = llvm_parts_of(p, h, 1);
  for (int e = 0; e < h->n; e++) store_nibble(&a, e, part[e]);
}

/* ---- ops ---- */

static bool is_refused(Llvm *p, const Op *op) {
  if (op_has(op, ATTR_peer)) llvm_fail(p, op, "another workgroup's shared memory");
  return p->failed;
}

void amd_load(Llvm *p, const Op *op) {
  int n = op->results[0].type->n;
  if (is_refused(p, op)) return;
  bool is_packed = is_nibble(op->args[0]->type->dtype);
  if (is_packed && !is_bytes(p, op, 0, n)) {
    load_nibbles(p, op);
    return;
  }
  Access a = open_access(p, op, 0, n);
  if (is_flag(op)) a.width = 1;
  int count = part_count(a.n, a.width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) {
    Piece x = piece_of(&a, i);
    part[i] = from_memory(p, a.dtype, x.n, is_flag(op) ? load_flag(&x) : load_piece(&x));
  }
  Held *h = llvm_held_new(p, &op->results[0]);
  if (is_packed) h = h->packed = llvm_packed_new(p, h);
  llvm_held_set(p, h, a.width, part);
}

/* By lanes of a wave and bits of an element. */
static const struct {
  int lanes, bits;
  const char *name, *type;
} transposing[] = {
    {64, 16, "ds.read.tr16.b64", "<4 x i16>"}, {64, 8, "ds.read.tr8.b64", "<2 x i32>"},
    {64, 4, "ds.read.tr4.b64", "<2 x i32>"},   {32, 16, "ds.load.tr16.b128", "<8 x i16>"},
    {32, 8, "ds.load.tr8.b64", "<2 x i32>"},   {32, 4, "ds.load.tr4.b64", "<2 x i32>"},
};

/* "<4 x i16>": v4i16 */
static const char *type_suffix(Llvm *p, const char *type) {
  return arena_printf(p->arena, "v%c%.3s", type[1], type + 5);
}

/* A row begins at a whole byte, whether that can be proved or not. */
static const char *row_pointer(Llvm *p, const Op *op) {
  int n = op->results[0].type->n;
  Access a = nibbles_of(p, op, 0, n);
  if (is_nibble(a.dtype) && !is_bytes(p, op, 0, n)) return nibble_at(&a, 0, 0).at;
  a.address = amd_address(p, op, 0, op_imm(op, ATTR_imm));
  return amd_pointer(p, &a.address);
}

static const char *transposed_load(Llvm *p, const Op *op, size_t i) {
  const char *type = transposing[i].type, *at = row_pointer(p, op);
  const char *name =
      arena_printf(p->arena, "llvm.amdgcn.%s.%s", transposing[i].name, type_suffix(p, type));
  llvm_declare(p, arena_printf(p->arena, "declare %s @%s(ptr addrspace(3))", type, name));
  return llvm_let(p, "call %s @%s(ptr addrspace(3) %s)%s", type, name, at, amd_apart(p, false));
}

void amd_ldmatrix(Llvm *p, const Op *op) {
  DType t = op->args[0]->type->dtype;
  Held *h = llvm_held_new(p, &op->results[0]);
  size_t i = 0;
  while (i < WV_LEN(transposing) && (transposing[i].lanes != p->amd->target->lanes ||
                                     transposing[i].bits != dtype_info[t].bits))
    i++;
  if (!op_has(op, ATTR_columns) || i == WV_LEN(transposing) ||
      !amd_knows(p->amd, transposing[i].name)) {
    llvm_fail(p, op, "this form of `ldmatrix`");
    return;
  }
  const char *v = transposed_load(p, op, i), *elem = is_nibble(t) ? "i8" : memory_elem(t);
  if (is_nibble(t)) h = h->packed = llvm_packed_new(p, h);
  v = amd_recast(p, transposing[i].type, v, llvm_vec_type(p, elem, h->n));
  llvm_held_set(p, h, h->n, arena_copy(p->arena, &v, sizeof v));
}

void amd_store(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]);
  if (is_refused(p, op)) return;
  bool is_packed = is_nibble(op->args[1]->type->dtype);
  if (is_packed && !is_bytes(p, op, 1, h->n)) {
    store_nibbles(p, op);
    return;
  }
  Access a = open_access(p, op, 1, h->n);
  if (is_flag(op)) a.width = 1;
  if (is_packed) h = llvm_packed_of(p, h);
  const char *const *part = llvm_parts_of(p, h, a.width);
  for (int i = 0; i < part_count(h->n, a.width); i++) {
    Piece x = piece_of(&a, i);
    const char *v = part[i];
    if (a.dtype == DTYPE_i1)
      v = llvm_let(p, "zext %s %s to %s", llvm_vec_type(p, "i1", x.n), v, type_of(&x));
    if (is_flag(op)) store_flag(&x, v);
    else store_piece(&x, v);
  }
}

void amd_atomic(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]);
  int n = op->results[0].type->n; /* an expected value is the operand after the one value */
  DType t = op->args[1]->type->dtype;
  bool expects = strcmp(op_attr(op, ATTR_mode)->text, "cas") == 0;
  if (is_refused(p, op)) return;
  if (is_nibble(t) || t == DTYPE_i1 || dtype_info[t].bits < 8) {
    llvm_fail(p, op, "an atomic of this type");
    return;
  }
  Access a = open_access(p, op, 1, n);
  a.width = 1;
  const char *const *value = llvm_parts_of(p, h, 1);
  const char **part = ARENA_ARRAY(p->arena, const char *, n);
  for (int e = 0; e < n; e++) {
    Piece x = piece_of(&a, e);
    LlvmGuard g = {0};
    if (x.test) g = llvm_guard_open(p, x.test);
    LlvmCell at = {pointer_type(&x), amd_pointer(p, &x.address), scope_of(&x), OWN_MEMORY};
    const char *expected = expects ? value[n + e] : NULL;
    const char *old = a.bytes < 4 ? amd_atomic_part(p, op, t, at, value[e], expected)
                                  : llvm_atomic_element(p, op, t, at, value[e], expected);
    if (x.test) {
      const char *block = llvm_guard_close(p, g);
      old = llvm_guard_phi(p, g, llvm_elem_type(t), old, block, "zeroinitializer");
    }
    part[e] = old;
  }
  llvm_held_set(p, llvm_held_new(p, &op->results[0]), 1, part);
}

/* Shared memory, offset, global memory, offset [, mask]: through registers unless it is direct, so
 * it is complete when it is issued. */
void amd_copy_async(Llvm *p, const Op *op) {
  int64_t bytes = 0;
  sym_is_int(op_attr(op, ATTR_bytes)->sym, &bytes);
  Held *mask = op->nargs > 4 ? llvm_held_get(p, op->args[4]) : NULL;
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    llvm_fail(p, op, "a copy of this size");
    return;
  }
  if (amd_is_direct(op) && amd_copy_direct(p, op, bytes)) return;
  p->amd->around |= amd_is_direct(op);
  Piece from = {.p = p, .op = op, .elem = "i32", .n = (int)bytes / 4, .bytes = (int)bytes};
  Piece to = from;
  from.address = amd_address(p, op, 2, op_imm(op, ATTR_imm_from));
  to.address = amd_address(p, op, 0, op_imm(op, ATTR_imm));
  if (mask) from.test = llvm_scalar_of(p, mask);
  if ((mask || p->amd->all_buffers) && from.address.near)
    from.buffer = amd_buffer(p, from.address.memory);
  plain_store(&to, load_piece(&from));
}
