/* sim_flag.c: words with which threads signal each other.
 *
 * A volatile store releases and a volatile load acquires. On a real machine a load may see an old
 * value for a while, and which value it sees in a run of the simulator would be luck. So a flag
 * keeps every value that it held, and a load sees the oldest that the rules allow: the first load
 * of a lane sees the one that the lane knows of, each later one a step further. A loop that waits
 * for a flag then ends with the first value that lets it end, and acquires what was released with
 * that one and nothing else; a flag that is read once tells nothing. Neither depends on the
 * schedule. */
#include "backend/sim/sim_state.h"

typedef struct Version {
  uint64_t bits;
  Clock *released;      /* NULL: written without a release */
  uint32_t unit, clock; /* of its writer; unit UINT32_MAX: the initial value */
} Version;

struct Flag {
  Vec(Version) versions;
  Map seen; /* unit + 1 -> the version that its lane last saw, + 1 */
};

/* The address of an element in half bytes, of a family of tensors or of a workgroup's shared
 * memory. */
static uint64_t flag_key(const Actor *a, const Buffer *b, int64_t element) {
  uint64_t half =
      (uint64_t)buffer_address(b, element) * 2 + (uint64_t)(buffer_halves(b) == 1 && element & 1);
  if (b->shared) return UINT64_C(1) << 63 | (uint64_t)a->home->index << 32 | half;
  return ((uint64_t)b->family << 44) + half + (uint64_t)b->shadow_base * 2 + 1;
}

static Flag *flag_find(const Actor *a, const Buffer *b, int64_t element) {
  const Map *flags = &a->w->sim->flags;
  return flags->n ? map_get(flags, flag_key(a, b, element)) : NULL;
}

static void add_version(const Actor *a, Flag *f, uint64_t bits, Clock *released) {
  Version v = {bits, released, a->unit, a->clock};
  vec_push(a->w->sim->gang_home, &f->versions, v);
  map_set(a->w->sim->gang_home, &f->seen, (uint64_t)a->unit + 1, (void *)(uintptr_t)f->versions.n);
  a->w->sim->events++;
}

static Flag *flag_open(const Actor *a, const Buffer *b, int64_t element, uint64_t bits) {
  Sim *s = a->w->sim;
  Flag *f = flag_find(a, b, element);
  if (f) return f;
  f = ARENA_NEW(s->gang_home, Flag);
  vec_push(s->gang_home, &f->versions, ((Version){.bits = bits, .unit = UINT32_MAX}));
  map_set(s->gang_home, &s->flags, flag_key(a, b, element), f);
  return f;
}

/* The newest version that the lane must see: it knows of its writer, or saw it before. */
static int oldest_visible(const Actor *a, const Flag *f) {
  int seen = (int)(uintptr_t)map_get(&f->seen, (uint64_t)a->unit + 1) - 1;
  int at = f->versions.n - 1;
  for (; at > 0 && at > seen; at--) {
    const Version *v = &f->versions.at[at];
    if (clock_known(a->w, a->lane, v->unit) >= v->clock) break;
  }
  return at;
}

static void acquire(const Actor *a, const Version *v) {
  if (v->released) clock_acquire(a->w, UINT64_C(1) << a->lane, v->released);
}

uint64_t flag_load(const Actor *a, const Buffer *b, int64_t element, uint64_t bits) {
  Flag *f = flag_find(a, b, element);
  if (!f) return bits;
  Sim *s = a->w->sim;
  uint64_t key = (uint64_t)a->unit + 1;
  int seen = (int)(uintptr_t)map_get(&f->seen, key) - 1, at = oldest_visible(a, f);
  if (at == seen && at + 1 < f->versions.n) at++;
  if (at + 1 < f->versions.n) s->events++; /* looking again will show more */
  map_set(s->gang_home, &f->seen, key, (void *)(uintptr_t)(at + 1));
  acquire(a, &f->versions.at[at]);
  return f->versions.at[at].bits;
}

void flag_store(const Actor *a, const Buffer *b, int64_t element, uint64_t before, uint64_t after) {
  Flag *f = flag_open(a, b, element, before);
  Clock *released = clock_new(a->w->sim);
  clock_release(a->w, UINT64_C(1) << a->lane, released);
  add_version(a, f, after, released);
}

/* An ordinary store, or an atomic that does not release: what was released before passes on to
 * those that see the result of an atomic. */
void flag_change(const Actor *a, const Buffer *b, int64_t element, uint64_t after) {
  Flag *f = flag_find(a, b, element);
  if (!f) return;
  Clock *before = a->atomic ? f->versions.at[f->versions.n - 1].released : NULL;
  add_version(a, f, after, clock_keep(before));
}

/* An atomic always acts on the last version, and passes on what that released. */
void flag_atomic(const Actor *a, const Buffer *b, int64_t element, uint64_t before,
                 uint64_t after) {
  Flag *f = flag_open(a, b, element, before);
  Version last = f->versions.at[f->versions.n - 1];
  acquire(a, &last);
  flag_store(a, b, element, before, after); /* the lane has acquired what `last` released */
}
