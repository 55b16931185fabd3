/* line_search.c: which lines are allowed, and better ones: see line.h. */
#include "base/vec.h"
#include "schedule/interval/line.h"

/* ---- what is allowed ---- */

/* Iterations of the loop from the one to the other. */
static int apart_by(const Line *line, const LineNeed *n) {
  return n->distance + line->lead[n->from] - line->lead[n->to];
}

static bool is_broken(const Line *line, const LineNeed *n) {
  int apart = apart_by(line, n);
  return apart < 0 || (apart == 0 && line->place[n->from] >= line->place[n->to]);
}

/* Values of more iterations would be in registers than may be. */
static bool is_held_long(const LineProblem *p, const Line *line, const LineNeed *n) {
  int apart = apart_by(line, n);
  if (n->brief && line->lead[n->from] > line->lead[n->to] + 1) return true;
  if (!n->held || apart < p->copies) return false;
  return apart > p->copies || line->place[n->to] > line->place[n->from];
}

static void number_places(const LineProblem *p, Line *line) {
  for (int i = 0; i < p->nops; i++) line->place[line->order[i]] = i;
}

/* ---- ops that follow others ---- */

static bool has_lead(const LineOp *op) { return !op->follows && !op->passes; }

/* They are in the stage of what needs them. */
static void find_leads(const LineProblem *p, Line *line) {
  for (int op = p->nops - 1; op >= 0; op--) {
    int lead = -1;
    for (int i = 0; !has_lead(&p->ops[op]) && i < p->nneeds; i++) {
      const LineNeed *n = &p->needs[i];
      if (n->from == op && n->distance == 0 && line->lead[n->to] > lead) lead = line->lead[n->to];
    }
    if (lead >= 0) line->lead[op] = lead;
  }
}

/* The number in the order at which such an op belongs: after the last one that it needs, or before
 * the first one that needs it. */
static int place_for(const LineProblem *p, const Line *line, int count, int op, bool before) {
  int at = before ? count : 0;
  for (int i = 0; i < p->nneeds; i++) {
    const LineNeed *n = &p->needs[i];
    int other = before ? n->to : n->from;
    if ((before ? n->from : n->to) != op || other == op || apart_by(line, n) != 0) continue;
    for (int j = 0; j < count; j++) {
      if (line->order[j] != other) continue;
      if (before && j < at) at = j;
      if (!before && j + 1 > at) at = j + 1;
    }
  }
  return at;
}

static void insert(Line *line, int *count, int op, int at) {
  for (int i = (*count)++; i > at; i--) line->order[i] = line->order[i - 1];
  line->order[at] = op;
}

static void place_followers(const LineProblem *p, Line *line) {
  int count = 0;
  for (int i = 0; i < p->nops; i++)
    if (!p->ops[line->order[i]].follows) line->order[count++] = line->order[i];
  for (int op = 0; op < p->nops; op++)
    if (p->ops[op].follows && line->lead[op] == 0)
      insert(line, &count, op, place_for(p, line, count, op, false));
  for (int op = p->nops - 1; op >= 0; op--)
    if (p->ops[op].follows && line->lead[op] > 0)
      insert(line, &count, op, place_for(p, line, count, op, true));
  number_places(p, line);
}

/* ---- slots ---- */

/* The slots that a ring then has, as `stages` counts them: one for each iteration that precedes the
 * loop, and one for what is read in the last stage; where a signal says that a tile is there, two at
 * least. If `fewest`, what is stored after the last read of the iteration before needs one. */
static int slots_for(const LineProblem *p, const Line *line, int ring, bool fewest) {
  int most = 1;
  bool alone = fewest;
  for (int i = 0; i < p->ntiles; i++) {
    const LineTile *t = &p->tiles[i];
    if (t->ring != ring) continue;
    int slots = line->lead[t->fill] + (line->lead[t->read] ? 0 : 1);
    if (t->signals && slots < 2) slots = 2;
    if (slots > most) most = slots;
    alone &= t->stored && line->lead[t->fill] == 1 && !line->lead[t->read] &&
             line->place[t->fill] > line->place[t->read];
  }
  return alone ? 1 : most;
}

