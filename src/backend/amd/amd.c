/* amd.c: the text of a kernel for AMD GPUs: its function, arguments, ids. The other files of this
 * folder and of backend/llvm emit the ops. */
#include "backend/amd/amd.h"

#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/launch_facts.h"

/* ---- ids ---- */

static const char *read_id(Llvm *p, const char *what, int axis) {
  const char *name = arena_printf(p->arena, "llvm.amdgcn.%s.id.%c", what, "xyz"[axis]);
  return llvm_call(p, "i32", name, "", "");
}

static bool is_one(const Sym *s) {
  int64_t n;
  return sym_is_int(s, &n) && n == 1;
}

/* All lanes of a wave have the same $T0 divided by their number: the first lane's is read, so that
 * LLVM keeps what depends on it in scalar registers. */
static void open_wave(Llvm *p, const LaunchSpec *launch, const char *thread) {
  int64_t threads;
  bool in_row = is_one(launch->block[1]) && is_one(launch->block[2]);
  bool whole = sym_is_int(launch->block[0], &threads) && threads % p->amd->target->lanes == 0;
  if (!in_row && !whole) return;
  p->wave_log = p->amd->target->lanes == 64 ? 6 : 5;
  const char *wave = llvm_let(p, "lshr i32 %s, %d", thread, p->wave_log);
  p->wave = (LlvmNumber){amd_uniform(p, wave), 32};
}

static void open_ids(Llvm *p, const LaunchSpec *launch) {
  for (int i = 0; i < 3; i++) {
    const char *thread = is_one(launch->block[i]) ? "0" : read_id(p, "workitem", i);
    const char *group = is_one(launch->grid[i]) ? "0" : read_id(p, "workgroup", i);
    llvm_define(p, ir_numbered_symbol(p->k->cx, "$T", i, true), (LlvmNumber){thread, 32});
    llvm_define(p, ir_numbered_symbol(p->k->cx, "$WG", i, true), (LlvmNumber){group, 32});
    if (i == 0) open_wave(p, launch, thread);
  }
}

/* ---- values that LLVM must not look through ---- */

/* In pairs; a single element only if `single`. */
static void hide_pairs(Llvm *p, const Value *v, const char *elem, bool single) {
  enum { PAIR = 2 };
  Held *to = llvm_held_get(p, v);
  int count = part_count(to->n, PAIR);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) {
    int n = part_size(to->n, PAIR, i);
    part[i] = llvm_slice_of(p, to, i * PAIR, n, PAIR);
    if (n == PAIR || single) part[i] = amd_hidden(p, llvm_vec_type(p, elem, n), part[i]);
  }
  llvm_held_set(p, llvm_held_new(p, v), PAIR, part);
}

/* LLVM 19 and 22 take the negation of a pair of f32 that was made of two words for that of an f64, if
 * the second word was selected, and change one sign only. They do not see how these pairs were made. */
static void amd_bitcast(Llvm *p, const Op *op) {
  const Type *from = op->args[0]->type, *to = op->results[0].type;
  llvm_bitcast(p, op);
  if (to->dtype == DTYPE_f32 && to->n > 1 && !dtype_is_float(from->dtype))
    hide_pairs(p, &op->results[0], "float", false);
}

/* LLVM replaces a 16-bit word that is shifted down by 8 by its upper byte, extended with its sign to
 * 32 bits (SDWA), although users may rely on zeros above bit 15. It also shifts words where a part
 * of a longer integer is needed. */
static void hide_words(Llvm *p, const Value *v) {
  if (dtype_info[v->type->dtype].bits == 16 && p->amd->target->lanes == 64)
    hide_pairs(p, v, "i16", true);
}

static void amd_shr(Llvm *p, const Op *op) {
  llvm_elementwise(p, op);
  hide_words(p, &op->results[0]);
}

static void amd_cast(Llvm *p, const Op *op) {
  DType from = op->args[0]->type->dtype, to = op->results[0].type->dtype;
  llvm_cast(p, op);
  if (!dtype_is_float(from) && !dtype_is_float(to) && dtype_info[from].bits > 16)
    hide_words(p, &op->results[0]);
}

