/* piecewise.c: Piecewise((value, condition), ...) as selects.
 *
 * In SymPy a Piecewise has no value where none of its conditions holds. Here that is an error when it
 * is built, unless it is proved that one of them always holds. */
#include "sym/node.h"

/* The last condition holds wherever the others do not. */
static bool covers_all(SymCtx *cx, const Sym *const *parts, int n) {
  const Sym *last = sym_as_bool(cx, parts[n - 1]);
  if (last == sym_bool(cx, true)) return true;
  Arena *arena = arena_new();
  SymFacts *facts = sym_facts_new(arena, cx, NULL);
  bool left = true;
  for (int i = 1; left && i < n - 1; i += 2) left = sym_assume(facts, sym_not(cx, parts[i]));
  bool all = !left || sym_proves(cx, facts, last);
  arena_free(arena);
  return all;
}

const Sym *sym_piecewise(SymCtx *cx, const Sym *const *parts, int n) {
  if (n < 2 || n % 2) return sym_fail(cx, "Piecewise needs pairs of a value and a condition");
  for (int i = 0; i < n; i++)
    if (!parts[i]) return NULL;
  if (!covers_all(cx, parts, n))
    return sym_fail(cx, "the conditions of a Piecewise may all be false: "
                        "the condition of its last branch must be True");
  const Sym *s = parts[n - 2];
  for (int i = n - 4; i >= 0; i -= 2) s = sym_select(cx, parts[i + 1], parts[i], s);
  return s;
}
