/* layout.h: which thread holds which element of a tile.
 *
 * A thread of a workgroup is (lane, wave) and holds its part of a tile in registers, one element
 * each. A layout maps register `r` of lane `l` of wave `w` to its position in the tile: each of the
 * three numbers is written in mixed radix, and each digit moves along one dim by its stride.
 *
 *     [16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4        the result of a 16x16 matrix instruction:
 *
 *     register r   r%4  of stride 1 along d0           row    = r + 4*(lane/16)
 *     lane     l   l%16 of stride 1 along d1           column = lane%16
 *                  l/16 of stride 4 along d0
 *
 * Digits are listed fastest first. Any radix is allowed, not only powers of two. Stride 0 means
 * that the digit does not move: the element is replicated (`~` in the text form). Coordinates past
 * the extent of a dim are *over-covered*: the register exists but holds no element. Copies of an
 * instruction are its outer register digits; see docs/layouts.md. */
#ifndef WV_LAYOUT_H
#define WV_LAYOUT_H

#include "base/strbuf.h"

enum { LAYOUT_DIMS = 8, LAYOUT_DIGITS = 16 };

typedef enum LayoutPart { LAYOUT_REG, LAYOUT_LANE, LAYOUT_WAVE, LAYOUT_PARTS } LayoutPart;

typedef struct Digit {
  int dim;           /* 0 when stride is 0 */
  int radix, stride; /* radix >= 1, stride >= 0 in elements of the dim */
} Digit;

typedef struct Digits {
  int n;
  Digit at[LAYOUT_DIGITS]; /* fastest first */
} Digits;

typedef struct Layout {
  int dims;
  int extent[LAYOUT_DIMS]; /* of the tile; elements are numbered row-major, last dim fastest */
  Digits part[LAYOUT_PARTS];
} Layout;

#define EACH_DIGIT(l, p, d)                                                                        \
  for (LayoutPart p = LAYOUT_REG; p < LAYOUT_PARTS; p++)                                           \
    for (const Digit *d = (l)->part[p].at; d < (l)->part[p].at + (l)->part[p].n; d++)

/* ---- making ---------------------------------------------------------------------------------- */

Layout layout_of(int dims, const int *extent); /* no digits yet: one thread, one register */

/* Appends an outermost digit; a radix of 1 is dropped. */
void layout_push(Layout *l, LayoutPart part, int dim, int radix, int stride);
void layout_repeat(Layout *l, LayoutPart part, int radix); /* a replicating digit */

/* ---- reading --------------------------------------------------------------------------------- */

int layout_size(const Layout *l, LayoutPart part); /* registers, lanes or waves */
int layout_positions(const Layout *l);             /* registers * lanes * waves */
int layout_elements(const Layout *l);              /* of the tile */
int layout_replication(const Layout *l); /* how often each element is declared to be held */
int layout_wave_copies(const Layout *l, int waves); /* replication within the innermost `waves`
                                                     * waves */

void layout_at(const Layout *l, int reg, int lane, int wave, int coord[LAYOUT_DIMS]);

/* The row-major index of an element in its tile; -1 when the position is over-covered. */
int layout_number(const Layout *l, const int coord[LAYOUT_DIMS]);

/* The element at every position, -1 where over-covered; position (wave*lanes + lane)*regs + reg. */
const int *layout_table(Arena *a, const Layout *l);

/* The first position of every element, -1 where it is not held. */
const int *layout_owners(Arena *a, const Layout *l);

/* A register that holds an element. */
typedef struct LayoutHolder {
  int reg, lane, wave;
} LayoutHolder;

LayoutHolder layout_holder_at(const Layout *l, int position);

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct LayoutCover {
  int missing;     /* elements that are not held */
  int least, most; /* holders of an element */
  int over;        /* positions past the tile */
  bool exact;      /* nothing missing, every element held as often as declared */
} LayoutCover;

LayoutCover layout_cover(Arena *scratch, const Layout *l);

/* Nothing is missing. Its time is the sum of the extents, not their product. */
bool layout_covers(Arena *scratch, const Layout *l);

/* Merges adjacent digits that continue each other and drops those of radix 1. Two layouts are the
 * same function of (register, lane, wave) if and only if their normal forms have the same
 * digits. */
void layout_normalise(Layout *l);
bool layout_equal(const Layout *a, const Layout *b);

/* ---- changing dims --------------------------------------------------------------------------- */

/* The tile over `dims`, in that order: a permutation, or a slice. A dim that is left out disappears
 * as in a reduction along it: its register digits are dropped, its lane and wave digits
 * replicate. */
Layout layout_select(const Layout *l, const int *dims, int n);
Layout layout_drop(const Layout *l, int dim);

/* Inserts a dim before dim `at`, with all its elements in outer registers: a broadcast. */
Layout layout_add(const Layout *l, int at, int extent);

/* ---- vectors --------------------------------------------------------------------------------- */

/* How many consecutive registers, starting at each multiple of that number, advance along `dim` by
 * one. */
int layout_run(const Layout *l, int dim);

/* The widest access along `dim`: a power of two of elements of `bits`, within a run, at most
 * `bytes` long, aligned to its own size in the tile, and never partly past the tile. */
int layout_vector(const Layout *l, int dim, int bits, int bytes);

/* ---- tiles and blocks (layout_tile.c) -------------------------------------------------------- */

typedef struct LayoutTiling {
  int tile[LAYOUT_DIMS];      /* what all waves hold together */
  int wave_tile[LAYOUT_DIMS]; /* what one wave (or group of waves of the fragment) holds; 0: all */
  int copies[LAYOUT_DIMS];    /* dims in the order copies are counted, fastest first */
  int waves[LAYOUT_DIMS];     /* dims in the order waves are counted, fastest first */
} LayoutTiling;

/* Both orders start with the last dim. */
LayoutTiling layout_tiling(int dims, const int *tile, const int *wave_tile);

/* Replicates a fragment over the tile of a wave, and waves over the whole tile. Sizes need not be
 * multiples: elements past the tile are over-covered. A wave tile that is not a multiple of the
 * fragment overlaps its neighbour, which layout_cover shows as least < most. */
Layout layout_tile(const Layout *fragment, const LayoutTiling *t);

typedef struct LayoutBlocking {
  int dims;
  int extent[LAYOUT_DIMS];
  int order[LAYOUT_DIMS]; /* dims in memory order, the contiguous one first */
  int bits;               /* of an element */
  int lanes, waves;
  int widest; /* bytes of the widest access */
  int least;  /* elements that stay in one lane where the extent allows; 0: 1 */
} LayoutBlocking;

/* A layout for loads and stores: vectors along the contiguous dim, neighbouring lanes on
 * neighbouring vectors, as few instructions and memory sectors as the extents allow. Threads left
 * without elements hold copies. */
Layout layout_blocked(const LayoutBlocking *b);

/* ---- text (layout_text.c) -------------------------------------------------------------------- */

/*     [16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4 | wave ~/2
 *     extents  dim/radix:stride, or ~/radix for copies; a part without digits is left out */
void layout_print(StrBuf *out, const Layout *l);

/* Parses at *text and advances it past the layout. On failure *text points to the mistake and
 * the result says what is wrong; NULL: success. */
const char *layout_parse(const char **text, Layout *out);

/* Parses the digits alone, for a layout whose dims and extents are set; mma.def holds these. */
const char *layout_parse_digits(const char **text, Layout *l);

#endif
