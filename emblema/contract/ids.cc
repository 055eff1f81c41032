#include "emblema/contract/ids.h"

// OpenSSL 3 calls SHA256_Init deprecated, but what it offers instead looks the algorithm up anew
// and allocates each time: twice the cost of hashing a block's tokens.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace emblema {

namespace {

SHA256_CTX* context_of(std::byte* state) {
  return reinterpret_cast<SHA256_CTX*>(state);
}

}  // namespace

Sha256::Sha256() {
  static_assert(sizeof(SHA256_CTX) <= kStateBytes && alignof(SHA256_CTX) <= alignof(Sha256));
  SHA256_Init(context_of(state_));
}

void Sha256::update(std::span<const std::byte> bytes) {
  SHA256_Update(context_of(state_), bytes.data(), bytes.size());
}

Digest Sha256::finish() {
  Digest digest;
  SHA256_Final(digest.bytes.data(), context_of(state_));
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
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
