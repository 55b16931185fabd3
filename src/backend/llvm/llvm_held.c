/* llvm_held.c: values in vectors: forms, and moving elements between them. */
#include <stdlib.h>
#include <string.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

/* ---- types ---- */

const char *llvm_elem_type(DType t) {
  switch (t) {
  case DTYPE_f64: return "double";
  case DTYPE_f32: return "float";
  case DTYPE_f16:
  case DTYPE_bf16:
  case DTYPE_i16:
  case DTYPE_u16: return "i16";
  case DTYPE_i64:
  case DTYPE_u64:
  case DTYPE_index: return "i64";
  case DTYPE_i32:
  case DTYPE_u32: return "i32";
  case DTYPE_i1: return "i1";
  default: return "i8";
  }
}

int llvm_elem_bits(DType t) {
  int bits = dtype_info[t].bits;
  return bits == 1 || bits >= 8 ? bits : 8;
}

const char *llvm_vec_type(Llvm *p, const char *elem, int n) {
  return n == 1 ? elem : arena_printf(p->arena, "<%d x %s>", n, elem);
}

const char *llvm_pointer_type(int space) {
  static const char *const types[] = {"ptr", "ptr addrspace(1)", "ptr addrspace(2)",
                                      "ptr addrspace(3)"};
  return types[space];
}

const char *llvm_held_type(Llvm *p, DType t, int n) {
  return llvm_vec_type(p, llvm_elem_type(t), n);
}

const char *llvm_suffix(Llvm *p, const char *elem, int n) {
  bool is_float = *elem != 'i';
  int bits = !is_float ? atoi(elem + 1) : strcmp(elem, "double") == 0 ? 64 : 32;
  const char *one = arena_printf(p->arena, "%c%d", is_float ? 'f' : 'i', bits);
  return n == 1 ? one : arena_printf(p->arena, "v%d%s", n, one);
}

int llvm_memory_width(const Llvm *p, DType t) {
  int bits = llvm_elem_bits(t);
  return p->machine->vector_bits / (bits == 1 ? 8 : bits);
}

int llvm_compute_width(const Llvm *p, DType t) {
  bool small = dtype_is_float(t) && llvm_elem_bits(t) < 32;
  return small ? p->machine->vector_bits / 32 : llvm_memory_width(p, t);
}

/* ---- forms ---- */

Held *llvm_held_new(Llvm *p, const Value *v) {
  Held *h = ARENA_NEW(p->arena, Held);
  *h = (Held){.dtype = v->type->dtype, .n = v->type->n, .memory = v->type->kind == TYPE_mem};
  if (p->matrices) h->matrix = p->matrices[v->id];
  return p->held[v->id] = h;
}

Held *llvm_held_get(Llvm *p, const Value *v) { return p->held[v->id]; }

int llvm_form_width(const Held *h) { return h->forms->width; }

void llvm_held_set(Llvm *p, Held *h, int width, const char *const *part) {
  Form *f = ARENA_NEW(p->arena, Form);
  *f = (Form){width < h->n ? width : h->n, part, h->forms};
  h->forms = f;
  vec_push(p->arena, &p->made, ((Made){h, MADE_FORM}));
}

/* ---- vectors ---- */

/* The only form of a number is made when it is needed as a value. */
static void need_vectors(Llvm *p, Held *h) {
  if (!h->forms && h->tiles) p->machine->tiles->to_vectors(p, h);
  if (!h->forms && h->packed) llvm_unpack(p, h);
  if (h->forms || !h->wide.name) return;
  const char *name = llvm_in_bits(p, h->wide, llvm_elem_bits(h->dtype));
  llvm_held_set(p, h, 1, arena_copy(p->arena, &name, sizeof name));
}

const char *const *llvm_parts_of(Llvm *p, Held *h, int width) {
  if (width > h->n) width = h->n;
  need_vectors(p, h);
  for (const Form *f = h->forms; f; f = f->next)
    if (f->width == width) return f->part;
  Source *all = ARENA_ARRAY(p->arena, Source, h->n);
  for (int i = 0; i < h->n; i++) all[i] = (Source){h, i};
  llvm_held_gather(p, h, all, width);
  return h->forms->part;
}

const char *llvm_scalar_of(Llvm *p, Held *h) { return llvm_parts_of(p, h, 1)[0]; }

