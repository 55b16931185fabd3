/* ptx.h: emits one lane's program as PTX text. */
#ifndef WV_PTX_H
#define WV_PTX_H

#include "ir/ir.h"
#include "target/target.h"

/* The launch arguments of the kernel, in order. */
typedef enum PtxArgKind {
  PTX_POINTER, /* the data of parameter `param` */
  PTX_SCALAR,  /* the number that is parameter `param` */
  PTX_VALUE,   /* `value`, computed at launch */
  PTX_MAGIC,   /* of a division by `value`: sym_ops.def */
  PTX_SHIFT,
  PTX_TENSOR_MAP /* by value, 128 bytes aligned to 64: `box` of parameter `param`, no interleaving,
                  * zeros outside */
} PtxArgKind;

typedef struct PtxArg {
  PtxArgKind kind;
  int param;
  const Sym *value;
  int bytes;
  DType dtype;       /* of a scalar, and of the elements of a tensor map */
  int rank, swizzle; /* of a tensor map; swizzle: 0, 32, 64 or 128 bytes */
  int64_t box[5];    /* outermost dimension first; for im2col: pixels, channels */
  int joined;        /* the dim with which all before it are one; 0: none are */
  int clip;          /* the dim that ends where the copy says; -1: none */
  bool im2col;       /* traverses pixels: their dims, outermost first, from `lowest` to .. */
  int64_t lowest[3], highest[3], step[3]; /* .. `highest` past the tensor's last, by `step` */
} PtxArg;

typedef struct PtxKernel {
  const char *text, *entry;
  const PtxArg *args;
  int nargs;
  const Sym *grid[3], *block[3];
  int shared;      /* bytes, given at launch */
  bool is_cluster; /* the text gives the cluster size; the grid is a multiple of it */
} PtxKernel;

typedef struct PtxOptions {
  bool fast_math; /* docs/numerics.md says what it changes */
  bool no_lines;  /* omit .loc, the source line of each instruction */
} PtxOptions;

/* Whether there is an instruction for the op on some type, or the op is only a hint. */
bool ptx_writes(OpKind kind);

/* False after reporting what the target cannot express (E0601). `o` may be NULL. */
bool ptx_emit(Kernel *k, const TargetInfo *t, const PtxOptions *o, Arena *a, PtxKernel *out);

#endif
