/* pipeline.h: runs passes by name, with analyses, verification, dumps and times around each. */
#ifndef WV_PIPELINE_H
#define WV_PIPELINE_H

#include "ir/ir.h"

typedef struct PassInfo {
  const char *name, *summary;
} PassInfo;

const PassInfo *pass_at(int i); /* in pipeline order; NULL past the end */

typedef struct PipelineOptions {
  const char *passes;     /* comma-separated names; NULL: the whole pipeline */
  const char *stop_after; /* a pass, or NULL */
  const char *dump;       /* "all", or comma-separated names to dump after; NULL: none */
  bool verify_each;
  bool time;
  void (*write)(void *user, const char *pass, const char *text); /* dumps and times */
  void *user;
} PipelineOptions;

bool pipeline_run(Kernel *k, const PipelineOptions *o);

#endif
