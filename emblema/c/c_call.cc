#include "emblema/c/c_call.h"

#include <array>

#include <fmt/format.h>

#include "emblema/layout/pool_plan.h"

namespace emblema::c_interface {
namespace {

// A size that was never set is most likely none of these.
constexpr std::uint32_t kStructBytesMin = 8;
constexpr std::uint32_t kStructBytesMax = 4096;

constexpr std::size_t kMessageBytesMax = 1024;  // with its final 0

// Fixed memory, so that a failure to allocate can be told.
thread_local std::array<char, kMessageBytesMax> last_message{};

emblema_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::NotFound:
      return EMBLEMA_NOT_FOUND;
    case ErrorCode::Corrupt:
      return EMBLEMA_CORRUPT;
    case ErrorCode::OutOfBlocks:
      return EMBLEMA_OUT_OF_BLOCKS;
    case ErrorCode::Io:
      return EMBLEMA_IO;
    case ErrorCode::Invalid:
      return EMBLEMA_INVALID;
    case ErrorCode::Unsupported:
      return EMBLEMA_UNSUPPORTED;
  }
  return EMBLEMA_INVALID;
}

}  // namespace

emblema_status remember(emblema_status status, std::string_view message) noexcept {
  const std::size_t length = std::min(message.size(), kMessageBytesMax - 1);
  std::memcpy(last_message.data(), message.data(), length);
  last_message[length] = '\0';
  return status;
}

emblema_status remember(const Status& status) noexcept {
  if (status) {
    last_message[0] = '\0';
    return EMBLEMA_OK;
  }
  return remember(status_of(status.error().code), status.error().message);
}

Status require(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.pointer != nullptr) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("{} is null; allowed: the address of one", argument.name));
  }
  return {};
}

Status check_struct(std::string_view name, std::uint32_t struct_bytes) {
  if (struct_bytes >= kStructBytesMin && struct_bytes <= kStructBytesMax && struct_bytes % 8 == 0) {
    return {};
  }
  return fail(ErrorCode::Invalid,
              fmt::format("struct_bytes of {} is {}; allowed: its sizeof, a multiple of 8 from {} "
                          "to {}",
                          name, struct_bytes, kStructBytesMin, kStructBytesMax));
}

Status check_unknown(std::string_view name, const void* given, std::uint32_t given_size,
                     std::uint64_t known_size) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (std::uint64_t at = known_size; at < given_size; ++at) {
    if (bytes[at] == 0) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("{} has a field at byte {} that this library does not know (its own "
                            "has {} bytes); allowed there: 0",
                            name, at, known_size));
  }
  return {};
}

Result<std::span<const TokenId>> tokens_of(std::string_view name, const std::uint32_t* tokens,
                                           std::uint64_t count) {
  if (count > kSequenceTokensMax) {
    return fail(ErrorCode::Invalid, fmt::format("count of {} is {}; allowed: up to {}", name, count,
                                                kSequenceTokensMax));
  }
  if (tokens == nullptr && count > 0) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("{} is null with a count of {}; allowed: the address of so many", name, count));
  }
  return std::span<const TokenId>(tokens, count);
}

Result<std::string_view> text_of(std::string_view name, const char* text, std::uint64_t bytes) {
  if (text == nullptr && bytes > 0) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("{} is null with {} bytes; allowed: the address of so many", name, bytes));
  }
  if (bytes > INT64_MAX) {
    return fail(ErrorCode::Invalid,
                fmt::format("bytes of {} are {}; allowed: up to {}", name, bytes, INT64_MAX));
  }
  return std::string_view(text, bytes);
}

Digest digest_of(const std::uint8_t* bytes) {
  Digest digest;
  if (bytes != nullptr) std::memcpy(digest.bytes.data(), bytes, digest.bytes.size());
  return digest;
}

Result<bool> flag_of(std::string_view name, std::uint32_t value) {
  if (value <= 1) return value == 1;
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: 0 and 1", name, value));
}

Status check_reserved(std::string_view name, std::uint32_t value) {
  if (value == 0) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: 0", name, value));
}

}  // namespace emblema::c_interface

uint32_t emblema_abi_version() {
  return EMBLEMA_ABI_VERSION;
}

const char* emblema_last_error() {
  return emblema::c_interface::last_message.data();
}

const char* emblema_status_name(emblema_status status) {
  switch (status) {
    case EMBLEMA_OK:
      return "Ok";
    case EMBLEMA_NOT_FOUND:
      return "NotFound";
    case EMBLEMA_CORRUPT:
      return "Corrupt";
    case EMBLEMA_OUT_OF_BLOCKS:
      return "OutOfBlocks";
    case EMBLEMA_IO:
      return "Io";
    case EMBLEMA_INVALID:
      return "Invalid";
    case EMBLEMA_UNSUPPORTED:
      return "Unsupported";
  }
  return "unknown status";
}
