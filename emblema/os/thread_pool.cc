#include "emblema/os/thread_pool.h"

#include <system_error>

#include <fmt/format.h>

namespace emblema {

Result<std::unique_ptr<ThreadPool>> ThreadPool::open(std::uint32_t threads) {
  if (threads == 0 || threads > kThreadsMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("threads is {}; allowed: 1 to {}", threads, kThreadsMax));
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  try {
    for (std::uint32_t worker = 1; worker < threads; ++worker) {
      pool->helpers_.emplace_back([raw = pool.get(), worker] { raw->help(worker); });
    }
  } catch (const std::system_error& error) {  // those that were started end with the pool
    return fail(ErrorCode::Io,
                fmt::format("threads is {}, and the system gives no more than {}: {}", threads,
                            pool->threads(), error.what()));
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::run_erased(std::uint64_t parts, void* what, Call call) {
  const std::lock_guard turn(turns_);
  std::unique_lock lock(mutex_);
  call_ = call;
  what_ = what;
  next_part_ = 0;
  parts_ = parts;
  begun_.notify_all();
  take_parts(lock, 0);
  ended_.wait(lock, [this] { return working_ == 0; });
}

void ThreadPool::help(std::uint32_t worker) {
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [this] { return closing_ || next_part_ < parts_; });
    if (closing_) return;
    take_parts(lock, worker);
  }
}

// Parts are thousands of microseconds of work: a lock for each is nothing.
void ThreadPool::take_parts(std::unique_lock<std::mutex>& lock, std::uint32_t worker) {
  while (next_part_ < parts_) {
    const std::uint64_t part = next_part_++;
    ++working_;
    const Call call = call_;
    void* const what = what_;
    lock.unlock();
    call(what, worker, part);
    lock.lock();
    --working_;
  }
  if (working_ == 0) ended_.notify_all();
}

}  // namespace emblema
