#include "emblema/published/reproduce_list.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

constexpr std::uint32_t kPlacesMax = 6;

struct Unit {
  std::string_view name;
  std::uint64_t numerator = 1;  // of one unit in its base
  std::uint64_t denominator = 1;
  std::string_view base{};  // "B": written before the unit's own figure
  std::string_view twin{};  // what people write `name` for
};

constexpr std::uint64_t kGiga = 1'000'000'000;
constexpr std::string_view kThousandGiB = "thousand GiB";  // between TB and TiB, and neither

constexpr std::array kUnits = {
    Unit{"B", 1, 1},
    Unit{"KB", 1'000, 1, "B", "KiB"},
    Unit{"MB", 1'000'000, 1, "B", "MiB"},
    Unit{"GB", kGiga, 1, "B", "GiB"},
    Unit{"TB", 1'000 * kGiga, 1, "B", kThousandGiB},
    Unit{"KiB", kKiB, 1, "B"},
    Unit{"MiB", kMiB, 1, "B"},
    Unit{"GiB", kGiB, 1, "B"},
    Unit{kThousandGiB, 1'000 * kGiB, 1, "B"},
    Unit{"%", 1, 100},
    Unit{"million", 1'000'000, 1},
    Unit{"billion", kGiga, 1},
    Unit{"TFLOP/s", 1'000 * kGiga, 1},
    Unit{"TB/s", 1'000 * kGiga, 1},
};

// One of the table, or a unit that is its own base ("x", "FLOP/B", "").
Unit unit_named(std::string_view name) {
  const auto* const known = std::find_if(kUnits.begin(), kUnits.end(),
                                         [name](const Unit& unit) { return unit.name == name; });
  return known != kUnits.end() ? *known : Unit{name};
}

Result<Rational> in_unit(const Rational& exact, const Unit& unit) {
  return divide(exact, Rational::of(unit.numerator, unit.denominator), "a figure in its unit");
}

std::string with_unit(std::string number, std::string_view unit) {
  if (unit.empty()) return number;
  return std::move(number) + " " + std::string(unit);
}

struct Written {
  std::string text;
  bool is_exact = true;
};

// At most `places` digits behind the point.
Written written(const Rational& number, std::uint32_t places) {
  if (number.is_whole()) return {format_count(number.numerator())};
  const std::string decimal = number.exact();
  const std::size_t point = decimal.find('.');
  if (point != std::string::npos && decimal.size() - point - 1 <= places) return {decimal};
  return {rounded_text(number, places), false};
}

// "9,210,691,584 B ~ 9.2107 GB", "512/9 ~ 56.89 x", "71.875 %".
std::string exact_text(const Rational& exact, const Rational& value, const Unit& unit,
                       std::uint32_t places) {
  const Written shown = written(value, std::min(places + 2, kPlacesMax));
  std::string text = with_unit(shown.text, unit.name);
  std::string whole;
  if (!unit.base.empty()) {
    whole =
        with_unit(exact.is_whole() ? format_count(exact.numerator()) : exact.exact(), unit.base);
  } else if (!shown.is_exact) {
    whole = fmt::format("{}/{}", exact.numerator(), exact.denominator());
    if (exact.is_whole()) whole = format_count(exact.numerator());
  }
  if (whole.empty()) return text;
  return fmt::format("{} {} {}", whole, shown.is_exact ? "=" : "~", text);
}

FigureVerdict judged(const PrintedNumber& printed, const Rational& value, ClaimKind kind) {
  if (kind == ClaimKind::kLeast)
    return at_most(printed.value, value) ? FigureVerdict::kHolds : FigureVerdict::kDiffers;
  if (printed.value == value) return FigureVerdict::kEqual;
  if (kind == ClaimKind::kExact) return FigureVerdict::kDiffers;
  return is_rounding_of(printed, value) ? FigureVerdict::kRounded : FigureVerdict::kDiffers;
}

// "right in GiB", "" where the twin does not help either.
std::string twin_note(const PrintedNumber& printed, const Rational& exact, const Unit& unit) {
  if (unit.twin.empty()) return {};
  const auto value = in_unit(exact, unit_named(unit.twin));
  if (!value || judged(printed, *value, ClaimKind::kFigure) == FigureVerdict::kDiffers) return {};
  return fmt::format("right in {}", unit.twin == kThousandGiB ? "thousands of GiB" : unit.twin);
}

void append(std::string* note, std::string_view more) {
  if (more.empty()) return;
  if (!note->empty()) *note += "; ";
  *note += more;
}

}  // namespace

bool FigureList::take_failure(const Result<Rational>& exact) {
  if (status_ && !exact) status_ = propagate(exact);
  return !status_;
}

void FigureList::add(const Claim& claim, const Result<Rational>& exact) {
  if (take_failure(exact)) return;
  const auto printed = parse_printed(claim.quantity, claim.number);
  const Unit unit = unit_named(claim.unit);
  const auto value = in_unit(*exact, unit);
  if (!printed || !value) {
    status_ = printed ? propagate(value) : propagate(printed);
    return;
  }
  ReproducedFigure row;
  row.document = document_;
  row.section = claim.section;
  row.quantity = claim.quantity;
  row.formula = claim.formula;
  row.as_printed = claim.words.empty() ? with_unit(std::string(claim.number), claim.unit)
                                       : std::string(claim.words);
  row.exact = exact_text(*exact, *value, unit, printed->places);
  row.verdict = judged(*printed, *value, claim.kind);
  if (row.verdict == FigureVerdict::kDiffers) row.note = twin_note(*printed, *exact, unit);
  append(&row.note, claim.note);
  rows_.push_back(std::move(row));
}

void FigureList::add(const Statement& statement, const Result<std::string>& exact,
                     FigureVerdict verdict) {
  if (status_ && !exact) status_ = propagate(exact);
  if (!status_) return;
  rows_.push_back({std::string(document_), std::string(statement.section),
                   std::string(statement.quantity), std::string(statement.formula),
                   std::string(statement.words), *exact, verdict, std::string(statement.note)});
}

void FigureList::also(std::string_view reading, const Result<Rational>& exact,
                      std::string_view unit) {
  if (take_failure(exact)) return;
  const auto value = in_unit(*exact, unit_named(unit));
  if (!value || rows_.empty()) return;
  append(&rows_.back().note,
         fmt::format("{} {}", reading, with_unit(written(*value, 3).text, unit)));
}

Result<std::vector<ReproducedFigure>> FigureList::take() && {
  if (!status_) return propagate(status_);
  return std::move(rows_);
}

}  // namespace emblema
