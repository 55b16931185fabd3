/* print.c: kernels as text. The text parses to an equal kernel, and printing that gives the same
 * text.
 *
 * Values are named by their hints, made unique by a suffix (%x, %x.1); those without a hint are
 * numbered in program order (%0, %1). */
#include <ctype.h>
#include <string.h>

#include "ir/attr.h"
#include "ir/schedule/schedule.h"
#include "ir/text/text.h"

typedef struct Printer {
  StrBuf *out;
  const Kernel *k;
  Arena *scratch;
  Intern spellings;
  Map names; /* value -> spelling without the % */
  Map taken; /* spelling -> int: the last suffix tried */
  int unnamed;
} Printer;

/* ---- names ---- */

static const char *spelled(Printer *p, const char *hint) {
  StrBuf s = {.arena = p->scratch};
  if (isdigit((unsigned char)*hint)) sb_putc(&s, '_');
  for (; *hint; hint++) sb_putc(&s, text_is_name_char(*hint) ? *hint : '_');
  return intern(&p->spellings, sb_text(&s));
}

static bool take(Printer *p, const char *spelling) {
  if (map_get(&p->taken, map_key(spelling))) return false;
  map_set(p->scratch, &p->taken, map_key(spelling), ARENA_NEW(p->scratch, int));
  return true;
}

static const char *unique(Printer *p, const char *hint) {
  const char *base = spelled(p, hint);
  if (take(p, base)) return base;
  int *suffix = map_get(&p->taken, map_key(base));
  for (;;) {
    const char *name = arena_printf(p->scratch, "%s.%d", base, ++*suffix);
    name = intern(&p->spellings, name);
    if (take(p, name)) return name;
  }
}

static const char *numbered(Printer *p) {
  StrBuf s = {.arena = p->scratch};
  sb_int(&s, p->unnamed++);
  return sb_text(&s);
}

static void name_value(Printer *p, const Value *v) {
  const char *name = v->name && *v->name ? unique(p, v->name) : numbered(p);
  map_set(p->scratch, &p->names, map_key(v), (void *)(uintptr_t)name);
}

static void name_region_args(Printer *p, const Region *r) {
  for (int i = 0; i < r->nargs; i++) name_value(p, r->args[i]);
}

static void name_values(Printer *p) {
  name_region_args(p, p->k->body);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++) name_value(p, &op->results[i]);
    if (op->body) name_region_args(p, op->body);
  }
}

static Printer printer_new(StrBuf *out, const Kernel *k) {
  Printer p = {.out = out, .k = k, .scratch = arena_new()};
  p.spellings.arena = p.scratch;
  name_values(&p);
  return p;
}

/* ---- pieces ---- */

/* A dangling operand is a bug of a pass; the dump that reports it must still be printable. */
static void print_value(Printer *p, const Value *v) {
  const char *name = v ? map_get(&p->names, map_key(v)) : NULL;
  sb_putc(p->out, '%');
  sb_puts(p->out, name ? name : "<undefined>");
}

static void print_values(Printer *p, Value *const *values, int n) {
  for (int i = 0; i < n; i++) {
    if (i) sb_puts(p->out, ", ");
    print_value(p, values[i]);
  }
}

static void print_pairs(Printer *p, SymPairs pairs) {
  sb_putc(p->out, '{');
  for (int i = 0; i < pairs.n; i++) {
    if (i) sb_puts(p->out, ", ");
    sym_print(p->out, pairs.at[i].key);
    sb_puts(p->out, ": ");
    sym_print(p->out, pairs.at[i].value);
  }
  sb_putc(p->out, '}');
}

static void print_list(Printer *p, const Sym *const *list, int n) {
  for (int i = 0; i < n; i++) {
    if (i) sb_puts(p->out, ", ");
    sym_print(p->out, list[i]);
  }
}

/* Names given by the user are printed as words, or else as strings. */
static void print_word(Printer *p, const char *word) {
  bool plain = *word && !isdigit((unsigned char)*word);
  for (const char *c = word; *c; c++) plain &= text_is_name_char(*c);
  if (plain) sb_puts(p->out, word);
  else sb_quote(p->out, word);
}

