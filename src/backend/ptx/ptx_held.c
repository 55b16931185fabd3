/* ptx_held.c: values in registers, as elements and as words. */
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/region_facts.h"

RegClass ptx_class_of(DType t) {
  const DTypeInfo *info = &dtype_info[t];
  if (info->class == DTYPE_BOOL) return REG_P;
  if (t == DTYPE_f32) return REG_F;
  if (t == DTYPE_f64) return REG_FD;
  if (t == DTYPE_f16 || t == DTYPE_bf16) return REG_H;
  return info->bits == 64 ? REG_RD : REG_R;
}

bool ptx_is_packed(DType t) { return dtype_info[t].bits < 32 && dtype_info[t].class != DTYPE_BOOL; }

/* Bits of an element in a word: 6-bit floats take a byte. */
static int width_of(DType t) { return dtype_info[t].bits == 6 ? 8 : dtype_info[t].bits; }

int ptx_word_count(DType t, int n) { return (n * width_of(t) + 31) / 32; }

Held held_new(Ptx *p, DType t, int n, bool words) {
  int count = words ? ptx_word_count(t, n) : n;
  Reg *regs = ARENA_ARRAY(p->arena, Reg, count);
  for (int i = 0; i < count; i++) regs[i] = ptx_new(p, words ? REG_R : ptx_class_of(t));
  Held h = {.dtype = t, .n = n, .own = true};
  if (words) h.word = regs;
  else h.elem = regs;
  return h;
}

/* ---- from one form to the other ---- */
static bool is_open(const Ptx *p, int region) {
  for (int i = p->regions.n - 1; i >= 0 && region; i--)
    if (p->regions.at[i] == region) return true;
  return region == 0;
}

static int current_region(const Ptx *p) {
  return p->regions.n ? p->regions.at[p->regions.n - 1] : 0;
}

bool ptx_has_elems(const Ptx *p, const Held *h) { return h->elem && is_open(p, h->elem_in); }
bool ptx_has_words(const Ptx *p, const Held *h) { return h->word && is_open(p, h->word_in); }

static const char *move_of(RegClass class) {
  static const char *const names[] = {"mov.pred", "mov.b16", "mov.b32",
                                      "mov.b64",  "mov.f32", "mov.f64"};
  return names[class];
}

static void split_halves(Ptx *p, Reg word, Reg lo, Reg hi) {
  ptx_line(p, "mov.b32 {%s, %s}, %s", lo.name, hi.name, word.name);
}

static bool is_signed(DType t) { return dtype_info[t].class == DTYPE_INT; }

static void unpack(Ptx *p, Held *h, Reg *elem) {
  int width = width_of(h->dtype), per = 32 / width;
  for (int i = 0; i < h->n; i++) {
    Reg word = h->word[i / per];
    if (ptx_class_of(h->dtype) != REG_H) {
      ptx_line(p, "bfe.%s32 %s, %s, %d, %d", is_signed(h->dtype) ? "s" : "u", elem[i].name,
               word.name, i % per * width, width);
    } else if (i % 2 == 0) {
      Reg next = i + 1 < h->n ? elem[i + 1] : ptx_new(p, REG_H);
      split_halves(p, word, elem[i], next);
    }
  }
}

const Reg *ptx_elems_of(Ptx *p, Held *h) {
  if (ptx_has_elems(p, h)) return h->elem;
  h->elem_in = current_region(p);
  Reg *elem = ARENA_ARRAY(p->arena, Reg, h->n);
  for (int i = 0; i < h->n; i++) elem[i] = ptx_new(p, ptx_class_of(h->dtype));
  if (ptx_is_packed(h->dtype)) unpack(p, h, elem);
  for (int i = 0; !ptx_is_packed(h->dtype) && i < h->n; i++)
    if (width_of(h->dtype) == 64)
      ptx_line(p, "mov.b64 %s, {%s, %s}", elem[i].name, h->word[2 * i].name,
               h->word[2 * i + 1].name);
    else ptx_line(p, "mov.b32 %s, %s", elem[i].name, h->word[i].name);
  return h->elem = elem;
}