const char *llvm_element_of(Llvm *p, Held *h, int i) {
  need_vectors(p, h);
  for (const Form *f = h->forms; f; f = f->next)
    if (f->width == 1) return f->part[i];
  const Form *f = h->forms;
  int part = i / f->width, n = part_size(h->n, f->width, part);
  if (n == 1) return f->part[part];
  return llvm_let(p, "extractelement %s %s, i32 %d", llvm_held_type(p, h->dtype, n), f->part[part],
                  i % f->width);
}

static bool is_constant(const char *name) { return *name != '%'; }

static const char *list_constant(Llvm *p, const char *elem, const char *const *names, int n) {
  StrBuf out = {.arena = p->arena};
  for (int i = 0; i < n; i++) sb_printf(&out, "%s%s %s", i ? ", " : "<", elem, names[i]);
  sb_putc(&out, '>');
  return sb_text(&out);
}

const char *llvm_splat_of(Llvm *p, const char *elem, const char *name, int n) {
  if (n == 1) return name;
  if (is_constant(name)) {
    const char **all = ARENA_ARRAY(p->arena, const char *, n);
    for (int i = 0; i < n; i++) all[i] = name;
    return list_constant(p, elem, all, n);
  }
  const char *type = llvm_vec_type(p, elem, n);
  const char *first = llvm_let(p, "insertelement %s poison, %s %s, i32 0", type, elem, name);
  return llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> zeroinitializer", type, first,
                  type, n);
}

const char *llvm_slice_of(Llvm *p, Held *h, int at, int n, int width) {
  if (h->n > 1) return llvm_parts_of(p, h, width)[at / width];
  const char *one = llvm_scalar_of(p, h);
  if (n == 1) return one;
  for (const Splat *s = h->splats; s; s = s->next)
    if (s->n == n) return s->name;
  Splat *s = ARENA_NEW(p->arena, Splat);
  *s = (Splat){n, llvm_splat_of(p, llvm_elem_type(h->dtype), one, n), h->splats};
  h->splats = s;
  vec_push(p->arena, &p->made, ((Made){h, MADE_SPLAT}));
  return s->name;
}

const char *llvm_in_bits(Llvm *p, LlvmNumber n, int bits) {
  if (n.bits == bits || is_constant(n.name)) return n.name;
  const char *how = n.bits > bits ? "trunc" : n.bits == 1 ? "zext" : "sext";
  return llvm_let(p, "%s i%d %s to i%d", how, n.bits, n.name, bits);
}

/* The bits of a scalar as a number; true is 1. */
static LlvmNumber extended(Llvm *p, Held *h, int bits) {
  const char *name = llvm_scalar_of(p, h);
  if (llvm_elem_bits(h->dtype) == bits || is_constant(name)) return (LlvmNumber){name, bits};
  bool counts = h->dtype == DTYPE_i1 || dtype_is_unsigned(h->dtype);
  return (LlvmNumber){llvm_let(p, "%s %s %s to i%d", counts ? "zext" : "sext",
                               llvm_elem_type(h->dtype), name, bits),
                      bits};
}

LlvmNumber llvm_number_of(Llvm *p, const Value *v) {
  Held *h = llvm_held_get(p, v);
  if (h->wide.name) return h->wide;
  bool is_signed = h->dtype == DTYPE_i1 || !dtype_is_unsigned(h->dtype);
  int most = is_signed ? 32 : 16; /* bits of types that a signed i32 can represent */
  return extended(p, h, p->machine->narrow && llvm_elem_bits(h->dtype) <= most ? 32 : 64);
}

const char *llvm_index_of(Llvm *p, const Value *v) {
  Held *h = llvm_held_get(p, v);
  if (h->wide.name) return llvm_in_bits(p, h->wide, 64);
  return extended(p, h, 64).name;
}

ScopeMark llvm_scope_open(const Llvm *p) { return (ScopeMark){p->symbols.n, p->made.n}; }

void llvm_scope_close(Llvm *p, ScopeMark m) {
  p->symbols.n = m.symbols;
  while (p->made.n > m.made) {
    Made last = p->made.at[--p->made.n];
    if (last.kind == MADE_SPLAT) last.of->splats = last.of->splats->next;
    else if (last.kind == MADE_FORM) last.of->forms = last.of->forms->next;
    else if (last.kind == MADE_PACKED) last.of->packed = NULL;
    else last.of->tiles = NULL;
  }
}

/* ---- moving elements ---- */