static void print_order(Printer *p, const char *word, const Digits *order) {
  if (!order->n) return;
  sb_printf(p->out, " %s(", word);
  for (int i = 0; i < order->n; i++)
    sb_printf(p->out, "%s%d, %d", i ? ", " : "", order->at[i].radix, order->at[i].stride);
  sb_puts(p->out, ")");
}

static void print_mma(Printer *p, const MmaChoice *m) {
  if (m->name) print_word(p, m->name);
  else sb_printf(p->out, "dot(%d, %d, %d, %c)", m->out_vec, m->k_vec, m->k_mult, m->along);
  if (m->swap) sb_puts(p->out, " swap");
  if (m->shared_lhs) sb_puts(p->out, " shared_lhs");
  if (m->shared_rhs) sb_puts(p->out, " shared_rhs");
  print_order(p, "order", &m->order);
  print_order(p, "rows", &m->across[0]);
  print_order(p, "columns", &m->across[1]);
}

static void print_mapping(Printer *p, const Mapping *m) {
  sb_printf(p->out, "map %d ", m->niterators);
  print_pairs(p, m->inputs);
  sb_puts(p->out, " -> ");
  print_pairs(p, m->outputs);
  for (int i = 0; i < m->ndynamic; i++) {
    sb_puts(p->out, i ? ", " : " with ");
    print_pairs(p, m->dynamic[i]);
  }
}

/* A symbol with the name of a float would be read as one. */
static void print_number(Printer *p, const Attr *a) {
  const char *name = a->sym ? sym_name(a->sym) : NULL;
  bool guard = name && (strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0);
  if (!a->sym) text_float_print(p->out, a->number);
  else if (guard) sb_printf(p->out, "(%s)", sym_text(p->scratch, a->sym));
  else sym_print(p->out, a->sym);
}

static void print_texts(Printer *p, const Attr *a) {
  sb_putc(p->out, '[');
  for (int i = 0; i < a->n; i++) {
    if (i) sb_puts(p->out, ", ");
    sb_quote(p->out, a->texts[i]);
  }
  sb_putc(p->out, ']');
}

static void print_counts(Printer *p, const Attr *a) {
  sb_putc(p->out, '{');
  for (int i = 0; i < a->n; i++) {
    if (i) sb_puts(p->out, ", ");
    print_word(p, a->counts[i].name);
    sb_printf(p->out, ": %lld", (long long)a->counts[i].count);
  }
  sb_putc(p->out, '}');
}

static void print_iters(Printer *p, const Attr *a) {
  sb_putc(p->out, '[');
  for (int i = 0; i < a->n; i++) {
    const LogIter *it = &a->iters[i];
    sb_puts(p->out, i ? ", (" : "(");
    print_list(p, (const Sym *[]){it->symbol, it->axis, it->count}, 3);
    sb_putc(p->out, ')');
  }
  sb_putc(p->out, ']');
}

static void print_exprs(Printer *p, const Attr *a) {
  sb_putc(p->out, '[');
  print_list(p, a->exprs, a->n);
  sb_putc(p->out, ']');
}

static void print_ints(Printer *p, const Attr *a) {
  for (int i = 0; i < a->n; i++) sb_printf(p->out, "%s%lld", i ? ", " : "[", (long long)a->ints[i]);
  sb_puts(p->out, a->n ? "]" : "[]");
}

static void print_descriptor(Printer *p, const Descriptor *d) {
  sb_printf(p->out, "[%lld, %lld, %d, %d]", (long long)d->leading, (long long)d->stride, d->span,
            d->transposed);
}

/* abs $0 : f32, scalar 1.0 : f32, maximum $2 $3 : f32 */
static void print_steps(Printer *p, const Attr *a) {
  sb_putc(p->out, '[');
  for (int i = 0; i < a->n; i++) {
    const CombineStep *s = &a->steps[i];
    Attr value = {.number = s->number};
    if (s->sym) value.sym = s->sym;
    sb_printf(p->out, "%s%s", i ? ", " : "", op_info[s->kind].name);
    if (s->kind == OP_scalar) sb_putc(p->out, ' '), print_number(p, &value);
    for (int j = 0; j < s->nargs; j++) sb_printf(p->out, " $%d", s->args[j]);
    sb_printf(p->out, " : %s", dtype_info[s->dtype].name);
  }
  sb_putc(p->out, ']');
}

