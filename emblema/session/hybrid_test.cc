// State outside blocks: steps that may be given up, forks, snapshots and hits, replay, drafts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/hybrid_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kStep = 64;

struct Kind {
  std::string name;
  ModelConfig model;
  std::uint64_t boundary;
};

// As ctest names the case.
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class HybridKind : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, HybridKind,
                         testing::Values(Kind{"Recurrent", recurrent_model(), 16},
                                         Kind{"RecurrentWindow", recurrent_window_model(), 16},
                                         Kind{"Compressed", compressed_model(), 128}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(HybridKind, EveryRowIsReadBackWhateverTheSteps) {
  for (const std::uint64_t step : {1u, 3u, 16u, 63u, 64u}) {
    Engine engine = open_hybrid(GetParam().model, 1, 300, 4);
    const std::vector<TokenId> prompt = tokens_from(1, 300);
    Hybrid sequence = start_hybrid(engine, {.tokens = prompt});
    while (sequence.tokens() < prompt.size()) {
      const std::uint64_t n = std::min<std::uint64_t>(step, prompt.size() - sequence.tokens());
      ASSERT_TRUE(sequence.step(std::span(prompt).subspan(sequence.tokens(), n)));
      ASSERT_EQ(sequence.first_wrong_byte(), "") << "steps of " << step;
    }
    expect_sound(engine);
  }
}

TEST_P(HybridKind, AStepGivenUpChangesNothing) {
  Engine engine = open_hybrid(GetParam().model, 1, 300, 4);
  Hybrid sequence = start_hybrid(engine, {});
  ASSERT_TRUE(sequence.run(tokens_from(1, 150), kStep));
  const auto before = engine.stats().arena;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sequence->reserve(20));
    sequence.write(tokens_from(900, 20));
    sequence->cancel();
    ASSERT_EQ(sequence.first_wrong_byte(), "");
    EXPECT_EQ(engine.stats().arena, before);
  }
  ASSERT_TRUE(sequence.step(tokens_from(500, 30)));
  EXPECT_EQ(sequence.first_wrong_byte(), "");
}

TEST_P(HybridKind, ForksShareUntilTheyWriteAndNeverSeeEachOther) {
  Engine engine = open_hybrid(GetParam().model, 3, 300, 4);
  Hybrid parent = start_hybrid(engine, {});
  ASSERT_TRUE(parent.run(tokens_from(1, 150), kStep));
  const auto alone = engine.stats().arena.units_used;
  Hybrid child = parent.fork();
  EXPECT_EQ(engine.stats().arena.units_used, alone) << "a fork copies nothing";
  ASSERT_TRUE(child.step(tokens_from(700, 9)));
  ASSERT_EQ(parent.first_wrong_byte(), "");
  ASSERT_TRUE(parent.step(tokens_from(800, 5)));
  ASSERT_EQ(child.first_wrong_byte(), "");
  Hybrid grandchild = child.fork();
  ASSERT_TRUE(child.step(tokens_from(600, 40)));
  for (const Hybrid* one : {&parent, &child, &grandchild}) EXPECT_EQ(one->first_wrong_byte(), "");
  expect_sound(engine);
}

TEST_P(HybridKind, TwoSequencesResumeFromOneSnapshotAndNeitherChangesIt) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 3, 4 * boundary, 8);
  const std::vector<TokenId> prompt = tokens_from(1, 2 * boundary + 7);
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    ASSERT_TRUE(first.run(prompt, kStep));
  }
  Hybrid a = start_hybrid(engine, {.tokens = prompt});
  ASSERT_EQ(a.tokens(), 2 * boundary);
  ASSERT_EQ(a.first_wrong_byte(), "");
  ASSERT_TRUE(a.run(joined(prompt, tokens_from(700, 40)), kStep));
  Hybrid b = start_hybrid(engine, {.tokens = prompt});
  ASSERT_EQ(b.tokens(), 2 * boundary);
  ASSERT_EQ(b.first_wrong_byte(), "") << "a live state was written into the snapshot";
  ASSERT_TRUE(b.run(joined(prompt, tokens_from(800, 33)), kStep));
  EXPECT_EQ(a.first_wrong_byte(), "");
  EXPECT_EQ(b.first_wrong_byte(), "");
  Hybrid c = start_hybrid(engine, {.tokens = prompt});
  EXPECT_EQ(c.first_wrong_byte(), "");
}

