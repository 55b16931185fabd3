/* chips.c: see chips.h. */
#include "target/chips.h"

#include <stddef.h>
#include <string.h>

#include "base/base.h"

static const Chip chips[] = {
#define CHIP(name, target, llvm, elf) {#name, #target, llvm, elf},
#include "target/chips.def"
};

const Chip *chip_at(int i) { return (size_t)i < WV_LEN(chips) ? &chips[i] : NULL; }

const Chip *chip_named(const char *name) {
  for (size_t i = 0; i < WV_LEN(chips); i++)
    if (strcmp(chips[i].name, name) == 0) return &chips[i];
  return NULL;
}

const Chip *chip_numbered(unsigned elf) {
  for (size_t i = 0; i < WV_LEN(chips); i++)
    if (chips[i].elf == elf) return &chips[i];
  return NULL;
}
