#include "emblema/model/json_value.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace emblema {
namespace {

constexpr std::size_t kShownCharacters = 40;

// "line 3, column 17" of a byte offset (both from 1, columns in bytes).
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset : offset - newline - 1;
  return fmt::format("line {}, column {}", line, std::max<std::size_t>(column, 1));
}

// Builds JsonValues while the text is read. Returning false stops the reader, so that nesting is
// refused at the bracket that goes too deep instead of after a recursion. The parser keeps its own
// stack on the heap.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  bool null() override { return add({}); }

  bool boolean(bool value) override {
    JsonValue item;
    item.kind = JsonValue::Kind::kBoolean;
    item.boolean = value;
    return add(std::move(item));
  }

  bool number_integer(number_integer_t value) override {  // only called for numbers below 0
    JsonValue item;
    item.kind = JsonValue::Kind::kNegative;
    item.whole = std::uint64_t{0} - static_cast<std::uint64_t>(value);
    item.real = static_cast<double>(value);
    return add(std::move(item));
  }

  bool number_unsigned(number_unsigned_t value) override {
    JsonValue item;
    item.kind = JsonValue::Kind::kUnsigned;
    item.whole = value;
    item.real = static_cast<double>(value);
    return add(std::move(item));
  }

  bool number_float(number_float_t value, const string_t& spelling) override {
    JsonValue item;
    item.kind = JsonValue::Kind::kReal;
    item.real = value;
    item.text = spelling;
    return add(std::move(item));
  }

  bool string(string_t& value) override {
    JsonValue item;
    item.kind = JsonValue::Kind::kString;
    item.text = std::move(value);
    return add(std::move(item));
  }

  bool binary(binary_t& /*value*/) override { return false; }  // not part of JSON text

  bool key(string_t& value) override {
    open_.back()->keys.push_back(std::move(value));
    return true;
  }

  bool start_object(std::size_t /*elements*/) override { return open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t /*elements*/) override { return open(JsonValue::Kind::kArray); }

  bool end_object() override {
    std::vector<std::string_view> sorted(open_.back()->keys.begin(), open_.back()->keys.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      return refuse(
          fmt::format("key \"{}\" is given twice in one object; allowed: once", shortened(*twice)));
    }
    open_.pop_back();
    return true;
  }

  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& error) override {
    constexpr int kNumberOutOfRange = 406;  // JSON by its grammar, and no double
    if (error.id == kNumberOutOfRange) {
      return refuse(fmt::format("has {} as {} at {}; allowed: numbers up to 1.8e308",
                                shortened(last_token), innermost_key(),
                                line_and_column(text_, position)));
    }
    return refuse(fmt::format("is not JSON at {}, near '{}'", line_and_column(text_, position),
                              shortened(last_token)));
  }

  JsonValue take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  bool refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  // The member that is being read, or that holds the list that is.
  std::string innermost_key() const {
    for (auto value = open_.rbegin(); value != open_.rend(); ++value) {
      if (!(*value)->keys.empty()) return shortened((*value)->keys.back());
    }
    return "a value";
  }

  bool open(JsonValue::Kind kind) {
    if (open_.size() >= static_cast<std::size_t>(JsonLimits::kDepthMax)) {
      return refuse(fmt::format("is nested deeper than {} levels; allowed: 1 to {}",
                                JsonLimits::kDepthMax, JsonLimits::kDepthMax));
    }
    JsonValue item;
    item.kind = kind;
    if (!add(std::move(item))) return false;
    // The pointer stays good: its owner takes no further element while this one is open.
    open_.push_back(open_.empty() ? &root_ : &open_.back()->items.back());
    return true;
  }

  bool add(JsonValue&& item) {
    if (++values_ > JsonLimits::kValuesMax) {
      return refuse(fmt::format("holds more than {} values; allowed: up to {}",
                                JsonLimits::kValuesMax, JsonLimits::kValuesMax));
    }
    if (open_.empty()) {
      root_ = std::move(item);
    } else {
      open_.back()->items.push_back(std::move(item));
    }
    return true;
  }

  std::string_view text_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::uint64_t values_ = 0;
  std::string problem_;
};

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Puts the non-standard number tokens, where they stand as whole words outside strings, in quotes.
std::string quote_nonfinite(std::string_view text) {
  static constexpr std::string_view kTokens[] = {"-Infinity", "Infinity", "NaN"};
  std::string quoted;
  quoted.reserve(text.size() + 16);
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      quoted += c;
      if (c == '\\' && at + 1 < text.size()) quoted += text[++at];
      if (c == '"') in_string = false;
      continue;
    }
    std::string_view found;
    const bool word_starts = at == 0 || !is_word_character(text[at - 1]);
    for (const std::string_view token : kTokens) {
      if (!word_starts || text.substr(at, token.size()) != token) continue;
      const std::size_t after = at + token.size();
      if (after < text.size() && is_word_character(text[after])) continue;
      found = token;
      break;
    }
    if (found.empty()) {
      quoted += c;
      in_string = c == '"';
      continue;
    }
    quoted.append("\"").append(found).append("\"");
    at += found.size() - 1;
  }
  return quoted;
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return items[i].is_null() ? nullptr : &items[i];
  }
  return nullptr;
}

std::optional<std::uint64_t> JsonValue::as_count() const {
  constexpr double kExactMax = 9'007'199'254'740'992.0;  // 2^53: every whole double below is exact
  if (kind == Kind::kUnsigned) return whole;
  if (kind != Kind::kReal || real < 0 || real > kExactMax || std::floor(real) != real) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(real);
}

std::string JsonValue::describe() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return boolean ? "true" : "false";
    case Kind::kUnsigned:
      return fmt::format("{}", whole);
    case Kind::kNegative:
      return fmt::format("-{}", whole);
    case Kind::kReal:
      return shortened(text);
    case Kind::kString:
      return fmt::format("\"{}\"", shortened(text));
    case Kind::kArray:
      return fmt::format("a list of {}", items.size());
    case Kind::kObject:
      return "an object";
  }
  return "null";
}

Result<JsonValue> parse_json_object(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail(ErrorCode::Invalid, "is empty; allowed: one JSON object");
  }
  try {
    const std::string readable = quote_nonfinite(text);
    Builder builder(readable);
    const bool whole = nlohmann::json::sax_parse(readable.begin(), readable.end(), &builder);
    if (!whole || !builder.problem().empty()) {
      return fail(ErrorCode::Invalid, builder.problem());
    }
    JsonValue root = builder.take();
    if (!root.is_object()) {
      return fail(ErrorCode::Invalid,
                  fmt::format("is {} at its top level; allowed: one JSON object", root.describe()));
    }
    return root;
  } catch (const std::exception& error) {  // the reader of the library, or memory
    return fail(ErrorCode::Invalid, fmt::format("cannot be read as JSON: {}", error.what()));
  }
}

std::string shortened(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownCharacters)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  if (text.size() > kShownCharacters) shown += "...";
  return shown;
}

}  // namespace emblema
