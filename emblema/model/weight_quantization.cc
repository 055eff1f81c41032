#include "emblema/model/weight_quantization.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

constexpr CountRange kWidthRange = {1, ConfigLimits::kWidthMax};
constexpr std::size_t kModulesMax = 65'536;
constexpr std::size_t kAlternativesMax = 64;  // of one pattern
constexpr std::uint32_t kFloatBytes = 4;

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);  // every range ends below 2^32
}

// Source of the stored scales: vLLM 073c510c (2026-08), model_executor/layers/quantization.
constexpr WeightFormat fp8_by_matrix() {
  return {.bits = 8, .scale_bytes = kFloatBytes};
}
constexpr WeightFormat fp8_by_row() {
  return {.bits = 8, .block_rows = 1, .scale_bytes = kFloatBytes};
}
constexpr WeightFormat mxfp4() {  // OCP MX: e2m1 under one e8m0 scale for 32
  return {.bits = 4, .block_rows = 1, .block_columns = 32, .scale_bytes = 1};
}
constexpr WeightFormat nvfp4() {  // e2m1 under an e4m3 scale for 16, and one fp32 for the matrix
  return {.bits = 4,
          .block_rows = 1,
          .block_columns = 16,
          .scale_bytes = 1,
          .matrix_bytes = kFloatBytes};
}

class QuantizationReader {
 public:
  explicit QuantizationReader(const ConfigFields& fields, bool exponent_scales)
      : fields_(fields), exponent_scales_(exponent_scales) {}

  QuantizationFacts read() {
    facts_.method = fields_.text({"quant_method"});
    for (const std::string_view key :
         {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"}) {
      read_modules(key);
    }
    if (fields_.problems().failed()) return facts_;
    read_formats();
    return facts_;
  }

 private:
  void read_modules(std::string_view key) {
    const JsonValue* list = fields_.value().find(key);
    if (list == nullptr) return;
    if (!list->is_array() || list->items.size() > kModulesMax) {
      fields_.problems().invalid(fmt::format("{} is {}; allowed: a list of up to {} names",
                                             fields_.path_of(key), list->describe(), kModulesMax));
      return;
    }
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const JsonValue& item = list->items[i];
      if (!item.is_string()) {
        fields_.problems().invalid(fmt::format("{}[{}] is {}; allowed: a string",
                                               fields_.path_of(key), i, item.describe()));
        return;
      }
      add_module(item.text);
    }
  }

  // "re:" introduces a regular expression (compressed-tensors). Those in use are names with .* and
  // (a|b) in them; other syntax is not read.
  void add_module(const std::string& spelled) {
    if (!spelled.starts_with("re:")) {
      facts_.not_converted.push_back(spelled);
      return;
    }
    std::vector<std::string> patterns = {""};
    std::string_view rest = std::string_view(spelled).substr(3);
    if (rest.starts_with('^')) rest.remove_prefix(1);
    if (rest.ends_with('$')) rest.remove_suffix(1);
    while (!rest.empty()) {
      if (!add_token(&rest, &patterns)) {
        facts_.uncounted = fmt::format("the pattern \"{}\"", shortened(spelled));
        return;
      }
    }
    for (const std::string& pattern : patterns) facts_.not_converted.push_back(pattern);
  }

  // Moves one token from `rest` to the end of each pattern. False: not a token that is read here.
  static bool add_token(std::string_view* rest, std::vector<std::string>* patterns) {
    if (rest->front() == '(') return add_alternatives(rest, patterns);
    std::string plain(1, rest->front());
    std::size_t length = 1;
    if (rest->starts_with(".*") || rest->starts_with("\\.")) {
      plain = rest->front() == '.' ? "*" : ".";
      length = 2;
    } else if (rest->find_first_of("\\)[]{}|+?*^$") == 0) {
      return false;
    }
    for (std::string& pattern : *patterns) pattern += plain;
    rest->remove_prefix(length);
    return true;
  }

