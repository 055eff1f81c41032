// The operations and checks of RandomRun (random_operations_testing.h).
#pragma once

#include "emblema/session/random_operations_testing.h"

namespace emblema::session_testing {

inline void RandomRun::perform(Operation operation) {
  const auto some_live = [this]() -> Live* {
    return lives_.empty() ? nullptr : &lives_[below(lives_.size())];
  };
  Live* live = some_live();
  switch (operation) {
    case kStart:
      return start_sequence();
    case kRun:
      return live == nullptr ? void() : run_prompt(*live);
    case kReserve:
      return live == nullptr ? void() : reserve(*live, below(kStepTokens + 3));
    case kWrite:
      return live == nullptr ? void() : write(*live);
    case kCommit:
      return live == nullptr ? void() : commit(*live);
    case kCancel:
      if (live == nullptr) return;
      live->tracked.cancel();
      live->written.clear();
      return;
    case kTruncate:
      return live == nullptr ? void() : truncate(*live);
    case kFork:
      return live == nullptr ? void() : fork(*live);
    case kSegment:
      return make_segment(some_identity(), prompt());
    case kScene:
      return play_scene();
    case kAttach:
      return live == nullptr ? void() : attach_some(*live);
    case kRelease:
      if (live == nullptr) return;
      lives_.erase(lives_.begin() + (live - lives_.data()));
      return;
    case kReleaseSegment:
      if (!segments_.empty()) {
        segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(below(segments_.size())));
      }
      return;
    case kPin:
      return pin();
    case kUnpin:
      if (!pins_.empty()) {
        pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(below(pins_.size())));
      }
      return;
    case kSealPending:
      engine_.seal_pending(below(8));
      return;
    case kEvict:
      engine_.evict_idle();
      return;
    case kPressure:
      return press();
    case kOperations:
      return;
  }
}

inline void RandomRun::start_sequence() {
  start_with(some_identity(), prompt());
}

inline void RandomRun::start_with(std::size_t identity, std::vector<TokenId> tokens) {
  if (lives_.size() >= kLivesMax) lives_.erase(lives_.begin());
  std::vector<std::uint64_t> words = words_of(root_word(identity), tokens);
  const auto boundaries = boundaries_of(words, tokens.empty() ? 0 : tokens.size() - 1);
  const FindModel::Bounds bounds = model_.bounds(boundaries);
  ask_why(identity, tokens, boundaries);
  auto sequence = engine_.start(request_of(identity, tokens));
  if (!sequence) return expect(false, "start: " + sequence.error().message);
  const std::uint64_t hit = sequence->hit_tokens();
  expect(hit == why_hit_, "why() said " + std::to_string(why_hit_) + " tokens, start() found " +
                              std::to_string(hit));
  expect(hit % kBlock == 0 && hit == sequence->tokens(), "a hit ends inside a block");
  expect_within(bounds, hit / kBlock, "start");
  if (!problem_.empty()) return;
  if (hit > 0) model_.seen(boundaries[hit / kBlock - 1]);
  words.resize(hit + 1);
  Tracked tracked(engine_, std::move(*sequence), byte_context(identity), tokens);
  std::vector<TokenId> found(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(hit));
  lives_.push_back(
      {std::move(tracked), identity, std::move(words), std::move(tokens), {}, std::move(found)});
}

// What most requests do: the rest of the prompt, step by step.
inline void RandomRun::run_prompt(Live& live) {
  while (problem_.empty() && live.part_tokens() < live.expected.size()) {
    const std::uint64_t reserved = live.tracked->reserved_tokens();
    const std::uint64_t rest = live.expected.size() - live.part_tokens();
    if (rest > reserved) {
      const std::uint64_t free_step = kStepTokens - reserved;
      const std::uint64_t before = live.tracked->reserved_tokens();
      reserve(live, std::min(rest - reserved, free_step));
      if (live.tracked->reserved_tokens() == before) return;
      note_evictions();
    }
    write(live);
    const std::uint64_t tokens = live.part_tokens();
    commit(live);
    if (live.part_tokens() == tokens) return;
  }
}

