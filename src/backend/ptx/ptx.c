/* ptx.c: the text of a kernel: header, arguments, regions. The other files of this folder emit the
 * ops. */
#include "backend/ptx/ptx.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"
#include "ir/launch_facts.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"

bool ptx_fail(Ptx *p, const Op *op, const char *what) {
  if (!p->failed)
    diag_add(&p->k->cx->diags, DIAG_E0601, op ? op->at : p->k->at,
             "`%s`: %s is not supported in PTX for %s", op ? op_info[op->kind].name : p->k->name,
             what, p->target->name);
  p->failed = true;
  return false;
}

Reg ptx_new(Ptx *p, RegClass class) {
  static const char *const prefix[] = {"%p", "%h", "%r", "%rd", "%f", "%fd"};
  return (Reg){arena_printf(p->arena, "%s%d", prefix[class], p->regs[class]++), class};
}

/* ---- lines ---- */
/* A name that can be written between quotes. */
static bool is_plain(const char *name) {
  for (; *name; name++)
    if (*name == '"' || *name == '\\' || iscntrl((unsigned char)*name)) return false;
  return true;
}

static int file_number(Ptx *p, uint32_t file) {
  for (int i = 0; i < p->files.n; i++)
    if (p->files.at[i] == file) return i + 1;
  vec_push(p->arena, &p->files, file);
  return p->files.n;
}

/* The source line of the following instructions, for profilers and debuggers. */
static void put_place(Ptx *p) {
  Span at = p->at;
  if (!p->lines || !at.file || !at.line) return;
  if (at.file == p->last.file && at.line == p->last.line) return;
  if (!is_plain(sources_name(&p->k->cx->sources, at.file))) return;
  sb_printf(&p->body, "\t.loc %d %u %u\n", file_number(p, at.file), at.line, at.col);
  p->last = at;
}

void ptx_line(Ptx *p, const char *format, ...) {
  va_list ap;
  put_place(p);
  va_start(ap, format);
  sb_puts(&p->body, "\t");
  sb_puts(&p->body, arena_vprintf(p->arena, format, ap));
  sb_puts(&p->body, ";\n");
  va_end(ap);
}

Reg ptx_let(Ptx *p, RegClass class, const char *format, ...) {
  va_list ap;
  Reg out = ptx_new(p, class);
  va_start(ap, format);
  const char *text = arena_vprintf(p->arena, format, ap);
  va_end(ap);
  int word = (int)strcspn(text, " ");
  ptx_line(p, "%.*s %s,%s", word, text, out.name, text + word);
  return out;
}

void ptx_text(Ptx *p, const char *text) {
  put_place(p);
  sb_printf(&p->body, "\t%s\n", text);
}

void ptx_set(Ptx *p, const Value *v, Held held) {
  p->held[v->id] = arena_copy(p->arena, &held, sizeof held);
}

Held *ptx_get(Ptx *p, const Value *v) { return p->held[v->id]; }

void ptx_needs(Ptx *p, int version) {
  if (p->version < version) p->version = version;
}

void ptx_label(Ptx *p, const char *word, int n) { sb_printf(&p->body, "$%s%d:\n", word, n); }

/* ---- arguments ---- */

static bool same_argument(const PtxArg *a, const PtxArg *b) {
  return a->kind == b->kind && a->param == b->param && a->value == b->value &&
         a->bytes == b->bytes && a->swizzle == b->swizzle &&
         memcmp(a->box, b->box, sizeof a->box) == 0 && a->im2col == b->im2col &&
         a->clip == b->clip && a->joined == b->joined &&
         memcmp(a->lowest, b->lowest, sizeof a->lowest) == 0 &&
         memcmp(a->highest, b->highest, sizeof a->highest) == 0 &&
         memcmp(a->step, b->step, sizeof a->step) == 0;
}

Reg ptx_argument(Ptx *p, PtxArg arg) {
  for (int i = 0; i < p->args.n; i++)
    if (same_argument(&p->args.at[i], &arg)) return p->arg_regs.at[i];
  RegClass class = arg.bytes >= 8 ? REG_RD : REG_R;
  if (arg.kind == PTX_SCALAR && arg.dtype != DTYPE_i1) class = ptx_class_of(arg.dtype);
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
    if (!memory && !dtype_is_float(arg.dtype)) *r = ptx_wrap_integer(p, arg.dtype, *r);
    if (v->type->dtype == DTYPE_i1 && !memory) {
      Reg truth = ptx_let(p, REG_P, "setp.ne.s32 %s, 0", r->name);
      *r = truth;
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

static bool has_op(const Kernel *k, OpKind kind) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == kind) return true;
  return false;
}

