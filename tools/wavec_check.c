/* wavec_check.c: `wavec --check-passes`: the reference evaluator checks every pass.
 *
 * The kernel is run on the same arguments before any pass and after each of them that changes its
 * text, and its results must be the same, bit for bit: a tile pass does not change any rounding. Passes run one after
 * another in pipeline order, or as --passes says. A lowered kernel may add in another order, so its
 * floats are compared within a tolerance. With a target the whole pipeline runs afterwards. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

/* The first `n` names of a comma-separated list, from malloc; NULL: it has fewer. */
static char *first_names(const char *list, int n) {
  const char *end = list;
  while (n-- > 0) {
    if (!*end) return NULL;
    end += end == list ? 0 : 1;
    end += strcspn(end, ",");
  }
  char *names = calloc(1, (size_t)(end - list) + 1);
  if (!names) abort();
  memcpy(names, list, (size_t)(end - list));
  return names;
}

static char *all_names(void) {
  const char *name, *doc;
  char *list = calloc(1, 4096);
  if (!list) abort();
  for (int i = 0; wv_pass_info(i, &name, &doc); i++) {
    if (strcmp(name, "lower_threads") == 0) break;
    if (i) strcat(list, ",");
    strcat(list, name);
  }
  return list;
}

/* The first element that differs by more than rounding explains, or -1. */
static int64_t far_element(const Outcome *a, const Outcome *b) {
  for (int64_t i = 0; i < a->n && i < b->n; i++) {
    bool both = isnan(a->value[i]) && isnan(b->value[i]);
    if (!both && a->value[i] != b->value[i] && !(fabs(a->value[i] - b->value[i]) <= a->loose[i]))
      return i;
  }
  return -1;
}

/* Runs these passes, and evaluates the kernel unless its text is `*text`, which has been evaluated.
 * `*same`: the results are those of before the passes. */
static int compare_after(const Options *o, wv_ctx *cx, wv_kernel *k, const char *names,
                         const Outcome *before, char **text, bool *same) {
  wv_kernel *copy = wv_kernel_clone(k);
  wv_pass_options p = {.passes = names, .verify_each = true, .target = o->target};
  int status = wv_run_passes(copy, &p) ? STATUS_OK : STATUS_DIAGNOSTICS;
  char *now = wv_print(copy);
  bool changed = !*text || !now || strcmp(now, *text) != 0;
  if (status == STATUS_OK && changed) {
    Outcome after = {0};
    bool lowered = strcmp(wv_kernel_level(copy), "thread") == 0;
    status = eval_outcome(o, cx, copy, &after);
    *same = after.sum == before->sum || (lowered && far_element(before, &after) < 0);
    free_outcome(&after);
  }
  wv_free(*text);
  *text = now;
  wv_kernel_free(copy);
  return status;
}

static int check_tile_passes(const Options *o, wv_ctx *cx, wv_kernel *k, const Outcome *before) {
  bool all = !o->passes || strcmp(o->passes, "all") == 0;
  char *list = all ? all_names() : NULL;
  char *text = wv_print(k);
  int status = STATUS_OK, n = 1;
  bool same = true;
  for (char *names; status == STATUS_OK; n++, free(names)) {
    wv_diag_clear(cx); /* remarks of the run before */
    names = first_names(all ? list : o->passes, n);
    if (!names) break;
    status = compare_after(o, cx, k, names, before, &text, &same);
    if (status != STATUS_OK || same) continue;
    const char *last = strrchr(names, ',');
    complain("`%s` changes the result of `%s`", last ? last + 1 : names, wv_kernel_name(k));
    status = STATUS_DIAGNOSTICS;
  }
  if (status == STATUS_OK) printf("%s: the same after %d passes\n", wv_kernel_name(k), n - 1);
  wv_free(text);
  free(list);
  return status;
}

/* One lane's program, in the simulator: lowering and the passes after it. */
static int check_lowered(const Options *o, wv_ctx *cx, wv_kernel *k, const Outcome *before) {
  wv_kernel *copy = wv_kernel_clone(k);
  wv_pass_options p = {.verify_each = true, .target = o->target};
  Outcome after = {0};
  wv_diag_clear(cx);
  int status = wv_lower(copy, &p) ? eval_outcome(o, cx, copy, &after) : STATUS_DIAGNOSTICS;
  int64_t at = status == STATUS_OK ? far_element(before, &after) : -1;
  if (at >= 0) {
    complain("lowered to %s, `%s` has a different result: element %lld is %.9g, not %.9g",
             o->target, wv_kernel_name(k), (long long)at, after.value[at], before->value[at]);
    status = STATUS_DIAGNOSTICS;
  } else if (status == STATUS_OK) {
    printf("%s: the same lane by lane on %s\n", wv_kernel_name(k), o->target);
  }
  free_outcome(&after);
  wv_kernel_free(copy);
  return status;
}

int check_passes(const Options *o, wv_ctx *cx, wv_kernel *k) {
  Outcome before;
  bool all = !o->passes || strcmp(o->passes, "all") == 0;
  int status = eval_outcome(o, cx, k, &before);
  if (status == STATUS_OK) status = check_tile_passes(o, cx, k, &before);
  if (status == STATUS_OK && all && o->target) status = check_lowered(o, cx, k, &before);
  free_outcome(&before);
  return status;
}