  static bool add_alternatives(std::string_view* rest, std::vector<std::string>* patterns) {
    const std::size_t end = rest->find(')');
    if (end == std::string_view::npos) return false;
    std::string_view body = rest->substr(1, end - 1);
    if (body.find_first_of("\\([]{}+?*^$.") != std::string_view::npos) return false;
    std::vector<std::string> longer;
    for (bool more = true; more;) {
      const std::size_t bar = body.find('|');
      more = bar != std::string_view::npos;
      for (const std::string& pattern : *patterns) {
        longer.push_back(pattern + std::string(body.substr(0, bar)));
        if (longer.size() > kAlternativesMax) return false;
      }
      if (more) body.remove_prefix(bar + 1);
    }
    *patterns = std::move(longer);
    rest->remove_prefix(end + 1);
    return true;
  }

  void read_formats() {
    const std::string& method = facts_.method;
    if (method == "fp8") {
      set_all(read_fp8());
    } else if (method == "fbgemm_fp8") {
      set_all(fp8_by_row());
    } else if (method == "mxfp4") {
      facts_.experts = mxfp4();  // transformers' Mxfp4Config: the experts of gpt-oss and no more
    } else if (method == "gptq" || method == "awq") {
      set_all(read_int4());
    } else if (method == "compressed-tensors" || method == "modelopt") {
      read_groups();
    } else {
      facts_.uncounted = fmt::format("quant_method \"{}\"", shortened(method));
    }
  }

  void set_all(const WeightFormat& format) {
    facts_.linear = format;
    facts_.experts = format;
  }

  WeightFormat read_fp8() {
    const JsonValue* block = fields_.value().find("weight_block_size");
    if (block == nullptr) return fp8_by_matrix();
    if (!block->is_array() || block->items.size() != 2) {
      fields_.problems().invalid(fmt::format("{} is {}; allowed: a list of 2",
                                             fields_.path_of("weight_block_size"),
                                             block->describe()));
      return {};
    }
    return {.bits = 8,
            .block_rows = block_side(*block, 0),
            .block_columns = block_side(*block, 1),
            .scale_bytes = exponent_scales_ ? 1 : kFloatBytes};
  }

  std::uint32_t block_side(const JsonValue& block, std::size_t side) const {
    const auto path = fmt::format("{}[{}]", fields_.path_of("weight_block_size"), side);
    return narrow(fields_.checked_count(block.items[side], path, kWidthRange).value_or(1));
  }

  // GPTQ and AWQ: a 2-byte scale and a packed zero point for each group of inputs and each output.
  WeightFormat read_int4() {
    const auto bits = fields_.count({"bits", "w_bit"}, {2, 8}).value_or(4);
    WeightFormat format{.bits = narrow(bits), .block_rows = 1, .scale_bytes = 2};
    format.zero_bits = format.bits;
    const JsonValue* group = fields_.value().find("group_size");
    const bool whole = group != nullptr && group->kind == JsonValue::Kind::kNegative &&
                       group->whole == 1;  // -1: one group
    if (!whole) {
      format.block_columns =
          narrow(fields_.count({"group_size", "q_group_size"}, {1, ConfigLimits::kWidthMax})
                     .value_or(128));
    }
    if (facts_.method == "gptq") format.column_bytes = 4;  // g_idx, an int32 for each input
    return format;
  }

  // compressed-tensors, and ModelOpt's copy of it: groups of targets with one format each.
  void read_groups() {
    const std::string algorithm = fields_.text({"quant_algo"});
    if (algorithm == "MIXED_PRECISION") {
      facts_.uncounted = "quant_algo MIXED_PRECISION";
      return;
    }
    const auto groups = fields_.object("config_groups");
    if (fields_.problems().failed()) return;
    if (!groups) {
      read_algorithm(algorithm);
      return;
    }
    if (groups->value().items.size() != 1) {
      facts_.uncounted = fmt::format("{} groups of formats", groups->value().items.size());
      return;
    }
    const auto group = groups->object(groups->value().keys.front());
    const auto weights = group ? group->object("weights") : std::nullopt;
    if (fields_.problems().failed()) return;
    if (!weights) {
      facts_.uncounted = "a group without weights";
      return;
    }
    read_group(*weights, fields_.text({"format"}));
  }

  void read_algorithm(const std::string& algorithm) {
    if (algorithm == "FP8") {
      set_all(fp8_by_matrix());
    } else if (algorithm == "NVFP4") {
      set_all(nvfp4());
    } else {
      facts_.uncounted = fmt::format("quant_algo \"{}\"", shortened(algorithm));
    }
  }

