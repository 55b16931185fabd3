/* fuzz_numbers.c: no integer of a kernel or of its sizes causes a crash or a hang.
 *
 *     fuzz_numbers [--seed N] [--count N] [--seconds N] [FILE.wave...]
 *
 * A case is a kernel of the tests in which up to three integers were replaced by others, most of
 * them at or beyond some limit: of 8 to 64 bits, of machines, of the compiler. Sizes that the text
 * leaves open are bound or chosen the same way. The kernel is then evaluated, lowered for a machine
 * and simulated, emitted, or compiled for this CPU and launched. Every call must return, within a
 * second after a request to stop, and without an internal error; running out of memory is allowed.
 * A finding is printed with the options that repeat it, in the form that `wavec again FILE` reads.
 * With FUZZ_LOUD=1 each case is shown before it begins. The last line is "N passed, M failed". */
#define _GNU_SOURCE
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "fuzz/corpus.h"
#include "wave.h"

enum { SYMBOLS = 64, PARAMS = 32, RANK = 8, ELEMENTS = 1 << 16, CHANGES = 3 };
#if defined(__SANITIZE_ADDRESS__)
enum { PATIENCE = 240 }; /* seconds of CPU time after which a case counts as a hang */
#else
enum { PATIENCE = 60 };
#endif
static const double LONG = 0.25; /* seconds after which a run is asked to stop */

/* ---- numbers ---- */

/* As text: some do not fit into 64 bits. */
static const char *any_number(Random *r, Arena *a) {
  static const char *const wide[] = {"9223372036854775808", "18446744073709551615",
                                     "18446744073709551616", "-9223372036854775809",
                                     "99999999999999999999999999999999999999999"};
  static const int powers[] = {3,  4,  5,  6,  7,  8,  10, 11, 12, 15, 16, 17, 18, 20, 24,
                               28, 29, 30, 31, 32, 33, 34, 40, 48, 52, 53, 59, 60, 61, 62};
  if (below(r, 12) == 0) return wide[below(r, WV_LEN(wide))];
  if (below(r, 3) == 0) return arena_printf(a, "%d", (int)below(r, 9) - 1);
  int64_t n = INT64_C(1) << powers[below(r, WV_LEN(powers))];
  if (below(r, 16) == 0) n = INT64_MAX;
  n += below(r, 2) || n == INT64_MAX ? -(int64_t)below(r, 2) : (int64_t)below(r, 2);
  return arena_printf(a, "%" PRId64, below(r, 5) ? n : -n);
}

static int64_t any_int(Random *r, Arena *a) { return strtoll(any_number(r, a), NULL, 10); }

/* ---- texts ---- */

/* Not part of a name, a number with a point, or a value's name. */
static bool begins_number(const char *text, size_t at) {
  if (!isdigit((unsigned char)text[at])) return false;
  char before = at ? text[at - 1] : '\n';
  return !isalnum((unsigned char)before) && !strchr("_%$.@\"", before);
}

/* Half of the numbers are of the first header: it has few, and every step computes with them. */
static const char *change_one(Random *r, Arena *a, const char *text) {
  Vec(size_t) found = {0};
  size_t header = 0;
  for (size_t i = 0; text[i]; i++) {
    if (text[i] == '#') i += strcspn(text + i, "\n");
    if (begins_number(text, i)) vec_push(a, &found, i);
    if (!text[i]) break;
    if (!header && text[i] == '\n' && text[i + 1] == '{') header = (size_t)found.n;
  }
  if (!found.n) return text;
  size_t at = found.at[below(r, header && below(r, 2) ? header : (size_t)found.n)], end = at;
  while (isdigit((unsigned char)text[end])) end++;
  return arena_printf(a, "%.*s%s%s", (int)at, text, any_number(r, a), text + end);
}

/* ---- one case ---- */

typedef struct Case {
  Random r;
  Arena *arena;
  wv_ctx *cx;
  wv_kernel *k;
  wv_binding bound[SYMBOLS];
  int nbound, nchosen; /* the first were chosen here, the others are rows of the text */
  wv_buffer buffers[PARAMS];
  wv_tensor tensors[PARAMS];
  wv_arg args[PARAMS];
  wv_launch_arg given[PARAMS];
  int nargs;
  double until; /* when a run is asked to stop */
} Case;

static bool told_to_stop(void *user) { return os_seconds() > ((const Case *)user)->until; }

static bool is_row(const Case *c, const char *wanted, wv_expr symbol) {
  const char *kind;
  wv_expr dim, size;
  for (int i = 0; wv_kernel_row(c->k, i, &kind, &dim, &size); i++)
    if (strcmp(kind, wanted) == 0 && dim == symbol) return true;
  return false;
}

