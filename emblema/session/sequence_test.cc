// The life of a sequence: start, reserve, write, commit, cancel, fork, abort. After each step every
// byte that attention can see is compared with what was stored (session_testing.h), and at the end
// every block must have come back.
#include "emblema/session/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::HasSubstr;

struct Kind {
  std::string name;
  ModelConfig model;
  KvDtype dtype = KvDtype::kBf16;
};

// As ctest names the case; without it, bytes that change with every run.
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class EverySequence : public testing::TestWithParam<Kind> {
 protected:
  Engine open(std::uint64_t blocks, const EngineOptions& options = {}) const {
    return open_engine(GetParam().model, blocks, options, GetParam().dtype);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, EverySequence,
                         testing::Values(Kind{"Gqa", grouped_model()},
                                         Kind{"GqaFp16", grouped_model(), KvDtype::kFp16},
                                         Kind{"GqaFp32", grouped_model(), KvDtype::kFp32},
                                         Kind{"Mla", latent_model()},
                                         Kind{"WindowAndFull", two_group_model()},
                                         Kind{"WindowOfOne", two_group_model(1)},
                                         Kind{"WindowOfTwoBlocks", two_group_model(32)}),
                         [](const auto& made) { return made.param.name; });

std::uint64_t block_tokens(const Engine& engine) {
  return engine.layout().groups[0].block_tokens;
}

TEST_P(EverySequence, HitsWholeBlocksAndAtMostAllButOneToken) {
  Engine engine = open(16);
  const std::uint64_t block = block_tokens(engine);
  store(engine, {.tokens = tokens_from(1, 3 * block)});
  for (std::size_t length = 0; length <= 3 * block + 1; ++length) {
    const std::vector<TokenId> prompt = tokens_from(1, length);
    Tracked sequence = start(engine, {.tokens = prompt});
    const std::uint64_t whole = length == 0 ? 0 : (length - 1) / block * block;
    ASSERT_EQ(sequence->hit_tokens(), whole) << length;
    ASSERT_EQ(sequence->tokens(), whole);
    ASSERT_EQ(sequence.first_wrong_byte(), "") << length;
  }
  expect_all_given_back(engine);
}

TEST_P(EverySequence, GoesOnBehindAHitAsIfItHadRunTheWholePrompt) {
  Engine engine = open(24);
  const std::uint64_t block = block_tokens(engine);
  const std::vector<TokenId> prompt = tokens_from(1, 2 * block + 5);
  store(engine, {.tokens = prompt});
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{40}}) {
    Tracked sequence = start(engine, {.tokens = prompt});
    ASSERT_EQ(sequence->hit_tokens(), 2 * block);
    std::vector<TokenId> rest =
        joined({prompt.begin() + static_cast<std::ptrdiff_t>(2 * block), prompt.end()},
               tokens_from(static_cast<TokenId>(1000 * step), block + 3));
    for (std::size_t at = 0; at < rest.size(); at += step) {
      const auto ids = std::span(rest).subspan(at, std::min(step, rest.size() - at));
      ASSERT_TRUE(sequence.extend(ids));
      ASSERT_EQ(sequence.first_wrong_byte(), "") << at;
    }
  }
  expect_all_given_back(engine);
}

TEST_P(EverySequence, HoldsTheBlocksThatItsLengthNeedsAndNoMore) {
  Engine engine = open(16, {.step_tokens = 1});
  Tracked sequence = start(engine, {});
  for (TokenId token = 0; token < 3 * block_tokens(engine); ++token) {
    ASSERT_TRUE(sequence.extend(std::vector<TokenId>{token}));
    for (std::uint32_t g = 0; g < engine.layout().groups.size(); ++g) {
      ASSERT_EQ(sequence->held_blocks(g).size(), engine.layout().groups[g].blocks_at(token + 1))
          << "group " << g << " after " << token + 1;
    }
  }
  EXPECT_RIGHT_BYTES(sequence);
}

