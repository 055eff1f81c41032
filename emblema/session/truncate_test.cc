// Taking tokens back; windows and chunks that page; layers that share; several tokens at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/hybrid_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::AllOf;
using testing::HasSubstr;

ModelConfig chunk_model(std::uint32_t chunk_tokens) {
  ModelConfig model = grouped_model(3);
  for (const std::size_t layer : {0u, 2u}) {
    model.layers[layer].reach = LayerReach::kChunk;
    model.layers[layer].window_tokens = chunk_tokens;
  }
  return model;
}

// Layer 2 reads what layer 0 stored, layer 3 what layer 1 did.
ModelConfig shared_model() {
  ModelConfig model = grouped_model(4);
  samples::set_window(&model.layers[0], 20);
  samples::set_window(&model.layers[2], 20);
  for (const std::uint32_t layer : {2u, 3u}) {
    model.layers[layer].cache = LayerCache::kShared;
    model.layers[layer].shares_with = layer - 2;
  }
  return model;
}

struct Paged {
  std::string name;
  ModelConfig model;
};
void PrintTo(const Paged& paged, std::ostream* out) {
  *out << paged.name;
}
class TruncatePaged : public testing::TestWithParam<Paged> {};
INSTANTIATE_TEST_SUITE_P(All, TruncatePaged,
                         testing::Values(Paged{"Grouped", grouped_model()},
                                         Paged{"Latent", latent_model()},
                                         Paged{"Window", two_group_model()},
                                         Paged{"Chunk", chunk_model(24)},
                                         Paged{"Shared", shared_model()}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(TruncatePaged, ToAnyLengthAndOnFromThere) {
  const std::vector<TokenId> prompt = tokens_from(1, 70);
  for (std::uint64_t n = 0; n <= prompt.size(); ++n) {
    Engine engine = open_engine(GetParam().model, 24, {.step_tokens = 64});
    Hybrid sequence = start_hybrid(engine, {.tokens = prompt});
    ASSERT_TRUE(sequence.run(prompt, 33));
    ASSERT_TRUE(sequence->reserve(5));
    const auto again = sequence.truncate(n);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(sequence->reserved_tokens(), 0u);
    // What had to be run again is all within the window or chunk, and known to be the prompt.
    ASSERT_EQ(again->first + again->count, n);
    ASSERT_EQ(sequence.tokens(), again->first);
    ASSERT_EQ(sequence.first_wrong_byte(), "") << n;
    ASSERT_TRUE(sequence.step(std::span(prompt).subspan(again->first, again->count)));
    ASSERT_TRUE(sequence.step(tokens_from(700, 20)));
    ASSERT_EQ(sequence.first_wrong_byte(), "") << n;
    // The chain goes on behind the tokens kept, not behind those taken back.
    std::vector<TokenId> now(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n));
    now = joined(now, tokens_from(700, 20));
    const std::uint64_t boundary = engine.layout().groups[0].block_tokens;
    Hybrid other = start_hybrid(engine, {.tokens = now});
    EXPECT_EQ(other.tokens(), (now.size() - 1) / boundary * boundary) << n;
    EXPECT_EQ(other.first_wrong_byte(), "");
    expect_sound(engine);
  }
}

TEST_P(TruncatePaged, AForkIsNotTouched) {
  Engine engine = open_engine(GetParam().model, 40, {.step_tokens = 64});
  for (const std::uint64_t n : {0u, 1u, 15u, 16u, 17u, 40u, 63u}) {
    Hybrid parent = start_hybrid(engine, {});
    ASSERT_TRUE(parent.run(tokens_from(1, 64), 64));
    Hybrid child = parent.fork();
    const auto again = parent.truncate(n);
    ASSERT_TRUE(again);
    const std::vector<TokenId> ids = tokens_from(1, 64);
    ASSERT_TRUE(parent.step(std::span(ids).subspan(again->first, again->count)));
    ASSERT_TRUE(parent.step(tokens_from(500, 9)));
    ASSERT_EQ(child.first_wrong_byte(), "") << n;
    ASSERT_EQ(parent.first_wrong_byte(), "") << n;
  }
  expect_all_given_back(engine);
}

// A window's blocks were released too early by one, or too late.
TEST(WindowRelease, IsAtTheExactEdgeAndLaterByTheDraftsThatMayComeBack) {
  for (const std::uint64_t drafts : {0u, 3u, 16u}) {
    Engine engine = open_engine(two_group_model(20), 16, {.draft_tokens_max = drafts});
    Hybrid sequence = start_hybrid(engine, {});
    for (std::uint64_t n = 1; n <= 120; ++n) {
      ASSERT_TRUE(sequence.step(tokens_from(static_cast<TokenId>(n), 1)));
      const std::uint64_t kept = n - std::min(n, drafts);
      const std::uint64_t released = (kept + 1 > 20 ? kept + 1 - 20 : 0) / 16;
      ASSERT_EQ(sequence->held_blocks(1).size(), ceil_div(n, 16) - released) << n;
      ASSERT_EQ(sequence->held_blocks(0).size(), ceil_div(n, 16));
    }
    if (drafts == 0) continue;
    const auto again = sequence.truncate(120 - drafts);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->count, 0u) << "within draft_tokens_max it is exact";
    EXPECT_EQ(sequence.first_wrong_byte(), "");
  }
}

