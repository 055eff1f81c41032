// Names that cross rooms: tokens and digests.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace emblema {

// A vocabulary index. What is not a token (image, audio, embeddings) enters as an extra id.
using TokenId = std::uint32_t;

// 32 bytes that stand for something larger: a SHA-256, or a caller's digest of weights.
// All zero means "none given".
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;

  bool is_none() const { return *this == Digest{}; }
  std::string hex() const;                                      // 64 lower-case digits
  static bool parse_hex(const std::string& text, Digest* out);  // false: not 64 hex digits
};

// SHA-256 (FIPS 180-4) of bytes that come in pieces. A value; one thread at a time.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  Digest finish();  // REQUIRES: called once, last

 private:
  static constexpr std::size_t kStateBytes = 112;
  alignas(8) std::byte state_[kStateBytes];  // OpenSSL's context: no allocation
};

// The same of bytes that are all there. Thread-safe.
Digest sha256(std::span<const std::byte> bytes);

// What makes the bytes of two caches interchangeable (ModelGeometry::fingerprint).
using Fingerprint = Digest;

// For hash maps keyed by a digest that is already uniform.
struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof(value));
    return value;
  }
};

}  // namespace emblema
