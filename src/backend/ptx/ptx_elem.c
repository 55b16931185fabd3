/* ptx_elem.c: elementwise ops, by the templates of ptx.def; casts; constants. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

typedef enum Column { COL_F32, COL_F64, COL_I32, COL_I64, COL_I1, COLUMNS } Column;

static const char *const template_of[OP_COUNT][COLUMNS] = {
#define PTX(op, f32, f64, i32, i64, i1) [OP_##op] = {f32, f64, i32, i64, i1},
#include "backend/ptx/ptx.def"
};

static const RegClass column_class[] = {REG_F, REG_FD, REG_R, REG_RD, REG_P};

bool has_elementwise(OpKind kind) {
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

/* ---- to and from the type an op is computed in ---- */

static bool is_small_float(DType t) {
  return dtype_info[t].class == DTYPE_FLOAT && dtype_info[t].bits < 32;
}

/* An 8-bit float as f32, through f16, which holds both formats exactly. */
static void from_f8(Ptx *p, const Op *op, DType t, Reg from, Reg to) {
  Reg half = ptx_new(p, REG_H), low = ptx_new(p, REG_H), pair = ptx_new(p, REG_R),
      other = ptx_new(p, REG_H);
  if ((t != DTYPE_f8e4m3fn && t != DTYPE_f8e5m2) || !target_has(p->target, FEATURE_FP8_OCP)) {
    ptx_fail(p, op, "arithmetic of this 8-bit float");
    return;
  }
  ptx_line(p, "cvt.u16.u32 %s, %s", low.name, from.name);
  ptx_line(p, "cvt.rn.f16x2.%s %s, %s", t == DTYPE_f8e4m3fn ? "e4m3x2" : "e5m2x2", pair.name,
           low.name);
  ptx_line(p, "mov.b32 {%s, %s}, %s", half.name, other.name, pair.name);
  ptx_line(p, "cvt.f32.f16 %s, %s", to.name, half.name);
}

static Reg to_f32(Ptx *p, const Op *op, DType t, Reg from) {
  Reg to = ptx_new(p, REG_F), word = ptx_new(p, REG_R);
  if (t == DTYPE_f32) return from;
  if (t == DTYPE_f16) ptx_line(p, "cvt.f32.f16 %s, %s", to.name, from.name);
  else if (t == DTYPE_bf16) {
    ptx_line(p, "mov.b32 %s, {0, %s}", word.name, from.name);
    ptx_line(p, "mov.b32 %s, %s", to.name, word.name);
  } else {
    from_f8(p, op, t, from, to);
  }
  return to;
}

static Reg from_f32(Ptx *p, const Op *op, DType t, Reg from) {
  Reg to = ptx_new(p, class_of(t)), low;
  if (t == DTYPE_f32) return from;
  if (t == DTYPE_f16) ptx_line(p, "cvt.rn.f16.f32 %s, %s", to.name, from.name);
  else if (t == DTYPE_bf16) ptx_line(p, "cvt.rn.bf16.f32 %s, %s", to.name, from.name);
  else if ((t == DTYPE_f8e4m3fn || t == DTYPE_f8e5m2) && target_has(p->target, FEATURE_FP8_OCP)) {
    low = ptx_new(p, REG_H);
    ptx_line(p, "cvt.rn.satfinite.%s.f32 %s, 0f00000000, %s",
             t == DTYPE_f8e4m3fn ? "e4m3x2" : "e5m2x2", low.name, from.name);
    ptx_line(p, "cvt.u32.u16 %s, %s", to.name, low.name);
  } else {
    ptx_fail(p, op, "arithmetic of this 8-bit float");
  }
  return to;
}

/* Small integers are computed in 32 bits: the result's upper bits follow its sign. */
static Reg wrap(Ptx *p, DType t, Reg r) {
  int bits = dtype_info[t].bits;
  if (dtype_info[t].class != DTYPE_INT || bits >= 32) return r;
  Reg to = ptx_new(p, REG_R);
  ptx_line(p, "bfe.s32 %s, %s, 0, %d", to.name, r.name, bits);
  return to;
}

static Reg computed(Ptx *p, const Op *op, DType t, Reg r) {
  return is_small_float(t) ? to_f32(p, op, t, r) : r;
}

static Reg stored(Ptx *p, const Op *op, DType t, Reg r) {
  return is_small_float(t) ? from_f32(p, op, t, r) : wrap(p, t, r);
}

/* ---- templates ---- */

typedef struct Fill {
  Reg d, arg[3], fresh[4], pred[2];
  bool has_fresh[4], has_pred[2];
} Fill;

