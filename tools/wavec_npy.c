/* wavec_npy.c: NumPy's file format: a magic word, a Python dictionary, the elements. Element types
 * that NumPy does not have are stored as integers of their width, packed ones as rows of bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

static const char magic[] = "\x93NUMPY";

typedef struct Descr {
  const char *dtype, *descr;
} Descr;

static const Descr descrs[] = {
    {"f64", "<f8"},    {"f32", "<f4"},        {"f16", "<f2"},      {"bf16", "<u2"},
    {"i64", "<i8"},    {"i32", "<i4"},        {"u64", "<u8"},      {"u32", "<u4"},
    {"u16", "<u2"},    {"u8", "|u1"},         {"i16", "<i2"},      {"i8", "|i1"},
    {"i1", "|b1"},     {"index", "<i8"},      {"f8e4m3fn", "|u1"}, {"f8e4m3fnuz", "|u1"},
    {"f8e5m2", "|u1"}, {"f8e5m2fnuz", "|u1"}, {"f8e8m0fnu", "|u1"}};

/* NULL: a packed type. */
static const char *descr_of(const char *dtype) {
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
    if (strcmp(descrs[i].dtype, dtype) == 0) return descrs[i].descr;
  return NULL;
}

bool npy_is_packed(const char *dtype) { return !descr_of(dtype); }

/* Floats must be floats; integers, bools and types that NumPy lacks may be any type of that
 * width. */
bool npy_fits(const Array *a, const char *dtype) {
  const char *descr = descr_of(dtype);
  if (!descr) return a->itemsize == 1 && strchr("uiV", a->kind);
  if (a->itemsize != (size_t)(descr[2] - '0')) return false;
  return descr[1] == 'f' ? a->kind == 'f' : strchr("uibV", a->kind) != NULL;
}

/* ---- reading ---- */

/* What follows 'key': in the dictionary. */
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  at = at ? strchr(at, ':') : NULL;
  return at ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool parse_descr(const char *path, const char *header, Array *out) {
  const char *descr = value_of(header, "'descr'");
  if (!descr || descr[0] != '\'' || !descr[1] || !descr[2])
    return complain("%s: its elements are not plain numbers", path);
  long size = strtol(descr + 3, NULL, 10);
  if (descr[1] == '>' && size > 1)
    return complain("%s has big-endian numbers: save it as a.astype(a.dtype.newbyteorder('<'))",
                    path);
  out->kind = descr[2];
  out->itemsize = strchr("fiubV", out->kind) && size > 0 && size <= 8 ? (size_t)size : 0;
  if (out->itemsize) return true;
  return complain("%s: elements of type %.*s are not supported", path, (int)strcspn(descr + 1, "'"),
                  descr + 1);
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

static void set_strides(Array *a) {
  int64_t stride = 1;
  for (int i = 0; i < a->rank; i++) {
    int d = a->fortran ? i : a->rank - 1 - i;
    a->strides[d] = stride;
    stride *= a->shape[d];
  }
}

/* In version 1 the length of the dictionary has two bytes, in later ones four. */
static size_t header_size(FILE *f) {
  unsigned char start[12] = {0};
  if (fread(start, 1, 10, f) != 10 || memcmp(start, magic, 6) != 0) return 0;
  size_t n = start[8] | (size_t)start[9] << 8;
  if (start[6] == 1) return n;
  if (start[6] > 3 || fread(start + 10, 1, 2, f) != 2 || start[10] || start[11]) return 0;
  return n;
}

static bool read_header(const char *path, FILE *f, Array *out) {
  char header[4096];
  size_t n = header_size(f);
  if (!n || n >= sizeof header || fread(header, 1, n, f) != n)
    return complain("%s is not a .npy file", path);
  header[n] = '\0';
  const char *order = value_of(header, "'fortran_order'");
  if (!parse_descr(path, header, out)) return false;
  if (!order || !parse_shape(header, out)) return complain("%s: its shape cannot be parsed", path);
  out->fortran = strncmp(order, "True", 4) == 0;
  set_strides(out);
  return true;
}

static bool read_elements(const char *path, FILE *f, Array *out) {
  out->data = malloc(out->bytes + 1);
  if (out->data && fread(out->data, 1, out->bytes, f) == out->bytes) return true;
  free(out->data);
  out->data = NULL;
  return complain("%s is shorter than its shape requires", path);
}

static bool read_file(const char *path, Array *out, bool elements) {
  FILE *f = fopen(path, "rb");
  *out = (Array){0};
  if (!f) return complain("cannot read %s: %s", path, strerror(errno));
  bool ok = read_header(path, f, out) && (!elements || read_elements(path, f, out));
  fclose(f);
  return ok;
}

bool npy_read(const char *path, Array *out) { return read_file(path, out, true); }

bool npy_read_shape(const char *path, Array *out) { return read_file(path, out, false); }

bool npy_make_row_major(Array *a) {
  char *turned = malloc(a->bytes + 1);
  if (!turned) return complain("out of memory");
  for (size_t i = 0; i * a->itemsize < a->bytes; i++) {
    int64_t from = 0, rest = (int64_t)i;
    for (int d = a->rank - 1; d >= 0; rest /= a->shape[d--])
      from += rest % a->shape[d] * a->strides[d];
    memcpy(turned + i * a->itemsize, (char *)a->data + (size_t)from * a->itemsize, a->itemsize);
  }
  free(a->data);
  a->data = turned;
  a->fortran = false;
  set_strides(a);
  return true;
}

/* ---- writing ---- */

/* The dictionary, padded so that the elements begin at a multiple of 64 bytes. Packed types are a
 * row of bytes. */
static int make_header(const Array *a, const char *dtype, char *out, size_t cap) {
  const char *descr = descr_of(dtype);
  char shape[256] = "";
  for (int i = 0; descr && i < a->rank; i++)
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,", (long long)a->shape[i]);
  if (!descr) snprintf(shape, sizeof shape, "%zu,", a->bytes);
  int n = snprintf(out, cap, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }",
                   descr ? descr : "|u1", descr && a->fortran ? "True" : "False", shape);
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
