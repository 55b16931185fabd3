/* type.c: the context, and types interned in it. */
#include <limits.h>
#include <string.h>

#include "ir/ir.h"

typedef struct TypeTable {
  const Type **slots;
  uint32_t n, cap;
} TypeTable;

Context *context_new(void) {
  Arena *arena = arena_new();
  Context *cx = ARENA_NEW(arena, Context);
  cx->arena = arena;
  cx->sym = sym_ctx_new();
  cx->names.arena = arena;
  cx->sources = (Sources){.arena = arena, .names = &cx->names};
  cx->diags = (Diags){.arena = arena_new(), .sources = &cx->sources};
  cx->types = ARENA_NEW(arena, TypeTable);
  cx->global_space = sym_symbol(cx->sym, "$GLOBAL_ADDRESS_SPACE", true);
  cx->shared_space = sym_symbol(cx->sym, "$SHARED_ADDRESS_SPACE", true);
  return cx;
}

void context_free(Context *cx) {
  if (!cx) return;
  sym_ctx_free(cx->sym);
  arena_free(cx->diags.arena);
  arena_free(cx->arena);
}

Context *context_owned(Context *cx) {
  sym_ctx_owned(cx->sym);
  arena_owned(cx->diags.arena);
  arena_owned(cx->arena);
  return cx;
}

static uint64_t type_hash(const Type *t) {
  uint64_t h = hash_mix((uint64_t)t->kind, (uint64_t)t->dtype << 32 | (uint32_t)t->n);
  for (int i = 0; i < t->rank; i++) {
    h = hash_mix(h, map_key(t->dims[i]));
    if (t->layout) h = hash_mix(h, map_key(t->layout[i]));
  }
  return hash_mix(h, map_key(t->space));
}

static bool type_same(const Type *a, const Type *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->n != b->n || a->rank != b->rank)
    return false;
  if (a->space != b->space || !a->layout != !b->layout) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i] || (a->layout && a->layout[i] != b->layout[i])) return false;
  return true;
}

static const Type **find_slot(const Type **slots, uint32_t cap, const Type *t) {
  uint32_t i = (uint32_t)type_hash(t) & (cap - 1);
  while (slots[i] && !type_same(slots[i], t)) i = (i + 1) & (cap - 1);
  return &slots[i];
}

static void grow(Context *cx) {
  TypeTable *table = cx->types;
  uint32_t cap = table->cap ? table->cap * 2 : 64;
  const Type **slots = ARENA_ARRAY(cx->arena, const Type *, cap);
  for (uint32_t i = 0; i < table->cap; i++)
    if (table->slots[i]) *find_slot(slots, cap, table->slots[i]) = table->slots[i];
  table->slots = slots;
  table->cap = cap;
}

static const Sym *const *copy_dims(Context *cx, const Sym *const *dims, int n) {
  return dims ? arena_copy(cx->arena, dims, sizeof(Sym *) * (size_t)n) : NULL;
}

static const Type *type_intern(Context *cx, Type key) {
  TypeTable *table = cx->types;
  if (table->n * 3 >= table->cap * 2) grow(cx);
  const Type **slot = find_slot(table->slots, table->cap, &key);
  if (*slot) return *slot;
  key.dims = copy_dims(cx, key.dims, key.rank);
  key.layout = copy_dims(cx, key.layout, key.rank);
  table->n++;
  return *slot = arena_copy(cx->arena, &key, sizeof key);
}

const Type *type_scalar(Context *cx, DType dtype) {
  return type_intern(cx, (Type){.kind = TYPE_scalar, .dtype = dtype, .n = 1});
}

const Type *type_vec(Context *cx, int n, DType dtype) {
  if (n < 1 || n > IR_MAX_VEC) return NULL;
  if (n == 1) return type_scalar(cx, dtype);
  return type_intern(cx, (Type){.kind = TYPE_vec, .dtype = dtype, .n = n});
}

/* Dimensions are matched by name, so none may occur twice in a type; numbers are not names. */
static bool valid_dims(const Sym *const *dims, int n) {
  int64_t number;
  if (n > IR_MAX_RANK) return false;
  for (int i = 0; i < n; i++) {
    if (!dims[i]) return false;
    if (sym_is_int(dims[i], &number)) continue;
    for (int j = 0; j < i; j++)
      if (dim_base(dims[i]) == dim_base(dims[j])) return false;
  }
  return true;
}

const Type *type_tile(Context *cx, const Sym *const *dims, int rank, DType dtype) {
  if (!valid_dims(dims, rank)) return NULL;
  if (!rank) return type_scalar(cx, dtype);
  return type_intern(cx, (Type){.kind = TYPE_tile, .dtype = dtype, .rank = rank, .dims = dims});
}

