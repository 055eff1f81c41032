#include "emblema/plan/weights.h"

#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/weight_tensors.h"

namespace emblema {
namespace {

constexpr std::uint32_t kRanksMax = 65'536;
constexpr std::size_t kTermsShown = 16;
// Modules tested against patterns of names; past it a hostile config would cost minutes.
constexpr std::uint64_t kPatternsTimesLayersMax = std::uint64_t{1} << 22;
constexpr std::string_view kWhat = "the weights of this model";

// In the order of the model.
constexpr auto kParts = std::to_array<std::string_view>(
    {"embedding", "layer embedding", "norms", "residuals", "attention", "indexer", "mixer",
     "dense MLP", "router", "experts", "shared experts", "drafts", "head"});

// Equal tensors of many layers are one term of a formula.
struct Term {
  WeightTensor tensor;
  WeightFormat format;
  std::uint64_t count = 0;
};

class Counter {
 public:
  Counter(const ModelConfig& model, const WeightSplit& split)
      : model_(model), facts_(*model.weights), split_(split) {
    division_.tensor = split.tensor;
    division_.experts = split.expert_parallel;
    division_.expert_tensor =
        split.expert_parallel < split.tensor ? split.tensor / split.expert_parallel : 1;
  }

  Result<WeightsEstimate> count() {
    if (split_.has_embedding) {
      for (const WeightTensor& tensor : first_tensors(model_, split_.tensor)) {
        add(tensor, std::nullopt);
      }
    }
    const std::uint32_t last =
        split_.layers == 0 ? model_.num_hidden_layers : split_.first_layer + split_.layers;
    for (std::uint32_t layer = split_.first_layer; layer < last; ++layer) {
      const auto tensors = layer_tensors(model_, layer, division_);
      if (!tensors) return propagate(tensors);
      for (const WeightTensor& tensor : *tensors) add(tensor, layer);
      if (facts_.shared_blocks) add_shared_block(layer);
    }
    if (split_.has_drafts) {
      if (auto counted = add_drafts(); !counted) return propagate(counted);
    }
    if (split_.has_head) add_head();
    return sum();
  }

 private:
  WeightTensor vocabulary(std::string_view part) const {
    return {part,  part, 1, ceil_div(facts_.vocab_size, split_.tensor), model_.hidden_size,
            false, 0};
  }

  void add_head() {
    for (const WeightTensor& tensor : final_tensors(model_)) add(tensor, std::nullopt);
    // A tied head is the embedding, which is there already unless it is on another stage.
    if (facts_.tie_word_embeddings && split_.has_embedding) return;
    add(vocabulary("head"), std::nullopt);
  }

  // A stage holds a shared block from the first layer that uses it; later ones find it there.
  void add_shared_block(std::uint32_t layer) {
    if (model_.layers[layer].cache == LayerCache::kNone) return;
    if (blocks_held_ == facts_.shared_blocks->blocks) return;
    ++blocks_held_;
    for (const WeightTensor& tensor : shared_block_tensors(model_, layer, division_)) {
      add(tensor, layer);
    }
  }

  // Drafts use the model's head, and its embedding, of which this stage then needs a copy.
  Status add_drafts() {
    if (model_.num_nextn_predict_layers == 0 && facts_.block.drafts_unsaid) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("weights of draft layers are not counted in {}: its checkpoint has "
                              "some, and num_nextn_predict_layers is not given; give --weights",
                              model_.name));
    }
    if (model_.num_nextn_predict_layers == 0) return {};
    const auto tensors = draft_tensors(model_, division_);
    if (!tensors) return propagate(tensors);
    for (std::uint32_t draft = 0; draft < model_.num_nextn_predict_layers; ++draft) {
      for (const WeightTensor& tensor : *tensors) add(tensor, model_.num_hidden_layers + draft);
    }
    const bool own = facts_.block.drafts == DraftRule::kLongCat;
    if (own || !split_.has_embedding) add(vocabulary("drafts"), std::nullopt);
    return {};
  }

  // `layer`: of the tensor's name. Without one it is never quantised.
  void add(const WeightTensor& tensor, std::optional<std::uint32_t> layer) {
    const WeightFormat format = format_of(tensor, layer);
    const Key key = {tensor.part, tensor.module,  tensor.copies,
                     tensor.rows, tensor.columns, format.bits};
    const auto [found, is_new] = index_.try_emplace(key, terms_.size());
    if (is_new) terms_.push_back({tensor, format, 0});
    ++terms_[found->second].count;
  }

  WeightFormat format_of(const WeightTensor& tensor, std::optional<std::uint32_t> layer) const {
    const std::uint32_t bytes = tensor.bytes > 0 ? tensor.bytes : facts_.dtype_bytes;
    const WeightFormat plain{.bits = 8 * bytes};
    if (!tensor.linear || !layer || !facts_.quantization) return plain;
    const bool expert = is_expert(tensor);
    const auto& format = expert ? facts_.quantization->experts : facts_.quantization->linear;
    if (!format) return plain;
    const std::string module = fmt::format("model.layers.{}.{}", *layer, tensor.module);
    return is_not_converted(*facts_.quantization, module) ? plain : *format;
  }