/* Descriptors of wgmma and operands of bulk copies are uniform over the lanes, but ptxas moves those that depend on %tid to
 * uniform registers one at a time, inside the loop. It knows that the result of a shuffle is
 * uniform. */
static void open_wave(Ptx *p, const LaunchSpec *launch) {
  int64_t threads;
  bool whole = sym_is_int(launch->block[0], &threads) && threads % 32 == 0;
  bool wanted = has_op(p->k, OP_wgmma) || has_op(p->k, OP_tma_load) || has_op(p->k, OP_tma_store);
  if (!whole || !wanted) return;
  p->wave = ptx_new(p, REG_R);
  ptx_line(p, "mov.u32 %s, %%tid.x", p->wave.name);
  ptx_line(p, "shr.u32 %s, %s, 5", p->wave.name, p->wave.name);
  ptx_line(p, "shfl.sync.idx.b32 %s, %s, 0, 31, 0xffffffff", p->wave.name, p->wave.name);
}

/* ---- ops ---- */

static void emit_expr(Ptx *p, const Op *op) {
  DType t = op->results[0].type->dtype;
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  ExprRegs args = {(const Value *const *)op->args, op->nargs};
  Reg *r = ARENA_NEW(p->arena, Reg);
  *r = ptx_expr(p, op, e, t, &args);
  p->ranges[op->results[0].id] = ptx_range(p, e, t, &args);
  ptx_set(p, &op->results[0], (Held){.dtype = t, .n = 1, .elem = r});
}

static void emit_set_symbol(Ptx *p, const Op *op) {
  ptx_define(p, op_attr(op, ATTR_version)->sym, ptx_elems_of(p, ptx_get(p, op->args[0]))[0]);
}

static void emit_nothing(Ptx *p, const Op *op) { (void)p, (void)op; }

static void emit_alloc(Ptx *p, const Op *op) {
  if (op_has(op, ATTR_kept)) ptx_fail(p, op, "memory that outlives a workgroup");
}

static PtxFn *const writer[OP_COUNT] = {
    [OP_alloc] = emit_alloc,
    [OP_scalar] = ptx_scalar,
    [OP_clock] = ptx_clock,
    [OP_expr] = emit_expr,
    [OP_set_symbol] = emit_set_symbol,
    [OP_splat] = ptx_splat,
    [OP_join] = ptx_join,
    [OP_after] = ptx_after,
    [OP_pick] = ptx_pick,
    [OP_shuffle] = ptx_shuffle,
    [OP_shuffle_idx] = ptx_shuffle_idx,
    [OP_bitcast] = ptx_bitcast,
    [OP_cast] = ptx_cast,
    [OP_select] = ptx_select,
    [OP_inline_ptx] = ptx_inline,
    [OP_load] = ptx_load,
    [OP_store] = ptx_store,
    [OP_atomic] = ptx_atomic,
    [OP_ldmatrix] = ptx_ldmatrix,
    [OP_stmatrix] = ptx_stmatrix,
    [OP_copy_async] = ptx_copy_async,
    [OP_async_commit] = ptx_async_commit,
    [OP_async_wait] = ptx_async_wait,
    [OP_barrier] = ptx_barrier,
    [OP_workgroup_barrier] = ptx_barrier,
    [OP_sched_barrier] = ptx_sched_barrier,
    [OP_shared_barrier] = ptx_barrier,
    [OP_counter_barrier] = ptx_barrier,
    [OP_barrier_wait] = ptx_barrier_wait,
    [OP_barrier_signal] = emit_nothing,
    [OP_counter_wait] = emit_nothing,
    [OP_fence_proxy] = ptx_fence_proxy,
    [OP_wave_registers] = ptx_wave_registers,
    [OP_mbar_init] = ptx_mbar_init,
    [OP_mbar_inval] = ptx_mbar_inval,
    [OP_mbar_expect] = ptx_mbar_expect,
    [OP_mbar_arrive] = ptx_mbar_arrive,
    [OP_mbar_arrive_async] = ptx_mbar_arrive_async,
    [OP_mbar_wait] = ptx_mbar_wait,
    [OP_tma_load] = ptx_tma_load,
    [OP_tma_store] = ptx_tma_store,
    [OP_tma_prefetch] = ptx_tma_prefetch,
    [OP_bulk_commit] = ptx_bulk_commit,
    [OP_bulk_wait] = ptx_bulk_wait,
    [OP_wave_mma] = ptx_wave_mma,
    [OP_wgmma] = ptx_wgmma,
    [OP_wgmma_fence] = ptx_wgmma_fence,
    [OP_wgmma_commit] = ptx_wgmma_commit,
    [OP_wgmma_wait] = ptx_wgmma_wait,
    [OP_for] = ptx_for,
    [OP_while] = ptx_while,
    [OP_if] = ptx_if,
    [OP_yield] = emit_nothing,
};

