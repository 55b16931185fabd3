/* rules.h: rewrites that need facts. Each takes a node whose operands are simplified and returns a
 * replacement equal to it at every point the facts allow, or NULL. */
#ifndef WV_SYM_RULES_H
#define WV_SYM_RULES_H

#include "sym/prove/facts.h"

/* The first rule of the node's kind that applies and does not enlarge it. */
const Sym *rules_apply(const SymFacts *f, const Sym *s);

typedef const Sym *Rule(const SymFacts *f, const Sym *s);

/* rules_div.c */
Rule rule_floor_by_range, rule_floor_integer_terms, rule_floor_small_terms, rule_floor_unwrap,
    rule_floor_below;
Rule rule_mod_by_range, rule_mod_multiples, rule_mod_small_terms;
/* rules_sum.c */
Rule rule_sum_floor_to_mod, rule_sum_mod_pairs, rule_sum_mod_parts, rule_sum_selects,
    rule_sum_exact;
/* rules_logic.c */
Rule rule_extreme, rule_compare_prove, rule_compare_factor, rule_compare_some, rule_compare_floor;
Rule rule_select_extreme, rule_select_common, rule_select_content, rule_xor_constants;

#endif
