/* wavec_npy.c: NumPy's file format, version 1: a magic word, a Python dictionary, the elements.
 * Element types that NumPy does not know travel as integers of their width. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

static const char magic[] = "\x93NUMPY";

typedef struct Descr {
  const char *dtype, *descr;
} Descr;

static const Descr descrs[] = {{"f64", "<f8"}, {"f32", "<f4"},  {"f16", "<f2"}, {"bf16", "<u2"},
                               {"i64", "<i8"}, {"i32", "<i4"},  {"i16", "<i2"}, {"i8", "|i1"},
                               {"i1", "|b1"},  {"index", "<i8"}};

/* ---- reading ---- */

/* What follows 'key': in the dictionary. */
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  at = at ? strchr(at, ':') : NULL;
  return at ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool parse_descr(const char *header, Array *out) {
  const char *descr = value_of(header, "'descr'");
  if (!descr || descr[0] != '\'' || !strchr("<|", descr[1]) || !descr[1]) return false;
  long size = descr[2] ? strtol(descr + 3, NULL, 10) : 0;
  out->itemsize = size > 0 && size <= 8 ? (size_t)size : 0;
  return out->itemsize > 0;
}

static bool parse_shape(const char *header, Array *out) {
  const char *at = value_of(header, "'shape'");
  if (!at || *at != '(') return false;
  int64_t elements = 1;
  for (at++; *at && *at != ')'; at += strspn(at, ", ")) {
    char *end;
    long long n = strtoll(at, &end, 10);
    if (end == at || n < 0 || out->rank == NPY_RANK || (n && elements > (INT64_C(1) << 40) / n))
      return false;
    out->shape[out->rank++] = n;
    elements *= n;
    at = end;
  }
  out->bytes = (size_t)elements * out->itemsize;
  return *at == ')';
}

static void set_strides(Array *a, bool fortran) {
  int64_t stride = 1;
  for (int i = 0; i < a->rank; i++) {
    int d = fortran ? i : a->rank - 1 - i;
    a->strides[d] = stride;
    stride *= a->shape[d];
  }
}

static bool read_header(FILE *f, Array *out) {
  unsigned char start[10];
  char header[4096];
  if (fread(start, 1, 10, f) != 10 || memcmp(start, magic, 6) != 0 || start[6] != 1) return false;
  size_t n = start[8] | (size_t)start[9] << 8;
  if (n >= sizeof header || fread(header, 1, n, f) != n) return false;
  header[n] = '\0';
  const char *order = value_of(header, "'fortran_order'");
  if (!order || !parse_descr(header, out) || !parse_shape(header, out)) return false;
  set_strides(out, strncmp(order, "True", 4) == 0);
  return true;
}

bool npy_read(const char *path, Array *out) {
  FILE *f = fopen(path, "rb");
  if (!f) return complain("cannot read %s", path);
  *out = (Array){0};
  bool ok = read_header(f, out);
  out->data = ok ? malloc(out->bytes + 1) : NULL;
  ok = out->data && fread(out->data, 1, out->bytes, f) == out->bytes;
  fclose(f);
  if (ok) return true;
  free(out->data);
  out->data = NULL;
  return complain("%s is not a whole .npy file of version 1", path);
}

/* ---- writing ---- */

static const char *descr_of(const char *dtype) {
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
    if (strcmp(descrs[i].dtype, dtype) == 0) return descrs[i].descr;
  return NULL;
}

/* The dictionary, padded so that the elements begin at a multiple of 64 bytes. Packed types are a
 * row of bytes. */
static int make_header(const Array *a, const char *dtype, char *out, size_t cap) {
  const char *descr = descr_of(dtype);
  char shape[256] = "";
  for (int i = 0; descr && i < a->rank; i++)
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,", (long long)a->shape[i]);
  if (!descr) snprintf(shape, sizeof shape, "%zu,", a->bytes);
  int n = snprintf(out, cap, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                   descr ? descr : "|u1", shape);
  while ((10 + n + 1) % 64 != 0) out[n++] = ' ';
  out[n++] = '\n';
  return n;
}

bool npy_write(const char *path, const Array *a, const char *dtype) {
  FILE *f = fopen(path, "wb");
  if (!f) return complain("cannot write %s", path);
  char header[512];
  int n = make_header(a, dtype, header, sizeof header - 64);
  unsigned char start[10] = {0};
  memcpy(start, magic, 6);
  start[6] = 1;
  start[8] = (unsigned char)(n & 255);
  start[9] = (unsigned char)(n >> 8);
  bool ok = fwrite(start, 1, 10, f) == 10 && fwrite(header, 1, (size_t)n, f) == (size_t)n &&
            fwrite(a->data, 1, a->bytes, f) == a->bytes;
  ok = fclose(f) == 0 && ok;
  return ok || complain("cannot write %s", path);
}
