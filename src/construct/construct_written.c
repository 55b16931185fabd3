/* construct_written.c: barriers and waits that a schedule function writes, as construct_waits.c
 * compares them with what its loop needs. */
#include <stdlib.h>
#include <string.h>

#include "construct/construct.h"

typedef struct WaitRow {
  const char *name;
  Meeting meets;
  bool shared;
  const char *words;
} WaitRow;

static const WaitRow rows[] = {
#define HINT_WAIT(name, meets, shared, words) {#name, MEETS_##meets, shared, words},
#include "construct/construct.def"
};

static const WaitRow *row_of(const char *type) {
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (strcmp(rows[i].name, type) == 0) return &rows[i];
  return NULL;
}

/* ---- arguments: "4 ds=0" ---- */

static bool is_word(const char *text, size_t n, const char *word) {
  return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* The i-th of words that are separated by spaces, and its length; 0: there is none. */
static size_t nth_word(const char *words, int i, const char **out) {
  for (; i > 0 && *words; i--) {
    words += strcspn(words, " ");
    words += strspn(words, " ");
  }
  return *out = words, strcspn(words, " ");
}

static void set_word(WrittenWait *w, const char *word, size_t n, int value) {
  if (is_word(word, n, "ds")) w->shared = value == 0;
  else if (is_word(word, n, "ds_wait")) w->shared = value != 0;
  else if (is_word(word, n, "load") || is_word(word, n, "tensor")) w->loads = value;
  else if (is_word(word, n, "wait_async_ops") || is_word(word, n, "tensor_wait"))
    w->loads = value ? 0 : w->loads;
  else if (is_word(word, n, "id") || is_word(word, n, "barId")) w->id = value;
}

/* False: it is not a number, such as None. */
static bool parse_number(const char *text, int *out) {
  char *end;
  long n = strtol(text, &end, 10);
  *out = n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int)n;
  return end != text;
}

static void set_words(WrittenWait *w, const WaitRow *row, const char *given) {
  const char *item, *word;
  size_t n;
  int value;
  for (int i = 0; given && (n = nth_word(given, i, &item)) > 0; i++) {
    const char *equals = memchr(item, '=', n);
    size_t length = equals ? (size_t)(equals - item) : nth_word(row->words, i, &word);
    if (equals) word = item;
    if (parse_number(equals ? equals + 1 : item, &value)) set_word(w, word, length, value);
  }
}

/* ---- notes ---- */

static bool note(Construct *c, const ClusterItem *item, WrittenWait w) {
  const WaitRow *row = item->type ? row_of(item->type) : NULL;
  if (!row) return false;
  w.type = row->name, w.meets = row->meets, w.shared = row->shared;
  w.loads = WAITS_FOR_NONE, w.id = WORKGROUP_ID;
  set_words(&w, row, item->given);
  vec_push(c->arena, &c->waits, w);
  return true;
}

bool construct_note_wait(Construct *c, const ClusterItem *items, int n, int i, Span at) {
  WrittenWait w = {.after = NODE_NONE, .before = NODE_NONE, .at = at};
  for (int j = i - 1; j >= 0 && w.after == NODE_NONE; j--) w.after = items[j].node;
  for (int j = i + 1; j < n && w.before == NODE_NONE; j++) w.before = items[j].node;
  return note(c, &items[i], w);
}

bool construct_note_inserted(Construct *c, const ClusterItem *item, const char *where, Nodes target,
                             Span at) {
  WrittenWait w = {.after = NODE_NONE, .before = NODE_NONE, .at = at};
  if (!where || !target.n) return false;
  bool before = strcmp(where, "before") == 0, after = strcmp(where, "after") == 0;
  if (before || after) {
    bool beside = construct_is_loop(c, target); /* not in it */
    if (before) w.before = target.at[0];
    else w.after = target.at[0];
    return beside ? row_of(item->type) != NULL : note(c, item, w);
  }
  if (!construct_is_loop(c, target)) return false;
  w.loop = c->nodes.at[target.at[0]].op;
  w.last = strcmp(where, "end") == 0;
  return note(c, item, w);
}