  static bool is_expert(const WeightTensor& tensor) {
    return tensor.module.starts_with("mlp.experts.");
  }

  Result<WeightsEstimate> sum() const {
    WeightsEstimate estimate;
    std::uint64_t expert_parameters = 0;
    for (const std::string_view name : kParts) {
      auto part = sum_part(name, &expert_parameters);
      if (!part) return propagate(part);
      if (part->parameters == 0) continue;
      const auto parameters = add_bytes(estimate.parameters, part->parameters, kWhat);
      const auto bytes = add_bytes(estimate.bytes, part->bytes, kWhat);
      if (!parameters) return propagate(parameters);
      if (!bytes) return propagate(bytes);
      estimate.parameters = *parameters;
      estimate.bytes = *bytes;
      estimate.parts.push_back(std::move(*part));
    }
    estimate.active_parameters = estimate.parameters - idle_parameters(expert_parameters);
    estimate.formula = describe(estimate);
    if (!facts_.towers.empty()) {
      estimate.notes.push_back(
          fmt::format("weights are those of the language part: vision and audio towers, which {} "
                      "announces, are "
                      "not counted; --weights gives a total with them",
                      facts_.towers));
    }
    return estimate;
  }

  Result<WeightPart> sum_part(std::string_view name, std::uint64_t* expert_parameters) const {
    WeightPart part{std::string(name), 0, 0, ""};
    std::size_t shown = 0;
    std::size_t more = 0;
    for (const Term& term : terms_) {
      if (term.tensor.part != name) continue;
      const auto parameters = parameters_of(term);
      const auto bytes = bytes_of(term);
      if (!parameters) return propagate(parameters);
      if (!bytes) return propagate(bytes);
      const auto parameters_sum = add_bytes(part.parameters, *parameters, kWhat);
      const auto bytes_sum = add_bytes(part.bytes, *bytes, kWhat);
      if (!parameters_sum) return propagate(parameters_sum);
      if (!bytes_sum) return propagate(bytes_sum);
      part.parameters = *parameters_sum;
      part.bytes = *bytes_sum;
      if (is_expert(term.tensor)) *expert_parameters += *parameters;
      if (++shown > kTermsShown) {
        ++more;
      } else {
        part.formula += (part.formula.empty() ? "" : " + ") + describe(term);
      }
    }
    if (more > 0) part.formula += fmt::format(" + {} more terms", more);
    return part;
  }

  static Result<std::uint64_t> parameters_of(const Term& term) {
    const auto matrix = mul_bytes(term.tensor.rows, term.tensor.columns, kWhat);
    if (!matrix) return matrix;
    const auto copies = mul_bytes(*matrix, term.tensor.copies, kWhat);
    if (!copies) return copies;
    return mul_bytes(*copies, term.count, kWhat);
  }

  static Result<std::uint64_t> bytes_of(const Term& term) {
    const auto matrix = stored_bytes(term.tensor.rows, term.tensor.columns, term.format);
    if (!matrix) return matrix;
    const auto copies = mul_bytes(*matrix, term.tensor.copies, kWhat);
    if (!copies) return copies;
    return mul_bytes(*copies, term.count, kWhat);
  }

  static Result<std::uint64_t> stored_bytes(std::uint64_t rows, std::uint64_t columns,
                                            const WeightFormat& format) {
    const auto weights = mul_bytes(rows, columns, kWhat);
    if (!weights) return weights;
    const auto bits = mul_bytes(*weights, format.bits, kWhat);
    if (!bits) return bits;
    const std::uint64_t plain = ceil_div(*bits, 8);
    if (format.scale_bytes == 0) return plain;
    const std::uint64_t blocks =
        ceil_div(rows, format.block_rows == 0 ? rows : format.block_rows) *
        ceil_div(columns, format.block_columns == 0 ? columns : format.block_columns);
    const auto scale_bits =
        mul_bytes(blocks, 8 * std::uint64_t{format.scale_bytes} + format.zero_bits, kWhat);
    if (!scale_bits) return scale_bits;
    const std::uint64_t beside =
        ceil_div(*scale_bits, 8) + format.matrix_bytes + columns * format.column_bytes;
    return add_bytes(plain, beside, kWhat);
  }

  // Parameters of the routed experts that one token does not visit.
  std::uint64_t idle_parameters(std::uint64_t expert_parameters) const {
    if (!facts_.experts) return 0;
    const std::uint64_t choices = std::uint64_t{facts_.experts->routed} + facts_.experts->identity;
    const unsigned __int128 visited =
        static_cast<unsigned __int128>(expert_parameters) * facts_.experts->per_token / choices;
    return expert_parameters - static_cast<std::uint64_t>(visited);
  }

  static std::string describe(const Term& term) {
    std::string text;
    for (const std::uint64_t factor :
         {term.count, term.tensor.copies, term.tensor.rows, term.tensor.columns}) {
      if (factor == 1) continue;
      text += (text.empty() ? "" : " x ") + std::to_string(factor);
    }
    return text.empty() ? "1" : text;
  }

