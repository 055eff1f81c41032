// Two different inputs never give the same bytes: what was encoded can be read back, by a reader
// that was written from the description in block_key.h alone.
#include "emblema/block/key_encoding.h"

#include <tuple>
#include <variant>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace emblema {
namespace {

using KeyBytes = std::vector<std::byte>;

// Takes what a hash would take.
struct Memory {
  KeyBytes bytes;
  void update(std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
};

KeyBytes encode_root(const CacheIdentity& identity) {
  Memory memory;
  block_internal::encode_root(identity, &memory);
  return memory.bytes;
}
KeyBytes encode_block(const Digest& parent, std::span<const TokenId> tokens,
                      std::span<const ExtraId> extras) {
  Memory memory;
  block_internal::encode_block(parent, tokens, extras, &memory);
  return memory.bytes;
}
KeyBytes encode_segment(const CacheIdentity& identity, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras) {
  Memory memory;
  block_internal::encode_segment(identity, tokens, extras, &memory);
  return memory.bytes;
}

struct Root {
  CacheIdentity identity;
  friend bool operator==(const Root&, const Root&) = default;
};
struct Block {
  Digest parent;
  std::vector<TokenId> tokens;
  std::vector<ExtraId> extras;
  friend bool operator==(const Block&, const Block&) = default;
};
struct Span {
  CacheIdentity identity;
  std::vector<TokenId> tokens;
  std::vector<ExtraId> extras;
  friend bool operator==(const Span&, const Span&) = default;
};
struct Link {
  Digest parent;
  std::vector<TokenId> tail;
  std::vector<ExtraId> extras;
  Digest segment;
  std::uint64_t segment_tokens = 0;
  std::int64_t delta = 0;
  friend bool operator==(const Link&, const Link&) = default;
};
using Input = std::variant<Root, Block, Span, Link>;

KeyBytes encoded(const Input& input) {
  if (const auto* one = std::get_if<Root>(&input)) return encode_root(one->identity);
  if (const auto* one = std::get_if<Block>(&input)) {
    return encode_block(one->parent, one->tokens, one->extras);
  }
  if (const auto* one = std::get_if<Span>(&input)) {
    return encode_segment(one->identity, one->tokens, one->extras);
  }
  const auto& link = std::get<Link>(input);
  Memory memory;
  block_internal::encode_link(link.parent, link.tail, link.extras, link.segment,
                              link.segment_tokens, link.delta, &memory);
  return memory.bytes;
}

// ---- the reader --------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(const KeyBytes& bytes) : bytes_(bytes) {}

  std::uint64_t number(int width = 8) {
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= std::uint64_t{next()} << (8 * i);
    return value;
  }
  Digest digest() {
    Digest digest;
    for (std::uint8_t& byte : digest.bytes) byte = next();
    return digest;
  }
  std::string text() {
    std::string text(number(), '\0');
    for (char& c : text) c = static_cast<char>(next());
    return text;
  }
  std::vector<TokenId> tokens() {
    std::vector<TokenId> tokens(number());
    for (TokenId& token : tokens) token = static_cast<TokenId>(number(4));
    return tokens;
  }
  std::vector<ExtraId> extras() {
    std::vector<ExtraId> extras(number());
    for (ExtraId& extra : extras) {
      extra.offset = number();
      extra.digest = digest();
    }
    return extras;
  }
  CacheIdentity identity() {
    CacheIdentity identity;
    identity.geometry = digest();
    identity.weights = digest();
    identity.adapter = digest();
    identity.tenant = text();
    identity.salt = text();
    return identity;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::uint8_t next() { return std::to_integer<std::uint8_t>(bytes_.at(at_++)); }
  const KeyBytes& bytes_;
  std::size_t at_ = 0;
};

// A braced list is evaluated from left to right.
Input decoded(const KeyBytes& bytes) {
  Reader reader(bytes);
  Input input;
  switch (reader.number(1)) {
    case 1:
      input = Root{reader.identity()};
      break;
    case 2:
      input = Block{reader.digest(), reader.tokens(), reader.extras()};
      break;
    case 3:
      input = Span{reader.identity(), reader.tokens(), reader.extras()};
      break;
    case 4:
      input = Link{reader.digest(), reader.tokens(), reader.extras(),
                   reader.digest(), reader.number(), static_cast<std::int64_t>(reader.number())};
      break;
    default:
      ADD_FAILURE() << "an unknown role";
  }
  EXPECT_TRUE(reader.at_end()) << "bytes behind the last field";
  return input;
}

// ---- inputs ------------------------------------------------------------------------------------

// Few values of each, so that fields of one input are often bytes of another.
Digest some_digest() {
  Digest digest;
  digest.bytes[0] = *rc::gen::inRange<std::uint8_t>(0, 3);
  digest.bytes[31] = *rc::gen::inRange<std::uint8_t>(0, 3);
  return digest;
}
std::string some_text() {
  return *rc::gen::container<std::string>(rc::gen::element('\0', '\1', '\2', 'a'));
}
std::vector<TokenId> some_tokens() {
  return *rc::gen::container<std::vector<TokenId>>(
      rc::gen::element<TokenId>(0, 1, 2, 256, UINT32_MAX));
}
std::vector<ExtraId> some_extras() {
  std::vector<ExtraId> extras(*rc::gen::inRange<std::size_t>(0, 3));
  for (ExtraId& extra : extras) {
    extra = {*rc::gen::element<std::uint64_t>(0, 1, 3, UINT64_MAX), some_digest()};
  }
  return extras;
}
CacheIdentity some_identity() {
  return {some_digest(), some_digest(), some_digest(), some_text(), some_text()};
}
Input some_input() {
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return Root{some_identity()};
    case 1:
      return Block{some_digest(), some_tokens(), some_extras()};
    case 2:
      return Span{some_identity(), some_tokens(), some_extras()};
    default:
      return Link{some_digest(),
                  some_tokens(),
                  some_extras(),
                  some_digest(),
                  *rc::gen::element<std::uint64_t>(0, 1, 2, UINT64_MAX),
                  *rc::gen::element<std::int64_t>(0, 1, -1, INT64_MIN)};
  }
}

RC_GTEST_PROP(KeyEncoding, CanBeReadBack, ()) {
  const Input input = some_input();
  RC_ASSERT(decoded(encoded(input)) == input);
}

RC_GTEST_PROP(KeyEncoding, IsEqualOnlyForEqualInputs, ()) {
  const Input a = some_input();
  const Input b = *rc::gen::element(0, 1) == 0 ? some_input() : a;
  RC_ASSERT((encoded(a) == encoded(b)) == (a == b));
}

// Where a field ends must be told, or what stands in one could stand in the next.
TEST(KeyEncoding, BytesThatMoveToTheNextFieldAreAnotherInput) {
  const auto root = [](const char* tenant, const char* salt) {
    CacheIdentity identity;
    identity.tenant = tenant;
    identity.salt = salt;
    return encode_root(identity);
  };
  EXPECT_NE(root("ab", "c"), root("a", "bc"));
  EXPECT_NE(root("abc", ""), root("", "abc"));
  // A token list whose numbers are those of an extra id.
  std::vector<TokenId> tokens = {0, 0};
  tokens.resize(10, 0);
  const std::vector<ExtraId> one_extra(1);
  EXPECT_NE(encode_block({}, tokens, {}), encode_block({}, {}, one_extra));
  // The same fields in another role.
  EXPECT_NE(encode_segment({}, {}, {}), encode_root({}));
}

}  // namespace
}  // namespace emblema
