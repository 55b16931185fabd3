/* cuda_module.c: PTX becomes code on a device. The driver compiles it, or finds it in its own
 * cache; this happens here, once, and not at the first launch. */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cuda_driver.h"

enum { LOG_BYTES = 16384 };

typedef struct Logs {
  char info[LOG_BYTES], errors[LOG_BYTES];
} Logs;

static int load_module(CudaState *s, const char *ptx, void **module, Logs *logs) {
  int options[] = {CUDA_JIT_INFO, CUDA_JIT_INFO_BYTES, CUDA_JIT_ERRORS, CUDA_JIT_ERRORS_BYTES,
                   CUDA_JIT_VERBOSE};
  void *values[] = {logs->info, (void *)(uintptr_t)LOG_BYTES, logs->errors,
                    (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)1};
  int error = s->f.module_load(module, ptx, WV_LEN(options), options, values);
  logs->info[LOG_BYTES - 1] = logs->errors[LOG_BYTES - 1] = '\0';
  return error;
}

/* Adds the lines of a text as notes to a diagnostic. */
static void note_lines(const DeviceReport *r, Diag *d, const char *text) {
  for (size_t len; *text; text += len + (text[len] == '\n')) {
    len = strcspn(text, "\n");
    if (len) diag_note(r->diags, d, (Span){0}, "%.*s", (int)len, text);
  }
}

/* The name of a file that the PTX numbers; *len is 0: not found. */
static const char *file_name(const char *ptx, int file, int *len) {
  char row[32];
  int n = snprintf(row, sizeof row, "\n.file %d \"", file);
  const char *at = strstr(ptx, row);
  *len = at ? (int)strcspn(at + n, "\"") : 0;
  return at ? at + n : "";
}

/* The driver counts lines of the PTX; the last `.loc` before a line gives its source place. */
static void note_place(const DeviceReport *r, Diag *d, const char *ptx, int number) {
  int file = 0, line = 0, f, l, len;
  const char *at = ptx;
  for (int i = 1; i < number && *at; i++) {
    if (sscanf(at, " .loc %d %d", &f, &l) == 2) file = f, line = l;
    at += strcspn(at, "\n");
    if (*at) at++;
  }
  const char *name = file ? file_name(ptx, file, &len) : NULL;
  if (!name || !len) return;
  diag_note(r->diags, d, (Span){0}, "line %d of the PTX comes from %.*s:%d: %.*s", number, len,
            name, line, (int)strcspn(at + strspn(at, "\t "), "\n"), at + strspn(at, "\t "));
}

static void note_places(const DeviceReport *r, Diag *d, const char *log, const char *ptx) {
  int number;
  for (const char *at = log; (at = strstr(at, "line ")); at++)
    if (sscanf(at, "line %d;", &number) == 1) note_place(r, d, ptx, number);
}

static void report_refused(CudaState *s, int error, const Logs *logs, const char *ptx,
                           const DeviceReport *r) {
  const char *name = NULL;
  s->f.error_name(error, &name);
  Diag *d = diag_add(r->diags, DIAG_E0903, r->at, "the driver rejects `%s`: %s", r->kernel,
                     name ? name : "unknown error");
  note_lines(r, d, logs->errors);
  note_places(r, d, logs->errors, ptx);
  if (error == GPU_NO_BINARY)
    diag_hint(r->diags, d,
              "it was compiled for another device: compile it for this device's target");
  if (error == CUDA_PTX_TOO_NEW) diag_hint(r->diags, d, "install a newer driver");
}

/* What the driver's compiler advises (its messages C75xx: serialised matrix instructions, registers
 * that are not reallocated) affects speed, not results. */
static void remark_advice(const Logs *logs, const DeviceReport *r) {
  const char *line = logs->info;
  for (size_t len; *line; line += len + (line[len] == '\n')) {
    len = strcspn(line, "\n");
    const char *code = strstr(line, "(C75");
    if (code && code < line + len)
      diag_add(r->diags, DIAG_R0901, r->at, "`%s`: %.*s", r->kernel, (int)(line + len - code),
               code);
  }
}

