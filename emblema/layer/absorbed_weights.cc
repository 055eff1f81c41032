#include "emblema/layer/absorbed_weights.h"

#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/layer/gemm.h"

namespace emblema {
namespace {

Status resize(std::vector<float>& memory, std::uint64_t count) {
  const auto no_memory = [&] {
    return fail(ErrorCode::Io, fmt::format("the system gave no memory for {} bytes of absorbed "
                                           "weights",
                                           count * sizeof(float)));
  };
  try {
    memory.resize(count);
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::length_error&) {
    return no_memory();
  }
  return {};
}

}  // namespace

OutputCost output_cost(const LayerDims& dims) {
  EMBLEMA_CHECK(dims.is_latent(), "only a latent layer has an output to absorb");
  const auto heads = static_cast<double>(dims.query_heads);
  const auto hidden = static_cast<double>(dims.hidden);
  const auto latent = static_cast<double>(dims.latent_dim);
  const auto value = static_cast<double>(dims.value_dim);
  return {hidden * latent * heads, hidden * value * heads + value * latent * heads};
}

Result<AbsorbedWeights> AbsorbedWeights::from(const AttentionLayer& layer) {
  const LayerDims& dims = layer.dims();
  if (!dims.is_latent()) {
    return fail(ErrorCode::Invalid,
                "rows of this layer are grouped keys and values; allowed: latent rows, whose W_UV "
                "can be absorbed");
  }
  const Result<std::uint64_t> width =
      mul_bytes(dims.query_heads, dims.latent_dim, "width of absorbed weights");
  if (!width) return propagate(width);
  const Result<std::uint64_t> count = mul_bytes(*width, dims.hidden, "absorbed weights");
  if (!count) return propagate(count);
  AbsorbedWeights made;
  made.hidden_ = dims.hidden;
  made.width_ = *width;
  made.threads_ = layer.threads();
  if (const Status status = resize(made.product_, *count); !status) return propagate(status);
  const std::uint64_t output_stride = dims.query_heads * dims.value_dim;
  for (std::uint64_t head = 0; head < dims.query_heads; ++head) {
    const float* output = layer.weights().output.data() + head * dims.value_dim;
    const float* value_up =
        layer.weights().value_up.data() + head * dims.value_dim * dims.latent_dim;
    multiply(
        {output, dims.hidden, dims.value_dim, output_stride},
        {value_up, dims.value_dim, dims.latent_dim, dims.latent_dim},
        {made.product_.data() + head * dims.latent_dim, dims.hidden, dims.latent_dim, made.width_},
        GemmSum::kReplace, made.threads_);
  }
  return made;
}

Status AbsorbedWeights::output(std::span<const float> result, std::span<float> out) const {
  const std::uint64_t count = out.size() / hidden_;
  if (out.size() % hidden_ != 0 || result.size() / width_ != count || result.size() % width_ != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("result has {} numbers and out {}; allowed: n x {} and n x {}",
                            result.size(), out.size(), width_, hidden_));
  }
  if (count == 0) return {};
  multiply_by_transpose({result.data(), count, width_, width_},
                        {product_.data(), hidden_, width_, width_},
                        {out.data(), count, hidden_, hidden_}, GemmSum::kReplace, threads_);
  return {};
}

}  // namespace emblema