static int64_t bytes_of(const LineProblem *p, const Line *line) {
  int64_t sum = 0;
  for (int i = 0; i < p->nrings; i++) sum += p->rings[i].bytes * line->slots[i];
  return sum;
}

static bool find_slots(const LineProblem *p, Line *line) {
  for (int i = 0; i < p->nrings; i++) {
    line->slots[i] = slots_for(p, line, i, false);
    if (line->slots[i] > p->rings[i].most) line->slots[i] = slots_for(p, line, i, true);
    if (line->slots[i] > p->rings[i].most) return false;
  }
  for (int i = 0; i < p->nrings && bytes_of(p, line) > p->bytes; i++)
    line->slots[i] = slots_for(p, line, i, true);
  return bytes_of(p, line) <= p->bytes;
}

/* ---- barriers ---- */

/* Accesses to one slot, of which one writes: by ops at these numbers, in one iteration or, if `next`,
 * the second one in the next. */
typedef struct Meeting {
  int first, second;
  bool next;
} Meeting;

enum { MOST_MEETINGS = 64 };

typedef struct Meetings {
  Meeting at[MOST_MEETINGS];
  int n;
} Meetings;

static void add_meeting(const Line *line, Meetings *m, int first, int second, int slots) {
  int apart = line->lead[first] - line->lead[second];
  bool before = line->place[first] < line->place[second];
  if (before && apart % slots == 0 && m->n < MOST_MEETINGS)
    m->at[m->n++] = (Meeting){line->place[first], line->place[second], false};
  if ((apart - 1) % slots == 0 && m->n < MOST_MEETINGS)
    m->at[m->n++] = (Meeting){line->place[first], line->place[second], true};
}

/* Those within an iteration first, each by their second access. */
static void sort_meetings(Meetings *m) {
  for (int i = 1; i < m->n; i++) {
    Meeting x = m->at[i];
    int j = i;
    for (; j > 0 && (m->at[j - 1].next > x.next ||
                     (m->at[j - 1].next == x.next && m->at[j - 1].second > x.second));
         j--)
      m->at[j] = m->at[j - 1];
    m->at[j] = x;
  }
}

static bool is_parted(const Line *line, int n, const Meeting *m) {
  int steps = m->second - m->first + (m->next ? n : 0);
  for (int i = 1; i <= steps && i <= n; i++)
    if (line->met[(m->first + i) % n]) return true;
  return false;
}

static bool are_parted(const Line *line, int n, const Meetings *m) {
  for (int i = 0; i < m->n; i++)
    if (!is_parted(line, n, &m->at[i])) return false;
  return true;
}

/* As `sync` does it: before the second access where there is none yet; then those that are not needed
 * are removed. */
static void find_barriers(const LineProblem *p, Line *line) {
  Meetings m = {.n = 0};
  for (int i = 0; i < p->ntiles; i++) {
    const LineTile *t = &p->tiles[i];
    int slots = t->ring < 0 ? 1 : line->slots[t->ring];
    if (!t->signals) add_meeting(line, &m, t->fill, t->read, slots);
    add_meeting(line, &m, t->read, t->fill, slots);
  }
  for (int i = 0; i < p->nops; i++) line->met[i] = false;
  sort_meetings(&m);
  for (int i = 0; i < m.n; i++)
    if (!is_parted(line, p->nops, &m.at[i])) line->met[m.at[i].second] = true;
  for (int at = 0; at < p->nops; at++) {
    if (!line->met[at]) continue;
    line->met[at] = false;
    line->met[at] = !are_parted(line, p->nops, &m);
  }
}

/* ---- waits ---- */

/* The most iterations ahead for which a tile of the ring is read. */
static int lead_of_reads(const LineProblem *p, const Line *line, int ring) {
  int lead = 0;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tiles[i].ring == ring && line->lead[p->tiles[i].read] > lead)
      lead = line->lead[p->tiles[i].read];
  return lead;
}