// The prompt's last whole boundary and the one before it; of what was generated the last.
TEST_P(HybridKind, SnapshotsAreLeftWhereThePolicySays) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 2, 8 * boundary, 16);
  const std::vector<TokenId> prompt = tokens_from(1, 3 * boundary);
  const std::vector<TokenId> turn = joined(prompt, tokens_from(700, 3 * boundary + 1));
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    EXPECT_EQ(first->next_snapshot(), boundary);
    ASSERT_TRUE(first.run(turn, kStep));
  }
  const auto hit = [&](std::uint64_t shared) {
    std::vector<TokenId> other(turn.begin(), turn.begin() + static_cast<std::ptrdiff_t>(shared));
    other.push_back(9999);
    const Hybrid found = start_hybrid(engine, {.tokens = other});
    EXPECT_EQ(found.first_wrong_byte(), "");
    return found.tokens();
  };
  EXPECT_EQ(hit(boundary), boundary);
  EXPECT_EQ(hit(2 * boundary), 2 * boundary);
  EXPECT_EQ(hit(2 * boundary + 3), 2 * boundary);
  EXPECT_EQ(hit(4 * boundary), 2 * boundary) << "replaced by the next of the same turn";
  EXPECT_EQ(hit(6 * boundary), 6 * boundary) << "the end of the turn";
}

TEST_P(HybridKind, TheBudgetOfSnapshotsIsItsOwn) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 2, 12 * boundary, 2);
  EXPECT_EQ(engine.plan().snapshots, 2u);
  const auto prompt = [&](TokenId first) { return tokens_from(first, 2 * boundary + 1); };
  for (const TokenId first : {1000u, 2000u}) {
    Hybrid one = start_hybrid(engine, {.tokens = prompt(first)});
    ASSERT_TRUE(one.run(prompt(first), kStep));
  }
  // Two of each; the two of the first prompt went, its blocks did not.
  EXPECT_EQ(start_hybrid(engine, {.tokens = prompt(2000)}).tokens(), 2 * boundary);
  EXPECT_EQ(start_hybrid(engine, {.tokens = prompt(1000)}).tokens(), 0u);
  EXPECT_EQ(engine.stats().snapshots_taken, 4u);
  expect_sound(engine);
}

// Blocks were there and 0 tokens hit, and nobody could say why.
TEST_P(HybridKind, WhySaysThatTheSnapshotIsWhatIsMissing) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 2, 12 * boundary, 1);
  const auto prompt = [&](TokenId first) { return tokens_from(first, boundary + 1); };
  for (const TokenId first : {1000u, 2000u}) {
    Hybrid one = start_hybrid(engine, {.tokens = prompt(first)});
    ASSERT_TRUE(one.run(prompt(first), kStep));
  }
  const auto tokens = prompt(1000);
  const WhyReport report = engine.why({.tokens = tokens}).value();
  EXPECT_EQ(report.hit_tokens, 0u);
  ASSERT_FALSE(report.blocks.empty());
  EXPECT_EQ(report.blocks[0].verdict, Verdict::kEvicted);
  EXPECT_EQ(report.blocks[0].group, "snapshots");
  const auto other = prompt(2000);
  EXPECT_EQ(engine.why({.tokens = other})->hit_tokens, boundary);
}

TEST_P(HybridKind, AStepThatRunsPastABoundaryLosesItsSnapshotAndIsCounted) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 2, 4 * boundary, 4, {.step_tokens = 2 * boundary});
  const std::vector<TokenId> prompt = tokens_from(1, 2 * boundary + 1);
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    ASSERT_TRUE(first.step(std::span(prompt).first(boundary + 1)));
    ASSERT_TRUE(first.run(prompt, boundary));
  }
  EXPECT_EQ(engine.stats().snapshots_missed, 1u);
  EXPECT_EQ(engine.stats().snapshots_taken, 1u);
  EXPECT_EQ(start_hybrid(engine, {.tokens = std::span(prompt).first(boundary + 1)}).tokens(), 0u);
  EXPECT_EQ(start_hybrid(engine, {.tokens = prompt}).tokens(), 2 * boundary);
}