static void print_attr_value(Printer *p, const Attr *a) {
  switch (attr_info[a->key].kind) {
  case ATTR_KIND_NUMBER: print_number(p, a); break;
  case ATTR_KIND_EXPR:
  case ATTR_KIND_DIM: sym_print(p->out, a->sym); break;
  case ATTR_KIND_EXPRS: print_exprs(p, a); break;
  case ATTR_KIND_INT: sb_int(p->out, a->integer); break;
  case ATTR_KIND_INTS: print_ints(p, a); break;
  case ATTR_KIND_FLAG: break;
  case ATTR_KIND_TEXT: sb_quote(p->out, a->text); break;
  case ATTR_KIND_WORD: sb_puts(p->out, a->text); break;
  case ATTR_KIND_TEXTS: print_texts(p, a); break;
  case ATTR_KIND_BOUNDS: print_pairs(p, (SymPairs){a->pairs, a->n}); break;
  case ATTR_KIND_MAPPING: print_mapping(p, a->mapping); break;
  case ATTR_KIND_MMA: print_mma(p, a->mma); break;
  case ATTR_KIND_COUNTS: print_counts(p, a); break;
  case ATTR_KIND_ITERS: print_iters(p, a); break;
  case ATTR_KIND_MEMORY: mem_print(p->out, a->memory); break;
  case ATTR_KIND_DESCRIPTOR: print_descriptor(p, a->descriptor); break;
  case ATTR_KIND_STEPS: print_steps(p, a); break;
  }
}

/* `before`, then the attributes that are not in the head, and a brace; nothing if there are
 * none. */
static void print_attrs(Printer *p, const Op *op, const char *before) {
  int written = 0;
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    if (text_attr_is_in_head(op->kind, a->key)) continue;
    sb_puts(p->out, written++ ? ", " : before);
    sb_puts(p->out, attr_info[a->key].name);
    if (attr_info[a->key].kind == ATTR_KIND_FLAG) continue;
    sb_puts(p->out, " = ");
    print_attr_value(p, a);
  }
  if (written) sb_putc(p->out, '}');
}

static void print_types(Printer *p, const Op *op) {
  for (int i = 0; i < op->nresults; i++) {
    sb_puts(p->out, i ? ", " : " : ");
    if (op->results[i].varying) sb_puts(p->out, "varying ");
    type_print(p->out, p->k->cx, op->results[i].type);
    if (!op->results[i].layout) continue;
    sb_puts(p->out, " @ ");
    layout_print(p->out, op->results[i].layout);
  }
}

/* ---- ops ---- */

static void print_carried(Printer *p, const Op *op, int first_arg) {
  int from = op_carried(op);
  for (int i = from; i < op->nargs; i++) {
    const Value *arg = op->body->args[first_arg + i - from];
    sb_printf(p->out, "%s%s", i == from ? " carry " : ", ", arg->varying ? "varying " : "");
    print_value(p, arg);
    sb_puts(p->out, " = ");
    print_value(p, op->args[i]);
  }
}

/* `before` and the attribute, if it is present. */
static void print_clause(Printer *p, const Op *op, const char *before, AttrKey key) {
  if (!op_has(op, key)) return;
  sb_puts(p->out, before);
  print_attr_value(p, op_attr(op, key));
}

static void print_for(Printer *p, const Op *op) {
  print_clause(p, op, " ", ATTR_axis);
  print_clause(p, op, " from ", ATTR_from);
  if (op_has(op, ATTR_from)) print_value(p, op->args[0]);
  print_clause(p, op, " step ", ATTR_step);
}

static void print_while(Printer *p, const Op *op) {
  print_clause(p, op, " ", ATTR_axis);
  print_clause(p, op, " as ", ATTR_version);
  sb_puts(p->out, op->body->args[0]->varying ? " (varying " : " (");
  print_value(p, op->body->args[0]);
  sb_puts(p->out, ") from ");
  print_value(p, op->args[0]);
  print_clause(p, op, " cond ", ATTR_expr);
}

static void print_if(Printer *p, const Op *op) {
  bool by_value = op_condition(op) != NULL;
  print_clause(p, op, " (", ATTR_expr);
  sb_puts(p->out, by_value ? " " : ")");
  if (by_value) print_value(p, op->args[0]);
}

