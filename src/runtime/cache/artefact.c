/* artefact.c: artefacts as bytes. One walk over the structure serves both directions, so that
 * reading always matches writing. */
#include "runtime/cache/artefact.h"

#include <string.h>

typedef struct Codec {
  StrBuf *out; /* writing; otherwise reading: */
  const unsigned char *at, *end;
  Arena *arena;
  bool failed;
} Codec;

/* ---- numbers, texts, arrays ---- */

static void code_i64(Codec *c, int64_t *v) {
  unsigned char b[8];
  uint64_t u = (uint64_t)*v;
  if (c->out) {
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(u >> 8 * i);
    sb_write(c->out, (const char *)b, sizeof b);
    return;
  }
  if (c->end - c->at < 8) c->failed = true;
  if (c->failed) return;
  u = 0;
  for (int i = 0; i < 8; i++) u |= (uint64_t)c->at[i] << 8 * i;
  c->at += 8;
  *v = (int64_t)u;
}

static void code_int(Codec *c, int *v) {
  int64_t wide = *v;
  code_i64(c, &wide);
  if (wide < INT32_MIN || wide > INT32_MAX) c->failed = true;
  else if (!c->out) *v = (int)wide;
}

static void code_count(Codec *c, int *n, int most) {
  code_int(c, n);
  if (*n < 0 || *n > most) c->failed = true, *n = 0;
}

static void code_bytes(Codec *c, const char **text, int *n) {
  code_int(c, n);
  if (c->failed || *n < 0 || (!c->out && c->end - c->at < *n)) c->failed = true, *n = 0;
  if (c->out) sb_write(c->out, *text, (size_t)*n);
  if (c->out || c->failed) return;
  *text = arena_strndup(c->arena, (const char *)c->at, (size_t)*n);
  c->at += *n;
}

/* NULL is written as "". */
static void code_text(Codec *c, const char **text) {
  int n = c->out && *text ? (int)strlen(*text) : 0;
  const char *none = "", **from = c->out && !*text ? &none : text;
  code_bytes(c, from, &n);
  if (c->failed && !c->out) *text = "";
}

/* Allocates space for what is read. */
#define CODE_ARRAY(c, array, n, most, T)                                                           \
  do {                                                                                             \
    code_count((c), &(n), (most));                                                                 \
    if (!(c)->out) (array) = ARENA_ARRAY((c)->arena, T, (n) + 1);                                  \
  } while (0)

/* ---- the parts ---- */

static void code_program(Codec *c, LaunchExpr *e) {
  HostStep *steps = (HostStep *)e->step;
  int *results = (int *)e->result;
  CODE_ARRAY(c, steps, e->nsteps, LAUNCH_STEPS, HostStep);
  for (int i = 0; i < e->nsteps && !c->failed; i++) {
    HostStep *s = &steps[i];
    int kind = (int)s->kind;
    code_int(c, &kind), code_int(c, &s->a), code_int(c, &s->b), code_int(c, &s->c);
    code_i64(c, &s->value);
    if (kind < 0 || kind >= HOST_COUNT) c->failed = true;
    else if (!c->out) s->kind = (HostStepKind)kind;
  }
  CODE_ARRAY(c, results, e->nresults, LAUNCH_VALUES, int);
  for (int i = 0; i < e->nresults && !c->failed; i++) code_int(c, &results[i]);
  if (!c->out) e->step = steps, e->result = results;
}

static void code_param(Codec *c, ArtParam *p) {
  code_text(c, &p->name), code_text(c, &p->type), code_text(c, &p->log);
  code_text(c, &p->report);
  code_int(c, &p->slot), code_int(c, &p->rank), code_int(c, &p->dtype);
  code_i64(c, &p->accepts), code_int(c, &p->not_negative);
  int scalar = (int)p->scalar;
  code_int(c, &scalar);
  if (scalar < 0 || scalar >= ART_SCALARS) c->failed = true;
  else if (!c->out) p->scalar = (ArtScalar)scalar;
}

static void code_signature(Codec *c, Artefact *art) {
  code_text(c, &art->name), code_text(c, &art->target), code_text(c, &art->needs);
  code_int(c, &art->device_kind);
  CODE_ARRAY(c, art->params, art->nparams, ARTEFACT_PARAMS, ArtParam);
  for (int i = 0; i < art->nparams && !c->failed; i++) code_param(c, &art->params[i]);
  code_count(c, &art->ngiven, art->nparams);
  code_count(c, &art->nslots, ARTEFACT_SLOTS);
  code_program(c, &art->signature);
  CODE_ARRAY(c, art->sizes, art->nsizes, ARTEFACT_SLOTS, ArtSize);
  for (int i = 0; i < art->nsizes && !c->failed; i++) {
    ArtSize *s = &art->sizes[i];
    code_int(c, &s->param), code_int(c, &s->dim), code_int(c, &s->value), code_int(c, &s->is_given);
    code_text(c, &s->text);
  }
  CODE_ARRAY(c, art->assumptions, art->nassumptions, ARTEFACT_SLOTS, ArtAssumption);
  for (int i = 0; i < art->nassumptions && !c->failed; i++)
    code_int(c, &art->assumptions[i].value), code_text(c, &art->assumptions[i].text);
  code_count(c, &art->nvariants, ARTEFACT_VARIANTS);
  code_count(c, &art->fallback, art->nvariants);
  for (int i = 0; i < art->nvariants && !c->failed; i++)
    code_text(c, &art->variant[i].facts), code_int(c, &art->variant[i].guard),
        code_i64(c, &art->variant[i].repacked), code_int(c, &art->variant[i].aliased);
  code_int(c, &art->whole), code_int(c, &art->part);
}

