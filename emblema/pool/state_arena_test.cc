// Units by right, shared and copied, zeroed when the tenant changes.
#include "emblema/pool/state_arena.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using testing::HasSubstr;
using RightKind = StateArena::RightKind;

// One layer: a window of 4 rows, 2 rows of a compressor, a state; 16 bytes each.
ArenaLayout small_layout(std::uint64_t drafts) {
  ArenaLayout layout;
  const StreamRole roles[] = {StreamRole::kWindow, StreamRole::kCompressor, StreamRole::kState};
  const std::uint64_t rows[] = {4, 2, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    StreamPage page;
    page.role = roles[i];
    page.rows = rows[i];
    page.row_bytes = 16;
    page.page_bytes = 64;
    layout.units[i] = {.rows = rows[i], .bytes = 64, .pages = {page}};
  }
  return layout.with_drafts(drafts).value();
}

std::unique_ptr<StateArena> open(std::uint64_t slots, std::uint64_t steps, std::uint64_t drafts = 0,
                                 bool metadata_only = false) {
  return StateArena::open({.layout = small_layout(drafts),
                           .slots = slots,
                           .steps = steps,
                           .step_tokens = 9,
                           .metadata_only = metadata_only})
      .value();
}

TEST(StateArena, HasTheUnitsThatSlotsAndStepsMayHold) {
  const auto arena = open(3, 2);
  EXPECT_EQ(arena->unit_count(ArenaClass::kWindow), 3 + 2 * 3u) << "9 rows are 3 rings of 4";
  EXPECT_EQ(arena->unit_count(ArenaClass::kTail), 3 + 2u);
  EXPECT_EQ(arena->unit_count(ArenaClass::kState), 3 + 2u);
  EXPECT_EQ(arena->unit_count(ArenaClass::kCross), 0u);
  const auto drafts = open(3, 2, 2);
  EXPECT_EQ(drafts->unit_count(ArenaClass::kState), (3 + 2) * 3u);
  EXPECT_EQ(drafts->unit_count(ArenaClass::kWindow), 3 + 2 * 2u) << "9 rows are 2 rings of 6";
}

TEST(StateArena, RightsAreCountedAndTheRefusalNamesTheOption) {
  const auto arena = open(1, 1);
  auto slot = arena->admit(RightKind::kSlot).value();
  EXPECT_THAT(arena->admit(RightKind::kSlot).error().message, HasSubstr("max_sequences"));
  auto step = arena->admit(RightKind::kStep).value();
  EXPECT_THAT(arena->admit(RightKind::kStep).error().message, HasSubstr("steps_max"));
  slot = {};
  step = {};
  EXPECT_TRUE(arena->admit(RightKind::kSlot));
  EXPECT_TRUE(arena->admit(RightKind::kStep));
}

TEST(StateArena, AUnitIsFreeWhenItsLastHolderGoes) {
  const auto arena = open(1, 1);
  StateArena::Unit unit = arena->take(ArenaClass::kState, "a");
  EXPECT_FALSE(unit.is_shared());
  StateArena::Unit other = unit.share();
  EXPECT_TRUE(unit.is_shared());
  EXPECT_EQ(other.index(), unit.index());
  unit = {};
  EXPECT_FALSE(other.is_shared());
  EXPECT_EQ(arena->counts().units_used[static_cast<std::size_t>(ArenaClass::kState)], 1u);
  other = {};
  EXPECT_EQ(arena->counts().units_used[static_cast<std::size_t>(ArenaClass::kState)], 0u);
  EXPECT_TRUE(arena->check_invariants());
}

TEST(StateArena, AUnitThatChangesItsTenantIsZero) {
  const auto arena = open(1, 1);
  for (const std::string tenant : {"a", "b", "", "a"}) {
    StateArena::Unit unit = arena->take(ArenaClass::kTail, tenant);
    EXPECT_TRUE(std::ranges::all_of(unit.bytes(), [](std::byte b) { return b == std::byte{0}; }))
        << tenant;
    std::ranges::fill(unit.bytes(), std::byte{0x5a});
  }
  EXPECT_EQ(arena->counts().zeroed_units, 3u);
  { const StateArena::Unit same = arena->take(ArenaClass::kTail, "a"); }
  EXPECT_EQ(arena->counts().zeroed_units, 3u) << "the same tenant's need not be";
}

TEST(StateArena, MetadataOnlyHasNoBytes) {
  const auto arena = open(2, 1, 0, true);
  EXPECT_EQ(arena->base(ArenaClass::kWindow), nullptr);
  EXPECT_TRUE(arena->take(ArenaClass::kWindow, "a").bytes().empty());
}

TEST(StateArena, MoreUnitsThanCanBeNumberedIsInvalid) {
  const auto arena = StateArena::open({.layout = small_layout(0),
                                       .slots = std::uint64_t{1} << 32,
                                       .steps = 1,
                                       .step_tokens = 1,
                                       .metadata_only = true});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().code, ErrorCode::Invalid);
  EXPECT_THAT(arena.error().message, HasSubstr("class window"));
}

TEST(StateArena, UnitsAndHoldersAddUpOverRandomSteps) {
  const auto arena = open(8, 1);
  std::mt19937 random(7);
  std::vector<StateArena::Unit> held;
  std::vector<std::uint32_t> holders(arena->unit_count(ArenaClass::kState), 0);
  for (int step = 0; step < 20'000; ++step) {
    const auto distinct =
        holders.size() - static_cast<std::size_t>(std::ranges::count(holders, 0u));
    if (random() % 2 == 0 && distinct < holders.size()) {
      held.push_back(arena->take(ArenaClass::kState, "t"));
      ASSERT_EQ(holders[held.back().index()]++, 0u) << "a unit was given out twice";
    } else if (!held.empty()) {
      const std::size_t at = random() % held.size();
      if (random() % 3 == 0) {
        held.push_back(held[at].share());
        ++holders[held.back().index()];
      } else {
        --holders[held[at].index()];
        std::swap(held[at], held.back());
        held.pop_back();
      }
    }
    ASSERT_EQ(arena->counts().units_used[2],
              holders.size() - static_cast<std::size_t>(std::ranges::count(holders, 0u)));
  }
  EXPECT_TRUE(arena->check_invariants());
}

}  // namespace
}  // namespace emblema
