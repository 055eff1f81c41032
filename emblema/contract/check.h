// EMBLEMA_CHECK: for what must never happen, whoever the caller is. Kept in release builds.
//
// It never fires on bytes that came from a disk, a config, a trace or an argument: those get a
// Result. `EMBLEMA_CHECK(condition, "what was expected")` ends the process with file and line.
#pragma once

namespace emblema {

[[noreturn]] void check_failed(const char* condition, const char* what, const char* file, int line);

}  // namespace emblema

#define EMBLEMA_CHECK(condition, what)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::emblema::check_failed(#condition, (what), __FILE__, __LINE__); \
  } while (false)
