#include "emblema/model/weight_index.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "emblema/model/config_fields.h"
#include "emblema/model/json_value.h"
#include "emblema/model/model_config.h"

namespace emblema {
namespace {

namespace fs = std::filesystem;
using Found = Result<std::optional<WeightIndex>>;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kLoneName = "model.safetensors";
constexpr std::uint64_t kLengthBytes = 8;  // of the header's length

// A count that some tools write as a string of digits.
std::optional<std::uint64_t> read_count(const ConfigFields& metadata, std::string_view key) {
  const JsonValue* value = metadata.value().find(key);
  if (value == nullptr) return std::nullopt;
  const CountRange range = {1, WeightIndexLimits::kTotalBytesMax};
  const bool digits = value->is_string() && !value->text.empty() && value->text.size() < 20 &&
                      std::all_of(value->text.begin(), value->text.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return metadata.checked_count(*value, metadata.path_of(key), range);
  JsonValue number;
  number.kind = JsonValue::Kind::kUnsigned;
  for (const char c : value->text) {  // fewer than 20 digits fit 64 bits
    number.whole = number.whole * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return metadata.checked_count(number, metadata.path_of(key), range);
}

Result<std::uint64_t> size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (!error) return static_cast<std::uint64_t>(bytes);
  return fail(ErrorCode::Io, fmt::format("{} cannot be read: {}", file.string(), error.message()));
}

Found read_index(const fs::path& file) {
  const std::string shown = file.string();
  const auto bytes = size_of(file);
  if (!bytes) return propagate(bytes);
  if (*bytes > WeightIndexLimits::kFileBytesMax) {
    return fail(ErrorCode::Invalid, fmt::format("{} has {} bytes; allowed: up to {}", shown, *bytes,
                                                WeightIndexLimits::kFileBytesMax));
  }
  std::string text(*bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return fail(ErrorCode::Io, fmt::format("{} cannot be read", shown));
  }
  return parse_weight_index(text, shown);
}

Found read_lone_file(const fs::path& file) {
  const std::string shown = file.string();
  const auto bytes = size_of(file);
  if (!bytes) return propagate(bytes);
  std::array<char, kLengthBytes> start{};
  std::ifstream stream(file, std::ios::binary);
  if (*bytes < kLengthBytes || !stream.read(start.data(), kLengthBytes)) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} has {} bytes; allowed: a safetensors file, which has at least {}",
                            shown, *bytes, kLengthBytes));
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= std::uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  }
  const std::uint64_t most = std::min(WeightIndexLimits::kHeaderBytesMax, *bytes - kLengthBytes);
  if (header_bytes > most) {
    return fail(ErrorCode::Invalid, fmt::format("the header of {} has {} bytes; allowed: up to {}",
                                                shown, header_bytes, most));
  }
  return WeightIndex{shown, *bytes - kLengthBytes - header_bytes, std::nullopt};
}

// The folder whose checkpoint `source` means; empty where there is none.
fs::path folder_of(std::string_view source) {
  if (source.empty() || source == "-" || source.find('\0') != std::string_view::npos) return {};
  for (const Preset& preset : presets()) {
    if (preset.name == source) return {};
  }
  const fs::path path{std::string(source)};
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  if (!fs::is_regular_file(path, error)) return {};
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

Found parse_weight_index(std::string_view json, std::string_view name) {
  const std::string shown(name);
  if (json.size() > WeightIndexLimits::kFileBytesMax) {
    return fail(ErrorCode::Invalid, fmt::format("{} has {} bytes; allowed: up to {}", shown,
                                                json.size(), WeightIndexLimits::kFileBytesMax));
  }
  const auto root = parse_json_object(json);
  if (!root) return fail(root.error().code, fmt::format("{} {}", shown, root.error().message));
  ConfigProblems problems;
  const ConfigFields fields(*root, "", &problems);
  const auto metadata = fields.object("metadata");
  std::optional<WeightIndex> index;
  if (metadata) {
    const auto bytes = read_count(*metadata, "total_size");
    const auto parameters = read_count(*metadata, "total_parameters");
    if (bytes) index = WeightIndex{shown, *bytes, parameters};
  }
  if (problems.failed()) {
    return fail(problems.error().code, fmt::format("{}: {}", shown, problems.error().message));
  }
  return index;
}

Found read_weight_index(std::string_view source) {
  const fs::path folder = folder_of(source);
  if (folder.empty()) return std::nullopt;
  std::error_code error;
  const fs::path index = folder / kIndexName;
  if (fs::is_regular_file(index, error)) return read_index(index);
  const fs::path lone = folder / kLoneName;
  if (fs::is_regular_file(lone, error)) return read_lone_file(lone);
  return std::nullopt;
}

}  // namespace emblema