/* The position of an element in the form at hand. */
typedef struct Spot {
  const char *part;
  int size, at; /* elements of the part; position in it */
} Spot;

static Spot spot_of(const Source *s) {
  const Form *f = s->from->forms;
  int part = s->at / f->width;
  return (Spot){f->part[part], part_size(s->from->n, f->width, part), s->at % f->width};
}

static const char *mask_text(Llvm *p, const int *mask, int n) {
  StrBuf out = {.arena = p->arena};
  for (int i = 0; i < n; i++)
    if (mask[i] < 0) sb_printf(&out, "%si32 undef", i ? ", " : "<");
    else sb_printf(&out, "%si32 %d", i ? ", " : "<", mask[i]);
  sb_putc(&out, '>');
  return sb_text(&out);
}

static const char *shuffle(Llvm *p, const char *elem, int size, const char *a, const char *b,
                           const int *mask, int n) {
  const char *type = llvm_vec_type(p, elem, size);
  return llvm_let(p, "shufflevector %s %s, %s %s, <%d x i32> %s", type, a, type, b, n,
                  mask_text(p, mask, n));
}

/* A vector that contributes some elements to the result. */
typedef struct Piece {
  const char *name;
  int size;
  int *from; /* by position in the result: the index of its element; -1: none */
} Piece;

/* Combines two vectors of the same size into one with the elements of both. */
static Piece merge(Llvm *p, const char *elem, const Piece *a, const Piece *b, int n) {
  Piece both = {.size = n, .from = ARENA_ARRAY(p->arena, int, n)};
  int *mask = ARENA_ARRAY(p->arena, int, n);
  for (int i = 0; i < n; i++) {
    mask[i] = a->from[i] >= 0 ? a->from[i] : b->from[i] >= 0 ? a->size + b->from[i] : -1;
    both.from[i] = mask[i] >= 0 ? i : -1;
  }
  both.name = shuffle(p, elem, a->size, a->name, b->name, mask, n);
  return both;
}

/* The piece alone, with its elements moved to their positions. */
static Piece settle(Llvm *p, const char *elem, Piece a, int n) {
  bool there = a.size == n;
  for (int i = 0; i < n; i++) there &= a.from[i] < 0 || a.from[i] == i;
  if (there) return a;
  Piece out = {.size = n, .from = ARENA_ARRAY(p->arena, int, n)};
  out.name = shuffle(p, elem, a.size, a.name, "poison", a.from, n);
  for (int i = 0; i < n; i++) out.from[i] = a.from[i] >= 0 ? i : -1;
  return out;
}

/* The distinct vectors that contain the elements, without single elements. */
static int collect(Llvm *p, const Spot *spots, int n, Piece *out) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    int at = 0;
    if (spots[i].size == 1) continue;
    while (at < count && out[at].name != spots[i].part) at++;
    if (at == count) {
      out[count++] = (Piece){spots[i].part, spots[i].size, ARENA_ARRAY(p->arena, int, n)};
      for (int e = 0; e < n; e++) out[at].from[e] = -1;
    }
    out[at].from[i] = spots[i].at;
  }
  return count;
}

/* Merges adjacent vectors of the same size until one remains: one shuffle fewer than there are
 * vectors. */
static const char *merge_all(Llvm *p, const char *elem, Piece *pieces, int count, int n) {
  if (count == 1) return settle(p, elem, pieces[0], n).name;
  while (count > 1) {
    int left = 0;
    for (int i = 0; i < count; i += 2) {
      bool pair = i + 1 < count && pieces[i].size == pieces[i + 1].size;
      if (pair) pieces[left++] = merge(p, elem, &pieces[i], &pieces[i + 1], n);
      else pieces[left++] = settle(p, elem, pieces[i], n);
      if (!pair && i + 1 < count) pieces[left++] = settle(p, elem, pieces[i + 1], n);
    }
    count = left;
  }
  return pieces[0].name;
}

