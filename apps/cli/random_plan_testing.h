// Command lines of `emblema plan` out of bytes: from a fuzzer, or from seeded random numbers. Most
// parts are right, so that the rest gets a hearing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/option_list.h"
#include "emblema/model/model_config.h"

namespace emblema::random_plan {

using Words = std::vector<std::string>;

struct CommandLine {
  Words arguments;
  std::string input;  // standard input
};

inline const std::vector<OptionFacts>& plan_options() {
  static const std::vector<OptionFacts> kOptions = options_of(plan_command());
  return kOptions;
}

// For an option that takes such a value.
inline Words sensible_values(const OptionFacts& option) {
  if (!option.choices.empty()) return option.choices;
  if (option.name == "gpu") return {"h100", "h200", "b200", "mi300x", "a100-40gb", "l40s"};
  if (option.name == "bandwidth") return {"3.35T", "8TB/s", "864G"};
  if (option.value == "TOKENS") return {"1", "8k", "128k", "1,8k,128k", "8192", "1M", "4097"};
  if (option.value == "SIZE") return {"40GiB", "80GB", "1GiB", "640MiB", "1TiB"};
  if (option.value == "SIZE|auto") return {"auto", "140GB", "1GiB"};
  if (option.value == "NUMBER") return {"989T", "1.5P"};
  if (option.value == "0..1") return {"0.9", "1", "0.5"};
  if (option.value == "N,...") return {"31,30", "16,16", "1,2,3", "20,20,21"};
  if (option.value == "context=A..B") return {"context=8k..1M", "context=1..1", "context=8..9k"};
  return {"1", "2", "4", "8", "16", "3"};
}

class FromBytes {
 public:
  // What files a command writes goes into `folder`.
  FromBytes(std::span<const std::uint8_t> bytes, std::string folder)
      : bytes_(bytes), folder_(std::move(folder)) {}

  CommandLine command_line() {
    line_.arguments = {"plan"};
    if (take() % 8 != 0) add_model();
    for (std::size_t parts = take() % 8; parts > 0; --parts) add_part();
    return std::move(line_);
  }

 private:
  std::uint8_t take() {  // zeros once the bytes are used up
    if (bytes_.empty()) return 0;
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  template <class Values>
  auto any_of(const Values& values) {
    const std::size_t index = std::size_t{take()} * 256 + take();
    return values[index % values.size()];
  }

  std::string raw() {
    std::string text;
    for (std::size_t size = take() % 13; size > 0; --size) text += static_cast<char>(take());
    const bool names_a_file = text.starts_with("--html") || text.starts_with("--svg");
    return names_a_file ? "--" : text;
  }

  std::string odd_value() {
    static const Words kOdd = {"0",
                               "-1",
                               "8k,",
                               ",",
                               "18446744073709551615",
                               "18446744073709551616",
                               "1e400",
                               "nan",
                               "inf",
                               "0.5",
                               "1.5",
                               "9999999999999T",
                               "KiB",
                               "GiB",
                               "1 GiB",
                               "x",
                               "--",
                               "-",
                               "--json",
                               "context=1..",
                               "context=9..1",
                               "1..2",
                               "65536",
                               "1099511627776",
                               "1099511627777",
                               "\xff\xfe",
                               "native|vllm",
                               "h1000",
                               "auto",
                               "1,1,1,1,1,1,1,1",
                               "/",
                               "a\nb"};
    return any_of(kOdd);
  }

  void add_model() {
    switch (take() % 8) {
      case 0:
        line_.arguments.push_back("-");
        line_.input = config();
        break;
      case 1:
        line_.arguments.push_back(raw());
        break;
      default:
        line_.arguments.emplace_back(any_of(presets()).name);
    }
  }

  // A preset's config with one piece written over.
  std::string config() {
    std::string text(any_of(presets()).json);
    const std::string piece = take() % 2 == 0 ? odd_value() : raw();
    const std::size_t at = (std::size_t{take()} * 256 + take()) % text.size();
    return text.replace(at, std::min(piece.size(), text.size() - at), piece);
  }

  void add_part() {
    const std::uint8_t kind = take() % 16;
    if (kind == 0) return add_model();
    if (kind == 1) return line_.arguments.push_back(raw());
    if (kind == 2) return line_.arguments.push_back(odd_value());
    add_option(any_of(plan_options()));
  }

  void add_option(const OptionFacts& option) {
    const std::uint8_t how = take() % 16;
    const std::string name = "--" + option.name;
    if (option.value == "FILE") {
      line_.arguments.insert(line_.arguments.end(), {name, folder_ + "/written"});
      return;
    }
    const bool is_bare = option.value.empty() ? how != 0 : how == 0;
    if (is_bare) return line_.arguments.push_back(name);
    std::string value = any_of(sensible_values(option));
    if (how == 1) value = raw();
    if (how == 2 || how == 3) value = odd_value();
    if (how % 2 == 0) return line_.arguments.push_back(name + "=" + value);
    line_.arguments.insert(line_.arguments.end(), {name, value});
  }

  std::span<const std::uint8_t> bytes_;
  const std::string folder_;
  CommandLine line_;
};

// Standard input is the text, as long as this lives.
class StandardInput {
 public:
  explicit StandardInput(const std::string& text) : text_(text) {
    std::cin.clear();
    before_ = std::cin.rdbuf(text_.rdbuf());
  }
  ~StandardInput() { std::cin.rdbuf(before_); }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  std::istringstream text_;
  std::streambuf* before_ = nullptr;
};

// "" where the reply keeps what commands promise, else what is wrong with it.
inline std::string fault_of(const Reply& reply) {
  const bool is_done = reply.exit_code == kExitDone;
  if (reply.exit_code < kExitDone || reply.exit_code > kExitWrongInput) return "its exit code";
  if (is_done != reply.complaint.empty()) return "a complaint without a failure, or none with one";
  if (is_done && (reply.output.empty() || reply.output.back() != '\n')) return "no whole output";
  const bool is_refused = reply.exit_code == kExitWrongInput;
  if (is_refused && !reply.output.empty()) return "an output beside the complaint";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(reply.complaint.begin(), reply.complaint.end(), is_control)) {
    return "a complaint of several lines";
  }
  if (reply.complaint.size() > 1500) return "a complaint that nobody reads";
  const bool is_json = reply.output.starts_with('{') || reply.output.starts_with('[');
  if (is_json && !nlohmann::json::accept(reply.output)) return "JSON that is none";
  return {};
}

inline std::string describe(const CommandLine& line) {
  std::ostringstream text;
  for (const std::string& argument : line.arguments) {
    text << nlohmann::json(argument).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
         << ' ';
  }
  return text.str();
}

}  // namespace emblema::random_plan
