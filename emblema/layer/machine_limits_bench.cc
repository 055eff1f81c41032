#include "emblema/layer/machine_limits_bench.h"

#include <algorithm>

#include "emblema/kernels/peak_bench.h"

namespace emblema::bench {
namespace {

constexpr std::uint64_t kReadBytes = 256 * kMiB;  // of each round
constexpr double kLoopSeconds = 0.02;

std::uint64_t count_of(ThreadPool* threads) {
  return threads == nullptr ? 1 : threads->threads();
}

}  // namespace

Result<MachineLimits> MachineLimits::open(Isa isa, ThreadPool* threads) {
  if (const Status can = check_isa(isa); !can) return propagate(can);
  MachineLimits limits;
  limits.threads_ = threads;
  limits.fma_.isa = isa;
  if (const Status done = limits.calibrate(&limits.fma_); !done) return propagate(done);
  if (check_isa(Isa::kAmx)) {
    limits.tiles_.emplace().is_tiles = true;
    if (const Status done = limits.calibrate(&*limits.tiles_); !done) return propagate(done);
  }
  limits.prefers_tiles_ = isa == Isa::kAmx;
  return limits;
}

double MachineLimits::first_sight_flop_per_second() const {
  const PeakLoop& loop = prefers_tiles_ ? *tiles_ : fma_;
  return loop.flop / loop.first_seconds;
}

std::vector<Subject> MachineLimits::subjects(ConstByteSpan memory) {
  memory_ = memory;
  std::vector<Subject> subjects = {
      {"reading memory", [this]() -> Result<double> { return read(); }},
      {"multiply-adds", [this] { return run(fma_); }},
  };
  if (tiles_) subjects.push_back({"tile products", [this] { return run(*tiles_); }});
  return subjects;
}

void MachineLimits::set(const std::vector<double>& seconds, Machine* machine) const {
  machine->read_bytes_per_second = read_bytes_ / seconds[0];
  machine->fma_flop_per_second = fma_.flop / seconds[1];
  if (tiles_) machine->amx_flop_per_second = tiles_->flop / seconds[2];
}

Result<double> MachineLimits::run(PeakLoop& loop) const {
  const std::uint64_t parts = count_of(threads_);
  std::vector<Result<double>> flop(parts, 0.0);
  const double start = attention_seconds(threads_);
  run_parts(threads_, parts, [&](std::uint32_t, std::uint64_t part) {
    flop[part] = loop.is_tiles ? run_tile_loop(loop.steps) : run_fma_loop(loop.isa, loop.steps);
  });
  const double seconds = attention_seconds(threads_) - start;
  loop.flop = 0;
  for (const Result<double>& one : flop) {
    if (!one) return propagate(one);
    loop.flop += *one;
  }
  return seconds;
}

Status MachineLimits::calibrate(PeakLoop* loop) const {
  constexpr double kFirstSeconds = 0.004;
  loop->steps = 256;
  while (true) {
    const Result<double> seconds = run(*loop);
    if (!seconds) return propagate(seconds);
    loop->first_seconds = *seconds;
    if (*seconds >= kFirstSeconds) break;
    loop->steps *= 2;
  }
  const double flop_per_second = loop->flop / loop->first_seconds;
  const double factor = std::max(1.0, kLoopSeconds / loop->first_seconds);
  loop->steps = static_cast<std::uint64_t>(static_cast<double>(loop->steps) * factor);
  loop->flop *= factor;
  loop->first_seconds = loop->flop / flop_per_second;
  return {};
}

double MachineLimits::read() {
  const std::uint64_t size = std::min(kReadBytes, memory_.size());
  if (read_at_ + size > memory_.size()) read_at_ = 0;
  const ConstByteSpan part_of_memory = memory_.subspan(read_at_, size);
  read_at_ += size;
  read_bytes_ = static_cast<double>(size);
  const std::uint64_t parts = count_of(threads_);
  std::vector<std::uint64_t> sums(parts);
  const double start = attention_seconds(threads_);
  run_parts(threads_, parts, [&](std::uint32_t, std::uint64_t part) {
    const std::uint64_t first = size * part / parts;
    sums[part] = read_all(part_of_memory.subspan(first, size * (part + 1) / parts - first));
  });
  const double seconds = attention_seconds(threads_) - start;
  for (const std::uint64_t sum : sums) keep(sum);
  return seconds;
}

}  // namespace emblema::bench
