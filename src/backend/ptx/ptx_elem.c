/* ptx_elem.c: elementwise ops, from the templates of ptx.def. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

typedef enum Column { COL_F32, COL_F64, COL_I32, COL_I64, COL_I1, COL_HALF, COLUMNS } Column;

/* COL_HALF: words of two f16; two bf16 have a table of their own. */
static const char *const template_of[OP_COUNT][COLUMNS] = {
#define PTX(op, f32, f64, i32, i64, i1) [OP_##op] = {f32, f64, i32, i64, i1},
#define PTX_PAIR(op, f16x2, bf16x2)
#define PTX_FAST(op, f32)
#define PTX_UNSIGNED(op, u32, u64)
#include "backend/ptx/ptx.def"
};

static const char *const pair_of[OP_COUNT][2] = {
#define PTX(op, f32, f64, i32, i64, i1)
#define PTX_PAIR(op, f16x2, bf16x2) [OP_##op] = {f16x2, bf16x2},
#define PTX_FAST(op, f32)
#define PTX_UNSIGNED(op, u32, u64)
#include "backend/ptx/ptx.def"
};

static const char *const fast_of[OP_COUNT] = {
#define PTX(op, f32, f64, i32, i64, i1)
#define PTX_PAIR(op, f16x2, bf16x2)
#define PTX_FAST(op, f32) [OP_##op] = f32,
#define PTX_UNSIGNED(op, u32, u64)
#include "backend/ptx/ptx.def"
};

/* For unsigned integers of 32 and of 64 bits, where they differ from signed ones. */
static const char *const unsigned_of[OP_COUNT][2] = {
#define PTX(op, f32, f64, i32, i64, i1)
#define PTX_PAIR(op, f16x2, bf16x2)
#define PTX_FAST(op, f32)
#define PTX_UNSIGNED(op, u32, u64) [OP_##op] = {u32, u64},
#include "backend/ptx/ptx.def"
};

static const RegClass column_class[] = {REG_F, REG_FD, REG_R, REG_RD, REG_P, REG_R};

bool ptx_has_elementwise(OpKind kind) {
  for (int i = 0; i < COLUMNS; i++)
    if (template_of[kind][i]) return true;
  return false;
}

static Column column_of(DType t) {
  const DTypeInfo *info = &dtype_info[t];
  if (info->class == DTYPE_BOOL) return COL_I1;
  if (info->class == DTYPE_FLOAT) return t == DTYPE_f64 ? COL_F64 : COL_F32;
  return info->bits == 64 ? COL_I64 : COL_I32;
}

static const char *text_of(OpKind kind, DType t) {
  const char *other = dtype_is_unsigned(t) ? unsigned_of[kind][dtype_info[t].bits == 64] : NULL;
  return other ? other : template_of[kind][column_of(t)];
}

/* ---- templates ---- */

enum { FRESH = 6, OTHERS = 11 };

/* Registers that replace the letters of a template. */
typedef struct Fill {
  Reg d, arg[3], fresh[FRESH], other[OTHERS];
  const char *label;
  Column col;
} Fill;

static const char *letter(Ptx *p, Fill *f, char what) {
  static const char others[] = "pqijmtuvwex";
  static const RegClass class[OTHERS] = {REG_P, REG_P, REG_R, REG_R,  REG_R, REG_R,
                                         REG_R, REG_R, REG_R, REG_RD, REG_FD};
  if (what == 'd') return f->d.name;
  if (what >= 'a' && what <= 'c') return f->arg[what - 'a'].name;
  if (what == 'l' && !f->label) f->label = arena_printf(p->arena, "$over%d", p->labels++);
  if (what == 'l') return f->label;
  bool digit = what >= '0' && what < '0' + FRESH;
  int i = digit ? what - '0' : (int)(strchr(others, what) - others);
  Reg *r = digit ? &f->fresh[i] : &f->other[i];
  if (!r->name) *r = ptx_new(p, digit ? column_class[f->col] : class[i]);
  return r->name;
}

static void expand(Ptx *p, const char *text, Fill *f) {
  StrBuf line = {.arena = p->arena};
  for (const char *at = text;; at++) {
    if (*at == ';' || !*at) {
      if (at > text && at[-1] == ':') sb_printf(&p->body, "%s\n", sb_text(&line));
      else ptx_line(p, "%s", sb_text(&line));
      line = (StrBuf){.arena = p->arena};
      if (!*at) return;
      if (at[1] == ' ') at++;
    } else if (*at == '$') {
      sb_puts(&line, letter(p, f, *++at));
    } else {
      sb_printf(&line, "%c", *at);
    }
  }
}

Reg ptx_apply(Ptx *p, OpKind kind, DType t, Reg a, Reg b) {
  Column col = column_of(t);
  Fill f = {.col = col, .arg = {a, b}, .d = ptx_new(p, column_class[col])};
  expand(p, text_of(kind, t), &f);
  return f.d;
}

/* ---- values ---- */

/* Two elements in a word, computed by one instruction. */
static void by_pairs(Ptx *p, const Op *op, const char *text) {
  const Type *t = op->results[0].type;
  Held h = held_new(p, t->dtype, t->n, true);
  for (int i = 0; i < ptx_word_count(t->dtype, t->n); i++) {
    Fill f = {.col = COL_HALF, .d = h.word[i]};
    for (int j = 0; j < op->nargs; j++)
      f.arg[j] = ptx_words_of(p, held_spread(p, op->args[j], t->n))[i];
    expand(p, text, &f);
  }
  ptx_set(p, &op->results[0], h);
}