static int64_t any_size(Case *c) {
  return below(&c->r, 4) ? (int64_t)below(&c->r, 200) : any_int(&c->r, c->arena);
}

/* Gives size symbols without a value one: through a row of the header, or the sizes of tensors. */
static void bind_symbols(Case *c, wv_expr e) {
  wv_expr symbols[RANK];
  int n = wv_expr_symbols(e, symbols, RANK);
  for (int i = 0; i < n && i < RANK && c->nbound < SYMBOLS; i++) {
    bool known = is_row(c, "bind", symbols[i]) && below(&c->r, 8);
    for (int j = 0; j < c->nbound; j++) known |= c->bound[j].from == symbols[i];
    if (known) continue;
    wv_expr size = wv_int(c->cx, any_size(c));
    wv_constraint row = {.kind = "bind", .dim = symbols[i], .size = size};
    if (!is_row(c, "dynamic", symbols[i])) wv_kernel_constrain(c->k, &row, 1);
    c->bound[c->nbound++] = (wv_binding){symbols[i], size};
  }
}

static void gather_rows(Case *c) {
  const char *kind;
  wv_expr dim, size;
  for (int i = 0; c->nbound < SYMBOLS && wv_kernel_row(c->k, i, &kind, &dim, &size); i++)
    if (strcmp(kind, "bind") == 0) c->bound[c->nbound++] = (wv_binding){dim, size};
  wv_resolve(c->cx, c->bound, c->nbound);
}

static wv_expr extent_of(wv_type t, int i) {
  wv_expr extent = wv_type_extent(t, i);
  return extent ? extent : wv_type_dim(t, i);
}

/* False: it is too large to be made, or not a size. */
static bool make_tensor(Case *c, wv_type t, int number) {
  int rank = wv_type_rank(t);
  if (rank > RANK) return false;
  int64_t *shape = ARENA_ARRAY(c->arena, int64_t, rank + 1), elements = 1, den;
  for (int i = 0; i < rank; i++) {
    wv_expr size = wv_expr_subst(c->cx, extent_of(t, i), c->bound, c->nbound);
    if (!size || !wv_expr_constant(size, &shape[i], &den) || den != 1 || shape[i] < 0) return false;
    if (shape[i] > ELEMENTS / elements) return false;
    elements *= shape[i] ? shape[i] : 1;
  }
  size_t bytes = wv_data_bytes(wv_type_dtype(t), elements);
  void *data = arena_alloc(c->arena, bytes + 16);
  memset(data, below(&c->r, 4) ? 0 : (int)below(&c->r, 256), bytes);
  c->buffers[number] = (wv_buffer){data, wv_type_dtype(t), rank, shape, NULL};
  c->tensors[number] = (wv_tensor){.data = data,
                                   .shape = shape,
                                   .rank = rank,
                                   .dtype = wv_dtype_find(wv_type_dtype(t)),
                                   .device = {WV_HOST, 0}};
  return true;
}

static bool make_args(Case *c) {
  const char *name;
  wv_type t;
  bool output;
  for (int i = 0; wv_kernel_param(c->k, i, &name, &t, &output); i++)
    for (int d = 0; strcmp(wv_type_kind(t), "mem") == 0 && d < wv_type_rank(t); d++)
      bind_symbols(c, extent_of(t, d));
  c->nchosen = c->nbound;
  gather_rows(c);
  for (int i = 0; wv_kernel_param(c->k, i, &name, &t, &output); i++) {
    if (i == PARAMS) return false;
    bool memory = strcmp(wv_type_kind(t), "mem") == 0;
    if (memory && !make_tensor(c, t, i)) return false;
    int64_t n = any_size(c);
    c->args[i] = (wv_arg){memory ? &c->buffers[i] : NULL, (double)n, n};
    c->given[i] = (wv_launch_arg){memory ? &c->tensors[i] : NULL, (double)n, n};
    c->nargs = i + 1;
  }
  return true;
}

/* ---- a finding, for `wavec again` ---- */

static char now_running[200], now_options[2000];
static const char *now_text;

static void show_finding(FILE *out, const char *problem) {
  fprintf(out, "%s: %s\n--- for `wavec again`:\n# wavec again: %s\n%s\n---\n", now_running, problem,
          now_options, now_text);
}

