#include "emblema/layer/row_codec.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/layout/convert.h"

namespace emblema {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are little-endian");

template <class Convert>
void decode_16(const std::byte* from, std::span<float> out, Convert convert) {
  for (float& value : out) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    value = convert(bits);
    from += sizeof(bits);
  }
}

}  // namespace

Result<std::uint64_t> row_element_bytes(Encoding encoding) {
  if (encoding == Encoding::kFp32) return 4;
  if (encoding == Encoding::kFp16 || encoding == Encoding::kBf16) return 2;
  return fail(ErrorCode::Unsupported,
              fmt::format("row encoding number {} cannot be read here; allowed: fp32 (1), "
                          "fp16 (2), bf16 (3)",
                          static_cast<int>(encoding)));
}

void decode_row_values(const std::byte* row, Encoding encoding, std::span<float> out) {
  switch (encoding) {
    case Encoding::kFp32:
      std::memcpy(out.data(), row, out.size_bytes());
      return;
    case Encoding::kBf16:
      decode_16(row, out, fp32_from_bf16);
      return;
    case Encoding::kFp16:
      decode_16(row, out, fp32_from_fp16);
      return;
    default:
      EMBLEMA_CHECK(false, "rows are stored as fp32, fp16 or bf16");
  }
}

}  // namespace emblema
