// A page of a layout as attention reads it.
#pragma once

#include <optional>

#include "emblema/layout/attention_inputs.h"
#include "emblema/layout/stream_page.h"

namespace emblema {

// Format, encoding and distances of the page's rows; where they lie (base, block_bytes,
// block_count) and the scales of whole tensors are the caller's to add. Read are latent, grouped
// and compressed rows that are whole and in one encoding of 8 (e4m3), 16 or 32 bits; 656-byte
// latents; 584-byte DeepSeek-V4 entries. None: rows that no kernel reads.
std::optional<PagedRows> paged_rows_of(const StreamPage& page);

}  // namespace emblema