/* Packs `n` bytes, one per register, into a word. */
static Reg pack_bytes(Ptx *p, const Reg *b, int n) {
  Reg lo = ptx_new(p, REG_R), hi, word = ptx_new(p, REG_R);
  if (n == 1) return ptx_line(p, "and.b32 %s, %s, 255", lo.name, b[0].name), lo;
  ptx_line(p, "prmt.b32 %s, %s, %s, 0x0040", lo.name, b[0].name, b[1].name);
  if (n == 2) return ptx_line(p, "and.b32 %s, %s, 65535", word.name, lo.name), word;
  hi = ptx_new(p, REG_R);
  ptx_line(p, "prmt.b32 %s, %s, %s, 0x0040", hi.name, b[2].name, n > 3 ? b[3].name : b[2].name);
  ptx_line(p, "prmt.b32 %s, %s, %s, 0x5410", word.name, lo.name, hi.name);
  return word;
}

static Reg pack_halves(Ptx *p, const Reg *h, int n) {
  Reg word = ptx_new(p, REG_R);
  if (h[0].class == REG_R && n == 2)
    ptx_line(p, "prmt.b32 %s, %s, %s, 0x5410", word.name, h[0].name, h[1].name);
  else if (h[0].class == REG_R) ptx_line(p, "and.b32 %s, %s, 65535", word.name, h[0].name);
  else if (n == 2) ptx_line(p, "mov.b32 %s, {%s, %s}", word.name, h[0].name, h[1].name);
  else ptx_line(p, "cvt.u32.u16 %s, %s", word.name, h[0].name);
  return word;
}

static Reg pack_nibbles(Ptx *p, const Reg *e, int n) {
  Reg word = ptx_let(p, REG_R, "and.b32 %s, 15", e[0].name);
  for (int i = 1; i < n; i++)
    ptx_line(p, "bfi.b32 %s, %s, %s, %d, 4", word.name, e[i].name, word.name, 4 * i);
  return word;
}

static Reg as_word(Ptx *p, Reg r) {
  Reg word = ptx_new(p, REG_R);
  if (r.class == REG_R) return r;
  if (r.class == REG_P) ptx_line(p, "selp.b32 %s, 1, 0, %s", word.name, r.name);
  else ptx_line(p, "mov.b32 %s, %s", word.name, r.name);
  return word;
}

static Reg pack(Ptx *p, DType t, const Reg *first, int n) {
  int width = width_of(t);
  return width == 8    ? pack_bytes(p, first, n)
         : width == 16 ? pack_halves(p, first, n)
         : width == 4  ? pack_nibbles(p, first, n)
                       : as_word(p, first[0]);
}

static bool same_registers(const Reg *a, const Reg *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i].name != b[i].name) return false;
  return true;
}

const Reg *ptx_words_of(Ptx *p, Held *h) {
  if (ptx_has_words(p, h)) return h->word;
  h->word_in = current_region(p);
  int n = ptx_word_count(h->dtype, h->n), per = 32 / width_of(h->dtype);
  Reg *word = ARENA_ARRAY(p->arena, Reg, n + 1);
  for (int i = 0; i < n && per; i++) {
    int left = h->n - i * per < per ? h->n - i * per : per;
    const Reg *first = h->elem + i * per;
    bool again = i && left == per && same_registers(first, first - per, per);
    word[i] = again ? word[i - 1] : pack(p, h->dtype, first, left);
  }
  for (int i = 0; i < h->n && !per; i++) {
    word[2 * i] = ptx_new(p, REG_R), word[2 * i + 1] = ptx_new(p, REG_R);
    ptx_line(p, "mov.b64 {%s, %s}, %s", word[2 * i].name, word[2 * i + 1].name, h->elem[i].name);
  }
  return h->word = word;
}

