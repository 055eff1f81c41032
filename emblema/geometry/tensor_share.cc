#include "emblema/geometry/tensor_share.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace emblema {
namespace {

class Share {
 public:
  Share(const LayerFacts& layer, std::uint32_t ranks) : whole_(layer), own_(layer), ranks_(ranks) {}

  Result<LayerFacts> run() {
    if (const auto ok =
            divide(whole_.num_attention_heads, "query heads", &own_.num_attention_heads);
        !ok) {
      return propagate(ok);
    }
    if (const auto ok = divide_kv_heads(); !ok) return propagate(ok);
    if (whole_.recurrent.mixer != RecurrentMixer::kNone) {
      if (const auto ok = divide_state(); !ok) return propagate(ok);
      if (const auto ok = divide_convolution(); !ok) return propagate(ok);
    }
    return own_;
  }

 private:
  Status divide(std::uint32_t whole, std::string_view what, std::uint32_t* own) const {
    if (whole % ranks_ != 0) {
      return fail(ErrorCode::Invalid,
                  fmt::format("tensor_parallel is {}; allowed: a divisor of {}, the {}", ranks_,
                              whole, what));
    }
    *own = whole / ranks_;
    return {};
  }

  Status divide_kv_heads() {
    const std::uint32_t heads = whole_.num_key_value_heads;
    if (heads == 0) return {};  // latents, or no attention
    if (heads % ranks_ != 0 && ranks_ % heads != 0) {
      return fail(ErrorCode::Invalid,
                  fmt::format("tensor_parallel is {}; allowed: a divisor or a multiple of {}, the "
                              "KV heads",
                              ranks_, heads));
    }
    own_.num_key_value_heads = std::max<std::uint32_t>(1, heads / ranks_);
    return {};
  }

  // Matrices are divided by heads; Mamba-1 and RG-LRU have one, whose rows are channels.
  Status divide_state() {
    RecurrentFacts& own = own_.recurrent;
    const RecurrentFacts& whole = whole_.recurrent;
    if (whole.state_heads == 0) return {};
    if (whole.state_heads > 1) return divide(whole.state_heads, "state heads", &own.state_heads);
    return divide(whole.state_rows, "channels of the recurrent state", &own.state_rows);
  }

  Status divide_convolution() {
    const std::uint32_t channels = whole_.recurrent.conv_channels;
    std::uint32_t* own = &own_.recurrent.conv_channels;
    switch (whole_.recurrent.mixer) {
      case RecurrentMixer::kMamba2:
        return divide_mamba2_convolution();
      case RecurrentMixer::kKvConv:  // over the layer's own keys and values
        *own = channels / whole_.num_key_value_heads * own_.num_key_value_heads;
        return {};
      default:
        return divide(channels, "channels of the convolution", own);
    }
  }

  // Over the heads' channels and, per group, an input and an output vector of the state's width.
  // Groups that do not divide are repeated until each rank has one.
  Status divide_mamba2_convolution() {
    const RecurrentFacts& whole = whole_.recurrent;
    const std::uint64_t inner = std::uint64_t{whole.state_heads} * whole.state_rows;
    const std::uint64_t group_channels = 2 * std::uint64_t{whole.state_columns};
    if (group_channels == 0 || whole.conv_channels < inner + group_channels) {
      return divide(whole.conv_channels, "channels of the convolution",
                    &own_.recurrent.conv_channels);
    }
    const std::uint64_t groups = (whole.conv_channels - inner) / group_channels;
    const std::uint64_t own_groups = std::max<std::uint64_t>(1, groups / ranks_);
    if (groups % ranks_ != 0 && ranks_ % groups != 0) {
      return fail(ErrorCode::Invalid,
                  fmt::format("tensor_parallel is {}; allowed: a divisor or a multiple of {}, the "
                              "groups of the Mamba-2 state",
                              ranks_, groups));
    }
    own_.recurrent.conv_channels =
        static_cast<std::uint32_t>(inner / ranks_ + own_groups * group_channels);
    return {};
  }

  const LayerFacts& whole_;
  LayerFacts own_;
  const std::uint32_t ranks_;
};

}  // namespace

Result<LayerFacts> tensor_share(const LayerFacts& layer, std::uint32_t ranks) {
  if (ranks == 0) {
    return fail(ErrorCode::Invalid, "tensor_parallel is 0; allowed: at least 1");
  }
  if (ranks == 1) return layer;
  return Share(layer, ranks).run();
}

}  // namespace emblema