TEST_P(HybridKind, PeriodicHitsAnyBoundaryAndReplaysFromTheNewestSnapshot) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine =
      open_hybrid(GetParam().model, 2, 8 * boundary, 4,
                  {.snapshots = SnapshotPolicy::kPeriodic, .snapshot_period_tokens = 2 * boundary});
  const std::vector<TokenId> prompt = tokens_from(1, 5 * boundary + 3);
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    ASSERT_TRUE(first.run(prompt, kStep));
  }
  const TokenRange ranges[] = {
      {0, 0}, {0, boundary}, {2 * boundary, 0}, {2 * boundary, boundary}, {4 * boundary, 0}};
  for (std::uint64_t blocks = 0; blocks <= 4; ++blocks) {
    std::vector<TokenId> other(prompt.begin(),
                               prompt.begin() + static_cast<std::ptrdiff_t>(blocks * boundary));
    other.push_back(9999);
    Hybrid found = start_hybrid(engine, {.tokens = other});
    ASSERT_EQ(found.tokens(), blocks * boundary);
    const TokenRange replay = found->replay();
    EXPECT_EQ(replay.count, ranges[blocks].count) << blocks;
    if (replay.count > 0) {
      EXPECT_EQ(replay.first, ranges[blocks].first) << blocks;
      EXPECT_THAT(found->fork().error().message, HasSubstr("to be replayed"));
      EXPECT_THAT(found->finish_replay().error().message, HasSubstr("run the others first"));
      EXPECT_THAT(found->reserve(replay.count + 1).error().message, HasSubstr("left to be"));
    }
    ASSERT_TRUE(found.replay(5));
    ASSERT_EQ(found.first_wrong_byte(), "");
    ASSERT_TRUE(found.step(std::span(other).last(1)));
    EXPECT_EQ(found.first_wrong_byte(), "");
  }
}

TEST(HybridZero, ReplaysWhatTheWindowsOfAllLayersReachBackTo) {
  Engine engine = open_hybrid(compressed_model(), 2, 1500, 0, {.snapshots = SnapshotPolicy::kZero});
  const std::vector<TokenId> prompt = tokens_from(1, 1100);
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    EXPECT_EQ(first->next_snapshot(), std::nullopt);
    ASSERT_TRUE(first.run(prompt, kStep));
  }
  // 4 layers x 127 tokens = 508.
  Hybrid all = start_hybrid(engine, {.tokens = prompt});
  ASSERT_EQ(all.tokens(), 1024u);
  EXPECT_EQ(all->replay(), (TokenRange{1024 - 508, 508}));
  ASSERT_TRUE(all.replay(kStep));
  EXPECT_EQ(all.first_wrong_byte(), "");
  Hybrid short_one = start_hybrid(engine, {.tokens = std::span(prompt).first(300)});
  ASSERT_EQ(short_one.tokens(), 256u);
  EXPECT_EQ(short_one->replay(), (TokenRange{0, 256}));
}

TEST(HybridZero, IsUnsupportedWithRecurrentState) {
  const auto engine =
      Engine::open(geometry_of(recurrent_model()),
                   {.pool_bytes = std::uint64_t{1} << 24, .snapshots = SnapshotPolicy::kZero});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::Unsupported);
  const auto period =
      Engine::open(geometry_of(recurrent_model()), {.pool_bytes = std::uint64_t{1} << 24,
                                                    .snapshots = SnapshotPolicy::kPeriodic,
                                                    .snapshot_period_tokens = 24});
  ASSERT_FALSE(period);
  EXPECT_THAT(period.error().message,
              AllOf(HasSubstr("snapshot_period_tokens is 24"), HasSubstr("multiples of 16")));
}

