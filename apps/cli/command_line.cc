#include "apps/cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/help.h"
#include "apps/cli/nearest_name.h"
#include "apps/cli/version.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

using Arguments = std::vector<std::string>;

void complain(std::string_view who, std::string_view message) {
  const std::string line = fmt::format("{}: {}\n", who, message);
  std::fwrite(line.data(), 1, line.size(), stderr);  // nowhere is left to say that this failed
}

// Written whole and flushed, so that a full disk shows now.
int write_out(std::string_view who, const std::string& text) {
  errno = 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return kExitDone;
  const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
  complain(who, clean_text(fmt::format("standard output cannot be written: {}", reason.message())));
  return kExitWorkFailed;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool holds_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// The first argument that no option took.
Error refuse(const Command& command, const CLI::App& app, const std::string& argument) {
  if (argument.size() < 2 || argument.front() != '-') {
    return {ErrorCode::Invalid,
            fmt::format("unexpected argument '{}'; `emblema {} --help` lists what is allowed",
                        argument, command.name)};
  }
  const std::string option = argument.substr(0, argument.find('='));
  if (holds_word(command.not_in_release, option)) {
    return {ErrorCode::Unsupported, fmt::format("{} is not in this release; allowed: {}", option,
                                                fmt::join(option_names(app), " "))};
  }
  const std::string nearest = nearest_name(option, option_names(app));
  return {ErrorCode::Invalid, nearest.empty()
                                  ? fmt::format("unknown option {}; allowed: {}", option,
                                                fmt::join(option_names(app), " "))
                                  : fmt::format("unknown option {}; nearest: {}", option, nearest)};
}

// An empty value says nothing, and "--at=" would take the next argument as its value.
Status check_not_empty(const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") return {};
    if (arguments[i].starts_with("--") && arguments[i].ends_with('=')) {
      return fail(ErrorCode::Invalid, fmt::format("the value of {} is empty",
                                                  arguments[i].substr(0, arguments[i].size() - 1)));
    }
    if (arguments[i].empty()) {
      return fail(ErrorCode::Invalid,
                  i == 0 ? std::string("the first argument is empty")
                         : fmt::format("the argument after {} is empty", arguments[i - 1]));
    }
  }
  return {};
}

// CLI11's sentences count arguments; ours say what to do.
std::string in_words(const CLI::ParseError& error) {
  std::string sentence = error.what();
  const std::string option = sentence.substr(0, sentence.find(':'));
  if (error.get_name() == "ArgumentMismatch") {
    if (sentence.find("flag override") != std::string::npos) {
      return sentence.substr(0, sentence.find(' ')) + " takes no value";
    }
    return sentence.find("At Most") != std::string::npos
               ? option + " is given more than once; allowed: once"
               : option + " needs a value";
  }
  return sentence;
}

