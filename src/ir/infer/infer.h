/* infer.h: the typing rules that ops.def names, and what the files of inference share. */
#ifndef WV_INFER_H
#define WV_INFER_H

#include "ir/ir.h"

typedef enum InferRule {
#define RULE(name, result) RULE_##name,
#include "ir/infer/infer.def"
#undef RULE
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
  diag_fail(&(in)->k->cx->diags, DIAG_##code, (in)->op->at, __VA_ARGS__)

#define INFER_FAIL_HINT(in, code, hint, ...)                                                       \
  diag_hint(&(in)->k->cx->diags,                                                                   \
            diag_add(&(in)->k->cx->diags, DIAG_##code, (in)->op->at, __VA_ARGS__), "%s", hint)

static inline DTypeClass infer_class(const Type *t) { return dtype_info[t->dtype].class; }
static inline bool infer_is_float(const Type *t) { return infer_class(t) == DTYPE_FLOAT; }
static inline bool infer_is_integral(const Type *t) { return infer_class(t) != DTYPE_FLOAT; }

static inline const char *infer_expr(const Infer *in, const Sym *s) {
  return sym_text(in->k->cx->diags.arena, s);
}
static inline const char *infer_name(const Infer *in) { return op_info[in->op->kind].name; }
static inline const Type *infer_arg(const Infer *in, int i) { return in->op->args[i]->type; }
static inline const char *infer_shown(const Infer *in, const Type *t) {
  return type_text(in->k->cx->diags.arena, in->k->cx, t);
}
static inline bool infer_result(Infer *in, const Type *t) { return in->out[0] = t, t != NULL; }

/* The conversions of a write: int <-> index, int -> float, float -> float among the wide
 * formats. */
bool infer_stores_as(DType from, DType to);

/* The requirements on operand i. False after reporting. */
bool infer_need_value(const Infer *in, int i);
bool infer_need_values(const Infer *in, int from, int to);
bool infer_need_memory(const Infer *in, int i);
bool infer_need_class(const Infer *in, int i, bool fits, const char *wanted);
bool infer_need_mbars(const Infer *in, int i); /* shared memory for barriers */
bool infer_same_dtype(const Infer *in, int i, int j);

/* ---- shapes ---- */

bool infer_has_dim(const Type *t, const Sym *dim);
int infer_common_dims(const Type *a, const Type *b);
bool infer_covers(const Type *big, const Type *small); /* broadcasting `small` gives `big` */
const Type *infer_typed(const Infer *in, const Type *shape, DType dtype);
const Type *infer_without_dim(const Infer *in, const Type *t, const Sym *dim);

#define RULE(name, result) RuleFn rule_##name;
#include "ir/infer/infer.def"
#undef RULE

#endif