  void read_group(const ConfigFields& weights, const std::string& packing) {
    const auto bits = weights.count({"num_bits"}, {1, 16});
    const std::string type = weights.text({"type"});
    const std::string strategy = weights.text({"strategy"});
    const auto size = weights.count({"group_size"}, kWidthRange);
    const bool symmetric = weights.flag("symmetric").value_or(true);
    if (fields_.problems().failed()) return;
    if (type == "float" && bits == 4 && size.value_or(16) == 16 && packing.find("mx") != 0) {
      set_all(nvfp4());
    } else if (type == "float" && bits == 4 && size == 32) {
      set_all(mxfp4());
    } else if (type == "float" && bits == 8 && (strategy.empty() || strategy == "tensor")) {
      set_all(fp8_by_matrix());
    } else if (type == "float" && bits == 8 && strategy == "channel") {
      set_all(fp8_by_row());
    } else if (type == "int" && bits && *bits <= 8 && (strategy == "channel" || size)) {
      WeightFormat format{.bits = narrow(*bits), .block_rows = 1, .scale_bytes = 2};
      format.block_columns = narrow(size.value_or(0));
      format.zero_bits = symmetric ? 0 : format.bits;
      set_all(format);
    } else {
      facts_.uncounted = fmt::format("weights of type \"{}\", {} bits, strategy \"{}\"",
                                     shortened(type), bits.value_or(0), shortened(strategy));
    }
  }

  const ConfigFields& fields_;
  bool exponent_scales_;
  QuantizationFacts facts_;
};

// "fp8" and "FP8", or what compressed-tensors writes of it: vLLM 073c510c (2026-08-09) reads both.
std::string cache_numbers(const JsonValue& scheme) {
  if (scheme.is_string()) {
    if (scheme.text == "fp8" || scheme.text == "FP8") return "fp8";
    return scheme.text == "nvfp4" || scheme.text == "NVFP4" ? "nvfp4" : "";
  }
  const JsonValue* type = scheme.find("type");
  const JsonValue* bits = scheme.find("num_bits");
  const JsonValue* dynamic = scheme.find("dynamic");
  if (type == nullptr || type->text != "float" || bits == nullptr) return "";
  const bool is_dynamic = dynamic != nullptr && dynamic->boolean;
  if (bits->as_count() == 8) return is_dynamic ? "" : "fp8";
  return bits->as_count() == 4 ? "nvfp4" : "";
}

}  // namespace

std::optional<KvCacheScheme> read_kv_cache_scheme(const ConfigFields& fields) {
  const JsonValue* quantization = fields.value().find("quantization_config");
  if (quantization == nullptr || !quantization->is_object()) return std::nullopt;
  const JsonValue* inner = quantization->find("quantization");
  for (const JsonValue* level : {inner, quantization}) {
    if (level == nullptr || !level->is_object()) continue;
    for (const std::string_view key : {"kv_cache_scheme", "kv_cache_quant_algo"}) {
      const JsonValue* scheme = level->find(key);
      if (scheme == nullptr) continue;
      const JsonValue* method = quantization->find("quant_method");
      return KvCacheScheme{method == nullptr ? "" : method->text, cache_numbers(*scheme)};
    }
  }
  return std::nullopt;
}

std::optional<QuantizationFacts> read_quantization(const ConfigFields& fields) {
  const auto quantization = fields.object("quantization_config");
  if (!quantization || quantization->value().items.empty()) return std::nullopt;
  // DeepSeek-V4 stores its block scales as exponents of one byte, and its experts as MXFP4.
  const bool exponents = fields.has("compress_ratios") || fields.has("compress_rates");
  QuantizationFacts facts = QuantizationReader(*quantization, exponents).read();
  // transformers 5.24.0 moves the type of the experts in here.
  std::string experts = quantization->text({"expert_dtype"});
  if (experts.empty()) experts = fields.text({"expert_dtype"});
  if (experts == "fp4" && facts.uncounted.empty()) facts.experts = mxfp4();
  return facts;
}

}  // namespace emblema
