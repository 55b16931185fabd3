/* wavec.h: what the files of the command line tool share. They use the public interface only. */
#ifndef WV_WAVEC_H
#define WV_WAVEC_H

#include <stdio.h>

#include "wave.h"

typedef struct WordList {
  const char **at;
  int n;
} WordList;

typedef struct Options {
  const char *emit, *passes, *dump, *stop_after, *verify, *list, *explain, *output, *seed, *target;
  const char *schedule, *schedules, *choices, *json, *html, *start_after, *dump_before, *data;
  WordList set, arg, out, show;
  bool run, loops, time, proof, check_passes, costs, nonfinite, fast_math, version, help;
  WordList files;
} Options;

enum { STATUS_OK, STATUS_DIAGNOSTICS, STATUS_USAGE };

/* ---- wavec_options.c */
bool parse_options(Options *all, int argc, char **argv); /* false after an error message */
void free_options(Options *o);
void print_help(const Options *o);

/* Prints "wavec: ..." and returns false: mistakes on the command line and files that fail. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
bool complain(const char *fmt, ...);

/* NAME=REST: true if `word` has this form and NAME is `name`; *rest is what follows. */
bool split_word(const char *word, const char *name, const char **rest);

/* --set SYMBOL=EXPR. False after a diagnostic. */
bool parse_setting(wv_ctx *cx, const char *word, wv_binding *out);
bool is_dynamic(const wv_kernel *k, wv_expr symbol); /* taken from the arguments at the call */
/* NAME=REST of the list with this name; NULL: there is none. */
const char *find_word(const WordList *list, const char *name);
void push_word(WordList *list, const char *word);

/* ---- wavec_eval.c: runs a kernel as `kind` says (wv_target_kind), and prints the results
 */
int eval_kernel(const Options *o, wv_ctx *cx, wv_kernel *k, const char *kind);
/* Appends to `set`, from malloc, SYMBOL=SIZE for symbols whose only value comes from the sizes of
 * .npy files among the arguments. */
bool sizes_of_files(const Options *o, const wv_kernel *k, WordList *set);
/* The same without output: returns the contents of all tensors after the run. */
typedef struct Outcome {
  uint64_t sum;          /* a checksum of the bits of all results */
  double *value, *loose; /* of each element; how far rounding may move it */
  int64_t n;
} Outcome;
int eval_outcome(const Options *o, wv_ctx *cx, wv_kernel *k, Outcome *out);
void free_outcome(Outcome *out);
/* Receives debug logs; `user` is the Options. */
void print_log(void *user, const char *label, const wv_buffer *b);

/* ---- wavec_data.c: values for arguments that are not given */
typedef struct MadeData {
  bool exact, is_float, is_signed;
  int bits; /* of the largest magnitude that is made */
} MadeData;
MadeData made_data(const Options *o, const char *dtype);
/* Element `i` of a tensor of `n`. */
double made_value(const MadeData *how, int64_t i, int64_t n, uint64_t seed);

/* ---- wavec_device.c: runs a kernel on a device; tensors are copied there and back */
bool runs_on_device(const char *kind);
int run_on_device(const Options *o, wv_ctx *cx, wv_kernel *k, const wv_arg *args, int nargs);

/* ---- wavec_c.c: writes the kernel, compiled, as C source and header; or only compiles it */
int emit_c(const Options *o, wv_ctx *cx, wv_kernel *k);
int compile_program(const Options *o, wv_ctx *cx, wv_kernel *k);

/* ---- wavec_cache.c: wavec cache list|verify|clear [FOLDER] */
int cache_command(int argc, char **argv);

/* ---- wavec_loops.c: the loops of a code object, and of a kernel that is compiled to one */
bool is_code_object(const char *path, const char *bytes, size_t n); /* or meant to be one */
int print_loops(wv_ctx *cx, const char *name, const void *bytes, size_t n, FILE *out);
int kernel_loops(const Options *o, wv_ctx *cx, wv_kernel *k, FILE *out);

/* ---- wavec_check.c: checks that no pass changes what the kernel computes */
int check_passes(const Options *o, wv_ctx *cx, wv_kernel *k);

/* ---- wavec_again.c: the command line in the first line of a file saved by an internal error */
typedef struct Again {
  char *line, **argv;
  int argc;
} Again;
bool again_words(int argc, char **argv, Again *out); /* false after an error message */
void again_free(Again *a);

/* ---- wavec_npy.c: .npy files */
enum { NPY_RANK = 8 };

typedef struct Array {
  int rank;
  int64_t shape[NPY_RANK], strides[NPY_RANK]; /* in elements */
  size_t itemsize, bytes;
  char kind;    /* as NumPy calls it: f, i, u, b, V */
  bool fortran; /* the first dimension is contiguous */
  void *data;   /* from malloc */
} Array;

/* False after an error message. */
bool npy_read(const char *path, Array *out);
bool npy_read_shape(const char *path, Array *out); /* without its elements */
/* Whether the elements of an array fit a parameter; packed ones are rows of bytes. */
bool npy_fits(const Array *a, const char *dtype);
bool npy_is_packed(const char *dtype);
bool npy_make_row_major(Array *a);
bool npy_write(const char *path, const Array *a, const char *dtype);

#endif
