/* report.h: what a simulation did, as JSON and as one HTML page.
 *
 *   json.c            writing JSON
 *   page.c            writing pages: the parts every report shares; page_assets.c its style, script
 *   report_json.c     the report as JSON; docs/simulator.md has the schema
 *   report_html.c     the report as a page: summary, findings, order of the sections
 *   report_source.c   the user's lines and the program, with what each cost
 *   report_layout.c   tile-to-lane maps
 *   report_memory.c   shared memory, bank conflicts, coalescing
 *
 * Reports contain no times and no host addresses: the same run gives the same text. */
#ifndef WV_REPORT_H
#define WV_REPORT_H

#include "backend/sim/sim.h"
#include "report/json.h"
#include "schedule/schedule_view.h"

typedef struct Report {
  Kernel *k;           /* the lane program that ran */
  const Kernel *tiles; /* the kernel before lowering, with layouts; may be NULL */
  const SimReport *sim;
  const char *schedule;
  const ScheduleView *loops; /* how its loops are pipelined; may be NULL */
  const char *decisions;     /* about its lines, as text; may be NULL */
} Report;

void report_json(StrBuf *out, const Report *r);
void report_html(StrBuf *out, const Report *r);

/* ---- parts of both --------------------------------------------------------------------------- */

/* Tiles of one type with the same register layout, in program order. */
typedef struct LayoutGroup {
  const Value **values; /* results of ops of `tiles` */
  int n;
} LayoutGroup;
LayoutGroup *layout_groups(Arena *a, const Kernel *tiles, int *n);

/* The counters of a line, in the order they are shown. */
typedef struct Counter {
  const char *key, *title, *what;
  size_t field; /* offset in SimLine */
} Counter;
enum { NCOUNTERS = 6 };
extern const Counter counters[NCOUNTERS];
uint64_t report_counter_of(const SimLine *c, int i);

/* ---- sections of the page -------------------------------------------------------------------- */

void section_source(StrBuf *out, const Report *r);
void section_program(StrBuf *out, const Report *r);
void section_layouts(StrBuf *out, const Report *r);
void section_memory(StrBuf *out, const Report *r);
/* A link to the row of a source line; `at` must be known. */
void source_link(StrBuf *out, const Report *r, Span at);

#endif