static void code_args(Codec *c, ArtVariant *v) {
  CODE_ARRAY(c, v->args, v->nargs, ARTEFACT_ARGS, ArtArg);
  for (int i = 0; i < v->nargs && !c->failed; i++) {
    ArtArg *a = &v->args[i];
    int kind = (int)a->kind;
    code_int(c, &kind), code_int(c, &a->param), code_int(c, &a->value), code_int(c, &a->bytes);
    if (kind < 0 || kind >= ART_ARG_KINDS) c->failed = true;
    else if (!c->out) a->kind = (ArtArgKind)kind;
  }
  CODE_ARRAY(c, v->maps, v->nmaps, ARTEFACT_MAPS, ArtMap);
  for (int i = 0; i < v->nmaps && !c->failed; i++) {
    ArtMap *m = &v->maps[i];
    code_int(c, &m->param), code_int(c, &m->rank), code_int(c, &m->bytes);
    code_int(c, &m->element), code_int(c, &m->swizzle);
    for (int d = 0; d < ARTEFACT_RANK; d++) code_int(c, &m->dim[d]), code_int(c, &m->box[d]);
    code_int(c, &m->clip), code_int(c, &m->joined), code_int(c, &m->im2col);
    for (int d = 0; m->im2col && d < ARTEFACT_RANK; d++)
      code_int(c, &m->lowest[d]), code_int(c, &m->highest[d]), code_int(c, &m->step[d]);
  }
}

static void code_note(Codec *c, ArtNote *n) {
  code_text(c, &n->file), code_text(c, &n->text);
  code_int(c, &n->line), code_int(c, &n->col), code_int(c, &n->len);
}

static void code_remarks(Codec *c, ArtVariant *v) {
  CODE_ARRAY(c, v->remarks, v->nremarks, ARTEFACT_REMARKS, ArtRemark);
  for (int i = 0; i < v->nremarks && !c->failed; i++) {
    ArtRemark *r = &v->remarks[i];
    code_text(c, &r->code), code_text(c, &r->hint);
    code_note(c, &r->said);
    CODE_ARRAY(c, r->notes, r->nnotes, ARTEFACT_REMARKS, ArtNote);
    for (int n = 0; n < r->nnotes && !c->failed; n++) code_note(c, &r->notes[n]);
  }
}

static void code_waits(Codec *c, ArtVariant *v) {
  CODE_ARRAY(c, v->waits, v->nwaits, ARTEFACT_WAITS, ArtNote);
  for (int i = 0; i < v->nwaits && !c->failed; i++) code_note(c, &v->waits[i]);
}

static void code_variant(Codec *c, ArtVariant *v) {
  code_text(c, &v->entry), code_bytes(c, &v->code, &v->code_bytes);
  code_text(c, &v->ir), code_text(c, &v->listing);
  code_remarks(c, v);
  code_program(c, &v->program);
  for (int i = 0; i < 3; i++)
    code_int(c, &v->grid[i]), code_int(c, &v->block[i]), code_int(c, &v->cluster[i]);
  code_int(c, &v->shared), code_int(c, &v->together), code_int(c, &v->workspace);
  code_args(c, v);
  code_waits(c, v);
}

/* ---- what was read makes sense ---- */

static bool is_below(int i, int n) { return i >= 0 && i < n; }

static bool copies_are_sound(const Artefact *art, int variant) {
  for (int64_t left = art->variant[variant].repacked, i = 0; left; left &= ~(INT64_C(1) << i++))
    if ((left >> i & 1) && (i >= art->ngiven || art->params[i].rank < 2)) return false;
  return true;
}

static bool is_given_tensor(const Artefact *art, int param) {
  return is_below(param, art->ngiven) && art->params[param].rank >= 0;
}

