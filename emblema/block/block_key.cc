#include "emblema/block/block_key.h"

#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

namespace emblema {
namespace {

// Never renumber: the numbers are part of every key.
enum class Role : std::uint8_t { kRoot = 1, kBlock = 2, kSegment = 3, kLink = 4 };

class Encoder {
 public:
  explicit Encoder(Role role) { hash_.update(std::as_bytes(std::span(&role, 1))); }

  void number(std::uint64_t value) { little_endian(std::span<const std::uint64_t>(&value, 1)); }
  void digest(const Digest& digest) { hash_.update(std::as_bytes(std::span(digest.bytes))); }
  void text(std::string_view text) {
    number(text.size());
    hash_.update(std::as_bytes(std::span(text)));
  }
  void tokens(std::span<const TokenId> tokens) {
    number(tokens.size());
    little_endian(tokens);
  }
  void extras(std::span<const ExtraId> extras) {
    number(extras.size());
    for (const ExtraId& extra : extras) {
      number(extra.offset);
      digest(extra.digest);
    }
  }
  void identity(const CacheIdentity& identity) {
    digest(identity.geometry);
    digest(identity.weights);
    digest(identity.adapter);
    text(identity.tenant);
    text(identity.salt);
  }
  Digest finish() { return hash_.finish(); }

 private:
  template <class Number>
  void little_endian(std::span<const Number> numbers) {
    if constexpr (std::endian::native == std::endian::little) {
      hash_.update(std::as_bytes(numbers));
    } else {
      for (const Number number : numbers) {
        for (std::size_t i = 0; i < sizeof(number); ++i) {
          const auto byte = static_cast<std::byte>(number >> (8 * i));
          hash_.update(std::span(&byte, 1));
        }
      }
    }
  }
  Sha256 hash_;
};

}  // namespace

Digest BlockKeys::root(const CacheIdentity& identity) const {
  Encoder encoder(Role::kRoot);
  encoder.identity(identity);
  return cut(encoder.finish());
}

Digest BlockKeys::block(const Digest& parent, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras) const {
  Encoder encoder(Role::kBlock);
  encoder.digest(parent);
  encoder.tokens(tokens);
  encoder.extras(extras);
  return cut(encoder.finish());
}

Digest BlockKeys::segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                          std::span<const ExtraId> extras) const {
  Encoder encoder(Role::kSegment);
  encoder.identity(identity);
  encoder.tokens(tokens);
  encoder.extras(extras);
  return cut(encoder.finish());
}

Digest BlockKeys::link(const Digest& parent, std::span<const TokenId> tail,
                       std::span<const ExtraId> extras, const Digest& segment,
                       std::uint64_t segment_tokens, std::int64_t delta) const {
  Encoder encoder(Role::kLink);
  encoder.digest(parent);
  encoder.tokens(tail);
  encoder.extras(extras);
  encoder.digest(segment);
  encoder.number(segment_tokens);
  encoder.number(static_cast<std::uint64_t>(delta));
  return cut(encoder.finish());
}

Digest BlockKeys::cut(Digest digest) const {
  for (unsigned bit = digest_bits_; bit < 256; ++bit) {
    auto& byte = digest.bytes[bit / 8];
    byte = static_cast<std::uint8_t>(byte & ~(1u << (bit % 8)));
  }
  return digest;
}

}  // namespace emblema
