/* wavec_check.c: `wavec --check-passes`: the reference evaluator judges every pass.
 *
 * The kernel is run on the same arguments before any pass and after each of them, and what it
 * stored must be the same, bit for bit: a tile pass changes no rounding. Passes run one after
 * another in pipeline order, or as
 * --passes says. */
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

/* What the kernel computes after these passes. */
static int run_after(const Options *o, wv_ctx *cx, wv_kernel *k, const char *names, uint64_t *sum) {
  wv_kernel *copy = wv_kernel_clone(k);
  wv_pass_options p = {.passes = names, .verify_each = true, .target = o->target};
  int status = wv_run_passes(copy, &p) ? eval_checksum(o, cx, copy, sum) : STATUS_DIAGNOSTICS;
  wv_kernel_free(copy);
  return status;
}

int check_passes(const Options *o, wv_ctx *cx, wv_kernel *k) {
  uint64_t before, after;
  bool all = !o->passes || strcmp(o->passes, "all") == 0;
  char *list = all ? all_names() : NULL;
  int status = eval_checksum(o, cx, k, &before), n = 1;
  for (char *names; status == STATUS_OK; n++, free(names)) {
    wv_diag_clear(cx); /* remarks of the run before */
    names = first_names(all ? list : o->passes, n);
    if (!names) break;
    status = run_after(o, cx, k, names, &after);
    if (status != STATUS_OK || after == before) continue;
    const char *last = strrchr(names, ',');
    complain("`%s` changes what `%s` computes", last ? last + 1 : names, wv_kernel_name(k));
    status = STATUS_DIAGNOSTICS;
  }
  if (status == STATUS_OK) printf("%s: the same after %d passes\n", wv_kernel_name(k), n - 1);
  free(list);
  return status;
}
