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
 * once, and have nothing else to order, if there is room for the mbarriers. All workgroups run the same stores: what each of them sends to each,
 * itself included, follows from the ranks that the stores name, thread by thread. A workgroup ends when all
 * bytes that are sent to it have arrived. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"

#define ARRIVED "wave_arrived" /* the mbarriers of exchanges */

static bool is_cluster_barrier(const Op *op) { return op_is_barrier_of(op, "cluster"); }

static bool is_own_barrier(const Op *op) {
  return op->kind == OP_workgroup_barrier || op_is_barrier_of(op, "workgroup");
}

static bool acts(const Op *op) { return op_info[op->kind].flags & (OPF_WRITES | OPF_SYNC); }

static const Op *end_of(const Op *op) {
  const Op *last = op;
  for (const Op *in = op; in && op_is_inside(in, op); in = ir_next(in)) last = in;
  return ir_next(last);
}

/* ---- the first barrier ---- */

static const Value *tensor_of(const Value *v) {
  const Value *root = v->type->kind == TYPE_mem ? memory_root(v) : NULL;
  return root && !root->def ? root : NULL;
}

/* Whether the kernel writes a tensor that this op reads. */
static bool reads_written(const Ptx *p, const Op *op) {
  if (!ptx_reads_tensor(op)) return false;
  for (const Op *w = ir_first(p->k); w; w = ir_next(w))
    for (int i = 0; ptx_writes_tensor(w) && i < w->nargs; i++)
      for (int j = 0; tensor_of(w->args[i]) && j < op->nargs; j++)
        if (tensor_of(w->args[i]) == tensor_of(op->args[j])) return true;
  return false;
}

/* Whether other workgroups can see what the op does. */
static bool is_seen(const Op *op) {
  bool writes = false;
  for (int i = 0; ptx_writes_tensor(op) && i < op->nargs; i++)
    writes |= tensor_of(op->args[i]) != NULL;
  return writes || is_cluster_barrier(op) || op_has(op, ATTR_peer) || op_has(op, ATTR_multicast) ||
         op_has(op, ATTR_volatile);
}

static const Op *scratch_of(const Value *v) {
  const Value *root = v->type->kind == TYPE_mem ? memory_root(v) : NULL;
  return root ? root->def : NULL;
}

static bool touches(const Op *op, const Op *alloc) {
  for (int i = 0; i < op->nargs; i++)
    if (alloc_overlaps(scratch_of(op->args[i]), alloc)) return true;
  return false;
}

/* Whether other workgroups access shared memory of this one that the op accesses. */
static bool touches_shared(const Ptx *p, const Op *op) {
  for (const Op *far = ir_first(p->k); far; far = ir_next(far))
    for (int i = 0; (op_has(far, ATTR_peer) || op_has(far, ATTR_multicast)) && i < far->nargs; i++)
      if (touches(op, scratch_of(far->args[i]))) return true;
  return false;
}

/* A barrier before which no workgroup does what others see, nor reads what is written later, orders no memory
 * among them: it says that all of them have started. That can be said at once, and be waited for here. New mbarriers
 * have a fence of their own. */
static const Op *find_started(const Ptx *p) {
  const Op *found = p->k->body->first;
  while (found && !is_cluster_barrier(found)) found = found->next;
  for (const Op *op = ir_first(p->k); found && op != found; op = ir_next(op)) {
    if (op->kind == OP_mbar_init) continue;
    if (is_seen(op) || reads_written(p, op) || touches_shared(p, op)) return NULL;
  }
  return found;
}

/* Whether the first barrier also says that there are mbarriers that other workgroups use. */
static bool starts_with_mbarriers(const Ptx *p) {
  for (const Op *op = ir_first(p->k); op != p->started; op = ir_next(op))
    if (op->kind == OP_mbar_init && touches_shared(p, op)) return true;
  return false;
}

static void arrive_started(Ptx *p) { ptx_line(p, "barrier.cluster.arrive.relaxed.aligned"); }

static bool conflict(const Op *a, const Op *b) {
  if (!acts(a) && !acts(b)) return false;
  for (int i = 0; i < a->nargs; i++)
    if (touches(b, scratch_of(a->args[i]))) return true;
  return false;
}

/* Whether threads of a workgroup access the same bytes before and after the barrier, without another barrier of
 * the workgroup between them. New mbarriers have a fence, which suffices if the arrival follows it. */
