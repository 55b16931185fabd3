/* loops_read.c: instructions as names and branches, and the loops that they form.
 *
 * A loop is a set of instructions each of which can reach all others. One cycle at least of such a
 * set goes backwards, so the targets of backward branches are tried. Loops inside a loop are found
 * in the same way after the edges to its header are cut; this also works for loops that are entered
 * in the middle. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "isa/loops/loops.h"

enum { MOST_LOOPS = 4096 }; /* each costs time proportional to the size of the kernel */

/* ---- instructions ---- */

static const struct {
  const char *prefix;
  LoopKind kind;
} kinds[] = {
#define KIND(prefix, kind) {prefix, LOOP_##kind},
#include "isa/loops/loops.def"
};

static bool begins(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static LoopKind kind_of(const char *text) {
  size_t i = 0;
  while (!begins(text, kinds[i].prefix)) i++; /* the last row is for all */
  return kinds[i].kind;
}

static int name_length(const char *text) {
  static const char *const suffixes[] = {"_e32", "_e64", "_dpp", "_sdwa"};
  size_t n = strcspn(text, " \t");
  for (size_t i = 0; i < WV_LEN(suffixes); i++) {
    size_t length = strlen(suffixes[i]);
    if (n > length && strncmp(text + n - length, suffixes[i], length) == 0)
      return (int)(n - length);
  }
  return (int)n;
}

static bool is_jump(const char *text) {
  return begins(text, "s_branch ") || begins(text, "s_cbranch_");
}

static bool is_end(const char *text) {
  return begins(text, "s_endpgm") || begins(text, "s_setpc") || begins(text, "s_branch ") ||
         begins(text, "s_rfe");
}

typedef struct Reader {
  Arena *arena;
  const IsaImage *image;
  Vec(LoopInstr) code;
  int *index;         /* of the instruction at each word of the kernel; -1: none begins there */
  int *from, *sister; /* branches to an instruction, as lists: the first one, and the next; -1 */
  bool *mark[2];      /* reached forwards, backwards */
  bool *cut;          /* edges to this instruction are ignored */
  int *stack;
  Vec(LoopRange) loops;
  const char *error;
  uint64_t pc;
} Reader;

static bool fail(Reader *r, uint64_t pc, const char *error) {
  return r->pc = pc, r->error = error, false;
}

static void disassemble_all(Reader *r, IsaDisassemble *next, void *user) {
  char text[256];
  const IsaImage *image = r->image;
  for (size_t at = 0; at + 4 <= image->bytes;) {
    size_t size = next(user, image->code + at, image->bytes - at, at, text, sizeof text);
    LoopInstr i = {.kind = LOOP_OTHER, .pc = (uint32_t)at, .target = -1, .loop = -1, .ends = !size};
    if (size) {
      i.text = arena_strdup(r->arena, text + strspn(text, " \t"));
      i.kind = kind_of(i.text), i.name = name_length(i.text), i.ends = is_end(i.text);
    }
    r->index[at / 4] = r->code.n;
    vec_push(r->arena, &r->code, i);
    at += size ? size : 4;
  }
}

/* Branches name how many words to skip, as 16 bits. */
static void link_branches(Reader *r) {
  for (int n = 0; n < r->code.n; n++) {
    LoopInstr *i = &r->code.at[n];
    if (!i->text || !is_jump(i->text)) continue;
    const char *operand = i->text + strcspn(i->text, " ");
    int64_t to = i->pc + 4 + 4 * (int64_t)(int16_t)strtol(operand, NULL, 0);
    bool inside = to >= 0 && to + 4 <= (int64_t)r->image->bytes;
    i->target = inside ? r->index[to / 4] : -1;
    if (i->target < 0) continue; /* an error if it is reached */
    r->sister[n] = r->from[i->target], r->from[i->target] = n;
  }
}

/* ---- reaching ---- */

/* Marks `i` if it is in the loop. */
static void reach(Reader *r, bool *mark, int i, int loop, int *depth) {
  if (mark[i] || r->code.at[i].loop != loop) return;
  mark[i] = true;
  r->stack[(*depth)++] = i;
}

static void flood_forwards(Reader *r, int from, int loop) {
  bool *mark = memset(r->mark[0], 0, (size_t)r->code.n);
  int depth = 0;
  reach(r, mark, from, loop, &depth);
  while (depth) {
    int i = r->stack[--depth], to = r->code.at[i].target;
    if (to >= 0 && !r->cut[to]) reach(r, mark, to, loop, &depth);
    if (!r->code.at[i].ends && i + 1 < r->code.n && !r->cut[i + 1])
      reach(r, mark, i + 1, loop, &depth);
  }
}

static void flood_backwards(Reader *r, int from, int loop) {
  bool *mark = memset(r->mark[1], 0, (size_t)r->code.n);
  int depth = 0;
  reach(r, mark, from, loop, &depth);
  while (depth) {
    int i = r->stack[--depth];
    if (r->cut[i]) continue;
    for (int b = r->from[i]; b >= 0; b = r->sister[b]) reach(r, mark, b, loop, &depth);
    if (i && !r->code.at[i - 1].ends) reach(r, mark, i - 1, loop, &depth);
  }
}

/* What is executed must be instructions, and branches must lead to some. */
static bool check_reached(Reader *r) {
  flood_forwards(r, 0, -1);
  for (int n = 0; n < r->code.n; n++) {
    const LoopInstr *i = &r->code.at[n];
    if (!r->mark[0][n]) continue;
    if (!i->text) return fail(r, i->pc, "not an instruction");
    if (is_jump(i->text) && i->target < 0) return fail(r, i->pc, "a branch out of the kernel");
    if (n + 1 == r->code.n && !i->ends) return fail(r, i->pc, "the kernel does not end here");
  }
  return true;
}

/* ---- loops ---- */

static bool is_member(const Reader *r, int i) { return r->mark[0][i] && r->mark[1][i]; }

/* Is it entered from outside the marked instructions? */
static bool is_entered(const Reader *r, int i) {
  for (int b = r->from[i]; b >= 0; b = r->sister[b])
    if (!is_member(r, b)) return true;
  return i && !r->code.at[i - 1].ends && !is_member(r, i - 1);
}

static void add_loop(Reader *r, int parent, int target) {
  int id = r->loops.n, header = -1, last = target;
  uint32_t first = r->code.at[target].pc;
  for (int i = 0; i < r->code.n; i++) {
    if (!is_member(r, i)) continue;
    if (r->code.at[i].pc < first) first = r->code.at[i].pc;
    if (header < 0 && is_entered(r, i)) header = i;
    last = i;
  }
  for (int i = 0; i < r->code.n; i++)
    if (is_member(r, i)) r->code.at[i].loop = id;
  header = header < 0 ? target : header;
  r->cut[header] = true;
  vec_push(r->arena, &r->loops, ((LoopRange){parent, header, first, r->code.at[last].pc}));
}

/* The outermost loops among the instructions of `parent`. */
static void find_inside(Reader *r, int parent) {
  for (int b = 0; b < r->code.n; b++) {
    int to = r->code.at[b].target;
    if (to < 0 || to > b || r->cut[to]) continue;
    if (r->code.at[b].loop != parent || r->code.at[to].loop != parent) continue;
    flood_forwards(r, to, parent);
    if (!r->mark[0][b]) continue; /* a branch backwards, but not around */
    flood_backwards(r, to, parent);
    add_loop(r, parent, to);
  }
}

static bool find_loops(Reader *r) {
  find_inside(r, -1);
  for (int i = 0; i < r->loops.n; i++) {
    if (r->loops.n > MOST_LOOPS) return fail(r, r->loops.at[i].first, "too many loops");
    find_inside(r, i);
  }
  return true;
}

static int *filled(Arena *a, size_t n) {
  int *at = ARENA_ARRAY(a, int, n);
  for (size_t i = 0; i < n; i++) at[i] = -1;
  return at;
}

bool loops_read(Arena *a, const IsaImage *image, IsaDisassemble *disassemble, void *user,
                LoopCode *out, uint64_t *pc, const char **error) {
  Reader r = {.arena = a, .image = image};
  size_t words = image->bytes / 4 + 1;
  r.index = filled(a, words), r.from = filled(a, words), r.sister = filled(a, words);
  r.mark[0] = ARENA_ARRAY(a, bool, words), r.mark[1] = ARENA_ARRAY(a, bool, words);
  r.cut = ARENA_ARRAY(a, bool, words), r.stack = ARENA_ARRAY(a, int, words);
  disassemble_all(&r, disassemble, user);
  link_branches(&r);
  bool ok = r.code.n ? check_reached(&r) && find_loops(&r) : fail(&r, 0, "no code");
  *out = (LoopCode){.at = r.code.at, .n = r.code.n, .loops = r.loops.at, .nloops = r.loops.n};
  *pc = r.pc, *error = r.error;
  return ok;
}
