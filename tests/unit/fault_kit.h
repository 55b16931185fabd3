/* fault_kit.h: calls of wave.h that fail on purpose: the n-th allocation or assertion of a piece of
 * work, while another thread launches. Afterwards the call must have reported it, its context must
 * say that it can no longer be used, a new context must be able to do the same work, and nothing
 * may be leaked or left open.
 *
 * A fault is set for one thread and happens once. */
#ifndef WV_FAULT_KIT_H
#define WV_FAULT_KIT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wave.h"

enum { FAULT_M = 20, FAULT_N = 24, FAULT_K = 18 };

static const char fault_gemm[] =
    "kernel @gemm(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
    "  workgroup M by 16 on 0;  workgroup N by 16 on 1;  tile K by 16\n"
    "  wave M by 16;  wave N by 16;  hardware threads 64, mma F32_16x16x16_F16\n"
    "  dynamic M, N, K; assume K > 2\n"
    "{\n  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %r = for K carry %acc = %z {\n"
    "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n  }\n"
    "  write %r, %c\n}\n";

/* The same without a loop: it is compiled when K is known. */
static const char fault_whole[] =
    "kernel @gemm(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
    "  workgroup M by 16 on 0;  workgroup N by 16 on 1\n"
    "  hardware threads 64, mma F32_16x16x16_F16\n"
    "  dynamic M, N, K\n"
    "{\n  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %x = read %a\n  %y = read %b\n  %r = mma %x, %y, %z\n  write %r, %c\n}\n";

static const char fault_scale[] =
    "thread kernel @scale(%a: mem<M, N, f32>, %b: mem<M, N, f32>, %s: f32)\n"
    "  launch grid (M, N) block (1) wave 1\n  dynamic M, N\n"
    "{\n  %at = expr $WG0*N + $WG1 : index\n"
    "  %x = load %a, %at : f32\n  %y = mul %x, %s\n  store %y, %b, %at\n}\n";

/* ---- arguments ---- */

typedef struct FaultArgs {
  uint16_t a[FAULT_M * FAULT_K], b[FAULT_N * FAULT_K * 2]; /* ones, as f16 */
  float c[FAULT_M * FAULT_N];
  int64_t shape[3][2], strides[3][2];
} FaultArgs;

static inline void fault_args(FaultArgs *x, int stride) {
  const int64_t shapes[3][2] = {{FAULT_M, FAULT_K}, {FAULT_N, FAULT_K}, {FAULT_M, FAULT_N}};
  *x = (FaultArgs){0};
  for (size_t i = 0; i < sizeof x->a / sizeof *x->a; i++) x->a[i] = 0x3c00;
  for (size_t i = 0; i < sizeof x->b / sizeof *x->b; i++) x->b[i] = 0x3c00;
  memcpy(x->shape, shapes, sizeof shapes);
  for (int i = 0; i < 3; i++) x->strides[i][0] = shapes[i][1], x->strides[i][1] = 1;
  x->strides[1][0] *= stride, x->strides[1][1] = stride;
}

static inline bool fault_result(const FaultArgs *x) {
  for (int i = 0; i < FAULT_M * FAULT_N; i++)
    if (x->c[i] != (float)FAULT_K) return false;
  return true;
}

static inline void fault_buffers(FaultArgs *x, wv_buffer *b, wv_arg *args) {
  void *data[] = {x->a, x->b, x->c};
  for (int i = 0; i < 3; i++) {
    b[i] = (wv_buffer){data[i], i < 2 ? "f16" : "f32", 2, x->shape[i], x->strides[i]};
    args[i] = (wv_arg){.buffer = &b[i]};
  }
}

static inline bool fault_launch(wv_program *p, wv_ctx *cx, int stride) {
  FaultArgs x;
  wv_tensor t[3];
  wv_launch_arg args[3];
  fault_args(&x, stride);
  void *data[] = {x.a, x.b, x.c};
  for (int i = 0; i < 3; i++) {
    t[i] = (wv_tensor){
        data[i], x.shape[i], x.strides[i], 2, wv_dtype_find(i < 2 ? "f16" : "f32"), {WV_HOST, 0}};
    args[i] = (wv_launch_arg){.tensor = &t[i]};
  }
  return wv_launch(p, cx, args, 3, NULL, 0) && fault_result(&x);
}

/* ---- pieces of work: true if nothing failed ---- */

typedef struct FaultWork FaultWork;
struct FaultWork {
  const char *name;
  bool (*run)(wv_ctx *cx, const FaultWork *w);
  const char *text, *target; /* of fault_lower */
};

static inline bool fault_said(wv_ctx *cx, const char *code) {
  wv_diag d;
  for (int i = 0; i < wv_diag_count(cx); i++)
    if (wv_diag_get(cx, i, &d) && strcmp(d.code, code) == 0) return true;
  return false;
}