inline void RandomRun::reserve(Live& live, std::uint64_t n) {
  before_ = counts_of(engine_);
  const std::uint64_t reserved = live.tracked->reserved_tokens();
  const Status ok = live.tracked->reserve(n);
  if (reserved + n > kStepTokens) {
    return expect_refused(ok.has_value(), ok ? ErrorCode::Io : ok.error().code, ErrorCode::Invalid,
                          "a step too large");
  }
  if (ok) return look_for_foreign_rows(live);
  expect_refused(false, ok.error().code, ErrorCode::OutOfBlocks, "reserve");
  expect(live.tracked->reserved_tokens() == reserved, "a refused reserve reserved");
  bool short_of_blocks = false;
  for (const BlockCounts& counts : before_) {
    short_of_blocks = short_of_blocks || counts.free < ceil_div(n, kBlock) + 1;
  }
  expect(short_of_blocks, "refused with enough free blocks: " + in_words(before_));
}

inline void RandomRun::write(Live& live) {
  const std::uint64_t reserved = live.tracked->reserved_tokens();
  std::vector<TokenId> ids;
  const std::uint64_t count = below(4) == 0 ? below(reserved + 1) : reserved;
  while (ids.size() < count) {
    const std::uint64_t at = live.part_tokens() + ids.size();
    ids.push_back(at < live.expected.size() ? live.expected[at] : hot_token());
  }
  const bool noisy = below(100) < noise_percent_;
  live.tracked.write(ids, noisy ? 1 : 0);
  live.written = std::move(ids);
  remember_rows(live);
}

inline void RandomRun::commit(Live& live) {
  before_ = counts_of(engine_);
  const std::uint64_t reserved = live.tracked->reserved_tokens();
  if (below(16) == 0) {
    const std::vector<TokenId> too_many(reserved + 1, 1);
    const Status ok = live.tracked->commit(too_many);
    return expect_refused(ok.has_value(), ok ? ErrorCode::Io : ok.error().code, ErrorCode::Invalid,
                          "a commit of too much");
  }
  if (below(16) == 0 && reserved > 0 && live.part_tokens() < live.expected.size()) {
    const std::vector<TokenId> other = {live.expected[live.part_tokens()] + 1};
    const Status ok = live.tracked->commit(other);
    return expect_refused(ok.has_value(), ok ? ErrorCode::Io : ok.error().code, ErrorCode::Invalid,
                          "a commit beside the prompt");
  }
  const std::uint64_t count = below(3) == 0 ? below(live.written.size() + 1) : live.written.size();
  const std::vector<TokenId> ids(live.written.begin(),
                                 live.written.begin() + static_cast<std::ptrdiff_t>(count));
  const Status ok = live.tracked.commit(ids);
  if (!ok) return expect(false, "commit: " + ok.error().message);
  live.written.clear();
  for (const TokenId id : ids) {
    live.words.push_back(after_token(live.words.back(), id));
    live.tokens.push_back(id);
    if (live.part_tokens() % kBlock == 0) model_.stored(live.words.back());
  }
}

// Within the last part. Behind segments, a window may have lost the rows: then nothing changes.
inline void RandomRun::truncate(Live& live) {
  before_ = counts_of(engine_);
  const std::uint64_t kept = below(live.part_tokens() + 1);
  const std::uint64_t begin = live.tracked->tokens() - live.part_tokens();
  const auto again = live.tracked.truncate(begin + kept);
  if (!again) {
    expect(setup_.two_groups && begin > 0, "truncate: " + again.error().message);
    return expect_refused(false, again.error().code, ErrorCode::Invalid, "truncate");
  }
  ++met_.truncations;
  live.written.clear();
  live.expected.clear();
  if (again->count > 0) {
    std::vector<TokenId> ids = live.tokens;
    ids.resize(kept);
    const auto boundaries = boundaries_of(live.words, kept);
    expect_within(model_.bounds(boundaries), again->first / kBlock, "truncate");
    live.expected = std::move(ids);
  }
  live.words.resize(again->first - begin + 1);
  live.tokens.resize(again->first - begin);
  if (begin > 0 || below(2) == 0) return;
  // Goes on, and somebody says the same: found is what was said, not what was taken back.
  note_evictions();
  reserve(live, kBlock + below(8));
  if (problem_.empty()) write(live);
  if (problem_.empty()) commit(live);
  note_evictions();
  if (problem_.empty()) start_with(live.identity, std::vector<TokenId>(live.tokens));
}

