/* ptx_held.c: values in registers, as elements and as words. */
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

RegClass class_of(DType t) {
  const DTypeInfo *info = &dtype_info[t];
  if (info->class == DTYPE_BOOL) return REG_P;
  if (t == DTYPE_f32) return REG_F;
  if (t == DTYPE_f64) return REG_FD;
  if (t == DTYPE_f16 || t == DTYPE_bf16) return REG_H;
  return info->bits == 64 ? REG_RD : REG_R;
}

bool is_packed(DType t) { return dtype_info[t].bits < 32 && dtype_info[t].class != DTYPE_BOOL; }

int word_count(DType t, int n) { return (n * dtype_info[t].bits + 31) / 32; }

Held held_new(Ptx *p, DType t, int n, bool words) {
  int count = words ? word_count(t, n) : n;
  Reg *regs = ARENA_ARRAY(p->arena, Reg, count);
  for (int i = 0; i < count; i++) regs[i] = ptx_new(p, words ? REG_R : class_of(t));
  Held h = {.dtype = t, .n = n, .own = true};
  if (words) h.word = regs;
  else h.elem = regs;
  return h;
}

/* ---- from one form to the other ---- */

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
  int bits = dtype_info[h->dtype].bits, per = 32 / bits;
  if (bits == 6) per = 4; /* a byte each */
  for (int i = 0; i < h->n; i++) {
    Reg word = h->word[i / per];
    if (bits != 16) {
      ptx_line(p, "bfe.%s32 %s, %s, %d, %d", is_signed(h->dtype) ? "s" : "u", elem[i].name,
               word.name, i % per * (32 / per), bits);
    } else if (class_of(h->dtype) == REG_R) {
      ptx_line(p, "bfe.s32 %s, %s, %d, 16", elem[i].name, word.name, i % 2 * 16);
    } else if (i % 2 == 0) {
      Reg next = i + 1 < h->n ? elem[i + 1] : ptx_new(p, REG_H);
      split_halves(p, word, elem[i], next);
    }
  }
}

const Reg *elems_of(Ptx *p, Held *h) {
  if (h->elem) return h->elem;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, h->n);
  for (int i = 0; i < h->n; i++) elem[i] = ptx_new(p, class_of(h->dtype));
  if (is_packed(h->dtype)) unpack(p, h, elem);
  for (int i = 0; !is_packed(h->dtype) && i < h->n; i++)
    ptx_line(p, "mov.b32 %s, %s", elem[i].name, h->word[i].name);
  return h->elem = elem;
}

/* `n` bytes, one in each register, as one word. */
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
  Reg word = ptx_new(p, REG_R);
  ptx_line(p, "and.b32 %s, %s, 15", word.name, e[0].name);
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

const Reg *words_of(Ptx *p, Held *h) {
  if (h->word) return h->word;
  int bits = dtype_info[h->dtype].bits, n = word_count(h->dtype, h->n), per = 32 / bits;
  Reg *word = ARENA_ARRAY(p->arena, Reg, n + 1);
  for (int i = 0; i < n; i++) {
    int left = h->n - i * per < per ? h->n - i * per : per;
    const Reg *first = h->elem + i * per;
    word[i] = bits == 8    ? pack_bytes(p, first, left)
              : bits == 16 ? pack_halves(p, first, left)
              : bits == 4  ? pack_nibbles(p, first, left)
                           : as_word(p, h->elem[i]);
  }
  return h->word = word;
}

void move_held(Ptx *p, const Held *to, Held *from) {
  const Reg *source = to->word ? words_of(p, from) : elems_of(p, from);
  const Reg *target = to->word ? to->word : to->elem;
  int n = to->word ? word_count(to->dtype, to->n) : to->n;
  for (int i = 0; i < n; i++)
    if (target[i].name != source[i].name)
      ptx_line(p, "%s %s, %s", move_of(target[i].class), target[i].name, source[i].name);
}

/* ---- who needs a register ---- */

static bool is_alone(const Ptx *p, const Value *v) {
  return p->held[v->id]->own && p->uses[v->id] == 1;
}

/* Every register of `whole` is taken by one `pick`, and nothing else uses it. */
static bool is_divided(Ptx *p, const Value *whole) {
  int *taken = ARENA_ARRAY(p->arena, int, whole->type->n), users = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_pick || op->args[0] != whole) continue;
    const Attr *regs = op_attr(op, ATTR_regs);
    users++;
    for (int i = 0; i < regs->n; i++) {
      int64_t r;
      if (!sym_is_int(regs->dims[i], &r) || taken[r]++) return false;
    }
  }
  return users == p->uses[whole->id];
}

bool may_overwrite(Ptx *p, const Value *v) {
  if (is_alone(p, v)) return true;
  const Op *pick = v->def;
  if (p->uses[v->id] != 1 || !pick || pick->kind != OP_pick) return false;
  return p->held[pick->args[0]->id]->own && is_divided(p, pick->args[0]);
}

/* ---- parts of values ---- */

void ptx_splat(Ptx *p, const Op *op) {
  Held *from = ptx_get(p, op->args[0]);
  int n = op->results[0].type->n;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, n);
  for (int i = 0; i < n; i++) elem[i] = elems_of(p, from)[0];
  ptx_set(p, &op->results[0], (Held){.dtype = from->dtype, .n = n, .elem = elem});
}

