// A file that a command will write at its end, claimed at its beginning.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "emblema/contract/result.h"

namespace emblema {

// What is written goes to a file beside it, which takes its place when it is whole: a full disk
// leaves an old report as it was. Move-only; a claim that is not written leaves nothing behind.
class ReportFile {
 public:
  // Invalid: something that is no regular file is there. Io: the folder cannot be written, with the
  // system's reason.
  // `option` named the path: "--html".
  static Result<ReportFile> claim(std::string_view option, const std::string& path);

  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&& other) = delete;
  ~ReportFile();

  // Replaces the content. Io: the disk is full, say; the old content stays.
  [[nodiscard]] Status write(const std::string& content);

 private:
  ReportFile(std::string_view option, std::string path) : option_(option), path_(std::move(path)) {}
  std::string partial() const { return path_ + ".partial"; }
  std::string option_;
  std::string path_;  // empty: moved from, or written
};

}  // namespace emblema
