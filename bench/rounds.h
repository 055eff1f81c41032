// How a benchmark measures: several subjects in turn, round after round, so that a machine that
// slows down for a while slows all of them; then the median of each.
//
// A subject runs once per round and says itself how many seconds of that count, so that what it
// prepares is left out. Nothing here is a test: a figure is compared with what the same machine
// could do at most, measured in the same rounds. One thread runs a plan; a subject may use more
// (run_threads).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema::bench {

// The middle value, or the mean of the two in the middle. REQUIRES: not empty.
double median(std::vector<double> values);

struct Subject {
  std::string name;
  std::function<Result<double>()> run;  // one round: the seconds that count
};

// Called before each run: what runs now, and how much of all is done (0 to 1).
using Progress = std::function<void(std::string_view step, double done)>;

// seconds[subject][round]. Every subject runs once untimed first, so that no round pays for cold
// code or first touches. The first failure ends it. REQUIRES: rounds > 0.
Result<std::vector<std::vector<double>>> run_rounds(const std::vector<Subject>& subjects,
                                                    std::uint32_t rounds, const Progress& progress);

// Seconds from some fixed moment; never goes back.
double now_seconds();

// Seconds of processor time that the calling thread has had: what others run meanwhile on a busy
// machine is left out.
double thread_seconds();

// Runs work(0) .. work(threads - 1), one thread each, started together; waits for all of them and
// gives back the seconds from the start to the last end. REQUIRES: threads > 0.
double run_threads(std::uint32_t threads, const std::function<void(std::uint32_t)>& work);

// Makes `value` count as used, so that what computes it is not optimised away.
void keep(std::uint64_t value);

}  // namespace emblema::bench
