// Collects figures of one document and judges each: parses what is printed, compares it with the
// exact value in the printed unit, and writes both (reproduce.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/plan/printed_number.h"
#include "emblema/published/reproduce.h"

namespace emblema {

// How a number is meant.
enum class ClaimKind : std::uint8_t {
  kFigure,  // rounded as far as it is printed
  kExact,   // said to be exact: a rounding is not enough
  kLeast,   // a lower bound: "over 93 %"
};

// What a document says of one number.
struct Claim {
  std::string_view section;
  std::string_view quantity;
  std::string_view formula;
  std::string_view number;   // "8.68"
  std::string_view unit{};   // "GB", "%", "x"; "" for a count
  std::string_view note{};   // of ours
  std::string_view words{};  // how it is printed where not as number and unit
  ClaimKind kind = ClaimKind::kFigure;
};

// A statement that is not one number; `exact` is what the library says instead.
struct Statement {
  std::string_view section;
  std::string_view quantity;
  std::string_view formula;
  std::string_view words;
  std::string_view note{};
};

class FigureList {
 public:
  explicit FigureList(std::string_view document) : document_(document) {}

  // `exact` in the unit's base: bytes, parts of 1, FLOP per second. The first failure is kept and
  // ends the list.
  void add(const Claim& claim, const Result<Rational>& exact);
  void add(const Statement& statement, const Result<std::string>& exact, FigureVerdict verdict);

  // Adds to the last row's note another reading of it: "with 656-byte rows 4.885 GiB".
  void also(std::string_view reading, const Result<Rational>& exact, std::string_view unit);

  Result<std::vector<ReproducedFigure>> take() &&;

 private:
  bool take_failure(const Result<Rational>& exact);

  std::string_view document_;
  std::vector<ReproducedFigure> rows_;
  Status status_{};
};

// One list per document.
Result<std::vector<ReproducedFigure>> block_manager_figures();
Result<std::vector<ReproducedFigure>> mathematics_figures();
Result<std::vector<ReproducedFigure>> chapter_figures();

inline constexpr std::string_view kBlockManagerArticle = "block-manager article";
inline constexpr std::string_view kMathematics = "MLA mathematics";
inline constexpr std::string_view kChapter = "MHA to MLA chapter";

}  // namespace emblema
