#include "apps/cli/report_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace emblema {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path) {
  return fail(ErrorCode::Io, fmt::format("--html {} cannot be written: {}", path,
                                         std::strerror(errno == 0 ? EIO : errno)));
}

}  // namespace

Result<ReportFile> ReportFile::claim(const std::string& path) {
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(path, ignored);
  errno = 0;
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) return cannot_write(path);
  return ReportFile(path, is_new);
}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : path_(std::move(other.path_)), remove_(std::exchange(other.remove_, false)) {}

ReportFile::~ReportFile() {
  std::error_code ignored;
  if (remove_) std::filesystem::remove(path_, ignored);
}

Status ReportFile::write(const std::string& content) {
  remove_ = false;
  errno = 0;
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.flush();
  if (!file) return cannot_write(path_);
  return {};
}

}  // namespace emblema
