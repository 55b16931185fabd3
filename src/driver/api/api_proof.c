/* api_proof.c: what was proved about a kernel's accesses, through wave.h. */
#include "analysis/access/in_bounds.h"
#include "analysis/analysis.h"
#include "driver/api/api.h"
#include "schedule/loop_proof.h"

struct wv_proof {
  HandleKind handle;
  Arena *arena;
  Kernel *k;
  const AccessBounds *const *all;
  const char *text;
};

wv_proof *wv_prove(wv_kernel *handle) {
  API_KERNEL_USES(handle, NULL);
  api_attempt(handle->cx, handle->k, "--proof --emit=none");
  Arena *a = arena_new();
  wv_proof *p = ARENA_NEW(a, wv_proof);
  ir_renumber(handle->k);
  Facts facts = facts_of(handle->k, a, FACT_in_bounds | FACT_memory_uses | FACT_distribute);
  *p = (wv_proof){HANDLE_PROOF, a, handle->k, facts.in_bounds, NULL};
  StrBuf text = {.arena = a};
  proof_print(&text, handle->k, p->all);
  if (kernel_constraint(handle->k, CONSTRAINT_machine, NULL))
    loop_proof_print(&text, facts.distribute, facts.memory_uses);
  p->text = sb_text(&text);
  return p;
}

void wv_proof_free(wv_proof *p) {
  API_ASKS();
  if (api_is(p, HANDLE_PROOF)) arena_free(p->arena);
}

const char *wv_proof_text(const wv_proof *p) {
  API_PLAIN;
  return api_is(p, HANDLE_PROOF) ? p->text : NULL;
}

static void fill_row(const wv_proof *p, const AccessBounds *b, int i, wv_proof_row *out) {
  const Bound *bound = &b->bounds[i];
  out->op = op_info[b->access.op->kind].name;
  out->memory = b->access.memory ? memory_name(p->k, b->access.memory) : "";
  out->at = api_place(p->k->cx, b->access.op->at);
  out->dim = api_expr(bound->dim);
  out->of_memory = bound->of_memory;
  out->condition = api_expr(bound->meaning);
  out->verdict = bound_verdict_name[bound->verdict];
  out->test = bound->verdict == BOUND_tested ? api_expr(bound->test) : NULL;
  out->offset_bits = b->offset_bits;
  out->run = b->run;
  out->run_dim = b->run > 1 ? api_expr(b->access.tile->dims[b->run_axis]) : NULL;
}

bool wv_proof_get(const wv_proof *p, int i, wv_proof_row *out) {
  API_PLAIN;
  int access = 0;
  if (!api_is(p, HANDLE_PROOF)) return false;
  for (int op = 0; i >= 0 && op < p->k->nops; op++) {
    const AccessBounds *b = p->all[op];
    if (!b) continue;
    if (i < b->nbounds) {
      *out = (wv_proof_row){.access = access};
      fill_row(p, b, i, out);
      return true;
    }
    i -= b->nbounds;
    access++;
  }
  return false;
}