static inline bool fault_internal(wv_ctx *cx) {
  return fault_said(cx, "I0002") || fault_said(cx, "I0003");
}

/* For calls without a context, which only say that they failed. */
static inline void fault_note(wv_ctx *cx) {
  wv_diag_report(cx, "I0003", (wv_place){0}, "elsewhere", NULL);
}

static inline wv_kernel *fault_parsed(wv_ctx *cx, const char *text) {
  wv_kernel *k = NULL;
  wv_parse(cx, "fault.wave", text, &k, 1);
  return k;
}

static inline bool fault_text(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  wv_ctx *other = wv_ctx_new();
  wv_kernel *k = fault_parsed(cx, fault_gemm), *copy = wv_kernel_copy(k, other);
  wv_kernel *clone = wv_kernel_clone(k);
  char *text = wv_print(k);
  wv_constraint row = {.kind = "bind", .dim = wv_symbol(cx, "BLOCK", true), .size = wv_int(cx, 8)};
  bool ok = copy && text && wv_kernel_constrain(k, &row, 1) && wv_verify(k) && clone &&
            !wv_equal(k, clone);
  wv_proof *proof = wv_prove(clone);
  wv_proof_row bound;
  ok = ok && proof && wv_proof_get(proof, 0, &bound);
  wv_proof_free(proof);
  wv_free(text);
  wv_kernel_free(k);
  wv_kernel_free(clone);
  wv_kernel_free(copy);
  ok = ok && wv_ctx_usable(cx) && wv_ctx_usable(other);
  if (!other || fault_internal(other)) fault_note(cx);
  wv_ctx_free(other);
  return ok;
}

/* c = 2*a, over one dimension. */
static inline bool fault_build(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  wv_expr m = wv_symbol(cx, "M", true), block = wv_int(cx, 64);
  wv_builder *b = wv_build(cx, "twice", (wv_place){"kernel.py", 3, 1, 4});
  wv_constraint rows[] = {{.kind = "workgroup", .dim = m, .size = block},
                          {.kind = "wave", .dim = m, .size = block},
                          {.kind = "hardware", .threads = 64}};
  wv_type t = wv_mem_type(cx, &m, 1, "f32", NULL, NULL);
  wv_value *a = NULL, *c = NULL, *x = NULL, *y = NULL, *two = NULL, *none = NULL;
  bool ok = b != NULL;
  for (int i = 0; i < 3; i++) ok = ok && wv_add_constraint(b, &rows[i]);
  ok = ok && (a = wv_param(b, "a", t, NULL, (wv_place){0})) &&
       (c = wv_param(b, "c", t, NULL, (wv_place){0})) &&
       wv_op(b, "read", &a, 1, NULL, 0, NULL, (wv_place){0}, &x) &&
       (two = wv_literal(b, 2, 0, false, x, (wv_place){0})) &&
       wv_op(b, "mul", (wv_value *[]){x, two}, 2, NULL, 0, NULL, (wv_place){0}, &y) &&
       wv_value_add_tag(b, y, "product") &&
       wv_op(b, "write", (wv_value *[]){y, c}, 2, NULL, 0, NULL, (wv_place){0}, &none);
  if (!ok) return wv_abandon(b), false;
  wv_kernel *k = wv_finish(b);
  wv_kernel_free(k);
  return k && wv_ctx_usable(cx);
}

static inline bool fault_symbols(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  wv_expr e = wv_expr_parse(cx, "Min(M, 7)*(N + 3)//4 % (K + 1)"), m = wv_symbol(cx, "M", true);
  wv_expr fact = wv_expr_parse(cx, "M < 4");
  int64_t lo, hi;
  wv_binding b = {m, wv_int(cx, 12)};
  bool ok = e && m && fact && b.to && wv_expr_text(cx, e) && wv_expr_subst(cx, e, &b, 1) &&
            wv_expr_simplify(cx, e, &fact, 1) && wv_expr_prove(cx, fact, &fact, 1) == 1 &&
            wv_expr_range(cx, e, &fact, 1, &lo, &hi) && wv_resolve(cx, &b, 1);
  int symbols = ok ? wv_expr_symbols(e, NULL, 0) : 0;
  if (symbols < 0) fault_note(cx);
  ok = ok && symbols == 3;
  return ok && wv_ctx_usable(cx);
}

static inline bool fault_eval(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  FaultArgs x;
  wv_buffer b[3];
  wv_arg args[3];
  wv_kernel *k = fault_parsed(cx, fault_gemm);
  fault_args(&x, 2);
  fault_buffers(&x, b, args);
  bool ok = wv_eval(k, args, 3, NULL) && fault_result(&x);
  wv_kernel_free(k);
  return ok;
}

