// A task's share of the next rows, asked for evenly between its products.
//
// In turn from several places, each in order: the hardware's own prefetcher then runs ahead of all
// of them.
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
  if (share.left == 0 || steps == 0) return;
  const std::uint64_t lines = (share.left + kStreams - 1) / kStreams;
  RowPrefetch rest = share;
  for (Stream& stream : streams_) {
    const RowPrefetch part = rest.take(lines);
    stream.row = part.rows + part.row;
    stream.line = part.line;
    stream.left = static_cast<std::uint32_t>(part.left);
  }
  per_step_ = static_cast<std::uint32_t>((lines * kStreams + steps - 1) / steps);
}

}  // namespace emblema::amx_kernels
