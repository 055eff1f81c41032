// A few threads that wait for work: what a caller who wants more than its own thread opens once and
// hands to the calls that may use it. Nothing in the library opens one by itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

class ThreadPool {
 public:
  // `threads` counts the caller's own: 1 starts none. Invalid: 0, or more than kThreadsMax. Io:
  // the system gives no more threads.
  static Result<std::unique_ptr<ThreadPool>> open(std::uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr std::uint32_t kThreadsMax = 1024;
  std::uint32_t threads() const { return static_cast<std::uint32_t>(helpers_.size()) + 1; }

  // Calls work(worker, part) once for every part < parts, worker < threads(), and waits for all.
  // Parts are begun in order by whoever is free; the caller is worker 0. Takes nothing from the
  // heap. Calls from several threads take turns. REQUIRES: work does not throw, and does not call
  // run() of the same pool.
  template <class Work>
  void run(std::uint64_t parts, Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_erased(parts, const_cast<std::remove_const_t<Plain>*>(&work),
               [](void* what, std::uint32_t worker, std::uint64_t part) {
                 (*static_cast<Plain*>(what))(worker, part);
               });
  }

 private:
  using Call = void (*)(void* what, std::uint32_t worker, std::uint64_t part);

  ThreadPool() = default;
  void run_erased(std::uint64_t parts, void* what, Call call);
  void help(std::uint32_t worker);
  void take_parts(std::unique_lock<std::mutex>& lock, std::uint32_t worker);

  std::mutex turns_;  // held by the caller whose work runs
  std::mutex mutex_;  // guards what follows
  std::condition_variable begun_;
  std::condition_variable ended_;
  Call call_ = nullptr;
  void* what_ = nullptr;
  std::uint64_t parts_ = 0;
  std::uint64_t next_part_ = 0;
  std::uint64_t working_ = 0;  // parts begun and not ended
  bool closing_ = false;
  std::vector<std::thread> helpers_;
};

// `pool` may be null: the calling thread does all parts, in order.
template <class Work>
void run_parts(ThreadPool* pool, std::uint64_t parts, Work&& work) {
  if (pool != nullptr && parts > 1) {
    pool->run(parts, work);
    return;
  }
  for (std::uint64_t part = 0; part < parts; ++part) work(std::uint32_t{0}, part);
}

}  // namespace emblema
