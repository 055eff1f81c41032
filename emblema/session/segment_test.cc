// Segments: built once, found again, attached anywhere with zero copy, and never mistaken for the
// same tokens read behind a prefix. Every byte is compared after each step (session_testing.h).
#include "emblema/session/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::HasSubstr;

const StartRequest kNobody = {};

std::uint64_t nobody() {
  return identity_word(kNobody);
}

struct Kind {
  std::string name;
  ModelConfig model;
};

// As ctest names the case; without it, bytes that change with every run.
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class Segments : public testing::TestWithParam<Kind> {
 protected:
  Engine open(std::uint64_t blocks, const EngineOptions& options = {}) const {
    return open_engine(GetParam().model, blocks, options);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Segments,
                         testing::Values(Kind{"Gqa", grouped_model()}, Kind{"Mla", latent_model()},
                                         Kind{"WindowAndFull", two_group_model()},
                                         Kind{"WindowOfTwoBlocks", two_group_model(32)},
                                         Kind{"WindowOfOne", two_group_model(1)}),
                         [](const auto& made) { return made.param.name; });

TEST_P(Segments, AreFoundAgainWithTheirVeryBlocks) {
  Engine engine = open(16);
  const std::uint64_t block = engine.layout().groups[0].block_tokens;
  for (const std::size_t length : {std::size_t{1}, block - 1, block, block + 1, 2 * block + 3}) {
    {
      const std::vector<TokenId> document =
          tokens_from(static_cast<TokenId>(9000 + length), length);
      const StartRequest request = {.tokens = document};
      const Segment built = segment_of(engine, request);
      const std::uint64_t hits = engine.stats().blocks.segment_hit_tokens;
      auto again = engine.segment(request);
      ASSERT_TRUE(again);
      ASSERT_TRUE(again->found.has_value()) << length;
      EXPECT_FALSE(again->builder.has_value());
      EXPECT_EQ(again->found->tokens(), length);
      for (std::uint32_t g = 0; g < engine.layout().groups.size(); ++g) {
        EXPECT_EQ(again->found->held_blocks(g), built.held_blocks(g)) << length;
      }
      EXPECT_EQ(engine.stats().blocks.segment_hit_tokens - hits, length);
      EXPECT_EQ(engine.stats().blocks.copied_blocks, 0u);
    }
    engine.evict_idle();
  }
  expect_all_given_back(engine);
}

TEST_P(Segments, KeepTheirBytesWhereverTheyAreAttached) {
  Engine engine = open(24);
  const std::uint64_t block = engine.layout().groups[0].block_tokens;
  const std::vector<TokenId> document = tokens_from(9000, block + 5);
  {
    const Segment segment = segment_of(engine, {.tokens = document});
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, block - 1, block, block + 3}) {
      Tracked sequence = start(engine, {});
      ASSERT_TRUE(sequence.extend(tokens_from(1, at)));
      const std::uint64_t copies = engine.stats().blocks.copied_blocks;
      ASSERT_TRUE(sequence.attach(segment, nobody()));
      EXPECT_EQ(sequence->tokens(), at + document.size());
      EXPECT_EQ(engine.stats().blocks.copied_blocks, copies) << "attached without a copy";
      EXPECT_RIGHT_BYTES(sequence);
      ASSERT_TRUE(sequence.extend(tokens_from(500, 3)));
      EXPECT_RIGHT_BYTES(sequence);
      Tracked child = sequence.fork();
      ASSERT_TRUE(child.extend(tokens_from(600, block)));
      ASSERT_TRUE(sequence.extend(tokens_from(700, block)));
      EXPECT_RIGHT_BYTES(sequence);
      EXPECT_RIGHT_BYTES(child);
    }
  }
  expect_all_given_back(engine);
}