/* ---- ops ---- */

static LlvmFn *const writer[OP_COUNT] = {
    [OP_alloc] = amd_alloc,
    [OP_load] = amd_load,
    [OP_ldmatrix] = amd_ldmatrix,
    [OP_store] = amd_store,
    [OP_prefetch] = llvm_nothing,
    [OP_atomic] = amd_atomic,
    [OP_bitcast] = amd_bitcast,
    [OP_shr] = amd_shr,
    [OP_cast] = amd_cast,
    [OP_copy_async] = amd_copy_async,
    [OP_async_commit] = llvm_nothing, /* copies are complete when they are issued */
    [OP_async_wait] = llvm_nothing,
    [OP_shuffle] = amd_shuffle,
    [OP_shuffle_idx] = amd_shuffle_idx,
    [OP_wave_mma] = amd_wave_mma,
    [OP_barrier] = amd_barrier,
    [OP_workgroup_barrier] = amd_bare_barrier,
    [OP_shared_barrier] = amd_barrier,
    [OP_barrier_signal] = amd_barrier_signal,
    [OP_barrier_wait] = amd_barrier_wait,
    [OP_counter_wait] = amd_counter_wait,
    [OP_counter_barrier] = amd_counter_barrier,
    [OP_wave_prio] = amd_wave_prio,
    [OP_clock] = amd_clock,
    [OP_sched_barrier] = amd_sched_barrier,
    [OP_sched_group] = amd_sched_group,
};

bool amd_writes(OpKind kind) { return writer[kind] || llvm_writes_op(kind); }

/* ---- the whole ---- */

/* Scalars below 32 bits are passed in four bytes. */
static bool is_cut(const LlvmSlot *s) {
  return s->kind == LLVM_SCALAR && llvm_elem_bits(s->dtype) < 32;
}

static const char *slot_type(const LlvmSlot *s) {
  if (s->kind == LLVM_POINTER) return llvm_pointer_type(AMD_GLOBAL);
  if (s->kind == LLVM_SCALAR && !is_cut(s)) return llvm_elem_type(s->dtype);
  return s->bytes == 8 ? "i64" : "i32";
}

static void put_arguments(const Llvm *p, StrBuf *out) {
  for (int i = 0; i < p->slots.n; i++) {
    const LlvmSlot *s = &p->slots.at[i];
    sb_printf(out, "%s%s %%arg%d%s", i ? ", " : "", slot_type(s), i, is_cut(s) ? ".word" : "");
  }
}

static void cut_arguments(const Llvm *p, StrBuf *out) {
  for (int i = 0; i < p->slots.n; i++) {
    const LlvmSlot *s = &p->slots.at[i];
    if (!is_cut(s)) continue;
    sb_printf(out, "  %%arg%d = trunc i32 %%arg%d.word to %s\n", i, i, llvm_elem_type(s->dtype));
  }
}

/* ---- values ---- */

const char *amd_recast(Llvm *p, const char *from, const char *v, const char *to) {
  return strcmp(from, to) == 0 ? v : llvm_let(p, "bitcast %s %s to %s", from, v, to);
}

const char *amd_hidden(Llvm *p, const char *type, const char *v) {
  return llvm_let(p, "call %s asm \"\", \"=v,0\"(%s %s)", type, type, v);
}

const char *amd_pinned(Llvm *p, const char *type, const char *v) {
  return llvm_let(p, "call %s asm sideeffect \"\", \"=v,0\"(%s %s)", type, type, v);
}

/* ---- the module ---- */

/* The value of a row of the header; `otherwise`: there is none. */
static int64_t row_value(const Kernel *k, ConstraintKind kind, int64_t otherwise) {
  const Constraint *row = kernel_constraint(k, kind, NULL);
  int64_t n;
  return row && sym_is_int(row->option.allowed, &n) ? n : otherwise;
}

/* amd_registers.c says why: two waves must fit a SIMD, or the order of instructions is the one that
 * needs the fewest registers. */
