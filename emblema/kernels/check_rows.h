// Checks of rows and where they lie, shared by all kernels over paged rows: Invalid, naming the
// field, its value and what is allowed. Nothing is allocated where all is well. Any thread may
// call.
#pragma once

#include "emblema/contract/result.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

// What a row holds: kind, kv_heads, key_dim, value_dim.
[[nodiscard]] Status check_row_shape(const AttentionShape& shape);

// The rotary channels are channels of a key. No table: nothing to check.
[[nodiscard]] Status check_rotary_channels(const AttentionShape& shape, const RopeTable* rope);

// The layout holds such rows, each in a place of its own. REQUIRES: check_row_shape.
[[nodiscard]] Status check_paged_rows(const AttentionShape& shape, const PagedRows& rows);

// place.rows rows from place.first_row on lie in place.blocks, and those where a pointer can reach.
// REQUIRES: check_paged_rows.
[[nodiscard]] Status check_row_place(const PagedRows& rows, const Span& place);

}  // namespace emblema
