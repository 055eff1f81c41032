// Fuzz target: the encoding of keys. Any bytes are read as two sets of fields, often near each
// other; equal fields must give equal keys, and different ones different keys.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emblema/block/block_key.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

// 0 where the input has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  // Small ones most of the time; each byte of a large one may be set.
  std::uint64_t number() {
    const std::uint8_t first = byte();
    if (first < 0xf0) return first;
    std::uint64_t value = byte();
    value |= std::uint64_t{byte()} << 8U * (first % 8U);
    return value;
  }
  Digest digest() {
    Digest digest;
    const std::uint8_t where = byte();
    if (where < 0x80) return digest;  // none given
    digest.bytes[where % digest.bytes.size()] = byte();
    return digest;
  }
  std::string text() {
    std::string text(byte() % 6, '\0');
    for (char& c : text) c = static_cast<char>(byte());
    return text;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

enum class Kind : std::uint8_t { kRoot, kBlock, kSegment, kLink };

// What a key is made of; fields that its kind has not are empty, so that == compares what counts.
struct Fields {
  Kind kind = Kind::kRoot;
  CacheIdentity identity;  // root, segment
  Digest parent;           // block, link
  std::vector<TokenId> tokens;
  std::vector<ExtraId> extras;
  Digest segment;  // link
  std::uint64_t segment_tokens = 0;
  std::int64_t delta = 0;

  bool operator==(const Fields&) const = default;
};

std::vector<TokenId> read_tokens(Input& input) {
  std::vector<TokenId> tokens(input.byte() % 8);
  for (TokenId& token : tokens) token = static_cast<TokenId>(input.number());
  return tokens;
}

std::vector<ExtraId> read_extras(Input& input) {
  std::vector<ExtraId> extras(input.byte() % 3);
  for (ExtraId& extra : extras) extra = {input.number(), input.digest()};
  return extras;
}

Fields read_fields(Input& input) {
  Fields fields;
  fields.kind = static_cast<Kind>(input.byte() % 4);
  const bool has_identity = fields.kind == Kind::kRoot || fields.kind == Kind::kSegment;
  if (has_identity) {
    fields.identity = {input.digest(), input.digest(), input.digest(), input.text(), input.text()};
  } else {
    fields.parent = input.digest();
  }
  if (fields.kind == Kind::kRoot) return fields;
  fields.tokens = read_tokens(input);
  fields.extras = read_extras(input);
  if (fields.kind != Kind::kLink) return fields;
  fields.segment = input.digest();
  fields.segment_tokens = input.number();
  fields.delta = static_cast<std::int64_t>(input.number());
  return fields;
}

// Moves what stands at the border of two fields from one to the other: where an encoding without
// lengths would go wrong.
void shift_border(Fields& fields, std::uint8_t which) {
  CacheIdentity& identity = fields.identity;
  switch (which % 5) {
    case 0:
      if (identity.tenant.empty()) return;
      identity.salt.insert(identity.salt.begin(), identity.tenant.back());
      identity.tenant.pop_back();
      return;
    case 1:
      if (identity.salt.empty()) return;
      identity.tenant.push_back(identity.salt.front());
      identity.salt.erase(identity.salt.begin());
      return;
    case 2:
      std::swap(identity.weights, identity.adapter);
      return;
    case 3:
      if (fields.tokens.empty()) return;
      if (fields.extras.empty()) {
        fields.tokens.pop_back();
      } else {
        fields.extras.front().offset = fields.tokens.back();
      }
      return;
    default:
      if (fields.kind == Kind::kLink) std::swap(fields.parent, fields.segment);
  }
}

Digest key_of(const BlockKeys& keys, const Fields& fields) {
  switch (fields.kind) {
    case Kind::kRoot:
      return keys.root(fields.identity);
    case Kind::kBlock:
      return keys.block(fields.parent, fields.tokens, fields.extras);
    case Kind::kSegment:
      return keys.segment(fields.identity, fields.tokens, fields.extras);
    case Kind::kLink:
      return keys.link(fields.parent, fields.tokens, fields.extras, fields.segment,
                       fields.segment_tokens, fields.delta);
  }
  return {};
}

// A key cut to so many bits is the whole one with the other bits 0.
void check_cut(const Fields& fields, unsigned bits) {
  Digest expected = key_of(BlockKeys(), fields);
  for (unsigned bit = 0; bit < 256; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8U));
    std::uint8_t& byte = expected.bytes[bit / 8U];
    if (bit >= bits) byte = static_cast<std::uint8_t>(byte & ~mask);
  }
  EMBLEMA_CHECK(key_of(BlockKeys(bits), fields) == expected, "a cut key keeps its first bits");
}

void check_keys(std::span<const std::uint8_t> bytes) {
  Input input(bytes);
  const std::uint8_t how = input.byte();
  const Fields one = read_fields(input);
  Fields other = how % 2 == 0 ? one : read_fields(input);
  for (std::uint8_t shifts = how / 2 % 4; shifts > 0; --shifts) shift_border(other, input.byte());
  const BlockKeys keys;
  const bool same_key = key_of(keys, one) == key_of(keys, other);
  EMBLEMA_CHECK(same_key == (one == other), "keys are equal where all their fields are");
  check_cut(one, how);
}

}  // namespace
}  // namespace emblema

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  emblema::check_keys({data, size});
  return 0;
}
