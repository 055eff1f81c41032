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
constexpr std::uint64_t kLengthBytes = 8;     // of the header's length
constexpr std::uint64_t kHeaderBytesMin = 2;  // "{}"

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
  auto index = parse_weight_index(text, shown);
  if (!index) return propagate(index);
  return std::move(*index);
}

// The first bytes of a safetensors file: how long its header is.
std::uint64_t little_endian(const std::array<char, kLengthBytes>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

// Where a tensor ends, behind the header.
std::optional<std::uint64_t> end_of(const JsonValue& tensor) {
  const JsonValue* offsets = tensor.is_object() ? tensor.find("data_offsets") : nullptr;
  if (offsets == nullptr || !offsets->is_array() || offsets->items.size() != 2) return std::nullopt;
  return offsets->items[1].as_count();
}

// The tensors of a header cover what is behind it: safetensors refuses a file that has more or
// less.
Status check_cover(const JsonValue& header, std::uint64_t data_bytes, const std::string& shown) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < header.items.size(); ++i) {
    if (header.keys[i] == "__metadata__") continue;
    const auto tensor_end = end_of(header.items[i]);
    if (!tensor_end) {
      return fail(ErrorCode::Invalid,
                  fmt::format("the header of {}: {} is {}; allowed: an object with data_offsets, a "
                              "list of the first byte and the end",
                              shown, shortened(header.keys[i]), header.items[i].describe()));
    }
    end = std::max(end, *tensor_end);
  }
  if (end == data_bytes && end > 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("the header of {}: its last data_offsets end at {}; allowed: {}, the "
                          "bytes behind it, and at least 1",
                          shown, end, data_bytes));
}

Found read_lone_file(const fs::path& file) {
  const std::string shown = file.string();
  const auto bytes = size_of(file);
  if (!bytes) return propagate(bytes);
  std::array<char, kLengthBytes> start{};
  std::ifstream stream(file, std::ios::binary);
  constexpr std::uint64_t kLeastBytes = kLengthBytes + kHeaderBytesMin;
  if (*bytes < kLeastBytes || !stream.read(start.data(), kLengthBytes)) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} has {} bytes; allowed: a safetensors file, which has at least {}",
                            shown, *bytes, kLeastBytes));
  }
  const std::uint64_t header_bytes = little_endian(start);
  const std::uint64_t most = std::min(WeightIndexLimits::kHeaderBytesMax, *bytes - kLengthBytes);
  if (header_bytes < kHeaderBytesMin || header_bytes > most) {
    return fail(ErrorCode::Invalid, fmt::format("the header of {} has {} bytes; allowed: {} to {}",
                                                shown, header_bytes, kHeaderBytesMin, most));
  }
  std::string text(header_bytes, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return fail(ErrorCode::Io, fmt::format("{} cannot be read", shown));
  }
  const auto header = parse_json_object(text);
  if (!header) {
    return fail(header.error().code,
                fmt::format("the header of {} {}", shown, header.error().message));
  }
  const std::uint64_t data_bytes = *bytes - kLengthBytes - header_bytes;
  if (const auto ok = check_cover(*header, data_bytes, shown); !ok) return propagate(ok);
  return WeightIndex{shown, data_bytes, std::nullopt};
}

// A folder, a pipe or a device of that name is an error: skipped in silence, an estimate would pass
// for a count.
Result<bool> is_there(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_regular_file(status)) return true;
  if (!fs::exists(status)) return false;
  return fail(ErrorCode::Invalid,
              fmt::format("{} is not a regular file; allowed: a file, or nothing of that name",
                          file.string()));
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

Result<WeightIndex> parse_weight_index(std::string_view json, std::string_view name) {
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
  WeightIndex index{shown, 0, std::nullopt};
  if (metadata) {
    index.total_bytes = read_count(*metadata, "total_size").value_or(0);
    index.total_parameters = read_count(*metadata, "total_parameters");
  }
  if (problems.failed()) {
    return fail(problems.error().code, fmt::format("{}: {}", shown, problems.error().message));
  }
  return index;
}

Found read_weight_index(std::string_view source) {
  const fs::path folder = folder_of(source);
  if (folder.empty()) return std::nullopt;
  const fs::path index = folder / kIndexName;
  const auto has_index = is_there(index);
  if (!has_index) return propagate(has_index);
  if (*has_index) return read_index(index);
  const fs::path lone = folder / kLoneName;
  const auto has_lone = is_there(lone);
  if (!has_lone) return propagate(has_lone);
  if (*has_lone) return read_lone_file(lone);
  return std::nullopt;
}

}  // namespace emblema