static void print_region_head(Printer *p, const Op *op) {
  if (op->kind == OP_for) print_for(p, op);
  else if (op->kind == OP_while) print_while(p, op);
  else print_if(p, op);
  print_attrs(p, op, " with {");
  print_carried(p, op, op->kind == OP_while ? 1 : 0);
  print_types(p, op);
}

static void print_plain(Printer *p, const Op *op) {
  AttrKey lead = op_info[op->kind].lead;
  if (lead != ATTR_NONE && op_has(op, lead)) {
    sb_putc(p->out, ' ');
    print_attr_value(p, op_attr(op, lead));
  }
  if (op->nargs) sb_putc(p->out, ' ');
  print_values(p, op->args, op->nargs);
  print_attrs(p, op, " {");
  print_types(p, op);
}

static void print_head(Printer *p, const Op *op) {
  for (int i = 0; i < op->nresults; i++) {
    if (i) sb_puts(p->out, ", ");
    print_value(p, &op->results[i]);
  }
  if (op->nresults) sb_puts(p->out, " = ");
  sb_puts(p->out, op_info[op->kind].name);
  if (op->body) print_region_head(p, op);
  else print_plain(p, op);
}

static void indent(StrBuf *out, int depth) {
  for (int i = 0; i < depth; i++) sb_write(out, "  ", 2);
}

static void print_body(Printer *p, const Region *r, int depth) {
  for (const Op *op = r->first; op; op = op->next) {
    if (op->kind == OP_yield && !op->nargs && !op->nattrs) continue;
    indent(p->out, depth);
    print_head(p, op);
    if (op->body) {
      sb_puts(p->out, " {\n");
      print_body(p, op->body, depth + 1);
      indent(p->out, depth);
      sb_putc(p->out, '}');
    }
    sb_putc(p->out, '\n');
  }
}

/* ---- header ---- */

static void print_three(Printer *p, const Sym *const *three) {
  const Sym *one = sym_int(p->k->cx->sym, 1);
  const Sym *all[3] = {three[0], three[1] ? three[1] : one, three[2] ? three[2] : one};
  sb_putc(p->out, '(');
  print_list(p, all, 3);
  sb_putc(p->out, ')');
}

static bool clause_given(const Constraint *c, const Clause *cl) {
  void *field = clause_field(c, cl);
  switch (cl->kind) {
  case CLAUSE_DIM:
  case CLAUSE_EXPR:
  case CLAUSE_THREE: return *(const Sym **)field != NULL;
  case CLAUSE_INT:
  case CLAUSE_COUNT: return *(int *)field != 0 || cl->must;
  case CLAUSE_FLAG: return *(bool *)field;
  case CLAUSE_MMA: return mma_given(field);
  case CLAUSE_PAIRS:
  case CLAUSE_DIMS: return ((SymPairs *)field)->n > 0 || cl->must;
  case CLAUSE_WORD: return *(const char **)field != NULL;
  case CLAUSE_PLACE:
  case CLAUSE_OPS:
  case CLAUSE_ROLES: return true;
  }
  return false;
}

/* A name that the row would read as one of its words is printed as a string. */
static void print_name(Printer *p, ConstraintKind row, const char *name) {
  bool is_word = false;
  EACH_CLAUSE(cl, row) is_word |= strcmp(cl->word, name) == 0;
  if (is_word) sb_quote(p->out, name);
  else print_word(p, name);
}

static void print_names(Printer *p, ConstraintKind row, const OpNames *names) {
  Arena *a = arena_new();
  for (int i = 0; i < names->n; i++) {
    OpName name = schedule_split_name(a, names->at[i]);
    if (i) sb_putc(p->out, ' ');
    print_name(p, row, name.called);
    sb_puts(p->out, name.selection);
  }
  arena_free(a);
}

static void print_roles(Printer *p, ConstraintKind row, const Roles *roles) {
  for (int i = 0; i < roles->n; i++) {
    if (i) sb_puts(p->out, ", ");
    print_name(p, row, roles->at[i].name);
    sb_printf(p->out, " %d", roles->at[i].waves);
    if (roles->at[i].registers) sb_printf(p->out, " x %d", roles->at[i].registers);
  }
}

