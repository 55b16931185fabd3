/* rewrite.c: rewrites expressions bottom-up, using facts, until nothing improves.
 *
 * One pass simplifies the operands, rebuilds the node through its constructor, and applies the
 * rules of its kind (rules.h). The pass is repeated while it makes the expression smaller: by
 * sym_size, then by its kind, then by the canonical order. This terminates, never enlarges the expression, and makes
 * sym_simplify idempotent, since its result is an expression that a pass cannot improve. */
#include "sym/rules/rules.h"

typedef struct Pass {
  const SymFacts *f;
  int depth;
} Pass;

enum { DEPTH_LIMIT = 400 };

static const Sym *simplify_in(Pass *p, const SymFacts *f, const Sym *s);
static const Sym *simplify(void *data, const Sym *s);

/* Of the same size, a sum is better than a Mod: its terms can be shared, moved out of loops, and
 * combined with others. */
static bool is_better(const Sym *a, const Sym *b) {
  if (a->size != b->size) return a->size < b->size;
  bool one = a->kind == SYM_mod, other = b->kind == SYM_mod;
  return one != other ? other : sym_order(a, b) < 0;
}

/* ---- select */

static bool never_zero(const SymFacts *f, const Sym *s) {
  Dom d = dom_of(f, s);
  return d.lo.num > 0 || d.hi.num < 0;
}

/* Whether s is defined wherever the facts hold: it never divides by something that may be zero. */
static bool has_value(const SymFacts *f, const Sym *s) {
  if (!s->symbols) return true;
  if (s->kind == SYM_mod && !never_zero(f, s->arg[1])) return false;
  bool power = s->kind == SYM_mul || s->kind == SYM_pow;
  for (int i = 0; i < s->n && sym_nargs(s); i++) {
    if (power && s->factor[i].exp < 0 && !never_zero(f, s->factor[i].base)) return false;
    if (!has_value(f, node_operand(s, i))) return false;
  }
  return true;
}

static const Sym *pass_select(Pass *p, const Sym *s) {
  SymCtx *cx = p->f->cx;
  const Sym *cond = simplify(p, s->arg[0]);
  if (cond->kind == SYM_bool) return simplify(p, s->arg[cond->k.num ? 1 : 2]);
  const Sym *opposite = sym_not(cx, cond);
  if (!opposite) return s;
  const SymFacts *then = facts_branch(p->f, cond), *other = facts_branch(p->f, opposite);
  if (then->contradiction) return simplify(p, s->arg[2]);
  if (other->contradiction) return simplify(p, s->arg[1]);
  const Sym *yes = simplify_in(p, then, s->arg[1]), *no = simplify_in(p, other, s->arg[2]);
  if (simplify_in(p, then, no) == yes && has_value(then, no)) return no;
  if (simplify_in(p, other, yes) == no && has_value(other, yes)) return yes;
  return sym_select(cx, cond, yes, no);
}

/* ---- and, or: each operand in the light of the others */

static const Sym *pass_junction(Pass *p, const Sym *s) {
  SymCtx *cx = p->f->cx;
  const SymFacts *f = p->f;
  const Sym *all = s->kind == SYM_and ? cx->yes : cx->no,
            *absorbing = s->kind == SYM_and ? cx->no : cx->yes;
  for (int i = 0; i < s->n; i++) {
    const Sym *c = simplify_in(p, f, s->arg[i]);
    if (c == absorbing || f->contradiction) return absorbing;
    if (c->kind == SYM_bool) continue;
    all = s->kind == SYM_and ? sym_and(cx, all, c) : sym_or(cx, all, c);
    if (!has_value(f, c)) continue; /* a condition that may be undefined implies nothing */
    f = facts_branch(f, s->kind == SYM_and ? c : sym_not(cx, c));
    if (f->contradiction) return absorbing;
  }
  return all;
}

/* ---- the pass */

static const Sym *pass_node(Pass *p, const Sym *s) {
  SymCtx *cx = p->f->cx;
  if (s->kind == SYM_and || s->kind == SYM_or) return pass_junction(p, s);
  const Sym *r = s->kind == SYM_select ? pass_select(p, s) : node_map(cx, s, simplify, p);
  if (!r) return s;
  const Sym *better = rules_apply(p->f, r);
  return better ? better : r;
}

/* Repeats the pass while it improves the expression. */
static const Sym *descend(Pass *p, const Sym *s) {
  for (;;) {
    const Sym *next = pass_node(p, s);
    if (!next || next == s || !is_better(next, s)) return s;
    Dom d = dom_of(p->f, next);
    Rat v;
    if (!is_bool(next) && dom_is_const(&d, &v)) return sym_num(p->f->cx, v);
    if (next->kind == SYM_symbol || !sym_nargs(next)) return next;
    s = next;
  }
}

static const Sym *simplify_in(Pass *p, const SymFacts *f, const Sym *s) {
  const SymFacts *outer = p->f;
  p->f = f;
  s = simplify(p, s);
  p->f = outer;
  return s;
}

static const Sym *simplify_atom(const SymFacts *f, const Sym *s) {
  Rat v;
  Dom d = dom_of(f, s);
  return dom_is_const(&d, &v) ? sym_num(f->cx, v) : s;
}

static const Sym *simplify(void *data, const Sym *s) {
  Pass *p = data;
  if (!s->symbols) return s;
  const SymFacts *outer = p->f, *f = facts_about(outer, s);
  if (s->kind == SYM_symbol) return simplify_atom(f, s);
  const Sym *r = map_get(&f->memo->simplified, map_key(s));
  if (r || p->depth > DEPTH_LIMIT) return r ? r : s;
  p->f = f;
  p->depth++;
  r = is_bool(s) ? s : simplify_atom(f, s);
  if (r == s) r = descend(p, s);
  p->depth--;
  p->f = outer;
  map_set(f->arena, &f->memo->simplified, map_key(s), (void *)(uintptr_t)r);
  map_set(f->arena, &f->memo->simplified, map_key(r), (void *)(uintptr_t)r);
  return r;
}

const Sym *sym_simplify(SymCtx *cx, const SymFacts *f, const Sym *s) {
  if (!s) return NULL;
  Pass p = {.f = f ? f : cx->no_facts};
  if (p.f->contradiction) return s;
  char before = cx->error[0];
  s = simplify(&p, s);
  cx->error[0] = before; /* an overflow in a rewrite only means that it was not made */
  return s;
}
