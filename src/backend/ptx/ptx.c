/* ptx.c: the text of a kernel: header, arguments, regions; what each op becomes is in the other
 * files of this folder. */
#include "backend/ptx/ptx.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

bool ptx_fail(Ptx *p, const Op *op, const char *what) {
  if (!p->failed)
    diag_add(&p->k->cx->diags, DIAG_E0601, op ? op->at : p->k->at,
             "`%s`: %s is not written as PTX yet for %s", op ? op_info[op->kind].name : p->k->name,
             what, p->target->name);
  p->failed = true;
  return false;
}

Reg ptx_new(Ptx *p, RegClass class) {
  static const char *const prefix[] = {"%p", "%h", "%r", "%rd", "%f", "%fd"};
  return (Reg){arena_printf(p->arena, "%s%d", prefix[class], p->regs[class]++), class};
}

void ptx_line(Ptx *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  sb_puts(&p->body, "\t");
  sb_puts(&p->body, arena_vprintf(p->arena, format, ap));
  sb_puts(&p->body, ";\n");
  va_end(ap);
}

void ptx_set(Ptx *p, const Value *v, Held held) {
  p->held[v->id] = arena_copy(p->arena, &held, sizeof held);
}

Held *ptx_get(Ptx *p, const Value *v) { return p->held[v->id]; }

/* ---- arguments ---- */

static bool same_argument(const PtxArg *a, const PtxArg *b) {
  return a->kind == b->kind && a->param == b->param && a->value == b->value && a->bytes == b->bytes;
}

Reg ptx_argument(Ptx *p, PtxArg arg) {
  for (int i = 0; i < p->args.n; i++)
    if (same_argument(&p->args.at[i], &arg)) return p->arg_regs.at[i];
  RegClass class = arg.bytes == 8 ? REG_RD : REG_R;
  if (arg.kind == PTX_SCALAR) class = class_of(arg.dtype);
  Reg r = ptx_new(p, class);
  vec_push(p->arena, &p->args, arg);
  vec_push(p->arena, &p->arg_regs, r);
  return r;
}

static void open_params(Ptx *p) {
  const Region *body = p->k->body;
  for (int i = 0; i < body->nargs; i++) {
    const Value *v = body->args[i];
    bool memory = v->type->kind == TYPE_mem;
    PtxArg arg = {.kind = memory ? PTX_POINTER : PTX_SCALAR, .param = i, .dtype = v->type->dtype};
    arg.bytes = memory || dtype_info[arg.dtype].bits == 64 ? 8 : 4;
    Reg *r = ARENA_NEW(p->arena, Reg);
    *r = ptx_argument(p, arg);
    if (memory) {
      Reg global = ptx_new(p, REG_RD);
      ptx_line(p, "cvta.to.global.u64 %s, %s", global.name, r->name);
      *r = global;
    }
    ptx_set(p, v, (Held){.dtype = v->type->dtype, .n = 1, .elem = r});
    if (p->k->params.at[i].binds) ptx_define(p, p->k->params.at[i].binds, *r);
  }
}

static void open_ids(Ptx *p) {
  static const char axes[] = "xyz";
  for (int i = 0; i < 3; i++) {
    Reg t = ptx_new(p, REG_R), g = ptx_new(p, REG_R);
    ptx_line(p, "mov.u32 %s, %%tid.%c", t.name, axes[i]);
    ptx_line(p, "mov.u32 %s, %%ctaid.%c", g.name, axes[i]);
    ptx_define(p, ir_numbered_symbol(p->k->cx, "$T", i, true), t);
    ptx_define(p, ir_numbered_symbol(p->k->cx, "$WG", i, true), g);
  }
  p->shared = ptx_new(p, REG_R);
  ptx_line(p, "mov.u32 %s, wave_shared", p->shared.name);
}

