// The page and the pictures of a plan, taken apart again: they are well-formed, they say the plan's
// own figures, and they need nothing from outside.
#include "apps/cli/plan_report.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/report/text.h"
#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

using namespace literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Models and plans that pictures point to.
class Planned {
 public:
  PlanPicture add(const std::string& name, Deployment deployment) {
    auto model = load_model_config(name);
    EXPECT_TRUE(model) << model.error().describe();
    models_.push_back(std::move(*model));
    if (deployment.at_tokens.empty()) deployment.at_tokens = {1, 8192};
    const auto plan = plan_capacity(models_.back(), deployment);
    EXPECT_TRUE(plan) << name << ": " << plan.error().describe();
    plans_.push_back(*plan);
    return {&models_.back(), &plans_.back(), std::move(deployment), "The answer for " + name, {}};
  }

  ModelConfig& last_model() { return models_.back(); }
  CapacityPlan& last_plan() { return plans_.back(); }

 private:
  std::deque<ModelConfig> models_;  // whose elements stay where they are
  std::deque<CapacityPlan> plans_;
};

Deployment in_pool(std::uint64_t pool_bytes) {
  Deployment deployment;
  deployment.pool_bytes = pool_bytes;
  deployment.context_tokens = 8192;
  return deployment;
}

XmlElement page_of(const PlanPage& page) {
  const auto html = plan_html(page);
  EXPECT_TRUE(html) << html.error().describe();
  return parse_xml(html ? *html : "<html/>");
}

XmlElement svg_of(const PlanPage& page, PlanChart chart) {
  const auto svg = plan_svg(page, chart);
  EXPECT_TRUE(svg) << svg.error().describe();
  return parse_xml(svg ? *svg : "<svg/>");
}

std::vector<std::string> titles(const XmlElement& page) {
  std::vector<std::string> all;
  for (const XmlElement* caption : page.all("figcaption")) {
    all.push_back(caption->children.front().text);
  }
  return all;
}

std::vector<std::string> texts(const XmlElement& svg) {
  std::vector<std::string> all;
  for (const XmlElement* text : svg.all("text")) all.push_back(text->text);
  return all;
}

// 1000 TFLOP/s and 4 TB/s: the ridge is at 250 FLOP per byte.
RooflinePicture roof(std::vector<RooflinePicture::Point> points) {
  return {"a gpu", 1000e12, 4e12, std::move(points)};
}

TEST(PlanPage, SaysThePlansOwnFiguresExactly) {
  Planned planned;
  const XmlElement page =
      page_of({{planned.add("deepseek-v3", in_pool(40_GiB))}, false, "emblema plan deepseek-v3"});
  EXPECT_EQ(page.all("h1").at(0)->text, "deepseek-v3: what its cache takes");
  EXPECT_EQ(page.with_class("subtitle", "p").at(0)->text, "The answer for deepseek-v3");
  const std::string words = page.all_text();
  EXPECT_THAT(words, AllOf(HasSubstr("70,272 bytes"),       // 61 x 576 x 2
                           HasSubstr("575,668,224 bytes"),  // 8,192 of them
                           HasSubstr("42,949,672,960"),     // 40 GiB
                           HasSubstr("611,136"),            // tokens: 9,549 blocks of 64
                           HasSubstr("Made by: emblema plan deepseek-v3")));
  EXPECT_THAT(titles(page),
              ElementsAre("Bytes against context, by kind of layer", "How the pool is divided",
                          "Bytes per token on each GPU, against TP", "Tokens that fit, against TP",
                          "Sequences at once, against TP"));
}

TEST(PlanPage, IsWellFormedForEveryPresetWithAndWithoutAPool) {
  for (const Preset& preset : presets()) {
    Planned planned;
    const std::string name(preset.name);
    Deployment deployment = in_pool(64_GiB);
    deployment.sequences = 2;
    const XmlElement filled = page_of({{planned.add(name, deployment)}, true, "plan"});
    EXPECT_EQ(filled.all("figure").size(), 5u) << name;
    const XmlElement bare = page_of({{planned.add(name, {})}, false, "plan"});
    EXPECT_EQ(bare.all("figure").size(), 2u) << name;
    EXPECT_THAT(bare.all_text(), HasSubstr("pass --pool, or --gpu"));
  }
}

