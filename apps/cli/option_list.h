// The options of a command as completion and the man page need them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/command.h"

namespace emblema {

struct OptionFacts {
  std::string name;                  // "kv-dtype", without dashes
  std::string value;                 // "SIZE", "" for a flag
  std::vector<std::string> choices;  // the words it takes, where it is a choice
  std::string description;
};

std::vector<OptionFacts> options_of(const Command& command);

// What may stand without an option: preset names where a model does, or the words of a choice.
std::vector<std::string> positional_words(const Command& command);

}  // namespace emblema
