/* infer.h: the typing rules that ops.def names. */
#ifndef WV_INFER_H
#define WV_INFER_H

typedef enum InferRule {
  RULE_GIVEN_TILE,   /* the author's tile type */
  RULE_GIVEN_SCALAR, /* the author's scalar type */
  RULE_GIVEN_MEM,    /* the author's memory type */
  RULE_SELF_INDEX,   /* given: a tile over the op's dim */
  RULE_APPLY,        /* type of the first operand; all operands alike, integers */
  RULE_NO_RESULT,
  RULE_READ,         /* dims of the mapping's outputs or of the memory */
  RULE_WRITE,
  RULE_ATOMIC,       /* type of the first operand */
  RULE_SCATTER,
  RULE_MMA,          /* type of acc */
  RULE_SCALED_MMA,   /* type of acc */
  RULE_BINARY,       /* the larger of two shapes */
  RULE_BINARY_INT,   /* the same, integers and truth values only */
  RULE_BINARY_FLOAT, /* the same, floats only */
  RULE_COMPARE,      /* the same, with dtype i1 */
  RULE_UNARY,        /* type of the operand */
  RULE_UNARY_INT,    /* the same, integers and truth values only */
  RULE_UNARY_FLOAT,  /* the same, floats only */
  RULE_SELECT,       /* the largest of three shapes */
  RULE_CAST,         /* given: the operand's dims */
  RULE_BITCAST,      /* given: the last dim times the ratio of widths */
  RULE_BROADCAST,    /* given: more dims */
  RULE_PERMUTE,      /* given: the same dims in another order */
  RULE_EXTRACT,      /* without the last dim */
  RULE_SAME,         /* type of the first operand */
  RULE_REDUCE,       /* without `dim` */
  RULE_SCAN,         /* type of the operand */
  RULE_TOPK,         /* `k_dim` instead of `dim`, twice */
  RULE_CARRY,        /* types of the carried operands */
  RULE_WHILE,        /* the same, after the axis */
  RULE_IF            /* the same, after the condition */
} InferRule;

#endif