static bool signature_is_sound(const Artefact *art) {
  for (int i = 0; i < art->nparams; i++) {
    const ArtParam *p = &art->params[i];
    if (p->rank > ARTEFACT_RANK || (i >= art->ngiven && p->rank < 0)) return false;
    int slots = p->rank < 0 ? 1 : 1 + 2 * p->rank;
    if (p->slot < 0 || p->slot > art->nslots - slots) return false;
  }
  for (int i = 0; i < art->nsizes; i++) {
    const ArtSize *s = &art->sizes[i];
    if (!is_below(s->param, art->nparams) || !is_below(s->dim, art->params[s->param].rank) ||
        !is_below(s->value, art->signature.nresults))
      return false;
  }
  for (int i = 0; i < art->nassumptions; i++)
    if (!is_below(art->assumptions[i].value, art->signature.nresults)) return false;
  for (int i = 0; i < art->nvariants; i++)
    if (art->variant[i].guard >= art->signature.nresults || !copies_are_sound(art, i)) return false;
  if (art->whole != art->part &&
      (!is_given_tensor(art, art->whole) || !is_given_tensor(art, art->part)))
    return false;
  return launch_expr_is_sound(&art->signature, art->nslots);
}

static bool map_is_sound(const Artefact *art, const ArtMap *m) {
  if (!is_below(m->param, art->nparams) || m->rank < 1 || m->rank > 5) return false;
  if (m->im2col && m->rank < 3) return false;
  if (m->clip && (m->im2col || m->clip < 0 || m->clip >= m->rank - 2)) return false;
  if (m->joined && (m->im2col || m->clip || !is_below(m->joined, m->rank - 1))) return false;
  for (int d = 0; d < m->rank; d++)
    if (!is_below(m->dim[d], art->params[m->param].rank)) return false;
  return true;
}

static bool arg_is_sound(const Artefact *art, const ArtVariant *v, const ArtArg *a) {
  switch (a->kind) {
  case ART_POINTER: return is_below(a->param, art->nparams) && art->params[a->param].rank >= 0;
  case ART_SCALAR: return is_below(a->param, art->nparams) && art->params[a->param].rank < 0;
  case ART_WORKSPACE:
    return v->workspace >= 0 && is_below(a->value, v->program.nresults) &&
           is_below(a->param, art->nparams) && a->param >= art->ngiven;
  case ART_VALUE:
  case ART_MAGIC:
  case ART_SHIFT: return is_below(a->value, v->program.nresults);
  case ART_MAP: return is_below(a->value, v->nmaps);
  case ART_ARG_KINDS: break;
  }
  return false;
}

static bool variant_is_sound(const Artefact *art, ArtVariant *v) {
  if (!launch_expr_is_sound(&v->program, art->nslots) || !artefact_set_offsets(v)) return false;
  for (int i = 0; i < 3; i++)
    if (!is_below(v->grid[i], v->program.nresults) || v->block[i] < 1) return false;
  if (v->workspace >= v->program.nresults) return false;
  for (int i = 0; i < v->nmaps; i++)
    if (!map_is_sound(art, &v->maps[i])) return false;
  for (int i = 0; i < v->nargs; i++)
    if (!arg_is_sound(art, v, &v->args[i])) return false;
  return true;
}

/* ---- the whole ---- */

bool artefact_set_offsets(ArtVariant *v) {
  int at = 0;
  for (int i = 0; i < v->nargs; i++) {
    ArtArg *a = &v->args[i];
    int size = a->kind == ART_MAP ? 128 : a->bytes, align = a->kind == ART_MAP ? 64 : a->bytes;
    if (a->kind != ART_MAP && a->bytes != 4 && a->bytes != 8) return false;
    if (a->kind == ART_POINTER || a->kind == ART_SCALAR || a->kind == ART_MAP ||
        a->kind == ART_WORKSPACE)
      v->npatched = i + 1;
    a->offset = (at + align - 1) / align * align;
    at = a->offset + size;
    if (at > ARTEFACT_ARG_BYTES) return false;
  }
  v->arg_bytes = at;
  return v->nargs <= ARTEFACT_ARGS;
}

void artefact_write(StrBuf *out, const Artefact *art, int variant) {
  Codec c = {.out = out};
  Artefact copy = *art; /* writing changes nothing; the walk serves both directions */
  code_signature(&c, &copy);
  code_int(&c, &variant);
  if (variant >= 0) code_variant(&c, &copy.variant[variant]);
}

Artefact *artefact_read(Arena *a, const char *bytes, size_t n, int *variant) {
  Codec c = {.at = (const unsigned char *)bytes, .arena = a};
  c.end = c.at + n;
  Artefact *art = ARENA_NEW(a, Artefact);
  code_signature(&c, art);
  code_int(&c, variant);
  if (c.failed || *variant < -1 || *variant >= art->nvariants) return NULL;
  ArtVariant *v = *variant < 0 ? NULL : &art->variant[*variant];
  if (v) code_variant(&c, v), v->compiled = true;
  if (c.failed || c.at != c.end || !signature_is_sound(art)) return NULL;
  return !v || variant_is_sound(art, v) ? art : NULL;
}
