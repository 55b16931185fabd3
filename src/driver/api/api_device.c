/* api_device.c: devices and the cache through wave.h. */
#include <stdio.h>

#include "driver/api/api.h"
#include "runtime/cache/cache.h"
#include "runtime/device.h"

_Static_assert((int)WV_HOST == (int)DEVICE_HOST && (int)WV_CUDA == (int)DEVICE_CUDA &&
                   (int)WV_HIP == (int)DEVICE_HIP,
               "DLPack");

/* ---- devices ---- */

int wv_device_kind(int i) {
  API_PLAIN;
  const DeviceKind *k = device_kind_at(i);
  return k ? k->number : 0;
}

const char *wv_device_kind_name(int kind) {
  API_PLAIN;
  const DeviceKind *k = device_kind(kind);
  return k ? k->name : NULL;
}

/* Opened on first use; freed with the context. NULL after reporting. */
static Device *device_of(wv_ctx *cx, int kind, const DeviceReport *r) {
  const DeviceKind *k = device_kind(kind);
  for (int i = 0; i < (int)WV_LEN(cx->devices); i++) {
    if (cx->devices[i] && cx->devices[i]->kind == k) return cx->devices[i];
    if (k && !cx->devices[i]) return cx->devices[i] = device_owned(device_open(k, r));
  }
  diag_add(r->diags, DIAG_E0906, r->at, "unknown kind of device %d", kind);
  return NULL;
}

static DeviceReport report_in(wv_ctx *cx) { return (DeviceReport){.diags = &cx->cx->diags}; }

/* Asking is not a mistake: without a driver there are none. */
int wv_device_count(wv_ctx *cx, int kind) {
  API_CHANGES(cx, 0);
  Diags unheard = {.arena = arena_new(), .sources = &cx->cx->sources};
  DeviceReport r = {.diags = &unheard};
  Device *d = device_of(cx, kind, &r);
  arena_free(unheard.arena);
  return d ? d->kind->count(d) : 0;
}

bool wv_device_get(wv_ctx *cx, wv_device which, wv_device_info *out) {
  API_CHANGES(cx, false);
  DeviceReport r = report_in(cx);
  DeviceFacts facts;
  Device *d = device_of(cx, which.kind, &r);
  if (!d || !d->kind->facts(d, which.index, &facts, &r)) return false;
  *out = (wv_device_info){
      .target = facts.target, .memory = facts.memory, .units = facts.units, .driver = facts.driver};
  snprintf(out->name, sizeof out->name, "%s", facts.name);
  return true;
}

void *wv_device_alloc(wv_ctx *cx, wv_device which, size_t bytes) {
  API_CHANGES(cx, NULL);
  DeviceReport r = report_in(cx);
  Device *d = device_of(cx, which.kind, &r);
  return d ? d->kind->alloc(d, which.index, bytes, &r) : NULL;
}

void wv_device_release(wv_ctx *cx, wv_device which, void *memory) {
  API_CHANGES(cx, );
  DeviceReport r = report_in(cx);
  Device *d = device_of(cx, which.kind, &r);
  if (d) d->kind->release(d, which.index, memory, &r);
}

bool wv_device_copy(wv_ctx *cx, wv_device which, void *to, const void *from, size_t bytes) {
  API_CHANGES(cx, false);
  DeviceReport r = report_in(cx);
  Device *d = device_of(cx, which.kind, &r);
  return d && d->kind->copy(d, which.index, to, from, bytes, &r);
}

bool wv_device_wait(wv_ctx *cx, wv_device which, void *stream) {
  API_CHANGES(cx, false);
  DeviceReport r = report_in(cx);
  Device *d = device_of(cx, which.kind, &r);
  return d && d->kind->wait(d, which.index, stream, &r);
}

/* ---- the cache ---- */

const char *wv_cache_dir(wv_ctx *cx) {
  API_CHANGES(cx, NULL);
  Arena *a = arena_new();
  const char *dir = cache_settings(a, 0, NULL).dir;
  dir = dir ? intern(&cx->cx->names, dir) : "";
  arena_free(a);
  return dir;
}

int64_t wv_cache_limit(wv_ctx *cx) {
  API_CHANGES(cx, 0);
  Arena *a = arena_new();
  int64_t limit = cache_settings(a, 0, NULL).limit;
  arena_free(a);
  return limit;
}

int wv_cache_each(wv_ctx *cx, const char *dir, void (*each)(void *user, const wv_cache_entry *e),
                  void *user) {
  API_CHANGES(cx, 0);
  Arena *a = arena_new();
  CacheEntry *entries;
  int n = cache_list(a, dir ? dir : wv_cache_dir(cx), &entries);
  for (int i = 0; i < n; i++) {
    const CacheEntry *e = &entries[i];
    wv_cache_entry shown = {
        e->path, e->art ? e->art->name : "", e->art ? e->art->target : "", e->bytes, e->damage,
        e->used};
    Landing out;
    landing_call_out(&out);
    each(user, &shown);
    landing_back(&out);
  }
  arena_free(a);
  return n;
}

int wv_cache_clear(wv_ctx *cx, const char *dir) {
  API_CHANGES(cx, 0);
  return cache_clear(dir ? dir : wv_cache_dir(cx));
}