/* Whole words of the operands side by side, where each has them already. */
static bool join_words(Ptx *p, const Op *op) {
  int n = 0, per = 32 / dtype_info[op->results[0].type->dtype].bits;
  Reg *word = ARENA_ARRAY(p->arena, Reg, op->results[0].type->n);
  for (int i = 0; i < op->nargs; i++) {
    Held *h = ptx_get(p, op->args[i]);
    if (!h->word || h->n % per) return false;
    for (int j = 0; j < word_count(h->dtype, h->n); j++) word[n++] = h->word[j];
  }
  const Type *t = op->results[0].type;
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .word = word});
  return true;
}

void ptx_join(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  if (is_packed(t->dtype) && dtype_info[t->dtype].bits != 6 && join_words(p, op)) return;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, t->n);
  int n = 0;
  for (int i = 0; i < op->nargs; i++) {
    Held *h = ptx_get(p, op->args[i]);
    const Reg *from = elems_of(p, h);
    for (int j = 0; j < h->n; j++) elem[n++] = from[j];
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = elem});
}

static int register_at(const Attr *regs, int i) {
  int64_t v = 0;
  sym_is_int(regs->dims[i], &v);
  return (int)v;
}

/* The registers are whole words of the operand, in any order. */
static bool pick_words(Ptx *p, const Op *op, const Attr *regs) {
  Held *h = ptx_get(p, op->args[0]);
  int per = 32 / dtype_info[h->dtype].bits;
  if (!h->word || regs->n % per) return false;
  Reg *word = ARENA_ARRAY(p->arena, Reg, regs->n);
  for (int i = 0; i < regs->n; i++) {
    if (register_at(regs, i) != register_at(regs, i - i % per) + i % per) return false;
    if (register_at(regs, i - i % per) % per) return false;
    word[i / per] = h->word[register_at(regs, i) / per];
  }
  ptx_set(p, &op->results[0], (Held){.dtype = h->dtype, .n = regs->n, .word = word});
  return true;
}

void ptx_pick(Ptx *p, const Op *op) {
  const Attr *regs = op_attr(op, ATTR_regs);
  Held *h = ptx_get(p, op->args[0]);
  if (is_packed(h->dtype) && dtype_info[h->dtype].bits != 6 && pick_words(p, op, regs)) return;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, regs->n);
  for (int i = 0; i < regs->n; i++) elem[i] = elems_of(p, h)[register_at(regs, i)];
  ptx_set(p, &op->results[0], (Held){.dtype = h->dtype, .n = regs->n, .elem = elem});
}

/* ---- between lanes ---- */

static Reg shuffle_word(Ptx *p, const char *mode, Reg word, const char *by, int clamp) {
  Reg to = ptx_new(p, REG_R);
  ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, %d, 0xffffffff", mode, to.name, word.name, by, clamp);
  return to;
}

static void shuffle(Ptx *p, const Op *op, const char *mode, const char *by, int clamp) {
  Held *h = ptx_get(p, op->args[0]);
  bool wide = dtype_info[h->dtype].bits == 64, truth = class_of(h->dtype) == REG_P;
  int n = wide || truth ? h->n : word_count(h->dtype, h->n);
  const Reg *from = wide || truth ? elems_of(p, h) : words_of(p, h);
  Held out = held_new(p, h->dtype, h->n, !wide && !truth);
  Reg *to = (Reg *)(out.word ? out.word : out.elem);
  for (int i = 0; i < n; i++) {
    if (wide) {
      Reg half[2] = {ptx_new(p, REG_R), ptx_new(p, REG_R)};
      ptx_line(p, "mov.b64 {%s, %s}, %s", half[0].name, half[1].name, from[i].name);
      for (int j = 0; j < 2; j++) half[j] = shuffle_word(p, mode, half[j], by, clamp);
      ptx_line(p, "mov.b64 %s, {%s, %s}", to[i].name, half[0].name, half[1].name);
    } else if (truth) {
      Reg word = shuffle_word(p, mode, as_word(p, from[i]), by, clamp);
      ptx_line(p, "setp.ne.b32 %s, %s, 0", to[i].name, word.name);
    } else {
      to[i] = shuffle_word(p, mode, from[i], by, clamp);
    }
  }
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
  Reg from = elems_of(p, lane)[0], word = ptx_new(p, REG_R);
  if (from.class == REG_RD) ptx_line(p, "cvt.u32.u64 %s, %s", word.name, from.name);
  else word = from;
  shuffle(p, op, "idx", word.name, 31);
}

/* ---- the same bits ---- */

/* Through words; 64-bit elements are two of them. */
void ptx_bitcast(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  const Type *t = op->results[0].type;
  int from = dtype_info[h->dtype].bits, to = dtype_info[t->dtype].bits;
  if (from == 64 || to == 64 || class_of(h->dtype) == REG_P || class_of(t->dtype) == REG_P) {
    if (from != to) ptx_fail(p, op, "a bitcast of 64 bits to fewer");
    Held out = held_new(p, t->dtype, t->n, false);
    for (int i = 0; i < t->n && from == to; i++)
      ptx_line(p, "mov.b64 %s, %s", out.elem[i].name, elems_of(p, h)[i].name);
    ptx_set(p, &op->results[0], out);
    return;
  }
  const Reg *word = words_of(p, h);
  Held out = {.dtype = t->dtype, .n = t->n, .word = word};
  if (!is_packed(t->dtype) && class_of(t->dtype) != REG_R) {
    out = held_new(p, t->dtype, t->n, false);
    for (int i = 0; i < t->n; i++) ptx_line(p, "mov.b32 %s, %s", out.elem[i].name, word[i].name);
  } else if (!is_packed(t->dtype)) {
    out = (Held){.dtype = t->dtype, .n = t->n, .elem = word};
  }
  ptx_set(p, &op->results[0], out);
}