// Parent and child go different ways from every token; neither sees the other's rows, and only the
// tail block is copied.
TEST_P(EverySequence, ForksAtEveryToken) {
  Engine engine = open(16);
  const std::uint64_t block = block_tokens(engine);
  for (std::size_t at = 0; at <= 3 * block; at += block > kBlock ? 5 : 1) {
    {
      Tracked parent = start(engine, {.tenant = "t"});
      ASSERT_TRUE(parent.extend(tokens_from(1, at)));
      const std::uint64_t copies = engine.stats().blocks.copied_blocks;
      Tracked child = parent.fork();
      ASSERT_EQ(child->tokens(), at);
      ASSERT_EQ(child.first_wrong_byte(), "") << at;
      ASSERT_TRUE(child.extend(tokens_from(5000, block + 3)));
      ASSERT_EQ(parent.first_wrong_byte(), "") << at;
      ASSERT_TRUE(parent.extend(tokens_from(9000, 5)));
      ASSERT_EQ(parent.first_wrong_byte(), "") << at;
      ASSERT_EQ(child.first_wrong_byte(), "") << at;
      const std::uint64_t tails = at % block == 0 ? 0 : engine.layout().groups.size();
      ASSERT_EQ(engine.stats().blocks.copied_blocks - copies, tails) << at;
    }
    engine.evict_idle();
  }
  expect_all_given_back(engine);
}

TEST_P(EverySequence, ForksOfForksDieInAnyOrder) {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}}) {
    Engine engine = open(24);
    const std::uint64_t block = block_tokens(engine);
    std::vector<std::optional<Tracked>> family;
    family.emplace_back(start(engine, {}));
    ASSERT_TRUE(family[0]->extend(tokens_from(1, block + 2)));
    for (TokenId i = 0; i < 3; ++i) {
      family.emplace_back(family.back()->fork());
      ASSERT_TRUE(family.back()->extend(tokens_from(1000 * (i + 1), 3)));
    }
    for (const int dies : order) {
      for (auto& one : family) {
        if (!one) continue;
        ASSERT_EQ(one->first_wrong_byte(), "");
        ASSERT_TRUE(one->extend(tokens_from(7, 1)));
        ASSERT_EQ(one->first_wrong_byte(), "");
      }
      family[static_cast<std::size_t>(dies)].reset();
      expect_sound(engine);
    }
    expect_all_given_back(engine);
  }
}

TEST_P(EverySequence, ForksRightAfterAHit) {
  Engine engine = open(16);
  const std::uint64_t block = block_tokens(engine);
  const std::vector<TokenId> prompt = tokens_from(1, 2 * block + 1);
  store(engine, {.tokens = prompt});
  {
    Tracked parent = start(engine, {.tokens = prompt});
    Tracked child = parent.fork();
    const auto last = std::span(prompt).last(1);
    ASSERT_TRUE(child.extend(last));
    ASSERT_TRUE(parent.extend(last));
    ASSERT_TRUE(child.extend(tokens_from(500, block)));
    ASSERT_TRUE(parent.extend(tokens_from(900, block)));
    EXPECT_RIGHT_BYTES(parent);
    EXPECT_RIGHT_BYTES(child);
  }
  expect_all_given_back(engine);
}

// A request may be aborted at any point. Each stage is left by letting go of all that is held.
TEST_P(EverySequence, AbortAtAnyPointGivesBackEveryBlock) {
  Engine engine = open(24);
  const std::uint64_t block = block_tokens(engine);
  const std::vector<TokenId> prompt = tokens_from(1, block + 7);
  for (int last_stage = 0; last_stage < 10; ++last_stage) {
    for (const bool warm : {false, true}) {
      engine.evict_idle();
      if (warm) store(engine, {.tokens = prompt});
      {
        Tracked sequence = start(engine, {.tokens = prompt});
        std::optional<Tracked> child;
        std::optional<Segment> segment;
        const auto rest = std::span(prompt).subspan(sequence->tokens());
        const auto stage = [&](int number) {
          switch (number) {
            case 0:
              return sequence->reserve(rest.size());
            case 1:
              sequence.write(rest);
              return Status{};
            case 2:
              return sequence.commit(rest.first(3));
            case 3:
              return sequence.commit(rest.subspan(3));
            case 4:
              return sequence->reserve(2 * block);
            case 5:
              sequence.cancel();
              return Status{};
            case 6:
              child.emplace(sequence.fork());
              return Status{};
            case 7:
              return child->sequence().tokens() > 0 ? (*child)->reserve(1) : Status{};
            case 8:
              segment.emplace(segment_of(engine, {.tokens = tokens_from(300, 9)}));
              return Status{};
            default:
              return Status(sequence->attach(*segment).map([](std::uint64_t) {}));
          }
        };
        for (int number = 0; number <= last_stage; ++number) {
          const Status ok = stage(number);
          ASSERT_TRUE(ok) << number << " " << ok.error().message;
        }
      }
      for (const BlockCounts& counts : counts_of(engine)) {
        ASSERT_EQ(counts.holds, 0u) << "stage " << last_stage;
        ASSERT_EQ(counts.free + counts.idle, counts.capacity) << "stage " << last_stage;
      }
    }
  }
  expect_all_given_back(engine);
}