// CLI11 reports by exception; here is where that ends.
Status parse(const Command& command, const Arguments& arguments, CLI::App* app, bool* wants_help) {
  if (auto ok = check_not_empty(arguments); !ok) return ok;
  try {
    app->parse(Arguments(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    *wants_help = true;
    return {};
  } catch (const CLI::ParseError& error) {
    // An option that is not known leaves its value as one argument too many: say what came first.
    const Arguments unknown = app->remaining();
    const auto option = std::ranges::find_if(
        unknown, [](const std::string& one) { return one.size() > 1 && one.front() == '-'; });
    const bool is_named = option != unknown.end() && *option != "--";
    if (is_named) return tl::make_unexpected(refuse(command, *app, *option));
    return fail(ErrorCode::Invalid, in_words(error));
  }
  Arguments left = app->remaining();
  if (!left.empty() && left.front() == "--") left.erase(left.begin());  // what follows is a model
  if (!left.empty()) return tl::make_unexpected(refuse(command, *app, left.front()));
  return {};
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::Corrupt ? kExitWorkFailed : kExitWrongInput;
}

// Memory that the system refuses, where nothing closer could say for what.
Result<Outcome> act(const DeclaredCommand& declared) {
  try {
    return declared.action();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::Io,
                "the system refused more memory; a smaller one of what was asked "
                "for would fit");
  }
}

Reply said(std::string_view who, std::string output) {
  return {.who = std::string(who), .output = std::move(output)};
}

Reply refused(std::string_view who, const Error& error) {
  return {.who = std::string(who),
          .complaint = clean_text(error.message),
          .exit_code = exit_code_of(error),
          .code = error.code};
}

Reply run(const Command& command, const Arguments& arguments) {
  const std::string who = fmt::format("emblema {}", command.name);
  const DeclaredCommand declared = declare(command);
  bool wants_help = false;
  if (const Status parsed = parse(command, arguments, declared.app.get(), &wants_help); !parsed) {
    return refused(who, parsed.error());
  }
  if (wants_help) return said(who, declared.app->help());
  Result<Outcome> outcome = act(declared);
  if (!outcome) return refused(who, outcome.error());
  Reply reply = said(who, std::move(outcome->output));
  if (outcome->failure.empty()) return reply;
  reply.complaint = clean_text(outcome->failure);
  reply.code = ErrorCode::Io;
  reply.exit_code = kExitWorkFailed;
  return reply;
}

const Command* find_command(std::string_view name) {
  const auto list = commands();
  const auto found = std::find_if(list.begin(), list.end(),
                                  [name](const Command& command) { return command.name == name; });
  return found == list.end() ? nullptr : &*found;
}

Reply refuse_first(const std::string& argument) {
  std::vector<std::string> known;
  const bool is_option = argument.size() > 1 && argument.front() == '-';
  if (is_option) {
    known = {"--help", "--version"};
  } else {
    for (const Command& command : commands()) known.emplace_back(command.name);
    known.emplace_back("help");
  }
  const std::string nearest = nearest_name(argument, known);
  const std::string allowed =
      nearest.empty() ? fmt::format("allowed: {}", fmt::join(known, " ")) : "nearest: " + nearest;
  return refused("emblema", {ErrorCode::Invalid,
                             fmt::format("unknown {} '{}'; {}", is_option ? "option" : "command",
                                         argument, allowed)});
}

}  // namespace

DeclaredCommand declare(const Command& command) {
  DeclaredCommand declared;
  declared.app = std::make_unique<CLI::App>(std::string(command.summary),
                                            fmt::format("emblema {}", command.name));
  declared.app->set_help_flag("-h,--help", "Show this and stop");
  declared.app->get_formatter()->column_width(34);
  declared.app->footer(fmt::format(
      "Examples:\n{}", command.examples.substr(0, command.examples.find_last_not_of('\n') + 1)));
  declared.app->allow_extras();  // refused in parse(), with the nearest option
  declared.action = command.declare(*declared.app);
  for (CLI::Option* option : declared.app->get_options()) {
    if (option->get_items_expected_max() == 0) option->disable_flag_override();  // --json=no
  }
  return declared;
}

Reply reply_to(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return said("emblema", help_text());
  const std::string& first = arguments.front();
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (first == "--version") return said("emblema", version_text());
  if (first == "--help" || first == "-h") return said("emblema", help_text());
  if (first == "help") {
    if (rest.empty()) return said("emblema", help_text());
    const Command* about = find_command(rest.front());
    return about != nullptr ? run(*about, {"--help"}) : refuse_first(rest.front());
  }
  const Command* command = find_command(first);
  return command != nullptr ? run(*command, rest) : refuse_first(first);
}

int run_command_line(const std::vector<std::string>& arguments) {
  const Reply reply = reply_to(arguments);
  const bool says_nothing = reply.output.empty() && !reply.complaint.empty();
  const int written = says_nothing ? kExitDone : write_out(reply.who, reply.output);
  if (reply.complaint.empty()) return written;
  complain(reply.who, reply.complaint);
  return reply.exit_code;
}

}  // namespace emblema
