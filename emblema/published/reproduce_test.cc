#include "emblema/published/reproduce.h"

#include <array>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/published/reproduce_list.h"

namespace emblema {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<ReproducedFigure> figures() {
  const auto rows = reproduce_published_figures();
  EXPECT_TRUE(rows) << rows.error().describe();
  return rows.value_or(std::vector<ReproducedFigure>{});
}

// "quantity: printed" of what differs, of one document.
std::vector<std::string> differing(std::string_view document) {
  std::vector<std::string> found;
  for (const ReproducedFigure& row : figures()) {
    if (row.document != document || row.verdict != FigureVerdict::kDiffers) continue;
    found.push_back(row.quantity + ": " + row.as_printed);
  }
  return found;
}

// The first row with this quantity and print.
ReproducedFigure row_of(std::string_view quantity, std::string_view printed) {
  for (ReproducedFigure& row : figures()) {
    if (row.quantity == quantity && row.as_printed == printed) return row;
  }
  ADD_FAILURE() << "no row " << quantity << " " << printed;
  return {};
}

TEST(Reproduce, EveryFigureOfTheThreeDocuments) {
  const std::vector<ReproducedFigure> rows = figures();
  std::array<std::size_t, 4> verdicts{};
  for (const ReproducedFigure& row : rows) {
    ++verdicts.at(static_cast<std::size_t>(row.verdict));
    EXPECT_FALSE(row.section.empty() || row.quantity.empty() || row.formula.empty() ||
                 row.as_printed.empty() || row.exact.empty())
        << row.document << ": " << row.quantity;
  }
  EXPECT_EQ(rows.size(), 140u);
  const auto count = [&verdicts](FigureVerdict verdict) {
    return verdicts.at(static_cast<std::size_t>(verdict));
  };
  EXPECT_EQ(count(FigureVerdict::kEqual), 68u);
  EXPECT_EQ(count(FigureVerdict::kRounded), 29u);
  EXPECT_EQ(count(FigureVerdict::kHolds), 5u);
  EXPECT_EQ(count(FigureVerdict::kDiffers), 38u);
}

// The article divides rounded sizes, writes GB for GiB, and truncates 9/2 and 512/9.
TEST(Reproduce, SlipsOfTheBlockManagerArticleAreTheKnownOnes) {
  EXPECT_THAT(
      differing("block-manager article"),
      UnorderedElementsAre(
          "MHA in bf16, 8K: 30.5 GB", "MHA in bf16, 32K: 122.0 GB", "MHA in bf16, 128K: 488.0 GB",
          "MHA in bf16, 512K: 1.95 TB", "MHA in bf16, 1M: 3.90 TB", "MLA in bf16, 8K: 0.54 GB",
          "MLA in bf16, 32K: 2.17 GB", "MLA in bf16, 128K: 8.68 GB", "MLA in bf16, 512K: 34.72 GB",
          "MLA in bf16, 1M: 69.44 GB", "MLA in fp8, 8K: 0.30 GB", "MLA in fp8, 32K: 1.21 GB",
          "MLA in fp8, 128K: 4.84 GB", "MLA in fp8, 512K: 19.4 GB", "MLA in fp8, 1M: 38.7 GB",
          "MHA / MLA, 8K: 56.6 x", "MHA / MLA, 32K: 56.2 x", "MHA / MLA, 128K: 56.2 x",
          "MHA / MLA, 512K: 56.2 x", "MHA / MLA, 1M: 56.2 x", "MHA / MLA, title and text: 56x",
          "a 16-token block of MHA / of MLA: one fifty-sixth", "HCA per token and layer: 4 B",
          "MHA in bf16, 128K: 488 GB", "MLA in bf16, 128K: 8.68 GB"));
}

TEST(Reproduce, SlipsOfTheMathematicsAreTheKnownOnes) {
  EXPECT_THAT(differing("MLA mathematics"),
              UnorderedElementsAre("H100, FP16: 1,979 TFLOP/s", "H100, ridge: 590 FLOP/B",
                                   "R_t^T R_j, with quarter turns t = 1, j = 0: R_(t-j)",
                                   "layers of DeepSeek-V3: 60", "MHA, bytes per layer: 64.0 KB",
                                   "GQA, 8 groups, bytes per layer: 4.0 KB",
                                   "MLA, bytes per layer: 1.125 KB",
                                   "MHA, 128k as section 1 counts it: 503.32 GB",
                                   "saved (against MHA, as in section 7): approximately 93 %",
                                   "larger batches make decode attention: compute-bound"));
}

TEST(Reproduce, SlipsOfTheChapterAreTheKnownOnes) {
  EXPECT_THAT(differing("MHA to MLA chapter"),
              UnorderedElementsAre("GQA-8, 8k requests in 50 GiB per card, TP 8: 162",
                                   "twenty of 162: exactly one eighth",
                                   "saved, in cards: roughly one whole H100's worth"));
}

// Values from the documents' own formulas, worked by hand.
TEST(Reproduce, ExactValuesStandBesideThePrintedOnes) {
  const ReproducedFigure latents = row_of("MLA in bf16, 128K", "8.68 GB");
  EXPECT_THAT(latents.exact, HasSubstr("9,210,691,584 B"));
  EXPECT_THAT(latents.note, HasSubstr("8.578 GiB"));
  const ReproducedFigure fp8 = row_of("MLA in fp8, 128K", "4.84 GB");
  EXPECT_THAT(fp8.note, testing::AllOf(HasSubstr("4.766 GiB"), HasSubstr("4.885 GiB")));
  EXPECT_THAT(row_of("MHA in bf16, 128K", "488.0 GB").note, HasSubstr("right in GiB"));
  EXPECT_THAT(row_of("MHA in bf16, 512K", "1.95 TB").note, HasSubstr("right in thousands of GiB"));
  EXPECT_EQ(row_of("MHA / MLA, 128K", "56.2 x").exact, "512/9 ~ 56.889 x");
  EXPECT_EQ(row_of("HCA per token and layer", "4 B").exact, "4.5 B");
  EXPECT_EQ(row_of("saved, in bf16", "17.5 GiB").exact, "18,790,481,920 B = 17.5 GiB");
  EXPECT_EQ(row_of("real-valued crossover", "4.66 TP").exact, "2560/549 ~ 4.6630 TP");
  EXPECT_THAT(row_of("of the ridge", "82 %").exact, HasSubstr("81.86 %"));
  EXPECT_THAT(row_of("DeepSeek-V2 against DeepSeek 67B", "93.3 %").exact, HasSubstr("93.339 %"));
  EXPECT_EQ(row_of("GQA-8, 8k requests in 50 GiB per card, TP 8", "162").exact, "160");
}

TEST(Reproduce, DocumentsAreThoseThatRowsName) {
  std::set<std::string> named;
  for (const ReproducedFigure& row : figures()) named.insert(row.document);
  ASSERT_EQ(named.size(), published_documents().size());
  for (const PublishedDocument& document : published_documents()) {
    EXPECT_EQ(named.count(std::string(document.name)), 1u);
    EXPECT_FALSE(document.title.empty());
  }
}

TEST(Reproduce, AnswersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(reproduce_published_figures());
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken, std::chrono::seconds(2));  // 17 ms on an idle machine; sanitizers take longer
}

