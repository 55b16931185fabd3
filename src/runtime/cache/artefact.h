/* artefact.h: a self-describing compiled kernel: its code, and everything needed to launch it.
 *
 * It holds the kernel's signature as numbers: every tensor fills some *slots* of a launch (its
 * address modulo ARTEFACT_ALIGN, its sizes, its strides), every scalar one; programs over the slots
 * compute what must hold, which variant may be used, the size of the grid and the derived
 * arguments. The IR is not needed any more. artefact_write and artefact_read convert it to bytes
 * and back; bytes are not trusted. */
#ifndef WV_ARTEFACT_H
#define WV_ARTEFACT_H

#include "base/strbuf.h"
#include "runtime/launch/launch_expr.h"

enum {
  ARTEFACT_RANK = 8,
  ARTEFACT_PARAMS = 64,
  ARTEFACT_SLOTS = 512,
  ARTEFACT_VARIANTS = 28,
  ARTEFACT_ARGS = 256,
  ARTEFACT_ARG_BYTES = 4096, /* CUDA's limit for kernel arguments */
  ARTEFACT_MAPS = 16,
  ARTEFACT_WAITS = 4096,
  ARTEFACT_REMARKS = 4096,
  ARTEFACT_ALIGN = 256, /* an address is known modulo this: the limit for facts about alignment */
  ARTEFACT_ROW = 128    /* bytes: rows of copies are multiples of this, whole lines of the cache */
};

typedef enum ArtScalar {
  ART_I32, /* or fewer bits */
  ART_I64,
  ART_F32,
  ART_F64,
  ART_SMALL_FLOAT, /* rounded to the dtype that `type` names */
  ART_SCALARS
} ArtScalar;

/* A parameter of the kernel as its author wrote it, or the memory of a debug log. */
typedef struct ArtParam {
  const char *name;
  const char *type;   /* "mem<M, K, f16>", for messages */
  const char *log;    /* the label of a debug log, whose memory the launch itself supplies; else
                       * "" */
  const char *report; /* likewise for failed assertions: their text; else "" */
  int slot;           /* of its first number: address, sizes, strides; or the scalar's value */
  int rank;           /* -1: a scalar */
  int dtype;          /* of its elements: an index of wv_dtype_name */
  int64_t accepts;    /* bit 1 << n: dtype number n of wv_dtype_name is accepted */
  ArtScalar scalar;
  int not_negative; /* a scalar: its value defines a non-negative symbol */
} ArtParam;

/* The size of a tensor along a dim must equal a value of the signature's program. */
typedef struct ArtSize {
  int param, dim, value;
  int is_given;     /* 1: the value depends on the tensors of the launch */
  const char *text; /* of the dim */
} ArtSize;

typedef struct ArtAssumption {
  int value; /* of the signature's program: must be true */
  const char *text;
} ArtAssumption;

typedef enum ArtArgKind {
  ART_POINTER,   /* the address of tensor `param` */
  ART_SCALAR,    /* scalar `param`, in `bytes` */
  ART_VALUE,     /* value `value` of the variant's program */
  ART_MAGIC,     /* for divisions by that value: ceil(2**(32 + shift) / value) - 2**32 */
  ART_SHIFT,     /* and ceil(log2(value)) */
  ART_MAP,       /* tensor map number `value` */
  ART_WORKSPACE, /* memory of tensor `param` that no caller passes: at this offset (`value`) in the
                  * block */
  ART_ARG_KINDS
} ArtArgKind;

typedef struct ArtArg {
  ArtArgKind kind;
  int param, value, bytes;
  int offset; /* in the argument block; set by artefact_set_offsets */
} ArtArg;