TEST(HybridReplay, RowsInBlocksAreReadOnlyMeanwhile) {
  Engine engine = open_hybrid(compressed_model(), 2, 600, 0, {.snapshots = SnapshotPolicy::kZero});
  const std::vector<TokenId> prompt = tokens_from(1, 300);
  {
    Hybrid first = start_hybrid(engine, {.tokens = prompt});
    ASSERT_TRUE(first.run(prompt, kStep));
  }
  Hybrid found = start_hybrid(engine, {.tokens = prompt});
  ASSERT_TRUE(found->reserve(8));
  const auto rows = found->rows(2, StreamRole::kCompressed, 0, 8);
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("while tokens are replayed"));
  EXPECT_TRUE(found->rows(2, StreamRole::kWindow, 0, 8));
  const std::vector<TokenId> wrong = {1, 2, 4};
  EXPECT_THAT(found->commit(wrong).error().message, HasSubstr("token 4 at position 2 of a replay"));
}

TEST_P(HybridKind, DraftsAreTakenBackExactlyWithinTheReserve) {
  constexpr std::uint64_t kDrafts = 4;
  Engine engine =
      open_hybrid(GetParam().model, 2, 400, 4, {.step_tokens = 200, .draft_tokens_max = kDrafts});
  Hybrid sequence = start_hybrid(engine, {});
  sequence.set_drafts(kDrafts);
  ASSERT_TRUE(sequence.run(tokens_from(1, 150), kStep));
  for (std::uint64_t round = 0; round < 40; ++round) {
    // One token and four drafts, of which some are right.
    const std::vector<TokenId> drafts = tokens_from(static_cast<TokenId>(1000 + 10 * round), 5);
    ASSERT_TRUE(sequence->reserve(5));
    sequence.write(drafts);
    const std::uint64_t accepted = 1 + round % 5;
    ASSERT_TRUE(sequence.commit(std::span(drafts).first(accepted)));
    sequence->cancel();
    ASSERT_EQ(sequence.first_wrong_byte(), "") << round;
    if (round % 3 == 0) {
      // Committed ones may be taken back too.
      const auto again = sequence.truncate(sequence.tokens() - std::min(accepted, kDrafts));
      ASSERT_TRUE(again);
      EXPECT_EQ(again->count, 0u);
      ASSERT_EQ(sequence.first_wrong_byte(), "") << round;
    }
  }
  // Inside a longer step, state is kept for the last tokens only.
  ASSERT_TRUE(sequence->reserve(50));
  sequence.write(tokens_from(5000, 50));
  const Status ok = sequence->commit(tokens_from(5000, 45));
  ASSERT_FALSE(ok);
  EXPECT_THAT(ok.error().message, AllOf(HasSubstr("commit of 45 of 50"), HasSubstr("at least 46")));
  ASSERT_TRUE(sequence.commit(tokens_from(5000, 46)));
  EXPECT_EQ(sequence.first_wrong_byte(), "");
}

// Further back than the reserve: the longest boundary with a snapshot, and what must be run again.
TEST_P(HybridKind, FurtherBackGoesToASnapshotAndSaysWhatToRunAgain) {
  const std::uint64_t boundary = GetParam().boundary;
  Engine engine = open_hybrid(GetParam().model, 2, 6 * boundary, 8);
  const std::vector<TokenId> prompt = tokens_from(1, 3 * boundary + 9);
  Hybrid sequence = start_hybrid(engine, {.tokens = prompt});
  ASSERT_TRUE(sequence.run(prompt, kStep));
  const auto again = sequence.truncate(2 * boundary + 5);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, (TokenRange{2 * boundary, 5}));
  EXPECT_EQ(sequence.tokens(), 2 * boundary);
  ASSERT_EQ(sequence.first_wrong_byte(), "");
  const std::vector<TokenId> other = {7};
  ASSERT_TRUE(sequence->reserve(5));
  EXPECT_THAT(sequence->commit(other).error().message, HasSubstr("the prompt has"));
  sequence->cancel();
  ASSERT_TRUE(sequence.step(std::span(prompt).subspan(again->first, again->count)));
  ASSERT_TRUE(sequence.step(tokens_from(700, 20)));
  EXPECT_EQ(sequence.first_wrong_byte(), "");
  const auto all = sequence.truncate(0);
  ASSERT_TRUE(all);
  EXPECT_EQ(sequence.tokens(), 0u);
  ASSERT_TRUE(sequence.step(tokens_from(800, 30)));
  EXPECT_EQ(sequence.first_wrong_byte(), "");
  expect_sound(engine);
}

