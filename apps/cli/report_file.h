// A file that a command will write at its end, claimed at its beginning.
#pragma once

#include <string>

#include "emblema/contract/result.h"

namespace emblema {

// Move-only. A file that was made by claim() and never written is removed again; one that was there
// keeps its content until write().
class ReportFile {
 public:
  // Io: the file cannot be written, with the system's reason.
  static Result<ReportFile> claim(const std::string& path);

  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&& other) = delete;
  ~ReportFile();

  // Replaces the content. Io: the disk is full, say.
  [[nodiscard]] Status write(const std::string& content);

 private:
  ReportFile(std::string path, bool is_new) : path_(std::move(path)), remove_(is_new) {}
  std::string path_;
  bool remove_ = false;
};

}  // namespace emblema
