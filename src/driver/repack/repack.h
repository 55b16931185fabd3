/* repack.h: operands whose rows a copy engine cannot take are copied, once per launch, to rows that it
 * can.
 *
 *     %a: mem<M, K, bf16>, K = 4103         rows begin every 8206 bytes
 *     its copy in the launch's memory       rows begin every 8208 bytes; elements past the 4103rd of a row
 *                                           exist, and nothing reads them
 *
 * TMA copies only tensors that begin, and whose rows begin, at multiples of 16 bytes. Threads would copy
 * such an operand element by element, again for each tile that needs it; the copy here is made once, by
 * a kernel of its own on the same stream. The kernel proper gets the copy in place of the tensor: for it, that
 * is a tensor with other strides. */
#ifndef WV_REPACK_H
#define WV_REPACK_H

#include "driver/launch_code.h"
#include "target/target.h"

/* Parameters that a launch may copy, as bits: operands of matmuls that the kernel reads as they are, and
 * that several workgroups need. 0: none, or the kernel or machine does not ask for it. */
int64_t repack_params(const LaunchSymbols *s, const TargetInfo *machine);

/* The condition under which it pays, over symbols of the kernel. */
const Sym *repack_pays(const LaunchSymbols *s, int param);

enum {
  REPACK_RANK_LEAST = 2,
  REPACK_RANK_MOST = 3,
  REPACK_RANKS = REPACK_RANK_MOST - REPACK_RANK_LEAST + 1,
  REPACK_SIZES = 4,             /* elements of 1, 2, 4 and 8 bytes */
  REPACK_MOST = 1 << 29,        /* bytes of a tensor, */
  REPACK_COLUMNS = 1 << 24,     /* its elements along the last dim, */
  REPACK_PLANES = (1 << 16) - 1 /* and along the first of three: what a grid has room for */
};

/* ---- repacker.c ---- */
struct wv_program;
struct wv_tensor;
struct Launcher;
/* Launches the kernel that copies one tensor to another of the same sizes. False after reporting. */
bool repack_run(struct Launcher *l, Diags *diags, const struct wv_tensor *from,
                const struct wv_tensor *to, void *stream);
void repack_free(struct wv_program *p);

#endif