inline void RandomRun::fork(Live& live) {
  if (below(4) != 0) {
    live.tracked.cancel();
    live.written.clear();
  }
  before_ = counts_of(engine_);
  if (live.tracked->reserved_tokens() > 0) {
    const auto child = live.tracked->fork();
    return expect_refused(child.has_value(), child ? ErrorCode::Io : child.error().code,
                          ErrorCode::Invalid, "a fork with rows reserved");
  }
  if (lives_.size() >= 2 * kLivesMax) return;
  Live child{live.tracked.fork(), live.identity, live.words, live.expected, {}, live.tokens};
  const auto parent = static_cast<std::size_t>(&live - lives_.data());
  lives_.push_back(std::move(child));
  ++met_.forks;
  if (below(2) == 0) return;
  for (const std::size_t one : {parent, lives_.size() - 1}) {
    note_evictions();
    reserve(lives_[one], 1 + below(4));
    if (problem_.empty()) write(lives_[one]);
    if (problem_.empty()) commit(lives_[one]);
  }
}

inline void RandomRun::make_segment(std::size_t identity, const std::vector<TokenId>& tokens) {
  before_ = counts_of(engine_);
  if (tokens.empty()) {
    const auto lookup = engine_.segment(request_of(identity, tokens));
    return expect_refused(lookup.has_value(), lookup ? ErrorCode::Io : lookup.error().code,
                          ErrorCode::Invalid, "a segment of nothing");
  }
  const auto words = words_of(segment_root(identity, tokens), tokens);
  auto boundaries = boundaries_of(words, tokens.size());
  if (tokens.size() % kBlock != 0) boundaries.push_back(words.back());
  const FindModel::Bounds bounds = model_.bounds(boundaries);
  auto lookup = engine_.segment(request_of(identity, tokens));
  if (!lookup) return expect(false, "segment: " + lookup.error().message);
  if (lookup->found) {
    expect_within(bounds, boundaries.size(), "segment");
    model_.seen(words.back());
    ++met_.segments_found;
    if (segments_.size() >= 3) segments_.erase(segments_.begin());
    segments_.push_back({std::move(*lookup->found), identity, words.back()});
    return;
  }
  expect_within(bounds, lookup->builder->sequence().hit_tokens() / kBlock, "builder");
  expect(bounds.low < boundaries.size(), "a stored segment was not found");
  if (problem_.empty()) build(*lookup->builder, identity, tokens, words);
}

// Some are given up on the way.
inline void RandomRun::build(SegmentBuilder& builder, std::size_t identity,
                             std::span<const TokenId> tokens,
                             const std::vector<std::uint64_t>& words) {
  Sequence& sequence = builder.sequence();
  const std::vector<RowTruth> truth = truth_of(byte_context(identity), tokens);
  while (sequence.tokens() < tokens.size()) {
    const std::uint64_t at = sequence.tokens();
    const std::uint64_t n = 1 + below(std::min(kStepTokens, tokens.size() - at));
    if (below(16) == 0 || !sequence.reserve(n)) return;
    write_rows(engine_, sequence, std::span(truth).subspan(at, n));
    if (below(32) == 0) return;
    const Status ok = sequence.commit(tokens.subspan(at, n));
    note_evictions();
    if (!ok) return expect(false, "commit of a segment: " + ok.error().message);
    for (std::uint64_t i = at + 1; i <= at + n; ++i) {
      if (i % kBlock == 0) model_.stored(words[i]);
    }
  }
  auto sealed = builder.seal();
  if (!sealed) return expect(false, "seal of a segment: " + sealed.error().message);
  model_.stored(words.back());
  ++met_.segments_built;
  if (segments_.size() >= 3) segments_.erase(segments_.begin());
  segments_.push_back({std::move(*sealed), identity, words.back()});
}

// Starts, attaches and goes on like others do: twice in a row sometimes, or on an empty sequence.
inline void RandomRun::play_scene() {
  Scene& scene = scenes_[below(scenes_.size())];
  if (scene.segment.empty() || below(12) == 0) {
    scene = {prompt(), prompt(), prompt()};
    if (below(3) == 0) scene.prompt.clear();
    if (scene.segment.empty()) scene.segment.push_back(hot_token());
  }
  if (!scene.prompt.empty() && below(6) == 0) scene.prompt.back() = hot_token();
  const std::size_t identity = some_identity();
  make_segment(identity, scene.segment);
  if (!problem_.empty() || segments_.empty()) return;
  note_evictions();
  start_with(identity, scene.prompt);
  if (!problem_.empty()) return;
  run_prompt(lives_.back());
  note_evictions();
  const std::uint64_t times = 1 + (below(4) == 0 ? 1 : 0);
  for (std::uint64_t i = 0; i < times && problem_.empty(); ++i) {
    attach(lives_.back(), segments_.back(), scene.following);
    if (problem_.empty()) run_prompt(lives_.back());
    note_evictions();
  }
}

