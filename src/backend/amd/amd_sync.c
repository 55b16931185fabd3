/* amd_sync.c: barriers, waits, and hints for the scheduler. LLVM inserts the waits that data needs;
 * fences say which memory a barrier orders. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"

static void call_plain(Llvm *p, const char *name) { llvm_call_void(p, name, "", ""); }

static void fence(Llvm *p, const char *scope, const char *how) {
  llvm_line(p, "fence syncscope(\"%s\") %s", scope, how);
}

static bool reads(const Op *op, const Value *tensor) {
  for (int i = 0; i < op->nargs; i++) {
    bool stored = op->kind == OP_store && i == 1;
    if (!stored && op->args[i]->type->kind == TYPE_mem && memory_root(op->args[i]) == tensor)
      return true;
  }
  return false;
}

bool amd_shares_tensors(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_has(op, ATTR_volatile)) return true;
  for (int i = 0; i < k->body->nargs; i++) {
    const Value *tensor = k->body->args[i];
    if (tensor->type->kind != TYPE_mem || !memory_is_written(k, tensor)) continue;
    for (const Op *op = ir_first(k); op; op = ir_next(op))
      if (reads(op, tensor)) return true;
  }
  return false;
}

/* One side of a barrier. If it need not order accesses to tensors, loads may be in flight across
 * it: LLVM 22 would wait for them on RDNA. It would also wait for all copies that end in the LDS, of
 * which the program has waited for those that it needs: then the fence only keeps LLVM from moving
 * accesses across the barrier. */
static void fence_group(Llvm *p, const char *how) {
  static const char local[] = ", !mmra !{!\"amdgpu-synchronize-as\", !\"local\"}";
  bool is_local = !p->amd->shares_tensors && amd_has_habit(p->amd->llvm, AMD_LOCAL_FENCES);
  bool counts = is_local && p->amd->direct && amd_has_habit(p->amd->llvm, AMD_COUNTED_COPIES);
  if (counts) fence(p, "wavefront", how);
  else fence(p, "workgroup", arena_printf(p->arena, "%s%s", how, is_local ? local : ""));
}

/* LLVM 22 drops the wait of a fence if no access to the LDS is in flight where a loop is entered, even
 * if the loop's own stores are when it repeats; a wait of the program stays. Bits of s_waitcnt: all
 * counters but lgkmcnt at their most. */
static void wait_for_lds(Llvm *p) {
  enum { GFX9 = 0xc07f, GFX11 = 0xfc07 };
  const TargetInfo *t = p->amd->target;
  if (target_has(t, FEATURE_SPLIT_BARRIER))
    llvm_call_void(p, "llvm.amdgcn.s.wait.dscnt", "i16", "i16 0");
  else
    llvm_call_void(p, "llvm.amdgcn.s.waitcnt", "i32",
                   arena_printf(p->arena, "i32 %d", t->lanes == 64 ? GFX9 : GFX11));
}

static bool loads_lds(const Op *op) {
  return op->kind == OP_load && memory_is_scratch(op->args[0]);
}

/* Something in a block of its own comes later: a region, or what follows a loop that returns what it
 * has loaded without using it. */
static bool has_block_behind(const Op *barrier) {
  const Region *r = barrier->parent;
  const Op *op = barrier;
  while (op && !op->body && op->kind != OP_yield) op = op->next;
  if (!op || op->kind != OP_yield) return op != NULL;
  for (int i = 0; i < r->nargs && op_is_loop(r->owner); i++)
    if (!ir_count_uses(r, r->args[i])) return true;
  return false;
}

/* LLVM moves a load down to the block that uses its result, even past fences and barriers: only what
 * may store stops it. */
static void hold_loads(Llvm *p, const Op *barrier) {
  const Op *load = barrier->prev;
  while (load && !loads_lds(load)) load = load->prev;
  if (load && has_block_behind(barrier))
    llvm_line(p, "call void asm sideeffect \"\", \"~{memory}\"()");
}

static void release_group(Llvm *p, const Op *barrier) {
  hold_loads(p, barrier);
  fence_group(p, "release");
  wait_for_lds(p);
}

