#include "apps/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace emblema {

bool stdout_wants_color() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
}

ProgressBar::ProgressBar() : visible_(::isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(std::string_view step, double done) {
  if (!visible_) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kWidth);
  const std::string line = fmt::format("\r[{:<{}}] {:3.0f} % {:<28}", std::string(filled, '#'),
                                       kWidth, 100 * std::clamp(done, 0.0, 1.0), step);
  if (line == drawn_) return;
  drawn_ = line;
  std::fputs(line.c_str(), stderr);
}

void ProgressBar::clear() {
  if (drawn_.empty()) return;
  std::fputs(("\r" + std::string(drawn_.size(), ' ') + "\r").c_str(), stderr);
  drawn_.clear();
}

}  // namespace emblema
