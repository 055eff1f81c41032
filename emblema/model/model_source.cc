// load_model_config: a preset, a file, a folder or standard input.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <istream>
#include <system_error>

#include <fmt/format.h>

#include "emblema/model/json_value.h"
#include "emblema/model/model_config.h"

namespace emblema {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesShownMax = 4;

// Reads to the end, or Invalid as soon as there is more than a config may hold.
Result<std::string> read_bounded(std::istream& stream, std::string_view shown) {
  std::string text;
  char chunk[16384];
  while (stream.read(chunk, sizeof(chunk)), stream.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > ConfigLimits::kFileBytesMax) {
      return fail(ErrorCode::Invalid,
                  fmt::format("{} has more than {} bytes; allowed: up to {}", shown,
                              ConfigLimits::kFileBytesMax, ConfigLimits::kFileBytesMax));
    }
  }
  if (stream.bad()) return fail(ErrorCode::Io, fmt::format("{} cannot be read", shown));
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "close preset names: deepseek-v3, deepseek-v3.2", or how many presets there are.
std::string suggest_presets(std::string_view source) {
  constexpr std::size_t kLongestName = 64;
  struct Near {
    std::size_t distance;
    std::string_view name;
  };
  std::vector<Near> near;
  for (const Preset& preset : presets()) {
    if (source.size() > kLongestName) break;
    const bool contains =
        source.size() >= 3 && (preset.name.find(source) != std::string_view::npos ||
                               source.find(preset.name) != std::string_view::npos);
    const std::size_t distance = contains ? 0 : edit_distance(source, preset.name);
    if (distance <= 1 + source.size() / 4) near.push_back({distance, preset.name});
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const Near& a, const Near& b) { return a.distance < b.distance; });
  if (near.empty()) {
    return fmt::format("allowed: one of {} preset names, a config.json, its folder, or -",
                       presets().size());
  }
  std::string names;
  for (std::size_t i = 0; i < std::min(near.size(), kNamesShownMax); ++i) {
    names += (i == 0 ? "" : ", ") + std::string(near[i].name);
  }
  return "close preset names: " + names;
}

// The folder's name for ".../config.json", else the file's name without its extension.
std::string name_of(const fs::path& file) {
  std::error_code ignored;
  if (file.filename() != "config.json") return file.stem().string();
  const fs::path folder = fs::absolute(file, ignored).lexically_normal().parent_path();
  return folder.filename().empty() ? "config" : folder.filename().string();
}

Result<ModelConfig> load_file(const fs::path& file) {
  const std::string shown = file.string();
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error || !fs::exists(status)) {
    return fail(
        error && error != std::errc::no_such_file_or_directory ? ErrorCode::Io
                                                               : ErrorCode::NotFound,
        fmt::format("{} cannot be opened: {}", shown, error ? error.message() : "no such file"));
  }
  if (!fs::is_regular_file(status)) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("{} is not a regular file; allowed: a config.json, its folder, or -", shown));
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
    return fail(ErrorCode::Io, fmt::format("{} cannot be opened: {}", shown, reason.message()));
  }
  const auto text = read_bounded(stream, shown);
  if (!text) return propagate(text);
  auto config = parse_model_config(*text, shown);
  if (config) config->name = name_of(file);
  return config;
}

}  // namespace

Result<ModelConfig> load_model_config(std::string_view source) {
  if (source.empty()) {
    return fail(ErrorCode::Invalid,
                "the model is empty; allowed: a preset name, a config.json, its folder, or -");
  }
  if (source == "-") {
    const auto text = read_bounded(std::cin, "standard input");
    if (!text) return propagate(text);
    auto config = parse_model_config(*text, "standard input");
    if (config) config->name = "stdin";
    return config;
  }
  for (const Preset& preset : presets()) {
    if (preset.name == source) return parse_model_config(preset.json, preset.name);
  }
  if (source.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::Invalid,
                fmt::format("model \"{}\" holds a zero byte; allowed: a preset name or a path",
                            shortened(source)));
  }
  const fs::path path{std::string(source)};
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    const fs::path inside = path / "config.json";
    if (!fs::exists(inside, error) && !error) {
      return fail(ErrorCode::NotFound,
                  fmt::format("{} is a folder without a config.json", shortened(source)));
    }
    return load_file(inside);
  }
  if (fs::exists(status)) return load_file(path);
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    return fail(ErrorCode::Io,
                fmt::format("{} cannot be opened: {}", shortened(source), error.message()));
  }
  return fail(ErrorCode::NotFound, fmt::format("model \"{}\" is neither a preset nor a file; {}",
                                               shortened(source), suggest_presets(source)));
}

}  // namespace emblema
