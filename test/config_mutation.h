// One config, changed in one place in every way that a broken or hostile file might be, and what
// the planner says to it: a right number or one clear error.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema::mutation_testing {

using Json = nlohmann::json;
using Place = Json::json_pointer;

// What is put in a place. As text, because 1e400 is no number of any JSON library. "": the member
// is taken out.
inline constexpr auto kValues = std::to_array<std::string_view>(
    {"null", R"("x")", R"("8")", "-1", "0", "1", "2147483648", "4294967296", "9223372036854775808",
     "1e400", "0.5", "true", "[]", "[1, 2]", "{}", ""});

// ---- configs

struct NamedConfig {
  std::string name;
  Json config;
};

// The presets and the public configs of test/configs.
inline std::vector<NamedConfig> all_configs() {
  std::vector<NamedConfig> configs;
  for (const Preset& preset : presets()) {
    configs.push_back({std::string(preset.name), Json::parse(preset.json)});
  }
  for (const auto& file : std::filesystem::directory_iterator(EMBLEMA_SOURCE_DIR "/test/configs")) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    std::string readable = text.str();
    const std::string infinity = " Infinity";  // Python's; our parser reads it as this string
    for (std::size_t at = 0; (at = readable.find(infinity)) != std::string::npos;) {
      readable.replace(at, infinity.size(), R"( "Infinity")");
    }
    configs.push_back({file.path().stem().string(), Json::parse(readable)});
  }
  return configs;
}

// Every member, however deep, and the first and the last element of every list.
inline void add_places(const Json& value, const Place& at, std::vector<Place>* places) {
  if (!at.empty()) places->push_back(at);
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) add_places(member, at / key, places);
  } else if (value.is_array() && !value.empty()) {
    add_places(value.front(), at / std::size_t{0}, places);
    if (value.size() > 1) add_places(value.back(), at / (value.size() - 1), places);
  }
}

inline std::string mutated(Json config, const Place& at, std::string_view value) {
  static constexpr std::string_view kMark = "@mutated@";
  Json& parent = config[at.parent_pointer()];
  if (value.empty()) {
    if (parent.is_array()) {
      parent.erase(static_cast<std::size_t>(std::stoull(at.back())));
    } else {
      parent.erase(at.back());
    }
    return config.dump();
  }
  config[at] = kMark;
  std::string text = config.dump();
  const std::string quoted = '"' + std::string(kMark) + '"';
  return text.replace(text.find(quoted), quoted.size(), value);
}

// The name that a message about this place should have: of the member, not of a list's element.
inline std::string key_of(Place at) {
  while (at.back().find_first_not_of("0123456789") == std::string::npos) at.pop_back();
  return at.back();
}

// Can never stand where `original` does. A null says nothing about its kind; a whole number may
// stand for a real one, or for a list with one number per layer.
inline bool is_wrong_kind(const Json& original, std::string_view value) {
  if (value.empty() || value == "null" || original.is_null()) return false;
  if (value == "1e400") return true;
  const Json given = Json::parse(value);
  if (original.is_number_integer()) return !given.is_number_unsigned();
  if (original.is_number_float()) return !given.is_number();
  if (original.is_array() && given.is_number_unsigned()) return false;
  return given.type() != original.type();
}

// ---- answers

