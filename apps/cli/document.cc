#include "apps/cli/document.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/contract/bytes.h"

namespace emblema {

Result<Document> read_document(const std::string& text, std::uint64_t tokens_max) {
  if (parse_tokens(text)) {
    const auto count = parse_token_count("--document", text, {1, tokens_max});
    if (!count) return propagate(count);
    return Document{*count, {}};
  }
  // Opening a pipe that nobody writes to would wait for ever.
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored) && !std::filesystem::is_regular_file(text, ignored)) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("--document {} is a folder or a device; allowed: a number of tokens or a "
                    "regular file",
                    text));
  }
  errno = 0;
  std::ifstream file(text, std::ios::binary);
  if (!file) {
    return fail(ErrorCode::Io,
                fmt::format("--document {}: {}; allowed: a number of tokens or a file", text,
                            std::strerror(errno == 0 ? EIO : errno)));
  }
  // One byte more than allowed is enough to know.
  std::string bytes(tokens_max + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto size = static_cast<std::uint64_t>(file.gcount());
  if (file.bad()) {
    return fail(ErrorCode::Io, fmt::format("--document {} cannot be read", text));
  }
  if (size == 0 || size > tokens_max) {
    return fail(ErrorCode::Invalid,
                fmt::format("--document {} has {} bytes; allowed: 1 to {}, each a token", text,
                            size > tokens_max ? "more" : "0", tokens_max));
  }
  Document document{size, {}};
  document.tokens.reserve(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    document.tokens.push_back(static_cast<unsigned char>(bytes[i]));
  }
  return document;
}

}  // namespace emblema
