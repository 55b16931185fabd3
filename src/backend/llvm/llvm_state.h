/* llvm_state.h: what the files of the LLVM emitter share.
 *
 * A value of n elements is *held* in one or more forms; a form divides it into vectors of `width`
 * elements each, the last of which may be shorter. Memory accesses use as many elements as fill a
 * register, arithmetic on small floats (in f32) fewer. A form is made from another on first use,
 * and kept to the end of the region in which it was made.
 *
 * Elements are held as integers of their bits, including floats below 32 bits: 4- and 6-bit ones in
 * i8, i4 sign-extended. f32, f64 and i1 are LLVM's own. 4- and 6-bit elements that come packed in
 * bytes stay so until an op needs elements: matrix instructions do not. */
#ifndef WV_LLVM_STATE_H
#define WV_LLVM_STATE_H

#include "backend/llvm/llvm.h"
#include "base/vec.h"

/* An integer, in i1, i32 or i64; constants fit everywhere. */
typedef struct LlvmNumber {
  const char *name;
  int bits;
} LlvmNumber;

typedef struct Form {
  int width;
  const char *const *part; /* names or constants */
  struct Form *next;
} Form;

typedef struct Splat {
  int n;
  const char *name;
  struct Splat *next;
} Splat;

/* A value as a matrix of rows, in registers of its own: x86 tiles. */
typedef struct MatrixShape {
  int rows, bytes; /* per row; rows 0: not a matrix */
} MatrixShape;

typedef struct Held {
  DType dtype;
  int n;
  Form *forms;
  Splat *splats;            /* of a single element: repeated n times */
  const char *const *tiles; /* matrix registers; or NULL */
  MatrixShape matrix;       /* of those */
  LlvmNumber wide;          /* of an integer scalar: its value, not cut off; or no name */
  struct Held *packed;      /* of 4- and 6-bit elements: the bytes that contain them; or NULL */
  bool memory;
  int space;        /* of a memory: its address space */
  const char *base; /* of a memory: a pointer to its first element */
} Held;

/* What was made from a value, to be dropped at the end of the region in which it was made. */
typedef enum MadeKind { MADE_FORM, MADE_SPLAT, MADE_TILES, MADE_PACKED } MadeKind;
typedef struct Made {
  Held *of;
  MadeKind kind;
} Made;

typedef struct SymName {
  const char *symbol;
  LlvmNumber number;
} SymName;

typedef struct Llvm Llvm;
typedef void LlvmFn(Llvm *p, const Op *op);

/* Values in matrix registers. */
typedef struct LlvmTiles {
  int (*count)(const MatrixShape *s); /* registers */
  /* The value in matrix registers: as it is held, or through memory. */
  const char *const *(*of)(Llvm *p, Held *h, const MatrixShape *s);
  void (*set)(Llvm *p, Held *h, const MatrixShape *s, const char *const *tile);
  void (*to_vectors)(Llvm *p, Held *h); /* gives it a vector form */
} LlvmTiles;

enum { LLVM_NEVER_ASKS = 0, LLVM_ROUNDS_DIFFER = -1 };

/* How loops check whether the launch was stopped. */
typedef struct LlvmWatch {
  /* By op id, for loops: the number of iterations after which to check; LLVM_NEVER_ASKS: the loop
   * is short; LLVM_ROUNDS_DIFFER: it contains loops that check, and iterations are counted at run
   * time. */
  const int64_t *rounds;
  void (*ask)(Llvm *p);   /* returns from the function if it was stopped */
  void (*round)(Llvm *p); /* after an iteration of a loop of LLVM_ROUNDS_DIFFER */
  void (*end_of_while)(Llvm *p, const Op *op); /* after an iteration of a while loop */
} LlvmWatch;

