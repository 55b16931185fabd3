/* version: gives workgroups whose tiles are entirely inside a copy of the body without tests.
 *
 *     %x = read %a {mask = [$x0 < M]}       if (64*$WG0 + 64 <= M) {
 *     write %x, %b {mask = [$x0 < M]}  =>     %x = read %a {mask = []}
 *                                             write %x, %b {mask = []}
 *                                           }
 *                                           if (M <= 64*$WG0 + 63) {
 *                                             %x.1 = read %a {mask = [$x0 < M]}
 *                                             write %x.1, %b {mask = [$x0 < M]}
 *                                           }
 *
 * Loops that have no such test, and what comes before them, are not duplicated: a GEMM whose operands a copy engine
 * reads has two copies of what follows its loop.
 *
 * There is one test for the whole workgroup: each test of a mask at the last element of the tile
 * and of the loops. Tests of values from memory have no last element and stay in both copies. Does
 * nothing if no test can be saved or the kernel is large. Needs in_bounds, distribute and recorded
 * masks; keeps results; breaks all analyses. Allocations stay outside, since both copies use
 * them. For machines with lanes: loops end at the edge, which costs less than the copy. */
#include "analysis/access/in_bounds.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/edges/access_ends.h"
#include "transform/pass.h"

#include <string.h>

enum {
  MAX_OPS = 256, /* limit for a kernel to be duplicated */
  MAX_TEST = 96, /* nodes of the deciding expression */
  MAX_SYMBOLS = 32
};

typedef struct Split {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  const Facts *facts;
  const Sym *inside; /* NULL: no test can be saved */
  Attr **inner;      /* by op id: the mask of an access inside; NULL: unchanged */
} Split;

/* ---- the last element ---- */

/* Sizes at entry and workgroup ids are the same for all threads; versions and thread ids are
 * not. */
static bool is_uniform(const Sym *e) {
  const Sym *symbols[MAX_SYMBOLS];
  int n = sym_free_symbols(e, symbols, MAX_SYMBOLS);
  for (int i = 0; i < n && i < MAX_SYMBOLS; i++) {
    const char *name = sym_name(symbols[i]);
    bool id = strncmp(name, "$WG", 3) == 0;
    if ((name[0] == '$' && !id) || strchr(name, '.')) return false;
  }
  return n <= MAX_SYMBOLS;
}

/* A condition under which a test holds for all elements and iterations; NULL: there is none. */
static const Sym *always_holds(Split *sp, const AccessEnds *c, const Bound *b) {
  const Sym *most = b->limit ? access_greatest(c, b->at) : access_least(c, b->at);
  if (!most) return NULL;
  const Sym *test =
      b->limit ? sym_lt(sp->sym, most, b->limit) : sym_ge(sp->sym, most, sym_int(sp->sym, 0));
  if (test) test = is_uniform(test) ? sym_simplify(sp->sym, sp->facts->header, test) : NULL;
  return test == sym_bool(sp->sym, false) ? NULL : test;
}

/* ---- the decision ---- */

/* Tests that always hold inside become part of the decision; the others remain. A copy engine tests
 * bounds in no time. */
static void weigh_access(Split *sp, const AccessBounds *b) {
  AccessEnds c;
  if (copy_goes_by(b->access.op, "tma") || copy_goes_by(b->access.op, "bulk")) return;
  Attr *left = ARENA_NEW(sp->arena, Attr);
  const Sym **tests = ARENA_ARRAY(sp->k->arena, const Sym *, b->nbounds);
  int all = 0;
  if (!access_ends(sp->k, sp->facts, &b->access, &c)) return;
  *left = (Attr){.key = ATTR_mask, .exprs = tests};
  for (int i = 0; i < b->nbounds; i++) {
    if (b->bounds[i].verdict != BOUND_tested) continue;
    const Sym *test = always_holds(sp, &c, &b->bounds[i]);
    const Sym *both = sp->inside && test ? sym_and(sp->sym, sp->inside, test) : test;
    if (both) sp->inside = both;
    else tests[left->n++] = b->bounds[i].test;
    all++;
  }
  if (left->n < all) sp->inner[b->access.op->id] = left;
}

static const char *reason_not_to(const Split *sp) {
  if (sp->k->nops > MAX_OPS) return "it is too large to duplicate";
  if (sym_size(sp->inside) > MAX_TEST) return "the test for it would be too long";
  for (const Op *op = ir_first(sp->k); op; op = ir_next(op))
    if (op->kind == OP_debug_log) return "it writes debug logs, which cannot be duplicated";
  return NULL;
}

