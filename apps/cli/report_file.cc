#include "apps/cli/report_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace emblema {
namespace {

tl::unexpected<Error> cannot_write(std::string_view option, const std::string& path) {
  return fail(ErrorCode::Io, fmt::format("{} {} cannot be written: {}", option, path,
                                         std::strerror(errno == 0 ? EIO : errno)));
}

}  // namespace

Result<ReportFile> ReportFile::claim(std::string_view option, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} {} is a folder or a device; allowed: a file", option, path));
  }
  ReportFile file(option, path);
  errno = 0;
  if (!std::ofstream(file.partial(), std::ios::binary)) return cannot_write(option, path);
  return file;
}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : option_(std::move(other.option_)), path_(std::exchange(other.path_, {})) {}

ReportFile::~ReportFile() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(partial(), ignored);
}

Status ReportFile::write(const std::string& content) {
  errno = 0;
  std::ofstream file(partial(), std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file || std::rename(partial().c_str(), path_.c_str()) != 0)
    return cannot_write(option_, path_);
  path_.clear();
  return {};
}

}  // namespace emblema