/* What the launch row says of ids. */
static const SymFacts *launch_facts(Ptx *p, const Constraint *launch) {
  SymFacts *f = sym_facts_new(p->arena, p->sym, NULL);
  for (int i = 0; i < 3; i++) {
    sym_assume(f, sym_lt(p->sym, ir_numbered_symbol(p->k->cx, "$T", i, true), launch->block[i]));
    sym_assume(f, sym_lt(p->sym, ir_numbered_symbol(p->k->cx, "$WG", i, true), launch->grid[i]));
  }
  for (int i = 0; i < p->k->constraints.n; i++) {
    const Constraint *c = &p->k->constraints.at[i];
    if (c->kind == CONSTRAINT_assume) sym_assume(f, c->expr);
    if (c->kind == CONSTRAINT_bind) sym_assume(f, sym_eq(p->sym, c->dim, c->size));
  }
  sym_take_error(p->sym);
  return f;
}

/* ---- regions ---- */

static void emit_region(Ptx *p, const Region *r);

typedef struct Carried {
  Held *homes;
  int n;
} Carried;

/* Registers that hold what a region carries, filled with what it begins with. */
static Carried open_carried(Ptx *p, Value *const *from, const Region *body, int first) {
  Carried c = {.n = body->nargs - first};
  c.homes = ARENA_ARRAY(p->arena, Held, c.n);
  for (int i = 0; i < c.n; i++) {
    const Type *t = from[i]->type;
    bool words = is_packed(t->dtype) && t->n * dtype_info[t->dtype].bits % 32 == 0;
    c.homes[i] = held_new(p, t->dtype, t->n, words);
    move_held(p, &c.homes[i], ptx_get(p, from[i]));
    ptx_set(p, body->args[first + i], c.homes[i]);
  }
  return c;
}

/* The value is already where it is carried. */
static bool is_home(Ptx *p, const Held *home, Held *v) {
  const Reg *to = home->word ? home->word : home->elem;
  const Reg *from = home->word ? words_of(p, v) : elems_of(p, v);
  int n = home->word ? word_count(home->dtype, home->n) : home->n;
  for (int i = 0; i < n; i++)
    if (to[i].name != from[i].name) return false;
  return true;
}

/* What is yielded may be what another carried value holds: all are read before any is written. */
static void yield_carried(Ptx *p, const Carried *c, const Op *yield, int first) {
  Held *next = ARENA_ARRAY(p->arena, Held, c->n);
  bool *stays = ARENA_ARRAY(p->arena, bool, c->n);
  for (int i = 0; i < c->n; i++) {
    const Held *home = &c->homes[i];
    Held *v = ptx_get(p, yield->args[first + i]);
    stays[i] = is_home(p, home, v);
    if (stays[i]) continue;
    next[i] = held_new(p, home->dtype, home->n, home->word != NULL);
    move_held(p, &next[i], v);
  }
  for (int i = 0; i < c->n; i++)
    if (!stays[i]) move_held(p, &c->homes[i], &next[i]);
}

static void set_results(Ptx *p, const Op *op, const Carried *c) {
  for (int i = 0; i < op->nresults; i++) ptx_set(p, &op->results[i], c->homes[i]);
}

static void label(Ptx *p, const char *what, int n) { sb_printf(&p->body, "$%s%d:\n", what, n); }

/* What a region defines is not seen behind it. */
typedef struct Mark {
  int symbols, addresses;
} Mark;

static Mark open_mark(const Ptx *p) { return (Mark){p->symbols.n, p->addresses.n}; }
static void close_mark(Ptx *p, Mark m) { p->symbols.n = m.symbols, p->addresses.n = m.addresses; }

/* What holds of the counter in the body. */
static const SymFacts *counter_facts(Ptx *p, const Sym *counter, const Sym *trips) {
  SymFacts *f = sym_facts_new(p->arena, p->sym, p->facts);
  sym_assume(f, sym_ge(p->sym, counter, sym_int(p->sym, 0)));
  sym_assume(f, sym_lt(p->sym, counter, trips));
  sym_take_error(p->sym);
  return f;
}

