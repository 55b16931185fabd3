/* cpu_gang.c: see cpu_gang.h. */
#define _GNU_SOURCE
#include "runtime/cpu/cpu_gang.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

bool cpu_gang_open(CpuGang *g, CpuOrders *orders, int groups, int waves) {
  int members = groups * waves;
  *g = (CpuGang){.orders = orders, .members = members, .waves = waves, .live = members};
  g->member = calloc((size_t)members, sizeof *g->member);
  g->barrier = calloc((size_t)groups, sizeof *g->barrier);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->moved, NULL);
  if (g->member && g->barrier) return true;
  cpu_gang_close(g);
  return false;
}

void cpu_gang_close(CpuGang *g) {
  pthread_cond_destroy(&g->moved);
  pthread_mutex_destroy(&g->lock);
  free(g->member);
  free(g->barrier);
}

void cpu_gang_again(CpuGang *g) {
  memset(g->member, 0, (size_t)g->members * sizeof *g->member);
  memset(g->barrier, 0, (size_t)(g->members / g->waves) * sizeof *g->barrier);
  g->live = g->members;
  g->meeting = g->agreed = 0;
}

static bool is_stopped(const CpuGang *g) { return atomic_load(&g->orders->stop) != 0; }

/* ---- deadlock: under the lock ---- */

/* What a member did before it stopped running may matter to all members that are still. */
static void something_happened(CpuGang *g) {
  g->events++;
  g->agreed = 0;
  for (int i = 0; i < g->members; i++) g->member[i].agreed = false;
}

/* Reports the wait of the first waiting member, so that the result is deterministic. */
static void stop_if_stuck(CpuGang *g) {
  if (g->live == 0 || g->agreed + g->meeting < g->live) return;
  const CpuMember *m = g->member;
  while (m->state == MEMBER_ENDED) m++;
  cpu_orders_stop(g->orders, CPU_STUCK + m->wait);
  pthread_cond_broadcast(&g->moved);
}

static void stop_running(CpuGang *g, CpuMember *m, CpuMemberState state, int wait) {
  m->state = state;
  m->wait = wait;
  something_happened(g);
}

void cpu_gang_leave(CpuGang *g, int member) {
  pthread_mutex_lock(&g->lock);
  stop_running(g, &g->member[member], MEMBER_ENDED, 0);
  g->live--;
  stop_if_stuck(g);
  pthread_mutex_unlock(&g->lock);
}

void cpu_gang_wake(CpuGang *g) {
  pthread_mutex_lock(&g->lock);
  pthread_cond_broadcast(&g->moved);
  pthread_mutex_unlock(&g->lock);
}

/* ---- waiting for memory ---- */

/* An iteration that began after the last event and changed nothing. */
static void agree(CpuGang *g, CpuMember *m) {
  if (m->since == g->events && !m->agreed) m->agreed = true, g->agreed++;
  m->since = g->events;
}

int cpu_watch_wait(CpuWatch *w, int changed, int wait) {
  CpuGang *g = w->gang;
  if (!g) return changed ? CPU_DONE : CPU_STUCK + wait; /* there are no other members */
  CpuMember *m = &g->member[w->member];
  if (!changed || m->state == MEMBER_IS_STILL) {
    pthread_mutex_lock(&g->lock);
    if (changed) m->state = MEMBER_RUNS, something_happened(g);
    else if (m->state == MEMBER_RUNS) stop_running(g, m, MEMBER_IS_STILL, wait);
    else m->wait = wait;
    if (!changed) agree(g, m);
    stop_if_stuck(g);
    pthread_mutex_unlock(&g->lock);
  }
  sched_yield(); /* let the others run, since they must change it */
  return is_stopped(g) ? CPU_GIVEN_UP : CPU_DONE;
}

/* ---- barriers ---- */

static void complete(CpuGang *g, CpuBarrier *b) {
  g->meeting -= b->asleep; /* they run from now on, whenever they notice */
  b->arrived = b->asleep = 0;
  b->turn++;
  pthread_cond_broadcast(&g->moved);
}

static void sleep_at(CpuGang *g, CpuMember *m, CpuBarrier *b, int wait) {
  uint64_t turn = b->turn;
  stop_running(g, m, MEMBER_MEETS, wait);
  g->meeting++;
  b->asleep++;
  stop_if_stuck(g);
  while (b->turn == turn && !is_stopped(g)) pthread_cond_wait(&g->moved, &g->lock);
  m->state = MEMBER_RUNS;
}

int cpu_watch_meet(CpuWatch *w, int bar, int members, int arrive, int wait) {
  CpuGang *g = w->gang;
  if (!g || members < 2) return CPU_DONE;
  CpuMember *m = &g->member[w->member];
  pthread_mutex_lock(&g->lock);
  CpuBarrier *b = &g->barrier[w->member / g->waves][(unsigned)bar % CPU_BARRIERS];
  b->arrived++;
  if (b->arrived == members) complete(g, b);
  else if (!arrive) sleep_at(g, m, b, wait);
  pthread_mutex_unlock(&g->lock);
  return is_stopped(g) ? CPU_GIVEN_UP : CPU_DONE;
}
