#include "bench/rounds.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <thread>

#include "emblema/contract/check.h"

namespace emblema::bench {

double median(std::vector<double> values) {
  EMBLEMA_CHECK(!values.empty(), "a median of at least one value");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

Result<std::vector<std::vector<double>>> run_rounds(const std::vector<Subject>& subjects,
                                                    std::uint32_t rounds,
                                                    const Progress& progress) {
  EMBLEMA_CHECK(rounds > 0, "at least one round");
  std::vector<std::vector<double>> seconds(subjects.size());
  const double runs = static_cast<double>(subjects.size()) * (rounds + 1.0);
  double done = 0;
  for (std::uint32_t round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (progress) progress(subjects[i].name, done++ / runs);
      const Result<double> one = subjects[i].run();
      if (!one) return propagate(one);
      if (round > 0) seconds[i].push_back(*one);  // round 0 is the untimed one
    }
  }
  return seconds;
}

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double run_threads(std::uint32_t threads, const std::function<void(std::uint32_t)>& work) {
  EMBLEMA_CHECK(threads > 0, "at least one thread");
  if (threads == 1) {
    const double start = now_seconds();
    work(0);
    return now_seconds() - start;
  }
  std::vector<std::thread> running;
  running.reserve(threads);
  std::barrier together(threads + 1);
  for (std::uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      together.arrive_and_wait();
      work(i);
    });
  }
  const double start = now_seconds();
  together.arrive_and_wait();
  for (std::thread& one : running) one.join();
  return now_seconds() - start;
}

void keep(std::uint64_t value) {
  static std::atomic<std::uint64_t> sink{0};
  sink.store(value, std::memory_order_relaxed);
}

}  // namespace emblema::bench
