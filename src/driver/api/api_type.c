/* api_type.c: element types and types of values through wave.h. */
#include "driver/api/api.h"

int wv_dtype_count(void) {
  API_PLAIN;
  return DTYPE_COUNT;
}

const char *wv_dtype_name(int i, int *bits, const char **cls) {
  API_PLAIN;
  static const char *const classes[] = {"float", "int", "uint", "bool", "index"};
  if (i < 0 || i >= DTYPE_COUNT) return NULL;
  if (bits) *bits = dtype_info[i].bits;
  if (cls) *cls = classes[dtype_info[i].class];
  return dtype_info[i].name;
}

static bool find_dtype(wv_ctx *cx, const char *name, DType *out) {
  if (name && dtype_parse(name, out)) return true;
  return diag_fail(&cx->cx->diags, DIAG_E0319, (Span){0}, "unknown dtype `%s`", name ? name : "");
}

static wv_type made(wv_ctx *cx, const Type *t) {
  if (!t)
    diag_add(&cx->cx->diags, DIAG_E0319, (Span){0}, "a type must have 1 to %d distinct dimensions",
             IR_MAX_RANK);
  return (wv_type)t;
}

wv_type wv_scalar_type(wv_ctx *cx, const char *dtype) {
  API_CHANGES(cx, NULL);
  DType d;
  return find_dtype(cx, dtype, &d) ? (wv_type)type_scalar(cx->cx, d) : NULL;
}

/* As many entries as a type can have: the type constructor refuses a larger rank. */
static const Sym *const *dims_of(const wv_expr *from, int rank, const Sym **out) {
  for (int i = 0; i < rank && i < IR_MAX_RANK; i++) out[i] = from ? api_sym(from[i]) : NULL;
  return out;
}

wv_type wv_tile_type(wv_ctx *cx, const wv_expr *dims, int rank, const char *dtype) {
  API_CHANGES(cx, NULL);
  const Sym *d[IR_MAX_RANK];
  DType t;
  if (!find_dtype(cx, dtype, &t)) return NULL;
  if (rank < 0) return made(cx, NULL);
  return made(cx, type_tile(cx->cx, dims_of(dims, rank, d), rank, t));
}

wv_type wv_mem_type(wv_ctx *cx, const wv_expr *dims, int rank, const char *dtype, wv_expr space,
                    const wv_expr *layout) {
  API_CHANGES(cx, NULL);
  const Sym *d[IR_MAX_RANK], *l[IR_MAX_RANK];
  DType t;
  if (!find_dtype(cx, dtype, &t)) return NULL;
  if (rank < 1) return made(cx, NULL);
  return made(cx, type_mem(cx->cx, dims_of(dims, rank, d), rank, t, api_sym(space),
                           layout ? dims_of(layout, rank, l) : NULL));
}

const char *wv_type_text(wv_ctx *cx, wv_type t) {
  API_READS(cx, NULL);
  if (!t) return NULL;
  const char *text = map_get(&cx->texts, map_key(t));
  return text ? text : api_keep_text(cx, t, type_text(cx->cx->arena, cx->cx, api_type(t)));
}

const char *wv_type_kind(wv_type t) {
  API_PLAIN;
  static const char *const kinds[] = {"scalar", "vec", "tile", "mem", "token"};
  return t ? kinds[api_type(t)->kind] : NULL;
}

const char *wv_type_dtype(wv_type t) {
  API_PLAIN;
  return t ? dtype_info[api_type(t)->dtype].name : NULL;
}

int wv_type_rank(wv_type t) {
  API_PLAIN;
  return t ? api_type(t)->rank : 0;
}

wv_expr wv_type_dim(wv_type t, int i) {
  API_PLAIN;
  return i >= 0 && i < wv_type_rank(t) ? api_expr(api_type(t)->dims[i]) : NULL;
}

wv_expr wv_type_space(wv_type t) {
  API_PLAIN;
  return t ? api_expr(api_type(t)->space) : NULL;
}
