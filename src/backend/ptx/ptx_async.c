/* ptx_async.c: synchronisation: barriers, mbarriers, and asynchronous copies. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"

/* An attribute's expression: a number as it is, otherwise a 32-bit register. */
static const char *amount(Ptx *p, const Op *op, AttrKey key) {
  const Sym *s = op_attr(op, key)->sym;
  int64_t v;
  if (sym_is_int(s, &v)) return arena_printf(p->arena, "%" PRId64, v);
  return ptx_expr(p, op, s, DTYPE_i32, NULL).name;
}

static const char *pending(Ptx *p, const Op *op) {
  return arena_printf(p->arena, "%d", (int)op_attr(op, ATTR_pending)->integer);
}

const char *ptx_word(Ptx *p, const Value *v) {
  Reg r = ptx_elems_of(p, ptx_get(p, v))[0], word;
  if (r.class != REG_RD) return r.name;
  word = ptx_new(p, REG_R);
  ptx_line(p, "cvt.u32.u64 %s, %s", word.name, r.name);
  return word.name;
}

/* ---- barriers of threads ---- */

static void named_barrier(Ptx *p, const Op *op) {
  const char *how = op_has(op, ATTR_arrive) ? "arrive" : "sync";
  const char *id = arena_printf(p->arena, "%d", (int)op_attr(op, ATTR_bar)->integer);
  if (op_has(op, ATTR_member)) {
    Reg sum = ptx_new(p, REG_R);
    ptx_line(p, "add.s32 %s, %s, %s", sum.name, amount(p, op, ATTR_member), id);
    id = sum.name;
  }
  ptx_line(p, "bar.%s %s, %s", how, id, amount(p, op, ATTR_count));
}

void ptx_barrier(Ptx *p, const Op *op) {
  const Attr *mode = op_attr(op, ATTR_mode);
  const char *word = mode ? mode->text : "workgroup";
  if (op_has(op, ATTR_wait_async)) ptx_line(p, "cp.async.wait_all");
  if (strcmp(word, "wave") == 0) ptx_line(p, "bar.warp.sync 0xffffffff");
  else if (strcmp(word, "workgroup") == 0) ptx_line(p, "bar.sync 0");
  else if (strcmp(word, "named") == 0) named_barrier(p, op);
  else if (target_has(p->target, FEATURE_CLUSTER)) ptx_cluster_barrier(p, op);
  else ptx_fail(p, op, "a cluster barrier, which this machine lacks,");
}

/* All threads meet at the second half, which is stronger than required. */
void ptx_barrier_wait(Ptx *p, const Op *op) {
  const Attr *bar = op_attr(op, ATTR_bar);
  ptx_line(p, "bar.sync %d", bar && bar->integer > 0 ? (int)bar->integer % 16 : 0);
}

/* ptxas moves no access to memory across a barrier of the wave, which takes no time. In loops it is to
 * decide for itself. */
void ptx_sched_barrier(Ptx *p, const Op *op) {
  const Attr *list = op_attr(op, ATTR_classes);
  for (const Op *owner = op->parent->owner; owner; owner = owner->parent->owner)
    if (owner->kind != OP_if) return;
  if (!list || !list->n) ptx_line(p, "bar.warp.sync 0xffffffff");
}

/* A machine that cannot reallocate registers keeps those it has. */
void ptx_wave_registers(Ptx *p, const Op *op) {
  bool more = strcmp(op_attr(op, ATTR_mode)->text, "take") == 0;
  if (!target_has(p->target, FEATURE_SETMAXNREG)) return;
  p->multiplies = true; /* ptxas must know the initial number of registers */
  ptx_line(p, "setmaxnreg.%s.sync.aligned.u32 %s", more ? "inc" : "dec", amount(p, op, ATTR_count));
}

/* A machine without asynchronous copies has only one proxy. Fencing all memory waits until writes are visible to
 * the whole GPU (MEMBAR.ALL.GPU); fencing shared memory does not. */
void ptx_fence_proxy(Ptx *p, const Op *op) {
  (void)op;
  if (!target_has(p->target, FEATURE_TMA)) return;
  ptx_line(p, "fence.proxy.async%s", p->publishes ? "" : ".shared::cta");
}

/* ---- copies of a thread ---- */

/* One policy serves all copies. It is created at entry, since the first copy may be in a loop. */
void ptx_open_policy(Ptx *p) {
  for (const Op *op = ir_first(p->k); op && !p->policy.name; op = ir_next(op)) {
    bool copies = op->kind == OP_copy_async || op->kind == OP_tma_load || op->kind == OP_tma_store;
    if (!copies || !op_has(op, ATTR_nontemporal)) continue;
    p->policy = ptx_new(p, REG_RD);
    ptx_needs(p, 74);
    ptx_line(p, "createpolicy.fractional.L2::evict_first.b64 %s, 1.0", p->policy.name);
  }
}

const char *ptx_policy(Ptx *p, const Op *op) {
  return op_has(op, ATTR_nontemporal) ? arena_printf(p->arena, ", %s", p->policy.name) : "";
}

