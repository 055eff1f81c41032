// A call that is refused leaves no trace: every count is as it was.
#include <functional>

#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;

// All that an engine counts, but for the refusals themselves, and collisions of keys: one that was
// met stays a signal, whatever becomes of the request.
struct Everything {
  explicit Everything(const Engine& engine)
      : counts(counts_of(engine)),
        blocks(engine.stats().blocks),
        held_bytes(engine.usage("a").held_bytes) {
    blocks.refused_for_blocks = 0;
    blocks.key_collisions = 0;
  }
  friend bool operator==(const Everything&, const Everything&) = default;

  std::vector<BlockCounts> counts;
  BlockStats blocks;
  std::uint64_t held_bytes;
};

// One engine in the middle of its work, and every call that it must refuse.
class EveryRefusal : public testing::TestWithParam<bool> {
 protected:
  EveryRefusal() {
    EXPECT_TRUE(half_run_.extend(std::span(prompt_).first(20)));
    EXPECT_TRUE(reserved_->reserve(7));
    EXPECT_TRUE(with_tail_.extend(tokens_from(700, 21)));
    auto lookup = engine_.segment({.tokens = tokens_from(8000, 20), .tenant = "a"});
    builder_.emplace(std::move(*lookup->builder));
    EXPECT_TRUE(builder_->sequence().reserve(5));
    Tracked behind = start(engine_, {.tenant = "a"});
    EXPECT_TRUE(behind.attach(segment_, identity_word({.tenant = "a"}), following_));
    EXPECT_TRUE(behind.extend(std::span(following_).first(32)));
  }

  // `call` gives the code of the refusal, or nothing if it was not refused.
  void expect_no_trace(const char* what, ErrorCode code,
                       const std::function<std::optional<ErrorCode>()>& call) {
    const Everything before(engine_);
    const auto refused = call();
    ASSERT_TRUE(refused) << what << " was not refused";
    EXPECT_EQ(*refused, code) << what;
    EXPECT_TRUE(Everything(engine_) == before) << what << ": " << in_words(counts_of(engine_));
    expect_sound(engine_);
  }

  template <class T>
  static std::optional<ErrorCode> code_of(const Result<T>& result) {
    if (result) return std::nullopt;
    return result.error().code;
  }

  // One block of every group, of 2 or 3 layers.
  const std::uint64_t blocks_bytes_ = std::uint64_t{16} * 32 * (GetParam() ? 3 : 2);
  Engine engine_ =
      open_engine(GetParam() ? two_group_model() : grouped_model(), 40,
                  {.step_tokens = 600, .tenant_quotas = {{"poor", 3 * blocks_bytes_}}});
  std::vector<TokenId> prompt_ = tokens_from(1, 40);
  std::vector<TokenId> following_ = tokens_from(500, 33);
  Segment segment_ = segment_of(engine_, {.tokens = tokens_from(9000, 20), .tenant = "a"});
  Segment foreign_ = segment_of(engine_, {.tokens = tokens_from(9000, 20), .tenant = "b"});
  Tracked half_run_ = start(engine_, {.tokens = prompt_, .tenant = "a"});
  Tracked reserved_ = start(engine_, {.tenant = "a"});
  Tracked with_tail_ = start(engine_, {.tenant = "a"});
  std::optional<SegmentBuilder> builder_;
};

INSTANTIATE_TEST_SUITE_P(Groups, EveryRefusal, testing::Values(false, true),
                         [](const auto& made) { return made.param ? "Two" : "One"; });

TEST_P(EveryRefusal, OfWhatIsWrongLeavesNoTrace) {
  const std::vector<ExtraId> outside = {{40, {}}};
  const StartRequest bad = {.tokens = prompt_, .tenant = "a", .extra = outside};
  const std::vector<TokenId> many(8, 1);
  using enum ErrorCode;
  expect_no_trace("start", Invalid, [&] { return code_of(engine_.start(bad)); });
  expect_no_trace("segment", Invalid, [&] { return code_of(engine_.segment(bad)); });
  expect_no_trace("why", Invalid, [&] { return code_of(engine_.why(bad)); });
  expect_no_trace("empty segment", Invalid, [&] { return code_of(engine_.segment({})); });
  expect_no_trace("step", Invalid, [&] { return code_of(reserved_->reserve(594)); });
  expect_no_trace("commit", Invalid, [&] { return code_of(reserved_->commit(many)); });
  expect_no_trace("fork", Invalid, [&] { return code_of(reserved_->fork()); });
  expect_no_trace("attach", Invalid, [&] { return code_of(reserved_->attach(segment_)); });
  expect_no_trace("early", Invalid, [&] { return code_of(half_run_->attach(segment_)); });
  expect_no_trace("foreign", Invalid, [&] { return code_of(with_tail_->attach(foreign_)); });
  expect_no_trace("seal", Invalid, [&] { return code_of(builder_->seal()); });
  expect_no_trace("builder fork", Invalid, [&] { return code_of(builder_->sequence().fork()); });
  expect_no_trace("nested", Invalid,
                  [&] { return code_of(builder_->sequence().attach(segment_)); });
  ASSERT_TRUE(half_run_->reserve(8));
  expect_no_trace("prompt", Invalid, [&] { return code_of(half_run_->commit(many)); });
}

TEST_P(EveryRefusal, ForWantOfBlocksLeavesNoTrace) {
  store(engine_, {.tokens = tokens_from(3000, 64), .tenant = "a"});  // could be evicted
  expect_no_trace("reserve", ErrorCode::OutOfBlocks,
                  [&] { return code_of(with_tail_->reserve(600)); });
  EXPECT_EQ(engine_.stats().blocks.refused_for_blocks, 1u);
}

TEST_P(EveryRefusal, ForAQuotaLeavesNoTrace) {
  const std::vector<TokenId> prompt = tokens_from(1, 33);
  const StartRequest request = {.tokens = prompt, .tenant = "poor"};
  const Segment segment = segment_of(engine_, {.tokens = tokens_from(9000, 20), .tenant = "poor"});
  store(engine_, request);
  ASSERT_EQ(engine_.usage("poor").held_bytes, 0u) << "a segment is held by no sequence";
  Tracked sequence = start(engine_, {.tenant = "poor"});
  ASSERT_TRUE(sequence.extend(tokens_from(800, 17)));
  ASSERT_EQ(engine_.usage("poor").held_bytes, 2 * blocks_bytes_);
  using enum ErrorCode;
  expect_no_trace("start", OutOfBlocks, [&] { return code_of(engine_.start(request)); });
  expect_no_trace("reserve", OutOfBlocks, [&] { return code_of(sequence->reserve(64)); });
  expect_no_trace("attach", OutOfBlocks, [&] { return code_of(sequence->attach(segment)); });
  expect_no_trace("fork", OutOfBlocks, [&] { return code_of(sequence->fork()); });
  EXPECT_EQ(engine_.usage("poor").refusals, 4u);
}

}  // namespace
}  // namespace emblema
