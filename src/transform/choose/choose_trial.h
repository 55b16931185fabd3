/* choose_trial.h: what a candidate leads to: a copy of the kernel is lowered with its values. */
#ifndef WV_CHOOSE_TRIAL_H
#define WV_CHOOSE_TRIAL_H

#include "transform/choose/choose_model.h"

/* Gives the open symbols values: a `bind` row for each, and a row `split` for more than one part. */
void choose_bind(Kernel *k, const ChooseTiles *open, const int64_t *value, int64_t parts);

/* `wide`: refuses instructions of one wave where the estimate relies on those of several, as soon as that is
 * known. False: it does not compile, or would spill registers; *why says so, in the arena of the
 * diagnostics. Reports nothing. */
bool choose_lower(const Kernel *k, const TargetInfo *t, ChooseModel *m, const ChooseTiles *open,
                  const int64_t *value, int64_t parts, bool wide, ChooseFound *out,
                  const char **why);

#endif
