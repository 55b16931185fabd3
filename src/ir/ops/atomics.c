/* atomics.c: see atomics.h. */
#include "ir/ops/atomics.h"

#include <string.h>

static const struct {
  OpKind op;
  AtomicMode mode;
} atomics[] = {
    {OP_atomic_add, {"add", OP_add}},
    {OP_atomic_min, {"min", OP_minimum}},
    {OP_atomic_max, {"max", OP_maximum}},
    {OP_atomic_and, {"and", OP_and}},
    {OP_atomic_or, {"or", OP_or}},
    {OP_atomic_xor, {"xor", OP_xor}},
    {OP_scatter_add, {"add", OP_add}},
    {OP_atomic_exchange, {"xchg", OP_COUNT}},
    {OP_atomic_compare_exchange, {"cas", OP_COUNT}},
};

AtomicMode atomic_mode(OpKind kind) {
  for (size_t i = 0; i < WV_LEN(atomics); i++)
    if (atomics[i].op == kind) return atomics[i].mode;
  WV_BUG("not an atomic");
}

OpKind atomic_combine(const char *word) {
  for (size_t i = 0; i < WV_LEN(atomics); i++)
    if (strcmp(atomics[i].mode.word, word) == 0) return atomics[i].mode.combine;
  WV_BUG("not a word of an atomic");
}