static int get_function(CudaState *s, const ArtVariant *v, DeviceCode *out) {
  int error = s->f.function(&out->function, out->module, v->entry), clusters = 1;
  for (int i = 0; i < 3; i++) clusters *= v->cluster[i] > 1 ? v->cluster[i] : 1;
  /* The default limit is 48 KB, including static shared memory, whose size is not known here. */
  if (!error && v->shared)
    error = s->f.function_set(out->function, CUDA_FUNCTION_DYNAMIC_SHARED, v->shared);
  if (!error && clusters > 8)
    error = s->f.function_set(out->function, CUDA_FUNCTION_LARGE_CLUSTERS, 1);
  /* With lazy loading the driver would load the function in a launch, or in a capture. */
  if (!error && s->f.function_load) error = s->f.function_load(out->function);
  return error;
}

static void remark_loaded(CudaState *s, const DeviceCode *code, const Logs *logs,
                          const DeviceReport *r) {
  remark_advice(logs, r);
  gpu_remark_spills(&s->gpu, code, r);
  if (s->cache_is_off)
    diag_add(r->diags, DIAG_R0902, r->at,
             "CUDA_CACHE_DISABLE is set: the driver compiles `%s` again in every process",
             r->kernel);
}

static bool load_text(CudaState *s, const ArtVariant *v, const char *ptx, DeviceCode *out,
                      const DeviceReport *r) {
  Arena *a = arena_new();
  Logs *logs = ARENA_NEW(a, Logs);
  int error = load_module(s, ptx, &out->module, logs);
  if (error) report_refused(s, error, logs, ptx, r);
  else if ((error = get_function(s, v, out)))
    gpu_report(&s->gpu, error, "the driver cannot load its function", r);
  if (!error) remark_loaded(s, out, logs, r);
  arena_free(a);
  return !error;
}

/* ---- workgroups that wait for each other ---- */

/* The number of workgroups of every launch; 0: it depends on arguments. */
static int64_t known_workgroups(const ArtVariant *v) {
  int64_t all = 1;
  for (int i = 0; i < 3; i++) {
    const HostStep *n = &v->program.step[v->program.result[v->grid[i]]];
    if (n->kind != HOST_CONST || n->value < 0 || n->value > INT32_MAX || all > INT32_MAX) return 0;
    all *= n->value;
  }
  return all;
}

/* How many workgroups each SM must hold for all to run concurrently; 0: it already does. */
static int64_t wanted_together(CudaState *s, const ArtVariant *v, const DeviceCode *code) {
  int held = 0, units = 0, threads = v->block[0] * v->block[1] * v->block[2];
  int64_t all = v->together ? known_workgroups(v) : 0;
  if (!all || s->f.occupancy(&held, code->function, threads, (size_t)v->shared)) return 0;
  int error = s->f.device_attr(&units, CUDA_DEVICE_UNITS, s->gpu.device[code->device]);
  if (error || units < 1) return 0;
  int64_t wanted = (all + units - 1) / units;
  return wanted > held ? wanted : 0;
}

/* The text with the register limit that this requires: the directive after `.maxntid`. */
static const char *with_workgroups(Arena *a, const char *ptx, int64_t wanted) {
  static const char word[] = ".minnctapersm ";
  const char *row = strstr(ptx, "\n.maxntid "), *rest;
  row = row ? strchr(row + 1, '\n') : NULL;
  if (!row) return NULL;
  rest = strncmp(++row, word, strlen(word)) == 0 ? row + strcspn(row, "\n") : row - 1;
  return arena_printf(a, "%.*s%s%lld%s", (int)(row - ptx), ptx, word, (long long)wanted, rest);
}

/* If not all workgroups that wait for each other fit, registers are spilled until they do. If that
 * is not possible, the launch is refused. */
static bool load_together(CudaState *s, const ArtVariant *v, DeviceCode *out,
                          const DeviceReport *r) {
  int64_t wanted = wanted_together(s, v, out);
  if (!wanted) return true;
  Arena *a = arena_new();
  const char *ptx = with_workgroups(a, v->code, wanted);
  bool ok = true;
  if (ptx) {
    gpu_unload_here(&s->gpu, out);
    ok = load_text(s, v, ptx, out, r);
    if (ok)
      diag_add(r->diags, DIAG_R0901, r->at,
               "`%s`: register count reduced so that %lld workgroups that wait for each other fit "
               "at once",
               r->kernel, (long long)known_workgroups(v));
  }
  arena_free(a);
  return ok;
}

bool cuda_load(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r) {
  CudaState *s = cuda_state(g);
  return load_text(s, v, v->code, out, r) && load_together(s, v, out, r);
}