TEST_P(EverySequence, RefusedReserveChangesNothing) {
  Engine engine = open(6);
  const std::uint64_t block = block_tokens(engine);
  Tracked parent = start(engine, {});
  ASSERT_TRUE(parent.extend(tokens_from(1, block + 3)));
  Tracked child = parent.fork();
  ASSERT_TRUE(child->reserve(2));
  child.write(tokens_from(100, 2));
  const std::string before = in_words(counts_of(engine));
  const auto refused = child->reserve(10 * block);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(refused.error().message, HasSubstr("blocks needed"));
  EXPECT_EQ(in_words(counts_of(engine)), before);
  EXPECT_EQ(child->reserved_tokens(), 2u);
  EXPECT_RIGHT_BYTES(child);
  EXPECT_RIGHT_BYTES(parent);
  ASSERT_TRUE(child.commit(tokens_from(100, 2)));
  EXPECT_RIGHT_BYTES(child);
}

// ---- rows() ------------------------------------------------------------------------------------

TEST(SequenceRows, ComeInOneChunkPerBlockCrossed) {
  Engine engine = open_engine(grouped_model(), 8);
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 5)));
  ASSERT_TRUE(sequence->reserve(40));
  for (std::uint64_t first = 5; first <= 45; ++first) {
    for (std::uint64_t count = 0; first + count <= 45; ++count) {
      const auto view = sequence->rows(1, StreamRole::kKv, first, count);
      ASSERT_TRUE(view);
      std::uint64_t next = first;
      for (std::uint64_t c = 0; c < view->size(); ++c) {
        const RowChunk chunk = (*view)[c];
        ASSERT_EQ(chunk.first_token, next);
        ASSERT_GT(chunk.rows, 0u);
        ASSERT_EQ(chunk.first_token / kBlock, (chunk.first_token + chunk.rows - 1) / kBlock);
        ASSERT_EQ(chunk.row_bytes, 32u);
        next += chunk.rows;
      }
      ASSERT_EQ(next, first + count);
    }
  }
}

TEST(SequenceRows, OnlyReservedPositionsCanBeWritten) {
  Engine engine = open_engine(grouped_model(), 8);
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 5)));
  ASSERT_TRUE(sequence->reserve(3));
  const auto refused = [&](std::uint32_t layer, StreamRole role, std::uint64_t first,
                           std::uint64_t count) {
    const auto view = sequence->rows(layer, role, first, count);
    EXPECT_FALSE(view);
    return view ? std::string() : view.error().message;
  };
  EXPECT_THAT(refused(0, StreamRole::kKv, 4, 1), HasSubstr("position 4; allowed: reserved"));
  EXPECT_THAT(refused(0, StreamRole::kKv, 5, 4), HasSubstr("positions 5 to 8"));
  EXPECT_THAT(refused(0, StreamRole::kKv, 9, 0), HasSubstr("position 9"));
  EXPECT_THAT(refused(0, StreamRole::kKv, 6, UINT64_MAX), HasSubstr("positions 5 to 8"));
  EXPECT_THAT(refused(0, StreamRole::kKv, UINT64_MAX, 2), HasSubstr("positions 5 to 8"));
  EXPECT_THAT(refused(2, StreamRole::kKv, 5, 1), HasSubstr("layer 2"));
  EXPECT_THAT(refused(0, StreamRole::kLatent, 5, 1), HasSubstr("latent"));
  EXPECT_FALSE(sequence->inputs(2, nullptr, 0, 1));
  EXPECT_FALSE(sequence->inputs(0, nullptr, 8, 1));
  EXPECT_FALSE(sequence->inputs(0, nullptr, 1, UINT64_MAX));
  EXPECT_TRUE(sequence->inputs(0, nullptr, 7, 1));
}

