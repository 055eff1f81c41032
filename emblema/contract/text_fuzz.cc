// Fuzz target: the texts that people type. What is read must be what it says, whatever the bytes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/contract/ids.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& parsed : {emblema::parse_bytes(text), emblema::parse_tokens(text)}) {
    if (!parsed) {
      EMBLEMA_CHECK(parsed.error().code == emblema::ErrorCode::Invalid, "a wrong text is Invalid");
      continue;
    }
    // A number read is read again from its plain digits.
    const auto again = emblema::parse_bytes(std::to_string(*parsed));
    EMBLEMA_CHECK(again && *again == *parsed, "digits read back are the same number");
  }
  emblema::Digest digest;
  if (emblema::Digest::parse_hex(text, &digest)) {
    emblema::Digest again;
    EMBLEMA_CHECK(emblema::Digest::parse_hex(digest.hex(), &again), "a digest reads itself");
    EMBLEMA_CHECK(again == digest, "a digest read back is the same");
  }
  return 0;
}