static bool orders_own(const Ptx *p) {
  const Op *first = p->started, *last = p->started, *end = NULL;
  bool fenced = starts_with_mbarriers(p);
  while (first->prev && !is_own_barrier(first->prev)) first = first->prev;
  while (last->next && !is_own_barrier(last->next)) last = last->next;
  end = end_of(last);
  for (const Op *a = first; a != p->started; a = ir_next(a)) {
    if (fenced && a->kind == OP_mbar_init) continue;
    for (const Op *b = p->started->next; b && b != end; b = ir_next(b))
      if (!op_has(b, ATTR_peer) && conflict(a, b)) return true;
  }
  return false;
}

/* ---- exchanges ---- */

static int peers_of(const LaunchSpec *launch) {
  int64_t peers = 1, n;
  for (int i = 0; i < 3; i++)
    if (launch->cluster[i] && sym_is_int(launch->cluster[i], &n)) peers *= n;
  return (int)peers;
}

/* The test of a store's mask; NULL: it is not known. */
static const Sym *test_of(const Ptx *p, const Op *store) {
  if (store->nargs < 4) return sym_bool(p->sym, true);
  const Op *mask = store->args[3]->def;
  bool known = mask && mask->kind == OP_expr && !mask->nargs;
  const Attr *test = known ? op_attr(mask, ATTR_expr) : NULL;
  return test ? test->sym : NULL;
}

/* Adds the bytes that this store sends to each workgroup; false: they are not known, or no instruction sends
 * them. */
static bool count_bytes(const Ptx *p, const Op *op, const LaunchSpec *launch, int64_t *to) {
  const Attr *peer = op->kind == OP_store ? op_attr(op, ATTR_peer) : NULL;
  const Sym *test = peer ? test_of(p, op) : NULL;
  const Sym *thread = ir_numbered_symbol(p->k->cx, "$T", 0, true);
  int threads = launch_threads(launch), peers = peers_of(launch);
  int64_t along, at[2];
  if (!test || !threads || !sym_is_int(launch->block[0], &along) || along != threads) return false;
  const Type *t = op->args[0]->type;
  int bits = dtype_memory_bits(t->dtype), n = t->n > 1 ? t->n : 1;
  if ((bits != 32 && bits != 64) || n * bits > 128 || (n & (n - 1))) return false;
  const Sym *both[] = {peer->sym, test};
  SymProgram *program = sym_compile(p->arena, p->sym, both, 2, &thread, 1);
  if (!program) return false;
  int64_t *scratch = ARENA_ARRAY(p->arena, int64_t, sym_program_slots(program));
  for (int64_t i = 0; i < threads; i++) {
    if (!sym_run(program, &i, scratch, at)) return false;
    if (at[1] && (at[0] < 0 || at[0] >= peers)) return false;
    if (at[1]) to[at[0]] += n * bits / 8;
  }
  return true;
}

/* All workgroups get as much, from each of them. */
static int64_t received_bytes(const LaunchSpec *launch, const int64_t *to) {
  int peers = peers_of(launch);
  for (int i = 1; i < peers; i++)
    if (to[i] != to[0]) return 0;
  return peers * to[0];
}

/* Until the bytes have arrived, nothing but this exchange touches the allocation that `store` sends to; other
 * workgroups never send anything else there. */
static bool is_used_once(const Ptx *p, const Op *store) {
  const Op *own = scratch_of(store->args[1]), *end = store;
  bool sending = false, arrived = false;
  if (!own || own->kind != OP_alloc) return false;
  while (!is_cluster_barrier(end)) end = end->next;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (is_cluster_barrier(op)) sending = op_comes_before(op, store), arrived |= op == end;
    if (!touches(op, own)) continue;
    bool sends = op_has(op, ATTR_peer);
    if (sends ? !sending || arrived || scratch_of(op->args[1]) != own : !arrived) return false;
    for (const Op *next = op; sends && next != end; next = next->next)
      if (is_cluster_barrier(next)) return false; /* of an earlier exchange */
  }
  return true;
}

/* Nothing after the exchanges is about other workgroups. */
static bool ends_quietly(const Op *last) {
  for (const Op *op = last->next; op; op = ir_next(op))
    if (op_has(op, ATTR_peer) || op_has(op, ATTR_multicast) || is_cluster_barrier(op)) return false;
  return true;
}

