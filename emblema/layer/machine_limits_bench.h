// What this machine does at most, as subjects of the rounds: reading memory, fp32 multiply-adds,
// products of bf16 tiles. All threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/machine.h"
#include "bench/rounds.h"
#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/kernels/isa.h"
#include "emblema/os/thread_pool.h"

namespace emblema::bench {

// The clock of `emblema bench attention`: one thread's own time, or of several the wall's. Both
// give the same where nobody else runs.
inline double attention_seconds(const ThreadPool* threads) {
  return threads == nullptr ? thread_seconds() : now_seconds();
}

// One of the loops that only compute, and how long it is.
struct PeakLoop {
  Isa isa = Isa::kScalar;
  bool is_tiles = false;
  std::uint64_t steps = 0;
  double flop = 0;  // of all threads
  double first_seconds = 0;
};

class MachineLimits {
 public:
  // `threads` may be null: one. The loops are made long enough to time, which takes a moment.
  // Unsupported: the isa.
  static Result<MachineLimits> open(Isa isa, ThreadPool* threads);

  // Floating-point operations per second of the loop for kernels of the isa, at first sight.
  double first_sight_flop_per_second() const;

  // `memory` is read, a part of it in each round. Views this and `memory`.
  std::vector<Subject> subjects(ConstByteSpan memory);

  // `seconds`: of subjects(), each a median.
  void set(const std::vector<double>& seconds, Machine* machine) const;

 private:
  Result<double> run(PeakLoop& loop) const;
  Status calibrate(PeakLoop* loop) const;
  double read();

  ThreadPool* threads_ = nullptr;
  PeakLoop fma_;
  std::optional<PeakLoop> tiles_;
  bool prefers_tiles_ = false;
  ConstByteSpan memory_;
  std::uint64_t read_at_ = 0;
  double read_bytes_ = 0;
};

}  // namespace emblema::bench
