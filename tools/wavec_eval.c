/* wavec_eval.c: `wavec run`: makes or reads the arguments of a kernel, runs it with the reference
 * evaluator (tiles) or the simulator (one lane's program), and prints the results.
 *
 * Arguments that are not given are made up (wavec_data.c). Tensors that the kernel writes are zero
 * at first.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

typedef struct Argument {
  const char *name, *dtype;
  wv_type type;
  bool is_memory, is_output;
  Array array;
  wv_buffer buffer;
} Argument;

typedef struct Call {
  const Options *o;
  wv_ctx *cx;
  wv_kernel *k;
  const char *kind;  /* how it runs; NULL: chosen by its level */
  wv_binding *bound; /* symbols with a value: rows of the header, then --set */
  int nbound;
  Argument *args;
  int nargs;
} Call;

/* ---- sizes ---- */

static bool gather_bindings(Call *c) {
  const char *kind;
  wv_expr dim, size;
  int rows = 0;
  while (wv_kernel_row(c->k, rows, &kind, &dim, &size)) rows++;
  c->bound = calloc((size_t)(rows + c->o->set.n + 1), sizeof *c->bound);
  if (!c->bound) return complain("out of memory");
  for (int i = 0; wv_kernel_row(c->k, i, &kind, &dim, &size); i++)
    if (strcmp(kind, "bind") == 0) c->bound[c->nbound++] = (wv_binding){dim, size};
  for (int i = 0; i < c->o->set.n; i++) {
    wv_binding b;
    if (!parse_setting(c->cx, c->o->set.at[i], &b)) return false;
    if (is_dynamic(c->k, b.from)) c->bound[c->nbound++] = b; /* the others are rows by now */
  }
  return wv_resolve(c->cx, c->bound, c->nbound);
}

static bool size_of(const Call *c, const Argument *a, wv_expr e, int64_t *out) {
  wv_expr value = wv_expr_subst(c->cx, e, c->bound, c->nbound);
  int64_t den;
  if (value && wv_expr_constant(value, out, &den) && den == 1 && *out >= 0) return true;
  wv_expr missing;
  const char *text = wv_expr_text(c->cx, e);
  if (value && wv_expr_symbols(value, &missing, 1) > 0)
    return complain("the size `%s` of `%s` is unknown: add --set %s=N", text, a->name,
                    wv_expr_name(missing));
  return complain("the size `%s` of `%s` is `%s`, expected a non-negative integer", text, a->name,
                  value ? wv_expr_text(c->cx, value) : "too large");
}

static bool shape_of(const Call *c, Argument *a) {
  int64_t elements = 1;
  a->array.rank = wv_type_rank(a->type);
  if (a->array.rank > NPY_RANK) return complain("`%s` has too many dimensions", a->name);
  for (int i = a->array.rank - 1; i >= 0; i--) {
    wv_expr extent = wv_type_extent(a->type, i);
    if (!size_of(c, a, extent ? extent : wv_type_dim(a->type, i), &a->array.shape[i])) return false;
    a->array.strides[i] = elements;
    if (a->array.shape[i] > (INT64_C(1) << 28) / elements)
      return complain("`%s` is too large to evaluate", a->name);
    elements *= a->array.shape[i] ? a->array.shape[i] : 1;
  }
  a->array.bytes = wv_data_bytes(a->dtype, elements);
  return true;
}

static bool has_value(const wv_kernel *k, wv_expr symbol) {
  const char *kind;
  wv_expr dim, size;
  for (int i = 0; wv_kernel_row(k, i, &kind, &dim, &size); i++)
    if (strcmp(kind, "bind") == 0 && dim == symbol) return true;
  return false;
}

/* A number means a tensor with every element set to it. */
static bool is_number(const char *text, double *number) {
  char *end;
  *number = strtod(text, &end);
  return end != text && !*end;
}

static void push_size(WordList *set, const char *symbol, int64_t size) {
  size_t n = strlen(symbol) + 32;
  char *word = malloc(n);
  if (!word) abort();
  snprintf(word, n, "%s=%lld", symbol, (long long)size);
  push_word(set, word);
}

