// Opening an engine, asking it, and what happens at its edges: wrong options, too little memory,
// objects that outlive it, accounting without bytes, deferred sharing.
#include "emblema/session/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::AllOf;
using testing::HasSubstr;

Error refusal(const ModelConfig& model, const EngineOptions& options,
              KvDtype dtype = KvDtype::kBf16) {
  const auto engine = Engine::open(geometry_of(model, dtype), options);
  EXPECT_FALSE(engine);
  return engine ? Error{ErrorCode::NotFound, "no error"} : engine.error();
}

TEST(EngineOpen, NamesTheOptionTheValueAndWhatIsAllowed) {
  const std::uint64_t bytes = pool_bytes(geometry_of(grouped_model()), 8);
  const Error step = refusal(grouped_model(), {.pool_bytes = bytes, .step_tokens = 0});
  EXPECT_EQ(step.code, ErrorCode::Invalid);
  EXPECT_THAT(step.message, HasSubstr("step_tokens is 0; allowed: 1 to"));
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = bytes, .step_tokens = UINT64_MAX}).message,
              HasSubstr("step_tokens is 18446744073709551615"));
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = bytes, .max_sequences = 0}).message,
              HasSubstr("max_sequences is 0"));
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = bytes, .digest_bits_for_test = 257}).message,
              HasSubstr("digest_bits_for_test is 257"));
  EXPECT_THAT(
      refusal(grouped_model(), {.pool_bytes = bytes, .sequence_tokens = UINT64_MAX}).message,
      HasSubstr("sequence_tokens is 18446744073709551615"));
}

TEST(EngineOpen, RefusesChoicesAndSizesThatMeanNothing) {
  const std::uint64_t bytes = pool_bytes(geometry_of(grouped_model()), 64);
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = bytes, .steps_max = UINT64_MAX}).message,
              HasSubstr("steps_max is 18446744073709551615; allowed: 1 to"));
  EXPECT_THAT(
      refusal(grouped_model(), {.pool_bytes = bytes, .draft_tokens_max = UINT64_MAX}).message,
      HasSubstr("draft_tokens_max is 18446744073709551615"));
  EXPECT_THAT(
      refusal(grouped_model(), {.pool_bytes = bytes, .snapshots = static_cast<SnapshotPolicy>(9)})
          .message,
      HasSubstr("snapshots is 9"));
  EXPECT_THAT(
      refusal(grouped_model(), {.pool_bytes = bytes, .seal = static_cast<SealMode>(9)}).message,
      HasSubstr("seal is 9"));
  // A pool lost memory to snapshots that its model never leaves.
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = bytes, .snapshot_bytes = 64}).message,
              HasSubstr("snapshot_bytes is 64; allowed: 0, for this model has no state"));
  EXPECT_THAT(
      refusal(samples::deepseek_v4("tiny-v4", 4, 2, 0),
              {.pool_bytes = 1u << 28, .snapshots = SnapshotPolicy::kZero, .snapshot_bytes = 64})
          .message,
      HasSubstr("the policy zero leaves none"));
  EXPECT_THAT(refusal(grouped_model(), {.pool_bytes = UINT64_MAX, .metadata_only = true}).message,
              AllOf(HasSubstr("pool_bytes is 18446744073709551615"), HasSubstr("blocks")));
}

TEST(EngineOpen, APoolTooSmallNamesTheBytesNeeded) {
  // One block of each group: 16 tokens x 32 bytes a row; 2 window layers and 1 full one.
  const Error error = refusal(two_group_model(), {.pool_bytes = 16 * 32 * 3 - 1});
  EXPECT_EQ(error.code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(error.message, AllOf(HasSubstr("pool_bytes is 1535"), HasSubstr("1536")));
  EXPECT_EQ(refusal(two_group_model(), {}).code, ErrorCode::OutOfBlocks);
}

TEST(EngineOpen, RefusesRowsOfAnEncoder) {
  ModelConfig model = grouped_model();
  model.layers[1].has_cross_attention = true;
  const Error error = refusal(model, {.pool_bytes = std::uint64_t{1} << 30});
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("layer 1"), HasSubstr("cross stream")));
}