bool ptx_writes(OpKind kind) {
  return writer[kind] || ptx_has_elementwise(kind) || op_info[kind].flags & OPF_HINT;
}

void ptx_ops(Ptx *p, const Op *from, const Op *end) {
  for (const Op *op = from; op != end && !p->failed; op = op->next) {
    p->at = op->at;
    if (ptx_is_forgotten(p, op) || ptx_redux(p, op) || ptx_divide(p, op) || ptx_masked(p, op))
      continue;
    PtxFn *fn = writer[op->kind];
    bool divides = op->kind == OP_mod || op->kind == OP_remf;
    if (divides && op->results[0].type->dtype == DTYPE_f64) fn = ptx_remainder;
    if (!fn && ptx_has_elementwise(op->kind)) fn = ptx_elementwise;
    if (fn) fn(p, op);
    else if (!ptx_writes(op->kind)) ptx_fail(p, op, "this op");
  }
}

void ptx_region(Ptx *p, const Region *r) { ptx_ops(p, r->first, NULL); }

/* ---- the whole ---- */

/* A valid PTX identifier: a kernel may have any name. */
static const char *entry_name(Ptx *p) {
  char *name =
      arena_printf(p->arena, "%s%s", isalpha((unsigned char)p->k->name[0]) ? "" : "k_", p->k->name);
  for (char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '_';
  return name;
}

static void put_params(const Ptx *p, StrBuf *out) {
  for (int i = 0; i < p->args.n; i++) {
    const PtxArg *arg = &p->args.at[i];
    sb_puts(out, i ? ",\n" : "\n");
    if (arg->kind == PTX_TENSOR_MAP) sb_printf(out, "\t.param .align 64 .b8 arg%d[128]", i);
    else sb_printf(out, "\t.param .b%d arg%d", arg->bytes * 8, i);
  }
}

/* The cluster size, if the launch row gives more than one workgroup. */
static void put_cluster(const LaunchSpec *launch, StrBuf *out) {
  int64_t n[3] = {1, 1, 1};
  for (int i = 0; i < 3; i++)
    if (launch->cluster[i]) sym_is_int(launch->cluster[i], &n[i]);
  if (n[0] * n[1] * n[2] > 1)
    sb_printf(out, ".reqnctapercluster %d, %d, %d\n", (int)n[0], (int)n[1], (int)n[2]);
}

/* Whether waves of different roles divide registers among themselves. */
static bool divides_registers(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_wave_registers) return true;
  return false;
}

/* Whether loops do nothing but multiply: other ops of theirs may need more registers than are counted. */
static bool only_multiplies(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_loop_around(op) && op_is_elementwise(op) && op->results[0].type->kind == TYPE_vec)
      return false;
  return true;
}

/* The most registers that a product needs: ptxas keeps others below its sums, and refuses fewer (C7602). */
static int64_t most_of_product(const Kernel *k) {
  enum { BELOW = 26 };
  int64_t most = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Type *t = op->kind == OP_wgmma ? op->results[0].type : NULL;
    int64_t words = t ? (int64_t)t->n * dtype_info[t->dtype].bits / 32 + BELOW : 0;
    if (words > most) most = words;
  }
  return most;
}

/* Registers of a thread if a multiprocessor holds `workgroups`. */
static int64_t registers_of_each(const TargetInfo *t, int64_t threads, int64_t workgroups) {
  enum { ALLOCATED = 8 /* at a time */ };
  int64_t most = threads ? (int64_t)t->simds * t->file * t->lanes / (workgroups * threads) : 0;
  return most - most % ALLOCATED;
}

/* The workgroups that have as many waves as the header requests; 0: it requests none, or a multiprocessor
 * does not hold them. */
