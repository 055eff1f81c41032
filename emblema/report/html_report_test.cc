#include "emblema/report/html_report.h"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

constexpr const char* kHostile = "</style><script src=\"x\">&'\x01\xff";

HtmlReport full_page(const std::string& text) {
  HtmlReport page({.title = text, .subtitle = text});
  page.set_verdict(false, text);
  page.add_key_figures(std::vector<KeyFigure>{{"1 copy", text, text}, {text, "no note"}});
  page.add_section(text);
  page.add_paragraph(text);
  Table table({{text}, {"bytes", Align::kRight}});
  table.add_row({text, Cell("8,577,024", Tone::kGood)});
  page.add_table(table, text);
  page.add_table(table);
  page.add_section("Charts");
  page.add_chart(*BarChart::of({.title = text,
                                .note = text,
                                .unit = Unit::kBytes,
                                .categories = {text, "b"},
                                .series = {{text, {1, 2}}, {"t", {2, 4}}}}));
  page.add_chart(*LineChart::of({.title = text, .series = {{text, {{1, 1}, {2, 4}}}}}));
  page.add_checks(std::vector<ReportCheck>{{text, true, text, text}, {"second", false, "7"}});
  page.add_facts(std::vector<Fact>{{text, text}});
  page.add_code(text + "\n  second line");
  page.set_footer(text);
  return page;
}

void for_each_element(const XmlElement& element, const auto& visit) {
  visit(element);
  for (const XmlElement& child : element.children) for_each_element(child, visit);
}

TEST(HtmlReport, IsWellFormedWhateverTextItIsGiven) {
  for (const std::string text : {"plain", kHostile, "", "]]>", "<!--", "漢字 😀"}) {
    const std::string html = full_page(text).to_html();
    EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">")) << text;
    const XmlElement root = parse_xml(html);
    EXPECT_EQ(root.all("script").size(), 0u);
    EXPECT_EQ(root.all("style").size(), 1u);
    EXPECT_EQ(root.all("section").size(), 2u);
  }
}

TEST(HtmlReport, AnEmptyPageIsStillAPage) {
  HtmlReport page({.title = "Nothing yet"});
  page.add_key_figures({});
  page.add_checks({});
  page.add_facts({});
  const XmlElement root = parse_xml(page.to_html());
  EXPECT_EQ(root.all("h1").at(0)->text, "Nothing yet");
  EXPECT_EQ(root.all("main").at(0)->children.size(), 0u);
}

TEST(HtmlReport, NeedsNoNetworkAndNoScript) {
  std::string html = full_page("plain").to_html();
  const std::string name = "http://www.w3.org/2000/svg";
  for (std::size_t at = html.find(name); at != std::string::npos; at = html.find(name)) {
    html.erase(at, name.size());
  }
  for (const char* outside : {"http", "//", "url(", "@import", "javascript"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  for_each_element(parse_xml(full_page("plain").to_html()), [](const XmlElement& element) {
    for (const char* fetching :
         {"script", "link", "img", "iframe", "object", "use", "image", "a"}) {
      EXPECT_NE(element.name, fetching);
    }
    for (const auto& [attribute, value] : element.attributes) {
      EXPECT_FALSE(attribute.starts_with("on") || attribute == "src" || attribute == "href");
    }
  });
}

TEST(HtmlReport, FitsAPhone) {
  const XmlElement root = parse_xml(full_page("plain").to_html());
  bool has_viewport = false;
  for (const XmlElement* meta : root.all("meta")) {
    const auto name = meta->attributes.find("name");
    if (name == meta->attributes.end() || name->second != "viewport") continue;
    has_viewport = true;
    EXPECT_EQ(meta->attributes.at("content"), "width=device-width, initial-scale=1");
  }
  EXPECT_TRUE(has_viewport);
  // A table scrolls in a box of its own, which the keyboard reaches too.
  const auto boxes = root.with_class("scroll", "div");
  ASSERT_EQ(boxes.size(), 2u);
  for (const XmlElement* box : boxes) {
    EXPECT_EQ(box->children.at(0).name, "table");
    EXPECT_EQ(box->attributes.at("tabindex"), "0");
  }
  // A chart is there twice, and the one for a phone has text of 12 px and more at its own width.
  const auto figures = root.all("figure");
  ASSERT_EQ(figures.size(), 2u);
  for (const XmlElement* figure : figures) {
    EXPECT_EQ(figure->with_class("wide", "div").size(), 1u);
    const XmlElement& phone = figure->with_class("narrow", "div").at(0)->children.at(0);
    EXPECT_THAT(phone.attributes.at("viewBox"), testing::StartsWith("0 0 340 "));
    for (const XmlElement* text : phone.all("text")) EXPECT_GE(text->number("font-size"), 12);
  }
}

TEST(HtmlReport, AFailedCheckIsSaidInWords) {
  const XmlElement root = parse_xml(full_page("no collision").to_html());
  const auto items = root.all("li");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]->all_text(), "✓passed: no collisionno collision (allowed: no collision)");
  EXPECT_EQ(items[1]->all_text(), "✗failed: second7");
  const auto verdict = root.with_class("verdict", "p");
  ASSERT_EQ(verdict.size(), 1u);
  EXPECT_TRUE(verdict[0]->has_class("fail"));
}

TEST(HtmlReport, CodeKeepsItsLines) {
  const XmlElement root = parse_xml(full_page("emblema run").to_html());
  EXPECT_EQ(root.all("pre").at(0)->text, "emblema run\n  second line");
}

TEST(HtmlReport, EveryClassUsedHasAStyle) {
  const XmlElement root = parse_xml(full_page("plain").to_html());
  const std::string& css = root.all("style").at(0)->text;
  for_each_element(root, [&](const XmlElement& element) {
    const auto classes = element.attributes.find("class");
    if (classes == element.attributes.end()) return;
    std::istringstream names(classes->second);
    for (std::string name; names >> name;) {
      if (name == "em-bar") continue;  // for tests and tools: a bar looks like its series
      EXPECT_NE(css.find("." + name), std::string::npos) << name;
    }
  });
}

TEST(HtmlReport, TheSameCallsGiveTheSameBytes) {
  EXPECT_EQ(full_page("again").to_html(), full_page("again").to_html());
}

}  // namespace
}  // namespace emblema