/* Numbers the exchanges from 1, on their stores and barriers. False: barriers are needed. */
static bool number_exchanges(Ptx *p, const LaunchSpec *launch, int *of) {
  const Op *last = p->started;
  int n = 0, barriers = 0, peers = peers_of(launch);
  int64_t *to = ARENA_ARRAY(p->arena, int64_t, peers);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) barriers += is_cluster_barrier(op);
  for (const Op *op = p->started->next; op && n < barriers - 1; op = op->next) {
    if (n >= PTX_EXCHANGES || op->body) return false;
    if (!acts(op)) continue;
    of[op->id] = n + 1;
    if (!is_cluster_barrier(op)) {
      if (!count_bytes(p, op, launch, to) || !is_used_once(p, op)) return false;
      continue;
    }
    p->sent[n++] = received_bytes(launch, to);
    memset(to, 0, sizeof *to * (size_t)peers);
    last = op;
  }
  for (int i = 0; i < n; i++)
    if (!p->sent[i]) return false;
  p->nexchanges = n;
  return n && n == barriers - 1 && ends_quietly(last) &&
         launch->shared + 8 * n <= p->target->shared_most;
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
  p->started_orders = orders_own(p);
  if (number_exchanges(p, launch, of)) {
    p->exchange = of;
    p->exchanges = false; /* nothing else does */
    open_exchanges(p);
  } else {
    p->nexchanges = 0;
  }
  if (!starts_with_mbarriers(p)) arrive_started(p);
}

/* The addresses of a store, and of the barrier at which its bytes arrive: mostly those of an earlier one. */
static const PtxPeer *peer_of(Ptx *p, const Op *op, int exchange) {
  PtxPeer to = {.rank = op_attr(op, ATTR_peer)->sym, .exchange = exchange};
  Reg address = ptx_address(p, op->args[1], op->args[2]);
  const PtxPeer *same = NULL;
  to.here = address.name;
  for (int i = 0; i < PTX_PEERS && p->to[i].rank; i++) {
    if (p->to[i].rank != to.rank || p->to[i].exchange != exchange) continue;
    same = &p->to[i];
    if (strcmp(same->here, to.here) == 0) return same;
  }
  Reg rank = ptx_expr(p, op, to.rank, DTYPE_i32, NULL);
  to.there = ptx_let(p, REG_R, "mapa.shared::cluster.u32 %s, %s", address.name, rank.name);
  if (same) to.arrived = same->arrived;
  else {
    Reg at = ptx_new(p, REG_R);
    ptx_line(p, "mov.u32 %s, " ARRIVED, at.name);
    if (exchange > 1) ptx_line(p, "add.s32 %s, %s, %d", at.name, at.name, 8 * (exchange - 1));
    to.arrived = ptx_let(p, REG_R, "mapa.shared::cluster.u32 %s, %s", at.name, rank.name);
  }
  PtxPeer *kept = &p->to[p->nto++ % PTX_PEERS];
  *kept = to;
  return kept;
}

bool ptx_send(Ptx *p, const Op *op) {
  int n = p->exchange ? p->exchange[op->id] : 0;
  if (!n) return false;
  static const char *const types[] = {
      [REG_R] = "b32", [REG_RD] = "b64", [REG_F] = "f32", [REG_FD] = "f64"};
  const Type *t = op->args[0]->type;
  const Reg *values = ptx_elems_of(p, ptx_get(p, op->args[0]));
  const char *mask = "";
  const PtxPeer *to = peer_of(p, op, n);
  int64_t at = op_imm(op, ATTR_imm) * dtype_memory_bits(t->dtype) / 8;
  if (op->nargs > 3)
    mask = arena_printf(p->arena, "@%s ", ptx_elems_of(p, ptx_get(p, op->args[3]))[0].name);
  ptx_line(p,
           "%sst.async.weak.shared::cluster.mbarrier::complete_tx::bytes%s.%s [%s+%" PRId64
           "], %s, [%s]",
           mask, ptx_vector_of(t->n), types[values[0].class], to->there.name,
           at + ptx_alloc_base(op->args[1]), ptx_list_of(p, values, t->n), to->arrived.name);
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
  else if (starts_with_mbarriers(p)) arrive_started(p);
  ptx_line(p, "barrier.cluster.wait.acquire.aligned");
  if (op == p->started && p->started_orders) ptx_line(p, "bar.sync 0");
}