bool sizes_of_files(const Options *o, const wv_kernel *k, WordList *set) {
  const char *name;
  wv_type type;
  bool output;
  double number;
  Array array;
  for (int i = 0; wv_kernel_param(k, i, &name, &type, &output); i++) {
    const char *path = find_word(&o->arg, name);
    if (!path || strcmp(wv_type_kind(type), "mem") != 0) continue;
    if (npy_is_packed(wv_type_dtype(type)) || is_number(path, &number)) continue;
    if (!npy_read_shape(path, &array)) return false;
    for (int d = 0; d < array.rank && d < wv_type_rank(type); d++) {
      wv_expr extent = wv_type_extent(type, d), e = extent ? extent : wv_type_dim(type, d);
      const char *symbol = wv_expr_name(e);
      if (symbol && !has_value(k, e) && !find_word(&o->set, symbol) && !find_word(set, symbol))
        push_size(set, symbol, array.shape[d]);
    }
  }
  return true;
}

/* ---- values ---- */

static int64_t elements_of(const Array *a) {
  int64_t n = 1;
  for (int i = 0; i < a->rank; i++) n *= a->shape[i];
  return n;
}

static bool make_array(const Call *c, Argument *a, uint64_t seed) {
  if (!shape_of(c, a)) return false;
  a->array.data = calloc(1, a->array.bytes + 1);
  if (!a->array.data) return complain("out of memory");
  int64_t n = a->is_output ? 0 : elements_of(&a->array);
  MadeData how = made_data(c->o, a->dtype);
  for (int64_t i = 0; i < n; i++)
    wv_data_set(a->dtype, a->array.data, i, made_value(&how, i, n, seed));
  return true;
}

static bool fill_array(const Call *c, Argument *a, double number) {
  if (!make_array(c, a, 0)) return false;
  for (int64_t i = 0, n = elements_of(&a->array); i < n; i++)
    wv_data_set(a->dtype, a->array.data, i, number);
  return true;
}

/* An array of packed elements may have any shape, if its size in bytes is right. */
static bool shape_packed(const Call *c, Argument *a, const char *path) {
  size_t found = a->array.bytes;
  a->array.fortran = false;
  if (!shape_of(c, a)) return false;
  return found == a->array.bytes ||
         complain("%s has %zu bytes, but `%s` has %zu", path, found, a->name, a->array.bytes);
}

static bool read_array(const Call *c, Argument *a, const char *path) {
  if (!npy_read(path, &a->array)) return false;
  if (!npy_fits(&a->array, a->dtype))
    return complain("%s has elements of type %c%zu, but the dtype of `%s` is %s", path,
                    a->array.kind, a->array.itemsize, a->name, a->dtype);
  if (npy_is_packed(a->dtype)) return shape_packed(c, a, path);
  bool simulated = c->kind && strcmp(c->kind, "sim") == 0; /* its programs do not support strides */
  if (a->array.rank == wv_type_rank(a->type))
    return !simulated || !a->array.fortran || npy_make_row_major(&a->array);
  return complain("%s has %d dimensions, but `%s` has %d", path, a->array.rank, a->name,
                  wv_type_rank(a->type));
}

const char *find_word(const WordList *list, const char *name) {
  const char *rest = NULL;
  for (int i = 0; i < list->n && !rest; i++) split_word(list->at[i], name, &rest);
  return rest;
}

static bool make_argument(const Call *c, int i, uint64_t seed, wv_arg *out) {
  Argument *a = &c->args[i];
  wv_kernel_param(c->k, i, &a->name, &a->type, &a->is_output);
  a->dtype = wv_type_dtype(a->type);
  a->is_memory = strcmp(wv_type_kind(a->type), "mem") == 0;
  const char *given = find_word(&c->o->arg, a->name);
  seed += (uint64_t)i << 32;
  if (!a->is_memory) {
    MadeData how = made_data(c->o, a->dtype);
    out->number = given ? strtod(given, NULL) : made_value(&how, 0, 8, seed);
    out->integer = (int64_t)out->number;
    return true;
  }
  double number;
  bool made = !given                      ? make_array(c, a, seed)
              : is_number(given, &number) ? fill_array(c, a, number)
                                          : read_array(c, a, given);
  if (!made) return false;
  a->buffer = (wv_buffer){a->array.data, a->dtype, a->array.rank, a->array.shape, a->array.strides};
  out->buffer = &a->buffer;
  return true;
}

/* ---- results ---- */

static uint64_t checksum(const Array *a) { /* FNV-1a */
  const unsigned char *bytes = a->data;
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < a->bytes; i++) h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
  return h;
}

