// emblema completion: a script for the shell, written from the options that the commands declare.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/option_list.h"

namespace emblema {
namespace {

std::string command_names() {
  std::string names = "help";
  for (const Command& command : commands()) names += " " + std::string(command.name);
  return names;
}

// case "$command" in ... and, within it, what an option takes.
std::string bash_cases() {
  std::string text;
  for (const Command& command : commands()) {
    std::string words;
    std::string values;
    for (const OptionFacts& option : options_of(command)) {
      words += " --" + option.name;
      if (!option.choices.empty()) {
        values += fmt::format("        --{}) words='{}' ;;\n", option.name,
                              fmt::join(option.choices, " "));
      }
    }
    for (const std::string& word : positional_words(command)) words += " " + word;
    text += fmt::format(
        "    {})\n      words='{}'\n      case \"$previous\" in\n{}        *) ;;\n      esac ;;\n",
        command.name, words.substr(words.empty() ? 0 : 1), values);
  }
  return text;
}

std::string bash_script() {
  return fmt::format(
      "# bash completion of emblema: source <(emblema completion bash)\n"
      "_emblema() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  local words='{} --help --version'\n"
      "  [ \"$COMP_CWORD\" -gt 1 ] && case \"${{COMP_WORDS[1]}}\" in\n"
      "{}"
      "    *) words='' ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _emblema emblema\n",
      command_names(), bash_cases());
}

// zsh runs bash's functions; only the frame differs.
std::string zsh_script() {
  return "#compdef emblema\n"
         "# zsh completion of emblema: source <(emblema completion zsh)\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script();
}

std::string fish_quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find_first_of("'\\", at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return "'" + text + "'";
}

std::string fish_script() {
  std::string text = "# fish completion of emblema: emblema completion fish | source\n";
  for (const Command& command : commands()) {
    text += fmt::format("complete -c emblema -n __fish_use_subcommand -xa {} -d {}\n", command.name,
                        fish_quoted(std::string(command.summary)));
    const std::string when =
        fish_quoted(fmt::format("__fish_seen_subcommand_from {}", command.name));
    for (const OptionFacts& option : options_of(command)) {
      text += fmt::format("complete -c emblema -n {} -l {} -d {}", when, option.name,
                          fish_quoted(option.description));
      if (!option.choices.empty()) {
        text += fmt::format(" -xa '{}'", fmt::join(option.choices, " "));
      } else if (!option.value.empty()) {
        text += " -r";
      }
      text += "\n";
    }
    const auto words = positional_words(command);
    if (!words.empty()) {
      text += fmt::format("complete -c emblema -n {} -a '{}'\n", when, fmt::join(words, " "));
    }
  }
  return text;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "A completion script for bash, zsh or fish",
          .examples =
              "  source <(emblema completion bash)\n"
              "  emblema completion fish | source\n",
          .declare = [](CLI::App& app) -> Action {
            auto shell = std::make_shared<std::string>();
            app.add_option("shell", *shell, "The shell to complete in")->type_name("bash|zsh|fish");
            return [shell]() -> Result<Outcome> {
              if (*shell == "bash") return Outcome{bash_script(), {}};
              if (*shell == "zsh") return Outcome{zsh_script(), {}};
              if (*shell == "fish") return Outcome{fish_script(), {}};
              return fail(ErrorCode::Invalid,
                          fmt::format("shell is '{}'; allowed: bash, zsh, fish", *shell));
            };
          }};
}

}  // namespace emblema