static void emit_for(Ptx *p, const Op *op) {
  const Attr *step = op_attr(op, ATTR_step);
  int n = p->labels++, first = op_carried(op), by = step ? (int)step->integer : 1;
  const Sym *counter = ir_loop_counter(p->k, op_attr(op, ATTR_axis)->sym);
  const Sym *count = op_attr(op, ATTR_trips)->sym;
  const SymFacts *outside = p->facts;
  bool small = !first && sym_range(p->sym, p->facts, count).hi <= INT32_MAX - by;
  int bits = small ? 32 : 64;
  Reg trips = ptx_expr(p, op, count, small ? DTYPE_i32 : DTYPE_index, NULL);
  Reg at = ptx_new(p, small ? REG_R : REG_RD), done = ptx_new(p, REG_P);
  Carried c = open_carried(p, op->args + first, op->body, 0);
  if (first) ptx_line(p, "mov.b64 %s, %s", at.name, elems_of(p, ptx_get(p, op->args[0]))[0].name);
  else ptx_line(p, "mov.b%d %s, 0", bits, at.name);
  label(p, "loop", n);
  ptx_line(p, "setp.ge.s%d %s, %s, %s", bits, done.name, at.name, trips.name);
  ptx_line(p, "@%s bra $end%d", done.name, n);
  Mark mark = open_mark(p);
  ptx_define(p, counter, at);
  p->facts = counter_facts(p, counter, count);
  emit_region(p, op->body);
  yield_carried(p, &c, op->body->last, 0);
  p->facts = outside;
  close_mark(p, mark);
  ptx_line(p, "add.s%d %s, %s, %d", bits, at.name, at.name, by);
  ptx_line(p, "bra $loop%d", n);
  label(p, "end", n);
  set_results(p, op, &c);
}

static void emit_if(Ptx *p, const Op *op) {
  const Attr *expr = op_attr(op, ATTR_expr);
  int n = p->labels++, first = op_carried(op);
  Value *value = op_condition(op);
  Reg test = value ? elems_of(p, ptx_get(p, value))[0] : ptx_expr(p, op, expr->sym, DTYPE_i1, NULL);
  Carried c = open_carried(p, op->args + first, op->body, 0);
  ptx_line(p, "@!%s bra $end%d", test.name, n);
  Mark mark = open_mark(p);
  emit_region(p, op->body);
  yield_carried(p, &c, op->body->last, 0);
  close_mark(p, mark);
  label(p, "end", n);
  set_results(p, op, &c);
}

static void emit_while(Ptx *p, const Op *op) {
  int n = p->labels++;
  Carried c = open_carried(p, op->args, op->body, 0);
  Mark mark = open_mark(p);
  label(p, "loop", n);
  ptx_define(p, op_attr(op, ATTR_version)->sym, c.homes[0].elem[0]);
  for (int i = 1; i < c.n; i++) {
    RegClass class = class_of(c.homes[i].dtype);
    if (c.homes[i].elem && (class == REG_R || class == REG_RD))
      ptx_define(p, ir_numbered_symbol(p->k->cx, "$GET_ITER_ARG_", i - 1, false),
                 c.homes[i].elem[0]);
  }
  Reg test = ptx_expr(p, op, op_attr(op, ATTR_expr)->sym, DTYPE_i1, NULL);
  ptx_line(p, "@!%s bra $end%d", test.name, n);
  emit_region(p, op->body);
  yield_carried(p, &c, op->body->last, 0);
  ptx_line(p, "bra $loop%d", n);
  close_mark(p, mark);
  label(p, "end", n);
  for (int i = 0; i < op->nresults; i++) ptx_set(p, &op->results[i], c.homes[i + 1]);
}

/* ---- ops without values ---- */

