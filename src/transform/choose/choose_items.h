/* choose_items.h: a kernel as the model of choose_model.h sees it: what it reads, writes and computes, by
 * expressions of the open symbols. choose_model.c lists it once; choose_times.c evaluates it for each
 * candidate. */
#ifndef WV_CHOOSE_ITEMS_H
#define WV_CHOOSE_ITEMS_H

#include "analysis/tensor_rows.h"
#include "schedule/loop_cost.h"
#include "transform/choose/choose_model.h"

enum { CHOOSE_RANK = 8 };

/* The elements of a tile. */
typedef struct Extents {
  int n, expr[CHOOSE_RANK];
  double scale[CHOOSE_RANK]; /* 1/32 for K/32 */
} Extents;

typedef enum ItemKind { ITEM_READ, ITEM_WRITE, ITEM_PRODUCT, ITEM_COMPUTE } ItemKind;

typedef struct Item {
  ItemKind kind;
  Extents tile; /* of a product: all of its dimensions */
  int m, n, k;  /* of a product: expressions */
  int bits;
  OpWeight weight;
  int loop;       /* -1: none */
  bool staged;    /* read through shared memory */
  int row;        /* expression: elements that are next to each other in memory; -1: not known */
  bool crosses;   /* rows of the tensor begin anywhere in a line of the cache */
  Vec(int) waves; /* expressions: that share the tile, along each dimension */
  double rate,
      wide_rate; /* multiplications of a compute unit in a cycle, by one wave and by several */
  int wide_rows, wide_lanes;
  bool exchanged; /* between waves, through shared memory */
  bool chained;   /* its result, or that of another product of the loop, is an operand of another */
} Item;

typedef struct Loop {
  const Sym *axis;
  int trips, around; /* expression; the loop around it, or -1 */
} Loop;

/* A dimension and its tile, or a tile that waves divide. */
typedef struct Division {
  int whole, part; /* expressions */
  const Constraint *row;
  bool alone; /* each wave would combine its own part: one has all of it */
} Division;

/* A tile in registers. */
typedef struct HeldTile {
  const Value *value;
  Extents tile;
  int bits;
} HeldTile;

/* Tiles that are in registers when an op begins: numbers of `held`. */
typedef struct Moment {
  int *held, n;
  bool in_loop;
} Moment;

struct ChooseModel {
  const Distribution *d;
  Kernel *k;
  const TargetInfo *t;
  const UnitRates *rates;
  const UnitLatencies *latencies;
  const UnitMemory *memory;
  const ChooseTiles *open;
  Arena *arena;
  Vec(const Sym *) exprs;
  SymProgram *program;
  int64_t *scratch, *value;
  Vec(Item) items;
  Vec(Loop) loops;
  Vec(Division) waves;
  Vec(Division) sizes; /* dimensions of tensors, and the tiles of rows */
  int tiles[3], threads[3];
  const Op *sums;        /* the loop whose iterations several workgroups may share; NULL: none */
  int64_t parts;         /* how many do, as a row says; 0: none says so */
  Vec(HeldTile) carried; /* by that loop */
  Vec(HeldTile) held;
  Vec(Moment) moments;
  double *registers; /* of each held tile */
  Extents *tensor;   /* by parameter */
  Vec(Extents) products;
  bool broken;
  int64_t all_threads;
};

#endif