  std::string describe(const WeightsEstimate& estimate) const {
    std::string parts;
    for (const WeightPart& part : estimate.parts) {
      parts += (parts.empty() ? "" : " + ") + part.name;
    }
    const std::string stored =
        facts_.quantization
            ? fmt::format("; {}: {}, the rest in {} bytes", facts_.quantization->method,
                          describe(*facts_.quantization), facts_.dtype_bytes)
            : fmt::format(", {} bytes each", facts_.dtype_bytes);
    return fmt::format("estimate from the config: {}{}", parts, stored);
  }

  static std::string describe(const QuantizationFacts& facts) {
    if (facts.linear == facts.experts && facts.linear) {
      return fmt::format("linear layers in {}", describe(*facts.linear));
    }
    std::string text;
    if (facts.linear) text = fmt::format("linear layers in {}", describe(*facts.linear));
    if (facts.experts) {
      text += fmt::format("{}experts in {}", text.empty() ? "" : ", ", describe(*facts.experts));
    }
    return text;
  }

  static std::string describe(const WeightFormat& format) {
    const auto side = [](std::uint32_t count) {
      return count == 0 ? std::string("all") : std::to_string(count);
    };
    return fmt::format("{} bits with a scale of {} {} for {} x {}", format.bits, format.scale_bytes,
                       format.scale_bytes == 1 ? "byte" : "bytes", side(format.block_rows),
                       side(format.block_columns));
  }

  using Key = std::tuple<std::string_view, std::string_view, std::uint64_t, std::uint64_t,
                         std::uint64_t, std::uint32_t>;

  const ModelConfig& model_;
  const WeightFacts& facts_;
  const WeightSplit& split_;
  TensorDivision division_;
  std::uint32_t blocks_held_ = 0;  // of shared_blocks
  std::vector<Term> terms_;
  std::map<Key, std::size_t> index_;
};

Status check_split(const ModelConfig& model, const WeightSplit& split) {
  const auto range = [](std::string_view field, std::uint64_t value, std::uint64_t min,
                        std::uint64_t max) -> Status {
    if (value >= min && value <= max) return {};
    return fail(ErrorCode::Invalid,
                fmt::format("{} is {}; allowed: {} to {}", field, value, min, max));
  };
  if (auto ok = range("tensor", split.tensor, 1, kRanksMax); !ok) return ok;
  if (auto ok = range("expert_parallel", split.expert_parallel, 1, kRanksMax); !ok) return ok;
  const std::uint32_t layers = model.num_hidden_layers;
  if (auto ok = range("first_layer", split.first_layer, 0, layers - 1); !ok) return ok;
  if (auto ok = range("layers", split.layers, 0, layers - split.first_layer); !ok) return ok;
  if (split.expert_parallel < split.tensor && split.tensor % split.expert_parallel != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("expert_parallel is {}; allowed: a divisor of tensor ({}), or more",
                            split.expert_parallel, split.tensor));
  }
  return {};
}

Status check_countable(const ModelConfig& model) {
  if (!model.weights) {
    return fail(ErrorCode::Unsupported,
                fmt::format("shapes of the weights of {} cannot be counted: {}; give --weights",
                            model.name, model.weights_missing));
  }
  if (!model.weights->quantization) return {};
  const QuantizationFacts& facts = *model.weights->quantization;
  if (!facts.uncounted.empty()) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format(
            "shapes of the weights of {} cannot be counted: quantization_config has {}, which "
            "this release does not know; give --weights",
            model.name, facts.uncounted));
  }
  if (facts.not_converted.size() > kPatternsTimesLayersMax / model.num_hidden_layers) {
    return fail(ErrorCode::Unsupported,
                fmt::format("quantization_config of {} names {} modules for {} layers, more than "
                            "are compared; give --weights",
                            model.name, facts.not_converted.size(), model.num_hidden_layers));
  }
  return {};
}

}  // namespace

Result<WeightsEstimate> estimate_weights(const ModelConfig& model, const WeightSplit& split) {
  if (auto ok = check_countable(model); !ok) return propagate(ok);
  if (auto ok = check_split(model, split); !ok) return propagate(ok);
  return Counter(model, split).count();
}

Result<std::uint64_t> share_of_total(std::uint64_t total_bytes, std::uint64_t whole_estimate_bytes,
                                     std::uint64_t rank_estimate_bytes) {
  if (whole_estimate_bytes == 0 || rank_estimate_bytes > whole_estimate_bytes) {
    return fail(ErrorCode::Invalid,
                fmt::format("a rank's estimate is {} of {} bytes; allowed: a share of a whole "
                            "above 0",
                            rank_estimate_bytes, whole_estimate_bytes));
  }
  const unsigned __int128 product =
      static_cast<unsigned __int128>(total_bytes) * rank_estimate_bytes;
  const unsigned __int128 share = (product + whole_estimate_bytes - 1) / whole_estimate_bytes;
  return static_cast<std::uint64_t>(share);  // at most total_bytes
}

}  // namespace emblema
