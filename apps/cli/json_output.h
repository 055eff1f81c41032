// Writes JSON with keys in the order given and numbers that are exact: a byte count is an integer,
// a decimal (4939.5) where strides make it fractional, or "1/3" as text where no decimal is exact;
// never a rounded double.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"

namespace emblema {

class JsonOutput {
 public:
  // A container on lines of its own, or with all that is in it on one line.
  enum class Break : std::uint8_t { kLines, kNone };

  void begin_object(Break style = Break::kLines) { begin('{', style); }
  void begin_array(Break style = Break::kLines) { begin('[', style); }
  void end_object() { end('}'); }
  void end_array() { end(']'); }

  JsonOutput& key(std::string_view name);

  void value(std::string_view text);  // bytes that are not UTF-8 become U+FFFD
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::uint64_t count);
  void value(std::uint32_t count) { value(std::uint64_t{count}); }
  void value(bool flag);
  void value(double measured);  // of a measurement; null where it is not finite
  void value(const Rational& number);
  void null();

  template <class T>
  void field(std::string_view name, const T& content) {
    key(name).value(content);
  }
  // null where there is none.
  void field(std::string_view name, const std::optional<std::uint64_t>& count);

  // REQUIRES: every container ended.
  std::string text() const { return text_ + "\n"; }

 private:
  struct Open {
    bool on_lines;
    bool is_empty = true;
  };

  void begin(char bracket, Break style);
  void end(char bracket);
  void before_item();  // comma, line break, indentation
  void raw(std::string_view token);

  std::string text_;
  std::vector<Open> open_;
  bool after_key_ = false;
};

}  // namespace emblema