/* Boxes of as many slots arrive together, so that all are awaited when the first of them is read. */
static int awaited_lead(const LineProblem *p, const Line *line, const LineTile *t) {
  int lead = lead_of_reads(p, line, t->ring);
  for (int i = 0; i < p->ntiles; i++) {
    const LineTile *o = &p->tiles[i];
    if (!o->signals || line->slots[o->ring] != line->slots[t->ring]) continue;
    int other = lead_of_reads(p, line, o->ring);
    if (other > lead && other < line->lead[t->fill]) lead = other;
  }
  return lead;
}

/* What is read in the last stage is awaited at the begin of an iteration. */
static void find_waits(const LineProblem *p, Line *line) {
  for (int i = 0; i < p->ntiles; i++) {
    const LineTile *t = &p->tiles[i];
    if (!t->signals || t->ring < 0) continue;
    int lead = awaited_lead(p, line, t), first = lead ? p->nops : 0;
    for (int j = 0; j < p->ntiles; j++) {
      const LineTile *o = &p->tiles[j];
      if (!o->signals || line->slots[o->ring] != line->slots[t->ring]) continue;
      if (line->lead[o->read] == lead && line->place[o->read] < first) first = line->place[o->read];
    }
    line->wait[i] = first % p->nops, line->whose[i] = lead;
  }
}

/* Iterations from a copy that is grouped to what reads it; INT32_MAX: it is not. */
static int slack_of(const LineProblem *p, const Line *line, const LineTile *t) {
  return p->ops[t->fill].grouped ? line->lead[t->fill] - line->lead[t->read] : INT32_MAX;
}

/* Copies are awaited when the first of them is needed, up to the last that is needed then. */
static void find_slack(const LineProblem *p, Line *line) {
  line->slack = INT32_MAX, line->closed = -1;
  for (int i = 0; i < p->ntiles; i++) {
    int ahead = slack_of(p, line, &p->tiles[i]);
    if (ahead < line->slack) line->slack = ahead;
  }
  if (line->slack < 1) line->slack = 1;
  for (int i = 0; i < p->ntiles; i++) {
    int place = line->place[p->tiles[i].fill];
    if (slack_of(p, line, &p->tiles[i]) <= line->slack && place > line->closed)
      line->closed = place;
  }
}

bool line_arrange(const LineProblem *p, Line *line) {
  find_leads(p, line);
  place_followers(p, line);
  for (int i = 0; i < p->nops; i++)
    if (line->lead[i] < 0 || line->lead[i] >= p->depth || (p->ops[i].last && line->lead[i]))
      return false;
  for (int i = 0; i < p->nneeds; i++)
    if (is_broken(line, &p->needs[i]) || is_held_long(p, line, &p->needs[i])) return false;
  if (!find_slots(p, line)) return false;
  if (!p->served) find_barriers(p, line);
  if (p->boxes) find_waits(p, line);
  if (p->groups) find_slack(p, line);
  return true;
}

/* ---- better lines ---- */

enum {
  SLACK = 10,       /* a line may be longer than the best one by this share of it, */
  SLACK_EACH = 2,   /* and by less in loops with many ops, of which fewer lines are timed */
  TRIES = 16,       /* changes for each line that is timed: some are not allowed */
  KINDS = 5,        /* of changes: one in so many is of the rarest kind */
  MOST_FAILED = 3,  /* in a row, for each op */
  MOST_SEEN = 1024, /* lines that are remembered */
  CLOSE = 128,      /* a line that is longer than the goal by this share of it may be the best: */
  FEW = 4           /* then this share of all lines is timed */
};

typedef struct Climb {
  const LineProblem *p;
  Line now, next;
  uint64_t state;
  uint64_t *seen; /* hashes of lines that were timed */
} Climb;

static int below(Climb *c, int n) {
  c->state = c->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((c->state >> 33) % (uint64_t)n);
}

