#include "emblema/model/recurrent_state.h"

#include <string>

#include <fmt/format.h>

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};
constexpr CountRange kHeadsRange = {1, ConfigLimits::kHeadsMax};
constexpr CountRange kKernelRange = {1, 65'536};
constexpr std::uint64_t kKernel = 4;      // of every class here but LFM2's
constexpr std::uint64_t kConvWindow = 2;  // Baichuan-M1

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

class StateReader {
 public:
  StateReader(const ConfigFields& fields, std::uint64_t hidden_size)
      : fields_(fields), hidden_size_(hidden_size) {}

  RecurrentFacts read(RecurrentMixer mixer) const {
    RecurrentFacts facts;
    facts.mixer = mixer;
    switch (mixer) {
      case RecurrentMixer::kNone:
      case RecurrentMixer::kKvConv:
        break;
      case RecurrentMixer::kMamba1:
        read_mamba1(&facts);
        break;
      case RecurrentMixer::kMamba2:
        read_mamba2(&facts);
        break;
      case RecurrentMixer::kGatedDelta:
        read_gated_delta(&facts);
        break;
      case RecurrentMixer::kKimiDelta:
        read_kimi_delta(&facts);
        break;
      case RecurrentMixer::kLightning:
        read_lightning(&facts);
        break;
      case RecurrentMixer::kRgLru:
        read_rg_lru(&facts);
        break;
      case RecurrentMixer::kShortConv:
        read_short_conv(&facts);
        break;
    }
    return facts;
  }

 private:
  using Aliases = ConfigFields::Aliases;

  // Absent: a problem that lists the names.
  std::uint64_t need(const ConfigFields& fields, Aliases names, CountRange range) const {
    const auto value = fields.count(names, range);
    if (!value && !fields.problems().failed()) {
      fields.problems().invalid(fmt::format("{} is missing; allowed: {} to {}",
                                            fields.path_of(*names.begin()), range.min, range.max));
    }
    return value.value_or(1);
  }

  std::uint64_t or_class(const ConfigFields& fields, Aliases names, CountRange range,
                         std::uint64_t assumed) const {
    const auto value = fields.count(names, range);
    if (!value && !fields.problems().failed()) {
      fields.problems().note(
          fmt::format("{} is not given: {} is assumed, as in the class of this model",
                      fields.path_of(*names.begin()), assumed));
    }
    return value.value_or(assumed);
  }

  void set_conv(std::uint64_t channels, std::uint64_t kernel, RecurrentFacts* facts) const {
    if (channels > UINT32_MAX) {
      fields_.problems().invalid(
          fmt::format("the convolution of a recurrent layer has {} channels; allowed: up to {}",
                      channels, UINT32_MAX));
      return;
    }
    facts->conv_channels = kernel > 1 ? narrow(channels) : 0;
    facts->conv_columns = kernel > 1 ? narrow(kernel - 1) : 0;
  }

  void set_state(std::uint64_t heads, std::uint64_t rows, std::uint64_t columns,
                 RecurrentFacts* facts) const {
    facts->state_heads = narrow(heads);
    facts->state_rows = narrow(rows);
    facts->state_columns = narrow(columns);
  }

  std::uint64_t mamba_kernel() const {
    return or_class(fields_, {"mamba_d_conv", "conv_kernel", "conv_dimension", "d_conv"},
                    kKernelRange, kKernel);
  }

  std::uint64_t expansion() const {
    return or_class(fields_, {"mamba_expand", "expand", "expansion_factor"}, {1, 1024}, 2);
  }

  std::uint64_t need_hidden() const {
    if (hidden_size_ == 0 && !fields_.problems().failed()) {
      fields_.problems().invalid(fmt::format("{} is missing; allowed: {} to {}",
                                             fields_.path_of("hidden_size"), kWidthRange.min,
                                             kWidthRange.max));
    }
    return hidden_size_;
  }

  // Channels inside a Mamba layer, where they are not given by heads.
  std::uint64_t inner_width() const {
    if (const auto given = fields_.count({"mamba_d_ssm"}, kWidthRange)) return *given;
    return expansion() * need_hidden();
  }

  void read_mamba1(RecurrentFacts* facts) const {
    // `intermediate_size` is the mixer's own only where nothing else has one: FalconMambaConfig.
    const bool pure = fields_.has("state_size") && !fields_.has("mamba_d_state");
    const auto given =
        pure ? fields_.count({"intermediate_size"}, kWidthRange) : std::optional<std::uint64_t>();
    const std::uint64_t width = given ? *given : inner_width();
    set_conv(width, mamba_kernel(), facts);
    set_state(1, width,
              or_class(fields_, {"mamba_d_state", "state_size", "d_state"}, kWidthRange, 16),
              facts);
  }

  // Heads times width; where one is absent (or "auto"), the inner width decides.
  struct Heads {
    std::uint64_t count = 1;
    std::uint64_t width = 1;
  };

  Heads read_mamba2_heads() const {
    Heads heads;
    const bool has_count = has_number({"mamba_n_heads", "mamba_num_heads", "n_mamba_heads"});
    const auto count =
        has_count
            ? fields_.count({"mamba_n_heads", "mamba_num_heads", "n_mamba_heads"}, kHeadsRange)
            : pure_mamba2({"num_heads"}, kHeadsRange);
    const bool has_width = has_number({"mamba_d_head", "mamba_head_dim", "mamba_headdim"});
    const auto width =
        has_width ? fields_.count({"mamba_d_head", "mamba_head_dim", "mamba_headdim"}, kWidthRange)
                  : pure_mamba2({"head_dim"}, kWidthRange);
    if (fields_.problems().failed()) return heads;
    if (count && width) return {*count, *width};
    const std::uint64_t inner = inner_width();
    if (!count && !width && !fields_.problems().failed()) {
      fields_.problems().invalid(fmt::format("{} and mamba_d_head are missing; allowed: {} to {}",
                                             fields_.path_of("mamba_n_heads"), kHeadsRange.min,
                                             kHeadsRange.max));
    }
    if (fields_.problems().failed()) return heads;
    const std::uint64_t known = count ? *count : *width;
    if (inner % known != 0 || inner / known > (count ? kWidthRange.max : kHeadsRange.max)) {
      fields_.problems().invalid(fmt::format(
          "{} is {}, which does not divide the {} channels of a Mamba layer; allowed: a divisor",
          count ? "mamba_n_heads" : "mamba_d_head", known, inner));
      return heads;
    }
    return count ? Heads{known, inner / known} : Heads{inner / known, known};
  }

  // Bamba and Granite write "auto" for the width of a head.
  bool has_number(Aliases names) const {
    const auto found = fields_.first(names);
    return found && !(found.value->is_string() && found.value->text == "auto");
  }

  // `num_heads` and `head_dim` are a mixer's only where no layer attends.
  std::optional<std::uint64_t> pure_mamba2(Aliases names, CountRange range) const {
    if (fields_.has("num_attention_heads") || !fields_.has("state_size")) return std::nullopt;
    return fields_.count(names, range);
  }

  void read_mamba2(RecurrentFacts* facts) const {
    const Heads heads = read_mamba2_heads();
    const bool eight = fields_.has("ssm_state_size") || fields_.has("conv_kernel");
    const std::uint64_t groups =
        or_class(fields_, {"mamba_n_groups", "mamba_ngroups", "n_groups", "ngroups"}, kHeadsRange,
                 eight ? 8 : 1);  // Mamba2Config and NemotronHConfig: 8
    const std::uint64_t state =
        need(fields_, {"mamba_d_state", "ssm_state_size", "state_size", "d_state"}, kWidthRange);
    const std::uint64_t inner = heads.count * heads.width;
    set_conv(inner + 2 * groups * state, mamba_kernel(), facts);
    set_state(heads.count, heads.width, state, facts);
  }

  void read_gated_delta(RecurrentFacts* facts) const {
    const std::uint64_t keys = need(fields_, {"linear_num_key_heads"}, kHeadsRange);
    const std::uint64_t values = need(fields_, {"linear_num_value_heads"}, kHeadsRange);
    const std::uint64_t key_width = need(fields_, {"linear_key_head_dim"}, kWidthRange);
    const std::uint64_t value_width = need(fields_, {"linear_value_head_dim"}, kWidthRange);
    const std::uint64_t kernel =
        or_class(fields_, {"linear_conv_kernel_dim"}, kKernelRange, kKernel);
    set_conv(2 * keys * key_width + values * value_width, kernel, facts);  // q, k and v
    set_state(values, key_width, value_width, facts);
  }

  void set_kimi_delta(std::uint64_t heads, std::uint64_t width, std::uint64_t kernel,
                      RecurrentFacts* facts) const {
    set_conv(3 * heads * width, kernel, facts);  // q, k and v, each under a convolution of its own
    set_state(heads, width, width, facts);
  }

  void read_kimi_delta(RecurrentFacts* facts) const {
    const auto linear = fields_.object("linear_attn_config");
    if (!linear) return read_flat_kimi_delta(facts);
    const std::uint64_t heads = need(*linear, {"num_heads"}, kHeadsRange);
    const std::uint64_t width = need(*linear, {"head_dim"}, kWidthRange);
    set_kimi_delta(heads, width,
                   or_class(*linear, {"short_conv_kernel_size"}, kKernelRange, kKernel), facts);
  }

  // As transformers 5.24.0 writes it. BailingHybridConfig of a checkpoint has no names of their own
  // for the mixer's heads: they are the model's.
  void read_flat_kimi_delta(RecurrentFacts* facts) const {
    const bool of_model = !fields_.has("linear_head_dim") &&
                          (fields_.has("kda_lower_bound") || fields_.has("kda_safe_gate"));
    const std::uint64_t heads = of_model ? need(fields_, {"num_attention_heads"}, kHeadsRange)
                                         : need(fields_, {"linear_num_heads"}, kHeadsRange);
    const std::uint64_t width = of_model ? need(fields_, {"head_dim"}, kWidthRange)
                                         : need(fields_, {"linear_head_dim"}, kWidthRange);
    const std::uint64_t kernel = or_class(
        fields_, {"linear_conv_kernel_dim", "short_conv_kernel_size"}, kKernelRange, kKernel);
    set_kimi_delta(heads, width, kernel, facts);
  }

  void read_lightning(RecurrentFacts* facts) const {
    const std::uint64_t heads =
        need(fields_, {"num_attention_heads", "n_head", "num_heads"}, kHeadsRange);
    auto width = fields_.count({"head_dim"}, {0, ConfigLimits::kWidthMax});
    if (width.value_or(0) == 0) width = need_hidden() / heads;
    if (*width == 0 && !fields_.problems().failed()) {
      fields_.problems().invalid(fmt::format(
          "{} is missing and hidden_size {} is below num_attention_heads {}; allowed: "
          "{} to {}",
          fields_.path_of("head_dim"), hidden_size_, heads, kWidthRange.min, kWidthRange.max));
    }
    set_state(heads, *width, *width, facts);
  }

  void read_rg_lru(RecurrentFacts* facts) const {
    const auto given = fields_.count({"lru_width"}, kWidthRange);
    const std::uint64_t width = given ? *given : need_hidden();
    set_conv(width, or_class(fields_, {"conv1d_width"}, kKernelRange, kKernel), facts);
    set_state(1, width, 1, facts);
  }

  void read_short_conv(RecurrentFacts* facts) const {
    const auto given = fields_.count({"conv_dim"}, kWidthRange);
    const std::uint64_t width = given ? *given : need_hidden();
    set_conv(width, or_class(fields_, {"conv_L_cache"}, kKernelRange, 3), facts);
  }

  const ConfigFields& fields_;
  std::uint64_t hidden_size_;
};

}  // namespace