// An engine that could not attend over a type refused to hold it for somebody else's kernels.
TEST(EngineOpen, HoldsRowsThatNoKernelHereReads) {
  Engine engine = open_engine(latent_model(), 4, {}, KvDtype::kFp8Rope16);
  Sequence sequence = engine.start({}).value();
  ASSERT_TRUE(sequence.reserve(3));
  EXPECT_TRUE(sequence.rows(0, StreamRole::kLatent, 0, 3));
  const auto inputs = sequence.inputs(0, nullptr, 0, 0);
  ASSERT_FALSE(inputs);
  EXPECT_EQ(inputs.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(inputs.error().message, AllOf(HasSubstr("layer 0"), HasSubstr("fp8")));
}

TEST(EngineOpen, SaysHowRowsInEightBitsAreStored) {
  ModelConfig model = samples::deepseek_v3();
  model.num_hidden_layers = 1;
  model.layers.resize(1);
  for (const auto& [dtype, format, row_bytes] :
       {std::tuple{KvDtype::kFp8, RowFormat::kPlain, 576U},
        std::tuple{KvDtype::kFp8DsMla, RowFormat::kFp8DsMla, 656U}}) {
    Engine engine = open_engine(model, 4, {}, dtype);
    Sequence sequence = engine.start({}).value();
    ASSERT_TRUE(sequence.reserve(3));
    const auto inputs = sequence.inputs(0, nullptr, 0, 0);
    ASSERT_TRUE(inputs) << inputs.error().describe();
    EXPECT_EQ(inputs->rows.format, format);
    EXPECT_EQ(inputs->rows.row_bytes, row_bytes);
    EXPECT_EQ(inputs->rows.block_count, 4U);
    EXPECT_NE(inputs->rows.base, nullptr);
  }
}

TEST(EngineStart, ExtraIdsMustLieWithinThePromptInOrder) {
  Engine engine = open_engine(grouped_model(), 8);
  const std::vector<TokenId> prompt = tokens_from(1, 10);
  const auto refused = [&](const std::vector<ExtraId>& extra) {
    const StartRequest request = {.tokens = prompt, .extra = extra};
    EXPECT_FALSE(engine.segment(request));
    const auto sequence = engine.start(request);
    EXPECT_FALSE(sequence);
    return sequence ? std::string() : sequence.error().message;
  };
  EXPECT_THAT(refused({{10, {}}}), HasSubstr("extra id 0 at offset 10; allowed: within the 10"));
  EXPECT_THAT(refused({{UINT64_MAX, {}}}), HasSubstr("offset 18446744073709551615"));
  EXPECT_THAT(refused({{4, {}}, {3, {}}}), HasSubstr("extra id 1 at offset 3 behind one at 4"));
  const std::vector<ExtraId> two_at_one_place = {{4, {}}, {4, {}}};
  EXPECT_TRUE(engine.start({.tokens = prompt, .extra = two_at_one_place}));
  expect_all_given_back(engine);
}

// An image in the prompt was left out of the key: another picture's cache was served.
TEST(EngineStart, AnotherPictureIsAnotherPrompt) {
  Engine engine = open_engine(grouped_model(), 16);
  const std::vector<TokenId> prompt = tokens_from(1, 49);
  Digest cat;
  cat.bytes[0] = 1;
  Digest dog;
  dog.bytes[0] = 2;
  const std::vector<ExtraId> with_cat = {{20, cat}};
  const std::vector<ExtraId> with_dog = {{20, dog}};
  const std::vector<ExtraId> cat_later = {{21, cat}};
  store(engine, {.tokens = prompt, .extra = with_cat});
  EXPECT_EQ(hit(engine, {.tokens = prompt, .extra = with_cat}), 48u);
  EXPECT_EQ(hit(engine, {.tokens = prompt, .extra = with_dog}), 16u);
  EXPECT_EQ(hit(engine, {.tokens = prompt, .extra = cat_later}), 16u);
  EXPECT_EQ(hit(engine, {.tokens = prompt}), 16u);
}

// Prompts of one tenant, adapter or salt were served to another.
TEST(EngineStart, EveryIdentityHitsItsOwnOnly) {
  Engine engine = open_engine(grouped_model(), 32);
  const std::vector<TokenId> prompt = tokens_from(1, 17);
  Digest v1;
  v1.bytes[0] = 1;
  Digest v2;
  v2.bytes[0] = 2;
  const std::vector<StartRequest> all = {
      {.tokens = prompt},
      {.tokens = prompt, .tenant = "a"},
      {.tokens = prompt, .tenant = "a", .salt = "s"},
      {.tokens = prompt, .tenant = "as"},
      {.tokens = prompt, .adapter = v1},
      {.tokens = prompt, .adapter = v2},
  };
  for (std::size_t stored = 0; stored < all.size(); ++stored) {
    store(engine, all[stored]);
    for (std::size_t asked = 0; asked < all.size(); ++asked) {
      EXPECT_EQ(hit(engine, all[asked]), asked <= stored ? 16u : 0u) << stored << " " << asked;
    }
  }
  expect_all_given_back(engine);
}

TEST(EnginePin, KeepsAPrefixWhateverIsWanted) {
  for (const bool two_groups : {false, true}) {
    Engine engine = open_engine(two_groups ? two_group_model() : grouped_model(), 10);
    const std::vector<TokenId> prompt = tokens_from(1, 48);
    store(engine, {.tokens = prompt});
    {
      const Pin pin = engine.pin({.tokens = prompt});
      EXPECT_EQ(pin.tokens(), 48u);
      Tracked greedy = start(engine, {});
      Status ok;
      for (TokenId token = 1000; ok && greedy->tokens() < 400; token += 8) {
        ok = greedy.extend(tokens_from(token, 8));
      }
      EXPECT_FALSE(ok) << "the pool ends";
      EXPECT_EQ(hit(engine, {.tokens = joined(prompt, {9})}), 48u);
      engine.evict_idle();
      EXPECT_EQ(hit(engine, {.tokens = joined(prompt, {9})}), 48u);
    }
    expect_all_given_back(engine);
  }
}

TEST(EngineWhy, AnswersWhatStartWouldFindAndChangesNothing) {
  Engine engine = open_engine(two_group_model(), 16);
  const std::vector<TokenId> prompt = tokens_from(1, 49);
  store(engine, {.tokens = prompt, .tenant = "a"});
  const auto counts = in_words(counts_of(engine));
  const BlockStats stats = engine.stats().blocks;
  const auto report = engine.why({.tokens = prompt, .tenant = "a", .salt = {}});
  ASSERT_TRUE(report) << report.error().message;
  const auto salted = engine.why({.tokens = prompt, .tenant = "a", .salt = "s"});
  ASSERT_TRUE(salted);
  EXPECT_EQ(salted->hit_tokens, 0u);
  EXPECT_EQ(salted->blocks[0].verdict, Verdict::kIdentityDiffers);
  EXPECT_EQ(engine.why({.tokens = prompt, .tenant = "b"})->blocks[0].verdict,
            Verdict::kAnotherTenant);
  EXPECT_EQ(in_words(counts_of(engine)), counts);
  EXPECT_TRUE(engine.stats().blocks == stats);
  EXPECT_EQ(report->hit_tokens, hit(engine, {.tokens = prompt, .tenant = "a"}));
  const std::vector<ExtraId> outside = {{49, {}}};
  EXPECT_EQ(engine.why({.tokens = prompt, .extra = outside}).error().code, ErrorCode::Invalid);
  expect_sound(engine);
}

TEST(EngineEvents, ReachTheSinkOfTheOptions) {
  std::vector<CacheEvent> events;
  // Whole digests, also where the suite runs with cut ones: no event of a collision.
  Engine engine = open_engine(grouped_model(), 8,
                              {.event_sink = [&](const CacheEvent& one) { events.push_back(one); },
                               .digest_bits_for_test = 255});
  store(engine, {.tokens = tokens_from(1, 16), .tenant = "a"});
  ASSERT_EQ(events.size(), 1u) << "16 tokens with all but one to be hit: none was looked for";
  EXPECT_EQ(events[0].kind, CacheEvent::Kind::kStored);
  EXPECT_EQ(events[0].tokens, 16u);
  EXPECT_EQ(events[0].tenant, "a");
}

TEST(EngineLife, SequencesSegmentsAndPinsOutliveTheEngine) {
  std::optional<Engine> engine(open_engine(two_group_model(), 24));
  const std::vector<TokenId> prompt = tokens_from(1, 33);
  const std::vector<TokenId> document = tokens_from(9000, 20);
  store(*engine, {.tokens = prompt});
  std::optional<Segment> segment(segment_of(*engine, {.tokens = document}));
  std::optional<Pin> pin(engine->pin({.tokens = prompt}));
  std::optional<Sequence> sequence(engine->start({.tokens = prompt}).value());
  auto lookup = engine->segment({.tokens = prompt}).value();
  engine.reset();
  ASSERT_TRUE(sequence->reserve(4));
  std::optional<Sequence> moved(std::move(*sequence));
  sequence.reset();
  EXPECT_EQ(moved->tokens(), 32u);
  moved.reset();
  segment.reset();
  lookup.builder.reset();
  pin.reset();  // the last one takes the memory with it
}

TEST(EngineMetadataOnly, CountsLikeAnEngineWithBytes) {
  for (const bool two_groups : {false, true}) {
    const ModelConfig model = two_groups ? two_group_model() : grouped_model();
    Engine with_bytes = open_engine(model, 20, {.share_content = false});
    Engine without = open_engine(model, 20, {.metadata_only = true});
    const std::vector<TokenId> prompt = tokens_from(1, 40);
    for (int round = 0; round < 3; ++round) {
      store(with_bytes, {.tokens = prompt});
      auto sequence = without.start({.tokens = prompt}).value();
      EXPECT_EQ(sequence.hit_tokens(), round == 0 ? 0u : 32u);
      const auto rest = std::span(prompt).subspan(sequence.tokens());
      ASSERT_TRUE(sequence.reserve(rest.size()));
      EXPECT_EQ(sequence.rows(0, StreamRole::kKv, sequence.tokens(), 1).error().code,
                ErrorCode::Unsupported);
      EXPECT_EQ(sequence.inputs(0, nullptr, 0, 1).error().code, ErrorCode::Unsupported);
      ASSERT_TRUE(sequence.commit(rest));
      EXPECT_TRUE(sequence.row_bytes(0, StreamRole::kKv, 0).empty());
      ASSERT_TRUE(sequence.fork());
    }
    EXPECT_EQ(in_words(counts_of(without)), in_words(counts_of(with_bytes)));
    expect_sound(without);
  }
}

TEST(EngineMetadataOnly, TakesNoMemoryForAPoolOfTerabytes) {
  auto engine = Engine::open(geometry_of(samples::deepseek_v3()),
                             {.pool_bytes = std::uint64_t{1} << 42, .metadata_only = true});
  ASSERT_TRUE(engine) << engine.error().message;
  // 61 layers x 64 tokens x 1152 bytes.
  EXPECT_EQ(engine->stats().totals.capacity,
            (std::uint64_t{1} << 42) / (std::uint64_t{61} * 64 * 1152));
}

// ---- deferred sharing --------------------------------------------------------------------------

// A refused reserve had moved the holds to equal blocks and left the spans at the old ones, which
// somebody else then wrote to.
TEST(EngineDeferredSeal, ARefusedReserveStillReadsItsOwnBytes) {
  Engine engine = open_engine(grouped_model(), 4, {.seal = SealMode::kDeferred});
  const std::vector<TokenId> document = tokens_from(9000, 16);
  const Segment segment = segment_of(engine, {.tokens = document});
  Tracked sequence = start(engine, {.tokens = document});
  ASSERT_TRUE(sequence.extend(document));  // the same bytes under another key
  ASSERT_NE(sequence->held_blocks(0), segment.held_blocks(0));
  EXPECT_EQ(engine.seal_pending(UINT64_MAX), 2u);
  EXPECT_EQ(sequence->reserve(100).error().code, ErrorCode::OutOfBlocks);
  EXPECT_EQ(sequence->held_blocks(0), segment.held_blocks(0)) << "one block, two holders";
  ASSERT_EQ(engine.counts(0).free, 3u);
  Tracked other = start(engine, {});
  ASSERT_TRUE(other.extend(tokens_from(1, 48)));
  EXPECT_RIGHT_BYTES(other);
  EXPECT_RIGHT_BYTES(sequence);
}

TEST(EngineDeferredSeal, HoldersFollowWhenTheyGoOn) {
  Engine engine = open_engine(two_group_model(), 24, {.seal = SealMode::kDeferred});
  const std::vector<TokenId> prompt = tokens_from(1, 16);
  Tracked first = start(engine, {.tenant = "t"});
  Tracked second = start(engine, {.tenant = "t"});
  ASSERT_TRUE(first.extend(prompt));
  ASSERT_TRUE(second.extend(prompt));
  const std::vector<TokenId> document = tokens_from(9000, 20);
  ASSERT_TRUE(first.extend(tokens_from(50, 20)));
  ASSERT_TRUE(second.extend(tokens_from(50, 20)));
  engine.seal_pending(UINT64_MAX);
  ASSERT_TRUE(first.extend(tokens_from(70, 4)));
  ASSERT_TRUE(second.extend(tokens_from(80, 4)));
  EXPECT_EQ(first->held_blocks(0)[0], second->held_blocks(0)[0]);
  EXPECT_EQ(first->held_blocks(0)[1], second->held_blocks(0)[1]);
  EXPECT_RIGHT_BYTES(first);
  EXPECT_RIGHT_BYTES(second);
}

// The suite runs again with every digest cut (EMBLEMA_TEST_DIGEST_BITS): it must have met
// collisions, or the cut did not take.
class CutDigests : public testing::Environment {
  void TearDown() override {
    if (digest_bits_under_test() <= 8) {
      EXPECT_GT(collisions_seen(), 0u) << "no digest ever collided";
    }
  }
};
const testing::Environment* const kCutDigests =
    testing::AddGlobalTestEnvironment(new CutDigests);  // gtest owns it

}  // namespace
}  // namespace emblema
