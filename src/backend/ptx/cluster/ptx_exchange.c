/* ptx_exchange.c: barriers of clusters, and values that their workgroups exchange.
 *
 *     barrier cluster                           barrier.cluster.wait
 *     store %x, %s, %i, %m {peer = lane}   =>   st.async: %x to the peer, and its bytes to an mbarrier there
 *     barrier cluster                           mbarrier.try_wait
 *     %y = load %s, %j
 *
 * A barrier of the cluster that orders memory waits until all writes are visible to the whole GPU. Bytes
 * that arrive at an mbarrier are visible to the threads that wait for it, and these wait for nothing else.
 *
 * That is for kernels in which workgroups exchange values outside loops, through allocations that are used
 * once, and have nothing else to order. Every wave sends the same number of bytes to every workgroup, this
 * one included. A workgroup ends when all bytes that are sent to it have arrived. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"

#define ARRIVED "wave_arrived" /* the mbarriers of exchanges */

static bool is_cluster_barrier(const Op *op) {
  const Attr *mode = op->kind == OP_barrier ? op_attr(op, ATTR_mode) : NULL;
  return mode && strcmp(mode->text, "cluster") == 0;
}

static bool acts(const Op *op) { return op_info[op->kind].flags & (OPF_WRITES | OPF_SYNC); }

/* ---- the first barrier ---- */

/* Whether the kernel writes memory that this op reads. */
static bool reads_written(const Ptx *p, const Op *op) {
  if (!(op_info[op->kind].flags & OPF_READS)) return false;
  for (const Op *w = ir_first(p->k); w; w = ir_next(w))
    for (int i = 0; op_info[w->kind].flags & OPF_WRITES && i < w->nargs; i++)
      for (int j = 0; j < op->nargs; j++)
        if (w->args[i]->type->kind == TYPE_mem && op->args[j]->type->kind == TYPE_mem &&
            memory_root(w->args[i]) == memory_root(op->args[j]))
          return true;
  return false;
}

/* A barrier before which nothing is written, nor read that is written later, orders no memory: it says
 * that all workgroups of the cluster have started. That can be said at once, and be waited for here, while
 * loads are in flight. */
static const Op *find_started(const Ptx *p) {
  for (const Op *op = p->k->body->first; op; op = op->next) {
    if (is_cluster_barrier(op)) return op;
    if (op->body || acts(op) || reads_written(p, op)) return NULL;
  }
  return NULL;
}

/* ---- exchanges ---- */

/* Bytes that this store sends to each workgroup; 0: it is not one by a lane of each wave for each
 * workgroup. */
static int64_t sent_bytes(const Ptx *p, const Op *op, const LaunchSpec *launch) {
  SymCtx *cx = p->sym;
  const Attr *peer = op->kind == OP_store ? op_attr(op, ATTR_peer) : NULL;
  int64_t peers = 1, n, threads;
  for (int i = 0; i < 3; i++)
    if (launch->cluster[i] && sym_is_int(launch->cluster[i], &n)) peers *= n;
  if (!peer || op->nargs != 4 || !sym_is_int(launch->block[0], &threads)) return 0;
  for (int i = 1; i < 3; i++)
    if (launch->block[i] && !(sym_is_int(launch->block[i], &n) && n == 1)) return 0;
  const Sym *thread = ir_numbered_symbol(p->k->cx, "$T", 0, true);
  const Sym *lane = sym_mod(cx, thread, sym_int(cx, launch->lanes));
  const Op *mask = op->args[3]->def;
  const Attr *test = mask && mask->kind == OP_expr ? op_attr(mask, ATTR_expr) : NULL;
  if (peer->sym != lane || !test || test->sym != sym_lt(cx, lane, sym_int(cx, peers))) return 0;
  const Type *t = op->args[0]->type;
  int bits = dtype_memory_bits(t->dtype);
  if (t->n > 1 || (bits != 32 && bits != 64) || threads % launch->lanes) return 0;
  return peers * (threads / launch->lanes) * bits / 8;
}

/* The allocation that `store` sends to is that of no other exchange. */
static bool is_used_once(const Ptx *p, const Op *store, const Op *begin) {
  const Op *own = memory_root(store->args[1])->def;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    bool other = op->kind == OP_alloc && op != own && alloc_overlaps(op, own);
    if (!own || own->kind != OP_alloc || other) return false;
  }
  for (const Op *op = begin; op != store; op = op->next)
    if (is_cluster_barrier(op))
      for (const Op *before = begin; before != op; before = before->next)
        if (op_has(before, ATTR_peer) && memory_root(before->args[1])->def == own) return false;
  return true;
}