static int64_t workgroups_requested(const Ptx *p, int64_t threads) {
  enum { LEAST = 32 /* registers of each thread that a multiprocessor can hold */ };
  const Constraint *row = kernel_constraint(p->k, CONSTRAINT_occupancy, NULL);
  int64_t waves, lanes = (int64_t)p->target->simds * p->target->lanes;
  if (!row || !sym_is_int(row->occupancy.waves, &waves) || waves < 1 || !threads) return 0;
  int64_t n = (waves * lanes + threads - 1) / threads;
  int64_t most = registers_of_each(p->target, threads, n);
  return most >= LEAST && most >= most_of_product(p->k) ? n : 0;
}

/* The workgroups that a multiprocessor is to hold: as many as are requested, or two, if both have shared memory
 * and what is counted of their registers. Without being told, ptxas takes more for what follows a loop, so
 * that one remains. */
static int workgroups_wanted(const Ptx *p, int64_t threads) {
  enum { SYSTEM_BYTES = 1024, BESIDES = 10 /* registers that are not counted */ };
  const TargetInfo *t = p->target;
  if (divides_registers(p->k)) return 1;
  int64_t requested = workgroups_requested(p, threads);
  if (requested) return (int)requested;
  int64_t most = (t->shared_most + SYSTEM_BYTES) / 2 - SYSTEM_BYTES,
          each = registers_of_each(t, threads, 2);
  if (!target_has(t, FEATURE_WGMMA) || alloc_end(p->k) > most || !only_multiplies(p->k)) return 1;
  bool fits = live_most(p->arena, p->k, NULL) + BESIDES <= each && most_of_product(p->k) <= each;
  return fits ? 2 : 1;
}

static void put_header(Ptx *p, StrBuf *out, const LaunchSpec *launch) {
  int64_t threads = 1, v;
  for (int i = 0; i < 3; i++)
    if (sym_is_int(launch->block[i], &v)) threads *= v;
  sb_printf(out, ".version %d.%d\n.target %s\n.address_size 64\n\n", p->version / 10,
            p->version % 10, p->target->name);
  for (int i = 0; i < p->files.n; i++)
    sb_printf(out, ".file %d \"%s\"\n", i + 1, sources_name(&p->k->cx->sources, p->files.at[i]));
  sb_puts(out, ".extern .shared .align 1024 .b8 wave_shared[];\n");
  if (p->nexchanges) sb_printf(out, ".shared .align 8 .b64 wave_arrived[%d];\n", p->nexchanges);
  sb_puts(out, "\n");
  sb_printf(out, ".visible .entry %s(", entry_name(p));
  put_params(p, out);
  sb_printf(out, "\n)\n.maxntid %d, 1, 1\n", (int)threads);
  /* Without this directive ptxas may choose too few registers for kernels that need all of them,
   * and ignores setmaxnreg. With it, kernels that only move data get more registers than they need,
   * so that fewer workgroups run concurrently. */
  if (p->multiplies || workgroups_requested(p, threads))
    sb_printf(out, ".minnctapersm %d\n", workgroups_wanted(p, threads));
  if (p->clustered) put_cluster(launch, out);
  sb_puts(out, "{\n");
}

static void put_argument(const Ptx *p, StrBuf *out, int i, const char *type) {
  const char *to = p->arg_regs.at[i].name;
  if (p->args.at[i].kind != PTX_TENSOR_MAP)
    sb_printf(out, "\tld.param.%s %s, [arg%d];\n", type, to, i);
  else sb_printf(out, "\tmov.b64 %s, arg%d;\n\tcvta.param.u64 %s, %s;\n", to, i, to, to);
}

