#include "apps/cli/json_output.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "emblema/contract/check.h"

namespace emblema {
namespace {

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void JsonOutput::before_item() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (open_.empty()) return;
  if (!open_.back().is_empty) text_ += open_.back().on_lines ? "," : ", ";
  if (open_.back().on_lines) text_ += "\n" + std::string(2 * open_.size(), ' ');
  open_.back().is_empty = false;
}

void JsonOutput::raw(std::string_view token) {
  before_item();
  text_ += token;
}

void JsonOutput::begin(char bracket, Break style) {
  before_item();
  text_ += bracket;
  const bool around = open_.empty() || open_.back().on_lines;
  open_.push_back({around && style == Break::kLines});
}

void JsonOutput::end(char bracket) {
  EMBLEMA_CHECK(!open_.empty(), "end without begin");
  const Open closed = open_.back();
  open_.pop_back();
  if (closed.on_lines && !closed.is_empty) text_ += "\n" + std::string(2 * open_.size(), ' ');
  text_ += bracket;
}

JsonOutput& JsonOutput::key(std::string_view name) {
  raw(quoted(name));
  text_ += ": ";
  after_key_ = true;
  return *this;
}

void JsonOutput::value(std::string_view text) {
  raw(quoted(text));
}

void JsonOutput::value(std::uint64_t count) {
  raw(fmt::format("{}", count));
}

void JsonOutput::value(double measured) {
  raw(std::isfinite(measured) ? fmt::format("{}", measured) : "null");
}

void JsonOutput::value(bool flag) {
  raw(flag ? "true" : "false");
}

void JsonOutput::value(const Rational& number) {
  const std::string exact = number.exact();
  if (exact.find('/') == std::string::npos) {
    raw(exact);
  } else {
    value(exact);
  }
}

void JsonOutput::null() {
  raw("null");
}

void JsonOutput::field(std::string_view name, const std::optional<std::uint64_t>& count) {
  key(name);
  if (count) {
    value(*count);
  } else {
    null();
  }
}

}  // namespace emblema
