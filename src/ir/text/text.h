/* text.h: what the printer and the parser of *.wave agree on. Private to src/ir. */
#ifndef WV_TEXT_H
#define WV_TEXT_H

#include "ir/attr.h"

/* An attribute that is written before the braces: a region's in its first line, otherwise the
 * lead. */
bool text_attr_is_in_head(OpKind kind, AttrKey key);

/* Names of values: letters, digits and `_ $ .`, not beginning with a digit unless all digits. */
bool text_is_name_char(char c);

/* A float that reads back as the same bits and cannot be mistaken for an integer. */
void text_float_print(StrBuf *out, double v);
/* NaN with this sign and payload; payload 0: the usual quiet one. */
double text_float_nan(bool negative, uint64_t payload);

#endif
