/* sim_cluster.c: workgroups of a cluster access each other's shared memory.
 *
 * That memory exists from the start of its workgroup to its end, so every remote access must be
 * ordered after the former and before the latter. Which of the two comes first in a run is luck and is not considered: an access to a
 * workgroup that has ended, and one that no thread of the workgroup knows of when it ends, are the
 * same mistake and are reported in the same way. */
#include "backend/sim/sim_state.h"

/* The last access of a unit. */
typedef struct Remote {
  struct Remote *next;
  uint32_t unit, clock;
  const SimOp *s;
} Remote;

int cluster_size(const Sim *s) { return (int)(s->cluster[0] * s->cluster[1] * s->cluster[2]); }

/* Ranks count the first dimension fastest, like the workgroups of a gang. */
Group *cluster_peer(const Group *g, int64_t rank) {
  const Sim *s = g->waves[0].sim;
  const int64_t *size = s->talks ? s->grid : s->cluster, *first = s->gang.groups[0].id;
  if (rank < 0 || rank >= cluster_size(s)) return NULL;
  int64_t at[3], index = 0;
  for (int d = 0; d < 3; d++) {
    at[d] = g->id[d] / s->cluster[d] * s->cluster[d] + rank % s->cluster[d];
    rank /= s->cluster[d];
  }
  for (int d = 2; d >= 0; d--) index = index * size[d] + at[d] - first[d];
  return &g->gang->groups[index];
}

static void report_gone(Wave *w, const SimOp *s, const Group *peer, const char *by) {
  Sim *sim = w->sim;
  const Op *end = sim->k->body->last;
  Diag *d =
      sim_report(w, s, DIAG_E0816, end,
                 "%s accesses the shared memory of workgroup (%lld, %lld, %lld), which may have "
                 "ended: the access is not ordered before its end",
                 by, (long long)peer->id[0], (long long)peer->id[1], (long long)peer->id[2]);
  if (!d) return;
  diag_note(&sim->cx->diags, d, end->at, "the workgroup ends here");
  diag_hint(&sim->cx->diags, d, "execute `barrier cluster` before the end of the kernel");
}

/* The lane learned of something that a thread of the workgroup did. */
static bool knows_start(const Wave *w, const Group *peer, int lane) {
  const Clock *known = w->lane[lane].known;
  for (int i = 0; known && i < w->sim->units.copies; i++)
    if (known->at[sim_unit_in(peer, i)]) return true;
  return peer == w->group;
}

static void report_early(Wave *w, const SimOp *s, const Group *peer, int lane) {
  Diag *d = sim_report(w, s, DIAG_E0816, NULL,
                       "%s accesses the shared memory of workgroup (%lld, %lld, %lld), which may "
                       "not have started: nothing orders the access after its start",
                       sim_who(w, lane), (long long)peer->id[0], (long long)peer->id[1],
                       (long long)peer->id[2]);
  if (d) diag_hint(&w->sim->cx->diags, d, "execute `barrier cluster` before the first such access");
}

bool cluster_alive(Wave *w, const SimOp *s, const Group *peer, int lane) {
  if (!knows_start(w, peer, lane)) report_early(w, s, peer, lane);
  if (peer->live) return true;
  report_gone(w, s, peer, sim_who(w, lane));
  return false;
}

uint64_t cluster_homes(Wave *w, const SimOp *s, uint64_t lanes, Group **home) {
  int64_t rank[64];
  uint64_t there = 0;
  if (!wave_expr(w, s, s->peer, lanes, rank)) return 0;
  EACH_LANE(l, lanes) {
    home[l] = cluster_peer(w->group, rank[l]);
    if (!home[l])
      sim_report(w, s, DIAG_E0801, NULL,
                 "rank %lld used by %s is out of range for a cluster of %d workgroups",
                 (long long)rank[l], sim_who(w, l), cluster_size(w->sim));
    else if (cluster_alive(w, s, home[l], l)) there |= UINT64_C(1) << l;
  }
  return there;
}

void cluster_note(const Actor *a) {
  if (a->issues) return;
  Group *g = a->home;
  Arena *home = a->w->sim->gang_home;
  Remote *r = map_get(&g->remote_of, (uint64_t)a->unit + 1);
  if (!r) {
    r = ARENA_NEW(home, Remote);
    *r = (Remote){.next = g->remote, .unit = a->unit};
    g->remote = r;
    map_set(home, &g->remote_of, (uint64_t)a->unit + 1, r);
  }
  r->clock = a->clock;
  r->s = a->s;
}

/* Some thread of the workgroup knows of the access, and that thread ends later. */
static bool is_known(const Group *g, const Remote *r) {
  const Sim *s = g->waves[0].sim;
  for (int i = 0; i < s->nwaves; i++) {
    const Clock *last = NULL;
    EACH_LANE(l, g->waves[i].lanes) {
      const Clock *known = g->waves[i].lane[l].known;
      if (known && known != last && known->at[r->unit] >= r->clock) return true;
      last = known;
    }
  }
  return false;
}

void cluster_check_end(Group *g) {
  for (const Remote *r = g->remote; r; r = r->next)
    if (!is_known(g, r)) report_gone(&g->waves[0], r->s, g, "another workgroup");
}