/* Sizes that come from arguments are given only to a run: they would be constants otherwise. */
static void add_sizes(const Case *c, StrBuf *out, bool runs) {
  for (int i = 0; i < c->nchosen; i++)
    if (c->bound[i].to && (runs || !is_row(c, "dynamic", c->bound[i].from)))
      sb_printf(out, " --set %s=%s", wv_expr_name(c->bound[i].from),
                wv_expr_text(c->cx, c->bound[i].to));
}

static void add_scalars(const Case *c, StrBuf *out) {
  const char *name;
  wv_type t;
  bool output;
  for (int i = 0; i < c->nargs && wv_kernel_param(c->k, i, &name, &t, &output); i++)
    if (!c->args[i].buffer) sb_printf(out, " --arg %s=%" PRId64, name, c->args[i].integer);
}

/* `how`: the options of wavec that do what is about to be done. */
static void note_options(const Case *c, const char *how) {
  bool runs = strncmp(how, "run", 3) == 0;
  StrBuf text = {.arena = c->arena};
  sb_printf(&text, "%s", how);
  add_sizes(c, &text, runs);
  if (runs) add_scalars(c, &text);
  snprintf(now_options, sizeof now_options, "%s", sb_text(&text));
  if (getenv("FUZZ_LOUD")) fprintf(stderr, "# wavec again: %s\n", now_options);
}

/* ---- what happens to a kernel ---- */

static const char *any_target(Random *r, bool of_lanes) {
  static const char *const lanes[] = {"sm_80",   "sm_90a",  "gfx90a", "gfx942", "gfx950",
                                      "gfx1100", "gfx1201", "toy8",   "toy1"};
  static const char *const threads[] = {"cpu_neon",   "cpu_neon_mm", "cpu_sve256",
                                        "cpu_avx512", "cpu_amx",     "cpu_sse"};
  return of_lanes ? lanes[below(r, WV_LEN(lanes))] : threads[below(r, WV_LEN(threads))];
}

static void evaluate(Case *c) {
  wv_eval_options o = {.interrupted = told_to_stop, .user = c};
  note_options(c, "run");
  wv_eval(c->k, c->args, c->nargs, &o);
}

static void simulate(Case *c, const char *target) {
  wv_sim_options o = {.target = target, .interrupted = told_to_stop, .user = c};
  static const char *const schedules[] = {"round", "reverse", "random:7"};
  wv_report *report = NULL;
  o.schedule = schedules[below(&c->r, WV_LEN(schedules))];
  note_options(c, arena_printf(c->arena, "run --target=sim:%s --schedule=%s", target, o.schedule));
  wv_sim(c->k, c->args, c->nargs, &o, below(&c->r, 2) ? &report : NULL);
  if (report) wv_report_text(report), wv_report_json(report);
  wv_report_free(report);
}

/* The author is responsible for the accesses: of one lane's program, or of those without tests. */
static bool is_trusted(Case *c) {
  char *text = wv_print(c->k);
  bool untested = text && strstr(text, "bounds = {}");
  wv_free(text);
  return untested || strcmp(wv_kernel_level(c->k), "tile") != 0;
}

static void launch(Case *c) {
  wv_compile_options o = {.target = "cpu", .cache = -1};
  if (is_trusted(c)) return;
  note_options(c, "run --target=cpu");
  wv_program *p = wv_compile(c->k, &o);
  wv_ctx_interrupt(c->cx, told_to_stop, c);
  if (p) wv_launch(p, c->cx, c->given, c->nargs, NULL, 0);
  wv_program_free(p);
}

static void lower_and_run(Case *c, bool runs) {
  bool of_lanes = below(&c->r, 3);
  const char *target = any_target(&c->r, of_lanes);
  const char *emit = !of_lanes ? "llvm" : strncmp(target, "sm_", 3) == 0 ? "ptx" : "none";
  wv_pass_options o = {.target = target, .verify_each = true};
  note_options(
      c, arena_printf(c->arena, "--target=%s --passes=all --verify=each --emit=%s", target, emit));
  if (!wv_lower(c->k, &o)) return;
  if (strcmp(emit, "llvm") == 0) wv_free(wv_emit_llvm(c->k, target, below(&c->r, 2)));
  if (strcmp(emit, "ptx") == 0) wv_free(wv_emit_ptx(c->k, target, below(&c->r, 2)));
  if (runs) simulate(c, target);
}

static void use_kernel(Case *c) {
  bool runs = make_args(c);
  int how = (int)below(&c->r, 16);
  c->until = os_seconds() + LONG;
  note_options(c, "--emit=wave");
  wv_verify(c->k);
  wv_free(wv_print(c->k));
  if (runs && how < 3) evaluate(c);
  else if (runs && how == 3) launch(c);
  else lower_and_run(c, runs);
}