/* A box of a tensor that bulk copies move; dims from the innermost outwards. */
typedef struct ArtMap {
  int param, rank, bytes; /* of an element */
  int element;            /* the driver's code for its type */
  int swizzle;            /* bytes of the swizzle: 0, 32, 64, 128 */
  int dim[ARTEFACT_RANK]; /* of the tensor; the innermost must have stride 1 */
  int box[ARTEFACT_RANK]; /* elements; for a map that traverses pixels: channels, pixels */
  int clip;               /* a dim of which a copy says where it ends: the last two dims of the map
                           * belong to it too (clip.h); 0: none */
  int joined;             /* this dim and all after it are one; 0: none are */
  int im2col;             /* 1: it does, along dims 1 to rank - 2; for these: */
  int lowest[ARTEFACT_RANK], highest[ARTEFACT_RANK], step[ARTEFACT_RANK];
} ArtMap;

/* A diagnostic emitted while a variant was compiled, to be repeated when the variant comes from the
 * cache. */
typedef struct ArtNote {
  const char *file; /* "": unknown */
  int line, col, len;
  const char *text;
} ArtNote;

typedef struct ArtRemark {
  const char *code, *hint; /* hint "": none */
  ArtNote said, *notes;
  int nnotes;
} ArtRemark;

/* The code for launches that satisfy certain facts. */
typedef struct ArtVariant {
  const char *facts; /* as text; "": none */
  int guard;         /* value of the signature's program; -1: always applies */
  int64_t repacked;  /* parameters, as bits, that the launch copies if their rows do not begin at
                      * multiples of 16 bytes */
  int aliased;       /* 1: only for launches in which `whole` and `part` have the same address */
  /* The rest is set once the variant has been compiled. */
  bool compiled;
  const char *entry, *code; /* code: text for the driver, or bytes of an object */
  int code_bytes;
  const char *ir;
  ArtRemark *remarks;
  int nremarks;
  const char *listing; /* what non-text code was made from; "": the code is text */
  LaunchExpr program;
  int grid[3];          /* values of the program */
  int workspace;        /* likewise: bytes of a zeroed block, per stream; -1: none */
  int block[3], shared; /* on a CPU, block[0] is the number of threads that run a workgroup */
  int together;         /* 1: workgroups wait for each other, so all must run concurrently */
  int cluster[3];       /* workgroups; also in the code, and the grid must be a multiple; 0: none */
  ArtArg *args;
  int nargs, arg_bytes, npatched; /* the first npatched may differ from call to call */
  ArtMap *maps;
  int nmaps;
  ArtNote *waits; /* where the code waits for other threads, and what for */
  int nwaits;
  double llvm_ms; /* time that LLVM took; not stored in files */
} ArtVariant;

typedef struct Artefact {
  const char *name, *target;
  const char *needs; /* further requirements of the code: a CPU; "": none */
  int device_kind;   /* device.h */
  ArtParam *params;
  int nparams, nslots;
  int ngiven; /* parameters that a caller passes; workspace and debug logs come after them */
  LaunchExpr signature;
  ArtSize *sizes;
  int nsizes;
  ArtAssumption *assumptions;
  int nassumptions;
  ArtVariant variant[ARTEFACT_VARIANTS];
  int nvariants;
  int whole, part; /* two parameters; equal: no variant is aliased */
  int fallback; /* variants from here on are for launches whose assumptions do not hold; nvariants:
                 * such launches are refused */
} Artefact;

/* Whether there are debug logs, or a report of failed assertions. */
static inline bool artefact_has_logs(const Artefact *art) {
  for (int i = art->ngiven; i < art->nparams; i++)
    if (*art->params[i].log || *art->params[i].report) return true;
  return false;
}

/* Computes the offsets of arguments: each at a multiple of its size. False: too many. */
bool artefact_set_offsets(ArtVariant *v);

/* The signature and one variant, or none (-1): one file per variant. */
void artefact_write(StrBuf *out, const Artefact *art, int variant);

/* NULL: the bytes are not an artefact; texts and arrays are in `a`. *variant: the variant inside,
 * or -1. */
Artefact *artefact_read(Arena *a, const char *bytes, size_t n, int *variant);

/* ---- artefact_whole.c: the signature with all variants, which are compiled ---- */
void artefact_write_whole(StrBuf *out, const Artefact *art);
/* NULL: `damage` says what is wrong with the bytes. */
Artefact *artefact_read_whole(Arena *a, const char *bytes, size_t n, const char **damage);

#endif
