#include "apps/agents/stack.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention.h"
#include "emblema/layer/rms_norm.h"
#include "emblema/layer/seeded_values.h"
#include "emblema/os/memory.h"

namespace emblema::agents {
namespace {

float* grown(std::vector<float>& memory, std::uint64_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

Status check_weight_memory(const ModelGeometry& geometry) {
  std::uint64_t needed = 0;
  for (const LayerGeometry& layer : geometry.layers()) {
    const auto bytes = weight_bytes(geometry.model(), layer);
    if (!bytes) return propagate(bytes);
    const auto sum = add_bytes(needed, *bytes, "bytes of the weights");
    if (!sum) return propagate(sum);
    needed = *sum;
  }
  const std::uint64_t available = available_memory_bytes();
  if (available == 0 || needed < available) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("layers is {}: their weights take {} of memory, {} is available; fewer "
                          "layers or a smaller model would fit",
                          geometry.layers().size(), format_bytes(needed), format_bytes(available)));
}

}  // namespace

Result<Stack> Stack::create(const ModelGeometry& geometry, std::uint64_t seed, ThreadPool* threads,
                            std::optional<Isa> isa) {
  if (Status ok = check_weight_memory(geometry); !ok) return propagate(ok);
  Stack stack;
  stack.seed_ = seed;
  stack.isa_ = isa;
  stack.hidden_ = geometry.model().hidden_size;
  stack.norm_eps_ = geometry.model().rms_norm_eps;
  stack.layers_.reserve(geometry.layers().size());
  for (const LayerGeometry& layer : geometry.layers()) {
    auto created =
        AttentionLayer::create(geometry.model(), layer, {.seed = seed, .threads = threads});
    if (!created) return propagate(created);
    stack.layers_.push_back(std::move(*created));
    stack.roles_.push_back(layer.streams.front().role);
    stack.encodings_.push_back(layer.streams.front().regions.front().encoding);
  }
  return stack;
}

void Stack::embed(std::span<const TokenId> tokens, std::span<float> x) const {
  constexpr std::uint64_t kEmbeddings = UINT64_C(1) << 40;     // apart from the layers' own streams
  const auto half_width = static_cast<float>(std::sqrt(3.0));  // variance 1
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    fill_uniform(x.subspan(i * hidden_, hidden_), value_key(seed_, kEmbeddings, tokens[i]),
                 half_width);
  }
}

AttentionOptions Runner::attention_options(std::size_t layer) {
  return {
      .workspace = &workspace_, .threads = stack_->layers()[layer].threads(), .isa = stack_->isa()};
}

std::span<const float> Runner::normed(std::uint64_t count) {
  const std::uint64_t size = count * stack_->hidden();
  const std::span<float> out(grown(norm_, size), size);
  rms_norm({x_.data(), size}, stack_->hidden(), {}, stack_->norm_eps(), out);
  return out;
}

Status Runner::write_rows(const Projection& projection, std::size_t layer, std::uint64_t first_row,
                          const Sequence& sequence, std::uint64_t position, std::uint64_t count) {
  const auto rows =
      sequence.rows(static_cast<std::uint32_t>(layer), stack_->role(layer), position, count);
  if (!rows) return propagate(rows);
  for (std::uint64_t i = 0; i < rows->size(); ++i) {
    const RowChunk chunk = (*rows)[i];
    const PagedRows stored{.row_bytes = chunk.row_bytes, .encoding = stack_->encoding(layer)};
    const Status written = encode_rows(projection, first_row + chunk.first_token - position,
                                       chunk.rows, contiguous_rows(chunk.data, chunk.rows, stored));
    if (!written) return written;
  }
  return {};
}

Status Runner::finish_layer(std::size_t layer, std::span<const float> result, AttentionForm form,
                            std::uint64_t count, std::uint64_t first_index,
                            const Observer& observe) {
  const std::uint64_t size = count * stack_->hidden();
  const std::span<float> output(grown(output_, size), size);
  const Status done = stack_->layers()[layer].output(result, form, output, layer_scratch_);
  if (!done) return done;
  for (std::uint64_t i = 0; i < size; ++i) x_[i] += output[i];
  for (std::uint64_t i = 0; observe && i < count; ++i) {
    observe(layer, first_index + i, output.subspan(i * stack_->hidden(), stack_->hidden()));
  }
  return {};
}