void ptx_copy_async(Ptx *p, const Op *op) {
  int64_t bytes = 0;
  sym_is_int(op_attr(op, ATTR_bytes)->sym, &bytes);
  if (op_has(op, ATTR_counted)) {
    ptx_fail(p, op, "a copy counted per wave");
    return;
  }
  const char *to = ptx_operand_at(p, op->args[0], op->args[1], op_imm(op, ATTR_imm));
  const char *from = ptx_operand_at(p, op->args[2], op->args[3], op_imm(op, ATTR_imm_from));
  const char *how = bytes == 16 ? "cg" : "ca"; /* .cg bypasses the L1 cache and supports 16 bytes
                                                * only */
  const char *size = "";
  if (op->nargs > 4) { /* a predicate would become a branch; the byte count is free */
    Reg n = ptx_new(p, REG_R);
    ptx_line(p, "selp.b32 %s, %d, 0, %s", n.name, (int)bytes,
             ptx_elems_of(p, ptx_get(p, op->args[4]))[0].name);
    size = arena_printf(p->arena, ", %s", n.name);
  }
  const char *policy = ptx_policy(p, op);
  ptx_line(p, "cp.async.%s.shared.global%s %s, %s, %d%s%s", how, *policy ? ".L2::cache_hint" : "",
           to, from, (int)bytes, size, policy);
}

void ptx_async_commit(Ptx *p, const Op *op) { (void)op, ptx_line(p, "cp.async.commit_group"); }

void ptx_async_wait(Ptx *p, const Op *op) { ptx_line(p, "cp.async.wait_group %s", pending(p, op)); }

/* ---- mbarriers ---- */

/* The fence makes a sequence of new barriers visible to asynchronous copies and to the cluster. */
void ptx_mbar_init(Ptx *p, const Op *op) {
  const char *count = amount(p, op, ATTR_count);
  ptx_line(p, "mbarrier.init.shared::cta.b64 %s, %s", ptx_operand(p, op->args[0], op->args[1]),
           count);
  if (!op->next || op->next->kind != OP_mbar_init)
    ptx_line(p, "fence.mbarrier_init.release.cluster");
}

void ptx_mbar_inval(Ptx *p, const Op *op) {
  ptx_line(p, "mbarrier.inval.shared::cta.b64 %s", ptx_operand(p, op->args[0], op->args[1]));
}

void ptx_mbar_expect(Ptx *p, const Op *op) {
  const char *bytes = amount(p, op, ATTR_bytes);
  ptx_line(p, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 %s, %s",
           ptx_operand(p, op->args[0], op->args[1]), bytes);
}

/* Whether loads of lanes may still be on their way: not if an arrival just before has waited for them. Those of
 * matrix instructions have been waited for. */
static bool may_be_reading(const Ptx *p, const Op *arrive) {
  const Op *before = arrive->prev;
  while (before && op_is_pure(before)) before = before->prev;
  bool waited = before && before->kind == OP_mbar_arrive && op_has(before, ATTR_peer);
  return p->lanes_read && !waited;
}

/* Fences for the whole cluster wait for all memory accesses of the thread, which takes longer than an
 * iteration of a GEMM. An arrival that says that a slot has been read needs only the loads to be complete. On its
 * way to another workgroup it overtakes them, as one to the own workgroup does not: a copy of the next tile
 * then replaced what ldmatrix had not read yet (H200, 24 waves that read 4 KB in an iteration). */
void ptx_mbar_arrive(Ptx *p, const Op *op) {
  bool counts = op_has(op, ATTR_bytes), remote = op_has(op, ATTR_peer);
  const char *bytes = counts ? arena_printf(p->arena, ", %s", amount(p, op, ATTR_bytes)) : "";
  const char *at = remote ? ptx_peer_operand(p, op, op->args[0], op->args[1])
                          : ptx_operand(p, op->args[0], op->args[1]);
  if (remote && !p->exchanges && may_be_reading(p, op)) ptx_line(p, "fence.acq_rel.cta");
  ptx_line(p, "mbarrier.arrive%s.release.%s.b64 _, %s%s", counts ? ".expect_tx" : "",
           remote && p->exchanges ? "cluster.shared::cluster"
           : remote               ? "cta.shared::cluster"
                                  : "cta.shared::cta",
           at, bytes);
}

void ptx_mbar_arrive_async(Ptx *p, const Op *op) {
  ptx_line(p, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 %s",
           ptx_operand(p, op->args[0], op->args[1]));
}

/* try_wait suspends the thread for a while; it is repeated until the phase is complete. */
void ptx_mbar_wait(Ptx *p, const Op *op) {
  const char *at = ptx_operand(p, op->args[0], op->args[1]), *parity = ptx_word(p, op->args[2]);
  Reg done = ptx_new(p, REG_P);
  int n = p->labels++;
  ptx_prepare_wgmma(p, op);
  ptx_label(p, "wait", n);
  ptx_line(p, "mbarrier.try_wait.parity.acquire.%s.shared::cta.b64 %s, %s, %s",
           p->exchanges ? "cluster" : "cta", done.name, at, parity);
  ptx_line(p, "@!%s bra $wait%d", done.name, n);
}