ReproducedFigure judged(const Claim& claim, const Rational& exact) {
  FigureList list("test");
  list.add(claim, exact);
  const auto rows = std::move(list).take();
  EXPECT_TRUE(rows && rows->size() == 1);
  return rows && !rows->empty() ? rows->front() : ReproducedFigure{};
}

TEST(Reproduce, AVerdictIsAsStrictAsTheClaim) {
  const Rational half = Rational::of(9, 2);
  EXPECT_EQ(judged({"s", "q", "f", "4.5"}, half).verdict, FigureVerdict::kEqual);
  EXPECT_EQ(judged({"s", "q", "f", "4"}, half).verdict, FigureVerdict::kRounded);
  EXPECT_EQ(judged({"s", "q", "f", "6"}, half).verdict, FigureVerdict::kDiffers);
  EXPECT_EQ(judged({"s", "q", "f", "4", "", "", "", ClaimKind::kExact}, half).verdict,
            FigureVerdict::kDiffers);
  EXPECT_EQ(judged({"s", "q", "f", "4", "", "", "", ClaimKind::kLeast}, half).verdict,
            FigureVerdict::kHolds);
  EXPECT_EQ(judged({"s", "q", "f", "5", "", "", "", ClaimKind::kLeast}, half).verdict,
            FigureVerdict::kDiffers);
  EXPECT_EQ(judged({"s", "q", "f", "1.0", "KB"}, 1024).verdict, FigureVerdict::kRounded);
  EXPECT_EQ(judged({"s", "q", "f", "1.00", "KB"}, 1024).note, "right in KiB");
}

TEST(Reproduce, AFailureEndsTheList) {
  FigureList list("test");
  list.add(Claim{"s", "q", "f", "1"}, fail(ErrorCode::NotFound, "no such model"));
  list.add(Claim{"s", "q", "f", "1"}, Rational(1));
  const auto rows = std::move(list).take();
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().message, "no such model");
  FigureList unreadable("test");
  unreadable.add(Claim{"s", "a quantity", "f", "one"}, Rational(1));
  EXPECT_THAT(std::move(unreadable).take().error().message, HasSubstr("a quantity is 'one'"));
}

}  // namespace
}  // namespace emblema