TEST(SegmentSpans, CarryTheStoredPositionAndTheDelta) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 5)));
  ASSERT_TRUE(sequence.attach(segment, nobody()));
  ASSERT_TRUE(sequence.attach(segment, nobody())) << "twice in a row";
  ASSERT_TRUE(sequence.extend(tokens_from(100, 2)));
  struct Expected {
    std::uint64_t rows;
    std::int64_t position;
    std::int64_t delta;
  };
  const std::vector<Expected> expected = {{5, 0, 0}, {20, 0, 5}, {20, 0, 25}, {2, 45, 0}};
  const std::span<const Span> spans = sequence->spans(0);
  ASSERT_EQ(spans.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(spans[i].rows, expected[i].rows) << i;
    EXPECT_EQ(spans[i].position, expected[i].position) << i;
    EXPECT_EQ(spans[i].delta, expected[i].delta) << i;
  }
  EXPECT_EQ(spans[1].blocks[0], spans[2].blocks[0]) << "the same memory";
  EXPECT_RIGHT_BYTES(sequence);
}

TEST(SegmentSpans, AttachedOnAnEmptySequenceHasNoDelta) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.attach(segment, nobody()));
  ASSERT_EQ(sequence->spans(0).size(), 1u);
  EXPECT_EQ(sequence->spans(0)[0].delta, 0);
  EXPECT_RIGHT_BYTES(sequence);
}

// The same ids once plain and once with a segment are two different things: what stands behind a
// segment was computed over a document that saw nothing before it.
TEST(SegmentChain, PlainTokensNeverMeetTheSameTokensBehindASegment) {
  const std::vector<TokenId> preamble = tokens_from(1, 16);
  const std::vector<TokenId> document = tokens_from(9000, 32);
  const std::vector<TokenId> question = tokens_from(500, 17);
  const std::vector<TokenId> plain = joined(joined(preamble, document), question);
  const auto run_plain = [&](Engine& engine) { store(engine, {.tokens = plain}); };
  const auto run_with_segment = [&](Engine& engine) {
    Tracked sequence = start(engine, {});
    ASSERT_TRUE(sequence.extend(preamble));
    const Segment segment = segment_of(engine, {.tokens = document});
    const auto hit_behind = sequence.attach(segment, nobody(), question);
    ASSERT_TRUE(hit_behind);
    EXPECT_EQ(*hit_behind, 0u);
    ASSERT_TRUE(sequence.extend(question));
    EXPECT_RIGHT_BYTES(sequence);
  };
  for (const bool plain_first : {true, false}) {
    Engine engine = open_engine(grouped_model(), 32);
    if (plain_first) {
      run_plain(engine);
      run_with_segment(engine);
    } else {
      run_with_segment(engine);
      EXPECT_EQ(hit(engine, {.tokens = plain}), 16u) << "the preamble, nothing behind it";
      run_plain(engine);
    }
    EXPECT_EQ(hit(engine, {.tokens = joined(plain, {7})}), 64u);
    expect_all_given_back(engine);
  }
}

TEST(SegmentChain, ASecondConversationHitsWhatStandsBehindTheSameSegment) {
  for (const std::size_t preamble_tokens : {std::size_t{0}, std::size_t{16}, std::size_t{21}}) {
    Engine engine = open_engine(two_group_model(), 40);
    const std::vector<TokenId> preamble = tokens_from(1, preamble_tokens);
    const std::vector<TokenId> document = tokens_from(9000, 37);
    const std::vector<TokenId> question = tokens_from(500, 40);
    const auto hit_behind = [&](const std::vector<TokenId>& before,
                                const std::vector<TokenId>& span_tokens,
                                const std::vector<TokenId>& following) {
      Tracked sequence = start(engine, {.tokens = before});
      EXPECT_TRUE(sequence.extend(std::span(before).subspan(sequence->tokens())));
      const Segment segment = segment_of(engine, {.tokens = span_tokens});
      const std::uint64_t found = sequence.attach(segment, nobody(), following).value();
      EXPECT_RIGHT_BYTES(sequence);
      EXPECT_TRUE(sequence.extend(std::span(following).subspan(found)));
      EXPECT_RIGHT_BYTES(sequence);
      return found;
    };
    EXPECT_EQ(hit_behind(preamble, document, question), 0u);
    EXPECT_EQ(hit_behind(preamble, document, question), 32u) << preamble_tokens;
    EXPECT_EQ(hit_behind(preamble, document, tokens_from(500, 32)), 16u) << "all but one token";
    EXPECT_EQ(hit_behind(joined(preamble, {4}), document, question), 0u) << "another delta";
    EXPECT_EQ(hit_behind(preamble, tokens_from(9000, 36), question), 0u) << "another segment";
    expect_all_given_back(engine);
  }
}

