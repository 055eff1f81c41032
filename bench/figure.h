// One measured figure, as `emblema bench` prints it: a line of the table, an element of "results".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/machine.h"

namespace emblema::bench {

struct Figure {
  std::string name;
  std::string isa;
  std::uint32_t threads = 1;
  double seconds = 0;  // median over the rounds, of what `name` says
  std::optional<double> flop_per_second;
  std::optional<double> bytes_per_second;
  std::optional<double> operations_per_second;         // of one thread
  std::optional<double> fraction_of_bound;             // of what `bound` names
  std::string bound;                                   // "" where none applies
  std::vector<std::pair<std::string, double>> versus;  // how many times another figure of this run
  // How long one hold of the metadata lock lasts; where it was looked at.
  std::optional<double> lock_held_p50_seconds;
  std::optional<double> lock_held_p99_seconds;
  std::optional<double> lock_held_max_seconds;
  std::optional<std::uint64_t> blocks;  // in the pool
};

struct Report {
  Machine machine;
  std::vector<Figure> figures;
};

}  // namespace emblema::bench