static void emit_barrier(Ptx *p, const Op *op) {
  const Attr *mode = op_attr(op, ATTR_mode);
  const char *word = mode ? mode->text : "workgroup";
  int64_t count;
  if (strcmp(word, "wave") == 0) ptx_line(p, "bar.warp.sync 0xffffffff");
  else if (strcmp(word, "workgroup") == 0) ptx_line(p, "bar.sync 0");
  else if (strcmp(word, "named") == 0 && sym_is_int(op_attr(op, ATTR_count)->sym, &count))
    ptx_line(p, "bar.%s %d, %d", op_has(op, ATTR_arrive) ? "arrive" : "sync",
             (int)op_attr(op, ATTR_bar)->integer, (int)count);
  else ptx_fail(p, op, "this barrier");
}

static void emit_expr(Ptx *p, const Op *op) {
  DType t = op->results[0].type->dtype;
  ExprRegs args = {(const Value *const *)op->args, op->nargs};
  Reg *r = ARENA_NEW(p->arena, Reg);
  *r = ptx_expr(p, op, op_attr(op, ATTR_expr)->sym, t, &args);
  ptx_set(p, &op->results[0], (Held){.dtype = t, .n = 1, .elem = r});
}

static void emit_set_symbol(Ptx *p, const Op *op) {
  ptx_define(p, op_attr(op, ATTR_version)->sym, elems_of(p, ptx_get(p, op->args[0]))[0]);
}

static void emit_nothing(Ptx *p, const Op *op) { (void)p, (void)op; }
static void emit_commit(Ptx *p, const Op *op) { (void)op, ptx_line(p, "cp.async.commit_group"); }
static void emit_wait(Ptx *p, const Op *op) {
  ptx_line(p, "cp.async.wait_group %d", (int)op_attr(op, ATTR_pending)->integer);
}
static void emit_fence_proxy(Ptx *p, const Op *op) { (void)op, ptx_line(p, "fence.proxy.async"); }
/* Registers that the instructions behind it read are formed in front of the fence. */
static void emit_wgmma_fence(Ptx *p, const Op *op) {
  for (const Op *next = op->next; next && next->kind != OP_wgmma_commit; next = next->next) {
    const Value *a = next->kind == OP_wgmma ? next->args[1] : NULL;
    if (a && a->type->kind != TYPE_mem && ptx_get(p, a)) words_of(p, ptx_get(p, a));
  }
  ptx_line(p, "wgmma.fence.sync.aligned");
}
static void emit_wgmma_commit(Ptx *p, const Op *op) {
  (void)op, ptx_line(p, "wgmma.commit_group.sync.aligned");
}
static void emit_wgmma_wait(Ptx *p, const Op *op) {
  ptx_line(p, "wgmma.wait_group.sync.aligned %d", (int)op_attr(op, ATTR_pending)->integer);
}

static PtxFn *const writer[OP_COUNT] = {
    [OP_alloc] = emit_nothing,
    [OP_scalar] = ptx_scalar,
    [OP_expr] = emit_expr,
    [OP_set_symbol] = emit_set_symbol,
    [OP_splat] = ptx_splat,
    [OP_join] = ptx_join,
    [OP_pick] = ptx_pick,
    [OP_shuffle] = ptx_shuffle,
    [OP_shuffle_idx] = ptx_shuffle_idx,
    [OP_bitcast] = ptx_bitcast,
    [OP_cast] = ptx_cast,
    [OP_select] = ptx_select,
    [OP_load] = ptx_load,
    [OP_store] = ptx_store,
    [OP_atomic] = ptx_atomic,
    [OP_copy_async] = ptx_copy_async,
    [OP_async_commit] = emit_commit,
    [OP_async_wait] = emit_wait,
    [OP_barrier] = emit_barrier,
    [OP_workgroup_barrier] = emit_barrier,
    [OP_shared_barrier] = emit_barrier,
    [OP_wave_mma] = ptx_wave_mma,
    [OP_wgmma] = ptx_wgmma,
    [OP_wgmma_fence] = emit_wgmma_fence,
    [OP_wgmma_commit] = emit_wgmma_commit,
    [OP_wgmma_wait] = emit_wgmma_wait,
    [OP_fence_proxy] = emit_fence_proxy,
    [OP_for] = emit_for,
    [OP_while] = emit_while,
    [OP_if] = emit_if,
    [OP_yield] = emit_nothing,
};