static void print_clause_value(Printer *p, const Constraint *c, const Clause *cl) {
  void *field = clause_field(c, cl);
  switch (cl->kind) {
  case CLAUSE_DIM:
  case CLAUSE_EXPR: sym_print(p->out, *(const Sym **)field); break;
  case CLAUSE_INT:
  case CLAUSE_COUNT: sb_int(p->out, *(int *)field); break;
  case CLAUSE_FLAG: break;
  case CLAUSE_THREE: print_three(p, field); break;
  case CLAUSE_MMA: print_mma(p, field); break;
  case CLAUSE_PAIRS:
  case CLAUSE_DIMS: print_pairs(p, *(SymPairs *)field); break;
  case CLAUSE_WORD: print_name(p, c->kind, *(const char **)field); break;
  case CLAUSE_PLACE:
    sb_printf(p->out, "%d.%d", ((Place *)field)->stage, ((Place *)field)->cycle);
    break;
  case CLAUSE_OPS: print_names(p, c->kind, field); break;
  case CLAUSE_ROLES: print_roles(p, c->kind, field); break;
  }
}

static void print_row(Printer *p, const Constraint *c) {
  sb_printf(p->out, "  %s", constraint_name[c->kind]);
  int written = 0;
  EACH_CLAUSE(cl, c->kind) {
    if (!clause_given(c, cl)) continue;
    sb_puts(p->out, c->kind == CONSTRAINT_hardware && written++ ? ", " : " ");
    sb_puts(p->out, cl->word);
    if (*cl->word && cl->kind != CLAUSE_FLAG) sb_putc(p->out, ' ');
    print_clause_value(p, c, cl);
  }
}

void ir_print_row(StrBuf *out, const Kernel *k, const Constraint *c) {
  Printer p = {.out = out, .k = k};
  print_row(&p, c);
}

static void print_rows(Printer *p) {
  for (int i = 0; i < p->k->constraints.n; i++) {
    const Constraint *c = &p->k->constraints.at[i];
    bool joins = i > 0 && c->kind == CONSTRAINT_dynamic && c[-1].kind == CONSTRAINT_dynamic;
    if (joins) {
      sb_puts(p->out, ", ");
      sym_print(p->out, c->dynamic.symbol);
    } else {
      sb_putc(p->out, '\n');
      print_row(p, c);
    }
  }
}

static void print_param(Printer *p, int i) {
  const Value *v = p->k->body->args[i];
  print_value(p, v);
  sb_puts(p->out, ": ");
  type_print(p->out, p->k->cx, v->type);
  const Sym *binds = p->k->params.at[i].binds;
  if (binds) sb_printf(p->out, " binds %s", sym_text(p->scratch, binds));
  const char *log = p->k->params.at[i].log;
  if (p->k->params.at[i].workspace) sb_puts(p->out, " workspace");
  if (p->k->params.at[i].undefined) sb_puts(p->out, " undefined");
  if (log) sb_puts(p->out, " log "), sb_quote(p->out, log);
  const char *report = p->k->params.at[i].report;
  if (report) sb_puts(p->out, " report "), sb_quote(p->out, report);
}

/* As many parameters on a line as fit, aligned below each other. */
static void print_params(Printer *p, size_t line_start) {
  enum { WIDTH = 100 };
  StrBuf *out = p->out;
  int indent = (int)(out->n - line_start);
  for (int i = 0; i < p->k->params.n; i++) {
    StrBuf one = {.arena = p->scratch};
    p->out = &one;
    print_param(p, i);
    p->out = out;
    bool fits = out->n - line_start + one.n + 3 <= WIDTH;
    if (i) sb_puts(out, fits ? ", " : ",\n");
    if (i && !fits) line_start = out->n, sb_printf(out, "%*s", indent, "");
    sb_puts(out, sb_text(&one));
  }
}

void ir_print(StrBuf *out, const Kernel *k) {
  Printer p = printer_new(out, k);
  size_t start = out->n;
  sb_puts(out, k->level == LEVEL_THREAD ? "thread kernel @" : "kernel @");
  print_word(&p, k->name);
  sb_putc(out, '(');
  print_params(&p, start);
  sb_putc(out, ')');
  print_rows(&p);
  sb_puts(out, "\n{\n");
  print_body(&p, k->body, 1);
  sb_puts(out, "}\n");
  arena_free(p.scratch);
}