static const char *fill_in(Ptx *p, Fill *f, Column col, char what) {
  if (what == 'd') return f->d.name;
  if (what >= 'a' && what <= 'c') return f->arg[what - 'a'].name;
  if (what >= '0' && what <= '3') {
    int i = what - '0';
    if (!f->has_fresh[i]) f->fresh[i] = ptx_new(p, column_class[col]), f->has_fresh[i] = true;
    return f->fresh[i].name;
  }
  int i = what == 'q';
  if (!f->has_pred[i]) f->pred[i] = ptx_new(p, REG_P), f->has_pred[i] = true;
  return f->pred[i].name;
}

static void expand(Ptx *p, const char *text, Fill *f, Column col) {
  StrBuf line = {.arena = p->arena};
  for (const char *at = text;; at++) {
    if (*at == ';' || !*at) {
      ptx_line(p, "%s", sb_text(&line));
      line = (StrBuf){.arena = p->arena};
      if (!*at) return;
      if (at[1] == ' ') at++;
    } else if (*at == '$') {
      sb_puts(&line, fill_in(p, f, col, *++at));
    } else {
      sb_printf(&line, "%c", *at);
    }
  }
}

void ptx_elementwise(Ptx *p, const Op *op) {
  DType in = op->args[0]->type->dtype, out = op->results[0].type->dtype;
  Column col = column_of(in);
  const char *text = template_of[op->kind][col];
  int n = op->results[0].type->n;
  Held h = held_new(p, out, n, false);
  Reg *elem = (Reg *)h.elem;
  if (!text) ptx_fail(p, op, "this op on this type");
  for (int i = 0; text && i < n; i++) {
    Fill f = {0};
    for (int j = 0; j < op->nargs; j++)
      f.arg[j] = computed(p, op, in, elems_of(p, ptx_get(p, op->args[j]))[i]);
    bool truth = dtype_info[out].class == DTYPE_BOOL;
    f.d = truth ? elem[i] : ptx_new(p, column_class[col]);
    expand(p, text, &f, col);
    if (!truth) elem[i] = stored(p, op, out, f.d);
  }
  ptx_set(p, &op->results[0], h);
}

void ptx_select(Ptx *p, const Op *op) {
  static const char *const how[] = {"", "b16", "b32", "b64", "f32", "f64"};
  const Type *t = op->results[0].type;
  Held *c = ptx_get(p, op->args[0]), *a = ptx_get(p, op->args[1]), *b = ptx_get(p, op->args[2]);
  Held h = held_new(p, t->dtype, t->n, false);
  for (int i = 0; i < t->n; i++) {
    Reg test = elems_of(p, c)[c->n == 1 ? 0 : i], x = elems_of(p, a)[i], y = elems_of(p, b)[i];
    if (x.class == REG_P) {
      Reg u = ptx_new(p, REG_P), v = ptx_new(p, REG_P), no = ptx_new(p, REG_P);
      ptx_line(p, "and.pred %s, %s, %s", u.name, test.name, x.name);
      ptx_line(p, "not.pred %s, %s", no.name, test.name);
      ptx_line(p, "and.pred %s, %s, %s", v.name, no.name, y.name);
      ptx_line(p, "or.pred %s, %s, %s", h.elem[i].name, u.name, v.name);
    } else {
      ptx_line(p, "selp.%s %s, %s, %s, %s", how[x.class], h.elem[i].name, x.name, y.name,
               test.name);
    }
  }
  ptx_set(p, &op->results[0], h);
}

/* ---- casts ---- */

static Reg cast_to_float(Ptx *p, const Op *op, DType from, DType to, Reg r) {
  Reg f = ptx_new(p, to == DTYPE_f64 ? REG_FD : REG_F);
  const char *wide = to == DTYPE_f64 ? "f64" : "f32";
  switch (column_of(from)) {
  case COL_I1:
    ptx_line(p, "selp.%s %s, %s, %s, %s", wide, f.name,
             to == DTYPE_f64 ? "0d3FF0000000000000" : "0f3F800000",
             to == DTYPE_f64 ? "0d0000000000000000" : "0f00000000", r.name);
    break;
  case COL_I32: ptx_line(p, "cvt.rn.%s.s32 %s, %s", wide, f.name, r.name); break;
  case COL_I64: ptx_line(p, "cvt.rn.%s.s64 %s, %s", wide, f.name, r.name); break;
  case COL_F64:
    if (to == DTYPE_f64) return r;
    ptx_line(p, "cvt.rn.f32.f64 %s, %s", f.name, r.name);
    break;
  default: {
    Reg single = computed(p, op, from, r);
    if (to != DTYPE_f64) return stored(p, op, to, single);
    ptx_line(p, "cvt.f64.f32 %s, %s", f.name, single.name);
  }
  }
  return to == DTYPE_f64 ? f : stored(p, op, to, f);
}