Held *held_spread(Ptx *p, const Value *v, int n) {
  Held *h = ptx_get(p, v);
  if (h->n == n) return h;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, n);
  for (int i = 0; i < n; i++) elem[i] = ptx_elems_of(p, h)[0];
  Held all = {.dtype = h->dtype, .n = n, .elem = elem};
  return arena_copy(p->arena, &all, sizeof all);
}

void ptx_move_held(Ptx *p, const Held *to, Held *from) {
  const Reg *source = to->word ? ptx_words_of(p, from) : ptx_elems_of(p, from);
  const Reg *target = to->word ? to->word : to->elem;
  int n = to->word ? ptx_word_count(to->dtype, to->n) : to->n;
  for (int i = 0; i < n; i++)
    if (target[i].name != source[i].name)
      ptx_line(p, "%s %s, %s", move_of(target[i].class), target[i].name, source[i].name);
}

/* ---- ownership of registers ---- */

/* A loop inside the value's region would find it overwritten the second time. */
static bool is_alone(const Ptx *p, const Op *user, const Value *v) {
  return p->held[v->id]->own && p->uses[v->id] == 1 && region_of_value(v) == user->parent;
}

/* Every register of `whole` is used by exactly one `pick`, and by nothing else. */
static bool is_divided(Ptx *p, const Value *whole) {
  int *taken = ARENA_ARRAY(p->arena, int, whole->type->n), users = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_pick || op->args[0] != whole) continue;
    const Attr *regs = op_attr(op, ATTR_regs);
    users++;
    for (int i = 0; i < regs->n; i++)
      if (taken[regs->ints[i]]++) return false;
  }
  return users == p->uses[whole->id];
}

bool ptx_may_overwrite(Ptx *p, const Op *user, const Value *v) {
  if (is_alone(p, user, v)) return true;
  const Op *pick = v->def;
  if (p->uses[v->id] != 1 || !pick || pick->kind != OP_pick || pick->parent != user->parent)
    return false;
  const Value *whole = pick->args[0];
  return p->held[whole->id]->own && region_of_value(whole) == user->parent && is_divided(p, whole);
}

/* ---- parts of values ---- */

void ptx_splat(Ptx *p, const Op *op) {
  Held all = *held_spread(p, op->args[0], op->results[0].type->n);
  all.own = false;
  ptx_set(p, &op->results[0], all);
}

/* The highest bit of a tensor's address, which is never set in user space. ptxas cannot know that, but it does know the
 * range of special registers. Without a tensor, the register has no name. */
static Reg unknown_zero(Ptx *p) {
  enum { BITS = 31 };
  int i = 0;
  while (i < p->args.n && p->args.at[i].kind != PTX_POINTER) i++;
  if (i == p->args.n || (p->zero.name && !p->regions.n)) return p->zero;
  Reg low = ptx_new(p, REG_R), high = ptx_new(p, REG_R);
  ptx_line(p, "mov.b64 {%s, %s}, %s", low.name, high.name, p->arg_regs.at[i].name);
  Reg zero = ptx_let(p, REG_R, "shr.u32 %s, %d", high.name, BITS);
  if (!p->regions.n) p->zero = zero;
  return zero;
}

/* 0, but not before v is computed. */
static Reg zero_after(Ptx *p, const Value *v) {
  if (p->zero_of == v && !p->regions.n) return p->zero_after;
  Reg zero = unknown_zero(p), word = ptx_words_of(p, ptx_get(p, v))[0];
  if (!zero.name) return zero;
  p->zero_of = p->regions.n ? NULL : v;
  return p->zero_after = ptx_let(p, REG_R, "and.b32 %s, %s", word.name, zero.name);
}