static const char *template_for(const Ptx *p, const Op *op, DType t) {
  if (p->fast && column_of(t) == COL_F32 && fast_of[op->kind]) return fast_of[op->kind];
  return text_of(op->kind, t);
}

void ptx_elementwise(Ptx *p, const Op *op) {
  DType in = op->args[0]->type->dtype, out = op->results[0].type->dtype;
  Column col = column_of(in);
  const char *text = template_for(p, op, in);
  const char *pair = in == DTYPE_f16    ? pair_of[op->kind][0]
                     : in == DTYPE_bf16 ? pair_of[op->kind][1]
                                        : NULL;
  int n = op->results[0].type->n;
  bool truth = dtype_info[out].class == DTYPE_BOOL;
  Reg *d = ARENA_ARRAY(p->arena, Reg, n);
  const Reg *arg[3] = {0};
  if (pair) {
    by_pairs(p, op, pair);
    return;
  }
  if (!text) ptx_fail(p, op, arena_printf(p->arena, "this op on %s", dtype_info[in].name));
  for (int j = 0; text && j < op->nargs; j++) {
    Held *h = held_spread(p, op->args[j], n);
    arg[j] = ptx_is_small_float(in) ? ptx_floats_of(p, h) : ptx_elems_of(p, h);
  }
  for (int i = 0; text && i < n; i++) {
    Fill f = {.col = col, .d = ptx_new(p, truth ? REG_P : column_class[col])};
    for (int j = 0; j < op->nargs; j++) f.arg[j] = arg[j][i];
    expand(p, text, &f);
    d[i] = ptx_is_small_float(in) || truth ? f.d : ptx_wrap_integer(p, out, f.d);
  }
  Held h = {.dtype = out, .n = n, .elem = d, .own = true};
  if (ptx_is_small_float(out) && text) h = ptx_from_floats(p, out, d, n);
  ptx_set(p, &op->results[0], h);
}

/* ---- two ops by one instruction ---- */

/* The `and` with a constant whose result an `or` with another constant takes, if nothing else does; NULL:
 * there is none. For such pairs ptxas takes two instructions, as each has at most one constant. */
static const Op *masked_of(const Ptx *p, const Op *op, int64_t *mask, int64_t *set, int *operand) {
  if (op->kind != OP_or || dtype_info[op->results[0].type->dtype].bits != 32) return NULL;
  for (int i = 0; i < 2; i++) {
    const Op *inner = op->args[i]->def;
    if (!inner || inner->kind != OP_and || inner->parent != op->parent) continue;
    if (p->uses[inner->results[0].id] != 1 || !ptx_constant(op->args[1 - i], set)) continue;
    for (*operand = 0; *operand < 2; (*operand)++)
      if (ptx_constant(inner->args[1 - *operand], mask)) return inner;
  }
  return NULL;
}

void ptx_find_masked(Ptx *p) {
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    int64_t mask, set;
    int operand;
    const Op *inner = masked_of(p, op, &mask, &set, &operand);
    if (inner && !p->fused[inner->id] && !p->fused[op->id]) p->fused[inner->id] = op;
  }
}

bool ptx_masked(Ptx *p, const Op *op) {
  int64_t mask, set;
  int operand;
  const Op *inner = masked_of(p, op, &mask, &set, &operand);
  if (!inner || p->fused[inner->id] != op) return false;
  Held to = held_new(p, op->results[0].type->dtype, op->results[0].type->n, false);
  const Reg *x = ptx_elems_of(p, held_spread(p, inner->args[operand], to.n));
  for (int i = 0; i < to.n; i++) /* 0xea: (x & mask) | set */
    ptx_line(p, "lop3.b32 %s, %s, 0x%" PRIx32 ", 0x%" PRIx32 ", 0xea", to.elem[i].name, x[i].name,
             (uint32_t)mask, (uint32_t)set);
  ptx_set(p, &op->results[0], to);
  return true;
}

static void select_truth(Ptx *p, Reg test, Reg x, Reg y, Reg to) {
  Reg u = ptx_new(p, REG_P), v = ptx_new(p, REG_P), no = ptx_new(p, REG_P);
  ptx_line(p, "and.pred %s, %s, %s", u.name, test.name, x.name);
  ptx_line(p, "not.pred %s, %s", no.name, test.name);
  ptx_line(p, "and.pred %s, %s, %s", v.name, no.name, y.name);
  ptx_line(p, "or.pred %s, %s, %s", to.name, u.name, v.name);
}

/* Selects whole words if one condition decides for all elements. */
void ptx_select(Ptx *p, const Op *op) {
  static const char *const how[] = {"", "b16", "b32", "b64", "f32", "f64"};
  const Type *t = op->results[0].type;
  Held *c = ptx_get(p, op->args[0]), *a = held_spread(p, op->args[1], t->n),
       *b = held_spread(p, op->args[2], t->n);
  bool words = c->n == 1 && ptx_is_packed(t->dtype) && ptx_has_words(p, a) && ptx_has_words(p, b);
  Held h = held_new(p, t->dtype, t->n, words);
  const Reg *x = words ? a->word : ptx_elems_of(p, a), *y = words ? b->word : ptx_elems_of(p, b);
  const Reg *to = words ? h.word : h.elem;
  for (int i = 0; i < (words ? ptx_word_count(t->dtype, t->n) : t->n); i++) {
    Reg test = ptx_elems_of(p, c)[c->n == 1 ? 0 : i];
    if (x[i].class == REG_P) select_truth(p, test, x[i], y[i], to[i]);
    else
      ptx_line(p, "selp.%s %s, %s, %s, %s", how[x[i].class], to[i].name, x[i].name, y[i].name,
               test.name);
  }
  ptx_set(p, &op->results[0], h);
}
