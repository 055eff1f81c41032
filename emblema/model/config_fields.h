// Looks fields of a config up by their many names, checks each value, and remembers the first
// thing that is wrong.
//
// A lookup never fails by itself: it gives "absent" and the problem stays in ConfigProblems, so a
// reader may ask for many fields in a row and must look at failed() before it uses the numbers to
// size anything. null counts as absent everywhere. One config, one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/json_value.h"

namespace emblema {

// The first error of one config, and what its reader should know.
class ConfigProblems {
 public:
  void invalid(std::string message) { set(ErrorCode::Invalid, std::move(message)); }
  void unsupported(std::string message) { set(ErrorCode::Unsupported, std::move(message)); }
  void note(std::string message);  // said once, however often it is found

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }  // REQUIRES: failed()
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void set(ErrorCode code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  std::optional<Error> error_;
  std::vector<std::string> notes_;
};

struct CountRange {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

struct NumberRange {
  double min = 0;
  double max = 0;
};

class ConfigFields {
 public:
  using Aliases = std::initializer_list<std::string_view>;

  struct Found {
    std::string path;  // "text_config.num_hidden_layers"
    const JsonValue* value = nullptr;
    explicit operator bool() const { return value != nullptr; }
  };

  // `object` and `problems` must outlive this. `path` is put before names in messages.
  ConfigFields(const JsonValue& object, std::string path, ConfigProblems* problems)
      : object_(&object), path_(std::move(path)), problems_(problems) {}

  ConfigProblems& problems() const { return *problems_; }
  const JsonValue& value() const { return *object_; }
  std::string path_of(std::string_view key) const;

  // The first alias that is present. Where a later one is present too and says something else, a
  // note tells which was taken.
  Found first(Aliases aliases) const;
  bool has(std::string_view key) const { return object_->find(key) != nullptr; }

  std::optional<std::uint64_t> count(Aliases aliases, CountRange range) const;
  std::optional<double> number(Aliases aliases, NumberRange range) const;
  std::uint64_t need_count(std::string_view key, CountRange range) const;  // absent: a problem, 0
  std::optional<bool> flag(std::string_view key) const;
  std::string text(Aliases aliases) const;  // "" when absent

  // A nested object; absent, or wrong kind (an error): nullopt.
  std::optional<ConfigFields> object(std::string_view key) const;

  // One number for all layers, or a list with at least one per layer (what is behind the last layer
  // belongs to draft layers). Absent or wrong: empty.
  std::vector<std::uint64_t> counts_per_layer(Aliases aliases, CountRange range,
                                              std::uint64_t layers) const;
  std::vector<double> numbers_per_layer(Aliases aliases, NumberRange range,
                                        std::uint64_t layers) const;

  // A list of exactly `size` numbers. Absent or wrong: empty.
  std::vector<double> number_list(std::string_view key, NumberRange range,
                                  std::uint64_t size) const;

  // A list of at least `layers` entries. Absent: nullptr. Wrong kind or too short: an error,
  // nullptr.
  const JsonValue* layer_list(std::string_view key, std::uint64_t layers) const;

  std::optional<std::uint64_t> checked_count(const JsonValue& value, std::string_view path,
                                             CountRange range) const;
  std::optional<double> checked_number(const JsonValue& value, std::string_view path,
                                       NumberRange range) const;

 private:
  bool long_enough(const JsonValue& list, std::string_view path, std::uint64_t layers) const;

  const JsonValue* object_;
  std::string path_;
  ConfigProblems* problems_;
};

}  // namespace emblema
