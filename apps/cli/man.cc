// emblema man: the manual page in roff, written from the options that the commands declare.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/option_list.h"

namespace emblema {
namespace {

// A dash that is typed, a backslash, and a line that would start a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '-' || c == '\\') escaped += '\\';
    escaped += c == '\\' ? 'e' : c;
  }
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string option_entry(const OptionFacts& option) {
  std::string head = fmt::format("\\fB\\-\\-{}\\fR", roff(option.name));
  if (!option.choices.empty()) {
    head += " " + roff(option.value);
  } else if (!option.value.empty()) {
    head += fmt::format(" \\fI{}\\fR", roff(option.value));
  }
  return fmt::format(".TP\n{}\n{}\n", head, roff(option.description));
}

std::string command_section(const Command& command) {
  std::string text = fmt::format(".SS emblema {}\n{}.\n", command.name, roff(command.summary));
  for (const OptionFacts& option : options_of(command)) text += option_entry(option);
  return text + fmt::format(".PP\nExamples:\n.PP\n.nf\n{}.fi\n", roff(command.examples));
}

std::string man_page() {
  std::string text = fmt::format(
      ".TH EMBLEMA 1 \"\" \"emblema {0}\" \"User Commands\"\n"
      ".SH NAME\nemblema \\- sizes the KV cache of attention models exactly\n"
      ".SH SYNOPSIS\n.B emblema\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n"
      "A \\fIMODEL\\fR is a preset (\\fBemblema models\\fR lists them), the path of a "
      "config.json,\n"
      "a folder that holds one, or \\- for standard input.\n"
      "A \\fISIZE\\fR is 40GiB, 80GB or bytes; \\fITOKENS\\fR are 128k (= 131072) or 128000.\n"
      ".SH COMMANDS\n",
      EMBLEMA_VERSION);
  for (const Command& command : commands()) text += command_section(command);
  return text +
         ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nThe work failed, or its result could not be "
         "written.\n.TP\n2\nThe command line or an input is wrong. One line on standard error says "
         "what.\n";
}

}  // namespace

Command man_command() {
  return {.name = "man",
          .summary = "The manual page, in roff",
          .examples = "  emblema man | man -l -\n",
          .declare = [](CLI::App&) -> Action {
            return []() -> Result<Outcome> { return Outcome{man_page(), {}}; };
          }};
}

}  // namespace emblema
