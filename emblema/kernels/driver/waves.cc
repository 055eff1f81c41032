#include "emblema/kernels/driver/waves.h"

#include <algorithm>
#include <memory>

#include "emblema/contract/bytes.h"

namespace emblema::driver {
namespace {

constexpr std::uint64_t kWaveItems = 1024;
constexpr std::uint64_t kWavePartialBytes = 64 * kMiB;

std::uint32_t count_splits(const Call& call, const Unit& unit) {
  std::uint32_t count = 0;
  SplitCutter cutter(call, unit);
  for (Split split; cutter.next(&split);) ++count;
  return count;
}

}  // namespace

Sizes::Sizes(const Call& call) {
  std::uint64_t largest = 0;
  std::uint64_t unit_rows = 1;
  UnitCutter cutter(call);
  for (Unit unit; cutter.next(&unit);) {
    lane.include(call, unit);
    unit_rows = std::max(unit_rows, unit.rows());
    const std::uint32_t splits = count_splits(call, unit);
    const std::uint64_t bytes =
        splits < 2 ? 0 : splits * Partial::bytes(unit.rows(), call.attended.value_dim);
    items += splits;
    ++units;
    largest = std::max(largest, bytes);
    partial_bytes = std::min(partial_bytes + bytes, kWavePartialBytes);
  }
  partial_bytes = std::max(partial_bytes, largest);
  lane.joined = std::clamp<std::uint64_t>(call.unit_limit / unit_rows, 1,
                                          std::max<std::uint64_t>(call.inputs.sequences.size(), 1));
  items = std::min(items, kWaveItems);
  units = std::min(units, kWaveItems);
}

void share_among(std::uint32_t threads, Call& call) {
  constexpr std::uint64_t kLeast = 16;
  while (call.unit_limit > kLeast && Sizes(call).items < threads) call.unit_limit /= 2;
}

Waves::Waves(const Call& call, const Sizes& sizes, std::uint32_t workers, std::byte* memory)
    : call_(call), carver_(memory) {
  items_ = carver_.take_array<Item>(sizes.items);
  runs_ = carver_.take_array<UnitRun>(sizes.items);
  groups_ = carver_.take_array<Group>(sizes.items);
  joined_max_ = sizes.lane.joined;
  merges_ = carver_.take_array<Merge>(sizes.units);
  partial_bytes_ = sizes.partial_bytes;
  partials_ = carver_.take(sizes.partial_bytes);
  lanes_ = carver_.take_array<Lane>(workers);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    Lane lane(call, sizes.lane, carver_);
    if (memory != nullptr) std::construct_at(&lanes_[worker], lane);
  }
}

void Waves::run(ThreadPool* threads) {
  clear_unnamed_rows(call_);
  UnitCutter cutter(call_);
  for (Unit unit; cutter.next(&unit);) {
    const std::uint32_t splits = count_splits(call_, unit);
    if (splits == 0) {
      clear_unit(call_, unit);
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

void Waves::add(const Unit& unit, std::uint32_t splits, std::uint64_t stride) {
  if (splits > 1) merges_[merge_count_++] = {unit, partials_ + used_, stride, splits};
  const std::uint64_t first = item_count_;
  SplitCutter cutter(call_, unit);
  for (Split split; cutter.next(&split);) {
    std::byte* const partial = splits > 1 ? partials_ + used_ : nullptr;
    const std::uint64_t number = item_count_ - first;
    if (last_unit_ + number < first) {
      items_[last_unit_ + number].follower = static_cast<std::uint32_t>(item_count_);
    }
    items_[item_count_++] = {{unit, partial}, split};
    used_ += stride;
  }
  last_unit_ = first;
}

// Items of neighbouring sequences that read the same rows go together, as long as every thread
// has something to do. No bits change: chunks are of one sequence each.
void Waves::group_items() {
  const std::uint64_t workers = lanes_.size();
  const std::uint64_t most =
      workers == 1 ? joined_max_
                   : std::clamp<std::uint64_t>(item_count_ / (2 * workers), 1, joined_max_);
  std::uint64_t run_count = 0;
  for (std::uint32_t i = 0; i < item_count_; ++i) {
    if (items_[i].is_taken) continue;
    Group& group = groups_[group_count_++];
    group = {items_[i].split, run_count, 0};
    for (std::uint32_t at = i; at != kNone && group.count < most; at = items_[at].follower) {
      const Item& item = items_[at];
      if (at != i && !can_join(items_[i], item)) break;
      items_[at].is_taken = true;
      runs_[run_count++] = item.run;
      ++group.count;
    }
  }
}

bool Waves::can_join(const Item& leader, const Item& item) const {
  if (item.is_taken || item.run.unit.sequence == leader.run.unit.sequence) return false;
  return same_rows(call_, leader.run.unit, leader.split, item.run.unit, item.split);
}

void Waves::run_wave(ThreadPool* threads) {
  group_items();
  run_parts(threads, group_count_, [this](std::uint32_t worker, std::uint64_t i) {
    const Group& group = groups_[i];
    lanes_[worker].run(runs_.subspan(group.first, group.count), group.split);
  });
  run_parts(threads, merge_count_, [this](std::uint32_t, std::uint64_t i) {
    const Merge& merge = merges_[i];
    merge_unit(call_, merge.unit, merge.partials, merge.stride, merge.parts);
  });
  item_count_ = group_count_ = merge_count_ = used_ = last_unit_ = 0;
}

}  // namespace emblema::driver
