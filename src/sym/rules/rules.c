/* rules.c: applies rules.def. */
#include "sym/rules/rules.h"

typedef struct RuleRow {
  SymKind kind;
  Rule *apply;
} RuleRow;

static const RuleRow rows[] = {
#define RULE(kind, function, doc) {SYM_##kind, function},
#include "sym/rules/rules.def"
};

const Sym *rules_apply(const SymFacts *f, const Sym *s) {
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    if (rows[i].kind != s->kind) continue;
    const Sym *r = rows[i].apply(f, s);
    if (r && r != s && r->size <= s->size) return r;
  }
  return NULL;
}
