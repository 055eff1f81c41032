#include "emblema/report/table.h"

#include <sstream>

#include <gtest/gtest.h>

#include "emblema/report/text.h"
#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

Table ways() {
  Table table({{"way"}, {"physical", Align::kRight}, {"copies", Align::kRight}, {"note"}});
  table.add_row({"unshared", "52.50 MiB", "16", ""});
  table.add_row(
      {Cell("segment", Tone::kStrong), Cell("8.180 MiB", Tone::kGood), "1", "56.9× · 漢"});
  return table;
}

TEST(ReportTable, TextIsAligned) {
  EXPECT_EQ(ways().to_text(),
            "way        physical  copies  note\n"
            "────────  ─────────  ──────  ──────────\n"
            "unshared  52.50 MiB      16\n"
            "segment   8.180 MiB       1  56.9× · 漢\n");
}

TEST(ReportTable, ColourChangesNoWidth) {
  const std::string colored = ways().to_text({.color = true});
  EXPECT_NE(colored.find("\x1b[32m8.180 MiB\x1b[0m"), std::string::npos);
  std::string plain;
  for (std::size_t at = 0; at < colored.size(); ++at) {
    if (colored[at] == '\x1b') {
      at = colored.find('m', at);
    } else {
      plain += colored[at];
    }
  }
  EXPECT_EQ(plain, ways().to_text());
}

TEST(ReportTable, WideAndCombiningCharactersKeepColumnsStraight) {
  Table table({{"name"}, {"n", Align::kRight}});
  for (const char* name : {"plain", "漢字漢字", "e\u0301\u0301tude", "😀"})
    table.add_row({name, "1"});
  std::istringstream lines(table.to_text());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(width_columns(line), 11u) << line;
  }
}

TEST(ReportTable, ACellCannotSmuggleEscapesOrLines) {
  Table table({{"name"}});
  table.add_row({"evil\x1b[2J\nsecond line"});
  EXPECT_EQ(table.to_text(), "name\n────────────────────\nevil\uFFFD[2J second line\n");
}

TEST(ReportTable, HtmlSaysWhatHeadsWhat) {
  const XmlElement table = parse_xml(ways().to_html("Ways & <means>"));
  EXPECT_EQ(table.all("caption").at(0)->text, "Ways & <means>");
  const auto heads = table.all("th");
  ASSERT_EQ(heads.size(), 6u);  // four columns, two rows
  EXPECT_EQ(heads[1]->attributes.at("scope"), "col");
  EXPECT_TRUE(heads[1]->has_class("num"));
  EXPECT_EQ(heads[5]->attributes.at("scope"), "row");
  EXPECT_TRUE(heads[5]->has_class("strong"));
  const auto cells = table.all("td");
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_TRUE(cells[3]->has_class("num") && cells[3]->has_class("good"));
  EXPECT_EQ(cells[5]->text, "56.9× · 漢");
}

TEST(ReportTable, WithoutRowsItIsAHeaderAndARule) {
  const Table table({{"way"}, {"bytes", Align::kRight}});
  EXPECT_EQ(table.to_text(), "way  bytes\n───  ─────\n");
  EXPECT_EQ(parse_xml(table.to_html()).all("td").size(), 0u);
}

TEST(ReportTableDeathTest, ARowOfAnotherLengthIsAProgrammersError) {
  Table table({{"way"}, {"bytes"}});
  EXPECT_DEATH(table.add_row({"prefix"}), "one cell per column");
  EXPECT_DEATH(Table({}), "at least one column");
}

}  // namespace
}  // namespace emblema