static void emit_region(Ptx *p, const Region *r) {
  for (const Op *op = r->first; op && !p->failed; op = op->next) {
    PtxFn *fn = writer[op->kind];
    if (!fn && has_elementwise(op->kind)) fn = ptx_elementwise;
    if (!fn && op_info[op->kind].flags & OPF_HINT) continue;
    if (fn) fn(p, op);
    else ptx_fail(p, op, "this op");
  }
}

/* ---- the whole ---- */

/* A name that PTX takes: a kernel may be called anything. */
static const char *entry_name(Ptx *p) {
  char *name =
      arena_printf(p->arena, "%s%s", isalpha((unsigned char)p->k->name[0]) ? "" : "k_", p->k->name);
  for (char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '_';
  return name;
}

static void put_header(Ptx *p, StrBuf *out, const Constraint *launch) {
  int64_t threads = 1, v;
  for (int i = 0; i < 3; i++)
    if (sym_is_int(launch->block[i], &v)) threads *= v;
  sb_printf(out, ".version %s\n.target %s\n.address_size 64\n\n",
            target_has(p->target, FEATURE_WGMMA) ? "8.0" : "7.0", p->target->name);
  sb_puts(out, ".extern .shared .align 1024 .b8 wave_shared[];\n\n");
  sb_printf(out, ".visible .entry %s(", entry_name(p));
  for (int i = 0; i < p->args.n; i++)
    sb_printf(out, "%s\n\t.param .b%d arg%d", i ? "," : "", p->args.at[i].bytes * 8, i);
  sb_printf(out, "\n)\n.maxntid %d, 1, 1\n{\n", (int)threads);
}

static void put_registers(const Ptx *p, StrBuf *out) {
  static const char *const types[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  static const char *const prefix[] = {"%p", "%h", "%r", "%rd", "%f", "%fd"};
  for (int i = 0; i < REG_CLASSES; i++)
    if (p->regs[i]) sb_printf(out, "\t.reg .%s %s<%d>;\n", types[i], prefix[i], p->regs[i]);
  for (int i = 0; i < p->args.n; i++) {
    Reg r = p->arg_regs.at[i];
    sb_printf(out, "\tld.param.%s %s, [arg%d];\n", types[r.class], r.name, i);
  }
}

bool ptx_emit(Kernel *k, const TargetInfo *t, Arena *a, PtxKernel *out) {
  const Constraint *launch = kernel_constraint(k, CONSTRAINT_launch, NULL);
  Ptx p = {.k = k, .target = t, .arena = a, .sym = k->cx->sym, .body = {.arena = a}};
  p.held = ARENA_ARRAY(a, Held *, k->nvalues);
  if (!launch || t->vendor != VENDOR_NVIDIA)
    return ptx_fail(&p, NULL, "a kernel that is not lowered");
  p.facts = launch_facts(&p, launch);
  p.uses = ARENA_ARRAY(a, int, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) p.uses[op->args[i]->id]++;
  open_params(&p);
  open_ids(&p);
  emit_region(&p, k->body);
  if (p.failed) return false;
  StrBuf text = {.arena = a};
  put_header(&p, &text, launch);
  put_registers(&p, &text);
  sb_puts(&text, sb_text(&p.body));
  sb_puts(&text, "\tret;\n}\n");
  *out = (PtxKernel){
      .text = sb_text(&text), .entry = entry_name(&p), .args = p.args.at, .nargs = p.args.n};
  for (int i = 0; i < 3; i++) out->grid[i] = launch->grid[i], out->block[i] = launch->block[i];
  out->shared = launch->shared;
  return true;
}