inline void RandomRun::attach_some(Live& live) {
  if (segments_.empty()) return;
  attach(live, segments_[below(segments_.size())],
         below(2) == 0 ? prompt() : std::vector<TokenId>{});
}

inline void RandomRun::attach(Live& live, const HeldSegment& held, std::vector<TokenId> following) {
  before_ = counts_of(engine_);
  if (held.identity != live.identity || live.tracked->reserved_tokens() > 0 ||
      live.part_tokens() < live.expected.size()) {
    const auto hit = live.tracked->attach(held.segment);
    return expect_refused(hit.has_value(), hit ? ErrorCode::Io : hit.error().code,
                          ErrorCode::Invalid, "attach");
  }
  if (live.tracked->tokens() > 200) return;
  const std::uint64_t link =
      mix(after_segment(live.words.back(), held.word, live.tracked->tokens()), 79);
  std::vector<std::uint64_t> words = words_of(link, following);
  const auto boundaries = boundaries_of(words, following.empty() ? 0 : following.size() - 1);
  const FindModel::Bounds bounds = model_.bounds(boundaries);
  const auto hit = live.tracked.attach(held.segment, byte_context(live.identity), following);
  if (!hit) return expect(false, "attach: " + hit.error().message);
  expect_within(bounds, *hit / kBlock, "attach");
  ++met_.attaches;
  met_.tokens_hit_behind_segments += *hit;
  if (!problem_.empty()) return;
  if (*hit > 0) model_.seen(boundaries[*hit / kBlock - 1]);
  words.resize(*hit + 1);
  live.words = std::move(words);
  live.tokens.assign(following.begin(), following.begin() + static_cast<std::ptrdiff_t>(*hit));
  live.expected = std::move(following);
  live.written.clear();
}

inline void RandomRun::pin() {
  const std::size_t identity = some_identity();
  const std::vector<TokenId> tokens = prompt();
  const auto words = words_of(root_word(identity), tokens);
  const auto boundaries = boundaries_of(words, tokens.size());
  const FindModel::Bounds bounds = model_.bounds(boundaries);
  Pin pin = engine_.pin(request_of(identity, tokens));
  expect_within(bounds, pin.tokens() / kBlock, "pin");
  if (!problem_.empty() || pin.tokens() == 0) return;
  if (pins_.size() >= 2) pins_.erase(pins_.begin());
  const std::uint64_t word = boundaries[pin.tokens() / kBlock - 1];
  model_.seen(word);
  pins_.push_back({std::move(pin), word, identity, tokens});
}

