/* tables.c: ops.def, attrs.def, types.def and constraints.def as arrays. */
#include <string.h>

#include "ir/attr.h"
#include "ir/infer/infer.h"

#define FLOAT DTYPE_FLOAT
#define INT DTYPE_INT
#define UINT DTYPE_UINT
#define BOOL DTYPE_BOOL
#define INDEX DTYPE_INDEX
const DTypeInfo dtype_info[DTYPE_COUNT] = {
#define DTYPE(name, class, bits, exponent, mantissa, doc)                                          \
  [DTYPE_##name] = {#name, doc, class, bits, exponent, mantissa},
#include "ir/types.def"
};
#undef FLOAT
#undef INT
#undef BOOL
#undef INDEX

const AttrInfo attr_info[ATTR_COUNT] = {
#define ATTR(name, kind, doc) [ATTR_##name] = {#name, doc, ATTR_KIND_##kind},
#include "ir/attrs.def"
};

const char *const constraint_name[CONSTRAINT_COUNT] = {
#define CONSTRAINT(name, doc, clauses) [CONSTRAINT_##name] = #name,
#define CONSTRAINT_NAMED(name, keyword, doc, clauses) [CONSTRAINT_##name] = keyword,
#include "ir/constraints.def"
};

enum { MUST = true, MAY = false };
#define INNER(row, word, kind, field, need)                                                        \
  {word, CLAUSE_##kind, offsetof(Constraint, row.field), need},
#define CLAUSE(row, word, kind, field, need, api) INNER(row, word, kind, field, need)
#define CONSTRAINT(name, doc, ...) static const Clause name##_clauses[] = {__VA_ARGS__};
#include "ir/constraints.def"

const Clauses constraint_clauses[CONSTRAINT_COUNT] = {
#define CONSTRAINT(name, doc, ...) [CONSTRAINT_##name] = {name##_clauses, WV_LEN(name##_clauses)},
#include "ir/constraints.def"
};

/* The views in struct Constraint are of the first fields. */
#define AT(field) offsetof(Constraint, field)
#define DIVIDED(row)                                                                               \
  _Static_assert(AT(row.dim) == AT(divided.dim) && AT(row.size) == AT(divided.size), #row)
DIVIDED(workgroup);
DIVIDED(wave);
DIVIDED(tile);
DIVIDED(device);
_Static_assert(AT(schedule.loop) == AT(scheduled.loop) && AT(ring.loop) == AT(scheduled.loop) &&
                   AT(place.loop) == AT(scheduled.loop),
               "the loop comes first");

/* The words used in ops.def. */
enum {
  TILE = LEVEL_TILE,
  THREAD = LEVEL_THREAD,
  BOTH = LEVEL_BOTH,
  PURE = OPF_PURE,
  COMM = OPF_COMM,
  READS = OPF_READS,
  WRITES = OPF_WRITES,
  SYNC = OPF_SYNC,
  REGION = OPF_REGION,
  ENDS = OPF_ENDS,
  HINT = OPF_HINT,
  ZERO = OPF_ZERO,
  ANY = OP_ANY,
  MANY = OP_MANY,
  NONE = 0
};
#define ARGS(least, most) least, most
const OpInfo op_info[OP_COUNT] = {
#define OP(name, level, args, results, flags, rule, lead, attrs, doc)                              \
  [OP_##name] = {#name, doc, (Level)level, args, results, flags, RULE_##rule, ATTR_##lead},
#include "ir/ops.def"
};

/* ---- which op may carry which attribute: a set of bits, in two words ---- */

#define BIT(key) (UINT64_C(1) << ((key) % 64))
#define LEAD(lead) (ATTR_##lead == ATTR_NONE ? 0 : A(lead))
#define EARLY(flags) ((flags)&OPF_PURE ? A(iteration) : 0)
#define ROW(name, flags, lead, attrs)                                                              \
  [OP_##name] = (attrs) | LEAD(lead) | EARLY(flags) | A(tag) | A(role) | A(part),
_Static_assert(ATTR_COUNT <= 128, "a set of attributes is two words");

static const uint64_t low_attrs[OP_COUNT] = {
#define A(key) (ATTR_##key < 64 ? BIT((unsigned)ATTR_##key) : 0)
#define OP(name, level, args, results, flags, rule, lead, attrs, doc) ROW(name, flags, lead, attrs)
#include "ir/ops.def"
#undef A
};

static const uint64_t high_attrs[OP_COUNT] = {
#define A(key) (ATTR_##key < 64 ? 0 : BIT((unsigned)ATTR_##key))
#define OP(name, level, args, results, flags, rule, lead, attrs, doc) ROW(name, flags, lead, attrs)
#include "ir/ops.def"
#undef A
};

bool op_admits(OpKind kind, AttrKey key) {
  return ((key < 64 ? low_attrs : high_attrs)[kind] & BIT((unsigned)key)) != 0;
}

OpKind op_find(const char *name) {
  int i = 0;
  while (i < OP_COUNT && strcmp(op_info[i].name, name) != 0) i++;
  return (OpKind)i;
}

AttrKey attr_find(const char *name) {
  for (int i = 0; i < ATTR_COUNT; i++)
    if (strcmp(attr_info[i].name, name) == 0) return (AttrKey)i;
  return ATTR_NONE;
}

bool dtype_parse(const char *name, DType *out) {
  for (int i = 0; name && i < DTYPE_COUNT; i++)
    if (strcmp(dtype_info[i].name, name) == 0) return *out = (DType)i, true;
  return false;
}
