// The bytes that keys are digests of, as block_key.h describes them: one encoding, into a hash or,
// for the tests that decode it again, into memory. Internal to this room.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "emblema/block/cache_identity.h"
#include "emblema/contract/ids.h"

namespace emblema::block_internal {

// Never renumber: the numbers are part of every key.
enum class KeyRole : std::uint8_t { kRoot = 1, kBlock = 2, kSegment = 3, kLink = 4 };

// Sink: a type with update(std::span<const std::byte>).
template <class Sink>
class KeyEncoder {
 public:
  KeyEncoder(KeyRole role, Sink* sink) : sink_(sink) {
    sink_->update(std::as_bytes(std::span(&role, 1)));
  }

  void number(std::uint64_t value) { little_endian(std::span<const std::uint64_t>(&value, 1)); }
  void digest(const Digest& digest) { sink_->update(std::as_bytes(std::span(digest.bytes))); }
  void text(std::string_view text) {
    number(text.size());
    sink_->update(std::as_bytes(std::span(text)));
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

 private:
  template <class Number>
  void little_endian(std::span<const Number> numbers) {
    if constexpr (std::endian::native == std::endian::little) {
      sink_->update(std::as_bytes(numbers));
    } else {
      for (const Number number : numbers) {
        for (std::size_t i = 0; i < sizeof(number); ++i) {
          const auto byte = static_cast<std::byte>(number >> (8 * i));
          sink_->update(std::span(&byte, 1));
        }
      }
    }
  }
  Sink* sink_;
};

template <class Sink>
void encode_root(const CacheIdentity& identity, Sink* sink) {
  KeyEncoder encoder(KeyRole::kRoot, sink);
  encoder.identity(identity);
}

template <class Sink>
void encode_block(const Digest& parent, std::span<const TokenId> tokens,
                  std::span<const ExtraId> extras, Sink* sink) {
  KeyEncoder encoder(KeyRole::kBlock, sink);
  encoder.digest(parent);
  encoder.tokens(tokens);
  encoder.extras(extras);
}

template <class Sink>
void encode_segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                    std::span<const ExtraId> extras, Sink* sink) {
  KeyEncoder encoder(KeyRole::kSegment, sink);
  encoder.identity(identity);
  encoder.tokens(tokens);
  encoder.extras(extras);
}

template <class Sink>
void encode_link(const Digest& parent, std::span<const TokenId> tail,
                 std::span<const ExtraId> extras, const Digest& segment,
                 std::uint64_t segment_tokens, std::int64_t delta, Sink* sink) {
  KeyEncoder encoder(KeyRole::kLink, sink);
  encoder.digest(parent);
  encoder.tokens(tail);
  encoder.extras(extras);
  encoder.digest(segment);
  encoder.number(segment_tokens);
  encoder.number(static_cast<std::uint64_t>(delta));
}

}  // namespace emblema::block_internal
