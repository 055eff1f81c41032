#include "python/src/step.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/kernels/append.h"

namespace emblema::python {
namespace {

// Floats of queries and results that one kernel call is given at most, unless one token takes more.
constexpr std::uint64_t kFloatsMax = std::uint64_t{16} << 20;

// Multiplications from which on a second thread is worth waking: about a millisecond of one core.
// torch's own threads wait busily for its next product, and whoever wakes takes a core from them.
constexpr double kWorthSharing = 3e7;

std::string shape_in_words(const HeadTensor& tensor) {
  return fmt::format("[{}][{}][{}][{}]", tensor.sequences, tensor.heads, tensor.tokens,
                     tensor.width);
}

Status check_shape(std::string_view field, const HeadTensor& tensor, std::uint64_t sequences,
                   std::uint64_t heads, std::uint64_t columns, std::uint64_t width) {
  if (tensor.sequences == sequences && tensor.heads == heads && tensor.tokens == columns &&
      tensor.width == width) {
    return {};
  }
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed: [{}][{}][{}][{}], [sequences][heads][columns][width]",
                          field, shape_in_words(tensor), sequences, heads, columns, width));
}

Status check_columns(std::span<const std::uint32_t> own, std::uint64_t columns) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] < columns && (i == 0 || own[i - 1] < own[i])) continue;
    return fail(
        ErrorCode::Invalid,
        fmt::format("column {} of a sequence; allowed: ascending, below {}", own[i], columns));
  }
  return {};
}

struct Widths {
  std::uint64_t query = 0;
  std::uint64_t result = 0;
};

Widths widths_of(const LayerGeometry& layer, const AttendOptions& options) {
  if (options.expansion == nullptr) return {layer.key_dim, layer.value_dim};
  const std::uint64_t tail = layer.key_dim - layer.value_dim;
  return {options.expansion->content_dim + tail, options.expansion->value_dim};
}

}  // namespace

Step::Step(const Engine& engine, ThreadPool* threads)
    : layers_(engine.geometry().layers()), threads_(threads) {}

Status Step::begin(std::vector<StepRow> rows, std::uint64_t columns) {
  for (const StepRow& row : rows) {
    if (Status ok = check_columns(row.columns, columns); !ok) return ok;
    const std::uint64_t end = row.sequence->tokens() + row.sequence->reserved_tokens();
    if (row.position > end || row.tokens() > end - row.position) {
      return fail(ErrorCode::Invalid, fmt::format("{} tokens at position {}; allowed: up to {}",
                                                  row.tokens(), row.position, end));
    }
  }
  rows_ = std::move(rows);
  columns_ = columns;
  return {};
}

Result<const LayerGeometry*> Step::layer_of(std::uint32_t layer) const {
  if (layer < layers_.size()) return &layers_[layer];
  return fail(ErrorCode::Invalid,
              fmt::format("layer is {}; allowed: below {}", layer, layers_.size()));
}

Status Step::write(std::uint32_t layer, const HeadTensor& keys, const HeadTensor& values) {
  const auto known = layer_of(layer);
  if (!known) return propagate(known);
  const LayerGeometry& facts = **known;
  if (facts.streams.empty()) {
    return fail(ErrorCode::Unsupported, fmt::format("layer {} keeps no rows of its own", layer));
  }
  const bool is_latent = facts.streams.front().role == StreamRole::kLatent;
  const std::uint64_t key_width = is_latent ? facts.value_dim : facts.key_dim;
  const std::uint64_t value_width =
      is_latent ? facts.key_dim - facts.value_dim : std::uint64_t{facts.value_dim};
  const std::uint64_t heads = facts.kv_heads;
  if (Status ok = check_shape("keys", keys, rows_.size(), heads, columns_, key_width); !ok) {
    return ok;
  }
  if (Status ok = check_shape("values", values, rows_.size(), heads, columns_, value_width); !ok) {
    return ok;
  }
  for (std::uint64_t row = 0; row < rows_.size(); ++row) {
    if (Status ok = write_row(facts, row, keys, values); !ok) return ok;
  }
  return {};
}

// Keys, then values, of all heads of each new token: for latents that is [c_kv][k_rope].
Status Step::write_row(const LayerGeometry& layer, std::uint64_t row, const HeadTensor& keys,
                       const HeadTensor& values) {
  const StepRow& own = rows_[row];
  const std::uint64_t first = std::max(own.position, own.sequence->tokens());
  const std::uint64_t end = own.position + own.tokens();
  if (first >= end) return {};
  const std::uint64_t row_numbers = keys.heads * (keys.width + values.width);
  numbers_.resize((end - first) * row_numbers);
  float* to = numbers_.data();
  for (std::uint64_t position = first; position < end; ++position) {
    const std::uint64_t column = own.columns[position - own.position];
    for (std::uint64_t head = 0; head < keys.heads; ++head, to += keys.width) {
      keys.load(row, head, column, to);
    }
    for (std::uint64_t head = 0; head < keys.heads; ++head, to += values.width) {
      values.load(row, head, column, to);
    }
  }
  const auto inputs = own.sequence->inputs(layer.index, nullptr, end, 0);
  if (!inputs) return propagate(inputs);
  const auto view = own.sequence->rows(layer.index, layer.streams.front().role, first, end - first);
  if (!view) return propagate(view);
  AppendInputs append;  // keys come rotated
  append.shape = inputs->shape;
  const std::span<const float> numbers = numbers_;
  for (std::uint64_t i = 0; i < view->size(); ++i) {
    const RowChunk chunk = (*view)[i];
    append.numbers =
        numbers.subspan((chunk.first_token - first) * row_numbers, chunk.rows * row_numbers);
    if (Status ok = append_rows(append, contiguous_rows(chunk.data, chunk.rows, inputs->rows));
        !ok) {
      return ok;
    }
  }
  return {};
}

