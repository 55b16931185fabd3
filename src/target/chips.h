/* chips.h: AMD's chips as data. */
#ifndef WV_CHIPS_H
#define WV_CHIPS_H

/* A row of chips.def. */
typedef struct Chip {
  const char *name, *target;
  unsigned llvm; /* the first version that knows it */
  unsigned elf;  /* its number in a code object */
} Chip;

const Chip *chip_at(int i);               /* NULL past the end */
const Chip *chip_named(const char *name); /* NULL: not in the table */
const Chip *chip_numbered(unsigned elf);  /* NULL: not in the table */

#endif