static const char *gather_part(Llvm *p, const char *elem, const Source *sources, int n) {
  Spot *spots = ARENA_ARRAY(p->arena, Spot, n);
  Piece *pieces = ARENA_ARRAY(p->arena, Piece, n);
  bool same = true, constant = true;
  const char **names = ARENA_ARRAY(p->arena, const char *, n), *sum = "poison";
  if (n == 1) return llvm_element_of(p, sources[0].from, sources[0].at);
  for (int i = 0; i < n; i++) {
    spots[i] = spot_of(&sources[i]);
    names[i] = spots[i].part;
    same &= spots[i].size == 1 && spots[i].part == spots[0].part;
    constant &= spots[i].size == 1 && is_constant(spots[i].part);
  }
  if (constant) return list_constant(p, elem, names, n);
  if (same) return llvm_splat_of(p, elem, names[0], n);
  int count = collect(p, spots, n, pieces);
  if (count) sum = merge_all(p, elem, pieces, count, n);
  for (int i = 0; i < n; i++)
    if (spots[i].size == 1)
      sum = llvm_let(p, "insertelement %s %s, %s %s, i32 %d", llvm_vec_type(p, elem, n), sum, elem,
                     names[i], i);
  return sum;
}

void llvm_held_gather(Llvm *p, Held *to, const Source *sources, int width) {
  if (width > to->n) width = to->n;
  for (int i = 0; i < to->n; i++) need_vectors(p, sources[i].from);
  int count = part_count(to->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    part[i] =
        gather_part(p, llvm_elem_type(to->dtype), sources + i * width, part_size(to->n, width, i));
  llvm_held_set(p, to, width, part);
}

void llvm_splat(Llvm *p, const Op *op) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  int width = llvm_compute_width(p, to->dtype), count = part_count(to->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    part[i] = llvm_slice_of(p, from, i * width, part_size(to->n, width, i), width);
  llvm_held_set(p, to, width, part);
}

void llvm_after(Llvm *p, const Op *op) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  Source *all = ARENA_ARRAY(p->arena, Source, to->n);
  for (int e = 0; e < to->n; e++) all[e] = (Source){from, e};
  llvm_held_gather(p, to, all, llvm_compute_width(p, to->dtype));
}

void llvm_join(Llvm *p, const Op *op) {
  Held *to = llvm_held_new(p, &op->results[0]);
  if (llvm_packed_join(p, op, to)) return;
  Source *all = ARENA_ARRAY(p->arena, Source, to->n);
  int at = 0;
  for (int i = 0; i < op->nargs; i++) {
    Held *from = llvm_held_get(p, op->args[i]);
    for (int e = 0; e < from->n; e++) all[at++] = (Source){from, e};
  }
  llvm_held_gather(p, to, all, llvm_compute_width(p, to->dtype));
}

void llvm_pick(Llvm *p, const Op *op) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  const Attr *regs = op_attr(op, ATTR_regs);
  if (llvm_packed_pick(p, from, regs->ints, to)) return;
  Source *all = ARENA_ARRAY(p->arena, Source, to->n);
  for (int i = 0; i < to->n; i++) all[i] = (Source){from, (int)regs->ints[i]};
  llvm_held_gather(p, to, all, llvm_compute_width(p, to->dtype));
}

/* All bits as one string, the first element lowest, which is how LLVM lays it out on these
 * machines. */
void llvm_bitcast(Llvm *p, const Op *op) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  if (llvm_is_packed(to) && dtype_info[from->dtype].bits == 8) {
    to->packed = from;
    return;
  }
  Held *bytes = llvm_packed_of(p, from);
  if (bytes) from = bytes;
  const char *bits = llvm_parts_of(p, from, from->n)[0];
  const DTypeInfo *src = &dtype_info[from->dtype], *dst = &dtype_info[to->dtype];
  const char *type = llvm_held_type(p, from->dtype, from->n);
  if (src->bits != llvm_elem_bits(from->dtype)) {
    const char *exact = llvm_vec_type(p, arena_printf(p->arena, "i%d", src->bits), from->n);
    bits = llvm_let(p, "trunc %s %s to %s", type, bits, exact);
    type = exact;
  }
  bool exact = dst->bits == llvm_elem_bits(to->dtype);
  const char *elem = exact ? llvm_elem_type(to->dtype) : arena_printf(p->arena, "i%d", dst->bits);
  bits = llvm_let(p, "bitcast %s %s to %s", type, bits, llvm_vec_type(p, elem, to->n));
  if (!exact)
    bits = llvm_let(p, "%s %s %s to %s", dst->class == DTYPE_INT ? "sext" : "zext",
                    llvm_vec_type(p, elem, to->n), bits, llvm_held_type(p, to->dtype, to->n));
  llvm_held_set(p, to, to->n, arena_copy(p->arena, &bits, sizeof bits));
}
