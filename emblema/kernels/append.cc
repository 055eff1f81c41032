#include "emblema/kernels/append.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emblema/kernels/check_rows.h"
#include "emblema/kernels/driver/row_writer.h"
#include "emblema/layout/rotation.h"

namespace emblema {
namespace {

constexpr std::uint32_t kPairsMax = AttentionLimits::kHeadWidthMax / 2;

std::uint32_t pairs_of(const AppendInputs& inputs) {
  return inputs.rotate == nullptr ? 0 : inputs.rotate->rotary_dim() / 2;
}

bool has_angles(const AppendInputs& inputs) {
  return !inputs.cosines.empty() || !inputs.sines.empty();
}

template <class T>
Status check_memory(std::string_view field, std::span<const T> memory) {
  if (memory.data() != nullptr || memory.empty()) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} is null with {} numbers; allowed: the address of so many", field,
                          memory.size()));
}

template <class T>
Status check_count(std::string_view field, std::span<const T> memory, std::uint64_t rows,
                   std::uint64_t each) {
  if (auto s = check_memory(field, memory); !s) return s;
  const std::uint64_t size = memory.size();
  if (size / each == rows && size % each == 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("size of {} is {}; allowed: {} rows x {}", field, size, rows, each));
}

Status check_angles(const AppendInputs& inputs, std::uint64_t rows) {
  if (inputs.rotate == nullptr && has_angles(inputs)) {
    return fail(ErrorCode::Invalid,
                fmt::format("rotate is null with {} cosines and {} sines; allowed: their table",
                            inputs.cosines.size(), inputs.sines.size()));
  }
  if (auto s = check_rotary_channels(inputs.shape, inputs.rotate); !s) return s;
  const std::uint32_t pairs = pairs_of(inputs);
  if (pairs == 0) return {};
  if (has_angles(inputs)) {
    if (auto s = check_count("cosines", inputs.cosines, rows, pairs); !s) return s;
    return check_count("sines", inputs.sines, rows, pairs);
  }
  if (auto s = check_count("positions", inputs.positions, rows, 1); !s) return s;
  constexpr std::int64_t kMost = AttentionLimits::kPositionMax;
  for (std::size_t i = 0; i < inputs.positions.size(); ++i) {
    if (inputs.positions[i] >= -kMost && inputs.positions[i] <= kMost) continue;
    return fail(ErrorCode::Invalid, fmt::format("positions[{}] is {}; allowed: {} to {}", i,
                                                inputs.positions[i], -kMost, kMost));
  }
  return {};
}

Status check_append(const AppendInputs& inputs, const RowTarget& target,
                    const RowOptions& options) {
  if (auto s = check_row_options(options); !s) return s;
  if (auto s = check_row_shape(inputs.shape); !s) return s;
  if (auto s = check_memory("numbers", inputs.numbers); !s) return s;
  const std::uint64_t width = RowWidths(inputs.shape).numbers();
  if (inputs.numbers.size() % width != 0) {
    return fail(ErrorCode::Invalid, fmt::format("size of numbers is {}; allowed: whole rows of {}",
                                                inputs.numbers.size(), width));
  }
  const std::uint64_t rows = inputs.numbers.size() / width;
  if (auto s = check_angles(inputs, rows); !s || rows == 0) return s;
  return check_row_target(inputs.shape, target, rows);
}

// The angles of one row after another.
class Angles {
 public:
  explicit Angles(const AppendInputs& inputs) : inputs_(&inputs), pairs_(pairs_of(inputs)) {}

  bool any() const { return pairs_ > 0; }
  PairTurn of(std::uint64_t row) {
    PairTurn turn{cosines_, sines_, pairs_, inputs_->rotate->interleaved()};
    if (has_angles(*inputs_)) {
      turn.cosines = inputs_->cosines.data() + row * pairs_;
      turn.sines = inputs_->sines.data() + row * pairs_;
    } else {
      fill_rotation(*inputs_->rotate, inputs_->positions[row], inputs_->rotate->amplitude(),
                    {cosines_, pairs_}, {sines_, pairs_});
    }
    return turn;
  }

 private:
  const AppendInputs* inputs_;
  std::uint32_t pairs_;
  float cosines_[kPairsMax];
  float sines_[kPairsMax];
};

}  // namespace

Status append_rows(const AppendInputs& inputs, const RowTarget& target, const RowOptions& options) {
  if (auto s = check_append(inputs, target, options); !s) return s;
  const RowPrimitives& primitives = row_primitives_of(options.isa.value_or(best_isa()));
  const RowWriter writer(inputs.shape, target, options, primitives);
  const std::uint64_t width = writer.widths().numbers();
  const std::uint64_t rows = inputs.numbers.size() / width;
  Angles angles(inputs);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const float* numbers = inputs.numbers.data() + row * width;
    std::optional<PairTurn> turn;
    if (angles.any()) turn = angles.of(row);
    writer.write(numbers, turn ? &*turn : nullptr, inputs.shape.rotary_offset, writer.at(row));
  }
  return {};
}

}  // namespace emblema
