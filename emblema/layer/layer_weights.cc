#include "emblema/layer/layer_weights.h"

#include <array>
#include <cmath>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/layer/seeded_values.h"

namespace emblema {
namespace {

enum class Fill { kMatrix, kGain, kLogits };

// One array of the layer: its place in LayerWeights is its place in this list, and its number is
// that of its random stream: never renumber, or every seeded run changes.
struct Array {
  std::vector<float> LayerWeights::*place;
  std::uint64_t stream;
  Fill fill;
  std::uint64_t out;
  std::uint64_t in;
};

std::array<Array, 9> arrays(const LayerDims& dims, bool has_sinks) {
  using W = LayerWeights;
  const std::uint64_t query_in = dims.query_rank > 0 ? dims.query_rank : dims.hidden;
  const std::uint64_t heads = dims.query_heads;
  const std::uint64_t latent = dims.latent_dim;
  const std::uint64_t head_keys = dims.is_latent() ? heads * dims.content_dim : 0;
  const std::uint64_t head_values = dims.is_latent() ? heads * dims.value_dim : 0;
  return {{
      {&W::query_down, 0, Fill::kMatrix, dims.query_rank, dims.hidden},
      {&W::query_norm, 1, Fill::kGain, dims.query_rank, 1},
      {&W::query_up, 2, Fill::kMatrix, heads * dims.head_key_dim(), query_in},
      {&W::row_down, 3, Fill::kMatrix, dims.row_elements(), dims.hidden},
      {&W::latent_norm, 4, Fill::kGain, latent, 1},
      {&W::key_up, 5, Fill::kMatrix, head_keys, latent},
      {&W::value_up, 6, Fill::kMatrix, head_values, latent},
      {&W::output, 7, Fill::kMatrix, dims.hidden, heads * dims.value_dim},
      {&W::sinks, 8, Fill::kLogits, has_sinks ? heads : 0, 1},
  }};
}

void fill(std::vector<float>& values, const Array& array, std::uint64_t key) {
  // A uniform number in (-1, 1) has variance 1/3.
  const double matrix_width = std::sqrt(3.0 / static_cast<double>(array.in));
  switch (array.fill) {
    case Fill::kMatrix:
      fill_uniform(values, key, static_cast<float>(matrix_width));
      return;
    case Fill::kGain:
      fill_uniform(values, key, 0.125F, 1.0F);
      return;
    case Fill::kLogits:
      fill_uniform(values, key, 1.0F);
      return;
  }
}

Result<std::uint64_t> array_bytes(const LayerDims& dims, bool has_sinks) {
  std::uint64_t total_bytes = 0;
  for (const Array& array : arrays(dims, has_sinks)) {
    Result<std::uint64_t> count = mul_bytes(array.out, array.in, "weights of a layer");
    if (!count) return count;
    Result<std::uint64_t> bytes = mul_bytes(*count, sizeof(float), "bytes of a layer's weights");
    if (!bytes) return bytes;
    Result<std::uint64_t> sum = add_bytes(total_bytes, *bytes, "bytes of a layer's weights");
    if (!sum) return sum;
    total_bytes = *sum;
  }
  return total_bytes;
}

}  // namespace

Result<LayerWeights> LayerWeights::seeded(const LayerDims& dims, bool has_sinks, std::uint64_t seed,
                                          std::uint32_t layer) {
  const Result<std::uint64_t> bytes = array_bytes(dims, has_sinks);
  if (!bytes) return propagate(bytes);
  LayerWeights weights;
  const auto no_memory = [&] {
    return fail(ErrorCode::Io, fmt::format("layer {}: the system gave no memory for {} bytes of "
                                           "weights",
                                           layer, *bytes));
  };
  try {
    for (const Array& array : arrays(dims, has_sinks)) {
      std::vector<float>& values = weights.*array.place;
      values.resize(array.out * array.in);
      fill(values, array, value_key(seed, layer, array.stream));
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::length_error&) {
    return no_memory();
  }
  return weights;
}

Result<std::uint64_t> weight_bytes(const ModelConfig& model, const LayerGeometry& layer) {
  const Result<LayerDims> dims = LayerDims::from(model, layer);
  if (!dims) return propagate(dims);
  return array_bytes(*dims, layer.has_sinks);
}

}  // namespace emblema
