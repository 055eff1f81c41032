#include "apps/cli/option_list.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/cli/command_line.h"
#include "emblema/model/model_config.h"

namespace emblema {
namespace {

// "bf16|fp16" is a choice of two words, "mtp" of one; "SIZE" stands for what is typed.
std::vector<std::string> choices_in(const std::string& type) {
  const bool is_words =
      std::none_of(type.begin(), type.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (type.empty() || !is_words) return {};
  return CLI::detail::split(type, '|');
}

}  // namespace

std::vector<OptionFacts> options_of(const Command& command) {
  const DeclaredCommand declared = declare(command);
  std::vector<OptionFacts> facts;
  for (const CLI::Option* option : declared.app->get_options()) {
    if (option->get_lnames().empty()) continue;
    const bool is_flag = option->get_items_expected_max() == 0;
    const std::string type = is_flag ? std::string() : option->get_type_name();
    facts.push_back(
        {option->get_lnames().front(), type, choices_in(type), option->get_description()});
  }
  return facts;
}

std::vector<std::string> positional_words(const Command& command) {
  const DeclaredCommand declared = declare(command);
  std::vector<std::string> words;
  for (const CLI::Option* option : declared.app->get_options()) {
    if (!option->get_positional()) continue;
    const auto choices = choices_in(option->get_type_name());
    words.insert(words.end(), choices.begin(), choices.end());
    if (option->get_type_name() != "MODEL") continue;
    for (const Preset& preset : presets()) words.emplace_back(preset.name);
  }
  return words;
}

}  // namespace emblema
