// How `emblema bench` shows its figures.
#pragma once

#include <string>

#include "bench/figure.h"

namespace emblema {

std::string bench_text(const bench::Report& report, bool color);
std::string bench_json(const bench::Report& report);

}  // namespace emblema
