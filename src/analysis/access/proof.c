/* proof.c: prints what in_bounds found.
 *
 *     read %a: mem<M, K, f16>  at gemm.wave:9
 *       M   64*$WG0 + $e0 < M        tested as $x0 < M
 *       K   32*$ARGK + $e1 < K       proved
 *       offsets may need 64 bits, memory has 2*K*M bytes; 8 elements along K in one access */
#include "analysis/access/in_bounds.h"

const char *const bound_verdict_name[] = {
    [BOUND_proved] = "proved", [BOUND_implied] = "implied",   [BOUND_tested] = "tested",
    [BOUND_filled] = "filled", [BOUND_promised] = "promised",
};

/* Pads names to a common width. */
static void print_column(StrBuf *out, Arena *a, const Sym *s, int width) {
  sb_printf(out, "%-*s", width, s ? sym_text(a, s) : "?");
}

/* A memory coordinate that equals a tile coordinate needs no line of its own. */
static bool is_news(const AccessBounds *b, int i) {
  const Bound *bound = &b->bounds[i];
  if (bound->verdict == BOUND_tested) return true;
  if (!bound->limit) return false;
  for (int j = 0; j < i; j++)
    if (b->bounds[j].meaning == bound->meaning) return false;
  return true;
}

static void print_bound(StrBuf *out, Arena *a, const AccessBounds *b, int i) {
  const Bound *bound = &b->bounds[i];
  sb_puts(out, "  ");
  print_column(out, a, bound->dim, 6);
  print_column(out, a, bound->meaning, 40);
  sb_printf(out, " %s", bound_verdict_name[bound->verdict]);
  if (bound->verdict == BOUND_tested) sb_printf(out, " as %s", sym_text(a, bound->test));
  sb_putc(out, '\n');
}

static void print_addresses(StrBuf *out, Arena *a, const AccessBounds *b) {
  if (b->offset_bits == 32) sb_puts(out, "  offsets fit into 32 bits");
  else sb_puts(out, "  offsets may need 64 bits");
  if (b->bytes) sb_printf(out, ", memory has %s bytes", sym_text(a, b->bytes));
  if (b->run > 1)
    sb_printf(out, "; %d elements along %s in one access", b->run,
              sym_text(a, b->access.tile->dims[b->run_axis]));
  else sb_puts(out, "; element by element");
  sb_putc(out, '\n');
}

void proof_print(StrBuf *out, Kernel *k, const AccessBounds *const *all) {
  Arena *a = arena_new();
  for (int i = 0; i < k->nops; i++) {
    const AccessBounds *b = all[i];
    if (!b) continue;
    const Span at = b->access.op->at;
    sb_puts(out, op_info[b->access.op->kind].name);
    if (b->access.memory)
      sb_printf(out, " %%%s: %s", memory_name(k, b->access.memory),
                type_text(a, k->cx, b->access.memory->type));
    if (at.file && at.line)
      sb_printf(out, "  at %s:%u", sources_name(&k->cx->sources, at.file), at.line);
    sb_putc(out, '\n');
    for (int j = 0; j < b->nbounds; j++)
      if (is_news(b, j)) print_bound(out, a, b, j);
    if (b->access.memory) print_addresses(out, a, b);
  }
  arena_free(a);
}