static void put_register_attributes(Llvm *p, StrBuf *out) {
  int64_t waves = row_value(p->k, CONSTRAINT_occupancy, 0);
  bool whole = amd_has_habit(p->amd->llvm, AMD_WHOLE_FILE);
  AmdHalves halves = amd_halves(p);
  if (!waves && !whole && halves == AMD_LOWER_HALF) waves = 2;
  if (waves) sb_printf(out, " \"amdgpu-waves-per-eu\"=\"%" PRId64 "\"", waves);
  if (whole && halves == AMD_BOTH_HALVES)
    sb_puts(out, " \"amdgpu-sched-strategy\"=\"iterative-minreg\"");
}

/* No hidden arguments, and the size of the workgroup, which bounds the ids of lanes. */
static void put_attributes(Llvm *p, const LaunchSpec *launch, StrBuf *out) {
  static const char *const unused[] = {"implicitarg-ptr",  "dispatch-ptr",       "dispatch-id",
                                       "queue-ptr",        "heap-ptr",           "hostcall-ptr",
                                       "lds-kernel-id",    "multigrid-sync-arg", "default-queue",
                                       "completion-action"};
  int threads = (int)launch_threads(launch);
  sb_printf(out, "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"%d,%d\"", threads,
            threads);
  put_register_attributes(p, out);
  sb_puts(out, " \"uniform-work-group-size\"=\"true\" \"amdgpu-unsafe-fp-atomics\"=\"true\"");
  for (size_t i = 0; i < WV_LEN(unused); i++) sb_printf(out, " \"amdgpu-no-%s\"", unused[i]);
  if (!row_value(p->k, CONSTRAINT_subnormals, 1))
    sb_puts(out, " \"denormal-fp-math-f32\"=\"preserve-sign,preserve-sign\"");
  /* Without clusters a workgroup needs no code to find out its place in one. Registers above v255
   * are not used: LLVM 22 puts some s_set_vgpr_msb too early, so that an instruction before it reads
   * another register. */
  if (target_has(p->amd->target, FEATURE_WMMA_1250))
    sb_puts(out, " \"amdgpu-cluster-dims\"=\"0,0,0\" \"amdgpu-num-vgpr\"=\"256\"");
  sb_puts(out, " }\n");
}

/* LLVM gives the workgroup just these bytes, and parts of words are updated with the rest of it. */
static int64_t lds_bytes(const Amd *amd) { return (amd->lds + 3) / 4 * 4; }

static const char *module_text(Llvm *p, const LaunchSpec *launch) {
  StrBuf out = {.arena = p->arena};
  if (p->amd->lds)
    sb_printf(&out,
              AMD_LDS_NAME " = internal unnamed_addr addrspace(3) global [%" PRId64
                           " x i8] poison, align 1024\n",
              lds_bytes(p->amd));
  sb_printf(&out, "define amdgpu_kernel void @%s(", llvm_entry_name(p));
  put_arguments(p, &out);
  sb_printf(&out, ") #0%s {\nentry:\n", llvm_debug_function(p));
  cut_arguments(p, &out);
  sb_puts(&out, sb_text(&p->amd->opening));
  sb_puts(&out, sb_text(&p->body));
  sb_puts(&out, "  ret void\n}\n");
  for (int i = 0; i < p->declared.n; i++) sb_printf(&out, "%s\n", p->declared.at[i]);
  put_attributes(p, launch, &out);
  llvm_debug_close(p, &out);
  amd_put_scopes(p, &out);
  return sb_text(&out);
}

/* Code objects of version 5 are the newest that all loaders accept. */
static LlvmMachine machine_of(const Kernel *k, const Amd *amd, const AmdOptions *o) {
  bool has_functions = amd_knows(amd, "exp2") && amd_knows(amd, "log");
  return (LlvmMachine){.called = amd->target->name,
                       .vector_bits = 128,
                       .f16 = true,
                       .fma = true,
                       .keeps_nan = amd_has_habit(o->llvm, AMD_EXPANDS_MAXIMUM),
                       .narrow = true,
                       .subnormals = row_value(k, CONSTRAINT_subnormals, 1),
                       .cast_packed = amd_cast_packed,
                       .global = AMD_GLOBAL,
                       .flag = "!{i32 1, !\"amdhsa_code_object_version\", i32 500}",
                       .fast_math = o->fast_math,
                       .f32 = has_functions ? amd_f32_templates : NULL,
                       .fast = has_functions ? amd_fast_templates : NULL,
                       .reduce_angle = amd_reduce_angle,
                       .remainder = amd_remainder,
                       .writer = writer,
                       .unroll = amd_unroll};
}

