/* llvm.h: one lane's program as LLVM IR text: what the emitters for CPUs and GPUs have in common.
 *
 * The text uses the syntax of LLVM 16, which every newer library parses. It depends only on the
 * kernel and the machine. */
#ifndef WV_LLVM_H
#define WV_LLVM_H

#include "ir/ir.h"
#include "target/target.h"

/* An argument of a kernel: what a launch passes for it. */
typedef enum LlvmSlotKind {
  LLVM_POINTER, /* the data of parameter `param` */
  LLVM_SCALAR,  /* the bits of parameter `param`, of its dtype */
  LLVM_VALUE,   /* `value`, computed at launch */
  LLVM_MAGIC,   /* for a division by `value`: sym_ops.def */
  LLVM_SHIFT
} LlvmSlotKind;

typedef struct LlvmSlot {
  LlvmSlotKind kind;
  int param;
  const Sym *value;
  DType dtype; /* of a scalar */
  int bytes;   /* 4 or 8 */
} LlvmSlot;

#endif