/* What the emitter must know about a machine. */
typedef struct LlvmMachine {
  const char *called; /* in messages: "CPUs" */
  int vector_bits;    /* of a register */
  bool f16;           /* conversions of f16 */
  bool fma;           /* fused multiply-add */
  bool keeps_nan;     /* the maximum and minimum of IEEE 754-2019 are instructions */
  bool library;       /* the C library can be called */
  bool subnormals;    /* f32 arithmetic takes subnormal numbers, and is as fast with them */
  /* Casts packed elements without unpacking them; false: it cannot. NULL: none. */
  bool (*cast_packed)(Llvm *p, Held *from, Held *to);
  const char *const *f32, *const *fast; /* templates of its own for f32, by op kind; or NULL */
  /* An angle of one turn with the same sine and cosine as the large one x, n doubles that are
   * floats; NULL: the library takes them. */
  const char *(*reduce_angle)(Llvm *p, int n, const char *x);
  /* The remainder of n doubles; NULL: LLVM calls the library. */
  const char *(*remainder)(Llvm *p, int n, const char *a, const char *b);
  bool narrow;           /* integers that fit are computed in 32 bits, not in 64 */
  int global;            /* the address space of tensors */
  const char *flag;      /* of the module, besides those of debug information; or NULL */
  bool fast_math;        /* requested: docs/numerics.md */
  LlvmFn *const *writer; /* by op kind: of ops that not all machines have in common */
  int (*unroll)(Llvm *p, const Op *loop); /* iterations that a for loop repeats; NULL: 1 */
  const LlvmTiles *tiles;                 /* NULL: there are no matrix registers */
  const LlvmWatch *watch;                 /* NULL: loops run to their end */
} LlvmMachine;

typedef struct DebugFile {
  uint32_t file;
  int number; /* of its metadata; its scope has the next number */
} DebugFile;

typedef struct DebugPlace {
  Span at;
  int number;
  const char *text; /* appended to an instruction */
} DebugPlace;

struct Llvm {
  Kernel *k;
  const LlvmMachine *machine;
  struct Cpu *cpu; /* cpu_state.h; NULL: for another machine */
  struct Amd *amd; /* amd_state.h; NULL: for another machine */
  Arena *arena;
  SymCtx *sym;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  const SymFacts *facts; /* facts that also hold here */
  StrBuf body;
  int names, labels;
  LlvmNumber wave;       /* the number of the wave, known to be uniform; or no name */
  int wave_log;          /* a wave has two to this power of lanes */
  const char *block;     /* the label of the block being written */
  int lines;             /* instructions in it */
  int most_lines;        /* after as many, a new block begins; 0: blocks have any length */
  Held **held;           /* by value id */
  MatrixShape *matrices; /* by value id: its shape if held in matrix registers; NULL: none is */
  Vec(LlvmSlot) slots;
  Vec(SymName) symbols;
  Vec(Made) made; /* forms and splats, in order of creation */
  Vec(const char *) declared;
  const char *place; /* ", !dbg !7" of the current op, or "" */
  bool streams;      /* some data is used once */
  Vec(int) unrolled; /* of each loop that LLVM unrolls, how often */
  bool has_lines;
  Vec(DebugFile) files;
  Vec(DebugPlace) places;
  bool failed;
};

/* ---- llvm.c ---- */

bool llvm_fail(Llvm *p, const Op *op, const char *what); /* E0601; always false */
const char *llvm_new(Llvm *p);
void llvm_line(Llvm *p, const char *format, ...) WV_PRINTF(2, 3);
/* `%x = <instruction>`; returns %x. */
const char *llvm_let(Llvm *p, const char *format, ...) WV_PRINTF(2, 3);
/* Calls an intrinsic or function, and declares it; returns %x. Arguments are as LLVM writes them,
 * types included; `signature` is that of the declaration: "<4 x float> (<4 x float>)". */
const char *llvm_call(Llvm *p, const char *result, const char *name, const char *types,
                      const char *args);
void llvm_call_void(Llvm *p, const char *name, const char *types, const char *args);
void llvm_declare(Llvm *p, const char *text);  /* a line of the module; duplicates are dropped */
const char *llvm_slot(Llvm *p, LlvmSlot slot); /* the name of the loaded slot, shared by equal
                                                * slots */
void llvm_open_params(Llvm *p);                /* makes slots for the parameters of the kernel */
const char *llvm_entry_name(Llvm *p);
const char *llvm_label(Llvm *p, const char *what);
void llvm_block(Llvm *p, const char *label); /* begins a block */
void llvm_limit_block(Llvm *p);              /* begins another one if this one is long */

/* ---- llvm_debug.c ---- */