static void print_shape(int rank, const int64_t *shape) {
  for (int i = 0; i < rank; i++) printf("%s%lld", i ? "x" : "", (long long)shape[i]);
}

static void print_summary(const char *name, const wv_buffer *b, int64_t n) {
  double sum = 0, least = INFINITY, most = -INFINITY;
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = wv_data_get(b->dtype, b->data, i);
    sum += v;
    least = v < least ? v : least;
    most = v > most ? v : most;
    odd += !isfinite(v);
  }
  printf("%s: ", name);
  print_shape(b->rank, b->shape);
  printf(" %s, sum %.9g", b->dtype, sum);
  if (n) printf(", from %.9g to %.9g", least, most);
  if (odd) printf(", %lld not finite", (long long)odd);
}

/* The offset of element `i` in row-major order. */
static int64_t strided_offset(const wv_buffer *b, int64_t i) {
  int64_t at = 0;
  if (!b->strides) return i;
  for (int d = b->rank - 1; d >= 0; i /= b->shape[d--]) at += i % b->shape[d] * b->strides[d];
  return at;
}

/* One line per row of the last dimension. */
static void show(const wv_buffer *b, int64_t n) {
  int64_t row = b->rank ? b->shape[b->rank - 1] : 1;
  for (int64_t i = 0; i < n; i++)
    printf("%s%.9g%s", i % row ? " " : "  ", wv_data_get(b->dtype, b->data, strided_offset(b, i)),
           i % row == row - 1 ? "\n" : "");
}

static bool is_shown(const Options *o, const char *name) {
  for (int i = 0; i < o->show.n; i++)
    if (strcmp(o->show.at[i], name) == 0) return true;
  return false;
}

static bool report(const Call *c) {
  bool ok = true;
  for (int i = 0; i < c->nargs; i++) {
    const Argument *a = &c->args[i];
    if (!a->is_memory) continue;
    int64_t n = elements_of(&a->array);
    if (a->is_output) {
      print_summary(a->name, &a->buffer, n);
      printf(", checksum %016llx\n", (unsigned long long)checksum(&a->array));
    }
    if (is_shown(c->o, a->name)) show(&a->buffer, n);
    const char *path = find_word(&c->o->out, a->name);
    if (path) ok &= npy_write(path, &a->array, a->dtype);
  }
  return ok;
}

void print_log(void *user, const char *label, const wv_buffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) n *= b->shape[i];
  print_summary(label, b, n);
  printf("\n");
  if (is_shown(user, label)) show(b, n);
}

/* ---- the whole run ---- */

/* A name after --arg, --out or --show that is not a parameter is misspelled. */
static bool check_names(const Call *c, const WordList *words, const char *option) {
  for (int w = 0; w < words->n; w++) {
    bool found = false;
    const char *rest;
    for (int i = 0; i < c->nargs; i++) found |= split_word(words->at[w], c->args[i].name, &rest);
    if (!found)
      return complain("%s %s: %s has no such parameter", option, words->at[w],
                      wv_kernel_name(c->k));
  }
  return true;
}

static bool write_file(const char *path, const char *text) {
  if (strcmp(path, "-") == 0) return fputs(text, stdout) >= 0;
  FILE *f = fopen(path, "wb");
  if (!f) return complain("cannot write %s", path);
  bool ok = fputs(text, f) >= 0;
  ok = fclose(f) == 0 && ok;
  return ok || complain("cannot write %s", path);
}

static bool write_reports(const Options *o, wv_report *r) {
  if (o->costs) fputs(wv_report_text(r), stdout);
  return (!o->json || write_file(o->json, wv_report_json(r))) &&
         (!o->html || write_file(o->html, wv_report_html(r)));
}

static int simulate(const Call *c, const wv_arg *args, bool quiet) {
  const Options *o = c->o;
  wv_report *report = NULL;
  wv_sim_options options = {.target = o->target,
                            .schedule = o->schedule,
                            .nonfinite = o->nonfinite,
                            .log = quiet ? NULL : print_log,
                            .user = (void *)(uintptr_t)o};
  bool ok = wv_sim(c->k, args, c->nargs, &options, &report);
  bool written = !report || quiet || write_reports(o, report);
  wv_report_free(report);
  return !written ? STATUS_USAGE : ok ? STATUS_OK : STATUS_DIAGNOSTICS;
}

