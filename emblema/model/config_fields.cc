#include "emblema/model/config_fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace emblema {

void ConfigProblems::note(std::string message) {
  if (std::find(notes_.begin(), notes_.end(), message) == notes_.end()) {
    notes_.push_back(std::move(message));
  }
}

std::string ConfigFields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

ConfigFields::Found ConfigFields::first(Aliases aliases) const {
  Found found;
  for (const std::string_view alias : aliases) {
    const JsonValue* value = object_->find(alias);
    if (value == nullptr) continue;
    if (!found) {
      found = {path_of(alias), value};
      continue;
    }
    if (found.value->is_array() != value->is_array()) continue;  // a list details the one number
    const auto taken = found.value->as_count();
    const bool same =
        taken ? taken == value->as_count() : found.value->describe() == value->describe();
    if (!same) {
      problems_->note(fmt::format("{} ({}) and {} ({}) disagree; the first is used", found.path,
                                  found.value->describe(), path_of(alias), value->describe()));
    }
  }
  return found;
}

std::optional<std::uint64_t> ConfigFields::checked_count(const JsonValue& value,
                                                         std::string_view path,
                                                         CountRange range) const {
  const auto count = value.as_count();
  if (count && *count >= range.min && *count <= range.max) return count;
  problems_->invalid(fmt::format("{} is {}; allowed: a whole number from {} to {}", path,
                                 value.describe(), range.min, range.max));
  return std::nullopt;
}

std::optional<double> ConfigFields::checked_number(const JsonValue& value, std::string_view path,
                                                   NumberRange range) const {
  if (value.is_number() && std::isfinite(value.real) && value.real >= range.min &&
      value.real <= range.max) {
    return value.real;
  }
  problems_->invalid(fmt::format("{} is {}; allowed: a number from {} to {}", path,
                                 value.describe(), range.min, range.max));
  return std::nullopt;
}

std::optional<std::uint64_t> ConfigFields::count(Aliases aliases, CountRange range) const {
  const Found found = first(aliases);
  return found ? checked_count(*found.value, found.path, range) : std::nullopt;
}

std::uint64_t ConfigFields::need_count(std::string_view key, CountRange range) const {
  const auto found = count({key}, range);
  if (!found && !problems_->failed()) {
    problems_->invalid(
        fmt::format("{} is missing; allowed: {} to {}", path_of(key), range.min, range.max));
  }
  return found.value_or(0);
}

std::optional<double> ConfigFields::number(Aliases aliases, NumberRange range) const {
  const Found found = first(aliases);
  return found ? checked_number(*found.value, found.path, range) : std::nullopt;
}

std::optional<bool> ConfigFields::flag(std::string_view key) const {
  const JsonValue* value = object_->find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == JsonValue::Kind::kBoolean) return value->boolean;
  problems_->invalid(
      fmt::format("{} is {}; allowed: true, false or null", path_of(key), value->describe()));
  return std::nullopt;
}

std::string ConfigFields::text(Aliases aliases) const {
  const Found found = first(aliases);
  if (!found) return {};
  if (found.value->is_string()) return found.value->text;
  problems_->invalid(
      fmt::format("{} is {}; allowed: a string or null", found.path, found.value->describe()));
  return {};
}

std::optional<ConfigFields> ConfigFields::object(std::string_view key) const {
  const JsonValue* value = object_->find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return ConfigFields(*value, path_of(key), problems_);
  problems_->invalid(
      fmt::format("{} is {}; allowed: an object or null", path_of(key), value->describe()));
  return std::nullopt;
}

bool ConfigFields::long_enough(const JsonValue& list, std::string_view path,
                               std::uint64_t layers) const {
  if (list.items.size() >= layers) return true;
  problems_->invalid(
      fmt::format("{} has {} entries; allowed: one for each of the {} layers, or more", path,
                  list.items.size(), layers));
  return false;
}

std::vector<std::uint64_t> ConfigFields::counts_per_layer(Aliases aliases, CountRange range,
                                                          std::uint64_t layers) const {
  const Found found = first(aliases);
  if (!found) return {};
  if (!found.value->is_array()) {
    const auto all = checked_count(*found.value, found.path, range);
    return all ? std::vector<std::uint64_t>(layers, *all) : std::vector<std::uint64_t>{};
  }
  if (!long_enough(*found.value, found.path, layers)) return {};
  std::vector<std::uint64_t> counts;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const auto count =
        checked_count(found.value->items[layer], fmt::format("{}[{}]", found.path, layer), range);
    if (!count) return {};
    counts.push_back(*count);
  }
  return counts;
}

std::vector<double> ConfigFields::numbers_per_layer(Aliases aliases, NumberRange range,
                                                    std::uint64_t layers) const {
  const Found found = first(aliases);
  if (!found) return {};
  if (!found.value->is_array()) {
    const auto all = checked_number(*found.value, found.path, range);
    return all ? std::vector<double>(layers, *all) : std::vector<double>{};
  }
  if (!long_enough(*found.value, found.path, layers)) return {};
  std::vector<double> numbers;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const auto number =
        checked_number(found.value->items[layer], fmt::format("{}[{}]", found.path, layer), range);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> ConfigFields::number_list(std::string_view key, NumberRange range,
                                              std::uint64_t size) const {
  const JsonValue* list = object_->find(key);
  if (list == nullptr) return {};
  if (!list->is_array() || list->items.size() != size) {
    problems_->invalid(
        fmt::format("{} is {}; allowed: a list of {}", path_of(key), list->describe(), size));
    return {};
  }
  std::vector<double> numbers;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const auto number =
        checked_number(list->items[i], fmt::format("{}[{}]", path_of(key), i), range);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

const JsonValue* ConfigFields::layer_list(std::string_view key, std::uint64_t layers) const {
  const JsonValue* list = object_->find(key);
  if (list == nullptr) return nullptr;
  if (!list->is_array()) {
    problems_->invalid(fmt::format("{} is {}; allowed: a list with one entry for each layer",
                                   path_of(key), list->describe()));
    return nullptr;
  }
  return long_enough(*list, path_of(key), layers) ? list : nullptr;
}

}  // namespace emblema