/* Numbers of metadata: of data that is used once, and the first one about loops. */
enum { LLVM_STREAMED = (1 << 20) - 1, LLVM_LOOPS = 1 << 20 };

void llvm_debug_open(Llvm *p);
void llvm_at(Llvm *p, const Op *op); /* the source location of the following instructions */
const char *llvm_debug_function(Llvm *p);
void llvm_debug_close(Llvm *p, StrBuf *out);
/* What follows a load or store of data that is used once. */
const char *llvm_nontemporal(Llvm *p);

/* ---- llvm_held.c ---- */

const char *llvm_elem_type(DType t);                         /* the type in which it is held: i8,
                                                              * float */
int llvm_elem_bits(DType t);                                 /* width of that type */
const char *llvm_vec_type(Llvm *p, const char *elem, int n); /* float, <4 x float> */
const char *llvm_pointer_type(int space);                    /* ptr, ptr addrspace(1) */
const char *llvm_held_type(Llvm *p, DType t, int n);
const char *llvm_suffix(Llvm *p, const char *elem, int n); /* of intrinsics: f32, v4f32 */
int llvm_memory_width(const Llvm *p, DType t);             /* elements per register in memory */
int llvm_compute_width(const Llvm *p, DType t);            /* elements per register in arithmetic */
int llvm_form_width(const Held *h);                        /* of one of its forms */

static inline LlvmNumber index_named(const char *name) { return (LlvmNumber){name, 64}; }
static inline int part_count(int n, int width) { return (n + width - 1) / width; }
static inline int part_size(int n, int width, int i) {
  return n - i * width < width ? n - i * width : width;
}

Held *llvm_held_new(Llvm *p, const Value *v); /* without a form */
void llvm_held_set(Llvm *p, Held *h, int width, const char *const *part);
Held *llvm_held_get(Llvm *p, const Value *v);
const char *const *llvm_parts_of(Llvm *p, Held *h, int width);
/* `n` elements as one vector from position `at`, of a value or of a single element, repeated. */
const char *llvm_slice_of(Llvm *p, Held *h, int at, int n, int width);
const char *llvm_scalar_of(Llvm *p, Held *h); /* of one element */
const char *llvm_element_of(Llvm *p, Held *h, int i);
const char *llvm_index_of(Llvm *p, const Value *v); /* an integer scalar in i64 */
LlvmNumber llvm_number_of(Llvm *p, const Value *v); /* as wide as it is held, at least 32 bits */
const char *llvm_in_bits(Llvm *p, LlvmNumber n, int bits);
const char *llvm_splat_of(Llvm *p, const char *elem, const char *name, int n);

typedef struct Source {
  Held *from;
  int at;
} Source;
/* Sets the form of `width` whose element i is sources[i]. */
void llvm_held_gather(Llvm *p, Held *to, const Source *sources, int width);

typedef struct ScopeMark {
  int symbols, made;
} ScopeMark;
ScopeMark llvm_scope_open(const Llvm *p);
void llvm_scope_close(Llvm *p, ScopeMark m); /* drops what was made and defined since */

LlvmFn llvm_splat, llvm_after, llvm_join, llvm_pick, llvm_bitcast;

/* ---- llvm_packed.c ---- */

bool llvm_is_packed(const Held *h); /* whether it has 4 or 6 bits and fills whole bytes */
/* The bytes of such a value; NULL: it is none. */
Held *llvm_packed_of(Llvm *p, Held *h);
Held *llvm_packed_new(Llvm *p, const Held *h); /* without a form */
void llvm_unpack(Llvm *p, Held *h);            /* gives it a vector form */
/* The results of these ops without unpacking; false: not possible. */
bool llvm_packed_join(Llvm *p, const Op *op, Held *to);
bool llvm_packed_pick(Llvm *p, const Held *from, const int64_t *regs, Held *to);

/* 4-bit elements in i8, of which only the low half is right, as they are held. */
const char *llvm_nibble_extended(Llvm *p, DType t, int n, const char *v);
const char *llvm_nibbles_of_bytes(Llvm *p, DType t, int n, const char *v); /* of n/2 bytes */
const char *llvm_bytes_of_nibbles(Llvm *p, int n, const char *v);

/* ---- llvm_expr.c ---- */