// ---- reserve and commit ------------------------------------------------------------------------

// Several tokens appended at once took too few blocks.
TEST(SequenceReserve, TakesTheBlocksOfTheWholeStep) {
  struct Case {
    std::uint64_t length, more, blocks;
  };
  for (const Case& one : {Case{31, 4, 1}, {15, 18, 2}, {16, 1, 1}, {16, 0, 0}, {0, 16, 1}}) {
    Engine engine = open_engine(grouped_model(), 8);
    Tracked sequence = start(engine, {});
    ASSERT_TRUE(sequence.extend(tokens_from(1, one.length)));
    const std::size_t before = sequence->held_blocks(0).size();
    ASSERT_TRUE(sequence->reserve(one.more));
    EXPECT_EQ(sequence->held_blocks(0).size() - before, one.blocks) << one.length;
  }
}

TEST(SequenceReserve, RefusesMoreThanAStepAtOnce) {
  Engine engine = open_engine(grouped_model(), 8, {.step_tokens = 10});
  Tracked sequence = start(engine, {});
  EXPECT_THAT(sequence->reserve(11).error().message, HasSubstr("step_tokens = 10"));
  ASSERT_TRUE(sequence->reserve(6));
  EXPECT_THAT(sequence->reserve(5).error().message, HasSubstr("5 tokens behind 6 reserved"));
  EXPECT_FALSE(sequence->reserve(UINT64_MAX));
  EXPECT_TRUE(sequence->reserve(4));
  EXPECT_EQ(sequence->reserved_tokens(), 10u);
}

// A step of 2^64 - 1 tokens wrapped the row count, so that blocks for none were taken.
TEST(SequenceReserve, ALargestStepNeverWraps) {
  Engine engine = open_engine(grouped_model(), 8, {.step_tokens = kSequenceTokensMax});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 5)));
  EXPECT_EQ(sequence->reserve(kSequenceTokensMax).error().code, ErrorCode::OutOfBlocks);
  EXPECT_EQ(sequence->reserve(UINT64_MAX).error().code, ErrorCode::Invalid);
  EXPECT_EQ(sequence->reserved_tokens(), 0u);
}

TEST(SequenceCommit, IdsWithinThePromptMustBeThePrompts) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> prompt = tokens_from(100, 20);
  Tracked sequence = start(engine, {.tokens = prompt});
  ASSERT_TRUE(sequence->reserve(30));
  sequence.write(tokens_from(100, 30));
  const auto refused = sequence.commit(joined(tokens_from(100, 17), {7}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("token 7 at position 17; the prompt has 117"));
  EXPECT_EQ(sequence->tokens(), 0u);
  EXPECT_EQ(sequence->reserved_tokens(), 30u);
  ASSERT_TRUE(sequence.commit(tokens_from(100, 30))) << "behind the prompt any id is right";
  EXPECT_FALSE(sequence.commit(tokens_from(0, 1))) << "nothing is reserved";
  EXPECT_RIGHT_BYTES(sequence);
}

// Rejected draft tokens were cached under a hash.
TEST(SequenceCommit, RejectedDraftsAreNeverFound) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> accepted = tokens_from(1, 31);
  const std::vector<TokenId> drafts = joined(tokens_from(1, 30), {31, 900, 901, 902});
  {
    Tracked sequence = start(engine, {});
    ASSERT_TRUE(sequence.extend(tokens_from(1, 30)));
    ASSERT_TRUE(sequence->reserve(4));
    sequence.write(std::span(drafts).last(4));
    ASSERT_TRUE(sequence.commit(std::vector<TokenId>{31}));
    EXPECT_EQ(sequence->reserved_tokens(), 3u);
    EXPECT_EQ(hit(engine, {.tokens = joined(drafts, {7})}), 16u) << "one full block is stored";
    // The rejected rows are written again, over the block's edge.
    sequence.write(tokens_from(32, 3));
    ASSERT_TRUE(sequence.commit(tokens_from(32, 3)));
    EXPECT_RIGHT_BYTES(sequence);
  }
  EXPECT_EQ(hit(engine, {.tokens = joined(drafts, {7})}), 16u);
  EXPECT_EQ(hit(engine, {.tokens = joined(accepted, tokens_from(32, 9))}), 32u);
  expect_all_given_back(engine);
}