static bool check_launch(Llvm *p, const LaunchSpec *launch) {
  const TargetInfo *t = p->amd->target;
  if (p->k->level != LEVEL_THREAD || !launch)
    return llvm_fail(p, NULL, "a kernel that is not lowered to THREAD level");
  if (launch->lanes != t->lanes)
    return llvm_fail(p, NULL, arena_printf(p->arena, "a wave of %d lanes", launch->lanes));
  for (int i = 0; i < 3; i++)
    if (!sym_is_int(launch->block[i], &(int64_t){0}))
      return llvm_fail(p, NULL, "a workgroup of unknown size");
  return true;
}

/* LLVM would compile it: the driver would refuse it. */
static bool check_lds(Llvm *p) {
  const TargetInfo *t = p->amd->target;
  if (p->amd->lds <= t->shared_most) return true;
  return diag_fail(&p->k->cx->diags, DIAG_E0613, p->k->at,
                   "`%s` needs %" PRId64 " bytes of shared memory, %s has %d", p->k->name,
                   p->amd->lds, t->name, t->shared_most);
}

static bool has_direct(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (amd_is_direct(op)) return true;
  return false;
}

static bool emit_kernel(Kernel *k, const AmdOptions *o, Amd *amd, Arena *a, AmdKernel *out) {
  const LaunchSpec *launch = kernel_launch(k);
  LlvmMachine machine = machine_of(k, amd, o);
  Llvm p = {.k = k, .machine = &machine, .amd = amd, .arena = a, .sym = k->cx->sym};
  p.body = (StrBuf){.arena = a};
  p.place = "";
  if (!check_launch(&p, launch)) return false;
  p.held = ARENA_ARRAY(a, Held *, k->nvalues);
  amd->offset = ARENA_ARRAY(a, const Sym *, k->nvalues);
  amd->lds = launch->shared;
  amd->all_buffers = row_value(k, CONSTRAINT_buffers, 0);
  amd->shares_tensors = amd_shares_tensors(k);
  amd_find_offsets(&p);
  amd_find_idle(&p);
  p.entry = p.facts = launch_facts(p.arena, p.k, launch);
  p.block = "entry";
  llvm_debug_open(&p);
  llvm_open_params(&p);
  open_ids(&p, launch);
  llvm_region(&p, k->body);
  if (amd->idles) amd->lds = amd->idle + AMD_IDLE_BYTES;
  if (p.failed || !check_lds(&p) || !amd_check_known(&p)) return false;
  *out = (AmdKernel){.text = module_text(&p, launch),
                     .entry = llvm_entry_name(&p),
                     .slots = p.slots.at,
                     .nslots = p.slots.n,
                     .shared = (int)amd->lds,
                     .waits_all = amd->direct && !amd_has_habit(amd->llvm, AMD_COUNTED_COPIES)};
  for (int i = 0; i < 3; i++) out->grid[i] = launch->grid[i], out->block[i] = launch->block[i];
  return true;
}

/* That a copy is not direct after all, or that offsets must be hidden, is known only after the first
 * of them were written: then the text is written again. */
bool amd_emit(Kernel *k, const TargetInfo *t, const AmdOptions *o, Arena *a, AmdKernel *out) {
  Amd amd = {.target = t, .llvm = o->llvm, .opening = {.arena = a}, .direct = has_direct(k)};
  Amd again = amd;
  if (!emit_kernel(k, o, &amd, a, out)) return false;
  again.waits_all = amd.around;
  again.hides = amd.negative && amd.splits;
  return (!again.waits_all && !again.hides) || emit_kernel(k, o, &again, a, out);
}
