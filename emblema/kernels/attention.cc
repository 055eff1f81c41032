// The entry points: check, cut into items, let threads take them, merge.
#include "emblema/kernels/attention.h"

#include <algorithm>
#include <memory>

#include "emblema/contract/bytes.h"
#include "emblema/kernels/driver/call.h"
#include "emblema/kernels/driver/lane.h"
#include "emblema/kernels/driver/result.h"

namespace emblema {
namespace {

using driver::Call;
using driver::Carver;
using driver::Lane;
using driver::LaneSizes;
using driver::Partial;
using driver::Split;
using driver::SplitCutter;
using driver::Unit;
using driver::UnitCutter;

// Items and partial results that are kept at once; a larger call goes in waves.
constexpr std::uint64_t kWaveItems = 1024;
constexpr std::uint64_t kWavePartialBytes = 64 * kMiB;

struct Item {
  Unit unit;
  Split split;
  std::byte* partial = nullptr;  // null: the unit's only split
};

// A unit whose partial results wait to be merged.
struct Merge {
  Unit unit;
  std::byte* partials = nullptr;
  std::uint64_t stride = 0;
  std::uint32_t parts = 0;
};

std::uint32_t count_splits(const Call& call, const Unit& unit) {
  std::uint32_t count = 0;
  SplitCutter cutter(call, unit);
  for (Split split; cutter.next(&split);) ++count;
  return count;
}

// What a call needs, counted by going through its work once.
struct Sizes {
  LaneSizes lane;
  std::uint64_t items = 0;
  std::uint64_t units = 0;
  std::uint64_t partial_bytes = 0;

  explicit Sizes(const Call& call) {
    std::uint64_t largest = 0;
    UnitCutter cutter(call);
    for (Unit unit; cutter.next(&unit);) {
      lane.include(call, unit);
      const std::uint32_t splits = count_splits(call, unit);
      const std::uint64_t bytes =
          splits < 2 ? 0 : splits * Partial::bytes(unit.rows(), call.attended.value_dim);
      items += splits;
      ++units;
      largest = std::max(largest, bytes);
      partial_bytes = std::min(partial_bytes + bytes, kWavePartialBytes);
    }
    partial_bytes = std::max(partial_bytes, largest);
    items = std::min(items, kWaveItems);
    units = std::min(units, kWaveItems);
  }
};

// Smaller units where there would be too few items for the threads.
void share_among(std::uint32_t threads, Call& call) {
  constexpr std::uint64_t kLeast = 16;
  while (call.unit_limit > kLeast && Sizes(call).items < threads) call.unit_limit /= 2;
}

class Run {
 public:
  // With no memory it only counts bytes.
  Run(const Call& call, const Sizes& sizes, std::uint32_t workers, std::byte* memory)
      : call_(call), carver_(memory) {
    items_ = carver_.take_array<Item>(sizes.items);
    merges_ = carver_.take_array<Merge>(sizes.units);
    partial_bytes_ = sizes.partial_bytes;
    partials_ = carver_.take(sizes.partial_bytes);
    lanes_ = carver_.take_array<Lane>(workers);
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      Lane lane(call, sizes.lane, carver_);
      if (memory != nullptr) std::construct_at(&lanes_[worker], lane);
    }
  }

  std::uint64_t bytes() const { return carver_.bytes(); }

  void run(ThreadPool* threads) {
    driver::clear_unnamed_rows(call_);
    UnitCutter cutter(call_);
    for (Unit unit; cutter.next(&unit);) {
      const std::uint32_t splits = count_splits(call_, unit);
      if (splits == 0) {
        driver::clear_unit(call_, unit);
        continue;
      }
      const std::uint64_t stride =
          splits < 2 ? 0 : Partial::bytes(unit.rows(), call_.attended.value_dim);
      if (item_count_ + splits > items_.size() || used_ + splits * stride > partial_bytes_) {
        run_wave(threads);
      }
      add(unit, splits, stride);
    }
    run_wave(threads);
  }

