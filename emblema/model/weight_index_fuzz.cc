// Any bytes at all: a Result, never a crash or an exception; a size is in its range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emblema/contract/check.h"
#include "emblema/model/weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = emblema::parse_weight_index(text, "fuzz");
  if (!index) {
    EMBLEMA_CHECK(index.error().message.find('\n') == std::string::npos, "one line");
  } else {
    EMBLEMA_CHECK(index->total_bytes <= emblema::WeightIndexLimits::kTotalBytesMax,
                  "within its limit");
  }
  return 0;
}