TEST(PlanPage, NeedsNothingFromOutside) {
  Planned planned;
  PlanPicture picture = planned.add("deepseek-v4-flash", in_pool(40_GiB));
  picture.roofline = roof({{"TP 1", 100}});
  std::string html = *plan_html({{picture}, true, "emblema plan"});
  const std::string name = "http://www.w3.org/2000/svg";
  for (std::size_t at = html.find(name); at != std::string::npos; at = html.find(name)) {
    html.erase(at, name.size());
  }
  for (const char* outside : {"http", "//", "url(", "@import", "<script", "<img", "href"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(PlanPage, ANameFromOutsideCannotBreakIt) {
  Planned planned;
  PlanPicture picture = planned.add("llama-3-8b", in_pool(8_GiB));
  planned.last_plan().model = "<script>\"&' \x1b[31m";
  picture.headline = "]]> <b>";
  const XmlElement page = page_of({{picture, picture}, false, "emblema plan '<x>' && rm"});
  EXPECT_EQ(page.all("script").size(), 0u);
  EXPECT_THAT(page.all_text(), HasSubstr("<script>\"&' "));
}

TEST(PlanPage, KeepsTheReasonOfEachRefusal) {
  Planned planned;
  const PlanPage page{{planned.add("llama-3.2-1b", {})}, false, ""};  // 32 query heads
  EXPECT_THAT(page_of(page).all_text(), HasSubstr("TP 64 is no answer: "));
}

TEST(PlanPage, SeveralModelsStandSideBySideWithALineEach) {
  Planned planned;
  const XmlElement page = page_of(
      {{planned.add("deepseek-v3", in_pool(40_GiB)), planned.add("llama-3-70b", in_pool(40_GiB))},
       false,
       "emblema plan deepseek-v3 llama-3-70b"});
  EXPECT_EQ(page.all("h1").at(0)->text, "What their caches take");
  EXPECT_THAT(titles(page),
              ElementsAre("Bytes against context", "Bytes per token on each GPU, against TP",
                          "Tokens that fit, against TP", "Sequences at once, against TP",
                          "Bytes against context, by kind of layer", "How the pool is divided",
                          "Bytes against context, by kind of layer", "How the pool is divided"));
  const XmlElement& tokens = *page.all("figure").at(2);
  EXPECT_THAT(texts(tokens), AllOf(Contains("deepseek-v3"), Contains("llama-3-70b")));
  EXPECT_THAT(tokens.all_text(),
              AllOf(HasSubstr("llama-3-70b, 4: 524,288"), HasSubstr("deepseek-v3, 4: 611,136"),
                    HasSubstr("llama-3-70b, 8: 1,048,576")));
}

TEST(PlanPage, SevenModelsAreStillAPage) {
  Planned planned;
  PlanPage page;
  for (int i = 0; i < 7; ++i) page.plans.push_back(planned.add("llama-3.2-1b", {}));
  EXPECT_THAT(page_of(page).all_text(), HasSubstr("The first 6 of 7 models are drawn."));
}

TEST(PlanChart, KindsThatMatterLeastShareAColour) {
  Planned planned;
  const XmlElement svg =
      svg_of({{planned.add("deepseek-v4-flash", {})}, false, ""}, PlanChart::kBytes);
  EXPECT_THAT(texts(svg), AllOf(Contains("CSA compressed"), Contains("index keys"),
                                Contains("together"), Contains("allocated")));
  // Six lines, each in the legend too.
  EXPECT_EQ(svg.with_class("em-line", "polyline").size(), 12u);
}

TEST(PlanChart, EachIsAPictureOnItsOwn) {
  Planned planned;
  PlanPicture picture = planned.add("gemma-3-27b", in_pool(20_GiB));
  picture.roofline = roof({{"TP 1", 2}});
  for (const PlanChart chart : {PlanChart::kBytes, PlanChart::kCapacity, PlanChart::kRoofline}) {
    const XmlElement svg = svg_of({{picture}, false, ""}, chart);
    EXPECT_EQ(svg.name, "svg");
    EXPECT_TRUE(svg.attributes.contains("viewBox"));
    EXPECT_EQ(svg.all("style").size(), 1u);
    EXPECT_NE(svg.children.front().text, "");
  }
}

TEST(PlanChart, WithoutAPoolCapacityIsBytesPerToken) {
  Planned planned;
  const XmlElement svg =
      svg_of({{planned.add("llama-3-70b", {})}, false, ""}, PlanChart::kCapacity);
  EXPECT_EQ(svg.children.front().text, "Bytes per token on each GPU, against TP");
}

TEST(PlanRoofline, PointsThatCoincideAreOneWithAllTheirNames) {
  Planned planned;
  PlanPicture heads = planned.add("llama-3-70b", {});
  heads.roofline = roof({{"TP 1", 8}, {"TP 2", 8}, {"TP 4", 8}});
  PlanPicture latents = planned.add("deepseek-v3", {});
  latents.roofline = roof({{"TP 1", 240}, {"TP 2", 120}, {"TP 4", 60}});
  const XmlElement svg = svg_of({{heads, latents}, false, ""}, PlanChart::kRoofline);
  EXPECT_THAT(texts(svg), AllOf(Contains("TP 1…4"), Contains("TP 1"), Contains("TP 2"),
                                Contains("ridge 250 FLOP per byte"),
                                Contains("roof of a gpu: 4 TB/s, 1 PFLOP/s")));
  // 60 FLOP per byte at 4 TB/s.
  EXPECT_THAT(svg.all("desc").at(0)->text, HasSubstr("240 TFLOP/s at 60 (TP 4)"));
}

// Seven numbers of ranks for two models on a phone: as many labels as there are.
TEST(PlanRoofline, LabelsOfTwoModelsDoNotCoverOneAnotherOnAPhone) {
  Planned planned;
  PlanPicture latents = planned.add("deepseek-v3", {});
  latents.roofline = roof({{"TP 1", 242},
                           {"TP 2", 121},
                           {"TP 4", 60.5},
                           {"TP 8", 30.2},
                           {"TP 16", 15.1},
                           {"TP 32", 7.6},
                           {"TP 64", 3.8}});
  PlanPicture heads = planned.add("llama-3-70b", {});
  heads.roofline =
      roof({{"TP 1", 8}, {"TP 2", 8}, {"TP 8", 8}, {"TP 16", 4}, {"TP 32", 2}, {"TP 64", 1}});
  const XmlElement page = page_of({{latents, heads}, false, ""});
  const XmlElement& chart = *page.all("figure").at(2)->with_class("narrow", "div").at(0);
  std::vector<const XmlElement*> labels = chart.with_class("em-halo", "text");
  ASSERT_EQ(labels.size(), 11u);
  const auto left = [](const XmlElement* text) {
    const auto anchor = text->attributes.find("text-anchor");
    const double width = width_px(text->text, text->number("font-size"));
    if (anchor == text->attributes.end()) return text->number("x");
    return text->number("x") - (anchor->second == "end" ? width : width / 2);
  };
  for (const XmlElement* a : labels) {
    for (const XmlElement* b : labels) {
      const bool is_beside = left(a) >= left(b) + width_px(b->text, 12.5) ||
                             left(b) >= left(a) + width_px(a->text, 12.5);
      const bool is_below = std::abs(a->number("y") - b->number("y")) > 11;
      EXPECT_TRUE(a == b || is_beside || is_below) << a->text << " covers " << b->text;
    }
  }
}

TEST(PlanRoofline, SaysWhatToPassWhereItIsMissing) {
  Planned planned;
  const PlanPage page{{planned.add("llama-3-8b", {})}, false, ""};
  EXPECT_THAT(page_of(page).all_text(), HasSubstr("pass --gpu, or --bandwidth and --flops"));
  const auto svg = plan_svg(page, PlanChart::kRoofline);
  ASSERT_FALSE(svg);
  EXPECT_THAT(svg.error().message, HasSubstr("allowed: with --gpu"));
}

TEST(PlanRoofline, RefusesFiguresThatHaveNoPlace) {
  Planned planned;
  PlanPicture picture = planned.add("llama-3-8b", {});
  PlanPicture other = picture;
  picture.roofline = roof({{"TP 1", 0}});
  EXPECT_THAT(plan_svg({{picture}, false, ""}, PlanChart::kRoofline).error().message,
              HasSubstr("roofline of llama-3-8b: a figure is 0"));
  picture.roofline = roof({{"TP 1", 1}});
  other.roofline = RooflinePicture{"b", 1e12, 1e12, {}};
  EXPECT_THAT(plan_svg({{picture, other}, false, ""}, PlanChart::kRoofline).error().message,
              HasSubstr("another GPU's"));
}

TEST(PlanMemory, EachStageOfAPipelineHasItsBar) {
  Planned planned;
  Deployment deployment = in_pool(20_GiB);
  deployment.parallel.tensor = 4;
  deployment.parallel.pipeline = 3;
  const XmlElement page = page_of({{planned.add("deepseek-v3", deployment)}, false, ""});
  const std::string bars = page.all("figure").at(1)->all_text();
  EXPECT_THAT(bars, AllOf(HasSubstr("pp0 tp0..3"), HasSubstr("pp1 tp0..3"), HasSubstr("pp2")));
  EXPECT_THAT(page.all_text(), AllOf(HasSubstr("TP 4, PP 3"), HasSubstr("rank that bounds")));
}

// Seven parts where six colours are: the last two share one.
TEST(PlanMemory, MorePartsThanColoursAreStillOneBar) {
  Planned planned;
  PlanPicture picture = planned.add("deepseek-v4-flash", in_pool(20_GiB));
  RankCapacity& rank = planned.last_plan().ranks.front();
  rank.weight_bytes = 50_GiB;
  GroupCapacity window;
  window.retention = Retention::kWindow;
  rank.groups.push_back(window);
  rank.pool->groups.push_back({.blocks = 1, .block_bytes = 4096, .block_tokens = 16});
  picture.deployment.hardware = Hardware{.name = "gpu", .memory_bytes = 80_GiB};
  const auto chart = memory_chart(picture);
  ASSERT_TRUE(chart) << chart.error().describe();
  const XmlElement svg = parse_xml(chart->to_svg());
  EXPECT_THAT(texts(svg), Contains("unused, kept for others"));
  EXPECT_THAT(texts(svg), Contains("weights"));
}

TEST(PlanMemory, PartsAddUpToThePoolOrTheWholeGpu) {
  for (const char* name : {"deepseek-v3", "gemma-3-27b", "deepseek-v4-flash", "falcon-h1-34b"}) {
    Planned planned;
    const PlanPicture picture = planned.add(name, in_pool(20_GiB));
    const auto sum = [](const std::vector<MemoryPart>& parts) {
      return std::accumulate(
          parts.begin(), parts.end(), std::uint64_t{0},
          [](std::uint64_t bytes, const MemoryPart& part) { return bytes + part.bytes; });
    };
    RankCapacity rank = picture.plan->ranks.front();
    rank.weight_bytes = 50_GiB;  // known, but not of which GPU
    EXPECT_EQ(sum(memory_parts(rank, picture.deployment)), 20_GiB) << name;
    Deployment on_gpu = picture.deployment;
    on_gpu.hardware = Hardware{.name = "gpu", .memory_bytes = 80_GiB};
    EXPECT_EQ(sum(memory_parts(rank, on_gpu)), 80_GiB) << name;
  }
}

}  // namespace
}  // namespace emblema