RecurrentFacts read_recurrent(const ConfigFields& fields, RecurrentMixer mixer,
                              std::uint64_t hidden_size) {
  return StateReader(fields, hidden_size).read(mixer);
}

// mamba_ssm_cache_dtype: Nemotron-H. mamba_ssm_dtype: Qwen3.5 and 3.6. vLLM 073c510c (2026-08)
// takes them where its own option is "auto" (model_executor/models/config.py).
std::string read_state_dtype(const ConfigFields& fields) {
  const auto found = fields.first({"mamba_ssm_cache_dtype", "mamba_ssm_dtype"});
  if (!found) return {};
  const std::string& word = found.value->text;
  if (found.value->is_string()) {
    if (word == "auto") return {};
    if (word == "float32" || word == "bfloat16" || word == "float16") return word;
  }
  fields.problems().invalid(
      fmt::format("{} is {}; allowed: \"float32\", \"bfloat16\", \"float16\", \"auto\" or null",
                  found.path, found.value->describe()));
  return {};
}

std::uint64_t read_conv_window(const ConfigFields& fields) {
  const auto window = fields.count({"conv_window"}, kKernelRange);
  if (!window && !fields.problems().failed()) {
    fields.problems().note(
        fmt::format("{} is not given: {} is assumed, as in the class of this model",
                    fields.path_of("conv_window"), kConvWindow));
  }
  return window.value_or(kConvWindow);
}

}  // namespace emblema
