/* infer.h: the typing rules that ops.def names, and what the files of inference share. */
#ifndef WV_INFER_H
#define WV_INFER_H

#include "ir/ir.h"

typedef enum InferRule {
  RULE_GIVEN_TILE,   /* the author's tile type */
  RULE_GIVEN_SCALAR, /* the author's scalar type */
  RULE_GIVEN_MEM,    /* the author's memory type */
  RULE_INSIDE,       /* as READ, of truth values */
  RULE_SELF_INDEX,   /* given: a tile over the op's dim; of `exists` truth values */
  RULE_APPLY,        /* type of the operands, integers and all alike; i1 for a condition */
  RULE_NO_RESULT,
  RULE_READ, /* dims of the mapping's outputs or of the memory */
  RULE_WRITE,
  RULE_LOG,    /* no result; a mapping gives the coordinates in the hidden output */
  RULE_ATOMIC, /* type of the first operand */
  RULE_SCATTER,
  RULE_REPORT,
  RULE_COPY,         /* no result; one memory is an allocation, over whose dims it runs */
  RULE_MMA,          /* type of acc */
  RULE_SCALED_MMA,   /* type of acc */
  RULE_BINARY,       /* the dims of both operands */
  RULE_BINARY_INT,   /* the same, integers and truth values only */
  RULE_BINARY_FLOAT, /* the same, floats only */
  RULE_SHIFT,        /* the same, integers only */
  RULE_COMPARE,      /* the same, with dtype i1 */
  RULE_UNARY,        /* type of the operand */
  RULE_UNARY_INT,    /* the same, integers and truth values only */
  RULE_UNARY_FLOAT,  /* the same, floats only */
  RULE_TEST_FLOAT,   /* the same, floats only, with dtype i1 */
  RULE_SELECT,       /* the dims of all three operands */
  RULE_CAST,         /* given: the operand's dims */
  RULE_BITCAST,      /* given: the last dim times the ratio of widths */
  RULE_BROADCAST,    /* given: more dims */
  RULE_REPEAT,       /* given: one dim a whole multiple of the operand's */
  RULE_PERMUTE,      /* given: the same dims in another order */
  RULE_SQUEEZE,      /* given: fewer dims, those that have one element */
  RULE_INLINE,       /* given: the dims of the operands, any dtype that PTX has registers for */
  RULE_EXTRACT,      /* without the last dim */
  RULE_SAME,         /* type of the first operand */
  RULE_REDUCE,       /* without `dim`; with `into` that dim instead, last */
  RULE_SCAN,         /* type of the operand */
  RULE_TOPK,         /* `k_dim` instead of `dim`, twice */
  RULE_CARRY,        /* types of the carried operands */
  RULE_WHILE,        /* the same, after the axis */
  RULE_IF,           /* the same, after the condition */
  /* one lane's program: infer_thread.c */
  RULE_LANE_EXPR,   /* given: an integer or i1 scalar */
  RULE_SPLAT,       /* given: a vec of the operand's dtype */
  RULE_JOIN,        /* as many registers as the operands together */
  RULE_PICK,        /* as many registers as are named */
  RULE_SHUFFLE,     /* type of the operand */
  RULE_SHUFFLE_IDX, /* the same */
  RULE_LOAD,        /* given: elements of the memory */
  RULE_STORE,
  RULE_LOAD_ROWS, /* given: elements of the memory, in rows of equal length */
  RULE_STORE_ROWS,
  RULE_PREFETCH,
  RULE_LDMATRIX, /* given: elements of the memory, 32 bits for each of 1, 2 or 4 matrices */
  RULE_STMATRIX,
  RULE_LANE_ATOMIC, /* type of the first operand */
  RULE_WAVE_MMA,    /* type of acc */
  RULE_BARRIER,
  RULE_WAVE_REGISTERS,
  RULE_MBAR,
  RULE_COPY_ASYNC,
  RULE_TMA_LOAD,
  RULE_TMA_STORE,
  RULE_WGMMA, /* type of acc */
  RULE_COUNT
} InferRule;

typedef struct Infer {
  Kernel *k;
  const Op *op;
  const Type *given; /* what the author wrote, or NULL */
  const Type **out;
} Infer;

typedef bool RuleFn(Infer *);

/* False after reporting at the op. */
#define INFER_FAIL(in, code, ...)                                                                  \
  (diag_add(&(in)->k->cx->diags, DIAG_##code, (in)->op->at, __VA_ARGS__), false)

#define INFER_FAIL_HINT(in, code, hint, ...)                                                       \
  (diag_hint(&(in)->k->cx->diags,                                                                  \
             diag_add(&(in)->k->cx->diags, DIAG_##code, (in)->op->at, __VA_ARGS__), "%s", hint),   \
   false)

static inline const char *infer_expr(const Infer *in, const Sym *s) {
  return sym_text(in->k->cx->diags.arena, s);
}
static inline const char *infer_name(const Infer *in) { return op_info[in->op->kind].name; }
static inline const Type *infer_arg(const Infer *in, int i) { return in->op->args[i]->type; }
static inline const char *infer_shown(const Infer *in, const Type *t) {
  return type_text(in->k->cx->diags.arena, in->k->cx, t);
}
static inline bool infer_result(Infer *in, const Type *t) { return in->out[0] = t, t != NULL; }

/* What a write converts: int <-> index, int -> float, float -> float among the wide formats. */
bool infer_stores_as(DType from, DType to);

bool infer_need_value(const Infer *in, int i);
bool infer_need_memory(const Infer *in, int i);
bool infer_need_class(const Infer *in, int i, bool fits, const char *wanted);
bool infer_need_mbars(const Infer *in, int i); /* shared memory for barriers */

RuleFn rule_inline, rule_read, rule_inside, rule_write, rule_log, rule_atomic, rule_scatter,
    rule_report, rule_copy;
RuleFn rule_lane_expr, rule_splat, rule_join, rule_pick, rule_shuffle, rule_shuffle_idx, rule_load,
    rule_store, rule_load_rows, rule_store_rows, rule_prefetch, rule_ldmatrix, rule_stmatrix,
    rule_lane_atomic, rule_wave_mma, rule_barrier, rule_wave_registers, rule_mbar, rule_copy_async,
    rule_tma_load, rule_tma_store, rule_wgmma;

#endif