/* ptxas merges equal values, across barriers, too, and then keeps what is computed from them. */
void ptx_after(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  Held all = *ptx_get(p, op->args[0]);
  all.own = false;
  if (ptx_is_packed(t->dtype)) {
    const Reg *from = ptx_words_of(p, ptx_get(p, op->args[0]));
    Reg zero = zero_after(p, op->args[1]);
    if (zero.name) all = held_new(p, t->dtype, all.n, true);
    for (int i = 0; zero.name && i < ptx_word_count(t->dtype, all.n); i++)
      ptx_line(p, "or.b32 %s, %s, %s", all.word[i].name, from[i].name, zero.name);
  }
  ptx_set(p, &op->results[0], all);
}

/* Every operand has whole words already. */
static bool all_have_words(Ptx *p, const Op *op, int per) {
  for (int i = 0; i < op->nargs; i++) {
    Held *h = ptx_get(p, op->args[i]);
    if (!ptx_has_words(p, h) || h->n % per) return false;
  }
  return true;
}

/* Pairs of bytes, each in a word of its own, two and two in a word. */
static void join_pairs(Ptx *p, const Op *op, Reg *word) {
  for (int i = 0; i < op->nargs; i += 2) {
    Reg low = ptx_get(p, op->args[i])->word[0], high = ptx_get(p, op->args[i + 1])->word[0];
    word[i / 2] = ptx_let(p, REG_R, "prmt.b32 %s, %s, 0x5410", low.name, high.name);
  }
}

static bool are_pairs_of_bytes(Ptx *p, const Op *op) {
  if (op->nargs % 2 || width_of(op->results[0].type->dtype) != 8) return false;
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->type->n != 2 || !ptx_has_words(p, ptx_get(p, op->args[i]))) return false;
  return true;
}

/* Concatenates whole words of the operands, if all of them have words already. */
static bool join_words(Ptx *p, const Op *op) {
  int n = 0, per = 32 / width_of(op->results[0].type->dtype);
  bool pairs = are_pairs_of_bytes(p, op);
  if (!pairs && !all_have_words(p, op, per)) return false;
  Reg *word = ARENA_ARRAY(p->arena, Reg, op->results[0].type->n);
  if (pairs) join_pairs(p, op, word);
  for (int i = 0; i < op->nargs && !pairs; i++) {
    Held *h = ptx_get(p, op->args[i]);
    for (int j = 0; j < ptx_word_count(h->dtype, h->n); j++) word[n++] = h->word[j];
  }
  const Type *t = op->results[0].type;
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .word = word});
  return true;
}

void ptx_join(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  if (ptx_is_packed(t->dtype) && join_words(p, op)) return;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, t->n);
  int n = 0;
  for (int i = 0; i < op->nargs; i++) {
    Held *h = ptx_get(p, op->args[i]);
    const Reg *from = ptx_elems_of(p, h);
    for (int j = 0; j < h->n; j++) elem[n++] = from[j];
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = elem});
}

/* The picked registers are whole words of the operand, in any order. */
static bool pick_words(Ptx *p, const Op *op, const Attr *regs) {
  Held *h = ptx_get(p, op->args[0]);
  int per = 32 / width_of(h->dtype);
  if (!ptx_has_words(p, h) || regs->n % per) return false;
  Reg *word = ARENA_ARRAY(p->arena, Reg, regs->n);
  for (int i = 0; i < regs->n; i++) {
    int64_t first = regs->ints[i - i % per];
    if (regs->ints[i] != first + i % per || first % per) return false;
    word[i / per] = h->word[regs->ints[i] / per];
  }
  ptx_set(p, &op->results[0], (Held){.dtype = h->dtype, .n = regs->n, .word = word});
  return true;
}

void ptx_pick(Ptx *p, const Op *op) {
  const Attr *regs = op_attr(op, ATTR_regs);
  Held *h = ptx_get(p, op->args[0]);
  if (ptx_is_packed(h->dtype) && pick_words(p, op, regs)) return;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, regs->n);
  for (int i = 0; i < regs->n; i++) elem[i] = ptx_elems_of(p, h)[regs->ints[i]];
  ptx_set(p, &op->results[0], (Held){.dtype = h->dtype, .n = regs->n, .elem = elem});
}

