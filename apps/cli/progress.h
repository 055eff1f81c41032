// Progress on standard error, only where a person is looking: a terminal.
#pragma once

#include <string>
#include <string_view>

namespace emblema {

// Colour is wanted where standard output is a terminal and NO_COLOR is not set (no-color.org).
bool stdout_wants_color();

// One line that is drawn over; nothing at all where standard error is no terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::string_view step, double done);  // done from 0 to 1
  void clear();

 private:
  bool visible_;
  std::string drawn_;
};

}  // namespace emblema