static void whole_barrier(Llvm *p, const Op *op) {
  release_group(p, op);
  call_plain(p, "llvm.amdgcn.s.barrier");
  fence_group(p, "acquire");
}

/* ---- named barriers ---- */

enum { NAMED = 15 }; /* numbers 1 to 15; 0 is the workgroup's */

static const char *barrier_pointer(Llvm *p, const Op *op) {
  const char *type = arena_printf(p->arena, "[%d x target(\"amdgcn.named.barrier\", 0)]", NAMED);
  const Attr *member = op_attr(op, ATTR_member);
  const char *index = arena_printf(p->arena, "%d", (int)op_attr(op, ATTR_bar)->integer - 1);
  llvm_declare(p,
               arena_printf(p->arena, "@barriers = internal addrspace(3) global %s poison", type));
  if (member) {
    const char *which = llvm_in_bits(p, llvm_number(p, op, member->sym), 32);
    index = llvm_let(p, "add i32 %s, %s", amd_uniform(p, which), index);
  }
  return llvm_let(p, "getelementptr %s, ptr addrspace(3) @barriers, i32 0, i32 %s", type, index);
}

/* The number of waves that meet; 0 after reporting that it cannot be told, or is too large. */
static int meeting_waves(Llvm *p, const Op *op) {
  const TargetInfo *t = p->amd->target;
  int64_t threads = 0, bar = op_attr(op, ATTR_bar)->integer;
  const Attr *count = op_attr(op, ATTR_count);
  if (!amd_knows(p->amd, "s.barrier.signal.var")) return llvm_fail(p, op, "a named barrier"), 0;
  bool fits = count && sym_is_int(count->sym, &threads) && threads > 0 && threads % t->lanes == 0 &&
              threads <= t->threads && bar > 0 && bar <= NAMED;
  if (!fits) llvm_fail(p, op, "a named barrier of this number, or of this many threads,");
  return fits ? (int)threads / t->lanes : 0;
}

/* A wave waits for the barrier that it joined last. */
static void named_barrier(Llvm *p, const Op *op) {
  int waves = meeting_waves(p, op);
  if (!waves) return;
  const char *at = barrier_pointer(p, op);
  bool waits = !op_has(op, ATTR_arrive);
  release_group(p, op);
  if (waits)
    llvm_call_void(p, "llvm.amdgcn.s.barrier.join", "ptr addrspace(3)",
                   arena_printf(p->arena, "ptr addrspace(3) %s", at));
  llvm_call_void(p, "llvm.amdgcn.s.barrier.signal.var", "ptr addrspace(3), i32",
                 arena_printf(p->arena, "ptr addrspace(3) %s, i32 %d", at, waves));
  if (!waits) return;
  llvm_call_void(p, "llvm.amdgcn.s.barrier.wait", "i16", "i16 1");
  fence_group(p, "acquire");
}

/* ---- barriers ---- */

void amd_barrier(Llvm *p, const Op *op) {
  const Attr *mode = op->kind == OP_barrier ? op_attr(op, ATTR_mode) : NULL;
  const char *name = mode ? mode->text : "workgroup";
  if (strcmp(name, "workgroup") == 0) whole_barrier(p, op);
  else if (strcmp(name, "wave") == 0) {
    fence(p, "wavefront", "release"); /* lanes run in lockstep: it only stops LLVM */
    call_plain(p, "llvm.amdgcn.wave.barrier");
    fence(p, "wavefront", "acquire");
  } else if (strcmp(name, "named") == 0) named_barrier(p, op);
  else llvm_fail(p, op, arena_printf(p->arena, "a barrier of a %s", name));
}

/* Does not wait for stores; the fences only keep LLVM from moving accesses across it. */
void amd_bare_barrier(Llvm *p, const Op *op) {
  (void)op;
  fence(p, "wavefront", "release");
  call_plain(p, "llvm.amdgcn.s.barrier");
  fence(p, "wavefront", "acquire");
}

/* ---- split barriers ---- */

/* A machine without them waits for all threads at the second half. Other barriers than that of the
 * workgroup are treated in the same way. */
