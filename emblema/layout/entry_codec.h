// Reference encoder and decoder of the rows of a page, for every profile and data type: plain, slow
// and right. What faster kernels write and read is held against it.
//
// The numbers of a row are its regions that are neither scales nor padding, in the page's order:
// [c_kv][k_rope], [k: head after head][v], [nope][rope], [key]. A region "x" with a companion
// "x_scale" is a run of blocks, each behind one scale (scaled_block.h, ggml_block.h); e4m3 without
// a companion has one scale per tensor, kept by the caller. Bytes are little-endian; padding inside
// a row is written 0; padding behind the rows is never touched.
//
//   encode  writes what the named engine's writer writes (default_scale_rule, or another)
//   decode  takes any scale that is stored: decode(encode(x)) stays within error_bound() of x
//
// Immutable after from(); any thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/layout/block_layout.h"
#include "emblema/layout/scaled_block.h"

namespace emblema {

// By codes and scales: 656-byte latents, index keys and per-head e4m3 as vLLM writes them,
// DeepSeek-V4's entries and MXFP4 as its reference code does.
ScaleRule default_scale_rule(StreamRole role, Encoding codes, Encoding scales);

struct EntryCodecOptions {
  std::optional<ScaleRule> scale_rule{};  // none: default_scale_rule; ggml's blocks have their own
  // Of e4m3 regions that store no scale, in order (k before v); empty: all 1.
  std::vector<float> tensor_scales{};
};

class EntryCodec {
 public:
  // Unsupported: codes without scales that say what they mean, such as MXFP4 without any, which is
  // a way to count and no format. Invalid: tensor
  // scales of the wrong number, or one that is not finite and above 0.
  static Result<EntryCodec> from(const StreamPage& page, const EntryCodecOptions& options = {});

  std::uint64_t row_numbers() const { return row_numbers_; }

  // Row `row` of the page at `bytes`. Invalid, naming the sizes: a row past the page's, a span that
  // is no page of this layout, another number of numbers than row_numbers().
  [[nodiscard]] Status encode(std::span<const float> numbers, std::uint64_t row,
                              ByteSpan bytes) const;
  [[nodiscard]] Status decode(ConstByteSpan bytes, std::uint64_t row,
                              std::span<float> numbers) const;

 private:
  // One region of numbers and how it is stored.
  struct Part {
    RowRegion codes;
    std::optional<RowRegion> scales;
    std::uint64_t block_numbers = 0;  // numbers behind one scale
    ScaleRule rule;
    float tensor_scale = 1.0F;
  };

  EntryCodec() = default;
  Status check(std::uint64_t numbers, std::uint64_t row, std::uint64_t bytes) const;

  StreamPage page_;
  std::vector<Part> parts_;
  std::uint64_t row_numbers_ = 0;
};

}  // namespace emblema
