#include "emblema/report/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

TEST(ReportText, EscapesWhatMarkupIsMadeOf) {
  EXPECT_EQ(escape_markup("<script>alert('a & \"b\"')</script>"),
            "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;");
}

TEST(ReportText, ANameCannotDriveATerminal) {
  EXPECT_EQ(clean_text("\x1b[31mred\x07"), "\uFFFD[31mred\uFFFD");
  EXPECT_EQ(clean_text(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(clean_text("\u009b2J"), "\uFFFD2J");                  // the one-character form of ESC [
  EXPECT_EQ(clean_text("gpj\u202Egnp.exe"), "gpj\uFFFDgnp.exe");  // right-to-left override
  EXPECT_EQ(clean_text("two\nlines\tand\ra tab"), "two lines and a tab");
}

TEST(ReportText, BytesThatAreNotUtf8AreReplacedOneByOne) {
  EXPECT_EQ(clean_text("\xff"), "\uFFFD");
  EXPECT_EQ(clean_text("\xc3"), "\uFFFD");                                // cut short
  EXPECT_EQ(clean_text("\xc0\xaf"), "\uFFFD\uFFFD");                      // overlong '/'
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(clean_text("\xef\xbf\xbf"), "\uFFFD");                        // U+FFFF
  EXPECT_EQ(clean_text("é · × ✓ 漢 😀"), "é · × ✓ 漢 😀");
}

RC_GTEST_PROP(ReportText, AnyBytesComeOutCleanAndEscapable, (const std::string& bytes)) {
  const std::string clean = clean_text(bytes);
  RC_ASSERT(clean_text(clean) == clean);
  const std::string escaped = escape_markup(bytes);
  const std::string document = "<a b=\"" + escaped + "\">" + escaped + "</a>";
  XmlReader reader(document);
  const XmlElement element = reader.read();
  RC_ASSERT(reader.error() == "");
  RC_ASSERT(element.text == clean);
  RC_ASSERT(element.attributes.at("b") == clean);
}

TEST(ReportText, ColumnsOfATerminal) {
  EXPECT_EQ(width_columns(""), 0u);
  EXPECT_EQ(width_columns("tokens/s"), 8u);
  EXPECT_EQ(width_columns("56.9×"), 5u);
  EXPECT_EQ(width_columns("e\u0301"), 1u);  // e and a combining accent
  EXPECT_EQ(width_columns("漢字"), 4u);
  EXPECT_EQ(width_columns("😀"), 2u);
}

TEST(ReportText, WrappingKeepsEveryWordAndTheWidth) {
  const std::string text = "one document  read by sixteen agents";
  std::string joined;
  for (const std::string& line : wrap_text(text, 13, 100)) {
    EXPECT_LE(width_px(line, 13), 100);
    joined += (joined.empty() ? "" : " ") + line;
  }
  EXPECT_EQ(joined, "one document read by sixteen agents");
  EXPECT_EQ(wrap_text("", 13, 100), std::vector<std::string>{""});
  EXPECT_EQ(wrap_text("unbreakable-as-it-is", 13, 10).size(), 1u);
}

TEST(ReportText, WhatDoesNotFitEndsInAnEllipsis) {
  EXPECT_EQ(fit_text("short", 13, 100), "short");
  const std::string cut = fit_text("a-very-long-model-name-that-goes-on", 13, 100);
  EXPECT_LE(width_px(cut, 13), 100);
  EXPECT_TRUE(cut.starts_with("a-very-") && cut.ends_with("…")) << cut;
}

}  // namespace
}  // namespace emblema