TEST_P(HybridKind, RefusalsNameSlotsAndStepBuffersAndLeaveNoTrace) {
  Engine engine = open_hybrid(GetParam().model, 2, 300, 4);
  Hybrid a = start_hybrid(engine, {});
  Hybrid b = start_hybrid(engine, {});
  const auto arena = engine.stats().arena;
  const auto third = engine.start({});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(third.error().message, AllOf(HasSubstr("2 arena slots"), HasSubstr("max_sequences")));
  EXPECT_EQ(a->fork().error().code, ErrorCode::OutOfBlocks);
  EXPECT_EQ(engine.stats().arena, arena);
  ASSERT_TRUE(a->reserve(1));
  const auto counts = counts_of(engine);
  const Status step = b->reserve(1);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(step.error().message, AllOf(HasSubstr("1 step buffers"), HasSubstr("steps_max")));
  EXPECT_EQ(counts_of(engine), counts);
  a->cancel();
  EXPECT_TRUE(b->reserve(1));
  EXPECT_THAT(engine.segment({.tokens = tokens_from(1, 5)}).error().message, HasSubstr("arena"));
}

// What one tenant left in a slot was there to be read by the next.
TEST_P(HybridKind, SlotsAreZeroedWhenTheTenantChanges) {
  Engine engine = open_hybrid(GetParam().model, 1, 300, 0);
  {
    Hybrid first = start_hybrid(engine, {.tenant = "a"});
    ASSERT_TRUE(first.run(tokens_from(1, 150), kStep));
  }
  Hybrid other = start_hybrid(engine, {.tenant = "b"});
  ASSERT_TRUE(other->reserve(10));
  for (const LayerGeometry& layer : engine.geometry().layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.placement != Placement::kArena) continue;
      const std::uint64_t first = stream.role == StreamRole::kState ? 9 : 2;
      const auto view = other->rows(layer.index, stream.role, first, 10 - first).value();
      for (std::uint64_t c = 0; c < view.size(); ++c) {
        const RowChunk chunk = view[c];
        for (std::uint64_t i = 0; i < chunk.rows * chunk.row_bytes; ++i) {
          ASSERT_EQ(chunk.data[i], std::byte{0}) << to_string(stream.role);
        }
      }
    }
  }
  EXPECT_GT(engine.stats().arena.zeroed_units, 0u);
}

TEST(HybridMetadata, AccountsWithoutBytes) {
  Engine engine = open_hybrid(recurrent_model(), 2, 100, 4, {.metadata_only = true});
  const std::vector<TokenId> prompt = tokens_from(1, 33);
  {
    Sequence sequence = engine.start({.tokens = prompt}).value();
    for (const std::uint64_t n : {16u, 16u, 1u}) {
      ASSERT_TRUE(sequence.reserve(n));
      ASSERT_TRUE(sequence.commit(std::span(prompt).subspan(sequence.tokens(), n)));
    }
  }
  EXPECT_EQ(engine.start({.tokens = prompt})->hit_tokens(), 32u);
}

TEST(HybridWindowSpans, RingThenStepInTokenOrder) {
  Engine engine = open_hybrid(compressed_model(), 1, 400, 4);
  Hybrid sequence = start_hybrid(engine, {});
  ASSERT_TRUE(sequence.run(tokens_from(1, 300), kStep));
  ASSERT_TRUE(sequence->reserve(10));
  const std::vector<Span> spans = sequence->window_spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].position, 300 - 128);
  EXPECT_EQ(spans[0].rows, 128u);
  EXPECT_EQ(spans[0].first_row, (300u - 128u) % 128u);
  EXPECT_EQ(spans[1].position, 300);
  EXPECT_EQ(spans[1].rows, 10u);
}

}  // namespace
}  // namespace emblema
