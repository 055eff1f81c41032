// Decimals as people write them: what a document printed, and what an option says. Exact: no
// figure passes through floating point.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"

namespace emblema {

struct PrintedNumber {
  Rational value;
  std::uint32_t places = 0;  // digits behind the point: "122.0" has 1
};

// Reads "590", "3,932,160", "98.24"; commas between digits of the whole part are skipped. `what`
// names the number in messages. Invalid: anything else, more than 18 digits.
Result<PrintedNumber> parse_printed(std::string_view what, std::string_view text);

// Whether rounding `exact` to as many places may give `printed`: they differ by at most half a unit
// of the last place. At exactly half both neighbours count, for documents round either way.
bool is_rounding_of(const PrintedNumber& printed, const Rational& exact);

// a <= b.
bool at_most(const Rational& a, const Rational& b);

// "241.78": rounded to `places` digits behind the point, halves up. REQUIRES: places <= 9.
std::string rounded_text(const Rational& number, std::uint32_t places);

}  // namespace emblema