TEST(SequenceCommit, NothingIsFindableBefore) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> prompt = tokens_from(1, 33);
  Tracked sequence = start(engine, {.tokens = prompt});
  ASSERT_TRUE(sequence->reserve(33));
  sequence.write(prompt);
  EXPECT_EQ(hit(engine, {.tokens = prompt}), 0u);
  ASSERT_TRUE(sequence.commit(std::span(prompt).first(16)));
  EXPECT_EQ(hit(engine, {.tokens = prompt}), 16u);
  ASSERT_TRUE(sequence.commit(std::span(prompt).subspan(16)));
  EXPECT_EQ(hit(engine, {.tokens = prompt}), 32u);
}

TEST(SequenceCancel, KeepsTheWrittenTailOnly) {
  Engine engine = open_engine(two_group_model(), 12);
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 21)));
  const auto before = in_words(counts_of(engine));
  ASSERT_TRUE(sequence->reserve(50));
  sequence.write(tokens_from(700, 50));
  sequence.cancel();
  EXPECT_EQ(in_words(counts_of(engine)), before);
  EXPECT_RIGHT_BYTES(sequence);
  ASSERT_TRUE(sequence.extend(tokens_from(22, 30)));
  EXPECT_RIGHT_BYTES(sequence);
}

TEST(SequenceFork, IsRefusedWithRowsReserved) {
  Engine engine = open_engine(grouped_model(), 8);
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence->reserve(3));
  EXPECT_THAT(sequence->fork().error().message, HasSubstr("3 tokens reserved"));
  sequence.cancel();
  EXPECT_TRUE(sequence->fork());
}

// Forked sequences past the window freed a shared block twice.
TEST(SequenceFork, ABlockBehindTheWindowsOfBothIsFreedOnce) {
  Engine engine = open_engine(two_group_model(32), 14);
  {
    std::optional<Tracked> first(start(engine, {}));
    ASSERT_TRUE(first->extend(tokens_from(1, 48)));
    Tracked second = first->fork();
    for (TokenId step = 0; step < 6; ++step) {
      ASSERT_TRUE(first->extend(tokens_from(1000 + 8 * step, 8)));
      ASSERT_TRUE(second.extend(tokens_from(5000 + 8 * step, 8)));
      EXPECT_RIGHT_BYTES(*first);
      EXPECT_RIGHT_BYTES(second);
    }
    first.reset();
    ASSERT_TRUE(second.extend(tokens_from(9000, 8)));
    EXPECT_RIGHT_BYTES(second);
  }
  expect_all_given_back(engine);
}

// A query whose window reached rows that were released got attention over what was left of it.
TEST(SequenceInputs, AreRefusedWhereTheWindowHasLostRows) {
  constexpr std::uint64_t kWindow = 20;
  Engine engine = open_engine(two_group_model(kWindow), 16);
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 128)));
  // 128 + 1 - 20 = 109 is the first visible row; whole blocks before it are gone: rows 0 to 95.
  const std::uint64_t first_readable = 96 + kWindow - 1;
  for (std::uint64_t position = 0; position < 128; ++position) {
    const auto windowed = sequence->inputs(0, nullptr, position, 1);
    EXPECT_EQ(windowed.has_value(), position >= first_readable) << position;
    EXPECT_TRUE(sequence->inputs(2, nullptr, position, 1)) << "a full layer sees all";
  }
  const auto refused = sequence->inputs(0, nullptr, 50, 1);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("allowed: positions from 115"));
  EXPECT_TRUE(sequence->inputs(0, nullptr, 128, 0)) << "the next token";
}

TEST(SequenceDeathTest, AMovedFromSequenceIsNamedAsSuch) {
  Engine engine = open_engine(grouped_model(), 8);
  auto sequence = engine.start({}).value();
  const Sequence other = std::move(sequence);
  EXPECT_DEATH((void)sequence.tokens(), "was not moved from");  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace emblema
