#include "apps/cli/help.h"

#include <fmt/format.h>

#include "apps/cli/commands.h"

namespace emblema {

std::string help_text() {
  std::string text =
      "emblema: sizes the KV cache of attention models exactly\n"
      "Usage: emblema COMMAND [OPTIONS]\n\n"
      "Commands:\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  text +=
      "\nA model is a preset (`emblema models`), a config.json, its folder, or - (standard "
      "input).\n"
      "Sizes: 40GiB, 80GB. Tokens: 128k (= 131072), 128000. --json: for other programs.\n"
      "Exit codes: 0 done, 1 the work failed, 2 the command line or an input is wrong.\n"
      "\nExamples:\n"
      "  emblema plan deepseek-v3 --pool 40GiB --context 128k\n"
      "  emblema layout deepseek-v2-lite\n"
      "  emblema plan --help\n"
      "  emblema --version\n";
  return text;
}

}  // namespace emblema