/* Ops that need what was moved go with it, or those that it needs. */
bool line_repair(const LineProblem *p, Line *line, bool later) {
  for (int round = 0; round < 2 * p->nops; round++) {
    bool broken = false;
    for (int i = 0; i < p->nneeds; i++) {
      const LineNeed *n = &p->needs[i];
      if (!is_broken(line, n) || n->from == n->to) continue;
      broken = true;
      if (later) line->lead[n->to]--;
      else line->lead[n->from]++;
      if (line->lead[n->to] < 0 || line->lead[n->from] >= p->depth) return false;
    }
    if (!broken) return true;
  }
  return false;
}

static void move_op(const LineProblem *p, Line *line, int op, int to) {
  int from = line->place[op];
  for (int i = from; i < to; i++) line->order[i] = line->order[i + 1];
  for (int i = from; i > to; i--) line->order[i] = line->order[i - 1];
  line->order[to] = op;
  number_places(p, line);
}

/* If all ops are early, none is. */
static void lower(const LineProblem *p, Line *line) {
  int least = INT32_MAX;
  for (int i = 0; i < p->nops; i++)
    if (line->lead[i] < least) least = line->lead[i];
  for (int i = 0; i < p->nops; i++) line->lead[i] -= least;
}

/* An op before which waves wait, those before which they wait longer more often; -1: none. */
static int stalled_op(Climb *c) {
  int64_t sum = 0;
  for (int i = 0; i < c->p->nops; i++) sum += c->now.stall[i];
  if (!sum) return -1;
  int64_t at = below(c, sum < INT32_MAX ? (int)sum : INT32_MAX);
  for (int i = 0; i < c->p->nops; i++)
    if ((at -= c->now.stall[i]) < 0) return i;
  return -1;
}

/* Something else is done while waves wait: the op comes later, or what it waits for earlier. */
static bool move_stalled(Climb *c, bool *later) {
  const LineProblem *p = c->p;
  int op = stalled_op(c), blocker = op < 0 ? -1 : c->now.blocker[op], kind = below(c, 3);
  if (op < 0) return false;
  *later = kind == 0;
  if (kind == 0 || blocker < 0) {
    int after = p->nops - 1 - c->next.place[op];
    if (p->ops[op].follows || !after) return false;
    move_op(p, &c->next, op, c->next.place[op] + 1 + below(c, after));
  } else if (p->ops[blocker].follows || (kind == 1 && !has_lead(&p->ops[blocker]))) {
    return false;
  } else if (kind == 1) {
    c->next.lead[blocker]++;
  } else if (c->next.place[blocker]) {
    move_op(p, &c->next, blocker, below(c, c->next.place[blocker]));
  }
  return true;
}

/* Moves some op to another place, another stage or both. */
static bool move_any(Climb *c, bool *later) {
  const LineProblem *p = c->p;
  int op = below(c, p->nops), kind = below(c, 4);
  *later = below(c, 2);
  if (p->ops[op].follows) return false;
  if (!has_lead(&p->ops[op])) kind = 1;
  if (kind != 0) move_op(p, &c->next, op, below(c, p->nops));
  if (kind == 0 || kind == 3) c->next.lead[op] += *later ? -1 : 1;
  return c->next.lead[op] >= 0;
}

/* Whether the line was timed before; now it was. */
static bool is_seen(Climb *c, const Line *line) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (int i = 0; i < c->p->nops; i++)
    hash = (hash ^ (uint64_t)(line->order[i] * 64 + line->lead[line->order[i]])) *
           UINT64_C(1099511628211);
  uint64_t *at = &c->seen[(hash >> 20) % MOST_SEEN];
  bool seen = *at == hash;
  *at = hash;
  return seen;
}

/* What an iteration begins with is what the one before ends with, an iteration earlier: the same program, of
 * which waits and slots may differ. */
static bool rotate(Climb *c, bool *later) {
  const LineProblem *p = c->p;
  *later = below(c, 2);
  int op = c->next.order[*later ? p->nops - 1 : 0];
  if (!has_lead(&p->ops[op])) return false;
  move_op(p, &c->next, op, *later ? 0 : p->nops - 1);
  c->next.lead[op] += *later ? -1 : 1;
  return c->next.lead[op] >= 0;
}

