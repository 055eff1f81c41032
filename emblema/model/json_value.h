// A JSON document read from outside, as plain values: what the rest of this room looks fields up
// in.
//
// Bounded in every direction (bytes, depth, number of values), so that a hostile file costs a known
// amount of memory and no stack. Immutable after parse_json(); any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

struct JsonValue {
  enum class Kind { kNull, kBoolean, kUnsigned, kNegative, kReal, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::uint64_t whole = 0;  // kUnsigned; of kNegative the magnitude
  double real = 0.0;        // of any number
  std::string text;         // kString: its characters. kReal: as spelled in the file
  std::vector<std::string> keys;
  std::vector<JsonValue> items;  // kArray: elements. kObject: items[i] belongs to keys[i]

  bool is_null() const { return kind == Kind::kNull; }
  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_number() const {
    return kind == Kind::kUnsigned || kind == Kind::kNegative || kind == Kind::kReal;
  }

  // The member of that name, or nullptr when absent. A null member counts as absent.
  const JsonValue* find(std::string_view key) const;

  // A whole number >= 0, also when it is spelled 61.0. Anything else: nullopt.
  std::optional<std::uint64_t> as_count() const;

  // The value on one line for a message: "61.5", "\"four\"", "true", "a list of 3", "an object".
  std::string describe() const;
};

struct JsonLimits {
  static constexpr int kDepthMax = 32;
  static constexpr std::uint64_t kValuesMax = std::uint64_t{1} << 20;
};

// Reads one JSON object. A UTF-8 byte order mark is skipped. The tokens Infinity, -Infinity and
// NaN, which are not JSON but stand in real config files (Python writes them), become strings of
// that spelling: harmless where nobody looks, and named where a number is expected. Invalid, with
// line and column: not JSON, something behind the object, a key given twice in one object, another
// top level than an object, past a limit. Nothing else is thrown or returned.
Result<JsonValue> parse_json_object(std::string_view text);

// `text` cut to a length that fits a message, control characters replaced: always one line.
std::string shortened(std::string_view text);

}  // namespace emblema
