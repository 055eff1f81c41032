// A task's share of the next rows, asked for evenly between its products.
//
// In turn from several places, each in order: the hardware's own prefetcher then runs ahead of all
// of them (16 heads over latents: 11.4 to 12.0 GB/s, against 9.2 to 10.5 in plain order).
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

namespace emblema::amx_kernels {

class RowStreams {
 public:
  RowStreams(const RowPrefetch& share, std::uint64_t steps);
  void step() {
    for (std::uint32_t i = 0; i < per_step_; ++i) ask();
  }

 private:
  static constexpr std::uint32_t kStreams = 9;
  struct Stream {
    const std::byte* const* row = nullptr;
    std::uint32_t line = 0;
    std::uint32_t left = 0;
  };

  void ask() {
    Stream& stream = streams_[turn_];
    turn_ = turn_ + 1 == kStreams ? 0 : turn_ + 1;
    if (stream.left == 0) return;
    --stream.left;
    __builtin_prefetch(*stream.row + std::size_t{stream.line} * 64, 0, 2);
    if (++stream.line == row_lines_) {
      stream.line = 0;
      ++stream.row;
    }
  }

  std::uint32_t per_step_ = 0;
  std::uint32_t row_lines_;
  std::uint32_t turn_ = 0;
  Stream streams_[kStreams];
};

inline RowStreams::RowStreams(const RowPrefetch& share, std::uint64_t steps)
    : row_lines_(share.row_lines) {
  if (share.next >= share.end || steps == 0) return;
  const std::uint64_t lines = (share.end - share.next + kStreams - 1) / kStreams;
  std::uint64_t next = share.next;
  for (Stream& stream : streams_) {
    if (next >= share.end) break;
    stream.row = share.rows + next / share.row_lines;
    stream.line = static_cast<std::uint32_t>(next % share.row_lines);
    stream.left = static_cast<std::uint32_t>(std::min(lines, share.end - next));
    next += stream.left;
  }
  per_step_ = static_cast<std::uint32_t>((lines * kStreams + steps - 1) / steps);
}

}  // namespace emblema::amx_kernels