static int run_tiles(const Call *c, const wv_arg *args, bool logs) {
  if (c->o->json || c->o->html || c->o->costs) {
    complain("--%s works only for simulations: add --target sim:NAME", c->o->json   ? "json"
                                                                       : c->o->html ? "html"
                                                                                    : "costs");
    return STATUS_USAGE;
  }
  wv_eval_options options = {
      .log = print_log, .user = (void *)(uintptr_t)c->o, .check_masks = true};
  bool ok = wv_eval(c->k, args, c->nargs, logs ? &options : NULL);
  return ok ? STATUS_OK : STATUS_DIAGNOSTICS;
}

/* ---- outcomes ---- */

/* How far apart two computations of the same value may be, as a fraction of the largest element. */
static double tolerance(const char *dtype) {
  static const struct {
    const char *dtype;
    double loose;
  } rows[] = {{"f64", 1e-9}, {"f32", 1e-3}, {"f16", 0.02}, {"bf16", 0.05}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].dtype, dtype) == 0) return rows[i].loose;
  return dtype[0] == 'f' ? 0.3 : 0;
}

static bool take_outcome(Outcome *out, const Argument *a) {
  int64_t n = elements_of(&a->array);
  size_t room = sizeof *out->value * (size_t)(out->n + n + 1);
  double *value = realloc(out->value, room), *loose = value ? realloc(out->loose, room) : NULL;
  if (value) out->value = value;
  if (loose) out->loose = loose;
  if (!value || !loose) return complain("out of memory");
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = wv_data_get(a->buffer.dtype, a->buffer.data, i);
    value[out->n + i] = v;
    if (fabs(v) > most && isfinite(v)) most = fabs(v);
  }
  for (int64_t i = 0; i < n; i++) loose[out->n + i] = most * tolerance(a->buffer.dtype);
  out->n += n;
  out->sum = out->sum * 31 + checksum(&a->array);
  return true;
}

void free_outcome(Outcome *out) {
  free(out->value);
  free(out->loose);
  *out = (Outcome){0};
}

/* `out`: receives the contents of the tensors instead of a report; NULL: report. */
static int evaluate(Call *c, Outcome *out) {
  wv_arg *args = calloc((size_t)c->nargs + 1, sizeof *args);
  if (!args) return STATUS_USAGE;
  uint64_t seed = c->o->seed ? strtoull(c->o->seed, NULL, 10) : 1;
  bool ok = true;
  for (int i = 0; ok && i < c->nargs; i++) ok = make_argument(c, i, seed, &args[i]);
  ok = ok && check_names(c, &c->o->arg, "--arg") && check_names(c, &c->o->out, "--out");
  bool sim = c->kind && strcmp(c->kind, "sim") == 0; /* an open kernel is lowered for the call */
  bool threads = sim || strcmp(wv_kernel_level(c->k), "thread") == 0;
  int status = STATUS_USAGE;
  if (ok && c->kind && runs_on_device(c->kind))
    status = run_on_device(c->o, c->cx, c->k, args, c->nargs);
  else if (ok) status = threads ? simulate(c, args, out) : run_tiles(c, args, !out);
  for (int i = 0; out && status == STATUS_OK && i < c->nargs; i++)
    if (c->args[i].is_memory && !take_outcome(out, &c->args[i])) status = STATUS_USAGE;
  if (!out && status == STATUS_OK && !report(c)) status = STATUS_USAGE;
  free(args);
  return status;
}

static int call_kernel(const Options *o, wv_ctx *cx, wv_kernel *k, const char *kind, Outcome *out) {
  Call c = {.o = o, .cx = cx, .k = k, .kind = kind, .nargs = wv_kernel_nparams(k)};
  c.args = calloc((size_t)c.nargs + 1, sizeof *c.args);
  int status = c.args && gather_bindings(&c) ? evaluate(&c, out) : STATUS_DIAGNOSTICS;
  for (int i = 0; c.args && i < c.nargs; i++) free(c.args[i].array.data);
  free(c.args);
  free(c.bound);
  return status;
}

int eval_kernel(const Options *o, wv_ctx *cx, wv_kernel *k, const char *kind) {
  return call_kernel(o, cx, k, kind, NULL);
}

int eval_outcome(const Options *o, wv_ctx *cx, wv_kernel *k, Outcome *out) {
  *out = (Outcome){0};
  return call_kernel(o, cx, k, NULL, out);
}
