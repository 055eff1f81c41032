#include "emblema/contract/result.h"

#include <fmt/format.h>

namespace emblema {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::NotFound:
      return "NotFound";
    case ErrorCode::Corrupt:
      return "Corrupt";
    case ErrorCode::OutOfBlocks:
      return "OutOfBlocks";
    case ErrorCode::Io:
      return "Io";
    case ErrorCode::Invalid:
      return "Invalid";
    case ErrorCode::Unsupported:
      return "Unsupported";
  }
  return "unknown error code";
}

std::string Error::describe() const {
  return fmt::format("{}: {}", to_string(code), message);
}

}  // namespace emblema