static bool is_split(const Llvm *p, const Op *op) {
  const Attr *bar = op_attr(op, ATTR_bar);
  return target_has(p->amd->target, FEATURE_SPLIT_BARRIER) && !(bar && bar->integer > 0);
}

void amd_barrier_signal(Llvm *p, const Op *op) {
  if (!is_split(p, op)) return;
  if (!op_has(op, ATTR_no_ds_wait)) release_group(p, op);
  llvm_call_void(p, "llvm.amdgcn.s.barrier.signal", "i32", "i32 -1");
}

void amd_barrier_wait(Llvm *p, const Op *op) {
  if (!is_split(p, op)) {
    whole_barrier(p, op);
    return;
  }
  llvm_call_void(p, "llvm.amdgcn.s.barrier.wait", "i16", "i16 -1");
  fence_group(p, "acquire");
}

/* ---- counters ---- */

/* LLVM counts the accesses that it issues, so a program that only loads and stores needs no waits
 * of its own; the order of memory that they give is that of a fence. Only loads that end in the LDS
 * are waited for as the program says. */
static bool wait_for_loads(Llvm *p, const Op *op) {
  const Attr *counters = op_attr(op, ATTR_counters);
  int others = 0;
  for (int i = 0; counters && i < counters->n; i++) {
    const NamedCount *c = &counters->counts[i];
    if (!p->amd->direct || strcmp(c->name, "load") != 0) others++;
    else amd_wait_loads(p, p->amd->waits_all ? 0 : c->count);
  }
  return others > 0;
}

void amd_counter_wait(Llvm *p, const Op *op) {
  if (wait_for_loads(p, op)) fence(p, "workgroup", "release");
}

void amd_counter_barrier(Llvm *p, const Op *op) {
  wait_for_loads(p, op);
  whole_barrier(p, op);
}

/* ---- hints ---- */

void amd_wave_prio(Llvm *p, const Op *op) {
  llvm_call_void(p, "llvm.amdgcn.s.setprio", "i16",
                 arena_printf(p->arena, "i16 %d", (int)op_attr(op, ATTR_prio)->integer & 3));
}

/* LLVM's scheduler would move what has no side effects across it. */
void amd_clock(Llvm *p, const Op *op) {
  Held *h = llvm_held_new(p, &op->results[0]);
  llvm_call_void(p, "llvm.amdgcn.sched.barrier", "i32", "i32 0");
  const char *now = llvm_call(p, "i64", "llvm.readcyclecounter", "", "");
  llvm_call_void(p, "llvm.amdgcn.sched.barrier", "i32", "i32 0");
  llvm_held_set(p, h, 1, arena_copy(p->arena, &now, sizeof now));
}

/* Classes of instructions as LLVM's scheduler numbers them. */
static const struct {
  const char *name;
  int bit;
} classes[] = {
    {"ALU", 0x1},          {"VALU", 0x2},          {"SALU", 0x4},          {"MMA", 0x8},
    {"READ_GLOBAL", 0x20}, {"WRITE_GLOBAL", 0x40}, {"READ_SHARED", 0x100}, {"WRITE_SHARED", 0x200},
};

static int class_bit(const char *name) {
  for (size_t i = 0; i < WV_LEN(classes); i++)
    if (strcmp(classes[i].name, name) == 0) return classes[i].bit;
  return 0;
}

void amd_sched_barrier(Llvm *p, const Op *op) {
  const Attr *list = op_attr(op, ATTR_classes);
  int mask = 0;
  for (int i = 0; list && i < list->n; i++) mask |= class_bit(list->counts[i].name);
  llvm_call_void(p, "llvm.amdgcn.sched.barrier", "i32", arena_printf(p->arena, "i32 %d", mask));
}

void amd_sched_group(Llvm *p, const Op *op) {
  const Attr *list = op_attr(op, ATTR_classes), *sync = op_attr(op, ATTR_sync);
  int id = sync ? (int)sync->integer : 0;
  for (int i = 0; list && i < list->n; i++)
    llvm_call_void(p, "llvm.amdgcn.sched.group.barrier", "i32, i32, i32",
                   arena_printf(p->arena, "i32 %d, i32 %" PRId64 ", i32 %d",
                                class_bit(list->counts[i].name), list->counts[i].count, id));
}