TEST(SegmentChain, TheTailBeforeASegmentIsPartOfTheLink) {
  Engine engine = open_engine(grouped_model(), 40);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const std::vector<TokenId> question = tokens_from(500, 20);
  const auto found_behind = [&](const std::vector<TokenId>& before) {
    Tracked sequence = start(engine, {});
    EXPECT_TRUE(sequence.extend(before));
    const Segment segment = segment_of(engine, {.tokens = document});
    const std::uint64_t found = sequence.attach(segment, nobody(), question).value();
    EXPECT_TRUE(sequence.extend(std::span(question).subspan(found)));
    EXPECT_RIGHT_BYTES(sequence);
    return found;
  };
  EXPECT_EQ(found_behind({1, 2, 3}), 0u);
  EXPECT_EQ(found_behind({1, 2, 4}), 0u) << "same length, another token before the segment";
  EXPECT_EQ(found_behind({1, 2, 3}), 16u);
}

TEST(SegmentContentShare, ASegmentAndAPromptOfTheSameTokensAreOneBlock) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> document = tokens_from(9000, 32);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {.tokens = document});
  EXPECT_EQ(sequence->hit_tokens(), 0u) << "a prompt never hits a segment";
  ASSERT_TRUE(sequence.extend(document));
  EXPECT_EQ(sequence->held_blocks(0), segment.held_blocks(0)) << "equal bytes are kept once";
  EXPECT_EQ(engine.stats().blocks.content_shared_blocks, 2u);
}

TEST(SegmentAttach, IsRefusedForAnotherIdentity) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(engine, {.tokens = document, .tenant = "a"});
  Digest adapter;
  adapter.bytes[0] = 1;
  const std::vector<StartRequest> others = {
      {.tenant = "b"}, {.tenant = "a", .salt = "s"}, {.tenant = "a", .adapter = adapter}};
  for (const StartRequest& other : others) {
    auto sequence = engine.start(other).value();
    const auto refused = sequence.attach(segment);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
    EXPECT_THAT(refused.error().message, HasSubstr("one identity"));
    EXPECT_EQ(sequence.tokens(), 0u);
  }
}

// Blocks of one pool were read from another's memory.
TEST(SegmentAttach, IsRefusedForAnotherEnginesSegment) {
  Engine here = open_engine(grouped_model(), 8);
  Engine there = open_engine(grouped_model(), 8);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(there, {.tokens = document});
  auto sequence = here.start({}).value();
  const auto refused = sequence.attach(segment);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("another engine's segment"));
}

TEST(SegmentAttach, IsRefusedWithRowsReservedAndToABuilder) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const std::vector<TokenId> other = tokens_from(1, 20);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence->reserve(2));
  EXPECT_THAT(sequence->attach(segment).error().message, HasSubstr("2 tokens reserved"));
  auto lookup = engine.segment({.tokens = other}).value();
  EXPECT_THAT(lookup.builder->sequence().attach(segment).error().message,
              HasSubstr("seal it first"));
  EXPECT_THAT(lookup.builder->sequence().fork().error().message, HasSubstr("seal it first"));
}

// The unread rest of the prompt was forgotten, and commit then took any ids for it.
TEST(SegmentAttach, IsRefusedBeforeThePromptIsRun) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const std::vector<TokenId> prompt = tokens_from(1, 10);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {.tokens = prompt});
  EXPECT_THAT(sequence->attach(segment).error().message, HasSubstr("10 tokens of the prompt"));
  ASSERT_TRUE(sequence.extend(prompt));
  EXPECT_TRUE(sequence->attach(segment));
}

// Dynamic NTK changes every frequency with the length: a row stored at 0 cannot be read at 5.
TEST(SegmentAttach, IsUnsupportedWhereFrequenciesDependOnTheLength) {
  ModelConfig model = grouped_model();
  model.max_positions = 4096;
  for (LayerFacts& layer : model.layers) {
    layer.rope.scaling = RopeScaling::kDynamic;
    layer.rope.factor = 2;
    layer.rope.original_max_positions = 2048;
  }
  Engine engine = open_engine(model, 16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 5)));
  const auto refused = sequence.attach(segment, nobody());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  Tracked at_zero = start(engine, {});
  EXPECT_TRUE(at_zero.attach(segment, nobody())) << "at its own position nothing turns";
}

