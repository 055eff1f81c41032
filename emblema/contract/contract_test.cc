#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/contract/ids.h"
#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"

namespace emblema {
namespace {

TEST(Bytes, ReadsBinaryAndDecimalUnitsExactly) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("40GiB").value(), 42'949'672'960u);
  EXPECT_EQ(parse_bytes("80GB").value(), 80'000'000'000u);
  EXPECT_EQ(parse_bytes("80 gb").value(), 80'000'000'000u);
  EXPECT_EQ(parse_bytes("1.5TiB").value(), 1'649'267'441'664u);
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("16383PiB").has_value(), false);
}

TEST(Bytes, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text : {"", "GiB", "-1", "1.5", "0.3B", "1e9", "12 parsecs", "1..5GiB",
                           "99999999999999999999", "18446744073709551615KiB", "1GiBGiB"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::Invalid);
    EXPECT_THAT(parsed.error().message, testing::HasSubstr(text));
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
  }
}

TEST(Bytes, ATokenCountKTellsBinaryFromDecimal) {
  EXPECT_EQ(parse_tokens("128k").value(), 131'072u);
  EXPECT_EQ(parse_tokens("128000").value(), 128'000u);
  EXPECT_EQ(parse_tokens("1M").value(), 1'048'576u);
  EXPECT_FALSE(parse_tokens("128kB"));
  EXPECT_FALSE(parse_tokens("k"));
}

TEST(Bytes, CheckedArithmeticNeverWraps) {
  EXPECT_EQ(checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, UINT64_MAX), 0u);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_add(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_THAT(mul_bytes(UINT64_C(1) << 40, UINT64_C(1) << 30, "sequences").error().message,
              testing::HasSubstr("sequences"));
}

TEST(Bytes, RoundingUpAtTheEdges) {
  EXPECT_EQ(ceil_div(0, 64), 0u);
  EXPECT_EQ(ceil_div(64, 64), 1u);
  EXPECT_EQ(ceil_div(65, 64), 2u);
  EXPECT_EQ(ceil_div(UINT64_MAX, 2), (UINT64_C(1) << 63));
  EXPECT_EQ(round_up(37'376, 576), 37'440u);
}

TEST(Bytes, ForPeople) {
  EXPECT_EQ(format_bytes(10'326'376'448), "9.617 GiB");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.000 KiB");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(70'272), "70,272");
  EXPECT_EQ(format_count(1'234'567), "1,234,567");
}

TEST(RationalNumber, StaysExactAndInLowestTerms) {
  const Rational hca = Rational::of(576, 128);
  EXPECT_EQ(hca, Rational::of(9, 2));
  EXPECT_EQ(hca.exact(), "4.5");
  EXPECT_EQ(Rational(70'272).exact(), "70272");
  EXPECT_EQ(Rational::of(1, 3).exact(), "1/3");
  EXPECT_EQ(Rational::of(80'503, 16).exact(), "5031.4375");
  EXPECT_EQ(add(Rational::of(1, 3), Rational::of(1, 6), "").value(), Rational::of(1, 2));
  EXPECT_EQ(multiply(Rational::of(9, 2), 30, "").value(), Rational(135));
  EXPECT_EQ(divide(Rational(32'768), 576, "").value(), Rational::of(512, 9));
}

TEST(RationalNumber, SaysWhatDidNotFit) {
  const auto product = multiply(UINT64_C(1) << 40, UINT64_C(1) << 40, "bytes of the pool");
  ASSERT_FALSE(product);
  EXPECT_THAT(product.error().message, testing::HasSubstr("bytes of the pool"));
  EXPECT_FALSE(add(UINT64_MAX, UINT64_MAX, "sum"));
  // A product that only fits once it is reduced is no error.
  EXPECT_EQ(multiply(Rational::of(UINT64_MAX, 7), Rational::of(7, UINT64_MAX), "").value(),
            Rational(1));
}

TEST(DigestValue, PrintsAndReadsItself) {
  Digest digest;
  digest.bytes[0] = 0xab;
  digest.bytes[31] = 0x01;
  Digest again;
  ASSERT_TRUE(Digest::parse_hex(digest.hex(), &again));
  EXPECT_EQ(digest, again);
  EXPECT_FALSE(Digest::parse_hex("ab", &again));
  EXPECT_FALSE(Digest::parse_hex(std::string(64, 'g'), &again));
  EXPECT_TRUE(Digest{}.is_none());
}

TEST(DigestValue, Sha256OfFips180) {
  const std::string abc = "abc";  // FIPS 180-2 appendix B.1
  EXPECT_EQ(sha256(std::as_bytes(std::span(abc))).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(CheckMacro, EndsTheProcessWithTheReason) {
  EXPECT_DEATH(EMBLEMA_CHECK(1 == 2, "one is two"), "one is two");
}

TEST(ErrorText, NamesItsCode) {
  EXPECT_EQ((Error{ErrorCode::OutOfBlocks, "pool is full"}.describe()),
            "OutOfBlocks: pool is full");
}

}  // namespace
}  // namespace emblema
