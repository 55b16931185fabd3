/* fake_cuda.h: a libcuda without a GPU, for tests. It follows the driver's rules as far as the
 * runtime relies on them (contexts, captures, attributes before launches), records launches, and
 * fails on request. Memory is the host's; kernels do not run. */
#ifndef WV_FAKE_CUDA_H
#define WV_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_ARGS = 256, FAKE_DEVICES = 2 };

typedef struct FakeLaunch {
  void *function, *stream;
  unsigned grid[3], block[3], shared;
  int overlap, together, device, nargs;
  int arg_bytes[FAKE_ARGS];
  unsigned char arg[FAKE_ARGS][128];
} FakeLaunch;

typedef struct FakeCuda {
  int launches, loads, unloads, encodes, moves, retains, releases;
  int allocated; /* blocks of memory that were not freed */
  int streams;   /* made and not dropped */
  int pushes;    /* contexts pushed and not popped, by all threads */
  FakeLaunch last;
  const char *fail;             /* the function that fails ... */
  int fail_error;               /* ... with this error ... */
  int fail_after;               /* ... after this many calls that succeed */
  void *captured;               /* the stream that is being captured */
  int major, minor;             /* of all devices */
  int spilled;                  /* bytes that functions report */
  const char *info_log;         /* the log of loading; NULL: none */
  void (*enter)(void *context); /* the current context of the calling thread; NULL: none */
} FakeCuda;

/* `fake_cuda` of the library resets it; `fake_cuda_now` does not. */
typedef FakeCuda *FakeCudaFn(void);

#endif