const char *llvm_expr(Llvm *p, const Op *op, const Sym *e);  /* in i64; truth values are 0 or 1 */
const char *llvm_truth(Llvm *p, const Op *op, const Sym *e); /* in i1 */
LlvmNumber llvm_number(Llvm *p, const Op *op, const Sym *e); /* as wide as necessary */
void llvm_define(Llvm *p, const Sym *symbol, LlvmNumber number);
LlvmFn llvm_expr_op, llvm_set_symbol, llvm_scalar;
const char *llvm_float_literal(Llvm *p, DType t, double v);

/* ---- llvm_elem.c ---- */

/* The type in which a vector of n elements is computed. */
typedef struct Lane {
  const char *elem; /* float, double, i32, i1 */
  int bits, n;
  bool is_unsigned;
} Lane;

bool llvm_has_elementwise(OpKind kind);
/* The op on vectors in the type it is computed in; NULL: there is no template. */
const char *llvm_apply(Llvm *p, OpKind kind, Lane lane, const char *const *args);
const char *llvm_combine(Llvm *p, const Op *op, OpKind kind, DType t, int n, const char *a,
                         const char *b); /* of values as they are held */
/* a * b + c on floats, rounded once if the host has an instruction for it. */
const char *llvm_multiply_add(Llvm *p, const char *elem, int n, const char *a, const char *b,
                              const char *c);
LlvmFn llvm_elementwise, llvm_select;

/* ---- llvm_cast.c ---- */

const char *llvm_cast_vector(Llvm *p, DType from, DType to, int n, const char *v);
const char *llvm_to_compute(Llvm *p, DType t, int n, const char *v);   /* small floats: f32 */
const char *llvm_from_compute(Llvm *p, DType t, int n, const char *v); /* rounded, wrapped */
/* f32 that bf16 can represent. */
const char *llvm_cut_to_bf16(Llvm *p, int n, const char *x);
/* f32 of which a NaN has no bits set but the highest of its mantissa. */
const char *llvm_round_to_bf16(Llvm *p, int n, const char *x);
LlvmFn llvm_cast;

/* ---- llvm_exact.c ---- */

/* How results of the op become bf16: bf16 can represent them; or a NaN among them is not changed by
 * rounding like a number. */
typedef enum LlvmRounding { LLVM_ROUNDS, LLVM_ROUNDS_ALL, LLVM_CUTS } LlvmRounding;
LlvmRounding llvm_rounding_of(const Op *op);

/* ---- llvm_access.c ---- */

/* A block that runs if a condition holds. */
typedef struct LlvmGuard {
  const char *before, *end;
} LlvmGuard;
LlvmGuard llvm_guard_open(Llvm *p, const char *test);
const char *llvm_guard_close(Llvm *p, LlvmGuard g); /* returns the block that it ends */
/* `inside` from its last block, or `outside`. */
const char *llvm_guard_phi(Llvm *p, LlvmGuard g, const char *type, const char *inside,
                           const char *block, const char *outside);

/* One element in memory. */
typedef struct LlvmCell {
  const char *type, *at; /* of the pointer; the pointer */
  const char *scope;     /* of atomics: `syncscope("agent") `, or "" */
  const char *facts;     /* metadata of atomics: `, !amdgpu.no.remote.memory !{}`, or "" */
} LlvmCell;
/* An atomic op on it: returns the old value. `expected`: of a compare-and-exchange, or NULL. */
const char *llvm_atomic_element(Llvm *p, const Op *op, DType t, LlvmCell cell, const char *v,
                                const char *expected);

/* ---- llvm_region.c ---- */

void llvm_region(Llvm *p, const Region *r);
void llvm_op(Llvm *p, const Op *op);
bool llvm_writes_op(OpKind kind);         /* on all machines */
void llvm_nothing(Llvm *p, const Op *op); /* writes nothing */
bool llvm_is_integer(const Value *v);     /* a scalar that llvm_index_of takes */
const char *llvm_loop_start(Llvm *p, const Op *loop, int bits); /* of a for loop */
const char *llvm_is_set(Llvm *p, Held *h); /* of one element: in i1, whether it is not 0 */
LlvmFn llvm_for, llvm_while, llvm_if;

#endif
