// Convert: rows of one storage into rows of another, whatever blocks and page sizes either has:
// bf16 pages into 656-byte ones, fp8 pages back into bf16, blocks of 16 into blocks of 64.
//
// Each number is decoded to fp32 and stored anew as append_rows would; what decodes to NaN becomes
// one quiet NaN (0x7fc00000). Where both sides store alike (format, encoding, tensor scales) and no
// scale rule is named, the stored bytes are copied instead. Same bytes from every instruction set.
// What is written, and which threads may call, as in append.h.
#pragma once

#include "emblema/contract/result.h"
#include "emblema/kernels/row_places.h"

namespace emblema {

// shape: kind, kv_heads, key_dim and value_dim of the rows on both sides.
// REQUIRES: the target's blocks differ; the two sides share no byte.
// Invalid, before any byte is written, naming the side and the field; Unsupported: as append_rows.
[[nodiscard]] Status convert_rows(const AttentionShape& shape, const RowSource& source,
                                  const RowTarget& target, const RowOptions& options = {});

}  // namespace emblema