static void put_registers(const Ptx *p, StrBuf *out) {
  static const char *const types[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  static const char *const prefix[] = {"%p", "%h", "%r", "%rd", "%f", "%fd"};
  for (int i = 0; i < REG_CLASSES; i++)
    if (p->regs[i]) sb_printf(out, "\t.reg .%s %s<%d>;\n", types[i], prefix[i], p->regs[i]);
  for (int i = 0; i < p->args.n; i++) put_argument(p, out, i, types[p->arg_regs.at[i].class]);
}

static bool is_clustered(const Ptx *p, const LaunchSpec *launch) {
  return ir_is_cluster(launch->cluster) && target_has(p->target, FEATURE_CLUSTER);
}

/* Whether an op reads, or writes, a tensor: a copy to shared memory only reads it, and one from there
 * only writes it. */
bool ptx_reads_tensor(const Op *op) {
  return op->kind != OP_tma_store && op_info[op->kind].flags & OPF_READS;
}

bool ptx_writes_tensor(const Op *op) {
  return op->kind != OP_tma_load && op->kind != OP_copy_async &&
         op_info[op->kind].flags & OPF_WRITES;
}

/* Whether threads of a cluster may pass values on other than by copies that arrive on barriers: by
 * accesses to each other's shared memory, or through a tensor. */
static bool exchanges_values(Ptx *p) {
  bool *reads = ARENA_ARRAY(p->arena, bool, p->k->nvalues);
  bool *writes = ARENA_ARRAY(p->arena, bool, p->k->nvalues);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op_has(op, ATTR_peer) && op->kind != OP_mbar_arrive) return true;
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i]->type->kind == TYPE_mem ? memory_root(op->args[i]) : NULL;
      if (!v || memory_is_scratch(v)) continue;
      reads[v->id] |= ptx_reads_tensor(op), writes[v->id] |= ptx_writes_tensor(op);
      if (reads[v->id] && writes[v->id]) return true;
    }
  }
  return false;
}

/* Whether the copy engine and threads pass values on outside the shared memory of their workgroup: in a
 * tensor that both access and one of them writes, or in shared memory of others. */
static bool publishes_more(Ptx *p) {
  enum { ACCESSED = 1, WRITTEN = 2 };
  uint8_t *engine = ARENA_ARRAY(p->arena, uint8_t, p->k->nvalues);
  uint8_t *threads = ARENA_ARRAY(p->arena, uint8_t, p->k->nvalues);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    bool bulk = op->kind == OP_tma_load || op->kind == OP_tma_store;
    if (op_has(op, ATTR_peer) && op->kind != OP_mbar_arrive) return true;
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i]->type->kind == TYPE_mem ? memory_root(op->args[i]) : NULL;
      if (!v || memory_is_scratch(v)) continue;
      uint8_t *by = bulk ? &engine[v->id] : &threads[v->id];
      *by = (uint8_t)(*by | ACCESSED | (ptx_writes_tensor(op) ? WRITTEN : 0));
      if (engine[v->id] && threads[v->id] && (engine[v->id] | threads[v->id]) & WRITTEN)
        return true;
    }
  }
  return false;
}

/* The first version of PTX that has the target. */
static int first_version(const TargetInfo *t) {
  static const struct {
    int capability, version;
  } first[] = {{80, 70}, {86, 71}, {89, 78}, {90, 80}};
  int version = 0;
  for (int i = 0; i < (int)WV_LEN(first); i++)
    if (first[i].capability <= target_capability(t)) version = first[i].version;
  return version;
}

bool ptx_emit(Kernel *k, const TargetInfo *t, const PtxOptions *o, Arena *a, PtxKernel *out) {
  const LaunchSpec *launch = kernel_launch(k);
  Ptx p = {.k = k, .target = t, .arena = a, .sym = k->cx->sym, .body = {.arena = a}};
  p.held = ARENA_ARRAY(a, Held *, k->nvalues);
  p.ranges = ARENA_ARRAY(a, const SymRange *, k->nvalues);
  p.fast = o && o->fast_math;
  p.lines = !(o && o->no_lines);
  if (!launch || t->vendor != VENDOR_NVIDIA)
    return ptx_fail(&p, NULL, "a kernel that is not lowered");
  if (launch->lanes != t->lanes)
    return ptx_fail(&p, NULL, arena_printf(a, "a wave of %d lanes", launch->lanes));
  p.entry = p.facts = launch_facts(p.arena, p.k, launch);
  p.version = first_version(t);
  p.clustered = is_clustered(&p, launch);
  p.exchanges = p.clustered && exchanges_values(&p);
  p.lanes_read = p.clustered && ptx_lanes_read(&p);
  p.publishes = publishes_more(&p);
  p.uses = ARENA_ARRAY(a, int, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) p.uses[op->args[i]->id]++;
  ptx_forget_meanings(&p);
  ptx_find_redux(&p);
  ptx_find_masked(&p);
  ptx_find_clipped(&p);
  open_params(&p);
  open_ids(&p);
  open_wave(&p, launch);
  ptx_find_exchanges(&p, launch);
  ptx_find_wave_tests(&p);
  ptx_open_policy(&p);
  ptx_region(&p, k->body);
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
  out->is_cluster = p.clustered;
  return true;
}