// Takes memory until none is left.
inline void RandomRun::press() {
  if (below(4) != 0) return;
  auto sequence = engine_.start({.tokens = {}, .tenant = identities_[below(2)].tenant});
  Status ok;
  while (ok) {
    sequence->cancel();
    ok = sequence->reserve(kStepTokens);
    if (!ok) break;
    const std::vector<TokenId> ids = [&] {
      std::vector<TokenId> fresh(kStepTokens);
      for (TokenId& id : fresh) id = static_cast<TokenId>(10'000 + below(1'000'000));
      return fresh;
    }();
    write_rows(engine_, *sequence, truth_of(random_(), ids, sequence->tokens()));
    note_evictions();
    if (const Status done = sequence->commit(ids); !done) {
      return expect(false, "commit under pressure: " + done.error().message);
    }
    if (engine_.counts(0).holds > 2000) break;
    if (setup_.two_groups && sequence->tokens() > 400) break;
  }
  if (!ok) expect(ok.error().code == ErrorCode::OutOfBlocks, ok.error().message);
}

// ---- checking ----------------------------------------------------------------------------------

// Which words surely survived: what a pin, a segment or a running sequence keeps. Their blocks keep
// the entries that find them; but deferred sharing may have led an entry to an equal block that
// nobody holds, and then only a pin, or in a growing group a sequence's place, keeps the entry.
inline void RandomRun::note_evictions() {
  const std::uint64_t evicted = engine_.stats().blocks.evicted_entries;
  if (evicted == evicted_) return;
  evicted_ = evicted;
  const bool led_elsewhere = setup_.seal == SealMode::kDeferred;
  std::vector<std::uint64_t> held;
  for (const HeldPin& pin : pins_) held.push_back(pin.word);
  for (const HeldSegment& segment : segments_) {
    if (!led_elsewhere) held.push_back(segment.word);
  }
  for (const Live& live : lives_) {
    const std::uint64_t tokens = live.part_tokens();
    if (!setup_.two_groups) {
      for (std::uint64_t at = kBlock; at <= tokens; at += kBlock) held.push_back(live.words[at]);
    } else if (tokens > 0 && tokens % kBlock == 0 && noise_percent_ == 0 && !led_elsewhere) {
      // In a window group only what the window before this very boundary touches is held, and
      // not even that where the block that is found is another's (equal key, other bytes).
      held.push_back(live.words.back());
    }
  }
  model_.evicted(held);
  for (const HeldPin& held_pin : pins_) {
    const Pin again = engine_.pin(request_of(held_pin.identity, held_pin.tokens));
    expect(again.tokens() >= held_pin.pin.tokens(), "what was pinned was evicted");
  }
}

inline void RandomRun::recount() {
  for (std::uint32_t g = 0; g < engine_.layout().groups.size(); ++g) {
    std::uint64_t holds = 0;
    std::set<std::pair<std::uint32_t, std::uint64_t>> distinct;
    const auto add = [&](const std::vector<BlockId>& blocks) {
      holds += blocks.size();
      for (const BlockId block : blocks) distinct.emplace(block.index, block.generation);
    };
    for (const Live& live : lives_) add(live.tracked.sequence().held_blocks(g));
    for (const HeldSegment& held : segments_) add(held.segment.held_blocks(g));
    const BlockCounts counts = engine_.counts(g);
    const std::uint64_t block_bytes = engine_.layout().groups[g].block_bytes;
    expect(counts.holds == holds, std::to_string(holds) + " holds; counted " + in_words(counts));
    expect(counts.open + counts.referenced == distinct.size(),
           std::to_string(distinct.size()) + " blocks in use; counted " + in_words(counts));
    expect(counts.free + counts.open + counts.referenced + counts.idle == counts.capacity,
           "classes do not add up: " + in_words(counts));
    expect(counts.logical_bytes == holds * block_bytes, "logical bytes");
    expect(counts.physical_bytes == distinct.size() * block_bytes, "physical bytes");
  }
  recount_tenants();
}

inline void RandomRun::read_back(bool all) {
  if (lives_.empty()) return;
  const std::size_t one = below(lives_.size());
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    if (!all && i != one) continue;
    const std::string wrong = lives_[i].tracked.first_wrong_byte();
    expect(wrong.empty(), "sequence " + std::to_string(i) + " " + wrong);
  }
}

inline void RandomRun::remember_rows(const Live& live) {
  if (owner_of_row_.size() > 200'000) owner_of_row_.clear();
  const std::uint64_t first = live.tracked.sequence().tokens();
  for (const LayerGeometry& layer : engine_.geometry().layers()) {
    const auto view =
        live.tracked.sequence().rows(layer.index, StreamRole::kKv, first, live.written.size());
    for (std::uint64_t c = 0; view && c < view->size(); ++c) {
      const RowChunk chunk = (*view)[c];
      for (std::uint64_t r = 0; r < chunk.rows; ++r) {
        std::uint64_t word = 0;
        std::memcpy(&word, chunk.data + r * chunk.row_bytes, sizeof(word));
        owner_of_row_.emplace(word, identities_[live.identity].tenant);
      }
    }
  }
}

// Fresh memory may hold what this tenant left there, and nobody else's rows.
inline void RandomRun::look_for_foreign_rows(Live& live) {
  if (setup_.across_tenants) return;
  const std::uint64_t first = live.tracked->tokens();
  const std::uint64_t count = live.tracked->reserved_tokens();
  for (const LayerGeometry& layer : engine_.geometry().layers()) {
    const auto view = live.tracked->rows(layer.index, StreamRole::kKv, first, count);
    for (std::uint64_t c = 0; view && c < view->size(); ++c) {
      const RowChunk chunk = (*view)[c];
      for (std::uint64_t r = 0; r < chunk.rows; ++r) {
        std::uint64_t word = 0;
        std::memcpy(&word, chunk.data + r * chunk.row_bytes, sizeof(word));
        const auto owner = owner_of_row_.find(word);
        if (owner == owner_of_row_.end()) continue;
        expect(owner->second == identities_[live.identity].tenant,
               "a row of tenant '" + owner->second + "' in memory handed to another");
      }
    }
  }
}

inline std::string RandomRun::describe(std::uint64_t step, Operation operation) const {
  return "EMBLEMA_SEED=" + std::to_string(setup_.seed) + ": step " + std::to_string(step) +
         ", operation " + std::to_string(operation) + ": " + problem_;
}

}  // namespace emblema::session_testing