TEST(ChunkRelease, DropsTheBlocksOfChunksThatAreOver) {
  for (const std::uint32_t chunk : {16u, 24u, 32u}) {
    Engine engine = open_engine(chunk_model(chunk), 16);
    Hybrid sequence = start_hybrid(engine, {});
    for (std::uint64_t n = 1; n <= 120; ++n) {
      ASSERT_TRUE(sequence.step(tokens_from(static_cast<TokenId>(n), 1)));
      const std::uint64_t released = n / chunk * chunk / 16;
      ASSERT_EQ(sequence->held_blocks(1).size(), ceil_div(n, 16) - released) << n;
    }
    EXPECT_EQ(sequence.first_wrong_byte(), "");
    const auto inputs = sequence->inputs(0, nullptr, 120, 0);
    ASSERT_TRUE(inputs);
    EXPECT_EQ(inputs->shape.chunk_tokens, chunk);
  }
}

TEST(ChunkAttach, IsAtTheBeginOfAChunkOnly) {
  Engine engine = open_engine(chunk_model(24), 24);
  const std::vector<TokenId> document = tokens_from(9000, 10);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {});
  ASSERT_TRUE(sequence.extend(tokens_from(1, 23)));
  EXPECT_THAT(sequence->attach(segment).error().message,
              AllOf(HasSubstr("position 23"), HasSubstr("multiples of 24")));
  ASSERT_TRUE(sequence.extend(tokens_from(50, 1)));
  ASSERT_TRUE(sequence.attach(segment, identity_word({})));
  EXPECT_EQ(sequence->tokens(), 34u);
}

TEST(SharedRows, AreTheOwnersForReadingAndWriting) {
  Engine engine = open_engine(shared_model(), 16);
  Sequence sequence = engine.start({}).value();
  ASSERT_TRUE(sequence.reserve(5));
  for (const std::uint32_t layer : {2u, 3u}) {
    const RowView own = sequence.rows(layer - 2, StreamRole::kKv, 0, 5).value();
    const RowView shared = sequence.rows(layer, StreamRole::kKv, 0, 5).value();
    EXPECT_EQ(shared[0].data, own[0].data);
    const auto inputs = sequence.inputs(layer, nullptr, 0, 5).value();
    EXPECT_EQ(inputs.rows.base, sequence.inputs(layer - 2, nullptr, 0, 5)->rows.base);
    EXPECT_EQ(inputs.shape.window_tokens, layer == 2 ? 20u : 0u);
  }
  EXPECT_EQ(engine.layout().groups.size(), 2u);
  for (const BlockLayout& group : engine.layout().groups) EXPECT_EQ(group.pages.size(), 1u);
}

// ATOM pull 250, vllm pull 12193: too few blocks for several tokens at once; rejected draft tokens
// under a hash.
TEST(SeveralTokensAtOnce, TakeTheBlocksThatTheirLengthNeeds) {
  const std::uint64_t cases[][3] = {{31, 4, 1}, {15, 18, 2}, {16, 1, 1}, {16, 0, 0}};
  for (const auto& [length, more, extra] : cases) {
    Engine engine = open_engine(grouped_model(), 8);
    Hybrid sequence = start_hybrid(engine, {});
    ASSERT_TRUE(sequence.step(tokens_from(1, length)));
    const std::uint64_t held = sequence->held_blocks(0).size();
    ASSERT_TRUE(sequence->reserve(more));
    EXPECT_EQ(sequence->held_blocks(0).size() - held, extra) << length << " + " << more;
  }
}