static inline bool fault_sim_on(wv_ctx *cx, const char *target) {
  FaultArgs x;
  wv_buffer b[3];
  wv_arg args[3];
  wv_report *report = NULL;
  wv_kernel *k = fault_parsed(cx, fault_gemm);
  fault_args(&x, 1);
  fault_buffers(&x, b, args);
  bool ok = wv_lower(k, &(wv_pass_options){.target = target, .verify_each = true}) &&
            wv_sim(k, args, 3, &(wv_sim_options){.target = target}, &report) && fault_result(&x) &&
            wv_report_text(report) && wv_report_json(report) && wv_report_html(report);
  wv_report_free(report);
  wv_kernel_free(k);
  return ok && wv_ctx_usable(cx);
}

static inline bool fault_sim_nvidia(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  return fault_sim_on(cx, "sm_90a");
}
static inline bool fault_sim_amd(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  return fault_sim_on(cx, "gfx942");
}

static inline void fault_unheard(void *user, const char *pass, const char *text) {
  wv_ctx *own = wv_ctx_new(); /* a callback may call anything */
  *(bool *)user &= wv_expr_parse(own, "M + 1") != NULL && text && pass;
  wv_ctx_free(own);
}

static inline bool fault_ptx(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  bool heard = true;
  wv_kernel *k = fault_parsed(cx, fault_gemm);
  wv_pass_options o = {.target = "sm_80", .dump = "all", .write = fault_unheard, .user = &heard};
  char *text = wv_run_passes(k, &o) ? wv_emit_ptx(k, "sm_80", false) : NULL;
  wv_free(text);
  wv_kernel_free(k);
  return text != NULL;
}

/* Compiled, launched as two variants, saved and loaded; through the cache, which is emptied. */
static inline bool fault_program(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  wv_kernel *k = fault_parsed(cx, fault_gemm);
  wv_program *p = wv_compile(k, &(wv_compile_options){.target = "cpu", .cache = 1});
  bool ok = p && fault_launch(p, cx, 1) && fault_launch(p, cx, 2) &&
            wv_program_text(p, cx, 0, "llvm") && wv_cache_clear(cx, NULL) > 0;
  wv_program_free(p);
  wv_kernel_free(k);
  return ok && wv_ctx_usable(cx);
}

/* The same for a program that is compiled when it is launched, and lowered when it is simulated. */
static inline bool fault_open(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  FaultArgs x;
  wv_buffer b[3];
  wv_arg args[3];
  wv_kernel *k = fault_parsed(cx, fault_whole);
  wv_program *p = wv_compile(k, &(wv_compile_options){.target = "cpu", .cache = 1});
  bool ok = p && fault_launch(p, cx, 1) && fault_launch(p, cx, 2) && wv_program_prepare(p, cx, 0) &&
            wv_cache_clear(cx, NULL) > 0;
  fault_args(&x, 1);
  fault_buffers(&x, b, args);
  for (int round = 0; ok && round < 2; round++)
    ok = wv_sim(k, args, 3, &(wv_sim_options){.target = "sm_90a"}, NULL) && fault_result(&x);
  wv_program_free(p);
  wv_kernel_free(k);
  return ok && wv_ctx_usable(cx);
}

static inline bool fault_saved(wv_ctx *cx, const FaultWork *w) {
  (void)w;
  size_t n = 0;
  wv_kernel *k = fault_parsed(cx, fault_scale);
  wv_program *p = wv_compile(k, &(wv_compile_options){.target = "cpu", .cache = -1}), *q = NULL;
  char *bytes = p ? wv_program_save(p, cx, &n) : NULL;
  if (bytes) q = wv_program_load(cx, bytes, n, 0);
  _Alignas(16) float a[] = {1, 2}, b[2] = {0};
  int64_t shape[] = {1, 2};
  wv_tensor x = {a, shape, NULL, 2, wv_dtype_find("f32"), {WV_HOST, 0}}, y = x;
  y.data = b;
  wv_launch_arg args[] = {{.tensor = &x}, {.tensor = &y}, {.number = 3}};
  bool ok = q && wv_launch(q, cx, args, 3, NULL, 0) && b[1] == 6;
  wv_free(bytes);
  wv_program_free(p);
  wv_program_free(q);
  wv_kernel_free(k);
  return ok;
}

/* Compiles all kernels of a text for a machine; errors are allowed. */
static inline bool fault_lower(wv_ctx *cx, const FaultWork *w) {
  enum { MOST = 8 };
  wv_kernel *k[MOST] = {0};
  int n = wv_parse(cx, w->name, w->text, k, MOST);
  for (int i = 0; i < n && i < MOST; i++) {
    wv_proof_free(wv_prove(k[i]));
    wv_program *p =
        wv_compile(k[i], &(wv_compile_options){.target = w->target, .device = -1, .cache = -1});
    wv_program_free(p);
    if (!p) wv_lower(k[i], &(wv_pass_options){.target = w->target});
    wv_kernel_free(k[i]);
  }
  return wv_ctx_usable(cx);
}