Status Runner::prefill(Sequence& sequence, std::span<const TokenId> tokens,
                       std::uint64_t step_tokens, std::int64_t rotate_by, const Observer& observe) {
  for (std::uint64_t first = 0; first < tokens.size(); first += step_tokens) {
    const std::uint64_t count = std::min<std::uint64_t>(step_tokens, tokens.size() - first);
    const Status done =
        prefill_step(sequence, tokens.subspan(first, count), rotate_by, first, observe);
    if (!done) return done;
  }
  return {};
}

Status Runner::prefill_step(Sequence& sequence, std::span<const TokenId> tokens,
                            std::int64_t rotate_by, std::uint64_t first_index,
                            const Observer& observe) {
  const std::uint64_t count = tokens.size();
  const std::uint64_t position = sequence.tokens();
  if (Status ok = sequence.reserve(count); !ok) return ok;
  std::vector<std::int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), static_cast<std::int64_t>(position) + rotate_by);
  grown(x_, count * stack_->hidden());
  stack_->embed(tokens, {x_.data(), count * stack_->hidden()});
  for (std::size_t layer = 0; layer < stack_->layers().size(); ++layer) {
    const AttentionLayer& attention = stack_->layers()[layer];
    const LayerDims& dims = attention.dims();
    const AttentionForm form = prefill_cost(dims, count, position + count).cheaper();
    const auto projection = attention.project(normed(count), positions, form, layer_scratch_);
    if (!projection) return propagate(projection);
    if (Status ok = write_rows(*projection, layer, 0, sequence, position, count); !ok) return ok;
    const auto inputs = sequence.inputs(static_cast<std::uint32_t>(layer),
                                        projection->queries.data(), position, count);
    if (!inputs) return propagate(inputs);
    const std::uint64_t size = count * dims.query_heads * dims.result_dim(form);
    const std::span<float> result(grown(result_, size), size);
    const std::uint64_t lse_size = count * dims.query_heads;
    const Status attended = emblema::prefill(
        attention, form, projection->queries, inputs->sequences.front(), inputs->rows, result,
        {grown(lse_, lse_size), lse_size}, attention_options(layer));
    if (!attended) return attended;
    if (Status ok = finish_layer(layer, result, form, count, first_index, observe); !ok) return ok;
  }
  return sequence.commit(tokens);
}

Status Runner::decode(std::span<Sequence* const> sequences, std::span<const TokenId> tokens,
                      const Observer& observe) {
  EMBLEMA_CHECK(sequences.size() == tokens.size(), "one token per sequence");
  const std::uint64_t count = sequences.size();
  std::vector<std::int64_t> positions(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    positions[i] = static_cast<std::int64_t>(sequences[i]->tokens());
    if (Status ok = sequences[i]->reserve(1); !ok) return ok;
  }
  grown(x_, count * stack_->hidden());
  stack_->embed(tokens, {x_.data(), count * stack_->hidden()});
  std::vector<SequenceInputs> batch(count);
  for (std::size_t layer = 0; layer < stack_->layers().size(); ++layer) {
    const AttentionLayer& attention = stack_->layers()[layer];
    const LayerDims& dims = attention.dims();
    const AttentionForm form = AttentionForm::kAbsorbed;
    const auto projection = attention.project(normed(count), positions, form, layer_scratch_);
    if (!projection) return propagate(projection);
    AttentionInputs inputs;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto position = static_cast<std::uint64_t>(positions[i]);
      if (Status ok = write_rows(*projection, layer, i, *sequences[i], position, 1); !ok) return ok;
      const auto one = sequences[i]->inputs(static_cast<std::uint32_t>(layer),
                                            projection->queries.data(), position, 1);
      if (!one) return propagate(one);
      batch[i] = one->sequences.front();
      batch[i].first_query = i;
      inputs = *one;
    }
    inputs.tokens = count;
    inputs.sequences = batch;
    inputs.sinks = attention.sinks();
    const std::uint64_t size = count * dims.query_heads * dims.result_dim(form);
    const std::span<float> result(grown(result_, size), size);
    const std::span<float> lse(grown(lse_, count * dims.query_heads), count * dims.query_heads);
    if (Status ok = decode_attention(inputs, result, lse, attention_options(layer)); !ok) return ok;
    if (decode_hook_) decode_hook_(layer, inputs, result, lse);
    if (Status ok = finish_layer(layer, result, form, count, 0, observe); !ok) return ok;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (Status ok = sequences[i]->commit(tokens.subspan(i, 1)); !ok) return ok;
  }
  return {};
}

}  // namespace emblema::agents
