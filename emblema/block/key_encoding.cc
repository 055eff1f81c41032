#include "emblema/block/key_encoding.h"

#include <string_view>
#include <utility>

namespace emblema::block_internal {
namespace {

// Never renumber: the numbers are part of every key.
enum class Role : std::uint8_t { kRoot = 1, kBlock = 2, kSegment = 3, kLink = 4 };

class Encoder {
 public:
  explicit Encoder(Role role) { bytes_.push_back(static_cast<std::byte>(role)); }

  void number(std::uint64_t value) { little_endian(value, 8); }
  void digest(const Digest& digest) {
    const auto bytes = std::as_bytes(std::span(digest.bytes));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text) {
    number(text.size());
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void tokens(std::span<const TokenId> tokens) {
    bytes_.reserve(bytes_.size() + 8 + 4 * tokens.size());
    number(tokens.size());
    for (const TokenId token : tokens) little_endian(token, 4);
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
  KeyBytes finish() && { return std::move(bytes_); }

 private:
  void little_endian(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  KeyBytes bytes_;
};

}  // namespace

KeyBytes encode_root(const CacheIdentity& identity) {
  Encoder encoder(Role::kRoot);
  encoder.identity(identity);
  return std::move(encoder).finish();
}

KeyBytes encode_block(const Digest& parent, std::span<const TokenId> tokens,
                      std::span<const ExtraId> extras) {
  Encoder encoder(Role::kBlock);
  encoder.digest(parent);
  encoder.tokens(tokens);
  encoder.extras(extras);
  return std::move(encoder).finish();
}

KeyBytes encode_segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras) {
  Encoder encoder(Role::kSegment);
  encoder.identity(identity);
  encoder.tokens(tokens);
  encoder.extras(extras);
  return std::move(encoder).finish();
}

KeyBytes encode_link(const Digest& parent, std::span<const TokenId> tail,
                     std::span<const ExtraId> extras, const Digest& segment,
                     std::uint64_t segment_tokens, std::int64_t delta) {
  Encoder encoder(Role::kLink);
  encoder.digest(parent);
  encoder.tokens(tail);
  encoder.extras(extras);
  encoder.digest(segment);
  encoder.number(segment_tokens);
  encoder.number(static_cast<std::uint64_t>(delta));
  return std::move(encoder).finish();
}

}  // namespace emblema::block_internal
