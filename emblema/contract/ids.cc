#include "emblema/contract/ids.h"

#include <openssl/sha.h>

namespace emblema {

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.bytes.data());
  return digest;
}

std::string Digest::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool Digest::parse_hex(const std::string& text, Digest* out) {
  if (text.size() != 2 * out->bytes.size()) return false;
  Digest digest;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    int nibble = -1;
    if (c >= '0' && c <= '9') nibble = c - '0';
    if (c >= 'a' && c <= 'f') nibble = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') nibble = c - 'A' + 10;
    if (nibble < 0) return false;
    auto& byte = digest.bytes[i / 2];
    byte = static_cast<std::uint8_t>((byte << 4) | nibble);
  }
  *out = digest;
  return true;
}

}  // namespace emblema
