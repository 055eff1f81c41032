// How long the metadata lock is held: a histogram that an owner may hand to a manager, and the
// mutex that fills it. Without one the mutex is a std::mutex that tries for a while before it
// sleeps, and one test of a pointer.
//
// Buckets are eighths of powers of two nanoseconds, so that a figure is at most an eighth too high.
// A hold counts from having the lock to giving it back, by the clock on the wall: what the
// operating system takes away in between counts too.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace emblema {

// Any thread may record and read; a reading beside recorders is as exact as a race can be.
class LockHolds {
 public:
  void start() { on_.store(true, std::memory_order_relaxed); }
  void stop() { on_.store(false, std::memory_order_relaxed); }
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

  void record(std::uint64_t nanoseconds) {
    counts_[bucket_of(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& one : counts_) sum += one.load(std::memory_order_relaxed);
    return sum;
  }

  // The upper end of the bucket below which `fraction` of all holds lie; 0 without any.
  std::uint64_t nanoseconds_at(double fraction) const {
    const double wanted = fraction * static_cast<double>(count());
    std::uint64_t below = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const std::uint64_t here = counts_[bucket].load(std::memory_order_relaxed);
      below += here;
      if (here > 0 && static_cast<double>(below) >= wanted) return end_of(bucket);
    }
    return 0;
  }

  void clear() {
    for (auto& one : counts_) one.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kBuckets = std::size_t{64} * 8;
  // 0 to 7 exactly; then three bits behind the leading one.
  static std::size_t bucket_of(std::uint64_t value) {
    if (value < 8) return value;
    const auto exponent = static_cast<std::size_t>(std::bit_width(value)) - 4;
    return (exponent + 1) * 8 + ((value >> exponent) & 7);
  }
  static std::uint64_t end_of(std::size_t bucket) {
    if (bucket < 8) return bucket;
    const std::size_t exponent = bucket / 8 - 1;
    return ((std::uint64_t{8} + bucket % 8 + 1) << exponent) - 1;
  }

  std::atomic<bool> on_{false};
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

// The manager's lock: for std::lock_guard.
class ObservedMutex {
 public:
  // REQUIRES: nobody has the lock; `holds` outlives it. Null: nothing is observed.
  void observe(LockHolds* holds) { holds_ = holds; }

  void lock() {
    // Most holds end within the time that going to sleep would take.
    constexpr int kTriesAwake = 100;
    bool locked = mutex_.try_lock();
    for (int i = 0; i < kTriesAwake && !locked; ++i) {
      spin_wait();
      locked = mutex_.try_lock();
    }
    if (!locked) mutex_.lock();
    observed_ = holds_ != nullptr && holds_->is_on();
    if (observed_) since_ = std::chrono::steady_clock::now();
  }
  void unlock() {
    if (!observed_) {
      mutex_.unlock();
      return;
    }
    const auto held = std::chrono::steady_clock::now() - since_;
    mutex_.unlock();
    holds_->record(static_cast<std::uint64_t>(held / std::chrono::nanoseconds(1)));
  }

 private:
  static void spin_wait() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mutex_;
  LockHolds* holds_ = nullptr;
  bool observed_ = false;                        // guarded by mutex_
  std::chrono::steady_clock::time_point since_;  // likewise
};

}  // namespace emblema