/* ---- between lanes ---- */

static Reg shuffle_word(Ptx *p, const char *mode, Reg word, const char *by, int clamp) {
  return ptx_let(p, REG_R, "shfl.sync.%s.b32 %s, %s, %d, 0xffffffff", mode, word.name, by, clamp);
}

static void shuffle(Ptx *p, const Op *op, const char *mode, const char *by, int clamp) {
  Held *h = ptx_get(p, op->args[0]);
  bool truth = ptx_class_of(h->dtype) == REG_P;
  int n = truth ? h->n : ptx_word_count(h->dtype, h->n);
  const Reg *from = truth ? ptx_elems_of(p, h) : ptx_words_of(p, h);
  Reg *to = ARENA_ARRAY(p->arena, Reg, n);
  for (int i = 0; i < n; i++) {
    to[i] = shuffle_word(p, mode, truth ? as_word(p, from[i]) : from[i], by, clamp);
    if (!truth) continue;
    Reg test = ptx_let(p, REG_P, "setp.ne.b32 %s, 0", to[i].name);
    to[i] = test;
  }
  Held out = {.dtype = h->dtype, .n = h->n, .own = true};
  if (truth) out.elem = to;
  else out.word = to;
  ptx_set(p, &op->results[0], out);
}

void ptx_shuffle(Ptx *p, const Op *op) {
  const char *mode = op_attr(op, ATTR_mode)->text;
  bool up = strcmp(mode, "up") == 0, flip = strcmp(mode, "xor") == 0;
  const char *by = arena_printf(p->arena, "%d", (int)op_attr(op, ATTR_by)->integer);
  shuffle(p, op, flip ? "bfly" : mode, by, up ? 0 : 31);
}

void ptx_shuffle_idx(Ptx *p, const Op *op) {
  Held *lane = ptx_get(p, op->args[1]);
  Reg from = ptx_elems_of(p, lane)[0], word = ptx_new(p, REG_R);
  if (from.class == REG_RD) ptx_line(p, "cvt.u32.u64 %s, %s", word.name, from.name);
  else word = from;
  shuffle(p, op, "idx", word.name, 31);
}

/* ---- the same bits ---- */

/* Elements of 6 bits of a string of words; some lie in two. */
static void split_sixes(Ptx *p, const Op *op, const Reg *word) {
  const Type *t = op->results[0].type;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, t->n);
  for (int i = 0; i < t->n; i++) {
    int w = 6 * i / 32, at = 6 * i % 32;
    if (at + 6 <= 32) elem[i] = ptx_let(p, REG_R, "bfe.u32 %s, %d, 6", word[w].name, at);
    else {
      Reg both = ptx_let(p, REG_R, "shf.r.wrap.b32 %s, %s, %d", word[w].name, word[w + 1].name, at);
      elem[i] = ptx_let(p, REG_R, "and.b32 %s, 63", both.name);
    }
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = elem});
}

/* Through words; a 64-bit element takes two. */
void ptx_bitcast(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  const Type *t = op->results[0].type;
  int from = dtype_info[h->dtype].bits, to = dtype_info[t->dtype].bits;
  if (to == 6 && from >= 8) {
    split_sixes(p, op, ptx_words_of(p, h));
    return;
  }
  if (from != to && (from == 1 || from == 6 || to == 1 || to == 6)) {
    ptx_fail(p, op, "a bitcast of 1 or 6 bits to others");
    return;
  }
  bool same = from == to && ptx_class_of(h->dtype) == ptx_class_of(t->dtype) &&
              is_signed(h->dtype) == is_signed(t->dtype);
  Held out = *h;
  out.dtype = t->dtype, out.n = t->n, out.own = false;
  if (!same) {
    out.word = ptx_words_of(p, h);
    out.elem = NULL;
    out.word_in = 0; /* valid wherever the value is */
  }
  ptx_set(p, &op->results[0], out);
}