static bool is_worthwhile(Split *sp) {
  for (int i = 0; i < sp->k->nops; i++)
    if (sp->facts->in_bounds[i]) weigh_access(sp, sp->facts->in_bounds[i]);
  if (!sp->inside || sym_prove(sp->sym, sp->facts->header, sp->inside) != SYM_UNKNOWN) return false;
  const char *why = reason_not_to(sp);
  if (!why) return true;
  return diag_fail(&sp->k->cx->diags, DIAG_R0604, sp->k->at,
                   "`%s` has no copy without masks for inner tiles: %s", sp->k->name, why);
}

/* ---- the copy ---- */

static Op *new_if(Split *sp, const Sym *condition) {
  Op *op = ir_op_new(sp->k, OP_if, sp->k->at, NULL, 0);
  op_set_attr(sp->k, op, (Attr){.key = ATTR_expr, .sym = condition});
  ir_region_new(sp->k, op);
  return op;
}

/* A version is opened only once, so those of the copy get new numbers. */
typedef struct Renamed {
  Split *sp;
  Vec(SymBinding) at;
} Renamed;

static const Sym *fresh_version(const Split *sp, const Sym *version) {
  const char *name = sym_name(version), *dot = strrchr(name, '.');
  int length = (int)(dot ? dot - name : (int)strlen(name)), number = 1;
  char *fresh;
  const Sym *symbol;
  bool taken;
  do { /* the next number that no op opens */
    fresh = arena_printf(sp->arena, "%.*s.%d", length, name, ++number);
    symbol = sym_symbol(sp->sym, fresh, false);
    taken = false;
    for (const Op *op = ir_first(sp->k); op; op = ir_next(op)) {
      const Attr *open = op_attr(op, ATTR_version);
      taken |= open && open->sym == symbol;
    }
  } while (taken);
  return symbol;
}

static const Sym *renamed(void *user, const Sym *s) {
  const Renamed *r = user;
  return sym_subst(r->sp->sym, s, r->at.at, r->at.n);
}

static void rename_versions(Split *sp, const Region *copy) {
  Renamed r = {.sp = sp};
  for (Op *op = copy->first; op && op->parent; op = ir_next(op)) {
    const Attr *version = op_attr(op, ATTR_version);
    if (!version) continue;
    SymBinding b = {version->sym, fresh_version(sp, version->sym)};
    vec_push(sp->arena, &r.at, b);
    op_set_attr(sp->k, op, (Attr){.key = ATTR_version, .sym = b.to});
  }
  for (Op *op = r.at.n ? copy->first : NULL; op; op = ir_next(op))
    for (int i = 0; i < op->nattrs; i++) attr_rewrite(sp->k, &op->attrs[i], renamed, &r);
}

/* Whether the op, or one in its regions, has tests that the copy omits. */
static bool saves_tests(const Split *sp, const Op *op) {
  for (const Op *in = op; in && op_is_inside(in, op); in = ir_next(in))
    if (sp->inner[in->id]) return true;
  return false;
}

/* The first op that is duplicated: the one after the last loop before all tests. */
static Op *first_of_copy(const Split *sp) {
  Op *first = sp->k->body->first;
  for (Op *op = first; op && !saves_tests(sp, op); op = op->next)
    if (op_is_loop(op)) first = op->next;
  return first;
}

static void move_body(Split *sp, Region *to) {
  for (Op *op = first_of_copy(sp), *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_alloc) continue;
    ir_remove(op);
    ir_append(to, op);
  }
}

static void end_region(Split *sp, Region *r) {
  ir_append(r, ir_op_new(sp->k, OP_yield, sp->k->at, NULL, 0));
}

static void split(Split *sp) {
  Region *body = sp->k->body;
  Op *inner = new_if(sp, sp->inside), *edge = new_if(sp, sym_not(sp->sym, sp->inside));
  Value **map = ARENA_ARRAY(sp->arena, Value *, sp->k->nvalues);
  move_body(sp, inner->body);
  for (const Op *op = inner->body->first; op; op = op->next)
    ir_clone_op(sp->k, edge->body, op, map);
  ir_append(body, inner);
  ir_append(body, edge); /* last: renaming ends where the kernel does */
  rename_versions(sp, edge->body);
  for (Op *op = inner->body->first; op && op != edge; op = ir_next(op))
    if (sp->inner[op->id]) op_set_attr(sp->k, op, *sp->inner[op->id]);
  end_region(sp, inner->body);
  end_region(sp, edge->body);
}

bool pass_version(Kernel *k, PassCtx *cx) {
  cx->idle = true;
  int peers;
  if (kernel_persistent(k)) return true; /* its tiles differ; a cluster must run the same copy */
  if (kernel_split_axis(k, &peers) >= 0) return true;
  Split sp = {.k = k, .arena = cx->scratch, .sym = k->cx->sym, .facts = &cx->facts};
  sp.inner = ARENA_ARRAY(cx->scratch, Attr *, k->nops);
  if (is_worthwhile(&sp)) cx->idle = false, split(&sp);
  sym_take_error(k->cx->sym);
  return true;
}