TEST(SeveralTokensAtOnce, RejectedDraftsAreUnderNoKey) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> drafts = {501, 502, 503, 504};
  Hybrid sequence = start_hybrid(engine, {});
  ASSERT_TRUE(sequence.step(tokens_from(1, 30)));
  ASSERT_TRUE(sequence->reserve(4));
  sequence.write(drafts);
  ASSERT_TRUE(sequence.commit(std::span(drafts).first(1)));
  ASSERT_TRUE(sequence.truncate(31));
  EXPECT_EQ(sequence.tokens(), 31u);
  EXPECT_EQ(engine.counts(0).entries, 2u) << "the root and one whole block";
  const auto rejected = joined(joined(tokens_from(1, 30), drafts), {1, 2});
  EXPECT_EQ(start_hybrid(engine, {.tokens = rejected}).tokens(), 16u);
  // Committed and then taken back: findable, as they were accepted once; the sequence goes on.
  ASSERT_TRUE(sequence.step(tokens_from(600, 4)));
  ASSERT_TRUE(sequence.truncate(31));
  ASSERT_TRUE(sequence.step(tokens_from(700, 4)));
  EXPECT_EQ(sequence.first_wrong_byte(), "");
}

TEST(TruncateSegments, GoesToTheirEndsAndNeverInside) {
  Engine engine = open_engine(grouped_model(), 32);
  const std::vector<TokenId> document = tokens_from(9000, 21);
  const Segment segment = segment_of(engine, {.tokens = document});
  const auto story = [&] {
    Tracked sequence = start(engine, {});
    EXPECT_TRUE(sequence.extend(tokens_from(1, 18)));
    EXPECT_TRUE(sequence.attach(segment, identity_word({})));
    EXPECT_TRUE(sequence.attach(segment, identity_word({})));
    EXPECT_TRUE(sequence.extend(tokens_from(100, 20)));
    return sequence;
  };
  for (const std::uint64_t n : {0u, 5u, 16u, 18u, 39u, 60u, 61u, 75u, 80u}) {
    Tracked sequence = story();
    const auto again = sequence.truncate(n);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, (TokenRange{n, 0}));
    ASSERT_EQ(sequence->tokens(), n);
    EXPECT_RIGHT_BYTES(sequence);
    ASSERT_TRUE(sequence.extend(tokens_from(300, 20)));
    EXPECT_RIGHT_BYTES(sequence);
    ASSERT_TRUE(sequence.attach(segment, identity_word({}))) << n;
    EXPECT_RIGHT_BYTES(sequence);
  }
  Tracked sequence = story();
  for (const std::uint64_t n : {19u, 38u, 40u, 59u}) {
    EXPECT_THAT(sequence->truncate(n).error().message, HasSubstr("inside the segment attached at"));
  }
  EXPECT_THAT(sequence->truncate(81).error().message, HasSubstr("allowed: up to 80"));
  EXPECT_RIGHT_BYTES(sequence);
}

// An image's rows were found by a prompt that had only its tokens.
TEST(TruncateExtraIds, StayWhereTheyAreSoThatNobodyElseFindsWhatComesNext) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> tokens = tokens_from(1, 60);
  Digest image;
  image.bytes[0] = 1;
  const StartRequest with_image = {.tokens = tokens, .extra = {{40, image}}};
  {
    Sequence sequence = engine.start(with_image).value();
    ASSERT_TRUE(sequence.reserve(60));
    ASSERT_TRUE(sequence.commit(tokens));
    for (const std::uint64_t n : {35u, 48u}) {
      ASSERT_TRUE(sequence.truncate(n));
      ASSERT_TRUE(sequence.reserve(60 - n));
      ASSERT_TRUE(sequence.commit(std::span(tokens).subspan(n)));
    }
  }
  EXPECT_EQ(engine.start({.tokens = tokens})->hit_tokens(), 32u);
  EXPECT_EQ(engine.start(with_image)->hit_tokens(), 48u);
}

TEST(TruncateSegments, IsRefusedToABuilder) {
  Engine engine = open_engine(grouped_model(), 8);
  auto lookup = engine.segment({.tokens = tokens_from(1, 20)}).value();
  EXPECT_THAT(lookup.builder->sequence().truncate(0).error().message, HasSubstr("seal it first"));
}

}  // namespace
}  // namespace emblema