Status Step::attend(std::uint32_t layer, const HeadTensor& query, const HeadTensor& out,
                    const AttendOptions& options) {
  const auto known = layer_of(layer);
  if (!known) return propagate(known);
  const LayerGeometry& facts = **known;
  const Widths widths = widths_of(facts, options);
  const std::uint64_t heads = facts.query_heads;
  if (Status ok = check_shape("query", query, rows_.size(), heads, columns_, widths.query); !ok) {
    return ok;
  }
  if (Status ok = check_shape("out", out, rows_.size(), heads, columns_, widths.result); !ok) {
    return ok;
  }
  if (!window_fits(facts, options.window)) {
    return fail(ErrorCode::Invalid, fmt::format("window of layer {} is {}; its config says {}",
                                                layer, options.window, facts.window_tokens));
  }
  clear_padding(out);
  const std::uint64_t tokens_max =
      std::max<std::uint64_t>(1, kFloatsMax / (heads * (widths.query + widths.result)));
  std::vector<Piece> pieces;
  std::uint64_t held = 0;
  for (std::uint64_t row = 0; row < rows_.size(); ++row) {
    for (std::uint64_t first = 0; first < rows_[row].tokens();) {
      const std::uint64_t tokens = std::min(rows_[row].tokens() - first, tokens_max - held);
      pieces.push_back({row, first, tokens});
      first += tokens;
      held += tokens;
      if (held < tokens_max) continue;
      if (Status ok = attend_pieces(facts, pieces, query, out, options); !ok) return ok;
      pieces.clear();
      held = 0;
    }
  }
  return pieces.empty() ? Status{} : attend_pieces(facts, pieces, query, out, options);
}

Status Step::attend_pieces(const LayerGeometry& layer, std::span<const Piece> pieces,
                           const HeadTensor& query, const HeadTensor& out,
                           const AttendOptions& options) {
  const Widths widths = widths_of(layer, options);
  const std::uint64_t heads = layer.query_heads;
  std::uint64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.tokens;
  numbers_.resize(tokens * heads * widths.query);
  results_.resize(tokens * heads * widths.result);
  lse_.resize(tokens * heads);
  asking_.clear();
  AttentionInputs inputs;
  std::uint64_t at = 0;
  for (const Piece& piece : pieces) {
    const StepRow& row = rows_[piece.row];
    const auto one = row.sequence->inputs(layer.index, numbers_.data(), row.position + piece.first,
                                          piece.tokens);
    if (!one) return propagate(one);
    inputs = *one;
    asking_.push_back(one->sequences.front());
    asking_.back().first_query = at;
    run_parts(threads_, piece.tokens, [&](std::uint32_t, std::uint64_t token) {
      float* to = numbers_.data() + (at + token) * heads * widths.query;
      for (std::uint64_t head = 0; head < heads; ++head, to += widths.query) {
        query.load(piece.row, head, row.columns[piece.first + token], to);
      }
    });
    at += piece.tokens;
  }
  inputs.shape.scale = options.scale;
  inputs.shape.softcap = options.softcap;
  inputs.tokens = tokens;
  inputs.sequences = asking_;
  inputs.sinks = options.sinks;
  ThreadPool* threads = multiplications(layer, pieces) < kWorthSharing ? nullptr : threads_;
  const AttentionOptions how{.workspace = &workspace_, .threads = threads};
  if (Status ok = prefill_attention(inputs, results_, lse_, options.expansion, how); !ok) return ok;
  at = 0;
  for (const Piece& piece : pieces) {
    const std::vector<std::uint32_t>& columns = rows_[piece.row].columns;
    run_parts(threads_, piece.tokens, [&](std::uint32_t, std::uint64_t token) {
      const float* from = results_.data() + (at + token) * heads * widths.result;
      for (std::uint64_t head = 0; head < heads; ++head, from += widths.result) {
        out.store(piece.row, head, columns[piece.first + token], from);
      }
    });
    at += piece.tokens;
  }
  return {};
}

// A window that no query reaches past is none: a config's may be as long as its positions.
bool Step::window_fits(const LayerGeometry& layer, std::uint64_t window) const {
  if (window == layer.window_tokens) return true;
  if (layer.window_tokens > 0) return false;
  return std::ranges::all_of(
      rows_, [&](const StepRow& row) { return row.position + row.tokens() <= window; });
}

double Step::multiplications(const LayerGeometry& layer, std::span<const Piece> pieces) const {
  double count = 0;
  for (const Piece& piece : pieces) {
    const auto keys = static_cast<double>(rows_[piece.row].position + piece.first + piece.tokens);
    count += static_cast<double>(piece.tokens) * keys;
  }
  return count * layer.query_heads * (layer.key_dim + layer.value_dim);
}

void Step::clear_padding(const HeadTensor& out) const {
  const std::vector<float> zeros(out.width);
  for (std::uint64_t row = 0; row < rows_.size(); ++row) {
    auto own = rows_[row].columns.begin();
    for (std::uint64_t column = 0; column < columns_; ++column) {
      if (own != rows_[row].columns.end() && *own == column) {
        ++own;
        continue;
      }
      for (std::uint64_t head = 0; head < out.heads; ++head) {
        out.store(row, head, column, zeros.data());
      }
    }
  }
}

}  // namespace emblema::python