inline Deployment deployment(std::uint32_t tensor) {
  return {.at_tokens = {1, 8192, 131'072},
          .pool_bytes = std::uint64_t{40} << 30,
          .context_tokens = 8192,
          .parallel = {.tensor = tensor}};
}

// All that a plan says about the cache, to be compared.
inline std::string figures(const CapacityPlan& plan) {
  std::ostringstream text;
  for (const RankCapacity& rank : plan.ranks) {
    text << rank.growing_bytes_per_token.exact() << ' ' << rank.fixed_bytes_per_sequence << ' '
         << rank.state_bytes_per_sequence << ' ' << rank.arena_slot_bytes << ' ' << rank.tokens
         << ' ' << rank.concurrency;
    for (const LengthBytes& at : rank.at) {
      text << ' ' << at.payload_bytes << ' ' << at.growing_bytes << ' ' << at.allocated_bytes;
    }
    for (const GroupCapacity& group : rank.groups) {
      text << ' ' << group.name << ' ' << group.block_tokens << ' ' << group.block_bytes;
    }
  }
  return text.str();
}

inline void check_message(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_LE(error.message.size(), 400u) << error.message;
  EXPECT_EQ(error.message.find_first_of("\n\r"), std::string::npos) << error.message;
  if (error.code == ErrorCode::Unsupported) return;  // names what is missing instead
  EXPECT_TRUE(error.code == ErrorCode::Invalid || error.code == ErrorCode::OutOfBlocks)
      << error.describe();
  EXPECT_NE(error.message.find("allowed"), std::string::npos) << error.message;
}

// One token of all windows: what the last query saw and no later one will.
inline std::uint64_t window_row_bytes(const CapacityPlan& plan) {
  std::uint64_t bytes = 0;
  for (const LayerCapacity& layer : plan.layers) {
    for (const StreamCapacity& stream : layer.streams) {
      if (stream.retention == Retention::kWindow) bytes += stream.entry_bytes;
    }
  }
  return bytes;
}

inline void check_lengths(const RankCapacity& rank, std::uint64_t window_row_bytes) {
  const LengthBytes* shorter = nullptr;
  for (const LengthBytes& at : rank.at) {
    const auto ceiling = multiply(rank.growing_bytes_per_token, Rational(at.tokens), "bytes");
    EXPECT_LE(at.growing_bytes, ceiling.value().floor());
    EXPECT_LE(at.growing_bytes, at.payload_bytes);
    EXPECT_LE(at.payload_bytes - at.growing_bytes, rank.fixed_bytes_per_sequence);
    EXPECT_GE(at.allocated_bytes + window_row_bytes,
              at.payload_bytes + rank.state_bytes_per_sequence);
    if (shorter != nullptr) {
      EXPECT_GE(at.payload_bytes, shorter->payload_bytes);
      // A window that ends with a block takes less than one that straddles two.
      if (window_row_bytes == 0) {
        EXPECT_GE(at.allocated_bytes, shorter->allocated_bytes);
      }
    }
    shorter = &at;
  }
}

// What holds of every plan of one rank, whatever the model.
inline void check_plan(const CapacityPlan& plan) {
  ASSERT_EQ(plan.ranks.size(), 1u);
  const RankCapacity& rank = plan.ranks.front();
  Rational growing_of_layers;
  for (const LayerCapacity& layer : plan.layers) {
    growing_of_layers = add(growing_of_layers, layer.growing_bytes_per_token, "sum").value();
  }
  EXPECT_EQ(growing_of_layers, rank.growing_bytes_per_token);
  check_lengths(rank, window_row_bytes(plan));
  ASSERT_TRUE(rank.pool);
  EXPECT_LE(rank.pool->used_bytes, *rank.pool_bytes);
  // Chunks that end just here, and windows of the last token alone, leave nothing that would bound
  // sequences at rest.
  if (rank.concurrency == UINT64_MAX) return;
  const std::uint64_t growing = rank.at[1].growing_bytes + rank.state_bytes_per_sequence;
  const auto held = checked_mul(rank.concurrency, growing);
  ASSERT_TRUE(held);
  EXPECT_LE(*held, *rank.pool_bytes);
}

inline void check_tensor_share(const CapacityPlan& whole, const CapacityPlan& share) {
  const RankCapacity& all = whole.ranks.front();
  const RankCapacity& one = share.ranks.front();
  EXPECT_LE(one.state_bytes_per_sequence, all.state_bytes_per_sequence);
  for (std::size_t i = 0; i < all.at.size(); ++i) {
    EXPECT_LE(one.at[i].payload_bytes, all.at[i].payload_bytes);
    EXPECT_LE(one.at[i].growing_bytes, all.at[i].growing_bytes);
    EXPECT_LE(all.at[i].payload_bytes, 8 * one.at[i].payload_bytes);
  }
}

struct Answer {
  bool is_plan = false;
  std::string text;  // the plan's figures, or the error

  bool operator==(const Answer&) const = default;
};

inline Answer answer_to(const std::string& text, const std::string& name) {
  const auto model = parse_model_config(text, name);
  const auto plan = model ? plan_capacity(*model, deployment(1)) : propagate(model);
  if (!plan) {
    check_message(plan.error());
    return {false, plan.error().describe()};
  }
  check_plan(*plan);
  const auto share = plan_capacity(*model, deployment(8));
  if (share) {
    check_plan(*share);
    check_tensor_share(*plan, *share);
  } else {
    check_message(share.error());
  }
  return {true, figures(*plan)};
}

// One place of one config, with all values in it.
class PlaceCheck {
 public:
  PlaceCheck(const NamedConfig& config, Place at, const Answer& unchanged)
      : config_(config), at_(std::move(at)), original_(config.config[at_]), unchanged_(unchanged) {}

  void run() {
    for (const std::string_view value : kValues) {
      SCOPED_TRACE(config_.name + " with " + at_.to_string() + " as '" + std::string(value) + "'");
      const std::clock_t start = std::clock();
      const Answer answer = answer_to(mutated(config_.config, at_, value), config_.name);
      EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC) << "a config must cost a known time";
      if (is_wrong_kind(original_, value)) check_wrong_kind(answer);
      answers_.emplace(value, answer);
    }
    SCOPED_TRACE(config_.name + " with " + at_.to_string());
    if (!config_.config[at_.parent_pointer()].is_array()) {
      EXPECT_EQ(answers_.at("null").text, answers_.at("").text) << "null says: not given";
    }
    check_what_is_read();
  }

 private:
  // Either nobody reads the place, or the message names it.
  void check_wrong_kind(const Answer& answer) const {
    if (answer.is_plan) {
      EXPECT_EQ(answer.text, unchanged_.text);
      return;
    }
    EXPECT_NE(answer.text.find(key_of(at_)), std::string::npos) << answer.text;
  }

  // A place whose number changes the answer is never passed over when it holds something else.
  void check_what_is_read() const {
    bool is_read = false;
    for (const auto& [value, answer] : answers_) {
      const bool is_count = value == "0" || value == "1" || value == "2147483648";
      is_read = is_read || (is_count && answer.is_plan && answer != unchanged_);
    }
    for (const auto& [value, answer] : answers_) {
      if (!is_read || !is_wrong_kind(original_, value)) continue;
      EXPECT_FALSE(answer.is_plan) << "'" << value << "' was passed over";
    }
  }

  const NamedConfig& config_;
  Place at_;
  Json original_;
  const Answer& unchanged_;
  std::map<std::string_view, Answer> answers_;
};

// Every `stride`-th place of all configs, from the `first`-th on. Returns how many.
inline std::size_t check_places(std::size_t first, std::size_t stride) {
  std::size_t index = 0;
  std::size_t checked = 0;
  for (const NamedConfig& config : all_configs()) {
    const Answer unchanged = answer_to(config.config.dump(), config.name);
    EXPECT_TRUE(unchanged.is_plan) << config.name << ": " << unchanged.text;
    std::vector<Place> places;
    add_places(config.config, Place(), &places);
    for (const Place& at : places) {
      if (index++ % stride != first) continue;
      PlaceCheck(config, at, unchanged).run();
      ++checked;
    }
  }
  return checked;
}

}  // namespace emblema::mutation_testing
