#include "apps/cli/model_arguments.h"

#include <array>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/layout/pool_plan.h"

namespace emblema {
namespace {

constexpr std::array kKvDtypes = {KvDtype::kBf16,
                                  KvDtype::kFp16,
                                  KvDtype::kFp32,
                                  KvDtype::kFp8,
                                  KvDtype::kFp8Rope16,
                                  KvDtype::kFp8DsMla,
                                  KvDtype::kInt8PerTokenHead,
                                  KvDtype::kFp8PerTokenHead,
                                  KvDtype::kQ8_0,
                                  KvDtype::kQ4_0};
constexpr std::array kIndexerDtypes = {IndexerDtype::kBf16, IndexerDtype::kFp8,
                                       IndexerDtype::kMxfp4, IndexerDtype::kMxfp4NoScale};

constexpr std::array kStateDtypes = {StateDtype::kFp32, StateDtype::kBf16, StateDtype::kFp16};

// "bf16|fp16|...": what --help shows and completion offers.
template <class Values>
std::string choices(const Values& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : "|") + std::string(to_string(value));
  return text;
}

Status check_word(std::string_view option, std::string_view text, std::string_view allowed) {
  if (text.empty() || text == allowed) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is '{}'; allowed: {}", option, text, allowed));
}

Status read_state(const ModelArguments& arguments, GeometryOptions* options) {
  if (!arguments.state_dtype.empty()) {
    const auto state_dtype = parse_state_dtype(arguments.state_dtype);
    if (!state_dtype) return propagate(state_dtype);
    options->state_dtype = *state_dtype;
  }
  if (arguments.encoder_tokens.empty()) return {};
  const auto tokens =
      parse_token_count("--encoder-tokens", arguments.encoder_tokens, {1, kSequenceTokensMax});
  if (!tokens) return propagate(tokens);
  options->encoder_tokens = *tokens;
  return {};
}

}  // namespace

void add_model_arguments(CLI::App& app, ModelCount count, ModelArguments* arguments) {
  app.add_option("model,--model", arguments->models,
                 count == ModelCount::kOne
                     ? "A preset (`emblema models`), a config.json, its folder, or - (stdin)"
                     : "Presets (`emblema models`), config.json files, their folders, - (stdin)")
      ->type_name("MODEL")
      ->expected(1, count == ModelCount::kOne ? 1 : CLI::detail::expected_max_vector_size);
  app.add_option("--kv-dtype", arguments->kv_dtype,
                 "How cached numbers are stored; default by --profile, bf16 with native")
      ->type_name(choices(kKvDtypes));
  app.add_option("--indexer-dtype", arguments->indexer_dtype,
                 "How sparse-attention index keys are stored; default by --kv-dtype")
      ->type_name(choices(kIndexerDtypes));
  app.add_option("--speculative", arguments->speculative, "Count the model's draft layers too")
      ->type_name("mtp");
  app.add_option("--block-tokens", arguments->block_tokens,
                 "Tokens of a block: a multiple of the default, which is derived")
      ->type_name("N");
  app.add_option("--profile", arguments->profile, "Layout of a block; default native")
      ->type_name(profile_names("|"));
  app.add_option("--layers", arguments->layers, "Only the first so many layers")->type_name("N");
}

void add_state_arguments(CLI::App& app, ModelArguments* arguments) {
  app.add_option(
         "--state-dtype", arguments->state_dtype,
         "How the state of recurrent layers is stored; default: as the config says, or fp32")
      ->type_name(choices(kStateDtypes));
  app.add_option("--encoder-tokens", arguments->encoder_tokens,
                 "Rows of cross-attention: tokens of the encoder's input, or of an image")
      ->type_name("N");
}

Result<Profile> profile_of(const ModelArguments& arguments) {
  const auto profile = parse_profile(arguments.profile);
  if (!profile) return fail(profile.error().code, "--" + profile.error().message);
  return profile;
}

Result<GeometryOptions> geometry_options(const ModelArguments& arguments) {
  if (arguments.models.empty()) {
    return fail(ErrorCode::Invalid,
                "no model is given; allowed: a preset name, a config.json, its folder, or -");
  }
  GeometryOptions options;
  const auto profile = profile_of(arguments);
  if (!profile) return propagate(profile);
  const ProfileDefaults defaults = defaults_of(*profile);
  options.kv_dtype = defaults.kv_dtype;
  options.block_tokens = defaults.block_tokens;
  if (!arguments.kv_dtype.empty()) {
    const auto kv_dtype = parse_kv_dtype(arguments.kv_dtype);
    if (!kv_dtype) return propagate(kv_dtype);
    options.kv_dtype = *kv_dtype;
  }
  if (!arguments.indexer_dtype.empty()) {
    const auto indexer_dtype = parse_indexer_dtype(arguments.indexer_dtype);
    if (!indexer_dtype) return propagate(indexer_dtype);
    options.indexer_dtype = *indexer_dtype;
  }
  if (const auto ok = check_word("--speculative", arguments.speculative, "mtp"); !ok) {
    return propagate(ok);
  }
  options.speculative_mtp = arguments.speculative == "mtp";
  if (!arguments.block_tokens.empty()) {
    const auto tokens =
        parse_token_count("--block-tokens", arguments.block_tokens, {1, kSequenceTokensMax});
    if (!tokens) return propagate(tokens);
    options.block_tokens = *tokens;
  }
  if (!arguments.layers.empty()) {
    const auto layers = parse_count("--layers", arguments.layers, {1, ConfigLimits::kLayersMax});
    if (!layers) return propagate(layers);
    options.layers = static_cast<std::uint32_t>(*layers);
  }
  if (const auto ok = read_state(arguments, &options); !ok) return propagate(ok);
  return options;
}

}  // namespace emblema