const Type *type_mem(Context *cx, const Sym *const *dims, int rank, DType dtype, const Sym *space,
                     const Sym *const *layout) {
  if (!valid_dims(dims, rank)) return NULL;
  return type_intern(cx, (Type){.kind = TYPE_mem,
                                .dtype = dtype,
                                .rank = rank,
                                .dims = dims,
                                .space = space ? space : cx->global_space,
                                .layout = layout});
}

const Type *type_token(Context *cx) {
  return type_intern(cx, (Type){.kind = TYPE_token, .dtype = DTYPE_index});
}

const Type *type_with_dtype(Context *cx, const Type *t, DType dtype) {
  WV_ASSERT(type_is_value(t));
  if (t->kind == TYPE_vec) return type_vec(cx, t->n, dtype);
  return type_tile(cx, t->dims, t->rank, dtype);
}

bool type_is_value(const Type *t) {
  return t->kind == TYPE_tile || t->kind == TYPE_scalar || t->kind == TYPE_vec;
}

const Sym *dim_base(const Sym *dim) {
  const Sym *symbol;
  int64_t num, den;
  return sym_scaled_symbol(dim, &symbol, &num, &den) ? symbol : dim;
}

int type_base_dim(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (dim_base(t->dims[i]) == dim_base(dim)) return i;
  return -1;
}

bool type_has_dim(const Type *t, const Sym *dim) { return type_base_dim(t, dim) >= 0; }

int type_repeated(const Type *from, const Type *to) {
  for (int i = 0; i < to->rank; i++)
    if (from->dims[i] != to->dims[i]) return i;
  WV_BUG("a repeat that repeats nothing");
}

int dim_ratio(const Sym *fine, const Sym *coarse) {
  const Sym *a, *b;
  int64_t n, d, m, e, over, under;
  if (!sym_scaled_symbol(fine, &a, &n, &d) || !sym_scaled_symbol(coarse, &b, &m, &e) || a != b)
    return 0;
  if (__builtin_mul_overflow(n, e, &over) || __builtin_mul_overflow(d, m, &under)) return 0;
  return under > 0 && over > 0 && over % under == 0 && over / under <= INT_MAX ? (int)(over / under)
                                                                               : 0;
}

/* Puts into parentheses what would be read as the end of `<...>`, as an element type or as a
 * missing extent: comparisons, and symbols named f16 or _. */
static void print_dim(StrBuf *out, const Sym *dim) {
  const char *name = sym_name(dim);
  DType unused;
  bool guard = sym_is_bool(dim) || (name && (dtype_parse(name, &unused) || !strcmp(name, "_")));
  if (guard) sb_putc(out, '(');
  sym_print(out, dim);
  if (guard) sb_putc(out, ')');
}

static void print_memory_part(StrBuf *out, const Context *cx, const Type *t) {
  if (t->space == cx->shared_space) sb_puts(out, ", shared");
  else if (t->space != cx->global_space) {
    sb_puts(out, ", space(");
    sym_print(out, t->space);
    sb_putc(out, ')');
  }
  if (!t->layout) return;
  sb_puts(out, ", layout(");
  for (int i = 0; i < t->rank; i++) {
    if (i) sb_puts(out, ", ");
    if (t->layout[i]) print_dim(out, t->layout[i]);
    else sb_putc(out, '_');
  }
  sb_putc(out, ')');
}

static void print_vec(StrBuf *out, const Type *t) {
  sb_puts(out, "vec<");
  sb_int(out, t->n);
  sb_puts(out, ", ");
  sb_puts(out, dtype_info[t->dtype].name);
  sb_putc(out, '>');
}

void type_print(StrBuf *out, const Context *cx, const Type *t) {
  if (!t) {
    sb_puts(out, "<unknown type>");
    return;
  }
  if (t->kind == TYPE_token) sb_puts(out, "token");
  else if (t->kind == TYPE_scalar) sb_puts(out, dtype_info[t->dtype].name);
  else if (t->kind == TYPE_vec) print_vec(out, t);
  if (t->rank == 0) return;
  sb_puts(out, t->kind == TYPE_mem ? "mem<" : "tile<");
  for (int i = 0; i < t->rank; i++) {
    print_dim(out, t->dims[i]);
    sb_puts(out, ", ");
  }
  sb_puts(out, dtype_info[t->dtype].name);
  if (t->kind == TYPE_mem) print_memory_part(out, cx, t);
  sb_putc(out, '>');
}

const char *type_text(Arena *a, const Context *cx, const Type *t) {
  StrBuf out = {.arena = a};
  type_print(&out, cx, t);
  return sb_text(&out);
}
