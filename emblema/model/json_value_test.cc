#include "emblema/model/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using testing::HasSubstr;

std::string problem_of(std::string_view text) {
  const auto parsed = parse_json_object(text);
  return parsed ? "none" : parsed.error().message;
}

TEST(JsonValue, ReadsEveryKindOfValue) {
  const auto root = parse_json_object(
      R"({"a": 7, "b": -3, "c": 2.5, "d": "x\ny", "e": true, "f": null, "g": [1, []], "h": {}})");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->find("a")->as_count(), 7u);
  EXPECT_EQ(root->find("b")->as_count(), std::nullopt);
  EXPECT_EQ(root->find("b")->describe(), "-3");
  EXPECT_DOUBLE_EQ(root->find("c")->real, 2.5);
  EXPECT_EQ(root->find("d")->text, "x\ny");
  EXPECT_TRUE(root->find("e")->boolean);
  EXPECT_EQ(root->find("f"), nullptr) << "null counts as absent";
  EXPECT_EQ(root->find("g")->items.size(), 2u);
  EXPECT_TRUE(root->find("h")->is_object());
  EXPECT_EQ(root->find("missing"), nullptr);
}

TEST(JsonValue, AWholeNumberMayBeSpelledWithAFraction) {
  const auto root = parse_json_object(
      R"({"a": 61.0, "b": 61.5, "c": 6.1e1, "d": 1e30, "e": 18446744073709551615, "f": -0.0})");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("a")->as_count(), 61u);
  EXPECT_EQ(root->find("b")->as_count(), std::nullopt);
  EXPECT_EQ(root->find("c")->as_count(), 61u);
  EXPECT_EQ(root->find("d")->as_count(), std::nullopt) << "past what a double holds exactly";
  EXPECT_EQ(root->find("e")->as_count(), UINT64_MAX);
  EXPECT_EQ(root->find("f")->as_count(), 0u);
}

TEST(JsonValue, TheNonStandardNumbersOfRealConfigsBecomeStrings) {
  const auto root = parse_json_object(
      R"({"limit": [0.0, Infinity], "low": -Infinity, "nan": NaN, "said": "a \" Infinity NaN"})");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->find("limit")->items[1].describe(), "\"Infinity\"");
  EXPECT_EQ(root->find("low")->describe(), "\"-Infinity\"");
  EXPECT_EQ(root->find("nan")->describe(), "\"NaN\"");
  EXPECT_EQ(root->find("said")->text, "a \" Infinity NaN") << "strings stay as they are";
  EXPECT_THAT(problem_of(R"({"a": Infinityx})"), HasSubstr("not JSON"));
  EXPECT_THAT(problem_of(R"({"a": 1Infinity})"), HasSubstr("not JSON"));
}

TEST(JsonValue, SkipsAByteOrderMarkOnlyInFront) {
  EXPECT_TRUE(parse_json_object("\xEF\xBB\xBF{\"a\": 1}"));
  EXPECT_FALSE(parse_json_object("\xEF\xBB{\"a\": 1}"));
  EXPECT_FALSE(parse_json_object("{\"a\": 1}\xEF\xBB\xBF"));
}

TEST(JsonValue, RefusesWhatIsNotOneObjectAndSaysWhere) {
  EXPECT_EQ(problem_of(""), "is empty; allowed: one JSON object");
  EXPECT_EQ(problem_of(" \n\t"), "is empty; allowed: one JSON object");
  EXPECT_THAT(problem_of("[1]"), HasSubstr("a list of 1 at its top level"));
  EXPECT_THAT(problem_of("7"), HasSubstr("7 at its top level"));
  EXPECT_THAT(problem_of("{\n \"a\": }"), HasSubstr("line 2, column 7"));
  for (const std::string_view text :
       {"{", "{} x", "{}{}", "{\"a\": 1,}", "{'a': 1}", "{\"a\": 01}", "{\"a\": \"\xFF\"}",
        "{\"a\": \"\n\"}", "nul", "{\"a\" 1}", "// c\n{}", "{\"a\": tru}"}) {
    const std::string problem = problem_of(text);
    EXPECT_THAT(problem, HasSubstr("not JSON at line ")) << text;
    EXPECT_EQ(problem.find('\n'), std::string::npos) << text;
    EXPECT_LT(problem.size(), 200u) << text;
  }
  EXPECT_THAT(problem_of(std::string("{\"a\": 1\0}", 9)), HasSubstr("not JSON"));
}

TEST(JsonValue, NamesTheMemberWhoseNumberIsNoDouble) {
  EXPECT_EQ(problem_of(R"({"layers": 1e999})"),
            "has 1e999 as layers at line 1, column 16; allowed: numbers up to 1.8e308");
  EXPECT_EQ(problem_of(R"({"heads": 8, "list": [1, -1e400]})"),
            "has -1e400 as list at line 1, column 31; allowed: numbers up to 1.8e308");
}

TEST(JsonValue, RefusesAKeyGivenTwice) {
  EXPECT_THAT(problem_of(R"({"heads": 8, "x": {"y": 1}, "heads": 16})"),
              HasSubstr("key \"heads\" is given twice"));
  EXPECT_TRUE(parse_json_object(R"({"a": {"x": 1}, "b": {"x": 2}})")) << "once per object";
}

TEST(JsonValue, NestingIsRefusedBeforeItCostsAnything) {
  const auto nested = [](std::size_t depth) {
    return "{\"a\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(parse_json_object(nested(32)));
  EXPECT_EQ(problem_of(nested(33)), "is nested deeper than 32 levels; allowed: 1 to 32");
  EXPECT_EQ(problem_of(nested(100'000)), "is nested deeper than 32 levels; allowed: 1 to 32");
  EXPECT_THAT(problem_of("{\"a\": " + std::string(100'000, '[')), HasSubstr("deeper than 32"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(problem_of(objects), HasSubstr("deeper than 32"));
}

TEST(JsonValue, TheNumberOfValuesIsBounded) {
  std::string list = "{\"a\": [0";
  for (std::uint64_t i = 0; i < JsonLimits::kValuesMax; ++i) list += ",0";
  EXPECT_THAT(problem_of(list + "]}"), HasSubstr("more than 1048576 values"));
}

TEST(JsonValue, MessagesStayShortAndOnOneLine) {
  const std::string shown = shortened("a\nb" + std::string(1000, 'c'));
  EXPECT_EQ(shown.size(), 43u);
  EXPECT_EQ(shown.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace emblema
