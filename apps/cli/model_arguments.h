// The options by which every command names a model and how its cache is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/cli/command.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/profile.h"
#include "emblema/model/model_config.h"

namespace emblema {

// As typed: checked when they are turned into values, where a message can name the option.
struct ModelArguments {
  std::vector<std::string> models;
  std::string kv_dtype;  // empty: the profile's, bf16 with native
  std::string indexer_dtype;
  std::string speculative;
  std::string block_tokens;
  std::string profile = "native";
  std::string layers;
  std::string state_dtype;  // empty: as the config says
  std::string encoder_tokens;
};

enum class ModelCount : std::uint8_t { kOne, kMany };

// `arguments` must live as long as `app` is parsed.
void add_model_arguments(CLI::App& app, ModelCount count, ModelArguments* arguments);

// --state-dtype and --encoder-tokens, for the commands that describe any model: `run` computes over
// keys and values alone.
void add_state_arguments(CLI::App& app, ModelArguments* arguments);

Result<Profile> profile_of(const ModelArguments& arguments);

// What was not typed is as the profile wants it. Invalid: no model, or an option with a value that
// has no meaning.
Result<GeometryOptions> geometry_options(const ModelArguments& arguments);

}  // namespace emblema
