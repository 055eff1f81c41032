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

  // Of attention.
  std::optional<std::uint64_t> context_tokens;  // rows that a sequence's last query sees
  std::optional<std::uint64_t> query_tokens;    // over all sequences
  std::optional<double> cold_bytes;             // rotated over; 0 where the rows are warm
  std::optional<double> read_bytes_per_second;  // of a plain loop over the same pages
  std::string form;                             // of prefill: "absorbed" or "expanded"
  std::optional<double> tokens_per_second;      // of prefill
  std::optional<double> other_form_tokens_per_second;
};

struct Report {
  Machine machine;
  std::vector<Figure> figures;
  std::vector<std::string> notes;  // sentences: what was measured with what, and what was not
};

}  // namespace emblema::bench
