/* ptx_tensor.c: copies of boxes of tensors. The box is described by a tensor map, an argument that
 * the launch creates. */
#include "backend/ptx/ptx_state.h"
#include "target/maps/clip.h"

enum { MAP_BYTES = 128, MAP_RANK = 5 };

/* The numbers of an attribute; false: it is not there. */
static bool numbers(const Op *op, AttrKey key, int from, int n, int64_t *out) {
  const Attr *a = op_attr(op, key);
  for (int i = 0; a && i < n; i++) out[i] = a->ints[from + i];
  return a != NULL;
}

static void take_im2col(const Op *op, int pixels, PtxArg *arg) {
  arg->im2col = numbers(op, ATTR_im2col, 0, pixels, arg->lowest);
  if (!arg->im2col) return;
  numbers(op, ATTR_im2col, pixels, pixels, arg->highest);
  for (int i = 0; i < pixels; i++) arg->step[i] = 1;
  numbers(op, ATTR_steps, 0, pixels, arg->step);
}

static int clip_of(const Op *op) {
  const Attr *clip = op_attr(op, ATTR_clip);
  return clip ? (int)clip->integer : -1;
}

/* The address of the tensor map that describes this box of the argument; "" after reporting an
 * error. */
static const char *tensor_map(Ptx *p, const Op *op, const Value *memory) {
  const Attr *box = op_attr(op, ATTR_box), *swizzle = op_attr(op, ATTR_swizzle);
  int rank = memory->type->rank;
  if (memory->owner != p->k->body) return ptx_fail(p, op, "a tensor that is not an argument"), "";
  if (rank > MAP_RANK) return ptx_fail(p, op, "a tensor of more than 5 dimensions"), "";
  PtxArg arg = {.kind = PTX_TENSOR_MAP, .param = memory->index, .bytes = MAP_BYTES};
  arg.dtype = memory->type->dtype;
  arg.rank = rank;
  arg.clip = clip_of(op);
  arg.joined = op_has(op, ATTR_joined) ? (int)op_attr(op, ATTR_joined)->integer : 0;
  arg.swizzle = swizzle ? (int)swizzle->integer : 0;
  numbers(op, ATTR_box, 0, box->n, arg.box);
  take_im2col(op, rank - 2, &arg);
  return ptx_argument(p, arg).name;
}

/* The coordinates of clip.h, from the operands `first` and `end`. */
static void clip_rows(Ptx *p, const Op *op, int first, int end, Reg *row, Reg *above) {
  const char *from = ptx_word(p, op->args[first]);
  const int most = (int)op_attr(op, ATTR_box)->ints[clip_of(op)];
  Reg left = ptx_let(p, REG_R, "sub.s32 %s, %s", ptx_word(p, op->args[end]), from);
  left = ptx_let(p, REG_R, "max.s32 %s, 0", left.name);
  left = ptx_let(p, REG_R, "min.s32 %s, %d", left.name, most);
  *row = ptx_let(p, REG_R, "sub.s32 %d, %s", CLIP_ROWS, left.name);
  *above = ptx_let(p, REG_R, "add.s32 %s, %s", from, left.name);
}

/* Dimensions of the map of the tensor in operand `at`. */
static int map_rank(const Op *op, int at) {
  return op->args[at]->type->rank + (clip_of(op) >= 0 ? 2 : 0);
}

/* [map, {innermost coordinate, ...}] for the tensor in operand `at`. */
static const char *box_of(Ptx *p, const Op *op, int at) {
  StrBuf out = {.arena = p->arena};
  sb_printf(&out, "[%s, {", tensor_map(p, op, op->args[at]));
  const int rank = op->args[at]->type->rank, clip = clip_of(op);
  Reg row, above;
  if (clip >= 0) clip_rows(p, op, at + 1 + clip, at + 1 + rank, &row, &above);
  for (int i = rank - 1; i >= 0; i--)
    sb_printf(&out, "%s%s", i == clip ? row.name : ptx_word(p, op->args[at + 1 + i]),
              i ? ", " : "");
  if (clip >= 0) sb_printf(&out, ", %s, %d", above.name, CLIP_ROWS);
  sb_printf(&out, "}]");
  return sb_text(&out);
}

static const char *half_word(Ptx *p, const char *word) {
  Reg half = ptx_let(p, REG_H, "cvt.u16.u32 %s", word);
  return half.name;
}

/* ", {innermost tap, ...}", 16 bits each. */
static const char *taps_of(Ptx *p, const Op *op, int at) {
  StrBuf out = {.arena = p->arena};
  int first = at + 1 + op->args[at]->type->rank;
  if (op->nargs == first || clip_of(op) >= 0) return "";
  for (int i = op->nargs - 1; i >= first; i--)
    sb_printf(&out, ", %s%s%s", i == op->nargs - 1 ? "{" : "",
              half_word(p, ptx_word(p, op->args[i])), i == first ? "}" : "");
  return sb_text(&out);
}

/* ", mask" of the workgroup ranks that receive the box, 16 bits; "": this workgroup only. */
static const char *multicast_of(Ptx *p, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_multicast);
  if (!mask) return "";
  const char *word = ptx_expr(p, op, mask->sym, DTYPE_i32, NULL).name;
  return arena_printf(p->arena, ", %s", half_word(p, word));
}

void ptx_tma_load(Ptx *p, const Op *op) {
  enum { TENSOR = 4 };
  const char *from = box_of(p, op, TENSOR), *to = ptx_operand(p, op->args[0], op->args[1]);
  const char *bar = ptx_operand(p, op->args[2], op->args[3]), *taps = taps_of(p, op, TENSOR);
  const char *ranks = multicast_of(p, op), *policy = ptx_policy(p, op);
  ptx_line(p,
           "cp.async.bulk.tensor.%dd.shared::cluster.global.%s.mbarrier::complete_tx::bytes%s%s "
           "%s, %s, %s%s%s%s",
           map_rank(op, TENSOR), op_has(op, ATTR_im2col) ? "im2col" : "tile",
           *ranks ? ".multicast::cluster" : "", *policy ? ".L2::cache_hint" : "", to, from, bar,
           taps, ranks, policy);
}

void ptx_tma_store(Ptx *p, const Op *op) {
  enum { TENSOR = 2 };
  const char *to = box_of(p, op, TENSOR), *from = ptx_operand(p, op->args[0], op->args[1]);
  const char *policy = ptx_policy(p, op);
  ptx_line(p, "cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group%s %s, %s%s",
           map_rank(op, TENSOR), *policy ? ".L2::cache_hint" : "", to, from, policy);
}

void ptx_tma_prefetch(Ptx *p, const Op *op) {
  ptx_line(p, "cp.async.bulk.prefetch.tensor.%dd.L2.global.tile %s", map_rank(op, 0),
           box_of(p, op, 0));
}

void ptx_bulk_commit(Ptx *p, const Op *op) { (void)op, ptx_line(p, "cp.async.bulk.commit_group"); }

void ptx_bulk_wait(Ptx *p, const Op *op) {
  ptx_line(p, "cp.async.bulk.wait_group%s %d", op_has(op, ATTR_read) ? ".read" : "",
           (int)op_attr(op, ATTR_pending)->integer);
}
