/* fake_hip.h: a libamdhip64 without a GPU, for tests, in two ages: 6, and 5 (FAKE_OLD), which has the
 * old layout of the properties and no cooperative launches. It follows the library's rules as far as
 * the runtime relies on them, records launches, and fails on request. Memory is the host's; kernels
 * do not run.
 *
 * Besides, it watches over lifetimes and order: `broken` says which rule was violated first. */
#ifndef WV_FAKE_HIP_H
#define WV_FAKE_HIP_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_HIP_ARGS = 256, FAKE_HIP_DEVICES = 2 };

typedef struct FakeHipLaunch {
  void *function, *stream;
  unsigned grid[3], block[3], shared;
  int together, device, nargs;
  size_t block_bytes; /* of the arguments; 0: they were passed one by one */
  int arg_bytes[FAKE_HIP_ARGS];
  unsigned char arg[FAKE_HIP_ARGS][8];
} FakeHipLaunch;

typedef struct FakeHip {
  int launches, loads, unloads;
  int allocated; /* blocks of memory that were not freed */
  int streams;   /* made and not dropped */
  int sets;      /* calls that changed the current device, of all threads */
  int pending;   /* the error that hipGetLastError would return */
  int devices;   /* how many there are */
  FakeHipLaunch last;
  const char *fail; /* the function that fails ... */
  int fail_error;   /* ... with this error ... */
  int fail_after;   /* ... after this many calls that succeed */
  void *captured;   /* the stream that is being captured */
  const char *chip; /* of all devices, as the properties spell it */
  const char *name; /* of all devices */
  int spilled;      /* bytes that functions report */
  const char *broken;
  int (*current)(int device); /* sets the calling thread's device, unless -1; returns it */
} FakeHip;

/* `fake_hip` of the library resets it; `fake_hip_now` does not. */
typedef FakeHip *FakeHipFn(void);

/* Streams other than 0, 1 and 2 belong to the device that is their last decimal digit. */

#endif