 private:
  void add(const Unit& unit, std::uint32_t splits, std::uint64_t stride) {
    if (splits > 1) merges_[merge_count_++] = {unit, partials_ + used_, stride, splits};
    SplitCutter cutter(call_, unit);
    for (Split split; cutter.next(&split);) {
      items_[item_count_++] = {unit, split, splits > 1 ? partials_ + used_ : nullptr};
      used_ += stride;
    }
  }

  void run_wave(ThreadPool* threads) {
    run_parts(threads, item_count_, [this](std::uint32_t worker, std::uint64_t i) {
      const Item& item = items_[i];
      if (item.partial == nullptr) return lanes_[worker].run(item.unit, item.split, nullptr);
      const Partial partial(item.partial, item.unit.rows(), call_.attended.value_dim);
      lanes_[worker].run(item.unit, item.split, &partial);
    });
    run_parts(threads, merge_count_, [this](std::uint32_t, std::uint64_t i) {
      const Merge& merge = merges_[i];
      driver::merge_unit(call_, merge.unit, merge.partials, merge.stride, merge.parts);
    });
    item_count_ = merge_count_ = used_ = 0;
  }

  const Call& call_;
  Carver carver_;
  std::span<Item> items_;
  std::span<Merge> merges_;
  std::span<Lane> lanes_;
  std::byte* partials_ = nullptr;
  std::uint64_t partial_bytes_ = 0;
  std::uint64_t item_count_ = 0;
  std::uint64_t merge_count_ = 0;
  std::uint64_t used_ = 0;  // bytes of partials
};

std::uint32_t workers_of(const AttentionOptions& options) {
  return options.threads == nullptr ? 1 : options.threads->threads();
}

// Results as large as the call says, for those who only ask for sizes.
std::uint64_t result_rows(const AttentionInputs& inputs) {
  return inputs.tokens * inputs.shape.query_heads;
}

Status check_call(const AttentionInputs& inputs, const LatentExpansion* expansion,
                  std::uint64_t out_size, std::uint64_t lse_size, const AttentionOptions& options) {
  const Status fits = expansion == nullptr
                          ? check_attention_inputs(inputs, out_size, lse_size)
                          : check_prefill_inputs(inputs, *expansion, out_size, lse_size);
  if (!fits) return fits;
  return check_isa(options.isa.value_or(best_isa()));
}

}  // namespace

Result<std::uint64_t> attention_workspace_bytes(const AttentionInputs& inputs,
                                                const LatentExpansion* expansion,
                                                const AttentionOptions& options) {
  const std::uint64_t width = expansion == nullptr ? inputs.shape.value_dim : expansion->value_dim;
  const std::uint64_t rows = result_rows(inputs);
  if (auto s = check_call(inputs, expansion, rows * width, rows, options); !s) {
    return propagate(s);
  }
  Call call(inputs, expansion, options.isa.value_or(best_isa()), nullptr, nullptr);
  share_among(workers_of(options), call);
  return Run(call, Sizes(call), workers_of(options), nullptr).bytes();
}

Status prefill_attention(const AttentionInputs& inputs, std::span<float> out, std::span<float> lse,
                         const LatentExpansion* expansion, const AttentionOptions& options) {
  if (auto s = check_call(inputs, expansion, out.size(), lse.size(), options); !s) return s;
  const std::uint32_t workers = workers_of(options);
  Call call(inputs, expansion, options.isa.value_or(best_isa()), out.data(), lse.data());
  share_among(workers, call);
  const Sizes sizes(call);
  AttentionWorkspace own;
  AttentionWorkspace& workspace = options.workspace == nullptr ? own : *options.workspace;
  const Result<std::byte*> memory = workspace.reserve(Run(call, sizes, workers, nullptr).bytes());
  if (!memory) return propagate(memory);
  Run(call, sizes, workers, *memory).run(options.threads);
  return {};
}

Status decode_attention(const AttentionInputs& inputs, std::span<float> out, std::span<float> lse,
                        const AttentionOptions& options) {
  return prefill_attention(inputs, out, lse, nullptr, options);
}

}  // namespace emblema