TEST(SegmentBuilder, RefusesToSealBeforeTheEnd) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  auto lookup = engine.segment({.tokens = document}).value();
  SegmentBuilder& builder = *lookup.builder;
  const auto truth = truth_of(nobody(), document);
  EXPECT_THAT(builder.seal().error().message, HasSubstr("0 committed"));
  ASSERT_TRUE(builder.sequence().reserve(20));
  write_rows(engine, builder.sequence(), truth);
  EXPECT_FALSE(builder.sequence().commit(tokens_from(1, 20))) << "other tokens";
  ASSERT_TRUE(builder.sequence().commit(std::span(document).first(19)));
  EXPECT_THAT(builder.seal().error().message, HasSubstr("19 committed and 1 reserved"));
  EXPECT_FALSE(engine.segment({.tokens = document}).value().found.has_value());
  ASSERT_TRUE(builder.sequence().commit(std::span(document).last(1)));
  ASSERT_TRUE(builder.sequence().reserve(1)) << "room behind the end";
  EXPECT_FALSE(builder.sequence().commit(tokens_from(1, 1))) << "the segment has 20 tokens";
  builder.sequence().cancel();
  ASSERT_TRUE(builder.seal());
  EXPECT_TRUE(engine.segment({.tokens = document}).value().found.has_value());
}

TEST_P(Segments, SealedTwiceGiveTheSameBlocks) {
  Engine engine = open(16);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  {
    auto lookup = engine.segment({.tokens = document}).value();
    SegmentBuilder& builder = *lookup.builder;
    ASSERT_TRUE(builder.sequence().reserve(20));
    write_rows(engine, builder.sequence(), truth_of(nobody(), document));
    ASSERT_TRUE(builder.sequence().commit(document));
    const Segment first = builder.seal().value();
    const Segment second = builder.seal().value();
    EXPECT_EQ(first.held_blocks(0), second.held_blocks(0));
  }
  expect_all_given_back(engine);
}

// A segment that lost some of its blocks is built again from the longest whole boundary.
TEST_P(Segments, AreRebuiltFromWhatIsLeft) {
  Engine engine = open(8, {.sequence_tokens = 100});
  const std::uint64_t block = engine.layout().groups[0].block_tokens;
  const std::vector<TokenId> document = tokens_from(9000, 2 * block + 5);
  { const Segment built = segment_of(engine, {.tokens = document}); }
  {
    // All that is free, and one block more: the leaf of the segment's chain goes.
    Tracked other = start(engine, {});
    auto lookup = engine.segment({.tokens = document}).value();
    while (!lookup.builder) {
      lookup.found.reset();
      ASSERT_TRUE(other.extend(tokens_from(1, block)));
      lookup = engine.segment({.tokens = document}).value();
    }
    const std::uint64_t left = lookup.builder->sequence().hit_tokens();
    if (engine.layout().groups.size() == 1) {
      EXPECT_EQ(left, 2 * block);
    } else {
      EXPECT_LE(left, 2 * block) << "whole in both groups";
    }
  }
  const Segment again = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(77, 3)));
  ASSERT_TRUE(sequence.attach(again, nobody()));
  EXPECT_RIGHT_BYTES(sequence);
}

TEST(SegmentRequest, OfNothingIsRefused) {
  Engine engine = open_engine(grouped_model(), 8);
  const auto refused = engine.segment({});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("0 tokens"));
}

TEST(SegmentLife, OutlivesItsEngineAndItsBuilder) {
  std::optional<Engine> engine(open_engine(grouped_model(), 8));
  const std::vector<TokenId> document = tokens_from(9000, 20);
  const Segment segment = segment_of(*engine, {.tokens = document});
  auto sequence = engine->start({}).value();
  engine.reset();
  ASSERT_TRUE(sequence.attach(segment));
  EXPECT_EQ(sequence.tokens(), 20u);
}

}  // namespace
}  // namespace emblema