/* Nothing after the exchanges writes shared memory. */
static bool ends_quietly(const Op *last) {
  for (const Op *op = last->next; op; op = op->next) {
    bool writes = op_info[op->kind].flags & OPF_WRITES;
    if (op_has(op, ATTR_peer) || is_cluster_barrier(op)) return false;
    for (int i = 0; writes && i < op->nargs; i++)
      if (op->args[i]->type->kind == TYPE_mem && memory_is_scratch(memory_root(op->args[i])))
        return false;
    if (op->body) return false;
  }
  return true;
}

/* Numbers the exchanges from 1, on their stores and barriers. False: barriers are needed. */
static bool number_exchanges(Ptx *p, const LaunchSpec *launch, int *of) {
  const Op *last = p->started;
  int n = 0, barriers = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) barriers += is_cluster_barrier(op);
  for (const Op *op = p->started->next; op && n < barriers - 1; op = op->next) {
    if (n >= PTX_EXCHANGES || op->body) return false;
    if (!acts(op)) continue;
    int64_t bytes = sent_bytes(p, op, launch);
    of[op->id] = n + 1;
    if (is_cluster_barrier(op)) last = op, n++;
    else if (!bytes || !is_used_once(p, op, p->started)) return false;
    p->sent[n - is_cluster_barrier(op)] += bytes;
  }
  for (int i = 0; i < n; i++)
    if (!p->sent[i]) return false;
  p->nexchanges = n;
  return n && n == barriers - 1 && ends_quietly(last);
}

/* New mbarriers, which expect what all waves of the cluster send. */
static void open_exchanges(Ptx *p) {
  Reg first = ptx_new(p, REG_P), thread = ptx_new(p, REG_R);
  ptx_needs(p, 81);
  ptx_line(p, "mov.u32 %s, %%tid.x", thread.name);
  ptx_line(p, "setp.eq.s32 %s, %s, 0", first.name, thread.name);
  for (int i = 0; i < p->nexchanges; i++)
    ptx_line(p, "@%s mbarrier.init.shared::cta.b64 [" ARRIVED "+%d], 1", first.name, 8 * i);
  ptx_line(p, "fence.mbarrier_init.release.cluster");
  for (int i = 0; i < p->nexchanges; i++)
    ptx_line(p, "@%s mbarrier.arrive.expect_tx.shared::cta.b64 _, [" ARRIVED "+%d], %" PRId64,
             first.name, 8 * i, p->sent[i]);
}

void ptx_find_exchanges(Ptx *p, const LaunchSpec *launch) {
  int *of = ARENA_ARRAY(p->arena, int, p->k->nops);
  if (!p->clustered || !(p->started = find_started(p))) return;
  if (number_exchanges(p, launch, of)) {
    p->exchange = of;
    open_exchanges(p);
  } else {
    p->nexchanges = 0;
  }
  ptx_line(p, "barrier.cluster.arrive.relaxed.aligned");
}

bool ptx_send(Ptx *p, const Op *op) {
  int n = p->exchange ? p->exchange[op->id] : 0;
  if (!n) return false;
  Reg value = ptx_elems_of(p, ptx_get(p, op->args[0]))[0], at = ptx_new(p, REG_R);
  Reg rank = ptx_expr(p, op, op_attr(op, ATTR_peer)->sym, DTYPE_i32, NULL);
  const char *to = ptx_peer_access(p, op), *mask = ptx_elems_of(p, ptx_get(p, op->args[3]))[0].name;
  static const char *const types[] = {
      [REG_R] = "b32", [REG_RD] = "b64", [REG_F] = "f32", [REG_FD] = "f64"};
  ptx_line(p, "mov.u32 %s, " ARRIVED, at.name);
  if (n > 1) ptx_line(p, "add.s32 %s, %s, %d", at.name, at.name, 8 * (n - 1));
  ptx_line(p, "mapa.shared::cluster.u32 %s, %s, %s", at.name, at.name, rank.name);
  ptx_line(p, "@%s st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.%s %s, %s, [%s]",
           mask, types[value.class], to, value.name, at.name);
  return true;
}

static void wait_for_bytes(Ptx *p, int n) {
  Reg done = ptx_new(p, REG_P);
  int label = p->labels++;
  ptx_label(p, "wait", label);
  ptx_line(p, "mbarrier.try_wait.parity.shared::cta.b64 %s, [" ARRIVED "+%d], 0", done.name,
           8 * (n - 1));
  ptx_line(p, "@!%s bra $wait%d", done.name, label);
}

void ptx_cluster_barrier(Ptx *p, const Op *op) {
  int n = p->exchange ? p->exchange[op->id] : 0;
  if (n) {
    wait_for_bytes(p, n);
    return;
  }
  if (op != p->started) ptx_line(p, "barrier.cluster.arrive.release.aligned");
  ptx_line(p, "barrier.cluster.wait.acquire.aligned");
}