static Reg cast_to_int(Ptx *p, const Op *op, DType from, DType to, Reg r) {
  Column col = column_of(to);
  Reg i = ptx_new(p, column_class[col]);
  const char *wide = col == COL_I64 ? "s64" : "s32";
  switch (column_of(from)) {
  case COL_I1: ptx_line(p, "selp.b%s %s, 1, 0, %s", wide + 1, i.name, r.name); break;
  case COL_F64: ptx_line(p, "cvt.rzi.%s.f64 %s, %s", wide, i.name, r.name); break;
  case COL_F32:
    ptx_line(p, "cvt.rzi.%s.f32 %s, %s", wide, i.name, computed(p, op, from, r).name);
    break;
  case COL_I32:
    if (col == COL_I32) return wrap(p, to, r);
    ptx_line(p, "cvt.s64.s32 %s, %s", i.name, r.name);
    break;
  default:
    if (col == COL_I64) return r;
    ptx_line(p, "cvt.u32.u64 %s, %s", i.name, r.name);
  }
  return wrap(p, to, i);
}

static Reg cast_to_truth(Ptx *p, const Op *op, DType from, Reg r) {
  Column col = column_of(from);
  if (col == COL_I1) return r;
  Reg t = ptx_new(p, REG_P), x = computed(p, op, from, r);
  ptx_line(p,
           col == COL_F32   ? "setp.neu.f32 %s, %s, 0f00000000"
           : col == COL_F64 ? "setp.neu.f64 %s, %s, 0d0000000000000000"
           : col == COL_I32 ? "setp.ne.s32 %s, %s, 0"
                            : "setp.ne.s64 %s, %s, 0",
           t.name, x.name);
  return t;
}

void ptx_cast(Ptx *p, const Op *op) {
  Held *from = ptx_get(p, op->args[0]);
  const Type *t = op->results[0].type;
  Reg *elem = ARENA_ARRAY(p->arena, Reg, t->n);
  for (int i = 0; i < t->n; i++) {
    Reg r = elems_of(p, from)[i];
    Column col = column_of(t->dtype);
    elem[i] = from->dtype == t->dtype            ? r
              : col == COL_F32 || col == COL_F64 ? cast_to_float(p, op, from->dtype, t->dtype, r)
              : col == COL_I1                    ? cast_to_truth(p, op, from->dtype, r)
                                                 : cast_to_int(p, op, from->dtype, t->dtype, r);
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = t->n, .elem = elem});
}

/* ---- constants ---- */

static void set_float(Ptx *p, DType t, double v, Reg to) {
  uint64_t bits = dtype_encode(t, v);
  switch (class_of(t)) {
  case REG_F: ptx_line(p, "mov.f32 %s, 0f%08" PRIX64, to.name, bits); break;
  case REG_FD: ptx_line(p, "mov.f64 %s, 0d%016" PRIX64, to.name, bits); break;
  case REG_H: ptx_line(p, "mov.b16 %s, 0x%04" PRIX64, to.name, bits); break;
  default: ptx_line(p, "mov.b32 %s, %" PRIu64, to.name, bits);
  }
}

static void set_integer(Ptx *p, DType t, int64_t v, Reg to) {
  if (class_of(t) == REG_P) ptx_line(p, "setp.ne.s32 %s, %d, 0", to.name, v != 0);
  else ptx_line(p, "mov.b%d %s, %" PRId64, to.class == REG_RD ? 64 : 32, to.name, v);
}

void ptx_scalar(Ptx *p, const Op *op) {
  const Attr *value = op_attr(op, ATTR_value);
  DType t = op->results[0].type->dtype;
  Held h = held_new(p, t, 1, false);
  int64_t v;
  if (!value->sym && dtype_is_float(t)) set_float(p, t, value->number, h.elem[0]);
  else if (!value->sym) set_integer(p, t, (int64_t)value->number, h.elem[0]);
  else if (sym_is_int(value->sym, &v) && dtype_is_float(t)) set_float(p, t, (double)v, h.elem[0]);
  else if (sym_is_int(value->sym, &v)) set_integer(p, t, v, h.elem[0]);
  else {
    Reg r = ptx_expr(p, op, value->sym, dtype_is_float(t) ? DTYPE_index : t, NULL);
    ((Reg *)h.elem)[0] = dtype_is_float(t) ? cast_to_float(p, op, DTYPE_index, t, r) : r;
  }
  ptx_set(p, &op->results[0], h);
}