static const FaultWork fault_works[] = {
    {.name = "symbols", .run = fault_symbols},
    {.name = "text", .run = fault_text},
    {.name = "build", .run = fault_build},
    {.name = "eval", .run = fault_eval},
    {.name = "sim sm_90a", .run = fault_sim_nvidia},
    {.name = "sim gfx942", .run = fault_sim_amd},
    {.name = "ptx", .run = fault_ptx},
    {.name = "program", .run = fault_program},
    {.name = "open", .run = fault_open},
    {.name = "saved", .run = fault_saved},
};
enum { FAULT_WORKS = sizeof fault_works / sizeof *fault_works };
static const char *const fault_kinds[] = {"malloc", "alloc", "assert", "site"};
enum { FAULT_KINDS = 4 };

/* ---- one fault ---- */

static inline int fault_open_files(void) {
  DIR *d = opendir("/proc/self/fd");
  int n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

/* Whether more files than this stay open. The C library opens one for a moment when the thread that
 * launches meanwhile allocates memory for the first time. */
static inline bool fault_leaks(int files) {
  for (int i = 0; i < 1000; i++) {
    if (fault_open_files() <= files) return false;
    usleep(1000);
  }
  return true;
}

/* How often the fault can happen; -1: not at all in this build, or the work does not run here. */
static inline long fault_count(const FaultWork *w, const char *kind) {
  wv_ctx *cx = wv_ctx_new();
  if (wv_test_fault(kind, 0) < 0) return wv_ctx_free(cx), -1;
  bool ok = w->run(cx, w);
  long n = wv_test_fault("malloc", 0);
  if (!ok) {
    wv_diag d;
    for (int i = 0; i < wv_diag_count(cx); i++)
      if (wv_diag_get(cx, i, &d)) printf("%s", d.rendered);
  }
  wv_ctx_free(cx);
  return ok ? n : -1;
}

/* Makes the n-th fail. NULL: everything is as expected; else what is not. */
static inline const char *fault_try(const FaultWork *w, const char *kind, long n) {
  int files = fault_open_files();
  wv_ctx *cx = wv_ctx_new();
  wv_test_fault(kind, n);
  bool ok = w->run(cx, w);
  bool happened = wv_test_fault("malloc", 0) >= n;
  const char *wrong = NULL;
  if (happened && !fault_internal(cx) && !ok) wrong = "it failed without a diagnostic";
  bool broken = !wv_ctx_usable(cx);
  if (broken && (wv_int(cx, 1) || !fault_said(cx, "E0002"))) wrong = "the context is still usable";
  if (!happened && !ok) wrong = "it failed without a fault";
  wv_ctx_free(cx);
  if (!wrong && fault_leaks(files)) wrong = "a file is still open";
  return wrong;
}

/* ---- a separate cache ---- */

static inline int fault_unlink(const char *path, const struct stat *info, int kind,
                               struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

/* `folder` is a name as mkdtemp takes it. */
static inline void fault_open_cache(char *folder) {
  if (mkdtemp(folder)) setenv("WAVE_CACHE_DIR", folder, 1);
}

static inline void fault_close_cache(const char *folder) {
  nftw(folder, fault_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- meanwhile ---- */

typedef struct FaultMeanwhile {
  wv_ctx *cx;
  wv_kernel *k;
  wv_program *p;
  pthread_t thread;
  atomic_bool stop, wrong;
  atomic_long launches;
} FaultMeanwhile;

static inline void *fault_launch_on(void *user) {
  FaultMeanwhile *m = user;
  while (!atomic_load(&m->stop)) {
    if (!fault_launch(m->p, m->cx, 1)) atomic_store(&m->wrong, true);
    atomic_fetch_add(&m->launches, 1);
    usleep(200); /* the others need a CPU as well */
  }
  return NULL;
}

/* Without a libLLVM there is nothing to launch. */
static inline bool fault_begin(FaultMeanwhile *m) {
  *m = (FaultMeanwhile){.cx = wv_ctx_new()};
  m->k = fault_parsed(m->cx, fault_gemm);
  m->p = wv_compile(m->k, &(wv_compile_options){.target = "cpu", .cache = -1});
  return m->p && pthread_create(&m->thread, NULL, fault_launch_on, m) == 0;
}

static inline bool fault_end(FaultMeanwhile *m) {
  atomic_store(&m->stop, true);
  if (m->p) pthread_join(m->thread, NULL);
  wv_program_free(m->p);
  wv_kernel_free(m->k);
  wv_ctx_free(m->cx);
  return !atomic_load(&m->wrong);
}

#endif