/* NULL, or what is wrong. */
static const char *problem_of(Case *c) {
  wv_diag d;
  for (int i = 0; wv_diag_get(c->cx, i, &d); i++)
    if (d.code[0] == 'I' && strcmp(d.code, "I0003") != 0)
      return arena_printf(c->arena, "%s %s", d.code, d.text);
  return NULL;
}

static const char *run_case(Case *c, const char *text) {
  wv_kernel *found[4] = {0};
  int n = wv_parse(c->cx, "case", text, found, (int)WV_LEN(found));
  for (int i = 0; i < n && i < (int)WV_LEN(found); i++) {
    c->k = found[i];
    c->nbound = c->nargs = 0;
    if (!problem_of(c)) use_kernel(c);
    wv_kernel_free(found[i]);
  }
  return problem_of(c);
}

/* ---- the main program ---- */

static void ended_badly(int number) {
  bool hangs = number == SIGALRM || number == SIGPROF;
  show_finding(stderr, hangs ? "it hangs" : strsignal(number));
  fflush(stderr);
  _Exit(1);
}

/* A case that waits forever takes no CPU time. */
static void set_alarms(int seconds) {
  struct itimerval t = {.it_value.tv_sec = seconds};
  setitimer(ITIMER_PROF, &t, NULL);
  alarm((unsigned)seconds * 10);
}

typedef struct Settings {
  uint64_t seed, count;
  double seconds; /* 0: no limit */
} Settings;

static bool run_number(const Corpus *corpus, uint64_t seed) {
  Case c = {.r = {seed * UINT64_C(0x9e3779b97f4a7c15)}, .arena = arena_new(), .cx = wv_ctx_new()};
  const char *text = any_of_corpus(corpus, &c.r);
  for (size_t i = below(&c.r, CHANGES + 1); i; i--) text = change_one(&c.r, c.arena, text);
  snprintf(now_running, sizeof now_running, "case %" PRIu64, seed);
  if (getenv("FUZZ_LOUD")) fprintf(stderr, "%s\n%s\n", now_running, text);
  now_text = text, now_options[0] = '\0';
  set_alarms(PATIENCE);
  double began = cpu_seconds();
  const char *problem = run_case(&c, text);
  if (!problem && cpu_seconds() - began > PATIENCE / 3.0) problem = "it takes too long";
  set_alarms(0);
  if (problem) show_finding(stdout, problem);
  wv_ctx_free(c.cx);
  arena_free(c.arena);
  return !problem;
}

static int fuzz(const Corpus *corpus, const Settings *s) {
  uint64_t n = 0, failed = 0;
  double began = os_seconds();
  for (; n < s->count && failed < 10; n++) {
    if (s->seconds > 0 && os_seconds() - began > s->seconds) break;
    failed += !run_number(corpus, s->seed + n);
  }
  printf("%" PRIu64 " passed, %" PRIu64 " failed\n", n - failed, failed);
  return failed != 0;
}

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
#endif

/* Memory is limited, so that an unchecked size exhausts it here and not on the whole machine. */
static void guard(void) {
  static const int signals[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGALRM, SIGPROF};
  for (size_t i = 0; i < WV_LEN(signals); i++) signal(signals[i], ended_badly);
#if !defined(__SANITIZE_ADDRESS__)
  struct rlimit most = {(rlim_t)4 << 30, (rlim_t)4 << 30};
  setrlimit(RLIMIT_AS, &most);
#endif
}

int main(int argc, char **argv) {
  Settings s = {.seed = 1, .count = 1000};
  Corpus corpus = {.arena = arena_new()};
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (more && strcmp(argv[i], "--seed") == 0) s.seed = strtoull(argv[++i], NULL, 10);
    else if (more && strcmp(argv[i], "--count") == 0) s.count = strtoull(argv[++i], NULL, 10);
    else if (more && strcmp(argv[i], "--seconds") == 0)
      s.seconds = strtod(argv[++i], NULL), s.count = UINT64_MAX;
    else add_file(&corpus, argv[i]);
  }
  static const char *const folders[] = {"run", "ir", "oracle", "diag", "llvm", "ptx"};
  if (!corpus.texts.n) add_tests(&corpus, __FILE__, folders, WV_LEN(folders));
  guard();
  if (!corpus.texts.n) fprintf(stderr, "fuzz_numbers: there are no kernels to change\n");
  int status = corpus.texts.n ? fuzz(&corpus, &s) : 2;
  arena_free(corpus.arena);
  return status;
}