static bool change(Climb *c) {
  const LineProblem *p = c->p;
  bool later;
  int kind = below(c, KINDS);
  line_copy(p, &c->next, &c->now);
  bool moved = kind == 0       ? rotate(c, &later)
               : kind % 2 == 1 ? move_stalled(c, &later)
                               : move_any(c, &later);
  if (!moved || !line_repair(p, &c->next, later)) return false;
  lower(p, &c->next);
  return line_arrange(p, &c->next) && !is_seen(c, &c->next);
}

static int depth_of(const LineProblem *p, const Line *line) {
  int most = 0;
  for (int i = 0; i < p->nops; i++)
    if (line->lead[i] > most) most = line->lead[i];
  return most;
}

/* Registers that there are not. */
static int64_t over_of(const LineProblem *p, const Line *line) {
  const HeldValues *h = &p->p->held;
  int64_t over = h->most ? line->registers + h->spare - h->most : 0;
  return over > 0 ? over : 0;
}

/* What is as long may lead to something shorter: it is taken if it needs no more. */
bool line_is_better(const LineProblem *p, const Line *a, const Line *b) {
  if (over_of(p, a) != over_of(p, b)) return over_of(p, a) < over_of(p, b);
  if (a->cycles != b->cycles) return a->cycles < b->cycles;
  return a->registers + 16 * depth_of(p, a) <= b->registers + 16 * depth_of(p, b);
}

bool line_is_good(const LineProblem *p, const Line *line, int64_t goal) {
  return line->cycles <= goal && !over_of(p, line);
}

/* Whether it may be the best so far, so that an estimate does not suffice. */
static bool is_shorter(const LineProblem *p, const Line *next, const Line *best) {
  if (next->cycles == PATHS_NEVER) return false;
  return next->cycles < best->cycles || over_of(p, next) < over_of(p, best);
}

/* The longest line that the present one may be followed by: longer than the best one, less so towards the
 * end. */
static int64_t allowed_at(const Line *best, int nops, int step, int steps) {
  return best->cycles + best->cycles / (SLACK + SLACK_EACH * nops) * (steps - step) / steps;
}

/* If all lines nearby were timed, continues from the best one, in another order. */
static void begin_again(Climb *c, const Line *best) {
  line_copy(c->p, &c->now, best);
  for (int i = 0; i < MOST_SEEN; i++) c->seen[i] = 0;
}

void line_improve(Arena *a, LineRun *r, Line *line, int64_t goal, int steps) {
  const LineProblem *p = line_problem(r);
  Climb c = {.p = p, .now = line_new(a, p), .next = line_new(a, p), .state = 1};
  c.seen = ARENA_ARRAY(a, uint64_t, MOST_SEEN);
  line_copy(p, &c.now, line);
  int most = steps;
  for (int i = 0, tries = 0, failed = 0; i < steps && tries < TRIES * steps; tries++) {
    if (line_is_good(p, line, goal)) return;
    if (line_is_good(p, line, goal + goal / CLOSE) && steps > i + most / FEW)
      steps = i + most / FEW;
    if (!change(&c)) {
      if (++failed % (MOST_FAILED * p->nops) == 0) begin_again(&c, line);
      continue;
    }
    failed = 0;
    int64_t allowed = allowed_at(line, p->nops, ++i, steps);
    int64_t longest = allowed > c.now.cycles ? allowed : c.now.cycles;
    line_time_from(r, &c.next, &c.now, longest);
    if (is_shorter(p, &c.next, line)) line_time(r, &c.next, longest);
    bool fits = c.next.cycles <= allowed && over_of(p, &c.next) <= over_of(p, &c.now);
    if (fits || (c.next.cycles != PATHS_NEVER && line_is_better(p, &c.next, &c.now)))
      line_copy(p, &c.now, &c.next);
    if (line_is_better(p, &c.now, line)) line_copy(p, line, &c.now);
  }
}
